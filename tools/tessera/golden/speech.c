/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays what the original made of windows of sound with a model of speech: teacher forcing, the languages, and
 * searches and times of tokens, which are recorded as the calls of the original's generate().
 */
#include "tools/tessera/golden/speech.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/generate.h"
#include "tessera/inspect.h"
#include "tessera/speech.h"
#include "tools/tessera/golden/compare.h"

enum { MOST_PREFIX = 256, MOST_LANGUAGES = 128 };

int tsr_golden_is_speech(const json_t *golden)
{
  return json_is_array(json_object_get(golden, "decoder_lengths"));
}

typedef struct replay {
  const golden_request *request;
  tsr_transformer *transformer;
  const tsr_transformer_config *config;
  const golden_fixture *fixture;
  golden_recorded input;             /* [B, M, F] */
  golden_recorded target;            /* [B, L] */
  golden_recorded heard;             /* [B, S]: ones */
  golden_recorded forced;            /* [B, L]: ones up to decoder_lengths */
  const float **windows;             /* [B] */
  int32_t languages[MOST_LANGUAGES]; /* [n_languages] tokens */
  int32_t n_languages;
} replay;

static tsr_status no_memory(void)
{
  return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
}

/* ---- what is recorded -------------------------------------------------------------------------------------------- */

/* A mask [n_batch, n_length]: ones in the first lengths[b], or (NULL) everywhere. */
static tsr_status make_mask(int32_t n_batch, int32_t n_length, const json_t *lengths, golden_recorded *mask)
{
  *mask = (golden_recorded){.n_batch = n_batch, .n_length = n_length, .width = 1};
  mask->ids = malloc(((size_t)n_batch * (size_t)n_length + 1) * sizeof *mask->ids);
  for (int32_t i = 0; mask->ids && i < n_batch * n_length; i++) {
    const json_int_t length = json_integer_value(json_array_get(lengths, (size_t)(i / n_length)));
    mask->ids[i] = !lengths || i % n_length < length;
  }
  return mask->ids ? TSR_OK : no_memory();
}

static tsr_status read_all(replay *r)
{
  const json_t *lengths = json_object_get(r->fixture->golden, "decoder_lengths");
  tsr_status status = golden_recorded_read(r->fixture->tensors, "input_features", 3, &r->input);
  if (status == TSR_OK) {
    status = golden_recorded_read(r->fixture->tensors, "decoder_input_ids", 2, &r->target);
  }
  if (status != TSR_OK) {
    return status;
  }
  const int32_t n = r->input.n_batch, frames = 2 * r->config->source_positions;
  if (r->input.n_length != r->config->mels || r->input.width != frames || r->target.n_batch != n ||
      json_array_size(lengths) != (size_t)n) {
    return tsr_fail(
        TSR_ERR_FORMAT,
        "golden.safetensors: %d windows of %d mels and %d frames, and %d targets; the model has %d mels and "
        "%d frames",
        (int)n, (int)r->input.n_length, (int)r->input.width, (int)r->target.n_batch, (int)r->config->mels, (int)frames);
  }
  r->windows = malloc((size_t)n * sizeof *r->windows);
  if (!r->windows) {
    return no_memory();
  }
  for (int32_t b = 0; b < n; b++) {
    r->windows[b] = r->input.values + (size_t)b * (size_t)r->config->mels * (size_t)frames;
  }
  status = make_mask(n, r->config->source_positions, NULL, &r->heard);
  return status == TSR_OK ? make_mask(n, r->target.n_length, lengths, &r->forced) : status;
}

/* A token of the vocabulary that golden.json tells. -1: there is none. */
static int32_t token_of(const replay *r, const char *name)
{
  const json_t *id = json_object_get(json_object_get(r->fixture->golden, "vocabulary"), name);
  return json_is_integer(id) ? (int32_t)json_integer_value(id) : -1;
}

static int32_t language_of(const replay *r, const char *code)
{
  const json_t *languages = json_object_get(json_object_get(r->fixture->golden, "vocabulary"), "languages");
  const json_t *id = json_object_get(languages, code);
  return json_is_integer(id) ? (int32_t)json_integer_value(id) : -1;
}

