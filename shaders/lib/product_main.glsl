/* SPDX-License-Identifier: Apache-2.0
 *
 * The main function of a variant of the product, which is there as product(tile), tile as tile_of gives it. With TOPK a
 * workgroup takes the place of several neighbours along the columns (lib/product_topk.glsl). HELD_BY_LANE: the lane
 * that stores column c is c modulo the subgroup's size, in each row.
 */
void main()
{
  if (group_index() >= groups) {
    return;
  }
  uvec3 where = tile_of(group_index());
#ifdef TOPK
  held_row = where.x * TILE_ROWS;
  held_column = where.y * held_columns;
  for (uint c = 0u; c < held_columns && held_column + c < columns; c += TILE_COLUMNS) {
    product(uvec3(where.x, (held_column + c) / TILE_COLUMNS, where.z));
  }
#ifndef HELD_BY_LANE
  barrier();
#endif
  keep_topk(where.y);
#else
  product(where);
#endif
}
