/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys by which compiled programs are found, and the tensors that a program is written and read by.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/transformer/programs.h"
#include "tests/support/configs.h"

/* Keys that differ in any one number are of different programs. */
static void test_key(void **state)
{
  (void)state;
  enum { N = sizeof(tsr_program_key) / sizeof(int32_t) };
  int32_t numbers[N];
  tsr_program_key key, other;
  for (int32_t i = 0; i < N; i++) {
    numbers[i] = 100 + i;
  }
  memcpy(&key, numbers, sizeof key);
  memcpy(&other, numbers, sizeof other);
  assert_true(tsr_program_key_equal(&key, &other));
  for (int32_t i = 0; i < N; i++) {
    numbers[i]++;
    memcpy(&other, numbers, sizeof other);
    numbers[i]--;
    assert_false(tsr_program_key_equal(&key, &other));
  }
  /* As they are written: fields that are left out are 0, wherever the key lies. */
  memset(&other, 0xff, sizeof other);
  other = (tsr_program_key){.kind = TSR_PROGRAM_BEAM, .size = {.batch = 3}, .positions = 0};
  key = (tsr_program_key){.kind = TSR_PROGRAM_BEAM, .size = {3}};
  assert_true(tsr_program_key_equal(&key, &other));
}

#define REF(field)                                                                                                     \
  {                                                                                                                    \
#field, offsetof(tsr_program_refs, field)                                                                          \
  }
static const struct {
  const char *name;
  size_t offset;
} refs_by_name[] = {
    REF(source),    REF(source_lengths), REF(target),    REF(token),      REF(position),
    REF(rows),      REF(suppress),       REF(phases),    REF(logits),     REF(encoder_output),
    REF(labels),    REF(losses),         REF(next),      REF(next_logit), REF(values),
    REF(scores),    REF(indices),        REF(from),      REF(from_rows),  REF(top_log_probability),
    REF(attention), REF(chosen),         REF(log_next),  REF(log_logit),  REF(log_step),
    REF(places),    REF(features),       REF(alignment),
};
enum { N_REFS = sizeof refs_by_name / sizeof refs_by_name[0] };
_Static_assert(sizeof(tsr_program_refs) == N_REFS * sizeof(tsr_ref), "each has its name");

/* What a program hands out of itself is what it has under that name, or nothing, as for the other. */
static void test_refs(void **state)
{
  (void)state;
  const tsr_program_size size = {.batch = 2, .source = 5, .target = 8, .beam = 3};
  const tsr_program_key keys[] = {
      {.kind = TSR_PROGRAM_ENCODE, .size = size, .shortlist = 4},
      {.kind = TSR_PROGRAM_ENCODE, .size = size},
      {.kind = TSR_PROGRAM_ENCODE, .size = size, .source_room = 8, .joined = 7},
      {.kind = TSR_PROGRAM_DECODE, .size = size},
      {.kind = TSR_PROGRAM_SCORE, .size = size},
      {.kind = TSR_PROGRAM_GREEDY, .size = size, .attention = 1},
      {.kind = TSR_PROGRAM_GREEDY, .size = size, .staggered = 1},
      {.kind = TSR_PROGRAM_GREEDY, .size = size, .masks = 4, .staggered = 1, .ahead = TSR_AHEAD_ONE},
      {.kind = TSR_PROGRAM_GREEDY, .size = size, .shortlist = 4, .ahead = TSR_AHEAD_ONE},
      {.kind = TSR_PROGRAM_GREEDY, .size = size, .shortlist = 4, .ahead = TSR_AHEAD_MANY},
      {.kind = TSR_PROGRAM_BEAM, .size = size, .masks = 1, .attention = 1},
      {.kind = TSR_PROGRAM_BEAM, .size = size, .masks = 2, .staggered = 1},
      {.kind = TSR_PROGRAM_BEAM, .size = size, .alignment = 2},
      {.kind = TSR_PROGRAM_BEAM, .size = size, .logits = 1, .candidates = 3, .normaliser = 1, .shortlist = 4},
      {.kind = TSR_PROGRAM_BEAM, .size = size, .candidates = TSR_WHOLE_ROWS, .staggered = 1},
      {.kind = TSR_PROGRAM_MOVE, .size = size, .moved = 1},
      {.kind = TSR_PROGRAM_PREFILL, .size = size, .positions = 8},
      {.kind = TSR_PROGRAM_GROW, .size = size, .positions = 4},
      {.kind = TSR_PROGRAM_GROW, .size = {.batch = 2, .target = 8, .beam = 3}, .positions = 4},
  };
  enum { N_KEYS = sizeof keys / sizeof keys[0] };
  int32_t seen[N_REFS] = {0};
  const tsr_transformer_config configs[] = {marian_config(), whisper_config()};
  tsr_model *models[2];
  for (int32_t i = 0; i < 2; i++) {
    assert_int_equal(tsr_model_create(&configs[i], &models[i]), TSR_OK);
  }
  for (size_t at = 0; at < 2 * (size_t)N_KEYS; at++) {
    const size_t i = at % N_KEYS;
    tsr_builder builder = {
        .model = models[at / N_KEYS], .alignment = (const int32_t[]){0, 1, 0, 0}, .n_alignment = keys[i].alignment};
    tsr_program_refs refs;
    memset(&refs, 0xff, sizeof refs);
    assert_int_equal(tsr_program_create(&builder.program), TSR_OK);
    assert_int_equal(tsr_build_program(&builder, &keys[i], &refs), TSR_OK);
    for (int32_t j = 0; j < N_REFS; j++) {
      tsr_ref ref;
      memcpy(&ref, (const char *)&refs + refs_by_name[j].offset, sizeof ref);
      if (ref != tsr_program_find(builder.program, refs_by_name[j].name)) {
        fail_msg("key %d: %s is tensor %d, the program has it as %d", (int)i, refs_by_name[j].name, (int)ref,
                 (int)tsr_program_find(builder.program, refs_by_name[j].name));
      }
      seen[j] += ref != TSR_NONE;
    }
    tsr_program_destroy(builder.program);
  }
  for (int32_t j = 0; j < N_REFS; j++) {
    if (seen[j] == 0) {
      fail_msg("no program of these has %s", refs_by_name[j].name);
    }
  }
  tsr_model_close(models[0]);
  tsr_model_close(models[1]);
}

