/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/train/recipe.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/files.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/nearest.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/store.h"

/* What changing a key does to a training that goes on. */
enum {
  FREE,  /* nothing to its numbers */
  FIXED, /* changes them */
  TOTAL  /* changes them where the learning rate falls until the end */
};

typedef struct key {
  tsr_option option;
  const char *name; /* in YAML */
  int32_t effect;
  const char *of_task; /* what suits a toy task, where nothing is said; NULL: the same as else */
} key;

enum { MOST = 1000000000 };

static const tsr_choice tasks[] = {{""}, {"copy"}, {"reverse"}, {"sort"}, {NULL}};
static const tsr_choice families[] = {{"marian"}, {"nn_transformer"}, {"bart"},    {"pegasus"}, {"t5"},
                                      {"mt5"},    {"umt5"},           {"t5gemma"}, {"whisper"}, {NULL}};
static const tsr_choice activations[] = {{"relu"}, {"gelu"}, {"gelu_new"}, {"swish"}, {NULL}};
static const tsr_choice positions[] = {
    {""}, {"sinusoidal_interleaved"}, {"sinusoidal_halves"}, {"learned"}, {"relative"}, {"none"}, {NULL}};
static const tsr_choice optimizers[] = {{"adam"}, {"adamw"}, {NULL}};
static const tsr_choice schedules[] = {{"constant"}, {"noam"}, {"linear"}, {"cosine"}, {NULL}};
static const tsr_choice precisions[] = {{"f32"}, {"f16"}, {"bf16"}, {NULL}};
static const tsr_choice gradient_precisions[] = {{"f32"}, {"bf16"}, {NULL}};
static const tsr_choice comms[] = {{""}, {"mpi"}, {"none"}, {NULL}};
static const tsr_choice recomputes[] = {{"none"}, {"layers"}, {NULL}};
static const tsr_choice criteria[] = {{""}, {"loss"}, {"bleu"}, {"exact"}, {NULL}};

/* The option's name, the key's, what stands for a value, what the value is, the effect, of_task, and what else its row
 * has. */
#define KEY(option, key, metavar, kind, effect, of_task, ...)                                                          \
  {                                                                                                                    \
    {option, metavar, kind, TSR_FIELD(recipe, key), __VA_ARGS__}, #key, effect, of_task                                \
  }

