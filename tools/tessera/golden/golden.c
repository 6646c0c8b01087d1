/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera golden: replays the recorded results of the original code.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/generate.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/golden/compare.h"
#include "tools/tessera/golden/fixture.h"
#include "tools/tessera/golden/golden.h"
#include "tools/tessera/golden/report.h"
#include "tools/tessera/golden/speech.h"
#include "tools/tessera/options/options.h"

/* ---- teacher forcing --------------------------------------------------------------------------------------------- */

static tsr_status replay_forward(tsr_transformer *transformer, const golden_forced *f, double tolerance,
                                 const char *const *names, golden_error *summaries)
{
  const tsr_transformer_config *config = tsr_model_config(tsr_transformer_model(transformer));
  const int32_t width = config->encoder_d_model > 0 ? config->encoder_d_model : config->d_model;
  if (f->encoder_output.width != width || f->logits.width != config->target_vocabulary) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: recorded widths %d and %d; the model has a width of %d and a vocabulary of %d",
                    "golden.safetensors", (int)f->encoder_output.width, (int)f->logits.width, (int)width,
                    (int)config->target_vocabulary);
  }
  size_t n_encoder = (size_t)f->source.n_batch * (size_t)f->source.n_length * (size_t)f->encoder_output.width;
  size_t n_logits = (size_t)f->target.n_batch * (size_t)f->target.n_length * (size_t)f->logits.width;
  float *encoder_output = malloc(n_encoder * sizeof *encoder_output);
  float *logits = malloc(n_logits * sizeof *logits);
  tsr_status status = encoder_output && logits ? TSR_OK : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  if (status == TSR_OK) {
    status = tsr_transformer_forward(transformer, f->source.n_batch, f->source.n_length, f->source.ids, f->lengths,
                                     f->target.n_length, f->target.ids, encoder_output, logits);
  }
  if (status == TSR_OK) {
    summaries[0] = golden_compare_values(names[0], &f->encoder_output, &f->source_mask, encoder_output, tolerance);
    summaries[1] = golden_compare_values(names[1], &f->logits, &f->target_mask, logits, tolerance);
  }
  free(encoder_output);
  free(logits);
  return status;
}

static tsr_status replay_layers(tsr_transformer *transformer, const golden_fixture *f, const golden_request *r,
                                tsr_golden_layers *layers)
{
  const tsr_golden_batch batch = {.tensors = f->tensors,
                                  .n_batch = f->batch.source.n_batch,
                                  .n_source = f->batch.source.n_length,
                                  .n_target = f->batch.target.n_length,
                                  .source = f->batch.source.ids,
                                  .source_mask = f->batch.source_mask.ids,
                                  .source_lengths = f->batch.lengths,
                                  .target = f->batch.target.ids,
                                  .target_mask = f->batch.target_mask.ids};
  int is_torch = strcmp(tsr_model_config(tsr_transformer_model(transformer))->family, "nn_transformer") == 0;
  double attention = r->attention_tolerance >= 0.0 ? r->attention_tolerance : is_torch ? 1e-6 : 5e-6;
  return tsr_golden_compare_layers(transformer, &batch, r->tolerance, attention, layers);
}

/* ---- searches ---------------------------------------------------------------------------------------------------- */

