/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache that outgrows its room: every position keeps its bits, on every device, and none of them passes the host.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/model/generation.h"
#include "tests/model/random_model.h"
#include "tests/support/failing.h"

static const random_model model = {.seed = 91, .d_model = 48, .d_ff = 96};

/* ---- the bits ---------------------------------------------------------------------------------------------------- */

/* The bits of element i of a state: a normal number in f32, f16 and bf16, which hardly another element has. */
static uint32_t element(int32_t state, int64_t i, size_t size)
{
  uint32_t mixed = (uint32_t)i * 2654435761u + (uint32_t)state * 40503u;
  return size == 2 ? (mixed >> 16 & 0x3bffu) | 0x2000u : (mixed >> 2 & 0x3f7fffffu) | 0x20000000u;
}

static int64_t row_elements(const setup *s)
{
  const tsr_transformer_config *config = tsr_model_config(s->model);
  return (int64_t)config->decoder_heads * config->decoder_head_size;
}

static int32_t n_states(const setup *s)
{
  return 2 * tsr_model_config(s->model)->decoder_layers;
}

/* Fills `rows` positions of each state. */
static void fill(const setup *s, int64_t rows)
{
  size_t size = tsr_dtype_size(s->transformer->states);
  int64_t n = rows * row_elements(s);
  char *bytes = malloc((size_t)n * size);
  assert_non_null(bytes);
  for (int32_t state = 0; state < n_states(s); state++) {
    for (int64_t i = 0; i < n; i++) {
      uint32_t value = element(state, i, size);
      memcpy(bytes + (size_t)i * size, &value, size); /* little-endian */
    }
    check(tsr_buffer_write(s->transformer->self.buffers[state], 0, n * (int64_t)size, bytes));
  }
  free(bytes);
}

/* What lay in rows of `from` positions lies in rows of `to`. */
static void check_moved(const setup *s, int64_t rows, int64_t from, int64_t to)
{
  size_t size = tsr_dtype_size(s->transformer->states);
  int64_t wide = row_elements(s);
  char *bytes = malloc((size_t)(rows * to * wide) * size);
  assert_non_null(bytes);
  for (int32_t state = 0; state < n_states(s); state++) {
    check(tsr_buffer_read(s->transformer->self.buffers[state], 0, rows * to * wide * (int64_t)size, bytes));
    for (int64_t r = 0; r < rows; r++) {
      for (int64_t i = 0; i < from * wide; i++) {
        uint32_t found = 0;
        memcpy(&found, bytes + (size_t)(r * to * wide + i) * size, size);
        if (found != element(state, r * from * wide + i, size)) {
          fail_msg("%s, %lld rows of %lld to %lld positions: state %d, row %lld, element %lld of it",
                   tsr_device_name(s->device), (long long)rows, (long long)from, (long long)to, (int)state,
                   (long long)r, (long long)i);
        }
      }
    }
  }
  free(bytes);
}

/* Rows B*N, capacities before and after; `pool`: positions that there is room for already. */
typedef struct growth {
  int32_t batch, beam, from, to, pool;
} growth;

static const growth growths[] = {
    {4, 1, 8, 16, 64},    /* in the room that there is */
    {3, 2, 5, 9, 128},    /* the same; rows overlap where they were */
    {1, 1, 32, 64, 64},   /* one row, which stays where it is */
    {1, 1, 32, 64, 32},   /* no room: 64 is the least */
    {1, 1, 64, 128, 64},  /* one row, into larger buffers */
    {5, 4, 32, 64, 1024}, /* into larger buffers */
    {7, 3, 16, 17, 512},  /* by one position */
    {2, 2, 24, 64, 1024}, /* beyond where all of it was */
};
enum { N_GROWTHS = sizeof growths / sizeof growths[0] };

static void grow(setup *s, const growth *g)
{
  int64_t rows = (int64_t)g->batch * g->beam;
  check(tsr_transformer_reserve(s->transformer, 16, g->pool > rows * g->from ? g->pool : rows * g->from));
  fill(s, rows * g->from);
  check(tsr_transformer_grow_cache(s->transformer, g->batch, g->beam, g->from, g->to));
  assert_true(s->transformer->self.rows >= rows * g->to);
  check_moved(s, rows, g->from, g->to);
}