static const key keys[] = {
    KEY("source", source, "FILE", TSR_OPTION_FILE, FIXED, NULL, .preset = "",
        .help = "sentences to train on, one a line; or WMT's SGM or XML"),
    KEY("target", target, "FILE", TSR_OPTION_FILE, FIXED, NULL, .preset = "", .help = "their translations"),
    KEY("tsv", tsv, "FILE", TSR_OPTION_FILE, FIXED, NULL, .preset = "",
        .help = "instead of --source and --target: a file with both sides, TSV or XML"),
    KEY("speech", speech, "FILE", TSR_OPTION_FILE, FIXED, NULL, .preset = "",
        .help =
            "instead of --source: sounds to train a model of speech on, a path a line, relative to the file's folder; "
            "what is said in them stands behind a tab, or in --target. A third column names the language, a "
            "fourth the task (transcribe, translate). --valid-source is likewise"),
    KEY("language", language, "L", TSR_OPTION_TEXT, FIXED, NULL, .preset = "en",
        .help = "of sounds that name none, by its code or English name; none: the model hears one language, and is "
                "told neither language nor task"),
    KEY("valid-source", valid_source, "FILE", TSR_OPTION_FILE, FIXED, NULL, .preset = "",
        .help = "sentences to validate on; or a file with both sides"),
    KEY("valid-target", valid_target, "FILE", TSR_OPTION_FILE, FIXED, NULL, .preset = "", .help = "their translations"),
    KEY("vocab", vocab, "FOLDER", TSR_OPTION_FOLDER, FIXED, NULL, .preset = "",
        .help = "folder with the tokenizer's files, as `tessera vocab` writes it"),
    KEY("out", out, "FOLDER", TSR_OPTION_FOLDER, FREE, NULL, .preset = "",
        .help = "folder of the model that is made; checkpoints and logs are in its train/"),
    KEY("device", device, "NAME", TSR_OPTION_DEVICE, FREE, NULL, .preset = "",
        .help = "where to compute (see `tessera devices`); default: TESSERA_DEVICE, else auto. Of several names with "
                "commas between, each rank of a machine takes one"),
    KEY("comm", comm, "NAME", TSR_OPTION_CHOICE, FREE, NULL, .choices = comms, .preset = "",
        .help = "how ranks find each other; default: mpi where mpirun or srun started several, else none"),
    KEY("shard-optimizer", shard_optimizer, NULL, TSR_OPTION_SWITCH, FREE, NULL, .preset = "false",
        .help = "each rank keeps the optimizer's moments of its share of the parameters alone: less memory, more to "
                "send, the same numbers"),
    KEY("mels", mels, "N", TSR_OPTION_INTEGER, FIXED, NULL, 1, 1024, .preset = "80",
        .help = "of a model of speech: features of a frame"),
    KEY("source-positions", source_positions, "N", TSR_OPTION_INTEGER, FIXED, NULL, 1, 32768, .preset = "1500",
        .help = "of a model of speech: positions of a window, of 0.02 s each; sounds that are longer are left out"),
    KEY("whole-windows", whole_windows, "X", TSR_OPTION_NUMBER, FIXED, NULL, 0, 1, .preset = "1",
        .help = "share of the sounds that fill a whole window with silence, as all do when the model is used; the "
                "windows of the others end with the longest sound of the batch, which costs less"),
    KEY("timestamps", timestamps, "X", TSR_OPTION_NUMBER, FIXED, NULL, 0, 1, .preset = "0",
        .help = "share of the sounds whose text stands between timestamps, so that the model learns to write them"),
    KEY("time-masks", time_masks, "N", TSR_OPTION_INTEGER, FIXED, NULL, 0, 1000, .preset = "0",
        .help = "SpecAugment: stretches of each sound that are masked"),
    KEY("time-mask-width", time_mask_width, "N", TSR_OPTION_INTEGER, FIXED, NULL, 0, 65536, .preset = "40",
        .help = "frames, of 0.01 s, of the widest stretch"),
    KEY("time-mask-share", time_mask_share, "X", TSR_OPTION_NUMBER, FIXED, NULL, 0, 1, .preset = "0.2",
        .help = "share of a sound that a stretch has at most; 0: any"),
    KEY("mel-masks", mel_masks, "N", TSR_OPTION_INTEGER, FIXED, NULL, 0, 1000, .preset = "0",
        .help = "SpecAugment: bands of each sound's frequencies that are masked"),
    KEY("mel-mask-width", mel_mask_width, "N", TSR_OPTION_INTEGER, FIXED, NULL, 0, 1024, .preset = "20",
        .help = "mels of the widest band"),
    KEY("task", task, "NAME", TSR_OPTION_CHOICE, FIXED, NULL, .choices = tasks, .preset = "",
        .help = "train on random sequences instead of files"),
    KEY("vocab-size", vocab_size, "N", TSR_OPTION_INTEGER, FIXED, NULL, 4, 1 << 20, .preset = "16",
        .help = "of a task: number of ids, </s>, <unk> and <pad> included"),
    KEY("min-length", min_length, "N", TSR_OPTION_INTEGER, FIXED, NULL, 1, 65536, .preset = "1",
        .help = "tokens of a task's sequences"),
    KEY("max-length", max_length, "N", TSR_OPTION_INTEGER, FIXED, NULL, 1, 65536, .preset = "10",
        .help = "tokens of a task's sequences"),
    KEY("family", family, "NAME", TSR_OPTION_CHOICE, FIXED, NULL, .choices = families, .preset = "marian",
        .help =
            "architecture and form of the model; of text, all but the first two need a model's folder to start from "
            "(--init)"),
    KEY("d-model", d_model, "N", TSR_OPTION_INTEGER, FIXED, "64", 1, 65536, .preset = "256", .help = "width"),
    KEY("heads", heads, "N", TSR_OPTION_INTEGER, FIXED, "4", 1, 1024, .preset = "8", .help = "attention heads"),
    KEY("d-ff", d_ff, "N", TSR_OPTION_INTEGER, FIXED, "256", 1, 262144, .preset = "1024",
        .help = "width of the feed-forward blocks"),
    KEY("encoder-layers", encoder_layers, "N", TSR_OPTION_INTEGER, FIXED, "2", 1, 1024, .preset = "3",
        .help = "layers of the encoder"),
    KEY("decoder-layers", decoder_layers, "N", TSR_OPTION_INTEGER, FIXED, "2", 1, 1024, .preset = "3",
        .help = "layers of the decoder"),
    KEY("activation", activation, "NAME", TSR_OPTION_CHOICE, FIXED, NULL, .choices = activations, .preset = "relu",
        .help = "of the feed-forward blocks"),
    KEY("position-encoding", position_encoding, "NAME", TSR_OPTION_CHOICE, FIXED, NULL, .choices = positions,
        .preset = "", .help = "of nn_transformer, instead of sinusoidal_interleaved"),
    KEY("max-distance", max_distance, "N", TSR_OPTION_INTEGER, FIXED, NULL, 1, 1 << 20, .preset = "16",
        .help = "of relative positions; larger distances are clamped to it"),
    KEY("norm-first", norm_first, NULL, TSR_OPTION_SWITCH, FIXED, NULL, .preset = "false",
        .help = "norms before the sublayers instead of after them (nn_transformer)"),
    KEY("shared-embedding", shared_embedding, NULL, TSR_OPTION_SWITCH, FIXED, NULL, .preset = "true",
        .help = "one table of embeddings for both sides (marian, joint vocabulary)"),
    KEY("tied-logits", tied_logits, NULL, TSR_OPTION_SWITCH, FIXED, NULL, .preset = "true",
        .help = "the logits' weights are the target's embeddings (marian)"),
    KEY("max-positions", max_positions, "N", TSR_OPTION_INTEGER, FIXED, "64", 8, 1 << 20, .preset = "256",
        .help = "longest sequence of the model, in tokens"),
    KEY("init", init, "HOW", TSR_OPTION_TEXT, FIXED, NULL, .preset = "",
        .help = "how parameters begin: xavier (the default), family, or the folder of a model that is trained on"),
    KEY("dropout", dropout, "X", TSR_OPTION_NUMBER, FIXED, "0", 0, 0.99, .preset = "0.1",
        .help = "rate on embeddings and sublayers"),
    KEY("attention-dropout", attention_dropout, "X", TSR_OPTION_NUMBER, FIXED, NULL, 0, 0.99, .preset = "0",
        .help = "rate on the attention's weights"),
    KEY("activation-dropout", activation_dropout, "X", TSR_OPTION_NUMBER, FIXED, NULL, 0, 0.99, .preset = "0",
        .help = "rate within the feed-forward blocks"),
    KEY("label-smoothing", label_smoothing, "X", TSR_OPTION_NUMBER, FIXED, "0", 0, 0.99, .preset = "0.1",
        .help = "share of the probability that is spread over the whole vocabulary"),
    KEY("batch-tokens", batch_tokens, "N", TSR_OPTION_INTEGER, FIXED, "1024", 1, 1 << 24, .preset = "2500",
        .help = "tokens of a batch's larger side, padding included"),
    KEY("accumulate", accumulate, "N", TSR_OPTION_INTEGER, FIXED, NULL, 0, 65536, .preset = "0",
        .help = "batches whose gradients make one update, on all ranks together; 0: one of each rank"),
    KEY("max-source", max_source, "N", TSR_OPTION_INTEGER, FIXED, "0", 0, 65536, .preset = "128",
        .help = "maximum tokens of a source; pairs with more are left out; 0: what fits"),
    KEY("max-target", max_target, "N", TSR_OPTION_INTEGER, FIXED, "0", 0, 65536, .preset = "128",
        .help = "maximum tokens of a target; pairs with more are left out; 0: what fits"),
    KEY("max-ratio", max_ratio, "X", TSR_OPTION_NUMBER, FIXED, NULL, 0, 1e6, .preset = "0",
        .help = "maximum ratio of the longer side to the shorter; pairs beyond it are left out; 0: any"),
    KEY("bucket", bucket, "N", TSR_OPTION_INTEGER, FIXED, NULL, 1, 4096, .preset = "4",
        .help = "widths of batches are multiples of this number"),
    KEY("pool", pool, "N", TSR_OPTION_INTEGER, FIXED, "8192", 1, 1 << 28, .preset = "131072",
        .help = "pairs that are read, sorted and shuffled at once"),
    KEY("seed", seed, "N", TSR_OPTION_INTEGER, FIXED, NULL, 0, 9e15, .preset = "1",
        .help = "seed of parameters, dropout and order"),
    KEY("optimizer", optimizer, "NAME", TSR_OPTION_CHOICE, FIXED, NULL, .choices = optimizers, .preset = "adam",
        .help = "with adamw, the weight decay is not part of the gradient"),
    KEY("beta1", beta1, "X", TSR_OPTION_NUMBER, FIXED, NULL, 0, 0.999999, .preset = "0.9", .help = "of Adam"),
    KEY("beta2", beta2, "X", TSR_OPTION_NUMBER, FIXED, NULL, 0, 0.999999, .preset = "0.98", .help = "of Adam"),
    KEY("epsilon", epsilon, "X", TSR_OPTION_NUMBER, FIXED, NULL, 1e-30, 1, .preset = "1e-9", .help = "of Adam"),
    KEY("weight-decay", weight_decay, "X", TSR_OPTION_NUMBER, FIXED, NULL, 0, 1e3, .preset = "0",
        .help = "of the matrices"),
    KEY("max-norm", max_norm, "X", TSR_OPTION_NUMBER, FIXED, "1", 0, 1e9, .preset = "0",
        .help = "maximum norm of the gradients; larger gradients are scaled down to it; 0: never"),
    KEY("schedule", schedule, "NAME", TSR_OPTION_CHOICE, FIXED, NULL, .choices = schedules, .preset = "noam",
        .help = "how the learning rate changes after the warm-up; noam: inverse square root; linear and cosine: down "
                "to the floor, at the end of `steps` or `minutes`"),
    KEY("rate", rate, "X", TSR_OPTION_NUMBER, FIXED, "0.001", 0, 1e38, .preset = "0",
        .help = "learning rate at the end of the warm-up; 0: 1 / sqrt(d_model * warmup)"),
    KEY("warmup", warmup, "N", TSR_OPTION_INTEGER, FIXED, "200", 0, MOST, .preset = "1000",
        .help = "steps in which the learning rate rises"),
    KEY("floor", floor, "X", TSR_OPTION_NUMBER, FIXED, NULL, 0, 1e38, .preset = "0",
        .help = "the learning rate to which linear and cosine fall"),
    KEY("average", average, "X", TSR_OPTION_NUMBER, FIXED, "0.99", 0, 0.9999999, .preset = "0",
        .help =
            "decay of an exponential average of the parameters; the average is what is validated and saved; 0: none"),
    KEY("average-last", average_last, "N", TSR_OPTION_INTEGER, FREE, NULL, 0, 1000, .preset = "0",
        .help = "at the end, the mean of the last N saved states competes, too"),
    KEY("precision", precision, "NAME", TSR_OPTION_CHOICE, FIXED, NULL, .choices = precisions, .preset = "f32",
        .help = "type in which products read the matrices"),
    KEY("gradient-precision", gradient_precision, "NAME", TSR_OPTION_CHOICE, FIXED, NULL,
        .choices = gradient_precisions, .preset = "f32",
        .help = "type to which the gradients of each batch are rounded before they are added; bf16: half as much goes "
                "from rank to rank"),
    KEY("loss-scale", loss_scale, "X", TSR_OPTION_NUMBER, FIXED, NULL, 1, 1e38, .preset = "65536",
        .help = "of f16: the first scale; it is halved when gradients overflow, and grows again"),
    KEY("recompute", recompute, "NAME", TSR_OPTION_CHOICE, FIXED, NULL, .choices = recomputes, .preset = "none",
        .help = "layers: compute what is within a layer again for the gradients; less memory, more work"),
    KEY("steps", steps, "N", TSR_OPTION_INTEGER, TOTAL, NULL, 0, MOST, .preset = "0",
        .help = "updates after which training ends; 0: any"),
    KEY("epochs", epochs, "N", TSR_OPTION_INTEGER, FREE, NULL, 0, MOST, .preset = "0",
        .help = "passes over the data after which training ends; 0: any"),
    KEY("minutes", minutes, "X", TSR_OPTION_NUMBER, TOTAL, NULL, 0, 1e6, .preset = "0",
        .help = "minutes after which training ends; 0: any"),
    KEY("patience", patience, "N", TSR_OPTION_INTEGER, FREE, NULL, 0, MOST, .preset = "0",
        .help = "validations without a better one after which training ends; 0: any"),
    KEY("until", until, "X", TSR_OPTION_NUMBER, FREE, NULL, 0, 100, .preset = "0",
        .help = "BLEU, or share of exact sequences or, with --speech, of right words (0 to 1), at which training ends; "
                "0: any"),
    KEY("log-every", log_every, "N", TSR_OPTION_INTEGER, FREE, NULL, 1, MOST, .preset = "50",
        .help = "steps between rows of the log"),
    KEY("validate-every", validate_every, "N", TSR_OPTION_INTEGER, FREE, "100", 1, MOST, .preset = "500",
        .help = "steps between validations"),
    KEY("save-every", save_every, "N", TSR_OPTION_INTEGER, FREE, NULL, 1, MOST, .preset = "500",
        .help = "steps between checkpoints"),
    KEY("keep", keep, "N", TSR_OPTION_INTEGER, FREE, NULL, 0, 1000, .preset = "0",
        .help = "number of checkpoints to keep besides the last and the best"),
    KEY("statistics", statistics, NULL, TSR_OPTION_SWITCH, FREE, NULL, .preset = "false",
        .help = "write statistics of each layer's activations and gradients to the log and layers.csv"),
    KEY("criterion", criterion, "NAME", TSR_OPTION_CHOICE, FREE, NULL, .choices = criteria, .preset = "",
        .help = "what makes a validation the best (exact: tasks, and with --speech the words)"),
    KEY("bleu-beam", bleu_beam, "N", TSR_OPTION_INTEGER, FREE, NULL, 1, 64, .preset = "1",
        .help = "beam at validations; 1: greedy search"),
    KEY("bleu-sentences", bleu_sentences, "N", TSR_OPTION_INTEGER, FREE, NULL, 0, MOST, .preset = "500",
        .help = "number of sentences, from the first, that are translated at validations; 0: none"),
    KEY("save-precision", save_precision, "NAME", TSR_OPTION_CHOICE, FREE, "f32", .choices = precisions,
        .preset = "f16", .help = "type of the weights in the finished model"),
    KEY("save-beam", save_beam, "N", TSR_OPTION_INTEGER, FREE, "1", 1, 64, .preset = "4",
        .help = "beam that the model's folder asks for"),
    {{NULL}},
};

