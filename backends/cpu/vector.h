/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of f32 and i32 as wide as the instruction level's registers. Everything is written with the compilers' vector
 * types, which gcc and clang share; where those have no words for an instruction that matters (conversions of f16, dot
 * products of bytes), an intrinsic stands here, and nowhere else, beside the portable form.
 *
 * CPU_LANES: elements in a vector, given by meson with the level's flags.
 */
#ifndef CPU_VECTOR_H
#define CPU_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Registers that a level has for vectors. */
#if CPU_LANES == 16 || defined(__aarch64__)
#define CPU_REGISTERS 32
#else
#define CPU_REGISTERS 16
#endif

typedef float cpu_f32v __attribute__((vector_size(4 * CPU_LANES)));
typedef int32_t cpu_i32v __attribute__((vector_size(4 * CPU_LANES))); /* also what comparisons give: 0 or -1 */
typedef uint32_t cpu_u32v __attribute__((vector_size(4 * CPU_LANES)));
typedef uint64_t cpu_u64v __attribute__((vector_size(4 * CPU_LANES)));
typedef uint16_t cpu_u16v __attribute__((vector_size(2 * CPU_LANES)));

/* CPU_UNROLL: before a loop of a few turns over an array of vectors: unrolled, so that the array stays in registers.
 * With AddressSanitizer clang would take minutes: then CPU_UNROLL_ALWAYS alone unrolls, in the loop where products
 * spend their time, and where CPU_HOLDS is 1 that loop has an array of its own, which stays in registers. CPU_PLAIN:
 * before a function that this loop calls, or the loop's own: UndefinedBehaviorSanitizer leaves it out, as its checks
 * there make sanitized tests three times as long. */
#if defined(__clang__)
#if __has_feature(address_sanitizer)
#define CPU_UNROLL_ALWAYS _Pragma("clang loop unroll(full)")
#define CPU_UNROLL        _Pragma("clang loop unroll(disable)")
#define CPU_PLAIN         __attribute__((no_sanitize("undefined")))
#define CPU_HOLDS         1
#else
#define CPU_UNROLL_ALWAYS _Pragma("unroll")
#define CPU_UNROLL        CPU_UNROLL_ALWAYS
#define CPU_PLAIN
#define CPU_HOLDS 0
#endif
#else
#define CPU_UNROLL_ALWAYS _Pragma("GCC unroll 8")
#define CPU_UNROLL        CPU_UNROLL_ALWAYS
#define CPU_PLAIN
#define CPU_HOLDS 0
#endif

CPU_PLAIN static inline cpu_f32v cpu_load(const float *p)
{
  cpu_f32v v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline void cpu_store(float *p, cpu_f32v v)
{
  memcpy(p, &v, sizeof v);
}

/* Past the caches, to memory that begins where a cache line does. Others see it after cpu_store_end. */
static inline void cpu_store_past(float *p, cpu_f32v v)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)v);
#else
  cpu_store(p, v);
#endif
}

static inline void cpu_store_end(void)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  _mm_sfence();
#endif
}

static inline cpu_i32v cpu_load_i32(const int32_t *p)
{
  cpu_i32v v;
  memcpy(&v, p, sizeof v);
  return v;
}

/* CPU_LANES numbers of 16 bits. */
static inline cpu_i32v cpu_load_u16(const uint16_t *p)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return (cpu_i32v)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
#elif CPU_LANES == 8 && defined(__AVX2__)
  return (cpu_i32v)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
#else
  cpu_i32v v;
  for (int i = 0; i < CPU_LANES; i++) {
    v[i] = p[i];
  }
  return v;
#endif
}

static inline void cpu_store_i32(int32_t *p, cpu_i32v v)
{
  memcpy(p, &v, sizeof v);
}

