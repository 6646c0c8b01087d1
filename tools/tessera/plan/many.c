/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/plan/many.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/inspect.h"
#include "tessera/ops.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/plan/scale.h"

enum {
  SHARD_SENTENCES = 10000, /* as translate-corpus cuts a corpus */
  MOST_BUCKETS = 8,        /* as tsr_training_run divides gradients */
  LEAST_BUCKET = 1 << 16,
  LARGEST_BUCKET = 1 << 22
};

static const double giga = 1e9, micro = 1e-6, hour = 3600, million = 1e6;

/* ---- the machines ------------------------------------------------------------------------------------------------ */

static int is_in_host_memory(const plan_many *m)
{
  return m->card->figures.one_by_one != 0;
}

static plan_cluster cluster_of(const plan_many *m, int32_t machines)
{
  const plan_many_options *o = m->options;
  const double usual_host = 10e9, usual_transfer = 25e9; /* one core; PCI Express 4.0 with 16 lanes */
  const int in_host = is_in_host_memory(m);
  return (plan_cluster){
      .machines = machines,
      .devices = o->devices,
      .ranks = o->ranks > 0 ? o->ranks : o->devices,
      .network_bandwidth = o->network * giga,
      .network_latency = o->latency * micro,
      .host_bandwidth = o->host > 0 ? o->host * giga
                        : in_host   ? m->card->figures.memory_bandwidth
                                    : usual_host,
      .transfer_bandwidth = o->transfer > 0 ? o->transfer * giga
                            : in_host       ? 0
                                            : usual_transfer,
      .start = o->start,
      .price = o->price,
  };
}

/* The numbers of machines that are asked for. */
static int32_t count(const plan_many *m)
{
  return m->options->machines.n > 0 ? m->options->machines.n : 1;
}

static int32_t machines_at(const plan_many *m, int32_t i)
{
  return m->options->machines.n > 0 ? m->options->machines.values[i] : 1;
}

/* Prints the list, under the other keys of `root`, which it releases; NULL is a failed allocation. */
static int print_json(const plan_many *m, const char *what, json_t *root, json_t *list)
{
  if (root && list) {
    json_object_set_new(root, "what", json_string(what));
    json_object_set_new(root, "device", tsr_cli_json_text(m->card->name, strlen(m->card->name)));
    json_object_set_new(root, "model", tsr_cli_json_text(m->folder, strlen(m->folder)));
    json_object_set(root, "machines", list);
  }
  json_decref(list);
  return tsr_cli_json_print(root, JSON_INDENT(2));
}

static json_t *bill_json(const plan_cluster *c, const plan_bill *bill)
{
  return json_pack("{s:f, s:f, s:f, s:f, s:f}", "machines", c->machines, "ranks", c->machines * c->ranks, "seconds",
                   bill->seconds, "price", bill->price, "efficiency", bill->efficiency);
}

/* ---- translation ------------------------------------------------------------------------------------------------- */

typedef struct translation {
  plan_translation model;
  int32_t kind; /* of a step */
  double encoder_seconds, step_seconds, bytes;
} translation;

static double shards_of(const plan_many *m)
{
  const plan_many_options *o = m->options;
  const double wanted = o->shards > 0 ? (double)o->shards : ceil(o->sentences / SHARD_SENTENCES);
  return fmin(wanted, o->sentences);
}

/* Of constants that another program does not have, and of states. */
static double held_bytes(const tsr_program *program, const tsr_program *other)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  double bytes = 0;
  for (int32_t t = 1; t < desc->n_tensors; t++) {
    const char *name = tsr_ref_name(program, t);
    const int32_t kind = tsr_ref_kind(program, t);
    const int is_own = (kind == TSR_STORAGE_CONSTANT || kind == TSR_STORAGE_STATE) &&
                       tsr_program_find(program, name) == t && !(other && tsr_program_find(other, name));
    bytes += is_own ? (double)tsr_storage_at(desc, tsr_tensor_at(desc, t)->storage)->size : 0;
  }
  return bytes;
}

