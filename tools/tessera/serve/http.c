/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/serve/clock.h"
#include "tools/tessera/serve/watch.h"

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
  int is_shut; /* nothing more is read of it */
} connection;

struct http_server {
  struct MHD_Daemon *daemon;
  pthread_t thread; /* runs the daemon */
  int has_thread;
  int wake;             /* an eventfd: readable when that thread should look again, */
  atomic_int is_ending; /* or end */
  http_settings settings;
  http_handlers handlers;
  watch *watch;
  char listens[HTTP_ADDRESS_ROOM + 16];
  int is_local;
  int listener;         /* ours after http_quiesce */
  pthread_mutex_t lock; /* of the list of connections */
  connection *connections;
  atomic_llong n_connections;
  atomic_llong n_active;
  atomic_llong stream_bytes;
  atomic_int is_draining;
  pthread_t reaper;
  pthread_cond_t stops;
  int is_stopping;
  int has_reaper;
};

static exchange *exchange_of(http_request *request)
{
  return (exchange *)(void *)request;
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static void on_connection(void *user, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
  http_server *server = user;
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    connection *c = calloc(1, sizeof *c);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    *context = c;
    atomic_fetch_add(&server->n_connections, 1);
    if (!c) {
      return; /* it is served, and never found too slow */
    }
    c->socket = info ? (int)info->connect_fd : -1;
    c->since = clock_seconds();
    pthread_mutex_lock(&server->lock);
    c->after = server->connections;
    if (c->after) {
      c->after->before = c;
    }
    server->connections = c;
    pthread_mutex_unlock(&server->lock);
  } else {
    connection *c = *context;
    atomic_fetch_sub(&server->n_connections, 1);
    if (!c) {
      return;
    }
    pthread_mutex_lock(&server->lock);
    if (c->before) {
      c->before->after = c->after;
    } else {
      server->connections = c->after;
    }
    if (c->after) {
      c->after->before = c->before;
    }
    pthread_mutex_unlock(&server->lock);
    free(c);
    *context = NULL;
  }
}

static void mark(http_server *server, connection *c, int is_reading, int is_busy)
{
  if (c) {
    pthread_mutex_lock(&server->lock);
    c->since = clock_seconds();
    c->is_reading = is_reading;
    c->is_busy = is_busy;
    pthread_mutex_unlock(&server->lock);
  }
}

