/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of speech: searches in windows of sound, languages, and what is refused. What the original makes of such a
 * model, `tessera golden` holds it against.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/inspect.h"
#include "tessera/translator.h"
#include "tests/model/families.h"
#include "tests/model/generation.h"
#include "tests/model/random_model.h"
#include "tests/support/temporary.h"

#define CONFIG                                                                                                         \
  "{\"model_type\":\"whisper\",\"d_model\":48,\"encoder_attention_heads\":3,\"decoder_attention_heads\":4,"            \
  "\"encoder_layers\":1,\"decoder_layers\":2,\"encoder_ffn_dim\":56,\"decoder_ffn_dim\":40,\"vocab_size\":131,"        \
  "\"num_mel_bins\":6,\"max_source_positions\":21,\"max_target_positions\":40,\"pad_token_id\":60,"                    \
  "\"bos_token_id\":60,\"eos_token_id\":60,\"decoder_start_token_id\":61}"

enum {
  MELS = 6,
  FRAMES = 42,
  WINDOWS = 3,
  VOCABULARY = FAMILY_VOCABULARY,
  END = 60,
  START = 61,
  NO_TIMESTAMPS = 70,
  TIMESTAMPS = 71,
  MOST_TOKENS = 40
};

/* A model on a device, and windows of noise. */
typedef struct listener {
  setup s;
  float *pool;
  const float *windows[WINDOWS];
} listener;

static void listen_on(const fixture *f, const char *device, listener *l)
{
  uint64_t seed = 5;
  const size_t n = (size_t)WINDOWS * MELS * FRAMES;
  write_family(f->folder, CONFIG);
  open_setup(f, device, NULL, &l->s);
  l->pool = malloc(n * sizeof *l->pool);
  assert_non_null(l->pool);
  for (size_t i = 0; i < n; i++) {
    l->pool[i] = (float)tsr_random_real(&seed);
  }
  for (size_t i = 0; i < WINDOWS; i++) {
    l->windows[i] = l->pool + i * MELS * FRAMES;
  }
}

static void stop_listening(listener *l)
{
  free(l->pool);
  close_setup(&l->s);
}

static tsr_generate_options plain_options(const listener *l)
{
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  check(tsr_generate_defaults(l->s.model, &options));
  options.n_suppressed = options.n_begin_suppressed = 0;
  options.max_length = 30;
  return options;
}

static void generate(const listener *l, int32_t n, const float *const *windows, const tsr_generate_options *options,
                     tsr_generation *generation)
{
  check(tsr_generate_features(l->s.transformer, n, windows, 0, options, NULL, NULL, generation));
}

