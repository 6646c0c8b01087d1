/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/service.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/tessera/serve/clock.h"
#include "tools/tessera/serve/detect.h"

/* ---- answers ----------------------------------------------------------------------------------------------------- */

void reply_json(call *c, int status, json_t *root)
{
  char *text = root ? json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
  json_decref(root);
  http_answer(c->http, status, "application/json", text, text ? strlen(text) : 0);
}

/* What an error of OpenAI's API says beside its message. */
static json_t *openai_error(int status, json_t *message, const char *param, const char *code)
{
  const char *type = status == 429 ? "requests" : status < 500 ? "invalid_request_error" : "server_error";
  if (!code) {
    code = status == 401 ? "invalid_api_key" : status == 429 ? "rate_limit_exceeded" : NULL;
  }
  return json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", message, "type", type, "param", param, "code",
                   code);
}

static json_t *make_error(const call *c, int status, const char *param, const char *code, const char *format,
                          va_list arguments)
{
  char message[512];
  vsnprintf(message, sizeof message, format, arguments);
  /* What the client sent may have been cut within a character. */
  char clean[3 * sizeof message];
  size_t used = tsr_utf8_clean(message, strlen(message), clean);
  json_t *text = json_stringn(clean, used);
  return c->is_openai ? openai_error(status, text, param, code)
                      : json_pack("{s:o}", c->is_deepl ? "message" : "error", text);
}

void reply_error(call *c, int status, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  json_t *root = make_error(c, status, NULL, NULL, format, arguments);
  va_end(arguments);
  reply_json(c, status, root);
}

void reply_openai(call *c, int status, const char *param, const char *code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  json_t *root = make_error(c, status, param, code, format, arguments);
  va_end(arguments);
  if (c->is_stream) {
    send_event(c, NULL, root);
    http_stream_end(c->http);
  } else {
    reply_json(c, status, root);
  }
}

