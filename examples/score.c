/* SPDX-License-Identifier: Apache-2.0
 *
 * How probable a model finds translations that are given: each by the log-probabilities of its tokens.
 *
 *     cc -std=c11 score.c $(pkg-config --cflags --libs tessera) -o score
 *     ./score MODEL auto 'He was playing tennis all day.' 'Il jouait au tennis.' 'Il dormait toute la journée.'
 */
#include <stdio.h>
#include <string.h>

#include <tessera/generate.h>
#include <tessera/text.h>

enum { MOST = 16 }; /* translations of one text */

/* What is opened, in this order, and closed in the other. */
typedef struct session {
  tsr_model *model;         /* the folder's files */
  tsr_tokenizer *tokenizer; /* text to token ids and back */
  tsr_runtime *runtime;     /* the backends */
  tsr_device *device;
  tsr_transformer *transformer; /* the model on the device */
} session;

static tsr_status open_session(session *s, const char *folder, const char *device)
{
  tsr_status status = tsr_model_open(folder, &s->model);
  if (status == TSR_OK) {
    status = tsr_tokenizer_open(s->model, &s->tokenizer);
  }
  if (status == TSR_OK) {
    status = tsr_runtime_create(NULL, &s->runtime);
  }
  if (status == TSR_OK) {
    status = tsr_device_open(s->runtime, device, &s->device);
  }
  if (status == TSR_OK) {
    status = tsr_transformer_create(s->model, s->device, NULL, &s->transformer);
  }
  return status;
}

static void close_session(session *s) /* each takes NULL */
{
  tsr_transformer_destroy(s->transformer);
  tsr_device_close(s->device);
  tsr_runtime_destroy(s->runtime);
  tsr_tokenizer_close(s->tokenizer);
  tsr_model_close(s->model);
}

/* The score, and the token that the model expected least. */
static void print(const session *s, const tsr_target_score *target, const int32_t *ids, const char *text)
{
  int32_t least = 0;
  for (int32_t i = 1; i < target->n_tokens; i++) {
    least = target->tokens[i] < target->tokens[least] ? i : least;
  }
  printf("%8.3f  %s\n", target->score, text);
  if (target->n_tokens > 0) {
    printf("          %d tokens, the least likely is %s with %.3f\n", target->n_tokens,
           tsr_tokenizer_token(s->tokenizer, 1, ids[least]), (double)target->tokens[least]);
  }
}

/* Scores n translations of one text in one call: each is a pair of its own. */
static tsr_status score(const session *s, const char *text, char **translations, int32_t n)
{
  const int32_t *sources[MOST];
  int32_t source_lengths[MOST];
  int32_t *targets[MOST] = {NULL};
  int32_t lengths[MOST];
  int32_t *source = NULL;
  int32_t n_source = 0;
  tsr_scores scores = {0};
  tsr_status status = tsr_tokenizer_encode(s->tokenizer, text, strlen(text), &source, &n_source);
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    const char *given = translations[i];
    sources[i] = source;
    source_lengths[i] = n_source;
    status = tsr_tokenizer_encode_target(s->tokenizer, given, strlen(given), &targets[i], &lengths[i]);
  }
  if (status == TSR_OK) {
    status = tsr_score(s->transformer, n, sources, source_lengths, (const int32_t *const *)targets, lengths, NULL, NULL,
                       NULL, &scores);
  }
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    print(s, &scores.targets[i], targets[i], translations[i]);
  }
  tsr_scores_finish(&scores);
  for (int32_t i = 0; i < n; i++) {
    tsr_free(targets[i]);
  }
  tsr_free(source);
  return status;
}

int main(int argc, char **argv)
{
  if (argc < 5 || argc > 4 + MOST) {
    fprintf(stderr, "Usage: %s MODEL DEVICE TEXT TRANSLATION... (%d at most)\n", argv[0], MOST);
    return 2;
  }
  session s = {0};
  tsr_status status = open_session(&s, argv[1], argv[2]);
  if (status == TSR_OK) {
    status = score(&s, argv[3], &argv[4], argc - 4);
  }
  if (status != TSR_OK) {
    fprintf(stderr, "%s: %s\n", argv[0], tsr_error_message());
  }
  close_session(&s);
  return status == TSR_OK ? 0 : 1;
}
