/* SPDX-License-Identifier: Apache-2.0
 *
 * A case with the reference's answer, and a device held against it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/runner.h"

/* What the reference computed of a case, or of a part of it, and how far a device may be from that. */
typedef struct answer {
  check_part part;
  check_build build;
  check_contents *contents; /* per run */
  check_storage *expected;  /* per run, per storage: results only, the others empty */
  check_values values;      /* of the last run */
  int32_t n_storages;
  int32_t runs;
} answer;

struct check_oracle {
  check_build build;        /* of the whole case */
  check_contents *contents; /* per run */
  answer *answers;          /* [n_answers]: one, of the whole case, or one per part */
  int32_t n_answers;
  int32_t n_storages;
  int32_t runs;
};

const tsr_program *check_oracle_program(const check_oracle *oracle)
{
  return oracle->build.program;
}

static void storage_finish(check_storage *storage)
{
  if (storage->dtype != TSR_F32) {
    free(storage->value);
  }
  free(storage->bytes);
  free(storage->before);
  free(storage->error);
  memset(storage, 0, sizeof(*storage));
}

static void finish_contents(check_contents *contents, int32_t runs)
{
  for (int32_t i = 0; contents && i < runs; i++) {
    check_contents_finish(&contents[i]);
  }
  free(contents);
}

static void answer_finish(answer *a)
{
  for (int32_t i = 0; a->values.storage && i < a->n_storages; i++) {
    storage_finish(&a->values.storage[i]);
  }
  for (int32_t i = 0; a->expected && i < a->n_storages * a->runs; i++) {
    storage_finish(&a->expected[i]);
  }
  finish_contents(a->contents, a->runs);
  free(a->values.storage);
  free(a->expected);
  tsr_program_destroy(a->build.program);
}

void check_oracle_destroy(check_oracle *oracle)
{
  if (!oracle) {
    return;
  }
  for (int32_t i = 0; oracle->answers && i < oracle->n_answers; i++) {
    answer_finish(&oracle->answers[i]);
  }
  free(oracle->answers);
  finish_contents(oracle->contents, oracle->runs);
  tsr_program_destroy(oracle->build.program);
  free(oracle);
}

static tsr_status no_memory(const char *name)
{
  return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for case %s", name);
}

static int is_result(int32_t kind)
{
  return kind == TSR_STORAGE_OUTPUT || kind == TSR_STORAGE_STATE;
}

/* 1 if the roundings of sums over these operands need not average out. */
static int32_t is_biased(const check_build *build)
{
  const tsr_program_desc *program = tsr_program_describe(build->program);
  int32_t biased = 0;

  for (int32_t i = 0; i < build->n_leaves; i++) {
    const int32_t dtype = tsr_tensor_at(program, build->leaf[i].base)->dtype;
    const check_data data = build->leaf[i].fill.data;
    biased |= dtype != TSR_I32 && data != CHECK_NORMAL && data != CHECK_UNIFORM && data != CHECK_WIDE &&
              data != CHECK_POSITIVE && data != CHECK_LARGE && data != CHECK_BIG;
  }
  return biased;
}

/* Makes room for what each storage holds. */
static tsr_status init_values(answer *a)
{
  const tsr_program_desc *program = tsr_program_describe(a->build.program);
  const int32_t biased = is_biased(&a->build);

  a->values.program = program;
  a->values.storage = calloc((size_t)a->n_storages, sizeof(check_storage));
  if (!a->values.storage) {
    return no_memory(a->build.test->name);
  }
  for (int32_t i = 1; i < a->n_storages; i++) {
    check_storage *storage = &a->values.storage[i];
    const tsr_ref tensor = check_storage_tensor(program, i);
    const size_t size = (size_t)tsr_storage_at(program, i)->size;
    if (tensor == TSR_NONE) {
      continue;
    }
    storage->dtype = tsr_tensor_at(program, tensor)->dtype;
    storage->count = (int64_t)(size / tsr_dtype_size(storage->dtype));
    storage->biased = biased;
    storage->shape = tsr_ref_shape(a->build.program, tensor);
    storage->bytes = malloc(size + 1);
    if (storage->dtype == TSR_F32) {
      storage->value = storage->bytes;
    } else if (storage->dtype == TSR_F16 || storage->dtype == TSR_BF16) {
      storage->value = malloc((size_t)storage->count * sizeof(float) + 1);
    }
    if (storage->dtype == TSR_F32 && tsr_storage_at(program, i)->kind == TSR_STORAGE_STATE) {
      storage->before = malloc(size + 1);
      if (!storage->before) {
        return no_memory(a->build.test->name);
      }
    }
    if (!storage->bytes || ((storage->dtype == TSR_F16 || storage->dtype == TSR_BF16) && !storage->value)) {
      return no_memory(a->build.test->name);
    }
  }
  for (int32_t i = 0; i < a->build.n_outputs; i++) {
    const check_output *output = &a->build.output[i];
    memcpy(a->values.storage[tsr_tensor_at(program, output->ref)->storage].first, output->first, sizeof(output->first));
  }
  return TSR_OK;
}

