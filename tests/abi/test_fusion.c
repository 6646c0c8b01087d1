/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend says until when it wants to have what a line reads, and the memory plan keeps it so long.
 */
#define TSR_BACKEND_QUERY template_query
#include "tests/abi/support.h"

enum { N = 64, SIZE = N * 4, FUSED = 1 /* this line and the next */ };

/* The template, which says what `extension` says. */
static struct {
  tsr_backend table;
  tsr_fusion_extension extension;
  int32_t answer; /* to a question about line FUSED */
  int is_asked;   /* it was */
  int are_apart;  /* the operand of line FUSED and the result of the next share no byte in the last program compiled */
  int has_fusion; /* 0: no such extension */
} fake;

static int32_t fake_operands_until(tsr_backend_device *device, const tsr_program_desc *program, int32_t line)
{
  (void)device;
  assert_true(line >= 0 && line < program->n_lines);
  fake.is_asked = 1;
  return line == FUSED ? fake.answer : line;
}

static const void *fake_get_extension(void *context, const char *name)
{
  (void)context;
  return fake.has_fusion && strcmp(name, TSR_FUSION_EXTENSION) == 0 ? &fake.extension : NULL;
}

static int32_t fake_compile(tsr_backend_device *device, const tsr_compile_args *args,
                            tsr_backend_executable **executable)
{
  const tsr_program_desc *p = args->program;
  int32_t x = tsr_line_at(p, FUSED)->in[0], y = tsr_line_at(p, FUSED + 1)->out[0];
  const tsr_storage_desc *a = tsr_storage_at(p, tsr_tensor_at(p, x)->storage);
  const tsr_storage_desc *b = tsr_storage_at(p, tsr_tensor_at(p, y)->storage);
  fake.are_apart = a->buffer != b->buffer || a->offset + a->size <= b->offset || b->offset + b->size <= a->offset;
  return template_query(TSR_ABI_MAJOR, NULL)->compile(device, args, executable);
}

static const tsr_backend *fake_query(uint32_t major, const tsr_host *host)
{
  fake.table = *template_query(major, host);
  fake.table.name = "fake";
  fake.table.compile = fake_compile;
  fake.table.get_extension = fake_get_extension;
  return &fake.table;
}

static int set_up(void **state)
{
  memset(&fake, 0, sizeof fake);
  fake.has_fusion = 1;
  fake.answer = FUSED + 1;
  fake.extension = (tsr_fusion_extension){.struct_size = sizeof fake.extension, .operands_until = fake_operands_until};
  *state = NULL;
  return 0;
}

/* y = relu^5(x): temporaries that two places serve, as long as no line is computed as one with its neighbour. */
static tsr_program *chain(tsr_ref *x, tsr_ref *y)
{
  tsr_program *p;
  assert_ok(tsr_program_create(&p));
  *x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(N));
  *y = *x;
  for (int i = 0; i < 5; i++) {
    *y = tsr_relu(p, *y);
  }
  *y = tsr_output(p, "y", *y);
  assert_ok(tsr_program_status(p));
  return p;
}

/* Compiles and runs; returns the planned bytes. */
static int64_t run(tsr_device *device, const tsr_compile_options *options)
{
  tsr_ref x, y;
  tsr_program *p = chain(&x, &y);
  tsr_executable *executable;
  tsr_executable_info info;
  float in[N], out[N];
  for (int i = 0; i < N; i++) {
    in[i] = (float)(i % 7) - 3.0f;
  }
  assert_ok(tsr_executable_create(device, p, options, &executable));
  assert_ok(tsr_executable_write(executable, x, in, sizeof in));
  assert_ok(tsr_executable_run(executable));
  assert_ok(tsr_executable_read(executable, y, out, sizeof out));
  for (int i = 0; i < N; i++) {
    assert_true(out[i] == (in[i] > 0 ? in[i] : 0));
  }
  tsr_executable_report(executable, &info);
  tsr_executable_destroy(executable);
  tsr_program_destroy(p);
  return info.planned_bytes;
}

