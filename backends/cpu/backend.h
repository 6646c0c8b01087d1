/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects behind the slots of the cpu backend's table.
 */
#ifndef CPU_BACKEND_H
#define CPU_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>

#include "pool.h"
#include "program.h"

#define CPU_ALIGNMENT 64u

/* A set of kernels compiled for one set of instructions. */
typedef struct cpu_level {
  const char *name;              /* "avx512": the value of TESSERA_CPU_LEVEL */
  const char *instructions;      /* what it needs, for people */
  int32_t takes_blas;            /* 1: a BLAS, where one is installed, makes large products faster */
  int32_t asks;                  /* 1: the system must be asked for registers that it does not save for everybody */
  const cpu_operator *operators; /* [CPU_OP_COUNT] */
} cpu_level;

/* features.c: the levels that were compiled and that this CPU has, best first: 0 .. count-1. Beyond: NULL. */
enum { CPU_MAX_LEVELS = 10 };
const cpu_level *cpu_level_at(int32_t index);

/* Asks the system for what the level's registers need, for the whole process. 0: refused. */
int cpu_level_is_granted(const cpu_level *level);

/* What the CPU has, whatever was compiled. */
int cpu_has_avx2(void);
int cpu_has_avx512(void);

/* features.c: the CPU's name, and how many cores this process may use: processors of its affinity mask, one per
 * physical core, no more than its control group's quota. At least 1. */
const char *cpu_model_name(char *text, size_t size);
int32_t cpu_core_count(void);

/* One per start. */
struct cpu_blas;

typedef struct cpu_context {
  const tsr_host *host;
  uint64_t memory; /* bytes of the machine */
  int32_t threads;
  const cpu_level *levels[CPU_MAX_LEVELS]; /* of each device: one, unless TESSERA_CPU_LEVEL is "all" */
  int32_t n_levels;
  struct cpu_blas *blas;
} cpu_context;

/* A matrix in another layout: see cpu_layout. */
typedef struct cpu_packed {
  struct cpu_packed *next;
  const void *from;   /* the first element of the matrix that it was made from */
  cpu_tensor shape;   /* of that matrix */
  int32_t references; /* executables that use it */
  int32_t stale;      /* 1: the buffer was written or destroyed since: no longer to be found */
  uint64_t size;
  void (*pack)(const cpu_layout *layout, void *to); /* that made it */
  void *bytes;
} cpu_packed;

struct tsr_backend_device {
  cpu_context *context;
  const cpu_level *level;
  cpu_pool *pool;
  pthread_mutex_t lock; /* guards packed */
  cpu_packed *packed;
  _Atomic uint64_t runs, transfers, allocations, bytes_in_use, bytes_peak;
};

struct tsr_backend_buffer {
  tsr_backend_device *device;
  uint64_t size;
  unsigned char *bytes;      /* aligned to CPU_ALIGNMENT */
  _Atomic int32_t constants; /* 1: an executable took constants from it, of which packed forms may exist */
};

/* Reports the reason of an error to the host and returns `status`. */
int32_t cpu_fail(const cpu_context *context, int32_t status, const char *format, ...) TSR_PRINTF(3, 4);

/* memory.c: zeroed, aligned to CPU_ALIGNMENT, in large pages where it is large; NULL without memory. */
void *cpu_memory_take(tsr_backend_device *device, uint64_t size);
void cpu_memory_give(tsr_backend_device *device, void *bytes, uint64_t size);

/* memory.c: the packed form of a matrix, from the device's list or made now; a reference is taken. NULL without
 * memory. */
const cpu_packed *cpu_packed_take(tsr_backend_device *device, const cpu_layout *layout);
void cpu_packed_give(tsr_backend_device *device, const cpu_packed *packed);

/* What lies within these bytes changed, or is gone. */
void cpu_packed_forget(tsr_backend_device *device, const void *bytes, uint64_t size);

/* lines.c: line `index` of the program, and those after it that are fused with it. Returns how many. */
int32_t cpu_resolve_lines(const cpu_operator *operators, const tsr_compile_args *args, int32_t index, cpu_line *line);

/* Slots; what they do stands in tessera/backend.h. */
int32_t cpu_buffer_create(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **buffer);
void cpu_buffer_destroy(tsr_backend_buffer *buffer);
int32_t cpu_buffer_write(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, const void *bytes);
int32_t cpu_buffer_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes);

int32_t cpu_supports(tsr_backend_device *device, const tsr_program_desc *program, int32_t line);
int32_t cpu_compile(tsr_backend_device *device, const tsr_compile_args *args, tsr_backend_executable **executable);
void cpu_executable_destroy(tsr_backend_executable *executable);
int32_t cpu_run(tsr_backend_executable *executable);
int32_t cpu_wait(tsr_backend_executable *executable);
int32_t cpu_profile(tsr_backend_executable *executable, uint64_t *nanoseconds);

#endif
