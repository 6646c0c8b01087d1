/* SPDX-License-Identifier: Apache-2.0
 *
 * How the builders of core/program work on a program. Nothing outside core/program includes this.
 *
 * A builder fills a tsr_line_desc with the caller's operands and hands it to tsr_line_append, which checks the slots
 * against the operator's row, calls the row's shape rule, and appends the line. A shape rule replaces operands that
 * broadcast by expanded views and makes the results.
 */
#ifndef TESSERA_CORE_PROGRAM_H
#define TESSERA_CORE_PROGRAM_H

#include "core/base/arena.h"
#include "tessera/ops.h"

struct tsr_program {
  tsr_program_desc desc; /* always current: what tsr_program_describe returns */
  tsr_storage_desc *storages;
  tsr_tensor_desc *tensors;
  tsr_line_desc *lines;
  const char **names; /* [n_storages]; "" for a temporary */
  tsr_ref *named;     /* [n_storages]: the tensor that the name stands for */
  int32_t storage_room, tensor_room, line_room, name_room, named_room;
  int32_t *slots; /* [slot_room], a power of two: the storages that have names, by the hash of these; 0: empty */
  int32_t slot_room, slots_used;
  tsr_arena texts;
  char scope[512];   /* the open scopes joined by '.' */
  const char *label; /* the scope's copy in `texts`; NULL: not copied yet */
  tsr_status status;
  char message[1024];
};

/* Makes `status` and the message the program's, if it has no error yet; returns TSR_INVALID. The message names the
 * operator (op; 0: none) and the scope. */
tsr_ref tsr_program_fail(tsr_program *program, int32_t op, tsr_status status, const char *format, ...) TSR_PRINTF(4, 5);

/* 1 if the program is in order and x is one of its tensors. Otherwise sets an error (unless x is TSR_INVALID) and
 * returns 0. */
int tsr_program_has(tsr_program *program, int32_t op, tsr_ref x);

/* 1 if a tensor can have these extents. Otherwise sets an error, in which `what` names the tensor, and returns 0. */
int tsr_program_allows(tsr_program *program, int32_t op, const char *what, const tsr_shape *shape);

/* A new storage with a contiguous tensor of it; TSR_INVALID on an error. */
tsr_ref tsr_program_new(tsr_program *program, int32_t op, int32_t kind, const char *name, tsr_dtype dtype,
                        const tsr_shape *shape);

/* A further view of a storage. */
tsr_ref tsr_program_view(tsr_program *program, const tsr_tensor_desc *view);

tsr_shape tsr_tensor_shape(const tsr_tensor_desc *tensor);

/* 1 if the elements lie in row-major order without gaps. */
int tsr_tensor_contiguous(const tsr_tensor_desc *tensor);

/* The extents that a and b broadcast to; 0 if they do not. */
int tsr_shape_broadcast(const tsr_shape *a, const tsr_shape *b, tsr_shape *out);

/* x with the extents of `shape`: x itself or an expanded view; TSR_INVALID, without an error set, if it does not
 * broadcast. */
tsr_ref tsr_program_expand(tsr_program *program, tsr_ref x, const tsr_shape *shape);

/* x under other extents; TSR_INVALID, without an error set, if no strides express it. */
tsr_ref tsr_program_reshape(tsr_program *program, tsr_ref x, const tsr_shape *shape);

/* 1 if the last two axes of a tensor, of rank 2 or more, are rows side by side. */
int tsr_tensor_in_rows(const tsr_tensor_desc *tensor);

/* x as a matrix of `columns`, copied if its strides do not allow that. x is valid. */
tsr_ref tsr_program_as_rows(tsr_program *program, tsr_ref x, int64_t columns);

/* x in another shape: a view where its strides allow it, else of a copy. */
tsr_ref tsr_program_as_shape(tsr_program *program, tsr_ref x, tsr_shape shape);

/* Rows of zeros, such as stand before and behind x [B, T, I]: [B, rows, I]. */
tsr_ref tsr_program_zero_rows(tsr_program *program, tsr_ref x, int64_t rows);

