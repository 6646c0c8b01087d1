/* SPDX-License-Identifier: Apache-2.0
 *
 * Products on matrix units, and of pairs in vectors: the instructions compute the bits that their emulation does, a row
 * does not depend on the rows around it, and products of bytes are the same at each instruction level.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/ops.h"
#include "tessera/runtime.h"
#include "tools/random/random.h"

enum { MAX_LEVELS = 10, TOP = 5 };

/* Finite numbers whose products stay so; of all sizes; so small that products and sums lose bits or vanish; with
 * infinities and NaN. */
enum { PLAIN, WIDE, TINY, SPECIAL, N_KINDS };

static void check(tsr_status status)
{
  if (status != TSR_OK) {
    fail_msg("%s: %s", tsr_status_name(status), tsr_error_message());
  }
}

typedef struct level {
  char name[64];
  tsr_device *device;
} level;

typedef struct state {
  tsr_runtime *runtime;
  level levels[MAX_LEVELS];
  int32_t n_levels;
} state;

static int open_levels(void **opaque)
{
  state *s = calloc(1, sizeof *s);
  assert_non_null(s);
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = CPU_FOLDER}, &s->runtime));
  check(tsr_runtime_option(s->runtime, "THREADS", "2"));
  check(tsr_runtime_option(s->runtime, "CPU_LEVEL", "all"));
  s->n_levels = tsr_runtime_device_count(s->runtime);
  assert_in_range(s->n_levels, 1, MAX_LEVELS);
  for (int32_t i = 0; i < s->n_levels; i++) {
    tsr_device_info info;
    check(tsr_runtime_device_info(s->runtime, i, &info));
    check(tsr_device_open(s->runtime, info.name, &s->levels[i].device));
    /* "tessera 1.2.3, avx2 kernels (..", */
    const char *text = strchr(tsr_device_get_properties(s->levels[i].device)->driver, ',');
    assert_non_null(text);
    assert_int_equal(sscanf(text, ", %63s", s->levels[i].name), 1);
  }
  *opaque = s;
  return 0;
}

static int close_levels(void **opaque)
{
  state *s = *opaque;
  for (int32_t i = 0; i < s->n_levels; i++) {
    tsr_device_close(s->levels[i].device);
  }
  tsr_runtime_destroy(s->runtime);
  free(s);
  return 0;
}

