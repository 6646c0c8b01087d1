/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/corpus/manifest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/corpus/duplicates.h"
#include "tools/tessera/corpus/fingerprint.h"

enum { VERSION = 1 };

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

/* {"path":, "fingerprint":}, or NULL after a message; *code is set then. */
static json_t *describe_file(const char *path, int *code)
{
  char fingerprint[FINGERPRINT_ROOM];
  *code = corpus_fingerprint(path, fingerprint);
  if (*code != TSR_EXIT_OK) {
    return NULL;
  }
  json_t *file = json_pack("{s:o, s:s}", "path", tsr_cli_json_text(path, strlen(path)), "fingerprint", fingerprint);
  *code = file ? TSR_EXIT_OK : tsr_cli_no_memory();
  return file;
}

int corpus_manifest_begin(const corpus_asked *asked, json_t **root)
{
  int code = TSR_EXIT_OK;
  json_t *inputs = json_array();
  json_t *model = describe_file(asked->model, &code);
  int failed = !inputs;
  for (int32_t i = 0; i < asked->n_inputs && code == TSR_EXIT_OK && !failed; i++) {
    json_t *file = describe_file(asked->inputs[i], &code);
    failed = code == TSR_EXIT_OK && json_array_append_new(inputs, file) != 0;
  }
  *root = NULL;
  if (code == TSR_EXIT_OK && !failed) {
    *root = json_pack("{s:i, s:O, s:O, s:O}", "version", (int)VERSION, "settings", asked->settings, "model", model,
                      "inputs", inputs);
  }
  json_decref(inputs);
  json_decref(model);
  return code != TSR_EXIT_OK ? code : *root ? TSR_EXIT_OK : tsr_cli_no_memory();
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* "with --beam 4", "with --scores", "without --beam". */
static void print_option(const char *name, const json_t *value, char *text, size_t size)
{
  if (json_is_string(value)) {
    snprintf(text, size, "with --%s %s", name, json_string_value(value));
  } else {
    snprintf(text, size, "%s --%s", value ? "with" : "without", name);
  }
}

/* The name of an option that only one has, or that differs; NULL: there is none. */
static const char *find_difference(json_t *a, json_t *b)
{
  const char *name;
  json_t *value;
  json_object_foreach(a, name, value)
  {
    json_t *other = json_object_get(b, name);
    if (!other || !json_equal(value, other)) {
      return name;
    }
  }
  return json_object_size(a) < json_object_size(b) ? find_difference(b, a) : NULL;
}

static int differs(const char *path, const char *what)
{
  tsr_cli_error("%s: these shards were begun %s; take the same, or another folder", path, what);
  return TSR_EXIT_USAGE;
}

static int has_fingerprint(json_t *a, json_t *b)
{
  json_t *first = json_object_get(a, "fingerprint");
  return first && json_equal(first, json_object_get(b, "fingerprint"));
}

static int compare(const char *path, json_t *stored, json_t *wanted)
{
  char what[512];
  json_t *begun = json_object_get(stored, "settings"), *settings = json_object_get(wanted, "settings");
  json_t *files = json_object_get(stored, "inputs"), *inputs = json_object_get(wanted, "inputs");
  const char *name = find_difference(settings, begun);
  if (name) {
    print_option(name, json_object_get(begun, name), what, sizeof what);
    return differs(path, what);
  }
  if (!has_fingerprint(json_object_get(stored, "model"), json_object_get(wanted, "model"))) {
    return differs(path, "with another model, or with the model as it was before");
  }
  if (json_array_size(files) != json_array_size(inputs)) {
    snprintf(what, sizeof what, "with %d input files, not %d", (int)json_array_size(files),
             (int)json_array_size(inputs));
    return differs(path, what);
  }
  for (size_t i = 0; i < json_array_size(files); i++) {
    json_t *file = json_array_get(files, i);
    if (!has_fingerprint(file, json_array_get(inputs, i))) {
      const char *was = json_string_value(json_object_get(file, "path"));
      snprintf(what, sizeof what, "with another file than %s, or with it as it was before", was ? was : "?");
      return differs(path, what);
    }
  }
  return TSR_EXIT_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int fail_broken(const char *path, const char *what)
{
  tsr_cli_error("%s: %s; remove the folder, and begin again", path, what);
  return TSR_EXIT_INPUT;
}

static int read_shards(const char *path, json_t *root, int32_t n_files, corpus_manifest *manifest)
{
  json_t *rows = json_object_get(root, "shards");
  corpus_shards *shards = &manifest->shards;
  json_int_t sentences = 0, distinct = 0, next = 0;
  if (json_unpack(root, "{s:I, s:I, s:i}", "sentences", &sentences, "distinct", &distinct, "parts",
                  &manifest->n_parts) != 0 ||
      json_array_size(rows) == 0 || json_array_size(rows) > CORPUS_MAX_SHARDS || manifest->n_parts < 0 ||
      manifest->n_parts > DUPLICATES_MOST_PARTS) {
    return fail_broken(path, "expected sentences, distinct, parts and shards");
  }
  manifest->sentences = sentences;
  shards->sentences = distinct;
  shards->n = (int32_t)json_array_size(rows);
  shards->list = calloc((size_t)shards->n, sizeof *shards->list);
  if (!shards->list) {
    return tsr_cli_no_memory();
  }
  for (int32_t k = 0; k < shards->n; k++) {
    json_int_t offset, number, first, n, sum;
    int file;
    json_t *row = json_array_get(rows, (size_t)k);
    if (json_unpack(row, "{s:i, s:I, s:I, s:I, s:I, s:I}", "file", &file, "offset", &offset, "number", &number, "first",
                    &first, "sentences", &n, "sum", &sum) != 0 ||
        file < 0 || file >= n_files || offset < 0 || number < 0 || n < 0 || first != next) {
      return fail_broken(path, "a shard's row is not as it should be");
    }
    shards->list[k] = (corpus_shard){{file, offset, number}, first, n, (uint64_t)sum};
    next += n;
  }
  return next == distinct ? TSR_EXIT_OK : fail_broken(path, "the shards do not hold all sentences");
}

static int take(const char *path, json_t *root, const corpus_asked *asked, corpus_manifest *manifest)
{
  char what[64];
  json_t *wanted = NULL;
  if (json_integer_value(json_object_get(root, "version")) != VERSION) {
    return fail_broken(path, "this version of the program does not know its version");
  }
  int code = corpus_manifest_begin(asked, &wanted);
  if (code == TSR_EXIT_OK) {
    code = compare(path, root, wanted);
  }
  json_decref(wanted);
  code = code == TSR_EXIT_OK ? read_shards(path, root, asked->n_files, manifest) : code;
  if (code == TSR_EXIT_OK && asked->n_shards > 0 && asked->n_shards != manifest->shards.n) {
    snprintf(what, sizeof what, "with --shards %d", (int)manifest->shards.n);
    return differs(path, what);
  }
  return code;
}

int corpus_manifest_read(const char *path, const corpus_asked *asked, corpus_manifest *manifest, int *found)
{
  json_error_t error;
  *manifest = (corpus_manifest){0};
  *found = path_exists(path);
  if (!*found) {
    return TSR_EXIT_OK;
  }
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  int code = root ? take(path, root, asked, manifest) : fail_broken(path, error.text);
  json_decref(root);
  return code;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *list_shards(const corpus_shards *shards)
{
  json_t *rows = json_array();
  for (int32_t k = 0; rows && k < shards->n; k++) {
    const corpus_shard *shard = &shards->list[k];
    json_t *row = json_pack("{s:i, s:I, s:I, s:I, s:I, s:I}", "file", (int)shard->begin.file, "offset",
                            (json_int_t)shard->begin.offset, "number", (json_int_t)shard->begin.number, "first",
                            (json_int_t)shard->first, "sentences", (json_int_t)shard->n, "sum", (json_int_t)shard->sum);
    if (json_array_append_new(rows, row) != 0) {
      json_decref(rows);
      return NULL;
    }
  }
  return rows;
}

int corpus_manifest_print(const corpus_asked *asked, json_t *root, const corpus_manifest *manifest, char **text)
{
  json_t *now = NULL;
  int code = corpus_manifest_begin(asked, &now);
  if (code == TSR_EXIT_OK && !json_equal(root, now)) {
    tsr_cli_error("the inputs or the model have changed while they were read; begin again");
    code = TSR_EXIT_INPUT;
  }
  json_decref(now);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  int failed = json_object_set_new(root, "sentences", json_integer(manifest->sentences)) != 0 ||
               json_object_set_new(root, "distinct", json_integer(manifest->shards.sentences)) != 0 ||
               json_object_set_new(root, "parts", json_integer(manifest->n_parts)) != 0 ||
               json_object_set_new(root, "shards", list_shards(&manifest->shards)) != 0;
  *text = failed ? NULL : json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
  return *text ? TSR_EXIT_OK : tsr_cli_no_memory();
}

void corpus_manifest_finish(corpus_manifest *manifest)
{
  corpus_shards_finish(&manifest->shards);
}
