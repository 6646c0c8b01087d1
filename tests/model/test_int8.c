/* SPDX-License-Identifier: Apache-2.0
 *
 * Models kept as i8 and in four bits: their rows, their results beside those of f32, and devices that cannot compute
 * with them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/generation.h"
#include "tests/model/random_model.h"

enum { N_SENTENCES = 5 };

static const tsr_transformer_options as_i8 = {TSR_SIZED(tsr_transformer_options), .weights = TSR_I8};
static const tsr_transformer_options as_i4 = {TSR_SIZED(tsr_transformer_options), .weights = TSR_I4};
static const tsr_transformer_options as_f32 = {TSR_SIZED(tsr_transformer_options), .weights = TSR_F32};

static const random_model models[] = {
    {.seed = 31, .d_model = 48, .d_ff = 160},
    {.seed = 32, .nn = 1},
    {.seed = 33, .nn = 1, .norm_first = 1, .d_model = 64, .heads = 4},
    {.seed = 34, .d_model = 36, .layers = 1, .target = 23},
    {.seed = 35, .nn = 1, .max_distance = 2, .layers = 1},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

static void *allocate(int64_t size)
{
  void *memory = malloc((size_t)size + 1);
  assert_non_null(memory);
  return memory;
}

/* Each element of a row is within half a unit of what the checkpoint has, and the largest is 127 units. */
static void check_matrix(const tsr_parameter *parameter, tsr_buffer *bytes_on_device, tsr_buffer *scales_on_device)
{
  int64_t rows = parameter->shape.extent[0], columns = parameter->shape.extent[1];
  float *values = allocate(rows * columns * (int64_t)sizeof *values),
        *scales = allocate(rows * (int64_t)sizeof *scales);
  int8_t *bytes = allocate(rows * columns);
  assert_int_equal(tsr_buffer_size(bytes_on_device), rows * columns);
  assert_int_equal(tsr_buffer_size(scales_on_device), rows * (int64_t)sizeof *scales);
  check(tsr_parameter_read(parameter, 0, rows * columns, TSR_F32, values));
  check(tsr_buffer_read(bytes_on_device, 0, rows * columns, bytes));
  check(tsr_buffer_read(scales_on_device, 0, rows * (int64_t)sizeof *scales, scales));
  for (int64_t r = 0; r < rows; r++) {
    int largest = 0;
    for (int64_t i = r * columns; i < (r + 1) * columns; i++) {
      float error = fabsf(scales[r] * (float)bytes[i] - values[i]);
      largest = abs(bytes[i]) > largest ? abs(bytes[i]) : largest;
      if (!(error <= 0.50001f * scales[r])) {
        fail_msg("%s: row %lld, element %lld: %g became %d of %g", parameter->name, (long long)r, (long long)i,
                 (double)values[i], bytes[i], (double)scales[r]);
      }
    }
    assert_int_equal(largest, 127);
  }
  free(bytes);
  free(scales);
  free(values);
}

/* In each group of 32 of a row nothing but the largest, which may be cut off, is more than half a unit from what the
 * checkpoint has; the sum of the squared errors is no larger than if the largest became -8. */