/* NULL where this machine or this build has none. */
static tsr_device *find(const state *s, const char *name)
{
  for (int32_t i = 0; i < s->n_levels; i++) {
    if (strcmp(s->levels[i].name, name) == 0) {
      return s->levels[i].device;
    }
  }
  return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static float draw(int32_t kind, uint64_t *seed)
{
  static const uint32_t special[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 0x80000000, 0x00000001};
  uint32_t bits = (uint32_t)tsr_random_below(seed, 0x10000) | (uint32_t)tsr_random_below(seed, 0x10000) << 16;
  if (kind == SPECIAL && tsr_random_below(seed, 40) == 0) {
    bits = special[tsr_random_below(seed, 6)];
  } else if (kind == WIDE) {
    bits = (bits & 0x807fffffu) | (uint32_t)(97 + tsr_random_below(seed, 60)) << 23;
  } else if (kind == TINY) {
    bits = (bits & 0x807fffffu) | (uint32_t)(tsr_random_below(seed, 8) ? 58 + tsr_random_below(seed, 9) : 0) << 23;
  } else {
    bits = (bits & 0x807fffffu) | (uint32_t)(124 + tsr_random_below(seed, 5)) << 23;
  }
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

typedef struct product {
  int32_t m, n, k;
  tsr_dtype dtype;
  float *a;
  void *b; /* [n, k] */
  float *scales;
} product;

static product make_product(int32_t m, int32_t n, int32_t k, tsr_dtype dtype, int32_t kind)
{
  uint64_t seed = (uint64_t)m + 1000 * (uint64_t)n + (uint64_t)k + 7 * (uint64_t)kind;
  product p = {.m = m, .n = n, .k = k, .dtype = dtype};
  p.a = malloc((size_t)m * (size_t)k * sizeof *p.a);
  p.b = malloc((size_t)n * (size_t)k * 2);
  p.scales = malloc((size_t)n * sizeof *p.scales);
  assert_true(p.a && p.b && p.scales);
  for (int64_t i = 0; i < (int64_t)m * k; i++) {
    p.a[i] = draw(kind, &seed);
  }
  for (int64_t i = 0; i < (int64_t)n * k; i++) {
    uint32_t bits;
    const float value = draw(kind, &seed);
    memcpy(&bits, &value, sizeof bits);
    if (dtype == TSR_I8) {
      ((int8_t *)p.b)[i] = (int8_t)(tsr_random_below(&seed, 256) - 128);
    } else {
      ((uint16_t *)p.b)[i] = (uint16_t)(bits >> 16);
    }
  }
  for (int32_t i = 0; i < n; i++) {
    p.scales[i] = draw(PLAIN, &seed);
  }
  return p;
}

static void free_product(product *p)
{
  free(p->a);
  free(p->b);
  free(p->scales);
}

/* Rows first .. first+rows-1 of the product: the caller's. If indices is not NULL, the TOP largest of each row instead,
 * and where they stand, the caller's too. */
static float *multiply(tsr_device *device, const product *p, int32_t first, int32_t rows, int32_t **indices)
{
  const size_t size = p->dtype == TSR_I8 ? 1 : 2;
  const int64_t n_results = (int64_t)rows * (indices ? TOP : p->n);
  float *results = malloc((size_t)n_results * sizeof *results);
  tsr_program *program;
  tsr_buffer *buffer;
  tsr_executable *executable;
  assert_non_null(results);
  check(tsr_program_create(&program));
  const tsr_ref a = tsr_input(program, "a", TSR_F32, TSR_SHAPE(rows, p->k));
  const tsr_ref b = tsr_constant(program, "b", p->dtype, TSR_SHAPE(p->n, p->k)),
                turned = tsr_transpose(program, b, 0, 1);
  tsr_ref scales = TSR_NONE, found = TSR_NONE, y;
  if (p->dtype == TSR_I8) {
    scales = tsr_input(program, "scales", TSR_F32, TSR_SHAPE(p->n));
    y = tsr_matmul_i8(program, a, turned, scales, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  } else {
    y = tsr_matmul_reduced_precision(program, a, turned, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  }
  y = indices ? tsr_topk(program, y, TOP, &found) : y;
  y = tsr_output(program, "y", y);
  found = indices ? tsr_output(program, "found", found) : TSR_NONE;
  check(tsr_program_status(program));
  check(tsr_buffer_create(device, (int64_t)size * p->n * p->k, TSR_BUFFER_DEVICE, &buffer));
  check(tsr_buffer_write(buffer, 0, (int64_t)size * p->n * p->k, p->b));
  const tsr_binding binding = {.tensor = b, .buffer = buffer};
  check(tsr_executable_create(
      device, program,
      &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .bindings = &binding, .n_bindings = 1, .strict = 1},
      &executable));
  check(tsr_executable_write(executable, a, p->a + (int64_t)first * p->k, (int64_t)rows * p->k * 4));
  if (scales != TSR_NONE) {
    check(tsr_executable_write(executable, scales, p->scales, (int64_t)p->n * 4));
  }
  check(tsr_executable_run(executable));
  check(tsr_executable_read(executable, y, results, n_results * 4));
  if (indices) {
    *indices = malloc((size_t)n_results * sizeof **indices);
    assert_non_null(*indices);
    check(tsr_executable_read(executable, found, *indices, n_results * 4));
  }
  tsr_executable_destroy(executable);
  tsr_buffer_destroy(buffer);
  tsr_program_destroy(program);
  return results;
}

/* The same bits, but for the sign of a zero and the bits of a NaN. */
static void assert_same(const product *p, int32_t kind, const float *x, const float *y, int64_t n, const char *what)
{
  for (int64_t i = 0; i < n; i++) {
    const int is_nan = x[i] != x[i] && y[i] != y[i];
    if (!is_nan && !(x[i] == y[i])) {
      fail_msg("%dx%dx%d, kind %d: element %lld is %a and %a: %s", (int)p->m, (int)p->n, (int)p->k, (int)kind,
               (long long)i, (double)x[i], (double)y[i], what);
    }
  }
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* Fewer and more rows than a tile has, and than are taken together; depths that end within a tile, and such as are
 * taken in parts; columns that end within a strip. */
static const int32_t sizes[][3] = {{1, 40, 31},   {5, 64, 64},   {16, 96, 33},    {17, 33, 70},
                                   {32, 70, 512}, {50, 300, 90}, {49, 290, 1030}, {70, 530, 2300}};

enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

/* Instructions, and what computes their bits without them. */
static const char *const pairs[][2] = {{"amx", "emulated"}, {"avx512bf16", "emulatedbf16"}};

enum { N_PAIRS = sizeof pairs / sizeof pairs[0] };

static void compare_products(const char *const pair[2], tsr_device *device, tsr_device *emulation)
{
  for (int32_t i = 0; i < N_SIZES; i++) {
    for (int32_t kind = 0; kind < N_KINDS; kind++) {
      product p = make_product(sizes[i][0], sizes[i][1], sizes[i][2], TSR_BF16, kind);
      float *one = multiply(device, &p, 0, p.m, NULL), *other = multiply(emulation, &p, 0, p.m, NULL);
      assert_same(&p, kind, one, other, (int64_t)p.m * p.n, pair[0]);
      free(one);
      free(other);
      free_product(&p);
    }
  }
}

static void compare_largest(const char *const pair[2], tsr_device *device, tsr_device *emulation)
{
  for (int32_t i = 0; i < N_SIZES; i++) {
    product p = make_product(sizes[i][0], sizes[i][1], sizes[i][2], TSR_BF16, PLAIN);
    int32_t *one_at, *other_at;
    float *one = multiply(device, &p, 0, p.m, &one_at), *other = multiply(emulation, &p, 0, p.m, &other_at);
    assert_same(&p, PLAIN, one, other, (int64_t)p.m * TOP, pair[0]);
    assert_memory_equal(one_at, other_at, (size_t)p.m * TOP * sizeof *one_at);
    free(one);
    free(other);
    free(one_at);
    free(other_at);
    free_product(&p);
  }
}

/* Calls `compare` for each pair that this machine has. */
static void compare_pairs(const state *s, void (*compare)(const char *const pair[2], tsr_device *, tsr_device *))
{
  int32_t n_compared = 0;
  for (int32_t i = 0; i < N_PAIRS; i++) {
    tsr_device *device = find(s, pairs[i][0]), *emulation = find(s, pairs[i][1]);
    if (device && emulation) {
      compare(pairs[i], device, emulation);
      n_compared++;
    }
  }
  if (n_compared == 0) {
    skip();
  }
}

static void test_emulation(void **opaque)
{
  compare_pairs(*opaque, compare_products);
}

static void test_topk(void **opaque)
{
  compare_pairs(*opaque, compare_largest);
}

/* How many rows there are decides which tiles multiply them, and where long ones are rounded. */
static void test_rows(void **opaque)
{
  static const int32_t parts[2][6][2] = {{{0, 1}, {3, 1}, {0, 16}, {5, 17}, {1, 32}, {7, 33}},
                                         {{0, 1}, {511, 1}, {512, 1}, {510, 5}, {540, 16}, {530, 17}}};
  const state *s = *opaque;
  for (int32_t i = 0; i < s->n_levels; i++) {
    for (int32_t kind = 0; kind < 3; kind++) {
      const int32_t is_long = kind == 2;
      product p = is_long ? make_product(560, 24, 8300, TSR_BF16, WIDE)
                          : make_product(70, 150, 300, kind ? TSR_I8 : TSR_BF16, WIDE);
      float *all = multiply(s->levels[i].device, &p, 0, p.m, NULL);
      for (int32_t j = 0; j < 6; j++) {
        const int32_t first = parts[is_long][j][0], rows = parts[is_long][j][1];
        float *some = multiply(s->levels[i].device, &p, first, rows, NULL);
        assert_same(&p, WIDE, some, all + (int64_t)first * p.n, (int64_t)rows * p.n, s->levels[i].name);
        free(some);
      }
      free(all);
      free_product(&p);
    }
  }
}

static void test_bytes(void **opaque)
{
  const state *s = *opaque;
  tsr_device *portable = find(s, "portable");
  assert_non_null(portable);
  for (int32_t i = 0; i < N_SIZES; i++) {
    product p = make_product(sizes[i][0], sizes[i][1], sizes[i][2], TSR_I8, i % 2 ? SPECIAL : PLAIN);
    float *expected = multiply(portable, &p, 0, p.m, NULL);
    for (int32_t j = 0; j < s->n_levels; j++) {
      float *found = multiply(s->levels[j].device, &p, 0, p.m, NULL);
      assert_same(&p, PLAIN, found, expected, (int64_t)p.m * p.n, s->levels[j].name);
      free(found);
    }
    free(expected);
    free_product(&p);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_emulation),
      cmocka_unit_test(test_topk),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_bytes),
  };
  return cmocka_run_group_tests(tests, open_levels, close_levels);
}
