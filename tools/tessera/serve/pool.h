/* SPDX-License-Identifier: Apache-2.0
 *
 * A few threads for work that waits.
 */
#ifndef TESSERA_SERVE_POOL_H
#define TESSERA_SERVE_POOL_H

#include <stdint.h>

typedef struct pool pool;
typedef void (*pool_fn)(void *user);

/* At most `most` jobs wait. NULL: memory or threads ran out. */
pool *pool_create(int32_t threads, int32_t most);
void pool_destroy(pool *p); /* finishes all jobs; takes NULL */

/* Returns 0 if too many jobs wait. */
int pool_add(pool *p, pool_fn job, void *user);

#endif
