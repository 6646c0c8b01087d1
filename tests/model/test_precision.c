/* SPDX-License-Identifier: Apache-2.0
 *
 * Models in 16 bits: which lines are narrow, in which type keys and values are kept, and the results beside those of f32.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/generation.h"
#include "tests/model/random_model.h"

enum { N_SENTENCES = 9, B = 2, S = 11, L = 7 };

static const random_model models[] = {
    {.seed = 71, .d_model = 48, .d_ff = 160},
    {.seed = 72, .nn = 1, .norm_first = 1, .d_model = 64, .heads = 4},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static int32_t narrow_lines(const tsr_program *program, int32_t op, int32_t *all)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  int32_t n = 0;
  *all = 0;
  for (int32_t i = 0; i < desc->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(desc, i);
    *all += line->op == op;
    n += line->op == op && line->attributes.narrow;
  }
  return n;
}

/* Who asks for a type of 16 bits asks for narrow products, and with f16 for narrow attention; as stored asks for nothing. */
static void test_programs(void **state)
{
  const fixture *f = *state;
  static const tsr_dtype dtypes[] = {0, TSR_F32, TSR_F16, TSR_BF16, TSR_I8};
  const tsr_program_size size = {.batch = 2, .source = 5, .target = 6, .beam = 3};
  tsr_model *model;
  random_model_write(f->folder, &models[0]);
  check(tsr_model_open(f->folder, &model));
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
    for (int32_t kind = TSR_PROGRAM_ENCODE; kind <= TSR_PROGRAM_SCORE; kind++) {
      tsr_program *program;
      int32_t products, attentions, is_half = dtypes[i] == TSR_F16 || dtypes[i] == TSR_BF16;
      check(tsr_model_program(model, dtypes[i], kind, &size, &program));
      int32_t narrow_products = narrow_lines(program, TSR_OP_MATMUL, &products);
      int32_t narrow_attentions = narrow_lines(program, TSR_OP_ATTENTION, &attentions);
      assert_true(products > 0 && attentions > 0);
      assert_int_equal(narrow_products, is_half ? products : 0);
      assert_int_equal(narrow_attentions, dtypes[i] == TSR_F16 ? attentions : 0);
      tsr_program_destroy(program);
    }
  }
  tsr_model_close(model);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* The reference, as a GPU. */
static tsr_backend table;
static const tsr_backend *reference;
static uint64_t features;
static int32_t takes_halves;

static int32_t properties_of_gpu(void *context, uint32_t index, tsr_device_properties *properties)
{
  int32_t status = reference->device_properties(context, index, properties);
  properties->type = TSR_DEVICE_VIRTUAL_GPU;
  properties->features = features;
  return status;
}

static int32_t supports_some(tsr_backend_device *device, const tsr_program_desc *program, int32_t index)
{
  const tsr_line_desc *line = tsr_line_at(program, index);
  int is_half = line->op == TSR_OP_ATTENTION && tsr_tensor_at(program, line->in[1])->dtype != TSR_F32;
  return (takes_halves || !is_half) && reference->supports(device, program, index);
}

static const tsr_backend *query_gpu(uint32_t major, const tsr_host *host)
{
  reference = tessera_backend_query(major, host);
  table = *reference;
  table.name = "gpu";
  table.device_properties = properties_of_gpu;
  table.supports = supports_some;
  return &table;
}

static tsr_dtype states_of(const fixture *f, const char *device, tsr_dtype weights)
{
  setup s;
  open_setup(f, device, &(tsr_transformer_options){.weights = weights}, &s);
  tsr_dtype states = s.transformer->states;
  close_setup(&s);
  return states;
}

static fixture with_gpu(const fixture *f, uint64_t has)
{
  features = has;
  fixture own = {.folder = f->folder};
  check(tsr_runtime_create(&(tsr_runtime_options){.path = ""}, &own.runtime));
  check(tsr_runtime_register(own.runtime, query_gpu));
  return own;
}

static void test_states(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &models[0]);
  fixture own = with_gpu(f, TSR_FEATURE_F16_STORAGE);
  takes_halves = 1;
  assert_int_equal(states_of(&own, "gpu", TSR_F16), TSR_F16);
  assert_int_equal(states_of(&own, "gpu", TSR_BF16), TSR_BF16);
  assert_int_equal(states_of(&own, "gpu", TSR_I8), TSR_F32);
  assert_int_equal(states_of(&own, "gpu", TSR_F32), TSR_F32);
  assert_int_equal(states_of(&own, "gpu", 0), TSR_F32);
  takes_halves = 0;
  assert_int_equal(states_of(&own, "gpu", TSR_F16), TSR_F32);
  tsr_runtime_destroy(own.runtime);
  takes_halves = 1;
  own = with_gpu(f, 0);
  assert_int_equal(states_of(&own, "gpu", TSR_F16), TSR_F32);
  tsr_runtime_destroy(own.runtime);
  assert_int_equal(states_of(f, "reference", TSR_F16), TSR_F32);
}

