/* SPDX-License-Identifier: Apache-2.0
 *
 * From a request to a job: options, languages, tokens.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/generate/batches.h"
#include "core/generate/settings.h"
#include "core/translate/translate.h"

/* What the model's folder asks for, or the request, without what the translator sets itself. */
static tsr_status choose_options(const tsr_translator *t, const tsr_translation_request *request, tsr_job *job,
                                 tsr_generate_options *options)
{
  *options = t->defaults;
  if (request->search) {
    TSR_TRY(TSR_SIZED_READ(tsr_generate_options, token_user, request->search, options));
  }
  options->struct_size = (uint32_t)sizeof *options;
  options->prefix = NULL;
  options->prefix_lengths = NULL;
  options->languages = NULL; /* of sound */
  options->n_languages = 0;
  options->token = request->piece ? tsr_pieces_receive : NULL;
  options->token_user = NULL;
  options->first_sentence = 0;
  options->partial = 0;
  if (options->details) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translation_request: a translation has no details");
  }
  if (request->piece && options->alternatives > 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translation_request: alternatives cannot come in pieces");
  }
  job->has_attention = options->attention;
  if (request->alignment && tsr_model_config(t->model)->encoder_layers > 0) {
    options->attention = 1;
    if (options->attention_layer == 0) {
      options->attention_layer = t->alignment_layer;
      options->attention_heads = options->attention_heads != 0 ? options->attention_heads : t->alignment_heads;
    }
  }
  const tsr_model_alignment *alignment = &t->model->alignment;
  job->replaces = tsr_model_config(t->model)->encoder_layers > 0 &&
                  (request->replace_unknown > 0 || (request->replace_unknown == 0 && alignment->replaces_unknown));
  if (job->replaces) {
    options->attention = 1;
    if (options->attention_layer == 0) {
      options->attention_layer = alignment->layer > 0 ? alignment->layer : t->alignment_layer;
      options->attention_heads = alignment->layer > 0 ? alignment->heads : t->alignment_heads;
    }
  }
  int32_t positions = tsr_model_config(t->model)->max_positions;
  if (positions > 0 && options->max_length > positions) {
    options->max_length = positions;
  }
  return TSR_OK;
}

/* The target language's token goes to the search, which begins with it or forces it. What the model's folder asks for
 * stands where no language was chosen. */
static tsr_status choose_languages(const tsr_translation_request *request, tsr_job *job, tsr_generate_options *options)
{
  tsr_tokenizer_info info;
  TSR_TRY(tsr_tokenizer_set_languages(&job->tokenizer, request->source_language, request->target_language));
  TSR_TRY(tsr_tokenizer_get_info(&job->tokenizer, &info));
  if (info.forced_bos_id >= 0 && (request->target_language || options->forced_bos_id < 0)) {
    options->forced_bos_id = info.forced_bos_id;
  }
  if (info.decoder_start_id >= 0 && request->target_language) {
    options->decoder_start_id = info.decoder_start_id;
  }
  job->skipped_id = info.forced_bos_id;
  return TSR_OK;
}

/* What a decoder alone goes on from is part of its output. */
static int32_t most_tokens(const tsr_transformer_config *config, int32_t max_length, int32_t wanted)
{
  int32_t most = config->max_positions > 0 ? config->max_positions : INT32_MAX;
  if (config->encoder_layers == 0) {
    most = max_length > 2 ? max_length - 2 : 1;
  }
  return wanted > 0 && wanted < most ? wanted : most;
}

int32_t tsr_translator_max_source(const tsr_translator *translator, const tsr_generate_options *search, int32_t wanted)
{
  const tsr_transformer_config *config = tsr_model_config(translator->model);
  int32_t length = search ? search->max_length : translator->defaults.max_length;
  length = config->max_positions > 0 && length > config->max_positions ? config->max_positions : length;
  return most_tokens(config, length, wanted);
}

/* What a translation begins with, as the model is trained to write it: without the end of the sentence, and with the
 * first token that the search would force. */
static tsr_status encode_prefix(tsr_job *job, const char *text, size_t size, const tsr_generate_options *options,
                                int32_t eos)
{
  int32_t *ids = NULL, n = 0, end = 0;
  if (size == 0) {
    const int32_t *first = tsr_search_first(options, &n);
    job->prefix = n > 0 ? malloc(sizeof *job->prefix) : NULL;
    if (n > 0 && job->prefix) {
      job->prefix[0] = *first;
      job->n_prefix = n;
    }
    return n == 0 || job->prefix ? TSR_OK : tsr_fail_memory(sizeof *job->prefix);
  }
  TSR_TRY(tsr_fail_context(tsr_tokenizer_encode_target(&job->tokenizer, text, size, &ids, &n), "the prefix"));
  while (end < n && ids[end] != eos) {
    end++;
  }
  int32_t forced = options->forced_bos_id, more = end > 0 && forced >= 0 && ids[0] != forced;
  job->prefix = malloc(((size_t)end + 1) * sizeof *job->prefix);
  if (job->prefix) {
    job->prefix[0] = forced;
    memcpy(job->prefix + more, ids, (size_t)end * sizeof *ids);
    job->n_prefix = end + more;
  }
  tsr_free(ids);
  int32_t most = options->max_length - 2;
  job->n_prefix = job->n_prefix < most ? job->n_prefix : most > 0 ? most : 0;
  return job->prefix ? TSR_OK : tsr_fail_memory(((size_t)end + 1) * sizeof *job->prefix);
}

