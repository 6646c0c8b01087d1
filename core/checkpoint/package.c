/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/package.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/status.h"
#include "core/checkpoint/container_parse.h"
#include "core/checkpoint/ctranslate2.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/zip.h"

static const char weights_name[] = "model.bin";
static const char metadata_name[] = "metadata.json";
static const char model_folder[] = "model";
static const char package_suffix[] = ".argosmodel";

enum { LARGEST = 1 << 28 /* bytes of what is read as a whole */ };

struct tsr_package {
  char *path;
  int32_t is_argos;
  int32_t is_zip;
  char *folders[2];     /* by place: of a folder its path, of a zip file how the names of its entries begin */
  tsr_tensor_file file; /* of a zip file, likewise the next */
  tsr_arena arena;
  tsr_zip zip;
};

/* Reads the first bytes of a file. Returns how many. */
static size_t read_head(const char *path, unsigned char *bytes, size_t size)
{
  struct stat info;
  int descriptor = -1;
  if (tsr_file_open(path, &descriptor, &info) != TSR_OK) {
    return 0;
  }
  ssize_t n = read(descriptor, bytes, size);
  close(descriptor);
  return n > 0 ? (size_t)n : 0;
}

static int has_file(const char *folder, const char *name)
{
  char *path = tsr_path_join(folder, name);
  int has = path && tsr_path_exists(path);
  free(path);
  return has;
}

enum { HEAD = 512 /* bytes by which a model.bin is told */ };

/* 1 if the file in that folder begins as a model.bin of CTranslate2. */
static int has_weights(const char *folder)
{
  unsigned char head[HEAD];
  char *path = tsr_path_join(folder, weights_name);
  int found = path && tsr_path_exists(path) && !tsr_path_is_folder(path) &&
              tsr_ctranslate2_is(head, read_head(path, head, sizeof head));
  free(path);
  return found;
}

/* 1 for a folder of CTranslate2. Its vocabulary tells it where model.bin is damaged or missing. */
static int is_model_folder(const char *folder)
{
  static const char *const names[] = {"shared_vocabulary.json", "shared_vocabulary.txt", "source_vocabulary.json",
                                      "source_vocabulary.txt"};
  int found = has_weights(folder);
  for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++) {
    found = has_file(folder, names[i]);
  }
  return found;
}

/* 1 for the folder of an extracted package. */
static int is_argos_folder(const char *path)
{
  char *inner = has_file(path, metadata_name) ? tsr_path_join(path, model_folder) : NULL;
  int found = inner && is_model_folder(inner);
  free(inner);
  return found;
}

static int has_suffix(const char *text, const char *suffix)
{
  const size_t size = strlen(text), tail = strlen(suffix);
  return size >= tail && strcmp(text + size - tail, suffix) == 0;
}

int tsr_package_is(const char *path)
{
  unsigned char head[4];
  if (tsr_path_is_folder(path)) {
    return !tsr_checkpoint_exists(path) && (is_model_folder(path) || is_argos_folder(path));
  }
  return tsr_path_exists(path) &&
         (has_suffix(path, package_suffix) || tsr_zip_is(head, read_head(path, head, sizeof head)));
}

/* "a/b/" of "a/b/c" where the name ends with "/" and `end`, or is `end`; NULL: it does not. */
static char *folder_of(const char *name, const char *end)
{
  const size_t size = strlen(name), tail = strlen(end);
  if (size < tail || strcmp(name + size - tail, end) != 0 || (size > tail && name[size - tail - 1] != '/')) {
    return NULL;
  }
  char *folder = strdup(name);
  if (folder) {
    folder[size - tail] = '\0';
  }
  return folder;
}

static tsr_status open_zip(tsr_package *package)
{
  TSR_TRY(tsr_tensor_file_open(package->path, &package->file));
  TSR_TRY(tsr_zip_parse(&package->file, &package->arena, &package->zip));
  for (size_t i = 0; i < package->zip.count && !package->folders[TSR_PACKAGE_ROOT]; i++) {
    package->folders[TSR_PACKAGE_ROOT] = folder_of(package->zip.entries[i].name, metadata_name);
  }
  char *root = package->folders[TSR_PACKAGE_ROOT];
  if (!root || strchr(root, '/') != strrchr(root, '/')) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: expected a package of Argos, a zip file with FOLDER/%s: it has none",
                    package->path, metadata_name);
  }
  const size_t room = strlen(root) + sizeof model_folder + 1;
  char *model = malloc(room);
  if (!model) {
    return tsr_fail_memory(room);
  }
  snprintf(model, room, "%s%s/", root, model_folder);
  package->folders[TSR_PACKAGE_MODEL] = model;
  package->is_argos = 1;
  return TSR_OK;
}

