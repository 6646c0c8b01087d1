/* SPDX-License-Identifier: Apache-2.0
 *
 * What a SentencePiece model must satisfy before the library may have it.
 *
 * A model is a Protocol Buffers message: pieces (field 1: text 1, score 2, type 3), a normaliser (field 3) and a
 * denormaliser (field 5), each with a compiled table (field 2). The table is a double-array trie of 32-bit units, from
 * byte strings to offsets of NUL-terminated replacements behind it.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/text/sentencepiece.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { PIECE_USER_DEFINED = 4 };

/* Fixed arrays of the library that the matches of one lookup go to. */
enum { MAX_TABLE_MATCHES = 32, MAX_SYMBOL_MATCHES = 64 };

/* Longer ones serve nobody, and would blow up the memory that a text takes. */
enum { MAX_REPLACEMENT = 1024 };
static const size_t max_model = (size_t)1 << 30;

typedef struct span {
  const unsigned char *at;
  size_t size;
} span;

typedef struct field {
  uint32_t number;
  uint32_t wire;
  uint64_t value; /* of WIRE_VARINT and WIRE_32 */
  span bytes;     /* of WIRE_BYTES */
} field;

static int read_varint(span *from, uint64_t *value)
{
  *value = 0;
  for (unsigned shift = 0; shift < 64 && from->size > 0; shift += 7) {
    unsigned char byte = *from->at++;
    from->size--;
    *value |= (uint64_t)(byte & 0x7F) << shift;
    if (!(byte & 0x80)) {
      return 1;
    }
  }
  return 0;
}

