/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera eval: BLEU, chrF and word error rate of a model's translations, or of those in files, and what is wrong with
 * them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/corpus.h"
#include "tessera/files.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/commands/eval_speech.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/evaluation/evaluation.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"
#include "tools/tessera/text/translator.h"

enum { MOST_FILES = 16 };

typedef struct settings {
  translator_settings translator; /* model NULL: hypotheses from files */
  const char *source;
  tsr_names hypotheses; /* in the order in which they were given, likewise the next two */
  tsr_names references;
  tsr_names compare;
  const char *html;
  const char *spellings;
  int32_t normalizer; /* TSR_NORMALIZER_*; 0: none */
  int wer;
  const char *sentences; /* path; NULL: none are written */
  int64_t worst;         /* 0: the default */
  int analysis;
  int json;
  int timings;
} settings;

typedef struct session {
  settings options;
  tsr_corpus *corpus;                    /* (source or first hypothesis, first reference) */
  tsr_text_file *references[MOST_FILES]; /* further ones */
  tsr_text_file *hypotheses[MOST_FILES]; /* likewise */
  tsr_text_file *source;                 /* of the hypotheses */
  tsr_normalizer *normalizer;            /* NULL: none */
  evaluation evaluation;
  int64_t first; /* the chunk's first sentence */
  int32_t variant;
  translator translator;
  tsr_generate_options searches[EVALUATION_VARIANTS];
  int hears; /* the model reads sounds */
  listener listener;
  FILE *lines; /* of --sentences, in memory, until all are there */
  char *lines_text;
  size_t lines_size;
} session;

/* ---- options ----------------------------------------------------------------------------------------------------- */

static int check_model(const char *me, const settings *options)
{
  if (options->hypotheses.n > 0) {
    return tsr_cli_usage(me, "takes a model or --hypothesis, not both");
  }
  return options->source ? TSR_EXIT_OK : tsr_cli_usage(me, "--source is missing");
}

static int check_files(const char *me, const settings *options)
{
  if (options->hypotheses.n == 0) {
    return tsr_cli_usage(me, options->source ? "the model is missing" : "a model or --hypothesis is missing");
  }
  if (options->references.n == 0) {
    return tsr_cli_usage(me, "--reference is missing");
  }
  if (options->source && !options->analysis && !options->html) {
    return tsr_cli_usage(me, "--source is for a model or for --analysis; there is neither");
  }
  if (translator_settings_given(&options->translator) || options->timings || options->compare.n > 0) {
    return tsr_cli_usage(me, "options for translating need a model; there is none");
  }
  return options->hypotheses.n <= EVALUATION_VARIANTS
             ? TSR_EXIT_OK
             : tsr_cli_usage(me, "compares %d files at most", (int)EVALUATION_VARIANTS);
}

/* A model may be one of speech, whose word error rate is told unasked. */
static int check_normalizer(const char *me, const settings *options)
{
  const int has_wer = options->wer || options->translator.model;
  if (options->sentences && !has_wer) {
    return tsr_cli_usage(me, "--sentences is for --wer, which is missing");
  }
  if (options->normalizer && !has_wer) {
    return tsr_cli_usage(me, "--normalizer is for --wer, which is missing");
  }
  if (options->spellings && options->normalizer != TSR_NORMALIZER_ENGLISH) {
    return tsr_cli_usage(me, "--spellings is for --normalizer english, which is missing");
  }
  if (options->normalizer == TSR_NORMALIZER_ENGLISH && !options->spellings && !options->translator.model) {
    return tsr_cli_usage(me, "--normalizer english needs a table of spellings: --spellings is missing");
  }
  return TSR_EXIT_OK;
}

static int check(void *opaque)
{
  const settings *options = &((session *)opaque)->options;
  static const char me[] = "eval";
  if (options->hypotheses.n > MOST_FILES || options->references.n > MOST_FILES) {
    const char *option = options->hypotheses.n > MOST_FILES ? "--hypothesis" : "--reference";
    return tsr_cli_usage(me, "%s: at most %d files", option, (int)MOST_FILES);
  }
  int code = check_normalizer(me, options);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  code = options->translator.model ? check_model(me, options) : check_files(me, options);
  return code == TSR_EXIT_OK ? tsr_cli_check_output(options->html) : code;
}

