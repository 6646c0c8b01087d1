/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of each family, of odd sizes with random weights: all devices agree, steps with a cache find what teacher
 * forcing finds, and training lowers the loss.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/transformer/model.h"
#include "tessera/train.h"
#include "tests/model/families.h"
#include "tests/model/generation.h"
#include "tests/support/temporary.h"

enum { BATCH = 3, WIDTH = 17 };

/* What a device makes of a batch of sentences of 17, 1 and 9 tokens. */
typedef struct outcome {
  float encoded[BATCH * WIDTH * FAMILY_D_MODEL];
  float logits[BATCH * WIDTH * FAMILY_VOCABULARY];
} outcome;

static const int32_t lengths[BATCH] = {WIDTH, 1, 9};
_Static_assert((int)WIDTH == (int)FAMILY_SOURCE_POSITIONS, "sentences and windows are of one size");

/* Features of windows, for a model of speech; else NULL. To be freed. */
static float *make_features(const tsr_transformer_config *config)
{
  const size_t n = (size_t)BATCH * (size_t)config->mels * 2 * WIDTH;
  float *features = config->mels > 0 ? malloc(n * sizeof *features) : NULL;
  uint32_t x = 777;
  for (size_t i = 0; features && i < n; i++) {
    x = x * 1664525u + 1013904223u;
    features[i] = (float)(x >> 8) / 0x1p23f - 1.0f;
  }
  return features;
}

static void forward(const fixture *f, const char *device, outcome *result)
{
  setup s;
  int32_t ids[BATCH * WIDTH];
  uint32_t x = 12345;
  for (int32_t i = 0; i < BATCH * WIDTH; i++) {
    x = x * 1664525u + 1013904223u;
    ids[i] = (int32_t)(3 + (x >> 8) % (FAMILY_VOCABULARY - 3));
  }
  memset(result, 0, sizeof *result);
  open_setup(f, device, &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .strict = 1}, &s);
  const tsr_transformer_config *config = tsr_model_config(s.model);
  int encodes = config->encoder_layers > 0, decodes = config->decoder_layers > 0;
  float *features = make_features(config);
  if (features) {
    check(
        tsr_transformer_forward_features(s.transformer, BATCH, features, WIDTH, ids, result->encoded, result->logits));
  } else {
    check(tsr_transformer_forward(s.transformer, BATCH, WIDTH, encodes ? ids : NULL, encodes ? lengths : NULL, WIDTH,
                                  decodes ? ids : NULL, encodes ? result->encoded : NULL,
                                  decodes ? result->logits : NULL));
  }
  free(features);
  /* What a model has not is refused. */
  if (!encodes) {
    assert_int_equal(tsr_transformer_forward(s.transformer, 1, 0, NULL, NULL, 1, ids, result->encoded, NULL),
                     TSR_ERR_UNSUPPORTED);
  }
  if (!decodes) {
    assert_int_equal(tsr_transformer_forward(s.transformer, 1, 1, ids, lengths, 1, ids, NULL, result->logits),
                     TSR_ERR_UNSUPPORTED);
  }
  close_setup(&s);
}

/* Compares the first `used` of a batch's rows of each sentence. */
static void assert_near(const char *what, const float *expected, const float *found, int32_t width, int all)
{
  double largest = 0.0, magnitude = 0.0;
  for (int32_t b = 0; b < BATCH; b++) {
    for (int32_t i = 0; i < (all ? WIDTH : lengths[b]) * width; i++) {
      double a = (double)expected[b * WIDTH * width + i], z = (double)found[b * WIDTH * width + i];
      largest = isnan(z) ? INFINITY : fmax(largest, fabs(a - z));
      magnitude = fmax(magnitude, fabs(a));
    }
  }
  if (!(largest <= 2e-5 * magnitude)) {
    fail_msg("%s: off by %g of %g", what, largest, magnitude);
  }
}

static void test_folders(void **state)
{
  const fixture *f = *state;
  outcome *expected = malloc(sizeof *expected), *found = malloc(sizeof *found);
  assert_true(expected && found);
  for (size_t i = 0; i < (size_t)N_FAMILY_CONFIGS; i++) {
    write_family(f->folder, family_configs[i]);
    forward(f, "reference", expected);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      const char *device = device_name(f, d);
      char what[512];
      snprintf(what, sizeof what, "%s on %s", family_configs[i], device);
      if (strncmp(device, "reference", 9) == 0) {
        continue;
      }
      forward(f, device, found);
      assert_near(what, expected->encoded, found->encoded, FAMILY_D_MODEL, 0);
      assert_near(what, expected->logits, found->logits, FAMILY_VOCABULARY, 1);
    }
  }
  free(expected);
  free(found);
}

