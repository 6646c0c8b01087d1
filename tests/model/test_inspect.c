/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking into a forward pass, and the times of lines. That the values are right is for the recorded cases to say;
 * here: names and shapes, padding, and what must hold of any model.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/inspect.h"
#include "tessera/ops.h"
#include "tests/model/generation.h"
#include "tests/model/random_model.h"
#include "tests/support/temporary.h"

enum { B = 3, S = 7, L = 5, H = 3, D = 24, N_LAYERS = 2, V = 37 };

static const int32_t lengths[B] = {7, 1, 4};
static const int32_t everything = TSR_INSPECT_HIDDEN | TSR_INSPECT_SELF_ATTENTION | TSR_INSPECT_CROSS_ATTENTION |
                                  TSR_INSPECT_LAYERS | TSR_INSPECT_NORMS | TSR_INSPECT_SUMS | TSR_INSPECT_INPUTS;

/* Ids that are valid, beyond the lengths too. */
static const int32_t *ids(int32_t n)
{
  static int32_t all[B * S];
  for (int32_t i = 0; i < n; i++) {
    all[i] = 3 + (i * 7) % 30;
  }
  return all;
}

static void inspect(const setup *s, int32_t what, tsr_inspection *seen)
{
  int32_t target[B * L];
  memcpy(target, ids(B * L), sizeof target);
  check(tsr_transformer_inspect(s->transformer, what, B, S, ids(B * S), lengths, L, target, seen));
}

static const float *values(const tsr_inspection *seen, const char *name, tsr_shape shape)
{
  const tsr_inspected *found = tsr_inspection_find(seen, name);
  if (!found) {
    fail_msg("there is no %s", name);
    return NULL;
  }
  assert_true(tsr_shape_equal(&found->shape, &shape));
  return found->values;
}

/* Every row of a query that counts sums to 1, keys that are excluded have 0, rows beyond a length are 0. */
static void check_weights(const tsr_inspection *seen, const char *name, int32_t queries, int32_t keys, int padded,
                          int causal)
{
  const float *w = values(seen, name, TSR_SHAPE(B, H, queries, keys));
  for (int32_t row = 0; row < B * H * queries; row++, w += keys) {
    int32_t b = row / (H * queries), l = row % queries;
    int32_t visible = causal ? l + 1 : lengths[b];
    double sum = 0.0;
    for (int32_t k = 0; k < keys; k++) {
      assert_true(k < visible || w[k] == 0.0f);
      sum += (double)w[k];
    }
    double expected = padded && l >= lengths[b] ? 0.0 : 1.0;
    assert_true(fabs(sum - expected) < 1e-5);
  }
}

static void assert_close(const float *a, const float *b, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    if (!(fabsf(a[i] - b[i]) <= 1e-4f * fmaxf(1.0f, fabsf(b[i])))) {
      fail_msg("element %d: %g and %g", (int)i, (double)a[i], (double)b[i]);
    }
  }
}

static void check_device(const fixture *f, const char *device, const random_model *model)
{
  random_model_write(f->folder, model);
  setup s;
  open_setup(f, device, NULL, &s);
  tsr_inspection seen;
  inspect(&s, everything, &seen);
  check_weights(&seen, "encoder.layers.0.self_attention.weights", S, S, 1, 0);
  check_weights(&seen, "encoder.layers.1.self_attention.weights", S, S, 1, 0);
  check_weights(&seen, "decoder.layers.0.self_attention.weights", L, L, 0, 1);
  check_weights(&seen, "decoder.layers.1.cross_attention.weights", L, S, 0, 0);
  assert_null(tsr_inspection_find(&seen, "encoder.layers.2"));

  /* What the names promise of each other. */
  const tsr_shape of_source = TSR_SHAPE(B, S, D), of_target = TSR_SHAPE(B, L, D);
  assert_close(values(&seen, "encoder.hidden.0", of_source), values(&seen, "encoder.embedding", of_source), B * S * D);
  assert_close(values(&seen, "decoder.hidden.1", of_target), values(&seen, "decoder.layers.0", of_target), B * L * D);
  assert_close(values(&seen, "encoder.layers.1", of_source),
               values(&seen,
                      model->norm_first ? "encoder.layers.1.feed_forward_sum" : "encoder.layers.1.feed_forward_norm",
                      of_source),
               B * S * D);
  values(&seen, "decoder.layers.1.cross_attention_sum", of_target);
  assert_close(values(&seen, "decoder.hidden.2", of_target),
               values(&seen, model->nn ? "decoder.norm" : "decoder.layers.1", of_target), B * L * D);

  /* Matrices are multiplied with what goes into their sublayers. */
  assert_close(
      values(&seen, "encoder.layers.1.self_attention.qkv.weight.input", of_source),
      values(&seen, model->norm_first ? "encoder.layers.1.self_attention_norm" : "encoder.layers.0", of_source),
      B * S * D);
  assert_close(
      values(&seen, "decoder.layers.1.feed_forward.in.weight.input", of_target),
      values(&seen, model->norm_first ? "decoder.layers.1.feed_forward_norm" : "decoder.layers.1.cross_attention_norm",
             of_target),
      B * L * D);

  /* The last hidden state is the encoder's output, and what is beyond a length is 0. */
  float *output = malloc(B * S * D * sizeof *output);
  assert_non_null(output);
  check(tsr_transformer_forward(s.transformer, B, S, ids(B * S), lengths, 0, NULL, output, NULL));
  const float *last = values(&seen, "encoder.hidden.2", of_source);
  for (int32_t b = 0; b < B; b++) {
    assert_close(last + b * S * D, output + b * S * D, lengths[b] * D);
    for (int32_t i = lengths[b] * D; i < S * D; i++) {
      assert_true(last[b * S * D + i] == 0.0f);
    }
  }
  free(output);
  tsr_inspection_finish(&seen);

  /* Only what is asked for, and the encoder alone. */
  inspect(&s, TSR_INSPECT_CROSS_ATTENTION, &seen);
  assert_int_equal(seen.n, N_LAYERS);
  assert_string_equal(seen.tensors[1].name, "decoder.layers.1.cross_attention.weights");
  tsr_inspection_finish(&seen);
  check(tsr_transformer_inspect(s.transformer, TSR_INSPECT_HIDDEN, B, S, ids(B * S), lengths, 0, NULL, &seen));
  assert_int_equal(seen.n, N_LAYERS + 1);
  tsr_inspection_finish(&seen);
  assert_int_equal(seen.n, 0);
  close_setup(&s);
}

