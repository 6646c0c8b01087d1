/* SPDX-License-Identifier: Apache-2.0 */
#include "core/program/program.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/program/plan.h"

/* Room for one more element; 0 without memory. */
static int grow(void **array, int32_t *room, int32_t count, size_t element)
{
  if (count < *room) {
    return 1;
  }
  if (*room > INT32_MAX / 2) {
    return 0;
  }
  int32_t wanted = *room ? *room * 2 : 64;
  void *grown = realloc(*array, (size_t)wanted * element);
  if (!grown) {
    return 0;
  }
  memset((char *)grown + (size_t)*room * element, 0, (size_t)(wanted - *room) * element);
  *array = grown;
  *room = wanted;
  return 1;
}

static int grow_storages(tsr_program *program)
{
  int32_t n = program->desc.n_storages;
  int ok = grow((void **)&program->storages, &program->storage_room, n, sizeof(tsr_storage_desc)) &&
           grow((void **)&program->names, &program->name_room, n, sizeof(char *)) &&
           grow((void **)&program->named, &program->named_room, n, sizeof(tsr_ref));
  program->desc.storages = program->storages;
  return ok;
}

static int grow_tensors(tsr_program *program)
{
  int ok = grow((void **)&program->tensors, &program->tensor_room, program->desc.n_tensors, sizeof(tsr_tensor_desc));
  program->desc.tensors = program->tensors;
  return ok;
}

static int grow_lines(tsr_program *program)
{
  int ok = grow((void **)&program->lines, &program->line_room, program->desc.n_lines, sizeof(tsr_line_desc));
  program->desc.lines = program->lines;
  return ok;
}

/* The slot of a name, or the empty one that it would have. */
static int32_t *slot_of(const tsr_program *program, const char *name)
{
  const uint32_t mask = (uint32_t)program->slot_room - 1;
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (const char *c = name; *c; c++) {
    hash = (hash ^ (unsigned char)*c) * 16777619u;
  }
  uint32_t at = hash & mask;
  while (program->slots[at] != 0 && strcmp(program->names[program->slots[at]], name) != 0) {
    at = (at + 1) & mask;
  }
  return &program->slots[at];
}

/* Room for one more name, while half of the slots stay empty; 0 without memory. */
static int grow_slots(tsr_program *program)
{
  const int32_t room = program->slot_room;
  if (program->slots_used < room / 2) {
    return 1;
  }
  if (room > INT32_MAX / 2) {
    return 0;
  }
  int32_t *before = program->slots;
  const int32_t wanted = room > 0 ? 2 * room : 64;
  int32_t *slots = calloc((size_t)wanted, sizeof *slots);
  if (!slots) {
    return 0;
  }
  program->slots = slots;
  program->slot_room = wanted;
  for (int32_t i = 0; i < room; i++) {
    if (before[i] != 0) {
      *slot_of(program, program->names[before[i]]) = before[i];
    }
  }
  free(before);
  return 1;
}

/* Gives a storage its name, which no other has; 0 without memory. */
static int set_name(tsr_program *program, int32_t storage, const char *name)
{
  const char *copy = tsr_arena_text(&program->texts, name);
  if (!copy || !grow_slots(program)) {
    return 0;
  }
  program->names[storage] = copy;
  *slot_of(program, copy) = storage;
  program->slots_used++;
  return 1;
}

tsr_status tsr_program_create(tsr_program **program)
{
  tsr_program *created = calloc(1, sizeof *created);
  if (!created) {
    return tsr_fail_memory(sizeof *created);
  }
  created->desc = (tsr_program_desc){
      .struct_size = sizeof(tsr_program_desc),
      .storage_size = sizeof(tsr_storage_desc),
      .tensor_size = sizeof(tsr_tensor_desc),
      .line_size = sizeof(tsr_line_desc),
  };
  if (!grow_storages(created) || !grow_tensors(created) || !grow_lines(created) || !grow_slots(created)) {
    tsr_program_destroy(created);
    return tsr_fail_memory(sizeof(tsr_line_desc));
  }
  created->names[0] = "";
  created->desc.n_storages = 1; /* element 0 is reserved: "none" */
  created->desc.n_tensors = 1;
  *program = created;
  return TSR_OK;
}

