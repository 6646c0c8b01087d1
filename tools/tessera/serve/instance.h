/* SPDX-License-Identifier: Apache-2.0
 *
 * A translator or transcriber that is open for a model, on the devices that were asked for or on others.
 */
#ifndef TESSERA_SERVE_INSTANCE_H
#define TESSERA_SERVE_INSTANCE_H

#include <stdatomic.h>

#include "tessera/transcriber.h"
#include "tools/tessera/serve/models.h"
#include "tools/tessera/text/search_options.h"

enum { DEVICE_NAME_ROOM = 64 };

/* `references`: one of its model, one of each text that it has in hand. */
struct instance {
  models *models;
  model *model;                /* NULL: it is no model's any more; with the lock of models.c */
  instance *next;              /* of those to be closed; likewise the next */
  instance *looked_at;         /* of those that are looked at now */
  char lost[DEVICE_NAME_ROOM]; /* its model's, when it was looked at last */
  const serve_settings *settings;
  int32_t hears;
  tsr_translator *translator; /* or, of a model of speech, the next */
  tsr_transcriber *transcriber;
  tsr_generate_options search;
  search_lists lists;
  atomic_int references;
  atomic_int is_lost;       /* its devices failed */
  atomic_int has_lost;      /* one of them did, and another took its place; or it was opened on others than asked for */
  atomic_int has_restarted; /* texts began anew: perhaps for a device that failed */
  int64_t bytes;
  /* Of hearing.c. */
  pthread_t thread;
  int has_thread;
  int is_stopping; /* with the lock of models.c */
  void *run;
  atomic_llong device_bytes; /* of the device's memory, when its thread looked last */
};

/* On which devices to open a translator. */
enum {
  INSTANCE_ASKED,     /* those that were asked for */
  INSTANCE_SOMEWHERE, /* those of them that there are, else the CPU */
  INSTANCE_OTHERS     /* the CPU, for those that were asked for have just failed */
};

/* *made is the caller's until instance_free. Without the lock of the models, to which the model belongs. */
tsr_status instance_open(models *m, const model *of, const serve_settings *settings, tsr_runtime *runtime, int where,
                         instance **made);
void instance_free(instance *by); /* takes NULL */

/* 1 if a status is the fault of the device. */
int instance_is_about_device(tsr_status status);

/* The name of the device that failed last and gave its place to another one; "" if none did. Returns 1 if one of the
 * translator's devices failed. */
int instance_failed_device(instance *by, char name[DEVICE_NAME_ROOM]);

/* Of a transcriber that nobody uses: how much of its device's memory is held. */
void instance_note_bytes(instance *by);

/* 1 if it computes on the device. */
int instance_uses(instance *by, const char *name);

#endif
