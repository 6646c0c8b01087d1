/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of given outputs: the decoder sees each token's predecessors at once, and of each row of logits one
 * log-probability comes back.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/generate/batches.h"
#include "core/generate/score.h"
#include "core/generate/search.h"
#include "core/generate/settings.h"

enum {
  DEFAULT_SENTENCES = 32,
  MAX_SENTENCES = 4096,
  LOGITS_BYTES = 256 << 20 /* of a batch, if it has more than one sentence */
};

/* One call of tsr_score. */
typedef struct scoring {
  tsr_transformer *transformer;
  const int32_t *const *source;
  const int32_t *source_lengths;
  const int32_t *const *target;
  const int32_t *target_lengths;
  int32_t n_sentences;
  int32_t n_batch;
  int32_t start; /* what the decoder begins with */
  double length_penalty;
  tsr_target_score *targets;
  int32_t *order; /* sentences, longest first */
  /* The batch: */
  const int32_t *sentences; /* [count] in `order` */
  int32_t count;
  tsr_program_size size;
  /* What a batch reads and gives, for the largest so far: */
  int32_t *ids;     /* [B][S] of the source, then [B][L] */
  int32_t *labels;  /* [B][L] */
  int32_t *lengths; /* [B] of the sources */
  float *losses;    /* [B][L] */
} scoring;

static tsr_status make_order(scoring *s)
{
  size_t size = ((size_t)s->n_sentences + 1) * sizeof *s->order;
  int32_t *sums = malloc(size);
  s->order = malloc(size);
  if (!sums || !s->order) {
    free(sums);
    return tsr_fail_memory(size);
  }
  for (int32_t i = 0; i < s->n_sentences; i++) {
    sums[i] = s->source_lengths[i] + s->target_lengths[i];
  }
  tsr_status status = tsr_sort_longest_first(sums, s->n_sentences, s->order);
  free(sums);
  return status;
}

static tsr_program_size size_of_batch(const scoring *s)
{
  const tsr_transformer_config *config = &s->transformer->model->config;
  tsr_program_size size = {.batch = tsr_batch_bucket(s->count), .source = 1, .target = 1};
  for (int32_t b = 0; b < s->count; b++) {
    int32_t source = s->source_lengths[s->sentences[b]];
    int32_t target = s->target_lengths[s->sentences[b]];
    size.source = source > size.source ? source : size.source;
    size.target = target > size.target ? target : size.target;
  }
  size.source = tsr_source_bucket(size.source, config->max_positions);
  size.target = tsr_source_bucket(size.target, config->max_positions);
  return size;
}

static int is_too_large(const scoring *s)
{
  int64_t logits = (int64_t)s->size.batch * s->size.target * s->transformer->model->config.target_vocabulary;
  return s->size.batch > 1 && logits * (int64_t)sizeof(float) > LOGITS_BYTES;
}

/* The next batch, of sentences from number `done` of the order on. */
static void choose_batch(scoring *s, int32_t done)
{
  int32_t left = s->n_sentences - done;
  s->sentences = s->order + done;
  s->count = left < s->n_batch ? left : s->n_batch;
  for (s->size = size_of_batch(s); is_too_large(s); s->size = size_of_batch(s)) {
    s->count = (s->count + 1) / 2;
  }
}

static tsr_status reserve(scoring *s)
{
  const tsr_program_size *size = &s->size;
  size_t batch = (size_t)size->batch;
  size_t longest = (size_t)(size->source > size->target ? size->source : size->target);
  free(s->ids);
  free(s->labels);
  free(s->lengths);
  free(s->losses);
  s->ids = malloc(batch * longest * sizeof *s->ids);
  s->labels = malloc(batch * longest * sizeof *s->labels);
  s->lengths = malloc(batch * sizeof *s->lengths);
  s->losses = malloc(batch * longest * sizeof *s->losses);
  return s->ids && s->labels && s->lengths && s->losses ? TSR_OK : tsr_fail_memory(batch * longest * sizeof *s->ids);
}

static tsr_program_key encoder_key(const tsr_program_size *size)
{
  return (tsr_program_key){.kind = TSR_PROGRAM_ENCODE, .size = {.batch = size->batch, .source = size->source}};
}

/* What the encoder reads. user: the scoring. */
static tsr_status write_source(const tsr_compiled *encoder, void *user)
{
  scoring *s = user;
  const tsr_program_size *size = &s->size;
  for (int32_t b = 0; b < size->batch; b++) {
    s->lengths[b] = b < s->count ? s->source_lengths[s->sentences[b]] : 0;
    for (int32_t t = 0; t < size->source; t++) {
      s->ids[(size_t)b * (size_t)size->source + (size_t)t] = t < s->lengths[b] ? s->source[s->sentences[b]][t] : 0;
    }
  }
  TSR_TRY(tsr_executable_write(encoder->executable, encoder->refs.source, s->ids,
                               (int64_t)size->batch * size->source * (int64_t)sizeof *s->ids));
  return tsr_executable_write(encoder->executable, encoder->refs.source_lengths, s->lengths,
                              size->batch * (int64_t)sizeof *s->lengths);
}

