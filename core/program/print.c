/* SPDX-License-Identifier: Apache-2.0
 *
 * The listing of a program:
 *
 *     state     cache.k f32 [4, 32, 6, 32]
 *        3  %17 f32 [4, 1, 6, 32] = attention(%12[4, 1, 6, 32], cache.k[4, 32, 6, 32], ..) alpha 0.176 causal  ;
 *        decoder.layers.0
 */
#include <stdarg.h>
#include <string.h>

#include "core/program/program.h"

/* Text that is appended to, cut where it does not fit. */
typedef struct writer {
  char *text;
  size_t size, used;
} writer;

static void put(writer *out, const char *format, ...) TSR_PRINTF(2, 3);
static void put(writer *out, const char *format, ...)
{
  if (out->used + 1 >= out->size) {
    return;
  }
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(out->text + out->used, out->size - out->used, format, arguments);
  va_end(arguments);
  out->used += n > 0 ? (size_t)n : 0;
  if (out->used >= out->size) {
    out->used = out->size - 1;
  }
}

static void put_name(writer *out, const tsr_program *program, tsr_ref x)
{
  int32_t storage = program->tensors[x].storage;
  if (program->names[storage][0]) {
    put(out, "%s", program->names[storage]);
  } else {
    put(out, "%%%d", storage);
  }
}

static void put_shape(writer *out, const tsr_tensor_desc *tensor)
{
  char text[128];
  tsr_shape shape = tsr_tensor_shape(tensor);
  put(out, "%s", tsr_shape_print(&shape, text, sizeof text));
}

/* An operand: its name and extents, and where it is a view: its strides and offset. */
static void put_operand(writer *out, const tsr_program *program, tsr_ref x)
{
  const tsr_tensor_desc *tensor = &program->tensors[x];
  put_name(out, program, x);
  put_shape(out, tensor);
  if (tsr_tensor_contiguous(tensor) && tensor->offset == 0) {
    return;
  }
  put(out, " by ");
  tsr_tensor_desc strides = *tensor;
  memcpy(strides.extent, tensor->stride, sizeof strides.extent);
  put_shape(out, &strides);
  if (tensor->offset) {
    put(out, " from %lld", (long long)tensor->offset);
  }
}

static const char *activation_name(int32_t activation)
{
  static const char *const names[] = {"", "relu", "gelu_erf", "gelu_tanh", "silu"};
  return activation >= 0 && activation < 5 ? names[activation] : "?";
}

/* 1 if the line has the operand of that name, or its operator does without one. */
static int has_operand(const tsr_op_row *row, const tsr_line_desc *line, const char *name)
{
  for (int32_t i = 0; i < TSR_MAX_INPUTS && row->info.in[i].name; i++) {
    if (strcmp(row->info.in[i].name, name) == 0) {
      return line->in[i] != TSR_NONE;
    }
  }
  return 1;
}

