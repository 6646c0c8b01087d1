/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that need not be here: the extension "tessera.plan/1". Planners choose by capabilities (tsr_vk_caps), and
 * what must wait for what follows from what dispatches touch: neither needs Vulkan. Cooperative matrices are taken to
 * be built in, whether or not this build's compiler of shaders knew them. What the options force is left out, and so is
 * what `tessera tune` found here.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/backend.h"
#include "shaders/contract/matmul_fused.h"
#include "shaders/contract/product.h"

_Static_assert(TSR_VK_MAX_SHAPES == TSR_MAX_MATRIX_SHAPES, "all shapes of a device can be described");

static tsr_vk_caps caps_of(const tsr_described_device *described)
{
  tsr_vk_caps caps = {
      .max_binding = described->max_binding_size & ~(uint64_t)3,
      .max_invocations = described->max_invocations,
      .shared_memory = described->shared_memory,
      .subgroup_size = described->subgroup_size > 0 ? described->subgroup_size : 1,
      .subgroup_arithmetic = described->subgroup_arithmetic,
      .subgroup_shuffle = described->subgroup_shuffle,
      .wide = described->buffer_addresses,
      .unified = described->unified_memory,
      .fusion = 1,
      .dot = described->i8_dot >= 1,
      .fast_dot = described->i8_dot >= 2,
      .compute_like_cpu = described->type == TSR_DEVICE_CPU || described->type == TSR_DEVICE_SOFTWARE_GPU,
      .subgroup_sizes = {described->subgroup_sizes[0], described->subgroup_sizes[1]},
      .max_subgroups = described->max_subgroups,
  };
  for (int i = 0; i < 3; i++) {
    caps.max_groups[i] = described->max_groups[i];
    caps.max_size[i] = described->max_group_size[i];
  }
  for (int32_t i = 0; caps.subgroup_sizes[0] > 0 && i < described->n_shapes; i++) {
    const tsr_matrix_shape *shape = &described->shapes[i];
    caps.shapes[caps.n_shapes++] = (tsr_vk_shape){shape->dtype, shape->m, shape->n, shape->k};
  }
  return caps;
}

static int32_t describe(tsr_backend_device *d, tsr_described_device *described)
{
  const tsr_vk_caps *caps = &d->caps;
  described->max_binding_size = caps->max_binding;
  described->buffer_alignment = tsr_vk_buffer_alignment(&d->hardware);
  described->max_invocations = caps->max_invocations;
  described->shared_memory = caps->shared_memory;
  described->subgroup_size = caps->subgroup_size;
  described->max_subgroups = caps->max_subgroups;
  described->subgroup_arithmetic = caps->subgroup_arithmetic;
  described->subgroup_shuffle = caps->subgroup_shuffle;
  described->buffer_addresses = caps->wide;
  described->unified_memory = caps->unified;
  described->i8_dot = caps->fast_dot ? 2 : caps->dot;
  described->n_shapes = caps->n_shapes;
  memcpy(described->subgroup_sizes, caps->subgroup_sizes, sizeof(described->subgroup_sizes));
  memcpy(described->max_groups, caps->max_groups, sizeof(described->max_groups));
  memcpy(described->max_group_size, caps->max_size, sizeof(described->max_group_size));
  for (int32_t i = 0; i < caps->n_shapes; i++) {
    const tsr_vk_shape *shape = &caps->shapes[i];
    described->shapes[i] = (tsr_matrix_shape){shape->dtype, shape->m, shape->n, shape->k};
  }
  return TSR_OK;
}

static int32_t operands_until(void *context, const tsr_described_device *described, const tsr_program_desc *program,
                              int32_t line)
{
  (void)context;
  const tsr_vk_caps caps = caps_of(described);
  return tsr_vk_operands_until(&caps, program, line);
}

static int32_t plan(void *context, const tsr_described_device *described, const tsr_program_desc *program,
                    tsr_vk_take take, void *taker)
{
  const tsr_vk_context *c = context;
  tsr_backend_device *d = calloc(1, sizeof(*d));
  if (!d) {
    return tsr_vk_fail(c->host, TSR_ERR_OUT_OF_MEMORY, "no memory to describe a device");
  }
  d->context = c;
  d->host = c->host;
  d->described = 1;
  d->caps = caps_of(described);
  memcpy(d->hardware.properties.deviceName, described->name, sizeof(described->name));
  const int32_t status = tsr_vk_tell(d, program, take, taker);
  free(d);
  return status;
}

_Static_assert((int)TSR_VK_SPEC_product_b_type == (int)TSR_VK_SPEC_matmul_fused_weight_type, "the weights' type");

