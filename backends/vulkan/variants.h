/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants: kernels that compute the same in different ways. A planner chooses one by shapes, strides, types and
 * limits, and says which (tsr_vk_plan.variant); tests and measurements force each in turn (tsr_vk_caps.forced). A
 * variant or a tile size that a planner can choose is a row here.
 */
#ifndef TESSERA_BACKENDS_VULKAN_VARIANTS_H
#define TESSERA_BACKENDS_VULKAN_VARIANTS_H

#include <stdint.h>

/* VARIANT(NAME, "what.variant"): the variants of one operator stand together. */
#define TSR_VK_VARIANTS(VARIANT)                                                                                       \
  VARIANT(MATMUL_PLAIN, "matmul.plain") /* a subgroup's lanes along the columns, no shared memory: for CPUs */         \
  VARIANT(MATMUL_TILED_128X128, "matmul.tiled_128x128") /* rows x columns of a workgroup, through shared memory */     \
  VARIANT(MATMUL_TILED_64X64, "matmul.tiled_64x64")                                                                    \
  VARIANT(MATMUL_TILED_32X64, "matmul.tiled_32x64")                                                                    \
  VARIANT(MATMUL_TILED_32X32, "matmul.tiled_32x32")                                                                    \
  VARIANT(MATMUL_TILED_16X64, "matmul.tiled_16x64")                                                                    \
  VARIANT(MATMUL_VECTOR, "matmul.vector")                   /* few rows: lanes along the depth */                      \
  VARIANT(MATMUL_VECTOR_SUBGROUP, "matmul.vector_subgroup") /* the same, added up by a subgroup */                     \
  VARIANT(MATMUL_GENERIC, "matmul.generic")                 /* any strides, the simplest */                            \
  VARIANT(MATMUL_COOP_F16_128_64, "matmul.coop_f16_128_64") /* cooperative matrices: a tile's side, a part's */        \
  VARIANT(MATMUL_COOP_F16_128, "matmul.coop_f16_128")                                                                  \
  VARIANT(MATMUL_COOP_F16_64, "matmul.coop_f16_64")                                                                    \
  VARIANT(MATMUL_COOP_F16_32, "matmul.coop_f16_32")                                                                    \
  VARIANT(MATMUL_COOP_BF16_128_64, "matmul.coop_bf16_128_64") /* the same with weights of bf16 */                      \
  VARIANT(MATMUL_COOP_BF16_128, "matmul.coop_bf16_128")                                                                \
  VARIANT(MATMUL_COOP_BF16_64, "matmul.coop_bf16_64")                                                                  \
  VARIANT(MATMUL_COOP_BF16_32, "matmul.coop_bf16_32")                                                                  \
  VARIANT(MATMUL_COOP_I8_128_64, "matmul.coop_i8_128_64") /* the same with weights of i8 */                            \
  VARIANT(MATMUL_COOP_I8_128, "matmul.coop_i8_128")                                                                    \
  VARIANT(MATMUL_COOP_I8_64, "matmul.coop_i8_64")                                                                      \
  VARIANT(MATMUL_COOP_I8_32, "matmul.coop_i8_32")                                                                      \
  VARIANT(MATMUL_I8_PLAIN, "matmul.i8_plain") /* weights of i8, or of four bits: as their namesakes above */           \
  VARIANT(MATMUL_I8_VECTOR, "matmul.i8_vector")                                                                        \
  VARIANT(MATMUL_I8_VECTOR_DOT, "matmul.i8_vector_dot") /* by the device's packed products of four bytes */            \
  VARIANT(MATMUL_I8_VECTOR_SUBGROUP, "matmul.i8_vector_subgroup")                                                      \
  VARIANT(MATMUL_I8_VECTOR_SUBGROUP_DOT, "matmul.i8_vector_subgroup_dot")                                              \
  VARIANT(MATMUL_I8_FUSED, "matmul.i8_fused") /* few rows, which each workgroup quantises for itself */                \
  VARIANT(MATMUL_I8_FUSED_DOT, "matmul.i8_fused_dot")                                                                  \
  VARIANT(MATMUL_I8_FUSED_SUBGROUPS, "matmul.i8_fused_subgroups")                                                      \
  VARIANT(MATMUL_I8_FUSED_SUBGROUPS_DOT, "matmul.i8_fused_subgroups_dot")                                              \
  VARIANT(MATMUL_I8_TILED_32, "matmul.i8_tiled_32")                                                                    \
  VARIANT(MATMUL_I8_TILED_32_DOT, "matmul.i8_tiled_32_dot")                                                            \
  VARIANT(MATMUL_I8_TILED_64, "matmul.i8_tiled_64")                                                                    \
  VARIANT(MATMUL_I8_TILED_64_DOT, "matmul.i8_tiled_64_dot")                                                            \
  VARIANT(MATMUL_I8_TILED_128_DOT, "matmul.i8_tiled_128_dot")                                                          \
  VARIANT(MATMUL_I8_GENERIC, "matmul.i8_generic")                                                                      \
  VARIANT(ATTENTION_ROWS, "attention.rows")   /* few queries of a workgroup, its invocations along the keys */         \
  VARIANT(ATTENTION_SPLIT, "attention.split") /* the same, the keys of one query among several workgroups */           \
  VARIANT(ATTENTION_FEW, "attention.few")     /* few queries: all invocations share each key, and each row of v */     \
  VARIANT(ATTENTION_TILED_64X32, "attention.tiled_64x32") /* queries x keys that a workgroup has in shared memory */   \
  VARIANT(ATTENTION_TILED_32X32, "attention.tiled_32x32")                                                              \
  VARIANT(ATTENTION_TILED_32X16, "attention.tiled_32x16")                                                              \
  VARIANT(ATTENTION_TILED_16X32, "attention.tiled_16x32")                                                              \
  VARIANT(ATTENTION_TILED_16X16, "attention.tiled_16x16")                                                              \
  VARIANT(ATTENTION_COOP, "attention.coop")                   /* cooperative matrices, of reduced precision */         \
  VARIANT(ATTENTION_GRADIENT_ROWS, "attention_gradient.rows") /* few rows of a workgroup, as attention.rows */         \
  VARIANT(ATTENTION_GRADIENT_TILED_64X32, "attention_gradient.tiled_64x32") /* rows x others, as attention.tiled */    \
  VARIANT(ATTENTION_GRADIENT_TILED_32X32, "attention_gradient.tiled_32x32")                                            \
  VARIANT(ATTENTION_GRADIENT_TILED_32X16, "attention_gradient.tiled_32x16")                                            \
  VARIANT(ATTENTION_GRADIENT_TILED_16X32, "attention_gradient.tiled_16x32")                                            \
  VARIANT(ATTENTION_GRADIENT_TILED_16X16, "attention_gradient.tiled_16x16")                                            \
  VARIANT(ATTENTION_GRADIENT_COOP, "attention_gradient.coop") /* cooperative matrices, of reduced precision */

enum {
  TSR_VK_VARIANT_AUTO = 0, /* the planner's choice */
#define TSR_VK_VARIANT_ENUM(name, text) TSR_VK_VARIANT_##name,
  TSR_VK_VARIANTS(TSR_VK_VARIANT_ENUM)
#undef TSR_VK_VARIANT_ENUM
      TSR_VK_VARIANT_COUNT
};

/* NULL for one that does not exist, and for TSR_VK_VARIANT_AUTO. */
const char *tsr_vk_variant_name(int32_t variant);

/* The variant of that name; TSR_VK_VARIANT_AUTO if there is none. */
int32_t tsr_vk_variant_find(const char *name);

#endif
