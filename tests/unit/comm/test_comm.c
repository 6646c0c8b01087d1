/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over ranks, bit for bit those of one process that adds from the left; and transports that are refused.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/comm/stream.h"
#include "tests/support/ranks.h"

enum { MOST_RANKS = 5, MOST_ELEMENTS = 33 };

/* Element i of array number `array`: as often as not another order of adding gives another sum. */
static float element_of(int32_t array, int64_t i)
{
  const uint32_t mixed = (uint32_t)(array + 1) * 2654435761u ^ (uint32_t)(i + 1) * 2246822519u;
  const float fraction = (float)(mixed >> 8) / 16777216.0f - 0.5f;
  const float scales[] = {1.0f, 0.37f, 2.9f, 0.051f};
  return i % 11 == 0 ? -0.0f : fraction * scales[mixed & 3u];
}

static int has_same_bits(float a, float b)
{
  uint32_t of_a, of_b;
  memcpy(&of_a, &a, sizeof of_a);
  memcpy(&of_b, &b, sizeof of_b);
  return of_a == of_b;
}

static float rounded(tsr_dtype dtype, float value)
{
  return dtype == TSR_BF16 ? tsr_bf16_to_f32(tsr_f32_to_bf16(value)) : value;
}

typedef struct sum_case {
  int32_t size, n_arrays;
  int64_t n, at_once;
  tsr_dtype dtype;
} sum_case;

static float expected_of(const sum_case *c, int64_t i)
{
  float sum = rounded(c->dtype, element_of(0, i));
  for (int32_t array = 1; array < c->n_arrays; array++) {
    sum += rounded(c->dtype, element_of(array, i));
  }
  return rounded(c->dtype, sum);
}

/* Where the buckets end, one of them empty. Returns their number. */
static int32_t divide(const sum_case *c, int64_t ends[4])
{
  ends[0] = c->n / 3;
  ends[1] = ends[2] = c->n / 2;
  ends[3] = c->n;
  return 4;
}

static tsr_status add_rounds(tsr_sum_stream *stream, const sum_case *c, int32_t rank)
{
  int64_t ends[4];
  const int32_t n_buckets = divide(c, ends);
  tsr_status status = TSR_OK;
  for (int32_t first = 0; first < c->n_arrays && status == TSR_OK; first += c->size) {
    const int32_t left = c->n_arrays - first, n_arrays = left < c->size ? left : c->size;
    tsr_sum_stream_begin(stream, n_arrays, first == 0, left <= c->size);
    for (int32_t bucket = 0; bucket < n_buckets && status == TSR_OK; bucket++) {
      for (int64_t i = bucket > 0 ? ends[bucket - 1] : 0; i < ends[bucket]; i++) {
        stream->values[i] = element_of(first + rank, i);
      }
      status = tsr_sum_stream_give(stream);
    }
    for (int32_t bucket = n_buckets - 1; bucket >= 0 && status == TSR_OK; bucket--) {
      status = tsr_sum_stream_await(stream, bucket);
    }
  }
  return status;
}

/* rank_fn */
static tsr_status sum_up(tsr_comm *comm, void *context)
{
  const sum_case *c = context;
  int64_t ends[4];
  const int32_t n_buckets = divide(c, ends);
  tsr_sum_stream stream;
  tsr_status status = tsr_sum_stream_open(&stream, comm, c->dtype, ends, n_buckets, c->at_once);
  if (status == TSR_OK) {
    status = add_rounds(&stream, c, tsr_comm_rank(comm));
  }
  for (int64_t i = 0; i < c->n && status == TSR_OK; i++) {
    const float expected = expected_of(c, i);
    if (!has_same_bits(expected, stream.values[i])) {
      status = tsr_fail(TSR_ERR_INTERNAL, "element %lld is %.9g, expected %.9g", (long long)i, (double)stream.values[i],
                        (double)expected);
    }
  }
  tsr_sum_stream_finish(&stream);
  return status;
}

static void check_sum(const sum_case *c)
{
  rank_result results[MOST_RANKS];
  run_ranks(c->size, sum_up, (void *)c, results);
  for (int32_t rank = 0; rank < c->size; rank++) {
    if (results[rank].status != TSR_OK) {
      fail_msg("rank %d of %d, %d arrays of %lld elements of %s, %lld at once: %s", (int)rank, (int)c->size,
               (int)c->n_arrays, (long long)c->n, tsr_dtype_name(c->dtype), (long long)c->at_once,
               results[rank].message);
    }
  }
}

