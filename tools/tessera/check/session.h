/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of tessera check: what it was asked for, what is checked, and what came of it.
 */
#ifndef TESSERA_TOOLS_CHECK_SESSION_H
#define TESSERA_TOOLS_CHECK_SESSION_H

#include <stdint.h>

#include "tools/conformance/conformance.h"
#include "tools/tessera/check/workers.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/options/options.h"

enum { MODE_TEST, MODE_COVERAGE, MODE_SUPPORT, MODE_PERF, MODE_COMPILE, MODE_COUNT };

/* What the command line asks for. */
typedef struct check_request {
  const char *ops;
  const char *only;   /* --case */
  tsr_names excepted; /* --except */
  tsr_names devices;
  const char *variant; /* --variant: a glob, or NULL */
  int64_t seed;
  int64_t random_seed; /* of the cases that are drawn; 0: seed */
  int64_t share;       /* one of so many */
  int64_t part;        /* which of them, from 0 */
  int64_t random;      /* what the drawn cases of each family cost, in millions */
  int64_t jobs;        /* --jobs; 0: by the devices */
  double minutes;      /* --minutes; 0: no limit */
  int32_t mode;
  int list, verbose, as_json;
} check_request;

/* What came of one device. */
typedef struct check_subject {
  check_device device;
  const char *name;
  check_coverage coverage;
  int32_t cases, failed, unsupported;
  int32_t *taken;                 /* --variant: [variants + 1] cases by variant */
  int32_t variant;                /* forced now; 0: none */
  check_largest largest;          /* what no share leaves out */
  int32_t unexcused;              /* of the unsupported: without an exception in them */
  int32_t executed[TSR_OP_COUNT]; /* cases; [0]: programs */
  int32_t wrong[TSR_OP_COUNT];    /* of them: failed */
  int32_t drawn;                  /* of the cases: not of the table */
  double worst[TSR_OP_COUNT];     /* error / bound */
  const char *worst_case[TSR_OP_COUNT];
  double nmse[TSR_OP_COUNT];
  int64_t free_elements[TSR_OP_COUNT];
} check_subject;

/* With --minutes, the table is gone through in rounds, so that what there is time for is a fair part of all of it:
 * first the cases that execute something new, then some of the parts into which all cases fall, then the largest case
 * of each kernel, then the other parts. */
enum {
  CHECK_PARTS = 64,
  CHECK_FIRST_PARTS = 4,
  CHECK_ROUND_NEW = 0,
  CHECK_ROUND_LARGEST = CHECK_FIRST_PARTS + 1,
  CHECK_ROUNDS = CHECK_PARTS + 2
};
typedef struct check_rounds {
  unsigned char *done; /* [cases] 1: no round takes the case again; NULL without --minutes */
  int32_t now;
  int32_t not_reached; /* cases, when the time was over */
  double start;        /* by tsr_cli_seconds */
} check_rounds;

typedef struct check_session {
  check_request request;
  tsr_runtime *runtime;
  check_table table;
  check_device reference;
  check_coverage offered; /* what the cases contain, whatever devices support */
  check_subject *subjects;
  int32_t n_subjects;
  check_device **devices; /* [n_subjects], theirs */
  check_workers *workers;
  check_rounds rounds;
  tsr_cli_progress progress;
} check_session;

/* 1 if --random drew the case. */
int check_is_drawn(const check_session *s, const check_case *test);

/* Tells of a case that one device was given: as it comes, if it failed or all are asked for. Returns an exit code. */
int check_report(check_session *s, const check_subject *device, const check_case *test, const check_result *result,
                 int excused);

/* Tells of all of them in the end. Returns the exit code of the run. */
int check_summarise(check_session *s);

#endif
