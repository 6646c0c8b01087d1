/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a program's storages lie: in the caller's buffers where bound, temporaries in one arena by the memory plan, and
 * the rest side by side in one buffer per kind (more, where a buffer would pass the device's largest). Outputs lie
 * where the host reads them best, but for large ones that a line of the program reads, too: those lie where the device
 * does.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/program/plan.h"
#include "core/runtime/executable.h"

typedef struct placement {
  tsr_executable *executable;
  const tsr_program *program;
  const tsr_program_desc *description;
  int64_t alignment; /* of every storage on all sides */
} placement;

static int64_t round_up(int64_t size, int64_t alignment)
{
  return (size + alignment - 1) / alignment * alignment;
}

/* The name of a constant, input, output or state, by its storage. */
static const char *storage_name(const placement *p, int32_t storage)
{
  for (int32_t i = 1; i < p->executable->n_tensors; i++) {
    if (p->executable->tensor_storage[i] == storage) {
      const char *name = tsr_ref_name(p->program, i);
      if (*name) {
        return name;
      }
    }
  }
  return "?";
}

static const char *kind_name(int32_t kind)
{
  switch (kind) {
  case TSR_STORAGE_CONSTANT:
    return "the constants";
  case TSR_STORAGE_INPUT:
    return "the inputs";
  case TSR_STORAGE_OUTPUT:
    return "the outputs";
  case TSR_STORAGE_STATE:
    return "the states";
  default:
    return "the temporaries";
  }
}

/* 1 if the storage needs bytes on that side. */
static int is_wanted(const placement *p, int32_t side, int32_t storage)
{
  const tsr_spot *spot = &p->executable->spots[storage];
  return tsr_storage_at(p->description, storage)->size > 0 && (side == spot->home || (spot->sides >> side & 1));
}

static void put(tsr_side *side, int32_t storage, int32_t buffer, int64_t offset, int64_t size)
{
  side->storages[storage].buffer = buffer;
  side->storages[storage].offset = offset;
  side->storages[storage].size = size;
}

/* Adds a buffer of the executable's own; it becomes buffer side->n_buffers - 1. */
static tsr_status add_buffer(tsr_side *side, int64_t size, int32_t usage, const char *what)
{
  tsr_buffer *buffer;
  TSR_TRY(tsr_buffer_create_locked(side->device, size, usage, what, &buffer));
  side->owned[side->n_owned++] = buffer;
  side->buffers[side->n_buffers++] = buffer->handle;
  return TSR_OK;
}

static tsr_status check_binding(const placement *p, const tsr_binding *binding)
{
  const tsr_executable *executable = p->executable;
  if (binding->tensor <= 0 || binding->tensor >= executable->n_tensors || !binding->buffer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a binding has no tensor of the program (%d) or no buffer", (int)binding->tensor);
  }
  int32_t storage = executable->tensor_storage[binding->tensor];
  const tsr_storage_desc *wanted = tsr_storage_at(p->description, storage);
  if (wanted->kind == TSR_STORAGE_TEMPORARY) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tensor %d is bound to a buffer, but it is a temporary", (int)binding->tensor);
  }
  const char *name = storage_name(p, storage);
  const tsr_device *device = binding->buffer->device;
  if (tsr_executable_side_of(executable, device) < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "'%s' is bound to a buffer of another device (%s) than the executable's (%s%s)",
                    name, device->name, executable->sides[0].device->name, executable->n_devices > 1 ? " .." : "");
  }
  int64_t size = binding->buffer->size;
  if (binding->offset < 0 || binding->offset % device->properties.buffer_alignment != 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "'%s' is bound at offset %" PRId64 ": a multiple of %u is needed", name,
                    binding->offset, (unsigned)device->properties.buffer_alignment);
  }
  if (binding->offset > size || wanted->size > size - binding->offset) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "'%s' has %" PRId64 " bytes and is bound at offset %" PRId64 " of a buffer of %" PRId64 " bytes",
                    name, wanted->size, binding->offset, size);
  }
  if (executable->spots[storage].flags & TSR_BOUND) {
    return tsr_fail(TSR_ERR_ARGUMENT, "'%s' is bound twice", name);
  }
  return TSR_OK;
}

static int32_t find_or_add_buffer(tsr_side *side, tsr_backend_buffer *handle)
{
  for (int32_t i = 0; i < side->n_buffers; i++) {
    if (side->buffers[i] == handle) {
      return i;
    }
  }
  side->buffers[side->n_buffers] = handle;
  return side->n_buffers++;
}

