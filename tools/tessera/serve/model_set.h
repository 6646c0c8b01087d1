/* SPDX-License-Identifier: Apache-2.0
 *
 * What model_set.c and models.c share.
 */
#ifndef TESSERA_SERVE_MODEL_SET_H
#define TESSERA_SERVE_MODEL_SET_H

#include <sys/types.h>

#include "tools/tessera/serve/models.h"

/* A model folder. Its languages are fixed; what is open of it belongs to models.c, under its lock. */
struct model {
  char *folder;
  char *name; /* below --models: all that clients are told */
  uint64_t stamp;
  int64_t bytes;   /* of its weights */
  int64_t created; /* seconds since 1970: when its newest file was written */
  int32_t hears;   /* 1: a model of speech, which has no directions */
  model_language *sources, *targets;
  int32_t n_sources, n_targets;
  int32_t references; /* of sets */
  model *after;       /* all that are alive */
  instance *open;
  segment *first, *last; /* that wait until it is open */
  double waits_since;    /* when the first of them came */
  int is_opening;
  int is_avoiding; /* 1: its devices failed: until retry_at it is opened on others */
  char lost[64];   /* the device that auto had taken and that failed; "": none did, or it was asked for by name */
  int is_given_up; /* 1: as `problem` says; asked again at retry_at */
  double retry_at;
  double pause;
  double lost_at; /* when its devices failed last */
  double used;
  char *problem;
};

struct model_set {
  int32_t references;
  model **models;
  int32_t n_models;
  char (*codes)[LANGUAGE_ROOM]; /* sorted */
  int32_t n_codes;
  int16_t *best; /* [n_codes][n_codes] the model from .. to; -1: none */
  char *json;
  size_t json_size;
};

/* Looks through settings->models. `find` gives the model of a folder that is open already and has not changed, or NULL.
 * Returns an exit code; a folder that is bad is told on stderr and left out. */
typedef model *(*model_find)(void *user, const char *folder, uint64_t stamp);
int model_set_read(const serve_settings *settings, model_find find, void *user, model_set **set);
void model_set_free(model_set *set); /* not its models */
void model_free(model *m);

#endif
