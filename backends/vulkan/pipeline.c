/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelines and their layouts, made when first needed, shared by every executable of the device.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "backends/vulkan/backend.h"
#include "backends/vulkan/spirv.h"

int32_t tsr_vk_pipelines_init(tsr_backend_device *d)
{
  tsr_vk_pipelines *p = &d->pipelines;
  p->modules = calloc(tsr_vk_shader_count > 0 ? (size_t)tsr_vk_shader_count : 1, sizeof(*p->modules));
  if (!p->modules) {
    return tsr_vk_fail(d->host, TSR_ERR_OUT_OF_MEMORY, "no memory to keep track of shaders");
  }
  void *bytes = p->on_disk ? tsr_vk_cache_load(d->host, &d->hardware.properties, &p->loaded_bytes) : NULL;
  VkPipelineCacheCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
      .initialDataSize = p->loaded_bytes,
      .pInitialData = bytes,
  };
  VkResult result = d->vk.vkCreatePipelineCache(d->handle, &info, NULL, &p->cache);
  if (result != VK_SUCCESS && bytes) {
    p->loaded_bytes = 0;
    info.initialDataSize = 0;
    info.pInitialData = NULL;
    result = d->vk.vkCreatePipelineCache(d->handle, &info, NULL, &p->cache);
  }
  free(bytes);
  if (result != VK_SUCCESS) {
    p->cache = VK_NULL_HANDLE;
  }
  return tsr_vk_check(d->host, result, "vkCreatePipelineCache");
}

static void save_cache(tsr_backend_device *d)
{
  tsr_vk_pipelines *p = &d->pipelines;
  size_t size = 0;
  p->n_unsaved = 0;
  p->saved_at = time(NULL);
  if (!p->on_disk || d->lost || !p->cache || p->n_pipelines == 0 ||
      d->vk.vkGetPipelineCacheData(d->handle, p->cache, &size, NULL) != VK_SUCCESS || size <= p->loaded_bytes) {
    return;
  }
  void *bytes = malloc(size);
  if (bytes && d->vk.vkGetPipelineCacheData(d->handle, p->cache, &size, bytes) == VK_SUCCESS) {
    tsr_vk_cache_save(d->host, &d->hardware.properties, bytes, size);
    p->loaded_bytes = size;
  }
  free(bytes);
}

void tsr_vk_pipelines_save(tsr_backend_device *d)
{
  enum { PAUSE_SECONDS = 10 };
  const tsr_vk_pipelines *p = &d->pipelines;
  if (p->n_unsaved > 0 && time(NULL) - p->saved_at >= PAUSE_SECONDS) {
    save_cache(d);
  }
}

void tsr_vk_pipelines_finish(tsr_backend_device *d)
{
  tsr_vk_pipelines *p = &d->pipelines;
  save_cache(d);
  for (int32_t i = 0; i < p->n_pipelines; i++) {
    d->vk.vkDestroyPipeline(d->handle, p->pipelines[i].handle, NULL);
  }
  for (int32_t i = 0; p->modules && i < tsr_vk_shader_count; i++) {
    d->vk.vkDestroyShaderModule(d->handle, p->modules[i], NULL);
  }
  for (int i = 0; i <= TSR_VK_MAX_BINDINGS; i++) {
    d->vk.vkDestroyPipelineLayout(d->handle, p->layout[i].pipeline, NULL);
    d->vk.vkDestroyDescriptorSetLayout(d->handle, p->layout[i].set, NULL);
  }
  d->vk.vkDestroyPipelineCache(d->handle, p->cache, NULL);
  free(p->modules);
  free(p->pipelines);
  memset(p, 0, sizeof(*p));
}

int32_t tsr_vk_layout_get(tsr_backend_device *d, int32_t n_bindings, const tsr_vk_layout **result)
{
  tsr_vk_layout *layout = &d->pipelines.layout[n_bindings];
  int32_t status = TSR_OK;
  if (!layout->set) {
    VkDescriptorSetLayoutBinding bindings[TSR_VK_MAX_BINDINGS];
    for (int32_t i = 0; i < n_bindings; i++) {
      bindings[i] = (VkDescriptorSetLayoutBinding){
          .binding = (uint32_t)i,
          .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
          .descriptorCount = 1,
          .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
      };
    }
    VkDescriptorSetLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = (uint32_t)n_bindings,
        .pBindings = bindings,
    };
    status = VK(d->host, d->vk.vkCreateDescriptorSetLayout(d->handle, &info, NULL, &layout->set));
    if (status != TSR_OK) {
      layout->set = VK_NULL_HANDLE;
    }
  }
  if (status == TSR_OK && !layout->pipeline) {
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = TSR_VK_MAX_PUSH};
    VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &layout->set,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    status = VK(d->host, d->vk.vkCreatePipelineLayout(d->handle, &info, NULL, &layout->pipeline));
    if (status != TSR_OK) {
      layout->pipeline = VK_NULL_HANDLE;
    }
  }
  *result = layout;
  return status;
}

