/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets that nobody reads for a while, watched for the other end's leaving.
 */
#ifndef TESSERA_SERVE_WATCH_H
#define TESSERA_SERVE_WATCH_H

#include <stdint.h>

typedef struct watch watch;
typedef void (*watch_fn)(void *user);

/* gone: called by the watch's thread, once a begin, when the other end has closed the connection or its sending half.
 * hold and release stand around it, hold while the watch has not ended. Returns 0 if memory or threads ran out. */
int watch_create(int32_t sockets, watch_fn gone, watch_fn hold, watch_fn release, watch **made);
void watch_destroy(watch *w); /* takes NULL */

/* Returns a number for watch_end; 0: it is not watched. */
uint64_t watch_begin(watch *w, int socket, void *user);

/* After it `hold` is not called any more; `gone` may be under way. The socket is still open. */
void watch_end(watch *w, uint64_t number);

#endif