/* Fetches what the reference holds after a run, widened. */
static tsr_status fetch_values(answer *a, const check_contents *contents, check_execution *execution, int32_t run)
{
  const tsr_program_desc *program = a->values.program;
  tsr_status status = TSR_OK;

  for (int32_t i = 1; i < a->n_storages && !status; i++) {
    check_storage *storage = &a->values.storage[i];
    const int32_t kind = tsr_storage_at(program, i)->kind;
    const size_t size = (size_t)tsr_storage_at(program, i)->size;
    if (!storage->bytes) {
      continue;
    }
    if (kind == TSR_STORAGE_INPUT || (kind == TSR_STORAGE_CONSTANT && run == 0)) {
      memcpy(storage->bytes, contents[run].bytes[i], size);
    } else if (kind != TSR_STORAGE_CONSTANT) {
      if (storage->before) {
        memcpy(storage->before, run == 0 ? contents[0].bytes[i] : storage->bytes, size);
      }
      status = check_execution_result(execution, &a->build, i, storage->bytes);
    }
    if (!status && storage->value && storage->dtype != TSR_F32) {
      status = tsr_convert(storage->dtype, storage->bytes, TSR_F32, storage->value, storage->count);
    }
  }
  return status;
}

static tsr_status keep_results(answer *a, int32_t run)
{
  for (int32_t i = 1; i < a->n_storages; i++) {
    const check_storage *from = &a->values.storage[i];
    check_storage *to = &a->expected[run * a->n_storages + i];
    const size_t size = (size_t)tsr_storage_at(a->values.program, i)->size;
    if (!from->bytes || !is_result(tsr_storage_at(a->values.program, i)->kind)) {
      continue;
    }
    *to = *from;
    to->value = NULL;
    to->before = NULL;
    to->error = NULL;
    to->bytes = malloc(size + 1);
    if (to->bytes) {
      memcpy(to->bytes, from->bytes, size);
    }
    if (from->error) {
      to->error = malloc((size_t)from->count * sizeof(double) + 1);
      if (to->error) {
        memcpy(to->error, from->error, (size_t)from->count * sizeof(double));
      }
    }
    if (!to->bytes || (from->error && !to->error)) {
      return no_memory(a->build.test->name);
    }
  }
  return TSR_OK;
}

static tsr_status run_reference(answer *a, const check_contents *contents, check_device *reference)
{
  const tsr_program_desc *program = a->values.program;
  check_execution execution;
  char message[512];
  tsr_status status = check_execution_init(&execution, &a->build, &contents[0], reference, 1, 0);

  if (status) {
    return status;
  }
  status = check_execution_start(&execution, &a->build, &contents[0], 0);
  for (int32_t run = 0; run < a->runs && !status; run++) {
    status = check_execution_run(&execution, &a->build, &contents[run], run > 0);
    if (!status && !check_execution_guards(&execution, &a->build, message, sizeof(message))) {
      status = tsr_fail(TSR_ERR_INTERNAL, "%s", message);
    }
    if (!status) {
      status = fetch_values(a, contents, &execution, run);
    }
    for (int32_t line = 0; line < program->n_lines && !status; line++) {
      status = check_bound_line(&a->values, line);
    }
    if (!status) {
      status = keep_results(a, run);
    }
  }
  check_execution_finish(&execution);
  return status;
}

