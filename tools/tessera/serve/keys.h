/* SPDX-License-Identifier: Apache-2.0
 *
 * API keys. A file has their hashes, never the keys; what a client sends is compared in constant time.
 */
#ifndef TESSERA_SERVE_KEYS_H
#define TESSERA_SERVE_KEYS_H

#include <stddef.h>
#include <stdint.h>

enum { KEY_SALT = 16, KEY_HASH = 32, KEY_LINE_ROOM = 128 };

typedef struct api_key {
  uint8_t salt[KEY_SALT];
  uint8_t hash[KEY_HASH];      /* SHA-256 of the salt and the key */
  int64_t requests_per_minute; /* -1: as everybody has it, likewise the next */
  int64_t characters_per_minute;
} api_key;

typedef struct api_keys {
  api_key *items;
  int32_t n;
} api_keys;

/* Reads a file: a line each, `sha256$SALT$HASH [REQUESTS [CHARACTERS]]`; empty lines and those that begin with # count
 * as none. Returns an exit code, after it printed the reason. */
int api_keys_read(const char *path, api_keys *keys);
void api_keys_finish(api_keys *keys);

/* The number of the key, from 0; -1: it is none. Takes as long for each. */
int32_t api_keys_find(const api_keys *keys, const char *key);

/* A line for the file, with a salt that is drawn. Returns 0 if nothing can be drawn. */
int api_key_line(const char *key, char line[KEY_LINE_ROOM]);

/* Draws a key of 32 letters and digits. Returns 0 if nothing can be drawn. */
int api_key_draw(char *text, size_t room);

/* `size` random letters and digits, for names that nobody guesses, and an end. Returns 0 if nothing can be drawn. */
int random_name(char *text, size_t size);

#endif
