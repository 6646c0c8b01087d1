/* SPDX-License-Identifier: Apache-2.0
 *
 * Model folders: which directions they have, and the translators that are open. A model is opened when it is first
 * asked for, by one of a few threads of this file; texts wait meanwhile.
 */
#ifndef TESSERA_SERVE_MODELS_H
#define TESSERA_SERVE_MODELS_H

#include <pthread.h>
#include <stdint.h>

#include <jansson.h>

#include "tessera/translator.h"
#include "tools/tessera/serve/languages.h"
#include "tools/tessera/serve/settings.h"

typedef struct models models;
typedef struct model model;
typedef struct model_set model_set;
typedef struct instance instance;

/* ---- directions -------------------------------------------------------------------------------------------------- */

typedef struct model_language {
  char code[LANGUAGE_ROOM]; /* that clients use */
  char *own;                /* the tokenizer's; NULL: the model needs none */
} model_language;

enum { ROUTE_HOPS = 2 };

typedef struct route {
  int32_t n_hops; /* 0: source and target are the same */
  struct {
    model *model;
    const char *source; /* the tokenizer's codes, or NULL */
    const char *target;
  } hops[ROUTE_HOPS];
} route;

/* Starts the threads. Loads no model. NULL: memory ran out. */
models *models_create(tsr_runtime *runtime);

/* Looks through the folder for models, and takes what it finds for the set that requests get from now on; what was
 * there and has not changed stays open. Returns an exit code, after it told on stderr what is missing or bad: without
 * any model it goes on. */
int models_read(models *m, const serve_config *config);

/* Ends the threads and closes all translators. No segment is in hand. Takes NULL. Returns 0, after it told so, if a
 * driver hangs: then nothing is freed, and the process ends without waiting for its threads. */
int models_destroy(models *m);

/* The set of now; it and its models live until models_release. */
model_set *models_hold(models *m);
void models_release(models *m, model_set *set);

int32_t model_set_n_languages(const model_set *set);
const char *model_set_language(const model_set *set, int32_t index);

/* 1 if a model reads or writes this language. */
int model_set_knows(const model_set *set, const char *code);

/* How to get from one language to another: directly, else through a third, English first. Returns 0 if there is no
 * way. */
int model_set_route(const model_set *set, const char *source, const char *target, route *found);

/* The models of speech, counted from 0; NULL: there are no more. */
model *model_set_speech(const model_set *set, int32_t index);

/* GET /languages, as text; lives as long as the set. */
const char *model_set_languages_json(const model_set *set, size_t *size);

/* What is open and what failed, for the page and /metrics: an array of objects without paths. */
json_t *models_describe(models *m);

/* Prints what would be served. Returns the number of models. */
int32_t model_set_print(const model_set *set);

/* ---- texts ------------------------------------------------------------------------------------------------------- */

enum {
  SEGMENT_DONE,      /* `answer` has a translation */
  SEGMENT_CANCELLED, /* as asked */
  SEGMENT_LATE,      /* its deadline has passed */
  SEGMENT_REFUSED,   /* the model refuses it, or cannot be opened */
  SEGMENT_FAILED     /* memory, or a mistake */
};

/* A line of text on its way through a model. The caller's, at rest until `done`. */
typedef struct segment segment;
struct segment {
  /* The caller fills these. */
  model *model;
  const char *source, *target; /* languages, or NULL */
  const char *text;
  size_t size;
  const char *prefix; /* or NULL */
  int32_t n_best;
  int32_t next_words; /* alternatives of the word behind the prefix; 0: none */
  int32_t alignment;  /* 1: with spans and alignment */
  double deadline;    /* of the steady clock */
  tsr_translation_piece_fn piece;
  /* Once, from any thread, also from within models_submit. answer: only with SEGMENT_DONE, during the call. */
  void (*done)(segment *s, int outcome, const tsr_translation *answer);
  /* 1 if it need not be translated any more. */
  int (*is_cancelled)(segment *s);
  /* Keeps what the segment belongs to alive, behind `done`, too. */
  void (*hold)(segment *s);
  void (*release)(segment *s);
  void *user;
  pthread_mutex_t *lock; /* the caller's, for the next three */
  instance *by;
  uint64_t ticket;
  int32_t attempt;
  /* It begins: what comes of it from now on, comes from its beginning. */
  void (*begins)(segment *s);
  /* Of models.c. */
  segment *next;
  models *models;
  int32_t tries;
};

/* Translates the segment, now or when its model is open. */
void models_submit(models *m, segment *s);

/* Gives up a text that is being translated; one that waits for its model is asked by is_cancelled. `done` follows. */
void segment_cancel(segment *s);

/* Sums over all translators, those that were closed, too. */
typedef struct models_statistics {
  int32_t n_models;
  int32_t n_open;
  int64_t open_bytes;
  int64_t opened;
  int64_t failures; /* to open one, and devices that failed */
  int64_t evicted;
  tsr_translator_statistics translators;
} models_statistics;
void models_measure(models *m, models_statistics *statistics);

/* The devices of open translators, and those that were asked for and failed; not older than a few seconds. */
typedef struct device_list device_list;
void models_devices(models *m, device_list *devices);

#endif