static void test_bits(void **state)
{
  const fixture *f = *state;
  static const tsr_dtype weights[] = {TSR_F32, TSR_F16, TSR_BF16};
  random_model_write(f->folder, &model);
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    for (size_t w = 0; w < sizeof weights / sizeof weights[0]; w++) {
      for (int32_t i = 0; i < N_GROWTHS; i++) {
        setup s;
        open_setup(f, device_name(f, d),
                   &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = weights[w]}, &s);
        grow(&s, &growths[i]);
        close_setup(&s);
      }
      /* One after the other, as a batch does: 16, 32 and 64 positions of six rows, in old buffers and new ones. */
      setup s;
      open_setup(f, device_name(f, d),
                 &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = weights[w]}, &s);
      for (int32_t round = 0; round < 2; round++) {
        check(tsr_transformer_reserve(s.transformer, 16, 6 * 16));
        fill(&s, 6 * 16);
        check(tsr_transformer_grow_cache(s.transformer, 3, 2, 16, 32));
        check(tsr_transformer_grow_cache(s.transformer, 3, 2, 32, 64));
        check_moved(&s, 6, 16, 64);
      }
      close_setup(&s);
    }
  }
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

/* The reference, which counts what is asked of it. */
static tsr_backend table;
static const tsr_backend *reference;
static struct {
  int32_t reads, writes, compiles, runs;
} calls;

static int32_t counting_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes)
{
  calls.reads++;
  return reference->buffer_read(buffer, offset, size, bytes);
}

static int32_t counting_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes)
{
  calls.writes++;
  return reference->buffer_write(buffer, offset, size, bytes);
}

static int32_t counting_compile(tsr_backend_device *device, const tsr_compile_args *args,
                                tsr_backend_executable **executable)
{
  calls.compiles++;
  return reference->compile(device, args, executable);
}

static int32_t counting_run(tsr_backend_executable *executable)
{
  calls.runs++;
  return reference->run(executable);
}

static const tsr_backend *query_counting(uint32_t major, const tsr_host *host)
{
  reference = tessera_backend_query(major, host);
  table = *reference;
  table.name = "counting";
  table.buffer_read = counting_read;
  table.buffer_write = counting_write;
  table.compile = counting_compile;
  table.run = counting_run;
  return &table;
}

static void assert_calls(int32_t compiles, int32_t runs)
{
  assert_int_equal(calls.reads, 0);
  assert_int_equal(calls.writes, 0);
  assert_int_equal(calls.compiles, compiles);
  assert_int_equal(calls.runs, runs);
  memset(&calls, 0, sizeof calls);
}

static void test_host(void **state)
{
  const fixture *f = *state;
  setup s;
  random_model_write(f->folder, &model);
  fixture own = {.folder = f->folder};
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = ""}, &own.runtime));
  check(tsr_runtime_register(own.runtime, query_counting));
  open_setup(&own, "counting", NULL, &s);
  check(tsr_transformer_reserve(s.transformer, 16, 256));
  memset(&calls, 0, sizeof calls);

  check(tsr_transformer_grow_cache(s.transformer, 2, 2, 16, 32));
  assert_calls(1, 1); /* all states in one run */
  check(tsr_transformer_grow_cache(s.transformer, 2, 2, 32, 64));
  assert_calls(1, 1);
  check(tsr_transformer_grow_cache(s.transformer, 2, 2, 16, 32));
  assert_calls(0, 1); /* the program was kept */
  check(tsr_transformer_grow_cache(s.transformer, 1, 1, 128, 256));
  assert_calls(0, 0); /* one row stays where it is */
  check(tsr_transformer_grow_cache(s.transformer, 2, 2, 64, 128));
  assert_calls(n_states(&s), n_states(&s)); /* into larger buffers */
  close_setup(&s);
  tsr_runtime_destroy(own.runtime);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Where there is no room for some state, the error says which, and the transformer goes on in the room that it has. */
static void test_no_memory(void **state)
{
  const fixture *f = *state;
  setup s;
  random_model_write(f->folder, &model);
  fixture own = {.folder = f->folder};
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = ""}, &own.runtime));
  register_failing(own.runtime);
  open_setup(&own, "failing", NULL, &s);
  for (int32_t room = 0; room < n_states(&s); room++) {
    check(tsr_transformer_reserve(s.transformer, 16, 64));
    fail_after_buffers(room);
    assert_int_equal(tsr_transformer_grow_cache(s.transformer, 2, 2, 16, 32), TSR_ERR_DEVICE_MEMORY);
    fail_after_buffers(FAILING_NEVER);
    assert_int_equal(s.transformer->self.rows, 64);
    grow(&s, &growths[0]);
  }
  close_setup(&s);
  tsr_runtime_destroy(own.runtime);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits),
      cmocka_unit_test(test_host),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
