/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiled program: everything is planned, created and recorded once; a run hands the recording to the queue.
 *
 *     plan all lines -> pipelines -> scratch memory and address tables -> descriptor sets -> command buffers
 */
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/backend.h"

struct tsr_backend_executable {
  tsr_backend_device *device;
  VkCommandPool pool;
  VkCommandBuffer *commands; /* one, or several where the work is split for watchdogs */
  int32_t n_commands;
  int32_t room;
  VkDescriptorPool descriptors;
  tsr_backend_buffer *scratch;   /* as large as the hungriest line's; NULL if none needs it */
  tsr_backend_buffer *addresses; /* the tables of the wide dispatches; NULL without any */
  VkPipeline *pipelines;         /* of each dispatch */
  int32_t n_pipelines;
  VkQueryPool queries;        /* with profile: a time before the first line and after each */
  uint64_t *stamps;           /* likewise */
  unsigned char *passed_over; /* likewise: 1 of a line that is computed as one with the next */
  VkQueryPool pace;           /* where the device's pace is to be learnt: the first submit's begin and end */
  double pace_work;           /* of that submit */
  double work;                /* of the last command buffer: of a run, where that is the only one */
  tsr_line_commands *told;    /* [n_lines]: what was recorded of each line */
  int32_t n_lines;
  uint64_t ticket; /* of the last submit; 0 before the first run */
};

/* A dispatch on its way into the command buffer. */
typedef struct placed_dispatch {
  tsr_vk_dispatch plan;
  int32_t first_line; /* of those that it computes as one */
  int32_t line;       /* the last */
  VkPipeline pipeline;
  const tsr_vk_layout *layout;
  VkDescriptorSet set;
  tsr_vk_access access[TSR_VK_MAX_OPERANDS]; /* of each operand */
} placed_dispatch;

/* What compile needs and the executable does not. */
typedef struct build {
  tsr_backend_device *device;
  const tsr_compile_args *args;
  tsr_backend_executable *executable;
  placed_dispatch *dispatches;
  int32_t n_dispatches;
  int32_t room;
  int32_t n_wide;
  int64_t scratch_bytes;
  tsr_vk_left left;       /* in scratch, by the lines planned so far */
  tsr_vk_hazards hazards; /* since the last barrier */
  double work;            /* recorded into the current command buffer */
} build;

int tsr_vk_supports(tsr_backend_device *d, const tsr_program_desc *program, int32_t line)
{
  tsr_vk_plan plan;
  return tsr_vk_plan_line(&d->caps, program, line, &plan);
}

int32_t tsr_vk_variant_of(tsr_backend_device *d, const tsr_program_desc *program, int32_t line)
{
  tsr_vk_plan plan;
  return tsr_vk_plan_line(&d->caps, program, line, &plan) ? plan.variant : TSR_VK_VARIANT_AUTO;
}

int tsr_vk_class_of(tsr_backend_device *d, const tsr_program_desc *program, int32_t line, tsr_vk_class *class)
{
  tsr_vk_plan plan;
  *class = (tsr_vk_class){.op = 0};
  if (tsr_vk_plan_line(&d->caps, program, line, &plan)) {
    *class = plan.class;
  }
  return class->op != 0;
}

static int is_sound(const tsr_backend_device *d, const tsr_vk_dispatch *dispatch)
{
  if (dispatch->shader < 0 || dispatch->shader >= tsr_vk_shader_count) {
    return 0;
  }
  const tsr_vk_shader *shader = &tsr_vk_shaders[dispatch->shader];
  int sound = dispatch->n_operands == shader->n_bindings && dispatch->n_operands <= TSR_VK_MAX_OPERANDS &&
              dispatch->n_spec <= TSR_VK_MAX_SPEC && dispatch->push_bytes <= TSR_VK_MAX_PUSH &&
              dispatch->push_bytes % 4 == 0 && dispatch->push_bytes >= shader->push_bytes &&
              (!dispatch->wide || d->caps.wide) && (shader->packed != NULL || d->described);
  uint32_t subgroup = dispatch->subgroup_size;
  if (subgroup > 0) {
    sound = sound && subgroup >= d->caps.subgroup_sizes[0] && subgroup <= d->caps.subgroup_sizes[1] &&
            dispatch->n_spec > 0 && dispatch->spec[0] % subgroup == 0 &&
            dispatch->spec[0] / subgroup <= d->caps.max_subgroups;
  }
  for (int i = 0; i < 3; i++) {
    sound = sound && dispatch->groups[i] >= 1 && dispatch->groups[i] <= d->caps.max_groups[i];
  }
  return sound;
}

