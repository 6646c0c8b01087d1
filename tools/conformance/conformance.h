/* SPDX-License-Identifier: Apache-2.0
 *
 * tools/conformance/conformance.h: every backend against the reference, operator by operator.
 *
 * A case is a set of parameters; printed in full it is the case's name, and the name selects it again. Its operands
 * come from a counter-based generator keyed by (seed, name, operand, run), so that a case is the same alone and among
 * others.
 *
 * A case builds a program. The reference runs it; from the values that the reference computed, bounds.c derives how far
 * each element of each result may lie from them; the device runs the same program in memory laid out by runner.c, every
 * output and state between two guards; compare.c holds the two together.
 */
#ifndef TESSERA_CONFORMANCE_H
#define TESSERA_CONFORMANCE_H

#include "tessera/ops.h"
#include "tessera/runtime.h"

/* ------------------------------------------------------------------------------------------------------------------
 * Operands (data.c)
 */

/* What an operand holds. Rows are along the last axis. */
typedef enum check_data {
  CHECK_NORMAL,     /* standard normal */
  CHECK_UNIFORM,    /* -1 .. 1 */
  CHECK_WIDE,       /* -12 .. 12, where the activations bend */
  CHECK_INTEGER,    /* whole numbers -4 .. 4: sums of products are exact */
  CHECK_TIES,       /* whole numbers 0 .. 2: most elements are equal to others */
  CHECK_LARGE,      /* normal * 1e30 */
  CHECK_BIG,        /* normal * 1e15: squares stay finite */
  CHECK_TINY,       /* subnormal in the operand's type */
  CHECK_MIXED,      /* signs and magnitudes 1e-8 .. 1e8 */
  CHECK_CANCEL,     /* +-1e4 in turn, plus normal */
  CHECK_SHIFTED,    /* 1e4 plus normal: a mean that dwarfs the spread */
  CHECK_CONSTANT,   /* one value a row */
  CHECK_SPIKE,      /* small, and one element a row far above the others */
  CHECK_ZERO,       /* +0 and -0 */
  CHECK_ASCENDING,  /* sorted */
  CHECK_DESCENDING, /* sorted the other way */
  CHECK_NEGINF,     /* normal, every third element -inf */
  CHECK_NEGINF_ROW, /* normal, every other row -inf throughout */
  CHECK_POSINF,     /* normal, some elements +inf */
  CHECK_INF,        /* normal, some elements +inf or -inf */
  CHECK_NAN,        /* normal, some elements NaN */
  CHECK_SPECIAL,    /* zeros, ends of ranges, halfway cases of the narrow types, infinities, NaN, in turn */
  CHECK_EXTREME,    /* as special, finite values of the operand's type only */
  CHECK_POSITIVE,   /* 0.5 .. 1.5 */
  CHECK_MINUS_ONE,  /* -1 */
  /* Normal, and something at the end of each row or at the edge of a tile, another from row to row: two values 120
   * above the others, -inf from there to the end, NaN, nothing. */
  CHECK_EDGES,
  CHECK_DATA_COUNT
} check_data;

const char *check_data_name(check_data data);

/* How an operand lies in its storage. Cells that the view does not reach hold a poison that shows when it is read. */
typedef enum check_view {
  CHECK_DENSE,
  CHECK_OFFSET,         /* rows 1 .. of a storage with two more along axis 0 */
  CHECK_PADDED,         /* a last axis longer by 3, from element 1 */
  CHECK_STRIDED,        /* every second element of the last axis; rank 1 to 3 */
  CHECK_TRANSPOSED,     /* the last two axes swapped */
  CHECK_PADDED_T,       /* both: swapped, and cut out of a larger matrix */
  CHECK_REVERSED,       /* axes stored in the opposite order */
  CHECK_HEADS,          /* axes 1 and 2 swapped; rank 4 (rank 3: axes 0 and 1) */
  CHECK_BROADCAST,      /* axis 0 repeated */
  CHECK_BROADCAST_LAST, /* the last axis repeated */
  CHECK_SCALAR,         /* one element repeated everywhere */
  /* At the end of a storage of more than 128 MiB, more than many drivers let one binding reach; rank 2 up. Takes a
   * second: a few cases only. Where every storage counts as too large (TESSERA_MAX_BINDING), all others tell. */
  CHECK_FAR,
  CHECK_VIEW_COUNT
} check_view;

const char *check_view_name(check_view view);

