/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program would hand to a device that is described: the extension "tessera.plan/1" of those backends that have
 * it; of the others, a kernel for each line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/program/plan.h"
#include "core/runtime/internal.h"
#include "tessera/ops.h"
#include "tessera/plan.h"

struct tsr_device_plan {
  tsr_list kernels; /* of tsr_plan_kernel */
  tsr_arena accesses;
  int64_t arena_bytes;
};

/* What is at hand while a plan is made. */
typedef struct making {
  const tsr_backend_entry *backend;
  const tsr_described_device *described;
  tsr_program_desc placed; /* the program, its storages placed */
  tsr_storage_desc *storages;
  tsr_device_plan *plan;
  tsr_status status; /* of keeping what the backend tells */
} making;

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static double bytes_of(const tsr_program_desc *program, int32_t tensor, double elements)
{
  return elements * (double)tsr_dtype_size(tsr_tensor_at(program, tensor)->dtype);
}

/* Elements of a tensor, those that strides of 0 repeat counted once or as often as they are there. */
static double elements_of(const tsr_program_desc *program, int32_t tensor, int repeated)
{
  const tsr_tensor_desc *t = tsr_tensor_at(program, tensor);
  double product = 1;
  for (int32_t i = 0; i < t->rank; i++) {
    product *= !repeated && t->stride[i] == 0 && t->extent[i] > 0 ? 1.0 : (double)t->extent[i];
  }
  return product;
}

/* Bytes of a tensor that lines first .. last touch: of a table the rows that are asked for, of a state what is written
 * into it. */
static double touched_bytes(const tsr_program_desc *program, int32_t first, int32_t last, int32_t tensor)
{
  for (int32_t i = first; i <= last; i++) {
    const tsr_line_desc *line = tsr_line_at(program, i);
    if ((line->op == TSR_OP_EMBEDDING || line->op == TSR_OP_GATHER) && line->in[0] == tensor) {
      return bytes_of(program, tensor, elements_of(program, line->out[0], 1));
    }
    if (line->op == TSR_OP_EMBEDDING && line->in[2] == tensor) {
      return bytes_of(program, tensor, elements_of(program, line->in[1], 1));
    }
    if (line->op == TSR_OP_APPEND && line->out[0] == tensor) {
      return bytes_of(program, tensor, elements_of(program, line->in[0], 1));
    }
  }
  return bytes_of(program, tensor, elements_of(program, tensor, 0));
}

/* Rows of the first product among lines first .. last, 0 if there is none. */
static int64_t rows_of(const tsr_program_desc *program, int32_t first, int32_t last)
{
  for (int32_t i = first; i <= last; i++) {
    const tsr_line_desc *line = tsr_line_at(program, i);
    if (line->op == TSR_OP_MATMUL) {
      const tsr_tensor_desc *a = tsr_tensor_at(program, line->in[0]);
      return a->rank >= 2 ? a->extent[a->rank - 2] : 1;
    }
  }
  return 0;
}

