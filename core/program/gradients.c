/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk back from the loss. Each line's rule (gradient_rules.c) turns the gradients of its results into those of its
 * operands, which are kept as contributions to the operands' storages until the line is reached that made the storage.
 */
#include "core/program/gradients.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "tessera/autodiff.h"

typedef struct walk {
  tsr_program *program;
  tsr_contributions contributions;
  const tsr_gradient_options *options;
  int32_t n_lines;    /* when the walk began */
  int32_t n_storages; /* likewise */
  uint8_t *depends;   /* [n_storages]: 1: on a parameter */
  int32_t *again;     /* [n_storages]: the storage that holds the same once more; 0: none */
  int32_t *written;   /* [n_storages]: of a state: 1 + the last line that writes it; 0: none does */
  uint8_t *repeated;  /* [line]: 1: a line that was appended to compute something once more; grows with `again_room` */
  int32_t repeated_room;
  const tsr_ref *parameters; /* [n] */
  int32_t n;
  tsr_ref *gradients; /* [n]; TSR_INVALID: not collected yet */
  int32_t *reader;    /* [n]: 1 + the first line that reads the parameter; 0: none does. Only with options->whole */
  const char *scope;  /* of the program when the walk began, as large as program->scope */
} walk;

static int is_real(tsr_dtype dtype)
{
  return dtype == TSR_F32 || dtype == TSR_F16 || dtype == TSR_BF16;
}

static int depends(const walk *w, tsr_ref x)
{
  const tsr_tensor_desc *tensor = x > 0 ? &w->program->tensors[x] : NULL;
  return tensor && tensor->storage < w->n_storages && w->depends[tensor->storage] && is_real(tensor->dtype);
}

/* Which storages depend on a parameter. */
static void spread(walk *w, const tsr_ref *parameters, int32_t n)
{
  const tsr_program *program = w->program;
  for (int32_t i = 0; i < n; i++) {
    w->depends[program->tensors[parameters[i]].storage] = 1;
  }
  for (int32_t i = 0; i < w->n_lines; i++) {
    const tsr_line_desc *line = &program->lines[i];
    int any = 0;
    for (int32_t j = 0; j < TSR_MAX_INPUTS; j++) {
      any |= depends(w, line->in[j]);
    }
    for (int32_t j = 0; any && j < TSR_MAX_OUTPUTS; j++) {
      if (line->out[j] > 0) {
        w->depends[program->tensors[line->out[j]].storage] = 1;
      }
    }
  }
}

static void note_writes(walk *w)
{
  const tsr_program *program = w->program;
  for (int32_t i = 0; i < w->n_lines; i++) {
    for (int32_t j = 0; j < TSR_MAX_OUTPUTS && tsr_op_writes_states(program->lines[i].op); j++) {
      if (program->lines[i].out[j] > 0) {
        w->written[program->tensors[program->lines[i].out[j]].storage] = i + 1;
      }
    }
  }
}

/* Fails if a line that was appended for line `index` reads a state that a line behind that one writes: it would read
 * another value. */
static void check_reads(walk *w, const tsr_line_desc *appended, int32_t index)
{
  tsr_program *program = w->program;
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    int32_t storage = appended->in[i] > 0 ? program->tensors[appended->in[i]].storage : 0;
    if (storage > 0 && storage < w->n_storages && w->written[storage] > index + 1) {
      tsr_program_fail(program, appended->op, TSR_ERR_UNSUPPORTED,
                       "the gradient needs the state '%s' as it was before a later line writes it",
                       program->names[storage]);
    }
  }
}

/* The scope of what is appended for a line: its label and a word. */
static void enter(tsr_program *program, const char *label, const char *word)
{
  snprintf(program->scope, sizeof program->scope, "%.400s%s%s", label, label[0] ? "." : "", word);
  program->label = NULL;
}

/* ---- computing once more ----------------------------------------------------------------------------------------- */

/* A tensor as a line sees it that is computed once more, or that reads what was. */
static tsr_ref seen_again(walk *w, tsr_ref x)
{
  if (x <= 0) {
    return x;
  }
  tsr_tensor_desc view = w->program->tensors[x];
  if (view.storage >= w->n_storages || !w->again[view.storage]) {
    return x;
  }
  view.storage = w->again[view.storage];
  return tsr_program_view(w->program, &view);
}

static tsr_line_desc line_again(walk *w, const tsr_line_desc *line)
{
  tsr_line_desc mapped = *line;
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    mapped.in[i] = seen_again(w, line->in[i]);
  }
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; i++) {
    mapped.out[i] = seen_again(w, line->out[i]);
  }
  return mapped;
}

