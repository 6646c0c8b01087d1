/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are replaced in one step, and safetensors files that are written so: what they hold, and what is left when
 * a call of the system fails or the process is killed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/replace.h"
#include "core/checkpoint/safetensors_write.h"
#include "tests/support/bytes.h"
#include "tests/support/killed.h"
#include "tests/support/temporary.h"

/* The linker leads the library's calls of these functions here. The fail_at-th of them all fails with `fail_with`. */
static int calls, fail_at, fail_with;
static size_t longest_write; /* bytes that a write takes at most; 0: any number */

static int fails(void)
{
  if (++calls != fail_at) {
    return 0;
  }
  errno = fail_with;
  return 1;
}

ssize_t __real_write(int descriptor, const void *bytes, size_t size);
ssize_t __wrap_write(int descriptor, const void *bytes, size_t size);
ssize_t __wrap_write(int descriptor, const void *bytes, size_t size)
{
  size_t taken = longest_write > 0 && size > longest_write ? longest_write : size;
  return fails() ? -1 : __real_write(descriptor, bytes, taken);
}

int __real_fsync(int descriptor);
int __wrap_fsync(int descriptor);
int __wrap_fsync(int descriptor)
{
  return fails() ? -1 : __real_fsync(descriptor);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
  return fails() ? -1 : __real_rename(from, to);
}

static void fail_call(int at, int with)
{
  calls = 0;
  fail_at = at;
  fail_with = with;
}

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

static void assert_holds(const char *path, const char *text)
{
  tsr_file file;
  assert_int_equal(tsr_file_read(path, &file), TSR_OK);
  assert_int_equal(file.size, strlen(text));
  assert_memory_equal(file.bytes, text, file.size);
  tsr_file_free(&file);
}

static int count_files(const char *folder)
{
  DIR *listing = opendir(folder);
  assert_non_null(listing);
  int count = 0;
  while (readdir(listing)) {
    count++;
  }
  closedir(listing);
  return count - 2;
}

static void test_replace(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "state.json");
  assert_int_equal(tsr_file_replace(path, "one", 3), TSR_OK);
  assert_holds(path, "one");
  assert_int_equal(tsr_file_replace(path, "", 0), TSR_OK);
  assert_holds(path, "");
  /* Another name of the same file keeps the old content. */
  assert_int_equal(tsr_file_replace(path, "two", 3), TSR_OK);
  assert_int_equal(link(path, path_in(folder, "link")), 0);
  assert_int_equal(tsr_file_replace(path, "three", 5), TSR_OK);
  assert_holds(path_in(folder, "link"), "two");
  assert_holds(path, "three");
  assert_int_equal(count_files(folder), 2);
  remove_temporary_folder(folder);
}

static void test_leftovers(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "a");
  const char *partial = path_in(folder, "a" TSR_PARTIAL_SUFFIX);
  write_text(partial, "what a killed process left, which is longer than what comes");
  assert_int_equal(tsr_file_replace(path, "new", 3), TSR_OK);
  assert_holds(path, "new");
  assert_int_equal(count_files(folder), 1);

  /* Two writers of one file: the second is refused and disturbs nothing. */
  tsr_file_writer *first, *second;
  assert_int_equal(tsr_file_writer_open(path, &first), TSR_OK);
  assert_int_equal(tsr_file_writer_write(first, "first", 5), TSR_OK);
  assert_int_equal(tsr_file_writer_open(path, &second), TSR_ERR_BUSY);
  assert_null(second);
  assert_message_has("another process");
  assert_int_equal(tsr_file_writer_commit(&first), TSR_OK);
  assert_null(first);
  assert_holds(path, "first");

  /* Neither a link nor a pipe in the temporary's place leads anywhere. */
  assert_int_equal(symlink("/dev/full", partial), 0);
  assert_int_equal(tsr_file_replace(path, "new", 3), TSR_ERR_IO);
  assert_message_has("a.partial: cannot be opened for writing");
  assert_int_equal(unlink(partial), 0);
  assert_int_equal(mkfifo(partial, 0600), 0);
  assert_int_equal(tsr_file_replace(path, "new", 3), TSR_ERR_IO);
  assert_holds(path, "first");
  remove_temporary_folder(folder);
}

