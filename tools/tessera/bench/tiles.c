/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that measures what a CPU's matrix units reach at most: products of tiles that are there already, four
 * sums in turn, so that none waits for the one before it.
 */
#include <pthread.h>
#include <stdlib.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/progress.h"

#if defined(BENCH_HAS_TILES)

#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROWS = 16, ROW_BYTES = 64, SUMS = 4, TILES = 8, TURNS = 200000 };

/* The operand of LDTILECFG. */
typedef struct tile_configuration {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_configuration;

/* AMX-BF16, AMX-TILE and AMX-INT8, and the system's leave to use them (arch_prctl(2)). */
static int have_tiles(void)
{
  enum { ARCH_REQUEST_STATE = 0x1023, STATE_OF_TILES = 18 };
  const unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25;
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted &&
         syscall(SYS_arch_prctl, ARCH_REQUEST_STATE, STATE_OF_TILES) == 0;
}

static void *multiply(void *argument)
{
  const int32_t kind = *(const int32_t *)argument;
  tile_configuration tiles = {.palette = 1};
  for (int i = 0; i < TILES; i++) {
    tiles.row_bytes[i] = ROW_BYTES;
    tiles.rows[i] = ROWS;
  }
  atomic_signal_fence(memory_order_seq_cst);
  _tile_loadconfig(&tiles); /* which makes zeros of all tiles */
  for (int32_t i = 0; i < TURNS && kind == BENCH_TILES_BF16; i++) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  for (int32_t i = 0; i < TURNS && kind == BENCH_TILES_I8; i++) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
  return NULL;
}

/* Of all threads together, a second; a multiplication and an addition are two. */
static double measure(int32_t kind, int32_t threads)
{
  const double size = kind == BENCH_TILES_BF16 ? 2.0 : 1.0;
  const double operations = 2.0 * ROWS * ROWS * (ROW_BYTES / size) * SUMS * TURNS;
  pthread_t *handles = calloc((size_t)threads, sizeof *handles);
  const double start = tsr_cli_seconds();
  int32_t started = 0;
  while (handles && started < threads && pthread_create(&handles[started], NULL, multiply, &kind) == 0) {
    started++;
  }
  for (int32_t i = 0; i < started; i++) {
    pthread_join(handles[i], NULL);
  }
  free(handles);
  return operations * started / (tsr_cli_seconds() - start);
}

#else

static int have_tiles(void)
{
  return 0;
}

static double measure(int32_t kind, int32_t threads)
{
  (void)kind;
  (void)threads;
  return 0.0;
}

#endif

int bench_tiles_body(const void *task)
{
  (void)task;
  const int have = have_tiles();
  for (int32_t request; bench_next(&request);) {
    const double rate = have ? measure(request % BENCH_TILES_KINDS, request / BENCH_TILES_KINDS) : 0.0;
    bench_reply(&rate, sizeof rate);
  }
  return 0;
}
