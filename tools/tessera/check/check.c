/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera check: every operator of every device against the reference.
 */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "tools/tessera/check/check.h"
#include "tools/tessera/check/session.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static int selected(const check_request *r, const check_case *test)
{
  if (test->perf != (r->mode == MODE_PERF)) {
    return 0;
  }
  if (r->only) {
    return strcmp(r->only, test->name) == 0;
  }
  return check_selects(r->ops, test->name);
}

int check_is_drawn(const check_session *s, const check_case *test)
{
  return test - s->table.test >= s->table.fixed;
}

static int is_in_rounds(const check_session *s)
{
  return s->request.minutes > 0.0;
}

static int adds_something(const check_session *s, const tsr_program *program)
{
  int adds = 0;

  for (int32_t i = 0; i < s->n_subjects && !adds; i++) {
    adds = check_coverage_adds(&s->subjects[i].coverage, program);
  }
  return adds;
}

/* 1 if a line of the case takes a variant that --variant asks for and no case was forced in yet. */
static int takes_new_variant(const check_session *s, const tsr_program *program)
{
  int takes = 0;

  for (int32_t i = 0; i < s->n_subjects && s->request.variant; i++) {
    const check_subject *one = &s->subjects[i];
    tsr_device *device = one->device.device;
    for (int32_t variant = 1; variant <= tsr_device_variant_count(device) && !takes; variant++) {
      takes = one->taken[variant] == 0 && check_wants_variant(s->request.variant, device, variant) &&
              tsr_device_force_variant(device, variant) == TSR_OK && check_takes_variant(device, program, variant);
    }
    takes &= tsr_device_force_variant(device, 0) == TSR_OK;
  }
  return takes;
}

enum { IN_NEW_VARIANTS = 2 };

/* 1 if the case is one of those that --share leaves, or that are this round's, on all devices and in all variants;
 * IN_NEW_VARIANTS: only in those that no case was forced in yet. */
static int is_left(const check_session *s, const check_case *test, const tsr_program *program)
{
  if (!is_in_rounds(s)) {
    return check_is_drawn(s, test) ||
           test->key % (uint64_t)s->request.share == (uint64_t)(s->request.part % s->request.share) ||
           adds_something(s, program);
  }
  switch (s->rounds.now) {
  case CHECK_ROUND_NEW:
    return !s->request.variant ? adds_something(s, program) : takes_new_variant(s, program) ? IN_NEW_VARIANTS : 0;
  case CHECK_ROUND_LARGEST:
    return 0;
  default:
    return 1; /* may_be_next */
  }
}

/* 1 if the case is the largest of a kernel on this device, in the variant that is forced. */
static int is_largest(const check_session *s, const check_subject *device, const check_case *test)
{
  return !check_is_drawn(s, test) &&
         check_largest_keeps(&device->largest, (int32_t)(test - s->table.test), device->variant);
}

/* 1 if the case is to be run on this device, in the variant that is forced. left: what is_left says. */
static int is_next(const check_session *s, const check_subject *device, const check_case *test, int left)
{
  if (is_in_rounds(s) && s->rounds.now > CHECK_ROUND_LARGEST) {
    return !is_largest(s, device, test); /* those were run already */
  }
  if (left == IN_NEW_VARIANTS) {
    return device->taken[device->variant] == 0;
  }
  return left || ((!is_in_rounds(s) || s->rounds.now == CHECK_ROUND_LARGEST) && is_largest(s, device, test));
}

/* 0 if this round leaves the case out, as can be told without its program. */
static int may_be_next(const check_session *s, const check_case *test)
{
  if (!is_in_rounds(s)) {
    return 1;
  }
  if (s->rounds.done[test - s->table.test]) {
    return 0;
  }
  if (s->rounds.now == CHECK_ROUND_NEW || s->rounds.now == CHECK_ROUND_LARGEST) {
    return !check_is_drawn(s, test);
  }
  return test->key % CHECK_PARTS == (uint64_t)(s->rounds.now - (s->rounds.now < CHECK_ROUND_LARGEST ? 1 : 2));
}

static int time_is_over(const check_session *s)
{
  return is_in_rounds(s) && tsr_cli_seconds() - s->rounds.start >= 60.0 * s->request.minutes;
}