/* ---- search ------------------------------------------------------------------------------------------------------ */

enum { MAX_LENGTH = 22 };

/* The most probable token behind each of a row's positions, by teacher forcing: what a step of greedy search finds.
 * features: of a model of speech, in the place of source. */
static void assert_greedy(tsr_transformer *t, const int32_t *source, int32_t length, const float *features,
                          const tsr_hypothesis *found, int32_t start, int32_t n_given)
{
  const tsr_transformer_config *config = tsr_model_config(tsr_transformer_model(t));
  int encodes = config->encoder_layers > 0;
  int32_t ids[MAX_LENGTH] = {start};
  float *logits = malloc((size_t)MAX_LENGTH * FAMILY_VOCABULARY * sizeof *logits);
  assert_non_null(logits);
  for (int32_t i = 0; i + 1 < found->n_ids; i++) {
    ids[i + 1] = found->ids[i];
  }
  check(features ? tsr_transformer_forward_features(t, 1, features, found->n_ids, ids, NULL, logits)
                 : tsr_transformer_forward(t, 1, encodes ? length : 0, encodes ? source : NULL,
                                           encodes ? &length : NULL, found->n_ids, ids, NULL, logits));
  for (int32_t i = 0; i < found->n_ids; i++) {
    const float *row = logits + (size_t)i * FAMILY_VOCABULARY;
    float best = -INFINITY;
    for (int32_t v = 0; v < FAMILY_VOCABULARY; v++) {
      best = fmaxf(best, row[v]);
    }
    if (i >= n_given && best - row[found->ids[i]] > 1e-4f) {
      fail_msg("token %d of %d is %d, whose logit is %g; the best is %g", (int)i, (int)found->n_ids, (int)found->ids[i],
               (double)row[found->ids[i]], (double)best);
    }
  }
  free(logits);
}

static void search_all(const fixture *f, const char *device, int32_t beam, tsr_generation *generation)
{
  setup s;
  int32_t pool[BATCH * WIDTH];
  const int32_t *source[BATCH] = {pool, pool + WIDTH, pool + 2 * WIDTH};
  for (int32_t i = 0; i < BATCH * WIDTH; i++) {
    pool[i] = 3 + (i * 37 + i * i) % (FAMILY_VOCABULARY - 3);
  }
  pool[2 * WIDTH] = 1; /* bos: the start token of a decoder alone */
  open_setup(f, device, &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .strict = 1}, &s);
  const tsr_transformer_config *config = tsr_model_config(s.model);
  int is_alone = config->encoder_layers == 0;
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  check(tsr_generate_defaults(s.model, &options));
  options.beam = options.n_best = beam;
  options.max_length = MAX_LENGTH;
  options.forced_eos_id = -1;
  options.n_suppressed = options.n_words = 0;
  float *features = make_features(config);
  const float *windows[BATCH] = {NULL};
  for (int32_t b = 0; b < BATCH && features; b++) {
    windows[b] = features + (size_t)b * (size_t)config->mels * 2 * WIDTH;
  }
  check(features ? tsr_generate_features(s.transformer, BATCH, windows, 2, &options, NULL, NULL, generation)
                 : tsr_generate(s.transformer, BATCH, source, lengths, 2, &options, NULL, NULL, generation));
  for (int32_t b = 0; b < BATCH && beam == 1; b++) {
    const tsr_hypothesis *found = &generation->hypotheses[b];
    int32_t has_start = is_alone && source[b][0] == config->decoder_start_id;
    int32_t n_given = is_alone ? lengths[b] - has_start : 0;
    assert_true(found->n_ids > n_given);
    assert_memory_equal(found->ids, source[b] + has_start, (size_t)n_given * sizeof *found->ids);
    assert_greedy(s.transformer, source[b], lengths[b], windows[b], found, config->decoder_start_id, n_given);
  }
  free(features);
  if (is_alone) {
    tsr_generation none;
    options.attention = 1;
    assert_int_equal(tsr_generate(s.transformer, BATCH, source, lengths, 2, &options, NULL, NULL, &none),
                     TSR_ERR_UNSUPPORTED);
    options.attention = 0;
    options.max_length = WIDTH;
    assert_int_equal(tsr_generate(s.transformer, BATCH, source, lengths, 2, &options, NULL, NULL, &none),
                     TSR_ERR_ARGUMENT);
  }
  close_setup(&s);
}

