/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers, bindings and runs on one device.
 */
#define TSR_BACKEND_QUERY template_query
#include "tests/abi/support.h"

/* The template, small and counted. */
static struct {
  tsr_backend table;
  uint64_t max_buffer_size, memory;
  uint32_t alignment;
  int buffers, compiles, runs, waits, transfers;
  int at_once, fails_at_once; /* calls of run_many; 1: it fails */
  uint64_t bytes[3];          /* of the buffers, by usage */
  const tsr_backend *sound;
} counted;

static int32_t counted_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  int32_t status = counted.sound->device_properties(context, index, properties);
  properties->max_buffer_size = counted.max_buffer_size;
  properties->memory = counted.memory;
  properties->buffer_alignment = counted.alignment;
  return status;
}

static int32_t counted_buffer_create(tsr_backend_device *device, uint64_t size, int32_t usage,
                                     tsr_backend_buffer **buffer)
{
  counted.buffers++;
  assert_in_range(usage, TSR_BUFFER_DEVICE, TSR_BUFFER_READBACK);
  counted.bytes[usage] += size;
  return counted.sound->buffer_create(device, size, usage, buffer);
}

static int32_t counted_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes)
{
  assert_int_equal(counted.runs, counted.waits); /* no run may be under way */
  counted.transfers++;
  return counted.sound->buffer_write(buffer, offset, size, bytes);
}

static int32_t counted_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes)
{
  assert_int_equal(counted.runs, counted.waits);
  counted.transfers++;
  return counted.sound->buffer_read(buffer, offset, size, bytes);
}

static int32_t counted_compile(tsr_backend_device *device, const tsr_compile_args *args,
                               tsr_backend_executable **executable)
{
  counted.compiles++;
  for (int32_t i = 1; i < args->program->n_storages; i++) {
    const tsr_storage_desc *storage = tsr_storage_at(args->program, i);
    assert_in_range(storage->buffer, 0, args->n_buffers - 1);
    assert_int_equal(storage->offset % counted.alignment, 0);
  }
  return counted.sound->compile(device, args, executable);
}

static int32_t counted_run(tsr_backend_executable *executable)
{
  counted.runs++;
  return counted.sound->run(executable);
}

static int32_t counted_wait(tsr_backend_executable *executable)
{
  counted.waits = counted.runs;
  return counted.sound->wait(executable);
}

static int32_t counted_run_many(tsr_backend_executable *executable, uint32_t n)
{
  int32_t status = counted.fails_at_once ? TSR_ERR_DEVICE_LOST : TSR_OK;
  counted.at_once++;
  for (uint32_t i = 0; i < n && status == TSR_OK; i++) {
    status = counted_run(executable);
  }
  return status;
}

static const void *counted_extension(void *context, const char *name)
{
  static const tsr_runs_extension runs = {.struct_size = sizeof runs, .run_many = counted_run_many};
  (void)context;
  return strcmp(name, TSR_RUNS_EXTENSION) == 0 ? &runs : NULL;
}

static const tsr_backend *counted_query(uint32_t major, const tsr_host *host)
{
  counted.sound = template_query(major, host);
  counted.table = *counted.sound;
  counted.table.device_properties = counted_properties;
  counted.table.buffer_create = counted_buffer_create;
  counted.table.buffer_write = counted_write;
  counted.table.buffer_read = counted_read;
  counted.table.compile = counted_compile;
  counted.table.run = counted_run;
  counted.table.wait = counted_wait;
  return &counted.table;
}

static const tsr_backend *counted_query_many(uint32_t major, const tsr_host *host)
{
  (void)counted_query(major, host);
  counted.table.get_extension = counted_extension;
  return &counted.table;
}

typedef struct bench {
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_program *program;
} bench;

static int set_up_of(void **state, tsr_backend_query_fn query, uint64_t max_buffer_size, uint64_t memory,
                     uint32_t alignment)
{
  static bench b;
  memset(&counted, 0, sizeof counted);
  counted.max_buffer_size = max_buffer_size;
  counted.memory = memory;
  counted.alignment = alignment;
  b.runtime = runtime_with(NULL, NULL);
  assert_ok(tsr_runtime_register(b.runtime, query));
  b.device = open_device(b.runtime, "template");
  assert_ok(tsr_program_create(&b.program));
  *state = &b;
  return 0;
}

static int set_up_with(void **state, uint64_t max_buffer_size, uint64_t memory, uint32_t alignment)
{
  return set_up_of(state, counted_query, max_buffer_size, memory, alignment);
}

