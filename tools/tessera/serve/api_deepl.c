/* SPDX-License-Identifier: Apache-2.0
 *
 * The API of DeepL, which many tools speak: /v2/translate, /v2/languages, /v2/usage.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/serve/documents_glue.h"
#include "tools/tessera/serve/service.h"

static void upper(const char *code, char *out)
{
  size_t i = 0;
  for (; code[i] && i + 1 < LANGUAGE_ROOM; i++) {
    out[i] = (char)(code[i] >= 'a' && code[i] <= 'z' ? code[i] - 'a' + 'A' : code[i]);
  }
  out[i] = '\0';
}

/* The language of the texts; as a source DeepL's languages have no region and no script. */
static void name_source(const call *c, char *out)
{
  upper(c->source, out);
  out[strcspn(out, "-")] = '\0';
}

static void on_done(void *user, work *w)
{
  call *c = user;
  char source[LANGUAGE_ROOM];
  if (work_outcome(w) != WORK_DONE) {
    reply_outcome(c, work_outcome(w));
    return;
  }
  name_source(c, source);
  json_t *list = json_array();
  for (int32_t i = 0; i < work_n_texts(w); i++) {
    size_t size = 0;
    char *text = work_text(w, i, 0, &size);
    json_array_append_new(list,
                          json_pack("{s:s, s:s%}", "detected_source_language", source, "text", text ? text : "", size));
    free(text);
  }
  reply_json(c, 200, json_pack("{s:o}", "translations", list));
}

/* tag_handling: html, or xml, whose tags are taken for HTML's inline ones. */
static void on_markup(call *c, json_t *texts)
{
  char source[LANGUAGE_ROOM];
  json_t *list = json_array(), *text;
  size_t i;
  name_source(c, source);
  json_array_foreach(texts, i, text)
  {
    json_array_append_new(list, json_pack("{s:s, s:O}", "detected_source_language", source, "text", text));
  }
  json_decref(texts);
  reply_json(c, 200, json_pack("{s:o}", "translations", list));
}

void api_deepl_translate(call *c)
{
  const parameters *p = &c->parameters;
  const char *target = parameters_text(p, "target_lang"), *source = parameters_text(p, "source_lang");
  const char **texts = NULL;
  size_t *sizes = NULL;
  int32_t n = 0;
  route way = {0};
  const char *tags = parameters_text(p, "tag_handling");
  int is_markup = strcmp(tags, "html") == 0 || strcmp(tags, "xml") == 0;
  if (tags[0] && !is_markup) {
    reply_error(c, 400, "Value for 'tag_handling' not supported.");
    return;
  }
  if (!list_texts(p, "text", &texts, &sizes, &n)) {
    reply_no_memory(c);
  } else if (n == 0) {
    reply_error(c, 400, "Parameter 'text' not specified.");
  } else if (!target[0]) {
    reply_error(c, 400, "Value for 'target_lang' not supported.");
  } else if (c->settings->char_limit > 0 && c->characters > c->settings->char_limit) {
    reply_error(c, 413, "Request size exceeded.");
  } else {
    model_set *set = models_hold(c->service->models);
    if (!choose_route(c, set, source[0] ? source : "auto", target, texts, sizes, n, &way)) {
      models_release(c->service->models, set);
    } else if (is_markup) {
      documents_start_html(c, set, &way, texts, sizes, n, on_markup);
      return;
    } else {
      work_options options = {.done = on_done};
      start_work(c, set, &way, texts, sizes, n, &options);
    }
  }
  free(texts);
  free(sizes);
}

void api_deepl_languages(call *c)
{
  model_set *set = models_hold(c->service->models);
  json_t *list = json_array();
  for (int32_t i = 0; i < model_set_n_languages(set); i++) {
    char code[LANGUAGE_ROOM], name[64];
    upper(model_set_language(set, i), code);
    language_name(model_set_language(set, i), name, sizeof name);
    json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "language", code, "name", name, "supports_formality", 0));
  }
  models_release(c->service->models, set);
  reply_json(c, 200, list);
}

void api_deepl_usage(call *c)
{
  reply_json(c, 200,
             json_pack("{s:I, s:I}", "character_count", (json_int_t)atomic_load(&c->service->metrics.characters),
                       "character_limit", (json_int_t)1000000000000));
}
