/* SPDX-License-Identifier: Apache-2.0
 *
 * From a recipe to a training.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/training_run.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/train/ranks.h"
#include "tools/tessera/train/train.h"

static int is_empty(const char *text)
{
  return text[0] == '\0';
}

/* NULL for "". */
/* NULL: the model hears one language. */
static const char *language_of(const recipe *r)
{
  return strcmp(r->language, "none") == 0 ? NULL : r->language;
}

static const char *text_or_null(const char *text)
{
  return is_empty(text) ? NULL : text;
}

/* The folder of a model to begin with, or NULL. */
static const char *first_model(const recipe *r)
{
  return is_empty(r->init) || strcmp(r->init, "xavier") == 0 || strcmp(r->init, "family") == 0 ? NULL : r->init;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int32_t activation_of(const char *name)
{
  return strcmp(name, "gelu") == 0       ? TSR_ACTIVATION_GELU_ERF
         : strcmp(name, "gelu_new") == 0 ? TSR_ACTIVATION_GELU_TANH
         : strcmp(name, "swish") == 0    ? TSR_ACTIVATION_SILU
                                         : TSR_ACTIVATION_RELU;
}

/* The words for it in a recipe, which are those of a folder of nn_transformer. */
static const struct {
  const char *name;
  int32_t position;
} position_words[] = {{"sinusoidal_interleaved", TSR_POSITION_SINUSOID_INTERLEAVED},
                      {"sinusoidal_halves", TSR_POSITION_SINUSOID_HALVES},
                      {"learned", TSR_POSITION_LEARNED},
                      {"relative", TSR_POSITION_RELATIVE_CLAMPED},
                      {"none", TSR_POSITION_NONE}};

enum { N_POSITION_WORDS = sizeof position_words / sizeof position_words[0] };

static void describe_family(const recipe *r, tsr_transformer_config *config)
{
  int is_marian = strcmp(r->family, "marian") == 0;
  config->position = is_marian ? TSR_POSITION_SINUSOID_HALVES : TSR_POSITION_SINUSOID_INTERLEAVED;
  for (size_t i = 0; i < N_POSITION_WORDS; i++) {
    config->position =
        strcmp(r->position_encoding, position_words[i].name) == 0 ? position_words[i].position : config->position;
  }
  if (config->position == TSR_POSITION_RELATIVE_CLAMPED) {
    config->relative_distance = r->max_distance;
    config->relative_layers = 1;
  }
  config->final_norm = !is_marian;
  config->shared_embedding = is_marian && r->shared_embedding;
  config->tied_logits = is_marian && r->tied_logits;
}

static tsr_transformer_config describe(const training *t, const recipe *r, const tsr_tokenizer_info *info)
{
  tsr_transformer_config config = {
      TSR_SIZED(tsr_transformer_config),
      .d_model = r->d_model,
      .encoder_layers = r->encoder_layers,
      .decoder_layers = r->decoder_layers,
      .encoder_heads = r->heads,
      .decoder_heads = r->heads,
      .encoder_d_ff = r->d_ff,
      .decoder_d_ff = r->d_ff,
      .source_vocabulary = r->vocab_size,
      .target_vocabulary = r->vocab_size,
      .max_positions = r->max_positions,
      .norm = TSR_NORM_LAYER,
      .norm_position = r->norm_first ? TSR_NORM_PRE : TSR_NORM_POST,
      .activation = activation_of(r->activation),
      .attention_bias = 1,
      .feed_forward_bias = 1,
      .logits_bias = 1,
      .embedding_scale = (float)sqrt((double)r->d_model),
      .logits_scale = 1.0f,
      .epsilon = 1e-5f,
      .bos_id = -1,
      .unk_id = TSR_TOY_TASK_FIRST_TOKEN - 1,
      .eos_id = TSR_TOY_TASK_EOS,
  };
  snprintf(config.family, sizeof config.family, "%s", r->family);
  describe_family(r, &config);
  config.pad_id = t->task.kind != 0 ? tsr_toy_task_pad(&t->task) : info->target_pad_id;
  if (t->tokenizer) {
    config.source_vocabulary = info->source_vocabulary;
    config.target_vocabulary = info->target_vocabulary;
    config.eos_id = info->eos_id;
    config.unk_id = info->unk_id;
    config.shared_embedding &= info->is_joint;
  }
  config.decoder_start_id = config.pad_id >= 0 ? config.pad_id : config.eos_id;
  return config;
}

/* A Whisper of that shape: ids of timestamps lie behind those of the tokenizer, one for each position and one more. */
static tsr_transformer_config describe_speech(const recipe *r, const tsr_speech_tokens *tokens)
{
  tsr_transformer_config config = {
      TSR_SIZED(tsr_transformer_config),
      .family = "whisper",
      .d_model = r->d_model,
      .encoder_layers = r->encoder_layers,
      .decoder_layers = r->decoder_layers,
      .encoder_heads = r->heads,
      .decoder_heads = r->heads,
      .encoder_d_ff = r->d_ff,
      .decoder_d_ff = r->d_ff,
      .target_vocabulary = tokens->timestamp_begin + r->source_positions + 1,
      .max_positions = r->max_positions,
      .norm = TSR_NORM_LAYER,
      .norm_position = TSR_NORM_PRE,
      .final_norm = 1,
      .activation = activation_of(r->activation),
      .position = TSR_POSITION_LEARNED,
      .attention_bias = 1,
      .feed_forward_bias = 1,
      .tied_logits = r->tied_logits,
      .embedding_scale = 1.0f,
      .logits_scale = 1.0f,
      .epsilon = 1e-5f,
      .pad_id = tokens->end_of_text,
      .bos_id = tokens->end_of_text,
      .eos_id = tokens->end_of_text,
      .unk_id = -1,
      .decoder_start_id = tokens->start_of_transcript,
      .mels = r->mels,
      .source_positions = r->source_positions,
  };
  return config;
}

/* Its special tokens; a vocabulary of text has none. */
static int get_speech_tokens(const training *t, tsr_speech_tokens *tokens)
{
  tsr_status status = tsr_speech_get_tokens(t->tokenizer, tokens);
  if (status == TSR_ERR_ARGUMENT && t->tokenizer) {
    tsr_cli_error("%s: expected a vocabulary of speech, as `tessera vocab --speech` makes it, found one of text",
                  t->tokenizer_folder);
    return TSR_EXIT_INPUT;
  }
  return tsr_cli_fail_input(status);
}

static int create_speech(training *t, recipe *r, const recipe_assignments *said)
{
  tsr_speech_tokens tokens;
  int code = recipe_impose(r, said, "family", "whisper", "a model of speech");
  if (code == TSR_EXIT_OK && !recipe_is_said(said, "activation")) {
    code = recipe_impose(r, said, "activation", "gelu", "a model of speech");
  }
  if (code == TSR_EXIT_OK) {
    code = get_speech_tokens(t, &tokens);
  }
  if (code != TSR_EXIT_OK) {
    return code;
  }
  const tsr_transformer_config config = describe_speech(r, &tokens);
  return tsr_cli_fail_input(tsr_model_create(&config, &t->model));
}

static const char *activation_name(int32_t activation)
{
  return activation == TSR_ACTIVATION_GELU_ERF    ? "gelu"
         : activation == TSR_ACTIVATION_GELU_TANH ? "gelu_new"
         : activation == TSR_ACTIVATION_SILU      ? "swish"
                                                  : "relu";
}

/* "" of a family that has no choice. */
static const char *position_name(const tsr_transformer_config *c)
{
  for (size_t i = 0; i < N_POSITION_WORDS && strcmp(c->family, "nn_transformer") == 0; i++) {
    if (position_words[i].position == c->position) {
      return position_words[i].name;
    }
  }
  return "";
}

/* A model that is trained on keeps its form, and the recipe tells it. */
static int take_form(recipe *r, const recipe_assignments *said, const tsr_transformer_config *c, const char *folder)
{
  const struct {
    const char *name;
    int32_t value;
  } numbers[] = {
      {"mels", c->mels > 0 ? c->mels : r->mels},
      {"source_positions", c->mels > 0 ? c->source_positions : r->source_positions},
      {"d_model", c->d_model},
      {"heads", c->encoder_heads},
      {"d_ff", c->encoder_d_ff},
      {"encoder_layers", c->encoder_layers},
      {"decoder_layers", c->decoder_layers},
      {"max_positions", c->max_positions},
      {"max_distance", c->position == TSR_POSITION_RELATIVE_CLAMPED ? c->relative_distance : r->max_distance}};
  const struct {
    const char *name, *value;
  } words[] = {{"family", c->family},
               {"activation", activation_name(c->activation)},
               {"position_encoding", position_name(c)},
               {"norm_first", c->norm_position == TSR_NORM_PRE ? "true" : "false"},
               {"tied_logits", c->tied_logits ? "true" : "false"},
               {"shared_embedding", c->shared_embedding ? "true" : "false"}};
  int code = TSR_EXIT_OK;
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && code == TSR_EXIT_OK; i++) {
    char text[16];
    snprintf(text, sizeof text, "%d", (int)numbers[i].value);
    code = recipe_impose(r, said, numbers[i].name, text, folder);
  }
  for (size_t i = 0; i < sizeof words / sizeof words[0] && code == TSR_EXIT_OK; i++) {
    code = recipe_impose(r, said, words[i].name, words[i].value, folder);
  }
  return code;
}