static int set_up_many(void **state)
{
  return set_up_of(state, counted_query_many, 0, 0, 64);
}

static int set_up(void **state)
{
  return set_up_with(state, 0, 0, 64);
}

static int set_up_small(void **state)
{
  return set_up_with(state, 256, 0, 64);
}

static int set_up_small_memory(void **state)
{
  return set_up_with(state, 0, 256, 64);
}

static int tear_down(void **state)
{
  bench *b = *state;
  tsr_program_destroy(b->program);
  tsr_device_close(b->device);
  tsr_runtime_destroy(b->runtime);
  return 0;
}

static void test_buffers(void **state)
{
  bench *b = *state;
  tsr_buffer *buffer;
  char bytes[16] = "abcdefghijklmno", back[16];
  assert_ok(tsr_buffer_create(b->device, 16, TSR_BUFFER_UPLOAD, &buffer));
  assert_int_equal(tsr_buffer_size(buffer), 16);
  assert_ok(tsr_buffer_read(buffer, 0, 16, back));
  assert_int_equal(back[0] | back[15], 0);
  assert_ok(tsr_buffer_write(buffer, 4, 3, bytes));
  assert_ok(tsr_buffer_read(buffer, 3, 5, back));
  assert_memory_equal(back, "\0abc\0", 5);
  static const int64_t wrong[][2] = {{-1, 1}, {0, 17}, {16, 1}, {17, 0}, {1, INT64_MAX}, {INT64_MAX, 1}, {0, -1}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_status(tsr_buffer_write(buffer, wrong[i][0], wrong[i][1], bytes), TSR_ERR_ARGUMENT);
    assert_message("do not lie within the buffer's 16 bytes");
    assert_status(tsr_buffer_read(buffer, wrong[i][0], wrong[i][1], back), TSR_ERR_ARGUMENT);
  }
  assert_ok(tsr_buffer_write(buffer, 16, 0, NULL));
  assert_status(tsr_buffer_write(buffer, 0, 1, NULL), TSR_ERR_ARGUMENT);
  tsr_buffer_destroy(buffer);
  tsr_buffer_destroy(NULL);

  int before = counted.buffers;
  assert_ok(tsr_buffer_create(b->device, 0, TSR_BUFFER_DEVICE, &buffer));
  assert_ok(tsr_buffer_write(buffer, 0, 0, bytes));
  tsr_buffer_destroy(buffer);
  assert_int_equal(counted.buffers, before);
  assert_status(tsr_buffer_create(b->device, -1, TSR_BUFFER_DEVICE, &buffer), TSR_ERR_ARGUMENT);
  assert_status(tsr_buffer_create(b->device, 1, 3, &buffer), TSR_ERR_ARGUMENT);
}

/* y = a + c; state is never touched. */
static void build_sum(bench *b)
{
  tsr_program *p = b->program;
  tsr_ref a = tsr_input(p, "a", TSR_F32, TSR_SHAPE(4));
  tsr_ref c = tsr_constant(p, "c", TSR_F32, TSR_SHAPE(4));
  tsr_state(p, "s", TSR_F32, TSR_SHAPE(4));
  tsr_output(p, "y", tsr_add(p, a, c));
  assert_ok(tsr_program_status(p));
}

static tsr_status compile(bench *b, const tsr_binding *bindings, int32_t n, tsr_executable **executable)
{
  return tsr_executable_create(
      b->device, b->program,
      &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .bindings = bindings, .n_bindings = n}, executable);
}

/* An output of n numbers lies where the host reads it best, unless it is large, or a line reads more than a handful. */
static void check_output(bench *b, int64_t n, int is_read, int32_t usage)
{
  tsr_executable *executable;
  tsr_program *p;
  float *numbers = calloc((size_t)n, sizeof *numbers);
  assert_non_null(numbers);
  assert_ok(tsr_program_create(&p));
  const tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(n)), y = tsr_relu(p, x);
  tsr_output(p, "y", y);
  if (is_read) {
    tsr_output(p, "z", tsr_relu(p, tsr_slice(p, y, 0, 0, 4)));
  }
  tsr_program_destroy(b->program);
  b->program = p;
  memset(counted.bytes, 0, sizeof counted.bytes);
  assert_ok(compile(b, NULL, 0, &executable));
  assert_int_equal(counted.bytes[TSR_BUFFER_UPLOAD], 4 * n);
  assert_int_equal(counted.bytes[TSR_BUFFER_DEVICE], usage == TSR_BUFFER_DEVICE ? 4 * n : 0);
  assert_int_equal(counted.bytes[TSR_BUFFER_READBACK], (usage == TSR_BUFFER_READBACK ? 4 * n : 0) + (is_read ? 64 : 0));
  numbers[n - 1] = 5;
  assert_ok(tsr_executable_write(executable, x, numbers, 4 * n));
  assert_ok(tsr_executable_run(executable));
  numbers[n - 1] = 0;
  assert_ok(tsr_executable_read(executable, y, numbers, 4 * n));
  assert_true(numbers[n - 1] == 5);
  tsr_executable_destroy(executable);
  free(numbers);
}

