/* SPDX-License-Identifier: Apache-2.0
 *
 * core/base: messages, conversions, shapes, the arena.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/arena.h"
#include "core/base/sized.h"
#include "tessera/philox.h"
#include "tessera/tensor.h"

static void test_messages(void **state)
{
  (void)state;
  assert_int_equal(tsr_fail(TSR_ERR_IO, "%s: cannot be read", "model.bin"), TSR_ERR_IO);
  assert_string_equal(tsr_error_message(), "model.bin: cannot be read");
  assert_int_equal(tsr_fail_context(TSR_ERR_IO, "loading %d", 7), TSR_ERR_IO);
  assert_string_equal(tsr_error_message(), "loading 7: model.bin: cannot be read");
  assert_int_equal(tsr_fail_context(TSR_OK, "unused"), TSR_OK);
  assert_string_equal(tsr_error_message(), "loading 7: model.bin: cannot be read");
  /* A message may be built from itself, and is cut, not overrun. */
  for (int i = 0; i < 12; i++) {
    tsr_fail(TSR_ERR_FORMAT, "%s|%s", tsr_error_message(), tsr_error_message());
  }
  assert_true(strlen(tsr_error_message()) > 1000 && strlen(tsr_error_message()) < 4096);
  tsr_fail_context(TSR_ERR_FORMAT, "%s", tsr_error_message());
  assert_true(strlen(tsr_error_message()) < 4096);
  assert_string_equal(tsr_status_name(TSR_ERR_DEVICE_LOST), "TSR_ERR_DEVICE_LOST");
  assert_string_equal(tsr_status_name(TSR_ERR_DEADLINE + 1), "TSR_ERR_?");
  assert_string_equal(tsr_status_name(-1), "TSR_ERR_?");
}

/* Every f16 comes back from f32, and lies between its neighbours. */
static void test_f16(void **state)
{
  (void)state;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    float value = tsr_f16_to_f32((uint16_t)bits);
    uint16_t back = tsr_f32_to_f16(value);
    if (isnan(value)) {
      assert_true((back & 0x7c00u) == 0x7c00u && (back & 0x3ffu) != 0);
    } else {
      assert_int_equal(back, bits);
    }
  }
  /* Ties go to even: halfway between neighbours, for normal and subnormal numbers. */
  for (uint32_t bits = 0; bits < 0x7bff; bits++) {
    double low = (double)tsr_f16_to_f32((uint16_t)bits), high = (double)tsr_f16_to_f32((uint16_t)(bits + 1));
    float middle = (float)((low + high) / 2);
    assert_int_equal(tsr_f32_to_f16(middle), bits + (bits & 1u));
    assert_int_equal(tsr_f32_to_f16(nextafterf(middle, INFINITY)), bits + 1);
    assert_int_equal(tsr_f32_to_f16(nextafterf(middle, 0.0f)), bits);
  }
  assert_int_equal(tsr_f32_to_f16(65519.996f), 0x7bff);
  assert_int_equal(tsr_f32_to_f16(65520.0f), 0x7c00);
  assert_int_equal(tsr_f32_to_f16(-1e30f), 0xfc00);
  assert_int_equal(tsr_f32_to_f16(-0.0f), 0x8000);
}

static void test_bf16(void **state)
{
  (void)state;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    float value = tsr_bf16_to_f32((uint16_t)bits);
    if (isnan(value)) {
      assert_true(isnan(tsr_bf16_to_f32(tsr_f32_to_bf16(value))));
    } else {
      assert_int_equal(tsr_f32_to_bf16(value), bits);
    }
  }
  assert_int_equal(tsr_f32_to_bf16(1.00390625f), 0x3f80); /* a tie: to even, down */
  assert_int_equal(tsr_f32_to_bf16(1.01171875f), 0x3f82); /* a tie: to even, up */
  assert_int_equal(tsr_f32_to_bf16(3.4e38f), 0x7f80);
}

static void test_convert(void **state)
{
  (void)state;
  /* From an address that fits no type. */
  char bytes[1 + 3 * sizeof(float)];
  const float values[3] = {1.5f, -2.25f, 1e-7f};
  memcpy(bytes + 1, values, sizeof values);
  uint16_t halves[3];
  assert_int_equal(tsr_convert(TSR_F32, bytes + 1, TSR_F16, halves, 3), TSR_OK);
  float back[3];
  assert_int_equal(tsr_convert(TSR_F16, halves, TSR_F32, back, 3), TSR_OK);
  assert_true(back[0] == 1.5f && back[1] == -2.25f && back[2] == 0x1p-23f);
  assert_int_equal(tsr_convert(TSR_I32, values, TSR_F32, back, 3), TSR_ERR_DTYPE);
  assert_non_null(strstr(tsr_error_message(), "i32"));
}

static void test_shapes(void **state)
{
  (void)state;
  char text[32];
  tsr_shape shape = TSR_SHAPE(2, 3, 0);
  assert_int_equal(tsr_shape_elements(&shape), 0);
  assert_string_equal(tsr_shape_print(&shape, text, sizeof text), "[2, 3, 0]");
  assert_string_equal(tsr_shape_print(&shape, text, 5), "[2, ");
  shape = tsr_shape_make(0, NULL);
  assert_int_equal(tsr_shape_elements(&shape), 1);
  assert_string_equal(tsr_shape_print(&shape, text, sizeof text), "[]");
  shape = TSR_SHAPE(INT64_MAX / 2, 3);
  assert_int_equal(tsr_shape_elements(&shape), -1);
  shape = TSR_SHAPE(4, -1);
  assert_int_equal(tsr_shape_elements(&shape), -1);
  shape = TSR_SHAPE(1, 2, 3, 4, 5);
  assert_int_equal(tsr_shape_elements(&shape), -1);
  assert_string_equal(tsr_shape_print(&shape, text, sizeof text), "of rank 5");
  shape.rank = -1;
  assert_string_equal(tsr_shape_print(&shape, text, sizeof text), "of rank -1");
}

