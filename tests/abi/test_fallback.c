/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines that a device does not support run on another one, and nobody can tell from the results.
 */
#define TSR_BACKEND_QUERY template_query
#include <dlfcn.h>

#include "tests/abi/support.h"

typedef struct bench {
  tsr_runtime *runtime;
  tsr_device *primary, *reference;
} bench;

static int set_up(void **state)
{
  static bench b;
  b.runtime = runtime_with("template", "reference", NULL);
  b.primary = open_device(b.runtime, "template");
  b.reference = open_device(b.runtime, "reference");
  *state = &b;
  return 0;
}

static int tear_down(void **state)
{
  bench *b = *state;
  tsr_device_close(b->primary);
  tsr_device_close(b->reference);
  tsr_runtime_destroy(b->runtime);
  return 0;
}

static tsr_program *new_program(void)
{
  tsr_program *program;
  assert_ok(tsr_program_create(&program));
  return program;
}

/* y = softmax(relu(x w) + x w): the product and the softmax fall back, what is between them does not. */
static void build_layer(tsr_program *p)
{
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(4, 8));
  tsr_ref w = tsr_constant(p, "w", TSR_F32, TSR_SHAPE(8, 6));
  tsr_ref product = tsr_product(p, x, w);
  tsr_ref sum = tsr_add(p, tsr_relu(p, product), product);
  tsr_output(p, "y", tsr_softmax(p, sum, TSR_NONE));
  assert_ok(tsr_program_status(p));
}

static tsr_buffer *buffer_of(tsr_device *device, const void *bytes, int64_t size)
{
  tsr_buffer *buffer;
  assert_ok(tsr_buffer_create(device, size, TSR_BUFFER_DEVICE, &buffer));
  assert_ok(tsr_buffer_write(buffer, 0, size, bytes));
  return buffer;
}

static void fill(float *values, int n, float start)
{
  for (int i = 0; i < n; i++) {
    values[i] = start + (float)((i * 37) % 19) / 7.0f - 1.3f;
  }
}

static void test_layer(void **state)
{
  bench *b = *state;
  tsr_program *p = new_program();
  build_layer(p);
  float x[32], w[48], results[2][24];
  fill(x, 32, 0);
  fill(w, 48, 0.1f);
  tsr_device *devices[] = {b->primary, b->reference};
  for (int i = 0; i < 2; i++) {
    tsr_buffer *weights = buffer_of(devices[i], w, sizeof w);
    tsr_binding binding = {.tensor = tsr_program_find(p, "w"), .buffer = weights};
    tsr_executable *executable;
    assert_ok(tsr_executable_create(
        devices[i], p, &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .bindings = &binding, .n_bindings = 1},
        &executable));
    tsr_executable_info info;
    tsr_executable_report(executable, &info);
    assert_int_equal(info.lines, 4);
    assert_int_equal(info.fallback_lines, i == 0 ? 2 : 0);
    assert_int_equal(info.segments, i == 0 ? 3 : 1);
    assert_int_equal(info.copies, i == 0 ? 3 : 0); /* the product there, the sum back, the output there */
    assert_int_equal(info.copy_bytes, i == 0 ? 3 * 24 * 4 : 0);
    assert_true(info.planned_bytes <= info.temporary_bytes);
    for (int32_t line = 0; line < 4; line++) {
      assert_int_equal(tsr_executable_line_fell_back(executable, line), i == 0 && (line == 0 || line == 3));
    }
    /* What lies between the lines shares its bytes with others, on one device and on two. */
    tsr_ref product = tsr_line_at(tsr_program_describe(p), 0)->out[0];
    assert_status(tsr_executable_read(executable, product, results[i], sizeof results[i]), TSR_ERR_ARGUMENT);
    assert_message("is a temporary: compile with keep_all to read it");
    for (int run = 0; run < 3; run++) {
      x[5] = (float)run;
      assert_ok(tsr_executable_write(executable, tsr_program_find(p, "x"), x, sizeof x));
      assert_ok(tsr_executable_run(executable));
      assert_ok(tsr_executable_read(executable, tsr_program_find(p, "y"), results[i], sizeof results[i]));
    }
    tsr_executable_destroy(executable);
    tsr_buffer_destroy(weights);
  }
  assert_memory_equal(results[0], results[1], sizeof results[0]);
  tsr_program_destroy(p);
}

