/* SPDX-License-Identifier: Apache-2.0
 *
 * Every setting of the search on every device that is found, against the searches of restated.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/model/random_model.h"
#include "tests/model/restated.h"

enum { N_SENTENCES = 6, MAX_LENGTH = 18 };

/* The second vocabulary is larger than what a device returns of a row in order. */
static const random_model models[] = {{.seed = 31},
                                      {.seed = 32, .nn = 1, .layers = 1, .vocabulary = 1100},
                                      {.seed = 33, .nn = 1, .max_distance = 2, .layers = 1}};

typedef struct setting {
  const char *name;
  void (*set)(tsr_generate_options *options);
} setting;

static void greedy(tsr_generate_options *o)
{
  o->n_best = 1;
}

static void greedy_penalised(tsr_generate_options *o)
{
  o->repetition_penalty = 1.7f;
  o->no_repeat_ngram = 2;
}

static void greedy_raised(tsr_generate_options *o)
{
  o->repetition_penalty = 0.7f;
}

static void greedy_ends(tsr_generate_options *o)
{
  static const int32_t ends[] = {0, 11, 7};
  static const int32_t first[] = {1, 2, 3};
  o->n_eos = 3;
  o->eos = ends;
  o->min_length = 4;
  o->n_begin_suppressed = 3;
  o->begin_suppressed = first;
  o->forced_eos_id = 7;
}

static void greedy_source(tsr_generate_options *o)
{
  o->encoder_no_repeat_ngram = 1;
  o->encoder_repetition_penalty = 1.5f;
}

static void beam(tsr_generate_options *o)
{
  o->beam = o->n_best = 4;
}

static void beam_gnmt(tsr_generate_options *o)
{
  beam(o);
  o->length_kind = TSR_LENGTH_GNMT;
  o->length_penalty = 0.6f;
  o->early_stopping = TSR_EARLY_TRUE;
}

static void beam_patient(tsr_generate_options *o)
{
  beam(o);
  o->patience = 1.5f;
  o->early_stopping = TSR_EARLY_TRUE;
}

static void beam_impatient(tsr_generate_options *o)
{
  beam(o);
  o->n_best = 2;
  o->patience = 0.5f;
}

static void beam_never(tsr_generate_options *o)
{
  beam(o);
  o->early_stopping = TSR_EARLY_NEVER;
  o->length_penalty = 2.0f;
}

static void beam_penalised(tsr_generate_options *o)
{
  beam(o);
  o->repetition_penalty = 1.3f;
  o->no_repeat_ngram = 3;
  o->encoder_no_repeat_ngram = 2;
}

static void beam_raised(tsr_generate_options *o)
{
  beam(o);
  o->encoder_repetition_penalty = 1.4f;
  o->repetition_penalty = 0.9f;
}

static void beam_ends(tsr_generate_options *o)
{
  beam(o);
  greedy_ends(o);
  o->forced_bos_id = 5;
}

static void beam_words(tsr_generate_options *o)
{
  static const int32_t suppressed[] = {4, 9};
  static const int32_t words[] = {2, 3, 3, 3, 8, 8, 8};
  beam(o);
  o->n_suppressed = 2;
  o->suppressed = suppressed;
  o->n_words = 7;
  o->words = words;
}

static void beam_renormalised(tsr_generate_options *o)
{
  beam_words(o);
  o->renormalize = 1;
  o->n_words = 0;
}

static void beam_words_renormalised(tsr_generate_options *o)
{
  beam_words(o);
  o->renormalize = 1;
}

static void marian(tsr_generate_options *o)
{
  static const int32_t suppressed[] = {1};
  beam(o);
  o->search = TSR_SEARCH_MARIAN;
  o->word_penalty = 0.2f;
  o->max_length_factor = 1.3f;
  o->n_suppressed = 1;
  o->suppressed = suppressed;
}

static void marian_of_one(tsr_generate_options *o)
{
  marian(o);
  o->beam = o->n_best = 1;
  o->length_penalty = 0.0f;
}

static void sampled(tsr_generate_options *o)
{
  o->sample = 1;
  o->n_best = 3;
  o->seed = 0x123456789abcdef;
  o->first_sentence = 40;
}

static void sampled_all(tsr_generate_options *o)
{
  sampled(o);
  o->top_k = 0;
}

static void sampled_few(tsr_generate_options *o)
{
  sampled(o);
  o->top_k = 9;
  o->top_p = 0.7f;
  o->temperature = 1.4f;
  o->repetition_penalty = 1.2f;
}

static void sampled_likely(tsr_generate_options *o)
{
  sampled(o);
  o->top_k = 0;
  o->top_p = 0.6f;
  o->temperature = 0.6f;
  o->min_length = 6;
}