void tsr_program_destroy(tsr_program *program)
{
  if (!program) {
    return;
  }
  free(program->storages);
  free(program->names);
  free(program->named);
  free(program->slots);
  free(program->tensors);
  free(program->lines);
  tsr_arena_finish(&program->texts);
  free(program);
}

tsr_status tsr_program_status(const tsr_program *program)
{
  if (program->status == TSR_OK) {
    return TSR_OK;
  }
  return tsr_fail(program->status, "%s", program->message);
}

tsr_ref tsr_program_fail(tsr_program *program, int32_t op, tsr_status status, const char *format, ...)
{
  if (program->status != TSR_OK) {
    return TSR_INVALID;
  }
  const tsr_op_info *info = tsr_op_describe(op);
  char text[768];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const char *name = info ? info->name : "";
  int scoped = program->scope[0] != '\0';
  snprintf(program->message, sizeof program->message, "%s%s%.200s%s%s", name,
           !scoped ? ""
           : info  ? " in "
                   : "in ",
           program->scope, info || scoped ? ": " : "", text);
  program->status = status;
  return TSR_INVALID;
}

static tsr_ref fail_memory(tsr_program *program)
{
  return tsr_program_fail(program, 0, TSR_ERR_OUT_OF_MEMORY, "out of host memory while the program was built");
}

int tsr_program_has(tsr_program *program, int32_t op, tsr_ref x)
{
  if (program->status != TSR_OK || x == TSR_INVALID) {
    return 0;
  }
  if (x > 0 && x < program->desc.n_tensors) {
    return 1;
  }
  tsr_program_fail(program, op, TSR_ERR_ARGUMENT, "%s",
                   x == TSR_NONE ? "a tensor is missing" : "a tensor is of another program");
  return 0;
}

tsr_shape tsr_tensor_shape(const tsr_tensor_desc *tensor)
{
  return tsr_shape_make(tensor->rank, tensor->extent);
}

int tsr_tensor_contiguous(const tsr_tensor_desc *tensor)
{
  int64_t expected = 1;
  for (int32_t i = tensor->rank - 1; i >= 0; i--) {
    if (tensor->extent[i] == 0) {
      return 1;
    }
    if (tensor->extent[i] != 1 && tensor->stride[i] != expected) {
      return 0;
    }
    expected *= tensor->extent[i];
  }
  return 1;
}

int tsr_tensor_in_rows(const tsr_tensor_desc *tensor)
{
  tsr_tensor_desc rows = *tensor;
  rows.rank = 2;
  for (int32_t i = 0; i < 2; i++) {
    rows.extent[i] = tensor->extent[tensor->rank - 2 + i];
    rows.stride[i] = tensor->stride[tensor->rank - 2 + i];
  }
  return tsr_tensor_contiguous(&rows);
}

tsr_ref tsr_program_view(tsr_program *program, const tsr_tensor_desc *view)
{
  if (!grow_tensors(program)) {
    return fail_memory(program);
  }
  program->tensors[program->desc.n_tensors] = *view;
  return program->desc.n_tensors++;
}

static void set_contiguous(tsr_tensor_desc *tensor, const tsr_shape *shape)
{
  int64_t stride = 1;
  tensor->rank = shape->rank;
  for (int32_t i = TSR_MAX_RANK - 1; i >= 0; i--) {
    tensor->extent[i] = i < shape->rank ? shape->extent[i] : 1;
    tensor->stride[i] = i < shape->rank ? stride : 0;
    if (i < shape->rank && shape->extent[i] > 1) {
      stride *= shape->extent[i];
    }
  }
}

int tsr_program_allows(tsr_program *program, int32_t op, const char *what, const tsr_shape *shape)
{
  char text[128];
  if (shape->rank < 0 || shape->rank > TSR_MAX_RANK) {
    tsr_program_fail(program, op, TSR_ERR_SHAPE, "%s: a tensor has 0 to %d axes, not %d", what, TSR_MAX_RANK,
                     (int)shape->rank);
  } else if (tsr_shape_elements(shape) < 0) {
    tsr_program_fail(program, op, TSR_ERR_SHAPE, "%s: the extents %s are negative or too large", what,
                     tsr_shape_print(shape, text, sizeof text));
  }
  return program->status == TSR_OK;
}

