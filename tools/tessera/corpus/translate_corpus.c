/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera translate-corpus: files of any number of sentences, translated in shards. A folder holds
 *
 *   manifest.json          what was asked for, and where the shards begin
 *   shards/00000.txt ..    translations; each file is there whole, or not at all
 *   distinct.txt           with --deduplicate: each sentence once, what the shards are shards of
 *   duplicates/            and what says where each belongs
 *   translation.txt        the translations of all sentences, when all shards are there
 *
 * The lock of tessera/files.h says which shard another process is at.
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tessera/files.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/corpus/duplicates.h"
#include "tools/tessera/corpus/manifest.h"
#include "tools/tessera/corpus/sentences.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/translator.h"

static const char me[] = "translate-corpus";

typedef struct settings {
  translator_settings translator;
  const char *out;
  int32_t n_shards;
  int32_t memory;      /* MiB */
  tsr_integers shards; /* those to translate; none: all */
  int deduplicate;
  int prepare;
  int no_join;
  tsr_names inputs;
} settings;

typedef struct session {
  settings options;
  json_t *given;
  char *manifest_path;
  char *shards_folder;
  char *duplicates_folder;
  char *distinct;
  char *result;
  corpus_files inputs;
  corpus_files files; /* what the shards are shards of */
  corpus_manifest manifest;
  translator translator;
  tsr_file_writer *writer; /* of the shard under way, or of the result */
} session;

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int check(void *opaque)
{
  settings *options = &((session *)opaque)->options;
  if (!options->translator.model) {
    return tsr_cli_usage(me, "--model is missing");
  }
  if (!options->out) {
    return tsr_cli_usage(me, "--out is missing");
  }
  return TSR_EXIT_OK;
}

/* Files are read more than once, from places within. */
static int check_inputs(const session *s)
{
  struct stat facts;
  for (int32_t i = 0; i < s->options.inputs.n; i++) {
    const char *path = s->options.inputs.values[i];
    if (stat(path, &facts) != 0) {
      tsr_cli_error("%s: %s", path, strerror(errno));
      return TSR_EXIT_INPUT;
    }
    if (!S_ISREG(facts.st_mode)) {
      tsr_cli_error("%s: expected a file, which can be read from any place, not a folder or a pipe", path);
      return TSR_EXIT_INPUT;
    }
  }
  return TSR_EXIT_OK;
}

/* What changes nothing in the translations may differ between runs. */
static void forget_neutral(json_t *given)
{
  static const char *const neutral[] = {
      "model", "out", "shards", "shard", "prepare", "no-join", "workers", "batch", "device", "strict", "memory",
  };
  for (size_t i = 0; i < sizeof neutral / sizeof neutral[0]; i++) {
    (void)json_object_del(given, neutral[i]);
  }
}

static int make_folders(session *s)
{
  const char *out = s->options.out;
  s->manifest_path = path_join(out, "manifest.json");
  s->shards_folder = path_join(out, "shards");
  s->duplicates_folder = path_join(out, "duplicates");
  s->distinct = path_join(out, "distinct.txt");
  s->result = path_join(out, "translation.txt");
  if (!s->manifest_path || !s->shards_folder || !s->duplicates_folder || !s->distinct || !s->result) {
    return tsr_cli_no_memory();
  }
  tsr_status status = tsr_folder_make(s->shards_folder);
  if (status == TSR_OK && s->options.deduplicate) {
    status = tsr_folder_make(s->duplicates_folder);
  }
  s->inputs = (corpus_files){s->options.inputs.values, s->options.inputs.n, TSR_TEXT_SOURCE};
  s->files = s->inputs;
  if (s->options.deduplicate) {
    s->files = (corpus_files){(const char *const *)&s->distinct, 1, TSR_TEXT_PLAIN};
  }
  return tsr_cli_fail(status);
}

/* ---- the manifest ------------------------------------------------------------------------------------------------ */

