/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the profile that CARD_PROFILE names. A profile is a part of a test: what is wrong in it ends the program.
 */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/card/card.h"

static card_profile the_profile;
static const char *path = "";

_Noreturn void card_breach(const char *format, ...)
{
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  fprintf(stderr, "VK_LAYER_TESSERA_card: %s%s%s\n", the_profile.name, the_profile.name[0] ? ": " : "", message);
  fflush(stderr);
  abort();
}

static const struct {
  const char *name;
  VkMemoryPropertyFlags flag;
} memory_flags[] = {
    {"DEVICE_LOCAL", VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT},
    {"HOST_VISIBLE", VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT},
    {"HOST_COHERENT", VK_MEMORY_PROPERTY_HOST_COHERENT_BIT},
    {"HOST_CACHED", VK_MEMORY_PROPERTY_HOST_CACHED_BIT},
    {"LAZILY_ALLOCATED", VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT},
    {"PROTECTED", VK_MEMORY_PROPERTY_PROTECTED_BIT},
    {"DEVICE_COHERENT_AMD", VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD},
    {"DEVICE_UNCACHED_AMD", VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD},
};

static const struct {
  const char *name;
  VkPhysicalDeviceType type;
} device_types[] = {
    {"discrete", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU}, {"integrated", VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU},
    {"virtual", VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU},   {"cpu", VK_PHYSICAL_DEVICE_TYPE_CPU},
    {"other", VK_PHYSICAL_DEVICE_TYPE_OTHER},
};

static const struct {
  const char *name;
  VkQueueFlags flag;
} queue_flags[] = {
    {"GRAPHICS", VK_QUEUE_GRAPHICS_BIT},
    {"COMPUTE", VK_QUEUE_COMPUTE_BIT},
    {"TRANSFER", VK_QUEUE_TRANSFER_BIT},
    {"SPARSE", VK_QUEUE_SPARSE_BINDING_BIT},
};

/* A number, or text such as "256 MiB". */
static uint64_t size_of(const char *key, const json_t *json)
{
  if (json_is_integer(json) && json_integer_value(json) >= 0) {
    return (uint64_t)json_integer_value(json);
  }
  if (!json_is_string(json)) {
    card_breach("%s: %s: expected a number of bytes", path, key);
  }
  char *end;
  unsigned long long number = strtoull(json_string_value(json), &end, 10);
  const char *const units[] = {"", " KiB", " MiB", " GiB"};
  for (int i = 0; i < 4; i++) {
    if (strcmp(end, units[i]) == 0) {
      return (uint64_t)number << (10 * i);
    }
  }
  card_breach("%s: %s: '%s' is no number of bytes, KiB, MiB or GiB", path, key, json_string_value(json));
}

static uint32_t flags_of(const char *key, const json_t *json, int of_queues)
{
  uint32_t flags = 0;
  size_t index;
  json_t *item;
  json_array_foreach(json, index, item)
  {
    const char *name = json_string_value(item);
    uint32_t flag = 0;
    for (size_t i = 0; name && of_queues && i < sizeof(queue_flags) / sizeof(queue_flags[0]); i++) {
      flag |= strcmp(queue_flags[i].name, name) == 0 ? queue_flags[i].flag : 0;
    }
    for (size_t i = 0; name && !of_queues && i < sizeof(memory_flags) / sizeof(memory_flags[0]); i++) {
      flag |= strcmp(memory_flags[i].name, name) == 0 ? memory_flags[i].flag : 0;
    }
    if (flag == 0) {
      card_breach("%s: %s: there is no flag %s", path, key, name ? name : "that is no string");
    }
    flags |= flag;
  }
  return flags;
}

static void read_heaps(card_profile *p, const json_t *json)
{
  size_t index;
  json_t *item;
  json_array_foreach(json, index, item)
  {
    if (index >= VK_MAX_MEMORY_HEAPS) {
      card_breach("%s: too many heaps", path);
    }
    card_heap *heap = &p->heaps[p->n_heaps++];
    const char *key;
    json_t *value;
    json_object_foreach(item, key, value)
    {
      if (strcmp(key, "size") == 0) {
        heap->size = size_of(key, value);
      } else if (strcmp(key, "free") == 0) {
        heap->free = size_of(key, value);
      } else if (strcmp(key, "taken") == 0) {
        heap->taken = size_of(key, value);
      } else if (strcmp(key, "flags") == 0) {
        heap->flags = flags_of(key, value, 0); /* DEVICE_LOCAL is the same bit */
      } else {
        card_breach("%s: a heap has no '%s'", path, key);
      }
    }
    heap->free = heap->free > 0 ? heap->free : heap->size;
    if (heap->size == 0 || heap->free > heap->size) {
      card_breach("%s: heap %zu needs a size, and no more that is free", path, index);
    }
  }
}

