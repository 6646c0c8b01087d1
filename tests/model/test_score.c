/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of given outputs, on every device: against the logits of teacher forcing, against those that the original code
 * recorded with its translations, and whatever shares a batch.
 */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/text.h"
#include "tests/model/generation.h"
#include "tests/model/random_model.h"

enum { N_SENTENCES = 11 };

static const random_model models[] = {
    {.seed = 61},
    {.seed = 62, .nn = 1, .norm_first = 1, .d_model = 20, .heads = 5, .layers = 1, .vocabulary = 53},
    {.seed = 63, .d_model = 18, .layers = 1, .vocabulary = 37, .target = 23},
    {.seed = 64, .nn = 1, .max_distance = 2},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

static void check_target(const setup *s, const int32_t *source, int32_t length, const int32_t *target,
                         const tsr_target_score *score, double penalty)
{
  const tsr_transformer_config *config = tsr_model_config(s->model);
  int32_t n = score->n_tokens;
  size_t vocabulary = (size_t)config->target_vocabulary;
  double sum = 0.0;
  float *logits = forced_logits(s, source, length, target, n);
  for (int32_t t = 0; t < n; t++) {
    double expected = log_probability(logits + (size_t)t * vocabulary, config->target_vocabulary, target[t]);
    assert_true(fabs((double)score->tokens[t] - expected) <= 2e-5 * fmax(1.0, fabs(expected)));
    sum += expected;
  }
  free(logits);
  assert_true(fabs(score->sum - sum) <= 2e-5 * fmax(1.0, fabs(sum)));
  assert_true(fabs(score->score - score->sum / pow((double)n, penalty)) <= 1e-9 * fmax(1.0, fabs(sum)));
}

static void check_model(const setup *s, const random_model *model)
{
  const tsr_score_options options = {TSR_SIZED(tsr_score_options), .n_batch = 4, .length_penalty = 0.6f};
  batch sources, targets;
  tsr_scores scores;
  int32_t lengths[N_SENTENCES];
  make_batch(model->seed, 37, N_SENTENCES, &sources);
  make_batch(model->seed + 7, tsr_model_config(s->model)->target_vocabulary, N_SENTENCES, &targets);
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    lengths[i] = targets.lengths[(i + 3) % N_SENTENCES]; /* a long source has no long target */
    if (sources.lengths[i] == 0) {
      sources.lengths[i] = 2;
    }
  }
  check(tsr_score(s->transformer, N_SENTENCES, sources.source, sources.lengths, targets.source, lengths, &options, NULL,
                  NULL, &scores));
  assert_int_equal(scores.n_sentences, N_SENTENCES);
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    const tsr_target_score *score = &scores.targets[i];
    assert_int_equal(score->n_tokens, lengths[i]);
    if (lengths[i] == 0) {
      assert_true(score->sum == 0.0 && score->score == 0.0);
      continue;
    }
    check_target(s, sources.source[i], sources.lengths[i], targets.source[i], score, 0.6f);
  }
  tsr_scores_finish(&scores);
  free_batch(&sources);
  free_batch(&targets);
}

static void test_forcing(void **state)
{
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    random_model_write(f->folder, &models[m]);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      setup s;
      open_setup(f, device_name(f, d), NULL, &s);
      check_model(&s, &models[m]);
      close_setup(&s);
    }
  }
}

/* ---- recorded scores --------------------------------------------------------------------------------------------- */

enum { N_RECORDED = 12, LINE_ROOM = 1000, LOSS_ROWS = 8, LOSS_ROOM = 64 };

typedef struct pairs {
  int32_t *source[N_RECORDED];
  int32_t source_lengths[N_RECORDED];
  int32_t target[N_RECORDED][64];
  int32_t target_lengths[N_RECORDED];
  double scores[N_RECORDED];
} pairs;

