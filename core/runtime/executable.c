/* SPDX-License-Identifier: Apache-2.0
 *
 * Executables: made, run, read and written.
 */
#include "core/runtime/executable.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "tessera/ops.h"

enum { MAX_BOUNCE = 16 << 20 /* bytes at a time between two devices */ };

/* What every call needs: the executable, and no buffer of the caller's. */
static tsr_claim claim_on(tsr_executable *executable)
{
  return (tsr_claim){.executable = executable};
}

/* What a run needs. */
static tsr_claim claim_for_run(tsr_executable *executable)
{
  tsr_claim claim = claim_on(executable);
  claim.uses = executable->uses;
  claim.n_uses = executable->n_uses;
  return claim;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Making
 */

/* 1 if the line is one for the fallback device. */
static int falls_back(const tsr_executable *executable, int32_t line)
{
  return executable->line_side[line] >= executable->n_devices;
}

static tsr_status list_unsupported(const tsr_executable *executable, const tsr_program *program, const char *what)
{
  char text[1600] = "", line[400], names[256] = "";
  int32_t n = 0, shown = 0;
  for (int32_t s = 0; s < executable->n_devices; s++) {
    tsr_text_append(names, sizeof names, "%s%s", s > 0 ? " or " : "", executable->sides[s].device->name);
  }
  for (int32_t i = 0; i < executable->n_lines; i++) {
    if (!falls_back(executable, i)) {
      continue;
    }
    n++;
    tsr_program_print_line(program, i, line, sizeof line);
    if (strlen(text) + strlen(line) + 32 > sizeof text) {
      continue;
    }
    tsr_text_append(text, sizeof text, "%sline %d: %s", shown ? "; " : "", (int)i, line);
    shown++;
  }
  if (shown < n) {
    tsr_text_append(text, sizeof text, "; and %d more", (int)(n - shown));
  }
  return tsr_fail(TSR_ERR_UNSUPPORTED, "%s does not support %d of the program's %d lines%s: %s", names, (int)n,
                  (int)executable->n_lines, what, text);
}

/* The first line for the fallback device that a device does not support, or -1. */
static int32_t first_unsupported(const tsr_executable *executable, const tsr_program_desc *description,
                                 tsr_device *fallback)
{
  int32_t line = -1;
  tsr_device_enter(fallback);
  for (int32_t i = 0; i < executable->n_lines && line < 0; i++) {
    if (falls_back(executable, i) && !tsr_device_supports_line(fallback, description, i)) {
      line = i;
    }
  }
  tsr_device_leave(fallback);
  return line;
}

/* Gives the lines that their device does not support to the fallback side; returns how many these are. */
static int32_t give_up_lines(tsr_executable *executable, const tsr_program_desc *description)
{
  int32_t n = 0;
  for (int32_t s = 0; s < executable->n_devices; s++) {
    tsr_device *device = executable->sides[s].device;
    tsr_device_enter(device);
    for (int32_t i = 0; i < executable->n_lines; i++) {
      if (executable->line_side[i] == s && !tsr_device_supports_line(device, description, i)) {
        executable->line_side[i] = (uint8_t)executable->n_devices;
        n++;
      }
    }
    tsr_device_leave(device);
  }
  return n;
}

/* Fills line_side, and the fallback side if lines fall back. */
static tsr_status choose_sides(tsr_executable *executable, const tsr_program *program,
                               const tsr_compile_options *options)
{
  const tsr_program_desc *description = tsr_program_describe(program);
  tsr_device *device = executable->sides[0].device;
  TSR_TRY(tsr_executable_split(executable, description, options));
  if (give_up_lines(executable, description) == 0) {
    return TSR_OK;
  }
  if (options->strict) {
    return list_unsupported(executable, program, ", and falling back was ruled out");
  }

  int n_candidates = options->fallback ? 1 : 2;
  const tsr_device *last = NULL;
  int32_t line = -1;
  for (int i = 0; i < n_candidates; i++) {
    tsr_device *fallback = options->fallback ? options->fallback : tsr_runtime_fallback(device->runtime, i);
    if (!fallback || (executable->n_devices == 1 && strcmp(fallback->name, device->name) == 0)) {
      continue; /* the same device would refuse the same lines */
    }
    last = fallback;
    line = first_unsupported(executable, description, fallback);
    if (line < 0) {
      executable->sides[executable->n_sides++].device = fallback;
      return TSR_OK;
    }
  }
  if (!last) {
    return list_unsupported(executable, program, ", and there is no other device to fall back to (`cpu`, `reference`)");
  }
  char text[400];
  return tsr_fail(TSR_ERR_UNSUPPORTED, "neither %s nor the fallback device %s supports line %d: %s", device->name,
                  last->name, (int)line, tsr_program_print_line(program, line, text, sizeof text));
}

static tsr_status compile_segment(tsr_executable *executable, tsr_segment *segment, const tsr_program_desc *description)
{
  const tsr_side *side = &executable->sides[segment->side];
  const tsr_program_desc part = tsr_segment_describe(segment, description, side->storages);
  tsr_compile_args args = {
      .struct_size = sizeof args,
      .n_buffers = side->n_buffers,
      .program = &part,
      .buffers = side->buffers,
      .profile = executable->profile,
  };
  tsr_backend_executable *handle = NULL; /* after an error nothing is owned, whatever the slot left here */
  TSR_TRY(TSR_DEVICE_SLOT(side->device, compile, side->device->handle, &args, &handle));
  segment->handle = handle;
  if (!handle) {
    return tsr_fail(TSR_ERR_PLUGIN, "%s: compile succeeded without an executable: a fault of the backend",
                    side->device->name);
  }
  return TSR_OK;
}

static tsr_status make_copy(tsr_executable *executable, const tsr_copy_step *copy)
{
  const tsr_side *from_side = &executable->sides[copy->from], *to_side = &executable->sides[copy->to];
  const tsr_storage_desc *source = &from_side->storages[copy->storage], *target = &to_side->storages[copy->storage];
  int64_t size = source->size < target->size ? source->size : target->size; /* 0: a side that has no bytes of it */
  for (int64_t at = 0; at < size; at += executable->bounce_size) {
    uint64_t n = (uint64_t)(size - at < executable->bounce_size ? size - at : executable->bounce_size);
    TSR_TRY(TSR_DEVICE_SLOT(from_side->device, buffer_read, from_side->buffers[source->buffer],
                            (uint64_t)(source->offset + at), n, executable->bounce));
    TSR_TRY(TSR_DEVICE_SLOT(to_side->device, buffer_write, to_side->buffers[target->buffer],
                            (uint64_t)(target->offset + at), n, executable->bounce));
  }
  return TSR_OK;
}

/* 1 if a side has bytes of a constant that lies on another. */
static int has_mirror(const tsr_executable *executable, int32_t side, int32_t storage)
{
  const tsr_storage_desc *desc = &executable->sides[side].storages[storage];
  return desc->kind == TSR_STORAGE_CONSTANT && desc->size > 0 && executable->spots[storage].home != side;
}

/* Makes room for copies between the sides, and those of the constants. */
static tsr_status mirror_constants(tsr_executable *executable)
{
  for (int32_t s = 0; s < executable->n_sides; s++) {
    for (int32_t i = 1; i < executable->n_storages; i++) {
      int64_t size = has_mirror(executable, s, i) ? executable->sides[s].storages[i].size : 0;
      executable->bounce_size = size > executable->bounce_size ? size : executable->bounce_size;
    }
  }
  if (executable->bounce_size > MAX_BOUNCE) {
    executable->bounce_size = MAX_BOUNCE;
  }
  executable->bounce = malloc((size_t)executable->bounce_size + 1);
  if (!executable->bounce) {
    return tsr_fail_memory((size_t)executable->bounce_size);
  }
  for (int32_t s = 0; s < executable->n_sides; s++) {
    TSR_TRY(tsr_device_settle(executable->sides[s].device, NULL));
  }
  for (int32_t s = 0; s < executable->n_sides; s++) {
    for (int32_t i = 1; i < executable->n_storages; i++) {
      if (has_mirror(executable, s, i)) {
        const tsr_copy_step copy = {.storage = i, .from = executable->spots[i].home, .to = s};
        TSR_TRY(make_copy(executable, &copy));
      }
    }
  }
  return TSR_OK;
}

/* Within a claim. */
static tsr_status build(tsr_executable *executable, const tsr_program *program, const tsr_compile_options *options)
{
  const tsr_program_desc *description = tsr_program_describe(program);
  TSR_TRY(tsr_executable_segment(executable, description));
  TSR_TRY(tsr_executable_place(executable, program, options));
  TSR_TRY(tsr_executable_schedule(executable, description));
  if (executable->n_sides > 1) {
    TSR_TRY(mirror_constants(executable));
  }
  for (int32_t i = 0; i < executable->n_segments; i++) {
    TSR_TRY(compile_segment(executable, &executable->segments[i], description));
  }
  return tsr_executable_fill_parts(executable, description);
}

/* Fills sides with the devices asked for, with room for the fallback device. */
static tsr_status take_devices(tsr_executable *executable, tsr_device *device, const tsr_compile_options *options)
{
  executable->sides = calloc((size_t)options->n_others + 2, sizeof *executable->sides);
  if (!executable->sides) {
    return tsr_fail_memory(((size_t)options->n_others + 2) * sizeof *executable->sides);
  }
  for (int32_t i = 0; i <= options->n_others; i++) {
    tsr_device *taken = i == 0 ? device : options->others[i - 1];
    for (int32_t s = 0; s < i; s++) {
      if (!taken || taken == executable->sides[s].device || taken->runtime != device->runtime) {
        executable->n_sides = 0;
        return tsr_fail(TSR_ERR_ARGUMENT,
                        "tsr_executable_create: device %d of those that share the program is %s; each is to be another "
                        "one of the same runtime",
                        (int)i, taken ? taken->name : "NULL");
      }
    }
    executable->sides[executable->n_sides++].device = taken;
  }
  executable->n_devices = executable->n_sides;
  return TSR_OK;
}

static tsr_status allocate(tsr_executable *executable, const tsr_program_desc *description)
{
  executable->n_storages = description->n_storages;
  executable->n_tensors = description->n_tensors;
  executable->n_lines = description->n_lines;
  size_t n_storages = (size_t)description->n_storages + 1, n_tensors = (size_t)description->n_tensors + 1;
  executable->tensor_storage = calloc(n_tensors, sizeof(int32_t));
  executable->spots = calloc(n_storages, sizeof *executable->spots);
  executable->line_side = calloc((size_t)description->n_lines + 1, 1);
  if (!executable->tensor_storage || !executable->spots || !executable->line_side) {
    return tsr_fail_memory(n_tensors * sizeof(int32_t));
  }
  for (int32_t i = 1; i < description->n_tensors; i++) {
    executable->tensor_storage[i] = tsr_tensor_at(description, i)->storage;
  }
  return TSR_OK;
}

/* Within a claim. */
static void release(tsr_executable *executable)
{
  if (tsr_executable_settle(executable) != TSR_OK) {
    tsr_log(TSR_LOG_WARNING, "%s", tsr_error_message());
  }
  for (int32_t i = 0; i < executable->n_segments; i++) {
    const tsr_segment *segment = &executable->segments[i];
    if (segment->handle) {
      TSR_DEVICE_VOID_SLOT(executable->sides[segment->side].device, executable_destroy, segment->handle);
    }
  }
  for (int32_t s = 0; s < executable->n_sides; s++) {
    tsr_side *side = &executable->sides[s];
    for (int32_t i = 0; i < side->n_owned; i++) {
      tsr_buffer_destroy_locked(side->owned[i]);
    }
    free(side->owned);
    free(side->buffers);
    free(side->storages);
  }
}

tsr_status tsr_executable_create(tsr_device *device, const tsr_program *program, const tsr_compile_options *given,
                                 tsr_executable **out)
{
  if (!device || !program || !out) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_executable_create: device, program and executable must not be NULL");
  }
  *out = NULL;
  tsr_compile_options complete;
  TSR_TRY(TSR_SIZED_READ(tsr_compile_options, arena, given, &complete));
  const tsr_compile_options *options = &complete;
  if (options->n_bindings < 0 || (options->n_bindings > 0 && !options->bindings)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_executable_create: n_bindings is %d, bindings %s", (int)options->n_bindings,
                    options->bindings ? "is not NULL" : "is NULL");
  }
  if (options->n_arena_rest < 0 || (options->n_arena_rest > 0 && (!options->arena || !options->arena_rest))) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_executable_create: n_arena_rest is %d, without an arena before it or a list",
                    (int)options->n_arena_rest);
  }
  if (options->n_others < 0 || options->n_others > TSR_MAX_SIDES - 2 || (options->n_others > 0 && !options->others)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_executable_create: n_others is %d, others is %s; a program is split over %d devices at most",
                    (int)options->n_others, options->others ? "not NULL" : "NULL", TSR_MAX_SIDES - 1);
  }
  TSR_TRY(tsr_program_status(program));

  tsr_executable *executable = calloc(1, sizeof *executable);
  if (!executable) {
    return tsr_fail_memory(sizeof *executable);
  }
  executable->keep_all = options->keep_all != 0;
  executable->profile = options->profile != 0;
  tsr_status status = take_devices(executable, device, options);
  if (status == TSR_OK) {
    status = allocate(executable, tsr_program_describe(program));
  }
  if (status == TSR_OK) {
    status = tsr_executable_cut(executable, options);
  }
  if (status == TSR_OK) {
    status = choose_sides(executable, program, options);
  }
  if (status == TSR_OK) {
    status = tsr_executable_find_uses(executable, tsr_program_describe(program), options);
  }
  if (status == TSR_OK) {
    tsr_claim claim = claim_for_run(executable);
    claim.only_reads = 1; /* compiling may look at constants */
    status = tsr_claim_take(&claim);
    if (status == TSR_OK) {
      status = build(executable, program, options);
      tsr_claim_give(&claim);
    }
  }
  if (status != TSR_OK) {
    tsr_executable_destroy(executable);
    return status;
  }
  const tsr_executable_info *info = &executable->info;
  if (info->fallback_lines > 0) {
    tsr_log(TSR_LOG_INFO, "%s: %d of %d lines run on %s, with %d copies of %" PRId64 " bytes in all per run",
            device->name, (int)info->fallback_lines, (int)info->lines,
            executable->sides[executable->n_devices].device->name, (int)info->copies, info->copy_bytes);
  }
  *out = executable;
  return TSR_OK;
}

