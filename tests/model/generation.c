/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/generation.h"

#include <math.h>
#include <stdlib.h>

#include "tests/model/random_model.h"
#include "tests/unit/temporary.h"

int start(void **state)
{
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  f->folder = make_temporary_folder();
  assert_int_equal(tsr_runtime_create(NULL, &f->runtime), TSR_OK);
  assert_true(tsr_runtime_device_count(f->runtime) > 0);
  *state = f;
  return 0;
}

int stop(void **state)
{
  fixture *f = *state;
  tsr_runtime_destroy(f->runtime);
  remove_temporary_folder(f->folder);
  free(f);
  return 0;
}

void check(tsr_status status)
{
  if (status != TSR_OK) {
    fail_msg("%s: %s", tsr_status_name(status), tsr_error_message());
  }
}

const char *device_name(const fixture *f, int32_t index)
{
  static tsr_device_info info;
  check(tsr_runtime_device_info(f->runtime, index, &info));
  return info.name;
}

void open_setup(const fixture *f, const char *device, const tsr_transformer_options *options, setup *s)
{
  *s = (setup){0};
  check(tsr_device_open(f->runtime, device, &s->device));
  check(tsr_model_open(f->folder, &s->model));
  check(tsr_transformer_create(s->model, s->device, options, &s->transformer));
}

void close_setup(setup *s)
{
  tsr_transformer_destroy(s->transformer);
  tsr_model_close(s->model);
  tsr_device_close(s->device);
}

int is_precise(const setup *s, tsr_dtype weights)
{
  int32_t type = tsr_device_get_properties(s->device)->type;
  return (weights != TSR_F16 && weights != TSR_BF16) || type == TSR_DEVICE_CPU || type == TSR_DEVICE_REFERENCE;
}

void make_batch(uint64_t seed, int32_t vocabulary, int32_t n, batch *b)
{
  *b = (batch){.n = n,
               .pool = malloc((size_t)n * MAX_SOURCE * sizeof *b->pool),
               .source = malloc((size_t)n * sizeof *b->source),
               .lengths = malloc((size_t)n * sizeof *b->lengths)};
  assert_true(b->pool && b->source && b->lengths);
  for (int32_t i = 0; i < n; i++) {
    int32_t *ids = b->pool + (size_t)i * MAX_SOURCE;
    b->lengths[i] = i == 0 ? MAX_SOURCE : i == 1 ? 1 : i == 2 ? 0 : 1 + tsr_random_below(&seed, MAX_SOURCE);
    for (int32_t t = 0; t < MAX_SOURCE; t++) {
      ids[t] = tsr_random_below(&seed, vocabulary);
    }
    b->source[i] = ids;
  }
}

void free_batch(batch *b)
{
  free(b->pool);
  free(b->source);
  free(b->lengths);
}

tsr_generate_options options_for(const setup *s, int32_t beam)
{
  tsr_generate_options options;
  check(tsr_generate_defaults(s->model, &options));
  options.beam = beam;
  options.n_best = beam;
  options.max_length = 41; /* beyond the first room of the cache */
  options.length_penalty = 0.8f;
  options.forced_eos_id = -1; /* a forced token is not the best one */
  options.n_eos = 0;          /* the configuration says it, which tests change */
  return options;
}

void assert_same(const tsr_hypothesis *a, const tsr_hypothesis *b)
{
  assert_int_equal(a->n_ids, b->n_ids);
  assert_memory_equal(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids);
  if (isnan(a->score)) {
    assert_true(isnan(b->score));
  } else {
    assert_true(fabsf(a->score - b->score) <= 1e-5f * fmaxf(1.0f, fabsf(a->score)));
  }
}
