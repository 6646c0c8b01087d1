/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera document: a file in, the same with translated text out.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "tools/tessera/commands.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/documents/documents.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/translator.h"

typedef struct settings {
  translator_settings translator;
  const char *in;
  const char *out;
  const char *format;
  int paragraphs;
  int64_t max_unpacked; /* MiB */
} settings;

typedef struct session {
  settings options;
  translator translator;
  char *bytes; /* of the file */
  size_t size;
  void *result;
  size_t result_size;
} session;

/* The one of tsr_document_formats that a name ends with; NULL: none. */
static const char *ending_of(const char *name)
{
  const char *dot = strrchr(name, '.');
  const char *const *formats = tsr_document_formats();
  int i = 0;
  while (dot && formats[i] && strcasecmp(dot, formats[i]) != 0) {
    i++;
  }
  return dot ? formats[i] : NULL;
}

/* What a command line says of kinds of files, before a model is loaded. */
static int check_kinds(const settings *options)
{
  char name[64];
  snprintf(name, sizeof name, ".%s", options->format ? options->format : "");
  if (!options->format && strcmp(options->in, "-") == 0) {
    return tsr_cli_usage("document", "standard input needs --format, the kind of file: html, docx ...");
  }
  if (options->format && !ending_of(name)) {
    return tsr_cli_usage("document", "--format: '%s' is no kind of file that is translated", options->format);
  }
  const char *in = ending_of(options->format ? name : options->in), *out = ending_of(options->out);
  /* .htm and .html are one kind. */
  if (in && out && strcmp(in, out) != 0 && (strncmp(in, ".htm", 4) != 0 || strncmp(out, ".htm", 4) != 0)) {
    return tsr_cli_usage("document", "a file stays what it is: '%s' would hold %s", options->out, in + 1);
  }
  return TSR_EXIT_OK;
}

static int check(void *opaque)
{
  settings *options = &((session *)opaque)->options;
  if (!options->translator.model) {
    return tsr_cli_usage("document", "--model is missing");
  }
  options->translator.alignment_layer = -1;
  return check_kinds(options);
}

static int read_file(session *s)
{
  const char *path = s->options.in;
  FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
  size_t room = 0, n = 1;
  int code = TSR_EXIT_OK;
  if (!file) {
    tsr_cli_error("%s: %s", path, strerror(errno));
    return TSR_EXIT_INPUT;
  }
  errno = 0;
  while (n > 0 && code == TSR_EXIT_OK) {
    if (s->size == room) {
      room = room ? 2 * room : 1 << 16;
      char *bytes = realloc(s->bytes, room);
      code = bytes ? TSR_EXIT_OK : tsr_cli_no_memory();
      s->bytes = bytes ? bytes : s->bytes;
    }
    n = code == TSR_EXIT_OK ? fread(s->bytes + s->size, 1, room - s->size, file) : 0;
    s->size += n;
  }
  if (code == TSR_EXIT_OK && ferror(file)) {
    tsr_cli_error("%s: %s", path, strerror(errno));
    code = TSR_EXIT_INPUT;
  }
  if (file != stdin) {
    fclose(file);
  }
  return code;
}

/* The path is written when all is there: a file that stands there already is lost only for a whole one. */
static int write_file(const session *s)
{
  const char *path = s->options.out;
  FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "wb");
  int failed = !file || fwrite(s->result, 1, s->result_size, file) != s->result_size;
  int reason = errno;
  if (file && file != stdout && fclose(file) != 0 && !failed) {
    failed = 1;
    reason = errno;
  }
  if (failed) {
    tsr_cli_error("%s: %s", path, strerror(reason));
    return TSR_EXIT_INPUT;
  }
  return TSR_EXIT_OK;
}

/* A tsr_document_translator's. */
static tsr_status translate(void *user, int32_t n, const tsr_document_text *texts, tsr_document_answer *answers)
{
  session *s = user;
  tsr_translation_request *requests = calloc((size_t)n, sizeof *requests);
  tsr_translation **found = calloc((size_t)n, sizeof *found);
  tsr_status status = requests && found ? TSR_OK : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    requests[i] = (tsr_translation_request){TSR_SIZED(tsr_translation_request),
                                            .text = texts[i].text,
                                            .text_size = texts[i].size,
                                            .long_input = TSR_LONG_SPLIT,
                                            .number = -1,
                                            .spans = 1,
                                            .alignment = 1,
                                            .search = &s->translator.options,
                                            .max_source = s->options.translator.max_source};
  }
  if (status == TSR_OK) {
    status = tsr_translator_translate(s->translator.translator, n, requests, found);
  }
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    status = tsr_document_take(&texts[i], found[i], &answers[i]);
  }
  for (int32_t i = 0; found && i < n; i++) {
    tsr_translation_free(found[i]);
  }
  free(found);
  free(requests);
  return status;
}