/* Cuts the inputs, or what is distinct in them, into shards. */
static int cut(session *s)
{
  corpus_manifest *manifest = &s->manifest;
  duplicates_counts counts = {0};
  int code = TSR_EXIT_OK;
  if (s->options.deduplicate) {
    const int64_t bytes = corpus_expected_bytes(s->inputs.paths, s->inputs.n);
    manifest->n_parts = duplicates_parts(bytes, (int64_t)s->options.memory << 20);
    code = duplicates_find(&s->inputs, manifest->n_parts, s->duplicates_folder, s->distinct, &counts);
  }
  code = code == TSR_EXIT_OK ? corpus_cut(&s->files, s->options.n_shards, &manifest->shards) : code;
  manifest->sentences = s->options.deduplicate ? counts.sentences : manifest->shards.sentences;
  if (code == TSR_EXIT_OK && s->options.deduplicate && counts.distinct != manifest->shards.sentences) {
    tsr_cli_error("%s: expected %lld lines, found %lld", s->distinct, (long long)counts.distinct,
                  (long long)manifest->shards.sentences);
    code = TSR_EXIT_INTERNAL;
  }
  return code;
}

/* Without a manifest nobody knows what results are of. */
static int check_no_results(const session *s)
{
  int n = path_exists(s->result);
  DIR *entries = opendir(s->shards_folder);
  for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
    const char *end = strrchr(entry->d_name, '.');
    n += end && strcmp(end, ".txt") == 0;
  }
  if (entries) {
    closedir(entries);
  }
  if (n > 0) {
    tsr_cli_error("%s: holds translations, but no manifest.json that tells of what; take another folder",
                  s->options.out);
    return TSR_EXIT_INPUT;
  }
  return TSR_EXIT_OK;
}

static int write_manifest(session *s, const corpus_asked *asked, tsr_file_writer **writer)
{
  char *text = NULL;
  json_t *root = NULL;
  int code = corpus_manifest_begin(asked, &root);
  code = code == TSR_EXIT_OK ? cut(s) : code;
  code = code == TSR_EXIT_OK ? corpus_manifest_print(asked, root, &s->manifest, &text) : code;
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_file_writer_write(*writer, text, strlen(text)));
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_file_writer_commit(writer));
  }
  json_decref(root);
  free(text);
  return code;
}

/* Reads the manifest, or makes it; waits while another process does. */
static int open_manifest(session *s)
{
  const corpus_asked asked = {.inputs = s->options.inputs.values,
                              .n_inputs = s->options.inputs.n,
                              .model = s->options.translator.model,
                              .settings = s->given,
                              .n_shards = s->options.n_shards,
                              .n_files = s->files.n};
  const struct timespec second = {.tv_sec = 1};
  int found = 0, code = TSR_EXIT_OK;
  for (int waits = 0; !found && code == TSR_EXIT_OK; waits++) {
    tsr_file_writer *writer = NULL;
    tsr_status status = tsr_file_writer_open(s->manifest_path, &writer);
    if (status == TSR_ERR_BUSY && waits == 0) {
      tsr_cli_warning("another process prepares %s: waiting for it", s->options.out);
    }
    code = status == TSR_ERR_BUSY ? TSR_EXIT_OK : tsr_cli_fail(status);
    if (code == TSR_EXIT_OK) {
      code = corpus_manifest_read(s->manifest_path, &asked, &s->manifest, &found);
    }
    if (code == TSR_EXIT_OK && !found && writer) {
      code = check_no_results(s);
      code = code == TSR_EXIT_OK ? write_manifest(s, &asked, &writer) : code;
      found = 1;
    } else if (!found) {
      nanosleep(&second, NULL);
    }
    tsr_file_writer_abandon(writer);
  }
  return code;
}

/* ---- shards ------------------------------------------------------------------------------------------------------ */

/* The path of a shard's translations; to be freed. */
static char *shard_path(const session *s, int32_t shard)
{
  char name[32];
  snprintf(name, sizeof name, "%05d.txt", (int)shard);
  return path_join(s->shards_folder, name);
}

static int is_done(const session *s, int32_t shard)
{
  char *path = shard_path(s, shard);
  int done = path && path_exists(path);
  free(path);
  return done;
}

