/* SPDX-License-Identifier: Apache-2.0
 *
 * HTML and XHTML as tokens: each is a piece of the input, and all in a row are the input. Nothing is an error; what
 * makes no sense is text.
 *
 * A tokenizer of its own, for what is not translated has to stay as it is, byte for byte: parsers of HTML make trees,
 * and what they write is another page.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_MARKUP_H
#define TESSERA_TOOLS_DOCUMENTS_MARKUP_H

#include "tools/tessera/documents/buffer.h"

enum {
  DOC_TOKEN_TEXT,
  DOC_TOKEN_START, /* <p ..> */
  DOC_TOKEN_END,   /* </p> */
  DOC_TOKEN_OTHER, /* comments, declarations, processing instructions, CDATA sections */
  DOC_TOKEN_RAW    /* the content of script, style and their like */
};

typedef struct doc_token {
  int32_t kind;
  const char *begin;
  size_t size;
  const char *name; /* of an element, as it is written; not NUL-terminated */
  size_t name_size;
  int32_t is_empty; /* 1: <br/> */
} doc_token;

typedef struct doc_tokens {
  const char *at;
  const char *end;
  int32_t is_xml;
  int32_t ignores_quotes; /* a tag had no end but within quotes */
  int32_t has_no_ends;    /* no '>' comes any more */
  char raw[16];           /* the element whose content comes next, as one token; "" */
} doc_tokens;

/* The next token; 0 at the end. */
int doc_token_next(doc_tokens *tokens, doc_token *token);

/* 1 if the element's name is this one, which is lower-case. */
int doc_token_is(const doc_token *token, const char *name);

/* The value of an attribute of a start tag, between its quotes; 0: there is none. */
int doc_token_attribute(const doc_token *token, const char *name, const char **value, size_t *size);

/* What a browser takes an element for. */
enum {
  DOC_INLINE,
  DOC_BLOCK,  /* parts texts */
  DOC_VOID,   /* has no content, and stands within text */
  DOC_BREAK,  /* likewise, and parts words */
  DOC_SKIPPED /* stands within text, and its own is not translated */
};
int32_t doc_token_class(const doc_token *token);

/* 1 if the element is not to be translated: code and its like, translate="no", class="notranslate". */
int doc_token_is_skipped(const doc_token *token);

/* The character reference at text, which begins with '&': its bytes, and what it stands for; 0: it is none that is
 * known. */
size_t doc_reference(const char *text, size_t size, int32_t *character);

/* The bytes of the address of a page or of mail that stands at `text`; 0: there is none. */
size_t doc_address(const char *text, size_t size);

/* The bytes of what a program replaces at `text`: %s, %(name)d, %1, {0}, ${name}; 0: there is none. */
size_t doc_placeholder(const char *text, size_t size);

/* Adds text as markup writes it. ascii: other characters as references. */
void doc_escape(doc_buffer *out, const char *text, size_t size, int32_t ascii);

#endif