void tsr_executable_destroy(tsr_executable *executable)
{
  if (!executable) {
    return;
  }
  if (executable->n_sides > 0) {
    tsr_executable_wait_for_parts(executable);
    const tsr_claim claim = claim_on(executable);
    while (tsr_claim_take(&claim) != TSR_OK) { /* the run that it waited for is in flight no more */
      tsr_log(TSR_LOG_WARNING, "%s", tsr_error_message());
    }
    release(executable);
    tsr_claim_give(&claim);
  }
  tsr_executable_free_parts(executable);
  free(executable->sides);
  free(executable->uses);
  free(executable->tensor_storage);
  free(executable->spots);
  free(executable->line_side);
  free(executable->segments);
  free(executable->copies);
  free(executable->bounce);
  free(executable);
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Running
 */

static tsr_status make_copies(tsr_executable *executable, int32_t first, int32_t count)
{
  for (int32_t i = first; i < first + count; i++) {
    TSR_TRY(make_copy(executable, &executable->copies[i]));
  }
  return TSR_OK;
}

/* Segment after segment, each waited for: the next one's copies need its results. */
static tsr_status run_on_all_sides(tsr_executable *executable)
{
  for (int32_t s = 0; s < executable->n_sides; s++) {
    TSR_TRY(tsr_device_settle(executable->sides[s].device, NULL));
  }
  for (int32_t i = 0; i < executable->n_segments; i++) {
    const tsr_segment *segment = &executable->segments[i];
    tsr_device *device = executable->sides[segment->side].device;
    TSR_TRY(make_copies(executable, segment->first_copy, segment->n_copies));
    TSR_TRY(TSR_DEVICE_SLOT(device, run, segment->handle));
    TSR_TRY(TSR_DEVICE_SLOT(device, wait, segment->handle));
  }
  return make_copies(executable, executable->first_final, executable->n_copies - executable->first_final);
}

/* 1 if a run can be in flight: with several sides, start waits for all. */
static int can_fly(const tsr_executable *executable)
{
  return executable->n_sides == 1 && executable->n_segments > 0 && !executable->parts;
}

static tsr_status start(tsr_executable *executable)
{
  executable->run_status = TSR_OK;
  if (executable->n_sides > 1) {
    TSR_TRY(run_on_all_sides(executable));
  } else if (can_fly(executable)) {
    TSR_TRY(TSR_DEVICE_SLOT(executable->sides[0].device, run, executable->segments[0].handle));
  }
  executable->has_run = 1;
  return TSR_OK;
}

tsr_status tsr_executable_start(tsr_executable *executable)
{
  if (!executable) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_executable_start: executable must not be NULL");
  }
  for (int32_t i = 0; i < executable->n_parts; i++) {
    TSR_TRY(tsr_executable_start(&executable->parts[i]));
  }
  if (executable->parts) {
    executable->has_run = 1;
    return TSR_OK;
  }
  const tsr_claim claim = claim_for_run(executable);
  TSR_TRY(tsr_claim_take(&claim));
  tsr_status status = start(executable);
  if (status == TSR_OK && can_fly(executable)) {
    tsr_claim_leave_in_flight(&claim);
  } else {
    tsr_claim_give(&claim);
  }
  return status;
}

