/* SPDX-License-Identifier: Apache-2.0
 *
 * The seam between the host side of the Vulkan backend and its kernels.
 *
 * A planner (ops_<family>.c) turns one line of a program into dispatches, or several that fusion.c made one: which
 * shader, how many workgroups, which tensors, which push constants. It knows capabilities and limits, and
 * nothing of Vulkan. The host side (executable.c) turns dispatches into descriptor sets, barriers and commands; it
 * knows nothing of operators.
 *
 * Layout of every shader: set 0, bindings 0 .. n-1, all storage buffers, one per operand and in the order of the
 * operands. A binding covers the whole storage of its tensor (its size rounded up to 4 bytes: every buffer has spare
 * bytes behind it, so that 32-bit access to an odd tail of 16-bit or 8-bit elements stays inside). Where a view starts
 * goes into the push constants, in elements. An optional operand that is absent still needs a descriptor: name any
 * valid tensor, and say so in the push constants.
 *
 * Wide shaders. A storage beyond tsr_vk_caps.max_binding does not fit into a binding. Where wide is 1 the planner then
 * picks the shader compiled with -DWIDE=1, in which operands are reached through 64-bit addresses
 * (GL_EXT_buffer_reference_uvec2), read from one more binding behind the operands' (binding n): uvec2 address[12],
 * operand i's storage starting at address[i]. Bindings 0 .. n-1 of a wide dispatch exist, but cover at most max_binding
 * bytes.
 */
#ifndef TESSERA_BACKENDS_VULKAN_KERNEL_H
#define TESSERA_BACKENDS_VULKAN_KERNEL_H

#include "backends/vulkan/tuning.h"
#include "backends/vulkan/variants.h"
#include "shaders/contract/contract.h"
#include "tessera/backend.h"

#define TSR_VK_MAX_OPERANDS   12
#define TSR_VK_MAX_DISPATCHES 32 /* of one line */
#define TSR_VK_MAX_SHAPES     16

/* A product of cooperative matrices that a subgroup makes: a [m, k] by b [k, n]. */
typedef struct tsr_vk_shape {
  int32_t dtype; /* of a and b: TSR_F16, TSR_BF16 (sums in f32), TSR_I8 (sums in i32) */
  uint32_t m;
  uint32_t n;
  uint32_t k;
} tsr_vk_shape;

/* What a planner may know of a device. Data only: no vendor, no driver. */
typedef struct tsr_vk_caps {
  uint64_t max_binding;        /* bytes of the largest storage buffer binding */
  uint32_t max_invocations;    /* in one workgroup */
  uint32_t max_groups[3];      /* workgroups of one dispatch, per axis */
  uint32_t max_size[3];        /* of a workgroup, per axis */
  uint32_t shared_memory;      /* bytes of one workgroup */
  uint32_t subgroup_size;      /* 1 if subgroups cannot be used in compute shaders */
  int32_t subgroup_arithmetic; /* 1: subgroupAdd and its sisters work in compute shaders */
  int32_t subgroup_shuffle;    /* 1: subgroupShuffle works in compute shaders */
  int32_t wide;                /* 1: buffer addresses are usable */
  int32_t unified;             /* 1: device memory is host memory */
  int32_t fusion;              /* 1: neighbouring lines may become one */
  int32_t dot;                 /* 1: packed products of four bytes can be had */
  int32_t fast_dot;            /* 1: and are an instruction of the device */
  int32_t compute_like_cpu;    /* 1: a CPU executes it: prefer long loops to shared memory and barriers */
  int32_t forced;              /* TSR_VK_VARIANT_*: taken wherever it can be had */
  uint32_t subgroup_sizes[2];  /* the least and the largest that a dispatch may ask for, powers of two; 0: none */
  uint32_t max_subgroups;      /* of a workgroup whose subgroup size was asked for */
  int32_t n_shapes;            /* of cooperative matrices; 0: the device or the build has none */
  tsr_vk_shape shapes[TSR_VK_MAX_SHAPES]; /* of each type the largest first */
  const tsr_vk_tuning *tuning;            /* the best variants, as measured; NULL: none were */
} tsr_vk_caps;

/* One SPIR-V module, a row of the table in shaders/meson.build (shaders/pack.c writes them). */
typedef struct tsr_vk_shader {
  const char *name;            /* "matmul_f16_wide"; also the debugger's name of its pipelines */
  const unsigned char *packed; /* the module, deflated as zlib does; NULL: its compiler did not know what it needs */
  uint32_t packed_bytes;
  uint32_t size_bytes; /* of the module */
  uint8_t n_bindings;  /* operands, the address table of a wide shader left out */
  uint8_t is_subgroup; /* 1: a workgroup of it is exactly one subgroup */
  uint16_t push_bytes; /* of its push constants, as its module has them */
  uint32_t constants;  /* bit i: its module has specialisation constant i */
  int32_t long_form;   /* the shader that does the same by loads of 64-bit numbers; 0: there is none */
} tsr_vk_shader;

