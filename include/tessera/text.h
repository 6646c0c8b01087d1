/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/text.h: text to token ids and back.
 */
#ifndef TESSERA_TEXT_H
#define TESSERA_TEXT_H

#include "tessera/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_tokenizer tsr_tokenizer;

/* The sides of a translation. */
enum { TSR_SIDE_SOURCE = 0, TSR_SIDE_TARGET = 1 };

/* Opens the tokenizer of a model's folder. Its kind comes from tokenizer_config.json (tokenizer_class), else from
 * config.json, else from the files that are there:
 *   marian    source.spm, target.spm, vocab.json, target_vocab.json if the vocabularies are separate
 *   t5        spiece.model
 *   pegasus   spiece.model
 *   mbart     sentencepiece.bpe.model; mbart50 likewise
 *   m2m100    sentencepiece.bpe.model, vocab.json
 *   nllb      sentencepiece.bpe.model
 *   ctranslate2  a folder of CTranslate2 or a package of Argos: its vocabularies, and source.spm and target.spm,
 *             sentencepiece.bpe.model, spm.model, spiece.model or sentencepiece.model
 *   bart      vocab.json, merges.txt (byte-level BPE)
 *   whisper   the same with added tokens for languages, tasks and timestamps: tessera/speech.h has what only it needs
 *   fast      tokenizer.json: Unigram, BPE that was made from SentencePiece, byte-level BPE
 * If a folder has tokenizer.json instead of its kind's files, the tokenizer opens from that.
 * Results equal those of Hugging Face's tokenizers. Any number of threads may use a tokenizer; only
 * tsr_tokenizer_set_languages changes it. The model need not outlive it. *tokenizer is the caller's until
 * tsr_tokenizer_close. Errors: TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED, naming the file. */
TSR_API tsr_status tsr_tokenizer_open(const tsr_model *model, tsr_tokenizer **tokenizer) TSR_MUST_CHECK;
TSR_API void tsr_tokenizer_close(tsr_tokenizer *tokenizer); /* takes NULL */

/* The same for a folder that holds the tokenizer's files and no model, such as `tessera vocab` writes. */
TSR_API tsr_status tsr_tokenizer_open_folder(const char *folder, tsr_tokenizer **tokenizer) TSR_MUST_CHECK;

/* The same, with the kind as a name of the list above; NULL: as the files say. Errors also: TSR_ERR_ARGUMENT (no such
 * kind). */
TSR_API tsr_status tsr_tokenizer_open_as(const char *folder, const char *kind,
                                         tsr_tokenizer **tokenizer) TSR_MUST_CHECK;

/* The kind's name. Static. */
TSR_API const char *tsr_tokenizer_kind_name(const tsr_tokenizer *tokenizer);

