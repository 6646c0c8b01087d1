/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/checkpoint/bytes.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/pickle_names.h"

enum {
  MAX_SIZE = 1 << 26, /* bytes of a pickle; a tensor takes some 250 */
  MAX_PROTOCOL = 5,
  TENSOR_RANK = 64 /* axes: more than torch allows */
};

/* What a value is. The contents of lists, and of dictionaries other than the last one, are looked at and forgotten. */
typedef enum kind {
  KIND_MARK,
  KIND_NONE,
  KIND_BOOL,
  KIND_INTEGER,
  KIND_FLOAT,
  KIND_TEXT,
  KIND_TUPLE,
  KIND_LIST,
  KIND_DICT,
  KIND_GLOBAL,
  KIND_STORAGE,
  KIND_TENSOR
} kind;

static const char *const kind_names[] = {"a mark",  "None",   "a truth value", "a number", "a float",   "a text",
                                         "a tuple", "a list", "a dictionary",  "a global", "a storage", "a tensor"};

typedef struct value {
  kind kind;
  uint32_t count; /* bytes of a text, items of a tuple */
  union {
    int64_t integer;         /* BOOL, INTEGER */
    const char *text;        /* TEXT: in the pickle, not terminated */
    const uint32_t *items;   /* TUPLE: numbers of values; of the arena */
    tsr_pickle_global which; /* GLOBAL */
    uint32_t tuple;          /* STORAGE: the persistent id. TENSOR: the arguments; both checked */
  } as;
} value;

/* A pair put into a dictionary. */
typedef struct pair {
  uint32_t dict;
  uint32_t key;
  uint32_t value;
} pair;

/* A growing array of numbers. */
typedef struct numbers {
  uint32_t *items;
  size_t n;
  size_t room;
} numbers;

enum { NOTHING = UINT32_MAX }; /* a place of the memo that is empty */

typedef struct machine {
  const char *path;
  const unsigned char *bytes;
  size_t size;
  size_t at;    /* of what is read next */
  size_t start; /* of the opcode under way */
  tsr_arena *arena;
  value *values; /* each made by one opcode; they refer to one another by number */
  size_t n_values, values_room;
  numbers stack, memo;
  pair *pairs;
  size_t n_pairs, pairs_room;
  size_t copied; /* bytes of names and keys */
} machine;

static const char *opcode_name(const machine *m)
{
  return tsr_pickle_opcode_name(m->bytes[m->start]);
}

/* A broken pickle, rather than one that holds something else than tensors. */
static tsr_status fail_broken(const machine *m, const char *what)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s: pickle: opcode %s at byte %zu: %s", m->path, opcode_name(m), m->start, what);
}

static tsr_status fail_value(const machine *m, const char *expected, uint32_t found)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s: pickle: opcode %s at byte %zu: expected %s, found %s", m->path, opcode_name(m),
                  m->start, expected, kind_names[m->values[found].kind]);
}

/* The array, with room for one more item than the n that it has; NULL without memory, the message being set. */
static void *grown(void *items, size_t n, size_t *room, size_t size)
{
  if (n < *room) {
    return items;
  }
  size_t larger = *room ? 2 * *room : 256;
  void *moved = realloc(items, larger * size);
  if (moved) {
    *room = larger;
  } else {
    (void)tsr_fail_memory(larger * size);
  }
  return moved;
}

static tsr_status add_number(numbers *list, uint32_t number)
{
  uint32_t *items = grown(list->items, list->n, &list->room, sizeof *items);
  if (!items) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  list->items = items;
  items[list->n++] = number;
  return TSR_OK;
}

/* ---- bytes, stack and memo --------------------------------------------------------------------------------------- */

/* The next bytes of the pickle. */
static tsr_status take(machine *m, uint64_t size, const unsigned char **bytes)
{
  if (size > m->size - m->at) {
    return fail_broken(m, "the pickle ends within it");
  }
  *bytes = m->bytes + m->at;
  m->at += (size_t)size;
  return TSR_OK;
}

