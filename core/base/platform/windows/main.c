/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a program begins: its arguments become UTF-8, its console takes and shows UTF-8, and its streams carry bytes.
 */
#include <windows.h>
/* after windows.h */
#include <shellapi.h>

#include "core/base/platform/windows/internal.h"

/* The program's, which may take no arguments. */
int win_main();

int main(void)
{
  int n = 0;
  wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &n);
  char **arguments = calloc((size_t)n + 1, sizeof *arguments);
  for (int i = 0; wide && arguments && i < n; i++) {
    arguments[i] = win_narrow(wide[i]);
    if (!arguments[i]) {
      return EXIT_FAILURE;
    }
  }
  if (!wide || !arguments) {
    return EXIT_FAILURE;
  }
  LocalFree(wide);
  SetConsoleCP(CP_UTF8);
  SetConsoleOutputCP(CP_UTF8);
  _setmode(0, _O_BINARY);
  _setmode(1, _O_BINARY);
  _setmode(2, _O_BINARY);
  const int code = win_main(n, arguments);
  for (int i = 0; i < n; i++) {
    free(arguments[i]);
  }
  free(arguments);
  return code;
}
