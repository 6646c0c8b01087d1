/* SPDX-License-Identifier: Apache-2.0
 *
 * Which variants were measured to be the best on a device: a table from classes of lines to variants.
 *
 * A class stands for lines whose shapes are alike: each extent counts as the power of two that it does not exceed. The
 * table is kept as text, a class and a variant a line:
 *
 *     tessera variants 1
 *     1 2 9 11 9 0 0 0 matmul.vector
 */
#ifndef TESSERA_BACKENDS_VULKAN_TUNING_H
#define TESSERA_BACKENDS_VULKAN_TUNING_H

#include <stddef.h>
#include <stdint.h>

enum { TSR_VK_CLASS_FIELDS = 7 };

typedef struct tsr_vk_class {
  int32_t op;                         /* TSR_OP_*; 0: no class */
  int32_t field[TSR_VK_CLASS_FIELDS]; /* not negative; what they are is the operator's planner's business */
} tsr_vk_class;

typedef struct tsr_vk_tuned {
  tsr_vk_class class;
  int32_t variant; /* TSR_VK_VARIANT_* */
} tsr_vk_tuned;

/* Zero-initialise. */
typedef struct tsr_vk_tuning {
  tsr_vk_tuned *entries;
  int32_t count;
  int32_t room;
} tsr_vk_tuning;

void tsr_vk_tuning_finish(tsr_vk_tuning *tuning);

/* The power of two that n does not exceed: 0 for 0 and 1, 5 for 17 .. 32. */
int32_t tsr_vk_bucket(uint64_t n);

/* The variant of a class; TSR_VK_VARIANT_AUTO if none is known. tuning may be NULL. */
int32_t tsr_vk_tuning_find(const tsr_vk_tuning *tuning, const tsr_vk_class *class);

/* Sets the variant of a class, or with TSR_VK_VARIANT_AUTO forgets it. 0 if there is no memory, or no room for so
 * many. */
int tsr_vk_tuning_set(tsr_vk_tuning *tuning, const tsr_vk_class *class, int32_t variant);

/* A class as text; cut where it does not fit. */
void tsr_vk_class_print(const tsr_vk_class *class, char *text, size_t size);

/* Adds what the text says. Variants that are not known here are left out: another version of the program wrote them.
 * Returns NULL, or what is wrong with it; entries before that stay. `text` ends with a NUL. */
const char *tsr_vk_tuning_parse(tsr_vk_tuning *tuning, const char *text);

/* The table as text, NUL-terminated, which the caller frees; NULL without memory. */
char *tsr_vk_tuning_print(const tsr_vk_tuning *tuning);

#endif
