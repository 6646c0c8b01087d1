/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_recordings DEVICE
 *
 * What the originals made of the models of tests/data/goldens, through a translator that 64 threads use at once: each
 * model's sentences with each recorded search, several times, in a drawn order. Exit code 77 without the device.
 *   TESSERA_SEED     what the draws begin with (else the time)
 *   TESSERA_GOLDENS  another folder of recordings of the same form
 *
 * Marian-NMT's recordings have texts; those of the others have ids alone, and their folders no tokenizer. These get one
 * whose tokens are the ids, written as numbers: the text of 5 17 2 is "5 17</s>". None was recorded while sampling,
 * where the originals draw otherwise; marian_npz_prenorm has searches with a fault of the original only, and is left
 * out. The recording of tests/data/marian-en-fr, of 1,000 sentences, has a test of its own (`recorded`), whose
 * translations batch_invariance asks for again.
 */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/generate/settings.h"
#include "tessera/translator.h"
#include "tests/model/crowd.h"
#include "tests/model/generation.h"
#include "tests/support/temporary.h"
#include "tools/random/random.h"

enum { MOST_SEARCHES = 16, MOST_SENTENCES = 16, TEXT = 2048, LEAST_ASKED = 256 };

static const double tolerance = 1e-4; /* of scores, as `tessera golden` has it */
static const char *device_wanted;
static uint64_t seed;

/* A hypothesis, by the tokens' names with blanks between them. */
typedef struct expectation {
  char tokens[TEXT];
  double score; /* NAN: none is recorded */
} expectation;

typedef struct search {
  char name[64];
  tsr_generate_options options;
  int32_t n_hypotheses;  /* of all sentences */
  expectation *expected; /* [n_hypotheses] */
  int32_t *first;        /* [sentences + 1] each sentence's first */
} search;

typedef struct recording {
  char name[256];
  tsr_translator *translator;
  json_t *golden;
  int32_t has_texts;
  int32_t n_sentences;
  char text[MOST_SENTENCES][TEXT];
  int32_t n_searches;
  search searches[MOST_SEARCHES];
  atomic_int n_wrong;
} recording;

/* ---- a tokenizer of numbers -------------------------------------------------------------------------------------- */

/* How the token of an id is written. */
static const char *word_of(const tsr_transformer_config *config, int32_t id, char *room, size_t size)
{
  int32_t unk = config->unk_id >= 0 ? config->unk_id : config->pad_id;
  if (id == config->eos_id || id == unk) {
    return id == config->eos_id ? "</s>" : "<unk>";
  }
  snprintf(room, size, "%d", (int)id);
  return room;
}

static void write_json(const char *path, json_t *root)
{
  assert_int_equal(json_dump_file(root, path, 0), 0);
  json_decref(root);
}

/* tokenizer.json: a Unigram model of a piece for each id. */
static void write_numbers(const char *folder, const tsr_transformer_config *config)
{
  int32_t n =
      config->source_vocabulary > config->target_vocabulary ? config->source_vocabulary : config->target_vocabulary;
  int32_t unk = 0;
  json_t *pieces = json_array();
  for (int32_t id = 0; id < n; id++) {
    char number[16], piece[32];
    const char *word = word_of(config, id, number, sizeof number);
    unk = strcmp(word, "<unk>") == 0 ? id : unk;
    snprintf(piece, sizeof piece, "%s%s", word == number ? "\xE2\x96\x81" : "", word);
    json_array_append_new(pieces, json_pack("[sf]", piece, -1.0));
  }
  write_json(path_in(folder, "tokenizer_config.json"), json_pack("{ss}", "tokenizer_class", "PreTrainedTokenizerFast"));
  write_json(path_in(folder, "tokenizer.json"),
             json_pack("{s[]s{sss[{ss}{ssssss}]}s{sssisO}}", "added_tokens", "pre_tokenizer", "type", "Sequence",
                       "pretokenizers", "type", "WhitespaceSplit", "type", "Metaspace", "replacement", "\xE2\x96\x81",
                       "prepend_scheme", "always", "model", "type", "Unigram", "unk_id", (int)unk, "vocab", pieces));
  json_decref(pieces);
}

