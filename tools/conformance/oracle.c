/* SPDX-License-Identifier: Apache-2.0
 *
 * A case with the reference's answer, and a device held against it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conformance/runner.h"

struct check_oracle {
  check_build build;
  check_contents *contents; /* per run */
  check_storage *expected;  /* per run, per storage: results only, the others empty */
  check_values values;      /* of the last run */
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

void check_oracle_destroy(check_oracle *oracle)
{
  int32_t i;

  if (!oracle) {
    return;
  }
  for (i = 0; oracle->values.storage && i < oracle->n_storages; i++) {
    storage_finish(&oracle->values.storage[i]);
  }
  for (i = 0; oracle->expected && i < oracle->n_storages * oracle->runs; i++) {
    storage_finish(&oracle->expected[i]);
  }
  for (i = 0; oracle->contents && i < oracle->runs; i++) {
    check_contents_finish(&oracle->contents[i]);
  }
  free(oracle->values.storage);
  free(oracle->expected);
  free(oracle->contents);
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
  int32_t i, dtype, biased = 0;
  check_data data;

  for (i = 0; i < build->n_leaves; i++) {
    dtype = tsr_tensor_at(program, build->leaf[i].base)->dtype;
    data = build->leaf[i].fill.data;
    biased |= dtype != TSR_I32 && data != CHECK_NORMAL && data != CHECK_UNIFORM && data != CHECK_WIDE &&
              data != CHECK_POSITIVE && data != CHECK_LARGE && data != CHECK_BIG;
  }
  return biased;
}

/* Makes room for what each storage holds. */
static tsr_status init_values(check_oracle *oracle)
{
  const tsr_program_desc *program = tsr_program_describe(oracle->build.program);
  int32_t i, biased = is_biased(&oracle->build);

  oracle->values.program = program;
  oracle->values.storage = calloc((size_t)oracle->n_storages, sizeof(check_storage));
  if (!oracle->values.storage) {
    return no_memory(oracle->build.test->name);
  }
  for (i = 1; i < oracle->n_storages; i++) {
    check_storage *storage = &oracle->values.storage[i];
    tsr_ref tensor = check_storage_tensor(program, i);
    size_t size = (size_t)tsr_storage_at(program, i)->size;
    if (tensor == TSR_NONE) {
      continue;
    }
    storage->dtype = tsr_tensor_at(program, tensor)->dtype;
    storage->count = (int64_t)(size / tsr_dtype_size(storage->dtype));
    storage->biased = biased;
    storage->shape = tsr_ref_shape(oracle->build.program, tensor);
    storage->bytes = malloc(size + 1);
    if (storage->dtype == TSR_F32) {
      storage->value = storage->bytes;
    } else if (storage->dtype == TSR_F16 || storage->dtype == TSR_BF16) {
      storage->value = malloc((size_t)storage->count * sizeof(float) + 1);
    }
    if (storage->dtype == TSR_F32 && tsr_storage_at(program, i)->kind == TSR_STORAGE_STATE) {
      storage->before = malloc(size + 1);
      if (!storage->before) {
        return no_memory(oracle->build.test->name);
      }
    }
    if (!storage->bytes || ((storage->dtype == TSR_F16 || storage->dtype == TSR_BF16) && !storage->value)) {
      return no_memory(oracle->build.test->name);
    }
  }
  return TSR_OK;
}

/* Fetches what the reference holds after a run, widened. */
static tsr_status fetch_values(check_oracle *oracle, check_execution *execution, int32_t run)
{
  const tsr_program_desc *program = oracle->values.program;
  tsr_status status = TSR_OK;
  int32_t i;

  for (i = 1; i < oracle->n_storages && !status; i++) {
    check_storage *storage = &oracle->values.storage[i];
    int32_t kind = tsr_storage_at(program, i)->kind;
    if (!storage->bytes) {
      continue;
    }
    if (kind == TSR_STORAGE_INPUT || (kind == TSR_STORAGE_CONSTANT && run == 0)) {
      memcpy(storage->bytes, oracle->contents[run].bytes[i], (size_t)tsr_storage_at(program, i)->size);
    } else if (kind != TSR_STORAGE_CONSTANT) {
      if (storage->before) {
        const void *before = run == 0 ? oracle->contents[0].bytes[i] : storage->bytes;
        memcpy(storage->before, before, (size_t)tsr_storage_at(program, i)->size);
      }
      status = check_execution_result(execution, &oracle->build, i, storage->bytes);
    }
    if (!status && storage->value && storage->dtype != TSR_F32) {
      status = tsr_convert(storage->dtype, storage->bytes, TSR_F32, storage->value, storage->count);
    }
  }
  return status;
}

static tsr_status keep_results(check_oracle *oracle, int32_t run)
{
  int32_t i;

  for (i = 1; i < oracle->n_storages; i++) {
    const check_storage *from = &oracle->values.storage[i];
    check_storage *to = &oracle->expected[run * oracle->n_storages + i];
    size_t size = (size_t)tsr_storage_at(oracle->values.program, i)->size;
    if (!from->bytes || !is_result(tsr_storage_at(oracle->values.program, i)->kind)) {
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
      return no_memory(oracle->build.test->name);
    }
  }
  return TSR_OK;
}

