/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of translations as JSON and as text.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/evaluation/evaluation.h"

/* The scores of a group. */
typedef struct scores {
  tsr_bleu bleu;
  tsr_chrf chrf;
} scores;

static tsr_status read_scores(const evaluation_group *group, scores *s)
{
  tsr_status status = tsr_scorer_bleu(group->scorer, &s->bleu);
  return status == TSR_OK ? tsr_scorer_chrf(group->scorer, &s->chrf) : status;
}

static double ratio(int64_t a, int64_t b)
{
  return b > 0 ? (double)a / (double)b : NAN;
}

/* 1 if it can be told how many outputs have the flaw. */
static int is_known(const evaluation *e, int32_t flaw)
{
  int has_source = e->n > 0 && e->sentences[0].source.bytes;
  return flaw == TSR_FLAW_CUT ? e->has_cuts : flaw == TSR_FLAW_COPIED ? has_source : 1;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static int set(json_t *object, const char *key, json_t *value)
{
  return json_object_set_new(object, key, value) == 0;
}

static json_t *json_count(int64_t value)
{
  return json_integer((json_int_t)value);
}

/* The names of the flaws whose bit is set. */
static json_t *json_flaws(int32_t flaws)
{
  json_t *list = json_array();
  for (int32_t i = 0; i < TSR_FLAWS; i++) {
    if (flaws >> i & 1 && json_array_append_new(list, json_string(evaluation_flaw(i))) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

/* Adds a group's scores to an object; 0 without memory. */
static int add_scores(json_t *object, const scores *s)
{
  const double *p = s->bleu.precisions;
  return set(object, "bleu", tsr_cli_json_real(s->bleu.score)) &&
         set(object, "chrf", tsr_cli_json_real(s->chrf.score)) &&
         set(object, "precisions", json_pack("[f,f,f,f]", p[0], p[1], p[2], p[3])) &&
         set(object, "brevity_penalty", tsr_cli_json_real(s->bleu.brevity_penalty)) &&
         set(object, "hypothesis_length", json_count(s->bleu.hypothesis_length)) &&
         set(object, "reference_length", json_count(s->bleu.reference_length));
}

/* Adds what an analysis counts. */
static int add_counts(const evaluation *e, json_t *object, const evaluation_group *group)
{
  json_t *flaws = json_object();
  int done = flaws != NULL;
  for (int32_t i = 0; i < TSR_FLAWS && done; i++) {
    done = set(flaws, evaluation_flaw(i), is_known(e, i) ? json_count(group->flaws[i]) : json_null());
  }
  const int64_t *r = group->repeats;
  return set(object, "flaws", flaws) && done &&
         set(object, "repeats",
             json_pack("{s:I, s:I, s:I}", "2", (json_int_t)r[1], "3", (json_int_t)r[2], "4", (json_int_t)r[3])) &&
         set(object, "doubled_words", json_count(group->doubled)) &&
         set(object, "length_ratio", tsr_cli_json_real(ratio(group->words, group->reference_words)));
}

/* Adds the word error rate, if it is wanted. */
static int add_wer(const evaluation *e, json_t *object, const evaluation_group *group)
{
  tsr_wer wer;
  return !e->has_wer ||
         (tsr_scorer_wer(group->scorer, &wer) == TSR_OK && set(object, "wer", tsr_cli_json_real(wer.score)) &&
          set(object, "substitutions", json_count(wer.substitutions)) &&
          set(object, "deletions", json_count(wer.deletions)) &&
          set(object, "insertions", json_count(wer.insertions)) &&
          set(object, "reference_words", json_count(wer.reference_words)) &&
          set(object, "hypothesis_words", json_count(wer.hypothesis_words)));
}

static json_t *json_buckets(const evaluation *e, const evaluation_variant *v)
{
  json_t *list = json_array();
  int done = list != NULL;
  for (int32_t b = 0; b < EVALUATION_BUCKETS && done; b++) {
    const evaluation_group *group = &v->buckets[b];
    char name[32];
    scores s;
    json_t *row = json_object();
    done = tsr_scorer_count(group->scorer) == 0 ||
           (row && read_scores(group, &s) == TSR_OK && set(row, "words", json_string(evaluation_bucket(b, name))) &&
            set(row, "sentences", json_count(tsr_scorer_count(group->scorer))) && add_scores(row, &s) &&
            add_counts(e, row, group) && json_array_append(list, row) == 0);
    json_decref(row);
  }
  if (!done) {
    json_decref(list);
    return NULL;
  }
  return list;
}

static json_t *json_variant(const evaluation *e, const evaluation_variant *v)
{
  scores s;
  json_t *object = json_object();
  int done = object && read_scores(&v->all, &s) == TSR_OK &&
             set(object, "name", tsr_cli_json_text(v->name, strlen(v->name))) && add_scores(object, &s) &&
             add_wer(e, object, &v->all);
  if (done && v->seconds > 0) {
    done = set(object, "seconds", tsr_cli_json_real(v->seconds)) && set(object, "tokens", json_count(v->tokens)) &&
           set(object, "tokens_per_second", tsr_cli_json_real((double)v->tokens / v->seconds));
  }
  if (done && e->has_cuts) {
    done = set(object, "cut", json_count(v->cut));
  }
  if (done && e->keeps) {
    done = add_counts(e, object, &v->all) && set(object, "buckets", json_buckets(e, v));
  }
  if (!done) {
    json_decref(object);
    return NULL;
  }
  return object;
}

static json_t *json_output(const evaluation_output *o)
{
  return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I}", "text", tsr_cli_json_text(o->text.bytes, o->text.size), "bleu",
                   tsr_cli_json_real(o->bleu), "chrf", tsr_cli_json_real(o->chrf), "flaws", json_flaws(o->facts.flaws),
                   "words", (json_int_t)o->facts.words, "reference_words", (json_int_t)o->facts.reference_words);
}

static json_t *json_sentence(const evaluation *e, const evaluation_sentence *s)
{
  json_t *references = json_array(), *outputs = json_array();
  int done = references && outputs;
  for (int32_t r = 0; r < e->n_references && done; r++) {
    done = json_array_append_new(references, tsr_cli_json_text(s->references[r].bytes, s->references[r].size)) == 0;
  }
  for (int32_t v = 0; v < e->n_variants && done; v++) {
    done = json_array_append_new(outputs, json_output(&s->outputs[v])) == 0;
  }
  json_t *source = s->source.bytes ? tsr_cli_json_text(s->source.bytes, s->source.size) : json_null();
  json_t *object = json_pack("{s:I, s:o, s:o, s:o}", "line", (json_int_t)s->number, "source", source, "references",
                             references, "outputs", outputs);
  if (!done) {
    json_decref(object);
    return NULL;
  }
  return object;
}

/* Takes list, after a failure too. */
static json_t *json_sentences(const evaluation *e, int64_t *list, int64_t n)
{
  json_t *all = json_array();
  for (int64_t i = 0; all && i < n; i++) {
    if (json_array_append_new(all, json_sentence(e, &e->sentences[list[i]])) != 0) {
      json_decref(all);
      all = NULL;
    }
  }
  free(list);
  return all;
}

static int64_t at_most(int64_t n, int64_t limit)
{
  return n < limit ? n : limit;
}

/* Adds the sentences of an analysis. */
static int add_sentences(const evaluation *e, json_t *object, int64_t limit)
{
  int64_t *list, n;
  if (evaluation_worst(e, &list, &n) != TSR_EXIT_OK) {
    return 0;
  }
  if (!set(object, "worst", json_sentences(e, list, at_most(n, limit)))) {
    return 0;
  }
  if (e->n_variants == 1) {
    return 1;
  }
  if (evaluation_differing(e, &list, &n) != TSR_EXIT_OK) {
    return 0;
  }
  return set(object, "differing", json_count(n)) &&
         set(object, "differences", json_sentences(e, list, at_most(n, limit)));
}

json_t *evaluation_json(const evaluation *e, int64_t limit)
{
  const evaluation_variant *first = &e->variants[0];
  char signature[3][128], sentence[128];
  scores s;
  json_t *object = json_object();
  tsr_scorer_signature(first->all.scorer, TSR_METRIC_BLEU, signature[0], sizeof signature[0]);
  tsr_scorer_signature(first->all.scorer, TSR_METRIC_CHRF, signature[1], sizeof signature[1]);
  int done = object && read_scores(&first->all, &s) == TSR_OK && add_scores(object, &s) &&
             set(object, "signature", json_string(signature[0])) &&
             set(object, "chrf_signature", json_string(signature[1])) && add_wer(e, object, &first->all) &&
             set(object, "sentences", json_count(tsr_scorer_count(first->all.scorer)));
  if (done && e->has_wer) {
    tsr_scorer_signature(first->all.scorer, TSR_METRIC_WER, signature[2], sizeof signature[2]);
    done = set(object, "wer_signature", json_string(signature[2]));
  }
  if (done && (e->keeps || e->n_variants > 1)) {
    json_t *variants = json_array();
    done = set(object, "variants", variants);
    for (int32_t v = 0; v < e->n_variants && done; v++) {
      done = json_array_append_new(variants, json_variant(e, &e->variants[v])) == 0;
    }
  }
  if (done && e->keeps) {
    done =
        set(object, "sentence_signature", json_string(evaluation_sentence_signature(e, sentence, sizeof sentence))) &&
        add_sentences(e, object, limit);
  }
  if (!done) {
    json_decref(object);
    return NULL;
  }
  return object;
}

char *evaluation_sentence_signature(const evaluation *e, char *text, size_t size)
{
  char *order = strstr(tsr_scorer_signature(e->variants[0].all.scorer, TSR_METRIC_BLEU, text, size), "eff:no");
  if (order && (size_t)(order - text) + strlen(order) + 2 < size) {
    memmove(order + strlen("eff:yes"), order + strlen("eff:no"), strlen(order + strlen("eff:no")) + 1);
    memcpy(order, "eff:yes", strlen("eff:yes"));
  }
  return text;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_signature(const evaluation *e, int32_t metric)
{
  char text[128];
  printf("  signature        %s\n", tsr_scorer_signature(e->variants[0].all.scorer, metric, text, sizeof text));
}

static int print_wer(const evaluation *e)
{
  char texts[5][32];
  tsr_wer wer;
  tsr_status status = tsr_scorer_wer(e->variants[0].all.scorer, &wer);
  if (status != TSR_OK) {
    return tsr_cli_fail(status);
  }
  if (isfinite(wer.score)) {
    printf("WER                %.2f\n", wer.score);
  } else {
    printf("WER                -\n");
  }
  printf("  errors           %s substitutions, %s deletions, %s insertions\n",
         tsr_cli_grouped(wer.substitutions, texts[0]), tsr_cli_grouped(wer.deletions, texts[1]),
         tsr_cli_grouped(wer.insertions, texts[2]));
  printf("  words            %s, %s in the reference\n", tsr_cli_grouped(wer.hypothesis_words, texts[3]),
         tsr_cli_grouped(wer.reference_words, texts[4]));
  print_signature(e, TSR_METRIC_WER);
  return TSR_EXIT_OK;
}

static int print_scores(const evaluation *e)
{
  char words[32], expected[32];
  scores s;
  tsr_status status = read_scores(&e->variants[0].all, &s);
  if (status != TSR_OK) {
    return tsr_cli_fail(status);
  }
  const double *p = s.bleu.precisions;
  printf("BLEU               %.2f\n", s.bleu.score);
  printf("  precisions       %.2f / %.2f / %.2f / %.2f\n", p[0], p[1], p[2], p[3]);
  printf("  brevity penalty  %.4f: %s words, %s in the reference\n", s.bleu.brevity_penalty,
         tsr_cli_grouped(s.bleu.hypothesis_length, words), tsr_cli_grouped(s.bleu.reference_length, expected));
  print_signature(e, TSR_METRIC_BLEU);
  printf("chrF2              %.2f\n", s.chrf.score);
  print_signature(e, TSR_METRIC_CHRF);
  return e->has_wer ? print_wer(e) : TSR_EXIT_OK;
}

/* "-" for what is not known. */
static void add_real(tsr_cli_table *table, int32_t digits, double value, int is_known)
{
  if (is_known && isfinite(value)) {
    tsr_cli_table_cell(table, "%.*f", (int)digits, value);
  } else {
    tsr_cli_table_cell(table, "-");
  }
}

static int print_variants(const evaluation *e)
{
  static const char *const heads[] = {"",        "BLEU",    "chrF2",    "1-grams", "2-grams", "3-grams",
                                      "4-grams", "seconds", "tokens/s", "length",  "cut",     "WER"};
  const int32_t columns = (int32_t)(sizeof heads / sizeof heads[0]) - (e->has_wer ? 0 : 1);
  tsr_cli_table table;
  tsr_status status = TSR_OK;
  tsr_cli_table_init(&table, columns, ((1u << columns) - 1u) & ~1u);
  for (int32_t i = 0; i < columns; i++) {
    tsr_cli_table_cell(&table, "%s", heads[i]);
  }
  for (int32_t v = 0; v < e->n_variants && status == TSR_OK; v++) {
    const evaluation_variant *variant = &e->variants[v];
    scores s;
    status = read_scores(&variant->all, &s);
    if (status != TSR_OK) {
      break;
    }
    tsr_cli_table_cell(&table, "%s", variant->name);
    add_real(&table, 2, s.bleu.score, 1);
    add_real(&table, 2, s.chrf.score, 1);
    for (int32_t i = 0; i < TSR_BLEU_ORDER; i++) {
      add_real(&table, 2, s.bleu.precisions[i], 1);
    }
    add_real(&table, 2, variant->seconds, variant->seconds > 0);
    add_real(&table, 1, (double)variant->tokens / variant->seconds, variant->seconds > 0);
    add_real(&table, 3, ratio(s.bleu.hypothesis_length, s.bleu.reference_length), 1);
    add_real(&table, 0, (double)variant->cut, e->has_cuts);
    if (e->has_wer) {
      tsr_wer wer;
      status = tsr_scorer_wer(variant->all.scorer, &wer);
      add_real(&table, 2, wer.score, status == TSR_OK);
    }
  }
  int code = status == TSR_OK ? tsr_cli_table_print(&table, stdout) : tsr_cli_fail(status);
  tsr_cli_table_finish(&table);
  return code;
}

static void print_counts(const evaluation *e, const evaluation_variant *v)
{
  static const char *const texts[TSR_FLAWS] = {
      [TSR_FLAW_EMPTY] = "without a word",
      [TSR_FLAW_CUT] = "cut at the maximum length",
      [TSR_FLAW_REPEATS] = "with a doubled word or a repeated 3-gram",
      [TSR_FLAW_COPIED] = "copied from the source, or half of it",
      [TSR_FLAW_SHORT] = "under half as long as the reference",
      [TSR_FLAW_LONG] = "over twice as long as the reference",
  };
  const evaluation_group *all = &v->all;
  printf("\n%s: outputs\n", v->name);
  for (int32_t i = 0; i < TSR_FLAWS; i++) {
    if (is_known(e, i)) {
      printf("  %-42s %6lld\n", texts[i], (long long)all->flaws[i]);
    } else {
      printf("  %-42s %6s\n", texts[i], "-");
    }
  }
  printf("beyond the reference: %lld doubled words; %lld 2-grams, %lld 3-grams, %lld 4-grams that come again\n",
         (long long)all->doubled, (long long)all->repeats[1], (long long)all->repeats[2], (long long)all->repeats[3]);
}

static int print_buckets(const evaluation *e, const evaluation_variant *v)
{
  static const char *const heads[] = {"sentences", "BLEU",    "chrF2",  "length", "empty",
                                      "cut",       "repeats", "copied", "short",  "long"};
  enum { COLUMNS = sizeof heads / sizeof heads[0] + 1 };
  tsr_cli_table table;
  tsr_status status = TSR_OK;
  tsr_cli_table_init(&table, COLUMNS, ((1u << COLUMNS) - 1u) & ~1u);
  putchar('\n');
  tsr_cli_table_cell(&table, "%s", e->sentences[0].source.bytes ? "words of the source" : "words of the reference");
  for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
    tsr_cli_table_cell(&table, "%s", heads[i]);
  }
  for (int32_t b = 0; b < EVALUATION_BUCKETS && status == TSR_OK; b++) {
    const evaluation_group *group = &v->buckets[b];
    char name[32];
    scores s;
    int64_t n = tsr_scorer_count(group->scorer);
    if (n == 0) {
      continue;
    }
    status = read_scores(group, &s);
    if (status != TSR_OK) {
      break;
    }
    tsr_cli_table_cell(&table, "%s", evaluation_bucket(b, name));
    tsr_cli_table_cell(&table, "%lld", (long long)n);
    add_real(&table, 2, s.bleu.score, 1);
    add_real(&table, 2, s.chrf.score, 1);
    add_real(&table, 3, ratio(group->words, group->reference_words), 1);
    for (int32_t i = 0; i < TSR_FLAWS; i++) {
      add_real(&table, 0, (double)group->flaws[i], is_known(e, i));
    }
  }
  int code = status == TSR_OK ? tsr_cli_table_print(&table, stdout) : tsr_cli_fail(status);
  tsr_cli_table_finish(&table);
  return code;
}

static void print_line(const char *what, tsr_span text)
{
  printf("    %-11s", what);
  for (size_t i = 0; i < text.size; i++) {
    putchar(text.bytes[i] == '\n' || text.bytes[i] == '\r' ? ' ' : text.bytes[i]);
  }
  putchar('\n');
}

static void print_sentence(const evaluation *e, const evaluation_sentence *s)
{
  printf("  line %lld\n", (long long)s->number);
  if (s->source.bytes) {
    print_line("source", s->source);
  }
  for (int32_t r = 0; r < e->n_references; r++) {
    print_line("reference", s->references[r]);
  }
  for (int32_t v = 0; v < e->n_variants; v++) {
    const evaluation_output *o = &s->outputs[v];
    print_line(e->n_variants > 1 ? e->variants[v].name : "output", o->text);
    printf("               BLEU %.2f, chrF2 %.2f", o->bleu, o->chrf);
    for (int32_t i = 0; i < TSR_FLAWS; i++) {
      if (o->facts.flaws >> i & 1) {
        printf(", %s", evaluation_flaw(i));
      }
    }
    putchar('\n');
  }
}

/* Takes list. */
static void print_sentences(const evaluation *e, int64_t *list, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    print_sentence(e, &e->sentences[list[i]]);
  }
  free(list);
}

static int print_analysis(const evaluation *e, int64_t limit)
{
  char signature[128];
  int code = TSR_EXIT_OK;
  int64_t *list, n;
  for (int32_t v = 0; v < e->n_variants && code == TSR_EXIT_OK; v++) {
    print_counts(e, &e->variants[v]);
    code = print_buckets(e, &e->variants[v]);
  }
  if (code == TSR_EXIT_OK) {
    code = evaluation_worst(e, &list, &n);
  }
  if (code == TSR_EXIT_OK) {
    printf("\nthe worst of %s by sentence BLEU (%s)\n", e->variants[0].name,
           evaluation_sentence_signature(e, signature, sizeof signature));
    print_sentences(e, list, at_most(n, limit));
  }
  return code;
}

static int print_differences(const evaluation *e, int64_t limit)
{
  int64_t *list, n;
  int code = evaluation_differing(e, &list, &n);
  if (code == TSR_EXIT_OK) {
    printf("\nthey differ on %lld of %lld sentences; the largest differences of sentence BLEU\n", (long long)n,
           (long long)e->n);
    print_sentences(e, list, at_most(n, limit));
  }
  return code;
}

int evaluation_print(const evaluation *e, int has_analysis, int64_t limit)
{
  char sentences[32];
  printf("sentences          %s\n", tsr_cli_grouped(tsr_scorer_count(e->variants[0].all.scorer), sentences));
  int code = TSR_EXIT_OK;
  if (e->n_variants == 1) {
    code = print_scores(e);
  } else {
    code = print_variants(e);
    printf("BLEU\n");
    print_signature(e, TSR_METRIC_BLEU);
    printf("chrF2\n");
    print_signature(e, TSR_METRIC_CHRF);
    if (e->has_wer) {
      printf("WER\n");
      print_signature(e, TSR_METRIC_WER);
    }
  }
  if (code == TSR_EXIT_OK && has_analysis) {
    code = print_analysis(e, limit);
  }
  if (code == TSR_EXIT_OK && e->n_variants > 1) {
    code = print_differences(e, limit);
  }
  return code;
}
