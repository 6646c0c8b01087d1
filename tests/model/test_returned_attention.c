/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tokens of an output attended to, as a search returns it: on every device equal to what teacher forcing of
 * that output shows; and the coverage penalty made of it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/generate/trace.h"
#include "tessera/inspect.h"
#include "tests/model/generation.h"
#include "tests/model/random_model.h"

enum { N_SENTENCES = 7, ROOM = 64 };

static const random_model models[] = {
    {.seed = 91},
    {.seed = 92, .nn = 1, .norm_first = 1, .d_model = 20, .heads = 5, .layers = 3, .vocabulary = 53},
    {.seed = 93, .nn = 1, .max_distance = 3},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

/* Two hypotheses over a source of two tokens, three steps:
 *   step 0: rows a0, a1; both of the next go on from 0
 *   step 1: rows b0, b1; 0 goes on from 1, and 1 from 0
 *   step 2: rows c0, c1 */
static void test_trace(void **state)
{
  (void)state;
  static const float steps[3][6] = {{1.0f, 1.0f, -1.0f, 0.0f, 2.0f, -1.0f},
                                    {0.5f, 1.5f, -1.0f, 2.0f, 0.0f, -1.0f},
                                    {0.2f, 1.8f, -1.0f, 0.4f, 1.6f, -1.0f}};
  static const int32_t parents[3][2] = {{0, 0}, {1, 0}, {0, 1}};
  tsr_trace trace;
  float *attention;
  tsr_trace_init(&trace, 2, 2);
  for (int32_t i = 0; i < 3; i++) {
    assert_int_equal(tsr_trace_add(&trace, steps[i], 3, 0.5f), TSR_OK); /* of two heads */
    tsr_trace_follow(&trace, parents[i]);
  }
  /* The first of the last step is b1's, whose own is a0's. */
  static const float first[] = {0.5f, 0.5f, 1.0f, 0.0f, 0.1f, 0.9f}, second[] = {0.5f, 0.5f, 0.25f, 0.75f, 0.2f, 0.8f};
  assert_int_equal(tsr_trace_read(&trace, 0, 1, &attention), TSR_OK);
  assert_memory_equal(attention, first, sizeof first);
  assert_true(tsr_trace_penalty(&trace, attention, 2.0f) == 0.0); /* 1.6 and 1.4: both are covered */
  free(attention);
  assert_int_equal(tsr_trace_read(&trace, 1, 0, &attention), TSR_OK);
  assert_memory_equal(attention, second, sizeof second);
  /* 0.95 and 2.05: 2 ln 0.95 */
  assert_true(fabs(tsr_trace_penalty(&trace, attention, 2.0f) - -0.1025866) < 1e-6);
  assert_true(tsr_trace_penalty(&trace, attention, 0.0f) == 0.0);
  free(attention);
  tsr_trace_finish(&trace);
}

/* ---- against teacher forcing ------------------------------------------------------------------------------------- */

/* The mean of the heads' weights of a layer, from 0, [n_ids][n_source]. */
static void forced_attention(const setup *s, const int32_t *source, int32_t length, const tsr_hypothesis *h,
                             int32_t layer, uint32_t heads, float *mean)
{
  int32_t n_heads = 0;
  const tsr_transformer_config *config = tsr_model_config(s->model);
  int32_t ids[ROOM];
  char name[96];
  tsr_inspection seen;
  ids[0] = config->decoder_start_id;
  memcpy(ids + 1, h->ids, (size_t)(h->n_ids - 1) * sizeof *ids);
  check(tsr_transformer_inspect(s->transformer, TSR_INSPECT_CROSS_ATTENTION, 1, length, source, &length, h->n_ids, ids,
                                &seen));
  snprintf(name, sizeof name, "decoder.layers.%d.cross_attention.weights", (int)layer);
  const tsr_inspected *w = tsr_inspection_find(&seen, name);
  assert_non_null(w);
  for (int32_t head = 0; head < config->decoder_heads; head++) {
    n_heads += (heads >> head & 1) != 0;
  }
  for (int32_t i = 0; i < h->n_ids * length; i++) {
    mean[i] = 0.0f;
    for (int32_t head = 0; head < config->decoder_heads; head++) {
      mean[i] += (heads >> head & 1) != 0 ? w->values[head * h->n_ids * length + i] / (float)n_heads : 0.0f;
    }
  }
  tsr_inspection_finish(&seen);
}

static double coverage(const tsr_hypothesis *h)
{
  double sum = 0.0;
  for (int32_t k = 0; k < h->n_source; k++) {
    double covered = 0.0;
    for (int32_t t = 0; t < h->n_ids; t++) {
      covered += (double)h->attention[t * h->n_source + k];
    }
    sum += log(fmin(covered, 1.0));
  }
  return sum;
}

static double sum_of(const setup *s, const int32_t *source, int32_t length, const tsr_hypothesis *h)
{
  const int32_t *ids = h->ids;
  tsr_scores scores;
  check(tsr_score(s->transformer, 1, &source, &length, &ids, &h->n_ids, NULL, NULL, NULL, &scores));
  double sum = scores.targets[0].sum;
  tsr_scores_finish(&scores);
  return sum;
}

static void check_attention(const setup *s, const batch *b, tsr_generate_options options)
{
  static float forced[ROOM * ROOM];
  int32_t layers = tsr_model_config(s->model)->decoder_layers;
  tsr_generation g;
  options.attention = 1;
  check(tsr_generate(s->transformer, N_SENTENCES, b->source, b->lengths, 4, &options, NULL, NULL, &g));
  for (int32_t i = 0; i < N_SENTENCES * g.n_best; i++) {
    const tsr_hypothesis *h = &g.hypotheses[i];
    const int32_t *source = b->source[i / g.n_best];
    int32_t length = b->lengths[i / g.n_best];
    if (length == 0) {
      assert_null(h->attention);
      continue;
    }
    assert_int_equal(h->n_source, length);
    forced_attention(s, source, length, h, options.attention_layer > 0 ? options.attention_layer - 1 : layers - 1,
                     options.attention_heads ? options.attention_heads : UINT32_MAX, forced);
    for (int32_t k = 0; k < h->n_ids * length; k++) {
      assert_true(fabsf(h->attention[k] - forced[k]) <= 2e-6f);
    }
    if (options.coverage_penalty > 0.0f) {
      double sum = sum_of(s, source, length, h);
      double expected =
          sum / pow((double)h->n_ids, (double)options.length_penalty) + (double)options.coverage_penalty * coverage(h);
      assert_true(fabs(expected - (double)h->score) <= 2e-5 * fmax(1.0, fabs(expected)));
    }
  }
  tsr_generation_finish(&g);
}

static int32_t heads_of(const setup *s)
{
  return tsr_model_config(s->model)->decoder_heads;
}

static void test_devices(void **state)
{
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    random_model_write(f->folder, &models[m]);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      setup s;
      batch b;
      open_setup(f, device_name(f, d), NULL, &s);
      make_batch(models[m].seed, 37, N_SENTENCES, &b);
      for (int32_t beam = 1; beam <= 4; beam += 3) {
        tsr_generate_options options = options_for(&s, beam);
        check_attention(&s, &b, options);
        options.attention_layer = 1;
        options.coverage_penalty = beam > 1 ? 0.3f : 0.0f;
        check_attention(&s, &b, options);
        options.attention_heads = 1u << (heads_of(&s) - 1);
        check_attention(&s, &b, options);
        options.attention_heads |= 1;
        check_attention(&s, &b, options);
        options.attention_heads = 1u << heads_of(&s);
        tsr_generation none;
        assert_int_equal(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 4, &options, NULL, NULL, &none),
                         TSR_ERR_ARGUMENT);
        assert_non_null(strstr(tsr_error_message(), "attention_heads is 0x"));
      }
      close_setup(&s);
      free_batch(&b);
    }
  }
}

/* A forced last token attends, too; and who does not ask gets nothing. */
static void test_forced_end(void **state)
{
  const fixture *f = *state;
  setup s;
  batch b;
  tsr_generation g;
  random_model_write(f->folder, &models[0]);
  open_setup(f, "cpu", NULL, &s);
  make_batch(7, 37, N_SENTENCES, &b);
  for (int32_t beam = 1; beam <= 3; beam += 2) {
    tsr_generate_options options = options_for(&s, beam);
    options.max_length = 8;
    options.forced_eos_id = 0;
    check_attention(&s, &b, options);
    options.coverage_penalty = 0.5f;
    check(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 0, &options, NULL, NULL, &g));
    assert_null(g.hypotheses[0].attention);
    tsr_generation_finish(&g);
  }
  close_setup(&s);
  free_batch(&b);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_trace),
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_forced_end),
  };
  return cmocka_run_group_tests_name("returned_attention", tests, start, stop);
}
