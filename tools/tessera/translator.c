/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/translator.h"

#include <string.h>

int translator_take_option(const char *command, int option, translator_settings *wish)
{
  switch (option - TRANSLATOR_OPTION) {
  case 0:
    wish->device = optarg;
    return TSR_EXIT_OK;
  case 1:
    return tsr_cli_int32(command, "--beam", optarg, 1, 64, &wish->beam);
  case 2:
    return tsr_cli_int32(command, "--max-length", optarg, 2, 1 << 20, &wish->max_length);
  case 3:
    wish->has_length_penalty = 1;
    return tsr_cli_number(command, "--length-penalty", optarg, -100, 100, &wish->length_penalty);
  case 4:
    return tsr_cli_int32(command, "--batch", optarg, 1, 1024, &wish->batch);
  case 5:
    return tsr_cli_int32(command, "--workers", optarg, 1, 1024, &wish->workers);
  case 6:
    return tsr_cli_precision(command, "--precision", optarg, &wish->weights);
  case 7:
    wish->strict = 1;
    return TSR_EXIT_OK;
  default:
    return TSR_EXIT_USAGE; /* tsr_cli_option has told */
  }
}

static void clear(translator *t)
{
  for (int32_t i = 0; i < t->n; i++) {
    tsr_free(t->ids[i]);
  }
  t->n = 0;
}

void translator_finish(translator *t)
{
  clear(t);
  tsr_transformer_destroy(t->transformer);
  tsr_device_close(t->device);
  tsr_runtime_destroy(t->runtime);
  tsr_tokenizer_close(t->tokenizer);
  tsr_model_close(t->model);
}

/* What the model asks for, overridden by what the command line says. */
static int choose_options(translator *t)
{
  const translator_settings *wish = t->wish;
  tsr_status status = tsr_generate_defaults(t->model, &t->options);
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  t->options.n_best = 1;
  if (wish->beam > 0) {
    t->options.beam = wish->beam;
  }
  if (wish->max_length > 0) {
    t->options.max_length = wish->max_length;
  }
  if (wish->has_length_penalty) {
    t->options.length_penalty = (float)wish->length_penalty;
  }
  int32_t positions = tsr_model_config(t->model)->max_positions;
  if (positions > 0 && t->options.max_length > positions) {
    if (wish->max_length > 0) {
      tsr_cli_warning("--max-length %d is more than the model's %d positions; taking %d", wish->max_length, positions,
                      positions);
    }
    t->options.max_length = positions;
  }
  return TSR_EXIT_OK;
}

int translator_open(translator *t, const translator_settings *wish)
{
  t->wish = wish;
  t->start = tsr_cli_seconds();
  tsr_status status = tsr_model_open(wish->model, &t->model);
  if (status == TSR_OK && !tsr_model_has_weights(t->model)) {
    status = tsr_fail(
        TSR_ERR_IO,
        "%s: holds no model.safetensors; weights in another form (pytorch_model.bin) have to be converted first",
        wish->model);
  }
  if (status == TSR_OK) {
    status = tsr_tokenizer_open(t->model, &t->tokenizer);
  }
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  int code = choose_options(t);
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_runtime(&t->runtime);
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_device(t->runtime, wish->device, &t->device);
  }
  if (code == TSR_EXIT_OK) {
    tsr_transformer_options options = {.weights = wish->weights, .strict = wish->strict, .workers = wish->workers};
    code = tsr_cli_fail(tsr_transformer_create(t->model, t->device, &options, &t->transformer));
  }
  t->loaded = tsr_cli_seconds();
  tsr_cli_progress_start(&t->progress, "sentences");
  return code;
}

int translator_add(translator *t, const char *file, int64_t line, const char *text, size_t size)
{
  int32_t *ids = NULL;
  int32_t n_ids = 0;
  tsr_status status = tsr_tokenizer_encode(t->tokenizer, text, size, &ids, &n_ids);
  if (status != TSR_OK) {
    return tsr_cli_fail(tsr_fail_context(status, "%s, line %lld", file, (long long)line));
  }
  if (n_ids == 1) {
    n_ids = 0; /* the end of the sentence, and no text before it: nothing to translate */
  }
  int32_t positions = tsr_model_config(t->model)->max_positions;
  if (positions > 0 && n_ids > positions) {
    tsr_cli_progress_clear(&t->progress);
    tsr_cli_warning("%s, line %lld: %d tokens, cut to the model's %d positions", file, (long long)line, n_ids,
                    positions);
    ids[positions - 1] = ids[n_ids - 1];
    n_ids = positions;
  }
  t->ids[t->n] = ids;
  t->n_ids[t->n] = n_ids;
  t->n++;
  return TSR_EXIT_OK;
}

static void on_progress(void *user, int64_t done, int64_t total)
{
  translator *t = user;
  (void)total; /* of this chunk; how much is still to come is not known */
  tsr_cli_progress_update(&t->progress, t->done + done, 0);
}

static int hand_over(const translator *t, const tsr_generation *generation, translator_receiver receive, void *user)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < t->n && code == TSR_EXIT_OK; i++) {
    const tsr_hypothesis *best = &generation->hypotheses[(int64_t)i * generation->n_best];
    char *text = NULL;
    tsr_status status = tsr_tokenizer_decode(t->tokenizer, best->ids, best->n_ids, &text);
    if (status != TSR_OK) {
      return tsr_cli_fail(status);
    }
    code = receive(user, &(translation){.index = i, .n_ids = t->n_ids[i], .text = text, .best = best});
    tsr_free(text);
  }
  return code;
}

int translator_run(translator *t, translator_receiver receive, void *user)
{
  tsr_generation generation = {0};
  tsr_status status = tsr_generate(t->transformer, t->n, (const int32_t *const *)t->ids, t->n_ids, t->wish->batch,
                                   &t->options, on_progress, t, &generation);
  tsr_cli_progress_clear(&t->progress);
  int code = status == TSR_OK ? hand_over(t, &generation, receive, user) : tsr_cli_fail(status);
  tsr_generation_finish(&generation);
  t->done += t->n;
  clear(t);
  return code;
}

void translator_print_timings(const translator *t)
{
  double load = t->loaded - t->start;
  double total = tsr_cli_seconds() - t->loaded;
  tsr_generate_statistics s;
  tsr_generate_measure(t->transformer, &s);
  double seconds = total > 0 ? total : 1e-9;
  fprintf(stderr, "device     %s (%s)\n", tsr_device_name(t->device), tsr_device_get_properties(t->device)->name);
  fprintf(stderr, "load       %.3f s\n", load);
  fprintf(stderr, "translate  %.3f s: text %.3f s, search %.3f s on %d thread%s\n", total, total - s.seconds, s.seconds,
          (int)s.workers, s.workers == 1 ? "" : "s");
  fprintf(stderr, "search     encoder %.3f s in %lld runs, decoder %.3f s in %lld steps%s\n", s.encode_seconds,
          (long long)s.encode_runs, s.step_seconds, (long long)s.step_runs,
          s.workers > 1 ? ", summed over the threads" : "");
  fprintf(stderr, "sentences  %lld (%.1f a second)\n", (long long)t->done, (double)t->done / seconds);
  fprintf(stderr, "tokens     %lld read, %lld written (%.1f a second)\n", (long long)s.source_tokens,
          (long long)s.target_tokens, (double)s.target_tokens / seconds);
}
