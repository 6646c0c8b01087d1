/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches on several threads: the same results as on one, errors, progress, and which sentences share a batch.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/generate/batches.h"
#include "tests/model/generation.h"
#include "tests/model/random_model.h"

enum { N_SENTENCES = 45, N_BATCH = 4, MAX_WORKERS = 5 };

static const random_model model = {.seed = 31};

/* ---- which sentences share a batch ------------------------------------------------------------------------------- */

/* Every sentence in one batch, none too large; returns the number of workers. */
static int32_t check_batches(int32_t n, int32_t n_batch, int32_t beam, uint32_t concurrent, int32_t wanted,
                             int32_t *n_batches)
{
  int32_t lengths[1000];
  for (int32_t i = 0; i < n; i++) {
    lengths[i] = 2 + 40 * (n - i) / n;
  }
  tsr_batches batches;
  check(tsr_batches_init(&batches, lengths, n, n_batch, beam, concurrent, 16, wanted));
  assert_int_equal(batches.first[0], 0);
  for (int32_t i = 0; i < batches.n; i++) {
    assert_in_range(batches.first[i + 1] - batches.first[i], 1, n_batch);
  }
  assert_int_equal(batches.first[batches.n], n);
  int32_t n_workers = batches.n_workers;
  *n_batches = batches.n;
  tsr_batches_finish(&batches);
  return n_workers;
}

static void test_batches(void **state)
{
  (void)state;
  int32_t n_batches;
  /* Without concurrent runs: whole batches, one after another. */
  assert_int_equal(check_batches(1000, 32, 1, 0, 0, &n_batches), 1);
  assert_int_equal(n_batches, 32);
  /* Few sentences stay together. */
  assert_int_equal(check_batches(1, 32, 1, 8, 0, &n_batches), 1);
  assert_int_equal(n_batches, 1);
  assert_int_equal(check_batches(31, 32, 1, 2, 0, &n_batches), 1);
  assert_int_equal(n_batches, 1);
  /* A batch that is large enough for two. */
  assert_int_equal(check_batches(32, 32, 1, 2, 0, &n_batches), 2);
  assert_int_equal(n_batches, 2);
  /* The hypotheses of a sentence count as rows. */
  assert_int_equal(check_batches(8, 32, 4, 2, 0, &n_batches), 2);
  assert_int_equal(check_batches(4, 32, 4, 2, 0, &n_batches), 1);
  assert_int_equal(check_batches(2, 32, 16, 2, 0, &n_batches), 2);
  /* No more workers than work, and every one has a batch. */
  assert_int_equal(check_batches(64, 32, 1, 16, 0, &n_batches), 4);
  assert_in_range(n_batches, 4, 5);
  assert_int_equal(check_batches(1000, 32, 1, 2, 0, &n_batches), 2);
  assert_int_equal(n_batches, 32);
  assert_int_equal(tsr_least_rows(8 << 20), 2);
  assert_int_equal(tsr_least_rows(200 << 20), 32);
  /* What the caller wants counts. */
  assert_int_equal(check_batches(9, 32, 1, 0, 3, &n_batches), 3);
  assert_int_equal(check_batches(1000, 32, 1, 16, 1, &n_batches), 1);
  assert_int_equal(check_batches(3, 32, 1, 2, 100, &n_batches), 3);
  for (int32_t n = 1; n <= 200; n += 7) {
    for (int32_t workers = 1; workers <= 9; workers += 2) {
      int32_t n_workers = check_batches(n, 24, 1, 0, workers, &n_batches);
      assert_in_range(n_workers, 1, workers < n ? workers : n);
      check_batches(n, 5, 4, (uint32_t)workers, 0, &n_batches);
    }
  }
}

/* Programs are made for few numbers of rows, and few rows are computed for nothing. */
static void test_buckets(void **state)
{
  (void)state;
  for (int32_t n = 1; n <= 4096; n++) {
    int32_t bucket = tsr_batch_bucket(n);
    assert_in_range(bucket, n, n + 31);
    assert_true(bucket <= 2 * n);
    assert_int_equal(tsr_batch_bucket(bucket), bucket);
  }
  assert_int_equal(tsr_source_bucket(1, 512), 8);
  assert_int_equal(tsr_source_bucket(65, 512), 96);
  assert_int_equal(tsr_source_bucket(500, 510), 510);
  for (int32_t n = 1; n <= 1000; n++) {
    int32_t step = tsr_source_step(n, 999);
    assert_in_range(step, n < 999 ? n : 999, tsr_source_bucket(n, 999));
    assert_true(step <= n + n / 8);
  }
}

