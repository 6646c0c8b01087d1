/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalised texts, kept where the caller wants them.
 */
#ifndef TESSERA_CORE_NORMALIZER_H
#define TESSERA_CORE_NORMALIZER_H

#include "core/base/text_buffer.h"
#include "tessera/eval.h"

/* The text normalised, in UTF-8: writes it into the buffer, and its size. */
tsr_status tsr_normalizer_write(tsr_normalizer *normalizer, tsr_span text, tsr_text_buffer *buffer,
                                size_t *size) TSR_MUST_CHECK;

/* "basic", "basic+diacritics" .. as a signature names it; "none" for NULL. Static. */
const char *tsr_normalizer_name(const tsr_normalizer *normalizer);

#endif
