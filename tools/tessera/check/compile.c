/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera check --mode compile: every kernel that a device can be made to need, compiled; none is run. So it works on
 * drivers that cannot execute (tools/lab), and with shapes whose tensors would fill no memory.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/check/check.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/options/options.h"

typedef struct counts {
  int32_t programs, failed, unsupported;
} counts;

/* By the type of the weights: 1: a program was compiled that searches a product for its largest, which devices may
 * fuse. */
typedef struct search {
  unsigned char compiled[TSR_I32 + 1];
} search;

typedef struct compilation {
  const check_compile_request *request;
  const check_table *table;
  tsr_device *device;
  int32_t variant;         /* forced now; 0: the device chooses */
  int32_t *taken;          /* [variants + 1] programs by variant */
  search *searches;        /* [variants + 1] likewise */
  check_coverage coverage; /* what was compiled */
  counts count;
  tsr_cli_progress progress;
} compilation;

int check_wants_variant(const char *wanted, const tsr_device *device, int32_t variant)
{
  return strcmp(wanted, "all") == 0 || fnmatch(wanted, tsr_device_variant_name(device, variant), 0) == 0;
}

int check_takes_variant(tsr_device *device, const tsr_program *program, int32_t variant)
{
  for (int32_t line = 0; line < tsr_program_line_count(program); line++) {
    if (tsr_device_variant_of(device, program, line) == variant) {
      return 1;
    }
  }
  return 0;
}

static int report(compilation *c, const char *name, const char *result, const char *message)
{
  const char *variant = tsr_device_variant_name(c->device, c->variant);

  tsr_cli_progress_clear(&c->progress);
  if (c->request->as_json) {
    return tsr_cli_json_print(json_pack("{s:s, s:s, s:s?, s:s, s:o}", "case", name, "device",
                                        tsr_device_name(c->device), "variant", variant, "result", result, "message",
                                        tsr_cli_json_text(message, strlen(message))),
                              0);
  }
  printf("%s %s %s%s%s\n  %s\n", result, tsr_device_name(c->device), name, variant ? " in the variant " : "",
         variant ? variant : "", message);
  return TSR_EXIT_OK;
}

/* Whether the program searches a product of a type for which none has done so in this variant. note: then it has. */
static int adds_search(compilation *c, const tsr_program *program, int note)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  unsigned char *compiled = c->searches[c->variant].compiled;
  int adds = 0;

  for (int32_t line = 0; line + 1 < desc->n_lines; line++) {
    int32_t last = line + 1 + (line + 2 < desc->n_lines && tsr_line_at(desc, line + 1)->op == TSR_OP_LOG_SOFTMAX);
    if (tsr_line_at(desc, line)->op == TSR_OP_MATMUL && tsr_line_at(desc, last)->op == TSR_OP_TOPK) {
      int32_t dtype = tsr_tensor_at(desc, tsr_line_at(desc, line)->in[1])->dtype;
      adds |= !compiled[dtype];
      compiled[dtype] |= note != 0;
    }
  }
  return adds;
}

/* A program as the device would execute it now. chosen: 0: only if it has something in it that nothing had so far. */
static int make(compilation *c, const char *name, const tsr_program *program, int chosen)
{
  chosen = chosen || adds_search(c, program, 0);
  if (c->variant > 0) {
    if ((!chosen && c->taken[c->variant] > 0) || !check_takes_variant(c->device, program, c->variant)) {
      return TSR_EXIT_OK;
    }
    c->taken[c->variant]++;
  } else if (!chosen && !check_coverage_adds(&c->coverage, program)) {
    return TSR_EXIT_OK;
  }
  tsr_status status = tsr_device_prepare(c->device, program);
  c->count.programs++;
  if (status == TSR_ERR_UNSUPPORTED) {
    c->count.unsupported++;
    return c->request->verbose ? report(c, name, "unsupported", tsr_error_message()) : TSR_EXIT_OK;
  }
  if (status) {
    c->count.failed++;
    return report(c, name, "FAILED", tsr_error_message());
  }
  check_coverage_note(&c->coverage, program);
  adds_search(c, program, 1);
  return TSR_EXIT_OK;
}

/* In the variant that the device chooses, or in each that --variant asks for. */
static int make_in_variants(compilation *c, const char *name, const tsr_program *program, int chosen, int forced)
{
  const int32_t variants = tsr_device_variant_count(c->device);
  int code = TSR_EXIT_OK;

  if (!forced) {
    return make(c, name, program, chosen);
  }
  for (c->variant = 1; c->variant <= variants && !code; c->variant++) {
    if (check_wants_variant(c->request->variant, c->device, c->variant)) {
      code = tsr_cli_fail(tsr_device_force_variant(c->device, c->variant));
      code = code ? code : make(c, name, program, chosen);
    }
  }
  c->variant = 0;
  return code ? code : tsr_cli_fail(tsr_device_force_variant(c->device, 0));
}

/* By --ops and --case; *chosen: by --share, too. */
static int is_selected(const compilation *c, const char *name, uint64_t key, int *chosen)
{
  const check_compile_request *r = c->request;
  *chosen = r->only || key % (uint64_t)r->share == 0;
  if (r->only) {
    return strcmp(r->only, name) == 0;
  }
  return check_selects(r->ops, name);
}

