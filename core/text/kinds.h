/* SPDX-License-Identifier: Apache-2.0
 *
 * How the kinds of tokenizers open: for the table in kinds.c.
 */
#ifndef TESSERA_CORE_KINDS_H
#define TESSERA_CORE_KINDS_H

#include "core/checkpoint/file.h"
#include "core/text/tokenizer.h"

/* tokenizer_files.c: files of SentencePiece models, one for each side. */
typedef struct tsr_side_files {
  char *path[TSR_SIDES];
  tsr_file file[TSR_SIDES];
} tsr_side_files;

/* Opens the models as segmenters of both sides, which share one if their files are equal: it takes longer to open than
 * all else together. Nothing if a file is not there (its bytes are NULL), or if `status`, that of reading the files,
 * is an error: it is returned. The files are freed in any case. */
tsr_status tsr_side_segmenters(tsr_status status, tsr_side_files *files, tsr_tokenizer *tokenizer) TSR_MUST_CHECK;

/* marian.c */
tsr_status tsr_marian_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer);
tsr_status tsr_marian_open_languages(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                     tsr_tokenizer *tokenizer);
tsr_status tsr_marian_encode_plain(tsr_encoding *to, const char *text, size_t size, int32_t where);

/* marian_npz.c */
tsr_status tsr_marian_npz_tokenizer(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                    tsr_tokenizer *tokenizer);

/* ctranslate2.c */
tsr_status tsr_ctranslate2_tokenizer(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                     tsr_tokenizer *tokenizer);
tsr_status tsr_ctranslate2_encode_plain(tsr_encoding *to, const char *text, size_t size, int32_t where);

/* pieces.c: kinds whose ids are those of a SentencePiece model, moved. `data` is a tsr_piece_layout. */
enum { TSR_LAYOUT_FIXED = 6 };
typedef struct tsr_piece_layout {
  const char *fixed[TSR_LAYOUT_FIXED]; /* tokens of the ids 0, 1, ... that are not the model's */
  int32_t first;                       /* the first of the model's pieces that has an id of its own */
  int32_t offset;                      /* what is added to the model's ids */
  int32_t sentinels;                   /* T5: <extra_id_0> and so on, backwards behind the last piece */
  int32_t masks;  /* Pegasus: <mask_1>, <mask_2>, and <unk_2> to <unk_102> before the first piece */
  int32_t begins; /* Gemma: <bos> stands before a text, and <eos> behind it only where the folder says so */
  const struct tsr_language_list *languages; /* NULL: none */
} tsr_piece_layout;
extern const tsr_piece_layout tsr_layout_t5, tsr_layout_gemma, tsr_layout_pegasus, tsr_layout_mbart, tsr_layout_mbart50,
    tsr_layout_nllb;
tsr_status tsr_pieces_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer);
tsr_status tsr_pieces_open_languages(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                     tsr_tokenizer *tokenizer);
tsr_status tsr_t5_encode_plain(tsr_encoding *to, const char *text, size_t size, int32_t where);
/* What stands around a text of Gemma's: what tokenizer_config.json says, else <bos> if `begins`, <eos> if `ends`. */
tsr_status tsr_gemma_read_ends(tsr_tokenizer_files *files, int32_t begins, int32_t ends,
                               tsr_tokenizer *tokenizer) TSR_MUST_CHECK;

/* m2m100.c */
tsr_status tsr_m2m100_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer);
tsr_status tsr_m2m100_open_languages(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                     tsr_tokenizer *tokenizer);

/* bart.c */
/* Fills all but the ids around a text but </s> from merges.txt and vocab.json. */
tsr_status tsr_byte_level_open(tsr_tokenizer_files *files, tsr_tokenizer *tokenizer) TSR_MUST_CHECK;
tsr_status tsr_bart_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer);
tsr_status tsr_bart_encode_plain(tsr_encoding *to, const char *text, size_t size, int32_t where);

/* whisper.c */
tsr_status tsr_whisper_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer);
tsr_status tsr_whisper_open_languages(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                      tsr_tokenizer *tokenizer);

/* languages.c */
typedef struct tsr_language_list {
  const char *const *codes;
  int32_t n;
  const char *format;  /* of a token: "%s", "__%s__" */
  const char *source;  /* the source language where nobody chose one */
  int32_t place;       /* TSR_LANGUAGE_* */
  int32_t are_special; /* 1: left out of decoded text */
} tsr_language_list;
extern const tsr_language_list tsr_languages_mbart, tsr_languages_mbart50, tsr_languages_nllb, tsr_languages_m2m100,
    tsr_languages_wmt21;

enum { TSR_LANGUAGE_TOKEN = 64 }; /* bytes that a language's token takes at most */

/* Writes the token of a code. */
void tsr_language_token(const tsr_language_list *list, const char *code, char token[TSR_LANGUAGE_TOKEN]);

/* Makes the list's languages, which the vocabulary has, the tokenizer's, with the choice of tokenizer_config.json
 * (src_lang, tgt_lang) or the list's. */
tsr_status tsr_languages_open(const tsr_language_list *list, tsr_tokenizer_files *files,
                              tsr_tokenizer *tokenizer) TSR_MUST_CHECK;

/* Chooses what tokenizer_config.json says, else `source` (NULL: none); sets the frames of both sides. */
tsr_status tsr_languages_choose(tsr_tokenizer_files *files, tsr_tokenizer *tokenizer,
                                const char *source) TSR_MUST_CHECK;

#endif
