/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/backend.h: the plugin ABI, version 1.
 *
 * This header is all that a backend and the core share. It stands alone (stdint and stddef only), so that a backend
 * can be written, compiled and shipped with this one file.
 *
 * A backend is a shared object named libtessera-backend-NAME.so (on Windows a DLL, libtessera-backend-NAME.dll) that
 * exports one symbol, on Windows by __declspec(dllexport):
 *
 *     const tsr_backend *tessera_backend_query(uint32_t host_abi_major, const tsr_host *host);
 *
 * It returns a constant table that stays valid until the shared object is unloaded, or NULL to refuse (a wrong major;
 * a machine on which it can never work). `host` stays valid as long. Query does no work: nothing is opened before
 * `start`.
 *
 * Where plugins are looked for, in this order: an explicit path; each folder of TESSERA_BACKEND_PATH (colons between
 * them, on Windows semicolons);
 * the folder `tessera` beside the library, so that an installation may be moved; the install directory. Never the
 * working directory.
 *
 * Order of calls:
 *
 *     query -> start -> device_count, device_properties -> device_open -> { buffers, supports, compile, run, wait }
 *           -> executable_destroy, buffer_destroy -> device_close -> stop -> unload
 *
 * After `stop` no thread and no callback of the plugin may remain; load, unload and load again is tested.
 *
 * Errors. A slot returns a status code (TSR_OK is 0). Before it returns anything else it reports one message, for the
 * user, through host->report at level TSR_LOG_ERROR, from the calling thread: what failed, and what to do. The host
 * joins the two. On an error a slot has changed nothing and the caller owns nothing new.
 *
 * Threads. Slots are called from any thread. The host never calls two slots at once with the same device, or with
 * objects of the same device, unless the slot's comment says otherwise or the device has concurrent_runs
 * (tsr_device_properties); different devices are used by different threads at the same time.
 *
 * Growth. Majors must match. Within a major, fields and slots are only appended, each marked "since 1.N", and
 * struct_size tells how much of a struct its writer knew. Arrays of structs travel with the size of an element. An
 * operator may come to take more operands: `supports` answers 0 for a line with an operand in a slot that the plugin
 * does not know. The host does not offer such a line to a plugin whose abi_minor is older than the slot.
 */
#ifndef TESSERA_BACKEND_H
#define TESSERA_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_ABI_MAJOR 1u
#define TSR_ABI_MINOR 9u

#define TSR_BACKEND_QUERY_NAME "tessera_backend_query"

/* The name under which a backend's source defines its query function. As a plugin that is the exported symbol above.
 * To link several backends into one program instead, compile each with -DTSR_BACKEND_QUERY=tessera_backend_query_NAME,
 * and hand those functions to tsr_runtime_register (tessera/runtime.h). A source therefore writes
 *
 *     const tsr_backend *TSR_BACKEND_QUERY(uint32_t host_abi_major, const tsr_host *host)
 */
#if defined(TSR_BACKEND_QUERY) || !(defined(__GNUC__) || defined(_WIN32))
#define TSR_BACKEND_EXPORT
#elif defined(_WIN32)
#define TSR_BACKEND_EXPORT __declspec(dllexport)
#else
#define TSR_BACKEND_EXPORT __attribute__((visibility("default")))
#endif
#ifndef TSR_BACKEND_QUERY
#define TSR_BACKEND_QUERY tessera_backend_query
#endif

/* Marks a function that takes a format as printf does: the positions of the format and of its first argument. */
#if defined(__MINGW32__) && !defined(__clang__)
#define TSR_PRINTF(text, first) __attribute__((format(gnu_printf, text, first)))
#elif defined(__GNUC__)
#define TSR_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TSR_PRINTF(text, first)
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Numbers that both sides know. They are part of the ABI: never renumbered, only appended. Fields that hold them are
 * int32_t.
 */

/* Status codes. */
enum {
  TSR_OK = 0,
  TSR_ERR_ARGUMENT = 1,      /* a value outside its range, a NULL where none is allowed: the caller's mistake */
  TSR_ERR_SHAPE = 2,         /* extents that do not fit together */
  TSR_ERR_DTYPE = 3,         /* an element type that the operator does not take */
  TSR_ERR_UNSUPPORTED = 4,   /* valid, but not available here (this device, this build) */
  TSR_ERR_OUT_OF_MEMORY = 5, /* host memory */
  TSR_ERR_DEVICE_MEMORY = 6, /* device memory */
  TSR_ERR_DEVICE_LOST = 7,   /* the device stopped answering; every object on it is dead, close it and open it anew */
  TSR_ERR_NO_DEVICE = 8,     /* no device of that name, or a device that lacks a needed feature */
  TSR_ERR_IO = 9,            /* a file that cannot be opened, read or written */
  TSR_ERR_FORMAT = 10,       /* a file whose content is not what it should be */
  TSR_ERR_PLUGIN = 11,       /* a backend that cannot be loaded or that broke this ABI */
  TSR_ERR_INTERNAL = 12,     /* a mistake of this program; please report it */
  TSR_ERR_NOT_FINITE = 13,   /* the host's alone, likewise the next: a device computed NaN from numbers */
  TSR_ERR_BUSY = 14,         /* a queue is full; another one writes the file */
  TSR_ERR_CANCELLED = 15,    /* what was asked for was given up */
  TSR_ERR_DEADLINE = 16      /* the time for it has passed */
};

/* Levels of tsr_host.report. */
enum { TSR_LOG_ERROR = 0, TSR_LOG_WARNING = 1, TSR_LOG_INFO = 2, TSR_LOG_DEBUG = 3 };

