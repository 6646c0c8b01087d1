/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/programs/kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/random/random.h"
#include "tools/tessera/options/options.h"

static const char *const names[] = {
    [TSR_PROGRAM_ENCODE] = "encode", [TSR_PROGRAM_DECODE] = "decode", [TSR_PROGRAM_GREEDY] = "greedy",
    [TSR_PROGRAM_BEAM] = "beam",     [TSR_PROGRAM_SCORE] = "score",
};

const char *tsr_cli_kind_name(int32_t kind)
{
  return kind >= TSR_PROGRAM_ENCODE && kind <= TSR_PROGRAM_SCORE ? names[kind] : "?";
}

#define FIELD(member) TSR_FIELD(tsr_cli_kinds, member)

static const tsr_option rows[] = {
    {"batch", "B", TSR_OPTION_INTEGER, FIELD(size.batch), 1, 1 << 16, .help = "sentences", .preset = "2"},
    {"source", "S", TSR_OPTION_INTEGER, FIELD(size.source), 1, 1 << 20,
     .help = "tokens of a source; a model of speech has windows of its own length", .preset = "7"},
    {"target", "L", TSR_OPTION_INTEGER, FIELD(size.target), 1, 1 << 20,
     .help = "tokens of a target, and positions of the cache", .preset = "9"},
    {"beam", "N", TSR_OPTION_INTEGER, FIELD(size.beam), 1, 512,
     .help = "hypotheses of a sentence, in the program of beam search", .preset = "3"},
    {"precision", "P", TSR_OPTION_PRECISION, FIELD(weights), .help = "keep matrices as f32, f16, bf16, int8 or int4",
     .otherwise = "as stored"},
    {NULL},
};

const tsr_option_table tsr_cli_kind_options = {.rows = rows};

int32_t tsr_cli_kinds_next(const tsr_cli_kinds *kinds, const tsr_model *model, int32_t kind)
{
  for (kind++; kind <= TSR_PROGRAM_SCORE; kind++) {
    if (kinds->chosen & (1u << kind)) {
      return kind;
    }
    const tsr_transformer_config *config = tsr_model_config(model);
    int32_t layers = kind == TSR_PROGRAM_ENCODE ? config->encoder_layers : config->decoder_layers;
    if (kinds->chosen == 0 && layers > 0) {
      return kind;
    }
  }
  return 0;
}

/* ---- running a program ------------------------------------------------------------------------------------------- */

/* What an input or state of that name holds, valid for the program: ids of the vocabulary, lengths that fit, .. */
static tsr_status fill(const tsr_transformer_config *config, const tsr_program_size *size, const char *name,
                       tsr_dtype dtype, int64_t elements, uint64_t *random, void *out)
{
  int32_t *ids = out;
  float *values = out;
  const int32_t source = config->mels > 0 ? config->source_positions : size->source;
  tsr_status status = TSR_OK;
  for (int64_t i = 0; i < elements && status == TSR_OK; i++) {
    if (strcmp(name, "source") == 0) {
      ids[i] = tsr_random_below(random, config->source_vocabulary);
    } else if (strcmp(name, "source_lengths") == 0) {
      ids[i] = i == 0 ? source : 1 + tsr_random_below(random, source);
    } else if (strcmp(name, "target") == 0 || strcmp(name, "token") == 0 || strcmp(name, "labels") == 0) {
      ids[i] = tsr_random_below(random, config->target_vocabulary);
    } else if (strcmp(name, "position") == 0) {
      ids[i] = size->target / 2;
    } else if (strcmp(name, "rows") == 0) {
      /* The hypothesis itself where the step writes, any of its sentence's before. */
      int32_t row = (int32_t)(i / size->target);
      int32_t own = (int32_t)(i % size->target) >= size->target / 2;
      ids[i] = own ? row : row / size->beam * size->beam + tsr_random_below(random, size->beam);
    } else if (strcmp(name, "suppress") == 0) {
      values[i] = tsr_random_below(random, 64) == 0 ? -INFINITY : 0.0f;
    } else if (dtype == TSR_F32) {
      values[i] = (float)tsr_random_real(random);
    } else if (dtype == TSR_F16 || dtype == TSR_BF16) {
      const float value = (float)tsr_random_real(random);
      status = tsr_convert(TSR_F32, &value, dtype, (uint16_t *)out + i, 1);
    } else if (dtype == TSR_I32) {
      ids[i] = 0;
    } else {
      status =
          tsr_fail(TSR_ERR_INTERNAL, "nothing is known to fill '%s' with, which is %s", name, tsr_dtype_name(dtype));
    }
  }
  return status;
}

tsr_status tsr_cli_fill(const tsr_model *model, const tsr_program *program, const tsr_program_size *size, uint64_t seed,
                        tsr_executable *executable)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  uint64_t random = seed;
  tsr_status status = TSR_OK;
  for (int32_t t = 1; t < desc->n_tensors && status == TSR_OK; t++) {
    const char *name = tsr_ref_name(program, t);
    int32_t kind = tsr_ref_kind(program, t);
    if ((kind != TSR_STORAGE_INPUT && kind != TSR_STORAGE_STATE) || tsr_program_find(program, name) != t) {
      continue;
    }
    tsr_shape shape = tsr_ref_shape(program, t);
    int64_t elements = tsr_shape_elements(&shape);
    int64_t bytes = elements * (int64_t)tsr_dtype_size(tsr_ref_dtype(program, t));
    void *data = malloc((size_t)bytes + 1);
    if (!data) {
      return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
    }
    status = fill(tsr_model_config(model), size, name, tsr_ref_dtype(program, t), elements, &random, data);
    if (status == TSR_OK) {
      status = tsr_executable_write(executable, t, data, bytes);
    }
    free(data);
  }
  return status;
}

tsr_status tsr_cli_compile(tsr_transformer *transformer, const tsr_program *program, const tsr_compile_options *options,
                           tsr_executable **executable)
{
  int32_t room = tsr_program_describe(program)->n_tensors;
  int32_t n = 0;
  tsr_binding *bindings = malloc((size_t)room * sizeof *bindings);
  if (!bindings) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  tsr_status status = tsr_transformer_bind(transformer, program, bindings, room, &n);
  if (status == TSR_OK) {
    tsr_compile_options bound = *options;
    int32_t n_devices;
    tsr_device *const *devices = tsr_transformer_devices(transformer, &n_devices);
    bound.bindings = bindings;
    bound.n_bindings = n;
    bound.others = devices + 1;
    bound.n_others = n_devices - 1;
    status = tsr_executable_create(tsr_transformer_device(transformer), program, &bound, executable);
  }
  free(bindings);
  return status;
}

tsr_status tsr_cli_time_lines(tsr_executable *executable, int32_t n_lines, int32_t n_runs, uint64_t *least,
                              uint64_t *scratch)
{
  for (int32_t run = 0; run < n_runs; run++) {
    tsr_status status = tsr_executable_run(executable);
    if (status == TSR_OK) {
      status = tsr_executable_profile(executable, scratch, n_lines);
    }
    if (status != TSR_OK) {
      return status;
    }
    for (int32_t i = 0; i < n_lines; i++) {
      least[i] = run == 0 || scratch[i] < least[i] ? scratch[i] : least[i];
    }
  }
  return TSR_OK;
}
