/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/random_model.h"
#include "tests/support/temporary.h"

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
  const tsr_device_properties *properties = tsr_device_get_properties(s->device);
  static const char *const rounding[] = {"amx kernels", "avx512bf16 kernels", "emulated"};
  for (size_t i = 0; weights == TSR_BF16 && i < sizeof rounding / sizeof rounding[0]; i++) {
    if (strstr(properties->driver, rounding[i])) {
      return 0;
    }
  }
  return (weights != TSR_F16 && weights != TSR_BF16) || properties->type == TSR_DEVICE_CPU ||
         properties->type == TSR_DEVICE_REFERENCE;
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
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
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

double log_probability(const float *logits, int32_t n, int32_t token)
{
  double largest = (double)logits[0];
  double sum = 0.0;
  for (int32_t i = 1; i < n; i++) {
    largest = fmax(largest, (double)logits[i]);
  }
  for (int32_t i = 0; i < n; i++) {
    sum += exp((double)logits[i] - largest);
  }
  return (double)logits[token] - largest - log(sum);
}

float *forced_logits(const setup *s, const int32_t *source, int32_t length, const int32_t *ids, int32_t n)
{
  const tsr_transformer_config *config = tsr_model_config(s->model);
  int32_t *target = malloc((size_t)n * sizeof *target);
  float *logits = malloc((size_t)n * (size_t)config->target_vocabulary * sizeof *logits);
  assert_non_null(target);
  assert_non_null(logits);
  target[0] = config->decoder_start_id;
  memcpy(target + 1, ids, (size_t)(n - 1) * sizeof *target);
  check(tsr_transformer_forward(s->transformer, 1, length, source, &length, n, target, NULL, logits));
  free(target);
  return logits;
}

float *forward_random(const setup *s, size_t *n)
{
  enum { B = 2, S = 11, L = 7 };
  const tsr_transformer_config *config = tsr_model_config(s->model);
  const int32_t lengths[B] = {S, 4};
  int32_t source[B * S], target[B * L];
  uint64_t seed = 7;
  *n = (size_t)B * L * (size_t)config->target_vocabulary;
  float *logits = malloc(*n * sizeof *logits);
  assert_non_null(logits);
  for (int32_t i = 0; i < B * S; i++) {
    source[i] = tsr_random_below(&seed, config->source_vocabulary);
  }
  for (int32_t i = 0; i < B * L; i++) {
    target[i] = tsr_random_below(&seed, config->target_vocabulary);
  }
  check(tsr_transformer_forward(s->transformer, B, S, source, lengths, L, target, NULL, logits));
  return logits;
}

double distance(const float *a, const float *b, size_t n)
{
  double difference = 0.0, size = 0.0;
  for (size_t i = 0; i < n; i++) {
    difference += pow((double)a[i] - (double)b[i], 2.0);
    size += pow((double)a[i], 2.0);
  }
  return sqrt(difference / size);
}

void choose_end(setup *s, const batch *b)
{
  tsr_generate_options options = options_for(s, 1);
  int32_t holders[64] = {0};
  int32_t best = 0;
  tsr_generation g;
  check(tsr_generate(s->transformer, b->n, b->source, b->lengths, 0, &options, NULL, NULL, &g));
  for (int32_t token = 0; token < s->model->config.target_vocabulary; token++) {
    for (int32_t i = 0; i < b->n; i++) {
      int32_t t = 0;
      while (t < g.hypotheses[i].n_ids && g.hypotheses[i].ids[t] != token) {
        t++;
      }
      holders[token] += t < g.hypotheses[i].n_ids;
    }
    best = holders[token] > holders[best] ? token : best;
  }
  tsr_generation_finish(&g);
  s->model->config.eos_id = best;
}

int32_t smallest_step(const tsr_transformer *t)
{
  int32_t smallest = INT32_MAX;
  for (int32_t i = 0; i < t->options.cache; i++) {
    const tsr_compiled *c = t->compiled[i];
    if (c && c->key.kind != TSR_PROGRAM_ENCODE && c->key.size.batch < smallest) {
      smallest = c->key.size.batch;
    }
  }
  return smallest;
}
