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
  l->request.language = settings->source_language;
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
    free(l->paths[i]);
  }
  l->n = 0;
}

void listener_finish(listener *l)
{
  clear(l);
  tsr_transcriber_close(l->transcriber);
  tsr_runtime_destroy(l->runtime);
}

/* ---- sounds ------------------------------------------------------------------------------------------------------ */

int listener_add(listener *l, const char *path, size_t size)
{
  const char *slash = size > 0 && path[0] != '/' ? strrchr(l->list, '/') : NULL;
  const size_t length = slash ? (size_t)(slash + 1 - l->list) : 0;
  char *joined = malloc(length + size + 1);
  if (!joined) {
    return tsr_cli_no_memory();
  }
  memcpy(joined, l->list, length);
  if (size > 0) {
    memcpy(joined + length, path, size);
  }
  joined[length + size] = '\0';
  l->paths[l->n++] = joined;
  return TSR_EXIT_OK;
}

/* The texts of all segments, which begin with blanks; line ends become blanks. */
static int tell(const tsr_transcript *t, int32_t sound, listener_take_fn take, void *user)
{
  size_t size = 0;
  for (int32_t i = 0; i < t->n_segments; i++) {
    size += strlen(t->segments[i].text) + 1;
  }
  char *text = malloc(size + 1);
  if (!text) {
    return tsr_cli_no_memory();
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
  const int code = take(user, sound, text, size);
  free(text);
  return code;
}

static int transcribe_group(listener *l, int32_t first, int32_t n, listener_take_fn take, void *user)
{
  const tsr_audio_options options = {TSR_SIZED(tsr_audio_options), .plugins_path = tsr_cli_audio_path()};
  tsr_audio *sounds[GROUP] = {NULL};
  tsr_transcript transcripts[GROUP];
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < n && code == TSR_EXIT_OK; i++) {
    code = tsr_cli_fail_input(tsr_audio_open(l->paths[first + i], &options, &sounds[i]));
  }
  const int is_done =
      code == TSR_EXIT_OK &&
      (code = tsr_cli_fail(tsr_transcribe(l->transcriber, n, sounds, &l->request, transcripts))) == TSR_EXIT_OK;
  for (int32_t i = 0; i < n && is_done; i++) {
    if (code == TSR_EXIT_OK && transcripts[i].status != TSR_OK) {
      tsr_cli_error("%s", transcripts[i].error ? transcripts[i].error : l->paths[first + i]);
      code = tsr_cli_exit_code(transcripts[i].status);
    }
    code = code == TSR_EXIT_OK ? tell(&transcripts[i], first + i, take, user) : code;
    tsr_transcript_finish(&transcripts[i]);
  }
  for (int32_t i = 0; i < n; i++) {
    tsr_audio_close(sounds[i]);
  }
  return code;
}

int listener_transcribe(listener *l, listener_take_fn take, void *user)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < l->n && code == TSR_EXIT_OK; i += GROUP) {
    const int32_t n = l->n - i < GROUP ? l->n - i : GROUP;
    code = transcribe_group(l, i, n, take, user);
    tsr_cli_progress_update(&l->progress, l->done + i + n, 0);
  }
  l->done += l->n;
  clear(l);
  tsr_cli_progress_clear(&l->progress);
  return code;
}
