/* SPDX-License-Identifier: Apache-2.0
 *
 * Several devices, several threads, several runtimes in one process. Values are small integers, so every device gives
 * the same bits. What this machine lacks is left out: without a Vulkan driver the others remain.
 */
#define TSR_BACKEND_QUERY template_query
#include <pthread.h>

#include "tests/abi/support.h"

enum { ELEMENTS = 97, BYTES = ELEMENTS * sizeof(float), RUNS = 150, MAX_WORKERS = 4 };

/* ---------------------------------------------------------------------------------------------------------------------
 * Threads. They cannot use the assertions of cmocka: what went wrong is told when they are joined.
 */
typedef struct worker {
  pthread_t thread;
  tsr_runtime *runtime; /* what follows: as the task needs it */
  tsr_device *device;
  const char *device_name;
  tsr_executable *executable;
  tsr_buffer *buffer;
  float seed;
  char failure[600]; /* "" if all went well */
} worker;

static void *tell(worker *w, const char *what, int run)
{
  snprintf(w->failure, sizeof w->failure, "%s at run %d (%.500s)", what, run, tsr_error_message());
  return NULL;
}

static void run_workers(worker *workers, int n, void *(*task)(void *))
{
  for (int i = 0; i < n; i++) {
    assert_int_equal(pthread_create(&workers[i].thread, NULL, task, &workers[i]), 0);
  }
  for (int i = 0; i < n; i++) {
    assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
  }
  for (int i = 0; i < n; i++) {
    if (workers[i].failure[0]) {
      fail_msg("thread %d: %s", i, workers[i].failure);
    }
  }
}

/* What the validation layer says, if the environment switches it on (TESSERA_VALIDATION=1). */
static int n_validation_messages;

static void on_log(void *user, int32_t level, const char *message)
{
  (void)user;
  n_validation_messages += strstr(message, "Vulkan validation") != NULL;
  if (level <= TSR_LOG_WARNING) {
    fprintf(stderr, "%s\n", message);
  }
}

static int tear_down(void **state)
{
  (void)state;
  return n_validation_messages == 0 ? 0 : -1;
}

static tsr_runtime *new_runtime(void)
{
  return runtime_with("template", "reference", "vulkan", "cpu", NULL);
}

/* NULL if there is no such device here. */
static tsr_device *open_if_found(tsr_runtime *runtime, const char *name)
{
  for (int32_t i = 0; i < tsr_runtime_device_count(runtime); i++) {
    tsr_device_info info;
    assert_ok(tsr_runtime_device_info(runtime, i, &info));
    if (strcmp(info.name, name) == 0) {
      return open_device(runtime, name);
    }
  }
  return NULL;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * sum = sum + relu(x + x);  y = sum + x. Of this the template lacks the line that writes the state.
 */
typedef struct summer {
  tsr_ref x, sum, y;
  tsr_executable *executable;
} summer;

/* sum_buffer: what the state is bound to, or NULL. */
static tsr_status make_summer(tsr_device *device, tsr_buffer *sum_buffer, summer *s)
{
  *s = (summer){0};
  tsr_program *p;
  tsr_status status = tsr_program_create(&p);
  if (status != TSR_OK) {
    return status;
  }
  s->x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(ELEMENTS));
  s->sum = tsr_state(p, "sum", TSR_F32, TSR_SHAPE(ELEMENTS));
  tsr_ref doubled = tsr_relu(p, tsr_add(p, s->x, s->x));
  tsr_ref updated = tsr_update(p, s->sum, tsr_add(p, s->sum, doubled));
  s->y = tsr_output(p, "y", tsr_add(p, updated, s->x));
  tsr_binding binding = {.tensor = s->sum, .buffer = sum_buffer};
  tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = &binding,
                                 .n_bindings = sum_buffer ? 1 : 0};
  status = tsr_executable_create(device, p, &options, &s->executable);
  tsr_program_destroy(p);
  return status;
}

static void fill(float *x, float value)
{
  for (int i = 0; i < ELEMENTS; i++) {
    x[i] = value;
  }
}