static void read_recorded(const char *folder, pairs *p)
{
  char path[2 * LINE_ROOM];
  snprintf(path, sizeof path, "%s/recorded/test.beam4.json", folder);
  json_t *root = json_load_file(path, 0, NULL);
  assert_true(json_array_size(root) >= N_RECORDED);
  for (size_t i = 0; i < N_RECORDED; i++) {
    const json_t *item = json_array_get(root, i);
    const json_t *ids = json_object_get(item, "ids");
    p->scores[i] = json_real_value(json_object_get(item, "score"));
    p->target_lengths[i] = (int32_t)json_array_size(ids);
    assert_in_range(p->target_lengths[i], 1, 64);
    for (int32_t t = 0; t < p->target_lengths[i]; t++) {
      p->target[i][t] = (int32_t)json_integer_value(json_array_get(ids, (size_t)t));
    }
  }
  json_decref(root);
}

static void read_sources(const char *root, const tsr_model *model, pairs *p)
{
  char text[2 * LINE_ROOM];
  tsr_tokenizer *tokenizer;
  snprintf(text, sizeof text, "%s/tests/data/tatoeba/test.en", root);
  FILE *file = fopen(text, "r");
  assert_non_null(file);
  check(tsr_tokenizer_open(model, &tokenizer));
  for (int32_t i = 0; i < N_RECORDED; i++) {
    assert_non_null(fgets(text, sizeof text, file));
    check(tsr_tokenizer_encode(tokenizer, text, strcspn(text, "\n"), &p->source[i], &p->source_lengths[i]));
  }
  tsr_tokenizer_close(tokenizer);
  fclose(file);
}

/* Beam search of the original code kept these translations with these scores: what their tokens' log-probabilities add
 * up to, divided by their number. */
static void test_recorded(void **state)
{
  fixture f = **(fixture **)state;
  const char *root = getenv("SOURCE_ROOT");
  char folder[LINE_ROOM];
  pairs p = {0};
  const int32_t *targets[N_RECORDED];
  assert_non_null(root);
  snprintf(folder, sizeof folder, "%s/tests/data/marian-en-fr", root);
  f.folder = folder;
  read_recorded(folder, &p);
  for (int32_t d = 0; d < tsr_runtime_device_count(f.runtime); d++) {
    setup s;
    tsr_scores scores;
    open_setup(&f, device_name(&f, d), NULL, &s);
    if (d == 0) {
      read_sources(root, s.model, &p);
    }
    for (int32_t i = 0; i < N_RECORDED; i++) {
      targets[i] = p.target[i];
    }
    check(tsr_score(s.transformer, N_RECORDED, (const int32_t *const *)p.source, p.source_lengths, targets,
                    p.target_lengths, NULL, NULL, NULL, &scores));
    for (int32_t i = 0; i < N_RECORDED; i++) {
      if (fabs(scores.targets[i].score - p.scores[i]) > 2e-5) {
        fail_msg("%s, sentence %d: score %.7f, recorded %.7f", device_name(&f, d), (int)i, scores.targets[i].score,
                 p.scores[i]);
      }
    }
    tsr_scores_finish(&scores);
    close_setup(&s);
  }
  for (int32_t i = 0; i < N_RECORDED; i++) {
    tsr_free(p.source[i]);
  }
}

/* ---- recorded losses --------------------------------------------------------------------------------------------- */

/* The ids of a row up to the first that is padding: -100 among labels, where the mask ends in others. */
static int32_t read_row(const json_t *rows, const json_t *masks, size_t row, int32_t *ids)
{
  const json_t *list = json_array_get(rows, row);
  int32_t n = 0;
  for (size_t i = 0; i < json_array_size(list) && n < LOSS_ROOM; i++) {
    int32_t id = (int32_t)json_integer_value(json_array_get(list, i));
    if (id < 0 || (masks && json_integer_value(json_array_get(json_array_get(masks, row), i)) == 0)) {
      break;
    }
    ids[n++] = id;
  }
  return n;
}

