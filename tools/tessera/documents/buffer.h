/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes that grow. An allocation that fails is remembered, and what follows it is dropped: who fills a buffer asks
 * once, at the end. And arrays that grow.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_BUFFER_H
#define TESSERA_TOOLS_DOCUMENTS_BUFFER_H

#include <stddef.h>

#include "tessera/status.h"

/* Zero it. */
typedef struct doc_buffer {
  char *bytes; /* with a NUL behind them, once there are any */
  size_t size;
  size_t room;
  int failed;
} doc_buffer;

void doc_buffer_add(doc_buffer *buffer, const void *bytes, size_t size);
void doc_buffer_text(doc_buffer *buffer, const char *text);
void doc_buffer_char(doc_buffer *buffer, char c);
void doc_buffer_finish(doc_buffer *buffer);

/* TSR_ERR_OUT_OF_MEMORY, with its message, if something was dropped. */
tsr_status doc_buffer_check(const doc_buffer *buffer) TSR_MUST_CHECK;

/* Hands the bytes over, never NULL; after an error the buffer still has them. */
tsr_status doc_buffer_take(doc_buffer *buffer, char **bytes, size_t *size) TSR_MUST_CHECK;

tsr_status doc_no_memory(void);

/* Makes room for one more element in an array of n elements. Returns the array, or NULL, and then the old one stays. */
void *doc_grow(void *array, size_t n, size_t *room, size_t element);

/* The length of the UTF-8 character at text, of at most size bytes, and the character; 0: it is none. */
size_t doc_utf8(const char *text, size_t size, int32_t *character);

/* Adds a character as UTF-8. */
void doc_buffer_utf8(doc_buffer *buffer, int32_t character);

/* The first byte that is no UTF-8; `size` if all are. */
size_t doc_utf8_check(const char *text, size_t size);

/* Blanks as markup takes them: space, tab, LF, CR, FF. */
int doc_is_blank(char c);

/* Classes of a character. */
enum { DOC_SPACE, DOC_MARK /* punctuation, symbols, and the rest */, DOC_LETTER, DOC_DIGIT, DOC_IDEOGRAPH, DOC_JOINED };
int32_t doc_class(int32_t character);

int doc_is_lower(int32_t character);

/* 1 if there is a letter, which is what makes a text worth translating. */
int doc_has_letter(const char *text, size_t size);

/* 1 if text begins with the lower-case `word` in letters of either case. */
int doc_starts(const char *text, size_t size, const char *word);

#endif
