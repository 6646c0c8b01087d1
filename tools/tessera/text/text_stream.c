/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/text_stream.h"
#include "core/text/settled.h"
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
    print_to(stream, text, tsr_text_settled(text, strlen(text)));
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
