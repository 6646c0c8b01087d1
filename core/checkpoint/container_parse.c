/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/container_parse.h"

#include <stdio.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/ctranslate2.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/npz.h"
#include "core/checkpoint/safetensors.h"
#include "core/checkpoint/torch.h"

/* What torch.save wrote before version 1.6: pickles one after another, the first of which is a magic number; before
 * version 0.1.10, a tar file. */
static int is_old_torch(const unsigned char *bytes, size_t size)
{
  static const unsigned char magic[] = {0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
  enum { TAR_MARK = 257 };
  return (size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0) ||
         (size >= TAR_MARK + 5 && memcmp(bytes + TAR_MARK, "ustar", 5) == 0);
}

static int has_suffix(const char *text, const char *suffix)
{
  size_t size = strlen(text);
  size_t lead = strlen(suffix);
  return size >= lead && strcmp(text + size - lead, suffix) == 0;
}

static int has_entry(const tsr_zip *zip, const char *suffix)
{
  for (size_t i = 0; i < zip->count; i++) {
    if (has_suffix(zip->entries[i].name, suffix)) {
      return 1;
    }
  }
  return 0;
}

/* The model.bin of an Argos package, which its folder `model` holds; or NULL. */
static tsr_zip_entry *find_packaged(const tsr_zip *zip)
{
  for (size_t i = 0; i < zip->count; i++) {
    if (has_suffix(zip->entries[i].name, "/model/model.bin")) {
      return &zip->entries[i];
    }
  }
  return NULL;
}

static tsr_status parse_packaged(const tsr_zip *zip, tsr_zip_entry *entry, tsr_container *container)
{
  const unsigned char *content = NULL;
  const size_t room = strlen(zip->path) + strlen(entry->name) + 3;
  char *path = tsr_arena_take(&container->arena, room);
  if (!path) {
    return tsr_fail_memory(room);
  }
  snprintf(path, room, "%s: %s", zip->path, entry->name);
  TSR_TRY(tsr_zip_content(zip, entry, &content));
  TSR_TRY(tsr_ctranslate2_check(path, content, entry->size));
  const tsr_tensor_file inner = tsr_tensor_file_of_memory(path, content, entry->size);
  return tsr_ctranslate2_parse(&inner, container);
}

static tsr_status parse_zip(const tsr_tensor_file *file, tsr_container *container)
{
  tsr_zip zip;
  TSR_TRY(tsr_zip_parse(file, &container->arena, &zip));
  if (has_entry(&zip, "data.pkl")) {
    return tsr_torch_parse(&zip, container);
  }
  if (has_entry(&zip, ".npy")) {
    return tsr_npz_parse(&zip, container);
  }
  tsr_zip_entry *packaged = find_packaged(&zip);
  if (packaged) {
    return parse_packaged(&zip, packaged, container);
  }
  return tsr_fail(TSR_ERR_FORMAT,
                  "%s: expected a zip file of torch.save (with data.pkl), of NumPy (with .npy) or of Argos (with "
                  "model/model.bin); it has %zu entries, none of which is such",
                  file->path, zip.count);
}

tsr_status tsr_container_refuse_pointer(const char *path, const unsigned char *bytes, size_t size)
{
  static const char pointer[] = "version https://git-lfs";
  if (size < sizeof pointer - 1 || memcmp(bytes, pointer, sizeof pointer - 1) != 0) {
    return TSR_OK;
  }
  return tsr_fail(TSR_ERR_FORMAT, "%s: a pointer of Git LFS instead of the file itself: fetch it with git lfs pull",
                  path);
}

static tsr_status parse(const tsr_tensor_file *file, tsr_container *container)
{
  enum { HEAD = 512 }; /* bytes by which the forms are told apart */
  const size_t size = file->size < HEAD ? file->size : HEAD;
  TSR_TRY(tsr_tensor_file_need(file, 0, size));
  TSR_TRY(tsr_container_refuse_pointer(file->path, file->bytes, size));
  if (is_old_torch(file->bytes, size)) {
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: written in the form that PyTorch had before version 1.6, which is not read here; convert it "
                    "with a newer PyTorch: python3 -c 'import sys, torch; f = sys.argv[1]; torch.save(torch.load(f, "
                    "map_location=\"cpu\"), f)' FILE",
                    file->path);
  }
  if (tsr_ctranslate2_is(file->bytes, size)) {
    return tsr_ctranslate2_parse(file, container);
  }
  return tsr_zip_is(file->bytes, size) ? parse_zip(file, container) : tsr_safetensors_parse(file, container);
}

/* From addresses within a file to places in it. */
static void place_tensors(const tsr_tensor_file *file, tsr_container *container)
{
  for (int32_t i = 0; i < container->count; i++) {
    tsr_checkpoint_tensor *tensor = &container->tensors[i];
    const unsigned char *bytes = tensor->bytes;
    if (bytes >= file->bytes && bytes <= file->bytes + file->size) {
      tensor->file = file;
      tensor->at = (uint64_t)(bytes - file->bytes);
      tensor->bytes = NULL;
    }
  }
}

/* Beside an extent of 0 a file may claim others of any size, for which it need hold no bytes. */
static tsr_status check_shapes(const tsr_container *container)
{
  for (int32_t i = 0; i < container->count; i++) {
    const tsr_checkpoint_tensor *tensor = &container->tensors[i];
    if (tsr_shape_elements(&tensor->shape) < 0) {
      char shape[96];
      return tsr_fail(
          TSR_ERR_FORMAT,
          "%s: tensor %s: the shape %s is too large: expected extents whose product, without those of 0, is "
          "at most 2^63 - 1",
          tensor->path, tsr_quote(tensor->name).text, tsr_shape_print(&tensor->shape, shape, sizeof shape));
    }
  }
  return TSR_OK;
}

tsr_status tsr_container_parse(tsr_tensor_file *file, tsr_container *container)
{
  *container = (tsr_container){0};
  tsr_status status = parse(file, container);
  if (status == TSR_OK) {
    status = check_shapes(container);
  }
  if (status == TSR_OK && file->descriptor >= 0) {
    place_tensors(file, container);
    tsr_tensor_file_forget(file);
  }
  if (status != TSR_OK) {
    tsr_container_finish(container);
  }
  return status;
}
