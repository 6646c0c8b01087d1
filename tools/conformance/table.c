/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of all cases.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/cases.h"

static char *format_text(const char *format, va_list arguments)
{
  va_list again;

  va_copy(again, arguments);
  int size = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *text = malloc((size_t)size + 1);
  if (text) {
    vsnprintf(text, (size_t)size + 1, format, arguments);
  }
  return text;
}

check_case *check_table_add(check_table *table, int32_t op, void (*build)(check_build *, const void *),
                            const void *params, size_t params_size, const char *format, ...)
{
  check_case *test;
  va_list arguments;

  if (table->count == table->capacity) {
    int32_t capacity = table->capacity ? 2 * table->capacity : 1024;
    test = realloc(table->test, (size_t)capacity * sizeof(*test));
    if (!test) {
      table->failed = 1;
      return NULL;
    }
    table->test = test;
    table->capacity = capacity;
  }
  va_start(arguments, format);
  char *name = format_text(format, arguments);
  va_end(arguments);
  uint64_t key = name ? check_hash((uint64_t)table->perf, name) : 0;
  for (int32_t i = 0; name && i < table->count; i++) {
    if (table->test[i].key == key) {
      free(name);
      return &table->test[i];
    }
  }
  void *copy = malloc(params_size);
  if (!name || !copy) {
    free(name);
    free(copy);
    table->failed = 1;
    return NULL;
  }
  memcpy(copy, params, params_size);
  test = &table->test[table->count++];
  *test = (check_case){.name = name,
                       .op = op,
                       .perf = table->perf,
                       .runs = 1,
                       .key = key,
                       .params = copy,
                       .build = build,
                       .large = table->large};
  return test;
}

void check_case_cut(check_case *test, int32_t parts, int64_t n_rows, int64_t rows, int64_t n_columns, int64_t columns)
{
  if (test) {
    test->parts = parts;
    test->extent[CHECK_DIMENSION_1] = n_rows;
    test->reach[CHECK_DIMENSION_1] = rows;
    test->extent[CHECK_DIMENSION_2] = n_columns;
    test->reach[CHECK_DIMENSION_2] = columns;
  }
}

/* Every other one of those that are drawn begins just before the edge of a tile. */
check_part check_part_draw(const check_case *test, uint64_t seed, int32_t number)
{
  const uint64_t key = check_random(check_hash(seed, test->name), (uint64_t)number);
  check_part part = {{0}, {0}};

  for (int32_t dimension = CHECK_DIMENSION_1; dimension <= CHECK_DIMENSIONS; dimension++) {
    const int64_t extent = test->extent[dimension];
    const int64_t count = extent < test->reach[dimension] ? extent : test->reach[dimension];
    int64_t first = number == 0 ? 0 : extent - count;
    if (number > 1) {
      first = (int64_t)(check_random(key, (uint64_t)dimension) % (uint64_t)(extent - count + 1));
      if (number % 2 == 0 && first >= 16) {
        first = (first & ~(int64_t)15) - 1;
      }
    }
    part.first[dimension] = first;
    part.count[dimension] = count;
  }
  return part;
}

tsr_status check_table_create(check_table *table)
{
  memset(table, 0, sizeof(*table));
  for (table->perf = 0; table->perf < 2; table->perf++) {
    check_cases_matmul(table);
    check_cases_conv1d(table);
    check_cases_reduce(table);
    check_cases_rows(table);
    check_cases_topk(table);
    check_cases_elementwise(table);
    check_cases_copy(table);
    check_cases_rotate(table);
    check_cases_index(table);
    check_cases_state(table);
    check_cases_mask(table);
    check_cases_attention(table);
    check_cases_attention_gradient(table);
    check_cases_scatter(table);
    check_cases_concat(table);
    check_cases_gradient(table);
    check_cases_dropout(table);
    check_cases_loss(table);
    check_cases_optimiser(table);
    check_cases_program(table);
  }
  table->perf = 0;
  table->fixed = table->count;
  tsr_status status =
      table->failed ? tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for the case table") : TSR_OK;
  if (status) {
    check_table_finish(table);
  }
  return status;
}

void check_table_finish(check_table *table)
{
  for (int32_t i = 0; i < table->count; i++) {
    free(table->test[i].name);
    free((void *)(uintptr_t)table->test[i].params);
  }
  free(table->test);
  memset(table, 0, sizeof(*table));
}

char *check_shape_text(tsr_shape shape, char *text)
{
  size_t used = 0;

  snprintf(text, 64, "scalar");
  for (int32_t axis = 0; axis < shape.rank && used < 64; axis++) {
    used += (size_t)snprintf(text + used, 64 - used, "%s%lld", axis ? "x" : "", (long long)shape.extent[axis]);
  }
  return text;
}
