/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that is split over several devices: each line runs where its weights lie, and nobody can tell from the
 * results.
 */
#include <pthread.h>

#include "tests/abi/support.h"

enum { WIDTH = 24, ROWS = 3, N_LAYERS = 4, N_DEVICES = 3 };

typedef struct bench {
  tsr_runtime *runtime;
  tsr_device *devices[N_DEVICES]; /* the reference, a concurrent device where there is one, the reference again */
} bench;

static int set_up(void **state)
{
  static bench b;
  b.runtime = runtime_with("template", "reference", "cpu", NULL);
  b.devices[0] = open_device(b.runtime, "reference");
  b.devices[1] = open_device(b.runtime, "cpu");
  b.devices[2] = open_device(b.runtime, "reference");
  *state = &b;
  return 0;
}

static int tear_down(void **state)
{
  bench *b = *state;
  for (int i = 0; i < N_DEVICES; i++) {
    tsr_device_close(b->devices[i]);
  }
  tsr_runtime_destroy(b->runtime);
  return 0;
}

/* Of each layer: sum += x; x = relu((x + half) weights) + sum. `half` is a single number. */
typedef struct stack {
  tsr_program *program;
  tsr_ref x, y, half, count, last;
  tsr_ref weights[N_LAYERS], sums[N_LAYERS];
} stack;

static stack make_stack(void)
{
  static const char *const weights[N_LAYERS] = {"w0", "w1", "w2", "w3"};
  static const char *const sums[N_LAYERS] = {"s0", "s1", "s2", "s3"};
  stack s = {0};
  assert_ok(tsr_program_create(&s.program));
  tsr_program *p = s.program;
  s.half = tsr_constant(p, "half", TSR_F32, TSR_SHAPE(1));
  s.x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(ROWS, WIDTH));
  s.count = tsr_state(p, "count", TSR_F32, TSR_SHAPE(1));
  tsr_ref x = tsr_add(p, s.x, s.x); /* of inputs alone */
  for (int i = 0; i < N_LAYERS; i++) {
    s.weights[i] = tsr_constant(p, weights[i], TSR_F32, TSR_SHAPE(WIDTH, WIDTH));
    s.sums[i] = tsr_state(p, sums[i], TSR_F32, TSR_SHAPE(ROWS, WIDTH));
    tsr_ref sum = tsr_update(p, s.sums[i], tsr_add(p, s.sums[i], x));
    tsr_ref product = tsr_product(p, tsr_add(p, x, s.half), s.weights[i]);
    x = tsr_add(p, tsr_relu(p, product), sum);
  }
  s.last = x;
  s.y = tsr_output(p, "y", tsr_softmax(p, x, TSR_NONE));
  tsr_update(p, s.count, tsr_add(p, s.count, s.half));
  assert_ok(tsr_program_status(p));
  return s;
}

/* Where the layers lie, and the executable that is bound there. */
typedef struct placed {
  tsr_buffer *weights[N_LAYERS], *sums[N_LAYERS], *half;
  tsr_executable *executable;
} placed;

static float value_of(int layer, int i)
{
  return 0.1f * (float)((layer * 31 + i * 37) % 23) - 1.1f;
}

static void place(const stack *s, tsr_device *const *devices, int n, const int *layers, const tsr_compile_options *more,
                  placed *p)
{
  float values[WIDTH * WIDTH];
  const float half = 0.5f;
  tsr_binding bindings[2 * N_LAYERS + 1];
  for (int i = 0; i < N_LAYERS; i++) {
    for (int k = 0; k < WIDTH * WIDTH; k++) {
      values[k] = value_of(i, k);
    }
    assert_ok(tsr_buffer_create(devices[layers[i]], sizeof values, TSR_BUFFER_DEVICE, &p->weights[i]));
    assert_ok(tsr_buffer_write(p->weights[i], 0, sizeof values, values));
    assert_ok(tsr_buffer_create(devices[layers[i]], sizeof(float) * ROWS * WIDTH, TSR_BUFFER_DEVICE, &p->sums[i]));
    bindings[2 * i] = (tsr_binding){.tensor = s->weights[i], .buffer = p->weights[i]};
    bindings[2 * i + 1] = (tsr_binding){.tensor = s->sums[i], .buffer = p->sums[i]};
  }
  assert_ok(tsr_buffer_create(devices[n - 1], sizeof half, TSR_BUFFER_DEVICE, &p->half));
  assert_ok(tsr_buffer_write(p->half, 0, sizeof half, &half));
  bindings[2 * N_LAYERS] = (tsr_binding){.tensor = s->half, .buffer = p->half};
  tsr_compile_options options = *more;
  options.bindings = bindings;
  options.n_bindings = 2 * N_LAYERS + 1;
  options.others = devices + 1;
  options.n_others = n - 1;
  assert_ok(tsr_executable_create(devices[0], s->program, &options, &p->executable));
}