/* The form of a dispatch's shader that the device executes soonest: a CPU's driver loads numbers one by one, and the
 * larger they are the fewer loads there are. Wide shaders have one form. */
static int32_t best_form(const tsr_backend_device *d, const tsr_vk_dispatch *dispatch)
{
  const int32_t long_form = tsr_vk_shaders[dispatch->shader].long_form;
  const int suits = d->caps.compute_like_cpu && d->hardware.features.shaderInt64;
  return suits && long_form > 0 ? long_form : dispatch->shader;
}

static int32_t plan_lines(build *b)
{
  tsr_backend_device *d = b->device;
  const tsr_program_desc *program = b->args->program;
  tsr_backend_executable *e = b->executable;
  tsr_vk_plan *plan = tsr_vk_calloc(d, 1, sizeof(*plan));
  if (plan && b->args->profile) {
    e->passed_over = tsr_vk_calloc(d, (size_t)program->n_lines + 1, 1);
  }
  if (!plan || (b->args->profile && !e->passed_over)) {
    free(plan);
    return tsr_vk_fail(d->host, TSR_ERR_OUT_OF_MEMORY, "no memory to plan a program");
  }
  int32_t status = TSR_OK;
  for (int32_t line = 0; status == TSR_OK && line < program->n_lines; line += plan->n_lines) {
    if (!tsr_vk_plan_lines(&d->caps, program, b->args->buffers, line, &b->left, plan)) {
      status = tsr_vk_fail(d->host, TSR_ERR_UNSUPPORTED, "line %d (%s, operator %d) is not supported on %s", line,
                           tsr_line_at(program, line)->label, tsr_line_at(program, line)->op,
                           d->hardware.properties.deviceName);
      break;
    }
    b->scratch_bytes = plan->scratch_bytes > b->scratch_bytes ? plan->scratch_bytes : b->scratch_bytes;
    status =
        tsr_vk_grow(d, (void **)&b->dispatches, &b->room, b->n_dispatches + plan->n_dispatches, sizeof(*b->dispatches));
    for (int32_t i = 0; status == TSR_OK && i < plan->n_dispatches; i++) {
      if (!is_sound(d, &plan->dispatch[i])) {
        status = tsr_vk_fail(d->host, TSR_ERR_INTERNAL,
                             "dispatch %d of line %d (%s, operator %d) breaks a limit of %s; please report it", i, line,
                             tsr_line_at(program, line)->label, tsr_line_at(program, line)->op,
                             d->hardware.properties.deviceName);
        break;
      }
      b->dispatches[b->n_dispatches] =
          (placed_dispatch){.plan = plan->dispatch[i], .first_line = line, .line = line + plan->n_lines - 1};
      b->dispatches[b->n_dispatches].plan.shader = best_form(d, &plan->dispatch[i]);
      b->n_dispatches++;
      b->n_wide += plan->dispatch[i].wide != 0;
    }
    for (int32_t i = 0; e->passed_over && i + 1 < plan->n_lines; i++) {
      e->passed_over[line + i] = 1;
    }
  }
  free(plan);
  return status;
}

static int32_t create_pipelines(build *b)
{
  const tsr_vk_dispatch **all = tsr_vk_calloc(b->device, (size_t)b->n_dispatches + 1, sizeof(*all));
  if (!all) {
    return tsr_vk_fail(b->device->host, TSR_ERR_OUT_OF_MEMORY, "no memory for the list of %d dispatches",
                       b->n_dispatches);
  }
  for (int32_t i = 0; i < b->n_dispatches; i++) {
    tsr_vk_dispatch *plan = &b->dispatches[i].plan;
    int axis;
    plan->divided = tsr_vk_pace_parts(&b->device->pace, plan, &axis) > 1;
    all[i] = plan;
  }
  int32_t status = tsr_vk_pipelines_make(b->device, all, b->n_dispatches);
  free((void *)all);
  for (int32_t i = 0; status == TSR_OK && i < b->n_dispatches; i++) {
    placed_dispatch *dispatch = &b->dispatches[i];
    int32_t n_bindings = dispatch->plan.n_operands + (dispatch->plan.wide ? 1 : 0);
    status = tsr_vk_layout_get(b->device, n_bindings, &dispatch->layout);
    if (status == TSR_OK) {
      status = tsr_vk_pipeline_get(b->device, &dispatch->plan, &dispatch->pipeline);
    }
  }
  return status;
}