/* The ids of all special tokens have to be the model's; those of timestamps come last. */
static int check_speech_vocabulary(const training *t, const char *folder)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  tsr_speech_tokens tokens;
  int code = get_speech_tokens(t, &tokens);
  if (code == TSR_EXIT_OK &&
      (config->target_vocabulary < tokens.timestamp_begin || config->decoder_start_id != tokens.start_of_transcript)) {
    tsr_cli_error("%s has %d tokens and begins with token %d; the vocabulary of its training has %d without timestamps "
                  "and begins with %d",
                  folder, config->target_vocabulary, config->decoder_start_id, tokens.timestamp_begin,
                  tokens.start_of_transcript);
    code = TSR_EXIT_INPUT;
  }
  return code;
}

/* A tokenizer of its own may have less than the model, whose tables may be rounded up; another has to be of its
 * size. */
static int check_vocabularies(const training *t, const recipe *r, const tsr_tokenizer_info *info, const char *folder)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  if (config->mels > 0) {
    return check_speech_vocabulary(t, folder);
  }
  int32_t source = t->tokenizer ? info->source_vocabulary : r->vocab_size;
  int32_t target = t->tokenizer ? info->target_vocabulary : r->vocab_size;
  int is_own = t->tokenizer && strcmp(t->tokenizer_folder, folder) == 0;
  int fits = is_own ? config->source_vocabulary >= source && config->target_vocabulary >= target
                    : config->source_vocabulary == source && config->target_vocabulary == target;
  if (!fits) {
    tsr_cli_error("%s has vocabularies of %d and %d tokens; the vocabulary of its training has %d and %d", folder,
                  config->source_vocabulary, config->target_vocabulary, source, target);
    return TSR_EXIT_INPUT;
  }
  return TSR_EXIT_OK;
}

