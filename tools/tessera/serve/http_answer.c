/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/http_private.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* With the lock, which the end of the request waits for. The connection of a request that was suspended goes on. The
 * thread is woken: libmicrohttpd does so for its own threads alone. */
static void go_on(exchange *x)
{
  MHD_resume_connection(x->connection);
  http_wake(x->server);
}

static ssize_t read_stream(void *user, uint64_t position, char *bytes, size_t most)
{
  exchange *x = user;
  stream *s = &x->stream;
  ssize_t got = 0;
  (void)position;
  pthread_mutex_lock(&x->lock);
  if (s->size > 0) {
    got = (ssize_t)(s->size < most ? s->size : most);
    memcpy(bytes, s->bytes, (size_t)got);
    s->size -= (size_t)got;
    atomic_fetch_sub(&x->server->stream_bytes, got);
    memmove(s->bytes, s->bytes + got, s->size);
  } else if (s->is_ended) {
    got = MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    s->waits = 1;
    MHD_suspend_connection(x->connection);
  }
  pthread_mutex_unlock(&x->lock);
  return got;
}

/* With the lock. What was written, or the end of the stream, is there to be read. */
static void wake_stream(exchange *x)
{
  if (x->stream.waits && x->connection) {
    x->stream.waits = 0;
    go_on(x);
  }
}

enum MHD_Result http_queue(exchange *x)
{
  static const char no_memory[] = "{\"error\": \"The server is out of memory\"}";
  if (!x->response) {
    x->status = 500;
    x->content_type = "application/json";
    x->response =
        MHD_create_response_from_buffer(sizeof no_memory - 1, (void *)(uintptr_t)no_memory, MHD_RESPMEM_PERSISTENT);
  }
  if (!x->response) {
    return MHD_NO;
  }
  if (x->content_type) {
    MHD_add_response_header(x->response, "Content-Type", x->content_type);
  }
  const char *const *all = x->server->settings.headers;
  for (int i = 0; all && all[i]; i += 2) {
    MHD_add_response_header(x->response, all[i], all[i + 1]);
  }
  for (int i = 0; i < x->n_headers; i++) {
    MHD_add_response_header(x->response, x->headers[i].name, x->headers[i].value);
  }
  if (atomic_load(&x->server->is_draining)) {
    MHD_add_response_header(x->response, "Connection", "close");
  }
  enum MHD_Result result = MHD_queue_response(x->connection, (unsigned)x->status, x->response);
  MHD_destroy_response(x->response);
  x->response = NULL;
  x->state = QUEUED;
  return result;
}

void http_stop_watching(exchange *x)
{
  if (x->watched) {
    watch_end(x->server->watch, x->watched);
    x->watched = 0;
  }
}

static void answer(http_request *request, int status, const char *content_type, struct MHD_Response *response)
{
  exchange *x = http_exchange_of(request);
  pthread_mutex_lock(&x->lock);
  x->status = status;
  x->content_type = content_type;
  x->response = response;
  x->state = ANSWERED;
  if (!x->is_stream) { /* of a stream the client's end is watched on */
    http_stop_watching(x);
  }
  if (x->is_suspended) {
    atomic_fetch_sub(&x->server->n_suspended, 1);
    x->is_suspended = 0;
    if (x->connection) {
      go_on(x);
    }
  }
  pthread_mutex_unlock(&x->lock);
}

void http_answer(http_request *request, int status, const char *content_type, char *body, size_t size)
{
  struct MHD_Response *response = body ? MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE) : NULL;
  if (body && !response) {
    free(body);
  }
  answer(request, status, content_type, response);
}

void http_answer_static(http_request *request, int status, const char *content_type, const char *body, size_t size)
{
  answer(request, status, content_type,
         MHD_create_response_from_buffer(size, (void *)(uintptr_t)body, MHD_RESPMEM_PERSISTENT));
}

void http_answer_header(http_request *request, const char *name, const char *value)
{
  exchange *x = http_exchange_of(request);
  if (x->n_headers < HTTP_MOST_HEADERS) {
    char *names = strdup(name), *values = strdup(value);
    if (names && values) {
      x->headers[x->n_headers].name = names;
      x->headers[x->n_headers++].value = values;
    } else {
      free(names);
      free(values);
    }
  }
}

void http_stream_begin(http_request *request, int status, const char *content_type)
{
  exchange *x = http_exchange_of(request);
  enum { PIECE = 4096 };
  const union MHD_ConnectionInfo *info = NULL;
  pthread_mutex_lock(&x->lock);
  if (x->connection) { /* else the client has left, and nobody reads a stream */
    x->is_stream = 1;
    http_hold(request); /* the response's */
    info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  }
  /* What the client does not read waits here, where it is bounded, and not in the system. */
  int most = HTTP_STREAM_FULL;
  if (info) {
    setsockopt((int)info->connect_fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
  }
  pthread_mutex_unlock(&x->lock);
  struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE, read_stream, x, NULL);
  answer(request, status, content_type, response);
}

int http_stream_is_full(http_request *request)
{
  exchange *x = http_exchange_of(request);
  pthread_mutex_lock(&x->lock);
  int is_full = x->stream.size >= HTTP_STREAM_FULL;
  pthread_mutex_unlock(&x->lock);
  return is_full;
}

void http_stream_write(http_request *request, const char *bytes, size_t size)
{
  exchange *x = http_exchange_of(request);
  stream *s = &x->stream;
  pthread_mutex_lock(&x->lock);
  if (s->size + size > s->room) {
    size_t room = 2 * (s->size + size);
    char *grown = realloc(s->bytes, room);
    if (grown) {
      s->bytes = grown;
      s->room = room;
    }
  }
  if (s->size + size <= s->room && x->connection && size > 0) {
    memcpy(s->bytes + s->size, bytes, size);
    s->size += size;
    atomic_fetch_add(&x->server->stream_bytes, (long long)size);
    wake_stream(x);
  }
  pthread_mutex_unlock(&x->lock);
}

void http_stream_end(http_request *request)
{
  exchange *x = http_exchange_of(request);
  pthread_mutex_lock(&x->lock);
  http_stop_watching(x);
  x->stream.is_ended = 1;
  wake_stream(x);
  pthread_mutex_unlock(&x->lock);
}