static int is_written(int32_t kind)
{
  return kind == TSR_STORAGE_OUTPUT || kind == TSR_STORAGE_STATE;
}

static int by_place(const void *left, const void *right)
{
  const tsr_storage_desc *const *a = left, *const *b = right;
  if ((*a)->buffer != (*b)->buffer) {
    return (*a)->buffer < (*b)->buffer ? -1 : 1;
  }
  if ((*a)->offset != (*b)->offset) {
    return (*a)->offset < (*b)->offset ? -1 : 1;
  }
  return 0;
}

/* Bound ranges may overlap only where no line writes any of them: backends order lines by storages. */
static tsr_status check_overlaps(const placement *p, int32_t s)
{
  const tsr_side *side = &p->executable->sides[s];
  const tsr_storage_desc **bound = calloc((size_t)p->executable->n_storages, sizeof *bound);
  if (!bound) {
    return tsr_fail_memory((size_t)p->executable->n_storages * sizeof *bound);
  }
  int32_t n = 0;
  for (int32_t i = 1; i < p->executable->n_storages; i++) {
    const tsr_spot *spot = &p->executable->spots[i];
    if ((spot->flags & TSR_BOUND) && spot->home == s && side->storages[i].size > 0) {
      bound[n++] = &side->storages[i];
    }
  }
  qsort(bound, (size_t)n, sizeof *bound, by_place);
  /* By rising offset, a range overlaps an earlier one exactly if it starts before the furthest end so far. */
  tsr_status status = TSR_OK;
  const tsr_storage_desc *furthest = NULL, *furthest_written = NULL;
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    const tsr_storage_desc *range = bound[i];
    if (furthest && furthest->buffer != range->buffer) {
      furthest = furthest_written = NULL;
    }
    const tsr_storage_desc *before = is_written(range->kind) ? furthest : furthest_written;
    if (before && before->offset + before->size > range->offset) {
      status = tsr_fail(TSR_ERR_ARGUMENT, "'%s' and '%s' are bound to overlapping bytes, and lines write one of them",
                        storage_name(p, (int32_t)(before - side->storages)),
                        storage_name(p, (int32_t)(range - side->storages)));
    }
    int64_t end = range->offset + range->size;
    if (!furthest || end > furthest->offset + furthest->size) {
      furthest = range;
    }
    if (is_written(range->kind) && (!furthest_written || end > furthest_written->offset + furthest_written->size)) {
      furthest_written = range;
    }
  }
  free(bound);
  return status;
}

static tsr_status place_bound(placement *p, const tsr_compile_options *options)
{
  tsr_executable *executable = p->executable;
  for (int32_t i = 0; i < options->n_bindings; i++) {
    const tsr_binding *binding = &options->bindings[i];
    TSR_TRY(check_binding(p, binding));
    int32_t storage = executable->tensor_storage[binding->tensor];
    int32_t s = tsr_executable_side_of(executable, binding->buffer->device);
    tsr_side *side = &executable->sides[s];
    executable->spots[storage].flags |= TSR_BOUND;
    executable->spots[storage].home = (uint8_t)s;
    if (is_wanted(p, s, storage)) {
      put(side, storage, find_or_add_buffer(side, binding->buffer->handle), binding->offset,
          tsr_storage_at(p->description, storage)->size);
    }
  }
  for (int32_t i = 1; i < executable->n_storages; i++) {
    if (tsr_storage_at(p->description, i)->kind == TSR_STORAGE_CONSTANT && !(executable->spots[i].flags & TSR_BOUND)) {
      return tsr_fail(TSR_ERR_ARGUMENT,
                      "the constant '%s' is bound to no buffer: every constant of a program must be bound",
                      storage_name(p, i));
    }
  }
  for (int32_t s = 0; s < executable->n_devices; s++) {
    TSR_TRY(check_overlaps(p, s));
  }
  return TSR_OK;
}

/* 1 for an output that lies where the device is fastest until the host asks for it: one that lines read and that is no
 * handful of numbers, which cross a bus in no time, and a large one, since a kernel's own stores across a bus are many
 * and small. */
static int stays_on_device(const placement *p, int32_t storage)
{
  enum { HANDFUL = 4096, LARGE = 65536 };
  const int64_t size = tsr_storage_at(p->description, storage)->size;
  if (size <= HANDFUL || size > LARGE) {
    return size > LARGE;
  }
  for (int32_t i = 0; i < p->description->n_lines; i++) {
    for (int32_t j = 0; j < TSR_MAX_INPUTS; j++) {
      const int32_t tensor = tsr_line_at(p->description, i)->in[j];
      if (tensor > 0 && tsr_tensor_at(p->description, tensor)->storage == storage) {
        return 1;
      }
    }
  }
  return 0;
}

