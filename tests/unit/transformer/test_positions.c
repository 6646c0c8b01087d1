/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of positions that are computed, held against their formulas in every place: 700 positions, more than are
 * written at a time.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/transformer/positions.h"
#include "tessera/backend.h"
#include "tessera/runtime.h"

enum { POSITIONS = 700, WIDTH = 12 };

/* Column `column` of position `position`: sines at first and cosines behind them, or in turn. */
static double formula(int32_t kind, int32_t position, int32_t column)
{
  const int32_t pairs = WIDTH / 2;
  const int interleaved = kind == TSR_POSITION_SINUSOID_INTERLEAVED;
  const int32_t pair = interleaved ? column / 2 : column % pairs;
  const int is_sine = interleaved ? column % 2 == 0 : column < pairs;
  const double exponent =
      kind == TSR_POSITION_SINUSOID_TENSOR2TENSOR ? (double)pair / (pairs - 1) : 2.0 * (double)pair / WIDTH;
  const double angle = (double)position * pow(10000.0, -exponent);
  return is_sine ? sin(angle) : cos(angle);
}

static void test_tables(void **state)
{
  (void)state;
  static const struct {
    int32_t kind, offset;
    double bound; /* that of tensor2tensor has angles of f32 */
  } rows[] = {{TSR_POSITION_SINUSOID_HALVES, 0, 1e-7},
              {TSR_POSITION_SINUSOID_HALVES, 2, 1e-7},
              {TSR_POSITION_SINUSOID_INTERLEAVED, 0, 1e-7},
              {TSR_POSITION_SINUSOID_TENSOR2TENSOR, 1, 700.0 * 0x1p-20}};
  tsr_runtime *runtime;
  tsr_device *device;
  assert_int_equal(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = ""}, &runtime),
                   TSR_OK);
  assert_int_equal(tsr_runtime_register(runtime, tessera_backend_query), TSR_OK);
  assert_int_equal(tsr_device_open(runtime, "reference", &device), TSR_OK);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const tsr_transformer_config config = {
        .d_model = WIDTH, .max_positions = POSITIONS, .position = rows[i].kind, .position_offset = rows[i].offset};
    float *table = malloc(sizeof(float[POSITIONS][WIDTH]));
    tsr_buffer *buffer = NULL;
    assert_non_null(table);
    assert_int_equal(tsr_positions_upload(&config, device, &buffer), TSR_OK);
    assert_int_equal(tsr_buffer_read(buffer, 0, sizeof(float[POSITIONS][WIDTH]), table), TSR_OK);
    for (int32_t position = 0; position < POSITIONS; position++) {
      for (int32_t column = 0; column < WIDTH; column++) {
        const double expected = formula(rows[i].kind, position + rows[i].offset, column);
        const double found = (double)table[position * WIDTH + column];
        if (!(fabs(found - expected) <= rows[i].bound)) {
          fail_msg("table %zu, position %d, column %d: %.9g, expected %.9g", i, (int)position, (int)column, found,
                   expected);
        }
      }
    }
    tsr_buffer_destroy(buffer);
    free(table);
  }
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tables)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
