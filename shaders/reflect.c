/* SPDX-License-Identifier: Apache-2.0
 *
 * Of SPIR-V only what push constants and specialisation constants are made of is read; other types have size 0. All
 * members of push constants are of four bytes, or vectors and arrays of these, so C lays them out one right behind the
 * other.
 */
#include "reflect.h"

#include "contract/contract.h"

#include <stdlib.h>

enum { MAGIC = 0x07230203, HEADER_WORDS = 5 };

/* The numbers of the SPIR-V specification */
enum {
  OP_TYPE_INT = 21,
  OP_TYPE_FLOAT = 22,
  OP_TYPE_VECTOR = 23,
  OP_TYPE_ARRAY = 28,
  OP_TYPE_STRUCT = 30,
  OP_TYPE_POINTER = 32,
  OP_CONSTANT = 43,
  OP_DECORATE = 71,
  OP_MEMBER_DECORATE = 72,
  DECORATION_SPEC_ID = 1,
  DECORATION_ARRAY_STRIDE = 6,
  DECORATION_OFFSET = 35,
  STORAGE_PUSH_CONSTANT = 9
};

/* What is known of an id. */
typedef struct object {
  uint32_t bytes;        /* of a type that members of push constants have */
  uint32_t value;        /* of a constant */
  uint32_t array_stride; /* of an array */
  size_t members;        /* of a struct: where its instruction stands */
} object;

typedef struct module {
  const uint32_t *words;
  size_t n;
  object *objects;
  uint32_t bound; /* ids are below it */
} module;

/* The object of the id in word i of the instruction at `at`; NULL: there is none. */
static object *object_at(const module *m, size_t at, uint32_t i)
{
  const uint32_t length = m->words[at] >> 16;
  return i < length && m->words[at + i] < m->bound ? &m->objects[m->words[at + i]] : NULL;
}

/* The offset of member `member` of the struct `id`; UINT32_MAX: it has none. */
static uint32_t offset_of(const module *m, uint32_t id, uint32_t member)
{
  for (size_t at = HEADER_WORDS; at < m->n; at += m->words[at] >> 16) {
    const uint32_t *word = &m->words[at];
    if (word[0] == (5u << 16 | OP_MEMBER_DECORATE) && word[1] == id && word[2] == member &&
        word[3] == DECORATION_OFFSET) {
      return word[4];
    }
  }
  return UINT32_MAX;
}

static const char *read_push(const module *m, size_t at, shader_contract *result)
{
  const object *type = object_at(m, at, 3);
  if (type == NULL || type->members == 0) {
    return "push constants that are no block";
  }
  const uint32_t n = (m->words[type->members] >> 16) - 2;
  result->push_bytes = 0;
  for (uint32_t i = 0; i < n; i++) {
    const object *member = object_at(m, type->members, 2 + i);
    if (member == NULL || member->bytes == 0) {
      return "a push constant of a type that the contract does not have (shaders/contract/contract.h)";
    }
    if (offset_of(m, m->words[type->members + 1], i) != result->push_bytes) {
      return "a push constant that lies elsewhere than in C: a uvec4 behind members that do not fill 16 bytes?";
    }
    result->push_bytes += member->bytes;
  }
  return NULL;
}

/* Takes in one instruction, whose operands come before it in a module. */
static const char *read_instruction(const module *m, size_t at, shader_contract *result)
{
  const uint32_t *word = &m->words[at];
  const uint32_t op = word[0] & 0xffff, length = word[0] >> 16;
  object *made = object_at(m, at, op == OP_CONSTANT ? 2 : 1);
  const object *element = object_at(m, at, 2);
  if (made == NULL || length < 3) {
    return NULL;
  }
  switch (op) {
  case OP_TYPE_INT:
  case OP_TYPE_FLOAT:
    made->bytes = word[2] == 32 ? 4 : 0;
    break;
  case OP_TYPE_VECTOR:
    made->bytes = element != NULL && length > 3 ? element->bytes * word[3] : 0;
    break;
  case OP_TYPE_ARRAY: {
    const object *count = object_at(m, at, 3);
    const int is_dense = element != NULL && count != NULL && made->array_stride == element->bytes;
    made->bytes = is_dense ? element->bytes * count->value : 0;
    break;
  }
  case OP_TYPE_STRUCT:
    made->members = at;
    break;
  case OP_CONSTANT:
    made->value = length == 4 ? word[3] : 0;
    break;
  case OP_DECORATE:
    if (word[2] == DECORATION_ARRAY_STRIDE && length > 3) {
      made->array_stride = word[3];
    }
    if (word[2] == DECORATION_SPEC_ID && length > 3) {
      if (word[3] >= TSR_VK_MAX_SPEC) {
        return "a specialisation constant whose id is beyond those that there are";
      }
      result->constants |= 1u << word[3];
    }
    break;
  case OP_TYPE_POINTER:
    if (word[2] == STORAGE_PUSH_CONSTANT && object_at(m, at, 3) != NULL && object_at(m, at, 3)->members != 0) {
      return read_push(m, at, result);
    }
    break;
  default:
    break;
  }
  return NULL;
}

const char *shader_reflect(const uint32_t *words, size_t n, shader_contract *result)
{
  *result = (shader_contract){0};
  if (n < HEADER_WORDS || words[0] != MAGIC || words[3] > n) {
    return "not a SPIR-V module";
  }
  module m = {.words = words, .n = n, .bound = words[3]};
  for (size_t at = HEADER_WORDS; at < n; at += words[at] >> 16) {
    if (words[at] >> 16 == 0 || words[at] >> 16 > n - at) {
      return "a SPIR-V module that is cut off";
    }
  }
  m.objects = calloc(m.bound + 1u, sizeof *m.objects);
  if (m.objects == NULL) {
    return "too large for the memory that there is";
  }
  const char *wrong = NULL;
  for (size_t at = HEADER_WORDS; at < n && wrong == NULL; at += words[at] >> 16) {
    wrong = read_instruction(&m, at, result);
  }
  free(m.objects);
  return wrong;
}