enum { N_KEYS = sizeof keys / sizeof keys[0] - 1 };

/* ---- keys as options --------------------------------------------------------------------------------------------- */

static int note_option(const tsr_option_given *given, char *value)
{
  return recipe_note(given->place, given->index, value ? value : "true", given->what);
}

/* "256 (a task: 64)" */
static const char *tell_default(const tsr_option *row, char *text, size_t size)
{
  for (int32_t i = 0; i < N_KEYS; i++) {
    if (strcmp(keys[i].option.name, row->name) == 0 && keys[i].of_task) {
      snprintf(text, size, "%s (a task: %s)", row->preset, keys[i].of_task);
      return text;
    }
  }
  return row->preset;
}

const tsr_option_table recipe_options = {
    .title = "Keys of a recipe. Each key is an option, too, which overrides the file. A key that is true or false "
             "takes its value after = only: --norm-first, or --tied-logits=false.",
    .rows = keys,
    .row_size = sizeof(key),
    .take = note_option,
    .tell_default = tell_default,
};

const char *recipe_key_name(int32_t k)
{
  return keys[k].name;
}

int32_t recipe_key_find(const char *name)
{
  for (int32_t i = 0; i < N_KEYS; i++) {
    if (strcmp(keys[i].name, name) == 0) {
      return i;
    }
  }
  return -1;
}