/* Runs with other inputs each time; every result and the last state must be right. NULL, or what went wrong. */
static const char *check_runs(const summer *s, float seed, int n_runs, int *run)
{
  float x[ELEMENTS], y[ELEMENTS], sum[ELEMENTS] = {0}, got[ELEMENTS];
  for (*run = 0; *run < n_runs; ++*run) {
    for (int i = 0; i < ELEMENTS; i++) {
      x[i] = seed + (float)((i * 7 + *run) % 11) - 5;
    }
    if (tsr_executable_write(s->executable, s->x, x, BYTES) != TSR_OK || tsr_executable_run(s->executable) != TSR_OK ||
        tsr_executable_read(s->executable, s->y, y, BYTES) != TSR_OK) {
      return "an error";
    }
    for (int i = 0; i < ELEMENTS; i++) {
      sum[i] += x[i] > 0 ? 2 * x[i] : 0;
      if (y[i] != sum[i] + x[i]) {
        return "a wrong result";
      }
    }
  }
  if (tsr_executable_read(s->executable, s->sum, got, BYTES) != TSR_OK) {
    return "an error";
  }
  /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bit for bit is what is asked. */
  return memcmp(got, sum, BYTES) == 0 ? NULL : "a wrong state";
}

static void *sum_on_a_device(void *opaque)
{
  worker *w = opaque;
  summer s;
  int run = -1;
  const char *failure =
      make_summer(w->device, NULL, &s) == TSR_OK ? check_runs(&s, w->seed, RUNS, &run) : "the program does not compile";
  tsr_executable_destroy(s.executable);
  return failure ? tell(w, failure, run) : NULL;
}

/* Two threads on two devices at the same time. Both of the template's fall back on one and the same device. */
static void test_two_devices(void **state)
{
  (void)state;
  static const char *const pairs[][2] = {{"template:0", "template:0"},   {"template:0", "reference:0"},
                                         {"reference:0", "reference:0"}, {"vulkan:0", "reference:0"},
                                         {"vulkan:0", "template:0"},     {"vulkan:0", "vulkan:0"},
                                         {"cpu:0", "reference:0"},       {"cpu:0", "cpu:0"}};
  tsr_runtime *runtime = new_runtime();
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    worker workers[2] = {{.seed = 1}, {.seed = 3}};
    for (int k = 0; k < 2; k++) {
      workers[k].device = open_if_found(runtime, pairs[i][k]);
    }
    if (workers[0].device && workers[1].device) {
      run_workers(workers, 2, sum_on_a_device);
    }
    for (int k = 0; k < 2; k++) {
      tsr_device_close(workers[k].device);
    }
  }
  tsr_runtime_destroy(runtime);
}

/* The same device for both threads, each with a program of its own. */
static void test_one_device(void **state)
{
  (void)state;
  static const char *const names[] = {"template:0", "reference:0", "vulkan:0", "cpu:0"};
  tsr_runtime *runtime = new_runtime();
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    tsr_device *device = open_if_found(runtime, names[i]);
    worker workers[2] = {{.device = device, .seed = 1}, {.device = device, .seed = 2}};
    if (device) {
      run_workers(workers, 2, sum_on_a_device);
    }
    tsr_device_close(device);
  }
  tsr_runtime_destroy(runtime);
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Two programs on one device that share a state
 */

/* Starts runs without waiting for each. */
static void *start_many(void *opaque)
{
  worker *w = opaque;
  for (int run = 0; run < RUNS; run++) {
    tsr_status status = run % 3 ? tsr_executable_start(w->executable) : tsr_executable_run(w->executable);
    if (status != TSR_OK) {
      return tell(w, "an error", run);
    }
  }
  return tsr_executable_wait(w->executable) == TSR_OK ? NULL : tell(w, "an error", RUNS);
}

/* Whoever reads the state sees it as it is between two runs. */
static void *read_many(void *opaque)
{
  worker *w = opaque;
  float sum[ELEMENTS], before = 0;
  for (int run = 0; run < RUNS; run++) {
    if (tsr_buffer_read(w->buffer, 0, BYTES, sum) != TSR_OK) {
      return tell(w, "an error", run);
    }
    for (int i = 1; i < ELEMENTS; i++) {
      if (sum[i] != sum[0]) {
        return tell(w, "half a run was seen", run);
      }
    }
    if (sum[0] < before) {
      return tell(w, "the state went back", run);
    }
    before = sum[0];
  }
  return NULL;
}

static void *start_or_read(void *opaque)
{
  return ((worker *)opaque)->executable ? start_many(opaque) : read_many(opaque);
}

