/* SPDX-License-Identifier: Apache-2.0
 *
 * A contract as those of shaders/contract are. With HOLE or MATRIX it has a fault.
 */
#include "contract/contract.h"

CONSTANT(example, 2, first, 7u);
CONSTANT(example, 5, second, 8u);

PUSH(example)
{
#ifdef HOLE
  uint in_front; /* std430 puts 12 bytes behind it, C none */
#endif
  uvec4 extent;
  uint count;
  float scale;
  uint stride[3];
  uint last;
#ifdef MATRIX
  mat4 beyond; /* no type that both know */
#endif
}
PUSH_END(example);
