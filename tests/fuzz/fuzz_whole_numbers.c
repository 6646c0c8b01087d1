/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder whose matrices are stored as i8 or in four bits. An input says what is changed in its tensors: first which
 * of the two, then a change every four bytes. The file is always well formed, so that what its tensors mean is tested,
 * not how they are written.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#include "tests/fuzz/weights.h"
#include "tests/support/temporary.h"

enum { MOST_TENSORS = 64, MOST_RANK = 4, ROOM = 1 << 16 };

typedef struct described {
  char name[128];
  int32_t type; /* in types */
  int32_t rank;
  int64_t extent[MOST_RANK];
} described;

static const struct {
  const char *name;
  tsr_dtype dtype;
} types[] = {{"I8", TSR_I8}, {"F16", TSR_F16}, {"F32", TSR_F32}, {"BF16", TSR_BF16}, {"I16", 0}, {"I32", TSR_I32}};
enum { TYPES = sizeof types / sizeof types[0] };

static struct {
  char *folder;
  int32_t n;
  described tensors[MOST_TENSORS];
} bases[2]; /* of i8 and of i4 */

static void remove_folders(void)
{
  remove_temporary_folder(bases[0].folder);
  remove_temporary_folder(bases[1].folder);
}

static int32_t type_of(tsr_dtype dtype)
{
  for (int32_t i = 0; i < TYPES; i++) {
    if (types[i].dtype == dtype) {
      return i;
    }
  }
  abort();
}

static void make_base(int32_t which, tsr_dtype storage)
{
  tsr_model *model;
  bases[which].folder = make_temporary_folder();
  write_small_model(bases[which].folder, storage);
  REQUIRE(tsr_model_open(bases[which].folder, &model) == TSR_OK);
  read_weights(model);
  bases[which].n = tsr_checkpoint_count(model->checkpoint);
  REQUIRE(bases[which].n <= MOST_TENSORS);
  for (int32_t i = 0; i < bases[which].n; i++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_at(model->checkpoint, i);
    described *d = &bases[which].tensors[i];
    snprintf(d->name, sizeof d->name, "%s", tensor->name);
    d->type = type_of(tensor->dtype);
    d->rank = tensor->shape.rank;
    memcpy(d->extent, tensor->shape.extent, (size_t)d->rank * sizeof *d->extent);
  }
  tsr_model_close(model);
}

/* bytes: the tensor, what of it, and to what. */
static void change(described *tensors, int32_t n, const uint8_t bytes[4])
{
  described *d = &tensors[bytes[0] % n];
  const int32_t value = bytes[2] | bytes[3] << 8;
  switch (bytes[1] % 4) {
  case 0:
    d->type = value % TYPES;
    break;
  case 1:
    d->rank = 1 + value % MOST_RANK;
    for (int32_t i = 0; i < d->rank; i++) {
      d->extent[i] = d->extent[i] > 0 ? d->extent[i] : 1;
    }
    break;
  case 2:
    d->extent[bytes[3] % d->rank] = bytes[2];
    break;
  default: /* as another one is called, which is called as this one */
    if (bytes[2] % n != bytes[0] % n) {
      char name[sizeof d->name];
      memcpy(name, d->name, sizeof name);
      memcpy(d->name, tensors[bytes[2] % n].name, sizeof name);
      memcpy(tensors[bytes[2] % n].name, name, sizeof name);
    }
  }
}

/* Returns the file's size, or 0 if it is too large. */
static size_t write_tensors(const described *tensors, int32_t n, uint8_t file[ROOM])
{
  size_t at = 8, offset = 0;
  for (int32_t i = 0; i < n && at < ROOM / 2; i++) {
    const described *d = &tensors[i];
    size_t size = types[d->type].dtype != 0 ? tsr_dtype_size(types[d->type].dtype) : 2;
    char *to = (char *)file;
    at += (size_t)snprintf(to + at, ROOM - at, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i > 0 ? "," : "{", d->name,
                           types[d->type].name);
    for (int32_t k = 0; k < d->rank; k++) {
      size *= (size_t)d->extent[k];
      at += (size_t)snprintf(to + at, ROOM - at, "%s%lld", k > 0 ? "," : "", (long long)d->extent[k]);
    }
    if (size > ROOM / 2 - offset) {
      return 0;
    }
    at += (size_t)snprintf(to + at, ROOM - at, "],\"data_offsets\":[%zu,%zu]}", offset, offset + size);
    offset += size;
  }
  file[at++] = '}';
  for (int32_t i = 0; i < 8; i++) {
    file[i] = (uint8_t)((uint64_t)(at - 8) >> (8 * i));
  }
  memset(file + at, 0x3c, offset); /* a number above 0 of every type */
  return at + offset;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static uint8_t file[ROOM];
  tsr_model *model = NULL;
  if (!bases[0].folder) {
    make_base(0, TSR_I8);
    make_base(1, TSR_I4);
    atexit(remove_folders);
  }
  const int32_t which = size > 0 ? data[0] % 2 : 0;
  described tensors[MOST_TENSORS];
  memcpy(tensors, bases[which].tensors, sizeof tensors);
  for (size_t i = 1; i + 4 <= size; i += 4) {
    change(tensors, bases[which].n, data + i);
  }
  const size_t written = write_tensors(tensors, bases[which].n, file);
  if (written == 0) {
    return -1;
  }
  write_file(path_in(bases[which].folder, "model.safetensors"), file, written);
  if (tsr_model_open(bases[which].folder, &model) != TSR_OK) {
    REQUIRE(!model && tsr_error_message()[0]);
    return 0;
  }
  read_weights(model);
  tsr_model_close(model);
  return 0;
}