static void check_shared_state(tsr_device *device)
{
  float x[ELEMENTS], y[ELEMENTS], sum[ELEMENTS];
  tsr_buffer *buffer;
  summer summers[2];
  assert_ok(tsr_buffer_create(device, BYTES, TSR_BUFFER_DEVICE, &buffer));
  for (int k = 0; k < 2; k++) {
    assert_ok(make_summer(device, buffer, &summers[k]));
    fill(x, (float)(k + 1));
    assert_ok(tsr_executable_write(summers[k].executable, summers[k].x, x, BYTES));
  }
  /* In turn: a run adds 2 or 4. */
  float expected = 0;
  for (int run = 0; run < 40; run++) {
    int k = run % 2;
    expected += (float)(2 * (k + 1));
    assert_ok(tsr_executable_run(summers[k].executable));
    assert_ok(tsr_executable_read(summers[k].executable, summers[k].y, y, BYTES));
    assert_ok(tsr_executable_read(summers[1 - k].executable, summers[1 - k].sum, sum, BYTES));
    for (int i = 0; i < ELEMENTS; i++) {
      assert_true(y[i] == expected + (float)(k + 1) && sum[i] == expected);
    }
  }
  /* The host writes it in between. */
  fill(sum, 0);
  assert_ok(tsr_executable_start(summers[0].executable));
  assert_ok(tsr_buffer_write(buffer, 0, BYTES, sum));

  /* From two threads, with a third that reads. */
  worker workers[3] = {
      {.executable = summers[0].executable}, {.executable = summers[1].executable}, {.buffer = buffer}};
  run_workers(workers, 3, start_or_read);
  assert_ok(tsr_buffer_read(buffer, 0, BYTES, sum));
  for (int i = 0; i < ELEMENTS; i++) {
    assert_true(sum[i] == 6 * RUNS);
  }
  for (int k = 0; k < 2; k++) {
    tsr_executable_destroy(summers[k].executable);
  }
  tsr_buffer_destroy(buffer);
}

static void test_shared_state(void **state)
{
  (void)state;
  static const char *const names[] = {"template:0", "reference:0", "vulkan:0", "cpu:0"};
  tsr_runtime *runtime = new_runtime();
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    tsr_device *device = open_if_found(runtime, names[i]);
    if (device) {
      check_shared_state(device);
    }
    tsr_device_close(device);
  }
  tsr_runtime_destroy(runtime);
}

/* ---------------------------------------------------------------------------------------------------------------------
 * A device opened twice
 */
static void test_opened_twice(void **state)
{
  (void)state;
  static const char *const names[] = {"template:0", "reference:0", "vulkan:0", "cpu:0"};
  tsr_runtime *runtime = new_runtime();
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    tsr_device *a = open_if_found(runtime, names[i]), *b = open_if_found(runtime, names[i]);
    if (!a) {
      continue;
    }
    tsr_device_counters before, after;
    summer s, other;
    tsr_buffer *buffer;
    int run;
    assert_ok(make_summer(b, NULL, &other));
    assert_ok(tsr_device_get_counters(b, &before));
    assert_ok(make_summer(a, NULL, &s));
    assert_ok(tsr_buffer_create(a, BYTES, TSR_BUFFER_DEVICE, &buffer));
    assert_null(check_runs(&s, 1, 20, &run));
    assert_ok(tsr_device_get_counters(b, &after));
    assert_memory_equal(&before, &after, sizeof after);
    assert_null(check_runs(&other, 2, 20, &run)); /* its state is its own */
    tsr_executable_destroy(other.executable);
    assert_status(make_summer(b, buffer, &other), TSR_ERR_ARGUMENT);
    assert_message("bound to a buffer of another device");
    /* One closed, the other works on. */
    tsr_device_close(b);
    tsr_executable_destroy(s.executable);
    assert_ok(make_summer(a, buffer, &s));
    assert_null(check_runs(&s, 3, 20, &run));
    tsr_executable_destroy(s.executable);
    tsr_buffer_destroy(buffer);
    tsr_device_close(a);
  }
  tsr_runtime_destroy(runtime);
}

/* Devices come and go in some threads while others work. */
static void *open_and_close(void *opaque)
{
  worker *w = opaque;
  for (int round = 0; round < 4; round++) {
    summer s = {0};
    tsr_device *device;
    int run = -1;
    if (tsr_device_open(w->runtime, w->device_name, &device) != TSR_OK) {
      return tell(w, "the device does not open", round);
    }
    const char *failure =
        make_summer(device, NULL, &s) == TSR_OK ? check_runs(&s, w->seed, 10, &run) : "the program does not compile";
    tsr_executable_destroy(s.executable);
    tsr_device_close(device);
    if (failure) {
      return tell(w, failure, run);
    }
  }
  return NULL;
}

