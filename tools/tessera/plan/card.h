/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions of devices, as JSON. A figure is a number, or an object of `value`, `source` and perhaps `estimate`.
 */
#ifndef TESSERA_TOOLS_PLAN_CARD_H
#define TESSERA_TOOLS_PLAN_CARD_H

#include "tools/tessera/common/json.h"
#include "tools/tessera/plan/cost.h"

typedef struct plan_card {
  char name[64];
  char backend[32];
  plan_figures figures;
  tsr_described_device described; /* its name is `name`, too */
} plan_card;

/* Reads a description: from a path, or where `name` has neither '/' nor '.', from the file of that name among those
 * that are installed, or stand beside a program that runs from its build folder. Returns an exit code, after a message
 * that names the file and the key. */
int plan_card_read(const char *name, plan_card *card);

/* As JSON; NULL without memory. source: of all figures, such as "measured"; NULL: they are plain numbers. */
json_t *plan_card_json(const plan_card *card, const char *source);

#endif
