/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/corpus/duplicates.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/corpus/fingerprint.h"
#include "tools/tessera/corpus/spool.h"

/* The files of a part:
 *   text      its sentences, each behind its line (number from 0); removed when the part was looked through
 *   first     the distinct ones of them, in order; removed when they were written in the order of their lines
 *   lines     a `place` for each sentence, in the order of lines
 *   result    what became of the distinct ones; likewise `all`, of all sentences: both are removed in the end */

/* A sentence: its line, and which of the distinct ones of its part it is. It is the first of its kind where this is
 * their number so far. */
typedef struct place {
  int64_t line;
  int64_t index;
} place;

int32_t duplicates_parts(int64_t bytes, int64_t memory)
{
  int64_t parts = bytes / (memory / 2) + 1; /* beside the texts there are their places, and tables */
  return parts < DUPLICATES_MOST_PARTS ? (int32_t)parts : DUPLICATES_MOST_PARTS;
}

/* ---- dividing ---------------------------------------------------------------------------------------------------- */

static int divide(corpus_reader *reader, spool *parts, int32_t n_parts)
{
  tsr_cli_progress progress;
  tsr_corpus_sentence sentence;
  int64_t line = 0;
  int code = TSR_EXIT_OK;
  tsr_cli_progress_start(&progress, "finding duplicates: sentences");
  for (int got = 1; got && code == TSR_EXIT_OK;) {
    code = corpus_reader_next(reader, &sentence, &got);
    if (code == TSR_EXIT_OK && got) {
      /* The table of a part uses the low bits. */
      spool *part = &parts[(corpus_hash(sentence.text, sentence.size, 0) >> 32) % (uint64_t)n_parts];
      code = spool_put(part, &line, sizeof line);
      code = code == TSR_EXIT_OK ? spool_put_text(part, sentence.text, sentence.size) : code;
      tsr_cli_progress_update(&progress, ++line, 0);
    }
  }
  tsr_cli_progress_clear(&progress);
  return code;
}

/* ---- a part ------------------------------------------------------------------------------------------------------ */

/* The distinct sentences of a part. */
typedef struct known {
  char *bytes; /* their texts, one after the other */
  size_t n_bytes, room;
  int64_t *ends; /* [n] where each ends in them */
  int64_t n;
  size_t ends_room;
  int64_t *table; /* [size, a power of two] index + 1 of a sentence, or 0 */
  uint64_t size;
} known;

static void known_finish(known *k)
{
  free(k->bytes);
  free(k->ends);
  free(k->table);
  *k = (known){0};
}

static const char *text_of(const known *k, int64_t index, size_t *size)
{
  int64_t begin = index > 0 ? k->ends[index - 1] : 0;
  *size = (size_t)(k->ends[index] - begin);
  return k->bytes + begin;
}

/* Makes room for `needed` elements of `size` bytes, at least twice as many as there was room for. */
static int grow(void **list, size_t *room, size_t needed, size_t size)
{
  if (needed <= *room) {
    return TSR_EXIT_OK;
  }
  size_t wanted = needed > 2 * *room ? needed : 2 * *room;
  void *longer = realloc(*list, wanted * size);
  if (!longer) {
    return tsr_cli_no_memory();
  }
  *list = longer;
  *room = wanted;
  return TSR_EXIT_OK;
}

/* Appends a text. */
static int known_add(known *k, const char *text, size_t size)
{
  void *bytes = k->bytes, *ends = k->ends;
  int code = grow(&bytes, &k->room, k->n_bytes + size + 1, 1);
  k->bytes = bytes;
  if (code == TSR_EXIT_OK) {
    code = grow(&ends, &k->ends_room, (size_t)k->n + 1, sizeof *k->ends);
    k->ends = ends;
  }
  if (code == TSR_EXIT_OK) {
    memcpy(k->bytes + k->n_bytes, text, size);
    k->n_bytes += size;
    k->ends[k->n++] = (int64_t)k->n_bytes;
  }
  return code;
}

/* Where in the table a text stands, or would stand. */
static int64_t *find(const known *k, const char *text, size_t size)
{
  uint64_t at = corpus_hash(text, size, 0) & (k->size - 1);
  for (; k->table[at] > 0; at = (at + 1) & (k->size - 1)) {
    size_t other_size;
    const char *other = text_of(k, k->table[at] - 1, &other_size);
    if (other_size == size && memcmp(other, text, size) == 0) {
      break;
    }
  }
  return &k->table[at];
}

