/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer VK_LAYER_TESSERA_card: what its files share.
 */
#ifndef TESTS_CARD_H
#define TESTS_CARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

/* ---- profile.c: what the card is -------------------------------------------------------------------------------- */

enum { CARD_MAX_VALUES = 128, CARD_MAX_FAMILIES = 8, CARD_MAX_EXTENSIONS = 16, CARD_NAME_BYTES = 64 };

/* What a profile says of one limit, feature or property; names.c knows where it belongs. */
typedef struct card_value {
  char name[CARD_NAME_BYTES];
  char text[256]; /* of a string; else empty */
  double number[3];
  uint64_t integer[3];
  int count; /* of numbers */
} card_value;

typedef struct card_heap {
  uint64_t size;
  uint64_t free;  /* what an application gets when the first allocation is made */
  uint64_t taken; /* by how much that shrinks with each allocation */
  VkMemoryHeapFlags flags;
} card_heap;

typedef struct card_profile {
  int present; /* 0: the driver is shown as it is */
  char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
  char driver_name[VK_MAX_DRIVER_NAME_SIZE];
  char driver_info[VK_MAX_DRIVER_INFO_SIZE];
  VkPhysicalDeviceType type;
  uint32_t vendor;
  uint32_t device;
  uint32_t api_version;
  uint32_t n_heaps;
  card_heap heaps[VK_MAX_MEMORY_HEAPS];
  uint32_t n_types;
  VkMemoryType types[VK_MAX_MEMORY_TYPES];
  uint32_t buffer_types;           /* a bit for each type that buffers may have */
  uint64_t buffer_alignment;       /* of buffers within memory */
  uint64_t allocations_fail_above; /* bytes; 0: never */
  uint32_t n_families;
  VkQueueFamilyProperties families[CARD_MAX_FAMILIES];
  int n_extensions;
  VkExtensionProperties extensions[CARD_MAX_EXTENSIONS]; /* all that are shown */
  int n_limits, n_features, n_properties;
  card_value limits[CARD_MAX_VALUES];
  card_value features[CARD_MAX_VALUES];
  card_value properties[CARD_MAX_VALUES];
} card_profile;

/* The one of this process: from CARD_PROFILE, read at the first call. A bad one ends the program. */
const card_profile *card_profile_get(void);
int card_profile_has_extension(const char *name);

/* Tells what the application did wrong and ends it. */
_Noreturn void card_breach(const char *format, ...);

/* ---- names.c: limits, features and properties by their names ---------------------------------------------------- */

int card_knows_limit(const char *name);
int card_knows_feature(const char *name);
int card_knows_property(const char *name);
/* What the driver said becomes what the card says: of the structure itself and all that it is chained to. */
void card_apply_limits(VkPhysicalDeviceLimits *limits);
void card_apply_features(VkPhysicalDeviceFeatures2 *features);
void card_apply_properties(VkPhysicalDeviceProperties2 *properties);
/* A feature that the card lacks may not be enabled. */
void card_check_features(const VkDeviceCreateInfo *info);
int card_lacks_feature(const char *name); /* the profile says that it is not there */
int card_lacks_property(const char *name);
/* Chained structures that the card's driver would not know stay as the application left them. */
typedef struct card_untouched {
  int n;
  void *structure[16];
  void *copy[16];
} card_untouched;
void card_keep_unknown(void *chain, card_untouched *kept);
void card_restore_unknown(card_untouched *kept);

/* ---- faults.c: what goes wrong, by CARD_FAULT ------------------------------------------------------------------- */

typedef enum card_fault {
  CARD_ALLOCATE,
  CARD_ALLOCATE_ABOVE, /* a size instead of a number */
  CARD_MAP,
  CARD_BUFFER,
  CARD_BIND,
  CARD_PIPELINE,
  CARD_COMMANDS,
  CARD_DESCRIPTORS,
  CARD_DEVICE,
  CARD_SUBMIT,
  CARD_LOST,         /* with that submit */
  CARD_LOST_IN_WAIT, /* with that wait */
  CARD_WAIT_TIMEOUT, /* likewise: VK_TIMEOUT first */
  CARD_HOST_MEMORY,  /* of all calls that make something */
  CARD_N_FAULTS
} card_fault;

/* Counts a call of that kind; those up to CARD_DEVICE make something, and can fail for want of the host's memory.
 * VK_SUCCESS, or what it has to return instead of doing anything. */
VkResult card_count(card_fault fault);
VkResult card_count_creation(void); /* a call of no kind of its own */
int card_allocation_is_too_large(uint64_t size);
uint64_t card_calls(card_fault fault);
const char *card_fault_name(card_fault fault);

/* ---- statistics.c ----------------------------------------------------------------------------------------------- */

/* What a command buffer does, or all that were submitted. */
typedef struct card_work {
  uint64_t dispatches;
  uint64_t barriers;
  uint64_t fill_bytes;
  uint64_t copy_bytes;
  uint64_t largest_dispatch; /* workgroups */
} card_work;

void card_note_allocation(uint32_t type, uint64_t size);
void card_note_heap(uint32_t heap, uint64_t used);
void card_note_mapping(uint64_t size);
void card_note_flush(uint64_t size);
void card_note_submit(const card_work *work);
void card_statistics_write(void);

/* ---- table.c: what is kept of an object, by its handle ---------------------------------------------------------- */

typedef struct card_entry {
  uint64_t handle;
  void *value;
} card_entry;

typedef struct card_table {
  card_entry *entries; /* in no order */
  size_t n, room;
} card_table;

#define CARD_HANDLE(object) ((uint64_t)(uintptr_t)(object))

