/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a training: what was saved is what is loaded, anything else is refused; averages; what is kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/checkpoint/file.h"
#include "core/checkpoint/replace.h"
#include "core/checkpoint/safetensors_write.h"
#include "core/train/checkpoint.h"
#include "tests/support/killed.h"
#include "tests/support/temporary.h"

enum { N_TENSORS = 4, MOST = 1200000 /* more than is read at a time */ };

static void make_tensors(tsr_state_tensor tensors[N_TENSORS])
{
  tensors[0] = (tsr_state_tensor){"embedding.weight", TSR_SHAPE(1000, 1200)};
  tensors[1] = (tsr_state_tensor){"embedding.weight.m", TSR_SHAPE(3, 5)};
  tensors[2] = (tsr_state_tensor){"a.bias", TSR_SHAPE(7)};
  tensors[3] = (tsr_state_tensor){"empty", TSR_SHAPE(0)};
}

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

/* Bits that depend on the version; NaNs are among them. */
static uint32_t bits_of(uint32_t version, int32_t index, int64_t i)
{
  return 2654435761u * (uint32_t)(i + 1) + 40503u * (uint32_t)index + 97u * version;
}

static tsr_status give(void *context, int32_t index, float *elements, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits = bits_of(*(const uint32_t *)context, index, i);
    memcpy(&elements[i], &bits, sizeof bits);
  }
  return TSR_OK;
}

static tsr_status take(void *context, int32_t index, const float *elements, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &elements[i], sizeof bits);
    if (bits != bits_of(*(const uint32_t *)context, index, i)) {
      return tsr_fail(TSR_ERR_INTERNAL, "element %lld differs", (long long)i);
    }
  }
  return TSR_OK;
}

static tsr_status must_not_be_called(void *context, int32_t index, const float *elements, int64_t n)
{
  (void)context, (void)index, (void)elements, (void)n;
  fail();
  return TSR_OK;
}

