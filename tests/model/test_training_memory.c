/* SPDX-License-Identifier: Apache-2.0
 *
 * What the memory plan of a training step takes: at most 60 % of one buffer per tensor; where layers are computed once
 * more at most 35 %, of the buffers that this program has as of those that the other one has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/model/training.h"

enum { ALIGNMENT = 256 }; /* of buffers on most GPUs */

typedef struct measure {
  const char *name;
  int32_t nn, d_model, heads, d_ff, layers, vocabulary;
  tsr_program_size size;
} measure;

static const measure measures[] = {
    {"the demo's model", 0, 192, 6, 768, 3, 5001, {.batch = 100, .source = 25, .target = 25}},
    {"d_model 256", 0, 256, 8, 1024, 3, 8000, {.batch = 100, .source = 25, .target = 25}},
    {"d_model 256, nn", 1, 256, 8, 1024, 3, 8000, {.batch = 100, .source = 25, .target = 25}},
    {"Transformer-base", 0, 512, 8, 2048, 6, 37000, {.batch = 32, .source = 25, .target = 25}},
    {"long sequences", 0, 256, 8, 1024, 3, 8000, {.batch = 4, .source = 512, .target = 512}},
    {"a toy task", 0, 64, 4, 256, 2, 30, {.batch = 64, .source = 12, .target = 12}},
    {"tiny", 0, 24, 3, 40, 2, 37, {.batch = 4, .source = 7, .target = 9}},
    {"tiny, nn", 1, 24, 3, 40, 2, 37, {.batch = 4, .source = 7, .target = 9}},
};

static tsr_model *make_model(const measure *m)
{
  tsr_transformer_config config = {
      TSR_SIZED(tsr_transformer_config),
      .d_model = m->d_model,
      .encoder_layers = m->layers,
      .decoder_layers = m->layers,
      .encoder_heads = m->heads,
      .decoder_heads = m->heads,
      .encoder_d_ff = m->d_ff,
      .decoder_d_ff = m->d_ff,
      .source_vocabulary = m->vocabulary,
      .target_vocabulary = m->vocabulary,
      .max_positions = 512,
      .norm = TSR_NORM_LAYER,
      .norm_position = m->nn ? TSR_NORM_PRE : TSR_NORM_POST,
      .final_norm = m->nn,
      .activation = m->nn ? TSR_ACTIVATION_GELU_ERF : TSR_ACTIVATION_SILU,
      .position = m->nn ? TSR_POSITION_SINUSOID_INTERLEAVED : TSR_POSITION_SINUSOID_HALVES,
      .attention_bias = 1,
      .feed_forward_bias = 1,
      .logits_bias = 1,
      .shared_embedding = !m->nn,
      .tied_logits = !m->nn,
      .embedding_scale = 1.0f,
      .logits_scale = 1.0f,
      .epsilon = 1e-5f,
      .pad_id = m->nn ? 0 : m->vocabulary - 1,
      .bos_id = m->nn ? 1 : -1,
      .eos_id = m->nn ? 2 : 0,
      .unk_id = m->nn ? 3 : 1,
      .decoder_start_id = m->nn ? 1 : m->vocabulary - 1,
  };
  tsr_model *model = NULL;
  snprintf(config.family, sizeof config.family, "%s", m->nn ? "nn_transformer" : "marian");
  require_ok(tsr_model_create(&config, &model), m->name);
  return model;
}

/* The most bytes of temporaries that one line needs alive: no plan takes less. */
static int64_t least_bytes(const tsr_program_desc *program)
{
  size_t n = (size_t)program->n_storages, n_lines = (size_t)program->n_lines;
  int32_t *first = calloc(n, sizeof *first), *last = calloc(n, sizeof *last);
  int64_t *change = calloc(n_lines + 1, sizeof *change), alive = 0, most = 0;
  assert_true(first && last && change);
  for (int32_t i = 0; i < program->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(program, i);
    for (int32_t j = 0; j < TSR_MAX_INPUTS + TSR_MAX_OUTPUTS; j++) {
      int32_t tensor = j < TSR_MAX_INPUTS ? line->in[j] : line->out[j - TSR_MAX_INPUTS];
      int32_t storage = tensor > 0 ? tsr_tensor_at(program, tensor)->storage : 0;
      first[storage] = last[storage] ? first[storage] : i;
      last[storage] = i + 1;
    }
  }
  for (int32_t s = 1; s < program->n_storages; s++) {
    const tsr_storage_desc *storage = tsr_storage_at(program, s);
    if (storage->kind == TSR_STORAGE_TEMPORARY && last[s] > 0) {
      int64_t size = (storage->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
      change[first[s]] += size;
      change[last[s]] -= size;
    }
  }
  for (size_t i = 0; i < n_lines; i++) {
    alive += change[i];
    most = alive > most ? alive : most;
  }
  free(first);
  free(last);
  free(change);
  return most;
}

static void check_share(const measure *m, const char *what, int64_t planned, int64_t buffers, double most)
{
  double share = 100.0 * (double)planned / (double)buffers;
  print_message("  %-18s %-32s %8.2f of %8.2f MB: %4.1f %%\n", m->name, what, (double)planned * 1e-6,
                (double)buffers * 1e-6, share);
  if (share > most) {
    fail_msg("%s, %s: the plan takes %.1f %% of one buffer per tensor; at most %g %% are allowed", m->name, what, share,
             most);
  }
}

static void test_shares(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof measures / sizeof measures[0]; i++) {
    const measure *m = &measures[i];
    tsr_model *model = make_model(m);
    int64_t buffers = 0;
    for (int32_t recompute = 0; recompute < 2; recompute++) {
      const tsr_training_options options = {
          TSR_SIZED(tsr_training_options), .dropout = 0.1f,  .attention_dropout = 0.1f,
          .label_smoothing = 0.1f,         .max_norm = 1.0f, .average = 1,
          .recompute = recompute};
      tsr_program *program;
      tsr_program_statistics s;
      require_ok(tsr_training_program(model, &options, TSR_STEP_UPDATE, &m->size, &program), m->name);
      require_ok(tsr_program_measure(program, ALIGNMENT, &s), m->name);
      if (recompute) {
        check_share(m, "recomputing, of its own buffers", s.planned_bytes, s.temporary_bytes, 35.0);
        check_share(m, "recomputing, of the other's", s.planned_bytes, buffers, 35.0);
      } else {
        buffers = s.temporary_bytes;
        check_share(m, "keeping everything", s.planned_bytes, buffers, 60.0);
      }
      int64_t least = least_bytes(tsr_program_describe(program));
      if (s.planned_bytes < least || (double)s.planned_bytes > 1.05 * (double)least) {
        fail_msg("%s: the plan takes %lld bytes; one line needs %lld", m->name, (long long)s.planned_bytes,
                 (long long)least);
      }
      tsr_program_destroy(program);
    }
    tsr_model_close(model);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
