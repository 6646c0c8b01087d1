/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of the page, which the program has in itself (embed.py).
 */
#ifndef TESSERA_SERVE_PAGE_FILES_H
#define TESSERA_SERVE_PAGE_FILES_H

#include <stddef.h>

typedef struct page_file {
  const char *path; /* of the address: "/", "/app/page.css" */
  const char *content_type;
  const char *tag; /* the entity tag, with its quotes: another one for other bytes */
  const char *bytes;
  size_t size;
} page_file;

/* The file at a path; NULL: there is none. */
const page_file *page_file_find(const char *path);

/* 1 if a header If-None-Match (or NULL) names the tag: the client has these bytes. */
int page_file_is_known(const page_file *file, const char *if_none_match);

/* The policy that answers with a file carry: nothing comes from elsewhere, nothing stands inline. */
extern const char page_policy[];

#endif
