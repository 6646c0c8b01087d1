/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/generate/batches.h"
#include "core/generate/details.h"

tsr_status tsr_prompt_init(tsr_prompt *prompt, const tsr_transformer_config *config,
                           const tsr_generate_options *options, const int32_t *source, int32_t n_source,
                           const int32_t *prefix, int32_t n_prefix)
{
  int32_t is_alone = config->encoder_layers == 0;
  const int32_t *ids = is_alone ? source : prefix;
  int32_t n = is_alone ? n_source : n_prefix;
  TSR_TRY(tsr_check_sentence(ids, n, INT32_MAX, config->target_vocabulary));
  /* The start token may be the first of the source, or has to be. */
  int32_t first = is_alone && n > 0 && (options->decoder_start_id < 0 || ids[0] == options->decoder_start_id);
  *prompt = (tsr_prompt){
      .ids = ids ? ids + first : NULL, .n = n - first, .n_given = n - first, .start = first ? source : NULL};
  return prompt->n <= options->max_length - 2 || prompt->n == 0
             ? TSR_OK
             : tsr_fail(TSR_ERR_ARGUMENT,
                        "has %d tokens; with the start token and another it has to fit into the maximum length of %d",
                        (int)n, (int)options->max_length);
}

const int32_t *tsr_search_first(const tsr_generate_options *options, int32_t *n)
{
  *n = options->search == TSR_SEARCH_CTRANSLATE2 && options->forced_bos_id >= 0;
  return *n > 0 ? &options->forced_bos_id : NULL;
}

int32_t tsr_search_rows(const tsr_generate_options *options)
{
  return options->sample ? options->n_best : options->beam;
}

int32_t tsr_search_is_beam(const tsr_generate_options *options)
{
  /* Scores of CTranslate2's greedy search are those of a beam of one. */
  return options->beam > 1 || options->search == TSR_SEARCH_MARIAN ||
         (options->search == TSR_SEARCH_CTRANSLATE2 && options->scores && !options->sample);
}

int32_t tsr_search_beam_candidates(const tsr_generate_options *options)
{
  return (options->n_eos > 1 ? 1 + options->n_eos : 2) * options->beam;
}

/* Of a program: none, one for all rows, or one for each phase that rows may be in. */
static int32_t count_masks(const tsr_search *search)
{
  const tsr_generate_options *options = search->options;
  const int is_masked = search->fed_back || (tsr_search_is_beam(options) && options->renormalize && !search->is_by_row);
  return !is_masked ? 0 : search->joins ? tsr_filter_phases(options) : 1;
}

/* 1 if the tokens that are suppressed at the beginning are so at different lengths. search->begin receives the one of
 * all sentences, if there is one; what will join is not known. */
static int32_t has_apart_beginnings(tsr_search *search)
{
  int32_t differ = 0;
  search->begin = tsr_search_begin(search, &search->sentences[0]);
  for (int32_t i = 1; i < search->count; i++) {
    differ |= tsr_search_begin(search, &search->sentences[i]) != search->begin;
  }
  return search->options->n_begin_suppressed > 0 && (differ || (search->joins && search->begin > 0));
}

/* Who chooses, and among how many. */
static void choose_candidates(tsr_search *search)
{
  const tsr_generate_options *options = search->options;
  int32_t vocabulary = search->filter.vocabulary;
  search->is_by_row = tsr_filter_is_by_row(options) || has_apart_beginnings(search);
  search->fed_back =
      !tsr_search_is_beam(options) && !options->sample && !options->scores && !options->details && !search->is_by_row;
  search->wanted = tsr_search_is_beam(options) ? tsr_search_beam_candidates(options)
                   : !options->sample          ? 1
                   : options->top_k > 0        ? options->top_k
                                               : vocabulary;
  search->wanted = search->wanted < vocabulary ? search->wanted : vocabulary;
  if (!search->fed_back && !(tsr_search_is_beam(options) && options->renormalize)) {
    enum { FIRST_ROOM = 8 };
    search->room = tsr_filter_shared(options) + (search->is_by_row ? FIRST_ROOM : 0);
  }
  /* Of what is left the rules of timestamps and the details need the sums. */
  search->has_changed = options->details && !tsr_search_is_beam(options);
  search->whole = tsr_filter_may_raise(options) || options->timestamps || search->has_changed ||
                  (tsr_search_is_beam(options) && options->renormalize && search->is_by_row);
  search->n_masks = count_masks(search);
}

void tsr_search_open(tsr_search *search, int32_t b, const tsr_sentence *sentence)
{
  search->sentences[b] = *sentence;
  search->sentences[b].is_open = 1;
  search->sentences[b].length = 1;
  search->sentences[b].prefilled = 0;
  search->lengths[b] = sentence->n_source;
}

