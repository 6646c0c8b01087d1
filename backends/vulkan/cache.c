/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipeline cache on disk: $XDG_CACHE_HOME/tessera (else ~/.cache/tessera), one file per device and driver version.
 *
 *     bytes 0..7    "TSRVKPC1"
 *     bytes 8..15   size of what follows the header
 *     bytes 16..23  its checksum (FNV-1a, 64 bits)
 *     bytes 24..    what the driver returned, which begins with Vulkan's own header
 *
 * Drivers trust what they are given, so it is checked here: whole, unchanged, of this device.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/vulkan/backend.h"

enum { PATH_BYTES = 4096, HEADER_BYTES = 24, VULKAN_HEADER_BYTES = 32, MAX_FILE_BYTES = 256 << 20 };

static const char magic[] = "TSRVKPC1";

static uint64_t checksum(const unsigned char *bytes, size_t size)
{
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++) {
    hash = (hash ^ bytes[i]) * 0x100000001b3u;
  }
  return hash;
}

/* The cache folder, "" if there is none. With `make` it is created. */
static void cache_folder(char *folder, size_t size, int make)
{
  const char *base = getenv("XDG_CACHE_HOME");
  const char *below = "";
  if (!base || base[0] != '/') { /* relative paths are invalid there, says the XDG specification */
    base = getenv("HOME");
    below = "/.cache";
  }
  folder[0] = '\0';
  if (!base || base[0] != '/' || strlen(base) + 32 > size) {
    return;
  }
  snprintf(folder, size, "%s%s", base, below);
  if (make) {
    (void)mkdir(folder, 0700); /* may exist */
  }
  size_t length = strlen(folder);
  snprintf(folder + length, size - length, "/tessera");
  if (make) {
    (void)mkdir(folder, 0700);
  }
}

static int cache_path(const VkPhysicalDeviceProperties *properties, char *path, size_t size, int make)
{
  char folder[PATH_BYTES];
  cache_folder(folder, sizeof(folder), make);
  char uuid[2 * VK_UUID_SIZE + 1];
  for (size_t i = 0; i < VK_UUID_SIZE; i++) {
    snprintf(uuid + 2 * i, 3, "%02x", properties->pipelineCacheUUID[i]);
  }
  int length = snprintf(path, size, "%s/vulkan-%08x-%08x-%08x-%s.bin", folder, properties->vendorID,
                        properties->deviceID, properties->driverVersion, uuid);
  return folder[0] != '\0' && length > 0 && (size_t)length < size;
}

static uint32_t read_u32(const unsigned char *bytes)
{
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static uint64_t read_u64(const unsigned char *bytes)
{
  return (uint64_t)read_u32(bytes) | (uint64_t)read_u32(bytes + 4) << 32;
}

static void write_u64(unsigned char *bytes, uint64_t value)
{
  for (int i = 0; i < 8; i++) {
    bytes[i] = (unsigned char)(value >> (8 * i));
  }
}

/* NULL, or what is wrong with the file's content. */
static const char *find_fault(const VkPhysicalDeviceProperties *properties, const unsigned char *bytes, size_t size)
{
  if (size < HEADER_BYTES + VULKAN_HEADER_BYTES || memcmp(bytes, magic, 8) != 0) {
    return "it is no cache of this program";
  }
  const unsigned char *data = bytes + HEADER_BYTES;
  if (read_u64(bytes + 8) != size - HEADER_BYTES) {
    return "it is not complete";
  }
  if (read_u64(bytes + 16) != checksum(data, size - HEADER_BYTES)) {
    return "its content was changed";
  }
  if (read_u32(data) < VULKAN_HEADER_BYTES || read_u32(data) > size - HEADER_BYTES ||
      read_u32(data + 4) != VK_PIPELINE_CACHE_HEADER_VERSION_ONE || read_u32(data + 8) != properties->vendorID ||
      read_u32(data + 12) != properties->deviceID ||
      memcmp(data + 16, properties->pipelineCacheUUID, VK_UUID_SIZE) != 0) {
    return "another device or driver wrote it";
  }
  return NULL;
}

/* The whole file, NULL if it cannot be read. */
static unsigned char *read_file(const char *path, size_t *size)
{
  unsigned char *bytes = NULL;
  FILE *file = fopen(path, "rb");
  if (!file) {
    return NULL;
  }
  struct stat info;
  if (fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 && info.st_size <= MAX_FILE_BYTES) {
    *size = (size_t)info.st_size;
    bytes = malloc(*size);
    if (bytes && fread(bytes, 1, *size, file) != *size) {
      free(bytes);
      bytes = NULL;
    }
  }
  fclose(file);
  return bytes;
}

void *tsr_vk_cache_load(const tsr_host *host, const VkPhysicalDeviceProperties *properties, size_t *size)
{
  char path[PATH_BYTES + 128];
  size_t file_bytes = 0;
  *size = 0;
  if (!cache_path(properties, path, sizeof(path), 0)) {
    return NULL;
  }
  unsigned char *bytes = read_file(path, &file_bytes);
  if (!bytes) {
    return NULL;
  }
  const char *fault = find_fault(properties, bytes, file_bytes);
  if (fault) {
    tsr_vk_report(host, TSR_LOG_INFO, "the pipeline cache %s is ignored and made anew: %s", path, fault);
    free(bytes);
    return NULL;
  }
  *size = file_bytes - HEADER_BYTES;
  memmove(bytes, bytes + HEADER_BYTES, *size);
  return bytes;
}

void tsr_vk_cache_save(const tsr_host *host, const VkPhysicalDeviceProperties *properties, const void *bytes,
                       size_t size)
{
  char path[PATH_BYTES + 128];
  char temporary[PATH_BYTES + 160];
  if (size > MAX_FILE_BYTES - HEADER_BYTES || !cache_path(properties, path, sizeof(path), 1)) {
    return;
  }
  unsigned char header[HEADER_BYTES];
  memcpy(header, magic, 8);
  write_u64(header + 8, size);
  write_u64(header + 16, checksum(bytes, size));

  /* Written beside the file and moved over it, so that nobody ever sees half a cache. */
  snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
  int descriptor = mkstemp(temporary);
  FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
  int written = 0;
  if (file) {
    written = fwrite(header, 1, sizeof(header), file) == sizeof(header) && fwrite(bytes, 1, size, file) == size;
    written = fclose(file) == 0 && written;
  } else if (descriptor >= 0) {
    close(descriptor);
  }
  written = written && rename(temporary, path) == 0;
  if (!written) {
    tsr_vk_report(host, TSR_LOG_INFO, "the pipeline cache %s could not be written: %s", path, strerror(errno));
    if (descriptor >= 0) {
      unlink(temporary);
    }
  }
}
