/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/pickle_names.h"

#include <string.h>

static const struct {
  const char *module;
  const char *name;
  tsr_pickle_global which;
} globals[] = {
    {"collections", "OrderedDict", TSR_PICKLE_ORDERED_DICT},
    {"torch._utils", "_rebuild_tensor", TSR_PICKLE_TENSOR},
    {"torch._utils", "_rebuild_tensor_v2", TSR_PICKLE_TENSOR},
    {"torch._utils", "_rebuild_parameter", TSR_PICKLE_PARAMETER},
};

/* Classes of the module torch. */
static const tsr_pickle_type storages[] = {
    {"FloatStorage", "F32", 4, TSR_F32}, {"HalfStorage", "F16", 2, TSR_F16},   {"BFloat16Storage", "BF16", 2, TSR_BF16},
    {"CharStorage", "I8", 1, TSR_I8},    {"IntStorage", "I32", 4, TSR_I32},    {"DoubleStorage", "F64", 8, 0},
    {"LongStorage", "I64", 8, 0},        {"ShortStorage", "I16", 2, 0},        {"ByteStorage", "U8", 1, 0},
    {"BoolStorage", "BOOL", 1, 0},       {"ComplexFloatStorage", "C64", 8, 0},
};

enum { N_GLOBALS = sizeof globals / sizeof globals[0], N_STORAGES = sizeof storages / sizeof storages[0] };

static int is_text(const char *text, size_t size, const char *wanted)
{
  return size == strlen(wanted) && memcmp(text, wanted, size) == 0;
}

tsr_pickle_global tsr_pickle_global_find(const char *module, size_t module_size, const char *name, size_t name_size)
{
  for (int i = 0; i < N_GLOBALS; i++) {
    if (is_text(module, module_size, globals[i].module) && is_text(name, name_size, globals[i].name)) {
      return globals[i].which;
    }
  }
  for (int i = 0; i < N_STORAGES; i++) {
    if (is_text(module, module_size, "torch") && is_text(name, name_size, storages[i].storage)) {
      return (tsr_pickle_global)(TSR_PICKLE_STORAGES + i);
    }
  }
  return TSR_PICKLE_NO_GLOBAL;
}

const tsr_pickle_type *tsr_pickle_storage(tsr_pickle_global which)
{
  int index = (int)which - (int)TSR_PICKLE_STORAGES;
  return index >= 0 && index < N_STORAGES ? &storages[index] : NULL;
}

const char *tsr_pickle_opcode_name(unsigned char opcode)
{
  static const struct {
    unsigned char opcode;
    const char *name;
  } names[] = {
      {'I', "INT"},
      {'J', "BININT"},
      {'K', "BININT1"},
      {'M', "BININT2"},
      {'L', "LONG"},
      {0x8a, "LONG1"},
      {0x8b, "LONG4"},
      {'S', "STRING"},
      {'T', "BINSTRING"},
      {'U', "SHORT_BINSTRING"},
      {'B', "BINBYTES"},
      {'C', "SHORT_BINBYTES"},
      {0x8e, "BINBYTES8"},
      {0x96, "BYTEARRAY8"},
      {0x97, "NEXT_BUFFER"},
      {0x98, "READONLY_BUFFER"},
      {'N', "NONE"},
      {0x88, "NEWTRUE"},
      {0x89, "NEWFALSE"},
      {'V', "UNICODE"},
      {0x8c, "SHORT_BINUNICODE"},
      {'X', "BINUNICODE"},
      {0x8d, "BINUNICODE8"},
      {'F', "FLOAT"},
      {'G', "BINFLOAT"},
      {']', "EMPTY_LIST"},
      {'a', "APPEND"},
      {'e', "APPENDS"},
      {'l', "LIST"},
      {')', "EMPTY_TUPLE"},
      {'t', "TUPLE"},
      {0x85, "TUPLE1"},
      {0x86, "TUPLE2"},
      {0x87, "TUPLE3"},
      {'}', "EMPTY_DICT"},
      {'d', "DICT"},
      {'s', "SETITEM"},
      {'u', "SETITEMS"},
      {0x8f, "EMPTY_SET"},
      {0x90, "ADDITEMS"},
      {0x91, "FROZENSET"},
      {'0', "POP"},
      {'2', "DUP"},
      {'(', "MARK"},
      {'1', "POP_MARK"},
      {'g', "GET"},
      {'h', "BINGET"},
      {'j', "LONG_BINGET"},
      {'p', "PUT"},
      {'q', "BINPUT"},
      {'r', "LONG_BINPUT"},
      {0x94, "MEMOIZE"},
      {0x82, "EXT1"},
      {0x83, "EXT2"},
      {0x84, "EXT4"},
      {'c', "GLOBAL"},
      {0x93, "STACK_GLOBAL"},
      {'R', "REDUCE"},
      {'b', "BUILD"},
      {'i', "INST"},
      {'o', "OBJ"},
      {0x81, "NEWOBJ"},
      {0x92, "NEWOBJ_EX"},
      {0x80, "PROTO"},
      {'.', "STOP"},
      {0x95, "FRAME"},
      {'P', "PERSID"},
      {'Q', "BINPERSID"},
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (names[i].opcode == opcode) {
      return names[i].name;
    }
  }
  return "unknown";
}
