/* SPDX-License-Identifier: Apache-2.0
 *
 * A BLAS that has the functions of Fortran alone.
 */
__attribute__((visibility("default"))) void sgemm_(void);

void sgemm_(void)
{
}