/* Marks the last line as one that computes something once more. */
static int mark_repeated(walk *w)
{
  int32_t line = w->program->desc.n_lines - 1;
  if (line >= w->repeated_room) {
    int32_t room = 2 * line + 64;
    uint8_t *grown = realloc(w->repeated, (size_t)room);
    if (!grown) {
      tsr_program_fail(w->program, 0, TSR_ERR_OUT_OF_MEMORY, "out of host memory while gradients were built");
      return 0;
    }
    memset(grown + w->repeated_room, 0, (size_t)(room - w->repeated_room));
    w->repeated = grown;
    w->repeated_room = room;
  }
  w->repeated[line] = 1;
  return 1;
}

/* Appends the lines of a stretch once more, their results in storages of their own. */
static void repeat(walk *w, const tsr_line_range *range)
{
  tsr_program *program = w->program;
  for (int32_t i = range->first; i < range->last && program->status == TSR_OK; i++) {
    tsr_line_desc line = program->lines[i];
    if (tsr_op_writes_states(line.op)) {
      tsr_program_fail(program, line.op, TSR_ERR_ARGUMENT, "a line that writes states cannot be computed once more");
      return;
    }
    for (int32_t j = 0; j < TSR_MAX_OUTPUTS; j++) {
      if (line.out[j] <= 0) {
        continue;
      }
      tsr_tensor_desc result = program->tensors[line.out[j]];
      tsr_shape shape = tsr_tensor_shape(&result);
      tsr_ref made = tsr_program_new(program, line.op, TSR_STORAGE_TEMPORARY, "", result.dtype, &shape);
      if (made == TSR_INVALID) {
        return;
      }
      w->again[result.storage] = program->tensors[made].storage;
    }
    line = line_again(w, &line);
    enter(program, line.label, "again");
    check_reads(w, &line, i);
    if (program->status != TSR_OK || !tsr_line_push(program, &line) || !mark_repeated(w)) {
      return;
    }
  }
}

/* Takes out the lines computed once more that nobody reads. */
static void drop_unread(walk *w)
{
  tsr_program *program = w->program;
  uint8_t *is_read = calloc((size_t)program->desc.n_storages, 1);
  uint8_t *unread = calloc((size_t)program->desc.n_lines + 1, 1);
  if (is_read && unread) {
    for (int32_t i = program->desc.n_lines - 1; i >= w->n_lines; i--) {
      const tsr_line_desc *line = &program->lines[i];
      int wanted = i >= w->repeated_room || !w->repeated[i];
      for (int32_t j = 0; j < TSR_MAX_OUTPUTS; j++) {
        wanted |= line->out[j] > 0 && is_read[program->tensors[line->out[j]].storage];
      }
      unread[i] = !wanted;
      for (int32_t j = 0; wanted && j < TSR_MAX_INPUTS; j++) {
        if (line->in[j] > 0) {
          is_read[program->tensors[line->in[j]].storage] = 1;
        }
      }
    }
    int32_t kept = w->n_lines;
    for (int32_t i = w->n_lines; i < program->desc.n_lines; i++) {
      if (!unread[i]) {
        program->lines[kept++] = program->lines[i];
      }
    }
    program->desc.n_lines = kept;
  }
  free(is_read);
  free(unread);
}

/* The stretch that a line is in, or NULL. */
static const tsr_line_range *range_of(const walk *w, int32_t line)
{
  for (int32_t i = 0; i < w->options->n_recompute; i++) {
    if (line >= w->options->recompute[i].first && line < w->options->recompute[i].last) {
      return &w->options->recompute[i];
    }
  }
  return NULL;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

static void step_back(walk *w, int32_t index)
{
  tsr_program *program = w->program;
  tsr_line_desc line = program->lines[index]; /* a copy: lines are appended */
  const tsr_op_row *row = tsr_op_row_of(line.op);
  tsr_gradient_call call = {.line = line};
  int32_t first = program->desc.n_lines;
  int any = 0;
  enter(program, line.label, "gradient");
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; i++) {
    if (line.out[i] <= 0 || !depends(w, line.out[i])) {
      continue;
    }
    int32_t storage = program->tensors[line.out[i]].storage;
    if (tsr_op_writes_states(line.op) && tsr_contributions_to(&w->contributions, storage) > 0) {
      tsr_program_fail(program, line.op, TSR_ERR_UNSUPPORTED,
                       "the loss depends on the state '%s' as this line writes it, which has no gradient",
                       program->names[storage]);
      return;
    }
    tsr_shape shape = tsr_tensor_shape(&program->tensors[line.out[i]]);
    call.out[i] = tsr_contributions_collect(program, &w->contributions, storage, &shape);
    any |= call.out[i] > 0;
  }
  if (!any || program->status != TSR_OK) {
    return;
  }
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    call.wanted[i] = (uint8_t)depends(w, line.in[i]);
  }
  if (!row->gradient) {
    tsr_program_fail(program, line.op, TSR_ERR_UNSUPPORTED, "the operator has no gradient, and the loss depends on it");
    return;
  }
  call.line = line_again(w, &line);
  if (program->status == TSR_OK) {
    row->gradient(program, &call);
  }
  for (int32_t i = first; i < program->desc.n_lines && program->status == TSR_OK; i++) {
    check_reads(w, &program->lines[i], index);
  }
  for (int32_t i = 0; i < TSR_MAX_INPUTS && program->status == TSR_OK; i++) {
    if (call.wanted[i] && call.in[i] > 0) {
      tsr_contribute(program, &w->contributions, line.in[i], call.in[i]);
    }
  }
}