/* At most half of the table is in use. */
static int known_enlarge(known *k)
{
  if ((uint64_t)k->n * 2 < k->size) {
    return TSR_EXIT_OK;
  }
  k->size = k->size > 0 ? 2 * k->size : 1024;
  free(k->table);
  k->table = calloc(k->size, sizeof *k->table);
  if (!k->table) {
    return tsr_cli_no_memory();
  }
  for (int64_t i = 0; i < k->n; i++) {
    size_t size;
    const char *text = text_of(k, i, &size);
    *find(k, text, size) = i + 1;
  }
  return TSR_EXIT_OK;
}

/* The number of a text among the distinct ones, which it joins if it is new. */
static int known_number(known *k, const char *text, size_t size, int64_t *index)
{
  int code = known_enlarge(k);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  int64_t *entry = find(k, text, size);
  if (*entry == 0) {
    *entry = k->n + 1;
    *index = k->n;
    return known_add(k, text, size);
  }
  *index = *entry - 1;
  return TSR_EXIT_OK;
}

/* Looks through a part. */
static int number_sentences(spool *text, spool *first, spool *lines)
{
  known k = {0};
  spool_text sentence = {0};
  place at;
  int code = TSR_EXIT_OK;
  for (int got = 1; code == TSR_EXIT_OK;) {
    code = spool_get(text, &at.line, sizeof at.line, &got);
    if (code != TSR_EXIT_OK || !got) {
      break;
    }
    int64_t n = k.n;
    code = spool_get_text(text, &sentence);
    code = code == TSR_EXIT_OK ? known_number(&k, sentence.bytes, sentence.size, &at.index) : code;
    code = code == TSR_EXIT_OK ? spool_put(lines, &at, sizeof at) : code;
    if (code == TSR_EXIT_OK && at.index == n) {
      code = spool_put_text(first, sentence.bytes, sentence.size);
    }
  }
  free(sentence.bytes);
  known_finish(&k);
  return code;
}

static int look_through(const char *folder, int32_t part)
{
  spool text = {0}, first = {0}, lines = {0};
  int code = spool_open(&text, folder, "text", part);
  code = code == TSR_EXIT_OK ? spool_create(&first, folder, "first", part) : code;
  code = code == TSR_EXIT_OK ? spool_create(&lines, folder, "lines", part) : code;
  code = code == TSR_EXIT_OK ? number_sentences(&text, &first, &lines) : code;
  code = code == TSR_EXIT_OK ? spool_close(&first) : code;
  code = code == TSR_EXIT_OK ? spool_sync(&lines) : code; /* they outlive this run */
  code = code == TSR_EXIT_OK ? spool_close(&lines) : code;
  spool_remove(&text);
  spool_finish(&first);
  spool_finish(&lines);
  return code;
}

/* ---- merging by lines -------------------------------------------------------------------------------------------- */

/* The places of all parts in the order of their lines. */
typedef struct merge {
  spool lines[DUPLICATES_MOST_PARTS];
  place next[DUPLICATES_MOST_PARTS]; /* of each part */
  int64_t n_first[DUPLICATES_MOST_PARTS];
  int32_t heap[DUPLICATES_MOST_PARTS]; /* parts that have a next place, the one with the least line at [0] */
  int32_t n;
} merge;

static void sink(merge *m, int32_t at)
{
  for (int32_t child = 2 * at + 1; child < m->n; child = 2 * at + 1) {
    if (child + 1 < m->n && m->next[m->heap[child + 1]].line < m->next[m->heap[child]].line) {
      child++;
    }
    int32_t above = m->heap[at], below = m->heap[child];
    if (m->next[above].line <= m->next[below].line) {
      break;
    }
    m->heap[at] = below;
    m->heap[child] = above;
    at = child;
  }
}

static int merge_open(merge *m, const char *folder, int32_t n_parts)
{
  int code = TSR_EXIT_OK;
  for (int32_t part = 0; part < n_parts && code == TSR_EXIT_OK; part++) {
    int got = 0;
    code = spool_open(&m->lines[part], folder, "lines", part);
    if (code == TSR_EXIT_OK) {
      code = spool_get(&m->lines[part], &m->next[part], sizeof m->next[part], &got);
    }
    if (got) {
      m->heap[m->n++] = part;
    }
  }
  for (int32_t at = m->n / 2 - 1; at >= 0 && code == TSR_EXIT_OK; at--) {
    sink(m, at);
  }
  return code;
}

