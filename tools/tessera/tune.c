/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera tune: finds out which forms of kernels are the fastest on a device, and keeps that for later.
 */
#include <stdlib.h>
#include <string.h>

#include "tessera/ops.h"
#include "tools/tessera/bench.h"
#include "tools/tessera/kinds.h"

static const char help[] =
    "Usage: tessera tune MODEL [OPTION]...\n"
    "\n"
    "Backends have several kernels for one operator and choose by rules. This runs a model's\n"
    "programs on a device with each of these forms in turn, and keeps which is the fastest for each\n"
    "class of shapes (extents count as the power of two that they do not exceed). Whoever opens the\n"
    "device later takes those, until its driver changes.\n"
    "\n"
    "  --device D       the device (default: TESSERA_DEVICE, else auto)\n"
    "  --precision P,.. of the matrices: f32, f16, bf16, int8 (default: as stored)\n"
    "  --batch B,..     sentences (default 1,8,32)\n"
    "  --beam N         hypotheses of a sentence (default 4)\n"
    "  --length L       tokens of a sentence (default 32)\n"
    "  --runs R         of each program with each form, of which the fastest counts (default 5)\n"
    "  --gain G         percent by which a form must beat the one chosen by the rules (default 5)\n"
    "  --dry-run        measure and print, keep nothing\n"
    "  --json           print one JSON object a class\n"
    "  --help           print this text\n";

enum { SEED = 1, CLASS_BYTES = 96, MAX_FORMS = 256 };

typedef struct request {
  const char *folder;
  const char *device;
  bench_integers precisions; /* 0: as stored */
  bench_integers batches;
  int32_t beam;
  int32_t length;
  int32_t runs;
  double gain; /* percent */
  int dry_run;
  int as_json;
} request;

/* What the lines of one class took in one form after the other; sums over the lines of a class within a program. */
typedef struct class_times {
  char name[CLASS_BYTES];
  int32_t op;
  int32_t line;  /* one of the class */
  int32_t usual; /* form that the rules choose */
  uint64_t nanoseconds[MAX_FORMS];
} class_times;

typedef struct session {
  const request *wish;
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_model *model;
  tsr_transformer *transformer;
  int32_t n_forms;
  class_times *classes; /* of the program in hand */
  int32_t n_classes;
  int32_t n_kept; /* in all */
} session;

/* ---- one program ------------------------------------------------------------------------------------------------- */

/* The classes of the program's lines. */
static int list_classes(session *s, tsr_program *program)
{
  const int32_t n = tsr_program_line_count(program);
  s->n_classes = 0;
  free(s->classes);
  s->classes = calloc((size_t)n + 1, sizeof *s->classes);
  if (!s->classes) {
    return tsr_cli_no_memory();
  }
  for (int32_t line = 0; line < n; line++) {
    class_times *c = &s->classes[s->n_classes];
    if (!tsr_device_form_class(s->device, program, line, c->name, sizeof c->name)) {
      continue;
    }
    int known = 0;
    for (int32_t i = 0; i < s->n_classes && !known; i++) {
      known = strcmp(s->classes[i].name, c->name) == 0;
    }
    if (!known) {
      c->op = tsr_line_at(tsr_program_describe(program), line)->op;
      c->line = line;
      s->n_classes++;
      /* What an earlier program or an earlier run found is measured anew, against the rules. */
      const int code = tsr_cli_fail(tsr_device_remember_form(s->device, program, line, 0));
      if (code != TSR_EXIT_OK) {
        return code;
      }
      c->usual = tsr_device_form_of(s->device, program, line);
    }
  }
  return TSR_EXIT_OK;
}

