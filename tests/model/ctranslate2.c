/* SPDX-License-Identifier: Apache-2.0
 *
 * ctranslate2 FOLDER DEVICE
 *
 * Compares what a folder of CTranslate2 gives with what its own runtime gave (FOLDER/golden.json): the encoder's
 * output, outputs and scores of searches, scores of given outputs, and the source's tokens that replace unknown ones.
 * In f32 outputs are the same and numbers nearly so; where the runtime computed with whole numbers, outputs are the
 * same and scores near. Prints the largest differences. Exit code 77 where the device does not exist.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/generate.h"
#include "tessera/runtime.h"

enum { SKIPPED = 77, ROOM = 64, MOST = 16 };

static const double encoder_tolerance = 2e-5;
static const double score_tolerance = 1e-4;
static const double rounded_tolerance = 0.05;

static const char *folder; /* and what is compared */
static json_t *golden;
static json_t *config;
static json_t *vocabularies[2];

static int32_t failures;
static double worst_encoder, worst_score;

#define FAIL(...)                                                                                                      \
  do {                                                                                                                 \
    printf("%s: ", folder);                                                                                            \
    printf(__VA_ARGS__);                                                                                               \
    printf("\n");                                                                                                      \
    failures++;                                                                                                        \
  } while (0)

static json_t *load(const char *name)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return json_load_file(path, 0, NULL);
}

static json_t *load_lines(const char *name)
{
  char path[4096], *line = NULL;
  size_t room = 0;
  ssize_t length = 0;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  json_t *list = file ? json_array() : NULL;
  while (file && (length = getline(&line, &room, file)) > 0) {
    json_array_append_new(list, json_stringn(line, (size_t)length - (line[length - 1] == '\n')));
  }
  free(line);
  if (file) {
    fclose(file);
  }
  return list;
}

static json_t *load_vocabulary(const char *side)
{
  char name[64];
  snprintf(name, sizeof name, "%s_vocabulary.json", side);
  json_t *list = load(name);
  snprintf(name, sizeof name, "%s_vocabulary.txt", side);
  list = list ? list : load_lines(name);
  list = list ? list : load("shared_vocabulary.json");
  return list ? list : load_lines("shared_vocabulary.txt");
}