/* Goes to the place behind the one at the top. */
static int advance(merge *m)
{
  int got = 0;
  int32_t part = m->heap[0];
  int code = spool_get(&m->lines[part], &m->next[part], sizeof m->next[part], &got);
  if (!got) {
    m->heap[0] = m->heap[--m->n];
  }
  sink(m, 0);
  return code;
}

/* Takes a sentence's part, and whether it is the first of its kind. Returns an exit code. */
typedef int (*place_fn)(void *user, int32_t part, int is_first);

/* All sentences in the order of their lines. */
static int merge_all(const char *folder, int32_t n_parts, place_fn take, void *user)
{
  merge *m = calloc(1, sizeof *m);
  int code = m ? merge_open(m, folder, n_parts) : tsr_cli_no_memory();
  while (code == TSR_EXIT_OK && m->n > 0) {
    int32_t part = m->heap[0];
    int is_first = m->next[part].index == m->n_first[part];
    m->n_first[part] += is_first;
    code = take(user, part, is_first);
    code = code == TSR_EXIT_OK ? advance(m) : code;
  }
  for (int32_t part = 0; m && part < n_parts; part++) {
    spool_finish(&m->lines[part]);
  }
  free(m);
  return code;
}

/* Files of all parts. */
typedef int (*spool_open_fn)(spool *s, const char *folder, const char *name, int32_t number);

static int open_all(spool *files, spool_open_fn open, const char *folder, const char *name, int32_t n_parts)
{
  int code = TSR_EXIT_OK;
  for (int32_t part = 0; part < n_parts && code == TSR_EXIT_OK; part++) {
    code = open(&files[part], folder, name, part);
  }
  return code;
}

static int close_all(spool *files, int32_t n_parts)
{
  int code = TSR_EXIT_OK;
  for (int32_t part = 0; part < n_parts; part++) {
    int closed = spool_close(&files[part]);
    code = code == TSR_EXIT_OK ? closed : code;
  }
  return code;
}

