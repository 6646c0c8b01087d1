/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/sentence.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"

#include <stdlib.h>
#include <string.h>

static int32_t *copy_ids(const int32_t *ids, int32_t n)
{
  int32_t *copy = malloc((size_t)n * sizeof *copy + 1);
  if (copy && n > 0) {
    memcpy(copy, ids, (size_t)n * sizeof *copy);
  }
  return copy;
}

/* The decoder reads what it has written, one position later. An empty output still has one position: the first. */
static int set_target(const translator *t, sentence *s, const int32_t *ids, int32_t n)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  int32_t start = t->options.decoder_start_id >= 0 ? t->options.decoder_start_id : config->decoder_start_id;
  s->n_target = n > 0 ? n : 1;
  s->next = n > 0 ? copy_ids(ids, n) : copy_ids(&config->eos_id, 1);
  s->target = malloc((size_t)s->n_target * sizeof *s->target);
  if (!s->next || !s->target) {
    return tsr_cli_no_memory();
  }
  s->target[0] = start >= 0 ? start : s->source[0]; /* a decoder alone may go on from its source */
  memcpy(s->target + 1, s->next, (size_t)(s->n_target - 1) * sizeof *s->target);
  return TSR_EXIT_OK;
}

typedef struct receiving {
  const translator *t;
  sentence *s;
} receiving;

static int take_translation(void *user, const translation *result)
{
  receiving *r = user;
  r->s->target_text = strdup(result->hypothesis->text);
  return r->s->target_text ? set_target(r->t, r->s, result->hypothesis->ids, result->hypothesis->n_ids)
                           : tsr_cli_no_memory();
}

static int take_target(const translator *t, const char *target, sentence *s)
{
  int32_t *ids = NULL, n = 0;
  int32_t positions = tsr_model_config(t->model)->max_positions;
  int code = tsr_cli_fail_input(tsr_tokenizer_encode_target(t->tokenizer, target, strlen(target), &ids, &n));
  if (code == TSR_EXIT_OK && positions > 0 && n > positions) {
    tsr_cli_error("the target has %d tokens; the model has %d positions", (int)n, (int)positions);
    code = TSR_EXIT_INPUT;
  }
  if (code == TSR_EXIT_OK) {
    s->target_text = strdup(target);
    code = s->target_text ? set_target(t, s, ids, n) : tsr_cli_no_memory();
  }
  tsr_free(ids);
  return code;
}

/* The ids of the source, as the search would read them. */
static int set_source(const translator *t, sentence *s)
{
  static const char file[] = "the sentence";
  const translator_settings *settings = t->settings;
  int32_t most = tsr_translator_max_source(t->translator, &t->options, settings->max_source);
  tsr_source source;
  tsr_status status = tsr_source_prepare(t->tokenizer, s->text, strlen(s->text), most, settings->long_input, &source);
  if (status != TSR_OK) {
    int code = tsr_cli_fail(status == TSR_ERR_OUT_OF_MEMORY ? status : tsr_fail_context(status, "%s, line 1", file));
    return status == TSR_ERR_OUT_OF_MEMORY ? code : TSR_EXIT_INPUT;
  }
  translator_tell_long(t, file, 1, &source);
  int code = TSR_EXIT_OK;
  if (source.n_parts == 1) {
    s->n_source = source.n_ids[0];
    s->source = copy_ids(source.ids[0], s->n_source);
    code = s->source ? TSR_EXIT_OK : tsr_cli_no_memory();
  } else {
    tsr_cli_error(source.n_parts == 0 ? "the sentence is empty" : "the sentence is too long to be read in one piece");
    code = TSR_EXIT_INPUT;
  }
  tsr_source_finish(&source);
  return code;
}

/* The model's own translation. */
static int translate(translator *t, sentence *s)
{
  tsr_generate_options options = t->options;
  options.n_best = 1;
  int code = translator_add(t, "the sentence", 1, s->text, strlen(s->text));
  t->told = 1; /* what was to be told of the source */
  if (code == TSR_EXIT_OK) {
    code = translator_search(t, &options, take_translation, &(receiving){t, s});
  }
  translator_clear(t);
  return code;
}

int sentence_read(translator *t, const char *text, const char *target, sentence *s)
{
  *s = (sentence){.text = text};
  int code = set_source(t, s);
  if (code != TSR_EXIT_OK || tsr_model_config(t->model)->decoder_layers == 0) {
    return code;
  }
  return target ? take_target(t, target, s) : translate(t, s);
}

void sentence_finish(sentence *s)
{
  free(s->target_text);
  free(s->source);
  free(s->target);
  free(s->next);
  *s = (sentence){0};
}

json_t *sentence_tokens(const translator *t, int32_t side, const int32_t *ids, int32_t n)
{
  json_t *list = json_array();
  for (int32_t i = 0; i < n; i++) {
    const char *token = tsr_tokenizer_token(t->tokenizer, side, ids[i]);
    if (json_array_append_new(list, tsr_cli_json_text(token, strlen(token))) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

json_t *sentence_ids(const int32_t *ids, int32_t n)
{
  json_t *list = json_array();
  for (int32_t i = 0; i < n; i++) {
    if (json_array_append_new(list, json_integer(ids[i])) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}
