/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /translate and what belongs to it.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/tessera/serve/documents_glue.h"
#include "tools/tessera/serve/service.h"
#include "tools/tessera/serve/translate.h"

/* Reads the parameters. Returns 0 after it answered. */
static int read_request(call *c, translate_request *r)
{
  static const char *const needed[] = {"q", "source", "target"};
  const parameters *p = &c->parameters;
  *r = (translate_request){.alternatives = 0};
  for (int i = 0; i < 3; i++) {
    const parameter *one = parameters_find(p, needed[i]);
    if (!one || (one->size == 0 && !one->is_element)) {
      reply_error(c, 400, "Invalid request: missing %s parameter", needed[i]);
      return 0;
    }
  }
  const char *format = parameters_text(p, "format");
  r->is_html = strcasecmp(format, "html") == 0;
  if (format[0] && !r->is_html && strcasecmp(format, "text") != 0) {
    reply_error(c, 400, "%s format is not supported", format);
    return 0;
  }
  if (!parameters_integer(p, "alternatives", &r->alternatives) || r->alternatives < 0) {
    reply_error(c, 400, "Invalid request: alternatives parameter is not a number");
    return 0;
  }
  if (r->alternatives > c->settings->alternatives_limit) {
    reply_error(c, 400, "Invalid request: alternatives parameter must be <= %d", c->settings->alternatives_limit);
    return 0;
  }
  if (!parameters_integer(p, "continuations", &r->next_words) || r->next_words < 0 || r->next_words == 1 ||
      r->next_words > 32) {
    reply_error(c, 400, "Invalid request: continuations parameter is not a number from 2 to 32");
    return 0;
  }
  const parameter *q = parameters_find(p, "q");
  c->is_list = q->is_element;
  for (int32_t i = 0; i < p->n; i++) {
    if (strcmp(p->items[i].name, "q") == 0 && p->items[i].kind == PARAMETER_OTHER) {
      reply_error(c, 400, "Invalid request: q parameter is not a text");
      return 0;
    }
  }
  if (!list_texts(p, "q", &r->texts, &r->sizes, &r->n)) {
    reply_no_memory(c);
    return 0;
  }
  r->n = c->is_list ? r->n : 1;
  if (c->settings->batch_limit > 0 && r->n > c->settings->batch_limit) {
    reply_error(c, 400, "Invalid request: request (%d) exceeds batch limit (%d)", r->n, c->settings->batch_limit);
    return 0;
  }
  int64_t characters = 0;
  for (int32_t i = 0; i < r->n; i++) {
    characters += count_characters(r->texts[i], r->sizes[i]);
  }
  if (c->settings->char_limit > 0 && characters > c->settings->char_limit) {
    reply_error(c, 400, "Invalid request: request (%lld) exceeds text limit (%lld)", (long long)characters,
                (long long)c->settings->char_limit);
    return 0;
  }
  r->prefix = parameters_text(p, "prefix");
  r->alignment = parameters_flag(p, "alignment");
  return 1;
}

void translate_finish(translate_request *r)
{
  free(r->texts);
  free(r->sizes);
}

static json_t *detected_json(const call *c)
{
  return json_pack("{s:f, s:s}", "confidence", c->confidence, "language", c->source);
}

/* One, or as many as there are texts. */
static json_t *repeat(const call *c, json_t *one, int32_t n)
{
  if (!c->is_list) {
    return one;
  }
  json_t *list = json_array();
  for (int32_t i = 0; i < n; i++) {
    json_array_append(list, one);
  }
  json_decref(one);
  return list;
}

static json_t *text_json(const work *w, int32_t text, int32_t alternative)
{
  size_t size = 0;
  char *bytes = work_text(w, text, alternative, &size);
  json_t *string = bytes ? json_stringn(bytes, size) : NULL;
  free(bytes);
  return string;
}

static json_t *alternatives_json(const work *w, int32_t text)
{
  json_t *list = json_array();
  int32_t n = work_n_alternatives(w, text);
  for (int32_t i = 1; i <= n; i++) {
    json_array_append_new(list, text_json(w, text, i));
  }
  return list;
}

/* The translation, then those that go on in another way behind the prefix. */
static json_t *continuations_json(const work *w, int32_t text)
{
  json_t *list = alternatives_json(w, text);
  json_array_insert_new(list, 0, text_json(w, text, 0));
  return list;
}

