/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera translate: text in, one sentence a line, and its translation out.
 *
 * The input is taken in chunks of lines, so that a stream of any length is translated in constant memory, and the
 * batches within a chunk can still be sorted by length.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tessera/generate.h"
#include "tessera/text.h"
#include "tools/tessera/common.h"

static const char help[] =
    "Usage: tessera translate --model FOLDER [OPTION]... [FILE]\n"
    "\n"
    "Reads sentences from FILE or standard input, one a line, and prints their translations in the\n"
    "same order. An empty line gives an empty line.\n"
    "\n"
    "  --model FOLDER         the model: config.json, model.safetensors, its tokenizer's files\n"
    "  --device NAME          where to compute: vulkan:0, reference, auto ... (see `tessera devices`);\n"
    "                         default: TESSERA_DEVICE, else auto\n"
    "  --beam N               hypotheses kept by the search, 1 to 64; 1 is greedy search\n"
    "  --max-length N         tokens of a translation at most, start and end tokens included\n"
    "  --length-penalty X     exponent of the length by which a hypothesis' score is divided\n"
    "                         (these three default to what the model's generation_config.json says)\n"
    "  --batch N              sentences computed at once, 1 to 1024; default: 32, and fewer with a\n"
    "                         wide beam on a CPU\n"
    "  --workers N            batches computed side by side, each on a thread, 1 to 1024; default: as\n"
    "                         many as the device executes side by side, if there are sentences enough\n"
    "  --precision P          how the weights are kept on the device: f32, f16, bf16, or int8, a\n"
    "                         quarter of f32, with which products are computed in whole numbers;\n"
    "                         default: as in the model's file\n"
    "  --strict               fail where the device lacks an operator, instead of computing it on\n"
    "                         another device\n"
    "  --scores               print each translation's score and a tab before it (nan for greedy\n"
    "                         search, which computes none)\n"
    "  --json                 print one JSON object a line: line, source, translation, score, ids\n"
    "  --timings              print on stderr what loading and translating took\n"
    "  --help                 print this text\n"
    "\n"
    "A sentence with more tokens than the model has positions is cut, with a warning.\n"
    "\n"
    "Example:\n"
    "  echo 'The museum is worth visiting.' | tessera translate --model tools/demo-model\n";

enum { CHUNK_LINES = 1000 };

typedef struct settings {
  const char *model;
  const char *device;
  const char *file; /* NULL: standard input */
  int32_t beam;     /* 0: the model's; likewise max_length */
  int32_t max_length;
  double length_penalty;
  int has_length_penalty;
  int32_t batch; /* 0: the library's default; likewise workers */
  int32_t workers;
  tsr_dtype weights; /* 0: as stored */
  int strict;
  int scores;
  int json;
  int timings;
} settings;

typedef struct translator {
  const settings *wish;
  tsr_model *model;
  tsr_tokenizer *tokenizer;
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_transformer *transformer;
  tsr_generate_options options;
  tsr_cli_progress progress;
  int64_t done; /* sentences of the chunks before this one */
} translator;

/* The lines of a chunk. */
typedef struct chunk {
  int32_t n;
  char *text[CHUNK_LINES]; /* kept for --json only */
  size_t size[CHUNK_LINES];
  int32_t *ids[CHUNK_LINES];
  int32_t n_ids[CHUNK_LINES];
} chunk;

static void chunk_clear(chunk *c)
{
  for (int32_t i = 0; i < c->n; i++) {
    free(c->text[i]);
    tsr_free(c->ids[i]);
  }
  c->n = 0;
}

