/* SPDX-License-Identifier: Apache-2.0
 *
 * Executables in parts: the results are those of the whole, wherever it is cut, on one device and with a fallback; and
 * while a part is in flight, what others left can be read without waiting for it.
 */
#include "tests/abi/support.h"

enum { LINES = 24, WIDTH = 12, N = WIDTH * WIDTH, SUMS = 3, DRAWS = 12 };

/* The reference, of which nothing that was started is done before somebody waits for it, in the order of the starts. */
static struct {
  tsr_backend table;
  const tsr_backend *reference;
  tsr_backend_executable *started[64];
  int n_started, n_done;
  int is_concurrent;
} fake;

static int32_t fake_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  const int32_t status = fake.reference->device_properties(context, index, properties);
  properties->concurrent_runs = fake.is_concurrent ? 4 : 0;
  return status;
}

static int32_t fake_run(tsr_backend_executable *executable)
{
  fake.started[fake.n_started++ % 64] = executable;
  return TSR_OK;
}

static int32_t fake_wait(tsr_backend_executable *executable)
{
  int last = fake.n_started - 1;
  while (last >= fake.n_done && fake.started[last % 64] != executable) {
    last--;
  }
  int32_t status = TSR_OK;
  for (; fake.n_done <= last && status == TSR_OK; fake.n_done++) {
    status = fake.reference->run(fake.started[fake.n_done % 64]);
  }
  return status;
}

static const tsr_backend *fake_query(uint32_t major, const tsr_host *host)
{
  fake.reference = tessera_backend_query(major, host);
  fake.table = *fake.reference;
  fake.table.name = "fake";
  fake.table.device_properties = fake_properties;
  fake.table.run = fake_run;
  fake.table.wait = fake_wait;
  return &fake.table;
}

static tsr_device *open_fake(tsr_runtime **runtime, int is_concurrent)
{
  memset(&fake, 0, sizeof fake);
  fake.is_concurrent = is_concurrent;
  *runtime = runtime_with("template", NULL);
  assert_ok(tsr_runtime_register(*runtime, fake_query));
  return open_device(*runtime, "fake");
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

typedef struct drawn {
  tsr_program *program;
  tsr_ref x, y, sums[SUMS];
  int32_t written[SUMS]; /* line that writes the state */
} drawn;

/* Sums and activations of what was made before; three of the results go into states. */
static drawn draw(unsigned seed)
{
  drawn d;
  tsr_ref made[LINES];
  srand(seed);
  assert_ok(tsr_program_create(&d.program));
  d.x = made[0] = tsr_input(d.program, "x", TSR_F32, TSR_SHAPE(WIDTH, WIDTH));
  int n_sums = 0;
  for (int i = 1; i < LINES; i++) {
    const tsr_ref a = made[rand() % i], b = made[i > 4 ? i - 1 - rand() % 4 : rand() % i];
    const int kind = rand() % 3;
    made[i] = kind == 0   ? tsr_matmul(d.program, a, b, TSR_NONE, 0.125f, TSR_ACTIVATION_NONE)
              : kind == 1 ? tsr_relu(d.program, a)
                          : tsr_add(d.program, a, b);
    if (i % (LINES / SUMS) == 4) {
      char name[16];
      snprintf(name, sizeof name, "sum%d", n_sums);
      d.sums[n_sums] = tsr_state(d.program, name, TSR_F32, TSR_SHAPE(WIDTH, WIDTH));
      tsr_update(d.program, d.sums[n_sums], made[i]);
      d.written[n_sums++] = tsr_program_describe(d.program)->n_lines - 1;
    }
  }
  d.y = tsr_output(d.program, "y", tsr_add(d.program, made[LINES - 1], made[LINES / 2]));
  assert_ok(tsr_program_status(d.program));
  return d;
}

/* An executable of it, with a buffer for each sum. */
typedef struct made {
  tsr_executable *executable;
  tsr_buffer *sums[SUMS], *arena;
} made;

static made make(tsr_device *device, const drawn *d, const int32_t *cuts, int32_t n_cuts, int has_arena)
{
  made m = {0};
  tsr_binding bindings[SUMS];
  for (int i = 0; i < SUMS; i++) {
    assert_ok(tsr_buffer_create(device, N * 4, TSR_BUFFER_DEVICE, &m.sums[i]));
    bindings[i] = (tsr_binding){.tensor = d->sums[i], .buffer = m.sums[i]};
  }
  tsr_program_statistics statistics;
  assert_ok(tsr_device_measure(device, d->program, 64, &statistics));
  if (has_arena) {
    assert_ok(tsr_buffer_create(device, statistics.planned_bytes, TSR_BUFFER_DEVICE, &m.arena));
  }
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options),
                                       .bindings = bindings,
                                       .n_bindings = SUMS,
                                       .arena = m.arena,
                                       .cuts = cuts,
                                       .n_cuts = n_cuts};
  assert_ok(tsr_executable_create(device, d->program, &options, &m.executable));
  float x[N];
  for (int i = 0; i < N; i++) {
    x[i] = (float)((i * 37) % 101) / 50.0f - 1.0f;
  }
  assert_ok(tsr_executable_write(m.executable, d->x, x, sizeof x));
  return m;
}