/* Element types. Little-endian, naturally aligned. */
enum {
  TSR_F32 = 1,  /* IEEE 754 binary32 */
  TSR_F16 = 2,  /* IEEE 754 binary16: storage; computation widens to f32 */
  TSR_BF16 = 3, /* the upper half of a binary32: storage */
  TSR_I8 = 4,   /* two's complement */
  TSR_I32 = 5   /* two's complement: ids, lengths, positions */
};

/* Weights of four bits, which are stored as TSR_I8 (since 1.7): steps of k that share a scale, and the bytes that these
 * take in a column. */
#define TSR_I4_GROUP 32
#define TSR_I4_BYTES 16

/* Operators. What each means is written once, in tessera/ops.h; here stand the slots of its line: in[] and out[] in
 * order ("?" may be absent), and the attributes that it reads. */
enum {
  TSR_OP_MATMUL = 1,      /* in a, b, bias?, scales?       out y            alpha, activation,
                           *                                               reduced_precision
                           * b i8, scales: since 1.1; reduced_precision: since 1.4; scales f16, with which b has
                           * weights of four bits: since 1.7 */
  TSR_OP_SOFTMAX = 2,     /* in x, mask?                   out y */
  TSR_OP_LOG_SOFTMAX = 3, /* in x                          out y */
  TSR_OP_LAYERNORM = 4,   /* in x, gain, bias?             out y            epsilon, unbiased
                           * unbiased: since 1.3 */
  TSR_OP_RMSNORM = 5,     /* in x, gain                    out y            epsilon */
  TSR_OP_MASK = 6,        /* in x, additive?, lengths?, position?, relative?
                            *                               out y            causal, bidirectional, max_distance,
                            *                                               clamped
                            * clamped: since 1.5 */
  TSR_OP_ADD = 7,         /* in a, b                       out y */
  TSR_OP_MUL = 8,         /* in a, b                       out y */
  TSR_OP_RELU = 9,        /* in x                          out y */
  TSR_OP_GELU = 10,       /* in x                          out y            activation: GELU_ERF or GELU_TANH */
  TSR_OP_SILU = 11,       /* in x                          out y */
  TSR_OP_EMBEDDING = 12,  /* in table, ids, scales?        out y            alpha
                           * table i8, scales: since 1.1; scales f16: since 1.7, as of matmul */
  TSR_OP_COPY = 13,       /* in x                          out y            dtype */
  TSR_OP_APPEND = 14,     /* in x, position?               out state
                           * state f16|bf16: since 1.4 */
  TSR_OP_UPDATE = 15,     /* in x                          out state
                           * state f16|bf16: since 1.4 */
  TSR_OP_GATHER = 16,     /* in x, index                   out y            axis */
  TSR_OP_TOPK = 17,       /* in x                          out values, indices   k */
  TSR_OP_REDUCE_SUM = 18, /* in x                          out y            axes */
  TSR_OP_ATTENTION = 19,  /* in q, k, v, additive?, lengths?, position?, relative?, rows?, seed?
                            *                               out y, weights?, lse?
                            *                                               alpha, causal, bidirectional, max_distance,
                            *                                               clamped, rate, stream,
                            *                                               reduced_precision, softcap
                            * seed, lse: since 1.2; reduced_precision, k and v f16|bf16: since 1.4; clamped: since
                            * 1.5; softcap, and k and v of fewer heads than q: since 1.9 */

  /* since 1.2: what training needs */
  TSR_OP_DROPOUT = 20,                /* in x, seed                       out y            rate, stream */
  TSR_OP_CROSS_ENTROPY = 21,          /* in logits, labels                out loss, lse    smoothing */
  TSR_OP_CROSS_ENTROPY_GRADIENT = 22, /* in logits, labels, lse, dloss    out dlogits      smoothing */
  TSR_OP_SOFTMAX_GRADIENT = 23,       /* in y, dy                         out dx */
  TSR_OP_LOG_SOFTMAX_GRADIENT = 24,   /* in y, dy                         out dx */
  TSR_OP_LAYERNORM_GRADIENT = 25,     /* in x, gain, dy                   out dx, dgain, dbias?   epsilon, unbiased */
  TSR_OP_RMSNORM_GRADIENT = 26,       /* in x, gain, dy                   out dx, dgain    epsilon */
  TSR_OP_ACTIVATION_GRADIENT = 27,    /* in x, dy                         out dx           activation */
  TSR_OP_MASK_GRADIENT = 28,          /* in y, dy                         out dx */
  TSR_OP_RELATIVE_GRADIENT = 29,      /* in dscores, position?            out drelative
                                       *                                  bidirectional, max_distance, clamped, buckets
                                       * clamped: since 1.5 */
  TSR_OP_ATTENTION_GRADIENT = 30,     /* in q, k, v, additive?, lengths?, position?, relative?, rows?, seed?, y, dy, lse
                                       *                                  out dq, dk, dv, dscores?   as attention;
                                       * softcap: since 1.9; k and v have as many heads as q */
  TSR_OP_SCATTER_ADD = 31,            /* in x, index                      out y            alpha, axis, extent */
  TSR_OP_CONCAT = 32,                 /* in x0, x1?, .. x11?              out y            axis */
  TSR_OP_SUM_OF_SQUARES = 33,         /* in x, plus?                      out y */
  TSR_OP_ADAM = 34, /* in gradient, control, norm?      out parameter, m, v, average?   (states, read too)
                                       *                                  beta1, beta2, epsilon, decay, decoupled,
                                       *                                  max_norm */