static int32_t count_selected(const check_session *s)
{
  int32_t n = 0;

  for (int32_t i = 0; i < s->table.count; i++) {
    n += selected(&s->request, &s->table.test[i]);
  }
  return n;
}

static int is_reference(const check_session *s, const char *name)
{
  tsr_device_info info;

  for (int32_t i = 0; i < tsr_runtime_device_count(s->runtime); i++) {
    if (tsr_runtime_device_info(s->runtime, i, &info) == TSR_OK && strcmp(info.backend, "reference") == 0) {
      const size_t length = strlen(info.backend);
      if (strcmp(info.name, name) == 0 ||
          (strncmp(name, "reference", length) == 0 && (!name[length] || name[length] == ':'))) {
        return 1;
      }
    }
  }
  return 0;
}

/* Marks what --except names for this device. */
static void except_items(const check_request *r, check_subject *device)
{
  char item[128];

  for (int32_t i = 0; i < r->excepted.n; i++) {
    const char *at = strchr(r->excepted.values[i], '@');
    snprintf(item, sizeof(item), "%.*s", (int)strcspn(r->excepted.values[i], "@"), r->excepted.values[i]);
    if (!at || fnmatch(at + 1, device->name, 0) == 0) {
      check_coverage_except(&device->coverage, item);
    }
  }
}

static int add_subject(check_session *s, const char *name)
{
  check_subject *added = &s->subjects[s->n_subjects];

  memset(added, 0, sizeof(*added));
  int code = tsr_cli_fail(check_device_open(&added->device, s->runtime, name));
  if (!code) {
    added->name = tsr_device_name(added->device.device);
    s->n_subjects++; /* from here on `finish` closes it */
    code = tsr_cli_fail(check_coverage_create(&added->coverage, s->request.ops));
    except_items(&s->request, added);
    added->taken = calloc((size_t)tsr_device_variant_count(added->device.device) + 1, sizeof(*added->taken));
    if (!code && !added->taken) {
      code = tsr_cli_no_memory();
    }
    if (!code && (s->request.share > 1 || is_in_rounds(s))) {
      const check_share share = {is_in_rounds(s) ? INT32_MAX : s->request.share, s->request.part};
      code = check_largest_find(&added->largest, &s->table, &share, added->device.device, s->request.variant);
    }
  }
  return code;
}

/* 1 if --variant is not given, or the device added last has a variant that it asks for. */
static int has_wanted_variant(const check_session *s)
{
  tsr_device *device = s->subjects[s->n_subjects - 1].device.device;
  int wanted = !s->request.variant;

  for (int32_t variant = 1; variant <= tsr_device_variant_count(device) && !wanted; variant++) {
    wanted = check_wants_variant(s->request.variant, device, variant);
  }
  return wanted;
}

static void finish_subject(check_subject *device)
{
  check_device_finish(&device->device);
  check_coverage_finish(&device->coverage);
  check_largest_finish(&device->largest);
  free(device->taken);
}

/* Opens the devices named, or all that were found but the reference; with --variant those that have such variants. */
static int open_subjects(check_session *s)
{
  const tsr_names *names = &s->request.devices;
  const int32_t n_found = tsr_runtime_device_count(s->runtime);
  int32_t n_others = 0;
  tsr_device_info info;
  int code = TSR_EXIT_OK;

  s->subjects = calloc((size_t)(names->n > n_found ? names->n : n_found) + 1, sizeof(*s->subjects));
  if (!s->subjects) {
    return tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < names->n; i++) {
    n_others += !is_reference(s, names->values[i]);
  }
  for (int32_t i = 0; i < names->n && !code; i++) {
    if (s->request.mode == MODE_PERF || s->request.mode == MODE_SUPPORT || !is_reference(s, names->values[i]) ||
        n_others == 0) {
      code = add_subject(s, names->values[i]);
      if (!code && !has_wanted_variant(s)) {
        code = tsr_cli_usage("check", "--variant: %s has no variant '%s'; `tessera devices --variants` lists them",
                             s->subjects[s->n_subjects - 1].name, s->request.variant);
      }
    }
  }
  for (int32_t i = 0; i < n_found && names->n == 0 && !code; i++) {
    code = tsr_cli_fail(tsr_runtime_device_info(s->runtime, i, &info));
    if (!code && !is_reference(s, info.name)) {
      code = add_subject(s, info.name);
      if (!code && !has_wanted_variant(s)) {
        finish_subject(&s->subjects[--s->n_subjects]);
      }
    }
  }
  if (!code && s->n_subjects == 0 && s->request.variant) {
    return tsr_cli_usage("check", "--variant: no device has a variant '%s'; `tessera devices --variants` lists them",
                         s->request.variant);
  }
  if (!code && s->n_subjects == 0) {
    tsr_cli_error("check: no device was found beside the reference; `tessera devices` tells what was tried");
    code = TSR_EXIT_DEVICE;
  }
  return code;
}