/* Copies the sentences, and opens them. */
static tsr_status take_sentences(tsr_search *search, const tsr_sentence *sentences)
{
  size_t most = (size_t)search->most;
  search->sentences = malloc(most * sizeof *search->sentences);
  search->lengths = calloc(most, sizeof *search->lengths);
  search->positions = malloc(most * (size_t)search->beam * sizeof *search->positions);
  if (!search->sentences || !search->lengths || !search->positions) {
    return tsr_fail_memory(most * sizeof *search->sentences);
  }
  for (int32_t i = 0; i < search->count; i++) {
    tsr_search_open(search, i, &sentences[i]);
  }
  return TSR_OK;
}

int32_t tsr_search_attention_width(const tsr_search *search)
{
  return search->options->alignment ? search->options->n_alignment_heads * search->source_room : search->source_room;
}

int32_t tsr_search_traced(const tsr_search *search, const tsr_sentence *sentence)
{
  return search->options->alignment ? tsr_search_attention_width(search) : sentence->n_source;
}

tsr_status tsr_search_reserve_attention(tsr_search *search)
{
  size_t size = (size_t)search->most * (size_t)search->beam * (size_t)tsr_search_attention_width(search) *
                sizeof *search->attention;
  free(search->attention);
  search->attention = malloc(size);
  return search->attention ? TSR_OK : tsr_fail_memory(size);
}

/* Room for what each step finds. */
static tsr_status make_room(tsr_search *search)
{
  const tsr_generate_options *options = search->options;
  size_t rows = (size_t)search->most * (size_t)search->beam, vocabulary = (size_t)search->columns;
  search->normalisers = calloc(rows, sizeof *search->normalisers);
  search->changed = search->has_changed ? calloc(rows, sizeof *search->changed) : NULL;
  if (!search->normalisers || (search->has_changed && !search->changed)) {
    return tsr_fail_memory(rows * sizeof *search->normalisers);
  }
  if (options->attention || options->coverage_penalty > 0.0f || options->alignment) {
    TSR_TRY(tsr_search_reserve_attention(search));
  }
  if (search->n_masks > 0) {
    const size_t size = (size_t)search->n_masks * vocabulary * sizeof *search->mask;
    search->mask = malloc(size);
    if (!search->mask) {
      return tsr_fail_memory(size);
    }
  }
  return tsr_flight_init(search);
}

tsr_status tsr_search_init(tsr_search *search, tsr_transformer *transformer, const tsr_generate_options *options,
                           const tsr_search_client *client, const tsr_sentence *sentences, int32_t count, int32_t most)
{
  int32_t max_positions = tsr_config_source_positions(&transformer->model->config);
  int32_t longest = sentences[0].n_source, room = tsr_source_bucket(longest, max_positions);
  int32_t joins = client->join != NULL && !options->shortlist;
  *search = (tsr_search){.kind = tsr_search_is_beam(options) ? &tsr_search_beams : &tsr_search_independent,
                         .transformer = transformer,
                         .options = options,
                         .client = client,
                         .count = count,
                         .batch = tsr_batch_bucket(count),
                         .most = tsr_batch_bucket(joins ? most : count),
                         .most_open = most,
                         .joins = joins,
                         .source_room = room,
                         .beam = tsr_search_rows(options),
                         .columns = transformer->model->config.target_vocabulary,
                         .mask_phase = -1};
  search->source = tsr_search_is_frugal(transformer) ? tsr_source_step(longest, max_positions) : room;
  search->capacity = tsr_search_capacity(search, room + room / 2);
  if (options->alignment) {
    TSR_TRY(tsr_transformer_align(transformer, options->alignment_heads, options->n_alignment_heads));
  }
  TSR_TRY(tsr_filter_init(&search->filter, options, search->columns));
  tsr_status status = take_sentences(search, sentences);
  if (status == TSR_OK) {
    choose_candidates(search);
    status = make_room(search);
  }
  if (status != TSR_OK) {
    tsr_search_finish(search);
  }
  return status;
}

void tsr_search_finish(tsr_search *search)
{
  if (search->kind) {
    search->kind->finish(search->own);
  }
  tsr_filter_finish(&search->filter);
  free(search->attention);
  free(search->positions);
  free(search->flight.tokens);
  free(search->flight.logits);
  free(search->chosen);
  free(search->mask);
  free(search->lengths);
  free(search->sentences);
  free(search->scores);
  free(search->values);
  free(search->indices);
  free(search->normalisers);
  free(search->changed);
  *search = (tsr_search){0};
}

/* ---- from the first step to the last ----------------------------------------------------------------------------- */

static tsr_status begin(tsr_search *search)
{
  TSR_TRY(tsr_search_choose_tokens(search));
  TSR_TRY(tsr_search_encode(search));
  TSR_TRY(tsr_search_listen(search));
  TSR_TRY(tsr_search_prefill(search));
  TSR_TRY(search->kind->create(search));
  for (int32_t i = 0; i < search->count; i++) {
    TSR_TRY(search->kind->start(search->own, i));
  }
  return TSR_OK;
}