static void assert_fails(tsr_status found, tsr_status expected, const char *fragment)
{
  if (found != expected || !strstr(tsr_error_message(), fragment)) {
    fail_msg("%s: %s; expected %s with \"%s\"", tsr_status_name(found), tsr_error_message(), tsr_status_name(expected),
             fragment);
  }
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void test_refused(void **state)
{
  const fixture *f = *state;
  listener l;
  const int32_t ids[2 * WINDOWS] = {3, 4}, length = 2;
  const int32_t *source = ids;
  float logits[2 * WINDOWS * VOCABULARY];
  tsr_inspection inspection;
  tsr_generation generation;
  tsr_scores scores;
  tsr_translator *translator;
  listen_on(f, "reference", &l);
  tsr_transformer *t = l.s.transformer;
  tsr_generate_options options = plain_options(&l);
  const char *reads_sound = "is a model of speech, which reads features of sound and no text";
  assert_fails(tsr_transformer_forward(t, 1, 2, ids, &length, 2, ids, NULL, logits), TSR_ERR_UNSUPPORTED, reads_sound);
  assert_fails(tsr_transformer_forward(t, 1, 2, ids, &length, 2, ids, NULL, logits), TSR_ERR_UNSUPPORTED,
               "use tsr_transformer_forward_features");
  assert_fails(tsr_transformer_inspect(t, TSR_INSPECT_HIDDEN, 1, 2, ids, &length, 2, ids, &inspection),
               TSR_ERR_UNSUPPORTED, "use tsr_transformer_inspect_features");
  assert_fails(tsr_generate(t, 1, &source, &length, 0, &options, NULL, NULL, &generation), TSR_ERR_UNSUPPORTED,
               "use tsr_generate_features");
  assert_fails(tsr_score(t, 1, &source, &length, &source, &length, NULL, NULL, NULL, &scores), TSR_ERR_UNSUPPORTED,
               reads_sound);
  assert_fails(tsr_translator_open(f->folder, NULL, &translator), TSR_ERR_UNSUPPORTED, reads_sound);

  /* Windows. */
  const float *missing[] = {l.windows[0], NULL};
  assert_fails(tsr_generate_features(t, 2, missing, 0, &options, NULL, NULL, &generation), TSR_ERR_ARGUMENT, "NULL");
  const char *message;
  assert_int_equal(tsr_error_sentence(&message), 1);
  l.pool[2 * MELS * FRAMES + 4 * FRAMES + 7] = NAN;
  assert_fails(tsr_generate_features(t, WINDOWS, l.windows, 0, &options, NULL, NULL, &generation), TSR_ERR_ARGUMENT,
               "the feature of mel 4 in frame 7 is");
  assert_int_equal(tsr_error_sentence(&message), 2);
  assert_fails(tsr_transformer_forward_features(t, WINDOWS, l.pool, 2, ids, NULL, logits), TSR_ERR_ARGUMENT,
               "window 2: the feature of mel 4 in frame 7 is");
  assert_fails(tsr_transformer_inspect_features(t, 1 << 20, 1, l.pool, 0, NULL, &inspection), TSR_ERR_ARGUMENT, "what");

  /* Settings. */
  static const struct {
    size_t offset;
    int32_t value;
    tsr_status status;
    const char *fragment;
  } settings[] = {
      {offsetof(tsr_generate_options, encoder_no_repeat_ngram), 2, TSR_ERR_UNSUPPORTED, "the model reads sound"},
      {offsetof(tsr_generate_options, timestamps), 2, TSR_ERR_ARGUMENT, "timestamps is 2"},
      {offsetof(tsr_generate_options, alignment), 1, TSR_ERR_ARGUMENT, "alignment takes a model of speech and details"},
      {offsetof(tsr_generate_options, timestamps), 1, TSR_ERR_ARGUMENT, "timestamp_begin is -1"},
      {offsetof(tsr_generate_options, max_length), 42, TSR_ERR_ARGUMENT, "max_length is 42; it should be 2 to 41"},
  };
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
    tsr_generate_options wrong = options;
    memcpy((char *)&wrong + settings[i].offset, &settings[i].value, sizeof settings[i].value);
    assert_fails(tsr_generate_features(t, 1, l.windows, 0, &wrong, NULL, NULL, &generation), settings[i].status,
                 settings[i].fragment);
  }
  tsr_details *details;
  check(tsr_details_create(&details));
  options.details = details;
  options.alternatives = 2;
  assert_fails(tsr_generate_features(t, 1, l.windows, 0, &options, NULL, NULL, &generation), TSR_ERR_ARGUMENT,
               "no details of alternatives");
  tsr_details_destroy(details);
  stop_listening(&l);

  /* A model that reads text. */
  const random_model text = {.seed = 3};
  setup s;
  remove(path_in(f->folder, "generation_config.json"));
  random_model_write(f->folder, &text);
  open_setup(f, "reference", NULL, &s);
  const char *reads_text = "reads text, not sound";
  const float *const none_at_all = NULL;
  options = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
  check(tsr_generate_defaults(s.model, &options));
  assert_fails(tsr_transformer_forward_features(s.transformer, 1, logits, 2, ids, NULL, logits), TSR_ERR_UNSUPPORTED,
               reads_text);
  assert_fails(tsr_transformer_inspect_features(s.transformer, TSR_INSPECT_HIDDEN, 1, logits, 2, ids, &inspection),
               TSR_ERR_UNSUPPORTED, reads_text);
  assert_fails(tsr_generate_features(s.transformer, 1, &none_at_all, 0, &options, NULL, NULL, &generation),
               TSR_ERR_UNSUPPORTED, reads_text);
  assert_fails(tsr_detect_language(s.transformer, 1, &none_at_all, 0, 1, ids, -1, NULL, NULL, NULL),
               TSR_ERR_UNSUPPORTED, reads_text);
  close_setup(&s);
}

