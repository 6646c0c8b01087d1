/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the server share: the service, a call of it, answers.
 */
#ifndef TESSERA_SERVE_SERVICE_H
#define TESSERA_SERVE_SERVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include <jansson.h>

#include "tools/tessera/serve/http.h"
#include "tools/tessera/serve/keys.h"
#include "tools/tessera/serve/languages.h"
#include "tools/tessera/serve/limits.h"
#include "tools/tessera/serve/metrics.h"
#include "tools/tessera/serve/models.h"
#include "tools/tessera/serve/parameters.h"
#include "tools/tessera/serve/pool.h"
#include "tools/tessera/serve/settings.h"
#include "tools/tessera/serve/work.h"

typedef struct call call;

enum {
  ENDPOINT_FORM = 1,    /* takes parameters */
  ENDPOINT_KEY = 2,     /* asks for a key, if keys are required, and counts for limits */
  ENDPOINT_FILE = 4,    /* its body may be as large as a document */
  ENDPOINT_DEEPL = 8,   /* of DeepL's API */
  ENDPOINT_PREFIX = 16, /* the path goes on behind it */
  ENDPOINT_OPENAI = 32, /* of OpenAI's API */
  ENDPOINT_SOUND = 64   /* its body is a form with a sound, which is taken as it comes */
};

typedef struct endpoint {
  const char *method;
  const char *path;
  void (*handle)(call *c);
  int32_t flags;
} endpoint;

/* All of them; the last is empty. */
extern const endpoint endpoints[];

/* Settings and keys as they were read; what a call began with stays until the server ends. */
typedef struct state {
  struct state *before;
  serve_config *config;
  api_keys keys;
} state;

typedef struct service {
  http_server *http;
  models *models;
  limits *limits;
  pool *pool;        /* for documents, whose translation holds a thread */
  pool *sound_pool;  /* opens sounds, which may take a moment */
  atomic_int sounds; /* in hand: from the beginning of their upload to the end of their answer */
  metrics metrics;
  pthread_mutex_t lock; /* of the next two */
  state *state;
  struct stored_file *files;
  pthread_mutex_t suggesting;
  atomic_int is_draining;
  double start;
} service;

/* A request on its way. */
struct call {
  service *service;
  http_request *http;
  const endpoint *endpoint;
  const serve_settings *settings;
  const state *state;
  parameters parameters;
  pthread_mutex_t lock; /* of work */
  work *work;
  void *own;             /* of the endpoint; freed with free */
  struct speech *speech; /* of a sound; of api_speech.c */
  int32_t is_deepl;      /* errors are {"message": ..} */
  int32_t is_openai;     /* they are {"error": {"message": ..}} */
  int32_t is_stream;     /* of OpenAI's API: the answer has begun, and an error is an event of it */
  int32_t is_list;
  int32_t is_detected;
  char source[LANGUAGE_ROOM];
  char target[LANGUAGE_ROOM];
  double confidence;
  int64_t characters;
};

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Releases `root`; NULL is a failed allocation. */
void reply_json(call *c, int status, json_t *root);

/* {"error": ..} */
void reply_error(call *c, int status, const char *format, ...) TSR_PRINTF(3, 4);

/* The same of OpenAI's API: param names what of the request is wrong, code says how; NULL: nothing does. */
void reply_openai(call *c, int status, const char *param, const char *code, const char *format, ...) TSR_PRINTF(5, 6);

/* An event of a stream; of no name: NULL. Releases `data`. */
void send_event(call *c, const char *event, json_t *data);

/* A failed allocation: 500. */
void reply_no_memory(call *c);

/* The queue is full, or the server ends: 503 with Retry-After. */
void reply_busy(call *c);

/* What a work that was not done is answered with. */
void reply_outcome(call *c, int outcome);

/* router.c: whether the client's key, or its address, may go on with what c->parameters ask for. Returns 0 after it
 * answered. */
int check_access(call *c);

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Whole characters of UTF-8. */
int64_t count_characters(const char *text, size_t size);

/* Every value of a parameter, in order; *n of them; the arrays are allocated, the texts borrowed. Returns 0 if memory
 * ran out. */
int list_texts(const parameters *list, const char *name, const char ***texts, size_t **sizes, int32_t *n);

/* Language of a text among those that are served; confidence 0 and English where none is found. */
void choose_language(const model_set *set, const char *text, size_t size, char code[LANGUAGE_ROOM], double *confidence);

/* How a call gets from c->source (or, with "auto", what its texts are in) to c->target. Returns 0 after it answered: a
 * language is not supported, or not as a target of the other. */
int choose_route(call *c, const model_set *set, const char *source, const char *target, const char *const *texts,
                 const size_t *sizes, int32_t n, route *way);

/* The deadline of a call. */
double call_deadline(const call *c);

/* Makes a work of the call, for which the queue has room; work_start comes next, after http_suspend. NULL: it answered
 * that there is no memory or no room. The set is taken over. */
work *prepare_work(call *c, model_set *set, const route *way, const char *const *texts, const size_t *sizes, int32_t n,
                   work_options *options);

/* The same, and starts it; `done` answers. */
void start_work(call *c, model_set *set, const route *way, const char *const *texts, const size_t *sizes, int32_t n,
                work_options *options);

/* Finds room in the queue for a work. Returns 0 after it answered: the queue is full, or too small for the work. */
int reserve_work(call *c, work *w);

/* The work of a call, which is cancelled when the client leaves. */
void set_work(call *c, work *w);
void cancel_work(call *c);

/* ---- endpoints --------------------------------------------------------------------------------------------------- */

void api_translate(call *c);
void api_detect(call *c);
void api_languages(call *c);
void api_health(call *c);
void api_frontend_settings(call *c);
void api_suggest(call *c);
void api_translate_file(call *c);
void api_download_file(call *c);
void api_stream(call *c);
void api_deepl_translate(call *c);
void api_deepl_languages(call *c);
void api_deepl_usage(call *c);
void api_metrics(call *c);
void api_status(call *c);
void api_spec(call *c);
void api_embedded(call *c);

void api_audio(call *c);
void api_openai_models(call *c);
void api_openai_model(call *c);

/* A request that brings a sound begins. Returns the most bytes of its body; or it answered. */
size_t speech_begin(call *c);
int speech_take(call *c, const char *bytes, size_t size);
/* The client has left. */
void speech_cancel(call *c);
void speech_finish(call *c);

/* Files that clients fetch later: forgets those that are older than an hour. */
void files_sweep(service *s);
void files_finish(service *s);

#endif
