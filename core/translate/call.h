/* SPDX-License-Identifier: Apache-2.0
 *
 * A call whose texts are searched together: call.c has its jobs, share.c what a device takes of them at a time, and
 * lanes.c which device takes how much.
 */
#ifndef TESSERA_CORE_TRANSLATE_CALL_H
#define TESSERA_CORE_TRANSLATE_CALL_H

#include "core/translate/translate.h"

struct tsr_call;

/* Parts of one class that a device searches together. */
typedef struct tsr_share {
  struct tsr_call *call;
  struct tsr_lane *lane;
  tsr_seat *seat; /* the lane's */
  const tsr_class *class;
  int32_t n;
  tsr_text_part **parts; /* [n], likewise the next */
  const int32_t **source;
  int32_t *lengths;
  tsr_prompt *prompts;
  int64_t *numbers;
  int64_t told; /* of the parts, those that progress was told of */
} tsr_share;

/* A device in a call. With the translator's lock. */
typedef struct tsr_lane {
  struct tsr_call *call;
  tsr_seat *seat;
  int32_t is_out;       /* it takes no more */
  int32_t has_searched; /* a share */
  double since;         /* when its share began */
  int64_t cost;         /* of the share that it searches; 0: none */
} tsr_lane;

typedef struct tsr_call {
  tsr_translator *t;
  tsr_job *const *jobs; /* [n_jobs] NULL: there is none */
  int32_t n_jobs;
  const volatile int32_t *stop; /* the caller's, or NULL */
  int64_t n_parts;              /* of all jobs */
  /* With the translator's lock. */
  tsr_job *answers; /* that are to be handed over at the end */
  tsr_lane lanes[TSR_MAX_SEATS];
  int32_t n_lanes;
  int32_t n_searching; /* lanes that have a share */
  double since;        /* when the first of them began */
  /* With `telling`. */
  pthread_mutex_t telling;
  int64_t n_told; /* parts, by progress */
} tsr_call;

/* What a sentence costs: a step per token, more or less, and something for each batch it may be in. */
static inline int64_t tsr_part_cost(const tsr_text_part *part)
{
  return part->n_ids + 4;
}

/* ---- call.c; with the translator's lock ---- */

/* Parts that no share has, of the class of the first, in `parts` [n_parts], or NULL: the longest first, but those of
 * alternatives, whose draws depend on the texts before them. The parts of jobs that were given up are done. Returns how
 * many. */
int32_t tsr_call_gather(tsr_call *c, tsr_text_part **parts);

/* Gives up what is not done. The message is the thread's last error's. */
void tsr_call_give_up(tsr_call *c, tsr_status status);

/* The caller may want no more. */
void tsr_call_obey(tsr_call *c);

/* ---- share.c; with the translator's lock, which is given up meanwhile ---- */

/* Searches parts [n] on a lane's seat, which the thread holds. Those that are not finished by then may be gathered
 * again: on the device that takes the place of one that failed, or on another one. The lane is out if its device takes
 * no more. */
void tsr_share_run(tsr_lane *lane, tsr_text_part *const *parts, int32_t n);

/* ---- lanes.c ---- */

/* With the lock, which is given up meanwhile: searches all parts on all devices. */
void tsr_lanes_run(tsr_call *c);

#endif
