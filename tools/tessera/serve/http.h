/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP by libmicrohttpd: one thread serves all connections. A request that waits for its answer is suspended and
 * holds no thread; neither does a connection that is idle or slow.
 */
#ifndef TESSERA_SERVE_HTTP_H
#define TESSERA_SERVE_HTTP_H

#include <stddef.h>
#include <stdint.h>

typedef struct http_server http_server;

enum { HTTP_ADDRESS_ROOM = 64, HTTP_MOST_HEADERS = 8, HTTP_STREAM_FULL = 1 << 16, HTTP_DROPPED = 1 << 16 };

/* A request. It lives until its answer is sent and nobody holds it. */
typedef struct http_request {
  const char *method; /* "GET"; these live until the answer is given */
  const char *path;   /* decoded, without the query string */
  char *query;        /* as it came; NULL: none */
  char *body;
  size_t body_size;
  char address[HTTP_ADDRESS_ROOM]; /* of the client's end of the connection, numeric */
  double start;                    /* seconds of a steady clock: when the request's line had come */
  void *user;                      /* of who handles it */
} http_request;

typedef struct http_handlers {
  /* A request's headers are here. Returns the most bytes that its body may have; or answers (http_answer), and the body
   * is not kept: returns how large one may be that is read all the same, HTTP_DROPPED at least. Behind a larger one the
   * connection ends. */
  size_t (*begin)(void *user, http_request *request);
  /* Bytes of the body as they come. Returns 1 if they are taken; 0: they go to request->body. Or answers, like begin,
   * and what follows is not read. */
  int (*take)(void *user, http_request *request, const char *bytes, size_t size);
  /* The body is larger than that: answers, like begin. */
  void (*large)(void *user, http_request *request);
  /* The request is here. Answers, or calls http_suspend and answers later, from any thread. */
  void (*handle)(void *user, http_request *request);
  /* The client has left a request that was suspended or that receives a stream; it is answered all the same. From any
   * thread, once at most. */
  void (*gone)(void *user, http_request *request);
  /* The answer is sent or the connection is broken, and nobody holds the request: frees request->user. `status`: of the
   * answer, 0 if there was none. */
  void (*done)(void *user, http_request *request, int status);
  void *user;
} http_handlers;

typedef struct http_settings {
  const char *listen;         /* "127.0.0.1:5000", "[::1]:5000", "0.0.0.0:0": port 0 takes a free one */
  int32_t connections;        /* at most */
  int32_t per_address;        /* connections of one address at most; 0: any number */
  int32_t header_size;        /* bytes of a request's line and headers */
  const char *const *headers; /* of every answer: name, value, .., NULL */
  double request_seconds;     /* for a request, from its line to the end of its body; of a body that is taken as it
                               * comes, for each MiB */
  double idle_seconds;        /* for a connection without a request; until its first byte, too */
} http_settings;

/* Listens and serves. *server is the caller's until http_stop and http_destroy. Returns an exit code, after it printed
 * the reason. */
int http_start(const http_settings *settings, const http_handlers *handlers, http_server **server);

/* Where it listens: "127.0.0.1:40000"; is_local: 1 if only this machine can reach it. */
const char *http_listens(const http_server *server, int *is_local);

/* Takes no new connections, and waits until all have ended: those without a request at once, the others when their
 * answer is sent. handlers.begin has refused all that comes meanwhile. Returns 0 if `gives_up` returned 1 first. */
int http_drain(http_server *server, int (*gives_up)(void *user), void *user);

/* Requests whose headers have come and whose answers are not sent. */
int64_t http_active(http_server *server);
int64_t http_connections(http_server *server);
/* Bytes of streams that wait until their clients read them. */
int64_t http_stream_bytes(http_server *server);

/* Ends all connections; no request is active, or its answer comes by itself. Takes NULL. */
void http_stop(http_server *server);
/* Behind http_stop, when every request has been released: who answered one lets go of it after its client has the
 * answer. Takes NULL. */
void http_destroy(http_server *server);

/* A header of the request by its name, or NULL. Until the answer is given. */
const char *http_header(const http_request *request, const char *name);

/* The request is answered later. Only from handlers.handle, once, before anything that may answer. */
void http_suspend(http_request *request);

/* A header of the answer, before it is given. Name and value are copied. */
void http_answer_header(http_request *request, const char *name, const char *value);

/* The answer: `body` was allocated with malloc and is taken over; NULL with a failed allocation, which becomes an
 * answer 500. Once. */
void http_answer(http_request *request, int status, const char *content_type, char *body, size_t size);

/* The same for bytes that live for ever. */
void http_answer_static(http_request *request, int status, const char *content_type, const char *body, size_t size);

/* An answer in pieces: begin instead of http_answer, each write from any thread, end once. After a failed allocation or
 * when the client has left, writes are lost. */
void http_stream_begin(http_request *request, int status, const char *content_type);
/* 1 if the client lags behind so far that what can wait should: HTTP_STREAM_FULL bytes have not been sent. */
int http_stream_is_full(http_request *request);
void http_stream_write(http_request *request, const char *bytes, size_t size);
void http_stream_end(http_request *request);

/* A thread that will touch the request holds it. */
void http_hold(http_request *request);
void http_release(http_request *request);

/* 1 if the client has left. */
int http_is_gone(http_request *request);

#endif