const char *recipe_key_nearest(const char *name)
{
  int32_t best = 0;
  for (int32_t i = 1; i < N_KEYS; i++) {
    if (tsr_words_apart(name, keys[i].name) < tsr_words_apart(name, keys[best].name)) {
      best = i;
    }
  }
  return keys[best].name;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void *field_of(const recipe *r, const key *k)
{
  return (char *)r + k->option.offset;
}

static int set_text(char **field, const char *text)
{
  char *copy = malloc(strlen(text) + 1);
  if (!copy) {
    return tsr_cli_no_memory();
  }
  strcpy(copy, text);
  free(*field);
  *field = copy;
  return TSR_EXIT_OK;
}

static int fail_value(const char *where, const char *text, const char *expected)
{
  tsr_cli_error("%s: expected %s, found '%s'", where, expected, text);
  return strncmp(where, "--", 2) == 0 ? TSR_EXIT_USAGE : TSR_EXIT_INPUT;
}

static int parse_number(const key *k, const char *text, const char *where, double *value)
{
  char *end = NULL, expected[96];
  errno = 0;
  int is_whole = k->option.kind != TSR_OPTION_NUMBER;
  *value = is_whole ? (double)strtoll(text, &end, 10) : strtod(text, &end);
  if (end == text || *end != '\0' || errno == ERANGE || !isfinite(*value)) {
    return fail_value(where, text, is_whole ? "a whole number" : "a number");
  }
  if (*value < k->option.low || *value > k->option.high) {
    snprintf(expected, sizeof expected, "%.10g to %.10g", k->option.low, k->option.high);
    return fail_value(where, text, expected);
  }
  return TSR_EXIT_OK;
}

static int fail_choice(const key *k, const char *where, const char *text)
{
  char names[256] = "";
  for (const tsr_choice *choice = k->option.choices; choice->name; choice++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? "|" : "", choice->name);
  }
  return fail_value(where, text, names);
}