static int hears(const training *t)
{
  return tsr_model_config(t->model)->mels > 0;
}

static int check_input(const training *t, const recipe *r)
{
  if (hears(t) == !is_empty(r->speech)) {
    return TSR_EXIT_OK;
  }
  tsr_cli_error("%s reads %s: it is trained on %s", first_model(r), hears(t) ? "sound" : "text",
                hears(t) ? "--speech" : "pairs of sentences");
  return TSR_EXIT_INPUT;
}

static int open_model(training *t, recipe *r, const recipe_assignments *said)
{
  tsr_tokenizer_info info = {0};
  const char *folder = first_model(r);
  int code = t->tokenizer ? tsr_cli_fail(tsr_tokenizer_get_info(t->tokenizer, &info)) : TSR_EXIT_OK;
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (!folder && !is_empty(r->speech)) {
    return create_speech(t, r, said);
  }
  if (!folder && strcmp(r->family, "marian") != 0 && strcmp(r->family, "nn_transformer") != 0) {
    tsr_cli_error("a model of the family '%s' needs a folder to start from (init); only marian and nn_transformer can "
                  "be trained from scratch",
                  r->family);
    return TSR_EXIT_INPUT;
  }
  if (!folder) {
    tsr_transformer_config config = describe(t, r, &info);
    return tsr_cli_fail_input(tsr_model_create(&config, &t->model));
  }
  code = tsr_cli_fail_input(tsr_model_open(folder, &t->model));
  if (code == TSR_EXIT_OK && !tsr_model_has_weights(t->model)) {
    tsr_cli_error("%s: there are no weights in it to start from", folder);
    code = TSR_EXIT_INPUT;
  }
  if (code == TSR_EXIT_OK) {
    code = check_input(t, r);
  }
  if (code == TSR_EXIT_OK) {
    code = take_form(r, said, tsr_model_config(t->model), folder);
  }
  return code == TSR_EXIT_OK ? check_vocabularies(t, r, &info, folder) : code;
}