/* The recording's folder, with such a tokenizer, if it has none. To be removed. */
static char *copy_with_numbers(const char *from)
{
  char *folder = make_temporary_folder(), path[4096];
  DIR *listing = opendir(from);
  tsr_model *model;
  assert_non_null(listing);
  for (const struct dirent *entry; (entry = readdir(listing));) {
    snprintf(path, sizeof path, "%s/%s", from, entry->d_name);
    if (entry->d_name[0] != '.') {
      assert_int_equal(symlink(path, path_in(folder, entry->d_name)), 0);
    }
  }
  closedir(listing);
  check(tsr_model_open(folder, &model));
  if (strcmp(tsr_model_config(model)->family, "marian_npz") != 0) {
    write_numbers(folder, tsr_model_config(model));
  }
  tsr_model_close(model);
  return folder;
}

/* ---- what is recorded -------------------------------------------------------------------------------------------- */

static void append(char *text, const char *word, const char *between)
{
  size_t size = strlen(text);
  assert_true(size + strlen(word) + 2 < TEXT);
  snprintf(text + size, TEXT - size, "%s%s", size > 0 ? between : "", word);
}

/* The sentences of a recording in ids: what the mask leaves. */
static void read_ids(recording *r, const tsr_transformer_config *config)
{
  const json_t *ids = json_object_get(r->golden, "input_ids"), *masks = json_object_get(r->golden, "attention_mask");
  r->n_sentences = (int32_t)json_array_size(ids);
  assert_in_range(r->n_sentences, 1, MOST_SENTENCES);
  for (int32_t i = 0; i < r->n_sentences; i++) {
    const json_t *row = json_array_get(ids, (size_t)i), *mask = json_array_get(masks, (size_t)i);
    for (size_t k = 0; k < json_array_size(row); k++) {
      char number[16];
      if (json_integer_value(json_array_get(mask, k))) {
        append(r->text[i], word_of(config, (int32_t)json_integer_value(json_array_get(row, k)), number, sizeof number),
               " ");
      }
    }
  }
}

static search *add_search(recording *r, const char *name, int32_t most)
{
  assert_in_range(r->n_searches, 0, MOST_SEARCHES - 1);
  search *s = &r->searches[r->n_searches++];
  snprintf(s->name, sizeof s->name, "%s", name);
  s->options = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
  check(tsr_generate_defaults(tsr_translator_model(r->translator), &s->options));
  s->expected = calloc((size_t)most, sizeof *s->expected);
  s->first = calloc((size_t)r->n_sentences + 1, sizeof *s->first);
  assert_true(s->expected && s->first);
  return s;
}

/* Tokens up to the first that ends, without the start token. */
static void read_sequence(const recording *r, const search *s, const json_t *sequence, expectation *e)
{
  const tsr_transformer_config *config = tsr_model_config(tsr_translator_model(r->translator));
  const tsr_generate_options options = tsr_generate_resolve(config, &s->options);
  int32_t is_end = 0;
  for (size_t i = 1; i < json_array_size(sequence) && !is_end; i++) {
    char number[16];
    int32_t id = (int32_t)json_integer_value(json_array_get(sequence, i));
    append(e->tokens, word_of(config, id, number, sizeof number), " ");
    for (int32_t k = 0; k < options.n_eos; k++) {
      is_end |= id == options.eos[k];
    }
  }
}

/* Of Hugging Face's generate(). */
static void read_generate(recording *r)
{
  size_t i;
  json_t *entry;
  json_array_foreach(json_object_get(r->golden, "generate"), i, entry)
  {
    const json_t *sequences = json_object_get(entry, "sequences"), *scores = json_object_get(entry, "sequences_scores");
    int32_t n = (int32_t)json_array_size(sequences);
    search *s = add_search(r, json_string_value(json_object_get(entry, "name")), n);
    tsr_config arguments = {.path = r->name, .root = json_object_get(entry, "args")};
    check(tsr_generate_apply(&arguments, tsr_translator_model(r->translator), 1, &s->options));
    s->n_hypotheses = n;
    assert_int_equal(n, r->n_sentences * s->options.n_best);
    for (int32_t k = 0; k <= r->n_sentences; k++) {
      s->first[k] = k * s->options.n_best;
    }
    for (int32_t k = 0; k < n; k++) {
      read_sequence(r, s, json_array_get(sequences, (size_t)k), &s->expected[k]);
      s->expected[k].score = scores ? json_number_value(json_array_get(scores, (size_t)k)) : NAN;
    }
  }
}

