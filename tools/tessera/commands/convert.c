/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera convert: a model's folder with its weights stored in another type.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tessera/files.h"
#include "tessera/transformer.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/values.h"
#include "tools/tessera/text/sentence.h"

typedef struct session {
  const char *folder, *out;
  tsr_dtype precision;
  tsr_model *model;
  const char *text; /* to calibrate with; NULL: none */
  int32_t lines;    /* of it that are read */
  translator_settings settings;
  translator *translator; /* with text */
  sentence sentence;      /* its line */
  tsr_calibration *calibration;
} session;

static int ends_with(const char *name, const char *end)
{
  const size_t size = strlen(name), length = strlen(end);
  return size >= length && strcmp(name + size - length, end) == 0;
}

/* 1 for weights, of whatever form, and for lists of their parts. */
static int holds_weights(const char *name)
{
  static const char *const ends[] = {".safetensors", ".index.json", ".h5", ".msgpack", ".ot", ".onnx", ".partial"};
  int found = strncmp(name, "pytorch_model", 13) == 0 && ends_with(name, ".bin");
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    found |= ends_with(name, ends[i]);
  }
  return found;
}

static int fail_file(const char *path)
{
  tsr_cli_error("%s: cannot be read: %s", path, strerror(errno));
  return TSR_EXIT_INPUT;
}

/* *file is read to its end. */
static int copy_open_file(FILE *file, const char *from, const char *to)
{
  char bytes[1 << 16];
  tsr_file_writer *writer = NULL;
  int code = tsr_cli_fail(tsr_file_writer_open(to, &writer));
  for (size_t n = 1; code == TSR_EXIT_OK && n > 0;) {
    n = fread(bytes, 1, sizeof bytes, file);
    code = ferror(file) ? fail_file(from) : tsr_cli_fail(tsr_file_writer_write(writer, bytes, n));
  }
  if (code == TSR_EXIT_OK) {
    return tsr_cli_fail(tsr_file_writer_commit(&writer));
  }
  tsr_file_writer_abandon(writer);
  return code;
}

/* A regular file that holds no weights; others are left where they are. */
static int copy_file(const session *s, const char *name)
{
  struct stat status;
  char *from = path_join(s->folder, name), *to = path_join(s->out, name);
  int code = from && to ? TSR_EXIT_OK : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK && stat(from, &status) != 0) {
    code = fail_file(from);
  }
  if (code == TSR_EXIT_OK && S_ISREG(status.st_mode) && !holds_weights(name)) {
    FILE *file = fopen(from, "rb");
    code = file ? copy_open_file(file, from, to) : fail_file(from);
    if (file) {
      fclose(file);
    }
  }
  free(to);
  free(from);
  return code;
}

static int copy_files(const session *s)
{
  DIR *folder = opendir(s->folder);
  if (!folder) {
    return fail_file(s->folder);
  }
  int code = TSR_EXIT_OK;
  for (struct dirent *entry; code == TSR_EXIT_OK && (entry = readdir(folder)) != NULL;) {
    code = copy_file(s, entry->d_name);
  }
  closedir(folder);
  return code;
}

/* What is read would be overwritten. */
static int check_folders(const session *s)
{
  struct stat in, out;
  if (!path_is_folder(s->folder)) {
    tsr_cli_error("%s: is no folder; expected one of Hugging Face or torch.nn.Transformer", s->folder);
    return TSR_EXIT_INPUT;
  }
  if (stat(s->folder, &in) == 0 && stat(s->out, &out) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino) {
    tsr_cli_error("%s: is read, and would be overwritten; choose another folder", s->out);
    return TSR_EXIT_INPUT;
  }
  return TSR_EXIT_OK;
}

/* ---- calibration ------------------------------------------------------------------------------------------------- */

/* A tsr_translator_use_fn. */
static tsr_status add_sentence(void *user, tsr_transformer *transformer)
{
  const session *s = user;
  return tsr_calibration_add(s->calibration, transformer, s->sentence.n_source, s->sentence.source,
                             s->sentence.n_target, s->sentence.target);
}

static int is_blank(const char *text)
{
  return text[strspn(text, " \t")] == '\0';
}

/* A line: a sentence, and behind a tab its translation; without one, the model's own. */
static int calibrate_with(session *s, const tsr_cli_lines *lines)
{
  char *target = strchr(lines->text, '\t');
  if (target) {
    *target++ = '\0';
  }
  int code = sentence_read(s->translator, lines->text, target, &s->sentence);
  if (code == TSR_EXIT_OK) {
    code = translator_use(s->translator, add_sentence, s);
  }
  sentence_finish(&s->sentence);
  if (code != TSR_EXIT_OK) {
    tsr_cli_error("%s, line %lld: the model cannot be calibrated with it", lines->name, (long long)lines->number);
  }
  return code;
}

static int calibrate_with_lines(session *s, tsr_cli_lines *lines)
{
  int32_t n = 0;
  int got = 1, code = TSR_EXIT_OK;
  while (code == TSR_EXIT_OK && got && n < s->lines) {
    code = tsr_cli_lines_next(lines, &got);
    if (code == TSR_EXIT_OK && got && !is_blank(lines->text)) {
      code = calibrate_with(s, lines);
      n++;
    }
  }
  if (code == TSR_EXIT_OK && n == 0) {
    tsr_cli_error("%s: has no text; expected sentences of the model's source language, one a line", lines->name);
    return TSR_EXIT_INPUT;
  }
  return code;
}

