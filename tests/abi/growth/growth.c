/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that hands every public struct that grows to the library, and translates. It is compiled and linked three
 * times: as the library's headers are; with these headers, and a library whose structs have a field more (the library
 * is newer than the program); with headers that have a field more (the program is newer: FUTURE). Each struct ends
 * where a page ends behind which nothing may be touched, so that a byte read or written beyond it ends the program.
 *
 *     growth MODEL BACKENDS [TEXT]     prints the translation of TEXT, greedy, on the device `cpu`
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "structs.h"
#include "tessera/audio.h"
#include "tessera/autodiff.h"
#include "tessera/checkpoint.h"
#include "tessera/eval.h"
#include "tessera/generate.h"
#include "tessera/inspect.h"
#include "tessera/ops.h"
#include "tessera/plan.h"
#include "tessera/shortlist.h"
#include "tessera/speech.h"
#include "tessera/text.h"
#include "tessera/train.h"
#include "tessera/training_run.h"
#include "tessera/transcriber.h"
#include "tessera/translator.h"

static int failures;

#define CHECK(condition, ...)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                                  \
      fprintf(stderr, __VA_ARGS__);                                                                                    \
      fputc('\n', stderr);                                                                                             \
      failures++;                                                                                                      \
    }                                                                                                                  \
  } while (0)

static void need(tsr_status status, const char *what)
{
  if (status != TSR_OK) {
    fprintf(stderr, "%s: %s: %s\n", what, tsr_status_name(status), tsr_error_message());
    exit(1);
  }
}

/* `size` bytes that end with a page. */
static void *at_end(size_t size)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t room = (size + page - 1) / page * page;
  char *pages = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + room, page, PROT_NONE) != 0) {
    perror("mmap");
    exit(1);
  }
  return pages + room - size;
}

/* ---- what the library is asked with ------------------------------------------------------------------------------ */

static const char *folder;
static const char *backends;
static tsr_runtime *runtime;
static tsr_device *device;
static tsr_model *model;
static tsr_model *small; /* of `small_config`, without weights */
static tsr_transformer *transformer;
static tsr_tokenizer *tokenizer;
static tsr_trainer *trainer;
static tsr_executable *executable;
static tsr_translator *translator;

static tsr_program *make_program(tsr_ref *x, tsr_ref *y)
{
  tsr_program *program;
  need(tsr_program_create(&program), "program");
  *x = tsr_input(program, "x", TSR_F32, TSR_SHAPE(1, 4));
  *y = tsr_output(program, "y", tsr_relu(program, *x));
  return program;
}

static void begin_runtime(void *options)
{
  *(tsr_runtime_options *)options = (tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = backends};
}

static tsr_status call_runtime(const void *options)
{
  tsr_runtime *made;
  tsr_status status = tsr_runtime_create(options, &made);
  tsr_runtime_destroy(made);
  return status;
}

static void begin_compile(void *options)
{
  *(tsr_compile_options *)options = (tsr_compile_options){TSR_SIZED(tsr_compile_options), .strict = 1};
}

static tsr_status call_compile(const void *options)
{
  tsr_ref x, y;
  tsr_program *program = make_program(&x, &y);
  tsr_executable *made;
  tsr_status status = tsr_executable_create(device, program, options, &made);
  tsr_executable_destroy(made);
  tsr_program_destroy(program);
  return status;
}

static void begin_gradient(void *options)
{
  *(tsr_gradient_options *)options = (tsr_gradient_options){TSR_SIZED(tsr_gradient_options)};
}

static tsr_status call_gradient(const void *options)
{
  tsr_ref x, y, gradient;
  tsr_program *program = make_program(&x, &y);
  tsr_ref factor = tsr_input(program, "factor", TSR_F32, TSR_SHAPE(1));
  tsr_status status = tsr_gradients(program, y, factor, &x, 1, options, &gradient);
  tsr_program_destroy(program);
  return status;
}

