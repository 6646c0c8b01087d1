/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera score: how probable a model finds given translations.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/corpus.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/translator.h"

typedef struct settings {
  translator_settings translator;
  const char *source;
  const char *target;
  int tokens;
  int json;
} settings;

/* One side of the pairs of a chunk. */
typedef struct side {
  int32_t *ids[TRANSLATOR_CHUNK];
  int32_t lengths[TRANSLATOR_CHUNK];
} side;

typedef struct session {
  settings options;
  tsr_corpus *corpus;
  translator translator;
  side source;
  side target;
  int64_t numbers[TRANSLATOR_CHUNK]; /* of the pairs */
  int32_t n;                         /* pairs of this chunk */
  int64_t sentences;                 /* of all, likewise the next */
  int64_t tokens;
  double sum;
} session;

static int check(void *opaque)
{
  const settings *options = &((session *)opaque)->options;
  return options->source ? TSR_EXIT_OK : tsr_cli_usage("score", "--source is missing");
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

static void clear(session *s)
{
  for (int32_t i = 0; i < TRANSLATOR_CHUNK; i++) {
    tsr_free(s->source.ids[i]);
    tsr_free(s->target.ids[i]);
    s->source.ids[i] = NULL;
    s->target.ids[i] = NULL;
  }
  s->n = 0;
}

typedef tsr_status (*encode_fn)(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                                int32_t *n_ids);

static int add_side(session *s, side *to, const char *file, int64_t line, encode_fn encode, const char *text,
                    size_t size)
{
  int32_t *n = &to->lengths[s->n];
  tsr_status status = encode(s->translator.tokenizer, text, size, &to->ids[s->n], n);
  if (status != TSR_OK) {
    return tsr_cli_fail(tsr_fail_context(status, "%s, line %lld", file, (long long)line));
  }
  int32_t positions = tsr_model_config(s->translator.model)->max_positions;
  if (positions > 0 && *n > positions) {
    tsr_cli_progress_clear(&s->translator.progress);
    tsr_cli_warning("%s, line %lld: %d tokens, cut to the model's %d positions", file, (long long)line, (int)*n,
                    (int)positions);
    to->ids[s->n][positions - 1] = to->ids[s->n][*n - 1];
    *n = positions;
  }
  return TSR_EXIT_OK;
}

static int add_pair(session *s, const tsr_corpus_pair *pair)
{
  const settings *options = &s->options;
  int code =
      add_side(s, &s->source, options->source, pair->number, tsr_tokenizer_encode, pair->source, pair->source_size);
  if (code == TSR_EXIT_OK) {
    code = add_side(s, &s->target, options->target ? options->target : options->source, pair->number,
                    tsr_tokenizer_encode_target, pair->target, pair->target_size);
  }
  s->numbers[s->n] = pair->number;
  s->n++;
  return code;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static int print_json(const session *s, int32_t index, const tsr_target_score *score)
{
  json_t *ids = json_array();
  json_t *tokens = json_array();
  json_t *values = json_array();
  int failed = !ids || !tokens || !values;
  for (int32_t t = 0; t < score->n_tokens; t++) {
    int32_t id = s->target.ids[index][t];
    const char *token = tsr_tokenizer_token(s->translator.tokenizer, 1, id);
    failed |= json_array_append_new(ids, json_integer(id)) != 0;
    failed |= json_array_append_new(tokens, tsr_cli_json_text(token, strlen(token))) != 0;
    failed |= json_array_append_new(values, tsr_cli_json_real((double)score->tokens[t])) != 0;
  }
  json_t *root = json_pack("{s:I, s:o, s:o, s:O}", "line", (json_int_t)s->numbers[index], "sum",
                           tsr_cli_json_real(score->sum), "score", tsr_cli_json_real(score->score), "ids", ids);
  if (root && s->options.tokens) {
    failed |= json_object_set(root, "tokens", tokens) != 0;
    failed |= json_object_set(root, "log_probabilities", values) != 0;
  }
  json_decref(ids);
  json_decref(tokens);
  json_decref(values);
  if (failed) {
    json_decref(root);
    root = NULL;
  }
  return tsr_cli_json_print(root, 0);
}

static int print_score(const session *s, int32_t index, const tsr_target_score *score)
{
  if (s->options.json) {
    return print_json(s, index, score);
  }
  printf("%.6f\t%.6f", score->sum, score->score);
  for (int32_t t = 0; s->options.tokens && t < score->n_tokens; t++) {
    printf("%c%s=%.6f", t == 0 ? '\t' : ' ', tsr_tokenizer_token(s->translator.tokenizer, 1, s->target.ids[index][t]),
           (double)score->tokens[t]);
  }
  putchar('\n');
  return TSR_EXIT_OK;
}

static int print_all(session *s)
{
  double perplexity = s->tokens > 0 ? exp(-s->sum / (double)s->tokens) : NAN;
  tsr_cli_progress_clear(&s->translator.progress);
  if (s->options.json) {
    return tsr_cli_json_print(json_pack("{s:I, s:I, s:o, s:o}", "sentences", (json_int_t)s->sentences, "tokens",
                                        (json_int_t)s->tokens, "sum", tsr_cli_json_real(s->sum), "perplexity",
                                        tsr_cli_json_real(perplexity)),
                              0);
  }
  int code = tsr_cli_flush();
  if (s->tokens > 0) {
    fprintf(stderr, "%lld sentences, %lld tokens, perplexity %.4f\n", (long long)s->sentences, (long long)s->tokens,
            perplexity);
  }
  return code;
}

static void on_progress(void *user, int64_t done, int64_t total)
{
  session *s = user;
  (void)total; /* of this chunk */
  tsr_cli_progress_update(&s->translator.progress, s->sentences + done, 0);
}

static int score_chunk(session *s)
{
  const tsr_generate_options *search = &s->translator.options;
  const tsr_score_options options = {
      TSR_SIZED(tsr_score_options), .n_batch = s->options.translator.batch, .length_penalty = search->length_penalty,
      .decoder_start_id = search->decoder_start_id >= 0 ? &search->decoder_start_id : NULL};
  tsr_scores scores = {0};
  tsr_status status =
      tsr_translator_score(s->translator.translator, s->n, (const int32_t *const *)s->source.ids, s->source.lengths,
                           (const int32_t *const *)s->target.ids, s->target.lengths, &options, on_progress, s, &scores);
  const char *message;
  int64_t pair = tsr_error_sentence(&message);
  if (status != TSR_OK && pair >= 0) {
    status = tsr_fail(status, "%s, line %lld: %s", s->options.source, (long long)s->numbers[pair], message);
  }
  tsr_cli_progress_clear(&s->translator.progress);
  int code = tsr_cli_fail(status);
  for (int32_t i = 0; i < s->n && code == TSR_EXIT_OK; i++) {
    const tsr_target_score *target = &scores.targets[i];
    code = print_score(s, i, target);
    s->sum += target->sum;
    s->tokens += target->n_tokens;
  }
  tsr_scores_finish(&scores);
  s->sentences += s->n;
  clear(s);
  return code;
}

static int score_pairs(session *s)
{
  int code = TSR_EXIT_OK;
  for (int32_t end = 0; !end && code == TSR_EXIT_OK;) {
    tsr_corpus_pair pair;
    code = tsr_cli_fail(tsr_corpus_next(s->corpus, &pair, &end));
    if (code == TSR_EXIT_OK && !end) {
      code = add_pair(s, &pair);
    }
    if (code == TSR_EXIT_OK && s->n > 0 && (end || s->n == TRANSLATOR_CHUNK)) {
      code = score_chunk(s);
    }
  }
  return code == TSR_EXIT_OK ? print_all(s) : code;
}

static int run(void *opaque)
{
  session *s = opaque;
  tsr_corpus_files files = {.source = tsr_cli_path(s->options.source), .target = tsr_cli_path(s->options.target)};
  int code = tsr_cli_fail(tsr_corpus_open(&files, &s->corpus));
  if (code == TSR_EXIT_OK) {
    code = translator_open(&s->translator, &s->options.translator);
  }
  return code == TSR_EXIT_OK ? score_pairs(s) : code;
}

static void finish(void *opaque)
{
  session *s = opaque;
  clear(s);
  translator_finish(&s->translator);
  tsr_corpus_close(s->corpus);
}

#define FIELD(member) TSR_FIELD(session, options.member)
#define OF_TRANSLATOR(row)                                                                                             \
  {                                                                                                                    \
    .name = row, .table = &translator_options, .offset = offsetof(session, options.translator)                         \
  }

static const tsr_option rows[] = {
    {"source", "FILE", TSR_OPTION_FILE, FIELD(source),
     .help = "the sentences that were translated; - is standard input"},
    {"target", "FILE", TSR_OPTION_FILE, FIELD(target), .help = "the translations"},
    {"tokens", NULL, TSR_OPTION_FLAG, FIELD(tokens), .low = 1,
     .help = "also print, after another tab, each token, '=' and its log-probability"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(json), .low = 1,
     .help = "print one JSON object a line: line, sum, score, ids, and with --tokens tokens and log_probabilities; "
             "then one object for all: sentences, tokens, sum, perplexity"},
    {.name = "length-penalty",
     .table = &translator_options,
     .offset = offsetof(session, options.translator),
     .help = "exponent of the number of tokens",
     .otherwise = "what the model's generation_config.json says"},
    OF_TRANSLATOR("source-lang"),
    OF_TRANSLATOR("target-lang"),
    OF_TRANSLATOR("device"),
    {.name = "batch", .table = &translator_options, .offset = offsetof(session, options.translator), .otherwise = "32"},
    OF_TRANSLATOR("precision"),
    OF_TRANSLATOR("strict"),
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"MODEL", TSR_OPTION_FOLDER, offsetof(session, options.translator.model)},
    {NULL},
};

const tsr_command tsr_command_score = {
    .name = "score",
    .summary = "print how probable a model finds given translations",
    .usage = "MODEL --source FILE [--target FILE] [OPTION]...",
    .intro =
        "Prints one line for each sentence pair: the sum of the log-probabilities that the model gives to the tokens "
        "of the translation (the end of the sentence included), a tab, and that sum divided by the number of tokens to "
        "the power of the length penalty. At the end it prints the perplexity of all tokens on stderr.\n"
        "\n"
        "Files are plain text with one sentence a line, or SGM or XML as WMT distributes them, compressed by gzip or "
        "zstd or not. If the source is a file of tab-separated columns, or XML, it holds the translations, too; leave "
        "--target out then.",
    .options = &options,
    .operands = operands,
    .missing = "the model is missing",
    .takes = "one model",
    .notes = "A sentence with more tokens than the model has positions is cut, with a warning.",
    .examples = "tessera score tools/demo-model --source test.en --target test.fr",
    .session_size = sizeof(session),
    .check = check,
    .run = run,
    .finish = finish,
};
