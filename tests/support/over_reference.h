/* SPDX-License-Identifier: Apache-2.0
 *
 * For plugins that are the reference but for what they replace. Defined before this is included: REFERENCE, the path of
 * its plugin.
 */
#ifndef TESTS_SUPPORT_OVER_REFERENCE_H
#define TESTS_SUPPORT_OVER_REFERENCE_H

#include <dlfcn.h>
#include <string.h>

#include "tessera/backend.h"

__attribute__((visibility("default"))) const tsr_backend *tessera_backend_query(uint32_t host_abi_major,
                                                                                const tsr_host *host);

/* The reference's own table; NULL if its plugin cannot be loaded. */
static inline const tsr_backend *query_reference(uint32_t host_abi_major, const tsr_host *host)
{
  void *library = dlopen(REFERENCE, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, TSR_BACKEND_QUERY_NAME) : NULL;
  tsr_backend_query_fn query;
  memcpy(&query, &symbol, sizeof query);
  return query ? query(host_abi_major, host) : NULL;
}

#endif
