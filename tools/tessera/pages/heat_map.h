/* SPDX-License-Identifier: Apache-2.0
 *
 * A matrix of weights as a picture, with a name for each row and column.
 */
#ifndef TESSERA_TOOLS_HEAT_MAP_H
#define TESSERA_TOOLS_HEAT_MAP_H

#include <stdint.h>

#include "tools/tessera/common/component.h"

typedef struct heat_map {
  const char *title;
  int32_t n_rows, n_columns;
  const char *const *rows; /* names, UTF-8 of any script */
  const char *const *columns;
  const double *values; /* [n_rows][n_columns], at least 0 */
  double most;          /* what is drawn darkest, above 0 */
} heat_map;

/* Writes a PNG file. Exit code: TSR_EXIT_INPUT also where the component `png` is not there. */
int heat_map_write(const char *path, const heat_map *map);

/* The same, within that component. */
TSR_COMPONENT_EXPORT int heat_map_draw(const char *path, const heat_map *map);

#endif
