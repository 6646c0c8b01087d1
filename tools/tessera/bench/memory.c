/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that measures how fast memory is read, by the means that are best for that: large pages, where the system
 * gives them on request, several places at a time, and prefetching.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)0)
#endif

enum {
  LINE = 8,            /* words of a cache line */
  STREAMS = 4,         /* places that a thread reads at the same time */
  AHEAD = 32 * LINE,   /* words from a place to where it prefetches */
  PAGE_SIZE = 2 << 20, /* bytes of a large page */
};

typedef struct stretch {
  const uint64_t *words;
  size_t n; /* a multiple of STREAMS * LINE */
  uint64_t sum;
} stretch;

/* As many sums as words in a line, so that no addition waits for the one before it. */
static void *read_stretch(void *argument)
{
  stretch *s = argument;
  uint64_t sums[LINE] = {0};
  size_t part = s->n / STREAMS;
  for (size_t i = 0; i < part; i += LINE) {
    for (size_t k = 0; k < STREAMS; k++) {
      const uint64_t *line = s->words + k * part + i;
      PREFETCH(line + AHEAD);
      for (size_t j = 0; j < LINE; j++) {
        sums[j] += line[j];
      }
    }
  }
  for (size_t j = 0; j < LINE; j++) {
    s->sum += sums[j];
  }
  return NULL;
}

/* All of the words with `threads` threads. Returns the seconds, or a negative number. */
static double read_words(const uint64_t *words, size_t n, int32_t threads)
{
  stretch *parts = calloc((size_t)threads, sizeof *parts);
  pthread_t *handles = calloc((size_t)threads, sizeof *handles);
  size_t share = n / (size_t)threads / (STREAMS * LINE) * (STREAMS * LINE);
  double start = tsr_cli_seconds(), seconds = -1.0;
  int32_t started = 0;
  if (parts && handles) {
    for (; started < threads; started++) {
      parts[started] = (stretch){.words = words + (size_t)started * share, .n = share};
      if (pthread_create(&handles[started], NULL, read_stretch, &parts[started]) != 0) {
        break;
      }
    }
    uint64_t sum = 0;
    for (int32_t i = 0; i < started; i++) {
      pthread_join(handles[i], NULL);
      sum += parts[i].sum;
    }
    seconds = started == threads ? tsr_cli_seconds() - start : -1.0;
    /* Of all ones; and so the reading cannot be left out. */
    seconds = sum == (uint64_t)started * share ? seconds : -1.0;
  }
  free(parts);
  free(handles);
  return seconds;
}

int bench_memory_body(const void *task)
{
  const bench_memory_task *wanted = task;
  size_t n = (size_t)wanted->bytes / sizeof(uint64_t), size = (n + AHEAD + LINE) * sizeof(uint64_t) + PAGE_SIZE;
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return tsr_cli_no_memory();
  }
#if defined(MADV_HUGEPAGE)
  madvise(memory, size, MADV_HUGEPAGE); /* a hint: without it the reading is slower, not wrong */
#endif
  /* From the first large page on. */
  uint64_t *words = (uint64_t *)(((uintptr_t)memory + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE);
  for (size_t i = 0; i < n; i++) {
    words[i] = 1;
  }
  for (int32_t threads; bench_next(&threads);) {
    double seconds = read_words(words, n, threads);
    bench_reply(&seconds, sizeof seconds);
  }
  munmap(memory, size);
  return TSR_EXIT_OK;
}