/* One slot per wide dispatch, as far apart as bindings must be. */
static uint64_t address_stride(const tsr_backend_device *d)
{
  uint64_t alignment = tsr_vk_buffer_alignment(&d->hardware);
  return (TSR_VK_ADDRESS_BYTES + alignment - 1) / alignment * alignment;
}

static int32_t create_buffers(build *b)
{
  enum { LEAST_SCRATCH_BYTES = 256 }; /* empty operands are bound to it */
  tsr_backend_device *d = b->device;
  int needs_scratch = b->scratch_bytes > 0;
  for (int32_t i = 0; i < b->n_dispatches; i++) {
    const tsr_vk_dispatch *plan = &b->dispatches[i].plan;
    for (int32_t k = 0; k < plan->n_operands; k++) {
      if (plan->operand[k].tensor != TSR_VK_SCRATCH) {
        const tsr_tensor_desc *tensor = tsr_tensor_at(b->args->program, plan->operand[k].tensor);
        needs_scratch |= tsr_storage_at(b->args->program, tensor->storage)->size == 0;
      }
    }
  }
  int32_t status = TSR_OK;
  if (needs_scratch) {
    b->scratch_bytes = b->scratch_bytes > LEAST_SCRATCH_BYTES ? b->scratch_bytes : LEAST_SCRATCH_BYTES;
    status = tsr_vk_buffer_create(d, (uint64_t)b->scratch_bytes, TSR_BUFFER_DEVICE, &b->executable->scratch);
  }
  if (status == TSR_OK && b->n_wide > 0) {
    status =
        tsr_vk_buffer_create(d, (uint64_t)b->n_wide * address_stride(d), TSR_BUFFER_UPLOAD, &b->executable->addresses);
  }
  return status;
}

/* Which bytes of which buffer each operand means. */
static void place_operands(build *b, placed_dispatch *dispatch)
{
  const tsr_program_desc *program = b->args->program;
  for (int32_t i = 0; i < dispatch->plan.n_operands; i++) {
    const tsr_vk_operand *operand = &dispatch->plan.operand[i];
    tsr_vk_access *access = &dispatch->access[i];
    *access = (tsr_vk_access){.buffer = b->executable->scratch, .write = operand->write, .line = dispatch->line};
    if (operand->tensor == TSR_VK_SCRATCH) {
      access->end = (uint64_t)dispatch->plan.scratch_bytes;
      continue;
    }
    const tsr_storage_desc *storage = tsr_storage_at(program, tsr_tensor_at(program, operand->tensor)->storage);
    if (storage->size > 0) {
      access->buffer = b->args->buffers[storage->buffer];
      access->begin = (uint64_t)storage->offset;
      access->end = (uint64_t)(storage->offset + storage->size);
    }
  }
}

static int32_t write_addresses(build *b, const placed_dispatch *dispatch, int32_t slot)
{
  uint64_t table[TSR_VK_MAX_OPERANDS] = {0};
  for (int32_t i = 0; i < dispatch->plan.n_operands; i++) {
    table[i] = dispatch->access[i].buffer->address + dispatch->access[i].begin;
  }
  return tsr_vk_buffer_write(b->executable->addresses, (uint64_t)slot * address_stride(b->device), sizeof(table),
                             table);
}