/* In one call of the backend; within a claim. */
static tsr_status start_at_once(tsr_executable *executable, int32_t n)
{
  const tsr_device *device = executable->sides[0].device;
  executable->run_status = TSR_OK;
  tsr_slot_enter();
  const int32_t code = device->backend->runs->run_many(executable->segments[0].handle, (uint32_t)n);
  TSR_TRY(tsr_slot_leave(device->name, "run_many", code));
  executable->has_run = 1;
  return TSR_OK;
}

tsr_status tsr_executable_start_many(tsr_executable *executable, int32_t n)
{
  if (!executable || n < 1) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_executable_start_many: there is no executable, or %d runs of it", (int)n);
  }
  const tsr_device *device = executable->sides[0].device;
  if (n == 1 || !can_fly(executable) || device->is_concurrent || !device->backend->runs) {
    for (int32_t i = 0; i < n; i++) {
      TSR_TRY(tsr_executable_start(executable));
    }
    return TSR_OK;
  }
  const tsr_claim claim = claim_for_run(executable);
  TSR_TRY(tsr_claim_take(&claim));
  tsr_status status = start_at_once(executable, n);
  if (status == TSR_OK) {
    tsr_claim_leave_in_flight(&claim);
  } else {
    tsr_claim_give(&claim);
  }
  return status;
}