static int parse(int argc, char **argv, settings *wish, int *finished)
{
  static const struct option options[] = {{"model", required_argument, NULL, 'm'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"beam", required_argument, NULL, 'b'},
                                          {"batch", required_argument, NULL, 'n'},
                                          {"workers", required_argument, NULL, 'w'},
                                          {"max-length", required_argument, NULL, 'l'},
                                          {"length-penalty", required_argument, NULL, 'p'},
                                          {"precision", required_argument, NULL, 'P'},
                                          {"strict", no_argument, NULL, 's'},
                                          {"scores", no_argument, NULL, 'S'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"timings", no_argument, NULL, 't'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  const char *me = argv[0];
  int code = TSR_EXIT_OK;
  for (int option; code == TSR_EXIT_OK && (option = tsr_cli_option(argc, argv, options)) != -1;) {
    switch (option) {
    case 'm':
      wish->model = optarg;
      break;
    case 'd':
      wish->device = optarg;
      break;
    case 'b':
      code = tsr_cli_int32(me, "--beam", optarg, 1, 64, &wish->beam);
      break;
    case 'n':
      code = tsr_cli_int32(me, "--batch", optarg, 1, 1024, &wish->batch);
      break;
    case 'w':
      code = tsr_cli_int32(me, "--workers", optarg, 1, 1024, &wish->workers);
      break;
    case 'l':
      code = tsr_cli_int32(me, "--max-length", optarg, 2, 1 << 20, &wish->max_length);
      break;
    case 'p':
      code = tsr_cli_number(me, "--length-penalty", optarg, -100, 100, &wish->length_penalty);
      wish->has_length_penalty = 1;
      break;
    case 'P':
      code = tsr_cli_precision(me, "--precision", optarg, &wish->weights);
      break;
    case 's':
      wish->strict = 1;
      break;
    case 'S':
      wish->scores = 1;
      break;
    case 'j':
      wish->json = 1;
      break;
    case 't':
      wish->timings = 1;
      break;
    case 'h':
      *finished = 1;
      return tsr_cli_help(help);
    default:
      return TSR_EXIT_USAGE;
    }
  }
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (!wish->model) {
    return tsr_cli_usage(me, "--model is missing");
  }
  if (argc - optind > 1) {
    return tsr_cli_usage(me, "takes one file, but '%s' is given, too", argv[optind + 1]);
  }
  wish->file = optind < argc ? argv[optind] : NULL;
  return TSR_EXIT_OK;
}

static void translator_finish(translator *t)
{
  tsr_transformer_destroy(t->transformer);
  tsr_device_close(t->device);
  tsr_runtime_destroy(t->runtime);
  tsr_tokenizer_close(t->tokenizer);
  tsr_model_close(t->model);
}

/* What the model asks for, overridden by what the command line says. */
static int choose_options(translator *t)
{
  const settings *wish = t->wish;
  tsr_status status = tsr_generate_defaults(t->model, &t->options);
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  t->options.n_best = 1;
  if (wish->beam > 0) {
    t->options.beam = wish->beam;
  }
  if (wish->max_length > 0) {
    t->options.max_length = wish->max_length;
  }
  if (wish->has_length_penalty) {
    t->options.length_penalty = (float)wish->length_penalty;
  }
  int32_t positions = tsr_model_config(t->model)->max_positions;
  if (positions > 0 && t->options.max_length > positions) {
    if (wish->max_length > 0) {
      tsr_cli_warning("--max-length %d is more than the model's %d positions; taking %d", wish->max_length, positions,
                      positions);
    }
    t->options.max_length = positions;
  }
  return TSR_EXIT_OK;
}

static int translator_open(translator *t)
{
  const settings *wish = t->wish;
  tsr_status status = tsr_model_open(wish->model, &t->model);
  if (status == TSR_OK && !tsr_model_has_weights(t->model)) {
    status = tsr_fail(
        TSR_ERR_IO,
        "%s: holds no model.safetensors; weights in another form (pytorch_model.bin) have to be converted first",
        wish->model);
  }
  if (status == TSR_OK) {
    status = tsr_tokenizer_open(t->model, &t->tokenizer);
  }
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  int code = choose_options(t);
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_runtime(&t->runtime);
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_device(t->runtime, wish->device, &t->device);
  }
  if (code == TSR_EXIT_OK) {
    tsr_transformer_options options = {.weights = wish->weights, .strict = wish->strict, .workers = wish->workers};
    code = tsr_cli_fail(tsr_transformer_create(t->model, t->device, &options, &t->transformer));
  }
  return code;
}

/* Adds a line to the chunk as token ids. */
static int add_line(translator *t, const tsr_cli_lines *lines, chunk *c)
{
  const tsr_transformer_config *config = tsr_model_config(t->model);
  int32_t *ids = NULL;
  int32_t n_ids = 0;
  tsr_status status = tsr_tokenizer_encode(t->tokenizer, lines->text, lines->size, &ids, &n_ids);
  if (status != TSR_OK) {
    return tsr_cli_fail(tsr_fail_context(status, "%s, line %lld", lines->name, (long long)lines->number));
  }
  if (n_ids == 1) {
    n_ids = 0; /* the end of the sentence, and no text before it: nothing to translate */
  }
  int32_t positions = config->max_positions;
  if (positions > 0 && n_ids > positions) {
    tsr_cli_progress_clear(&t->progress);
    tsr_cli_warning("%s, line %lld: %d tokens, cut to the model's %d positions", lines->name, (long long)lines->number,
                    n_ids, positions);
    ids[positions - 1] = ids[n_ids - 1];
    n_ids = positions;
  }
  c->ids[c->n] = ids;
  c->n_ids[c->n] = n_ids;
  c->text[c->n] = NULL;
  c->size[c->n] = lines->size;
  if (t->wish->json) {
    c->text[c->n] = malloc(lines->size + 1);
    if (!c->text[c->n]) {
      tsr_free(ids);
      return tsr_cli_no_memory();
    }
    memcpy(c->text[c->n], lines->text, lines->size + 1);
  }
  c->n++;
  return TSR_EXIT_OK;
}

static int print_json(const chunk *c, int32_t i, int64_t line, const char *translation, const tsr_hypothesis *best)
{
  json_t *ids = json_array();
  int failed = !ids;
  for (int32_t k = 0; k < best->n_ids; k++) {
    failed |= json_array_append_new(ids, json_integer(best->ids[k])) != 0;
  }
  json_t *root = json_pack("{s:I, s:o, s:o, s:o, s:o}", "line", (json_int_t)line, "source",
                           tsr_cli_json_text(c->text[i], c->size[i]), "translation",
                           tsr_cli_json_text(translation, strlen(translation)), "score", tsr_cli_json_real(best->score),
                           "ids", ids);
  if (failed) {
    json_decref(root);
    root = NULL;
  }
  return tsr_cli_json_print(root, 0);
}

static void print_score(float score)
{
  if (isnan(score)) {
    fputs("nan\t", stdout); /* printf may add a sign */
  } else {
    printf("%.6f\t", (double)score);
  }
}

/* first: the number of the chunk's first line. */
static int print_chunk(translator *t, const chunk *c, int64_t first, const tsr_generation *generation)
{
  for (int32_t i = 0; i < c->n; i++) {
    const tsr_hypothesis *best = &generation->hypotheses[(int64_t)i * generation->n_best];
    char *text = NULL;
    tsr_status status = tsr_tokenizer_decode(t->tokenizer, best->ids, best->n_ids, &text);
    if (status != TSR_OK) {
      return tsr_cli_fail(status);
    }
    int code = TSR_EXIT_OK;
    if (t->wish->json) {
      code = print_json(c, i, first + i, text, best);
    } else if (t->wish->scores && c->n_ids[i] > 0) {
      print_score(best->score);
      puts(text);
    } else {
      puts(text);
    }
    tsr_free(text);
    if (code != TSR_EXIT_OK) {
      return code;
    }
  }
  return tsr_cli_flush();
}

static void on_progress(void *user, int64_t done, int64_t total)
{
  translator *t = user;
  (void)total; /* of this chunk; how much is still to come is not known */
  tsr_cli_progress_update(&t->progress, t->done + done, 0);
}

static int translate_chunk(translator *t, const chunk *c, int64_t first)
{
  tsr_generation generation = {0};
  tsr_status status = tsr_generate(t->transformer, c->n, (const int32_t *const *)c->ids, c->n_ids, t->wish->batch,
                                   &t->options, on_progress, t, &generation);
  tsr_cli_progress_clear(&t->progress);
  if (status != TSR_OK) {
    return tsr_cli_fail(status);
  }
  int code = print_chunk(t, c, first, &generation);
  tsr_generation_finish(&generation);
  t->done += c->n;
  return code;
}

static int translate_lines(translator *t, tsr_cli_lines *lines)
{
  chunk *c = calloc(1, sizeof *c);
  if (!c) {
    return tsr_cli_no_memory();
  }
  /* Somebody who types wants the answer to a line at once. */
  int32_t wanted = isatty(fileno(lines->file)) ? 1 : CHUNK_LINES;
  int code = TSR_EXIT_OK;
  for (int got = 1; got && code == TSR_EXIT_OK;) {
    while (c->n < wanted && code == TSR_EXIT_OK) {
      code = tsr_cli_lines_next(lines, &got);
      if (code != TSR_EXIT_OK || !got) {
        break;
      }
      code = add_line(t, lines, c);
    }
    if (code == TSR_EXIT_OK && c->n > 0) {
      code = translate_chunk(t, c, lines->number - c->n + 1);
    }
    chunk_clear(c);
  }
  free(c);
  return code;
}

static void print_timings(const translator *t, double load, double total)
{
  tsr_generate_statistics s;
  tsr_generate_measure(t->transformer, &s);
  double seconds = total > 0 ? total : 1e-9;
  fprintf(stderr, "device     %s (%s)\n", tsr_device_name(t->device), tsr_device_get_properties(t->device)->name);
  fprintf(stderr, "load       %.3f s\n", load);
  fprintf(stderr, "translate  %.3f s: text %.3f s, search %.3f s on %d thread%s\n", total, total - s.seconds, s.seconds,
          (int)s.workers, s.workers == 1 ? "" : "s");
  fprintf(stderr, "search     encoder %.3f s in %lld runs, decoder %.3f s in %lld steps%s\n", s.encode_seconds,
          (long long)s.encode_runs, s.step_seconds, (long long)s.step_runs,
          s.workers > 1 ? ", summed over the threads" : "");
  fprintf(stderr, "sentences  %lld (%.1f a second)\n", (long long)t->done, (double)t->done / seconds);
  fprintf(stderr, "tokens     %lld read, %lld written (%.1f a second)\n", (long long)s.source_tokens,
          (long long)s.target_tokens, (double)s.target_tokens / seconds);
}

int tsr_cmd_translate(int argc, char **argv)
{
  settings wish = {0};
  int finished = 0;
  int code = parse(argc, argv, &wish, &finished);
  if (code != TSR_EXIT_OK || finished) {
    return code;
  }
  translator t = {.wish = &wish};
  tsr_cli_lines lines;
  code = tsr_cli_lines_open(&lines, wish.file);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  double start = tsr_cli_seconds();
  code = translator_open(&t);
  if (code == TSR_EXIT_OK) {
    double loaded = tsr_cli_seconds();
    tsr_cli_progress_start(&t.progress, "sentences");
    code = translate_lines(&t, &lines);
    if (code == TSR_EXIT_OK && wish.timings) {
      print_timings(&t, loaded - start, tsr_cli_seconds() - loaded);
    }
  }
  translator_finish(&t);
  tsr_cli_lines_finish(&lines);
  return code;
}
