/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/tensor.h: element types, shapes, and conversions between storage formats on the host.
 *
 * The letters used for dimensions everywhere: B batch, L query length, S key length, H heads, D d_model, K head size,
 * F d_ff, V vocabulary, N beam.
 */
#ifndef TESSERA_TENSOR_H
#define TESSERA_TENSOR_H

#include "tessera/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t tsr_dtype; /* TSR_F32, TSR_F16, TSR_BF16, TSR_I8, TSR_I32 */

/* "f32", "f16", "bf16", "i8", "i32"; "?" for an unknown number. Static. Any thread. */
TSR_API const char *tsr_dtype_name(tsr_dtype dtype);

/* Bytes of one element; 0 for an unknown number. */
TSR_API size_t tsr_dtype_size(tsr_dtype dtype);

typedef struct tsr_shape {
  int32_t rank;                 /* 0 to TSR_MAX_RANK */
  int64_t extent[TSR_MAX_RANK]; /* outermost first, each at least 0; beyond rank: 1 */
} tsr_shape;

/* TSR_SHAPE(2, 3) is a tsr_shape of rank 2; at most TSR_MAX_RANK extents. */
#define TSR_SHAPE(...)                                                                                                 \
  tsr_shape_make((int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
TSR_API tsr_shape tsr_shape_make(int32_t rank, const int64_t *extent);

/* The product of the extents; 1 for a scalar; -1 if it overflows an int64 or a part is negative. */
TSR_API int64_t tsr_shape_elements(const tsr_shape *shape);

/* 1 if ranks and extents are equal. */
TSR_API int tsr_shape_equal(const tsr_shape *a, const tsr_shape *b);

/* Writes "[2, 3]" into text (size bytes, cut if too small) and returns text; for an invalid rank, only the rank. */
TSR_API char *tsr_shape_print(const tsr_shape *shape, char *text, size_t size);

/* One element. Widening is exact; narrowing rounds to nearest, ties to even; overflow gives infinity; NaN stays NaN. */
TSR_API float tsr_f16_to_f32(uint16_t bits);
TSR_API uint16_t tsr_f32_to_f16(float value);
TSR_API float tsr_bf16_to_f32(uint16_t bits);
TSR_API uint16_t tsr_f32_to_bf16(float value);

/* n elements between any two of f32, f16 and bf16 (or equal types). from and to do not overlap.
 * Errors: TSR_ERR_DTYPE. */
TSR_API tsr_status tsr_convert(tsr_dtype from_dtype, const void *from, tsr_dtype to_dtype, void *to, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
