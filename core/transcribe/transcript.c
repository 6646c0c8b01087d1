/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/transcribe/transcribe.h"

static const double frame = 0.01; /* seconds */

void tsr_transcript_fail(tsr_transcript *transcript, tsr_status status)
{
  transcript->status = status;
  transcript->error = strdup(tsr_error_message());
}

void tsr_transcript_finish(tsr_transcript *transcript)
{
  if (!transcript) {
    return;
  }
  for (int32_t i = 0; i < transcript->n_segments; i++) {
    free((char *)transcript->segments[i].text);
    free((int32_t *)transcript->segments[i].tokens);
    tsr_free(transcript->segments[i].words);
  }
  free(transcript->segments);
  free(transcript->error);
  *transcript = (tsr_transcript){0};
}

tsr_status tsr_window_keep(tsr_window *window, const int32_t *tokens, int32_t n_tokens)
{
  int32_t *copy = malloc(((size_t)n_tokens + 1) * sizeof *copy);
  if (!copy) {
    return tsr_fail_memory(((size_t)n_tokens + 1) * sizeof *copy);
  }
  if (n_tokens > 0) {
    memcpy(copy, tokens, (size_t)n_tokens * sizeof *copy);
  }
  free(window->tokens);
  window->tokens = copy;
  window->n_tokens = n_tokens;
  return TSR_OK;
}

/* Room for one more of `size` bytes; *items may move. */
static tsr_status grow(void *items, int32_t n, int32_t *room, size_t size)
{
  void **place = items;
  if (n < *room) {
    return TSR_OK;
  }
  const int32_t more = *room > 0 ? 2 * *room : 16;
  void *moved = realloc(*place, (size_t)more * size);
  if (!moved) {
    return tsr_fail_memory((size_t)more * size);
  }
  *place = moved;
  *room = more;
  return TSR_OK;
}

/* The words of a segment that was added last. */
static tsr_status add_words(const tsr_transcriber *t, const tsr_window *window, const tsr_speech_segment *found)
{
  const tsr_sound *sound = window->sound;
  tsr_segment *segment = &sound->transcript->segments[sound->transcript->n_segments - 1];
  const char *language = sound->language >= 0 ? tsr_tokenizer_language(t->tokenizer, sound->language) : NULL;
  const float *probabilities = window->probabilities ? window->probabilities + found->first : NULL;
  TSR_TRY(tsr_speech_words(t->tokenizer, language, segment->tokens, segment->n_tokens, window->times + found->first,
                           probabilities, &segment->words, &segment->n_words));
  for (int32_t i = 0; i < segment->n_words; i++) {
    segment->words[i].start += segment->window;
    segment->words[i].end += segment->window;
  }
  return TSR_OK;
}

static tsr_status add_segment(const tsr_transcriber *t, const tsr_window *window, const tsr_speech_segment *found)
{
  tsr_sound *sound = window->sound;
  tsr_transcript *transcript = sound->transcript;
  const int32_t *tokens = window->tokens + found->first;
  const int32_t n_kept = tsr_speech_segment_kept(tokens, found->n_tokens, t->tokens.timestamp_begin);
  TSR_TRY(grow(&transcript->segments, transcript->n_segments, &sound->room_of_segments, sizeof *transcript->segments));
  int32_t *copy = malloc(((size_t)found->n_tokens + 1) * sizeof *copy);
  char *text = NULL;
  tsr_status status =
      copy ? tsr_speech_decode(t->tokenizer, tokens, found->n_tokens, 0, t->config.source_positions, &text)
           : tsr_fail_memory(((size_t)found->n_tokens + 1) * sizeof *copy);
  char *own = status == TSR_OK ? strdup(text) : NULL;
  tsr_free(text);
  for (int32_t i = 0; status == TSR_OK && i < n_kept; i++) {
    status = grow(&sound->previous, sound->n_previous, &sound->room, sizeof *sound->previous);
    if (status == TSR_OK) {
      sound->previous[sound->n_previous++] = tokens[i];
    }
  }
  if (status != TSR_OK || !own) {
    free(copy);
    free(own);
    return status != TSR_OK ? status : tsr_fail_memory(1);
  }
  memcpy(copy, tokens, (size_t)found->n_tokens * sizeof *copy);
  transcript->segments[transcript->n_segments++] =
      (tsr_segment){.start = found->start,
                    .end = found->end,
                    .text = own,
                    .tokens = copy,
                    .n_tokens = found->n_tokens,
                    .temperature = window->temperature,
                    .window = (double)sound->seek * frame,
                    .average_logprob = (float)window->measures.average_logprob,
                    .compression_ratio = (float)window->measures.compression_ratio,
                    .no_speech = (float)window->measures.no_speech};
  return window->times ? add_words(t, window, found) : TSR_OK;
}

tsr_status tsr_window_tell(const tsr_transcriber *t, const tsr_window *window, int32_t *first)
{
  tsr_sound *sound = window->sound;
  tsr_speech_segment *found = malloc(((size_t)window->n_tokens + 1) * sizeof *found);
  int32_t n = 0;
  int64_t advance = window->frames;
  *first = sound->transcript->n_segments;
  if (!found) {
    return tsr_fail_memory(((size_t)window->n_tokens + 1) * sizeof *found);
  }
  tsr_status status = TSR_OK;
  if (window->verdict != TSR_SPEECH_SKIP) {
    status = tsr_speech_segments(window->tokens, window->n_tokens, t->tokens.timestamp_begin, sound->seek,
                                 window->frames, found, &n, &advance);
  }
  for (int32_t i = 0; status == TSR_OK && i < n; i++) {
    status = add_segment(t, window, &found[i]);
  }
  free(found);
  if (status == TSR_OK) {
    sound->seek += advance;
  }
  return status;
}
