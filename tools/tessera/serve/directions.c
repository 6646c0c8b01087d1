/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/directions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"

typedef struct list {
  model_language *items;
  int32_t n;
} list;

/* Adds a language, once. own: the tokenizer's code, which is copied, or NULL. Returns 0 if memory ran out; a word that
 * is no language's name is passed over. */
static int add(list *to, const char *name, const char *own)
{
  model_language one = {0};
  if (!language_code(name, one.code)) {
    return 1;
  }
  for (int32_t i = 0; i < to->n; i++) {
    if (strcmp(to->items[i].code, one.code) == 0) {
      return 1;
    }
  }
  model_language *grown = realloc(to->items, ((size_t)to->n + 1) * sizeof *grown);
  if (!grown) {
    return 0;
  }
  to->items = grown;
  one.own = own ? strdup(own) : NULL;
  to->items[to->n++] = one;
  return !own || one.own;
}

static void drop(list *l)
{
  for (int32_t i = 0; i < l->n; i++) {
    free(l->items[i].own);
  }
  free(l->items);
  *l = (list){0};
}

/* Adds the words of a text between which one of `between` stands. */
static int add_words(list *to, const char *text, size_t size, const char *between)
{
  for (size_t at = 0; at < size;) {
    char word[LANGUAGE_ROOM + 8];
    size_t length = strcspn(text + at, between);
    length = at + length > size ? size - at : length;
    if (length > 0 && length < sizeof word) {
      memcpy(word, text + at, length);
      word[length] = '\0';
      /* >>fra<< of multilingual Marian models */
      size_t trim = strncmp(word, ">>", 2) == 0 && length > 4 ? 2 : 0;
      word[length - trim] = '\0';
      if (!add(to, word + trim, NULL)) {
        return 0;
      }
    }
    at += length + 1;
  }
  return 1;
}

/* "en-fr", "de+fr-en" */
static int add_pair(list *sources, list *targets, const char *text)
{
  const char *dash = strchr(text, '-');
  return dash && add_words(sources, text, (size_t)(dash - text), "+") &&
         add_words(targets, dash + 1, strlen(dash + 1), "+");
}

static char *read_text(const char *folder, const char *name, size_t most)
{
  char *path = path_join(folder, name), *text = path ? malloc(most + 1) : NULL;
  FILE *file = text ? fopen(path, "rb") : NULL;
  free(path);
  if (!file) {
    free(text);
    return NULL;
  }
  text[fread(text, 1, most, file)] = '\0';
  fclose(file);
  return text;
}

static json_t *read_json(const char *folder, const char *name)
{
  char *path = path_join(folder, name);
  json_error_t error = {0};
  json_t *root = path ? json_load_file(path, 0, &error) : NULL;
  if (path && !root && path_exists(path)) {
    tsr_cli_warning("%s: line %d: %s", path, error.line, error.text);
  }
  free(path);
  return root;
}

/* A text, or a list of them. */
static int add_json(list *to, const json_t *value)
{
  int fine = 1;
  if (json_is_string(value)) {
    fine = add(to, json_string_value(value), NULL);
  }
  for (size_t i = 0; i < json_array_size(value) && fine; i++) {
    const char *text = json_string_value(json_array_get(value, i));
    fine = !text || add(to, text, NULL);
  }
  return fine;
}

static int add_file(list *sources, list *targets, const char *folder, const char *name, const char *source_key,
                    const char *target_key)
{
  json_t *root = read_json(folder, name);
  int fine =
      add_json(sources, json_object_get(root, source_key)) && add_json(targets, json_object_get(root, target_key));
  json_decref(root);
  return fine;
}

/* ---- the tokenizer's --------------------------------------------------------------------------------------------- */

/* Marian's tokens name the target alone. */
static int add_tokenizer(list *sources, list *targets, const tsr_tokenizer *tokenizer)
{
  int names_source = tsr_tokenizer_chosen_language(tokenizer, TSR_SIDE_SOURCE) != NULL;
  int32_t n = tsr_tokenizer_n_languages(tokenizer);
  int fine = 1;
  if (sources->n > 0 && targets->n > 0) { /* told: the tokenizer's codes of these */
    for (int32_t i = 0; i < n; i++) {
      const char *own = tsr_tokenizer_language(tokenizer, i);
      char code[LANGUAGE_ROOM];
      for (int32_t k = 0; language_code(own, code) && k < sources->n && names_source; k++) {
        if (!sources->items[k].own && strcmp(sources->items[k].code, code) == 0) {
          sources->items[k].own = strdup(own);
        }
      }
      for (int32_t k = 0; k < targets->n; k++) {
        if (!targets->items[k].own && strcmp(targets->items[k].code, code) == 0) {
          targets->items[k].own = strdup(own);
        }
      }
    }
    return 1;
  }
  if (n == 0) {
    return 1;
  }
  drop(targets);
  for (int32_t i = 0; i < n && fine; i++) {
    const char *own = tsr_tokenizer_language(tokenizer, i);
    fine = add(targets, own, own) && (!names_source || add(sources, own, own));
  }
  return fine;
}

/* ---- README.md and the name -------------------------------------------------------------------------------------- */

