/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels share. Files that include this are compiled several times (meson.build), each time with CPU_VECTORS,
 * the name of a set of vector instructions, and CPU_LANES, the width of its vectors. Those that make products of i8 are
 * compiled once per instruction level, with CPU_LEVEL, its name, too: some levels have the vectors of another one, and
 * instructions for such products besides.
 *
 * A kernel computes one line. It relies on the rules of ops.h, which the host has checked, and asserts those that it
 * builds on. Work is cut into tasks by shape alone, never by the number of threads, and each task computes its
 * elements in a fixed order: results are the same bits on any number of threads.
 */
#ifndef CPU_KERNEL_H
#define CPU_KERNEL_H

#include <assert.h>
#include <math.h>
#include <string.h>

#include "program.h"
#include "vector.h"

/* Functions that are not static are there once per set of vectors, or once per level. */
#define CPU_JOIN_(name, set)   name##_##set
#define CPU_JOIN(name, set)    CPU_JOIN_(name, set)
#define CPU_WITH_VECTORS(name) CPU_JOIN(name, CPU_VECTORS)
#define CPU_AT_LEVEL(name)     CPU_JOIN(name, CPU_LEVEL)

#define cpu_operators                  CPU_AT_LEVEL(cpu_operators)
#define cpu_prepare_matmul             CPU_AT_LEVEL(cpu_prepare_matmul)
#define cpu_run_matmul                 CPU_AT_LEVEL(cpu_run_matmul)
#define cpu_prepare_conv1d             CPU_AT_LEVEL(cpu_prepare_conv1d)
#define cpu_prepare_matmul_topk        CPU_AT_LEVEL(cpu_prepare_matmul_topk)
#define cpu_prepare_matmul_log_topk    CPU_AT_LEVEL(cpu_prepare_matmul_log_topk)
#define cpu_run_matmul_topk            CPU_AT_LEVEL(cpu_run_matmul_topk)
#define cpu_run_softmax                CPU_WITH_VECTORS(cpu_run_softmax)
#define cpu_run_log_softmax            CPU_WITH_VECTORS(cpu_run_log_softmax)
#define cpu_run_layernorm              CPU_WITH_VECTORS(cpu_run_layernorm)
#define cpu_run_add_layernorm          CPU_WITH_VECTORS(cpu_run_add_layernorm)
#define cpu_run_rmsnorm                CPU_WITH_VECTORS(cpu_run_rmsnorm)
#define cpu_run_mask                   CPU_WITH_VECTORS(cpu_run_mask)
#define cpu_run_add                    CPU_WITH_VECTORS(cpu_run_add)
#define cpu_run_mul                    CPU_WITH_VECTORS(cpu_run_mul)
#define cpu_run_activation             CPU_WITH_VECTORS(cpu_run_activation)
#define cpu_prepare_rotate             CPU_WITH_VECTORS(cpu_prepare_rotate)
#define cpu_run_rotate                 CPU_WITH_VECTORS(cpu_run_rotate)
#define cpu_run_embedding              CPU_WITH_VECTORS(cpu_run_embedding)
#define cpu_run_copy                   CPU_WITH_VECTORS(cpu_run_copy)
#define cpu_run_append                 CPU_WITH_VECTORS(cpu_run_append)
#define cpu_run_update                 CPU_WITH_VECTORS(cpu_run_update)
#define cpu_run_gather                 CPU_WITH_VECTORS(cpu_run_gather)
#define cpu_run_topk                   CPU_WITH_VECTORS(cpu_run_topk)
#define cpu_run_reduce_sum             CPU_WITH_VECTORS(cpu_run_reduce_sum)
#define cpu_prepare_rows               CPU_WITH_VECTORS(cpu_prepare_rows)
#define cpu_prepare_mask               CPU_WITH_VECTORS(cpu_prepare_mask)
#define cpu_prepare_attention          CPU_WITH_VECTORS(cpu_prepare_attention)
#define cpu_run_attention              CPU_WITH_VECTORS(cpu_run_attention)
#define cpu_prepare_attention_gradient CPU_WITH_VECTORS(cpu_prepare_attention_gradient)
#define cpu_run_attention_gradient     CPU_WITH_VECTORS(cpu_run_attention_gradient)
#define cpu_prepare_norm_gradient      CPU_WITH_VECTORS(cpu_prepare_norm_gradient)
#define cpu_prepare_relative_gradient  CPU_WITH_VECTORS(cpu_prepare_relative_gradient)
#define cpu_prepare_sum_of_squares     CPU_WITH_VECTORS(cpu_prepare_sum_of_squares)
#define cpu_run_softmax_gradient       CPU_WITH_VECTORS(cpu_run_softmax_gradient)
#define cpu_run_cross_entropy          CPU_WITH_VECTORS(cpu_run_cross_entropy)
#define cpu_run_cross_entropy_gradient CPU_WITH_VECTORS(cpu_run_cross_entropy_gradient)
#define cpu_run_norm_gradient          CPU_WITH_VECTORS(cpu_run_norm_gradient)
#define cpu_run_activation_gradient    CPU_WITH_VECTORS(cpu_run_activation_gradient)
#define cpu_run_mask_gradient          CPU_WITH_VECTORS(cpu_run_mask_gradient)
#define cpu_run_relative_gradient      CPU_WITH_VECTORS(cpu_run_relative_gradient)
#define cpu_run_dropout                CPU_WITH_VECTORS(cpu_run_dropout)
#define cpu_run_scatter_add            CPU_WITH_VECTORS(cpu_run_scatter_add)
#define cpu_run_concat                 CPU_WITH_VECTORS(cpu_run_concat)
#define cpu_run_sum_of_squares         CPU_WITH_VECTORS(cpu_run_sum_of_squares)
#define cpu_run_adam                   CPU_WITH_VECTORS(cpu_run_adam)
#define cpu_activate_row               CPU_WITH_VECTORS(cpu_activate_row)
#define cpu_widen_row                  CPU_WITH_VECTORS(cpu_widen_row)

