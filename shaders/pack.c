/* SPDX-License-Identifier: Apache-2.0
 *
 * Run while Tessera is built: writes tsr_vk_shaders (backends/vulkan/kernel.h), each SPIR-V module deflated to a
 * third. A module whose push constants do not lie as in C is an error (reflect.h).
 *
 *     pack OUT.c [NAME BINDINGS IS_SUBGROUP]... -- [FILE.spv]...
 *
 * The files stand in the order of the rows. The last rows may have none: those are shaders without code.
 */
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

/* Writes the deflated module as an array. */
static row write_module(FILE *out, const char *name, const char *path)
{
  row result = {.size = 0};
  unsigned char *bytes = read_file(path, &result.size);
  uint32_t *words = malloc(result.size);
  uLongf n_packed = compressBound((uLong)result.size);
  unsigned char *packed = malloc(n_packed);
  if (!words || !packed) {
    fail(path, "no memory");
  }
  memcpy(words, bytes, result.size);
  const char *wrong = shader_reflect(words, result.size / sizeof *words, &result.contract);
  if (wrong) {
    fail(path, wrong);
  }
  if (compress2(packed, &n_packed, bytes, (uLong)result.size, Z_BEST_COMPRESSION) != Z_OK) {
    fail(path, "cannot be deflated");
  }
  fprintf(out, "static const unsigned char module_%s[] = {", name);
  for (uLongf i = 0; i < n_packed; i++) {
    fprintf(out, "%s%u,", i % 32 == 0 ? "\n" : "", packed[i]);
  }
  fputs("\n};\n", out);
  free(packed);
  free(words);
  free(bytes);
  return result;
}

/* Of n rows the one called NAME_long; 0: there is none. */
static int find_long(char **names, int n, const char *name)
{
  const size_t length = strlen(name);
  for (int i = 0; i < n; i++) {
    if (strncmp(names[3 * i], name, length) == 0 && strcmp(names[3 * i] + length, "_long") == 0) {
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
  const int n = (end - 2) / 3;
  const int n_files = argc - end - 1;
  if (argc < 3 || end == argc || (end - 2) % 3 != 0 || n_files > n) {
    fail("usage", "pack OUT.c [NAME BINDINGS IS_SUBGROUP]... -- [FILE.spv]...");
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
    rows[i] = write_module(out, argv[2 + 3 * i], argv[end + 1 + i]);
  }
  fputs("const tsr_vk_shader tsr_vk_shaders[] = {\n", out);
  for (int i = 0; i < n; i++) {
    char **name = argv + 2 + 3 * i;
    if (i < n_files) {
      fprintf(out, "  {\"%s\", module_%s, sizeof(module_%s), %zu, ", name[0], name[0], name[0], rows[i].size);
    } else {
      fprintf(out, "  {\"%s\", NULL, 0, 0, ", name[0]);
    }
    fprintf(out, "%s, %s, %u, 0x%xu, %d},\n", name[1], name[2], (unsigned)rows[i].contract.push_bytes,
            (unsigned)rows[i].contract.constants, find_long(argv + 2, n, name[0]));
  }
  fprintf(out, "};\nconst int32_t tsr_vk_shader_count = %d;\n", n);
  free(rows);
  if (ferror(out) || fclose(out) != 0) {
    fail(argv[1], "cannot be written");
  }
  return 0;
}
