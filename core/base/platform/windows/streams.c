/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of the C library over this room's descriptors, and those that end in memory.
 */
#include <windows.h>

#include "core/base/platform/windows/internal.h"

enum { MODE_ROOM = 8 };

static int flags_of(const char *mode)
{
  const int updates = strchr(mode, '+') != NULL;
  switch (mode[0]) {
  case 'r':
    return updates ? O_RDWR : O_RDONLY;
  case 'w':
    return (updates ? O_RDWR : O_WRONLY) | O_CREAT | O_TRUNC | (strchr(mode, 'x') ? O_EXCL : 0);
  default:
    return (updates ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND;
  }
}

FILE *win_fdopen(int descriptor, const char *mode)
{
  char binary[MODE_ROOM];
  snprintf(binary, sizeof binary, "%c%sb", mode[0], strchr(mode, '+') ? "+" : "");
  return _fdopen(descriptor, binary);
}

FILE *win_fopen(const char *path, const char *mode)
{
  const int descriptor = win_open(path, flags_of(mode));
  FILE *file = descriptor >= 0 ? win_fdopen(descriptor, mode) : NULL;
  if (descriptor >= 0 && !file) {
    _close(descriptor);
  }
  return file;
}

/* Gone when it is closed. */
static FILE *open_temporary(void)
{
  wchar_t folder[MAX_PATH + 1], name[MAX_PATH + 1];
  if (GetTempPathW(MAX_PATH, folder) == 0 || GetTempFileNameW(folder, L"tsr", 0, name) == 0) {
    win_set_errno(GetLastError());
    return NULL;
  }
  HANDLE handle = CreateFileW(name, GENERIC_READ | GENERIC_WRITE | DELETE, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL,
                              CREATE_ALWAYS, FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
  if (handle == INVALID_HANDLE_VALUE) {
    win_set_errno(GetLastError());
    return NULL;
  }
  const int descriptor = _open_osfhandle((intptr_t)handle, _O_RDWR | _O_BINARY | _O_NOINHERIT);
  FILE *file = descriptor >= 0 ? _fdopen(descriptor, "w+b") : NULL;
  if (!file) {
    if (descriptor >= 0) {
      _close(descriptor);
    } else {
      CloseHandle(handle);
    }
  }
  return file;
}

/* What open_memstream returned: a temporary file, read into memory where it is flushed or closed. */
typedef struct memory_stream {
  FILE *file;
  char **text;
  size_t *size;
  struct memory_stream *next;
} memory_stream;

static memory_stream *memory_streams;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

FILE *win_open_memstream(char **text, size_t *size)
{
  memory_stream *stream = malloc(sizeof *stream);
  FILE *file = stream ? open_temporary() : NULL;
  if (!file) {
    free(stream);
    return NULL;
  }
  *text = NULL;
  *size = 0;
  *stream = (memory_stream){.file = file, .text = text, .size = size};
  pthread_mutex_lock(&lock);
  stream->next = memory_streams;
  memory_streams = stream;
  pthread_mutex_unlock(&lock);
  return file;
}

/* That of the file, taken from the list with `take`; NULL: an ordinary file. */
static memory_stream *find(FILE *file, int take)
{
  pthread_mutex_lock(&lock);
  memory_stream **link = &memory_streams;
  while (*link && (*link)->file != file) {
    link = &(*link)->next;
  }
  memory_stream *found = *link;
  if (found && take) {
    *link = found->next;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static int copy(const memory_stream *stream)
{
  if (fflush(stream->file) != 0) {
    return -1;
  }
  const int64_t size = _ftelli64(stream->file);
  char *text = size >= 0 ? realloc(*stream->text, (size_t)size + 1) : NULL;
  if (!text) {
    return -1;
  }
  *stream->text = text;
  rewind(stream->file);
  const size_t n = fread(text, 1, (size_t)size, stream->file);
  text[n] = '\0';
  *stream->size = n;
  return n == (size_t)size && _fseeki64(stream->file, size, SEEK_SET) == 0 ? 0 : -1;
}

int win_fflush(FILE *file)
{
  const memory_stream *stream = file ? find(file, 0) : NULL;
  return stream ? copy(stream) : fflush(file);
}

int win_fclose(FILE *file)
{
  memory_stream *stream = find(file, 1);
  const int copied = stream ? copy(stream) : 0;
  free(stream);
  return fclose(file) == 0 ? copied : EOF;
}

ssize_t win_getline(char **line, size_t *room, FILE *file)
{
  size_t size = 0;
  for (int c = 0; c != '\n' && (c = getc(file)) != EOF;) {
    if (!*line || size + 2 > *room) {
      const size_t more = *line && *room > 0 ? 2 * *room : 128;
      char *longer = realloc(*line, more);
      if (!longer) {
        errno = ENOMEM;
        return -1;
      }
      *line = longer;
      *room = more;
    }
    (*line)[size++] = (char)c;
  }
  if (size == 0) {
    return -1;
  }
  (*line)[size] = '\0';
  return (ssize_t)size;
}