static int32_t write_set(build *b, const placed_dispatch *dispatch, int32_t wide_slot)
{
  tsr_backend_device *d = b->device;
  VkDescriptorBufferInfo infos[TSR_VK_MAX_BINDINGS];
  int32_t n = dispatch->plan.n_operands;
  for (int32_t i = 0; i < n; i++) {
    const tsr_vk_access *access = &dispatch->access[i];
    uint64_t range = (access->end - access->begin + 3) & ~(uint64_t)3;
    range = range > 0 ? range : 4;
    if (range > d->caps.max_binding) {
      if (!dispatch->plan.wide) {
        return tsr_vk_fail(d->host, TSR_ERR_INTERNAL,
                           "line %d (%s) binds %llu bytes at once, %s allows %llu; please report it", dispatch->line,
                           tsr_line_at(b->args->program, dispatch->line)->label, (unsigned long long)range,
                           d->hardware.properties.deviceName, (unsigned long long)d->caps.max_binding);
      }
      range = d->caps.max_binding; /* reached by address instead */
    }
    infos[i] = (VkDescriptorBufferInfo){.buffer = access->buffer->handle, .offset = access->begin, .range = range};
  }
  if (dispatch->plan.wide) {
    infos[n++] = (VkDescriptorBufferInfo){.buffer = b->executable->addresses->handle,
                                          .offset = (uint64_t)wide_slot * address_stride(d),
                                          .range = TSR_VK_ADDRESS_BYTES};
  }
  VkWriteDescriptorSet write = {
      .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
      .dstSet = dispatch->set,
      .descriptorCount = (uint32_t)n, /* runs on over the following bindings, which are alike */
      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
      .pBufferInfo = infos,
  };
  d->vk.vkUpdateDescriptorSets(d->handle, 1, &write, 0, NULL);
  return TSR_OK;
}

static int32_t create_sets(build *b)
{
  tsr_backend_device *d = b->device;
  if (b->n_dispatches == 0) {
    return TSR_OK;
  }
  uint32_t n_descriptors = 0;
  for (int32_t i = 0; i < b->n_dispatches; i++) {
    n_descriptors += (uint32_t)b->dispatches[i].plan.n_operands + (b->dispatches[i].plan.wide ? 1 : 0);
  }
  VkDescriptorPoolSize size = {.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = n_descriptors};
  VkDescriptorPoolCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
      .maxSets = (uint32_t)b->n_dispatches,
      .poolSizeCount = 1,
      .pPoolSizes = &size,
  };
  int32_t status = VK(d->host, d->vk.vkCreateDescriptorPool(d->handle, &info, NULL, &b->executable->descriptors));
  if (status != TSR_OK) {
    b->executable->descriptors = VK_NULL_HANDLE;
    return status;
  }
  int32_t wide_slot = 0;
  for (int32_t i = 0; status == TSR_OK && i < b->n_dispatches; i++) {
    placed_dispatch *dispatch = &b->dispatches[i];
    VkDescriptorSetAllocateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = b->executable->descriptors,
        .descriptorSetCount = 1,
        .pSetLayouts = &dispatch->layout->set,
    };
    status = VK(d->host, d->vk.vkAllocateDescriptorSets(d->handle, &set_info, &dispatch->set));
    if (status == TSR_OK) {
      place_operands(b, dispatch);
      status = dispatch->plan.wide ? write_addresses(b, dispatch, wide_slot) : TSR_OK;
    }
    if (status == TSR_OK) {
      status = write_set(b, dispatch, wide_slot);
    }
    wide_slot += dispatch->plan.wide != 0;
  }
  return status;
}

static VkCommandBuffer current(const build *b)
{
  return b->executable->commands[b->executable->n_commands - 1];
}