static void read_types(card_profile *p, const json_t *json)
{
  size_t index;
  json_t *item;
  json_array_foreach(json, index, item)
  {
    if (index >= VK_MAX_MEMORY_TYPES) {
      card_breach("%s: too many memory types", path);
    }
    VkMemoryType *type = &p->types[p->n_types++];
    int buffers = 1;
    const char *key;
    json_t *value;
    json_object_foreach(item, key, value)
    {
      if (strcmp(key, "heap") == 0) {
        type->heapIndex = (uint32_t)json_integer_value(value);
      } else if (strcmp(key, "flags") == 0) {
        type->propertyFlags = flags_of(key, value, 0);
      } else if (strcmp(key, "buffers") == 0) {
        buffers = json_is_true(value);
      } else {
        card_breach("%s: a memory type has no '%s'", path, key);
      }
    }
    p->buffer_types |= buffers ? 1u << index : 0u;
  }
}

static void read_families(card_profile *p, const json_t *json)
{
  size_t index;
  json_t *item;
  json_array_foreach(json, index, item)
  {
    if (index >= CARD_MAX_FAMILIES) {
      card_breach("%s: too many queue families", path);
    }
    VkQueueFamilyProperties *family = &p->families[p->n_families++];
    *family = (VkQueueFamilyProperties){.queueCount = 1, .minImageTransferGranularity = {1, 1, 1}};
    const char *key;
    json_t *value;
    json_object_foreach(item, key, value)
    {
      if (strcmp(key, "flags") == 0) {
        family->queueFlags = flags_of(key, value, 1);
      } else if (strcmp(key, "count") == 0) {
        family->queueCount = (uint32_t)json_integer_value(value);
      } else if (strcmp(key, "timestampValidBits") == 0) {
        family->timestampValidBits = (uint32_t)json_integer_value(value);
      } else {
        card_breach("%s: a queue family has no '%s'", path, key);
      }
    }
  }
}

static void read_number(const char *key, const json_t *json, card_value *value)
{
  if (value->count == 3) {
    card_breach("%s: %s: at most three numbers", path, key);
  }
  int i = value->count++;
  if (json_is_real(json)) {
    value->number[i] = json_real_value(json);
    value->integer[i] = (uint64_t)json_real_value(json);
  } else {
    value->integer[i] = json_is_boolean(json) ? (uint64_t)json_is_true(json) : size_of(key, json);
    value->number[i] = (double)value->integer[i];
  }
}

static int read_values(const json_t *json, int (*knows)(const char *name), card_value *values)
{
  int n = 0;
  const char *key;
  json_t *item;
  json_object_foreach((json_t *)(uintptr_t)json, key, item)
  {
    if (!knows(key) || strlen(key) >= CARD_NAME_BYTES || n == CARD_MAX_VALUES) {
      card_breach("%s: the layer does not know '%s' (names.c)", path, key);
    }
    card_value *value = &values[n++];
    snprintf(value->name, sizeof(value->name), "%s", key);
    if (json_is_array(item)) {
      size_t index;
      json_t *element;
      json_array_foreach(item, index, element)
      {
        read_number(key, element, value);
      }
    } else {
      read_number(key, item, value);
    }
  }
  return n;
}

static void read_extensions(card_profile *p, const json_t *json)
{
  size_t index;
  json_t *item;
  json_array_foreach(json, index, item)
  {
    if (index >= CARD_MAX_EXTENSIONS || !json_is_string(item)) {
      card_breach("%s: extensions: expected at most %d names", path, CARD_MAX_EXTENSIONS);
    }
    VkExtensionProperties *extension = &p->extensions[p->n_extensions++];
    snprintf(extension->extensionName, sizeof(extension->extensionName), "%s", json_string_value(item));
    extension->specVersion = 1;
  }
}

