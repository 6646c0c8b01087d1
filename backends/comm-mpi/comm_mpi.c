/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of an MPI program as a transport. MPI is begun when the ranks are joined, and ended when they part, unless
 * the program had begun it before.
 *
 * MPI's own waiting keeps a processor busy, and a rank may wait for minutes while another validates. So the ranks meet
 * before each call: they ask for a while whether all are there, and then only now and then. Once all are there, bytes
 * travel as fast as MPI can, unless somebody else needs the processor, such as a thread of this rank that computes:
 * then it is asked for no more than it takes to keep them moving.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tessera/transport.h"

/* The one object that there is: MPI cannot be begun twice in a process. */
typedef struct mpi_context {
  MPI_Comm ranks; /* a communicator of our own, so that nobody else's messages meet ours */
  int32_t size;
  int32_t has_begun; /* 1: MPI_Finalize is due */
  int level;         /* of threads, as MPI has it */
  int *numbers;      /* [4 * size] sizes and places, as MPI takes them */
} mpi_context;

static char last_message[MPI_MAX_ERROR_STRING + 256];

static const char *mpi_message(void *context)
{
  (void)context;
  return last_message;
}

static int32_t fail(const char *what)
{
  snprintf(last_message, sizeof last_message, "%s", what);
  return TSR_ERR_PLUGIN;
}

static int32_t fail_mpi(const char *function, int code)
{
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  snprintf(last_message, sizeof last_message, "%s: %s", function, text);
  return TSR_ERR_PLUGIN;
}

/* Returns from the function with an error if the call fails. */
#define MPI_TRY(function, ...)                                                                                         \
  do {                                                                                                                 \
    int mpi_code = function(__VA_ARGS__);                                                                              \
    if (mpi_code != MPI_SUCCESS)                                                                                       \
      return fail_mpi(#function, mpi_code);                                                                            \
  } while (0)

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static double seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Waits until it has happened. busy_seconds: for so long it is asked for all the time, if nobody else wants the
 * processor. */
static int32_t await(MPI_Request *request, double busy_seconds)
{
  static const struct timespec nap = {.tv_nsec = 100000};
  static const double quick = 20e-6; /* of a yield after which nobody else has run */
  const double begin = seconds();
  double now = begin;
  int is_wanted = 0; /* the processor, by somebody else */
  for (;;) {
    int is_done = 0;
    MPI_TRY(MPI_Test, request, &is_done, MPI_STATUS_IGNORE);
    if (is_done) {
      return TSR_OK;
    }
    if (is_wanted || now - begin >= busy_seconds) {
      nanosleep(&nap, NULL);
      is_wanted = 0;
    }
    const double before = seconds();
    sched_yield(); /* the rank that is waited for may need this processor */
    now = seconds();
    is_wanted = now - before > quick;
  }
}

/* Waits until all ranks are here. */
static int32_t meet(MPI_Comm ranks)
{
  MPI_Request request;
  MPI_TRY(MPI_Ibarrier, ranks, &request);
  return await(&request, 0.002);
}

static const double always = 1e9; /* seconds */

/* ---- joining ----------------------------------------------------------------------------------------------------- */

/* The parts that MPI itself loads look for its symbols among those of the whole program, which does not link MPI. */
static void show_symbols(void)
{
  int (*function)(int *, char ***) = MPI_Init;
  void *address;
  Dl_info library;
  memcpy(&address, &function, sizeof address);
  if (dladdr(address, &library) && library.dli_fname) {
    (void)dlopen(library.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  }
}

static int32_t begin_mpi(mpi_context *self)
{
  int has_begun = 0, has_ended = 0, given = 0;
  MPI_TRY(MPI_Finalized, &has_ended);
  if (has_ended) {
    return fail("MPI was ended before in this process, and cannot be begun again");
  }
  MPI_TRY(MPI_Initialized, &has_begun);
  if (!has_begun) {
    show_symbols();
    MPI_TRY(MPI_Init_thread, NULL, NULL, MPI_THREAD_SERIALIZED, &given);
    self->has_begun = 1;
  }
  MPI_TRY(MPI_Query_thread, &self->level);
  return TSR_OK;
}

/* The first processor of the core that a processor belongs to; the processor itself where the system does not tell. */
static int core_of(int cpu)
{
  char path[96];
  int first = cpu;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  FILE *file = fopen(path, "r");
  if (file) {
    if (fscanf(file, "%d", &first) != 1) {
      first = cpu;
    }
    fclose(file);
  }
  return first;
}

/* The cores that a rank gets if each processor is shared out among the ranks of the machine that are bound to it; 0 if
 * no other rank is bound to its processors. */
static int32_t share_of_cores(const cpu_set_t *mine, const cpu_set_t *all, int n)
{
  int cores[CPU_SETSIZE], per_core[CPU_SETSIZE] = {0}, is_shared = 0;
  double share = 0.0;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    const int core = CPU_ISSET((size_t)cpu, mine) ? core_of(cpu) : -1;
    cores[cpu] = core < CPU_SETSIZE ? core : cpu;
    if (core >= 0) {
      per_core[cores[cpu]]++;
    }
  }
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    int users = 0;
    for (int i = 0; i < n && cores[cpu] >= 0; i++) {
      users += CPU_ISSET((size_t)cpu, &all[i]) != 0;
    }
    share += users > 0 ? 1.0 / (users * per_core[cores[cpu]]) : 0.0;
    is_shared |= users > 1;
  }
  return !is_shared ? 0 : share < 1.0 ? 1 : (int32_t)(share + 1e-6);
}

