/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts in words: a sentence for each part, and one for the device.
 */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "tessera/status.h"
#include "tools/tessera/report/report.h"

typedef struct sentence {
  char *text; /* [REPORT_SENTENCE] */
  size_t used;
} sentence;

static void say(sentence *s, const char *format, ...) TSR_PRINTF(2, 3);

static void say(sentence *s, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(s->text + s->used, REPORT_SENTENCE - s->used, format, arguments);
  va_end(arguments);
  s->used = n > 0 && s->used + (size_t)n < REPORT_SENTENCE ? s->used + (size_t)n : REPORT_SENTENCE - 1;
}

/* The row with the most of a member; NULL: there is none. */
static const json_t *row_with_most(const json_t *rows, const char *name)
{
  const json_t *best = NULL;
  size_t i;
  json_t *row;
  json_array_foreach(rows, i, row)
  {
    if (json_is_number(json_object_get(row, name)) && (!best || report_number(row, name) > report_number(best, name))) {
      best = row;
    }
  }
  return best;
}

static void say_operators_worst(sentence *s, const json_t *results)
{
  const char *name, *worst = NULL;
  double most = 0.0;
  json_t *row;
  json_object_foreach((json_t *)json_object_get(results, "operators"), name, row)
  {
    if (report_number(row, "error_of_bound") > most) {
      most = report_number(row, "error_of_bound");
      worst = name;
    }
  }
  if (worst) {
    say(s, "; the largest error%s is %.2f of its bound (%s)",
        report_number(results, "failed") > 0.0 ? " of the others" : "", most, worst);
  }
}

static void say_conformance(sentence *s, const json_t *results)
{
  double cases = report_number(results, "cases"), failed = report_number(results, "failed"),
         unsupported = report_number(results, "unsupported"), missed = report_number(results, "not_reached");
  say(s, "%.0f cases, ", cases);
  say(s, failed > 0 ? "%.0f FAILED" : "none failed", failed);
  if (report_text(results, "ops")[0]) {
    say(s, " (of %.60s alone)", report_text(results, "ops"));
  }
  if (unsupported > 0) {
    say(s, ", %.0f the device does not support", unsupported);
  }
  say_operators_worst(s, results);
  if (missed > 0) {
    say(s, "; there was no time for %.0f more", missed);
  }
}

static void say_forms(sentence *s, const json_t *results)
{
  const char *name;
  json_t *cases;
  int forced = 0, all = 0;
  json_object_foreach((json_t *)json_object_get(results, "variants"), name, cases)
  {
    forced += json_integer_value(cases) > 0;
    all++;
  }
  say(s, "%d of %d forms: ", forced, all);
  say_conformance(s, results);
}

static void say_models(sentence *s, const json_t *results)
{
  const json_t *recordings = json_object_get(results, "recordings"), *programs = json_object_get(results, "programs");
  size_t i;
  int good = 0, parted = 0;
  json_t *row;
  json_array_foreach(recordings, i, row)
  {
    good += json_is_true(json_object_get(row, "passed"));
  }
  if (json_array_size(recordings) > 0) {
    say(s, "%d of %d recorded models agree", good, (int)json_array_size(recordings));
  }
  json_array_foreach(programs, i, row)
  {
    parted += json_is_object(json_object_get(row, "parted"));
  }
  if (json_array_size(programs) > 0) {
    say(s, "%s%d of %d programs of %s agree line by line with %s", s->used > 0 ? "; " : "",
        (int)json_array_size(programs) - parted, (int)json_array_size(programs), report_text(results, "model"),
        report_text(json_array_get(programs, 0), "beside"));
  }
}

static void say_bleu(sentence *s, const json_t *results)
{
  size_t i;
  json_t *row;
  say(s, "BLEU of %.0f sentences:", report_number(results, "sentences"));
  json_array_foreach(json_object_get(results, "rows"), i, row)
  {
    say(s, "%s %s %.2f", i > 0 ? "," : "", report_text(row, "precision"), report_number(row, "bleu"));
  }
}

static void say_tuning(sentence *s, const json_t *results)
{
  const json_t *rows = json_object_get(results, "rows");
  size_t i;
  int kept = 0;
  double least = 1.0;
  json_t *row;
  json_array_foreach(rows, i, row)
  {
    kept += json_is_true(json_object_get(row, "kept"));
    least = fmin(least, report_number(row, "best_of_rules"));
  }
  say(s, "%d of %d classes of shapes take another form than the rules choose", kept, (int)json_array_size(rows));
  if (kept > 0) {
    say(s, ", the best %.1f times as fast; this is kept", 1.0 / least);
  }
}

static void say_of_operators(sentence *s, const json_t *results)
{
  const json_t *best = row_with_most(json_object_get(results, "rows"), "of_product");
  const json_t *copy = row_with_most(json_object_get(results, "rows"), "of_copy");
  size_t i;
  json_t *row;
  say(s, "copy %.1f GB/s", 1e-9 * report_number(results, "copy_bytes_per_second"));
  json_array_foreach(json_object_get(results, "products"), i, row)
  {
    say(s, ", %s product %.1f GFLOP/s", report_text(row, "precision"), 1e-9 * report_number(row, "flops_per_second"));
  }
  if (best && copy) {
    say(s, "; at most %.0f %% of the product (%s %s) and %.0f %% of the copy (%s)",
        100.0 * report_number(best, "of_product"), report_text(best, "op"), report_text(best, "shape"),
        100.0 * report_number(copy, "of_copy"), report_text(copy, "op"));
  }
  if (report_number(results, "not_measured") > 0) {
    say(s, "; there was no time for %.0f of %.0f cases", report_number(results, "not_measured"),
        report_number(results, "not_measured") + (double)json_array_size(json_object_get(results, "rows")));
  }
}

