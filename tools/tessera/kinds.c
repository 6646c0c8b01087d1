/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/kinds.h"

#include <string.h>

static const char *const names[] = {
    [TSR_PROGRAM_ENCODE] = "encode",
    [TSR_PROGRAM_DECODE] = "decode",
    [TSR_PROGRAM_GREEDY] = "greedy",
    [TSR_PROGRAM_BEAM] = "beam",
};

tsr_cli_kinds tsr_cli_kinds_default(void)
{
  return (tsr_cli_kinds){.size = {.batch = 2, .source = 7, .target = 9, .beam = 3}};
}

const char *tsr_cli_kind_name(int32_t kind)
{
  return kind >= TSR_PROGRAM_ENCODE && kind <= TSR_PROGRAM_BEAM ? names[kind] : "?";
}

static int choose(const char *command, const char *value, tsr_cli_kinds *kinds)
{
  for (int32_t kind = TSR_PROGRAM_ENCODE; kind <= TSR_PROGRAM_BEAM; kind++) {
    if (strcmp(value, names[kind]) == 0) {
      kinds->chosen |= 1u << kind;
      return TSR_EXIT_OK;
    }
  }
  return tsr_cli_usage(command, "--kind: '%s' is none of encode, decode, greedy, beam", value);
}

int tsr_cli_kinds_option(const char *command, int option, const char *value, tsr_cli_kinds *kinds, int *taken)
{
  *taken = 1;
  switch (option) {
  case 'K':
    return choose(command, value, kinds);
  case 'B':
    return tsr_cli_int32(command, "--batch", value, 1, 1 << 16, &kinds->size.batch);
  case 'S':
    return tsr_cli_int32(command, "--source", value, 1, 1 << 20, &kinds->size.source);
  case 'L':
    return tsr_cli_int32(command, "--target", value, 1, 1 << 20, &kinds->size.target);
  case 'N':
    return tsr_cli_int32(command, "--beam", value, 1, 512, &kinds->size.beam);
  default:
    *taken = 0;
    return TSR_EXIT_OK;
  }
}

int32_t tsr_cli_kinds_next(const tsr_cli_kinds *kinds, const tsr_model *model, int32_t kind)
{
  for (kind++; kind <= TSR_PROGRAM_BEAM; kind++) {
    if (kinds->chosen & (1u << kind)) {
      return kind;
    }
    if (kinds->chosen == 0 && (kind == TSR_PROGRAM_ENCODE || tsr_model_config(model)->decoder_layers > 0)) {
      return kind;
    }
  }
  return 0;
}
