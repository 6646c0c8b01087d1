/* SPDX-License-Identifier: Apache-2.0
 *
 * fontconfig's FcFini as it behaves when fonts were installed since it was first asked for one: an assertion in it
 * fails.
 */
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) void FcFini(void);

void FcFini(void)
{
  fputs("FcFini: an assertion failed\n", stderr);
  abort();
}
