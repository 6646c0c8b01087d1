/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of many devices: limits, and examples whose times can be told by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "tools/tessera/plan/scale.h"

static int is_close(double found, double expected)
{
  return fabs(found - expected) <= 1e-9 * fabs(expected) + 1e-18;
}

#define CLOSE(found, expected) assert_true(is_close(found, expected))

static const plan_cluster one = {.machines = 1,
                                 .devices = 1,
                                 .ranks = 1,
                                 .network_bandwidth = 1e9,
                                 .network_latency = 1e-5,
                                 .host_bandwidth = 1e10,
                                 .start = 2,
                                 .price = 3.6};

/* A batch takes 100 ms, adding its gradients 1 ms more, the update 10 ms. */
static const plan_training training = {.parameters = 1e6,
                                       .gradient_bytes = 4,
                                       .tokens = 1e6,
                                       .batch_tokens = 1000,
                                       .accumulate = 1,
                                       .alone_seconds = 0.108,
                                       .first_seconds = 0.1,
                                       .share_seconds = 0.1,
                                       .more_seconds = 0.101,
                                       .last_seconds = 0.111,
                                       .temporary_bytes = 5e6,
                                       .share_bytes = 5e6};

static plan_cluster cluster_of(double machines, double ranks)
{
  plan_cluster c = one;
  c.machines = machines;
  c.devices = c.ranks = ranks;
  return c;
}

static plan_training accumulated(double n)
{
  plan_training t = training;
  t.accumulate = n;
  return t;
}

/* Nothing but the messages takes time. */
static plan_cluster fast_host(plan_cluster c)
{
  c.host_bandwidth = c.transfer_bandwidth = INFINITY;
  return c;
}

/* ---- translation ------------------------------------------------------------------------------------------------- */

static void test_shards(void **state)
{
  (void)state;
  plan_cluster c = one;
  plan_translation t = {.sentences = 1000, .shards = 10, .batch = 32, .batch_seconds = 0.5};

  /* 10 shards of 100 sentences, 4 batches each. */
  plan_bill bill = plan_translate(&c, &t);
  CLOSE(bill.seconds, 2 + 10 * 4 * 0.5);
  CLOSE(bill.price, 22 * 3.6 / 3600);
  CLOSE(bill.efficiency, 32 * 0.5 / 20); /* in one go it would be 32 batches */

  /* On 4 processes, the last two shards are a round of their own. */
  c.machines = 4;
  bill = plan_translate(&c, &t);
  CLOSE(bill.seconds, 2 + 3 * 4 * 0.5);
  CLOSE(bill.price, 8 * 4 * 3.6 / 3600);
  CLOSE(bill.efficiency, 32 * 0.5 / (4 * 6));

  /* As many shards as processes, and more processes than shards. */
  c.machines = 10;
  CLOSE(plan_translate(&c, &t).seconds, 2 + 4 * 0.5);
  c.machines = 1000;
  CLOSE(plan_translate(&c, &t).seconds, 2 + 4 * 0.5);

  /* Small shards: the tail is short. */
  c = cluster_of(2, 2);
  t.shards = 1000;
  t.batch = 1;
  CLOSE(plan_translate(&c, &t).seconds, 2 + 250 * 0.5);
  CLOSE(plan_translate(&c, &t).efficiency, 1.0);

  /* The largest shard decides. */
  t.sentences = 4001;
  t.shards = 4;
  CLOSE(plan_translate(&c, &t).seconds, 2 + 1001 * 0.5);
  t.sentences = 1000;
  t.shards = 1000;

  /* Four processes on two devices take turns. */
  c.devices = 1;
  CLOSE(plan_translate(&c, &t).seconds, 2 + 500 * 0.5);
  CLOSE(plan_translate(&c, &t).efficiency, 1.0);
}