/* ---- the same results -------------------------------------------------------------------------------------------- */

static void generate(const setup *s, const batch *b, const tsr_generate_options *options, tsr_generation *g)
{
  check(tsr_generate(s->transformer, b->n, b->source, b->lengths, N_BATCH, options, NULL, NULL, g));
}

static void check_statistics(const setup *s, const batch *b, int32_t workers)
{
  tsr_generate_statistics statistics;
  tsr_generate_measure(s->transformer, &statistics);
  int64_t full = 0;
  int64_t tokens = 0;
  for (int32_t i = 0; i < b->n; i++) {
    full += b->lengths[i] > 0;
    tokens += b->lengths[i];
  }
  assert_int_equal(statistics.sentences, full);
  assert_int_equal(statistics.source_tokens, tokens);
  assert_true(statistics.target_tokens > 0 && statistics.step_runs > 0);
  assert_true(statistics.encode_runs >= full / N_BATCH);
  assert_int_equal(statistics.workers, workers);
  assert_true(statistics.seconds > 0 &&
              statistics.encode_seconds + statistics.step_seconds <= workers * statistics.seconds);
}

static void test_workers_equal_one(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &model);
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    for (int32_t beam = 1; beam <= 3; beam += 2) {
      setup one;
      batch b;
      tsr_generation expected;
      open_setup(f, device_name(f, d), &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = 1},
                 &one);
      make_batch(41, 37, N_SENTENCES, &b);
      tsr_generate_options options = options_for(&one, beam);
      generate(&one, &b, &options, &expected);
      check_statistics(&one, &b, 1);
      for (int32_t workers = 2; workers <= MAX_WORKERS; workers += MAX_WORKERS - 2) {
        setup several;
        tsr_generation found;
        open_setup(f, device_name(f, d),
                   &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = workers}, &several);
        generate(&several, &b, &options, &found);
        check_statistics(&several, &b, workers);
        for (int32_t i = 0; i < b.n * options.n_best; i++) {
          assert_same(&expected.hypotheses[i], &found.hypotheses[i]);
        }
        tsr_generation_finish(&found);
        close_setup(&several);
      }
      tsr_generation_finish(&expected);
      close_setup(&one);
      free_batch(&b);
    }
  }
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

typedef struct told {
  atomic_int inside;
  int32_t calls;
  int32_t overlaps;
  int64_t done;
  int64_t total;
} told;

static void on_progress(void *user, int64_t done, int64_t total)
{
  told *t = user;
  t->overlaps += atomic_fetch_add(&t->inside, 1);
  t->overlaps += done <= t->done;
  t->done = done;
  t->total = total;
  t->calls++;
  atomic_fetch_sub(&t->inside, 1);
}

static void test_progress(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &model);
  setup s;
  batch b;
  open_setup(f, "reference", &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = 3}, &s);
  make_batch(42, 37, N_SENTENCES, &b);
  tsr_generate_options options = options_for(&s, 1);
  for (int32_t round = 0; round < 2; round++) {
    told t = {0};
    tsr_generation g;
    check(tsr_generate(s.transformer, b.n, b.source, b.lengths, N_BATCH, &options, on_progress, &t, &g));
    tsr_generation_finish(&g);
    assert_int_equal(t.overlaps, 0);
    assert_int_equal(t.done, N_SENTENCES);
    assert_int_equal(t.total, N_SENTENCES);
    assert_in_range(t.calls, N_SENTENCES / N_BATCH, N_SENTENCES);
  }
  close_setup(&s);
  free_batch(&b);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static atomic_int n_runs;
static atomic_int failing_run; /* the number of the run that fails; 0: none */
static tsr_backend failing_table;
static const tsr_host *failing_host;

/* Runs that begin after the one that fails take 200 ms each: on a busy machine, too, the error reaches the caller
 * before many of them. */
static int32_t run_or_fail(tsr_backend_executable *executable)
{
  int run = atomic_fetch_add(&n_runs, 1) + 1;
  int failing = atomic_load(&failing_run);
  if (run == failing) {
    failing_host->report(failing_host, TSR_LOG_ERROR, "this run was told to fail");
    return TSR_ERR_DEVICE_LOST;
  }
  if (failing > 0 && run > failing) {
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
  }
  return tessera_backend_query(TSR_ABI_MAJOR, failing_host)->run(executable);
}

