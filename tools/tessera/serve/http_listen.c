/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/http_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/tessera/common/message.h"

enum { MOST_PORT = 65535, PORT_DIGITS = 5 };

/* Cuts "host:port". Returns 0 if it is none: getaddrinfo takes a number that is too large, less a multiple of 65536. */
static int cut_address(const char *listen_at, char *host, size_t room, const char **port)
{
  const char *colon = strrchr(listen_at, ':');
  if (!colon || colon[1] == '\0') {
    return 0;
  }
  const size_t digits = strlen(colon + 1);
  if (strspn(colon + 1, "0123456789") == digits && (digits > PORT_DIGITS || strtol(colon + 1, NULL, 10) > MOST_PORT)) {
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

int http_open_listener(http_server *server, int *listener)
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
      bind(s, found->ai_addr, found->ai_addrlen) || listen(s, HTTP_BACKLOG) ||
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

/* Each connection is an open file. */
void http_raise_limit(int32_t *connections)
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