static void test_outputs(void **state)
{
  check_output(*state, 1024, 0, TSR_BUFFER_READBACK);
  check_output(*state, 1024, 1, TSR_BUFFER_READBACK);
  check_output(*state, 1040, 0, TSR_BUFFER_READBACK);
  check_output(*state, 1040, 1, TSR_BUFFER_DEVICE);
  check_output(*state, 16384, 0, TSR_BUFFER_READBACK);
  check_output(*state, 16400, 0, TSR_BUFFER_DEVICE);
  check_output(*state, 1 << 20, 0, TSR_BUFFER_DEVICE);
}

static void test_bindings(void **state)
{
  bench *b = *state;
  build_sum(b);
  tsr_ref a = tsr_program_find(b->program, "a"), c = tsr_program_find(b->program, "c"),
          s = tsr_program_find(b->program, "s"), y = tsr_program_find(b->program, "y");
  tsr_executable *executable;
  tsr_buffer *buffer, *foreign;
  tsr_device *other = open_device(b->runtime, "template");
  assert_ok(tsr_buffer_create(b->device, 256, TSR_BUFFER_DEVICE, &buffer));
  assert_ok(tsr_buffer_create(other, 256, TSR_BUFFER_DEVICE, &foreign));

  assert_status(tsr_executable_create(b->device, b->program, NULL, &executable), TSR_ERR_ARGUMENT);
  assert_message("the constant 'c' is bound to no buffer");
  static const char *const messages[] = {
      "'c' is bound to a buffer of another device (template:0)",
      "'c' has 16 bytes and is bound at offset 256 of a buffer of 256 bytes",
      "'c' is bound at offset 8: a multiple of 64 is needed",
      "'c' is bound at offset -64",
      "a binding has no tensor of the program (0) or no buffer",
      "a binding has no tensor of the program (1000) or no buffer",
      "or no buffer",
  };
  const tsr_binding wrong[] = {{c, foreign, 0},       {c, buffer, 256},  {c, buffer, 8}, {c, buffer, -64},
                               {TSR_NONE, buffer, 0}, {1000, buffer, 0}, {c, NULL, 0}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_status(compile(b, &wrong[i], 1, &executable), TSR_ERR_ARGUMENT);
    assert_message(messages[i]);
  }
  assert_status(compile(b, (tsr_binding[]){{c, buffer, 0}, {c, buffer, 64}}, 2, &executable), TSR_ERR_ARGUMENT);
  assert_message("'c' is bound twice");
  assert_status(compile(b, (tsr_binding[]){{c, buffer, 0}, {y, buffer, 0}}, 2, &executable), TSR_ERR_ARGUMENT);
  assert_message("are bound to overlapping bytes");
  assert_status(compile(b, (tsr_binding[]){{s, buffer, 64}, {c, buffer, 0}, {a, buffer, 64}}, 3, &executable),
                TSR_ERR_ARGUMENT);
  assert_message("are bound to overlapping bytes");

  /* What is only read may overlap; y lies between guards. */
  float values[64];
  for (int i = 0; i < 64; i++) {
    values[i] = (float)i;
  }
  assert_ok(tsr_buffer_write(buffer, 0, sizeof values, values));
  assert_ok(compile(b, (tsr_binding[]){{c, buffer, 64}, {a, buffer, 64}, {y, buffer, 128}}, 3, &executable));
  assert_ok(tsr_executable_run(executable));
  assert_ok(tsr_buffer_read(buffer, 0, sizeof values, values));
  for (int i = 0; i < 64; i++) {
    assert_true(values[i] == (float)(i >= 32 && i < 36 ? 2 * (i - 16) : i));
  }
  float result[4];
  assert_ok(tsr_executable_read(executable, y, result, sizeof result));
  assert_memory_equal(result, &values[32], sizeof result);
  tsr_executable_destroy(executable);
  tsr_buffer_destroy(buffer);
  tsr_buffer_destroy(foreign);
  tsr_device_close(other);
}

