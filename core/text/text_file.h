/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file of sentences is, for corpora.
 */
#ifndef TESSERA_CORE_TEXT_FILE_H
#define TESSERA_CORE_TEXT_FILE_H

#include "core/text/lines.h"
#include "tessera/corpus.h"

/* 1 if the file is SGM or XML, 0 if it is lines. */
int tsr_text_file_is_markup(const tsr_text_file *file);

#endif
