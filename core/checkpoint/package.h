/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of CTranslate2 (model.bin, config.json, vocabularies), and Argos packages: such a folder beside a
 * SentencePiece model and metadata.json, as a folder or as the .argosmodel file that it came in.
 */
#ifndef TESSERA_CORE_PACKAGE_H
#define TESSERA_CORE_PACKAGE_H

#include "core/base/arena.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/file.h"

typedef struct tsr_package tsr_package;

/* 1 if what lies at `path` is one, and nothing else that the library reads. Its model.bin may be damaged, or
 * missing. */
int tsr_package_is(const char *path);

/* *package is to be closed after success. Errors: TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED,
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_package_open(const char *path, tsr_package **package) TSR_MUST_CHECK;
void tsr_package_close(tsr_package *package); /* takes NULL */

/* 1 for a package of Argos. */
int tsr_package_is_argos(const tsr_package *package);

/* 1 for one that is a file. */
int tsr_package_is_zip(const tsr_package *package);

/* Where a file lies: beside model.bin, or beside metadata.json. The same without metadata.json. */
enum { TSR_PACKAGE_MODEL = 0, TSR_PACKAGE_ROOT = 1 };

/* Reads a file, to be freed after success (tsr_file_free). *path: for messages; the caller's to free, set after an
 * error, too. Where there is none of that name, file->bytes is NULL. Errors: TSR_ERR_IO, TSR_ERR_FORMAT,
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_package_read(const tsr_package *package, int place, const char *name, char **path,
                            tsr_file *file) TSR_MUST_CHECK;

/* A JSON object that lies there; *json (tsr_config_finish) is zeroed where there is none. Errors: as above. */
tsr_status tsr_package_config(const tsr_package *package, int place, const char *name, tsr_config *json) TSR_MUST_CHECK;

/* What the folder says of its tokens: config.json, or with a model.bin of a version before 6 its variables. */
typedef struct tsr_package_tokens {
  char *unk; /* allocated, likewise the next; NULL: the default */
  char *bos;
  char *eos;
  char *decoder_start; /* NULL: the caller tells it, as the first token of what the output begins with */
  int32_t add_source_bos;
  int32_t add_source_eos;
  float epsilon; /* of the norms; 0: the default */
} tsr_package_tokens;

/* checkpoint: the package's; NULL: it is opened if need be. *tokens is to be finished after an error, too. Errors:
 * as above. */
tsr_status tsr_package_read_tokens(const tsr_package *package, const tsr_checkpoint *checkpoint,
                                   tsr_package_tokens *tokens) TSR_MUST_CHECK;
void tsr_package_tokens_finish(tsr_package_tokens *tokens); /* takes a zeroed one */

/* A vocabulary: the tokens in the order of their ids, the unknown one among them. */
typedef struct tsr_package_vocabulary {
  char *path; /* for messages */
  tsr_arena arena;
  const char **tokens; /* [n] of the arena */
  int32_t n;
  int32_t is_shared; /* 1: both sides have it */
} tsr_package_vocabulary;

/* side: 0 the source's, 1 the target's. *vocabulary is to be finished after an error, too. Errors: TSR_ERR_IO (there is
 * none), TSR_ERR_FORMAT. */
tsr_status tsr_package_read_vocabulary(const tsr_package *package, int32_t side, const char *unk,
                                       tsr_package_vocabulary *vocabulary) TSR_MUST_CHECK;
void tsr_package_vocabulary_finish(tsr_package_vocabulary *vocabulary); /* takes a zeroed one */

/* The id of a token, the first of several; -1: there is none. */
int32_t tsr_package_vocabulary_find(const tsr_package_vocabulary *vocabulary, const char *token);

/* Opens model.bin. Errors: those of tsr_checkpoint_open. */
tsr_status tsr_package_checkpoint(const tsr_package *package, tsr_checkpoint **checkpoint) TSR_MUST_CHECK;

#endif