/* The first error of its parts. */
static tsr_status wait_for_all(tsr_executable *executable)
{
  for (int32_t i = 0; i < executable->n_parts; i++) {
    TSR_TRY(tsr_executable_wait(&executable->parts[i]));
  }
  return TSR_OK;
}

tsr_status tsr_executable_wait(tsr_executable *executable)
{
  if (!executable) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_executable_wait: executable must not be NULL");
  }
  if (executable->parts) {
    return wait_for_all(executable);
  }
  const tsr_claim claim = claim_on(executable);
  TSR_TRY(tsr_claim_take(&claim));
  tsr_status status = TSR_OK;
  if (executable->is_in_flight) {
    status = tsr_executable_settle(executable);
  } else if (executable->run_status !=
             TSR_OK) { /* somebody else needed a buffer of the run, waited, and was told why */
    status = tsr_fail(executable->run_status, "%s: the run failed with %s", executable->sides[0].device->name,
                      tsr_status_name(executable->run_status));
  }
  tsr_claim_give(&claim);
  return status;
}

tsr_status tsr_executable_run(tsr_executable *executable)
{
  if (!executable) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_executable_run: executable must not be NULL");
  }
  if (executable->parts) {
    TSR_TRY(tsr_executable_start(executable));
    return tsr_executable_wait(executable);
  }
  const tsr_claim claim = claim_for_run(executable);
  TSR_TRY(tsr_claim_take(&claim));
  tsr_status status = start(executable);
  if (executable->is_in_flight) { /* from a start before; a concurrent device has waited for that */
    if (status == TSR_OK) {
      status = tsr_executable_settle(executable);
    }
  } else if (status == TSR_OK && can_fly(executable)) {
    status = TSR_DEVICE_SLOT(executable->sides[0].device, wait, executable->segments[0].handle);
    executable->run_status = status;
  }
  tsr_claim_give(&claim);
  return status;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Reading and writing
 */