/* ---- modes ------------------------------------------------------------------------------------------------------- */

/* Counts a case that a device is given. */
static void note(const check_session *s, check_subject *device, const check_case *test, const tsr_program *program,
                 const check_result *result)
{
  device->cases++;
  device->drawn += check_is_drawn(s, test);
  if (result->verdict != CHECK_UNSUPPORTED) {
    check_coverage_note(&device->coverage, program);
    device->executed[test->op]++;
  }
}

/* Counts and reports what came of a case on a device. */
static int conclude(check_session *s, check_subject *device, const check_case *test, const tsr_program *program,
                    const check_result *result)
{
  const int excused = result->verdict == CHECK_UNSUPPORTED && check_coverage_excuses(&device->coverage, program);

  device->failed += result->verdict == CHECK_FAILED;
  device->unsupported += result->verdict == CHECK_UNSUPPORTED;
  device->unexcused += result->verdict == CHECK_UNSUPPORTED && !excused;
  device->wrong[test->op] += result->verdict == CHECK_FAILED;
  if (result->worst > device->worst[test->op]) {
    device->worst[test->op] = result->worst;
    device->worst_case[test->op] = test->name;
  }
  device->nmse[test->op] = fmax(device->nmse[test->op], result->nmse);
  device->free_elements[test->op] += result->free;
  return check_report(s, device, test, result, excused);
}

/* Concludes what is over, in the order in which it was given; is_patient: all of it. */
static int conclude_units(check_session *s, int is_patient)
{
  int code = TSR_EXIT_OK;

  for (check_unit *unit; !code && (unit = check_workers_take(s->workers, is_patient)) != NULL;) {
    for (int32_t i = 0; i < unit->n_tries && !code; i++) {
      check_subject *device = &s->subjects[unit->tries[i].device];
      device->variant = unit->tries[i].variant;
      code = conclude(s, device, unit->test, unit->program, &unit->tries[i].result);
      device->variant = 0;
    }
    check_unit_destroy(unit);
  }
  if (is_in_rounds(s) && !code) {
    code = tsr_cli_flush(); /* who has little time may end this process before it does so itself */
  }
  return code;
}

/* Adds the case on one device, once or, with --variant, once in each variant. left: 1: by the share; 0: only where it
 * is the largest. */
static int add_tries(check_session *s, int32_t index, check_unit *unit, int left)
{
  check_subject *device = &s->subjects[index];
  const int32_t variants = s->request.variant ? tsr_device_variant_count(device->device.device) : 0;
  int code = TSR_EXIT_OK;

  for (device->variant = variants > 0; device->variant <= variants && !code; device->variant++) {
    if (device->variant > 0) {
      if (!check_wants_variant(s->request.variant, device->device.device, device->variant) ||
          !is_next(s, device, unit->test, left)) {
        continue;
      }
      code = tsr_cli_fail(tsr_device_force_variant(device->device.device, device->variant));
      if (code || !check_takes_variant(device->device.device, unit->program, device->variant)) {
        continue;
      }
      device->taken[device->variant]++;
    } else if (!is_next(s, device, unit->test, left)) {
      continue;
    }
    check_try *one = check_unit_add(unit);
    if (!one) {
      code = tsr_cli_no_memory();
      continue;
    }
    one->device = index;
    one->variant = device->variant;
    one->is_run =
        check_device_supports(&device->device, unit->program, &one->result) && s->request.mode != MODE_SUPPORT;
    note(s, device, unit->test, unit->program, &one->result);
  }
  device->variant = 0;
  return code;
}

