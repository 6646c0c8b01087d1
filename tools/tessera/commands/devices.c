/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera devices: what was found, what it can do, and why a backend did not load.
 */
#include <stdio.h>
#include <string.h>

#include "tools/tessera/commands.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"

static const struct feature {
  uint64_t bit;
  const char *name;
} features[] = {
    {TSR_FEATURE_F16_STORAGE, "f16-storage"},       {TSR_FEATURE_F16_ARITHMETIC, "f16-arithmetic"},
    {TSR_FEATURE_I8_STORAGE, "i8-storage"},         {TSR_FEATURE_I8_DOT, "i8-dot"},
    {TSR_FEATURE_SUBGROUPS, "subgroups"},           {TSR_FEATURE_COOPERATIVE_MATRIX, "cooperative-matrix"},
    {TSR_FEATURE_UNIFIED_MEMORY, "unified-memory"}, {TSR_FEATURE_TIMESTAMPS, "timestamps"},
};

enum { N_FEATURES = sizeof features / sizeof features[0] };

/* The name of the device that `auto` takes; "" if it takes none (the thread's message tells why). */
static void find_auto(tsr_runtime *runtime, char *name, size_t size)
{
  tsr_device *device = NULL;
  name[0] = '\0';
  if (tsr_device_open(runtime, "auto", &device) == TSR_OK) {
    snprintf(name, size, "%s", tsr_device_name(device));
  }
  tsr_device_close(device);
}

static void print_limit(const char *name, uint64_t value, int in_bytes)
{
  char text[32];
  if (value > 0) {
    printf("  %-18s %s\n", name, in_bytes ? tsr_cli_bytes(value, text) : tsr_cli_grouped((int64_t)value, text));
  }
}

static void print_device(const tsr_device_info *info, int is_auto)
{
  const tsr_device_properties *p = &info->properties;
  printf("%s%s\n", info->name, is_auto ? "  (auto)" : "");
  printf("  %-18s %s\n", "device", p->name);
  printf("  %-18s %s\n", "type", tsr_cli_device_type(p->type));
  if (p->driver[0]) {
    printf("  %-18s %s\n", "driver", p->driver);
  }
  if (p->api_major > 0) {
    printf("  %-18s %u.%u\n", "interface", p->api_major, p->api_minor);
  }
  printf("  %-18s", "capabilities");
  for (int i = 0; i < N_FEATURES; i++) {
    if (p->features & features[i].bit) {
      printf(" %s", features[i].name);
    }
  }
  puts(p->features == 0 ? " none" : "");
  print_limit("memory", p->memory, 1);
  print_limit("largest buffer", p->max_buffer_size, 1);
  print_limit("largest binding", p->max_binding_size, 1);
  print_limit("buffer alignment", p->buffer_alignment, 1);
  print_limit("invocations", p->max_invocations, 0);
  print_limit("shared memory", p->shared_memory, 1);
  print_limit("subgroup size", p->subgroup_size, 0);
  print_limit("runs side by side", p->concurrent_runs, 0);
  printf("  %-18s %s%s%s%s\n", "backend", info->description, info->path[0] ? " (" : "", info->path,
         info->path[0] ? ")" : "");
}

static int print_text(tsr_runtime *runtime, const char *auto_name, const char *auto_reason)
{
  int32_t n_devices = tsr_runtime_device_count(runtime);
  for (int32_t i = 0; i < n_devices; i++) {
    tsr_device_info info;
    tsr_status status = tsr_runtime_device_info(runtime, i, &info);
    if (status != TSR_OK) {
      return tsr_cli_fail(status);
    }
    print_device(&info, strcmp(info.name, auto_name) == 0);
    putchar('\n');
  }
  if (n_devices == 0) {
    puts("No device was found.\n");
  } else if (auto_name[0] == '\0') {
    printf("auto chooses none: %s\n\n", auto_reason);
  }
  int32_t n_problems = tsr_runtime_problem_count(runtime);
  if (n_problems > 0) {
    puts("What did not work:");
  }
  for (int32_t i = 0; i < n_problems; i++) {
    tsr_problem problem;
    tsr_status status = tsr_runtime_problem(runtime, i, &problem);
    if (status != TSR_OK) {
      return tsr_cli_fail(status);
    }
    printf("  %s\n    %s\n", problem.path, problem.message);
  }
  return TSR_EXIT_OK;
}

static int print_names(tsr_runtime *runtime)
{
  for (int32_t i = 0; i < tsr_runtime_device_count(runtime); i++) {
    tsr_device_info info;
    tsr_status status = tsr_runtime_device_info(runtime, i, &info);
    if (status != TSR_OK) {
      return tsr_cli_fail(status);
    }
    puts(info.name);
  }
  return TSR_EXIT_OK;
}

static int print_variants(tsr_runtime *runtime)
{
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < tsr_runtime_device_count(runtime) && code == TSR_EXIT_OK; i++) {
    tsr_device_info info;
    tsr_device *device = NULL;
    code = tsr_cli_fail(tsr_runtime_device_info(runtime, i, &info));
    if (code == TSR_EXIT_OK) {
      code = tsr_cli_device(runtime, info.name, &device);
    }
    for (int32_t variant = 1; variant <= tsr_device_variant_count(device); variant++) {
      printf("%s %s\n", info.name, tsr_device_variant_name(device, variant));
    }
    tsr_device_close(device);
  }
  return code;
}

