/* SPDX-License-Identifier: Apache-2.0
 *
 * Recipes: the settings of a training, each a key of a YAML file and an option of `tessera train`. One table has them
 * all.
 */
#ifndef TESSERA_TOOLS_RECIPE_H
#define TESSERA_TOOLS_RECIPE_H

#include <stdint.h>

#include "tessera/status.h"
#include "tools/tessera/options/options.h"

/* Texts are "" where nothing is said. What each means: recipe.c. */
typedef struct recipe {
  char *source, *target, *tsv, *valid_source, *valid_target, *vocab, *out, *device;
  char *speech, *language;
  int32_t mels, source_positions;
  double whole_windows, timestamps;
  int32_t time_masks, time_mask_width;
  double time_mask_share;
  int32_t mel_masks, mel_mask_width;
  char *task;
  int32_t vocab_size, min_length, max_length;
  char *family, *activation, *position_encoding;
  int32_t max_distance;
  int32_t d_model, heads, d_ff, encoder_layers, decoder_layers, max_positions, norm_first, shared_embedding,
      tied_logits;
  char *init;
  double dropout, attention_dropout, activation_dropout, label_smoothing;
  int32_t batch_tokens, accumulate, max_source, max_target, bucket, pool;
  double max_ratio;
  int64_t seed;
  char *optimizer;
  double beta1, beta2, epsilon, weight_decay, max_norm;
  char *schedule;
  double rate, floor;
  int64_t warmup;
  double average;
  int32_t average_last;
  char *precision, *recompute;
  double loss_scale;
  int64_t steps, epochs;
  double minutes, until;
  int32_t patience;
  int64_t log_every, validate_every, save_every;
  int32_t keep, statistics;
  char *criterion;
  int32_t bleu_beam, bleu_sentences;
  char *save_precision;
  int32_t save_beam;
  char *comm, *gradient_precision;
  int32_t shard_optimizer;
} recipe;

/* What somebody said about a key. */
typedef struct recipe_assignment {
  int32_t key;
  char *text;
  char *where; /* "--rate", or "recipe.yaml:12: rate" */
} recipe_assignment;

typedef struct recipe_assignments {
  recipe_assignment *items;
  int32_t n;
  int32_t room;
} recipe_assignments;

/* The keys as options, with - for _. What they take is noted in recipe_assignments. */
extern const tsr_option_table recipe_options;

/* The keys, by number: the rows of that table. */
const char *recipe_key_name(int32_t key);
int32_t recipe_key_find(const char *name); /* -1: there is none */

/* The known key that is written most like `name`. */
const char *recipe_key_nearest(const char *name);

/* Every key at its default. task: of a toy task. Finish it in the end. */
int recipe_init(recipe *r, int is_task);
void recipe_finish(recipe *r);

/* Notes what was said. Texts are copied. */
int recipe_note(recipe_assignments *list, int32_t key, const char *text, const char *where);
void recipe_assignments_finish(recipe_assignments *list);
int recipe_is_said(const recipe_assignments *list, const char *name);

/* Sets the keys, in order. A value of a wrong type or out of range is told with `where`. */
int recipe_apply(recipe *r, const recipe_assignments *list);

/* Sets a key to what `owner`, a model, has. Somebody who said something else is told so. */
int recipe_impose(recipe *r, const recipe_assignments *said, const char *name, const char *value, const char *owner);

/* Notes what a YAML file says: one mapping of keys to scalars, or of names of sections to such mappings. */
int recipe_read(const char *path, recipe_assignments *list);

/* Writes all keys to a YAML file. */
tsr_status recipe_write(const recipe *r, const char *path);

/* Checks that a training that was begun with `old` may go on with `new`: tells the first key that would change its
 * numbers. */
int recipe_compare(const recipe *old, const recipe *changed, const char *folder);

#endif