/* What the operands hold in each run. */
static tsr_status make_contents(const check_build *build, uint64_t seed, int32_t runs, check_contents **contents)
{
  tsr_status status = TSR_OK;

  *contents = calloc((size_t)runs, sizeof(**contents));
  if (!*contents) {
    return no_memory(build->test->name);
  }
  for (int32_t run = 0; run < runs && !status; run++) {
    status = check_contents_init(&(*contents)[run], build, seed, run);
  }
  return status;
}

/* The answer to part `number` of a case, or to the whole of one that is not cut, whose operands are `contents`. */
static tsr_status answer_init(answer *a, const check_case *test, int32_t number, uint64_t seed,
                              const check_contents *contents, check_device *reference)
{
  a->runs = test->runs;
  a->part = check_part_draw(test, seed, number);
  tsr_status status = check_build_part(test, test->parts > 0 ? &a->part : NULL, &a->build);
  if (!status) {
    a->n_storages = tsr_program_describe(a->build.program)->n_storages;
    a->expected = calloc((size_t)a->runs * (size_t)a->n_storages, sizeof(*a->expected));
    status = a->expected ? init_values(a) : no_memory(test->name);
  }
  if (!status && test->parts > 0) {
    status = make_contents(&a->build, seed, a->runs, &a->contents);
    contents = a->contents;
  }
  return status ? status : run_reference(a, contents, reference);
}

tsr_status check_oracle_create(const check_case *test, uint64_t seed, check_device *reference, check_oracle **result)
{
  check_oracle *oracle = calloc(1, sizeof(*oracle));

  *result = NULL;
  if (!oracle) {
    return no_memory(test->name);
  }
  oracle->runs = test->runs;
  oracle->n_answers = test->parts > 0 ? test->parts : 1;
  tsr_status status = check_build_program(test, &oracle->build);
  if (!status) {
    oracle->n_storages = tsr_program_describe(oracle->build.program)->n_storages;
    oracle->answers = calloc((size_t)oracle->n_answers, sizeof(*oracle->answers));
    status =
        oracle->answers ? make_contents(&oracle->build, seed, oracle->runs, &oracle->contents) : no_memory(test->name);
  }
  for (int32_t i = 0; i < oracle->n_answers && !status; i++) {
    status = answer_init(&oracle->answers[i], test, i, seed, oracle->contents, reference);
  }
  if (status) {
    check_oracle_destroy(oracle);
    return tsr_fail_context(status, "reference");
  }
  *result = oracle;
  return TSR_OK;
}

static void fail(check_result *result, const char *what, const char *message)
{
  const int limit = (int)sizeof(result->message) - 80; /* what has at most 64 */

  result->verdict = CHECK_FAILED;
  snprintf(result->message, sizeof(result->message), "%s: %.*s", what, limit, message);
}

/* Takes out of `found`, what a device wrote to a storage of the whole case, what an answer is about; the caller's to
 * free. NULL: out of memory. */
static void *cut_out(const check_storage *expected, const void *found, const tsr_shape *whole)
{
  const size_t size = tsr_dtype_size(expected->dtype);
  unsigned char *cut = malloc((size_t)expected->count * size + 1);

  for (int64_t element = 0; cut && element < expected->count; element++) {
    int64_t rest = element, factor = 1, place = 0;
    for (int32_t axis = expected->shape.rank - 1; axis >= 0; axis--) {
      place += (expected->first[axis] + rest % expected->shape.extent[axis]) * factor;
      rest /= expected->shape.extent[axis];
      factor *= whole->extent[axis];
    }
    memcpy(cut + (size_t)element * size, (const unsigned char *)found + (size_t)place * size, size);
  }
  return cut;
}

/* What a device wrote to a storage against each answer. */
static void compare(const check_oracle *oracle, int32_t storage, int32_t run, const void *found, check_result *result)
{
  const tsr_ref tensor = check_storage_tensor(tsr_program_describe(oracle->build.program), storage);
  const tsr_shape whole = tsr_ref_shape(oracle->build.program, tensor);
  const char *name = tsr_ref_name(oracle->build.program, tensor);

  for (int32_t i = 0; i < oracle->n_answers && result->verdict == CHECK_PASSED; i++) {
    const check_storage *expected = &oracle->answers[i].expected[run * oracle->n_storages + storage];
    const double nmse = oracle->build.test->nmse;
    check_difference difference = {0};
    void *cut = oracle->build.test->parts > 0 ? cut_out(expected, found, &whole) : NULL;
    if (oracle->build.test->parts > 0 && !cut) {
      fail(result, "runner", "out of memory");
    } else if (!check_compare(expected, cut ? cut : found, name, nmse, &difference)) {
      fail(result, "differs from the reference", difference.message);
    }
    free(cut);
    result->worst = fmax(result->worst, difference.worst);
    result->nmse = fmax(result->nmse, difference.nmse);
    result->free += difference.free;
  }
}

