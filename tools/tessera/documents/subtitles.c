/* SPDX-License-Identifier: Apache-2.0
 *
 * .srt and .vtt. The lines of a cue are one text, or one for each speaker where lines begin with a dash. Times, names
 * and settings of cues stay, and so do notes, styles and regions.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/documents/formats.h"
#include "tools/tessera/documents/html.h"
#include "tools/tessera/documents/wrap.h"

/* A line is seldom longer than that on a screen. */
enum { WIDEST = 42 };

/* What one speaker says. */
typedef struct speech {
  const char *begin;
  const char *end; /* without the end of the last line */
  int32_t index;   /* of the paragraph */
  int32_t n_lines;
  size_t width; /* of its longest line */
  int32_t has_cr;
} speech;

typedef struct subtitles {
  doc_job *job;
  int is_vtt;
  doc_html *html;
  speech *speeches;
  size_t n;
  size_t room;
  speech open; /* that is read; begin is NULL: none */
  int64_t n_cues;
} subtitles;

/* Digits and their marks: 00:00:01,000, or 00:01.000 where hours may be missing; returns what is behind, or NULL. */
static const char *read_time(const char *at, const char *end)
{
  int parts = 0;
  for (;;) {
    const char *first = at;
    while (at < end && isdigit((unsigned char)*at)) {
      at++;
    }
    if (at == first) {
      return NULL;
    }
    parts++;
    if (at < end && *at == ':' && parts < 3) {
      at++;
    } else {
      break;
    }
  }
  if (parts < 2) {
    return NULL;
  }
  if (at < end && (*at == ',' || *at == '.')) {
    at++;
    while (at < end && isdigit((unsigned char)*at)) {
      at++;
    }
  }
  return at;
}

static const char *pass_blanks(const char *at, const char *end)
{
  while (at < end && (*at == ' ' || *at == '\t')) {
    at++;
  }
  return at;
}

static const char *find_arrow(const doc_line *line)
{
  for (size_t i = 0; i + 3 <= line->size; i++) {
    if (memcmp(line->begin + i, "-->", 3) == 0) {
      return line->begin + i;
    }
  }
  return NULL;
}

static int is_timing(const doc_line *line)
{
  const char *arrow = find_arrow(line), *end = line->begin + line->size;
  const char *at = arrow ? read_time(pass_blanks(line->begin, end), end) : NULL;
  return at && pass_blanks(at, end) == arrow && read_time(pass_blanks(arrow + 3, end), end);
}

static int is_blank_line(const doc_line *line)
{
  return pass_blanks(line->begin, line->begin + line->size) == line->begin + line->size;
}

/* "- Yes." */
static int begins_speech(const doc_line *line)
{
  const char *end = line->begin + line->size, *at = pass_blanks(line->begin, end);
  size_t left = (size_t)(end - at);
  return (left > 1 && *at == '-' && at[1] != '-') || (left > 3 && memcmp(at, "\xE2\x80\x93", 3) == 0) ||
         (left > 3 && memcmp(at, "\xE2\x80\x94", 3) == 0);
}

static tsr_status end_speech(subtitles *s)
{
  if (!s->open.begin) {
    return TSR_OK;
  }
  speech *speeches = doc_grow(s->speeches, s->n, &s->room, sizeof *speeches);
  if (!speeches) {
    return doc_no_memory();
  }
  s->speeches = speeches;
  tsr_status status =
      doc_html_add(s->html, s->open.begin, (size_t)(s->open.end - s->open.begin), &s->job->batch, &s->open.index);
  if (status == TSR_OK && s->open.index >= 0) {
    speeches[s->n++] = s->open;
  }
  s->open = (speech){0};
  return status;
}

static tsr_status add_line(subtitles *s, const doc_line *line)
{
  tsr_status status = begins_speech(line) ? end_speech(s) : TSR_OK;
  if (!s->open.begin) {
    s->open.begin = line->begin;
    const char *end = line->begin + line->size;
    if (begins_speech(line)) { /* the dash stays */
      const char *dash = pass_blanks(line->begin, end);
      s->open.begin = pass_blanks(dash + (*dash == '-' ? 1 : 3), end);
    } else if (line->size > 3 && line->begin[0] == '{' && line->begin[1] == '\\') { /* {\an8} */
      const char *close = memchr(line->begin, '}', line->size);
      s->open.begin = close ? close + 1 : line->begin;
    }
  }
  size_t width = doc_width(line->begin, line->size);
  s->open.width = width > s->open.width ? width : s->open.width;
  s->open.end = line->begin + line->size;
  s->open.has_cr = line->full > line->size + 1;
  s->open.n_lines++;
  return status;
}

static tsr_status refuse(const subtitles *s, const doc_line *line, const char *expected)
{
  int shown = line->size > 60 ? 60 : (int)line->size;
  return tsr_fail(TSR_ERR_FORMAT, "%s, line %lld: expected %s, found '%.*s'", s->job->name, (long long)line->number,
                  expected, shown, line->begin);
}

static tsr_status refuse_times(const subtitles *s, const doc_line *line)
{
  return refuse(s, line,
                s->is_vtt ? "times such as 00:01.000 --> 00:02.000" : "times such as 00:00:01,000 --> 00:00:02,000");
}

/* The first line of what stands between blank lines: a cue's, or something else. Returns in *state what follows. */
enum { OUTSIDE, AFTER_NAME, IN_CUE, IN_OTHER };