tsr_ref tsr_program_new(tsr_program *program, int32_t op, int32_t kind, const char *name, tsr_dtype dtype,
                        const tsr_shape *shape)
{
  if (program->status != TSR_OK) {
    return TSR_INVALID;
  }
  if (!tsr_program_allows(program, op, name[0] ? name : "the result", shape)) {
    return TSR_INVALID;
  }
  int64_t elements = tsr_shape_elements(shape);
  int64_t size = (int64_t)tsr_dtype_size(dtype);
  if (size == 0) {
    return tsr_program_fail(program, op, TSR_ERR_DTYPE, "%s: %d is no element type", name, dtype);
  }
  /* Half of the range is left so that aligning and adding offsets cannot overflow. */
  if (elements > INT64_MAX / 2 / size) {
    char text[128];
    return tsr_program_fail(program, op, TSR_ERR_SHAPE, "%s: the extents %s are too large",
                            name[0] ? name : "the result", tsr_shape_print(shape, text, sizeof text));
  }
  if (!grow_storages(program)) {
    return fail_memory(program);
  }
  int32_t storage = program->desc.n_storages++;
  program->storages[storage] = (tsr_storage_desc){.kind = kind, .size = elements * size};
  program->names[storage] = "";
  if (name[0] && !set_name(program, storage, name)) {
    return fail_memory(program);
  }
  tsr_tensor_desc tensor = {.storage = storage, .dtype = dtype};
  set_contiguous(&tensor, shape);
  program->named[storage] = tsr_program_view(program, &tensor);
  return program->named[storage];
}

static tsr_ref new_named(tsr_program *program, int32_t kind, const char *name, tsr_dtype dtype, tsr_shape shape)
{
  if (program->status != TSR_OK) {
    return TSR_INVALID;
  }
  if (!name || !name[0]) {
    return tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "a constant, input, output or state needs a name");
  }
  if (tsr_program_find(program, name) != TSR_NONE) {
    return tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "the name '%s' is taken already", name);
  }
  return tsr_program_new(program, 0, kind, name, dtype, &shape);
}

tsr_ref tsr_constant(tsr_program *program, const char *name, tsr_dtype dtype, tsr_shape shape)
{
  return new_named(program, TSR_STORAGE_CONSTANT, name, dtype, shape);
}

tsr_ref tsr_input(tsr_program *program, const char *name, tsr_dtype dtype, tsr_shape shape)
{
  return new_named(program, TSR_STORAGE_INPUT, name, dtype, shape);
}

tsr_ref tsr_state(tsr_program *program, const char *name, tsr_dtype dtype, tsr_shape shape)
{
  return new_named(program, TSR_STORAGE_STATE, name, dtype, shape);
}

tsr_ref tsr_output(tsr_program *program, const char *name, tsr_ref x)
{
  if (!tsr_program_has(program, 0, x)) {
    return TSR_INVALID;
  }
  if (!name || !name[0]) {
    return tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "an output needs a name");
  }
  if (tsr_program_find(program, name) != TSR_NONE) {
    return tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "the name '%s' is taken already", name);
  }
  const tsr_tensor_desc *tensor = &program->tensors[x];
  tsr_shape shape = tsr_tensor_shape(tensor);
  int64_t size = tsr_shape_elements(&shape) * (int64_t)tsr_dtype_size(tensor->dtype);
  int whole = tensor->offset == 0 && size == program->storages[tensor->storage].size && tsr_tensor_contiguous(tensor);
  if (!whole || program->storages[tensor->storage].kind != TSR_STORAGE_TEMPORARY) {
    x = tsr_copy(program, x, tensor->dtype);
    if (x == TSR_INVALID) {
      return x;
    }
  }
  int32_t storage = program->tensors[x].storage;
  if (!set_name(program, storage, name)) {
    return fail_memory(program);
  }
  program->storages[storage].kind = TSR_STORAGE_OUTPUT;
  program->named[storage] = x; /* which may have other extents than the line's result: matmul folds */
  return x;
}

void tsr_scope_push(tsr_program *program, const char *format, ...)
{
  size_t used = strlen(program->scope);
  if (used && used + 1 < sizeof program->scope) {
    program->scope[used++] = '.';
  }
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(program->scope + used, sizeof program->scope - used, format, arguments);
  va_end(arguments);
  program->label = NULL;
  if (n <= 0 || (size_t)n >= sizeof program->scope - used || memchr(program->scope + used, '.', (size_t)n)) {
    tsr_program_fail(program, 0, TSR_ERR_ARGUMENT,
                     "the scope is too long, or its name is empty or holds a '.', which separates scopes");
  }
}

