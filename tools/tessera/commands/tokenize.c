/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera tokenize: text to tokens and their ids, and back.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/commands.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/translator.h"

enum { SOURCE = 0, TARGET = 1 };

typedef struct settings {
  const char *model;
  const char *file; /* NULL: standard input */
  const char *kind;
  const char *language[2];
  int32_t side;
  int decode;
  int languages;
  int json;
} settings;

typedef struct session {
  settings options;
  tsr_tokenizer *tokenizer;
  tsr_tokenizer_info info;
  tsr_cli_lines lines;
  int outcome; /* TSR_EXIT_OK, or the exit code for a line that was not good */
} session;

/* With a model beside it, the vocabulary is as large as the model's; a model that this build cannot run does not
 * matter. */
static tsr_status open_tokenizer(session *s)
{
  tsr_model *model = NULL;
  if (s->options.kind || tsr_model_open(s->options.model, &model) != TSR_OK) {
    return tsr_tokenizer_open_as(s->options.model, s->options.kind, &s->tokenizer);
  }
  tsr_status status = tsr_tokenizer_open(model, &s->tokenizer);
  tsr_model_close(model);
  return status;
}

static int open_all(session *s)
{
  tsr_status status = open_tokenizer(s);
  if (status != TSR_OK) {
    return tsr_cli_fail_input(status);
  }
  return translator_choose_languages(s->tokenizer, s->options.language[SOURCE], s->options.language[TARGET]);
}

static int print_languages(const session *s)
{
  json_t *list = s->options.json ? json_array() : NULL;
  for (int32_t i = 0; i < tsr_tokenizer_n_languages(s->tokenizer); i++) {
    const char *code = tsr_tokenizer_language(s->tokenizer, i);
    if (!s->options.json) {
      puts(code);
    } else if (json_array_append_new(list, json_string(code)) != 0) {
      json_decref(list);
      return tsr_cli_no_memory();
    }
  }
  return s->options.json ? tsr_cli_json_print(list, 0) : TSR_EXIT_OK;
}

/* ---- one line ---------------------------------------------------------------------------------------------------- */

static int print_json(const session *s, const char *text, size_t size, const int32_t *ids, int32_t n_ids)
{
  json_t *numbers = json_array();
  json_t *tokens = json_array();
  int failed = 0;
  for (int32_t i = 0; i < n_ids; i++) {
    const char *token = tsr_tokenizer_token(s->tokenizer, s->options.side, ids[i]);
    failed |= json_array_append_new(numbers, json_integer(ids[i])) != 0;
    failed |= json_array_append_new(tokens, tsr_cli_json_text(token, strlen(token))) != 0;
  }
  json_t *root = json_pack("{s:I, s:o, s:o, s:o}", "line", (json_int_t)s->lines.number, "text",
                           tsr_cli_json_text(text, size), "tokens", tokens, "ids", numbers);
  if (failed) {
    json_decref(root);
    root = NULL;
  }
  return tsr_cli_json_print(root, 0);
}

static int print_line(const session *s, const int32_t *ids, int32_t n_ids)
{
  for (int32_t i = 0; i < n_ids; i++) {
    printf("%s%s", i > 0 ? " " : "", tsr_tokenizer_token(s->tokenizer, s->options.side, ids[i]));
  }
  for (int32_t i = 0; i < n_ids; i++) {
    printf("%s%d", i > 0 ? " " : "\t", (int)ids[i]);
  }
  putchar('\n');
  return TSR_EXIT_OK;
}

static int encode_line(session *s)
{
  const tsr_cli_lines *lines = &s->lines;
  int32_t *ids = NULL;
  int32_t n_ids = 0;
  tsr_status status = s->options.side == SOURCE
                          ? tsr_tokenizer_encode(s->tokenizer, lines->text, lines->size, &ids, &n_ids)
                          : tsr_tokenizer_encode_target(s->tokenizer, lines->text, lines->size, &ids, &n_ids);
  if (status != TSR_OK) {
    return tsr_cli_fail_input(tsr_fail_context(status, "%s, line %lld", lines->name, (long long)lines->number));
  }
  int code = s->options.json ? print_json(s, lines->text, lines->size, ids, n_ids) : print_line(s, ids, n_ids);
  tsr_free(ids);
  return code;
}

/* Reports what is no id, which is left out. */
static void reject(session *s, const char *word, size_t size, const char *why)
{
  tsr_cli_error("%s, line %lld: '%.*s' %s", s->lines.name, (long long)s->lines.number, (int)(size < 40 ? size : 40),
                word, why);
  s->outcome = TSR_EXIT_INPUT;
}

