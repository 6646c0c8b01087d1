/* SPDX-License-Identifier: Apache-2.0
 *
 * Transports: found, loaded, checked, joined; and the calls that need no order.
 */
#include "tessera/comm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/platform/paths.h"
#include "core/base/status.h"
#include "core/comm/parts.h"
#include "core/runtime/plugins.h"

enum {
  MAX_NAME = 32,    /* of a transport */
  AT_ONCE = 1 << 26 /* bytes that one call of a slot carries from a rank, or to one */
};

/* ---- joining ----------------------------------------------------------------------------------------------------- */

static tsr_status check_transport(const tsr_comm_transport *t)
{
  if (t->abi_major != TSR_COMM_ABI_MAJOR || t->struct_size < sizeof *t) {
    return tsr_fail(TSR_ERR_PLUGIN,
                    "a transport of version %u with a table of %u bytes; this program uses version %u, whose table has "
                    "%zu: get the plugin's release for this version of Tessera",
                    (unsigned)t->abi_major, (unsigned)t->struct_size, (unsigned)TSR_COMM_ABI_MAJOR, sizeof *t);
  }
  if (!t->name || !t->description || !t->open || !t->close || !t->exchange || !t->gather || !t->broadcast ||
      !t->barrier || !t->abort || !t->message) {
    return tsr_fail(TSR_ERR_PLUGIN, "the transport leaves a field of its table empty: it needs all of them");
  }
  return tsr_build_flags_check("the transport was", t->build_flags);
}

tsr_status tsr_comm_check(const tsr_comm *comm, const char *what, int32_t result)
{
  if (result == TSR_OK) {
    return TSR_OK;
  }
  const char *message = comm->transport->message(comm->context);
  return tsr_fail(result > TSR_OK && result <= TSR_ERR_INTERNAL ? result : TSR_ERR_PLUGIN, "%s: %s: %s",
                  comm->transport->name, what, message ? message : "no reason given");
}

static tsr_status check_place(const tsr_comm_place *p)
{
  if (p->size < 1 || p->rank < 0 || p->rank >= p->size || p->local_size < 1 || p->local_size > p->size ||
      p->local_rank < 0 || p->local_rank >= p->local_size || p->processors < 0) {
    return tsr_fail(TSR_ERR_PLUGIN, "the transport says rank %d of %d, %d of %d here: a fault of the plugin",
                    (int)p->rank, (int)p->size, (int)p->local_rank, (int)p->local_size);
  }
  return TSR_OK;
}

static tsr_status join(tsr_comm *comm, void *argument)
{
  const tsr_comm_transport *t = comm->transport;
  comm->place = (tsr_comm_place){TSR_SIZED(tsr_comm_place)};
  comm->context = argument;
  const int32_t result = t->open(&comm->context, &comm->place);
  if (result != TSR_OK) {
    comm->context = NULL;
    return tsr_fail(TSR_ERR_PLUGIN, "%s: the ranks cannot be joined: %s", t->name, t->message(NULL));
  }
  comm->is_open = 1;
  TSR_TRY(check_place(&comm->place));
  comm->sizes = calloc(2 * (size_t)comm->place.size, sizeof *comm->sizes);
  return comm->sizes ? TSR_OK : tsr_fail_memory(2 * (size_t)comm->place.size * sizeof *comm->sizes);
}

static tsr_status adopt(const tsr_comm_transport *transport, void *library, void *argument, tsr_comm **comm)
{
  TSR_TRY(check_transport(transport));
  tsr_comm *made = calloc(1, sizeof *made);
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  made->transport = transport;
  tsr_status status = join(made, argument);
  if (status != TSR_OK) {
    tsr_comm_close(made);
    return status;
  }
  made->library = library;
  *comm = made;
  return TSR_OK;
}

tsr_status tsr_comm_join(const tsr_comm_transport *transport, void *argument, tsr_comm **comm)
{
  if (!transport || !comm) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_comm_join: transport and comm must not be NULL");
  }
  *comm = NULL;
  return adopt(transport, NULL, argument, comm);
}

static tsr_status load(const char *path, tsr_comm **comm)
{
  void *library, *function;
  tsr_comm_query_fn query;
  TSR_TRY(tsr_library_open(path, "transport", TSR_COMM_QUERY_NAME, &library, &function));
  memcpy(&query, &function, sizeof query);
  const tsr_comm_transport *transport = query(TSR_COMM_ABI_MAJOR);
  tsr_status status = transport ? adopt(transport, library, NULL, comm)
                                : tsr_fail(TSR_ERR_PLUGIN, "refuses version %u of the interface of transports",
                                           (unsigned)TSR_COMM_ABI_MAJOR);
  if (status != TSR_OK) {
    dlclose(library);
  }
  return status;
}

