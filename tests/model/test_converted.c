/* SPDX-License-Identifier: Apache-2.0
 *
 * Models whose weights are stored as whole numbers: the same bytes come to a device as of the original that is rounded
 * there, and what does not fit together is refused.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "core/checkpoint/safetensors_write.h"
#include "tessera/inspect.h"
#include "tests/model/generation.h"
#include "tests/model/random_model.h"
#include "tests/support/bytes.h"
#include "tests/support/temporary.h"
#include "tests/support/tokens.h"

static const tsr_dtype whole[] = {TSR_I8, TSR_I4};

enum { N_WHOLE = 2 };

/* Every family whose weights have a form in model.safetensors. */
static const char *const recorded[] = {"bart",
                                       "bart_sharded",
                                       "m2m_100",
                                       "marian",
                                       "marian_f16",
                                       "marian_sepvocab",
                                       "mbart",
                                       "nn_postnorm_relu",
                                       "nn_prenorm_gelu",
                                       "pegasus",
                                       "t5_v1_0",
                                       "t5_v1_1",
                                       "t5_v1_1_bf16",
                                       "nn_relative_postnorm",
                                       "../speech/models/whisper_tiny_random"};

enum { N_RECORDED = sizeof recorded / sizeof recorded[0] };

static void copy_config(const char *from, const char *to)
{
  json_t *config = json_load_file(path_in(from, "config.json"), 0, NULL);
  assert_non_null(config);
  assert_int_equal(json_dump_file(config, path_in(to, "config.json"), 0), 0);
  json_decref(config);
}

static void *buffer_bytes(tsr_buffer *buffer)
{
  const int64_t size = tsr_buffer_size(buffer);
  void *bytes = malloc((size_t)size + 1);
  assert_non_null(bytes);
  check(tsr_buffer_read(buffer, 0, size, bytes));
  return bytes;
}

static void assert_same_buffers(const char *name, tsr_buffer *a, tsr_buffer *b)
{
  assert_int_equal(a != NULL, b != NULL);
  if (!a) {
    return;
  }
  void *x = buffer_bytes(a), *y = buffer_bytes(b);
  if (tsr_buffer_size(a) != tsr_buffer_size(b) || memcmp(x, y, (size_t)tsr_buffer_size(a)) != 0) {
    fail_msg("%s: other bytes than of the original", name);
  }
  free(x);
  free(y);
}

/* The model of `folder` on the reference as it is stored in `converted`, beside what rounding gives there. */
static void compare(const fixture *f, const char *folder, const char *converted, tsr_dtype dtype)
{
  const tsr_transformer_options rounded = {TSR_SIZED(tsr_transformer_options), .weights = dtype};
  fixture at = {.runtime = f->runtime, .folder = (char *)(uintptr_t)folder};
  setup a, b;
  open_setup(&at, "reference", &rounded, &a);
  at.folder = (char *)(uintptr_t)converted;
  open_setup(&at, "reference", NULL, &b);
  assert_int_equal(a.model->parameters.n, b.model->parameters.n);
  for (int32_t i = 0; i < a.model->parameters.n; i++) {
    const tsr_parameter *parameter = &b.model->parameters.items[i];
    assert_int_equal(parameter->stored, parameter->matrix == TSR_MATRIX_PRODUCT ? dtype : TSR_F32);
    assert_same_buffers(parameter->name, a.transformer->parameters[i], b.transformer->parameters[i]);
    assert_same_buffers(parameter->name, a.transformer->scales[i], b.transformer->scales[i]);
  }
  close_setup(&a);
  close_setup(&b);
}

static void save(const char *folder, const char *to, tsr_dtype dtype)
{
  tsr_model *model;
  check(tsr_model_open(folder, &model));
  check(tsr_model_save_weights(model, to, dtype, NULL));
  copy_config(folder, to);
  tsr_model_close(model);
}

