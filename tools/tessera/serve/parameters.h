/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client sends beside the path: a JSON object, a form (urlencoded or multipart) and the query string become one
 * table of values. Nothing here reads from a network.
 */
#ifndef TESSERA_SERVE_PARAMETERS_H
#define TESSERA_SERVE_PARAMETERS_H

#include <stddef.h>
#include <stdint.h>

/* What a value was in JSON; in forms all are texts, or files. */
enum { PARAMETER_TEXT, PARAMETER_NUMBER, PARAMETER_BOOLEAN, PARAMETER_FILE, PARAMETER_OTHER };

typedef struct parameter {
  char *name;
  char *value; /* NUL-terminated; a text is UTF-8 and holds no NUL; a file's bytes are as they came */
  size_t size;
  int32_t kind;
  int32_t is_element; /* 1: of a list, which is all parameters of this name in their order */
  char *file_name;    /* of a file; else NULL */
} parameter;

typedef struct parameters {
  parameter *items;
  int32_t n;
  int32_t room;
} parameters;

enum { PARAMETERS_OK = 0, PARAMETERS_BAD = 400, PARAMETERS_NO_MEMORY = 500 };

/* Reads a request's body of the type that its header Content-Type names (NULL: none, which a body of urlencoded pairs
 * or JSON may do without), and its query string (NULL: none; without '?'). What the body has comes before what the
 * query string has. *list is filled; finish it, after an error, too. Returns PARAMETERS_*; *problem is a sentence for
 * the client then, static. */
int parameters_read(const char *content_type, const char *body, size_t size, const char *query, parameters *list,
                    const char **problem);
void parameters_finish(parameters *list);

/* Adds a text. Returns PARAMETERS_OK, PARAMETERS_BAD (there are too many) or PARAMETERS_NO_MEMORY. */
int parameters_add(parameters *list, const char *name, const char *value, size_t size);

/* The first value of that name; NULL: there is none. */
const parameter *parameters_find(const parameters *list, const char *name);

/* The text of it, "" if there is none or if it is no text or number. */
const char *parameters_text(const parameters *list, const char *name);

/* A whole number. Returns 0 if the value is none; *value stays as it is where there is no such parameter. */
int parameters_integer(const parameters *list, const char *name, int64_t *value);

/* 1 for true, 1 and their like in words. */
int parameters_flag(const parameters *list, const char *name);

#endif
