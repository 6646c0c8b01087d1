/* SPDX-License-Identifier: Apache-2.0
 *
 * Which cases no share leaves out. A fault that begins at row 101 or element 65,536 of a kernel is found by a case that
 * is larger than that, and by no other; so each share holds the largest case of each kernel: of each family in each
 * variant that a device takes for it. Of the other cases of a real model's size it holds 48 times as large a part as of
 * all cases, and thus all of them if it is one of 48 or more; of those that count double, 96 times as large a part.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/check/check.h"
#include "tools/tessera/common/message.h"

enum { FAVOUR = 48 }; /* how much larger a part of the large cases a share holds than of all */

/* The largest case so far of a family in a variant. */
typedef struct record {
  uint64_t family; /* hash of its name */
  int32_t variant;
  int32_t index; /* in the table */
  double size;
} record;

typedef struct search {
  record *records;
  int32_t count, capacity;
} search;

static uint64_t family_of(const check_case *test)
{
  char family[64];

  snprintf(family, sizeof(family), "%.*s", (int)strcspn(test->name, "("), test->name);
  return check_hash(0, family);
}

static int note(search *s, uint64_t family, int32_t variant, int32_t index, double size)
{
  for (int32_t i = 0; i < s->count; i++) {
    record *at = &s->records[i];
    if (at->family == family && at->variant == variant) {
      if (size > at->size) {
        at->index = index;
        at->size = size;
      }
      return TSR_EXIT_OK;
    }
  }
  if (s->count == s->capacity) {
    const int32_t capacity = s->capacity ? 2 * s->capacity : 128;
    record *records = realloc(s->records, (size_t)capacity * sizeof(*records));
    if (!records) {
      return tsr_cli_no_memory();
    }
    s->records = records;
    s->capacity = capacity;
  }
  s->records[s->count++] = (record){family, variant, index, size};
  return TSR_EXIT_OK;
}

/* A case in the variants that the device takes for its lines, or in each that is asked for. */
static int note_case(search *s, const check_case *test, int32_t index, const tsr_program *program, tsr_device *device,
                     const char *wanted)
{
  const uint64_t family = family_of(test);
  const int32_t variants = wanted ? tsr_device_variant_count(device) : 0;
  const double size = check_program_cost(program);
  int code = TSR_EXIT_OK;

  for (int32_t forced = wanted ? 1 : 0; forced <= variants && !code; forced++) {
    if (forced && !check_wants_variant(wanted, device, forced)) {
      continue;
    }
    code = tsr_cli_fail(tsr_device_force_variant(device, forced));
    for (int32_t line = 0; line < tsr_program_line_count(program) && !code; line++) {
      const int32_t taken = tsr_device_variant_of(device, program, line);
      if (!forced || taken == forced) {
        code = note(s, family, taken, index, size);
      }
    }
  }
  return code ? code : tsr_cli_fail(tsr_device_force_variant(device, 0));
}

static int is_supported(tsr_device *device, const tsr_program *program)
{
  for (int32_t line = 0; line < tsr_program_line_count(program); line++) {
    if (!tsr_device_supports(device, program, line)) {
      return 0;
    }
  }
  return 1;
}

int check_largest_find(check_largest *largest, const check_table *table, const check_share *share, tsr_device *device,
                       const char *wanted)
{
  search s = {0};
  int code = TSR_EXIT_OK;

  largest->variants = tsr_device_variant_count(device);
  largest->kept = calloc((size_t)table->fixed * ((size_t)largest->variants + 1) + 1, 1);
  if (!largest->kept) {
    return tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < table->fixed && !code; i++) {
    const check_case *test = &table->test[i];
    check_build build;
    if (test->perf) {
      continue;
    }
    code = tsr_cli_fail(tsr_fail_context(check_build_program(test, &build), "%s", test->name));
    if (!code && is_supported(device, build.program)) {
      code = note_case(&s, test, i, build.program, device, wanted);
    }
    tsr_program_destroy(build.program);
    if (test->large && !wanted) {
      const int32_t favour = FAVOUR * test->large;
      const uint64_t n = share->n > favour ? (uint64_t)(share->n / favour) : 1;
      largest->kept[i * (largest->variants + 1)] |= test->key % n == (uint64_t)share->part % n;
    }
  }
  for (int32_t i = 0; i < s.count; i++) {
    const int32_t variant = wanted ? s.records[i].variant : 0;
    largest->kept[s.records[i].index * (largest->variants + 1) + variant] = 1;
  }
  free(s.records);
  return code;
}

int check_largest_keeps(const check_largest *largest, int32_t index, int32_t variant)
{
  return largest->kept && largest->kept[index * (largest->variants + 1) + variant];
}

void check_largest_finish(check_largest *largest)
{
  free(largest->kept);
  *largest = (check_largest){0};
}