static inline cpu_f32v cpu_splat(float x)
{
#if CPU_LANES == 16
  return (cpu_f32v){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif CPU_LANES == 8
  return (cpu_f32v){x, x, x, x, x, x, x, x};
#else
  return (cpu_f32v){x, x, x, x};
#endif
}

static inline cpu_i32v cpu_splat_i32(int32_t x)
{
#if CPU_LANES == 16
  return (cpu_i32v){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif CPU_LANES == 8
  return (cpu_i32v){x, x, x, x, x, x, x, x};
#else
  return (cpu_i32v){x, x, x, x};
#endif
}

/* 0, 1, 2, .. */
static inline cpu_i32v cpu_iota(void)
{
#if CPU_LANES == 16
  return (cpu_i32v){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif CPU_LANES == 8
  return (cpu_i32v){0, 1, 2, 3, 4, 5, 6, 7};
#else
  return (cpu_i32v){0, 1, 2, 3};
#endif
}

/* -1 in the first n lanes. */
static inline cpu_i32v cpu_first_lanes(int64_t n)
{
  return cpu_iota() < cpu_splat_i32((int32_t)n);
}

/* The first n elements, up to CPU_LANES; the others are `rest`. Nothing beyond the n is read. */
static inline cpu_f32v cpu_load_part(const float *p, int64_t n, float rest)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return (cpu_f32v)_mm512_mask_loadu_ps((__m512)cpu_splat(rest), (__mmask16)((1u << n) - 1), p);
#elif CPU_LANES == 8 && defined(__AVX2__)
  const cpu_i32v mask = cpu_first_lanes(n);
  return (cpu_f32v)_mm256_blendv_ps((__m256)cpu_splat(rest), _mm256_maskload_ps(p, (__m256i)mask), (__m256)mask);
#else
  cpu_f32v v = cpu_splat(rest);
  for (int i = 0; i < CPU_LANES; i++) {
    v[i] = i < n ? p[i] : rest;
  }
  return v;
#endif
}

static inline void cpu_store_part(float *p, cpu_f32v v, int64_t n)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif CPU_LANES == 8 && defined(__AVX2__)
  _mm256_maskstore_ps(p, (__m256i)cpu_first_lanes(n), (__m256)v);
#else
  for (int i = 0; i < CPU_LANES; i++) {
    if (i < n) {
      p[i] = v[i];
    }
  }
#endif
}

/* The bits of one as the other. */
static inline cpu_i32v cpu_bits(cpu_f32v v)
{
  return (cpu_i32v)v;
}

static inline cpu_f32v cpu_from_bits(cpu_i32v v)
{
  return (cpu_f32v)v;
}

/* a where the mask is -1, b where it is 0. */
static inline cpu_f32v cpu_select(cpu_i32v mask, cpu_f32v a, cpu_f32v b)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return (cpu_f32v)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), (__m512)b, (__m512)a);
#elif CPU_LANES == 8 && defined(__AVX2__)
  return (cpu_f32v)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
#else
  return (cpu_f32v)(((cpu_i32v)a & mask) | ((cpu_i32v)b & ~mask));
#endif
}

static inline cpu_i32v cpu_select_i32(cpu_i32v mask, cpu_i32v a, cpu_i32v b)
{
  return (a & mask) | (b & ~mask);
}

/* -1 where v is NaN. */
static inline cpu_i32v cpu_is_nan(cpu_f32v v)
{
  /* NOLINTNEXTLINE(misc-redundant-expression): it is NaN alone that differs from itself. */
  return v != v;
}

/* 1 if any element of the mask is -1. */
static inline int cpu_any(cpu_i32v mask)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif CPU_LANES == 8 && defined(__AVX2__)
  return _mm256_movemask_ps((__m256)mask) != 0;
#elif CPU_LANES == 4 && defined(__aarch64__)
  return vmaxvq_u32((uint32x4_t)mask) != 0;
#else
  int32_t any = 0;
  for (int i = 0; i < CPU_LANES; i++) {
    any |= mask[i];
  }
  return any != 0;
#endif
}

/* Bit i: element i of the mask is -1. */
static inline uint32_t cpu_mask_bits(cpu_i32v mask)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return _mm512_movepi32_mask((__m512i)mask);
#elif CPU_LANES == 8 && defined(__AVX2__)
  return (uint32_t)_mm256_movemask_ps((__m256)mask);
#else
  uint32_t bits = 0;
  for (int i = 0; i < CPU_LANES; i++) {
    bits |= ((uint32_t)mask[i] & 1u) << i;
  }
  return bits;
#endif
}

