/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that is split over devices: what lies where, and that all searches give what one device gives.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/shortlist.h"
#include "tests/model/generation.h"
#include "tests/model/random_model.h"

/* ---- what lies where --------------------------------------------------------------------------------------------- */

static tsr_model *make_model(int32_t encoder, int32_t decoder, int32_t vocabulary, int32_t tied)
{
  tsr_transformer_config config = {.struct_size = sizeof config,
                                   .d_model = 32,
                                   .encoder_layers = encoder,
                                   .decoder_layers = decoder,
                                   .encoder_heads = 4,
                                   .decoder_heads = 4,
                                   .encoder_d_ff = 96,
                                   .decoder_d_ff = 96,
                                   .source_vocabulary = vocabulary,
                                   .target_vocabulary = vocabulary,
                                   .max_positions = 128,
                                   .norm = TSR_NORM_RMS,
                                   .norm_position = TSR_NORM_PRE,
                                   .final_norm = 1,
                                   .activation = TSR_ACTIVATION_RELU,
                                   .position = TSR_POSITION_RELATIVE,
                                   .relative_buckets = 32,
                                   .relative_distance = 128,
                                   .shared_embedding = 1,
                                   .tied_logits = tied,
                                   .embedding_scale = 1.0f,
                                   .attention_scale = 1.0f,
                                   .logits_scale = tied ? 1.0f / sqrtf(32.0f) : 1.0f,
                                   .epsilon = 1e-6f,
                                   .bos_id = -1,
                                   .unk_id = 2,
                                   .eos_id = 1,
                                   .decoder_start_id = -1};
  strcpy(config.family, "t5");
  tsr_model *model;
  check(tsr_model_create(&config, &model));
  return model;
}

static int64_t bytes_of(const tsr_model *model)
{
  int64_t sum = 0;
  for (int32_t i = 0; i < tsr_model_parameter_count(model); i++) {
    tsr_parameter_info info;
    check(tsr_model_parameter(model, i, &info));
    sum += tsr_shape_elements(&info.shape) * (int64_t)sizeof(float);
  }
  return sum;
}

/* The fullest device's fullness when the blocks from `first` on go to devices from `device` on in the best way: all
 * ways are tried. */
static double best_way(const tsr_split *split, const uint64_t *memory, int32_t n, int32_t device, int32_t first)
{
  double best = 1e300, own = 0.0;
  if (device == n) {
    return first == split->n_blocks ? 0.0 : 1e300;
  }
  for (int32_t end = first; end <= split->n_blocks; end++) {
    const double rest = best_way(split, memory, n, device + 1, end), fullest = own > rest ? own : rest;
    best = fullest < best ? fullest : best;
    own += end < split->n_blocks ? (double)split->bytes[end] / (double)memory[device] : 0.0;
  }
  return best;
}

static void test_places(void **state)
{
  static const uint64_t memories[][4] = {
      {1 << 24, 1 << 24, 1 << 24, 1 << 24}, {1 << 26, 1 << 22, 1 << 24, 1 << 23}, {1 << 21, 1 << 27, 1 << 21, 1 << 27}};
  static const int32_t shapes[][4] = {{6, 6, 100, 1}, {1, 7, 3000, 1}, {5, 2, 3000, 0}, {12, 1, 10, 1}};
  (void)state;
  for (size_t m = 0; m < sizeof shapes / sizeof shapes[0]; m++) {
    tsr_model *model = make_model(shapes[m][0], shapes[m][1], shapes[m][2], shapes[m][3]);
    for (size_t k = 0; k < 3 * 4; k++) {
      const uint64_t *memory = memories[k / 4];
      const int32_t n = 1 + (int32_t)(k % 4);
      tsr_split split;
      check(tsr_split_make(model, TSR_F32, memory, n, &split));
      double fullest = 0.0;
      int64_t sum = 0;
      for (int32_t d = 0; d < n; d++) {
        const double fullness = (double)split.total[d] / (double)memory[d];
        fullest = fullness > fullest ? fullness : fullest;
        sum += split.total[d];
      }
      assert_int_equal(sum, bytes_of(model));
      for (int32_t i = 1; i < split.n_blocks; i++) {
        assert_true(split.device[i] >= split.device[i - 1] && split.device[i] < n);
      }
      const double best = best_way(&split, memory, n, 0, 0);
      assert_true(fullest <= best * 1.000001 && best <= fullest * 1.000001);
      for (int32_t i = 0; i < tsr_model_parameter_count(model); i++) { /* a layer is never divided */
        tsr_parameter_info info;
        int layer;
        check(tsr_model_parameter(model, i, &info));
        if (sscanf(info.name, "decoder.layers.%d.", &layer) == 1) {
          assert_int_equal(tsr_split_parameter(&split, model, i), tsr_split_decoder_layer(&split, model, layer));
        } else if (strcmp(info.name, "embedding.weight") == 0) {
          assert_int_equal(tsr_split_parameter(&split, model, i), tsr_split_tables(&split, model));
        }
      }
      tsr_split_finish(&split);
    }
    tsr_model_close(model);
  }
}

