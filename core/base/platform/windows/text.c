/* SPDX-License-Identifier: Apache-2.0
 *
 * Between UTF-8 and Windows's UTF-16, and from Windows's codes of errors to errno.
 */
#include <windows.h>

#include "core/base/platform/windows/internal.h"
#include <fnmatch.h>

enum { SHORT_PATH = 240 }; /* longer ones need the prefix; a folder's limit is 248 */

void win_set_errno(unsigned long code)
{
  static const struct {
    unsigned long code;
    int number;
  } known[] = {
      {ERROR_FILE_NOT_FOUND, ENOENT},
      {ERROR_PATH_NOT_FOUND, ENOENT},
      {ERROR_INVALID_NAME, ENOENT},
      {ERROR_BAD_NETPATH, ENOENT},
      {ERROR_BAD_NET_NAME, ENOENT},
      {ERROR_INVALID_DRIVE, ENOENT},
      {ERROR_BAD_PATHNAME, ENOENT},
      {ERROR_ACCESS_DENIED, EACCES},
      {ERROR_SHARING_VIOLATION, EACCES},
      {ERROR_PRIVILEGE_NOT_HELD, EPERM},
      {ERROR_LOCK_VIOLATION, EWOULDBLOCK},
      {ERROR_IO_PENDING, EWOULDBLOCK},
      {ERROR_FILE_EXISTS, EEXIST},
      {ERROR_ALREADY_EXISTS, EEXIST},
      {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
      {ERROR_DIRECTORY, ENOTDIR},
      {ERROR_DISK_FULL, ENOSPC},
      {ERROR_HANDLE_DISK_FULL, ENOSPC},
      {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
      {ERROR_OUTOFMEMORY, ENOMEM},
      {ERROR_COMMITMENT_LIMIT, ENOMEM},
      {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
      {ERROR_INVALID_HANDLE, EBADF},
      {ERROR_BROKEN_PIPE, EPIPE},
      {ERROR_NO_DATA, EPIPE},
      {ERROR_WRITE_PROTECT, EROFS},
      {ERROR_NOT_SAME_DEVICE, EXDEV},
      {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
      {ERROR_CANT_RESOLVE_FILENAME, ELOOP},
      {ERROR_INVALID_PARAMETER, EINVAL},
      {ERROR_NOT_SUPPORTED, EINVAL},
      {ERROR_INVALID_FUNCTION, EINVAL},
  };
  errno = EIO;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (known[i].code == code) {
      errno = known[i].number;
    }
  }
}

wchar_t *win_wide(const char *text)
{
  int size = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
  wchar_t *wide = size > 0 ? malloc((size_t)size * sizeof *wide) : NULL;
  if (wide) {
    MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, size);
  } else {
    errno = size > 0 ? ENOMEM : EILSEQ;
  }
  return wide;
}

char *win_narrow(const wchar_t *text)
{
  int size = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
  char *narrow = size > 0 ? malloc((size_t)size) : NULL;
  if (narrow) {
    WideCharToMultiByte(CP_UTF8, 0, text, -1, narrow, size, NULL, NULL);
  } else {
    errno = size > 0 ? ENOMEM : EILSEQ;
  }
  return narrow;
}

/* From its root on, behind the prefix that lifts the limit of length; NULL: errno tells. */
static wchar_t *lengthened(const wchar_t *path)
{
  const DWORD size = GetFullPathNameW(path, 0, NULL, NULL);
  wchar_t *full = size > 0 ? malloc((size + 8) * sizeof *full) : NULL;
  if (!full) {
    errno = ENOMEM;
    return NULL;
  }
  wchar_t *from = full + 8;
  GetFullPathNameW(path, size, from, NULL);
  /* \\server\share is \\?\UNC\server\share, C:\folder is \\?\C:\folder. */
  const wchar_t *prefix = L"\\\\?\\";
  if (from[0] == L'\\' && from[1] == L'\\') {
    prefix = L"\\\\?\\UNC";
    from++;
  }
  const size_t length = wcslen(prefix), rest = wcslen(from) + 1;
  memmove(full + length, from, rest * sizeof *full);
  memcpy(full, prefix, length * sizeof *full);
  return full;
}

wchar_t *win_path(const char *path)
{
  if (path[0] == '\0') {
    errno = ENOENT;
    return NULL;
  }
  wchar_t *wide = win_wide(strcmp(path, "/dev/null") == 0 ? "NUL" : path);
  if (!wide) {
    return NULL;
  }
  for (wchar_t *at = wide; *at; at++) {
    if (*at == L'/') {
      *at = L'\\';
    }
  }
  const int has_prefix = wcsncmp(wide, L"\\\\?\\", 4) == 0 || wcsncmp(wide, L"\\\\.\\", 4) == 0;
  wchar_t here[SHORT_PATH];
  const DWORD folder = GetCurrentDirectoryW(SHORT_PATH, here);
  const int is_short = folder > 0 && folder < SHORT_PATH && folder + wcslen(wide) < SHORT_PATH;
  if (has_prefix || is_short) {
    return wide;
  }
  wchar_t *full = lengthened(wide);
  free(wide);
  return full;
}

char *win_plain_path(wchar_t *path)
{
  if (wcsncmp(path, L"\\\\?\\UNC\\", 8) == 0) {
    path += 6;
    path[0] = L'\\';
  } else if (wcsncmp(path, L"\\\\?\\", 4) == 0) {
    path += 4;
  }
  char *plain = win_narrow(path);
  for (char *at = plain; at && *at; at++) {
    if (*at == '\\') {
      *at = '/';
    }
  }
  return plain;
}

char *win_strndup(const char *text, size_t most)
{
  const size_t size = strnlen(text, most);
  char *copy = malloc(size + 1);
  if (copy) {
    memcpy(copy, text, size);
    copy[size] = '\0';
  }
  return copy;
}

char *win_strsep(char **text, const char *separators)
{
  char *word = *text;
  if (!word) {
    return NULL;
  }
  char *end = word + strcspn(word, separators);
  *text = *end ? end + 1 : NULL;
  *end = '\0';
  return word;
}

const char *win_strsignal(int number)
{
  switch (number) {
  case SIGABRT:
    return "Aborted";
  case SIGFPE:
    return "Arithmetic fault";
  case SIGILL:
    return "Illegal instruction";
  case SIGINT:
    return "Interrupted";
  case SIGKILL:
    return "Killed";
  case SIGSEGV:
    return "Invalid memory access";
  default:
    return "Unknown signal";
  }
}

/* Whether the set that begins at *pattern, behind its '[', holds c; *pattern then stands behind its ']'. -1: it has no
 * end. */
static int is_in_set(const char **pattern, char c)
{
  const char *at = *pattern;
  const int is_inverted = *at == '!' || *at == '^';
  int is_in = 0;
  at += is_inverted;
  for (const char *first = at; *at != ']' || at == first;) {
    at += *at == '\\' && at[1];
    const unsigned char low = (unsigned char)*at;
    if (low == '\0') {
      return -1;
    }
    unsigned char high = low;
    if (at[1] == '-' && at[2] && at[2] != ']') {
      at += 2;
      at += *at == '\\' && at[1];
      high = (unsigned char)*at;
    }
    at++;
    is_in |= low <= (unsigned char)c && (unsigned char)c <= high;
  }
  *pattern = at + 1;
  return is_in != is_inverted;
}

int win_fnmatch(const char *pattern, const char *text, int flags)
{
  /* Where the last star stands, and what it has taken up to. */
  const char *star = NULL, *taken = NULL;
  for (;;) {
    const char *next = pattern + 1;
    int fits = 0;
    switch (*pattern) {
    case '*':
      star = next;
      taken = text;
      pattern = next;
      continue;
    case '?':
      fits = *text != '\0';
      break;
    case '[':
      fits = *text ? is_in_set(&next, *text) : 0;
      if (fits < 0) {
        next = pattern + 1;
        fits = *text == '[';
      }
      break;
    case '\\':
      next += pattern[1] != '\0';
      fits = *text == (pattern[1] ? pattern[1] : '\\');
      break;
    case '\0':
      if (*text == '\0') {
        return 0;
      }
      break;
    default:
      fits = *text == *pattern;
      break;
    }
    if (fits) {
      pattern = next;
      text++;
    } else if (star && *taken) {
      pattern = star;
      text = ++taken;
    } else {
      (void)flags;
      return FNM_NOMATCH;
    }
  }
}
