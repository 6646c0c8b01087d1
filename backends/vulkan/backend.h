/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host side's files share. Objects point up: buffer and executable to their device, device to its context. A
 * device and all that hangs on it is used by one thread at a time (backend.h); a context is read-only after start.
 */
#ifndef TESSERA_BACKENDS_VULKAN_BACKEND_H
#define TESSERA_BACKENDS_VULKAN_BACKEND_H

#include <stdio.h>
#include <time.h>

#include <volk.h>

#include "backends/vulkan/extensions.h"
#include "backends/vulkan/kernel.h"
#include "tessera/backend.h"

#define TSR_VK_SPARE_BYTES   16 /* behind each buffer's own, so that 32-bit access to an odd tail stays inside */
#define TSR_VK_MAX_BINDINGS  (TSR_VK_MAX_OPERANDS + 1)
#define TSR_VK_STAGING_SLOTS 2
#define TSR_VK_STAGING_BYTES (4u << 20) /* of each slot */
#define TSR_VK_ADDRESS_BYTES (TSR_VK_MAX_OPERANDS * sizeof(uint64_t))

/* ------------------------------------------------------------------------------------------------------------------
 * report.c
 */
void tsr_vk_report(const tsr_host *host, int32_t level, const char *format, ...) TSR_PRINTF(3, 4);

/* Reports the reason of an error and returns `status`. */
int32_t tsr_vk_fail(const tsr_host *host, int32_t status, const char *format, ...) TSR_PRINTF(3, 4);

/* Turns a VkResult into a status; anything but VK_SUCCESS is reported with the name of the call and what the user
 * can do. */
int32_t tsr_vk_check(const tsr_host *host, VkResult result, const char *call);
#define VK(host, call) tsr_vk_check((host), (call), #call)

/* ------------------------------------------------------------------------------------------------------------------
 * options.c: what users may set
 */
enum { TSR_VK_QUEUE_AUTO, TSR_VK_QUEUE_COMPUTE, TSR_VK_QUEUE_GRAPHICS };

typedef struct tsr_vk_options {
  int validation;
  int pipeline_cache;
  int tuning;  /* 1: variants are taken as `tessera tune` found them */
  int staging; /* 1: as if the host saw no device memory */
  int fusion;
  int kernels;            /* 0: as the device is; 1: for CPUs, 2: for GPUs */
  int queue;              /* TSR_VK_QUEUE_* */
  double max_binding;     /* bytes; negative: not set */
  double max_groups;      /* workgroups; negative: not set */
  double watchdog_flops;  /* negative: not set */
  int32_t variant;        /* VULKAN_VARIANT, TSR_VK_VARIANT_* */
  const char *statistics; /* PIPELINE_STATISTICS: a path, or NULL */
} tsr_vk_options;

/* Reads all options. A value that makes no sense: TSR_ERR_ARGUMENT, reported with the option's name and what it should
 * be. Texts live as long as the host. */
int32_t tsr_vk_options_read(const tsr_host *host, tsr_vk_options *options);

/* ------------------------------------------------------------------------------------------------------------------
 * backend.c: the instance and the plugin's table
 */
typedef struct tsr_vk_context {
  const tsr_host *host;
  VkInstance instance;
  VkDebugUtilsMessengerEXT messenger; /* with the option VALIDATION */
  PFN_vkDestroyDebugUtilsMessengerEXT destroy_messenger;
  PFN_vkSetDebugUtilsObjectNameEXT set_name;                                    /* NULL without VK_EXT_debug_utils */
  PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR get_cooperative_shapes; /* NULL: no driver has them */
  uint32_t n_devices;                                                           /* those that meet the requirements */
  VkPhysicalDevice *devices;
} tsr_vk_context;

/* ------------------------------------------------------------------------------------------------------------------
 * loader.c
 */
/* Held, by whatever thread and instance, while an instance or a device is created or destroyed, and while an object
 * is named: the loader does not keep the last apart from the others. */
void tsr_vk_loader_lock(void);
void tsr_vk_loader_unlock(void);

/* Names an object for debuggers, where VK_EXT_debug_utils is present. */
void tsr_vk_name(tsr_backend_device *device, VkObjectType type, uint64_t object, const char *format, ...)
    TSR_PRINTF(4, 5);

/* ------------------------------------------------------------------------------------------------------------------
 * hardware.c: what a physical device offers, read in one place
 */
