/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/transport.h: the plugin ABI of transports, version 1: how bytes travel between the ranks of a training.
 *
 * A transport is a shared object named libtessera-comm-NAME.so (on Windows a DLL) that exports one symbol,
 *
 *     const tsr_comm_transport *tessera_comm_query(uint32_t host_abi_major);
 *
 * It returns a constant table that stays valid until the shared object is unloaded, or NULL to refuse. A program may
 * also hand over a table of its own (tsr_comm_join, tessera/comm.h). Plugins are looked for where backends are
 * (tessera/backend.h).
 */
#ifndef TESSERA_TRANSPORT_H
#define TESSERA_TRANSPORT_H

#include "tessera/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_COMM_ABI_MAJOR  1u
#define TSR_COMM_QUERY_NAME "tessera_comm_query"

/* Where a rank is. */
typedef struct tsr_comm_place {
  uint32_t struct_size; /* of what the library knows */
  int32_t rank, size;
  int32_t local_rank, local_size; /* among the ranks on this machine */
  int32_t processors; /* cores that it is to use where others are bound to the same ones; 0: all it is bound to */
  /* 1: slots may be called by any thread, one at a time: then gradients travel while the next ones are computed. 0:
   * only by the thread that called `open`. A plugin writes it where struct_size says that the library knows it. */
  int32_t any_thread;
} tsr_comm_place;
TSR_ABI_PIN(tsr_comm_place, processors, 20);
TSR_ABI_PIN(tsr_comm_place, any_thread, 24);

/* A table of functions, constant as long as the plugin is loaded. Slots return TSR_OK or a TSR_ERR_ code, and after an
 * error `message` tells the user why. The library calls one slot at a time, but for `abort`, checks arguments, and
 * hands over at most 1 GiB a call. Growth: as in tessera/backend.h; fields are only appended. */
typedef struct tsr_comm_transport {
  uint32_t struct_size;
  uint32_t abi_major;   /* TSR_COMM_ABI_MAJOR */
  uint32_t build_flags; /* TSR_BUILD_FLAGS */
  uint32_t reserved;
  const char *name;
  const char *description;

  /* Joins the other ranks, and fills *place. After an error there is nothing to close. */
  int32_t (*open)(void **context, tsr_comm_place *place);
  void (*close)(void *context);

  /* To each rank the bytes meant for it, from each rank those meant for this one. `send` and `receive` hold the parts
   * by rank, one after the other; their sizes [size] are in bytes, and a size of 0 is no message. Each rank gives for
   * another what that one expects. */
  int32_t (*exchange)(void *context, const void *send, const int64_t *send_sizes, void *receive,
                      const int64_t *receive_sizes);

  /* To all ranks the same bytes: `all` receives the parts by rank, one after the other, of sizes[rank] bytes each; each
   * rank knows the sizes of all. `mine` and `all` do not overlap. */
  int32_t (*gather)(void *context, const void *mine, void *all, const int64_t *sizes);

  int32_t (*broadcast)(void *context, void *data, int64_t bytes, int32_t root);
  int32_t (*barrier)(void *context);
  void (*abort)(void *context, int32_t code); /* any thread */

  /* Why the last call of a slot failed, by any context: static, or valid until the next call. context: NULL after
   * `open`. */
  const char *(*message)(void *context);
} tsr_comm_transport;
TSR_ABI_PIN(tsr_comm_transport, message, 88);

/* A plugin exports a function of this type, named tessera_comm_query. NULL: it refuses that version. */
typedef const tsr_comm_transport *(*tsr_comm_query_fn)(uint32_t host_abi_major);

#ifdef __cplusplus
}
#endif
#endif