/* ---- teacher forcing --------------------------------------------------------------------------------------------- */

static tsr_status replay_output(const replay *r, const char *name, const golden_recorded *mask, const float *found,
                                golden_error *error)
{
  golden_recorded expected = {0};
  tsr_status status = golden_recorded_read(r->fixture->tensors, name, 3, &expected);
  if (status == TSR_OK && !golden_same_extents(&expected, mask)) {
    status = tsr_fail(TSR_ERR_FORMAT, "golden.safetensors: '%s' is [%d, %d, ..]; expected [%d, %d, ..]", name,
                      (int)expected.n_batch, (int)expected.n_length, (int)mask->n_batch, (int)mask->n_length);
  }
  if (status == TSR_OK) {
    *error = golden_compare_values(name, &expected, mask, found, r->request->tolerance);
  }
  free(expected.values);
  return status;
}

static tsr_status replay_forward(const replay *r, golden_error *errors)
{
  const tsr_transformer_config *c = r->config;
  const size_t n = (size_t)r->input.n_batch, length = (size_t)r->target.n_length;
  float *encoder_output = malloc(n * (size_t)c->source_positions * (size_t)c->d_model * sizeof *encoder_output);
  float *logits = malloc(n * length * (size_t)c->target_vocabulary * sizeof *logits);
  tsr_status status = encoder_output && logits ? TSR_OK : no_memory();
  if (status == TSR_OK) {
    status = tsr_transformer_forward_features(r->transformer, r->input.n_batch, r->input.values, r->target.n_length,
                                              r->target.ids, encoder_output, logits);
  }
  if (status == TSR_OK) {
    status = replay_output(r, "encoder_output", &r->heard, encoder_output, &errors[0]);
  }
  if (status == TSR_OK) {
    status = replay_output(r, "logits", &r->forced, logits, &errors[1]);
  }
  free(encoder_output);
  free(logits);
  return status;
}

/* A convolution's result [B, T, D], which is recorded as [B, D, T]. */
static tsr_status replay_convolution(const replay *r, const char *recorded, const tsr_inspected *found,
                                     golden_error *error)
{
  golden_recorded channels = {0};
  if (!found) {
    return tsr_fail(TSR_ERR_FORMAT, "the model gives nothing to compare with '%s'", recorded);
  }
  const int32_t n = (int32_t)found->shape.extent[0], time = (int32_t)found->shape.extent[1];
  const int32_t width = (int32_t)found->shape.extent[2];
  float *turned = malloc((size_t)tsr_shape_elements(&found->shape) * sizeof *turned + 1);
  tsr_status status = turned ? make_mask(n, width, NULL, &channels) : no_memory();
  for (int32_t i = 0; status == TSR_OK && i < n * time * width; i++) {
    const int32_t b = i / (time * width), t = i / width % time, d = i % width;
    turned[((size_t)b * (size_t)width + (size_t)d) * (size_t)time + (size_t)t] = found->values[i];
  }
  if (status == TSR_OK) {
    status = replay_output(r, recorded, &channels, turned, error);
  }
  free(channels.ids);
  free(turned);
  return status;
}

static tsr_status replay_convolutions(const replay *r, golden_error *errors)
{
  tsr_inspection inspection;
  tsr_status status = tsr_transformer_inspect_features(r->transformer, TSR_INSPECT_CONVOLUTIONS, r->input.n_batch,
                                                       r->input.values, 0, NULL, &inspection);
  if (status != TSR_OK) {
    return status;
  }
  status = replay_convolution(r, "conv1_gelu", tsr_inspection_find(&inspection, "encoder.conv1"), &errors[0]);
  if (status == TSR_OK) {
    status = replay_convolution(r, "conv2_gelu", tsr_inspection_find(&inspection, "encoder.conv2"), &errors[1]);
  }
  tsr_inspection_finish(&inspection);
  return status;
}

