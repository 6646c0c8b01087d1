/* SPDX-License-Identifier: Apache-2.0
 *
 * Greedy steps that run ahead of the host: what comes out is what comes out without, whether the device computes as
 * soon or as late as it may; the next steps are there before the first is read; few are computed in vain.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/generate/shortlist.h"
#include "tests/model/generation.h"
#include "tests/model/random_model.h"

enum { N_SENTENCES = 19, VOCABULARY = 37 };

static const random_model model = {.seed = 57, .layers = 1};
static const int32_t submits[] = {0, 1, 2, 3, 8}; /* steps of one; 0: as the device wants it */
enum { N_SUBMITS = sizeof submits / sizeof submits[0] };

/* ---- a device that computes when it likes ------------------------------------------------------------------------ */

/* The reference as a GPU. */
enum { SERIAL, EAGER, LATE }; /* it wants no run ahead; computes at once; computes when it is waited for */
static tsr_backend table;
static const tsr_backend *reference;
static struct {
  int32_t manner;
  tsr_backend_executable *queue[256]; /* LATE: runs that were started */
  int32_t n_queue;
  int32_t submits, runs, waits;
  int32_t waits_ahead; /* while more than what is waited for was in the queue */
  int32_t fail_at;     /* run, from 1, that is found lost when it is waited for; 0: none */
  int32_t computed;
} fake;

static int32_t fake_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  int32_t status = reference->device_properties(context, index, properties);
  properties->type = TSR_DEVICE_DISCRETE_GPU;
  properties->concurrent_runs = 0;
  properties->rows_at_once = 4; /* rows become fewer */
  properties->runs_in_hand = fake.manner == SERIAL ? 0 : 2;
  return status;
}

static int32_t compute(tsr_backend_executable *executable)
{
  if (++fake.computed == fake.fail_at) {
    return TSR_ERR_DEVICE_LOST;
  }
  int32_t status = reference->run(executable);
  return status == TSR_OK ? reference->wait(executable) : status;
}

static int32_t take_run(tsr_backend_executable *executable)
{
  fake.runs++;
  if (fake.manner != LATE) {
    return compute(executable);
  }
  assert_in_range(fake.n_queue, 0, (int)(sizeof fake.queue / sizeof fake.queue[0]) - 1);
  fake.queue[fake.n_queue++] = executable;
  return TSR_OK;
}

static int32_t fake_run(tsr_backend_executable *executable)
{
  fake.submits++;
  return take_run(executable);
}

static int32_t fake_run_many(tsr_backend_executable *executable, uint32_t n)
{
  int32_t status = TSR_OK;
  fake.submits++;
  for (uint32_t i = 0; i < n && status == TSR_OK; i++) {
    status = take_run(executable);
  }
  return status;
}

static int32_t fake_wait(tsr_backend_executable *executable)
{
  int32_t n = fake.n_queue;
  int32_t status = TSR_OK;
  while (n > 0 && fake.queue[n - 1] != executable) {
    n--;
  }
  fake.waits += n > 0;
  fake.waits_ahead += n > 0 && n < fake.n_queue;
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    status = compute(fake.queue[i]);
  }
  fake.n_queue -= n;
  memmove(fake.queue, fake.queue + n, (size_t)fake.n_queue * sizeof(fake.queue[0]));
  return status;
}

static const void *fake_extension(void *context, const char *name)
{
  static const tsr_runs_extension runs = {.struct_size = sizeof runs, .run_many = fake_run_many};
  return strcmp(name, TSR_RUNS_EXTENSION) == 0 ? &runs
         : reference->get_extension            ? reference->get_extension(context, name)
                                               : NULL;
}

static const tsr_backend *query_fake(uint32_t major, const tsr_host *host)
{
  reference = tessera_backend_query(major, host);
  table = *reference;
  table.name = "fake";
  table.device_properties = fake_properties;
  table.run = fake_run;
  table.wait = fake_wait;
  table.get_extension = fake_extension;
  return &table;
}

/* The model on the fake, to be closed by close_fake. */
static void open_fake(const fixture *f, int32_t manner, fixture *own, setup *s)
{
  memset(&fake, 0, sizeof fake);
  fake.manner = manner;
  *own = (fixture){.folder = f->folder};
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = ""}, &own->runtime));
  check(tsr_runtime_register(own->runtime, query_fake));
  open_setup(own, "fake", NULL, s);
}

static void close_fake(const fixture *own, setup *s)
{
  close_setup(s);
  assert_int_equal(fake.n_queue, 0);
  tsr_runtime_destroy(own->runtime);
}

/* ---- the same results -------------------------------------------------------------------------------------------- */

