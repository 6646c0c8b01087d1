/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/translator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/device.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/options.h"

static const tsr_choice long_inputs[] = {
    {"cut", "translate its beginning"},
    {"split", "translate it in parts, which end with a sentence, a clause or a word, and join them"},
    {"error", "leave its line empty, and end with exit code 3"},
    {NULL},
};

_Static_assert(TSR_LONG_CUT == 0 && TSR_LONG_SPLIT == 1 && TSR_LONG_ERROR == 2, "long_inputs");

#define FIELD(member) TSR_FIELD(translator_settings, member)

static const tsr_option rows[N_TRANSLATOR_OPTIONS + 1] = {
    {"device", "D,..", TSR_OPTION_DEVICE, FIELD(devices), .is_list = 1,
     .help = "where to compute: vulkan:0, reference, auto ... (see `tessera devices`); several compute side by side",
     .otherwise = "TESSERA_DEVICE, else auto"},
    {"split", NULL, TSR_OPTION_FLAG, FIELD(split), .low = 1,
     .help =
         "split the model over the devices by their memory, layer by layer, for a model that none of them can hold; "
         "they work one after the other"},
    {"batch", "N", TSR_OPTION_INTEGER, FIELD(batch), 1, 1024, .shows_range = 1, .help = "sentences computed at once",
     .otherwise = "32, and fewer with a wide beam on a CPU"},
    {"workers", "N", TSR_OPTION_INTEGER, FIELD(workers), 1, 1024, .shows_range = 1,
     .help = "batches computed side by side, each on a thread",
     .otherwise = "as many as the device executes side by side, if there are enough sentences"},
    {"precision", "P", TSR_OPTION_PRECISION, FIELD(weights),
     .help = "the type in which the device keeps the weights: f32; f16 or bf16 (a GPU may also round what is "
             "multiplied with them); int8 (a quarter of f32; products are computed in whole numbers); int4 (an eighth; "
             "likewise)",
     .otherwise = "as in the model's file, and nothing is rounded"},
    {"strict", NULL, TSR_OPTION_FLAG, FIELD(strict), .low = 1,
     .help = "fail where the device lacks an operator, instead of computing it on another device"},
    {"long-input", "HOW", TSR_OPTION_CHOICE, FIELD(long_input), .choices = long_inputs, .preset = "cut",
     .help = "what to do with a sentence that has more tokens than the model has positions; a warning on stderr names "
             "its line"},
    {"max-source", "N", TSR_OPTION_INTEGER, FIELD(max_source), 1, INT32_MAX,
     .help = "maximum tokens of a sentence, special tokens included, if the model has more positions or no limit (T5)"},
    {"source-lang", "CODE", TSR_OPTION_LANGUAGE, FIELD(source_language),
     .help = "the language of the text, for multilingual models (mBART, M2M100, NLLB): fra_Latn, fr_XX, fr",
     .otherwise = "what the model's tokenizer_config.json says, else English"},
    {"target-lang", "CODE", TSR_OPTION_LANGUAGE, FIELD(target_language),
     .help = "the language to translate into, for multilingual models (also Marian's); `tessera tokenize MODEL "
             "--languages` lists the codes"},
    {.table = &search_options, .offset = offsetof(translator_settings, search)},
};

const tsr_option_table translator_options = {
    .rows = rows,
    .has_given = 1,
    .given = offsetof(translator_settings, is_given),
};

const char *translator_option_name(int32_t i)
{
  return rows[i].name ? rows[i].name : "";
}

int translator_settings_given(const translator_settings *settings)
{
  return memchr(settings->is_given, 1, sizeof settings->is_given) ||
         memchr(settings->search.is_given, 1, sizeof settings->search.is_given);
}

int translator_settings_one_device(const char *command, const translator_settings *settings)
{
  int32_t n = settings->devices.n;
  return n <= 1 || settings->split
             ? TSR_EXIT_OK
             : tsr_cli_usage(command, "--device: one device is needed, not %d, or --split", (int)n);
}