/* Fewer elements than ranks, shares of different sizes, pieces that do not come out even, rounds that are not full. */
static void test_ordered(void **state)
{
  (void)state;
  static const int64_t counts[] = {1, 2, 3, 7, 16, MOST_ELEMENTS}, at_once[] = {0, 3, 8};
  for (int32_t size = 1; size <= MOST_RANKS; size++) {
    for (int32_t n_arrays = 1; n_arrays <= 2 * size + 1; n_arrays += size > 2 ? size - 1 : 1) {
      for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (size_t k = 0; k < sizeof at_once / sizeof at_once[0]; k++) {
          check_sum(&(sum_case){size, n_arrays, counts[i], at_once[k], (i + k) % 2 ? TSR_BF16 : TSR_F32});
        }
      }
    }
  }
}

/* Whether rank 0 has given its bucket. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int has_given;
} giving = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* rank_fn: rank 1 gives its bucket after rank 0 has done so, and nothing else in between. */
static tsr_status give_later(tsr_comm *comm, void *context)
{
  const int64_t end = 2;
  tsr_sum_stream stream;
  struct timespec late;
  (void)context;
  clock_gettime(CLOCK_REALTIME, &late);
  late.tv_sec += 10;
  tsr_status status = tsr_sum_stream_open(&stream, comm, TSR_F32, &end, 1, 0);
  tsr_sum_stream_begin(&stream, 2, 1, 1);
  pthread_mutex_lock(&giving.lock);
  for (int is_late = 0; tsr_comm_rank(comm) == 1 && !giving.has_given && status == TSR_OK;) {
    status = is_late ? tsr_fail(TSR_ERR_INTERNAL, "rank 0 waits for what it gave") : TSR_OK;
    is_late = status == TSR_OK && pthread_cond_timedwait(&giving.changed, &giving.lock, &late) != 0;
  }
  pthread_mutex_unlock(&giving.lock);
  if (status == TSR_OK) {
    status = tsr_sum_stream_give(&stream);
  }
  pthread_mutex_lock(&giving.lock);
  giving.has_given = 1;
  pthread_cond_broadcast(&giving.changed);
  pthread_mutex_unlock(&giving.lock);
  if (status == TSR_OK) {
    status = tsr_sum_stream_await(&stream, 0);
  }
  tsr_sum_stream_finish(&stream);
  return status;
}

static void test_giving(void **state)
{
  (void)state;
  rank_result results[2];
  run_ranks(2, give_later, NULL, results);
  for (int32_t rank = 0; rank < 2; rank++) {
    assert_string_equal(results[rank].message, "");
    assert_int_equal(results[rank].status, TSR_OK);
  }
}

/* The cases tell one order from another. */
static void test_order_matters(void **state)
{
  (void)state;
  int32_t different = 0;
  for (int64_t i = 0; i < MOST_ELEMENTS; i++) {
    const float a = element_of(0, i), b = element_of(1, i), c = element_of(2, i);
    different += (a + b) + c != a + (b + c);
  }
  assert_true(different > MOST_ELEMENTS / 5);
}

/* Without a communicator: the same numbers as among ranks. */
static void test_alone(void **state)
{
  (void)state;
  sum_case c = {1, 3, 50, 7, TSR_BF16};
  assert_int_equal(sum_up(NULL, &c), TSR_OK);
  float values[3] = {1.0f, 2.0f, 3.0f};
  int32_t number = 7, all = 0;
  assert_int_equal(tsr_comm_allreduce(NULL, values, 3), TSR_OK);
  assert_true(values[2] == 3.0f);
  assert_int_equal(tsr_comm_gather(NULL, &number, sizeof number, &all), TSR_OK);
  assert_int_equal(all, 7);
  assert_int_equal(tsr_comm_broadcast(NULL, &number, sizeof number, 0), TSR_OK);
  assert_int_equal(tsr_comm_barrier(NULL), TSR_OK);
  assert_int_equal(tsr_comm_rank(NULL), 0);
  assert_int_equal(tsr_comm_size(NULL), 1);
  assert_int_equal(tsr_comm_local_rank(NULL), 0);
  assert_int_equal(tsr_comm_local_size(NULL), 1);
  assert_int_equal(tsr_comm_processors(NULL), 0);
  tsr_comm_abort(NULL, 3);
  tsr_comm_close(NULL);
}