/* What the program takes by itself, and on the device. */
static void measure(tsr_device *device, int64_t *alone, int64_t *there)
{
  tsr_ref x, y;
  tsr_program *p = chain(&x, &y);
  tsr_program_statistics statistics;
  assert_ok(tsr_program_measure(p, 16, &statistics));
  *alone = statistics.planned_bytes;
  assert_ok(tsr_device_measure(device, p, 16, &statistics));
  *there = statistics.planned_bytes;
  assert_int_equal(statistics.lines, 5);
  assert_status(tsr_device_measure(device, p, 3, &statistics), TSR_ERR_ARGUMENT);
  assert_status(tsr_device_measure(NULL, p, 16, &statistics), TSR_ERR_ARGUMENT);
  tsr_program_destroy(p);
}

static tsr_device *open_fake(tsr_runtime **runtime)
{
  *runtime = runtime_with("template", NULL);
  assert_ok(tsr_runtime_register(*runtime, fake_query));
  return open_device(*runtime, "fake");
}

static void close_fake(tsr_runtime *runtime, tsr_device *device)
{
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

static void test_plan_keeps_operands(void **state)
{
  (void)state;
  tsr_runtime *runtime;
  tsr_device *device = open_fake(&runtime);
  int64_t alone, there;
  measure(device, &alone, &there);
  assert_true(fake.is_asked);
  assert_int_equal(alone, 2 * SIZE);
  assert_int_equal(there, 3 * SIZE);
  assert_int_equal(run(device, NULL), there);
  assert_true(fake.are_apart);
  close_fake(runtime, device);
}

/* Without the extension, and with an answer that is none, each line stands alone. */
static void test_default(void **state)
{
  (void)state;
  static const int32_t answers[] = {FUSED, FUSED - 1, -1, 5, INT32_MAX, INT32_MIN};
  tsr_runtime *runtime;
  int64_t alone, there;
  for (size_t i = 0; i <= sizeof answers / sizeof answers[0]; i++) {
    fake.has_fusion = i > 0;
    fake.answer = i > 0 ? answers[i - 1] : 0;
    tsr_device *device = open_fake(&runtime);
    measure(device, &alone, &there);
    assert_int_equal(alone, 2 * SIZE);
    assert_int_equal(there, alone);
    assert_int_equal(run(device, NULL), alone);
    assert_false(fake.are_apart);
    close_fake(runtime, device);
  }
}

/* An arena as large as the device asks for, one as large as the program by itself takes, and one that is too small. */
static void test_arena(void **state)
{
  (void)state;
  tsr_runtime *runtime;
  tsr_device *device = open_fake(&runtime);
  for (int64_t places = 3; places >= 1; places--) {
    tsr_buffer *arena;
    assert_ok(tsr_buffer_create(device, places * SIZE, TSR_BUFFER_DEVICE, &arena));
    const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .arena = arena};
    if (places > 1) {
      assert_int_equal(run(device, &options), places * SIZE);
      assert_int_equal(fake.are_apart, places == 3);
    } else {
      tsr_ref x, y;
      tsr_program *p = chain(&x, &y);
      tsr_executable *executable;
      assert_status(tsr_executable_create(device, p, &options, &executable), TSR_ERR_ARGUMENT);
      assert_message("the arena has 256 bytes, and the temporaries take 512");
      tsr_program_destroy(p);
    }
    tsr_buffer_destroy(arena);
  }
  close_fake(runtime, device);
}

static void test_broken_extension(void **state)
{
  (void)state;
  tsr_runtime *runtime = runtime_with("template", NULL);
  fake.extension.struct_size = offsetof(tsr_fusion_extension, operands_until);
  assert_status(tsr_runtime_register(runtime, fake_query), TSR_ERR_PLUGIN);
  assert_message("backend 'fake': its extension tessera.fusion/1 has 8 bytes instead of 16");
  fake.extension = (tsr_fusion_extension){.struct_size = sizeof fake.extension};
  assert_status(tsr_runtime_register(runtime, fake_query), TSR_ERR_PLUGIN);
  assert_message("extension tessera.fusion/1 lacks what it must have: operands_until");
  tsr_runtime_destroy(runtime);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_plan_keeps_operands, set_up),
      cmocka_unit_test_setup(test_default, set_up),
      cmocka_unit_test_setup(test_arena, set_up),
      cmocka_unit_test_setup(test_broken_extension, set_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