static int32_t count_open(const tsr_search *search)
{
  int32_t n = 0;
  for (int32_t i = 0; i < search->count; i++) {
    n += search->sentences[i].is_open;
  }
  return n;
}

/* Ends what nobody wants any more. */
static void drop_unwanted(tsr_search *search)
{
  const tsr_search_client *client = search->client;
  if (!client->look || client->look(client->user, count_open(search)) == 0) {
    return;
  }
  for (int32_t i = 0; i < search->count; i++) {
    tsr_sentence *sentence = &search->sentences[i];
    if (sentence->is_open && !client->is_wanted(client->user, sentence)) {
      sentence->is_open = 0;
      search->kind->drop(search->own, i);
    }
  }
}

/* Between two steps: who goes on, and in which rows. */
static tsr_status change_rows(tsr_search *search)
{
  int32_t joined = 0;
  drop_unwanted(search);
  if (search->joins) {
    TSR_TRY(tsr_search_join(search, &joined));
  }
  return joined == 0 && tsr_search_can_shrink(search, count_open(search)) ? tsr_search_shrink(search) : TSR_OK;
}

tsr_status tsr_search_run(tsr_search *search)
{
  TSR_TRY(begin(search));
  while (count_open(search) > 0) {
    TSR_TRY(search->kind->advance(search->own));
    TSR_TRY(search->kind->append(search->own));
    search->steps++;
    TSR_TRY(change_rows(search));
  }
  return TSR_OK;
}

void tsr_search_end(tsr_search *search, int32_t sentence, const tsr_hypothesis *hypotheses)
{
  search->sentences[sentence].is_open = 0;
  search->client->take(search->client->user, &search->sentences[sentence], hypotheses);
}

/* ---- what both kinds ask ----------------------------------------------------------------------------------------- */

double tsr_search_score(const tsr_generate_options *options, double sum, int32_t generated)
{
  double n = (double)generated;
  if (options->search == TSR_SEARCH_MARIAN) {
    sum -= (double)options->word_penalty * n;
  }
  return sum / pow(options->length_kind == TSR_LENGTH_GNMT ? (5.0 + n) / 6.0 : n, (double)options->length_penalty);
}

float tsr_search_head_share(const tsr_search *search)
{
  int32_t n = search->options->alignment; /* heads by themselves */
  for (uint32_t heads = search->options->attention_heads; heads != 0; heads &= heads - 1) {
    n++;
  }
  return 1.0f / (float)(n > 0 ? n : search->transformer->model->config.decoder_heads);
}

void tsr_search_hand_over(const tsr_search *search, int32_t sentence, float *attention, tsr_hypothesis *hypothesis)
{
  if (!search->options->attention) {
    free(attention);
    return;
  }
  hypothesis->attention = attention;
  hypothesis->n_source = search->sentences[sentence].n_source;
}

tsr_status tsr_search_hand_details(const tsr_search *search, int32_t sentence, int32_t number, float **attention,
                                   int32_t rows)
{
  const tsr_generate_options *options = search->options;
  float *weights = *attention;
  if (!options->alignment) {
    return TSR_OK;
  }
  *attention = NULL;
  return tsr_details_put_alignment(options->details, search->sentences[sentence].index, number, weights, rows,
                                   options->n_alignment_heads, search->source_room);
}

int32_t tsr_search_tell(const tsr_search *search, int32_t sentence, int32_t hypothesis, int32_t step, int32_t id,
                        int32_t is_last)
{
  const tsr_generate_options *options = search->options;
  if (!options->token) {
    return 0;
  }
  const tsr_token token = {.sentence = search->sentences[sentence].index,
                           .hypothesis = hypothesis,
                           .step = step,
                           .id = id,
                           .is_last = is_last};
  pthread_mutex_lock(search->lock);
  int32_t answer = options->token(options->token_user, &token);
  pthread_mutex_unlock(search->lock);
  return answer;
}

int32_t tsr_search_is_end(const tsr_generate_options *options, int32_t token)
{
  for (int32_t i = 0; i < options->n_eos; i++) {
    if (options->eos[i] == token) {
      return 1;
    }
  }
  return 0;
}

int32_t tsr_search_forced(const tsr_search *search, const tsr_sentence *sentence, int32_t length)
{
  const tsr_generate_options *options = search->options;
  if (length <= sentence->prompt.n) {
    return sentence->prompt.ids[length - 1];
  }
  if (options->forced_eos_id >= 0 && length == options->max_length - 1) {
    return options->forced_eos_id;
  }
  return length == 1 ? options->forced_bos_id : -1;
}

int32_t tsr_search_is_last(const tsr_search *search, const tsr_sentence *sentence)
{
  return sentence->length + 1 == search->options->max_length;
}