static void test_strict(void **state)
{
  bench *b = *state;
  tsr_program *p = new_program();
  build_layer(p);
  tsr_executable *executable;
  assert_status(tsr_executable_create(b->primary, p,
                                      &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .strict = 1}, &executable),
                TSR_ERR_UNSUPPORTED);
  assert_null(executable);
  assert_message("template:0 does not support 2 of the program's 4 lines, and falling back was ruled out: line 0: ");
  assert_message("; line 3: ");
  assert_message("matmul");
  assert_message("softmax");
  tsr_program_destroy(p);

  p = new_program(); /* more lines than a message holds */
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(4));
  for (int i = 0; i < 300; i++) {
    x = tsr_silu(p, x);
  }
  tsr_output(p, "y", x);
  assert_status(tsr_executable_create(b->primary, p,
                                      &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .strict = 1}, &executable),
                TSR_ERR_UNSUPPORTED);
  assert_message("does not support 300 of the program's 300 lines");
  assert_message(" more");
  tsr_program_destroy(p);
}

/* A second backend with the template's two operators, named cpu. */
static tsr_backend cpu_table;
static const tsr_backend *cpu_query(uint32_t major, const tsr_host *host)
{
  cpu_table = *template_query(major, host);
  cpu_table.name = "cpu";
  return &cpu_table;
}

static void test_choice_of_the_fallback(void **state)
{
  (void)state;
  tsr_program *p = new_program();
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(4));
  tsr_output(p, "y", tsr_silu(p, x));
  tsr_executable *executable;
  tsr_compile_options options = {TSR_SIZED(tsr_compile_options)};

  tsr_runtime *runtime = runtime_with("template", NULL);
  tsr_device *device = open_device(runtime, "template");
  assert_status(tsr_executable_create(device, p, NULL, &executable), TSR_ERR_UNSUPPORTED);
  assert_message("there is no other device to fall back to");
  options.fallback = device; /* the same one helps nobody */
  assert_status(tsr_executable_create(device, p, &options, &executable), TSR_ERR_UNSUPPORTED);
  assert_message("there is no other device to fall back to");

  assert_ok(tsr_runtime_register(runtime, cpu_query));
  assert_status(tsr_executable_create(device, p, NULL, &executable), TSR_ERR_UNSUPPORTED);
  assert_message("neither template:0 nor the fallback device cpu:0 supports line 0: ");
  assert_message("silu");
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);

  /* What cpu lacks, the reference has. */
  runtime = runtime_with("template", "reference", NULL);
  assert_ok(tsr_runtime_register(runtime, cpu_query));
  device = open_device(runtime, "template");
  assert_ok(tsr_executable_create(device, p, NULL, &executable));
  assert_ok(tsr_executable_run(executable));
  tsr_executable_destroy(executable);

  /* An explicit one is the only one. */
  options.fallback = open_device(runtime, "cpu");
  assert_status(tsr_executable_create(device, p, &options, &executable), TSR_ERR_UNSUPPORTED);
  assert_message("nor the fallback device cpu:0");
  tsr_device_close(options.fallback);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  tsr_program_destroy(p);
}

/* A cache that the fallback device appends to and the device reads, over several runs; the host writes it in
 * between. */
