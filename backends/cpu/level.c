/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators of one instruction level.
 */
#include "kernel.h"

const cpu_operator cpu_operators[CPU_OP_COUNT] = {
    [TSR_OP_MATMUL] = {cpu_prepare_matmul, cpu_run_matmul},
};