  /* since 1.8 */
  TSR_OP_CONV1D = 35, /* in x, weight, bias?            out y            stride
                       * The last two axes of x, and of weight, lie in memory as one row: rows of x begin `in` elements
                       * apart, elements of a row 1 */

  /* since 1.9 */
  TSR_OP_ROTATE = 36, /* in x, turns                    out y            alpha */
  TSR_OP_COUNT = 37   /* one past the last */
};

/* tsr_op_attributes.activation */
enum {
  TSR_ACTIVATION_NONE = 0,
  TSR_ACTIVATION_RELU = 1,
  TSR_ACTIVATION_GELU_ERF = 2,  /* x/2 (1 + erf(x / sqrt 2)) */
  TSR_ACTIVATION_GELU_TANH = 3, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
  TSR_ACTIVATION_SILU = 4       /* x / (1 + exp -x) */
};

/* tsr_storage_desc.kind */
enum {
  TSR_STORAGE_CONSTANT = 1, /* written before compile, never by a line */
  TSR_STORAGE_INPUT = 2,    /* written by the host between runs */
  TSR_STORAGE_OUTPUT = 3,   /* written by lines, read by the host between runs. Where lines of the whole program run on
                             * another device, also what passes between them: such bytes may be shared as below */
  TSR_STORAGE_STATE = 4,    /* persists from run to run; written by append, update and adam, and by the host between
                             * runs */
  TSR_STORAGE_TEMPORARY = 5 /* lives within one run; its bytes may be shared with other temporaries. Only lines of the
                             * same program read it: a backend may keep it elsewhere, or do without it */
};

/* How the host means to use a buffer: a hint, never an error. */
enum {
  TSR_BUFFER_DEVICE = 0,  /* written once or never by the host, read by the device often: weights, temporaries */
  TSR_BUFFER_UPLOAD = 1,  /* small, written by the host before most runs */
  TSR_BUFFER_READBACK = 2 /* small, read by the host after most runs */
};

/* tsr_device_properties.type. What `auto` prefers is written at tsr_device_open in tessera/runtime.h. */
enum {
  TSR_DEVICE_DISCRETE_GPU = 1,
  TSR_DEVICE_INTEGRATED_GPU = 2,
  TSR_DEVICE_CPU = 3, /* a backend made for the CPU */
  TSR_DEVICE_VIRTUAL_GPU = 4,
  TSR_DEVICE_SOFTWARE_GPU = 5, /* a GPU interface executed by a CPU: never chosen unasked */
  TSR_DEVICE_REFERENCE = 6     /* correct, not fast: `auto` takes it when there is nothing else */
};

/* tsr_device_properties.features */
#define TSR_FEATURE_F16_STORAGE        (1ull << 0)
#define TSR_FEATURE_F16_ARITHMETIC     (1ull << 1)
#define TSR_FEATURE_I8_STORAGE         (1ull << 2)
#define TSR_FEATURE_I8_DOT             (1ull << 3)
#define TSR_FEATURE_SUBGROUPS          (1ull << 4)
#define TSR_FEATURE_COOPERATIVE_MATRIX (1ull << 5)
#define TSR_FEATURE_UNIFIED_MEMORY     (1ull << 6) /* device memory is host memory: writes need no staging */
#define TSR_FEATURE_TIMESTAMPS         (1ull << 7) /* profile works */

/* tsr_backend.build_flags: what the plugin was compiled with, so that a host can say why two sanitizers clash. */
#define TSR_BUILD_ASAN  (1u << 0)
#define TSR_BUILD_UBSAN (1u << 1)
#define TSR_BUILD_TSAN  (1u << 2)

/* The flags of the compilation that reads this. UBSan is seen with clang alone; it clashes with nothing. */
#if defined(__has_feature)
#define TSR_BUILD_HAS(sanitizer) __has_feature(sanitizer)
#else
#define TSR_BUILD_HAS(sanitizer) 0
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TSR_BUILD_FLAG_ASAN TSR_BUILD_ASAN
#else
#define TSR_BUILD_FLAG_ASAN (TSR_BUILD_HAS(address_sanitizer) ? TSR_BUILD_ASAN : 0u)
#endif
#if defined(__SANITIZE_THREAD__)
#define TSR_BUILD_FLAG_TSAN TSR_BUILD_TSAN
#else
#define TSR_BUILD_FLAG_TSAN (TSR_BUILD_HAS(thread_sanitizer) ? TSR_BUILD_TSAN : 0u)
#endif
#define TSR_BUILD_FLAGS                                                                                                \
  (TSR_BUILD_FLAG_ASAN | TSR_BUILD_FLAG_TSAN | (TSR_BUILD_HAS(undefined_behavior_sanitizer) ? TSR_BUILD_UBSAN : 0u))

/* ------------------------------------------------------------------------------------------------------------------
 * A program as a backend sees it. All of it is validated by the host: a backend may rely on every rule of ops.h.
 * Operands that broadcast are already expanded (extents equal, stride 0), so a backend needs strides, not broadcasting.
 */

#define TSR_MAX_RANK    4
#define TSR_MAX_INPUTS  12
#define TSR_MAX_OUTPUTS 4

/* A range of bytes in one of the buffers given to compile. */
typedef struct tsr_storage_desc {
  int32_t kind;   /* TSR_STORAGE_* */
  int32_t buffer; /* index into tsr_compile_args.buffers */
  int64_t offset; /* bytes from the buffer's start; a multiple of tsr_device_properties.buffer_alignment */
  int64_t size;   /* bytes; 0 for an empty tensor */
} tsr_storage_desc;

