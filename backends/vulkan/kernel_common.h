/* SPDX-License-Identifier: Apache-2.0
 *
 * What the planners share: views as shaders want them, dispatches, grids.
 *
 * A planner fills in shader, operands, specialisation and push constants of a dispatch, then calls tsr_vk_finish,
 * which folds the grid and turns to the wide one where a storage asks for it.
 */
#ifndef TESSERA_BACKENDS_VULKAN_KERNEL_COMMON_H
#define TESSERA_BACKENDS_VULKAN_KERNEL_COMMON_H

#include "backends/vulkan/kernel.h"
#include "shaders/shaders.h"

/* The topk of a product's result, or of the log_softmax of that. */
typedef struct tsr_vk_topk {
  int32_t k; /* 0: none */
  int32_t logarithm;
  int32_t values; /* tensors */
  int32_t indices;
  int32_t state;          /* takes the indices, too, if k is 1; 0: none does */
  uint32_t candidates_at; /* set by the planner: words into scratch */
  uint32_t lists;         /* likewise: lists of candidates of a row */
} tsr_vk_topk;

/* The lines around a product with few rows: matmul_fused.c. Tensors are 0 where they are absent. */
typedef struct tsr_vk_around {
  const tsr_line_desc *norm; /* whose result the product reads; NULL: none */
  int32_t x;                 /* what the norm reads, or the product */
  int32_t addend;            /* added to x first, of its extents; TSR_VK_SCRATCH: the sum of `parts` in scratch */
  uint32_t parts;            /* as attention with its output leaves them, one for each head of a row */
  uint32_t parts_at;         /* words into scratch */
  int32_t sum;               /* takes x + addend */
  int32_t normed;            /* takes the norm's result */
  const tsr_line_desc *keys; /* the append lines that read the product's result, NULL: none */
  const tsr_line_desc *values;
} tsr_vk_around;

/* One per line being planned. */
typedef struct tsr_vk_planner {
  const tsr_vk_caps *caps;
  const tsr_program_desc *program;
  const tsr_line_desc *line;
  tsr_vk_plan *plan;

  /* Of lines that became one (fusion.c), as tensors; 0: absent. A planner that does not use them leaves the lines
   * apart. */
  int32_t addend;   /* layernorm, rmsnorm: added to x first, of its extents; matmul: added to the result, contiguous */
  int32_t sum;      /* layernorm, rmsnorm: takes x + addend */
  tsr_vk_topk topk; /* matmul: written instead of the result */
  const tsr_vk_around *around; /* matmul: what is computed with it; NULL: nothing */
  const tsr_line_desc *output; /* attention: the product that reads its result; NULL: none */
  uint32_t output_at;          /* set by the planner: words into scratch, where the parts of that product lie */
  int continues;               /* 1: its dispatches come behind those that the plan has */
  int is_added;                /* set by the planner: the dispatches see to the addend */

  /* Of products by cooperative matrices, which round their factors to f16 or bf16: the result is left rounded in
   * scratch, in row-major order (layernorm, rmsnorm, attention, matmul), and a is there (matmul). */
  int32_t leaves_halves; /* the type; 0: the result is not rounded */
  int keeps_result;      /* with leaves_halves, of a norm: the result is written as it is, too */
  uint32_t halves_at;    /* set by the planner: words into scratch */
  int takes_halves;
  uint32_t a_at;       /* words into scratch */
  int are_halves_seen; /* set by the planner: the dispatches see to both */

  /* Of what continues: what the plan had before. */
  int32_t first_dispatch;
  int64_t first_scratch_bytes;
} tsr_vk_planner;

/* A tensor in 32-bit elements, right-aligned: axis 3 is the last one, missing axes have extent 1 and stride 0. */
typedef struct tsr_vk_view {
  uint32_t offset;
  uint32_t extent[4];
  uint32_t stride[4];
} tsr_vk_view;