/* ---- searches ---------------------------------------------------------------------------------------------------- */

static const int32_t prefixes[WINDOWS][6] = {{62, 68, 70}, {63, 68}, {10, 11, 12, 61, 64, 68}};
static const int32_t prefix_lengths[WINDOWS] = {3, 2, 6};

static void give_prefixes(tsr_generate_options *options, const int32_t **rows)
{
  for (int32_t i = 0; i < WINDOWS; i++) {
    rows[i] = prefixes[i];
  }
  options->prefix = rows;
  options->prefix_lengths = prefix_lengths;
}

/* What a window gives does not depend on its company, though prefixes differ in length and tokens are suppressed behind
 * each of them. */
static void test_company(void **state)
{
  const fixture *f = *state;
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    listener l;
    listen_on(f, device_name(f, d), &l);
    tsr_details *details;
    check(tsr_details_create(&details));
    for (int32_t form = 0; form < 4; form++) {
      const int32_t *rows[WINDOWS];
      int32_t firsts[WINDOWS];
      tsr_generate_options options = plain_options(&l);
      tsr_generation all, one;
      options.beam = form == 2 ? 3 : 1;
      options.details = form == 1 ? details : NULL;
      options.sample = form == 3;
      options.seed = 9;
      give_prefixes(&options, rows);
      generate(&l, WINDOWS, l.windows, &options, &all);
      for (int32_t i = 0; i < WINDOWS; i++) {
        assert_true(all.hypotheses[i].n_ids > prefix_lengths[i]);
        assert_memory_equal(all.hypotheses[i].ids, prefixes[i], (size_t)prefix_lengths[i] * sizeof(int32_t));
        firsts[i] = all.hypotheses[i].ids[prefix_lengths[i]];
      }
      tsr_generation_finish(&all);
      /* Now none of these comes first. */
      options.begin_suppressed = firsts;
      options.n_begin_suppressed = WINDOWS;
      generate(&l, WINDOWS, l.windows, &options, &all);
      for (int32_t i = 0; i < WINDOWS; i++) {
        tsr_generate_options alone = options;
        alone.prefix = &rows[i];
        alone.prefix_lengths = &prefix_lengths[i];
        alone.first_sentence = i;
        generate(&l, 1, &l.windows[i], &alone, &one);
        assert_same(&all.hypotheses[i], &one.hypotheses[0]);
        for (int32_t k = 0; k < WINDOWS; k++) {
          assert_int_not_equal(one.hypotheses[0].ids[prefix_lengths[i]], firsts[k]);
        }
        tsr_generation_finish(&one);
      }
      tsr_generation_finish(&all);
    }
    tsr_details_destroy(details);
    stop_listening(&l);
  }
}

/* Logits of a window when the decoder is fed an output's tokens: [n, V], to be freed. */
static float *logits_of(const listener *l, int32_t window, const int32_t *ids, int32_t n)
{
  int32_t fed[MOST_TOKENS] = {START};
  float *logits = malloc((size_t)n * VOCABULARY * sizeof *logits);
  assert_non_null(logits);
  for (int32_t i = 1; i < n; i++) {
    fed[i] = ids[i - 1];
  }
  check(tsr_transformer_forward_features(l->s.transformer, 1, l->windows[window], n, fed, NULL, logits));
  return logits;
}

