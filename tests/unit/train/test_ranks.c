/* SPDX-License-Identifier: Apache-2.0
 *
 * Trainings of several ranks, which are threads here: the files that they leave are those of one rank, but for times.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/file.h"
#include "tessera/ops.h"
#include "tessera/training_run.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary.h"

enum { MOST_RANKS = 4, VOCABULARY = 9, MOST_NUMBERS = 1 << 16 };

/* A training, and what its ranks have in common. */
typedef struct plan {
  const char *folder;
  int32_t accumulate;
  int64_t steps, examples, epochs;
  float dropout;
  double average;
  tsr_dtype products, gradients;
  double loss_scale;
  int32_t statistics, resume, shard;
  int64_t stop_at;    /* step after which rank `stopping` asks for the end; 0: never */
  int32_t stopping;   /* rank */
  int32_t other_seed; /* rank that has another one; 0: none */
  double rate;        /* 0: 0.01 */
  int64_t bucket;     /* as the run's option has it */
  int32_t is_watched; /* 1: by the device */
  tsr_training_run_result result[MOST_RANKS];
} plan;

typedef struct asked {
  const plan *plan;
  int32_t rank;
  int64_t times; /* is_stopping was called */
} asked;

static int32_t is_stopping(void *user)
{
  asked *a = user;
  a->times++;
  return a->plan->stop_at > 0 && a->rank == a->plan->stopping && a->times > a->plan->stop_at;
}

static const tsr_transformer_config config = {
    TSR_SIZED(tsr_transformer_config),
    .family = "marian",
    .d_model = 8,
    .encoder_layers = 1,
    .decoder_layers = 1,
    .encoder_heads = 2,
    .decoder_heads = 2,
    .encoder_d_ff = 12,
    .decoder_d_ff = 12,
    .source_vocabulary = VOCABULARY,
    .target_vocabulary = VOCABULARY,
    .max_positions = 8,
    .position = TSR_POSITION_SINUSOID_HALVES,
    .norm = TSR_NORM_LAYER,
    .norm_position = TSR_NORM_POST,
    .activation = TSR_ACTIVATION_RELU,
    .shared_embedding = 1,
    .tied_logits = 1,
    .attention_bias = 1,
    .feed_forward_bias = 1,
    .logits_bias = 1,
    .embedding_scale = 2.828427f,
    .logits_scale = 1.0f,
    .epsilon = 1e-5f,
    .bos_id = -1,
    .unk_id = 1,
    .eos_id = TSR_TOY_TASK_EOS,
    .pad_id = VOCABULARY - 1,
    .decoder_start_id = VOCABULARY - 1,
};

static tsr_status train_on(const plan *p, tsr_comm *comm, tsr_model *model, tsr_device *device)
{
  const int32_t rank = tsr_comm_rank(comm);
  asked user = {.plan = p, .rank = rank};
  const tsr_toy_task task = {
      .kind = TSR_TOY_TASK_REVERSE, .vocabulary = VOCABULARY, .min_length = 1, .max_length = 5, .seed = 1};
  const tsr_training_data_options data = {TSR_SIZED(tsr_training_data_options),
                                          .task = &task,
                                          .task_examples = p->examples,
                                          .batch_tokens = 24,
                                          .max_source = 8,
                                          .max_target = 8,
                                          .seed = 1,
                                          .pool = 16,
                                          .epochs = p->epochs};
  const tsr_training_options training = {
      TSR_SIZED(tsr_training_options), .dropout = p->dropout,   .max_norm = 1.0f,           .label_smoothing = 0.1f,
      .weight_decay = 0.01f,           .products = p->products, .statistics = p->statistics};
  const tsr_training_run_options options = {
      TSR_SIZED(tsr_training_run_options),
      .resume = p->resume,
      .folder = p->folder,
      .data = &data,
      .training = &training,
      .schedule = {.kind = TSR_SCHEDULE_CONSTANT, .peak = p->rate > 0.0 ? p->rate : 0.01, .warmup = 3},
      .seed = p->other_seed > 0 && p->other_seed == rank ? 2 : 1,
      .accumulate = p->accumulate,
      .average_decay = p->average,
      .loss_scale = p->loss_scale,
      .steps = p->steps,
      .log_every = 1,
      .save_every = 4,
      .validate_every = 3,
      .keep = 2,
      .sentences = 4,
      .user = &user,
      .is_stopping = is_stopping,
      .comm = comm,
      .gradients = p->gradients,
      .shard = p->shard,
      .bucket = p->bucket};
  return tsr_training_run(model, device, NULL, &options, (tsr_training_run_result *)&p->result[rank]);
}

