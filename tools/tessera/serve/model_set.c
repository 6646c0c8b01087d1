/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds model folders, and what they translate from and into.
 */
#include "tools/tessera/serve/model_set.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/serve/directions.h"

enum { MOST_DEPTH = 4, MOST_MODELS = 30000 };

typedef struct scan {
  const serve_settings *settings;
  model_find find;
  void *user;
  model_set *set;
  int32_t n_folders; /* of models, also of those that were left out */
} scan;

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static int ends_with(const char *name, const char *end)
{
  size_t size = strlen(name), length = strlen(end);
  return size >= length && strcmp(name + size - length, end) == 0;
}

static int is_model_file(const char *name)
{
  return strcmp(name, "config.json") == 0 || strcmp(name, "decoder.yml") == 0 || ends_with(name, ".npz");
}

static int is_weights(const char *name)
{
  return ends_with(name, ".safetensors") || ends_with(name, ".bin") || ends_with(name, ".npz") ||
         ends_with(name, ".pt");
}

/* What a folder holds, as far as it matters for whether it has changed. */
typedef struct content {
  int is_model;
  uint64_t stamp;
  int64_t bytes;
  int64_t created;
} content;

static uint64_t mix(uint64_t hash, uint64_t value)
{
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
  for (; *text; text++) {
    hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
  }
  return hash;
}

static int look_at(const char *folder, content *found)
{
  *found = (content){0};
  DIR *dir = opendir(folder);
  if (!dir) {
    return 0;
  }
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    struct stat info;
    char *path = path_join(folder, entry->d_name);
    if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
      found->is_model |= is_model_file(entry->d_name);
      found->bytes += is_weights(entry->d_name) ? (int64_t)info.st_size : 0;
      found->created = found->created > (int64_t)info.st_mtim.tv_sec ? found->created : (int64_t)info.st_mtim.tv_sec;
      /* The order in which the system lists files does not matter. */
      found->stamp += mix(mix(mix_text(1469598103934665603u, entry->d_name), (uint64_t)info.st_size),
                          (uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec);
    }
    free(path);
  }
  closedir(dir);
  return 1;
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */

static void free_languages(model_language *languages, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    free(languages[i].own);
  }
  free(languages);
}

void model_free(model *m)
{
  if (m) {
    free(m->folder);
    free(m->name);
    free_languages(m->sources, m->n_sources);
    free_languages(m->targets, m->n_targets);
    free(m->problem);
    free(m);
  }
}

static int add_model(scan *s, model *m)
{
  model_set *set = s->set;
  model **grown = realloc(set->models, ((size_t)set->n_models + 1) * sizeof(model *));
  if (!grown) {
    return tsr_cli_no_memory();
  }
  set->models = grown;
  set->models[set->n_models++] = m;
  return TSR_EXIT_OK;
}

static int take_folder(scan *s, const char *folder, const char *name, const content *found)
{
  const serve_settings *settings = s->settings;
  s->n_folders++;
  /* What the command line says of its languages is part of what it is. */
  uint64_t stamp = found->stamp;
  for (int32_t i = 0; i < settings->directions.n; i++) {
    stamp = mix(stamp, mix_text(0, settings->directions.values[i]));
  }
  model *m = s->find(s->user, folder, stamp);
  if (m) {
    return add_model(s, m);
  }
  m = calloc(1, sizeof *m);
  if (!m) {
    return tsr_cli_no_memory();
  }
  m->folder = strdup(folder);
  m->name = strdup(name);
  m->stamp = stamp;
  m->bytes = found->bytes;
  m->created = found->created;
  int code = m->folder && m->name ? directions_read(settings, m) : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK && (m->hears || m->n_sources > 0)) {
    code = add_model(s, m);
    m = code == TSR_EXIT_OK ? NULL : m;
  }
  model_free(m);
  return code == TSR_EXIT_INPUT ? TSR_EXIT_OK : code; /* it was told, and left out */
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The folders within one, sorted. */
static int list_folders(const char *folder, char ***names, int32_t *n)
{
  DIR *dir = opendir(folder);
  int code = TSR_EXIT_OK;
  for (struct dirent *entry; dir && code == TSR_EXIT_OK && (entry = readdir(dir)) != NULL;) {
    char *path = entry->d_name[0] == '.' ? NULL : path_join(folder, entry->d_name);
    if (path && path_is_folder(path)) {
      char **grown = realloc(*names, ((size_t)*n + 1) * sizeof(char *));
      char *name = grown ? strdup(entry->d_name) : NULL;
      *names = grown ? grown : *names;
      if (name) {
        (*names)[(*n)++] = name;
      } else {
        code = tsr_cli_no_memory();
      }
    }
    free(path);
  }
  if (dir) {
    closedir(dir);
  }
  if (*n > 1) {
    qsort(*names, (size_t)*n, sizeof(char *), compare_names);
  }
  return code;
}