/* The class of a line that is executed in the form that is forced; -1: it is not, or has none. */
static int32_t class_in_form(const session *s, const tsr_program *program, int32_t line, int32_t form)
{
  char name[CLASS_BYTES];
  int32_t found = -1;
  if (tsr_device_form_of(s->device, program, line) == form &&
      tsr_device_form_class(s->device, program, line, name, sizeof name)) {
    for (int32_t i = 0; i < s->n_classes && found < 0; i++) {
      found = strcmp(s->classes[i].name, name) == 0 ? i : -1;
    }
  }
  return found;
}

/* What each class took in this form, of the lines' times. Returns 1 if one of them is worth more runs. */
static int add_times(session *s, const tsr_program *program, int32_t form, const uint64_t *times)
{
  enum { FAR_BEHIND = 3 }; /* times what the usual form takes */
  int promising = 0;
  for (int32_t i = 0; i < s->n_classes; i++) {
    s->classes[i].nanoseconds[form] = 0;
  }
  for (int32_t line = 0; line < tsr_program_line_count(program); line++) {
    const int32_t c = class_in_form(s, program, line, form);
    if (c >= 0) {
      s->classes[c].nanoseconds[form] += times[line];
    }
  }
  for (int32_t i = 0; i < s->n_classes; i++) {
    const uint64_t usual = s->classes[i].nanoseconds[s->classes[i].usual], taken = s->classes[i].nanoseconds[form];
    promising |= taken > 0 && (usual == 0 || taken < FAR_BEHIND * usual);
  }
  return promising;
}

static int is_taken(const session *s, const tsr_program *program, int32_t form)
{
  int taken = 0;
  for (int32_t i = 0; i < s->n_classes && !taken; i++) {
    taken = tsr_device_form_of(s->device, program, s->classes[i].line) == form;
  }
  return taken;
}

static tsr_status time_form(session *s, tsr_program *program, const tsr_program_size *size, int32_t form)
{
  const tsr_compile_options options = {.profile = 1};
  const int32_t n = tsr_program_line_count(program);
  tsr_executable *executable = NULL;
  uint64_t *times = calloc(2 * (size_t)n + 1, sizeof *times);
  tsr_status status = times ? tsr_cli_compile(s->transformer, program, &options, &executable)
                            : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  if (status == TSR_OK) {
    status = tsr_cli_fill(s->model, program, size, SEED, executable);
  }
  for (int trial = 0; trial < 2 && status == TSR_OK; trial++) { /* the first warms up, too */
    status = tsr_cli_time_lines(executable, n, trial == 0 ? 2 : s->wish->runs, times, times + n);
    if (status == TSR_OK && !add_times(s, program, form, times)) {
      break;
    }
  }
  tsr_executable_destroy(executable);
  free(times);
  return status;
}

/* The forms in the order in which they are timed: those that the rules choose come first. */
static int time_forms(session *s, tsr_program *program, const tsr_program_size *size)
{
  int code = TSR_EXIT_OK;
  for (int usual = 1; usual >= 0; usual--) {
    for (int32_t form = 1; form <= s->n_forms && code == TSR_EXIT_OK; form++) {
      int is_usual = 0;
      for (int32_t i = 0; i < s->n_classes; i++) {
        is_usual |= s->classes[i].usual == form;
      }
      if (is_usual == usual) {
        code = tsr_cli_fail(tsr_device_force_form(s->device, form));
        if (code == TSR_EXIT_OK && is_taken(s, program, form)) {
          code = tsr_cli_fail(time_form(s, program, size, form));
        }
      }
    }
  }
  return code == TSR_EXIT_OK ? tsr_cli_fail(tsr_device_force_form(s->device, 0)) : code;
}

