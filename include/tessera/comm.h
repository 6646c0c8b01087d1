/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/comm.h: what the ranks of a training say to each other. A rank is one of several processes that run the same
 * program, on one machine or on many, each with a device of its own.
 *
 * The library knows no network. A transport (tessera/transport.h) moves bytes between ranks; what they mean, and the
 * order in which numbers are added, is the library's. Tessera brings one transport, `mpi`.
 *
 * All ranks make the same calls in the same order, with sizes that agree: a rank that leaves one out leaves the others
 * waiting. Bytes travel as they are, so all ranks need the same byte order, and the same build of the library.
 */
#ifndef TESSERA_COMM_H
#define TESSERA_COMM_H

#include "tessera/tensor.h"
#include "tessera/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The ranks. One thread at a time. NULL stands for a process that is alone: rank 0 of 1. */
typedef struct tsr_comm tsr_comm;

/* Loads the transport of that name ("mpi") and joins the other ranks. path: the folders to search, with colons between
 * them (on Windows semicolons); NULL: those where backends are looked for. *comm is the caller's until tsr_comm_close.
 * Blocks until all ranks have called it. Errors: TSR_ERR_ARGUMENT (the name), TSR_ERR_PLUGIN (there is none, it cannot
 * be loaded, or its ranks cannot be joined; the message says what was searched). */
TSR_API tsr_status tsr_comm_open(const char *name, const char *path, tsr_comm **comm) TSR_MUST_CHECK;

/* Leaves the other ranks; all do so. Blocks until they have. Takes NULL. */
TSR_API void tsr_comm_close(tsr_comm *comm);

/* 0 .. size - 1, and how many there are. */
TSR_API int32_t tsr_comm_rank(const tsr_comm *comm);
TSR_API int32_t tsr_comm_size(const tsr_comm *comm);

/* The same among the ranks on this machine. */
TSR_API int32_t tsr_comm_local_rank(const tsr_comm *comm);
TSR_API int32_t tsr_comm_local_size(const tsr_comm *comm);

/* The cores that this rank is to use where other ranks of the machine are bound to the same ones: its share, at least
 * 1. 0: all that it is bound to. */
TSR_API int32_t tsr_comm_processors(const tsr_comm *comm);

/* values [n] become the sums over all ranks, added in the order of the ranks: ((v0 + v1) + v2) + ..., in f32, so that
 * every run gives the same bits, and on each rank the same. Errors: TSR_ERR_OUT_OF_MEMORY, the transport's. */
TSR_API tsr_status tsr_comm_allreduce(tsr_comm *comm, float *values, int64_t n) TSR_MUST_CHECK;

/* all [size][bytes] receives what each rank has in mine [bytes], by rank. The two do not overlap. */
TSR_API tsr_status tsr_comm_gather(tsr_comm *comm, const void *mine, int64_t bytes, void *all) TSR_MUST_CHECK;

/* data [bytes] becomes on each rank what it is on rank `root`. */
TSR_API tsr_status tsr_comm_broadcast(tsr_comm *comm, void *data, int64_t bytes, int32_t root) TSR_MUST_CHECK;

/* Returns when all ranks have called it. */
TSR_API tsr_status tsr_comm_barrier(tsr_comm *comm) TSR_MUST_CHECK;

/* Ends the processes of all ranks, this one too, with this exit code: for a rank that failed, as the others would wait
 * for it for ever. Print the message before. Any thread. Does not return, unless comm is NULL. */
TSR_API void tsr_comm_abort(tsr_comm *comm, int32_t code);

/* Joins by a table that the program brings; `argument` is handed to `open` in *context. Otherwise as tsr_comm_open. */
TSR_API tsr_status tsr_comm_join(const tsr_comm_transport *transport, void *argument, tsr_comm **comm) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
