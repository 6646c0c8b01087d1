/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks without processes: threads of a test, and a transport between them.
 */
#ifndef TESSERA_TESTS_RANKS_H
#define TESSERA_TESTS_RANKS_H

#include "tessera/comm.h"

/* What a rank does. On an error the other ranks end with TSR_ERR_PLUGIN at the next call of the transport. */
typedef tsr_status (*rank_fn)(tsr_comm *comm, void *context);

typedef struct rank_result {
  tsr_status status;
  char message[1024]; /* of an error */
} rank_result;

/* How often ranks have begun to exchange parts of arrays, so far. Any thread. */
int64_t ranks_exchanges(void);

/* Runs the function as each of `size` ranks, at once; fills results [size]. A transport that cannot be joined fails the
 * test. */
void run_ranks(int32_t size, rank_fn run, void *context, rank_result *results);

#endif