/* 1 if the case needs no other round: all of it was run, or it is the largest of a kernel on each device. */
static int is_done(const check_session *s, const check_case *test, int left)
{
  int done = 1;

  for (int32_t i = 0; i < s->n_subjects && left != 1; i++) {
    done &= s->rounds.now == CHECK_ROUND_LARGEST && !s->request.variant && is_largest(s, &s->subjects[i], test);
  }
  return done;
}

/* Asks each device for each line of the case, and in the modes that run it has it run. */
static int test_case(check_session *s, const check_case *test)
{
  check_unit *unit = calloc(1, sizeof(*unit));
  check_build build;

  if (!unit) {
    return tsr_cli_no_memory();
  }
  int code = tsr_cli_fail(tsr_fail_context(check_build_program(test, &build), "%s", test->name));
  if (code) {
    free(unit);
    return code;
  }
  unit->test = test;
  unit->program = build.program;
  const int left = is_left(s, test, unit->program);
  if (left) {
    check_coverage_note(&s->offered, unit->program);
  }
  if (is_in_rounds(s)) {
    s->rounds.done[test - s->table.test] = (unsigned char)is_done(s, test, left);
  }
  for (int32_t i = 0; i < s->n_subjects && !code; i++) {
    code = add_tries(s, i, unit, left);
  }
  if (code || unit->n_tries == 0) {
    check_unit_destroy(unit);
    return code;
  }
  check_workers_give(s->workers, unit);
  return conclude_units(s, 0);
}

static void time_cells(tsr_cli_table *table, const check_case *test, const check_subject *device,
                       const check_time *time, double ratio)
{
  const double seconds = time->device > 0.0 ? time->device : time->seconds;

  tsr_cli_table_cell(table, "%s", test->name);
  tsr_cli_table_cell(table, "%s", device->name);
  tsr_cli_table_cell(table, "%.1f", 1e6 * time->seconds);
  if (time->device > 0.0) {
    tsr_cli_table_cell(table, "%.1f", 1e6 * time->device);
  } else {
    tsr_cli_table_cell(table, "-");
  }
  tsr_cli_table_cell(table, "%.2f", 1e-9 * time->flops / seconds);
  tsr_cli_table_cell(table, "%.2f", 1e-9 * time->bytes / seconds);
  tsr_cli_table_cell(table, "%.2f", ratio);
}

static int measure_case(check_session *s, const check_case *test, tsr_cli_table *table)
{
  double first = 0.0;
  check_build build;
  check_time time;
  int code = tsr_cli_fail(tsr_fail_context(check_build_program(test, &build), "%s", test->name));

  for (int32_t i = 0; i < s->n_subjects && !code; i++) {
    check_subject *device = &s->subjects[i];
    check_result result;
    if (check_device_supports(&device->device, build.program, &result)) {
      code = tsr_cli_fail(check_measure(test, (uint64_t)s->request.seed, &device->device, &time));
    }
    if (!code) {
      note(s, device, test, build.program, &result);
      code = conclude(s, device, test, build.program, &result);
    }
    if (code || result.verdict == CHECK_UNSUPPORTED) {
      continue;
    }
    first = first > 0.0 ? first : time.seconds;
    if (s->request.as_json) {
      code = tsr_cli_json_print(json_pack("{s:s, s:s, s:f, s:o, s:f, s:f, s:f, s:i}", "case", test->name, "device",
                                          device->name, "seconds", time.seconds, "device_seconds",
                                          time.device > 0.0 ? json_real(time.device) : json_null(), "flops", time.flops,
                                          "bytes", time.bytes, "speed_of_first", first / time.seconds, "repeats",
                                          (int)time.repeats),
                                0);
    } else {
      time_cells(table, test, device, &time, first / time.seconds);
    }
  }
  tsr_program_destroy(build.program); /* NULL if it was not built */
  return code;
}

/* Memory of one case serves the next: the system would clear its pages each time, which took a third of a run. */
static void keep_memory(void)
{
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT32_MAX);
  mallopt(M_TOP_PAD, 1 << 26);
#endif
}

/* --jobs; else several on GPUs, where most of the time is that of the driver's compiler. A CPU that executes cases has
 * no processors left, and one device is as good as several where nothing is run. */
