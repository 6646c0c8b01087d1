/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference as a backend of several variants, whose lines take what is written here: what `tessera tune` makes of
 * times.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/over_reference.h"

enum { USUAL = 1, SOME, ALL, N_VARIANTS = ALL, MAX_LINES = 1000 };

/* Nanoseconds of a line by class and variant. In the variant SOME one line in two can be executed, the others are as
 * usual. */
static const char *const classes[] = {"products", "attentions"};
static const uint64_t nanoseconds[2][N_VARIANTS + 1] = {{0, 100, 98, 150}, {0, 100, 50, 99}};

static const tsr_backend *sound;
static int32_t forced;
static uint64_t times[MAX_LINES]; /* of the program that was compiled last */

static int32_t class_number(const tsr_program_desc *program, int32_t line)
{
  const int32_t op = tsr_line_at(program, line)->op;
  return op == TSR_OP_MATMUL ? 0 : op == TSR_OP_ATTENTION ? 1 : -1;
}

static const char *variant_name(int32_t variant)
{
  static const char *const names[] = {NULL, "fake.usual", "fake.some", "fake.all"};
  return variant >= 1 && variant <= N_VARIANTS ? names[variant] : NULL;
}

static void force(tsr_backend_device *device, int32_t variant)
{
  (void)device;
  forced = variant;
}

static int32_t variant_of(tsr_backend_device *device, const tsr_program_desc *program, int32_t line)
{
  (void)device;
  if (class_number(program, line) < 0) {
    return 0;
  }
  return forced == 0 || (forced == SOME && line % 2 == 1) ? USUAL : forced;
}

static int32_t class_of(tsr_backend_device *device, const tsr_program_desc *program, int32_t line, char *text,
                        uint32_t text_size)
{
  const int32_t class = class_number(program, line);
  (void)device;
  snprintf(text, text_size, "%s", class < 0 ? "" : classes[class]);
  return class >= 0;
}

/* Tells what it is told. */
static int32_t remember(tsr_backend_device *device, const tsr_program_desc *program, int32_t line, int32_t variant)
{
  (void)device;
  if (variant != 0) {
    fprintf(stderr, "remember %s %s\n", classes[class_number(program, line)], variant_name(variant));
  }
  return TSR_OK;
}

static int32_t save(tsr_backend_device *device)
{
  (void)device;
  fprintf(stderr, "save\n");
  return TSR_OK;
}

static const void *get_extension(void *context, const char *name)
{
  static const tsr_variants_extension variants = {sizeof variants, N_VARIANTS, variant_name, force,
                                                  variant_of,      class_of,   remember,     save};
  (void)context;
  return strcmp(name, TSR_VARIANTS_EXTENSION) == 0 ? &variants : NULL;
}

static int32_t compile(tsr_backend_device *device, const tsr_compile_args *args, tsr_backend_executable **executable)
{
  memset(times, 0, sizeof times);
  for (int32_t line = 0; line < args->program->n_lines && line < MAX_LINES; line++) {
    const int32_t class = class_number(args->program, line);
    times[line] = class < 0 ? 1000 : nanoseconds[class][variant_of(device, args->program, line)];
  }
  return sound->compile(device, args, executable);
}

static int32_t profile(tsr_backend_executable *executable, uint64_t *all)
{
  int32_t status = sound->profile(executable, all);
  for (int32_t line = 0; line < MAX_LINES && times[line] > 0 && status == TSR_OK; line++) {
    all[line] = times[line];
  }
  return status;
}

const tsr_backend *tessera_backend_query(uint32_t host_abi_major, const tsr_host *host)
{
  static tsr_backend table;
  sound = query_reference(host_abi_major, host);
  if (!sound) {
    return NULL;
  }
  table = *sound;
  table.name = "fake";
  table.compile = compile;
  table.profile = profile;
  table.get_extension = get_extension;
  return &table;
}
