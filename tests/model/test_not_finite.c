/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that are none: in the weights, which are looked at when they are loaded, and in what a device computes.
 */
#include "tests/model/generation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/random_model.h"
#include "tests/support/configs.h"
#include "tests/support/temporary.h"

enum { N_SENTENCES = 5, VOCABULARY = 37 };

static void assert_message(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("'%s' does not hold '%s'", tsr_error_message(), fragment);
  }
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Elements of one parameter that are no numbers; the others are small ones. */
typedef struct planted {
  const char *parameter;
  int64_t element;
  float value;
  float keys_and_values; /* factor of the weights that make those of the source; 0: 1 */
  const tsr_model *model;
} planted;

static tsr_status give(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  const planted *p = context;
  const tsr_parameter *wanted = &p->model->parameters.items[parameter];
  float factor =
      p->keys_and_values > 0.0f && strstr(wanted->name, "cross_attention.kv.weight") ? p->keys_and_values : 1.0f;
  for (int64_t i = 0; i < count; i++) {
    elements[i] = strstr(wanted->name, "norm.weight") ? 1.0f : factor * 0.01f * (float)((first + i) % 13 - 6);
  }
  if (strcmp(wanted->name, p->parameter) == 0 && p->element >= first && p->element < first + count) {
    elements[p->element - first] = p->value;
  }
  return TSR_OK;
}

static int32_t n_warnings;
static char warning[2048];

static void take_log(void *user, int32_t level, const char *message)
{
  (void)user;
  if (level == TSR_LOG_WARNING) {
    n_warnings++;
    snprintf(warning, sizeof warning, "%s", message);
  }
}

/* Loads a model in which an element was planted. */
static tsr_status load_config(const fixture *f, const tsr_transformer_config *config, const char *parameter,
                              int64_t element, float value, tsr_dtype stored, tsr_dtype weights)
{
  tsr_model *made;
  tsr_model *model;
  tsr_device *device;
  tsr_transformer *transformer;
  check(tsr_model_create(config, &made));
  planted p = {.parameter = parameter, .element = element, .value = value, .model = made};
  const tsr_save_options options = {TSR_SIZED(tsr_save_options), .storage = stored};
  check(tsr_model_save(made, f->folder, &options, give, &p));
  tsr_model_close(made);
  check(tsr_model_open(f->folder, &model));
  check(tsr_device_open(f->runtime, "reference", &device));
  n_warnings = 0;
  tsr_log_set(take_log, NULL);
  tsr_status status = tsr_transformer_create(
      model, device, &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = weights}, &transformer);
  tsr_log_set(NULL, NULL);
  tsr_transformer_destroy(transformer);
  tsr_device_close(device);
  tsr_model_close(model);
  return status;
}

static tsr_status load(const fixture *f, const char *parameter, int64_t element, float value, tsr_dtype stored,
                       tsr_dtype weights)
{
  const tsr_transformer_config config = marian_config();
  return load_config(f, &config, parameter, element, value, stored, weights);
}

/* Of a weight that is uploaded in parts, as those of real models are, each part counts. */
static void test_large_weight(void **state)
{
  static const tsr_dtype types[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I8};
  const fixture *f = *state;
  tsr_transformer_config config = marian_config();
  config.source_vocabulary = config.target_vocabulary = (2 << 20) / config.d_model + 10;
  const int64_t last = (int64_t)config.source_vocabulary * config.d_model - 1;
  const int64_t elements[] = {70000, (1 << 20) + 5, last};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    for (size_t k = 0; k < sizeof elements / sizeof elements[0]; k++) {
      char fragment[64];
      snprintf(fragment, sizeof fragment, "is damaged: element %lld is NaN", (long long)elements[k]);
      assert_int_equal(load_config(f, &config, "embedding.weight", elements[k], NAN, TSR_F32, types[i]),
                       TSR_ERR_FORMAT);
      assert_message(fragment);
    }
  }
}

