/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients of `tessera serve`: thousands of connections on one thread, so that what is measured is the server.
 *
 *   generator load PORT LINES ANSWERS CONNECTIONS REQUESTS RATE [mixed]
 *     asks for REQUESTS translations, one line of LINES each, from English to French. RATE 0: each connection asks
 *     again when it has its answer. Else so many a second at random times, whose latencies count from the time that a
 *     request was due. Bodies of the answers go to ANSWERS ("-": nowhere), a line each, in the order of the requests.
 *     What a connection that breaks had asked for, it asks again: "broken" counts these. "mixed": in turn by all
 *     endpoints of `kinds`, each text always by the same one, and some on connections that end with it.
 *   generator crowd PORT IDLE SLOW
 *     keeps IDLE connections open that asked once, and SLOW ones that send a byte of a request a second. Says "ready"
 *     when all stand; ends with standard input.
 *
 * Both print what they saw as a JSON object. Exit code 1: the server cannot be reached, or memory ran out.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 16384, EVENTS = 512 };

/* What a connection does. */
enum { ASKS, IDLE, SLOW };

typedef struct client {
  int socket;
  int kind;
  int64_t request; /* its number; -1: none */
  double due;      /* when it was to be sent */
  const char *out; /* of the request, what is not sent */
  size_t n_out;
  char *in; /* [ROOM] */
  size_t n_in;
  double next; /* slow: when the next byte is due */
} client;

/* What can be asked about a text. */
typedef struct kind {
  const char *line;            /* method and path */
  const char *before, *behind; /* the body around the text; NULL: none */
  int status;                  /* of the right answer, */
  const char *begins;          /* whose body begins so */
} kind;

static const kind kinds[] = {
    {"POST /translate", "{\"q\":\"", "\",\"source\":\"en\",\"target\":\"fr\"}", 200, "{\"translatedText\":"},
    {"POST /v2/translate", "{\"text\":[\"", "\"],\"target_lang\":\"FR\"}", 200, "{\"translations\":"},
    {"POST /translate", "{\"q\":\"", "\",\"source\":\"en\",\"target\":\"fr\",\"alignment\":true}", 200,
     "{\"translatedText\":"},
    {"POST /detect", "{\"q\":\"", "\"}", 200, "[{\"confidence\":"},
    {"POST /translate", "{\"q\":\"", "\",\"source\":\"auto\",\"target\":\"fr\"}", 200, "{\"detectedLanguage\":"},
    {"POST /translate/stream", "{\"q\":\"", "\",\"source\":\"en\",\"target\":\"fr\"}", 200, ""},
    {"POST /translate", "{\"q\":\"", "\",\"source\":\"en\",\"target\":\"fr\",\"format\":\"html\"}", 200,
     "{\"translatedText\":"},
    {"POST /translate", "{\"q\":\"", "\",\"source\":\"en\",\"target\":\"none\"}", 400, "{\"error\":"},
    {"GET /status", NULL, NULL, 200, "{"},
};

enum { KINDS = sizeof kinds / sizeof kinds[0], ENDS = 16 /* each so many requests, the connection */ };

typedef struct text {
  char *bytes; /* the whole request */
  size_t size;
  const kind *kind;
  int ends; /* the connection ends with it */
} text;

typedef struct load {
  int poll;
  int port;
  client *clients;
  int n_clients;
  text *texts;
  int n_texts;
  double *latencies; /* [n_requests] */
  char **answers;    /* [n_requests] bodies, or NULL */
  int64_t n_requests, n_sent, n_answered, n_right, n_busy, n_wrong, n_broken;
} load;