/* 1 if a line reads the tensor that it also writes: adam its states. */
static int is_updated(const tsr_program_desc *program, int32_t first, int32_t last, int32_t tensor)
{
  for (int32_t i = first; i <= last; i++) {
    const tsr_line_desc *line = tsr_line_at(program, i);
    for (int32_t k = 0; line->op == TSR_OP_ADAM && k < TSR_MAX_OUTPUTS; k++) {
      if (line->out[k] == tensor) {
        return 1;
      }
    }
  }
  return 0;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static int is_tensor(const tsr_program_desc *program, int32_t tensor)
{
  return tensor > 0 && tensor < program->n_tensors;
}

static tsr_status keep(making *m, const tsr_planned_dispatch *told)
{
  const tsr_program_desc *program = &m->placed;
  if (told->first_line < 0 || told->last_line < told->first_line || told->last_line >= program->n_lines ||
      told->n_accesses < 0 || told->rate < 0 || told->rate >= TSR_RATE_COUNT || !told->kernel) {
    return tsr_fail(TSR_ERR_PLUGIN, "backend '%s': its extension %s reports a kernel that no program has",
                    m->backend->table.name, TSR_PLAN_EXTENSION);
  }
  /* One more for each that is read and written. */
  const size_t room = 2 * (size_t)told->n_accesses + 1;
  tsr_kernel_access *accesses = tsr_arena_take(&m->plan->accesses, room * sizeof *accesses);
  tsr_plan_kernel *kernel = accesses ? tsr_list_add(&m->plan->kernels, sizeof *kernel) : NULL;
  if (!kernel) {
    return tsr_fail_memory(room * sizeof *accesses);
  }
  int32_t n = 0;
  for (int32_t i = 0; i < told->n_accesses; i++) {
    const tsr_planned_access *access = &told->accesses[i];
    const int is_own = !is_tensor(program, access->tensor);
    const double bytes =
        is_own ? (double)access->bytes : touched_bytes(program, told->first_line, told->last_line, access->tensor);
    if (access->written && !is_own && is_updated(program, told->first_line, told->last_line, access->tensor)) {
      accesses[n++] = (tsr_kernel_access){access->tensor, 0, bytes};
    }
    accesses[n++] = (tsr_kernel_access){is_own ? 0 : access->tensor, access->written != 0, bytes};
  }
  *kernel = (tsr_plan_kernel){
      .name = told->kernel,
      .first_line = told->first_line,
      .last_line = told->last_line,
      .waits = told->waits != 0 || m->plan->kernels.count == 1,
      .group_size = told->group_size,
      .groups = told->groups,
      .rate = told->rate,
      .n_accesses = n,
      .operations = told->operations,
      .loads = told->loads,
      .accesses = accesses,
      .rows = rows_of(program, told->first_line, told->last_line),
  };
  return TSR_OK;
}

static void take(void *taker, const tsr_planned_dispatch *dispatch)
{
  making *m = taker;
  if (m->status == TSR_OK) {
    m->status = keep(m, dispatch);
  }
}

/* Of a backend that does not tell: which rate bounds a line. */
static int32_t rate_of(const tsr_program_desc *program, const tsr_line_desc *line)
{
  switch (line->op) {
  case TSR_OP_MATMUL:
  case TSR_OP_CONV1D:
    switch (tsr_tensor_at(program, line->in[1])->dtype) {
    case TSR_F32:
      return TSR_RATE_F32;
    case TSR_I8:
      return TSR_RATE_I8;
    default:
      return TSR_RATE_F16;
    }
  case TSR_OP_ATTENTION:
  case TSR_OP_ATTENTION_GRADIENT:
    return TSR_RATE_F32;
  default:
    return TSR_RATE_OTHER;
  }
}

static int is_among(const tsr_planned_access *accesses, int32_t n, int32_t tensor)
{
  for (int32_t i = 0; i < n; i++) {
    if (accesses[i].tensor == tensor) {
      return 1;
    }
  }
  return 0;
}

/* A kernel for each line, each waiting for the one before. */
static tsr_status plan_by_lines(making *m)
{
  const tsr_program_desc *program = &m->placed;
  for (int32_t i = 0; i < program->n_lines && m->status == TSR_OK; i++) {
    const tsr_line_desc *line = tsr_line_at(program, i);
    tsr_planned_access accesses[TSR_MAX_INPUTS + TSR_MAX_OUTPUTS] = {{0}};
    int32_t n = 0;
    for (int32_t k = 0; k < TSR_MAX_OUTPUTS; k++) {
      if (line->out[k] && !is_among(accesses, n, line->out[k])) {
        accesses[n++] = (tsr_planned_access){.tensor = line->out[k], .written = 1};
      }
    }
    for (int32_t k = 0; k < TSR_MAX_INPUTS; k++) {
      if (line->in[k] && !is_among(accesses, n, line->in[k])) {
        accesses[n++] = (tsr_planned_access){.tensor = line->in[k]};
      }
    }
    const tsr_planned_dispatch dispatch = {
        .struct_size = sizeof dispatch,
        .first_line = i,
        .last_line = i,
        .waits = 1,
        .kernel = tsr_op_describe(line->op)->name,
        .rate = rate_of(program, line),
        .operations = tsr_line_flops(program, i),
        .n_accesses = n,
        .accesses = accesses,
    };
    take(m, &dispatch);
  }
  return m->status;
}

/* ---- placement --------------------------------------------------------------------------------------------------- */

/* The lines until which operands keep their bytes; *until stays NULL where the backend fuses nothing. */
static tsr_status ask_operands(const making *m, const tsr_program_desc *program, int32_t **until)
{
  *until = NULL;
  if (!m->backend->plan) {
    return TSR_OK;
  }
  int32_t *lines = malloc(((size_t)program->n_lines + 1) * sizeof *lines);
  if (!lines) {
    return tsr_fail_memory(((size_t)program->n_lines + 1) * sizeof *lines);
  }
  tsr_slot_enter();
  for (int32_t i = 0; i < program->n_lines; i++) {
    const int32_t last = m->backend->plan->operands_until(m->backend->context, m->described, program, i);
    lines[i] = last > i && last < program->n_lines ? last : i;
  }
  *until = lines;
  return tsr_slot_leave(m->backend->table.name, "operands_until", TSR_OK);
}

/* Temporaries in one buffer, by the memory plan; all else each in a buffer of its own. */
static tsr_status place(making *m, const tsr_program_desc *program)
{
  m->placed = *program;
  m->storages = calloc((size_t)program->n_storages, sizeof *m->storages);
  if (!m->storages) {
    return tsr_fail_memory((size_t)program->n_storages * sizeof *m->storages);
  }
  int32_t *until;
  tsr_memory_plan memory = {0};
  tsr_status status = ask_operands(m, program, &until);
  if (status == TSR_OK) {
    const uint32_t wanted = m->described->buffer_alignment;
    const tsr_plan_options options = {.alignment = wanted > 16 ? wanted : 16, .operands_until = until};
    status = tsr_memory_plan_make(program, &options, &memory);
  }
  for (int32_t i = 1; i < program->n_storages && status == TSR_OK; i++) {
    m->storages[i] = *tsr_storage_at(program, i);
    const int is_temporary = m->storages[i].kind == TSR_STORAGE_TEMPORARY;
    m->storages[i].buffer = is_temporary ? 0 : i;
    m->storages[i].offset = is_temporary && memory.offset[i] > 0 ? memory.offset[i] : 0;
  }
  m->placed.storages = m->storages;
  m->placed.storage_size = sizeof *m->storages;
  m->plan->arena_bytes = memory.size;
  tsr_memory_plan_finish(&memory);
  free(until);
  return status;
}

static tsr_status make(making *m, const tsr_program_desc *program)
{
  TSR_TRY(place(m, program));
  if (!m->backend->plan) {
    return plan_by_lines(m);
  }
  tsr_slot_enter();
  const int32_t code = m->backend->plan->plan(m->backend->context, m->described, &m->placed, take, m);
  TSR_TRY(tsr_slot_leave(m->described->name[0] ? m->described->name : m->backend->table.name, "plan", code));
  return m->status;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static tsr_status check(const tsr_described_device *described)
{
  if (described->struct_size < sizeof *described || !memchr(described->name, '\0', sizeof described->name)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_device_plan_create: the description's size is %u instead of %zu, or its "
                    "name has no end",
                    (unsigned)described->struct_size, sizeof *described);
  }
  const uint32_t alignment = described->buffer_alignment;
  if ((alignment & (alignment - 1)) != 0 || described->n_shapes < 0 || described->n_shapes > TSR_MAX_MATRIX_SHAPES) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_device_plan_create: the alignment of buffers (%u) must be a power of two, and the shapes of "
                    "matrices (%d) at most %d",
                    (unsigned)alignment, (int)described->n_shapes, TSR_MAX_MATRIX_SHAPES);
  }
  return TSR_OK;
}

