/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera plan --sentences, --tokens: what a translation or a training takes on one machine, and on many.
 */
#ifndef TESSERA_TOOLS_PLAN_MANY_H
#define TESSERA_TOOLS_PLAN_MANY_H

#include "tessera/train.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/plan/card.h"
#include "tools/tessera/programs/kinds.h"

typedef struct plan_many_options {
  double sentences; /* to translate; 0: none */
  double tokens;    /* to train with; likewise */
  tsr_integers machines;
  int32_t devices, ranks;   /* of each machine; ranks 0: as devices */
  int64_t shards;           /* 0: as translate-corpus has them */
  int32_t accumulate;       /* 0: a batch for each rank */
  int32_t rounds_gradients; /* 1: gradients travel as bf16 */
  int32_t shards_moments;
  double network, latency; /* gigabytes per second; microseconds */
  double host, transfer;   /* gigabytes per second; 0: by the type of the device */
  double start, price;
} plan_many_options;

/* The options, into plan_many_options. */
extern const tsr_option_table plan_many_table;

/* The command line as a whole: exit code. */
int plan_many_check(const plan_many_options *options);

/* Seconds of a run of a program, the bytes of its temporaries, and in until [lines], unless it is NULL, the part of the
 * seconds that is over behind each line. Exit code. */
typedef int (*plan_many_pricer)(const void *context, const tsr_program *program, double *seconds, double *arena,
                                double *until);

/* What it is about. */
typedef struct plan_many {
  const plan_many_options *options;
  const tsr_model *model;
  const char *folder; /* the model's */
  const plan_card *card;
  const tsr_cli_kinds *kinds;
  tsr_dtype states; /* type of keys and values */
  const tsr_training_options *training;
  int32_t as_json;
  plan_many_pricer price;
  const void *context; /* of price */
} plan_many;

/* Prices the programs and prints what it takes on each number of machines. Exit code. */
int plan_many_tell(const plan_many *many);

#endif