static void test_opening_while_others_work(void **state)
{
  (void)state;
  tsr_runtime *runtime = new_runtime();
  worker workers[MAX_WORKERS] = {{.seed = 1, .device_name = "template"},
                                 {.seed = 2, .device_name = "reference"},
                                 {.seed = 3, .device_name = "vulkan"},
                                 {.seed = 4, .device_name = "vulkan"}};
  tsr_device *vulkan = open_if_found(runtime, "vulkan:0");
  for (int i = 0; i < MAX_WORKERS; i++) {
    workers[i].runtime = runtime;
  }
  run_workers(workers, vulkan ? MAX_WORKERS : 2, open_and_close);
  tsr_device_close(vulkan);
  tsr_runtime_destroy(runtime);
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Two runtimes, each with the same plugins
 */
static const char *plugins[4];

static void *live_in_a_runtime(void *opaque)
{
  worker *w = opaque;
  for (int round = 0; round < 3; round++) {
    summer s = {0};
    tsr_device *device = NULL;
    int run = -1;
    if (tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .plugins = plugins, .path = ""},
                           &w->runtime) != TSR_OK) {
      return tell(w, "no runtime", round);
    }
    const char *failure = NULL;
    if (tsr_device_open(w->runtime, w->device_name, &device) != TSR_OK || make_summer(device, NULL, &s) != TSR_OK) {
      failure = "the program does not compile";
    } else {
      failure = check_runs(&s, w->seed, 10, &run);
    }
    tsr_executable_destroy(s.executable);
    tsr_device_close(device);
    tsr_runtime_destroy(w->runtime);
    if (failure) {
      return tell(w, failure, run);
    }
  }
  return NULL;
}

static void test_two_runtimes(void **state)
{
  (void)state;
  static const char *const names[] = {"template", "reference", "vulkan"};
  for (int i = 0; i < 3; i++) {
    plugins[i] = plugin_file(names[i]);
  }
  tsr_runtime *runtime = new_runtime();
  tsr_device *vulkan = open_if_found(runtime, "vulkan:0");
  tsr_device_close(vulkan);
  tsr_runtime_destroy(runtime);
  worker cpu[2] = {{.seed = 1, .device_name = "template"}, {.seed = 2, .device_name = "reference"}};
  worker gpu[2] = {{.seed = 3, .device_name = "vulkan"}, {.seed = 4, .device_name = "vulkan"}};
  run_workers(cpu, 2, live_in_a_runtime);
  if (vulkan) {
    run_workers(gpu, 2, live_in_a_runtime);
  }
}

/* ---------------------------------------------------------------------------------------------------------------------
 * A device with concurrent runs, which watches how its slots are called.
 */
enum { CONCURRENT = 4, PATIENCE = 20 /* seconds */ };

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int is_deferred;                            /* the work is done by wait, not by run */
  int is_failing;                             /* and goes wrong */
  int wanted;                                 /* runs that wait for one another, so that they are inside at once */
  int inside, most;                           /* calls of run and wait now, and at most */
  int is_broken;                              /* an executable was in two calls at once */
  tsr_backend_executable *called[CONCURRENT]; /* [inside] */
  tsr_backend_executable *pending[CONCURRENT];
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static tsr_backend watched_table;

static int32_t concurrent_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  properties->concurrent_runs = CONCURRENT;
  return template_query(TSR_ABI_MAJOR, NULL)->device_properties(context, index, properties);
}

static int find(tsr_backend_executable *const *list, const tsr_backend_executable *executable)
{
  for (int i = 0; i < CONCURRENT; i++) {
    if (list[i] == executable) {
      return i;
    }
  }
  return -1;
}

static void enter_slot(tsr_backend_executable *executable)
{
  pthread_mutex_lock(&watch.lock);
  int place = find(watch.called, NULL);
  watch.is_broken |= place < 0 || find(watch.called, executable) >= 0;
  watch.called[place < 0 ? 0 : place] = executable;
  watch.most = ++watch.inside > watch.most ? watch.inside : watch.most;
  pthread_cond_broadcast(&watch.changed);
  pthread_mutex_unlock(&watch.lock);
}