static int32_t count_jobs(const check_session *s)
{
  enum { MOST = 8 };
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  int32_t n_gpus = 0;

  if (s->request.jobs > 0) {
    return (int32_t)s->request.jobs;
  }
  for (int32_t i = 0; i < s->n_subjects; i++) {
    n_gpus += tsr_cli_is_gpu(tsr_device_get_properties(s->devices[i]->device)->type);
  }
  return n_gpus < s->n_subjects || processors < 4 ? 1 : processors / 2 < MOST ? (int32_t)processors / 2 : MOST;
}

static int start_workers(check_session *s)
{
  s->devices = calloc((size_t)s->n_subjects + 1, sizeof(*s->devices));
  if (!s->devices) {
    return tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < s->n_subjects; i++) {
    s->devices[i] = &s->subjects[i].device;
  }
  const int runs = s->request.mode == MODE_TEST || s->request.mode == MODE_COVERAGE;
  const int32_t jobs = runs ? count_jobs(s) : 1;
  return check_workers_create(s->runtime, &s->reference, s->devices, s->n_subjects, (uint64_t)s->request.seed,
                              jobs > 1 ? jobs : 0, &s->workers);
}

/* All cases once, or those of one round after the other until the time is over. *done counts those that were begun. */
static int run_round(check_session *s, int32_t total, int32_t *done, tsr_cli_table *table)
{
  int code = TSR_EXIT_OK;

  for (int32_t i = 0; i < s->table.count && !code && !time_is_over(s); i++) {
    const check_case *test = &s->table.test[i];
    if (!selected(&s->request, test) || !may_be_next(s, test)) {
      continue;
    }
    tsr_cli_progress_update(&s->progress, *done, total);
    code = s->request.mode == MODE_PERF ? measure_case(s, test, table) : test_case(s, test);
    *done += is_in_rounds(s) ? s->rounds.done[i] : 1;
  }
  return code;
}

static int run_rounds(check_session *s, int32_t total, tsr_cli_table *table)
{
  int32_t done = 0;
  int code = TSR_EXIT_OK;

  if (!is_in_rounds(s)) {
    return run_round(s, total, &done, table);
  }
  s->rounds.done = calloc((size_t)s->table.count + 1, 1);
  if (!s->rounds.done) {
    return tsr_cli_no_memory();
  }
  for (; s->rounds.now < CHECK_ROUNDS && !code && !time_is_over(s); s->rounds.now++) {
    code = run_round(s, total, &done, table);
  }
  s->rounds.not_reached = total - done;
  return code;
}

static int run_cases(check_session *s)
{
  static const char *const columns[] = {
      "case", "device", "host us", "device us", "GFLOP/s", "GB/s", "speed / first device's"};
  const int32_t total = count_selected(s);
  const int timed = s->request.mode == MODE_PERF;
  tsr_cli_table table;
  int code = TSR_EXIT_OK;

  if (total == 0) {
    return tsr_cli_usage("check", "no case is selected; `tessera check --list` prints the names");
  }
  tsr_cli_table_init(&table, 7, 0x7c);
  for (int32_t i = 0; i < 7; i++) {
    tsr_cli_table_cell(&table, "%s", columns[i]);
  }
  if (!s->request.as_json) {
    printf("seed %lld, %d cases", (long long)s->request.seed, (int)total);
    if (s->request.random > 0) {
      printf(" (drawn from seed %lld)", (long long)s->request.random_seed);
    }
    printf(s->request.share > 1 ? ", one of %lld\n" : "\n", (long long)s->request.share);
  }
  tsr_cli_progress_start(&s->progress, "checking");
  code = run_rounds(s, total, &table);
  code = code ? code : conclude_units(s, 1);
  tsr_cli_progress_clear(&s->progress);
  if (timed && !s->request.as_json && !code) {
    code = tsr_cli_table_print(&table, stdout);
  }
  tsr_cli_table_finish(&table);
  return code ? code : check_summarise(s);
}

static void finish(void *opaque)
{
  check_session *s = opaque;

  check_workers_destroy(s->workers);
  for (int32_t i = 0; i < s->n_subjects; i++) {
    finish_subject(&s->subjects[i]);
  }
  free(s->subjects);
  free(s->devices);
  free(s->rounds.done);
  check_device_finish(&s->reference);
  check_coverage_finish(&s->offered);
  check_table_finish(&s->table);
  tsr_runtime_destroy(s->runtime);
}

