/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera tune: finds out which variants of kernels are the fastest on a device, and keeps that for later.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/ops.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/programs/kinds.h"

enum { SEED = 1, CLASS_BYTES = 96, MAX_VARIANTS = 256 };

typedef struct request {
  const char *folder;
  const char *device;
  tsr_integers precisions; /* 0: as stored */
  tsr_integers batches;
  int32_t beam;
  int32_t length;
  int32_t runs;
  double gain; /* percent */
  int dry_run;
  int as_json;
} request;

/* What the lines of one class took, in all programs together. Not every line can take every variant: each variant is
 * held against what the same lines took as the rules choose. */
typedef struct class_times {
  char name[CLASS_BYTES];
  int32_t op;
  const tsr_program *program; /* the first with a line of the class */
  int32_t line;
  int32_t usual;                     /* variant that the rules choose for it */
  uint64_t by_rules;                 /* nanoseconds of all lines */
  uint64_t in_variant[MAX_VARIANTS]; /* of those that took the variant; 0: none did */
  uint64_t otherwise[MAX_VARIANTS];  /* of the same lines, as the rules choose */
} class_times;

typedef struct session {
  const request *options;
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_model *model;
  tsr_transformer *transformer;
  int32_t n_variants;
  tsr_program **programs; /* which classes point to */
  int32_t n_programs;
  class_times *classes;
  int32_t n_classes;
  tsr_cli_progress progress;
} session;

/* ---- one program ------------------------------------------------------------------------------------------------- */

typedef struct program_times {
  const tsr_program *program;
  const tsr_program_size *size;
  int32_t n_lines;
  int32_t *class_of;     /* [n_lines], -1: the line has no variants */
  int32_t *usual;        /* [n_lines]: the variant that the rules choose */
  uint64_t *nanoseconds; /* [n_variants + 1][n_lines]; 0: not executed in this variant */
} program_times;

static uint64_t *times_in(const program_times *t, int32_t variant)
{
  return t->nanoseconds + (size_t)variant * (size_t)t->n_lines;
}

/* The number of the class of that name, which is added if it is new; -1 without memory. */
static int32_t find_class(session *s, const char *name)
{
  int32_t i = 0;
  while (i < s->n_classes && strcmp(s->classes[i].name, name) != 0) {
    i++;
  }
  if (i == s->n_classes) {
    class_times *moved = realloc(s->classes, (size_t)(i + 1) * sizeof *moved);
    if (!moved) {
      return -1;
    }
    s->classes = moved;
    s->classes[i] = (class_times){.line = -1};
    snprintf(s->classes[i].name, sizeof s->classes[i].name, "%s", name);
    s->n_classes++;
  }
  return i;
}

/* The classes of the program's lines, and what the rules choose for these. */
static int list_classes(session *s, program_times *t)
{
  for (int32_t line = 0; line < t->n_lines; line++) {
    char name[CLASS_BYTES];
    t->class_of[line] = -1;
    if (!tsr_device_variant_class(s->device, t->program, line, name, sizeof name)) {
      continue;
    }
    t->class_of[line] = find_class(s, name);
    if (t->class_of[line] < 0) {
      return tsr_cli_no_memory();
    }
    class_times *c = &s->classes[t->class_of[line]];
    if (c->line < 0) {
      /* What an earlier run found is measured anew, against the rules. */
      const int code = tsr_cli_fail(tsr_device_remember_variant(s->device, t->program, line, 0));
      if (code != TSR_EXIT_OK) {
        return code;
      }
      c->op = tsr_line_at(tsr_program_describe(t->program), line)->op;
      c->program = t->program;
      c->line = line;
      c->usual = tsr_device_variant_of(s->device, t->program, line);
    }
    t->usual[line] = tsr_device_variant_of(s->device, t->program, line);
  }
  return TSR_EXIT_OK;
}

/* Keeps the times of the lines that take the variant, which is forced. Returns 1 if one of them is worth more runs. */
static int keep_times(session *s, const program_times *t, int32_t variant, const uint64_t *times)
{
  enum { FAR_BEHIND = 3 }; /* times what the usual variant takes */
  int promising = 0;
  for (int32_t line = 0; line < t->n_lines; line++) {
    if (t->class_of[line] >= 0 && tsr_device_variant_of(s->device, t->program, line) == variant) {
      const uint64_t usual = times_in(t, t->usual[line])[line];
      times_in(t, variant)[line] = times[line] > 0 ? times[line] : 1;
      promising |= usual == 0 || times[line] < FAR_BEHIND * usual;
    }
  }
  return promising;
}

