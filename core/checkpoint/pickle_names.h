/* SPDX-License-Identifier: Apache-2.0
 *
 * What the reader of pickles knows by name.
 */
#ifndef TESSERA_CORE_PICKLE_NAMES_H
#define TESSERA_CORE_PICKLE_NAMES_H

#include "core/checkpoint/pickle.h"

/* Globals that may occur; the storages' classes follow the last one. */
typedef enum tsr_pickle_global {
  TSR_PICKLE_NO_GLOBAL,
  TSR_PICKLE_ORDERED_DICT,
  TSR_PICKLE_TENSOR,
  TSR_PICKLE_PARAMETER,
  TSR_PICKLE_STORAGES
} tsr_pickle_global;

/* TSR_PICKLE_NO_GLOBAL for one that is refused. */
tsr_pickle_global tsr_pickle_global_find(const char *module, size_t module_size, const char *name, size_t name_size);

/* The elements of a storage's class, or NULL for another global. */
const tsr_pickle_type *tsr_pickle_storage(tsr_pickle_global which);

/* As Python's pickletools call it; "unknown" for a byte that is no opcode. */
const char *tsr_pickle_opcode_name(unsigned char opcode);

#endif
