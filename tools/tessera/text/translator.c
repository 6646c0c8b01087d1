/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/translator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/device.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/options/options.h"

static const tsr_choice long_inputs[] = {
    {"cut", "its beginning is translated"},
    {"split", "it is translated in parts, which end with a sentence, a clause or a word, and joined"},
    {"error", "its line stays empty, and the exit code is 3"},
    {NULL},
};

_Static_assert(TSR_LONG_CUT == 0 && TSR_LONG_SPLIT == 1 && TSR_LONG_ERROR == 2, "long_inputs");

#define FIELD(member) TSR_FIELD(translator_settings, member)

static const tsr_option rows[N_TRANSLATOR_OPTIONS + 1] = {
    {"device", "NAME", TSR_OPTION_DEVICE, FIELD(device),
     .help = "where to compute: vulkan:0, reference, auto ... (see `tessera devices`)",
     .otherwise = "TESSERA_DEVICE, else auto"},
    {"batch", "N", TSR_OPTION_INTEGER, FIELD(batch), 1, 1024, .shows_range = 1, .help = "sentences computed at once",
     .otherwise = "32, and fewer with a wide beam on a CPU"},
    {"workers", "N", TSR_OPTION_INTEGER, FIELD(workers), 1, 1024, .shows_range = 1,
     .help = "batches computed side by side, each on a thread",
     .otherwise = "as many as the device executes side by side, if there are sentences enough"},
    {"precision", "P", TSR_OPTION_PRECISION, FIELD(weights),
     .help = "how the weights are kept on the device: f32; f16 or bf16, where a GPU may round what is multiplied with "
             "them as well; or int8, a quarter of f32, with which products are computed in whole numbers",
     .otherwise = "as in the model's file, and nothing else rounded"},
    {"strict", NULL, TSR_OPTION_FLAG, FIELD(strict), .low = 1,
     .help = "fail where the device lacks an operator, instead of computing it on another device"},
    {"long-input", "HOW", TSR_OPTION_CHOICE, FIELD(long_input), .choices = long_inputs, .preset = "cut",
     .help = "what becomes of a sentence with more tokens than the model has positions, told on stderr with its line"},
    {"max-source", "N", TSR_OPTION_INTEGER, FIELD(max_source), 1, INT32_MAX,
     .help = "tokens of a sentence at most, special tokens included, where the model has more positions, or no limit "
             "(T5)"},
    {"source-lang", "CODE", TSR_OPTION_LANGUAGE, FIELD(source_language),
     .help = "the language of the text, for models of many (mBART, M2M100, NLLB): fra_Latn, fr_XX, fr",
     .otherwise = "what the model's tokenizer_config.json says, else English"},
    {"target-lang", "CODE", TSR_OPTION_LANGUAGE, FIELD(target_language),
     .help = "the language to translate into (these, and multilingual Marian models); `tessera tokenize MODEL "
             "--languages` lists the codes"},
    {.table = &search_options, .offset = offsetof(translator_settings, search)},
};

const tsr_option_table translator_options = {
    .rows = rows,
    .has_given = 1,
    .given = offsetof(translator_settings, is_given),
};

int translator_settings_given(const translator_settings *settings)
{
  return memchr(settings->is_given, 1, sizeof settings->is_given) ||
         memchr(settings->search.is_given, 1, sizeof settings->search.is_given);
}

void translator_clear(translator *t)
{
  for (int32_t i = 0; i < t->n; i++) {
    t->parts_done += t->sources[i].n_parts;
    tsr_source_finish(&t->sources[i]);
  }
  t->n = 0;
}

void translator_finish(translator *t)
{
  translator_clear(t);
  tsr_transformer_destroy(t->transformer);
  tsr_device_close(t->device);
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
      tsr_cli_warning("a greatest length of %d is more than the model's %d positions; taking %d", t->options.max_length,
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
    tsr_cli_warning("%s: a model of many languages, and none was chosen with --target-lang: which one it writes is "
                    "left to it",
                    settings->model);
  }
  return TSR_EXIT_OK;
}

/* What the search would refuse is a wrong command line; what the model lacks is told when it is searched. */
static int check_options(const translator *t)
{
  tsr_status status = tsr_generate_check(t->model, &t->options);
  if (status != TSR_ERR_ARGUMENT && status != TSR_ERR_UNSUPPORTED) {
    return search_settings_check(&t->settings->search, &t->options);
  }
  tsr_cli_error("%s", tsr_error_message());
  return TSR_EXIT_USAGE;
}