static void test_weights(void **state)
{
  static const tsr_dtype types[] = {0, TSR_F32, TSR_F16, TSR_BF16, TSR_I8, TSR_I4};
  static const tsr_dtype stored[] = {TSR_F32, TSR_F16, TSR_BF16};
  const fixture *f = *state;
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    for (size_t k = 0; k < sizeof stored / sizeof stored[0]; k++) {
      assert_int_equal(load(f, "encoder.layers.0.feed_forward.in.weight", 7, NAN, stored[k], types[i]), TSR_ERR_FORMAT);
      assert_message("model.safetensors: tensor 'model.encoder.layers.0.fc1.weight' is damaged: element 7 is NaN, the "
                     "first of 1");
      /* the second of three tensors that are one parameter */
      const int64_t second = (int64_t)marian_config().d_model * marian_config().d_model + 3;
      assert_int_equal(load(f, "decoder.layers.0.self_attention.qkv.weight", second, -NAN, stored[k], types[i]),
                       TSR_ERR_FORMAT);
      assert_message("tensor 'model.decoder.layers.0.self_attn.k_proj.weight' is damaged: element 3 is NaN");
      assert_int_equal(load(f, "logits.bias", 0, NAN, stored[k], types[i]), TSR_ERR_FORMAT);
      assert_message("'final_logits_bias'");
    }
  }
}

/* Infinities are no damage: a bias of -inf is a token that never comes, and of others the log is told. */
static void test_infinities(void **state)
{
  const fixture *f = *state;
  check(load(f, "logits.bias", 4, -INFINITY, TSR_F32, 0));
  assert_int_equal(n_warnings, 0);
  check(load(f, "encoder.layers.0.feed_forward.in.weight", 4, INFINITY, TSR_F32, 0));
  assert_int_equal(n_warnings, 1);
  assert_non_null(strstr(warning, "tensor 'model.encoder.layers.0.fc1.weight': element 4 is an infinity"));
  check(load(f, "encoder.layers.0.feed_forward.in.weight", 4, 1e6f, TSR_F32, TSR_F16));
  assert_int_equal(n_warnings, 1);
  assert_non_null(strstr(warning, "element 4 is beyond the range of f16"));
  check(load(f, "encoder.layers.0.feed_forward.in.weight", 4, -524032.0f, TSR_F32, TSR_I4));
  assert_int_equal(n_warnings, 0);
  check(load(f, "encoder.layers.0.feed_forward.in.weight", 4, -524064.0f, TSR_F32, TSR_I4));
  assert_int_equal(n_warnings, 1);
  assert_non_null(strstr(warning, "element 4 is beyond the range of int4, the first of 1 in the parameter "
                                  "encoder.layers.0.feed_forward.in.weight, and is cut off"));
  check(load(f, "encoder.layers.0.feed_forward.in.weight", 4, 65504.0f, TSR_F32, TSR_F16));
  check(load(f, "encoder.layers.0.feed_forward.in.weight", 4, 1e6f, TSR_F32, TSR_BF16));
  check(load(f, "encoder.layers.0.feed_forward.in.weight", 4, 1e6f, TSR_F32, TSR_I8));
  assert_int_equal(n_warnings, 0);
}

/* Each element counts, whatever its type and its place. */
static void test_largest_magnitude(void **state)
{
  (void)state;
  enum { N = 67 };
  float values[N];
  uint16_t halves[N];
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < N; k++) {
      values[k] = k == i ? NAN : -2.0f;
    }
    assert_true(tsr_largest_magnitude(TSR_F32, values, N) > (uint32_t)TSR_INFINITE);
    assert_true(tsr_largest_magnitude(TSR_F32, values, i) < (uint32_t)TSR_INFINITE);
    check(tsr_convert(TSR_F32, values, TSR_F16, halves, N));
    assert_true(tsr_largest_magnitude(TSR_F16, halves, N) > (uint32_t)TSR_INFINITE);
    assert_true(tsr_largest_magnitude(TSR_F16, halves, i) < (uint32_t)TSR_INFINITE);
    check(tsr_convert(TSR_F32, values, TSR_BF16, halves, N));
    assert_true(tsr_largest_magnitude(TSR_BF16, halves, N) > (uint32_t)TSR_INFINITE);
    values[i] = -INFINITY;
    assert_int_equal(tsr_largest_magnitude(TSR_F32, values, N), TSR_INFINITE);
    check(tsr_convert(TSR_F32, values, TSR_F16, halves, N));
    assert_int_equal(tsr_largest_magnitude(TSR_F16, halves, N), TSR_INFINITE);
    check(tsr_convert(TSR_F32, values, TSR_BF16, halves, N));
    assert_int_equal(tsr_largest_magnitude(TSR_BF16, halves, N), TSR_INFINITE);
  }
}

/* ---- what a device computes -------------------------------------------------------------------------------------- */

