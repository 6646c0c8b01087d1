/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/corpus/random_order.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tessera/philox.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/corpus/spool.h"

enum {
  KEY_BITS = 64,
  MOST_BITS = 8,       /* files at once: 2^8 are fewer than a process may open */
  ROOM_OF_TEXT = 2,    /* bytes that a byte of text takes in memory, as sentences are */
  UNKNOWN_BITS = 6,    /* where nobody knows how much will come */
  PURPOSE = 0x53485546 /* in the counter of Philox: tells these draws from others with the same seed */
};

/* What stands before the texts of a record in a file. */
typedef struct record_header {
  int64_t number;
  uint32_t sizes[RANDOM_ORDER_TEXTS];
} record_header;

/* A file of records whose keys begin with the same bits. */
typedef struct part {
  spool file;
  int64_t records;
  uint64_t bytes; /* headers included */
} part;

/* Files by the bits [first_bit, first_bit + bits) of the key, counted from the highest. Those of one part lie a level
 * deeper; of a level, there is one set at a time. */
typedef struct part_set {
  int32_t level;
  int32_t first_bit;
  int32_t bits;
  part parts[1 << MOST_BITS];
} part_set;

/* A record of a part in memory. */
typedef struct place {
  uint64_t key;
  uint64_t offset; /* of its header */
} place;

struct random_order {
  random_order_options options;
  part_set top;
};

typedef int (*taker)(void *user, const random_order_record *record);

static uint64_t key_of(const random_order *order, int64_t number)
{
  const uint64_t seed = order->options.seed;
  const uint32_t counter[4] = {(uint32_t)number, (uint32_t)((uint64_t)number >> 32), PURPOSE, 0};
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint32_t words[4];
  tsr_philox4x32(counter, key, words);
  return (uint64_t)words[1] << 32 | words[0];
}

/* How many bits divide so many bytes into parts of about half of the memory. */
static int32_t bits_for(const random_order *order, uint64_t bytes)
{
  int32_t bits = 0;
  while (bits < MOST_BITS && bytes >> bits > order->options.memory / 2) {
    bits++;
  }
  return bits;
}

/* What sorting a part takes: its records, and their places with room for qsort's copy of these. */
static uint64_t memory_for(const part *p)
{
  return p->bytes + (uint64_t)p->records * 2 * sizeof(place);
}

/* ---- distributing ------------------------------------------------------------------------------------------------ */

/* How a part's file is opened: spool_create or spool_open. */
typedef int (*opener)(spool *s, const char *folder, const char *name, int32_t number);

static int open_part(opener open, const random_order *order, part_set *set, int32_t index)
{
  char name[32];
  snprintf(name, sizeof name, "level-%d", (int)set->level);
  return open(&set->parts[index].file, order->options.folder, name, index);
}

void random_order_clear(const char *folder)
{
  DIR *entries = opendir(folder);
  for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
    int level = 0, index = 0, size = 0;
    int is_part = sscanf(entry->d_name, "level-%d-%d%n", &level, &index, &size) == 2 && entry->d_name[size] == '\0';
    char *path = is_part ? path_join(folder, entry->d_name) : NULL;
    if (path) {
      unlink(path);
    }
    free(path);
  }
  if (entries) {
    closedir(entries);
  }
}

static int create_parts(const random_order *order, part_set *set)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < 1 << set->bits && code == TSR_EXIT_OK; i++) {
    code = open_part(spool_create, order, set, i);
  }
  return code;
}

static int put(const random_order *order, part_set *set, const random_order_record *record)
{
  const uint64_t key = key_of(order, record->number) << set->first_bit;
  part *p = &set->parts[set->bits > 0 ? key >> (KEY_BITS - set->bits) : 0];
  const record_header header = {record->number, {(uint32_t)record->sizes[0], (uint32_t)record->sizes[1]}};
  int code = spool_put(&p->file, &header, sizeof header);
  p->bytes += sizeof header;
  for (int i = 0; i < RANDOM_ORDER_TEXTS && code == TSR_EXIT_OK; i++) {
    code = spool_put(&p->file, record->texts[i], record->sizes[i]);
    p->bytes += record->sizes[i];
  }
  p->records++;
  return code;
}

static int close_parts(part_set *set)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < 1 << set->bits; i++) {
    int here = spool_close(&set->parts[i].file);
    code = code == TSR_EXIT_OK ? here : code;
  }
  return code;
}

static void finish_parts(part_set *set)
{
  for (int32_t i = 0; i < 1 << set->bits; i++) {
    spool_finish(&set->parts[i].file);
  }
}

int random_order_open(const random_order_options *options, random_order **order)
{
  *order = calloc(1, sizeof **order);
  if (!*order) {
    return tsr_cli_no_memory();
  }
  random_order *o = *order;
  o->options = *options;
  o->top.bits = options->expected > 0 ? bits_for(o, ROOM_OF_TEXT * options->expected) : UNKNOWN_BITS;
  return create_parts(o, &o->top);
}

int random_order_add(random_order *order, const random_order_record *record)
{
  return put(order, &order->top, record);
}