static tsr_status take_number(machine *m, int size, uint64_t *number)
{
  const unsigned char *bytes = NULL;
  TSR_TRY(take(m, (uint64_t)size, &bytes));
  *number = tsr_read_unsigned(bytes, size);
  return TSR_OK;
}

static tsr_status push_number(machine *m, uint32_t number)
{
  return add_number(&m->stack, number);
}

/* A new value, which is not on the stack yet; its number is n_values - 1. */
static tsr_status add_value(machine *m, value made)
{
  value *values = grown(m->values, m->n_values, &m->values_room, sizeof *values);
  if (!values) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  m->values = values;
  values[m->n_values++] = made;
  return TSR_OK;
}

static tsr_status push(machine *m, value made)
{
  TSR_TRY(add_value(m, made));
  return push_number(m, (uint32_t)m->n_values - 1);
}

static tsr_status push_integer(machine *m, kind which, int64_t number)
{
  return push(m, (value){.kind = which, .as.integer = number});
}

/* The last value, which stays. What lies below a mark is out of reach. */
static tsr_status peek(const machine *m, uint32_t *number)
{
  if (m->stack.n == 0 || m->values[m->stack.items[m->stack.n - 1]].kind == KIND_MARK) {
    return fail_broken(m, "the stack holds too little");
  }
  *number = m->stack.items[m->stack.n - 1];
  return TSR_OK;
}

static tsr_status pop(machine *m, uint32_t *number)
{
  TSR_TRY(peek(m, number));
  m->stack.n--;
  return TSR_OK;
}

/* Takes what lies above the topmost mark off, and the mark: *items stay valid until the next push. */
static tsr_status pop_to_mark(machine *m, const uint32_t **items, size_t *n)
{
  size_t at = m->stack.n;
  while (at > 0 && m->values[m->stack.items[at - 1]].kind != KIND_MARK) {
    at--;
  }
  if (at == 0) {
    return fail_broken(m, "there is no mark on the stack");
  }
  *items = m->stack.items + at;
  *n = m->stack.n - at;
  m->stack.n = at - 1;
  return TSR_OK;
}

static tsr_status put(machine *m, uint64_t place)
{
  uint32_t number = 0;
  TSR_TRY(peek(m, &number));
  if (place > m->size) { /* every use of a place takes bytes: no honest pickle counts further */
    return fail_broken(m, "the memo has no such place");
  }
  while (m->memo.n <= place) {
    TSR_TRY(add_number(&m->memo, NOTHING));
  }
  m->memo.items[place] = number;
  return TSR_OK;
}

static tsr_status get(machine *m, uint64_t place)
{
  if (place >= m->memo.n || m->memo.items[place] == NOTHING) {
    return fail_broken(m, "the memo has no such place");
  }
  return push_number(m, m->memo.items[place]);
}

/* ---- simple values ----------------------------------------------------------------------------------------------- */

/* A text behind its length of `size` bytes. */
static tsr_status read_text(machine *m, int size)
{
  uint64_t length = 0;
  const unsigned char *bytes = NULL;
  TSR_TRY(take_number(m, size, &length));
  TSR_TRY(take(m, length, &bytes));
  return push(m, (value){.kind = KIND_TEXT, .count = (uint32_t)length, .as.text = (const char *)bytes});
}

/* A two's complement number of that many bytes. */
static tsr_status read_integer(machine *m, uint64_t size)
{
  const unsigned char *bytes = NULL;
  TSR_TRY(take(m, size, &bytes));
  if (size > 8) {
    return fail_broken(m, "a number of more than 64 bits");
  }
  uint64_t number = tsr_read_unsigned(bytes, (int)size);
  if (size > 0 && size < 8 && bytes[size - 1] & 0x80) {
    number |= UINT64_MAX << 8 * size;
  }
  return push_integer(m, KIND_INTEGER, (int64_t)number);
}

static tsr_status read_long(machine *m, int size)
{
  uint64_t length = 0;
  TSR_TRY(take_number(m, size, &length));
  return read_integer(m, length);
}

/* `size` bytes of an unsigned number. */
static tsr_status read_small(machine *m, int size)
{
  uint64_t number = 0;
  TSR_TRY(take_number(m, size, &number));
  return push_integer(m, KIND_INTEGER, (int64_t)number);
}