static void test_state_across_runs(void **state)
{
  bench *b = *state;
  tsr_program *p = new_program();
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(1, 1, 3));
  tsr_ref position = tsr_input(p, "position", TSR_I32, TSR_SHAPE(1));
  tsr_ref cache = tsr_state(p, "cache", TSR_F32, TSR_SHAPE(1, 4, 3));
  tsr_ref row = tsr_relu(p, x);
  tsr_ref filled = tsr_append(p, cache, row, position);
  tsr_ref y = tsr_output(p, "y", tsr_relu(p, tsr_add(p, filled, filled)));
  assert_ok(tsr_program_status(p));
  tsr_device *devices[] = {b->primary, b->reference};
  float caches[2][12], results[2][12];
  for (int i = 0; i < 2; i++) {
    tsr_executable *executable;
    assert_ok(tsr_executable_create(devices[i], p, NULL, &executable));
    for (int32_t run = 0; run < 6; run++) {
      float values[3] = {(float)run, -1, 2.5f}, preset[12];
      int32_t at = run % 4;
      assert_ok(tsr_executable_write(executable, x, values, sizeof values));
      assert_ok(tsr_executable_write(executable, position, &at, sizeof at));
      if (run == 3) {
        fill(preset, 12, 3);
        assert_ok(tsr_executable_write(executable, cache, preset, sizeof preset));
      }
      assert_ok(tsr_executable_run(executable));
    }
    assert_ok(tsr_executable_read(executable, cache, caches[i], sizeof caches[i]));
    assert_ok(tsr_executable_read(executable, y, results[i], sizeof results[i]));
    tsr_executable_destroy(executable);
  }
  assert_memory_equal(caches[0], caches[1], sizeof caches[0]);
  assert_memory_equal(results[0], results[1], sizeof results[0]);
  assert_true(caches[0][0] == 4); /* of run 4 */
  tsr_program_destroy(p);
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Random programs. The device is the reference under another name, which claims not to support lines at random; so
 * every result must have the very bits of the reference alone.
 */

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(random_state >> 33) % n;
}

static const tsr_backend *reference_table;
static tsr_backend moody_table;
static uint8_t moody_refuses[64]; /* per line */

static int32_t moody_supports(tsr_backend_device *device, const tsr_program_desc *program, int32_t line)
{
  return moody_refuses[line % 64] ? 0 : reference_table->supports(device, program, line);
}

static const tsr_backend *moody_query(uint32_t major, const tsr_host *host)
{
  (void)major;
  (void)host;
  moody_table = *reference_table;
  moody_table.name = "moody";
  moody_table.supports = moody_supports;
  return &moody_table;
}

enum { ELEMENTS = 24, N_NAMED = 6, MAX_OUTPUTS = 8, BYTES = ELEMENTS * sizeof(float) };

/* What a random program has by name. The second of each pair is bound to a buffer of the caller. */
static const char *const named[N_NAMED] = {"constant", "constant_2", "input", "input_2", "state", "state_2"};
static const int is_bound[N_NAMED] = {1, 1, 0, 1, 0, 1};

static tsr_program *random_program(char outputs[MAX_OUTPUTS][24], int *n_outputs)
{
  tsr_program *p = new_program();
  tsr_ref refs[64];
  int n = 0;
  tsr_shape shape = TSR_SHAPE(2, 3, 4);
  for (int i = 0; i < N_NAMED; i++) {
    refs[n++] = i < 2   ? tsr_constant(p, named[i], TSR_F32, shape)
                : i < 4 ? tsr_input(p, named[i], TSR_F32, shape)
                        : tsr_state(p, named[i], TSR_F32, shape);
  }
  tsr_ref position = tsr_input(p, "position", TSR_I32, TSR_SHAPE(1));
  *n_outputs = 0;
  int n_lines = 3 + (int)random_below(25);
  for (int i = 0; i < n_lines; i++) {
    tsr_ref a = refs[random_below((uint32_t)n)], c = refs[random_below((uint32_t)n)], y = TSR_NONE;
    tsr_ref target = refs[4 + random_below(2)];
    switch (random_below(8)) {
    case 0:
    case 1:
      y = tsr_add(p, a, c);
      break;
    case 2:
      y = tsr_relu(p, a);
      break;
    case 3:
      y = tsr_softmax(p, a, TSR_NONE);
      break;
    case 4:
      y = tsr_mul(p, a, tsr_expand(p, tsr_slice(p, c, 1, 1, 1), shape));
      break;
    case 5: /* into a state, from what is no state */
      if (tsr_ref_kind(p, a) != TSR_STORAGE_STATE) {
        y = tsr_append(p, target, tsr_slice(p, a, 1, 0, 2), position);
      }
      break;
    case 6:
      if (tsr_ref_kind(p, a) != TSR_STORAGE_STATE) {
        y = tsr_update(p, tsr_slice(p, target, 0, (int64_t)random_below(2), 1), tsr_slice(p, a, 0, 0, 1));
      }
      y = TSR_NONE;
      break;
    default:
      if (*n_outputs < MAX_OUTPUTS) {
        snprintf(outputs[*n_outputs], 24, "output_%d", *n_outputs);
        y = tsr_output(p, outputs[(*n_outputs)++], a);
      }
    }
    if (y != TSR_NONE && n < 64) {
      refs[n++] = y;
    }
  }
  assert_ok(tsr_program_status(p));
  return p;
}

