/* SPDX-License-Identifier: Apache-2.0
 *
 * Files by descriptor. Each is opened so that others may rename, replace and remove it meanwhile.
 */
#include <stdarg.h>
#include <windows.h>
#include <winternl.h>

#include "core/base/platform/windows/internal.h"

enum { AT_ONCE = 1 << 30, SHARED = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

/* Seconds and nanoseconds since 1970 of Windows's 100 nanoseconds since 1601. */
static struct timespec time_of(FILETIME time)
{
  const uint64_t ticks = (uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime;
  const int64_t since = (int64_t)ticks - 116444736000000000;
  return (struct timespec){.tv_sec = since / 10000000, .tv_nsec = (long)(since % 10000000) * 100};
}

static int examine(HANDLE handle, int is_link_itself, struct win_stat *info)
{
  *info = (struct win_stat){.st_nlink = 1};
  const DWORD type = GetFileType(handle);
  BY_HANDLE_FILE_INFORMATION found;
  if (type == FILE_TYPE_CHAR || type == FILE_TYPE_PIPE) {
    info->st_mode = (type == FILE_TYPE_CHAR ? S_IFCHR : S_IFIFO) | 0600;
    return 0;
  }
  if (!GetFileInformationByHandle(handle, &found)) {
    win_set_errno(GetLastError());
    return -1;
  }
  const DWORD is = found.dwFileAttributes;
  const int is_link = is_link_itself && (is & FILE_ATTRIBUTE_REPARSE_POINT);
  info->st_mode = (is_link                         ? S_IFLNK
                   : is & FILE_ATTRIBUTE_DIRECTORY ? S_IFDIR
                                                   : S_IFREG) |
                  (is & FILE_ATTRIBUTE_READONLY ? 0500 : 0700);
  info->st_dev = found.dwVolumeSerialNumber;
  info->st_ino = (uint64_t)found.nFileIndexHigh << 32 | found.nFileIndexLow;
  info->st_nlink = found.nNumberOfLinks;
  info->st_size = (int64_t)((uint64_t)found.nFileSizeHigh << 32 | found.nFileSizeLow);
  info->st_mtim = time_of(found.ftLastWriteTime);
  info->st_mtime = info->st_mtim.tv_sec;
  return 0;
}

/* Opens for what needs no right to its content. */
static HANDLE open_name(const char *path, DWORD access, DWORD flags)
{
  wchar_t *name = win_path(path);
  HANDLE handle = INVALID_HANDLE_VALUE;
  if (name) {
    handle = CreateFileW(name, access, SHARED, NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | flags, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
      win_set_errno(GetLastError());
    }
    free(name);
  }
  return handle;
}

static int examine_name(const char *path, int is_link_itself, struct win_stat *info)
{
  HANDLE handle = open_name(path, FILE_READ_ATTRIBUTES, is_link_itself ? FILE_FLAG_OPEN_REPARSE_POINT : 0);
  if (handle == INVALID_HANDLE_VALUE) {
    return -1;
  }
  const int result = examine(handle, is_link_itself, info);
  CloseHandle(handle);
  return result;
}

int win_stat(const char *path, struct win_stat *info)
{
  return examine_name(path, 0, info);
}

int win_lstat(const char *path, struct win_stat *info)
{
  return examine_name(path, 1, info);
}

int win_fstat(int descriptor, struct win_stat *info)
{
  HANDLE handle = (HANDLE)_get_osfhandle(descriptor);
  if (handle == INVALID_HANDLE_VALUE) {
    errno = EBADF;
    return -1;
  }
  return examine(handle, 0, info);
}

int win_access(const char *path, int wanted)
{
  struct win_stat info;
  if (win_stat(path, &info) != 0) {
    return -1;
  }
  if ((wanted & W_OK) && !S_ISDIR(info.st_mode) && !(info.st_mode & S_IWUSR)) {
    errno = EACCES;
    return -1;
  }
  return 0;
}

static DWORD disposition(int flags)
{
  if (flags & O_CREAT) {
    return flags & O_EXCL ? CREATE_NEW : flags & O_TRUNC ? CREATE_ALWAYS : OPEN_ALWAYS;
  }
  return flags & O_TRUNC ? TRUNCATE_EXISTING : OPEN_EXISTING;
}

static int is_link(const char *path)
{
  struct win_stat info;
  return win_lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

int win_open(const char *path, int flags, ...)
{
  const int how = flags & (O_RDONLY | O_WRONLY | O_RDWR);
  const DWORD access = how == O_RDONLY ? GENERIC_READ : how == O_WRONLY ? GENERIC_WRITE : GENERIC_READ | GENERIC_WRITE;
  if ((flags & O_NOFOLLOW) && is_link(path)) {
    errno = ELOOP;
    return -1;
  }
  wchar_t *name = win_path(path);
  if (!name) {
    return -1;
  }
  HANDLE handle = CreateFileW(name, access, SHARED, NULL, disposition(flags),
                              FILE_ATTRIBUTE_NORMAL | FILE_FLAG_BACKUP_SEMANTICS, NULL);
  const DWORD code = GetLastError();
  const DWORD is = handle == INVALID_HANDLE_VALUE ? GetFileAttributesW(name) : 0;
  free(name);
  if (handle == INVALID_HANDLE_VALUE) {
    win_set_errno(code);
    if (is != INVALID_FILE_ATTRIBUTES && (is & FILE_ATTRIBUTE_DIRECTORY)) {
      errno = EISDIR;
    }
    return -1;
  }
  const int descriptor = _open_osfhandle((intptr_t)handle, how | _O_BINARY | _O_NOINHERIT | (flags & O_APPEND));
  if (descriptor < 0) {
    CloseHandle(handle);
    return -1;
  }
  struct win_stat info;
  if ((flags & O_DIRECTORY) && (win_fstat(descriptor, &info) != 0 || !S_ISDIR(info.st_mode))) {
    _close(descriptor);
    errno = ENOTDIR;
    return -1;
  }
  return descriptor;
}

ssize_t win_read(int descriptor, void *bytes, size_t size)
{
  return _read(descriptor, bytes, (unsigned)(size < AT_ONCE ? size : AT_ONCE));
}

ssize_t win_write(int descriptor, const void *bytes, size_t size)
{
  return _write(descriptor, bytes, (unsigned)(size < AT_ONCE ? size : AT_ONCE));
}

ssize_t win_pread(int descriptor, void *bytes, size_t size, int64_t at)
{
  OVERLAPPED place = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)((uint64_t)at >> 32)};
  DWORD n = 0;
  if (!ReadFile((HANDLE)_get_osfhandle(descriptor), bytes, (DWORD)(size < AT_ONCE ? size : AT_ONCE), &n, &place)) {
    const DWORD code = GetLastError();
    if (code != ERROR_HANDLE_EOF) {
      win_set_errno(code);
      return -1;
    }
  }
  return (ssize_t)n;
}

int64_t win_lseek(int descriptor, int64_t offset, int whence)
{
  HANDLE handle = (HANDLE)_get_osfhandle(descriptor);
  if (handle != INVALID_HANDLE_VALUE && GetFileType(handle) != FILE_TYPE_DISK) {
    errno = ESPIPE; /* the C library pretends to seek in a pipe */
    return -1;
  }
  return _lseeki64(descriptor, offset, whence);
}

int win_fsync(int descriptor)
{
  struct win_stat info;
  if (win_fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode)) {
    errno = EINVAL; /* a folder's names go to the disk by themselves */
    return -1;
  }
  return _commit(descriptor);
}