static tsr_status read_float(machine *m)
{
  const unsigned char *bytes = NULL;
  TSR_TRY(take(m, 8, &bytes));
  return push_integer(m, KIND_FLOAT, 0);
}

static tsr_status push_tuple(machine *m, const uint32_t *items, size_t n)
{
  uint32_t *copy = tsr_arena_take(m->arena, (n + 1) * sizeof *copy);
  if (!copy) {
    return tsr_fail_memory((n + 1) * sizeof *copy);
  }
  if (n > 0) {
    memcpy(copy, items, n * sizeof *copy);
  }
  return push(m, (value){.kind = KIND_TUPLE, .count = (uint32_t)n, .as.items = copy});
}

/* A tuple of the last n values. */
static tsr_status make_tuple(machine *m, int n)
{
  uint32_t items[3];
  for (int i = n - 1; i >= 0; i--) {
    TSR_TRY(pop(m, &items[i]));
  }
  return push_tuple(m, items, (size_t)n);
}

static tsr_status make_marked_tuple(machine *m)
{
  const uint32_t *items = NULL;
  size_t n = 0;
  TSR_TRY(pop_to_mark(m, &items, &n));
  return push_tuple(m, items, n);
}

/* ---- lists and dictionaries -------------------------------------------------------------------------------------- */

static tsr_status set_pair(machine *m, uint32_t dict, uint32_t key, uint32_t content)
{
  pair *pairs = grown(m->pairs, m->n_pairs, &m->pairs_room, sizeof *pairs);
  if (!pairs) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  m->pairs = pairs;
  pairs[m->n_pairs++] = (pair){dict, key, content};
  return TSR_OK;
}

static tsr_status set_pairs(machine *m, uint32_t dict, const uint32_t *items, size_t n)
{
  if (m->values[dict].kind != KIND_DICT) {
    return fail_value(m, "a dictionary to put values into", dict);
  }
  if (n % 2 != 0) {
    return fail_broken(m, "a key without a value");
  }
  for (size_t i = 0; i < n; i += 2) {
    TSR_TRY(set_pair(m, dict, items[i], items[i + 1]));
  }
  return TSR_OK;
}

static tsr_status set_item(machine *m)
{
  uint32_t items[2];
  uint32_t dict = 0;
  TSR_TRY(pop(m, &items[1]));
  TSR_TRY(pop(m, &items[0]));
  TSR_TRY(peek(m, &dict));
  return set_pairs(m, dict, items, 2);
}

static tsr_status set_items(machine *m)
{
  const uint32_t *items = NULL;
  size_t n = 0;
  uint32_t dict = 0;
  TSR_TRY(pop_to_mark(m, &items, &n));
  TSR_TRY(peek(m, &dict));
  return set_pairs(m, dict, items, n);
}

static tsr_status make_marked_dict(machine *m)
{
  const uint32_t *items = NULL;
  size_t n = 0;
  TSR_TRY(pop_to_mark(m, &items, &n));
  TSR_TRY(add_value(m, (value){.kind = KIND_DICT}));
  uint32_t dict = (uint32_t)m->n_values - 1;
  TSR_TRY(set_pairs(m, dict, items, n)); /* before the push that writes over the items */
  return push_number(m, dict);
}

static tsr_status append(machine *m, int marked)
{
  const uint32_t *items = NULL;
  size_t n = 0;
  uint32_t list = 0;
  TSR_TRY(marked ? pop_to_mark(m, &items, &n) : pop(m, &list));
  TSR_TRY(peek(m, &list));
  return m->values[list].kind == KIND_LIST ? TSR_OK : fail_value(m, "a list to append to", list);
}

/* ---- globals and calls ------------------------------------------------------------------------------------------- */

