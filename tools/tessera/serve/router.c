/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/serve/clock.h"
#include "tools/tessera/serve/service.h"

const endpoint endpoints[] = {
    {"POST", "/translate", api_translate, ENDPOINT_FORM | ENDPOINT_KEY},
    {"POST", "/translate/stream", api_stream, ENDPOINT_FORM | ENDPOINT_KEY},
    {"POST", "/translate_file", api_translate_file, ENDPOINT_FORM | ENDPOINT_KEY | ENDPOINT_FILE},
    {"GET", "/download_file/", api_download_file, ENDPOINT_PREFIX},
    {"POST", "/detect", api_detect, ENDPOINT_FORM | ENDPOINT_KEY},
    {"POST", "/suggest", api_suggest, ENDPOINT_FORM | ENDPOINT_KEY},
    {"GET", "/languages", api_languages, 0},
    {"GET", "/health", api_health, 0},
    {"GET", "/frontend/settings", api_frontend_settings, 0},
    {"GET", "/spec", api_spec, 0},
    {"GET", "/metrics", api_metrics, 0},
    {"GET", "/status", api_status, 0},
    {"POST", "/v2/translate", api_deepl_translate, ENDPOINT_FORM | ENDPOINT_KEY | ENDPOINT_DEEPL},
    {"GET", "/v2/languages", api_deepl_languages, ENDPOINT_DEEPL | ENDPOINT_FORM},
    {"POST", "/v2/languages", api_deepl_languages, ENDPOINT_DEEPL | ENDPOINT_FORM},
    {"GET", "/v2/usage", api_deepl_usage, ENDPOINT_DEEPL},
    {"POST", "/v2/usage", api_deepl_usage, ENDPOINT_DEEPL},
    {"POST", "/v1/audio/transcriptions", api_audio, ENDPOINT_SOUND | ENDPOINT_OPENAI},
    {"POST", "/v1/audio/translations", api_audio, ENDPOINT_SOUND | ENDPOINT_OPENAI},
    {"GET", "/v1/models", api_openai_models, ENDPOINT_KEY | ENDPOINT_OPENAI},
    {"GET", "/v1/models/", api_openai_model, ENDPOINT_KEY | ENDPOINT_OPENAI | ENDPOINT_PREFIX},
    {"GET", "/", api_embedded, 0},
    {"GET", "/app/", api_embedded, ENDPOINT_PREFIX},
    {NULL},
};

_Static_assert(sizeof endpoints / sizeof endpoints[0] <= METRICS_ENDPOINTS, "endpoints");

const char *const router_headers[] = {"Access-Control-Allow-Origin",
                                      "*",
                                      "Access-Control-Allow-Headers",
                                      "Authorization, Content-Type, *",
                                      "Access-Control-Allow-Methods",
                                      "GET, POST, OPTIONS",
                                      "Access-Control-Max-Age",
                                      "86400",
                                      "X-Content-Type-Options",
                                      "nosniff",
                                      NULL};

static int is_path(const endpoint *e, const char *path)
{
  return e->flags & ENDPOINT_PREFIX ? strncmp(path, e->path, strlen(e->path)) == 0 : strcmp(path, e->path) == 0;
}

/* The endpoint; NULL: none. allow: the methods that the path has, "" if there is no such path; flags: its flags, of
 * whatever method. */
static const endpoint *find(const char *method, const char *path, char *allow, size_t room, int32_t *flags)
{
  *flags = 0;
  const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
  const endpoint *found = NULL;
  allow[0] = '\0';
  for (const endpoint *e = endpoints; e->method; e++) {
    if (is_path(e, path)) {
      size_t used = strlen(allow);
      snprintf(allow + used, room - used, "%s%s", used ? ", " : "", e->method);
      *flags |= e->flags;
      found = !found && strcmp(e->method, wanted) == 0 ? e : found;
    }
  }
  return found;
}

static void answer_no_memory(http_request *request)
{
  http_answer(request, 500, NULL, NULL, 0);
}

static size_t begin(void *user, http_request *request)
{
  service *s = user;
  call *c = calloc(1, sizeof *c);
  if (!c) {
    answer_no_memory(request);
    return 0;
  }
  pthread_mutex_init(&c->lock, NULL);
  c->service = s;
  c->http = request;
  pthread_mutex_lock(&s->lock);
  c->state = s->state;
  pthread_mutex_unlock(&s->lock);
  c->settings = &c->state->config->settings;
  request->user = c;
  char allow[64];
  int32_t flags = 0;
  c->endpoint = find(request->method, request->path, allow, sizeof allow, &flags);
  c->is_deepl = (flags & ENDPOINT_DEEPL) != 0;
  c->is_openai = (flags & ENDPOINT_OPENAI) != 0;
  size_t most = HTTP_DROPPED;
  if (atomic_load(&s->is_draining)) {
    reply_busy(c);
  } else if (strcmp(request->method, "OPTIONS") == 0 && allow[0]) {
    http_answer_header(request, "Allow", allow);
    http_answer_static(request, 204, NULL, "", 0);
  } else if (!allow[0]) {
    reply_error(c, 404, "There is no such page");
  } else if (!c->endpoint) {
    http_answer_header(request, "Allow", allow);
    reply_error(c, 405, "The method is not allowed for the requested URL.");
  } else if (c->endpoint->flags & ENDPOINT_SOUND) {
    most = speech_begin(c);
  } else {
    most = c->endpoint->flags & ENDPOINT_FILE ? (size_t)c->settings->file_limit << 20
                                              : (size_t)c->settings->body_limit << 10;
  }
  return most;
}