typedef struct instance {
  tsr_buffer *buffers[N_NAMED];
  tsr_executable *executable;
} instance;

static instance instantiate(tsr_device *device, const tsr_program *p, int keep_all, tsr_device *fallback)
{
  instance made = {0};
  tsr_binding bindings[N_NAMED];
  int32_t n = 0;
  float values[ELEMENTS];
  for (int i = 0; i < N_NAMED; i++) {
    if (!is_bound[i]) {
      continue;
    }
    fill(values, ELEMENTS, (float)i);
    made.buffers[i] = buffer_of(device, values, sizeof values);
    bindings[n++] = (tsr_binding){.tensor = tsr_program_find(p, named[i]), .buffer = made.buffers[i]};
  }
  assert_ok(tsr_executable_create(device, p,
                                  &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .bindings = bindings,
                                                         .n_bindings = n, .keep_all = keep_all, .fallback = fallback},
                                  &made.executable));
  return made;
}

static void assert_same(instance *a, instance *b, tsr_ref tensor, int64_t size, uint64_t seed)
{
  char x[1024], y[1024];
  assert_true(size <= 1024);
  assert_ok(tsr_executable_read(a->executable, tensor, x, size));
  assert_ok(tsr_executable_read(b->executable, tensor, y, size));
  if (memcmp(x, y, (size_t)size) != 0) {
    fail_msg("seed %llu: tensor %d differs", (unsigned long long)seed, (int)tensor);
  }
}

static void write_both(instance *pair, const tsr_program *p, int which)
{
  float values[ELEMENTS];
  fill(values, ELEMENTS, (float)random_below(100));
  for (int i = 0; i < 2; i++) {
    if (is_bound[which]) {
      assert_ok(tsr_buffer_write(pair[i].buffers[which], 0, sizeof values, values));
    } else {
      assert_ok(tsr_executable_write(pair[i].executable, tsr_program_find(p, named[which]), values, sizeof values));
    }
  }
}

static void check_random_program(bench *b, tsr_device *moody, uint64_t seed)
{
  random_state = seed;
  char outputs[MAX_OUTPUTS][24];
  int n_outputs, keep_all = (int)random_below(2);
  tsr_program *p = random_program(outputs, &n_outputs);
  for (int i = 0; i < 64; i++) {
    moody_refuses[i] = random_below(2) == 0;
  }
  instance pair[2] = {instantiate(moody, p, keep_all, b->reference), instantiate(b->reference, p, keep_all, NULL)};
  for (int run = 0; run < 4; run++) {
    for (int i = 2; i < N_NAMED; i++) {
      if (random_below(2) == 0) {
        write_both(pair, p, i);
      }
    }
    int32_t position = (int32_t)random_below(3);
    for (int i = 0; i < 2; i++) {
      assert_ok(tsr_executable_write(pair[i].executable, tsr_program_find(p, "position"), &position, sizeof position));
      assert_ok(tsr_executable_run(pair[i].executable));
    }
    for (int i = 0; i < N_NAMED; i++) {
      assert_same(&pair[0], &pair[1], tsr_program_find(p, named[i]), BYTES, seed);
    }
    for (int i = 0; i < n_outputs; i++) {
      assert_same(&pair[0], &pair[1], tsr_program_find(p, outputs[i]), BYTES, seed);
    }
    const tsr_program_desc *desc = tsr_program_describe(p);
    for (int32_t i = 1; keep_all && i < desc->n_tensors; i++) {
      assert_same(&pair[0], &pair[1], i, tsr_storage_at(desc, tsr_tensor_at(desc, i)->storage)->size, seed);
    }
  }
  for (int i = 0; i < 2; i++) {
    tsr_executable_destroy(pair[i].executable);
    for (int j = 0; j < N_NAMED; j++) {
      tsr_buffer_destroy(pair[i].buffers[j]);
    }
  }
  tsr_program_destroy(p);
}