static void begin_config(void *config)
{
  *(tsr_transformer_config *)config = (tsr_transformer_config){TSR_SIZED(tsr_transformer_config),
                                                               .family = "nn_transformer",
                                                               .d_model = 8,
                                                               .encoder_layers = 1,
                                                               .decoder_layers = 1,
                                                               .encoder_heads = 2,
                                                               .decoder_heads = 2,
                                                               .encoder_d_ff = 16,
                                                               .decoder_d_ff = 16,
                                                               .source_vocabulary = 11,
                                                               .target_vocabulary = 12,
                                                               .max_positions = 16,
                                                               .norm = TSR_NORM_LAYER,
                                                               .norm_position = TSR_NORM_POST,
                                                               .activation = TSR_ACTIVATION_RELU,
                                                               .position = TSR_POSITION_SINUSOID_INTERLEAVED,
                                                               .attention_bias = 1,
                                                               .feed_forward_bias = 1,
                                                               .logits_bias = 1,
                                                               .embedding_scale = 1.0f,
                                                               .logits_scale = 1.0f,
                                                               .epsilon = 1e-5f,
                                                               .pad_id = 0,
                                                               .bos_id = 1,
                                                               .eos_id = 2,
                                                               .unk_id = -1,
                                                               .decoder_start_id = 1};
}

static tsr_status call_config(const void *config)
{
  tsr_model *made;
  tsr_status status = tsr_model_create(config, &made);
  tsr_model_close(made);
  return status;
}

static void begin_save(void *options)
{
  *(tsr_save_options *)options = (tsr_save_options){TSR_SIZED(tsr_save_options), .beam = 2, .activation_dropout = 0.1f};
}

/* An empty folder, whose name is a copy of the template; one at a time. */
static char *make_folder(void)
{
  static char path[] = "/tmp/tessera-growth-XXXXXX";
  memcpy(path + sizeof path - 7, "XXXXXX", 6);
  if (!mkdtemp(path)) {
    perror(path);
    exit(1);
  }
  return path;
}

static void remove_folder(const char *folder_made)
{
  static const char *const files[] = {"config.json",
                                      "generation_config.json",
                                      "model.safetensors",
                                      "train/best.safetensors",
                                      "train/last.safetensors",
                                      "train/log.csv",
                                      "train/log.jsonl",
                                      "train"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder_made, files[i]);
    remove(path);
  }
  CHECK(rmdir(folder_made) == 0 || errno == ENOENT, "%s: something is left in it", folder_made);
}

static tsr_status give_zeros(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  (void)context;
  (void)parameter;
  (void)first;
  memset(elements, 0, (size_t)count * sizeof *elements);
  return TSR_OK;
}

static tsr_status call_save(const void *options)
{
  const char *into = make_folder();
  tsr_status status = tsr_model_save(small, into, options, give_zeros, NULL);
  remove_folder(into);
  return status;
}

static void begin_transformer(void *options)
{
  *(tsr_transformer_options *)options = (tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = 1};
}

static tsr_status call_transformer(const void *options)
{
  tsr_transformer *made;
  tsr_status status = tsr_transformer_create(model, device, options, &made);
  tsr_transformer_destroy(made);
  return status;
}

static void begin_training(void *options)
{
  *(tsr_training_options *)options = (tsr_training_options){TSR_SIZED(tsr_training_options), .products = TSR_F32};
}

static tsr_status call_training(const void *options)
{
  tsr_program *program = NULL;
  tsr_status status = tsr_training_program(small, options, TSR_STEP_UPDATE,
                                           &(tsr_program_size){.batch = 1, .source = 4, .target = 4}, &program);
  tsr_program_destroy(program);
  return status;
}

static const tsr_toy_task task = {.kind = TSR_TOY_TASK_COPY, .vocabulary = 11, .min_length = 2, .max_length = 5};

static void begin_training_data(void *options)
{
  *(tsr_training_data_options *)options = (tsr_training_data_options){
      TSR_SIZED(tsr_training_data_options), .task = &task, .batch_tokens = 64, .max_source = 8, .max_target = 8};
}

static tsr_status call_training_data(const void *options)
{
  tsr_training_data *data = NULL;
  tsr_status status = tsr_training_data_create(options, &data);
  tsr_training_data_destroy(data);
  return status;
}

static tsr_tokenizer *of_speech;
static char sounds[4096]; /* a list */

static void begin_training_sounds(void *options)
{
  *(tsr_training_sounds *)options =
      (tsr_training_sounds){TSR_SIZED(tsr_training_sounds), .mels = 8, .positions = 50, .language = "en"};
}