/* Caches of 16 bits are moved, widened and reordered without a bit lost: a sentence alone gives what it gives in a batch.
 * They take half the memory. */
static void check_generations(const fixture *f, const char *device, const tsr_transformer_options *options)
{
  for (int32_t beam = 1; beam <= 3; beam += 2) {
    setup s;
    batch b;
    tsr_generation together, alone;
    open_setup(f, device, options, &s);
    make_batch(77, 37, N_SENTENCES, &b);
    tsr_generate_options wish = options_for(&s, beam);
    check(tsr_generate(s.transformer, b.n, b.source, b.lengths, 4, &wish, NULL, NULL, &together));
    for (int32_t i = 0; i < b.n; i++) {
      check(tsr_generate(s.transformer, 1, &b.source[i], &b.lengths[i], 1, &wish, NULL, NULL, &alone));
      for (int32_t k = 0; k < wish.n_best; k++) {
        assert_same(&alone.hypotheses[k], &together.hypotheses[i * wish.n_best + k]);
      }
      tsr_generation_finish(&alone);
    }
    const tsr_transformer_config *config = tsr_model_config(s.model);
    int64_t row = (int64_t)config->decoder_heads * config->decoder_head_size;
    assert_int_equal(tsr_buffer_size(s.transformer->self.buffers[0]),
                     s.transformer->self.rows * row * (int64_t)tsr_dtype_size(s.transformer->states));
    tsr_generation_finish(&together);
    free_batch(&b);
    close_setup(&s);
  }
}

static void test_generations(void **state)
{
  const fixture *f = *state;
  takes_halves = 1;
  for (int32_t m = 0; m < N_MODELS; m++) {
    random_model_write(f->folder, &models[m]);
    fixture own = with_gpu(f, TSR_FEATURE_F16_STORAGE);
    check_generations(&own, "gpu", &(tsr_transformer_options){.weights = TSR_F16});
    check_generations(&own, "gpu", &(tsr_transformer_options){.weights = TSR_BF16});
    tsr_runtime_destroy(own.runtime);
  }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Logits [B, L, V] of the same random tokens, to be freed. */
static float *forward(const setup *s, size_t *n)
{
  const tsr_transformer_config *config = tsr_model_config(s->model);
  const int32_t lengths[B] = {S, 4};
  int32_t source[B * S], target[B * L];
  uint64_t seed = 7;
  *n = (size_t)(B * L * config->target_vocabulary);
  float *logits = malloc(*n * sizeof *logits);
  assert_non_null(logits);
  for (int32_t i = 0; i < B * S; i++) {
    source[i] = tsr_random_below(&seed, config->source_vocabulary);
  }
  for (int32_t i = 0; i < B * L; i++) {
    target[i] = tsr_random_below(&seed, config->target_vocabulary);
  }
  check(tsr_transformer_forward(s->transformer, B, S, source, lengths, L, target, NULL, logits));
  return logits;
}

/* Root mean square of the difference, divided by that of a. */
static double distance(const float *a, const float *b, size_t n)
{
  double difference = 0.0, size = 0.0;
  for (size_t i = 0; i < n; i++) {
    difference += pow((double)a[i] - (double)b[i], 2.0);
    size += pow((double)a[i], 2.0);
  }
  return sqrt(difference / size);
}

/* A factor errs by at most 2^-10, or 2^-7, cut off: some 60 % of that in the root mean square. Two factors of each of a dozen
 * products in a chain, as if all were of one sign: 1.5 % of f16, 12 % of bf16. */
static void test_beside_f32(void **state)
{
  const fixture *f = *state;
  static const tsr_dtype dtypes[] = {TSR_F16, TSR_BF16};
  static const double allowed[] = {0.015, 0.12};
  for (int32_t m = 0; m < N_MODELS; m++) {
    setup exact;
    size_t n;
    random_model_write(f->folder, &models[m]);
    open_setup(f, "reference", &(tsr_transformer_options){.weights = TSR_F32}, &exact);
    float *wanted = forward(&exact, &n);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      for (int32_t k = 0; k < 2; k++) {
        const tsr_transformer_options wish = {.weights = dtypes[k]};
        setup s;
        open_setup(f, device_name(f, d), &wish, &s);
        float *found = forward(&s, &n);
        double apart = distance(wanted, found, n);
        if (!(apart > 1e-5 && apart < allowed[k])) {
          fail_msg("model %d on %s: %s is %.3g from f32", (int)m, device_name(f, d), tsr_dtype_name(dtypes[k]), apart);
        }
        free(found);
        close_setup(&s);
      }
    }
    free(wanted);
    close_setup(&exact);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_programs),
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_generations),
      cmocka_unit_test(test_beside_f32),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
