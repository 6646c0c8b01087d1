/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/http_private.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tools/tessera/serve/clock.h"

void http_hold(http_request *request)
{
  atomic_fetch_add(&http_exchange_of(request)->holders, 1);
}

void http_release(http_request *request)
{
  exchange *x = http_exchange_of(request);
  if (atomic_fetch_sub(&x->holders, 1) != 1) {
    return;
  }
  if (x->has_begun) {
    x->server->handlers.done(x->server->handlers.user, request, x->state == OPEN ? 0 : x->status);
  }
  for (int i = 0; i < x->n_headers; i++) {
    free(x->headers[i].name);
    free(x->headers[i].value);
  }
  if (x->response) {
    MHD_destroy_response(x->response);
  }
  atomic_fetch_sub(&x->server->stream_bytes, (long long)x->stream.size);
  free(x->stream.bytes);
  free(request->query);
  free(request->body);
  pthread_mutex_destroy(&x->lock);
  free(x);
}

int http_is_gone(http_request *request)
{
  return atomic_load(&http_exchange_of(request)->is_gone);
}

const char *http_header(const http_request *request, const char *name)
{
  exchange *x = http_exchange_of((http_request *)(uintptr_t)request);
  return x->connection ? MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name) : NULL;
}

static void on_watched(void *user)
{
  exchange *x = user;
  if (!atomic_exchange(&x->is_gone, 1)) {
    x->server->handlers.gone(x->server->handlers.user, &x->request);
  }
}

static void hold_watched(void *user)
{
  http_hold(&((exchange *)user)->request);
}

static void release_watched(void *user)
{
  http_release(&((exchange *)user)->request);
}

int http_create_watch(http_server *server)
{
  return watch_create(server->settings.connections, on_watched, hold_watched, release_watched, &server->watch);
}

void http_suspend(http_request *request)
{
  exchange *x = http_exchange_of(request);
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  x->is_suspended = x->was_suspended = 1;
  atomic_fetch_add(&x->server->n_suspended, 1);
  MHD_suspend_connection(x->connection);
  x->watched = info ? watch_begin(x->server->watch, (int)info->connect_fd, x) : 0;
}

/* Before anything else of a request: its line has come, with the query string, which is not decoded here. */
void *http_on_uri(void *user, const char *uri, struct MHD_Connection *mhd)
{
  http_server *server = user;
  exchange *x = calloc(1, sizeof *x);
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  connection *place = info ? info->socket_context : NULL;
  http_mark(server, place, 1, 0);
  if (!x) {
    return NULL;
  }
  const char *question = strchr(uri, '?');
  x->server = server;
  x->connection = mhd;
  x->place = place;
  x->request.start = clock_seconds();
  x->request.query = question ? strdup(question + 1) : NULL;
  pthread_mutex_init(&x->lock, NULL);
  atomic_init(&x->holders, 1);
  return x;
}

static void read_address(exchange *x)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  const struct sockaddr *address = info ? info->client_addr : NULL;
  socklen_t size = !address                        ? 0
                   : address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                   : sizeof(struct sockaddr_in6);
  if (!address || getnameinfo(address, size, x->request.address, sizeof x->request.address, NULL, 0, NI_NUMERICHOST)) {
    strcpy(x->request.address, "?");
  }
}

static int keep_body(exchange *x, const char *bytes, size_t size)
{
  http_request *r = &x->request;
  if (r->body_size + size > x->room) {
    size_t room = 2 * (r->body_size + size);
    char *grown = realloc(r->body, room);
    if (!grown) {
      return 0;
    }
    r->body = grown;
    x->room = room;
  }
  memcpy(r->body + r->body_size, bytes, size);
  r->body_size += size;
  return 1;
}

static void refuse_large(exchange *x)
{
  if (x->state == OPEN) {
    x->server->handlers.large(x->server->handlers.user, &x->request);
  }
}

/* Bytes of the body. Those that come behind an answer are dropped. */
static void on_body(exchange *x, const char *bytes, size_t size)
{
  enum { MIB = 1 << 20 };
  const http_handlers *handlers = &x->server->handlers;
  const size_t before = x->came;
  if (x->is_refused) {
    return;
  }
  x->came += size;
  const int is_large = x->came > x->most_body;
  if (!is_large && handlers->take(handlers->user, &x->request, bytes, size)) {
    if (x->came / MIB > before / MIB) {
      http_mark(x->server, x->place, 1, 0);
    }
  } else if (is_large || !keep_body(x, bytes, size)) {
    refuse_large(x);
  }
  x->is_refused = x->state == ANSWERED;
}

static enum MHD_Result on_begin(exchange *x, const char *path, const char *method)
{
  http_server *server = x->server;
  x->has_begun = 1;
  x->request.path = path;
  x->request.method = method;
  atomic_fetch_add(&server->n_active, 1);
  read_address(x);
  x->most_body = server->handlers.begin(server->handlers.user, &x->request);
  const char *length = http_header(&x->request, "Content-Length");
  if (x->state == OPEN && length && strtoull(length, NULL, 10) > x->most_body) {
    refuse_large(x);
  }
  x->is_refused = x->state == ANSWERED;
  /* A body that is short enough is read all the same, so that the connection goes on, and the client does not find it
   * closed while it still sends. */
  const char *chunked = http_header(&x->request, "Transfer-Encoding");
  const size_t most = x->most_body > HTTP_DROPPED ? x->most_body : HTTP_DROPPED;
  int has_body = chunked || (length && strcmp(length, "0") != 0);
  int closes = has_body && (chunked ? most == HTTP_DROPPED : strtoull(length, NULL, 10) > most);
  return x->is_refused && closes ? http_queue(x) : MHD_YES;
}

enum MHD_Result http_on_request(void *user, struct MHD_Connection *mhd, const char *path, const char *method,
                                const char *version, const char *bytes, size_t *size, void **context)
{
  http_server *server = user;
  exchange *x = *context;
  (void)mhd;
  (void)version;
  if (!x) {
    return MHD_NO; /* memory had run out */
  }
  if (!x->has_begun) {
    return on_begin(x, path, method);
  }
  x->request.path = path;
  if (*size > 0) {
    on_body(x, bytes, *size);
    *size = 0;
    return MHD_YES;
  }
  if (!x->was_suspended && x->state == OPEN) {
    http_mark(server, x->place, 0, 1);
    server->handlers.handle(server->handlers.user, &x->request);
    if (x->was_suspended) {
      return MHD_YES;
    }
  }
  return x->state == ANSWERED ? http_queue(x) : MHD_YES;
}

void http_on_completed(void *user, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode why)
{
  http_server *server = user;
  exchange *x = *context;
  (void)mhd;
  if (!x) {
    return;
  }
  *context = NULL;
  pthread_mutex_lock(&x->lock);
  http_stop_watching(x);
  x->connection = NULL;
  x->request.path = x->request.method = "";
  pthread_mutex_unlock(&x->lock);
  if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK && x->has_begun && !atomic_exchange(&x->is_gone, 1)) {
    server->handlers.gone(server->handlers.user, &x->request);
  }
  http_mark(server, x->place, 0, 0);
  if (x->has_begun) {
    atomic_fetch_sub(&server->n_active, 1);
  }
  if (x->is_stream) {
    http_release(&x->request);
  }
  http_release(&x->request);
}
