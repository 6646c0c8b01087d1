/* SPDX-License-Identifier: Apache-2.0
 *
 * Which operators, operands, types and attributes the cases execute, against what the operator table offers.
 */
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/conformance.h"

static const tsr_dtype dtypes[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I8, TSR_I32};
#define N_DTYPES ((int32_t)(sizeof(dtypes) / sizeof(dtypes[0])))

static const char *const activation_names[] = {"none", "relu", "gelu_erf", "gelu_tanh", "silu"};

static tsr_status add_item(check_coverage *coverage, int32_t op, const char *format, ...) TSR_PRINTF(3, 4);

static tsr_status add_item(check_coverage *coverage, int32_t op, const char *format, ...)
{
  check_item *item;
  va_list arguments;

  if (coverage->count == coverage->capacity) {
    int32_t capacity = coverage->capacity ? 2 * coverage->capacity : 64;
    item = realloc(coverage->item, (size_t)capacity * sizeof(*item));
    if (!item) {
      return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for the coverage table");
    }
    coverage->item = item;
    coverage->capacity = capacity;
  }
  item = &coverage->item[coverage->count++];
  memset(item, 0, sizeof(*item));
  item->op = op;
  va_start(arguments, format);
  vsnprintf(item->name, sizeof(item->name), format, arguments);
  va_end(arguments);
  return TSR_OK;
}

static tsr_status add_slots(check_coverage *coverage, int32_t op, const tsr_op_info *info, const tsr_slot_info *slot)
{
  tsr_status status = TSR_OK;

  for (; slot->name && !status; slot++) {
    for (int32_t i = 0; i < N_DTYPES && !status; i++) {
      if (slot->dtypes & 1u << dtypes[i]) {
        status = add_item(coverage, op, "%s.%s:%s", info->name, slot->name, tsr_dtype_name(dtypes[i]));
      }
    }
    if (slot->optional && !status) {
      status = add_item(coverage, op, "%s.%s:absent", info->name, slot->name);
    }
  }
  return status;
}

static int has_causal(int32_t op)
{
  return op == TSR_OP_MASK || op == TSR_OP_ATTENTION || op == TSR_OP_ATTENTION_GRADIENT;
}

static int has_relative(int32_t op)
{
  return has_causal(op) || op == TSR_OP_RELATIVE_GRADIENT;
}

/* 1 if the line has the relative bias that the flags are about. */
static int reads_relative(const tsr_line_desc *line)
{
  return line->op == TSR_OP_RELATIVE_GRADIENT || (has_causal(line->op) && line->in[line->op == TSR_OP_MASK ? 4 : 6]);
}

static int has_reduced_precision(int32_t op)
{
  return op == TSR_OP_MATMUL || op == TSR_OP_ATTENTION || op == TSR_OP_ATTENTION_GRADIENT;
}

static int has_activation(int32_t op, int32_t activation)
{
  return op == TSR_OP_MATMUL || (op == TSR_OP_ACTIVATION_GRADIENT && activation != TSR_ACTIVATION_NONE) ||
         (op == TSR_OP_GELU && (activation == TSR_ACTIVATION_GELU_ERF || activation == TSR_ACTIVATION_GELU_TANH));
}

static tsr_status add_operator(check_coverage *coverage, int32_t op, const tsr_op_info *info)
{
  tsr_status status = add_item(coverage, op, "%s", info->name);

  if (!status) {
    status = add_slots(coverage, op, info, info->in);
  }
  if (!status) {
    status = add_slots(coverage, op, info, info->out);
  }
  for (int32_t i = TSR_ACTIVATION_NONE; i <= TSR_ACTIVATION_SILU && !status; i++) {
    if (has_activation(op, i)) {
      status = add_item(coverage, op, "%s/activation=%s", info->name, activation_names[i]);
    }
  }
  for (int32_t i = 0; i < 2 && !status; i++) {
    if (has_causal(op)) {
      status = add_item(coverage, op, "%s/causal=%d", info->name, (int)i);
    }
    if (has_relative(op) && !status) {
      status = add_item(coverage, op, "%s/bidirectional=%d", info->name, (int)i);
    }
    if (has_relative(op) && !status) {
      status = add_item(coverage, op, "%s/clamped=%d", info->name, (int)i);
    }
    if (has_reduced_precision(op) && !status) {
      status = add_item(coverage, op, "%s/narrow=%d", info->name, (int)i);
    }
    if ((op == TSR_OP_ATTENTION || op == TSR_OP_ATTENTION_GRADIENT) && !status) {
      status = add_item(coverage, op, "%s/softcap=%d", info->name, (int)i);
    }
    if (op == TSR_OP_ATTENTION && !status) {
      status = add_item(coverage, op, "%s/grouped=%d", info->name, (int)i);
    }
    if (op == TSR_OP_ADAM && !status) {
      status = add_item(coverage, op, "%s/decoupled=%d", info->name, (int)i);
    }
  }
  return status;
}

int check_selects(const char *globs, const char *name)
{
  char glob[128], family[64];
  snprintf(family, sizeof(family), "%.*s", (int)strcspn(name, "("), name);
  for (const char *at = globs; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    snprintf(glob, sizeof(glob), "%.*s", (int)strcspn(at, ","), at);
    if (fnmatch(glob, family, 0) == 0) {
      return 1;
    }
  }
  return !globs;
}