/* Of marian-decoder, whose lists may be shorter than the beam. */
static void read_decode(recording *r)
{
  size_t i, k;
  json_t *entry, *pair;
  json_array_foreach(json_object_get(r->golden, "decode"), i, entry)
  {
    char name[64];
    const json_t *results = json_object_get(entry, "results");
    int32_t beam = (int32_t)json_integer_value(json_object_get(entry, "beam_size"));
    double normalize = json_number_value(json_object_get(entry, "normalize"));
    snprintf(name, sizeof name, "beam %d, normalize %g", (int)beam, normalize);
    search *s = add_search(r, name, beam * r->n_sentences);
    s->options.beam = s->options.n_best = beam;
    s->options.length_penalty = (float)normalize;
    for (int32_t b = 0; b < r->n_sentences; b++) {
      s->first[b] = s->n_hypotheses;
      json_array_foreach(json_object_get(json_array_get(results, (size_t)b), "nbest"), k, pair)
      {
        expectation *e = &s->expected[s->n_hypotheses++];
        append(e->tokens, json_string_value(json_array_get(pair, 0)), " ");
        e->score = json_number_value(json_array_get(pair, 1));
      }
    }
    s->first[r->n_sentences] = s->n_hypotheses;
  }
}

static void read_recording(recording *r)
{
  const json_t *texts = json_object_get(r->golden, "source_text");
  r->has_texts = texts != NULL;
  if (!r->has_texts) {
    read_ids(r, tsr_model_config(tsr_translator_model(r->translator)));
    read_generate(r);
    return;
  }
  r->n_sentences = (int32_t)json_array_size(texts);
  assert_in_range(r->n_sentences, 1, MOST_SENTENCES);
  for (int32_t i = 0; i < r->n_sentences; i++) {
    append(r->text[i], json_string_value(json_array_get(texts, (size_t)i)), "");
  }
  read_decode(r);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* The tokens of what came, as they are recorded; Marian-NMT leaves </s> out. */
static void name_tokens(const recording *r, const tsr_translation_hypothesis *h, char *tokens)
{
  const tsr_tokenizer *tokenizer = tsr_translator_tokenizer(r->translator);
  const tsr_transformer_config *config = tsr_model_config(tsr_translator_model(r->translator));
  tokens[0] = '\0';
  for (int32_t i = 0; i < h->n_ids; i++) {
    char number[16];
    if (!r->has_texts) {
      append(tokens, word_of(config, h->ids[i], number, sizeof number), " ");
    } else if (h->ids[i] != config->eos_id) {
      append(tokens, tsr_tokenizer_token(tokenizer, 1, h->ids[i]), " ");
    }
  }
}

/* The text without what is no text. */
static void text_of(const char *tokens, char *text)
{
  text[0] = '\0';
  for (const char *at = tokens; *at; at += strspn(at, " ")) {
    char word[64];
    size_t size = strcspn(at, " ");
    snprintf(word, sizeof word, "%.*s", (int)size, at);
    if (strcmp(word, "</s>") != 0 && strcmp(word, "<unk>") != 0) {
      append(text, word, " ");
    }
    at += size;
  }
}

/* Half a unit of the last of six digits is the recording's own error. */
static int is_near(const expectation *e, float found)
{
  double unit = e->score != 0.0 ? pow(10.0, floor(log10(fabs(e->score))) - 5.0) : 0.0;
  return isnan(e->score) || fabs((double)found - e->score) <= tolerance + unit / 2.0;
}

static int is_same(const recording *r, const expectation *e, const tsr_translation_hypothesis *h)
{
  char tokens[TEXT], text[TEXT];
  name_tokens(r, h, tokens);
  text_of(e->tokens, text);
  return strcmp(tokens, e->tokens) == 0 && is_near(e, h->score) && (r->has_texts || strcmp(h->text, text) == 0);
}

/* Returns what is wrong with an answer, or NULL. */
static const char *fault_of(const recording *r, const search *s, int32_t sentence, const tsr_translation *found)
{
  const expectation *expected = &s->expected[s->first[sentence]];
  int32_t n = s->first[sentence + 1] - s->first[sentence];
  if (found->status != TSR_OK) {
    return found->message;
  }
  for (int32_t i = 0; i < n; i++) {
    if (i >= found->n_hypotheses || !is_same(r, &expected[i], found->hypotheses[i])) {
      return i < found->n_hypotheses ? found->hypotheses[i]->text : "fewer hypotheses";
    }
  }
  return NULL;
}

static void ask(void *user, int32_t i)
{
  recording *r = user;
  const search *s = &r->searches[i % r->n_searches];
  const int32_t sentence = i / r->n_searches % r->n_sentences;
  const tsr_translation_request request = {TSR_SIZED(tsr_translation_request), .text = r->text[sentence],
                                           .search = &s->options, .number = i};
  tsr_translation *found = NULL;
  const char *fault = "no answer";
  if (tsr_translator_translate(r->translator, 1, &request, &found) == TSR_OK) {
    fault = fault_of(r, s, sentence, found);
  }
  if (fault) {
    fprintf(stderr, "%s, %s, sentence %d '%s': found '%s'; recorded '%s'\n", r->name, s->name, (int)sentence,
            r->text[sentence], fault, s->expected[s->first[sentence]].tokens);
    atomic_fetch_add(&r->n_wrong, 1);
  }
  tsr_translation_free(found);
}

static tsr_translator *open_drawn(const char *folder, int32_t *most)
{
  enum { MOST_IN_BATCH = 24, MOST_WORKERS = 2 };
  tsr_translator *t;
  *most = 1 + tsr_random_below(&seed, MOST_IN_BATCH);
  const tsr_translator_options options = {TSR_SIZED(tsr_translator_options), .n_devices = 1, .devices = &device_wanted,
                                          .batch = *most, .workers = 1 + tsr_random_below(&seed, MOST_WORKERS)};
  check(tsr_translator_open(folder, &options, &t));
  return t;
}

static json_t *open_golden(const char *from)
{
  static const char sharded[] = "_sharded"; /* the recording is that of the same model in one file */
  char path[4096];
  size_t size = strlen(from), end = sizeof sharded - 1;
  int is_sharded = size > end && strcmp(from + size - end, sharded) == 0;
  snprintf(path, sizeof path, "%.*s/golden.json", (int)(is_sharded ? size - end : size), from);
  return json_load_file(path, 0, NULL);
}

/* Returns how many answers are wrong. */
static int32_t replay(const char *from, const char *name)
{
  static recording r;
  int32_t most, wrong;
  char *folder = copy_with_numbers(from);
  memset((void *)&r, 0, sizeof r);
  snprintf(r.name, sizeof r.name, "%s", name);
  r.golden = open_golden(from);
  assert_non_null(r.golden);
  r.translator = open_drawn(folder, &most);
  read_recording(&r);
  int32_t n = r.n_searches * r.n_sentences;
  n = n > 0 ? (LEAST_ASKED + n - 1) / n * n : 0;
  if (n == 0) {
    printf("%s: left out, no search of it is recorded that could be compared\n", name);
  } else {
    ask_in_a_crowd(n, &seed, ask, &r);
  }
  tsr_translator_statistics s;
  tsr_translator_measure(r.translator, &s);
  wrong = atomic_load(&r.n_wrong);
  if (n > 0) {
    printf("%s, batch %d: %d searches of %d %s, %d answers, %d joined; %d wrong\n", name, (int)most, (int)r.n_searches,
           (int)r.n_sentences, r.has_texts ? "texts" : "rows of ids", (int)s.answered, (int)s.joined, (int)wrong);
    fflush(stdout);
  }
  tsr_translator_close(r.translator);
  for (int32_t i = 0; i < r.n_searches; i++) {
    free(r.searches[i].expected);
    free(r.searches[i].first);
  }
  json_decref(r.golden);
  remove_temporary_folder(folder);
  return wrong;
}

static void test_recordings(void **state)
{
  (void)state;
  const char *goldens = getenv("TESSERA_GOLDENS");
  char *own = path_in_tree("tests/data/goldens"), models[2048], path[4096];
  int32_t n = 0, n_wrong = 0;
  snprintf(models, sizeof models, "%s/models", goldens && *goldens ? goldens : own);
  DIR *listing = opendir(models);
  assert_non_null(listing);
  for (const struct dirent *entry; (entry = readdir(listing));) {
    snprintf(path, sizeof path, "%s/%s", models, entry->d_name);
    if (entry->d_name[0] != '.') {
      n_wrong += replay(path, entry->d_name);
      n++;
    }
  }
  closedir(listing);
  free(own);
  assert_true(n > 0);
  assert_int_equal(n_wrong, 0);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_recordings)};
  if (argc != 2) {
    fprintf(stderr, "usage: test_model_recordings DEVICE\n");
    return 1;
  }
  device_wanted = argv[1];
  seed = draw_seed();
  return has_device(device_wanted) ? cmocka_run_group_tests(tests, NULL, NULL) : EXIT_SKIPPED;
}