/* The larger and the smaller; b where either is NaN. */
static inline cpu_f32v cpu_max(cpu_f32v a, cpu_f32v b)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return (cpu_f32v)_mm512_max_ps((__m512)a, (__m512)b);
#elif CPU_LANES == 8 && defined(__AVX2__)
  return (cpu_f32v)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return cpu_select(a > b, a, b);
#endif
}

static inline cpu_f32v cpu_min(cpu_f32v a, cpu_f32v b)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return (cpu_f32v)_mm512_min_ps((__m512)a, (__m512)b);
#elif CPU_LANES == 8 && defined(__AVX2__)
  return (cpu_f32v)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return cpu_select(a < b, a, b);
#endif
}

static inline cpu_f32v cpu_abs(cpu_f32v v)
{
  return cpu_from_bits(cpu_bits(v) & cpu_splat_i32(0x7fffffff));
}

/* a * b + c, in one rounding where the level has such an instruction. */
static inline cpu_f32v cpu_fma(cpu_f32v a, cpu_f32v b, cpu_f32v c)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return (cpu_f32v)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif CPU_LANES == 8 && defined(__FMA__)
  return (cpu_f32v)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

static inline cpu_f32v cpu_sqrt(cpu_f32v v)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return (cpu_f32v)_mm512_sqrt_ps((__m512)v);
#elif CPU_LANES == 8 && defined(__AVX2__)
  return (cpu_f32v)_mm256_sqrt_ps((__m256)v);
#elif CPU_LANES == 4 && defined(__aarch64__)
  return (cpu_f32v)vsqrtq_f32((float32x4_t)v);
#else
  for (int i = 0; i < CPU_LANES; i++) {
    v[i] = sqrtf(v[i]);
  }
  return v;
#endif
}