/* Sets reference_table; returns what dlclose takes. */
static void *open_reference(void)
{
  void *library = dlopen(plugin_file("reference"), RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  tsr_backend_query_fn query;
  void *symbol = dlsym(library, TSR_BACKEND_QUERY_NAME);
  memcpy(&query, &symbol, sizeof query);
  reference_table = query(TSR_ABI_MAJOR, NULL);
  return library;
}

/* Says yes to everything, as a backend of 1.0 may that looks only at the operator. */
static int32_t careless_supports(tsr_backend_device *device, const tsr_program_desc *program, int32_t line)
{
  (void)device, (void)program, (void)line;
  return 1;
}

static tsr_backend careless_table;
static uint32_t careless_minor;

static const tsr_backend *careless_query(uint32_t major, const tsr_host *host)
{
  (void)major, (void)host;
  careless_table = *reference_table;
  careless_table.name = careless_minor % 2 ? "younger" : "older";
  careless_table.abi_minor = careless_minor;
  careless_table.supports = careless_supports;
  return &careless_table;
}

/* A line with an operand in a slot that came with 1.1 is not offered to a backend of 1.0. */
static void test_slots_that_came_later(void **state)
{
  bench *b = *state;
  void *library = open_reference();
  tsr_program *p = new_program();
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(1, 2)), w = tsr_input(p, "w", TSR_I8, TSR_SHAPE(2, 2));
  tsr_ref scales = tsr_input(p, "scales", TSR_F32, TSR_SHAPE(2));
  tsr_ref y = tsr_output(p, "y", tsr_matmul_i8(p, tsr_relu(p, x), w, scales, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE));
  for (careless_minor = 0; careless_minor <= 1; careless_minor++) {
    assert_ok(tsr_runtime_register(b->runtime, careless_query));
    tsr_device *device = open_device(b->runtime, careless_minor ? "younger" : "older");
    assert_int_equal(tsr_device_supports(device, p, 0), 1);
    assert_int_equal(tsr_device_supports(device, p, 1), (int)careless_minor);
    tsr_executable *executable;
    tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .fallback = b->reference};
    float result[2];
    assert_ok(tsr_executable_create(device, p, &options, &executable));
    assert_int_equal(tsr_executable_line_fell_back(executable, 1), !careless_minor);
    assert_ok(tsr_executable_write(executable, x, (const float[]){-1, 127}, 2 * sizeof(float)));
    assert_ok(tsr_executable_write(executable, w, (const int8_t[]){1, 2, 3, -4}, 4));
    assert_ok(tsr_executable_write(executable, scales, (const float[]){1, 0.5f}, 2 * sizeof(float)));
    assert_ok(tsr_executable_run(executable));
    assert_ok(tsr_executable_read(executable, y, result, sizeof result));
    assert_true(result[0] == 381 && result[1] == -254);
    tsr_executable_destroy(executable);
    tsr_device_close(device);
  }
  tsr_program_destroy(p);
  dlclose(library); /* stays mapped as long as the runtime, which loaded it too */
}

/* An attribute that came with 1.3 is not offered to a backend of 1.2, which would compute something else. */
static void test_attributes_that_came_later(void **state)
{
  bench *b = *state;
  void *library = open_reference();
  tsr_program *p = new_program();
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(1, 3)), gain = tsr_input(p, "gain", TSR_F32, TSR_SHAPE(3));
  tsr_layernorm(p, x, gain, TSR_NONE, 1.0f);
  tsr_layernorm_std(p, x, gain, TSR_NONE, 1.0f);
  tsr_layernorm_std_gradient(p, x, gain, x, 1.0f, NULL, NULL);
  /* a permission may be offered to whom knows nothing of it */
  tsr_matmul_reduced_precision(p, x, tsr_input(p, "w", TSR_F16, TSR_SHAPE(3, 2)), TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  assert_ok(tsr_program_status(p));
  for (careless_minor = 2; careless_minor <= 3; careless_minor++) {
    assert_ok(tsr_runtime_register(b->runtime, careless_query));
    tsr_device *device = open_device(b->runtime, careless_table.name);
    assert_int_equal(tsr_device_supports(device, p, 0), 1);
    assert_int_equal(tsr_device_supports(device, p, 1), careless_minor == 3);
    assert_int_equal(tsr_device_supports(device, p, 2), careless_minor == 3);
    assert_int_equal(tsr_device_supports(device, p, 3), 1);
    tsr_device_close(device);
  }
  tsr_program_destroy(p);
  dlclose(library); /* stays mapped as long as the runtime, which loaded it too */
}