void random_order_close(random_order *order)
{
  if (order) {
    finish_parts(&order->top);
  }
  free(order);
}

/* ---- giving ------------------------------------------------------------------------------------------------------ */

/* Of equal keys, the record that came first comes first. */
static int compare_places(const void *a, const void *b)
{
  const place *x = a;
  const place *y = b;
  if (x->key != y->key) {
    return x->key < y->key ? -1 : 1;
  }
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* The record whose header and texts lie there. */
static random_order_record record_at(const char *bytes)
{
  record_header h;
  memcpy(&h, bytes, sizeof h);
  const char *first = bytes + sizeof h;
  return (random_order_record){h.number, {first, first + h.sizes[0]}, {h.sizes[0], h.sizes[1]}};
}

static void sort_places(const random_order *order, const char *bytes, place *places, int64_t n)
{
  uint64_t offset = 0;
  for (int64_t i = 0; i < n; i++) {
    const random_order_record record = record_at(bytes + offset);
    places[i] = (place){key_of(order, record.number), offset};
    offset += sizeof(record_header) + record.sizes[0] + record.sizes[1];
  }
  qsort(places, (size_t)n, sizeof *places, compare_places);
}

/* Reads a part into memory and hands its records out. */
static int give_sorted(const random_order *order, part *p, taker take, void *user)
{
  char *bytes = malloc(p->bytes);
  place *places = malloc((size_t)p->records * sizeof *places);
  int got = 0;
  int code = bytes && places ? spool_get(&p->file, bytes, p->bytes, &got) : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK && !got) {
    tsr_cli_error("%s: holds nothing, though %lld records were written", p->file.path, (long long)p->records);
    code = TSR_EXIT_INPUT;
  }
  if (code == TSR_EXIT_OK) {
    spool_remove(&p->file); /* its room on the disk is needed for what is written now */
    sort_places(order, bytes, places, p->records);
    for (int64_t i = 0; i < p->records && code == TSR_EXIT_OK; i++) {
      const random_order_record record = record_at(bytes + places[i].offset);
      code = take(user, &record);
    }
  }
  free(places);
  free(bytes);
  return code;
}

/* Distributes the records of a part over those of a deeper set. */
static int distribute(const random_order *order, part *p, part_set *below)
{
  char *texts = NULL;
  size_t room = 0;
  int code = create_parts(order, below);
  for (int64_t i = 0; i < p->records && code == TSR_EXIT_OK; i++) {
    record_header h = {0};
    int got;
    code = *order->options.stop ? TSR_EXIT_INPUT : spool_get(&p->file, &h, sizeof h, &got);
    const size_t size = (size_t)h.sizes[0] + h.sizes[1];
    if (code == TSR_EXIT_OK && size > room) {
      free(texts);
      texts = malloc(size);
      room = texts ? size : 0;
      code = texts ? TSR_EXIT_OK : tsr_cli_no_memory();
    }
    if (code == TSR_EXIT_OK && size > 0) {
      code = spool_get(&p->file, texts, size, &got);
    }
    if (code == TSR_EXIT_OK) {
      const char *second = size > 0 ? texts + h.sizes[0] : texts;
      code = put(order, below, &(random_order_record){h.number, {texts, second}, {h.sizes[0], h.sizes[1]}});
    }
  }
  free(texts);
  int closed = close_parts(below);
  return code == TSR_EXIT_OK ? closed : code;
}

static int give_set(const random_order *order, part_set *set, taker take, void *user);

static int give_divided(const random_order *order, const part_set *above, part *p, taker take, void *user)
{
  part_set *below = calloc(1, sizeof *below);
  if (!below) {
    return tsr_cli_no_memory();
  }
  const int32_t wanted = bits_for(order, memory_for(p));
  below->level = above->level + 1;
  below->first_bit = above->first_bit + above->bits;
  below->bits = wanted > 0 ? wanted : 1;
  int code = distribute(order, p, below);
  spool_remove(&p->file);
  if (code == TSR_EXIT_OK) {
    code = give_set(order, below, take, user);
  }
  finish_parts(below);
  free(below);
  return code;
}

/* Parts are opened one at a time; a single record, and what no further bit tells apart, is not divided. */
static int give_set(const random_order *order, part_set *set, taker take, void *user)
{
  int code = TSR_EXIT_OK;
  const int is_last = set->first_bit + set->bits + MOST_BITS > KEY_BITS;
  for (int32_t i = 0; i < 1 << set->bits && code == TSR_EXIT_OK; i++) {
    part *p = &set->parts[i];
    code = open_part(spool_open, order, set, i);
    if (code != TSR_EXIT_OK) {
      break;
    }
    if (p->records == 0) {
      spool_remove(&p->file);
    } else if (is_last || p->records == 1 || memory_for(p) <= order->options.memory) {
      code = give_sorted(order, p, take, user);
    } else {
      code = give_divided(order, set, p, take, user);
    }
  }
  return code;
}

int random_order_give(random_order *order, int (*take)(void *user, const random_order_record *record), void *user)
{
  int code = close_parts(&order->top);
  return code == TSR_EXIT_OK ? give_set(order, &order->top, take, user) : code;
}
