/* SPDX-License-Identifier: Apache-2.0
 *
 * The language that a text is in.
 */
#ifndef TESSERA_SERVE_DETECT_H
#define TESSERA_SERVE_DETECT_H

#include <stddef.h>

#include "tools/tessera/serve/languages.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DETECT_MOST = 3 };

typedef struct detected {
  char code[LANGUAGE_ROOM];
  double confidence; /* 0 .. 100 */
} detected;

/* The likeliest languages, best first; returns how many. Any thread. */
int detect_language(const char *text, size_t size, detected found[DETECT_MOST]);

#ifdef __cplusplus
}
#endif
#endif