static void test_round_trip(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  char *path = tsr_training_path(folder, TSR_TRAINING_LAST);
  assert_string_equal(path, path_in(folder, "last.safetensors"));
  tsr_state_tensor tensors[N_TENSORS];
  make_tensors(tensors);
  json_t *scalars = json_pack("{s:I, s:f, s:s, s:{s:[i,i]}, s:n}", "step", (json_int_t)1 << 53 | 1, "best", 0.1, "name",
                              "caf\xc3\xa9 \"\n", "data", "place", 3, 4, "none");
  uint32_t version = 5;
  assert_int_equal(tsr_training_save(path, tensors, N_TENSORS, scalars, give, &version), TSR_OK);
  json_t *loaded = NULL;
  if (tsr_training_load(path, tensors, N_TENSORS, take, &version, &loaded) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  assert_true(json_equal(scalars, loaded));
  json_decref(loaded);

  /* One state "averaged" is the state, whatever stands beside the tensors that are asked for. */
  assert_int_equal(tsr_training_average((const char *const[]){path}, 1, tensors, 2, take, &version), TSR_OK);

  /* Over the old one. */
  version = 6;
  assert_int_equal(tsr_training_save(path, tensors, N_TENSORS, scalars, give, &version), TSR_OK);
  assert_int_equal(tsr_training_load(path, tensors, N_TENSORS, take, &version, &loaded), TSR_OK);
  json_decref(loaded);
  json_decref(scalars);
  free(path);
  remove_temporary_folder(folder);
}

static void assert_refused(const char *path, const tsr_state_tensor *tensors, int32_t n_tensors, tsr_status status,
                           const char *fragment)
{
  json_t *scalars = (json_t *)1;
  assert_int_equal(tsr_training_load(path, tensors, n_tensors, must_not_be_called, NULL, &scalars), status);
  assert_null(scalars);
  assert_message_has(path);
  assert_message_has(fragment);
}

static tsr_status lost(void *context, int32_t index, float *elements, int64_t n)
{
  (void)context, (void)index, (void)elements, (void)n;
  return tsr_fail(TSR_ERR_DEVICE_LOST, "the device is gone");
}

static void test_refusals(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "last.safetensors");
  tsr_state_tensor tensors[N_TENSORS], others[N_TENSORS + 1];
  make_tensors(tensors);
  make_tensors(others);
  json_t *scalars = json_pack("{s:i}", "step", 3);
  uint32_t version = 1;
  assert_refused(path, tensors, N_TENSORS, TSR_ERR_IO, "No such file");
  assert_int_equal(tsr_training_save(path, tensors, N_TENSORS, NULL, give, &version), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_training_save(path, tensors, N_TENSORS, scalars, give, &version), TSR_OK);
  assert_int_equal(tsr_training_save(path, tensors, N_TENSORS, scalars, lost, &version), TSR_ERR_DEVICE_LOST);
  assert_message_has(": the device is gone");

  others[N_TENSORS] = (tsr_state_tensor){"more", TSR_SHAPE(1)};
  assert_refused(path, others, N_TENSORS + 1, TSR_ERR_FORMAT, "the tensor \"more\" is missing");
  assert_refused(path, tensors, N_TENSORS - 1, TSR_ERR_FORMAT, "the tensor \"empty\" is not expected");
  others[1].shape = TSR_SHAPE(5, 3);
  assert_refused(path, others, N_TENSORS, TSR_ERR_FORMAT,
                 "the tensor \"embedding.weight.m\" is F32 [3, 5]; expected F32 [5, 3]");
  const char *paths[] = {path, path};
  assert_int_equal(tsr_training_average(paths, 2, others, N_TENSORS, must_not_be_called, NULL), TSR_ERR_FORMAT);
  assert_int_equal(tsr_training_average(paths, 0, tensors, N_TENSORS, must_not_be_called, NULL), TSR_ERR_ARGUMENT);

  /* Torn at any place. */
  tsr_file file;
  assert_int_equal(tsr_file_read(path, &file), TSR_OK);
  const size_t cuts[] = {0, 5, 8, 100, file.size / 2, file.size - 1};
  const char *cut_path = path_in(folder, "cut.safetensors");
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
    write_file(cut_path, file.bytes, cuts[i]);
    assert_refused(cut_path, tensors, N_TENSORS, TSR_ERR_FORMAT, "");
  }
  tsr_file_free(&file);

  /* Files of others. */
  static const char *const headers[][2] = {
      {"{}", "not the state of a training"},
      {"{\"__metadata__\":{\"tessera.training\":\"9\"}}", "in version \"9\" of the format: this build reads 1 and 2"},
      {"{\"__metadata__\":{\"tessera.training\":\"1\"}}", "the key scalars is missing"},
      {"{\"__metadata__\":{\"tessera.training\":\"1\",\"scalars\":\"[3]\"}}", "expected a JSON object, found [3]"},
  };
  for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
    char bytes[128] = {(char)strlen(headers[i][0])};
    memcpy(bytes + 8, headers[i][0], strlen(headers[i][0]));
    write_file(cut_path, bytes, 8 + strlen(headers[i][0]));
    assert_refused(cut_path, tensors, 0, TSR_ERR_FORMAT, headers[i][1]);
  }
  json_decref(scalars);
  remove_temporary_folder(folder);
}

/* One bit of any byte of a file is another: in the header, in a tensor, in the checksums. */
static void test_damage(void **state)
{
  (void)state;
  enum { SMALL = N_TENSORS - 1 };
  char *folder = make_temporary_folder();
  char path[4200], damaged_path[4200];
  snprintf(path, sizeof path, "%s", path_in(folder, "last.safetensors"));
  snprintf(damaged_path, sizeof damaged_path, "%s", path_in(folder, "damaged.safetensors"));
  tsr_state_tensor tensors[N_TENSORS];
  make_tensors(tensors);
  const tsr_state_tensor *small = tensors + 1;
  json_t *scalars = json_pack("{s:i, s:s}", "step", 3, "seed", "17");
  uint32_t version = 1;
  assert_int_equal(tsr_training_save(path, small, SMALL, scalars, give, &version), TSR_OK);
  tsr_file file;
  assert_int_equal(tsr_file_read(path, &file), TSR_OK);
  char *damaged = malloc(file.size);
  assert_non_null(damaged);
  for (size_t at = 0; at < file.size; at++) {
    memcpy(damaged, file.bytes, file.size);
    damaged[at] ^= 1;
    write_file(damaged_path, damaged, file.size);
    json_t *loaded = NULL;
    if (tsr_training_load(damaged_path, small, SMALL, must_not_be_called, NULL, &loaded) != TSR_ERR_FORMAT) {
      fail_msg("byte %zu of %zu was changed: it was loaded, or %s", at, file.size, tsr_error_message());
    }
    assert_message_has(damaged_path);
    const char *both[] = {path, damaged_path};
    assert_int_equal(tsr_training_average(both, 2, small, SMALL, must_not_be_called, NULL), TSR_ERR_FORMAT);
  }
  size_t content = file.size - 4 * (SMALL + 1) - 1; /* the last byte of the last tensor */
  memcpy(damaged, file.bytes, file.size);
  damaged[content] ^= 1;
  write_file(damaged_path, damaged, file.size);
  assert_refused(damaged_path, small, SMALL, TSR_ERR_FORMAT, "its checksum is not the one that was written");
  free(damaged);
  tsr_file_free(&file);
  json_decref(scalars);
  remove_temporary_folder(folder);
}

