/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads of a shader's SPIR-V what the card limits: the size of a workgroup and its shared memory, with the constants
 * that a pipeline specialises; capabilities; how floats behave.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/card/card.h"

/* Of SPIR-V's numbers those that are needed. */
enum {
  OP_EXECUTION_MODE = 16,
  OP_CAPABILITY = 17,
  OP_TYPE_BOOL = 20,
  OP_TYPE_INT = 21,
  OP_TYPE_FLOAT = 22,
  OP_TYPE_VECTOR = 23,
  OP_TYPE_MATRIX = 24,
  OP_TYPE_ARRAY = 28,
  OP_TYPE_STRUCT = 30,
  OP_TYPE_POINTER = 32,
  OP_CONSTANT_TRUE = 41,
  OP_CONSTANT_FALSE = 42,
  OP_CONSTANT = 43,
  OP_CONSTANT_COMPOSITE = 44,
  OP_SPEC_CONSTANT_TRUE = 48,
  OP_SPEC_CONSTANT_FALSE = 49,
  OP_SPEC_CONSTANT = 50,
  OP_SPEC_CONSTANT_COMPOSITE = 51,
  OP_SPEC_CONSTANT_OP = 52,
  OP_VARIABLE = 59,
  OP_DECORATE = 71,
  OP_EXECUTION_MODE_ID = 331,
  DECORATION_SPEC_ID = 1,
  DECORATION_BUILT_IN = 11,
  BUILT_IN_WORKGROUP_SIZE = 25,
  MODE_LOCAL_SIZE = 17,
  MODE_LOCAL_SIZE_ID = 38,
  MODE_SIGNED_ZERO_INF_NAN_PRESERVE = 4461,
  STORAGE_WORKGROUP = 4,
};

typedef struct id_info {
  const uint32_t *defined; /* the instruction; NULL: not of those above */
  int64_t value;           /* of a constant */
  uint32_t spec_id;        /* + 1; 0: none */
} id_info;

static uint32_t op_of(const uint32_t *instruction)
{
  return instruction ? instruction[0] & 0xffff : 0;
}

static uint32_t length_of(const uint32_t *instruction)
{
  return instruction[0] >> 16;
}

static uint64_t round_up(uint64_t value, uint64_t alignment)
{
  return (value + alignment - 1) / alignment * alignment;
}

/* Bytes of a type in shared memory, members at multiples of their own alignment. */
static uint64_t bytes_of(const id_info *ids, uint32_t type, uint64_t *alignment)
{
  const uint32_t *t = ids[type].defined;
  uint64_t element = 0;
  *alignment = 4;
  switch (op_of(t)) {
  case OP_TYPE_INT:
  case OP_TYPE_FLOAT:
    *alignment = t[2] / 8;
    return t[2] / 8;
  case OP_TYPE_VECTOR:
  case OP_TYPE_MATRIX:
    element = bytes_of(ids, t[2], alignment);
    return element * t[3];
  case OP_TYPE_ARRAY:
    element = bytes_of(ids, t[2], alignment);
    return round_up(element, *alignment) * (uint64_t)ids[t[3]].value;
  case OP_TYPE_STRUCT: {
    uint64_t size = 0, widest = 1;
    for (uint32_t i = 2; i < length_of(t); i++) {
      uint64_t own;
      element = bytes_of(ids, t[i], &own);
      size = round_up(size, own) + element;
      widest = own > widest ? own : widest;
    }
    *alignment = widest;
    return round_up(size, widest);
  }
  default:
    return 4; /* a bool, a pointer */
  }
}

/* What OpSpecConstantOp makes of its operands; unsigned, as sizes are. */
static int64_t fold(const id_info *ids, const uint32_t *instruction)
{
  const uint32_t n = length_of(instruction);
  const uint32_t a = n > 4 && instruction[3] != 81 ? (uint32_t)ids[instruction[4]].value : 0;
  const uint32_t b = n > 5 && instruction[3] != 81 ? (uint32_t)ids[instruction[5]].value : 0;
  switch (instruction[3]) {
  case 81: /* CompositeExtract */
    if (n > 5 && ids[instruction[4]].defined && instruction[5] + 3 < length_of(ids[instruction[4]].defined)) {
      return ids[ids[instruction[4]].defined[3 + instruction[5]]].value;
    }
    return 0;
  case 113: /* UConvert */
  case 114:
  case 124:
    return a;
  case 128:
    return (uint32_t)(a + b);
  case 130:
    return (uint32_t)(a - b);
  case 132:
    return (uint32_t)(a * b);
  case 134:
  case 135:
    return b != 0 ? a / b : 0;
  case 137:
  case 138:
  case 139:
    return b != 0 ? a % b : 0;
  case 164: /* LogicalEqual */
  case 170:
    return a == b;
  case 165:
  case 171:
    return a != b;
  case 166:
    return a || b;
  case 167:
    return a && b;
  case 168:
    return !a;
  case 169: /* Select */
    return a ? (int64_t)b : n > 6 ? ids[instruction[6]].value : 0;
  case 172:
    return a > b;
  case 174:
    return a >= b;
  case 176:
    return a < b;
  case 178:
    return a <= b;
  case 173:
    return (int32_t)a > (int32_t)b;
  case 175:
    return (int32_t)a >= (int32_t)b;
  case 177:
    return (int32_t)a < (int32_t)b;
  case 179:
    return (int32_t)a <= (int32_t)b;
  case 194:
  case 195:
    return b < 32 ? a >> b : 0;
  case 196:
    return b < 32 ? (uint32_t)(a << b) : 0;
  case 197:
    return a | b;
  case 198:
    return a ^ b;
  case 199:
    return a & b;
  case 200:
    return (uint32_t)~a;
  default:
    card_breach("the layer does not know the operation %u of a specialisation constant (module.c)", instruction[3]);
  }
}