static int is_taken(const session *s, const program_times *t, int32_t variant)
{
  int taken = 0;
  for (int32_t line = 0; line < t->n_lines && !taken; line++) {
    taken = t->class_of[line] >= 0 && tsr_device_variant_of(s->device, t->program, line) == variant;
  }
  return taken;
}

static tsr_status time_variant(session *s, const program_times *t, int32_t variant)
{
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .profile = 1};
  const int32_t n = t->n_lines;
  tsr_executable *executable = NULL;
  uint64_t *times = calloc(2 * (size_t)n + 1, sizeof *times);
  tsr_status status = times ? tsr_cli_compile(s->transformer, t->program, &options, &executable)
                            : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  if (status == TSR_OK) {
    status = tsr_cli_fill(s->model, t->program, t->size, SEED, executable);
  }
  for (int trial = 0; trial < 2 && status == TSR_OK; trial++) { /* the first warms up, too */
    status = tsr_cli_time_lines(executable, n, trial == 0 ? 2 : s->options->runs, times, times + n);
    if (status == TSR_OK && !keep_times(s, t, variant, times)) {
      break;
    }
  }
  tsr_executable_destroy(executable);
  free(times);
  return status;
}

/* The variants in the order in which they are timed: those that the rules choose come first. */
static int time_variants(session *s, const program_times *t)
{
  int code = TSR_EXIT_OK;
  for (int usual = 1; usual >= 0; usual--) {
    for (int32_t variant = 1; variant <= s->n_variants && code == TSR_EXIT_OK; variant++) {
      int is_usual = 0;
      for (int32_t line = 0; line < t->n_lines; line++) {
        is_usual |= t->class_of[line] >= 0 && t->usual[line] == variant;
      }
      if (is_usual == usual) {
        code = tsr_cli_fail(tsr_device_force_variant(s->device, variant));
        if (code == TSR_EXIT_OK && is_taken(s, t, variant)) {
          code = tsr_cli_fail(time_variant(s, t, variant));
        }
      }
    }
  }
  return code == TSR_EXIT_OK ? tsr_cli_fail(tsr_device_force_variant(s->device, 0)) : code;
}

/* Adds what the lines took to their classes. */
static void add_times(session *s, const program_times *t)
{
  for (int32_t line = 0; line < t->n_lines; line++) {
    const uint64_t usual = t->class_of[line] >= 0 ? times_in(t, t->usual[line])[line] : 0;
    if (usual == 0) {
      continue;
    }
    class_times *c = &s->classes[t->class_of[line]];
    c->by_rules += usual;
    for (int32_t variant = 1; variant <= s->n_variants; variant++) {
      const uint64_t taken = times_in(t, variant)[line];
      c->in_variant[variant] += taken;
      c->otherwise[variant] += taken > 0 ? usual : 0;
    }
  }
}

static int tune_program(session *s, int32_t kind, const tsr_program_size *size)
{
  program_times t = {.size = size};
  tsr_program **moved = realloc(s->programs, (size_t)(s->n_programs + 1) * sizeof *moved);
  if (!moved) {
    return tsr_cli_no_memory();
  }
  s->programs = moved;
  int code = tsr_cli_fail(tsr_transformer_program(s->transformer, kind, size, &s->programs[s->n_programs]));
  if (code != TSR_EXIT_OK) {
    return code;
  }
  t.program = s->programs[s->n_programs++];
  t.n_lines = tsr_program_line_count(t.program);
  t.class_of = calloc((size_t)t.n_lines + 1, sizeof *t.class_of);
  t.usual = calloc((size_t)t.n_lines + 1, sizeof *t.usual);
  t.nanoseconds = calloc((size_t)(s->n_variants + 1) * ((size_t)t.n_lines + 1), sizeof *t.nanoseconds);
  code = t.class_of && t.usual && t.nanoseconds ? list_classes(s, &t) : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK) {
    code = time_variants(s, &t);
  }
  if (code == TSR_EXIT_OK) {
    add_times(s, &t);
  }
  free(t.class_of);
  free(t.usual);
  free(t.nanoseconds);
  return code;
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

