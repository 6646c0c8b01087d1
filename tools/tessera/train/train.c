/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera train: trains a model.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tessera/training_run.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/train/ranks.h"
#include "tools/tessera/train/recipe.h"
#include "tools/tessera/train/train.h"

typedef struct session {
  const char *config;
  int resume;
  int dry_run;
  int json;
  recipe_assignments options; /* on the command line */
  recipe_assignments said;    /* in the file, then on the command line */
  recipe recipe;
  training training;
  progress_line line;
} session;

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
  (void)number;
  interrupted = 1;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* The file's words first, so that the command line's win. */
static int join_said(session *s)
{
  const recipe_assignments *options = &s->options;
  int code = s->config ? recipe_read(s->config, &s->said) : TSR_EXIT_OK;
  for (int32_t i = 0; i < options->n && code == TSR_EXIT_OK; i++) {
    code = recipe_note(&s->said, options->items[i].key, options->items[i].text, options->items[i].where);
  }
  return code;
}

/* ---- the recipe -------------------------------------------------------------------------------------------------- */

/* The settings with the defaults of what is trained: a task has its own. */
static int make_recipe(const recipe_assignments *said, recipe *r)
{
  int is_task = 0;
  for (int32_t i = 0; i < said->n; i++) {
    if (strcmp(recipe_key_name(said->items[i].key), "task") == 0) {
      is_task = said->items[i].text[0] != '\0';
    }
  }
  int code = recipe_init(r, is_task);
  return code == TSR_EXIT_OK ? recipe_apply(r, said) : code;
}

/* The recipe of the training that goes on, with what was said now. */
static int make_resumed(session *s, const char *path)
{
  recipe_assignments before = {0};
  recipe old = {0};
  int code = recipe_read(path, &before);
  if (code == TSR_EXIT_OK) {
    code = make_recipe(&before, &old);
  }
  if (code == TSR_EXIT_OK) {
    recipe_finish(&s->recipe);
    code = make_recipe(&before, &s->recipe);
  }
  if (code == TSR_EXIT_OK) {
    code = recipe_apply(&s->recipe, &s->said);
  }
  if (code == TSR_EXIT_OK) {
    code = recipe_compare(&old, &s->recipe, s->recipe.out);
  }
  recipe_finish(&old);
  recipe_assignments_finish(&before);
  return code;
}

static char *recipe_path(const char *out)
{
  char *folder = path_join(out, "train");
  char *path = folder ? path_join(folder, "recipe.yaml") : NULL;
  free(folder);
  return path;
}

static int read_recipe(const char *me, session *s)
{
  int code = make_recipe(&s->said, &s->recipe);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (s->recipe.out[0] == '\0') {
    return tsr_cli_usage(me, "--out is missing");
  }
  if (!s->resume) {
    return TSR_EXIT_OK;
  }
  char *path = recipe_path(s->recipe.out);
  if (!path) {
    return tsr_cli_no_memory();
  }
  if (path_exists(path)) {
    code = make_resumed(s, path);
  } else {
    tsr_cli_error("%s: there is no training to resume (%s)", s->recipe.out, path);
    code = TSR_EXIT_INPUT;
  }
  free(path);
  return code;
}

static int is_empty(const char *text)
{
  return text[0] == '\0';
}

static int check_recipe(const char *me, const recipe *r, int dry_run)
{
  int has_task = !is_empty(r->task), has_pairs = !is_empty(r->source) && !is_empty(r->target);
  int has_speech = !is_empty(r->speech), has_half = is_empty(r->source) != is_empty(r->target);
  if (has_task + has_pairs + has_speech + !is_empty(r->tsv) != 1 || (has_half && !has_speech) ||
      (has_speech && !is_empty(r->source))) {
    return tsr_cli_usage(me, "either --source and --target, or --tsv, or --speech, or --task is needed");
  }
  int is_model = strcmp(r->init, "xavier") != 0 && strcmp(r->init, "family") != 0 && !is_empty(r->init);
  if (!has_task && !is_model && is_empty(r->vocab)) {
    return tsr_cli_usage(me, "--vocab is missing; `tessera vocab` makes such a folder, for --speech with --speech");
  }
  if (has_task && (!is_empty(r->vocab) || !is_empty(r->valid_source))) {
    return tsr_cli_usage(me, "a task needs neither --vocab nor --valid-source");
  }
  if (!dry_run && r->steps == 0 && r->epochs == 0 && r->minutes <= 0.0 && r->patience == 0 && r->until <= 0.0) {
    return tsr_cli_usage(me, "one of --steps, --epochs, --minutes, --patience and --until is needed for it to end");
  }
  if (!has_task && is_empty(r->valid_source) &&
      (r->patience > 0 || r->until > 0.0 || !is_empty(r->criterion) || !is_empty(r->valid_target))) {
    return tsr_cli_usage(me, "--patience, --until, --criterion and --valid-target need validations: --valid-source is "
                             "missing");
  }
  if (r->norm_first && strcmp(r->family, "marian") == 0 && !is_model) {
    return tsr_cli_usage(me, "a model of the family marian has its norms after the sublayers: --norm-first is for "
                             "nn_transformer");
  }
  if (!is_empty(r->position_encoding) && strcmp(r->family, "marian") == 0 && !is_model) {
    return tsr_cli_usage(me, "a model of the family marian has sinusoids: --position-encoding is for nn_transformer");
  }
  return TSR_EXIT_OK;
}