/* The answers of the last search are not needed any more. */
static void drop_answers(translator *t)
{
  for (int32_t i = 0; i < t->n; i++) {
    tsr_translation_free(t->answers[i]);
    t->answers[i] = NULL;
  }
}

void translator_clear(translator *t)
{
  drop_answers(t);
  for (int32_t i = 0; i < t->n; i++) {
    free((char *)t->requests[i].text);
  }
  t->n = 0;
  t->size = 0;
  t->told = 0;
  t->parts_done += t->parts;
  t->parts = 0;
}

void translator_finish(translator *t)
{
  translator_clear(t);
  tsr_translator_close(t->translator);
  tsr_runtime_destroy(t->runtime);
  tsr_tokenizer_close(t->tokenizer);
  tsr_model_close(t->model);
  search_lists_finish(&t->lists);
}

/* What the model asks for, overridden by what the command line says. */
static int choose_options(translator *t)
{
  const translator_settings *settings = t->settings;
  t->options = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
  tsr_status status = tsr_generate_defaults(t->model, &t->options);
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  t->options.n_best = settings->n_best > 0 ? settings->n_best : 1;
  t->options.scores = settings->scores;
  int code = search_settings_apply(&settings->search, &t->lists, &t->options);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  int32_t positions = tsr_model_config(t->model)->max_positions;
  if (positions > 0 && t->options.max_length > positions) {
    if (settings->search.is_given[SEARCH_MAX_LENGTH] || settings->search.is_given[SEARCH_MAX_NEW]) {
      tsr_cli_warning("a maximum length of %d is more than the model's %d positions; using %d", t->options.max_length,
                      positions, positions);
    }
    t->options.max_length = positions;
  }
  return TSR_EXIT_OK;
}

int translator_choose_languages(tsr_tokenizer *tokenizer, const char *source, const char *target)
{
  tsr_status status = tsr_tokenizer_set_languages(tokenizer, source, target);
  if (status == TSR_ERR_ARGUMENT) {
    tsr_cli_error("%s", tsr_error_message());
    return TSR_EXIT_USAGE;
  }
  return tsr_cli_fail(status);
}

/* 1 if the folder has the decoder start with a language's token (mBART of 25 languages). */
static int starts_with_language(const translator *t)
{
  const char *token = tsr_tokenizer_token(t->tokenizer, 1, tsr_model_config(t->model)->decoder_start_id);
  for (int32_t i = 0; i < tsr_tokenizer_n_languages(t->tokenizer); i++) {
    if (strcmp(token, tsr_tokenizer_language(t->tokenizer, i)) == 0) {
      return 1;
    }
  }
  return 0;
}

/* The target language's token goes to the search, which begins with it or forces it. What the model's folder asks for
 * stands where no language was chosen on the command line. */
static int choose_languages(translator *t)
{
  const translator_settings *settings = t->settings;
  int code = translator_choose_languages(t->tokenizer, settings->source_language, settings->target_language);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  tsr_status status = tsr_tokenizer_get_info(t->tokenizer, &t->text);
  if (status != TSR_OK) {
    return tsr_cli_fail(status);
  }
  if (t->text.forced_bos_id >= 0 && (settings->target_language || t->options.forced_bos_id < 0)) {
    t->options.forced_bos_id = t->text.forced_bos_id;
  }
  if (t->text.decoder_start_id >= 0 && settings->target_language) {
    t->options.decoder_start_id = t->text.decoder_start_id;
  }
  int marks_source = tsr_tokenizer_chosen_language(t->tokenizer, 0) != NULL;
  if (marks_source && !tsr_tokenizer_chosen_language(t->tokenizer, 1) && t->options.forced_bos_id < 0 &&
      !starts_with_language(t)) {
    tsr_cli_warning("%s: a multilingual model, but --target-lang is missing: the model chooses the language",
                    settings->model);
  }
  return TSR_EXIT_OK;
}