/* rank_fn: each call once. */
static tsr_status talk(tsr_comm *comm, void *context)
{
  float values[MOST_ELEMENTS];
  int32_t all[MOST_RANKS], rank = tsr_comm_rank(comm), size = tsr_comm_size(comm), told = rank;
  (void)context;
  for (int64_t i = 0; i < MOST_ELEMENTS; i++) {
    values[i] = element_of(rank, i);
  }
  tsr_status status = tsr_comm_allreduce(comm, values, MOST_ELEMENTS);
  const sum_case c = {size, size, MOST_ELEMENTS, 0, TSR_F32};
  for (int64_t i = 0; i < MOST_ELEMENTS && status == TSR_OK; i++) {
    status = has_same_bits(expected_of(&c, i), values[i]) ? TSR_OK : tsr_fail(TSR_ERR_INTERNAL, "another sum");
  }
  if (status == TSR_OK) {
    status = tsr_comm_gather(comm, &rank, sizeof rank, all);
  }
  for (int32_t i = 0; i < size && status == TSR_OK; i++) {
    status = all[i] == i ? TSR_OK : tsr_fail(TSR_ERR_INTERNAL, "rank %d is %d", (int)i, (int)all[i]);
  }
  if (status == TSR_OK) {
    status = tsr_comm_broadcast(comm, &told, sizeof told, size - 1);
  }
  if (status == TSR_OK && told != size - 1) {
    status = tsr_fail(TSR_ERR_INTERNAL, "%d was told", (int)told);
  }
  return status == TSR_OK ? tsr_comm_barrier(comm) : status;
}

static void test_calls(void **state)
{
  (void)state;
  rank_result results[MOST_RANKS];
  for (int32_t size = 1; size <= MOST_RANKS; size++) {
    run_ranks(size, talk, NULL, results);
    for (int32_t rank = 0; rank < size; rank++) {
      assert_string_equal(results[rank].message, "");
      assert_int_equal(results[rank].status, TSR_OK);
    }
  }
}

/* rank_fn: what is refused before anything is sent. */
static tsr_status misuse(tsr_comm *comm, void *context)
{
  float value = 0.0f;
  const int is_refused = tsr_comm_allreduce(comm, NULL, 2) == TSR_ERR_ARGUMENT &&
                         tsr_comm_allreduce(comm, &value, -1) == TSR_ERR_ARGUMENT &&
                         tsr_comm_gather(comm, &value, 1 << 30, &value) == TSR_ERR_ARGUMENT &&
                         tsr_comm_gather(comm, NULL, 4, &value) == TSR_ERR_ARGUMENT &&
                         tsr_comm_broadcast(comm, &value, sizeof value, 2) == TSR_ERR_ARGUMENT &&
                         tsr_comm_broadcast(comm, &value, -4, 0) == TSR_ERR_ARGUMENT;
  (void)context;
  return is_refused ? TSR_OK : tsr_fail(TSR_ERR_INTERNAL, "something was allowed");
}

static tsr_status end_first(tsr_comm *comm, void *context)
{
  (void)context;
  return tsr_comm_rank(comm) == 1 ? tsr_fail(TSR_ERR_FORMAT, "this rank failed") : tsr_comm_barrier(comm);
}

/* rank_fn: rank 1 gives one bucket of two, and fails. */
static tsr_status end_between(tsr_comm *comm, void *context)
{
  const int64_t ends[] = {2, 4};
  tsr_sum_stream stream;
  tsr_status status = tsr_sum_stream_open(&stream, comm, TSR_F32, ends, 2, 0);
  (void)context;
  tsr_sum_stream_begin(&stream, 2, 1, 1);
  if (status == TSR_OK) {
    status = tsr_sum_stream_give(&stream);
  }
  if (status == TSR_OK && tsr_comm_rank(comm) == 1) {
    status = tsr_fail(TSR_ERR_FORMAT, "this rank failed");
  }
  if (status == TSR_OK) {
    status = tsr_sum_stream_give(&stream);
  }
  for (int32_t bucket = 0; bucket < 2 && status == TSR_OK; bucket++) {
    status = tsr_sum_stream_await(&stream, bucket);
  }
  char kept[200];
  snprintf(kept, sizeof kept, "%s", tsr_error_message());
  tsr_sum_stream_finish(&stream);
  return status == TSR_OK ? TSR_OK : tsr_fail(status, "%s", kept);
}

