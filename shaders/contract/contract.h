/* SPDX-License-Identifier: Apache-2.0
 *
 * What the planners of backends/vulkan and the shaders must agree on. Each header of this folder is read by both, as C
 * and as GLSL, so that push constants, the positions of specialisation constants, and flags stand once:
 *
 *   CONSTANT(kernel, id, name, value);  Specialisation constant `id`. GLSL: a const uint `name`, which is `value`
 *                                       unless it is set. C: TSR_VK_SPEC_kernel_name, for tsr_vk_spec.
 *   PUSH(kernel)                        The push constants. GLSL: their members. C: the struct tsr_vk_kernel_push.
 *   {                                   Members are of type uvec4, uint, float, uint[n]. std430 aligns a uvec4 to 16
 *     uvec4 extent;                     bytes, and C does not, so those come first. What lies elsewhere than in C is an
 *     uint rows;                        error of the build (shaders/reflect.c).
 *   }
 *   PUSH_END(kernel);
 *   #define KERNEL_FLAG 4u              Bits and values of either.
 */
#ifndef SHADERS_CONTRACT_CONTRACT_H
#define SHADERS_CONTRACT_CONTRACT_H

/* Specialisation constants of each shader: the size of its workgroup. Its own begin behind them. */
#define SPEC_SIZE_X 0
#define SPEC_SIZE_Y 1

#ifdef __STDC_VERSION__ /* C */
#define CONTRACT_IN_C

#include <stdint.h>

typedef uint32_t uint;
typedef uint32_t uvec4[4];

#define TSR_VK_MAX_PUSH 128 /* bytes: what every Vulkan device has */
#define TSR_VK_MAX_SPEC 20

#define CONSTANT(kernel, id, name, value)                                                                              \
  enum { TSR_VK_SPEC_##kernel##_##name = id };                                                                         \
  _Static_assert((id) < TSR_VK_MAX_SPEC, "the specialisation constants of " #kernel)
#define PUSH(kernel) typedef struct tsr_vk_##kernel##_push
#define PUSH_END(kernel)                                                                                               \
  tsr_vk_##kernel##_push;                                                                                              \
  _Static_assert(sizeof(tsr_vk_##kernel##_push) <= TSR_VK_MAX_PUSH, "the push constants of " #kernel)

#else /* GLSL */

#define CONSTANT(kernel, id, name, value) layout(constant_id = id) const uint name = value
#define PUSH(kernel)                      layout(push_constant, std430) uniform parameters
#define PUSH_END(kernel)

#endif

#endif