/* To the nearest whole number, ties to even; |v| below 2^22. */
static inline cpu_f32v cpu_round(cpu_f32v v)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return (cpu_f32v)_mm512_roundscale_ps((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif CPU_LANES == 8 && defined(__AVX2__)
  return (cpu_f32v)_mm256_round_ps((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif CPU_LANES == 4 && defined(__aarch64__)
  return (cpu_f32v)vrndnq_f32((float32x4_t)v);
#else
  const cpu_f32v magic = cpu_splat(0x1.8p23f); /* adding it pushes the fraction out */
  return (v + magic) - magic;
#endif
}

/* Whole numbers within i32's range. */
static inline cpu_i32v cpu_to_i32(cpu_f32v v)
{
  return __builtin_convertvector(v, cpu_i32v);
}

static inline cpu_f32v cpu_to_f32(cpu_i32v v)
{
  return __builtin_convertvector(v, cpu_f32v);
}

/* Lanes of two vectors, picked by lane(i, w) for each lane i: below CPU_LANES from the first, from there on from the
 * second. */
#if CPU_LANES == 16
#define CPU_PICK(a, b, lane, w)                                                                                        \
  __builtin_shufflevector(a, b, lane(0, w), lane(1, w), lane(2, w), lane(3, w), lane(4, w), lane(5, w), lane(6, w),    \
                          lane(7, w), lane(8, w), lane(9, w), lane(10, w), lane(11, w), lane(12, w), lane(13, w),      \
                          lane(14, w), lane(15, w))
#elif CPU_LANES == 8
#define CPU_PICK(a, b, lane, w)                                                                                        \
  __builtin_shufflevector(a, b, lane(0, w), lane(1, w), lane(2, w), lane(3, w), lane(4, w), lane(5, w), lane(6, w),    \
                          lane(7, w))
#else
#define CPU_PICK(a, b, lane, w) __builtin_shufflevector(a, b, lane(0, w), lane(1, w), lane(2, w), lane(3, w))
#endif

#define CPU_SWAP(i, w) ((i) ^ (w)) /* each lane's partner, w away */

/* Sums and largest elements are taken in halves, an order that does not depend on the compiler. */
static inline float cpu_sum(cpu_f32v v)
{
#if CPU_LANES == 16
  v += CPU_PICK(v, v, CPU_SWAP, 8);
#endif
#if CPU_LANES >= 8
  v += CPU_PICK(v, v, CPU_SWAP, 4);
#endif
  v += CPU_PICK(v, v, CPU_SWAP, 2);
  v += CPU_PICK(v, v, CPU_SWAP, 1);
  return v[0];
}

/* Of two, the second where either is NaN, the first being the one in the lower half. */
static inline float cpu_largest(cpu_f32v v)
{
#if CPU_LANES == 16
  v = cpu_max(v, CPU_PICK(v, v, CPU_SWAP, 8));
#endif
#if CPU_LANES >= 8
  v = cpu_max(v, CPU_PICK(v, v, CPU_SWAP, 4));
#endif
  v = cpu_max(v, CPU_PICK(v, v, CPU_SWAP, 2));
  v = cpu_max(v, CPU_PICK(v, v, CPU_SWAP, 1));
  return v[0];
}

/* ---- a square of vectors --------------------------------------------------------------------------------------- */

#define CPU_SAME(i, w) ((i) + ((i) & (w) ? CPU_LANES : 0)) /* lanes with w from the second */
#define CPU_OTHER(i, w)                                                                                                \
  (((i) ^ (w)) + ((i) & (w) ? CPU_LANES : 0))                     /* each lane's partner, w away, of the same vector */
#define CPU_UPPER(i, w) ((i) & (w) ? CPU_LANES + (i) - (w) : (i)) /* lanes without w of both */
#define CPU_LOWER(i, w) ((i) & (w) ? CPU_LANES + (i) : (i) + (w)) /* lanes with w of both */

#define CPU_SQUARE_STEP(w)                                                                                             \
  static inline void cpu_fold_##w(cpu_f32v *v)                                                                         \
  {                                                                                                                    \
    for (int i = 0; i < (w); i++) {                                                                                    \
      v[i] = CPU_PICK(v[i], v[i + (w)], CPU_SAME, w) + CPU_PICK(v[i], v[i + (w)], CPU_OTHER, w);                       \
    }                                                                                                                  \
  }                                                                                                                    \
  static inline void cpu_exchange_##w(cpu_f32v *v)                                                                     \
  {                                                                                                                    \
    for (int i = 0; i < CPU_LANES; i++) {                                                                              \
      if (!(i & (w))) {                                                                                                \
        const cpu_f32v upper = CPU_PICK(v[i], v[i + (w)], CPU_UPPER, w);                                               \
        v[i + (w)] = CPU_PICK(v[i], v[i + (w)], CPU_LOWER, w);                                                         \
        v[i] = upper;                                                                                                  \
      }                                                                                                                \
    }                                                                                                                  \
  }
#if CPU_LANES == 16
CPU_SQUARE_STEP(8)
#endif
#if CPU_LANES >= 8
CPU_SQUARE_STEP(4)
#endif
CPU_SQUARE_STEP(2)
CPU_SQUARE_STEP(1)

/* Lane i: the sum of v[i], of CPU_LANES vectors, in the order of cpu_sum. v is used up. */
static inline cpu_f32v cpu_sums(cpu_f32v *v)
{
#if CPU_LANES == 16
  cpu_fold_8(v);
#endif
#if CPU_LANES >= 8
  cpu_fold_4(v);
#endif
  cpu_fold_2(v);
  cpu_fold_1(v);
  return v[0];
}

/* Lane i of v[j] becomes lane j of v[i], of CPU_LANES vectors. */
static inline void cpu_transpose(cpu_f32v *v)
{
#if CPU_LANES == 16
  cpu_exchange_8(v);
#endif
#if CPU_LANES >= 8
  cpu_exchange_4(v);
#endif
  cpu_exchange_2(v);
  cpu_exchange_1(v);
}

/* ---- 64-bit lanes ------------------------------------------------------------------------------------------------ */

static inline cpu_u64v cpu_splat_u64(uint64_t x)
{
#if CPU_LANES == 16
  return (cpu_u64v){x, x, x, x, x, x, x, x};
#elif CPU_LANES == 8
  return (cpu_u64v){x, x, x, x};
#else
  return (cpu_u64v){x, x};
#endif
}

/* The products of the lanes' lower halves. */
static inline cpu_u64v cpu_multiply_u32(cpu_u64v a, cpu_u64v b)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return (cpu_u64v)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif CPU_LANES == 8 && defined(__AVX2__)
  return (cpu_u64v)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif CPU_LANES == 4 && defined(__SSE2__)
  return (cpu_u64v)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif CPU_LANES == 4 && defined(__aarch64__)
  return (cpu_u64v)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#else
  const cpu_u64v low = cpu_splat_u64(0xffffffffu);
  return (a & low) * (b & low);
#endif
}

/* a[0], b[0], a[2], b[2], ..: pairs of the even lanes, and of the odd ones. */
static inline cpu_u64v cpu_even_lanes(cpu_u64v a, cpu_u64v b)
{
#if CPU_LANES == 16
  return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
#elif CPU_LANES == 8
  return __builtin_shufflevector(a, b, 0, 4, 2, 6);
#else
  return __builtin_shufflevector(a, b, 0, 2);
#endif
}

static inline cpu_u64v cpu_odd_lanes(cpu_u64v a, cpu_u64v b)
{
#if CPU_LANES == 16
  return __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
#elif CPU_LANES == 8
  return __builtin_shufflevector(a, b, 1, 5, 3, 7);
#else
  return __builtin_shufflevector(a, b, 1, 3);
#endif
}

/* ---- storage types --------------------------------------------------------------------------------------------- */

/* bf16 is the upper half of an f32. */
static inline cpu_f32v cpu_load_bf16(const uint16_t *p)
{
  return (cpu_f32v)(cpu_load_u16(p) << 16);
}

static inline cpu_f32v cpu_load_f16(const uint16_t *p)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  return (cpu_f32v)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
#elif CPU_LANES == 8 && defined(__F16C__)
  return (cpu_f32v)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
#elif CPU_LANES == 4 && defined(__aarch64__)
  return (cpu_f32v)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
  /* The fields are moved to where an f32 has them; the product repairs the exponent's bias, subnormals included. */
  const cpu_u32v half = (cpu_u32v)cpu_load_u16(p);
  const cpu_u32v magnitude = half & 0x7fffu, sign = (half & 0x8000u) << 16;
  const cpu_f32v finite = (cpu_f32v)(magnitude << 13) * cpu_splat(0x1p112f);
  const cpu_f32v special = (cpu_f32v)(magnitude << 13 | 0x7f800000u);
  const cpu_f32v value = cpu_select((cpu_i32v)(magnitude >= 0x7c00u), special, finite);
  return (cpu_f32v)((cpu_u32v)value | sign);
#endif
}

/* To nearest, ties to even; beyond the largest number to an infinity. */
static inline cpu_u16v cpu_to_bf16(cpu_f32v value)
{
  const cpu_u32v bits = (cpu_u32v)value, odd = bits >> 16 & 1u;
  const cpu_i32v rounded = (cpu_i32v)((bits + 0x7fffu + odd) >> 16), nan = (cpu_i32v)(bits >> 16 | 0x40u);
  return __builtin_convertvector((cpu_u32v)cpu_select_i32(cpu_is_nan(value), nan, rounded), cpu_u16v);
}

/* To nearest, ties to even. */
static inline cpu_u16v cpu_to_f16(cpu_f32v value)
{
#if CPU_LANES == 4 && defined(__aarch64__)
  return (cpu_u16v)vcvt_f16_f32((float32x4_t)value);
#else
  const cpu_u32v bits = (cpu_u32v)value, sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  const cpu_f32v size = cpu_abs(value), zero = cpu_splat(0.0f);
  /* subnormal: multiples of 2^-24, and the smallest normal number if it rounds up */
  const cpu_i32v small = size < cpu_splat(0x1p-14f);
  const cpu_i32v steps = cpu_to_i32(cpu_round(cpu_select(small, size, zero) * cpu_splat(0x1p24f)));
  /* a carry out of the fraction raises the exponent, as it should */
  const cpu_u32v odd = magnitude >> 13 & 1u;
  const cpu_i32v normal = (cpu_i32v)((magnitude + 0xfffu + odd - ((127u - 15u) << 23)) >> 13);
  cpu_i32v result = cpu_select_i32(small, steps, normal);
  /* from halfway between the largest number, 65504, and the next that there would be */
  result = cpu_select_i32(size >= cpu_splat(65520.0f), cpu_splat_i32(0x7c00), result);
  result = cpu_select_i32(cpu_is_nan(value), cpu_splat_i32(0x7e00), result);
  return __builtin_convertvector((cpu_u32v)result | sign, cpu_u16v);
#endif
}

/* ---- dot products of bytes --------------------------------------------------------------------------------------- */

/* 1 where matrix.h has tiles, CPU_HAS_MATRIX where it has tiles or vectors of pairs or computes what they would. */
#if defined(CPU_MATRIX_TILES) /* the compilers have different names for it */
#define CPU_MATRIX_UNITS 1
#else
#define CPU_MATRIX_UNITS 0
#endif
#if CPU_MATRIX_UNITS || defined(CPU_MATRIX_DOTS) || defined(CPU_MATRIX_EMULATED)
#define CPU_HAS_MATRIX 1
#else
#define CPU_HAS_MATRIX 0
#endif

/* Products of i8 come in groups of CPU_GROUP steps of k, of which a cpu_group_word holds those of one row. With x86's
 * dot-product instructions four bytes, those of a signed, those of b as b + 128; with matrix units, or Arm's
 * instructions, four signed bytes of both, or eight, where an instruction multiplies two rows by two columns
 * (CPU_HAS_SQUARES); without, two 16-bit numbers of a, and two bytes of b as they are. CPU_SHIFT is what was added to
 * b. */
#if CPU_LANES == 4 && defined(__ARM_FEATURE_MATMUL_INT8)
#define CPU_HAS_SQUARES 1
#else
#define CPU_HAS_SQUARES 0
#endif
#if (CPU_LANES == 16 && defined(__AVX512VNNI__)) || (CPU_LANES == 8 && defined(__AVXVNNI__)) ||                        \
    (CPU_LANES == 4 && defined(__ARM_FEATURE_DOTPROD))
#define CPU_HAS_DOT 1
#else
#define CPU_HAS_DOT 0
#endif
#if CPU_HAS_SQUARES
enum { CPU_GROUP = 8, CPU_SHIFT = 0 };
typedef int8_t cpu_group_element;
typedef int64_t cpu_group_word;
#elif CPU_MATRIX_UNITS
enum { CPU_GROUP = 4, CPU_SHIFT = 0 };
typedef int8_t cpu_group_element;
typedef int32_t cpu_group_word;
#elif CPU_HAS_DOT
enum { CPU_GROUP = 4, CPU_SHIFT = CPU_LANES == 4 ? 0 : 128 };
typedef int8_t cpu_group_element;
typedef int32_t cpu_group_word;
#else
enum { CPU_GROUP = 2, CPU_SHIFT = 0 };
typedef int16_t cpu_group_element;
typedef int32_t cpu_group_word;
#endif
/* sum + the products of four signed bytes in each lane of a with four of 0 .. 15 in that of b: whole numbers, the same
 * with all instructions. */
static inline cpu_i32v cpu_dot_bytes(cpu_i32v sum, cpu_i32v a, cpu_i32v b)
{
#if CPU_LANES == 16 && defined(__AVX512VNNI__)
  return (cpu_i32v)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)b, (__m512i)a);
