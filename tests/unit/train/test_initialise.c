/* SPDX-License-Identifier: Apache-2.0
 *
 * What parameters begin with.
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

#include "core/transformer/model.h"
#include "tessera/training_run.h"
#include "tests/support/configs.h"

static tsr_model *make_model(tsr_transformer_config config)
{
  config.d_model = 96;
  config.encoder_d_ff = config.decoder_d_ff = 160;
  config.source_vocabulary = config.target_vocabulary = 500;
  config.embedding_scale = sqrtf(96.0f);
  tsr_model *model;
  if (tsr_model_create(&config, &model) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  return model;
}

/* The parameter of that name as it begins; freed by the caller. */
static float *begin(const tsr_model *model, const char *name, int32_t method, uint64_t seed, int64_t *n)
{
  const tsr_parameter *parameter = tsr_model_find(model, name);
  assert_non_null(parameter);
  *n = tsr_shape_elements(&parameter->shape);
  float *values = malloc((size_t)*n * sizeof *values);
  assert_non_null(values);
  int32_t index = (int32_t)(parameter - model->parameters.items);
  assert_int_equal(tsr_initialise(model, method, seed, index, values, *n), TSR_OK);
  return values;
}

/* U: even over -size .. size; N: normal with the deviation size; C: all are size. */
static void check_numbers(const char *name, char kind, double size, const float *values, int64_t n)
{
  double sum = 0, squares = 0, most = 0;
  int64_t inner = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += (double)values[i];
    squares += (double)values[i] * (double)values[i];
    most = fmax(most, fabs((double)values[i]));
    inner += fabs((double)values[i]) < size / 2;
    if (kind == 'C' && (double)values[i] != size) {
      fail_msg("%s: element %lld is %g, not %g", name, (long long)i, (double)values[i], size);
    }
  }
  if (kind == 'C') {
    return;
  }
  double expected = kind == 'U' ? size / sqrt(3.0) : size;
  double found = sqrt(squares / (double)n);
  if (fabs(found / expected - 1.0) > 3.0 / sqrt((double)n) ||
      fabs(sum / (double)n) > 5.0 * expected / sqrt((double)n)) {
    fail_msg("%s: mean %g, deviation %g; expected 0, %g", name, sum / (double)n, found, expected);
  }
  /* Half of the even numbers lie in the inner half, 38.29 % of the normal ones. */
  double share = (double)inner / (double)n;
  if (fabs(share - (kind == 'U' ? 0.5 : 0.3829)) > 2.5 / sqrt((double)n)) {
    fail_msg("%s: %g of the numbers lie in the inner half", name, share);
  }
  if (kind == 'U' ? most > size || most < size * (1.0 - 20.0 / (double)n) : most < 2.5 * size || most > 6.5 * size) {
    fail_msg("%s: the largest number is %g", name, most);
  }
}

typedef struct expectation {
  const char *name;
  char kind;
  double size;
} expectation;

static void check_all(const tsr_model *model, int32_t method, const expectation *expected, size_t n_expected)
{
  for (size_t i = 0; i < n_expected; i++) {
    int64_t n;
    float *values = begin(model, expected[i].name, method, 11, &n);
    check_numbers(expected[i].name, expected[i].kind, expected[i].size, values, n);
    free(values);
  }
}

#define CHECK(model, method, list) check_all(model, method, list, sizeof list / sizeof list[0])