/* Generated at build time with the enum of its indices. */
extern const tsr_vk_shader tsr_vk_shaders[];
extern const int32_t tsr_vk_shader_count;

/* tsr_vk_operand.tensor: the scratch memory of the line, instead of a tensor */
#define TSR_VK_SCRATCH (-1)

typedef struct tsr_vk_operand {
  int32_t tensor; /* index in tsr_program_desc.tensors, or TSR_VK_SCRATCH; not 0 */
  int32_t write;  /* 1: the dispatch writes into it (and may read it); 0: reads only */
} tsr_vk_operand;

typedef struct tsr_vk_dispatch {
  int32_t variant; /* tsr_vk_plan.variant */
  int32_t shader;  /* index into tsr_vk_shaders */
  int32_t wide;    /* 1: a wide shader: the host fills its address table */
  /* 1: uses what earlier dispatches of the same line wrote, or overwrites what they use; 0: touches nothing that
   * they write, so no barrier is needed between them */
  int32_t after;
  /* 1: leaves in scratch, and nowhere else, what follows from the tensors that it reads alone: until one of these
   * changes, or scratch, another dispatch like it can be left out */
  int32_t pure;
  uint32_t groups[3];                          /* workgroups per axis, each at least 1 */
  int32_t n_operands;                          /* equals the shader's n_bindings */
  tsr_vk_operand operand[TSR_VK_MAX_OPERANDS]; /* binding i */
  int32_t n_spec;
  uint32_t spec[TSR_VK_MAX_SPEC]; /* specialisation constants 0 .. n_spec-1 */
  uint32_t specified;             /* bit i: constant i was set; the others have no meaning */
  uint32_t subgroup_size; /* invocations of each subgroup, all of them there: within tsr_vk_caps.subgroup_sizes, and
                           * local_size_x is a multiple; 0: as the driver likes */
  uint32_t push_bytes;    /* a multiple of 4, equals the shader's push_bytes */
  uint8_t push[TSR_VK_MAX_PUSH];
  int64_t scratch_bytes; /* of the line's scratch memory, from its start on, that the dispatch may touch */
  int64_t kept_bytes;    /* of that, from the start on, what it does not write to */
  double work;           /* floating-point operations or elements moved, roughly (pace.c) */
  uint32_t tile[2];      /* of a product: rows and columns of a workgroup's tile; 0: the dispatch is none */
  int32_t divided;       /* 1, set by the host: more than one submit executes it (pace.c) */
} tsr_vk_dispatch;

/* The dispatches of one line, or of several that are computed as one. */
typedef struct tsr_vk_plan {
  int32_t n_lines;       /* of the program, set by tsr_vk_plan_lines */
  int64_t scratch_bytes; /* of the line, contents undefined at its start but for what tsr_vk_left tells of; 0 = none */
  int32_t variant;       /* TSR_VK_VARIANT_* that was taken; TSR_VK_VARIANT_AUTO: there is but one */
  tsr_vk_class class;    /* of a line that has variants to choose from; op 0: it has none */
  int32_t n_dispatches;
  tsr_vk_dispatch dispatch[TSR_VK_MAX_DISPATCHES];
} tsr_vk_plan;

/* Fills *plan (whatever it held) for one line. Returns 1, or 0 if the device cannot execute the line: this is the
 * answer of `supports`, so storages need not be placed and only their sizes count. A line whose results are empty
 * plans no dispatch. Dispatches run in order. Never fails otherwise, allocates nothing. Any thread. */
int tsr_vk_plan_line(const tsr_vk_caps *caps, const tsr_program_desc *program, int32_t line, tsr_vk_plan *plan);

/* What the lines planned so far leave in scratch for those behind them. Zeros at the beginning of a program. */
typedef struct tsr_vk_left {
  tsr_vk_dispatch dispatch; /* whose result lies there; pure is 0: none's does */
} tsr_vk_left;

/* The same for line `line` and as many behind it as become one with it, plan->n_lines in all. The program is being
 * compiled: storages are placed, in `buffers` (NULL: not yet; each counts as apart from all others), and lines are
 * planned in order, with one *left. Operands may come from any of the lines. */
int tsr_vk_plan_lines(const tsr_vk_caps *caps, const tsr_program_desc *program, tsr_backend_buffer *const *buffers,
                      int32_t line, tsr_vk_left *left, tsr_vk_plan *plan);

/* As tsr_fusion_extension.operands_until. */
int32_t tsr_vk_operands_until(const tsr_vk_caps *caps, const tsr_program_desc *program, int32_t line);

#endif