static void read_text(const char *key, const json_t *json, char *text, size_t size)
{
  if (!json_is_string(json) || strlen(json_string_value(json)) >= size) {
    card_breach("%s: %s: expected a text of less than %zu bytes", path, key, size);
  }
  snprintf(text, size, "%s", json_string_value(json));
}

static uint32_t version_of(const char *key, const json_t *json)
{
  unsigned major = 0, minor = 0;
  if (!json_is_string(json) || sscanf(json_string_value(json), "%u.%u", &major, &minor) != 2) {
    card_breach("%s: %s: expected a text such as 1.2", path, key);
  }
  return VK_MAKE_API_VERSION(0, major, minor, 200);
}

static void read_type(card_profile *p, const json_t *json)
{
  for (size_t i = 0; json_is_string(json) && i < sizeof(device_types) / sizeof(device_types[0]); i++) {
    if (strcmp(device_types[i].name, json_string_value(json)) == 0) {
      p->type = device_types[i].type;
      return;
    }
  }
  card_breach("%s: type: expected discrete, integrated, virtual, cpu or other", path);
}

static void read_member(card_profile *p, const char *key, const json_t *value)
{
  if (strcmp(key, "name") == 0) {
    read_text(key, value, p->name, sizeof(p->name));
  } else if (strcmp(key, "driverName") == 0) {
    read_text(key, value, p->driver_name, sizeof(p->driver_name));
  } else if (strcmp(key, "driverInfo") == 0) {
    read_text(key, value, p->driver_info, sizeof(p->driver_info));
  } else if (strcmp(key, "type") == 0) {
    read_type(p, value);
  } else if (strcmp(key, "vendorID") == 0) {
    p->vendor = (uint32_t)json_integer_value(value);
  } else if (strcmp(key, "deviceID") == 0) {
    p->device = (uint32_t)json_integer_value(value);
  } else if (strcmp(key, "apiVersion") == 0) {
    p->api_version = version_of(key, value);
  } else if (strcmp(key, "heaps") == 0) {
    read_heaps(p, value);
  } else if (strcmp(key, "types") == 0) {
    read_types(p, value);
  } else if (strcmp(key, "bufferAlignment") == 0) {
    p->buffer_alignment = size_of(key, value);
  } else if (strcmp(key, "allocationsFailAbove") == 0) {
    p->allocations_fail_above = size_of(key, value);
  } else if (strcmp(key, "queueFamilies") == 0) {
    read_families(p, value);
  } else if (strcmp(key, "extensions") == 0) {
    read_extensions(p, value);
  } else if (strcmp(key, "limits") == 0) {
    p->n_limits = read_values(value, card_knows_limit, p->limits);
  } else if (strcmp(key, "features") == 0) {
    p->n_features = read_values(value, card_knows_feature, p->features);
  } else if (strcmp(key, "properties") == 0) {
    p->n_properties = read_values(value, card_knows_property, p->properties);
  } else if (strcmp(key, "source") != 0) {
    card_breach("%s: a profile has no '%s'", path, key);
  }
}

static void read_profile(void)
{
  path = getenv("CARD_PROFILE");
  if (!path || !*path) {
    path = "";
    return;
  }
  card_profile *p = &the_profile;
  p->api_version = VK_API_VERSION_1_3;
  p->buffer_alignment = 1;
  json_error_t error;
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!root || !json_is_object(root)) {
    card_breach("CARD_PROFILE: %s, line %d: %s", path, error.line, error.text);
  }
  const char *key;
  json_t *value;
  json_object_foreach(root, key, value)
  {
    read_member(p, key, value);
  }
  json_decref(root);
  for (uint32_t i = 0; i < p->n_types; i++) {
    if (p->types[i].heapIndex >= p->n_heaps) {
      card_breach("%s: memory type %u lies in heap %u of %u", path, i, p->types[i].heapIndex, p->n_heaps);
    }
  }
  if (!p->name[0] || p->n_types == 0 || p->n_families == 0) {
    card_breach("%s: a profile needs a name, heaps, types and queueFamilies", path);
  }
  p->present = 1;
}

const card_profile *card_profile_get(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_profile);
  return &the_profile;
}

int card_profile_has_extension(const char *name)
{
  const card_profile *profile = card_profile_get();
  for (int i = 0; i < profile->n_extensions; i++) {
    if (strcmp(profile->extensions[i].extensionName, name) == 0) {
      return 1;
    }
  }
  return 0;
}