static int report(const session *s, const class_times *c, int32_t best)
{
  const double usual = (double)c->nanoseconds[c->usual] * 1e-3, least = (double)c->nanoseconds[best] * 1e-3;
  const char *name = tsr_device_form_name(s->device, best);
  if (s->wish->as_json) {
    json_t *times = json_object();
    for (int32_t form = 1; form <= s->n_forms; form++) {
      if (c->nanoseconds[form] > 0) {
        json_object_set_new(times, tsr_device_form_name(s->device, form),
                            json_integer((json_int_t)c->nanoseconds[form]));
      }
    }
    return tsr_cli_json_print(json_pack("{s:s, s:s, s:s?, s:s, s:b, s:o}", "class", c->name, "operator",
                                        tsr_op_describe(c->op)->name, "usual",
                                        tsr_device_form_name(s->device, c->usual), "best", name, "kept",
                                        best != c->usual, "nanoseconds", times),
                              JSON_COMPACT);
  }
  printf("%-10s %-28s %-24s %10.1f us", tsr_op_describe(c->op)->name, c->name,
         tsr_device_form_name(s->device, c->usual), usual);
  if (best != c->usual) {
    printf("  -> %-24s %10.1f us", name, least);
  }
  printf("\n");
  return TSR_EXIT_OK;
}

/* The fastest form, unless the usual one is nearly as fast. */
static int32_t choose(const session *s, const class_times *c)
{
  int32_t best = c->usual;
  for (int32_t form = 1; form <= s->n_forms; form++) {
    if (c->nanoseconds[form] > 0 && c->nanoseconds[form] < c->nanoseconds[best]) {
      best = form;
    }
  }
  const double limit = (1.0 - s->wish->gain / 100.0) * (double)c->nanoseconds[c->usual];
  return (double)c->nanoseconds[best] < limit ? best : c->usual;
}

static int tune_program(session *s, int32_t kind, const tsr_program_size *size)
{
  tsr_program *program = NULL;
  int code = tsr_cli_fail(tsr_transformer_program(s->transformer, kind, size, &program));
  if (code == TSR_EXIT_OK) {
    code = list_classes(s, program);
  }
  if (code == TSR_EXIT_OK) {
    code = time_forms(s, program, size);
  }
  for (int32_t i = 0; i < s->n_classes && code == TSR_EXIT_OK; i++) {
    const class_times *c = &s->classes[i];
    const int32_t best = choose(s, c);
    s->n_kept += best != c->usual;
    code = report(s, c, best);
    if (code == TSR_EXIT_OK && best != c->usual) {
      code = tsr_cli_fail(tsr_device_remember_form(s->device, program, c->line, best));
    }
  }
  tsr_program_destroy(program);
  return code;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int tune_precision(session *s, tsr_dtype precision)
{
  static const int32_t kinds[] = {TSR_PROGRAM_ENCODE, TSR_PROGRAM_DECODE, TSR_PROGRAM_GREEDY, TSR_PROGRAM_BEAM};
  const tsr_transformer_options options = {.weights = precision};
  int code = tsr_cli_fail(tsr_transformer_create(s->model, s->device, &options, &s->transformer));
  for (int32_t i = 0; i < s->wish->batches.n && code == TSR_EXIT_OK; i++) {
    tsr_cli_kinds all = tsr_cli_kinds_default();
    all.size.batch = s->wish->batches.values[i];
    all.size.beam = s->wish->beam;
    all.size.source = s->wish->length;
    all.size.target = s->wish->length;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
      all.chosen |= 1u << kinds[k];
    }
    for (int32_t kind = tsr_cli_kinds_next(&all, s->model, 0); kind != 0 && code == TSR_EXIT_OK;
         kind = tsr_cli_kinds_next(&all, s->model, kind)) {
      code = tune_program(s, kind, &all.size);
    }
  }
  tsr_transformer_destroy(s->transformer);
  s->transformer = NULL;
  return code;
}

