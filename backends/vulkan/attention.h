/* SPDX-License-Identifier: Apache-2.0
 *
 * What attention and its gradient share: the slots of their lines, how a workgroup is cut, the masking and the dropout.
 */
#ifndef TESSERA_BACKENDS_VULKAN_ATTENTION_H
#define TESSERA_BACKENDS_VULKAN_ATTENTION_H

#include "backends/vulkan/kernel_common.h"

enum {
  TSR_VK_SLOT_ADDITIVE = 3,
  TSR_VK_SLOT_ROWS = 7,
  TSR_VK_SLOT_SEED = 8,
  TSR_VK_SLOT_Y = 9,
  TSR_VK_SLOT_DY = 10,
  TSR_VK_SLOT_LSE = 11
};

/* How a workgroup is cut: `rows` queries (or keys), a number of parts of the last axis. */
typedef struct tsr_vk_tile {
  int subgroup; /* 1: it is one subgroup */
  uint32_t size;
  uint32_t rows;
  uint32_t parts;
  uint32_t blocks;     /* workgroups that share the last axis */
  uint32_t splits;     /* of attention: workgroups that share the keys */
  uint32_t split_keys; /* keys of each of these; 0 if there is one */
  uint32_t lanes;      /* of a subgroup, where the variant asks for that many; else 0 */
  uint32_t shape;      /* of cooperative matrices: THREE_BYTES of m, n, k */
  uint32_t tile_shape; /* of those, and of tiles in shared memory: the constant of that name */
  uint32_t groups;     /* of tiles in shared memory: the constant tile_groups */
} tsr_vk_tile;

/* The tile of attention.comp and attention_gradient.comp for that many rows, with a last axis of that width. */
tsr_vk_tile tsr_vk_tile_of(const tsr_vk_caps *caps, uint32_t rows, uint32_t width);

/* Makes n views, at most four, count groups of four along their last axis, if all can: 1. */
int tsr_vk_attention_quads(tsr_vk_view *views, int32_t n);

/* The one of the four shaders that the plain one begins. */
int32_t tsr_vk_attention_shader(int32_t shader, const tsr_vk_tile *tile, int quads);

/* Plans the masking, at the start of the line's scratch, and behind it the dropout's bits. 0 if the device cannot. */
int tsr_vk_plan_weights(tsr_vk_planner *planner, const tsr_vk_view *q, uint32_t keys, tsr_vk_masking *masking,
                        uint32_t *bits_at);

#endif