/* All programs once: the cases, those of --mode perf among them, then the models. */
static int sweep(compilation *c, int forced)
{
  const int32_t models = check_model_count();
  int code = TSR_EXIT_OK;

  for (int32_t i = 0; i < c->table->count + models && !code; i++) {
    const check_case *test = i < c->table->count ? &c->table->test[i] : NULL;
    tsr_program *program = NULL;
    char name[128];
    int chosen = 0;

    tsr_cli_progress_update(&c->progress, i, c->table->count + models);
    if (test) {
      check_build build;
      if (!is_selected(c, test->name, test->key, &chosen)) {
        continue;
      }
      code = tsr_cli_fail(tsr_fail_context(check_build_program(test, &build), "%s", test->name));
      program = build.program;
    } else {
      code = tsr_cli_fail(
          tsr_fail_context(check_model_program(i - c->table->count, c->device, name, sizeof(name), &program),
                           "model program %d", (int)(i - c->table->count)));
      if (!code && !is_selected(c, name, check_hash(0, name), &chosen)) {
        tsr_program_destroy(program);
        continue;
      }
    }
    if (!code) {
      code = make_in_variants(c, test ? test->name : name, program, chosen, forced);
    }
    tsr_program_destroy(program);
  }
  return code;
}

static int print_variants(const compilation *c)
{
  int32_t wanted = 0;

  for (int32_t variant = 1; variant <= tsr_device_variant_count(c->device); variant++) {
    if (check_wants_variant(c->request->variant, c->device, variant)) {
      wanted++;
      if (!c->request->as_json) {
        printf("%s: %s %d programs%s\n", tsr_device_name(c->device), tsr_device_variant_name(c->device, variant),
               (int)c->taken[variant], c->taken[variant] ? "" : ": the device cannot, or none selected has its shape");
      }
    }
  }
  if (wanted == 0) {
    return tsr_cli_usage("check", "--variant: %s has no variant '%s'; `tessera devices --variants` lists them",
                         tsr_device_name(c->device), c->request->variant);
  }
  return TSR_EXIT_OK;
}

static int compile_on(const check_compile_request *request, const check_table *table, tsr_device *device, counts *sum)
{
  compilation c = {.request = request, .table = table, .device = device};

  c.taken = calloc((size_t)tsr_device_variant_count(device) + 1, sizeof(*c.taken));
  c.searches = calloc((size_t)tsr_device_variant_count(device) + 1, sizeof(*c.searches));
  if (!c.taken || !c.searches) {
    free(c.taken);
    free(c.searches);
    return tsr_cli_no_memory();
  }
  int code = tsr_cli_fail(check_coverage_create(&c.coverage, NULL));
  tsr_cli_progress_start(&c.progress, "compiling");
  code = code ? code : sweep(&c, 0);
  if (!code && request->variant) {
    code = sweep(&c, 1);
  }
  tsr_cli_progress_clear(&c.progress);
  if (!code && request->variant) {
    code = print_variants(&c);
  }
  check_coverage_finish(&c.coverage);
  free(c.taken);
  free(c.searches);
  if (!code && !request->as_json) {
    printf("%s: %d programs, %d compiled, %d failed, %d unsupported\n", tsr_device_name(device), (int)c.count.programs,
           (int)(c.count.programs - c.count.failed - c.count.unsupported), (int)c.count.failed,
           (int)c.count.unsupported);
  }
  sum->programs += c.count.programs;
  sum->failed += c.count.failed;
  sum->unsupported += c.count.unsupported;
  return code;
}

int check_compile(const check_compile_request *request, const check_table *table, tsr_runtime *runtime,
                  const tsr_names *names)
{
  const int32_t n = names->n > 0 ? names->n : tsr_runtime_device_count(runtime);
  counts sum = {0};
  int32_t n_devices = 0;
  int code = TSR_EXIT_OK;

  for (int32_t i = 0; i < n && !code; i++) {
    const char *name = names->n > 0 ? names->values[i] : NULL;
    tsr_device_info info;
    tsr_device *device = NULL;
    if (!name) {
      code = tsr_cli_fail(tsr_runtime_device_info(runtime, i, &info));
      if (code || strcmp(info.backend, "reference") == 0) {
        continue;
      }
      name = info.name;
    }
    code = tsr_cli_device(runtime, name, &device);
    if (!code) {
      n_devices++;
      code = compile_on(request, table, device, &sum);
    }
    tsr_device_close(device);
  }
  if (!code && n_devices == 0) {
    tsr_cli_error("check: no device was found beside the reference; `tessera devices` tells what was tried");
    return TSR_EXIT_DEVICE;
  }
  if (!code && sum.programs == 0) {
    return tsr_cli_usage("check", "no case is selected; `tessera check --list` prints the names");
  }
  if (!code && request->as_json) {
    code = tsr_cli_json_print(json_pack("{s:i, s:i, s:i}", "programs", (int)sum.programs, "failed", (int)sum.failed,
                                        "unsupported", (int)sum.unsupported),
                              JSON_COMPACT);
  }
  return code ? code : sum.failed ? TSR_EXIT_MISMATCH : TSR_EXIT_OK;
}
