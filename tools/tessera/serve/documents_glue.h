/* SPDX-License-Identifier: Apache-2.0
 *
 * Between requests and documents: HTML and files, whose texts go the way of the request.
 */
#ifndef TESSERA_SERVE_DOCUMENTS_GLUE_H
#define TESSERA_SERVE_DOCUMENTS_GLUE_H

#include "tools/tessera/serve/service.h"

/* Where the texts of a document go; for a thread of the pool. */
typedef struct documents_way {
  call *call;
  model_set *set;
  route way;
} documents_way;

/* Releases the set. */
void documents_way_finish(documents_way *way);

/* Translates n texts of HTML by a thread of the pool; the call is suspended. The arrays, which are allocated, and the
 * set are taken over. `done` takes over the translations, an array of texts, and answers; what goes wrong is answered
 * here. */
void documents_start_html(call *c, model_set *set, const route *way, const char **texts, size_t *sizes, int32_t n,
                          void (*done)(call *c, json_t *texts));

/* Translates a file, of the format that its name ends with. Returns a status of HTTP: 200 and the result, which is
 * allocated; else what is wrong, in `problem` if that is a sentence for the client. */
int documents_file(documents_way *way, const char *name, const void *bytes, size_t size, void **result,
                   size_t *result_size, char *problem, size_t room);

/* Endings of names that are taken, with their dots; NULL ends the list. */
const char *const *documents_formats(void);

/* Answers with what is wrong. */
void documents_reply(call *c, int status, const char *problem);

#endif