/* Steps with a cache give what teacher forcing gives, and scores of a beam are the same on every device. */
static void test_searches(void **state)
{
  const fixture *f = *state;
  for (size_t i = 0; i < (size_t)N_FAMILY_CONFIGS; i++) {
    write_family(f->folder, family_configs[i]);
    if (strstr(family_configs[i], "\"num_decoder_layers\":0")) {
      continue;
    }
    tsr_generation expected = {0};
    search_all(f, "reference", 3, &expected);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      char device[64];
      snprintf(device, sizeof device, "%s", device_name(f, d));
      tsr_generation found = {0};
      search_all(f, device, 1, &found);
      tsr_generation_finish(&found);
      search_all(f, device, 3, &found);
      for (int32_t h = 0; h < BATCH * 3; h++) {
        if (!(fabsf(found.hypotheses[h].score - expected.hypotheses[h].score) <= 1e-4f)) {
          fail_msg("%s on %s: score %d is %g instead of %g", family_configs[i], device, (int)h,
                   (double)found.hypotheses[h].score, (double)expected.hypotheses[h].score);
        }
      }
      tsr_generation_finish(&found);
    }
    tsr_generation_finish(&expected);
  }
}

/* A decoder alone without a start token takes the first token of its source; an encoder alone generates nothing. */
static void test_alone(void **state)
{
  const fixture *f = *state;
  const int32_t ids[] = {9, 7, 5}, length = 3;
  const int32_t *source = ids;
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  tsr_generation generation;
  setup s;
  write_family(f->folder,
               "{\"model_type\":\"nn_transformer\",\"num_encoder_layers\":0,\"num_decoder_layers\":1,\"d_model\":48,"
               "\"nhead\":3,\"dim_feedforward\":8,\"tgt_vocab_size\":131,\"eos_token_id\":2}");
  open_setup(f, "reference", NULL, &s);
  remove(path_in(f->folder, "generation_config.json"));
  check(tsr_generate_defaults(s.model, &options));
  assert_int_equal(options.max_length, 256);
  options.max_length = 8;
  check(tsr_generate(s.transformer, 1, &source, &length, 0, &options, NULL, NULL, &generation));
  assert_true(generation.hypotheses[0].n_ids > 2 && generation.hypotheses[0].n_ids <= 7);
  assert_int_equal(generation.hypotheses[0].ids[0], 7);
  assert_greedy(s.transformer, source, length, NULL, &generation.hypotheses[0], 9, 2);
  tsr_generation_finish(&generation);
  close_setup(&s);
  write_text(path_in(f->folder, "generation_config.json"), "{\"max_new_tokens\":5}");
  tsr_model *model;
  check(tsr_model_open(f->folder, &model));
  assert_int_equal(tsr_generate_defaults(model, &options), TSR_ERR_UNSUPPORTED);
  tsr_model_close(model);

  write_family(f->folder,
               "{\"model_type\":\"nn_transformer\",\"num_encoder_layers\":1,\"num_decoder_layers\":0,\"d_model\":48,"
               "\"nhead\":3,\"dim_feedforward\":8,\"src_vocab_size\":131,\"eos_token_id\":2}");
  open_setup(f, "reference", NULL, &s);
  options = (tsr_generate_options){TSR_SIZED(tsr_generate_options), .beam = 1, .n_best = 1, .max_length = 8};
  assert_int_equal(tsr_generate(s.transformer, 1, &source, &length, 0, &options, NULL, NULL, &generation),
                   TSR_ERR_UNSUPPORTED);
  close_setup(&s);
}

