/* SPDX-License-Identifier: Apache-2.0
 *
 * matrix.h without instructions for it: what they would compute.
 */
#include "matrix.h"

/* A bf16; zero in place of a subnormal one. */
static double widen(uint16_t bf16)
{
  const uint32_t bits = (bf16 & 0x7f80u) != 0 ? (uint32_t)bf16 << 16 : (uint32_t)(bf16 & 0x8000u) << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

/* A sum of f32 numbers, or of one and a product of two of bf16, to f32. A double holds the product, and so much of the
 * sum that rounding it twice is rounding it once. Zero where that would be below the normal numbers if f32 had smaller
 * exponents. */
static float narrow(double sum)
{
  return fabs(sum) < 0x1p-126 - 0x1p-151 ? 0.0f : (float)sum;
}

#if defined(CPU_EMULATES_DOTS)

/* sum + the products of a row and a column, word by word. */
static float add_products(float sum, const uint16_t *a, const uint16_t *b, int64_t words)
{
  for (int64_t word = 0; word < words; word++, a += 2, b += 2 * (int64_t)CPU_STRIP) {
    sum = narrow(widen(a[1]) * widen(b[1]) + (double)sum);
    sum = narrow(widen(a[0]) * widen(b[0]) + (double)sum);
  }
  return sum;
}

#else

/* One tile's share of an element: 16 words of a row and of a column. */
static float pairs(const uint16_t *a, const uint16_t *b)
{
  float first = 0.0f, second = 0.0f;
  for (int64_t word = 0; word < CPU_MATRIX_WORDS; word++) {
    first = narrow(widen(a[2 * word]) * widen(b[2 * word * CPU_STRIP]) + (double)first);
    second = narrow(widen(a[2 * word + 1]) * widen(b[2 * word * CPU_STRIP + 1]) + (double)second);
  }
  return narrow((double)first + (double)second);
}

/* sum + the products of a row and a column, tile by tile. */
static float add_products(float sum, const uint16_t *a, const uint16_t *b, int64_t words)
{
  for (int64_t word = 0; word < words; word += CPU_MATRIX_WORDS) {
    sum = narrow((double)sum + (double)pairs(a + 2 * word, b + 2 * word * CPU_STRIP));
  }
  return sum;
}

#endif

void cpu_matrix_configure(int64_t rows)
{
  (void)rows;
}

void cpu_matrix_release(void)
{
}

void cpu_matrix_multiply(const cpu_matrix_block *block)
{
  const uint16_t *b = block->b;
  assert(block->kind == CPU_MATRIX_BF16);
  for (int64_t i = 0; i < block->rows; i++) {
    const uint16_t *a = (const uint16_t *)(const void *)((const char *)block->a + i * block->a_step);
    float *c = (float *)block->c + i * block->c_row;
    for (int64_t n = 0; n < block->strips * CPU_STRIP; n++) {
      const uint16_t *column = b + (n / CPU_STRIP * block->words * CPU_STRIP + n % CPU_STRIP) * 2;
      c[n] = add_products(block->add ? c[n] : 0.0f, a, column, block->words);
    }
  }
}
