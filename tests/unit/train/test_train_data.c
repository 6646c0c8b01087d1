/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of training batches: what is in them, that they repeat from every position whatever the threads do, and what
 * is said about bad files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tessera/training_data.h"
#include "tests/support/temporary.h"

static const char recorded_model[] = TESSERA_SOURCE_ROOT "/tests/data/marian-en-fr";
static const tsr_corpus_files test_files = {TESSERA_SOURCE_ROOT "/tests/data/tatoeba/test.en",
                                            TESSERA_SOURCE_ROOT "/tests/data/tatoeba/test.fr"};

enum { START = 5000, TARGET_PAD = 5000, SOURCE_PAD = 1 };

static char *folder;
static tsr_tokenizer *tokenizer;

static int set_up(void **state)
{
  (void)state;
  folder = make_temporary_folder();
  return tsr_tokenizer_open_folder(recorded_model, &tokenizer) == TSR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
  (void)state;
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
  return 0;
}

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

static tsr_training_data_options usual_options(tsr_corpus_files files)
{
  return (tsr_training_data_options){TSR_SIZED(tsr_training_data_options),
                                     .files = files,
                                     .tokenizer = tokenizer,
                                     .batch_tokens = 200,
                                     .step = 4,
                                     .seed = 7,
                                     .shuffle = 1,
                                     .epochs = 1,
                                     .decoder_start_id = START,
                                     .source_pad_id = SOURCE_PAD,
                                     .target_pad_id = TARGET_PAD};
}

