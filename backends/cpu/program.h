/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiled line as the kernels see it, whatever the instruction level: tensors resolved to memory, the team that
 * shares the work, and what a line may ask for when it is compiled.
 */
#ifndef CPU_PROGRAM_H
#define CPU_PROGRAM_H

#include "tessera/backend.h"

typedef struct cpu_tensor {
  void *data;    /* the view's first element; NULL if it has none */
  int32_t dtype; /* TSR_F32 ..; 0: absent */
  int32_t rank;
  int32_t constant; /* 1: never written after compile */
  int32_t reserved;
  int64_t extent[TSR_MAX_RANK]; /* beyond rank: 1 */
  int64_t stride[TSR_MAX_RANK]; /* elements; 0 where the extent is 1 */
} cpu_tensor;

/* Operators that exist only here: what the executable makes of several lines. in and out of each say which operands. */
enum {
  CPU_OP_ADD_LAYERNORM = TSR_OP_COUNT, /* in a, b, gain, bias?, seed?  out y, sum?  layernorm(a + b), a + b; with a seed
                                        * b is dropped out first */
  CPU_OP_MATMUL_TOPK,                  /* in a, b, bias?, scales?   out values, indices   topk(matmul(..)) */
  CPU_OP_MATMUL_LOG_TOPK,              /* the same                  topk(log_softmax(matmul(..))) */
  CPU_OP_MATMUL_SCREEN,                /* the same as MATMUL_TOPK   chosen by its prepare, see screen.c */
  CPU_OP_COUNT
};

/* Operands beyond those of an operator of tessera/ops.h, which its line may have when it was fused with others:
 *   relu, gelu, silu                      in[CPU_IN_ACTIVATION_SEED]: the result is dropped out
 *   activation_gradient                   in[CPU_IN_SLOPE_SEED]: dy is dropped out first
 *   layernorm_gradient, rmsnorm_gradient  in[CPU_IN_NORM_MORE]: what is added to dy first;
 *                                         in[CPU_IN_NORM_SEED]: out[CPU_OUT_NORM_DROPPED] is dx dropped out */
enum {
  CPU_IN_ACTIVATION_SEED = 1,
  CPU_IN_SLOPE_SEED = 2,
  CPU_IN_NORM_MORE = 3,
  CPU_IN_NORM_SEED = 4,
  CPU_OUT_NORM_DROPPED = 3
};

/* The most that topk may ask of a product that it is fused with. */
enum { CPU_TOPK_FUSED = 64 };

typedef struct cpu_line {
  int32_t op;    /* TSR_OP_* or CPU_OP_* */
  int32_t index; /* of the program's line; of several: the last */
  cpu_tensor in[TSR_MAX_INPUTS];
  cpu_tensor out[TSR_MAX_OUTPUTS];
  tsr_op_attributes attributes;
  const void *plan; /* what the operator's prepare made, or NULL */
} cpu_line;

/* The threads that work on one run. A line's function is called on the run's own thread; it hands tasks to the team. */
typedef struct cpu_team cpu_team;

/* One task. `scratch`: the calling thread's own bytes, as many as the line's prepare asked for, 64-byte aligned,
 * undefined at the start of each task. */
typedef void (*cpu_task)(const void *context, int64_t task, void *scratch);

/* Calls body(context, i, ..) once for each i in 0 .. n_tasks-1, in any order, on as many threads as are free, and
 * returns when all are done. One task runs at once on the calling thread. A task should take tens of microseconds:
 * handing out costs about one. */
void cpu_parallel(cpu_team *team, int64_t n_tasks, cpu_task body, const void *context);

/* Bytes that all tasks of the line see, kept between the calls of cpu_parallel in one line. 64-byte aligned. */
void *cpu_shared(const cpu_team *team);

/* How many tasks to cut `n` items into that cost `cost` (roughly: vector instructions) each: 1 for little work. The
 * result depends on the arguments alone. */
int64_t cpu_tasks(int64_t n, double cost);

/* Items first .. last-1 of task `task` of `n_tasks`, of n items. */
static inline int64_t cpu_first(int64_t n, int64_t n_tasks, int64_t task)
{
  return n / n_tasks * task + (task < n % n_tasks ? task : n % n_tasks);
}

/* What prepare may ask for. Memory that it gets lives as long as the executable. */
typedef struct cpu_preparation cpu_preparation;

void cpu_ask_scratch(cpu_preparation *preparation, uint64_t bytes);      /* of each thread; the largest counts */
void cpu_ask_shared(cpu_preparation *preparation, uint64_t bytes);       /* of the line */
void *cpu_ask_memory(cpu_preparation *preparation, uint64_t bytes);      /* zeroed; NULL without memory */
const struct cpu_blas *cpu_ask_blas(const cpu_preparation *preparation); /* NULL: none */

/* A matrix of weights in another layout, made once per device and shared by all executables. */
typedef struct cpu_layout {
  const cpu_tensor *from; /* constant */
  uint64_t size;          /* bytes of the result */
  void (*pack)(const struct cpu_layout *layout, void *to);
  int64_t matrices; /* for pack: how many matrices there are along the leading axes of from */
} cpu_layout;

/* The packed matrix, 64-byte aligned; NULL without memory. */
const void *cpu_ask_packed(cpu_preparation *preparation, const cpu_layout *layout);

typedef struct cpu_operator {
  int32_t (*prepare)(cpu_line *line, cpu_preparation *preparation); /* NULL: nothing. TSR_OK or TSR_ERR_OUT_OF_MEMORY */
  void (*run)(const cpu_line *line, cpu_team *team);
} cpu_operator;

/* `size` bytes, rounded up to where the next of several pieces of such memory may begin. */
static inline uint64_t cpu_aligned(uint64_t size)
{
  return (size + 63) / 64 * 64;
}

/* Walks over tensors */

static inline int cpu_present(const cpu_tensor *t)
{
  return t->dtype != 0;
}

/* The last axis; a scalar has one of extent 1. */
static inline int32_t cpu_last(const cpu_tensor *t)
{
  return t->rank > 0 ? t->rank - 1 : 0;
}

static inline int64_t cpu_row_length(const cpu_tensor *t)
{
  return t->extent[cpu_last(t)];
}

static inline int64_t cpu_row_stride(const cpu_tensor *t)
{
  return t->stride[cpu_last(t)];
}

/* How many indices the first `axes` axes have. */
static inline int64_t cpu_count(const cpu_tensor *t, int32_t axes)
{
  int64_t count = 1;
  for (int32_t axis = 0; axis < axes; axis++) {
    count *= t->extent[axis];
  }
  return count;
}

/* Where the index-th (in row-major order) of these indices lies, in elements. */
static inline int64_t cpu_at(const cpu_tensor *t, int32_t axes, int64_t index)
{
  int64_t at = 0;
  for (int32_t axis = axes - 1; axis >= 0; axis--) {
    at += index % t->extent[axis] * t->stride[axis];
    index /= t->extent[axis];
  }
  return at;
}

/* Rows along the last axis: how many, and where each begins. */
static inline int64_t cpu_rows(const cpu_tensor *t)
{
  return cpu_count(t, cpu_last(t));
}

static inline int64_t cpu_row(const cpu_tensor *t, int64_t row)
{
  return cpu_at(t, cpu_last(t), row);
}

/* Bytes. */
static inline int64_t cpu_element_size(int32_t dtype)
{
  switch (dtype) {
  case TSR_F16:
  case TSR_BF16:
    return 2;
  case TSR_I8:
    return 1;
  default:
    return 4;
  }
}

#endif
