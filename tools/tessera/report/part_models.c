/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole models on a device: recordings of the original implementations, each line of the programs beside another
 * device's, and BLEU of a text in each precision.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/platform/paths.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/report/report.h"
#include "tools/tessera/report/scrub.h"

enum { TRIAL_LINES = 10, NUMBER = 32 };

static const char no_model[] = "no model is at hand: --model FOLDER names one";

/* ---- recordings -------------------------------------------------------------------------------------------------- */

/* Where the results of a folder's model are: there, or with the model that is the same in one file. */
static void find_results(const char *folder, char *results)
{
  static const char in_parts[] = "_sharded";
  size_t length = strlen(folder), tail = sizeof in_parts - 1;
  char *inner = path_join(folder, "golden.safetensors");
  snprintf(results, REPORT_PATH, "%s", folder);
  if (inner && !path_exists(inner) && length > tail && strcmp(folder + length - tail, in_parts) == 0) {
    results[length - tail] = '\0';
  }
  free(inner);
}

static void replay(report_run *run, json_t *results, const char *folder)
{
  char recorded[REPORT_PATH];
  const char *name = tsr_path_name(folder);
  report_words words = {0};
  find_results(folder, recorded);
  report_words_add(&words, "golden", folder, "--recorded", recorded, "--device", run->device, "--json", NULL);
  json_t *values = report_step(run, name, &words, NULL), *told = json_array_get(values, 0);
  if (told) {
    json_object_set_new(told, "model", json_string(name));
    json_object_set(told, "largest_error", json_object_get(json_object_get(told, "hidden_states"), "largest_error"));
    json_object_set(told, "logits_error", json_object_get(json_object_get(told, "logits"), "relative_error"));
    report_keep(results, "recordings", told, "model", "passed", "largest_error", "logits_error", NULL);
  }
  json_decref(values);
}

static int by_name(const struct dirent **left, const struct dirent **right)
{
  return strcmp((*left)->d_name, (*right)->d_name);
}

static void replay_all(report_run *run, json_t *results)
{
  struct dirent **entries = NULL;
  int n = scandir(run->files->recorded, &entries, NULL, by_name);
  for (int i = 0; i < n; i++) {
    char *folder = path_join(run->files->recorded, entries[i]->d_name);
    char *inner = folder ? path_join(folder, "golden.json") : NULL;
    if (inner && entries[i]->d_name[0] != '.' && path_exists(inner)) {
      replay(run, results, folder);
    }
    free(inner);
    free(folder);
    free(entries[i]);
  }
  free(entries);
}

/* ---- line by line ------------------------------------------------------------------------------------------------ */

static void compare(report_run *run, json_t *results)
{
  report_words words = {0};
  char devices[NUMBER + 64];
  const char *other = strncmp(run->device, "cpu", 3) == 0 || !run->files->has_cpu ? "reference" : "cpu";
  snprintf(devices, sizeof devices, "%s,%s", other, run->device);
  report_words_add(&words, "compare", run->files->model, "--devices", devices, "--json", NULL);
  json_t *values = report_step(run, "the model line by line", &words, NULL), *told = json_array_get(values, 0),
         *program;
  size_t i;
  json_array_foreach(json_object_get(told, "programs"), i, program)
  {
    json_object_set_new(program, "beside", json_string(other));
    report_keep(results, "programs", program, "kind", "beside", "lines", "largest_error", "ties", "parted", NULL);
  }
  json_decref(values);
}

static int count_agreeing(const json_t *results)
{
  size_t i;
  json_t *row;
  int n = 0;
  json_array_foreach(json_object_get(results, "recordings"), i, row)
  {
    n += json_is_true(json_object_get(row, "passed"));
  }
  return n;
}

void report_models(report_run *run, json_t *results)
{
  if (!run->files->recorded[0] && !run->files->model[0]) {
    report_leave_out(run, no_model);
    return;
  }
  if (run->files->model[0]) {
    json_object_set_new(results, "model", report_scrub_json(tsr_path_name(run->files->model)));
    compare(run, results);
  }
  if (run->files->recorded[0]) {
    replay_all(run, results);
    if (json_object_get(results, "recordings")) {
      json_object_set_new(results, "agree", json_integer(count_agreeing(results)));
      json_object_set_new(results, "recorded",
                          json_integer((json_int_t)json_array_size(json_object_get(results, "recordings"))));
    }
  }
}

/* ---- BLEU -------------------------------------------------------------------------------------------------------- */

typedef struct text_pair {
  char source[REPORT_PATH], reference[REPORT_PATH];
  int32_t n;
} text_pair;

static json_t *evaluate(report_run *run, const text_pair *text, const char *precision, double *seconds)
{
  report_words words = {0};
  report_words_add(&words, "eval", run->files->model, "--source", text->source, "--reference", text->reference,
                   "--device", run->device, "--precision", precision, "--beam", "4", "--json", NULL);
  return report_step(run, precision, &words, seconds);
}

static int cut(const report_run *run, int32_t n, text_pair *text)
{
  text->n = report_files_cut(run->files, run->files->source, "source.txt", n, text->source);
  return text->n > 0 &&
         report_files_cut(run->files, run->files->reference, "reference.txt", n, text->reference) == text->n;
}

/* As many sentences as there is time for in all precisions, by what ten took. */
static int32_t choose_lines(const report_run *run, int32_t n_precisions, double seconds)
{
  static const int32_t sizes[] = {1000, 400, 200, 100, 50, 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    if (seconds * sizes[i] / TRIAL_LINES * n_precisions < 0.8 * report_left(run)) {
      return sizes[i];
    }
  }
  return TRIAL_LINES;
}

void report_bleu(report_run *run, json_t *results)
{
  static const char *const precisions[] = {"f32", "f16", "bf16", "int8", "int4"};
  enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };
  const report_files *files = run->files;
  text_pair text;
  double seconds = 0.0;
  if (!files->model[0] || !files->source[0] || !files->reference[0]) {
    report_leave_out(run, files->model[0] ? "no text is at hand: --source and --reference name one" : no_model);
    return;
  }
  if (!cut(run, TRIAL_LINES, &text)) {
    report_note_error(run, "the text", "it cannot be read, or its translation has fewer lines");
    return;
  }
  json_t *values = evaluate(run, &text, precisions[0], &seconds);
  int32_t n = choose_lines(run, PRECISIONS, seconds);
  if (json_array_size(values) == 0 || !cut(run, n, &text)) {
    json_decref(values);
    return;
  }
  json_object_set_new(results, "model", report_scrub_json(tsr_path_name(files->model)));
  json_object_set_new(results, "text", report_scrub_json(tsr_path_name(files->source)));
  json_object_set_new(results, "sentences", json_integer(text.n));
  for (size_t i = 0; i < PRECISIONS; i++) {
    if (i > 0 || n != TRIAL_LINES) { /* the trial was all of it otherwise */
      json_decref(values);
      values = evaluate(run, &text, precisions[i], &seconds);
    }
    json_t *told = json_array_get(values, 0);
    if (told) {
      json_object_set_new(told, "precision", json_string(precisions[i]));
      json_object_set_new(told, "seconds", json_real(seconds));
      report_keep(results, "rows", told, "precision", "bleu", "chrf", "seconds", NULL);
    }
  }
  json_decref(values);
}
