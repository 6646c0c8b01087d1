/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/markup.h"

#include <string.h>
#include <strings.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/text/character_reference.h"

enum { TAG_LIMIT = 1 << 16, BEGINNING = 1024 };

static const size_t nowhere = SIZE_MAX;

static const char *unread(const tsr_stream *stream)
{
  return stream->window + stream->begin;
}

static size_t left(const tsr_stream *stream)
{
  return stream->end - stream->begin;
}

static int is_blank(uint32_t c)
{
  return c == ' ' || (c >= '\t' && c <= '\r');
}

static int begins(const char *text, size_t size, const char *prefix)
{
  size_t n = strlen(prefix);
  return size >= n && strncasecmp(text, prefix, n) == 0;
}

/* Fills until `size` bytes are unread, or no more come. */
static tsr_status need(tsr_stream *stream, size_t size)
{
  while (left(stream) < size && !stream->at_end) {
    TSR_TRY(tsr_stream_fill(stream));
  }
  return TSR_OK;
}

/* Where the byte is next, counted from the first unread one, at or after `from`; `nowhere` if it is not in what is
 * left, or not in about `limit` bytes. */
static tsr_status find(tsr_stream *stream, size_t from, char byte, size_t limit, size_t *at)
{
  for (;;) {
    const char *found = left(stream) > from ? memchr(unread(stream) + from, byte, left(stream) - from) : NULL;
    *at = found ? (size_t)(found - unread(stream)) : nowhere;
    if (found || stream->at_end || left(stream) > limit) {
      return TSR_OK;
    }
    from = left(stream) > from ? left(stream) : from;
    TSR_TRY(tsr_stream_fill(stream));
  }
}

static void skip(tsr_markup *m, tsr_stream *stream, size_t size)
{
  const char *at = unread(stream);
  for (const char *end = at + size; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++) {
    m->lines++;
  }
  tsr_stream_skip(stream, size);
}

static tsr_status fail(const tsr_markup *m, const tsr_stream *stream, const char *what)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s:%lld: %s", stream->name, (long long)m->lines + 1, what);
}

/* ---- tags -------------------------------------------------------------------------------------------------------- */

/* 1 for "<name ...>", whatever its case; tag: from < to >. */
static int is_tag(const char *tag, size_t size, const char *name)
{
  size_t n = strlen(name);
  return begins(tag + 1, size - 1, name) && (is_blank((unsigned char)tag[n + 1]) || strchr("/>", tag[n + 1]));
}

static size_t skip_blanks(const char *text, size_t size, size_t at)
{
  while (at < size && is_blank((unsigned char)text[at])) {
    at++;
  }
  return at;
}

static size_t skip_until(const char *text, size_t size, size_t at, const char *stops)
{
  while (at < size && !is_blank((unsigned char)text[at]) && (text[at] == '\0' || !strchr(stops, text[at]))) {
    at++;
  }
  return at;
}

/* The value of an attribute, quoted or bare, as it stands, cut to the room; 0 if the tag has no such attribute. */
static int attribute(const char *tag, size_t size, const char *name, char *value, size_t room)
{
  size_t at = skip_until(tag, size, 1, "/>");
  while (at < size && tag[at] != '>') {
    size_t key = skip_blanks(tag, size, at);
    size_t key_end = skip_until(tag, size, key, "=>");
    at = skip_blanks(tag, size, key_end);
    size_t begin = at;
    size_t end = at;
    if (at < size && tag[at] == '=') {
      begin = skip_blanks(tag, size, at + 1);
      char quote = begin < size ? tag[begin] : '\0';
      const char *closing = quote == '"' || quote == '\'' ? memchr(tag + begin + 1, quote, size - begin - 1) : NULL;
      begin += closing != NULL;
      end = closing ? (size_t)(closing - tag) : skip_until(tag, size, begin, ">");
      at = end + (closing != NULL);
    }
    if (key_end - key == strlen(name) && begins(tag + key, key_end - key, name)) {
      size_t length = end - begin < room ? end - begin : room - 1;
      memcpy(value, tag + begin, length);
      value[length] = '\0';
      return 1;
    }
  }
  return 0;
}

