/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators of one instruction level.
 */
#include "kernel.h"

const cpu_operator cpu_operators[CPU_OP_COUNT] = {
    [TSR_OP_MATMUL] = {cpu_prepare_matmul, cpu_run_matmul},
    [CPU_OP_MATMUL_TOPK] = {cpu_prepare_matmul_topk, cpu_run_matmul_topk},
    [CPU_OP_MATMUL_LOG_TOPK] = {cpu_prepare_matmul_log_topk, cpu_run_matmul_topk},
};