/* A label's text for the line that is being appended. */
const char *tsr_program_label(tsr_program *program);

/* 1 if the operator's results are states that its builder is given. */
int tsr_op_writes_states(int32_t op);

/* Appends the line; the results are given where the operator writes states, else made by the rule. Returns out[0] or
 * TSR_INVALID. */
tsr_ref tsr_line_append(tsr_program *program, tsr_line_desc *line);

/* Appends a line that is complete, under the open scopes' label. Returns 0 after an error. */
int tsr_line_push(tsr_program *program, const tsr_line_desc *line);

/* ------------------------------------------------------------------------------------------------------------------
 * The table
 */

/* Checks a line's shapes and attributes, expands its operands, makes its results. Returns 0 after tsr_program_fail,
 * else 1. */
typedef int (*tsr_shape_rule)(tsr_program *program, tsr_line_desc *line);

/* Floating-point operations of a line. */
typedef double (*tsr_flops_rule)(const tsr_program_desc *program, const tsr_line_desc *line);

/* A line whose gradient is wanted. */
typedef struct tsr_gradient_call {
  tsr_line_desc line;           /* the line, as the gradient's lines may read its operands and results */
  tsr_ref out[TSR_MAX_OUTPUTS]; /* the gradients of its results, their extents; TSR_NONE: zero. At least one is there */
  uint8_t wanted[TSR_MAX_INPUTS]; /* 1: the gradient of the operand is wanted */
  tsr_ref in[TSR_MAX_INPUTS];     /* the rule's answer: the gradients of the operands, as they stand in the line */
} tsr_gradient_call;

/* Appends the lines that compute the gradients of a line's operands from those of its results; NULL in the table: there
 * is no gradient. Errors are the program's. */
typedef void (*tsr_gradient_rule)(tsr_program *program, tsr_gradient_call *call);

/* Bytes that a line reads and writes. */
typedef double (*tsr_bytes_rule)(const tsr_program_desc *program, const tsr_line_desc *line);

/* Fields of tsr_op_attributes, alone or where they belong together. */
enum {
  TSR_READS_ALPHA = 1 << 0,
  TSR_READS_EPSILON = 1 << 1,
  TSR_READS_UNBIASED = 1 << 2,
  TSR_READS_ACTIVATION = 1 << 3,
  TSR_READS_REDUCED_PRECISION = 1 << 4,
  TSR_READS_CAUSAL = 1 << 5,
  TSR_READS_RELATIVE = 1 << 6, /* bidirectional, max_distance, clamped: with a table of biases */
  TSR_READS_DROPOUT = 1 << 7,  /* rate, stream: with a seed */
  TSR_READS_SMOOTHING = 1 << 8,
  TSR_READS_ADAM = 1 << 9, /* beta1, beta2, epsilon, decay, decoupled, max_norm */
  TSR_READS_AXIS = 1 << 10,
  TSR_READS_AXES = 1 << 11,
  TSR_READS_K = 1 << 12,
  TSR_READS_BUCKETS = 1 << 13,
  TSR_READS_EXTENT = 1 << 14,
  TSR_READS_PADDING = 1 << 15,
  TSR_READS_DTYPE = 1 << 16,
  TSR_READS_STRIDE = 1 << 17,
  TSR_READS_SOFTCAP = 1 << 18
};

/* Types that a slot takes since a later minor of the ABI than the one that named it. */
typedef struct tsr_late_types {
  int32_t is_result; /* 1: out[slot], 0: in[slot] */
  int32_t slot;
  uint32_t dtypes; /* bit 1u << TSR_F16 .. of each */
  uint32_t since;
} tsr_late_types;

enum { TSR_MAX_LATE = 2 };