static int set_switch(int32_t *field, const char *text, const char *where)
{
  *field = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
  return *field || strcmp(text, "false") == 0 || strcmp(text, "no") == 0 ? TSR_EXIT_OK
                                                                         : fail_value(where, text, "true or false");
}

static int set_value(recipe *r, const key *k, const char *text, const char *where)
{
  void *field = field_of(r, k);
  double number = 0;
  int code = TSR_EXIT_OK;
  switch (k->option.kind) {
  case TSR_OPTION_CHOICE:
    return tsr_choice_find(k->option.choices, text) < 0 ? fail_choice(k, where, text) : set_text(field, text);
  case TSR_OPTION_SWITCH:
    return set_switch(field, text, where);
  case TSR_OPTION_NUMBER:
  case TSR_OPTION_INTEGER:
    code = parse_number(k, text, where, &number);
    break;
  default:
    return set_text(field, text);
  }
  if (code == TSR_EXIT_OK && k->option.kind == TSR_OPTION_NUMBER) {
    *(double *)field = number;
  } else if (code == TSR_EXIT_OK && k->option.size == sizeof(int64_t)) {
    *(int64_t *)field = (int64_t)number;
  } else if (code == TSR_EXIT_OK) {
    *(int32_t *)field = (int32_t)number;
  }
  return code;
}

