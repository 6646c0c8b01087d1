/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/metrics.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double bounds[METRICS_BOUNDS] = {0.002, 0.005, 0.01, 0.02, 0.05, 0.1,  0.2,
                                              0.5,   1.0,   2.0,  5.0,  10.0, 30.0, 60.0};

void histogram_note(histogram *h, double seconds)
{
  int at = 0;
  while (at < METRICS_BOUNDS && seconds > bounds[at]) {
    at++;
  }
  atomic_fetch_add(&h->counts[at], 1);
  atomic_fetch_add(&h->microseconds, (long long)(seconds * 1e6));
}

/* Room for so many bytes more. Returns 0 if memory ran out, once or before. */
static int make_room(text_buffer *b, size_t size)
{
  if (b->size + size > b->room && !b->has_failed) {
    char *grown = realloc(b->bytes, 2 * (b->size + size));
    b->has_failed = !grown;
    b->bytes = grown ? grown : b->bytes;
    b->room = grown ? 2 * (b->size + size) : b->room;
  }
  return !b->has_failed;
}

void text_add_bytes(text_buffer *b, const char *bytes, size_t size)
{
  if (make_room(b, size)) {
    memcpy(b->bytes + b->size, bytes, size);
    b->size += size;
  }
}

void text_add(text_buffer *b, const char *format, ...)
{
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int wanted = vsnprintf(NULL, 0, format, arguments);
  if (wanted >= 0 && make_room(b, (size_t)wanted + 1)) {
    vsnprintf(b->bytes + b->size, b->room - b->size, format, again);
    b->size += (size_t)wanted;
  }
  va_end(again);
  va_end(arguments);
}

void histogram_print(text_buffer *b, const char *name, const char *labels, histogram *h)
{
  long long sum = 0;
  const char *comma = labels[0] ? "," : "";
  for (int i = 0; i <= METRICS_BOUNDS; i++) {
    sum += atomic_load(&h->counts[i]);
    if (i < METRICS_BOUNDS) {
      text_add(b, "%s_bucket{%s%sle=\"%g\"} %lld\n", name, labels, comma, bounds[i], sum);
    } else {
      text_add(b, "%s_bucket{%s%sle=\"+Inf\"} %lld\n", name, labels, comma, sum);
    }
  }
  const char *open = labels[0] ? "{" : "", *close = labels[0] ? "}" : "";
  text_add(b, "%s_sum%s%s%s %.6f\n", name, open, labels, close, 1e-6 * (double)atomic_load(&h->microseconds));
  text_add(b, "%s_count%s%s%s %lld\n", name, open, labels, close, sum);
}