static void check_groups(const tsr_parameter *parameter, tsr_buffer *bytes_on_device, tsr_buffer *scales_on_device)
{
  const int64_t rows = parameter->shape.extent[0], columns = parameter->shape.extent[1], groups = (columns + 31) / 32;
  float *values = allocate(rows * columns * (int64_t)sizeof *values);
  uint16_t *scales = allocate(rows * groups * (int64_t)sizeof *scales);
  uint8_t *bytes = allocate(rows * groups * 16);
  assert_int_equal(tsr_buffer_size(bytes_on_device), rows * groups * 16);
  assert_int_equal(tsr_buffer_size(scales_on_device), rows * groups * (int64_t)sizeof *scales);
  check(tsr_parameter_read(parameter, 0, rows * columns, TSR_F32, values));
  check(tsr_buffer_read(bytes_on_device, 0, rows * groups * 16, bytes));
  check(tsr_buffer_read(scales_on_device, 0, rows * groups * (int64_t)sizeof *scales, scales));
  for (int64_t g = 0; g < rows * groups; g++) {
    const float scale = tsr_f16_to_f32(scales[g]), *w = values + g / groups * columns + g % groups * 32;
    const int64_t n = columns - g % groups * 32 < 32 ? columns - g % groups * 32 : 32;
    float extreme = 0.0f;
    double sum = 0.0, plain = 0.0;
    for (int64_t i = 0; i < n; i++) {
      extreme = fabsf(w[i]) > fabsf(extreme) ? w[i] : extreme;
    }
    const float unit = tsr_f16_to_f32(tsr_f32_to_f16(extreme / -8.0f));
    for (int64_t i = 0; i < 32; i++) {
      const uint8_t byte = bytes[g * 16 + i / 8 * 4 + i % 4];
      const int whole = (i % 8 < 4 ? byte & 15 : byte >> 4) - 8;
      const float error = i < n ? w[i] - scale * (float)whole : (float)whole;
      sum += (double)error * (double)error;
      if (!(fabsf(error) <= 0.501f * fabsf(scale)) && whole != -8 && whole != 7) {
        fail_msg("%s: group %lld, element %lld: %g became %d of %g", parameter->name, (long long)g, (long long)i,
                 (double)w[i], whole, (double)scale);
      }
      const float near = i < n ? fmaxf(fminf(nearbyintf(w[i] / unit), 7.0f), -8.0f) : 0.0f;
      plain += i < n ? pow((double)(w[i] - near * unit), 2.0) : 0.0;
    }
    assert_true(sum <= plain * 1.0001 + 1e-12);
  }
  free(bytes);
  free(scales);
  free(values);
}

/* A table of more elements than are converted at a time. */
static void check_rows(void **state, const tsr_transformer_options *options)
{
  const fixture *f = *state;
  const random_model large = {.seed = 35, .d_model = 27, .vocabulary = 50021, .layers = 1};
  setup s;
  int32_t matrices = 0;
  random_model_write(f->folder, &large);
  open_setup(f, "reference", options, &s);
  int64_t sum = 0;
  for (int32_t i = 0; i < s.model->parameters.n; i++) {
    const tsr_parameter *parameter = &s.model->parameters.items[i];
    sum += tsr_buffer_size(s.transformer->parameters[i]);
    if (parameter->matrix == TSR_MATRIX_PRODUCT) {
      sum += tsr_buffer_size(s.transformer->scales[i]);
      (options == &as_i4 ? check_groups : check_matrix)(parameter, s.transformer->parameters[i],
                                                        s.transformer->scales[i]);
      matrices++;
    } else {
      assert_null(s.transformer->scales[i]);
    }
  }
  assert_int_equal(matrices, 1 + 4 + 7); /* the table, and those of one layer of each stack */
  assert_int_equal(tsr_model_weight_bytes(s.model, options->weights), sum);
  close_setup(&s);
}

static void test_rows(void **state)
{
  check_rows(state, &as_i8);
  check_rows(state, &as_i4);
}