int win_ftruncate(int descriptor, int64_t size)
{
  HANDLE handle = (HANDLE)_get_osfhandle(descriptor);
  FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = size};
  if (!SetFileInformationByHandle(handle, FileEndOfFileInfo, &end, sizeof end)) {
    win_set_errno(GetLastError());
    return -1;
  }
  return 0;
}

int win_flock(int descriptor, int operation)
{
  HANDLE handle = (HANDLE)_get_osfhandle(descriptor);
  /* One byte where no file reaches: what a lock covers, others could not read. */
  OVERLAPPED place = {.OffsetHigh = 0x40000000};
  const DWORD flags =
      (operation & LOCK_EX ? LOCKFILE_EXCLUSIVE_LOCK : 0) | (operation & LOCK_NB ? LOCKFILE_FAIL_IMMEDIATELY : 0);
  if (!LockFileEx(handle, flags, 0, 1, 0, &place)) {
    win_set_errno(GetLastError());
    return -1;
  }
  return 0;
}

/* What Windows 10 of 2017 and later does as POSIX says, and earlier ones refuse. */
static int rename_open(HANDLE handle, const wchar_t *to)
{
  const size_t length = wcslen(to) * sizeof *to, room = sizeof(FILE_RENAME_INFO) + length;
  FILE_RENAME_INFO *info = calloc(1, room);
  if (!info) {
    return 0;
  }
  enum { REPLACE_IF_EXISTS = 1, POSIX_SEMANTICS = 2, RENAME_INFO_EX = 22 };
  info->Flags = REPLACE_IF_EXISTS | POSIX_SEMANTICS;
  info->FileNameLength = (DWORD)length;
  memcpy(info->FileName, to, length);
  const BOOL done = SetFileInformationByHandle(handle, (FILE_INFO_BY_HANDLE_CLASS)RENAME_INFO_EX, info, (DWORD)room);
  free(info);
  return done;
}