void tsr_scope_pop(tsr_program *program)
{
  char *dot = strrchr(program->scope, '.');
  if (!program->scope[0]) {
    tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "a scope was closed that had not been opened");
  }
  *(dot ? dot : program->scope) = '\0';
  program->label = NULL;
}

const char *tsr_program_label(tsr_program *program)
{
  if (!program->label) {
    program->label = program->scope[0] ? tsr_arena_text(&program->texts, program->scope) : "";
  }
  return program->label;
}

/* 1 if the storage of result `slot` is that of an operand, or of an earlier result. */
static int is_used_twice(const tsr_program *program, const tsr_line_desc *line, int32_t slot)
{
  int32_t state = program->tensors[line->out[slot]].storage;
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    if (line->in[i] > 0 && program->tensors[line->in[i]].storage == state) {
      return 1;
    }
  }
  for (int32_t i = 0; i < slot; i++) {
    if (line->out[i] > 0 && program->tensors[line->out[i]].storage == state) {
      return 1;
    }
  }
  return 0;
}

int tsr_op_writes_states(int32_t op)
{
  const tsr_op_row *row = tsr_op_row_of(op);
  return row && row->writes_states;
}

/* The states that a line writes. Sets an error and returns 0 if one is not as it should be. */
static int check_states(tsr_program *program, const tsr_op_info *info, const tsr_line_desc *line)
{
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS && info->out[i].name; i++) {
    if (line->out[i] == TSR_NONE && info->out[i].optional) {
      continue;
    }
    if (!tsr_program_has(program, line->op, line->out[i])) {
      return 0;
    }
    const tsr_tensor_desc *state = &program->tensors[line->out[i]];
    if (program->storages[state->storage].kind != TSR_STORAGE_STATE) {
      tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "it writes states only");
    } else if (!(info->out[i].dtypes & 1u << state->dtype)) {
      tsr_program_fail(program, line->op, TSR_ERR_DTYPE, "a state of %s cannot be written",
                       tsr_dtype_name(state->dtype));
    } else if (is_used_twice(program, line, i)) {
      tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT,
                       "it would read the state that it writes, or write it twice");
    }
    for (int32_t axis = 0; axis < state->rank; axis++) {
      if (state->stride[axis] == 0 && state->extent[axis] > 1) {
        tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "the view of the state repeats elements");
      }
    }
    if (program->status != TSR_OK) {
      return 0;
    }
  }
  return 1;
}

/* Presence, ownership and type of each operand, against the operator's row. */
static int check_slots(tsr_program *program, const tsr_op_info *info, const tsr_line_desc *line)
{
  int ended = 0;
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    tsr_ref x = line->in[i];
    ended = ended || !info->in[i].name;
    if (x == TSR_NONE && (ended || info->in[i].optional)) {
      continue;
    }
    if (ended) {
      tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "it takes %d operands", i);
      return 0;
    }
    if (x == TSR_NONE) {
      tsr_program_fail(program, line->op, TSR_ERR_ARGUMENT, "the operand '%s' is missing", info->in[i].name);
      return 0;
    }
    if (!tsr_program_has(program, line->op, x)) {
      return 0;
    }
    tsr_dtype dtype = program->tensors[x].dtype;
    if (!(info->in[i].dtypes & 1u << dtype)) {
      tsr_program_fail(program, line->op, TSR_ERR_DTYPE, "the operand '%s' cannot be %s", info->in[i].name,
                       tsr_dtype_name(dtype));
      return 0;
    }
  }
  return 1;
}

int tsr_line_push(tsr_program *program, const tsr_line_desc *line)
{
  const char *label = tsr_program_label(program);
  if (!label || !grow_lines(program)) {
    fail_memory(program);
    return 0;
  }
  program->lines[program->desc.n_lines] = *line;
  program->lines[program->desc.n_lines++].label = label;
  return 1;
}