static void clear(placed *p)
{
  tsr_executable_destroy(p->executable);
  for (int i = 0; i < N_LAYERS; i++) {
    tsr_buffer_destroy(p->weights[i]);
    tsr_buffer_destroy(p->sums[i]);
  }
  tsr_buffer_destroy(p->half);
}

typedef struct results {
  float y[2][ROWS * WIDTH], sums[N_LAYERS][ROWS * WIDTH], last[ROWS * WIDTH], count;
} results;

/* Two runs, each with an input of its own. */
static void run_twice(const stack *s, const placed *p, int keeps_all, results *r)
{
  memset(r, 0, sizeof *r);
  for (int run = 0; run < 2; run++) {
    float x[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) {
      x[i] = value_of(7 + run, i);
    }
    assert_ok(tsr_executable_write(p->executable, s->x, x, sizeof x));
    assert_ok(tsr_executable_run(p->executable));
    assert_ok(tsr_executable_read(p->executable, s->y, r->y[run], sizeof r->y[run]));
  }
  for (int i = 0; i < N_LAYERS; i++) {
    assert_ok(tsr_executable_read(p->executable, s->sums[i], r->sums[i], sizeof r->sums[i]));
  }
  if (keeps_all) {
    assert_ok(tsr_executable_read(p->executable, s->last, r->last, sizeof r->last));
  }
  assert_ok(tsr_executable_read(p->executable, s->count, &r->count, sizeof r->count));
}

/* Every line of a layer runs on the layer's device. */
static void check_lines(const stack *s, const placed *p, tsr_device *const *devices, const int *layers)
{
  const tsr_program_desc *desc = tsr_program_describe(s->program);
  enum { PER_LAYER = 6 };
  assert_int_equal(desc->n_lines, 1 + PER_LAYER * N_LAYERS + 3);
  assert_ptr_equal(tsr_executable_line_device(p->executable, 0), devices[layers[0]]);
  for (int32_t i = 0; i < PER_LAYER * N_LAYERS; i++) {
    assert_ptr_equal(tsr_executable_line_device(p->executable, 1 + i), devices[layers[i / PER_LAYER]]);
  }
  assert_ptr_equal(tsr_executable_line_device(p->executable, PER_LAYER * N_LAYERS + 1), devices[layers[N_LAYERS - 1]]);
  assert_null(tsr_executable_line_device(p->executable, desc->n_lines));
  assert_null(tsr_executable_line_device(p->executable, -1));
}

static const int arrangements[][N_LAYERS] = {{0, 0, 1, 1}, {1, 1, 0, 0}, {0, 1, 2, 2}, {2, 0, 2, 1}, {1, 1, 1, 1}};
enum { N_ARRANGEMENTS = sizeof arrangements / sizeof arrangements[0] };

static void test_results(void **state)
{
  const bench *b = *state;
  static const int together[N_LAYERS] = {0};
  stack s = make_stack();
  placed p;
  for (int keeps = 0; keeps < 2; keeps++) {
    const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .keep_all = keeps};
    results expected, found;
    place(&s, b->devices, 1, together, &options, &p);
    run_twice(&s, &p, keeps, &expected);
    clear(&p);
    for (int i = 0; i < N_ARRANGEMENTS; i++) {
      place(&s, b->devices, N_DEVICES, arrangements[i], &options, &p);
      check_lines(&s, &p, b->devices, arrangements[i]);
      run_twice(&s, &p, keeps, &found);
      for (size_t k = 0; k < sizeof found / sizeof(float); k++) {
        const float wanted = ((const float *)&expected)[k], got = ((const float *)&found)[k];
        if (!(got - wanted < 1e-4f * (1.0f + wanted * wanted) && wanted - got < 1e-4f * (1.0f + wanted * wanted))) {
          fail_msg("arrangement %d, keep_all %d: number %d is %g, not %g", i, keeps, (int)k, (double)got,
                   (double)wanted);
        }
      }
      clear(&p);
    }
  }
  tsr_program_destroy(s.program);
}