int win_rename(const char *from, const char *to)
{
  wchar_t *old_name = win_path(from), *new_name = win_path(to);
  int done = 0;
  if (old_name && new_name) {
    HANDLE handle = CreateFileW(old_name, DELETE | SYNCHRONIZE, SHARED, NULL, OPEN_EXISTING,
                                FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    if (handle != INVALID_HANDLE_VALUE) {
      done = rename_open(handle, new_name);
      CloseHandle(handle);
    }
    done = done || MoveFileExW(old_name, new_name, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH);
    if (!done) {
      win_set_errno(GetLastError());
      const DWORD is = GetFileAttributesW(new_name);
      if (errno == EACCES && is != INVALID_FILE_ATTRIBUTES && (is & FILE_ATTRIBUTE_DIRECTORY)) {
        errno = EISDIR;
      }
    }
  }
  free(old_name);
  free(new_name);
  return done ? 0 : -1;
}

static int delete_open(HANDLE handle)
{
  enum { DELETE_IT = 1, POSIX_SEMANTICS = 2, IGNORE_READONLY = 16, DISPOSITION_INFO_EX = 21 };
  DWORD flags = DELETE_IT | POSIX_SEMANTICS | IGNORE_READONLY;
  return SetFileInformationByHandle(handle, (FILE_INFO_BY_HANDLE_CLASS)DISPOSITION_INFO_EX, &flags, sizeof flags);
}

int win_unlink(const char *path)
{
  wchar_t *name = win_path(path);
  if (!name) {
    return -1;
  }
  HANDLE handle = CreateFileW(name, DELETE, SHARED, NULL, OPEN_EXISTING,
                              FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
  struct win_stat info;
  int done = 0;
  if (handle != INVALID_HANDLE_VALUE) {
    const int is_folder = examine(handle, 1, &info) == 0 && S_ISDIR(info.st_mode);
    done = !is_folder && delete_open(handle);
    CloseHandle(handle);
  }
  done = done || DeleteFileW(name);
  if (!done) {
    win_set_errno(GetLastError());
  }
  free(name);
  return done ? 0 : -1;
}

char *win_realpath(const char *path, char *resolved)
{
  (void)resolved;
  HANDLE handle = open_name(path, 0, 0);
  if (handle == INVALID_HANDLE_VALUE) {
    return NULL;
  }
  const DWORD room = GetFinalPathNameByHandleW(handle, NULL, 0, 0);
  wchar_t *wide = room > 0 ? malloc((room + 1) * sizeof *wide) : NULL;
  char *found = NULL;
  if (wide && GetFinalPathNameByHandleW(handle, wide, room + 1, 0) > 0) {
    found = win_plain_path(wide);
  } else {
    errno = wide ? EIO : ENOMEM;
  }
  free(wide);
  CloseHandle(handle);
  return found;
}

int win_symlink(const char *target, const char *path)
{
  wchar_t *to = win_path(target), *name = win_path(path);
  int done = 0;
  if (to && name) {
    const DWORD is = GetFileAttributesW(to);
    const DWORD folder = is != INVALID_FILE_ATTRIBUTES && (is & FILE_ATTRIBUTE_DIRECTORY) ? 1 : 0;
    enum { UNPRIVILEGED = 2 };
    /* Wine says that it made a link, and makes none. */
    done =
        (CreateSymbolicLinkW(name, to, folder | UNPRIVILEGED) && GetFileAttributesW(name) != INVALID_FILE_ATTRIBUTES) ||
        CreateHardLinkW(name, to, NULL);
    if (!done) {
      win_set_errno(GetLastError());
    }
  }
  free(to);
  free(name);
  return done ? 0 : -1;
}

static FILETIME ticks_of(struct timespec time)
{
  const uint64_t ticks = (uint64_t)(time.tv_sec * 10000000 + time.tv_nsec / 100 + 116444736000000000);
  return (FILETIME){.dwLowDateTime = (DWORD)ticks, .dwHighDateTime = (DWORD)(ticks >> 32)};
}

int win_utimensat(int folder, const char *path, const struct timespec times[2], int flags)
{
  (void)folder, (void)flags;
  HANDLE handle = open_name(path, FILE_WRITE_ATTRIBUTES, 0);
  if (handle == INVALID_HANDLE_VALUE) {
    return -1;
  }
  const FILETIME read = ticks_of(times[0]), written = ticks_of(times[1]);
  const BOOL done = SetFileTime(handle, NULL, &read, &written);
  if (!done) {
    win_set_errno(GetLastError());
  }
  CloseHandle(handle);
  return done ? 0 : -1;
}
