/* SPDX-License-Identifier: Apache-2.0
 *
 * training_losses DEVICE: the first hundred training losses of a model of 2 + 2 layers, dropout on, on DEVICE and on
 * the
 * cpu backend: within 1e-3 of each other, relative, and run to run the same bits on DEVICE. Exit code 77 (skipped)
 * without the device.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/train.h"
#include "tessera/training_run.h"
#include "tests/support/configs.h"
#include "tools/random/random.h"

enum { STEPS = 100, ROWS = 12, WIDTH = 9, VOCABULARY = 40, PAD = VOCABULARY - 1, EOS = 0, FIRST_WORD = 2 };

static int failed(const char *what)
{
  fprintf(stderr, "%s: %s\n", what, tsr_error_message());
  return 1;
}

static tsr_status make_model(tsr_model **model)
{
  tsr_transformer_config config = marian_config();
  config.d_model = 32;
  config.decoder_layers = 2;
  config.encoder_heads = config.decoder_heads = 4;
  config.encoder_d_ff = config.decoder_d_ff = 64;
  config.source_vocabulary = config.target_vocabulary = VOCABULARY;
  config.max_positions = 32;
  config.embedding_scale = sqrtf(32.0f);
  config.pad_id = config.decoder_start_id = PAD;
  return tsr_model_create(&config, model);
}

static tsr_status begin(const tsr_model *model, tsr_trainer *trainer)
{
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < tsr_model_parameter_count(model) && status == TSR_OK; i++) {
    tsr_parameter_info info;
    status = tsr_model_parameter(model, i, &info);
    int64_t n = tsr_shape_elements(&info.shape);
    float *values = calloc((size_t)n, sizeof *values);
    status = values ? tsr_initialise(model, TSR_INITIAL_XAVIER, 1, i, values, n) : TSR_ERR_OUT_OF_MEMORY;
    if (status == TSR_OK) {
      status = tsr_trainer_write(trainer, TSR_TRAINED_PARAMETER, i, values, n);
    }
    free(values);
  }
  return status;
}

/* Sentences of words, to be reversed. */
typedef struct batch {
  int32_t source[ROWS][WIDTH], lengths[ROWS], target[ROWS][WIDTH], labels[ROWS][WIDTH];
  int64_t tokens;
} batch;

static void draw_batch(uint64_t seed, batch *b)
{
  *b = (batch){.tokens = 0};
  for (int32_t row = 0; row < ROWS; row++) {
    int32_t words = 1 + tsr_random_below(&seed, WIDTH - 1);
    for (int32_t i = 0; i < WIDTH; i++) {
      b->source[row][i] = i < words ? FIRST_WORD + tsr_random_below(&seed, PAD - FIRST_WORD) : i == words ? EOS : PAD;
      b->labels[row][i] = -1;
      b->target[row][i] = PAD;
    }
    for (int32_t i = 0; i <= words; i++) {
      b->labels[row][i] = i < words ? b->source[row][words - 1 - i] : EOS;
      b->target[row][i] = i > 0 ? b->labels[row][i - 1] : PAD;
    }
    b->lengths[row] = words + 1;
    b->tokens += words + 1;
  }
}

static const tsr_training_options options = {TSR_SIZED(tsr_training_options), .dropout = 0.1f,
                                             .attention_dropout = 0.1f,       .activation_dropout = 0.1f,
                                             .label_smoothing = 0.1f,         .max_norm = 1.0f};

/* 1 if the device runs every line of a step itself: with another's help it would prove little. */
static int runs_all(const tsr_model *model, tsr_device *device)
{
  const tsr_program_size size = {.batch = ROWS, .source = WIDTH, .target = WIDTH};
  tsr_program *program = NULL;
  int all = tsr_training_program(model, &options, TSR_STEP_UPDATE, &size, &program) == TSR_OK;
  for (int32_t i = 0; all && i < tsr_program_line_count(program); i++) {
    if (!tsr_device_supports(device, program, i)) {
      char text[512];
      fprintf(stderr, "the device does not run %s\n", tsr_program_print_line(program, i, text, sizeof text));
      all = 0;
    }
  }
  tsr_program_destroy(program);
  return all;
}

static tsr_status train(const tsr_model *model, tsr_device *device, double *losses)
{
  tsr_trainer *trainer = NULL;
  tsr_status status = tsr_trainer_create(model, device, &options, NULL, &trainer);
  if (status == TSR_OK) {
    status = begin(model, trainer);
  }
  for (int32_t step = 1; step <= STEPS && status == TSR_OK; step++) {
    static batch b;
    draw_batch((uint64_t)step, &b);
    const tsr_examples examples = {.rows = ROWS,
                                   .source_width = WIDTH,
                                   .target_width = WIDTH,
                                   .source = b.source[0],
                                   .source_lengths = b.lengths,
                                   .target = b.target[0],
                                   .labels = b.labels[0],
                                   .target_tokens = b.tokens};
    const tsr_step_control control = {
        .step = step, .learning_rate = 2e-3 * fmin(1.0, (double)step / 40.0), .seed = 1000u + (uint64_t)step};
    tsr_step_result result;
    status = tsr_trainer_step(trainer, &examples, &control, 1, &result);
    losses[step - 1] = result.loss / (double)b.tokens;
  }
  tsr_trainer_destroy(trainer);
  return status;
}

static int compare(const tsr_model *model, tsr_device *device, tsr_device *cpu)
{
  static double found[STEPS], again[STEPS], expected[STEPS];
  double worst = 0.0;
  if (!runs_all(model, device)) {
    return 1;
  }
  if (train(model, device, found) != TSR_OK || train(model, device, again) != TSR_OK ||
      train(model, cpu, expected) != TSR_OK) {
    return failed("training");
  }
  int32_t where = 0;
  for (int32_t i = 0; i < STEPS; i++) {
    double apart = fabs(found[i] / expected[i] - 1.0);
    apart = isnan(apart) ? INFINITY : apart;
    where = apart > worst ? i : where;
    worst = fmax(worst, apart);
  }
  printf("loss %.6f, after %d steps %.6f; off by %.3g at most, relative, in step %d\n", found[0], (int)STEPS,
         found[STEPS - 1], worst, (int)where + 1);
  /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bit for bit is what is asked. */
  if (memcmp(found, again, sizeof found) != 0) {
    fprintf(stderr, "a second run gives other losses\n");
    return 1;
  }
  if (!(found[STEPS - 1] < 0.95 * found[0])) {
    fprintf(stderr, "the loss should fall\n");
    return 1;
  }
  return worst <= 1e-3 ? 0 : 1;
}

int main(int argc, char **argv)
{
  tsr_runtime *runtime = NULL;
  tsr_device *device = NULL, *cpu = NULL;
  tsr_model *model = NULL;
  int code = argc == 2 ? 0 : 2;
  if (code == 0 && tsr_runtime_create(NULL, &runtime) != TSR_OK) {
    code = failed("runtime");
  }
  if (code == 0 && tsr_device_open(runtime, argv[1], &device) != TSR_OK) {
    (void)failed("skipped");
    code = 77;
  }
  if (code == 0 && (tsr_device_open(runtime, "cpu", &cpu) != TSR_OK || make_model(&model) != TSR_OK)) {
    code = failed("cpu");
  }
  if (code == 0) {
    code = compare(model, device, cpu);
  }
  tsr_model_close(model);
  tsr_device_close(cpu);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  return code;
}