/* Every product and look-up of a program takes i8, and its scales are bound. */
static void check_programs(void **state, const tsr_transformer_options *options)
{
  const fixture *f = *state;
  const tsr_program_size size = {.batch = 2, .source = 5, .target = 6, .beam = 3};
  setup s;
  random_model_write(f->folder, &models[0]);
  open_setup(f, "reference", options, &s);
  for (int32_t kind = TSR_PROGRAM_ENCODE; kind <= TSR_PROGRAM_BEAM; kind++) {
    tsr_program *program, *again;
    tsr_binding bindings[100];
    int32_t n, constants = 0;
    check(tsr_transformer_program(s.transformer, kind, &size, &program));
    check(tsr_model_program(s.model, options->weights, kind, &size, &again));
    assert_int_equal(tsr_program_line_count(program), tsr_program_line_count(again));
    const tsr_program_desc *desc = tsr_program_describe(program);
    for (int32_t i = 0; i < desc->n_lines; i++) {
      const tsr_line_desc *line = tsr_line_at(desc, i);
      if (line->op == TSR_OP_MATMUL) {
        assert_int_equal(tsr_tensor_at(desc, line->in[1])->dtype, TSR_I8);
      } else if (line->op == TSR_OP_EMBEDDING && strstr(tsr_ref_name(program, line->in[0]), "embedding.weight")) {
        assert_int_equal(tsr_tensor_at(desc, line->in[0])->dtype, TSR_I8);
      }
    }
    for (int32_t i = 1; i < desc->n_storages; i++) {
      constants += tsr_storage_at(desc, i)->kind == TSR_STORAGE_CONSTANT;
    }
    check(tsr_transformer_bind(s.transformer, program, bindings, 100, &n));
    assert_int_equal(n, constants);
    assert_int_equal(tsr_transformer_bind(s.transformer, program, bindings, constants - 1, &n), TSR_ERR_ARGUMENT);
    tsr_program_destroy(again);
    tsr_program_destroy(program);
  }
  close_setup(&s);
}

static void test_programs(void **state)
{
  check_programs(state, &as_i8);
  check_programs(state, &as_i4);
}

/* A unit is 1/127 of a row's largest, some 1/40 of its root mean square; its rounding errs by 1/sqrt(12) of that, in
 * both factors
 * of each product: 1 %; a chain of a dozen products some 4 %. Devices differ from each other in the few elements that
 * lie at a tie. */
static void check_beside_f32(void **state, const tsr_transformer_options *kept, double most)
{
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    setup exact, reference;
    size_t n;
    random_model_write(f->folder, &models[m]);
    open_setup(f, "reference", &as_f32, &exact);
    open_setup(f, "reference", kept, &reference);
    float *wanted = forward_random(&exact, &n), *quantised = forward_random(&reference, &n);
    double apart = distance(wanted, quantised, n);
    if (!(apart > 1e-4 && apart < most)) {
      fail_msg("model %d: %s is %.3g from f32", (int)m, kept == &as_i4 ? "i4" : "i8", apart);
    }
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      setup s;
      batch b;
      open_setup(f, device_name(f, d), kept, &s);
      float *found = forward_random(&s, &n);
      apart = distance(quantised, found, n);
      if (!(apart < 0.01)) {
        fail_msg("model %d on %s: %.3g from the reference", (int)m, device_name(f, d), apart);
      }
      free(found);
      make_batch(models[m].seed, 37, N_SENTENCES, &b);
      for (int32_t beam = 1; beam <= 4; beam += 3) {
        tsr_generate_options options = options_for(&s, beam);
        tsr_generation g;
        check(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 0, &options, NULL, NULL, &g));
        tsr_generation_finish(&g);
      }
      free_batch(&b);
      close_setup(&s);
    }
    free(quantised);
    free(wanted);
    close_setup(&reference);
    close_setup(&exact);
  }
}

/* Of four bits a unit is a seventh or an eighth of a group's largest, some third of the root mean square of 32 normal
 * numbers; its rounding errs by 8 % of that. */
static void test_beside_f32(void **state)
{
  check_beside_f32(state, &as_i8, 0.06);
  check_beside_f32(state, &as_i4, 0.6);
}

/* No device leaves a line of a model in i8, or in i4, to another. */
static void test_strict(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &models[1]);
  for (int32_t d = 0; d < 2 * tsr_runtime_device_count(f->runtime); d++) {
    const tsr_transformer_options strict = {TSR_SIZED(tsr_transformer_options), .weights = d % 2 ? TSR_I4 : TSR_I8,
                                            .strict = 1};
    const int32_t source[] = {5, 6, 7}, length = 3;
    setup s;
    open_setup(f, device_name(f, d / 2), &strict, &s);
    assert_int_equal(tsr_transformer_forward(s.transformer, 1, 3, source, &length, 0, NULL, NULL, NULL), TSR_OK);
    close_setup(&s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_programs),
      cmocka_unit_test(test_beside_f32),
      cmocka_unit_test(test_strict),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
