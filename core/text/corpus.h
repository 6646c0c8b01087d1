/* SPDX-License-Identifier: Apache-2.0
 *
 * What a corpus tells beside its pairs.
 */
#ifndef TESSERA_CORE_TEXT_CORPUS_H
#define TESSERA_CORE_TEXT_CORPUS_H

#include "tessera/corpus.h"

/* Column 3 or a further one of the line that the last pair was, in a TSV: not NUL-terminated, valid as the pair is; ""
 * where there is none. */
void tsr_corpus_column(const tsr_corpus *corpus, int32_t column, const char **text, size_t *size);

#endif
