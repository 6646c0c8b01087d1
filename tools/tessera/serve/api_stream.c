/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /translate/stream: server-sent events. `data: {"index": 0, "text": ".."}` for text as it comes, then the event
 * `done` with what /translate answers, or `error`.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/serve/service.h"
#include "tools/tessera/serve/translate.h"

/* Releases `data`. */
static void send_event(call *c, const char *event, json_t *data)
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

static void on_piece(void *user, int32_t text, const char *bytes, size_t size)
{
  send_event(user, NULL, json_pack("{s:i, s:s%}", "index", (int)text, "text", bytes, size));
}

static void on_done(void *user, work *w)
{
  call *c = user;
  int outcome = work_outcome(w);
  if (outcome == WORK_DONE) {
    send_event(c, "done", translate_answer(c, w));
  } else {
    send_event(
        c, "error",
        json_pack("{s:s}", "error", outcome == WORK_LATE ? "The translation took too long" : "Cannot translate text"));
  }
  http_stream_end(c->http);
  http_release(c->http);
}

void api_stream(call *c)
{
  translate_request r;
  model_set *set = NULL;
  route way = {0};
  if (!translate_prepare(c, &r, &set, &way)) {
    translate_finish(&r);
    return;
  }
  translate_wishes *wishes = calloc(1, sizeof *wishes);
  c->own = wishes;
  work *w = NULL;
  work_options options = {.prefix = r.prefix,
                          .alignment = r.alignment,
                          .deadline = call_deadline(c),
                          .piece = on_piece,
                          .done = on_done,
                          .user = c};
  int is_html = r.is_html || r.alternatives > 0 || r.next_words > 0;
  int fine = wishes && !is_html && work_create(c->service->models, set, &way, r.n, r.texts, r.sizes, &options, &w);
  translate_finish(&r);
  if (!fine) {
    models_release(c->service->models, set);
    if (is_html) {
      reply_error(c, 400, "Invalid request: a stream is text alone, without alternatives");
    } else {
      reply_error(c, 500, "The server is out of memory");
    }
    return;
  }
  wishes->alignment = options.alignment;
  if (work_lines(w) + work_lines_in_hand() > c->settings->queue) {
    work_release(w);
    reply_busy(c);
    return;
  }
  set_work(c, w);
  http_hold(c->http);
  http_suspend(c->http);
  http_answer_header(c->http, "Cache-Control", "no-cache");
  http_stream_begin(c->http, 200, "text/event-stream");
  if (!work_start(w, INT64_MAX)) {
    http_stream_end(c->http);
    http_release(c->http);
  }
}