/* Of a batch: no more than the model has positions, once it is rounded up to a whole bucket. 0 if there is none. */
static int32_t widest(const training *t, const recipe *r)
{
  return tsr_model_config(t->model)->max_positions / r->bucket * r->bucket;
}

static int check_widths(const training *t, const recipe *r)
{
  int32_t most = widest(t, r), needed = t->task.kind != 0 ? r->max_length + 1 : 1;
  if (most >= needed) {
    return TSR_EXIT_OK;
  }
  tsr_cli_error("a model with max_positions %d has no room for a batch of width %d in steps of bucket, %d",
                tsr_model_config(t->model)->max_positions, needed, r->bucket);
  return TSR_EXIT_USAGE;
}

static tsr_training_sounds sounds_of(const training *t, const recipe *r)
{
  return (tsr_training_sounds){TSR_SIZED(tsr_training_sounds),
                               .mels = r->mels,
                               .positions = tsr_model_config(t->model)->source_positions,
                               .language = language_of(r),
                               .whole = r->whole_windows,
                               .timestamps = r->timestamps,
                               .time_masks = r->time_masks,
                               .time_width = r->time_mask_width,
                               .time_share = r->time_mask_share,
                               .mel_masks = r->mel_masks,
                               .mel_width = r->mel_mask_width < r->mels ? r->mel_mask_width : r->mels,
                               .plugins_path = tsr_cli_audio_path()};
}

/* What suits sounds where nothing is said: greedy search, as Whisper's folders have it, and whole windows. */
static int suit_speech(recipe *r, const recipe_assignments *said)
{
  int code = TSR_EXIT_OK;
  if (!recipe_is_said(said, "save_beam")) {
    code = recipe_impose(r, said, "save_beam", "1", "a model of speech");
  }
  if (code == TSR_EXIT_OK && !recipe_is_said(said, "max_source")) {
    code = recipe_impose(r, said, "max_source", "0", "a model of speech");
  }
  return code;
}

static int open_task(training *t, const recipe *r)
{
  t->task = (tsr_toy_task){.set = TSR_TOY_TASK_TRAINING,
                           .vocabulary = r->vocab_size,
                           .min_length = r->min_length,
                           .max_length = r->max_length,
                           .seed = (uint64_t)r->seed};
  int code = tsr_cli_fail(tsr_toy_task_find(r->task, &t->task.kind));
  return code == TSR_EXIT_OK ? tsr_cli_fail(tsr_toy_task_check(&t->task)) : code;
}

