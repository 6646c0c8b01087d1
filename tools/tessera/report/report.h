/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of tessera report share. A report is JSON from the beginning (schema.json); the page is made of it.
 * Functions that return int return exit codes, as in message.h.
 */
#ifndef TESSERA_TOOLS_REPORT_H
#define TESSERA_TOOLS_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include "tools/tessera/common/json.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/report/process.h"

enum { REPORT_FORMAT = 1, REPORT_PATH = 4096 };

/* `tessera report compare`. */
extern const tsr_command report_compare;

/* What the command line asks for. */
typedef struct report_request {
  tsr_names devices;
  double minutes;
  const char *out, *json;
  const char *model, *source, *reference, *recorded;
  const char *note;
  const char *ops; /* of the conformance suite; NULL: all */
  unsigned parts;  /* bits by the number of the part; 0: all */
  int no_tuning;
  int64_t seed;
} report_request;

/* What was found of models and texts; "": nothing. */
typedef struct report_files {
  char model[REPORT_PATH];
  char source[REPORT_PATH], reference[REPORT_PATH]; /* sentences and their translations */
  char recorded[REPORT_PATH];                       /* a folder of recordings */
  char work[REPORT_PATH];                           /* for temporary files */
  int has_cpu;                                      /* 1: other devices are put beside it, not beside the reference */
} report_files;

int report_files_find(const report_request *request, report_files *files);
void report_files_finish(report_files *files);

/* Writes the first n lines of a file into a new one of the work folder. Returns how many there were; 0: an error. */
int32_t report_files_cut(const report_files *files, const char *path, const char *name, int32_t n, char *cut);

/* ------------------------------------------------------------------------------------------------------------------
 * Parts
 */
/* How a part ended, the worse the higher. */
enum { REPORT_PASSED, REPORT_LEFT_OUT, REPORT_INCOMPLETE, REPORT_ERROR, REPORT_FAILED, REPORT_STATES };
extern const char *const report_states[REPORT_STATES];

/* The number of a state's name; REPORT_STATES: of no state. */
int report_state_of(const char *name);

/* A part on a device while it runs. */
typedef struct report_run {
  const report_request *request;
  const report_files *files;
  const char *device;  /* "vulkan:0" */
  const json_t *about; /* the device's object */
  double end;          /* of the part's time, by tsr_cli_seconds */
  double grace;        /* seconds after it until a process that ends by itself is ended */
  int state;
  json_t *part; /* its object: what it finds goes into "results" */
} report_run;

typedef struct report_part {
  const char *name;  /* "conformance" */
  const char *title; /* for the page */
  double weight;     /* of the time */
  void (*run)(report_run *run, json_t *results);
} report_part;

enum { REPORT_PARTS = 9 };
extern const report_part report_parts[REPORT_PARTS + 1];
const report_part *report_part_of(const char *name); /* NULL: there is none */

void report_conformance(report_run *run, json_t *results);
void report_forms(report_run *run, json_t *results);
void report_models(report_run *run, json_t *results);
void report_bleu(report_run *run, json_t *results);
void report_tuning(report_run *run, json_t *results);
void report_operators(report_run *run, json_t *results);
void report_speed(report_run *run, json_t *results);
void report_start(report_run *run, json_t *results);
void report_training(report_run *run, json_t *results);

/* Runs all parts that are asked for on a device, whose object gets "parts", "seconds" and a verdict. */
int report_device_run(const report_request *request, const report_files *files, json_t *device);

/* For parts: */

double report_left(const report_run *run); /* seconds */

/* Runs this program; `what` names it where it fails: then the part has an error, or says that its time was over.
 * Returns the JSON values that it printed, an array, which the caller releases. seconds may be NULL. */
json_t *report_step(report_run *run, const char *what, const report_words *words, double *seconds);

/* Notes what there was no time for, an error, why all is left out. */
void report_note_cut(report_run *run, const char *what);
void report_note_error(report_run *run, const char *what, const char *message);
void report_leave_out(report_run *run, const char *reason);
void report_worsen(report_run *run, int state);

/* Appends a copy of the object with only these members (names, then NULL) to an array within results. */
void report_keep(json_t *results, const char *array, const json_t *object, ...);

/* ------------------------------------------------------------------------------------------------------------------
 * All of it
 */
/* Devices and what did not work, from processes of their own: {"devices", "problems"}. */
int report_find(const report_request *request, report_files *files, json_t *report);

/* Name and version of the system, its processors and memory. */
json_t *report_system(void);

/* A sentence about a part, or about a device; writes into text and returns it. */
enum { REPORT_SENTENCE = 512 };
char *report_words_of_part(const json_t *part, char *text);
char *report_words_of_device(const json_t *device, char *text);

int report_read(const char *path, json_t **report);

/* ------------------------------------------------------------------------------------------------------------------
 * The page
 */
int report_write_page(const json_t *report, const char *path);
int report_write_comparison(const json_t *table, const char *path);

/* The part of the page about a device's part. */
void report_section(FILE *out, const json_t *part);

/* A row of a chart: what, its value in words, a bar of `share` (0 to 1) in a class of report.css. */
void report_bar(FILE *out, const char *what, const char *value, double share, const char *class);

/* For numbers from JSON: 0 and "" where there is none. */
double report_number(const json_t *object, const char *name);
const char *report_text(const json_t *object, const char *name);

#endif
