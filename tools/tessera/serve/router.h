/* SPDX-License-Identifier: Apache-2.0
 *
 * From requests to endpoints.
 */
#ifndef TESSERA_SERVE_ROUTER_H
#define TESSERA_SERVE_ROUTER_H

#include "tools/tessera/serve/http.h"

/* Those of a service, which is their user. */
extern const http_handlers router_handlers;

/* Headers of every answer. */
extern const char *const router_headers[];

#endif