/* The storage of a tensor whose bytes the caller wants to touch, in *storage. allowed: bit i stands for kind i. */
static tsr_status find_storage(const tsr_executable *executable, const char *caller, tsr_ref tensor, const void *bytes,
                               int64_t size, int allowed, int32_t *storage)
{
  static const char *const kinds[] = {"?", "a constant", "an input", "an output", "a state", "a temporary"};
  if (!executable || tensor <= 0 || tensor >= executable->n_tensors || (!bytes && size != 0)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: there is no executable, no tensor %d, or no bytes", caller, (int)tensor);
  }
  *storage = executable->tensor_storage[tensor];
  const tsr_spot *spot = &executable->spots[*storage];
  const tsr_storage_desc *desc = &executable->sides[spot->home].storages[*storage];
  const int32_t kind = spot->flags & TSR_UNREADABLE ? TSR_STORAGE_TEMPORARY : desc->kind;
  if (!(allowed & (1 << kind))) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: tensor %d is %s%s", caller, (int)tensor, kinds[kind],
                    kind == TSR_STORAGE_TEMPORARY ? ": compile with keep_all to read it"
                                                  : ": only inputs and states are written this way");
  }
  if (size != desc->size) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: tensor %d has %" PRId64 " bytes, not %" PRId64, caller, (int)tensor,
                    desc->size, size);
  }
  return TSR_OK;
}

