/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands of `tessera`. Each is a table here, a row of the list in main.c, and a file in commands/ or a room of
 * its own.
 */
#ifndef TESSERA_TOOLS_COMMANDS_H
#define TESSERA_TOOLS_COMMANDS_H

#include "tools/tessera/options/options.h"

extern const tsr_command tsr_command_attention;
extern const tsr_command tsr_command_bench;
extern const tsr_command tsr_command_check;
extern const tsr_command tsr_command_compare;
extern const tsr_command tsr_command_devices;
extern const tsr_command tsr_command_document;
extern const tsr_command tsr_command_eval;
extern const tsr_command tsr_command_golden;
extern const tsr_command tsr_command_info;
extern const tsr_command tsr_command_plan;
extern const tsr_command tsr_command_plot;
extern const tsr_command tsr_command_profile;
extern const tsr_command tsr_command_program;
extern const tsr_command tsr_command_score;
extern const tsr_command tsr_command_serve; /* of builds with the server: TSR_HAS_SERVE */
extern const tsr_command tsr_command_tokenize;
extern const tsr_command tsr_command_trace;
extern const tsr_command tsr_command_train;
extern const tsr_command tsr_command_translate;
extern const tsr_command tsr_command_tune;
extern const tsr_command tsr_command_vocab;

#endif