static tsr_status replay_layers(const replay *r, tsr_golden_layers *layers)
{
  const tsr_golden_batch batch = {.tensors = r->fixture->tensors,
                                  .n_batch = r->input.n_batch,
                                  .n_source = r->config->source_positions,
                                  .n_target = r->target.n_length,
                                  .source_mask = r->heard.ids,
                                  .features = r->input.values,
                                  .target = r->target.ids,
                                  .target_mask = r->forced.ids};
  const double attention = r->request->attention_tolerance >= 0.0 ? r->request->attention_tolerance : 5e-6;
  return tsr_golden_compare_layers(r->transformer, &batch, r->request->tolerance, attention, layers);
}

/* ---- languages --------------------------------------------------------------------------------------------------- */

static double error_of(const json_t *expected, float found)
{
  const double error = fabs(json_number_value(expected) - (double)found);
  return isnan(error) || !json_is_number(expected) ? INFINITY : error;
}

static void compare_languages(const json_t *recorded, int32_t n, int32_t n_languages, const int32_t *detected,
                              const float *probabilities, const float *no_speech, tsr_golden_search *summary)
{
  for (int32_t b = 0; b < n; b++) {
    const size_t at = (size_t)b;
    const json_t *id = json_array_get(json_object_get(recorded, "ids"), at);
    const json_t *row = json_array_get(json_object_get(recorded, "language_probs"), at);
    if (json_integer_value(id) != detected[b] && summary->different++ == 0) {
      snprintf(summary->detail, sizeof summary->detail, "window %d: expected %d, found %d", (int)b,
               (int)json_integer_value(id), (int)detected[b]);
    }
    double error = error_of(json_array_get(json_object_get(recorded, "no_speech_prob"), at), no_speech[b]);
    summary->score_error = fmax(summary->score_error, error);
    for (int32_t i = 0; i < n_languages; i++) {
      error = error_of(json_array_get(row, (size_t)i), probabilities[b * n_languages + i]);
      summary->score_error = fmax(summary->score_error, error);
    }
  }
}

static tsr_status replay_detection(replay *r, tsr_golden_search *summary)
{
  const json_t *recorded = json_object_get(r->fixture->golden, "detect_language");
  json_t *languages = json_object_get(json_object_get(r->fixture->golden, "vocabulary"), "languages");
  const int32_t n = r->input.n_batch;
  const char *code;
  json_t *id;
  *summary = (tsr_golden_search){.name = "detect_language", .sequences = n};
  if (json_object_size(languages) < 1 || json_object_size(languages) > MOST_LANGUAGES) {
    return tsr_fail(TSR_ERR_FORMAT, "golden.json: %zu languages; expected 1 to %d", json_object_size(languages),
                    (int)MOST_LANGUAGES);
  }
  json_object_foreach(languages, code, id)
  {
    r->languages[r->n_languages++] = (int32_t)json_integer_value(id);
  }
  int32_t *best = malloc((size_t)n * sizeof *best);
  float *probabilities = malloc((size_t)n * (size_t)r->n_languages * sizeof *probabilities);
  float *no_speech = malloc((size_t)n * sizeof *no_speech);
  tsr_status status = best && probabilities && no_speech ? TSR_OK : no_memory();
  if (status == TSR_OK) {
    status = tsr_detect_language(r->transformer, n, r->windows, 2, r->n_languages, r->languages,
                                 token_of(r, "nospeech"), best, probabilities, no_speech);
  }
  for (int32_t b = 0; b < n && status == TSR_OK; b++) {
    best[b] = r->languages[best[b]];
  }
  if (status == TSR_OK) {
    compare_languages(recorded, n, r->n_languages, best, probabilities, no_speech, summary);
    summary->passed = summary->different == 0 && summary->score_error <= r->request->score_tolerance;
  }
  free(best);
  free(probabilities);
  free(no_speech);
  return status;
}

/* ---- searches ---------------------------------------------------------------------------------------------------- */

/* What stands behind `key=` in a call; NULL: nothing does. */
static const char *argument_of(const char *call, const char *key)
{
  char pattern[64];
  snprintf(pattern, sizeof pattern, " %s=", key);
  const char *found = strstr(call, pattern);
  return found ? found + strlen(pattern) : NULL;
}

