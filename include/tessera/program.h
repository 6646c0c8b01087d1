/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/program.h: programs.
 *
 * A program is a straight-line list of operators over tensors with static shapes: no control flow, each tensor written
 * once (states excepted: append and update write those). It is built once, compiled for a device once (runtime.h), and
 * run many times. What varies from run to run (lengths, the position of a decoding step) enters as small i32 tensors.
 *
 *     build -> [differentiate] -> compile for a device -> run, run, run
 *
 * Errors while building are sticky: a builder that fails returns TSR_INVALID and sets the program's status; builders
 * that are handed TSR_INVALID return TSR_INVALID and do nothing. So a model is built without a check per line, and at
 * the end tsr_program_status says what went wrong first.
 *
 * A program belongs to one thread at a time.
 */
#ifndef TESSERA_PROGRAM_H
#define TESSERA_PROGRAM_H

#include <stdio.h>

#include "tessera/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_program tsr_program;

/* A tensor of a program: an index into tsr_program_desc.tensors. */
typedef int32_t tsr_ref;
#define TSR_NONE    0    /* no tensor: an optional operand left out */
#define TSR_INVALID (-1) /* what a failed builder returns */

/* *program is the caller's until tsr_program_destroy. Errors: TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_program_create(tsr_program **program) TSR_MUST_CHECK;

/* Takes NULL. Executables made from the program live on. */
TSR_API void tsr_program_destroy(tsr_program *program);

/* TSR_OK, or the first error of building, whose message becomes the thread's. */
TSR_API tsr_status tsr_program_status(const tsr_program *program) TSR_MUST_CHECK;

/* Tensors that exist before the first line. `name` is copied, must not be empty, and is unique among the program's
 * constants, inputs, outputs and states. Errors: TSR_ERR_ARGUMENT, TSR_ERR_DTYPE, TSR_ERR_SHAPE. */
TSR_API tsr_ref tsr_constant(tsr_program *program, const char *name, tsr_dtype dtype, tsr_shape shape);
TSR_API tsr_ref tsr_input(tsr_program *program, const char *name, tsr_dtype dtype, tsr_shape shape);
TSR_API tsr_ref tsr_state(tsr_program *program, const char *name, tsr_dtype dtype, tsr_shape shape);

/* Names a result that the host reads after a run. A contiguous result of a line becomes an output itself; anything else
 * (a view, a constant, an input) costs one copy line. Returns the output's tensor. */
TSR_API tsr_ref tsr_output(tsr_program *program, const char *name, tsr_ref x);

/* Views: other extents and strides over the same elements, no line and no copy. All return a new tensor.
 * Errors: TSR_ERR_SHAPE. */

/* The same elements in row-major order with other extents. Fails if strides cannot express it (copy first). */
TSR_API tsr_ref tsr_reshape(tsr_program *program, tsr_ref x, tsr_shape shape);

/* Axis i of the result is axis order[i] of x; order is a permutation of 0 .. rank-1. */
TSR_API tsr_ref tsr_permute(tsr_program *program, tsr_ref x, const int32_t *order);

/* Swaps two axes; negative ones count from the last (-1). */
TSR_API tsr_ref tsr_transpose(tsr_program *program, tsr_ref x, int32_t axis_a, int32_t axis_b);

/* Elements start .. start+count-1 along one axis (negative: from the last). */
TSR_API tsr_ref tsr_slice(tsr_program *program, tsr_ref x, int32_t axis, int64_t start, int64_t count);

/* Repeats axes of extent 1 and adds leading axes until x has the extents of `shape` (right-aligned). */
TSR_API tsr_ref tsr_expand(tsr_program *program, tsr_ref x, tsr_shape shape);

/* Scopes name the place of lines in the model: a line's label is the open scopes joined by '.', "" without one. Push
 * formats as printf does. */
TSR_API void tsr_scope_push(tsr_program *program, const char *format, ...) TSR_PRINTF(2, 3);
TSR_API void tsr_scope_pop(tsr_program *program);

/* Looking at a program */
TSR_API int32_t tsr_program_line_count(const tsr_program *program);

/* A constant, input, output or state by name; TSR_NONE if there is none. */
TSR_API tsr_ref tsr_program_find(const tsr_program *program, const char *name);

/* Extents, type, storage kind (TSR_STORAGE_*) and name ("" for a temporary) of a valid ref; of another: zeros, "". */
TSR_API tsr_shape tsr_ref_shape(const tsr_program *program, tsr_ref x);
TSR_API tsr_dtype tsr_ref_dtype(const tsr_program *program, tsr_ref x);
TSR_API int32_t tsr_ref_kind(const tsr_program *program, tsr_ref x);
TSR_API const char *tsr_ref_name(const tsr_program *program, tsr_ref x);

/* The program as a backend will see it, storages not yet placed (buffer 0, offset 0). Borrowed: valid until the program
 * changes. */
TSR_API const tsr_program_desc *tsr_program_describe(const tsr_program *program);

/* Prints the listing, one line per operator, for people. `out` is the caller's. */
TSR_API void tsr_program_print(const tsr_program *program, FILE *out);

/* One line of the listing, without a newline, cut to `size`; returns text. line: 0 .. tsr_program_line_count - 1. */
TSR_API char *tsr_program_print_line(const tsr_program *program, int32_t line, char *text, size_t size);

typedef struct tsr_program_statistics {
  int64_t lines;          /* operators */
  int64_t views;          /* tensors that are views, which cost nothing */
  double flops;           /* floating-point operations of one run at full capacity */
  double bytes;           /* bytes read and written by one run at full capacity, each operand once per line */
  int64_t constant_bytes; /* of each kind of storage, summed */
  int64_t input_bytes;
  int64_t output_bytes;
  int64_t state_bytes;
  int64_t temporary_bytes; /* one buffer per temporary */
  int64_t planned_bytes;   /* the arena that the memory plan needs instead */
} tsr_program_statistics;

/* `alignment`: of a temporary in the arena, bytes, a power of two. The plan is that of a device which computes line
 * after line; tsr_device_measure (tessera/runtime.h) asks one. Errors: the program's status, TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_program_measure_sized(const tsr_program *program, int64_t alignment,
                                             tsr_program_statistics *statistics, size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_program_measure(const tsr_program *program, int64_t alignment,
                                                            tsr_program_statistics *statistics)
{
  return tsr_program_measure_sized(program, alignment, statistics, sizeof *statistics);
}

#ifdef __cplusplus
}
#endif
#endif