/* ---- a device that looks whether gradients travel meanwhile ------------------------------------------------------ */

/* The reference, for two ranks and two buckets: it computes the second part of a batch when both ranks have begun to
 * exchange what the first part left. */
static struct {
  tsr_backend table;
  const tsr_backend *reference;
  pthread_mutex_t lock;                /* guards the next two */
  tsr_backend_executable *second[256]; /* parts that compute gradients, without the loss */
  int n_second;
  int64_t begin;   /* exchanges before the training */
  int32_t in_vain; /* parts that waited in vain */
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int64_t n_batches; /* of this thread, which is a rank */

static int32_t watched_compile(tsr_backend_device *device, const tsr_compile_args *args,
                               tsr_backend_executable **executable)
{
  int has_loss = 0, has_gradients = 0;
  for (int32_t i = 0; i < args->program->n_lines; i++) {
    has_loss |= tsr_line_at(args->program, i)->op == TSR_OP_CROSS_ENTROPY;
    has_gradients |= tsr_line_at(args->program, i)->op == TSR_OP_LAYERNORM_GRADIENT;
  }
  const int32_t status = watched.reference->compile(device, args, executable);
  pthread_mutex_lock(&watched.lock);
  if (status == TSR_OK && has_gradients && !has_loss && watched.n_second < 256) {
    watched.second[watched.n_second++] = *executable;
  }
  pthread_mutex_unlock(&watched.lock);
  return status;
}

static void watched_destroy(tsr_backend_executable *executable)
{
  pthread_mutex_lock(&watched.lock);
  for (int i = 0; i < watched.n_second; i++) {
    watched.second[i] = watched.second[i] == executable ? NULL : watched.second[i];
  }
  pthread_mutex_unlock(&watched.lock);
  watched.reference->executable_destroy(executable);
}

static int32_t watched_run(tsr_backend_executable *executable)
{
  enum { PATIENCE = 2000 /* naps of 10 ms */ };
  static const struct timespec nap = {.tv_nsec = 10000000};
  int is_second = 0, naps = 0;
  pthread_mutex_lock(&watched.lock);
  for (int i = 0; i < watched.n_second; i++) {
    is_second |= watched.second[i] == executable;
  }
  const int most = watched.in_vain > 0 ? 0 : PATIENCE; /* once in vain is enough */
  pthread_mutex_unlock(&watched.lock);
  const int64_t wanted = watched.begin + 4 * n_batches + 2;
  for (; is_second && ranks_exchanges() < wanted && naps < most; naps++) {
    nanosleep(&nap, NULL);
  }
  n_batches += is_second;
  pthread_mutex_lock(&watched.lock);
  watched.in_vain += naps == PATIENCE;
  pthread_mutex_unlock(&watched.lock);
  return watched.reference->run(executable);
}

static const tsr_backend *watched_query(uint32_t major, const tsr_host *host)
{
  (void)host;
  (void)major;
  return &watched.table;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* rank_fn */
static tsr_status train(tsr_comm *comm, void *context)
{
  tsr_runtime *runtime = NULL;
  tsr_device *device = NULL;
  tsr_model *model = NULL;
  tsr_status status = tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = ""}, &runtime);
  if (status == TSR_OK) {
    status = tsr_runtime_register(runtime, ((const plan *)context)->is_watched ? watched_query : tessera_backend_query);
  }
  if (status == TSR_OK) {
    status = tsr_device_open(runtime, "reference", &device);
  }
  if (status == TSR_OK) {
    status = tsr_model_create(&config, &model);
  }
  if (status == TSR_OK) {
    status = train_on(context, comm, model, device);
  }
  tsr_model_close(model);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  return status;
}