/* Details tell what is left after the settings; scores what the model itself thinks. */
static void test_details(void **state)
{
  const fixture *f = *state;
  static const int32_t suppressed[] = {0, 1, 2, 5, 8, 13, 21, 34, 55, 89};
  const int32_t n_suppressed = sizeof suppressed / sizeof suppressed[0];
  listener l;
  const int32_t *rows[WINDOWS];
  tsr_details *details;
  tsr_generation g;
  listen_on(f, "cpu", &l);
  check(tsr_details_create(&details));
  assert_null(tsr_details_log_probabilities(details, 0, 0));
  tsr_generate_options options = plain_options(&l);
  give_prefixes(&options, rows);
  options.suppressed = suppressed;
  options.n_suppressed = n_suppressed;
  options.details = details;
  options.scores = 1;
  options.length_penalty = 0.0f;
  generate(&l, WINDOWS, l.windows, &options, &g);
  for (int32_t i = 0; i < WINDOWS; i++) {
    const tsr_hypothesis *h = &g.hypotheses[i];
    const float *found = tsr_details_log_probabilities(details, i, 0);
    assert_non_null(found);
    float *logits = logits_of(&l, i, h->ids, h->n_ids);
    double sum = 0.0;
    for (int32_t t = 0; t < h->n_ids; t++) {
      float *row = logits + (size_t)t * VOCABULARY;
      const double own = log_probability(row, VOCABULARY, h->ids[t]);
      for (int32_t k = 0; k < n_suppressed; k++) {
        row[suppressed[k]] = -INFINITY;
      }
      const double changed = t < prefix_lengths[i] ? 0.0 : log_probability(row, VOCABULARY, h->ids[t]);
      sum += t < prefix_lengths[i] ? 0.0 : own;
      assert_true(fabs((double)found[t] - changed) < 1e-4);
      assert_true(t < prefix_lengths[i] || changed > own);
    }
    assert_true(fabs((double)h->score - sum) < 1e-3);
    free(logits);
  }
  tsr_generation_finish(&g);
  assert_null(tsr_details_log_probabilities(details, WINDOWS, 0));
  assert_null(tsr_details_log_probabilities(details, 0, 1));
  options.beam = 2;
  generate(&l, WINDOWS, l.windows, &options, &g);
  assert_null(tsr_details_log_probabilities(details, 0, 0));
  tsr_generation_finish(&g);
  options.beam = 1;
  generate(&l, 0, NULL, &options, &g);
  tsr_generation_finish(&g);
  tsr_details_destroy(details);
  tsr_details_destroy(NULL);
  stop_listening(&l);
}

/* What heads attend to is what teacher forcing says of the same tokens, whichever hypotheses they went through. */
static void test_alignment(void **state)
{
  enum { HEADS = 3, POSITIONS = FRAMES / 2 };
  static const int32_t heads[HEADS][2] = {{1, 3}, {0, 2}, {1, 0}}, others[HEADS][2] = {{0, 0}, {0, 1}, {1, 1}};
  const fixture *f = *state;
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    listener l;
    tsr_details *details;
    listen_on(f, device_name(f, d), &l);
    check(tsr_details_create(&details));
    for (int32_t form = 0; form < 5; form++) {
      const int32_t *rows[WINDOWS];
      const int32_t n_heads = form == 4 ? 1 : HEADS, (*asked)[2] = form == 3 ? others : heads;
      tsr_generation g;
      tsr_generate_options options = plain_options(&l);
      give_prefixes(&options, rows);
      options.details = details;
      options.alignment = 1;
      options.alignment_heads = asked[0];
      options.n_alignment_heads = n_heads;
      options.beam = options.n_best = form == 1 ? 3 : 1;
      options.sample = form == 2;
      options.max_length = form == 4 ? 11 : 30; /* is cut */
      generate(&l, WINDOWS, l.windows, &options, &g);
      for (int32_t i = 0; i < WINDOWS * g.n_best; i++) {
        const tsr_hypothesis *h = &g.hypotheses[i];
        int32_t n, fed[MOST_TOKENS] = {START};
        tsr_inspection inspection;
        const float *found = tsr_details_alignment(details, i / g.n_best, i % g.n_best, &n);
        assert_non_null(found);
        assert_null(h->attention);
        assert_int_equal(n, h->n_ids);
        memcpy(fed + 1, h->ids, (size_t)(n - 1) * sizeof *fed);
        check(tsr_transformer_inspect_features(l.s.transformer, TSR_INSPECT_CROSS_ATTENTION, 1, l.windows[i / g.n_best],
                                               n, fed, &inspection));
        for (int32_t p = 0; p < n_heads; p++) {
          char name[96];
          snprintf(name, sizeof name, "decoder.layers.%d.cross_attention.weights", (int)asked[p][0]);
          const float *expected = tsr_inspection_find(&inspection, name)->values + asked[p][1] * n * POSITIONS;
          for (int32_t k = 0; k < n * POSITIONS; k++) {
            assert_true(fabsf(found[p * n * POSITIONS + k] - expected[k]) < 1e-5f);
          }
        }
        tsr_inspection_finish(&inspection);
      }
      tsr_generation_finish(&g);
    }
    int32_t n = 7;
    assert_null(tsr_details_alignment(details, WINDOWS, 0, &n));
    assert_int_equal(n, 0);
    tsr_details_destroy(details);
    stop_listening(&l);
  }
}

