/* SPDX-License-Identifier: Apache-2.0
 *
 * recorded MODEL SENTENCES DEVICE BEAM COUNT
 *
 * Translates the first COUNT lines of SENTENCES (0: all) and compares token ids and scores with those that the original
 * code recorded in MODEL/recorded/test.beamBEAM.json. At least 99.5 % of the sentences must be identical, and the
 * scores of those agree within 1e-4. Exit code 77 where the device does not exist.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/generate.h"
#include "tessera/text.h"

enum { SKIPPED = 77, NEW_TOKENS = 128, MAX_LINES = 1 << 20 };

static const double score_tolerance = 1e-4;
static const double identical_share = 0.995;

typedef struct sentences {
  int32_t **ids;
  int32_t *lengths;
  int32_t n;
} sentences;

static tsr_status read_sentences(const char *path, const tsr_tokenizer *tokenizer, int32_t limit, sentences *out)
{
  FILE *file = fopen(path, "r");
  if (!file) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be opened", path);
  }
  char *line = NULL;
  size_t room = 0;
  ssize_t length = 0;
  tsr_status status = TSR_OK;
  out->ids = calloc((size_t)limit, sizeof *out->ids);
  out->lengths = calloc((size_t)limit, sizeof *out->lengths);
  if (!out->ids || !out->lengths) {
    status = tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  while (status == TSR_OK && out->n < limit && (length = getline(&line, &room, file)) > 0) {
    size_t size = (size_t)length - (line[length - 1] == '\n');
    status = tsr_tokenizer_encode(tokenizer, line, size, &out->ids[out->n], &out->lengths[out->n]);
    out->n += status == TSR_OK;
  }
  free(line);
  fclose(file);
  return status;
}

static void finish_sentences(sentences *s)
{
  for (int32_t i = 0; i < s->n; i++) {
    tsr_free(s->ids[i]);
  }
  free(s->ids);
  free(s->lengths);
}

static int same_ids(const json_t *expected, const tsr_hypothesis *found)
{
  if ((int32_t)json_array_size(expected) != found->n_ids) {
    return 0;
  }
  for (int32_t i = 0; i < found->n_ids; i++) {
    if (json_integer_value(json_array_get(expected, (size_t)i)) != found->ids[i]) {
      return 0;
    }
  }
  return 1;
}

/* Returns the exit code. */
static int compare(const json_t *recorded, const tsr_generation *generation)
{
  int32_t n = generation->n_sentences;
  int32_t identical = 0;
  double score_error = 0.0;
  if ((int32_t)json_array_size(recorded) < n) {
    fprintf(stderr, "only %zu results are recorded\n", json_array_size(recorded));
    return 1;
  }
  for (int32_t i = 0; i < n; i++) {
    const json_t *entry = json_array_get(recorded, (size_t)i);
    const json_t *score = json_object_get(entry, "score");
    const tsr_hypothesis *found = &generation->hypotheses[i];
    if (!same_ids(json_object_get(entry, "ids"), found)) {
      printf("sentence %d differs: recorded score %.7g, found %.7g\n", (int)i, json_number_value(score),
             (double)found->score);
      continue;
    }
    identical++;
    if (json_is_number(score)) {
      double error = fabs(json_number_value(score) - (double)found->score);
      score_error = isnan(error) ? INFINITY : error > score_error ? error : score_error;
    }
  }
  printf("%d of %d sentences identical, scores within %.3g\n", (int)identical, (int)n, score_error);
  return n > 0 && identical >= identical_share * n && score_error <= score_tolerance ? 0 : 1;
}

typedef struct setup {
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_model *model;
  tsr_tokenizer *tokenizer;
  tsr_transformer *transformer;
} setup;

static tsr_status open_setup(const char *folder, const char *device, setup *s)
{
  tsr_status status = tsr_runtime_create(NULL, &s->runtime);
  if (status == TSR_OK) {
    status = tsr_device_open(s->runtime, device, &s->device);
  }
  if (status == TSR_OK) {
    status = tsr_model_open(folder, &s->model);
  }
  if (status == TSR_OK) {
    status = tsr_tokenizer_open(s->model, &s->tokenizer);
  }
  if (status == TSR_OK) {
    status = tsr_transformer_create(s->model, s->device, NULL, &s->transformer);
  }
  return status;
}

static void close_setup(setup *s)
{
  tsr_transformer_destroy(s->transformer);
  tsr_tokenizer_close(s->tokenizer);
  tsr_model_close(s->model);
  tsr_device_close(s->device);
  tsr_runtime_destroy(s->runtime);
}

static tsr_status translate(const setup *s, const sentences *source, int32_t beam, tsr_generation *generation)
{
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  tsr_status status = tsr_generate_defaults(s->model, &options);
  if (status != TSR_OK) {
    return status;
  }
  options.beam = beam;
  options.max_length = NEW_TOKENS + 1;
  status = tsr_generate(s->transformer, source->n, (const int32_t *const *)source->ids, source->lengths, 0, &options,
                        NULL, NULL, generation);
  tsr_generate_statistics took;
  tsr_generate_measure(s->transformer, &took);
  printf("%lld sentences, %lld tokens: %lld encoder runs in %.2f s, %lld steps in %.2f s\n", (long long)took.sentences,
         (long long)took.target_tokens, (long long)took.encode_runs, took.encode_seconds, (long long)took.step_runs,
         took.step_seconds);
  return status;
}

static int run(const char *folder, const char *path, const char *device, int32_t beam, int32_t count)
{
  char file[4096];
  setup s = {0};
  sentences source = {0};
  tsr_generation generation = {0};
  json_t *recorded = NULL;
  tsr_status status = open_setup(folder, device, &s);
  int code = status == TSR_ERR_NO_DEVICE ? SKIPPED : 1;
  if (status == TSR_OK) {
    status = read_sentences(path, s.tokenizer, count > 0 ? count : MAX_LINES, &source);
  }
  if (status == TSR_OK) {
    status = translate(&s, &source, beam, &generation);
  }
  if (status == TSR_OK) {
    snprintf(file, sizeof file, "%s/recorded/test.beam%d.json", folder, (int)beam);
    recorded = json_load_file(file, 0, NULL);
    code = compare(recorded, &generation);
  } else {
    fprintf(stderr, "%s\n", tsr_error_message());
  }
  json_decref(recorded);
  tsr_generation_finish(&generation);
  finish_sentences(&source);
  close_setup(&s);
  return code;
}

int main(int argc, char **argv)
{
  if (argc != 6) {
    fprintf(stderr, "usage: recorded MODEL SENTENCES DEVICE BEAM COUNT\n");
    return 1;
  }
  return run(argv[1], argv[2], argv[3], atoi(argv[4]), atoi(argv[5]));
}