/* What a tag other than a segment's changes. */
static void note(tsr_markup *m, const char *tag, size_t size)
{
  static const struct {
    const char *opening;
    const char *closing;
    int32_t part;
  } parts[] = {
      {"src", "/src", TSR_TEXT_SOURCE}, {"ref", "/ref", TSR_TEXT_REFERENCE}, {"hyp", "/hyp", TSR_TEXT_HYPOTHESIS}};
  char value[sizeof m->id];
  if (is_tag(tag, size, "doc")) {
    m->left_out = attribute(tag, size, "testsuite", value, sizeof value);
    m->within = 0;
    m->begun = 0;
  }
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (is_tag(tag, size, parts[i].opening)) {
      m->within = parts[i].part;
      m->begun += parts[i].part == m->part;
    } else if (is_tag(tag, size, parts[i].closing)) {
      m->within = 0;
    }
  }
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

/* The text that `size` bytes of a segment mean. */
static tsr_status decode(tsr_markup *m, const char *bytes, size_t size, tsr_corpus_sentence *sentence)
{
  TSR_TRY(tsr_text_buffer_reserve(&m->text, 3 * size + 1));
  char *text = m->text.bytes;
  size_t used = 0;
  int blank = 0; /* since the last character */
  size_t length;
  for (size_t i = 0; i < size; i += length) {
    uint32_t c;
    length = bytes[i] == '&' ? tsr_character_reference(bytes + i, size - i, &c) : 0;
    if (length == 0) {
      c = tsr_utf8_decode(bytes + i, size - i, &length);
    }
    if (is_blank(c)) {
      blank = used > 0;
      continue;
    }
    if (blank) {
      text[used++] = ' ';
    }
    blank = 0;
    used += tsr_utf8_encode(c, text + used);
  }
  sentence->text = text;
  sentence->size = used;
  return TSR_OK;
}

/* From behind "<seg ...>" to behind "</seg>". */
static tsr_status read_segment(tsr_markup *m, tsr_stream *stream, tsr_corpus_sentence *sentence)
{
  size_t size = 0;
  for (size_t from = 0;; from = size + 1) {
    TSR_TRY(find(stream, from, '<', TSR_LINE_LIMIT, &size));
    if (size == nowhere ? left(stream) > TSR_LINE_LIMIT : size > TSR_LINE_LIMIT) {
      return tsr_fail(TSR_ERR_FORMAT, "%s:%lld: the segment that begins here has more than %d bytes", stream->name,
                      (long long)m->lines + 1, TSR_LINE_LIMIT);
    }
    if (size != nowhere) {
      TSR_TRY(need(stream, size + strlen("</seg>")));
    }
    const char *tag = size == nowhere ? "" : unread(stream) + size;
    size_t tag_size = size == nowhere ? 0 : left(stream) - size;
    if (begins(tag, tag_size, "</seg")) {
      break;
    }
    if (size == nowhere || begins(tag, tag_size, "<seg ") || begins(tag, tag_size, "<seg>") ||
        begins(tag, tag_size, "</doc")) {
      return fail(m, stream, "expected </seg> at the end of the segment that begins here, found none");
    }
  }
  size_t end;
  TSR_TRY(find(stream, size, '>', size + TAG_LIMIT, &end));
  if (end == nowhere) {
    return fail(m, stream, "expected > at the end of </seg>, found none");
  }
  if (sentence) {
    TSR_TRY(decode(m, unread(stream), size, sentence));
  }
  skip(m, stream, end + 1);
  return TSR_OK;
}