static void barrier(build *b, VkPipelineStageFlags from, VkAccessFlags from_access, VkPipelineStageFlags to,
                    VkAccessFlags to_access)
{
  VkMemoryBarrier memory = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = from_access, .dstAccessMask = to_access};
  b->device->vk.vkCmdPipelineBarrier(current(b), from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

static void barrier_between_dispatches(build *b)
{
  barrier(b, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
          VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
}

/* Opens one more command buffer, ordered after all that the queue was given before: earlier runs, copies. What the
 * host wrote before the submit is visible without a barrier. */
static int32_t begin_commands(build *b)
{
  tsr_backend_device *d = b->device;
  tsr_backend_executable *e = b->executable;
  int32_t status = tsr_vk_grow(d, (void **)&e->commands, &e->room, e->n_commands + 1, sizeof(*e->commands));
  if (status != TSR_OK) {
    return status;
  }
  VkCommandBufferAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .commandPool = e->pool,
      .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
      .commandBufferCount = 1,
  };
  status = VK(d->host, d->vk.vkAllocateCommandBuffers(d->handle, &info, &e->commands[e->n_commands]));
  if (status != TSR_OK) {
    return status;
  }
  e->n_commands++;
  b->work = 0;
  b->hazards.n_accesses = 0;
  /* A run may be submitted before the previous one has ended. */
  VkCommandBufferBeginInfo begin = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
      .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
  };
  status = VK(d->host, d->vk.vkBeginCommandBuffer(current(b), &begin));
  if (status == TSR_OK) {
    barrier(b, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
  }
  return status;
}

static int32_t end_commands(build *b)
{
  tsr_backend_executable *e = b->executable;
  b->device->counters.recordings++;
  if (e->pace && e->n_commands == 1) {
    e->pace_work = b->work;
    b->device->vk.vkCmdWriteTimestamp(current(b), VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, e->pace, 1);
  }
  return VK(b->device->host, b->device->vk.vkEndCommandBuffer(current(b)));
}

/* Counts a dispatch that is started after all before it. *waits: 1 if it must wait until they have ended: it begins a
 * stage. What is recorded and what is told of devices that are not here is counted by this alone. */
static int32_t take_turn(build *b, const placed_dispatch *dispatch, int *waits)
{
  const int32_t n = dispatch->plan.n_operands;
  *waits = tsr_vk_hazards_conflict(&b->hazards, dispatch->access, n, !dispatch->plan.after);
  if (*waits) {
    b->hazards.n_accesses = 0;
  }
  return tsr_vk_hazards_add(b->device, &b->hazards, dispatch->access, n);
}

/* Workgroups base .. base + n - 1 along one axis, in a submit of their own where `is_new`. */
static int32_t record_part(build *b, const placed_dispatch *dispatch, int is_new, int axis, uint32_t base, uint32_t n,
                           double work)
{
  const struct VolkDeviceTable *vk = &b->device->vk;
  const tsr_vk_dispatch *plan = &dispatch->plan;
  int32_t status = TSR_OK;
  int waits = 0;
  if (is_new) {
    status = end_commands(b);
    if (status == TSR_OK) {
      status = begin_commands(b);
    }
  }
  if (status == TSR_OK) {
    status = take_turn(b, dispatch, &waits);
  }
  if (status != TSR_OK) {
    return status;
  }
  if (waits) {
    barrier_between_dispatches(b);
  }
  VkCommandBuffer commands = current(b);
  vk->vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, dispatch->pipeline);
  vk->vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, dispatch->layout->pipeline, 0, 1,
                              &dispatch->set, 0, NULL);
  if (plan->push_bytes > 0) {
    vk->vkCmdPushConstants(commands, dispatch->layout->pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0, plan->push_bytes,
                           plan->push);
  }
  uint32_t first[3] = {0, 0, 0}, count[3] = {plan->groups[0], plan->groups[1], plan->groups[2]};
  first[axis] = base;
  count[axis] = n;
  if (base > 0) {
    vk->vkCmdDispatchBase(commands, first[0], first[1], first[2], count[0], count[1], count[2]);
  } else {
    vk->vkCmdDispatch(commands, count[0], count[1], count[2]);
  }
  b->work += work;
  b->executable->told[dispatch->line].dispatches++;
  b->executable->told[dispatch->line].barriers += is_new || waits;
  return TSR_OK;
}

static int32_t record_dispatch(build *b, const placed_dispatch *dispatch)
{
  const double bound = b->device->pace.bound;
  int axis;
  const uint32_t parts =
      dispatch->plan.divided ? tsr_vk_pace_parts(&b->device->pace, &dispatch->plan, &axis) : (axis = 0, 1u);
  const uint32_t groups = dispatch->plan.groups[axis];
  const double work = dispatch->plan.work / parts;
  int32_t status = TSR_OK;
  for (uint32_t i = 0; status == TSR_OK && i < parts; i++) {
    const uint32_t begin = (uint32_t)((uint64_t)groups * i / parts);
    const uint32_t end = (uint32_t)((uint64_t)groups * (i + 1) / parts);
    const int is_new = i > 0 || (bound > 0 && b->work > 0 && b->work + work > bound);
    status = record_part(b, dispatch, is_new, axis, begin, end - begin, work);
  }
  return status;
}

static void record_time(build *b, int32_t query)
{
  if (b->executable->queries) {
    b->device->vk.vkCmdWriteTimestamp(current(b), VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, b->executable->queries,
                                      (uint32_t)query);
  }
}