/* A shader as the device is to read it. *words is the caller's to free. */
static int32_t unpack(const tsr_backend_device *d, const tsr_vk_shader *packed, uint32_t **words, size_t *n_words)
{
  uLongf size = packed->size_bytes;
  *n_words = size / sizeof(**words);
  uint32_t *unpacked = malloc(size);
  *words = malloc(size + TSR_VK_SPIRV_MORE_WORDS * sizeof(**words));
  int32_t status = TSR_OK;
  if (!unpacked || !*words) {
    status = tsr_vk_fail(d->host, TSR_ERR_OUT_OF_MEMORY, "no memory for the shader %s", packed->name);
  } else if (uncompress((Bytef *)unpacked, &size, packed->packed, packed->packed_bytes) != Z_OK ||
             size != packed->size_bytes) {
    *n_words = 0;
  } else {
    const VkPhysicalDeviceVulkan12Properties *controls = &d->hardware.properties12;
    const tsr_vk_spirv_modes modes = {
        .preserve = controls->shaderSignedZeroInfNanPreserveFloat32 != VK_FALSE,
        .preserve_halves = controls->shaderSignedZeroInfNanPreserveFloat16 != VK_FALSE,
        .reconverge = d->hardware.maximal_reconvergence,
    };
    *n_words = tsr_vk_spirv_declare(unpacked, *n_words, modes, *words);
  }
  if (status == TSR_OK && *n_words == 0) {
    status = tsr_vk_fail(d->host, TSR_ERR_INTERNAL, "the shader %s within the plugin is damaged: install it again",
                         packed->name);
  }
  free(unpacked);
  return status;
}

static int32_t get_module(tsr_backend_device *d, int32_t shader, VkShaderModule *result)
{
  VkShaderModule *module = &d->pipelines.modules[shader];
  int32_t status = TSR_OK;
  if (!*module) {
    uint32_t *words = NULL;
    size_t n_words = 0;
    status = unpack(d, &tsr_vk_shaders[shader], &words, &n_words);
    if (status == TSR_OK) {
      VkShaderModuleCreateInfo info = {
          .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = n_words * sizeof(*words), .pCode = words};
      status = VK(d->host, d->vk.vkCreateShaderModule(d->handle, &info, NULL, module));
      if (status != TSR_OK) {
        *module = VK_NULL_HANDLE;
      }
    }
    free(words);
  }
  *result = *module;
  return status;
}

/* 1 if two dispatches can have the same pipeline. */
static int same_pipeline(const tsr_vk_dispatch *a, const tsr_vk_dispatch *b)
{
  return a->shader == b->shader && a->subgroup_size == b->subgroup_size && a->divided == b->divided &&
         a->n_spec == b->n_spec && memcmp(a->spec, b->spec, (size_t)a->n_spec * sizeof(uint32_t)) == 0;
}

static tsr_vk_pipeline *find_known(tsr_vk_pipelines *p, const tsr_vk_dispatch *dispatch)
{
  for (int32_t i = 0; i < p->n_pipelines; i++) {
    tsr_vk_pipeline *known = &p->pipelines[i];
    if (known->shader == dispatch->shader && known->subgroup_size == dispatch->subgroup_size &&
        known->divided == dispatch->divided && known->n_spec == dispatch->n_spec &&
        memcmp(known->spec, dispatch->spec, (size_t)dispatch->n_spec * sizeof(uint32_t)) == 0) {
      return known;
    }
  }
  return NULL;
}

/* A pipeline on its way. */
typedef struct wanted {
  const tsr_vk_dispatch *dispatch;
  VkShaderModule module;
  VkPipelineLayout layout;
  VkPipeline handle;
  VkResult result;
} wanted;

