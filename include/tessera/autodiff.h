/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/autodiff.h: the gradients of a program, as further lines of it (reverse mode: Griewank, Walther, Evaluating
 * Derivatives, 2008).
 */
#ifndef TESSERA_AUTODIFF_H
#define TESSERA_AUTODIFF_H

#include "tessera/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lines first .. last - 1. */
typedef struct tsr_line_range {
  int32_t first;
  int32_t last;
} tsr_line_range;

/* Told of a gradient as soon as it is whole: the gradient of parameters[index]. What the function appends to the
 * program stands behind the line that completes the gradient. */
typedef void (*tsr_whole_gradient_fn)(void *user, int32_t index, tsr_ref gradient);

typedef struct tsr_gradient_options {
  uint32_t struct_size;
  int32_t n_recompute;
  /* Ranges of lines, such as a layer each, whose results are not kept for the gradients but computed again with them
   * (Chen et al. 2016, arXiv:1604.06174). Ascending, disjoint, without lines that write states. Borrowed during the
   * call. */
  const tsr_line_range *recompute;
  tsr_whole_gradient_fn
      whole;  /* called once for each gradient that there is; NULL: gradients are completed at the end */
  void *user; /* of `whole` */
} tsr_gradient_options;
TSR_SIZED_PIN(tsr_gradient_options, user, 24);

/* Appends lines that compute the gradients of a loss with respect to `n` parameters.
 *   loss            f32, any extents, a result of a line; loss_gradient f32, broadcasts to it: the factor of each of
 *                   its elements in the number that is differentiated. For the gradient of scale * sum(loss), it is an
 *                   input of one element
 *   parameters      constants, inputs or states, whole (no slices), each once; f32, f16 or bf16
 *   gradients       receives the gradient of each, f32, of the parameter's extents, maybe a strided view; TSR_NONE
 *                   where the loss does not depend on the parameter
 *   options         may be NULL
 * Lines that were there keep their numbers; those of attention may get one more result. A gradient line has the label
 * of the line it belongs to, with ".gradient" at the end; a line that is computed again has ".again". Errors, sticky as
 * all of a builder: TSR_ERR_UNSUPPORTED (a line on the way has no gradient, or writes a state; a gradient needs a state
 * as it was before a later line wrote it, or is that of a view that is no block of its storage), TSR_ERR_ARGUMENT,
 * TSR_ERR_SHAPE, TSR_ERR_DTYPE. Returns the program's status. */
TSR_API tsr_status tsr_gradients(tsr_program *program, tsr_ref loss, tsr_ref loss_gradient, const tsr_ref *parameters,
                                 int32_t n, const tsr_gradient_options *options, tsr_ref *gradients) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