/* ---- the training ------------------------------------------------------------------------------------------------ */

static void on_step(void *user, const tsr_training_run_step *step)
{
  session *s = user;
  progress_line_step(&s->line, step);
}

static void on_validation(void *user, const tsr_training_run_validation *v)
{
  session *s = user;
  progress_line_validation(&s->line, v);
}

/* The recipe is written when no other training can be at work in the folder. */
static tsr_status on_opened(void *user, int64_t step)
{
  session *s = user;
  if (s->resume && step > 0) {
    fprintf(stderr, "resumed at step %lld\n", (long long)step);
  } else if (s->resume) {
    fprintf(stderr, "resumed: no checkpoint is there yet, it begins anew\n");
  }
  char *path = recipe_path(s->recipe.out);
  tsr_status status =
      path ? recipe_write(&s->recipe, path) : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "no memory for the recipe's path");
  free(path);
  return status;
}

static int32_t is_stopping(void *user)
{
  (void)user;
  return interrupted != 0;
}

/* mpirun hands SIGUSR1 on to its ranks, and kills them at SIGTERM. */
static void watch_signals(int is_rank)
{
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND}; /* a second one ends it at once */
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  if (is_rank) {
    sigaction(SIGUSR1, &action, NULL);
  }
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
}

static const char *reason_name(int32_t reason)
{
  static const char *const names[] = {"?", "steps", "epochs", "minutes", "patience", "until", "stopped"};
  return names[reason > 0 && reason <= TSR_TRAINING_END_STOPPED ? reason : 0];
}

static int print_json(const tsr_training_run_result *r, int hears)
{
  json_t *root =
      json_pack("{s:I, s:I, s:o, s:o, s:I, s:s}", "steps", (json_int_t)r->step, "epoch", (json_int_t)r->epoch, "loss",
                tsr_cli_json_real(r->loss), "seconds", tsr_cli_json_real(r->seconds), "skipped", (json_int_t)r->skipped,
                "reason", reason_name(r->reason));
  if (root && r->has_validation) {
    const tsr_training_run_validation *v = &r->validation;
    json_object_set_new(root, "valid_loss", tsr_cli_json_real(v->loss));
    json_object_set_new(root, "valid_perplexity", tsr_cli_json_real(v->perplexity));
    json_object_set_new(root, "bleu", tsr_cli_json_real(v->bleu));
    json_object_set_new(root, "exact", tsr_cli_json_real(v->exact));
    if (hears) {
      json_object_set_new(root, "wer", tsr_cli_json_real(100.0 * (1.0 - v->exact)));
    }
  }
  return tsr_cli_json_print(root, 0);
}

static int print_result(const session *s, const tsr_training_run_result *r)
{
  if (s->json) {
    return print_json(r, s->training.data.sounds != NULL);
  }
  char steps[32], planned[32], whole[32];
  printf("%s: %s steps in %.0f s (%s)", s->recipe.out, tsr_cli_grouped(r->step, steps), r->seconds,
         reason_name(r->reason));
  if (r->has_validation) {
    const tsr_training_run_validation *v = &r->validation;
    printf("; loss %.4f, perplexity %.3f", v->loss, v->perplexity);
    if (!isnan(v->bleu)) {
      printf(", BLEU %.2f", v->bleu);
    }
    if (!isnan(v->exact)) {
      const int hears = s->training.data.sounds != NULL;
      printf(hears ? ", WER %.2f" : ", %.2f %% exact", hears ? 100.0 * (1.0 - v->exact) : 100.0 * v->exact);
    }
    if (v->averaged > 0) {
      printf(", mean of %d states", (int)v->averaged);
    }
  }
  puts("");
  training_print_left_out("left out: ", &r->counts);
  if (r->programs == 0) {
    return TSR_EXIT_OK; /* there was nothing left to do */
  }
  printf("memory: %s as planned, %s in one buffer for each tensor; %d programs\n",
         tsr_cli_bytes((uint64_t)r->planned_bytes, planned), tsr_cli_bytes((uint64_t)r->temporary_bytes, whole),
         (int)r->programs);
  return TSR_EXIT_OK;
}

