/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/http_private.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/serve/clock.h"

enum {
  LOOK = 10,      /* ms between two looks for idle connections when the server ends */
  MOST_IDLE = 10, /* looks that find a connection idle: then it ends, too */
};

/* 1 if the system has received what the server has not read yet. */
static int has_unread(const connection *c)
{
  char first;
  return recv(c->socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Ends the connections that wait for a request. Called by the thread that runs the daemon and when it has just run: so
 * a connection whose bytes were read has begun its request, however long the thread waited for a processor. What the
 * system has received is still read, and answered; then the connection ends. A request that is under way is left alone,
 * even one of which nothing is read yet: that its connection is shut would look as if its client had left, and its body
 * may come behind its headers. */
static void end_idle(http_server *server)
{
  double now = clock_seconds();
  if (now < server->next_look) {
    return;
  }
  server->next_look = now + LOOK * 1e-3;
  pthread_mutex_lock(&server->lock);
  for (connection *c = server->connections; c; c = c->after) {
    if (c->is_reading || c->is_busy || has_unread(c)) {
      c->n_idle = 0;
    } else if (c->n_idle < MOST_IDLE && ++c->n_idle == MOST_IDLE) {
      shutdown(c->socket, SHUT_RD);
    }
  }
  pthread_mutex_unlock(&server->lock);
}

/* By the thread that runs the daemon: another one might take the listener out of the list of what that thread waits for
 * just before it does so itself, which ends the process (libmicrohttpd 0.9.75). */
static void close_listener(http_server *server)
{
  int listener = (int)MHD_quiesce_daemon(server->daemon);
  if (listener >= 0) {
    close(listener);
  }
  atomic_store(&server->has_no_listener, 1);
}

/* A thread of libmicrohttpd's own waits once more where as many events came as it takes at once (128 in 0.9.75), and
 * leaves these alone meanwhile: so many clients that wait for their answers would hang until a connection's time is up.
 * This one waits itself, and the library only takes what there is. */
static void *run_daemon(void *user)
{
  enum { LONGEST = 60000 /* ms */, MANY = 32 /* requests */ };
  http_server *server = user;
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  struct pollfd events[] = {{.fd = info->epoll_fd, .events = POLLIN}, {.fd = server->wake, .events = POLLIN}};
  /* Who waits among many waits longer than this anyway. All that comes meanwhile is served at once, and the threads
   * that compute are not interrupted for each of it. */
  const struct timespec pause = {.tv_nsec = 1000000};
  while (!atomic_load(&server->is_ending)) {
    MHD_UNSIGNED_LONG_LONG left = LONGEST;
    int has_timeout = MHD_get_timeout(server->daemon, &left) == MHD_YES;
    int longest = atomic_load(&server->has_no_listener) ? LOOK : LONGEST;
    poll(events, 2, has_timeout && left < (unsigned)longest ? (int)left : longest);
    if (atomic_load(&server->n_suspended) >= MANY) {
      nanosleep(&pause, NULL);
    }
    /* In this order: what is announced between the two is seen below. */
    eventfd_t n;
    eventfd_read(server->wake, &n);
    atomic_store(&server->is_woken, 0);
    if (atomic_load(&server->is_closing) && !atomic_load(&server->has_no_listener)) {
      close_listener(server);
    }
    MHD_run(server->daemon);
    atomic_fetch_add(&server->n_turns, 1);
    if (atomic_load(&server->has_no_listener)) {
      end_idle(server);
    }
  }
  return NULL;
}

void http_wake(http_server *server)
{
  if (!atomic_exchange(&server->is_woken, 1)) {
    eventfd_write(server->wake, 1);
  }
}

static int start_daemon(http_server *server, int listener)
{
  const http_settings *settings = &server->settings;
  unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
  /* A part of the memory holds what is read and sent beside the headers. */
  size_t memory = (size_t)settings->header_size + 4096;
  server->daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, http_on_request, server, MHD_OPTION_LISTEN_SOCKET, listener,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory, MHD_OPTION_CONNECTION_LIMIT, (unsigned)settings->connections,
      MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)settings->per_address, MHD_OPTION_CONNECTION_TIMEOUT,
      (unsigned)(settings->idle_seconds + 0.999), MHD_OPTION_URI_LOG_CALLBACK, http_on_uri, server,
      MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, server, MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, server,
      MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)1024, MHD_OPTION_END);
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
  made->wake = -1;
  pthread_mutex_init(&made->lock, NULL);
  clock_condition(&made->stops);
  http_raise_limit(&made->settings.connections);
  int listener = -1;
  int code = http_open_listener(made, &listener);
  if (code == TSR_EXIT_OK) {
    code = http_create_watch(made) ? TSR_EXIT_OK : tsr_cli_no_memory();
  }
  if (code == TSR_EXIT_OK) {
    made->has_reaper = pthread_create(&made->reaper, NULL, http_reap, made) == 0;
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
    http_destroy(made);
    return code;
  }
  return TSR_EXIT_OK;
}

const char *http_listens(const http_server *server, int *is_local)
{
  *is_local = server->is_local;
  return server->listens;
}

/* Waits until the connections that the system has made are accepted: it resets those that still wait when the listener
 * closes. The wait ends when as many were accepted as the system keeps, or none in so many turns of the thread that
 * accepts, a second or more: beyond the most connections none is. Turns are counted, not time: on a busy machine that
 * thread may wait for a processor for long. */
static void accept_waiting(http_server *server, int (*gives_up)(void *user), void *user)
{
  enum { MOST_QUIET = 1000 };
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_LISTEN_FD);
  struct pollfd waiting = {.fd = info ? (int)info->listen_fd : -1, .events = POLLIN};
  const struct timespec pause = {.tv_nsec = 1000000};
  long long first = atomic_load(&server->n_accepted), last = first, turns = atomic_load(&server->n_turns);
  for (int quiet = 0;
       quiet < MOST_QUIET && last - first < HTTP_BACKLOG && poll(&waiting, 1, 0) > 0 && !gives_up(user);) {
    http_wake(server);
    nanosleep(&pause, NULL);
    const long long now_turns = atomic_load(&server->n_turns), now = atomic_load(&server->n_accepted);
    quiet = now == last ? quiet + (now_turns != turns) : 0;
    last = now;
    turns = now_turns;
  }
}

int http_drain(http_server *server, int (*gives_up)(void *user), void *user)
{
  atomic_store(&server->is_draining, 1);
  accept_waiting(server, gives_up, user);
  atomic_store(&server->is_closing, 1);
  http_wake(server);
  const struct timespec pause = {.tv_nsec = 10000000};
  while (!atomic_load(&server->has_no_listener) || atomic_load(&server->n_connections) > 0) {
    if (gives_up(user)) {
      return 0;
    }
    nanosleep(&pause, NULL);
  }
  return 1;
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
    http_wake(server);
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
}

void http_destroy(http_server *server)
{
  if (!server) {
    return;
  }
  watch_destroy(server->watch);
  pthread_cond_destroy(&server->stops);
  pthread_mutex_destroy(&server->lock);
  free(server);
}