static void test_methods(void **state)
{
  (void)state;
  const double glorot = sqrt(6.0 / (96 + 96)), feed = sqrt(6.0 / (96 + 160)), joined = sqrt(6.0 / (96 + 3 * 96));
  tsr_transformer_config separate = marian_config();
  separate.pad_id = separate.decoder_start_id = -1;
  separate.shared_embedding = separate.tied_logits = 0;
  tsr_model *marian = make_model(separate);
  tsr_transformer_config without_pad = nn_config();
  without_pad.pad_id = -1;
  tsr_model *nn = make_model(without_pad);
  const expectation paper[] = {
      {"encoder.embedding.weight", 'N', 1 / sqrt(96.0)},
      {"decoder.embedding.weight", 'N', 1 / sqrt(96.0)},
      {"logits.weight", 'N', 1 / sqrt(96.0)},
      {"logits.bias", 'C', 0},
      {"encoder.layers.1.self_attention.qkv.weight", 'U', glorot},
      {"encoder.layers.1.self_attention.qkv.bias", 'C', 0},
      {"decoder.layers.0.self_attention.output.weight", 'U', glorot},
      {"decoder.layers.0.cross_attention.query.weight", 'U', glorot},
      {"decoder.layers.0.cross_attention.kv.weight", 'U', glorot},
      {"decoder.layers.0.feed_forward.in.weight", 'U', feed},
      {"decoder.layers.0.feed_forward.out.weight", 'U', feed},
      {"decoder.layers.0.feed_forward.out.bias", 'C', 0},
      {"encoder.layers.0.self_attention_norm.weight", 'C', 1},
      {"encoder.layers.0.self_attention_norm.bias", 'C', 0},
  };
  CHECK(marian, TSR_INITIAL_XAVIER, paper);
  CHECK(nn, TSR_INITIAL_XAVIER, paper);
  const expectation hugging_face[] = {
      {"encoder.embedding.weight", 'N', 0.02},
      {"logits.weight", 'N', 0.02},
      {"logits.bias", 'C', 0},
      {"encoder.layers.1.self_attention.qkv.weight", 'N', 0.02},
      {"decoder.layers.0.feed_forward.in.weight", 'N', 0.02},
      {"decoder.layers.0.feed_forward.in.bias", 'C', 0},
      {"decoder.layers.0.cross_attention_norm.weight", 'C', 1},
  };
  CHECK(marian, TSR_INITIAL_FAMILY, hugging_face);
  const expectation torch[] = {
      {"encoder.embedding.weight", 'N', 1},
      {"logits.weight", 'U', 1 / sqrt(96.0)},
      {"logits.bias", 'U', 1 / sqrt(96.0)},
      {"encoder.layers.1.self_attention.qkv.weight", 'U', joined},
      {"encoder.layers.1.self_attention.qkv.bias", 'C', 0},
      {"decoder.layers.0.cross_attention.query.weight", 'U', joined},
      {"decoder.layers.0.cross_attention.kv.weight", 'U', joined},
      {"decoder.layers.0.cross_attention.kv.bias", 'C', 0},
      {"decoder.layers.0.cross_attention.output.weight", 'U', glorot},
      {"decoder.layers.0.cross_attention.output.bias", 'C', 0},
      {"encoder.layers.0.feed_forward.in.weight", 'U', feed},
      {"encoder.layers.0.feed_forward.in.bias", 'U', 1 / sqrt(96.0)},
      {"encoder.layers.0.feed_forward.out.bias", 'U', 1 / sqrt(160.0)},
      {"encoder.norm.weight", 'C', 1},
      {"encoder.norm.bias", 'C', 0},
  };
  CHECK(nn, TSR_INITIAL_FAMILY, torch);
  tsr_model_close(marian);
  tsr_model_close(nn);
}

/* Convolutions by their channels and rows, and the encoder's positions: sines, then cosines, of 96 columns. */
static void test_speech(void **state)
{
  (void)state;
  tsr_transformer_config config = whisper_config();
  config.source_vocabulary = 0;
  config.d_model = 96;
  config.target_vocabulary = 500;
  tsr_model *model = NULL;
  assert_int_equal(tsr_model_create(&config, &model), TSR_OK);
  const expectation paper[] = {{"encoder.conv1.weight", 'U', sqrt(6.0 / (3 * 96 + 3 * 7))},
                               {"encoder.conv2.weight", 'U', sqrt(6.0 / (3 * 96 + 3 * 96))},
                               {"encoder.conv1.bias", 'C', 0},
                               {"decoder.positions.weight", 'N', 1 / sqrt(96.0)}};
  const expectation original[] = {{"encoder.conv1.weight", 'N', 0.02}, {"encoder.conv2.weight", 'N', 0.02}};
  CHECK(model, TSR_INITIAL_XAVIER, paper);
  CHECK(model, TSR_INITIAL_FAMILY, original);
  for (int32_t method = TSR_INITIAL_XAVIER; method <= TSR_INITIAL_FAMILY; method++) {
    int64_t n;
    float *values = begin(model, "encoder.positions.weight", method, 11, &n);
    assert_int_equal(n, 5 * 96);
    for (int64_t i = 0; i < n; i++) {
      const int64_t row = i / 96, column = i % 48;
      const double angle = (double)row * pow(10000.0, -(double)column / 47);
      assert_true(fabs((double)values[i] - (i % 96 < 48 ? sin(angle) : cos(angle))) < 1e-5);
    }
    free(values);
  }
  tsr_model_close(model);
}

