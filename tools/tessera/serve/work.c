/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/work.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A line of a text. */
typedef struct line {
  segment segment; /* first */
  work *owner;
  int32_t text;
  int32_t hop;
  size_t begin; /* in the text */
  size_t size;
  char *between; /* the line in the language between, while the second model has it */
  char *results[1 + 64];
  int32_t n_results;
  int32_t *aligned; /* [4 n_aligned] bytes in the line and its translation */
  int32_t n_aligned;
  int is_done;
  char *pieces; /* that may not be told yet, for a line before is not done */
  size_t n_pieces;
  size_t told; /* bytes of the translation that were told or stand in `pieces` */
  size_t come; /* that came since it was submitted last */
} line;

typedef struct text {
  char *bytes;
  size_t size;
  int32_t first; /* of its lines */
  int32_t n;
} text;

struct work {
  models *models;
  model_set *set;
  route way;
  work_options options;
  char *prefix;
  text *texts;
  int32_t n_texts;
  line *lines;
  int32_t n_lines;
  int32_t room;
  atomic_int references;
  atomic_int is_cancelled;
  pthread_mutex_t lock;
  int32_t left; /* lines that are not done; 1 more until all were submitted */
  int outcome;
  int is_reserved;         /* its lines are among those in hand */
  pthread_mutex_t telling; /* of pieces: held while one is told */
  int32_t tells;           /* the line whose pieces are told */
};

static atomic_llong lines_in_hand;

int64_t work_lines_in_hand(void)
{
  return atomic_load(&lines_in_hand);
}

int32_t work_lines(const work *w)
{
  return w->n_lines;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Bytes of white space at `at`: blanks, tabs, and those of Unicode; 0: there is none. */
static size_t white(const char *at, size_t size)
{
  static const char *const others[] = {"\xc2\xa0",     "\xe3\x80\x80", "\xef\xbb\xbf",
                                       "\xe2\x80\x8b", "\xe2\x80\xa8", "\xe2\x80\xa9"};
  if (size > 0 && (*at == ' ' || (*at >= '\t' && *at <= '\r'))) {
    return 1;
  }
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    size_t length = strlen(others[i]);
    if (size >= length && memcmp(at, others[i], length) == 0) {
      return length;
    }
  }
  return 0;
}

static int add_line(work *w, int32_t of, size_t begin, size_t end)
{
  const char *bytes = w->texts[of].bytes;
  for (size_t n; begin < end && (n = white(bytes + begin, end - begin)) > 0;) {
    begin += n;
  }
  size_t last = begin; /* behind the last that is no white space */
  for (size_t at = begin; at < end;) {
    size_t n = white(bytes + at, end - at);
    at += n > 0 ? n : 1;
    last = n > 0 ? last : at;
  }
  if (last == begin) {
    return 1;
  }
  if (w->n_lines == w->room) {
    int32_t room = w->room ? 2 * w->room : 1;
    line *grown = realloc(w->lines, (size_t)room * sizeof *grown);
    if (!grown) {
      return 0;
    }
    w->lines = grown;
    w->room = room;
  }
  w->lines[w->n_lines++] = (line){.text = of, .begin = begin, .size = last - begin};
  w->texts[of].n++;
  return 1;
}

