/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/commands/eval_speech.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/device.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"

enum { GROUP = 32 /* sounds that are open at once */ };

/* A sound of a chunk. */
typedef struct listener_sound {
  char *path;
  const char *language; /* of the tokenizer or the command line; NULL: its first window tells */
  int32_t task;         /* TSR_SPEECH_* */
  char *text;           /* what was heard in it; NULL: it is still to be heard */
} listener_sound;

int listener_hears(const char *folder, int *hears)
{
  tsr_model *model = NULL;
  const int code = tsr_cli_fail_input(tsr_model_open(folder, &model));
  *hears = code == TSR_EXIT_OK && tsr_model_config(model)->mels > 0;
  tsr_model_close(model);
  return code;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int check(const translator_settings *settings)
{
  static const char *const known[] = {"device", "batch", "precision", "strict", "source-lang"};
  for (int32_t i = 0; i < N_TRANSLATOR_OPTIONS; i++) {
    int fits = !settings->is_given[i];
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
      fits |= strcmp(translator_option_name(i), known[k]) == 0;
    }
    if (!fits) {
      return tsr_cli_usage("eval", "--%s is for text; the model hears sounds", translator_option_name(i));
    }
  }
  for (int32_t i = 0; i < N_SEARCH_OPTIONS; i++) {
    if (settings->search.is_given[i] && i != SEARCH_BEAM) {
      return tsr_cli_usage("eval", "of the options of a search only --beam is for sounds");
    }
  }
  return translator_settings_one_device("eval", settings);
}

/* Windows without timestamps, each for itself, and one search of each. */
static int make_request(listener *l, const translator_settings *settings)
{
  l->search = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
  l->request = (tsr_transcribe_options){TSR_SIZED(tsr_transcribe_options)};
  int code = tsr_cli_fail_input(tsr_generate_defaults(tsr_transcriber_model(l->transcriber), &l->search));
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_transcribe_defaults(&l->request));
  }
  if (settings->search.is_given[SEARCH_BEAM]) {
    l->search.beam = settings->search.given.beam;
  }
  l->otherwise = settings->source_language;
  l->request.timestamps = 0;
  l->request.condition_on_previous = 0;
  l->request.n_temperatures = 1;
  l->request.compression_ratio_limit = l->request.average_logprob_limit = l->request.no_speech_limit = NAN;
  l->request.search = &l->search;
  return code;
}

int listener_open(listener *l, const translator_settings *settings, const char *list)
{
  int code = check(settings);
  l->list = list;
  l->sounds = calloc(TRANSLATOR_CHUNK, sizeof *l->sounds);
  if (!l->sounds) {
    return tsr_cli_no_memory();
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_runtime(&l->runtime);
  }
  if (code != TSR_EXIT_OK) {
    return code;
  }
  const tsr_transcriber_options options = {TSR_SIZED(tsr_transcriber_options),
                                           .weights = settings->weights,
                                           .device = settings->devices.n > 0 ? settings->devices.values[0] : NULL,
                                           .runtime = l->runtime,
                                           .strict = settings->strict,
                                           .batch = settings->batch};
  code = tsr_cli_fail_input(tsr_transcriber_open(settings->model, &options, &l->transcriber));
  tsr_cli_progress_start(&l->progress, "transcribing");
  return code == TSR_EXIT_OK ? make_request(l, settings) : code;
}

static void clear(listener *l)
{
  for (int32_t i = 0; i < l->n; i++) {
    free(l->sounds[i].path);
    free(l->sounds[i].text);
    l->sounds[i] = (listener_sound){0};
  }
  l->n = 0;
}

void listener_finish(listener *l)
{
  clear(l);
  free(l->sounds);
  tsr_transcriber_close(l->transcriber);
  tsr_runtime_destroy(l->runtime);
}

/* ---- sounds ------------------------------------------------------------------------------------------------------ */

/* The path, relative to the list's folder. NULL without memory. */
static char *join_path(const listener *l, const char *path, size_t size)
{
  const char *slash = size > 0 && path[0] != '/' ? strrchr(l->list, '/') : NULL;
  const size_t length = slash ? (size_t)(slash + 1 - l->list) : 0;
  char *joined = malloc(length + size + 1);
  if (!joined) {
    return NULL;
  }
  memcpy(joined, l->list, length);
  if (size > 0) {
    memcpy(joined + length, path, size);
  }
  joined[length + size] = '\0';
  return joined;
}

enum { COLUMN_ROOM = 64 };

/* A column as text, cut to its room. */
static void read_column(const tsr_corpus *corpus, int32_t column, char text[COLUMN_ROOM])
{
  const char *bytes;
  size_t size;
  tsr_corpus_column(corpus, column, &bytes, &size);
  snprintf(text, COLUMN_ROOM, "%.*s", (int)(size < COLUMN_ROOM ? size : COLUMN_ROOM - 1), bytes);
}