tsr_status tsr_comm_open(const char *name, const char *path, tsr_comm **comm)
{
  if (!name || !comm) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_comm_open: name and comm must not be NULL");
  }
  *comm = NULL;
  const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
  if (length == 0 || length > MAX_NAME || name[length] != '\0') {
    return tsr_fail(TSR_ERR_ARGUMENT, "'%.40s' is no name of a transport: 1 to %d of a-z, 0-9, '_' and '-' are allowed",
                    name, MAX_NAME);
  }
  char plugin[MAX_NAME + sizeof "comm-"];
  tsr_plugin_place s;
  snprintf(plugin, sizeof plugin, "comm-%s", name);
  TSR_TRY(tsr_plugin_find(path, plugin, &s));
  if (!s.file[0]) {
    return tsr_fail(TSR_ERR_PLUGIN,
                    "there is no libtessera-comm-%s" TSR_LIBRARY_SUFFIX
                    ", which is needed to train with several ranks; searched: %s",
                    name, s.searched);
  }
  return tsr_fail_context(load(s.file, comm), "%s", s.file);
}

void tsr_comm_close(tsr_comm *comm)
{
  if (!comm) {
    return;
  }
  if (comm->is_open) {
    comm->transport->close(comm->context);
  }
  if (comm->library) {
    dlclose(comm->library);
  }
  free(comm->sizes);
  free(comm);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

int32_t tsr_comm_rank(const tsr_comm *comm)
{
  return comm ? comm->place.rank : 0;
}

int32_t tsr_comm_size(const tsr_comm *comm)
{
  return comm ? comm->place.size : 1;
}

int32_t tsr_comm_local_rank(const tsr_comm *comm)
{
  return comm ? comm->place.local_rank : 0;
}

int32_t tsr_comm_local_size(const tsr_comm *comm)
{
  return comm ? comm->place.local_size : 1;
}

int32_t tsr_comm_processors(const tsr_comm *comm)
{
  return comm ? comm->place.processors : 0;
}

/* ---- talking ----------------------------------------------------------------------------------------------------- */

static tsr_status check_bytes(const char *function, const void *data, int64_t bytes)
{
  if (bytes < 0 || (bytes > 0 && !data)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: %lld bytes at %s", function, (long long)bytes, data ? "an address" : "NULL");
  }
  return TSR_OK;
}

tsr_status tsr_comm_gather(tsr_comm *comm, const void *mine, int64_t bytes, void *all)
{
  TSR_TRY(check_bytes("tsr_comm_gather", mine, bytes));
  TSR_TRY(check_bytes("tsr_comm_gather", all, bytes));
  if (!comm) {
    memcpy(all, mine, (size_t)bytes);
    return TSR_OK;
  }
  const int32_t size = comm->place.size;
  if (bytes > AT_ONCE / size) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_comm_gather: %lld bytes of each of %d ranks; at most %d", (long long)bytes,
                    (int)size, AT_ONCE / (int)size);
  }
  for (int32_t i = 0; i < size; i++) {
    comm->sizes[i] = bytes;
  }
  return tsr_comm_check(comm, "gather", comm->transport->gather(comm->context, mine, all, comm->sizes));
}

tsr_status tsr_comm_broadcast(tsr_comm *comm, void *data, int64_t bytes, int32_t root)
{
  TSR_TRY(check_bytes("tsr_comm_broadcast", data, bytes));
  if (root < 0 || root >= tsr_comm_size(comm)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_comm_broadcast: there is no rank %d of %d", (int)root,
                    (int)tsr_comm_size(comm));
  }
  for (int64_t at = 0; comm && at < bytes; at += AT_ONCE) {
    const int64_t n = bytes - at < AT_ONCE ? bytes - at : AT_ONCE;
    TSR_TRY(tsr_comm_check(comm, "broadcast", comm->transport->broadcast(comm->context, (char *)data + at, n, root)));
  }
  return TSR_OK;
}

tsr_status tsr_comm_barrier(tsr_comm *comm)
{
  return comm ? tsr_comm_check(comm, "barrier", comm->transport->barrier(comm->context)) : TSR_OK;
}

void tsr_comm_abort(tsr_comm *comm, int32_t code)
{
  if (comm) {
    comm->transport->abort(comm->context, code);
  }
}