/* The use to which a storage's buffer is put. */
static int32_t usage_of(const placement *p, int32_t storage)
{
  switch (tsr_storage_at(p->description, storage)->kind) {
  case TSR_STORAGE_INPUT:
    return TSR_BUFFER_UPLOAD;
  case TSR_STORAGE_OUTPUT:
    return stays_on_device(p, storage) ? TSR_BUFFER_DEVICE : TSR_BUFFER_READBACK;
  default:
    return TSR_BUFFER_DEVICE;
  }
}

/* Places what is left of a kind and usage side by side. */
static tsr_status place_kind(placement *p, int32_t side_index, int32_t kind, int32_t usage)
{
  tsr_side *side = &p->executable->sides[side_index];
  uint64_t limit = side->device->properties.max_buffer_size;
  int64_t filled = 0;
  for (int32_t i = 1; i < p->executable->n_storages; i++) {
    const tsr_storage_desc *storage = tsr_storage_at(p->description, i);
    const tsr_spot *spot = &p->executable->spots[i];
    int is_placed = spot->home == side_index && (spot->flags & TSR_BOUND);
    if (storage->kind != kind || is_placed || !is_wanted(p, side_index, i) || usage_of(p, i) != usage) {
      continue;
    }
    int64_t size = round_up(storage->size, p->alignment);
    if (filled > 0 && ((limit && (uint64_t)(filled + size) > limit) || size > INT64_MAX - filled)) {
      TSR_TRY(add_buffer(side, filled, usage, kind_name(kind)));
      filled = 0;
    }
    put(side, i, side->n_buffers, filled, storage->size);
    filled += size;
  }
  return filled > 0 ? add_buffer(side, filled, usage, kind_name(kind)) : TSR_OK;
}

/* One piece of the caller's arena. */
static tsr_status check_piece(const placement *p, const tsr_buffer *piece, int64_t size)
{
  const tsr_device *device = p->executable->sides[0].device;
  if (!piece || piece->device != device) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the arena is a buffer of another device (%s) than the executable's (%s)",
                    piece ? piece->device->name : "none", device->name);
  }
  if (piece->size < size) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the arena has %" PRId64 " bytes, and the temporaries take %" PRId64, piece->size,
                    size);
  }
  for (int32_t i = 0; i < p->executable->sides[0].n_buffers; i++) {
    if (p->executable->sides[0].buffers[i] == piece->handle) {
      return tsr_fail(TSR_ERR_ARGUMENT, "the arena is a buffer that a tensor is bound to");
    }
  }
  return TSR_OK;
}

/* A plan for all sides; for devices that fuse nothing where the caller's arena is too small for that. */
static tsr_status make_plan(const placement *p, int64_t piece, int64_t room, tsr_memory_plan *plan)
{
  tsr_executable *executable = p->executable;
  tsr_plan_options options = {.alignment = p->alignment, .piece = piece, .keep_all = executable->keep_all};
  int32_t *operands_until;
  tsr_memory_plan_finish(plan);
  TSR_TRY(tsr_executable_ask_fusion(executable, p->description, &operands_until));
  options.operands_until = operands_until;
  tsr_status status = tsr_memory_plan_make(p->description, &options, plan);
  if (status == TSR_OK && operands_until && plan->size > room) {
    tsr_memory_plan_finish(plan);
    options.operands_until = NULL;
    status = tsr_memory_plan_make(p->description, &options, plan);
  }
  free(operands_until);
  return status;
}

/* The bytes of piece i of an arena of `size`; piece 0: all of them. */
static int64_t piece_size(int64_t size, int64_t piece, int64_t i)
{
  return piece > 0 && size - i * piece > piece ? piece : size - i * piece;
}

