/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects behind the slots of the reference's table.
 */
#ifndef REFERENCE_BACKEND_H
#define REFERENCE_BACKEND_H

#include <pthread.h>

#include "tessera/backend.h"

/* One per start. */
typedef struct ref_context {
  const tsr_host *host;
  uint64_t memory; /* bytes of the machine */
  uint32_t processors;
} ref_context;

struct tsr_backend_device {
  ref_context *context;
  pthread_mutex_t lock; /* guards the next */
  tsr_device_counters counters;
};

struct tsr_backend_buffer {
  tsr_backend_device *device;
  uint64_t size;
  unsigned char *bytes;  /* aligned to REF_ALIGNMENT */
  unsigned char *memory; /* what calloc returned */
};

#define REF_ALIGNMENT 64u

/* Adds one to a counter of the device. Any thread: runs of several executables may be under way. */
void ref_raise(tsr_backend_device *device, uint64_t *counter);

/* Reports the reason of an error to the host and returns `status`. */
int32_t ref_fail(const ref_context *context, int32_t status, const char *format, ...) TSR_PRINTF(3, 4);

/* Slots; what they do stands in tessera/backend.h. */
int32_t ref_buffer_create(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **buffer);
void ref_buffer_destroy(tsr_backend_buffer *buffer);
int32_t ref_buffer_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes);
int32_t ref_buffer_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes);

int32_t ref_supports(tsr_backend_device *device, const tsr_program_desc *program, int32_t line);
int32_t ref_compile(tsr_backend_device *device, const tsr_compile_args *args, tsr_backend_executable **executable);
void ref_executable_destroy(tsr_backend_executable *executable);
int32_t ref_run(tsr_backend_executable *executable);
int32_t ref_wait(tsr_backend_executable *executable);
int32_t ref_profile(tsr_backend_executable *executable, uint64_t *nanoseconds);

#endif