/* Ends connections that take too long, once a second. Their sockets are open as long as they are in the list. */
static void *reap(void *user)
{
  http_server *server = user;
  pthread_mutex_lock(&server->lock);
  while (!server->is_stopping) {
    double now = clock_seconds();
    for (connection *c = server->connections; c; c = c->after) {
      double most = c->is_reading ? server->settings.request_seconds : server->settings.idle_seconds;
      if (!c->is_busy && now - c->since > most) {
        shutdown(c->socket, SHUT_RDWR);
        c->since = now; /* it takes a while until the server sees it */
      }
    }
    struct timespec until = clock_until(1.0);
    pthread_cond_timedwait(&server->stops, &server->lock, &until);
  }
  pthread_mutex_unlock(&server->lock);
  return NULL;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

/* With the lock, which the end of the request waits for. The connection of a request that was suspended goes on. The
 * thread is woken: libmicrohttpd does so for its own threads alone. */
static void go_on(exchange *x)
{
  MHD_resume_connection(x->connection);
  eventfd_write(x->server->wake, 1);
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

static enum MHD_Result queue(exchange *x)
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

/* With the lock, and before the connection can go on: its socket is open until then. */
static void stop_watching(exchange *x)
{
  if (x->watched) {
    watch_end(x->server->watch, x->watched);
    x->watched = 0;
  }
}

static void answer(http_request *request, int status, const char *content_type, struct MHD_Response *response)
{
  exchange *x = exchange_of(request);
  pthread_mutex_lock(&x->lock);
  x->status = status;
  x->content_type = content_type;
  x->response = response;
  x->state = ANSWERED;
  if (!x->is_stream) { /* of a stream the client's end is watched on */
    stop_watching(x);
  }
  if (x->is_suspended && x->connection) {
    go_on(x);
  }
  x->is_suspended = 0;
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
  exchange *x = exchange_of(request);
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
  exchange *x = exchange_of(request);
  enum { PIECE = 4096 };
  x->is_stream = 1;
  http_hold(request); /* the response's */
  /* What the client does not read waits here, where it is bounded, and not in the system. */
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  int most = HTTP_STREAM_FULL;
  if (info) {
    setsockopt((int)info->connect_fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
  }
  struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE, read_stream, x, NULL);
  answer(request, status, content_type, response);
}

int http_stream_is_full(http_request *request)
{
  exchange *x = exchange_of(request);
  pthread_mutex_lock(&x->lock);
  int is_full = x->stream.size >= HTTP_STREAM_FULL;
  pthread_mutex_unlock(&x->lock);
  return is_full;
}

void http_stream_write(http_request *request, const char *bytes, size_t size)
{
  exchange *x = exchange_of(request);
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
  exchange *x = exchange_of(request);
  pthread_mutex_lock(&x->lock);
  stop_watching(x);
  x->stream.is_ended = 1;
  wake_stream(x);
  pthread_mutex_unlock(&x->lock);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

void http_hold(http_request *request)
{
  atomic_fetch_add(&exchange_of(request)->holders, 1);
}

void http_release(http_request *request)
{
  exchange *x = exchange_of(request);
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
  return atomic_load(&exchange_of(request)->is_gone);
}

const char *http_header(const http_request *request, const char *name)
{
  exchange *x = exchange_of((http_request *)(uintptr_t)request);
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

void http_suspend(http_request *request)
{
  exchange *x = exchange_of(request);
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  x->is_suspended = x->was_suspended = 1;
  MHD_suspend_connection(x->connection);
  x->watched = info ? watch_begin(x->server->watch, (int)info->connect_fd, x) : 0;
}

/* Before anything else of a request: its line has come, with the query string, which is not decoded here. */
static void *on_uri(void *user, const char *uri, struct MHD_Connection *mhd)
{
  http_server *server = user;
  exchange *x = calloc(1, sizeof *x);
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  connection *place = info ? info->socket_context : NULL;
  mark(server, place, 1, 0);
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
  /* A body that is short enough is read all the same, so that the connection goes on. */
  const char *chunked = http_header(&x->request, "Transfer-Encoding");
  int has_body = chunked || (length && strcmp(length, "0") != 0);
  int closes = has_body && (chunked || strtoull(length, NULL, 10) > 65536);
  return x->is_refused && closes ? queue(x) : MHD_YES;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *mhd, const char *path, const char *method,
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
    if (!x->is_refused && (x->request.body_size + *size > x->most_body || !keep_body(x, bytes, *size))) {
      refuse_large(x);
      x->is_refused = 1;
    }
    *size = 0;
    return MHD_YES;
  }
  if (!x->was_suspended && x->state == OPEN) {
    mark(server, x->place, 0, 1);
    server->handlers.handle(server->handlers.user, &x->request);
    if (x->was_suspended) {
      return MHD_YES;
    }
  }
  return x->state == ANSWERED ? queue(x) : MHD_YES;
}

static void on_completed(void *user, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode why)
{
  http_server *server = user;
  exchange *x = *context;
  (void)mhd;
  if (!x) {
    return;
  }
  *context = NULL;
  pthread_mutex_lock(&x->lock);
  stop_watching(x);
  x->connection = NULL;
  x->request.path = x->request.method = "";
  pthread_mutex_unlock(&x->lock);
  if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK && x->has_begun && !atomic_exchange(&x->is_gone, 1)) {
    server->handlers.gone(server->handlers.user, &x->request);
  }
  mark(server, x->place, 0, 0);
  if (x->has_begun) {
    atomic_fetch_sub(&server->n_active, 1);
  }
  if (x->is_stream) {
    http_release(&x->request);
  }
  http_release(&x->request);
}

/* ---- start and stop ---------------------------------------------------------------------------------------------- */

/* Cuts "host:port". Returns 0 if it is none. */
static int cut_address(const char *listen_at, char *host, size_t room, const char **port)
{
  const char *colon = strrchr(listen_at, ':');
  if (!colon || colon[1] == '\0') {
    return 0;
  }
  const char *begin = listen_at;
  size_t size = (size_t)(colon - listen_at);
  if (size >= 2 && begin[0] == '[' && begin[size - 1] == ']') {
    begin++;
    size -= 2;
  }
  if (size >= room) {
    return 0;
  }
  memcpy(host, begin, size);
  host[size] = '\0';
  *port = colon + 1;
  return 1;
}

static int is_loopback(const struct sockaddr *address)
{
  if (address->sa_family == AF_INET) {
    return (ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24) == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static int open_listener(http_server *server, int *listener)
{
  const char *at = server->settings.listen, *port = NULL;
  char host[256];
  if (!cut_address(at, host, sizeof host, &port)) {
    tsr_cli_error("--listen: '%s' is no ADDRESS:PORT, such as 127.0.0.1:5000", at);
    return TSR_EXIT_USAGE;
  }
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  struct addrinfo *found = NULL;
  int problem = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
  if (problem) {
    tsr_cli_error("--listen: '%s': %s", at, gai_strerror(problem));
    return TSR_EXIT_USAGE;
  }
  struct sockaddr_storage bound = {0};
  socklen_t size = sizeof bound;
  int one = 1, code = TSR_EXIT_OK;
  int s = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
      bind(s, found->ai_addr, found->ai_addrlen) || listen(s, 4096) ||
      getsockname(s, (struct sockaddr *)(void *)&bound, &size)) {
    tsr_cli_error("cannot listen on %s: %s", at, strerror(errno));
    code = TSR_EXIT_INPUT;
  } else {
    char name[HTTP_ADDRESS_ROOM] = "", number[16] = "";
    getnameinfo((struct sockaddr *)(void *)&bound, size, name, sizeof name, number, sizeof number,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(server->listens, sizeof server->listens, bound.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", name, number);
    server->is_local = is_loopback((struct sockaddr *)(void *)&bound);
  }
  freeaddrinfo(found);
  if (code != TSR_EXIT_OK && s >= 0) {
    close(s);
  }
  *listener = code == TSR_EXIT_OK ? s : -1;
  return code;
}

/* As many open files as the system allows: each connection is one. */
static void raise_limit(int32_t *connections)
{
  enum { OTHERS = 256 };
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) {
    return;
  }
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < (rlim_t)*connections + OTHERS) {
    int32_t most = limit.rlim_cur > 2 * OTHERS ? (int32_t)(limit.rlim_cur - OTHERS) : OTHERS;
    tsr_cli_warning("the system allows %lld open files: --connections is %d, not %d", (long long)limit.rlim_cur,
                    (int)most, (int)*connections);
    *connections = most;
  }
}

/* A thread of libmicrohttpd's own waits once more where as many events came as it takes at once (128 in 0.9.75), and
 * leaves these alone meanwhile: so many clients that wait for their answers would hang until a connection's time is up.
 * This one waits itself, and the library only takes what there is. */
static void *run_daemon(void *user)
{
  enum { LONGEST = 60000 }; /* ms */
  http_server *server = user;
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  struct pollfd events[] = {{.fd = info->epoll_fd, .events = POLLIN}, {.fd = server->wake, .events = POLLIN}};
  while (!atomic_load(&server->is_ending)) {
    MHD_UNSIGNED_LONG_LONG left = LONGEST;
    int has_timeout = MHD_get_timeout(server->daemon, &left) == MHD_YES;
    poll(events, 2, has_timeout && left < LONGEST ? (int)left : LONGEST);
    if (events[1].revents & POLLIN) {
      eventfd_t n;
      eventfd_read(server->wake, &n);
    }
    MHD_run(server->daemon);
  }
  return NULL;
}

static int start_daemon(http_server *server, int listener)
{
  const http_settings *settings = &server->settings;
  unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
  /* A part of the memory holds what is read and sent beside the headers. */
  size_t memory = (size_t)settings->header_size + 4096;
  server->daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      memory, MHD_OPTION_CONNECTION_LIMIT, (unsigned)settings->connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
      (unsigned)settings->per_address, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(settings->idle_seconds + 0.999),
      MHD_OPTION_URI_LOG_CALLBACK, on_uri, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
      MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)1024,
      MHD_OPTION_END);
  server->wake = server->daemon ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
  server->has_thread = server->wake >= 0 && pthread_create(&server->thread, NULL, run_daemon, server) == 0;
  if (!server->has_thread) {
    tsr_cli_error("the HTTP server does not start: %s", strerror(errno));
    return TSR_EXIT_INTERNAL;
  }
  return TSR_EXIT_OK;
}

int http_start(const http_settings *settings, const http_handlers *handlers, http_server **server)
{
  *server = NULL;
  http_server *made = calloc(1, sizeof *made);
  if (!made) {
    return tsr_cli_no_memory();
  }
  made->settings = *settings;
  made->handlers = *handlers;
  made->listener = made->wake = -1;
  pthread_mutex_init(&made->lock, NULL);
  clock_condition(&made->stops);
  raise_limit(&made->settings.connections);
  int listener = -1;
  int code = open_listener(made, &listener);
  if (code == TSR_EXIT_OK) {
    code = watch_create(made->settings.connections, on_watched, hold_watched, release_watched, &made->watch)
               ? TSR_EXIT_OK
               : tsr_cli_no_memory();
  }
  if (code == TSR_EXIT_OK) {
    made->has_reaper = pthread_create(&made->reaper, NULL, reap, made) == 0;
    code = made->has_reaper ? TSR_EXIT_OK : tsr_cli_no_memory();
  }
  if (code == TSR_EXIT_OK) {
    *server = made; /* before requests ask for it */
    code = start_daemon(made, listener);
  }
  if (code != TSR_EXIT_OK) {
    *server = NULL;
    if (listener >= 0 && !made->daemon) { /* a daemon closes it itself */
      close(listener);
    }
    http_stop(made);
    return code;
  }
  return TSR_EXIT_OK;
}

const char *http_listens(const http_server *server, int *is_local)
{
  *is_local = server->is_local;
  return server->listens;
}

void http_drain(http_server *server)
{
  atomic_store(&server->is_draining, 1);
  server->listener = (int)MHD_quiesce_daemon(server->daemon);
  if (server->listener >= 0) {
    close(server->listener);
  }
  const struct timespec pause = {.tv_nsec = 10000000};
  while (atomic_load(&server->n_connections) > 0) {
    pthread_mutex_lock(&server->lock);
    for (connection *c = server->connections; c; c = c->after) {
      /* What the system has received is still read, and answered; then the connection ends. A request that is under way
       * is left alone: that its connection is shut would look as if its client had left. */
      if (!c->is_reading && !c->is_busy && !c->is_shut) {
        shutdown(c->socket, SHUT_RD);
        c->is_shut = 1;
      }
    }
    pthread_mutex_unlock(&server->lock);
    nanosleep(&pause, NULL);
  }
}

int64_t http_active(http_server *server)
{
  return atomic_load(&server->n_active);
}

int64_t http_connections(http_server *server)
{
  return atomic_load(&server->n_connections);
}

int64_t http_stream_bytes(http_server *server)
{
  return atomic_load(&server->stream_bytes);
}

void http_stop(http_server *server)
{
  if (!server) {
    return;
  }
  if (server->has_thread) {
    atomic_store(&server->is_ending, 1);
    eventfd_write(server->wake, 1);
    pthread_join(server->thread, NULL);
  }
  if (server->daemon) {
    MHD_stop_daemon(server->daemon);
  }
  if (server->wake >= 0) {
    close(server->wake);
  }
  if (server->has_reaper) {
    pthread_mutex_lock(&server->lock);
    server->is_stopping = 1;
    pthread_cond_signal(&server->stops);
    pthread_mutex_unlock(&server->lock);
    pthread_join(server->reaper, NULL);
  }
  watch_destroy(server->watch);
  pthread_cond_destroy(&server->stops);
  pthread_mutex_destroy(&server->lock);
  free(server);
}
