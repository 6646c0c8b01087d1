/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/common/common.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/utf8.h"

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void print_message(const char *prefix, const char *format, va_list arguments)
{
  fputs(prefix, stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
}

void tsr_cli_error(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  print_message("tessera: ", format, arguments);
  va_end(arguments);
}

void tsr_cli_warning(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  print_message("tessera: warning: ", format, arguments);
  va_end(arguments);
}

int tsr_cli_exit_code(tsr_status status)
{
  switch (status) {
  case TSR_OK:
    return TSR_EXIT_OK;
  case TSR_ERR_ARGUMENT:
    return TSR_EXIT_USAGE;
  case TSR_ERR_SHAPE:
  case TSR_ERR_DTYPE:
  case TSR_ERR_IO:
  case TSR_ERR_FORMAT:
    return TSR_EXIT_INPUT;
  case TSR_ERR_UNSUPPORTED:
  case TSR_ERR_DEVICE_MEMORY:
  case TSR_ERR_DEVICE_LOST:
  case TSR_ERR_NO_DEVICE:
  case TSR_ERR_PLUGIN:
    return TSR_EXIT_DEVICE;
  case TSR_ERR_OUT_OF_MEMORY:
    return TSR_EXIT_MEMORY;
  default:
    return TSR_EXIT_INTERNAL;
  }
}

int tsr_cli_fail(tsr_status status)
{
  if (status == TSR_OK) {
    return TSR_EXIT_OK;
  }
  const char *message = tsr_error_message();
  tsr_cli_error("%s", message[0] ? message : tsr_status_name(status));
  return tsr_cli_exit_code(status);
}

int tsr_cli_fail_input(tsr_status status)
{
  int code = tsr_cli_fail(status);
  return status == TSR_ERR_UNSUPPORTED ? TSR_EXIT_INPUT : code;
}

int tsr_cli_usage(const char *command, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  if (command) {
    fprintf(stderr, "tessera: %s: ", command);
    print_message("", format, arguments);
    fprintf(stderr, "Try 'tessera help %s'.\n", command);
  } else {
    print_message("tessera: ", format, arguments);
    fputs("Try 'tessera help'.\n", stderr);
  }
  va_end(arguments);
  return TSR_EXIT_USAGE;
}

int tsr_cli_no_memory(void)
{
  tsr_cli_error("out of memory");
  return TSR_EXIT_MEMORY;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

int tsr_cli_option(int argc, char **argv, const struct option *options)
{
  opterr = 0;
  int result = getopt_long(argc, argv, ":h", options, NULL);
  if (result != '?' && result != ':') {
    return result;
  }
  const char *word = argv[optind - 1];
  if (result == ':') {
    tsr_cli_usage(argv[0], "option %s needs a value", word);
  } else if (optopt != 0 && strncmp(word, "--", 2) == 0) {
    tsr_cli_usage(argv[0], "option %s takes no value", word);
  } else if (optopt != 0) {
    tsr_cli_usage(argv[0], "there is no option -%c", optopt);
  } else {
    tsr_cli_usage(argv[0], "there is no option %s, or more than one begins so", word);
  }
  return '?';
}

int tsr_cli_options(int argc, char **argv, const struct option *options, tsr_cli_take_fn take, void *wish, int *help)
{
  int code = TSR_EXIT_OK;
  for (int option; code == TSR_EXIT_OK && (option = tsr_cli_option(argc, argv, options)) != -1;) {
    if (option == 'h') {
      *help = 1;
      return TSR_EXIT_OK;
    }
    code = take(option, optarg, wish);
  }
  return code;
}

int tsr_cli_help(const char *text)
{
  fputs(text, stdout);
  return TSR_EXIT_OK;
}

int tsr_cli_run(const tsr_cli_command *command, int argc, char **argv)
{
  void *session = calloc(1, command->session_size);
  if (!session) {
    return tsr_cli_no_memory();
  }
  int finished = 0;
  int code = command->parse(argc, argv, session, &finished);
  if (code == TSR_EXIT_OK && !finished) {
    code = command->run(session);
  }
  command->finish(session);
  free(session);
  return code;
}

int tsr_cli_integer(const char *command, const char *what, const char *text, int64_t low, int64_t high, int64_t *value)
{
  char *end = NULL;
  errno = 0;
  long long parsed = strtoll(text, &end, 10);
  if (end == text || *end != '\0') {
    return tsr_cli_usage(command, "%s: '%s' is not a whole number", what, text);
  }
  if (errno == ERANGE || parsed < low || parsed > high) {
    return tsr_cli_usage(command, "%s: %s is outside %lld .. %lld", what, text, (long long)low, (long long)high);
  }
  *value = parsed;
  return TSR_EXIT_OK;
}

int tsr_cli_int32(const char *command, const char *what, const char *text, int32_t low, int32_t high, int32_t *value)
{
  int64_t wide = 0;
  int code = tsr_cli_integer(command, what, text, low, high, &wide);
  if (code == TSR_EXIT_OK) {
    *value = (int32_t)wide;
  }
  return code;
}

int tsr_cli_number(const char *command, const char *what, const char *text, double low, double high, double *value)
{
  char *end = NULL;
  errno = 0;
  double parsed = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(parsed)) {
    return tsr_cli_usage(command, "%s: '%s' is not a number", what, text);
  }
  if (parsed < low || parsed > high) {
    return tsr_cli_usage(command, "%s: %s is outside %g .. %g", what, text, low, high);
  }
  *value = parsed;
  return TSR_EXIT_OK;
}

static const struct {
  const char *name;
  tsr_dtype dtype;
} precisions[] = {{"f32", TSR_F32}, {"f16", TSR_F16}, {"bf16", TSR_BF16}, {"int8", TSR_I8}};
enum { N_PRECISIONS = sizeof precisions / sizeof precisions[0] };

const char *tsr_cli_precision_name(tsr_dtype value)
{
  for (size_t i = 0; i < N_PRECISIONS; i++) {
    if (precisions[i].dtype == value) {
      return precisions[i].name;
    }
  }
  return "stored";
}

int tsr_cli_precision(const char *command, const char *what, const char *text, tsr_dtype *value)
{
  for (size_t i = 0; i < N_PRECISIONS; i++) {
    if (strcmp(text, precisions[i].name) == 0) {
      *value = precisions[i].dtype;
      return TSR_EXIT_OK;
    }
  }
  return tsr_cli_usage(command, "%s: '%s' is none of f32, f16, bf16, int8", what, text);
}

int tsr_cli_list(const char *command, const char *what, const char *text, char ***parts, int32_t *n)
{
  int32_t count = 1;
  for (const char *at = text; *at; at++) {
    count += *at == ',';
  }
  size_t length = strlen(text) + 1;
  char **list = malloc((size_t)count * sizeof *list + length);
  if (!list) {
    return tsr_cli_no_memory();
  }
  char *copy = (char *)(list + count);
  memcpy(copy, text, length);
  for (int32_t i = 0; i < count; i++) {
    list[i] = copy;
    copy += strcspn(copy, ",");
    int empty = copy == list[i];
    *copy++ = '\0';
    if (empty) {
      free(list);
      return tsr_cli_usage(command, "%s: '%s' has an empty part", what, text);
    }
  }
  *parts = list;
  *n = count;
  return TSR_EXIT_OK;
}

/* ---- text input -------------------------------------------------------------------------------------------------- */

int tsr_cli_lines_open(tsr_cli_lines *lines, const char *path)
{
  memset(lines, 0, sizeof *lines);
  if (!path || strcmp(path, "-") == 0) {
    lines->name = "standard input";
    lines->file = stdin;
    return TSR_EXIT_OK;
  }
  lines->name = path;
  lines->file = fopen(path, "rb");
  if (!lines->file) {
    tsr_cli_error("%s: %s", path, strerror(errno));
    return TSR_EXIT_INPUT;
  }
  return TSR_EXIT_OK;
}

void tsr_cli_lines_finish(tsr_cli_lines *lines)
{
  if (lines->file && lines->file != stdin) {
    fclose(lines->file);
  }
  free(lines->text);
  memset(lines, 0, sizeof *lines);
}

const char *tsr_cli_path(const char *name)
{
  return name && strcmp(name, "-") == 0 ? "/dev/stdin" : name;
}

int tsr_cli_lines_next(tsr_cli_lines *lines, int *got)
{
  *got = 0;
  errno = 0;
  ssize_t size = getline(&lines->text, &lines->room, lines->file);
  if (size < 0) {
    if (feof(lines->file)) {
      return TSR_EXIT_OK;
    }
    int reason = errno;
    if (reason == ENOMEM) {
      return tsr_cli_no_memory();
    }
    tsr_cli_error("%s, after line %lld: %s", lines->name, (long long)lines->number, strerror(reason));
    return TSR_EXIT_INPUT;
  }
  if (size > 0 && lines->text[size - 1] == '\n') {
    size--;
    if (size > 0 && lines->text[size - 1] == '\r') {
      size--;
    }
  }
  static const char mark[] = "\xEF\xBB\xBF";
  if (lines->number == 0 && (size_t)size >= strlen(mark) && memcmp(lines->text, mark, strlen(mark)) == 0) {
    size -= (ssize_t)strlen(mark);
    memmove(lines->text, lines->text + strlen(mark), (size_t)size);
  }
  lines->text[size] = '\0';
  lines->size = (size_t)size;
  lines->number++;
  *got = 1;
  return TSR_EXIT_OK;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

int tsr_cli_flush(void)
{
  static int told;
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) {
    return TSR_EXIT_OK;
  }
  if (!told) {
    tsr_cli_error("standard output: %s", errno ? strerror(errno) : "could not be written");
    told = 1;
  }
  return TSR_EXIT_INPUT;
}

void tsr_cli_put_line(const char *text)
{
  for (; *text; text++) {
    putchar(*text == '\n' || *text == '\r' ? ' ' : *text);
  }
  putchar('\n');
}

int tsr_cli_json_print(json_t *root, size_t flags)
{
  if (!root) {
    return tsr_cli_no_memory();
  }
  char *text = json_dumps(root, flags | JSON_PRESERVE_ORDER);
  json_decref(root);
  if (!text) {
    return tsr_cli_no_memory();
  }
  puts(text);
  free(text);
  return TSR_EXIT_OK;
}

json_t *tsr_cli_json_text(const char *text, size_t size)
{
  if (size > (SIZE_MAX - 1) / 3) {
    return NULL;
  }
  char *clean = malloc(size * 3 + 1);
  if (!clean) {
    return NULL;
  }
  size_t used = tsr_utf8_clean(text, size, clean);
  json_t *string = json_stringn(clean, used);
  free(clean);
  return string;
}

json_t *tsr_cli_json_real(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

void tsr_cli_table_init(tsr_cli_table *table, int32_t n_columns, unsigned right)
{
  memset(table, 0, sizeof *table);
  table->n_columns = n_columns;
  table->right = right;
}

void tsr_cli_table_cell(tsr_cli_table *table, const char *format, ...)
{
  if (table->failed) {
    return;
  }
  if (table->n_cells == table->room) {
    size_t room = table->room ? table->room * 2 : 64;
    char **cells = realloc(table->cells, room * sizeof *cells);
    if (!cells) {
      table->failed = 1;
      return;
    }
    table->cells = cells;
    table->room = room;
  }
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *cell = length < 0 ? NULL : malloc((size_t)length + 1);
  if (!cell) {
    table->failed = 1;
    return;
  }
  va_start(arguments, format);
  vsnprintf(cell, (size_t)length + 1, format, arguments);
  va_end(arguments);
  table->cells[table->n_cells++] = cell;
}

/* Code points, which is what a terminal's columns are for the scripts that appear here. */
static int text_width(const char *text)
{
  int width = 0;
  for (; *text; text++) {
    width += ((unsigned char)*text & 0xC0) != 0x80;
  }
  return width;
}

int tsr_cli_table_print(const tsr_cli_table *table, FILE *out)
{
  if (table->failed) {
    return tsr_cli_no_memory();
  }
  int width[TSR_TABLE_COLUMNS] = {0};
  size_t n_columns = (size_t)table->n_columns;
  for (size_t i = 0; i < table->n_cells; i++) {
    int cell = text_width(table->cells[i]);
    if (cell > width[i % n_columns]) {
      width[i % n_columns] = cell;
    }
  }
  for (size_t i = 0; i < table->n_cells; i++) {
    size_t column = i % n_columns;
    int last = column + 1 == n_columns || i + 1 == table->n_cells;
    int right = (table->right >> column) & 1u;
    int padding = width[column] - text_width(table->cells[i]);
    fprintf(out, "%*s%s", right ? padding : 0, "", table->cells[i]);
    if (last) {
      fputc('\n', out);
    } else {
      fprintf(out, "%*s", (right ? 0 : padding) + 2, "");
    }
  }
  return TSR_EXIT_OK;
}

void tsr_cli_table_finish(tsr_cli_table *table)
{
  for (size_t i = 0; i < table->n_cells; i++) {
    free(table->cells[i]);
  }
  free(table->cells);
  memset(table, 0, sizeof *table);
}

char *tsr_cli_grouped(int64_t value, char *text)
{
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%lld", (long long)value);
  int negative = value < 0;
  char *to = text;
  for (int i = 0; i < length; i++) {
    if (i > negative && (length - i) % 3 == 0) {
      *to++ = ',';
    }
    *to++ = digits[i];
  }
  *to = '\0';
  return text;
}

char *tsr_cli_bytes(uint64_t bytes, char *text)
{
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    snprintf(text, 32, "%d B", (int)bytes);
    return text;
  }
  double value = (double)bytes / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
    value /= 1024;
    unit++;
  }
  snprintf(text, 32, value < 10 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

void tsr_cli_progress_start(tsr_cli_progress *progress, const char *what)
{
  memset(progress, 0, sizeof *progress);
  progress->what = what;
  progress->shown = isatty(STDERR_FILENO);
  progress->start = tsr_cli_seconds();
  progress->last = progress->start;
}

void tsr_cli_progress_update(tsr_cli_progress *progress, int64_t done, int64_t total)
{
  double now = tsr_cli_seconds();
  if (!progress->shown || now - progress->last < 0.1) {
    return;
  }
  progress->last = now;
  progress->drawn = 1;
  double elapsed = now - progress->start;
  if (total <= 0) {
    fprintf(stderr, "\r\033[K%s  %lld  %.0f s", progress->what, (long long)done, elapsed);
    return;
  }
  enum { BAR = 30 };
  char bar[BAR + 1];
  int filled = (int)(BAR * (double)done / (double)total);
  for (int i = 0; i < BAR; i++) {
    bar[i] = i < filled ? '#' : '.';
  }
  bar[BAR] = '\0';
  fprintf(stderr, "\r\033[K%s  [%s]  %lld of %lld  %.0f s", progress->what, bar, (long long)done, (long long)total,
          elapsed);
  if (done > 0 && done < total) {
    fprintf(stderr, ", about %.0f s more", elapsed * (double)(total - done) / (double)done);
  }
}

void tsr_cli_progress_clear(tsr_cli_progress *progress)
{
  if (progress->drawn) {
    fputs("\r\033[K", stderr);
    progress->drawn = 0;
  }
}

double tsr_cli_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