static int scan_folder(scan *s, const char *folder, const char *name, int depth)
{
  content found;
  if (!look_at(folder, &found) || s->set->n_models >= MOST_MODELS) {
    return TSR_EXIT_OK;
  }
  if (found.is_model) {
    return take_folder(s, folder, name[0] ? name : folder, &found);
  }
  char **names = NULL;
  int32_t n = 0;
  int code = depth < MOST_DEPTH ? list_folders(folder, &names, &n) : TSR_EXIT_OK;
  for (int32_t i = 0; i < n; i++) {
    char *path = code == TSR_EXIT_OK ? path_join(folder, names[i]) : NULL;
    char *below = path && name[0] ? path_join(name, names[i]) : path ? strdup(names[i]) : NULL;
    if (code == TSR_EXIT_OK) {
      code = below ? scan_folder(s, path, below, depth + 1) : tsr_cli_no_memory();
    }
    free(below);
    free(path);
    free(names[i]);
  }
  free(names);
  return code;
}

/* ---- languages --------------------------------------------------------------------------------------------------- */

static int compare_codes(const void *a, const void *b)
{
  return strcmp(a, b);
}

static int32_t index_of(const model_set *set, const char *code)
{
  const char *found =
      set->n_codes > 0 ? bsearch(code, set->codes, (size_t)set->n_codes, sizeof *set->codes, compare_codes) : NULL;
  return found ? (int32_t)((found - set->codes[0]) / LANGUAGE_ROOM) : -1;
}

static int collect_codes(model_set *set)
{
  size_t room = 1;
  for (int32_t i = 0; i < set->n_models; i++) {
    room += (size_t)(set->models[i]->n_sources + set->models[i]->n_targets);
  }
  set->codes = calloc(room, sizeof *set->codes);
  if (!set->codes) {
    return tsr_cli_no_memory();
  }
  int32_t n = 0;
  for (int32_t i = 0; i < set->n_models; i++) {
    const model *m = set->models[i];
    for (int32_t k = 0; k < m->n_sources; k++) {
      strcpy(set->codes[n++], m->sources[k].code);
    }
    for (int32_t k = 0; k < m->n_targets; k++) {
      strcpy(set->codes[n++], m->targets[k].code);
    }
  }
  qsort(set->codes, (size_t)n, sizeof *set->codes, compare_codes);
  for (int32_t i = 0; i < n; i++) {
    if (set->n_codes == 0 || strcmp(set->codes[set->n_codes - 1], set->codes[i]) != 0) {
      memmove(set->codes[set->n_codes++], set->codes[i], LANGUAGE_ROOM);
    }
  }
  return TSR_EXIT_OK;
}

/* A model of few directions knows them better than one of many; of two with as many the first by name. */
static int fill_best(model_set *set)
{
  int32_t n = set->n_codes;
  set->best = malloc(((size_t)n * (size_t)n + 1) * sizeof *set->best);
  if (!set->best) {
    return tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < n * n; i++) {
    set->best[i] = -1;
  }
  for (int32_t i = 0; i < set->n_models; i++) {
    const model *m = set->models[i];
    int64_t pairs = (int64_t)m->n_sources * m->n_targets;
    for (int32_t a = 0; a < m->n_sources; a++) {
      int32_t from = index_of(set, m->sources[a].code);
      for (int32_t b = 0; b < m->n_targets; b++) {
        int32_t to = index_of(set, m->targets[b].code);
        int16_t *place = &set->best[from * n + to];
        const model *other = *place >= 0 ? set->models[*place] : NULL;
        if (from != to && (!other || (int64_t)other->n_sources * other->n_targets > pairs)) {
          *place = (int16_t)i;
        }
      }
    }
  }
  return TSR_EXIT_OK;
}

static int32_t best_of(const model_set *set, int32_t from, int32_t to)
{
  return set->best[from * set->n_codes + to];
}

/* The language between two; -1: there is none. */
static int32_t between(const model_set *set, int32_t from, int32_t to)
{
  int32_t english = index_of(set, "en");
  if (english >= 0 && best_of(set, from, english) >= 0 && best_of(set, english, to) >= 0) {
    return english;
  }
  for (int32_t i = 0; i < set->n_codes; i++) {
    if (best_of(set, from, i) >= 0 && best_of(set, i, to) >= 0) {
      return i;
    }
  }
  return -1;
}

static void set_hop(const model_set *set, route *found, int32_t from, int32_t to)
{
  model *m = set->models[best_of(set, from, to)];
  int32_t at = found->n_hops++;
  found->hops[at].model = m;
  for (int32_t i = 0; i < m->n_sources; i++) {
    if (strcmp(m->sources[i].code, set->codes[from]) == 0) {
      found->hops[at].source = m->sources[i].own;
    }
  }
  for (int32_t i = 0; i < m->n_targets; i++) {
    if (strcmp(m->targets[i].code, set->codes[to]) == 0) {
      found->hops[at].target = m->targets[i].own;
    }
  }
}

