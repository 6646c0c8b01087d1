/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/text_stream.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_stream_finish(text_stream *stream)
{
  free(stream->ids);
  *stream = (text_stream){0};
}

/* The code point that begins at text[*at], and *at behind it. The text is valid UTF-8. */
static uint32_t next_point(const char *text, size_t size, size_t *at)
{
  unsigned char first = (unsigned char)text[(*at)++];
  uint32_t point = first < 0x80 ? first : first < 0xE0 ? first & 0x1F : first < 0xF0 ? first & 0x0F : first & 0x07;
  while (*at < size && ((unsigned char)text[*at] & 0xC0) == 0x80) {
    point = point << 6 | ((unsigned char)text[(*at)++] & 0x3F);
  }
  return point;
}

/* Thai to Myanmar, Khmer, and from the radicals of Chinese on, less U+FFFD: words do not end with blanks there. */
static int is_without_blanks(uint32_t point)
{
  enum { REPLACEMENT = 0xFFFD };
  return (point >= 0x0E00 && point < 0x10A0) || (point >= 0x1780 && point < 0x1800) ||
         (point >= 0x2E80 && point < 0xA4D0) || (point >= 0xF900 && point < 0xFB00) ||
         (point >= 0xFF00 && point < REPLACEMENT) || (point >= 0x20000 && point < 0x40000);
}

size_t text_stream_stable(const char *text, size_t size)
{
  size_t stable = 0;
  for (size_t at = 0; at < size;) {
    size_t begin = at;
    uint32_t point = next_point(text, size, &at);
    if (point == ' ') {
      stable = begin;
    } else if (is_without_blanks(point)) {
      stable = at;
    }
  }
  return stable;
}

/* Prints up to byte `end` of the text. */
static void print_to(text_stream *stream, const char *text, size_t end)
{
  for (; stream->printed < end; stream->printed++) {
    char c = text[stream->printed];
    putchar(c == '\n' || c == '\r' ? ' ' : c);
  }
}

static int append(text_stream *stream, int32_t id)
{
  if (stream->n == stream->room) {
    int32_t room = stream->room > 0 ? 2 * stream->room : 64;
    int32_t *ids = realloc(stream->ids, (size_t)room * sizeof *ids);
    if (!ids) {
      return tsr_cli_no_memory();
    }
    stream->ids = ids;
    stream->room = room;
  }
  stream->ids[stream->n++] = id;
  return TSR_EXIT_OK;
}

int32_t text_stream_receive(void *user, const tsr_token *token)
{
  text_stream *stream = user;
  char *text = NULL;
  if (stream->code == TSR_EXIT_OK) {
    stream->code = append(stream, token->id);
  }
  if (stream->code == TSR_EXIT_OK) {
    stream->code = translator_text(stream->translator, stream->ids, stream->n, &text);
  }
  if (stream->code == TSR_EXIT_OK) {
    print_to(stream, text, text_stream_stable(text, strlen(text)));
    stream->code = tsr_cli_flush();
  }
  tsr_free(text);
  return stream->code != TSR_EXIT_OK;
}

void text_stream_restart(void *user)
{
  ((text_stream *)user)->n = 0;
}

void text_stream_end(text_stream *stream, const char *text)
{
  print_to(stream, text, strlen(text));
  putchar('\n');
  stream->n = 0;
  stream->printed = 0;
}
