/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that measures one configuration of a model: opens it, and times rounds of generating, or runs of one
 * program.
 */
#include <stdlib.h>
#include <string.h>

#include "tessera/generate.h"
#include "tools/random/random.h"
#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/programs/kinds.h"

enum { SEED = 1, PROFILE_RUNS = 11 };

/* A sample is the mean over rounds that take this long together. */
static const double sample_seconds = 0.1;

typedef struct session {
  const bench_model_task *task;
  tsr_model *model;
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_transformer *transformer;
  tsr_generate_options options;
  int32_t *ids;               /* [sentences][source] */
  const int32_t **sources;    /* [sentences] */
  int32_t *lengths;           /* [sentences] */
  float *features;            /* of a model of speech: a window, for all sentences; else NULL */
  const float **windows;      /* [sentences] likewise */
  tsr_executable *executable; /* the program; not for generate */
} session;

static int session_open(session *s)
{
  const bench_model_task *task = s->task;
  int code = tsr_cli_fail_input(tsr_model_open(task->folder, &s->model));
  if (code == TSR_EXIT_OK) {
    code = bench_open_device(task->threads, bench_given(task->device), &s->runtime, &s->device);
  }
  if (code == TSR_EXIT_OK) {
    tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .weights = task->precision,
                                       .workers = task->workers};
    code = tsr_cli_fail(tsr_transformer_create(s->model, s->device, &options, &s->transformer));
  }
  return code;
}

static void session_finish(session *s)
{
  tsr_executable_destroy(s->executable);
  tsr_transformer_destroy(s->transformer);
  tsr_device_close(s->device);
  tsr_runtime_destroy(s->runtime);
  tsr_model_close(s->model);
  free(s->ids);
  free(s->sources);
  free(s->lengths);
  free(s->features);
  free(s->windows);
}

/* ---- generating -------------------------------------------------------------------------------------------------- */

/* Exactly `target` tokens: the end is banned until nothing may follow. */
static int choose_options(session *s)
{
  s->options = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
  tsr_status status = tsr_generate_defaults(s->model, &s->options);
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  s->options.beam = s->task->beam;
  s->options.n_best = 1;
  s->options.max_length = s->task->target + 1;
  s->options.min_length = s->task->target + 1;
  s->options.forced_bos_id = -1;
  s->options.forced_eos_id = -1;
  s->options.no_repeat_ngram = 0;
  s->options.n_words = 0;
  return TSR_EXIT_OK;
}

/* Windows of sound: noise, as loud as features of speech are. */
static int make_windows(session *s)
{
  const tsr_transformer_config *config = tsr_model_config(s->model);
  const size_t sentences = (size_t)s->task->sentences;
  const size_t n = (size_t)config->mels * 2 * (size_t)config->source_positions;
  uint64_t random = SEED;
  s->features = malloc(n * sizeof *s->features);
  s->windows = malloc(sentences * sizeof *s->windows);
  s->lengths = malloc(sentences * sizeof *s->lengths);
  if (!s->features || !s->windows || !s->lengths) {
    return tsr_cli_no_memory();
  }
  for (size_t i = 0; i < n; i++) {
    s->features[i] = (float)tsr_random_real(&random);
  }
  for (size_t i = 0; i < sentences; i++) {
    s->windows[i] = s->features;
    s->lengths[i] = config->source_positions;
  }
  return TSR_EXIT_OK;
}

static int make_sources(session *s)
{
  const tsr_transformer_config *config = tsr_model_config(s->model);
  if (config->mels > 0) {
    return make_windows(s);
  }
  size_t sentences = (size_t)s->task->sentences, source = (size_t)s->task->source;
  uint64_t random = SEED;
  s->ids = malloc(sentences * source * sizeof *s->ids);
  s->sources = malloc(sentences * sizeof *s->sources);
  s->lengths = malloc(sentences * sizeof *s->lengths);
  if (!s->ids || !s->sources || !s->lengths) {
    return tsr_cli_no_memory();
  }
  for (size_t i = 0; i < sentences * source; i++) {
    s->ids[i] = tsr_random_below(&random, config->source_vocabulary);
  }
  for (size_t i = 0; i < sentences; i++) {
    s->sources[i] = s->ids + i * source;
    s->lengths[i] = s->task->source;
  }
  return TSR_EXIT_OK;
}

