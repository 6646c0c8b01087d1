/* SPDX-License-Identifier: Apache-2.0
 *
 * Which device takes how much of a call. Each device has a lane, a thread that takes share after share. A share is half
 * of what its device would compute of the rest, by the speed that it has shown: so shares become smaller, and all
 * devices end at about the same time (guided self-scheduling, Polychronopoulos and Kuck 1987). What costs most is taken
 * first. A device whose speed is not known yet begins with a few of the shortest; twice, because the first time
 * programs are compiled. A device that would need longer for its share than another one for all of the rest takes none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/translate/call.h"

enum {
  SAMPLE = 8,   /* items that a device begins with */
  PATIENCE = 8, /* calls without a share, after which a device's speed is looked at anew */
};

/* ---- how much ---------------------------------------------------------------------------------------------------- */

static tsr_shown *shown_by(const tsr_lane *lane)
{
  return &lane->seat->shown[lane->call->kind->number];
}

/* When a lane will have done its share. One that is late will need as long again. */
static double expected_end(const tsr_lane *lane, double now)
{
  if (lane->cost == 0) {
    return now;
  }
  double end = lane->since + (double)lane->cost / shown_by(lane)->speed;
  return end > now ? end : now + (now - end);
}

/* 1 if a lane could take a share now, or has one. Its seat may be somebody else's. */
static int32_t has_its_seat(const tsr_lane *lane)
{
  return !lane->is_out && (lane->cost > 0 || tsr_seat_is_free(lane->seat));
}

/* 1 if another lane would have done all of the rest before this one had done `share` of it. */
static int32_t is_left_to_others(const tsr_lane *lane, int64_t share, int64_t rest)
{
  const tsr_call *c = lane->call;
  double now = tsr_seconds(), end = now + (double)share / shown_by(lane)->speed;
  for (int32_t i = 0; i < c->n_lanes; i++) {
    const tsr_lane *other = &c->lanes[i];
    if (other != lane && has_its_seat(other) && shown_by(other)->speed > 0.0 &&
        expected_end(other, now) + (double)rest / shown_by(other)->speed < end) {
      return 1;
    }
  }
  return 0;
}

/* How many of items [n], those that cost most first, a lane takes, from *first on. */
static int32_t choose(const tsr_lane *lane, void *const *items, int32_t n, int32_t *first)
{
  const tsr_call *c = lane->call;
  double speeds = 0.0, own = shown_by(lane)->speed;
  int64_t rest = 0, share = 0;
  int32_t n_others = 0, enough = c->kind->enough(lane, items[0]), count = 0;
  *first = 0;
  for (int32_t i = 0; i < c->n_lanes; i++) {
    n_others += &c->lanes[i] != lane && !c->lanes[i].is_out;
    speeds += c->lanes[i].is_out ? 0.0 : shown_by(&c->lanes[i])->speed;
  }
  if (n_others == 0 || enough == 0) {
    return n;
  }
  if (own == 0.0) {
    int32_t sample = n / (4 * (n_others + 1));
    sample = sample < 1 ? 1 : sample < SAMPLE ? sample : SAMPLE;
    *first = n - sample;
    return sample;
  }
  for (int32_t i = 0; i < n; i++) {
    rest += c->kind->cost(items[i]);
  }
  double wanted = 0.5 * (double)rest * own / speeds;
  while (count < n && (count % enough != 0 || (double)share < wanted)) { /* whole batches */
    share += c->kind->cost(items[count++]);
  }
  return is_left_to_others(lane, share, rest) ? 0 : count;
}

/* What a share has shown of its device's speed, if all of it was done. The first one is no measure. A later one that
 * compiles once more, or shares its processor, counts half. */
static void measure(const tsr_lane *lane, void *const *items, int32_t n)
{
  tsr_shown *shown = shown_by(lane);
  double seconds = tsr_seconds() - lane->since;
  double speed = (double)lane->cost / (seconds > 1e-6 ? seconds : 1e-6);
  for (int32_t i = 0; i < n; i++) {
    if (lane->cost == 0 || !lane->call->kind->is_done(items[i])) {
      return;
    }
  }
  if (shown->n_shares++ > 0) {
    shown->speed = speed > shown->speed ? speed : 0.5 * (speed + shown->speed);
  }
}

/* ---- a lane; with the lock, which is given up meanwhile ---------------------------------------------------------- */

