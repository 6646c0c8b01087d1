/* SPDX-License-Identifier: Apache-2.0
 *
 * y = sum of x over the chosen axes, and the sum of all squares.
 */
#include "kernel.h"

void ref_reduce_sum(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *y = &line->out[0];
  int64_t n[TSR_MAX_RANK]; /* elements summed along each axis */

  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && x->rank == y->rank);
  for (int32_t axis = 0; axis < TSR_MAX_RANK; axis++) {
    const int summed = axis < x->rank && (line->attributes.axes >> axis & 1);
    n[axis] = summed ? x->extent[axis] : 1;
    assert(y->extent[axis] == (summed ? 1 : x->extent[axis]));
  }

  for (int64_t element = 0; element < ref_count(y, y->rank); element++) {
    int64_t first[TSR_MAX_RANK], i[TSR_MAX_RANK];
    double sum = 0;
    ref_index(y, element, first);
    for (i[0] = 0; i[0] < n[0]; i[0]++) {
      for (i[1] = 0; i[1] < n[1]; i[1]++) {
        for (i[2] = 0; i[2] < n[2]; i[2]++) {
          for (i[3] = 0; i[3] < n[3]; i[3]++) {
            sum += ref_f32(x, ref_element(x, first) + ref_element(x, i));
          }
        }
      }
    }
    ref_set_f32(y, ref_element(y, first), sum);
  }
}

void ref_sum_of_squares(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *plus = &line->in[1], *y = &line->out[0];
  double sum = 0;

  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && y->rank == 1 && y->extent[0] == 1);
  assert(!ref_present(plus) || ref_same_extents(plus, y));

  for (int64_t e = 0; e < ref_count(x, x->rank); e++) {
    const double xe = ref_f32(x, ref_at(x, x->rank, e));
    sum += xe * xe;
  }
  ref_set_f32(y, 0, ref_present(plus) ? sum + ref_f32(plus, 0) : sum);
}
