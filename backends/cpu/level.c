/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators of one instruction level.
 */
#include "screen.h"

const cpu_operator cpu_operators[CPU_OP_COUNT] = {
    [TSR_OP_MATMUL] = {cpu_prepare_matmul, cpu_run_matmul},
    [CPU_OP_MATMUL_TOPK] = {cpu_prepare_matmul_topk, cpu_run_matmul_topk},
    [CPU_OP_MATMUL_SCREEN] = {cpu_prepare_screen, cpu_run_screen},
    [CPU_OP_MATMUL_LOG_TOPK] = {cpu_prepare_matmul_log_topk, cpu_run_matmul_topk},
    [TSR_OP_SOFTMAX] = {cpu_prepare_rows, cpu_run_softmax},
    [TSR_OP_LOG_SOFTMAX] = {cpu_prepare_rows, cpu_run_log_softmax},
    [TSR_OP_LAYERNORM] = {cpu_prepare_rows, cpu_run_layernorm},
    [CPU_OP_ADD_LAYERNORM] = {cpu_prepare_rows, cpu_run_add_layernorm},
    [TSR_OP_RMSNORM] = {cpu_prepare_rows, cpu_run_rmsnorm},
    [TSR_OP_MASK] = {cpu_prepare_mask, cpu_run_mask},
    [TSR_OP_ADD] = {NULL, cpu_run_add},
    [TSR_OP_MUL] = {NULL, cpu_run_mul},
    [TSR_OP_RELU] = {NULL, cpu_run_activation},
    [TSR_OP_GELU] = {NULL, cpu_run_activation},
    [TSR_OP_SILU] = {NULL, cpu_run_activation},
    [TSR_OP_EMBEDDING] = {NULL, cpu_run_embedding},
    [TSR_OP_COPY] = {NULL, cpu_run_copy},
    [TSR_OP_APPEND] = {NULL, cpu_run_append},
    [TSR_OP_UPDATE] = {NULL, cpu_run_update},
    [TSR_OP_GATHER] = {NULL, cpu_run_gather},
    [TSR_OP_TOPK] = {cpu_prepare_rows, cpu_run_topk},
    [TSR_OP_REDUCE_SUM] = {NULL, cpu_run_reduce_sum},
    [TSR_OP_ATTENTION] = {cpu_prepare_attention, cpu_run_attention},
    [TSR_OP_ATTENTION_GRADIENT] = {cpu_prepare_attention_gradient, cpu_run_attention_gradient},
};