/* Until another lane has ended its share, or is late. */
static void wait_a_little(tsr_translator *t)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 20000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&t->changed, &t->lock, &until);
}

/* Waits until the seat is free of other calls, which have it in turns, or there is nothing to take any more. */
static void wait_for_turn(const tsr_lane *lane)
{
  tsr_call *c = lane->call;
  tsr_seat *seat = lane->seat;
  seat->n_wanting++;
  seat->n_holders++; /* its own threads begin nothing */
  while (c->t->n_seats > 1 && !seat->is_dead && c->kind->gather(c, NULL) > 0) {
    int32_t others_want = seat->n_wanting > 1 || seat->n_holders > seat->n_wanting;
    if (tsr_seat_is_free(seat) && !(others_want && seat->last_lane == lane)) {
      break;
    }
    wait_a_little(c->t);
    c->kind->obey(c);
  }
  seat->n_wanting--;
  seat->n_holders--;
  pthread_cond_broadcast(&c->t->changed);
}

/* Does items [n] on the lane's seat. */
static void do_share(tsr_lane *lane, void *const *items, int32_t n)
{
  tsr_call *c = lane->call;
  for (int32_t i = 0; i < n; i++) {
    lane->cost += c->kind->cost(items[i]);
  }
  lane->since = tsr_seconds();
  lane->has_taken = 1;
  c->since = c->n_busy++ == 0 ? lane->since : c->since;
  c->kind->run(lane, items, n);
  if (--c->n_busy == 0 && c->kind->number == TSR_CALL_OF_TEXTS) {
    c->t->statistics.search_seconds += tsr_seconds() - c->since;
  }
  measure(lane, items, n);
  lane->cost = 0;
}

/* Takes a share, if there is still one, and does it. */
static void take_once(tsr_lane *lane, void **items)
{
  tsr_call *c = lane->call;
  tsr_seat *held;
  int32_t first = 0;
  wait_for_turn(lane);
  if (lane->seat->is_dead || c->kind->gather(c, NULL) == 0) {
    pthread_cond_broadcast(&c->t->more); /* the seat's own threads may go on */
    return;
  }
  if (tsr_seat_hold(c->t, lane->seat, &held) != TSR_OK) {
    lane->is_out = 1;
    return;
  }
  int32_t n = c->kind->gather(c, items), count = n > 0 ? choose(lane, items, n, &first) : 0;
  if (count > 0) {
    do_share(lane, items + first, count);
  }
  held->last_lane = lane;
  lane->is_out |= held->is_dead;
  tsr_seat_release(c->t, held);
}

static void run_lane(tsr_lane *lane)
{
  tsr_call *c = lane->call;
  void **items = malloc(((size_t)c->n_items + 1) * sizeof(void *));
  int32_t first;
  if (!items) {
    c->kind->give_up(c, tsr_fail_memory(((size_t)c->n_items + 1) * sizeof(void *)));
  }
  while (items && !lane->is_out && !lane->seat->is_dead) {
    int32_t n = c->kind->gather(c, items);
    if (n > 0) {
      c->kind->obey(c);
      n = c->kind->gather(c, items);
    }
    if (n == 0 && c->n_busy == 0) {
      break;
    }
    if (n > 0 && lane->seat->failure == TSR_OK && choose(lane, items, n, &first) > 0) {
      take_once(lane, items);
    } else {
      wait_a_little(c->t);
    }
  }
  lane->is_out = 1;
  tsr_shown *shown = shown_by(lane);
  shown->n_left = lane->has_taken ? 0 : shown->n_left + 1;
  if (shown->n_left == PATIENCE) { /* it may have been a stall that made it look slow */
    *shown = (tsr_shown){.n_shares = 1};
  }
  free(items);
}

