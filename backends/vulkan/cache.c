/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept on disk of a device: $XDG_CACHE_HOME/tessera (else ~/.cache/tessera, on Windows the folder tessera of
 * %LOCALAPPDATA%), files per device and driver version: the table of variants as text (tuning.h), in NAME.variants, and
 * the pipeline cache in NAME.bin:
 *
 *     bytes 0..7    "TSRVKPC1"
 *     bytes 8..15   size of what follows the header
 *     bytes 16..23  its checksum (FNV-1a, 64 bits)
 *     bytes 24..    what the driver returned, which begins with Vulkan's own header
 *
 * Drivers trust what they are given, so it is checked here before they see a byte of it: a regular file of this user
 * that nobody else may write, whole, unchanged, of this device. The checksum tells damage, not intent: anybody can
 * compute it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/vulkan/backend.h"
#include "core/base/platform/paths.h"

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
  if (!base || !tsr_path_is_absolute(base)) { /* relative paths are invalid there, says the XDG specification */
    base = getenv(TSR_CACHE_VARIABLE);
    below = TSR_CACHE_BELOW;
  }
  folder[0] = '\0';
  if (!base || !tsr_path_is_absolute(base) || strlen(base) + 32 > size) {
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

/* Of the file with that suffix; 0 if there is none. */
static int cache_path(const VkPhysicalDeviceProperties *properties, const char *suffix, char *path, size_t size,
                      int make)
{
  char folder[PATH_BYTES];
  cache_folder(folder, sizeof(folder), make);
  char uuid[2 * VK_UUID_SIZE + 1];
  for (size_t i = 0; i < VK_UUID_SIZE; i++) {
    snprintf(uuid + 2 * i, 3, "%02x", properties->pipelineCacheUUID[i]);
  }
  int length = snprintf(path, size, "%s/vulkan-%08x-%08x-%08x-%s.%s", folder, properties->vendorID,
                        properties->deviceID, properties->driverVersion, uuid, suffix);
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

/* NULL, or why nobody should trust what lies there. */
static const char *find_stranger(const struct stat *info)
{
  if (!S_ISREG(info->st_mode)) {
    return "it is no regular file";
  }
  if (info->st_uid != geteuid()) {
    return "it belongs to another user";
  }
  if (info->st_mode & (S_IWGRP | S_IWOTH)) {
    return "other users may write it";
  }
  if (info->st_size > MAX_FILE_BYTES) {
    return "it is larger than any that this program writes";
  }
  return NULL;
}

static unsigned char *read_descriptor(int descriptor, const struct stat *info, size_t *size)
{
  size_t done = 0;
  *size = (size_t)info->st_size;
  unsigned char *bytes = malloc(*size + 1);
  while (bytes && done < *size) {
    ssize_t n = read(descriptor, bytes + done, *size - done);
    if (n <= 0 && !(n < 0 && errno == EINTR)) {
      free(bytes);
      return NULL;
    }
    done += n > 0 ? (size_t)n : 0;
  }
  return bytes;
}

/* The whole file; NULL if there is none, or if it cannot be read or trusted, which is told with `what` it is. */
static unsigned char *read_file(const tsr_host *host, const char *what, const char *path, size_t *size)
{
  /* Without O_NONBLOCK, opening a pipe would wait for a writer. */
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (descriptor < 0) {
    if (errno != ENOENT && errno != ENOTDIR) {
      tsr_vk_report(host, TSR_LOG_WARNING, "the %s %s is ignored: %s", what, path,
                    errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    }
    return NULL;
  }
  struct stat info;
  const char *fault = fstat(descriptor, &info) == 0 ? find_stranger(&info) : strerror(errno);
  unsigned char *bytes = fault ? NULL : read_descriptor(descriptor, &info, size);
  close(descriptor);
  if (!bytes) {
    tsr_vk_report(host, TSR_LOG_WARNING, "the %s %s is ignored: %s", what, path,
                  fault ? fault : "it cannot be read to its end");
  }
  return bytes;
}

void *tsr_vk_cache_load(const tsr_host *host, const VkPhysicalDeviceProperties *properties, size_t *size)
{
  char path[PATH_BYTES + 128];
  size_t file_bytes = 0;
  *size = 0;
  if (!cache_path(properties, "bin", path, sizeof(path), 0)) {
    return NULL;
  }
  unsigned char *bytes = read_file(host, "pipeline cache", path, &file_bytes);
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

/* Writes two parts beside the file and moves them over it, so that nobody ever sees half of them. 0 if that failed,
 * errno telling why. */
static int replace_file(const char *path, const void *first, size_t first_bytes, const void *second,
                        size_t second_bytes)
{
  char temporary[PATH_BYTES + 160];
  snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
  int descriptor = mkstemp(temporary);
  FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
  int written = 0;
  if (file) {
    written =
        fwrite(first, 1, first_bytes, file) == first_bytes && fwrite(second, 1, second_bytes, file) == second_bytes;
    written = fclose(file) == 0 && written;
  } else if (descriptor >= 0) {
    close(descriptor);
  }
  written = written && rename(temporary, path) == 0;
  if (!written && descriptor >= 0) {
    int reason = errno;
    unlink(temporary);
    errno = reason;
  }
  return written;
}

void tsr_vk_cache_save(const tsr_host *host, const VkPhysicalDeviceProperties *properties, const void *bytes,
                       size_t size)
{
  char path[PATH_BYTES + 128];
  if (size > MAX_FILE_BYTES - HEADER_BYTES || !cache_path(properties, "bin", path, sizeof(path), 1)) {
    return;
  }
  unsigned char header[HEADER_BYTES];
  memcpy(header, magic, 8);
  write_u64(header + 8, size);
  write_u64(header + 16, checksum(bytes, size));
  if (!replace_file(path, header, sizeof(header), bytes, size)) {
    tsr_vk_report(host, TSR_LOG_INFO, "the pipeline cache %s could not be written: %s", path, strerror(errno));
  }
}

void tsr_vk_variants_load(const tsr_host *host, const VkPhysicalDeviceProperties *properties, tsr_vk_tuning *tuning)
{
  char path[PATH_BYTES + 128];
  size_t size = 0;
  unsigned char *bytes = NULL;
  if (cache_path(properties, "variants", path, sizeof(path), 0)) {
    bytes = read_file(host, "table of variants", path, &size);
  }
  char *text = bytes ? realloc(bytes, size + 1) : NULL;
  if (!text) {
    free(bytes);
    return;
  }
  text[size] = '\0';
  const char *fault = strlen(text) == size ? tsr_vk_tuning_parse(tuning, text) : "it is no text";
  if (fault) {
    tsr_vk_report(host, TSR_LOG_WARNING, "the table of variants %s is ignored: %s; `tessera tune` makes it anew", path,
                  fault);
    tsr_vk_tuning_finish(tuning);
  }
  free(text);
}

int32_t tsr_vk_variants_save(const tsr_host *host, const VkPhysicalDeviceProperties *properties,
                             const tsr_vk_tuning *tuning)
{
  char path[PATH_BYTES + 128];
  if (!cache_path(properties, "variants", path, sizeof(path), 1)) {
    return tsr_vk_fail(host, TSR_ERR_IO,
                       "there is no folder for caches: set XDG_CACHE_HOME or " TSR_CACHE_VARIABLE
                       " to an absolute path");
  }
  char *text = tsr_vk_tuning_print(tuning);
  if (!text) {
    return tsr_vk_fail(host, TSR_ERR_OUT_OF_MEMORY, "no memory to write the table of variants");
  }
  int written = replace_file(path, text, strlen(text), "", 0);
  int reason = errno;
  free(text);
  return written ? TSR_OK : tsr_vk_fail(host, TSR_ERR_IO, "%s could not be written: %s", path, strerror(reason));
}
