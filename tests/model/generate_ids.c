/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches with random sources, for a model without a tokenizer:
 *
 *     generate_ids FOLDER DEVICE[,DEVICE]... PRECISION SENTENCES TOKENS
 *
 * prints the ids and the scores' bits of greedy search and of a beam of 4, of outputs of TOKENS tokens. With several
 * devices the model is split over them. PRECISION: f32, f16, bf16 or int8.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/generate.h"
#include "tools/random/random.h"

enum { MOST_DEVICES = 8, MOST_SENTENCES = 64, MOST_SOURCE = 24, SEED = 5 };

static void need(tsr_status status)
{
  if (status != TSR_OK) {
    fprintf(stderr, "generate_ids: %s: %s\n", tsr_status_name(status), tsr_error_message());
    exit(1);
  }
}

static tsr_dtype precision_of(const char *name)
{
  return strcmp(name, "int8") == 0   ? TSR_I8
         : strcmp(name, "f16") == 0  ? TSR_F16
         : strcmp(name, "bf16") == 0 ? TSR_BF16
                                     : TSR_F32;
}

static void print(tsr_transformer *transformer, int32_t n, const int32_t *const *sources, const int32_t *lengths,
                  int32_t beam, int32_t tokens)
{
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  tsr_generation generation;
  need(tsr_generate_defaults(tsr_transformer_model(transformer), &options));
  options.beam = beam;
  options.n_best = 1;
  options.min_length = options.max_length = tokens;
  options.scores = 1;
  need(tsr_generate(transformer, n, sources, lengths, n, &options, NULL, NULL, &generation));
  for (int32_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &generation.hypotheses[i].score, sizeof bits);
    printf("%08x", (unsigned)bits);
    for (int32_t k = 0; k < generation.hypotheses[i].n_ids; k++) {
      printf(" %d", (int)generation.hypotheses[i].ids[k]);
    }
    printf("\n");
  }
  tsr_generation_finish(&generation);
}

int main(int argc, char **argv)
{
  if (argc != 6) {
    fprintf(stderr, "Usage: generate_ids FOLDER DEVICE[,DEVICE].. PRECISION SENTENCES TOKENS\n");
    return 2;
  }
  tsr_runtime *runtime;
  tsr_device *devices[MOST_DEVICES];
  tsr_model *model;
  tsr_transformer *transformer;
  int32_t n_devices = 0, n = (int32_t)strtol(argv[4], NULL, 10), tokens = (int32_t)strtol(argv[5], NULL, 10);
  need(tsr_runtime_create(NULL, &runtime));
  char *rest = argv[2], *name;
  while (n_devices < MOST_DEVICES && (name = strtok_r(rest, ",", &rest)) != NULL) {
    need(tsr_device_open(runtime, name, &devices[n_devices++]));
  }
  need(tsr_model_open(argv[1], &model));
  for (int32_t i = 0; i < n_devices; i++) {
    tsr_model_part part;
    need(tsr_model_get_part(model, precision_of(argv[3]), devices, n_devices, i, &part));
    fprintf(stderr, "%s: %lld bytes of weights, %d and %d layers\n", tsr_device_name(devices[i]),
            (long long)part.weight_bytes, (int)part.encoder_layers, (int)part.decoder_layers);
  }
  const tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .weights = precision_of(argv[3]),
                                           .workers = 1, .others = devices + 1, .n_others = n_devices - 1};
  need(tsr_transformer_create(model, devices[0], &options, &transformer));
  int32_t pool[MOST_SENTENCES][MOST_SOURCE], lengths[MOST_SENTENCES];
  const int32_t *sources[MOST_SENTENCES];
  uint64_t seed = SEED;
  n = n < MOST_SENTENCES ? n : MOST_SENTENCES;
  for (int32_t i = 0; i < n; i++) {
    sources[i] = pool[i];
    lengths[i] = 1 + tsr_random_below(&seed, MOST_SOURCE);
    for (int32_t k = 0; k < lengths[i]; k++) {
      pool[i][k] = 4 + tsr_random_below(&seed, tsr_model_config(model)->source_vocabulary - 4);
    }
  }
  print(transformer, n, sources, lengths, 1, tokens);
  print(transformer, n, sources, lengths, 4, tokens);
  tsr_transformer_destroy(transformer);
  tsr_model_close(model);
  for (int32_t i = 0; i < n_devices; i++) {
    tsr_device_close(devices[i]);
  }
  tsr_runtime_destroy(runtime);
  return 0;
}