static void *run_thread(void *lane)
{
  tsr_translator *t = ((tsr_lane *)lane)->call->t;
  pthread_mutex_lock(&t->lock);
  run_lane(lane);
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

/* ---- a device that fails; with the lock -------------------------------------------------------------------------- */

/* A device that was asked for is not given up because it lacks memory for a share. */
static int32_t is_replaced(const tsr_lane *lane, tsr_status status)
{
  return tsr_is_of_device(status) && (lane->seat->is_auto || status != TSR_ERR_DEVICE_MEMORY);
}

int32_t tsr_lane_has_heir(tsr_lane *lane, tsr_status status)
{
  const tsr_call *c = lane->call;
  if (is_replaced(lane, status)) {
    return 1;
  }
  for (int32_t i = 0; i < c->n_lanes && status == TSR_ERR_DEVICE_MEMORY; i++) {
    if (&c->lanes[i] != lane && !c->lanes[i].is_out) {
      lane->is_out = 1; /* at once, lest two lanes leave their shares to each other */
    }
  }
  return lane->is_out;
}

void tsr_lane_hand_on(tsr_lane *lane, tsr_status status, char *why)
{
  tsr_translator *t = lane->call->t;
  lane->cost = 0;
  if (is_replaced(lane, status)) {
    lane->seat->failure = status;
    lane->seat->message = why;
    pthread_cond_broadcast(&t->changed);
    tsr_seat_replace(t, lane->seat, &lane->call->answers);
    return;
  }
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
  tsr_log(TSR_LOG_WARNING, "%s; other devices go on with its share", why ? why : tsr_status_name(status));
  pthread_mutex_lock(&t->lock);
  free(why);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Of a device that is not being replaced; 0 of one that is. */
static int32_t type_of(const tsr_seat *seat)
{
  return seat->is_dead || seat->failure != TSR_OK ? 0 : tsr_device_get_properties(seat->device)->type;
}

/* 1 if a device computes on the host's processors, and another one is made for that: side by side, this one would take
 * processors away from the better one. */
static int32_t is_spare(const tsr_translator *t, const tsr_seat *seat)
{
  int32_t type = type_of(seat), n_better = 0;
  for (int32_t i = 0; i < t->n_seats; i++) {
    n_better += type_of(&t->seats[i]) == TSR_DEVICE_CPU;
  }
  return n_better > 0 && (type == TSR_DEVICE_SOFTWARE_GPU || type == TSR_DEVICE_REFERENCE);
}

/* A lane for each device that works. The lock is given up meanwhile if there is something to tell. */
static void make_lanes(tsr_call *c)
{
  tsr_translator *t = c->t;
  char spare[64] = "";
  c->n_lanes = 0;
  for (int32_t i = 0; i < t->n_seats; i++) {
    tsr_seat *seat = &t->seats[i];
    if (is_spare(t, seat)) {
      snprintf(spare, sizeof spare, "%s", tsr_device_name(seat->device));
    } else if (!seat->is_dead) {
      c->lanes[c->n_lanes++] = (tsr_lane){.call = c, .seat = seat};
    }
  }
  if (spare[0] && !t->has_told) {
    t->has_told = 1;
    pthread_mutex_unlock(&t->lock);
    tsr_log(TSR_LOG_WARNING,
            "%s computes on the CPU, as a backend does that is made for it: it is used if that one fails", spare);
    pthread_mutex_lock(&t->lock);
  }
}

/* The first lane is the calling thread's. Without a thread for one of the others, the rest does its work. */
static void run_lanes(tsr_call *c)
{
  tsr_translator *t = c->t;
  pthread_t threads[TSR_MAX_SEATS];
  int32_t n_threads = 1;
  while (n_threads < c->n_lanes && pthread_create(&threads[n_threads], NULL, run_thread, &c->lanes[n_threads]) == 0) {
    n_threads++;
  }
  for (int32_t i = n_threads; i < c->n_lanes; i++) {
    c->lanes[i].is_out = 1;
  }
  run_lane(&c->lanes[0]);
  pthread_mutex_unlock(&t->lock);
  for (int32_t i = 1; i < n_threads; i++) {
    pthread_join(threads[i], NULL);
  }
  pthread_mutex_lock(&t->lock);
}

void tsr_lanes_run(tsr_call *c)
{
  tsr_translator *t = c->t;
  while (c->kind->gather(c, NULL) > 0) {
    make_lanes(c);
    if (c->n_lanes == 0) {
      tsr_seat *none;
      c->kind->give_up(c, tsr_seat_hold(t, NULL, &none)); /* which says why there is none */
      continue;
    }
    run_lanes(c);
    int32_t n_threads = 0;
    for (int32_t i = 0; i < c->n_lanes; i++) {
      n_threads += c->lanes[i].has_taken ? c->lanes[i].seat->n_threads : 0;
    }
    if (n_threads > 0 && c->kind->number == TSR_CALL_OF_TEXTS) {
      t->statistics.search_threads = n_threads;
    }
  }
}
