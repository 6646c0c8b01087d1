/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.json, the one file of the "fast" tokenizers, where a folder has none of the files that it was made from.
 */
#ifndef TESSERA_CORE_FAST_H
#define TESSERA_CORE_FAST_H

#include "core/text/tokenizer.h"

/* How the text between pieces is treated, as a SentencePiece model says it. */
typedef struct tsr_fast_spaces {
  int dummy_prefix;    /* a blank before the text */
  int first_only;      /* but not behind added tokens */
  int collapse;        /* runs of blanks are one, and none at the ends */
  int strips;          /* no blanks at the ends */
  int white;           /* all white space is a blank */
  int marked;          /* a mark stands for each blank */
  const char *charmap; /* base64 of the compiled table; NULL: none */
} tsr_fast_spaces;

/* Reads `normalizer` and `pre_tokenizer`. Errors: TSR_ERR_UNSUPPORTED, naming the key and the value. */
tsr_status tsr_fast_read_spaces(const json_t *root, tsr_fast_spaces *spaces) TSR_MUST_CHECK;

/* Makes a SentencePiece model of a Unigram model, or of a BPE model that was made from one; `plain` is a second one
 * without a blank before the text, where spaces->first_only asks for it. side: with the vocabulary and the added
 * tokens, sorted. Errors: TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED. */
tsr_status tsr_fast_make_pieces(const json_t *root, const tsr_fast_spaces *spaces, const tsr_tokenizer_side *side,
                                tsr_segmenter *segmenter, tsr_segmenter *plain) TSR_MUST_CHECK;

/* What the message of an error of that file begins with. */
extern const char tsr_fast_name[];

/* Opens a folder's tokenizer.json for any kind, in the place of its `open`. */
tsr_status tsr_fast_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                         tsr_tokenizer *tokenizer) TSR_MUST_CHECK;

/* Encodes text between added tokens, for a kind that has nothing of its own for it. */
tsr_status tsr_fast_encode_plain(tsr_encoding *to, const char *text, size_t size, int32_t where) TSR_MUST_CHECK;

#endif