static void test_arena(void **state)
{
  (void)state;
  tsr_arena arena = {0};
  for (size_t i = 1; i < 5000; i += 37) {
    unsigned char *bytes = tsr_arena_take(&arena, i * 10);
    assert_non_null(bytes);
    assert_int_equal((uintptr_t)bytes % sizeof(void *), 0);
    for (size_t j = 0; j < i * 10; j++) {
      assert_int_equal(bytes[j], 0);
    }
    memset(bytes, 0xff, i * 10);
  }
  assert_string_equal(tsr_arena_text(&arena, "label"), "label");
  assert_null(tsr_arena_take(&arena, SIZE_MAX));
  tsr_arena_finish(&arena);
}

/* The known answers that the generator's authors publish. */
static void test_philox(void **state)
{
  (void)state;
  static const struct {
    uint32_t counter[4];
    uint32_t key[2];
    uint32_t expected[4];
  } answers[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    uint32_t out[4];
    tsr_philox4x32(answers[i].counter, answers[i].key, out);
    assert_memory_equal(out, answers[i].expected, sizeof out);
    /* The result may take the counter's place. */
    memcpy(out, answers[i].counter, sizeof out);
    tsr_philox4x32(out, answers[i].key, out);
    assert_memory_equal(out, answers[i].expected, sizeof out);
  }
}

/* A struct at three ages: as a caller of the first version knew it, as the library has it, and of the future. */
typedef struct old_options {
  uint32_t struct_size;
  int32_t a;
} old_options;
typedef struct options {
  uint32_t struct_size;
  int32_t a;
  int32_t b;
  int32_t c;
} options;
typedef struct new_options {
  uint32_t struct_size;
  int32_t a;
  int32_t b;
  int32_t c;
  int64_t d;
} new_options;

static void test_sized_read(void **state)
{
  (void)state;
  options copy;
  assert_int_equal(TSR_SIZED_READ(options, a, NULL, &copy), TSR_OK);
  assert_true(copy.struct_size == sizeof copy && copy.a == 0 && copy.b == 0 && copy.c == 0);
  const options same = {TSR_SIZED(options), .a = 1, .b = 2, .c = 3};
  assert_int_equal(TSR_SIZED_READ(options, a, &same, &copy), TSR_OK);
  assert_memory_equal(&copy, &same, sizeof same);
  const old_options old[2] = {{TSR_SIZED(old_options), .a = 7}, {.struct_size = 99, .a = 99}};
  assert_int_equal(TSR_SIZED_READ(options, a, &old[0], &copy), TSR_OK);
  assert_true(copy.struct_size == sizeof copy && copy.a == 7 && copy.b == 0 && copy.c == 0);
  new_options later = {TSR_SIZED(new_options), .a = 1, .b = 2, .c = 3};
  assert_int_equal(TSR_SIZED_READ(options, a, &later, &copy), TSR_OK);
  assert_memory_equal(&copy, &same, sizeof same);
  later.d = 1;
  assert_int_equal(TSR_SIZED_READ(options, a, &later, &copy), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "options: the field at byte 16 of 24 is set"));
  static const uint32_t impossible[] = {0, 1, sizeof(old_options) - 1, 100000, UINT32_MAX};
  for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
    const options wrong = {.struct_size = impossible[i]};
    assert_int_equal(TSR_SIZED_READ(options, a, &wrong, &copy), TSR_ERR_ARGUMENT);
    assert_non_null(strstr(tsr_error_message(), "options: struct_size is "));
  }
}

static void test_sized_write(void **state)
{
  (void)state;
  const options filled = {TSR_SIZED(options), .a = 1, .b = 2, .c = 3};
  old_options old[2] = {{TSR_SIZED(old_options), .a = 7}, {.struct_size = 99, .a = 99}};
  assert_int_equal(TSR_SIZED_WRITE(options, a, &filled, &old[0]), TSR_OK);
  assert_true(old[0].struct_size == sizeof(old_options) && old[0].a == 1);
  assert_true(old[1].struct_size == 99 && old[1].a == 99); /* nothing behind it was touched */
  new_options later = {TSR_SIZED(new_options), .a = 9, .b = 9, .c = 9, .d = 9};
  assert_int_equal(TSR_SIZED_WRITE(options, a, &filled, &later), TSR_OK);
  assert_true(later.struct_size == sizeof later && later.a == 1 && later.b == 2 && later.c == 3 && later.d == 0);
  later.struct_size = 0;
  assert_int_equal(TSR_SIZED_WRITE(options, a, &filled, &later), TSR_ERR_ARGUMENT);
  assert_int_equal(TSR_SIZED_WRITE(options, a, &filled, NULL), TSR_ERR_ARGUMENT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_messages), cmocka_unit_test(test_f16),        cmocka_unit_test(test_bf16),
      cmocka_unit_test(test_convert),  cmocka_unit_test(test_shapes),     cmocka_unit_test(test_arena),
      cmocka_unit_test(test_philox),   cmocka_unit_test(test_sized_read), cmocka_unit_test(test_sized_write),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