typedef struct check_fill {
  check_data data;     /* of floating-point operands */
  int32_t low, high;   /* of i32 and i8 operands: uniform low .. high, both within */
  const int32_t *list; /* or these in turn. Static */
  const float *reals;  /* of f32 operands: these in turn instead of data. Static */
  int32_t n_list;
  int32_t step;   /* added to an i32 operand from run to run; how far a run begins after the one before in reals */
  int32_t plus;   /* added to each element of an i32 operand */
  int32_t repeat; /* of i32 operands: so many in a row are the same; 0: 1 */
  int32_t padded; /* of i32 operands: of each so many in a row the second half are `low`; 0: none are */
  /* Of floating-point operands: NaN and infinities from index hidden + slope * column of axis 1 on; hidden 0: none;
   * less: before index -hidden - slope * column */
  int32_t hidden, slope;
} check_fill;

/* One operand of a case that exists before its first line. */
typedef struct check_leaf {
  tsr_ref base; /* the constant, input or state */
  tsr_ref view; /* the view of it that the case uses, and that `fill` fills */
  check_fill fill;
  tsr_shape whole;             /* the operand's extents in the whole case */
  int64_t first[TSR_MAX_RANK]; /* where the view begins among these */
} check_leaf;

#define CHECK_MAX_LEAVES 64

/* Dimensions along which the results of a large case do not depend on one another: the rows and columns of a product,
 * the queries of an attention. A part of such a case takes some consecutive ones of each. The reference, which is slow,
 * computes drawn parts only; devices compute the whole. */
enum { CHECK_UNCUT, CHECK_DIMENSION_1, CHECK_DIMENSION_2, CHECK_DIMENSIONS = CHECK_DIMENSION_2 };

typedef struct check_part {
  int64_t first[CHECK_DIMENSIONS + 1], count[CHECK_DIMENSIONS + 1]; /* [0] is not used */
} check_part;

/* A result of a case that can be cut. */
typedef struct check_output {
  tsr_ref ref;
  int64_t first[TSR_MAX_RANK]; /* where it begins in the whole case's */
} check_output;

#define CHECK_MAX_OUTPUTS 4

typedef struct check_case check_case;

typedef struct check_build {
  const check_case *test;
  const check_part *part; /* NULL: the whole case is built */
  tsr_program *program;
  check_leaf leaf[CHECK_MAX_LEAVES];
  int32_t n_leaves;
  check_output output[CHECK_MAX_OUTPUTS]; /* of check_output_cut */
  int32_t n_outputs;
} check_build;

/* Makes an operand of `shape` and returns its view. kind: TSR_STORAGE_CONSTANT, _INPUT or _STATE. */
tsr_ref check_operand(check_build *build, int32_t kind, tsr_dtype dtype, tsr_shape shape, check_view view,
                      check_fill fill);

/* The same where the case may be cut: `whole` is the operand's shape in the whole case; dimension[axis]: along which of
 * the case's dimensions this axis runs, or CHECK_UNCUT. */
tsr_ref check_operand_cut(check_build *build, int32_t kind, tsr_dtype dtype, tsr_shape whole, check_view view,
                          check_fill fill, const int32_t dimension[TSR_MAX_RANK]);

/* tsr_output of a result whose axes run along such dimensions. */
void check_output_cut(check_build *build, const char *name, tsr_ref ref, const int32_t dimension[TSR_MAX_RANK]);

/* The extent of a dimension of the case in what is built, and where it begins. extent: in the whole case. */
int64_t check_extent(const check_build *build, int32_t dimension, int64_t extent);
int64_t check_first(const check_build *build, int32_t dimension);

/* An input of the given data, dense. */
tsr_ref check_input(check_build *build, tsr_shape shape, check_data data);

/* An i32 input of rank 1 that holds list[0 .. n-1] + run * step. */
tsr_ref check_integers(check_build *build, const int32_t *list, int32_t n, int32_t step);

#define CHECK_FILL(...) ((check_fill){__VA_ARGS__})

/* 64 random bits of (key, counter); the key of a text. */
uint64_t check_random(uint64_t key, uint64_t counter);
uint64_t check_hash(uint64_t key, const char *text);

/* Fills `bytes`, the storage of `leaf`, for run `run`. Constants and states are the same for each run. */
void check_leaf_fill(const check_build *build, int32_t leaf, uint64_t seed, int32_t run, void *bytes);

/* ------------------------------------------------------------------------------------------------------------------
 * Cases (cases*.c)
 */

