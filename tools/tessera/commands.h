/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands of `tessera`. Each is a table here, a row of the list in main.c, and a file in commands/ or a room of
 * its own.
 */
#ifndef TESSERA_TOOLS_COMMANDS_H
#define TESSERA_TOOLS_COMMANDS_H

#include "tools/tessera/common/component.h"
#include "tools/tessera/options/options.h"

extern const tsr_command tsr_command_attention;
extern const tsr_command tsr_command_bench;
extern const tsr_command tsr_command_check;
extern const tsr_command tsr_command_compare;
extern const tsr_command tsr_command_convert;
extern const tsr_command tsr_command_devices;
extern const tsr_command tsr_command_eval;
extern const tsr_command tsr_command_golden;
extern const tsr_command tsr_command_info;
extern const tsr_command tsr_command_plan;
extern const tsr_command tsr_command_plot;
extern const tsr_command tsr_command_profile;
extern const tsr_command tsr_command_program;
extern const tsr_command tsr_command_report;
extern const tsr_command tsr_command_score;
extern const tsr_command tsr_command_shuffle;
extern const tsr_command tsr_command_tokenize;
extern const tsr_command tsr_command_trace;
extern const tsr_command tsr_command_train;
extern const tsr_command tsr_command_transcribe;
extern const tsr_command tsr_command_translate;
extern const tsr_command tsr_command_translate_corpus;
extern const tsr_command tsr_command_tune;
extern const tsr_command tsr_command_vocab;

/* In components: the program tells their summaries without opening these. */
#define TSR_DOCUMENT_SUMMARY "translate a file: a page, subtitles, an office document, a book"
#define TSR_SERVE_SUMMARY    "answer requests by HTTP, as LibreTranslate, DeepL and (speech) OpenAI do"
TSR_COMPONENT_EXPORT extern const tsr_command tsr_command_document;
TSR_COMPONENT_EXPORT extern const tsr_command tsr_command_serve;

#endif
