/* SPDX-License-Identifier: Apache-2.0
 *
 * In each component: the version of the program that it belongs to.
 */
#include "tools/tessera/common/component.h"

TSR_COMPONENT_EXPORT extern const char tsr_component_version[];
const char tsr_component_version[] = TSR_VERSION;
