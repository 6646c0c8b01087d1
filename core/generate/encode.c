/* SPDX-License-Identifier: Apache-2.0
 *
 * What a search computes before its first step: the tokens that may come out, the encoder, and prompts.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/generate/search.h"
#include "core/generate/shortlist.h"

tsr_status tsr_search_choose_tokens(tsr_search *search)
{
  const tsr_generate_options *options = search->options;
  const tsr_transformer_config *config = &search->transformer->model->config;
  tsr_token_set set;
  if (!options->shortlist) {
    return TSR_OK;
  }
  TSR_TRY(tsr_token_set_init(&set, options->shortlist, config->target_vocabulary));
  tsr_token_set_add(&set, config->unk_id);
  tsr_token_set_add(&set, options->forced_bos_id); /* -1 is none */
  tsr_token_set_add(&set, options->forced_eos_id);
  for (int32_t i = 0; i < options->n_eos; i++) {
    tsr_token_set_add(&set, options->eos[i]);
  }
  for (int32_t i = 0; i < search->count; i++) {
    tsr_token_set_add_source(&set, options->shortlist, search->sentences[i].source, search->sentences[i].n_source);
  }
  tsr_status status = tsr_token_set_list(&set, &search->chosen, &search->n_chosen);
  tsr_token_set_finish(&set);
  if (status == TSR_OK) {
    search->columns = search->n_chosen;
    search->wanted = search->wanted < search->columns ? search->wanted : search->columns;
  }
  return status;
}

/* The sentence that stands at place i of an encoder's batch, or NULL. */
static const tsr_sentence *sentence_at(const tsr_search *search, const int32_t *rows, int32_t n, int32_t i)
{
  return i < n ? &search->sentences[rows ? rows[i] : i] : NULL;
}

static tsr_status write_tokens(const tsr_search *search, const tsr_compiled *encode, const int32_t *rows, int32_t n)
{
  const tsr_transformer_config *config = &search->transformer->model->config;
  const int32_t pad = config->pad_id >= 0 && config->pad_id < config->source_vocabulary ? config->pad_id : 0;
  const int32_t batch = encode->key.size.batch, width = encode->key.size.source;
  const size_t size = (size_t)batch * (size_t)width * sizeof(int32_t);
  int32_t *ids = malloc(size);
  if (!ids) {
    return tsr_fail_memory(size);
  }
  for (int32_t i = 0; i < batch; i++) {
    const tsr_sentence *sentence = sentence_at(search, rows, n, i);
    for (int32_t t = 0; t < width; t++) {
      ids[(size_t)i * (size_t)width + (size_t)t] = sentence && t < sentence->n_source ? sentence->source[t] : pad;
    }
  }
  tsr_status status = tsr_executable_write(encode->executable, encode->refs.source, ids, (int64_t)size);
  free(ids);
  return status;
}

static tsr_status write_features(const tsr_search *search, const tsr_compiled *encode, const int32_t *rows, int32_t n)
{
  const tsr_transformer_config *config = &search->transformer->model->config;
  const int32_t batch = encode->key.size.batch;
  const size_t window = (size_t)config->mels * 2 * (size_t)config->source_positions;
  const size_t size = (size_t)batch * window * sizeof(float);
  if (batch == 1 && n == 1) {
    return tsr_executable_write(encode->executable, encode->refs.features, sentence_at(search, rows, n, 0)->features,
                                (int64_t)size);
  }
  float *features = malloc(size);
  if (!features) {
    return tsr_fail_memory(size);
  }
  for (int32_t i = 0; i < batch; i++) {
    const tsr_sentence *sentence = sentence_at(search, rows, n, i);
    float *to = features + (size_t)i * window;
    if (sentence) {
      memcpy(to, sentence->features, window * sizeof *to);
    } else {
      memset(to, 0, window * sizeof *to);
    }
  }
  tsr_status status = tsr_executable_write(encode->executable, encode->refs.features, features, (int64_t)size);
  free(features);
  return status;
}

tsr_status tsr_search_write_source(const tsr_search *search, const tsr_compiled *encode, const int32_t *rows, int32_t n)
{
  const int32_t batch = encode->key.size.batch;
  const size_t size = (size_t)batch * sizeof(int32_t);
  TSR_TRY(encode->refs.features != TSR_NONE ? write_features(search, encode, rows, n)
                                            : write_tokens(search, encode, rows, n));
  int32_t *lengths = malloc(size);
  if (!lengths) {
    return tsr_fail_memory(size);
  }
  for (int32_t i = 0; i < batch; i++) {
    const tsr_sentence *sentence = sentence_at(search, rows, n, i);
    lengths[i] = sentence ? sentence->n_source : 0;
  }
  tsr_status status = tsr_executable_write(encode->executable, encode->refs.source_lengths, lengths, (int64_t)size);
  free(lengths);
  return status;
}

