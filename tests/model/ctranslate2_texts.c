/* SPDX-License-Identifier: Apache-2.0
 *
 * ctranslate2_texts FOLDERS DATA DEVICE COUNT [MORE]
 *
 * Translates the first COUNT of the recorded sentences with a Marian conversion, and the texts of a package of Argos,
 * through a translator, and compares with what CTranslate2's own runtime gave. In f32 99.5 % of the sentences are the
 * same, and all texts of the package. In whole numbers 97 % are, and six of the package's eight: where a number is
 * about to be rounded up or down, its last bit in f32 decides, which depends on the order in which a CPU sums. BLEU of
 * all sentences is within 0.3 of that of the recorded translations, in whole numbers too. With MORE, a folder of
 * recordings that are too large to lie here: the same of its conversion to f16, and nothing else.
 * Exit code 77 where the device, or MORE, does not exist.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/eval.h"
#include "tessera/translator.h"
#include "tests/support/temporary.h"

enum { SKIPPED = 77, MOST = 1000, PATH = 4096 };

static const double bleu_tolerance = 0.3;

static const char *folders, *data, *device;
static int failures;

typedef struct lines {
  char *text[MOST];
  int32_t n;
} lines;

static void read_lines(const char *path, int32_t most, lines *all)
{
  char *line = NULL;
  size_t room = 0;
  ssize_t length = 0;
  *all = (lines){.n = 0};
  FILE *file = fopen(path, "r");
  if (!file) {
    printf("%s: cannot be opened\n", path);
    failures++;
    return;
  }
  while (all->n < most && (length = getline(&line, &room, file)) > 0) {
    line[strcspn(line, "\n")] = '\0';
    all->text[all->n++] = strdup(line);
  }
  free(line);
  fclose(file);
}

static void free_lines(lines *all)
{
  for (int32_t i = 0; i < all->n; i++) {
    free(all->text[i]);
  }
}

static tsr_span span_of(const char *text)
{
  return (tsr_span){text, strlen(text)};
}

/* BLEU of the best translations less that of the recorded ones. */
static double compare_bleu(tsr_translation *const *answers, const char *const *expected, const lines *reference)
{
  static tsr_span found[MOST], recorded[MOST], wanted[MOST];
  tsr_bleu bleu[2] = {{0}};
  for (int32_t i = 0; i < reference->n; i++) {
    found[i] = span_of(answers[i]->status == TSR_OK ? answers[i]->hypotheses[0]->text : "");
    recorded[i] = span_of(expected[i]);
    wanted[i] = span_of(reference->text[i]);
  }
  if (tsr_bleu_corpus(found, wanted, reference->n, &bleu[0]) != TSR_OK ||
      tsr_bleu_corpus(recorded, wanted, reference->n, &bleu[1]) != TSR_OK) {
    return (double)NAN;
  }
  printf("BLEU %.2f, recorded %.2f: ", bleu[0].score, bleu[1].score);
  return bleu[0].score - bleu[1].score;
}

/* How many of the lines are translated as recorded; -1: there is no such device. reference: for BLEU, or NULL. */
static int32_t count_same(const char *folder, tsr_dtype weights, int32_t beam, int32_t n_best, const lines *source,
                          const char *const *expected, const lines *reference)
{
  static tsr_translation *answers[MOST];
  static tsr_translation_request requests[MOST];
  const char *const devices[] = {device};
  const tsr_translator_options options = {TSR_SIZED(tsr_translator_options), .n_devices = 1, .devices = devices,
                                          .weights = weights, .static_batches = 1};
  tsr_translator *translator = NULL;
  tsr_generate_options search = {TSR_SIZED(tsr_generate_options)};
  tsr_status status = tsr_translator_open(folder, &options, &translator);
  if (status == TSR_ERR_NO_DEVICE) {
    return -1;
  }
  if (status == TSR_OK) {
    status = tsr_generate_defaults(tsr_translator_model(translator), &search);
  }
  search.beam = beam > 0 ? beam : search.beam;
  search.n_best = n_best;
  for (int32_t i = 0; i < source->n; i++) {
    requests[i] = (tsr_translation_request){TSR_SIZED(tsr_translation_request), .text = source->text[i],
                                            .search = &search, .number = -1};
  }
  if (status == TSR_OK) {
    status = tsr_translator_translate(translator, source->n, requests, answers);
  }
  int32_t same = 0;
  for (int32_t i = 0; i < source->n && status == TSR_OK; i++) {
    int is_same = answers[i]->status == TSR_OK && answers[i]->n_hypotheses == n_best;
    for (int32_t k = 0; is_same && k < n_best; k++) {
      is_same = strcmp(answers[i]->hypotheses[k]->text, expected[i * n_best + k]) == 0;
    }
    same += is_same;
  }
  if (status == TSR_OK && reference) {
    failures += !(fabs(compare_bleu(answers, expected, reference)) <= bleu_tolerance);
  }
  for (int32_t i = 0; i < source->n && status == TSR_OK; i++) {
    tsr_translation_free(answers[i]);
  }
  if (status != TSR_OK) {
    printf("%s: %s\n", folder, tsr_error_message());
    failures++;
  }
  tsr_translator_close(translator);
  return same;
}

static void expect(const char *what, int32_t same, int32_t n, double share)
{
  printf("%s on %s: %d of %d as recorded\n", what, device, (int)same, (int)n);
  failures += (double)same < share * (double)n;
}

static void link_file(const char *from, const char *folder, const char *name)
{
  char to[2 * PATH];
  snprintf(to, sizeof to, "%s/%s", folder, name);
  failures += symlink(from, to) != 0;
}

