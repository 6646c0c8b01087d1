/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/transcript_writer.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/json.h"

const char *const writer_forms[] = {"txt", "srt", "vtt", "tsv", "json", NULL};

static const char blanks[] = " \t\r\n";

/* What stands for a byte of a text; NULL: itself. */
static const char *stand_in(int32_t form, char byte)
{
  switch (byte) {
  case '\r':
  case '\n':
    return " ";
  case '\t':
    return form == WRITER_TXT || form == WRITER_TSV ? " " : NULL;
  case '&':
    return form == WRITER_VTT ? "&amp;" : NULL;
  case '<':
    return form == WRITER_VTT ? "&lt;" : NULL;
  case '>':
    return form == WRITER_VTT ? "&gt;" : NULL;
  default:
    return NULL;
  }
}

/* A text of which no part is taken for a sign of the form, without blanks at its ends. SubRip has no other writing for
 * an arrow: it becomes shorter. The caller frees it; NULL: memory ran out. */
static char *clean(const char *text, int32_t form)
{
  enum { LONGEST = 5 /* of the stand-ins */ };
  static const char arrow[] = "-->";
  const size_t length = sizeof arrow - 1;
  text += strspn(text, blanks);
  size_t size = strlen(text), used = 0;
  while (size > 0 && strchr(blanks, text[size - 1])) {
    size--;
  }
  char *copy = size < SIZE_MAX / LONGEST ? malloc(LONGEST * size + 1) : NULL;
  if (!copy) {
    return NULL;
  }
  for (size_t i = 0; i < size; i++) {
    const char *other = stand_in(form, text[i]);
    const size_t n = other ? strlen(other) : 1;
    memcpy(copy + used, other ? other : text + i, n);
    used += n;
    while (form == WRITER_SRT && used >= length && memcmp(copy + used - length, arrow, length) == 0) {
      copy[used - 2] = '>';
      used--;
    }
  }
  copy[used] = '\0';
  return copy;
}

/* "01:02:03,456"; the hours are left out where they may be and are 0. */
static void write_time(FILE *file, double seconds, char point, int always_has_hours)
{
  const long long ms = llround(fmax(seconds, 0) * 1000);
  const long long hours = ms / 3600000;
  if (hours > 0 || always_has_hours) {
    fprintf(file, "%02lld:", hours);
  }
  fprintf(file, "%02lld:%02lld%c%03lld", ms / 60000 % 60, ms / 1000 % 60, point, ms % 1000);
}

static void write_span(const writer *w, const tsr_segment *segment)
{
  const int is_srt = w->form == WRITER_SRT;
  write_time(w->file, segment->start, is_srt ? ',' : '.', is_srt);
  fputs(" --> ", w->file);
  write_time(w->file, segment->end, is_srt ? ',' : '.', is_srt);
  putc('\n', w->file);
}

void writer_begin(writer *w)
{
  if (w->form == WRITER_VTT) {
    fputs("WEBVTT\n\n", w->file);
  } else if (w->form == WRITER_TSV) {
    fputs("start\tend\ttext\n", w->file);
  }
}

int writer_segment(writer *w, const tsr_segment *segment)
{
  const int is_subtitle = w->form == WRITER_SRT || w->form == WRITER_VTT;
  w->n_taken++;
  if (w->form == WRITER_JSON) {
    return 1;
  }
  char *text = clean(segment->text, w->form);
  if (!text) {
    return 0;
  }
  if (*text) {
    w->n_written++;
    if (w->form == WRITER_SRT) {
      fprintf(w->file, "%d\n", (int)w->n_written);
    } else if (w->form == WRITER_TSV) {
      fprintf(w->file, "%lld\t%lld\t", llround(segment->start * 1000), llround(segment->end * 1000));
    }
    if (is_subtitle) {
      write_span(w, segment);
    }
    fprintf(w->file, "%s\n%s", text, is_subtitle ? "\n" : "");
  }
  free(text);
  return 1;
}

static json_t *words_json(const tsr_segment *s)
{
  json_t *list = json_array();
  for (int32_t i = 0; i < s->n_words; i++) {
    const tsr_speech_word *word = &s->words[i];
    json_array_append_new(list,
                          json_pack("{s:o, s:o, s:o, s:o}", "word", tsr_cli_json_text(word->text, strlen(word->text)),
                                    "start", tsr_cli_json_real(word->start), "end", tsr_cli_json_real(word->end),
                                    "probability", tsr_cli_json_real(word->probability)));
  }
  return list;
}

json_t *writer_segment_json(int32_t number, const tsr_segment *s)
{
  const double millionth = 1e-6;
  const double temperature = round((double)s->temperature / millionth) * millionth; /* as it was asked for: 0.2 */
  json_t *tokens = json_array();
  for (int32_t i = 0; tokens && i < s->n_tokens; i++) {
    json_array_append_new(tokens, json_integer(s->tokens[i]));
  }
  json_t *root = json_pack("{s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id", (int)number, "seek",
                           (json_int_t)llround(s->window * 100), "start", tsr_cli_json_real(s->start), "end",
                           tsr_cli_json_real(s->end), "text", tsr_cli_json_text(s->text, strlen(s->text)), "tokens",
                           tokens, "temperature", tsr_cli_json_real(temperature), "avg_logprob",
                           tsr_cli_json_real(s->average_logprob), "compression_ratio",
                           tsr_cli_json_real(s->compression_ratio), "no_speech_prob", tsr_cli_json_real(s->no_speech));
  if (root && s->words) {
    json_object_set_new(root, "words", words_json(s));
  }
  return root;
}

char *writer_text(const tsr_transcript *transcript)
{
  size_t size = 2, used = 0;
  for (int32_t i = 0; i < transcript->n_segments; i++) {
    size += strlen(transcript->segments[i].text);
  }
  char *text = malloc(size);
  for (int32_t i = 0; text && i < transcript->n_segments; i++) {
    const size_t n = strlen(transcript->segments[i].text);
    memcpy(text + used, transcript->segments[i].text, n);
    used += n;
  }
  if (text) {
    text[used] = '\0';
  }
  return text;
}

int writer_end(writer *w, const char *name, const tsr_transcript *transcript)
{
  if (w->form != WRITER_JSON) {
    return 1;
  }
  char *text = writer_text(transcript), *line = NULL;
  json_t *segments = json_array();
  for (int32_t i = 0; i < transcript->n_segments; i++) {
    json_array_append_new(segments, writer_segment_json(i, &transcript->segments[i]));
  }
  if (text && json_array_size(segments) == (size_t)transcript->n_segments) {
    json_t *root = json_pack("{s:o, s:o, s:s?, s:o, s:o, s:O}", "file", tsr_cli_json_text(name, strlen(name)), "text",
                             tsr_cli_json_text(text, strlen(text)), "language", transcript->language,
                             "language_probability", tsr_cli_json_real(transcript->language_probability), "duration",
                             tsr_cli_json_real(transcript->duration), "segments", segments);
    line = json_dumps(root, JSON_REAL_PRECISION(9));
    json_decref(root);
  }
  if (line) {
    fprintf(w->file, "%s\n", line);
  }
  const int done = line != NULL;
  free(line);
  free(text);
  json_decref(segments);
  return done;
}
