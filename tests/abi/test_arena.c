/* SPDX-License-Identifier: Apache-2.0
 *
 * Where tensors lie: temporaries on a device that refuses large buffers though it has memory are divided, and the
 * results are the same; outputs that lines read lie on the device.
 */
#include "tests/abi/support.h"

enum { ROWS = 36, LINES = 60, COLUMNS = 97, LIMIT = 40000 /* just more than the input takes */ };

/* The reference, which promises buffers of `promised` bytes and refuses those of more than `gives`. */
static struct {
  tsr_backend table;
  const tsr_backend *reference;
  uint64_t promised, gives, max;
  uint64_t largest; /* buffer that was made */
  int32_t n_refused;
} fake;

static int32_t fake_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  int32_t status = fake.reference->device_properties(context, index, properties);
  properties->promised_buffer_size = fake.promised;
  properties->max_buffer_size = fake.max;
  return status;
}

static int32_t fake_buffer(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **buffer)
{
  if (usage == TSR_BUFFER_DEVICE && size > fake.gives) {
    fake.n_refused++;
    return TSR_ERR_DEVICE_MEMORY;
  }
  fake.largest = usage == TSR_BUFFER_DEVICE && size > fake.largest ? size : fake.largest;
  return fake.reference->buffer_create(device, size, usage, buffer);
}

static const tsr_backend *fake_query(uint32_t major, const tsr_host *host)
{
  fake.reference = tessera_backend_query(major, host);
  fake.table = *fake.reference;
  fake.table.name = "fake";
  fake.table.device_properties = fake_properties;
  fake.table.buffer_create = fake_buffer;
  return &fake.table;
}

static tsr_device *open_fake(tsr_runtime **runtime, uint64_t promised, uint64_t gives, uint64_t max)
{
  memset(&fake, 0, sizeof fake);
  fake.promised = promised;
  fake.gives = gives;
  fake.max = max;
  *runtime = runtime_with("template", NULL);
  assert_ok(tsr_runtime_register(*runtime, fake_query));
  return open_device(*runtime, "fake");
}

/* Products, sums and activations of what was made before, of drawn widths; the result is the sum of all. */
static tsr_program *draw(uint32_t seed, tsr_ref *x, tsr_ref *y)
{
  tsr_program *p;
  tsr_ref made[LINES];
  int64_t width[LINES];
  assert_ok(tsr_program_create(&p));
  *x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(COLUMNS, COLUMNS));
  made[0] = tsr_slice(p, *x, 0, 0, ROWS);
  width[0] = COLUMNS;
  srand(seed);
  tsr_ref sum = tsr_slice(p, made[0], 1, 0, 1);
  for (int i = 1; i < LINES; i++) {
    const int from = i > 12 ? i - 1 - rand() % 12 : rand() % i;
    width[i] = 1 + rand() % COLUMNS;
    if (rand() % 3 > 0) {
      tsr_ref weights = tsr_slice(p, tsr_slice(p, *x, 0, 0, width[from]), 1, 0, width[i]);
      made[i] = tsr_matmul(p, made[from], weights, TSR_NONE, 1.0f, TSR_ACTIVATION_RELU);
    } else {
      width[i] = width[i] < width[from] ? width[i] : width[from];
      made[i] = tsr_relu(p, tsr_slice(p, made[from], 1, 0, width[i]));
    }
    sum = tsr_add(p, sum, tsr_slice(p, made[i], 1, width[i] - 1, 1));
  }
  *y = tsr_output(p, "y", sum);
  assert_ok(tsr_program_status(p));
  return p;
}

static void run(tsr_device *device, uint32_t seed, const tsr_compile_options *options, float result[ROWS],
                int64_t *planned)
{
  tsr_ref x, y;
  tsr_program *p = draw(seed, &x, &y);
  tsr_executable *executable;
  tsr_executable_info info;
  float in[COLUMNS * COLUMNS];
  for (int i = 0; i < COLUMNS * COLUMNS; i++) {
    in[i] = (float)(i % 11 - 5) * 0.03125f;
  }
  assert_ok(tsr_executable_create(device, p, options, &executable));
  for (int i = 0; i < 2; i++) {
    assert_ok(tsr_executable_write(executable, x, in, sizeof in));
    assert_ok(tsr_executable_run(executable));
  }
  assert_ok(tsr_executable_read(executable, y, result, ROWS * sizeof *result));
  tsr_executable_report(executable, &info);
  *planned = info.planned_bytes;
  tsr_executable_destroy(executable);
  tsr_program_destroy(p);
}

/* An arena of the executable's own. */
static void test_divided(void **state)
{
  (void)state;
  static const uint64_t sizes[] = {1 << 14, 20000, 24576, 1 << 15};
  for (uint32_t seed = 1; seed <= 12; seed++) {
    const uint64_t gives = sizes[seed % 4];
    tsr_runtime *runtime;
    float expected[ROWS], found[ROWS];
    int64_t whole, divided;
    tsr_device *device = open_fake(&runtime, gives, UINT64_MAX, 0);
    run(device, seed, NULL, expected, &whole);
    assert_true(whole > LIMIT && fake.largest >= (uint64_t)whole); /* what is given is taken whole */
    tsr_device_close(device);
    tsr_runtime_destroy(runtime);
    for (int by_limit = 0; by_limit < 2; by_limit++) { /* the device says so, or refuses */
      device = open_fake(&runtime, gives, by_limit ? UINT64_MAX : gives, by_limit ? LIMIT : 0);
      run(device, seed, NULL, found, &divided);
      assert_memory_equal(expected, found, sizeof expected);
      assert_true((uint64_t)divided > gives && fake.largest <= gives);
      assert_int_equal(fake.n_refused, !by_limit);
      tsr_device_close(device);
      tsr_runtime_destroy(runtime);
    }
  }
}