static int price_translation(const plan_many *m, translation *t)
{
  const tsr_program_size *size = &m->kinds->size;
  tsr_program *encoder = NULL, *step = NULL;
  double encoder_arena = 0, step_arena = 0;
  int code = tsr_cli_fail(
      tsr_model_program_with_states(m->model, m->kinds->weights, m->states, TSR_PROGRAM_ENCODE, size, &encoder));
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_model_program_with_states(m->model, m->kinds->weights, m->states, t->kind, size, &step));
  }
  if (code == TSR_EXIT_OK) {
    code = m->price(m->context, encoder, &t->encoder_seconds, &encoder_arena, NULL);
  }
  if (code == TSR_EXIT_OK) {
    code = m->price(m->context, step, &t->step_seconds, &step_arena, NULL);
  }
  if (code == TSR_EXIT_OK) {
    t->bytes = held_bytes(encoder, NULL) + held_bytes(step, encoder) + encoder_arena + step_arena;
    t->model = (plan_translation){.sentences = m->options->sentences,
                                  .shards = shards_of(m),
                                  .batch = size->batch,
                                  .batch_seconds = t->encoder_seconds + size->target * t->step_seconds};
  }
  tsr_program_destroy(encoder);
  tsr_program_destroy(step);
  return code;
}

static int tell_translation_json(const plan_many *m, const translation *t)
{
  const tsr_program_size *size = &m->kinds->size;
  json_t *list = json_array();
  for (int32_t i = 0; i < count(m); i++) {
    const plan_cluster c = cluster_of(m, machines_at(m, i));
    const plan_bill bill = plan_translate(&c, &t->model);
    json_array_append_new(list, bill_json(&c, &bill));
  }
  return print_json(m, "translate",
                    json_pack("{s:f, s:f, s:s, s:i, s:i, s:i, s:f, s:f, s:f}", "sentences", t->model.sentences,
                              "shards", t->model.shards, "kind", tsr_cli_kind_name(t->kind), "batch", (int)size->batch,
                              "source", (int)size->source, "target", (int)size->target, "encoder_us",
                              t->encoder_seconds / micro, "step_us", t->step_seconds / micro, "bytes", t->bytes),
                    list);
}

static int tell_translation(const plan_many *m, const translation *t)
{
  static const char *const columns[] = {"machines", "processes", "hours", "sentences/s", "busy", "price", "a million"};
  enum { COLUMNS = sizeof columns / sizeof columns[0] };
  const tsr_program_size *size = &m->kinds->size;
  char bytes[32];
  tsr_cli_table table;
  printf("%.9g sentences in %.9g shards, batches of %d, on %s\n", t->model.sentences, t->model.shards, (int)size->batch,
         m->card->name);
  printf("the encoder takes %.4g ms for %d tokens, %s %.4g ms for each of %d steps; %s of memory\n",
         1e3 * t->encoder_seconds, (int)size->source, tsr_cli_kind_name(t->kind), 1e3 * t->step_seconds,
         (int)size->target, tsr_cli_bytes((uint64_t)t->bytes, bytes));
  tsr_cli_table_begin(&table, columns, COLUMNS, (1u << COLUMNS) - 1);
  for (int32_t i = 0; i < count(m); i++) {
    const plan_cluster c = cluster_of(m, machines_at(m, i));
    const plan_bill bill = plan_translate(&c, &t->model);
    tsr_cli_table_cell(&table, "%.0f", c.machines);
    tsr_cli_table_cell(&table, "%.0f", c.machines * c.ranks);
    tsr_cli_table_cell(&table, "%.4g", bill.seconds / hour);
    tsr_cli_table_cell(&table, "%.0f", t->model.sentences / bill.seconds);
    tsr_cli_table_cell(&table, "%.0f %%", 100 * bill.efficiency);
    tsr_cli_table_cell(&table, c.price > 0 ? "%.2f" : "-", bill.price);
    tsr_cli_table_cell(&table, c.price > 0 ? "%.4f" : "-", bill.price * million / t->model.sentences);
  }
  const int code = tsr_cli_table_print(&table, stdout);
  tsr_cli_table_finish(&table);
  return code;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static int price_step(const plan_many *m, int32_t kind, plan_training *t, double *seconds)
{
  tsr_program *program = NULL;
  double arena = 0;
  int code = tsr_cli_fail(tsr_training_program(m->model, m->training, kind, &m->kinds->size, &program));
  if (code == TSR_EXIT_OK) {
    code = m->price(m->context, program, seconds, &arena, NULL);
  }
  t->temporary_bytes = fmax(t->temporary_bytes, arena);
  tsr_program_destroy(program);
  return code;
}

/* The buckets of gradients, as core/train makes them. until [lines]: as the pricer has it. */
static void fill_buckets(const tsr_program *program, const double *until, double parameters, plan_bucket *buckets,
                         int32_t *n)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  const double least = fmin(fmax(parameters / MOST_BUCKETS, LEAST_BUCKET), LARGEST_BUCKET);
  *n = 0;
  for (int32_t i = 0; i < desc->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(desc, i);
    if (line->op != TSR_OP_UPDATE) {
      continue;
    }
    if (*n == 0 || buckets[*n - 1].gradients * parameters >= least) {
      buckets[(*n)++] = (plan_bucket){0};
    }
    const double bytes = (double)tsr_storage_at(desc, tsr_tensor_at(desc, line->out[0])->storage)->size;
    buckets[*n - 1].gradients += bytes / sizeof(float) / parameters;
    buckets[*n - 1].whole = until[i];
  }
}

