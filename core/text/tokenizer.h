/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer from inside. A kind reads a folder's files and fills the struct; encoding and decoding are the same for
 * all: tokens written in the text stand for themselves, a segmenter cuts what lies between, a vocabulary numbers the
 * pieces, and the ids that the model wants before and after a text are put around.
 *
 * A new kind is a row in kinds.c, a file with its `open`, and nothing else.
 */
#ifndef TESSERA_CORE_TOKENIZER_H
#define TESSERA_CORE_TOKENIZER_H

#include "core/checkpoint/checkpoint.h"
#include "core/text/added_tokens.h"
#include "core/text/segmenter.h"
#include "core/text/vocabulary.h"
#include "tessera/text.h"

enum { TSR_SIDES = 2 }; /* TSR_SIDE_* */

enum { TSR_EOS = 0, TSR_UNK = 1, TSR_PAD = 2, TSR_BOS = 3, TSR_MASK = 4, TSR_SPECIALS = 5 };

/* Ids around a text. */
enum { TSR_FRAME_MOST = 8 };
typedef struct tsr_frame {
  int32_t before[TSR_FRAME_MOST];
  int32_t n_before;
  int32_t after[TSR_FRAME_MOST];
  int32_t n_after;
} tsr_frame;

typedef struct tsr_tokenizer_side {
  tsr_segmenter segmenter;
  tsr_vocabulary *vocabulary;
  tsr_added_tokens *added;
  int32_t special[TSR_SPECIALS]; /* ids; -1: none. There is always an unk */
  tsr_frame frame;
} tsr_tokenizer_side;

/* Where a language's token goes. */
enum {
  TSR_LANGUAGE_NONE = 0,
  TSR_LANGUAGE_BEFORE = 1, /* each side's own: LANG X </s>; the search is to force the target's */
  TSR_LANGUAGE_AFTER = 2,  /* X </s> LANG; forced, likewise (NLLB with legacy_behaviour) */
  TSR_LANGUAGE_START = 3,  /* X </s> LANG; the decoder starts with the target's (mBART of 25 languages) */
  TSR_LANGUAGE_SOURCE = 4, /* the target's before the source text: LANG X </s> (multilingual Marian models) */
  TSR_LANGUAGE_FIXED = 5,  /* nowhere: there is one source and one target language (packages of Argos) */
  TSR_LANGUAGE_PREFIX = 6  /* each side's own within Whisper's prefix */
};

enum {
  TSR_BLANK_NEVER = 0,
  TSR_BLANK_FIRST = 1,
  TSR_BLANK_EACH = 2
}; /* the text; also each text behind an added token */

typedef struct tsr_language {
  const char *code; /* "fra_Latn" */
  const char *token;
  int32_t id;
} tsr_language;

struct tsr_tokenizer {
  const struct tsr_tokenizer_kind *kind;
  tsr_arena arena;                    /* texts */
  tsr_tokenizer_side side[TSR_SIDES]; /* what both share is the target's copy of the source's pointers */
  char *special[TSR_SPECIALS];        /* as the vocabularies spell them; NULL: there is none */
  int32_t place;                      /* TSR_LANGUAGE_* */
  tsr_language *languages;            /* [n_languages] in the arena */
  int32_t n_languages;
  int32_t language[TSR_SIDES]; /* chosen; -1: none */
  int32_t keep_blanks;         /* decoded text keeps the white space at its ends */
  int32_t clean_up;            /* blanks before punctuation are dropped from decoded text */
  int32_t prefix_blank;        /* TSR_BLANK_*: byte-level BPE puts a blank before what begins without one */
  int32_t splits_white;        /* all white space is a blank */
  int32_t unk_each;            /* of a run of characters without a token, each is one <unk> */
  tsr_segmenter plain;         /* T5, not legacy: for text that does not begin with a blank */
  struct tsr_whisper *whisper; /* in the arena; NULL: of another kind */
};