static void test_devices(void **state)
{
  const fixture *f = *state;
  const random_model post = {.seed = 5}, pre = {.nn = 1, .norm_first = 1, .seed = 6};
  for (int32_t i = 0; i < tsr_runtime_device_count(f->runtime); i++) {
    char device[64];
    snprintf(device, sizeof device, "%s", device_name(f, i));
    check_device(f, device, &post);
    check_device(f, device, &pre);
  }
}

static tsr_status any_parameter(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  (void)context;
  for (int64_t i = 0; i < count; i++) {
    elements[i] = (float)((parameter * 31 + (first + i) * 17) % 101 - 50) * 0.01f;
  }
  return TSR_OK;
}

/* An encoder alone, and a decoder alone, which has no cross-attention and reads no source. */
static void test_alone(void **state)
{
  static const char *const configurations[] = {
      "{\"model_type\":\"nn_transformer\",\"d_model\":24,\"nhead\":3,\"dim_feedforward\":40,\"num_encoder_layers\":2,"
      "\"num_decoder_layers\":0,\"src_vocab_size\":37,\"norm_first\":true}",
      "{\"model_type\":\"nn_transformer\",\"d_model\":24,\"nhead\":3,\"dim_feedforward\":40,\"num_encoder_layers\":0,"
      "\"num_decoder_layers\":2,\"tgt_vocab_size\":37,\"norm_first\":true}"};
  const fixture *f = *state;
  for (int32_t decodes = 0; decodes < 2; decodes++) {
    tsr_model *made;
    remove(path_in(f->folder, "model.safetensors"));
    write_text(path_in(f->folder, "config.json"), configurations[decodes]);
    check(tsr_model_open(f->folder, &made));
    check(tsr_model_save(made, f->folder, NULL, any_parameter, NULL));
    tsr_model_close(made);
    for (int32_t i = 0; i < tsr_runtime_device_count(f->runtime); i++) {
      char device[64];
      snprintf(device, sizeof device, "%s", device_name(f, i));
      setup s;
      open_setup(f, device, NULL, &s);
      tsr_inspection seen;
      if (decodes) {
        check(tsr_transformer_inspect(s.transformer, everything, B, 0, NULL, NULL, L, ids(B * L), &seen));
        check_weights(&seen, "decoder.layers.1.self_attention.weights", L, L, 0, 1);
        assert_null(tsr_inspection_find(&seen, "decoder.layers.0.cross_attention.weights"));
        values(&seen, "decoder.hidden.2", TSR_SHAPE(B, L, D));
        tsr_inspection_finish(&seen);
        check(tsr_transformer_inspect(s.transformer, everything, B, 0, NULL, NULL, 0, NULL, &seen));
        assert_int_equal(seen.n, 0);
      } else {
        check(tsr_transformer_inspect(s.transformer, everything, B, S, ids(B * S), lengths, 0, NULL, &seen));
        check_weights(&seen, "encoder.layers.1.self_attention.weights", S, S, 1, 0);
        values(&seen, "encoder.norm", TSR_SHAPE(B, S, D));
      }
      tsr_inspection_finish(&seen);
      close_setup(&s);
    }
  }
}