/* Writes a text as one line: what would end it within the text becomes a blank. */
static int put_line(tsr_file_writer *writer, const char *text)
{
  tsr_status status = TSR_OK;
  while (*text && status == TSR_OK) {
    size_t size = strcspn(text, "\r\n");
    status = tsr_file_writer_write(writer, size > 0 ? text : " ", size > 0 ? size : 1);
    text += size > 0 ? size : 1;
  }
  if (status == TSR_OK) {
    status = tsr_file_writer_write(writer, "\n", 1);
  }
  return tsr_cli_fail(status);
}

/* A translator_receiver. */
static int take_translation(void *user, const translation *t)
{
  session *s = user;
  if (s->options.translator.scores && t->n_parts > 0) {
    char score[32];
    float value = t->hypothesis->score;
    int size =
        isnan(value) ? snprintf(score, sizeof score, "nan\t") : snprintf(score, sizeof score, "%.6f\t", (double)value);
    int code = tsr_cli_fail(tsr_file_writer_write(s->writer, score, (size_t)size));
    if (code != TSR_EXIT_OK) {
      return code;
    }
  }
  return put_line(s->writer, t->hypothesis->text);
}

/* Draws, with --sample, depend on the sentence's number among all, and not on shards and chunks: there is room for the
 * parts of a long one before the next. */
static int64_t number_of(int64_t sentence)
{
  enum { PARTS = 1 << 20 };
  return sentence * PARTS;
}

static int run_chunk(session *s)
{
  return s->translator.n > 0 ? translator_run(&s->translator, take_translation, s) : TSR_EXIT_OK;
}

static int fail_changed(const session *s, int32_t file)
{
  tsr_cli_error("%s: has changed since %s was written; begin again in another folder", s->files.paths[file],
                s->manifest_path);
  return TSR_EXIT_INPUT;
}

static int translate_sentences(session *s, const corpus_shard *shard, corpus_reader *reader)
{
  translator *t = &s->translator;
  tsr_corpus_sentence sentence;
  int32_t file = shard->begin.file;
  uint64_t sum = 0;
  int code = TSR_EXIT_OK;
  for (int64_t i = 0; i < shard->n && code == TSR_EXIT_OK; i++) {
    int got = 0;
    code = corpus_reader_next(reader, &sentence, &got);
    if (code == TSR_EXIT_OK && !got) {
      code = fail_changed(s, s->files.n - 1);
    }
    if (code == TSR_EXIT_OK && (reader->place.file != file || translator_is_full(t, TRANSLATOR_CHUNK))) {
      file = reader->place.file;
      code = run_chunk(s);
    }
    if (code == TSR_EXIT_OK) {
      sum += corpus_sum(&sentence, shard->first + i);
      code = translator_add(t, s->files.paths[file], sentence.number, sentence.text, sentence.size);
    }
    if (code == TSR_EXIT_OK) {
      t->requests[t->n - 1].number = number_of(shard->first + i);
    }
  }
  if (code == TSR_EXIT_OK && sum != shard->sum) {
    return fail_changed(s, file);
  }
  return code == TSR_EXIT_OK ? run_chunk(s) : code;
}

static int write_shard(session *s, const corpus_shard *shard)
{
  corpus_reader reader = {0};
  int code = TSR_EXIT_OK;
  if (shard->n > 0) {
    code = corpus_reader_open(&reader, &s->files, &shard->begin);
    code = code == TSR_EXIT_OK ? translate_sentences(s, shard, &reader) : code;
    corpus_reader_finish(&reader);
  }
  return code == TSR_EXIT_OK ? tsr_cli_fail(tsr_file_writer_commit(&s->writer)) : code;
}