static void test_pad(void **state)
{
  (void)state;
  tsr_model *marian = make_model(marian_config());
  tsr_model *nn = make_model(nn_config());
  const struct {
    const tsr_model *model;
    const char *name;
    int32_t method;
    int32_t zero; /* the row of the pad is zeros */
  } cases[] = {
      {marian, "embedding.weight", TSR_INITIAL_XAVIER, 1},
      {marian, "embedding.weight", TSR_INITIAL_FAMILY, 1},
      {nn, "decoder.embedding.weight", TSR_INITIAL_XAVIER, 1},
      {nn, "decoder.embedding.weight", TSR_INITIAL_FAMILY, 0},
      {nn, "logits.weight", TSR_INITIAL_XAVIER, 0},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    int64_t n;
    float *values = begin(cases[c].model, cases[c].name, cases[c].method, 3, &n);
    int32_t pad = tsr_model_config(cases[c].model)->pad_id;
    for (int64_t i = 0; i < n; i++) {
      assert_int_equal(values[i] == 0.0f, i / 96 == pad && cases[c].zero);
    }
    free(values);
  }
  tsr_model_close(marian);
  tsr_model_close(nn);
}

static uint64_t hash(const float *values, int64_t n)
{
  uint64_t sum = 14695981039346656037u; /* FNV-1a */
  for (int64_t i = 0; i < n * 4; i++) {
    sum = (sum ^ ((const unsigned char *)values)[i]) * 1099511628211u;
  }
  return sum;
}

/* The same bits today as when this was written. */
static void test_bits(void **state)
{
  (void)state;
  tsr_model *model = make_model(marian_config());
  int64_t n;
  float *even = begin(model, "encoder.layers.0.self_attention.qkv.weight", TSR_INITIAL_XAVIER, 20261, &n);
  assert_true(hash(even, n) == 0x63a3806074efc69fu);
  /* Normal numbers: to the last bit but one, which a C library may round either way. */
  float *normal = begin(model, "embedding.weight", TSR_INITIAL_XAVIER, 20261, &n);
  static const double expected[] = {-0x1.a0b934p-4, 0x1.e06c88p-5, -0x1.0bc9ecp-3, 0x1.fee676p-4};
  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
    assert_true(fabs((double)normal[i] - expected[i]) <= fabs(expected[i]) * 0x1p-23);
  }
  /* Another seed, layer or row, other numbers; the same once more, the same. */
  float *again = begin(model, "encoder.layers.0.self_attention.qkv.weight", TSR_INITIAL_XAVIER, 20261, &n);
  float *seed =
      begin(model, "encoder.layers.0.self_attention.qkv.weight", TSR_INITIAL_XAVIER, 20261 + (1ull << 32), &n);
  float *layer = begin(model, "encoder.layers.1.self_attention.qkv.weight", TSR_INITIAL_XAVIER, 20261, &n);
  assert_memory_equal(even, again, (size_t)n * sizeof *even);
  int64_t same = 0;
  for (int64_t i = 0; i < n; i++) {
    same += (even[i] == seed[i]) + (even[i] == layer[i]) + (i >= 96 && even[i] == even[i - 96]);
  }
  assert_true(same < 20);
  free(layer);
  free(seed);
  free(again);
  free(normal);
  free(even);
  tsr_model_close(model);
}

static void test_errors(void **state)
{
  (void)state;
  tsr_model *model = make_model(marian_config());
  float values[96];
  assert_int_equal(tsr_initialise(model, TSR_INITIAL_XAVIER, 1, -1, values, 96), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_initialise(model, TSR_INITIAL_XAVIER, 1, 46, values, 96), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_initialise(model, TSR_INITIAL_XAVIER, 1, 0, values, 96), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_initialise(model, 3, 1, 5, values, 96), TSR_ERR_ARGUMENT);
  int32_t method = 0;
  assert_int_equal(tsr_initial_find("family", &method), TSR_OK);
  assert_int_equal(method, TSR_INITIAL_FAMILY);
  assert_int_equal(tsr_initial_find("xavier", &method), TSR_OK);
  assert_int_equal(method, TSR_INITIAL_XAVIER);
  assert_int_equal(tsr_initial_find("ones", &method), TSR_ERR_ARGUMENT);
  tsr_model_close(model);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_methods), cmocka_unit_test(test_speech), cmocka_unit_test(test_pad),
      cmocka_unit_test(test_bits),    cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
