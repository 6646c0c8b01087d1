/* SPDX-License-Identifier: Apache-2.0
 *
 * NaN where numbers were expected: what made it. Weights were looked at when they were loaded.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/transformer/transformer.h"

enum { LARGEST_F16 = 65504 };

/* Copies what `ran` reads, if it is not bound to a buffer that both share. */
static tsr_status copy_input(const tsr_compiled *ran, const tsr_compiled *again, tsr_ref tensor)
{
  if (tensor == TSR_NONE) {
    return TSR_OK;
  }
  tsr_shape shape = tsr_ref_shape(again->program, tensor);
  int64_t size = tsr_shape_elements(&shape) * (int64_t)tsr_dtype_size(tsr_ref_dtype(again->program, tensor));
  void *bytes = malloc((size_t)size + 1);
  if (!bytes) {
    return tsr_fail_memory((size_t)size + 1);
  }
  tsr_status status = tsr_executable_read(ran->executable, tensor, bytes, size);
  if (status == TSR_OK) {
    status = tsr_executable_write(again->executable, tensor, bytes, size);
  }
  free(bytes);
  return status;
}

static tsr_status copy_inputs(const tsr_compiled *ran, const tsr_compiled *again)
{
  const tsr_program_refs *refs = &ran->refs; /* the same program has the same tensors */
  const tsr_ref inputs[] = {refs->source, refs->features, refs->source_lengths, refs->target,
                            refs->token,  refs->position, refs->rows,           refs->suppress,
                            refs->phases, refs->labels,   refs->chosen};
  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
    TSR_TRY(copy_input(ran, again, inputs[i]));
  }
  return TSR_OK;
}

static int32_t reads_a_state(const tsr_program *program, int32_t line)
{
  const tsr_line_desc *desc = tsr_line_at(tsr_program_describe(program), line);
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    if (desc->in[i] != TSR_NONE && tsr_ref_kind(program, desc->in[i]) == TSR_STORAGE_STATE) {
      return 1;
    }
  }
  return 0;
}

static tsr_status find_in_step(tsr_transformer *t, const tsr_nan_step *step, tsr_compiled *again, tsr_fault *fault)
{
  TSR_TRY(tsr_transformer_again(t, &step->ran->key, again));
  TSR_TRY(copy_inputs(step->ran, again));
  if (step->write_step) {
    TSR_TRY(step->write_step(again, step->user));
  }
  TSR_TRY(tsr_executable_run(again->executable));
  return tsr_fault_find(again->program, again->executable, 0, fault);
}

static tsr_status find_in_encoder(tsr_transformer *t, const tsr_nan_step *step, tsr_compiled *again, tsr_fault *fault)
{
  TSR_TRY(tsr_transformer_again(t, step->encoder, again));
  TSR_TRY(step->write_source(again, step->user));
  TSR_TRY(tsr_executable_run(again->executable));
  return tsr_fault_find(again->program, again->executable, 0, fault);
}

/* Keys and values, which are not looked at, are the encoder's, or those of earlier steps, which gave numbers. */
static int may_be_of_the_encoder(const tsr_transformer *t, const tsr_program *program, const tsr_fault *fault)
{
  return t->model->config.encoder_layers > 0 &&
         (fault->line < 0 || (fault->is_result && reads_a_state(program, fault->line)));
}

static int is_constant(const tsr_program *program, const tsr_fault *fault)
{
  return fault->line >= 0 && !fault->is_result && tsr_ref_kind(program, fault->tensor) == TSR_STORAGE_CONSTANT;
}

/* when: "at step 5". */
static tsr_status describe(const tsr_transformer *t, const char *when, const tsr_program *program,
                           const tsr_fault *fault)
{
  const char *device = tsr_device_name(t->device);
  char listing[512];
  if (fault->line < 0) {
    return tsr_fail(TSR_ERR_NOT_FINITE,
                    "%s computed NaN %s, and none when the step was repeated line by line: a fault of the device, its "
                    "driver or its backend. The weights are finite. `tessera compare %s --devices reference,%s` tells "
                    "whether the device computes what it should",
                    device, when, t->model->folder, device);
  }
  const char *line = tsr_program_print_line(program, fault->line, listing, sizeof listing);
  line += strspn(line, " ");
  int is_rounded = is_constant(program, fault) && isinf(fault->value); /* of a weight, when it was loaded */
  int is_beyond = t->options.weights == TSR_F16 && (fault->largest > (float)LARGEST_F16 || is_rounded);
  if (is_beyond) {
    return tsr_fail(TSR_ERR_NOT_FINITE,
                    "%s computed NaN %s: numbers of this model are beyond the range of f16, which ends at %d. The "
                    "first that is not finite is in line %s. Use --precision f32 or bf16",
                    device, when, (int)LARGEST_F16, line);
  }
  if (is_constant(program, fault) && isinf(fault->value)) {
    return tsr_fail(TSR_ERR_NOT_FINITE,
                    "%s computed NaN %s: the parameter '%s' of %s holds an infinity, which line %s reads", device, when,
                    tsr_ref_name(program, fault->tensor), t->model->folder, line);
  }
  if (is_constant(program, fault)) {
    return tsr_fail(TSR_ERR_NOT_FINITE,
                    "%s computed NaN %s: the parameter '%s', which was finite when it was loaded, holds NaN on the "
                    "device, and line %s reads it: a fault of the device, its driver or its backend",
                    device, when, tsr_ref_name(program, fault->tensor), line);
  }
  return tsr_fail(
      TSR_ERR_NOT_FINITE,
      "%s computed %s %s from finite numbers, in line %s: a fault of the device, its driver or its backend. The "
      "weights are finite. `tessera compare %s --devices reference,%s` tells where its results differ",
      device, isnan(fault->value) ? "NaN" : "an infinity", when, line, t->model->folder, device);
}

tsr_status tsr_transformer_not_finite(tsr_transformer *transformer, const tsr_nan_step *step)
{
  tsr_transformer *t = transformer;
  tsr_compiled decoder = {0};
  tsr_compiled encoder = {0};
  tsr_fault fault = {.line = -1};
  tsr_fault earlier = {.line = -1};
  tsr_status status = find_in_step(t, step, &decoder, &fault);
  if (status == TSR_OK && may_be_of_the_encoder(t, decoder.program, &fault)) {
    status = find_in_encoder(t, step, &encoder, &earlier);
    fault.largest = fmaxf(fault.largest, earlier.largest); /* what it wrote into states of a smaller type */
  }
  if (status != TSR_OK) {
    status = tsr_fail(TSR_ERR_NOT_FINITE, "%s computed NaN %s; which line made it could not be found: %s",
                      tsr_device_name(t->device), step->when, tsr_error_message());
  } else if (earlier.line >= 0) {
    status = describe(t, "in the encoder", encoder.program, &earlier);
  } else {
    status = describe(t, step->when, decoder.program, &fault);
  }
  tsr_transformer_again_finish(&encoder);
  tsr_transformer_again_finish(&decoder);
  return status;
}