/* 1: *out is the next field; 0: malformed. Call it while bytes are left. */
static int read_field(span *from, field *out)
{
  uint64_t tag;
  if (!read_varint(from, &tag) || tag > UINT32_MAX || tag >> 3 == 0) {
    return 0;
  }
  *out = (field){.number = (uint32_t)tag >> 3, .wire = (uint32_t)tag & 7};
  uint64_t size = 0;
  if (out->wire == WIRE_VARINT) {
    return read_varint(from, &out->value);
  }
  if (out->wire == WIRE_BYTES) {
    if (!read_varint(from, &size)) {
      return 0;
    }
  } else if (out->wire == WIRE_64 || out->wire == WIRE_32) {
    size = out->wire == WIRE_64 ? 8 : 4;
  } else {
    return 0;
  }
  if (size > from->size) {
    return 0;
  }
  out->bytes = (span){from->at, (size_t)size};
  if (out->wire == WIRE_32) {
    for (int i = 3; i >= 0; i--) {
      out->value = out->value << 8 | from->at[i];
    }
  }
  from->at += size;
  from->size -= (size_t)size;
  return 1;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The normalisation table
 */
typedef struct table {
  span units; /* 4 bytes each, little-endian */
  size_t n_units;
  span replacements;
} table;

static uint32_t unit_at(const table *t, size_t index)
{
  const unsigned char *at = t->units.at + 4 * index;
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Where the children of a unit begin: child c lies at that index XOR c. */
static size_t children_of(size_t index, uint32_t unit)
{
  return index ^ (size_t)(unit >> 10) << ((unit & 0x200) >> 6);
}

static int has_value(uint32_t unit)
{
  return unit >> 8 & 1;
}

/* The value of a unit that has one is an offset of a replacement. */
static int is_value_sound(const table *t, size_t children)
{
  size_t value = unit_at(t, children) & 0x7FFFFFFF;
  if (value >= t->replacements.size) {
    return 0;
  }
  size_t left = t->replacements.size - value;
  return memchr(t->replacements.at + value, 0, left < MAX_REPLACEMENT ? left : MAX_REPLACEMENT) != NULL;
}

/* Whose child a unit would be: the index from which its own byte leads to it. Units without a byte are nobody's. */
typedef struct family {
  uint32_t *first; /* [n_units] the first child of units whose children begin there, or none */
  uint32_t *next;  /* [n_units] the next child of the same */
} family;

static const uint32_t none = UINT32_MAX;

static void find_children(const table *t, const family *f)
{
  memset(f->first, 0xFF, t->n_units * sizeof *f->first);
  for (size_t unit = t->n_units; unit-- > 0;) {
    uint32_t bits = unit_at(t, unit);
    size_t from = unit ^ (bits & 0xFF);
    if (bits >> 31 || from >= t->n_units) {
      continue;
    }
    f->next[unit] = f->first[from];
    f->first[from] = (uint32_t)unit;
  }
}

/* A walk over all units that some text can reach, depth first. */
typedef struct step {
  uint32_t unit;
  uint32_t child; /* the next one to go to */
} step;

enum { UNSEEN = 0, ON_PATH = 1, DONE = 2 };

/* Enters a unit: 1 if everything a lookup reads there is inside the table. */
static int enter(const table *t, const family *f, uint32_t unit, step *top, unsigned char *seen)
{
  uint32_t bits = unit_at(t, unit);
  size_t children = children_of(unit, bits);
  if ((children | 0xFF) >= t->n_units || (has_value(bits) && unit != 0 && !is_value_sound(t, children))) {
    return 0;
  }
  *top = (step){.unit = unit, .child = f->first[children]};
  seen[unit] = ON_PATH;
  return 1;
}

/* Every lookup stays inside, ends, and finds at most MAX_TABLE_MATCHES values. `path`, `seen` and `most` have n_units
 * elements; most: the most values on a way down from a unit, its own included. */
static int walk(const table *t, const family *f, step *path, unsigned char *seen, unsigned char *most)
{
  size_t depth = 0;
  if (!enter(t, f, 0, &path[0], seen)) {
    return 0;
  }
  for (;;) {
    step *top = &path[depth];
    uint32_t child = top->child;
    if (child != none) {
      top->child = f->next[child];
      if (seen[child] == ON_PATH) {
        return 0;
      }
      if (seen[child] == UNSEEN) {
        if (!enter(t, f, child, &path[++depth], seen)) {
          return 0;
        }
      } else if (most[child] > most[top->unit]) {
        most[top->unit] = most[child];
      }
      continue;
    }
    uint32_t unit = top->unit;
    most[unit] = (unsigned char)(most[unit] + (unit != 0 && has_value(unit_at(t, unit))));
    if (most[unit] > MAX_TABLE_MATCHES) {
      return 0;
    }
    seen[unit] = DONE;
    if (depth-- == 0) {
      return 1;
    }
    if (most[unit] > most[path[depth].unit]) {
      most[path[depth].unit] = most[unit];
    }
  }
}

static tsr_status check_table(const char *name, span bytes)
{
  if (bytes.size == 0) {
    return TSR_OK;
  }
  table t = {0};
  size_t units_size = 0;
  if (bytes.size >= 4) {
    for (int i = 3; i >= 0; i--) {
      units_size = units_size << 8 | bytes.at[i];
    }
    t.n_units = units_size / 4;
  }
  if (t.n_units == 0 || units_size % 4 != 0 || units_size > bytes.size - 4) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: the normalisation table says that its index has %zu bytes: expected a multiple of 4 below its "
                    "own size of %zu bytes",
                    name, units_size, bytes.size);
  }
  t.units = (span){bytes.at + 4, units_size};
  t.replacements = (span){bytes.at + 4 + units_size, bytes.size - 4 - units_size};

  step *path = malloc(t.n_units * sizeof *path);
  unsigned char *seen = calloc(t.n_units, 2);
  family f = {.first = malloc(t.n_units * sizeof *f.first), .next = malloc(t.n_units * sizeof *f.next)};
  tsr_status status = TSR_OK;
  if (!path || !seen || !f.first || !f.next) {
    status = tsr_fail_memory(t.n_units * (sizeof *path + 2 + 2 * sizeof *f.first));
  } else {
    find_children(&t, &f);
    if (!walk(&t, &f, path, seen, seen + t.n_units)) {
      status = tsr_fail(TSR_ERR_FORMAT, "%s: the index of the normalisation table is damaged", name);
    }
  }
  free(path);
  free(seen);
  free(f.first);
  free(f.next);
  return status;
}

