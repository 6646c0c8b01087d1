/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/common/message.h"
#include "tools/tessera/pages/heat_map.h"

int heat_map_write(const char *path, const heat_map *map)
{
  (void)map;
  tsr_cli_error("%s: this build of tessera draws no PNG: cairo and pango were not there when it was built (Debian: "
                "libpango1.0-dev; meson setup -Dpng=enabled)",
                path);
  return TSR_EXIT_INPUT;
}
