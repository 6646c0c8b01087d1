/* SPDX-License-Identifier: Apache-2.0
 *
 * How good a model is that is being trained: its loss on other data, and what it makes of sentences, found out with the
 * model as it would be used, from a folder.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/train/run_parts.h"
#include "core/transformer/model.h"
#include "tessera/corpus.h"
#include "tessera/eval.h"
#include "tessera/generate.h"

enum {
  SPARE_TOKENS = 16,   /* of an output, beyond twice the longest source */
  TASK_EXAMPLES = 2000 /* of a task, that its loss is taken of */
};

static const char candidate_name[] = "candidate"; /* folder */

/* ---- the sample -------------------------------------------------------------------------------------------------- */

static void finish_sample(tsr_run_sample *sample)
{
  for (int32_t i = 0; i < sample->n; i++) {
    free(sample->sources[i]);
    free(sample->targets[i]);
    free(sample->references[i]);
  }
  free(sample->sources);
  free(sample->lengths);
  free(sample->targets);
  free(sample->target_lengths);
  free(sample->references);
  free(sample->sizes);
  *sample = (tsr_run_sample){0};
}

static tsr_status make_sample(tsr_run_sample *sample, int32_t room)
{
  size_t n = (size_t)room + 1;
  sample->room = room;
  sample->sources = calloc(n, sizeof *sample->sources);
  sample->lengths = calloc(n, sizeof *sample->lengths);
  sample->targets = calloc(n, sizeof *sample->targets);
  sample->target_lengths = calloc(n, sizeof *sample->target_lengths);
  sample->references = calloc(n, sizeof *sample->references);
  sample->sizes = calloc(n, sizeof *sample->sizes);
  if (!sample->sources || !sample->lengths || !sample->targets || !sample->target_lengths || !sample->references ||
      !sample->sizes) {
    return tsr_fail_memory(n * sizeof(void *));
  }
  return TSR_OK;
}

/* A pair whose source is empty or has more tokens than the model has positions is left out. */
static tsr_status add_pair(tsr_run *run, const tsr_corpus_pair *pair)
{
  tsr_run_sample *sample = &run->sample;
  int32_t *ids = NULL, n_ids = 0;
  TSR_TRY(tsr_tokenizer_encode(run->options->data->tokenizer, pair->source, pair->source_size, &ids, &n_ids));
  if (n_ids <= 1 || n_ids > run->model->config.max_positions) {
    tsr_free(ids);
    return TSR_OK;
  }
  char *reference = malloc(pair->target_size + 1);
  if (!reference) {
    tsr_free(ids);
    return tsr_fail_memory(pair->target_size + 1);
  }
  if (pair->target_size > 0) {
    memcpy(reference, pair->target, pair->target_size);
  }
  sample->sources[sample->n] = ids;
  sample->lengths[sample->n] = n_ids;
  sample->references[sample->n] = reference;
  sample->sizes[sample->n] = pair->target_size;
  sample->n++;
  return TSR_OK;
}

static tsr_status read_pairs(tsr_run *run)
{
  tsr_corpus *corpus = NULL;
  int32_t end = 0;
  tsr_status status = tsr_corpus_open(&run->options->valid, &corpus);
  while (status == TSR_OK && !end && run->sample.n < run->sample.room) {
    tsr_corpus_pair pair;
    status = tsr_corpus_next(corpus, &pair, &end);
    if (status == TSR_OK && !end) {
      status = add_pair(run, &pair);
    }
  }
  tsr_corpus_close(corpus);
  return status;
}