/* Translates a shard, unless another process is at it: *is_busy. */
static int translate_shard(session *s, int32_t number, int *is_busy)
{
  const corpus_shard *shard = &s->manifest.shards.list[number];
  char *path = shard_path(s, number);
  if (!path) {
    return tsr_cli_no_memory();
  }
  double start = tsr_cli_seconds();
  tsr_status status = tsr_file_writer_open(path, &s->writer);
  *is_busy = status == TSR_ERR_BUSY;
  int code = *is_busy ? TSR_EXIT_OK : tsr_cli_fail(status);
  /* Another process may have ended it since it was looked for. */
  if (code == TSR_EXIT_OK && !*is_busy && !path_exists(path)) {
    code = write_shard(s, shard);
    if (code == TSR_EXIT_OK) {
      printf("shard %d of %d: %lld sentences in %.1f s\n", (int)number, (int)s->manifest.shards.n, (long long)shard->n,
             tsr_cli_seconds() - start);
      code = tsr_cli_flush();
    }
  }
  tsr_file_writer_abandon(s->writer);
  s->writer = NULL;
  free(path);
  return code;
}

static int32_t count_chosen(const session *s)
{
  return s->options.shards.n > 0 ? s->options.shards.n : s->manifest.shards.n;
}

static int32_t chosen(const session *s, int32_t i)
{
  return s->options.shards.n > 0 ? s->options.shards.values[i] : i;
}

static int check_chosen(const session *s)
{
  for (int32_t i = 0; i < s->options.shards.n; i++) {
    if (s->options.shards.values[i] >= s->manifest.shards.n) {
      return tsr_cli_usage(me, "--shard: there is no shard %d: expected 0 to %d", (int)s->options.shards.values[i],
                           (int)s->manifest.shards.n - 1);
    }
  }
  return TSR_EXIT_OK;
}

/* Opens the translator, if it is not open, when there is something to translate. */
static int open_translator(session *s)
{
  int64_t sentences = 0;
  int32_t n = count_chosen(s);
  for (int32_t i = 0; i < n; i++) {
    int32_t shard = chosen(s, i);
    sentences += is_done(s, shard) ? 0 : s->manifest.shards.list[shard].n;
  }
  int code = TSR_EXIT_OK;
  if (sentences > 0 && !s->translator.translator) {
    code = translator_open(&s->translator, &s->options.translator);
  }
  s->translator.total = sentences;
  s->translator.drops_failed = 1;
  return code;
}

static int translate_shards(session *s)
{
  int32_t n = count_chosen(s);
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < n && code == TSR_EXIT_OK; i++) {
    int is_busy = 0;
    if (!is_done(s, chosen(s, i))) {
      code = translate_shard(s, chosen(s, i), &is_busy);
    }
    if (is_busy && s->options.shards.n > 0) {
      tsr_cli_warning("shard %d: another process is translating it", (int)chosen(s, i));
    }
  }
  return code;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

/* The lines of all shards in a row. */
typedef struct shard_lines {
  const session *session;
  tsr_cli_lines lines; /* of the shard under way */
  char *path;
  int32_t shard;
  int64_t left; /* in it */
} shard_lines;

static void close_shard(shard_lines *l)
{
  if (l->lines.file) {
    tsr_cli_lines_finish(&l->lines);
  }
  free(l->path);
  l->path = NULL;
}

static int fail_shard(const shard_lines *l)
{
  tsr_cli_error("%s: expected %lld lines, found another number; remove the file, and begin again", l->path,
                (long long)l->session->manifest.shards.list[l->shard].n);
  return TSR_EXIT_INPUT;
}

/* The manifest, or what says where sentences belong, asks for other lines than the shards have. */
static int fail_lines(const session *s)
{
  tsr_cli_error("%s: is not what was written there; begin again in another folder",
                s->options.deduplicate ? s->duplicates_folder : s->manifest_path);
  return TSR_EXIT_INPUT;
}

/* Goes on to the next shard that has lines, or behind the last. */
static int next_shard(shard_lines *l)
{
  const corpus_shards *shards = &l->session->manifest.shards;
  int got = 0, code = TSR_EXIT_OK;
  while (l->left == 0 && l->shard < shards->n && code == TSR_EXIT_OK) {
    if (l->path) {
      code = tsr_cli_lines_next(&l->lines, &got);
      code = code == TSR_EXIT_OK && got ? fail_shard(l) : code;
      close_shard(l);
      l->shard++;
    }
    if (code == TSR_EXIT_OK && l->shard < shards->n) {
      l->path = shard_path(l->session, l->shard);
      code = l->path ? tsr_cli_lines_open(&l->lines, l->path) : tsr_cli_no_memory();
      l->left = shards->list[l->shard].n;
    }
  }
  return code;
}