static tsr_buffer *buffer_of(const setup *s, const char *parameter)
{
  for (int32_t i = 0; i < s->model->parameters.n; i++) {
    if (strcmp(s->model->parameters.items[i].name, parameter) == 0) {
      return s->transformer->parameters[i];
    }
  }
  fail_msg("there is no parameter %s", parameter);
  return NULL;
}

/* Sentences without token 5, but for the fourth. */
static void make_sentences(batch *b)
{
  make_batch(7, VOCABULARY, N_SENTENCES, b);
  for (int32_t i = 0; i < N_SENTENCES * MAX_SOURCE; i++) {
    b->pool[i] = b->pool[i] == 5 ? 6 : b->pool[i];
  }
  b->lengths[3] = 4;
  b->pool[3 * MAX_SOURCE + 2] = 5;
}

/* In place of one that was saved. */
static void write_model(const fixture *f)
{
  const random_model model = {.seed = 3};
  remove(path_in(f->folder, "generation_config.json"));
  random_model_write(f->folder, &model);
}

static void expect(const setup *s, const batch *b, const tsr_generate_options *options, int64_t sentence,
                   const char *when, const char *what)
{
  tsr_generation g;
  const char *message;
  char named[64];
  assert_int_equal(tsr_generate(s->transformer, N_SENTENCES, b->source, b->lengths, 0, options, NULL, NULL, &g),
                   TSR_ERR_NOT_FINITE);
  assert_null(g.hypotheses);
  assert_int_equal(tsr_error_sentence(&message), sentence);
  snprintf(named, sizeof named, "sentence %d: ", (int)sentence);
  assert_int_equal(strncmp(tsr_error_message(), named, strlen(named)), 0);
  assert_string_equal(tsr_error_message() + strlen(named), message);
  assert_message(tsr_device_name(s->device));
  assert_message(when);
  assert_message(what);
}

/* Loads the model, and damages an element of a weight before anything is compiled. */
static void open_damaged(const fixture *f, const char *device, const char *parameter, int64_t element, setup *s)
{
  static const uint32_t nan = 0x7fc00000;
  open_setup(f, device, &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = 1}, s);
  check(tsr_buffer_write(buffer_of(s, parameter), element * (int64_t)sizeof nan, sizeof nan, &nan));
}

/* A weight that is damaged on the device, after it was loaded: greedy search, beams, scores, whole rows, and greedy
 * steps of which several are under way. */
static void test_memory(void **state)
{
  const fixture *f = *state;
  batch b;
  write_model(f);
  make_sentences(&b);
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    for (int32_t how = 0; how < 5; how++) {
      setup s;
      open_damaged(f, device_name(f, d), "decoder.layers.1.feed_forward.out.weight", 1, &s);
      tsr_generate_options options = options_for(&s, how == 1 ? 3 : 1);
      options.scores = how == 2;
      options.repetition_penalty = how == 3 ? 0.9f : 0.0f;
      options.steps_per_submit = how == 4 ? 3 : 0;
      expect(&s, &b, &options, 0, "computed NaN at step 0", "'decoder.layers.1.feed_forward.out.weight'");
      assert_message("was finite when it was loaded");
      close_setup(&s);
    }
  }
  free_batch(&b);
}

static tsr_transformer_config separate_config(void)
{
  tsr_transformer_config config = marian_config();
  config.shared_embedding = 0;
  config.tied_logits = 1;
  return config;
}

/* Which sentence it was: one of several, on any number of threads. */
static void test_sentence(void **state)
{
  static const uint32_t nan = 0x7fc00000;
  const fixture *f = *state;
  const tsr_transformer_config config = separate_config();
  tsr_model *made;
  check(tsr_model_create(&config, &made));
  planted p = {.parameter = "", .model = made};
  check(tsr_model_save(made, f->folder, NULL, give, &p));
  tsr_model_close(made);
  for (int32_t workers = 1; workers <= 3; workers += 2) {
    setup s;
    batch b;
    open_setup(f, "cpu", &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = workers}, &s);
    make_sentences(&b);
    const int64_t at = (5 * (int64_t)s.model->config.d_model + 3) * 4;
    check(tsr_buffer_write(buffer_of(&s, "encoder.embedding.weight"), at, 4, &nan));
    for (int32_t beam = 1; beam <= 3; beam += 2) {
      tsr_generate_options options = options_for(&s, beam);
      options.max_length = 10;
      expect(&s, &b, &options, 3, "in the encoder", "'encoder.embedding.weight'");
      options.n_best = 1;
      options.alternatives = 2;
      expect(&s, &b, &options, 3, "in the encoder", "'encoder.embedding.weight'");
    }
    tsr_scores scores;
    assert_int_equal(
        tsr_score(s.transformer, N_SENTENCES, b.source, b.lengths, b.source, b.lengths, NULL, NULL, NULL, &scores),
        TSR_ERR_NOT_FINITE);
    assert_int_equal(tsr_error_sentence(NULL), 3);
    assert_message("in the encoder");
    close_setup(&s);
    free_batch(&b);
  }
}

