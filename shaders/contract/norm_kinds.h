/* SPDX-License-Identifier: Apache-2.0
 *
 * The norms: constant `centred` of norm.comp and norm_gradient.comp.
 */
#ifndef SHADERS_CONTRACT_NORM_KINDS_H
#define SHADERS_CONTRACT_NORM_KINDS_H

#define NORM_PLAIN    0u /* rmsnorm */
#define NORM_CENTRED  1u /* layernorm */
#define NORM_UNBIASED 2u /* layernorm by the unbiased deviation */

#endif