int model_set_route(const model_set *set, const char *source, const char *target, route *found)
{
  *found = (route){0};
  int32_t from = index_of(set, source), to = index_of(set, target);
  if (from < 0 || to < 0) {
    return 0;
  }
  if (from == to) {
    return 1;
  }
  if (best_of(set, from, to) >= 0) {
    set_hop(set, found, from, to);
    return 1;
  }
  int32_t middle = between(set, from, to);
  if (middle < 0) {
    return 0;
  }
  set_hop(set, found, from, middle);
  set_hop(set, found, middle, to);
  return 1;
}

int32_t model_set_n_languages(const model_set *set)
{
  return set->n_codes;
}

const char *model_set_language(const model_set *set, int32_t index)
{
  return set->codes[index];
}

int model_set_knows(const model_set *set, const char *code)
{
  return index_of(set, code) >= 0;
}

model *model_set_speech(const model_set *set, int32_t index)
{
  for (int32_t i = 0; i < set->n_models; i++) {
    if (set->models[i]->hears && index-- == 0) {
      return set->models[i];
    }
  }
  return NULL;
}

const char *model_set_languages_json(const model_set *set, size_t *size)
{
  *size = set->json_size;
  return set->json;
}

static int describe(model_set *set)
{
  json_t *list = json_array();
  for (int32_t i = 0; i < set->n_codes; i++) {
    char name[64];
    json_t *targets = json_array();
    for (int32_t k = 0; k < set->n_codes; k++) {
      if (k == i || best_of(set, i, k) >= 0 || between(set, i, k) >= 0) {
        json_array_append_new(targets, json_string(set->codes[k]));
      }
    }
    language_name(set->codes[i], name, sizeof name);
    json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "code", set->codes[i], "name", name, "targets", targets));
  }
  set->json = json_dumps(list, JSON_COMPACT);
  json_decref(list);
  set->json_size = set->json ? strlen(set->json) : 0;
  return set->json ? TSR_EXIT_OK : tsr_cli_no_memory();
}

int32_t model_set_print(const model_set *set)
{
  for (int32_t i = 0; i < set->n_models; i++) {
    const model *m = set->models[i];
    if (m->hears) {
      printf("%s: speech\n", m->name);
      continue;
    }
    printf("%s: ", m->name);
    for (int32_t k = 0; k < m->n_sources; k++) {
      printf("%s%s", k > 0 ? " " : "", m->sources[k].code);
    }
    fputs(" ->", stdout);
    for (int32_t k = 0; k < m->n_targets; k++) {
      printf(" %s", m->targets[k].code);
    }
    putchar('\n');
  }
  return set->n_models;
}

/* ------------------------------------------------------------------------------------------------------------------ */

void model_set_free(model_set *set)
{
  if (set) {
    free(set->models);
    free(set->codes);
    free(set->best);
    free(set->json);
    free(set);
  }
}

/* Of directions whose folder is not there: a name that is misspelt would leave its model out. */
static int warn_of_directions(const serve_settings *settings)
{
  for (int32_t i = 0; i < settings->directions.n; i++) {
    const char *value = settings->directions.values[i];
    char *name = strndup(value, strcspn(value, "="));
    char *path = name ? path_join(settings->models, name) : NULL;
    int is_there = path && (path_is_folder(path) || strcmp(name, settings->models) == 0);
    if (path && !is_there) {
      tsr_cli_warning("--direction %s: there is no folder %s", value, path);
    }
    int has_memory = path != NULL;
    free(path);
    free(name);
    if (!has_memory) {
      return tsr_cli_no_memory();
    }
  }
  return TSR_EXIT_OK;
}

int model_set_read(const serve_settings *settings, model_find find, void *user, model_set **set)
{
  scan s = {.settings = settings, .find = find, .user = user, .set = calloc(1, sizeof *s.set)};
  *set = s.set;
  if (!s.set) {
    return tsr_cli_no_memory();
  }
  int code = TSR_EXIT_OK;
  if (!settings->models) {
    tsr_cli_warning("no model is served: --models is missing, the folder with the models' folders");
  } else if (!path_is_folder(settings->models)) {
    tsr_cli_warning("no model is served: %s is no folder", settings->models);
  } else {
    code = scan_folder(&s, settings->models, "", 0);
    code = code == TSR_EXIT_OK ? warn_of_directions(settings) : code;
    if (code == TSR_EXIT_OK && s.set->n_models == 0 && s.n_folders > 0) {
      tsr_cli_warning("no model is served: the model folders below %s were left out", settings->models);
    } else if (code == TSR_EXIT_OK && s.set->n_models == 0) {
      tsr_cli_warning("no model is served: there is no model folder below %s; a model folder has config.json, its "
                      "weights and its tokenizer's files",
                      settings->models);
    }
  }
  code = code == TSR_EXIT_OK ? collect_codes(s.set) : code;
  code = code == TSR_EXIT_OK ? fill_best(s.set) : code;
  return code == TSR_EXIT_OK ? describe(s.set) : code;
}
