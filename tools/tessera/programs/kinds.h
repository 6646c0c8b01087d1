/* SPDX-License-Identifier: Apache-2.0
 *
 * What the subcommands share that look at a model's programs: the kinds by name, the options that give their sizes, and
 * running one on random input.
 */
#ifndef TESSERA_TOOLS_KINDS_H
#define TESSERA_TOOLS_KINDS_H

#include "tessera/transformer.h"
#include "tools/tessera/options/options.h"

/* The kinds chosen, the sizes of their programs, and the type of their matrices. */
typedef struct tsr_cli_kinds {
  unsigned chosen; /* bit TSR_PROGRAM_*; 0: all that the model has */
  tsr_program_size size;
  tsr_dtype weights; /* as in tsr_transformer_options */
} tsr_cli_kinds;

/* The options, into tsr_cli_kinds, but for the choice of kinds. */
extern const tsr_option_table tsr_cli_kind_options;

/* The names of the kinds, as the first choices of an option --kind. */
#define TSR_CLI_KIND_CHOICES                                                                                           \
  {"encode"}, {"decode"}, {"greedy"}, {"beam"},                                                                        \
  {                                                                                                                    \
    "score"                                                                                                            \
  }

/* "encode" and so on. Static. */
const char *tsr_cli_kind_name(int32_t kind);

/* The next chosen kind after `kind` (0: the first) that the model has, or 0. */
int32_t tsr_cli_kinds_next(const tsr_cli_kinds *kinds, const tsr_model *model, int32_t kind);

/* Compiles a program that tsr_transformer_program made, its constants bound to the transformer's weights. The options'
 * bindings are not looked at. *executable is the caller's. */
tsr_status tsr_cli_compile(tsr_transformer *transformer, const tsr_program *program, const tsr_compile_options *options,
                           tsr_executable **executable) TSR_MUST_CHECK;

/* Fills its inputs and states with random content that is valid for them; the same for the same seed. */
tsr_status tsr_cli_fill(const tsr_model *model, const tsr_program *program, const tsr_program_size *size, uint64_t seed,
                        tsr_executable *executable) TSR_MUST_CHECK;

/* Runs an executable that was compiled with profile n_runs times: the least nanoseconds of each line. least and scratch
 * [n_lines]. */
tsr_status tsr_cli_time_lines(tsr_executable *executable, int32_t n_lines, int32_t n_runs, uint64_t *least,
                              uint64_t *scratch) TSR_MUST_CHECK;

#endif