static int run(const request *r)
{
  session s = {.wish = r};
  int code = tsr_cli_fail_input(tsr_model_open(r->folder, &s.model));
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_runtime(&s.runtime);
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_runtime_option(s.runtime, "VULKAN_JOIN", "0")); /* each line has a time of its own */
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_device(s.runtime, r->device, &s.device);
  }
  if (code == TSR_EXIT_OK) {
    s.n_forms = tsr_device_form_count(s.device);
    if (s.n_forms >= MAX_FORMS) {
      tsr_cli_error("tune: %s has %d forms, more than %d", tsr_device_name(s.device), (int)s.n_forms, MAX_FORMS - 1);
      code = TSR_EXIT_INTERNAL;
    } else if (s.n_forms == 0) {
      tsr_cli_error("tune: %s has nothing to choose from; `tessera devices --variants` lists who has",
                    tsr_device_name(s.device));
      code = TSR_EXIT_DEVICE;
    } else if (!(tsr_device_get_properties(s.device)->features & TSR_FEATURE_TIMESTAMPS)) {
      tsr_cli_error("tune: %s cannot tell how long a line took: its driver has no timestamps",
                    tsr_device_name(s.device));
      code = TSR_EXIT_DEVICE;
    }
  }
  for (int32_t i = 0; i < r->precisions.n && code == TSR_EXIT_OK; i++) {
    code = tune_precision(&s, r->precisions.values[i]);
  }
  if (code == TSR_EXIT_OK && !r->dry_run) {
    code = tsr_cli_fail(tsr_device_save_forms(s.device));
  }
  if (code == TSR_EXIT_OK && !r->as_json) {
    printf("%s: %d classes %s another form than by the rules\n", tsr_device_name(s.device), (int)s.n_kept,
           r->dry_run ? "would take" : "take");
  }
  free(s.classes);
  tsr_transformer_destroy(s.transformer);
  tsr_model_close(s.model);
  tsr_device_close(s.device);
  tsr_runtime_destroy(s.runtime);
  return code;
}

static int take_option(int option, char *value, request *r)
{
  switch (option) {
  case 'd':
    r->device = value;
    return TSR_EXIT_OK;
  case 'P':
    return bench_precisions_option("--precision", value, &r->precisions);
  case 'B':
    return bench_integers_option("--batch", value, 1, 4096, &r->batches);
  case 'N':
    return tsr_cli_int32("tune", "--beam", value, 1, 64, &r->beam);
  case 'L':
    return tsr_cli_int32("tune", "--length", value, 1, 1 << 16, &r->length);
  case 'R':
    return tsr_cli_int32("tune", "--runs", value, 1, 1000, &r->runs);
  case 'g':
    return tsr_cli_number("tune", "--gain", value, 0.0, 90.0, &r->gain);
  case 'y':
    r->dry_run = 1;
    return TSR_EXIT_OK;
  case 'j':
    r->as_json = 1;
    return TSR_EXIT_OK;
  default:
    return TSR_EXIT_USAGE;
  }
}

int tsr_cmd_tune(int argc, char **argv)
{
  static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                          {"precision", required_argument, NULL, 'P'},
                                          {"batch", required_argument, NULL, 'B'},
                                          {"beam", required_argument, NULL, 'N'},
                                          {"length", required_argument, NULL, 'L'},
                                          {"runs", required_argument, NULL, 'R'},
                                          {"gain", required_argument, NULL, 'g'},
                                          {"dry-run", no_argument, NULL, 'y'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  request r = {.precisions = {.n = 1},
               .batches = {.n = 3, .values = {1, 8, 32}},
               .beam = 4,
               .length = 32,
               .runs = 5,
               .gain = 5.0};
  int code = TSR_EXIT_OK;
  for (int option; code == TSR_EXIT_OK && (option = tsr_cli_option(argc, argv, options)) != -1;) {
    if (option == 'h') {
      return tsr_cli_help(help);
    }
    code = take_option(option, optarg, &r);
  }
  if (code == TSR_EXIT_OK && optind + 1 != argc) {
    code = tsr_cli_usage("tune", "one model's folder is needed");
  }
  if (code != TSR_EXIT_OK) {
    return code;
  }
  r.folder = argv[optind];
  return run(&r);
}
