/* SPDX-License-Identifier: Apache-2.0
 *
 * The models and texts of a report: those that the command line names, or what lies at hand.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/report/report.h"

/* Where a source tree or an installation may be: here, and from the program's folder. */
static const char *const roots[] = {".", "../../..", "../share/tessera"};

/* Writes root/name if that is there; else "". */
static int is_there(const char *root, const char *name, char *path)
{
  int length = snprintf(path, REPORT_PATH, "%s/%s", root, name);
  if (length >= REPORT_PATH || !path_exists(path)) {
    path[0] = '\0';
  }
  return path[0] != '\0';
}

static void look_for(const char *name, char *path)
{
  char program[REPORT_PATH], root[2 * REPORT_PATH];
  int known = path_of_program(program, sizeof program);
  if (known) {
    *strrchr(program, '/') = '\0';
  }
  path[0] = '\0';
  for (size_t i = 0; i < sizeof roots / sizeof roots[0] && !path[0]; i++) {
    if (i == 0) {
      is_there(roots[i], name, path);
    } else if (known) {
      snprintf(root, sizeof root, "%s/%s", program, roots[i]);
      is_there(root, name, path);
    }
  }
}

static void take(char *path, const char *given)
{
  snprintf(path, REPORT_PATH, "%s", given ? given : "");
}

static int make_work(report_files *files)
{
  char *folder = path_in_temporary("tessera-report-XXXXXX");
  if (!folder) {
    return tsr_cli_no_memory();
  }
  snprintf(files->work, sizeof files->work, "%s", folder);
  free(folder);
  if (!mkdtemp(files->work)) {
    tsr_cli_error("report: %s: no folder can be made there: %s", files->work, strerror(errno));
    files->work[0] = '\0';
    return TSR_EXIT_INPUT;
  }
  return TSR_EXIT_OK;
}

int report_files_find(const report_request *request, report_files *files)
{
  take(files->model, request->model);
  take(files->source, request->source);
  take(files->reference, request->reference);
  take(files->recorded, request->recorded);
  if (!request->model) {
    look_for("tools/demo-model", files->model);
    if (!files->model[0]) {
      look_for("demo-model", files->model);
    }
  }
  if (!request->model && !request->source) {
    look_for("tests/data/tatoeba/test.en", files->source);
    look_for("tests/data/tatoeba/test.fr", files->reference);
    if (!files->source[0] && files->model[0]) {
      is_there(files->model, "sample.en", files->source);
      is_there(files->model, "sample.fr", files->reference);
    }
  }
  if (!request->recorded) {
    look_for("tests/data/goldens/models", files->recorded);
  }
  return make_work(files);
}

void report_files_finish(report_files *files)
{
  if (files->work[0]) {
    path_remove_all(files->work);
    files->work[0] = '\0';
  }
}

int32_t report_files_cut(const report_files *files, const char *path, const char *name, int32_t n, char *cut)
{
  tsr_cli_lines lines;
  int32_t done = 0;
  if (snprintf(cut, REPORT_PATH, "%s/%s", files->work, name) >= REPORT_PATH ||
      tsr_cli_lines_open(&lines, path) != TSR_EXIT_OK) {
    return 0;
  }
  FILE *out = fopen(cut, "w");
  int code = out ? TSR_EXIT_OK : TSR_EXIT_INPUT, got = 1;
  while (code == TSR_EXIT_OK && got && done < n) {
    code = tsr_cli_lines_next(&lines, &got);
    if (code == TSR_EXIT_OK && got) {
      fwrite(lines.text, 1, lines.size, out);
      fputc('\n', out);
      done++;
    }
  }
  tsr_cli_lines_finish(&lines);
  int failed = !out || ferror(out);
  failed |= out && fclose(out) != 0;
  return failed || code != TSR_EXIT_OK ? 0 : done;
}