static tsr_status replay_search(tsr_transformer *transformer, const golden_fixture *f, const json_t *entry,
                                double tolerance, tsr_golden_search *summary)
{
  const tsr_model *model = tsr_transformer_model(transformer);
  const char *name = json_string_value(json_object_get(entry, "name"));
  char where[128];
  *summary = (tsr_golden_search){.passed = 0};
  snprintf(summary->name, sizeof summary->name, "%s", name ? name : "(no name)");
  snprintf(where, sizeof where, "golden.json: '%s'", summary->name);
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  tsr_status status = tsr_generate_defaults(model, &options);
  json_t *arguments = json_object_get(entry, "args");
  if (status == TSR_OK && arguments) {
    char *text = json_dumps(arguments, 0);
    status = text ? tsr_generate_parse(model, where, text, strlen(text), &options)
                  : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
    free(text);
  }
  const int32_t **source = malloc((size_t)f->batch.source.n_batch * sizeof *source);
  if (status == TSR_OK && !source) {
    status = tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  tsr_generation generation = {0};
  for (int32_t b = 0; source && b < f->batch.source.n_batch; b++) {
    source[b] = f->batch.source.ids + (size_t)b * (size_t)f->batch.source.n_length;
  }
  if (status == TSR_OK) {
    status = tsr_generate(transformer, f->batch.source.n_batch, source, f->batch.lengths, 0, &options, NULL, NULL,
                          &generation);
  }
  if (status == TSR_OK) {
    golden_resolve(tsr_model_config(model), &options);
    status = golden_compare_search(entry, &generation, &options, tolerance, summary);
  }
  tsr_generation_finish(&generation);
  free(source);
  return status;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static tsr_status replay_training(const golden_request *r, tsr_transformer *transformer, const golden_fixture *f,
                                  tsr_golden_training *training)
{
  golden_recorded labels = {0};
  tsr_examples examples = {.rows = f->batch.source.n_batch,
                           .source_width = f->batch.source.n_length,
                           .target_width = f->batch.target.n_length,
                           .source = f->batch.source.ids,
                           .source_lengths = f->batch.lengths,
                           .target = f->batch.target.ids};
  *training = (tsr_golden_training){.passed = 1};
  if (!tsr_checkpoint_find(f->tensors, "labels")) {
    return TSR_OK;
  }
  tsr_status status = golden_recorded_read(f->tensors, "labels", 2, &labels);
  if (status == TSR_OK && !golden_same_extents(&labels, &f->batch.target)) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: the extents of 'labels' are not those of 'decoder_input_ids'",
                      tsr_checkpoint_path(f->tensors));
  }
  for (int32_t i = 0; status == TSR_OK && i < labels.n_batch * labels.n_length; i++) {
    examples.target_tokens += labels.ids[i] >= 0;
  }
  examples.labels = labels.ids;
  if (status == TSR_OK) {
    status = tsr_golden_train(r->recorded, tsr_transformer_model(transformer), tsr_transformer_device(transformer),
                              f->golden, &examples, training);
  }
  free(labels.ids);
  return status;
}

/* ---- all of a folder --------------------------------------------------------------------------------------------- */

static tsr_status replay_all(const golden_request *r, tsr_transformer *transformer, const golden_fixture *f,
                             golden_outcome *o)
{
  const json_t *entries = json_object_get(f->golden, "generate");
  static const char *const names[GOLDEN_VALUES] = {"encoder_output", "logits", "long.encoder_output", "long.logits"};
  o->searches = calloc(json_array_size(entries) + 1, sizeof *o->searches);
  if (!o->searches) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  tsr_status status = replay_forward(transformer, &f->batch, r->tolerance, names, o->values);
  if (status == TSR_OK && f->further.lengths) {
    status = replay_forward(transformer, &f->further, r->tolerance, names + 2, o->values + 2);
  }
  if (status == TSR_OK) {
    status = replay_layers(transformer, f, r, &o->layers);
  }
  for (size_t i = 0; i < json_array_size(entries) && status == TSR_OK; i++) {
    status = replay_search(transformer, f, json_array_get(entries, i), r->score_tolerance, &o->searches[o->n++]);
  }
  return status == TSR_OK && !r->split ? replay_training(r, transformer, f, &o->training) : status;
}

static int has_passed(const golden_outcome *o)
{
  int passed = 1;
  for (int32_t i = 0; i < GOLDEN_VALUES; i++) {
    passed = passed && (!o->values[i].name || o->values[i].passed);
  }
  for (int32_t i = 0; i < o->n; i++) {
    passed = passed && o->searches[i].passed;
  }
  return passed && (o->layers.hidden.n == 0 || o->layers.hidden.passed) &&
         (o->layers.attention.n == 0 || o->layers.attention.passed) && (!o->training.recorded || o->training.passed);
}

static int replay(const golden_request *r, tsr_transformer *transformer, const golden_fixture *f)
{
  golden_outcome o = {.n = 0};
  int code = tsr_cli_fail(tsr_golden_is_marian(f->golden)
                              ? tsr_golden_marian(transformer, f->golden, r->score_tolerance, &o.searches, &o.n)
                          : tsr_golden_is_speech(f->golden) ? golden_speech(r, transformer, f, &o)
                                                            : replay_all(r, transformer, f, &o));
  int passed = has_passed(&o);
  if (code == TSR_EXIT_OK) {
    code = golden_report(r, tsr_device_name(tsr_transformer_device(transformer)), &o, passed);
  }
  free(o.searches);
  return code == TSR_EXIT_OK && !passed ? TSR_EXIT_MISMATCH : code;
}