void send_event(call *c, const char *event, json_t *data)
{
  char *text = data ? json_dumps(data, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
  json_decref(data);
  text_buffer b = {0};
  if (text && event) {
    text_add(&b, "event: %s\ndata: %s\n\n", event, text);
  } else if (text) {
    text_add(&b, "data: %s\n\n", text);
  }
  if (!b.has_failed && b.bytes) {
    http_stream_write(c->http, b.bytes, b.size);
  }
  free(b.bytes);
  free(text);
}

void reply_no_memory(call *c)
{
  reply_error(c, 500, "The server is out of memory");
}

void reply_busy(call *c)
{
  http_answer_header(c->http, "Retry-After", "1");
  if (atomic_load(&c->service->is_draining)) {
    reply_error(c, 503, "The server is shutting down");
  } else {
    atomic_fetch_add(&c->service->metrics.queue_full, 1);
    reply_error(c, 503, "The server is busy, try again");
  }
}

void reply_outcome(call *c, int outcome)
{
  switch (outcome) {
  case WORK_LATE:
    atomic_fetch_add(&c->service->metrics.late, 1);
    reply_error(c, 504, "The translation took longer than %g seconds", c->settings->timeout);
    break;
  case WORK_REFUSED:
    reply_error(c, 500, "Cannot translate text: the model for %s to %s is not available", c->source, c->target);
    break;
  case WORK_CANCELLED: /* the client has left: nobody reads it */
    reply_error(c, 500, "The request was cancelled");
    break;
  default:
    reply_error(c, 500, "Cannot translate text");
  }
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

int64_t count_characters(const char *text, size_t size)
{
  int64_t n = 0;
  for (size_t i = 0; i < size; i++) {
    n += ((unsigned char)text[i] & 0xc0) != 0x80;
  }
  return n;
}

int list_texts(const parameters *list, const char *name, const char ***texts, size_t **sizes, int32_t *n)
{
  *texts = calloc((size_t)list->n + 1, sizeof **texts);
  *sizes = calloc((size_t)list->n + 1, sizeof **sizes);
  *n = 0;
  for (int32_t i = 0; i < list->n && *texts && *sizes; i++) {
    const parameter *one = &list->items[i];
    if (strcmp(one->name, name) == 0 && one->kind != PARAMETER_FILE) {
      (*texts)[*n] = one->value;
      (*sizes)[(*n)++] = one->size;
    }
  }
  return *texts && *sizes;
}

void choose_language(const model_set *set, const char *text, size_t size, char code[LANGUAGE_ROOM], double *confidence)
{
  detected found[DETECT_MOST];
  int n = detect_language(text, size, found);
  for (int i = 0; i < n; i++) {
    if (model_set_knows(set, found[i].code)) {
      strcpy(code, found[i].code);
      *confidence = found[i].confidence;
      return;
    }
  }
  strcpy(code, "en");
  *confidence = 0.0;
}

/* All texts as one, of which the beginning is enough. */
static int detect_texts(call *c, const model_set *set, const char *const *texts, const size_t *sizes, int32_t n)
{
  enum { ENOUGH = 1 << 15 };
  size_t size = 0, used = 0;
  for (int32_t i = 0; i < n && size < ENOUGH; i++) {
    size += sizes[i] + 1;
  }
  char *all = malloc(size + 1);
  if (!all) {
    reply_no_memory(c);
    return 0;
  }
  for (int32_t i = 0; used < size; i++) {
    memcpy(all + used, texts[i], sizes[i]);
    used += sizes[i];
    all[used++] = '\n';
  }
  choose_language(set, all, used, c->source, &c->confidence);
  free(all);
  c->is_detected = 1;
  return 1;
}

/* A language of the set by the name that a client gives it. */
static int find_language(const model_set *set, const char *name, char code[LANGUAGE_ROOM])
{
  if (!language_code(name, code)) {
    return 0;
  }
  if (!model_set_knows(set, code) && strcmp(code, "pt-BR") == 0) { /* Portuguese is what there is */
    strcpy(code, "pt");
  }
  return model_set_knows(set, code);
}

int choose_route(call *c, const model_set *set, const char *source, const char *target, const char *const *texts,
                 const size_t *sizes, int32_t n, route *way)
{
  int is_auto = strcasecmp(source, "auto") == 0;
  if (!is_auto && !find_language(set, source, c->source)) {
    reply_error(c, 400, "%s is not supported", source);
    return 0;
  }
  if (!find_language(set, target, c->target)) {
    reply_error(c, 400, "%s is not supported", target);
    return 0;
  }
  if (is_auto && !detect_texts(c, set, texts, sizes, n)) {
    return 0;
  }
  if (strcmp(c->source, c->target) != 0 && !model_set_route(set, c->source, c->target, way)) {
    char from[64], to[64];
    language_name(c->source, from, sizeof from);
    language_name(c->target, to, sizeof to);
    reply_error(c, 400, "%s (%s) is not available as a target language from %s (%s)", to, c->target, from, c->source);
    return 0;
  }
  if (strcmp(c->source, c->target) == 0) {
    *way = (route){0};
  }
  return 1;
}

double call_deadline(const call *c)
{
  return c->http->start + c->settings->timeout;
}

void set_work(call *c, work *w)
{
  pthread_mutex_lock(&c->lock);
  work *before = c->work;
  c->work = w;
  pthread_mutex_unlock(&c->lock);
  work_release(before);
}

void cancel_work(call *c)
{
  pthread_mutex_lock(&c->lock);
  work *w = c->work;
  if (w) {
    work_hold(w);
  }
  pthread_mutex_unlock(&c->lock);
  if (w) {
    work_cancel(w);
    work_release(w);
  }
}

int reserve_work(call *c, work *w)
{
  if (work_lines(w) > c->settings->queue) {
    reply_error(c, 400, "Invalid request: request (%d lines) exceeds the server's queue (%d)", work_lines(w),
                c->settings->queue);
    return 0;
  }
  if (!work_reserve(w, c->settings->queue)) {
    reply_busy(c);
    return 0;
  }
  return 1;
}

work *prepare_work(call *c, model_set *set, const route *way, const char *const *texts, const size_t *sizes, int32_t n,
                   work_options *options)
{
  work *w = NULL;
  options->deadline = call_deadline(c);
  options->user = c;
  if (!work_create(c->service->models, set, way, n, texts, sizes, options, &w)) {
    models_release(c->service->models, set);
    reply_no_memory(c);
    return NULL;
  }
  if (!reserve_work(c, w)) {
    work_release(w);
    return NULL;
  }
  set_work(c, w);
  return w;
}

void start_work(call *c, model_set *set, const route *way, const char *const *texts, const size_t *sizes, int32_t n,
                work_options *options)
{
  work *w = prepare_work(c, set, way, texts, sizes, n, options);
  if (w) {
    http_suspend(c->http);
    work_start(w);
  }
}
