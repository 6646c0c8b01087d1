/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of core/comm share.
 */
#ifndef TESSERA_CORE_COMM_PARTS_H
#define TESSERA_CORE_COMM_PARTS_H

#include "tessera/comm.h"

struct tsr_comm {
  const tsr_comm_transport *transport;
  void *library; /* of dlopen; NULL: the program brought the table */
  void *context; /* of open */
  int is_open;   /* 1: close is due */
  tsr_comm_place place;
  int64_t *sizes; /* [2 * size] room for the sizes that a slot takes: of what is sent, of what is received */
};

/* What a slot returned, with its message. what: "gather". */
tsr_status tsr_comm_check(const tsr_comm *comm, const char *what, int32_t result) TSR_MUST_CHECK;

#endif