/* A view of a storage: element (i0, i1, ..) lies at element offset + sum of i * stride. */
typedef struct tsr_tensor_desc {
  int32_t storage;              /* index into tsr_program_desc.storages */
  int32_t dtype;                /* TSR_F32 .. */
  int32_t rank;                 /* 0 (a scalar) to TSR_MAX_RANK */
  int32_t reserved;             /* 0 */
  int64_t extent[TSR_MAX_RANK]; /* elements along each axis, outermost first; beyond rank: 1 */
  int64_t stride[TSR_MAX_RANK]; /* elements; 0 repeats; never negative; beyond rank: 0 */
  int64_t offset;               /* elements from the storage's start */
} tsr_tensor_desc;

/* What an operator needs beside its tensors. An operator ignores the fields that its row above does not name. */
typedef struct tsr_op_attributes {
  uint32_t struct_size; /* sizeof(tsr_op_attributes), as its writer knew it */
  float alpha;   /* factor of the product (matmul), of the scores (attention), of the rows (embedding), of the sines
                         * (rotate) */
  float epsilon; /* added to the variance or mean square, or with unbiased to the deviation; adam: to the root of the
                          * second moment */
  int32_t activation;    /* TSR_ACTIVATION_* */
  int32_t causal;        /* 1: query l sees keys s <= l + position */
  int32_t bidirectional; /* relative: 1: half of the buckets are for keys after the query */
  int32_t max_distance;  /* relative: distances from here on share the last bucket, or with clamped the last row */
  int32_t axis;          /* gather, scatter_add, concat */
  int32_t axes;          /* reduce_sum: bit i stands for axis i */
  union {                /* one number, which each operator calls by its own name; before 1.5 its only name was k */
    int32_t k;           /* topk: how many are chosen */
    int32_t buckets;     /* relative_gradient: rows of the result */
    int32_t extent;      /* scatter_add: of the result's axis */
    int32_t padding;     /* embedding, of no meaning to a backend: 1 + the row that gets no gradient; 0: none */
  };
  int32_t dtype; /* copy: the result's type */

  /* since 1.2 */
  float rate;        /* dropout, attention with a seed: the part that is dropped, 0 <= rate < 1 */
  int32_t stream;    /* likewise: tells the lines of a program apart */
  float smoothing;   /* cross_entropy: label smoothing, 0 <= smoothing < 1 */
  float beta1;       /* adam: decay of the first moment */
  float beta2;       /* adam: decay of the second moment */
  float decay;       /* adam: weight decay */
  int32_t decoupled; /* adam: 1: the decay is not part of the gradient (AdamW) */
  float max_norm;    /* adam: the norm beyond which all gradients are scaled down; 0: none */

  /* since 1.3; the host does not offer a line in which it is 1 to a plugin whose abi_minor is older */
  int32_t unbiased; /* layernorm: 1: divide by the unbiased standard deviation + epsilon */

  /* since 1.4 */
  int32_t reduced_precision; /* matmul, attention: 1: factors may be rounded to 16 bits before they are multiplied, as
                              * ops.h says: a permission, which a backend may ignore.
                              * since 1.6: TSR_F16, TSR_BF16: matmul with b f32: both may be rounded to that type;
                              * attention: that type instead of f16; attention_gradient: likewise */

  /* since 1.5; the host does not offer a line in which it is 1 to a plugin whose abi_minor is older */
  int32_t clamped; /* relative: 1: a row for each distance from -max_distance to max_distance, and no buckets */

  /* since 1.8 */
  int32_t stride; /* conv1d: rows of x from a window to the next, at least 1 */

  /* since 1.9; the host does not offer a line in which it is not 0 to a plugin whose abi_minor is older */
  float softcap; /* attention: the bound that scores are squashed into before the masking; 0: none */
} tsr_op_attributes;

/* One line: an operator, its operands, its results. */
typedef struct tsr_line_desc {
  int32_t op;                   /* TSR_OP_* */
  int32_t reserved;             /* 0 */
  int32_t in[TSR_MAX_INPUTS];   /* indices into tsr_program_desc.tensors; 0 = absent */
  int32_t out[TSR_MAX_OUTPUTS]; /* likewise; results are contiguous, except that a state may be any view */
  const char *label;            /* where the line comes from ("encoder.layers.0.self_attention"); never NULL */
  tsr_op_attributes attributes; /* last: grows */
} tsr_line_desc;

/* Element 0 of `tensors` and of `storages` is reserved: index 0 means "none". Use tsr_line_at and its sisters below,
 * which step by the host's element sizes. */
typedef struct tsr_program_desc {
  uint32_t struct_size;
  uint32_t storage_size; /* bytes of one element of each array, as the host knows it */
  uint32_t tensor_size;
  uint32_t line_size;
  int32_t n_storages; /* with the reserved one */
  int32_t n_tensors;  /* with the reserved one */
  int32_t n_lines;
  int32_t reserved;
  const tsr_storage_desc *storages;
  const tsr_tensor_desc *tensors;
  const tsr_line_desc *lines;
} tsr_program_desc;

static inline const tsr_storage_desc *tsr_storage_at(const tsr_program_desc *p, int32_t index)
{
  return (const tsr_storage_desc *)(const void *)((const char *)p->storages + (size_t)index * p->storage_size);
}

static inline const tsr_tensor_desc *tsr_tensor_at(const tsr_program_desc *p, int32_t index)
{
  return (const tsr_tensor_desc *)(const void *)((const char *)p->tensors + (size_t)index * p->tensor_size);
}