/* Reads one word as an id; -1: it is none, which was told. */
static int32_t read_id(session *s, const char *word, size_t size)
{
  int32_t limit = s->options.side == SOURCE ? s->info.source_vocabulary : s->info.target_vocabulary;
  char *end;
  errno = 0;
  long id = strtol(word, &end, 10);
  if (end != word + size) {
    reject(s, word, size, "is no id: expected whole numbers with blanks between");
  } else if (errno != 0 || id < 0 || id >= limit) {
    char why[64];
    snprintf(why, sizeof why, "is outside the vocabulary of %d tokens", (int)limit);
    reject(s, word, size, why);
  } else if (!tsr_tokenizer_token(s->tokenizer, s->options.side, (int32_t)id)[0]) {
    reject(s, word, size, "stands for no token");
  } else {
    return (int32_t)id;
  }
  return -1;
}

static int decode_line(session *s)
{
  static const char blanks[] = " \t\r\v\f";
  const char *tab = strrchr(s->lines.text, '\t');
  const char *at = tab ? tab + 1 : s->lines.text;
  int32_t *ids = malloc((s->lines.size + 1) * sizeof *ids);
  if (!ids) {
    return tsr_cli_no_memory();
  }
  int32_t n_ids = 0;
  for (size_t size; *(at += strspn(at, blanks)); at += size) {
    size = strcspn(at, blanks);
    ids[n_ids] = read_id(s, at, size);
    n_ids += ids[n_ids] >= 0;
  }
  char *text = NULL;
  tsr_status status = tsr_tokenizer_decode_side(s->tokenizer, s->options.side, ids, n_ids, &text);
  int code = tsr_cli_fail(status);
  if (code == TSR_EXIT_OK && s->options.json) {
    code = print_json(s, text, strlen(text), ids, n_ids);
  } else if (code == TSR_EXIT_OK) {
    tsr_cli_put_line(text);
  }
  tsr_free(text);
  free(ids);
  return code;
}

static int run_lines(session *s)
{
  int code = tsr_cli_lines_open(&s->lines, s->options.file);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  int got = 1;
  while (code == TSR_EXIT_OK && (code = tsr_cli_lines_next(&s->lines, &got)) == TSR_EXIT_OK && got) {
    code = s->options.decode ? decode_line(s) : encode_line(s);
  }
  tsr_cli_lines_finish(&s->lines);
  return code != TSR_EXIT_OK ? code : s->outcome;
}

static int run(void *opaque)
{
  session *s = opaque;
  int code = open_all(s);
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_tokenizer_get_info(s->tokenizer, &s->info));
  }
  if (code == TSR_EXIT_OK) {
    code = s->options.languages ? print_languages(s) : run_lines(s);
  }
  return code;
}

static void finish(void *opaque)
{
  tsr_tokenizer_close(((session *)opaque)->tokenizer);
}

#define FIELD(member) TSR_FIELD(session, options.member)

static const tsr_option rows[] = {
    {"decode", NULL, TSR_OPTION_FLAG, FIELD(decode), .low = 1,
     .help = "the reverse: read ids, which follow the last tab of each line, and print their text. An id that is not a "
             "token is reported on stderr, and the exit code is 3"},
    {"target", NULL, TSR_OPTION_FLAG, FIELD(side), .low = TARGET,
     .help = "tokenize texts of the target side, as the model is trained to write them",
     .otherwise = "of the source side"},
    {"source-lang", "CODE", TSR_OPTION_LANGUAGE, FIELD(language[SOURCE]),
     .help = "the language of source texts (mBART, M2M100, NLLB): fra_Latn, fr_XX, fr"},
    {"target-lang", "CODE", TSR_OPTION_LANGUAGE, FIELD(language[TARGET]),
     .help = "the language of target texts (the same models, and multilingual Marian models)"},
    {"languages", NULL, TSR_OPTION_FLAG, FIELD(languages), .low = 1,
     .help = "print the codes of the tokenizer's languages instead"},
    {"kind", "NAME", TSR_OPTION_TEXT, FIELD(kind),
     .help =
         "the kind of tokenizer, if the folder does not say it: marian, t5, gemma, pegasus, mbart, mbart50, m2m100, "
         "nllb, marian_npz, ctranslate2, bart, whisper, fast"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(json), .low = 1,
     .help = "print one JSON object a line: line, text, tokens, ids"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"MODEL", TSR_OPTION_FOLDER, offsetof(session, options.model)},
    {"FILE", TSR_OPTION_FILE, offsetof(session, options.file), .optional = 1},
    {NULL},
};

const tsr_command tsr_command_tokenize = {
    .name = "tokenize",
    .summary = "show the tokens of a text and their ids, or the text of ids",
    .usage = "MODEL [OPTION]... [FILE]",
    .intro =
        "Reads text from FILE or standard input, one sentence a line, and prints for each line its tokens, a tab, and "
        "their ids, as the model in the folder MODEL reads them. A folder with only the tokenizer's files is enough.",
    .options = &options,
    .operands = operands,
    .missing = "the model's folder is missing",
    .takes = "a folder and one file",
    .examples = "echo 'The museum is worth visiting.' | tessera tokenize tools/demo-model\n"
                "tessera tokenize nllb --source-lang fra_Latn text.fr | tessera tokenize nllb --decode",
    .session_size = sizeof(session),
    .run = run,
    .finish = finish,
};