/* Pieces of all sizes around what is kept back before it is written come in order. */
static void test_pieces(void **state)
{
  (void)state;
  enum { MOST = 140000, PIECES = 40 };
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "pieces");
  char *all = malloc((size_t)MOST * PIECES);
  assert_non_null(all);
  size_t size = 0;
  tsr_file_writer *writer;
  assert_int_equal(tsr_file_writer_open(path, &writer), TSR_OK);
  for (size_t i = 0; i < PIECES; i++) {
    size_t piece = i * i * i * 7919 % MOST;
    for (size_t k = 0; k < piece; k++) {
      all[size + k] = (char)((size + k) * 2654435761u >> 24);
    }
    assert_int_equal(tsr_file_writer_write(writer, all + size, piece), TSR_OK);
    size += piece;
  }
  assert_int_not_equal(access(path, F_OK), 0);
  assert_int_equal(tsr_file_writer_commit(&writer), TSR_OK);
  FILE *file = fopen(path, "rb");
  char *found = malloc(size + 1);
  assert_non_null(file);
  assert_non_null(found);
  assert_int_equal(fread(found, 1, size + 1, file), size);
  assert_memory_equal(found, all, size);
  fclose(file);
  free(found);
  free(all);

  /* What is abandoned leaves the old file, and nothing else. */
  assert_int_equal(tsr_file_replace(path, "old", 3), TSR_OK);
  assert_int_equal(tsr_file_writer_open(path, &writer), TSR_OK);
  assert_int_equal(tsr_file_writer_write(writer, "new", 3), TSR_OK);
  tsr_file_writer_abandon(writer);
  tsr_file_writer_abandon(NULL);
  assert_holds(path, "old");
  assert_int_equal(count_files(folder), 1);
  remove_temporary_folder(folder);
}

static void test_bad_places(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  assert_int_equal(tsr_file_replace(path_in(folder, "no/such/folder"), "x", 1), TSR_ERR_IO);
  assert_message_has("No such file or directory");
  assert_int_equal(mkdir(path_in(folder, "taken"), 0777), 0);
  assert_int_equal(tsr_file_replace(path_in(folder, "taken"), "x", 1), TSR_ERR_IO);
  assert_message_has("taken: cannot be replaced: Is a directory");
  assert_int_equal(count_files(folder), 1);

  assert_int_equal(tsr_folder_make(path_in(folder, "a/b//c/")), TSR_OK);
  assert_int_equal(tsr_folder_make(path_in(folder, "a/b")), TSR_OK);
  assert_true(tsr_path_is_folder(path_in(folder, "a/b/c")));
  write_text(path_in(folder, "file"), "");
  assert_int_equal(tsr_folder_make(path_in(folder, "file/x")), TSR_ERR_IO);
  assert_message_has("file: cannot be made a folder: File exists");
  rmdir(path_in(folder, "a/b/c"));
  rmdir(path_in(folder, "a/b"));
  remove_temporary_folder(folder);
}