/* What the search would refuse is a wrong command line; what the model lacks is told when it is searched. */
static int check_options(const translator *t)
{
  if (t->settings->split && t->settings->devices.n < 2) {
    tsr_cli_error("--split: at least two devices are needed, as in --device vulkan:0,vulkan:1");
    return TSR_EXIT_USAGE;
  }
  tsr_status status = search_settings_check_file(&t->settings->search, tsr_model_folder(t->model), &t->options);
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  status = tsr_generate_check(t->model, &t->options);
  if (status != TSR_ERR_ARGUMENT && status != TSR_ERR_UNSUPPORTED) {
    return search_settings_check(&t->settings->search, &t->options);
  }
  (void)search_settings_fail(status);
  return TSR_EXIT_USAGE;
}

/* Marian 1.12 does not normalise what a decoder of such a model looks back at; here it is as the model was trained. */
static void warn_of_norms(const translator *t)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  if (strcmp(config->family, "marian_npz") == 0 && config->norm_position == TSR_NORM_PRE) {
    tsr_cli_warning(
        "%s: a pre-norm model: it translates as it was trained and scored; marian-decoder leaves out a norm from the "
        "second token on, and translates differently",
        tsr_model_folder(t->model));
  }
}

static void on_progress(void *user, int64_t done, int64_t total)
{
  translator *t = user;
  (void)total; /* of this chunk */
  tsr_cli_progress_update(&t->progress, t->done + done, t->total);
}

static tsr_status create(translator *t)
{
  const translator_settings *settings = t->settings;
  const tsr_translator_options options = {TSR_SIZED(tsr_translator_options),
                                          .n_devices = settings->devices.n,
                                          .devices = settings->devices.values,
                                          .split = settings->split,
                                          .runtime = t->runtime,
                                          .weights = settings->weights,
                                          .strict = settings->strict,
                                          .batch = settings->batch,
                                          .workers = settings->workers,
                                          .static_batches = 1,
                                          .alignment_layer = settings->alignment_layer,
                                          .profile = settings->profile,
                                          .progress = on_progress,
                                          .progress_user = t};
  return tsr_translator_create(t->model, t->tokenizer, &options, &t->translator);
}

int translator_open(translator *t, const translator_settings *settings)
{
  t->settings = settings;
  t->start = tsr_cli_seconds();
  tsr_status status = tsr_model_open(settings->model, &t->model);
  if (status == TSR_OK) {
    status = tsr_model_check_weights(t->model);
  }
  if (status == TSR_OK && tsr_model_config(t->model)->mels > 0) {
    tsr_cli_error("%s is a model of speech: it reads sound, and this command gives it text", settings->model);
    return TSR_EXIT_INPUT;
  }
  if (status == TSR_OK) {
    status = tsr_tokenizer_open(t->model, &t->tokenizer);
  }
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  warn_of_norms(t);
  int code = choose_options(t);
  if (code == TSR_EXIT_OK) {
    code = choose_languages(t);
  }
  if (code == TSR_EXIT_OK) {
    code = check_options(t);
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_runtime(&t->runtime);
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(create(t));
  }
  t->request = (tsr_translation_request){TSR_SIZED(tsr_translation_request), .long_input = settings->long_input,
                                         .max_source = settings->max_source, .number = -1};
  t->loaded = tsr_cli_seconds();
  tsr_cli_progress_start(&t->progress, "sentences");
  return code;
}

int translator_is_full(const translator *t, int32_t most)
{
  enum { LARGEST = 1 << 26 /* bytes: lines may be far longer than what is read of them */ };
  return t->n == most || t->size >= LARGEST;
}

int translator_add(translator *t, const char *file, int64_t line, const char *text, size_t size)
{
  char *copy = malloc(size + 1);
  if (!copy) {
    return tsr_cli_no_memory();
  }
  memcpy(copy, text, size);
  copy[size] = '\0';
  t->file = file;
  t->lines[t->n] = line;
  t->requests[t->n] = t->request;
  t->requests[t->n].text = copy;
  t->requests[t->n].text_size = size;
  t->size += size;
  t->n++;
  return TSR_EXIT_OK;
}