/* Marian 1.12 does not normalise what a decoder of such a model looks back at; here it is as the model was trained. */
static void warn_of_norms(const translator *t)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  if (strcmp(config->family, "marian_npz") == 0 && config->norm_position == TSR_NORM_PRE) {
    tsr_cli_warning(
        "%s: a pre-norm model: translations are as it was trained and scored; those of marian-decoder, which "
        "leaves out a norm from the second token on, are others",
        tsr_model_folder(t->model));
  }
}

static tsr_transformer_options transformer_options(const translator_settings *settings)
{
  return (tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = settings->weights,
                                   .strict = settings->strict, .workers = settings->workers,
                                   .profile = settings->profile};
}

/* 1 if another device may do what this one could not, and nobody asked for this one. */
static int may_go_on(const translator *t, tsr_status status)
{
  const translator_settings *settings = t->settings;
  const char *name = settings->device ? settings->device : getenv("TESSERA_DEVICE");
  int is_chosen = name && *name && strcmp(name, "auto") != 0;
  int is_device = status == TSR_ERR_DEVICE_LOST || status == TSR_ERR_DEVICE_MEMORY || status == TSR_ERR_PLUGIN;
  return is_device && !is_chosen && !settings->profile && t->n_failed < TRANSLATOR_DEVICES;
}

/* Opens the best device that has not failed, instead of the one that did. The error of that one is the thread's. */
static int open_other(translator *t)
{
  const char *names[TRANSLATOR_DEVICES];
  tsr_cli_progress_clear(&t->progress);
  tsr_cli_warning("%s", tsr_error_message());
  snprintf(t->failed[t->n_failed], sizeof t->failed[0], "%s", tsr_device_name(t->device));
  t->n_failed++;
  for (int32_t i = 0; i < t->n_failed; i++) {
    names[i] = t->failed[i];
  }
  translator_measure(t, &t->earlier);
  tsr_transformer_destroy(t->transformer);
  tsr_device_close(t->device);
  t->transformer = NULL;
  t->device = NULL;
  const tsr_status status = tsr_device_open_other(t->runtime, names, t->n_failed, &t->device);
  if (status == TSR_OK) {
    tsr_cli_warning("going on with %s", tsr_device_name(t->device));
  }
  return tsr_cli_fail(status);
}

/* Loads the model on the device; where that fails meanwhile on another one. */
static int load(translator *t)
{
  const tsr_transformer_options options = transformer_options(t->settings);
  int code = TSR_EXIT_OK;
  for (int is_done = 0; !is_done && code == TSR_EXIT_OK;) {
    const tsr_status status = tsr_transformer_create(t->model, t->device, &options, &t->transformer);
    is_done = status == TSR_OK || !may_go_on(t, status);
    code = is_done ? tsr_cli_fail(status) : open_other(t);
  }
  return code;
}

static int change_device(translator *t)
{
  const int code = open_other(t);
  return code == TSR_EXIT_OK ? load(t) : code;
}

int translator_open(translator *t, const translator_settings *settings)
{
  t->settings = settings;
  t->start = tsr_cli_seconds();
  tsr_status status = tsr_model_open(settings->model, &t->model);
  if (status == TSR_OK && !tsr_model_has_weights(t->model)) {
    status = tsr_fail(TSR_ERR_IO,
                      "%s: there are no weights in this folder: neither model.safetensors nor pytorch_model.bin, nor "
                      "an index of parts of "
                      "one",
                      settings->model);
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
    code = tsr_cli_device(t->runtime, settings->device, &t->device);
  }
  if (code == TSR_EXIT_OK) {
    code = load(t);
  }
  t->loaded = tsr_cli_seconds();
  tsr_cli_progress_start(&t->progress, "sentences");
  return code;
}

/* The most tokens of a source. */
static int32_t most_tokens(const translator *t)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  int32_t positions = config->max_positions, wanted = t->settings->max_source;
  positions = positions > 0 ? positions : INT32_MAX;
  if (config->encoder_layers == 0) { /* what a decoder alone goes on from is part of its output */
    positions = t->options.max_length > 2 ? t->options.max_length - 2 : 1;
  }
  return wanted > 0 && wanted < positions ? wanted : positions;
}

/* Tells what became of a source with too many tokens. */
static void tell_long(const char *file, int64_t line, const tsr_source *source, int32_t most)
{
  const char *least = source->has_more ? "more than " : "";
  if (source->n_parts > 1) {
    tsr_cli_warning("%s, line %lld: %s%d tokens, more than %d positions: split into %d parts", file, (long long)line,
                    least, source->n_tokens, most, source->n_parts);
  } else {
    tsr_cli_warning("%s, line %lld: %s%d tokens, cut to %d positions", file, (long long)line, least, source->n_tokens,
                    most);
  }
}

