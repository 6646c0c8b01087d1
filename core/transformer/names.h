/* SPDX-License-Identifier: Apache-2.0
 *
 * The patterns of tsr_name_rule, and the names that checkpoints give to what they stand for.
 */
#ifndef TESSERA_CORE_TRANSFORMER_NAMES_H
#define TESSERA_CORE_TRANSFORMER_NAMES_H

#include "core/transformer/model.h"

enum { TSR_NAME_ROOM = 160 };

/* What the wildcards of a pattern stood for; "" where the pattern has no such wildcard. */
typedef struct tsr_name_captures {
  char stack[24];
  char layer[24]; /* counted from 0 */
  char suffix[24];
} tsr_name_captures;

/* What wrappers of models put before the names of all tensors; the first is none. */
enum { TSR_NAME_WRAPPERS = 5 };
extern const char *const tsr_name_wrappers[TSR_NAME_WRAPPERS];

/* 1 if the name is of that pattern; then *found is what its wildcards stand for. */
int tsr_name_match(const char *pattern, const char *name, tsr_name_captures *found);

/* The pattern with its wildcards replaced, in `name` of TSR_NAME_ROOM. */
void tsr_name_expand(const char *pattern, const tsr_name_captures *found, char *name);

/* 1 if what the rule demands of a model holds. */
int tsr_name_rule_holds(const tsr_name_rule *rule, const tsr_transformer_config *config);

/* *differ: 1 if two tensors have the same shape, and not the same numbers. Errors: those of reading. */
tsr_status tsr_tensors_compare(const tsr_checkpoint_tensor *a, const tsr_checkpoint_tensor *b,
                               int *differ) TSR_MUST_CHECK;

/* Looks at the tensors that no parameter reads. Those of layers that the configuration does not have are an error: the
 * model would be another. Others are named in a warning, but for what checkpoints are known to carry along. Errors:
 * TSR_ERR_FORMAT, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_parameters_check_unread(const tsr_model *model) TSR_MUST_CHECK;

#endif
