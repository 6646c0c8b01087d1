/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /translate/stream: server-sent events. `data: {"index": 0, "text": ".."}` for text as it comes, then the event
 * `done` with what /translate answers, or `error`.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/serve/service.h"
#include "tools/tessera/serve/translate.h"

/* Text that came while the client lagged behind. It is told together, so that no more of it waits than there is of the
 * translation. By one thread at a time. */
typedef struct stream_state {
  translate_wishes wishes; /* first: translate_answer reads them */
  text_buffer late;
  int32_t late_text; /* whose it is */
} stream_state;

static void send_late(call *c, stream_state *s)
{
  if (s->late.size > 0) {
    send_event(c, NULL, json_pack("{s:i, s:s%}", "index", (int)s->late_text, "text", s->late.bytes, s->late.size));
    s->late.size = 0;
  }
}

static void on_piece(void *user, int32_t text, const char *bytes, size_t size)
{
  call *c = user;
  stream_state *s = c->own;
  if (s->late.size > 0 && (s->late_text != text || !http_stream_is_full(c->http))) {
    send_late(c, s);
  }
  if (http_stream_is_full(c->http)) {
    s->late_text = text;
    text_add_bytes(&s->late, bytes, size);
  } else {
    send_event(c, NULL, json_pack("{s:i, s:s%}", "index", (int)text, "text", bytes, size));
  }
}

static void on_done(void *user, work *w)
{
  call *c = user;
  int outcome = work_outcome(w);
  stream_state *s = c->own;
  if (outcome == WORK_DONE) {
    send_late(c, s);
    send_event(c, "done", translate_answer(c, w));
  } else {
    send_event(
        c, "error",
        json_pack("{s:s}", "error", outcome == WORK_LATE ? "The translation took too long" : "Cannot translate text"));
  }
  free(s->late.bytes);
  s->late = (text_buffer){.bytes = NULL};
  http_stream_end(c->http);
  http_release(c->http);
}

void api_stream(call *c)
{
  translate_request r;
  work *w = NULL;
  if (!translate_prepare(c, sizeof(stream_state), &r)) {
    return;
  }
  if (r.is_html || r.alternatives > 0 || r.next_words > 0) {
    models_release(c->service->models, r.set);
    reply_error(c, 400, "Invalid request: a stream is text alone, without alternatives");
  } else {
    work_options options = {.prefix = r.prefix, .alignment = r.alignment, .piece = on_piece, .done = on_done};
    w = prepare_work(c, r.set, &r.way, r.texts, r.sizes, r.n, &options);
  }
  translate_finish(&r);
  if (w) {
    http_hold(c->http);
    http_suspend(c->http);
    http_answer_header(c->http, "Cache-Control", "no-cache");
    http_stream_begin(c->http, 200, "text/event-stream");
    work_start(w);
  }
}
