/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults that are planted: CARD_FAULT is a list such as allocate:7,lost:12. Calls are counted per process, from 1 on.
 * With lost~400, calls are drawn by CARD_SEED and their number, one in 400.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/card/card.h"

enum { MAX_PLANTED = 16 };

typedef struct planted_fault {
  card_fault fault;
  uint64_t at;  /* this call; a size */
  int is_drawn; /* 1: one call in `at` */
} planted_fault;

static const struct {
  const char *name;
  VkResult result;
} kinds[CARD_N_FAULTS] = {
    [CARD_ALLOCATE] = {"allocate", VK_ERROR_OUT_OF_DEVICE_MEMORY},
    [CARD_ALLOCATE_ABOVE] = {"allocate-above", VK_ERROR_OUT_OF_DEVICE_MEMORY},
    [CARD_MAP] = {"map", VK_ERROR_MEMORY_MAP_FAILED},
    [CARD_BUFFER] = {"buffer", VK_ERROR_OUT_OF_DEVICE_MEMORY},
    [CARD_BIND] = {"bind", VK_ERROR_OUT_OF_DEVICE_MEMORY},
    [CARD_PIPELINE] = {"pipeline", VK_ERROR_UNKNOWN},
    [CARD_COMMANDS] = {"commands", VK_ERROR_OUT_OF_DEVICE_MEMORY},
    [CARD_DESCRIPTORS] = {"descriptors", VK_ERROR_FRAGMENTED_POOL},
    [CARD_DEVICE] = {"device", VK_ERROR_INITIALIZATION_FAILED},
    [CARD_SUBMIT] = {"submit", VK_ERROR_OUT_OF_DEVICE_MEMORY},
    [CARD_LOST] = {"lost", VK_ERROR_DEVICE_LOST},
    [CARD_LOST_IN_WAIT] = {"lost-in-wait", VK_ERROR_DEVICE_LOST},
    [CARD_WAIT_TIMEOUT] = {"wait-timeout", VK_TIMEOUT},
    [CARD_HOST_MEMORY] = {"host-memory", VK_ERROR_OUT_OF_HOST_MEMORY},
};

static planted_fault planted[MAX_PLANTED];
static int n_planted;
static uint64_t seed;
static atomic_ullong counts[CARD_N_FAULTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

const char *card_fault_name(card_fault fault)
{
  return kinds[fault].name;
}

static void plant(const char *text, size_t length)
{
  size_t named = strcspn(text, ":~,");
  if (named >= length || n_planted == MAX_PLANTED) {
    card_breach("CARD_FAULT: '%.*s': expected KIND:NUMBER or KIND~NUMBER, at most %d of them", (int)length, text,
                MAX_PLANTED);
  }
  int kind = 0;
  while (kind < CARD_N_FAULTS && (strlen(kinds[kind].name) != named || strncmp(kinds[kind].name, text, named) != 0)) {
    kind++;
  }
  if (kind == CARD_N_FAULTS) {
    card_breach("CARD_FAULT: there is no fault '%.*s'", (int)named, text);
  }
  char *end;
  unsigned long long at = strtoull(text + named + 1, &end, 10);
  const char *units = "KMG";
  const char *unit = *end && *end != ',' ? strchr(units, *end) : NULL;
  if (unit) {
    at <<= 10 * (unit - units + 1);
    end++;
  }
  if (at == 0 || end != text + length) {
    card_breach("CARD_FAULT: '%.*s': expected a number above 0", (int)length, text);
  }
  planted[n_planted++] = (planted_fault){.fault = (card_fault)kind, .at = at, .is_drawn = text[named] == '~'};
}

static void read_faults(void)
{
  const char *text = getenv("CARD_FAULT"), *given = getenv("CARD_SEED");
  seed = given ? strtoull(given, NULL, 0) : 1;
  while (text && *text) {
    size_t length = strcspn(text, ",");
    plant(text, length);
    text += length + (text[length] == ',');
  }
}

/* Whether one call in n, drawn by its number, is this one: the bits of a SplitMix64. */
static int is_drawn(card_fault fault, uint64_t number, uint64_t n)
{
  uint64_t bits = seed + (number * CARD_N_FAULTS + (uint64_t)fault) * 0x9E3779B97F4A7C15u;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
  return (bits ^ bits >> 31) % n == 0;
}

/* Counts; 1: this call is to fail. */
static int is_due(card_fault fault)
{
  pthread_once(&once, read_faults);
  uint64_t number = atomic_fetch_add(&counts[fault], 1) + 1;
  for (int i = 0; i < n_planted; i++) {
    const planted_fault *p = &planted[i];
    if (p->fault == fault && (p->is_drawn ? is_drawn(fault, number, p->at) : p->at == number)) {
      return 1;
    }
  }
  return 0;
}

VkResult card_count_creation(void)
{
  return is_due(CARD_HOST_MEMORY) ? kinds[CARD_HOST_MEMORY].result : VK_SUCCESS;
}

VkResult card_count(card_fault fault)
{
  int due = is_due(fault);
  int creates = fault <= CARD_DEVICE;
  VkResult creation = creates ? card_count_creation() : VK_SUCCESS;
  return due ? kinds[fault].result : creation;
}

int card_allocation_is_too_large(uint64_t size)
{
  pthread_once(&once, read_faults);
  for (int i = 0; i < n_planted; i++) {
    if (planted[i].fault == CARD_ALLOCATE_ABOVE && size > planted[i].at) {
      return 1;
    }
  }
  return 0;
}

uint64_t card_calls(card_fault fault)
{
  return atomic_load(&counts[fault]);
}