/* As tsr_vk_plan_line does, of whatever line the planner is given (planner.c). */
int tsr_vk_plan_one(tsr_vk_planner *planner);

/* Bytes of a tensor's storage, whole words; TSR_VK_SCRATCH: of the plan's scratch. */
uint64_t tsr_vk_storage_bytes(const tsr_vk_planner *planner, int32_t tensor);

/* Each plans the lines of its operators, results not empty. Returns 1, or 0 if the device cannot execute the line. */
int tsr_vk_plan_elementwise(tsr_vk_planner *planner);
int tsr_vk_plan_rotate(tsr_vk_planner *planner);
int tsr_vk_plan_copy(tsr_vk_planner *planner);
int tsr_vk_plan_gather(tsr_vk_planner *planner);
int tsr_vk_plan_embedding(tsr_vk_planner *planner);
int tsr_vk_plan_append(tsr_vk_planner *planner);
int tsr_vk_plan_update(tsr_vk_planner *planner);
int tsr_vk_plan_concat(tsr_vk_planner *planner);
int tsr_vk_plan_matmul(tsr_vk_planner *planner);
int tsr_vk_plan_conv1d(tsr_vk_planner *planner);
int tsr_vk_plan_softmax(tsr_vk_planner *planner); /* and log_softmax */
int tsr_vk_plan_norm(tsr_vk_planner *planner);    /* layernorm, rmsnorm */
int tsr_vk_plan_reduce_sum(tsr_vk_planner *planner);
int tsr_vk_plan_attention(tsr_vk_planner *planner);
int tsr_vk_plan_attention_gradient(tsr_vk_planner *planner);
int tsr_vk_plan_topk(tsr_vk_planner *planner);
int tsr_vk_plan_mask(tsr_vk_planner *planner);
int tsr_vk_plan_mask_gradient(tsr_vk_planner *planner);
int tsr_vk_plan_dropout(tsr_vk_planner *planner);
int tsr_vk_plan_cross_entropy(tsr_vk_planner *planner);
int tsr_vk_plan_cross_entropy_gradient(tsr_vk_planner *planner);
int tsr_vk_plan_softmax_gradient(tsr_vk_planner *planner); /* and log_softmax_gradient */
int tsr_vk_plan_norm_gradient(tsr_vk_planner *planner);    /* layernorm_gradient, rmsnorm_gradient */
int tsr_vk_plan_relative_gradient(tsr_vk_planner *planner);
int tsr_vk_plan_scatter_add(tsr_vk_planner *planner);
int tsr_vk_plan_sum_of_squares(tsr_vk_planner *planner);
int tsr_vk_plan_adam(tsr_vk_planner *planner);

/* What mask and attention share: which parts of the masking are there, and where. */
typedef struct tsr_vk_masking {
  uint32_t present; /* MASK_* (shaders/contract/masking.h) */
  uint32_t lengths_offset;
  uint32_t lengths_stride;
  uint32_t position_offset;
  uint32_t position_stride;
  uint32_t bias_offset; /* in the line's scratch: relative-position biases [heads, 2 reach + 1] */
  uint32_t reach;
} tsr_vk_masking;

/* Reads the masking of a line whose slots additive, lengths, position, relative start at `slot`, for `heads` heads,
 * and adds the dispatches that spread the relative-position table. 0 if the device cannot. */
int tsr_vk_plan_masking(tsr_vk_planner *planner, int32_t slot, uint32_t heads, tsr_vk_masking *masking);

/* Adds the operands lengths, position and scratch, in this order; absent ones are stood in for. scratch: 1: the
 * dispatch uses what earlier ones left there, whether or not the masking does. */
void tsr_vk_read_masking(const tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, int32_t slot,
                         const tsr_vk_masking *masking, int scratch);

/* The factor of what a dropout with that rate keeps. */
float tsr_vk_dropout_scale(float rate);

