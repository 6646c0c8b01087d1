/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera eval: BLEU and chrF of a model's translations, or of those in a file.
 */
#include <stdlib.h>
#include <string.h>

#include "core/text/corpus.h"
#include "tessera/eval.h"
#include "tools/tessera/translator.h"

static const char help[] =
    "Usage: tessera eval MODEL --source FILE --reference FILE [OPTION]...\n"
    "       tessera eval --hypothesis FILE --reference FILE [--json]\n"
    "\n"
    "Translates the source with the model in the folder MODEL, or takes the translations in the file\n"
    "of hypotheses, and prints how near they are to the reference: BLEU and chrF, as sacreBLEU 2\n"
    "computes them. The version in the signature is that of this program.\n"
    "\n"
    "Files are plain text with one sentence a line, or SGM or XML as WMT distributes them. A source\n"
    "of tab-separated columns, or XML, holds the reference, too: --reference is left out then.\n"
    "\n"
    "  --source FILE          sentences to translate; - is standard input\n"
    "  --hypothesis FILE      translations; - is standard input\n"
    "  --reference FILE       what they should be\n"
    "  --json                 print one JSON object: bleu, chrf, signature, and what they consist of\n"
    "  --timings              print on stderr what loading and translating took\n" TRANSLATOR_HELP
    "  --help                 print this text\n"
    "\n"
    "Examples:\n"
    "  tessera eval tools/demo-model --source test.en --reference test.fr --beam 4\n"
    "  tessera eval --hypothesis output.fr --reference newstest2014-fren-ref.fr.sgm\n";

typedef struct settings {
  translator_settings translator; /* model NULL: hypotheses from a file */
  const char *source;
  const char *hypothesis;
  const char *reference;
  int json;
  int timings;
  int options; /* for translating were given */
} settings;

typedef struct session {
  settings wish;
  tsr_corpus *corpus; /* (source or hypothesis, reference) */
  tsr_scorer *scorer;
  translator translator;
  tsr_span references[TRANSLATOR_CHUNK]; /* copies, of the chunk's sentences */
} session;

static int check_settings(const char *me, int argc, char **argv, settings *wish)
{
  if (argc - optind > 1) {
    return tsr_cli_usage(me, "takes one model, but '%s' is given, too", argv[optind + 1]);
  }
  wish->translator.model = optind < argc ? argv[optind] : NULL;
  if (wish->translator.model && wish->hypothesis) {
    return tsr_cli_usage(me, "takes a model or --hypothesis, not both");
  }
  if (wish->translator.model && !wish->source) {
    return tsr_cli_usage(me, "--source is missing");
  }
  if (!wish->translator.model && !wish->hypothesis) {
    return tsr_cli_usage(me, wish->source ? "the model is missing" : "a model or --hypothesis is missing");
  }
  if (wish->hypothesis && !wish->reference) {
    return tsr_cli_usage(me, "--reference is missing");
  }
  if (wish->hypothesis && wish->source) {
    return tsr_cli_usage(me, "--source is for a model to translate; there is none");
  }
  if (wish->hypothesis && (wish->options || wish->timings)) {
    return tsr_cli_usage(me, "options for translating are for a model; there is none");
  }
  return TSR_EXIT_OK;
}