/* 1 if the key's field is a text of its own. */
static int is_text(const key *k)
{
  return k->option.kind == TSR_OPTION_CHOICE || k->option.kind >= TSR_OPTION_TEXT;
}

/* A value as text that reads back as the same. Writes into `text` unless it is a text already. */
static const char *value_of(const recipe *r, const key *k, char *text, size_t size)
{
  const void *field = field_of(r, k);
  if (is_text(k)) {
    return *(char *const *)field;
  }
  if (k->option.kind == TSR_OPTION_SWITCH) {
    return *(const int32_t *)field ? "true" : "false";
  }
  if (k->option.kind == TSR_OPTION_INTEGER) {
    int is_long = k->option.size == sizeof(int64_t);
    snprintf(text, size, "%lld", is_long ? (long long)*(const int64_t *)field : (long long)*(const int32_t *)field);
    return text;
  }
  snprintf(text, size, "%.15g", *(const double *)field);
  if (strtod(text, NULL) != *(const double *)field) {
    snprintf(text, size, "%.17g", *(const double *)field);
  }
  return text;
}

int recipe_init(recipe *r, int is_task)
{
  *r = (recipe){0};
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < N_KEYS && code == TSR_EXIT_OK; i++) {
    const key *k = &keys[i];
    code = set_value(r, k, is_task && k->of_task ? k->of_task : k->option.preset, k->name);
  }
  return code;
}

void recipe_finish(recipe *r)
{
  for (int32_t i = 0; i < N_KEYS; i++) {
    if (is_text(&keys[i])) {
      free(*(char **)field_of(r, &keys[i]));
    }
  }
  *r = (recipe){0};
}