static void leave_slot(tsr_backend_executable *executable)
{
  pthread_mutex_lock(&watch.lock);
  int place = find(watch.called, executable);
  watch.called[place < 0 ? 0 : place] = NULL;
  watch.inside--;
  pthread_mutex_unlock(&watch.lock);
}

/* 0 if that many runs were inside at once before long. */
static int meet(void)
{
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += PATIENCE;
  int failed = 0;
  pthread_mutex_lock(&watch.lock);
  while (watch.most < watch.wanted && !failed) {
    failed = pthread_cond_timedwait(&watch.changed, &watch.lock, &end);
  }
  pthread_mutex_unlock(&watch.lock);
  return failed;
}

/* Puts `executable` where `old` stands among those whose run is still to be done; 0 if there is none. */
static int exchange_pending(tsr_backend_executable *old, tsr_backend_executable *executable)
{
  pthread_mutex_lock(&watch.lock);
  int place = find(watch.pending, old);
  if (place >= 0) {
    watch.pending[place] = executable;
  }
  pthread_mutex_unlock(&watch.lock);
  return place >= 0;
}

static int32_t watched_run(tsr_backend_executable *executable)
{
  enter_slot(executable);
  int32_t status = TSR_OK;
  if (meet() != 0 || (watch.is_deferred && !exchange_pending(NULL, executable))) {
    status = TSR_ERR_INTERNAL;
  } else if (!watch.is_deferred) {
    status = template_query(TSR_ABI_MAJOR, NULL)->run(executable);
  }
  leave_slot(executable);
  return status;
}

static int32_t watched_wait(tsr_backend_executable *executable)
{
  enter_slot(executable);
  int32_t status = TSR_OK;
  if (exchange_pending(executable, NULL)) {
    status = watch.is_failing ? (int32_t)TSR_ERR_DEVICE_LOST : template_query(TSR_ABI_MAJOR, NULL)->run(executable);
  }
  leave_slot(executable);
  return status;
}

static const tsr_backend *watched_query(uint32_t major, const tsr_host *host)
{
  watched_table = *template_query(major, host);
  watched_table.name = "watched";
  watched_table.device_properties = concurrent_properties;
  watched_table.run = watched_run;
  watched_table.wait = watched_wait;
  return &watched_table;
}

static tsr_device *open_watched(tsr_runtime **runtime, int is_deferred, int wanted)
{
  watch.is_deferred = is_deferred;
  watch.wanted = wanted;
  watch.most = 0;
  *runtime = runtime_with(NULL, NULL);
  assert_ok(tsr_runtime_register(*runtime, watched_query));
  return open_device(*runtime, "watched");
}

static void close_watched(tsr_runtime *runtime, tsr_device *device)
{
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  assert_int_equal(watch.inside, 0);
  assert_false(watch.is_broken);
}

/* y = relu(c + x), c a constant. y_buffer: what y is bound to, or NULL. */
static tsr_executable *make_adder(tsr_device *device, tsr_buffer *c_buffer, tsr_buffer *y_buffer, float x_value,
                                  tsr_ref *y)
{
  tsr_program *p;
  tsr_executable *executable;
  float values[ELEMENTS];
  assert_ok(tsr_program_create(&p));
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(ELEMENTS));
  tsr_ref c = tsr_constant(p, "c", TSR_F32, TSR_SHAPE(ELEMENTS));
  *y = tsr_output(p, "y", tsr_relu(p, tsr_add(p, c, x)));
  const tsr_binding bindings[] = {{.tensor = c, .buffer = c_buffer}, {.tensor = *y, .buffer = y_buffer}};
  assert_ok(tsr_executable_create(
      device, p,
      &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .bindings = bindings, .n_bindings = y_buffer ? 2 : 1},
      &executable));
  tsr_program_destroy(p);
  fill(values, x_value);
  assert_ok(tsr_executable_write(executable, x, values, BYTES));
  return executable;
}

