/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model folder translates from and into, or that it hears.
 */
#ifndef TESSERA_SERVE_DIRECTIONS_H
#define TESSERA_SERVE_DIRECTIONS_H

#include "tools/tessera/serve/model_set.h"

/* Sets m->hears of a model of speech. Of another one, fills m->sources and m->targets from the first of these that
 * tells them: --direction; tessera-serve.json in the folder; metadata.json (from_code, to_code); the tokenizer's
 * languages; source_lang and target_lang of tokenizer_config.json; the lists of README.md as OPUS-MT writes it; the
 * folder's name (opus-mt-en-fr). Returns an exit code: TSR_EXIT_INPUT after it told what is wrong with the folder. */
int directions_read(const serve_settings *settings, model *m);

#endif