tsr_status tsr_device_plan_create(tsr_runtime *runtime, const char *backend, const tsr_described_device *described,
                                  const tsr_program *program, tsr_device_plan **plan)
{
  if (!runtime || !backend || !described || !program || !plan) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_plan_create: no argument may be NULL");
  }
  *plan = NULL;
  TSR_TRY(check(described));
  TSR_TRY(tsr_program_status(program));
  making m = {.backend = tsr_runtime_backend(runtime, backend), .described = described};
  if (!m.backend) {
    char what[160];
    snprintf(what, sizeof what, "there is no backend '%.80s' that starts here", backend);
    return tsr_fail_no_device(runtime, what);
  }
  m.plan = calloc(1, sizeof *m.plan);
  if (!m.plan) {
    return tsr_fail_memory(sizeof *m.plan);
  }
  tsr_status status = make(&m, tsr_program_describe(program));
  free(m.storages);
  if (status != TSR_OK) {
    tsr_device_plan_destroy(m.plan);
    return status;
  }
  *plan = m.plan;
  return TSR_OK;
}

void tsr_device_plan_destroy(tsr_device_plan *plan)
{
  if (plan) {
    tsr_list_finish(&plan->kernels);
    tsr_arena_finish(&plan->accesses);
    free(plan);
  }
}

int32_t tsr_device_plan_count(const tsr_device_plan *plan)
{
  return plan ? plan->kernels.count : 0;
}

const tsr_plan_kernel *tsr_device_plan_kernel(const tsr_device_plan *plan, int32_t index)
{
  const tsr_plan_kernel *kernels = plan ? plan->kernels.items : NULL;
  return plan && index >= 0 && index < plan->kernels.count ? &kernels[index] : NULL;
}

int64_t tsr_device_plan_arena(const tsr_device_plan *plan)
{
  return plan ? plan->arena_bytes : 0;
}

tsr_status tsr_device_describe(tsr_device *device, tsr_described_device *described)
{
  if (!device || !described || described->struct_size < sizeof *described) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_device_describe: device and described must not be NULL, and struct_size is to be set");
  }
  const tsr_device_properties *properties = &device->properties;
  tsr_described_device found = {
      .struct_size = sizeof found,
      .type = properties->type,
      .max_binding_size = properties->max_binding_size,
      .buffer_alignment = properties->buffer_alignment,
      .max_invocations = properties->max_invocations,
      .shared_memory = properties->shared_memory,
      .subgroup_size = properties->subgroup_size,
      .unified_memory = (properties->features & TSR_FEATURE_UNIFIED_MEMORY) != 0,
      .f16_storage = (properties->state_types & 1u << TSR_F16) != 0,
  };
  snprintf(found.name, sizeof found.name, "%.*s", (int)sizeof found.name - 1, properties->name);
  tsr_status status = TSR_OK;
  if (device->backend->plan) {
    tsr_device_enter(device);
    status = TSR_SLOT(device->name, device->backend->plan, describe, device->handle, &found);
    tsr_device_leave(device);
  }
  *described = found;
  return status;
}
