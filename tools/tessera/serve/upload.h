/* SPDX-License-Identifier: Apache-2.0
 *
 * A form with one file, as it comes: the file goes to a temporary one that has no name, the fields into a table. Memory
 * does not depend on the file's size.
 */
#ifndef TESSERA_SERVE_UPLOAD_H
#define TESSERA_SERVE_UPLOAD_H

#include <stdint.h>

#include "tessera/audio.h"
#include "tools/tessera/serve/multipart.h"
#include "tools/tessera/serve/parameters.h"

enum { UPLOAD_FIELDS = 1 << 16, UPLOAD_MOST_FIELDS = 64, UPLOAD_PROBLEM = 256 };

typedef struct upload {
  multipart reader;
  parameters *fields;
  int32_t has_file;
  int descriptor;             /* of the file; -1: there is none */
  int64_t size;               /* of the file */
  int64_t at;                 /* of who reads it */
  int (*is_over)(void *user); /* or NULL: 1 if it need not be read any more */
  void *user;
  /* The part that is being read. */
  int32_t is_file;
  char name[MULTIPART_NAME_ROOM];
  char *value;
  size_t value_size;
  size_t fields_size; /* of all values so far */
  int32_t n_fields;
  int status; /* of HTTP, if something is wrong; else 0 */
  char problem[UPLOAD_PROBLEM];
} upload;

/* The fields go to *fields, which outlives the upload. Returns 0 if the content type is none of a form with files. */
int upload_begin(upload *u, const char *content_type, parameters *fields);

/* The next bytes of the body. Returns 0 if something is wrong, as u->status and u->problem say. */
int upload_take(upload *u, const char *bytes, size_t size);

/* The body is whole: 0 as above, if the form is not. */
int upload_end(upload *u);
void upload_finish(upload *u);

/* Reads the file from its beginning; the upload outlives what reads. May be called again once nobody reads any more. */
tsr_audio_source upload_source(upload *u);

#endif