static void test_many_sentences(void **state)
{
  (void)state;
  const plan_cluster c = cluster_of(1000, 8);
  const plan_translation t = {.sentences = 1e15, .shards = 1e11, .batch = 100, .batch_seconds = 0.1};
  /* 12.5 million rounds of 10,000 sentences */
  CLOSE(plan_translate(&c, &t).seconds, 2 + 12.5e6 * 100 * 0.1);
  CLOSE(plan_translate(&c, &t).efficiency, 1.0);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static void test_one_rank(void **state)
{
  (void)state;
  plan_training_bill b = plan_train(&one, &training);
  CLOSE(b.updates, 1000);
  CLOSE(b.update.all, 0.108);
  CLOSE(b.update.apply, 0.01);
  CLOSE(b.update.compute, 0.098);
  CLOSE(b.update.take + b.update.host + b.update.travel, 0);
  CLOSE(b.bill.seconds, 2 + 108);
  CLOSE(b.bill.price, 110 * 3.6 / 3600);
  CLOSE(b.bill.efficiency, 1.0);
  CLOSE(b.device_bytes, 12e6 + 5e6); /* parameters, two moments */
  CLOSE(b.host_bytes, 0);

  const plan_training four = accumulated(4);
  b = plan_train(&one, &four);
  CLOSE(b.updates, 250);
  CLOSE(b.update.all, 0.1 + 2 * 0.101 + 0.111);
  CLOSE(b.bill.efficiency, 1.0);
  CLOSE(b.device_bytes, 16e6 + 5e6); /* and the sums */
}

/* Two ranks of one machine: no network. */
static void test_one_machine(void **state)
{
  (void)state;
  plan_cluster c = cluster_of(1, 2);
  const plan_training t = accumulated(2);
  plan_training_bill b = plan_train(&c, &t);
  CLOSE(b.updates, 500);
  CLOSE(b.update.compute, 0.1);
  CLOSE(b.update.apply, 0.01);
  CLOSE(b.update.travel, 0);
  CLOSE(b.update.take, 2 * 12e6 / 1e10);
  /* Of each gradient 24 bytes of a message, 12 of adding, 24 of a message. */
  CLOSE(b.update.host, (36e6 + 24e6) / 1e10);
  CLOSE(b.update.all, 0.1 + 0.01 + 0.0024 + 0.006);
  CLOSE(b.bill.efficiency, (0.1 + 0.111) / (2 * 0.1184));
  CLOSE(b.host_bytes, 4e6 + 4e6 / 2 + 3 * 4e6);

  /* As bf16: packing 8, a message 12, unpacking 10, adding 12; packing half of them, a message, unpacking. */
  plan_training half = t;
  half.gradient_bytes = 2;
  CLOSE(plan_train(&c, &half).update.host, (42e6 + 26e6) / 1e10);

  /* Both on one device. */
  c.devices = 1;
  b = plan_train(&c, &t);
  CLOSE(b.update.all, 2 * 0.1184);
  CLOSE(b.bill.efficiency, (0.1 + 0.111) / (2 * 0.1184));

  /* More devices than ranks change nothing. */
  c.devices = 8;
  CLOSE(plan_train(&c, &t).update.all, 0.1184);
}

static void test_network(void **state)
{
  (void)state;
  plan_cluster c = fast_host(cluster_of(4, 1));
  plan_training t = accumulated(4);
  const double latency = 3e-5 + 3e-5 + 2 * 2e-5; /* 3 messages twice; twice 2 steps in which the ranks agree */
  plan_training_bill b = plan_train(&c, &t);
  CLOSE(b.update.take + b.update.host, 0);
  CLOSE(b.update.travel, 2 * 0.75 * 4e6 / 1e9 + latency);
  CLOSE(b.update.all, 0.11 + 0.006 + latency);

  /* Twice the bytes, twice the time; half of them, half. */
  c.network_latency = 0;
  CLOSE(plan_train(&c, &t).update.travel, 0.006);
  t.parameters *= 2;
  CLOSE(plan_train(&c, &t).update.travel, 0.012);
  t.gradient_bytes = 2;
  CLOSE(plan_train(&c, &t).update.travel, 0.006);

  /* Two ranks of each machine share its network; their messages to each other do not use it: 6 of 8 parts do. */
  c = fast_host(cluster_of(4, 2));
  c.network_latency = 0;
  t = accumulated(8);
  CLOSE(plan_train(&c, &t).update.travel, 2 * 2 * 0.75 * 4e6 / 1e9);

  /* 2^22 + 1 gradients are two pieces. */
  c = fast_host(cluster_of(4, 1));
  c.network_bandwidth = INFINITY;
  t = accumulated(4);
  t.parameters = 4194304;
  CLOSE(plan_train(&c, &t).update.travel, latency);
  t.parameters = 4194305;
  CLOSE(plan_train(&c, &t).update.travel, latency + 6e-5);

  /* With nothing to wait for, and without an update that each repeats, nothing is lost. */
  c.network_latency = 0;
  t.first_seconds = t.share_seconds = t.more_seconds = t.last_seconds = 0.1;
  CLOSE(plan_train(&c, &t).bill.efficiency, 1.0);
}

/* Batches that do not divide by the ranks: the last round is not full. */
static void test_rounds(void **state)
{
  (void)state;
  plan_cluster c = fast_host(cluster_of(4, 1));
  c.network_latency = 0;
  const plan_training t = accumulated(9);
  plan_training_bill b = plan_train(&c, &t);
  CLOSE(b.update.compute, 0.3);
  CLOSE(b.update.travel, 4 * 0.003); /* three times the gradients, once the sums */
  CLOSE(b.updates, ceil(1e6 / 9000));
  const plan_training two = accumulated(2);
  CLOSE(plan_train(&c, &two).update.compute, 0.1);
  CLOSE(plan_train(&c, &two).bill.efficiency, 0.211 / (4 * 0.116));
}

/* A graphics card: what leaves it passes its bus. */
static void test_bus(void **state)
{
  (void)state;
  plan_cluster c = cluster_of(1, 2);
  const plan_training t = accumulated(4);
  c.transfer_bandwidth = 2e9;
  CLOSE(plan_train(&c, &t).update.take, 3 * 4e6 / 2e9); /* two rounds, and back */
}

static void test_shared_moments(void **state)
{
  (void)state;
  plan_cluster c = cluster_of(2, 2);
  plan_training t = accumulated(4);
  t.shards_moments = 1;
  const plan_training_bill b = plan_train(&c, &t);
  CLOSE(b.update.apply, 0.01 / 4);
  CLOSE(b.update.take, 3 * 12e6 / 1e10);
  CLOSE(b.update.host, (36e6 + 24e6 + 24e6) / 1e10);
  /* Two ranks of each machine send 2 of 4 parts, three times; three messages each, and two steps to agree, twice. */
  CLOSE(b.update.travel, 3 * (2 * 0.5 * 4e6 / 1e9 + 3e-5) + 2 * 2e-5);
  CLOSE(b.device_bytes, 4e6 + 4e6 + 8e6 / 4 + 5e6);
}

/* Four buckets, of which the last one is whole when the batch has ended, and half of the gradients. */
static const plan_bucket buckets[] = {{0.125, 0.5}, {0.125, 0.6}, {0.25, 0.7}, {0.5, 1.0}};

static void test_hidden(void **state)
{
  (void)state;
  plan_cluster c = fast_host(cluster_of(4, 1));
  c.network_latency = 0;
  plan_training t = accumulated(4);
  t.buckets = buckets;
  t.n_buckets = 4;
  /* Gradients and sums travel for 6 ms: what comes before the last bucket has ended by then. */
  plan_training_bill b = plan_train(&c, &t);
  CLOSE(b.update.travel, 0.006);
  CLOSE(b.update.hidden, 0.003);
  CLOSE(b.update.all, 0.1 + 0.01 + 0.003);

  /* For 120 ms: the first bucket begins after 50 ms, and from then on the network is never idle. */
  c.network_bandwidth = 1e9 / 20;
  b = plan_train(&c, &t);
  CLOSE(b.update.travel, 0.120);
  CLOSE(b.update.hidden, 0.05);

  /* For 40 ms: 5 each after 55 and 65 ms, 10 until 80; 20 behind the batch. */
  c.network_bandwidth = 3e9 / 20;
  CLOSE(plan_train(&c, &t).update.hidden, 0.02);

  /* Three rounds: the sums travel in the last one alone. */
  t.accumulate = 12;
  CLOSE(plan_train(&c, &t).update.travel, 4 * 0.02);
  CLOSE(plan_train(&c, &t).update.hidden, 2 * 0.01 + 0.02);

  /* A card leaves the host free to add, the host's own processor does not. */
  c = cluster_of(1, 2);
  t.accumulate = 2;
  CLOSE(plan_train(&c, &t).update.hidden, 0);
  c.transfer_bandwidth = 1e10;
  CLOSE(plan_train(&c, &t).update.hidden, 0.5 * 60e6 / 1e10);
}

/* One rank that rounds its gradients does what ranks do, but for the messages. */
static void test_rounded_alone(void **state)
{
  (void)state;
  plan_training t = accumulated(3);
  t.gradient_bytes = 2;
  t.rounds_alone = 1;
  t.buckets = buckets;
  t.n_buckets = 4;
  const plan_training_bill b = plan_train(&one, &t);
  CLOSE(b.update.compute, 0.3);
  CLOSE(b.update.take, 4 * 12e6 / 1e10);
  CLOSE(b.update.host, (3 * (8e6 + 10e6 + 12e6) + 8e6 + 10e6) / 1e10);
  CLOSE(b.update.travel + b.update.hidden, 0);
  CLOSE(b.update.all, 0.3 + 0.01 + b.update.take + b.update.host);
  CLOSE(b.bill.efficiency, 0.312 / b.update.all);
  CLOSE(b.device_bytes, 16e6 + 5e6);
  CLOSE(b.host_bytes, 2 * 4e6 + 3 * 4e6);
}

/* A thousand machines of eight cards, a model of a billion parameters, 10^12 tokens. */
static void test_large(void **state)
{
  (void)state;
  plan_cluster c = cluster_of(1000, 8);
  c.network_bandwidth = 5e10;
  c.network_latency = 2e-6;
  c.transfer_bandwidth = 2.5e10;
  plan_training t = accumulated(8000);
  t.parameters = 1e9;
  t.tokens = 1e12;
  const plan_training_bill b = plan_train(&c, &t);
  CLOSE(b.updates, 125000);
  /* 239 pieces, 7,999 messages of each; eight ranks send 7,992 of 8,000 parts of 4 GB at 50 GB/s; both twice */
  CLOSE(b.update.travel, 2 * (239 * 7999 * 2e-6 + 8 * 7992 / 8000.0 * 4e9 / 5e10) + 2 * 13 * 2e-6);
  CLOSE(b.bill.seconds, 2 + 125000 * b.update.all);
  CLOSE(b.bill.price, b.bill.seconds / 3600 * 3600);
  assert_true(b.bill.efficiency > 0 && b.bill.efficiency < 1);
  t.tokens = 1e18;
  CLOSE(plan_train(&c, &t).updates, 1.25e11);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shards),      cmocka_unit_test(test_many_sentences), cmocka_unit_test(test_one_rank),
      cmocka_unit_test(test_one_machine), cmocka_unit_test(test_network),        cmocka_unit_test(test_rounds),
      cmocka_unit_test(test_bus),         cmocka_unit_test(test_shared_moments), cmocka_unit_test(test_large),
      cmocka_unit_test(test_hidden),      cmocka_unit_test(test_rounded_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