static json_t *text_json(const char *text)
{
  return tsr_cli_json_text(text, strlen(text));
}

/* NULL if an allocation failed. */
static json_t *device_json(const tsr_device_info *info)
{
  const tsr_device_properties *p = &info->properties;
  char interface[32];
  snprintf(interface, sizeof interface, "%u.%u", p->api_major, p->api_minor);
  json_t *capabilities = json_array();
  for (int i = 0; i < N_FEATURES; i++) {
    if ((p->features & features[i].bit) && json_array_append_new(capabilities, json_string(features[i].name)) != 0) {
      json_decref(capabilities);
      return NULL;
    }
  }
  return json_pack("{s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s?}", "name",
                   text_json(info->name), "backend", text_json(info->backend), "description",
                   text_json(info->description), "path", text_json(info->path), "type", tsr_cli_device_type(p->type),
                   "device", text_json(p->name), "driver", text_json(p->driver), "capabilities", capabilities, "memory",
                   (json_int_t)p->memory, "max_buffer_size", (json_int_t)p->max_buffer_size, "max_binding_size",
                   (json_int_t)p->max_binding_size, "buffer_alignment", (json_int_t)p->buffer_alignment,
                   "max_invocations", (json_int_t)p->max_invocations, "shared_memory", (json_int_t)p->shared_memory,
                   "subgroup_size", (json_int_t)p->subgroup_size, "concurrent_runs", (json_int_t)p->concurrent_runs,
                   "interface", p->api_major > 0 ? interface : NULL);
}

static int print_json(tsr_runtime *runtime, const char *auto_name)
{
  json_t *devices = json_array();
  json_t *problems = json_array();
  int failed = 0;
  for (int32_t i = 0; i < tsr_runtime_device_count(runtime); i++) {
    tsr_device_info info;
    failed |=
        tsr_runtime_device_info(runtime, i, &info) != TSR_OK || json_array_append_new(devices, device_json(&info)) != 0;
  }
  for (int32_t i = 0; i < tsr_runtime_problem_count(runtime); i++) {
    tsr_problem problem;
    failed |= tsr_runtime_problem(runtime, i, &problem) != TSR_OK ||
              json_array_append_new(problems, json_pack("{s:o, s:o, s:s}", "path", text_json(problem.path), "message",
                                                        text_json(problem.message), "status",
                                                        tsr_status_name(problem.status))) != 0;
  }
  json_t *name = auto_name[0] ? text_json(auto_name) : json_null();
  json_t *root = json_pack("{s:o, s:o, s:o}", "devices", devices, "auto", name, "problems", problems);
  if (failed) {
    json_decref(root);
    return tsr_cli_no_memory();
  }
  return tsr_cli_json_print(root, JSON_INDENT(2));
}

typedef struct request {
  int as_json, names_only, variants;
} request;

static int check(void *opaque)
{
  const request *r = opaque;
  return r->as_json + r->names_only + r->variants > 1
             ? tsr_cli_usage("devices", "--json, --names and --variants exclude each other")
             : TSR_EXIT_OK;
}

static int run(void *opaque)
{
  const request *r = opaque;
  tsr_runtime *runtime = NULL;
  int code = tsr_cli_runtime(&runtime);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (r->names_only) {
    code = print_names(runtime);
  } else if (r->variants) {
    code = print_variants(runtime);
  } else {
    char auto_name[64];
    find_auto(runtime, auto_name, sizeof auto_name);
    code = r->as_json ? print_json(runtime, auto_name) : print_text(runtime, auto_name, tsr_error_message());
  }
  if (code == TSR_EXIT_OK && tsr_runtime_device_count(runtime) == 0) {
    code = TSR_EXIT_DEVICE;
  }
  tsr_runtime_destroy(runtime);
  return code;
}

static const tsr_option rows[] = {
    {"json", NULL, TSR_OPTION_FLAG, TSR_FIELD(request, as_json), .low = 1,
     .help = "print one JSON object: devices, auto (a name or null), problems"},
    {"names", NULL, TSR_OPTION_FLAG, TSR_FIELD(request, names_only), .low = 1,
     .help = "print the names alone, one a line"},
    {"variants", NULL, TSR_OPTION_FLAG, TSR_FIELD(request, variants), .low = 1,
     .help = "print the variants of kernels that the devices' backends choose from, one a line: device and variant, as "
             "`tessera check --variant` takes it"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};

const tsr_command tsr_command_devices = {
    .name = "devices",
    .summary = "list the devices that were found, and why a backend did not load",
    .usage = "[--json | --names | --variants]",
    .intro = "Lists the devices that were found, with their limits and capabilities, and what was tried but did not "
             "work, and marks the device that `auto` chooses. --device and TESSERA_DEVICE take the name of a device. "
             "`auto` prefers a discrete GPU, then an integrated one, then a virtual one, then a CPU, then the "
             "reference; a GPU interface executed by a CPU is used only if it is named.",
    .options = &options,
    .notes = "Exit code: 0; 4 if there is no device at all.",
    .session_size = sizeof(request),
    .check = check,
    .run = run,
};
