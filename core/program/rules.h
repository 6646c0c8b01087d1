/* SPDX-License-Identifier: Apache-2.0
 *
 * What the shape rules share. Each function that checks sets the program's error and returns 0, or returns 1.
 */
#ifndef TESSERA_CORE_PROGRAM_RULES_H
#define TESSERA_CORE_PROGRAM_RULES_H

#include "core/program/program.h"

/* The operand in a slot, and its extents. */
const tsr_tensor_desc *tsr_rule_operand(const tsr_program *program, const tsr_line_desc *line, int32_t slot);
tsr_shape tsr_rule_shape(const tsr_program *program, const tsr_line_desc *line, int32_t slot);

/* Makes result `slot`. */
int tsr_rule_result(tsr_program *program, tsr_line_desc *line, int32_t slot, tsr_dtype dtype, const tsr_shape *shape);

/* Replaces operand `slot`, if present, by its expansion to `shape`. */
int tsr_rule_expand(tsr_program *program, tsr_line_desc *line, int32_t slot, const tsr_shape *shape);

/* Demands exact extents of an operand, if present. */
int tsr_rule_exactly(tsr_program *program, tsr_line_desc *line, int32_t slot, const tsr_shape *shape);

/* Demands a rank of an operand, which is present. */
int tsr_rule_rank(tsr_program *program, const tsr_line_desc *line, int32_t slot, int32_t low, int32_t high);

/* [B] or [1] i32, expanded to [B]. */
int tsr_rule_per_sentence(tsr_program *program, tsr_line_desc *line, int32_t slot, int64_t n_batch);

/* Checks and expands the masking of scores [B, H, L, S] whose operands stand in slots first .. first+3. */
int tsr_rule_masking(tsr_program *program, tsr_line_desc *line, int32_t first, const tsr_shape *scores);

/* Demands that a relative bias of `rows` rows fits the line's attributes. */
int tsr_rule_relative(tsr_program *program, const tsr_line_desc *line, int64_t rows);

/* Demands that q, k and v, in slots 0 to 2, fit each other, and slot 7, the rows, if present. */
int tsr_rule_heads(tsr_program *program, const tsr_line_desc *line);

/* Demands that the attribute names an axis of the first operand, and counts it from the front. */
int tsr_rule_axis(tsr_program *program, tsr_line_desc *line);

int tsr_rule_same_dtype(tsr_program *program, const tsr_line_desc *line, tsr_dtype a, tsr_dtype b);

/* The seed of a dropout in slot `slot`, if present, and the rate. */
int tsr_rule_seed(tsr_program *program, tsr_line_desc *line, int32_t slot);

#endif
