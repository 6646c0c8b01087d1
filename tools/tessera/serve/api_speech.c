/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/audio/transcriptions and /v1/audio/translations, as OpenAI's API has them, and GET /v1/models.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/tessera/common/device.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/serve/hearing.h"
#include "tools/tessera/serve/model_set.h"
#include "tools/tessera/serve/service.h"
#include "tools/tessera/serve/upload.h"
#include "tools/tessera/text/transcript_writer.h"

/* response_format. */
enum { FORM_JSON, FORM_TEXT, FORM_SRT, FORM_VERBOSE, FORM_VTT, FORMS };
static const char *const forms[FORMS] = {"json", "text", "srt", "verbose_json", "vtt"};

/* A request with a sound. It lives as long as its call. */
typedef struct speech {
  sound sound; /* first */
  upload upload;
  call *call;
  model_set *set;
  atomic_int is_cancelled;
  atomic_int has_place; /* in the queue */
  int32_t form;
  int32_t has_segments;
  int32_t has_words;
  int32_t has_begun; /* of a stream: text was told */
} speech;

/* ---- the upload -------------------------------------------------------------------------------------------------- */

static int is_over(void *user)
{
  sound *s = &((speech *)user)->sound;
  return s->is_too_long || sound_is_over(s);
}

static int is_cancelled(segment *s)
{
  return atomic_load(&((speech *)(void *)s)->is_cancelled);
}

/* Finds a place in the queue. */
static int reserve(service *s, int32_t most)
{
  const int before = atomic_fetch_add(&s->sounds, 1);
  if (before >= most) {
    atomic_fetch_sub(&s->sounds, 1);
  }
  return before < most;
}

/* Before the answer is sent: who has it may come again. */
static void leave_queue(speech *s)
{
  if (atomic_exchange(&s->has_place, 0)) {
    atomic_fetch_sub(&s->call->service->sounds, 1);
  }
}

size_t speech_begin(call *c)
{
  const size_t most = ((size_t)c->settings->sound_limit << 20) + UPLOAD_FIELDS;
  const char *length = http_header(c->http, "Content-Length");
  if ((length && strtoull(length, NULL, 10) > most) || !check_access(c)) {
    return most; /* what is too large is told by who called this */
  }
  if (!reserve(c->service, c->settings->sound_queue)) {
    reply_busy(c);
    return most;
  }
  speech *s = calloc(1, sizeof *s);
  if (!s) {
    atomic_fetch_sub(&c->service->sounds, 1);
    reply_no_memory(c);
    return most;
  }
  c->speech = s;
  s->call = c;
  atomic_init(&s->is_cancelled, 0);
  atomic_init(&s->has_place, 1);
  s->sound.segment.is_cancelled = is_cancelled;
  s->sound.segment.deadline = c->http->start + c->settings->sound_timeout;
  if (!upload_begin(&s->upload, http_header(c->http, "Content-Type"), &c->parameters)) {
    reply_error(c, 415, "The body must be a form of the type multipart/form-data");
  }
  s->upload.is_over = is_over;
  s->upload.user = s;
  return most;
}

int speech_take(call *c, const char *bytes, size_t size)
{
  upload *u = &c->speech->upload;
  if (!upload_take(u, bytes, size)) {
    reply_error(c, u->status, "%s", u->problem);
  }
  return 1;
}

void speech_cancel(call *c)
{
  if (c->speech) {
    atomic_store(&c->speech->is_cancelled, 1);
  }
}