static void test_errors(void **state)
{
  (void)state;
  rank_result results[2];
  run_ranks(2, end_between, NULL, results);
  assert_int_equal(results[0].status, TSR_ERR_PLUGIN);
  assert_string_equal(results[0].message, "threads: exchange: a rank ended, or the sizes differ");
  assert_int_equal(results[1].status, TSR_ERR_FORMAT);
  assert_string_equal(results[1].message, "this rank failed");
  run_ranks(2, misuse, NULL, results);
  assert_int_equal(results[0].status, TSR_OK);
  assert_int_equal(results[1].status, TSR_OK);
  run_ranks(2, end_first, NULL, results);
  assert_int_equal(results[0].status, TSR_ERR_PLUGIN);
  assert_string_equal(results[0].message, "threads: barrier: a rank ended, or the sizes differ");
  assert_string_equal(results[1].message, "this rank failed");
}

static int32_t open_wrongly(void **context, tsr_comm_place *place)
{
  (void)context;
  place->rank = 3;
  place->size = 2;
  return TSR_OK;
}

static int32_t open_not(void **context, tsr_comm_place *place)
{
  (void)context;
  (void)place;
  return TSR_ERR_PLUGIN;
}

static const char *say_why(void *context)
{
  return context ? "" : "nobody is there";
}

static void do_nothing(void *context)
{
  (void)context;
}

static void assert_refused(const tsr_comm_transport *transport, const char *fragment)
{
  tsr_comm *comm;
  assert_int_equal(tsr_comm_join(transport, NULL, &comm), TSR_ERR_PLUGIN);
  assert_null(comm);
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

static int32_t exchange_nothing(void *context, const void *send, const int64_t *send_sizes, void *receive,
                                const int64_t *receive_sizes)
{
  (void)context, (void)send, (void)send_sizes, (void)receive, (void)receive_sizes;
  return TSR_OK;
}

static int32_t gather_nothing(void *context, const void *mine, void *all, const int64_t *sizes)
{
  (void)context, (void)mine, (void)all, (void)sizes;
  return TSR_OK;
}

static int32_t broadcast_nothing(void *context, void *data, int64_t bytes, int32_t root)
{
  (void)context, (void)data, (void)bytes, (void)root;
  return TSR_OK;
}

static int32_t meet_nobody(void *context)
{
  (void)context;
  return TSR_OK;
}

static void end_nothing(void *context, int32_t code)
{
  (void)context, (void)code;
}

static void test_transports(void **state)
{
  (void)state;
  const tsr_comm_transport whole = {.struct_size = sizeof whole,
                                    .abi_major = TSR_COMM_ABI_MAJOR,
                                    .name = "odd",
                                    .description = "odd",
                                    .open = open_wrongly,
                                    .close = do_nothing,
                                    .exchange = exchange_nothing,
                                    .gather = gather_nothing,
                                    .broadcast = broadcast_nothing,
                                    .barrier = meet_nobody,
                                    .abort = end_nothing,
                                    .message = say_why};
  tsr_comm_transport changed = whole;
  assert_refused(&whole, "rank 3 of 2");
  changed.open = open_not;
  assert_refused(&changed, "odd: the ranks cannot be joined: nobody is there");
  changed = whole;
  changed.abi_major = TSR_COMM_ABI_MAJOR + 1;
  assert_refused(&changed, "a transport of version 2");
  changed = whole;
  changed.struct_size = 8;
  assert_refused(&changed, "a table of 8 bytes");
  changed = whole;
  changed.gather = NULL;
  assert_refused(&changed, "leaves a field of its table empty");
  changed = whole;
  changed.build_flags = ~TSR_BUILD_FLAGS & TSR_BUILD_TSAN;
  if (changed.build_flags) {
    assert_refused(&changed, "the transport was built with ThreadSanitizer");
  }
}

static void test_open(void **state)
{
  (void)state;
  tsr_comm *comm;
  assert_int_equal(tsr_comm_open("../mpi", "", &comm), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_comm_open("none_of_these", "/nowhere:/neither", &comm), TSR_ERR_PLUGIN);
  assert_non_null(strstr(tsr_error_message(), "there is no libtessera-comm-none_of_these"));
  assert_non_null(strstr(tsr_error_message(), "searched: /nowhere, /neither"));
  assert_null(comm);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ordered),    cmocka_unit_test(test_giving), cmocka_unit_test(test_order_matters),
      cmocka_unit_test(test_alone),      cmocka_unit_test(test_calls),  cmocka_unit_test(test_errors),
      cmocka_unit_test(test_transports), cmocka_unit_test(test_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
