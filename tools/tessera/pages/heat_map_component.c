/* SPDX-License-Identifier: Apache-2.0
 *
 * The way from the program to what draws, in its component.
 */
#include <string.h>

#include "tools/tessera/common/component.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/pages/heat_map.h"

int heat_map_write(const char *path, const heat_map *map)
{
  int (*draw)(const char *path, const heat_map *map) = NULL;
  void *found = NULL;
  int code = tsr_component_find("png", "heat_map_draw", &found);
  if (code == TSR_EXIT_OK) {
    memcpy(&draw, &found, sizeof draw);
    code = draw(path, map);
  }
  return code;
}
