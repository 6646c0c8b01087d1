/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera bench compare: two files that --json wrote, line by line.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"

/* What a line tells of, as far as it is there; all else is a number that was measured, or a remark. */
static const char
    *const key_names[] =
        {"op",        "what",       "product", "shape",          "precision",
         "side",      "device",     "cache",   "variant",        "threads",
         "batch",     "beam",       "source",  "target",         "workers",
         "sentences", "d_model",    "heads",   "encoder_layers", "decoder_layers",
         "d_ff",      "vocabulary", "dropout", "recompute",      "memory_read",
         "load",      "texts",      "model"}; /* the model last: a folder's name may be longer than there is room */
enum { KEYS = sizeof key_names / sizeof key_names[0], KEY_ROOM = 1024 };

typedef struct request {
  const char *files[2];
  double fail_below; /* 0: never */
  int changed;
  int as_json;
} request;

typedef struct result_file {
  json_t **lines; /* [n] */
  char (*keys)[KEY_ROOM];
  size_t n;
  size_t room;
} result_file;

typedef struct session {
  request options;
  result_file old, new;
  tsr_cli_table table;
  int64_t compared;
  int64_t faster;
  int64_t slower;
  int64_t failed;
  int64_t missing; /* numbers that the old file has and the new one lacks; */
  int64_t shared;  /* numbers, missing ones too, of lines that both have */
} session;

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void finish_file(result_file *file)
{
  for (size_t i = 0; i < file->n; i++) {
    json_decref(file->lines[i]);
  }
  free(file->lines);
  free(file->keys);
}

