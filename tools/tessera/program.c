/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera program: prints the programs that a model consists of.
 */
#include <string.h>

#include "tools/tessera/common.h"
#include "tools/tessera/kinds.h"

/* Of temporaries in the arena: what GPUs ask for at most. */
enum { ALIGNMENT = 256 };

static const char help[] = "Usage: tessera program MODEL [OPTION]...\n"
                           "\n"
                           "Prints the programs that a model's folder stands for, one operator a line, and what their\n"
                           "memory plan saves against one buffer per temporary tensor. Weights are not needed.\n"
                           "\n" TSR_CLI_KIND_HELP "  --statistics   print the numbers alone, no listing\n"
                           "  --json         print the numbers as one JSON object\n"
                           "  --help         print this text\n";

typedef struct request {
  tsr_cli_kinds kinds;
  int statistics;
  int as_json;
} request;

static void print_statistics(int32_t kind, const tsr_program_statistics *s)
{
  char text[6][32];
  printf("%s: %lld operators, %lld views, %.4g Mflop, %.4g MB moved\n", tsr_cli_kind_name(kind), (long long)s->lines,
         (long long)s->views, s->flops * 1e-6, s->bytes * 1e-6);
  printf("  constants %s, inputs %s, outputs %s, states %s\n", tsr_cli_bytes((uint64_t)s->constant_bytes, text[0]),
         tsr_cli_bytes((uint64_t)s->input_bytes, text[1]), tsr_cli_bytes((uint64_t)s->output_bytes, text[2]),
         tsr_cli_bytes((uint64_t)s->state_bytes, text[3]));
  double saved = s->temporary_bytes > 0
                     ? 100.0 * (double)(s->temporary_bytes - s->planned_bytes) / (double)s->temporary_bytes
                     : 0.0;
  printf("  temporaries: %s in one buffer each, %s as planned: %.1f %% saved\n",
         tsr_cli_bytes((uint64_t)s->temporary_bytes, text[4]), tsr_cli_bytes((uint64_t)s->planned_bytes, text[5]),
         saved);
}

static json_t *statistics_json(int32_t kind, const tsr_program_statistics *s)
{
  return json_pack("{s:s, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "kind", tsr_cli_kind_name(kind), "lines",
                   (json_int_t)s->lines, "views", (json_int_t)s->views, "flops", s->flops, "bytes", s->bytes,
                   "constant_bytes", (json_int_t)s->constant_bytes, "input_bytes", (json_int_t)s->input_bytes,
                   "output_bytes", (json_int_t)s->output_bytes, "state_bytes", (json_int_t)s->state_bytes,
                   "temporary_bytes", (json_int_t)s->temporary_bytes, "planned_bytes", (json_int_t)s->planned_bytes);
}

static int show(const request *r, const tsr_model *model, int32_t kind, json_t *list)
{
  tsr_program *program = NULL;
  tsr_program_statistics statistics;
  tsr_status status = tsr_model_program(model, kind, &r->kinds.size, &program);
  if (status == TSR_OK) {
    status = tsr_program_measure(program, ALIGNMENT, &statistics);
  }
  int code = tsr_cli_fail(status);
  if (code == TSR_EXIT_OK && r->as_json) {
    if (json_array_append_new(list, statistics_json(kind, &statistics)) != 0) {
      code = tsr_cli_no_memory();
    }
  } else if (code == TSR_EXIT_OK) {
    if (!r->statistics) {
      tsr_program_print(program, stdout);
    }
    print_statistics(kind, &statistics);
    if (!r->statistics) {
      printf("\n");
    }
  }
  tsr_program_destroy(program);
  return code;
}

static int run(const request *r, const char *folder)
{
  tsr_model *model = NULL;
  json_t *list = json_array();
  int code = tsr_cli_fail(tsr_model_open(folder, &model));
  int32_t kind = code == TSR_EXIT_OK ? tsr_cli_kinds_next(&r->kinds, model, 0) : 0;
  for (; kind != 0 && code == TSR_EXIT_OK; kind = tsr_cli_kinds_next(&r->kinds, model, kind)) {
    code = show(r, model, kind, list);
  }
  tsr_model_close(model);
  if (code == TSR_EXIT_OK && r->as_json) {
    return tsr_cli_json_print(
        json_pack("{s:o, s:o}", "model", tsr_cli_json_text(folder, strlen(folder)), "programs", list), JSON_INDENT(2));
  }
  json_decref(list);
  return code;
}

int tsr_cmd_program(int argc, char **argv)
{
  static const struct option options[] = {TSR_CLI_KIND_OPTIONS,
                                          {"statistics", no_argument, NULL, 's'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  request r = {.kinds = tsr_cli_kinds_default()};
  int code = TSR_EXIT_OK;
  for (int option; code == TSR_EXIT_OK && (option = tsr_cli_option(argc, argv, options)) != -1;) {
    int taken = 0;
    code = tsr_cli_kinds_option(argv[0], option, optarg, &r.kinds, &taken);
    if (taken) {
      continue;
    }
    switch (option) {
    case 's':
      r.statistics = 1;
      break;
    case 'j':
      r.as_json = 1;
      break;
    case 'h':
      return tsr_cli_help(help);
    default:
      return TSR_EXIT_USAGE;
    }
  }
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (optind + 1 != argc) {
    return tsr_cli_usage(argv[0], "one model's folder is needed");
  }
  return run(&r, argv[optind]);
}
