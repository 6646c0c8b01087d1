/* SPDX-License-Identifier: Apache-2.0
 *
 * Whisper: ids to text, with or without timestamps, and to segments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/text/tokenizer.h"
#include "core/text/whisper.h"

enum { WINDOW = 1500 }; /* positions of the encoder: 30 s */
static const double second = 0.02;

int32_t tsr_whisper_prompt_length(const tsr_whisper *whisper, const int32_t *ids, int32_t n_ids)
{
  int32_t n = 0;
  if (n_ids > 0 && ids[0] == whisper->tokens.start_of_prev) {
    while (n < n_ids && ids[n] != whisper->tokens.start_of_transcript) {
      n++;
    }
  }
  return n;
}

static size_t count_digits(const char *text)
{
  return strspn(text, "0123456789");
}

/* The bytes of the timestamp that a text begins with; 0: it does not. */
static size_t match_timestamp(const char *text)
{
  if (strncmp(text, "<|", 2) != 0) {
    return 0;
  }
  const size_t whole = count_digits(text + 2);
  if (whole == 0 || text[2 + whole] != '.') {
    return 0;
  }
  const size_t part = count_digits(text + 3 + whole);
  return part > 0 && strncmp(text + 3 + whole + part, "|>", 2) == 0 ? whole + part + 5 : 0;
}

void tsr_whisper_strip_timestamps(char *text)
{
  char *to = text;
  for (const char *from = text; *from;) {
    const size_t size = match_timestamp(from);
    if (size > 0) {
      from += size;
    } else {
      *to++ = *from++;
    }
  }
  *to = '\0';
}

/* ------------------------------------------------------------------------------------------------------------------
 * Text that grows
 */
typedef struct growing {
  char *text; /* NUL-terminated once something was appended */
  size_t size;
  size_t room;
} growing;