static int32_t count_processors(MPI_Comm machine, int n, int32_t *processors)
{
  cpu_set_t mine, *all = calloc((size_t)n, sizeof *all);
  if (!all) {
    return fail("no memory for the processors of the machine's ranks");
  }
  CPU_ZERO(&mine);
  (void)sched_getaffinity(0, sizeof mine, &mine);
  const int code = MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, machine);
  if (code == MPI_SUCCESS) {
    *processors = share_of_cores(&mine, all, n);
  }
  free(all);
  return code == MPI_SUCCESS ? TSR_OK : fail_mpi("MPI_Allgather", code);
}

static int32_t find_place(mpi_context *self, tsr_comm_place *place)
{
  MPI_Comm machine;
  int rank, size, local_rank, local_size;
  MPI_TRY(MPI_Comm_dup, MPI_COMM_WORLD, &self->ranks);
  MPI_TRY(MPI_Comm_set_errhandler, self->ranks, MPI_ERRORS_RETURN);
  MPI_TRY(MPI_Comm_rank, self->ranks, &rank);
  MPI_TRY(MPI_Comm_size, self->ranks, &size);
  MPI_TRY(MPI_Comm_split_type, self->ranks, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine);
  MPI_TRY(MPI_Comm_rank, machine, &local_rank);
  MPI_TRY(MPI_Comm_size, machine, &local_size);
  place->rank = rank;
  place->size = self->size = size;
  place->local_rank = local_rank;
  place->local_size = local_size;
  if (place->struct_size >= offsetof(tsr_comm_place, any_thread) + sizeof place->any_thread) {
    place->any_thread = self->level >= MPI_THREAD_SERIALIZED;
  }
  const int32_t status = count_processors(machine, local_size, &place->processors);
  MPI_TRY(MPI_Comm_free, &machine);
  return status;
}

static void finish(mpi_context *self)
{
  if (self->ranks != MPI_COMM_NULL) {
    MPI_Comm_free(&self->ranks);
  }
  if (self->has_begun) {
    MPI_Finalize();
  }
  free(self->numbers);
  free(self);
}