static int32_t record(build *b)
{
  tsr_backend_device *d = b->device;
  tsr_backend_executable *e = b->executable;
  VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                  .queueFamilyIndex = d->hardware.queue_family};
  int32_t status = VK(d->host, d->vk.vkCreateCommandPool(d->handle, &info, NULL, &e->pool));
  if (status != TSR_OK) {
    e->pool = VK_NULL_HANDLE;
    return status;
  }
  status = begin_commands(b);
  if (status == TSR_OK && e->pace) {
    d->vk.vkCmdResetQueryPool(current(b), e->pace, 0, 2);
    d->vk.vkCmdWriteTimestamp(current(b), VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, e->pace, 0);
  }
  if (status == TSR_OK && e->queries) {
    d->vk.vkCmdResetQueryPool(current(b), e->queries, 0, (uint32_t)e->n_lines + 1);
    record_time(b, 0);
  }
  int32_t next = 0;
  for (int32_t line = 0; status == TSR_OK && line < e->n_lines; line++) {
    if (e->queries && b->hazards.n_accesses > 0) {
      barrier_between_dispatches(b); /* so that a line's time is its own */
      b->hazards.n_accesses = 0;
    }
    for (; status == TSR_OK && next < b->n_dispatches && b->dispatches[next].line == line; next++) {
      status = record_dispatch(b, &b->dispatches[next]);
    }
    if (status == TSR_OK) {
      record_time(b, line + 1);
    }
  }
  if (status == TSR_OK) {
    barrier(b, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
            VK_ACCESS_HOST_READ_BIT);
    e->work = b->work;
    status = end_commands(b);
  }
  return status;
}

static int32_t create_query_pool(tsr_backend_device *d, uint32_t count, VkQueryPool *pool)
{
  VkQueryPoolCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = count};
  int32_t status = VK(d->host, d->vk.vkCreateQueryPool(d->handle, &info, NULL, pool));
  if (status != TSR_OK) {
    *pool = VK_NULL_HANDLE;
  }
  return status;
}

static int32_t create_queries(build *b)
{
  enum { WORTH_TIMING = 1000000000 };
  tsr_backend_device *d = b->device;
  tsr_backend_executable *e = b->executable;
  if (d->hardware.timestamp_bits == 0) {
    return TSR_OK;
  }
  if (!b->args->profile) {
    double work = 0;
    for (int32_t i = 0; i < b->n_dispatches; i++) {
      work += b->dispatches[i].plan.work;
    }
    return d->pace.learns && work >= WORTH_TIMING ? create_query_pool(d, 2, &e->pace) : TSR_OK;
  }
  e->stamps = tsr_vk_calloc(d, (size_t)e->n_lines + 1, sizeof(*e->stamps));
  if (!e->stamps) {
    return tsr_vk_fail(d->host, TSR_ERR_OUT_OF_MEMORY, "no memory for the times of %d lines", e->n_lines);
  }
  return create_query_pool(d, (uint32_t)e->n_lines + 1, &e->queries);
}

/* From now on the pipelines are the executable's, too. */
static int32_t hold_pipelines(build *b)
{
  tsr_backend_executable *e = b->executable;
  e->pipelines = tsr_vk_calloc(b->device, (size_t)b->n_dispatches + 1, sizeof(*e->pipelines));
  if (!e->pipelines) {
    return tsr_vk_fail(b->device->host, TSR_ERR_OUT_OF_MEMORY, "no memory for the list of %d pipelines",
                       b->n_dispatches);
  }
  for (; e->n_pipelines < b->n_dispatches; e->n_pipelines++) {
    e->pipelines[e->n_pipelines] = b->dispatches[e->n_pipelines].pipeline;
    tsr_vk_pipeline_hold(b->device, e->pipelines[e->n_pipelines], 1);
  }
  return TSR_OK;
}

int32_t tsr_vk_prepare(tsr_backend_device *d, const tsr_program_desc *program)
{
  const tsr_compile_args args = {.struct_size = sizeof(args), .program = program};
  tsr_backend_executable none = {.device = d};
  build b = {.device = d, .args = &args, .executable = &none};
  int32_t status = plan_lines(&b);
  if (status == TSR_OK) {
    status = create_pipelines(&b);
  }
  free(b.dispatches);
  return status;
}

