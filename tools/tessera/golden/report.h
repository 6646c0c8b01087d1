/* SPDX-License-Identifier: Apache-2.0
 *
 * What came of a replay, and how it is told.
 */
#ifndef TESSERA_TOOLS_GOLDEN_REPORT_H
#define TESSERA_TOOLS_GOLDEN_REPORT_H

#include "tools/tessera/golden/golden.h"
#include "tools/tessera/options/options.h"

typedef struct golden_request {
  const char *folder;
  const char *recorded; /* folder of the recorded results */
  tsr_names devices;
  int split; /* 1: the model is split over the devices */
  double tolerance;
  double attention_tolerance; /* below 0: the default */
  double score_tolerance;
  tsr_transformer_options options;
  int as_json;
} golden_request;

enum { GOLDEN_VALUES = 4 }; /* recorded of teacher forcing: two of each batch */

typedef struct golden_error {
  const char *name;
  double largest;   /* error */
  double magnitude; /* largest recorded value */
  double relative;  /* largest / magnitude */
  int passed;
} golden_error;

/* What one folder's recordings gave. */
typedef struct golden_outcome {
  golden_error values[GOLDEN_VALUES]; /* without a name: not recorded */
  tsr_golden_layers layers;
  tsr_golden_search *searches; /* [n] */
  int32_t n;
  tsr_golden_training training;
} golden_outcome;

/* Prints it, as text or JSON. device: a name. passed: all agrees. Returns an exit code. */
int golden_report(const golden_request *r, const char *device, const golden_outcome *o, int passed);

#endif