struct check_case {
  char *name;   /* "matmul(M=7,..)" */
  int32_t op;   /* TSR_OP_*, or 0 for a program of several lines */
  int32_t perf; /* 1: of the perf table, 0: of the test table */
  int32_t runs; /* runs in a row, each with new inputs */
  int32_t own;  /* 1: the runtime makes the buffers of inputs, outputs and states; 0: the runner does, with guards */
  double nmse;  /* limit over each output; 0: none. For programs so long that their bounds grow too wide */
  uint64_t key; /* hash of name and perf */
  const void *params; /* the table's own */
  void (*build)(check_build *build, const void *params);
  int32_t large; /* 1: of a real model's size; 2: and counts double (tools/tessera/check/largest.c) */
  int32_t parts; /* held against the reference; 0: the whole case is */
  int64_t extent[CHECK_DIMENSIONS + 1], reach[CHECK_DIMENSIONS + 1]; /* of the whole case, and of a part */
};

typedef struct check_table {
  check_case *test;
  int32_t count;
  int32_t capacity;
  int32_t failed; /* 1: out of memory while it was built */
  int32_t perf;   /* 1: cases are being added to the perf table */
  int32_t large;  /* of the cases that are being added */
  int32_t fixed;  /* of the cases: those that are written down; those drawn come behind them */
} check_table;

/* Every case there is. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status check_table_create(check_table *table) TSR_MUST_CHECK;
void check_table_finish(check_table *table);

/* Adds cases of each family whose parameters are drawn from `seed`, till they cost `millions` together, and one at
 * least: in millions of operations and bytes, one that costs less counting as one. So cheap cases are many, and dear
 * ones few. The first are the same whatever `millions` is. Errors: TSR_ERR_OUT_OF_MEMORY, what building a program
 * returns. */
tsr_status check_table_draw(check_table *table, int32_t millions, uint64_t seed) TSR_MUST_CHECK;

/* Adds a case; `params` is copied. One that is there already (tables overlap)
 * is not added again. Returns the case, valid until the next is added, or NULL (table->failed is set). */
check_case *check_table_add(check_table *table, int32_t op, void (*build)(check_build *, const void *),
                            const void *params, size_t params_size, const char *format, ...) TSR_PRINTF(6, 7);

/* Of a case that was just added: the reference computes `parts` drawn parts of it, each of `rows` along dimension 1, of
 * extent `n_rows`, and likewise `columns` along dimension 2 (0: there is none). The first part is at the beginning and
 * the second at the end. NULL is ignored. */
void check_case_cut(check_case *test, int32_t parts, int64_t n_rows, int64_t rows, int64_t n_columns, int64_t columns);

/* The part of this number. */
check_part check_part_draw(const check_case *test, uint64_t seed, int32_t number);

void check_cases_matmul(check_table *table);
void check_cases_reduce(check_table *table);
void check_cases_rows(check_table *table);
void check_cases_topk(check_table *table);
void check_cases_elementwise(check_table *table);
void check_cases_copy(check_table *table);
void check_cases_rotate(check_table *table);
void check_cases_index(check_table *table);
void check_cases_state(check_table *table);
void check_cases_conv1d(check_table *table);
void check_cases_mask(check_table *table);
void check_cases_attention(check_table *table);
void check_cases_attention_gradient(check_table *table);
void check_cases_scatter(check_table *table);
void check_cases_concat(check_table *table);
void check_cases_gradient(check_table *table);
void check_cases_dropout(check_table *table);
void check_cases_loss(check_table *table);
void check_cases_optimiser(check_table *table);
void check_cases_program(check_table *table);

/* ------------------------------------------------------------------------------------------------------------------
 * Bounds (bounds*.c)
 */

/* What the reference holds in one storage of a program, and how far from it a device may be. */
typedef struct check_storage {
  int32_t dtype;               /* of the tensors in it */
  int64_t count;               /* elements */
  void *bytes;                 /* as the reference left them */
  float *value;                /* f16 and bf16 widened; f32: the same memory as bytes; integers: NULL */
  float *before;               /* of an f32 state: what it held before the run */
  double *error;               /* bound per element; INFINITY: any value will do; NULL: exact */
  int64_t terms;               /* length of the longest sum behind an element, 0 where there is none */
  int32_t biased;              /* 1: roundings need not average out (operands that are not random): no statistics */
  tsr_shape shape;             /* of the result that it holds, for messages */
  int64_t first[TSR_MAX_RANK]; /* where that begins in the whole case's */
} check_storage;

typedef struct check_values {
  const tsr_program_desc *program;
  check_storage *storage; /* one per storage of the program */
} check_values;

/* Bounds of the results of one line, from the values and bounds of its operands. Errors: TSR_ERR_OUT_OF_MEMORY,
 * TSR_ERR_INTERNAL (an operator without a bound). */
tsr_status check_bound_line(check_values *values, int32_t line) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * Comparison (compare.c)
 */

