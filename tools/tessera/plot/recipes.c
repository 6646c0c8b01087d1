/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/plot/recipes.h"

#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/pages/html.h"

void recipe_text_finish(recipe_text *recipe)
{
  for (int32_t i = 0; i < recipe->n; i++) {
    free(recipe->keys[i]);
    free(recipe->values[i]);
  }
  free(recipe->keys);
  free(recipe->values);
  *recipe = (recipe_text){0};
}

/* A value without the quotation marks around it. */
static char *plain(const char *value)
{
  size_t n = strlen(value);
  int is_quoted = n >= 2 && value[0] == '"' && value[n - 1] == '"';
  return is_quoted ? strndup(value + 1, n - 2) : strdup(value);
}

static int add(recipe_text *recipe, const char *line)
{
  const char *colon = strstr(line, ": ");
  if (!colon || colon == line || line[0] == '#') {
    return TSR_EXIT_OK;
  }
  size_t room = ((size_t)recipe->n + 1) * sizeof(char *);
  char **keys = realloc(recipe->keys, room);
  recipe->keys = keys ? keys : recipe->keys;
  char **values = realloc(recipe->values, room);
  recipe->values = values ? values : recipe->values;
  if (!keys || !values) {
    return tsr_cli_no_memory();
  }
  char *key = strndup(line, (size_t)(colon - line)), *value = plain(colon + 2);
  if (!key || !value) {
    free(key);
    free(value);
    return tsr_cli_no_memory();
  }
  keys[recipe->n] = key;
  values[recipe->n++] = value;
  return TSR_EXIT_OK;
}

int recipe_text_read(recipe_text *recipe, const char *name, const char *path)
{
  tsr_cli_lines lines;
  *recipe = (recipe_text){.name = name};
  int code = tsr_cli_lines_open(&lines, path);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  for (int got = 1; code == TSR_EXIT_OK && got;) {
    code = tsr_cli_lines_next(&lines, &got);
    if (code == TSR_EXIT_OK && got) {
      code = add(recipe, lines.text);
    }
  }
  tsr_cli_lines_finish(&lines);
  return code;
}

static const char *value_of(const recipe_text *recipe, const char *key)
{
  for (int32_t i = 0; i < recipe->n; i++) {
    if (strcmp(recipe->keys[i], key) == 0) {
      return recipe->values[i];
    }
  }
  return "";
}

/* 1 if the recipes that are not empty differ in a key. */
static int differs(const recipe_text *const *all, int32_t n, const char *key)
{
  for (int32_t i = 1; i < n; i++) {
    if (strcmp(value_of(all[i], key), value_of(all[0], key)) != 0) {
      return 1;
    }
  }
  return 0;
}

static void print_row(FILE *out, const recipe_text *const *all, int32_t n, const char *key, int is_marked)
{
  fputs(is_marked ? "<tr class='differs'><td>" : "<tr><td>", out);
  tsr_cli_html_text(out, key);
  for (int32_t i = 0; i < n; i++) {
    fputs("</td><td>", out);
    tsr_cli_html_text(out, value_of(all[i], key));
  }
  fputs("</td></tr>\n", out);
}

/* The rows that differ, or the others: of all keys that one of the recipes has, each once. */
static void print_rows(FILE *out, const recipe_text *const *all, int32_t n, int are_different)
{
  for (int32_t i = 0; i < n; i++) {
    for (int32_t k = 0; k < all[i]->n; k++) {
      const char *key = all[i]->keys[k];
      int is_known = 0;
      for (int32_t before = 0; before < i; before++) {
        for (int32_t j = 0; j < all[before]->n; j++) {
          is_known |= strcmp(all[before]->keys[j], key) == 0;
        }
      }
      if (!is_known && differs(all, n, key) == are_different) {
        print_row(out, all, n, key, are_different);
      }
    }
  }
}

int recipes_print(FILE *out, const recipe_text *recipes, int32_t n)
{
  const recipe_text **all = malloc(((size_t)n + 1) * sizeof(recipe_text *));
  int32_t n_all = 0;
  if (!all) {
    return tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < n; i++) {
    if (recipes[i].n > 0) {
      all[n_all++] = &recipes[i];
    }
  }
  if (n_all > 0) {
    fprintf(out, "<details%s><summary>%s</summary>\n<table id='recipe'>\n", n_all > 1 ? " open" : "",
            n_all > 1 ? "Recipes" : "Recipe");
    if (n_all > 1) {
      fputs("<tr><th></th>", out);
      for (int32_t i = 0; i < n_all; i++) {
        fputs("<th>", out);
        tsr_cli_html_text(out, all[i]->name);
        fputs("</th>", out);
      }
      fputs("</tr>\n", out);
    }
    print_rows(out, all, n_all, 1);
    print_rows(out, all, n_all, 0);
    fputs("</table></details>\n", out);
  }
  free(all);
  return TSR_EXIT_OK;
}