static void run_plan(int32_t size, plan *p)
{
  rank_result results[MOST_RANKS];
  run_ranks(size, train, p, results);
  for (int32_t rank = 0; rank < size; rank++) {
    assert_string_equal(results[rank].message, "");
    assert_int_equal(results[rank].status, TSR_OK);
    assert_int_equal(p->result[rank].step, p->result[0].step);
    assert_int_equal(p->result[rank].reason, p->result[0].reason);
    assert_int_equal(p->result[rank].skipped, p->result[0].skipped);
  }
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static void assert_same_tensors(const char *a_folder, const char *b_folder, const char *name)
{
  static float a_values[MOST_NUMBERS], b_values[MOST_NUMBERS];
  tsr_checkpoint *a, *b;
  assert_int_equal(tsr_checkpoint_open(path_in(a_folder, name), &a), TSR_OK);
  assert_int_equal(tsr_checkpoint_open(path_in(b_folder, name), &b), TSR_OK);
  assert_int_equal(tsr_checkpoint_count(a), tsr_checkpoint_count(b));
  for (int32_t i = 0; i < tsr_checkpoint_count(a); i++) {
    const tsr_checkpoint_tensor *one = tsr_checkpoint_at(a, i), *other = tsr_checkpoint_at(b, i);
    assert_string_equal(one->name, other->name);
    if (one->dtype != TSR_F32) {
      continue; /* checksums, of times too */
    }
    const int64_t n = tsr_shape_elements(&one->shape);
    assert_in_range(n, 0, MOST_NUMBERS);
    assert_int_equal(tsr_checkpoint_read(one, 0, n, TSR_F32, a_values), TSR_OK);
    assert_int_equal(tsr_checkpoint_read(other, 0, n, TSR_F32, b_values), TSR_OK);
    if (memcmp(a_values, b_values, (size_t)n * sizeof *a_values) != 0) {
      fail_msg("%s: %s differs", name, one->name);
    }
  }
  tsr_checkpoint_close(a);
  tsr_checkpoint_close(b);
}

/* Takes the times out of a line of log.jsonl. */
static void blank_times(char *text, size_t size)
{
  static const char *const names[] = {"\"seconds\":", "\"tokens_per_second\":"};
  for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
    for (char *at = text; (at = strstr(at, names[k]));) {
      char *from = at + strlen(names[k]), *to = from + strcspn(from, ",}");
      memmove(from, to, (size_t)(text + size - to));
      at = from;
    }
  }
}

static char *read_log(const char *folder)
{
  tsr_file file;
  assert_int_equal(tsr_file_read(path_in(folder, "train/log.jsonl"), &file), TSR_OK);
  char *text = malloc(file.size + 1);
  assert_non_null(text);
  memcpy(text, file.bytes, file.size);
  text[file.size] = '\0';
  blank_times(text, file.size + 1);
  tsr_file_free(&file);
  return text;
}

static void assert_same(const char *a_folder, const char *b_folder)
{
  char *a = read_log(a_folder), *b = read_log(b_folder);
  assert_string_equal(a, b);
  free(a);
  free(b);
  assert_same_tensors(a_folder, b_folder, "train/last.safetensors");
  assert_same_tensors(a_folder, b_folder, "train/best.safetensors");
  assert_same_tensors(a_folder, b_folder, "model.safetensors");
}