static void remove_all(spool *files, int32_t n_parts)
{
  for (int32_t part = 0; part < n_parts; part++) {
    spool_remove(&files[part]);
  }
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* Files of the parts that are read, or written, by lines. */
typedef struct stream {
  spool *files; /* of all parts */
  spool_text text;
  tsr_file_writer *writer;
  duplicates_counts counts;
  duplicates_line_fn next;
  void *user;
} stream;

/* A place_fn: writes the next text of the part. */
static int write_text(void *user, int32_t part, int is_first)
{
  stream *s = user;
  s->counts.sentences++;
  s->counts.distinct += is_first;
  int code = spool_get_text(&s->files[part], &s->text);
  return code == TSR_EXIT_OK ? corpus_put_line(s->writer, s->text.bytes, s->text.size) : code;
}

/* A place_fn: writes the distinct sentences. */
static int write_first(void *user, int32_t part, int is_first)
{
  stream *s = user;
  if (is_first) {
    return write_text(s, part, is_first);
  }
  s->counts.sentences++;
  return TSR_EXIT_OK;
}

/* Writes the distinct sentences in the order in which they first come. */
static int order_distinct(int32_t n_parts, const char *folder, const char *distinct, duplicates_counts *counts)
{
  spool first[DUPLICATES_MOST_PARTS] = {{0}};
  stream s = {.files = first};
  int code = open_all(first, spool_open, folder, "first", n_parts);
  code = code == TSR_EXIT_OK ? tsr_cli_fail(tsr_file_writer_open(distinct, &s.writer)) : code;
  code = code == TSR_EXIT_OK ? merge_all(folder, n_parts, write_first, &s) : code;
  code = code == TSR_EXIT_OK ? tsr_cli_fail(tsr_file_writer_commit(&s.writer)) : code;
  tsr_file_writer_abandon(s.writer);
  free(s.text.bytes);
  remove_all(first, n_parts);
  *counts = s.counts;
  return code;
}

/* What a run that was killed left, perhaps of more parts. */
static void remove_leftovers(const char *folder)
{
  static const char *const names[] = {"text", "first", "lines", "result", "all"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    for (int32_t part = 0; part < DUPLICATES_MOST_PARTS; part++) {
      char *path = spool_path(folder, names[i], part);
      if (path) {
        unlink(path);
      }
      free(path);
    }
  }
}

int duplicates_find(const corpus_files *files, int32_t n_parts, const char *folder, const char *distinct,
                    duplicates_counts *counts)
{
  spool parts[DUPLICATES_MOST_PARTS] = {{0}};
  corpus_reader reader = {0};
  const corpus_place start = {0};
  remove_leftovers(folder);
  int code = open_all(parts, spool_create, folder, "text", n_parts);
  code = code == TSR_EXIT_OK ? corpus_reader_open(&reader, files, &start) : code;
  code = code == TSR_EXIT_OK ? divide(&reader, parts, n_parts) : code;
  corpus_reader_finish(&reader);
  if (code != TSR_EXIT_OK) {
    remove_all(parts, n_parts);
    return code;
  }
  code = close_all(parts, n_parts);
  for (int32_t part = 0; part < n_parts && code == TSR_EXIT_OK; part++) {
    code = look_through(folder, part);
  }
  return code == TSR_EXIT_OK ? order_distinct(n_parts, folder, distinct, counts) : code;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

/* A place_fn: gives a part what became of its next distinct sentence. */
static int distribute(void *user, int32_t part, int is_first)
{
  stream *s = user;
  const char *line = NULL;
  size_t size = 0;
  int code = is_first ? s->next(s->user, &line, &size) : TSR_EXIT_OK;
  return is_first && code == TSR_EXIT_OK ? spool_put_text(&s->files[part], line, size) : code;
}

/* The results of a part, all of them in memory, in the places of its sentences. */
static int expand(spool *lines, spool *result, spool *all)
{
  known results = {0};
  spool_text text = {0};
  place at;
  int code = TSR_EXIT_OK;
  for (int got = 1; code == TSR_EXIT_OK;) {
    code = spool_get(lines, &at, sizeof at, &got);
    if (code != TSR_EXIT_OK || !got) {
      break;
    }
    if (at.index == results.n) {
      code = spool_get_text(result, &text);
      code = code == TSR_EXIT_OK ? known_add(&results, text.bytes, text.size) : code;
    }
    if (code == TSR_EXIT_OK && (at.index < 0 || at.index >= results.n)) {
      code = spool_fail(lines);
    }
    if (code == TSR_EXIT_OK) {
      size_t size;
      const char *found = text_of(&results, at.index, &size);
      code = spool_put_text(all, found, size);
    }
  }
  free(text.bytes);
  known_finish(&results);
  return code;
}

static int expand_part(const char *folder, int32_t part)
{
  spool lines = {0}, result = {0}, all = {0};
  int code = spool_open(&lines, folder, "lines", part);
  code = code == TSR_EXIT_OK ? spool_open(&result, folder, "result", part) : code;
  code = code == TSR_EXIT_OK ? spool_create(&all, folder, "all", part) : code;
  code = code == TSR_EXIT_OK ? expand(&lines, &result, &all) : code;
  code = code == TSR_EXIT_OK ? spool_close(&all) : code;
  spool_remove(&result);
  spool_finish(&lines);
  spool_finish(&all);
  return code;
}

int duplicates_join(int32_t n_parts, const char *folder, duplicates_line_fn next, void *user, tsr_file_writer *writer,
                    int64_t *n)
{
  spool files[DUPLICATES_MOST_PARTS] = {{0}};
  stream s = {.files = files, .writer = writer, .next = next, .user = user};
  int code = open_all(files, spool_create, folder, "result", n_parts);
  code = code == TSR_EXIT_OK ? merge_all(folder, n_parts, distribute, &s) : code;
  code = code == TSR_EXIT_OK ? close_all(files, n_parts) : code;
  for (int32_t part = 0; part < n_parts && code == TSR_EXIT_OK; part++) {
    code = expand_part(folder, part);
  }
  code = code == TSR_EXIT_OK ? open_all(files, spool_open, folder, "all", n_parts) : code;
  code = code == TSR_EXIT_OK ? merge_all(folder, n_parts, write_text, &s) : code;
  free(s.text.bytes);
  remove_all(files, n_parts);
  *n = s.counts.sentences;
  return code;
}