static int calibrate(session *s)
{
  tsr_cli_lines lines;
  s->settings.model = s->folder;
  s->settings.weights = TSR_F32;
  s->translator = calloc(1, sizeof *s->translator);
  if (!s->translator) {
    return tsr_cli_no_memory();
  }
  int code = tsr_cli_lines_open(&lines, s->text);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  code = translator_open(s->translator, &s->settings);
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_calibration_create(s->model, &s->calibration));
  }
  if (code == TSR_EXIT_OK) {
    code = calibrate_with_lines(s, &lines);
  }
  tsr_cli_lines_finish(&lines);
  return code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int run(void *opaque)
{
  session *s = opaque;
  int code = check_folders(s);
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail_input(tsr_model_open(s->folder, &s->model));
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail_input(tsr_model_check_weights(s->model));
  }
  if (code == TSR_EXIT_OK && s->text) {
    code = calibrate(s);
  }
  /* First what may be refused: nothing is copied for a model that cannot be converted. It makes the folder, too. */
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail_input(tsr_model_save_weights(s->model, s->out, s->precision, s->calibration));
  }
  if (code == TSR_EXIT_OK) {
    code = copy_files(s);
  }
  if (code == TSR_EXIT_OK) {
    char as_stored[32], now[32];
    printf("%s: %s of weights as %s; they are %s as stored in %s\n", s->out,
           tsr_cli_bytes((uint64_t)tsr_model_weight_bytes(s->model, s->precision), now),
           tsr_cli_precision_name(s->precision),
           tsr_cli_bytes((uint64_t)tsr_model_weight_bytes(s->model, 0), as_stored), s->folder);
  }
  return code;
}

static int check(void *opaque)
{
  const session *s = opaque;
  if (!s->out) {
    return tsr_cli_usage("convert", "--out is needed");
  }
  if (s->precision == 0) {
    return tsr_cli_usage("convert", "--precision is needed");
  }
  if (s->text && s->precision != TSR_I4) {
    return tsr_cli_usage("convert", "--calibrate: it is for --precision int4");
  }
  return s->settings.devices.n == 0 || s->text ? translator_settings_one_device("convert", &s->settings)
                                               : tsr_cli_usage("convert", "--device: nothing is computed without "
                                                                          "--calibrate");
}

static void finish(void *opaque)
{
  session *s = opaque;
  tsr_calibration_destroy(s->calibration);
  if (s->translator) {
    translator_finish(s->translator);
  }
  free(s->translator);
  tsr_model_close(s->model);
}

static const tsr_option rows[] = {
    {"out", "FOLDER", TSR_OPTION_FOLDER, TSR_FIELD(session, out),
     .help = "where to write; the folder is created if it is missing"},
    {"precision", "P", TSR_OPTION_PRECISION, TSR_FIELD(session, precision),
     .help = "store matrices as f32, f16, bf16, int8 or int4"},
    {"calibrate", "FILE", TSR_OPTION_FILE, TSR_FIELD(session, text),
     .help = "with int4: round so that what the matrices give is kept close where the model translates this text: one "
             "sentence a line, and behind a tab its translation, or else the model's own is taken (\"-\": standard "
             "input)",
     .otherwise = "each weight to the nearest number"},
    {"calibrate-lines", "N", TSR_OPTION_INTEGER, TSR_FIELD(session, lines), 1, 1000000, .preset = "512",
     .help = "sentences of it that are read, from the first on"},
    {"device", "D", TSR_OPTION_DEVICE, TSR_FIELD(session, settings.devices), .is_list = 1,
     .help = "with --calibrate: where to compute", .otherwise = "TESSERA_DEVICE, else auto"},
    {"source-lang", "CODE", TSR_OPTION_LANGUAGE, TSR_FIELD(session, settings.source_language),
     .help = "likewise: the language of the text, for multilingual models", .otherwise = "as in `tessera translate`"},
    {"target-lang", "CODE", TSR_OPTION_LANGUAGE, TSR_FIELD(session, settings.target_language),
     .help = "likewise: the language that the model translates it into"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {{"MODEL", TSR_OPTION_FOLDER, offsetof(session, folder)}, {NULL}};

const tsr_command tsr_command_convert = {
    .name = "convert",
    .summary = "write a model's folder with its weights in another precision",
    .usage = "MODEL --precision P --out FOLDER",
    .intro = "Writes model.safetensors with the weights in another precision, and copies the folder's other files, but "
             "for weights in other forms and for folders in it. The result is a model as the one that is read: it "
             "takes less room on the disk, is loaded without being rounded again, and gives the results that the "
             "original gives with --precision P, unless it was calibrated. Without --precision, commands keep the "
             "matrices as they are stored."
             "\n\n"
             "With f16 and bf16, other programs read the result, too. In int8 and int4 a matrix NAME has a tensor "
             "NAME.scales beside it; docs/precision.md says how they are laid out.",
    .options = &options,
    .operands = operands,
    .missing = "one model's folder is needed",
    .examples = "tessera convert opus-mt-en-de --precision int8 --out opus-mt-en-de-int8\n"
                "tessera convert opus-mt-en-de --precision int4 --calibrate news.en --out opus-mt-en-de-int4",
    .session_size = sizeof(session),
    .check = check,
    .run = run,
    .finish = finish,
};
