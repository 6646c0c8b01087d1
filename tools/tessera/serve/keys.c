/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <nettle/memops.h>
#include <nettle/sha2.h>

#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"

_Static_assert(KEY_HASH == SHA256_DIGEST_SIZE, "KEY_HASH");

static void hash_key(const uint8_t *salt, const char *key, uint8_t hash[KEY_HASH])
{
  struct sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, KEY_SALT, salt);
  sha256_update(&context, strlen(key), (const uint8_t *)key);
  sha256_digest(&context, KEY_HASH, hash);
}

static int digit(char c)
{
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const char *read_hex(const char *text, uint8_t *bytes, size_t size)
{
  for (size_t i = 0; i < size; i++) {
    int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);
    if (low < 0) {
      return NULL;
    }
    bytes[i] = (uint8_t)(high << 4 | low);
  }
  return text + 2 * size;
}

/* A number behind blanks; -1 where the line ends. */
static const char *read_limit(const char *text, int64_t *limit)
{
  char *end = NULL;
  *limit = -1;
  text += strspn(text, " \t");
  if (!*text) {
    return text;
  }
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || errno || value < 0 || (*end && *end != ' ' && *end != '\t')) {
    return NULL;
  }
  *limit = value;
  return end;
}

static int read_line(const char *text, api_key *key)
{
  static const char kind[] = "sha256$";
  if (strncmp(text, kind, sizeof kind - 1) != 0) {
    return 0;
  }
  const char *at = read_hex(text + sizeof kind - 1, key->salt, KEY_SALT);
  at = at && *at == '$' ? read_hex(at + 1, key->hash, KEY_HASH) : NULL;
  at = at ? read_limit(at, &key->requests_per_minute) : NULL;
  at = at ? read_limit(at, &key->characters_per_minute) : NULL;
  return at && at[strspn(at, " \t")] == '\0';
}

int api_keys_read(const char *path, api_keys *keys)
{
  tsr_cli_lines lines;
  *keys = (api_keys){0};
  int code = tsr_cli_lines_open(&lines, path);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  for (int got = 1; code == TSR_EXIT_OK;) {
    code = tsr_cli_lines_next(&lines, &got);
    if (code != TSR_EXIT_OK || !got) {
      break;
    }
    if (lines.size == 0 || lines.text[0] == '#') {
      continue;
    }
    api_key *items = realloc(keys->items, ((size_t)keys->n + 1) * sizeof *items);
    if (!items) {
      code = tsr_cli_no_memory();
      break;
    }
    keys->items = items;
    if (!read_line(lines.text, &items[keys->n])) {
      tsr_cli_error("%s:%lld: expected sha256$SALT$HASH and perhaps two numbers, as `tessera serve --hash-key` and "
                    "`--make-key` print it",
                    path, (long long)lines.number);
      code = TSR_EXIT_INPUT;
      break;
    }
    keys->n++;
  }
  tsr_cli_lines_finish(&lines);
  if (code != TSR_EXIT_OK) {
    api_keys_finish(keys);
  }
  return code;
}

void api_keys_finish(api_keys *keys)
{
  free(keys->items);
  *keys = (api_keys){0};
}

int32_t api_keys_find(const api_keys *keys, const char *key)
{
  int32_t found = -1;
  for (int32_t i = 0; i < keys->n; i++) {
    uint8_t hash[KEY_HASH];
    hash_key(keys->items[i].salt, key, hash);
    if (memeql_sec(hash, keys->items[i].hash, KEY_HASH)) {
      found = i; /* and on, so that none takes longer */
    }
  }
  return found;
}

int api_key_line(const char *key, char line[KEY_LINE_ROOM])
{
  uint8_t salt[KEY_SALT], hash[KEY_HASH];
  if (getrandom(salt, sizeof salt, 0) != (ssize_t)sizeof salt) {
    return 0;
  }
  hash_key(salt, key, hash);
  int used = snprintf(line, KEY_LINE_ROOM, "sha256$");
  for (int i = 0; i < KEY_SALT; i++) {
    used += snprintf(line + used, (size_t)(KEY_LINE_ROOM - used), "%02x", salt[i]);
  }
  used += snprintf(line + used, (size_t)(KEY_LINE_ROOM - used), "$");
  for (int i = 0; i < KEY_HASH; i++) {
    used += snprintf(line + used, (size_t)(KEY_LINE_ROOM - used), "%02x", hash[i]);
  }
  return 1;
}

int random_name(char *text, size_t size)
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567"; /* 32: each equally likely */
  for (size_t i = 0; i < size; i++) {
    uint8_t byte;
    if (getrandom(&byte, 1, 0) != 1) {
      return 0;
    }
    text[i] = letters[byte & 31];
  }
  text[size] = '\0';
  return 1;
}

int api_key_draw(char *text, size_t room)
{
  enum { LETTERS = 32 };
  return room > LETTERS && random_name(text, LETTERS);
}