static tsr_status make_examples(tsr_run *run, const tsr_toy_task *task)
{
  tsr_run_sample *sample = &run->sample;
  size_t size = ((size_t)task->max_length + 1) * sizeof(int32_t);
  while (sample->n < sample->room) {
    int32_t i = sample->n;
    sample->sources[i] = malloc(size);
    sample->targets[i] = malloc(size);
    sample->n++;
    if (!sample->sources[i] || !sample->targets[i]) {
      return tsr_fail_memory(size);
    }
    sample->lengths[i] = sample->target_lengths[i] =
        tsr_toy_task_example(task, (uint64_t)i, sample->sources[i], sample->targets[i]);
  }
  return TSR_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int32_t choose_criterion(const tsr_run *run)
{
  if (run->options->criterion != 0) {
    return run->options->criterion;
  }
  if (run->options->data->sounds) {
    return run->options->sentences > 0 ? TSR_CRITERION_EXACT : TSR_CRITERION_LOSS;
  }
  if (run->sample.n == 0) {
    return TSR_CRITERION_LOSS;
  }
  return run->options->data->task ? TSR_CRITERION_EXACT : TSR_CRITERION_BLEU;
}

/* Files that cannot be validated on should not be found out after hours. */
static tsr_status read_whole(tsr_training_data *data)
{
  const tsr_training_batch *batch;
  do {
    TSR_TRY(tsr_training_data_next(data, &batch));
  } while (batch);
  return TSR_OK;
}

tsr_status tsr_run_open_validation(tsr_run *run)
{
  const tsr_training_run_options *options = run->options;
  const tsr_toy_task *task = options->data->task;
  run->criterion = TSR_CRITERION_LOSS;
  if (!task && !options->valid.source) {
    return TSR_OK;
  }
  tsr_training_data_options data = *options->data;
  tsr_training_sounds sounds;
  tsr_toy_task held_out;
  if (task) {
    held_out = *task;
    held_out.set = TSR_TOY_TASK_HELD_OUT;
    data.task = &held_out;
    data.task_examples = TASK_EXAMPLES;
  } else {
    data.files = options->valid;
  }
  if (data.sounds) { /* as they are when the model is used */
    sounds = *data.sounds;
    sounds.whole = 1;
    sounds.time_masks = sounds.mel_masks = 0;
    data.sounds = &sounds;
    data.max_source = 0; /* a window */
  }
  data.shuffle = 0;
  data.epochs = 1;
  TSR_TRY(tsr_fail_context(tsr_training_data_create(&data, &run->valid), "validation"));
  TSR_TRY(tsr_fail_context(read_whole(run->valid), "validation"));
  if (options->sentences > 0 && !data.sounds) {
    TSR_TRY(make_sample(&run->sample, options->sentences));
    TSR_TRY(task ? make_examples(run, &held_out) : read_pairs(run));
  }
  run->criterion = choose_criterion(run);
  const int has_sample = run->sample.n > 0 || (data.sounds && options->sentences > 0);
  if (run->criterion != TSR_CRITERION_LOSS && !has_sample) {
    return tsr_fail(TSR_ERR_ARGUMENT, "validations are compared by their translations, but no sentence is translated");
  }
  if (run->criterion == (task || data.sounds ? TSR_CRITERION_BLEU : TSR_CRITERION_EXACT)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "a task is measured by exact sequences, and sounds by their words, not by BLEU; a corpus by BLEU, "
                    "not by exact sequences");
  }
  if (options->until > 0.0 && run->criterion == TSR_CRITERION_LOSS) {
    return tsr_fail(TSR_ERR_ARGUMENT, "until is a BLEU or a share of exact sequences, but validations are compared by "
                                      "their loss");
  }
  if ((task || data.sounds) && options->until > 1.0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "until is a share of exact sequences or words: expected at most 1, found %g",
                    options->until);
  }
  return TSR_OK;
}

static void remove_file(const char *folder, const char *name)
{
  char *path = tsr_path_join(folder, name);
  if (path) {
    unlink(path);
  }
  free(path);
}

void tsr_run_finish_validation(tsr_run *run)
{
  tsr_training_data_destroy(run->valid);
  finish_sample(&run->sample);
  char *folder = run->is_locked ? tsr_path_join(run->folder, candidate_name) : NULL;
  if (folder && tsr_path_is_folder(folder)) {
    remove_file(folder, "config.json");
    remove_file(folder, "generation_config.json");
    remove_file(folder, "preprocessor_config.json");
    remove_file(folder, "model.safetensors");
    rmdir(folder);
  }
  free(folder);
}

/* ---- loss -------------------------------------------------------------------------------------------------------- */

static tsr_status measure_loss(tsr_run *run, int32_t averaged, double *loss)
{
  double sum = 0.0;
  int64_t tokens = 0;
  TSR_TRY(tsr_training_data_seek(run->valid, &(tsr_training_data_position){0}));
  for (;;) {
    const tsr_training_batch *batch;
    TSR_TRY(tsr_training_data_next(run->valid, &batch));
    if (!batch) {
      break;
    }
    tsr_examples examples;
    tsr_step_result result;
    TSR_TRY(tsr_run_examples(run, run->valid, batch, &examples));
    TSR_TRY(tsr_trainer_evaluate(run->trainer, &examples, averaged, &result));
    sum += result.loss;
    tokens += result.tokens;
  }
  *loss = tokens > 0 ? sum / (double)tokens : (double)NAN;
  return TSR_OK;
}

/* ---- what comes out ---------------------------------------------------------------------------------------------- */

