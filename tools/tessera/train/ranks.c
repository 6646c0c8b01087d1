/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/train/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/device.h"
#include "tools/tessera/common/message.h"

/* What launchers set in the environment of the ranks that they start. */
static const struct {
  const char *rank, *size; /* size NULL: it does not tell */
} launchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}, {"PMIX_RANK", NULL}};

enum { N_LAUNCHERS = sizeof launchers / sizeof launchers[0] };

/* The number in a variable of the environment; -1: there is none. */
static long number_in(const char *variable)
{
  const char *text = variable ? getenv(variable) : NULL;
  return text ? strtol(text, NULL, 10) : -1;
}

static int is_one_of_several(void)
{
  for (int i = 0; i < N_LAUNCHERS; i++) {
    if (number_in(launchers[i].rank) >= 0) {
      return number_in(launchers[i].size) != 1;
    }
  }
  return 0;
}

void ranks_begin(void)
{
  for (int i = 0; i < N_LAUNCHERS; i++) {
    const long rank = number_in(launchers[i].rank);
    if (rank >= 0) {
      tsr_cli_message_rank((int32_t)rank);
      return;
    }
  }
}

int ranks_join(recipe *r, tsr_comm **comm)
{
  *comm = NULL;
  const char *name = r->comm[0] == '\0' && is_one_of_several() ? "mpi" : r->comm;
  if (name[0] != '\0' && strcmp(name, "none") != 0) {
    int code = tsr_cli_comm(name, comm);
    if (code != TSR_EXIT_OK) {
      return code;
    }
  }
  const int32_t size = tsr_comm_size(*comm);
  tsr_cli_message_rank(tsr_comm_rank(*comm));
  if (r->accumulate == 0) {
    r->accumulate = size;
  }
  if (r->accumulate < size && tsr_comm_rank(*comm) == 0) {
    tsr_cli_warning("%d ranks share the %d batches of an update (accumulate): %d of them have nothing to compute",
                    (int)size, (int)r->accumulate, (int)(size - r->accumulate));
  }
  return TSR_EXIT_OK;
}

int ranks_runtime(const tsr_comm *comm, tsr_runtime **runtime)
{
  int code = tsr_cli_runtime(runtime);
  const int32_t processors = tsr_comm_processors(comm); /* 0: the backend's own number is right */
  if (code != TSR_EXIT_OK || processors < 1 || getenv("TESSERA_THREADS")) {
    return code;
  }
  char text[16];
  snprintf(text, sizeof text, "%d", (int)processors);
  return tsr_cli_fail(tsr_runtime_option(*runtime, "THREADS", text));
}

/* 1 if the two are GPUs of one kind, of one backend. */
static int are_alike(const tsr_device_info *a, const char *name, const tsr_device_properties *b)
{
  const size_t length = strlen(a->backend);
  return strncmp(a->backend, name, length) == 0 && name[length] == ':' && a->properties.type == b->type &&
         strcmp(a->properties.name, b->name) == 0;
}

/* Ranks of a machine take turns at the GPUs that are like the one which was chosen. */
static int spread(const tsr_comm *comm, tsr_runtime *runtime, tsr_device **device)
{
  const tsr_device_properties *chosen = tsr_device_get_properties(*device);
  if (!tsr_cli_is_gpu(chosen->type)) {
    return TSR_EXIT_OK;
  }
  const char *own = tsr_device_name(*device);
  char name[64] = "";
  int32_t n_alike = 0;
  for (int pass = 0; pass < 2; pass++) {
    const int32_t wanted = n_alike > 0 ? tsr_comm_local_rank(comm) % n_alike : -1;
    n_alike = 0;
    for (int32_t i = 0; i < tsr_runtime_device_count(runtime); i++) {
      tsr_device_info info;
      int code = tsr_cli_fail(tsr_runtime_device_info(runtime, i, &info));
      if (code != TSR_EXIT_OK) {
        return code;
      }
      if (are_alike(&info, own, chosen) && n_alike++ == wanted) {
        snprintf(name, sizeof name, "%s", info.name);
      }
    }
  }
  if (name[0] == '\0' || strcmp(name, own) == 0) {
    return TSR_EXIT_OK;
  }
  tsr_device_close(*device);
  *device = NULL;
  return tsr_cli_device(runtime, name, device);
}

static int32_t count_names(const char *names)
{
  int32_t n = 1;
  for (const char *at = names; (at = strchr(at, ',')); at++) {
    n++;
  }
  return n;
}

/* Writes the name of number `index`, counted round, of a list with commas. */
static void pick(const char *names, int32_t index, char *name, size_t size)
{
  for (index %= count_names(names); index > 0; index--) {
    names = strchr(names, ',') + 1;
  }
  snprintf(name, size, "%.*s", (int)strcspn(names, ","), names);
}

int ranks_device(const tsr_comm *comm, tsr_runtime *runtime, const char *names, tsr_device **device)
{
  const char *said = names[0] ? names : getenv("TESSERA_DEVICE");
  if (!said || !said[0] || strcmp(said, "auto") == 0) {
    int code = tsr_cli_device(runtime, NULL, device);
    return code == TSR_EXIT_OK && tsr_comm_local_size(comm) > 1 ? spread(comm, runtime, device) : code;
  }
  const int32_t n = count_names(said);
  if (n > 1 && tsr_comm_size(comm) == 1) {
    return tsr_cli_usage("train",
                         "'%s' names %d devices, and one process trains on one of them: start a rank for each, `mpirun "
                         "-n %d tessera train ...`, or name one device",
                         said, (int)n, (int)n);
  }
  char name[256];
  pick(said, tsr_comm_local_rank(comm), name, sizeof name);
  return tsr_cli_device(runtime, name, device);
}