static void test_room(void **state)
{
  tsr_model *model = make_model(4, 4, 500, 1);
  const uint64_t all = (uint64_t)bytes_of(model);
  const uint64_t unknown[] = {0, 0}, small[] = {all / 4, all / 4}, enough[] = {all * 2 / 3, all * 2 / 3};
  tsr_split split;
  (void)state;
  assert_int_equal(tsr_split_make(model, TSR_F32, small, 2, &split), TSR_ERR_DEVICE_MEMORY);
  assert_non_null(strstr(tsr_error_message(), "does not fit into the memory of 2 devices"));
  tsr_split_finish(&split);
  check(tsr_split_make(model, TSR_F32, enough, 2, &split));
  assert_true(split.total[0] > 0 && split.total[1] > 0);
  tsr_split_finish(&split);
  check(tsr_split_make(model, TSR_F16, small, 1, &split)); /* one device says so itself, when it loads */
  tsr_split_finish(&split);
  check(tsr_split_make(model, TSR_F32, unknown, 2, &split));
  assert_true(split.total[0] > 0 && split.total[1] > 0);
  int64_t wide = split.total[0] + split.total[1];
  tsr_split_finish(&split);
  check(tsr_split_make(model, TSR_I8, unknown, 2, &split));
  assert_true(split.total[0] + split.total[1] < wide / 3);
  tsr_split_finish(&split);
  tsr_model_close(model);
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

static void test_parts(void **state)
{
  const fixture *f = *state;
  tsr_model *model = make_model(6, 3, 200, 1);
  tsr_device *devices[3] = {NULL};
  tsr_model_part part;
  int64_t bytes = 0;
  int32_t encoder = 0, decoder = 0, tables = 0;
  for (int32_t i = 0; i < 3; i++) {
    check(tsr_device_open(f->runtime, "reference", &devices[i]));
  }
  for (int32_t i = 0; i < 3; i++) {
    check(tsr_model_get_part(model, TSR_F32, devices, 3, i, &part));
    assert_true(part.encoder_layers == 0 || part.first_encoder_layer == encoder);
    assert_true(part.decoder_layers == 0 || part.first_decoder_layer == decoder);
    assert_int_equal(part.has_tables, part.has_logits); /* these are tied */
    encoder += part.encoder_layers;
    decoder += part.decoder_layers;
    tables += part.has_tables;
    bytes += part.weight_bytes;
  }
  assert_int_equal(encoder, 6);
  assert_int_equal(decoder, 3);
  assert_int_equal(tables, 1);
  assert_int_equal(bytes, bytes_of(model));
  assert_int_equal(tsr_model_get_part(model, TSR_F32, devices, 3, 3, &part), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_model_get_part(model, TSR_F32, devices, 0, 0, &part), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_model_get_part(model, TSR_F32, devices, 17, 0, &part), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_model_get_part(NULL, TSR_F32, devices, 3, 0, &part), TSR_ERR_ARGUMENT);
  for (int32_t i = 0; i < 3; i++) {
    tsr_device_close(devices[i]);
  }
  tsr_model_close(model);
}

static void test_refusals(void **state)
{
  const fixture *f = *state;
  static const random_model small = {.seed = 7};
  random_model_write(f->folder, &small);
  setup s;
  open_setup(f, "reference", NULL, &s);
  tsr_device *const same[] = {s.device}, *const none[] = {NULL};
  static const struct {
    int32_t n, which;
    const char *message;
  } cases[] = {{1, 0, "device 2 of those that share the model is reference:0"},
               {1, 1, "device 2 of those that share the model is NULL"},
               {16, 0, "over 1 to 16 devices, not over 17"},
               {-1, 0, "not over 0"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .n_others = cases[i].n,
                                             .others = cases[i].which ? none : same};
    tsr_transformer *t;
    assert_int_equal(tsr_transformer_create(s.model, s.device, &options, &t), TSR_ERR_ARGUMENT);
    assert_null(t);
    assert_non_null(strstr(tsr_error_message(), cases[i].message));
  }
  close_setup(&s);
}

/* ---- searches ---------------------------------------------------------------------------------------------------- */

enum { N_SENTENCES = 7, MOST_OTHERS = 3 };

/* A model on n devices of one kind. */
typedef struct several {
  tsr_device *others[MOST_OTHERS];
  int32_t n;
  setup s;
} several;

static void open_several(const fixture *f, const char *device, int32_t n, tsr_transformer_options options, several *on)
{
  *on = (several){.n = n - 1};
  for (int32_t i = 0; i < on->n; i++) {
    check(tsr_device_open(f->runtime, device, &on->others[i]));
  }
  options.others = on->others;
  options.n_others = on->n;
  open_setup(f, device, &options, &on->s);
  int32_t n_devices;
  tsr_device *const *devices = tsr_transformer_devices(on->s.transformer, &n_devices);
  assert_int_equal(n_devices, n);
  assert_ptr_equal(devices[0], on->s.device);
  assert_true(n == 1 || devices[n - 1] == on->others[n - 2]);
}

static void close_several(several *on)
{
  close_setup(&on->s);
  for (int32_t i = 0; i < on->n; i++) {
    tsr_device_close(on->others[i]);
  }
}

static void compare(const setup *one, const setup *split, const batch *b, const tsr_generate_options *options)
{
  tsr_generation expected, found;
  check(tsr_generate(one->transformer, N_SENTENCES, b->source, b->lengths, 4, options, NULL, NULL, &expected));
  check(tsr_generate(split->transformer, N_SENTENCES, b->source, b->lengths, 4, options, NULL, NULL, &found));
  for (int32_t i = 0; i < N_SENTENCES * expected.n_best; i++) {
    const tsr_hypothesis *a = &expected.hypotheses[i], *other = &found.hypotheses[i];
    assert_int_equal(a->n_ids, other->n_ids);
    assert_memory_equal(a->ids, other->ids, (size_t)a->n_ids * sizeof *a->ids);
    assert_memory_equal(&a->score, &other->score, sizeof a->score); /* the bits, as all devices are of one kind */
  }
  tsr_generation_finish(&expected);
  tsr_generation_finish(&found);
}

static void compare_searches(const setup *one, const setup *split, const batch *b, const tsr_shortlist *list)
{
  for (int32_t beam = 1; beam <= 3; beam += 2) {
    tsr_generate_options options = options_for(one, beam);
    options.max_length = 60; /* the cache grows */
    compare(one, split, b, &options);
    options.shortlist = list;
    options.suppressed = (const int32_t[]){5};
    options.n_suppressed = 1;
    options.min_length = 6;
    options.scores = 1;
    compare(one, split, b, &options);
  }
  tsr_generate_options options = options_for(one, 1);
  options.sample = 1;
  options.n_best = 2;
  compare(one, split, b, &options);
}

/* Keys and values lie with their layers. */
static void check_states(const tsr_transformer *t)
{
  for (int32_t i = 0; i < 2 * t->model->config.decoder_layers; i++) {
    const tsr_device *device = t->devices[tsr_split_decoder_layer(&t->split, t->model, i / 2)];
    assert_ptr_equal(tsr_buffer_device(t->self.buffers[i]), device);
    assert_ptr_equal(tsr_buffer_device(t->cross.buffers[i]), device);
  }
}

static void test_searches(void **state)
{
  const fixture *f = *state;
  static const random_model models[] = {
      {.seed = 311, .layers = 3},
      {.seed = 312, .nn = 1, .d_model = 20, .heads = 5, .layers = 2, .vocabulary = 53, .target = 37},
      {.seed = 313, .nn = 1, .norm_first = 1, .max_distance = 4, .layers = 2, .target = 37},
  };
  static const struct {
    const char *device;
    int32_t n;
    tsr_dtype weights;
  } splits[] = {{"reference", 2, TSR_F32}, {"reference", 4, TSR_F32}, {"cpu", 3, TSR_F32},
                {"cpu", 2, TSR_I8},        {"cpu", 2, TSR_BF16},      {"vulkan:0", 2, TSR_F32}};
  tsr_shortlist *list;
  check(tsr_shortlist_create(37, 37, NULL, 0, 37, 0, &list));
  for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
    random_model_write(f->folder, &models[m]);
    for (size_t k = 0; k < sizeof splits / sizeof splits[0]; k++) {
      const tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .weights = splits[k].weights};
      tsr_device *there;
      if (m > 0 && strcmp(splits[k].device, "vulkan:0") == 0) {
        continue; /* where a driver's compiler takes longest */
      }
      if (tsr_device_open(f->runtime, splits[k].device, &there) != TSR_OK) {
        assert_string_equal(splits[k].device, "vulkan:0");
        continue;
      }
      tsr_device_close(there);
      several one, split;
      batch b;
      open_several(f, splits[k].device, 1, options, &one);
      open_several(f, splits[k].device, splits[k].n, options, &split);
      make_batch(models[m].seed, 37, N_SENTENCES, &b);
      compare_searches(&one.s, &split.s, &b, list);
      check_states(split.s.transformer);
      free_batch(&b);
      close_several(&one);
      close_several(&split);
    }
  }
  tsr_shortlist_close(list);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_places),   cmocka_unit_test(test_room),     cmocka_unit_test(test_parts),
      cmocka_unit_test(test_refusals), cmocka_unit_test(test_searches),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