/* ---- variants ---------------------------------------------------------------------------------------------------- */

/* "greedy", "beam4", "beam4:0.6" */
static int parse_variant(const char *text, tsr_generate_options *options)
{
  static const char me[] = "eval";
  if (strcmp(text, "greedy") == 0) {
    options->beam = 1;
    return TSR_EXIT_OK;
  }
  if (strncmp(text, "beam", strlen("beam")) != 0) {
    return tsr_cli_usage(me, "--compare: '%s' is none of greedy, beamN, beamN:PENALTY", text);
  }
  char number[16];
  const char *colon = strchr(text, ':');
  size_t size = colon ? (size_t)(colon - text) : strlen(text);
  size = size - strlen("beam") < sizeof number ? size - strlen("beam") : sizeof number - 1;
  memcpy(number, text + strlen("beam"), size);
  number[size] = '\0';
  int code = tsr_cli_int32(me, "--compare: beam", number, 1, 64, &options->beam);
  double penalty = 0;
  if (code == TSR_EXIT_OK && colon) {
    code = tsr_cli_number(me, "--compare: length penalty", colon + 1, -100, 100, &penalty);
    options->length_penalty = (float)penalty;
  }
  return code;
}

static void set_name(evaluation_variant *v, const char *name)
{
  snprintf(v->name, sizeof v->name, "%s", name);
}

static int choose_compared(session *s)
{
  const tsr_names *names = &s->options.compare;
  evaluation *e = &s->evaluation;
  int32_t n = names->n;
  int code = TSR_EXIT_OK;
  if (n > EVALUATION_VARIANTS) {
    code = tsr_cli_usage("eval", "--compare: at most %d, not %d", (int)EVALUATION_VARIANTS, (int)n);
  }
  for (int32_t i = 0; i < n && code == TSR_EXIT_OK; i++) {
    set_name(&e->variants[i], names->values[i]);
    s->searches[i] = s->translator.options;
    s->searches[i].n_best = 1;
    s->searches[i].sample = 0;
    code = parse_variant(names->values[i], &s->searches[i]);
  }
  e->n_variants = code == TSR_EXIT_OK ? n : 0;
  return code;
}

