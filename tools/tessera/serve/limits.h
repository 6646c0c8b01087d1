/* SPDX-License-Identifier: Apache-2.0
 *
 * How many requests and characters a key or an address has had in the last minute.
 */
#ifndef TESSERA_SERVE_LIMITS_H
#define TESSERA_SERVE_LIMITS_H

#include <stdint.h>

typedef struct limits limits;

/* NULL: memory ran out. */
limits *limits_create(void);
void limits_destroy(limits *l); /* takes NULL */

/* Who pays: a key's text, or an address; of IPv6 the network of 64 bits. */
enum { LIMITS_NAME_ROOM = 80 };
void limits_name_address(const char *address, char name[LIMITS_NAME_ROOM]);

/* Takes a request with so many characters, at a time in seconds. most_..: a minute; 0: any number. Returns 0 if it may
 * go on, else the seconds until it may; *which tells what is spent: 'r' or 'c'. What is refused costs nothing. */
int32_t limits_take(limits *l, const char *name, double now, int64_t most_requests, int64_t most_characters,
                    int64_t characters, char *which);

#endif