typedef struct tsr_vk_hardware {
  VkPhysicalDeviceProperties properties;
  VkPhysicalDeviceVulkan11Properties properties11;
  VkPhysicalDeviceVulkan12Properties properties12;
  VkPhysicalDeviceFeatures features;
  VkPhysicalDeviceVulkan11Features features11;
  VkPhysicalDeviceVulkan12Features features12;
  VkPhysicalDeviceMemoryProperties memory;
  uint64_t max_buffer_size;
  uint64_t promised_buffer_size; /* the driver may refuse larger ones */
  struct {
    int32_t index; /* -1: there is none */
    uint32_t timestamp_bits;
  } families[2];           /* that compute: [0] and do not draw, [1] and draw */
  uint32_t queue_family;   /* the one that was chosen */
  uint32_t timestamp_bits; /* its; 0: no timestamps */
  int integer_dot;         /* packed products of four bytes */
  int fast_integer_dot;    /* by an instruction of their own */
  int cooperative_matrix;  /* subgroups of compute shaders multiply them, in the shapes below */
  int bfloat16;            /* of bf16, too */
  tsr_vk_shape shapes[TSR_VK_MAX_SHAPES];
  int32_t n_shapes;
  uint32_t subgroup_sizes[2]; /* the least and the largest that a pipeline may ask for; 0: none */
  uint32_t max_subgroups;     /* of a workgroup whose size was asked for */
  int maximal_reconvergence;  /* VK_KHR_shader_maximal_reconvergence */
  int pipeline_statistics;    /* VK_KHR_pipeline_executable_properties */
  int memory_budget;          /* VK_EXT_memory_budget */
  int portability;            /* VK_KHR_portability_subset: to be enabled where it is */
} tsr_vk_hardware;

void tsr_vk_hardware_describe(const tsr_vk_hardware *hardware, tsr_device_properties *properties);
void tsr_vk_hardware_caps(const tsr_vk_hardware *hardware, tsr_vk_caps *caps);

/* Fills *hardware. Returns NULL, or why the device cannot be used. */
const char *tsr_vk_hardware_read(const tsr_vk_context *context, VkPhysicalDevice device, tsr_vk_hardware *hardware);

/* Takes a queue of that kind (TSR_VK_QUEUE_*). 0: the device has none. Left to itself, one that computes and does not
 * draw, which runs beside the desktop's drawing. */
int tsr_vk_hardware_choose_queue(tsr_vk_hardware *hardware, int queue);

/* Whether memory of the device is memory of the host. */
int tsr_vk_hardware_unified(const tsr_vk_hardware *hardware);

/* Bytes that may be taken from a memory heap. */
uint64_t tsr_vk_heap_limit(const tsr_vk_hardware *hardware, uint32_t heap);

/* Bytes of the heap that are free, as far as the driver tells, for a program that holds `held` of them. */
uint64_t tsr_vk_heap_free(const tsr_vk_hardware *hardware, VkPhysicalDevice device, uint32_t heap, uint64_t held);

/* That of the largest heap that is the device's own; of all memory where it has none of its own. */
uint64_t tsr_vk_largest_heap(const tsr_vk_hardware *hardware);

/* Of a storage within a buffer, bytes. */
uint32_t tsr_vk_buffer_alignment(const tsr_vk_hardware *hardware);

/* ------------------------------------------------------------------------------------------------------------------
 * memory.c: device memory, shared among small allocations; and the host's, counted
 */
typedef struct tsr_vk_block tsr_vk_block;

typedef struct tsr_vk_memory {
  tsr_vk_block *block; /* NULL: nothing allocated */
  VkDeviceMemory memory;
  VkDeviceSize offset; /* in memory */
  VkDeviceSize size;
  void *mapped;   /* NULL if the host cannot see it */
  int coherent;   /* 0: writes are flushed, reads invalidated */
  int fast_reads; /* 1: the host reads it at the speed of its own memory */
} tsr_vk_memory;

/* Beyond this many bytes the host reaches memory of a card through the staging ring alone, even where it sees it: it
 * would fill it with zeros across the bus, and what the device writes most should lie where the device is fastest. */
enum { TSR_VK_MAPPED_BYTES = 1 << 20 };

/* Memory for `needs`, of the best type for `usage` (TSR_BUFFER_*) that has room. `asked`: the buffer's bytes. */
int32_t tsr_vk_memory_allocate(tsr_backend_device *device, const VkMemoryRequirements *needs, int32_t usage,
                               uint64_t asked, tsr_vk_memory *memory);
void tsr_vk_memory_free(tsr_backend_device *device, tsr_vk_memory *memory);

/* Make what the host wrote visible to the device, and what the device wrote visible to the host. */
int32_t tsr_vk_memory_flush(tsr_backend_device *device, const tsr_vk_memory *memory, uint64_t offset, uint64_t size);
int32_t tsr_vk_memory_invalidate(tsr_backend_device *device, const tsr_vk_memory *memory, uint64_t offset,
                                 uint64_t size);

