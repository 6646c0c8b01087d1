/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/common/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"

int tsr_cli_lines_open(tsr_cli_lines *lines, const char *path)
{
  memset(lines, 0, sizeof *lines);
  if (!path || strcmp(path, "-") == 0) {
    lines->name = "standard input";
    lines->file = stdin;
    return TSR_EXIT_OK;
  }
  struct stat status;
  lines->name = path;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
    tsr_cli_error("%s: expected a file, found a folder", path);
    return TSR_EXIT_INPUT;
  }
  lines->file = fopen(path, "rb");
  if (!lines->file) {
    tsr_cli_error("%s: %s", path, strerror(errno));
    return TSR_EXIT_INPUT;
  }
  return TSR_EXIT_OK;
}

void tsr_cli_lines_finish(tsr_cli_lines *lines)
{
  if (lines->file && lines->file != stdin) {
    fclose(lines->file);
  }
  free(lines->text);
  memset(lines, 0, sizeof *lines);
}

int tsr_cli_check_output(const char *path)
{
  /* One that is there may be replaced although it is not writable itself. */
  if (!path || strcmp(path, "-") == 0 || path_exists(path) || path_is_writable(path)) {
    return TSR_EXIT_OK;
  }
  tsr_cli_error("%s: cannot be written: %s", path, strerror(errno));
  return TSR_EXIT_INPUT;
}

const char *tsr_cli_path(const char *name)
{
  return name && strcmp(name, "-") == 0 ? "/dev/stdin" : name;
}

/* What a file begins with that is no text in UTF-8: its lines would be read as noise, and translated. */
static int refuse_form(const tsr_cli_lines *lines, size_t size)
{
  static const struct {
    const char *begin, *what;
  } forms[] = {
      {"\x1F\x8B\x08", "compressed by gzip; decompress it first, with gzip -dc"},
      {"\x28\xB5\x2F\xFD", "compressed by zstd; decompress it first, with zstd -dc"},
      {"PK\x03\x04", "a zip archive or an office document"},
      {"\xFF\xFE", "UTF-16; convert it first, with iconv -f UTF-16 -t UTF-8"},
      {"\xFE\xFF", "UTF-16; convert it first, with iconv -f UTF-16 -t UTF-8"},
  };
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    const size_t n = strlen(forms[i].begin);
    if (size >= n && memcmp(lines->text, forms[i].begin, n) == 0) {
      tsr_cli_error("%s: expected lines of text in UTF-8, found %s", lines->name, forms[i].what);
      return TSR_EXIT_INPUT;
    }
  }
  return TSR_EXIT_OK;
}

int tsr_cli_lines_next(tsr_cli_lines *lines, int *got)
{
  *got = 0;
  errno = 0;
  ssize_t size = getline(&lines->text, &lines->room, lines->file);
  if (size < 0) {
    if (feof(lines->file)) {
      return TSR_EXIT_OK;
    }
    int reason = errno;
    if (reason == ENOMEM) {
      return tsr_cli_no_memory();
    }
    tsr_cli_error("%s, after line %lld: %s", lines->name, (long long)lines->number, strerror(reason));
    return TSR_EXIT_INPUT;
  }
  int code = lines->number == 0 ? refuse_form(lines, (size_t)size) : TSR_EXIT_OK;
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (size > 0 && lines->text[size - 1] == '\n') {
    size--;
    if (size > 0 && lines->text[size - 1] == '\r') {
      size--;
    }
  }
  static const char mark[] = "\xEF\xBB\xBF";
  if (lines->number == 0 && (size_t)size >= strlen(mark) && memcmp(lines->text, mark, strlen(mark)) == 0) {
    size -= (ssize_t)strlen(mark);
    memmove(lines->text, lines->text + strlen(mark), (size_t)size);
  }
  lines->text[size] = '\0';
  lines->size = (size_t)size;
  lines->number++;
  *got = 1;
  return TSR_EXIT_OK;
}

int tsr_cli_flush(void)
{
  static int told;
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) {
    return TSR_EXIT_OK;
  }
  if (!told) {
    tsr_cli_error("standard output: %s", errno ? strerror(errno) : "could not be written");
    told = 1;
  }
  return TSR_EXIT_INPUT;
}

void tsr_cli_put_line(const char *text)
{
  for (; *text; text++) {
    putchar(*text == '\n' || *text == '\r' ? ' ' : *text);
  }
  putchar('\n');
}