/* ---- gradients of parameters ------------------------------------------------------------------------------------- */

static void find_readers(walk *w)
{
  const tsr_program *program = w->program;
  for (int32_t p = 0; p < w->n; p++) {
    const int32_t storage = program->tensors[w->parameters[p]].storage;
    for (int32_t i = 0; i < w->n_lines && !w->reader[p]; i++) {
      for (int32_t j = 0; j < TSR_MAX_INPUTS; j++) {
        const tsr_ref in = program->lines[i].in[j];
        w->reader[p] = in > 0 && program->tensors[in].storage == storage ? i + 1 : w->reader[p];
      }
    }
  }
}

static void collect(walk *w, int32_t index)
{
  tsr_program *program = w->program;
  const tsr_shape shape = tsr_ref_shape(program, w->parameters[index]);
  memcpy(program->scope, w->scope, sizeof program->scope);
  program->label = NULL;
  w->gradients[index] =
      tsr_contributions_collect(program, &w->contributions, program->tensors[w->parameters[index]].storage, &shape);
}

/* Line `index` was the last to contribute to the parameters that it is the first to read. */
static void tell_whole(walk *w, int32_t index)
{
  for (int32_t p = 0; p < w->n && w->options->whole && w->program->status == TSR_OK; p++) {
    if (w->reader[p] != index + 1) {
      continue;
    }
    collect(w, p);
    if (w->gradients[p] > 0) {
      w->options->whole(w->options->user, p, w->gradients[p]);
    }
  }
}

static void walk_back(walk *w)
{
  const tsr_line_range *current = NULL;
  for (int32_t i = w->n_lines - 1; i >= 0 && w->program->status == TSR_OK; i--) {
    const tsr_line_range *range = range_of(w, i);
    if (range && range != current) {
      repeat(w, range);
    }
    current = range;
    step_back(w, i);
    tell_whole(w, i);
  }
}

/* Has each line of attention give what its gradient needs. */
static void give_lse(tsr_program *program)
{
  for (int32_t i = 0; i < program->desc.n_lines; i++) {
    const tsr_line_desc *line = &program->lines[i];
    if (line->op != TSR_OP_ATTENTION || line->out[2] != TSR_NONE || line->in[7] != TSR_NONE) {
      continue;
    }
    const tsr_tensor_desc *q = &program->tensors[line->in[0]];
    tsr_shape shape = TSR_SHAPE(q->extent[0], q->extent[2], q->extent[1]);
    program->lines[i].out[2] = tsr_program_new(program, TSR_OP_ATTENTION, TSR_STORAGE_TEMPORARY, "", TSR_F32, &shape);
  }
}