static tsr_status run_reference(check_oracle *oracle, check_device *reference)
{
  const tsr_program_desc *program = oracle->values.program;
  check_execution execution;
  char message[512];
  int32_t run, line;
  tsr_status status = check_execution_init(&execution, &oracle->build, &oracle->contents[0], reference, 1, 0);

  if (status) {
    return status;
  }
  status = check_execution_start(&execution, &oracle->build, &oracle->contents[0], 0);
  for (run = 0; run < oracle->runs && !status; run++) {
    status = check_execution_run(&execution, &oracle->build, &oracle->contents[run], run > 0);
    if (!status && !check_execution_guards(&execution, &oracle->build, message, sizeof(message))) {
      status = tsr_fail(TSR_ERR_INTERNAL, "%s", message);
    }
    if (!status) {
      status = fetch_values(oracle, &execution, run);
    }
    for (line = 0; line < program->n_lines && !status; line++) {
      status = check_bound_line(&oracle->values, line);
    }
    if (!status) {
      status = keep_results(oracle, run);
    }
  }
  check_execution_finish(&execution);
  return status;
}

tsr_status check_oracle_create(const check_case *test, uint64_t seed, check_device *reference, check_oracle **result)
{
  check_oracle *oracle = calloc(1, sizeof(*oracle));
  tsr_status status;
  int32_t run;

  *result = NULL;
  if (!oracle) {
    return no_memory(test->name);
  }
  oracle->runs = test->runs;
  status = check_build_program(test, &oracle->build);
  if (!status) {
    oracle->n_storages = tsr_program_describe(oracle->build.program)->n_storages;
    oracle->contents = calloc((size_t)oracle->runs, sizeof(*oracle->contents));
    oracle->expected = calloc((size_t)oracle->runs * (size_t)oracle->n_storages, sizeof(*oracle->expected));
    status = oracle->contents && oracle->expected ? init_values(oracle) : no_memory(test->name);
  }
  for (run = 0; run < oracle->runs && !status; run++) {
    status = check_contents_init(&oracle->contents[run], &oracle->build, seed, run);
  }
  if (!status) {
    status = run_reference(oracle, reference);
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

/* The results of one run: within the bounds in the first pass, the same bits as in the first pass in the second. `kept` holds
 * the results of the first pass, per run and storage. */
static void hold(check_oracle *oracle, check_execution *execution, int32_t pass, int32_t run, void **kept,
                 check_result *result)
{
  const tsr_program_desc *program = oracle->values.program;
  check_difference difference;
  int32_t i, at;

  for (i = 1; i < oracle->n_storages && result->verdict == CHECK_PASSED; i++) {
    const size_t size = (size_t)tsr_storage_at(program, i)->size;
    const char *name = tsr_ref_name(oracle->build.program, check_storage_tensor(program, i));
    void *found;
    at = run * oracle->n_storages + i;
    if (!oracle->expected[at].bytes) {
      continue;
    }
    found = malloc(size + 1);
    if (!found) {
      fail(result, "runner", "out of memory");
    } else if (check_execution_result(execution, &oracle->build, i, found)) {
      fail(result, "read", tsr_error_message());
    } else if (pass == 0) {
      kept[at] = found;
      if (!check_compare(&oracle->expected[at], found, name, oracle->build.test->nmse, &difference)) {
        fail(result, "differs from the reference", difference.message);
      }
      result->worst = fmax(result->worst, difference.worst);
      result->nmse = fmax(result->nmse, difference.nmse);
      result->free += difference.free;
      continue;
    } else if (memcmp(found, kept[at], size) != 0) {
      size_t byte = 0;
      char where[160];
      while (((unsigned char *)found)[byte] == ((unsigned char *)kept[at])[byte]) {
        byte++;
      }
      snprintf(where, sizeof(where), "%s, element %lld", name,
               (long long)(byte / tsr_dtype_size(oracle->expected[at].dtype)));
      fail(result, "a second run gave other bits", where);
    }
    free(found);
  }
}

static void run_pass(check_oracle *oracle, check_execution *execution, int32_t pass, void **kept, check_result *result)
{
  char message[sizeof(result->message)], what[64];
  int32_t run;

  if (check_execution_start(execution, &oracle->build, &oracle->contents[0], pass)) {
    fail(result, "write", tsr_error_message());
  }
  for (run = 0; run < oracle->runs && result->verdict == CHECK_PASSED; run++) {
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
  check_execution execution;
  int32_t count = oracle->runs * oracle->n_storages, pass, i;
  void **kept;

  if (!check_device_supports(device, oracle->build.program, result)) {
    return;
  }
  kept = calloc((size_t)count, sizeof(*kept));
  if (!kept) {
    fail(result, "runner", "out of memory");
    return;
  }
  if (check_execution_init(&execution, &oracle->build, &oracle->contents[0], device, 0, 0)) {
    fail(result, "compile", tsr_error_message());
  } else {
    for (pass = 0; pass < 2 && result->verdict == CHECK_PASSED; pass++) {
      run_pass(oracle, &execution, pass, kept, result);
    }
    check_execution_finish(&execution);
  }
  for (i = 0; i < count; i++) {
    free(kept[i]);
  }
  free(kept);
}
