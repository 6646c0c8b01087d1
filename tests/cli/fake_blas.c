/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with the functions of OpenBLAS by which the cpu backend knows it, whose kernels have the name KERNELS. For
 * the test of what is said of a BLAS that runs below the CPU: none of its products is ever computed there.
 */
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                        int lda, const float *b, int ldb, float beta, float *c, int ldc);
EXPORT char *openblas_get_config(void);
EXPORT char *openblas_get_corename(void);
EXPORT void openblas_set_num_threads(int threads);

void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc)
{
  (void)order, (void)transpose_a, (void)transpose_b, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)lda;
  (void)b, (void)ldb, (void)beta, (void)c, (void)ldc;
  abort();
}

char *openblas_get_config(void)
{
  static char text[] = "OpenBLAS 9.8.7 DYNAMIC_ARCH";
  return text;
}

char *openblas_get_corename(void)
{
  static char text[] = KERNELS;
  return text;
}

void openblas_set_num_threads(int threads)
{
  (void)threads;
}