tsr_status check_coverage_create(check_coverage *coverage, const char *globs)
{
  tsr_status status = TSR_OK;

  memset(coverage, 0, sizeof(*coverage));
  for (int32_t op = 1; op < TSR_OP_COUNT && !status; op++) {
    const tsr_op_info *info = tsr_op_describe(op);
    if (info && check_selects(globs, info->name)) {
      status = add_operator(coverage, op, info);
    }
  }
  if (status) {
    check_coverage_finish(coverage);
  }
  return status;
}

void check_coverage_finish(check_coverage *coverage)
{
  free(coverage->item);
  memset(coverage, 0, sizeof(*coverage));
}

void check_coverage_except(check_coverage *coverage, const char *glob)
{
  for (int32_t i = 0; i < coverage->count; i++) {
    coverage->item[i].excepted |= fnmatch(glob, coverage->item[i].name, 0) == 0;
  }
}

/* A walk over the items of a program. */
typedef struct walk {
  const check_coverage *coverage;
  int executed; /* 1: what is met counts as seen */
  int is_empty; /* 1: the line has no results to compute, so that it shows nothing of an exception */
  int excepted; /* 1: an exception was met */
  int fresh;    /* 1: an item was met that is no exception and was not seen before */
} walk;

static void meet(walk *w, const char *format, ...) TSR_PRINTF(2, 3);

static void meet(walk *w, const char *format, ...)
{
  const check_coverage *coverage = w->coverage;
  char name[sizeof(coverage->item->name)];
  va_list arguments;

  va_start(arguments, format);
  vsnprintf(name, sizeof(name), format, arguments);
  va_end(arguments);
  for (int32_t i = 0; i < coverage->count; i++) {
    if (strcmp(coverage->item[i].name, name) == 0) {
      w->fresh |= coverage->item[i].seen == 0 && !coverage->item[i].excepted;
      w->excepted |= coverage->item[i].excepted;
      coverage->item[i].seen += w->executed && !(w->is_empty && coverage->item[i].excepted);
      return;
    }
  }
}

static void walk_slots(walk *w, const tsr_program_desc *program, const tsr_op_info *info, const tsr_slot_info *slot,
                       const int32_t *tensor)
{
  for (; slot->name; slot++, tensor++) {
    if (*tensor) {
      meet(w, "%s.%s:%s", info->name, slot->name, tsr_dtype_name(tsr_tensor_at(program, *tensor)->dtype));
    } else {
      meet(w, "%s.%s:absent", info->name, slot->name);
    }
  }
}

static int is_empty(const tsr_tensor_desc *tensor)
{
  int some = 0;
  for (int32_t axis = 0; axis < TSR_MAX_RANK; axis++) {
    some |= tensor->extent[axis] == 0;
  }
  return some;
}

static int has_no_results(const tsr_program_desc *program, const tsr_line_desc *line)
{
  int none = 1;
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; i++) {
    none &= line->out[i] == 0 || is_empty(tsr_tensor_at(program, line->out[i]));
  }
  return none;
}

/* Returns what was met. */
static walk walk_program(const check_coverage *coverage, const tsr_program *program, int executed)
{
  walk w = {.coverage = coverage, .executed = executed};
  const tsr_program_desc *desc = tsr_program_describe(program);

  for (int32_t i = 0; i < desc->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(desc, i);
    const tsr_op_info *info = tsr_op_describe(line->op);
    w.is_empty = has_no_results(desc, line);
    meet(&w, "%s", info->name);
    walk_slots(&w, desc, info, info->in, line->in);
    walk_slots(&w, desc, info, info->out, line->out);
    if (has_activation(line->op, line->attributes.activation)) {
      meet(&w, "%s/activation=%s", info->name, activation_names[line->attributes.activation]);
    }
    if (has_causal(line->op)) {
      meet(&w, "%s/causal=%d", info->name, (int)line->attributes.causal);
    }
    if (reads_relative(line)) {
      meet(&w, "%s/bidirectional=%d", info->name, (int)line->attributes.bidirectional);
      meet(&w, "%s/clamped=%d", info->name, (int)line->attributes.clamped);
    }
    if (has_reduced_precision(line->op)) {
      meet(&w, "%s/narrow=%d", info->name, line->attributes.reduced_precision != 0);
    }
    if (line->op == TSR_OP_ATTENTION || line->op == TSR_OP_ATTENTION_GRADIENT) {
      meet(&w, "%s/softcap=%d", info->name, line->attributes.softcap != 0.0f);
    }
    if (line->op == TSR_OP_ATTENTION) {
      const int64_t heads = tsr_tensor_at(desc, line->in[0])->extent[2];
      meet(&w, "%s/grouped=%d", info->name, tsr_tensor_at(desc, line->in[1])->extent[2] != heads);
    }
    if (line->op == TSR_OP_ADAM) {
      meet(&w, "%s/decoupled=%d", info->name, (int)line->attributes.decoupled);
    }
  }
  return w;
}

void check_coverage_note(check_coverage *coverage, const tsr_program *program)
{
  (void)walk_program(coverage, program, 1);
}

int check_coverage_excuses(const check_coverage *coverage, const tsr_program *program)
{
  return walk_program(coverage, program, 0).excepted;
}

int check_coverage_adds(const check_coverage *coverage, const tsr_program *program)
{
  return walk_program(coverage, program, 0).fresh;
}

double check_coverage_fraction(const check_coverage *coverage)
{
  int32_t seen = 0, wanted = 0;

  for (int32_t i = 0; i < coverage->count; i++) {
    wanted += !coverage->item[i].excepted;
    seen += !coverage->item[i].excepted && coverage->item[i].seen > 0;
  }
  return wanted ? (double)seen / (double)wanted : 1.0;
}
