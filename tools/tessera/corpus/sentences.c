/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/corpus/sentences.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/corpus/fingerprint.h"

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int is_compressed(const char *path)
{
  const char *end = strrchr(path, '.');
  return end && (strcasecmp(end, ".gz") == 0 || strcasecmp(end, ".zst") == 0);
}

int64_t corpus_expected_bytes(const char *const *paths, int32_t n_paths)
{
  enum { RATIO = 4 /* about what texts are compressed by */ };
  int64_t sum = 0;
  for (int32_t i = 0; i < n_paths; i++) {
    struct stat facts;
    if (stat(paths[i], &facts) != 0 || !S_ISREG(facts.st_mode)) {
      return 0;
    }
    sum += (int64_t)facts.st_size * (is_compressed(paths[i]) ? RATIO : 1);
  }
  return sum;
}

int corpus_put_line(tsr_file_writer *writer, const char *text, size_t size)
{
  tsr_status status = tsr_file_writer_write(writer, text, size);
  return tsr_cli_fail(status == TSR_OK ? tsr_file_writer_write(writer, "\n", 1) : status);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int open_file(corpus_reader *reader, int32_t number)
{
  tsr_text_file_close(reader->file);
  reader->file = NULL;
  reader->file_number = number;
  const corpus_files *files = reader->files;
  if (number == files->n) {
    return TSR_EXIT_OK;
  }
  return tsr_cli_fail_input(tsr_text_file_open(files->paths[number], files->part, &reader->file));
}

int corpus_reader_open(corpus_reader *reader, const corpus_files *files, const corpus_place *place)
{
  *reader = (corpus_reader){.files = files, .place = *place};
  int code = open_file(reader, place->file);
  if (code == TSR_EXIT_OK && reader->file && place->number > 0) {
    code = tsr_cli_fail_input(tsr_text_file_seek(reader->file, place->offset, place->number));
  }
  return code;
}

void corpus_reader_finish(corpus_reader *reader)
{
  tsr_text_file_close(reader->file);
  *reader = (corpus_reader){0};
}

int corpus_reader_next(corpus_reader *reader, tsr_corpus_sentence *sentence, int *got)
{
  int32_t end = 1;
  int code = TSR_EXIT_OK;
  while (reader->file && end && code == TSR_EXIT_OK) {
    int64_t offset = tsr_text_file_tell(reader->file);
    code = tsr_cli_fail_input(tsr_text_file_next(reader->file, sentence, &end));
    if (code == TSR_EXIT_OK && end) {
      code = open_file(reader, reader->file_number + 1);
    } else if (code == TSR_EXIT_OK) {
      reader->place = (corpus_place){reader->file_number, offset, sentence->number - 1};
    }
  }
  *got = !end;
  return code;
}

uint64_t corpus_sum(const tsr_corpus_sentence *sentence, int64_t index)
{
  return corpus_hash(sentence->text, sentence->size, (uint64_t)index);
}

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

enum { MARKS = 1 << 18 };

/* A sentence's place, and the sum of those before it. */
typedef struct mark {
  corpus_place place;
  uint64_t sum;
} mark;

/* Of sentences 0, stride, 2 stride ..: as many as there is room for. */
typedef struct marks {
  mark *list;
  int64_t n;
  int64_t stride;
  uint64_t sum; /* of all sentences so far */
} marks;

static void add_mark(marks *m, int64_t sentence, const mark *added)
{
  if (sentence % m->stride == 0 && m->n == MARKS) {
    m->n = MARKS / 2;
    m->stride *= 2;
    for (int64_t i = 1; i < m->n; i++) {
      m->list[i] = m->list[2 * i];
    }
  }
  if (sentence % m->stride == 0) {
    m->list[m->n++] = *added;
  }
}

static int read_all(corpus_reader *reader, marks *m, corpus_shards *shards)
{
  tsr_cli_progress progress;
  tsr_corpus_sentence sentence;
  int code = TSR_EXIT_OK;
  tsr_cli_progress_start(&progress, "reading sentences");
  for (int got = 1; got && code == TSR_EXIT_OK;) {
    code = corpus_reader_next(reader, &sentence, &got);
    if (code == TSR_EXIT_OK && got) {
      add_mark(m, shards->sentences, &(mark){reader->place, m->sum});
      m->sum += corpus_sum(&sentence, shards->sentences++);
      tsr_cli_progress_update(&progress, shards->sentences, 0);
    }
  }
  tsr_cli_progress_clear(&progress);
  return code;
}

/* Where a shard begins: at a mark near the sentence that would divide all evenly, or at the end. */
static int64_t begin_of(const corpus_shards *shards, const marks *m, int32_t k)
{
  int64_t even = shards->sentences / shards->n * k + shards->sentences % shards->n * k / shards->n;
  int64_t at = (even + m->stride / 2) / m->stride;
  return at < m->n && k < shards->n ? at * m->stride : shards->sentences;
}

static int divide(corpus_shards *shards, const marks *m, int32_t n)
{
  int64_t most = (shards->sentences + CORPUS_SHARD_SENTENCES - 1) / CORPUS_SHARD_SENTENCES;
  most = most < 1 ? 1 : most < CORPUS_MAX_SHARDS ? most : CORPUS_MAX_SHARDS;
  shards->n = n > 0 ? n : (int32_t)most;
  shards->list = calloc((size_t)shards->n, sizeof *shards->list);
  if (!shards->list) {
    return tsr_cli_no_memory();
  }
  for (int32_t k = 0; k < shards->n; k++) {
    corpus_shard *shard = &shards->list[k];
    shard->first = begin_of(shards, m, k);
    shard->n = begin_of(shards, m, k + 1) - shard->first;
    int64_t end = shard->first + shard->n;
    if (shard->n > 0) {
      const mark *first = &m->list[shard->first / m->stride];
      shard->begin = first->place;
      shard->sum = (end < shards->sentences ? m->list[end / m->stride].sum : m->sum) - first->sum;
    }
  }
  return TSR_EXIT_OK;
}

int corpus_cut(const corpus_files *files, int32_t n, corpus_shards *shards)
{
  *shards = (corpus_shards){0};
  marks m = {.list = malloc(MARKS * sizeof *m.list), .stride = 1};
  corpus_reader reader = {0};
  const corpus_place start = {0};
  int code = m.list ? TSR_EXIT_OK : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK) {
    code = corpus_reader_open(&reader, files, &start);
  }
  if (code == TSR_EXIT_OK) {
    code = read_all(&reader, &m, shards);
  }
  if (code == TSR_EXIT_OK) {
    code = divide(shards, &m, n);
  }
  corpus_reader_finish(&reader);
  free(m.list);
  return code;
}

void corpus_shards_finish(corpus_shards *shards)
{
  free(shards->list);
  *shards = (corpus_shards){0};
}