typedef struct tsr_op_row {
  tsr_op_info info;
  tsr_shape_rule shape;
  tsr_flops_rule flops;
  tsr_gradient_rule gradient;
  uint32_t attributes;   /* TSR_READS_*: those that mean something to the operator */
  int32_t writes_states; /* 1: its results are states that its builder is given */
  double cost;          /* of tsr_flops_per_input: operations for each element of in[0]; an exponential counts as one */
  tsr_bytes_rule bytes; /* NULL: all of each operand and result */
  tsr_late_types late[TSR_MAX_LATE]; /* dtypes 0: none */
} tsr_op_row;

/* NULL for a number that is none. */
const tsr_op_row *tsr_op_row_of(int32_t op);

/* The rules, one per operator or family; each stands in the file of its family. */
int tsr_rule_matmul(tsr_program *program, tsr_line_desc *line);
int tsr_rule_conv1d(tsr_program *program, tsr_line_desc *line);
int tsr_rule_softmax(tsr_program *program, tsr_line_desc *line);
int tsr_rule_norm(tsr_program *program, tsr_line_desc *line);
int tsr_rule_mask(tsr_program *program, tsr_line_desc *line);
int tsr_rule_attention(tsr_program *program, tsr_line_desc *line);
int tsr_rule_binary(tsr_program *program, tsr_line_desc *line);
int tsr_rule_unary(tsr_program *program, tsr_line_desc *line);
int tsr_rule_rotate(tsr_program *program, tsr_line_desc *line);
int tsr_rule_embedding(tsr_program *program, tsr_line_desc *line);
int tsr_rule_copy(tsr_program *program, tsr_line_desc *line);
int tsr_rule_append(tsr_program *program, tsr_line_desc *line);
int tsr_rule_update(tsr_program *program, tsr_line_desc *line);
int tsr_rule_gather(tsr_program *program, tsr_line_desc *line);
int tsr_rule_topk(tsr_program *program, tsr_line_desc *line);
int tsr_rule_reduce_sum(tsr_program *program, tsr_line_desc *line);
int tsr_rule_dropout(tsr_program *program, tsr_line_desc *line);
int tsr_rule_cross_entropy(tsr_program *program, tsr_line_desc *line);
int tsr_rule_unary_gradient(tsr_program *program, tsr_line_desc *line);
int tsr_rule_norm_gradient(tsr_program *program, tsr_line_desc *line);
int tsr_rule_relative_gradient(tsr_program *program, tsr_line_desc *line);
int tsr_rule_attention_gradient(tsr_program *program, tsr_line_desc *line);
int tsr_rule_scatter_add(tsr_program *program, tsr_line_desc *line);
int tsr_rule_concat(tsr_program *program, tsr_line_desc *line);
int tsr_rule_sum_of_squares(tsr_program *program, tsr_line_desc *line);
int tsr_rule_adam(tsr_program *program, tsr_line_desc *line);

void tsr_gradient_matmul(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_conv1d(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_softmax(tsr_program *program, tsr_gradient_call *call); /* and log_softmax */
void tsr_gradient_norm(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_mask(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_attention(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_add(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_mul(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_activation(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_rotate(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_embedding(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_copy(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_gather(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_reduce_sum(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_concat(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_dropout(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_cross_entropy(tsr_program *program, tsr_gradient_call *call);
void tsr_gradient_sum_of_squares(tsr_program *program, tsr_gradient_call *call);

double tsr_flops_matmul(const tsr_program_desc *program, const tsr_line_desc *line);
double tsr_flops_conv1d(const tsr_program_desc *program, const tsr_line_desc *line);
double tsr_flops_attention(const tsr_program_desc *program, const tsr_line_desc *line);
double tsr_flops_attention_gradient(const tsr_program_desc *program, const tsr_line_desc *line);
double tsr_flops_per_input(const tsr_program_desc *program, const tsr_line_desc *line); /* the row's cost */
double tsr_flops_none(const tsr_program_desc *program, const tsr_line_desc *line);      /* moves data only */

double tsr_bytes_embedding(const tsr_program_desc *program, const tsr_line_desc *line);
double tsr_bytes_gather(const tsr_program_desc *program, const tsr_line_desc *line);
double tsr_bytes_append(const tsr_program_desc *program, const tsr_line_desc *line);

#endif