/* A duplicates_line_fn. */
static int next_line(void *user, const char **line, size_t *size)
{
  shard_lines *l = user;
  int got = 0;
  int code = next_shard(l);
  if (code == TSR_EXIT_OK && !l->path) {
    return fail_lines(l->session);
  }
  code = code == TSR_EXIT_OK ? tsr_cli_lines_next(&l->lines, &got) : code;
  if (code == TSR_EXIT_OK && !got) {
    return fail_shard(l);
  }
  l->left--;
  *line = l->lines.text;
  *size = l->lines.size;
  return code;
}

static int copy_lines(shard_lines *l, tsr_file_writer *writer)
{
  int code = TSR_EXIT_OK;
  for (int64_t i = 0; i < l->session->manifest.sentences && code == TSR_EXIT_OK; i++) {
    const char *line;
    size_t size;
    code = next_line(l, &line, &size);
    code = code == TSR_EXIT_OK ? corpus_put_line(writer, line, size) : code;
  }
  return code;
}

static int write_result(session *s)
{
  shard_lines lines = {.session = s};
  int64_t n = s->manifest.sentences;
  int code = s->options.deduplicate
                 ? duplicates_join(s->manifest.n_parts, s->duplicates_folder, next_line, &lines, s->writer, &n)
                 : copy_lines(&lines, s->writer);
  if (code == TSR_EXIT_OK) {
    code = next_shard(&lines);
  }
  if (code == TSR_EXIT_OK && (lines.shard < s->manifest.shards.n || n != s->manifest.sentences)) {
    code = fail_lines(s);
  }
  close_shard(&lines);
  return code == TSR_EXIT_OK ? tsr_cli_fail(tsr_file_writer_commit(&s->writer)) : code;
}

