/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.json: what a folder of shards was begun with, so that what is done there goes on with the same, and the
 * shards' places. Functions that return int return exit codes.
 */
#ifndef TESSERA_TOOLS_CORPUS_MANIFEST_H
#define TESSERA_TOOLS_CORPUS_MANIFEST_H

#include "tools/tessera/common/json.h"
#include "tools/tessera/corpus/sentences.h"

/* What a run asks for; borrowed. */
typedef struct corpus_asked {
  const char *const *inputs; /* paths */
  int32_t n_inputs;
  const char *model;
  json_t *settings; /* options that the translations depend on: an object of texts and true */
  int32_t n_shards; /* 0: any */
  int32_t n_files;  /* that the shards are cut from */
} corpus_asked;

typedef struct corpus_manifest {
  corpus_shards shards;
  int64_t sentences; /* of the inputs */
  int32_t n_parts;   /* that they were divided into to find duplicates; 0: none were looked for */
} corpus_manifest;

/* Reads a manifest, if it is there (*found), and compares what it was begun with to what is asked for. Finish it also
 * after a failure. */
int corpus_manifest_read(const char *path, const corpus_asked *asked, corpus_manifest *manifest, int *found);

/* What a new one is begun with; read it before the inputs. *root is the caller's. */
int corpus_manifest_begin(const corpus_asked *asked, json_t **root);

/* The text of a manifest that was begun so, to be freed. Inputs or a model that changed since then are an error. */
int corpus_manifest_print(const corpus_asked *asked, json_t *root, const corpus_manifest *manifest, char **text);
void corpus_manifest_finish(corpus_manifest *manifest);

#endif