static json_t *alignment_json(const work *w, int32_t text)
{
  int32_t n = 0, *places = work_alignment(w, text, &n);
  json_t *list = json_array();
  for (int32_t i = 0; i < n; i++) {
    const int32_t *p = &places[4 * i];
    json_array_append_new(list, json_pack("{s:[i,i], s:[i,i]}", "target", p[2], p[3], "source", p[0], p[1]));
  }
  free(places);
  return list;
}

static json_t *each(const call *c, const work *w, json_t *(*of)(const work *, int32_t))
{
  if (!c->is_list) {
    return of(w, 0);
  }
  json_t *list = json_array();
  for (int32_t i = 0; i < work_n_texts(w); i++) {
    json_array_append_new(list, of(w, i));
  }
  return list;
}

static json_t *best_json(const work *w, int32_t text)
{
  return text_json(w, text, 0);
}

json_t *translate_answer(call *c, const work *w)
{
  json_t *root = json_object();
  const translate_wishes *wishes = c->own;
  if (wishes->alternatives > 0) {
    json_object_set_new(root, "alternatives", each(c, w, alternatives_json));
  }
  if (wishes->next_words > 0) {
    json_object_set_new(root, "continuations", each(c, w, continuations_json));
  }
  if (c->is_detected) {
    json_object_set_new(root, "detectedLanguage", repeat(c, detected_json(c), work_n_texts(w)));
  }
  json_object_set_new(root, "translatedText", each(c, w, best_json));
  if (wishes->alignment) {
    json_object_set_new(root, "alignment", each(c, w, alignment_json));
  }
  return root;
}

static void on_done(void *user, work *w)
{
  call *c = user;
  if (work_outcome(w) == WORK_DONE) {
    reply_json(c, 200, translate_answer(c, w));
  } else {
    reply_outcome(c, work_outcome(w));
  }
}

/* ---- HTML -------------------------------------------------------------------------------------------------------- */

static void on_html(call *c, json_t *texts)
{
  const translate_wishes *wishes = c->own;
  json_t *root = json_object(), *alternatives = json_array();
  for (size_t i = 0; i < json_array_size(texts); i++) {
    json_array_append_new(alternatives, json_array());
  }
  if (wishes->alternatives > 0) {
    json_object_set_new(root, "alternatives", c->is_list ? json_incref(alternatives) : json_array());
  }
  if (c->is_detected) {
    json_object_set_new(root, "detectedLanguage", repeat(c, detected_json(c), (int32_t)json_array_size(texts)));
  }
  json_object_set(root, "translatedText", c->is_list ? texts : json_array_get(texts, 0));
  json_decref(alternatives);
  json_decref(texts);
  reply_json(c, 200, root);
}

/* ------------------------------------------------------------------------------------------------------------------ */

/* The way from source to target, and c->own. Returns 0 after it answered. */
static int complete(call *c, size_t own_size, translate_request *r)
{
  const parameters *p = &c->parameters;
  if (!choose_route(c, r->set, parameters_text(p, "source"), parameters_text(p, "target"), r->texts, r->sizes, r->n,
                    &r->way)) {
    return 0;
  }
  translate_wishes *wishes = c->own = calloc(1, own_size);
  if (!wishes) {
    reply_no_memory(c);
    return 0;
  }
  *wishes = (translate_wishes){r->alternatives, r->next_words, r->alignment};
  return 1;
}

int translate_prepare(call *c, size_t own_size, translate_request *r)
{
  int fine = read_request(c, r);
  if (fine) {
    r->set = models_hold(c->service->models);
    fine = complete(c, own_size, r);
    if (!fine) {
      models_release(c->service->models, r->set);
    }
  }
  if (!fine) {
    translate_finish(r);
  }
  return fine;
}

void api_translate(call *c)
{
  translate_request r;
  if (!translate_prepare(c, sizeof(translate_wishes), &r)) {
    return;
  }
  if (r.is_html) {
    documents_start_html(c, r.set, &r.way, r.texts, r.sizes, r.n, on_html);
    return;
  }
  work_options options = {.alternatives = (int32_t)r.alternatives,
                          .alignment = r.alignment,
                          .prefix = r.prefix,
                          .next_words = (int32_t)r.next_words,
                          .done = on_done};
  start_work(c, r.set, &r.way, r.texts, r.sizes, r.n, &options);
  translate_finish(&r);
}
