/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of options. Each function reads one from its text and returns an exit code (message.h), after it printed what
 * is wrong. `command` is the one to name in the message, NULL: none; `what` names the value, as the user typed it
 * ("--beam").
 */
#ifndef TESSERA_TOOLS_VALUES_H
#define TESSERA_TOOLS_VALUES_H

#include <stdint.h>

#include "tessera/transformer.h"

/* A whole decimal number, low .. high. */
int tsr_cli_integer(const char *command, const char *what, const char *text, int64_t low, int64_t high, int64_t *value);

/* The same into an int32_t. */
int tsr_cli_int32(const char *command, const char *what, const char *text, int32_t low, int32_t high, int32_t *value);

/* Any whole number of 64 bits without a sign. */
int tsr_cli_seed(const char *command, const char *what, const char *text, uint64_t *value);

/* A finite number, low .. high. */
int tsr_cli_number(const char *command, const char *what, const char *text, double low, double high, double *value);

/* "f32", "f16", "bf16", "int8" (TSR_I8), "int4" (TSR_I4). */
int tsr_cli_precision(const char *command, const char *what, const char *text, tsr_dtype *value);

/* Such a name; "stored" for 0. */
const char *tsr_cli_precision_name(tsr_dtype value);

/* Number `index` of those names, from 0; NULL behind the last. */
const char *tsr_cli_precision_at(int32_t index);

#endif
