/* SPDX-License-Identifier: Apache-2.0
 *
 * YAML from strangers, as JSON: what the files beside a model of Marian-NMT need. Plain scalars are null, true, false,
 * whole numbers and numbers as in YAML's core schema, and texts; quoted ones, and all keys, are texts. Aliases, tags
 * and keys that are no scalars are errors, as are duplicate keys and a second document.
 */
#ifndef TESSERA_CORE_YAML_H
#define TESSERA_CORE_YAML_H

#include "core/checkpoint/checkpoint.h"

/* Parses a whole text as one mapping, which *root then owns (json_decref). `name` stands for the file in messages.
 * Errors: TSR_ERR_FORMAT, naming file and line; TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_yaml_parse(const char *name, const void *text, size_t size, json_t **root) TSR_MUST_CHECK;

/* The same for a file. Errors: as tsr_config_open. */
tsr_status tsr_yaml_open(const char *path, tsr_config *config) TSR_MUST_CHECK;

#endif
