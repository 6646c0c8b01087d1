/* SPDX-License-Identifier: Apache-2.0
 *
 * What the temporary files of tessera/files.h are called: PATH and this.
 */
#ifndef TESSERA_CORE_REPLACE_H
#define TESSERA_CORE_REPLACE_H

#include "tessera/files.h"

#define TSR_PARTIAL_SUFFIX ".partial"

#endif
