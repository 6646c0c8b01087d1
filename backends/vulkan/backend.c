/* SPDX-License-Identifier: Apache-2.0
 *
 * The Vulkan backend: the plugin's table, the instance, and the list of devices.
 *
 * Options (environment: TESSERA_NAME)
 *   VALIDATION      1: the Khronos validation layer, synchronisation included; what it finds is logged as warnings.
 *     Default 0
 *   PIPELINE_STATISTICS  a file to which is written what the driver tells of each pipeline (statistics.c). Default:
 *     none
 *   PIPELINE_CACHE  0: pipelines are neither loaded from nor saved to the cache folder. Default 1
 *   STAGING         1: every copy to and from device buffers goes through the staging ring, as on a device whose memory
 *                   the host does not see: for tests. Default 0
 *   MAX_BINDING     bytes beyond which a storage is reached by its address, where the device's own limit is not
 *                   smaller: for tests. Default: the device's
 *   MAX_GROUPS      workgroups along each of the first two axes of a grid, where the device's own limit is not smaller:
 *                   for tests. Default: the device's
 *   VULKAN_KERNELS  cpu, gpu: kernels as for such a device, whatever the device is. Default: what it is
 *   VULKAN_QUEUE    compute, graphics: a queue of a family that does not draw, or does. Default: one that does not,
 *                   where there is one
 *   VULKAN_FUSION   0: no line is computed as one with another, or takes what another left (fusion.c). Default 1
 *   VULKAN_VARIANT  a variant of a kernel (variants.h), such as matmul.generic, to take wherever it can be had.
 *                   Default: none
 *   TUNING          0: the best variants, as `tessera tune` found them, are not loaded. Default 1
 *   WATCHDOG_FLOPS  estimated work of one submit, beyond which a run is split; 0: never. Default: what takes about 0.3
 *     seconds (pace.c), 0 where a CPU executes
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/backend.h"
#include "shaders/shaders.h"

#define VALIDATION_LAYER "VK_LAYER_KHRONOS_validation"

/* What a driver keeps from its first call until it is unloaded, LeakSanitizer would take for ours: of Mesa's, the table
 * of the processor's caches, which no function frees. A library that is unloaded cannot be named in a list of
 * suppressions. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAKS_ARE_SOUGHT 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define LEAKS_ARE_SOUGHT 1
#endif
#if defined(LEAKS_ARE_SOUGHT)
#include <sanitizer/lsan_interface.h>
#define LEAKS_ALLOWED()   __lsan_disable()
#define LEAKS_FORBIDDEN() __lsan_enable()
#else
#define LEAKS_ALLOWED()   ((void)0)
#define LEAKS_FORBIDDEN() ((void)0)
#endif

/* volk keeps the loader's entry points in globals: they are the loader's own, the same for every instance, and filled
 * in once however often the backend is started. */
static int32_t load_vulkan(const tsr_host *host)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static int loaded;
  pthread_mutex_lock(&lock);
  if (!loaded) {
    loaded = volkInitialize() == VK_SUCCESS;
  }
  int ready = loaded;
  pthread_mutex_unlock(&lock);
  if (!ready) {
    return tsr_vk_fail(host, TSR_ERR_NO_DEVICE,
                       "no Vulkan loader: install libvulkan1 and a driver (mesa-vulkan-drivers, or the GPU vendor's)");
  }
  if (volkGetInstanceVersion() < VK_API_VERSION_1_1) {
    return tsr_vk_fail(host, TSR_ERR_NO_DEVICE, "the Vulkan loader is too old: update libvulkan1 to 1.2 or later");
  }
  return TSR_OK;
}

static void load_instance_functions(VkInstance instance)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  if (volkGetLoadedInstance() == VK_NULL_HANDLE) {
    volkLoadInstanceOnly(instance);
  }
  pthread_mutex_unlock(&lock);
}

static int has_instance_extension(const char *layer, const char *name)
{
  uint32_t count = 0;
  if (vkEnumerateInstanceExtensionProperties(layer, &count, NULL) != VK_SUCCESS || count == 0) {
    return 0;
  }
  VkExtensionProperties *extensions = calloc(count, sizeof(*extensions));
  int found = 0;
  if (extensions && vkEnumerateInstanceExtensionProperties(layer, &count, extensions) >= VK_SUCCESS) {
    for (uint32_t i = 0; i < count; i++) {
      found |= strcmp(extensions[i].extensionName, name) == 0;
    }
  }
  free(extensions);
  return found;
}