/* Sets the program's error and returns 0 if the arguments are not as the header demands. */
static int check(tsr_program *program, tsr_ref loss, tsr_ref loss_gradient, const tsr_ref *parameters, int32_t n,
                 const tsr_gradient_options *options, const tsr_ref *gradients)
{
  if ((n > 0 && (!parameters || !gradients)) || n < 0) {
    tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "tsr_gradients: parameters and gradients must not be NULL");
    return 0;
  }
  if (!tsr_program_has(program, 0, loss) || !tsr_program_has(program, 0, loss_gradient)) {
    return 0;
  }
  if (program->tensors[loss].dtype != TSR_F32 || program->tensors[loss_gradient].dtype != TSR_F32) {
    tsr_program_fail(program, 0, TSR_ERR_DTYPE, "tsr_gradients: the loss and its gradient must be f32");
    return 0;
  }
  for (int32_t i = 0; i < n; i++) {
    if (!tsr_program_has(program, 0, parameters[i])) {
      return 0;
    }
    const tsr_tensor_desc *parameter = &program->tensors[parameters[i]];
    int32_t kind = program->storages[parameter->storage].kind;
    tsr_shape shape = tsr_tensor_shape(parameter);
    int64_t size = tsr_shape_elements(&shape) * (int64_t)tsr_dtype_size(parameter->dtype);
    if (!is_real(parameter->dtype)) {
      tsr_program_fail(program, 0, TSR_ERR_DTYPE, "tsr_gradients: parameter %d is %s, not of real numbers", (int)i,
                       tsr_dtype_name(parameter->dtype));
      return 0;
    }
    for (int32_t j = 0; j < i; j++) {
      if (program->tensors[parameters[j]].storage == parameter->storage) {
        tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "tsr_gradients: parameters %d and %d are the same", (int)j,
                         (int)i);
        return 0;
      }
    }
    if (kind != TSR_STORAGE_CONSTANT && kind != TSR_STORAGE_INPUT && kind != TSR_STORAGE_STATE) {
      tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "tsr_gradients: parameter %d is the result of a line", (int)i);
      return 0;
    }
    if (size != program->storages[parameter->storage].size || !tsr_tensor_contiguous(parameter)) {
      tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "tsr_gradients: parameter %d is a part of a tensor or permuted",
                       (int)i);
      return 0;
    }
  }
  if (options->n_recompute < 0) {
    tsr_program_fail(program, 0, TSR_ERR_ARGUMENT,
                     "tsr_gradients: options->n_recompute is %d; it should not be below 0", (int)options->n_recompute);
    return 0;
  }
  if (options->n_recompute > 0 && !options->recompute) {
    tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "tsr_gradients: options->recompute must not be NULL");
    return 0;
  }
  for (int32_t i = 0; i < options->n_recompute; i++) {
    const tsr_line_range *range = &options->recompute[i];
    if (range->first < (i ? options->recompute[i - 1].last : 0) || range->last < range->first ||
        range->last > program->desc.n_lines) {
      tsr_program_fail(program, 0, TSR_ERR_ARGUMENT,
                       "tsr_gradients: the lines %d to %d to be computed once more are not within the program, or not "
                       "behind those before",
                       (int)range->first, (int)range->last);
      return 0;
    }
  }
  return 1;
}

tsr_status tsr_gradients(tsr_program *program, tsr_ref loss, tsr_ref loss_gradient, const tsr_ref *parameters,
                         int32_t n, const tsr_gradient_options *given, tsr_ref *gradients)
{
  tsr_gradient_options options;
  for (int32_t i = 0; gradients && i < n; i++) {
    gradients[i] = TSR_INVALID;
  }
  if (program->status != TSR_OK) {
    return tsr_program_status(program);
  }
  tsr_status status = TSR_SIZED_READ(tsr_gradient_options, recompute, given, &options);
  if (status != TSR_OK) {
    tsr_program_fail(program, 0, status, "tsr_gradients: %s", tsr_error_message());
    return tsr_program_status(program);
  }
  if (!check(program, loss, loss_gradient, parameters, n, &options, gradients)) {
    return tsr_program_status(program);
  }
  give_lse(program);
  walk w = {.program = program,
            .options = &options,
            .n_lines = program->desc.n_lines,
            .n_storages = program->desc.n_storages,
            .parameters = parameters,
            .n = n,
            .gradients = gradients};
  char scope[sizeof program->scope];
  memcpy(scope, program->scope, sizeof scope);
  w.scope = scope;
  w.depends = calloc((size_t)w.n_storages, 1);
  w.again = calloc((size_t)w.n_storages, sizeof *w.again);
  w.written = calloc((size_t)w.n_storages, sizeof *w.written);
  w.reader = calloc((size_t)n + 1, sizeof *w.reader);
  if (!w.depends || !w.again || !w.written || !w.reader) {
    tsr_program_fail(program, 0, TSR_ERR_OUT_OF_MEMORY, "out of host memory while gradients were built");
    goto done;
  }
  spread(&w, parameters, n);
  note_writes(&w);
  if (options.whole) {
    find_readers(&w);
  }
  tsr_shape shape = tsr_ref_shape(program, loss);
  tsr_ref factor = tsr_expand(program, loss_gradient, shape);
  if (program->status == TSR_OK && depends(&w, loss)) {
    tsr_contribute(program, &w.contributions, loss, factor);
  }
  walk_back(&w);
  for (int32_t i = 0; i < n && program->status == TSR_OK; i++) {
    if (gradients[i] == TSR_INVALID) {
      collect(&w, i);
    }
  }
  drop_unread(&w);
done:
  memcpy(program->scope, scope, sizeof scope);
  program->label = NULL;
  free(w.depends);
  free(w.again);
  free(w.written);
  free(w.repeated);
  free(w.reader);
  tsr_contributions_finish(&w.contributions);
  return tsr_program_status(program);
}
