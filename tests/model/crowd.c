/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/crowd.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tessera/runtime.h"
#include "tools/random/random.h"

uint64_t draw_seed(void)
{
  const char *wanted = getenv("TESSERA_SEED");
  uint64_t seed = wanted ? strtoull(wanted, NULL, 0) : (uint64_t)time(NULL);
  printf("TESSERA_SEED=%llu\n", (unsigned long long)seed);
  return seed;
}

int has_device(const char *name)
{
  tsr_runtime *runtime;
  tsr_device_info info;
  size_t size = strlen(name);
  int found = 0;
  assert_int_equal(tsr_runtime_create(NULL, &runtime), TSR_OK);
  for (int32_t i = 0; i < tsr_runtime_device_count(runtime); i++) {
    assert_int_equal(tsr_runtime_device_info(runtime, i, &info), TSR_OK);
    found |= strncmp(info.name, name, size) == 0 && (!info.name[size] || strcmp(info.name + size, ":0") == 0);
  }
  tsr_runtime_destroy(runtime);
  if (!found) {
    printf("skipped: there is no device %s\n", name);
  }
  return found;
}

char *path_in_tree(const char *name)
{
  const char *root = getenv("SOURCE_ROOT");
  assert_non_null(root);
  size_t room = strlen(root) + strlen(name) + 2;
  char *path = malloc(room);
  assert_non_null(path);
  snprintf(path, room, "%s/%s", root, name);
  return path;
}

char **read_test_sentences(int32_t n)
{
  char *path = path_in_tree("tests/data/tatoeba/test.en"), *line = NULL;
  size_t room = 0;
  FILE *file = fopen(path, "r");
  char **sentences = calloc((size_t)n, sizeof *sentences);
  assert_non_null(file);
  assert_non_null(sentences);
  for (int32_t i = 0; i < n; i++) {
    assert_true(getline(&line, &room, file) > 0);
    line[strcspn(line, "\n")] = '\0';
    sentences[i] = strdup(line);
  }
  free(line);
  free(path);
  fclose(file);
  return sentences;
}

void free_test_sentences(char **sentences, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    free(sentences[i]);
  }
  free(sentences);
}

typedef struct crowd {
  int32_t n;
  int32_t *order; /* [n] */
  atomic_int next;
  void (*ask)(void *user, int32_t i);
  void *user;
} crowd;

static void *ask_in_turn(void *of)
{
  crowd *c = of;
  for (int32_t at; (at = atomic_fetch_add(&c->next, 1)) < c->n;) {
    c->ask(c->user, c->order[at]);
  }
  return NULL;
}

void ask_in_a_crowd(int32_t n, uint64_t *seed, void (*ask)(void *user, int32_t i), void *user)
{
  pthread_t threads[CROWD];
  crowd c = {.n = n, .order = malloc((size_t)n * sizeof *c.order), .ask = ask, .user = user};
  assert_non_null(c.order);
  for (int32_t i = 0; i < n; i++) {
    int32_t at = tsr_random_below(seed, i + 1);
    c.order[i] = c.order[at];
    c.order[at] = i;
  }
  for (int32_t i = 0; i < CROWD; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, ask_in_turn, &c), 0);
  }
  for (int32_t i = 0; i < CROWD; i++) {
    pthread_join(threads[i], NULL);
  }
  free(c.order);
}
