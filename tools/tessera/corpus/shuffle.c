/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera shuffle: writes the lines of a file, or of two parallel files, in a random order, in constant memory.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/platform/paths.h"
#include "tessera/corpus.h"
#include "tessera/files.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/corpus/random_order.h"
#include "tools/tessera/corpus/sentences.h"

enum { SIDES = 2 };

/* A file that is written. */
typedef struct output {
  char *path; /* NULL: there is no such side */
  tsr_file_writer *writer;
} output;

typedef struct session {
  const char *inputs[SIDES]; /* the second: NULL where there is none */
  const char *out;
  int64_t seed;
  int64_t memory;      /* MiB */
  tsr_text_file *file; /* of one input */
  tsr_corpus *corpus;  /* of two */
  output outputs[SIDES];
  char *folder; /* of temporary files; NULL: not made yet */
  random_order *order;
  int64_t count; /* lines or pairs */
  int64_t given;
  tsr_cli_progress progress;
} session;

/* The signal that asked to stop. */
static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
  stopped = number;
}

static void watch_signals(void)
{
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND}; /* a second one ends it at once */
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
}

/* ---- paths ------------------------------------------------------------------------------------------------------- */

/* The length of a name without the last of these endings that it has; more must be left than the ending. */
static size_t without_ending(const char *name, size_t size, const char *const *endings)
{
  for (; *endings; endings++) {
    const size_t n = strlen(*endings);
    if (size > n && strncasecmp(name + size - n, *endings, n) == 0) {
      return size - n;
    }
  }
  return size;
}

static const char *const compressed[] = {".gz", ".zst", NULL};

/* In the folder, the name of the input without what says that it is compressed, or markup. NULL: memory ran out. */
static char *output_path(const char *folder, const char *input)
{
  static const char *const markup[] = {".sgm", ".sgml", ".xml", NULL};
  const char *name = tsr_path_name(tsr_cli_path(input));
  size_t size = without_ending(name, strlen(name), compressed);
  char *plain = strndup(name, without_ending(name, size, markup));
  char *path = plain ? path_join(folder, plain) : NULL;
  free(plain);
  return path;
}