/* TSR_F32 .. of what a product reads as operand `index`; rows that were rounded for it, or quantised, lie in
 * scratch, and have the type of the other operand. Of weights of four bits: TYPE_I4. */
static int32_t type_of(const tsr_program_desc *program, const tsr_vk_dispatch *dispatch, int32_t index)
{
  const int32_t tensor = dispatch->operand[index].tensor;
  const int32_t dtype = tsr_tensor_at(program, tensor == TSR_VK_SCRATCH ? dispatch->operand[1].tensor : tensor)->dtype;
  const int four_bits = dispatch->spec[TSR_VK_SPEC_product_b_type] == TYPE_I4;
  return index == 1 && dtype == TSR_I8 && four_bits ? (int32_t)TYPE_I4 : dtype;
}

/* Bytes of one value. */
static double size_of(int32_t type)
{
  switch (type) {
  case TYPE_I4:
    return (TSR_I4_BYTES + 2.0) / TSR_I4_GROUP; /* with the group's scale */
  case TSR_I8:
    return 1.0;
  case TSR_F16:
  case TSR_BF16:
    return 2.0;
  default:
    return 4.0;
  }
}

/* What bounds the operations of a dispatch. */
static int32_t rate_of(const tsr_program_desc *program, const tsr_vk_dispatch *dispatch)
{
  const char *name = tsr_vk_shaders[dispatch->shader].name;
  const int is_attention = strncmp(name, "attention", strlen("attention")) == 0;
  const int is_cooperative = strstr(name, "cooperative") != NULL;
  if (dispatch->tile[0] == 0 || is_attention) {
    return is_cooperative ? TSR_RATE_COOPERATIVE_F16 : is_attention ? TSR_RATE_F32 : TSR_RATE_OTHER;
  }
  switch (type_of(program, dispatch, 1)) {
  case TYPE_I4:
  case TSR_I8:
    return is_cooperative ? TSR_RATE_COOPERATIVE_I8 : TSR_RATE_I8;
  case TSR_F32:
    return is_cooperative ? TSR_RATE_COOPERATIVE_F16 : TSR_RATE_F32;
  default:
    return is_cooperative ? TSR_RATE_COOPERATIVE_F16 : TSR_RATE_F16;
  }
}

/* What the workgroups of a product read, together: each value of a serves a row of a tile, each of b a
 * column. */
static double loads_of(const tsr_program_desc *program, const tsr_vk_dispatch *dispatch)
{
  double bytes = 0;
  for (int i = 0; i < 2 && dispatch->tile[0] > 0; i++) {
    bytes += dispatch->work / 2 * size_of(type_of(program, dispatch, i)) / dispatch->tile[1 - i];
  }
  return bytes;
}

void tsr_vk_tell_dispatch(const tsr_program_desc *program, const tsr_vk_dispatch *dispatch, int32_t first, int32_t last,
                          int waits, tsr_vk_take take, void *taker)
{
  tsr_planned_access accesses[TSR_VK_MAX_OPERANDS];
  int32_t n = 0;
  for (int32_t i = 0; i < dispatch->n_operands; i++) {
    const int is_scratch = dispatch->operand[i].tensor == TSR_VK_SCRATCH;
    const int32_t tensor = is_scratch ? 0 : dispatch->operand[i].tensor;
    int32_t k = 0;
    while (k < n && accesses[k].tensor != tensor) {
      k++;
    }
    if (k == n) { /* operands that are absent are stood in for by others */
      accesses[n++] =
          (tsr_planned_access){.tensor = tensor, .bytes = is_scratch ? (uint64_t)dispatch->scratch_bytes : 0};
    }
    accesses[k].written |= dispatch->operand[i].write;
  }
  const tsr_planned_dispatch told = {
      .struct_size = sizeof(told),
      .first_line = first,
      .last_line = last,
      .waits = waits,
      .kernel = tsr_vk_shaders[dispatch->shader].name,
      .groups = (uint64_t)dispatch->groups[0] * dispatch->groups[1] * dispatch->groups[2],
      .group_size = dispatch->spec[0],
      .rate = rate_of(program, dispatch),
      .operations = dispatch->work,
      .loads = loads_of(program, dispatch),
      .n_accesses = n,
      .accesses = accesses,
  };
  take(taker, &told);
}

const tsr_plan_extension tsr_vk_plan_extension = {
    .struct_size = sizeof(tsr_plan_extension),
    .describe = describe,
    .operands_until = operands_until,
    .plan = plan,
};