/* A recording of a Marian conversion. */
typedef struct recording {
  const char *name;
  tsr_dtype weights;
  int32_t beam;
  double share;
} recording;

/* Recordings [n] of the model in a folder, which lie at prefix + their name. 0: there is no such device. */
static int compare_recordings(const char *folder, const char *prefix, const recording *rows, int32_t n, int32_t count)
{
  char path[2 * PATH];
  lines source, reference, expected;
  snprintf(path, sizeof path, "%s/tatoeba/test.en", data);
  read_lines(path, count, &source);
  snprintf(path, sizeof path, "%s/tatoeba/test.fr", data);
  read_lines(path, count, &reference);
  failures += source.n != count || reference.n != count;
  int32_t same = 0;
  for (int32_t i = 0; i < n && same >= 0 && failures == 0; i++) {
    snprintf(path, sizeof path, "%s%s.fr", prefix, rows[i].name);
    read_lines(path, count, &expected);
    /* Of a few sentences each is worth more than the tolerance. */
    same = expected.n != count ? 0
                               : count_same(folder, rows[i].weights, rows[i].beam, 1, &source,
                                            (const char *const *)expected.text, count == MOST ? &reference : NULL);
    if (same >= 0) {
      expect(rows[i].name, same, source.n, rows[i].share);
    }
    free_lines(&expected);
  }
  free_lines(&reference);
  free_lines(&source);
  return same >= 0;
}

/* A folder with the conversion beside the SentencePiece model that it was made with. */
static char *link_conversion(const char *conversion)
{
  static const char *const files[] = {"config.json", "model.bin", "shared_vocabulary.json"};
  char path[2 * PATH];
  char *folder = make_temporary_folder();
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", conversion, files[i]);
    link_file(path, folder, files[i]);
  }
  snprintf(path, sizeof path, "%s/marian-en-fr/source.spm", data);
  link_file(path, folder, "source.spm");
  link_file(path, folder, "target.spm");
  return folder;
}

static int compare_marian(int32_t count)
{
  static const recording rows[] = {{"int8.as-float32.beam1", TSR_F32, 1, 0.995},
                                   {"int8.as-float32.beam4", TSR_F32, 4, 0.995},
                                   {"int8.beam1", 0, 1, 0.97},
                                   {"int8.beam4", 0, 4, 0.97}};
  char path[2 * PATH];
  snprintf(path, sizeof path, "%s/marian-en-fr-int8", folders);
  char *folder = link_conversion(path);
  snprintf(path, sizeof path, "%s/marian-en-fr-int8/recorded/", folders);
  int is_there = compare_recordings(folder, path, rows, (int32_t)(sizeof rows / sizeof rows[0]), count);
  remove_temporary_folder(folder);
  return is_there;
}

/* 0: there is no such device, or no such folder. */
static int compare_more(const char *more, int32_t count)
{
  static const recording rows[] = {{"beam1", 0, 1, 0.995}, {"beam4", 0, 4, 0.995}};
  char path[2 * PATH];
  snprintf(path, sizeof path, "%s/marian-en-fr-f16", more);
  if (access(path, R_OK) != 0) {
    (void)tsr_fail(TSR_ERR_IO, "%s is not there", path);
    return 0;
  }
  char *folder = link_conversion(path);
  snprintf(path, sizeof path, "%s/recorded/test.marian-en-fr-f16.", more);
  int is_there = compare_recordings(folder, path, rows, (int32_t)(sizeof rows / sizeof rows[0]), count);
  remove_temporary_folder(folder);
  return is_there;
}

static int compare_argos(void)
{
  char path[PATH];
  snprintf(path, sizeof path, "%s/argos/golden.json", folders);
  json_t *golden = json_load_file(path, 0, NULL), *texts = json_object_get(golden, "texts");
  snprintf(path, sizeof path, "%s/argos/translate-en_fr-1_9.argosmodel", folders);
  static const char *const types[] = {"float32", "int8"};
  const char *expected[MOST];
  lines source = {.n = (int32_t)json_array_size(texts)};
  int32_t same = 0;
  for (int32_t i = 0; i < source.n; i++) {
    source.text[i] = strdup(json_string_value(json_array_get(texts, (size_t)i)));
  }
  for (int type = 0; type < 2; type++) {
    const json_t *results = json_object_get(json_object_get(golden, "results"), types[type]);
    for (int32_t n_best = 1; n_best <= 4 && same >= 0; n_best += 3) {
      const json_t *all = json_object_get(results, n_best == 1 ? "argos_1" : "argos_4");
      for (int32_t i = 0; i < source.n * n_best; i++) {
        const json_t *h = json_array_get(json_array_get(all, (size_t)(i / n_best)), (size_t)(i % n_best));
        expected[i] = json_string_value(json_object_get(h, "text"));
      }
      same = count_same(path, type == 0 ? TSR_F32 : 0, 0, n_best, &source, expected, NULL);
      if (same >= 0) {
        printf("%s, ", types[type]);
        expect(n_best == 1 ? "argos" : "argos, 4 hypotheses", same, source.n, type == 0 ? 1.0 : 0.75);
      }
    }
  }
  failures += source.n == 0;
  free_lines(&source);
  json_decref(golden);
  return same >= 0;
}

int main(int argc, char **argv)
{
  if (argc < 5) {
    return 2;
  }
  folders = argv[1];
  data = argv[2];
  device = argv[3];
  const int32_t count = atoi(argv[4]);
  if (argc > 5 ? !compare_more(argv[5], count) : !compare_marian(count) || !compare_argos()) {
    printf("skipped: %s\n", tsr_error_message());
    return SKIPPED;
  }
  return failures > 0;
}