/* What an `open` has to work with. */
typedef struct tsr_tokenizer_files {
  const char *folder;
  const tsr_transformer_config *config; /* the model's; NULL: there is none, vocabularies are as large as their files */
  tsr_config options;                   /* tokenizer_config.json; empty where there is none */
  json_t *specials;                     /* special_tokens_map.json, or NULL */
  tsr_added_tokens additional;          /* the additional special tokens of both files; ids and flags mean nothing */
  json_t *fast;                         /* tokenizer.json, once tsr_files_fast was called */
} tsr_tokenizer_files;

/* What is plain may begin the text, and end it. */
enum { TSR_PLAIN_FIRST = 1, TSR_PLAIN_LAST = 2 };

/* A text that is being encoded. */
typedef struct tsr_encoding {
  const tsr_tokenizer *tokenizer;
  int32_t side;
  int32_t *ids;
  int32_t count;
  int32_t room;
} tsr_encoding;

typedef struct tsr_tokenizer_kind {
  const char *name;
  const char *classes[6];             /* values of tokenizer_class, without "Fast" */
  const char *families[4];            /* values of model_type whose tokenizer this is where no class is told */
  const char *specials[TSR_SPECIALS]; /* TSR_EOS ...: as they are spelled where tokenizer_config.json is silent */
  const char *files[2];               /* it opens from; without any of them, from tokenizer.json if that is there */
  /* Fills the tokenizer, all but `kind` and `special`; what it leaves after an error is closed. */
  tsr_status (*open)(const struct tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer);
  /* What then follows, whatever it was opened from: its languages. NULL: it has none. */
  tsr_status (*open_languages)(const struct tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                               tsr_tokenizer *tokenizer);
  /* Encodes text without added tokens; NULL: the segmenter's pieces. where: TSR_PLAIN_*. */
  tsr_status (*encode_plain)(tsr_encoding *to, const char *text, size_t size, int32_t where);
  const void *data;         /* the open's own */
  int32_t eos_once;         /* a text that ends with </s> gets no second one */
  int32_t mask_strips;      /* <mask> takes the blank before it */
  int32_t empty_is_default; /* a special token that the folder spells "" is spelled as above */
} tsr_tokenizer_kind;

/* The kind of that name, or NULL. */
const tsr_tokenizer_kind *tsr_tokenizer_kind_find(const char *name);

/* Opens a folder's tokenizer. kind: NULL for what the files say. config: see tsr_tokenizer_files. */
tsr_status tsr_tokenizer_open_kind(const char *folder, const tsr_tokenizer_kind *kind,
                                   const tsr_transformer_config *config, tsr_tokenizer **tokenizer) TSR_MUST_CHECK;

/* tsr_tokenizer_encode for texts of either side. */
tsr_status tsr_tokenizer_encode_side(const tsr_tokenizer *tokenizer, int32_t side, const char *text, size_t size,
                                     int32_t **ids, int32_t *n_ids) TSR_MUST_CHECK;

/* The same without the ids around a text. */
tsr_status tsr_tokenizer_encode_bare(const tsr_tokenizer *tokenizer, int32_t side, const char *text, size_t size,
                                     int32_t **ids, int32_t *n_ids) TSR_MUST_CHECK;

/* Leaves out the white space at both ends of a text. */
void tsr_strip(const char **text, size_t *size);

/* tsr_tokenizer_decode_side with other pieces in the place of some tokens. replaced [n_ids]: NULL for a token that
 * stands for itself; or NULL: all do. */
tsr_status tsr_tokenizer_decode_replaced(const tsr_tokenizer *tokenizer, int32_t side, const int32_t *ids,
                                         const char *const *replaced, int32_t n_ids, char **text) TSR_MUST_CHECK;

/* 1 if the token of an id is no text, and is left out of decoded text. */
int32_t tsr_token_is_special(const tsr_tokenizer *tokenizer, int32_t side, int32_t id);

/* ------------------------------------------------------------------------------------------------------------------
 * For encode_plain
 */
tsr_status tsr_encoding_append(tsr_encoding *to, int32_t id) TSR_MUST_CHECK;