/* The arguments that generation_config.json knows, too, on top of the options. */
static tsr_status read_call(const replay *r, const json_t *entry, const char *call, tsr_generate_options *options)
{
  static const char *const keys[] = {"max_new_tokens", "num_beams", "length_penalty", "early_stopping",
                                     "return_timestamps"};
  const tsr_model *model = tsr_transformer_model(r->transformer);
  json_t *changes = json_object_get(entry, "generation_config_changes");
  json_t *arguments = json_object();
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    const char *value = argument_of(call, keys[i]);
    json_t *json = !value                                       ? NULL
                   : strncmp(value, "True", 4) == 0             ? json_true()
                   : strcspn(value, ".") < strcspn(value, ",)") ? json_real(strtod(value, NULL))
                                                                : json_integer(strtol(value, NULL, 10));
    if (json) {
      json_object_set_new(arguments, keys[i], json);
    }
  }
  json_t *all[] = {changes, arguments};
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < 2 && status == TSR_OK; i++) {
    char *text = all[i] ? json_dumps(all[i], 0) : NULL;
    if (text) {
      status = tsr_generate_parse(model, "golden.json", text, strlen(text), options);
    }
    free(text);
  }
  json_decref(arguments);
  return status;
}

/* Reads quoted words or numbers from a list, or the one that stands there: 'en', ['en', 'zh'], [141, 32]. Returns the
 * end of the one that number `index` is, or of the only one; *word receives its beginning. */
static size_t item_of(const char *text, int32_t index, const char **word)
{
  const int is_list = *text == '[';
  text += is_list;
  const char *end = text + strcspn(text, "]");
  for (int32_t i = 0; i < index && is_list; i++) {
    const char *next = text + strcspn(text, ",");
    if (next >= end) {
      break;
    }
    text = next + 1;
  }
  text += strspn(text, " '");
  *word = text;
  return strcspn(text, ",')]");
}

/* Ids of torch.tensor([141, 32]), from number `first` on. */
static int32_t read_tensor(const char *text, int32_t first, int32_t *ids, int32_t room)
{
  const char *at = strchr(text, '['), *end = at ? strchr(at, ']') : NULL;
  int32_t n = 0;
  for (int32_t i = 0; at && end && at < end; i++, at += strcspn(at, ",]")) {
    const long id = strtol(++at, NULL, 10);
    if (i >= first && n < room) {
      ids[n++] = (int32_t)id;
    }
  }
  return n;
}

/* The prefix of a window, in ids, and the token that the decoder starts from. Returns the number of ids, or -1 if
 * golden.json cannot be understood. */
static int32_t make_prefix(const replay *r, const json_t *entry, const char *call, int32_t window, int32_t timestamps,
                           int32_t *ids, int32_t *start)
{
  const char *language = argument_of(call, "language"), *task = argument_of(call, "task");
  const char *prompt = argument_of(call, "prompt_ids");
  const json_t *forced = json_object_get(json_object_get(entry, "generation_config_changes"), "forced_decoder_ids");
  int32_t n = 0;
  *start = r->config->decoder_start_id;
  if (prompt) {
    read_tensor(prompt, 0, start, 1);
    n = read_tensor(prompt, 1, ids, MOST_PREFIX / 2);
    ids[n++] = r->config->decoder_start_id;
  }
  if (json_is_array(forced)) {
    for (size_t i = 0; i < json_array_size(forced) && i < MOST_PREFIX / 2; i++) {
      ids[n++] = (int32_t)json_integer_value(json_array_get(json_array_get(forced, i), 1));
    }
    return n;
  }
  char code[16] = "";
  if (language) {
    const char *word;
    const size_t size = item_of(language, window, &word);
    snprintf(code, sizeof code, "%.*s", (int)size, word);
  }
  ids[n++] = language ? language_of(r, code) : TSR_DETECTED;
  ids[n++] = token_of(r, task && strncmp(task, "'translate'", 11) == 0 ? "translate" : "transcribe");
  if (!timestamps) {
    ids[n++] = token_of(r, "notimestamps");
  }
  for (int32_t i = 0; i < n; i++) {
    if (ids[i] < 0 && (language || ids[i] != TSR_DETECTED)) {
      return -1;
    }
  }
  return n;
}