/* On devices of one kind, the bits are those of a single one. */
static void test_bits(void **state)
{
  const bench *b = *state;
  tsr_device *const devices[] = {b->devices[0], b->devices[2]};
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options)};
  results expected, found;
  stack s = make_stack();
  placed p;
  place(&s, devices, 1, (const int[N_LAYERS]){0}, &options, &p);
  run_twice(&s, &p, 0, &expected);
  tsr_executable_info info;
  tsr_executable_report(p.executable, &info);
  assert_int_equal(info.segments, 1);
  assert_int_equal(info.copies, 0);
  clear(&p);
  place(&s, devices, 2, (const int[N_LAYERS]){0, 0, 1, 1}, &options, &p);
  run_twice(&s, &p, 0, &found);
  assert_memory_equal(&expected, &found, sizeof found);
  tsr_executable_report(p.executable, &info);
  assert_int_equal(info.segments, 2);
  assert_int_equal(info.fallback_lines, 0);
  assert_int_equal(info.copies, 1);
  assert_int_equal(info.copy_bytes, sizeof(float) * ROWS * WIDTH);
  clear(&p);
  tsr_program_destroy(s.program);
}

/* s = x + x;  n = layernorm(s) on one device, which could compute both as one and leave s out;  y = s w + n on the
 * other, which reads s. */
static void test_crossing(void **state)
{
  const bench *b = *state;
  tsr_program *p;
  assert_ok(tsr_program_create(&p));
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(ROWS, WIDTH));
  tsr_ref gain = tsr_constant(p, "gain", TSR_F32, TSR_SHAPE(WIDTH));
  tsr_ref weights = tsr_constant(p, "weights", TSR_F32, TSR_SHAPE(WIDTH, WIDTH));
  tsr_ref sum = tsr_add(p, x, x);
  tsr_ref norm = tsr_layernorm(p, sum, gain, TSR_NONE, 1e-5f);
  tsr_ref y = tsr_output(p, "y", tsr_add(p, tsr_product(p, sum, weights), norm));
  float values[WIDTH * WIDTH], found[2][ROWS * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; i++) {
    values[i] = value_of(3, i);
  }
  for (int k = 0; k < 2; k++) { /* the reference alone; a backend that fuses lines, and the reference */
    tsr_device *const devices[] = {b->devices[k], b->devices[2]};
    const int n = k == 0 ? 1 : 2;
    tsr_buffer *buffers[2];
    assert_ok(tsr_buffer_create(devices[0], WIDTH * sizeof *values, TSR_BUFFER_DEVICE, &buffers[0]));
    assert_ok(tsr_buffer_create(devices[n - 1], sizeof values, TSR_BUFFER_DEVICE, &buffers[1]));
    assert_ok(tsr_buffer_write(buffers[0], 0, WIDTH * sizeof *values, values));
    assert_ok(tsr_buffer_write(buffers[1], 0, sizeof values, values));
    const tsr_binding bindings[] = {{.tensor = gain, .buffer = buffers[0]}, {.tensor = weights, .buffer = buffers[1]}};
    const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = bindings, .n_bindings = 2,
                                         .others = devices + 1, .n_others = n - 1};
    tsr_executable *executable;
    assert_ok(tsr_executable_create(devices[0], p, &options, &executable));
    assert_ok(tsr_executable_write(executable, x, values, sizeof *values * ROWS * WIDTH));
    assert_ok(tsr_executable_run(executable));
    assert_ok(tsr_executable_read(executable, y, found[k], sizeof found[k]));
    tsr_executable_destroy(executable);
    tsr_buffer_destroy(buffers[0]);
    tsr_buffer_destroy(buffers[1]);
  }
  for (int i = 0; i < ROWS * WIDTH; i++) {
    assert_true(found[1][i] - found[0][i] < 1e-4f && found[0][i] - found[1][i] < 1e-4f);
  }
  tsr_program_destroy(p);
}