/* What each rank computes; *buckets is the caller's, after an error too. */
static int price_share(const plan_many *m, plan_training *t, plan_bucket **buckets)
{
  tsr_program *program = NULL;
  double *until = NULL;
  *buckets = NULL;
  int code = tsr_cli_fail(tsr_training_program(m->model, m->training, TSR_STEP_SHARE, &m->kinds->size, &program));
  if (code == TSR_EXIT_OK) {
    const size_t n = (size_t)tsr_program_line_count(program) + 1;
    until = calloc(n, sizeof *until);
    *buckets = calloc(n, sizeof **buckets);
    code = until && *buckets ? m->price(m->context, program, &t->share_seconds, &t->share_bytes, until)
                             : tsr_cli_fail(tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory"));
  }
  if (code == TSR_EXIT_OK) {
    fill_buckets(program, until, t->parameters, *buckets, &t->n_buckets);
    t->buckets = *buckets;
  }
  free(until);
  tsr_program_destroy(program);
  return code;
}

/* *buckets: as in price_share. */
static int price_training(const plan_many *m, plan_training *t, plan_bucket **buckets)
{
  const plan_many_options *o = m->options;
  *t = (plan_training){.gradient_bytes = o->rounds_gradients ? 2 : 4,
                       .tokens = o->tokens,
                       .batch_tokens = (double)m->kinds->size.batch * m->kinds->size.target,
                       .rounds_alone = o->rounds_gradients,
                       .shards_moments = o->shards_moments};
  const struct {
    int32_t kind;
    double *seconds;
  } steps[] = {{TSR_STEP_UPDATE, &t->alone_seconds},
               {TSR_STEP_FIRST, &t->first_seconds},
               {TSR_STEP_MORE, &t->more_seconds},
               {TSR_STEP_LAST, &t->last_seconds}};
  int code = TSR_EXIT_OK;
  for (size_t i = 0; i < sizeof steps / sizeof steps[0] && code == TSR_EXIT_OK; i++) {
    code = price_step(m, steps[i].kind, t, steps[i].seconds);
  }
  for (int32_t i = 0; i < tsr_model_parameter_count(m->model) && code == TSR_EXIT_OK; i++) {
    tsr_parameter_info info;
    code = tsr_cli_fail(tsr_model_parameter(m->model, i, &info));
    t->parameters += code == TSR_EXIT_OK ? (double)tsr_shape_elements(&info.shape) : 0;
  }
  *buckets = NULL;
  return code == TSR_EXIT_OK ? price_share(m, t, buckets) : code;
}

/* On c's ranks: a batch for each, if nothing else is asked for. */
static plan_training_bill train_on(const plan_many *m, const plan_cluster *c, plan_training *t)
{
  t->accumulate = m->options->accumulate > 0 ? m->options->accumulate : c->machines * c->ranks;
  return plan_train(c, t);
}

static json_t *training_json(const plan_cluster *c, const plan_training *t, const plan_training_bill *b)
{
  const plan_update *u = &b->update;
  json_t *row = bill_json(c, &b->bill);
  if (row) {
    json_object_update_new(row,
                           json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "accumulate",
                                     t->accumulate, "updates", b->updates, "update_us", u->all / micro, "compute_us",
                                     u->compute / micro, "transfer_us", u->take / micro, "host_us", u->host / micro,
                                     "network_us", u->travel / micro, "hidden_us", u->hidden / micro, "optimizer_us",
                                     u->apply / micro, "device_bytes", b->device_bytes, "host_bytes", b->host_bytes));
  }
  return row;
}

