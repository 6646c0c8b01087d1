/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a measurement: sentences, and what is needed for a while.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"

const char bench_missing_file[] = "--model FOLDER and one file of sentences are needed";

/* What mkstemp and mkdtemp want; 0, with errno, where it does not fit. */
static int name_temporary(char *path, size_t size)
{
  char *found = path_in_temporary("tessera-bench-XXXXXX");
  int length = found ? snprintf(path, size, "%s", found) : 0;
  errno = found ? ENAMETOOLONG : ENOMEM;
  free(found);
  return length > 0 && length < (int)size;
}

int bench_make_folder(char *path, size_t size)
{
  if (name_temporary(path, size) && mkdtemp(path)) {
    return TSR_EXIT_OK;
  }
  tsr_cli_error("bench: %s: no folder can be made there: %s", path, strerror(errno));
  path[0] = '\0';
  return TSR_EXIT_INPUT;
}

static int write_line(const tsr_cli_lines *lines, char *path, size_t size)
{
  int file = name_temporary(path, size) ? mkstemp(path) : -1;
  if (file < 0) {
    tsr_cli_error("bench: %s: cannot be made: %s", path, strerror(errno));
    path[0] = '\0';
    return TSR_EXIT_INPUT;
  }
  int failed = write(file, lines->text, lines->size) != (ssize_t)lines->size || write(file, "\n", 1) != 1;
  failed |= close(file) != 0;
  if (failed) {
    tsr_cli_error("bench: %s: %s", path, strerror(errno));
  }
  return failed ? TSR_EXIT_INPUT : TSR_EXIT_OK;
}

int bench_first_line(const char *file, char *path, size_t size, int64_t *sentences)
{
  tsr_cli_lines lines;
  path[0] = '\0';
  *sentences = 0;
  int code = tsr_cli_lines_open(&lines, file);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  for (int got = 1; code == TSR_EXIT_OK && got;) {
    code = tsr_cli_lines_next(&lines, &got);
    *sentences += got;
    if (code == TSR_EXIT_OK && got && *sentences == 1) {
      code = write_line(&lines, path, size);
    }
  }
  tsr_cli_lines_finish(&lines);
  if (code == TSR_EXIT_OK && *sentences == 0) {
    tsr_cli_error("%s: no sentence in it", file);
    code = TSR_EXIT_INPUT;
  }
  return code;
}