/* What it takes to touch a storage: *use is the caller's buffer that it is bound to, if it is. */
static tsr_claim claim_storage(tsr_executable *executable, int32_t storage, int32_t is_written, tsr_use *use)
{
  tsr_claim claim = claim_on(executable);
  const tsr_spot *spot = &executable->spots[storage];
  const tsr_side *side = &executable->sides[spot->home];
  for (int32_t i = 0; spot->flags & TSR_BOUND && i < executable->n_uses; i++) {
    if (executable->uses[i].buffer->handle == side->buffers[side->storages[storage].buffer]) {
      *use = (tsr_use){.buffer = executable->uses[i].buffer, .is_written = is_written};
      claim.uses = use;
      claim.n_uses = 1;
      break;
    }
  }
  return claim;
}

/* The buffer of a storage on one side, with no run under way that uses it. */
static tsr_status settled_buffer(const tsr_side *side, int32_t storage, tsr_backend_buffer **buffer)
{
  *buffer = side->buffers[side->storages[storage].buffer];
  return tsr_device_settle(side->device, *buffer);
}

tsr_status tsr_executable_write(tsr_executable *executable, tsr_ref tensor, const void *bytes, int64_t size)
{
  int32_t storage = 0;
  TSR_TRY(find_storage(executable, "tsr_executable_write", tensor, bytes, size,
                       1 << TSR_STORAGE_INPUT | 1 << TSR_STORAGE_STATE, &storage));
  if (size == 0) {
    return TSR_OK;
  }
  const tsr_spot *spot = &executable->spots[storage];
  tsr_status status = TSR_OK;
  tsr_use use;
  const tsr_claim claim = claim_storage(executable, storage, 1, &use);
  TSR_TRY(tsr_claim_take(&claim));
  for (int32_t s = 0; s < executable->n_sides && status == TSR_OK; s++) {
    const tsr_side *side = &executable->sides[s];
    tsr_backend_buffer *buffer;
    if (s != spot->home && !(spot->flags & TSR_WRITE_ALL && spot->sides >> s & 1)) {
      continue;
    }
    status = settled_buffer(side, storage, &buffer);
    if (status == TSR_OK) {
      status = TSR_DEVICE_SLOT(side->device, buffer_write, buffer, (uint64_t)side->storages[storage].offset,
                               (uint64_t)size, bytes);
    }
  }
  tsr_claim_give(&claim);
  return status;
}