/* Zeroed memory for count elements, counted; NULL if there is none (not reported). */
void *tsr_vk_calloc(tsr_backend_device *device, size_t count, size_t size);

/* Grows an array to hold at least `needed` elements; on failure it is left as it was. */
int32_t tsr_vk_grow(tsr_backend_device *device, void **array, int32_t *room, int32_t needed, size_t element);

/* ------------------------------------------------------------------------------------------------------------------
 * buffer.c, and transfer.c: what is in buffers
 */
struct tsr_backend_buffer {
  tsr_backend_device *device;
  VkBuffer handle;
  tsr_vk_memory memory;
  uint64_t size;            /* as asked for; spare bytes follow */
  VkDeviceAddress address;  /* 0 if the device has no buffer addresses */
  uint64_t transfer_ticket; /* of the last staged copy from or to it */
  int direct_writes;        /* 1: written through the mapping */
  int direct_reads;
};

/* A buffer that holds zeros where direct_writes, and anything elsewhere. */
int32_t tsr_vk_buffer_allocate(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **result);

/* A buffer of zeros. */
int32_t tsr_vk_buffer_create(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **result);
void tsr_vk_buffer_destroy(tsr_backend_buffer *buffer);
int32_t tsr_vk_buffer_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes);
int32_t tsr_vk_buffer_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes);

/* ------------------------------------------------------------------------------------------------------------------
 * upload.c: the staging ring, for buffers that the host does not see
 */
typedef struct tsr_vk_staging_slot {
  VkCommandBuffer commands;
  char *bytes;         /* this slot's part of the staging buffer */
  VkDeviceSize offset; /* likewise */
  uint64_t ticket;     /* of its last submit */
  void *read_to;       /* a copy to the host that is not fetched yet */
  uint64_t read_size;
} tsr_vk_staging_slot;

typedef struct tsr_vk_staging {
  VkCommandPool pool; /* VK_NULL_HANDLE until the first copy */
  tsr_backend_buffer *buffer;
  tsr_vk_staging_slot slot[TSR_VK_STAGING_SLOTS];
  uint32_t next;
} tsr_vk_staging;

int32_t tsr_vk_staging_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes);
int32_t tsr_vk_staging_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes);
int32_t tsr_vk_staging_clear(tsr_backend_buffer *buffer); /* fills it with zeros */
void tsr_vk_staging_finish(tsr_backend_device *device);

/* ------------------------------------------------------------------------------------------------------------------
 * pipeline.c: pipelines, made when first needed and kept while an executable has them; of the others, the latest are
 * kept
 */
typedef struct tsr_vk_pipeline {
  int32_t shader;
  uint32_t subgroup_size;
  int32_t divided;
  int32_t n_spec;
  uint32_t spec[TSR_VK_MAX_SPEC];
  VkPipeline handle;
  int32_t users;                                /* dispatches of executables */
  uint64_t last_use;                            /* by tsr_vk_pipelines.n_uses */
  uint32_t told[TSR_VK_VARIANT_COUNT / 32 + 1]; /* a bit per variant that statistics.c told to use it */
} tsr_vk_pipeline;

typedef struct tsr_vk_layout {
  VkDescriptorSetLayout set;
  VkPipelineLayout pipeline;
} tsr_vk_layout;

typedef struct tsr_vk_pipelines {
  VkPipelineCache cache;
  int on_disk;                                   /* option PIPELINE_CACHE */
  size_t loaded_bytes;                           /* of the cache, as it is on disk */
  int32_t n_unsaved;                             /* made since the cache was saved */
  time_t saved_at;                               /* 0: not yet */
  tsr_vk_layout layout[TSR_VK_MAX_BINDINGS + 1]; /* by number of bindings */
  VkShaderModule *modules;                       /* by shader */
  tsr_vk_pipeline *pipelines;
  int32_t n_pipelines;
  int32_t room;
  int32_t n_unused; /* without users */
  uint64_t n_uses;  /* so far: a clock */
} tsr_vk_pipelines;

/* Pipelines without users that are kept: more than a model's programs have, so that none is made twice when programs
 * come and go; and where another variant is forced, as tests of all variants do, for which each pipeline is made
 * once. On a CPU each takes some megabytes. */
enum { TSR_VK_KEPT_PIPELINES = 512, TSR_VK_KEPT_WHEN_FORCED = 64 };

int32_t tsr_vk_pipelines_init(tsr_backend_device *device);
void tsr_vk_pipelines_finish(tsr_backend_device *device);