tsr_ref tsr_line_append(tsr_program *program, tsr_line_desc *line)
{
  const tsr_op_row *row = tsr_op_row_of(line->op);
  if (program->status != TSR_OK) {
    return TSR_INVALID;
  }
  if (!row) {
    return tsr_program_fail(program, 0, TSR_ERR_ARGUMENT, "%d is no operator", line->op);
  }
  if (!check_slots(program, &row->info, line) || (row->writes_states && !check_states(program, &row->info, line))) {
    return TSR_INVALID;
  }
  line->attributes.struct_size = sizeof line->attributes;
  if (!row->shape(program, line) || program->status != TSR_OK || !tsr_line_push(program, line)) {
    return TSR_INVALID;
  }
  return line->out[0];
}

int32_t tsr_program_line_count(const tsr_program *program)
{
  return program->desc.n_lines;
}

tsr_ref tsr_program_find(const tsr_program *program, const char *name)
{
  if (!name || !name[0]) {
    return TSR_NONE;
  }
  const int32_t storage = *slot_of(program, name);
  return storage != 0 ? program->named[storage] : TSR_NONE;
}

static const tsr_tensor_desc *tensor_of(const tsr_program *program, tsr_ref x)
{
  return x > 0 && x < program->desc.n_tensors ? &program->tensors[x] : NULL;
}

tsr_shape tsr_ref_shape(const tsr_program *program, tsr_ref x)
{
  const tsr_tensor_desc *tensor = tensor_of(program, x);
  return tensor ? tsr_tensor_shape(tensor) : (tsr_shape){0};
}

tsr_dtype tsr_ref_dtype(const tsr_program *program, tsr_ref x)
{
  const tsr_tensor_desc *tensor = tensor_of(program, x);
  return tensor ? tensor->dtype : 0;
}

int32_t tsr_ref_kind(const tsr_program *program, tsr_ref x)
{
  const tsr_tensor_desc *tensor = tensor_of(program, x);
  return tensor ? program->storages[tensor->storage].kind : 0;
}

const char *tsr_ref_name(const tsr_program *program, tsr_ref x)
{
  const tsr_tensor_desc *tensor = tensor_of(program, x);
  return tensor ? program->names[tensor->storage] : "";
}

const tsr_program_desc *tsr_program_describe(const tsr_program *program)
{
  return &program->desc;
}

tsr_status tsr_program_measure_for(const tsr_program *program, int64_t alignment, const int32_t *operands_until,
                                   tsr_program_statistics *statistics)
{
  *statistics = (tsr_program_statistics){.lines = program->desc.n_lines};
  TSR_TRY(tsr_program_status(program));
  if (alignment < 1 || (alignment & (alignment - 1)) != 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the alignment %lld is no power of two", (long long)alignment);
  }
  tsr_memory_plan plan;
  const tsr_plan_options options = {.alignment = alignment, .operands_until = operands_until};
  TSR_TRY(tsr_memory_plan_make(&program->desc, &options, &plan));
  statistics->temporary_bytes = plan.unplanned;
  statistics->planned_bytes = plan.size;
  tsr_memory_plan_finish(&plan);
  statistics->views = program->desc.n_tensors - program->desc.n_storages;
  for (int32_t i = 0; i < program->desc.n_lines; i++) {
    statistics->flops += tsr_line_flops(&program->desc, i);
    statistics->bytes += tsr_line_bytes(&program->desc, i);
  }
  for (int32_t i = 1; i < program->desc.n_storages; i++) {
    int64_t size = program->storages[i].size;
    switch (program->storages[i].kind) {
    case TSR_STORAGE_CONSTANT:
      statistics->constant_bytes += size;
      break;
    case TSR_STORAGE_INPUT:
      statistics->input_bytes += size;
      break;
    case TSR_STORAGE_OUTPUT:
      statistics->output_bytes += size;
      break;
    case TSR_STORAGE_STATE:
      statistics->state_bytes += size;
      break;
    default:
      break;
    }
  }
  return TSR_OK;
}

tsr_status tsr_program_measure_sized(const tsr_program *program, int64_t alignment, tsr_program_statistics *statistics,
                                     size_t size)
{
  if (!program || !statistics) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_program_measure: program and statistics must not be NULL");
  }
  tsr_program_statistics found;
  tsr_status status = tsr_program_measure_for(program, alignment, NULL, &found);
  tsr_sized_fill(&found, sizeof found, statistics, size);
  return status;
}