int training_open(training *t, recipe *r, const recipe_assignments *said, int dry_run)
{
  int code = dry_run ? TSR_EXIT_OK : ranks_join(r, &t->comm);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (!is_empty(r->task)) {
    code = open_task(t, r);
  } else {
    t->tokenizer_folder = is_empty(r->vocab) ? first_model(r) : r->vocab;
    code = tsr_cli_fail_input(tsr_tokenizer_open_folder(t->tokenizer_folder, &t->tokenizer));
  }
  if (code == TSR_EXIT_OK) {
    code = open_model(t, r, said);
  }
  if (code == TSR_EXIT_OK) {
    code = check_widths(t, r);
  }
  if (code == TSR_EXIT_OK && hears(t)) {
    code = suit_speech(r, said);
    t->sounds = sounds_of(t, r);
  }
  if (code == TSR_EXIT_OK && !dry_run) {
    code = ranks_runtime(t->comm, &t->runtime);
  }
  if (code == TSR_EXIT_OK && !dry_run) {
    code = ranks_device(t->comm, t->runtime, r->device, &t->device);
  }
  return code;
}

void training_finish(training *t)
{
  tsr_device_close(t->device);
  tsr_runtime_destroy(t->runtime);
  tsr_model_close(t->model);
  tsr_tokenizer_close(t->tokenizer);
  tsr_comm_close(t->comm);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static tsr_dtype dtype_of(const char *name)
{
  return strcmp(name, "f16") == 0 ? TSR_F16 : strcmp(name, "bf16") == 0 ? TSR_BF16 : TSR_F32;
}

static int32_t criterion_of(const char *name)
{
  return strcmp(name, "loss") == 0    ? TSR_CRITERION_LOSS
         : strcmp(name, "bleu") == 0  ? TSR_CRITERION_BLEU
         : strcmp(name, "exact") == 0 ? TSR_CRITERION_EXACT
                                      : 0;
}

static tsr_training_options training_of(const recipe *r)
{
  return (tsr_training_options){TSR_SIZED(tsr_training_options),
                                .dropout = (float)r->dropout,
                                .attention_dropout = (float)r->attention_dropout,
                                .activation_dropout = (float)r->activation_dropout,
                                .label_smoothing = (float)r->label_smoothing,
                                .beta1 = (float)r->beta1,
                                .beta2 = (float)r->beta2,
                                .epsilon = (float)r->epsilon,
                                .weight_decay = (float)r->weight_decay,
                                .decoupled = strcmp(r->optimizer, "adamw") == 0,
                                .max_norm = (float)r->max_norm,
                                .average = r->average > 0.0,
                                .recompute = strcmp(r->recompute, "layers") == 0,
                                .statistics = r->statistics,
                                .products = dtype_of(r->precision)};
}

/* wanted: the recipe's; 0: what fits into a batch. */
static int32_t longest(const training *t, const recipe *r, int32_t wanted)
{
  int32_t most = widest(t, r), fitting = r->batch_tokens / r->bucket * r->bucket;
  if (wanted == 0) {
    return fitting < most ? fitting : most;
  }
  return wanted < most ? wanted : most;
}

/* Of sounds: positions of the longest. */
static int32_t longest_sound(const training *t, const recipe *r)
{
  const int32_t window = tsr_model_config(t->model)->source_positions;
  return r->max_source > 0 && r->max_source < window ? r->max_source : window;
}

static const char *source_of(const recipe *r)
{
  return !is_empty(r->speech) ? r->speech : is_empty(r->tsv) ? r->source : r->tsv;
}

static tsr_training_data_options data_of(const training *t, const recipe *r)
{
  return (tsr_training_data_options){TSR_SIZED(tsr_training_data_options),
                                     .files = {.source = text_or_null(source_of(r)), .target = text_or_null(r->target)},
                                     .sounds = hears(t) ? &t->sounds : NULL,
                                     .tokenizer = t->tokenizer,
                                     .task = t->task.kind != 0 ? &t->task : NULL,
                                     .batch_tokens = r->batch_tokens,
                                     .max_source = hears(t) ? longest_sound(t, r) : longest(t, r, r->max_source),
                                     .max_target = longest(t, r, r->max_target),
                                     .max_ratio = r->max_ratio,
                                     .step = r->bucket,
                                     .pool = r->pool,
                                     .seed = (uint64_t)r->seed,
                                     .shuffle = 1,
                                     .epochs = r->epochs};
}

int training_options(training *t, const recipe *r, tsr_training_run_options *o)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  t->data = data_of(t, r);
  t->step = training_of(r);
  *o = (tsr_training_run_options){
      TSR_SIZED(tsr_training_run_options),
      .folder = r->out,
      .data = &t->data,
      .tokenizer_folder = t->tokenizer_folder,
      .training = &t->step,
      .initial = strcmp(r->init, "family") == 0 ? TSR_INITIAL_FAMILY : TSR_INITIAL_XAVIER,
      .seed = (uint64_t)r->seed,
      .accumulate = r->accumulate,
      .schedule = {.peak = r->rate, .floor = r->floor, .warmup = r->warmup},
      .average_decay = r->average,
      .average_last = r->average_last,
      .loss_scale = r->loss_scale,
      .steps = r->steps,
      .minutes = r->minutes,
      .patience = r->patience,
      .until = r->until,
      .log_every = r->log_every,
      .save_every = r->save_every,
      .validate_every = r->validate_every,
      .keep = r->keep,
      .valid = {.source = text_or_null(r->valid_source), .target = text_or_null(r->valid_target)},
      .criterion = criterion_of(r->criterion),
      .beam = r->bleu_beam,
      .sentences = r->bleu_sentences,
      .storage = dtype_of(r->save_precision),
      .saved_beam = r->save_beam,
      .comm = t->comm,
      .gradients = dtype_of(r->gradient_precision),
      .shard = r->shard_optimizer};
  if (o->schedule.peak <= 0.0) {
    o->schedule.peak = tsr_schedule_paper_peak(1.0, config->d_model, r->warmup);
  }
  return tsr_cli_fail(tsr_schedule_find(r->schedule, &o->schedule.kind));
}