/* Nanoseconds of the class' lines where those that can take the variant do so, the others what the rules choose. */
static uint64_t total_in(const class_times *c, int32_t variant)
{
  return c->by_rules - c->otherwise[variant] + c->in_variant[variant];
}

/* best: 0: what the rules choose. */
static int report(const session *s, const class_times *c, int32_t best)
{
  const char *usual = tsr_device_variant_name(s->device, c->usual);
  const char *name = best > 0 ? tsr_device_variant_name(s->device, best) : usual;
  if (s->options->as_json) {
    json_t *times = json_object();
    for (int32_t variant = 1; variant <= s->n_variants; variant++) {
      if (c->in_variant[variant] > 0) {
        json_object_set_new(times, tsr_device_variant_name(s->device, variant),
                            json_integer((json_int_t)total_in(c, variant)));
      }
    }
    return tsr_cli_json_print(json_pack("{s:s, s:s, s:s?, s:s?, s:b, s:I, s:o}", "class", c->name, "operator",
                                        tsr_op_describe(c->op)->name, "usual", usual, "best", name, "kept", best > 0,
                                        "by_rules", (json_int_t)c->by_rules, "nanoseconds", times),
                              JSON_COMPACT);
  }
  printf("%-10s %-28s %-24s %10.1f us", tsr_op_describe(c->op)->name, c->name, usual ? usual : "",
         (double)c->by_rules * 1e-3);
  if (best > 0) {
    printf("  -> %-24s %10.1f us", name, (double)total_in(c, best) * 1e-3);
  }
  printf("\n");
  return TSR_EXIT_OK;
}

/* The variant with which the class is the fastest; 0: what the rules choose is nearly as fast. */
static int32_t choose(const session *s, const class_times *c)
{
  int32_t best = 0;
  uint64_t least = c->by_rules;
  for (int32_t variant = 1; variant <= s->n_variants; variant++) {
    if (c->in_variant[variant] > 0 && total_in(c, variant) < least) {
      best = variant;
      least = total_in(c, variant);
    }
  }
  return (double)least < (1.0 - s->options->gain / 100.0) * (double)c->by_rules ? best : 0;
}

/* Reports each class, and has the device take what is better than its rules. */
static int finish_classes(session *s)
{
  int32_t n_kept = 0;
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < s->n_classes && code == TSR_EXIT_OK; i++) {
    const class_times *c = &s->classes[i];
    const int32_t best = choose(s, c);
    n_kept += best > 0;
    code = report(s, c, best);
    if (code == TSR_EXIT_OK && best > 0) {
      code = tsr_cli_fail(tsr_device_remember_variant(s->device, c->program, c->line, best));
    }
  }
  if (code == TSR_EXIT_OK && !s->options->dry_run) {
    code = tsr_cli_fail(tsr_device_save_variants(s->device));
  }
  if (code == TSR_EXIT_OK && !s->options->as_json) {
    printf("%s: %d classes %s another variant than the rules choose\n", tsr_device_name(s->device), (int)n_kept,
           s->options->dry_run ? "would take" : "take");
  }
  return code;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int tune_precision(session *s, tsr_dtype precision)
{
  static const int32_t kinds[] = {TSR_PROGRAM_ENCODE, TSR_PROGRAM_DECODE, TSR_PROGRAM_GREEDY, TSR_PROGRAM_BEAM};
  const tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .weights = precision};
  int code = tsr_cli_fail(tsr_transformer_create(s->model, s->device, &options, &s->transformer));
  for (int32_t i = 0; i < s->options->batches.n && code == TSR_EXIT_OK; i++) {
    tsr_cli_kinds all = {.size = {.batch = s->options->batches.values[i],
                                  .source = s->options->length,
                                  .target = s->options->length,
                                  .beam = s->options->beam}};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
      all.chosen |= 1u << kinds[k];
    }
    for (int32_t kind = tsr_cli_kinds_next(&all, s->model, 0); kind != 0 && code == TSR_EXIT_OK;
         kind = tsr_cli_kinds_next(&all, s->model, kind)) {
      tsr_cli_progress_update(&s->progress, s->n_programs, 0);
      code = tune_program(s, kind, &all.size);
    }
  }
  tsr_transformer_destroy(s->transformer);
  s->transformer = NULL;
  return code;
}