static tsr_status encode(scoring *s)
{
  if (s->transformer->model->config.encoder_layers == 0) {
    return TSR_OK;
  }
  const tsr_program_key key = encoder_key(&s->size);
  tsr_compiled *c = NULL;
  TSR_TRY(tsr_transformer_compile(s->transformer, &key, &c));
  TSR_TRY(write_source(c, s));
  return tsr_executable_run(c->executable);
}

/* The decoder reads the start token and all tokens but the last, and is asked for all tokens. */
static void fill_target(scoring *s)
{
  for (int32_t b = 0; b < s->size.batch; b++) {
    const int32_t *target = b < s->count ? s->target[s->sentences[b]] : NULL;
    int32_t length = b < s->count ? s->target_lengths[s->sentences[b]] : 0;
    int32_t *ids = s->ids + (size_t)b * (size_t)s->size.target;
    int32_t *labels = s->labels + (size_t)b * (size_t)s->size.target;
    for (int32_t t = 0; t < s->size.target; t++) {
      ids[t] = t > 0 && t < length ? target[t - 1] : s->start;
      labels[t] = t < length ? target[t] : -1;
    }
  }
}

static tsr_status compile_decoder(scoring *s, tsr_compiled **c)
{
  const tsr_program_key key = {.kind = TSR_PROGRAM_SCORE, .size = s->size};
  return tsr_transformer_compile(s->transformer, &key, c);
}

static tsr_status decode(scoring *s)
{
  int64_t tokens = (int64_t)s->size.batch * s->size.target;
  tsr_compiled *c = NULL;
  fill_target(s);
  TSR_TRY(compile_decoder(s, &c));
  TSR_TRY(tsr_executable_write(c->executable, c->refs.target, s->ids, tokens * (int64_t)sizeof *s->ids));
  TSR_TRY(tsr_executable_write(c->executable, c->refs.labels, s->labels, tokens * (int64_t)sizeof *s->labels));
  if (c->refs.source_lengths != TSR_NONE) {
    TSR_TRY(tsr_executable_write(c->executable, c->refs.source_lengths, s->lengths,
                                 s->size.batch * (int64_t)sizeof *s->lengths));
  }
  TSR_TRY(tsr_executable_run(c->executable));
  return tsr_executable_read(c->executable, c->refs.losses, s->losses, tokens * (int64_t)sizeof *s->losses);
}

/* Explains NaN in the scores of the batch that was decoded last. token: of sentence b of the batch. */
static tsr_status not_finite(scoring *s, int32_t b, int32_t token)
{
  const tsr_program_key encoder = encoder_key(&s->size);
  tsr_compiled *decoder = NULL;
  TSR_TRY(compile_decoder(s, &decoder)); /* the one that ran, with its inputs */
  char when[64];
  snprintf(when, sizeof when, "at token %d", (int)token);
  const tsr_nan_step step = {
      .when = when, .ran = decoder, .encoder = &encoder, .write_source = write_source, .user = s};
  return tsr_fail_sentence(tsr_transformer_not_finite(s->transformer, &step), "", s->sentences[b]);
}

/* The first token of a sentence whose loss is NaN; -1: there is none. */
static int32_t find_nan(const scoring *s, int32_t sentence, const float *losses)
{
  for (int32_t t = 0; t < s->target_lengths[sentence]; t++) {
    if (isnan(losses[t])) {
      return t;
    }
  }
  return -1;
}

static tsr_status take_score(const scoring *s, int32_t sentence, const float *losses)
{
  tsr_target_score *score = &s->targets[sentence];
  int32_t n = s->target_lengths[sentence];
  score->tokens = malloc((size_t)n * sizeof *score->tokens + 1);
  if (!score->tokens) {
    return tsr_fail_memory((size_t)n * sizeof *score->tokens);
  }
  score->n_tokens = n;
  for (int32_t t = 0; t < n; t++) {
    score->tokens[t] = 0.0f - losses[t];
    score->sum += (double)score->tokens[t];
  }
  score->score = n > 0 ? score->sum / pow((double)n, s->length_penalty) : 0.0;
  return TSR_OK;
}

static tsr_status run(scoring *s, const tsr_score_watch *watch)
{
  TSR_TRY(make_order(s));
  for (int32_t done = 0; done < s->n_sentences; done += s->count) {
    if (watch->is_wanted && !watch->is_wanted(watch->user)) {
      return tsr_fail(TSR_ERR_CANCELLED, "the scores are not wanted any more");
    }
    choose_batch(s, done);
    TSR_TRY(reserve(s));
    TSR_TRY(encode(s));
    TSR_TRY(decode(s));
    for (int32_t b = 0; b < s->count; b++) {
      const float *losses = s->losses + (size_t)b * (size_t)s->size.target;
      int32_t token = find_nan(s, s->sentences[b], losses);
      TSR_TRY(token < 0 ? take_score(s, s->sentences[b], losses) : not_finite(s, b, token));
    }
    if (watch->progress) {
      watch->progress(watch->user, done + s->count, s->n_sentences);
    }
  }
  return TSR_OK;
}

