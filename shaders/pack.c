/* SPDX-License-Identifier: Apache-2.0
 *
 * Run while Tessera is built: writes tsr_vk_variants (backends/vulkan/kernel.h), each SPIR-V module deflated to a third.
 *
 *     pack OUT.c [NAME BINDINGS IS_SUBGROUP PUSH_BYTES]... -- [FILE.spv]...     files in the order of the rows; the last rows may have
 *                                                                   none: those are variants without code
 */
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

/* Writes the deflated module as an array; returns the size before. */
static size_t write_module(FILE *out, const char *name, const char *path)
{
  size_t size = 0;
  unsigned char *bytes = read_file(path, &size);
  uLongf n_packed = compressBound((uLong)size);
  unsigned char *packed = malloc(n_packed);
  if (!packed || compress2(packed, &n_packed, bytes, (uLong)size, Z_BEST_COMPRESSION) != Z_OK) {
    fail(path, "cannot be deflated");
  }
  fprintf(out, "static const unsigned char module_%s[] = {", name);
  for (uLongf i = 0; i < n_packed; i++) {
    fprintf(out, "%s%u,", i % 32 == 0 ? "\n" : "", packed[i]);
  }
  fputs("\n};\n", out);
  free(packed);
  free(bytes);
  return size;
}

int main(int argc, char **argv)
{
  int end = 2;
  while (end < argc && strcmp(argv[end], "--") != 0) {
    end++;
  }
  const int n = (end - 2) / 4;
  const int n_files = argc - end - 1;
  if (argc < 3 || end == argc || (end - 2) % 4 != 0 || n_files > n) {
    fail("usage", "pack OUT.c [NAME BINDINGS IS_SUBGROUP PUSH_BYTES]... -- [FILE.spv]...");
  }
  FILE *out = fopen(argv[1], "w");
  if (!out) {
    fail(argv[1], strerror(errno));
  }
  size_t *sizes = calloc((size_t)n + 1, sizeof *sizes);
  if (!sizes) {
    fail(argv[1], "no memory");
  }
  fputs("/* Written by shaders/pack.c */\n#include \"backends/vulkan/kernel.h\"\n\n", out);
  for (int i = 0; i < n_files; i++) {
    sizes[i] = write_module(out, argv[2 + 4 * i], argv[end + 1 + i]);
  }
  fputs("const tsr_vk_variant tsr_vk_variants[] = {\n", out);
  for (int i = 0; i < n; i++) {
    char **row = argv + 2 + 4 * i;
    if (i >= n_files) {
      fprintf(out, "  {\"%s\", NULL, 0, 0, %s, %s, %s},\n", row[0], row[1], row[2], row[3]);
      continue;
    }
    fprintf(out, "  {\"%s\", module_%s, sizeof(module_%s), %zu, %s, %s, %s},\n", row[0], row[0], row[0], sizes[i],
            row[1], row[2], row[3]);
  }
  fprintf(out, "};\nconst int32_t tsr_vk_variant_count = %d;\n", n);
  free(sizes);
  if (ferror(out) || fclose(out) != 0) {
    fail(argv[1], "cannot be written");
  }
  return 0;
}