/* A model's card has lines such as "* source language(s): eng", "- target languages: fr,it". */
static int add_card_line(list *to, const char *text, const char *what)
{
  for (const char *line = text; line; line = strchr(line, '\n')) {
    line += strspn(line, "\n*- \t");
    if (strncmp(line, what, strlen(what)) == 0) {
      const char *colon = strchr(line, ':');
      size_t end = strcspn(line, "\n");
      if (colon && (size_t)(colon - line) < end) {
        return add_words(to, colon + 1, end - (size_t)(colon + 1 - line), ", \t*");
      }
    }
  }
  return 1;
}

static int add_card(list *sources, list *targets, const char *folder)
{
  enum { MOST_CARD = 1 << 16 };
  char *text = read_text(folder, "README.md", MOST_CARD);
  int fine =
      !text || (add_card_line(sources, text, "source language") && add_card_line(targets, text, "target language"));
  free(text);
  return fine;
}

/* Both ends of "opus-mt-tc-big-en-fr", "translate-en_fr-1_9", "en-fr": the last two neighbouring words that both are
 * languages that the table knows. */
static int add_name(list *sources, list *targets, const char *name)
{
  const char *slash = strrchr(name, '/');
  char words[256], *parts[32];
  int n = 0;
  snprintf(words, sizeof words, "%s", slash ? slash + 1 : name);
  for (char *at = words; *at && n < 32;) {
    size_t length = strcspn(at, "-_.");
    parts[n++] = at;
    at += length;
    if (*at) {
      *at++ = '\0';
    }
  }
  for (int i = n - 2; i >= 0; i--) {
    char a[LANGUAGE_ROOM], b[LANGUAGE_ROOM], text[64];
    if (!language_code(parts[i], a) || !language_code(parts[i + 1], b)) {
      continue;
    }
    language_name(a, text, sizeof text);
    int known = strcmp(text, a) != 0;
    language_name(b, text, sizeof text);
    if (known && strcmp(text, b) != 0) {
      return (sources->n > 0 || add(sources, parts[i], NULL)) && (targets->n > 0 || add(targets, parts[i + 1], NULL));
    }
  }
  return 1;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static int add_option(list *sources, list *targets, const serve_settings *settings, const char *name)
{
  for (int32_t i = 0; i < settings->directions.n; i++) {
    const char *value = settings->directions.values[i], *equals = strchr(value, '=');
    if (equals && (size_t)(equals - value) == strlen(name) && strncmp(value, name, strlen(name)) == 0) {
      return add_pair(sources, targets, equals + 1);
    }
  }
  return 1;
}

static int is_complete(const list *sources, const list *targets)
{
  return sources->n > 0 && targets->n > 0;
}

int directions_read(const serve_settings *settings, model *m)
{
  list sources = {0}, targets = {0};
  const char *folder = m->folder;
  tsr_model *opened = NULL;
  tsr_status status = tsr_model_open(folder, &opened);
  m->hears = status == TSR_OK && tsr_model_config(opened)->mels > 0;
  if (status == TSR_OK && !tsr_model_has_weights(opened)) {
    tsr_cli_warning("%s has no weights: requests for it will fail", folder);
  }
  if (m->hears) {
    tsr_model_close(opened);
    return TSR_EXIT_OK;
  }
  int fine = add_option(&sources, &targets, settings, m->name);
  if (fine && !is_complete(&sources, &targets)) {
    fine = add_file(&sources, &targets, folder, "tessera-serve.json", "source", "target");
  }
  if (fine && !is_complete(&sources, &targets)) {
    fine = add_file(&sources, &targets, folder, "metadata.json", "from_code", "to_code");
  }
  tsr_tokenizer *tokenizer = NULL;
  if (status == TSR_OK) {
    status = tsr_tokenizer_open(opened, &tokenizer);
  }
  tsr_model_close(opened);
  if (status == TSR_OK && fine) {
    fine = add_tokenizer(&sources, &targets, tokenizer);
  }
  tsr_tokenizer_close(tokenizer);
  if (fine && !is_complete(&sources, &targets)) {
    fine = add_file(&sources, &targets, folder, "tokenizer_config.json", "source_lang", "target_lang");
  }
  if (fine && !is_complete(&sources, &targets)) {
    fine = add_card(&sources, &targets, folder);
  }
  if (fine && !is_complete(&sources, &targets)) {
    fine = add_name(&sources, &targets, m->name);
  }
  int code = fine ? TSR_EXIT_OK : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK && !is_complete(&sources, &targets)) {
    tsr_cli_warning("%s is not served: nothing says which languages it translates; --direction %s=en-fr says it, or "
                    "tessera-serve.json in it: {\"source\": \"en\", \"target\": \"fr\"}",
                    folder, m->name);
    code = TSR_EXIT_INPUT;
  } else if (code == TSR_EXIT_OK && status != TSR_OK) {
    /* Requests for it are told that it cannot be opened. */
    tsr_cli_warning("%s cannot be opened: %s", folder, tsr_error_message());
  }
  if (code != TSR_EXIT_OK) {
    drop(&sources);
    drop(&targets);
    return code;
  }
  m->sources = sources.items;
  m->n_sources = sources.n;
  m->targets = targets.items;
  m->n_targets = targets.n;
  return TSR_EXIT_OK;
}
