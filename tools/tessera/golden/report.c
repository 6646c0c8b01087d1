/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/golden/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"

static void print_training(const tsr_golden_training *training)
{
  printf("  %-24s loss off by %.3g, gradients of %d tensors by at most %.3g (%s), relative  %s\n", "training",
         training->loss_error, (int)training->gradients, training->gradient_error,
         training->gradient ? training->gradient : "none", training->passed ? "ok" : "DIFFERS");
  if (training->steps > 0) {
    printf("    %d steps: losses off by at most %.3g, relative; parameters by %.3g of a learning rate (%s)\n",
           (int)training->steps, training->step_error, training->parameter_error,
           training->parameter ? training->parameter : "none");
  }
}

static void print_layers(const char *name, const char *error, const tsr_golden_values *values)
{
  if (values->n > 0) {
    printf("  %-24s %d tensors, largest %s %.3g (%s)  %s\n", name, (int)values->n, error, values->error, values->name,
           values->passed ? "ok" : "DIFFERS");
  }
}

static void print_text(const golden_request *r, const char *device, const golden_error *values,
                       const tsr_golden_layers *layers, const tsr_golden_search *searches, int32_t n_searches,
                       const tsr_golden_training *training, int passed)
{
  printf("%s on %s\n", r->folder, device);
  for (int32_t i = 0; i < GOLDEN_VALUES && values[i].name; i++) {
    printf("  %-24s largest error %.3g of %.3g: relative %.3g  %s\n", values[i].name, values[i].largest,
           values[i].magnitude, values[i].relative, values[i].passed ? "ok" : "DIFFERS");
  }
  print_layers("hidden states", "relative error", &layers->hidden);
  print_layers("attention weights", "error", &layers->attention);
  for (int32_t i = 0; i < n_searches; i++) {
    const tsr_golden_search *s = &searches[i];
    printf("  %-24s %d of %d sequences equal", s->name, (int)(s->sequences - s->different), (int)s->sequences);
    if (!isnan(s->score_error)) {
      printf(", scores within %.3g", s->score_error);
    }
    printf("  %s\n", s->passed ? "ok" : "DIFFERS");
    if (s->detail[0]) {
      printf("    %s\n", s->detail);
    }
  }
  if (training->recorded) {
    print_training(training);
  }
  printf("%s\n", passed ? "all equal" : "NOT EQUAL");
}

static json_t *values_json(const golden_error *summary)
{
  return json_pack("{s:o, s:o, s:o, s:b}", "largest_error", tsr_cli_json_real(summary->largest), "magnitude",
                   tsr_cli_json_real(summary->magnitude), "relative_error", tsr_cli_json_real(summary->relative),
                   "passed", summary->passed);
}

static json_t *layers_json(const tsr_golden_values *values)
{
  return json_pack("{s:i, s:o, s:s, s:b}", "tensors", (int)values->n, "largest_error", tsr_cli_json_real(values->error),
                   "of", values->name, "passed", values->passed);
}

static json_t *training_json(const tsr_golden_training *training)
{
  if (!training->recorded) {
    return json_null();
  }
  return json_pack("{s:o, s:i, s:o, s:i, s:o, s:o, s:b}", "loss_error", tsr_cli_json_real(training->loss_error),
                   "gradients", (int)training->gradients, "gradient_error", tsr_cli_json_real(training->gradient_error),
                   "steps", (int)training->steps, "step_error", tsr_cli_json_real(training->step_error),
                   "parameter_error", tsr_cli_json_real(training->parameter_error), "passed", training->passed);
}

static int print_json(const golden_request *r, const char *device, const golden_error *values,
                      const tsr_golden_layers *layers, const tsr_golden_search *searches, int32_t n_searches,
                      const tsr_golden_training *training, int passed)
{
  json_t *list = json_array();
  for (int32_t i = 0; i < n_searches; i++) {
    const tsr_golden_search *s = &searches[i];
    json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:o, s:s, s:b}", "name", s->name, "sequences",
                                          (int)s->sequences, "different", (int)s->different, "score_error",
                                          tsr_cli_json_real(s->score_error), "detail", s->detail, "passed", s->passed));
  }
  json_t *root = json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:b}", "folder",
                           tsr_cli_json_text(r->folder, strlen(r->folder)), "device", device, "hidden_states",
                           layers_json(&layers->hidden), "attention_weights", layers_json(&layers->attention),
                           "generate", list, "training", training_json(training), "passed", passed);
  for (int32_t i = 0; i < GOLDEN_VALUES && values[i].name; i++) {
    json_object_set_new(root, values[i].name, values_json(&values[i]));
  }
  return tsr_cli_json_print(root, JSON_INDENT(2));
}

int golden_report(const golden_request *r, const char *device, const golden_outcome *o, int passed)
{
  if (r->as_json) {
    return print_json(r, device, o->values, &o->layers, o->searches, o->n, &o->training, passed);
  }
  print_text(r, device, o->values, &o->layers, o->searches, o->n, &o->training, passed);
  return TSR_EXIT_OK;
}
