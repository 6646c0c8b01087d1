/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may call slots now.
 *
 * A device without concurrent runs is locked while a slot is called with it or its objects. A concurrent device is not:
 * there a call claims the executable and the caller's buffers that it touches, on all its devices at once, and waits as
 * long as another call, or a run in flight, has one of them in a way that conflicts. What an executable owns is claimed
 * with it.
 *
 * Nobody waits for a claim with a lock in hand, and whoever holds a claim needs only locks of devices without
 * concurrent runs, whose holders wait for no claim. So nobody waits for ever.
 */
#include <stdlib.h>

#include "core/base/status.h"
#include "core/runtime/executable.h"

/* ---------------------------------------------------------------------------------------------------------------------
 * Runs in flight. Only executables with one side have them: with more, a run has ended when start returns.
 */

static void put_in_flight(tsr_executable *executable)
{
  if (executable->is_in_flight) {
    return;
  }
  tsr_device *device = executable->sides[0].device;
  executable->next_in_flight = device->in_flight;
  device->in_flight = executable;
  executable->is_in_flight = 1;
}

static void take_out_of_flight(tsr_executable *executable)
{
  tsr_executable **link = &executable->sides[0].device->in_flight;
  while (*link != executable) {
    link = &(*link)->next_in_flight;
  }
  *link = executable->next_in_flight;
  executable->next_in_flight = NULL;
  executable->is_in_flight = 0;
}

