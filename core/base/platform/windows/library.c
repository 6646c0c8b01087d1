/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared libraries.
 */
#include <windows.h>

#include "core/base/platform/windows/internal.h"
#include <dlfcn.h>

static _Thread_local char message[512];
static _Thread_local int has_failed;

/* Windows's words for the last error. */
static void keep_error(void)
{
  const DWORD code = GetLastError();
  wchar_t text[256];
  DWORD length = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0, text,
                                sizeof text / sizeof text[0] - 1, NULL);
  while (length > 0 && (text[length - 1] == L'\n' || text[length - 1] == L'\r' || text[length - 1] == L'.')) {
    length--;
  }
  text[length] = L'\0';
  char *narrow = win_narrow(text);
  snprintf(message, sizeof message, "%s (Windows error %lu)", narrow ? narrow : "it failed", code);
  free(narrow);
  has_failed = 1;
}

void *win_dlopen(const char *path, int flags)
{
  if (!path) {
    return GetModuleHandleW(NULL);
  }
  wchar_t *name = strpbrk(path, "/\\") ? win_path(path) : win_wide(path);
  if (!name) {
    snprintf(message, sizeof message, "%s", strerror(errno));
    has_failed = 1;
    return NULL;
  }
  if (flags & RTLD_NOLOAD) {
    HMODULE loaded = NULL;
    const BOOL is_there = GetModuleHandleExW(0, name, &loaded);
    free(name);
    return is_there ? loaded : NULL;
  }
  /* What a library in a folder needs is looked for in that folder first. No window asks the user for a missing one. */
  DWORD before = 0;
  SetThreadErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX, &before);
  HMODULE library = LoadLibraryExW(name, NULL, strpbrk(path, "/\\") ? LOAD_WITH_ALTERED_SEARCH_PATH : 0);
  if (!library) {
    keep_error();
  }
  SetThreadErrorMode(before, NULL);
  free(name);
  return library;
}

void *win_dlsym(void *library, const char *name)
{
  void *symbol = (void *)GetProcAddress(library ? library : GetModuleHandleW(NULL), name);
  if (!symbol) {
    keep_error();
  }
  return symbol;
}

int win_dlclose(void *library)
{
  return FreeLibrary(library) ? 0 : -1;
}

char *win_dlerror(void)
{
  char *text = has_failed ? message : NULL;
  has_failed = 0;
  return text;
}

int win_dladdr(const void *address, Dl_info *info)
{
  static _Thread_local char path[4096];
  HMODULE module;
  wchar_t name[4096];
  if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                          (const wchar_t *)address, &module)) {
    return 0;
  }
  const DWORD length = GetModuleFileNameW(module, name, sizeof name / sizeof name[0]);
  char *plain = length > 0 && length < sizeof name / sizeof name[0] ? win_plain_path(name) : NULL;
  if (!plain || strlen(plain) >= sizeof path) {
    free(plain);
    return 0;
  }
  memcpy(path, plain, strlen(plain) + 1);
  free(plain);
  info->dli_fname = path;
  return 1;
}