/* Each rule holds of what came out; that no other token was banned, the recordings show. */
static void assert_timestamps(const tsr_hypothesis *h, int32_t n_given, int32_t most)
{
  int32_t last = -1;
  const int32_t *ids = h->ids + n_given;
  const int32_t n = h->n_ids - n_given;
  assert_true(n > 0);
  assert_in_range(ids[0], TIMESTAMPS, TIMESTAMPS + most);
  for (int32_t i = 0; i < n; i++) {
    const int is_timestamp = ids[i] >= TIMESTAMPS;
    const int after = i > 0 && ids[i - 1] >= TIMESTAMPS, before_that = i == 1 || (i > 1 && ids[i - 2] >= TIMESTAMPS);
    assert_int_not_equal(ids[i], NO_TIMESTAMPS);
    if (is_timestamp) {
      assert_true(ids[i] > last || (ids[i] == last && after && !before_that));
      assert_false(after && before_that);
      last = ids[i];
    } else if (after && !before_that) {
      assert_true(ids[i] >= END);
    }
  }
}

static void test_timestamps(void **state)
{
  const fixture *f = *state;
  for (int32_t d = 0; d < 2; d++) {
    listener l;
    listen_on(f, d == 0 ? "cpu" : "reference", &l);
    for (int32_t form = 0; form < 6; form++) {
      const int32_t *rows[WINDOWS];
      tsr_generation g;
      tsr_generate_options options = plain_options(&l);
      options.timestamps = 1;
      options.timestamp_begin = TIMESTAMPS;
      options.no_timestamps_id = NO_TIMESTAMPS;
      options.max_initial_timestamp = form % 2 ? 1 : 30;
      options.timestamp_by_sum = form != 1;
      options.beam = form / 2 == 1 ? 3 : 1;
      options.n_best = options.beam;
      options.sample = form / 2 == 2;
      options.seed = (uint64_t)form;
      give_prefixes(&options, rows);
      generate(&l, WINDOWS, l.windows, &options, &g);
      for (int32_t i = 0; i < WINDOWS * g.n_best; i++) {
        assert_timestamps(&g.hypotheses[i], prefix_lengths[i / g.n_best], options.max_initial_timestamp);
      }
      tsr_generation_finish(&g);
    }
    stop_listening(&l);
  }
}

/* The best continuations of a place go on as searches of their own. */
static void test_alternatives(void **state)
{
  const fixture *f = *state;
  listener l;
  tsr_generation g;
  listen_on(f, "cpu", &l);
  tsr_generate_options options = plain_options(&l);
  options.alternatives = 4;
  generate(&l, WINDOWS, l.windows, &options, &g);
  for (int32_t i = 0; i < WINDOWS; i++) {
    float *logits = logits_of(&l, i, NULL, 1);
    for (int32_t k = 0; k < 4; k++) {
      const tsr_hypothesis *h = &g.hypotheses[i * 4 + k];
      int32_t better = 0;
      for (int32_t v = 0; v < VOCABULARY; v++) {
        better += logits[v] > logits[h->ids[0]];
      }
      assert_int_equal(better, k);
    }
    free(logits);
  }
  tsr_generation_finish(&g);
  stop_listening(&l);
}

/* ---- languages --------------------------------------------------------------------------------------------------- */