/* "matmul 512x512x512 f32 vulkan:0": the values of the keys, numbers with their names. */
static void make_key(const json_t *line, char *key)
{
  size_t used = 0;
  key[0] = '\0';
  for (int32_t i = 0; i < KEYS && used < KEY_ROOM; i++) {
    const json_t *value = json_object_get(line, key_names[i]);
    const char *blank = used > 0 ? " " : "";
    if (json_is_string(value)) {
      used += (size_t)snprintf(key + used, KEY_ROOM - used, "%s%s", blank, json_string_value(value));
    } else if (json_is_integer(value)) {
      used += (size_t)snprintf(key + used, KEY_ROOM - used, "%s%s=%lld", blank, key_names[i],
                               (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
      used += (size_t)snprintf(key + used, KEY_ROOM - used, "%s%s=%g", blank, key_names[i], json_real_value(value));
    } else if (json_is_true(value)) {
      used += (size_t)snprintf(key + used, KEY_ROOM - used, "%s%s", blank, key_names[i]);
    }
  }
}

static int add_line(result_file *file, json_t *line)
{
  if (file->n == file->room) {
    size_t room = file->room ? 2 * file->room : 64;
    json_t **lines = realloc(file->lines, room * sizeof(json_t *));
    file->lines = lines ? lines : file->lines;
    char(*keys)[KEY_ROOM] = lines ? realloc(file->keys, room * sizeof *keys) : NULL;
    file->keys = keys ? keys : file->keys;
    if (!lines || !keys) {
      json_decref(line);
      return tsr_cli_no_memory();
    }
    file->room = room;
  }
  file->lines[file->n] = line;
  make_key(line, file->keys[file->n++]);
  return TSR_EXIT_OK;
}

static int read_file(const char *path, result_file *file)
{
  tsr_cli_lines lines;
  int code = tsr_cli_lines_open(&lines, path);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  for (int got = 1; code == TSR_EXIT_OK && got;) {
    code = tsr_cli_lines_next(&lines, &got);
    if (code != TSR_EXIT_OK || !got || lines.size == 0) {
      continue;
    }
    json_error_t error;
    json_t *line = json_loadb(lines.text, lines.size, 0, &error);
    if (json_is_object(line)) {
      code = add_line(file, line);
      continue;
    }
    tsr_cli_error("%s, line %lld: not a JSON object, as `tessera bench --json` prints them%s%s", lines.name,
                  (long long)lines.number, line ? "" : ": ", line ? "" : error.text);
    json_decref(line);
    code = TSR_EXIT_INPUT;
  }
  tsr_cli_lines_finish(&lines);
  if (code == TSR_EXIT_OK && file->n == 0) {
    tsr_cli_error("%s: no line in it", path);
    code = TSR_EXIT_INPUT;
  }
  return code;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* {"median": .., "min": .., "max": ..}; 0 if it is none, or none that can be compared. */
static int read_summary(const json_t *value, bench_summary *summary)
{
  const json_t *median = json_object_get(value, "median");
  const json_t *least = json_object_get(value, "min"), *most = json_object_get(value, "max");
  *summary = (bench_summary){json_number_value(median), json_number_value(least), json_number_value(most)};
  return json_is_number(median) && json_is_number(least) && json_is_number(most) && summary->median > 0.0;
}

/* Of "tokens_per_second" more is better, of "step_ms" less. */
static int counts_speed(const char *name)
{
  static const char ending[] = "_per_second";
  size_t length = strlen(name), end = sizeof ending - 1;
  return length > end && strcmp(name + length - end, ending) == 0;
}

static int tell(session *s, const char *key, const char *name, const bench_summary *old, const bench_summary *new)
{
  double ratio = counts_speed(name) ? new->median / old->median : old->median / new->median;
  int beyond = new->least > old->most || new->most < old->least;
  const char *mark = !beyond ? "" : ratio > 1.0 ? "faster" : "slower";
  int fails = beyond && ratio < s->options.fail_below;
  s->compared++;
  s->faster += beyond && ratio > 1.0;
  s->slower += beyond && ratio <= 1.0;
  s->failed += fails;
  if (s->options.changed && !beyond) {
    return TSR_EXIT_OK;
  }
  if (s->options.as_json) {
    return tsr_cli_json_print(json_pack("{s:o, s:s, s:f, s:f, s:f, s:b, s:b}", "of",
                                        tsr_cli_json_text(key, strlen(key)), "number", name, "old", old->median, "new",
                                        new->median, "ratio", ratio, "beyond_noise", beyond, "fails", fails),
                              JSON_REAL_PRECISION(6));
  }
  tsr_cli_table_cell(&s->table, "%s", key);
  tsr_cli_table_cell(&s->table, "%s", name);
  tsr_cli_table_cell(&s->table, "%.6g", old->median);
  tsr_cli_table_cell(&s->table, "%.6g", new->median);
  tsr_cli_table_cell(&s->table, "%.3f", ratio);
  tsr_cli_table_cell(&s->table, "%s", mark);
  return TSR_EXIT_OK;
}

/* A change that breaks a case must not look like one that costs nothing. */
static int tell_missing(session *s, const char *key, const char *name, const bench_summary *old)
{
  s->missing++;
  if (s->options.as_json) {
    return tsr_cli_json_print(json_pack("{s:o, s:s, s:f, s:n, s:n, s:b, s:b}", "of",
                                        tsr_cli_json_text(key, strlen(key)), "number", name, "old", old->median, "new",
                                        "ratio", "missing", 1, "fails", s->options.fail_below > 0.0),
                              JSON_REAL_PRECISION(6));
  }
  tsr_cli_table_cell(&s->table, "%s", key);
  tsr_cli_table_cell(&s->table, "%s", name);
  tsr_cli_table_cell(&s->table, "%.6g", old->median);
  tsr_cli_table_cell(&s->table, "-");
  tsr_cli_table_cell(&s->table, "-");
  tsr_cli_table_cell(&s->table, "missing");
  return TSR_EXIT_OK;
}

/* new: NULL if the new file lacks the line. */
static int compare_lines(session *s, const char *key, json_t *old, const json_t *new)
{
  int code = TSR_EXIT_OK;
  const char *name;
  json_t *value;
  json_object_foreach(old, name, value)
  {
    bench_summary before, after;
    if (code != TSR_EXIT_OK || !read_summary(value, &before)) {
      continue;
    }
    s->shared += new != NULL;
    code = read_summary(json_object_get(new, name), &after) ? tell(s, key, name, &before, &after)
                                                            : tell_missing(s, key, name, &before);
  }
  return code;
}

/* The line of `file` with that key, from `start` on; file->n if there is none. */
static size_t find(const result_file *file, size_t start, const char *key)
{
  while (start < file->n && strcmp(file->keys[start], key) != 0) {
    start++;
  }
  return start;
}

/* How often lines[index]'s key stands before it: the third line of a kind belongs to the third one. */
static size_t count_before(const result_file *file, size_t index)
{
  size_t count = 0;
  for (size_t i = 0; i < index; i++) {
    count += strcmp(file->keys[i], file->keys[index]) == 0;
  }
  return count;
}

static size_t find_partner(const result_file *file, size_t index, const result_file *in)
{
  size_t at = find(in, 0, file->keys[index]);
  for (size_t skip = count_before(file, index); skip > 0 && at < in->n; skip--) {
    at = find(in, at + 1, file->keys[index]);
  }
  return at;
}

static size_t count_alone(const result_file *file, const result_file *other)
{
  size_t alone = 0;
  for (size_t i = 0; i < file->n; i++) {
    alone += find_partner(file, i, other) == other->n;
  }
  return alone;
}

static int compare_files(session *s)
{
  static const char *const columns[] = {"of", "number", "old", "new", "ratio", ""};
  enum { COLUMNS = sizeof columns / sizeof columns[0] };
  int code = TSR_EXIT_OK;
  tsr_cli_table_begin(&s->table, columns, COLUMNS, 0x1c);
  for (size_t i = 0; i < s->old.n && code == TSR_EXIT_OK; i++) {
    size_t at = find_partner(&s->old, i, &s->new);
    code = compare_lines(s, s->old.keys[i], s->old.lines[i], at < s->new.n ? s->new.lines[at] : NULL);
  }
  if (code == TSR_EXIT_OK && s->shared == 0) {
    tsr_cli_error("%s and %s have nothing in common that was measured", s->options.files[0], s->options.files[1]);
    return TSR_EXIT_INPUT;
  }
  if (code == TSR_EXIT_OK && !s->options.as_json) {
    code = tsr_cli_table_print(&s->table, stdout);
    printf("%lld numbers, %lld faster and %lld slower beyond noise, %lld missing; lines only in %s: %lld, only in %s: "
           "%lld\n",
           (long long)s->compared, (long long)s->faster, (long long)s->slower, (long long)s->missing,
           s->options.files[0], (long long)count_alone(&s->old, &s->new), s->options.files[1],
           (long long)count_alone(&s->new, &s->old));
  }
  return code;
}

static int run(void *state)
{
  session *s = state;
  int code = read_file(s->options.files[0], &s->old);
  if (code == TSR_EXIT_OK) {
    code = read_file(s->options.files[1], &s->new);
  }
  if (code == TSR_EXIT_OK) {
    code = compare_files(s);
  }
  if (code == TSR_EXIT_OK && s->failed > 0) {
    tsr_cli_error("bench: %lld of %lld numbers are below %g times as fast, beyond noise", (long long)s->failed,
                  (long long)s->compared, s->options.fail_below);
  }
  if (code == TSR_EXIT_OK && s->missing > 0 && s->options.fail_below > 0.0) {
    tsr_cli_error("bench: %lld numbers of %s are missing in %s", (long long)s->missing, s->options.files[0],
                  s->options.files[1]);
  }
  if (code == TSR_EXIT_OK && (s->failed > 0 || (s->missing > 0 && s->options.fail_below > 0.0))) {
    code = TSR_EXIT_MISMATCH;
  }
  return code;
}

static void finish(void *state)
{
  session *s = state;
  tsr_cli_table_finish(&s->table);
  finish_file(&s->old);
  finish_file(&s->new);
}

static const tsr_option rows[] = {
    {"fail-below", "R", TSR_OPTION_NUMBER, TSR_FIELD(session, options.fail_below), 0, 1e6,
     .help = "end with exit code 1 if something is missing, or is less than R times as fast, beyond noise"},
    {"changed", NULL, TSR_OPTION_FLAG, TSR_FIELD(session, options.changed), .low = 1,
     .help = "print only what is beyond noise, or missing"},
    {"json", NULL, TSR_OPTION_FLAG, TSR_FIELD(session, options.as_json), .low = 1,
     .help = "print one JSON object a line"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"OLD", TSR_OPTION_FILE, offsetof(session, options.files[0])},
    {"NEW", TSR_OPTION_FILE, offsetof(session, options.files[1])},
    {NULL},
};

const tsr_command bench_compare = {
    .name = "compare",
    .parent = "bench",
    .usage = "OLD NEW [OPTION]...",
    .intro =
        "Compares two files of lines as `tessera bench ... --json` prints them: for each number that both measured, it "
        "prints the medians and how many times as fast NEW is (above 1: faster). A difference is marked (faster, "
        "slower) if it is beyond noise: if the two ranges from min to max do not overlap. Lines belong together if "
        "they have the same shape, device and so on. A number that only OLD has is shown as missing.",
    .options = &options,
    .operands = operands,
    .missing = "two files are needed",
    .session_size = sizeof(session),
    .run = run,
    .finish = finish,
};