/* After the model was opened. */
static int choose_variants(session *s)
{
  evaluation *e = &s->evaluation;
  const settings *options = &s->options;
  e->n_references = options->references.n > 0 ? options->references.n : 1;
  e->keeps = options->analysis || options->html || options->compare.n > 0 || options->hypotheses.n > 1;
  e->has_cuts = options->translator.model != NULL && !s->hears;
  e->has_wer = options->wer || s->hears;
  e->normalizer = s->normalizer;
  if (options->compare.n > 0) {
    return choose_compared(s);
  }
  e->n_variants = options->translator.model ? 1 : options->hypotheses.n;
  for (int32_t i = 0; i < options->hypotheses.n; i++) {
    set_name(&e->variants[i], options->hypotheses.values[i]);
  }
  if (options->translator.model) {
    char name[EVALUATION_NAME];
    const int32_t beam = s->hears ? s->listener.search.beam : s->translator.options.beam;
    snprintf(name, sizeof name, beam > 1 ? "beam%d" : "greedy", (int)beam);
    set_name(&e->variants[0], name);
    s->searches[0] = s->translator.options;
  }
  return TSR_EXIT_OK;
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

static int open_files(session *s)
{
  const settings *options = &s->options;
  int has_model = options->translator.model != NULL;
  tsr_corpus_files files = {.source = tsr_cli_path(has_model ? options->source : options->hypotheses.values[0]),
                            .target = tsr_cli_path(options->references.n > 0 ? options->references.values[0] : NULL),
                            .part = has_model ? TSR_TEXT_SOURCE : TSR_TEXT_HYPOTHESIS};
  tsr_status status = tsr_corpus_open(&files, &s->corpus);
  for (int32_t i = 1; i < options->references.n && status == TSR_OK; i++) {
    status = tsr_text_file_open(tsr_cli_path(options->references.values[i]), TSR_TEXT_REFERENCE, &s->references[i]);
  }
  for (int32_t i = 1; i < options->hypotheses.n && status == TSR_OK; i++) {
    status = tsr_text_file_open(tsr_cli_path(options->hypotheses.values[i]), TSR_TEXT_HYPOTHESIS, &s->hypotheses[i]);
  }
  if (!has_model && options->source && status == TSR_OK) {
    status = tsr_text_file_open(tsr_cli_path(options->source), TSR_TEXT_SOURCE, &s->source);
  }
  return tsr_cli_fail(status);
}

/* The sentence of a further file that belongs to pair `number`; ends: there is no such pair, and should be none. */
static int read_further(tsr_text_file *file, int64_t number, int ends, tsr_span *text)
{
  tsr_corpus_sentence sentence;
  int32_t end = 0;
  tsr_status status = tsr_text_file_next(file, &sentence, &end);
  if (status != TSR_OK) {
    return tsr_cli_fail(status);
  }
  if (end != ends) {
    tsr_cli_error("%s: has %s sentences than the other files: %s sentence %lld", tsr_text_file_name(file),
                  end ? "less" : "more", end ? "it ends before" : "they end before", (long long)number);
    return TSR_EXIT_INPUT;
  }
  if (!end) {
    *text = (tsr_span){sentence.text, sentence.size};
  }
  return TSR_EXIT_OK;
}

/* A line of --sentences: number, word error rate, reference, output. */
static int write_line(session *s, const evaluation_sentence *sentence, tsr_span text)
{
  tsr_scorer *scorer = NULL;
  tsr_wer wer = {0};
  tsr_status status = tsr_scorer_create(TSR_METRIC_WER, &scorer);
  if (status == TSR_OK && s->normalizer) {
    status = tsr_scorer_set_normalizer(scorer, s->normalizer);
  }
  if (status == TSR_OK) {
    status = tsr_scorer_add_references(scorer, text, sentence->references, s->evaluation.n_references);
  }
  if (status == TSR_OK) {
    status = tsr_scorer_wer(scorer, &wer);
  }
  tsr_scorer_destroy(scorer);
  if (status == TSR_OK) {
    const tsr_span *reference = &sentence->references[0];
    fprintf(s->lines, "%lld\t%.2f\t", (long long)sentence->number, wer.score);
    fwrite(reference->bytes, 1, reference->size, s->lines);
    fputc('\t', s->lines);
    fwrite(text.bytes, 1, text.size, s->lines);
    fputc('\n', s->lines);
  }
  return tsr_cli_fail(status);
}

static int add_output(session *s, int32_t variant, int64_t sentence, tsr_span text, int is_cut)
{
  int code = TSR_EXIT_OK;
  if (s->lines && variant == 0) {
    code = write_line(s, &s->evaluation.sentences[sentence], text);
  }
  return code == TSR_EXIT_OK ? evaluation_add_output(&s->evaluation, variant, sentence, text, is_cut) : code;
}

/* Reads what belongs to a pair, or that nothing does, and adds it. */
static int add_pair(session *s, const tsr_corpus_pair *pair, int64_t number, int ends)
{
  const settings *options = &s->options;
  evaluation *e = &s->evaluation;
  tsr_span references[MOST_FILES], outputs[MOST_FILES], source = {0};
  int code = TSR_EXIT_OK;
  for (int32_t i = 1; i < options->references.n && code == TSR_EXIT_OK; i++) {
    code = read_further(s->references[i], number, ends, &references[i]);
  }
  for (int32_t i = 1; i < options->hypotheses.n && code == TSR_EXIT_OK; i++) {
    code = read_further(s->hypotheses[i], number, ends, &outputs[i]);
  }
  if (s->source && code == TSR_EXIT_OK) {
    code = read_further(s->source, number, ends, &source);
  }
  if (code != TSR_EXIT_OK || ends) {
    return code;
  }
  references[0] = (tsr_span){pair->target, pair->target_size};
  outputs[0] = (tsr_span){pair->source, pair->source_size};
  source = options->translator.model ? outputs[0] : source;
  code = evaluation_add(e, pair->number, source, references);
  if (s->hears && code == TSR_EXIT_OK) {
    code = listener_add(&s->listener, s->corpus, pair);
  } else if (options->translator.model && code == TSR_EXIT_OK) {
    code = translator_add(&s->translator, options->source, pair->number, pair->source, pair->source_size);
  }
  for (int32_t i = 0; i < options->hypotheses.n && code == TSR_EXIT_OK; i++) {
    code = add_output(s, i, e->n - 1, outputs[i], 0);
  }
  return code;
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

static int take_translation(void *user, const translation *t)
{
  session *s = user;
  tsr_span text = {t->hypothesis->text, strlen(t->hypothesis->text)};
  return t->rank > 0 ? TSR_EXIT_OK : add_output(s, s->variant, s->first + t->index, text, t->hypothesis->is_cut);
}

/* listener_take_fn */
static int take_transcript(void *user, int32_t sound, const char *text, size_t size)
{
  session *s = user;
  return add_output(s, 0, s->first + sound, (tsr_span){text, size}, 0);
}

static int translate_chunk(session *s)
{
  evaluation *e = &s->evaluation;
  tsr_translator_statistics before, after;
  int code = TSR_EXIT_OK;
  if (s->hears) {
    return listener_transcribe(&s->listener, take_transcript, s);
  }
  for (int32_t v = 0; v < e->n_variants && code == TSR_EXIT_OK; v++) {
    s->variant = v;
    tsr_translator_measure(s->translator.translator, &before);
    code = translator_search(&s->translator, &s->searches[v], take_translation, s);
    tsr_translator_measure(s->translator.translator, &after);
    e->variants[v].seconds += after.search_seconds - before.search_seconds;
    e->variants[v].tokens += after.target_tokens - before.target_tokens;
  }
  s->translator.done += s->translator.n;
  translator_clear(&s->translator);
  return code;
}

static int read_all(session *s)
{
  int code = TSR_EXIT_OK;
  int64_t number = 0;
  for (int32_t end = 0, n = 0; !end && code == TSR_EXIT_OK;) {
    tsr_corpus_pair pair = {0};
    code = tsr_cli_fail(tsr_corpus_next(s->corpus, &pair, &end));
    if (code == TSR_EXIT_OK) {
      code = add_pair(s, &pair, ++number, end);
      n += !end;
    }
    if (code == TSR_EXIT_OK && (end || n == TRANSLATOR_CHUNK)) {
      code = s->options.translator.model && n > 0 ? translate_chunk(s) : TSR_EXIT_OK;
      evaluation_forget(&s->evaluation);
      s->first = s->evaluation.n;
      n = 0;
    }
  }
  tsr_cli_progress_clear(&s->translator.progress);
  return code;
}

static int report(session *s)
{
  enum { LISTED = 20, LISTED_IN_PAGE = 2000 };
  const settings *options = &s->options;
  const evaluation *e = &s->evaluation;
  int64_t limit = options->worst > 0 ? options->worst : LISTED;
  if (tsr_scorer_count(e->variants[0].all.scorer) == 0) {
    tsr_cli_error("%s: expected sentences, found none",
                  options->translator.model ? options->source : options->hypotheses.values[0]);
    return TSR_EXIT_INPUT;
  }
  if (options->html) {
    const char *title = options->translator.model ? options->translator.model : e->variants[0].name;
    int code = evaluation_write_page(e, options->worst > 0 ? options->worst : LISTED_IN_PAGE, title, options->html);
    if (code != TSR_EXIT_OK) {
      return code;
    }
  }
  if (options->json) {
    return tsr_cli_json_print(evaluation_json(e, limit), 0);
  }
  return evaluation_print(e, options->analysis, limit);
}

/* The table of spellings is the one that is named, or the model's. */
static int open_normalizer(session *s)
{
  const settings *options = &s->options;
  if (!options->normalizer) {
    return TSR_EXIT_OK;
  }
  char *in_model = NULL;
  if (options->normalizer == TSR_NORMALIZER_ENGLISH && !options->spellings) {
    in_model = path_join(options->translator.model, "normalizer.json");
    if (!in_model) {
      return tsr_cli_no_memory();
    }
  }
  if (in_model && !path_exists(in_model)) {
    tsr_cli_error("%s is not there: --normalizer english needs a table of spellings, which --spellings names",
                  in_model);
    free(in_model);
    return TSR_EXIT_INPUT;
  }
  const char *spellings = in_model ? in_model : options->spellings;
  int code = tsr_cli_fail(tsr_normalizer_create(options->normalizer, 0, spellings, &s->normalizer));
  free(in_model);
  return code;
}

/* A model of either kind. */
static int open_model(session *s)
{
  const settings *options = &s->options;
  int code = listener_hears(options->translator.model, &s->hears);
  if (code != TSR_EXIT_OK || !s->hears) {
    return code == TSR_EXIT_OK ? translator_open(&s->translator, &options->translator) : code;
  }
  if (options->compare.n > 0 || options->timings) {
    return tsr_cli_usage("eval", "--%s is for text; the model hears sounds",
                         options->compare.n > 0 ? "compare" : "timings");
  }
  return listener_open(&s->listener, &options->translator, options->source);
}

static int open_lines(session *s)
{
  s->lines = s->options.sentences ? open_memstream(&s->lines_text, &s->lines_size) : NULL;
  return s->options.sentences && !s->lines ? tsr_cli_no_memory() : TSR_EXIT_OK;
}

static int write_lines(session *s)
{
  if (!s->lines) {
    return TSR_EXIT_OK;
  }
  const int failed = fclose(s->lines) != 0;
  s->lines = NULL;
  return failed ? tsr_cli_no_memory()
                : tsr_cli_fail(tsr_file_replace(s->options.sentences, s->lines_text, s->lines_size));
}

static int run(void *opaque)
{
  session *s = opaque;
  const settings *options = &s->options;
  int code = open_normalizer(s);
  if (code == TSR_EXIT_OK) {
    code = open_lines(s);
  }
  if (code == TSR_EXIT_OK) {
    code = open_files(s);
  }
  if (code == TSR_EXIT_OK && options->translator.model) {
    code = open_model(s);
  }
  if (code == TSR_EXIT_OK && options->sentences && !options->wer && !s->hears) {
    code = tsr_cli_usage("eval", "--sentences is for --wer, which is missing");
  }
  if (code == TSR_EXIT_OK) {
    code = choose_variants(s);
  }
  if (code == TSR_EXIT_OK) {
    code = evaluation_begin(&s->evaluation);
  }
  if (code == TSR_EXIT_OK) {
    code = read_all(s);
  }
  if (code == TSR_EXIT_OK) {
    code = write_lines(s);
  }
  if (code == TSR_EXIT_OK && options->timings) {
    code = translator_print_timings(&s->translator);
  }
  if (code == TSR_EXIT_OK) {
    code = report(s);
  }
  return code == TSR_EXIT_OK ? s->translator.outcome : code;
}

static void finish(void *opaque)
{
  session *s = opaque;
  evaluation_finish(&s->evaluation);
  tsr_normalizer_destroy(s->normalizer);
  translator_finish(&s->translator);
  listener_finish(&s->listener);
  if (s->lines) {
    fclose(s->lines);
  }
  free(s->lines_text);
  for (int32_t i = 0; i < MOST_FILES; i++) {
    tsr_text_file_close(s->references[i]);
    tsr_text_file_close(s->hypotheses[i]);
  }
  tsr_text_file_close(s->source);
  tsr_corpus_close(s->corpus);
}

#define FIELD(member) TSR_FIELD(session, options.member)

/* By the numbers of TSR_NORMALIZER_*. */
static const tsr_choice normalizers[] = {
    {"none", "words as they stand"},
    {"basic", "of any language: lower case, without punctuation and what stands in brackets"},
    {"english", "also with contractions, titles, numbers and spellings written in one way"},
    {NULL},
};

static const tsr_option rows[] = {
    {"source", "FILE", TSR_OPTION_FILE, FIELD(source),
     .help = "sentences to translate; - is standard input. For a model of speech: a list of sounds, a path a "
             "line, relative to the list's folder; a third column names the language, a fourth the task (transcribe, "
             "translate). With --hypothesis: the sentences that were translated, for --analysis"},
    {"hypothesis", "FILE", TSR_OPTION_FILE, FIELD(hypotheses), .repeats = 1,
     .help = "translations; - is standard input. Several files are compared with each other"},
    {"reference", "FILE", TSR_OPTION_FILE, FIELD(references), .repeats = 1,
     .help = "the reference translations. With several files, the scores are against all of them"},
    {"wer", NULL, TSR_OPTION_FLAG, FIELD(wer), .low = 1,
     .help = "also print the word error rate: substitutions, deletions and insertions, in percent of the reference's "
             "words"},
    {"normalizer", "N", TSR_OPTION_CHOICE, FIELD(normalizer), .choices = normalizers, .preset = "none",
     .help = "what Whisper's normaliser of that name makes of both texts is compared by --wer"},
    {"spellings", "FILE", TSR_OPTION_FILE, FIELD(spellings),
     .help = "table of spellings for --normalizer english: a JSON object of strings",
     .otherwise = "normalizer.json in the model's folder"},
    {"sentences", "FILE", TSR_OPTION_FILE, FIELD(sentences),
     .help = "with --wer, write a line for each sentence: its number, its word error rate, the reference and the "
             "output, with tabs between"},
    {"compare", "A,B,...", TSR_OPTION_TEXT, FIELD(compare), .is_list = 1,
     .help = "translate in several ways: greedy, beam4, beam4:0.6 (with a length penalty); print their scores, time "
             "and speed side by side, and the sentences on which they differ"},
    {"analysis", NULL, TSR_OPTION_FLAG, FIELD(analysis), .low = 1,
     .help =
         "also print scores by length, repetitions, outputs that were cut or copied or are far too short or long, and "
         "the worst sentences by sentence BLEU (effective order, exponential smoothing: sacreBLEU's sentence_bleu)"},
    {"html", "FILE", TSR_OPTION_FILE, FIELD(html),
     .help = "write the analysis as one HTML page, with a table that can be sorted"},
    {"worst", "N", TSR_OPTION_INTEGER, FIELD(worst), 1, INT32_MAX, .help = "number of sentences that are listed",
     .otherwise = "20; in the page: 2000"},
    {"json", NULL, TSR_OPTION_FLAG, FIELD(json), .low = 1,
     .help = "print one JSON object: bleu, chrf, wer, signature, and their parts"},
    {"timings", NULL, TSR_OPTION_FLAG, FIELD(timings), .low = 1,
     .help = "print on stderr how long loading and translating took"},
    {.table = &translator_options, .offset = offsetof(session, options.translator)},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"MODEL", TSR_OPTION_FOLDER, offsetof(session, options.translator.model), .optional = 1},
    {NULL},
};

const tsr_command tsr_command_eval = {
    .name = "eval",
    .summary = "score translations against a reference: BLEU, chrF, word error rate",
    .usage = "MODEL --source FILE --reference FILE... [OPTION]...\n"
             "--hypothesis FILE... --reference FILE... [OPTION]...",
    .intro = "Translates the source with the model in the folder MODEL, or reads translations from a file, and prints "
             "how close they are to the reference: BLEU and chrF, as sacreBLEU 2 computes them, and with --wer the "
             "word error rate. A model of speech transcribes the sounds of a list, without timestamps, window by "
             "window, and its word error rate is printed unasked. The version in the signature is this program's.\n"
             "\n"
             "Files are plain text with one sentence a line, or SGM or XML as WMT distributes them, compressed by gzip "
             "or zstd or not. If the source is a file of tab-separated columns, or XML, it holds the reference, too; "
             "leave --reference out then.",
    .options = &options,
    .operands = operands,
    .takes = "one model",
    .notes = "With --analysis, --html or --compare all sentences are kept in memory, otherwise a thousand at a time.",
    .examples = "tessera eval tools/demo-model --source test.en --reference test.fr --beam 4\n"
                "tessera eval tools/demo-model --source test.en --reference test.fr --compare greedy,beam4\n"
                "tessera eval --hypothesis output.fr --reference newstest2014-fren-ref.fr.sgm\n"
                "tessera eval model --source sounds.tsv --normalizer basic --sentences errors.tsv\n"
                "tessera eval --hypothesis speech.txt --reference spoken.txt --wer --normalizer basic",
    .session_size = sizeof(session),
    .check = check,
    .run = run,
    .finish = finish,
};