/* Where nothing helps, the error names the size. */
static void test_refused(void **state)
{
  (void)state;
  static const struct {
    uint64_t promised, gives;
    const char *fragment;
  } rows[] = {
      {0, 9000, "bytes for the temporaries"},       /* nothing is promised */
      {1 << 24, 9000, "bytes for the temporaries"}, /* the whole is less than what is promised */
      {1 << 14, 9000, "bytes for the temporaries"}, /* the promise is broken */
      {4096, 9000, "a temporary of the program takes"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tsr_runtime *runtime;
    tsr_ref x, y;
    tsr_device *device = open_fake(&runtime, rows[i].promised, rows[i].gives, 0);
    tsr_program *p = draw(3, &x, &y);
    tsr_executable *executable;
    assert_status(tsr_executable_create(device, p, NULL, &executable), TSR_ERR_DEVICE_MEMORY);
    assert_message(rows[i].fragment);
    assert_null(executable);
    tsr_program_destroy(p);
    tsr_device_close(device);
    tsr_runtime_destroy(runtime);
  }
}

/* The caller's arena in pieces. */
static void test_pieces(void **state)
{
  (void)state;
  enum { PIECE = 1 << 14, MOST = 16 };
  for (uint32_t seed = 1; seed <= 8; seed++) {
    tsr_runtime *runtime;
    tsr_ref x, y;
    tsr_buffer *pieces[MOST];
    float expected[ROWS], found[ROWS];
    int64_t whole, divided, bytes;
    int32_t n = 0;
    tsr_device *device = open_fake(&runtime, 0, UINT64_MAX, 0);
    tsr_program *p = draw(seed, &x, &y);
    const int64_t alignment = tsr_device_get_properties(device)->buffer_alignment;
    assert_ok(tsr_device_measure_pieces(device, p, alignment, PIECE, &bytes));
    assert_status(tsr_device_measure_pieces(device, p, alignment, 1024, &whole), TSR_ERR_DEVICE_MEMORY);
    assert_status(tsr_device_measure_pieces(device, p, alignment, PIECE + 1, &whole), TSR_ERR_ARGUMENT);
    assert_status(tsr_device_measure_pieces(device, p, alignment, 0, &whole), TSR_ERR_ARGUMENT);
    run(device, seed, NULL, expected, &whole);
    assert_in_range(bytes, 2 * PIECE + 1, MOST * PIECE);
    for (int64_t left = bytes; left > 0; left -= PIECE) {
      assert_ok(tsr_buffer_create(device, left < PIECE ? left : PIECE, TSR_BUFFER_DEVICE, &pieces[n++]));
    }
    tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .arena = pieces[0], .arena_rest = pieces + 1,
                                   .n_arena_rest = n - 1};
    run(device, seed, &options, found, &divided);
    assert_memory_equal(expected, found, sizeof expected);
    assert_int_equal(divided, bytes);

    tsr_executable *executable;
    options.n_arena_rest = n - 2;
    assert_status(tsr_executable_create(device, p, &options, &executable), TSR_ERR_ARGUMENT);
    assert_message("pieces of 16384 bytes, and the temporaries take");
    options.n_arena_rest = n - 1;
    tsr_buffer *const kept = pieces[n - 1];
    pieces[n - 1] = pieces[0];
    assert_status(tsr_executable_create(device, p, &options, &executable), TSR_ERR_ARGUMENT);
    pieces[n - 1] = NULL;
    assert_status(tsr_executable_create(device, p, &options, &executable), TSR_ERR_ARGUMENT);
    pieces[n - 1] = kept;
    options.arena = NULL;
    assert_status(tsr_executable_create(device, p, &options, &executable), TSR_ERR_ARGUMENT);
    assert_message("without an arena before it");
    tsr_program_destroy(p);
    while (n > 0) {
      tsr_buffer_destroy(pieces[--n]);
    }
    tsr_device_close(device);
    tsr_runtime_destroy(runtime);
  }
}

/* An output that lines read lies where the device reads best, if it is no handful of numbers; others for the host. */
static void test_outputs(void **state)
{
  (void)state;
  for (int is_large = 0; is_large < 2; is_large++) {
    tsr_runtime *runtime;
    tsr_device *device = open_fake(&runtime, 0, UINT64_MAX, 0);
    const int64_t n = is_large ? 5000 : 50;
    tsr_program *p;
    tsr_executable *executable;
    float *values = malloc((size_t)n * sizeof *values);
    assert_non_null(values);
    assert_ok(tsr_program_create(&p));
    tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(n));
    tsr_ref between = tsr_output(p, "between", tsr_relu(p, x));
    tsr_ref y = tsr_output(p, "y", tsr_add(p, between, between));
    assert_ok(tsr_executable_create(device, p, NULL, &executable));
    assert_int_equal(fake.largest >= (uint64_t)n * 4, is_large); /* of buffers for the device */
    for (int64_t i = 0; i < n; i++) {
      values[i] = (float)(i % 9 - 4);
    }
    assert_ok(tsr_executable_write(executable, x, values, n * 4));
    assert_ok(tsr_executable_run(executable));
    for (int32_t factor = 1; factor <= 2; factor++) {
      assert_ok(tsr_executable_read(executable, factor == 1 ? between : y, values, n * 4));
      for (int64_t i = 0; i < n; i++) {
        assert_true(values[i] == (float)(i % 9 > 4 ? factor * (i % 9 - 4) : 0));
      }
    }
    free(values);
    tsr_executable_destroy(executable);
    tsr_program_destroy(p);
    tsr_device_close(device);
    tsr_runtime_destroy(runtime);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_divided),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_outputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