static tsr_status push_global(machine *m, const char *module, size_t module_size, const char *name, size_t name_size)
{
  tsr_pickle_global which = tsr_pickle_global_find(module, module_size, name, name_size);
  if (which == TSR_PICKLE_NO_GLOBAL) {
    char text[128];
    snprintf(text, sizeof text, "%.*s.%.*s", (int)(module_size < 60 ? module_size : 60), module,
             (int)(name_size < 60 ? name_size : 60), name);
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: pickle: opcode %s at byte %zu: the global %s is refused: a file of weights needs none but "
                    "those of tensors",
                    m->path, opcode_name(m), m->start, tsr_quote(text).text);
  }
  return push(m, (value){.kind = KIND_GLOBAL, .as.which = which});
}

/* A line of text, without its end. */
static tsr_status take_line(machine *m, const char **text, size_t *size)
{
  const unsigned char *begin = m->bytes + m->at;
  const unsigned char *end = memchr(begin, '\n', m->size - m->at);
  if (!end) {
    return fail_broken(m, "the pickle ends within it");
  }
  *text = (const char *)begin;
  *size = (size_t)(end - begin);
  m->at += *size + 1;
  return TSR_OK;
}

static tsr_status read_global(machine *m)
{
  const char *module = NULL;
  const char *name = NULL;
  size_t module_size = 0;
  size_t name_size = 0;
  TSR_TRY(take_line(m, &module, &module_size));
  TSR_TRY(take_line(m, &name, &name_size));
  return push_global(m, module, module_size, name, name_size);
}

static tsr_status pop_kind(machine *m, kind wanted, const char *expected, uint32_t *number)
{
  TSR_TRY(pop(m, number));
  return m->values[*number].kind == wanted ? TSR_OK : fail_value(m, expected, *number);
}

static tsr_status read_stack_global(machine *m)
{
  uint32_t name = 0;
  uint32_t module = 0;
  TSR_TRY(pop_kind(m, KIND_TEXT, "a name", &name));
  TSR_TRY(pop_kind(m, KIND_TEXT, "a module's name", &module));
  const value *a = &m->values[module];
  const value *b = &m->values[name];
  return push_global(m, a->as.text, a->count, b->as.text, b->count);
}

/* Item `index` of a tuple, NULL if it is of another kind or not there. */
static const value *item(const machine *m, uint32_t tuple, uint32_t index, kind wanted)
{
  const value *t = &m->values[tuple];
  if (t->kind != KIND_TUPLE || index >= t->count) {
    return NULL;
  }
  const value *found = &m->values[t->as.items[index]];
  return found->kind == wanted ? found : NULL;
}

/* ("storage", class, key, place, elements) */
static tsr_status read_storage(machine *m)
{
  uint32_t id = 0;
  TSR_TRY(pop_kind(m, KIND_TUPLE, "a tuple as the persistent id of a storage", &id));
  const value *label = item(m, id, 0, KIND_TEXT);
  const value *type = item(m, id, 1, KIND_GLOBAL);
  const value *key = item(m, id, 2, KIND_TEXT);
  const value *elements = item(m, id, 4, KIND_INTEGER);
  if (!label || label->count != 7 || memcmp(label->as.text, "storage", 7) != 0 || !type ||
      !tsr_pickle_storage(type->as.which) || !key || !elements || elements->as.integer < 0 ||
      m->values[id].count != 5) {
    return fail_broken(m, "the persistent id is not that of a storage: ('storage', class, key, place, elements)");
  }
  return push(m, (value){.kind = KIND_STORAGE, .as.tuple = id});
}

/* A tuple of sizes. */
static int is_sizes(const machine *m, uint32_t tuple, uint32_t index, uint32_t *count)
{
  const value *sizes = item(m, tuple, index, KIND_TUPLE);
  if (!sizes || sizes->count > TENSOR_RANK) {
    return 0;
  }
  for (uint32_t i = 0; i < sizes->count; i++) {
    const value *size = &m->values[sizes->as.items[i]];
    if (size->kind != KIND_INTEGER || size->as.integer < 0 || size->as.integer > INT64_MAX / 2) {
      return 0;
    }
  }
  *count = sizes->count;
  return 1;
}