/* What a model for this tokenizer has to fit, and what a search for it should do. */
typedef struct tsr_tokenizer_info {
  int32_t source_vocabulary; /* V: ids are below it */
  int32_t target_vocabulary;
  int32_t is_joint;      /* 1: both sides have one vocabulary */
  int32_t source_pad_id; /* -1: there is none; likewise target_pad_id */
  int32_t target_pad_id;
  int32_t eos_id; /* of the target side, likewise unk_id */
  int32_t unk_id;
  int32_t forced_bos_id;    /* the chosen target language's token, to be forced as the first one; -1: none */
  int32_t decoder_start_id; /* the same where the decoder has to start with it (mBART of 25 languages); -1: none */
} tsr_tokenizer_info;
TSR_API tsr_status tsr_tokenizer_get_info_sized(const tsr_tokenizer *tokenizer, tsr_tokenizer_info *info,
                                                size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_tokenizer_get_info(const tsr_tokenizer *tokenizer, tsr_tokenizer_info *info)
{
  return tsr_tokenizer_get_info_sized(tokenizer, info, sizeof *info);
}

/* Languages of mBART, M2M100, NLLB, Whisper and multilingual Marian models: how many there are, and the code of one
 * ("fra_Latn", "fr_XX", "fr"), which lives as long as the tokenizer; NULL for an index outside. */
TSR_API int32_t tsr_tokenizer_n_languages(const tsr_tokenizer *tokenizer);
TSR_API const char *tsr_tokenizer_language(const tsr_tokenizer *tokenizer, int32_t index);

/* The chosen language of a side (TSR_SIDE_*), or NULL. */
TSR_API const char *tsr_tokenizer_chosen_language(const tsr_tokenizer *tokenizer, int32_t side);

/* Chooses the languages of source and target texts; NULL leaves one as it is. At first they are what
 * tokenizer_config.json says, else English for sources, the original's default, and none for targets. The encode
 * functions and tsr_tokenizer_info put the languages' tokens where the model expects them. Call this before several
 * threads use the tokenizer. Errors: TSR_ERR_ARGUMENT (an unknown code: the message lists the nearest; a tokenizer
 * without languages; a source language for Marian, which marks only the target language). */
TSR_API tsr_status tsr_tokenizer_set_languages(tsr_tokenizer *tokenizer, const char *source,
                                               const char *target) TSR_MUST_CHECK;

/* The ids of a source text of `size` bytes, with the special tokens that the model expects around it (Marian: </s> at
 * the end). Special tokens that are written in the text stand for themselves. Invalid UTF-8 is read as U+FFFD. *ids is
 * allocated; the caller frees it with tsr_free. */
TSR_API tsr_status tsr_tokenizer_encode(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                                        int32_t *n_ids) TSR_MUST_CHECK;

/* The same for a target text, as a model is trained to write it. Errors also: TSR_ERR_ARGUMENT (a target language is
 * needed, and none was chosen). */
TSR_API tsr_status tsr_tokenizer_encode_target(const tsr_tokenizer *tokenizer, const char *text, size_t size,
                                               int32_t **ids, int32_t *n_ids) TSR_MUST_CHECK;

/* The text of target ids, valid UTF-8; special tokens are left out, of Whisper also timestamps and a prompt. *text is
 * allocated and NUL-terminated; the caller frees it with tsr_free. Errors: TSR_ERR_ARGUMENT (an id outside the
 * vocabulary). */
TSR_API tsr_status tsr_tokenizer_decode(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids,
                                        char **text) TSR_MUST_CHECK;

/* The same for ids of either side, TSR_SIDE_*. */
TSR_API tsr_status tsr_tokenizer_decode_side(const tsr_tokenizer *tokenizer, int32_t side, const int32_t *ids,
                                             int32_t n_ids, char **text) TSR_MUST_CHECK;

/* The token of an id as the vocabulary spells it; "" for an id outside the vocabulary or without a token. side:
 * TSR_SIDE_*. */
TSR_API const char *tsr_tokenizer_token(const tsr_tokenizer *tokenizer, int32_t side, int32_t id);

/* What to do with a source text that has more tokens than the model takes. */
enum {
  TSR_LONG_CUT = 0,   /* the first tokens are translated */
  TSR_LONG_SPLIT = 1, /* it is split after sentences, else clauses, else words, else characters */
  TSR_LONG_ERROR = 2  /* it is refused */
};

/* A source text as a model takes it. */
typedef struct tsr_source {
  int32_t n_tokens; /* of the whole text, special tokens included; with has_more: of what was read of it */
  int32_t n_parts;  /* 1; more if the text was split; 0: there is nothing to translate */
  int32_t **ids;    /* [n_parts] token ids, special tokens included */
  int32_t *n_ids;   /* [n_parts] */
  int32_t has_more; /* 1: the text is far too long, and only its beginning was tokenized as a whole */
  int32_t reserved;
} tsr_source;

/* The ids of a source text in parts of at most `most` tokens, special tokens included. If the text is only white space,
 * or the tokenizer gives no tokens for it, n_parts is 0. If the text begins with the token of a target language
 * (>>fra<<), every part does. The translations of the parts, joined by blanks, are the text's translation. *source is
 * the caller's until tsr_source_finish; after an error it is empty. Errors: TSR_ERR_ARGUMENT (TSR_LONG_ERROR: with the
 * number of tokens), those of tsr_tokenizer_encode. */
TSR_API tsr_status tsr_source_prepare_sized(const tsr_tokenizer *tokenizer, const char *text, size_t text_size,
                                            int32_t most, int32_t long_input, tsr_source *source,
                                            size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_source_prepare(const tsr_tokenizer *tokenizer, const char *text,
                                                           size_t text_size, int32_t most, int32_t long_input,
                                                           tsr_source *source)
{
  return tsr_source_prepare_sized(tokenizer, text, text_size, most, long_input, source, sizeof *source);
}
TSR_API void tsr_source_finish(tsr_source *source); /* takes an empty one */

/* Frees what the library allocated for the caller; takes NULL. */
TSR_API void tsr_free(void *memory);

/* Copies a text to `clean`, which has room for 3 * size bytes, and replaces what is not UTF-8 by U+FFFD, as all of the
 * library does (one for each maximal subpart, as the Unicode standard recommends). Returns the bytes written. Any
 * thread. */
TSR_API size_t tsr_utf8_clean(const char *text, size_t size, char *clean);

#ifdef __cplusplus
}
#endif
#endif
