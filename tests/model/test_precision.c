/* SPDX-License-Identifier: Apache-2.0
 *
 * Models in 16 bits: which lines are of reduced precision, in which type keys and values are kept, and the results
 * beside those of f32.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/generate/shortlist.h"
#include "tests/model/generation.h"
#include "tests/model/random_model.h"

enum { N_SENTENCES = 9, MANY = 33 /* enough for fewer rows in the end, on a GPU */ };

static const random_model models[] = {
    {.seed = 71, .d_model = 48, .d_ff = 160},
    {.seed = 72, .nn = 1, .norm_first = 1, .d_model = 64, .heads = 4},
    {.seed = 73, .nn = 1, .max_distance = 2, .d_model = 64, .heads = 4},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static int32_t reduced_lines(const tsr_program *program, int32_t op, int32_t *all)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  int32_t n = 0;
  *all = 0;
  for (int32_t i = 0; i < desc->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(desc, i);
    *all += line->op == op;
    n += line->op == op && line->attributes.reduced_precision;
  }
  return n;
}

/* Who asks for a type of 16 bits asks for products of reduced precision, and with f16 for such attention; as stored
 * asks for nothing. */
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
      int32_t reduced_products = reduced_lines(program, TSR_OP_MATMUL, &products);
      int32_t reduced_attentions = reduced_lines(program, TSR_OP_ATTENTION, &attentions);
      assert_true(products > 0 && attentions > 0);
      assert_int_equal(reduced_products, is_half ? products : 0);
      assert_int_equal(reduced_attentions, dtypes[i] == TSR_F16 ? attentions : 0);
      tsr_program_destroy(program);
    }
    tsr_dtype states;
    tsr_program *program;
    check(tsr_model_states(model, NULL, dtypes[i], &states)); /* of the best of GPUs */
    assert_int_equal(states, dtypes[i] == TSR_F16 || dtypes[i] == TSR_BF16 ? dtypes[i] : TSR_F32);
    check(tsr_model_program_with_states(model, dtypes[i], states, TSR_PROGRAM_GREEDY, &size, &program));
    tsr_program_destroy(program);
    states = dtypes[i] == TSR_F16 ? TSR_BF16 : TSR_F16;
    assert_int_equal(tsr_model_program_with_states(model, dtypes[i], states, TSR_PROGRAM_GREEDY, &size, &program),
                     TSR_ERR_ARGUMENT);
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
  properties->rows_at_once = 0; /* from before 1.5: they follow from the type and the features */
  properties->state_types = 0;
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
  open_setup(f, device, &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = weights}, &s);
  tsr_dtype states = s.transformer->states;
  close_setup(&s);
  return states;
}

static fixture with_gpu(const fixture *f, uint64_t has)
{
  features = has;
  fixture own = {.folder = f->folder};
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = ""}, &own.runtime));
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

/* Caches of 16 bits are moved, widened and reordered without a bit lost: a sentence alone gives what it gives in a
 * batch. They take half the memory. */
static void check_generations(const fixture *f, const char *device, const tsr_transformer_options *options)
{
  for (int32_t beam = 1; beam <= 3; beam += 2) {
    setup s;
    batch b;
    tsr_generation together, alone;
    open_setup(f, device, options, &s);
    make_batch(77, 37, N_SENTENCES, &b);
    tsr_generate_options search = options_for(&s, beam);
    check(tsr_generate(s.transformer, b.n, b.source, b.lengths, 4, &search, NULL, NULL, &together));
    for (int32_t i = 0; i < b.n; i++) {
      check(tsr_generate(s.transformer, 1, &b.source[i], &b.lengths[i], 1, &search, NULL, NULL, &alone));
      for (int32_t k = 0; k < search.n_best; k++) {
        assert_same(&alone.hypotheses[k], &together.hypotheses[i * search.n_best + k]);
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
    check_generations(&own, "gpu", &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = TSR_F16});
    check_generations(&own, "gpu", &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = TSR_BF16});
    tsr_runtime_destroy(own.runtime);
  }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* A factor errs by at most 2^-10, or 2^-7, cut off: some 60 % of that in the root mean square. Two factors of each of a
 * dozen products in a chain, as if all were of one sign: 1.5 % of f16, 12 % of bf16. Keys and values that are kept are
 * rounded once
 * more, to the nearest: that is within the same. */
static const struct {
  tsr_dtype type;
  double allowed; /* of the logits' root mean square */
} halves[] = {{TSR_F16, 0.015}, {TSR_BF16, 0.12}};
enum { N_HALVES = sizeof halves / sizeof halves[0] };

static void test_beside_f32(void **state)
{
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    setup exact;
    size_t n;
    random_model_write(f->folder, &models[m]);
    open_setup(f, "reference", &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = TSR_F32},
               &exact);
    float *wanted = forward_random(&exact, &n);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      for (int32_t k = 0; k < N_HALVES; k++) {
        const tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .weights = halves[k].type};
        setup s;
        open_setup(f, device_name(f, d), &options, &s);
        float *found = forward_random(&s, &n);
        double apart = distance(wanted, found, n);
        if (!(apart > 1e-5 && apart < halves[k].allowed)) {
          fail_msg("model %d on %s: %s is %.3g from f32", (int)m, device_name(f, d), tsr_dtype_name(halves[k].type),
                   apart);
        }
        free(found);
        close_setup(&s);
      }
    }
    free(wanted);
    close_setup(&exact);
  }
}