/* (storage, offset, extents, strides, ..): what follows (gradients, hooks) does not concern the elements. */
static tsr_status make_tensor(machine *m, uint32_t arguments)
{
  const value *offset = item(m, arguments, 1, KIND_INTEGER);
  uint32_t extents = 0;
  uint32_t strides = 0;
  if (!item(m, arguments, 0, KIND_STORAGE) || !offset || offset->as.integer < 0 ||
      !is_sizes(m, arguments, 2, &extents) || !is_sizes(m, arguments, 3, &strides) || extents != strides) {
    return fail_broken(m, "the arguments are not those of a tensor: (storage, offset, sizes, strides, ..)");
  }
  return push(m, (value){.kind = KIND_TENSOR, .as.tuple = arguments});
}

static tsr_status call(machine *m)
{
  uint32_t arguments = 0;
  uint32_t function = 0;
  TSR_TRY(pop_kind(m, KIND_TUPLE, "a tuple of arguments", &arguments));
  TSR_TRY(pop_kind(m, KIND_GLOBAL, "a global to call", &function));
  const value *tuple = &m->values[arguments];
  switch (m->values[function].as.which) {
  case TSR_PICKLE_ORDERED_DICT:
    if (tuple->count != 0) {
      return fail_broken(m, "expected an OrderedDict without arguments");
    }
    return push(m, (value){.kind = KIND_DICT});
  case TSR_PICKLE_TENSOR:
    return make_tensor(m, arguments);
  case TSR_PICKLE_PARAMETER:
    if (!item(m, arguments, 0, KIND_TENSOR)) {
      return fail_broken(m, "the arguments are not those of a parameter: (tensor, ..)");
    }
    return push_number(m, tuple->as.items[0]);
  default:
    return fail_broken(m, "a storage's class is no function to call");
  }
}

/* A state of an object: of a dictionary, whose attributes (_metadata) do not concern the tensors. */
static tsr_status build(machine *m)
{
  uint32_t state = 0;
  uint32_t object = 0;
  TSR_TRY(pop(m, &state));
  TSR_TRY(peek(m, &object));
  return m->values[object].kind == KIND_DICT ? TSR_OK : fail_value(m, "a dictionary with a state", object);
}

/* ---- opcodes ----------------------------------------------------------------------------------------------------- */

static tsr_status read_protocol(machine *m)
{
  uint64_t version = 0;
  TSR_TRY(take_number(m, 1, &version));
  return version <= MAX_PROTOCOL ? TSR_OK : fail_broken(m, "a protocol that this build does not know");
}

static tsr_status read_frame(machine *m)
{
  uint64_t length = 0;
  TSR_TRY(take_number(m, 8, &length));
  return length <= m->size - m->at ? TSR_OK : fail_broken(m, "a frame longer than the pickle");
}

static tsr_status with_place(machine *m, int size, tsr_status (*act)(machine *, uint64_t))
{
  uint64_t place = 0;
  TSR_TRY(take_number(m, size, &place));
  return act(m, place);
}

static tsr_status refuse(const machine *m)
{
  return tsr_fail(TSR_ERR_UNSUPPORTED,
                  "%s: pickle: opcode %s (0x%02x) at byte %zu is refused: a file of weights needs none such", m->path,
                  opcode_name(m), m->bytes[m->start], m->start);
}