/* ---- a dry run --------------------------------------------------------------------------------------------------- */

enum { MAX_SHAPES = 4096, ALIGNMENT = 64 };

/* What an epoch's batches come to. */
typedef struct survey {
  tsr_program_size shapes[MAX_SHAPES]; /* distinct ones */
  int32_t n_shapes;
  int64_t batches, sentences, tokens, places; /* of the targets: without padding, and with it */
  tsr_training_data_counts counts;
} survey;

static int note_shape(survey *s, const tsr_training_batch *b)
{
  s->batches++;
  s->sentences += b->sentences;
  s->tokens += b->target_tokens;
  s->places += (int64_t)b->rows * b->target_width;
  for (int32_t i = 0; i < s->n_shapes; i++) {
    if (s->shapes[i].source == b->source_width && s->shapes[i].target == b->target_width) {
      return 1;
    }
  }
  if (s->n_shapes == MAX_SHAPES) {
    return 0;
  }
  s->shapes[s->n_shapes++] = (tsr_program_size){.batch = b->rows, .source = b->source_width, .target = b->target_width};
  return 1;
}

/* One epoch, or one pool of it where there are more. */
static tsr_status look_at_data(const training *t, const recipe *r, survey *s)
{
  tsr_training_data_options options = data_of(t, r);
  tsr_training_data *data;
  const tsr_training_batch *batch;
  options.epochs = 1;
  tsr_status status = tsr_training_data_create(&options, &data);
  if (status != TSR_OK) {
    return status;
  }
  for (int64_t pool = 0; (status = tsr_training_data_next(data, &batch)) == TSR_OK && batch;) {
    tsr_training_data_position position;
    if (!note_shape(s, batch)) {
      break;
    }
    tsr_training_data_tell(data, &position);
    pool = position.pool;
    if (pool > 0) {
      break;
    }
  }
  tsr_training_data_get_counts(data, &s->counts);
  tsr_training_data_destroy(data);
  return status;
}

