/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client asks about the server and about texts: languages, detection, settings, load; and suggestions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/tessera/common/json.h"
#include "tools/tessera/serve/clock.h"
#include "tools/tessera/serve/detect.h"
#include "tools/tessera/serve/devices.h"
#include "tools/tessera/serve/documents_glue.h"
#include "tools/tessera/serve/hearing.h"
#include "tools/tessera/serve/model_set.h"
#include "tools/tessera/serve/service.h"

void api_detect(call *c)
{
  const parameter *q = parameters_find(&c->parameters, "q");
  detected found[DETECT_MOST];
  if (!q || q->size == 0) {
    reply_error(c, 400, "Invalid request: missing q parameter");
    return;
  }
  if (c->settings->char_limit > 0 && c->characters > c->settings->char_limit) {
    reply_error(c, 400, "Invalid request: request (%lld) exceeds text limit (%lld)", (long long)c->characters,
                (long long)c->settings->char_limit);
    return;
  }
  model_set *set = models_hold(c->service->models);
  json_t *list = json_array();
  int n = detect_language(q->value, q->size, found);
  for (int i = 0; i < n; i++) {
    if (model_set_knows(set, found[i].code) || model_set_n_languages(set) == 0) {
      json_array_append_new(list,
                            json_pack("{s:f, s:s}", "confidence", found[i].confidence, "language", found[i].code));
    }
  }
  if (json_array_size(list) == 0) {
    json_array_append_new(list, json_pack("{s:f, s:s}", "confidence", 0.0, "language", "en"));
  }
  models_release(c->service->models, set);
  reply_json(c, 200, list);
}

void api_languages(call *c)
{
  model_set *set = models_hold(c->service->models);
  size_t size = 0;
  const char *text = model_set_languages_json(set, &size);
  char *copy = malloc(size + 1);
  if (copy) {
    memcpy(copy, text, size + 1);
  }
  models_release(c->service->models, set);
  http_answer(c->http, 200, "application/json", copy, size);
}

void api_health(call *c)
{
  static const char ok[] = "{\"status\": \"ok\"}";
  http_answer_static(c->http, 200, "application/json", ok, sizeof ok - 1);
}

void api_frontend_settings(call *c)
{
  const serve_settings *s = c->settings;
  model_set *set = models_hold(c->service->models);
  const char *target =
      model_set_knows(set, "en") || model_set_n_languages(set) == 0 ? "en" : model_set_language(set, 0);
  char name[64];
  json_t *formats = json_array();
  language_name(target, name, sizeof name);
  for (const char *const *one = documents_formats(); *one; one++) {
    json_array_append_new(formats, json_string(*one));
  }
  json_t *speech = json_array();
  for (int32_t i = 0; model_set_speech(set, i); i++) {
    const char *one = model_set_speech(set, i)->name;
    json_array_append_new(speech, tsr_cli_json_text(one, strlen(one)));
  }
  json_t *language = json_pack("{s:{s:s, s:s}, s:{s:s, s:s}}", "source", "code", "auto", "name", "Auto Detect",
                               "target", "code", target, "name", name);
  models_release(c->service->models, set);
  reply_json(c, 200,
             json_pack("{s:b, s:I, s:b, s:i, s:b, s:o, s:b, s:o, s:o, s:i}", "apiKeys", c->state->keys.n > 0,
                       "charLimit", (json_int_t)(s->char_limit > 0 ? s->char_limit : -1), "filesTranslation",
                       s->files != 0, "frontendTimeout", 500, "keyRequired", s->key_required != 0, "language", language,
                       "suggestions", s->suggestions != NULL, "supportedFilesFormat", formats, "speechModels", speech,
                       "soundLimit", (int)s->sound_limit));
}

void api_suggest(call *c)
{
  static const char *const needed[] = {"q", "s", "source", "target"};
  if (!c->settings->suggestions) {
    reply_error(c, 403, "Suggestions are disabled on this server.");
    return;
  }
  json_t *root = json_pack("{s:I}", "time", (json_int_t)time(NULL));
  for (int i = 0; i < 4; i++) {
    const parameter *one = parameters_find(&c->parameters, needed[i]);
    if (!one || one->size == 0 || one->kind != PARAMETER_TEXT) {
      json_decref(root);
      reply_error(c, 400, "Invalid request: missing %s parameter", needed[i]);
      return;
    }
    json_object_set_new(root, needed[i], json_stringn(one->value, one->size));
  }
  char *line = json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER);
  json_decref(root);
  pthread_mutex_lock(&c->service->suggesting);
  FILE *file = line ? fopen(c->settings->suggestions, "ab") : NULL;
  int is_written = file && fprintf(file, "%s\n", line) > 0;
  is_written = file ? fclose(file) == 0 && is_written : 0;
  pthread_mutex_unlock(&c->service->suggesting);
  free(line);
  if (is_written) {
    reply_json(c, 200, json_pack("{s:b}", "success", 1));
  } else {
    reply_error(c, 500, "The suggestion could not be kept");
  }
}

/* ---- load -------------------------------------------------------------------------------------------------------- */

static void print_number(text_buffer *b, const char *name, const char *kind, const char *help, double value)
{
  text_add(b, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, kind, name, value);
}