int32_t cpu_prepare_matmul(cpu_line *line, cpu_preparation *preparation);
int32_t cpu_prepare_conv1d(cpu_line *line, cpu_preparation *preparation); /* as a product, which cpu_run_matmul runs */
int32_t cpu_prepare_matmul_topk(cpu_line *line, cpu_preparation *preparation);
int32_t cpu_prepare_matmul_log_topk(cpu_line *line, cpu_preparation *preparation);
int32_t cpu_prepare_rows(cpu_line *line, cpu_preparation *preparation); /* scratch of a few rows of the first operand */
int32_t cpu_prepare_mask(cpu_line *line, cpu_preparation *preparation);
int32_t cpu_prepare_attention(cpu_line *line, cpu_preparation *preparation);
int32_t cpu_prepare_attention_gradient(cpu_line *line, cpu_preparation *preparation);
int32_t cpu_prepare_norm_gradient(cpu_line *line, cpu_preparation *preparation);
int32_t cpu_prepare_relative_gradient(cpu_line *line, cpu_preparation *preparation);
int32_t cpu_prepare_sum_of_squares(cpu_line *line, cpu_preparation *preparation);

void cpu_run_matmul(const cpu_line *line, cpu_team *team);
void cpu_run_matmul_topk(const cpu_line *line, cpu_team *team);
void cpu_run_softmax(const cpu_line *line, cpu_team *team);
void cpu_run_log_softmax(const cpu_line *line, cpu_team *team);
void cpu_run_layernorm(const cpu_line *line, cpu_team *team);
void cpu_run_add_layernorm(const cpu_line *line, cpu_team *team);
void cpu_run_rmsnorm(const cpu_line *line, cpu_team *team);
void cpu_run_mask(const cpu_line *line, cpu_team *team);
void cpu_run_add(const cpu_line *line, cpu_team *team);
void cpu_run_mul(const cpu_line *line, cpu_team *team);
void cpu_run_activation(const cpu_line *line, cpu_team *team); /* relu, gelu, silu */
int32_t cpu_prepare_rotate(cpu_line *line, cpu_preparation *preparation);
void cpu_run_rotate(const cpu_line *line, cpu_team *team);
void cpu_run_embedding(const cpu_line *line, cpu_team *team);
void cpu_run_copy(const cpu_line *line, cpu_team *team);
void cpu_run_append(const cpu_line *line, cpu_team *team);
void cpu_run_update(const cpu_line *line, cpu_team *team);
void cpu_run_gather(const cpu_line *line, cpu_team *team);
void cpu_run_topk(const cpu_line *line, cpu_team *team);
void cpu_run_reduce_sum(const cpu_line *line, cpu_team *team);
void cpu_run_attention(const cpu_line *line, cpu_team *team);
void cpu_run_attention_gradient(const cpu_line *line, cpu_team *team);
void cpu_run_softmax_gradient(const cpu_line *line, cpu_team *team); /* and log_softmax's */
void cpu_run_cross_entropy(const cpu_line *line, cpu_team *team);
void cpu_run_cross_entropy_gradient(const cpu_line *line, cpu_team *team);
void cpu_run_norm_gradient(const cpu_line *line, cpu_team *team); /* layernorm's, rmsnorm's */
void cpu_run_activation_gradient(const cpu_line *line, cpu_team *team);
void cpu_run_mask_gradient(const cpu_line *line, cpu_team *team);
void cpu_run_relative_gradient(const cpu_line *line, cpu_team *team);
void cpu_run_dropout(const cpu_line *line, cpu_team *team);
void cpu_run_scatter_add(const cpu_line *line, cpu_team *team);
void cpu_run_concat(const cpu_line *line, cpu_team *team);
void cpu_run_sum_of_squares(const cpu_line *line, cpu_team *team);
void cpu_run_adam(const cpu_line *line, cpu_team *team);