static void test_bad_arguments(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &(random_model){.seed = 5});
  setup s;
  open_setup(f, "reference", NULL, &s);
  tsr_inspection seen;
  assert_int_equal(tsr_transformer_inspect(NULL, 1, B, S, ids(B * S), lengths, 0, NULL, &seen), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_transformer_inspect(s.transformer, 0, B, S, ids(B * S), lengths, 0, NULL, &seen),
                   TSR_ERR_ARGUMENT);
  assert_int_equal(
      tsr_transformer_inspect(s.transformer, 2 * TSR_INSPECT_CONVOLUTIONS, B, S, ids(B * S), lengths, 0, NULL, &seen),
      TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_transformer_inspect(s.transformer, 1, B, 100, ids(B * S), lengths, 0, NULL, &seen),
                   TSR_ERR_ARGUMENT); /* more than there are positions */
  assert_int_equal(seen.n, 0);
  assert_null(seen.tensors);
  const int32_t foreign[B * S] = {V};
  assert_int_equal(tsr_transformer_inspect(s.transformer, 1, B, S, foreign, lengths, 0, NULL, &seen), TSR_ERR_ARGUMENT);
  tsr_profile profile;
  assert_int_equal(tsr_transformer_profile(s.transformer, &profile), TSR_ERR_ARGUMENT);
  tsr_inspection_finish(NULL);
  tsr_profile_finish(NULL);
  close_setup(&s);
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static const tsr_profile_row *row_of(const tsr_profile *profile, int32_t kind, int32_t op, const char *label)
{
  for (int32_t i = 0; i < profile->n; i++) {
    const tsr_profile_row *row = &profile->rows[i];
    if (row->kind == kind && row->op == op && strcmp(row->label, label) == 0) {
      return row;
    }
  }
  fail_msg("there is no row %s", label);
  return NULL;
}

/* How often programs ran that lengthen caches: they copy the keys and the values of each layer. */
static int64_t runs_that_grow(const tsr_profile *profile)
{
  int64_t copies = 0;
  for (int32_t i = 0; i < profile->n; i++) {
    const tsr_profile_row *row = &profile->rows[i];
    copies += row->kind > TSR_PROGRAM_SCORE && row->op == TSR_OP_COPY ? row->runs : 0;
  }
  assert_int_equal(copies % (2 * N_LAYERS), 0);
  return copies / (2 * N_LAYERS);
}

static void check_times(const fixture *f, const char *device, int32_t beam)
{
  enum { SENTENCES = 9 };
  setup s;
  /* Two programs are kept: what a third drops must not be lost. */
  open_setup(f, device,
             &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .profile = 1, .cache = 2, .workers = 2},
             &s);
  batch b;
  make_batch(11, V, SENTENCES, &b);
  tsr_generate_options options = options_for(&s, beam);
  tsr_generation results;
  check(tsr_generate(s.transformer, b.n, b.source, b.lengths, 3, &options, NULL, NULL, &results));
  tsr_generation_finish(&results);
  free_batch(&b);
  tsr_generate_statistics statistics;
  tsr_generate_measure(s.transformer, &statistics);
  tsr_profile profile;
  check(tsr_transformer_profile(s.transformer, &profile));
  assert_int_equal(profile.runs, statistics.encode_runs + statistics.step_runs + runs_that_grow(&profile));
  assert_true(profile.compiled > 2 && profile.compile_seconds > 0.0);
  double sum = 0.0;
  for (int32_t i = 0; i < profile.n; i++) {
    const tsr_profile_row *row = &profile.rows[i];
    assert_true(row->runs > 0 && row->seconds >= 0.0 && row->flops >= 0.0 && row->bytes > 0.0);
    sum += row->seconds;
  }
  assert_true(sum > 0.0 && sum <= 1.01 * profile.run_seconds);
  int32_t step = beam == 1 ? TSR_PROGRAM_GREEDY : TSR_PROGRAM_BEAM;
  assert_int_equal(row_of(&profile, step, TSR_OP_TOPK, "search")->runs, statistics.step_runs);
  assert_int_equal(row_of(&profile, TSR_PROGRAM_ENCODE, TSR_OP_ATTENTION, "encoder.layers.1.self_attention")->runs,
                   statistics.encode_runs);
  row_of(&profile, step, TSR_OP_MATMUL, "decoder.layers.0.feed_forward");

  /* Asked a second time, it says the same. */
  tsr_profile again;
  check(tsr_transformer_profile(s.transformer, &again));
  assert_int_equal(again.n, profile.n);
  assert_true(again.rows[0].seconds == profile.rows[0].seconds && again.rows[0].flops == profile.rows[0].flops);
  tsr_profile_finish(&again);
  tsr_profile_finish(&profile);
  assert_int_equal(profile.n, 0);
  close_setup(&s);
}

static void test_times(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &(random_model){.seed = 7});
  for (int32_t i = 0; i < tsr_runtime_device_count(f->runtime); i++) {
    char device[64];
    snprintf(device, sizeof device, "%s", device_name(f, i));
    check_times(f, device, 1);
    check_times(f, device, 3);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_alone),
      cmocka_unit_test(test_bad_arguments),
      cmocka_unit_test(test_times),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