static void remove_training(char *folder)
{
  remove_temporary_folder(strdup(path_in(folder, "train")));
  remove_temporary_folder(folder);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* Runs the plan alone and with `size` ranks, and compares. Returns the updates that were left out. */
static int64_t compare(int32_t size, const plan *p)
{
  plan alone = *p, shared = *p;
  char *a = make_temporary_folder(), *b = make_temporary_folder();
  alone.folder = a;
  shared.folder = b;
  run_plan(1, &alone);
  run_plan(size, &shared);
  assert_int_equal(alone.result[0].step, shared.result[0].step);
  assert_int_equal(alone.result[0].epoch, shared.result[0].epoch);
  assert_int_equal(alone.result[0].skipped, shared.result[0].skipped);
  assert_true(alone.result[0].loss == shared.result[0].loss);
  assert_same(a, b);
  remove_training(a);
  remove_training(b);
  return alone.result[0].skipped;
}

static const plan usual = {.accumulate = 3, .steps = 5, .examples = 1000, .dropout = 0.1f, .bucket = 64};

/* As many ranks as batches, fewer, more; a round that is not full. */
static void test_numbers_of_ranks(void **state)
{
  (void)state;
  for (int32_t size = 2; size <= MOST_RANKS; size++) {
    compare(size, &usual);
  }
  plan p = usual;
  p.accumulate = 5;
  compare(2, &p);
}

/* Buckets of a parameter each, of some, of all, and as many as the run takes where nothing is said. */
static void test_buckets(void **state)
{
  (void)state;
  static const int64_t sizes[] = {1, 300, 1000000, 0};
  plan p = usual;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    p.bucket = sizes[i];
    compare(2, &p);
  }
}

/* A bucket travels while the next one is computed. */
static void test_overlap(void **state)
{
  (void)state;
  plan p = usual;
  char *folder = make_temporary_folder();
  p.accumulate = 2;
  p.steps = 3;
  p.bucket = 800;
  p.folder = folder;
  p.is_watched = 1;
  watched.reference = tessera_backend_query(TSR_ABI_MAJOR, NULL);
  watched.table = *watched.reference;
  watched.table.compile = watched_compile;
  watched.table.run = watched_run;
  watched.table.executable_destroy = watched_destroy;
  watched.begin = ranks_exchanges();
  run_plan(2, &p);
  assert_int_equal(watched.in_vain, 0);
  assert_int_equal(ranks_exchanges() - watched.begin, 2 * 2 * p.steps); /* buckets are two */
  remove_training(folder);
}

/* Where nothing is said, an update has a batch of each rank. */
static void test_default(void **state)
{
  (void)state;
  plan said = usual, not_said = usual;
  char *a = make_temporary_folder(), *b = make_temporary_folder();
  said.accumulate = 2;
  said.folder = a;
  run_plan(1, &said);
  not_said.accumulate = 0;
  not_said.folder = b;
  run_plan(2, &not_said);
  assert_same(a, b);
  remove_training(a);
  remove_training(b);
}

static void test_options(void **state)
{
  (void)state;
  plan p = usual;
  p.average = 0.9;
  p.statistics = 1;
  compare(3, &p);
  p.products = TSR_BF16;
  p.gradients = TSR_BF16;
  compare(2, &p);
  p.products = TSR_F16;
  p.gradients = TSR_F32;
  p.loss_scale = 1e30;
  assert_in_range(compare(2, &p), 1, 1000);
}

/* Each rank keeps a share of the optimizer's states, some ranks perhaps none. */
static void test_shares(void **state)
{
  (void)state;
  plan p = usual;
  p.shard = 1;
  for (int32_t size = 2; size <= MOST_RANKS; size++) {
    p.average = size % 2 ? 0.9 : 0.0;
    compare(size, &p);
  }
  p.average = 0.0;
  plan whole = usual;
  char *a = make_temporary_folder(), *b = make_temporary_folder();
  p.folder = a;
  run_plan(3, &p);
  whole.folder = b;
  run_plan(3, &whole);
  const int64_t moments = whole.result[0].state_bytes / 2; /* the other half: parameters, sums of gradients */
  int64_t saved = 0;
  for (int32_t rank = 0; rank < 3; rank++) {
    saved += whole.result[rank].state_bytes - p.result[rank].state_bytes;
  }
  assert_int_equal(saved, 2 * moments);
  remove_training(a);
  remove_training(b);
}