/* ---- searches ---------------------------------------------------------------------------------------------------- */

/* Squares of errors, and of the logits that they are measured by. */
typedef struct errors {
  double of_search, of_logits;
  int64_t n_search, n_logits;
} errors;

static double square(double x)
{
  return x * x;
}

/* What a search made of a sentence beside the logits that f32 gives for it, [n_ids, V]: of greedy search how far each
 * token is from the best, of beam search how far a token's mean log-probability is off. */
static void add_errors(const tsr_generate_options *options, const tsr_hypothesis *h, const float *logits, int32_t v,
                       errors *e)
{
  double sum = 0.0;
  for (int32_t t = 0; t < h->n_ids; t++) {
    const float *row = logits + (size_t)t * (size_t)v;
    float best = row[0];
    for (int32_t i = 0; i < v; i++) {
      best = fmaxf(best, row[i]);
      e->of_logits += square((double)row[i]);
    }
    sum += log_probability(row, v, h->ids[t]);
    if (options->beam == 1) {
      e->of_search += square((double)best - (double)row[h->ids[t]]);
      e->n_search++;
    }
  }
  e->n_logits += (int64_t)h->n_ids * v;
  if (options->beam > 1) {
    double score = (double)h->score * pow((double)h->n_ids, (double)options->length_penalty);
    e->of_search += square((score - sum) / (double)h->n_ids);
    e->n_search++;
  }
}

/* An error of a token's log-probability, and of its distance from the best, is the difference of two of logits: at most
 * twice theirs in the root mean square. */
static void check_search(const setup *s, const setup *exact, const batch *b, const tsr_generate_options *options,
                         double allowed, const char *name)
{
  errors e = {0};
  tsr_generation g;
  check(tsr_generate(s->transformer, b->n, b->source, b->lengths, b->n, options, NULL, NULL, &g));
  for (int32_t i = 0; i < b->n * options->n_best; i++) {
    const tsr_hypothesis *h = &g.hypotheses[i];
    const int32_t sentence = i / options->n_best;
    if (h->n_ids > 0) {
      float *logits = forced_logits(exact, b->source[sentence], b->lengths[sentence], h->ids, h->n_ids);
      add_errors(options, h, logits, tsr_model_config(exact->model)->target_vocabulary, &e);
      free(logits);
    }
  }
  tsr_generation_finish(&g);
  assert_true(e.n_search > 0);
  double found = sqrt(e.of_search / (double)e.n_search), size = sqrt(e.of_logits / (double)e.n_logits);
  if (!(found <= 2.0 * allowed * size)) {
    fail_msg("%s, %s, beam %d: tokens are %.3g from f32, of logits of %.3g", name,
             tsr_dtype_name(s->transformer->options.weights), (int)options->beam, found, size);
  }
}

/* Searches with caches of 16 bits, on each device that keeps them so, give what f32 gives but for the roundings: as
 * their rows are written, read, widened, reordered and, when sentences end, moved; with a shortlist, whose weights are
 * a state, too. */
static void check_searches(const fixture *f, const char *device, const setup *exact, int32_t which)
{
  const int32_t vocabulary = tsr_model_config(exact->model)->target_vocabulary;
  tsr_shortlist *list;
  setup s;
  batch b;
  open_setup(
      f, device,
      &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = halves[which].type, .workers = 1}, &s);
  const tsr_device_properties *properties = tsr_device_get_properties(s.device);
  const int is_gpu = properties->type != TSR_DEVICE_CPU && properties->type != TSR_DEVICE_REFERENCE;
  assert_int_equal(s.transformer->states,
                   is_gpu && properties->features & TSR_FEATURE_F16_STORAGE ? halves[which].type : TSR_F32);
  s.model->config.eos_id = exact->model->config.eos_id;
  make_batch(78, vocabulary, MANY, &b);
  check(tsr_shortlist_create(vocabulary, vocabulary, NULL, 0, vocabulary, 0, &list));
  for (int32_t beam = 1; beam <= 3; beam += 2) {
    tsr_generate_options options = options_for(&s, beam);
    options.early_stopping = TSR_EARLY_TRUE;
    options.n_best = 1;
    check_search(&s, exact, &b, &options, halves[which].allowed, device);
    options.shortlist = list;
    check_search(&s, exact, &b, &options, halves[which].allowed, device);
  }
  assert_true(smallest_step(s.transformer) < MANY);
  tsr_shortlist_close(list);
  free_batch(&b);
  close_setup(&s);
}

static void test_searches(void **state)
{
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    setup exact;
    batch b;
    random_model_write(f->folder, &models[m]);
    open_setup(f, "reference",
               &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = TSR_F32, .workers = 1},
               &exact);
    make_batch(78, tsr_model_config(exact.model)->target_vocabulary, MANY, &b);
    choose_end(&exact, &b);
    free_batch(&b);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      for (int32_t k = 0; k < N_HALVES; k++) {
        check_searches(f, device_name(f, d), &exact, k);
      }
    }
    close_setup(&exact);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_programs),   cmocka_unit_test(test_states),   cmocka_unit_test(test_generations),
      cmocka_unit_test(test_beside_f32), cmocka_unit_test(test_searches),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