/* Stands for the memory of a program on a device that is not here: one for each number of a storage's buffer. */
static tsr_backend_buffer **imagine_buffers(tsr_backend_device *d, const tsr_program_desc *program)
{
  const size_t n = (size_t)program->n_storages + 1; /* numbers that the host gives are those of storages */
  tsr_backend_buffer **buffers = tsr_vk_calloc(d, n, sizeof(*buffers) + sizeof(**buffers));
  for (size_t i = 0; buffers && i < n; i++) {
    buffers[i] = (tsr_backend_buffer *)(void *)(buffers + n) + i;
  }
  return buffers;
}

int32_t tsr_vk_tell(tsr_backend_device *d, const tsr_program_desc *program, tsr_vk_take take, void *taker)
{
  tsr_backend_buffer **buffers = imagine_buffers(d, program);
  const tsr_compile_args args = {
      .struct_size = sizeof(args), .n_buffers = program->n_storages + 1, .program = program, .buffers = buffers};
  tsr_backend_executable none = {.device = d};
  build b = {.device = d, .args = &args, .executable = &none};
  int32_t status =
      buffers ? plan_lines(&b) : tsr_vk_fail(d->host, TSR_ERR_OUT_OF_MEMORY, "no memory to plan a program");
  none.scratch = buffers ? buffers[program->n_storages] : NULL;
  for (int32_t i = 0; status == TSR_OK && i < b.n_dispatches; i++) {
    placed_dispatch *dispatch = &b.dispatches[i];
    int waits;
    place_operands(&b, dispatch);
    status = take_turn(&b, dispatch, &waits);
    if (status == TSR_OK) {
      tsr_vk_tell_dispatch(program, &dispatch->plan, dispatch->first_line, dispatch->line, waits || i == 0, take,
                           taker);
    }
  }
  free(b.dispatches);
  free(b.hazards.accesses);
  free(buffers);
  return status;
}

int32_t tsr_vk_compile(tsr_backend_device *d, const tsr_compile_args *args, tsr_backend_executable **result)
{
  build b = {.device = d, .args = args};
  tsr_backend_executable *e = tsr_vk_calloc(d, 1, sizeof(*e));
  if (!e) {
    return tsr_vk_fail(d->host, TSR_ERR_OUT_OF_MEMORY, "no memory to compile a program");
  }
  e->device = d;
  e->n_lines = args->program->n_lines;
  e->told = tsr_vk_calloc(d, (size_t)e->n_lines + 1, sizeof(*e->told));
  if (!e->told) {
    tsr_vk_executable_destroy(e);
    return tsr_vk_fail(d->host, TSR_ERR_OUT_OF_MEMORY, "no memory to compile a program");
  }
  b.executable = e;

  int32_t (*const steps[])(build *) = {plan_lines,  create_pipelines, hold_pipelines, create_buffers,
                                       create_sets, create_queries,   record};
  int32_t status = TSR_OK;
  for (size_t i = 0; status == TSR_OK && i < sizeof(steps) / sizeof(steps[0]); i++) {
    status = steps[i](&b);
  }
  free(b.dispatches);
  free(b.hazards.accesses);
  if (status != TSR_OK) {
    tsr_vk_executable_destroy(e);
    return status;
  }
  tsr_vk_pipelines_save(d);
  *result = e;
  return TSR_OK;
}

void tsr_vk_executable_destroy(tsr_backend_executable *e)
{
  if (!e) {
    return;
  }
  tsr_backend_device *d = e->device;
  tsr_vk_settle(d, e->ticket);
  d->vk.vkDestroyCommandPool(d->handle, e->pool, NULL);
  d->vk.vkDestroyDescriptorPool(d->handle, e->descriptors, NULL);
  d->vk.vkDestroyQueryPool(d->handle, e->queries, NULL);
  d->vk.vkDestroyQueryPool(d->handle, e->pace, NULL);
  tsr_vk_buffer_destroy(e->scratch);
  tsr_vk_buffer_destroy(e->addresses);
  for (int32_t i = 0; i < e->n_pipelines; i++) {
    tsr_vk_pipeline_hold(d, e->pipelines[i], -1);
  }
  tsr_vk_pipelines_trim(d, TSR_VK_KEPT_PIPELINES);
  free(e->pipelines);
  free(e->commands);
  free(e->stamps);
  free(e->passed_over);
  free(e->told);
  free(e);
}

int32_t tsr_vk_describe(tsr_backend_executable *e, tsr_line_commands *lines)
{
  memcpy(lines, e->told, (size_t)e->n_lines * sizeof(*lines));
  return TSR_OK;
}