static int generate(session *s)
{
  tsr_generation generation;
  tsr_status status = s->windows ? tsr_generate_features(s->transformer, s->task->sentences, s->windows, s->task->batch,
                                                         &s->options, NULL, NULL, &generation)
                                 : tsr_generate(s->transformer, s->task->sentences, s->sources, s->lengths,
                                                s->task->batch, &s->options, NULL, NULL, &generation);
  tsr_generation_finish(&generation);
  return tsr_cli_fail(status);
}

/* ---- one program ------------------------------------------------------------------------------------------------- */

/* Sentences all of their full length; and the step that is profiled in the middle of the target, as far as it moves on
 * from run to run. */
static tsr_status write_sizes(const session *s, const tsr_program *program, tsr_executable *executable)
{
  tsr_ref lengths = tsr_program_find(program, "source_lengths");
  tsr_status status = TSR_OK;
  if (lengths != TSR_NONE) {
    int64_t size = s->task->batch * (int64_t)sizeof *s->lengths;
    status = tsr_executable_write(executable, lengths, s->lengths, size);
  }
  tsr_ref position = tsr_program_find(program, "position");
  if (status == TSR_OK && position != TSR_NONE && tsr_ref_kind(program, position) == TSR_STORAGE_STATE) {
    int32_t first = s->task->target > PROFILE_RUNS ? (s->task->target - PROFILE_RUNS) / 2 : 0;
    status = tsr_executable_write(executable, position, &first, (int64_t)sizeof first);
  }
  return status;
}

/* The program that the task is about, on random input. profile: as in tsr_compile_options. Both results are the
 * caller's, on errors too. */
static tsr_status make_program(const session *s, int32_t profile, tsr_program **program, tsr_executable **executable)
{
  const bench_model_task *task = s->task;
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .profile = profile};
  tsr_program_size size = {.batch = task->batch, .source = task->source, .target = task->target, .beam = task->beam};
  int32_t kind = task->what == BENCH_ENCODE ? TSR_PROGRAM_ENCODE : TSR_PROGRAM_DECODE;
  if (task->what == BENCH_GENERATE) {
    kind = task->beam == 1 ? TSR_PROGRAM_GREEDY : TSR_PROGRAM_BEAM;
  }
  tsr_status status = tsr_transformer_program(s->transformer, kind, &size, program);
  if (status == TSR_OK) {
    status = tsr_cli_compile(s->transformer, *program, &options, executable);
  }
  if (status == TSR_OK) {
    status = tsr_cli_fill(s->model, *program, &size, SEED, *executable);
  }
  if (status == TSR_OK) {
    status = write_sizes(s, *program, *executable);
  }
  return status;
}