static int32_t id_of(int side, const char *token)
{
  for (size_t i = 0; i < json_array_size(vocabularies[side]); i++) {
    if (strcmp(json_string_value(json_array_get(vocabularies[side], i)), token) == 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

static const char *token_of(int side, int32_t id)
{
  const char *token = json_string_value(json_array_get(vocabularies[side], (size_t)id));
  return token ? token : "?";
}

static const char *text_in(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static const char *text_of(const char *key, const char *otherwise)
{
  const char *text = text_in(config, key);
  return text[0] ? text : otherwise;
}

/* Sequences of tokens as ids. */
typedef struct sequences {
  int32_t n;
  int32_t ids[MOST][ROOM];
  int32_t lengths[MOST];
  const int32_t *all[MOST];
} sequences;

static void add_id(sequences *s, int32_t i, int32_t id)
{
  s->ids[i][s->lengths[i]++] = id;
}

static void take_sequences(int side, const json_t *lists, int32_t with_ends, sequences *s)
{
  *s = (sequences){.n = (int32_t)json_array_size(lists)};
  for (int32_t i = 0; i < s->n; i++) {
    const json_t *tokens = json_array_get(lists, (size_t)i);
    s->all[i] = s->ids[i];
    if (with_ends && json_is_true(json_object_get(config, "add_source_bos"))) {
      add_id(s, i, id_of(side, text_of("bos_token", "<s>")));
    }
    for (size_t t = 0; t < json_array_size(tokens); t++) {
      int32_t id = id_of(side, json_string_value(json_array_get(tokens, t)));
      add_id(s, i, id >= 0 ? id : id_of(side, text_of("unk_token", "<unk>")));
    }
    if (with_ends && json_is_true(json_object_get(config, "add_source_eos"))) {
      add_id(s, i, id_of(side, text_of("eos_token", "</s>")));
    }
  }
}

static void compare_encoder(tsr_transformer *t, const json_t *expected)
{
  sequences source;
  take_sequences(0, json_object_get(golden, "source"), 1, &source);
  const json_t *ids = json_object_get(golden, "encoder_input_ids");
  int32_t d_model = tsr_model_config(tsr_transformer_model(t))->d_model;
  for (size_t k = 0; k < json_array_size(expected); k++) {
    const json_t *input = json_array_get(ids, k);
    int32_t n = (int32_t)json_array_size(input), row[ROOM], is_source = 0;
    for (int32_t i = 0; i < n; i++) {
      row[i] = (int32_t)json_integer_value(json_array_get(input, (size_t)i));
    }
    for (int32_t i = 0; i < source.n; i++) {
      is_source |= source.lengths[i] == n && memcmp(source.ids[i], row, (size_t)n * sizeof *row) == 0;
    }
    if (!is_source) {
      FAIL("the ids of encoder input %zu are none of the sources'", k);
    }
    float *output = malloc((size_t)n * (size_t)d_model * sizeof *output);
    if (!output || tsr_transformer_forward(t, 1, n, row, &n, 0, NULL, output, NULL) != TSR_OK) {
      FAIL("the encoder: %s", tsr_error_message());
      free(output);
      return;
    }
    for (int32_t i = 0; i < n; i++) {
      const json_t *position = json_array_get(json_array_get(expected, k), (size_t)i);
      for (int32_t d = 0; d < d_model; d++) {
        double wanted = json_number_value(json_array_get(position, (size_t)d));
        double found = (double)output[i * d_model + d];
        worst_encoder = fmax(worst_encoder, fabs(wanted - found));
        if (!(fabs(wanted - found) <= encoder_tolerance)) {
          FAIL("encoder output %zu, position %d, column %d: %.7g, recorded %.7g", k, (int)i, (int)d, found, wanted);
          i = n;
          break;
        }
      }
    }
    free(output);
  }
}

/* The tokens of an output, without the end, unknown ones replaced if that is asked for. */
static const char *token_at(const tsr_hypothesis *h, int32_t i, const json_t *source)
{
  if (!h->attention || strcmp(token_of(1, h->ids[i]), text_of("unk_token", "<unk>")) != 0) {
    return token_of(1, h->ids[i]);
  }
  const float *row = h->attention + (size_t)i * (size_t)h->n_source;
  int32_t best = 0, before = json_is_true(json_object_get(config, "add_source_bos"));
  for (int32_t s = 1; s < h->n_source; s++) {
    best = row[s] > row[best] ? s : best;
  }
  const char *token = json_string_value(json_array_get(source, (size_t)(best - before)));
  return token ? token : text_of("eos_token", "</s>");
}

static void compare_hypothesis(const char *what, int32_t sentence, const json_t *expected, const tsr_hypothesis *h,
                               int32_t end, double tolerance)
{
  const json_t *tokens = json_object_get(expected, "tokens");
  const json_t *source = json_array_get(json_object_get(golden, "source"), (size_t)sentence);
  int32_t n = h->n_ids > 0 && h->ids[h->n_ids - 1] == end ? h->n_ids - 1 : h->n_ids;
  int same = n == (int32_t)json_array_size(tokens);
  for (int32_t i = 0; same && i < n; i++) {
    same = strcmp(token_at(h, i, source), json_string_value(json_array_get(tokens, (size_t)i))) == 0;
  }
  if (!same) {
    char *shown = json_dumps(tokens, 0);
    FAIL("%s, sentence %d: recorded %s, found:", what, (int)sentence, shown);
    for (int32_t i = 0; i < n; i++) {
      printf(" %s", token_at(h, i, source));
    }
    printf(" (%g, recorded %g)\n", (double)h->score, json_number_value(json_object_get(expected, "score")));
    free(shown);
    return;
  }
  if (isnan(tolerance)) {
    return; /* there are no scores */
  }
  double difference = fabs((double)h->score - json_number_value(json_object_get(expected, "score")));
  worst_score = fmax(worst_score, difference);
  if (!(difference <= tolerance)) {
    FAIL("%s, sentence %d: score %.7g, recorded %.7g", what, (int)sentence, (double)h->score,
         json_number_value(json_object_get(expected, "score")));
  }
}

static void compare_search(tsr_transformer *t, const char *what, const json_t *settings, const json_t *expected,
                           double tolerance)
{
  const tsr_model *model = tsr_transformer_model(t);
  sequences source, prefix;
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  tsr_generation generation = {0};
  const json_t *prefixes = json_object_get(golden, "target_prefix");
  take_sequences(0, json_object_get(golden, "source"), 1, &source);
  take_sequences(1, prefixes, 0, &prefix);
  tsr_status status = tsr_generate_defaults(model, &options);
  options.beam = (int32_t)json_integer_value(json_object_get(settings, "beam_size"));
  options.n_best = (int32_t)json_integer_value(json_object_get(settings, "num_hypotheses"));
  options.length_penalty = (float)json_number_value(json_object_get(settings, "length_penalty"));
  options.patience = (float)json_number_value(json_object_get(settings, "patience"));
  options.max_length = (int32_t)json_integer_value(json_object_get(settings, "max_decoding_length")) + 1;
  options.attention = json_is_true(json_object_get(settings, "replace_unknowns"));
  options.attention_heads = 1;
  options.scores = 1;
  if (prefixes && tsr_model_config(model)->decoder_start_id < 0) {
    options.decoder_start_id = prefix.ids[0][0];
  } else if (prefixes) {
    options.prefix = prefix.all;
    options.prefix_lengths = prefix.lengths;
  }
  if (status == TSR_OK) {
    status = tsr_generate(t, source.n, source.all, source.lengths, 0, &options, NULL, NULL, &generation);
  }
  if (status != TSR_OK) {
    FAIL("%s: %s", what, tsr_error_message());
    return;
  }
  for (int32_t i = 0; i < source.n; i++) {
    const json_t *hypotheses = json_array_get(expected, (size_t)i);
    if (json_array_size(hypotheses) != (size_t)options.n_best) {
      FAIL("%s: %zu hypotheses are recorded", what, json_array_size(hypotheses));
    }
    for (int32_t k = 0; k < options.n_best; k++) {
      compare_hypothesis(what, i, json_array_get(hypotheses, (size_t)k), &generation.hypotheses[i * options.n_best + k],
                         tsr_model_config(model)->eos_id, tolerance);
    }
  }
  tsr_generation_finish(&generation);
  /* Without scores greedy search goes another way. */
  options.scores = 0;
  if (options.beam == 1 &&
      tsr_generate(t, source.n, source.all, source.lengths, 0, &options, NULL, NULL, &generation) == TSR_OK) {
    for (int32_t i = 0; i < source.n; i++) {
      compare_hypothesis(what, i, json_array_get(json_array_get(expected, (size_t)i), 0), &generation.hypotheses[i],
                         tsr_model_config(model)->eos_id, (double)NAN);
    }
    tsr_generation_finish(&generation);
  }
}

static void compare_scores(tsr_transformer *t, const json_t *expected, double tolerance)
{
  const tsr_transformer_config *c = tsr_model_config(tsr_transformer_model(t));
  sequences source, target;
  tsr_scores scores = {0};
  take_sequences(0, json_object_get(golden, "score_source"), 1, &source);
  take_sequences(1, json_object_get(golden, "score_target"), 0, &target);
  int32_t start = target.ids[0][0], is_first = c->decoder_start_id < 0;
  for (int32_t i = 0; i < target.n; i++) {
    add_id(&target, i, c->eos_id);
    target.all[i] += is_first;
    target.lengths[i] -= is_first;
  }
  tsr_score_options options = {TSR_SIZED(tsr_score_options), .length_penalty = 1.0f,
                               .decoder_start_id = is_first ? &start : NULL};
  if (tsr_score(t, source.n, source.all, source.lengths, target.all, target.lengths, &options, NULL, NULL, &scores) !=
      TSR_OK) {
    FAIL("score: %s", tsr_error_message());
    return;
  }
  for (int32_t i = 0; i < source.n; i++) {
    const json_t *pair = json_array_get(expected, (size_t)i);
    const json_t *wanted = json_object_get(pair, "log_probs");
    if ((int32_t)json_array_size(wanted) != scores.targets[i].n_tokens) {
      char *shown = json_dumps(pair, 0);
      FAIL("score, pair %d: %d tokens; recorded: %.300s", (int)i, (int)scores.targets[i].n_tokens, shown);
      free(shown);
      continue;
    }
    for (int32_t k = 0; k < scores.targets[i].n_tokens; k++) {
      double difference =
          fabs((double)scores.targets[i].tokens[k] - json_number_value(json_array_get(wanted, (size_t)k)));
      worst_score = fmax(worst_score, difference);
      if (!(difference <= tolerance)) {
        FAIL("score, pair %d, token %d: %.7g, recorded %.7g", (int)i, (int)k, (double)scores.targets[i].tokens[k],
             json_number_value(json_array_get(wanted, (size_t)k)));
      }
    }
  }
  tsr_scores_finish(&scores);
}

static void compare_all(const tsr_model *model, tsr_device *device, tsr_dtype weights, const char *type)
{
  const int is_rounded = strcmp(type, "int8") == 0;
  const json_t *results = json_object_get(json_object_get(golden, "results"), type), *expected;
  const tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .weights = weights};
  tsr_transformer *t = NULL;
  double tolerance = is_rounded ? rounded_tolerance : score_tolerance;
  const char *what;
  if (!results) {
    return;
  }
  if (tsr_transformer_create(model, device, &options, &t) != TSR_OK) {
    FAIL("%s", tsr_error_message());
    return;
  }
  json_object_foreach((json_t *)results, what, expected)
  {
    if (strcmp(what, "encoder_output") == 0) {
      compare_encoder(t, expected);
    } else if (strcmp(what, "score") == 0) {
      compare_scores(t, expected, tolerance);
    } else {
      compare_search(t, what, json_object_get(json_object_get(golden, "options"), what), expected, tolerance);
    }
  }
  printf("%s as %s: encoder within %.2g, scores within %.2g, %d failures\n", folder, type, worst_encoder, worst_score,
         (int)failures);
  worst_encoder = worst_score = 0.0;
  tsr_transformer_destroy(t);
}

static int is_stored_as_int8(const tsr_model *model)
{
  for (int32_t i = 0; i < tsr_model_parameter_count(model); i++) {
    tsr_parameter_info info;
    if (tsr_model_parameter(model, i, &info) == TSR_OK && info.dtype == TSR_I8) {
      return 1;
    }
  }
  return 0;
}

int main(int argc, char **argv)
{
  tsr_runtime *runtime = NULL;
  tsr_device *device = NULL;
  tsr_model *model = NULL;
  if (argc != 3) {
    return 2;
  }
  folder = argv[1];
  golden = load("golden.json");
  config = load("config.json");
  vocabularies[0] = load_vocabulary("source");
  vocabularies[1] = load_vocabulary("target");
  tsr_status status = golden && vocabularies[0] ? tsr_runtime_create(NULL, &runtime)
                                                : tsr_fail(TSR_ERR_IO, "%s: files are missing", folder);
  if (status == TSR_OK) {
    status = tsr_device_open(runtime, argv[2], &device);
    if (status == TSR_ERR_NO_DEVICE) {
      printf("skipped: %s\n", tsr_error_message());
      tsr_runtime_destroy(runtime);
      return SKIPPED;
    }
  }
  if (status == TSR_OK) {
    status = tsr_model_open(folder, &model);
  }
  if (status == TSR_OK) {
    /* As it is stored; whole numbers in f32, too. */
    int is_int8 = is_stored_as_int8(model);
    if (is_int8) {
      compare_all(model, device, 0, "int8");
    }
    compare_all(model, device, is_int8 ? TSR_F32 : 0, "float32");
  } else {
    FAIL("%s", tsr_error_message());
  }
  tsr_model_close(model);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  for (int i = 0; i < 2; i++) {
    json_decref(vocabularies[i]);
  }
  json_decref(golden);
  json_decref(config);
  return failures > 0;
}