/* Two executables that only read what they share run at the same time. */
static void test_side_by_side(void **state)
{
  (void)state;
  for (int is_deferred = 0; is_deferred < 2; is_deferred++) {
    tsr_runtime *runtime;
    tsr_device *device = open_watched(&runtime, is_deferred, 2);
    tsr_buffer *c;
    tsr_ref y[2];
    worker workers[2] = {0};
    float values[ELEMENTS];
    assert_ok(tsr_buffer_create(device, BYTES, TSR_BUFFER_DEVICE, &c));
    fill(values, 10);
    assert_ok(tsr_buffer_write(c, 0, BYTES, values));
    for (int k = 0; k < 2; k++) {
      workers[k].executable = make_adder(device, c, NULL, (float)k, &y[k]);
    }
    run_workers(workers, 2, start_many);
    assert_true(watch.most >= 2);
    for (int k = 0; k < 2; k++) {
      assert_ok(tsr_executable_read(workers[k].executable, y[k], values, BYTES));
      assert_true(values[0] == (float)(10 + k));
      tsr_executable_destroy(workers[k].executable);
    }
    tsr_buffer_destroy(c);
    close_watched(runtime, device);
  }
}

/* Two threads on one executable; two executables that write one buffer, and who reads it. None of them is inside at
 * once. */
static void test_one_after_another(void **state)
{
  (void)state;
  for (int is_deferred = 0; is_deferred < 2; is_deferred++) {
    tsr_runtime *runtime;
    tsr_device *device = open_watched(&runtime, is_deferred, 0);
    tsr_buffer *c, *y_buffer;
    tsr_ref y;
    float values[ELEMENTS];
    assert_ok(tsr_buffer_create(device, BYTES, TSR_BUFFER_DEVICE, &c));
    assert_ok(tsr_buffer_create(device, BYTES, TSR_BUFFER_DEVICE, &y_buffer));
    tsr_executable *first = make_adder(device, c, y_buffer, 1, &y), *second = make_adder(device, c, y_buffer, 2, &y);
    worker workers[MAX_WORKERS] = {
        {.executable = first}, {.executable = second}, {.executable = first}, {.buffer = y_buffer}};
    run_workers(workers, 3, start_many);
    assert_int_equal(watch.most, 1);
    fill(values, 0);
    assert_ok(tsr_executable_start(second)); /* waited for by who writes the buffer */
    assert_ok(tsr_buffer_write(y_buffer, 0, BYTES, values));
    workers[2] = (worker){.executable = second};
    run_workers(workers + 2, 2, start_or_read);
    assert_ok(tsr_executable_start(first));
    assert_ok(tsr_executable_read(second, y, values, BYTES));
    assert_true(values[0] == 1 && values[ELEMENTS - 1] == 1);
    assert_ok(tsr_executable_start(second));
    assert_ok(tsr_executable_start(first));
    tsr_executable_destroy(first);
    assert_ok(tsr_executable_wait(second));
    assert_ok(tsr_buffer_read(y_buffer, 0, BYTES, values));
    assert_true(values[0] == 1);
    tsr_executable_destroy(second);
    tsr_buffer_destroy(c);
    tsr_buffer_destroy(y_buffer);
    assert_int_equal(watch.most, 1);
    close_watched(runtime, device);
  }
}