/* Those that have their usual value are left out. */
static void put_attributes(writer *out, const tsr_program *program, const tsr_line_desc *line)
{
  const tsr_op_attributes *a = &line->attributes;
  const tsr_op_row *row = tsr_op_row_of(line->op);
  uint32_t reads = row->attributes;
  if (reads & TSR_READS_ALPHA && a->alpha != 1.0f) {
    put(out, " alpha %g", (double)a->alpha);
  }
  if (reads & TSR_READS_EPSILON) {
    put(out, " epsilon %g", (double)a->epsilon);
  }
  if (reads & TSR_READS_UNBIASED && a->unbiased) {
    put(out, " unbiased");
  }
  if (reads & TSR_READS_ACTIVATION && a->activation) {
    put(out, " %s", activation_name(a->activation));
  }
  if (reads & TSR_READS_REDUCED_PRECISION && a->reduced_precision) {
    put(out, " narrow");
    if (a->reduced_precision > 1) { /* the type, which no operand tells */
      put(out, " %s", tsr_dtype_name(a->reduced_precision));
    }
  }
  if (reads & TSR_READS_CAUSAL && a->causal) {
    put(out, " causal");
  }
  if (reads & TSR_READS_RELATIVE && has_operand(row, line, "relative")) {
    put(out, " %s max_distance %d",
        a->clamped         ? "clamped"
        : a->bidirectional ? "bidirectional"
                           : "backward",
        a->max_distance);
  }
  if (reads & TSR_READS_DROPOUT && has_operand(row, line, "seed")) {
    put(out, " rate %g stream %d", (double)a->rate, a->stream);
  }
  if (reads & TSR_READS_SMOOTHING && a->smoothing != 0.0f) {
    put(out, " smoothing %g", (double)a->smoothing);
  }
  if (reads & TSR_READS_ADAM) {
    put(out, " beta1 %g beta2 %g epsilon %g decay %g%s max_norm %g", (double)a->beta1, (double)a->beta2,
        (double)a->epsilon, (double)a->decay, a->decoupled ? " decoupled" : "", (double)a->max_norm);
  }
  if (reads & TSR_READS_AXIS) {
    put(out, " axis %d", a->axis);
  }
  if (reads & TSR_READS_K) {
    put(out, " k %d", a->k);
  }
  if (reads & TSR_READS_SOFTCAP && a->softcap != 0.0f) {
    put(out, " softcap %g", (double)a->softcap);
  }
  if (reads & TSR_READS_STRIDE && a->stride != 1) {
    put(out, " stride %d", a->stride);
  }
  for (int32_t i = 0; reads & TSR_READS_AXES && i < program->tensors[line->in[0]].rank; i++) {
    if (a->axes & 1 << i) {
      put(out, " axis %d", i);
    }
  }
}

char *tsr_program_print_line(const tsr_program *program, int32_t index, char *text, size_t size)
{
  writer out = {.text = text, .size = size};
  if (size) {
    text[0] = '\0';
  }
  if (index < 0 || index >= program->desc.n_lines) {
    return text;
  }
  const tsr_line_desc *line = &program->lines[index];
  const tsr_op_info *info = tsr_op_describe(line->op);
  put(&out, "%4d  ", index);
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; i++) {
    if (line->out[i] <= 0) {
      continue;
    }
    put(&out, "%s", i ? ", " : "");
    put_name(&out, program, line->out[i]);
    put(&out, " %s ", tsr_dtype_name(program->tensors[line->out[i]].dtype));
    put_shape(&out, &program->tensors[line->out[i]]);
  }
  put(&out, " = %s(", info->name);
  int first = 1;
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    if (!line->in[i]) {
      continue;
    }
    put(&out, "%s", first ? "" : ", ");
    if (info->in[i].optional) {
      put(&out, "%s: ", info->in[i].name);
    }
    put_operand(&out, program, line->in[i]);
    first = 0;
  }
  put(&out, ")");
  put_attributes(&out, program, line);
  if (line->label[0]) {
    put(&out, "  ; %s", line->label);
  }
  return text;
}

static const char *kind_name(int32_t kind)
{
  switch (kind) {
  case TSR_STORAGE_CONSTANT:
    return "constant";
  case TSR_STORAGE_INPUT:
    return "input";
  case TSR_STORAGE_OUTPUT:
    return "output";
  case TSR_STORAGE_STATE:
    return "state";
  default:
    return "temporary";
  }
}

void tsr_program_print(const tsr_program *program, FILE *out)
{
  char text[1024];
  for (int32_t i = 1; i < program->desc.n_storages; i++) {
    if (program->storages[i].kind == TSR_STORAGE_TEMPORARY) {
      continue;
    }
    const tsr_tensor_desc *tensor = &program->tensors[program->named[i]];
    tsr_shape shape = tsr_tensor_shape(tensor);
    fprintf(out, "%-9s %s %s %s\n", kind_name(program->storages[i].kind), program->names[i],
            tsr_dtype_name(tensor->dtype), tsr_shape_print(&shape, text, sizeof text));
  }
  for (int32_t i = 0; i < program->desc.n_lines; i++) {
    fprintf(out, "%s\n", tsr_program_print_line(program, i, text, sizeof text));
  }
}