int translator_add(translator *t, const char *file, int64_t line, const char *text, size_t size)
{
  t->file = file;
  t->lines[t->n] = line;
  int32_t most = most_tokens(t);
  tsr_source *source = &t->sources[t->n];
  tsr_status status = tsr_source_prepare(t->tokenizer, text, size, most, t->settings->long_input, source);
  if (status != TSR_OK || source->n_tokens > most) {
    tsr_cli_progress_clear(&t->progress);
  }
  if (status == TSR_ERR_OUT_OF_MEMORY) {
    return tsr_cli_fail(status);
  }
  if (status != TSR_OK) {
    (void)tsr_cli_fail(tsr_fail_context(status, "%s, line %lld", file, (long long)line));
    t->outcome = TSR_EXIT_INPUT;
  } else if (source->n_tokens > most) {
    tell_long(file, line, source, most);
  }
  t->n++;
  return TSR_EXIT_OK;
}

static void on_progress(void *user, int64_t done, int64_t total)
{
  translator *t = user;
  (void)total; /* of this chunk; how much is still to come is not known */
  tsr_cli_progress_update(&t->progress, t->done + done, 0);
}

/* What a search found, and the sources that it read: [n_parts], those of a sentence in a row. */
typedef struct found {
  const tsr_generate_options *options;
  int32_t n_parts;
  const int32_t **ids;
  int32_t *n_ids;
  tsr_generation generation;
} found;

/* With a forced last token, an output that was cut ends with it. */
static int is_cut(const translator *t, const found *f, const tsr_hypothesis *hypothesis)
{
  const tsr_generate_options *options = f->options;
  int32_t n = hypothesis->n_ids;
  int ended = options->n_eos == 0 && n > 0 && hypothesis->ids[n - 1] == tsr_model_config(t->model)->eos_id;
  for (int32_t i = 0; i < options->n_eos && n > 0; i++) {
    ended |= hypothesis->ids[n - 1] == options->eos[i];
  }
  int forced = options->forced_eos_id >= 0 && n + 1 >= options->max_length;
  return n > 0 && (forced || !ended);
}

int translator_text(const translator *t, const int32_t *ids, int32_t n_ids, char **text)
{
  int32_t skip = n_ids > 0 && t->text.forced_bos_id >= 0 && ids[0] == t->text.forced_bos_id;
  return tsr_cli_fail(tsr_tokenizer_decode(t->tokenizer, ids + skip, n_ids - skip, text));
}

/* Appends the text of a part's hypothesis, after a blank if it is not the first; *text is the caller's. */
static int append_text(const translator *t, int32_t index, int32_t part, const tsr_hypothesis *hypothesis, char **text)
{
  char *more = NULL;
  int code = t->write ? t->write(t->write_user, t, index, part, hypothesis, &more)
                      : translator_text(t, hypothesis->ids, hypothesis->n_ids, &more);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (!*text) {
    *text = more;
    return TSR_EXIT_OK;
  }
  size_t size = strlen(*text), n_more = strlen(more);
  char *both = realloc(*text, size + n_more + 2);
  if (both) {
    both[size] = ' ';
    memcpy(both + size + 1, more, n_more + 1);
    *text = both;
  }
  tsr_free(more);
  return both ? TSR_EXIT_OK : tsr_cli_no_memory();
}

/* Makes one hypothesis of those of a sentence's parts, [n] with n_best between them. Its ids are the caller's. */
static int join(const tsr_hypothesis *parts, int32_t n, int32_t n_best, tsr_hypothesis *all)
{
  size_t room = 1;
  double score = 0.0;
  for (int32_t i = 0; i < n; i++) {
    const tsr_hypothesis *part = &parts[(int64_t)i * n_best];
    room += (size_t)part->n_ids;
    score += (double)part->score * part->n_ids;
  }
  *all = (tsr_hypothesis){.ids = malloc(room * sizeof *all->ids), .score = (float)(score / fmax((double)room - 1, 1))};
  if (!all->ids) {
    return tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < n; i++) {
    const tsr_hypothesis *part = &parts[(int64_t)i * n_best];
    if (part->n_ids > 0) {
      memcpy(all->ids + all->n_ids, part->ids, (size_t)part->n_ids * sizeof *all->ids);
    }
    all->n_ids += part->n_ids;
  }
  return TSR_EXIT_OK;
}