/* Appends a token's id, <unk> for one that the vocabulary lacks; a tsr_piece_fn. */
tsr_status tsr_encoding_append_token(void *encoding, const char *token, size_t size) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * For open
 */
/* 1 if the folder has a file of that name. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_files_has(const tsr_tokenizer_files *files, const char *name, int *has) TSR_MUST_CHECK;

/* Reads tokenizer.json into files->fast; NULL there if the folder has none. */
tsr_status tsr_files_fast(tsr_tokenizer_files *files) TSR_MUST_CHECK;

/* An empty vocabulary for both sides, named after the file, bounded by the larger of the model's. */
tsr_status tsr_files_vocabulary(const tsr_tokenizer_files *files, const char *name,
                                tsr_vocabulary **vocabulary) TSR_MUST_CHECK;

/* Adds the tokens of a JSON file; *size is how many they are. */
tsr_status tsr_files_add_vocabulary(const tsr_tokenizer_files *files, const char *name, tsr_vocabulary *vocabulary,
                                    int32_t *size) TSR_MUST_CHECK;

/* The SentencePiece model of a file in the folder. extra: bytes of a further message that is merged into it. */
tsr_status tsr_files_sentencepiece(const tsr_tokenizer_files *files, const char *name, const void *extra,
                                   size_t extra_size, tsr_segmenter *segmenter) TSR_MUST_CHECK;

/* What the folder says of added tokens (added_tokens_decoder of tokenizer_config.json, added_tokens of tokenizer.json,
 * added_tokens.json), put into both `vocabulary` and `added`. A token with another id in the vocabulary is an error.
 */
tsr_status tsr_files_added_tokens(tsr_tokenizer_files *files, tsr_vocabulary *vocabulary,
                                  tsr_added_tokens *added) TSR_MUST_CHECK;

/* Reads a JSON object of the folder; *root stays as it is where there is no such file. */
tsr_status tsr_files_json(const tsr_tokenizer_files *files, const char *name, json_t **root) TSR_MUST_CHECK;

/* What tokenizer_config.json, else special_tokens_map.json, has for a key such as "eos_token"; *text stays as it is
 * where both are silent, else it lives as long as `files`. "" is an error, or silence if empty_is_silent. */
tsr_status tsr_files_special(const tsr_tokenizer_files *files, const char *key, int empty_is_silent,
                             const char **text) TSR_MUST_CHECK;

/* Fills files->additional, which is to be finished in any case. */
tsr_status tsr_files_list_additional(tsr_tokenizer_files *files) TSR_MUST_CHECK;

/* 1 if the folder lists the token as a special one (additional_special_tokens, extra_special_tokens). */
int tsr_files_is_special(const tsr_tokenizer_files *files, const char *token);

/* Makes an empty list of added tokens. */
tsr_status tsr_added_tokens_create(tsr_added_tokens **added) TSR_MUST_CHECK;

/* One segmenter, one vocabulary, one list of added tokens for both sides: the target's copy of the source's. */
void tsr_tokenizer_share_sides(tsr_tokenizer *tokenizer);

/* Looks the special tokens, and the folder's additional ones, up in each side's vocabulary, makes added tokens of those
 * that are there, and puts </s> behind each text. The last step, but for languages. Errors: TSR_ERR_FORMAT (no unk; no
 * eos). */
tsr_status tsr_tokenizer_find_specials(const tsr_tokenizer_files *files, tsr_tokenizer *tokenizer) TSR_MUST_CHECK;

/* The index of a language, by its code, its token, or for Whisper its English name; `which` says of what it is in
 * messages: "source ", "". Errors: TSR_ERR_ARGUMENT. */
tsr_status tsr_tokenizer_find_language(const tsr_tokenizer *tokenizer, const char *which, const char *code,
                                       int32_t *index) TSR_MUST_CHECK;

/* Adds a language, whose token has to be in the vocabulary. */
tsr_status tsr_tokenizer_add_language(tsr_tokenizer *tokenizer, const char *code, const char *token,
                                      int32_t id) TSR_MUST_CHECK;

#endif