static int run(void *opaque)
{
  const golden_request *r = opaque;
  golden_fixture f = {0};
  tsr_runtime *runtime = NULL;
  tsr_device *devices[TSR_NAMES];
  int32_t n_devices = 0;
  tsr_model *model = NULL;
  tsr_transformer *transformer = NULL;
  int code = tsr_cli_fail_input(tsr_model_open(r->folder, &model));
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(golden_fixture_read(r->recorded, &f));
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_runtime(&runtime);
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_devices(runtime, r->devices.values, r->devices.n, devices, &n_devices);
  }
  if (code == TSR_EXIT_OK) {
    tsr_transformer_options options = r->options;
    options.others = devices + 1;
    options.n_others = n_devices - 1;
    code = tsr_cli_fail(tsr_transformer_create(model, devices[0], &options, &transformer));
  }
  if (code == TSR_EXIT_OK) {
    code = replay(r, transformer, &f);
  }
  tsr_transformer_destroy(transformer);
  tsr_cli_devices_close(devices, n_devices);
  tsr_runtime_destroy(runtime);
  golden_fixture_finish(&f);
  tsr_model_close(model);
  return code;
}

static int check(void *opaque)
{
  golden_request *r = opaque;
  r->recorded = r->recorded ? r->recorded : r->folder;
  return tsr_cli_check_split("golden", r->devices.n, r->split);
}

#define FIELD(member) TSR_FIELD(golden_request, member)

static const tsr_option rows[] = {
    {"recorded", "F", TSR_OPTION_FOLDER, FIELD(recorded),
     .help = "the folder of the recorded results, if it is not the model's"},
    {"device", "D,..", TSR_OPTION_DEVICE, FIELD(devices), .is_list = 1, .help = "where to compute",
     .otherwise = "TESSERA_DEVICE, else auto"},
    {"split", NULL, TSR_OPTION_FLAG, FIELD(split), .low = 1,
     .help = "split the model over several devices, as for `translate`; recorded trainings are left out"},
    {"tolerance", "T", TSR_OPTION_NUMBER, FIELD(tolerance), 0, 1e9,
     .help = "largest error allowed, divided by the largest magnitude recorded", .preset = "2e-5"},
    {"attention", "T", TSR_OPTION_NUMBER, FIELD(attention_tolerance), 0, 1e9,
     .help = "largest error of an attention weight allowed",
     .otherwise = "1e-6 for nn.Transformer, 5e-6 for others, whose originals are themselves off by that much"},
    {"scores", "T", TSR_OPTION_NUMBER, FIELD(score_tolerance), 0, 1e9, .help = "largest error of a score allowed",
     .preset = "1e-4"},
    {"precision", "P", TSR_OPTION_PRECISION, FIELD(options.weights),
     .help = "keep matrices as f32, f16, bf16, int8 or int4", .otherwise = "as stored"},
    {"strict", NULL, TSR_OPTION_FLAG, FIELD(options.strict), .low = 1,
     .help = "refuse to run operators on another device than the one named"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(as_json), .low = 1, .help = "print one JSON object"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {{"FOLDER", TSR_OPTION_FOLDER, offsetof(golden_request, folder)}, {NULL}};
static const golden_request initial = {.attention_tolerance = -1.0, .options = {TSR_SIZED(tsr_transformer_options)}};

const tsr_command tsr_command_golden = {
    .name = "golden",
    .summary = "compare a model with recorded results of the original code",
    .usage = "FOLDER [OPTION]...",
    .intro = "Runs the model of a folder with recorded results, and compares with these: the encoder's output and the "
             "logits (only where the masks are 1), hidden states and attention weights of each layer where they are "
             "recorded, and the token ids and scores of each recorded search. The folder holds config.json, "
             "model.safetensors, golden.json and golden.safetensors; if it holds train.safetensors, the loss, the "
             "gradients of all parameters (at most 1e-4 relative) and recorded training steps are compared too. "
             "Tensors of golden.safetensors whose names begin with \"long.\" are a second batch. Of a model of speech "
             "the convolutions, the detected languages, the log-probabilities of tokens and when they are spoken are "
             "compared, too.",
    .options = &options,
    .operands = operands,
    .missing = "one folder of recorded results is needed",
    .notes = "Exit code: 0 if all agrees; 1 if something differs; others as in `tessera help`.",
    .session_size = sizeof(golden_request),
    .initial = &initial,
    .check = check,
    .run = run,
};