int32_t tsr_vk_run(tsr_backend_executable *e)
{
  for (int32_t i = 0; i < e->n_commands; i++) {
    int32_t status = tsr_vk_submit(e->device, &e->commands[i], 1, &e->ticket);
    if (status != TSR_OK) {
      tsr_vk_settle(e->device, e->ticket); /* the host counts on it that no run is under way */
      return status;
    }
    e->device->counters.submits++;
  }
  e->device->counters.runs++;
  return TSR_OK;
}

enum { MOST_RUNS = 64 /* of one submit */ };

/* Runs that one submit may have, as the device's pace allows it. */
static uint32_t runs_at_once(const tsr_backend_executable *e)
{
  const double bound = e->device->pace.bound;
  if (e->n_commands > 1) {
    return 1;
  }
  if (!(bound > 0) || bound >= MOST_RUNS * e->work) {
    return MOST_RUNS;
  }
  return bound > e->work ? (uint32_t)(bound / e->work) : 1;
}

int32_t tsr_vk_run_many(tsr_backend_executable *e, uint32_t n)
{
  VkCommandBuffer commands[MOST_RUNS];
  const uint32_t most = runs_at_once(e);
  for (uint32_t i = 0; i < most; i++) {
    commands[i] = e->commands[0];
  }
  int32_t status = TSR_OK;
  for (uint32_t done = 0; status == TSR_OK && done < n;) {
    const uint32_t count = n - done < most ? n - done : most;
    if (most == 1) {
      status = tsr_vk_run(e);
    } else {
      status = tsr_vk_submit(e->device, commands, count, &e->ticket);
      e->device->counters.submits += status == TSR_OK;
      e->device->counters.runs += status == TSR_OK ? count : 0;
    }
    done += count;
  }
  if (status != TSR_OK) {
    tsr_vk_settle(e->device, e->ticket);
  }
  return status;
}

/* Nanoseconds from one timestamp to another. */
static double between(const tsr_backend_device *d, uint64_t from, uint64_t to)
{
  const uint32_t bits = d->hardware.timestamp_bits;
  const uint64_t mask = bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX;
  return (double)((to - from) & mask) * (double)d->hardware.properties.limits.timestampPeriod;
}

int32_t tsr_vk_executable_wait(tsr_backend_executable *e)
{
  tsr_backend_device *d = e->device;
  uint64_t stamps[2];
  int32_t status = tsr_vk_wait(d, e->ticket);
  if (status == TSR_OK && e->pace && e->pace_work > 0 && e->ticket > 0 &&
      d->vk.vkGetQueryPoolResults(d->handle, e->pace, 0, 2, sizeof(stamps), stamps, sizeof(stamps[0]),
                                  VK_QUERY_RESULT_64_BIT) == VK_SUCCESS) {
    tsr_vk_pace_learn(&d->pace, e->pace_work, between(d, stamps[0], stamps[1]) * 1e-9);
    e->pace_work = 0; /* once is enough */
  }
  return status;
}

int32_t tsr_vk_profile(tsr_backend_executable *e, uint64_t *nanoseconds)
{
  tsr_backend_device *d = e->device;
  if (!e->queries) {
    return tsr_vk_fail(d->host, TSR_ERR_UNSUPPORTED, "%s",
                       d->hardware.timestamp_bits == 0 ? "the device has no timestamps"
                                                       : "the program was not compiled with profile");
  }
  if (e->ticket == 0) {
    return tsr_vk_fail(d->host, TSR_ERR_ARGUMENT, "there are no times before the first run");
  }
  size_t count = (size_t)e->n_lines + 1;
  int32_t status = tsr_vk_wait(d, e->ticket);
  if (status == TSR_OK) {
    status =
        VK(d->host, d->vk.vkGetQueryPoolResults(d->handle, e->queries, 0, (uint32_t)count, count * sizeof(uint64_t),
                                                e->stamps, sizeof(uint64_t), VK_QUERY_RESULT_64_BIT));
  }
  if (status != TSR_OK) {
    return status;
  }
  for (int32_t i = 0; i < e->n_lines; i++) {
    nanoseconds[i] = e->passed_over[i] ? 0 : (uint64_t)between(d, e->stamps[i], e->stamps[i + 1]);
  }
  return TSR_OK;
}