static int32_t prepare(tsr_backend_device *d, const tsr_vk_dispatch *dispatch, wanted *w)
{
  const tsr_vk_layout *layout = NULL;
  *w = (wanted){.dispatch = dispatch, .result = VK_NOT_READY};
  int32_t status = tsr_vk_layout_get(d, dispatch->n_operands + (dispatch->wide ? 1 : 0), &layout);
  if (status == TSR_OK) {
    w->layout = layout->pipeline;
    status = get_module(d, dispatch->shader, &w->module);
  }
  return status;
}

/* Any thread: Vulkan orders what is done to the cache. */
static void create(const tsr_backend_device *d, wanted *w)
{
  const tsr_vk_dispatch *dispatch = w->dispatch;
  VkSpecializationMapEntry entries[TSR_VK_MAX_SPEC];
  for (int32_t i = 0; i < dispatch->n_spec; i++) {
    entries[i] = (VkSpecializationMapEntry){
        .constantID = (uint32_t)i, .offset = (uint32_t)i * sizeof(uint32_t), .size = sizeof(uint32_t)};
  }
  VkSpecializationInfo specialization = {
      .mapEntryCount = (uint32_t)dispatch->n_spec,
      .pMapEntries = entries,
      .dataSize = (size_t)dispatch->n_spec * sizeof(uint32_t),
      .pData = dispatch->spec,
  };
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
      .requiredSubgroupSize = dispatch->subgroup_size,
  };
  int one_size = d->caps.subgroup_sizes[0] == d->caps.subgroup_sizes[1];
  VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage =
          {
              .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
              .pNext = dispatch->subgroup_size > 0 && !one_size ? &subgroup : NULL,
              .flags = dispatch->subgroup_size > 0 ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
              .stage = VK_SHADER_STAGE_COMPUTE_BIT,
              .module = w->module,
              .pName = "main",
              .pSpecializationInfo = &specialization,
          },
      .flags = tsr_vk_statistics_flags(d) | (dispatch->divided ? VK_PIPELINE_CREATE_DISPATCH_BASE_BIT : 0u),
      .layout = w->layout,
  };
  w->result = d->vk.vkCreateComputePipelines(d->handle, d->pipelines.cache, 1, &info, NULL, &w->handle);
}

/* Adds what was created to the device's pipelines, or says why there is nothing. */
static int32_t keep(tsr_backend_device *d, const wanted *w)
{
  tsr_vk_pipelines *p = &d->pipelines;
  const tsr_vk_dispatch *dispatch = w->dispatch;
  const char *name = tsr_vk_shaders[dispatch->shader].name;
  int32_t status = tsr_vk_check(d->host, w->result, "vkCreateComputePipelines");
  if (status != TSR_OK) {
    tsr_vk_report(d->host, TSR_LOG_WARNING, "the shader that could not be made into a pipeline is %s", name);
    return status;
  }
  status = tsr_vk_grow(d, (void **)&p->pipelines, &p->room, p->n_pipelines + 1, sizeof(*p->pipelines));
  if (status != TSR_OK) {
    d->vk.vkDestroyPipeline(d->handle, w->handle, NULL);
    return status;
  }
  tsr_vk_pipeline made = {
      .shader = dispatch->shader,
      .subgroup_size = dispatch->subgroup_size,
      .divided = dispatch->divided,
      .n_spec = dispatch->n_spec,
      .handle = w->handle,
      .last_use = ++p->n_uses,
  };
  memcpy(made.spec, dispatch->spec, (size_t)dispatch->n_spec * sizeof(uint32_t));
  tsr_vk_name(d, VK_OBJECT_TYPE_PIPELINE, (uint64_t)made.handle, "%s", name);
  d->counters.pipelines++;
  p->pipelines[p->n_pipelines++] = made;
  p->n_unused++;
  p->n_unsaved++;
  return TSR_OK;
}

int32_t tsr_vk_pipeline_get(tsr_backend_device *d, const tsr_vk_dispatch *dispatch, VkPipeline *result)
{
  tsr_vk_pipelines *p = &d->pipelines;
  tsr_vk_pipeline *known = find_known(p, dispatch);
  int32_t status = TSR_OK;
  if (!known) {
    wanted w;
    status = prepare(d, dispatch, &w);
    if (status != TSR_OK) {
      return status;
    }
    tsr_vk_statistics_begin(d, dispatch);
    create(d, &w);
    tsr_vk_statistics_end(d, dispatch, w.result == VK_SUCCESS ? w.handle : VK_NULL_HANDLE);
    status = keep(d, &w);
    known = status == TSR_OK ? &p->pipelines[p->n_pipelines - 1] : NULL;
  }
  if (known) {
    tsr_vk_statistics_use(d, dispatch, known);
    known->last_use = ++p->n_uses;
    *result = known->handle;
  }
  return status;
}

