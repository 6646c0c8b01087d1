/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages without what is personal: paths, names of host and user, identifiers.
 */
#ifndef TESSERA_TOOLS_REPORT_SCRUB_H
#define TESSERA_TOOLS_REPORT_SCRUB_H

#include "tools/tessera/common/json.h"

/* A copy without them, to be freed: of a path, the file's name may stay. NULL: no memory. */
char *report_scrub(const char *text);

/* The same as JSON. */
json_t *report_scrub_json(const char *text);

#endif