static tsr_status call_training_sounds(const void *options)
{
  const tsr_training_data_options of_data = {TSR_SIZED(tsr_training_data_options), .files = {.source = sounds},
                                             .tokenizer = of_speech, .batch_tokens = 50, .sounds = options};
  tsr_training_data *data = NULL;
  tsr_status status = tsr_training_data_create(&of_data, &data);
  tsr_training_data_destroy(data);
  return status;
}

static void begin_training_run(void *options)
{
  static tsr_training_data_options data;
  static const tsr_training_options training = {TSR_SIZED(tsr_training_options)};
  begin_training_data(&data);
  *(tsr_training_run_options *)options =
      (tsr_training_run_options){TSR_SIZED(tsr_training_run_options), .folder = make_folder(), .data = &data,
                                 .training = &training, .schedule = {.kind = TSR_SCHEDULE_CONSTANT, .peak = 0.1}};
}

static tsr_status call_training_run(const void *options)
{
  tsr_status status = tsr_training_run_check(options);
  remove_folder(((const tsr_training_run_options *)options)->folder);
  return status;
}

static void begin_generate(void *options)
{
  tsr_generate_options *o = options;
  *o = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
  need(tsr_generate_defaults(model, o), "tsr_generate_defaults");
  CHECK(o->struct_size == sizeof *o, "tsr_generate_defaults changed struct_size to %u", (unsigned)o->struct_size);
  o->beam = o->n_best = 1;
}

static char *translate(const tsr_generate_options *options, const char *text, tsr_status *status)
{
  int32_t *ids;
  int32_t n;
  char *out = NULL;
  tsr_generation generation = {0};
  need(tsr_tokenizer_encode(tokenizer, text, strlen(text), &ids, &n), "encode");
  const int32_t *source = ids;
  *status = tsr_generate(transformer, 1, &source, &n, 0, options, NULL, NULL, &generation);
  if (*status == TSR_OK) {
    need(tsr_tokenizer_decode(tokenizer, generation.hypotheses[0].ids, generation.hypotheses[0].n_ids, &out), "decode");
  }
  tsr_generation_finish(&generation);
  tsr_free(ids);
  return out;
}

static tsr_status call_generate(const void *options)
{
  tsr_status status;
  tsr_free(translate(options, "Yes.", &status));
  return status;
}

static void begin_score(void *options)
{
  *(tsr_score_options *)options = (tsr_score_options){TSR_SIZED(tsr_score_options), .length_penalty = 1.0f};
}

static tsr_status call_score(const void *options)
{
  static const int32_t ids[] = {5, 6, 0};
  const int32_t *const sentence = ids;
  const int32_t length = 3;
  tsr_scores scores = {0};
  tsr_status status = tsr_score(transformer, 1, &sentence, &length, &sentence, &length, options, NULL, NULL, &scores);
  tsr_scores_finish(&scores);
  return status;
}

static void begin_translator(void *options)
{
  static const char *const names[] = {"cpu"};
  *(tsr_translator_options *)options =
      (tsr_translator_options){TSR_SIZED(tsr_translator_options), .n_devices = 1, .devices = names, .runtime = runtime};
}

static tsr_status call_translator(const void *options)
{
  tsr_translator *made;
  tsr_status status = tsr_translator_open(folder, options, &made);
  tsr_translator_close(made);
  return status;
}

static void begin_request(void *request)
{
  *(tsr_translation_request *)request = (tsr_translation_request){TSR_SIZED(tsr_translation_request), .text = "Yes."};
}

static tsr_status call_request(const void *request)
{
  uint64_t ticket;
  tsr_translation *translation = NULL;
  tsr_status status = tsr_translator_submit(translator, request, NULL, NULL, &ticket);
  if (status == TSR_OK) {
    need(tsr_translator_wait(translator, ticket, &translation), "tsr_translator_wait");
    status = translation->status;
  }
  tsr_translation_free(translation);
  return status;
}

/* A WAV file without samples. */
static const unsigned char silence[] = "RIFF\44\0\0\0WAVEfmt \20\0\0\0\1\0\1\0\200\76\0\0\0\175\0\0\2\0\20\0data\0\0\0";

static void begin_audio(void *options)
{
  *(tsr_audio_options *)options = (tsr_audio_options){TSR_SIZED(tsr_audio_options), .raw = TSR_AUDIO_S16};
}

static tsr_status call_audio(const void *options)
{
  tsr_audio *audio;
  tsr_status status = tsr_audio_view("silence", silence, sizeof silence, options, &audio);
  tsr_audio_close(audio);
  return status;
}

