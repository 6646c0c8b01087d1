/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_ATTENTION_OPTIONS_H
#define SHADERS_CONTRACT_ATTENTION_OPTIONS_H

#include "contract.h"
#include "masking.h"
#include "values.h"

/* Beside MASK_*; the gradient has the first of them, and its own. */
#define ATTENTION_INDEXED 32u
#define ATTENTION_WEIGHTS 64u
#define ATTENTION_DROPOUT 128u
#define ATTENTION_SUMS    256u
#define ATTENTION_HALVES  512u /* the result is rounded to 16 bits, for the product that reads it: in scratch */

/* TYPE_* of k and v in one constant */
#define ATTENTION_KV_TYPES(k, v) ((k) | (v) << 4)
#define ATTENTION_K_TYPE(types)  ((types)&15u)
#define ATTENTION_V_TYPE(types)  ((types) >> 4)

/* Words in scratch that each query and split has before its part of y: the largest score, the sum, two unused */
#define ATTENTION_HEADER_WORDS 4u

#endif