/* Adds the dispatch that finds out which of rows * length elements the line's dropout keeps, seed in `slot`: one bit
 * each, each row in whole words, in the line's scratch from word *bits_at on. 0 if the device cannot. */
int tsr_vk_plan_dropout_bits(tsr_vk_planner *planner, int32_t slot, uint64_t rows, uint32_t length, uint32_t *bits_at);

const tsr_tensor_desc *tsr_vk_tensor(const tsr_vk_planner *planner, int32_t tensor);
const tsr_tensor_desc *tsr_vk_in(const tsr_vk_planner *planner, int32_t slot);  /* of a slot that is not absent */
const tsr_tensor_desc *tsr_vk_out(const tsr_vk_planner *planner, int32_t slot); /* likewise */
tsr_vk_view tsr_vk_view_of(const tsr_tensor_desc *tensor);

/* The view of input `slot`; of an absent one: zeros. */
tsr_vk_view tsr_vk_view_in(const tsr_vk_planner *planner, int32_t slot);

/* 1 if the scales in input `slot` are those of weights of four bits (tsr_matmul_i4). */
int tsr_vk_has_four_bits(const tsr_vk_planner *planner, int32_t slot);

/* Elements of a tensor; a planned line's fit into 31 bits. */
uint64_t tsr_vk_elements(const tsr_tensor_desc *tensor);

uint64_t tsr_vk_view_elements(const tsr_vk_view *view);

/* 1 if the view is contiguous in row-major order (axes of extent 1 do not matter). */
int tsr_vk_contiguous(const tsr_vk_view *view);

/* How many of its last axes count, as shaders/lib/index.glsl has it: 1, 2 or 4. Those in front have extent 1. */
uint32_t tsr_vk_axes(const tsr_vk_view *view);

/* Merges neighbouring axes of n views of equal extents wherever all their strides allow it. */
void tsr_vk_collapse(tsr_vk_view *views, int32_t n);

/* Prepares views of equal, collapsed extents for access in groups of four along the last axis: succeeds (1) if each
 * is contiguous there, or repeats one element (bit i of *repeat), and starts groups on multiples of four. Extents and
 * strides, and the offset unless it repeats, then count groups. Returns 0, views unchanged, if not. */
int tsr_vk_quads(tsr_vk_view *views, int32_t n, uint32_t *repeat);

/* The same for at most four views none of which may repeat one element. */
int tsr_vk_whole_quads(tsr_vk_view *views, int32_t n);

/* Forgets the line's dispatches and scratch memory, as of a variant that could not be had. */
void tsr_vk_restart(tsr_vk_planner *planner);

/* A new dispatch of the line, push constants copied in; NULL if the line has too many. `shader`: not a wide one. */
tsr_vk_dispatch *tsr_vk_add(tsr_vk_planner *planner, int32_t shader, const void *push, uint32_t push_bytes);

void tsr_vk_read(tsr_vk_dispatch *dispatch, int32_t tensor);  /* the next operand; TSR_VK_SCRATCH too */
void tsr_vk_write(tsr_vk_dispatch *dispatch, int32_t tensor); /* likewise */

/* Sets a specialisation constant (TSR_VK_SPEC_*, shaders/contract). */
void tsr_vk_spec(tsr_vk_dispatch *dispatch, int32_t constant, uint32_t value);

/* Sets those of the workgroup's size: `size` invocations along x. */
void tsr_vk_set_size(tsr_vk_dispatch *dispatch, uint32_t size);

/* Reads input `slot`; where it is absent, the first operand once more. */
void tsr_vk_read_in(const tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, int32_t slot);

/* Reserves scratch memory of the line, for dispatches that are finished later; returns its offset in 32-bit words. */
uint32_t tsr_vk_reserve(tsr_vk_planner *planner, uint64_t words);

/* Finishes a dispatch of `groups` workgroups, which the shader unfolds with group_index(). 0 if it cannot be done. */
int tsr_vk_finish(const tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, uint64_t groups);

