/* SPDX-License-Identifier: Apache-2.0
 *
 * What the application did, as JSON in the file that CARD_STATISTICS names.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/card/card.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  uint64_t allocations[VK_MAX_MEMORY_TYPES];
  uint64_t allocated[VK_MAX_MEMORY_TYPES];
  uint64_t largest[VK_MAX_MEMORY_TYPES];
  uint64_t peak[VK_MAX_MEMORY_HEAPS];
  uint64_t mapped_bytes, flushed_bytes, submits;
  card_work work;
} all;

void card_note_allocation(uint32_t type, uint64_t size)
{
  pthread_mutex_lock(&lock);
  all.allocations[type]++;
  all.allocated[type] += size;
  all.largest[type] = size > all.largest[type] ? size : all.largest[type];
  pthread_mutex_unlock(&lock);
}

void card_note_heap(uint32_t heap, uint64_t used)
{
  pthread_mutex_lock(&lock);
  all.peak[heap] = used > all.peak[heap] ? used : all.peak[heap];
  pthread_mutex_unlock(&lock);
}

void card_note_mapping(uint64_t size)
{
  pthread_mutex_lock(&lock);
  all.mapped_bytes += size;
  pthread_mutex_unlock(&lock);
}

void card_note_flush(uint64_t size)
{
  pthread_mutex_lock(&lock);
  all.flushed_bytes += size;
  pthread_mutex_unlock(&lock);
}

void card_note_submit(const card_work *work)
{
  pthread_mutex_lock(&lock);
  all.submits++;
  all.work.dispatches += work->dispatches;
  all.work.barriers += work->barriers;
  all.work.fill_bytes += work->fill_bytes;
  all.work.copy_bytes += work->copy_bytes;
  if (work->largest_dispatch > all.work.largest_dispatch) {
    all.work.largest_dispatch = work->largest_dispatch;
  }
  pthread_mutex_unlock(&lock);
}

void card_statistics_write(void)
{
  const char *path = getenv("CARD_STATISTICS");
  if (!path || !*path) {
    return;
  }
  const card_profile *profile = card_profile_get();
  json_t *types = json_array();
  json_t *heaps = json_array();
  json_t *calls = json_object();
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < (profile->present ? profile->n_types : 1); i++) {
    json_array_append_new(types, json_pack("{s:I, s:I, s:I}", "allocations", (json_int_t)all.allocations[i], "bytes",
                                           (json_int_t)all.allocated[i], "largest", (json_int_t)all.largest[i]));
  }
  for (uint32_t i = 0; i < (profile->present ? profile->n_heaps : 1); i++) {
    json_array_append_new(heaps, json_pack("{s:I}", "peak", (json_int_t)all.peak[i]));
  }
  for (int i = 0; i < CARD_N_FAULTS; i++) {
    json_object_set_new(calls, card_fault_name((card_fault)i), json_integer((json_int_t)card_calls((card_fault)i)));
  }
  json_t *root =
      json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "types", types, "heaps", heaps, "calls",
                calls, "mapped_bytes", (json_int_t)all.mapped_bytes, "flushed_bytes", (json_int_t)all.flushed_bytes,
                "submits", (json_int_t)all.submits, "dispatches", (json_int_t)all.work.dispatches, "largest_dispatch",
                (json_int_t)all.work.largest_dispatch, "barriers", (json_int_t)all.work.barriers, "fill_bytes",
                (json_int_t)all.work.fill_bytes, "copy_bytes", (json_int_t)all.work.copy_bytes);
  pthread_mutex_unlock(&lock);
  if (!root || json_dump_file(root, path, JSON_INDENT(2)) != 0) {
    card_breach("CARD_STATISTICS: %s cannot be written", path);
  }
  json_decref(root);
}