static int32_t stop_some(void *user, const tsr_token *token)
{
  (void)user;
  return token->sentence % 4 != 0 && token->step >= 3 + token->sentence % 7;
}

typedef struct test_case {
  const char *name;
  int32_t batch; /* 0: the library's */
  void (*change)(tsr_generate_options *options);
} test_case;

static const int32_t some_tokens[] = {3, 9, 20};
static const int32_t given[] = {4, 11, 4, 7, 9}, n_given[N_SENTENCES] = {2, 0, 1, 5, 0, 1, 2, 0, 1};
static const int32_t n_long[N_SENTENCES] = {4, 5, 3, 5, 4, 4, 3, 5, 4, 3, 5, 4, 4, 3, 5, 4, 4, 3, 5};
static const int32_t *prefixes[N_SENTENCES];

static void plain(tsr_generate_options *options)
{
  (void)options;
}

static void long_outputs(tsr_generate_options *options)
{
  options->n_eos = 1; /* hardly ever chosen: the cache grows */
  options->eos = some_tokens;
  options->max_length = 65;
}

static void at_the_limit(tsr_generate_options *options)
{
  options->max_length = 33; /* its last step fills the first room of the cache */
}

static void very_short(tsr_generate_options *options)
{
  options->max_length = 2;
}

static void forced(tsr_generate_options *options)
{
  options->forced_bos_id = 7;
  options->forced_eos_id = 2;
  options->max_length = 20;
}

/* The search begins with a mask, and each of these ends it at another step. */
static void masked(tsr_generate_options *options, int32_t min_length)
{
  options->min_length = min_length;
  options->n_suppressed = 1;
  options->suppressed = some_tokens + 1;
}

static void masked_for_2(tsr_generate_options *options)
{
  masked(options, 3);
}

static void masked_for_5(tsr_generate_options *options)
{
  masked(options, 6);
}

static void masked_for_8(tsr_generate_options *options)
{
  masked(options, 9);
}

/* Any of most tokens is not the first one. */
static void masked_at_first(tsr_generate_options *options)
{
  static int32_t most_tokens[VOCABULARY - 4];
  for (int32_t i = 0; i < VOCABULARY - 4; i++) {
    most_tokens[i] = i + 4;
  }
  options->n_begin_suppressed = VOCABULARY - 4;
  options->begin_suppressed = most_tokens;
}

static void short_prefixes(tsr_generate_options *options)
{
  options->prefix = prefixes;
  options->prefix_lengths = n_given;
}

static void long_prefixes(tsr_generate_options *options)
{
  options->prefix = prefixes;
  options->prefix_lengths = n_long; /* a part of them in one run */
  options->forced_eos_id = 2;
}

static void attention(tsr_generate_options *options)
{
  options->attention = 1;
  options->forced_eos_id = 2;
}

/* One after another, so that rows become fewer. */
static void stopped(tsr_generate_options *options)
{
  long_outputs(options);
  options->token = stop_some;
}

static void scored(tsr_generate_options *options)
{
  options->scores = 1; /* the host chooses */
}

static void without_repeats(tsr_generate_options *options)
{
  options->no_repeat_ngram = 2;
  options->repetition_penalty = 1.3f;
}

static void sampled(tsr_generate_options *options)
{
  options->sample = 1;
  options->n_best = 2;
}