/* Nor are the relative biases of 1.5, which an older backend would take for buckets. */
static void test_clamped_biases_came_later(void **state)
{
  bench *b = *state;
  void *library = open_reference();
  tsr_program *p = new_program();
  tsr_ref q = tsr_input(p, "q", TSR_F32, TSR_SHAPE(1, 2, 1, 4)), x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(1, 1, 2, 2));
  tsr_ref table = tsr_input(p, "table", TSR_F32, TSR_SHAPE(5, 1));
  for (int32_t clamped = 0; clamped < 2; clamped++) {
    const tsr_masking masking = {.relative = table, .max_distance = clamped ? 2 : 3, .clamped = clamped};
    tsr_mask(p, x, &masking);
    tsr_attention(p, &(tsr_attention_args){.q = q, .k = q, .v = q, .alpha = 1.0f, .masking = masking});
    tsr_relative_gradient(p, x, &masking, 5);
  }
  assert_ok(tsr_program_status(p));
  for (careless_minor = 4; careless_minor <= 5; careless_minor++) {
    assert_ok(tsr_runtime_register(b->runtime, careless_query));
    tsr_device *device = open_device(b->runtime, careless_table.name);
    for (int32_t line = 0; line < 6; line++) {
      assert_int_equal(tsr_device_supports(device, p, line), line < 3 || careless_minor == 5);
    }
    tsr_device_close(device);
  }
  tsr_program_destroy(p);
  dlclose(library); /* stays mapped as long as the runtime, which loaded it too */
}

/* Nor is a type that an operand's slot takes since 1.4. */
static void test_types_that_came_later(void **state)
{
  bench *b = *state;
  void *library = open_reference();
  tsr_program *p = new_program();
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(1, 2, 1, 4)), k = tsr_state(p, "k", TSR_F16, TSR_SHAPE(1, 5, 1, 4));
  tsr_append(p, tsr_state(p, "cache", TSR_F32, TSR_SHAPE(1, 5, 1, 4)), x, TSR_NONE);
  tsr_append(p, k, x, TSR_NONE);
  tsr_update(p, tsr_state(p, "last", TSR_BF16, TSR_SHAPE(1, 2, 1, 4)), x);
  tsr_attention(p, &(tsr_attention_args){.q = x, .k = x, .v = x, .alpha = 1.0f});
  tsr_attention(p, &(tsr_attention_args){.q = x, .k = k, .v = k, .alpha = 1.0f});
  assert_ok(tsr_program_status(p));
  for (careless_minor = 3; careless_minor <= 4; careless_minor++) {
    assert_ok(tsr_runtime_register(b->runtime, careless_query));
    tsr_device *device = open_device(b->runtime, careless_table.name);
    for (int32_t line = 0; line < 5; line++) {
      const int is_older = line == 0 || line == 3;
      assert_int_equal(tsr_device_supports(device, p, line), is_older || careless_minor == 4);
    }
    tsr_device_close(device);
  }
  tsr_program_destroy(p);
  dlclose(library); /* stays mapped as long as the runtime, which loaded it too */
}

static void test_random_programs(void **state)
{
  bench *b = *state;
  void *library = open_reference();
  assert_ok(tsr_runtime_register(b->runtime, moody_query));
  tsr_device *moody = open_device(b->runtime, "moody");
  const char *fixed = getenv("TESSERA_TEST_SEED");
  if (fixed) {
    check_random_program(b, moody, strtoull(fixed, NULL, 10));
  }
  for (uint64_t seed = 1; !fixed && seed <= 400; seed++) {
    check_random_program(b, moody, seed);
  }
  tsr_device_close(moody);
  dlclose(library); /* stays mapped as long as the runtime, which loaded it too */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_layer, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_strict, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_choice_of_the_fallback, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_state_across_runs, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_slots_that_came_later, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_attributes_that_came_later, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_clamped_biases_came_later, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_types_that_came_later, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_random_programs, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