static tsr_status skip_comment(tsr_markup *m, tsr_stream *stream)
{
  skip(m, stream, strlen("<!--"));
  for (;;) {
    TSR_TRY(need(stream, strlen("-->")));
    if (left(stream) == 0) {
      return fail(m, stream, "expected --> at the end of a comment, found none");
    }
    if (begins(unread(stream), left(stream), "-->")) {
      break;
    }
    size_t at;
    TSR_TRY(find(stream, 1, '-', 0, &at));
    skip(m, stream, at == nowhere ? left(stream) : at);
  }
  skip(m, stream, strlen("-->"));
  return TSR_OK;
}

/* Goes to the next tag; *size is 0 if there is none, else its bytes from < to >. */
static tsr_status next_tag(tsr_markup *m, tsr_stream *stream, size_t *size)
{
  *size = 0;
  for (;;) {
    size_t at;
    TSR_TRY(find(stream, 0, '<', 0, &at));
    skip(m, stream, at == nowhere ? left(stream) : at);
    if (at == nowhere && stream->at_end) {
      return TSR_OK;
    }
    if (at == nowhere) {
      continue;
    }
    TSR_TRY(need(stream, strlen("<!--")));
    const char *tag = unread(stream);
    char second = left(stream) > 1 ? tag[1] : '\0';
    int letter = (second >= 'a' && second <= 'z') || (second >= 'A' && second <= 'Z');
    if (begins(tag, left(stream), "<!--")) {
      TSR_TRY(skip_comment(m, stream));
    } else if (letter || second == '/' || second == '!' || second == '?') {
      TSR_TRY(find(stream, 1, '>', TAG_LIMIT, &at));
      if (at == nowhere) {
        return fail(m, stream, "expected > at the end of the tag that begins here, found none");
      }
      *size = at + 1;
      return TSR_OK;
    } else {
      skip(m, stream, 1); /* a bare < */
    }
  }
}

tsr_status tsr_markup_next(tsr_markup *m, tsr_stream *stream, tsr_corpus_sentence *sentence, int32_t *end)
{
  TSR_TRY(tsr_lines_skip_mark(stream));
  for (;;) {
    size_t size;
    TSR_TRY(next_tag(m, stream, &size));
    *end = size == 0;
    if (*end) {
      return TSR_OK;
    }
    const char *tag = unread(stream);
    if (!is_tag(tag, size, "seg")) {
      note(m, tag, size);
      skip(m, stream, size);
      continue;
    }
    int counts = !m->left_out && (m->within == 0 || (m->within == m->part && m->begun == 1));
    int empty = tag[size - 2] == '/';
    if (!attribute(tag, size, "id", m->id, sizeof m->id)) {
      m->id[0] = '\0';
    }
    skip(m, stream, size);
    if (counts) {
      *sentence = (tsr_corpus_sentence){.text = "", .id = m->id, .part = m->within};
    }
    if (!empty) {
      TSR_TRY(read_segment(m, stream, counts ? sentence : NULL));
    }
    if (counts) {
      return TSR_OK;
    }
  }
}

tsr_status tsr_markup_detect(tsr_stream *stream, int32_t *is_markup)
{
  static const char *const endings[] = {".sgm", ".sgml", ".xml"};
  static const char *const beginnings[] = {"<?xml",   "<!doctype", "<srcset", "<refset",
                                           "<tstset", "<mteval",   "<dataset"};
  *is_markup = 1;
  size_t n = tsr_compressed_stem(stream->name);
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    size_t n_ending = strlen(endings[i]);
    if (n > n_ending && strncasecmp(stream->name + n - n_ending, endings[i], n_ending) == 0) {
      return TSR_OK;
    }
  }
  TSR_TRY(need(stream, BEGINNING));
  const char *text = unread(stream);
  size_t size = left(stream);
  size_t at = begins(text, size, "\xEF\xBB\xBF") ? 3 : 0;
  at = skip_blanks(text, size, at);
  for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
    if (begins(text + at, size - at, beginnings[i])) {
      return TSR_OK;
    }
  }
  *is_markup = 0;
  return TSR_OK;
}