static const test_case cases[] = {
    {"plain", 0, plain},
    {"batches of 5", 5, plain},
    {"alone", 1, plain},
    {"a cache that grows", 0, long_outputs},
    {"a cache that is just large enough", 4, at_the_limit},
    {"one step", 0, very_short},
    {"forced tokens", 0, forced},
    {"a mask for 2 steps", 4, masked_for_2},
    {"a mask for 5 steps", 4, masked_for_5},
    {"a mask for 8 steps", 4, masked_for_8},
    {"a mask at first", 4, masked_at_first},
    {"prefixes of some", 0, short_prefixes},
    {"prefixes of all", 8, long_prefixes},
    {"attention", 4, attention},
    {"sentences that are stopped", 0, stopped},
    {"scores", 0, scored},
    {"no repeats", 4, without_repeats},
    {"samples", 4, sampled},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static void search(const setup *s, const batch *b, const test_case *c, int32_t steps, const tsr_shortlist *shortlist,
                   tsr_generation *g)
{
  tsr_generate_options options = options_for(s, 1);
  c->change(&options);
  options.shortlist = shortlist;
  options.steps_per_submit = steps;
  check(tsr_generate(s->transformer, b->n, b->source, b->lengths, c->batch, &options, NULL, NULL, g));
}

/* Without scores they are NaN. */
static int are_scores_equal(float a, float b)
{
  return a == b || (isnan(a) && isnan(b));
}

static void assert_equal(const tsr_generation *expected, const tsr_generation *found, const char *device,
                         const char *name, int32_t steps)
{
  for (int32_t i = 0; i < expected->n_sentences * expected->n_best; i++) {
    const tsr_hypothesis *a = &expected->hypotheses[i], *b = &found->hypotheses[i];
    size_t n = (size_t)a->n_ids;
    if (a->n_ids != b->n_ids || (n > 0 && memcmp(a->ids, b->ids, n * sizeof *a->ids) != 0) ||
        !are_scores_equal(a->score, b->score) || !a->attention != !b->attention ||
        (a->attention && memcmp(a->attention, b->attention, n * (size_t)a->n_source * sizeof *a->attention) != 0)) {
      fail_msg("%s, %s, %d steps a submit: hypothesis %d is another one", device, name, (int)steps, (int)i);
    }
  }
}

/* All cases on a device, the first n_listed of them with a shortlist, too. expected [2 * N_CASES] is filled by the call
 * that comes first, and compared with by the others. */
static void check_cases(setup *s, int32_t steps, const char *device, int32_t n_listed, tsr_generation *expected)
{
  batch b;
  tsr_shortlist *list;
  make_batch(model.seed, VOCABULARY, N_SENTENCES, &b);
  choose_end(s, &b);
  check(tsr_shortlist_create(VOCABULARY, VOCABULARY, NULL, 0, 20, 10, &list));
  for (int32_t i = 0; i < N_CASES + n_listed; i++) {
    const test_case *c = &cases[i % N_CASES];
    tsr_generation g;
    search(s, &b, c, steps, i < N_CASES ? NULL : list, &g);
    if (expected[i].hypotheses) {
      assert_equal(&expected[i], &g, device, c->name, steps);
      tsr_generation_finish(&g);
    } else {
      expected[i] = g;
    }
  }
  tsr_shortlist_close(list);
  free_batch(&b);
}

static void finish_all(tsr_generation *expected)
{
  for (int32_t i = 0; i < 2 * N_CASES; i++) {
    tsr_generation_finish(&expected[i]);
  }
}

static void set_up_prefixes(void)
{
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    prefixes[i] = given;
  }
}

static void test_orders(void **state)
{
  static const char *const names[] = {"serial", "eager", "late"};
  const fixture *f = *state;
  tsr_generation expected[2 * N_CASES] = {{0}};
  set_up_prefixes();
  random_model_write(f->folder, &model);
  for (int32_t manner = SERIAL; manner <= LATE; manner++) {
    for (int32_t i = 0; i < N_SUBMITS; i++) {
      fixture own;
      setup s;
      open_fake(f, manner, &own, &s);
      check_cases(&s, submits[i], names[manner], N_CASES, expected);
      close_fake(&own, &s);
    }
  }
  finish_all(expected);
}

/* Each device that there is against itself. */
static void test_devices(void **state)
{
  const fixture *f = *state;
  set_up_prefixes();
  random_model_write(f->folder, &model);
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    tsr_generation expected[2 * N_CASES] = {{0}};
    for (int32_t i = 0; i < N_SUBMITS; i++) {
      setup s;
      open_setup(f, device_name(f, d), NULL, &s);
      check_cases(&s, submits[i], device_name(f, d), 1, expected);
      close_setup(&s);
    }
    finish_all(expected);
  }
}

/* ---- what the device is told, and when --------------------------------------------------------------------------- */

static int64_t steps_of(const setup *s)
{
  tsr_generate_statistics statistics;
  tsr_generate_measure(s->transformer, &statistics);
  return statistics.step_runs;
}

/* One sentence, which ends by itself, or where it is cut: then no token ends it. Returns the steps that it took. */
static int64_t search_one(setup *s, const batch *b, int32_t steps, int32_t cut)
{
  tsr_generate_options options = options_for(s, 1);
  tsr_generation g;
  int64_t before = steps_of(s);
  options.steps_per_submit = steps;
  options.max_length = cut > 0 ? cut : options.max_length;
  options.min_length = cut;
  check(tsr_generate(s->transformer, 1, b->source, b->lengths, 1, &options, NULL, NULL, &g));
  tsr_generation_finish(&g);
  return steps_of(s) - before;
}