/* A folder in which nothing may be written. Who may do everything lays his rights down first. */
static void test_no_permission(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  assert_int_equal(chmod(folder, 0555), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    int permitted = geteuid() == 0 && seteuid(65534) != 0;
    _exit(!permitted && tsr_file_replace(path_in(folder, "x"), "x", 1) == TSR_ERR_IO &&
                  strstr(tsr_error_message(), "Permission denied")
              ? 0
              : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(chmod(folder, 0755), 0);
  assert_int_equal(count_files(folder), 0);
  remove_temporary_folder(folder);
}

/* ---- safetensors ------------------------------------------------------------------------------------------------- */

/* What element i of entry e is: numbers that each type holds exactly. */
static tsr_status count_up(void *context, int32_t index, int64_t first, int64_t count, void *elements)
{
  const tsr_tensor_entry *entry = &((const tsr_tensor_entry *)context)[index];
  for (int64_t i = 0; i < count; i++) {
    int32_t number = (int32_t)((first + i + index) % 100);
    switch (entry->dtype) {
    case TSR_F32:
      ((float *)elements)[i] = (float)number;
      break;
    case TSR_F16:
      ((uint16_t *)elements)[i] = tsr_f32_to_f16((float)number);
      break;
    case TSR_BF16:
      ((uint16_t *)elements)[i] = tsr_f32_to_bf16((float)number);
      break;
    case TSR_I32:
      ((int32_t *)elements)[i] = number;
      break;
    default:
      ((int8_t *)elements)[i] = (int8_t)number;
      break;
    }
  }
  return TSR_OK;
}

static void check_numbers(const tsr_checkpoint *checkpoint, const tsr_tensor_entry *entries, int32_t n_entries)
{
  assert_int_equal(tsr_checkpoint_count(checkpoint), n_entries);
  for (int32_t e = 0; e < n_entries; e++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(checkpoint, entries[e].name);
    assert_non_null(tensor);
    assert_int_equal(tensor->dtype, entries[e].dtype);
    assert_true(tsr_shape_equal(&tensor->shape, &entries[e].shape));
    int64_t elements = tsr_shape_elements(&entries[e].shape);
    for (int64_t i = 0; i < elements; i++) {
      char found[4], expected[4];
      assert_int_equal(tsr_checkpoint_read(tensor, i, 1, tensor->dtype, found), TSR_OK);
      assert_int_equal(count_up((void *)entries, e, i, 1, expected), TSR_OK);
      assert_memory_equal(found, expected, tsr_dtype_size(tensor->dtype));
    }
  }
}

static void make_sample(tsr_tensor_entry entries[7])
{
  entries[0] = (tsr_tensor_entry){"bytes", TSR_I8, TSR_SHAPE(5)};
  entries[1] = (tsr_tensor_entry){"half", TSR_F16, TSR_SHAPE(3, 2)};
  entries[2] = (tsr_tensor_entry){"z", TSR_F32, TSR_SHAPE(1, 2, 3, 4)};
  entries[3] = (tsr_tensor_entry){"brain", TSR_BF16, TSR_SHAPE(7)};
  entries[4] = (tsr_tensor_entry){"a \"name\" of \xc3\xa9", TSR_I32, TSR_SHAPE(2)};
  entries[5] = (tsr_tensor_entry){"none", TSR_F32, TSR_SHAPE(0, 8)};
  entries[6] = (tsr_tensor_entry){"scalar", TSR_F32, {.extent = {1, 1, 1, 1}}};
}

static void test_safetensors(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "model.safetensors");
  tsr_tensor_entry entries[7];
  make_sample(entries);
  json_t *metadata = json_pack("{s:s, s:s}", "format", "pt", "note", "{\"step\":3}");
  for (longest_write = 0; longest_write < 8; longest_write += 7) {
    assert_int_equal(tsr_safetensors_write(path, metadata, entries, 7, count_up, entries), TSR_OK);
    tsr_checkpoint *checkpoint;
    assert_int_equal(tsr_checkpoint_open(path, &checkpoint), TSR_OK);
    check_numbers(checkpoint, entries, 7);
    assert_string_equal(tsr_checkpoint_metadata(checkpoint, "format"), "pt");
    assert_string_equal(tsr_checkpoint_metadata(checkpoint, "note"), "{\"step\":3}");
    assert_null(tsr_checkpoint_metadata(checkpoint, "absent"));
    /* Each tensor is aligned for its type: the data begin at a multiple of 8, the widest types first. */
    tsr_file file;
    assert_int_equal(tsr_file_read(path, &file), TSR_OK);
    const unsigned char *bytes = file.bytes;
    assert_int_equal((bytes[0] | bytes[1] << 8) % 8, 0);
    assert_int_equal(bytes[8], '{');
    tsr_file_free(&file);
    for (int32_t i = 0; i < 7; i++) {
      const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(checkpoint, entries[i].name);
      assert_int_equal(tensor->at % tsr_dtype_size(tensor->dtype), 0);
    }
    tsr_checkpoint_close(checkpoint);
  }
  longest_write = 0;
  json_decref(metadata);

  /* More than one piece per tensor; and no tensors at all. */
  tsr_tensor_entry large = {"large", TSR_I8, TSR_SHAPE(3, TSR_WRITE_ELEMENTS)};
  assert_int_equal(tsr_safetensors_write(path, NULL, &large, 1, count_up, &large), TSR_OK);
  tsr_checkpoint *checkpoint;
  assert_int_equal(tsr_checkpoint_open(path, &checkpoint), TSR_OK);
  int8_t *numbers = tensor_bytes(tsr_checkpoint_find(checkpoint, "large"));
  for (int64_t i = 0; i < 3 * TSR_WRITE_ELEMENTS; i++) {
    assert_true(numbers[i] == i % 100);
  }
  free(numbers);
  tsr_checkpoint_close(checkpoint);
  assert_int_equal(tsr_safetensors_write(path, NULL, NULL, 0, count_up, NULL), TSR_OK);
  assert_int_equal(tsr_checkpoint_open(path, &checkpoint), TSR_OK);
  assert_int_equal(tsr_checkpoint_count(checkpoint), 0);
  tsr_checkpoint_close(checkpoint);
  assert_int_equal(count_files(folder), 1);
  remove_temporary_folder(folder);
}

static tsr_status refuse(void *context, int32_t index, int64_t first, int64_t count, void *elements)
{
  (void)first, (void)count, (void)elements;
  return index == 1 ? tsr_fail(TSR_ERR_DEVICE_LOST, "the device is gone")
                    : count_up(context, index, first, count, elements);
}

static void test_bad_entries(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "x");
  tsr_tensor_entry entries[2] = {{"a", TSR_F32, TSR_SHAPE(2)}, {"a", TSR_F16, TSR_SHAPE(2)}};
  assert_int_equal(tsr_safetensors_write(path, NULL, entries, 2, count_up, entries), TSR_ERR_ARGUMENT);
  assert_message_has("x: tensor \"a\": the name is already taken");
  entries[1].name = "__metadata__";
  assert_int_equal(tsr_safetensors_write(path, NULL, entries, 2, count_up, entries), TSR_ERR_ARGUMENT);
  entries[1].name = "b\xff";
  assert_int_equal(tsr_safetensors_write(path, NULL, entries, 2, count_up, entries), TSR_ERR_ARGUMENT);
  assert_message_has("not UTF-8");
  entries[1] = (tsr_tensor_entry){"b", 77, TSR_SHAPE(2)};
  assert_int_equal(tsr_safetensors_write(path, NULL, entries, 2, count_up, entries), TSR_ERR_DTYPE);
  entries[1] = (tsr_tensor_entry){"b", TSR_F32, TSR_SHAPE(-2)};
  assert_int_equal(tsr_safetensors_write(path, NULL, entries, 2, count_up, entries), TSR_ERR_SHAPE);
  entries[1].shape = TSR_SHAPE(INT64_MAX / 2);
  assert_int_equal(tsr_safetensors_write(path, NULL, entries, 2, count_up, entries), TSR_ERR_SHAPE);
  entries[1].shape = TSR_SHAPE(INT64_MAX / 4);
  assert_int_equal(tsr_safetensors_write(path, NULL, entries, 2, count_up, entries), TSR_ERR_SHAPE);
  assert_message_has("2^63 - 1 bytes");
  entries[1].shape = TSR_SHAPE(2);
  assert_int_equal(tsr_safetensors_write(path, NULL, entries, 2, refuse, entries), TSR_ERR_DEVICE_LOST);
  assert_string_equal(tsr_error_message(), "the device is gone");
  assert_int_equal(count_files(folder), 0);
  remove_temporary_folder(folder);
}