/* A configuration of another form than the weights is refused, not half understood. */
static void test_other_forms(void **state)
{
#define T5 "{\"model_type\":\"t5\",\"d_model\":48,\"num_heads\":3,\"d_ff\":8,\"num_layers\":1,\"vocab_size\":131"
#define NN "{\"model_type\":\"nn_transformer\",\"d_model\":48,\"nhead\":3,\"dim_feedforward\":8,\"vocab_size\":131"
  static const struct {
    const char *written, *read, *fragment;
  } rows[] = {
      {T5 ",\"feed_forward_proj\":\"gated-gelu\"}", T5 "}",
       "'encoder.block.0.layer.1.DenseReluDense.wi.weight' is missing"},
      {T5 "}", T5 ",\"feed_forward_proj\":\"gated-gelu\"}", "DenseReluDense.wi_0.weight' is missing"},
      {T5 "}",
       "{\"model_type\":\"umt5\",\"feed_forward_proj\":\"relu\",\"num_layers\":2,\"num_heads\":3,\"d_model\":48,\"d_"
       "ff\":8,"
       "\"vocab_size\":131}",
       "'encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight' is missing"},
      {NN ",\"num_encoder_layers\":0,\"num_decoder_layers\":1}",
       NN ",\"num_encoder_layers\":1,\"num_decoder_layers\":1}", "'src_tok_emb.embedding.weight' is missing"},
      {NN ",\"num_encoder_layers\":1,\"num_decoder_layers\":1}",
       NN ",\"num_encoder_layers\":1,\"num_decoder_layers\":1,\"activation\":\"swiglu\"}",
       "'transformer.encoder.layers.0.linear_gate.weight' is missing"},
      {"{\"model_type\":\"bart\",\"d_model\":48,\"encoder_attention_heads\":3,\"decoder_attention_heads\":3,\"encoder_"
       "layers\":1,"
       "\"decoder_layers\":1,\"encoder_ffn_dim\":8,\"decoder_ffn_dim\":8,\"vocab_size\":131,\"max_position_"
       "embeddings\":24}",
       "{\"model_type\":\"bart\",\"d_model\":48,\"encoder_attention_heads\":3,\"decoder_attention_heads\":3,\"encoder_"
       "layers\":1,"
       "\"decoder_layers\":1,\"encoder_ffn_dim\":8,\"decoder_ffn_dim\":8,\"vocab_size\":131,\"max_position_"
       "embeddings\":26}",
       "embed_positions.weight' has the shape [26, 48]; expected [28, 48]"},
  };
  const fixture *f = *state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tsr_model *model;
    write_family(f->folder, rows[i].written);
    write_text(path_in(f->folder, "config.json"), rows[i].read);
    tsr_status status = tsr_model_open(f->folder, &model);
    if (status != TSR_ERR_FORMAT || !strstr(tsr_error_message(), rows[i].fragment)) {
      fail_msg("row %zu: %s: %s", i, tsr_status_name(status), tsr_error_message());
    }
  }
#undef T5
#undef NN
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* A few steps on one batch lower its loss: each part of a family's layers has its gradient. */
static void test_training(void **state)
{
  enum { STEPS = 8, TARGET = 9 };
  const fixture *f = *state;
  int32_t source[BATCH * WIDTH], target[BATCH * TARGET], labels[BATCH * TARGET];
  for (int32_t i = 0; i < BATCH * WIDTH; i++) {
    source[i] = 3 + i * 29 % (FAMILY_VOCABULARY - 3);
  }
  for (int32_t i = 0; i < BATCH * TARGET; i++) {
    labels[i] = 3 + i * 17 % (FAMILY_VOCABULARY - 3);
    target[i] = i % TARGET == 0 ? 0 : labels[i - 1];
  }
  const tsr_examples examples = {.rows = BATCH,
                                 .source_width = WIDTH,
                                 .target_width = TARGET,
                                 .source = source,
                                 .source_lengths = lengths,
                                 .target = target,
                                 .labels = labels,
                                 .target_tokens = BATCH * TARGET};
  for (int32_t i = 0; i < N_FAMILY_CONFIGS; i++) {
    if (strstr(family_configs[i], "whisper")) {
      continue; /* it reads no ids: test_speech_training */
    }
    const int is_refused = strstr(family_configs[i], "_layers\":0") != NULL;
    setup s;
    tsr_trainer *trainer = NULL;
    double first = 0.0;
    write_family(f->folder, family_configs[i]);
    open_setup(f, "reference", NULL, &s);
    tsr_status status = tsr_trainer_create(s.model, s.device, NULL, NULL, &trainer);
    for (int32_t step = 1; step <= STEPS && status == TSR_OK; step++) {
      tsr_step_control control = {.step = step, .learning_rate = 3e-3};
      tsr_step_result result;
      status = tsr_trainer_step(trainer, &examples, &control, 1, &result);
      first = step == 1 ? result.loss : first;
      if (status == TSR_OK && step == STEPS && !(result.loss < 0.9 * first)) {
        fail_msg("%s: the loss went from %g to %g", family_configs[i], first, result.loss);
      }
    }
    assert_int_equal(status, is_refused ? TSR_ERR_UNSUPPORTED : TSR_OK);
    tsr_trainer_destroy(trainer);
    close_setup(&s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_folders),     cmocka_unit_test(test_searches), cmocka_unit_test(test_alone),
      cmocka_unit_test(test_other_forms), cmocka_unit_test(test_training),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