static void test_reading_and_writing(void **state)
{
  bench *b = *state;
  tsr_program *p = b->program;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2, 2));
  tsr_ref s = tsr_state(p, "s", TSR_F32, TSR_SHAPE(2));
  tsr_ref t = tsr_add(p, tsr_transpose(p, x, 0, 1), s);
  tsr_ref y = tsr_output(p, "y", tsr_relu(p, t));
  for (int keep_all = 0; keep_all < 2; keep_all++) {
    tsr_executable *executable;
    assert_ok(tsr_executable_create(
        b->device, p, &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .keep_all = keep_all}, &executable));
    const float x_values[4] = {1, -5, 3, -7}, s_values[2] = {1, 2}, t_values[4] = {2, 5, -4, -5},
                y_values[4] = {2, 5, 0, 0};
    float back[4];
    assert_ok(tsr_executable_write(executable, x, x_values, sizeof x_values));
    assert_ok(tsr_executable_write(executable, s, s_values, sizeof s_values));
    assert_status(tsr_executable_write(executable, x, x_values, 8), TSR_ERR_ARGUMENT);
    assert_message("has 16 bytes, not 8");
    assert_status(tsr_executable_write(executable, y, x_values, sizeof x_values), TSR_ERR_ARGUMENT);
    assert_message("is an output: only inputs and states");
    assert_status(tsr_executable_write(executable, TSR_INVALID, x_values, 4), TSR_ERR_ARGUMENT);
    assert_ok(tsr_executable_run(executable));
    assert_ok(tsr_executable_read(executable, y, back, sizeof back));
    assert_memory_equal(back, y_values, sizeof back);
    assert_ok(tsr_executable_read(executable, x, back, sizeof back));
    assert_memory_equal(back, x_values, sizeof back);
    assert_ok(tsr_executable_read(executable, s, back, sizeof s_values));
    assert_memory_equal(back, s_values, sizeof s_values);
    if (keep_all) {
      assert_ok(tsr_executable_read(executable, t, back, sizeof back));
      assert_memory_equal(back, t_values, sizeof back);
    } else {
      assert_status(tsr_executable_read(executable, t, back, sizeof back), TSR_ERR_ARGUMENT);
      assert_message("is a temporary: compile with keep_all to read it");
    }
    uint64_t nanoseconds[2];
    assert_status(tsr_executable_profile(executable, nanoseconds, 2), TSR_ERR_UNSUPPORTED);
    assert_message("compiled without profile");
    tsr_executable_destroy(executable);
  }
}

/* A run is one call; nothing is made in it; what touches its buffers waits for it first. */
static void test_runs(void **state)
{
  bench *b = *state;
  tsr_program *p = b->program;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2));
  tsr_ref y = tsr_output(p, "y", tsr_relu(p, tsr_add(p, x, x)));
  tsr_buffer *input, *unrelated;
  assert_ok(tsr_buffer_create(b->device, 8, TSR_BUFFER_UPLOAD, &input));
  assert_ok(tsr_buffer_create(b->device, 8, TSR_BUFFER_UPLOAD, &unrelated));
  tsr_executable *executable;
  assert_ok(compile(b, &(tsr_binding){x, input, 0}, 1, &executable));
  int buffers = counted.buffers, compiles = counted.compiles, transfers = counted.transfers;
  for (int i = 0; i < 200; i++) {
    assert_ok(tsr_executable_run(executable));
  }
  assert_int_equal(counted.runs, 200);
  assert_int_equal(counted.buffers, buffers);
  assert_int_equal(counted.compiles, compiles);
  assert_int_equal(counted.transfers, transfers);

  float values[2] = {3, -4}, result[2];
  assert_ok(tsr_executable_start(executable));
  assert_ok(tsr_executable_start(executable));
  assert_int_equal(counted.runs, 202);
  assert_int_equal(counted.waits, 200);
  assert_ok(tsr_buffer_write(input, 0, sizeof values, values)); /* counted_write checks that it waited */
  assert_ok(tsr_executable_start(executable));
  assert_ok(tsr_executable_read(executable, y, result, sizeof result));
  assert_true(result[0] == 6 && result[1] == 0);
  assert_ok(tsr_executable_wait(executable));
  assert_ok(tsr_executable_wait(executable));
  assert_ok(tsr_executable_start(executable));
  tsr_executable_destroy(executable); /* waits */
  assert_int_equal(counted.runs, counted.waits);
  tsr_buffer_destroy(input);
  tsr_buffer_destroy(unrelated);
}

