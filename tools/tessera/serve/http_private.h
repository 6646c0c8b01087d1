/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the HTTP server share: http.c starts and stops it, http_listen.c opens its socket,
 * http_connections.c keeps the list of connections, http_request.c receives requests, http_answer.c sends answers.
 */
#ifndef TESSERA_SERVE_HTTP_PRIVATE_H
#define TESSERA_SERVE_HTTP_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <microhttpd.h>

#include "tools/tessera/serve/http.h"
#include "tools/tessera/serve/watch.h"

enum { HTTP_BACKLOG = 4096 }; /* connections that the system keeps until they are accepted */

/* How the answer stands. */
enum { OPEN, ANSWERED, QUEUED };

typedef struct stream {
  char *bytes; /* that were written and not sent */
  size_t size;
  size_t room;
  int is_ended;
  int waits; /* 1: the connection is suspended until there is more */
} stream;

/* A request with what the connection needs. */
typedef struct exchange {
  http_request request; /* first */
  http_server *server;
  struct MHD_Connection *connection; /* until it is completed */
  struct connection *place;
  pthread_mutex_t lock;
  atomic_int holders;
  atomic_int is_gone;
  int state;
  int is_suspended;  /* the connection waits for the answer */
  int was_suspended; /* MHD asks again when it goes on */
  int has_begun;     /* handlers.begin was called */
  int is_refused;    /* answered before the body */
  int is_stream;
  int status;
  const char *content_type;
  struct MHD_Response *response; /* until it is queued */
  stream stream;
  struct {
    char *name;
    char *value;
  } headers[HTTP_MOST_HEADERS];
  int n_headers;
  size_t most_body;
  size_t came; /* bytes of the body so far */
  size_t room; /* of the body */
  uint64_t watched;
} exchange;

/* A connection, in the server's list. */
typedef struct connection {
  struct connection *before, *after;
  int socket;
  double since;   /* when what it does began */
  int is_reading; /* 1: a request comes; 0: it is idle, or waits for an answer or sends it (is_busy) */
  int is_busy;
  int n_idle; /* how often in a row the end of the server found it idle */
} connection;

struct http_server {
  struct MHD_Daemon *daemon;
  pthread_t thread; /* runs the daemon */
  int has_thread;
  int wake;             /* an eventfd: readable when that thread should look again, */
  atomic_int is_ending; /* or end */
  atomic_int is_woken;  /* 1: the eventfd is, or will be, readable */
  http_settings settings;
  http_handlers handlers;
  watch *watch;
  char listens[HTTP_ADDRESS_ROOM + 16];
  int is_local;
  pthread_mutex_t lock; /* of the list of connections */
  connection *connections;
  atomic_llong n_connections;
  atomic_llong n_accepted; /* connections from the start on */
  atomic_llong n_turns;    /* in which the thread that runs the daemon took what there was */
  atomic_llong n_active;
  atomic_llong n_suspended; /* requests that wait for their answers */
  atomic_llong stream_bytes;
  atomic_int is_draining;
  atomic_int is_closing;      /* 1: the thread that runs the daemon is to close the listener */
  atomic_int has_no_listener; /* 1: it is closed, and connections without a request end */
  double next_look;           /* for those; of the thread that runs the daemon */
  pthread_t reaper;
  pthread_cond_t stops;
  int is_stopping;
  int has_reaper;
};

static inline exchange *http_exchange_of(http_request *request)
{
  return (exchange *)(void *)request;
}

/* http.c: has the thread that runs the daemon look again. From any thread. */
void http_wake(http_server *server);

/* http_listen.c: opens the socket of settings.listen, and tells what it became. Returns an exit code, after it printed
 * the reason. */
int http_open_listener(http_server *server, int *listener);
/* Asks the system for as many open files as it allows; of fewer, *connections becomes less. */
void http_raise_limit(int32_t *connections);

/* http_connections.c: libmicrohttpd's calls when a connection begins and ends. */
void http_on_connection(void *user, struct MHD_Connection *mhd, void **context,
                        enum MHD_ConnectionNotificationCode what);
/* What the connection does from now on. Takes NULL. */
void http_mark(http_server *server, connection *c, int is_reading, int is_busy);
/* The thread that ends connections which take too long; of the server. */
void *http_reap(void *user);

/* http_request.c: makes the server's watch, which tells handlers.gone of clients that leave. Returns 0 if memory or
 * threads ran out. */
int http_create_watch(http_server *server);
/* Libmicrohttpd's calls of a request, in this order. */
void *http_on_uri(void *user, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_on_request(void *user, struct MHD_Connection *mhd, const char *path, const char *method,
                                const char *version, const char *bytes, size_t *size, void **context);
void http_on_completed(void *user, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode why);

/* http_answer.c: sends what was answered. */
enum MHD_Result http_queue(exchange *x);
/* With the lock, and before the connection can go on: its socket is open until then. */
void http_stop_watching(exchange *x);

#endif