static tsr_training_data *open_data(const tsr_training_data_options *options)
{
  tsr_training_data *data;
  if (tsr_training_data_create(options, &data) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  return data;
}

static const tsr_training_batch *next(tsr_training_data *data)
{
  const tsr_training_batch *batch;
  if (tsr_training_data_next(data, &batch) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  return batch;
}

static char *copy_path(const char *name)
{
  char *path = strdup(path_in(folder, name));
  assert_non_null(path);
  return path;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Batches
 */

/* What must hold of every batch. */
static void check_form(const tsr_training_batch *batch, const tsr_training_data_options *o)
{
  int32_t larger = batch->source_width > batch->target_width ? batch->source_width : batch->target_width;
  assert_int_equal(batch->rows, o->batch_tokens / larger);
  assert_in_range(batch->sentences, 1, batch->rows);
  assert_int_equal(batch->source_width % o->step, 0);
  assert_int_equal(batch->target_width % o->step, 0);
  int64_t source_tokens = 0;
  int64_t target_tokens = 0;
  for (int32_t row = 0; row < batch->rows; row++) {
    const int32_t *source = batch->source + (int64_t)row * batch->source_width;
    const int32_t *target = batch->target + (int64_t)row * batch->target_width;
    const int32_t *labels = batch->labels + (int64_t)row * batch->target_width;
    int32_t length = batch->source_lengths[row];
    int is_sentence = row < batch->sentences;
    assert_in_range(length, is_sentence ? 2 : 0, is_sentence ? batch->source_width : 0);
    for (int32_t i = 0; i < batch->source_width; i++) {
      assert_true(i < length ? (source[i] == 0) == (i == length - 1) : source[i] == SOURCE_PAD);
    }
    int32_t n = 0;
    while (n < batch->target_width && labels[n] >= 0) {
      n++;
    }
    assert_true(is_sentence ? n >= 2 && labels[n - 1] == 0 : n == 0);
    for (int32_t i = 0; i < batch->target_width; i++) {
      assert_int_equal(target[i], i >= n ? TARGET_PAD : i == 0 ? START : labels[i - 1]);
      assert_true(i < n || labels[i] == -1);
    }
    source_tokens += length;
    target_tokens += n;
  }
  assert_int_equal(batch->source_tokens, source_tokens);
  assert_int_equal(batch->target_tokens, target_tokens);
}

/* 1 if row `row` holds this pair. */
static int holds(const tsr_training_batch *batch, int32_t row, const tsr_corpus_pair *pair)
{
  int32_t *source;
  int32_t *target;
  int32_t n_source;
  int32_t n_target;
  assert_int_equal(tsr_tokenizer_encode(tokenizer, pair->source, pair->source_size, &source, &n_source), TSR_OK);
  assert_int_equal(tsr_tokenizer_encode_target(tokenizer, pair->target, pair->target_size, &target, &n_target), TSR_OK);
  const int32_t *labels = batch->labels + (int64_t)row * batch->target_width;
  int equal =
      batch->source_lengths[row] == n_source && n_target <= batch->target_width &&
      memcmp(batch->source + (int64_t)row * batch->source_width, source, (size_t)n_source * sizeof *source) == 0 &&
      memcmp(labels, target, (size_t)n_target * sizeof *target) == 0;
  tsr_free(source);
  tsr_free(target);
  return equal;
}

/* Each pair of the corpus comes once in each epoch, as it stands in the files. */
static void check_epochs(tsr_training_data_options options, int32_t n_lines)
{
  options.epochs = 2;
  tsr_training_data *data = open_data(&options);
  unsigned char *seen = calloc((size_t)n_lines, 1);
  int64_t *place = calloc((size_t)n_lines, sizeof *place);
  assert_true(seen && place);
  int64_t n = 0;
  int64_t n_batches = 0;
  int32_t same_place = 0;
  const tsr_training_batch *batch;
  while ((batch = next(data))) {
    check_form(batch, &options);
    assert_int_equal(batch->index, n_batches++);
    for (int32_t row = 0; row < batch->sentences; row++, n++) {
      int64_t line = batch->lines[row];
      assert_in_range(line, 1, n_lines);
      assert_int_equal(batch->epoch, n / n_lines);
      assert_int_equal(seen[line - 1]++, batch->epoch);
      same_place += batch->epoch == 1 && place[line - 1] == n % n_lines;
      place[line - 1] = n % n_lines;
    }
  }
  assert_int_equal(n, 2 * (int64_t)n_lines);
  assert_null(next(data));
  if (options.shuffle && options.pool != 1) {
    assert_true(same_place < n_lines / 10);
  } else {
    assert_int_equal(same_place, n_lines);
  }
  tsr_training_data_counts counts;
  tsr_training_data_get_counts(data, &counts);
  assert_int_equal(counts.read, n_lines);
  assert_int_equal(counts.kept, n_lines);
  free(seen);
  free(place);
  tsr_training_data_destroy(data);
}

static void test_epochs(void **state)
{
  (void)state;
  tsr_training_data_options options = usual_options(test_files);
  check_epochs(options, 1000);
  options.pool = 1000; /* the end shows only in the next pool, which is empty */
  check_epochs(options, 1000);
  options.pool = 300;
  check_epochs(options, 1000);
  options.pool = 1;
  options.batch_tokens = 64;
  options.step = 1;
  check_epochs(options, 1000);
  options = usual_options(test_files);
  options.shuffle = 0;
  options.batch_tokens = 2500;
  options.step = 8;
  check_epochs(options, 1000);
}

static void test_contents(void **state)
{
  (void)state;
  tsr_training_data_options options = usual_options(test_files);
  options.pool = 64;
  options.shuffle = 1;
  tsr_training_data *data = open_data(&options);
  tsr_corpus *corpus;
  assert_int_equal(tsr_corpus_open(&test_files, &corpus), TSR_OK);
  const tsr_training_batch *batch;
  while ((batch = next(data))) {
    for (int32_t row = 0; row < batch->sentences; row++) {
      const tsr_corpus_position beginning = {0};
      assert_int_equal(tsr_corpus_seek(corpus, &beginning), TSR_OK);
      tsr_corpus_pair pair = {0};
      int32_t end = 0;
      while (!end && pair.number < batch->lines[row]) {
        assert_int_equal(tsr_corpus_next(corpus, &pair, &end), TSR_OK);
      }
      assert_false(end);
      assert_true(holds(batch, row, &pair));
    }
  }
  tsr_corpus_close(corpus);
  tsr_training_data_destroy(data);
}

/* Few rows stay empty, and few shapes occur. */
static void test_economy(void **state)
{
  (void)state;
  tsr_training_data_options options = usual_options(test_files);
  options.batch_tokens = 1000;
  tsr_training_data *data = open_data(&options);
  int64_t rows = 0;
  int64_t sentences = 0;
  const tsr_training_batch *batch;
  while ((batch = next(data))) {
    rows += batch->rows;
    sentences += batch->sentences;
  }
  assert_int_equal(sentences, 1000);
  assert_true(rows < 1150);
  tsr_training_data_destroy(data);
}

static void test_filters(void **state)
{
  (void)state;
  char *path = copy_path("filters.tsv");
  write_text(path, "I like you.\tJe.\n"                                        /* 5 : 2 */
                   "\tJe\n"                                                    /* empty */
                   "I\t \n"                                                    /* empty */
                   "you you you you you you you you you you\tJe Je Je Je Je\n" /* 11: too long */
                   "you you you you you\tJe Je Je Je Je Je Je Je Je Je\n"      /* 11: too long */
                   "you\tJe Je Je Je Je Je Je\n"                               /* 2 : 8 uneven */
                   "you you you\tJe Je Je\n");
  tsr_training_data_options options = usual_options((tsr_corpus_files){path, NULL});
  options.max_source = 10;
  options.max_target = 10;
  options.max_ratio = 3;
  options.shuffle = 0;
  tsr_training_data *data = open_data(&options);
  const tsr_training_batch *batch = next(data);
  assert_int_equal(batch->sentences + (batch->source_width == 4), 2);
  while ((batch = next(data))) {
  }
  tsr_training_data_counts counts;
  tsr_training_data_get_counts(data, &counts);
  assert_int_equal(counts.read, 7);
  assert_int_equal(counts.kept, 2);
  assert_int_equal(counts.empty, 2);
  assert_int_equal(counts.too_long, 2);
  assert_int_equal(counts.uneven, 1);
  tsr_training_data_destroy(data);
  free(path);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Positions
 */
typedef struct copy {
  size_t size;
  void *bytes;
} copy;

enum { MAX_COPIES = 512 };

static void add_bytes(copy *to, const void *bytes, size_t size)
{
  to->bytes = realloc(to->bytes, to->size + size);
  assert_non_null(to->bytes);
  memcpy((char *)to->bytes + to->size, bytes, size);
  to->size += size;
}

/* All that a batch says. */
static copy copy_batch(const tsr_training_batch *batch)
{
  copy made = {0};
  const int64_t numbers[] = {batch->rows,          batch->sentences,     batch->source_width, batch->target_width,
                             batch->source_tokens, batch->target_tokens, batch->index,        batch->epoch};
  add_bytes(&made, numbers, sizeof numbers);
  size_t rows = (size_t)batch->rows;
  add_bytes(&made, batch->source, rows * (size_t)batch->source_width * sizeof *batch->source);
  add_bytes(&made, batch->target, rows * (size_t)batch->target_width * sizeof *batch->target);
  add_bytes(&made, batch->labels, rows * (size_t)batch->target_width * sizeof *batch->labels);
  add_bytes(&made, batch->source_lengths, rows * sizeof *batch->source_lengths);
  add_bytes(&made, batch->lines, (size_t)batch->sentences * sizeof *batch->lines);
  return made;
}

static void expect_batch(tsr_training_data *data, const copy *expected)
{
  const tsr_training_batch *batch = next(data);
  assert_non_null(batch);
  copy found = copy_batch(batch);
  assert_int_equal(found.size, expected->size);
  assert_memory_equal(found.bytes, expected->bytes, found.size);
  free(found.bytes);
}

/* The consumer's delays: the thread is ahead, or behind. */
static void dawdle(int32_t i)
{
  if (i % 5 == 0) {
    const struct timespec while_ = {.tv_nsec = (i % 3) * 300000L};
    nanosleep(&while_, NULL);
  }
}

/* From every position the rest follows: `ahead` batches of it, and at some places all. */
static void check_positions(tsr_training_data_options options, int32_t least_batches, int32_t ahead)
{
  static copy copies[MAX_COPIES];
  static tsr_training_data_position positions[MAX_COPIES + 1];
  tsr_training_data *data = open_data(&options);
  int32_t n = 0;
  tsr_training_data_tell(data, &positions[0]);
  const tsr_training_batch *batch;
  while ((batch = next(data))) {
    assert_true(n < MAX_COPIES);
    copies[n++] = copy_batch(batch);
    tsr_training_data_tell(data, &positions[n]);
    assert_int_equal(positions[n].index, n);
    dawdle(n);
  }
  assert_in_range(n, least_batches, MAX_COPIES);
  tsr_training_data_position told;
  tsr_training_data_tell(data, &told);
  assert_int_equal(told.epoch, options.epochs);

  /* With the same stream, backwards, and with one made for each. */
  for (int32_t i = n; i >= 0; i--) {
    assert_int_equal(tsr_training_data_seek(data, &positions[i]), TSR_OK);
    tsr_training_data_tell(data, &told);
    assert_memory_equal(&told, &positions[i], sizeof told);
    tsr_training_data *other = NULL;
    if (i % 4 == 0) {
      other = open_data(&options);
      dawdle(i);
      assert_int_equal(tsr_training_data_seek(other, &positions[i]), TSR_OK);
    }
    int32_t end = i % 16 == 0 || i + ahead > n ? n : i + ahead;
    for (int32_t k = i; k < end; k++) {
      expect_batch(data, &copies[k]);
      tsr_training_data_tell(data, &told);
      assert_memory_equal(&told, &positions[k + 1], sizeof told);
      if (other) {
        expect_batch(other, &copies[k]);
      }
    }
    if (end == n) {
      assert_null(next(data));
      assert_null(next(data));
    }
    tsr_training_data_destroy(other);
  }
  for (int32_t i = 0; i < n; i++) {
    free(copies[i].bytes);
  }
  tsr_training_data_destroy(data);
}

enum { EN, FR, TSV, EN_SGM, FR_SGM, N_FORMS };
static const char *const form_names[N_FORMS] = {"small.en", "small.fr", "small.tsv", "small.en.sgm", "small.fr.sgm"};

/* The first lines of the test files: as two files, as one, and as WMT has them. */
static void write_corpora(int32_t n_lines, char *paths[N_FORMS])
{
  FILE *out[N_FORMS];
  for (int i = 0; i < N_FORMS; i++) {
    paths[i] = copy_path(form_names[i]);
    out[i] = fopen(paths[i], "wb");
    assert_non_null(out[i]);
  }
  tsr_corpus *corpus;
  assert_int_equal(tsr_corpus_open(&test_files, &corpus), TSR_OK);
  fputs("<srcset setid=\"s\" srclang=\"en\">\n<doc docid=\"d\">\n", out[EN_SGM]);
  fputs("<refset setid=\"s\" srclang=\"en\" trglang=\"fr\">\n<doc docid=\"d\">\n", out[FR_SGM]);
  for (int32_t i = 0; i < n_lines; i++) {
    tsr_corpus_pair pair;
    int32_t end;
    assert_int_equal(tsr_corpus_next(corpus, &pair, &end), TSR_OK);
    assert_false(end);
    fprintf(out[EN], "%.*s\n", (int)pair.source_size, pair.source);
    fprintf(out[FR], "%.*s\r\n", (int)pair.target_size, pair.target);
    fprintf(out[TSV], "%.*s\t%.*s\n", (int)pair.source_size, pair.source, (int)pair.target_size, pair.target);
    fprintf(out[EN_SGM], "<seg id=\"%d\"> %.*s </seg>\n", (int)i + 1, (int)pair.source_size, pair.source);
    fprintf(out[FR_SGM], "<p><seg id=\"%d\">%.*s</seg></p>\n", (int)i + 1, (int)pair.target_size, pair.target);
  }
  fputs("</doc>\n</srcset>\n", out[EN_SGM]);
  fputs("</doc>\n</refset>\n", out[FR_SGM]);
  for (int i = 0; i < N_FORMS; i++) {
    assert_int_equal(fclose(out[i]), 0);
  }
  tsr_corpus_close(corpus);
}

static void test_positions(void **state)
{
  (void)state;
  char *paths[N_FORMS];
  write_corpora(150, paths);
  tsr_training_data_options options = usual_options((tsr_corpus_files){paths[EN], paths[FR]});
  options.batch_tokens = 100;
  options.epochs = 3;
  check_positions(options, 50, 4); /* kept whole */
  options.pool = 40;
  check_positions(options, 60, 12);
  options.pool = 1;
  options.epochs = 2;
  options.max_target = 12; /* some of these pools are empty */
  check_positions(options, 60, 3);
  options = usual_options((tsr_corpus_files){paths[TSV], NULL});
  options.batch_tokens = 100;
  options.epochs = 2;
  options.pool = 50; /* the third ends with the file */
  options.shuffle = 0;
  check_positions(options, 40, 12);
  options.files = (tsr_corpus_files){paths[EN_SGM], paths[FR_SGM]};
  options.pool = 70;
  options.shuffle = 1;
  check_positions(options, 40, 12);
  for (int i = 0; i < N_FORMS; i++) {
    free(paths[i]);
  }
}

static void test_task_positions(void **state)
{
  (void)state;
  tsr_toy_task task = {.kind = TSR_TOY_TASK_REVERSE, .vocabulary = 20, .min_length = 1, .max_length = 12, .seed = 3};
  tsr_training_data_options options = usual_options((tsr_corpus_files){0});
  options.tokenizer = NULL;
  options.task = &task;
  options.task_examples = 200;
  options.pool = 60;
  options.epochs = 2;
  options.batch_tokens = 100;
  check_positions(options, 40, 8);
  task.set = TSR_TOY_TASK_HELD_OUT;
  options.shuffle = 0;
  options.pool = 0;
  check_positions(options, 20, 8);
}

/* Trained examples never come twice; what is held out is the same in each epoch. */
static void test_task_epochs(void **state)
{
  (void)state;
  for (int32_t set = TSR_TOY_TASK_TRAINING; set <= TSR_TOY_TASK_HELD_OUT; set++) {
    tsr_toy_task task = {
        .kind = TSR_TOY_TASK_COPY, .set = set, .vocabulary = 300, .min_length = 8, .max_length = 8, .seed = 3};
    tsr_training_data_options options = usual_options((tsr_corpus_files){0});
    options.task = &task;
    options.task_examples = 16;
    options.epochs = 2;
    options.shuffle = 0;
    options.batch_tokens = 12 * 16;
    tsr_training_data *data = open_data(&options);
    const tsr_training_batch *batch = next(data);
    assert_int_equal(batch->sentences, 16);
    assert_int_equal(batch->source_width, 12);
    copy first = {0};
    add_bytes(&first, batch->source, 12 * 16 * sizeof *batch->source);
    check_form(batch, &options);
    batch = next(data);
    assert_int_equal(batch->epoch, 1);
    assert_int_equal(memcmp(batch->source, first.bytes, first.size) == 0, set == TSR_TOY_TASK_HELD_OUT);
    assert_null(next(data));
    free(first.bytes);
    tsr_training_data_destroy(data);
  }
}

/* Seeds and epochs order the pairs differently. */
static void test_seeds(void **state)
{
  (void)state;
  tsr_training_data_options options = usual_options(test_files);
  tsr_training_data *one = open_data(&options);
  tsr_training_data *same = open_data(&options);
  options.seed = 8;
  tsr_training_data *other = open_data(&options);
  copy of_one = copy_batch(next(one));
  expect_batch(same, &of_one);
  copy of_other = copy_batch(next(other));
  assert_true(of_one.size != of_other.size || memcmp(of_one.bytes, of_other.bytes, of_one.size) != 0);
  free(of_one.bytes);
  free(of_other.bytes);
  tsr_training_data_destroy(one);
  tsr_training_data_destroy(same);
  tsr_training_data_destroy(other);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Errors
 */
static void expect_error(tsr_training_data *data, tsr_status expected, const char *fragment)
{
  for (int i = 0; i < 2; i++) { /* it stays */
    const tsr_training_batch *batch;
    assert_int_equal(tsr_training_data_next(data, &batch), expected);
    assert_null(batch);
    assert_message_has(fragment);
  }
}

static void test_bad_options(void **state)
{
  (void)state;
  const tsr_toy_task no_task = {0};
  static const struct {
    size_t field;
    int32_t value;
    const char *fragment;
  } bad[] = {
#define FIELD(name) offsetof(tsr_training_data_options, name)
      {FIELD(batch_tokens), 3, "the tokens of a batch is 3"},
      {FIELD(batch_tokens), 1 << 25, "the tokens of a batch"},
      {FIELD(step), -1, "the step of widths is -1"},
      {FIELD(max_source), 201, "the longest source, which has to fit into a batch, is 201, expected 1 .. 200"},
      {FIELD(max_target), -1, "the longest target"},
      {FIELD(pool), -5, "the size of a pool is -5"},
#undef FIELD
  };
  tsr_training_data *data;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    tsr_training_data_options options = usual_options(test_files);
    memcpy((char *)&options + bad[i].field, &bad[i].value, sizeof bad[i].value);
    assert_int_equal(tsr_training_data_create(&options, &data), TSR_ERR_ARGUMENT);
    assert_null(data);
    assert_message_has(bad[i].fragment);
  }
  tsr_training_data_options options = usual_options((tsr_corpus_files){0});
  assert_int_equal(tsr_training_data_create(&options, &data), TSR_ERR_ARGUMENT);
  assert_message_has("expected files and a tokenizer, or a task");
  options.task = &no_task;
  assert_int_equal(tsr_training_data_create(&options, &data), TSR_ERR_ARGUMENT);
  options = usual_options((tsr_corpus_files){"/no/such/file", "/no/such/file"});
  assert_int_equal(tsr_training_data_create(&options, &data), TSR_ERR_IO);
  assert_message_has("/no/such/file");
  assert_int_equal(tsr_training_data_create(NULL, &data), TSR_ERR_ARGUMENT);
  tsr_training_data_destroy(NULL);
}

static void test_without_pairs(void **state)
{
  (void)state;
  char *path = copy_path("empty.tsv");
  write_text(path, "");
  tsr_training_data_options options = usual_options((tsr_corpus_files){path, path});
  options.epochs = 0;
  tsr_training_data *data = open_data(&options);
  expect_error(data, TSR_ERR_FORMAT, "there are no sentence pairs in it");
  tsr_training_data_destroy(data);

  write_text(path, "\tx\nx\t\nyou you you you\tJe\n");
  options.files.target = NULL;
  options.max_source = 4;
  data = open_data(&options);
  expect_error(data, TSR_ERR_FORMAT, "of 3 pairs none is left: 2 have an empty side, 1 more than 4 source or 200");
  tsr_training_data_destroy(data);
  free(path);
}

/* Batches before the malformed line come, then the error, with file and line. */
static void test_malformed_line(void **state)
{
  (void)state;
  char *path = copy_path("malformed.tsv");
  write_text(path, "you\tJe\nyou\tJe\nyou\tJe\nno tab here\nyou\tJe\n");
  tsr_training_data_options options = usual_options((tsr_corpus_files){path, NULL});
  options.pool = 2;
  tsr_training_data *data = open_data(&options);
  tsr_training_data_position start;
  tsr_training_data_tell(data, &start);
  for (int i = 0; i < 2; i++) {
    const tsr_training_batch *batch = next(data);
    assert_int_equal(batch->sentences, 2);
    expect_error(data, TSR_ERR_FORMAT, "malformed.tsv");
    assert_message_has("4");
    assert_int_equal(tsr_training_data_seek(data, &start), TSR_OK);
  }
  tsr_training_data_destroy(data);

  /* One file is shorter. */
  char *shorter = copy_path("shorter.fr");
  write_text(shorter, "Je\nJe\n");
  options.files.target = shorter;
  data = open_data(&options);
  assert_int_equal(next(data)->sentences, 2);
  expect_error(data, TSR_ERR_FORMAT, "shorter.fr");
  tsr_training_data_destroy(data);
  free(shorter);
  free(path);
}

static void test_bad_positions(void **state)
{
  (void)state;
  tsr_training_data_options options = usual_options(test_files);
  options.pool = 300;
  tsr_training_data *data = open_data(&options);
  assert_non_null(next(data));
  tsr_training_data_position position;
  tsr_training_data_tell(data, &position);
  tsr_training_data_position bad = position;
  bad.batch = -1;
  assert_int_equal(tsr_training_data_seek(data, &bad), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_training_data_seek(data, NULL), TSR_ERR_ARGUMENT);
  assert_non_null(next(data)); /* nothing has changed */
  bad.batch = 100000;
  assert_int_equal(tsr_training_data_seek(data, &bad), TSR_OK);
  expect_error(data, TSR_ERR_ARGUMENT, "there is no batch 100000 in pool 0 of epoch 0");
  bad = position;
  bad.epoch = 0;
  bad.corpus.source = INT64_MAX / 2;
  bad.corpus.number = 7;
  assert_int_equal(tsr_training_data_seek(data, &bad), TSR_OK);
  expect_error(data, TSR_ERR_IO, "test.en");
  assert_int_equal(tsr_training_data_seek(data, &position), TSR_OK);
  assert_non_null(next(data));
  tsr_training_data_destroy(data);
}

/* Streams that are left in the midst of everything. */
static void test_leaving(void **state)
{
  (void)state;
  tsr_training_data_options options = usual_options(test_files);
  options.epochs = 0;
  for (int32_t i = 0; i < 20; i++) {
    options.pool = 1 + i * i;
    tsr_training_data *data = open_data(&options);
    for (int32_t k = 0; k < i; k++) {
      assert_non_null(next(data));
    }
    const tsr_training_data_position beginning = {0};
    if (i % 3 == 0) {
      assert_int_equal(tsr_training_data_seek(data, &beginning), TSR_OK);
    }
    tsr_training_data_destroy(data);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_epochs),         cmocka_unit_test(test_contents),
      cmocka_unit_test(test_economy),        cmocka_unit_test(test_filters),
      cmocka_unit_test(test_positions),      cmocka_unit_test(test_task_positions),
      cmocka_unit_test(test_task_epochs),    cmocka_unit_test(test_seeds),
      cmocka_unit_test(test_bad_options),    cmocka_unit_test(test_without_pairs),
      cmocka_unit_test(test_malformed_line), cmocka_unit_test(test_bad_positions),
      cmocka_unit_test(test_leaving),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