/* Saves the cache if there is something new and it was not saved just now: a program that is stopped loses little. */
void tsr_vk_pipelines_save(tsr_backend_device *device);

/* The layout for n storage buffers. */
int32_t tsr_vk_layout_get(tsr_backend_device *device, int32_t n_bindings, const tsr_vk_layout **result);

/* The pipeline of a dispatch's shader, size of subgroups and specialisation constants. */
int32_t tsr_vk_pipeline_get(tsr_backend_device *device, const tsr_vk_dispatch *dispatch, VkPipeline *result);

/* Makes the pipelines of n dispatches that the device does not have yet, several at a time: tsr_vk_pipeline_get finds
 * them. */
int32_t tsr_vk_pipelines_make(tsr_backend_device *device, const tsr_vk_dispatch *const *dispatches, int32_t n);

/* A dispatch of an executable has the pipeline from now on (change 1), or no longer (change -1). */
void tsr_vk_pipeline_hold(tsr_backend_device *device, VkPipeline pipeline, int32_t change);

/* Destroys those without users that were used the longest ago, until `kept` are left. */
void tsr_vk_pipelines_trim(tsr_backend_device *device, int32_t kept);

/* ------------------------------------------------------------------------------------------------------------------
 * statistics.c: what the driver tells of its pipelines, written to the file that the option PIPELINE_STATISTICS names.
 * Without the option all of this does nothing.
 */
/* path: the file; NULL: none. */
int32_t tsr_vk_statistics_init(tsr_backend_device *device, const char *path);
void tsr_vk_statistics_finish(tsr_backend_device *device);
VkPipelineCreateFlags tsr_vk_statistics_flags(const tsr_backend_device *device);

/* Around the making of a pipeline; VK_NULL_HANDLE: it failed. */
void tsr_vk_statistics_begin(tsr_backend_device *device, const tsr_vk_dispatch *dispatch);
void tsr_vk_statistics_end(tsr_backend_device *device, const tsr_vk_dispatch *dispatch, VkPipeline pipeline);

/* A dispatch takes a pipeline, new or old. */
void tsr_vk_statistics_use(tsr_backend_device *device, const tsr_vk_dispatch *dispatch, tsr_vk_pipeline *pipeline);

/* ------------------------------------------------------------------------------------------------------------------
 * cache.c: what is kept on disk. Without the file, pipelines are compiled anew: not to have it, or not to be able to
 * write it, is no error.
 */

/* The cache file's content, if there is one and it is whole and made by this driver; NULL otherwise. The caller
 * frees it. */
void *tsr_vk_cache_load(const tsr_host *host, const VkPhysicalDeviceProperties *properties, size_t *size);
void tsr_vk_cache_save(const tsr_host *host, const VkPhysicalDeviceProperties *properties, const void *bytes,
                       size_t size);

/* Adds what is kept of the best variants on this device, if anything is. A file that is damaged is warned of and left
 * alone. */
void tsr_vk_variants_load(const tsr_host *host, const VkPhysicalDeviceProperties *properties, tsr_vk_tuning *tuning);
int32_t tsr_vk_variants_save(const tsr_host *host, const VkPhysicalDeviceProperties *properties,
                             const tsr_vk_tuning *tuning);

/* ------------------------------------------------------------------------------------------------------------------
 * hazard.c: which dispatches must not overlap
 */
typedef struct tsr_vk_access {
  const tsr_backend_buffer *buffer;
  uint64_t begin; /* bytes of the buffer */
  uint64_t end;
  int32_t write;
  int32_t line;
} tsr_vk_access;

/* What the dispatches since the last barrier touched. */
typedef struct tsr_vk_hazards {
  tsr_vk_access *accesses;
  int32_t n_accesses;
  int32_t room;
} tsr_vk_hazards;

/* 1 if one of the n accesses must wait for an earlier one. With independent = 1 those of the same line do not count. */
int tsr_vk_hazards_conflict(const tsr_vk_hazards *hazards, const tsr_vk_access *accesses, int32_t n, int independent);
int32_t tsr_vk_hazards_add(tsr_backend_device *device, tsr_vk_hazards *hazards, const tsr_vk_access *accesses,
                           int32_t n);

/* ------------------------------------------------------------------------------------------------------------------
 * pace.c: how much work one submit may have
 */
typedef struct tsr_vk_pace {
  double bound; /* estimated work; 0: there is none */
  int learns;   /* 1: the bound follows from how long submits take */
} tsr_vk_pace;

/* memory: the device's own, in bytes; wanted: the option WATCHDOG_FLOPS; negative: not set. */
void tsr_vk_pace_init(tsr_vk_pace *pace, const tsr_vk_caps *caps, uint64_t memory, double wanted);