static void test_languages(void **state)
{
  enum { LANGUAGES = 4, NO_SPEECH = 69 };
  static const int32_t languages[LANGUAGES] = {62, 63, 64, 65};
  const fixture *f = *state;
  listener l;
  listen_on(f, "cpu", &l);
  for (int32_t n_batch = 0; n_batch < 3; n_batch++) {
    int32_t best[WINDOWS];
    float probabilities[WINDOWS][LANGUAGES], no_speech[WINDOWS];
    check(tsr_detect_language(l.s.transformer, WINDOWS, l.windows, n_batch, LANGUAGES, languages, NO_SPEECH, best,
                              &probabilities[0][0], no_speech));
    for (int32_t i = 0; i < WINDOWS; i++) {
      float *logits = logits_of(&l, i, NULL, 1);
      double sum = 0.0;
      for (int32_t k = 0; k < LANGUAGES; k++) {
        sum += exp(log_probability(logits, VOCABULARY, languages[k]));
        assert_true(logits[languages[k]] <= logits[languages[best[i]]]);
      }
      for (int32_t k = 0; k < LANGUAGES; k++) {
        const double expected = exp(log_probability(logits, VOCABULARY, languages[k])) / sum;
        assert_true(fabs(expected - (double)probabilities[i][k]) < 1e-5);
      }
      assert_true(fabs(exp(log_probability(logits, VOCABULARY, NO_SPEECH)) - (double)no_speech[i]) < 1e-5);
      free(logits);
    }
  }
  /* Within a search, behind a prompt. */
  static const int32_t asked[] = {3, 4, START, TSR_DETECTED, 68, 70}, twice[] = {TSR_DETECTED, TSR_DETECTED};
  const int32_t *rows[WINDOWS] = {asked, asked, asked};
  const int32_t n_asked[WINDOWS] = {6, 6, 4}, two = 2;
  tsr_details *details;
  tsr_generation g;
  check(tsr_details_create(&details));
  assert_true(isnan(tsr_details_no_speech(details, 0)));
  tsr_generate_options options = plain_options(&l);
  options.prefix = rows;
  options.prefix_lengths = n_asked;
  options.languages = languages;
  options.n_languages = LANGUAGES;
  options.no_speech_id = NO_SPEECH;
  options.decoder_start_id = 2;
  for (int32_t form = 0; form < 3; form++) {
    int32_t best[WINDOWS];
    float probabilities[WINDOWS][LANGUAGES], no_speech[WINDOWS];
    check(tsr_detect_language(l.s.transformer, WINDOWS, l.windows, 0, LANGUAGES, languages, NO_SPEECH, best,
                              &probabilities[0][0], no_speech));
    options.beam = form == 2 ? 2 : 1;
    options.details = form > 0 ? details : NULL;
    generate(&l, WINDOWS, l.windows, &options, &g);
    for (int32_t i = 0; i < WINDOWS; i++) {
      assert_int_equal(g.hypotheses[i].ids[2], START);
      assert_int_equal(g.hypotheses[i].ids[3], languages[best[i]]);
      const float *found = tsr_details_languages(details, i);
      assert_int_equal(found != NULL, form > 0);
      for (int32_t k = 0; k < LANGUAGES && found; k++) {
        assert_true(fabsf(found[k] - probabilities[i][k]) < 1e-5f);
      }
      assert_true(form == 0 || fabsf(tsr_details_no_speech(details, i) - no_speech[i]) < 1e-5f);
    }
    tsr_generation_finish(&g);
  }
  rows[0] = twice;
  options.prefix_lengths = &two;
  assert_fails(tsr_generate_features(l.s.transformer, 1, l.windows, 0, &options, NULL, NULL, &g), TSR_ERR_ARGUMENT,
               "TSR_DETECTED as token 1");
  rows[0] = asked + 3;
  options.n_languages = 0;
  assert_fails(tsr_generate_features(l.s.transformer, 1, l.windows, 0, &options, NULL, NULL, &g), TSR_ERR_ARGUMENT,
               "TSR_DETECTED as token 0");
  tsr_details_destroy(details);

  static const int32_t outside[] = {62, VOCABULARY};
  float some[2 * WINDOWS];
  tsr_transformer *t = l.s.transformer;
  check(tsr_detect_language(t, WINDOWS, l.windows, 0, 0, NULL, NO_SPEECH, NULL, NULL, some));
  check(tsr_detect_language(t, 0, NULL, 0, 2, languages, -1, NULL, NULL, NULL));
  assert_fails(tsr_detect_language(t, WINDOWS, l.windows, 0, 2, outside, -1, NULL, some, NULL), TSR_ERR_ARGUMENT,
               "language 1 is 131");
  assert_fails(tsr_detect_language(t, WINDOWS, l.windows, 0, 0, NULL, -1, NULL, some, NULL), TSR_ERR_ARGUMENT,
               "0 languages");
  assert_fails(tsr_detect_language(t, WINDOWS, l.windows, 0, 2, languages, -1, NULL, some, some), TSR_ERR_ARGUMENT,
               "no_speech_id is -1");
  assert_fails(tsr_detect_language(t, WINDOWS, l.windows, -1, 2, languages, -1, NULL, some, NULL), TSR_ERR_ARGUMENT,
               "a batch of -1 windows");
  stop_listening(&l);
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static void parse(const listener *l, const char *json, tsr_generate_options *options)
{
  check(tsr_generate_parse(l->s.model, "call", json, strlen(json), options));
}

static void test_settings(void **state)
{
  const fixture *f = *state;
  listener l;
  listen_on(f, "reference", &l);
  tsr_model *model;
  tsr_generate_options o = plain_options(&l);
  assert_int_equal(o.timestamp_begin, -1);
  assert_int_equal(o.max_initial_timestamp, -1);
  write_text(
      path_in(f->folder, "generation_config.json"),
      "{\"max_length\":40,\"suppress_tokens\":[1,2,7],\"begin_suppress_tokens\":[3,60],"
      "\"forced_decoder_ids\":[[1,null],[2,68]],\"no_timestamps_token_id\":70,\"max_initial_timestamp_index\":50,"
      "\"is_multilingual\":true,\"alignment_heads\":[[1,2],[0,3]],\"lang_to_id\":{\"<|en|>\":62},\"return_timestamps\":"
      "false}");
  check(tsr_model_open(f->folder, &model));
  check(tsr_generate_defaults(model, &o));
  assert_int_equal(o.max_length, 40);
  assert_int_equal(o.n_suppressed, 3);
  assert_int_equal(o.n_begin_suppressed, 2);
  assert_int_equal(o.timestamps, 0);
  assert_int_equal(o.no_timestamps_id, 70);
  assert_int_equal(o.timestamp_begin, 71);
  assert_int_equal(o.max_initial_timestamp, 50);
  assert_int_equal(o.timestamp_by_sum, 1);
  assert_int_equal(o.n_alignment_heads, 2);
  assert_int_equal(o.alignment_heads[3], 3);
  parse(&l,
        "{\"suppress_tokens\":[4,5],\"return_timestamps\":true,\"no_timestamps_token_id\":80,"
        "\"_detect_timestamp_from_logprob\":false,\"max_initial_timestamp_index\":7}",
        &o);
  assert_int_equal(o.n_suppressed, 2);
  assert_int_equal(o.suppressed[1], 5);
  assert_int_equal(o.timestamps, 1);
  assert_int_equal(o.timestamp_begin, 81);
  assert_int_equal(o.timestamp_by_sum, 0);
  assert_int_equal(o.max_initial_timestamp, 7);
  parse(&l, "{\"suppress_tokens\":[9]}", &o);
  assert_int_equal(o.n_suppressed, 1); /* in the place of the others */
  parse(&l, "{\"suppress_tokens\":null,\"max_initial_timestamp_index\":null}", &o);
  assert_int_equal(o.n_suppressed, 0);
  assert_int_equal(o.max_initial_timestamp, -1);
  assert_fails(tsr_generate_parse(l.s.model, "call", "{\"no_timestamps_token_id\":131}", 30, &o), TSR_ERR_FORMAT,
               "'no_timestamps_token_id' is 131");
  tsr_model_close(model); /* with it go the lists */
  stop_listening(&l);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused),      cmocka_unit_test(test_company),   cmocka_unit_test(test_details),
      cmocka_unit_test(test_timestamps),   cmocka_unit_test(test_languages), cmocka_unit_test(test_settings),
      cmocka_unit_test(test_alternatives), cmocka_unit_test(test_alignment),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