static inline const tsr_line_desc *tsr_line_at(const tsr_program_desc *p, int32_t index)
{
  return (const tsr_line_desc *)(const void *)((const char *)p->lines + (size_t)index * p->line_size);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Devices
 */

/* Limits and capabilities are data; 0 means absent or unknown. The host sets struct_size and zeroes the rest; the
 * plugin writes at most struct_size bytes. */
typedef struct tsr_device_properties {
  uint32_t struct_size;
  int32_t type;              /* TSR_DEVICE_* */
  char name[256];            /* as the driver gives it, NUL-terminated */
  char driver[256];          /* driver name and version, for people */
  uint64_t features;         /* TSR_FEATURE_* */
  uint64_t memory;           /* bytes the device may use in all */
  uint64_t max_buffer_size;  /* bytes of the largest buffer_create that can succeed */
  uint64_t max_binding_size; /* bytes a kernel reaches in one operand the ordinary way; larger ones may be slower */
  uint32_t buffer_alignment; /* of tsr_storage_desc.offset, a power of two, at least 16 */
  uint32_t max_invocations;  /* in one workgroup */
  uint32_t shared_memory;    /* bytes of one workgroup */
  uint32_t subgroup_size;
  uint32_t api_major; /* of the interface below, such as Vulkan 1.3 */
  uint32_t api_minor;

  /* since 1.1: runs of different executables that the device executes side by side; 0 or 1: one after another. More
   * than 1: every slot may be called from several threads at once with this device, as long as no two calls use the
   * same executable, and no buffer that one of them writes is used by another. */
  uint32_t concurrent_runs;

  /* since 1.5: what a batch is cut to fit. 0: the host takes what it took before, by type and features. */

  /* Rows of a product with weights, such as the hypotheses of a decoding step, up to which one more costs next to
   * nothing, for reading the weights takes most of the time. 1: each costs time in proportion, so that none should be
   * computed for nothing. By type: 1 for a CPU and the reference, else 32. */
  uint32_t rows_at_once;
  /* Bit 1u << TSR_F16 .. of each type in which keys and values are best kept, if that is the type of the weights; the
   * bit of TSR_F32 always. By type: f32 alone for a CPU, the reference, and without TSR_FEATURE_F16_STORAGE; else all
   * floats. */
  uint32_t state_types;

  /* since 1.6 */

  /* Bytes of one buffer that the device promises, where it may refuse larger ones up to max_buffer_size
   * though memory is left: the host then divides what it can. 0: max_buffer_size. */
  uint64_t promised_buffer_size;
  /* Runs that the device should have in hand, so that it goes on while the host looks at what the last one found. 0:
   * unknown, or run returns when all is done. 1: run returns sooner, but what is computed in vain costs as much as what
   * is needed: a GPU that a CPU imitates. */
  uint32_t runs_in_hand;
  uint32_t reserved; /* 0 */
} tsr_device_properties;

/* What a device did since it was opened. The host sets struct_size and zeroes the rest. Tests read these: a run of a
 * compiled program raises submits and runs only. */
typedef struct tsr_device_counters {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t runs;        /* calls of run that succeeded */
  uint64_t submits;     /* batches of work handed to the device by run */
  uint64_t transfers;   /* batches of work handed to the device by buffer_write and buffer_read */
  uint64_t allocations; /* of memory, on the device or by the plugin on the heap within buffer_create, compile or run */
  uint64_t recordings;  /* command buffers recorded, transfers left out */
  uint64_t pipelines;   /* pipelines created */
  uint64_t bytes_in_use; /* device memory held now */
  uint64_t bytes_peak;   /* the largest bytes_in_use so far */
} tsr_device_counters;

typedef struct tsr_backend_device tsr_backend_device;         /* the plugin's own */
typedef struct tsr_backend_buffer tsr_backend_buffer;         /* the plugin's own */
typedef struct tsr_backend_executable tsr_backend_executable; /* the plugin's own */

typedef struct tsr_compile_args {
  uint32_t struct_size;
  int32_t n_buffers;
  const tsr_program_desc *program;    /* borrowed: valid during the call only */
  tsr_backend_buffer *const *buffers; /* of this device; they outlive the executable */
  int32_t profile;                    /* 1: keep a time per line; 0: leave no trace of it */
  int32_t reserved;
} tsr_compile_args;

/* ------------------------------------------------------------------------------------------------------------------
 * What the host offers
 */
typedef struct tsr_host {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;

  /* Takes one line of text without a newline, copied before it returns; the host puts the device's or the backend's
   * name before it. Level TSR_LOG_ERROR is kept as the reason of the error that the slot is about to return.
   * Thread-safe. */
  void (*report)(const struct tsr_host *host, int32_t level, const char *message);

  /* An option of this run of the program, by name, or NULL: an environment variable TESSERA_NAME, or what the caller
   * set. Valid until `stop`. Thread-safe. */
  const char *(*option)(const struct tsr_host *host, const char *name);
} tsr_host;

/* ------------------------------------------------------------------------------------------------------------------
 * What a backend offers
 */
typedef struct tsr_backend {
  /* This prefix is frozen for ever, in every major. */
  uint32_t struct_size;    /* sizeof(tsr_backend), as the plugin knew it */
  uint32_t abi_major;      /* TSR_ABI_MAJOR */
  uint32_t abi_minor;      /* TSR_ABI_MINOR */
  uint32_t build_flags;    /* TSR_BUILD_* */
  const char *name;        /* [a-z0-9_-]+, the part before the colon of a device's name; required */
  const char *description; /* one line for people; required */

  /* Required. Prepares the backend: loads a driver, say. `*context` is handed to the slots that take one. A machine
   * without the driver is TSR_ERR_NO_DEVICE with a message that tells what to install; an option (host->option) with a
   * value that makes no sense is TSR_ERR_ARGUMENT, which `auto` does not pass over. */
  int32_t (*start)(const tsr_host *host, void **context);

  /* Required. Releases all that start took. Every device is closed by then. */
  void (*stop)(void *context);

  /* Required. How many devices there are now; devices are numbered from 0. */
  int32_t (*device_count)(void *context, uint32_t *count);

  /* Required. Fills *properties of a device that need not be open. Any thread. */
  int32_t (*device_properties)(void *context, uint32_t index, tsr_device_properties *properties);

  /* Required. The device that results is the host's until device_close. The same index may be opened twice; the two
   * share nothing that the caller can see. */
  int32_t (*device_open)(void *context, uint32_t index, tsr_backend_device **device);

  /* Required. Every buffer and executable of it is destroyed by then. */
  void (*device_close)(tsr_backend_device *device);

  /* Required. A buffer of `size` bytes (at least 1), filled with zeros. usage: TSR_BUFFER_*. Never aborts on want of
   * memory: TSR_ERR_DEVICE_MEMORY, with the size asked and what was free. */
  int32_t (*buffer_create)(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **buffer);

  /* Required. Takes NULL. No run that uses it is under way. */
  void (*buffer_destroy)(tsr_backend_buffer *buffer);

  /* Required. Copies into, or out of, a range that lies within the buffer; size 0 is allowed. Blocks until the bytes
   * may be reused; a later run sees them. No run that uses the buffer is under way. */
  int32_t (*buffer_write)(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes);
  int32_t (*buffer_read)(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes);

  /* Required. 1 if the device can execute line `line` of the program, 0 if not. Storages need not be placed yet (buffer
   * and offset are 0). No message. */
  int32_t (*supports)(tsr_backend_device *device, const tsr_program_desc *program, int32_t line);

  /* Required. Makes an executable of a program all of whose lines are supported. All that a run needs is done here. */
  int32_t (*compile)(tsr_backend_device *device, const tsr_compile_args *args, tsr_backend_executable **executable);

  /* Required. Takes NULL. No run of it is under way. */
  void (*executable_destroy)(tsr_backend_executable *executable);

  /* Required. Starts one run; may return before it ends. Runs on one device happen in the order of the calls, each
   * seeing what those before it wrote. With concurrent_runs the host sees to that itself: it waits for a run before it
   * starts another one of the same executable, or one that shares a buffer which either of them writes. */
  int32_t (*run)(tsr_backend_executable *executable);

  /* Required. Blocks until the last run of the executable has ended. Without a run: returns at once. */
  int32_t (*wait)(tsr_backend_executable *executable);

  /* Optional (default: TSR_ERR_UNSUPPORTED). Nanoseconds of each line in the last run that ended, n_lines of them; the
   * executable was compiled with profile = 1. */
  int32_t (*profile)(tsr_backend_executable *executable, uint64_t *nanoseconds);

  /* Optional (default: all zero). */
  int32_t (*counters)(tsr_backend_device *device, tsr_device_counters *counters);

  /* Optional (default: NULL). A table of further functions, by a versioned name such as "tessera.x/1", or NULL. Whoever
   * hands one out fills all its slots; it stays valid until stop. The host asks once, after start. */
  const void *(*get_extension)(void *context, const char *name);
} tsr_backend;

/* Extension "tessera.variants/1", for tests, measurements and tuning. A variant is one of several kernels that compute
 * the same, among which the backend chooses by shapes, types and limits. Variants are numbered from 1; 0 stands for the
 * backend's choice. */
#define TSR_VARIANTS_EXTENSION "tessera.variants/1"
typedef struct tsr_variants_extension {
  uint32_t struct_size; /* sizeof(tsr_variants_extension), as the plugin knew it */
  int32_t count;        /* of the variants, those that a device cannot execute among them */

  /* "matmul.vector": what it computes, a dot, which variant of it. NULL beyond 1 .. count. Static. Any thread. */
  const char *(*name)(int32_t variant);

  /* What is asked or compiled from now on takes `variant` wherever it can be had; elsewhere the choice is the
   * backend's. */
  void (*force)(tsr_backend_device *device, int32_t variant);

  /* The variant in which line `line` would be executed; 0 if there is but one, or if it is not supported. */
  int32_t (*variant_of)(tsr_backend_device *device, const tsr_program_desc *program, int32_t line);

  /* Lines of similar shapes are of one class, for which the device may be told which variant is the best: it takes that
   * from then on, where nothing is forced. class_of writes the class' name, "" for a line without variants; 1 if it has
   * one. remember with variant 0 forgets. save keeps what is remembered for those who open this device later, until its
   * driver changes. */
  int32_t (*class_of)(tsr_backend_device *device, const tsr_program_desc *program, int32_t line, char *text,
                      uint32_t text_size);
  int32_t (*remember)(tsr_backend_device *device, const tsr_program_desc *program, int32_t line, int32_t variant);
  int32_t (*save)(tsr_backend_device *device);
} tsr_variants_extension;

/* Extension "tessera.kernels/1": kernels without memory for a program. */
#define TSR_KERNELS_EXTENSION "tessera.kernels/1"
typedef struct tsr_kernels_extension {
  uint32_t struct_size; /* sizeof(tsr_kernels_extension), as the plugin knew it */
  uint32_t reserved;

  /* Makes and keeps the kernels that `compile` of this program would make. All lines are supported; storages are not
   * placed. */
  int32_t (*prepare)(tsr_backend_device *device, const tsr_program_desc *program);
} tsr_kernels_extension;

/* Extension "tessera.fusion/1", since 1.5: which neighbouring lines a backend computes as one, where bytes allow.
 * Temporaries share bytes as soon as the lines that read them have passed; what one kernel reads must not lie where it
 * writes. */
#define TSR_FUSION_EXTENSION "tessera.fusion/1"
typedef struct tsr_fusion_extension {
  uint32_t struct_size; /* sizeof(tsr_fusion_extension), as the plugin knew it */
  uint32_t reserved;

  /* The line until which the operands of line `line`, which is supported, have to keep their bytes so that the device
   * can compute the lines from the one to the other as one: a line behind it, or `line` itself. Storages are not
   * placed. What is compiled later may lie otherwise: this is a hint. No message. */
  int32_t (*operands_until)(tsr_backend_device *device, const tsr_program_desc *program, int32_t line);
} tsr_fusion_extension;

/* Extension "tessera.commands/1", since 1.6: what an executable hands to the device. */
#define TSR_COMMANDS_EXTENSION "tessera.commands/1"

/* Of one line; one that is computed as one with later lines has none of its own. */
typedef struct tsr_line_commands {
  int32_t dispatches; /* kernels that are started */
  int32_t barriers;   /* of these, those that wait until all before them have ended */
} tsr_line_commands;

typedef struct tsr_commands_extension {
  uint32_t struct_size; /* sizeof(tsr_commands_extension), as the plugin knew it */
  uint32_t reserved;

  /* Fills an element for each line of the executable's program, which was compiled without profile. */
  int32_t (*describe)(tsr_backend_executable *executable, tsr_line_commands *lines);
} tsr_commands_extension;

/* Extension "tessera.runs/1", since 1.6: several runs handed to the device at once. */
#define TSR_RUNS_EXTENSION "tessera.runs/1"
typedef struct tsr_runs_extension {
  uint32_t struct_size; /* sizeof(tsr_runs_extension), as the plugin knew it */
  uint32_t reserved;

  /* As n calls of run, n at least 1, each seeing what those before it wrote; in fewer submits, where a device takes
   * several runs in one. wait waits for the last of them. After an error none of them is under way. Not asked of a
   * device with concurrent_runs. */
  int32_t (*run_many)(tsr_backend_executable *executable, uint32_t n);
} tsr_runs_extension;

/* Extension "tessera.plan/1", since 1.6: what a device that need not be here would be told. Kernels are chosen by what
 * a device can do, so a description of it is enough. A backend without the extension is taken to start a kernel for
 * each line, one after the other. */
#define TSR_PLAN_EXTENSION "tessera.plan/1"

#define TSR_MAX_MATRIX_SHAPES 16

/* A product of cooperative matrices that a subgroup makes: a [m, k] by b [k, n]. */
typedef struct tsr_matrix_shape {
  int32_t dtype; /* of a and b: TSR_F16, TSR_BF16 (sums in f32), TSR_I8 (sums in i32) */
  uint32_t m;
  uint32_t n;
  uint32_t k;
} tsr_matrix_shape;

/* What a backend's choice of kernels may depend on. 0: absent. The host sets struct_size. */
typedef struct tsr_described_device {
  uint32_t struct_size;
  int32_t type;                /* TSR_DEVICE_* */
  char name[64];               /* for messages, NUL-terminated */
  uint64_t max_binding_size;   /* bytes */
  uint32_t buffer_alignment;   /* bytes, a power of two, at least 16 */
  uint32_t max_invocations;    /* in one workgroup */
  uint32_t max_groups[3];      /* workgroups of one dispatch, per axis */
  uint32_t max_group_size[3];  /* invocations of a workgroup, per axis */
  uint32_t shared_memory;      /* bytes of one workgroup */
  uint32_t subgroup_size;      /* as the driver likes it; 1: subgroups cannot be used */
  uint32_t subgroup_sizes[2];  /* the least and the largest that can be asked for; 0: none can */
  uint32_t max_subgroups;      /* of a workgroup whose subgroup size was asked for */
  int32_t subgroup_arithmetic; /* 1: subgroups add up */
  int32_t subgroup_shuffle;    /* 1: subgroups exchange values */
  int32_t buffer_addresses;    /* 1: memory is reached by 64-bit addresses */
  int32_t unified_memory;      /* 1: device memory is host memory */
  int32_t i8_dot;              /* 1: packed products of four bytes; 2: and they are an instruction */
  int32_t f16_storage;         /* 1: 16-bit elements are read and written */
  int32_t n_shapes;
  tsr_matrix_shape shapes[TSR_MAX_MATRIX_SHAPES]; /* of each type the largest first */
} tsr_described_device;

/* tsr_planned_dispatch.rate: which of a device's rates bounds the operations. */
enum {
  TSR_RATE_OTHER = 0, /* of kernels that are no products: about one for each step of the formula */
  TSR_RATE_F32 = 1,   /* multiplications and additions of a product, by the type in which the weights are stored */
  TSR_RATE_F16 = 2,   /* bf16, too */
  TSR_RATE_COOPERATIVE_F16 = 3, /* likewise; by cooperative matrices */
  TSR_RATE_I8 = 4,
  TSR_RATE_COOPERATIVE_I8 = 5,
  TSR_RATE_COUNT = 6
};

/* Memory that a kernel reads or writes. */
typedef struct tsr_planned_access {
  int32_t tensor; /* index into tsr_program_desc.tensors; 0: memory of the backend's own, for the time of these lines */
  int32_t written; /* 1: written, and perhaps read; 0: read */
  uint64_t bytes;  /* of memory of the backend's own; else 0: the tensor says it */
} tsr_planned_access;

/* A kernel that would be started. */
typedef struct tsr_planned_dispatch {
  uint32_t struct_size; /* sizeof(tsr_planned_dispatch), as the plugin knew it */
  int32_t first_line;   /* of those that it computes, or part of them, as one */
  int32_t last_line;
  int32_t waits;      /* 1: until all before it have ended: it begins a stage */
  const char *kernel; /* its name; static */
  uint64_t groups;    /* workgroups; 0: unknown, enough for any device */
  uint32_t group_size;
  int32_t rate;      /* TSR_RATE_* */
  double operations; /* floating-point, or of integers */
  double loads;      /* bytes that all workgroups together read of what lies in memory or caches; 0: each byte once */
  int32_t n_accesses;
  int32_t reserved;
  const tsr_planned_access *accesses; /* each tensor once; valid during the call */
} tsr_planned_dispatch;

typedef struct tsr_plan_extension {
  uint32_t struct_size; /* sizeof(tsr_plan_extension), as the plugin knew it */
  uint32_t reserved;

  /* Describes an open device. */
  int32_t (*describe)(tsr_backend_device *device, tsr_described_device *described);

  /* As tsr_fusion_extension.operands_until. `context` is that of start, here and below; no device is opened. Any
   * thread. */
  int32_t (*operands_until)(void *context, const tsr_described_device *described, const tsr_program_desc *program,
                            int32_t line);

  /* Calls `take` for each kernel of the program, in order. Storages are placed: `buffer` is a number alone, and those
   * of one number lie in one buffer. A run is taken to be one submit. TSR_ERR_UNSUPPORTED: the device cannot execute a
   * line. Any thread. */
  int32_t (*plan)(void *context, const tsr_described_device *described, const tsr_program_desc *program,
                  void (*take)(void *taker, const tsr_planned_dispatch *dispatch), void *taker);
} tsr_plan_extension;

typedef const tsr_backend *(*tsr_backend_query_fn)(uint32_t host_abi_major, const tsr_host *host);

/* The backend defines it; see TSR_BACKEND_QUERY. */
TSR_BACKEND_EXPORT const tsr_backend *TSR_BACKEND_QUERY(uint32_t host_abi_major, const tsr_host *host);

/* The last field of each struct of 1.0, pinned: a field inserted in the middle does not compile. Offsets are those of
 * a 64-bit machine, which is all that this ABI supports. */
#if defined(__cplusplus)
#define TSR_ABI_ASSERT(condition, message) static_assert(condition, message)
#else
#define TSR_ABI_ASSERT(condition, message) _Static_assert(condition, message)
#endif
#define TSR_ABI_PIN(type, field, at) TSR_ABI_ASSERT(offsetof(type, field) == (at), "the ABI of " #type " changed")
TSR_ABI_PIN(tsr_storage_desc, size, 16);
TSR_ABI_PIN(tsr_tensor_desc, offset, 80);
TSR_ABI_PIN(tsr_op_attributes, dtype, 40);
TSR_ABI_PIN(tsr_op_attributes, k, 36);
TSR_ABI_PIN(tsr_op_attributes, buckets, 36);
TSR_ABI_PIN(tsr_op_attributes, extent, 36);
TSR_ABI_PIN(tsr_op_attributes, padding, 36);
TSR_ABI_PIN(tsr_line_desc, attributes, 80);
TSR_ABI_PIN(tsr_program_desc, lines, 48);
TSR_ABI_PIN(tsr_device_properties, api_minor, 572);
TSR_ABI_PIN(tsr_device_counters, bytes_peak, 64);
TSR_ABI_PIN(tsr_compile_args, profile, 24);
TSR_ABI_PIN(tsr_host, option, 24);
TSR_ABI_PIN(tsr_backend, get_extension, 168);
TSR_ABI_PIN(tsr_kernels_extension, prepare, 8);
TSR_ABI_PIN(tsr_variants_extension, save, 48);
/* Those of 1.1. */
TSR_ABI_PIN(tsr_device_properties, concurrent_runs, 576);
/* Those of 1.2. */
TSR_ABI_PIN(tsr_op_attributes, max_norm, 72);
/* Those of 1.3. */
TSR_ABI_PIN(tsr_op_attributes, unbiased, 76);
/* Those of 1.4. */
TSR_ABI_PIN(tsr_op_attributes, reduced_precision, 80);
/* Those of 1.5. */
TSR_ABI_PIN(tsr_op_attributes, clamped, 84);
TSR_ABI_PIN(tsr_device_properties, state_types, 584);
TSR_ABI_PIN(tsr_fusion_extension, operands_until, 8);
/* Those of 1.8 and 1.9. */
TSR_ABI_PIN(tsr_op_attributes, stride, 88);
TSR_ABI_PIN(tsr_op_attributes, softcap, 92);
/* Those of 1.6. */
TSR_ABI_PIN(tsr_device_properties, runs_in_hand, 600);
TSR_ABI_PIN(tsr_runs_extension, run_many, 8);
TSR_ABI_PIN(tsr_matrix_shape, k, 12);
TSR_ABI_PIN(tsr_described_device, shapes, 160);
TSR_ABI_PIN(tsr_planned_access, bytes, 8);
TSR_ABI_PIN(tsr_planned_dispatch, accesses, 64);
TSR_ABI_PIN(tsr_plan_extension, plan, 24);

#ifdef __cplusplus
}
#endif
#endif