tsr_status tsr_executable_read(tsr_executable *executable, tsr_ref tensor, void *bytes, int64_t size)
{
  int32_t storage = 0;
  int allowed = 1 << TSR_STORAGE_CONSTANT | 1 << TSR_STORAGE_INPUT | 1 << TSR_STORAGE_OUTPUT | 1 << TSR_STORAGE_STATE;
  if (executable && executable->keep_all) {
    allowed |= 1 << TSR_STORAGE_TEMPORARY;
  }
  TSR_TRY(find_storage(executable, "tsr_executable_read", tensor, bytes, size, allowed, &storage));
  if (size == 0) {
    return TSR_OK;
  }
  const tsr_side *side = &executable->sides[executable->spots[storage].last];
  tsr_use use;
  const tsr_claim claim = claim_storage(executable, storage, 0, &use);
  TSR_TRY(tsr_claim_take(&claim));
  tsr_backend_buffer *buffer;
  tsr_status status = settled_buffer(side, storage, &buffer);
  if (status == TSR_OK) {
    status = TSR_DEVICE_SLOT(side->device, buffer_read, buffer, (uint64_t)side->storages[storage].offset,
                             (uint64_t)size, bytes);
  }
  tsr_claim_give(&claim);
  return status;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Reports
 */

void tsr_executable_report_sized(const tsr_executable *executable, tsr_executable_info *info, size_t size)
{
  static const tsr_executable_info nothing = {0};
  if (info) {
    tsr_sized_fill(executable ? &executable->info : &nothing, sizeof nothing, info, size);
  }
}

int tsr_executable_line_fell_back(const tsr_executable *executable, int32_t line)
{
  return executable && line >= 0 && line < executable->n_lines && falls_back(executable, line);
}

const tsr_device *tsr_executable_line_device(const tsr_executable *executable, int32_t line)
{
  return executable && line >= 0 && line < executable->n_lines ? executable->sides[executable->line_side[line]].device
                                                               : NULL;
}

/* Within a claim. */
static tsr_status profile(tsr_executable *executable, uint64_t *nanoseconds)
{
  if (!executable->has_run) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_executable_profile: the executable has not run yet");
  }
  TSR_TRY(tsr_executable_settle(executable));
  for (int32_t i = 0; i < executable->n_segments; i++) {
    const tsr_segment *segment = &executable->segments[i];
    tsr_device *device = executable->sides[segment->side].device;
    if (!device->backend->table.profile) {
      return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: the backend keeps no times per line", device->name);
    }
    TSR_TRY(TSR_DEVICE_SLOT(device, profile, segment->handle, nanoseconds + segment->first_line));
  }
  return TSR_OK;
}

/* Within a claim. */
static tsr_status commands(tsr_executable *executable, tsr_line_commands *lines)
{
  for (int32_t i = 0; i < executable->n_segments; i++) {
    const tsr_segment *segment = &executable->segments[i];
    tsr_device *device = executable->sides[segment->side].device;
    if (!device->backend->commands) {
      return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: the backend does not tell what it hands to the device", device->name);
    }
    tsr_slot_enter();
    const int32_t code = device->backend->commands->describe(segment->handle, lines + segment->first_line);
    TSR_TRY(tsr_slot_leave(device->name, "describe", code));
  }
  return TSR_OK;
}

tsr_status tsr_executable_commands(tsr_executable *executable, tsr_line_commands *lines, int32_t n)
{
  if (!executable || (!lines && n > 0) || n != executable->n_lines || executable->profile) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_executable_commands: n is %d, the program has %d lines, and is to be compiled without profile",
                    (int)n, executable ? (int)executable->n_lines : 0);
  }
  const tsr_claim claim = claim_on(executable);
  TSR_TRY(tsr_claim_take(&claim));
  tsr_status status = commands(executable, lines);
  tsr_claim_give(&claim);
  return status;
}

tsr_status tsr_executable_profile(tsr_executable *executable, uint64_t *nanoseconds, int32_t n)
{
  if (!executable || (!nanoseconds && n > 0) || n != executable->n_lines) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_executable_profile: n is %d, the program has %d lines", (int)n,
                    executable ? (int)executable->n_lines : 0);
  }
  if (!executable->profile) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "the executable was compiled without profile, so it keeps no times");
  }
  if (executable->parts) {
    TSR_TRY(wait_for_all(executable));
  }
  const tsr_claim claim = claim_on(executable);
  TSR_TRY(tsr_claim_take(&claim));
  tsr_status status = profile(executable, nanoseconds);
  tsr_claim_give(&claim);
  return status;
}