static int cut_text(work *w, int32_t of)
{
  text *t = &w->texts[of];
  t->first = w->n_lines;
  int fine = 1;
  for (size_t begin = 0, at = 0; at <= t->size && fine; at++) {
    if (at == t->size || t->bytes[at] == '\n' || t->bytes[at] == '\r') {
      fine = add_line(w, of, begin, at);
      begin = at + 1;
    }
  }
  return fine;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static void tell(work *w, int32_t of, const char *bytes, size_t size)
{
  if (size > 0) {
    w->options.piece(w->options.user, of, bytes, size);
  }
}

/* With `telling`: the white space before a line. */
static void tell_before(work *w, int32_t at)
{
  const line *l = &w->lines[at];
  const text *t = &w->texts[l->text];
  size_t begin = 0;
  if (at > t->first) {
    begin = w->lines[at - 1].begin + w->lines[at - 1].size;
  }
  tell(w, l->text, t->bytes + begin, l->begin - begin);
}

/* With `telling`: behind a text's last line. */
static void tell_behind(work *w, int32_t at)
{
  const line *l = &w->lines[at];
  const text *t = &w->texts[l->text];
  if (at == t->first + t->n - 1) {
    size_t begin = l->begin + l->size;
    tell(w, l->text, t->bytes + begin, t->size - begin);
  }
}

/* With `telling`: goes on to lines whose text has come while those before were told. */
static void tell_on(work *w)
{
  while (w->tells < w->n_lines) {
    line *l = &w->lines[w->tells];
    tell(w, l->text, l->pieces, l->n_pieces);
    free(l->pieces);
    l->pieces = NULL;
    l->n_pieces = 0;
    if (!l->is_done) {
      return;
    }
    tell_behind(w, w->tells);
    w->tells++;
    if (w->tells < w->n_lines) {
      tell_before(w, w->tells);
    }
  }
}

static void add_piece(work *w, line *l, const char *bytes, size_t size)
{
  if (w->tells == l - w->lines) {
    tell(w, l->text, bytes, size);
    return;
  }
  char *grown = realloc(l->pieces, l->n_pieces + size);
  if (grown) {
    memcpy(grown + l->n_pieces, bytes, size);
    l->pieces = grown;
    l->n_pieces += size;
  }
}

static void on_piece(void *user, uint64_t ticket, const char *bytes, size_t size)
{
  line *l = (line *)(void *)(segment *)user;
  work *w = l->owner;
  (void)ticket;
  pthread_mutex_lock(&w->telling);
  /* A text that began anew comes again from its beginning. */
  size_t again = l->told - l->come, skip = again < size ? again : size;
  l->come += size;
  if (size > skip) {
    add_piece(w, l, bytes + skip, size - skip);
    l->told += size - skip;
  }
  pthread_mutex_unlock(&w->telling);
}

/* Its translation is here: what was not told of it. */
static void tell_rest(work *w, line *l)
{
  pthread_mutex_lock(&w->telling);
  size_t size = l->n_results > 0 ? strlen(l->results[0]) : 0;
  if (l->told < size) {
    add_piece(w, l, l->results[0] + l->told, size - l->told);
    l->told = size;
  }
  l->is_done = 1;
  if (w->tells == l - w->lines) {
    tell_on(w);
  }
  pthread_mutex_unlock(&w->telling);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static int keep_results(work *w, line *l, const tsr_translation *answer)
{
  int32_t most = w->options.next_words > 0 ? w->options.next_words : w->options.alternatives + 1;
  for (int32_t i = 0; i < answer->n_hypotheses && l->n_results < most; i++) {
    const char *found = answer->hypotheses[i]->text;
    if (i > 0 && answer->hypotheses[i]->n_ids == 0) {
      continue;
    }
    int is_new = 1;
    for (int32_t k = 0; k < l->n_results; k++) {
      is_new &= strcmp(l->results[k], found) != 0;
    }
    if (is_new && !(l->results[l->n_results++] = strdup(found))) {
      l->n_results--;
      return 0;
    }
  }
  return 1;
}

/* Adds a pair of places. Returns 0 if memory ran out. */
static int add_pair(int32_t **pairs, int32_t *n, int32_t *room, tsr_text_span source, tsr_text_span target)
{
  if (*n == *room) {
    int32_t more = *room ? 2 * *room : 64;
    int32_t *grown = realloc(*pairs, (size_t)more * 4 * sizeof *grown);
    if (!grown) {
      return 0;
    }
    *pairs = grown;
    *room = more;
  }
  int32_t *place = &(*pairs)[4 * (*n)++];
  place[0] = source.begin;
  place[1] = source.end;
  place[2] = target.begin;
  place[3] = target.end;
  return 1;
}

/* Keeps the places of a hop. Behind the first, a word is aligned with what those words of the language between are
 * aligned with that it was made from. */
static int keep_alignment(line *l, const tsr_translation *answer)
{
  const tsr_translation_hypothesis *best = answer->hypotheses[0];
  int32_t *pairs = NULL, n = 0, room = 0;
  int fine = 1;
  for (int32_t i = 0; best->aligned && best->spans && answer->source_spans && i < best->n_ids && fine; i++) {
    int32_t from = best->aligned[i];
    tsr_text_span target = best->spans[i];
    if (from < 0 || from >= answer->n_source_ids || target.begin == target.end) {
      continue;
    }
    tsr_text_span source = answer->source_spans[from];
    if (l->hop == 0 && source.begin < source.end) {
      fine = add_pair(&pairs, &n, &room, source, target);
    }
    for (int32_t k = 0; l->hop > 0 && k < l->n_aligned && fine; k++) {
      const int32_t *before = &l->aligned[4 * k];
      if (before[2] < source.end && source.begin < before[3]) {
        fine = add_pair(&pairs, &n, &room, (tsr_text_span){before[0], before[1]}, target);
      }
    }
  }
  free(l->aligned);
  l->aligned = pairs;
  l->n_aligned = n;
  return fine;
}

static void line_done(work *w, int outcome)
{
  work_hold(w);
  pthread_mutex_lock(&w->lock);
  /* The first thing that went wrong; what was cancelled for it is no news. */
  int is_first = outcome != WORK_DONE && w->outcome == WORK_DONE;
  w->outcome = is_first ? outcome : w->outcome;
  int is_last = --w->left == 0;
  pthread_mutex_unlock(&w->lock);
  if (is_first && !is_last) {
    work_cancel(w);
  }
  if (is_last) {
    atomic_fetch_sub(&lines_in_hand, w->n_lines);
    w->is_reserved = 0;
    w->options.done(w->options.user, w);
    work_release(w); /* of work_start */
  }
  work_release(w);
}

static void submit(line *l);

static void on_done(segment *s, int outcome, const tsr_translation *answer)
{
  line *l = (line *)(void *)s;
  work *w = l->owner;
  int fine = outcome == SEGMENT_DONE;
  if (fine && l->hop + 1 < w->way.n_hops) {
    l->between = strdup(answer->hypotheses[0]->text);
    if (l->between && (!w->options.alignment || keep_alignment(l, answer))) {
      l->hop++;
      submit(l);
      return;
    }
    outcome = SEGMENT_FAILED;
  } else if (fine) {
    /* What the tokenizer takes for nothing stays as it is. */
    fine = answer->n_parts > 0 || l->hop > 0
               ? keep_results(w, l, answer) && (!w->options.alignment || keep_alignment(l, answer))
               : (l->results[l->n_results++] = strndup(w->texts[l->text].bytes + l->begin, l->size)) != NULL;
    outcome = fine ? SEGMENT_DONE : SEGMENT_FAILED;
    if (fine && w->options.piece) {
      tell_rest(w, l);
    }
  }
  static const int outcomes[] = {[SEGMENT_DONE] = WORK_DONE,
                                 [SEGMENT_CANCELLED] = WORK_CANCELLED,
                                 [SEGMENT_LATE] = WORK_LATE,
                                 [SEGMENT_REFUSED] = WORK_REFUSED,
                                 [SEGMENT_FAILED] = WORK_FAILED};
  line_done(w, outcomes[outcome]);
}

static int is_cancelled(segment *s)
{
  return atomic_load(&((line *)(void *)s)->owner->is_cancelled);
}

static void begins(segment *s)
{
  line *l = (line *)(void *)s;
  pthread_mutex_lock(&l->owner->telling);
  l->come = 0;
  pthread_mutex_unlock(&l->owner->telling);
}

static void hold_segment(segment *s)
{
  work_hold(((line *)(void *)s)->owner);
}

static void release_segment(segment *s)
{
  work_release(((line *)(void *)s)->owner);
}

static void submit(line *l)
{
  work *w = l->owner;
  segment *s = &l->segment;
  int is_last = l->hop + 1 == w->way.n_hops;
  int is_first_line = l == w->lines;
  s->model = w->way.hops[l->hop].model;
  s->source = w->way.hops[l->hop].source;
  s->target = w->way.hops[l->hop].target;
  s->text = l->between ? l->between : w->texts[l->text].bytes + l->begin;
  s->size = l->between ? strlen(l->between) : l->size;
  s->prefix = is_last && is_first_line ? w->prefix : NULL;
  s->n_best = is_last ? 1 + w->options.alternatives : 1;
  s->next_words = is_last && is_first_line ? w->options.next_words : 0;
  s->alignment = w->options.alignment;
  s->deadline = w->options.deadline;
  s->piece = is_last && w->options.piece ? on_piece : NULL;
  s->done = on_done;
  s->is_cancelled = is_cancelled;
  s->begins = begins;
  s->hold = hold_segment;
  s->release = release_segment;
  if (s->size == 0) { /* a language between, in which nothing is left */
    tsr_translation_hypothesis nothing = {.text = (char[]){""}};
    tsr_translation_hypothesis *list = &nothing;
    const tsr_translation empty = {.n_hypotheses = 1, .hypotheses = &list};
    on_done(s, SEGMENT_DONE, &empty);
    return;
  }
  models_submit(w->models, s);
}

/* ---- the work ---------------------------------------------------------------------------------------------------- */

int work_create(models *m, model_set *set, const route *way, int32_t n, const char *const *texts, const size_t *sizes,
                const work_options *options, work **made)
{
  work *w = calloc(1, sizeof *w);
  *made = NULL;
  if (!w) {
    return 0;
  }
  w->models = m;
  w->way = *way;
  w->options = *options;
  atomic_init(&w->references, 1);
  pthread_mutex_init(&w->lock, NULL);
  pthread_mutex_init(&w->telling, NULL);
  w->texts = calloc((size_t)n + 1, sizeof *w->texts);
  w->prefix = options->prefix && options->prefix[0] ? strdup(options->prefix) : NULL;
  int fine = w->texts && (!options->prefix || !options->prefix[0] || w->prefix);
  for (int32_t i = 0; i < n && fine; i++) {
    w->texts[i].bytes = malloc(sizes[i] + 1);
    fine = w->texts[i].bytes != NULL;
    w->n_texts = i + 1;
    if (fine) {
      memcpy(w->texts[i].bytes, texts[i], sizes[i]);
      w->texts[i].bytes[sizes[i]] = '\0';
      w->texts[i].size = sizes[i];
    }
    fine = fine && (way->n_hops == 0 || cut_text(w, i));
  }
  for (int32_t i = 0; i < w->n_lines; i++) {
    w->lines[i].owner = w;
    w->lines[i].segment.lock = &w->lock;
  }
  if (!fine) {
    work_release(w);
    return 0;
  }
  w->set = set;
  *made = w;
  return 1;
}

void work_hold(work *w)
{
  atomic_fetch_add(&w->references, 1);
}

void work_release(work *w)
{
  if (!w || atomic_fetch_sub(&w->references, 1) != 1) {
    return;
  }
  if (w->is_reserved) {
    atomic_fetch_sub(&lines_in_hand, w->n_lines);
  }
  for (int32_t i = 0; i < w->n_lines; i++) {
    line *l = &w->lines[i];
    for (int32_t k = 0; k < l->n_results; k++) {
      free(l->results[k]);
    }
    free(l->between);
    free(l->aligned);
    free(l->pieces);
  }
  for (int32_t i = 0; i < w->n_texts; i++) {
    free(w->texts[i].bytes);
  }
  if (w->set) {
    models_release(w->models, w->set);
  }
  free(w->lines);
  free(w->texts);
  free(w->prefix);
  pthread_mutex_destroy(&w->lock);
  pthread_mutex_destroy(&w->telling);
  free(w);
}

int work_reserve(work *w, int64_t most)
{
  int64_t before = atomic_fetch_add(&lines_in_hand, w->n_lines);
  w->is_reserved = before + w->n_lines <= most;
  if (!w->is_reserved) {
    atomic_fetch_sub(&lines_in_hand, w->n_lines);
  }
  return w->is_reserved;
}

void work_start(work *w)
{
  work_hold(w);
  w->left = w->n_lines + 1;
  if (w->options.piece) {
    pthread_mutex_lock(&w->telling);
    /* Texts without a line come as they are; the others begin with their white space. */
    for (int32_t i = 0; i < w->n_texts; i++) {
      if (w->texts[i].n == 0) {
        tell(w, i, w->texts[i].bytes, w->texts[i].size);
      }
    }
    if (w->n_lines > 0) {
      tell_before(w, 0);
    }
    pthread_mutex_unlock(&w->telling);
  }
  for (int32_t i = 0; i < w->n_lines; i++) {
    submit(&w->lines[i]);
  }
  line_done(w, WORK_DONE);
}

void work_cancel(work *w)
{
  if (atomic_exchange(&w->is_cancelled, 1)) {
    return;
  }
  for (int32_t i = 0; i < w->n_lines; i++) {
    segment_cancel(&w->lines[i].segment);
  }
}

int work_outcome(const work *w)
{
  return w->outcome;
}

int32_t work_n_texts(const work *w)
{
  return w->n_texts;
}

int32_t work_n_alternatives(const work *w, int32_t of)
{
  int32_t most = 0;
  const text *t = &w->texts[of];
  for (int32_t i = t->first; i < t->first + t->n; i++) {
    most = w->lines[i].n_results - 1 > most ? w->lines[i].n_results - 1 : most;
  }
  return most;
}

static const char *result(const line *l, int32_t alternative)
{
  return alternative < l->n_results ? l->results[alternative] : l->n_results > 0 ? l->results[0] : "";
}

char *work_text(const work *w, int32_t of, int32_t alternative, size_t *size)
{
  const text *t = &w->texts[of];
  size_t room = t->size + 1, used = 0, at = 0;
  for (int32_t i = t->first; i < t->first + t->n; i++) {
    room += strlen(result(&w->lines[i], alternative));
  }
  char *joined = malloc(room);
  if (!joined) {
    return NULL;
  }
  for (int32_t i = t->first; i < t->first + t->n; i++) {
    const line *l = &w->lines[i];
    const char *found = result(l, alternative);
    memcpy(joined + used, t->bytes + at, l->begin - at);
    used += l->begin - at;
    memcpy(joined + used, found, strlen(found));
    used += strlen(found);
    at = l->begin + l->size;
  }
  memcpy(joined + used, t->bytes + at, t->size - at);
  used += t->size - at;
  joined[used] = '\0';
  *size = used;
  return joined;
}

static int32_t bytes(const char *at, size_t size)
{
  (void)at;
  return (int32_t)size;
}

static int32_t characters(const char *bytes, size_t size)
{
  int32_t n = 0;
  for (size_t i = 0; i < size; i++) {
    n += ((unsigned char)bytes[i] & 0xc0) != 0x80;
  }
  return n;
}

/* measure: how long a piece of text is. */
static int32_t *places_of(const work *w, int32_t of, int32_t (*measure)(const char *, size_t), int32_t *n)
{
  const text *t = &w->texts[of];
  size_t most = 1;
  for (int32_t i = t->first; i < t->first + t->n; i++) {
    most += (size_t)w->lines[i].n_aligned;
  }
  int32_t *places = w->options.alignment ? malloc(most * 4 * sizeof *places) : NULL;
  *n = 0;
  int32_t source_at = 0, target_at = 0;
  size_t at = 0;
  for (int32_t i = t->first; places && i < t->first + t->n; i++) {
    const line *l = &w->lines[i];
    const char *source = t->bytes + l->begin, *target = result(l, 0);
    int32_t gap = measure(t->bytes + at, l->begin - at);
    source_at += gap;
    target_at += gap;
    for (int32_t k = 0; k < l->n_aligned; k++) {
      const int32_t *from = &l->aligned[4 * k];
      int32_t *to = &places[4 * (*n)++];
      to[0] = source_at + measure(source, (size_t)from[0]);
      to[1] = source_at + measure(source, (size_t)from[1]);
      to[2] = target_at + measure(target, (size_t)from[2]);
      to[3] = target_at + measure(target, (size_t)from[3]);
    }
    source_at += measure(source, l->size);
    target_at += measure(target, strlen(target));
    at = l->begin + l->size;
  }
  return places;
}

int32_t *work_alignment(const work *w, int32_t of, int32_t *n)
{
  return places_of(w, of, characters, n);
}

int32_t *work_alignment_bytes(const work *w, int32_t of, int32_t *n)
{
  return places_of(w, of, bytes, n);
}
