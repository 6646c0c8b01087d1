/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera translate: text in, one sentence a line, and its translation out.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/commands.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/decoding.h"
#include "tools/tessera/text/translator.h"

typedef struct settings {
  translator_settings translator;
  decoding_settings decoding;
  const char *file; /* NULL: standard input */
  int json;
  int timings;
} settings;

typedef struct session {
  settings options;
  translator translator;
  decoding decoding;
  tsr_cli_lines lines;
  int64_t first; /* the number of the chunk's first line */
} session;

static int check_decoding(const char *me, const settings *options)
{
  const decoding_settings *asked = &options->decoding;
  if (asked->prefix && asked->prefix_file) {
    return tsr_cli_usage(me, "takes --prefix or --prefix-file, not both");
  }
  if (asked->stream && (options->json || options->translator.scores || asked->alternatives > 0)) {
    return tsr_cli_usage(me, "--stream prints only text: it excludes --json, --scores, --n-best, --alternatives");
  }
  if (asked->stream && asked->replace_unknown) {
    return tsr_cli_usage(me, "--replace-unknown needs whole sentences: it excludes --stream");
  }
  if ((asked->attention || asked->alignment) && !options->json) {
    return tsr_cli_usage(me, "--%s needs --json", asked->attention ? "attention" : "alignment");
  }
  return TSR_EXIT_OK;
}

static int check(void *opaque)
{
  settings *options = &((session *)opaque)->options;
  options->translator.scores |= options->translator.n_best > 0;
  options->translator.alignment_layer = options->decoding.alignment && options->decoding.attention_layer == 0 ? -1 : 0;
  if (!options->translator.model) {
    return tsr_cli_usage("translate", "--model is missing");
  }
  return check_decoding("translate", options);
}

/* Adds the line that was read last to the chunk. */
static int add_line(session *s)
{
  const tsr_cli_lines *lines = &s->lines;
  int code = translator_add(&s->translator, lines->name, lines->number, lines->text, lines->size);
  return code == TSR_EXIT_OK ? decoding_add(&s->decoding, &s->translator) : code;
}

/* Several hypotheses of each sentence. */
static int hands_over_many(const session *s)
{
  return s->options.translator.n_best > 0 || s->options.decoding.alternatives > 0;
}