/* The loss of a batch as the original code gives it: the mean over all labels. */
static void check_loss(const setup *s, const json_t *golden)
{
  const json_t *labels = json_object_get(golden, "labels");
  const json_t *starts = json_array_get(json_object_get(golden, "decoder_input_ids"), 0);
  const int32_t start = (int32_t)json_integer_value(json_array_get(starts, 0));
  const tsr_score_options options = {TSR_SIZED(tsr_score_options), .length_penalty = 1.0f, .decoder_start_id = &start};
  int32_t source[LOSS_ROWS][LOSS_ROOM], target[LOSS_ROWS][LOSS_ROOM], source_lengths[LOSS_ROWS], lengths[LOSS_ROWS];
  const int32_t *sources[LOSS_ROWS], *targets[LOSS_ROWS];
  size_t n = json_array_size(labels);
  double sum = 0.0, tokens = 0.0;
  tsr_scores scores;
  assert_in_range(n, 1, LOSS_ROWS);
  for (size_t i = 0; i < n; i++) {
    sources[i] = source[i];
    targets[i] = target[i];
    source_lengths[i] =
        read_row(json_object_get(golden, "input_ids"), json_object_get(golden, "attention_mask"), i, source[i]);
    lengths[i] = read_row(labels, NULL, i, target[i]);
  }
  check(
      tsr_score(s->transformer, (int32_t)n, sources, source_lengths, targets, lengths, &options, NULL, NULL, &scores));
  for (size_t i = 0; i < n; i++) {
    sum -= scores.targets[i].sum;
    tokens += (double)scores.targets[i].n_tokens;
  }
  tsr_scores_finish(&scores);
  double recorded = json_real_value(json_object_get(golden, "loss"));
  if (!(fabs(sum / tokens - recorded) <= 1e-5 * recorded)) {
    fail_msg("%s: loss %.7f, recorded %.7f", tsr_model_folder(s->model), sum / tokens, recorded);
  }
}

/* TESSERA_GOLDENS names another folder of recordings, which may lack some of the cases. */
static void test_recorded_losses(void **state)
{
  fixture f = **(fixture **)state;
  static const char *const cases[] = {"marian", "t5_v1_0", "t5_v1_1", "bart", "m2m_100", "pegasus"};
  const char *goldens = getenv("TESSERA_GOLDENS"), *root = getenv("SOURCE_ROOT");
  char folder[LINE_ROOM], path[2 * LINE_ROOM];
  assert_non_null(root);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    snprintf(folder, sizeof folder, "%s%s/models/%s", goldens ? goldens : root, goldens ? "" : "/tests/data/goldens",
             cases[i]);
    snprintf(path, sizeof path, "%s/golden.json", folder);
    json_t *golden = json_load_file(path, 0, NULL);
    assert_true(golden || goldens);
    f.folder = folder;
    for (int32_t d = 0; golden && d < tsr_runtime_device_count(f.runtime); d++) {
      setup s;
      open_setup(&f, device_name(&f, d), NULL, &s);
      check_loss(&s, golden);
      close_setup(&s);
    }
    json_decref(golden);
  }
}

/* ---- mistakes ---------------------------------------------------------------------------------------------------- */

static void test_mistakes(void **state)
{
  const fixture *f = *state;
  const int32_t good[] = {3, 4, 0}, bad[] = {3, 37, 0};
  const int32_t *source = good, *target = bad;
  const int32_t length = 3, long_length = 65;
  setup s;
  tsr_scores scores;
  random_model_write(f->folder, &models[0]);
  open_setup(f, "reference", NULL, &s);
  assert_int_equal(tsr_score(s.transformer, 1, &source, &length, &target, &length, NULL, NULL, NULL, &scores),
                   TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "target of sentence 0: token 1 is 37"));
  assert_int_equal(tsr_score(s.transformer, 1, &source, &long_length, &source, &length, NULL, NULL, NULL, &scores),
                   TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "source of sentence 0: has 65 tokens"));
  check(tsr_score(s.transformer, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &scores));
  assert_int_equal(scores.n_sentences, 0);
  tsr_scores_finish(&scores);
  close_setup(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forcing),
      cmocka_unit_test(test_recorded),
      cmocka_unit_test(test_recorded_losses),
      cmocka_unit_test(test_mistakes),
  };
  return cmocka_run_group_tests_name("score", tests, start, stop);
}