/* Log-probabilities of the generated tokens, and the probability that nobody speaks. */
static void compare_logs(const replay *r, const json_t *entry, const tsr_generation *generation,
                         const tsr_details *details, int32_t n_given, tsr_golden_search *summary)
{
  const json_t *recorded = json_object_get(entry, "token_logprobs");
  const json_t *silence = json_object_get(json_object_get(r->fixture->golden, "detect_language"), "no_speech_prob");
  for (int32_t i = 0; recorded && i < generation->n_sentences; i++) {
    const json_t *row = json_array_get(recorded, (size_t)i);
    const float *found = tsr_details_log_probabilities(details, i, 0);
    const int32_t n = generation->hypotheses[i].n_ids - n_given;
    double error = found && json_array_size(row) == (size_t)n ? 0.0 : INFINITY;
    error = fmax(error, error_of(json_array_get(silence, (size_t)i), tsr_details_no_speech(details, i)));
    for (int32_t t = 0; error < INFINITY && t < n; t++) {
      error = fmax(error, error_of(json_array_get(row, (size_t)t), found[n_given + t]));
    }
    summary->score_error = fmax(isnan(summary->score_error) ? 0.0 : summary->score_error, error);
  }
}

/* The same search without what it is asked for beside the tokens: they are to be the same. */
static tsr_status replay_alone(const replay *r, const json_t *entry, const tsr_generate_options *options,
                               tsr_golden_search *summary)
{
  tsr_golden_search found = {.passed = 0};
  tsr_generation generation = {0};
  memcpy(found.name, summary->name, sizeof found.name);
  tsr_status status =
      tsr_generate_features(r->transformer, r->input.n_batch, r->windows, 0, options, NULL, NULL, &generation);
  if (status == TSR_OK) {
    status = golden_compare_search(entry, &generation, options, r->request->score_tolerance, &found);
  }
  if (status == TSR_OK && !found.passed) {
    *summary = found;
  }
  tsr_generation_finish(&generation);
  return status;
}

/* A recorded search, ready to be run. */
typedef struct sought {
  const char *call;
  tsr_generate_options options;
  tsr_details *details;
  int32_t *ids;             /* [B, MOST_PREFIX] */
  int32_t *lengths;         /* [B] */
  const int32_t **prefixes; /* [B] */
  tsr_generation generation;
} sought;

static void finish_search(sought *s)
{
  tsr_generation_finish(&s->generation);
  tsr_details_destroy(s->details);
  free(s->prefixes);
  free(s->lengths);
  free(s->ids);
}

/* name: of the search. finish_search in any case. */
static tsr_status prepare_search(const replay *r, const json_t *entry, const char *name, sought *s)
{
  const tsr_model *model = tsr_transformer_model(r->transformer);
  const size_t n = (size_t)r->input.n_batch;
  *s =
      (sought){.call = json_string_value(json_object_get(entry, "call")), .options = {TSR_SIZED(tsr_generate_options)}};
  tsr_status status = tsr_generate_defaults(model, &s->options);
  if (status == TSR_OK) {
    status = s->call ? read_call(r, entry, s->call, &s->options)
                     : tsr_fail(TSR_ERR_FORMAT, "golden.json: '%s' has no call", name);
  }
  if (status != TSR_OK) {
    return status;
  }
  s->ids = malloc(n * MOST_PREFIX * sizeof *s->ids);
  s->lengths = malloc(n * sizeof *s->lengths);
  s->prefixes = malloc(n * sizeof *s->prefixes);
  status = s->ids && s->lengths && s->prefixes ? tsr_details_create(&s->details) : no_memory();
  for (int32_t b = 0; b < r->input.n_batch && status == TSR_OK; b++) {
    int32_t *own = s->ids + (size_t)b * MOST_PREFIX;
    s->lengths[b] = make_prefix(r, entry, s->call, b, s->options.timestamps, own, &s->options.decoder_start_id);
    s->prefixes[b] = own;
    if (s->lengths[b] < 0) {
      status = tsr_fail(TSR_ERR_FORMAT, "golden.json: '%s': a language or a task of the call is not in the vocabulary",
                        name);
    }
  }
  if (status == TSR_OK) {
    s->options.prefix = s->prefixes;
    s->options.prefix_lengths = s->lengths;
    s->options.details = s->options.beam > 1 ? NULL : s->details;
    s->options.languages = r->languages;
    s->options.n_languages = r->n_languages;
    s->options.no_speech_id = token_of(r, "nospeech");
    s->options.max_length += argument_of(s->call, "max_new_tokens") ? s->lengths[0] : 0; /* they do not count it */
  }
  return status;
}