void translator_tell_long(const translator *t, const char *file, int64_t line, const tsr_source *source)
{
  int32_t most = tsr_translator_max_source(t->translator, &t->options, t->settings->max_source);
  const char *least = source->has_more ? "more than " : "";
  if (source->n_tokens <= most) {
    return;
  }
  if (source->n_parts > 1) {
    tsr_cli_warning("%s, line %lld: %s%d tokens, more than %d positions: split into %d parts", file, (long long)line,
                    least, source->n_tokens, most, source->n_parts);
  } else {
    tsr_cli_warning("%s, line %lld: %s%d tokens, cut to %d positions", file, (long long)line, least, source->n_tokens,
                    most);
  }
}

int translator_text(const translator *t, const int32_t *ids, int32_t n_ids, char **text)
{
  int32_t skip = n_ids > 0 && t->text.forced_bos_id >= 0 && ids[0] == t->text.forced_bos_id;
  return tsr_cli_fail(tsr_tokenizer_decode(t->tokenizer, ids + skip, n_ids - skip, text));
}

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

/* 1 if the text of a sentence was refused. */
static int is_refused(const tsr_translation *answer)
{
  return answer->status != TSR_OK && answer->is_about_text && answer->n_parts == 0;
}

static int is_finished(const tsr_translation *answer)
{
  return answer->status == TSR_OK || is_refused(answer);
}

/* Tells, once, which sentences were refused, and which have too many tokens. */
static void tell_sources(translator *t)
{
  for (int32_t i = 0; i < t->n && !t->told; i++) {
    const tsr_translation *answer = t->answers[i];
    if (is_refused(answer)) {
      tsr_cli_error("%s, line %lld: %s", t->file, (long long)t->lines[i], answer->message);
      t->outcome = TSR_EXIT_INPUT;
    }
    const tsr_source source = {
        .n_tokens = answer->n_source_tokens, .n_parts = answer->n_parts, .has_more = answer->has_more_source};
    translator_tell_long(t, t->file, t->lines[i], &source);
  }
  t->told = 1;
}

/* Sentences before the first that is not finished. */
static int32_t count_finished(const translator *t)
{
  int32_t n = 0;
  while (n < t->n && is_finished(t->answers[n])) {
    n++;
  }
  return n;
}

/* Hands over the first n sentences. */
static int hand_over(const translator *t, int32_t n_sentences, translator_receiver receive, void *user)
{
  static char empty[] = "";
  static const tsr_translation_hypothesis nothing = {.text = empty, .score = NAN};
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < n_sentences && code == TSR_EXIT_OK; i++) {
    const tsr_translation *answer = t->answers[i];
    translation result = {.index = i, .n_parts = answer->n_parts, .answer = answer};
    int32_t n = answer->n_hypotheses > 0 ? answer->n_hypotheses : 1; /* of what was refused, nothing */
    for (; result.rank < n && code == TSR_EXIT_OK; result.rank++) {
      result.hypothesis = answer->n_hypotheses > 0 ? answer->hypotheses[result.rank] : &nothing;
      code = receive(user, &result);
    }
  }
  return code;
}

/* Tells why a sentence was not translated, by its line if it is about that, and returns the exit code. */
static int tell_error(const translator *t, int32_t i)
{
  const tsr_translation *answer = t->answers[i];
  return tsr_cli_fail(answer->is_about_text ? tsr_fail(answer->status, "%s, line %lld: %s", t->file,
                                                       (long long)t->lines[i], answer->message)
                                            : tsr_fail(answer->status, "%s", answer->message));
}

/* Tells what is translated of the chunk, and what is not. */
static void tell_failure(const translator *t, int32_t n_finished)
{
  if (t->lines[n_finished] > 1 && !t->drops_failed) {
    tsr_cli_error("%s: the lines up to %lld are translated; line %lld and what follows are not", t->file,
                  (long long)t->lines[n_finished] - 1, (long long)t->lines[n_finished]);
  }
}

