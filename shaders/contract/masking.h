/* SPDX-License-Identifier: Apache-2.0
 *
 * Which parts of the masking a line has: of mask, attention and its gradient. Their other flags lie above.
 */
#ifndef SHADERS_CONTRACT_MASKING_H
#define SHADERS_CONTRACT_MASKING_H

#define MASK_CAUSAL   1u
#define MASK_ADDITIVE 2u
#define MASK_LENGTHS  4u
#define MASK_POSITION 8u
#define MASK_RELATIVE 16u

#endif
