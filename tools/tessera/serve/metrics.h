/* SPDX-License-Identifier: Apache-2.0
 *
 * What the server did, in the text format of Prometheus.
 */
#ifndef TESSERA_SERVE_METRICS_H
#define TESSERA_SERVE_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera/status.h"

enum { METRICS_ENDPOINTS = 32, METRICS_BOUNDS = 14 };

/* How long something took: how often up to each bound. */
typedef struct histogram {
  atomic_llong counts[METRICS_BOUNDS + 1];
  atomic_llong microseconds;
} histogram;

typedef struct endpoint_metrics {
  atomic_llong statuses[6]; /* by the hundreds; 0: the client had left */
  histogram seconds;
} endpoint_metrics;

typedef struct metrics {
  endpoint_metrics endpoints[METRICS_ENDPOINTS];
  atomic_llong characters;
  atomic_llong queue_full;
  atomic_llong late;
  atomic_llong gone;
  atomic_llong slowed; /* by limits */
} metrics;

void histogram_note(histogram *h, double seconds);

/* A text that grows. */
typedef struct text_buffer {
  char *bytes;
  size_t size, room;
  int has_failed; /* memory ran out */
} text_buffer;
void text_add(text_buffer *b, const char *format, ...) TSR_PRINTF(2, 3);
void text_add_bytes(text_buffer *b, const char *bytes, size_t size);

/* The histogram's lines; labels: `endpoint="/translate"` or "". */
void histogram_print(text_buffer *b, const char *name, const char *labels, histogram *h);

#endif