static double seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fail(const char *what)
{
  fprintf(stderr, "generator: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void *need(void *memory)
{
  if (!memory) {
    fail("memory");
  }
  return memory;
}

/* Uniform in (0, 1], the same in each run. */
static double draw(void)
{
  static uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (double)((state >> 11) + 1) / 9007199254740992.0;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static text make_request(const char *line, size_t size, const kind *of, int ends)
{
  char *body = need(malloc(6 * size + 128));
  size_t n = of->before ? (size_t)sprintf(body, "%s", of->before) : 0;
  for (size_t i = 0; i < size && of->before; i++) {
    unsigned char c = (unsigned char)line[i];
    if (c == '"' || c == '\\') {
      body[n++] = '\\';
      body[n++] = (char)c;
    } else if (c < 0x20) {
      n += (size_t)sprintf(body + n, "\\u%04x", c);
    } else {
      body[n++] = (char)c;
    }
  }
  n += of->before ? (size_t)sprintf(body + n, "%s", of->behind) : 0;
  text made = {.bytes = need(malloc(n + 256)), .kind = of, .ends = ends};
  made.size = (size_t)sprintf(made.bytes,
                              "%s HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\n"
                              "Content-Length: %zu\r\n\r\n",
                              of->line, ends ? "Connection: close\r\n" : "", n);
  memcpy(made.bytes + made.size, body, n);
  made.size += n;
  free(body);
  return made;
}

static void read_texts(load *l, const char *path, int is_mixed)
{
  FILE *file = fopen(path, "r");
  char *line = NULL;
  size_t room = 0;
  if (!file) {
    fail(path);
  }
  for (ssize_t size; (size = getline(&line, &room, file)) >= 0;) {
    size -= size > 0 && line[size - 1] == '\n';
    l->texts = need(realloc(l->texts, (size_t)(l->n_texts + 1) * sizeof *l->texts));
    const kind *of = &kinds[is_mixed ? l->n_texts % KINDS : 0];
    l->texts[l->n_texts] = make_request(line, (size_t)size, of, is_mixed && l->n_texts % ENDS == 0);
    l->n_texts++;
  }
  free(line);
  fclose(file);
  if (l->n_texts == 0) {
    errno = EINVAL;
    fail(path);
  }
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static void connect_client(load *l, client *c)
{
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)l->port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int one = 1;
  c->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (c->socket < 0 || connect(c->socket, (struct sockaddr *)(void *)&to, sizeof to)) {
    fail("connect");
  }
  setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(c->socket, F_SETFL, O_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  if (epoll_ctl(l->poll, EPOLL_CTL_ADD, c->socket, &event)) {
    fail("epoll_ctl");
  }
}

static void send_some(client *c, size_t most)
{
  size_t size = c->n_out < most ? c->n_out : most;
  ssize_t sent = send(c->socket, c->out, size, MSG_NOSIGNAL);
  if (sent > 0) {
    c->out += sent;
    c->n_out -= (size_t)sent;
  }
}

static void send_request(load *l, client *c)
{
  const text *t = &l->texts[c->request % l->n_texts];
  c->out = t->bytes;
  c->n_out = t->size;
  send_some(c, SIZE_MAX); /* a request is smaller than a socket's buffer */
}

static void ask(load *l, client *c, double due)
{
  c->request = l->n_sent++;
  c->due = due;
  send_request(l, c);
}

/* Bytes of the answer that has come whole; 0: it has not. */
static size_t whole_answer(client *c, const char **body, size_t *n_body)
{
  static const char last[] = "\r\n0\r\n\r\n";
  c->in[c->n_in] = '\0';
  char *end = strstr(c->in, "\r\n\r\n");
  if (!end) {
    return 0;
  }
  char *length = strcasestr(c->in, "\r\nContent-Length:");
  *body = end + 4;
  size_t size = (size_t)(*body - c->in);
  if (length && length < end) {
    *n_body = (size_t)strtoull(length + 17, NULL, 10);
    size += *n_body;
    return c->n_in >= size ? size : 0;
  }
  /* A stream, in chunks. */
  *n_body = c->n_in - size;
  return *n_body >= sizeof last - 1 && strcmp(c->in + c->n_in - (sizeof last - 1), last) == 0 ? c->n_in : 0;
}

static void note_answer(load *l, client *c, const char *body, size_t n_body, double now)
{
  const kind *of = l->texts[c->request % l->n_texts].kind;
  l->latencies[l->n_answered++] = now - c->due;
  int status = atoi(c->in + 9);
  size_t n = strlen(of->begins);
  int is_right = status == of->status && n_body > n && memcmp(body, of->begins, n) == 0;
  l->n_right += is_right;
  l->n_busy += status == 503;
  l->n_wrong += !is_right && status != 503;
  if (l->answers) {
    l->answers[c->request] = need(strndup(body, n_body));
  }
}

/* Reads what there is. Returns 1 if an answer has come, -1 if the connection is at its end. */
static int receive(load *l, client *c)
{
  ssize_t got = recv(c->socket, c->in + c->n_in, ROOM - 1 - c->n_in, 0);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    return -1;
  }
  c->n_in += got > 0 ? (size_t)got : 0;
  const char *body = NULL;
  size_t n_body = 0, size = whole_answer(c, &body, &n_body);
  if (size == 0) {
    return 0;
  }
  int ends = 0;
  if (c->kind == ASKS && c->request >= 0) {
    ends = l->texts[c->request % l->n_texts].ends;
    note_answer(l, c, body, n_body, seconds());
    c->request = -1;
  }
  c->n_in = 0; /* nothing comes that was not asked for */
  return ends ? -1 : 1;
}

static void make_clients(load *l, int n)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  l->poll = epoll_create1(EPOLL_CLOEXEC);
  l->clients = need(calloc((size_t)n, sizeof *l->clients));
  l->n_clients = n;
  for (int i = 0; i < n; i++) {
    l->clients[i].in = need(malloc(ROOM));
    l->clients[i].request = -1;
    connect_client(l, &l->clients[i]);
  }
}

/* ---- load -------------------------------------------------------------------------------------------------------- */

/* Another connection takes the place of one that is at its end, and asks again what was not answered. */
static void reconnect(load *l, client *c)
{
  close(c->socket);
  c->n_in = c->n_out = 0;
  connect_client(l, c);
  if (c->request >= 0) {
    l->n_broken++;
    send_request(l, c);
  }
}

/* Requests whose time has come go to connections that are free. Returns seconds until the next one. */
static double ask_what_is_due(load *l, double rate, double *due)
{
  double now = seconds();
  for (int i = 0; i < l->n_clients && *due <= now && l->n_sent < l->n_requests; i++) {
    if (l->clients[i].request < 0) {
      ask(l, &l->clients[i], *due);
      *due -= log(draw()) / rate;
    }
  }
  return *due - seconds();
}

static void run_load(load *l, double rate)
{
  double due = seconds();
  for (int i = 0; rate <= 0.0 && i < l->n_clients && l->n_sent < l->n_requests; i++) {
    ask(l, &l->clients[i], seconds());
  }
  while (l->n_answered < l->n_requests) {
    struct epoll_event events[EVENTS];
    double left = rate > 0.0 && l->n_sent < l->n_requests ? ask_what_is_due(l, rate, &due) : 1.0;
    left = left < 0.0 ? 0.001 : left < 1.0 ? left : 1.0; /* below 0: all connections are busy */
    struct timespec pause = {.tv_sec = (time_t)left, .tv_nsec = (long)(1e9 * (left - floor(left)))};
    int n = epoll_pwait2(l->poll, events, EVENTS, &pause, NULL);
    for (int i = 0; i < n; i++) {
      client *c = events[i].data.ptr;
      int got = receive(l, c);
      if (got < 0) {
        reconnect(l, c);
      }
      if (c->request < 0 && rate <= 0.0 && l->n_sent < l->n_requests) {
        ask(l, c, seconds());
      }
    }
  }
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double own_seconds(void)
{
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static int load_main(char **arguments)
{
  load l = {.port = atoi(arguments[0]), .n_requests = atoll(arguments[4])};
  const char *answers = arguments[2];
  read_texts(&l, arguments[1], arguments[6] != NULL);
  l.latencies = need(calloc((size_t)l.n_requests, sizeof *l.latencies));
  l.answers = strcmp(answers, "-") != 0 ? need(calloc((size_t)l.n_requests, sizeof *l.answers)) : NULL;
  make_clients(&l, atoi(arguments[3]));
  double own = own_seconds(), start = seconds();
  run_load(&l, atof(arguments[5]));
  double took = seconds() - start;
  own = own_seconds() - own;
  qsort(l.latencies, (size_t)l.n_requests, sizeof *l.latencies, compare);
  int64_t n = l.n_requests;
  printf("{\"seconds\": %.6f, \"own_seconds\": %.6f, \"requests\": %lld, \"right\": %lld, \"busy\": %lld, "
         "\"wrong\": %lld, \"broken\": %lld, \"p50\": %.6f, \"p90\": %.6f, \"p99\": %.6f, \"most\": %.6f}\n",
         took, own, (long long)n, (long long)l.n_right, (long long)l.n_busy, (long long)l.n_wrong,
         (long long)l.n_broken, l.latencies[n / 2], l.latencies[n * 9 / 10], l.latencies[n * 99 / 100],
         l.latencies[n - 1]);
  if (l.answers) {
    FILE *file = fopen(answers, "w");
    if (!file) {
      fail(answers);
    }
    for (int64_t i = 0; i < n; i++) {
      fprintf(file, "%s\n", l.answers[i] ? l.answers[i] : "null");
    }
    fclose(file);
  }
  return 0;
}

/* ---- crowd ------------------------------------------------------------------------------------------------------- */

static const char health[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

static void begin_slow(client *c, const text *request, double now)
{
  c->out = request->bytes;
  c->n_out = request->size;
  c->next = now + draw();
}

static int crowd_main(char **arguments)
{
  static const char line[] = "The museum is worth visiting.";
  const text request = make_request(line, sizeof line - 1, &kinds[0], 0);
  load l = {.port = atoi(arguments[0])};
  int n_idle = atoi(arguments[1]), n_slow = atoi(arguments[2]), n_ready = 0;
  int64_t n_closed = 0, n_bytes = 0, n_whole = 0;
  make_clients(&l, n_idle + n_slow);
  for (int i = 0; i < l.n_clients; i++) {
    client *c = &l.clients[i];
    c->kind = i < n_idle ? IDLE : SLOW;
    if (c->kind == IDLE) {
      c->out = health;
      c->n_out = sizeof health - 1;
      send_some(c, SIZE_MAX);
    } else {
      begin_slow(c, &request, seconds());
    }
  }
  fcntl(0, F_SETFL, O_NONBLOCK);
  struct epoll_event input = {.events = EPOLLIN, .data.ptr = NULL};
  epoll_ctl(l.poll, EPOLL_CTL_ADD, 0, &input);
  for (int ends = 0, is_told = 0; !ends;) {
    struct epoll_event events[EVENTS];
    int n = epoll_wait(l.poll, events, EVENTS, 20);
    for (int i = 0; i < n; i++) {
      client *c = events[i].data.ptr;
      ends |= c == NULL;
      int got = c ? receive(&l, c) : 0;
      if (got < 0) {
        n_closed++;
        close(c->socket);
        c->kind = ASKS; /* it is none of them any more */
      } else if (got > 0 && c->kind == IDLE) {
        n_ready++;
      } else if (got > 0 && c->kind == SLOW) {
        n_whole++;
        begin_slow(c, &request, seconds());
      }
    }
    double now = seconds();
    for (int i = n_idle; i < l.n_clients; i++) {
      client *c = &l.clients[i];
      if (c->kind == SLOW && c->n_out > 0 && c->next <= now) {
        send_some(c, 1);
        c->next += 1.0;
        n_bytes++;
      }
    }
    if (!is_told && n_ready == n_idle) {
      is_told = 1;
      puts("ready");
      fflush(stdout);
    }
  }
  printf("{\"idle\": %d, \"slow\": %d, \"closed\": %lld, \"bytes\": %lld, \"whole\": %lld}\n", n_idle, n_slow,
         (long long)n_closed, (long long)n_bytes, (long long)n_whole);
  return 0;
}

int main(int n, char **arguments)
{
  int is_load = (n == 8 || (n == 9 && strcmp(arguments[8], "mixed") == 0)) && strcmp(arguments[1], "load") == 0;
  if (is_load && atoll(arguments[6]) > 0 && atoi(arguments[5]) > 0) {
    return load_main(arguments + 2);
  }
  if (n == 5 && strcmp(arguments[1], "crowd") == 0) {
    return crowd_main(arguments + 2);
  }
  fputs("usage: generator load PORT LINES ANSWERS CONNECTIONS REQUESTS RATE [mixed] | crowd PORT IDLE SLOW\n", stderr);
  return 2;
}
