/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that is printed while its tokens come.
 */
#ifndef TESSERA_TOOLS_TEXT_STREAM_H
#define TESSERA_TOOLS_TEXT_STREAM_H

#include "tools/tessera/text/translator.h"

/* Zero it. */
typedef struct text_stream {
  const translator *translator;
  int32_t *ids;
  int32_t n;
  int32_t room;
  size_t printed; /* bytes of this text */
  int code;       /* TSR_EXIT_OK, or why it stopped */
} text_stream;

void text_stream_finish(text_stream *stream);

/* A tsr_token_fn; user is the stream. */
int32_t text_stream_receive(void *user, const tsr_token *token);

/* The tokens of this text will come once more, from the first on; user is the stream. What was printed is not printed
 * again. */
void text_stream_restart(void *user);

/* Prints what is left of a text that is complete, and a newline, and begins anew. */
void text_stream_end(text_stream *stream, const char *text);

#endif