int32_t tsr_score_batch(const tsr_score_options *options)
{
  return options->n_batch > 0 ? options->n_batch : DEFAULT_SENTENCES;
}

/* What the decoder begins with. */
static tsr_status find_start(const tsr_transformer_config *config, const tsr_score_options *options, int32_t *start)
{
  tsr_generate_options plain = tsr_generate_plain(config);
  plain.decoder_start_id = options->decoder_start_id ? *options->decoder_start_id : -1;
  TSR_TRY(tsr_generate_check_options(config, &plain));
  *start = plain.decoder_start_id >= 0 ? plain.decoder_start_id : config->decoder_start_id;
  return *start >= 0 ? TSR_OK
                     : tsr_fail(TSR_ERR_FORMAT,
                                "the model's files do not say what its decoder starts with (decoder_start_token_id)");
}

tsr_status tsr_score_check(const tsr_transformer_config *config, int32_t n_sentences, const int32_t *const *source,
                           const int32_t *source_lengths, const int32_t *const *target, const int32_t *target_lengths,
                           const tsr_score_options *options)
{
  int32_t start;
  if (options->n_batch < 0 || options->n_batch > MAX_SENTENCES || !isfinite(options->length_penalty)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_score: a batch of %d; it should be 1 to %d, or 0; and a length_penalty of %g",
                    (int)options->n_batch, (int)MAX_SENTENCES, (double)options->length_penalty);
  }
  TSR_TRY(find_start(config, options, &start));
  for (int32_t i = 0; i < n_sentences; i++) {
    TSR_TRY(tsr_fail_sentence(
        tsr_check_sentence(source[i], source_lengths[i], config->max_positions, config->source_vocabulary),
        "source of ", i));
    TSR_TRY(tsr_fail_sentence(
        tsr_check_sentence(target[i], target_lengths[i], config->max_positions, config->target_vocabulary),
        "target of ", i));
  }
  return TSR_OK;
}

tsr_status tsr_score_watched(tsr_transformer *transformer, int32_t n_sentences, const int32_t *const *source,
                             const int32_t *source_lengths, const int32_t *const *target, const int32_t *target_lengths,
                             const tsr_score_options *options, const tsr_score_watch *watch, tsr_scores *scores)
{
  if (!transformer || !scores || n_sentences < 0 ||
      (n_sentences > 0 && (!source || !source_lengths || !target || !target_lengths))) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_score: transformer, source, target, their lengths and scores are needed");
  }
  *scores = (tsr_scores){0};
  TSR_TRY(tsr_model_check_reads_text(transformer->model, "tsr_score", NULL));
  const tsr_transformer_config *config = &transformer->model->config;
  int32_t start = 0;
  tsr_score_options given;
  TSR_TRY(TSR_SIZED_READ(tsr_score_options, decoder_start_id, options, &given));
  given.length_penalty = options ? given.length_penalty : 1.0f;
  TSR_TRY(tsr_score_check(config, n_sentences, source, source_lengths, target, target_lengths, &given));
  TSR_TRY(find_start(config, &given, &start));
  size_t size = ((size_t)n_sentences + 1) * sizeof *scores->targets;
  scoring s = {.transformer = transformer,
               .source = source,
               .source_lengths = source_lengths,
               .target = target,
               .target_lengths = target_lengths,
               .n_sentences = n_sentences,
               .n_batch = tsr_score_batch(&given),
               .start = start,
               .length_penalty = (double)given.length_penalty};
  s.targets = calloc(1, size);
  if (!s.targets) {
    return tsr_fail_memory(size);
  }
  *scores = (tsr_scores){.n_sentences = n_sentences, .targets = s.targets};
  tsr_status status = run(&s, watch);
  free(s.order);
  free(s.ids);
  free(s.labels);
  free(s.lengths);
  free(s.losses);
  if (status != TSR_OK) {
    tsr_scores_finish(scores);
  }
  return status;
}

tsr_status tsr_score(tsr_transformer *transformer, int32_t n_sentences, const int32_t *const *source,
                     const int32_t *source_lengths, const int32_t *const *target, const int32_t *target_lengths,
                     const tsr_score_options *options, tsr_progress_fn progress, void *user, tsr_scores *scores)
{
  const tsr_score_watch watch = {.user = user, .progress = progress};
  return tsr_score_watched(transformer, n_sentences, source, source_lengths, target, target_lengths, options, &watch,
                           scores);
}

void tsr_scores_finish(tsr_scores *scores)
{
  if (!scores) {
    return;
  }
  for (int32_t i = 0; scores->targets && i < scores->n_sentences; i++) {
    free(scores->targets[i].tokens);
  }
  free(scores->targets);
  *scores = (tsr_scores){0};
}