static int run(void *opaque)
{
  const request *r = opaque;
  session s = {.options = r};
  int code = tsr_cli_fail_input(tsr_model_open(r->folder, &s.model));
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_runtime(&s.runtime);
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_runtime_option(s.runtime, "VULKAN_FUSION", "0")); /* each line has a time of its own */
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_device(s.runtime, r->device, &s.device);
  }
  if (code == TSR_EXIT_OK) {
    s.n_variants = tsr_device_variant_count(s.device);
    if (s.n_variants >= MAX_VARIANTS) {
      tsr_cli_error("tune: %s has %d variants, more than %d", tsr_device_name(s.device), (int)s.n_variants,
                    MAX_VARIANTS - 1);
      code = TSR_EXIT_INTERNAL;
    } else if (s.n_variants == 0) {
      tsr_cli_error("tune: %s has nothing to choose from; `tessera devices --variants` lists the devices that have",
                    tsr_device_name(s.device));
      code = TSR_EXIT_DEVICE;
    } else if (!(tsr_device_get_properties(s.device)->features & TSR_FEATURE_TIMESTAMPS)) {
      tsr_cli_error("tune: %s cannot tell how long a line took: its driver has no timestamps",
                    tsr_device_name(s.device));
      code = TSR_EXIT_DEVICE;
    }
  }
  if (code == TSR_EXIT_OK && !r->dry_run) {
    /* As it is: what takes minutes to find out should not be lost because it cannot be kept. */
    code = tsr_cli_fail(tsr_device_save_variants(s.device));
  }
  tsr_cli_progress_start(&s.progress, "tuning");
  for (int32_t i = 0; i < r->precisions.n && code == TSR_EXIT_OK; i++) {
    code = tune_precision(&s, r->precisions.values[i]);
  }
  tsr_cli_progress_clear(&s.progress);
  if (code == TSR_EXIT_OK) {
    code = finish_classes(&s);
  }
  free(s.classes);
  for (int32_t i = 0; i < s.n_programs; i++) {
    tsr_program_destroy(s.programs[i]);
  }
  free(s.programs);
  tsr_transformer_destroy(s.transformer);
  tsr_model_close(s.model);
  tsr_device_close(s.device);
  tsr_runtime_destroy(s.runtime);
  return code;
}

#define FIELD(member) TSR_FIELD(request, member)

static const tsr_option rows[] = {
    {"device", "D", TSR_OPTION_DEVICE, FIELD(device), .help = "where to compute",
     .otherwise = "TESSERA_DEVICE, else auto"},
    {"precision", "P,..", TSR_OPTION_PRECISION, FIELD(precisions), .is_list = 1,
     .help = "of the matrices: f32, f16, bf16, int8, int4", .otherwise = "as stored"},
    {"batch", "B,..", TSR_OPTION_INTEGER, FIELD(batches), 1, 4096, .is_list = 1, .help = "sentences",
     .preset = "1,8,32"},
    {"beam", "N", TSR_OPTION_INTEGER, FIELD(beam), 1, 64, .help = "hypotheses of a sentence", .preset = "4"},
    {"length", "L", TSR_OPTION_INTEGER, FIELD(length), 1, 1 << 16, .help = "tokens of a sentence", .preset = "32"},
    {"runs", "R", TSR_OPTION_INTEGER, FIELD(runs), 1, 1000,
     .help = "runs of each program with each variant; the fastest run counts", .preset = "5"},
    {"gain", "G", TSR_OPTION_NUMBER, FIELD(gain), 0, 90,
     .help = "percent by which a variant must beat what the rules choose", .preset = "5"},
    {"dry-run", NULL, TSR_OPTION_FLAG, FIELD(dry_run), .low = 1, .help = "measure and print, remember nothing"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(as_json), .low = 1, .help = "print one JSON object a class"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {{"MODEL", TSR_OPTION_FOLDER, offsetof(request, folder)}, {NULL}};
static const request initial = {.precisions = {.n = 1}};

const tsr_command tsr_command_tune = {
    .name = "tune",
    .summary = "find the fastest kernels on a device, and remember which they are",
    .usage = "MODEL [OPTION]...",
    .intro = "A backend has several kernels for one operator, its variants, and chooses by rules. This command runs a "
             "model's programs on a device with each variant in turn, and remembers which one is the fastest for each "
             "class of shapes (extents are rounded up to a power of two). Programs that open the device later use "
             "these variants, until its driver changes.",
    .options = &options,
    .operands = operands,
    .missing = "one model's folder is needed",
    .session_size = sizeof(request),
    .initial = &initial,
    .run = run,
};