typedef struct check_difference {
  double worst;      /* largest error / bound among elements with a bound above 0 */
  double nmse;       /* sum of squared errors / sum of squared values, finite elements; those without a bound too */
  int64_t free;      /* elements without a bound */
  char message[512]; /* the first disagreement; "" if there is none */
} check_difference;

/* Holds what a device wrote against the reference's storage. `name` is for the message; nmse: the case's limit, or 0.
 * Returns 1 if they agree. */
int check_compare(const check_storage *expected, const void *found, const char *name, double nmse,
                  check_difference *difference);

/* ------------------------------------------------------------------------------------------------------------------
 * Running (runner.c)
 */

typedef enum check_verdict {
  CHECK_PASSED,
  CHECK_FAILED,
  CHECK_UNSUPPORTED,
} check_verdict;

typedef struct check_result {
  check_verdict verdict;
  double worst;       /* largest error / bound */
  double nmse;        /* of the outputs */
  int64_t free;       /* elements that nothing was asked of */
  char message[1024]; /* why it failed, or which line is not supported */
} check_result;

/* One device and the memory that the cases share on it. */
typedef struct check_device {
  tsr_device *device;
  tsr_buffer *arena;
  int64_t alignment;
} check_device;

/* Opens the device of that name. Finish it in any case. Errors: those of tsr_device_open. */
tsr_status check_device_open(check_device *device, tsr_runtime *runtime, const char *name) TSR_MUST_CHECK;
void check_device_finish(check_device *device);

/* 1 if the device executes every line; otherwise *result says which it does not. */
int check_device_supports(const check_device *device, const tsr_program *program, check_result *result);

/* A case, built, with the reference's answer and the bounds. */
typedef struct check_oracle check_oracle;

/* Builds the case and runs it on the reference. *result is the caller's. Errors: what building and running return. */
tsr_status check_oracle_create(const check_case *test, uint64_t seed, check_device *reference,
                               check_oracle **result) TSR_MUST_CHECK;
void check_oracle_destroy(check_oracle *oracle);
const tsr_program *check_oracle_program(const check_oracle *oracle);

/* Runs the case on a device, twice, and compares. */
void check_oracle_try(check_oracle *oracle, check_device *device, check_result *result);

typedef struct check_time {
  double seconds;  /* of one run, the median, as the host sees it */
  double device;   /* of one run, as the device's profile has it; 0 where there is none */
  double flops;    /* of one run */
  double bytes;    /* of one run */
  int32_t repeats; /* that were timed */
} check_time;

/* What a program costs, in operations and bytes as the operator table counts them. */
double check_program_cost(const tsr_program *program);

/* Times a case on a device that supports it. Errors: what building and running return. */
tsr_status check_measure(const check_case *test, uint64_t seed, check_device *device,
                         check_time *result) TSR_MUST_CHECK;

/* Builds the case's program alone, the whole of it or (part not NULL, which must outlast the build) a part. Errors:
 * what building returns. The program is the caller's. */
tsr_status check_build_program(const check_case *test, check_build *build) TSR_MUST_CHECK;
tsr_status check_build_part(const check_case *test, const check_part *part, check_build *build) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * Coverage (coverage.c)
 */

/* What must have been executed: each operator; each optional operand present and absent; each type of each operand;
 * each activation; each flag at 0 and 1. */
typedef struct check_item {
  char name[64]; /* "matmul.b:bf16" */
  int32_t op;
  int32_t seen;     /* lines that were executed */
  int32_t excepted; /* 1: the device need not execute it */
} check_item;

typedef struct check_coverage {
  check_item *item;
  int32_t count;
  int32_t capacity;
} check_coverage;

/* 1 if the operator of a case, or of that name, matches one of the globs, with commas between (NULL: all do). */
int check_selects(const char *globs, const char *name);

/* All items of the operator table whose operator matches (check_selects). Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status check_coverage_create(check_coverage *coverage, const char *globs) TSR_MUST_CHECK;
void check_coverage_finish(check_coverage *coverage);
void check_coverage_note(check_coverage *coverage, const tsr_program *program); /* its lines were executed */

/* 1 if an item that was not seen yet, and is not excepted, is in one of the program's lines. */
int check_coverage_adds(const check_coverage *coverage, const tsr_program *program);
double check_coverage_fraction(const check_coverage *coverage); /* 0 .. 1, exceptions left out; 1 of nothing */

/* Excepts the items whose name matches the glob. */
void check_coverage_except(check_coverage *coverage, const char *glob);

/* 1 if an excepted item is in one of the program's lines. */
int check_coverage_excuses(const check_coverage *coverage, const tsr_program *program);

#endif