static tsr_status step(machine *m)
{
  switch (m->bytes[m->start]) {
  case 0x80: /* PROTO */
    return read_protocol(m);
  case 0x95: /* FRAME */
    return read_frame(m);
  case '(': /* MARK */
    return push(m, (value){.kind = KIND_MARK});
  case 'N': /* NONE */
    return push(m, (value){.kind = KIND_NONE});
  case 0x88: /* NEWTRUE */
  case 0x89: /* NEWFALSE */
    return push_integer(m, KIND_BOOL, m->bytes[m->start] == 0x88);
  case 'K': /* BININT1 */
    return read_small(m, 1);
  case 'M': /* BININT2 */
    return read_small(m, 2);
  case 'J': /* BININT */
    return read_integer(m, 4);
  case 0x8a: /* LONG1 */
    return read_long(m, 1);
  case 0x8b: /* LONG4 */
    return read_long(m, 4);
  case 'G': /* BINFLOAT */
    return read_float(m);
  case 'U':  /* SHORT_BINSTRING: a text of Python 2 */
  case 0x8c: /* SHORT_BINUNICODE */
    return read_text(m, 1);
  case 'T': /* BINSTRING */
  case 'X': /* BINUNICODE */
    return read_text(m, 4);
  case 0x8d: /* BINUNICODE8 */
    return read_text(m, 8);
  case ')': /* EMPTY_TUPLE */
    return make_tuple(m, 0);
  case 0x85: /* TUPLE1 */
  case 0x86: /* TUPLE2 */
  case 0x87: /* TUPLE3 */
    return make_tuple(m, m->bytes[m->start] - 0x84);
  case 't': /* TUPLE */
    return make_marked_tuple(m);
  case ']': /* EMPTY_LIST */
    return push(m, (value){.kind = KIND_LIST});
  case 'a': /* APPEND */
  case 'e': /* APPENDS */
    return append(m, m->bytes[m->start] == 'e');
  case '}': /* EMPTY_DICT */
    return push(m, (value){.kind = KIND_DICT});
  case 'd': /* DICT */
    return make_marked_dict(m);
  case 's': /* SETITEM */
    return set_item(m);
  case 'u': /* SETITEMS */
    return set_items(m);
  case 'q': /* BINPUT */
    return with_place(m, 1, put);
  case 'r': /* LONG_BINPUT */
    return with_place(m, 4, put);
  case 0x94: /* MEMOIZE */
    return put(m, m->memo.n);
  case 'h': /* BINGET */
    return with_place(m, 1, get);
  case 'j': /* LONG_BINGET */
    return with_place(m, 4, get);
  case 'c': /* GLOBAL */
    return read_global(m);
  case 0x93: /* STACK_GLOBAL */
    return read_stack_global(m);
  case 'Q': /* BINPERSID */
    return read_storage(m);
  case 'R': /* REDUCE */
    return call(m);
  case 'b': /* BUILD */
    return build(m);
  default:
    return refuse(m);
  }
}

/* Runs up to STOP, and gives what is left: the state dict. */
static tsr_status run(machine *m, uint32_t *result)
{
  for (;;) {
    if (m->at >= m->size) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: pickle: its %zu bytes end without the opcode STOP", m->path, m->size);
    }
    m->start = m->at++;
    if (m->bytes[m->start] == '.') {
      break;
    }
    TSR_TRY(step(m));
  }
  TSR_TRY(pop(m, result));
  if (m->stack.n != 0) {
    return fail_broken(m, "more than one value is left");
  }
  return TSR_OK;
}

/* ---- the state dict ---------------------------------------------------------------------------------------------- */

static tsr_status copy_text(machine *m, const value *from, const char **text)
{
  /* A text of the memo can be meant again and again; an honest pickle's names take less than the pickle. */
  m->copied += from->count;
  if (m->copied > m->size) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: pickle: its names take more bytes than the pickle has", m->path);
  }
  char *copy = tsr_arena_take(m->arena, (size_t)from->count + 1);
  if (!copy) {
    return tsr_fail_memory((size_t)from->count + 1);
  }
  memcpy(copy, from->as.text, from->count);
  *text = copy;
  if (memchr(copy, 0, from->count) || !tsr_utf8_is_valid(copy, from->count)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: pickle: the name %s is not UTF-8", m->path, tsr_quote(copy).text);
  }
  return TSR_OK;
}

static tsr_status copy_sizes(machine *m, const value *tuple, const int64_t **sizes)
{
  int64_t *copy = tsr_arena_take(m->arena, ((size_t)tuple->count + 1) * sizeof *copy);
  if (!copy) {
    return tsr_fail_memory(((size_t)tuple->count + 1) * sizeof *copy);
  }
  for (uint32_t i = 0; i < tuple->count; i++) {
    copy[i] = m->values[tuple->as.items[i]].as.integer;
  }
  *sizes = copy;
  return TSR_OK;
}