static void assert_same_weights(const char *a, const char *b)
{
  tsr_checkpoint *x, *y;
  check(tsr_checkpoint_open(path_in(a, "model.safetensors"), &x));
  check(tsr_checkpoint_open(path_in(b, "model.safetensors"), &y));
  assert_int_equal(tsr_checkpoint_count(x), tsr_checkpoint_count(y));
  for (int32_t i = 0; i < tsr_checkpoint_count(x); i++) {
    assert_same_bytes(tsr_checkpoint_at(x, i), tsr_checkpoint_at(y, i));
  }
  tsr_checkpoint_close(x);
  tsr_checkpoint_close(y);
}

static void convert_and_compare(const fixture *f, const char *folder)
{
  for (int32_t i = 0; i < N_WHOLE; i++) {
    char *once = make_temporary_folder(), *twice = make_temporary_folder();
    save(folder, once, whole[i]);
    compare(f, folder, once, whole[i]);
    save(once, twice, whole[i]);
    assert_same_weights(once, twice);
    remove_temporary_folder(twice);
    remove_temporary_folder(once);
  }
}

static void data_folder(char *folder, size_t size, const char *room, const char *name)
{
  const char *root = getenv("SOURCE_ROOT");
  assert_non_null(root);
  snprintf(folder, size, "%s/tests/data/%s/%s", root, room, name);
}

static void test_families(void **state)
{
  for (int32_t i = 0; i < N_RECORDED; i++) {
    char folder[1024];
    data_folder(folder, sizeof folder, "goldens/models", recorded[i]);
    convert_and_compare(*state, folder);
  }
}

/* More numbers than are written at a time, rows that do not divide these, and groups that are not full. */
static void test_large(void **state)
{
  const fixture *f = *state;
  const random_model models[] = {{.seed = 41, .d_model = 72, .heads = 4, .vocabulary = 40021, .layers = 1},
                                 {.seed = 42, .nn = 1, .d_model = 36, .vocabulary = 63, .layers = 1}};
  for (int32_t i = 0; i < 2; i++) {
    random_model_write(f->folder, &models[i]);
    convert_and_compare(f, f->folder);
  }
}

