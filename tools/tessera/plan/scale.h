/* SPDX-License-Identifier: Apache-2.0
 *
 * The time, the memory and the price of a translation or a training that many devices share.
 *
 * Machines have D devices each, and run r processes (ranks) each, R in all. Processes beyond the devices take turns:
 *
 *     turns = max(1, r / D)
 *
 * Translation. A sentence does not depend on another one, so nothing is sent. N sentences are cut into S shards, and
 * each process takes the next shard when it has ended one. A batch takes as long however full it is:
 *
 *     shard = ceil(ceil(N / S) / batch) * turns * (encoder + steps of the decoder)
 *     time  = start + ceil(S / R) * shard
 *
 * Training, as core/train does it. An update has A batches, one for each rank in each of ceil(A / R) rounds. After a
 * round, each rank sends to each other one its part of the n gradients, of e bytes each, and adds up what it gets.
 * After the last round, each sends the sums of its part to all others. Both are direct messages, in pieces of at most
 * 2^22 gradients. With a latency a of a message and a bandwidth B of a machine's network:
 *
 *     travel  = pieces * (R - 1) * a + r * (R - r) / R * n * e / B      of each of both; 0 on one machine
 *     agree   = (rounds + 1) * ceil(log2 R) * a                         what the ranks tell one another of their losses
 *     take    = n * 4 / bandwidth between device and host         of each round, and once again after the last
 *     reduce  = n * (6e + 12 + pack + unpack) / bandwidth of the host       messages, adding
 *     share   = n * (6e + pack / R + unpack) / bandwidth of the host        the same of the sums
 *     update  = rounds * (turns * (batch + take + reduce) + travel) + turns * (share + take + Adam) + travel + agree
 *               - hidden
 *
 * Gradients travel in buckets, while the next ones are computed. Bucket i of a round, with a part n_i of the gradients,
 * is whole after the part w_i of the batch, and is then exchanged behind the one before it. With X, what a round
 * exchanges in the background:
 *
 *     end_i   = max(end_(i-1), w_i * turns * batch) + n_i * X
 *     hidden  = sum over the rounds of turns * batch + X - end of the last bucket
 *
 * X is travel + turns * reduce, and in the last round travel + turns * share, too. Where the device is the host's
 * processor, what the host does in the background takes that from the device, and X is what travels alone. What `take`
 * brings to the host is taken to wait for the device, and the device for it.
 *
 * If each rank updates its part of the parameters alone, Adam takes 1 / R of the time, and the parameters are sent as
 * the sums are, in f32: another take, n * 24 / bandwidth of the host, and another travel with e = 4.
 *
 * With r = 1 these are the costs of the pairwise exchange (reduce-scatter) and of the ring (allgather) of R. Thakur,
 * R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", Int. J. High Performance
 * Computing Applications 19 (2005): (R - 1) a + (R - 1) / R n e / B each, and their addition is `reduce` here. With
 * r > 1 the messages of a machine's r ranks to the R - r ranks elsewhere share its network.
 *
 * The bytes of the host are those that a program moves. What is written is fetched before, so that it counts twice, as
 * in cost.h: a copy moves three times its bytes. A message is copied into a buffer of MPI and out of another; adding
 * reads two numbers and writes where one of them is. In f32 numbers travel as they are; otherwise they are converted
 * before (pack = 4 + 2e) and after (unpack = e + 8). Where the device is the host's processor, `take` is a copy, n * 12
 * / bandwidth of the host. One rank that rounds its gradients does all of this, too, but for the messages.
 */
#ifndef TESSERA_TOOLS_PLAN_SCALE_H
#define TESSERA_TOOLS_PLAN_SCALE_H

#include <stdint.h>

/* Machines of one kind, and what connects them. Bandwidths are bytes per second, times are seconds. */
typedef struct plan_cluster {
  double machines;
  double devices;            /* D, of each machine */
  double ranks;              /* r, of each machine */
  double network_bandwidth;  /* B: what a machine sends, and receives at the same time; may be INFINITY */
  double network_latency;    /* a */
  double host_bandwidth;     /* of the memory of a machine, what each of its ranks gets while all work */
  double transfer_bandwidth; /* between a device and the host; 0: the device works in the host's memory */
  double start;              /* seconds from the start of a process to its first batch */
  double price;              /* of a machine for an hour; 0: not told */
} plan_cluster;

/* What it takes in all. */
typedef struct plan_bill {
  double seconds;
  double price;
  double efficiency; /* what one device would take for the same, without start, over the sum that all devices take */
} plan_bill;

typedef struct plan_translation {
  double sentences;
  double shards; /* 1 .. sentences */
  double batch;  /* sentences */
  double batch_seconds;
} plan_translation;

plan_bill plan_translate(const plan_cluster *cluster, const plan_translation *translation);

typedef struct plan_bucket {
  double gradients; /* part of all, 0 to 1 */
  double whole;     /* part of a batch's time after which they are there, 0 to 1 */
} plan_bucket;

typedef struct plan_training {
  double parameters;          /* n */
  double gradient_bytes;      /* e: 4, or 2 where gradients are rounded on their way */
  double tokens;              /* of all batches together, of the target */
  double batch_tokens;        /* of one batch */
  double accumulate;          /* A */
  const plan_bucket *buckets; /* [n_buckets], in the order in which they become whole */
  int32_t n_buckets;          /* 0: nothing is exchanged before a batch has ended */
  int32_t rounds_alone;       /* 1: the gradients of one rank pass the host, too, where they are rounded */
  double alone_seconds;       /* a batch and its update, in one program */
  double first_seconds;       /* a batch whose gradients become the sums */
  double share_seconds;       /* a batch whose gradients leave the device */
  double more_seconds;        /* one whose gradients are added to the sums */
  double last_seconds;        /* one whose gradients are added, and the update */
  double temporary_bytes;     /* of the largest of these programs, but for that of share_seconds */
  double share_bytes;         /* of that */
  int32_t shards_moments; /* 1: each rank updates its part of the parameters, and keeps Adam's moments of that alone */
} plan_training;

/* The parts of an update, in seconds. */
typedef struct plan_update {
  double compute; /* forward, backward */
  double take;
  double host; /* packing and adding: reduce and share */
  double travel;
  double apply;  /* the update of the parameters */
  double hidden; /* of take, host and travel: what the batches' own time covers */
  double all;
} plan_update;

typedef struct plan_training_bill {
  plan_bill bill;
  plan_update update;
  double updates;
  double device_bytes; /* of each rank: parameters, sums, moments, temporaries */
  double host_bytes;   /* of each rank: what the exchange takes */
} plan_training_bill;

plan_training_bill plan_train(const plan_cluster *cluster, const plan_training *training);

#endif