/* What a device lacks runs on the fallback device, whichever of the devices it is. */
static void test_fallback(void **state)
{
  const bench *b = *state;
  tsr_device *template = open_device(b->runtime, "template");
  tsr_device *const devices[] = {b->devices[0], template};
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .fallback = b->devices[2]};
  const tsr_compile_options strict = {TSR_SIZED(tsr_compile_options), .strict = 1, .others = devices + 1,
                                      .n_others = 1};
  results expected, found;
  stack s = make_stack();
  placed p;
  place(&s, devices, 1, (const int[N_LAYERS]){0}, &options, &p);
  run_twice(&s, &p, 0, &expected);
  clear(&p);
  place(&s, devices, 2, (const int[N_LAYERS]){0, 1, 1, 0}, &options, &p);
  run_twice(&s, &p, 0, &found);
  assert_memory_equal(&expected, &found, sizeof found);
  tsr_executable_info info;
  tsr_executable_report(p.executable, &info);
  int32_t n_fell = 0;
  for (int32_t i = 0; i < info.lines; i++) {
    n_fell += tsr_executable_line_fell_back(p.executable, i);
    assert_true(tsr_executable_line_fell_back(p.executable, i) ==
                (tsr_executable_line_device(p.executable, i) == b->devices[2]));
  }
  assert_int_equal(n_fell, 4); /* two layers' products and updates */
  assert_int_equal(info.fallback_lines, n_fell);
  tsr_binding bindings[2 * N_LAYERS + 1];
  for (int i = 0; i < N_LAYERS; i++) {
    bindings[2 * i] = (tsr_binding){.tensor = s.weights[i], .buffer = p.weights[i]};
    bindings[2 * i + 1] = (tsr_binding){.tensor = s.sums[i], .buffer = p.sums[i]};
  }
  bindings[2 * N_LAYERS] = (tsr_binding){.tensor = s.half, .buffer = p.half};
  tsr_compile_options refused = strict;
  refused.bindings = bindings;
  refused.n_bindings = 2 * N_LAYERS + 1;
  tsr_executable *none;
  assert_status(tsr_executable_create(devices[0], s.program, &refused, &none), TSR_ERR_UNSUPPORTED);
  assert_message("reference:0 or template:0 does not support 4 of the program's");
  clear(&p);
  tsr_device_close(template);
  tsr_program_destroy(s.program);
}

static void test_refusals(void **state)
{
  const bench *b = *state;
  tsr_runtime *other = runtime_with("reference", NULL);
  tsr_device *stranger = open_device(other, "reference");
  tsr_device *const twice[] = {b->devices[1], b->devices[0]}, *const strange[] = {stranger}, *const none[] = {NULL};
  tsr_program *p;
  assert_ok(tsr_program_create(&p));
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(4));
  tsr_output(p, "y", tsr_relu(p, x));
  static const struct {
    int32_t n;
    int which;
    const char *message;
  } cases[] = {{2, 0, "device 2 of those that share the program is reference:0"},
               {1, 1, "device 1 of those that share the program is reference:0; each is to be another one of the same"},
               {1, 2, "device 1 of those that share the program is NULL"},
               {1, 3, "n_others is 1, others is NULL"},
               {-1, 0, "n_others is -1"},
               {99, 0, "n_others is 99"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tsr_device *const *const lists[] = {twice, strange, none, NULL};
    const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .n_others = cases[i].n,
                                         .others = lists[cases[i].which]};
    tsr_executable *executable;
    assert_status(tsr_executable_create(b->devices[0], p, &options, &executable), TSR_ERR_ARGUMENT);
    assert_null(executable);
    assert_message(cases[i].message);
  }
  /* A buffer of a device that is none of them. */
  tsr_buffer *buffer;
  assert_ok(tsr_buffer_create(b->devices[2], 16, TSR_BUFFER_DEVICE, &buffer));
  const tsr_binding binding = {.tensor = x, .buffer = buffer};
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = &binding, .n_bindings = 1,
                                       .others = twice, .n_others = 1};
  tsr_executable *executable;
  assert_status(tsr_executable_create(b->devices[0], p, &options, &executable), TSR_ERR_ARGUMENT);
  assert_message("'x' is bound to a buffer of another device (reference:0) than the executable's (reference:0 ..)");
  tsr_buffer_destroy(buffer);
  tsr_program_destroy(p);
  tsr_device_close(stranger);
  tsr_runtime_destroy(other);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct user {
  pthread_t thread;
  const stack *stack;
  const placed *placed;
  results found;
} user;

static void *use(void *opaque)
{
  user *u = opaque;
  for (int i = 0; i < 50; i++) {
    if (tsr_executable_run(u->placed->executable) != TSR_OK ||
        tsr_executable_read(u->placed->executable, u->stack->y, u->found.y[0], sizeof u->found.y[0]) != TSR_OK) {
      return u;
    }
  }
  return NULL;
}

/* Executables that share devices, in different orders, run in threads of their own: none waits for ever, and what one
 * state has added up is the work of all runs. */