static tsr_status run_search(const replay *r, const json_t *entry, sought *s, tsr_golden_search *summary)
{
  tsr_status status =
      tsr_generate_features(r->transformer, r->input.n_batch, r->windows, 0, &s->options, NULL, NULL, &s->generation);
  if (status == TSR_OK) {
    golden_resolve(r->config, &s->options);
    status = golden_compare_search(entry, &s->generation, &s->options, r->request->score_tolerance, summary);
  }
  return status;
}

static tsr_status replay_search(const replay *r, const json_t *entry, tsr_golden_search *summary)
{
  const char *name = json_string_value(json_object_get(entry, "name"));
  sought s;
  *summary = (tsr_golden_search){.passed = 0};
  snprintf(summary->name, sizeof summary->name, "%s", name ? name : "(no name)");
  tsr_status status = prepare_search(r, entry, summary->name, &s);
  if (status == TSR_OK) {
    status = run_search(r, entry, &s, summary);
  }
  if (status == TSR_OK && s.options.beam == 1 && !s.options.timestamps && summary->different == 0) {
    tsr_generate_options alone = s.options; /* the device may choose */
    alone.details = NULL;
    status = replay_alone(r, entry, &alone, summary);
  }
  if (status == TSR_OK && s.options.beam == 1) {
    compare_logs(r, entry, &s.generation, s.details, s.lengths[0], summary);
    summary->passed = summary->passed && !(summary->score_error > r->request->score_tolerance);
  }
  finish_search(&s);
  return status;
}

/* ---- times of tokens --------------------------------------------------------------------------------------------- */

/* Of a window's columns, the first ones that the call counts: half of num_frames. */
static int32_t used_columns(const replay *r, const char *call, int32_t window)
{
  const char *frames = argument_of(call, "num_frames"), *word;
  if (!frames) {
    return r->config->source_positions;
  }
  item_of(frames, window, &word);
  return (int32_t)strtol(word, NULL, 10) / 2;
}

static tsr_status compare_times(const replay *r, const json_t *entry, const sought *s, tsr_golden_search *summary)
{
  enum { MEDIAN_WIDTH = 7 };
  const json_t *recorded = json_object_get(entry, "token_timestamps");
  tsr_status status = TSR_OK;
  for (int32_t b = 0; b < r->input.n_batch && status == TSR_OK; b++) {
    const json_t *row = json_array_get(recorded, (size_t)b);
    int32_t n = 0;
    const float *weights = tsr_details_alignment(s->details, b, 0, &n);
    double *times = malloc(((size_t)n + 1) * sizeof *times);
    double error = weights && json_array_size(row) > (size_t)n ? 0.0 : INFINITY;
    status = times ? TSR_OK : no_memory();
    if (status == TSR_OK && weights) {
      status = tsr_speech_token_times(weights, s->options.n_alignment_heads, n, r->config->source_positions,
                                      used_columns(r, s->call, b), MEDIAN_WIDTH, times);
    }
    for (int32_t i = 0; status == TSR_OK && error < INFINITY && i <= n; i++) {
      error = fmax(error, error_of(json_array_get(row, (size_t)i), (float)times[i]));
    }
    if (!(error <= r->request->score_tolerance) && summary->different++ == 0) {
      snprintf(summary->detail, sizeof summary->detail, "window %d: a token's time is off by %.3g s", (int)b, error);
    }
    summary->score_error = fmax(isnan(summary->score_error) ? 0.0 : summary->score_error, error);
    free(times);
  }
  summary->passed = summary->passed && summary->different == 0;
  return status;
}

