/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/programs/operators.h"

#include "tessera/ops.h"
#include "tessera/tensor.h"

static const char *const classes[] = {
    [TSR_CLASS_EXACT] = "exact",
    [TSR_CLASS_ELEMENTWISE] = "elementwise",
    [TSR_CLASS_PRODUCT] = "product",
    [TSR_CLASS_NORM] = "norm",
};

static void print_slots(FILE *out, const char *title, const tsr_slot_info *slots)
{
  fprintf(out, "    %-4s", title);
  for (const tsr_slot_info *slot = slots; slot->name; slot++) {
    fprintf(out, "%s%s%s", slot == slots ? "" : "; ", slot->name, slot->optional ? "?" : "");
    for (tsr_dtype dtype = TSR_F32; dtype <= TSR_I32; dtype++) {
      if (slot->dtypes >> dtype & 1) {
        fprintf(out, " %s", tsr_dtype_name(dtype));
      }
    }
  }
  fputc('\n', out);
}

void tsr_operators_print(FILE *out)
{
  fputs("Each operator with its formula, operands (? may be absent) and results with their types, and the\n"
        "class of its tolerance. tessera/ops.h says what each means in full.\n",
        out);
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    const tsr_op_info *info = tsr_op_describe(op);
    fprintf(out, "\n%s: %s%s\n    %s\n", info->name, classes[info->tolerance],
            tsr_op_differentiable(op) ? ", with a gradient" : "", info->formula);
    print_slots(out, "in", info->in);
    print_slots(out, "out", info->out);
  }
}

static json_t *slots_json(const tsr_slot_info *slots)
{
  json_t *list = json_array();
  for (const tsr_slot_info *slot = slots; slot->name; slot++) {
    json_t *types = json_array();
    for (tsr_dtype dtype = TSR_F32; dtype <= TSR_I32; dtype++) {
      if (slot->dtypes >> dtype & 1) {
        json_array_append_new(types, json_string(tsr_dtype_name(dtype)));
      }
    }
    json_array_append_new(list,
                          json_pack("{s:s, s:o, s:b}", "name", slot->name, "types", types, "optional", slot->optional));
  }
  return list;
}

json_t *tsr_operators_json(void)
{
  json_t *list = json_array();
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    const tsr_op_info *info = tsr_op_describe(op);
    json_t *one = json_pack("{s:s, s:s, s:o, s:o, s:s, s:b}", "name", info->name, "formula", info->formula, "operands",
                            slots_json(info->in), "results", slots_json(info->out), "class", classes[info->tolerance],
                            "differentiable", tsr_op_differentiable(op));
    if (json_array_append_new(list, one) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}