/* A small model of speech. */
static char listener[4096];
static tsr_transcriber *transcriber;

static void begin_transcriber(void *options)
{
  *(tsr_transcriber_options *)options =
      (tsr_transcriber_options){TSR_SIZED(tsr_transcriber_options), .device = "cpu", .runtime = runtime};
}

static tsr_status call_transcriber(const void *options)
{
  tsr_transcriber *made;
  tsr_status status = tsr_transcriber_open(listener, options, &made);
  tsr_transcriber_close(made);
  return status;
}

static void begin_transcribe(void *options)
{
  tsr_transcribe_options *o = options;
  *o = (tsr_transcribe_options){TSR_SIZED(tsr_transcribe_options)};
  need(tsr_transcribe_defaults(o), "tsr_transcribe_defaults");
}

static tsr_status call_transcribe(const void *options)
{
  return tsr_transcribe(transcriber, 0, NULL, options, NULL);
}

typedef struct trial {
  const char *name;
  size_t size;
  void (*begin)(void *options);
  tsr_status (*call)(const void *options);
} trial;

#define TRIAL(type, what)                                                                                              \
  {                                                                                                                    \
#type, sizeof(type), begin_##what, call_##what                                                                     \
  }
static const trial trials[] = {
    TRIAL(tsr_runtime_options, runtime),
    TRIAL(tsr_compile_options, compile),
    TRIAL(tsr_gradient_options, gradient),
    TRIAL(tsr_transformer_config, config),
    TRIAL(tsr_save_options, save),
    TRIAL(tsr_transformer_options, transformer),
    TRIAL(tsr_training_options, training),
    TRIAL(tsr_generate_options, generate),
    TRIAL(tsr_score_options, score),
    TRIAL(tsr_translator_options, translator),
    TRIAL(tsr_translation_request, request),
    TRIAL(tsr_training_data_options, training_data),
    TRIAL(tsr_training_sounds, training_sounds),
    TRIAL(tsr_training_run_options, training_run),
    TRIAL(tsr_audio_options, audio),
    TRIAL(tsr_transcriber_options, transcriber),
    TRIAL(tsr_transcribe_options, transcribe),
};

static void run_trial(const char *name)
{
  const trial *t = trials;
  while (t < trials + sizeof trials / sizeof trials[0] && strcmp(t->name, name) != 0) {
    t++;
  }
  if (t == trials + sizeof trials / sizeof trials[0]) {
    CHECK(0, "%s: begins with struct_size, and no trial hands it to the library", name);
    return;
  }
  void *options = at_end(t->size);
  t->begin(options);
  tsr_status status = t->call(options);
  CHECK(status == TSR_OK, "%s: %s: %s", name, tsr_status_name(status), tsr_error_message());
#ifdef FUTURE
  /* The program is newer: a field that the library does not know may be 0, and nothing else. */
  int32_t *last = (int32_t *)(void *)((char *)options + t->size) - 1;
  *last = 1;
  status = t->call(options);
  CHECK(status == TSR_ERR_ARGUMENT && strstr(tsr_error_message(), name) && strstr(tsr_error_message(), "is set"),
        "%s with a field of the future: %s: %s", name, tsr_status_name(status), tsr_error_message());
  *last = 0;
#endif
  static const uint32_t impossible[] = {0, 4, 8, 1u << 20, UINT32_MAX};
  for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
    memcpy(options, &impossible[i], sizeof impossible[i]);
    status = t->call(options);
    CHECK(status == TSR_ERR_ARGUMENT && strstr(tsr_error_message(), name) &&
              strstr(tsr_error_message(), "struct_size is"),
          "%s with a struct_size of %u: %s: %s", name, (unsigned)impossible[i], tsr_status_name(status),
          tsr_error_message());
  }
}

/* ---- what the library fills -------------------------------------------------------------------------------------- */

#define FILL(type, expression)                                                                                         \
  static tsr_status fill_##type(void *target)                                                                          \
  {                                                                                                                    \
    type *info = target;                                                                                               \
    return expression;                                                                                                 \
  }