static void finish(made *m)
{
  tsr_executable_destroy(m->executable);
  for (int i = 0; i < SUMS; i++) {
    tsr_buffer_destroy(m->sums[i]);
  }
  tsr_buffer_destroy(m->arena);
}

/* What the whole program gives. */
static void run_whole(tsr_device *device, const drawn *d, float y[N], float sums[SUMS][N])
{
  made m = make(device, d, NULL, 0, 1);
  assert_null(tsr_executable_part(m.executable, 0));
  assert_ok(tsr_executable_run(m.executable));
  assert_ok(tsr_executable_read(m.executable, d->y, y, N * 4));
  for (int i = 0; i < SUMS; i++) {
    assert_ok(tsr_buffer_read(m.sums[i], 0, N * 4, sums[i]));
  }
  finish(&m);
}

/* Draws cuts; their number. */
static int32_t draw_cuts(const drawn *d, int32_t *cuts)
{
  int32_t n = 0;
  const int32_t n_lines = tsr_program_describe(d->program)->n_lines;
  for (int32_t line = 1; line < n_lines; line++) {
    if (rand() % 4 == 0) {
      cuts[n++] = line;
    }
  }
  return n;
}

/* In parts, each waited for after the next one was started; sums are read as soon as their part has ended. Twice. */
static void check_parts(tsr_device *device, const drawn *d, int has_arena)
{
  float y[N], sums[SUMS][N], found[N];
  int32_t cuts[2 * LINES];
  run_whole(device, d, y, sums);
  const int32_t n_cuts = draw_cuts(d, cuts);
  made m = make(device, d, cuts, n_cuts, has_arena);
  for (int round = 0; round < 2 && n_cuts > 0; round++) {
    int read = 0;
    assert_ok(tsr_executable_start(tsr_executable_part(m.executable, 0)));
    for (int32_t part = 0; part <= n_cuts; part++) {
      if (part < n_cuts) {
        assert_ok(tsr_executable_start(tsr_executable_part(m.executable, part + 1)));
      }
      assert_ok(tsr_executable_wait(tsr_executable_part(m.executable, part)));
      for (; read < SUMS && (part == n_cuts || d->written[read] < cuts[part]); read++) {
        assert_ok(tsr_buffer_read(m.sums[read], 0, N * 4, found));
        assert_memory_equal(found, sums[read], sizeof found);
      }
    }
    assert_ok(tsr_executable_read(m.executable, d->y, found, sizeof found));
    assert_memory_equal(found, y, sizeof found);
  }
  assert_null(tsr_executable_part(m.executable, n_cuts + 1));
  assert_null(tsr_executable_part(m.executable, -1));
  assert_ok(tsr_executable_run(m.executable)); /* all of them */
  assert_ok(tsr_executable_read(m.executable, d->y, found, sizeof found));
  assert_memory_equal(found, y, sizeof found);
  finish(&m);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void check_device(tsr_device *device)
{
  for (unsigned seed = 1; seed <= DRAWS; seed++) {
    drawn d = draw(seed);
    check_parts(device, &d, seed % 2);
    tsr_program_destroy(d.program);
  }
}

static void test_results(void **state)
{
  (void)state;
  for (int is_concurrent = 0; is_concurrent < 2; is_concurrent++) {
    tsr_runtime *runtime;
    tsr_device *device = open_fake(&runtime, is_concurrent);
    check_device(device);
    tsr_device_close(device);
    tsr_runtime_destroy(runtime);
  }
}

/* Products run on the fallback device: what a part leaves is on its own device when it has ended. */
static void test_fallback(void **state)
{
  (void)state;
  tsr_runtime *runtime = runtime_with("template", "reference", NULL);
  tsr_device *device = open_device(runtime, "template");
  check_device(device);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

static void test_vulkan(void **state)
{
  (void)state;
  tsr_runtime *runtime = runtime_with("vulkan", "reference", NULL);
  tsr_device *device;
  if (tsr_device_open(runtime, "vulkan:0", &device) == TSR_OK) {
    check_device(device);
    tsr_device_close(device);
  }
  tsr_runtime_destroy(runtime);
}

/* A read waits for parts whose lines use the buffer, and for no others. */
static void test_reading(void **state)
{
  (void)state;
  tsr_runtime *runtime;
  tsr_device *device = open_fake(&runtime, 0);
  drawn d = draw(1);
  float bytes[N];
  const int32_t cuts[] = {d.written[0] + 1, d.written[1] + 1};
  made m = make(device, &d, cuts, 2, 1);
  for (int32_t part = 0; part < 3; part++) {
    assert_ok(tsr_executable_start(tsr_executable_part(m.executable, part)));
  }
  assert_ok(tsr_executable_wait(tsr_executable_part(m.executable, 0)));
  assert_int_equal(fake.n_done, 1);
  assert_ok(tsr_buffer_read(m.sums[0], 0, N * 4, bytes));
  assert_int_equal(fake.n_done, 1);
  assert_ok(tsr_buffer_read(m.sums[1], 0, N * 4, bytes));
  assert_int_equal(fake.n_done, 2);
  assert_ok(tsr_executable_read(m.executable, d.y, bytes, sizeof bytes));
  assert_int_equal(fake.n_done, 3);
  assert_ok(tsr_executable_wait(m.executable));
  assert_ok(tsr_executable_start(m.executable)); /* destroyed with all parts in flight */
  finish(&m);
  assert_int_equal(fake.n_done, 6);
  tsr_program_destroy(d.program);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

static void test_errors(void **state)
{
  (void)state;
  tsr_runtime *runtime;
  tsr_device *device = open_fake(&runtime, 0);
  drawn d = draw(1);
  const int32_t n_lines = tsr_program_describe(d.program)->n_lines;
  const int32_t wrong[][2] = {{0, 3}, {3, 3}, {4, 3}, {3, n_lines}, {-1, 2}};
  tsr_executable *executable;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .cuts = wrong[i], .n_cuts = 2};
    assert_status(tsr_executable_create(device, d.program, &options, &executable), TSR_ERR_ARGUMENT);
    assert_message("cuts ascend, within the program");
  }
  const tsr_compile_options none = {TSR_SIZED(tsr_compile_options), .n_cuts = 2};
  assert_status(tsr_executable_create(device, d.program, &none, &executable), TSR_ERR_ARGUMENT);
  assert_message("n_cuts is 2, cuts is NULL");
  assert_null(tsr_executable_part(NULL, 0));
  tsr_program_destroy(d.program);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results), cmocka_unit_test(test_fallback), cmocka_unit_test(test_vulkan),
      cmocka_unit_test(test_reading), cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
