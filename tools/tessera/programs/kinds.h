/* SPDX-License-Identifier: Apache-2.0
 *
 * What the subcommands share that look at a model's programs: the kinds by name, the options that give their sizes, and
 * running one on random input.
 */
#ifndef TESSERA_TOOLS_KINDS_H
#define TESSERA_TOOLS_KINDS_H

#include "tessera/transformer.h"
#include "tools/tessera/options/loop.h"

/* The kinds chosen, the sizes of their programs, and the type of their matrices. */
typedef struct tsr_cli_kinds {
  unsigned chosen; /* bit TSR_PROGRAM_*; 0: all that the model has */
  tsr_program_size size;
  tsr_dtype weights;   /* as in tsr_transformer_options */
  const char *further; /* kinds that the command takes beside these, for a message; NULL: none */
} tsr_cli_kinds;

/* Rows for a getopt table, and the help text that belongs to them. */
/* clang-format off */
#define TSR_CLI_KIND_OPTIONS                   \
  {"kind", required_argument, NULL, 'K'},      \
  {"batch", required_argument, NULL, 'B'},     \
  {"source", required_argument, NULL, 'S'},    \
  {"target", required_argument, NULL, 'L'},    \
  {"beam", required_argument, NULL, 'N'},      \
  {"precision", required_argument, NULL, 'P'}
/* clang-format on */
#define TSR_CLI_KIND_HELP                                                                                              \
  "  --kind K       encode, decode, greedy, beam or score; may be repeated (default: all)\n"                           \
  "  --batch B      sentences (default 2)\n"                                                                           \
  "  --source S     tokens of a source (default 7)\n"                                                                  \
  "  --target L     tokens of a target, and positions of the cache (default 9)\n"                                      \
  "  --beam N       hypotheses of a sentence, in the program of beam search (default 3)\n"                             \
  "  --precision P  keep matrices as f32, f16, bf16 or int8 (default: as stored)\n"

tsr_cli_kinds tsr_cli_kinds_default(void);

/* Takes the option if it is one of the above. *taken tells. Returns an exit code. */
int tsr_cli_kinds_option(const char *command, int option, const char *value, tsr_cli_kinds *kinds, int *taken);

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