static int print_json(const session *s, const translation *t, const char *text)
{
  const tsr_translation_hypothesis *hypothesis = t->hypothesis;
  const tsr_translation_request *request = &s->translator.requests[t->index];
  json_t *ids = json_array();
  int failed = !ids;
  for (int32_t k = 0; k < hypothesis->n_ids; k++) {
    failed |= json_array_append_new(ids, json_integer(hypothesis->ids[k])) != 0;
  }
  json_t *root =
      json_pack("{s:I, s:o, s:o, s:o, s:o}", "line", (json_int_t)s->first + t->index, "source",
                tsr_cli_json_text(request->text, request->text_size), "translation",
                tsr_cli_json_text(text, strlen(text)), "score", tsr_cli_json_real(hypothesis->score), "ids", ids);
  if (hands_over_many(s) && root) {
    failed |= json_object_set_new(root, "rank", json_integer(t->rank)) != 0;
  }
  failed |= root && decoding_describe(&s->decoding, &s->translator, t, root) != 0;
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

static int print_text(const session *s, const translation *t, const char *text)
{
  if (s->options.json) {
    return print_json(s, t, text);
  }
  if (hands_over_many(s) && t->n_parts > 0) {
    printf("%lld\t", (long long)s->first + t->index);
  }
  if ((s->options.translator.scores || hands_over_many(s)) && t->n_parts > 0) {
    print_score(t->hypothesis->score);
  }
  tsr_cli_put_line(text);
  return TSR_EXIT_OK;
}

static int print_translation(void *user, const translation *t)
{
  session *s = user;
  char *text = NULL;
  if (s->options.decoding.stream) { /* it has come */
    putchar('\n');
    return TSR_EXIT_OK;
  }
  int code = decoding_text(&s->decoding, &s->translator, t, &text);
  if (code == TSR_EXIT_OK) {
    code = print_text(s, t, text);
  }
  tsr_free(text);
  return code;
}

static int translate_lines(session *s)
{
  /* Somebody who types wants the answer to a line at once. */
  int32_t wanted = isatty(fileno(s->lines.file)) || s->options.decoding.stream ? 1 : TRANSLATOR_CHUNK;
  int code = TSR_EXIT_OK;
  for (int got = 1; got && code == TSR_EXIT_OK;) {
    s->first = s->lines.number + 1;
    while (!translator_is_full(&s->translator, wanted) && code == TSR_EXIT_OK) {
      code = tsr_cli_lines_next(&s->lines, &got);
      if (code != TSR_EXIT_OK || !got) {
        break;
      }
      code = add_line(s);
    }
    if (code == TSR_EXIT_OK && s->translator.n > 0) {
      code = translator_run(&s->translator, print_translation, s);
      int flushed = tsr_cli_flush();
      code = code != TSR_EXIT_OK ? code : flushed;
    }
  }
  return code;
}

static int run(void *opaque)
{
  session *s = opaque;
  int code = tsr_cli_lines_open(&s->lines, s->options.file);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  code = translator_open(&s->translator, &s->options.translator);
  if (code == TSR_EXIT_OK) {
    code = decoding_open(&s->decoding, &s->options.decoding, &s->translator);
  }
  if (code == TSR_EXIT_OK) {
    code = translate_lines(s);
  }
  if (code == TSR_EXIT_OK && s->options.timings) {
    code = translator_print_timings(&s->translator);
  }
  return code == TSR_EXIT_OK ? s->translator.outcome : code;
}

static void finish(void *opaque)
{
  session *s = opaque;
  decoding_finish(&s->decoding);
  translator_finish(&s->translator);
  tsr_cli_lines_finish(&s->lines);
}

#define FIELD(member) TSR_FIELD(session, options.member)

static const tsr_option rows[] = {
    {"model", "FOLDER", TSR_OPTION_FOLDER, FIELD(translator.model),
     .help = "the model: a folder with config.json, model.safetensors and the tokenizer's files; or a folder of "
             "CTranslate2, or a package of Argos"},
    {.table = &translator_options, .offset = offsetof(session, options.translator)},
    {"n-best", "N", TSR_OPTION_INTEGER, FIELD(translator.n_best), 1, 256,
     .help = "print the N best hypotheses of each sentence (or N samples), one a line: the sentence's line number, a "
             "tab, the score, a tab, the text"},
    {"scores", NULL, TSR_OPTION_FLAG, FIELD(translator.scores), .low = 1,
     .help = "print each translation's score and a tab before it"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(json), .low = 1,
     .help = "print one JSON object a line: line, source, translation, score (greedy search and sampling need "
             "--scores), ids; rank with --n-best"},
    {.table = &decoding_options, .offset = offsetof(session, options.decoding)},
    {"timings", NULL, TSR_OPTION_FLAG, FIELD(timings), .low = 1,
     .help = "print on stderr how long loading and translating took"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"FILE", TSR_OPTION_FILE, offsetof(session, options.file), .optional = 1},
    {NULL},
};

const tsr_command tsr_command_translate = {
    .name = "translate",
    .summary = "translate text, one sentence a line",
    .usage = "--model FOLDER [OPTION]... [FILE]",
    .intro = "Reads sentences from FILE or standard input, one a line, and prints their translations in the same "
             "order. The output has as many lines as the input: an empty or blank line gives an empty line. Bytes that "
             "are not UTF-8 are read as U+FFFD. A byte order mark at the beginning is dropped. Lines end with LF, CR "
             "LF or the end of the file.",
    .options = &options,
    .operands = operands,
    .takes = "one file",
    .examples = "echo 'The museum is worth visiting.' | tessera translate --model tools/demo-model",
    .session_size = sizeof(session),
    .check = check,
    .run = run,
    .finish = finish,
};