static void test_counts(void **state)
{
  enum { CUT = 12 };
  const fixture *f = *state;
  random_model_write(f->folder, &model);
  for (int32_t i = 0; i < N_SUBMITS; i++) {
    fixture own;
    setup s;
    batch b;
    int32_t n = submits[i] > 0 ? submits[i] : 1;
    open_fake(f, LATE, &own, &s);
    make_batch(model.seed, VOCABULARY, N_SENTENCES, &b);
    fake.submits = fake.waits = fake.waits_ahead = 0;
    assert_int_equal(search_one(&s, &b, submits[i], CUT), CUT - 1); /* none in vain */
    int32_t expected = (CUT - 1 + n - 1) / n;
    assert_int_equal(fake.submits, 1 + expected); /* the encoder's is waited for, too */
    assert_int_equal(fake.waits, 1 + expected);
    assert_int_equal(fake.waits_ahead, expected - 1); /* all but the last one */
    close_fake(&own, &s);

    open_fake(f, SERIAL, &own, &s);
    choose_end(&s, &b);
    int64_t wanted = search_one(&s, &b, 0, 0);
    close_fake(&own, &s);
    open_fake(f, LATE, &own, &s);
    choose_end(&s, &b);
    int64_t taken = search_one(&s, &b, submits[i], 0);
    assert_true(wanted < 40); /* it ends by itself */
    assert_in_range(taken, wanted, wanted + 2 * n - 1);
    close_fake(&own, &s);
    free_batch(&b);
  }
}

/* The Vulkan backend makes one submit of several runs. */
static void test_submits(void **state)
{
  enum { STEPS = 8, CUT = 33 };
  const fixture *f = *state;
  random_model_write(f->folder, &model);
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    setup s;
    batch b;
    tsr_device_counters before, after;
    open_setup(f, device_name(f, d), NULL, &s);
    make_batch(model.seed, VOCABULARY, N_SENTENCES, &b);
    check(tsr_device_get_counters(s.device, &before));
    assert_int_equal(search_one(&s, &b, STEPS, CUT), CUT - 1);
    check(tsr_device_get_counters(s.device, &after));
    if (tsr_device_get_properties(s.device)->runs_in_hand > 0) {
      assert_int_equal(after.runs - before.runs, 1 + CUT - 1);
      assert_int_equal(after.submits - before.submits, 1 + (CUT - 1) / STEPS);
    } else {
      assert_int_equal(after.runs - before.runs, 1 + CUT - 1);
      assert_int_equal(after.submits - before.submits, after.runs - before.runs);
    }
    close_setup(&s);
    free_batch(&b);
  }
}

/* ---- a device that is lost --------------------------------------------------------------------------------------- */

/* Whichever step it is that the device does not survive, what batches found before is there. */
static void test_lost(void **state)
{
  const fixture *f = *state;
  batch b;
  fixture own;
  setup s;
  tsr_generation all;
  random_model_write(f->folder, &model);
  make_batch(model.seed, VOCABULARY, N_SENTENCES, &b);
  const test_case batches = {"", 5, plain};
  open_fake(f, SERIAL, &own, &s);
  choose_end(&s, &b);
  search(&s, &b, &batches, 0, NULL, &all);
  close_fake(&own, &s);
  int32_t most = 0;
  for (int32_t i = 0; i < N_SUBMITS; i++) {
    for (int32_t at = 1; at < 60; at += 3) {
      open_fake(f, LATE, &own, &s);
      choose_end(&s, &b);
      tsr_generate_options options = options_for(&s, 1);
      options.steps_per_submit = submits[i];
      options.partial = 1;
      tsr_generation g;
      fake.fail_at = fake.computed + at;
      tsr_status status = tsr_generate(s.transformer, b.n, b.source, b.lengths, 5, &options, NULL, NULL, &g);
      assert_int_equal(status, fake.computed < fake.fail_at ? TSR_OK : TSR_ERR_DEVICE_LOST);
      int32_t found = 0;
      for (int32_t k = 0; k < b.n; k++) {
        const tsr_hypothesis *h = &g.hypotheses[k];
        if (h->n_ids >= 0) {
          assert_same(&all.hypotheses[k], h);
          found += b.lengths[k] > 0;
        }
      }
      most = found > most ? found : most;
      tsr_generation_finish(&g);
      close_fake(&own, &s);
    }
  }
  assert_true(most >= 5);
  tsr_generation_finish(&all);
  free_batch(&b);
}

/* A test's name: only that one. */
int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_orders),  cmocka_unit_test(test_devices), cmocka_unit_test(test_counts),
      cmocka_unit_test(test_submits), cmocka_unit_test(test_lost),
  };
  if (argc > 1) {
    cmocka_set_test_filter(argv[1]);
  }
  return cmocka_run_group_tests_name("ahead", tests, start, stop);
}