static int tell_training_json(const plan_many *m, plan_training *t)
{
  const tsr_program_size *size = &m->kinds->size;
  json_t *list = json_array();
  for (int32_t i = 0; i < count(m); i++) {
    const plan_cluster c = cluster_of(m, machines_at(m, i));
    const plan_training_bill b = train_on(m, &c, t);
    json_array_append_new(list, training_json(&c, t, &b));
  }
  return print_json(m, "train",
                    json_pack("{s:f, s:f, s:i, s:i, s:i, s:f, s:f}", "tokens", t->tokens, "parameters", t->parameters,
                              "batch", (int)size->batch, "source", (int)size->source, "target", (int)size->target,
                              "batch_us", t->first_seconds / micro, "step_us", t->alone_seconds / micro),
                    list);
}

static int tell_training(const plan_many *m, plan_training *t)
{
  static const char *const columns[] = {"machines", "ranks",  "batches", "ms",    "compute", "transfer", "host",
                                        "network",  "hidden", "updates", "hours", "price",   "memory",   "efficiency"};
  enum { COLUMNS = sizeof columns / sizeof columns[0] };
  const tsr_program_size *size = &m->kinds->size;
  tsr_cli_table table;
  printf("%.9g tokens in batches of %d x %d, %.9g parameters, on %s\n", t->tokens, (int)size->batch, (int)size->target,
         t->parameters, m->card->name);
  printf("a batch takes %.4g ms, with its update %.4g ms\n", 1e3 * t->first_seconds, 1e3 * t->alone_seconds);
  tsr_cli_table_begin(&table, columns, COLUMNS, (1u << COLUMNS) - 1);
  for (int32_t i = 0; i < count(m); i++) {
    char bytes[32];
    const plan_cluster c = cluster_of(m, machines_at(m, i));
    const plan_training_bill b = train_on(m, &c, t);
    tsr_cli_table_cell(&table, "%.0f", c.machines);
    tsr_cli_table_cell(&table, "%.0f", c.machines * c.ranks);
    tsr_cli_table_cell(&table, "%.0f", t->accumulate);
    tsr_cli_table_cell(&table, "%.4g", 1e3 * b.update.all);
    tsr_cli_table_cell(&table, "%.4g", 1e3 * (b.update.compute + b.update.apply));
    tsr_cli_table_cell(&table, "%.4g", 1e3 * b.update.take);
    tsr_cli_table_cell(&table, "%.4g", 1e3 * b.update.host);
    tsr_cli_table_cell(&table, "%.4g", 1e3 * b.update.travel);
    tsr_cli_table_cell(&table, "%.4g", 1e3 * b.update.hidden);
    tsr_cli_table_cell(&table, "%.9g", b.updates);
    tsr_cli_table_cell(&table, "%.4g", b.bill.seconds / hour);
    tsr_cli_table_cell(&table, c.price > 0 ? "%.2f" : "-", b.bill.price);
    tsr_cli_table_cell(&table, "%s", tsr_cli_bytes((uint64_t)b.device_bytes, bytes));
    tsr_cli_table_cell(&table, "%.0f %%", 100 * b.bill.efficiency);
  }
  const int code = tsr_cli_table_print(&table, stdout);
  tsr_cli_table_finish(&table);
  return code;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

int plan_many_tell(const plan_many *m)
{
  if (m->options->tokens > 0) {
    plan_training training;
    plan_bucket *buckets;
    int code = price_training(m, &training, &buckets);
    if (code == TSR_EXIT_OK) {
      code = m->as_json ? tell_training_json(m, &training) : tell_training(m, &training);
    }
    free(buckets);
    return code;
  }
  translation t = {.kind = m->kinds->chosen & 1u << TSR_PROGRAM_BEAM ? TSR_PROGRAM_BEAM : TSR_PROGRAM_GREEDY};
  const int code = price_translation(m, &t);
  return code != TSR_EXIT_OK ? code : m->as_json ? tell_translation_json(m, &t) : tell_translation(m, &t);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

int plan_many_check(const plan_many_options *o)
{
  if (o->sentences > 0 && o->tokens > 0) {
    return tsr_cli_usage("plan", "--sentences is for a translation and --tokens for a training: take one of them");
  }
  if (o->machines.n > 0 && o->sentences <= 0 && o->tokens <= 0) {
    return tsr_cli_usage("plan", "--machines needs --sentences, or --tokens");
  }
  return TSR_EXIT_OK;
}

#define FIELD(member) TSR_FIELD(plan_many_options, member)

static const tsr_choice gradients[] = {{"f32"}, {"bf16"}, {NULL}};

static const tsr_option rows[] = {
    {"sentences", "N", TSR_OPTION_NUMBER, FIELD(sentences), 1, 1e15,
     .help = "instead of the programs: the time and price of translating N sentences of --source and --target tokens, "
             "by greedy search or, with --kind beam, by beam search"},
    {"tokens", "N", TSR_OPTION_NUMBER, FIELD(tokens), 1, 1e18,
     .help = "instead of the programs: the time and price of training with N tokens of targets, 1e12 for instance"},
    {"machines", "N", TSR_OPTION_INTEGER, FIELD(machines), 1, 1000000, .is_list = 1,
     .help = "on so many machines; several numbers, separated by commas, are compared", .otherwise = "1"},
    {"devices-per-machine", "N", TSR_OPTION_INTEGER, FIELD(devices), 1, 1024,
     .help = "devices as the description has it, in each machine", .preset = "1"},
    {"ranks-per-machine", "N", TSR_OPTION_INTEGER, FIELD(ranks), 1, 1024,
     .help = "processes of each machine, which take turns if they are more than its devices",
     .otherwise = "one for each device"},
    {"shards", "N", TSR_OPTION_INTEGER, FIELD(shards), 1, 1e12,
     .help = "of the sentences; a process translates one after the other", .otherwise = "one for 10000 sentences"},
    {"accumulate", "N", TSR_OPTION_INTEGER, FIELD(accumulate), 1, 1 << 30,
     .help = "batches that make one update, on all ranks together", .otherwise = "one for each rank"},
    {"gradient-precision", "P", TSR_OPTION_CHOICE, FIELD(rounds_gradients), .choices = gradients,
     .help = "type in which gradients travel", .preset = "f32"},
    {"shard-optimizer", NULL, TSR_OPTION_FLAG, FIELD(shards_moments), .low = 1,
     .help = "each rank updates its part of the parameters alone, and keeps Adam's moments of no others"},
    {"network-gb-per-second", "X", TSR_OPTION_NUMBER, FIELD(network), 1e-6, 1e9,
     .help = "gigabytes a second that each machine sends, and receives at the same time; 12.5 are 100 Gbit/s",
     .preset = "12.5"},
    {"network-latency-us", "X", TSR_OPTION_NUMBER, FIELD(latency), 0, 1e9,
     .help = "microseconds of a message between machines", .preset = "5"},
    {"host-gb-per-second", "X", TSR_OPTION_NUMBER, FIELD(host), 1e-6, 1e9,
     .help = "gigabytes a second that a process moves in its machine's memory while all others do, too",
     .otherwise = "10; where the device is the host's processor, its memory_gb_per_second"},
    {"transfer-gb-per-second", "X", TSR_OPTION_NUMBER, FIELD(transfer), 1e-6, 1e9,
     .help = "gigabytes a second between a device and the host",
     .otherwise = "25; where the device is the host's processor, by --host-gb-per-second"},
    {"start-seconds", "X", TSR_OPTION_NUMBER, FIELD(start), 0, 1e9,
     .help = "seconds from the start of a process to its first batch", .preset = "0"},
    {"price", "X", TSR_OPTION_NUMBER, FIELD(price), 0, 1e9, .help = "of a machine for an hour, in any currency",
     .otherwise = "no prices"},
    {NULL},
};

const tsr_option_table plan_many_table = {.title = "Many machines:", .rows = rows};