static int list_cases(const check_session *s)
{
  for (int32_t i = 0; i < s->table.count; i++) {
    if (selected(&s->request, &s->table.test[i])) {
      puts(s->table.test[i].name);
    }
  }
  return tsr_cli_flush();
}

static int run(void *opaque)
{
  check_session *s = opaque;
  int code = tsr_cli_fail(check_table_create(&s->table));

  s->rounds.start = tsr_cli_seconds();
  if (s->request.random_seed == 0) {
    s->request.random_seed = s->request.seed;
  }
  if (!code && s->request.random > 0) {
    code = tsr_cli_fail(check_table_draw(&s->table, (int32_t)s->request.random, (uint64_t)s->request.random_seed));
  }
  if (code || s->request.list) {
    return code ? code : list_cases(s);
  }
  code = tsr_cli_fail(check_coverage_create(&s->offered, s->request.ops));
  if (!code) {
    code = tsr_cli_runtime(&s->runtime);
  }
  if (!code && s->request.mode == MODE_COMPILE) {
    const check_request *r = &s->request;
    const check_compile_request compile = {r->ops, r->only, r->variant, r->share, r->verbose, r->as_json};
    code = check_compile(&compile, &s->table, s->runtime, &r->devices);
    return code ? code : tsr_cli_flush();
  }
  if (!code && (s->request.mode == MODE_TEST || s->request.mode == MODE_COVERAGE)) {
    code = tsr_cli_fail(check_device_open(&s->reference, s->runtime, "reference"));
  }
  if (!code) {
    code = open_subjects(s);
  }
  if (!code) {
    keep_memory();
    code = start_workers(s);
  }
  if (!code) {
    code = run_cases(s);
  }
  return code ? code : tsr_cli_flush();
}

static int check(void *opaque)
{
  const check_request *r = &((check_session *)opaque)->request;
  if (r->variant && r->mode == MODE_PERF) {
    return tsr_cli_usage("check", "--variant does not go with --mode perf");
  }
  if (r->random > 0 && r->mode == MODE_PERF) {
    return tsr_cli_usage("check", "--random does not go with --mode perf");
  }
  if (r->jobs > 0 && r->mode != MODE_TEST && r->mode != MODE_COVERAGE) {
    return tsr_cli_usage("check", "--jobs goes with the modes test and coverage alone");
  }
  if (r->minutes > 0.0 && (r->mode != MODE_TEST || r->share > 1)) {
    return tsr_cli_usage("check", "--minutes goes neither with --share nor with another mode than test");
  }
  return TSR_EXIT_OK;
}

#define FIELD(member) TSR_FIELD(check_session, request.member)

static const tsr_choice modes[] = {
    [MODE_TEST] = {"test", "run the cases and compare"},
    [MODE_COVERAGE] = {"coverage",
                       "the same, and fail unless every operator, each of its operands present and absent, in each "
                       "type, and each attribute was executed, or if a case is not supported (but see --except)"},
    [MODE_SUPPORT] = {"support", "ask the devices which cases they can execute; run nothing"},
    [MODE_PERF] = {"perf", "time the cases of the perf table: a run's median, as the host sees it and as the device's "
                           "own profile has it"},
    [MODE_COMPILE] = {"compile", "have the devices make the kernels of all cases, those of perf too, and of the "
                                 "programs of some models; run nothing. With --variant: as the device chooses, then in "
                                 "each variant"},
    [MODE_COUNT] = {NULL},
};

