/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions in files of sentences, for corpora.
 */
#ifndef TESSERA_CORE_TEXT_FILE_H
#define TESSERA_CORE_TEXT_FILE_H

#include "core/text/lines.h"
#include "tessera/corpus.h"

/* 1 if the file is SGM or XML, 0 if it is lines. */
int tsr_text_file_is_markup(const tsr_text_file *file);

/* Where the next sentence is looked for, in bytes. */
int64_t tsr_text_file_tell(const tsr_text_file *file);

/* Goes to an offset that tsr_text_file_tell gave after `number` sentences. Errors: TSR_ERR_IO. */
tsr_status tsr_text_file_seek(tsr_text_file *file, int64_t offset, int64_t number) TSR_MUST_CHECK;

#endif