#elif CPU_LANES == 8 && defined(__AVXVNNI__)
  return (cpu_i32v)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)b, (__m256i)a);
#elif CPU_LANES == 4 && defined(__ARM_FEATURE_DOTPROD)
  return (cpu_i32v)vdotq_s32((int32x4_t)sum, (int8x16_t)a, (int8x16_t)b);
#elif CPU_LANES == 16 && defined(__AVX512BW__)
  const __m512i pairs = _mm512_maddubs_epi16((__m512i)b, (__m512i)a); /* at most 2 * 15 * 127 */
  return sum + (cpu_i32v)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#elif CPU_LANES == 8 && defined(__AVX2__)
  const __m256i pairs = _mm256_maddubs_epi16((__m256i)b, (__m256i)a);
  return sum + (cpu_i32v)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
  for (int byte = 0; byte < 4; byte++) {
    sum += (a << (24 - 8 * byte) >> 24) * (b >> 8 * byte & 15);
  }
  return sum;
#endif
}

/* CPU_LANES / 4 numbers of f16, each in four lanes side by side. */
static inline cpu_f32v cpu_load_fourfold(const uint16_t *p)
{
#if CPU_LANES == 16 && defined(__AVX512F__)
  const __m256i order =
      _mm256_set_epi8(7, 6, 7, 6, 7, 6, 7, 6, 5, 4, 5, 4, 5, 4, 5, 4, 3, 2, 3, 2, 3, 2, 3, 2, 1, 0, 1, 0, 1, 0, 1, 0);
  int64_t four;
  memcpy(&four, p, sizeof four);
  return (cpu_f32v)_mm512_cvtph_ps(_mm256_shuffle_epi8(_mm256_set1_epi64x(four), order));
#elif CPU_LANES == 8 && defined(__AVX2__)
  const __m128i order = _mm_set_epi8(3, 2, 3, 2, 3, 2, 3, 2, 1, 0, 1, 0, 1, 0, 1, 0);
  int32_t two;
  memcpy(&two, p, sizeof two);
  return (cpu_f32v)_mm256_cvtph_ps(_mm_shuffle_epi8(_mm_set1_epi32(two), order));
#else
  uint16_t all[CPU_LANES];
  for (int i = 0; i < CPU_LANES; i++) {
    all[i] = p[i / 4];
  }
  return cpu_load_f16(all);
#endif
}

