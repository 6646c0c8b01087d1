/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders, and files with names that nobody has.
 */
#include <windows.h>
/* after windows.h */
#include <ntsecapi.h>

#include "core/base/platform/windows/internal.h"

enum { TRIES = 1000, RANDOM_LETTERS = 6 };

struct win_folder {
  HANDLE search;
  WIN32_FIND_DATAW found;
  int has_next; /* `found` is what the next call tells */
  struct win_dirent entry;
};

win_folder *win_opendir(const char *path)
{
  struct win_stat info;
  if (win_stat(path, &info) != 0) {
    return NULL;
  }
  if (!S_ISDIR(info.st_mode)) {
    errno = ENOTDIR;
    return NULL;
  }
  const size_t size = strlen(path);
  char *pattern = malloc(size + 3);
  wchar_t *wide = NULL;
  win_folder *folder = calloc(1, sizeof *folder);
  if (pattern && folder) {
    snprintf(pattern, size + 3, "%s/*", path);
    wide = win_path(pattern);
  }
  if (wide) {
    folder->search = FindFirstFileW(wide, &folder->found);
    folder->has_next = folder->search != INVALID_HANDLE_VALUE;
    if (!folder->has_next) {
      win_set_errno(GetLastError());
    }
  }
  if (!folder || !folder->has_next) {
    free(folder);
    folder = NULL;
  }
  free(pattern);
  free(wide);
  return folder;
}

struct win_dirent *win_readdir(win_folder *folder)
{
  if (!folder->has_next) {
    return NULL;
  }
  WideCharToMultiByte(CP_UTF8, 0, folder->found.cFileName, -1, folder->entry.d_name, sizeof folder->entry.d_name, NULL,
                      NULL);
  folder->has_next = FindNextFileW(folder->search, &folder->found);
  return &folder->entry;
}

int win_closedir(win_folder *folder)
{
  FindClose(folder->search);
  free(folder);
  return 0;
}

/* Calls what takes one name. */
static int with_name(const char *path, BOOL(WINAPI *call)(const wchar_t *))
{
  wchar_t *name = win_path(path);
  const BOOL done = name && call(name);
  if (name && !done) {
    win_set_errno(GetLastError());
  }
  free(name);
  return done ? 0 : -1;
}

static BOOL WINAPI make(const wchar_t *name)
{
  return CreateDirectoryW(name, NULL);
}

int win_mkdir(const char *path, unsigned mode)
{
  (void)mode;
  return with_name(path, make);
}

int win_rmdir(const char *path)
{
  return with_name(path, RemoveDirectoryW);
}

int win_chdir(const char *path)
{
  return with_name(path, SetCurrentDirectoryW);
}

static BOOL WINAPI protect(const wchar_t *name)
{
  const DWORD is = GetFileAttributesW(name);
  return is != INVALID_FILE_ATTRIBUTES && SetFileAttributesW(name, is | FILE_ATTRIBUTE_READONLY);
}

static BOOL WINAPI open_up(const wchar_t *name)
{
  const DWORD is = GetFileAttributesW(name);
  return is != INVALID_FILE_ATTRIBUTES && SetFileAttributesW(name, is & ~(DWORD)FILE_ATTRIBUTE_READONLY);
}

int win_chmod(const char *path, unsigned mode)
{
  return with_name(path, mode & S_IWUSR ? open_up : protect);
}

int win_remove(const char *path)
{
  struct win_stat info;
  return win_lstat(path, &info) == 0 && S_ISDIR(info.st_mode) ? win_rmdir(path) : win_unlink(path);
}

char *win_getcwd(char *path, size_t size)
{
  wchar_t here[4096];
  const DWORD length = GetCurrentDirectoryW(sizeof here / sizeof here[0], here);
  char *plain = length > 0 && length < sizeof here / sizeof here[0] ? win_plain_path(here) : NULL;
  if (!plain || (path && strlen(plain) >= size)) {
    free(plain);
    errno = ERANGE;
    return NULL;
  }
  if (!path) {
    return plain;
  }
  memcpy(path, plain, strlen(plain) + 1);
  free(plain);
  return path;
}

ssize_t win_readlink(const char *path, char *target, size_t size)
{
  if (strcmp(path, "/proc/self/exe") != 0) {
    errno = EINVAL;
    return -1;
  }
  wchar_t name[4096];
  const DWORD length = GetModuleFileNameW(NULL, name, sizeof name / sizeof name[0]);
  char *plain = length > 0 && length < sizeof name / sizeof name[0] ? win_plain_path(name) : NULL;
  if (!plain) {
    errno = ENAMETOOLONG;
    return -1;
  }
  size_t n = strlen(plain);
  n = n < size ? n : size;
  memcpy(target, plain, n);
  free(plain);
  return (ssize_t)n;
}

int win_scandir(const char *path, struct win_dirent ***entries, int (*is_wanted)(const struct win_dirent *),
                int (*compare)(const struct win_dirent **, const struct win_dirent **))
{
  win_folder *folder = win_opendir(path);
  struct win_dirent **found = NULL;
  size_t n = 0;
  int failed = !folder;
  for (struct win_dirent *entry; !failed && (entry = win_readdir(folder)) != NULL;) {
    if (is_wanted && !is_wanted(entry)) {
      continue;
    }
    struct win_dirent **longer = realloc(found, (n + 1) * sizeof *found);
    found = longer ? longer : found;
    failed = !longer || !(found[n] = malloc(sizeof **found));
    if (!failed) {
      *found[n++] = *entry;
    }
  }
  if (folder) {
    win_closedir(folder);
  }
  while (failed && n > 0) {
    free(found[--n]);
  }
  if (failed) {
    free(found);
    return -1;
  }
  if (n > 0 && compare) {
    qsort(found, n, sizeof *found, (int (*)(const void *, const void *))compare);
  }
  *entries = found;
  return (int)n;
}

/* Puts letters at the end of the name in the place of XXXXXX until `make_it` succeeds; its result, or -1. */
static int make_unique(char *path, int (*make_it)(const char *))
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  const size_t size = strlen(path);
  if (size < RANDOM_LETTERS || strcmp(path + size - RANDOM_LETTERS, "XXXXXX") != 0) {
    errno = EINVAL;
    return -1;
  }
  for (int i = 0; i < TRIES; i++) {
    unsigned char drawn[RANDOM_LETTERS];
    if (!RtlGenRandom(drawn, sizeof drawn)) {
      errno = EIO;
      return -1;
    }
    for (int k = 0; k < RANDOM_LETTERS; k++) {
      path[size - RANDOM_LETTERS + (size_t)k] = letters[drawn[k] % (sizeof letters - 1)];
    }
    const int made = make_it(path);
    if (made >= 0 || errno != EEXIST) {
      return made;
    }
  }
  return -1;
}

static int make_file(const char *path)
{
  return win_open(path, O_RDWR | O_CREAT | O_EXCL);
}

static int make_folder(const char *path)
{
  return win_mkdir(path, 0700);
}

int win_mkstemp(char *path)
{
  return make_unique(path, make_file);
}

char *win_mkdtemp(char *path)
{
  return make_unique(path, make_folder) == 0 ? path : NULL;
}