static void print_endpoints(text_buffer *b, metrics *m)
{
  text_add(b, "# HELP tessera_requests_total Answers, by the hundreds of their status.\n"
              "# TYPE tessera_requests_total counter\n");
  int n = 0;
  for (; endpoints[n].method; n++) {
    for (int status = 2; status < 6; status++) {
      text_add(b, "tessera_requests_total{method=\"%s\",endpoint=\"%s\",status=\"%dxx\"} %lld\n", endpoints[n].method,
               endpoints[n].path, status, (long long)atomic_load(&m->endpoints[n].statuses[status]));
    }
  }
  text_add(b, "tessera_requests_total{method=\"\",endpoint=\"\",status=\"4xx\"} %lld\n",
           (long long)atomic_load(&m->endpoints[n].statuses[4]));
  text_add(b, "# HELP tessera_request_seconds From a request's line to the end of its answer.\n"
              "# TYPE tessera_request_seconds histogram\n");
  for (int i = 0; i < n; i++) {
    char labels[96];
    snprintf(labels, sizeof labels, "method=\"%s\",endpoint=\"%s\"", endpoints[i].method, endpoints[i].path);
    histogram_print(b, "tessera_request_seconds", labels, &m->endpoints[i].seconds);
  }
}

void api_metrics(call *c)
{
  service *s = c->service;
  metrics *m = &s->metrics;
  models_statistics all;
  device_list devices;
  text_buffer b = {0};
  if (!c->settings->metrics) {
    reply_error(c, 403, "Metrics are disabled on this server.");
    return;
  }
  models_measure(s->models, &all);
  const tsr_translator_statistics *t = &all.translators;
  print_endpoints(&b, m);
  print_number(&b, "tessera_characters_total", "counter", "Characters of requests.",
               (double)atomic_load(&m->characters));
  print_number(&b, "tessera_queue_full_total", "counter", "Requests refused, for too much was in hand.",
               (double)atomic_load(&m->queue_full));
  print_number(&b, "tessera_late_total", "counter", "Requests that took too long.", (double)atomic_load(&m->late));
  print_number(&b, "tessera_gone_total", "counter", "Clients that left before their answer.",
               (double)atomic_load(&m->gone));
  print_number(&b, "tessera_slowed_total", "counter", "Requests refused by limits.", (double)atomic_load(&m->slowed));
  print_number(&b, "tessera_source_tokens_total", "counter", "Tokens read.", (double)t->source_tokens);
  print_number(&b, "tessera_target_tokens_total", "counter", "Tokens written.", (double)t->target_tokens);
  print_number(&b, "tessera_texts_total", "counter", "Texts answered by translators.", (double)t->answered);
  print_number(&b, "tessera_steps_total", "counter", "Decoding steps.", (double)t->step_runs);
  print_number(&b, "tessera_step_rows_total", "counter", "Texts in decoding steps; by steps: the batches' occupancy.",
               (double)t->rows);
  print_number(&b, "tessera_waiting", "gauge", "Parts of texts that wait.", (double)t->waiting);
  print_number(&b, "tessera_running", "gauge", "Parts of texts in batches.", (double)t->running);
  hearing_statistics heard;
  hearing_measure(&heard);
  print_number(&b, "tessera_sounds_total", "counter", "Sounds that were heard.", (double)heard.sounds);
  print_number(&b, "tessera_sound_seconds_total", "counter", "Seconds of sound that were heard.", heard.seconds);
  print_number(&b, "tessera_sound_runs_total", "counter", "Runs in which one or several sounds were heard.",
               (double)heard.runs);
  print_number(&b, "tessera_sounds_in_hand", "gauge", "Sounds that come, wait or are heard.", atomic_load(&s->sounds));
  print_number(&b, "tessera_sounds_running", "gauge", "Sounds that are being heard.", heard.running);
  print_number(&b, "tessera_lines_in_hand", "gauge", "Lines accepted and not answered.", (double)work_lines_in_hand());
  print_number(&b, "tessera_stream_bytes", "gauge", "Of streams, that wait until their clients read them.",
               (double)http_stream_bytes(s->http));
  print_number(&b, "tessera_connections", "gauge", "Open connections.", (double)http_connections(s->http));
  print_number(&b, "tessera_active_requests", "gauge", "Requests that are not answered.", (double)http_active(s->http));
  print_number(&b, "tessera_models", "gauge", "Model folders.", all.n_models);
  print_number(&b, "tessera_models_open", "gauge", "Models that are open.", all.n_open);
  print_number(&b, "tessera_model_bytes", "gauge", "Weights of open models.", (double)all.open_bytes);
  print_number(&b, "tessera_models_opened_total", "counter", "Models opened.", (double)all.opened);
  print_number(&b, "tessera_models_evicted_total", "counter", "Models closed for others.", (double)all.evicted);
  print_number(&b, "tessera_failures_total", "counter", "Devices that failed, models not opened.",
               (double)all.failures);
  models_devices(s->models, &devices);
  devices_print(&b, &devices);
  print_number(&b, "tessera_uptime_seconds", "gauge", "Since the start.", clock_seconds() - s->start);
  http_answer(c->http, 200, "text/plain; version=0.0.4", b.has_failed ? NULL : b.bytes, b.size);
  if (b.has_failed) {
    free(b.bytes);
  }
}

void api_status(call *c)
{
  models_statistics all;
  device_list devices;
  if (!c->settings->metrics) {
    reply_error(c, 403, "Metrics are disabled on this server.");
    return;
  }
  models_measure(c->service->models, &all);
  models_devices(c->service->models, &devices);
  reply_json(c, 200,
             json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:f}", "devices", devices_json(&devices), "models",
                       models_describe(c->service->models), "linesInHand", (json_int_t)work_lines_in_hand(), "waiting",
                       (json_int_t)all.translators.waiting, "running", (json_int_t)all.translators.running,
                       "targetTokens", (json_int_t)all.translators.target_tokens, "connections",
                       (json_int_t)http_connections(c->service->http), "uptime", clock_seconds() - c->service->start));
}