/* The caller's pieces, as buffers of side 0. */
static tsr_status take_arena(placement *p, const tsr_compile_options *options, int64_t piece,
                             const tsr_memory_plan *plan)
{
  tsr_side *side = &p->executable->sides[0];
  tsr_status status = TSR_OK;
  int32_t n = 0;
  if (piece % p->alignment != 0) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "the pieces of the arena have %" PRId64 " bytes: a multiple of %" PRId64 " is needed", piece,
                    p->alignment);
  }
  for (int64_t begin = 0; begin < plan->size && status == TSR_OK; begin += piece > 0 ? piece : plan->size) {
    if (n > options->n_arena_rest) {
      return tsr_fail(TSR_ERR_ARGUMENT,
                      "the arena has %d pieces of %" PRId64 " bytes, and the temporaries take %" PRId64, (int)n, piece,
                      plan->size);
    }
    const tsr_buffer *buffer = n == 0 ? options->arena : options->arena_rest[n - 1];
    status = check_piece(p, buffer, piece_size(plan->size, piece, n));
    if (status == TSR_OK) {
      side->buffers[side->n_buffers++] = buffer->handle;
      n++;
    }
  }
  return status;
}

/* How much of a plan a side needs; 0: it has no temporaries. */
static int64_t arena_size(const placement *p, int32_t side, const tsr_memory_plan *plan)
{
  int64_t size = 0;
  for (int32_t i = 1; i < p->executable->n_storages; i++) {
    const tsr_storage_desc *storage = tsr_storage_at(p->description, i);
    if (storage->kind == TSR_STORAGE_TEMPORARY && is_wanted(p, side, i) && plan->offset[i] + storage->size > size) {
      size = plan->offset[i] + storage->size;
    }
  }
  return round_up(size, p->alignment);
}

/* Arenas of the executable's own from side `first` on, in pieces of `piece` bytes; 0: in one each. */
static tsr_status make_arenas(placement *p, int32_t first, int64_t piece, const tsr_memory_plan *plan)
{
  for (int32_t s = first; s < p->executable->n_sides; s++) {
    const int64_t size = arena_size(p, s, plan);
    for (int64_t i = 0; i * piece < size && (piece > 0 || i < 1); i++) {
      TSR_TRY(add_buffer(&p->executable->sides[s], piece_size(size, piece, i), TSR_BUFFER_DEVICE,
                         kind_name(TSR_STORAGE_TEMPORARY)));
    }
  }
  return TSR_OK;
}

/* Takes back what make_arenas added to the first [n] buffers of each side. */
static void drop_arenas(placement *p, const int32_t *n)
{
  for (int32_t s = 0; s < p->executable->n_sides; s++) {
    tsr_side *side = &p->executable->sides[s];
    for (; side->n_buffers > n[s]; side->n_buffers--) {
      tsr_buffer_destroy_locked(side->owned[--side->n_owned]);
    }
  }
}

/* How large the pieces of arenas are to be where no buffer can hold all of one; 0: none help. */
static int64_t promised_piece(const placement *p, int64_t size)
{
  uint64_t least = (uint64_t)size;
  for (int32_t s = 0; s < p->executable->n_sides; s++) {
    uint64_t promised = p->executable->sides[s].device->properties.promised_buffer_size;
    promised -= promised % (uint64_t)p->alignment;
    least = promised > 0 && promised < least ? promised : least;
  }
  return least < (uint64_t)size ? (int64_t)least : 0;
}

/* Where the temporaries of a plan lie. first: of each side, its arena's first buffer. */
static void put_temporaries(placement *p, const int32_t *first, int64_t piece, const tsr_memory_plan *plan)
{
  for (int32_t s = 0; s < p->executable->n_sides; s++) {
    for (int32_t i = 1; i < p->executable->n_storages; i++) {
      const tsr_storage_desc *storage = tsr_storage_at(p->description, i);
      if (storage->kind != TSR_STORAGE_TEMPORARY || !is_wanted(p, s, i)) {
        continue;
      }
      const int64_t offset = plan->offset[i];
      put(&p->executable->sides[s], i, first[s] + (int32_t)(piece > 0 ? offset / piece : 0),
          piece > 0 ? offset % piece : offset, storage->size);
    }
  }
}

/* All sides use the same arena offsets: what a temporary has on another side lives exactly as long as the temporary.
 * What a device may refuse to give in one, it may give in several. */