/* Each call of the system fails in turn: the old file stands, and nothing lies beside it. */
static void test_failing_calls(void **state)
{
  (void)state;
  static const int errors[] = {ENOSPC, EIO, EDQUOT};
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "model.safetensors");
  tsr_tensor_entry entries[7];
  make_sample(entries);
  assert_int_equal(tsr_safetensors_write(path, NULL, entries, 7, count_up, entries), TSR_OK);
  tsr_tensor_entry next = {"next", TSR_F32, TSR_SHAPE(3)};
  for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
    int at = 1;
    tsr_status status;
    do {
      fail_call(at++, errors[e]);
      status = tsr_safetensors_write(path, NULL, &next, 1, count_up, &next);
      int last = calls < fail_at;
      int replaced = calls == fail_at && fail_at == 4; /* the folder's fsync */
      fail_call(0, 0);
      assert_int_equal(status, last ? TSR_OK : TSR_ERR_IO);
      if (!last) {
        assert_message_has(strerror(errors[e]));
      }
      if (!last && errors[e] == ENOSPC) {
        assert_message_has("free some space");
      }
      assert_int_equal(count_files(folder), 1);
      tsr_checkpoint *checkpoint;
      assert_int_equal(tsr_checkpoint_open(path, &checkpoint), TSR_OK);
      if (last || replaced) {
        check_numbers(checkpoint, &next, 1);
      } else {
        check_numbers(checkpoint, entries, 7);
      }
      tsr_checkpoint_close(checkpoint);
      if (replaced) {
        assert_int_equal(tsr_safetensors_write(path, NULL, entries, 7, count_up, entries), TSR_OK);
      }
    } while (status != TSR_OK);
    assert_int_equal(at, 6); /* write, fsync, rename, fsync of the folder; then none fails */
    assert_int_equal(tsr_safetensors_write(path, NULL, entries, 7, count_up, entries), TSR_OK);
  }
  /* An interrupted write goes on; a folder that cannot be synced by its kind is no error. */
  fail_call(1, EINTR);
  assert_int_equal(tsr_safetensors_write(path, NULL, &next, 1, count_up, &next), TSR_OK);
  fail_call(4, EINVAL);
  assert_int_equal(tsr_safetensors_write(path, NULL, &next, 1, count_up, &next), TSR_OK);
  fail_call(0, 0);
  remove_temporary_folder(folder);
}