static int64_t specialised(const VkSpecializationInfo *specialization, uint32_t spec_id, int64_t otherwise)
{
  for (uint32_t i = 0; specialization && spec_id > 0 && i < specialization->mapEntryCount; i++) {
    const VkSpecializationMapEntry *entry = &specialization->pMapEntries[i];
    if (entry->constantID == spec_id - 1 && entry->size == sizeof(uint32_t)) {
      uint32_t value;
      memcpy(&value, (const char *)specialization->pData + entry->offset, sizeof(value));
      return value;
    }
  }
  return otherwise;
}

static void read_mode(const id_info *ids, const uint32_t *w, card_needs *needs)
{
  const uint32_t mode = w[2];
  if (mode == MODE_SIGNED_ZERO_INF_NAN_PRESERVE && w[3] <= 64) {
    needs->preserves[w[3]] = 1;
  }
  for (int i = 0; i < 3; i++) {
    if (mode == MODE_LOCAL_SIZE) {
      needs->size[i] = w[3 + i];
    } else if (mode == MODE_LOCAL_SIZE_ID) {
      needs->size[i] = (uint32_t)ids[w[3 + i]].value;
    }
  }
}

/* Constants, whose operands are always defined before them. */
static void read_constant(id_info *ids, const uint32_t *w, const VkSpecializationInfo *specialization)
{
  id_info *id = &ids[w[2]];
  switch (op_of(w)) {
  case OP_CONSTANT:
    id->value = w[3];
    break;
  case OP_SPEC_CONSTANT:
    id->value = specialised(specialization, id->spec_id, w[3]);
    break;
  case OP_CONSTANT_TRUE:
    id->value = 1;
    break;
  case OP_SPEC_CONSTANT_TRUE:
  case OP_SPEC_CONSTANT_FALSE:
    id->value = specialised(specialization, id->spec_id, op_of(w) == OP_SPEC_CONSTANT_TRUE);
    break;
  case OP_SPEC_CONSTANT_OP:
    id->value = fold(ids, w);
    break;
  default:
    break;
  }
}

/* One instruction; `size_id` is the constant that is the size of a workgroup, where the shader has one. */
static void read_instruction(id_info *ids, const uint32_t *w, const VkSpecializationInfo *specialization,
                             uint32_t *size_id, card_needs *needs)
{
  const uint32_t op = op_of(w);
  uint64_t alignment;
  if (op == OP_CAPABILITY && needs->n_capabilities < 64) {
    needs->capabilities[needs->n_capabilities++] = w[1];
  } else if (op == OP_DECORATE && w[2] == DECORATION_SPEC_ID) {
    ids[w[1]].spec_id = w[3] + 1;
  } else if (op == OP_DECORATE && w[2] == DECORATION_BUILT_IN && w[3] == BUILT_IN_WORKGROUP_SIZE) {
    *size_id = w[1];
  } else if (op >= OP_TYPE_BOOL && op <= OP_TYPE_POINTER) {
    ids[w[1]].defined = w;
  } else if (op >= OP_CONSTANT_TRUE && op <= OP_SPEC_CONSTANT_OP) {
    ids[w[2]].defined = w;
    read_constant(ids, w, specialization);
  } else if (op == OP_VARIABLE && w[3] == STORAGE_WORKGROUP) {
    const uint32_t *pointer = ids[w[1]].defined;
    const uint64_t bytes = bytes_of(ids, pointer[3], &alignment);
    needs->shared_bytes = round_up(needs->shared_bytes, alignment) + bytes;
  }
}

void card_module_needs(const card_module *module, const VkSpecializationInfo *specialization, card_needs *needs)
{
  memset(needs, 0, sizeof(*needs));
  for (int i = 0; i < 3; i++) {
    needs->size[i] = 1;
  }
  if (module->n_words < 5 || module->words[0] != 0x07230203) {
    card_breach("a shader is no SPIR-V");
  }
  const uint32_t *end = module->words + module->n_words;
  id_info *ids = calloc(module->words[3], sizeof(*ids));
  if (!ids) {
    card_breach("no memory for the layer's own tables");
  }
  uint32_t size_id = 0;
  for (const uint32_t *w = module->words + 5; w < end && length_of(w) > 0; w += length_of(w)) {
    read_instruction(ids, w, specialization, &size_id, needs);
  }
  for (const uint32_t *w = module->words + 5; w < end && length_of(w) > 0; w += length_of(w)) {
    if (op_of(w) == OP_EXECUTION_MODE || op_of(w) == OP_EXECUTION_MODE_ID) {
      read_mode(ids, w, needs);
    }
  }
  const uint32_t *composite = ids[size_id].defined;
  for (int i = 0; size_id > 0 && composite && i < 3; i++) {
    needs->size[i] = (uint32_t)ids[composite[3 + i]].value;
  }
  free(ids);
}
