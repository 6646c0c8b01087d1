/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that tessera/backend.h numbers; kernel_common.c asserts that they are the same.
 */
#ifndef SHADERS_CONTRACT_VALUES_H
#define SHADERS_CONTRACT_VALUES_H

/* Element types. */
#define TYPE_F32  1u
#define TYPE_F16  2u
#define TYPE_BF16 3u
#define TYPE_I8   4u
#define TYPE_I32  5u
/* Weights of four bits: i8 to tessera/backend.h, which tells them by the type of their scales */
#define TYPE_I4 32u

#define ACTIVATION_NONE      0u
#define ACTIVATION_RELU      1u
#define ACTIVATION_GELU_ERF  2u
#define ACTIVATION_GELU_TANH 3u
#define ACTIVATION_SILU      4u

#endif