/* ---- what was said ----------------------------------------------------------------------------------------------- */

int recipe_note(recipe_assignments *list, int32_t k, const char *text, const char *where)
{
  if (list->n == list->room) {
    int32_t room = list->room ? 2 * list->room : 32;
    recipe_assignment *longer = realloc(list->items, (size_t)room * sizeof *longer);
    if (!longer) {
      return tsr_cli_no_memory();
    }
    list->items = longer;
    list->room = room;
  }
  recipe_assignment *item = &list->items[list->n];
  *item = (recipe_assignment){.key = k};
  if (set_text(&item->text, text) != TSR_EXIT_OK || set_text(&item->where, where) != TSR_EXIT_OK) {
    free(item->text);
    return TSR_EXIT_MEMORY;
  }
  list->n++;
  return TSR_EXIT_OK;
}

void recipe_assignments_finish(recipe_assignments *list)
{
  for (int32_t i = 0; i < list->n; i++) {
    free(list->items[i].text);
    free(list->items[i].where);
  }
  free(list->items);
  *list = (recipe_assignments){0};
}

int recipe_is_said(const recipe_assignments *list, const char *name)
{
  for (int32_t i = 0; i < list->n; i++) {
    if (strcmp(keys[list->items[i].key].name, name) == 0) {
      return 1;
    }
  }
  return 0;
}

int recipe_apply(recipe *r, const recipe_assignments *list)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < list->n && code == TSR_EXIT_OK; i++) {
    code = set_value(r, &keys[list->items[i].key], list->items[i].text, list->items[i].where);
  }
  return code;
}

int recipe_impose(recipe *r, const recipe_assignments *said, const char *name, const char *value, const char *owner)
{
  const key *k = &keys[recipe_key_find(name)];
  char text[64];
  const char *is = value_of(r, k, text, sizeof text);
  if (strcmp(is, value) == 0) {
    return TSR_EXIT_OK;
  }
  if (recipe_is_said(said, name)) {
    tsr_cli_error("%s has %s '%s', not '%s': leave it out", owner, name, value, is);
    return TSR_EXIT_USAGE;
  }
  return set_value(r, k, value, owner);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* As a double-quoted scalar of YAML. */
static void print_quoted(FILE *file, const char *text)
{
  fputc('"', file);
  for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
    if (*at == '"' || *at == '\\') {
      fprintf(file, "\\%c", *at);
    } else if (*at < 0x20 || *at == 0x7F) {
      fprintf(file, "\\x%02X", *at);
    } else {
      fputc(*at, file);
    }
  }
  fputc('"', file);
}

tsr_status recipe_write(const recipe *r, const char *path)
{
  char *bytes = NULL, text[64];
  size_t size = 0;
  FILE *file = open_memstream(&bytes, &size);
  if (!file) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "%s: no memory for its text", path);
  }
  for (int32_t i = 0; i < N_KEYS; i++) {
    const key *k = &keys[i];
    const char *value = value_of(r, k, text, sizeof text);
    fprintf(file, "%s: ", k->name);
    if (k->option.kind >= TSR_OPTION_TEXT || value[0] == '\0') {
      print_quoted(file, value);
    } else {
      fputs(value, file);
    }
    fputc('\n', file);
  }
  if (fclose(file) != 0) {
    free(bytes);
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "%s: no memory for its text", path);
  }
  tsr_status status = tsr_file_replace(path, bytes, size);
  free(bytes);
  return status;
}

int recipe_compare(const recipe *old, const recipe *changed, const char *folder)
{
  int falls = strcmp(old->schedule, "linear") == 0 || strcmp(old->schedule, "cosine") == 0;
  for (int32_t i = 0; i < N_KEYS; i++) {
    const key *k = &keys[i];
    char a[64], b[64];
    const char *was = value_of(old, k, a, sizeof a), *is = value_of(changed, k, b, sizeof b);
    if (strcmp(was, is) != 0 && (k->effect == FIXED || (k->effect == TOTAL && falls))) {
      tsr_cli_error("%s: this training began with %s '%s'; '%s' would change its numbers: leave it out, or train in "
                    "another folder",
                    folder, k->name, was, is);
      return TSR_EXIT_USAGE;
    }
  }
  return TSR_EXIT_OK;
}