static void test_threads(void **state)
{
  const bench *b = *state;
  tsr_device *second = open_device(b->runtime, "cpu"); /* two concurrent devices */
  tsr_device *const orders[][N_DEVICES] = {{b->devices[1], b->devices[0], second},
                                           {second, b->devices[1], b->devices[0]},
                                           {b->devices[0], second, b->devices[1]},
                                           {b->devices[1], second, b->devices[0]}};
  enum { N = sizeof orders / sizeof orders[0] };
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options)};
  stack s = make_stack();
  placed p[N];
  user users[2 * N] = {{0}};
  for (int i = 0; i < N; i++) {
    place(&s, orders[i], N_DEVICES, arrangements[2], &options, &p[i]);
    float x[ROWS * WIDTH] = {0.25f};
    assert_ok(tsr_executable_write(p[i].executable, s.x, x, sizeof x));
  }
  for (int i = 0; i < 2 * N; i++) { /* two threads run each executable */
    users[i].stack = &s;
    users[i].placed = &p[i / 2];
    assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
  }
  for (int i = 0; i < 2 * N; i++) {
    void *failure;
    assert_int_equal(pthread_join(users[i].thread, &failure), 0);
    assert_null(failure);
  }
  for (int i = 0; i < N; i++) {
    float sums[ROWS * WIDTH], count;
    assert_ok(tsr_buffer_read(p[i].sums[0], 0, sizeof sums, sums));
    assert_true(sums[0] == 100 * 0.5f && sums[1] == 0.0f);
    assert_ok(tsr_executable_read(p[i].executable, s.count, &count, sizeof count));
    assert_true(count == 100 * 0.5f);
    clear(&p[i]);
  }
  tsr_device_close(second);
  tsr_program_destroy(s.program);
}

enum { LONG = 1 << 15, RUNS = 60 };

static void *add_often(void *executable)
{
  for (int i = 0; i < RUNS; i++) {
    if (tsr_executable_run(executable) != TSR_OK) {
      return executable;
    }
  }
  return NULL;
}

/* Two executables begin on devices of their own, and add to one state on a third: none loses what the other added. */
static void test_shared_state(void **state)
{
  const bench *b = *state;
  tsr_device *third = open_device(b->runtime, "cpu");
  tsr_device *const lists[2][2] = {{b->devices[1], third}, {b->devices[0], third}};
  tsr_buffer *sum, *ones[2];
  tsr_executable *executables[2];
  pthread_t threads[2];
  float *values = malloc(LONG * sizeof *values);
  tsr_program *p;
  assert_non_null(values);
  assert_ok(tsr_program_create(&p));
  tsr_ref one = tsr_constant(p, "one", TSR_F32, TSR_SHAPE(LONG));
  tsr_ref total = tsr_state(p, "total", TSR_F32, TSR_SHAPE(LONG));
  tsr_update(p, total, tsr_add(p, total, tsr_relu(p, one)));
  assert_ok(tsr_buffer_create(third, LONG * sizeof *values, TSR_BUFFER_DEVICE, &sum));
  for (int i = 0; i < LONG; i++) {
    values[i] = 1.0f;
  }
  for (int k = 0; k < 2; k++) {
    assert_ok(tsr_buffer_create(lists[k][0], LONG * sizeof *values, TSR_BUFFER_DEVICE, &ones[k]));
    assert_ok(tsr_buffer_write(ones[k], 0, LONG * sizeof *values, values));
    const tsr_binding bindings[] = {{.tensor = one, .buffer = ones[k]}, {.tensor = total, .buffer = sum}};
    const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = bindings, .n_bindings = 2,
                                         .others = lists[k] + 1, .n_others = 1};
    assert_ok(tsr_executable_create(lists[k][0], p, &options, &executables[k]));
    assert_ptr_equal(tsr_executable_line_device(executables[k], 0), lists[k][0]);
  }
  for (int k = 0; k < 2; k++) {
    assert_int_equal(pthread_create(&threads[k], NULL, add_often, executables[k]), 0);
  }
  for (int k = 0; k < 2; k++) {
    void *failed;
    assert_int_equal(pthread_join(threads[k], &failed), 0);
    assert_null(failed);
  }
  assert_ok(tsr_buffer_read(sum, 0, LONG * sizeof *values, values));
  for (int i = 0; i < LONG; i++) {
    assert_true(values[i] == 2.0f * RUNS);
  }
  for (int k = 0; k < 2; k++) {
    tsr_executable_destroy(executables[k]);
    tsr_buffer_destroy(ones[k]);
  }
  tsr_buffer_destroy(sum);
  tsr_program_destroy(p);
  tsr_device_close(third);
  free(values);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results),      cmocka_unit_test(test_bits),     cmocka_unit_test(test_crossing),
      cmocka_unit_test(test_fallback),     cmocka_unit_test(test_refusals), cmocka_unit_test(test_threads),
      cmocka_unit_test(test_shared_state),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