/* y = relu(x), several times in one call; calls: of run_many, if the backend has it. */
static void check_many_runs(bench *b, int calls)
{
  tsr_ref x = tsr_input(b->program, "x", TSR_F32, TSR_SHAPE(2));
  tsr_ref y = tsr_output(b->program, "y", tsr_relu(b->program, x));
  tsr_executable *executable;
  float values[2] = {3, -4}, result[2];
  assert_ok(tsr_executable_create(b->device, b->program, NULL, &executable));
  assert_ok(tsr_executable_write(executable, x, values, sizeof values));
  assert_ok(tsr_executable_start_many(executable, 3));
  assert_int_equal(counted.runs, 3);
  assert_int_equal(counted.waits, 0);
  assert_int_equal(counted.at_once, calls);
  assert_ok(tsr_executable_start_many(executable, 2)); /* behind the others */
  assert_ok(tsr_executable_start_many(executable, 1));
  assert_int_equal(counted.runs, 6);
  assert_ok(tsr_executable_read(executable, y, result, sizeof result)); /* counted_read checks that it waited */
  assert_true(result[0] == 3 && result[1] == 0);
  assert_ok(tsr_executable_wait(executable));
  assert_ok(tsr_executable_start_many(executable, 2));
  assert_ok(tsr_executable_write(executable, x, values, sizeof values));
  assert_status(tsr_executable_start_many(executable, 0), TSR_ERR_ARGUMENT);
  assert_status(tsr_executable_start_many(NULL, 1), TSR_ERR_ARGUMENT);
  assert_message("there is no executable, or 1 runs of it");
  assert_int_equal(counted.runs, 8);
  counted.fails_at_once = calls;
  assert_status(tsr_executable_start_many(executable, 2), calls ? TSR_ERR_DEVICE_LOST : TSR_OK);
  assert_int_equal(counted.runs, calls ? 8 : 10);
  assert_ok(tsr_executable_wait(executable)); /* no run is under way */
  tsr_executable_destroy(executable);
}

static void test_many_runs(void **state)
{
  check_many_runs(*state, 0);
}

static void test_many_runs_at_once(void **state)
{
  check_many_runs(*state, 1);
}

static void test_empty(void **state)
{
  bench *b = *state;
  tsr_program *p = b->program;
  tsr_executable *executable;
  assert_ok(tsr_executable_create(b->device, p, NULL, &executable)); /* no line at all */
  assert_ok(tsr_executable_run(executable));
  assert_ok(tsr_executable_wait(executable));
  assert_ok(tsr_executable_start_many(executable, 2));
  assert_int_equal(counted.runs, 0);
  tsr_executable_destroy(executable);

  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(0, 3));
  tsr_ref c = tsr_constant(p, "c", TSR_F32, TSR_SHAPE(0, 3));
  tsr_ref y = tsr_output(p, "y", tsr_add(p, tsr_relu(p, x), c));
  tsr_buffer *buffer;
  assert_ok(tsr_buffer_create(b->device, 0, TSR_BUFFER_DEVICE, &buffer));
  assert_ok(compile(b, &(tsr_binding){c, buffer, 0}, 1, &executable));
  assert_ok(tsr_executable_write(executable, x, NULL, 0));
  assert_ok(tsr_executable_run(executable));
  assert_ok(tsr_executable_read(executable, y, NULL, 0));
  tsr_executable_destroy(executable);
  tsr_buffer_destroy(buffer);
}

