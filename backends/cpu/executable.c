/* SPDX-License-Identifier: Apache-2.0
 *
 * Executables: the program's lines with their tensors resolved to memory and their operands prepared; a run walks
 * them in order.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend.h"
#include "blas.h"

typedef struct memory {
  struct memory *next;
  uint64_t size;
  void *bytes;
} memory;

typedef struct packed_use {
  struct packed_use *next;
  const cpu_packed *packed;
} packed_use;

struct tsr_backend_executable {
  tsr_backend_device *device;
  int32_t n_program_lines;
  int32_t n_lines; /* after several were made one */
  int32_t profile;
  cpu_line *lines;       /* [n_lines] */
  uint64_t *nanoseconds; /* [n_program_lines], of the last run */
  memory *memories;
  packed_use *uses;
  cpu_team team;
  uint64_t shared_size;
};

struct cpu_preparation {
  tsr_backend_executable *executable;
};

/* ---- what prepare may ask for ---------------------------------------------------------------------------------- */

void cpu_ask_scratch(cpu_preparation *preparation, uint64_t bytes)
{
  cpu_team *team = &preparation->executable->team;
  team->scratch_size = cpu_aligned(bytes) > team->scratch_size ? cpu_aligned(bytes) : team->scratch_size;
}

void cpu_ask_shared(cpu_preparation *preparation, uint64_t bytes)
{
  tsr_backend_executable *executable = preparation->executable;
  executable->shared_size = cpu_aligned(bytes) > executable->shared_size ? cpu_aligned(bytes) : executable->shared_size;
}

void *cpu_ask_memory(cpu_preparation *preparation, uint64_t bytes)
{
  tsr_backend_executable *executable = preparation->executable;
  memory *taken = calloc(1, sizeof *taken);
  if (!taken) {
    return NULL;
  }
  taken->size = bytes;
  taken->bytes = cpu_memory_take(executable->device, bytes);
  if (!taken->bytes) {
    free(taken);
    return NULL;
  }
  taken->next = executable->memories;
  executable->memories = taken;
  return taken->bytes;
}

const struct cpu_blas *cpu_ask_blas(const cpu_preparation *preparation)
{
  const cpu_blas *blas = preparation->executable->device->context->blas;
  return cpu_blas_is_fast(blas) ? blas : NULL;
}

const void *cpu_ask_packed(cpu_preparation *preparation, const cpu_layout *layout)
{
  tsr_backend_executable *executable = preparation->executable;
  packed_use *use = calloc(1, sizeof *use);
  if (!use) {
    return NULL;
  }
  use->packed = cpu_packed_take(executable->device, layout);
  if (!use->packed) {
    free(use);
    return NULL;
  }
  use->next = executable->uses;
  executable->uses = use;
  return use->packed->bytes;
}

/* ---- compile --------------------------------------------------------------------------------------------------- */

static void *allocate(tsr_backend_device *device, int64_t count, size_t size)
{
  atomic_fetch_add(&device->allocations, 1);
  return calloc(count > 0 ? (size_t)count : 1, size);
}

/* Scratch of the team, once all lines have said what they need. */
static int32_t make_team(tsr_backend_executable *executable)
{
  tsr_backend_device *device = executable->device;
  cpu_preparation preparation = {.executable = executable};
  cpu_team *team = &executable->team;
  team->pool = device->pool;
  if (team->scratch_size > 0) {
    team->scratch = cpu_ask_memory(&preparation, team->scratch_size * (uint64_t)cpu_pool_threads(device->pool));
  }
  if (executable->shared_size > 0) {
    team->shared = cpu_ask_memory(&preparation, executable->shared_size);
  }
  return (team->scratch_size > 0 && !team->scratch) || (executable->shared_size > 0 && !team->shared)
             ? TSR_ERR_OUT_OF_MEMORY
             : TSR_OK;
}

static int32_t prepare(tsr_backend_executable *executable, const tsr_compile_args *args)
{
  const cpu_operator *operators = executable->device->level->operators;
  cpu_preparation preparation = {.executable = executable};
  for (int32_t i = 0; i < args->program->n_lines;) {
    i += cpu_resolve_lines(operators, args, i, &executable->lines[executable->n_lines++]);
  }
  for (int32_t i = 0; i < executable->n_lines; i++) {
    cpu_line *line = &executable->lines[i];
    if (operators[line->op].prepare) {
      const int32_t status = operators[line->op].prepare(line, &preparation);
      if (status != TSR_OK) {
        return status;
      }
    }
  }
  return make_team(executable);
}

int32_t cpu_compile(tsr_backend_device *device, const tsr_compile_args *args, tsr_backend_executable **executable)
{
  const int32_t n_lines = args->program->n_lines;
  int32_t status = TSR_ERR_OUT_OF_MEMORY;
  tsr_backend_executable *compiled = allocate(device, 1, sizeof(*compiled));
  if (compiled) {
    compiled->device = device;
    compiled->n_program_lines = n_lines;
    compiled->profile = args->profile;
    compiled->lines = allocate(device, n_lines, sizeof(*compiled->lines));
    compiled->nanoseconds = allocate(device, n_lines, sizeof(*compiled->nanoseconds));
    if (compiled->lines && compiled->nanoseconds) {
      status = prepare(compiled, args);
    }
  }
  if (status != TSR_OK) {
    cpu_executable_destroy(compiled);
    return cpu_fail(device->context, status, "out of memory while compiling a program of %d lines", n_lines);
  }
  *executable = compiled;
  return TSR_OK;
}

void cpu_executable_destroy(tsr_backend_executable *executable)
{
  if (!executable) {
    return;
  }
  while (executable->uses) {
    packed_use *use = executable->uses;
    executable->uses = use->next;
    cpu_packed_give(executable->device, use->packed);
    free(use);
  }
  while (executable->memories) {
    memory *taken = executable->memories;
    executable->memories = taken->next;
    cpu_memory_give(executable->device, taken->bytes, taken->size);
    free(taken);
  }
  free(executable->nanoseconds);
  free(executable->lines);
  free(executable);
}

/* ---- run ------------------------------------------------------------------------------------------------------- */

static uint64_t now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int32_t cpu_run(tsr_backend_executable *executable)
{
  const cpu_operator *operators = executable->device->level->operators;
  cpu_pool_enter(&executable->team);
  for (int32_t i = 0; i < executable->n_lines; i++) {
    const cpu_line *line = &executable->lines[i];
    const uint64_t begin = executable->profile ? now() : 0;
    operators[line->op].run(line, &executable->team);
    if (executable->profile) {
      executable->nanoseconds[line->index] = now() - begin;
    }
  }
  cpu_pool_leave(&executable->team);
  atomic_fetch_add(&executable->device->runs, 1);
  return TSR_OK;
}

int32_t cpu_wait(tsr_backend_executable *executable)
{
  (void)executable; /* run returns when it has ended */
  return TSR_OK;
}

int32_t cpu_profile(tsr_backend_executable *executable, uint64_t *nanoseconds)
{
  if (!executable->profile) {
    return cpu_fail(executable->device->context, TSR_ERR_UNSUPPORTED,
                    "no times were kept: compile the program with profile");
  }
  memcpy(nanoseconds, executable->nanoseconds, (size_t)executable->n_program_lines * sizeof(*nanoseconds));
  return TSR_OK;
}
