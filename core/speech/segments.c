/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of a long recording: their segments, where the next one begins, and what its decoder begins with.
 */
#include <string.h>

#include "core/base/status.h"
#include "tessera/speech.h"

/* Seconds of a timestamp and of a frame; frames of a timestamp. */
static const double timestamp_time = 0.02, frame_time = 0.01;
enum { TIMESTAMP_FRAMES = 2 };

typedef struct window {
  const int32_t *tokens;
  int32_t n_tokens;
  int32_t timestamp_begin;
  double start;   /* seconds */
  int32_t frames; /* of the recording */
} window;

static int is_timestamp(const window *w, int32_t at)
{
  return at >= 0 && w->tokens[at] >= w->timestamp_begin;
}

/* Steps of a timestamp; 0 for text. */
static int32_t steps_of(const window *w, int32_t at)
{
  return is_timestamp(w, at) ? w->tokens[at] - w->timestamp_begin : 0;
}

/* 1 if a timestamp stands at the end, and text before it. */
static int ends_single(const window *w)
{
  return w->n_tokens > 1 && is_timestamp(w, w->n_tokens - 1) && !is_timestamp(w, w->n_tokens - 2);
}

/* The tokens from `first` to before `end`, whose last timestamp stands at `last`. */
static tsr_speech_segment make_segment(const window *w, int32_t first, int32_t end, int32_t last)
{
  return (tsr_speech_segment){
      .start = w->start + steps_of(w, first) * timestamp_time,
      .end = w->start + steps_of(w, last) * timestamp_time,
      .first = first,
      .n_tokens = end - first,
  };
}

/* Cuts between adjacent timestamps. *open: where the segment that has not ended begins. Returns how many ended. */
static int32_t cut(const window *w, tsr_speech_segment *segments, int32_t *open)
{
  int32_t n = 0;
  *open = 0;
  for (int32_t i = 1; i < w->n_tokens; i++) {
    if (is_timestamp(w, i) && is_timestamp(w, i - 1)) {
      segments[n++] = make_segment(w, *open, i, i - 1);
      *open = i;
    }
  }
  return n;
}

/* All tokens as one segment of a window without adjacent timestamps. */
static tsr_speech_segment whole(const window *w)
{
  int32_t last = w->n_tokens - 1;
  while (last >= 0 && !is_timestamp(w, last)) {
    last--;
  }
  const int32_t steps = steps_of(w, last);
  const double end = steps > 0 ? steps * timestamp_time : w->frames * frame_time;
  return (tsr_speech_segment){.start = w->start, .end = w->start + end, .n_tokens = w->n_tokens};
}

tsr_status tsr_speech_segments(const int32_t *tokens, int32_t n_tokens, int32_t timestamp_begin, int64_t seek,
                               int32_t frames, tsr_speech_segment *segments, int32_t *n_segments, int64_t *advance)
{
  if ((!tokens && n_tokens > 0) || n_tokens < 0 || timestamp_begin < 0 || seek < 0 || frames < 1 || !segments ||
      !n_segments || !advance) {
    return tsr_fail(
        TSR_ERR_ARGUMENT,
        "tsr_speech_segments: %d tokens, timestamps from %d, %d frames from %lld: expected numbers that are "
        "not negative, at least one frame, and room for the results",
        (int)n_tokens, (int)timestamp_begin, (int)frames, (long long)seek);
  }
  const window w = {tokens, n_tokens, timestamp_begin, (double)seek * frame_time, frames};
  int32_t open;
  int32_t n = cut(&w, segments, &open);
  *advance = frames;
  if (n == 0) {
    segments[n++] = whole(&w);
  } else if (ends_single(&w)) {
    segments[n++] = make_segment(&w, open, n_tokens, n_tokens - 1);
  } else { /* `open` is the second of the last pair */
    segments[n - 1].n_tokens++;
    const int64_t steps = steps_of(&w, open - 1);
    *advance =
        steps > 0 ? TIMESTAMP_FRAMES * steps : frames; /* a window that ended at its beginning would come again */
  }
  *n_segments = n;
  return TSR_OK;
}

int32_t tsr_speech_segment_kept(const int32_t *tokens, int32_t n_tokens, int32_t timestamp_begin)
{
  const int is_pair =
      n_tokens > 2 && tokens[n_tokens - 1] >= timestamp_begin && tokens[n_tokens - 2] >= timestamp_begin;
  return n_tokens - is_pair;
}

/* Behind what `ids` has. */
static void append(int32_t *ids, int32_t *n_ids, const int32_t *added, int32_t n_added)
{
  if (n_added > 0) {
    memcpy(ids + *n_ids, added, (size_t)n_added * sizeof *ids);
  }
  *n_ids += n_added;
}

tsr_status tsr_speech_window_input(const tsr_speech_context *context, int32_t *ids, int32_t *n_ids)
{
  if (!context || !ids || !n_ids || context->n_prompt < 0 || context->n_previous < 0 || context->n_prefix < 0 ||
      context->most_of_previous < 0 || (context->n_prompt > 0 && !context->prompt) ||
      (context->n_previous > 0 && !context->previous) || (context->n_prefix > 0 && !context->prefix)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_speech_window_input: context, ids and n_ids must not be NULL, numbers not negative");
  }
  *n_ids = 0;
  const int has_previous = context->has_previous && context->n_previous > 0;
  if (has_previous && !(context->prompt_stays && context->n_prompt > 0)) {
    append(ids, n_ids, &context->start_of_prev, 1);
  } else {
    append(ids, n_ids, context->prompt, context->n_prompt);
  }
  if (has_previous) {
    const int32_t n = context->n_previous < context->most_of_previous ? context->n_previous : context->most_of_previous;
    append(ids, n_ids, context->previous + context->n_previous - n, n);
  }
  append(ids, n_ids, context->prefix, context->n_prefix);
  return TSR_OK;
}

int32_t tsr_speech_plain_length(const int32_t *ids, int32_t n_ids, int32_t end_of_text, int32_t timestamp_begin)
{
  while (n_ids > 0 && ids[n_ids - 1] == end_of_text) {
    n_ids--;
  }
  const window w = {.tokens = ids, .n_tokens = n_ids, .timestamp_begin = timestamp_begin};
  int32_t pair = 0; /* where the second one of the last pair stands */
  for (int32_t i = 1; i < n_ids; i++) {
    pair = is_timestamp(&w, i) && is_timestamp(&w, i - 1) ? i : pair;
  }
  return pair > 0 && !ends_single(&w) ? pair + 1 : n_ids;
}