static tsr_status run_encoder(tsr_search *search, tsr_compiled *encode)
{
  tsr_transformer *t = search->transformer;
  double start = tsr_seconds();
  TSR_TRY(tsr_search_write_source(search, encode, NULL, search->count));
  if (search->chosen) {
    TSR_TRY(tsr_executable_write(encode->executable, encode->refs.chosen, search->chosen,
                                 search->n_chosen * (int64_t)sizeof *search->chosen));
  }
  TSR_TRY(tsr_transformer_run(t, encode, 1.0));
  t->work.encode_seconds += tsr_seconds() - start;
  t->work.encode_runs++;
  return TSR_OK;
}

tsr_status tsr_search_encode(tsr_search *search)
{
  tsr_transformer *t = search->transformer;
  TSR_TRY(tsr_transformer_reserve(t, (int64_t)search->most * search->source_room,
                                  (int64_t)search->most * search->beam * search->capacity));
  if (t->model->config.encoder_layers == 0) {
    return TSR_OK;
  }
  tsr_program_key key = {.kind = TSR_PROGRAM_ENCODE,
                         .size = {.batch = search->batch, .source = search->source},
                         .source_room = search->source_room,
                         .shortlist = search->n_chosen};
  tsr_compiled *encode = NULL;
  TSR_TRY(tsr_transformer_compile(t, &key, &encode));
  return run_encoder(search, encode);
}

/* Positions that every prompt fills: the start token and all but the last of its tokens. */
static int32_t common_positions(const tsr_search *search)
{
  int32_t least = INT32_MAX;
  for (int32_t i = 0; i < search->count && least > 0; i++) {
    int32_t n = search->sentences[i].prompt.n;
    least = n < least ? n : least;
  }
  return least;
}

static tsr_status run_prefill(tsr_search *search, const tsr_program_key *key, int32_t *ids)
{
  for (int32_t b = 0; b < search->batch; b++) {
    const tsr_prompt prompt = b < search->count ? search->sentences[b].prompt : (tsr_prompt){0};
    for (int32_t i = 0; i < key->positions; i++) {
      ids[(size_t)b * (size_t)key->positions + (size_t)i] = i > 0 && i <= prompt.n ? prompt.ids[i - 1]
                                                            : prompt.start         ? *prompt.start
                                                                                   : search->options->decoder_start_id;
    }
  }
  tsr_compiled *prefill = NULL;
  TSR_TRY(tsr_transformer_compile(search->transformer, key, &prefill));
  TSR_TRY(tsr_executable_write(prefill->executable, prefill->refs.target, ids,
                               (int64_t)search->batch * key->positions * (int64_t)sizeof *ids));
  if (prefill->refs.source_lengths != TSR_NONE) {
    TSR_TRY(tsr_executable_write(prefill->executable, prefill->refs.source_lengths, search->lengths,
                                 search->batch * (int64_t)sizeof *search->lengths));
  }
  return tsr_transformer_run(search->transformer, prefill, 1.0);
}

tsr_status tsr_search_prefill(tsr_search *search)
{
  enum { LEAST = 3, MOST_ROWS = 16, ROUND = 8 };
  int32_t is_beam = tsr_search_is_beam(search->options);
  int32_t n = common_positions(search);
  if (n < LEAST || search->attention || (!is_beam && search->beam > MOST_ROWS)) {
    return TSR_OK;
  }
  if (search->capacity < n) {
    search->capacity = tsr_search_capacity(search, n + n / 2); /* nothing is in the cache yet */
  }
  /* What is kept beyond the prompt is written anew before it is read. */
  int32_t positions = (n + ROUND - 1) / ROUND * ROUND;
  tsr_program_key key = {
      .kind = TSR_PROGRAM_PREFILL,
      .size = {.batch = search->batch, .source = search->source_room, .target = search->capacity, .beam = search->beam},
      .logits = !is_beam,
      .positions = positions < search->capacity ? positions : search->capacity};
  size_t size = (size_t)search->batch * (size_t)key.positions * sizeof(int32_t);
  int32_t *ids = malloc(size);
  if (!ids) {
    return tsr_fail_memory(size);
  }
  double start = tsr_seconds();
  tsr_status status = run_prefill(search, &key, ids);
  free(ids);
  for (int32_t i = 0; i < search->count; i++) {
    search->sentences[i].prefilled = n;
  }
  search->transformer->work.step_seconds += tsr_seconds() - start;
  search->transformer->work.step_runs++;
  return status;
}
