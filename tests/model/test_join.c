/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences that join a batch while it runs: whatever company a sentence has, and whenever it comes, what it gives is
 * what it gives alone.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/generate/search.h"
#include "core/generate/settings.h"
#include "tests/model/generation.h"
#include "tests/model/random_model.h"
#include "tests/support/sanitized.h"

enum { N_SENTENCES = 24, MOST = 5, VOCABULARY = 37, MAX_LENGTH = 60 };

static const random_model models[] = {
    {.seed = 31, .layers = 1},
    {.seed = 32, .nn = 1, .max_distance = 3},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

static const int32_t given_tokens[] = {5, 9, 3};

/* What a step gives the host. */
enum { TOKENS /* the device chooses */, CANDIDATES, ROWS /* whole ones */ };

typedef struct test_case {
  const char *name;
  int32_t beam;
  void (*change)(tsr_generate_options *options);
  int32_t is_given; /* 1: outputs begin with tokens that are given, some with more of them than others */
  int32_t found;
} test_case;

static void nothing(tsr_generate_options *options)
{
  (void)options;
}

static void phases(tsr_generate_options *options)
{
  static const int32_t suppressed[] = {5}, first[] = {7, 8};
  options->min_length = 6;
  options->suppressed = suppressed;
  options->n_suppressed = 1;
  options->begin_suppressed = first;
  options->n_begin_suppressed = 2;
}

static void scores(tsr_generate_options *options)
{
  options->scores = 1;
  options->repetition_penalty = 1.3f;
}

static void forced(tsr_generate_options *options)
{
  options->forced_bos_id = 3;
  options->forced_eos_id = 0;
  options->max_length = 9;
}

static void sampled(tsr_generate_options *options)
{
  options->sample = 1;
  options->n_best = 2;
  options->seed = 77;
  options->top_k = 7;
}

static void attended(tsr_generate_options *options)
{
  options->attention = 1;
}

static void everything(tsr_generate_options *options)
{
  phases(options);
  options->no_repeat_ngram = 2;
  options->renormalize = 1;
  options->early_stopping = TSR_EARLY_TRUE;
  options->n_best = 2;
}

static void renormalized(tsr_generate_options *options)
{
  phases(options);
  options->renormalize = 1;
}

static void ctranslate2(tsr_generate_options *options)
{
  options->search = TSR_SEARCH_CTRANSLATE2;
}

static void marian(tsr_generate_options *options)
{
  options->search = TSR_SEARCH_MARIAN;
  options->max_length_factor = 2.0f;
}

static void three_a_submit(tsr_generate_options *options)
{
  options->steps_per_submit = 3;
}

static const test_case cases[] = {
    {"greedy", 1, nothing, 0, TOKENS},
    {"greedy, three steps a submit", 1, three_a_submit, 0, TOKENS},
    {"phases", 1, phases, 0, TOKENS},
    {"scores", 1, scores, 0, CANDIDATES},
    {"forced", 1, forced, 0, TOKENS},
    {"given", 1, nothing, 1, TOKENS},
    {"sampled", 1, sampled, 0, CANDIDATES},
    {"attention", 1, attended, 0, TOKENS},
    {"beam", 3, nothing, 0, CANDIDATES},
    {"beam, renormalized", 3, renormalized, 0, CANDIDATES},
    {"beam, everything", 3, everything, 0, ROWS},
    {"beam, attention", 2, attended, 0, CANDIDATES},
    {"beam, given", 2, nothing, 1, CANDIDATES},
    {"marian", 3, marian, 0, CANDIDATES},
    {"ctranslate2", 3, ctranslate2, 0, CANDIDATES},
    {"ctranslate2, given", 2, ctranslate2, 1, CANDIDATES},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

/* ---- who comes when ---------------------------------------------------------------------------------------------- */

typedef struct arrivals {
  const batch *b;
  const tsr_generate_options *options;
  const tsr_generation *alone;
  const char *name;
  const char *device;
  int32_t is_given;
  int32_t found;
  int32_t comes[N_SENTENCES];  /* the call of count_waiting at which a sentence is there */
  int32_t leaves[N_SENTENCES]; /* tokens after which it is not wanted any more; 0: it stays */
  int32_t is_taken[N_SENTENCES];
  int32_t n_answers[N_SENTENCES];
  int32_t now;
  int32_t n_joined;
  int32_t n_open;
} arrivals;

static tsr_sentence sentence_of(const arrivals *a, int32_t i)
{
  return (tsr_sentence){
      .source = a->b->source[i],
      .n_source = a->b->lengths[i],
      .prompt = {.ids = given_tokens, .n = a->is_given ? i % 4 : 0, .n_given = a->is_given ? i % 4 : 0},
      .number = i,
      .seed = a->options->seed,
      .index = i,
  };
}

static int is_waiting(const arrivals *a, int32_t i)
{
  return a->b->lengths[i] > 0 && !a->is_taken[i] && a->comes[i] <= a->now;
}

static int32_t count_waiting(void *user, int32_t room)
{
  arrivals *a = user;
  int32_t n = 0;
  a->now++;
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    n += is_waiting(a, i);
  }
  return n < room ? n : room;
}

static int32_t take_waiting(arrivals *a, int32_t room, tsr_sentence *sentences)
{
  int32_t n = 0;
  for (int32_t i = 0; i < N_SENTENCES && n < room; i++) {
    if (is_waiting(a, i)) {
      int32_t at = n++;
      for (; at > 0 && sentences[at - 1].n_source < a->b->lengths[i]; at--) {
        sentences[at] = sentences[at - 1];
      }
      sentences[at] = sentence_of(a, i);
      a->is_taken[i] = 1;
    }
  }
  a->n_open += n;
  assert_in_range(a->n_open, 0, MOST);
  return n;
}

static int32_t join(void *user, int32_t room, tsr_sentence *sentences)
{
  arrivals *a = user;
  int32_t n = take_waiting(a, room, sentences);
  a->n_joined += n;
  return n;
}

static int32_t look(void *user, int32_t n_open)
{
  const arrivals *a = user;
  assert_int_equal(n_open, a->n_open);
  return 1;
}

static int32_t is_wanted(void *user, const tsr_sentence *sentence)
{
  arrivals *a = user;
  int32_t leaves = a->leaves[sentence->index];
  if (leaves == 0 || sentence->length <= leaves) {
    return 1;
  }
  a->n_answers[sentence->index]++;
  a->n_open--;
  return 0;
}

static void take(void *user, const tsr_sentence *sentence, const tsr_hypothesis *hypotheses)
{
  arrivals *a = user;
  a->n_answers[sentence->index]++;
  a->n_open--;
  for (int32_t j = 0; j < a->options->n_best; j++) {
    const tsr_hypothesis *x = &hypotheses[j];
    const tsr_hypothesis *y = &a->alone->hypotheses[sentence->index * a->options->n_best + j];
    int is_same = x->n_ids == y->n_ids && x->n_source == y->n_source && !x->attention == !y->attention;
    is_same &= x->score == y->score || fabsf(x->score - y->score) <= 1e-4f || (isnan(x->score) && isnan(y->score));
    for (int32_t i = 0; is_same && i < x->n_ids; i++) {
      is_same &= x->ids[i] == y->ids[i];
    }
    for (int32_t i = 0; is_same && x->attention && i < x->n_ids * x->n_source; i++) {
      is_same &= fabsf(x->attention[i] - y->attention[i]) <= 1e-4f;
    }
    if (!is_same) {
      fail_msg("%s, %s: hypothesis %d of sentence %d is not that of the sentence alone", a->device, a->name, (int)j,
               (int)sentence->index);
    }
    free(x->ids);
    free(x->attention);
  }
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

/* Searches until each sentence was there: one batch after the other, where the last one ended before others came. */
static void search_all(const setup *s, arrivals *a)
{
  const tsr_search_client client = {
      .user = a, .take = take, .count_waiting = count_waiting, .join = join, .look = look, .is_wanted = is_wanted};
  tsr_sentence first[MOST];
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  for (int32_t n = 0; a->now < 10000; a->now++) {
    n = take_waiting(a, MOST, first);
    if (n > 0) {
      tsr_search search;
      check(tsr_search_init(&search, s->transformer, a->options, &client, first, n, MOST));
      search.lock = &lock;
      check(tsr_search_run(&search));
      assert_int_equal(search.fed_back ? TOKENS : search.whole ? ROWS : CANDIDATES, a->found);
      tsr_search_finish(&search);
    }
  }
}

static void check_case(const fixture *f, const char *device, const random_model *model, const test_case *c)
{
  setup s;
  batch b;
  open_setup(f, device, NULL, &s);
  make_batch(model->seed, VOCABULARY, N_SENTENCES, &b);
  choose_end(&s, &b);
  tsr_generate_options options = options_for(&s, c->beam);
  options.max_length = MAX_LENGTH;
  c->change(&options);
  const int32_t *prefixes[N_SENTENCES];
  int32_t prefix_lengths[N_SENTENCES];
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    prefixes[i] = given_tokens;
    prefix_lengths[i] = i % 4;
  }
  tsr_generate_options alone = options;
  tsr_generation g;
  alone.prefix = c->is_given ? prefixes : NULL;
  alone.prefix_lengths = c->is_given ? prefix_lengths : NULL;
  check(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 1, &alone, NULL, NULL, &g));
  const tsr_generate_options resolved = tsr_generate_resolve(tsr_model_config(s.model), &options);
  arrivals a = {.b = &b,
                .options = &resolved,
                .alone = &g,
                .name = c->name,
                .device = device,
                .is_given = c->is_given,
                .found = c->found};
  uint64_t seed = model->seed;
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    a.comes[i] = tsr_random_below(&seed, 80);
    a.leaves[i] = i % 7 == 3 ? 1 + tsr_random_below(&seed, 6) : 0;
  }
  a.comes[0] = 12; /* the longest source comes to a batch of shorter ones */
  a.comes[1] = 0;
  search_all(&s, &a);
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    if (a.n_answers[i] != (b.lengths[i] > 0)) {
      fail_msg("%s, %s: sentence %d has %d answers", device, c->name, (int)i, (int)a.n_answers[i]);
    }
  }
  assert_true(a.n_joined > N_SENTENCES / 3);
  tsr_generation_finish(&g);
  free_batch(&b);
  close_setup(&s);
}

static void test_company(void **state)
{
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    random_model_write(f->folder, &models[m]);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      /* Where that takes long, each case is looked at with one of the models, or one case in two. */
      const int32_t is_vulkan = strncmp(device_name(f, d), "vulkan", 6) == 0;
      const int32_t turns = (TEST_IS_SANITIZED ? N_MODELS : 1) * (is_vulkan ? N_MODELS : 1);
      for (int32_t i = 0; i < N_CASES; i++) {
        if (i % turns == m % turns) {
          check_case(f, device_name(f, d), &models[m], &cases[i]);
        }
      }
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_company)};
  return cmocka_run_group_tests(tests, start, stop);
}
