/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera bench train: how fast a model is trained, on random sentences.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/training_run.h"
#include "tools/random/random.h"
#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"

enum { SEED = 1 };

typedef struct request {
  const char *folder; /* NULL: the random model */
  const char *device;
  tsr_transformer_config config;
  tsr_training_options training;
  int32_t threads, batch, source, target, warm, repeat;
  int profile, as_json;
} request;

typedef struct session {
  const request *options;
  tsr_model *model;
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_trainer *trainer;
  tsr_examples examples;
  int32_t *ids;    /* of the examples, all in one */
  double *seconds; /* [repeat] */
  double loss;     /* of the last step, per token */
  double by_operator[TSR_OP_COUNT];
  int32_t lines[TSR_OP_COUNT];
} session;

/* ---- preparing --------------------------------------------------------------------------------------------------- */

static tsr_status make_model(session *s)
{
  return s->options->folder ? tsr_model_open(s->options->folder, &s->model)
                            : tsr_model_create(&s->options->config, &s->model);
}

static tsr_status fill_parameters(session *s)
{
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < tsr_model_parameter_count(s->model) && status == TSR_OK; i++) {
    tsr_parameter_info info;
    status = tsr_model_parameter(s->model, i, &info);
    int64_t n = status == TSR_OK ? tsr_shape_elements(&info.shape) : 0;
    float *values = malloc((size_t)(n + 1) * sizeof *values);
    if (!values) {
      return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
    }
    if (status == TSR_OK) {
      status = tsr_initialise(s->model, TSR_INITIAL_XAVIER, SEED, i, values, n);
    }
    if (status == TSR_OK) {
      status = tsr_trainer_write(s->trainer, TSR_TRAINED_PARAMETER, i, values, n);
    }
    free(values);
  }
  return status;
}

static tsr_status make_examples(session *s)
{
  const request *options = s->options;
  const tsr_transformer_config *config = tsr_model_config(s->model);
  size_t n_source = (size_t)options->batch * (size_t)options->source,
         n_target = (size_t)options->batch * (size_t)options->target;
  uint64_t random = SEED;
  s->ids = malloc((n_source + 2 * n_target + (size_t)options->batch) * sizeof *s->ids);
  if (!s->ids) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  int32_t *target = s->ids + n_source, *labels = target + n_target, *lengths = labels + n_target;
  for (size_t i = 0; i < n_source; i++) {
    s->ids[i] = tsr_random_below(&random, config->source_vocabulary);
  }
  for (size_t i = 0; i < 2 * n_target; i++) {
    target[i] = tsr_random_below(&random, config->target_vocabulary);
  }
  for (int32_t i = 0; i < options->batch; i++) {
    lengths[i] = options->source;
  }
  s->examples = (tsr_examples){.rows = options->batch,
                               .source_width = options->source,
                               .target_width = options->target,
                               .source = s->ids,
                               .source_lengths = lengths,
                               .target = target,
                               .labels = labels,
                               .target_tokens = (int64_t)n_target};
  return TSR_OK;
}

static int open_session(session *s)
{
  int code = tsr_cli_fail_input(make_model(s));
  if (code == TSR_EXIT_OK) {
    code = bench_open_device(s->options->threads, s->options->device, &s->runtime, &s->device);
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_trainer_create(s->model, s->device, &s->options->training, NULL, &s->trainer));
  }
  if (code == TSR_EXIT_OK && !tsr_model_has_weights(s->model)) {
    code = tsr_cli_fail(fill_parameters(s));
  }
  return code == TSR_EXIT_OK ? tsr_cli_fail(make_examples(s)) : code;
}

static void finish_session(session *s)
{
  tsr_trainer_destroy(s->trainer);
  tsr_device_close(s->device);
  tsr_runtime_destroy(s->runtime);
  tsr_model_close(s->model);
  free(s->ids);
  free(s->seconds);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static int measure(session *s)
{
  const request *options = s->options;
  s->seconds = calloc((size_t)options->repeat, sizeof *s->seconds);
  if (!s->seconds) {
    return tsr_cli_no_memory();
  }
  for (int32_t i = 0; i < options->warm + options->repeat; i++) {
    tsr_step_control control = {.step = i + 1, .learning_rate = 1e-4, .seed = (uint64_t)i};
    tsr_step_result result;
    double start = tsr_cli_seconds();
    tsr_status status = tsr_trainer_step(s->trainer, &s->examples, &control, 1, &result);
    if (status != TSR_OK) {
      return tsr_cli_fail(status);
    }
    if (i >= options->warm) {
      s->seconds[i - options->warm] = tsr_cli_seconds() - start;
    }
    s->loss = result.loss / (double)result.tokens;
  }
  return TSR_EXIT_OK;
}

/* One step of the same program, with a time for each line. */
static tsr_status run_profile(session *s, const tsr_program *program, uint64_t *nanoseconds)
{
  tsr_buffer *positions = NULL;
  tsr_executable *executable = NULL;
  tsr_status status = tsr_positions_upload(tsr_model_config(s->model), s->device, &positions);
  const tsr_binding binding = {.tensor = tsr_program_find(program, TSR_POSITIONS_NAME), .buffer = positions};
  tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = &binding, .n_bindings = positions ? 1 : 0,
                                 .profile = 1};
  if (status == TSR_OK) {
    status = tsr_executable_create(s->device, program, &options, &executable);
  }
  for (int32_t i = 0; i < 2 && status == TSR_OK; i++) { /* the first one touches the memory */
    status = tsr_executable_run(executable);
  }
  int32_t n = tsr_program_line_count(program);
  if (status == TSR_OK) {
    status = tsr_executable_profile(executable, nanoseconds, n);
  }
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    int32_t op = tsr_line_at(tsr_program_describe(program), i)->op;
    s->by_operator[op] += 1e-9 * (double)nanoseconds[i];
    s->lines[op]++;
  }
  tsr_executable_destroy(executable);
  tsr_buffer_destroy(positions);
  return status;
}

