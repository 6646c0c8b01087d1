/* SPDX-License-Identifier: Apache-2.0
 *
 * The one place where volk, the loader of Vulkan's functions, is compiled.
 */
#define VOLK_IMPLEMENTATION
#include <volk.h>