/* Not all of the chunk is translated. */
static int fail(const translator *t, int32_t n_finished, translator_receiver receive, void *user)
{
  int32_t first = n_finished; /* whose error is that of the others */
  while (first + 1 < t->n && (is_finished(t->answers[first]) || t->answers[first]->status == TSR_ERR_CANCELLED)) {
    first++;
  }
  int code = tell_error(t, is_finished(t->answers[first]) ? n_finished : first);
  if (hand_over(t, n_finished, receive, user) == TSR_EXIT_OK) {
    tell_failure(t, n_finished);
  }
  return code;
}

int translator_search(translator *t, const tsr_generate_options *options, translator_receiver receive, void *user)
{
  tsr_status status = tsr_generate_check(t->model, options);
  drop_answers(t);
  for (int32_t i = 0; i < t->n; i++) {
    t->requests[i].search = options;
  }
  if (t->n > 0 && t->requests[0].number < 0) {
    t->requests[0].number = t->parts_done;
  }
  if (status == TSR_OK) {
    status = tsr_translator_translate(t->translator, t->n, t->requests, t->answers);
  }
  tsr_cli_progress_clear(&t->progress);
  if (status != TSR_OK) {
    return search_settings_fail(status);
  }
  tell_sources(t);
  t->parts = 0;
  for (int32_t i = 0; i < t->n; i++) {
    t->parts += t->answers[i]->n_parts;
  }
  int32_t n_finished = count_finished(t);
  return n_finished == t->n ? hand_over(t, t->n, receive, user) : fail(t, n_finished, receive, user);
}

int translator_run(translator *t, translator_receiver receive, void *user)
{
  int code = translator_search(t, &t->options, receive, user);
  t->done += t->n;
  translator_clear(t);
  return code;
}

/* ---- beside translating ------------------------------------------------------------------------------------------ */

int translator_use(const translator *t, tsr_translator_use_fn use, void *user)
{
  return tsr_cli_fail(tsr_translator_use(t->translator, 0, use, user));
}

/* A tsr_translator_use_fn. */
static tsr_status print_working(void *user, tsr_transformer *transformer)
{
  int32_t n;
  tsr_device *const *devices = tsr_transformer_devices(transformer, &n);
  (void)user;
  for (int32_t i = 0; i < n; i++) {
    fprintf(stderr, "device     %s (%s)\n", tsr_device_name(devices[i]), tsr_device_get_properties(devices[i])->name);
  }
  return TSR_OK;
}

static int print_device(const translator *t, int32_t index)
{
  tsr_status status = tsr_translator_use(t->translator, index, print_working, NULL);
  if (status == TSR_OK || t->settings->devices.n <= 1) {
    return tsr_cli_fail(status);
  }
  fprintf(stderr, "device     %s (it failed)\n", t->settings->devices.values[index]);
  return TSR_EXIT_OK;
}

int translator_print_timings(const translator *t)
{
  double load = t->loaded - t->start;
  double total = tsr_cli_seconds() - t->loaded;
  tsr_translator_statistics s;
  tsr_translator_measure(t->translator, &s);
  double seconds = total > 0 ? total : 1e-9;
  int code = TSR_EXIT_OK;
  const int32_t n = t->settings->devices.n > 1 && !t->settings->split ? t->settings->devices.n : 1;
  for (int32_t i = 0; i < n && code == TSR_EXIT_OK; i++) {
    code = print_device(t, i);
  }
  fprintf(stderr, "load       %.3f s\n", load);
  fprintf(stderr, "translate  %.3f s: text %.3f s, search %.3f s on %d thread%s\n", total, total - s.search_seconds,
          s.search_seconds, (int)s.search_threads, s.search_threads == 1 ? "" : "s");
  fprintf(stderr, "search     encoder %.3f s in %lld runs, decoder %.3f s in %lld steps%s\n", s.encode_seconds,
          (long long)s.encode_runs, s.step_seconds, (long long)s.step_runs,
          s.search_threads > 1 ? ", summed over the threads" : "");
  fprintf(stderr, "sentences  %lld (%.1f a second)\n", (long long)t->done, (double)t->done / seconds);
  fprintf(stderr, "tokens     %lld read, %lld written (%.1f a second)\n", (long long)s.source_tokens,
          (long long)s.target_tokens, (double)s.target_tokens / seconds);
  return code;
}
