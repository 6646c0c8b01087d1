/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms of the type multipart/form-data (RFC 7578): what their parts are called, and a reader that takes a body piece
 * by piece, in memory that does not depend on its size. Nothing here reads from a network.
 */
#ifndef TESSERA_SERVE_MULTIPART_H
#define TESSERA_SERVE_MULTIPART_H

#include <stddef.h>

enum {
  MULTIPART_NAME_ROOM = 256,
  MULTIPART_FILE_ROOM = 512,
  MULTIPART_BOUNDARY_ROOM = 80,
  MULTIPART_HEADERS = 4096 /* bytes of a part's headers at most, where the body comes in pieces */
};

/* A part's name, and that of its file, which may be cut. */
typedef struct multipart_part {
  char name[MULTIPART_NAME_ROOM];
  char file_name[MULTIPART_FILE_ROOM];
  int is_file;
} multipart_part;

/* "\r\n--" and the boundary that a header Content-Type names. Returns 0 if it names none. */
int multipart_delimiter(const char *content_type, char delimiter[MULTIPART_BOUNDARY_ROOM + 4]);

/* Reads a part's headers, which end with an empty line. Returns their size, 0 if they are bad or not whole. */
size_t multipart_headers(const char *text, size_t size, multipart_part *one);

/* Where `what` is found in a text; NULL: nowhere. */
const char *multipart_find(const char *text, size_t size, const char *what, size_t what_size);

/* Each returns 1 to go on; 0 ends the reading. Bytes of a part come in any number of pieces, or none. */
typedef struct multipart_handlers {
  int (*begin)(void *user, const multipart_part *part);
  int (*bytes)(void *user, const char *bytes, size_t size);
  int (*end)(void *user);
  void *user;
} multipart_handlers;

enum {
  MULTIPART_MORE,   /* the body goes on */
  MULTIPART_DONE,   /* its last delimiter was read; what follows means nothing */
  MULTIPART_BAD,    /* it is no such form */
  MULTIPART_STOPPED /* by a handler */
};

/* A body that is being read. The caller's, without anything to release. */
typedef struct multipart {
  multipart_handlers handlers;
  char delimiter[MULTIPART_BOUNDARY_ROOM + 4];
  size_t mark; /* bytes of it */
  int state;
  int outcome;
  size_t used;
  size_t skipped;                 /* bytes of the buffer that end a part's headers */
  char buffer[MULTIPART_HEADERS]; /* what is not understood yet */
} multipart;

/* Returns 0 if the content type names no boundary. */
int multipart_begin(multipart *m, const char *content_type, const multipart_handlers *handlers);

/* The next piece. Returns MULTIPART_*; after all but MULTIPART_MORE, pieces change nothing. */
int multipart_take(multipart *m, const char *bytes, size_t size);

#endif
