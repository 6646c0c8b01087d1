/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms: kernels that compute the same in different ways. A planner chooses one by shapes, strides, types and limits,
 * and says which (tsr_vk_plan.form); tests and measurements force each in turn (tsr_vk_caps.forced). A form or a tile
 * size that a planner can choose is a row here.
 */
#ifndef TESSERA_BACKENDS_VULKAN_FORMS_H
#define TESSERA_BACKENDS_VULKAN_FORMS_H

#include <stdint.h>

/* FORM(NAME, "what.form"): the forms of one operator stand together. */
#define TSR_VK_FORMS(FORM)                                                                                             \
  FORM(MATMUL_PLAIN, "matmul.plain") /* a subgroup's lanes along the columns, no shared memory: for CPUs */            \
  FORM(MATMUL_TILED_128X128, "matmul.tiled_128x128") /* rows x columns of a workgroup, through shared memory */        \
  FORM(MATMUL_TILED_64X64, "matmul.tiled_64x64")                                                                       \
  FORM(MATMUL_TILED_32X64, "matmul.tiled_32x64")                                                                       \
  FORM(MATMUL_TILED_32X32, "matmul.tiled_32x32")                                                                       \
  FORM(MATMUL_TILED_16X64, "matmul.tiled_16x64")                                                                       \
  FORM(MATMUL_VECTOR, "matmul.vector")                   /* few rows: lanes along the depth */                         \
  FORM(MATMUL_VECTOR_SUBGROUP, "matmul.vector_subgroup") /* the same, added up by a subgroup */                        \
  FORM(MATMUL_GENERIC, "matmul.generic")                 /* any strides, the simplest */                               \
  FORM(MATMUL_COOP_F16_128, "matmul.coop_f16_128")       /* narrow: cooperative matrices, by the rows of a tile */     \
  FORM(MATMUL_COOP_F16_64, "matmul.coop_f16_64")                                                                       \
  FORM(MATMUL_COOP_F16_32, "matmul.coop_f16_32")                                                                       \
  FORM(MATMUL_COOP_I8_128, "matmul.coop_i8_128") /* the same with weights of i8 */                                     \
  FORM(MATMUL_COOP_I8_64, "matmul.coop_i8_64")                                                                         \
  FORM(MATMUL_COOP_I8_32, "matmul.coop_i8_32")                                                                         \
  FORM(MATMUL_I8_PLAIN, "matmul.i8_plain") /* weights of i8: as their namesakes above */                               \
  FORM(MATMUL_I8_VECTOR, "matmul.i8_vector")                                                                           \
  FORM(MATMUL_I8_VECTOR_DOT, "matmul.i8_vector_dot") /* by the device's packed products of four bytes */               \
  FORM(MATMUL_I8_VECTOR_SUBGROUP, "matmul.i8_vector_subgroup")                                                         \
  FORM(MATMUL_I8_VECTOR_SUBGROUP_DOT, "matmul.i8_vector_subgroup_dot")                                                 \
  FORM(MATMUL_I8_TILED_32, "matmul.i8_tiled_32")                                                                       \
  FORM(MATMUL_I8_TILED_32_DOT, "matmul.i8_tiled_32_dot")                                                               \
  FORM(MATMUL_I8_TILED_64, "matmul.i8_tiled_64")                                                                       \
  FORM(MATMUL_I8_TILED_64_DOT, "matmul.i8_tiled_64_dot")                                                               \
  FORM(MATMUL_I8_TILED_128_DOT, "matmul.i8_tiled_128_dot")                                                             \
  FORM(MATMUL_I8_GENERIC, "matmul.i8_generic")                                                                         \
  FORM(ATTENTION_ROWS, "attention.rows")   /* few queries of a workgroup, its invocations along the keys */            \
  FORM(ATTENTION_SPLIT, "attention.split") /* the same, the keys of one query among several workgroups */              \
  FORM(ATTENTION_TILED_64X32, "attention.tiled_64x32") /* queries x keys that a workgroup has in shared memory */      \
  FORM(ATTENTION_TILED_32X32, "attention.tiled_32x32")                                                                 \
  FORM(ATTENTION_TILED_32X16, "attention.tiled_32x16")                                                                 \
  FORM(ATTENTION_TILED_16X32, "attention.tiled_16x32")                                                                 \
  FORM(ATTENTION_TILED_16X16, "attention.tiled_16x16")                                                                 \
  FORM(ATTENTION_COOP, "attention.coop") /* cooperative matrices, for narrow lines */

enum {
  TSR_VK_FORM_AUTO = 0, /* the planner's choice */
#define TSR_VK_FORM_ENUM(name, text) TSR_VK_FORM_##name,
  TSR_VK_FORMS(TSR_VK_FORM_ENUM)
#undef TSR_VK_FORM_ENUM
      TSR_VK_FORM_COUNT
};

/* NULL for one that does not exist, and for TSR_VK_FORM_AUTO. */
const char *tsr_vk_form_name(int32_t form);

/* The form of that name; TSR_VK_FORM_AUTO if there is none. */
int32_t tsr_vk_form_find(const char *name);

#endif