static const tsr_option rows[] = {
    {"devices", "A,B", TSR_OPTION_DEVICE, FIELD(devices), .is_list = 1,
     .help =
         "the devices to check. Each is compared with the reference, which need not be named. If it alone is named, "
         "it is compared with itself",
     .otherwise = "all that are found, without the reference"},
    {"ops", "A,B", TSR_OPTION_TEXT, FIELD(ops),
     .help = "only the cases of these operators: names or globs, such as 'softmax,*norm'"},
    {"case", "NAME", TSR_OPTION_TEXT, FIELD(only), .help = "only the case of this name, exactly as it is printed"},
    {"share", "N", TSR_OPTION_INTEGER, FIELD(share), 1, INT32_MAX, .preset = "1",
     .help =
         "only one case of N, chosen by its name, the largest of each kernel, those that have in them what a device "
         "did not execute yet (--mode coverage asks for no less), and of those of a real model's size one of N / 48"},
    {"part", "K", TSR_OPTION_INTEGER, FIELD(part), 0, INT32_MAX, .preset = "0",
     .help = "which of these N, from 0: runs with other parts have other cases"},
    {"minutes", "M", TSR_OPTION_NUMBER, FIELD(minutes), 0.001, 10000,
     .help =
         "stop after so long and tell how many cases were not reached. The order is another one then: first cases "
         "that execute something new, then all in parts, with the largest of each kernel after the fourth of 64, so "
         "that what there is time for is a fair part of all",
     .otherwise = "no limit"},
    {"jobs", "N", TSR_OPTION_INTEGER, FIELD(jobs), 1, 64,
     .help = "run so many cases side by side, each on devices that its thread opens for itself; the results are the "
             "same, and come in the same order",
     .otherwise = "for GPUs half as many as there are processors, at most 8; else 1"},
    {"seed", "N", TSR_OPTION_INTEGER, FIELD(seed), 0, (double)INT64_MAX, .preset = "1",
     .help = "where the operands' random numbers start"},
    {"random", "N", TSR_OPTION_INTEGER, FIELD(random), 0, 1000,
     .help = "beside the table, cases of each family whose sizes, types, views and attributes are drawn, one at least, "
             "until they cost N million operations and bytes (at most 1000; a case costs a million at least; a seed's "
             "first ones are the same for any N). --share does not count for these: with a large N there they stand "
             "beside little else"},
    {"random-seed", "N", TSR_OPTION_INTEGER, FIELD(random_seed), 1, (double)INT64_MAX,
     .help = "where the random numbers of --random start", .otherwise = "that of --seed"},
    {"mode", "MODE", TSR_OPTION_CHOICE, FIELD(mode), .choices = modes, .help = "what to do", .preset = "test"},
    {"except", "A,B", TSR_OPTION_TEXT, FIELD(excepted), .is_list = 1,
     .help = "items of --mode coverage that a device need not execute, as it prints them: globs, such as "
             "'matmul.scales:*', or 'matmul.scales:*@vulkan:*' for the devices whose name matches. A case that has one "
             "in it may be unsupported; one that a device executes after all is no exception, and fails"},
    {"variant", "V", TSR_OPTION_VARIANT, FIELD(variant),
     .help =
         "variants of kernels (`tessera devices --variants` lists them), each forced in turn: globs, such as "
         "'matmul.vector' or 'matmul.*', or 'all'. Only cases in which a line takes the variant are run; how many is "
         "told for each"},
    {"list", NULL, TSR_OPTION_FLAG, FIELD(list), .low = 1, .help = "print the names of the cases and stop"},
    {"verbose", NULL, TSR_OPTION_FLAG, FIELD(verbose), .low = 1,
     .help = "print each case, and the largest error per operator as a share of its bound"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(as_json), .low = 1,
     .help =
         "print JSON, one object a line; the last is {\"cases\":N,\"failed\":N,\"unsupported\":N,\"coverage\":F,"
         "\"not_reached\":N,\"devices\":[..]}, summed over the devices; F is the smallest device's, 0 to 1; each of "
         "`devices` has its own numbers, those of its operators, and of its variants"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};

const tsr_command tsr_command_check = {
    .name = "check",
    .summary = "check each operator of each device against the reference",
    .usage = "[OPTION]...",
    .intro =
        "Runs a table of cases on each device and holds the results against the reference backend: NaN and "
        "infinities first, then each element against an error bound derived from what the reference computed, then "
        "all elements together; outputs are guarded on both sides, and a second run must give the same bits.",
    .options = &options,
    .notes =
        "A case that a device does not support is reported, and counts as neither passed nor failed.\n"
        "\n"
        "Exit code: 0 if no case failed; 1 if one did, if an operator has no case at all, or, with --mode coverage, "
        "if something was not executed; others as in `tessera help`.",
    .session_size = sizeof(check_session),
    .check = check,
    .run = run,
    .finish = finish,
};
