/* SPDX-License-Identifier: Apache-2.0
 *
 * A BLAS, for the large products of matrices that change: whichever CBLAS is installed, opened at run time, so that a
 * machine without one still runs them. It is used where it is asked for, and where the kernels are the portable ones.
 */
#ifndef CPU_BLAS_H
#define CPU_BLAS_H

#include <stddef.h>
#include <stdint.h>

struct cpu_context;
typedef struct cpu_blas cpu_blas;

/* c [M, N] = alpha * a @ b + beta * c, all row-major; transposed: the operand is stored the other way round. lda,
 * ldb, ldc: elements from row to row. On the calling thread alone. */
typedef struct cpu_gemm {
  int64_t rows, columns, depth; /* M, N, K */
  int32_t a_transposed, b_transposed;
  const float *a, *b;
  float *c;
  int64_t lda, ldb, ldc;
  float alpha, beta;
} cpu_gemm;

void cpu_blas_product(const cpu_blas *blas, const cpu_gemm *gemm);

/* TESSERA_BLAS names the library, "none" means no BLAS; without it the usual names are tried if the device's level
 * is the portable one. *blas is NULL if there is none, which is no error unless one was named. Warns, once, of a
 * BLAS that uses less than the CPU offers. */
int32_t cpu_blas_open(const struct cpu_context *context, cpu_blas **blas);
void cpu_blas_close(cpu_blas *blas); /* takes NULL */

/* 1 unless there is none, or it runs below what the CPU offers. */
int cpu_blas_is_fast(const cpu_blas *blas);

/* For people: name, version and kernels; returns text. */
const char *cpu_blas_describe(const cpu_blas *blas, char *text, size_t size);

#endif