/* The original takes windows together: one whose text has ended reads ends of text until all have ended, and these are
 * rows of its attention, too. So the recorded sequences are what the decoder reads. */
static tsr_status read_sequences(const replay *r, const json_t *entry, sought *s)
{
  const json_t *sequences = json_object_get(entry, "sequences");
  for (int32_t b = 0; b < r->input.n_batch; b++) {
    const json_t *row = json_array_get(sequences, (size_t)b);
    const size_t n = json_array_size(row);
    if (n < 3 || n > MOST_PREFIX || n != json_array_size(json_array_get(sequences, 0))) {
      return tsr_fail(TSR_ERR_FORMAT, "golden.json: '%s': %zu ids of window %d; expected 3 to %d, as many for each",
                      s->call, n, (int)b, MOST_PREFIX);
    }
    int32_t *own = s->ids + (size_t)b * MOST_PREFIX;
    for (size_t i = 1; i + 1 < n; i++) {
      own[i - 1] = (int32_t)json_integer_value(json_array_get(row, i));
    }
    s->lengths[b] = (int32_t)n - 2; /* the last one is not read */
    s->options.max_length = (int32_t)n;
  }
  tsr_generation_finish(&s->generation);
  s->options.alignment = 1;
  return tsr_generate_features(r->transformer, r->input.n_batch, r->windows, 0, &s->options, NULL, NULL,
                               &s->generation);
}

static tsr_status replay_times(const replay *r, const json_t *entry, tsr_golden_search *summary)
{
  const char *name = json_string_value(json_object_get(entry, "name"));
  sought s;
  *summary = (tsr_golden_search){.passed = 0};
  snprintf(summary->name, sizeof summary->name, "times of %s", name ? name : "(no name)");
  tsr_status status = prepare_search(r, entry, summary->name, &s);
  if (status == TSR_OK) {
    status = run_search(r, entry, &s, summary);
  }
  if (status == TSR_OK && summary->passed) {
    status = read_sequences(r, entry, &s);
  }
  if (status == TSR_OK && summary->passed) {
    status = compare_times(r, entry, &s, summary);
  }
  finish_search(&s);
  return status;
}

static tsr_status replay_all(replay *r, golden_outcome *o)
{
  const json_t *entries = json_object_get(r->fixture->golden, "generate");
  const json_t *times = json_object_get(r->fixture->golden, "token_timestamps");
  tsr_status status = read_all(r);
  o->searches = calloc(json_array_size(entries) + json_array_size(times) + 2, sizeof *o->searches);
  if (status == TSR_OK && !o->searches) {
    status = no_memory();
  }
  if (status == TSR_OK) {
    status = replay_forward(r, o->values);
  }
  if (status == TSR_OK) {
    status = replay_convolutions(r, o->values + 2);
  }
  if (status == TSR_OK) {
    status = replay_layers(r, &o->layers);
  }
  if (status == TSR_OK) {
    status = replay_detection(r, &o->searches[o->n++]);
  }
  for (size_t i = 0; i < json_array_size(entries) && status == TSR_OK; i++) {
    status = replay_search(r, json_array_get(entries, i), &o->searches[o->n++]);
  }
  for (size_t i = 0; i < json_array_size(times) && status == TSR_OK; i++) {
    status = replay_times(r, json_array_get(times, i), &o->searches[o->n++]);
  }
  return status;
}

tsr_status golden_speech(const golden_request *r, tsr_transformer *transformer, const golden_fixture *f,
                         golden_outcome *outcome)
{
  const tsr_transformer_config *config = tsr_model_config(tsr_transformer_model(transformer));
  replay of = {.request = r, .transformer = transformer, .config = config, .fixture = f};
  if (config->mels == 0) {
    return tsr_fail(TSR_ERR_FORMAT, "the recordings are of a model of speech; the model reads text");
  }
  tsr_status status = replay_all(&of, outcome);
  free(of.input.values);
  free(of.target.ids);
  free(of.heard.ids);
  free(of.forced.ids);
  free(of.windows);
  return status;
}