/* No buffer may pass 256 bytes: several inputs then take several buffers, one that is larger is refused. */
static void test_small_buffers(void **state)
{
  bench *b = *state;
  tsr_program *p = b->program;
  tsr_ref sum = TSR_NONE;
  for (int i = 0; i < 7; i++) {
    char name[8];
    snprintf(name, sizeof name, "x%d", i);
    tsr_ref x = tsr_input(p, name, TSR_F32, TSR_SHAPE(32));
    sum = i ? tsr_add(p, sum, x) : x;
  }
  tsr_ref y = tsr_output(p, "y", sum);
  tsr_executable *executable;
  assert_ok(tsr_executable_create(b->device, p, NULL, &executable));
  float values[32], result[32];
  for (int i = 0; i < 7; i++) {
    char name[8];
    snprintf(name, sizeof name, "x%d", i);
    for (int j = 0; j < 32; j++) {
      values[j] = (float)(i * j);
    }
    assert_ok(tsr_executable_write(executable, tsr_program_find(p, name), values, sizeof values));
  }
  assert_ok(tsr_executable_run(executable));
  assert_ok(tsr_executable_read(executable, y, result, sizeof result));
  for (int j = 0; j < 32; j++) {
    assert_true(result[j] == (float)(21 * j));
  }
  tsr_executable_destroy(executable);

  tsr_buffer *buffer;
  assert_status(tsr_buffer_create(b->device, 257, TSR_BUFFER_DEVICE, &buffer), TSR_ERR_DEVICE_MEMORY);
  assert_message("template:0: a buffer would take 257 bytes in one buffer, the device takes at most 256");
  assert_status(tsr_executable_create(
                    b->device, p, &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .keep_all = 1}, &executable),
                TSR_ERR_DEVICE_MEMORY);
  assert_message("the temporaries would take 640 bytes in one buffer, the device takes at most 256: use a smaller");
  tsr_output(p, "large", tsr_relu(p, tsr_expand(p, y, TSR_SHAPE(3, 32))));
  assert_status(tsr_executable_create(b->device, p, NULL, &executable), TSR_ERR_DEVICE_MEMORY);
  assert_message("the outputs would take 384 bytes");
}

static void test_small_memory(void **state)
{
  bench *b = *state;
  tsr_buffer *buffer;
  assert_ok(tsr_buffer_create(b->device, 256, TSR_BUFFER_DEVICE, &buffer));
  tsr_buffer_destroy(buffer);
  assert_status(tsr_buffer_create(b->device, INT64_MAX, TSR_BUFFER_DEVICE, &buffer), TSR_ERR_DEVICE_MEMORY);
  assert_message("the device takes at most 256");
}

/* What the machine does not have is not asked of a device whose memory is the machine's: it might be granted, and
 * missing when it is used. */
static void test_memory_of_the_machine(void **state)
{
  bench *b = *state;
  tsr_buffer *buffer;
  FILE *file = fopen("/proc/meminfo", "r");
  if (!file) {
    skip();
  }
  fclose(file);
  assert_status(tsr_buffer_create(b->device, (int64_t)1 << 50, TSR_BUFFER_DEVICE, &buffer), TSR_ERR_DEVICE_MEMORY);
  assert_message("template:0: a buffer would take 1125899906842624 bytes, of the machine's memory ");
  assert_int_equal(counted.buffers, 0);
  tsr_input(b->program, "x", TSR_F32, TSR_SHAPE((int64_t)1 << 48));
  tsr_executable *executable;
  assert_status(tsr_executable_create(b->device, b->program, NULL, &executable), TSR_ERR_DEVICE_MEMORY);
  assert_message("the inputs would take 1125899906842624 bytes");
  assert_int_equal(counted.buffers, 0);
}

/* A program that could not be built is not compiled; what failed is told again. */
static void test_failed_program(void **state)
{
  bench *b = *state;
  tsr_ref x = tsr_input(b->program, "x", TSR_F32, TSR_SHAPE(2));
  tsr_ref z = tsr_input(b->program, "z", TSR_F32, TSR_SHAPE(3));
  assert_int_equal(tsr_add(b->program, x, z), TSR_INVALID);
  tsr_executable *executable;
  assert_status(tsr_executable_create(b->device, b->program, NULL, &executable), TSR_ERR_SHAPE);
  assert_status(tsr_executable_create(NULL, b->program, NULL, &executable), TSR_ERR_ARGUMENT);
  assert_status(tsr_executable_create(b->device, NULL, NULL, &executable), TSR_ERR_ARGUMENT);
  assert_status(tsr_executable_run(NULL), TSR_ERR_ARGUMENT);
  tsr_executable_info info;
  tsr_executable_report(NULL, &info);
  assert_int_equal(info.lines, 0);
  assert_string_equal(tsr_device_name(NULL), "");
  assert_null(tsr_device_get_properties(NULL));
  assert_int_equal(tsr_buffer_size(NULL), 0);
  tsr_executable_destroy(NULL);
  tsr_device_close(NULL);
  tsr_runtime_destroy(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_buffers, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_outputs, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_bindings, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_reading_and_writing, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_runs, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_many_runs, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_many_runs_at_once, set_up_many, tear_down),
      cmocka_unit_test_setup_teardown(test_empty, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_small_buffers, set_up_small, tear_down),
      cmocka_unit_test_setup_teardown(test_small_memory, set_up_small_memory, tear_down),
      cmocka_unit_test_setup_teardown(test_memory_of_the_machine, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_failed_program, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
