/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera attention: what each token of a sentence attends to, in every layer and head: as a page, as a picture, as
 * numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/inspect.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/pages/heat_map.h"
#include "tools/tessera/pages/html.h"
#include "tools/tessera/text/sentence.h"

enum { KINDS = 3, LARGEST_PAGE = 1 << 25 /* weights */ };

/* The kinds of attention. */
static const struct {
  const char *name, *title, *tensor, *queries, *keys;
} kinds[KINDS] = {
    {"encoder", "Encoder", "encoder.layers.%d.self_attention.weights", "source", "source"},
    {"decoder", "Decoder, masked", "decoder.layers.%d.self_attention.weights", "target", "target"},
    {"cross", "Cross", "decoder.layers.%d.cross_attention.weights", "target", "source"},
};

typedef struct request {
  translator_settings translator;
  const char *text, *target, *out, *png;
  int32_t kind, layer, head; /* layer -1: the last; head -1: the average */
  int relative;
  int as_json;
} request;

typedef struct session {
  const request *options;
  translator translator;
  sentence sentence;
  json_t *tokens[2], *next; /* of the source, and of the target; what it is to give */
  json_t *labels[2];        /* the tokens as they are read best */
  tsr_inspection inspection;
  char device[64]; /* name */
} session;

/* The weights of a layer, [1, H, query, key], or NULL behind the last. */
static const tsr_inspected *weights_of(const session *s, int32_t kind, int32_t layer)
{
  char name[96];
  snprintf(name, sizeof name, kinds[kind].tensor, (int)layer);
  return tsr_inspection_find(&s->inspection, name);
}

static int32_t layers_of(const session *s, int32_t kind)
{
  int32_t n = 0;
  while (weights_of(s, kind, n)) {
    n++;
  }
  return n;
}

static const json_t *labels_of(const session *s, const char *side)
{
  return s->labels[strcmp(side, "target") == 0];
}

/* Vocabularies mark the pieces that begin a word, or have a blank before them. */
static const char *after_mark(const char *token)
{
  static const char *const marks[] = {"\xe2\x96\x81" /* U+2581 */, "\xc4\xa0" /* U+0120 */};
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
    if (strncmp(token, marks[i], strlen(marks[i])) == 0) {
      return token + strlen(marks[i]);
    }
  }
  return NULL;
}

/* Tokens without that mark, so that words stand for themselves, and an open box for a mark alone. Where there are
 * marks, pieces that go on with a word have a dot instead. NULL: an allocation failed. */
