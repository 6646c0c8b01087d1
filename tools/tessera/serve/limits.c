/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/limits.h"

#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two buckets that fill steadily: full, they hold what a minute brings. */
typedef struct bucket {
  struct bucket *next;
  double when; /* they were as full as this */
  double requests;
  double characters;
  char name[LIMITS_NAME_ROOM];
} bucket;

enum { ROWS = 4096 };

struct limits {
  pthread_mutex_t lock;
  bucket *rows[ROWS];
  double swept;
};

limits *limits_create(void)
{
  limits *l = calloc(1, sizeof *l);
  if (l) {
    pthread_mutex_init(&l->lock, NULL);
  }
  return l;
}

void limits_destroy(limits *l)
{
  for (int i = 0; l && i < ROWS; i++) {
    for (bucket *b = l->rows[i]; b;) {
      bucket *next = b->next;
      free(b);
      b = next;
    }
  }
  if (l) {
    pthread_mutex_destroy(&l->lock);
  }
  free(l);
}

void limits_name_address(const char *address, char name[LIMITS_NAME_ROOM])
{
  unsigned char bytes[16];
  static const unsigned char mapped[12] = {[10] = 0xff, 0xff}; /* IPv4 within IPv6 */
  if (inet_pton(AF_INET6, address, bytes) == 1 && memcmp(bytes, mapped, sizeof mapped) == 0) {
    snprintf(name, LIMITS_NAME_ROOM, "address %d.%d.%d.%d", bytes[12], bytes[13], bytes[14], bytes[15]);
  } else if (inet_pton(AF_INET6, address, bytes) == 1) {
    char text[INET6_ADDRSTRLEN] = "";
    memset(bytes + 8, 0, 8);
    inet_ntop(AF_INET6, bytes, text, sizeof text);
    snprintf(name, LIMITS_NAME_ROOM, "address %s", text);
  } else {
    snprintf(name, LIMITS_NAME_ROOM, "address %.60s", address);
  }
}

static bucket **row_of(limits *l, const char *name)
{
  uint32_t hash = 2166136261u;
  for (; *name; name++) {
    hash = (hash ^ (unsigned char)*name) * 16777619u;
  }
  return &l->rows[hash % ROWS];
}

/* Who has not come for a minute has full buckets, as who never came. */
static void sweep(limits *l, double now)
{
  if (now - l->swept < 60.0) {
    return;
  }
  l->swept = now;
  for (int i = 0; i < ROWS; i++) {
    for (bucket **at = &l->rows[i]; *at;) {
      bucket *b = *at;
      if (now - b->when >= 60.0) {
        *at = b->next;
        free(b);
      } else {
        at = &b->next;
      }
    }
  }
}

static double fill(double level, double most, double seconds)
{
  double filled = level + most / 60.0 * seconds;
  return filled > most ? most : filled;
}

int32_t limits_take(limits *l, const char *name, double now, int64_t most_requests, int64_t most_characters,
                    int64_t characters, char *which)
{
  if (most_requests <= 0 && most_characters <= 0) {
    return 0;
  }
  double most_r = (double)most_requests, most_c = (double)most_characters, wait = 0.0;
  pthread_mutex_lock(&l->lock);
  sweep(l, now);
  bucket **row = row_of(l, name), *b = *row;
  while (b && strcmp(b->name, name) != 0) {
    b = b->next;
  }
  if (!b && (b = malloc(sizeof *b)) != NULL) {
    *b = (bucket){.next = *row, .when = now, .requests = most_r, .characters = most_c};
    snprintf(b->name, sizeof b->name, "%s", name);
    *row = b;
  }
  if (b) {
    b->requests = fill(b->requests, most_r, now - b->when);
    b->characters = fill(b->characters, most_c, now - b->when);
    b->when = now;
    /* One text that is longer than a minute's worth takes all of it. */
    double cost = (double)characters > most_c ? most_c : (double)characters;
    if (most_requests > 0 && b->requests < 1.0) {
      wait = (1.0 - b->requests) * 60.0 / most_r;
      *which = 'r';
    } else if (most_characters > 0 && b->characters < cost) {
      wait = (cost - b->characters) * 60.0 / most_c;
      *which = 'c';
    } else {
      b->requests -= 1.0;
      b->characters -= cost;
    }
  }
  pthread_mutex_unlock(&l->lock);
  return (int32_t)ceil(wait);
}