static int parse(int argc, char **argv, void *opaque, int *finished)
{
  settings *wish = &((session *)opaque)->wish;
  static const struct option options[] = {{"source", required_argument, NULL, 's'},
                                          {"hypothesis", required_argument, NULL, 'y'},
                                          {"reference", required_argument, NULL, 'r'},
                                          TRANSLATOR_OPTIONS,
                                          {"json", no_argument, NULL, 'j'},
                                          {"timings", no_argument, NULL, 't'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  int code = TSR_EXIT_OK;
  for (int option; code == TSR_EXIT_OK && (option = tsr_cli_option(argc, argv, options)) != -1;) {
    switch (option) {
    case 's':
      wish->source = optarg;
      break;
    case 'y':
      wish->hypothesis = optarg;
      break;
    case 'r':
      wish->reference = optarg;
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
      wish->options = 1;
      code = translator_take_option(argv[0], option, &wish->translator);
    }
  }
  return code == TSR_EXIT_OK ? check_settings(argv[0], argc, argv, wish) : code;
}

static int keep_reference(session *s, const tsr_corpus_pair *pair)
{
  char *copy = malloc(pair->target_size + 1);
  if (!copy) {
    return tsr_cli_no_memory();
  }
  memcpy(copy, pair->target, pair->target_size);
  s->references[s->translator.n] = (tsr_span){copy, pair->target_size};
  return TSR_EXIT_OK;
}

static int score_translation(void *user, const translation *t)
{
  session *s = user;
  tsr_span hypothesis = {t->text, strlen(t->text)};
  return tsr_cli_fail(tsr_scorer_add(s->scorer, hypothesis, s->references[t->index]));
}

static void drop_references(session *s)
{
  for (int32_t i = 0; i < TRANSLATOR_CHUNK; i++) {
    free((char *)s->references[i].bytes);
    s->references[i] = (tsr_span){0};
  }
}

static int translate_chunk(session *s)
{
  int code = translator_run(&s->translator, score_translation, s);
  drop_references(s);
  return code;
}

static int score_model(session *s)
{
  int code = TSR_EXIT_OK;
  int32_t end = 0;
  while (!end && code == TSR_EXIT_OK) {
    tsr_corpus_pair pair;
    code = tsr_cli_fail(tsr_corpus_next(s->corpus, &pair, &end));
    if (code == TSR_EXIT_OK && !end) {
      code = keep_reference(s, &pair);
    }
    if (code == TSR_EXIT_OK && !end) {
      code = translator_add(&s->translator, s->wish.source, pair.number, pair.source, pair.source_size);
    }
    int32_t n = s->translator.n;
    if (code == TSR_EXIT_OK && n > 0 && (end || n == TRANSLATOR_CHUNK)) {
      code = translate_chunk(s);
    }
  }
  tsr_cli_progress_clear(&s->translator.progress);
  return code;
}

static int score_file(session *s)
{
  tsr_status status = TSR_OK;
  for (int32_t end = 0; !end && status == TSR_OK;) {
    tsr_corpus_pair pair;
    status = tsr_corpus_next(s->corpus, &pair, &end);
    if (status == TSR_OK && !end) {
      tsr_span hypothesis = {pair.source, pair.source_size};
      tsr_span reference = {pair.target, pair.target_size};
      status = tsr_scorer_add(s->scorer, hypothesis, reference);
    }
  }
  return tsr_cli_fail(status);
}

static int print_json(const session *s, const tsr_bleu *bleu, const tsr_chrf *chrf)
{
  const double *p = bleu->precisions;
  return tsr_cli_json_print(json_pack("{s:f, s:f, s:s, s:s, s:[f,f,f,f], s:f, s:I, s:I, s:I}", "bleu", bleu->score,
                                      "chrf", chrf->score, "signature", tsr_bleu_signature(), "chrf_signature",
                                      tsr_chrf_signature(), "precisions", p[0], p[1], p[2], p[3], "brevity_penalty",
                                      bleu->brevity_penalty, "hypothesis_length", (json_int_t)bleu->hypothesis_length,
                                      "reference_length", (json_int_t)bleu->reference_length, "sentences",
                                      (json_int_t)tsr_scorer_count(s->scorer)),
                            0);
}

static void print_text(const session *s, const tsr_bleu *bleu, const tsr_chrf *chrf)
{
  const double *p = bleu->precisions;
  char sentences[32];
  char words[32];
  char expected[32];
  printf("sentences          %s\n", tsr_cli_grouped(tsr_scorer_count(s->scorer), sentences));
  printf("BLEU               %.2f\n", bleu->score);
  printf("  precisions       %.2f / %.2f / %.2f / %.2f\n", p[0], p[1], p[2], p[3]);
  printf("  brevity penalty  %.4f: %s words, %s in the reference\n", bleu->brevity_penalty,
         tsr_cli_grouped(bleu->hypothesis_length, words), tsr_cli_grouped(bleu->reference_length, expected));
  printf("  signature        %s\n", tsr_bleu_signature());
  printf("chrF2              %.2f\n", chrf->score);
  printf("  signature        %s\n", tsr_chrf_signature());
}

static int print_scores(const session *s, const char *name)
{
  tsr_bleu bleu;
  tsr_chrf chrf;
  if (tsr_scorer_count(s->scorer) == 0) {
    tsr_cli_error("%s: expected sentences, found none", name);
    return TSR_EXIT_INPUT;
  }
  tsr_status status = tsr_scorer_bleu(s->scorer, &bleu);
  if (status == TSR_OK) {
    status = tsr_scorer_chrf(s->scorer, &chrf);
  }
  if (status != TSR_OK) {
    return tsr_cli_fail(status);
  }
  if (s->wish.json) {
    return print_json(s, &bleu, &chrf);
  }
  print_text(s, &bleu, &chrf);
  return TSR_EXIT_OK;
}

static int run(void *opaque)
{
  session *s = opaque;
  const settings *wish = &s->wish;
  const char *first = wish->hypothesis ? wish->hypothesis : wish->source;
  tsr_corpus_files files = {.source = tsr_cli_path(first),
                            .target = tsr_cli_path(wish->reference),
                            .part = wish->hypothesis ? TSR_TEXT_HYPOTHESIS : TSR_TEXT_SOURCE};
  int code = tsr_cli_fail(tsr_corpus_open(&files, &s->corpus));
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_scorer_create(TSR_METRIC_BLEU | TSR_METRIC_CHRF, &s->scorer));
  }
  if (code == TSR_EXIT_OK && wish->translator.model) {
    code = translator_open(&s->translator, &wish->translator);
  }
  if (code == TSR_EXIT_OK) {
    code = wish->translator.model ? score_model(s) : score_file(s);
  }
  if (code == TSR_EXIT_OK && wish->timings) {
    translator_print_timings(&s->translator);
  }
  if (code == TSR_EXIT_OK) {
    code = print_scores(s, first);
  }
  return code == TSR_EXIT_OK ? s->translator.outcome : code;
}

static void finish(void *opaque)
{
  session *s = opaque;
  drop_references(s);
  translator_finish(&s->translator);
  tsr_scorer_destroy(s->scorer);
  tsr_corpus_close(s->corpus);
}

int tsr_cmd_eval(int argc, char **argv)
{
  static const tsr_cli_command command = {
      .session_size = sizeof(session), .parse = parse, .run = run, .finish = finish};
  return tsr_cli_run(&command, argc, argv);
}