#define SETTING(name)                                                                                                  \
  {                                                                                                                    \
#name, name                                                                                                        \
  }

static const setting settings[] = {
    SETTING(greedy),
    SETTING(greedy_penalised),
    SETTING(greedy_raised),
    SETTING(greedy_ends),
    SETTING(greedy_source),
    SETTING(beam),
    SETTING(beam_gnmt),
    SETTING(beam_patient),
    SETTING(beam_impatient),
    SETTING(beam_never),
    SETTING(beam_penalised),
    SETTING(beam_raised),
    SETTING(beam_ends),
    SETTING(beam_words),
    SETTING(beam_renormalised),
    SETTING(beam_words_renormalised),
    SETTING(marian),
    SETTING(marian_of_one),
    SETTING(sampled),
    SETTING(sampled_all),
    SETTING(sampled_few),
    SETTING(sampled_likely),
};
enum { N_SETTINGS = sizeof settings / sizeof settings[0], N_MODELS = sizeof models / sizeof models[0], N_BEST = 4 };

static tsr_generate_options options_of(const setup *s, const setting *what)
{
  tsr_generate_options options = options_for(s, 1);
  options.max_length = MAX_LENGTH;
  options.scores = 1;
  what->set(&options);
  return options;
}

static void compare(const char *where, int32_t scores, const restated *expected, const tsr_hypothesis *found)
{
  if (found->n_ids != expected->length - 1 ||
      memcmp(found->ids, expected->ids + 1, (size_t)found->n_ids * sizeof *found->ids) != 0) {
    fail_msg("%s: other tokens, %d instead of %d", where, (int)found->n_ids, (int)expected->length - 1);
  }
  if (!scores) {
    assert_true(isnan(found->score));
  } else if (!(fabs((double)found->score - expected->score) <= 1e-5 * fmax(1.0, fabs(expected->score)))) {
    fail_msg("%s: score %.9g instead of %.9g", where, (double)found->score, expected->score);
  }
}

/* The sentence without tokens, number 2, is not searched. */
static void check_setting(const setup *s, const char *what, const batch *b, const tsr_generate_options *options,
                          const restated *expected)
{
  tsr_generation g;
  check(tsr_generate(s->transformer, N_SENTENCES, b->source, b->lengths, 0, options, NULL, NULL, &g));
  for (int32_t n = 0; n < N_SENTENCES; n++) {
    for (int32_t k = 0; k < options->n_best && b->lengths[n] > 0; k++) {
      char where[160];
      snprintf(where, sizeof where, "%s, sentence %d, hypothesis %d", what, (int)n, (int)k);
      compare(where, options->scores, &expected[n * N_BEST + k], &g.hypotheses[n * options->n_best + k]);
    }
  }
  tsr_generation_finish(&g);
}

static void check_device(const setup *s, const char *device, const batch *b, const restated *expected)
{
  for (int32_t i = 0; i < N_SETTINGS; i++) {
    char what[96];
    tsr_generate_options options = options_of(s, &settings[i]);
    snprintf(what, sizeof what, "%s, %s", device, settings[i].name);
    check_setting(s, what, b, &options, &expected[i * N_SENTENCES * N_BEST]);
    if (options.beam == 1 && options.search == TSR_SEARCH_TRANSFORMERS) {
      options.scores = 0; /* what is greedy is chosen on the device now, if nothing depends on the row */
      check_setting(s, what, b, &options, &expected[i * N_SENTENCES * N_BEST]);
    }
  }
}

static void test_settings(void **state)
{
  static restated expected[N_SETTINGS * N_SENTENCES * N_BEST];
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    setup plain;
    batch b;
    random_model_write(f->folder, &models[m]);
    open_setup(f, device_name(f, 0), NULL, &plain);
    make_batch(models[m].seed, 37, N_SENTENCES, &b);
    for (int32_t i = 0; i < N_SETTINGS; i++) {
      tsr_generate_options options = options_of(&plain, &settings[i]);
      for (int32_t n = 0; n < N_SENTENCES; n++) {
        if (b.lengths[n] > 0) {
          restate(&plain, &options, b.source[n], b.lengths[n], n, &expected[(i * N_SENTENCES + n) * N_BEST]);
        }
      }
    }
    close_setup(&plain);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      setup s;
      open_setup(f, device_name(f, d), NULL, &s);
      check_device(&s, device_name(f, d), &b, expected);
      close_setup(&s);
    }
    free_batch(&b);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_settings)};
  return cmocka_run_group_tests(tests, start, stop);
}
