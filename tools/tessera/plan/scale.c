/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/plan/scale.h"

#include <math.h>

enum {
  F32 = 4,
  MOMENTS = 2,
  PIECE = 1 << 22 /* gradients that are exchanged at once */
};

static const double hour = 3600;

static double ranks_of(const plan_cluster *c)
{
  return c->machines * c->ranks;
}

static double turns_of(const plan_cluster *c)
{
  return fmax(1, c->ranks / c->devices);
}

static plan_bill make_bill(const plan_cluster *c, double seconds, double alone)
{
  const double devices = c->machines * fmin(c->devices, c->ranks);
  return (plan_bill){.seconds = c->start + seconds,
                     .price = (c->start + seconds) / hour * c->price * c->machines,
                     .efficiency = alone / (devices * seconds)};
}

/* ---- translation ------------------------------------------------------------------------------------------------- */

plan_bill plan_translate(const plan_cluster *cluster, const plan_translation *t)
{
  const double of_shard = ceil(t->sentences / t->shards), rounds = ceil(t->shards / ranks_of(cluster));
  const double shard = ceil(of_shard / t->batch) * turns_of(cluster) * t->batch_seconds;
  return make_bill(cluster, rounds * shard, ceil(t->sentences / t->batch) * t->batch_seconds);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* Bytes that pass between processor and memory. What is written is fetched before. */
static double copied(double bytes)
{
  return 3 * bytes;
}

/* Into a buffer of MPI, and out of another; one rank sends nothing. */
static double sent(const plan_cluster *c, double bytes)
{
  return ranks_of(c) > 1 ? 2 * copied(bytes) : 0;
}

static double packed(double e)
{
  return e < F32 ? F32 + 2 * e : 0;
}

static double unpacked(double e)
{
  return e < F32 ? e + 2 * F32 : 0;
}

static double take(const plan_cluster *c, const plan_training *t)
{
  return c->transfer_bandwidth > 0 ? t->parameters * F32 / c->transfer_bandwidth
                                   : t->parameters * copied(F32) / c->host_bandwidth;
}

static double reduce(const plan_cluster *c, const plan_training *t)
{
  const double e = t->gradient_bytes, add = 3 * F32; /* two are read, and one of them is written */
  return t->parameters * (packed(e) + sent(c, e) + unpacked(e) + add) / c->host_bandwidth;
}

static double share(const plan_cluster *c, const plan_training *t)
{
  const double e = t->gradient_bytes;
  return t->parameters * (packed(e) / ranks_of(c) + sent(c, e) + unpacked(e)) / c->host_bandwidth;
}

static double travel(const plan_cluster *c, const plan_training *t, double e)
{
  const double ranks = ranks_of(c), bytes = t->parameters * e;
  if (c->machines <= 1) {
    return 0;
  }
  return ceil(t->parameters / PIECE) * (ranks - 1) * c->network_latency +
         c->ranks * (ranks - c->ranks) / ranks * bytes / c->network_bandwidth;
}

static double agree(const plan_cluster *c, double rounds)
{
  return c->machines <= 1 ? 0 : (rounds + 1) * ceil(log2(ranks_of(c))) * c->network_latency;
}

/* All batches of an update on one rank, without anybody else. */
static double alone(const plan_training *t)
{
  return t->accumulate <= 1 ? t->alone_seconds
                            : t->first_seconds + (t->accumulate - 2) * t->more_seconds + t->last_seconds;
}

/* Of a round's exchange, the part that goes on while the batch is computed. */
static double hidden(const plan_training *t, double batch, double exchange)
{
  double end = 0;
  for (int32_t i = 0; i < t->n_buckets; i++) {
    end = fmax(end, t->buckets[i].whole * batch) + t->buckets[i].gradients * exchange;
  }
  return t->n_buckets > 0 ? batch + exchange - fmax(end, batch) : 0;
}

static plan_update update_of(const plan_cluster *c, const plan_training *t)
{
  const double ranks = ranks_of(c), turns = turns_of(c), rounds = ceil(t->accumulate / ranks);
  plan_update u = {0};
  if (ranks <= 1 && !t->rounds_alone) {
    u.apply = t->last_seconds - t->more_seconds;
    u.compute = alone(t) - u.apply;
  } else {
    u.compute = rounds * turns * t->share_seconds;
    u.take = (rounds + 1) * turns * take(c, t);
    u.host = turns * (rounds * reduce(c, t) + share(c, t));
    u.travel = (rounds + 1) * travel(c, t, t->gradient_bytes) + agree(c, rounds);
    u.apply = turns * (t->last_seconds - t->more_seconds) / (t->shards_moments ? ranks : 1);
  }
  if (ranks > 1 && t->shards_moments) { /* the parameters are sent, too */
    u.take += turns * take(c, t);
    u.host += turns * t->parameters * sent(c, F32) / c->host_bandwidth;
    u.travel += travel(c, t, F32);
  }
  if (ranks > 1) {
    const int in_host = c->transfer_bandwidth <= 0; /* it computes there, too */
    const double once = travel(c, t, t->gradient_bytes), batch = turns * t->share_seconds;
    const double added = once + (in_host ? 0 : turns * reduce(c, t)), told = once + (in_host ? 0 : turns * share(c, t));
    u.hidden = (rounds - 1) * hidden(t, batch, added) + hidden(t, batch, added + told);
  }
  u.all = u.compute + u.take + u.host + u.travel + u.apply - u.hidden;
  return u;
}

plan_training_bill plan_train(const plan_cluster *cluster, const plan_training *t)
{
  const double ranks = ranks_of(cluster), piece = fmin(t->parameters, PIECE);
  const int has_sums = ranks > 1 || t->accumulate > 1 || t->rounds_alone;
  const double moments = MOMENTS / (t->shards_moments ? ranks : 1.0);
  plan_training_bill b = {.update = update_of(cluster, t)};
  b.updates = ceil(t->tokens / (t->accumulate * t->batch_tokens));
  b.bill = make_bill(cluster, b.updates * b.update.all, b.updates * alone(t));
  b.device_bytes = t->parameters * F32 * (1 + has_sums + moments);
  b.device_bytes += ranks > 1 || t->rounds_alone ? t->share_bytes : t->temporary_bytes;
  if (ranks > 1 || t->rounds_alone) { /* all gradients; sums; what comes, goes, is added */
    b.host_bytes = t->parameters * F32 * (1 + 1 / ranks) + 3 * piece * F32;
  }
  return b;
}