/* The programs of a model of speech have its own windows, whatever is asked for. */
static void test_speech(void **state)
{
  (void)state;
  const tsr_transformer_config config = whisper_config();
  const tsr_program_size size = {.batch = 3, .source = 77, .target = 8, .beam = 2};
  const tsr_program_key other = {.kind = TSR_PROGRAM_ENCODE, .size = {.batch = 3, .source = 4}};
  tsr_model *model;
  tsr_program *program;
  tsr_program_refs refs;
  assert_int_equal(tsr_model_create(&config, &model), TSR_OK);
  for (int32_t kind = TSR_PROGRAM_ENCODE; kind <= TSR_PROGRAM_SCORE; kind++) {
    assert_int_equal(tsr_model_program(model, TSR_I8, kind, &size, &program), TSR_OK);
    const tsr_ref keys = tsr_program_find(program, "decoder.layers.0.cross_attention.keys");
    const tsr_ref features = tsr_program_find(program, "features"),
                  weight = tsr_program_find(program, "encoder.conv1.weight");
    assert_int_equal(tsr_ref_shape(program, keys).extent[1], 5);
    assert_int_equal(features != TSR_NONE, kind == TSR_PROGRAM_ENCODE);
    assert_int_equal(weight != TSR_NONE, kind == TSR_PROGRAM_ENCODE);
    if (kind == TSR_PROGRAM_ENCODE) {
      const tsr_shape expected = TSR_SHAPE(3, 7, 10), found = tsr_ref_shape(program, features);
      assert_true(tsr_shape_equal(&found, &expected));
      assert_int_equal(tsr_ref_dtype(program, weight), TSR_F32);
    }
    tsr_program_destroy(program);
  }
  tsr_builder builder = {.model = model};
  assert_int_equal(tsr_program_create(&builder.program), TSR_OK);
  assert_int_equal(tsr_build_program(&builder, &other, &refs), TSR_ERR_ARGUMENT);
  tsr_program_destroy(builder.program);
  tsr_model_close(model);
}

/* The parameters of the largest number of layers are found by their names, often: if each were compared with all
 * others, this would take minutes, and the test be given up. */
static void test_many_layers(void **state)
{
  (void)state;
  enum { TIMES = 50 };
  tsr_transformer_config config = marian_config();
  config.encoder_layers = config.decoder_layers = TSR_MAX_LAYERS;
  tsr_model *model;
  assert_int_equal(tsr_model_create(&config, &model), TSR_OK);
  const tsr_parameter_list *list = &model->parameters;
  assert_true(list->n > 20 * TSR_MAX_LAYERS);
  for (int32_t i = 0; i < TIMES * list->n; i++) {
    const tsr_parameter *parameter = &list->items[i % list->n];
    assert_ptr_equal(tsr_model_find(model, parameter->name), parameter);
  }
  assert_null(tsr_model_find(model, ""));
  assert_null(tsr_model_find(model, "encoder.layers.1024.self_attention.qkv.weight"));
  tsr_model_close(model);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_key),
      cmocka_unit_test(test_refs),
      cmocka_unit_test(test_speech),
      cmocka_unit_test(test_many_layers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