/* Shared between operators. */

/* y[i] = activation(y[i]) for n elements side by side. TSR_ACTIVATION_*. */
void cpu_activate_row(int32_t activation, float *y, int64_t n);

/* to[i] = the i-th of n elements, `stride` apart, of type dtype (f32, f16, bf16, i8), widened. */
void cpu_widen_row(int32_t dtype, const void *from, int64_t stride, int64_t n, float *to);

/* exp(x) to about one unit in the last place; x at most 0 or so: no overflow is handled, -inf gives 0, NaN stays.
 * Results below the smallest normal number may be 0. */
static inline cpu_f32v cpu_exp(cpu_f32v x)
{
  /* x = n ln 2 + r, |r| at most ln 2 / 2; exp(r) by a polynomial; 2^n by putting n + 127 into the exponent's bits.
   * Adding a large number pushes the fraction of x / ln 2 out of an f32 and leaves n + 127 in its low bits. At n =
   * -127 that makes 0: what is far below, as all that is excluded, must not pass through subnormal numbers, which
   * take a hundred times as long. */
  const cpu_f32v large = cpu_splat(0x1.8p23f + 127);
  const cpu_f32v bounded = cpu_max(cpu_splat(-127 * 0x1.62e43p-1f), x); /* NaN stays */
  const cpu_f32v pushed = cpu_fma(bounded, cpu_splat(0x1.715476p0f), large), n = pushed - large;
  cpu_f32v r = cpu_fma(n, cpu_splat(-0x1.62e4p-1f), bounded);
  r = cpu_fma(n, cpu_splat(-0x1.7f7d1cp-20f), r);
  cpu_f32v p = cpu_splat(0x1.6850e4p-10f);
  p = cpu_fma(p, r, cpu_splat(0x1.123bccp-7f));
  p = cpu_fma(p, r, cpu_splat(0x1.555b98p-5f));
  p = cpu_fma(p, r, cpu_splat(0x1.55548ep-3f));
  p = cpu_fma(p, r, cpu_splat(0x1.fffff8p-2f));
  p = cpu_fma(p * r, r, r) + cpu_splat(1.0f);
  return p * cpu_from_bits(cpu_bits(pushed) << 23); /* whatever the bits of NaN make: p is NaN as well */
}

#endif