/* The reference, as a GPU that wants keys and values of 16 bits. */
static tsr_backend table;
static const tsr_backend *reference;

static int32_t properties_of_gpu(void *context, uint32_t index, tsr_device_properties *properties)
{
  int32_t status = reference->device_properties(context, index, properties);
  properties->type = TSR_DEVICE_VIRTUAL_GPU;
  properties->state_types = 1u << TSR_F16 | 1u << TSR_BF16;
  return status;
}

static const tsr_backend *query_gpu(uint32_t major, const tsr_host *host)
{
  reference = tessera_backend_query(major, host);
  table = *reference;
  table.name = "gpu";
  table.device_properties = properties_of_gpu;
  return &table;
}

/* Weights that f16 can hold, and activations that it cannot: an honest model, for which another type is the remedy. */
static void test_beyond_f16(void **state)
{
  const fixture *f = *state;
  const tsr_transformer_config config = separate_config();
  tsr_model *made;
  batch b;
  make_sentences(&b);
  check(tsr_model_create(&config, &made));
  planted p = {.parameter = "", .keys_and_values = 1e6f, .model = made};
  check(tsr_model_save(made, f->folder, NULL, give, &p));
  tsr_model_close(made);
  fixture own = {.folder = f->folder};
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = ""}, &own.runtime));
  check(tsr_runtime_register(own.runtime, query_gpu));
  static const tsr_dtype types[] = {TSR_F32, TSR_BF16, TSR_F16};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    setup s;
    open_setup(&own, "gpu",
               &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .weights = types[i], .workers = 1}, &s);
    for (int32_t beam = 1; beam <= 2; beam++) {
      tsr_generate_options options = options_for(&s, beam);
      tsr_generation g;
      options.max_length = 10;
      if (types[i] == TSR_F16) {
        expect(&s, &b, &options, 0, "computed NaN", "beyond the range of f16, which ends at 65504");
        assert_message("Use --precision f32 or bf16");
        continue;
      }
      check(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 0, &options, NULL, NULL, &g));
      tsr_generation_finish(&g);
    }
    close_setup(&s);
  }
  tsr_runtime_destroy(own.runtime);
  free_batch(&b);
}

/* Sources and targets that a call refuses are named alike; other errors name none. */
static void test_refused_sentences(void **state)
{
  const fixture *f = *state;
  write_model(f);
  setup s;
  batch b;
  const char *message;
  tsr_generation g;
  tsr_scores scores;
  open_setup(f, "cpu", NULL, &s);
  make_sentences(&b);
  b.pool[3 * MAX_SOURCE] = VOCABULARY;
  tsr_generate_options options = options_for(&s, 1);
  assert_int_equal(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 0, &options, NULL, NULL, &g),
                   TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_error_sentence(&message), 3);
  assert_int_equal(strncmp(message, "token 0 is 37", strlen("token 0 is 37")), 0);
  assert_int_equal(
      tsr_score(s.transformer, N_SENTENCES, b.source, b.lengths, b.source, b.lengths, NULL, NULL, NULL, &scores),
      TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_error_sentence(&message), 3);
  assert_message("source of sentence 3: token 0 is 37");
  assert_int_equal(strncmp(message, "token 0 is 37", strlen("token 0 is 37")), 0);
  options.beam = 0;
  assert_int_equal(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 0, &options, NULL, NULL, &g),
                   TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_error_sentence(&message), -1);
  assert_string_equal(message, tsr_error_message());
  close_setup(&s);
  free_batch(&b);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_weights),    cmocka_unit_test(test_infinities),   cmocka_unit_test(test_largest_magnitude),
      cmocka_unit_test(test_memory),     cmocka_unit_test(test_sentence),     cmocka_unit_test(test_refused_sentences),
      cmocka_unit_test(test_beyond_f16), cmocka_unit_test(test_large_weight),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