static int join(session *s)
{
  tsr_status status = tsr_file_writer_open(s->result, &s->writer);
  if (status == TSR_ERR_BUSY) {
    printf("another process writes %s\n", s->result);
    return TSR_EXIT_OK;
  }
  int code = tsr_cli_fail(status);
  if (code == TSR_EXIT_OK && !path_exists(s->result)) {
    code = write_result(s);
  }
  return code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Says how far all is, and joins the shards if they are all there. */
static int conclude(session *s)
{
  int32_t n_done = 0, n = s->manifest.shards.n;
  for (int32_t i = 0; i < n; i++) {
    n_done += is_done(s, i);
  }
  int code = n_done == n && !s->options.no_join ? join(s) : TSR_EXIT_OK;
  if (code == TSR_EXIT_OK && path_exists(s->result)) {
    printf("%s: %lld lines\n", s->result, (long long)s->manifest.sentences);
  } else if (code == TSR_EXIT_OK) {
    printf("%d of %d shards are done\n", (int)n_done, (int)n);
  }
  return code;
}

static int prepare(session *s)
{
  const settings *options = &s->options;
  forget_neutral(s->given);
  int code = check_inputs(s);
  code = code == TSR_EXIT_OK ? make_folders(s) : code;
  /* Before a long preparation: is there such a model, and such a device? */
  if (code == TSR_EXIT_OK && !options->prepare && !path_exists(s->manifest_path)) {
    code = translator_open(&s->translator, &s->options.translator);
  }
  code = code == TSR_EXIT_OK ? open_manifest(s) : code;
  code = code == TSR_EXIT_OK ? check_chosen(s) : code;
  if (code == TSR_EXIT_OK && options->prepare) {
    printf("%lld sentences, %lld to translate, in %d shards\n", (long long)s->manifest.sentences,
           (long long)s->manifest.shards.sentences, (int)s->manifest.shards.n);
  }
  return code;
}

static int run(void *opaque)
{
  session *s = opaque;
  int code = prepare(s);
  if (code != TSR_EXIT_OK || s->options.prepare) {
    return code;
  }
  code = path_exists(s->result) ? TSR_EXIT_OK : open_translator(s);
  if (code == TSR_EXIT_OK && !path_exists(s->result)) {
    code = translate_shards(s);
  }
  code = code == TSR_EXIT_OK ? conclude(s) : code;
  code = code == TSR_EXIT_OK ? tsr_cli_flush() : code;
  return code == TSR_EXIT_OK ? s->translator.outcome : code;
}

static void finish(void *opaque)
{
  session *s = opaque;
  tsr_file_writer_abandon(s->writer);
  translator_finish(&s->translator);
  corpus_manifest_finish(&s->manifest);
  json_decref(s->given);
  free(s->manifest_path);
  free(s->shards_folder);
  free(s->duplicates_folder);
  free(s->distinct);
  free(s->result);
}

#define FIELD(member) TSR_FIELD(session, options.member)

static const tsr_option rows[] = {
    {"model", "FOLDER", TSR_OPTION_FOLDER, FIELD(translator.model),
     .help = "the model, as `tessera translate` takes it"},
    {"out", "FOLDER", TSR_OPTION_FOLDER, FIELD(out), .help = "where the shards and the translation are written"},
    {"shards", "N", TSR_OPTION_INTEGER, FIELD(n_shards), 1, CORPUS_MAX_SHARDS, .shows_range = 1,
     .help = "how many shards there are",
     .otherwise = "one for each 10,000 sentences; if FOLDER has a manifest, as many as that says"},
    {"shard", "K,..", TSR_OPTION_INTEGER, FIELD(shards), 0, CORPUS_MAX_SHARDS - 1, .is_list = 1, .repeats = 1,
     .help = "translate these shards, counted from 0, instead of all that are not there"},
    {"deduplicate", NULL, TSR_OPTION_FLAG, FIELD(deduplicate), .low = 1,
     .help = "translate a sentence that comes more than once only once"},
    {"memory", "MIB", TSR_OPTION_INTEGER, FIELD(memory), 1, 1 << 20,
     .help = "how much memory sentences may take while duplicates are looked for, up to a corpus of 64 times as much",
     .preset = "256"},
    {"scores", NULL, TSR_OPTION_FLAG, FIELD(translator.scores), .low = 1,
     .help = "write each translation's score and a tab before it"},
    {"prepare", NULL, TSR_OPTION_FLAG, FIELD(prepare), .low = 1,
     .help = "write the manifest, tell how many shards there are, and translate nothing"},
    {"no-join", NULL, TSR_OPTION_FLAG, FIELD(no_join), .low = 1,
     .help = "leave the shards as they are when all are there"},
    {.table = &translator_options, .offset = offsetof(session, options.translator)},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"IN", TSR_OPTION_FILE, offsetof(session, options.inputs), .repeats = 1},
    {NULL},
};

const tsr_command tsr_command_translate_corpus = {
    .name = me,
    .summary = "translate a corpus in shards, on one machine or on many",
    .usage = "--model FOLDER --out FOLDER [OPTION]... IN...",
    .intro =
        "Translates the sentences of files, one a line (or SGM, XML; gzip and zstd are read as they are), into "
        "FOLDER/translation.txt, which has a line for each sentence, in the same order. The sentences are cut into "
        "shards, FOLDER/shards/00000.txt and so on. A shard is written in one step: its file is there whole, or not at "
        "all. A run that is stopped at any moment costs the shard that it was at; the same command goes on from there, "
        "and does nothing if all is done.\n"
        "\n"
        "Any number of processes, on machines that share the folder, may run the same command at once: each takes the "
        "shards that nobody is at. The one that ends the last shard joins all. To run shards as an array of a job "
        "scheduler, give each task its own with --shard.",
    .options = &options,
    .operands = operands,
    .missing = "an input file is missing",
    .examples = "tessera translate-corpus --model opus-mt-en-fr --out out --deduplicate news.en.gz web.en",
    .session_size = sizeof(session),
    .given = offsetof(session, given),
    .check = check,
    .run = run,
    .finish = finish,
};
