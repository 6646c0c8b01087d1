/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/program/gradient_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/random/random.h"

enum { MAX_LOSSES = 512 };

/* The step of the differences; half of it, and twice it, are taken too. */
static const double STEP = 1.0 / 64.0;

static void ok(tsr_status status, const char *name)
{
  if (status != TSR_OK) {
    fail_msg("%s: %s: %s", name, tsr_status_name(status), tsr_error_message());
  }
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

void maker_begin(maker *m, uint64_t seed, int32_t as_inputs)
{
  *m = (maker){.seed = seed, .random = seed, .as_inputs = as_inputs};
  ok(tsr_program_create(&m->p), "program");
}

void maker_finish(maker *m)
{
  tsr_program_destroy(m->p);
}

int32_t draw(maker *m, int32_t n)
{
  return tsr_random_below(&m->random, n);
}

static gradient_leaf *add_leaf(maker *m, tsr_dtype dtype, tsr_shape shape)
{
  char name[16];
  assert_true(m->n < MAX_LEAVES);
  snprintf(name, sizeof name, "x%d", (int)m->n);
  gradient_leaf *added = &m->leaves[m->n];
  *added = (gradient_leaf){.dtype = dtype, .n = tsr_shape_elements(&shape)};
  assert_in_range(added->n, 0, MAX_ELEMENTS);
  int32_t turn = m->as_inputs || dtype == TSR_I32 ? 0 : m->n % 3;
  added->ref = turn == 0   ? tsr_input(m->p, name, dtype, shape)
               : turn == 1 ? tsr_constant(m->p, name, dtype, shape)
                           : tsr_state(m->p, name, dtype, shape);
  m->n++;
  return added;
}

tsr_ref typed_leaf(maker *m, tsr_dtype dtype, tsr_shape shape)
{
  uint64_t random = m->seed * 1000 + (uint64_t)m->n;
  gradient_leaf *added = add_leaf(m, dtype, shape);
  for (int64_t i = 0; i < added->n; i++) {
    added->values[i] = (float)(2 * tsr_random_below(&random, 30) - 29) / 32.0f;
  }
  return added->ref;
}

tsr_ref fixed_leaf(maker *m, tsr_shape shape)
{
  const tsr_ref x = typed_leaf(m, TSR_F32, shape);
  m->leaves[m->n - 1].is_fixed = 1;
  return x;
}

tsr_ref whole_numbers(maker *m, tsr_shape shape, const int32_t *values)
{
  gradient_leaf *added = add_leaf(m, TSR_I32, shape);
  memcpy(added->whole, values, (size_t)added->n * sizeof *values);
  return added->ref;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

int gradient_setup(void **state)
{
  static tsr_device *device;
  static tsr_runtime *runtime;
  const tsr_runtime_options options = {TSR_SIZED(tsr_runtime_options), .path = ""};
  ok(tsr_runtime_create(&options, &runtime), "runtime");
  ok(tsr_runtime_register(runtime, tessera_backend_query), "reference");
  ok(tsr_device_open(runtime, "reference", &device), "reference");
  *state = device;
  return 0;
}

int gradient_teardown(void **state)
{
  tsr_runtime *runtime = tsr_device_runtime(*state);
  tsr_device_close(*state);
  tsr_runtime_destroy(runtime);
  return 0;
}

/* A compiled program, and where its constants are. */
typedef struct compiled {
  tsr_executable *executable;
  tsr_buffer *constants[MAX_LEAVES];
} compiled;

/* What a leaf holds, in its type. */
static const void *leaf_bytes(const gradient_leaf *l, int64_t *size)
{
  static float bytes[MAX_ELEMENTS];
  *size = l->n * (int64_t)tsr_dtype_size(l->dtype);
  if (l->dtype == TSR_I32) {
    return l->whole;
  }
  ok(tsr_convert(TSR_F32, l->values, l->dtype, bytes, l->n), "convert");
  return bytes;
}

static void write_leaf(const compiled *c, const gradient_leaf *l, const char *name)
{
  int64_t size;
  const void *bytes = leaf_bytes(l, &size);
  ok(tsr_executable_write(c->executable, l->ref, bytes, size), name);
}

static void compile(tsr_device *device, const maker *m, const char *name, compiled *c)
{
  tsr_binding bindings[MAX_LEAVES];
  tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = bindings, .strict = 1};
  *c = (compiled){0};
  for (int32_t i = 0; i < m->n; i++) {
    int64_t size;
    if (tsr_ref_kind(m->p, m->leaves[i].ref) != TSR_STORAGE_CONSTANT) {
      continue;
    }
    const void *bytes = leaf_bytes(&m->leaves[i], &size);
    ok(tsr_buffer_create(device, size, TSR_BUFFER_DEVICE, &c->constants[i]), name);
    ok(tsr_buffer_write(c->constants[i], 0, size, bytes), name);
    bindings[options.n_bindings++] = (tsr_binding){.tensor = m->leaves[i].ref, .buffer = c->constants[i]};
  }
  ok(tsr_executable_create(device, m->p, &options, &c->executable), name);
  for (int32_t i = 0; i < m->n; i++) {
    if (!c->constants[i]) {
      write_leaf(c, &m->leaves[i], name);
    }
  }
}

static void finish_compiled(compiled *c)
{
  tsr_executable_destroy(c->executable);
  for (int32_t i = 0; i < MAX_LEAVES; i++) {
    tsr_buffer_destroy(c->constants[i]);
  }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

typedef float gradient_values[MAX_LEAVES][MAX_ELEMENTS];

static float factor_of(int64_t i)
{
  return (float)((i * 7 + 3) % 11 - 5) / 4.0f + 0.125f;
}

/* Parts of the program to be computed once more: 0: none; 1: all of it; 2: its middle and its end. */
static int32_t ranges_of(const tsr_program *program, int32_t variant, tsr_line_range ranges[2])
{
  int32_t n = tsr_program_line_count(program);
  ranges[0] = (tsr_line_range){variant == 1 ? 0 : n / 4, variant == 1 ? n : n / 2};
  ranges[1] = (tsr_line_range){n / 2, n};
  return variant;
}

/* No line writes what another one wrote. */
static void check_written_once(const tsr_program *program, const char *name)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  uint8_t *written = calloc((size_t)desc->n_storages, 1);
  assert_non_null(written);
  for (int32_t i = 0; i < desc->n_lines; i++) {
    for (int32_t j = 0; j < TSR_MAX_OUTPUTS; j++) {
      int32_t out = tsr_line_at(desc, i)->out[j];
      if (out > 0 && written[tsr_tensor_at(desc, out)->storage]++) {
        fail_msg("%s: line %d writes what another one wrote", name, (int)i);
      }
    }
  }
  free(written);
}

/* The program's loss and gradients by its own lines. A gradient that there is none of is zeros. */
static void compute(tsr_device *device, const gradient_case *c, uint64_t seed, int32_t variant,
                    gradient_values gradients)
{
  static maker m;
  maker_begin(&m, seed, 0);
  tsr_ref loss = c->build(&m), parameters[MAX_LEAVES], found[MAX_LEAVES];
  ok(tsr_program_status(m.p), c->name);
  tsr_shape shape = tsr_ref_shape(m.p, loss);
  int64_t n_losses = tsr_shape_elements(&shape);
  assert_in_range(n_losses, 0, MAX_LOSSES);
  tsr_ref factor = tsr_input(m.p, "factor", TSR_F32, shape);
  int32_t n = 0, which[MAX_LEAVES];
  for (int32_t i = 0; i < m.n; i++) {
    if (m.leaves[i].dtype != TSR_I32 && !m.leaves[i].is_fixed) {
      which[n] = i;
      parameters[n++] = m.leaves[i].ref;
    }
  }
  tsr_line_range ranges[2];
  tsr_gradient_options options = {TSR_SIZED(tsr_gradient_options), .recompute = ranges,
                                  .n_recompute = ranges_of(m.p, variant, ranges)};
  ok(tsr_gradients(m.p, loss, factor, parameters, n, variant ? &options : NULL, found), c->name);
  for (int32_t i = 0; i < n; i++) {
    char name[16];
    snprintf(name, sizeof name, "g%d", (int)i);
    if (found[i] != TSR_NONE) {
      found[i] = tsr_output(m.p, name, found[i]);
    }
  }
  check_written_once(m.p, c->name);
  float factors[MAX_LOSSES];
  for (int64_t i = 0; i < n_losses; i++) {
    factors[i] = factor_of(i);
  }
  compiled made;
  compile(device, &m, c->name, &made);
  ok(tsr_executable_write(made.executable, factor, factors, n_losses * (int64_t)sizeof *factors), c->name);
  ok(tsr_executable_run(made.executable), c->name);
  memset(gradients, 0, sizeof(gradient_values));
  for (int32_t i = 0; i < n; i++) {
    const gradient_leaf *l = &m.leaves[which[i]];
    tsr_shape wanted = tsr_ref_shape(m.p, parameters[i]), given = tsr_ref_shape(m.p, found[i]);
    if (found[i] == TSR_NONE) {
      continue;
    }
    assert_true(tsr_shape_equal(&wanted, &given));
    ok(tsr_executable_read(made.executable, found[i], gradients[which[i]], l->n * (int64_t)sizeof(float)), c->name);
  }
  finish_compiled(&made);
  maker_finish(&m);
}

void gradient_of(tsr_device *device, maker *m, tsr_ref loss, float factor, tsr_ref parameter, float *gradient)
{
  tsr_ref input = tsr_input(m->p, "factor", TSR_F32, TSR_SHAPE(1)), found;
  ok(tsr_gradients(m->p, loss, input, &parameter, 1, NULL, &found), "gradient_of");
  found = tsr_output(m->p, "gradient", found);
  tsr_shape shape = tsr_ref_shape(m->p, found);
  compiled made;
  compile(device, m, "gradient_of", &made);
  ok(tsr_executable_write(made.executable, input, &factor, sizeof factor), "gradient_of");
  ok(tsr_executable_run(made.executable), "gradient_of");
  ok(tsr_executable_read(made.executable, found, gradient, tsr_shape_elements(&shape) * (int64_t)sizeof *gradient),
     "gradient_of");
  finish_compiled(&made);
}

/* ---- differences ------------------------------------------------------------------------------------------------- */

/* The program as a function of its leaves. */
typedef struct function {
  const char *name;
  maker m;
  compiled made;
  tsr_ref loss;
  int64_t n;
  double size; /* sum of |factor * loss|: what its rounding is relative to */
} function;

static double evaluate(function *f)
{
  float losses[MAX_LOSSES];
  double sum = 0.0;
  ok(tsr_executable_run(f->made.executable), f->name);
  ok(tsr_executable_read(f->made.executable, f->loss, losses, f->n * (int64_t)sizeof *losses), f->name);
  f->size = 0.0;
  for (int64_t i = 0; i < f->n; i++) {
    sum += (double)factor_of(i) * (double)losses[i];
    f->size += fabs((double)factor_of(i)) * fmax(1.0, fabs((double)losses[i]));
  }
  return sum;
}

static double evaluate_at(function *f, gradient_leaf *l, int64_t element, double moved)
{
  float before = l->values[element];
  l->values[element] = (float)((double)before + moved);
  write_leaf(&f->made, l, f->name);
  double value = evaluate(f);
  l->values[element] = before;
  return value;
}

/* Two estimates of a derivative, by Richardson's extrapolation of central differences. */
static void differences(function *f, gradient_leaf *l, int64_t element, double *coarse, double *fine)
{
  double central[3];
  for (int i = 0; i < 3; i++) {
    double step = STEP * (i == 0 ? 2.0 : i == 1 ? 1.0 : 0.5);
    central[i] = (evaluate_at(f, l, element, step) - evaluate_at(f, l, element, -step)) / (2.0 * step);
  }
  write_leaf(&f->made, l, f->name);
  *coarse = (4.0 * central[1] - central[0]) / 3.0;
  *fine = (4.0 * central[2] - central[1]) / 3.0;
}

static void check_leaf(function *f, int32_t index, const float *gradient, gradient_report *report)
{
  gradient_leaf *l = &f->m.leaves[index];
  double coarse[MAX_ELEMENTS], fine[MAX_ELEMENTS], largest = 0.0;
  for (int64_t i = 0; i < l->n; i++) {
    differences(f, l, i, &coarse[i], &fine[i]);
    largest = fmax(largest, fabs(fine[i]));
  }
  double tolerance = 1e-3 * largest + 0x1p-22 * f->size / STEP;
  for (int64_t i = 0; i < l->n; i++) {
    double doubt = fabs(coarse[i] - fine[i]), error = fabs((double)gradient[i] - fine[i]);
    report->elements++;
    report->rough += doubt > tolerance;
    if (!(error <= tolerance + 3.0 * doubt)) {
      fail_msg("%s: leaf %d, element %d: the gradient is %.7g, the differences say %.7g (within %.2g)", f->name,
               (int)index, (int)i, (double)gradient[i], fine[i], tolerance);
    }
  }
}

static void check_variants(tsr_device *device, const gradient_case *c, uint64_t seed, gradient_values plain)
{
  static gradient_values again;
  for (int32_t variant = 1; variant <= 2; variant++) {
    compute(device, c, seed, variant, again);
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bit for bit is what is asked. */
    if (memcmp(plain, again, sizeof again) != 0) {
      fail_msg("%s: computed once more (%d), the gradients have other bits", c->name, (int)variant);
    }
  }
}

gradient_report gradient_check(tsr_device *device, const gradient_case *c, uint64_t seed)
{
  static gradient_values gradients;
  static function f;
  gradient_report report = {0};
  compute(device, c, seed, 0, gradients);
  check_variants(device, c, seed, gradients);
  f = (function){.name = c->name};
  maker_begin(&f.m, seed, 1);
  f.loss = tsr_output(f.m.p, "loss", c->build(&f.m));
  ok(tsr_program_status(f.m.p), c->name);
  tsr_shape shape = tsr_ref_shape(f.m.p, f.loss);
  f.n = tsr_shape_elements(&shape);
  compile(device, &f.m, c->name, &f.made);
  for (int32_t i = 0; i < f.m.n; i++) {
    if (f.m.leaves[i].dtype != TSR_I32 && !f.m.leaves[i].is_fixed) {
      check_leaf(&f, i, gradients[i], &report);
    }
  }
  finish_compiled(&f.made);
  maker_finish(&f.m);
  return report;
}