static void say_speed(sentence *s, const json_t *results)
{
  const json_t *best = row_with_most(json_object_get(results, "rows"), "tokens_per_second");
  if (best) {
    say(s, "up to %.0f tokens a second (%s, batch %.0f)", report_number(best, "tokens_per_second"),
        report_text(best, "precision"), report_number(best, "batch"));
  }
}

static void say_start(sentence *s, const json_t *results)
{
  size_t i;
  json_t *row;
  json_array_foreach(json_object_get(results, "rows"), i, row)
  {
    say(s, "%s%.0f ms to the first token %s", i > 0 ? ", " : "", report_number(row, "milliseconds"),
        report_text(row, "cache"));
  }
  if (json_object_get(results, "peak_memory")) {
    say(s, "%s%.0f MiB of host memory at most", s->used > 0 ? "; " : "",
        report_number(results, "peak_memory") / (1 << 20));
  }
}

static void say_training(sentence *s, const json_t *results)
{
  const json_t *best = row_with_most(json_object_get(results, "rows"), "tokens_per_second");
  if (best) {
    say(s, "up to %.0f target tokens a second (%s, batch %.0f); a step takes %.1f ms",
        report_number(best, "tokens_per_second"), report_text(best, "precision"), report_number(best, "batch"),
        report_number(best, "step_ms"));
  }
}

static const struct {
  const char *name;
  void (*say)(sentence *s, const json_t *results);
  const char *needs; /* a member of results without which there is nothing to say */
} speakers[] = {
    {"start", say_start, NULL},
    {"conformance", say_conformance, "cases"},
    {"forms", say_forms, "cases"},
    {"models", say_models, NULL},
    {"bleu", say_bleu, "rows"},
    {"tuning", say_tuning, "rows"},
    {"operators", say_of_operators, "copy_bytes_per_second"},
    {"speed", say_speed, NULL},
    {"training", say_training, NULL},
};

char *report_words_of_part(const json_t *part, char *text)
{
  const json_t *results = json_object_get(part, "results"), *errors = json_object_get(part, "errors");
  const size_t n_cut = json_array_size(json_object_get(part, "cut"));
  sentence s = {.text = text};
  text[0] = '\0';
  if (strcmp(report_text(part, "state"), report_states[REPORT_LEFT_OUT]) == 0) {
    say(&s, "%s", report_text(part, "reason"));
    return text;
  }
  for (size_t i = 0; i < sizeof speakers / sizeof speakers[0]; i++) {
    if (strcmp(speakers[i].name, report_text(part, "name")) == 0 &&
        (!speakers[i].needs || json_object_get(results, speakers[i].needs))) {
      speakers[i].say(&s, results);
    }
  }
  if (json_array_size(errors) > 0) {
    const json_t *first = json_array_get(errors, 0);
    say(&s, "%sERROR in %s: %.160s", s.used > 0 ? "; " : "", report_text(first, "what"), report_text(first, "message"));
  }
  if (n_cut > 0) {
    say(&s, "%sthere was no time for %s", s.used > 0 ? "; " : "",
        json_string_value(json_array_get(json_object_get(part, "cut"), 0)));
    if (n_cut > 1) {
      say(&s, " and %d more", (int)n_cut - 1);
    }
  }
  return text;
}

/* How many parts ended in a state. */
static int count(const json_t *device, int state)
{
  size_t i;
  json_t *part;
  int n = 0;
  json_array_foreach(json_object_get(device, "parts"), i, part)
  {
    n += strcmp(report_text(part, "state"), report_states[state]) == 0;
  }
  return n;
}

char *report_words_of_device(const json_t *device, char *text)
{
  sentence s = {.text = text};
  int failed = count(device, REPORT_FAILED), errors = count(device, REPORT_ERROR),
      incomplete = count(device, REPORT_INCOMPLETE), left_out = count(device, REPORT_LEFT_OUT),
      passed = count(device, REPORT_PASSED);
  text[0] = '\0';
  if (failed > 0) {
    say(&s, "%d part%s found results that are wrong", failed, failed > 1 ? "s" : "");
  } else if (errors > 0) {
    say(&s, "no result was wrong, but %d part%s ended with an error", errors, errors > 1 ? "s" : "");
  } else if (passed + incomplete == 0) {
    say(&s, "nothing was measured");
  } else {
    say(&s, "right in all that was looked at");
  }
  if (failed > 0 && errors > 0) {
    say(&s, ", and %d ended with an error", errors);
  }
  if (incomplete > 0) {
    say(&s, "; the time was too short for all of %d part%s", incomplete, incomplete > 1 ? "s" : "");
  }
  if (left_out > 0) {
    say(&s, "; %d left out", left_out);
  }
  return text;
}