static int32_t mpi_open(void **context, tsr_comm_place *place)
{
  mpi_context *self = calloc(1, sizeof *self);
  if (!self) {
    return fail("no memory to begin MPI");
  }
  self->ranks = MPI_COMM_NULL;
  int32_t status = begin_mpi(self);
  if (status == TSR_OK) {
    status = find_place(self, place);
  }
  if (status == TSR_OK) {
    self->numbers = calloc(4 * (size_t)self->size, sizeof *self->numbers);
    status = self->numbers ? TSR_OK : fail("no memory for the sizes of messages");
  }
  if (status != TSR_OK) {
    finish(self);
    return status;
  }
  *context = self;
  return TSR_OK;
}

/* ---- talking ----------------------------------------------------------------------------------------------------- */

/* Sizes as MPI takes them, and where each part begins. */
static void lay_out(const mpi_context *self, const int64_t *sizes, int *counts, int *places)
{
  int at = 0;
  for (int32_t i = 0; i < self->size; i++) {
    counts[i] = (int)sizes[i];
    places[i] = at;
    at += counts[i];
  }
}

static int32_t mpi_barrier(void *context)
{
  return meet(((const mpi_context *)context)->ranks);
}

static int32_t mpi_exchange(void *context, const void *send, const int64_t *send_sizes, void *receive,
                            const int64_t *receive_sizes)
{
  const mpi_context *self = context;
  int *const sent = self->numbers, *const received = self->numbers + 2 * self->size;
  const int32_t status = meet(self->ranks);
  if (status != TSR_OK) {
    return status;
  }
  lay_out(self, send_sizes, sent, sent + self->size);
  lay_out(self, receive_sizes, received, received + self->size);
  MPI_Request request;
  MPI_TRY(MPI_Ialltoallv, send, sent, sent + self->size, MPI_BYTE, receive, received, received + self->size, MPI_BYTE,
          self->ranks, &request);
  return await(&request, always);
}

static int32_t mpi_gather(void *context, const void *mine, void *all, const int64_t *sizes)
{
  const mpi_context *self = context;
  int *const counts = self->numbers, rank;
  const int32_t status = meet(self->ranks);
  if (status != TSR_OK) {
    return status;
  }
  lay_out(self, sizes, counts, counts + self->size);
  MPI_TRY(MPI_Comm_rank, self->ranks, &rank);
  MPI_Request request;
  MPI_TRY(MPI_Iallgatherv, mine, counts[rank], MPI_BYTE, all, counts, counts + self->size, MPI_BYTE, self->ranks,
          &request);
  return await(&request, always);
}

static int32_t mpi_broadcast(void *context, void *data, int64_t bytes, int32_t root)
{
  const mpi_context *self = context;
  const int32_t status = meet(self->ranks);
  if (status != TSR_OK) {
    return status;
  }
  MPI_TRY(MPI_Bcast, data, (int)bytes, MPI_BYTE, root, self->ranks);
  return TSR_OK;
}

/* MPI_Finalize would wait busily for the rank that comes last. */
static void mpi_close(void *context)
{
  (void)mpi_barrier(context);
  finish(context);
}

static void mpi_abort(void *context, int32_t code)
{
  const mpi_context *self = context;
  MPI_Abort(self->ranks, code);
  _Exit(code); /* should MPI return */
}

static const tsr_comm_transport mpi_transport = {
    .struct_size = sizeof(tsr_comm_transport),
    .abi_major = TSR_COMM_ABI_MAJOR,
    .build_flags = TSR_BUILD_FLAGS,
    .name = "mpi",
    .description = "the ranks of an MPI program",
    .open = mpi_open,
    .close = mpi_close,
    .exchange = mpi_exchange,
    .gather = mpi_gather,
    .broadcast = mpi_broadcast,
    .barrier = mpi_barrier,
    .abort = mpi_abort,
    .message = mpi_message,
};

TSR_BACKEND_EXPORT const tsr_comm_transport *tessera_comm_query(uint32_t host_abi_major);

const tsr_comm_transport *tessera_comm_query(uint32_t host_abi_major)
{
  return host_abi_major == TSR_COMM_ABI_MAJOR ? &mpi_transport : NULL;
}