/* Hands over one hypothesis of a sentence, whose parts begin with part `first`. */
static int hand_over_one(const translator *t, const found *f, int32_t index, int32_t first, int32_t rank,
                         translator_receiver receive, void *user)
{
  static const tsr_hypothesis nothing = {.score = NAN};
  int32_t n = t->sources[index].n_parts, n_best = f->generation.n_best;
  const tsr_hypothesis *parts = &f->generation.hypotheses[(int64_t)first * n_best + rank];
  translation result = {.index = index, .rank = rank, .n_parts = n, .text = "", .hypothesis = n > 0 ? parts : &nothing};
  tsr_hypothesis joined = {0};
  char *text = NULL;
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < n && code == TSR_EXIT_OK; i++) {
    result.is_cut |= is_cut(t, f, &parts[(int64_t)i * n_best]);
    code = append_text(t, index, i, &parts[(int64_t)i * n_best], &text);
  }
  if (code == TSR_EXIT_OK && n > 1) {
    code = join(parts, n, n_best, &joined);
    result.hypothesis = &joined;
  }
  if (code == TSR_EXIT_OK) {
    result.text = text ? text : "";
    code = receive(user, &result);
  }
  free(joined.ids);
  tsr_free(text);
  return code;
}

/* Sentences before the first that is not finished. */
static int32_t count_finished(const translator *t, const found *f)
{
  for (int32_t i = 0, part = 0; i < t->n; i++) {
    for (int32_t k = 0; k < t->sources[i].n_parts; k++, part++) {
      if (!f->generation.hypotheses || f->generation.hypotheses[(int64_t)part * f->generation.n_best].n_ids < 0) {
        return i;
      }
    }
  }
  return t->n;
}

/* Hands over the first n sentences. */
static int hand_over(const translator *t, const found *f, int32_t n_sentences, translator_receiver receive, void *user)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0, first = 0; i < n_sentences && code == TSR_EXIT_OK; i++) {
    int32_t n = t->sources[i].n_parts > 0 ? f->generation.n_best : 1; /* of nothing, one is enough */
    for (int32_t rank = 0; rank < n && code == TSR_EXIT_OK; rank++) {
      code = hand_over_one(t, f, i, first, rank, receive, user);
    }
    first += t->sources[i].n_parts;
  }
  return code;
}

/* 1 if a source ends as sentences do where a decoder alone is to go on from it. */
static int32_t is_closed(const translator *t, const tsr_source *source, int32_t part)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  int32_t n = source->n_ids[part];
  return config->encoder_layers == 0 && n > 1 && source->ids[part][n - 1] == config->eos_id;
}

/* Lists the parts of all sentences. */
static int list_parts(const translator *t, found *f)
{
  size_t room = 1;
  for (int32_t i = 0; i < t->n; i++) {
    room += (size_t)t->sources[i].n_parts;
  }
  f->ids = malloc(room * sizeof *f->ids);
  f->n_ids = malloc(room * sizeof *f->n_ids);
  if (!f->ids || !f->n_ids) {
    return tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < t->n; i++) {
    for (int32_t k = 0; k < t->sources[i].n_parts; k++) {
      f->ids[f->n_parts] = t->sources[i].ids[k];
      f->n_ids[f->n_parts++] = t->sources[i].n_ids[k] - is_closed(t, &t->sources[i], k);
    }
  }
  return TSR_EXIT_OK;
}

/* ---- devices that fail ------------------------------------------------------------------------------------------- */

static void add_statistics(tsr_generate_statistics *sum, const tsr_generate_statistics *more)
{
  sum->sentences += more->sentences;
  sum->source_tokens += more->source_tokens;
  sum->target_tokens += more->target_tokens;
  sum->encode_runs += more->encode_runs;
  sum->step_runs += more->step_runs;
  sum->encode_seconds += more->encode_seconds;
  sum->step_seconds += more->step_seconds;
  sum->seconds += more->seconds;
}

void translator_measure(const translator *t, tsr_generate_statistics *statistics)
{
  *statistics = (tsr_generate_statistics){0};
  if (t->transformer) {
    tsr_generate_measure(t->transformer, statistics);
  }
  add_statistics(statistics, &t->earlier);
}

/* Takes from a search what an earlier one, which failed, had not finished. */
static void complete(tsr_generation *first, tsr_generation *second)
{
  for (int64_t i = 0; first->hypotheses && i < (int64_t)first->n_sentences * first->n_best; i++) {
    if (first->hypotheses[i].n_ids >= 0) { /* and the second has nothing: the sentence was left out */
      const tsr_hypothesis nothing = second->hypotheses[i];
      second->hypotheses[i] = first->hypotheses[i];
      first->hypotheses[i] = nothing;
    }
  }
  tsr_generation_finish(first);
  *first = *second;
}