static const tsr_backend *failing_query(uint32_t major, const tsr_host *host)
{
  failing_host = host;
  failing_table = *tessera_backend_query(major, host);
  failing_table.name = "failing";
  failing_table.run = run_or_fail;
  return &failing_table;
}

static void test_errors(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &model);
  fixture own = {.folder = f->folder};
  setup s;
  batch b;
  tsr_generation expected;
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = ""}, &own.runtime));
  check(tsr_runtime_register(own.runtime, failing_query));
  open_setup(&own, "failing", &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = 3}, &s);
  make_batch(43, 37, N_SENTENCES, &b);
  tsr_generate_options options = options_for(&s, 1);
  generate(&s, &b, &options, &expected);
  int32_t all = atomic_load(&n_runs);
  /* Whichever fails, encoder or step: its error reaches the caller, the rest is given up, and nothing remains of it. */
  static const int32_t failing[] = {1, 2, 3, 4, 7, 20, 50};
  for (size_t i = 0; i < sizeof failing / sizeof failing[0]; i++) {
    tsr_generation g;
    atomic_store(&n_runs, 0);
    atomic_store(&failing_run, failing[i]);
    assert_true(failing[i] < all);
    assert_int_equal(tsr_generate(s.transformer, b.n, b.source, b.lengths, N_BATCH, &options, NULL, NULL, &g),
                     TSR_ERR_DEVICE_LOST);
    assert_non_null(strstr(tsr_error_message(), "failing:0: this run was told to fail"));
    assert_null(g.hypotheses);
    assert_true(atomic_load(&n_runs) < failing[i] + 20);
    atomic_store(&failing_run, 0);
    generate(&s, &b, &options, &g);
    for (int32_t k = 0; k < b.n; k++) {
      assert_same(&expected.hypotheses[k], &g.hypotheses[k]);
    }
    tsr_generation_finish(&g);
  }
  tsr_generation_finish(&expected);
  close_setup(&s);
  free_batch(&b);
  tsr_runtime_destroy(own.runtime);
}

/* Of sentences that are all empty nothing is computed; workers beyond the sentences have nothing to do. */
static void test_few_sentences(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &model);
  setup s;
  open_setup(f, "reference", &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = MAX_WORKERS},
             &s);
  const int32_t ids[] = {3, 1, 4};
  const int32_t *const source[] = {ids, ids, ids};
  for (int32_t beam = 1; beam <= 3; beam += 2) {
    tsr_generate_options options = options_for(&s, beam);
    tsr_generation none;
    tsr_generation one;
    check(tsr_generate(s.transformer, 3, source, (const int32_t[]){0, 0, 0}, 0, &options, NULL, NULL, &none));
    check(tsr_generate(s.transformer, 3, source, (const int32_t[]){0, 3, 0}, 0, &options, NULL, NULL, &one));
    for (int32_t i = 0; i < 3 * options.n_best; i++) {
      assert_int_equal(none.hypotheses[i].n_ids, 0);
      assert_int_equal(one.hypotheses[i].n_ids > 0, i / options.n_best == 1);
    }
    tsr_generation_finish(&none);
    tsr_generation_finish(&one);
    /* Two tokens at most: the start, and one that ends or is cut off. */
    options.max_length = 2;
    check(tsr_generate(s.transformer, 3, source, (const int32_t[]){3, 2, 1}, 0, &options, NULL, NULL, &one));
    for (int32_t i = 0; i < 3 * options.n_best; i++) {
      assert_int_equal(one.hypotheses[i].n_ids, 1);
    }
    tsr_generation_finish(&one);
  }
  tsr_generate_statistics statistics;
  tsr_generate_measure(s.transformer, &statistics);
  assert_int_equal(statistics.sentences, 2 * (1 + 3));
  close_setup(&s);
}

static void test_bad_arguments(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &model);
  tsr_model *opened;
  tsr_device *device;
  tsr_transformer *transformer;
  check(tsr_model_open(f->folder, &opened));
  check(tsr_device_open(f->runtime, "reference", &device));
  assert_int_equal(tsr_transformer_create(opened, device,
                                          &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = -1},
                                          &transformer),
                   TSR_ERR_ARGUMENT);
  assert_null(transformer);
  tsr_device_close(device);
  tsr_model_close(opened);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_batches),       cmocka_unit_test(test_buckets), cmocka_unit_test(test_workers_equal_one),
      cmocka_unit_test(test_progress),      cmocka_unit_test(test_errors),  cmocka_unit_test(test_few_sentences),
      cmocka_unit_test(test_bad_arguments),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