/* The system's own refusal of a file that grows too large. */
static void test_size_limit(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "x");
  tsr_tensor_entry entry = {"a", TSR_F32, TSR_SHAPE(100000)};
  struct rlimit old, limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  limit = old;
  limit.rlim_cur = 100000;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  tsr_status status = tsr_safetensors_write(path, NULL, &entry, 1, count_up, &entry);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, handler);
  assert_int_equal(status, TSR_ERR_IO);
  assert_message_has("File too large");
  assert_int_equal(count_files(folder), 0);
  remove_temporary_folder(folder);
}

/* ---- processes that are killed ----------------------------------------------------------------------------------- */

enum { KILLS = 20, KILLED_ELEMENTS = 60000 };

/* All elements of a file are its number. */
static tsr_status fill(void *context, int32_t index, int64_t first, int64_t count, void *elements)
{
  (void)index, (void)first;
  for (int64_t i = 0; i < count; i++) {
    ((int32_t *)elements)[i] = *(const int32_t *)context;
  }
  return TSR_OK;
}

typedef struct writer {
  const char *path;
  int32_t number; /* of the first file */
} writer;

/* killed_fn */
static void write_for_ever(void *context, int laps)
{
  const writer *w = context;
  longest_write = 5000; /* more moments to be killed in */
  for (int32_t number = w->number;; number++) {
    tsr_tensor_entry entries[2] = {{"a", TSR_I32, TSR_SHAPE(KILLED_ELEMENTS)},
                                   {"b", TSR_I32, TSR_SHAPE(1 + number % 1000)}};
    char text[16];
    snprintf(text, sizeof text, "%d", (int)number);
    json_t *metadata = json_pack("{s:s}", "number", text);
    if (tsr_safetensors_write(w->path, metadata, entries, 2, fill, &number) != TSR_OK) {
      return;
    }
    json_decref(metadata);
    killed_lap(laps);
  }
}

/* The number of the file that lies there, every element of which was looked at. */
static int32_t check_killed(const char *path)
{
  tsr_checkpoint *checkpoint;
  if (tsr_checkpoint_open(path, &checkpoint) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  const char *text = tsr_checkpoint_metadata(checkpoint, "number");
  assert_non_null(text);
  int32_t number = (int32_t)strtol(text, NULL, 10);
  assert_int_equal(tsr_checkpoint_find(checkpoint, "b")->size, 4 * (1 + number % 1000));
  const tsr_checkpoint_tensor *a = tsr_checkpoint_find(checkpoint, "a");
  assert_int_equal(a->size, 4 * KILLED_ELEMENTS);
  char *bytes = tensor_bytes(a);
  for (size_t i = 0; i < a->size; i += 4) {
    assert_memory_equal(bytes + i, &number, 4);
  }
  free(bytes);
  tsr_checkpoint_close(checkpoint);
  return number;
}

static void test_killed(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  const char *path = path_in(folder, "model.safetensors");
  int32_t number = 1;
  int32_t torn = 0;
  for (uint32_t k = 0; k < KILLS; k++) {
    kill_at_work(write_for_ever, &(writer){path, number}, k);
    torn += count_files(folder) > 1;
    int32_t found = check_killed(path);
    assert_true(found >= number);
    number = found + 1;
  }
  print_message("%d files were written, and %d times a part was left\n", (int)number - 1, (int)torn);
  /* What the last one left goes with the next write. */
  tsr_tensor_entry entry = {"a", TSR_I32, TSR_SHAPE(1)};
  assert_int_equal(tsr_safetensors_write(path, NULL, &entry, 1, fill, &number), TSR_OK);
  assert_int_equal(count_files(folder), 1);
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_replace),     cmocka_unit_test(test_leftovers),     cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_bad_places),  cmocka_unit_test(test_no_permission), cmocka_unit_test(test_safetensors),
      cmocka_unit_test(test_bad_entries), cmocka_unit_test(test_failing_calls), cmocka_unit_test(test_size_limit),
      cmocka_unit_test(test_killed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