FILL(tsr_device_info, tsr_runtime_device_info(runtime, 0, info))
FILL(tsr_problem, tsr_runtime_problem(runtime, 0, info))
FILL(tsr_device_counters, tsr_device_get_counters(device, info))
FILL(tsr_executable_info, (tsr_executable_report(executable, info), TSR_OK))
FILL(tsr_generate_statistics, (tsr_generate_measure(transformer, info), TSR_OK))
FILL(tsr_tokenizer_info, tsr_tokenizer_get_info(tokenizer, info))
FILL(tsr_source, tsr_source_prepare(tokenizer, "Yes.", 4, 64, TSR_LONG_CUT, info))
FILL(tsr_parameter_info, tsr_model_parameter(model, 0, info))
FILL(tsr_parameter_piece, tsr_model_parameter_piece(model, 0, 0, info))
FILL(tsr_model_part, tsr_model_get_part(model, 0, &device, 1, 0, info))
FILL(tsr_layer_statistics, tsr_trainer_layer(trainer, 0, info))
FILL(tsr_translator_statistics, (tsr_translator_measure(translator, info), TSR_OK))
FILL(tsr_translator_device, tsr_translator_get_device(translator, 0, info))
FILL(tsr_trainer_memory, (tsr_trainer_get_memory(trainer, info), TSR_OK))

static tsr_status fill_tsr_checkpoint_tensor_info(void *target)
{
  tsr_checkpoint *checkpoint;
  tsr_status status = tsr_checkpoint_open(folder, &checkpoint);
  if (status == TSR_OK) {
    tsr_checkpoint_describe(tsr_checkpoint_at(checkpoint, 0), target);
    tsr_checkpoint_close(checkpoint);
  }
  return status;
}

static tsr_status fill_tsr_audio_info(void *target)
{
  tsr_audio *audio;
  tsr_status status = tsr_audio_view("silence.wav", silence, sizeof silence, NULL, &audio);
  if (status == TSR_OK) {
    tsr_audio_describe(audio, target);
    tsr_audio_close(audio);
  }
  return status;
}

static tsr_status fill_tsr_program_statistics(void *target)
{
  tsr_ref x, y;
  tsr_program *program = make_program(&x, &y);
  tsr_status status = tsr_program_measure(program, 16, target);
  tsr_program_destroy(program);
  return status;
}

static tsr_status fill_tsr_training_run_result(void *target)
{
  tsr_training_run_options options;
  begin_training_run(&options);
  options.steps = 1;
  tsr_status status = tsr_training_run(small, device, NULL, &options, target);
  remove_folder(options.folder);
  return status;
}

static void run_fill(const char *name, size_t size, tsr_status (*fill)(void *target))
{
  unsigned char *info = at_end(size);
  memset(info, 0x5a, size);
  tsr_status status = fill(info);
  CHECK(status == TSR_OK, "%s: %s: %s", name, tsr_status_name(status), tsr_error_message());
  size_t untouched = 0;
  while (untouched < size && info[untouched] == 0x5a) {
    untouched++;
  }
  CHECK(untouched < size, "%s was not filled", name);
#ifdef FUTURE
  int32_t future[2] = {0};
  int is_counters = strcmp(name, "tsr_device_counters") == 0; /* of backend.h, which has no field of the future here */
  CHECK(is_counters || memcmp(info + size - sizeof future, future, sizeof future) == 0,
        "%s: what the library does not know is not zero", name);
#endif
  if (strcmp(name, "tsr_source") == 0) {
    tsr_source_finish((tsr_source *)(void *)info); /* as far as it knows it */
  }
}