/* Leaves out what is finished: an empty sentence costs nothing, and the others keep their numbers. */
static void leave_out_finished(found *f)
{
  for (int32_t i = 0; f->generation.hypotheses && i < f->n_parts; i++) {
    if (f->generation.hypotheses[(int64_t)i * f->generation.n_best].n_ids >= 0) {
      f->n_ids[i] = 0;
    }
  }
}

/* Calls the sentence that an error is about by its line. */
static tsr_status name_line(const translator *t, tsr_status status)
{
  const char *message;
  int64_t part = tsr_error_sentence(&message);
  if (status == TSR_OK || part < 0) {
    return status;
  }
  int32_t i = 0;
  while (i + 1 < t->n && part >= t->sources[i].n_parts) {
    part -= t->sources[i++].n_parts;
  }
  return tsr_fail(status, "%s, line %lld: %s", t->file, (long long)t->lines[i], message);
}

/* Searches until all is found, on one device after the other. */
static int search(translator *t, const tsr_generate_options *options, found *f)
{
  int code = TSR_EXIT_OK;
  for (int is_done = 0; !is_done && code == TSR_EXIT_OK;) {
    tsr_generation generation = {0};
    tsr_status status = tsr_generate(t->transformer, f->n_parts, f->ids, f->n_ids, t->settings->batch, options,
                                     on_progress, t, &generation);
    if (generation.hypotheses) {
      complete(&f->generation, &generation);
    }
    is_done = status == TSR_OK || !may_go_on(t, status);
    code = is_done ? tsr_cli_fail(name_line(t, status)) : change_device(t);
    if (!is_done && code == TSR_EXIT_OK) {
      leave_out_finished(f);
      if (t->restart) {
        t->restart(t->restart_user);
      }
    }
  }
  return code;
}

/* Tells what is translated of the chunk, and what is not. */
static void tell_failure(const translator *t, int32_t n_finished)
{
  if (t->lines[n_finished] > 1) {
    tsr_cli_error("%s: the lines up to %lld are translated; line %lld and what follows are not", t->file,
                  (long long)t->lines[n_finished] - 1, (long long)t->lines[n_finished]);
  }
}

int translator_search(translator *t, const tsr_generate_options *options, translator_receiver receive, void *user)
{
  tsr_generate_options numbered = *options;
  found f = {.options = &numbered};
  numbered.first_sentence = t->parts_done;
  numbered.partial = 1;
  int code = list_parts(t, &f);
  if (code == TSR_EXIT_OK) {
    code = search(t, &numbered, &f);
  }
  tsr_cli_progress_clear(&t->progress);
  if (code == TSR_EXIT_OK) {
    code = hand_over(t, &f, t->n, receive, user);
  } else if (f.generation.hypotheses) {
    int32_t n_finished = count_finished(t, &f);
    int handed_over = hand_over(t, &f, n_finished, receive, user);
    if (handed_over == TSR_EXIT_OK) {
      tell_failure(t, n_finished);
    }
  }
  tsr_generation_finish(&f.generation);
  free(f.ids);
  free(f.n_ids);
  return code;
}

int translator_run(translator *t, translator_receiver receive, void *user)
{
  int code = translator_search(t, &t->options, receive, user);
  t->done += t->n;
  translator_clear(t);
  return code;
}

void translator_print_timings(const translator *t)
{
  double load = t->loaded - t->start;
  double total = tsr_cli_seconds() - t->loaded;
  tsr_generate_statistics s;
  translator_measure(t, &s);
  double seconds = total > 0 ? total : 1e-9;
  fprintf(stderr, "device     %s (%s)\n", tsr_device_name(t->device), tsr_device_get_properties(t->device)->name);
  fprintf(stderr, "load       %.3f s\n", load);
  fprintf(stderr, "translate  %.3f s: text %.3f s, search %.3f s on %d thread%s\n", total, total - s.seconds, s.seconds,
          (int)s.workers, s.workers == 1 ? "" : "s");
  fprintf(stderr, "search     encoder %.3f s in %lld runs, decoder %.3f s in %lld steps%s\n", s.encode_seconds,
          (long long)s.encode_runs, s.step_seconds, (long long)s.step_runs,
          s.workers > 1 ? ", summed over the threads" : "");
  fprintf(stderr, "sentences  %lld (%.1f a second)\n", (long long)t->done, (double)t->done / seconds);
  fprintf(stderr, "tokens     %lld read, %lld written (%.1f a second)\n", (long long)s.source_tokens,
          (long long)s.target_tokens, (double)s.target_tokens / seconds);
}