static tsr_status write_ones(void *context, int32_t index, int64_t first, int64_t count, void *elements)
{
  (void)context, (void)index, (void)first;
  for (int64_t i = 0; i < count; i++) {
    ((float *)elements)[i] = 1.0f;
  }
  return TSR_OK;
}

static tsr_status take_ones(void *context, int32_t index, const float *elements, int64_t n)
{
  (void)context, (void)index;
  for (int64_t i = 0; i < n; i++) {
    assert_true(elements[i] == 1.0f);
  }
  return TSR_OK;
}

/* States that were written before there were checksums are still read. */
static void test_version_1(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "last.safetensors");
  const tsr_tensor_entry entry = {"a", TSR_F32, TSR_SHAPE(3, 4)};
  const tsr_state_tensor tensor = {"a", TSR_SHAPE(3, 4)};
  json_t *metadata = json_pack("{s:s, s:s}", "tessera.training", "1", "scalars", "{\"step\":3}");
  assert_int_equal(tsr_safetensors_write(path, metadata, &entry, 1, write_ones, NULL), TSR_OK);
  json_t *loaded = NULL;
  if (tsr_training_load(path, &tensor, 1, take_ones, NULL, &loaded) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  assert_int_equal(json_integer_value(json_object_get(loaded, "step")), 3);
  json_decref(loaded);
  json_decref(metadata);
  remove_temporary_folder(folder);
}

/* Numbers whose sum in float would be another. */
static tsr_status give_number(void *context, int32_t index, float *elements, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    elements[i] = *(const float *)context + (float)(i % 3) + (float)index;
  }
  return TSR_OK;
}

static tsr_status take_mean(void *context, int32_t index, const float *elements, int64_t n)
{
  const float *numbers = context;
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int k = 0; k < 3; k++) {
      sum += (double)(numbers[k] + (float)(i % 3) + (float)index);
    }
    if (elements[i] != (float)(sum / 3)) {
      return tsr_fail(TSR_ERR_INTERNAL, "element %lld is %g", (long long)i, (double)elements[i]);
    }
  }
  return TSR_OK;
}

static void test_average(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  float numbers[] = {1e8f, 0.3f, -1e8f};
  tsr_state_tensor tensors[N_TENSORS];
  make_tensors(tensors);
  json_t *scalars = json_object();
  char *paths[3];
  for (int k = 0; k < 3; k++) {
    paths[k] = tsr_training_path(folder, 100 * k);
    assert_int_equal(tsr_training_save(paths[k], tensors, N_TENSORS, scalars, give_number, &numbers[k]), TSR_OK);
  }
  if (tsr_training_average((const char *const *)paths, 3, tensors, N_TENSORS, take_mean, numbers) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  for (int k = 0; k < 3; k++) {
    free(paths[k]);
  }
  json_decref(scalars);
  remove_temporary_folder(folder);
}

static void assert_steps(const char *folder, const int64_t *expected, int32_t n_expected)
{
  int64_t *steps;
  int32_t n_steps;
  assert_int_equal(tsr_training_steps(folder, &steps, &n_steps), TSR_OK);
  assert_int_equal(n_steps, n_expected);
  for (int32_t i = 0; i < n_steps; i++) {
    assert_int_equal(steps[i], expected[i]);
  }
  free(steps);
}

static void test_kept_steps(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  static const int64_t steps[] = {0, 7, 90, 1000, 12345678901234};
  assert_steps(path_in(folder, "absent"), NULL, 0);
  assert_steps(folder, NULL, 0);
  for (size_t i = 0; i < 5; i++) {
    char *path = tsr_training_path(folder, steps[(i * 3) % 5]);
    write_text(path, "");
    free(path);
  }
  static const char *const others[] = {
      "best.safetensors",       "last.safetensors",   "step-90.safetensors",       "step-0000000000090.safetensors",
      "step-000000000090.json", "step-x.safetensors", "model.safetensors.partial",
  };
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    write_text(path_in(folder, others[i]), "");
  }
  const char *left = path_in(folder, "step-000000000091.safetensors" TSR_PARTIAL_SUFFIX);
  write_text(left, "");
  assert_steps(folder, steps, 5);
  assert_int_equal(tsr_training_prune(folder, 5), TSR_OK);
  assert_steps(folder, steps, 5);
  assert_false(tsr_path_exists(left));
  assert_int_equal(tsr_training_prune(folder, 2), TSR_OK);
  assert_steps(folder, steps + 3, 2);
  assert_int_equal(tsr_training_prune(folder, 0), TSR_OK);
  assert_steps(folder, NULL, 0);
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    assert_true(tsr_path_exists(path_in(folder, others[i])));
  }
  write_text(path_in(folder, "file"), "");
  assert_int_equal(tsr_training_prune(path_in(folder, "file"), 1), TSR_ERR_IO);
  remove_temporary_folder(folder);
}