/* A submit with so much work took so long. */
void tsr_vk_pace_learn(tsr_vk_pace *pace, double work, double seconds);

/* Into how many submits a dispatch is divided, along which axis of its workgroups: the last that has more than one, so
 * that what a shader makes of gl_WorkGroupID and gl_NumWorkGroups is the same in each part. */
uint32_t tsr_vk_pace_parts(const tsr_vk_pace *pace, const tsr_vk_dispatch *dispatch, int *axis);

/* ------------------------------------------------------------------------------------------------------------------
 * device.c
 */
struct tsr_backend_device {
  const tsr_vk_context *context;
  const tsr_host *host;
  VkPhysicalDevice physical;
  tsr_vk_hardware hardware;
  tsr_vk_caps caps;
  tsr_vk_tuning tuning; /* caps.tuning */
  VkDevice handle;
  struct VolkDeviceTable vk;
  VkQueue queue;
  VkSemaphore timeline; /* signalled with each submit's ticket */
  uint64_t ticket;      /* of the last submit */
  uint64_t ticket_done; /* known to have ended */
  int lost;
  int force_staging; /* option STAGING: as if the host saw no device memory */
  int described;     /* 1: it is not there (described.c): the fields above `handle` alone have meaning */
  tsr_vk_pace pace;
  uint64_t heap_bytes[VK_MAX_MEMORY_HEAPS]; /* allocated from each heap */
  tsr_vk_block *blocks;
  VkDeviceSize block_bytes; /* of a block for small allocations */
  tsr_vk_staging staging;
  tsr_vk_pipelines pipelines;
  FILE *statistics; /* option PIPELINE_STATISTICS; NULL without it */
  tsr_device_counters counters;
};

int32_t tsr_vk_device_open(const tsr_vk_context *context, VkPhysicalDevice physical, tsr_backend_device **device);
void tsr_vk_device_close(tsr_backend_device *device);

/* ------------------------------------------------------------------------------------------------------------------
 * queue.c
 */
/* Hands n recorded command buffers to the queue, in one submit. *ticket is what tsr_vk_wait takes. */
int32_t tsr_vk_submit(tsr_backend_device *device, const VkCommandBuffer *commands, uint32_t n, uint64_t *ticket);

/* Blocks until that submit, and all before it, have ended. Ticket 0: returns at once. */
int32_t tsr_vk_wait(tsr_backend_device *device, uint64_t ticket);

/* The same before something is destroyed, when nothing can be done about an error. */
void tsr_vk_settle(tsr_backend_device *device, uint64_t ticket);

/* ------------------------------------------------------------------------------------------------------------------
 * executable.c
 */
int tsr_vk_supports(tsr_backend_device *device, const tsr_program_desc *program, int32_t line);
int32_t tsr_vk_variant_of(tsr_backend_device *device, const tsr_program_desc *program, int32_t line);
int32_t tsr_vk_prepare(tsr_backend_device *device, const tsr_program_desc *program);
int tsr_vk_class_of(tsr_backend_device *device, const tsr_program_desc *program, int32_t line, tsr_vk_class *class);
int32_t tsr_vk_compile(tsr_backend_device *device, const tsr_compile_args *args, tsr_backend_executable **result);
void tsr_vk_executable_destroy(tsr_backend_executable *executable);
int32_t tsr_vk_run(tsr_backend_executable *executable);
int32_t tsr_vk_run_many(tsr_backend_executable *executable, uint32_t n); /* tsr_runs_extension.run_many */
int32_t tsr_vk_executable_wait(tsr_backend_executable *executable);
int32_t tsr_vk_profile(tsr_backend_executable *executable, uint64_t *nanoseconds);
int32_t tsr_vk_describe(tsr_backend_executable *executable, tsr_line_commands *lines);

/* Calls `take` for each dispatch of the program, in order (tsr_plan_extension.plan). Asks nothing of the device but its
 * host, capabilities and name. */
typedef void (*tsr_vk_take)(void *taker, const tsr_planned_dispatch *dispatch);
int32_t tsr_vk_tell(tsr_backend_device *device, const tsr_program_desc *program, tsr_vk_take take, void *taker);

/* ------------------------------------------------------------------------------------------------------------------
 * described.c: the extension "tessera.plan/1"
 */
extern const tsr_plan_extension tsr_vk_plan_extension;

/* Tells of one dispatch, which computes lines first .. last. */
void tsr_vk_tell_dispatch(const tsr_program_desc *program, const tsr_vk_dispatch *dispatch, int32_t first, int32_t last,
                          int waits, tsr_vk_take take, void *taker);

#endif