/* A run in flight that fails is told to who waits for it because it is in the way, and to who started it. */
static void test_failing_run(void **state)
{
  (void)state;
  tsr_runtime *runtime;
  tsr_device *device = open_watched(&runtime, 1, 0);
  tsr_buffer *c, *y_buffer;
  tsr_ref y;
  float values[ELEMENTS];
  assert_ok(tsr_buffer_create(device, BYTES, TSR_BUFFER_DEVICE, &c));
  assert_ok(tsr_buffer_create(device, BYTES, TSR_BUFFER_DEVICE, &y_buffer));
  tsr_executable *first = make_adder(device, c, y_buffer, 1, &y), *second = make_adder(device, c, y_buffer, 2, &y);
  watch.is_failing = 1;
  assert_ok(tsr_executable_start(first));
  assert_status(tsr_executable_start(second), TSR_ERR_DEVICE_LOST);
  assert_status(tsr_executable_wait(first), TSR_ERR_DEVICE_LOST);
  assert_message("the run failed with TSR_ERR_DEVICE_LOST");
  assert_ok(tsr_executable_wait(second)); /* it never started */
  assert_ok(tsr_executable_start(first));
  assert_status(tsr_buffer_read(y_buffer, 0, BYTES, values), TSR_ERR_DEVICE_LOST);
  assert_status(tsr_executable_run(second), TSR_ERR_DEVICE_LOST);
  watch.is_failing = 0;
  assert_ok(tsr_executable_run(second));
  assert_ok(tsr_executable_run(first));
  assert_ok(tsr_executable_wait(first));
  assert_ok(tsr_buffer_read(y_buffer, 0, BYTES, values));
  assert_true(values[0] == 1);
  assert_ok(tsr_executable_start(second));
  watch.is_failing = 1;
  tsr_executable_destroy(second);
  watch.is_failing = 0;
  tsr_executable_destroy(first);
  tsr_buffer_destroy(c);
  tsr_buffer_destroy(y_buffer);
  close_watched(runtime, device);
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Two devices, each the other's to fall back on: nobody waits for ever.
 */
static tsr_backend adder_table, cutter_table;
static int adder_is_concurrent, cutter_is_concurrent;

static int32_t supports_add(tsr_backend_device *device, const tsr_program_desc *program, int32_t line)
{
  (void)device;
  return tsr_line_at(program, line)->op == TSR_OP_ADD;
}

static int32_t supports_relu(tsr_backend_device *device, const tsr_program_desc *program, int32_t line)
{
  (void)device;
  return tsr_line_at(program, line)->op == TSR_OP_RELU;
}

static const tsr_backend *adder_query(uint32_t major, const tsr_host *host)
{
  adder_table = *template_query(major, host);
  adder_table.name = "adder";
  adder_table.supports = supports_add;
  if (adder_is_concurrent) {
    adder_table.device_properties = concurrent_properties;
  }
  return &adder_table;
}

static const tsr_backend *cutter_query(uint32_t major, const tsr_host *host)
{
  cutter_table = *template_query(major, host);
  cutter_table.name = "cutter";
  cutter_table.supports = supports_relu;
  if (cutter_is_concurrent) {
    cutter_table.device_properties = concurrent_properties;
  }
  return &cutter_table;
}

static void check_mutual_fallback(void)
{
  tsr_runtime *runtime = runtime_with(NULL, NULL);
  assert_ok(tsr_runtime_register(runtime, adder_query));
  assert_ok(tsr_runtime_register(runtime, cutter_query));
  tsr_device *devices[2] = {open_device(runtime, "adder"), open_device(runtime, "cutter")};
  worker workers[2] = {0};
  tsr_program *p;
  assert_ok(tsr_program_create(&p));
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(ELEMENTS));
  tsr_ref y = tsr_output(p, "y", tsr_relu(p, tsr_add(p, tsr_relu(p, tsr_add(p, x, x)), x)));
  float values[ELEMENTS];
  for (int k = 0; k < 2; k++) {
    assert_ok(tsr_executable_create(devices[k], p,
                                    &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .fallback = devices[1 - k]},
                                    &workers[k].executable));
    fill(values, (float)(k + 1));
    assert_ok(tsr_executable_write(workers[k].executable, x, values, BYTES));
  }
  tsr_program_destroy(p);
  run_workers(workers, 2, start_many);
  for (int k = 0; k < 2; k++) {
    assert_ok(tsr_executable_read(workers[k].executable, y, values, BYTES));
    for (int i = 0; i < ELEMENTS; i++) {
      assert_true(values[i] == (float)(3 * (k + 1)));
    }
    tsr_executable_destroy(workers[k].executable);
  }
  for (int k = 0; k < 2; k++) {
    tsr_device_close(devices[k]);
  }
  tsr_runtime_destroy(runtime);
}

static void test_mutual_fallback(void **state)
{
  (void)state;
  for (int i = 0; i < 4; i++) {
    adder_is_concurrent = i & 1;
    cutter_is_concurrent = i >> 1;
    check_mutual_fallback();
  }
}

int main(void)
{
  tsr_log_set(on_log, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_two_devices, tear_down),
      cmocka_unit_test_teardown(test_one_device, tear_down),
      cmocka_unit_test_teardown(test_shared_state, tear_down),
      cmocka_unit_test_teardown(test_opened_twice, tear_down),
      cmocka_unit_test_teardown(test_opening_while_others_work, tear_down),
      cmocka_unit_test_teardown(test_two_runtimes, tear_down),
      cmocka_unit_test_teardown(test_side_by_side, tear_down),
      cmocka_unit_test_teardown(test_one_after_another, tear_down),
      cmocka_unit_test_teardown(test_failing_run, tear_down),
      cmocka_unit_test_teardown(test_mutual_fallback, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
