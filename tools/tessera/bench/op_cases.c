/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of tessera bench ops: operators, shapes and precisions.
 */
#include <stdio.h>
#include <string.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/help.h"
#include "tools/tessera/options/options.h"

enum { MAX_SHAPES = 32 };

typedef struct usual_case {
  const char *op;
  const char *shape;
  int32_t large;
} usual_case;

static const usual_case usual[] = {
    {"matmul", "512x512x512", 0},
    {"matmul", "1024x1024x1024", 0},
    {"matmul", "2048x64x512", 0},
    {"matmul", "512x64x2048", 0},
    {"matmul", "37000x8x512", 0},
    {"matmul", "512x1x512", 0},
    {"matmul", "2048x1x512", 0},
    {"matmul", "32000x1x512", 0},
    {"matmul", "4096x4096x4096", 1},
    {"logits_topk", "37000x4x512x8", 0},
    {"attention", "1x256x8x64", 0},
    {"attention", "512x512x8x64", 0},
    {"attention", "1024x1024x8x64", 1},
    {"attention", "8192x8192x8x64", 1},
    {"conv1d", "512x3000x80x1", 1},
    {"conv1d", "512x3000x512x2", 1},
    {"softmax", "1x512", 0},
    {"softmax", "64x512", 0},
    {"softmax", "512x512", 0},
    {"layernorm", "1x512", 0},
    {"layernorm", "64x512", 0},
    {"layernorm", "512x512", 0},
    {"rmsnorm", "1x512", 0},
    {"rmsnorm", "64x512", 0},
    {"rmsnorm", "512x512", 0},
    {"add", "8x512", 0},
    {"add", "64x512", 0},
    {"add", "512x512", 0},
    {"add_norm", "8x512", 0},
    {"add_norm", "512x512", 0},
    {"gelu", "64x2048", 0},
    {"topk", "4x37000x8", 0},
    {"copy", "512x512", 0},
};

enum { USUAL = sizeof usual / sizeof usual[0] };

void bench_print_operators(FILE *out)
{
  enum { COLUMN = 15 };
  const bench_op_info *info;
  fputs("Operators, and what the numbers of a shape are:\n", out);
  for (int32_t op = 0; (info = bench_op_describe(op)) != NULL; op++) {
    char shapes[512] = "";
    fprintf(out, "  %-12s %s\n%*s", info->name, info->extents, COLUMN, "");
    for (int32_t i = 0; i < USUAL; i++) {
      size_t used = strlen(shapes);
      if (strcmp(usual[i].op, info->name) == 0) {
        snprintf(shapes + used, sizeof shapes - used, usual[i].large ? "%s(%s)" : "%s%s", used > 0 ? " " : "",
                 usual[i].shape);
      }
    }
    tsr_help_fill(out, shapes, COLUMN, COLUMN);
  }
}

/* "512x64x2048" into extent. Returns how many numbers there were; 0 if it is no shape. */
static int32_t parse_shape(const char *text, int32_t *extent)
{
  for (int32_t n = 0; n < BENCH_EXTENTS; n++) {
    int end = 0;
    if (sscanf(text, "%7d%n", &extent[n], &end) != 1 || extent[n] < 1 || text[0] == '+') {
      return 0;
    }
    text += end;
    if (*text == '\0') {
      return n + 1;
    }
    if (*text++ != 'x') {
      return 0;
    }
  }
  return 0;
}

static int is_wanted(const bench_case_options *options, const char *op)
{
  int wanted = options->ops.n == 0;
  for (int32_t i = 0; i < options->ops.n; i++) {
    wanted |= strcmp(options->ops.values[i], op) == 0;
  }
  return wanted;
}

static int check_ops(const bench_case_options *options)
{
  for (int32_t i = 0; i < options->ops.n; i++) {
    const bench_op_info *info;
    int32_t op = 0;
    while ((info = bench_op_describe(op)) != NULL && strcmp(info->name, options->ops.values[i]) != 0) {
      op++;
    }
    if (!info) {
      return tsr_cli_usage("bench", "--op: there is no '%s'; `tessera bench ops --help` lists the operators",
                           options->ops.values[i]);
    }
  }
  return TSR_EXIT_OK;
}

/* The case of one shape, once for each precision. */
static int add_cases(const bench_case_options *options, bench_case_list *list, int32_t op, const int32_t *extent)
{
  const tsr_integers *precisions = &options->precisions;
  const bench_op_info *info = bench_op_describe(op);
  for (int32_t p = 0; p < (info->narrows ? precisions->n : 1); p++) {
    if (info->narrows && !info->quantises && (precisions->values[p] == TSR_I8 || precisions->values[p] == TSR_I4)) {
      continue;
    }
    if (list->n == BENCH_CASES) {
      return tsr_cli_usage("bench", "more than %d cases", (int)BENCH_CASES);
    }
    bench_op_case *test = &list->cases[list->n++];
    *test = (bench_op_case){.op = op, .precision = info->narrows ? precisions->values[p] : TSR_F32};
    memcpy(test->extent, extent, (size_t)info->n_extents * sizeof *extent);
  }
  return TSR_EXIT_OK;
}

static int add_usual(const bench_case_options *options, bench_case_list *list)
{
  const bench_op_info *info;
  int code = TSR_EXIT_OK;
  for (int32_t op = 0; (info = bench_op_describe(op)) != NULL; op++) {
    for (int32_t i = 0; i < USUAL && code == TSR_EXIT_OK; i++) {
      int32_t extent[BENCH_EXTENTS];
      if (strcmp(usual[i].op, info->name) == 0 && is_wanted(options, info->name) && usual[i].large <= options->large &&
          parse_shape(usual[i].shape, extent) == info->n_extents) {
        code = add_cases(options, list, op, extent);
      }
    }
  }
  return code;
}

/* The shapes of one operator. matched[i] is raised where shape i is one. */
static int add_shapes_of(const bench_case_options *options, bench_case_list *list, int32_t op, const tsr_names *shapes,
                         int32_t *matched)
{
  const bench_op_info *info = bench_op_describe(op);
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < shapes->n && code == TSR_EXIT_OK; i++) {
    int32_t extent[BENCH_EXTENTS];
    if (is_wanted(options, info->name) && parse_shape(shapes->values[i], extent) == info->n_extents) {
      matched[i]++;
      code = add_cases(options, list, op, extent);
    }
  }
  return code;
}

/* What the builders of an operator refuse, such as the 8 largest of 5, they tell themselves. */
static int add_shapes(const bench_case_options *options, bench_case_list *list)
{
  const tsr_names *shapes = &options->shapes;
  int32_t matched[MAX_SHAPES] = {0};
  int code = TSR_EXIT_OK;
  if (shapes->n > MAX_SHAPES) {
    code = tsr_cli_usage("bench", "--shapes: more than %d", (int)MAX_SHAPES);
  }
  for (int32_t op = 0; bench_op_describe(op) != NULL && code == TSR_EXIT_OK; op++) {
    code = add_shapes_of(options, list, op, shapes, matched);
  }
  for (int32_t i = 0; i < shapes->n && code == TSR_EXIT_OK; i++) {
    if (!matched[i]) {
      code = tsr_cli_usage("bench", "--shapes: '%s' is a shape of none of the operators", shapes->values[i]);
    }
  }
  return code;
}

int bench_list_cases(const bench_case_options *options, bench_case_list *list)
{
  int code = check_ops(options);
  if (code == TSR_EXIT_OK) {
    code = options->shapes.n > 0 ? add_shapes(options, list) : add_usual(options, list);
  }
  return code;
}