int tsr_executable_uses(const tsr_executable *executable, const tsr_backend_buffer *buffer)
{
  const tsr_side *side = &executable->sides[0];
  for (int32_t i = 0; i < side->n_buffers; i++) {
    if (side->buffers[i] == buffer) {
      return 1;
    }
  }
  return 0;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Locks
 */

enum { SERIAL = 0, CONCURRENT = 1 };

static int32_t n_devices_of(const tsr_claim *claim)
{
  return claim->executable ? claim->executable->n_sides : 1;
}

static tsr_device *device_of(const tsr_claim *claim, int32_t i)
{
  return claim->executable ? claim->executable->sides[i].device : claim->device;
}

/* The claim's device of that kind at the lowest address above that of `last` (NULL: at the lowest), or NULL. Locks are
 * taken in this order: so two executables that share two devices cannot wait for each other. */
static tsr_device *next_device(const tsr_claim *claim, int kind, const tsr_device *last)
{
  tsr_device *next = NULL;
  for (int32_t i = 0; i < n_devices_of(claim); i++) {
    tsr_device *device = device_of(claim, i);
    if (device->is_concurrent == kind && (uintptr_t)device > (uintptr_t)last &&
        (!next || (uintptr_t)device < (uintptr_t)next)) {
      next = device;
    }
  }
  return next;
}

static void lock_devices(const tsr_claim *claim, int kind)
{
  for (tsr_device *device = NULL; (device = next_device(claim, kind, device)) != NULL;) {
    pthread_mutex_lock(&device->lock);
  }
}

/* But for one; NULL: all. */
static void unlock_devices(const tsr_claim *claim, int kind, const tsr_device *kept)
{
  for (tsr_device *device = NULL; (device = next_device(claim, kind, device)) != NULL;) {
    if (device != kept) {
      pthread_mutex_unlock(&device->lock);
    }
  }
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Claims on concurrent devices, under their locks
 */

static int is_written(const tsr_claim *claim, int32_t use)
{
  return claim->uses[use].is_written && !claim->only_reads;
}

/* The first buffer that somebody else has, or NULL. */
static const tsr_buffer *find_conflict(const tsr_claim *claim)
{
  for (int32_t i = 0; i < claim->n_uses; i++) {
    const tsr_buffer *buffer = claim->uses[i].buffer;
    if (buffer->device->is_concurrent && (is_written(claim, i) ? buffer->users != 0 : buffer->users < 0)) {
      return buffer;
    }
  }
  return NULL;
}

static void take_all(const tsr_claim *claim)
{
  for (int32_t i = 0; i < claim->n_uses; i++) {
    tsr_buffer *buffer = claim->uses[i].buffer;
    if (buffer->device->is_concurrent) {
      buffer->users = is_written(claim, i) ? -1 : buffer->users + 1;
    }
  }
  if (claim->executable) {
    claim->executable->is_claimed = 1;
  }
}

static void give_all(const tsr_claim *claim)
{
  for (int32_t i = 0; i < claim->n_uses; i++) {
    tsr_buffer *buffer = claim->uses[i].buffer;
    if (buffer->device->is_concurrent) {
      buffer->users = is_written(claim, i) ? 0 : buffer->users - 1;
    }
  }
  if (claim->executable) {
    claim->executable->is_claimed = 0;
  }
  for (tsr_device *device = NULL; (device = next_device(claim, CONCURRENT, device)) != NULL;) {
    pthread_cond_broadcast(&device->released);
  }
}

tsr_status tsr_executable_settle(tsr_executable *executable)
{
  if (!executable->is_in_flight) {
    return TSR_OK;
  }
  tsr_device *device = executable->sides[0].device;
  const tsr_claim of_run = {.executable = executable, .uses = executable->uses, .n_uses = executable->n_uses};
  take_out_of_flight(executable);
  if (device->is_concurrent) {
    executable->is_claimed = 1; /* by the run so far, now by this call */
    pthread_mutex_unlock(&device->lock);
  }
  tsr_status status = TSR_DEVICE_SLOT(device, wait, executable->segments[0].handle);
  if (device->is_concurrent) {
    pthread_mutex_lock(&device->lock);
  }
  executable->run_status = status;
  if (device->is_concurrent) {
    give_all(&of_run);
  }
  return status;
}

/* Parts share what the whole owns. */
static const tsr_executable *whole_of(const tsr_executable *executable)
{
  return executable->whole ? executable->whole : executable;
}

/* 1 if the whole or one of its parts is claimed, or in flight. */
static int is_busy(const tsr_executable *executable)
{
  const tsr_executable *whole = whole_of(executable);
  int busy = whole->is_claimed || whole->is_in_flight;
  for (int32_t i = 0; i < whole->n_parts; i++) {
    busy |= whole->parts[i].is_claimed || whole->parts[i].is_in_flight;
  }
  return busy;
}

/* A run in flight that is in the way of a claim, or NULL: then a call has what it needs. */
static tsr_executable *find_run_in_the_way(const tsr_claim *claim)
{
  if (claim->executable && claim->executable->is_in_flight) {
    return claim->executable;
  }
  const tsr_executable *whole = claim->executable ? whole_of(claim->executable) : NULL;
  for (int32_t i = 0; whole && i < whole->n_parts; i++) {
    if (whole->parts[i].is_in_flight) {
      return &whole->parts[i];
    }
  }
  const tsr_buffer *buffer = find_conflict(claim);
  for (tsr_executable *run = buffer ? buffer->device->in_flight : NULL; run; run = run->next_in_flight) {
    if (tsr_executable_uses(run, buffer->handle)) {
      return run;
    }
  }
  return NULL;
}

static int is_free(const tsr_claim *claim)
{
  return !(claim->executable && is_busy(claim->executable)) && !find_conflict(claim);
}

/* The concurrent device where the claim has to wait: that of a buffer that somebody else has, else any. */
static tsr_device *where_to_wait(const tsr_claim *claim)
{
  const tsr_buffer *buffer = find_conflict(claim);
  return buffer ? buffer->device : next_device(claim, CONCURRENT, NULL);
}

/* Nobody waits with more than one lock in hand; what was free before may be taken afterwards, so all is looked at
 * again. */
static tsr_status take_when_free(const tsr_claim *claim)
{
  tsr_status status = TSR_OK;
  lock_devices(claim, CONCURRENT);
  while (status == TSR_OK && !is_free(claim)) {
    tsr_executable *run = find_run_in_the_way(claim);
    tsr_device *device = run ? run->sides[0].device : where_to_wait(claim);
    unlock_devices(claim, CONCURRENT, device);
    if (run) {
      status = tsr_executable_settle(run);
    } else {
      pthread_cond_wait(&device->released, &device->lock);
    }
    pthread_mutex_unlock(&device->lock);
    lock_devices(claim, CONCURRENT);
  }
  if (status == TSR_OK) {
    take_all(claim);
  }
  unlock_devices(claim, CONCURRENT, NULL);
  return status;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Claims on any device
 */

tsr_status tsr_claim_take(const tsr_claim *claim)
{
  if (next_device(claim, CONCURRENT, NULL)) {
    TSR_TRY(take_when_free(claim));
  }
  lock_devices(claim, SERIAL);
  return TSR_OK;
}

void tsr_claim_give(const tsr_claim *claim)
{
  unlock_devices(claim, SERIAL, NULL);
  if (next_device(claim, CONCURRENT, NULL)) {
    lock_devices(claim, CONCURRENT);
    give_all(claim);
    unlock_devices(claim, CONCURRENT, NULL);
  }
}

void tsr_claim_leave_in_flight(const tsr_claim *claim)
{
  tsr_device *device = device_of(claim, 0);
  if (device->is_concurrent) {
    pthread_mutex_lock(&device->lock);
  }
  put_in_flight(claim->executable);
  claim->executable->is_claimed = 0; /* its buffers stay in use */
  if (device->is_concurrent) {
    pthread_cond_broadcast(&device->released);
  }
  pthread_mutex_unlock(&device->lock);
}

/* ---------------------------------------------------------------------------------------------------------------------
 * What a run uses
 */

static tsr_use *find_or_add_use(tsr_executable *executable, tsr_buffer *buffer)
{
  for (int32_t i = 0; i < executable->n_uses; i++) {
    if (executable->uses[i].buffer == buffer) {
      return &executable->uses[i];
    }
  }
  tsr_use *use = &executable->uses[executable->n_uses++];
  *use = (tsr_use){.buffer = buffer};
  return use;
}

tsr_status tsr_executable_find_uses(tsr_executable *executable, const tsr_program_desc *description,
                                    const tsr_compile_options *options)
{
  size_t n_storages = (size_t)executable->n_storages + 1, n_bindings = (size_t)options->n_bindings + 2;
  n_bindings += (size_t)options->n_arena_rest;
  uint8_t *written = calloc(n_storages, 1); /* [n_storages] by a line */
  executable->uses = calloc(n_bindings, sizeof *executable->uses);
  if (!written || !executable->uses) {
    free(written);
    return tsr_fail_memory(n_bindings * sizeof *executable->uses);
  }
  for (int32_t i = 0; i < executable->n_lines; i++) {
    for (int32_t j = 0; j < TSR_MAX_OUTPUTS; j++) {
      written[executable->tensor_storage[tsr_line_at(description, i)->out[j]]] = 1; /* an absent one: storage 0 */
    }
  }
  for (int32_t i = 0; i < options->n_bindings; i++) {
    const tsr_binding *binding = &options->bindings[i];
    if (binding->tensor > 0 && binding->tensor < executable->n_tensors && binding->buffer &&
        tsr_executable_side_of(executable, binding->buffer->device) >= 0) {
      find_or_add_use(executable, binding->buffer)->is_written |= written[executable->tensor_storage[binding->tensor]];
    }
  }
  if (options->arena && options->arena->device == executable->sides[0].device) {
    find_or_add_use(executable, options->arena)->is_written = 1;
  }
  for (int32_t i = 0; i < options->n_arena_rest; i++) {
    if (options->arena_rest[i] && options->arena_rest[i]->device == executable->sides[0].device) {
      find_or_add_use(executable, options->arena_rest[i])->is_written = 1;
    }
  }
  free(written);
  return TSR_OK;
}

tsr_status tsr_device_settle(tsr_device *device, const tsr_backend_buffer *buffer)
{
  if (device->is_concurrent) {
    return TSR_OK;
  }
  tsr_executable *next;
  for (tsr_executable *executable = device->in_flight; executable; executable = next) {
    next = executable->next_in_flight;
    if (!buffer || tsr_executable_uses(executable, buffer)) {
      TSR_TRY(tsr_executable_settle(executable));
    }
  }
  return TSR_OK;
}
