/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that are quantised to i8: shaders/lib/quantised.glsl has their layout.
 */
#ifndef SHADERS_CONTRACT_QUANTISED_H
#define SHADERS_CONTRACT_QUANTISED_H

#define QUANTISED_GROUP 16u /* elements, in four words; one group more has the row's unit */

/* Whole groups that so many elements take; for weights of four bits, that have a scale for each two, an even number */
#define QUANTISED_GROUPS(depth) (((depth) + (QUANTISED_GROUP - 1u)) / QUANTISED_GROUP)
#define FOUR_BITS_GROUPS(depth) (((depth) + (2u * QUANTISED_GROUP - 1u)) / (2u * QUANTISED_GROUP) * 2u)

#endif
