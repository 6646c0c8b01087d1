/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains a small model from sentence pairs, with the vocabulary of a folder. Ctrl-C saves and stops; the same command
 * goes on from there, and gives the numbers that it would have given without the pause.
 *
 *     cc -std=c11 train.c $(pkg-config --cflags --libs tessera) -o train -lm
 *     ./train VOCABULARY PAIRS.tsv STEPS OUT auto
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <tessera/text.h>
#include <tessera/training_run.h>

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
  (void)number;
  interrupted = 1;
}

static int32_t is_stopping(void *user)
{
  (void)user;
  return interrupted != 0;
}

static tsr_status on_opened(void *user, int64_t step)
{
  (void)user;
  if (step > 0) {
    printf("going on from step %lld\n", (long long)step);
  }
  return TSR_OK;
}

static void on_step(void *user, const tsr_training_run_step *step)
{
  (void)user;
  if (step->is_row) {
    printf("step %4lld  loss %.3f  rate %.2g\n", (long long)step->step, step->loss, step->rate);
  }
}

static void on_validation(void *user, const tsr_training_run_validation *validation)
{
  (void)user;
  printf("step %4lld  perplexity %.2f%s\n", (long long)validation->step, validation->perplexity,
         validation->is_best ? " (best)" : "");
}

enum { WIDTH = 64, HEADS = 4, LAYERS = 2, LONGEST = 128 };

/* A Transformer as Marian's, for the tokens of a vocabulary. */
static tsr_status create_model(const tsr_tokenizer *tokenizer, tsr_model **model)
{
  tsr_tokenizer_info text;
  tsr_status status = tsr_tokenizer_get_info(tokenizer, &text);
  const tsr_transformer_config config = {
      TSR_SIZED(tsr_transformer_config),
      .family = "marian",
      .d_model = WIDTH,
      .encoder_layers = LAYERS,
      .decoder_layers = LAYERS,
      .encoder_heads = HEADS,
      .decoder_heads = HEADS,
      .encoder_d_ff = 4 * WIDTH,
      .decoder_d_ff = 4 * WIDTH,
      .source_vocabulary = text.source_vocabulary,
      .target_vocabulary = text.target_vocabulary,
      .shared_embedding = 1,
      .tied_logits = 1,
      .max_positions = LONGEST,
      .position = TSR_POSITION_SINUSOID_HALVES,
      .norm = TSR_NORM_LAYER,
      .norm_position = TSR_NORM_POST,
      .activation = TSR_ACTIVATION_SILU,
      .attention_bias = 1,
      .feed_forward_bias = 1,
      .logits_bias = 1,
      .embedding_scale = sqrtf(WIDTH),
      .logits_scale = 1.0F,
      .epsilon = 1e-5F,
      .bos_id = -1,
      .eos_id = text.eos_id,
      .unk_id = text.unk_id,
      .pad_id = text.target_pad_id,
      .decoder_start_id = text.target_pad_id,
  };
  return status == TSR_OK ? tsr_model_create(&config, model) : status;
}

static tsr_status train(const tsr_model *model, tsr_device *device, const tsr_tokenizer *tokenizer, char **arguments)
{
  const tsr_training_options training = {TSR_SIZED(tsr_training_options), .dropout = 0.1F, .label_smoothing = 0.1F};
  const tsr_training_data_options data = {TSR_SIZED(tsr_training_data_options),
                                          .files = {.source = arguments[2]},
                                          .tokenizer = tokenizer,
                                          .batch_tokens = 1024,
                                          .max_source = LONGEST,
                                          .max_target = LONGEST};
  const tsr_training_run_options options = {
      TSR_SIZED(tsr_training_run_options),
      .resume = 1,
      .folder = arguments[4],
      .tokenizer_folder = arguments[1],
      .data = &data,
      .training = &training,
      .schedule = {.kind = TSR_SCHEDULE_NOAM, .peak = 0.003, .warmup = 20},
      .steps = strtoll(arguments[3], NULL, 10),
      .log_every = 10,
      .validate_every = 20,
      .valid = {.source = arguments[2]}, /* to be short; pairs of their own tell what was learnt */
      .criterion = TSR_CRITERION_LOSS,
      .opened = on_opened,
      .step = on_step,
      .validation = on_validation,
      .is_stopping = is_stopping,
  };
  tsr_training_run_result result;
  tsr_status status = tsr_training_run(model, device, NULL, &options, &result);
  if (status == TSR_OK) {
    printf("%s after %lld steps: %s\n", result.reason == TSR_TRAINING_END_STOPPED ? "stopped" : "finished",
           (long long)result.step, arguments[4]);
  }
  return status;
}

int main(int argc, char **argv)
{
  if (argc != 6) {
    fprintf(stderr, "Usage: %s VOCABULARY PAIRS.tsv STEPS OUT DEVICE\n", argv[0]);
    return 2;
  }
  tsr_tokenizer *tokenizer = NULL;
  tsr_model *model = NULL;
  tsr_runtime *runtime = NULL;
  tsr_device *device = NULL;
  signal(SIGINT, on_signal);
  tsr_status status = tsr_tokenizer_open_folder(argv[1], &tokenizer);
  if (status == TSR_OK) {
    status = create_model(tokenizer, &model);
  }
  if (status == TSR_OK) {
    status = tsr_runtime_create(NULL, &runtime);
  }
  if (status == TSR_OK) {
    status = tsr_device_open(runtime, argv[5], &device);
  }
  if (status == TSR_OK) {
    status = train(model, device, tokenizer, argv);
  }
  if (status != TSR_OK) {
    fprintf(stderr, "%s: %s\n", argv[0], tsr_error_message());
  }
  tsr_device_close(device); /* each takes NULL */
  tsr_runtime_destroy(runtime);
  tsr_model_close(model);
  tsr_tokenizer_close(tokenizer);
  return status == TSR_OK ? 0 : 1;
}
