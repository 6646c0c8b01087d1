/* SPDX-License-Identifier: Apache-2.0
 *
 * What a product of which only the largest are wanted leaves in scratch memory, for topk_merge.comp: of each row
 * `column_tiles` lists of `kept` candidates (lib/candidates.glsl), and behind all of these, of each list, the order of
 * the largest and the sum of the exponentials of what lies below it. Include after the parameters of the product, y,
 * `kept` and candidates_at.
 */
#ifndef LIB_CANDIDATE_LISTS
#define LIB_CANDIDATE_LISTS

#include "candidates.glsl"

/* Candidate `place` of a list: of what this workgroup found in a row */
void write_candidate(uint list, uint place, uvec2 candidate)
{
  uint at = candidates_at + 2u * (list * kept + place);
  WORD(y, at) = candidate.x;
  WORD(y, at + 1u) = candidate.y;
}

void write_sum(uint list, uint largest, float sum)
{
  uint at = candidates_at + 2u * (rows * column_tiles * kept + list);
  WORD(y, at) = largest;
  WORD(y, at + 1u) = floatBitsToUint(sum);
}

#endif