static json_t *make_labels(const json_t *tokens)
{
  int has_marks = 0;
  for (size_t i = 0; i < json_array_size(tokens); i++) {
    has_marks |= after_mark(json_string_value(json_array_get(tokens, i))) != NULL;
  }
  json_t *list = json_array();
  for (size_t i = 0; i < json_array_size(tokens); i++) {
    const char *token = json_string_value(json_array_get(tokens, i)), *word = after_mark(token);
    const int goes_on = has_marks && !word && i > 0 && token[0] != '<';
    json_t *label = word ? json_string(*word ? word : "\xe2\x90\xa3") /* U+2423, an open box */
                         : json_sprintf("%s%s", goes_on ? "\xc2\xb7" : "", token);
    if (json_array_append_new(list, label) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* A list of `n` values from `values` on. */
static json_t *row_json(const float *values, int64_t n)
{
  json_t *list = json_array();
  for (int64_t i = 0; i < n; i++) {
    if (json_array_append_new(list, json_real((double)values[i])) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

/* [head][query][key] */
static json_t *layer_json(const tsr_inspected *tensor)
{
  const int64_t *extent = tensor->shape.extent;
  const float *values = tensor->values;
  json_t *heads = json_array();
  int failed = !heads;
  for (int64_t h = 0; h < extent[1]; h++) {
    json_t *queries = json_array();
    for (int64_t l = 0; l < extent[2]; l++, values += extent[3]) {
      failed |= json_array_append_new(queries, row_json(values, extent[3])) != 0;
    }
    failed |= json_array_append_new(heads, queries) != 0;
  }
  if (failed) {
    json_decref(heads);
    return NULL;
  }
  return heads;
}

/* text NULL: null. */
static json_t *text_json(const char *text)
{
  return text ? tsr_cli_json_text(text, strlen(text)) : json_null();
}

static int print_json(const session *s)
{
  const sentence *of = &s->sentence;
  json_t *root = json_pack(
      "{s:o, s:s, s:{s:o, s:O, s:o}, s:{s:o, s:O, s:o, s:O, s:o}}", "model", text_json(s->translator.settings->model),
      "device", s->device, "source", "text", text_json(of->text), "tokens", s->tokens[0], "ids",
      sentence_ids(of->source, of->n_source), "target", "text", text_json(of->target_text), "tokens", s->tokens[1],
      "ids", sentence_ids(of->target, of->n_target), "next", s->next, "next_ids", sentence_ids(of->next, of->n_target));
  for (int32_t kind = 0; kind < KINDS && root; kind++) {
    json_t *layers = json_array();
    const tsr_inspected *tensor = NULL;
    int failed = 0;
    for (int32_t layer = 0; (tensor = weights_of(s, kind, layer)) != NULL; layer++) {
      failed |= json_array_append_new(layers, layer_json(tensor)) != 0;
    }
    if (json_object_set_new(root, kinds[kind].name, layers) != 0 || failed) {
      json_decref(root);
      root = NULL;
    }
  }
  enum { DIGITS = 9 /* which tell an f32 from any other */ };
  return tsr_cli_json_print(root, JSON_REAL_PRECISION(DIGITS));
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static const char style[] =
#include "tools/tessera/pages/attention.css.inc"
    ;
static const char body[] =
#include "tools/tessera/pages/attention.html.inc"
    ;

/* Appends f32 in base64, little-endian, n a multiple of 3 or the end. */
static char *put_base64(const float *values, int64_t n, char *to)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  int64_t size = n * 4;
  for (int64_t at = 0; at < size; at += 3) {
    uint32_t group = 0;
    for (int64_t i = at; i < at + 3; i++) {
      uint32_t bits = 0;
      if (i < size) {
        memcpy(&bits, &values[i / 4], sizeof bits);
      }
      group = group << 8 | (bits >> (8 * (i % 4)) & 0xFF);
    }
    for (int k = 0; k < 4; k++) {
      *to++ = k > size - at ? '=' : digits[group >> (18 - 6 * k) & 63];
    }
  }
  *to = '\0';
  return to;
}

/* The weights of a kind, all layers in a row. */
static json_t *packed(const session *s, int32_t kind)
{
  int32_t n_layers = layers_of(s, kind);
  int64_t each = n_layers > 0 ? tsr_shape_elements(&weights_of(s, kind, 0)->shape) : 0, n = each * n_layers;
  float *values = malloc((size_t)n * sizeof *values + 1);
  char *text = malloc((size_t)(n + 1) * 6 + 8);
  json_t *root = NULL;
  if (values && text) {
    for (int32_t layer = 0; layer < n_layers; layer++) {
      memcpy(values + layer * each, weights_of(s, kind, layer)->values, (size_t)each * sizeof *values);
    }
    put_base64(values, n, text);
    int64_t heads = n_layers > 0 ? weights_of(s, kind, 0)->shape.extent[1] : 0;
    root = json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:s}", "id", kinds[kind].name, "title", kinds[kind].title,
                     "queries", kinds[kind].queries, "keys", kinds[kind].keys, "layers", (int)n_layers, "heads",
                     (json_int_t)heads, "weights", text);
  }
  free(values);
  free(text);
  return root;
}

static json_t *page_json(const session *s)
{
  const sentence *of = &s->sentence;
  json_t *list = json_array();
  for (int32_t kind = 0; kind < KINDS; kind++) {
    if (layers_of(s, kind) > 0 && json_array_append_new(list, packed(s, kind)) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return json_pack("{s:[[s,o],[s,s],[s,o],[s,o]], s:{s:O, s:O}, s:{s:O, s:O, s:O}, s:o}", "about", "Model",
                   text_json(s->translator.settings->model), "Device", s->device, "Source", text_json(of->text),
                   s->options->target ? "Target" : "Translation", text_json(of->target_text), "source", "tokens",
                   s->tokens[0], "labels", s->labels[0], "target", "tokens", s->tokens[1], "labels", s->labels[1],
                   "next", s->next, "kinds", list);
}

static int write_page(const session *s, const char *path)
{
  int64_t n = 0;
  for (int32_t i = 0; i < s->inspection.n; i++) {
    n += tsr_shape_elements(&s->inspection.tensors[i].shape);
  }
  if (n > LARGEST_PAGE) {
    tsr_cli_error("%lld weights are more than a page can show (%d); --png and --json can show them", (long long)n,
                  (int)LARGEST_PAGE);
    return TSR_EXIT_INPUT;
  }
  tsr_cli_page page;
  int code = tsr_cli_page_open(&page);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  tsr_cli_html_begin(page.out, s->sentence.text, style);
  fputs("<h1>Attention</h1>\n", page.out);
  code = tsr_cli_html_json(page.out, "data", page_json(s), 0);
  fputs(body, page.out);
  tsr_cli_html_end(page.out);
  code = tsr_cli_page_close(&page, path, code);
  if (code == TSR_EXIT_OK && !s->options->as_json) {
    printf("%s: %lld weights\n", path, (long long)n);
  }
  return code;
}

/* ---- the picture ------------------------------------------------------------------------------------------------- */

/* The kind that is drawn: without one that is named the last of those that the model has. */
static int32_t kind_of(const session *s)
{
  int32_t kind = s->options->kind >= 0 ? s->options->kind : KINDS - 1;
  while (s->options->kind < 0 && kind > 0 && layers_of(s, kind) == 0) {
    kind--;
  }
  return kind;
}

/* Strings of a JSON list, borrowed; NULL: an allocation failed. */
static const char **names_of(const json_t *list)
{
  size_t n = json_array_size(list);
  const char **names = malloc((n + 1) * sizeof *names);
  for (size_t i = 0; names && i < n; i++) {
    names[i] = json_string_value(json_array_get(list, i));
  }
  return names;
}

static double largest(const double *values, int64_t n)
{
  double most = 1e-9;
  for (int64_t i = 0; i < n; i++) {
    most = values[i] > most ? values[i] : most;
  }
  return most;
}

static int draw(const session *s, const tsr_inspected *tensor, int32_t layer)
{
  const request *r = s->options;
  int32_t kind = kind_of(s);
  const int64_t *extent = tensor->shape.extent;
  int64_t n = extent[2] * extent[3], heads = r->head < 0 ? extent[1] : 1, first = r->head < 0 ? 0 : r->head;
  double *values = calloc((size_t)n + 1, sizeof *values);
  const char **rows = names_of(labels_of(s, kinds[kind].queries));
  const char **columns = names_of(labels_of(s, kinds[kind].keys));
  char title[128];
  int length = snprintf(title, sizeof title, "%s attention, layer %d, ", kinds[kind].title, (int)layer);
  if (r->head < 0) {
    snprintf(title + length, sizeof title - (size_t)length, "average of %d heads", (int)heads);
  } else {
    snprintf(title + length, sizeof title - (size_t)length, "head %d", (int)r->head);
  }
  int code = values && rows && columns ? TSR_EXIT_OK : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK) {
    for (int64_t i = 0; i < heads * n; i++) {
      values[i % n] += (double)tensor->values[first * n + i] / (double)heads;
    }
    code = heat_map_write(r->png, &(heat_map){.title = title,
                                              .n_rows = (int32_t)extent[2],
                                              .n_columns = (int32_t)extent[3],
                                              .rows = rows,
                                              .columns = columns,
                                              .values = values,
                                              .most = r->relative ? largest(values, n) : 1.0});
  }
  if (code == TSR_EXIT_OK && !r->as_json) {
    printf("%s: %s\n", r->png, title);
  }
  free(values);
  free(rows);
  free(columns);
  return code;
}

static int write_picture(const session *s)
{
  const request *r = s->options;
  int32_t kind = kind_of(s), layers = layers_of(s, kind), layer = r->layer < 0 ? layers - 1 : r->layer;
  const tsr_inspected *tensor = layer < layers ? weights_of(s, kind, layer) : NULL;
  if (!tensor) {
    tsr_cli_error("there is no layer %d of %s attention; the model has %d layers of it", (int)layer, kinds[kind].name,
                  (int)layers);
    return TSR_EXIT_USAGE;
  }
  if (r->head >= tensor->shape.extent[1]) {
    tsr_cli_error("there is no head %d of %s attention; the model has %d heads", (int)r->head, kinds[kind].name,
                  (int)tensor->shape.extent[1]);
    return TSR_EXIT_USAGE;
  }
  return draw(s, tensor, layer);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* A tsr_translator_use_fn. */
static tsr_status inspect(void *user, tsr_transformer *transformer)
{
  session *s = user;
  const sentence *of = &s->sentence;
  snprintf(s->device, sizeof s->device, "%s", tsr_device_name(tsr_transformer_device(transformer)));
  return tsr_transformer_inspect(transformer, TSR_INSPECT_SELF_ATTENTION | TSR_INSPECT_CROSS_ATTENTION, 1, of->n_source,
                                 of->source, &of->n_source, of->n_target, of->target, &s->inspection);
}

static int look(session *s)
{
  const request *r = s->options;
  sentence *of = &s->sentence;
  int code = sentence_read(&s->translator, r->text, r->target, of);
  if (code == TSR_EXIT_OK) {
    code = translator_use(&s->translator, inspect, s);
  }
  if (code != TSR_EXIT_OK) {
    return code;
  }
  s->tokens[0] = sentence_tokens(&s->translator, 0, of->source, of->n_source);
  s->tokens[1] = sentence_tokens(&s->translator, 1, of->target, of->n_target);
  s->next = sentence_tokens(&s->translator, 1, of->next, of->n_target);
  for (int i = 0; i < 2; i++) {
    s->labels[i] = s->tokens[i] ? make_labels(s->tokens[i]) : NULL;
  }
  if (!s->labels[0] || !s->labels[1] || !s->next) {
    return tsr_cli_no_memory();
  }
  if (r->png) {
    code = write_picture(s);
  }
  if (code == TSR_EXIT_OK && (r->out || (!r->png && !r->as_json))) {
    code = write_page(s, r->out ? r->out : "attention.html");
  }
  return code == TSR_EXIT_OK && r->as_json ? print_json(s) : code;
}

static int run(void *opaque)
{
  const request *r = opaque;
  session *s = calloc(1, sizeof *s);
  if (!s) {
    return tsr_cli_no_memory();
  }
  s->options = r;
  int code = translator_open(&s->translator, &r->translator);
  if (code == TSR_EXIT_OK) {
    code = look(s);
  }
  tsr_inspection_finish(&s->inspection);
  json_decref(s->tokens[0]);
  json_decref(s->tokens[1]);
  json_decref(s->next);
  json_decref(s->labels[0]);
  json_decref(s->labels[1]);
  sentence_finish(&s->sentence);
  translator_finish(&s->translator);
  free(s);
  return code;
}

static const tsr_choice kind_choices[] = {{"encoder"}, {"decoder"}, {"cross"}, {NULL}};
_Static_assert(sizeof kind_choices / sizeof kind_choices[0] == KINDS + 1, "kinds");

static int check(void *opaque)
{
  return translator_settings_one_device("attention", &((request *)opaque)->translator);
}

#define FIELD(member) TSR_FIELD(request, member)

static const tsr_option rows[] = {
    {"target", "TEXT", TSR_OPTION_TEXT, FIELD(target), .help = "what the decoder writes",
     .otherwise = "the model's own translation"},
    {"out", "FILE", TSR_OPTION_FILE, FIELD(out),
     .help = "write a page with all weights, which needs no other file and no network"},
    {"png", "FILE", TSR_OPTION_FILE, FIELD(png), .help = "write a picture of one head, or of the mean of the heads"},
    {"kind", "K", TSR_OPTION_CHOICE, FIELD(kind), .choices = kind_choices, .help = "kind of attention in the picture",
     .otherwise = "cross, or what a model without it has"},
    {"layer", "N", TSR_OPTION_INTEGER, FIELD(layer), 0, 1 << 16, .help = "layer in the picture, from 0",
     .otherwise = "the last"},
    {"head", "N", TSR_OPTION_INTEGER, FIELD(head), 0, 1 << 16, .help = "head in the picture, from 0",
     .otherwise = "the mean of all heads"},
    {"average", NULL, TSR_OPTION_FLAG, FIELD(head), .low = -1, .help = "draw the mean of all heads"},
    {"relative", NULL, TSR_OPTION_FLAG, FIELD(relative), .low = 1,
     .help = "the picture's darkest colour is its largest weight, not 1"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(as_json), .low = 1,
     .help = "print all weights as one JSON object: of each kind [layer][head][query][key]"},
    {.name = "device",
     .table = &translator_options,
     .offset = offsetof(request, translator),
     .help = TRANSLATOR_ONE_DEVICE},
    {.table = &translator_options, .offset = offsetof(request, translator)},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"MODEL", TSR_OPTION_FOLDER, offsetof(request, translator.model)},
    {"SENTENCE", TSR_OPTION_TEXT, offsetof(request, text)},
    {NULL},
};
static const request initial = {.kind = -1, .layer = -1, .head = -1};

const tsr_command tsr_command_attention = {
    .name = "attention",
    .summary = "show what each token of a sentence attends to",
    .usage = "MODEL SENTENCE [OPTION]...",
    .intro = "Shows the attention weights of every layer and head while the model reads SENTENCE and writes its "
             "translation: the encoder's self-attention, the decoder's masked self-attention, and cross-attention. "
             "Without --out, --png and --json, a page attention.html is written.",
    .options = &options,
    .operands = operands,
    .missing = "a model's folder and one sentence are needed",
    .examples = "tessera attention tools/demo-model 'The museum is worth visiting.' --png cross.png --layer 2",
    .session_size = sizeof(request),
    .initial = &initial,
    .check = check,
    .run = run,
};