static int is_same_file(const char *a, const char *b)
{
  struct stat x;
  struct stat y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int choose_paths(session *s)
{
  for (int i = 0; i < SIDES && s->inputs[i]; i++) {
    s->outputs[i].path = output_path(s->out, s->inputs[i]);
    if (!s->outputs[i].path) {
      return tsr_cli_no_memory();
    }
  }
  if (s->inputs[1] && strcmp(s->outputs[0].path, s->outputs[1].path) == 0) {
    tsr_cli_error("%s and %s would both be written to %s; give one of them another name", s->inputs[0], s->inputs[1],
                  s->outputs[0].path);
    return TSR_EXIT_INPUT;
  }
  for (int i = 0; i < SIDES && s->inputs[i]; i++) {
    for (int k = 0; k < SIDES && s->inputs[k]; k++) {
      if (is_same_file(s->outputs[i].path, tsr_cli_path(s->inputs[k]))) {
        tsr_cli_error("%s: is read, and would be overwritten; choose another folder", s->outputs[i].path);
        return TSR_EXIT_INPUT;
      }
    }
  }
  return TSR_EXIT_OK;
}

/* About how much text the inputs hold, in bytes; 0: unknown. */
static uint64_t expected_bytes(const session *s)
{
  const char *paths[SIDES] = {tsr_cli_path(s->inputs[0]), tsr_cli_path(s->inputs[1])};
  return (uint64_t)corpus_expected_bytes(paths, s->inputs[1] ? 2 : 1);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int open_inputs(session *s)
{
  const char *source = tsr_cli_path(s->inputs[0]);
  if (!s->inputs[1]) {
    return tsr_cli_fail_input(tsr_text_file_open(source, TSR_TEXT_SOURCE, &s->file));
  }
  const tsr_corpus_files files = {.source = source, .target = tsr_cli_path(s->inputs[1])};
  return tsr_cli_fail_input(tsr_corpus_open(&files, &s->corpus));
}

static int next_record(session *s, random_order_record *record, int32_t *end)
{
  if (!s->inputs[1]) {
    tsr_corpus_sentence line = {0};
    int code = tsr_cli_fail_input(tsr_text_file_next(s->file, &line, end));
    *record = (random_order_record){line.number, {line.text, line.text}, {line.size, 0}};
    return code;
  }
  tsr_corpus_pair pair = {0};
  int code = tsr_cli_fail_input(tsr_corpus_next(s->corpus, &pair, end));
  *record = (random_order_record){pair.number, {pair.source, pair.target}, {pair.source_size, pair.target_size}};
  return code;
}

static int read_all(session *s)
{
  int code = TSR_EXIT_OK;
  int32_t end = 0;
  tsr_cli_progress_start(&s->progress, "distributing");
  while (code == TSR_EXIT_OK && !end) {
    random_order_record record;
    code = stopped ? TSR_EXIT_INPUT : next_record(s, &record, &end);
    if (code == TSR_EXIT_OK && !end) {
      code = random_order_add(s->order, &record);
      s->count++;
      tsr_cli_progress_update(&s->progress, s->count, 0);
    }
  }
  tsr_cli_progress_clear(&s->progress);
  return code;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Opens the outputs. While they are open, no other process writes files of these names. */
static int open_outputs(session *s)
{
  int code = tsr_cli_fail(tsr_folder_make(s->out));
  for (int i = 0; i < SIDES && s->outputs[i].path && code == TSR_EXIT_OK; i++) {
    output *o = &s->outputs[i];
    if (path_is_folder(o->path)) {
      tsr_cli_error("%s: is a folder; choose another one for --out", o->path);
      return TSR_EXIT_INPUT;
    }
    code = tsr_cli_fail(tsr_file_writer_open(o->path, &o->writer));
  }
  return code;
}

/* Removes the temporary files of a folder, and the folder if there were no others. */
static void remove_folder(const char *folder)
{
  random_order_clear(folder);
  rmdir(folder);
}

/* An empty folder beside the outputs: on the same disk, and alone this process's. What is there is of one that was
 * killed. */
static int make_folder(session *s)
{
  static const char suffix[] = ".shuffle";
  const size_t room = strlen(s->outputs[0].path) + sizeof suffix;
  s->folder = malloc(room);
  if (!s->folder) {
    return tsr_cli_no_memory();
  }
  snprintf(s->folder, room, "%s%s", s->outputs[0].path, suffix);
  remove_folder(s->folder);
  if (path_exists(s->folder)) {
    tsr_cli_error("%s: is in the way of temporary files; remove it, or choose another --out", s->folder);
    free(s->folder);
    s->folder = NULL;
    return TSR_EXIT_INPUT;
  }
  return tsr_cli_fail(tsr_folder_make(s->folder));
}

static int write_record(void *user, const random_order_record *record)
{
  session *s = user;
  int code = TSR_EXIT_OK;
  for (int i = 0; i < SIDES && s->outputs[i].path && code == TSR_EXIT_OK; i++) {
    code = corpus_put_line(s->outputs[i].writer, record->texts[i], record->sizes[i]);
  }
  tsr_cli_progress_update(&s->progress, ++s->given, s->count);
  return code == TSR_EXIT_OK && stopped ? TSR_EXIT_INPUT : code;
}

static int write_all(session *s)
{
  tsr_cli_progress_start(&s->progress, "writing");
  int code = random_order_give(s->order, write_record, s);
  tsr_cli_progress_clear(&s->progress);
  /* Where this is stopped between two results, one is missing: sides of two orders would look like pairs. */
  if (code == TSR_EXIT_OK && s->outputs[1].path) {
    unlink(s->outputs[1].path);
  }
  for (int i = 0; i < SIDES && s->outputs[i].path && code == TSR_EXIT_OK; i++) {
    code = tsr_cli_fail(tsr_file_writer_commit(&s->outputs[i].writer));
  }
  return code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int shuffle(session *s)
{
  int code = choose_paths(s);
  code = code == TSR_EXIT_OK ? open_inputs(s) : code;
  code = code == TSR_EXIT_OK ? open_outputs(s) : code;
  code = code == TSR_EXIT_OK ? make_folder(s) : code;
  if (code == TSR_EXIT_OK) {
    const random_order_options options = {.folder = s->folder,
                                          .seed = (uint64_t)s->seed,
                                          .memory = (uint64_t)s->memory << 20,
                                          .expected = expected_bytes(s),
                                          .stop = &stopped};
    code = random_order_open(&options, &s->order);
  }
  code = code == TSR_EXIT_OK ? read_all(s) : code;
  return code == TSR_EXIT_OK ? write_all(s) : code;
}

static void finish(void *opaque)
{
  session *s = opaque;
  random_order_close(s->order);
  if (s->folder) {
    remove_folder(s->folder);
  }
  for (int i = 0; i < SIDES; i++) {
    tsr_file_writer_abandon(s->outputs[i].writer);
    free(s->outputs[i].path);
  }
  free(s->folder);
  tsr_text_file_close(s->file);
  tsr_corpus_close(s->corpus);
  *s = (session){0};
}

static int run(void *opaque)
{
  session *s = opaque;
  watch_signals();
  int code = shuffle(s);
  if (code == TSR_EXIT_OK) {
    char count[32];
    tsr_cli_grouped(s->count, count);
    printf("%s%s%s: %s %s\n", s->outputs[0].path, s->inputs[1] ? ", " : "", s->inputs[1] ? s->outputs[1].path : "",
           count, s->inputs[1] ? "pairs" : "lines");
  } else if (stopped) {
    tsr_cli_error("stopped; nothing was written");
    finish(s);
    raise(stopped);
  }
  return code;
}

static int check(void *opaque)
{
  const session *s = opaque;
  return s->out ? TSR_EXIT_OK : tsr_cli_usage("shuffle", "--out is needed");
}

#define FIELD(member) TSR_FIELD(session, member)

static const tsr_option rows[] = {
    {"out", "FOLDER", TSR_OPTION_FOLDER, FIELD(out),
     .help = "where to write, and where temporary files lie; the folder is created if it is missing"},
    {"seed", "N", TSR_OPTION_INTEGER, FIELD(seed), 0, 9e15, .help = "another number gives another order",
     .preset = "1"},
    {"memory", "MIB", TSR_OPTION_INTEGER, FIELD(memory), 1, 1 << 20,
     .help = "how much memory the sentences may take; the order does not depend on it", .preset = "512"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"SOURCE", TSR_OPTION_FILE, offsetof(session, inputs[0])},
    {"TARGET", TSR_OPTION_FILE, offsetof(session, inputs[1]), .optional = 1},
    {NULL},
};

const tsr_command tsr_command_shuffle = {
    .name = "shuffle",
    .summary = "write the lines or pairs of large files in a random order",
    .usage = "--out FOLDER [OPTION]... SOURCE [TARGET]",
    .intro =
        "Writes the lines of a file, such as one of tab-separated columns, in a random order; of two files of as many "
        "lines, the pairs. Training shuffles within pools of pairs, not across them: a large file that is sorted by "
        "its subject should be shuffled once before.\n"
        "\n"
        "Files are plain text, compressed by gzip or zstd or not, or SGM or XML as WMT distributes them; of a single "
        "XML file the sources count. The results are plain text, with the names of the inputs without .gz, .zst, .sgm, "
        ".sgml and .xml. Their lines are as training reads them: each ends with LF, and what is not UTF-8 is U+FFFD. A "
        "result is there whole or not at all; if the command is stopped in the moment that it has two, one is missing.",
    .options = &options,
    .operands = operands,
    .missing = "the file to shuffle is missing",
    .takes = "one or two files",
    .notes =
        "The order depends on the seed and the number of lines alone. Temporary files take room for the text and 16 "
        "bytes for each record on the disk, beside the results.",
    .examples = "tessera shuffle --out shuffled train.en.gz train.fr.gz\n"
                "tessera shuffle --out shuffled --seed 2 --memory 4096 pairs.tsv.zst",
    .session_size = sizeof(session),
    .check = check,
    .run = run,
    .finish = finish,
};