static tsr_status check_normalizer(const char *name, span message)
{
  while (message.size > 0) {
    field f;
    if (!read_field(&message, &f)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: not a SentencePiece model: the normaliser is malformed", name);
    }
    if (f.number == 2 && f.wire == WIRE_BYTES) {
      TSR_TRY(check_table(name, f.bytes));
    }
  }
  return TSR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The pieces
 */
typedef struct symbols {
  span *list; /* user-defined pieces */
  size_t count;
  size_t room;
} symbols;

static tsr_status check_piece(const char *name, size_t index, span message, symbols *defined)
{
  span text = {0};
  uint64_t type = 0;
  float score = 0;
  while (message.size > 0) {
    field f;
    if (!read_field(&message, &f)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: not a SentencePiece model: piece %zu is malformed", name, index);
    }
    if (f.number == 1 && f.wire == WIRE_BYTES) {
      text = f.bytes;
    }
    if (f.number == 2 && f.wire == WIRE_32) {
      uint32_t bits = (uint32_t)f.value;
      memcpy(&score, &bits, sizeof score);
    }
    if (f.number == 3 && f.wire == WIRE_VARINT) {
      type = f.value;
    }
  }
  if (text.size == 0 || memchr(text.at, 0, text.size)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: piece %zu is empty or contains a NUL", name, index);
  }
  if (!isfinite(score)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: piece %zu: the score is not a finite number", name, index);
  }
  if (type != PIECE_USER_DEFINED) {
    return TSR_OK;
  }

  if (defined->count == defined->room) {
    size_t room = defined->room ? 2 * defined->room : 64;
    span *list = realloc(defined->list, room * sizeof *list);
    if (!list) {
      return tsr_fail_memory(room * sizeof *list);
    }
    defined->list = list;
    defined->room = room;
  }
  defined->list[defined->count++] = text;
  return TSR_OK;
}

static int compare_spans(const void *a, const void *b)
{
  const span *x = a;
  const span *y = b;
  int order = memcmp(x->at, y->at, x->size < y->size ? x->size : y->size);
  return order ? order : (x->size > y->size) - (x->size < y->size);
}

static int is_prefix(span prefix, span of)
{
  return prefix.size <= of.size && memcmp(prefix.at, of.at, prefix.size) == 0;
}

/* Symbols that begin with one another, which a lookup finds at once, must not be too many. */
static tsr_status check_symbols(const char *name, symbols *defined)
{
  if (defined->count > 0) {
    qsort(defined->list, defined->count, sizeof *defined->list, compare_spans);
  }
  span nested[MAX_SYMBOL_MATCHES];
  size_t depth = 0;
  for (size_t i = 0; i < defined->count; i++) {
    while (depth > 0 && !is_prefix(nested[depth - 1], defined->list[i])) {
      depth--;
    }
    if (depth == MAX_SYMBOL_MATCHES) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: more than %d user-defined symbols begin with one another", name,
                      (int)MAX_SYMBOL_MATCHES);
    }
    nested[depth++] = defined->list[i];
  }
  return TSR_OK;
}

static tsr_status check_model(const char *name, span message, symbols *defined)
{
  size_t n_pieces = 0;
  while (message.size > 0) {
    field f;
    if (!read_field(&message, &f)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: not a SentencePiece model, or truncated", name);
    }
    if (f.wire != WIRE_BYTES) {
      continue;
    }
    if (f.number == 1) {
      TSR_TRY(check_piece(name, n_pieces++, f.bytes, defined));
    }
    if (f.number == 3 || f.number == 5) {
      TSR_TRY(check_normalizer(name, f.bytes));
    }
  }
  if (n_pieces == 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: not a SentencePiece model: it has no pieces", name);
  }
  return check_symbols(name, defined);
}

tsr_status tsr_sentencepiece_check(const char *name, const void *bytes, size_t size)
{
  if (size > max_model) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %zu bytes are too many for a SentencePiece model", name, size);
  }
  symbols defined = {0};
  tsr_status status = check_model(name, (span){bytes, size}, &defined);
  free(defined.list);
  return status;
}