static tsr_status begin_part(subtitles *s, const doc_line *line, int *state)
{
  static const char *const others[] = {"note", "style", "region", NULL};
  if (is_timing(line)) {
    *state = IN_CUE;
    s->n_cues++;
    return TSR_OK;
  }
  if (find_arrow(line)) {
    return refuse_times(s, line);
  }
  *state = AFTER_NAME;
  for (int i = 0; others[i] && s->is_vtt; i++) {
    size_t size = strlen(others[i]);
    if (doc_starts(line->begin, line->size, others[i]) && (line->size == size || doc_is_blank(line->begin[size]))) {
      *state = IN_OTHER;
    }
  }
  return TSR_OK;
}

static int is_number(const doc_line *line)
{
  for (size_t i = 0; i < line->size; i++) {
    if (!isdigit((unsigned char)line->begin[i]) && !doc_is_blank(line->begin[i])) {
      return 0;
    }
  }
  return line->size > 0;
}

static tsr_status read_line(subtitles *s, const doc_line *line, int *state)
{
  if (is_blank_line(line)) {
    *state = *state == AFTER_NAME && !s->is_vtt ? AFTER_NAME : OUTSIDE;
    return end_speech(s);
  }
  switch (*state) {
  case OUTSIDE:
    if (!s->is_vtt && s->n_cues > 0 && !is_number(line) && !find_arrow(line)) {
      *state = IN_CUE; /* a cue with a blank line in it */
      return add_line(s, line);
    }
    return begin_part(s, line, state);
  case AFTER_NAME:
    if (is_timing(line)) {
      *state = IN_CUE;
      s->n_cues++;
      return TSR_OK;
    }
    if (!s->is_vtt || find_arrow(line)) {
      return refuse_times(s, line);
    }
    *state = IN_OTHER;
    return TSR_OK;
  case IN_CUE:
    if (is_timing(line)) { /* without a blank line before it: what came last may be its number */
      s->open = (speech){0};
      return refuse(s, line, "a blank line before the times of the next cue");
    }
    return add_line(s, line);
  default:
    return TSR_OK;
  }
}

static tsr_status read_cues(subtitles *s)
{
  doc_line line = {0};
  int state = OUTSIDE;
  tsr_status status = TSR_OK;
  while (status == TSR_OK && doc_next_line(s->job, &line)) {
    doc_line inner = line;
    if (line.number == 1 && line.size >= 3 && memcmp(line.begin, "\xEF\xBB\xBF", 3) == 0) {
      inner.begin += 3;
      inner.size -= 3;
      inner.full -= 3;
    }
    if (s->is_vtt && line.number == 1) {
      int is_header = inner.size >= 6 && memcmp(inner.begin, "WEBVTT", 6) == 0 &&
                      (inner.size == 6 || inner.begin[6] == ' ' || inner.begin[6] == '\t');
      status = is_header ? TSR_OK : refuse(s, &inner, "WEBVTT");
      state = IN_OTHER;
      continue;
    }
    status = read_line(s, &inner, &state);
  }
  if (status == TSR_OK) {
    status = end_speech(s);
  }
  if (status == TSR_OK && (s->is_vtt ? line.number == 0 : s->n_cues == 0)) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: there are no cues", s->job->name);
  }
  return status;
}

/* In as many lines as there were, or more where these would be too long. */
static void write_speech(const speech *sp, const doc_buffer *text, doc_buffer *out)
{
  size_t most = sp->width > WIDEST ? sp->width : WIDEST;
  size_t lines = (size_t)sp->n_lines, needed = doc_width(text->bytes, text->size) / most + 1;
  lines = lines > 1 && lines < needed ? needed : lines;
  size_t width = lines > 1 ? doc_even_width(text->bytes, text->size, lines) : SIZE_MAX / 2;
  doc_wrap(out, text->bytes, text->size, width, sp->has_cr ? "\r\n" : "\n");
}

static tsr_status write_cues(subtitles *s)
{
  doc_buffer *out = &s->job->out;
  const char *at = s->job->bytes;
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < s->n && status == TSR_OK; i++) {
    const speech *sp = &s->speeches[i];
    doc_buffer text = {0};
    int changed;
    status = doc_html_get(s->html, sp->index, &s->job->batch, &text, &changed);
    if (status == TSR_OK && changed) {
      status = doc_buffer_check(&text);
      doc_buffer_add(out, at, (size_t)(sp->begin - at));
      write_speech(sp, &text, out);
      at = sp->end;
    }
    doc_buffer_finish(&text);
  }
  doc_buffer_add(out, at, (size_t)(s->job->bytes + s->job->size - at));
  return status;
}

tsr_status doc_format_subtitles(doc_job *job)
{
  size_t length = strlen(job->name);
  subtitles s = {.job = job, .is_vtt = doc_starts(job->name + length - 4, 4, ".vtt")};
  tsr_status status = doc_html_new(s.is_vtt ? DOC_HTML_TIMES : DOC_HTML_PLAIN, &s.html);
  if (status == TSR_OK) {
    status = read_cues(&s);
  }
  if (status == TSR_OK) {
    status = doc_job_translate(job);
  }
  if (status == TSR_OK) {
    status = write_cues(&s);
  }
  doc_html_free(s.html);
  free(s.speeches);
  return status;
}
