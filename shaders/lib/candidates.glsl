/* SPDX-License-Identifier: Apache-2.0
 *
 * Candidates for the largest of a row: the order of a value (lib/number.glsl), and its index in the row. On their way
 * between dispatches they lie in scratch memory, two words each.
 */
#ifndef LIB_CANDIDATES
#define LIB_CANDIDATES

#define NOBODY uvec2(0u, 0xffffffffu) /* stands behind every candidate */

/* 1 if candidate a stands before b: larger first, then the lower index */
bool before(uvec2 a, uvec2 b)
{
  return a.x > b.x || (a.x == b.x && a.y < b.y);
}

#endif