static int take(void *user, http_request *request, const char *bytes, size_t size)
{
  call *c = request->user;
  (void)user;
  return c && c->speech && speech_take(c, bytes, size);
}

static void large(void *user, http_request *request)
{
  (void)user;
  reply_error(request->user, 413, "The request is too large");
}

/* ---- keys and limits --------------------------------------------------------------------------------------------- */

/* The client's address: the last proxies' word for it, as far as they are ours. */
static void find_address(const call *c, char *address, size_t room)
{
  snprintf(address, room, "%s", c->http->address);
  const char *list = c->settings->proxies > 0 ? http_header(c->http, "X-Forwarded-For") : NULL;
  size_t end = list ? strlen(list) : 0;
  for (int32_t i = 0; i < c->settings->proxies && end > 0; i++) {
    size_t start = end;
    while (start > 0 && list[start - 1] != ',') {
      start--;
    }
    size_t first = start + strspn(list + start, " ");
    if (first < end) {
      snprintf(address, room, "%.*s", (int)(end - first), list + first);
    }
    end = start > 0 ? start - 1 : 0;
  }
}

static const char *find_key(const call *c)
{
  static const char *const kinds[] = {"DeepL-Auth-Key ", "Bearer "};
  const char *key = parameters_text(&c->parameters, "api_key");
  key = key[0] ? key : parameters_text(&c->parameters, "auth_key");
  const char *header = key[0] ? NULL : http_header(c->http, "Authorization");
  for (int i = 0; header && i < 2; i++) {
    if (strncmp(header, kinds[i], strlen(kinds[i])) == 0) {
      return header + strlen(kinds[i]);
    }
  }
  return key;
}

int check_access(call *c)
{
  const char *key = find_key(c);
  int32_t found = -1;
  if (key[0] && (c->state->keys.n > 0 || c->settings->key_required)) {
    found = api_keys_find(&c->state->keys, key);
    if (found < 0) {
      reply_error(c, c->is_openai ? 401 : 403, "Invalid API key");
      return 0;
    }
  }
  if (found < 0 && c->settings->key_required) {
    reply_error(c, c->is_openai ? 401 : 400, "Please contact the server operator to get an API key");
    return 0;
  }
  for (int32_t i = 0; i < c->parameters.n; i++) {
    const parameter *one = &c->parameters.items[i];
    if (strcmp(one->name, "q") == 0 || strcmp(one->name, "text") == 0) {
      c->characters += count_characters(one->value, one->size);
    }
  }
  char name[LIMITS_NAME_ROOM], which = 'r', address[HTTP_ADDRESS_ROOM];
  int64_t requests = c->settings->requests_per_minute, characters = c->settings->characters_per_minute;
  if (found >= 0) {
    const api_key *k = &c->state->keys.items[found];
    snprintf(name, sizeof name, "key %02x%02x%02x%02x%02x%02x%02x%02x", k->hash[0], k->hash[1], k->hash[2], k->hash[3],
             k->hash[4], k->hash[5], k->hash[6], k->hash[7]);
    requests = k->requests_per_minute >= 0 ? k->requests_per_minute : requests;
    characters = k->characters_per_minute >= 0 ? k->characters_per_minute : characters;
  } else {
    find_address(c, address, sizeof address);
    limits_name_address(address, name);
  }
  int32_t wait = limits_take(c->service->limits, name, clock_seconds(), requests, characters, c->characters, &which);
  if (wait > 0) {
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", wait);
    http_answer_header(c->http, "Retry-After", seconds);
    atomic_fetch_add(&c->service->metrics.slowed, 1);
    if (which == 'r') {
      reply_error(c, 429, "Slowdown: %lld per 1 minute", (long long)requests);
    } else {
      reply_error(c, 429, "Slowdown: %lld characters per 1 minute", (long long)characters);
    }
    return 0;
  }
  atomic_fetch_add(&c->service->metrics.characters, c->characters);
  return 1;
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static void handle(void *user, http_request *request)
{
  call *c = request->user;
  (void)user;
  if (c->endpoint->flags & ENDPOINT_FORM) {
    const char *problem = NULL;
    int code = parameters_read(http_header(request, "Content-Type"), request->body, request->body_size, request->query,
                               &c->parameters, &problem);
    if (code != PARAMETERS_OK) {
      reply_error(c, code, "%s", problem);
      return;
    }
  }
  if (!(c->endpoint->flags & ENDPOINT_KEY) || check_access(c)) {
    c->endpoint->handle(c);
  }
}

static void gone(void *user, http_request *request)
{
  service *s = user;
  call *c = request->user;
  atomic_fetch_add(&s->metrics.gone, 1);
  if (c) {
    cancel_work(c);
    speech_cancel(c);
  }
}

static void done(void *user, http_request *request, int status)
{
  service *s = user;
  call *c = request->user;
  if (!c) {
    return;
  }
  int32_t at = c->endpoint ? (int32_t)(c->endpoint - endpoints) : (int32_t)(sizeof endpoints / sizeof endpoints[0]) - 1;
  endpoint_metrics *m = &s->metrics.endpoints[at];
  atomic_fetch_add(&m->statuses[status >= 100 && status < 600 ? status / 100 : 0], 1);
  histogram_note(&m->seconds, clock_seconds() - request->start);
  parameters_finish(&c->parameters);
  work_release(c->work);
  speech_finish(c);
  free(c->own);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

const http_handlers router_handlers = {
    .begin = begin, .take = take, .large = large, .handle = handle, .gone = gone, .done = done};