/* The largest power of two that is at most `wanted` and that a workgroup's x axis may have. */
uint32_t tsr_vk_group_size(const tsr_vk_caps *caps, uint32_t wanted);

/* The shapes of cooperative matrices of that type, the largest first: the one behind `last`, which
 * is NULL for the first. NULL if the device or the build has no further one. */
const tsr_vk_shape *tsr_vk_next_shape(const tsr_vk_caps *caps, int32_t dtype, const tsr_vk_shape *last);

/* 1 if the line permits its factors to be rounded to 16 bits. */
int tsr_vk_has_reduced_precision(const tsr_vk_planner *planner);

/* The type to which a product may round its factors, TSR_F16 or TSR_BF16; 0: to none. */
int32_t tsr_vk_factors_of(const tsr_program_desc *program, const tsr_line_desc *line);

/* The type to which attention, or its gradient, may round its factors, TSR_F16 or TSR_BF16; 0: to none. */
int32_t tsr_vk_attention_factors(const tsr_vk_planner *planner);

/* Makes offset and strides of a view count groups of four elements, all but the stride of axis `contiguous`, which
 * must be 1. 0, nothing changed, if they do not divide. */
int tsr_vk_in_quads(tsr_vk_view *view, int32_t contiguous);

/* The size of a workgroup that reduces over n elements; *subgroup: it is one subgroup, for the _subgroup shaders. */
uint32_t tsr_vk_reduce_size(const tsr_vk_caps *caps, uint64_t n, int *subgroup);

/* The shaders of a kernel that reduces over a workgroup stand in this order in shaders/meson.build: plain, _quads,
 * _subgroup, _subgroup_quads, each followed by its wide one. */
enum { TSR_VK_QUADS = 2, TSR_VK_SUBGROUP = 4 };
#define TSR_VK_ASSERT_ROW_SHADERS(NAME)                                                                                \
  _Static_assert(TSR_VK_SHADER_##NAME##_QUADS == TSR_VK_SHADER_##NAME + TSR_VK_QUADS &&                                \
                     TSR_VK_SHADER_##NAME##_SUBGROUP == TSR_VK_SHADER_##NAME + TSR_VK_SUBGROUP &&                      \
                     TSR_VK_SHADER_##NAME##_SUBGROUP_QUADS == TSR_VK_SHADER_##NAME + TSR_VK_SUBGROUP + TSR_VK_QUADS,   \
                 "order of shaders")

/* Adds a dispatch of a workgroup that reduces over n elements or groups, of the plain `shader` or one of its three
 * sisters, its size set. */
tsr_vk_dispatch *tsr_vk_add_rows(tsr_vk_planner *planner, int32_t shader, const void *push, uint32_t push_bytes,
                                 int quads, uint64_t n);

/* Adds finished dispatches: y[i] = the sum of x over `summed`, from element i of `kept` on. Both views are collapsed
 * and parts of one, whose offset `kept` has. x: a tensor or TSR_VK_SCRATCH. 0 if it cannot be done. */
int tsr_vk_add_sums(tsr_vk_planner *planner, int32_t x, tsr_vk_view kept, tsr_vk_view summed, int32_t y);

/* NORM_* (shaders/contract/norm_kinds.h) of a line of a norm or its gradient. */
uint32_t tsr_vk_norm_kind(const tsr_line_desc *line);

/* Adds the same for what `parts` workgroups left one after another in scratch, from word `at` on: y[i] = the sum of
 * scratch[at + part * count + i]. 0 if it cannot be done. */
int tsr_vk_add_sums_of_parts(tsr_vk_planner *planner, uint32_t at, uint32_t parts, uint32_t count, int32_t y);

/* The bits of a float, for a specialisation constant. */
uint32_t tsr_vk_bits_of(float x);

/* a / b, rounded up; b is not 0 */
static inline uint64_t tsr_vk_divide_up(uint64_t a, uint64_t b)
{
  return (a + b - 1) / b;
}

#endif