/* ---- many at once ------------------------------------------------------------------------------------------------ */

enum { MAX_THREADS = 8 };

/* Pipelines that threads take from each other. */
typedef struct crew {
  const tsr_backend_device *device;
  wanted *wanted;
  int32_t n;
  atomic_int next;
} crew;

static void *work(void *user)
{
  crew *c = user;
  for (int32_t i = atomic_fetch_add(&c->next, 1); i < c->n; i = atomic_fetch_add(&c->next, 1)) {
    create(c->device, &c->wanted[i]);
  }
  return NULL;
}

static void create_all(const tsr_backend_device *d, wanted *w, int32_t n)
{
  pthread_t threads[MAX_THREADS];
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  int32_t wanted_threads = processors < MAX_THREADS ? (int32_t)processors : MAX_THREADS, n_threads = 0;
  crew c = {.device = d, .wanted = w, .n = n};
  wanted_threads = wanted_threads < n ? wanted_threads : n;
  /* This thread is one of them; those that the system does not give are not needed. */
  while (n_threads + 1 < wanted_threads && pthread_create(&threads[n_threads], NULL, work, &c) == 0) {
    n_threads++;
  }
  work(&c);
  for (int32_t i = 0; i < n_threads; i++) {
    pthread_join(threads[i], NULL);
  }
}

static int is_among(const wanted *w, int32_t n, const tsr_vk_dispatch *dispatch)
{
  for (int32_t i = 0; i < n; i++) {
    if (same_pipeline(w[i].dispatch, dispatch)) {
      return 1;
    }
  }
  return 0;
}

int32_t tsr_vk_pipelines_make(tsr_backend_device *d, const tsr_vk_dispatch *const *dispatches, int32_t n)
{
  if (d->statistics) {
    return TSR_OK; /* which tells of one after another, as they are asked for */
  }
  wanted *w = tsr_vk_calloc(d, (size_t)n + 1, sizeof(*w));
  if (!w) {
    return tsr_vk_fail(d->host, TSR_ERR_OUT_OF_MEMORY, "no memory to make %d pipelines", n);
  }
  int32_t status = TSR_OK, n_wanted = 0;
  for (int32_t i = 0; status == TSR_OK && i < n; i++) {
    if (!find_known(&d->pipelines, dispatches[i]) && !is_among(w, n_wanted, dispatches[i])) {
      status = prepare(d, dispatches[i], &w[n_wanted]);
      n_wanted += status == TSR_OK;
    }
  }
  if (status == TSR_OK) {
    create_all(d, w, n_wanted);
  }
  for (int32_t i = 0; i < n_wanted; i++) {
    if (w[i].handle && status != TSR_OK) {
      d->vk.vkDestroyPipeline(d->handle, w[i].handle, NULL);
    } else if (status == TSR_OK) {
      status = keep(d, &w[i]);
    }
  }
  free(w);
  return status;
}

void tsr_vk_pipeline_hold(tsr_backend_device *d, VkPipeline pipeline, int32_t change)
{
  tsr_vk_pipelines *p = &d->pipelines;
  for (int32_t i = 0; i < p->n_pipelines; i++) {
    tsr_vk_pipeline *known = &p->pipelines[i];
    if (known->handle == pipeline) {
      p->n_unused -= known->users == 0;
      known->users += change;
      p->n_unused += known->users == 0;
      return;
    }
  }
}

/* The place of the one that is to go first; -1: all have users. */
static int32_t find_oldest(const tsr_vk_pipelines *p)
{
  int32_t oldest = -1;
  for (int32_t i = 0; i < p->n_pipelines; i++) {
    const tsr_vk_pipeline *known = &p->pipelines[i];
    if (known->users == 0 && (oldest < 0 || known->last_use < p->pipelines[oldest].last_use)) {
      oldest = i;
    }
  }
  return oldest;
}

void tsr_vk_pipelines_trim(tsr_backend_device *d, int32_t kept)
{
  tsr_vk_pipelines *p = &d->pipelines;
  if (d->statistics) {
    return; /* each pipeline is told once */
  }
  while (p->n_unused > kept) {
    int32_t oldest = find_oldest(p);
    d->vk.vkDestroyPipeline(d->handle, p->pipelines[oldest].handle, NULL);
    p->pipelines[oldest] = p->pipelines[--p->n_pipelines];
    p->n_unused--;
  }
}
