/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices that translators compute on, for whoever looks after the server.
 */
#ifndef TESSERA_SERVE_DEVICES_H
#define TESSERA_SERVE_DEVICES_H

#include <jansson.h>

#include "tools/tessera/serve/metrics.h"
#include "tools/tessera/serve/models.h"

enum { MOST_DEVICES = 32 };

struct device_list {
  int32_t n;
  struct device_state {
    char name[64];
    const char *kind; /* "discrete GPU"; "": unknown */
    int64_t bytes;    /* of its memory, that all translators hold */
    int32_t models;   /* that are computed on it */
    int32_t is_lost;
  } items[MOST_DEVICES];
};

/* Adds an instance's devices. */
void devices_note(device_list *list, const instance *by);

/* Adds those that a translator goes on without, behind all that work: the one of this name, or where it is "" those
 * that were asked for. */
void devices_note_lost(device_list *list, const char *name, const serve_settings *settings);

/* An array of objects. */
json_t *devices_json(const device_list *list);

/* Metrics with a label for each device. */
void devices_print(text_buffer *b, const device_list *list);

#endif