static tsr_status score_texts(const tsr_run *run, const tsr_generation *generation, double *score)
{
  const tsr_run_sample *sample = &run->sample;
  tsr_scorer *scorer;
  TSR_TRY(tsr_scorer_create(TSR_METRIC_BLEU, &scorer));
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < sample->n && status == TSR_OK; i++) {
    const tsr_hypothesis *hypothesis = &generation->hypotheses[i];
    char *text = NULL;
    status = tsr_tokenizer_decode(run->options->data->tokenizer, hypothesis->ids, hypothesis->n_ids, &text);
    if (status == TSR_OK) {
      status = tsr_scorer_add(scorer, (tsr_span){.bytes = text, .size = strlen(text)},
                              (tsr_span){.bytes = sample->references[i], .size = sample->sizes[i]});
    }
    tsr_free(text);
  }
  tsr_bleu bleu = {0};
  if (status == TSR_OK) {
    status = tsr_scorer_bleu(scorer, &bleu);
  }
  *score = bleu.score;
  tsr_scorer_destroy(scorer);
  return status;
}

static double share_of_exact(const tsr_run_sample *sample, const tsr_generation *generation)
{
  int32_t right = 0;
  for (int32_t i = 0; i < sample->n; i++) {
    const tsr_hypothesis *hypothesis = &generation->hypotheses[i];
    right += hypothesis->n_ids == sample->target_lengths[i] &&
             memcmp(hypothesis->ids, sample->targets[i], (size_t)hypothesis->n_ids * sizeof *hypothesis->ids) == 0;
  }
  return (double)right / (double)sample->n;
}

static tsr_status generate(const tsr_run *run, const tsr_model *model, tsr_generation *generation)
{
  const tsr_run_sample *sample = &run->sample;
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  TSR_TRY(tsr_generate_defaults(model, &options));
  int32_t longest = 0;
  for (int32_t i = 0; i < sample->n; i++) {
    longest = sample->lengths[i] > longest ? sample->lengths[i] : longest;
  }
  options.beam = run->beam;
  options.n_best = 1;
  /* A model that has not learnt much yet does not know when to end. */
  options.max_length = 2 * longest + SPARE_TOKENS;
  if (options.max_length > run->model->config.max_positions) {
    options.max_length = run->model->config.max_positions;
  }
  tsr_transformer *transformer;
  tsr_transformer_options placement = {TSR_SIZED(tsr_transformer_options), .fallback = run->fallback};
  TSR_TRY(tsr_transformer_create(model, run->device, &placement, &transformer));
  tsr_status status = tsr_generate(transformer, sample->n, (const int32_t *const *)sample->sources, sample->lengths, 0,
                                   &options, NULL, NULL, generation);
  tsr_transformer_destroy(transformer);
  return status;
}

static tsr_status measure_output(tsr_run *run, tsr_training_run_validation *v)
{
  char *folder = tsr_path_join(run->folder, candidate_name);
  if (!folder) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  tsr_model *model = NULL;
  tsr_generation generation = {0};
  tsr_status status = tsr_run_write_model(run, folder, TSR_F32, 1);
  if (status == TSR_OK) {
    status = tsr_model_open(folder, &model);
  }
  if (status == TSR_OK && run->options->data->sounds) {
    status = tsr_run_share_of_words(run, model, &v->exact);
  } else if (status == TSR_OK) {
    status = generate(run, model, &generation);
  }
  if (status == TSR_OK && run->options->data->task) {
    v->exact = share_of_exact(&run->sample, &generation);
  } else if (status == TSR_OK && !run->options->data->sounds) {
    status = score_texts(run, &generation, &v->bleu);
  }
  tsr_generation_finish(&generation);
  tsr_model_close(model);
  free(folder);
  return status;
}

tsr_status tsr_run_validate(tsr_run *run, int32_t averaged, tsr_training_run_validation *v)
{
  *v = (tsr_training_run_validation){
      .step = run->progress.step, .epoch = run->progress.epoch, .bleu = (double)NAN, .exact = (double)NAN};
  TSR_TRY(tsr_fail_context(measure_loss(run, averaged, &v->loss), "validation"));
  v->perplexity = exp(v->loss);
  if (run->sample.n > 0 || (run->options->data->sounds && run->options->sentences > 0)) {
    TSR_TRY(tsr_fail_context(measure_output(run, v), "validation"));
  }
  v->seconds = tsr_seconds() - run->start;
  return TSR_OK;
}

double tsr_run_score(const tsr_run *run, const tsr_training_run_validation *v)
{
  switch (run->criterion) {
  case TSR_CRITERION_BLEU:
    return v->bleu;
  case TSR_CRITERION_EXACT:
    return v->exact;
  default:
    return -v->loss;
  }
}