static tsr_status place_temporaries(placement *p, const tsr_compile_options *options)
{
  tsr_executable *executable = p->executable;
  int32_t first[TSR_MAX_SIDES];
  tsr_memory_plan plan = {0};
  int64_t piece = options->n_arena_rest > 0 ? options->arena->size : 0;
  int64_t room = options->arena ? options->arena->size : INT64_MAX;
  for (int32_t i = 0; i < options->n_arena_rest; i++) {
    room += options->arena_rest[i] ? options->arena_rest[i]->size : 0;
  }
  for (int32_t s = 0; s < executable->n_sides; s++) {
    first[s] = executable->sides[s].n_buffers;
  }
  tsr_status status = make_plan(p, piece, room, &plan);
  if (status == TSR_OK && options->arena) {
    const int is_used = arena_size(p, 0, &plan) > 0;
    status = is_used ? take_arena(p, options, piece, &plan) : check_piece(p, options->arena, 0);
    status = status == TSR_OK ? make_arenas(p, 1, piece, &plan) : status;
  } else if (status == TSR_OK) {
    status = make_arenas(p, 0, 0, &plan);
    if (status == TSR_ERR_DEVICE_MEMORY && promised_piece(p, plan.size) > 0) {
      drop_arenas(p, first);
      piece = promised_piece(p, plan.size);
      status = make_plan(p, piece, room, &plan);
      status = status == TSR_OK ? make_arenas(p, 0, piece, &plan) : status;
    }
  }
  executable->info.temporary_bytes = plan.unplanned;
  executable->info.planned_bytes = plan.size;
  if (status == TSR_OK) {
    put_temporaries(p, first, piece, &plan);
  }
  tsr_memory_plan_finish(&plan);
  return status;
}

/* A temporary that is read from outside of its segment is an output there: no backend may do without its bytes. */
static int32_t kind_for_backend(const tsr_executable *executable, int32_t storage, int32_t kind)
{
  int is_seen = executable->keep_all || (executable->spots[storage].flags & TSR_CROSSES);
  return kind == TSR_STORAGE_TEMPORARY && is_seen ? TSR_STORAGE_OUTPUT : kind;
}

/* Where a storage lies that is bound to nothing: on the first device whose lines touch it, else on the first. */
static uint8_t home_of(const tsr_executable *executable, int32_t storage)
{
  int32_t s = 0;
  while (s < executable->n_devices && !(executable->spots[storage].sides >> s & 1)) {
    s++;
  }
  return (uint8_t)(s < executable->n_devices ? s : 0);
}

tsr_status tsr_executable_place(tsr_executable *executable, const tsr_program *program,
                                const tsr_compile_options *options)
{
  static const struct {
    int32_t kind, usage;
  } kinds[] = {{TSR_STORAGE_CONSTANT, TSR_BUFFER_DEVICE},
               {TSR_STORAGE_INPUT, TSR_BUFFER_UPLOAD},
               {TSR_STORAGE_OUTPUT, TSR_BUFFER_READBACK},
               {TSR_STORAGE_OUTPUT, TSR_BUFFER_DEVICE},
               {TSR_STORAGE_STATE, TSR_BUFFER_DEVICE}};
  placement p = {executable, program, tsr_program_describe(program), 16};
  size_t n_storages = (size_t)executable->n_storages;
  for (int32_t s = 0; s < executable->n_sides; s++) {
    tsr_side *side = &executable->sides[s];
    if (side->device->properties.buffer_alignment > p.alignment) {
      p.alignment = side->device->properties.buffer_alignment;
    }
    /* Never more buffers than storages: each piece of an arena has one that found no room before it. And one that
     * stands in where there would be none. */
    side->storages = calloc(n_storages, sizeof *side->storages);
    side->buffers = calloc(n_storages + 1, sizeof *side->buffers);
    side->owned = calloc(n_storages + 1, sizeof *side->owned);
    if (!side->storages || !side->buffers || !side->owned) {
      return tsr_fail_memory(n_storages * sizeof *side->storages);
    }
    for (int32_t i = 1; i < executable->n_storages; i++) {
      side->storages[i].kind = kind_for_backend(executable, i, tsr_storage_at(p.description, i)->kind);
    }
  }
  for (int32_t i = 1; i < executable->n_storages; i++) {
    if (!executable->keep_all && tsr_storage_at(p.description, i)->kind == TSR_STORAGE_TEMPORARY) {
      executable->spots[i].flags |= TSR_UNREADABLE;
    }
    executable->spots[i].home = home_of(executable, i);
  }
  TSR_TRY(place_bound(&p, options));
  for (int32_t s = 0; s < executable->n_sides; s++) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
      TSR_TRY(place_kind(&p, s, kinds[i].kind, kinds[i].usage));
    }
  }
  TSR_TRY(place_temporaries(&p, options));
  for (int32_t s = 0; s < executable->n_sides; s++) {
    if (executable->sides[s].n_buffers == 0) {
      TSR_TRY(add_buffer(&executable->sides[s], p.alignment, TSR_BUFFER_DEVICE, "the empty tensors"));
    }
  }
  return TSR_OK;
}