static tsr_status show_progress(void *user, int64_t done, int64_t total)
{
  session *s = user;
  s->translator.done = done;
  tsr_cli_progress_update(&s->translator.progress, done, total);
  return TSR_OK;
}

static int run(void *opaque)
{
  session *s = opaque;
  const settings *options = &s->options;
  int code = read_file(s);
  if (code == TSR_EXIT_OK && strcmp(options->out, "-") != 0 && !path_is_writable(options->out)) {
    tsr_cli_error("%s: cannot be written: %s", options->out, strerror(errno));
    code = TSR_EXIT_INPUT;
  }
  if (code == TSR_EXIT_OK) {
    code = translator_open(&s->translator, &options->translator);
  }
  if (code != TSR_EXIT_OK) {
    return code;
  }
  const tsr_document_translator work = {.translate = translate,
                                        .user = s,
                                        .paragraphs = options->paragraphs,
                                        .limits = {.unpacked = options->max_unpacked << 20},
                                        .progress = show_progress,
                                        .progress_user = s};
  char name[64];
  snprintf(name, sizeof name, "the input.%s", options->format ? options->format : "");
  tsr_status status =
      tsr_document_file(&work, options->format ? name : options->in, s->bytes, s->size, &s->result, &s->result_size);
  tsr_cli_progress_clear(&s->translator.progress);
  code = tsr_cli_fail_input(status);
  return code == TSR_EXIT_OK ? write_file(s) : code;
}

static void finish(void *opaque)
{
  session *s = opaque;
  tsr_document_free(s->result);
  free(s->bytes);
  translator_finish(&s->translator);
}

/* The formats that a build knows. */
static void print_formats(FILE *out)
{
  const char *const *formats = tsr_document_formats();
  fputs("\nFormats:", out);
  for (int i = 0; formats[i]; i++) {
    fprintf(out, " %s", formats[i]);
  }
  fputs(formats[0] ? "\n" : " none; this build lacks libxml2 or libzip\n", out);
}

#define FIELD(member) TSR_FIELD(session, options.member)

static const tsr_option rows[] = {
    {"model", "FOLDER", TSR_OPTION_FOLDER, FIELD(translator.model),
     .help = "the model: a folder with config.json, model.safetensors and the tokenizer's files"},
    {.table = &translator_options, .offset = offsetof(session, options.translator)},
    {"format", "NAME", TSR_OPTION_TEXT, FIELD(format), .help = "the kind of file: html, docx ...",
     .otherwise = "what the ending of its name says"},
    {"paragraphs", NULL, TSR_OPTION_FLAG, FIELD(paragraphs), .low = 1,
     .help = "translate whole paragraphs, for a model that was trained on paragraphs, instead of sentence by sentence"},
    {"max-unpacked", "MIB", TSR_OPTION_INTEGER, FIELD(max_unpacked), 1, 1 << 20, .preset = "256",
     .help = "refuse a file that is larger than this when it is unpacked"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"IN", TSR_OPTION_FILE, offsetof(session, options.in)},
    {"OUT", TSR_OPTION_FILE, offsetof(session, options.out)},
    {NULL},
};

const tsr_command tsr_command_document = {
    .name = "document",
    .summary = TSR_DOCUMENT_SUMMARY,
    .usage = "--model FOLDER [OPTION]... IN OUT",
    .intro = "Translates the text of a file, and keeps its structure and styles: each tag or format encloses the words "
             "that were made from those it enclosed. `-` is standard input or output; standard input needs --format. "
             "OUT is written after the whole file is translated.",
    .options = &options,
    .operands = operands,
    .missing = "takes a file to read and one to write",
    .takes = "a file to read and one to write",
    .print_notes = print_formats,
    .examples = "tessera document --model tools/demo-model page.html page.fr.html",
    .session_size = sizeof(session),
    .check = check,
    .run = run,
    .finish = finish,
};