/* ---- what keeps its size ----------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  size_t size;
} fixed[] = {
    {"tsr_line_range", 8},
    {"tsr_span", 16},
    {"tsr_bleu", 128},
    {"tsr_chrf", 168},
    {"tsr_wer", 48},
    {"tsr_speech_tokens", 36},
    {"tsr_speech_offset", 24},
    {"tsr_speech_segment", 24},
    {"tsr_speech_context", 56},
    {"tsr_speech_word", 40},
    {"tsr_speech_measures", 24},
    {"tsr_segment", 72},
    {"tsr_transcript", 56},
    {"tsr_token", 20},
    {"tsr_hypothesis", 32},
    {"tsr_generation", 16},
    {"tsr_target_score", 32},
    {"tsr_scores", 16},
    {"tsr_inspected", 56},
    {"tsr_inspection", 16},
    {"tsr_profile_row", 48},
    {"tsr_profile", 48},
    {"tsr_masking", 32},
    {"tsr_attention_args", 96},
    {"tsr_adam_args", 52},
    {"tsr_slot_info", 24},
    {"tsr_op_info", 456},
    {"tsr_binding", 24},
    {"tsr_shortlist_entry", 12},
    {"tsr_shape", 40},
    {"tsr_examples", 56},
    {"tsr_step_control", 40},
    {"tsr_step_result", 32},
    {"tsr_program_size", 16},
    {"tsr_kernel_access", 16},
    {"tsr_plan_kernel", 72},
    {"tsr_text_span", 8},
    {"tsr_corpus_sentence", 40},
    {"tsr_corpus_files", 24},
    {"tsr_corpus_pair", 40},
    {"tsr_corpus_position", 24},
    {"tsr_toy_task", 32},
    {"tsr_training_batch", 88},
    {"tsr_training_data_position", 56},
    {"tsr_training_data_counts", 40},
    {"tsr_schedule", 32},
    {"tsr_training_run_step", 96},
    {"tsr_training_run_validation", 64},
    {"tsr_facts", 72},
    {"tsr_audio_source", 32},
};

static void check_fixed(const char *name, size_t size)
{
  for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
    if (strcmp(fixed[i].name, name) == 0) {
      CHECK(fixed[i].size == size, "%s has %zu bytes now, and had %zu: no field can be added to it", name, size,
            fixed[i].size);
      return;
    }
  }
  CHECK(0,
        "%s: a new struct of %zu bytes: let it begin with struct_size, or put it into the list of those that keep "
        "their size",
        name, size);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void open_all(void)
{
  char path[4096];
  snprintf(path, sizeof path, "%s:not-from-the-root", backends); /* a problem to ask about */
  need(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = path}, &runtime), "runtime");
  need(tsr_device_open(runtime, "cpu", &device), "device");
  need(tsr_model_open(folder, &model), "model");
  need(tsr_tokenizer_open(model, &tokenizer), "tokenizer");
  need(tsr_transformer_create(model, device, NULL, &transformer), "transformer");
  tsr_transformer_config config;
  begin_config(&config);
  need(tsr_model_create(&config, &small), "small model");
  const tsr_training_options options = {TSR_SIZED(tsr_training_options), .statistics = 1};
  need(tsr_trainer_create(small, device, &options, NULL, &trainer), "trainer");
  tsr_translator_options of_translator;
  begin_translator(&of_translator);
  need(tsr_translator_open(folder, &of_translator, &translator), "translator");
  need(tsr_tokenizer_open_folder(listener, &of_speech), "tokenizer of speech");
  tsr_transcriber_options of_transcriber;
  begin_transcriber(&of_transcriber);
  need(tsr_transcriber_open(listener, &of_transcriber, &transcriber), "transcriber");
  tsr_ref x, y;
  tsr_program *program = make_program(&x, &y);
  need(tsr_executable_create(device, program, NULL, &executable), "executable");
  tsr_program_destroy(program);
}

static void close_all(void)
{
  tsr_tokenizer_close(of_speech);
  tsr_transcriber_close(transcriber);
  tsr_translator_close(translator);
  tsr_executable_destroy(executable);
  tsr_trainer_destroy(trainer);
  tsr_model_close(small);
  tsr_transformer_destroy(transformer);
  tsr_tokenizer_close(tokenizer);
  tsr_model_close(model);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

int main(int argc, char **argv)
{
  if (argc < 3) {
    fprintf(stderr, "usage: growth MODEL BACKENDS [TEXT]\n");
    return 2;
  }
  folder = argv[1];
  backends = argv[2];
  snprintf(listener, sizeof listener, "%s/../goldens/speech/models/whisper_tiny_random", folder);
  snprintf(sounds, sizeof sounds, "%s/../tatoeba/test.en", folder); /* any text: no sound is waited for */
  open_all();
#define RUN_TRIAL(type) run_trial(#type);
#define RUN_FILL(type)  run_fill(#type, sizeof(type), fill_##type);
#define RUN_FIXED(type) check_fixed(#type, sizeof(type));
  SIZED(RUN_TRIAL)
  FILLED(RUN_FILL)
  FIXED(RUN_FIXED)
  if (argc > 3) {
    tsr_generate_options *options = at_end(sizeof *options);
    tsr_status status;
    begin_generate(options);
    char *text = translate(options, argv[3], &status);
    need(status, "translate");
    puts(text);
    tsr_free(text);
  }
  close_all();
  return failures > 0;
}