static int has_layer(const char *name)
{
  uint32_t count = 0;
  if (vkEnumerateInstanceLayerProperties(&count, NULL) != VK_SUCCESS || count == 0) {
    return 0;
  }
  VkLayerProperties *layers = calloc(count, sizeof(*layers));
  int found = 0;
  if (layers && vkEnumerateInstanceLayerProperties(&count, layers) >= VK_SUCCESS) {
    for (uint32_t i = 0; i < count; i++) {
      found |= strcmp(layers[i].layerName, name) == 0;
    }
  }
  free(layers);
  return found;
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_validation_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                            VkDebugUtilsMessageTypeFlagsEXT types,
                                                            const VkDebugUtilsMessengerCallbackDataEXT *data,
                                                            void *user)
{
  (void)types;
  /* Not TSR_LOG_ERROR: that would become the reason of an error that no slot returns. */
  tsr_vk_report(user, TSR_LOG_WARNING, "Vulkan validation %s: %s",
                severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT ? "error" : "warning", data->pMessage);
  return VK_FALSE;
}

static int32_t create_instance(tsr_vk_context *context, int validation)
{
  const tsr_host *host = context->host;
  if (validation && !has_layer(VALIDATION_LAYER)) {
    tsr_vk_report(host, TSR_LOG_WARNING,
                  "TESSERA_VALIDATION is set, but the layer is missing: install vulkan-validationlayers");
    validation = 0;
  }
  int debug_utils = has_instance_extension(NULL, VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  int validation_features =
      validation && has_instance_extension(VALIDATION_LAYER, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);

  const char *layers[] = {VALIDATION_LAYER};
  const char *extensions[3];
  uint32_t n_extensions = 0;
  /* Drivers that translate to another interface, as MoltenVK does, are shown only to those who ask for them. */
  const int portability = has_instance_extension(NULL, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
  if (portability) {
    extensions[n_extensions++] = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
  }
  if (debug_utils) {
    extensions[n_extensions++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  }
  if (validation_features) {
    extensions[n_extensions++] = VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME;
  }
  VkDebugUtilsMessengerCreateInfoEXT messenger_info = {
      .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
      .messageSeverity =
          VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
      .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
      .pfnUserCallback = on_validation_message,
      .pUserData = (void *)(uintptr_t)host,
  };
  VkValidationFeatureEnableEXT enables[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  VkValidationFeaturesEXT features = {
      .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
      .pNext = debug_utils ? &messenger_info : NULL,
      .enabledValidationFeatureCount = 1,
      .pEnabledValidationFeatures = enables,
  };
  VkApplicationInfo application = {
      .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
      .pApplicationName = "tessera",
      .pEngineName = "tessera",
      .apiVersion = VK_API_VERSION_1_3, /* the newest that is used where it is present */
  };
  VkInstanceCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
      .flags = portability ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0,
      .pApplicationInfo = &application,
      .enabledLayerCount = validation ? 1 : 0,
      .ppEnabledLayerNames = layers,
      .enabledExtensionCount = n_extensions,
      .ppEnabledExtensionNames = extensions,
  };
  if (validation) {
    info.pNext = validation_features ? (const void *)&features : debug_utils ? &messenger_info : NULL;
  }
  tsr_vk_loader_lock();
  int32_t status = VK(host, vkCreateInstance(&info, NULL, &context->instance));
  tsr_vk_loader_unlock();
  if (status != TSR_OK) {
    context->instance = VK_NULL_HANDLE;
    return status;
  }
  load_instance_functions(context->instance);
  context->get_cooperative_shapes = (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)vkGetInstanceProcAddr(
      context->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
  if (debug_utils) {
    context->set_name =
        (PFN_vkSetDebugUtilsObjectNameEXT)vkGetInstanceProcAddr(context->instance, "vkSetDebugUtilsObjectNameEXT");
    context->destroy_messenger = (PFN_vkDestroyDebugUtilsMessengerEXT)vkGetInstanceProcAddr(
        context->instance, "vkDestroyDebugUtilsMessengerEXT");
    PFN_vkCreateDebugUtilsMessengerEXT create =
        (PFN_vkCreateDebugUtilsMessengerEXT)vkGetInstanceProcAddr(context->instance, "vkCreateDebugUtilsMessengerEXT");
    if (validation && create && context->destroy_messenger) {
      status = VK(host, create(context->instance, &messenger_info, NULL, &context->messenger));
    }
  }
  return status;
}

/* VkResult of vkEnumeratePhysicalDevices, with which the loader starts the drivers. */
static VkResult enumerate(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices)
{
  LEAKS_ALLOWED();
  VkResult result = vkEnumeratePhysicalDevices(instance, count, devices);
  LEAKS_FORBIDDEN();
  return result;
}

/* Keeps the devices that can be used, and tells about the others. */
static int32_t find_devices(tsr_vk_context *context)
{
  const tsr_host *host = context->host;
  uint32_t count = 0;
  VkPhysicalDevice *found = NULL;
  int32_t status = tsr_vk_check(host, enumerate(context->instance, &count, NULL), "vkEnumeratePhysicalDevices");
  if (status != TSR_OK) {
    return status;
  }
  if (count == 0) {
    return tsr_vk_fail(
        host, TSR_ERR_NO_DEVICE,
        "no Vulkan device: install the driver of the GPU, or mesa-vulkan-drivers, which also has one for "
        "the CPU");
  }
  found = calloc(count, sizeof(VkPhysicalDevice));
  if (!found) {
    return tsr_vk_fail(host, TSR_ERR_OUT_OF_MEMORY, "no memory for the list of devices");
  }
  VkResult result = enumerate(context->instance, &count, found);
  status = result == VK_INCOMPLETE ? TSR_OK : tsr_vk_check(host, result, "vkEnumeratePhysicalDevices");
  context->devices = found;
  for (uint32_t i = 0; status == TSR_OK && i < count; i++) {
    tsr_vk_hardware hardware;
    const char *reason = tsr_vk_hardware_read(context, found[i], &hardware);
    if (reason) {
      tsr_vk_report(host, TSR_LOG_WARNING, "the device \"%s\" is left out: %s", hardware.properties.deviceName, reason);
    } else {
      context->devices[context->n_devices++] = found[i];
    }
  }
  if (status == TSR_OK && context->n_devices == 0) {
    status = tsr_vk_fail(host, TSR_ERR_NO_DEVICE,
                         "none of the %u Vulkan devices can be used (the warnings above say why): update their drivers",
                         count);
  }
  return status;
}

static void backend_stop(void *opaque)
{
  tsr_vk_context *context = opaque;
  if (context->messenger) {
    context->destroy_messenger(context->instance, context->messenger, NULL);
  }
  if (context->instance) {
    tsr_vk_loader_lock();
    vkDestroyInstance(context->instance, NULL);
    tsr_vk_loader_unlock();
  }
  free(context->devices);
  free(context);
}

static int32_t backend_start(const tsr_host *host, void **result)
{
  tsr_vk_options options; /* read here so that a bad value is told even if no device is opened */
  int32_t status = tsr_vk_options_read(host, &options);
  if (status == TSR_OK) {
    status = load_vulkan(host);
  }
  if (status != TSR_OK) {
    return status;
  }
  tsr_vk_context *context = calloc(1, sizeof(*context));
  if (!context) {
    return tsr_vk_fail(host, TSR_ERR_OUT_OF_MEMORY, "no memory to start the backend");
  }
  context->host = host;
  status = create_instance(context, options.validation);
  if (status == TSR_OK) {
    status = find_devices(context);
  }
  if (status != TSR_OK) {
    backend_stop(context);
    return status;
  }
  *result = context;
  return TSR_OK;
}

static int32_t backend_device_count(void *opaque, uint32_t *count)
{
  *count = ((const tsr_vk_context *)opaque)->n_devices;
  return TSR_OK;
}

static int32_t check_index(const tsr_vk_context *context, uint32_t index)
{
  if (index >= context->n_devices) {
    return tsr_vk_fail(context->host, TSR_ERR_NO_DEVICE, "vulkan:%u does not exist: there are %u devices, from 0",
                       index, context->n_devices);
  }
  return TSR_OK;
}

static int32_t backend_device_properties(void *opaque, uint32_t index, tsr_device_properties *properties)
{
  const tsr_vk_context *context = opaque;
  int32_t status = check_index(context, index);
  if (status == TSR_OK) {
    tsr_vk_hardware hardware;
    tsr_vk_hardware_read(context, context->devices[index], &hardware);
    tsr_vk_hardware_describe(&hardware, properties);
  }
  return status;
}

static int32_t backend_device_open(void *opaque, uint32_t index, tsr_backend_device **device)
{
  const tsr_vk_context *context = opaque;
  int32_t status = check_index(context, index);
  return status == TSR_OK ? tsr_vk_device_open(context, context->devices[index], device) : status;
}

static int32_t backend_counters(tsr_backend_device *device, tsr_device_counters *counters)
{
  uint32_t size = counters->struct_size;
  tsr_device_counters all = device->counters;
  all.struct_size = size;
  memcpy(counters, &all, size < sizeof(all) ? size : sizeof(all));
  return TSR_OK;
}

static void force_variant(tsr_backend_device *device, int32_t variant)
{
  if (device->caps.forced != variant) {
    tsr_vk_pipelines_trim(device, TSR_VK_KEPT_WHEN_FORCED);
  }
  device->caps.forced = variant;
}

static int32_t class_of(tsr_backend_device *device, const tsr_program_desc *program, int32_t line, char *text,
                        uint32_t text_size)
{
  tsr_vk_class class;
  int has_class = tsr_vk_class_of(device, program, line, &class);
  text[0] = '\0';
  if (has_class) {
    tsr_vk_class_print(&class, text, text_size);
  }
  return has_class;
}

static int32_t remember(tsr_backend_device *device, const tsr_program_desc *program, int32_t line, int32_t variant)
{
  tsr_vk_class class;
  if (!tsr_vk_class_of(device, program, line, &class)) {
    return tsr_vk_fail(device->host, TSR_ERR_UNSUPPORTED, "line %d has no variants to choose from", line);
  }
  return tsr_vk_tuning_set(&device->tuning, &class, variant)
             ? TSR_OK
             : tsr_vk_fail(device->host, TSR_ERR_OUT_OF_MEMORY, "no memory to remember another variant");
}

static int32_t save_variants(tsr_backend_device *device)
{
  return tsr_vk_variants_save(device->host, &device->hardware.properties, &device->tuning);
}

static int32_t operands_until(tsr_backend_device *device, const tsr_program_desc *program, int32_t line)
{
  return tsr_vk_operands_until(&device->caps, program, line);
}

static const void *backend_get_extension(void *context, const char *name)
{
  static const tsr_variants_extension variants = {
      .struct_size = sizeof(tsr_variants_extension),
      .count = TSR_VK_VARIANT_COUNT - 1,
      .name = tsr_vk_variant_name,
      .force = force_variant,
      .variant_of = tsr_vk_variant_of,
      .class_of = class_of,
      .remember = remember,
      .save = save_variants,
  };
  static const tsr_kernels_extension kernels = {.struct_size = sizeof(tsr_kernels_extension),
                                                .prepare = tsr_vk_prepare};
  static const tsr_fusion_extension fusion = {.struct_size = sizeof(tsr_fusion_extension),
                                              .operands_until = operands_until};
  static const tsr_commands_extension commands = {.struct_size = sizeof(tsr_commands_extension),
                                                  .describe = tsr_vk_describe};
  static const tsr_runs_extension runs = {.struct_size = sizeof(tsr_runs_extension), .run_many = tsr_vk_run_many};
  (void)context;
  if (strcmp(name, TSR_COMMANDS_EXTENSION) == 0) {
    return &commands;
  }
  if (strcmp(name, TSR_RUNS_EXTENSION) == 0) {
    return &runs;
  }
  if (strcmp(name, TSR_PLAN_EXTENSION) == 0) {
    return &tsr_vk_plan_extension;
  }
  if (strcmp(name, TSR_KERNELS_EXTENSION) == 0) {
    return &kernels;
  }
  if (strcmp(name, TSR_FUSION_EXTENSION) == 0) {
    return &fusion;
  }
  return strcmp(name, TSR_VARIANTS_EXTENSION) == 0 ? &variants : NULL;
}

static const tsr_backend table = {
    .struct_size = sizeof(tsr_backend),
    .abi_major = TSR_ABI_MAJOR,
    .abi_minor = TSR_ABI_MINOR,
    .build_flags = TSR_BUILD_FLAGS,
    .name = "vulkan",
    .description = TSR_VK_HAS_COOPERATIVE_SHADERS
                       ? "any GPU with a Vulkan 1.2 driver"
                       : "any GPU with a Vulkan 1.2 driver, built without cooperative matrices",
    .start = backend_start,
    .stop = backend_stop,
    .device_count = backend_device_count,
    .device_properties = backend_device_properties,
    .device_open = backend_device_open,
    .device_close = tsr_vk_device_close,
    .buffer_create = tsr_vk_buffer_create,
    .buffer_destroy = tsr_vk_buffer_destroy,
    .buffer_write = tsr_vk_buffer_write,
    .buffer_read = tsr_vk_buffer_read,
    .supports = tsr_vk_supports,
    .compile = tsr_vk_compile,
    .executable_destroy = tsr_vk_executable_destroy,
    .run = tsr_vk_run,
    .wait = tsr_vk_executable_wait,
    .profile = tsr_vk_profile,
    .counters = backend_counters,
    .get_extension = backend_get_extension,
};

const tsr_backend *TSR_BACKEND_QUERY(uint32_t host_abi_major, const tsr_host *host)
{
  (void)host;
  return host_abi_major == TSR_ABI_MAJOR ? &table : NULL;
}
