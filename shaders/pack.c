/* SPDX-License-Identifier: Apache-2.0
 *
 * Run while Tessera is built: writes tsr_vk_shaders (backends/vulkan/kernel.h), each SPIR-V module deflated to a
 * third. A module whose push constants do not lie as in C is an error (reflect.h).
 *
 *     pack OUT.c [NAME BINDINGS IS_SUBGROUP HALVES]... -- [FILE.spv]...
 *
 * The files stand in the order of the rows. The last rows may have none: those are shaders without code. HALVES: f16;
 * bf16: that is what the module's f16 is made (bfloat16.h).
 */
#include "bfloat16.h"
#include "reflect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void fail(const char *what, const char *why)
{
  fprintf(stderr, "pack: %s: %s\n", what, why);
  exit(EXIT_FAILURE);
}

static unsigned char *read_file(const char *path, size_t *size)
{
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) {
    fail(path, strerror(errno));
  }
  const long length = ftell(file);
  if (length <= 0 || length % 4 != 0) {
    fail(path, "is not whole words");
  }
  rewind(file);
  unsigned char *bytes = malloc((size_t)length);
  if (!bytes || fread(bytes, 1, (size_t)length, file) != (size_t)length) {
    fail(path, "cannot be read");
  }
  fclose(file);
  *size = (size_t)length;
  return bytes;
}

/* A shader: what its module says, and the bytes of that; 0: it has none. */
typedef struct row {
  shader_contract contract;
  size_t size;
} row;

/* The module of a file, `*n` words. */
static uint32_t *read_module(const char *path, int is_bf16, size_t *n)
{
  size_t size;
  unsigned char *bytes = read_file(path, &size);
  uint32_t *words = malloc(size);
  uint32_t *made = malloc(size + SHADER_BFLOAT16_MORE_WORDS * sizeof *made);
  if (!words || !made) {
    fail(path, "no memory");
  }
  memcpy(words, bytes, size);
  free(bytes);
  *n = size / sizeof *words;
  if (!is_bf16) {
    free(made);
    return words;
  }
  const char *wrong = shader_to_bfloat16(words, *n, made, n);
  if (wrong) {
    fail(path, wrong);
  }
  free(words);
  return made;
}

/* Writes the deflated module as an array. */
static row write_module(FILE *out, const char *name, const char *path, int is_bf16)
{
  row result = {.size = 0};
  size_t n;
  uint32_t *words = read_module(path, is_bf16, &n);
  result.size = n * sizeof *words;
  uLongf n_packed = compressBound((uLong)result.size);
  unsigned char *packed = malloc(n_packed);
  if (!packed) {
    fail(path, "no memory");
  }
  const char *wrong = shader_reflect(words, n, &result.contract);
  if (wrong) {
    fail(path, wrong);
  }
  if (compress2(packed, &n_packed, (const unsigned char *)words, (uLong)result.size, Z_BEST_COMPRESSION) != Z_OK) {
    fail(path, "cannot be deflated");
  }
  fprintf(out, "static const unsigned char module_%s[] = {", name);
  for (uLongf i = 0; i < n_packed; i++) {
    fprintf(out, "%s%u,", i % 32 == 0 ? "\n" : "", packed[i]);
  }
  fputs("\n};\n", out);
  free(packed);
  free(words);
  return result;
}

enum { NAME, BINDINGS, IS_SUBGROUP, HALVES, N_COLUMNS };

/* Of n rows the one called NAME_long; 0: there is none. */
static int find_long(char **rows, int n, const char *name)
{
  const size_t length = strlen(name);
  for (int i = 0; i < n; i++) {
    const char *other = rows[N_COLUMNS * i + NAME];
    if (strncmp(other, name, length) == 0 && strcmp(other + length, "_long") == 0) {
      return i;
    }
  }
  return 0;
}

int main(int argc, char **argv)
{
  int end = 2;
  while (end < argc && strcmp(argv[end], "--") != 0) {
    end++;
  }
  const int n = (end - 2) / N_COLUMNS;
  const int n_files = argc - end - 1;
  if (argc < 3 || end == argc || (end - 2) % N_COLUMNS != 0 || n_files > n) {
    fail("usage", "pack OUT.c [NAME BINDINGS IS_SUBGROUP HALVES]... -- [FILE.spv]...");
  }
  FILE *out = fopen(argv[1], "w");
  if (!out) {
    fail(argv[1], strerror(errno));
  }
  row *rows = calloc((size_t)n + 1, sizeof *rows);
  if (!rows) {
    fail(argv[1], "no memory");
  }
  fputs("/* Written by shaders/pack.c */\n#include \"backends/vulkan/kernel.h\"\n\n", out);
  for (int i = 0; i < n_files; i++) {
    char **column = argv + 2 + N_COLUMNS * i;
    rows[i] = write_module(out, column[NAME], argv[end + 1 + i], strcmp(column[HALVES], "bf16") == 0);
  }
  fputs("const tsr_vk_shader tsr_vk_shaders[] = {\n", out);
  for (int i = 0; i < n; i++) {
    char **column = argv + 2 + N_COLUMNS * i;
    const char *name = column[NAME];
    if (i < n_files) {
      fprintf(out, "  {\"%s\", module_%s, sizeof(module_%s), %zu, ", name, name, name, rows[i].size);
    } else {
      fprintf(out, "  {\"%s\", NULL, 0, 0, ", name);
    }
    fprintf(out, "%s, %s, %u, 0x%xu, %d},\n", column[BINDINGS], column[IS_SUBGROUP],
            (unsigned)rows[i].contract.push_bytes, (unsigned)rows[i].contract.constants, find_long(argv + 2, n, name));
  }
  fprintf(out, "};\nconst int32_t tsr_vk_shader_count = %d;\n", n);
  free(rows);
  if (ferror(out) || fclose(out) != 0) {
    fail(argv[1], "cannot be written");
  }
  return 0;
}