typedef cpu_group_element cpu_group_vector __attribute__((vector_size(sizeof(cpu_group_element) * CPU_LANES)));

#if CPU_MATRIX_UNITS

/* Tiles of bytes (matrix.h) take the place of vectors. */

#elif CPU_HAS_SQUARES

/* sum + the products of the groups of two rows with those of two columns, which lie side by side. Lanes: row 0 with
 * columns 0 and 1, row 1 with columns 0 and 1. */
static inline cpu_i32v cpu_dot_square(cpu_i32v sum, cpu_group_word row_0, cpu_group_word row_1, const uint8_t *columns)
{
  const int64x2_t rows = vcombine_s64(vcreate_s64((uint64_t)row_0), vcreate_s64((uint64_t)row_1));
  return (cpu_i32v)vmmlaq_s32((int32x4_t)sum, vreinterpretq_s8_s64(rows), vld1q_s8((const int8_t *)columns));
}

#else

/* The groups of as many columns as there are lanes, ready for cpu_dot. */
static inline cpu_i32v cpu_load_groups(const uint8_t *p)
{
#if CPU_HAS_DOT
  return cpu_load_i32((const int32_t *)(const void *)p);
#elif CPU_LANES == 16 && defined(__AVX512BW__)
  return (cpu_i32v)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
#elif CPU_LANES == 8 && defined(__AVX2__)
  return (cpu_i32v)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
#else
  typedef int8_t bytes __attribute__((vector_size(2 * CPU_LANES)));
  typedef int16_t halves __attribute__((vector_size(4 * CPU_LANES)));
  bytes b;
  memcpy(&b, p, sizeof b);
  return (cpu_i32v) __builtin_convertvector(b, halves);
#endif
}

/* sum + the products of one row's group, in each lane of a, with each column's group in b. */
static inline cpu_i32v cpu_dot(cpu_i32v sum, cpu_i32v a, cpu_i32v b)
{
#if CPU_LANES == 16 && CPU_HAS_DOT
  return (cpu_i32v)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)b, (__m512i)a);
#elif CPU_LANES == 8 && CPU_HAS_DOT
  return (cpu_i32v)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)b, (__m256i)a);
#elif CPU_LANES == 4 && CPU_HAS_DOT
  return (cpu_i32v)vdotq_s32((int32x4_t)sum, (int8x16_t)a, (int8x16_t)b);
#elif CPU_LANES == 16 && defined(__AVX512BW__)
  return sum + (cpu_i32v)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif CPU_LANES == 8 && defined(__AVX2__)
  return sum + (cpu_i32v)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
  const cpu_i32v low_a = a << 16 >> 16, low_b = b << 16 >> 16; /* both halves by arithmetic shifts */
  return sum + low_a * low_b + (a >> 16) * (b >> 16);
#endif
}

#endif

#endif