static tsr_status read_tensor(machine *m, const pair *from, tsr_pickle_tensor *tensor)
{
  if (m->values[from->key].kind != KIND_TEXT) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: pickle: expected a state dict, whose keys are texts; found %s as a key",
                    m->path, kind_names[m->values[from->key].kind]);
  }
  TSR_TRY(copy_text(m, &m->values[from->key], &tensor->name));
  const value *content = &m->values[from->value];
  if (content->kind != KIND_TENSOR) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: pickle: key %s: expected a tensor, found %s", m->path,
                    tsr_quote(tensor->name).text, kind_names[content->kind]);
  }
  uint32_t arguments = content->as.tuple;
  uint32_t storage = item(m, arguments, 0, KIND_STORAGE)->as.tuple;
  tensor->type = tsr_pickle_storage(item(m, storage, 1, KIND_GLOBAL)->as.which);
  tensor->elements = (uint64_t)item(m, storage, 4, KIND_INTEGER)->as.integer;
  tensor->offset = (uint64_t)item(m, arguments, 1, KIND_INTEGER)->as.integer;
  const value *extents = item(m, arguments, 2, KIND_TUPLE);
  tensor->rank = (int32_t)extents->count;
  TSR_TRY(copy_sizes(m, extents, &tensor->extents));
  TSR_TRY(copy_sizes(m, item(m, arguments, 3, KIND_TUPLE), &tensor->strides));
  return copy_text(m, item(m, storage, 2, KIND_TEXT), &tensor->key);
}

static int compare_names(const void *a, const void *b)
{
  return strcmp((*(const tsr_pickle_tensor *const *)a)->name, (*(const tsr_pickle_tensor *const *)b)->name);
}

/* A name that occurs twice says that two readers may see two models. */
static tsr_status check_names(const machine *m, const tsr_pickle_tensor *tensors, size_t n)
{
  const tsr_pickle_tensor **order = malloc((n + 1) * sizeof *order);
  if (!order) {
    return tsr_fail_memory((n + 1) * sizeof *order);
  }
  for (size_t i = 0; i < n; i++) {
    order[i] = &tensors[i];
  }
  qsort(order, n, sizeof *order, compare_names);
  tsr_status status = TSR_OK;
  for (size_t i = 1; i < n && status == TSR_OK; i++) {
    if (strcmp(order[i - 1]->name, order[i]->name) == 0) {
      status =
          tsr_fail(TSR_ERR_FORMAT, "%s: pickle: the tensor %s is there twice", m->path, tsr_quote(order[i]->name).text);
    }
  }
  free(order);
  return status;
}

static tsr_status read_state_dict(machine *m, tsr_pickle_tensor **tensors, size_t *n_tensors)
{
  uint32_t dict = 0;
  TSR_TRY(run(m, &dict));
  if (m->values[dict].kind != KIND_DICT) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: pickle: expected a state dict, found %s", m->path,
                    kind_names[m->values[dict].kind]);
  }
  size_t n = 0;
  for (size_t i = 0; i < m->n_pairs; i++) {
    n += m->pairs[i].dict == dict;
  }
  tsr_pickle_tensor *list = tsr_arena_take(m->arena, (n + 1) * sizeof *list);
  if (!list) {
    return tsr_fail_memory((n + 1) * sizeof *list);
  }
  n = 0;
  for (size_t i = 0; i < m->n_pairs; i++) {
    if (m->pairs[i].dict == dict) {
      TSR_TRY(read_tensor(m, &m->pairs[i], &list[n++]));
    }
  }
  *tensors = list;
  *n_tensors = n;
  return check_names(m, list, n);
}

tsr_status tsr_pickle_read(const char *path, const unsigned char *bytes, size_t size, tsr_arena *arena,
                           tsr_pickle_tensor **tensors, size_t *n_tensors)
{
  if (size > MAX_SIZE) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: pickle: %zu bytes are more than the %d that a state dict may take", path,
                    size, (int)MAX_SIZE);
  }
  machine m = {.path = path, .bytes = bytes, .size = size, .arena = arena};
  tsr_status status = read_state_dict(&m, tensors, n_tensors);
  free(m.values);
  free(m.stack.items);
  free(m.memo.items);
  free(m.pairs);
  return status;
}