typedef struct saver {
  const char *folder;
  uint32_t version; /* of the first state */
} saver;

/* killed_fn */
static void save_for_ever(void *context, int laps)
{
  const saver *s = context;
  tsr_state_tensor tensors[N_TENSORS];
  make_tensors(tensors);
  tensors[0].shape = TSR_SHAPE(40, 400);
  for (uint32_t version = s->version;; version++) {
    json_t *scalars = json_pack("{s:I}", "step", (json_int_t)version);
    char *step = tsr_training_path(s->folder, version), *last = tsr_training_path(s->folder, TSR_TRAINING_LAST);
    if (tsr_training_save(step, tensors, N_TENSORS, scalars, give, &version) != TSR_OK ||
        tsr_training_save(last, tensors, N_TENSORS, scalars, give, &version) != TSR_OK ||
        tsr_training_prune(s->folder, 3) != TSR_OK) {
      return;
    }
    free(step);
    free(last);
    json_decref(scalars);
    killed_lap(laps);
  }
}

/* Keeps the first element's bits, which tell the version, in `context`. */
static tsr_status take_first(void *context, int32_t index, const float *elements, int64_t n)
{
  if (index == 0 && n > 0) {
    memcpy(context, elements, sizeof(uint32_t));
  }
  return TSR_OK;
}

/* The version of a state, which must be whole. */
static uint32_t load_any(const char *path, const tsr_state_tensor *tensors)
{
  json_t *scalars;
  uint32_t bits = 0;
  if (tsr_training_load(path, tensors, N_TENSORS, take_first, &bits, &scalars) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  uint32_t version = (uint32_t)json_integer_value(json_object_get(scalars, "step"));
  json_decref(scalars);
  assert_int_equal(bits, bits_of(version, 0, 0));
  if (tsr_training_load(path, tensors, N_TENSORS, take, &version, &scalars) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  json_decref(scalars);
  return version;
}

/* A run that is killed, and goes on from its last state, again and again. */
static void test_killed(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  char *last = tsr_training_path(folder, TSR_TRAINING_LAST);
  tsr_state_tensor tensors[N_TENSORS];
  make_tensors(tensors);
  tensors[0].shape = TSR_SHAPE(40, 400);
  uint32_t version = 0;
  for (uint32_t k = 0; k < 20; k++) {
    kill_at_work(save_for_ever, &(saver){folder, version + 1}, k);
    uint32_t found = load_any(last, tensors);
    assert_true(found > version);
    version = found;
    int64_t *steps;
    int32_t n_steps;
    assert_int_equal(tsr_training_steps(folder, &steps, &n_steps), TSR_OK);
    assert_true(n_steps >= 1 && n_steps <= 4);
    for (int32_t i = 0; i < n_steps; i++) {
      char *path = tsr_training_path(folder, steps[i]);
      assert_int_equal(load_any(path, tensors), steps[i]);
      free(path);
    }
    free(steps);
  }
  print_message("%u states were saved\n", (unsigned)version);
  free(last);
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refusals), cmocka_unit_test(test_damage),
      cmocka_unit_test(test_version_1),  cmocka_unit_test(test_average),  cmocka_unit_test(test_kept_steps),
      cmocka_unit_test(test_killed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