static tsr_status append(growing *to, const char *text)
{
  const size_t size = strlen(text);
  if (to->size + size + 1 > to->room) {
    const size_t room = 2 * (to->size + size + 1);
    char *grown = realloc(to->text, room);
    if (!grown) {
      return tsr_fail_memory(room);
    }
    to->text = grown;
    to->room = room;
  }
  memcpy(to->text + to->size, text, size + 1);
  to->size += size;
  return TSR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Text
 */
static int is_kept(const tsr_tokenizer *tokenizer, int32_t id, int32_t keep)
{
  const tsr_tokenizer_side *side = &tokenizer->side[TSR_SIDE_TARGET];
  return tsr_vocabulary_token(side->vocabulary, id) &&
         (keep & TSR_SPEECH_KEEP_SPECIAL || !tsr_added_tokens_is_special(side->added, id));
}

/* The text of ids, without timestamps; *text is allocated. */
static tsr_status decode_plain(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids, int32_t keep,
                               char **text)
{
  const tsr_tokenizer_side *side = &tokenizer->side[TSR_SIDE_TARGET];
  const int32_t begin = keep & TSR_SPEECH_KEEP_SPECIAL ? 0 : tsr_whisper_prompt_length(tokenizer->whisper, ids, n_ids);
  const char **pieces = malloc(((size_t)n_ids + 1) * sizeof *pieces);
  if (!pieces) {
    return tsr_fail_memory(((size_t)n_ids + 1) * sizeof *pieces);
  }
  size_t n_pieces = 0;
  for (int32_t i = begin; i < n_ids; i++) {
    if (is_kept(tokenizer, ids[i], keep)) {
      pieces[n_pieces++] = tsr_vocabulary_token(side->vocabulary, ids[i]);
    }
  }
  tsr_status status = side->segmenter.methods->decode(side->segmenter.state, pieces, n_pieces, text);
  free(pieces);
  if (status == TSR_OK) {
    tsr_whisper_strip_timestamps(*text);
  }
  return status;
}

static tsr_status append_plain(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids, int32_t keep,
                               growing *to)
{
  char *text;
  TSR_TRY(decode_plain(tokenizer, ids, n_ids, keep, &text));
  tsr_status status = append(to, text);
  free(text);
  return status;
}

/* Times in steps of 0.02 s. */
typedef struct clock_state {
  int64_t before; /* of the windows before this one */
  int64_t last;   /* timestamp of this window */
  int64_t last_but_one;
  size_t last_begin; /* where the last one is in the text */
} clock_state;

static tsr_status append_timestamp(clock_state *clock, int64_t time, growing *to)
{
  char text[48];
  const int64_t hundredths = 2 * (clock->before + time);
  snprintf(text, sizeof text, "<|%lld.%02d|>", (long long)(hundredths / 100), (int)(hundredths % 100));
  clock->last_but_one = clock->last;
  clock->last = time;
  clock->last_begin = to->size;
  return append(to, text);
}

static tsr_status decode_timed(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids, int32_t keep,
                               int32_t window, growing *to)
{
  const int32_t begin = tokenizer->whisper->tokens.timestamp_begin;
  clock_state clock = {0};
  int32_t plain = 0; /* where the text behind the last timestamp begins */
  for (int32_t i = 0; i < n_ids; i++) {
    if (ids[i] < begin) {
      continue;
    }
    TSR_TRY(append_plain(tokenizer, ids + plain, i - plain, keep, to));
    plain = i + 1;
    const int64_t time = ids[i] - begin;
    const int is_single = i >= 2 && !(ids[i - 1] >= begin && ids[i - 2] >= begin);
    if (time < clock.last && is_single) {
      clock.before += window;
    } else if (time < clock.last) { /* the pair's second one stands for this one */
      clock.before += clock.last_but_one;
      clock.last = clock.last_but_one;
      to->size = clock.last_begin;
      to->text[to->size] = '\0';
    }
    TSR_TRY(append_timestamp(&clock, time, to));
  }
  return append_plain(tokenizer, ids + plain, n_ids - plain, keep, to);
}

tsr_status tsr_speech_decode(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids, int32_t keep,
                             int32_t positions, char **text)
{
  const tsr_whisper *whisper = tsr_whisper_of(tokenizer, "tsr_speech_decode");
  if (!whisper) {
    return TSR_ERR_ARGUMENT;
  }
  if (!text || n_ids < 0 || (!ids && n_ids > 0) || positions < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_speech_decode: ids and text must not be NULL, n_ids and positions not negative");
  }
  *text = NULL;
  if (!(keep & TSR_SPEECH_KEEP_TIMESTAMPS)) {
    return decode_plain(tokenizer, ids, n_ids, keep, text);
  }
  const int32_t prompt = keep & TSR_SPEECH_KEEP_SPECIAL ? 0 : tsr_whisper_prompt_length(whisper, ids, n_ids);
  growing to = {0};
  tsr_status status = decode_timed(tokenizer, n_ids > 0 ? ids + prompt : ids, n_ids - prompt, keep,
                                   positions ? positions : WINDOW, &to);
  if (status != TSR_OK) {
    free(to.text);
    return status;
  }
  *text = to.text;
  return TSR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Segments
 */

/* The ids as they are cut. */
typedef struct cutting {
  const tsr_tokenizer *tokenizer;
  const int32_t *ids;
  int32_t begin;  /* of timestamps */
  int32_t window; /* steps */
  int64_t before; /* of the windows before this one */
  int64_t last;   /* end of the last segment in its window */
  growing texts;
} cutting;

/* Adds the segment of the ids from `first` to before `end`, unless there is none between two timestamps. Its text is
 * told by where it begins in the texts. */
static tsr_status add_offset(cutting *c, int32_t first, int32_t end, tsr_speech_offset *offset, size_t *text,
                             int32_t *n)
{
  if (end - first < 2) {
    return TSR_OK;
  }
  const int64_t start = c->ids[first] - c->begin;
  if (start < c->last) {
    const int is_single = first >= 2 && !(c->ids[first - 2] >= c->begin && c->ids[first - 1] >= c->begin);
    c->before += is_single ? c->window : c->last;
  }
  c->last = c->ids[end - 1] - c->begin;
  *offset = (tsr_speech_offset){NULL, (double)(start + c->before) * second, (double)(c->last + c->before) * second};
  *text = c->texts.size;
  ++*n;
  TSR_TRY(append_plain(c->tokenizer, c->ids + first, end - first, TSR_SPEECH_KEEP_SPECIAL, &c->texts));
  c->texts.size++; /* the NUL ends this text; room for it is there */
  return TSR_OK;
}

static tsr_status cut(cutting *c, int32_t n_ids, tsr_speech_offset *offsets, size_t *texts, int32_t *n)
{
  int32_t first = -1; /* of the segment that has not ended */
  int32_t last = -1;  /* timestamp */
  int32_t n_timestamps = 0;
  int is_cut = 0;
  for (int32_t i = 0; i < n_ids; i++) {
    if (c->ids[i] < c->begin) {
      continue;
    }
    if (first < 0) {
      first = i;
    } else if (last == i - 1) {
      TSR_TRY(add_offset(c, first, i, &offsets[*n], &texts[*n], n));
      first = i;
      is_cut = 1;
    }
    last = i;
    n_timestamps++;
  }
  return is_cut || n_timestamps > 1 ? add_offset(c, first, last + 1, &offsets[*n], &texts[*n], n) : TSR_OK;
}

/* One allocation of the offsets and, behind them, their texts. */
static tsr_status pack(const tsr_speech_offset *offsets, const size_t *texts, int32_t n, const growing *all,
                       tsr_speech_offset **packed)
{
  const size_t head = (size_t)n * sizeof **packed;
  tsr_speech_offset *block = malloc(head + all->size + 1);
  if (!block) {
    return tsr_fail_memory(head + all->size + 1);
  }
  char *copy = (char *)(block + n);
  if (n > 0) {
    memcpy(block, offsets, head);
    memcpy(copy, all->text, all->size);
  }
  for (int32_t i = 0; i < n; i++) {
    block[i].text = copy + texts[i];
  }
  *packed = block;
  return TSR_OK;
}

tsr_status tsr_speech_offsets(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids, int32_t positions,
                              tsr_speech_offset **offsets, int32_t *n)
{
  const tsr_whisper *whisper = tsr_whisper_of(tokenizer, "tsr_speech_offsets");
  if (!whisper) {
    return TSR_ERR_ARGUMENT;
  }
  if (!offsets || !n || n_ids < 0 || (!ids && n_ids > 0) || positions < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_speech_offsets: ids, offsets and n must not be NULL, n_ids and positions not negative");
  }
  *offsets = NULL;
  *n = 0;
  const size_t most = (size_t)n_ids + 1;
  tsr_speech_offset *found = malloc(most * sizeof *found);
  size_t *texts = malloc(most * sizeof *texts);
  int32_t n_found = 0;
  cutting c = {.tokenizer = tokenizer,
               .ids = ids,
               .begin = whisper->tokens.timestamp_begin,
               .window = positions ? positions : WINDOW};
  tsr_status status =
      found && texts ? cut(&c, n_ids, found, texts, &n_found) : tsr_fail_memory(most * (sizeof *found + sizeof *texts));
  if (status == TSR_OK) {
    status = pack(found, texts, n_found, &c.texts, offsets);
  }
  if (status == TSR_OK) {
    *n = n_found;
  }
  free(c.texts.text);
  free(found);
  free(texts);
  return status;
}