/* The program of a step that takes the most memory. */
static tsr_status measure(const training *t, const recipe *r, const survey *s, tsr_program_statistics *largest,
                          tsr_program_size *size)
{
  tsr_training_options options = training_of(r);
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < s->n_shapes && status == TSR_OK; i++) {
    tsr_program *program = NULL;
    tsr_program_statistics statistics;
    status = tsr_training_program(t->model, &options, r->accumulate > 1 ? TSR_STEP_LAST : TSR_STEP_UPDATE,
                                  &s->shapes[i], &program);
    if (status == TSR_OK) {
      status = tsr_program_measure(program, ALIGNMENT, &statistics);
    }
    if (status == TSR_OK && statistics.planned_bytes > largest->planned_bytes) {
      *largest = statistics;
      *size = s->shapes[i];
    }
    tsr_program_destroy(program);
  }
  return status;
}

void training_print_left_out(const char *label, const tsr_training_data_counts *counts)
{
  char read[32], empty[32], too_long[32], uneven[32];
  if (counts->kept < counts->read) {
    printf("%sof %s pairs %s are too long, %s too uneven, and %s have an empty side\n", label,
           tsr_cli_grouped(counts->read, read), tsr_cli_grouped(counts->too_long, too_long),
           tsr_cli_grouped(counts->uneven, uneven), tsr_cli_grouped(counts->empty, empty));
  }
}

static int print_survey_json(int64_t parameters, const survey *s, const tsr_program_statistics *largest)
{
  return tsr_cli_json_print(
      json_pack("{s:I, s:I, s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)parameters, "batches",
                (json_int_t)s->batches, "sentences", (json_int_t)s->sentences, "left_out",
                (json_int_t)(s->counts.read - s->counts.kept), "target_tokens", (json_int_t)s->tokens, "programs",
                (int)s->n_shapes, "operators", (json_int_t)largest->lines, "state_bytes",
                (json_int_t)largest->state_bytes, "planned_bytes", (json_int_t)largest->planned_bytes,
                "temporary_bytes", (json_int_t)largest->temporary_bytes),
      0);
}

static int print_survey(const training *t, const recipe *r, const survey *s, int json)
{
  tsr_program_statistics largest = {0};
  tsr_program_size size = {0};
  int code = tsr_cli_fail(measure(t, r, s, &largest, &size));
  if (code != TSR_EXIT_OK) {
    return code;
  }
  int64_t parameters = 0;
  for (int32_t i = 0; i < tsr_model_parameter_count(t->model); i++) {
    tsr_parameter_info info;
    code = tsr_cli_fail(tsr_model_parameter(t->model, i, &info));
    if (code != TSR_EXIT_OK) {
      return code;
    }
    parameters += tsr_shape_elements(&info.shape);
  }
  if (json) {
    return print_survey_json(parameters, s, &largest);
  }
  char a[32], b[32], c[32];
  printf("parameters  %s\n", tsr_cli_grouped(parameters, a));
  printf("batches     %s of an epoch's first %s pairs: %s target tokens, %.1f %% of the places\n",
         tsr_cli_grouped(s->batches, a), tsr_cli_grouped(s->sentences, b), tsr_cli_grouped(s->tokens, c),
         s->places > 0 ? 100.0 * (double)s->tokens / (double)s->places : 0.0);
  training_print_left_out("left out    ", &s->counts);
  printf("programs    %d, one for each pair of widths; %lld operators each\n", (int)s->n_shapes,
         (long long)largest.lines);
  printf("states      %s\n", tsr_cli_bytes((uint64_t)largest.state_bytes, a));
  printf("step        %s as planned, %s in one buffer for each tensor: %.1f %%; %d x (%d, %d)\n",
         tsr_cli_bytes((uint64_t)largest.planned_bytes, a), tsr_cli_bytes((uint64_t)largest.temporary_bytes, b),
         largest.temporary_bytes > 0 ? 100.0 * (double)largest.planned_bytes / (double)largest.temporary_bytes : 0.0,
         (int)size.batch, (int)size.source, (int)size.target);
  return TSR_EXIT_OK;
}

int training_print(const training *t, const recipe *r, int json)
{
  survey *s = calloc(1, sizeof *s);
  if (!s) {
    return tsr_cli_no_memory();
  }
  int code = tsr_cli_fail(look_at_data(t, r, s));
  if (code == TSR_EXIT_OK) {
    code = print_survey(t, r, s, json);
  }
  free(s);
  return code;
}