/* What is stored in one type is kept in another: the numbers are those that the whole ones stand for. */
static void test_read_as_f32(void **state)
{
  const fixture *f = *state;
  const random_model some = {.seed = 43, .nn = 1, .d_model = 36, .layers = 1};
  random_model_write(f->folder, &some);
  for (int32_t i = 0; i < N_WHOLE; i++) {
    char *converted = make_temporary_folder();
    const fixture at = {.runtime = f->runtime, .folder = converted};
    setup s;
    save(f->folder, converted, whole[i]);
    open_setup(&at, "reference", NULL, &s);
    for (int32_t p = 0; p < s.model->parameters.n; p++) {
      const tsr_parameter *parameter = &s.model->parameters.items[p];
      if (parameter->matrix != TSR_MATRIX_PRODUCT) {
        continue;
      }
      const int64_t rows = parameter->shape.extent[0], columns = parameter->shape.extent[1];
      const int64_t groups = (columns + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
      int8_t *bytes = buffer_bytes(s.transformer->parameters[p]);
      void *scales = buffer_bytes(s.transformer->scales[p]);
      float *values = malloc((size_t)(rows * columns) * sizeof *values);
      assert_non_null(values);
      check(tsr_parameter_read(parameter, 0, 5, TSR_F32, values)); /* not at a row's end */
      check(tsr_parameter_read(parameter, 5, rows * columns - 5, TSR_F32, values + 5));
      for (int64_t k = 0; k < rows * columns; k++) {
        const int64_t r = k / columns, c = k % columns;
        const float expected = whole[i] == TSR_I8
                                   ? (float)bytes[k] * ((float *)scales)[r]
                                   : (float)tsr_four_bits_at((uint8_t *)bytes + r * groups * TSR_I4_BYTES, c) *
                                         tsr_f16_to_f32(((uint16_t *)scales)[r * groups + c / TSR_I4_GROUP]);
        if (values[k] != expected) {
          fail_msg("%s: element %lld is %g; expected %g", parameter->name, (long long)k, (double)values[k],
                   (double)expected);
        }
      }
      free(values);
      free(scales);
      free(bytes);
    }
    close_setup(&s);
    remove_temporary_folder(converted);
  }
}

/* ---- calibrated -------------------------------------------------------------------------------------------------- */

enum { SENTENCES = 24, TOKENS = 10, SENTENCES_READ = 4 };

static void draw_sentence(const tsr_model *model, int32_t index, int32_t source[TOKENS], int32_t target[TOKENS])
{
  const tsr_transformer_config *config = tsr_model_config(model);
  uint64_t random = 1 + (uint64_t)index;
  for (int32_t i = 0; i < TOKENS; i++) {
    source[i] = tsr_random_below(&random, config->source_vocabulary);
    target[i] = tsr_random_below(&random, config->target_vocabulary);
  }
}

static void save_calibrated(setup *s, const char *folder, const char *to)
{
  tsr_calibration *calibration;
  check(tsr_calibration_create(s->model, &calibration));
  for (int32_t i = 0; i < SENTENCES; i++) {
    int32_t source[TOKENS], target[TOKENS];
    draw_sentence(s->model, i, source, target);
    check(tsr_calibration_add(calibration, s->transformer, TOKENS, source, TOKENS, target));
  }
  check(tsr_model_save_weights(s->model, to, TSR_I4, calibration));
  copy_config(folder, to);
  tsr_calibration_destroy(calibration);
}

/* Adds to errors[p] what the rounded matrix p does to its inputs, squared. */
static void add_errors(const tsr_model *model, const tsr_model *rounded, const tsr_inspection *inspection,
                       double *errors)
{
  for (int32_t p = 0; p < model->parameters.n; p++) {
    char name[256];
    const tsr_parameter *matrix = &model->parameters.items[p];
    snprintf(name, sizeof name, "%s.input", matrix->name);
    const tsr_inspected *input = tsr_inspection_find(inspection, name);
    if (!input) {
      continue;
    }
    const int64_t rows = matrix->shape.extent[0], columns = matrix->shape.extent[1];
    float *w = malloc((size_t)(2 * rows * columns) * sizeof *w), *v = w + rows * columns;
    assert_non_null(w);
    check(tsr_parameter_read(matrix, 0, rows * columns, TSR_F32, w));
    check(tsr_parameter_read(&rounded->parameters.items[p], 0, rows * columns, TSR_F32, v));
    for (int64_t i = 0; i < TOKENS; i++) {
      const float *x = input->values + i * columns;
      for (int64_t r = 0; r < rows; r++) {
        double sum = 0.0;
        for (int64_t k = 0; k < columns; k++) {
          sum += (double)x[k] * ((double)w[r * columns + k] - (double)v[r * columns + k]);
        }
        errors[p] += sum * sum;
      }
    }
    free(w);
  }
}

/* The errors of each matrix: [parameters]. */
static double *errors_of(setup *s, const char *rounded)
{
  tsr_model *model;
  double *errors = calloc((size_t)s->model->parameters.n, sizeof *errors);
  assert_non_null(errors);
  check(tsr_model_open(rounded, &model));
  for (int32_t i = 0; i < SENTENCES_READ; i++) {
    int32_t source[TOKENS], target[TOKENS];
    const int32_t length = TOKENS;
    tsr_inspection inspection;
    draw_sentence(s->model, i, source, target);
    check(tsr_transformer_inspect(s->transformer, TSR_INSPECT_INPUTS, 1, TOKENS, source, &length, TOKENS, target,
                                  &inspection));
    add_errors(s->model, model, &inspection, errors);
    tsr_inspection_finish(&inspection);
  }
  tsr_model_close(model);
  return errors;
}

/* Matrices, of more columns than a block too, give what is nearer to the original's than those that were rounded to the
 * nearest; embeddings are the nearest. */
static void test_calibrated(void **state)
{
  const double most = 0.55, most_of_wide = 0.35; /* of the error; with fewer sentences than columns it is less */
  const fixture *f = *state;
  char folder[1024], *nearest = make_temporary_folder(), *calibrated = make_temporary_folder();
  data_folder(folder, sizeof folder, ".", "marian-en-fr");
  const fixture at = {.runtime = f->runtime, .folder = folder};
  setup s;
  int32_t n_better = 0, n_wide = 0;
  open_setup(&at, "cpu", NULL, &s);
  save(folder, nearest, TSR_I4);
  save_calibrated(&s, folder, calibrated);
  double *before = errors_of(&s, nearest), *after = errors_of(&s, calibrated);
  for (int32_t p = 0; p < s.model->parameters.n; p++) {
    const tsr_parameter *matrix = &s.model->parameters.items[p];
    const int is_wide = matrix->shape.extent[1] > TSR_FACTORS_WIDTH;
    const double limit = before[p] * (is_wide ? most_of_wide : most);
    if (strstr(matrix->name, "embedding.") ? after[p] != before[p] : before[p] > 0.0 && !(after[p] < limit)) {
      fail_msg("%s: an error of %g; rounded to the nearest %g", matrix->name, after[p], before[p]);
    }
    n_better += after[p] < before[p];
    n_wide += after[p] < before[p] && is_wide;
  }
  assert_int_equal(n_better, 3 * (4 + 7)); /* of three layers each */
  assert_int_equal(n_wide, 3 * 2);
  free(after);
  free(before);
  close_setup(&s);
  remove_temporary_folder(calibrated);
  remove_temporary_folder(nearest);
}

static void test_calibration_refused(void **state)
{
  const fixture *f = *state;
  const random_model some = {.seed = 43, .nn = 1, .d_model = 36, .layers = 1};
  const int32_t source[] = {3, 4}, outside[] = {3, 1 << 20};
  tsr_calibration *calibration;
  tsr_model *other;
  setup s;
  char folder[1024];
  random_model_write(f->folder, &some);
  open_setup(f, "reference", NULL, &s);
  data_folder(folder, sizeof folder, ".", "marian-en-fr");
  check(tsr_model_open(folder, &other));
  assert_int_equal(tsr_calibration_create(NULL, &calibration), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_calibration_create(other, NULL), TSR_ERR_ARGUMENT);
  check(tsr_calibration_create(other, &calibration));
  assert_int_equal(tsr_calibration_add(calibration, s.transformer, 2, source, 2, source), TSR_ERR_ARGUMENT);
  tsr_calibration_destroy(calibration);
  check(tsr_calibration_create(s.model, &calibration));
  assert_int_equal(tsr_calibration_add(calibration, NULL, 2, source, 2, source), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_calibration_add(calibration, s.transformer, 2, outside, 2, source), TSR_ERR_ARGUMENT);
  tsr_calibration_destroy(calibration);
  tsr_calibration_destroy(NULL);
  tsr_model_close(other);
  close_setup(&s);
}

/* ---- refused ----------------------------------------------------------------------------------------------------- */

/* A file whose tensors are those of `from`, but for one: left out, of another shape, of another type, or NaN. */
enum { MISSING, OTHER_SHAPE, OTHER_TYPE, NOT_A_NUMBER, N_FAULTS };

typedef struct damage {
  const tsr_checkpoint *from;
  const tsr_tensor_entry *entries;
  const char *name;
  int32_t fault;
} damage;

static tsr_status read_damaged(void *context, int32_t index, int64_t first, int64_t count, void *elements)
{
  const damage *d = context;
  const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(d->from, d->entries[index].name);
  const int is_that = strcmp(d->entries[index].name, d->name) == 0;
  const size_t size = tsr_dtype_size(d->entries[index].dtype);
  memset(elements, is_that && d->fault == NOT_A_NUMBER ? 0xff : 0, (size_t)count * size);
  return is_that ? TSR_OK : tsr_checkpoint_copy(tensor, (uint64_t)first * size, (size_t)count * size, elements);
}

static void write_damaged(const tsr_checkpoint *from, const char *to, const char *name, int32_t fault)
{
  const int32_t n = tsr_checkpoint_count(from);
  tsr_tensor_entry *entries = calloc((size_t)n, sizeof *entries);
  int32_t n_entries = 0;
  assert_non_null(entries);
  for (int32_t i = 0; i < n; i++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_at(from, i);
    tsr_tensor_entry entry = {tensor->name, tensor->dtype, tensor->shape};
    const int is_that = strcmp(tensor->name, name) == 0;
    if (is_that && fault == OTHER_SHAPE) {
      entry.shape.extent[0]--;
    } else if (is_that && fault == OTHER_TYPE) {
      entry.dtype = TSR_BF16;
    }
    if (!is_that || fault != MISSING) {
      entries[n_entries++] = entry;
    }
  }
  damage d = {.from = from, .entries = entries, .name = name, .fault = fault};
  check(tsr_safetensors_write(path_in(to, "model.safetensors"), NULL, entries, n_entries, read_damaged, &d));
  free(entries);
}

static void test_damaged(void **state)
{
  const fixture *f = *state;
  const random_model some = {.seed = 44, .nn = 1, .d_model = 36, .layers = 1};
  static const char scales[] = "transformer.decoder.layers.0.linear1.weight.scales";
  random_model_write(f->folder, &some);
  for (int32_t i = 0; i < N_WHOLE; i++) {
    char *converted = make_temporary_folder(), *damaged = make_temporary_folder();
    tsr_checkpoint *checkpoint;
    save(f->folder, converted, whole[i]);
    copy_config(f->folder, damaged);
    check(tsr_checkpoint_open(path_in(converted, "model.safetensors"), &checkpoint));
    assert_non_null(tsr_checkpoint_find(checkpoint, scales));
    for (int32_t fault = 0; fault < N_FAULTS; fault++) {
      tsr_model *model = NULL;
      tsr_device *device = NULL;
      tsr_transformer *transformer = NULL;
      write_damaged(checkpoint, damaged, scales, fault);
      tsr_status status = tsr_model_open(damaged, &model);
      if (status == TSR_OK) {
        check(tsr_device_open(f->runtime, "reference", &device));
        status = tsr_transformer_create(model, device, NULL, &transformer);
      }
      assert_int_equal(status, TSR_ERR_FORMAT);
      assert_message_has("linear1.weight");
      assert_message_has(path_in(damaged, "model.safetensors"));
      tsr_device_close(device);
      tsr_model_close(model);
    }
    tsr_checkpoint_close(checkpoint);
    remove_temporary_folder(damaged);
    remove_temporary_folder(converted);
  }
}

/* Ones, but for one number: *context. */
static tsr_status ones_but_one(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  const float *other = context;
  for (int64_t i = 0; i < count; i++) {
    elements[i] = parameter == 0 && first + i == 70 ? *other : 1.0f;
  }
  return TSR_OK;
}

static void test_refused(void **state)
{
  const fixture *f = *state;
  const random_model some = {.seed = 45, .layers = 1};
  char *folder = make_temporary_folder();
  tsr_model *model;
  random_model_write(f->folder, &some);
  check(tsr_model_open(f->folder, &model));
  float infinite = INFINITY, largest = -524032.0f, larger = -524064.0f; /* of four bits: -8 times the largest f16 */
  for (int32_t i = 0; i < N_WHOLE; i++) {
    const tsr_save_options options = {TSR_SIZED(tsr_save_options), .storage = whole[i]};
    assert_int_equal(tsr_model_save(model, folder, &options, ones_but_one, &infinite), TSR_ERR_ARGUMENT);
    assert_message_has("element 70 is inf");
    check(tsr_model_save(model, folder, &options, ones_but_one, &largest));
    const int is_four = whole[i] == TSR_I4;
    assert_int_equal(tsr_model_save(model, folder, &options, ones_but_one, &larger),
                     is_four ? TSR_ERR_ARGUMENT : TSR_OK);
    if (is_four) {
      assert_message_has("element 70 is -524064, beyond what int4 holds");
    }
  }
  assert_int_equal(tsr_model_save_weights(model, folder, TSR_I32, NULL), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_model_save_weights(model, "", TSR_I8, NULL), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_model_save_weights(NULL, folder, TSR_I8, NULL), TSR_ERR_ARGUMENT);
  tsr_model_close(model);
  char other[1024];
  data_folder(other, sizeof other, "ctranslate2", "tiny-bart-float16");
  check(tsr_model_open(other, &model));
  assert_int_equal(tsr_model_save_weights(model, folder, TSR_I8, NULL), TSR_ERR_UNSUPPORTED);
  tsr_model_close(model);
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_families),
      cmocka_unit_test(test_large),
      cmocka_unit_test(test_read_as_f32),
      cmocka_unit_test(test_calibrated),
      cmocka_unit_test(test_calibration_refused),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