static tsr_status open_folder(tsr_package *package)
{
  package->is_argos = is_argos_folder(package->path);
  package->folders[TSR_PACKAGE_ROOT] = tsr_path_join(package->path, "");
  package->folders[TSR_PACKAGE_MODEL] = tsr_path_join(package->path, package->is_argos ? model_folder : "");
  return package->folders[0] && package->folders[1] ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
}

tsr_status tsr_package_open(const char *path, tsr_package **package)
{
  *package = NULL;
  tsr_package *made = calloc(1, sizeof *made);
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  made->path = strdup(path);
  made->is_zip = !tsr_path_is_folder(path);
  tsr_status status = made->path ? TSR_OK : tsr_fail_memory(strlen(path) + 1);
  if (status == TSR_OK) {
    status = made->is_zip ? open_zip(made) : open_folder(made);
  }
  if (status != TSR_OK) {
    tsr_package_close(made);
    return status;
  }
  *package = made;
  return TSR_OK;
}

void tsr_package_close(tsr_package *package)
{
  if (!package) {
    return;
  }
  tsr_arena_finish(&package->arena);
  if (package->is_zip) {
    tsr_tensor_file_close(&package->file);
  }
  free(package->folders[0]);
  free(package->folders[1]);
  free(package->path);
  free(package);
}

int tsr_package_is_argos(const tsr_package *package)
{
  return package->is_argos;
}

int tsr_package_is_zip(const tsr_package *package)
{
  return package->is_zip;
}

static tsr_status read_entry(const tsr_package *package, const char *name, tsr_file *file)
{
  tsr_zip_entry *entry = tsr_zip_find(&package->zip, name);
  const unsigned char *content = NULL;
  if (!entry) {
    return TSR_OK;
  }
  if (entry->size > LARGEST) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: entry %s has %zu bytes; expected at most %d", package->path,
                    tsr_quote(name).text, entry->size, (int)LARGEST);
  }
  TSR_TRY(tsr_zip_content(&package->zip, entry, &content));
  char *copy = malloc(entry->size + 1);
  if (!copy) {
    return tsr_fail_memory(entry->size + 1);
  }
  memcpy(copy, content, entry->size);
  *file = (tsr_file){.bytes = copy, .size = entry->size};
  return TSR_OK;
}

tsr_status tsr_package_read(const tsr_package *package, int place, const char *name, char **path, tsr_file *file)
{
  *file = (tsr_file){0};
  *path = tsr_path_join(package->folders[place], name);
  if (!*path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  if (!package->is_zip) {
    return tsr_path_exists(*path) ? tsr_file_read(*path, file) : TSR_OK;
  }
  TSR_TRY(read_entry(package, *path, file));
  char *shown = malloc(strlen(package->path) + strlen(*path) + 3);
  if (!shown) {
    tsr_file_free(file);
    return tsr_fail_memory(strlen(package->path) + strlen(*path) + 3);
  }
  sprintf(shown, "%s: %s", package->path, *path);
  free(*path);
  *path = shown;
  return TSR_OK;
}

tsr_status tsr_package_config(const tsr_package *package, int place, const char *name, tsr_config *json)
{
  char *path = NULL;
  tsr_file file;
  *json = (tsr_config){0};
  tsr_status status = tsr_package_read(package, place, name, &path, &file);
  if (status == TSR_OK && file.bytes) {
    status = tsr_config_parse(path, file.bytes, file.size, json);
  }
  tsr_file_free(&file);
  free(path);
  return status;
}

/* TSR_ERR_FORMAT if the file is no model.bin. */
static tsr_status check_weights(const char *path)
{
  unsigned char head[HEAD];
  struct stat info;
  int descriptor = -1;
  TSR_TRY(tsr_file_open(path, &descriptor, &info));
  close(descriptor);
  const size_t size = read_head(path, head, sizeof head);
  TSR_TRY(tsr_container_refuse_pointer(path, head, size));
  return tsr_ctranslate2_check(path, head, size);
}

tsr_status tsr_package_checkpoint(const tsr_package *package, tsr_checkpoint **checkpoint)
{
  if (package->is_zip) {
    return tsr_checkpoint_open(package->path, checkpoint);
  }
  char *path = tsr_path_join(package->folders[TSR_PACKAGE_MODEL], weights_name);
  tsr_status status = path ? check_weights(path) : TSR_ERR_OUT_OF_MEMORY;
  status = status == TSR_OK ? tsr_checkpoint_open(path, checkpoint) : status;
  free(path);
  return status;
}