/* The results of one run: within the bounds in the first pass, the same bits as in the first pass in the second. `kept`
 * holds the results of the first pass, per run and storage. */
static void hold(check_oracle *oracle, check_execution *execution, int32_t pass, int32_t run, void **kept,
                 check_result *result)
{
  const tsr_program_desc *program = tsr_program_describe(oracle->build.program);

  for (int32_t i = 1; i < oracle->n_storages && result->verdict == CHECK_PASSED; i++) {
    const size_t size = (size_t)tsr_storage_at(program, i)->size;
    const int32_t at = run * oracle->n_storages + i;
    if (!is_result(tsr_storage_at(program, i)->kind) || check_storage_tensor(program, i) == TSR_NONE) {
      continue;
    }
    const unsigned char *found = check_execution_found(execution, i);
    unsigned char *copy = !found || pass == 0 ? malloc(size + 1) : NULL;
    if (!copy && (!found || pass == 0)) {
      fail(result, "runner", "out of memory");
      return;
    }
    if (copy && check_execution_result(execution, &oracle->build, i, copy)) {
      fail(result, "read", tsr_error_message());
    } else if (pass == 0) {
      kept[at] = copy;
      compare(oracle, i, run, copy, result);
      continue;
    } else if (memcmp(copy ? copy : found, kept[at], size) != 0) {
      const unsigned char *other = copy ? copy : found;
      size_t byte = 0;
      char where[160];
      while (other[byte] == ((unsigned char *)kept[at])[byte]) {
        byte++;
      }
      snprintf(where, sizeof(where), "%s, element %lld",
               tsr_ref_name(oracle->build.program, check_storage_tensor(program, i)),
               (long long)(byte / tsr_dtype_size(oracle->answers[0].expected[at].dtype)));
      fail(result, "a second run gave other bits", where);
    }
    free(copy);
  }
}

static void run_pass(check_oracle *oracle, check_execution *execution, int32_t pass, void **kept, check_result *result)
{
  char message[sizeof(result->message)], what[64];

  if (check_execution_start(execution, &oracle->build, &oracle->contents[0], pass)) {
    fail(result, "write", tsr_error_message());
  }
  for (int32_t run = 0; run < oracle->runs && result->verdict == CHECK_PASSED; run++) {
    if (check_execution_run(execution, &oracle->build, &oracle->contents[run], run > 0)) {
      fail(result, "run", tsr_error_message());
    } else if (!check_execution_guards(execution, &oracle->build, message, sizeof(message))) {
      fail(result, "guard", message);
    } else {
      hold(oracle, execution, pass, run, kept, result);
      if (result->verdict == CHECK_FAILED && oracle->runs > 1) {
        snprintf(what, sizeof(what), "run %d of %d", (int)run + 1, (int)oracle->runs);
        memcpy(message, result->message, sizeof(message));
        fail(result, what, message);
      }
    }
  }
}

void check_oracle_try(check_oracle *oracle, check_device *device, check_result *result)
{
  const int32_t count = oracle->runs * oracle->n_storages;
  check_execution execution;

  if (!check_device_supports(device, oracle->build.program, result)) {
    return;
  }
  void **kept = calloc((size_t)count, sizeof(*kept));
  if (!kept) {
    fail(result, "runner", "out of memory");
    return;
  }
  if (check_execution_init(&execution, &oracle->build, &oracle->contents[0], device, 0, 0)) {
    fail(result, "compile", tsr_error_message());
  } else {
    for (int32_t pass = 0; pass < 2 && result->verdict == CHECK_PASSED; pass++) {
      run_pass(oracle, &execution, pass, kept, result);
    }
    check_execution_finish(&execution);
  }
  for (int32_t i = 0; i < count; i++) {
    free(kept[i]);
  }
  free(kept);
}
