/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/corpus/spool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"

static int fail(const spool *s, const char *what)
{
  tsr_cli_error("%s: cannot be %s: %s", s->path, what, strerror(errno));
  return TSR_EXIT_INPUT;
}

char *spool_path(const char *folder, const char *name, int32_t number)
{
  char file[64];
  snprintf(file, sizeof file, "%s-%03d", name, (int)number);
  return path_join(folder, file);
}

static int open_file(spool *s, const char *folder, const char *name, int32_t number, const char *mode)
{
  s->path = spool_path(folder, name, number);
  if (!s->path) {
    return tsr_cli_no_memory();
  }
  s->file = fopen(s->path, mode);
  return s->file ? TSR_EXIT_OK : fail(s, mode[0] == 'w' ? "opened for writing" : "opened");
}

int spool_create(spool *s, const char *folder, const char *name, int32_t number)
{
  return open_file(s, folder, name, number, "wb");
}

int spool_open(spool *s, const char *folder, const char *name, int32_t number)
{
  return open_file(s, folder, name, number, "rb");
}

int spool_close(spool *s)
{
  FILE *file = s->file;
  s->file = NULL;
  int code = !file || fclose(file) == 0 ? TSR_EXIT_OK : fail(s, "written");
  spool_finish(s);
  return code;
}

int spool_sync(spool *s)
{
  return fflush(s->file) == 0 && fsync(fileno(s->file)) == 0 ? TSR_EXIT_OK : fail(s, "brought to the disk");
}

void spool_finish(spool *s)
{
  if (s->file) {
    fclose(s->file);
  }
  free(s->path);
  *s = (spool){0};
}

void spool_remove(spool *s)
{
  if (s->path) {
    unlink(s->path);
  }
  spool_finish(s);
}

int spool_put(spool *s, const void *bytes, size_t size)
{
  return fwrite(bytes, 1, size, s->file) == size ? TSR_EXIT_OK : fail(s, "written");
}

int spool_put_text(spool *s, const char *text, size_t size)
{
  uint32_t length = (uint32_t)size;
  int code = spool_put(s, &length, sizeof length);
  return code == TSR_EXIT_OK ? spool_put(s, text, size) : code;
}

int spool_fail(const spool *s)
{
  if (ferror(s->file)) {
    return fail(s, "read");
  }
  tsr_cli_error("%s: is not what was written there; remove the folder of --out, and begin again", s->path);
  return TSR_EXIT_INPUT;
}

int spool_get(spool *s, void *bytes, size_t size, int *got)
{
  size_t found = fread(bytes, 1, size, s->file);
  *got = found == size;
  return *got || (found == 0 && feof(s->file)) ? TSR_EXIT_OK : spool_fail(s);
}

int spool_get_text(spool *s, spool_text *text)
{
  uint32_t size = 0;
  if (fread(&size, 1, sizeof size, s->file) != sizeof size) {
    return spool_fail(s);
  }
  if (size >= text->room) { /* also for an empty one, so that there are bytes */
    char *longer = realloc(text->bytes, (size_t)size + 1);
    if (!longer) {
      return tsr_cli_no_memory();
    }
    text->bytes = longer;
    text->room = (size_t)size + 1;
  }
  text->size = size;
  return fread(text->bytes, 1, size, s->file) == size ? TSR_EXIT_OK : spool_fail(s);
}