void *card_table_find(const card_table *table, uint64_t handle);      /* NULL: it is not there */
void card_table_put(card_table *table, uint64_t handle, void *value); /* takes what malloc gave */
void *card_table_take(card_table *table, uint64_t handle);            /* what it held; NULL: it is not there */
void card_table_clear(card_table *table);

/* ---- device.c --------------------------------------------------------------------------------------------------- */

/* The functions of the driver that the layer calls. */
#define CARD_DEVICE_FUNCTIONS(X)                                                                                       \
  X(DestroyDevice)                                                                                                     \
  X(GetDeviceQueue)                                                                                                    \
  X(GetDeviceQueue2)                                                                                                   \
  X(DeviceWaitIdle)                                                                                                    \
  X(QueueWaitIdle)                                                                                                     \
  X(QueueSubmit)                                                                                                       \
  X(WaitSemaphores)                                                                                                    \
  X(AllocateMemory)                                                                                                    \
  X(FreeMemory)                                                                                                        \
  X(MapMemory)                                                                                                         \
  X(UnmapMemory)                                                                                                       \
  X(CreateBuffer)                                                                                                      \
  X(DestroyBuffer)                                                                                                     \
  X(GetBufferMemoryRequirements)                                                                                       \
  X(GetBufferMemoryRequirements2)                                                                                      \
  X(BindBufferMemory)                                                                                                  \
  X(CreateCommandPool)                                                                                                 \
  X(DestroyCommandPool)                                                                                                \
  X(AllocateCommandBuffers)                                                                                            \
  X(FreeCommandBuffers)                                                                                                \
  X(BeginCommandBuffer)                                                                                                \
  X(EndCommandBuffer)                                                                                                  \
  X(CmdDispatch)                                                                                                       \
  X(CmdFillBuffer)                                                                                                     \
  X(CmdCopyBuffer)                                                                                                     \
  X(CmdPipelineBarrier)                                                                                                \
  X(CmdPushConstants)                                                                                                  \
  X(CreateDescriptorSetLayout)                                                                                         \
  X(CreateDescriptorPool)                                                                                              \
  X(AllocateDescriptorSets)                                                                                            \
  X(UpdateDescriptorSets)                                                                                              \
  X(CreatePipelineLayout)                                                                                              \
  X(CreatePipelineCache)                                                                                               \
  X(CreateShaderModule)                                                                                                \
  X(DestroyShaderModule)                                                                                               \
  X(CreateComputePipelines)                                                                                            \
  X(CreateSemaphore)                                                                                                   \
  X(CreateQueryPool)                                                                                                   \
  X(GetQueryPoolResults)

typedef struct card_device card_device;
struct card_device {
  card_device *next_device;
  void *key; /* the loader's, common to the device and all its queues and command buffers */
  VkDevice handle;
  PFN_vkGetDeviceProcAddr get_proc_addr;
#define CARD_MEMBER(name) PFN_vk##name name;
  struct {
    CARD_DEVICE_FUNCTIONS(CARD_MEMBER)
  } next;
#undef CARD_MEMBER
  VkPhysicalDeviceLimits limits; /* the card's */
  pthread_mutex_t lock;          /* of all that follows, and of the one queue of the driver */
  card_table memories;           /* card_memory */
  card_table buffers;            /* card_buffer */
  card_table modules;            /* card_module */
  card_table commands;           /* card_commands */
  card_table queries;            /* of timestamps: an empty value */
  uint32_t n_allocations;
  uint64_t heap_used[VK_MAX_MEMORY_HEAPS]; /* where devices are apart; under the lock of the heaps */
  atomic_int is_lost;                      /* for good; another device of the same card works */
  double ticks;                            /* of the card, for one of the driver */
  uint32_t timestamp_bits;                 /* of the family that was asked for */
};

/* By a VkDevice, VkQueue or VkCommandBuffer. */
card_device *card_device_of(const void *dispatchable);
/* What the heap has for the application, all in all, at this moment: for every device of this process; where devices
 * are apart, as if none had taken anything. */
uint64_t card_heap_budget(uint32_t heap);
uint64_t card_heap_used(uint32_t heap);
PFN_vkVoidFunction card_device_function(const char *name);

/* ---- memory.c, commands.c, pipelines.c: the functions of a device ----------------------------------------------- */

typedef struct card_memory {
  uint32_t type;
  uint64_t size;
  char *bytes;  /* the driver's mapping, as long as the memory lives */
  char *shadow; /* what the host sees of memory that is not coherent; NULL: it sees the bytes */
  int is_mapped;
  uint64_t mapped_offset, mapped_size;
} card_memory;

typedef struct card_buffer {
  uint64_t size;
} card_buffer;

typedef struct card_function {
  const char *name;
  PFN_vkVoidFunction function;
} card_function;

/* Each ends with an empty row. */
extern const card_function card_memory_functions[];
extern const card_function card_command_functions[];
extern const card_function card_pipeline_functions[];
void card_memories_free(card_device *device);

/* ---- module.c: what a shader asks for --------------------------------------------------------------------------- */

typedef struct card_module {
  size_t n_words;
  uint32_t words[]; /* SPIR-V */
} card_module;

typedef struct card_needs {
  uint32_t size[3]; /* of a workgroup */
  uint64_t shared_bytes;
  int preserves[65]; /* 1 at a width of floats: SignedZeroInfNanPreserve */
  int n_capabilities;
  uint32_t capabilities[64];
} card_needs;

/* With the specialisation of a stage, which may be NULL. */
void card_module_needs(const card_module *module, const VkSpecializationInfo *specialization, card_needs *needs);

#endif