/* bf16 is not f32. */
static void test_rounding_changes_numbers(void **state)
{
  (void)state;
  plan p = usual, rounded = usual;
  char *a = make_temporary_folder(), *b = make_temporary_folder();
  rounded.gradients = TSR_BF16;
  p.folder = a;
  rounded.folder = b;
  run_plan(1, &p);
  run_plan(1, &rounded);
  assert_true(p.result[0].loss != rounded.result[0].loss);
  remove_training(a);
  remove_training(b);
}

/* The data end in the middle of an update, in the first batches and in the last of a round. */
static void test_end_of_data(void **state)
{
  (void)state;
  for (int64_t examples = 40; examples <= 60; examples += 4) {
    plan p = usual;
    p.steps = 0;
    p.epochs = 1;
    p.examples = examples;
    compare(2, &p);
    compare(3, &p);
  }
}

/* Stopped by one rank, gone on with by another number of them. */
static void test_resume(void **state)
{
  (void)state;
  plan whole = usual, part = usual;
  char *a = make_temporary_folder(), *b = make_temporary_folder();
  whole.steps = part.steps = 9;
  whole.average = part.average = 0.9;
  whole.folder = a;
  part.folder = b;
  run_plan(1, &whole);
  part.stop_at = 4;
  part.stopping = 2;
  run_plan(3, &part);
  assert_int_equal(part.result[0].reason, TSR_TRAINING_END_STOPPED);
  assert_int_equal(part.result[0].step, 4);
  part.resume = part.shard = 1;
  part.stopping = 1;
  part.stop_at = 2;
  run_plan(2, &part);
  assert_int_equal(part.result[1].step, 6);
  part.stop_at = 0;
  part.shard = 0;
  run_plan(4, &part);
  assert_int_equal(part.result[0].step, 9);
  assert_same_tensors(a, b, "train/last.safetensors");
  remove_training(a);
  remove_training(b);
}

static void assert_one_fails(const plan *p, int32_t size, int32_t rank, tsr_status status, const char *fragment)
{
  plan failing = *p;
  rank_result results[MOST_RANKS];
  char *folder = make_temporary_folder();
  failing.folder = folder;
  run_ranks(size, train, &failing, results);
  for (int32_t i = 0; i < size; i++) {
    assert_int_equal(results[i].status, i == rank ? status : TSR_ERR_PLUGIN);
    if (i == rank && !strstr(results[i].message, fragment)) {
      fail_msg("the message \"%s\" lacks \"%s\"", results[i].message, fragment);
    }
  }
  remove_training(folder);
}

/* One rank tells what is wrong. */
static void test_errors(void **state)
{
  (void)state;
  plan p = usual;
  p.other_seed = 1;
  assert_one_fails(&p, 2, 1, TSR_ERR_ARGUMENT, "other settings, or another model, than rank 0");
  p = usual;
  p.rate = 1e38; /* the parameters leave f32, then the loss of the first batch of an update does */
  p.accumulate = 4;
  assert_one_fails(&p, 3, 0, TSR_ERR_FORMAT, "is not finite");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_of_ranks), cmocka_unit_test(test_buckets),
      cmocka_unit_test(test_overlap),

      cmocka_unit_test(test_default),          cmocka_unit_test(test_options),
      cmocka_unit_test(test_shares),           cmocka_unit_test(test_rounding_changes_numbers),
      cmocka_unit_test(test_end_of_data),      cmocka_unit_test(test_resume),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