static tsr_status make_parts(const tsr_translator *t, tsr_job *job, const tsr_generate_options *options)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  size_t n = (size_t)job->source.n_parts;
  job->n_hypotheses = options->alternatives > 0 ? options->alternatives : options->n_best;
  job->parts = calloc(n + 1, sizeof *job->parts);
  job->found = calloc((n + 1) * (size_t)job->n_hypotheses, sizeof *job->found);
  if (!job->parts || !job->found) {
    return tsr_fail_memory((n + 1) * (size_t)job->n_hypotheses * sizeof *job->found);
  }
  for (int32_t i = 0; i < job->source.n_parts; i++) {
    tsr_text_part *part = &job->parts[i];
    const int32_t *ids = job->source.ids[i];
    int32_t n_ids = job->source.n_ids[i];
    /* A decoder alone is to go on from what ends here. */
    n_ids -= config->encoder_layers == 0 && n_ids > 1 && ids[n_ids - 1] == config->eos_id;
    *part = (tsr_text_part){.job = job, .index = i, .n_ids = n_ids};
    TSR_TRY(tsr_check_sentence(ids, n_ids, config->max_positions, config->source_vocabulary));
    int32_t n_first = 0;
    (void)tsr_search_first(options, &n_first); /* which the prefix begins with, for every part */
    TSR_TRY(tsr_prompt_init(&part->prompt, config, options, ids, n_ids, i == 0 || n_first > 0 ? job->prefix : NULL,
                            i == 0 ? job->n_prefix : n_first));
  }
  return TSR_OK;
}

static size_t prefix_size(const tsr_translation_request *request)
{
  return !request->prefix ? 0 : request->prefix_size > 0 ? (size_t)request->prefix_size : strlen(request->prefix);
}

static tsr_status make(tsr_translator *t, const tsr_translation_request *request, tsr_job *job)
{
  job->is_about_text = 0;
  const tsr_transformer_config *config = tsr_model_config(t->model);
  tsr_generate_options options;
  TSR_TRY(choose_options(t, request, job, &options));
  TSR_TRY(choose_languages(request, job, &options));
  static const int32_t *const some;
  options.prefix = prefix_size(request) > 0 ? &some : NULL; /* not every model has one */
  options.prefix_lengths = &job->n_prefix;
  TSR_TRY(tsr_generate_check_options(config, &options));
  options.prefix = NULL;
  options.prefix_lengths = NULL;
  options = tsr_generate_resolve(config, &options);
  size_t size = request->text_size > 0 ? (size_t)request->text_size : strlen(request->text);
  if (job->has_spans || job->replaces) {
    job->text = malloc(size + 1);
    if (!job->text) {
      return tsr_fail_memory(size + 1);
    }
    memcpy(job->text, request->text, size);
    job->text_size = size;
  }
  tsr_tokenizer_info info;
  TSR_TRY(tsr_tokenizer_get_info(&job->tokenizer, &info));
  TSR_TRY(encode_prefix(job, request->prefix, prefix_size(request), &options, info.eos_id));
  int32_t most = most_tokens(config, options.max_length, request->max_source);
  job->is_about_text = 1;
  TSR_TRY(tsr_source_prepare(&job->tokenizer, request->text, size, most, request->long_input, &job->source));
  job->is_source_cut = job->source.n_parts == 1 && job->source.n_tokens > most;
  TSR_TRY(make_parts(t, job, &options));
  job->is_about_text = 0;
  pthread_mutex_lock(&t->lock);
  tsr_status status = tsr_class_take(t, &options, &job->class);
  pthread_mutex_unlock(&t->lock);
  return status;
}

tsr_status tsr_job_create(tsr_translator *t, const tsr_translation_request *request, tsr_job **job,
                          int32_t *is_about_text)
{
  tsr_translation_request given;
  *is_about_text = 0;
  TSR_TRY(TSR_SIZED_READ(tsr_translation_request, piece_user, request, &given));
  if (!given.text) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translation_request: text must not be NULL");
  }
  if (!(given.timeout >= 0.0) || given.max_source < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_translation_request: a timeout of %g seconds and a max_source of %d; both should be 0 or more",
                    given.timeout, (int)given.max_source);
  }
  tsr_job *made = calloc(1, sizeof *made);
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  made->translation = calloc(1, sizeof *made->translation);
  if (!made->translation) {
    free(made);
    return tsr_fail_memory(sizeof *made->translation);
  }
  made->tokenizer = *t->tokenizer;
  pthread_mutex_init(&made->telling, NULL);
  made->number = given.number != -1 ? given.number : 0;
  made->has_alignment = given.alignment != 0;
  made->has_spans = given.spans || given.alignment;
  made->piece = given.piece;
  made->piece_user = given.piece_user;
  made->asked = tsr_seconds();
  made->deadline = given.timeout > 0.0 ? made->asked + given.timeout : INFINITY;
  tsr_status status = make(t, &given, made);
  if (status != TSR_OK) {
    *is_about_text = made->is_about_text && status != TSR_ERR_OUT_OF_MEMORY;
    tsr_job_free(made);
    return status;
  }
  *job = made;
  return TSR_OK;
}

void tsr_job_free(tsr_job *job)
{
  if (!job) {
    return;
  }
  for (int32_t i = 0; job->found && i < job->source.n_parts * job->n_hypotheses; i++) {
    free(job->found[i].ids);
    free(job->found[i].attention);
  }
  for (int32_t i = 0; job->parts && i < job->source.n_parts; i++) {
    free(job->parts[i].told);
    tsr_replaced_finish(&job->parts[i].replaced);
  }
  pthread_mutex_destroy(&job->telling);
  free(job->text);
  tsr_translation_free(job->translation);
  tsr_source_finish(&job->source);
  free(job->found);
  free(job->parts);
  free(job->prefix);
  free(job->message);
  free(job);
}
