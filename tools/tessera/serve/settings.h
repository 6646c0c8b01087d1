/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server is asked to do, by its command line and by a file with the same names.
 */
#ifndef TESSERA_SERVE_SETTINGS_H
#define TESSERA_SERVE_SETTINGS_H

#include "tessera/tensor.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/search_options.h"

/* The rows of serve_options, those of the search counted as one. */
enum { N_SERVE_OPTIONS = 42 };

typedef struct serve_settings {
  const char *models;
  const char *listen;
  const char *config;
  tsr_names devices;
  int32_t split;        /* 1: each model is split over the devices */
  tsr_names directions; /* "FOLDER=en-fr" */
  search_settings search;
  tsr_dtype precision;
  int32_t batch;
  int32_t workers;
  int32_t max_source;
  int64_t memory;      /* MiB of weights; 0: no limit */
  int32_t queue;       /* lines of text in hand, at most */
  double timeout;      /* seconds for a request's translation */
  int64_t char_limit;  /* of a text; 0: none */
  int32_t batch_limit; /* texts of a request; 0: none */
  int32_t alternatives_limit;
  int32_t body_limit;          /* KiB of a request's body */
  int32_t file_limit;          /* MiB of a document */
  int32_t requests_per_minute; /* of a key or an address; 0: any number, likewise the next */
  int64_t characters_per_minute;
  const char *keys; /* a file of hashes */
  int32_t key_required;
  const char *suggestions; /* a file that they are added to */
  int32_t sound_limit;     /* MiB of an upload */
  double sound_seconds;    /* of a sound; 0: any number */
  double sound_timeout;    /* seconds, from the request's beginning */
  int32_t sound_queue;     /* sounds in hand, at most */
  int32_t sound_batch;     /* windows that are computed together */
  int32_t files;           /* 1: documents are translated */
  int32_t metrics;         /* 1: /metrics is for everybody */
  int32_t document_threads;
  int32_t connections;
  int32_t connections_per_address;
  int32_t header_limit; /* KiB */
  double request_seconds;
  double idle_seconds;
  int32_t proxies; /* before this server, that add to X-Forwarded-For */
  int check;       /* 1: only tell what would be served */
  int hash_key;
  int make_key;
  char is_given[N_SERVE_OPTIONS]; /* on the command line */
} serve_settings;

extern const tsr_option_table serve_options;

/* Settings with the texts that they point to. */
typedef struct serve_config {
  serve_settings settings;
  struct config_text *texts;
} serve_config;

/* The command line's settings, and what the file that they name says, which takes the place of defaults. *config is the
 * caller's until serve_config_finish. Returns an exit code, after it printed the reason. */
int serve_config_read(const serve_settings *given, serve_config **config);
void serve_config_finish(serve_config *config); /* takes NULL */

/* 1 if they have the same in all that an open model depends on. `a` may be NULL, which is like none. */
int serve_settings_open_alike(const serve_settings *a, const serve_settings *b);

#endif