void speech_finish(call *c)
{
  speech *s = c->speech;
  if (!s) {
    return;
  }
  tsr_audio_close(s->sound.audio);
  upload_finish(&s->upload);
  if (s->set) {
    models_release(c->service->models, s->set);
  }
  leave_queue(s);
  free(s);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

/* Without blanks at its ends; the whole transcript's, as text. NULL: memory ran out. */
static char *whole_text(const tsr_transcript *transcript)
{
  char *text = writer_text(transcript);
  if (text) {
    const char *begin = text;
    while (isspace((unsigned char)*begin)) {
      begin++;
    }
    size_t size = strlen(begin);
    while (size > 0 && isspace((unsigned char)begin[size - 1])) {
      size--;
    }
    memmove(text, begin, size);
    text[size] = '\0';
  }
  return text;
}

/* A word without the blank before it. */
static json_t *word_json(const tsr_speech_word *word)
{
  const char *text = word->text;
  while (isspace((unsigned char)*text)) {
    text++;
  }
  return json_pack("{s:o, s:o, s:o}", "word", tsr_cli_json_text(text, strlen(text)), "start",
                   tsr_cli_json_real(word->start), "end", tsr_cli_json_real(word->end));
}

/* As writer_segment_json, without what OpenAI's segments lack. */
static json_t *segment_json(int32_t number, const tsr_segment *one)
{
  json_t *root = writer_segment_json(number, one);
  json_object_del(root, "words");
  if (isnan(one->no_speech)) { /* clients expect a number */
    json_object_set_new(root, "no_speech_prob", json_real(0));
  }
  return root;
}

static json_t *verbose_json(const speech *s, const tsr_transcript *transcript, json_t *text)
{
  const int is_translation = s->sound.wishes.task == TSR_SPEECH_TRANSLATE;
  const char *code = is_translation || !transcript->language ? "en" : transcript->language;
  const char *name = tsr_speech_language_name(code);
  json_t *root = json_pack("{s:s, s:s, s:o, s:o}", "task", is_translation ? "translate" : "transcribe", "language",
                           name ? name : code, "duration", tsr_cli_json_real(transcript->duration), "text", text);
  json_t *segments = json_array(), *words = json_array();
  for (int32_t i = 0; i < transcript->n_segments; i++) {
    const tsr_segment *one = &transcript->segments[i];
    json_array_append_new(segments, segment_json(i, one));
    for (int32_t k = 0; k < one->n_words; k++) {
      json_array_append_new(words, word_json(&one->words[k]));
    }
  }
  if (s->has_segments) {
    json_object_set(root, "segments", segments);
  }
  if (s->has_words) {
    json_object_set(root, "words", words);
  }
  json_decref(segments);
  json_decref(words);
  return root;
}

/* Releases `text`. Numbers are as `tessera transcribe` writes them. */
static void answer_verbose(const speech *s, json_t *text)
{
  json_t *root = verbose_json(s, s->sound.transcript, text);
  char *bytes = root ? json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
  json_decref(root);
  http_answer(s->call->http, 200, "application/json", bytes, bytes ? strlen(bytes) : 0);
}

/* Subtitles; *size is their length. NULL: memory ran out. */
static char *subtitles(int32_t form, const tsr_transcript *transcript, size_t *size)
{
  char *bytes = NULL;
  writer w = {.file = open_memstream(&bytes, size), .form = form};
  if (!w.file) {
    return NULL;
  }
  int done = 1;
  writer_begin(&w);
  for (int32_t i = 0; done && i < transcript->n_segments; i++) {
    done = writer_segment(&w, &transcript->segments[i]);
  }
  if (fclose(w.file) != 0 || !done) {
    free(bytes);
    bytes = NULL;
  }
  return bytes;
}

static void answer_text(call *c, char *bytes, size_t size)
{
  http_answer(c->http, 200, "text/plain; charset=utf-8", bytes, size);
}

static void answer(speech *s)
{
  call *c = s->call;
  const tsr_transcript *transcript = s->sound.transcript;
  size_t size = 0;
  if (s->form == FORM_SRT || s->form == FORM_VTT) {
    char *bytes = subtitles(s->form == FORM_SRT ? WRITER_SRT : WRITER_VTT, transcript, &size);
    answer_text(c, bytes, size);
    return;
  }
  char *text = whole_text(transcript);
  size = text ? strlen(text) : 0;
  if (s->form == FORM_TEXT) {
    if (text) {
      text[size++] = '\n';
    }
    answer_text(c, text, size);
    return;
  }
  json_t *value = text ? tsr_cli_json_text(text, size) : NULL;
  free(text);
  if (c->is_stream) {
    send_event(c, NULL, json_pack("{s:s, s:o}", "type", "transcript.text.done", "text", value));
    http_stream_end(c->http);
  } else if (s->form == FORM_VERBOSE) {
    answer_verbose(s, value);
  } else {
    reply_json(c, 200, json_pack("{s:o}", "text", value));
  }
}

/* Text of a stream. The first one begins without a blank. */
static void on_piece(sound *of, const char *text, size_t size)
{
  speech *s = (speech *)(void *)of;
  while (!s->has_begun && size > 0 && isspace((unsigned char)*text)) {
    text++;
    size--;
  }
  if (size > 0) {
    s->has_begun = 1;
    send_event(s->call, NULL,
               json_pack("{s:s, s:o}", "type", "transcript.text.delta", "delta", tsr_cli_json_text(text, size)));
  }
}

static void reply_too_long(call *c)
{
  reply_openai(c, 413, "file", "audio_too_long", "The sound is longer than %g seconds", c->settings->sound_seconds);
}

/* Why a sound cannot be read: what is missing here, or what is wrong with it. Clients are not told which folders were
 * searched. */
static void reply_unreadable(call *c, tsr_status status, const char *told)
{
  static const char name[] = "file: ", searched[] = "; searched: ";
  char message[1024];
  const int has_name = strncmp(told, name, sizeof name - 1) == 0;
  snprintf(message, sizeof message, "%s", has_name ? told + sizeof name - 1 : told);
  char *folders = strstr(message, searched);
  if (folders) {
    const char *rest = strchr(folders + sizeof searched - 1, ';');
    memmove(folders, rest ? rest : "", rest ? strlen(rest) + 1 : 1);
  }
  if (status == TSR_ERR_PLUGIN || status == TSR_ERR_UNSUPPORTED) {
    if (folders) {
      tsr_cli_warning("a sound was not read: %s", told);
    }
    reply_openai(c, 415, "file", "unsupported_format", "Invalid file format: %s", message);
  } else if (status == TSR_ERR_FORMAT) {
    reply_openai(c, 400, "file", "invalid_file", "Invalid file: %s", message);
  } else {
    tsr_cli_warning("a sound was not read: %s", told);
    reply_openai(c, 500, "file", NULL, "The file cannot be read");
  }
}

static void on_done(segment *of, int outcome, const tsr_translation *unused)
{
  speech *s = (speech *)(void *)of;
  call *c = s->call;
  http_request *http = c->http;
  (void)unused;
  leave_queue(s);
  if (outcome == SEGMENT_DONE) {
    answer(s);
  } else if (outcome == SEGMENT_LATE) {
    atomic_fetch_add(&c->service->metrics.late, 1);
    if (!c->is_stream) { /* OpenAI's clients send what failed again, twice: it would take as long */
      http_answer_header(http, "X-Should-Retry", "false");
    }
    reply_openai(c, 504, NULL, "timeout", "The sound took longer than %g seconds", c->settings->sound_timeout);
  } else if (s->sound.is_too_long) {
    reply_too_long(c);
  } else if (outcome == SEGMENT_REFUSED && s->sound.status != TSR_OK) {
    reply_unreadable(c, s->sound.status, s->sound.problem);
  } else if (outcome == SEGMENT_REFUSED && s->sound.problem[0]) {
    reply_openai(c, 400, s->sound.param, NULL, "%s", s->sound.problem);
  } else if (outcome == SEGMENT_REFUSED) {
    reply_openai(c, 500, "model", NULL, "The model is not available");
  } else { /* the client has left, or something went wrong here */
    reply_openai(c, 500, NULL, NULL, "The sound was not heard");
  }
  http_release(http);
}

/* ---- the request ------------------------------------------------------------------------------------------------- */

/* The model that a client names: with one model of speech, whatever it says. NULL: after it answered. */
static model *choose_model(speech *s)
{
  call *c = s->call;
  const char *name = parameters_text(&c->parameters, "model");
  model *only = model_set_speech(s->set, 0);
  if (!only) {
    reply_openai(c, 404, "model", "model_not_found", "This server has no model of speech");
    return NULL;
  }
  for (int32_t i = 0; model_set_speech(s->set, i); i++) {
    model *one = model_set_speech(s->set, i);
    if (strcmp(one->name, name) == 0) {
      return one;
    }
  }
  if (model_set_speech(s->set, 1)) {
    if (name[0]) {
      reply_openai(c, 404, "model", "model_not_found", "There is no model of speech '%.100s'; see GET /v1/models",
                   name);
    } else {
      reply_openai(c, 400, "model", NULL, "Invalid request: missing model parameter; see GET /v1/models");
    }
    return NULL;
  }
  return only;
}

/* Each returns 0 after it answered. */

static int read_form(speech *s)
{
  const char *name = parameters_text(&s->call->parameters, "response_format");
  s->form = FORM_JSON;
  while (name[0] && s->form < FORMS && strcmp(forms[s->form], name) != 0) {
    s->form++;
  }
  if (s->form == FORMS) {
    reply_openai(s->call, 400, "response_format", NULL,
                 "Invalid request: response_format must be json, text, srt, verbose_json or vtt, not '%.100s'", name);
    return 0;
  }
  return 1;
}

static int read_granularities(speech *s)
{
  static const char name[] = "timestamp_granularities";
  const size_t size = sizeof name - 1;
  const parameters *all = &s->call->parameters;
  int32_t n = 0;
  for (int32_t i = 0; i < all->n; i++) {
    const parameter *one = &all->items[i];
    if (strncmp(one->name, name, size) != 0 || (one->name[size] && strcmp(one->name + size, "[]") != 0)) {
      continue;
    }
    const int is_word = strcmp(one->value, "word") == 0;
    if (!is_word && strcmp(one->value, "segment") != 0) {
      reply_openai(s->call, 400, name, NULL, "Invalid request: %s must be segment or word, not '%.100s'", name,
                   one->value);
      return 0;
    }
    *(is_word ? &s->has_words : &s->has_segments) = 1;
    n++;
  }
  if (n > 0 && s->form != FORM_VERBOSE) {
    reply_openai(s->call, 400, name, NULL, "Invalid request: %s need the response_format verbose_json", name);
    return 0;
  }
  s->has_segments |= n == 0;
  s->sound.wishes.words = s->has_words;
  return 1;
}

static int read_temperature(speech *s)
{
  const char *text = parameters_text(&s->call->parameters, "temperature");
  char *end = NULL;
  const double value = text[0] ? strtod(text, &end) : 0;
  if (text[0] && (*end || !(value >= 0 && value <= 1))) {
    reply_openai(s->call, 400, "temperature", NULL,
                 "Invalid request: temperature must be a number from 0 to 1, not '%.100s'", text);
    return 0;
  }
  s->sound.wishes.temperature = (float)value;
  return 1;
}

static int read_wishes(speech *s)
{
  call *c = s->call;
  sound_wishes *wishes = &s->sound.wishes;
  const char *language = parameters_text(&c->parameters, "language");
  const char *prompt = parameters_text(&c->parameters, "prompt");
  if (!read_form(s) || !read_granularities(s) || !read_temperature(s)) {
    return 0;
  }
  if (!s->upload.has_file) {
    reply_openai(c, 400, "file", NULL, "Invalid request: missing file parameter");
    return 0;
  }
  c->is_stream = 0;
  if (parameters_flag(&c->parameters, "stream")) {
    if (s->form != FORM_JSON) {
      reply_openai(c, 400, "stream", NULL, "Invalid request: a stream needs the response_format json");
      return 0;
    }
    s->sound.piece = on_piece;
  }
  wishes->task =
      strcmp(c->endpoint->path, "/v1/audio/translations") == 0 ? TSR_SPEECH_TRANSLATE : TSR_SPEECH_TRANSCRIBE;
  wishes->language = language[0] && strcasecmp(language, "auto") != 0 ? language : NULL;
  wishes->prompt = prompt[0] ? prompt : NULL;
  return 1;
}

/* In a thread of the pool: finding out what a file is may take a moment. */
static void submit(void *user)
{
  speech *s = user;
  call *c = s->call;
  const tsr_audio_options options = {TSR_SIZED(tsr_audio_options), .plugins_path = tsr_cli_audio_path()};
  const tsr_audio_source source = upload_source(&s->upload);
  const tsr_status status = tsr_audio_open_source("file", &source, &options, &s->sound.audio);
  tsr_audio_info info = {.samples = -1};
  if (status == TSR_OK) {
    tsr_audio_describe(s->sound.audio, &info);
  }
  if (status != TSR_OK && sound_is_over(&s->sound)) { /* its reading was given up */
    on_done(&s->sound.segment, is_cancelled(&s->sound.segment) ? SEGMENT_CANCELLED : SEGMENT_LATE, NULL);
    return;
  }
  if (status != TSR_OK) {
    reply_unreadable(c, status, tsr_error_message());
  } else if (s->sound.most_seconds > 0 && (double)info.samples > s->sound.most_seconds * TSR_AUDIO_RATE) {
    reply_too_long(c);
  } else {
    if (s->sound.piece) {
      c->is_stream = 1;
      http_answer_header(c->http, "Cache-Control", "no-cache");
      http_stream_begin(c->http, 200, "text/event-stream");
    }
    models_submit(c->service->models, &s->sound.segment);
    return;
  }
  http_release(c->http);
}

void api_audio(call *c)
{
  speech *s = c->speech;
  if (!s) { /* its headers were answered */
    reply_no_memory(c);
    return;
  }
  if (!upload_end(&s->upload)) {
    reply_error(c, s->upload.status, "%s", s->upload.problem);
    return;
  }
  if (!read_wishes(s)) {
    return;
  }
  s->set = models_hold(c->service->models);
  s->sound.segment.model = choose_model(s);
  if (!s->sound.segment.model) {
    return;
  }
  s->sound.segment.done = on_done;
  s->sound.most_seconds = c->settings->sound_seconds;
  http_hold(c->http);
  http_suspend(c->http);
  if (!pool_add(c->service->sound_pool, submit, s)) {
    reply_busy(c);
    http_release(c->http);
  }
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static json_t *model_json(const model *one)
{
  return json_pack("{s:o, s:s, s:I, s:s}", "id", tsr_cli_json_text(one->name, strlen(one->name)), "object", "model",
                   "created", (json_int_t)one->created, "owned_by", "tessera");
}

void api_openai_models(call *c)
{
  model_set *set = models_hold(c->service->models);
  json_t *list = json_array();
  for (int32_t i = 0; model_set_speech(set, i); i++) {
    json_array_append_new(list, model_json(model_set_speech(set, i)));
  }
  models_release(c->service->models, set);
  reply_json(c, 200, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

void api_openai_model(call *c)
{
  model_set *set = models_hold(c->service->models);
  const char *name = c->http->path + strlen("/v1/models/");
  json_t *found = NULL;
  for (int32_t i = 0; !found && model_set_speech(set, i); i++) {
    const model *one = model_set_speech(set, i);
    found = strcmp(one->name, name) == 0 ? model_json(one) : NULL;
  }
  models_release(c->service->models, set);
  if (found) {
    reply_json(c, 200, found);
  } else {
    reply_openai(c, 404, "model", "model_not_found", "There is no model of speech '%.200s'", name);
  }
}
