/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/report/scrub.h"

#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/platform/paths.h"

enum { NAMES = 6, NAME_ROOM = 256 };

static const char path_word[] = "(path)", id_word[] = "(id)";

/* Names that are no secret: they are the same on many machines. */
static const char *const usual[] = {"", "root", "user", "localhost", "nobody"};

/* Files' names that may stay. */
static const char *const endings[] = {".so", ".json", ".safetensors", ".spm", ".npz", ".yml", ".yaml", ".dll"};

/* ---- names ------------------------------------------------------------------------------------------------------- */

static int is_usual(const char *name)
{
  for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
    if (strcasecmp(name, usual[i]) == 0) {
      return 1;
    }
  }
  return name[1] == '\0'; /* one letter is no name */
}

typedef struct secret {
  char name[NAME_ROOM];
  const char *word; /* that takes its place */
} secret;

static void keep_secret(secret *secrets, int *n, const char *name, const char *word)
{
  if (name && !is_usual(name)) {
    snprintf(secrets[*n].name, sizeof secrets[*n].name, "%s", name);
    secrets[*n].word = word;
    (*n)++;
  }
}

/* What host and user are called. Returns how many. */
static int find_secrets(secret *secrets)
{
  char host[NAME_ROOM] = "";
  const struct passwd *user = getpwuid(getuid());
  const char *home = getenv(TSR_HOME_VARIABLE);
  int n = 0;
  gethostname(host, sizeof host - 1);
  keep_secret(secrets, &n, host, "(host)");
  host[strcspn(host, ".")] = '\0';
  keep_secret(secrets, &n, host, "(host)");
  keep_secret(secrets, &n, user ? user->pw_name : NULL, "(user)");
  keep_secret(secrets, &n, getenv("USER"), "(user)");
  keep_secret(secrets, &n, getenv("LOGNAME"), "(user)");
  keep_secret(secrets, &n, home ? tsr_path_name(home) : NULL, "(user)");
  return n;
}

static int is_part_of_word(char c)
{
  return isalnum((unsigned char)c) || c == '_' || c == '-' || (unsigned char)c >= 0x80;
}

/* The secret that begins at `at` as a word of its own, or NULL. */
static const secret *secret_at(const secret *secrets, int n, const char *text, const char *at)
{
  for (int i = 0; i < n && (at == text || !is_part_of_word(at[-1])); i++) {
    size_t length = strlen(secrets[i].name);
    if (strncasecmp(at, secrets[i].name, length) == 0 && !is_part_of_word(at[length])) {
      return &secrets[i];
    }
  }
  return NULL;
}

/* ---- paths and identifiers --------------------------------------------------------------------------------------- */

/* 1 if a token may not go on behind it. */
static int ends_token(char c)
{
  return c == '\0' || isspace((unsigned char)c) || strchr("'\"`()[]{}<>,;:=|", c) != NULL;
}

static int has_kept_ending(const char *name, size_t length)
{
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    size_t n = strlen(endings[i]);
    if (length > n && strncmp(name + length - n, endings[i], n) == 0) {
      return 1;
    }
  }
  return 0;
}

/* "GB/s" is none, "a/b/c", "a/b.json", "~/a" and "/a" are. after_path: the token before was one. */
static int is_path(const char *token, size_t length, int after_path)
{
  int slashes = 0, dots = 0;
  for (size_t i = 0; i < length; i++) {
    slashes += token[i] == '/' || token[i] == '\\';
    dots += token[i] == '.' && slashes > 0;
  }
  return slashes > 0 && length > 1 &&
         (token[0] == '/' || token[0] == '\\' || token[0] == '~' || token[0] == '.' || slashes > 1 || dots > 0 ||
          after_path);
}

/* Bytes of an identifier of the form 8-4-4-4-12 hexadecimal digits, or 0. */
static size_t identifier_length(const char *at)
{
  static const int groups[] = {8, 4, 4, 4, 12};
  size_t n = 0;
  for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
    if (g > 0 && at[n++] != '-') {
      return 0;
    }
    for (int i = 0; i < groups[g]; i++, n++) {
      if (!isxdigit((unsigned char)at[n])) {
        return 0;
      }
    }
  }
  return n;
}

static void put_path(FILE *out, const char *token, size_t length)
{
  size_t name = length;
  while (name > 0 && token[name - 1] != '/' && token[name - 1] != '\\') {
    name--;
  }
  if (has_kept_ending(token + name, length - name)) {
    fprintf(out, "%.*s", (int)(length - name), token + name);
  } else {
    fputs(path_word, out);
  }
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static char *without_paths(const char *text)
{
  char *clean = NULL;
  size_t size = 0;
  int after_path = 0;
  FILE *out = open_memstream(&clean, &size);
  for (const char *at = text; out && *at;) {
    size_t length = 0;
    while (!ends_token(at[length])) {
      length++;
    }
    if (length == 0) {
      after_path &= *at == ' ';
      fputc(*at++, out);
      continue;
    }
    after_path = is_path(at, length, after_path);
    if (after_path) {
      put_path(out, at, length);
    } else {
      fwrite(at, 1, length, out);
    }
    at += length;
  }
  return out && fclose(out) == 0 ? clean : NULL;
}

static char *without_names(const char *text)
{
  secret secrets[NAMES];
  int n = find_secrets(secrets);
  char *clean = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&clean, &size);
  for (const char *at = text; out && *at;) {
    const secret *found = secret_at(secrets, n, text, at);
    size_t identifier = identifier_length(at);
    if (found) {
      fputs(found->word, out);
      at += strlen(found->name);
    } else if (identifier) {
      fputs(id_word, out);
      at += identifier;
    } else {
      fputc(*at++, out);
    }
  }
  return out && fclose(out) == 0 ? clean : NULL;
}

char *report_scrub(const char *text)
{
  char *inner = without_paths(text);
  char *clean = inner ? without_names(inner) : NULL;
  free(inner);
  return clean;
}

json_t *report_scrub_json(const char *text)
{
  char *clean = report_scrub(text);
  json_t *value = clean ? tsr_cli_json_text(clean, strlen(clean)) : NULL;
  free(clean);
  return value;
}