static int profile(session *s)
{
  const request *options = s->options;
  tsr_program_size size = {.batch = options->batch, .source = options->source, .target = options->target};
  tsr_program *program = NULL;
  tsr_status status = tsr_training_program(s->model, &options->training, TSR_STEP_UPDATE, &size, &program);
  if (status == TSR_OK) {
    uint64_t *nanoseconds = calloc((size_t)tsr_program_line_count(program) + 1, sizeof *nanoseconds);
    status = nanoseconds ? run_profile(s, program, nanoseconds) : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
    free(nanoseconds);
  }
  tsr_program_destroy(program);
  return tsr_cli_fail(status);
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static void print_profile(const session *s)
{
  double total = 0.0;
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    total += s->by_operator[op];
  }
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    if (s->lines[op] > 0) {
      printf("  %-24s %4d lines %10.1f ms %5.1f %%\n", tsr_op_describe(op)->name, (int)s->lines[op],
             1e3 * s->by_operator[op], 100.0 * s->by_operator[op] / total);
    }
  }
}

/* Adds what is trained, and with what; NULL (no memory) stays NULL. */
static json_t *describe(const session *s, json_t *root)
{
  const request *options = s->options;
  const tsr_transformer_config *config = tsr_model_config(s->model);
  const char *model = options->folder ? options->folder : "random";
  tsr_dtype products = options->training.products ? options->training.products : TSR_F32;
  if (root) {
    json_object_update_new(
        root, json_pack("{s:o, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b}", "model",
                        tsr_cli_json_text(model, strlen(model)), "precision", tsr_cli_precision_name(products),
                        "threads", (int)options->threads, "batch", (int)options->batch, "source", (int)options->source,
                        "target", (int)options->target, "repeat", (int)options->repeat, "d_model", (int)config->d_model,
                        "heads", (int)config->encoder_heads, "d_ff", (int)config->encoder_d_ff, "encoder_layers",
                        (int)config->encoder_layers, "decoder_layers", (int)config->decoder_layers, "vocabulary",
                        (int)config->target_vocabulary, "dropout", (double)options->training.dropout, "recompute",
                        (int)options->training.recompute));
  }
  return root;
}