static int train(session *s)
{
  tsr_training_run_options options;
  int code = training_options(&s->training, &s->recipe, &options);
  if (code == TSR_EXIT_OK) {
    options.resume = s->resume;
    options.user = s;
    options.step = on_step;
    options.validation = on_validation;
    options.opened = on_opened;
    options.is_stopping = is_stopping;
    code = tsr_cli_fail(tsr_training_run_check(&options));
  }
  if (code != TSR_EXIT_OK) {
    return code;
  }
  watch_signals(s->training.comm != NULL);
  tsr_training_run_result result;
  progress_line_start(&s->line);
  s->line.hears = s->training.data.sounds != NULL;
  tsr_status status = tsr_training_run(s->training.model, s->training.device, NULL, &options, &result);
  progress_line_clear(&s->line);
  if (status != TSR_OK) {
    return tsr_cli_fail(status);
  }
  return tsr_comm_rank(s->training.comm) == 0 ? print_result(s, &result) : TSR_EXIT_OK;
}

static int run(void *opaque)
{
  static const char me[] = "train";
  session *s = opaque;
  ranks_begin();
  int code = join_said(s);
  if (code == TSR_EXIT_OK) {
    code = read_recipe(me, s);
  }
  if (code == TSR_EXIT_OK) {
    code = check_recipe(me, &s->recipe, s->dry_run);
  }
  if (code == TSR_EXIT_OK) {
    code = training_open(&s->training, &s->recipe, &s->said, s->dry_run);
  }
  if (code == TSR_EXIT_OK) {
    code = s->dry_run ? training_print(&s->training, &s->recipe, s->json) : train(s);
  }
  if (code != TSR_EXIT_OK) {
    tsr_comm_abort(s->training.comm, code);
  }
  return code;
}

static void finish(void *opaque)
{
  session *s = opaque;
  training_finish(&s->training);
  recipe_assignments_finish(&s->options);
  recipe_assignments_finish(&s->said);
  recipe_finish(&s->recipe);
}

#define FIELD(member) TSR_FIELD(session, member)

static const tsr_option rows[] = {
    {"config", "FILE", TSR_OPTION_FILE, FIELD(config),
     .help = "the recipe: a YAML file whose keys are the options below, with _ instead of -"},
    {"resume", NULL, TSR_OPTION_FLAG, FIELD(resume), .low = 1, .help = "go on with the training in FOLDER/train"},
    {"dry-run", NULL, TSR_OPTION_FLAG, FIELD(dry_run), .low = 1,
     .help = "print what would be trained, and how much memory it takes"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(json), .low = 1,
     .help = "print one line of JSON at the end, or after a dry run"},
    {.table = &recipe_options, .offset = offsetof(session, options)},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};

const tsr_command tsr_command_train = {
    .name = "train",
    .summary = "train a model from sentence pairs or sounds, or on a toy task",
    .usage = "[--config FILE] --out FOLDER [OPTION]...\n"
             "--resume --out FOLDER [OPTION]...",
    .intro =
        "Trains a model from sentence pairs, from sounds and what is said in them, or on a toy task. FOLDER becomes "
        "the model's folder; checkpoints, "
        "logs and the recipe are in FOLDER/train. SIGINT saves and stops, and --resume goes on from there. After "
        "a crash, --resume goes on from the last checkpoint. Started by mpirun or srun, several processes share the "
        "batches of each update, each on its device.",
    .options = &options,
    .examples = "tessera vocab --source train.en --target train.fr --out vocab --size 5000\n"
                "tessera train --source train.en --target train.fr --vocab vocab --valid-source valid.en \\\n"
                "  --valid-target valid.fr --minutes 60 --out model\n"
                "tessera train --task reverse --steps 2000 --until 0.99 --out reverse\n"
                "mpirun -n 4 tessera train --config recipe.yaml --out model",
    .session_size = sizeof(session),
    .run = run,
    .finish = finish,
};
