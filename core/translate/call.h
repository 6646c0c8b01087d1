/* SPDX-License-Identifier: Apache-2.0
 *
 * A call whose work several devices share: lanes.c says which device takes how much. The work is texts that are
 * translated together (call.c has their jobs, share.c what a device takes of them at a time), or pairs that are scored
 * (score.c).
 */
#ifndef TESSERA_CORE_TRANSLATE_CALL_H
#define TESSERA_CORE_TRANSLATE_CALL_H

#include "core/translate/translate.h"

struct tsr_call;
struct tsr_lane;

/* What lanes.c must know of the work, which is made of items. With the translator's lock. */
typedef struct tsr_call_kind {
  tsr_call_number number;
  /* Items that no share has, and that a device may do together, in `items` [n_items], or NULL: those that cost most
   * first, if they may be parted. Returns how many. */
  int32_t (*gather)(struct tsr_call *c, void **items);
  int64_t (*cost)(const void *item);
  /* Items that keep a lane's device busy, of a kind with `item`; 0: they may not be parted. */
  int32_t (*enough)(const struct tsr_lane *lane, const void *item);
  int32_t (*is_done)(const void *item); /* and not given up */
  /* Does items [n] on a lane's seat, which the thread holds; the lock is given up meanwhile. Those that are not
   * finished by then may be gathered again: for the device that takes the place of one that failed, or for another
   * one. */
  void (*run)(struct tsr_lane *lane, void *const *items, int32_t n);
  /* Gives up what is not done. The message is the thread's last error's. */
  void (*give_up)(struct tsr_call *c, tsr_status status);
  void (*obey)(struct tsr_call *c); /* the caller may want no more */
} tsr_call_kind;

/* A device in a call. With the translator's lock. */
typedef struct tsr_lane {
  struct tsr_call *call;
  tsr_seat *seat;
  int32_t is_out;    /* it takes no more */
  int32_t has_taken; /* a share */
  double since;      /* when its share began */
  int64_t cost;      /* of the share that it does; 0: none */
} tsr_lane;

typedef struct tsr_call {
  tsr_translator *t;
  const tsr_call_kind *kind;
  int64_t n_items;
  /* With the translator's lock. */
  tsr_job *answers; /* that are to be handed over at the end */
  tsr_lane lanes[TSR_MAX_SEATS];
  int32_t n_lanes;
  int32_t n_busy; /* lanes that have a share */
  double since;   /* when the first of them began */
  /* With `telling`. */
  pthread_mutex_t telling;
  int64_t n_told; /* items, by progress */
} tsr_call;

/* ---- call.c ---- */

/* With the lock: gives up what is not done of a call of texts. The message is the thread's last error's. */
void tsr_call_give_up(tsr_call *c, tsr_status status);

/* The same, if the caller wants no more. */
void tsr_call_obey(tsr_call *c);

/* ---- share.c; a `run` of texts ---- */

void tsr_share_run(tsr_lane *lane, void *const *parts, int32_t n);

/* ---- lanes.c ---- */

/* With the lock, which is given up meanwhile: does all items on all devices. */
void tsr_lanes_run(tsr_call *c);

/* With the lock: 1 if others can go on with what a lane's share has not finished after such an error: the device that
 * takes the place of this one, or other devices; the lane takes no more then. */
int32_t tsr_lane_has_heir(tsr_lane *lane, tsr_status status);

/* With the lock, which is given up meanwhile: lets them. The items may be gathered again. `why` is freed. */
void tsr_lane_hand_on(tsr_lane *lane, tsr_status status, char *why);

#endif