static int tell(session *s)
{
  const request *options = s->options;
  const char *device = tsr_device_name(s->device);
  double tokens = (double)s->examples.target_tokens;
  bench_summary seconds = bench_summarise(s->seconds, options->repeat);
  tsr_trainer_memory memory;
  tsr_trainer_get_memory(s->trainer, &memory);
  if (options->as_json) {
    bench_device_text text;
    bench_describe(s->device, &text);
    json_t *root =
        json_pack("{s:s, s:f, s:o, s:f, s:I, s:I, s:I, s:I}", "what", "train", "tokens_per_second",
                  tokens / seconds.median, "step_ms", bench_summary_json(&seconds, 1e3), "loss", s->loss, "peak_memory",
                  (json_int_t)bench_peak_memory(), "state_bytes", (json_int_t)memory.state_bytes, "planned_bytes",
                  (json_int_t)memory.planned_bytes, "temporary_bytes", (json_int_t)memory.temporary_bytes);
    return tsr_cli_json_print(bench_device_json(describe(s, root), &text), JSON_REAL_PRECISION(8));
  }
  char peak[32], planned[32], unplanned[32];
  printf("%s: %.0f target tokens/s; a step takes %.1f ms (%.1f to %.1f of %d)\n", device, tokens / seconds.median,
         1e3 * seconds.median, 1e3 * seconds.least, 1e3 * seconds.most, (int)options->repeat);
  printf("temporaries: %s planned, %s in a buffer each (%.1f %%); peak memory of the process %s\n",
         tsr_cli_bytes((uint64_t)memory.planned_bytes, planned),
         tsr_cli_bytes((uint64_t)memory.temporary_bytes, unplanned),
         100.0 * (double)memory.planned_bytes / (double)memory.temporary_bytes,
         tsr_cli_bytes((uint64_t)bench_peak_memory(), peak));
  if (options->profile) {
    print_profile(s);
  }
  return TSR_EXIT_OK;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static int take_dropout(const tsr_option_given *given, char *text)
{
  request *options = given->place;
  double rate = 0.0;
  int code = tsr_cli_number(given->command, given->what, text, given->row->low, given->row->high, &rate);
  options->training.dropout = options->training.attention_dropout = options->training.activation_dropout = (float)rate;
  return code;
}

static void complete_config(tsr_transformer_config *config)
{
  config->decoder_heads = config->encoder_heads;
  config->decoder_d_ff = config->encoder_d_ff;
  config->decoder_layers = config->encoder_layers;
  config->target_vocabulary = config->source_vocabulary;
  config->embedding_scale = sqrtf((float)config->d_model);
}

static int run(void *opaque)
{
  request *options = opaque;
  complete_config(&options->config);
  session s = {.options = options};
  int code = open_session(&s);
  if (code == TSR_EXIT_OK) {
    code = measure(&s);
  }
  if (code == TSR_EXIT_OK && options->profile) {
    code = profile(&s);
  }
  if (code == TSR_EXIT_OK) {
    code = tell(&s);
  }
  finish_session(&s);
  return code;
}

#define FIELD(member) TSR_FIELD(request, member)

static const tsr_option rows[] = {
    {"device", "D", TSR_OPTION_DEVICE, FIELD(device), .help = "where to compute",
     .otherwise = "TESSERA_DEVICE, else auto"},
    {"threads", "N", TSR_OPTION_INTEGER, FIELD(threads), 1, 1024, .help = "threads of the cpu backend"},
    {"d-model", "N", TSR_OPTION_INTEGER, FIELD(config.d_model), 1, 1 << 14, .help = "of the random model",
     .preset = "256"},
    {"heads", "N", TSR_OPTION_INTEGER, FIELD(config.encoder_heads), 1, 256, .help = "of the random model",
     .preset = "8"},
    {"d-ff", "N", TSR_OPTION_INTEGER, FIELD(config.encoder_d_ff), 1, 1 << 16, .help = "of the random model",
     .preset = "1024"},
    {"layers", "N", TSR_OPTION_INTEGER, FIELD(config.encoder_layers), 1, 64, .help = "layers of each stack",
     .preset = "3"},
    {"vocabulary", "N", TSR_OPTION_INTEGER, FIELD(config.source_vocabulary), 1, 1 << 20,
     .help = "tokens in the vocabulary of each side", .preset = "8000"},
    {"batch", "N", TSR_OPTION_INTEGER, FIELD(batch), 1, 1 << 16, .help = "sentences", .preset = "100"},
    {"source", "N", TSR_OPTION_INTEGER, FIELD(source), 1, 1 << 12, .help = "tokens of each source", .preset = "25"},
    {"target", "N", TSR_OPTION_INTEGER, FIELD(target), 1, 1 << 12, .help = "tokens of each target", .preset = "25"},
    {"dropout", "P", TSR_OPTION_NUMBER, FIELD(training.dropout), 0, 0.99, .take = take_dropout,
     .help = "rate of all dropouts", .preset = "0.1"},
    {"precision", "P", TSR_OPTION_PRECISION, FIELD(training.products),
     .help = "products read the matrices as f32, f16 or bf16", .otherwise = "f32"},
    {"recompute", NULL, TSR_OPTION_FLAG, FIELD(training.recompute), .low = 1,
     .help = "compute what is within a layer again for the gradients"},
    {"warm", "N", TSR_OPTION_INTEGER, FIELD(warm), 1, 1000, .help = "steps before those that are timed", .preset = "2"},
    BENCH_REPEAT(request, "5", .help = "steps that are timed, one by one"),
    {"profile", NULL, TSR_OPTION_FLAG, FIELD(profile), .low = 1,
     .help = "also print the time of each operator in one step"},
    BENCH_JSON(request, "print one JSON object"),
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {{"MODEL", TSR_OPTION_FOLDER, offsetof(request, folder), .optional = 1}, {NULL}};
static const request initial = {
    .config = {TSR_SIZED(tsr_transformer_config), .family = "nn_transformer", .max_positions = 4096,
               .norm = TSR_NORM_LAYER, .norm_position = TSR_NORM_POST, .final_norm = 1,
               .activation = TSR_ACTIVATION_RELU, .position = TSR_POSITION_SINUSOID_INTERLEAVED, .attention_bias = 1,
               .feed_forward_bias = 1, .logits_bias = 1, .logits_scale = 1.0f, .epsilon = 1e-5f, .pad_id = 0,
               .bos_id = 1, .eos_id = 2, .unk_id = 3, .decoder_start_id = 1},
    .training = {TSR_SIZED(tsr_training_options), .label_smoothing = 0.1f, .max_norm = 1.0f}};

const tsr_command bench_train = {
    .name = "train",
    .parent = "bench",
    .usage = "[MODEL] [OPTION]...",
    .intro = "Times training steps (forward, backward, update) on random sentences of full length, and prints the "
             "target tokens per second. Without MODEL, it uses an nn.Transformer with random parameters.",
    .options = &options,
    .operands = operands,
    .takes = "one model",
    .session_size = sizeof(request),
    .initial = &initial,
    .run = run,
};