static int prepare(session *s)
{
  int code = make_sources(s);
  if (code == TSR_EXIT_OK && s->task->what == BENCH_GENERATE) {
    code = choose_options(s);
  } else if (code == TSR_EXIT_OK) {
    tsr_program *program = NULL;
    code = tsr_cli_fail(make_program(s, 0, &program, &s->executable));
    tsr_program_destroy(program);
  }
  return code;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* A sample of rounds that take so long. */
static int measure(session *s, double seconds, bench_model_sample *sample)
{
  const bench_model_task *task = s->task;
  tsr_generate_statistics before, after;
  tsr_generate_measure(s->transformer, &before);
  double start = tsr_cli_seconds(), taken = 0.0;
  int32_t rounds = 0;
  for (int code; taken < seconds; rounds++) {
    code = task->what == BENCH_GENERATE ? generate(s) : tsr_cli_fail(tsr_executable_run(s->executable));
    if (code != TSR_EXIT_OK) {
      return code;
    }
    taken = tsr_cli_seconds() - start;
  }
  tsr_generate_measure(s->transformer, &after);
  *sample = (bench_model_sample){.seconds = taken / rounds, .peak_memory = bench_peak_memory()};
  sample->tokens = (double)task->batch * (task->what == BENCH_ENCODE ? task->source : task->target);
  if (task->what == BENCH_GENERATE) {
    sample->tokens = (double)(after.target_tokens - before.target_tokens) / rounds;
    sample->workers = after.workers;
    sample->encode_seconds =
        (after.encode_seconds - before.encode_seconds) / (double)(after.encode_runs - before.encode_runs);
    sample->step_seconds = (after.step_seconds - before.step_seconds) / (double)(after.step_runs - before.step_runs);
  }
  bench_describe(s->device, &sample->device);
  return TSR_EXIT_OK;
}

/* The storage that an operand lies in; 0 for none. */
static int32_t storage_of(const tsr_program_desc *desc, int32_t tensor)
{
  return tensor > 0 ? tsr_tensor_at(desc, tensor)->storage : 0;
}

/* Sums the lines' times by operator. A device may compute several lines at once, and gives the time to one of them:
 * where a product took no time, the line that reads it took the product's. pending [n_storages], zeros: whether that is
 * so of the line that wrote a storage. */
static void sum_lines(const tsr_program_desc *desc, const uint64_t *times, char *pending, bench_model_profile *profile)
{
  for (int32_t i = 0; i < desc->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(desc, i);
    double seconds = 1e-9 * (double)times[i];
    int fused = 0;
    for (int32_t k = 0; k < TSR_MAX_INPUTS; k++) {
      fused |= pending[storage_of(desc, line->in[k])];
    }
    for (int32_t k = 0; k < TSR_MAX_OUTPUTS; k++) {
      int32_t storage = storage_of(desc, line->out[k]);
      pending[storage] = storage > 0 && times[i] == 0 && (fused || line->op == TSR_OP_MATMUL);
    }
    profile->seconds[line->op] += seconds;
    profile->lines[line->op]++;
    profile->fused += fused && line->op != TSR_OP_MATMUL ? seconds : 0.0;
  }
}

static tsr_status sum_profile(tsr_executable *executable, const tsr_program *program, bench_model_profile *profile)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  uint64_t *times = malloc(2 * ((size_t)desc->n_lines + 1) * sizeof *times);
  char *pending = calloc((size_t)desc->n_storages + 1, 1);
  tsr_status status = times && pending ? tsr_executable_run(executable) /* warm */
                                       : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  if (status == TSR_OK) {
    status = tsr_cli_time_lines(executable, desc->n_lines, PROFILE_RUNS, times, times + desc->n_lines);
  }
  *profile = (bench_model_profile){0};
  if (status == TSR_OK) {
    sum_lines(desc, times, pending, profile);
  }
  free(times);
  free(pending);
  return status;
}

/* Of a decoding step in the middle of the target, or of the program. */
static int measure_profile(const session *s, bench_model_profile *profile)
{
  tsr_program *program = NULL;
  tsr_executable *executable = NULL;
  tsr_status status = make_program(s, 1, &program, &executable);
  if (status == TSR_OK) {
    status = sum_profile(executable, program, profile);
  }
  tsr_executable_destroy(executable);
  tsr_program_destroy(program);
  return tsr_cli_fail(status);
}

int bench_model_body(const void *task)
{
  session s = {.task = task};
  int code = session_open(&s);
  if (code == TSR_EXIT_OK) {
    code = prepare(&s);
  }
  bench_model_sample sample;
  for (int32_t request, awake = 0; code == TSR_EXIT_OK && bench_next(&request); awake = 1) {
    if (!awake && tsr_cli_is_gpu(tsr_device_get_properties(s.device)->type)) {
      code = measure(&s, BENCH_WAKING_SECONDS, &sample);
    }
    if (code == TSR_EXIT_OK && request == BENCH_PROFILE) {
      bench_model_profile profile;
      code = measure_profile(&s, &profile);
      if (code == TSR_EXIT_OK) {
        bench_reply(&profile, sizeof profile);
      }
      continue;
    }
    code = code == TSR_EXIT_OK ? measure(&s, sample_seconds, &sample) : code;
    if (code == TSR_EXIT_OK) {
      bench_reply(&sample, sizeof sample);
    }
  }
  session_finish(&s);
  return code;
}
