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
    tsr_free((char *)transcript->segments[i].text);
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

/* Room for `more` items of `size` bytes behind n; NULL: memory ran out, and the items are as they were. */
static void *grow(void *items, int32_t n, int32_t more, int32_t *room, size_t size)
{
  int32_t wanted = *room > 0 ? *room : 16;
  while (wanted - n < more) {
    wanted *= 2;
  }
  void *moved = wanted > *room ? realloc(items, (size_t)wanted * size) : items;
  *room = moved ? wanted : *room;
  return moved;
}

/* What the windows behind this one are told. */
static tsr_status remember(tsr_sound *sound, const int32_t *tokens, int32_t n)
{
  int32_t *previous = grow(sound->previous, sound->n_previous, n, &sound->room, sizeof *previous);
  if (!previous) {
    return tsr_fail_memory((size_t)n * sizeof *previous);
  }
  sound->previous = previous;
  memcpy(previous + sound->n_previous, tokens, (size_t)n * sizeof *previous);
  sound->n_previous += n;
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
  tsr_segment *segments =
      grow(transcript->segments, transcript->n_segments, 1, &sound->room_of_segments, sizeof *segments);
  int32_t *copy = malloc(((size_t)found->n_tokens + 1) * sizeof *copy);
  char *text = NULL;
  transcript->segments = segments ? segments : transcript->segments;
  tsr_status status = segments && copy ? TSR_OK : tsr_fail_memory(((size_t)found->n_tokens + 1) * sizeof *copy);
  if (status == TSR_OK) {
    status = remember(sound, tokens, tsr_speech_segment_kept(tokens, found->n_tokens, t->tokens.timestamp_begin));
  }
  if (status == TSR_OK) {
    status = tsr_speech_decode(t->tokenizer, tokens, found->n_tokens, 0, t->config.source_positions, &text);
  }
  if (status != TSR_OK) {
    free(copy);
    return status;
  }
  memcpy(copy, tokens, (size_t)found->n_tokens * sizeof *copy);
  transcript->segments[transcript->n_segments++] =
      (tsr_segment){.start = found->start,
                    .end = found->end,
                    .text = text,
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
