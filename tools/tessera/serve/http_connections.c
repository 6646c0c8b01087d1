/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/http_private.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "tools/tessera/serve/clock.h"

void http_on_connection(void *user, struct MHD_Connection *mhd, void **context,
                        enum MHD_ConnectionNotificationCode what)
{
  http_server *server = user;
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    connection *c = calloc(1, sizeof *c);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    *context = c;
    atomic_fetch_add(&server->n_connections, 1);
    atomic_fetch_add(&server->n_accepted, 1);
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

void http_mark(http_server *server, connection *c, int is_reading, int is_busy)
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
void *http_reap(void *user)
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