/* What the list's columns say of a sound. */
static int read_columns(const listener *l, const tsr_corpus *corpus, int64_t number, listener_sound *sound)
{
  const tsr_tokenizer *tokenizer = tsr_transcriber_tokenizer(l->transcriber);
  char language[COLUMN_ROOM], task[COLUMN_ROOM];
  int32_t index;
  read_column(corpus, 3, language);
  read_column(corpus, 4, task);
  if (language[0] && tsr_speech_find_language(tokenizer, language, &index) != TSR_OK) {
    tsr_cli_error("%s, pair %lld: %s", l->list, (long long)number, tsr_error_message());
    return TSR_EXIT_INPUT;
  }
  sound->language = language[0] ? tsr_tokenizer_language(tokenizer, index) : l->otherwise;
  const int is_translation = strcmp(task, "translate") == 0;
  if (task[0] && !is_translation && strcmp(task, "transcribe") != 0) {
    tsr_cli_error("%s, pair %lld: there is no task '%s': expected transcribe or translate", l->list, (long long)number,
                  task);
    return TSR_EXIT_INPUT;
  }
  sound->task = is_translation ? TSR_SPEECH_TRANSLATE : TSR_SPEECH_TRANSCRIBE;
  return TSR_EXIT_OK;
}

int listener_add(listener *l, const tsr_corpus *corpus, const tsr_corpus_pair *pair)
{
  listener_sound *sound = &l->sounds[l->n++];
  sound->path = join_path(l, pair->source, pair->source_size);
  return sound->path ? read_columns(l, corpus, pair->number, sound) : tsr_cli_no_memory();
}

/* The texts of all segments, which begin with blanks; line ends become blanks. NULL without memory. */
static char *text_of(const tsr_transcript *t)
{
  size_t size = 0;
  for (int32_t i = 0; i < t->n_segments; i++) {
    size += strlen(t->segments[i].text) + 1;
  }
  char *text = malloc(size + 1);
  if (!text) {
    return NULL;
  }
  size = 0;
  for (int32_t i = 0; i < t->n_segments; i++) {
    const char *segment = t->segments[i].text + (size == 0 && t->segments[i].text[0] == ' ');
    memcpy(text + size, segment, strlen(segment));
    size += strlen(segment);
  }
  for (size_t i = 0; i < size; i++) {
    text[i] = text[i] == '\n' || text[i] == '\r' || text[i] == '\t' ? ' ' : text[i];
  }
  text[size] = '\0';
  return text;
}

/* Sounds of one language and one task. */
static int transcribe_group(listener *l, listener_sound *const *group, int32_t n)
{
  const tsr_audio_options options = {TSR_SIZED(tsr_audio_options), .plugins_path = tsr_cli_audio_path()};
  tsr_audio *sounds[GROUP] = {NULL};
  tsr_transcript transcripts[GROUP];
  int code = TSR_EXIT_OK;
  l->request.language = group[0]->language;
  l->request.task = group[0]->task;
  for (int32_t i = 0; i < n && code == TSR_EXIT_OK; i++) {
    code = tsr_cli_fail_input(tsr_audio_open(group[i]->path, &options, &sounds[i]));
  }
  const int is_done =
      code == TSR_EXIT_OK &&
      (code = tsr_cli_fail(tsr_transcribe(l->transcriber, n, sounds, &l->request, transcripts))) == TSR_EXIT_OK;
  for (int32_t i = 0; i < n && is_done; i++) {
    if (code == TSR_EXIT_OK && transcripts[i].status != TSR_OK) {
      tsr_cli_error("%s", transcripts[i].error ? transcripts[i].error : group[i]->path);
      code = tsr_cli_exit_code(transcripts[i].status);
    }
    group[i]->text = text_of(&transcripts[i]);
    code = code == TSR_EXIT_OK && !group[i]->text ? tsr_cli_no_memory() : code;
    tsr_transcript_finish(&transcripts[i]);
  }
  for (int32_t i = 0; i < n; i++) {
    tsr_audio_close(sounds[i]);
  }
  return code;
}

static int is_alike(const listener_sound *a, const listener_sound *b)
{
  const int is_named = a->language && b->language;
  return a->task == b->task && (is_named ? strcmp(a->language, b->language) == 0 : a->language == b->language);
}

/* A sound, and those behind it that are still to be heard and are of its language and its task, some at most. */
static int32_t gather(listener *l, int32_t first, listener_sound *group[GROUP])
{
  int32_t n = 1;
  group[0] = &l->sounds[first];
  for (int32_t i = first + 1; i < l->n && n < GROUP; i++) {
    if (!l->sounds[i].text && is_alike(&l->sounds[i], &l->sounds[first])) {
      group[n++] = &l->sounds[i];
    }
  }
  return n;
}

int listener_transcribe(listener *l, listener_take_fn take, void *user)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < l->n && code == TSR_EXIT_OK; i++) {
    if (!l->sounds[i].text) {
      listener_sound *group[GROUP];
      const int32_t n = gather(l, i, group);
      code = transcribe_group(l, group, n);
      l->done += n;
      tsr_cli_progress_update(&l->progress, l->done, 0);
    }
  }
  for (int32_t i = 0; i < l->n && code == TSR_EXIT_OK; i++) {
    code = take(user, i, l->sounds[i].text, strlen(l->sounds[i].text));
  }
  clear(l);
  tsr_cli_progress_clear(&l->progress);
  return code;
}
