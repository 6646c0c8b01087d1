/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera vocab: learns from sentence pairs how to cut text into pieces, and writes the tokenizer's files of a Marian
 * folder.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/corpus.h"
#include "tessera/files.h"
#include "tessera/text.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/commands/vocab_speech.h"
#include "tools/tessera/commands/vocab_train.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"

typedef struct settings {
  tsr_corpus_files files;
  const char *out;
  int separate;
  int speech;
  tsr_names languages; /* of speech */
  tsr_vocab_options training;
} settings;

/* Sentences on their way into the training. */
enum { BOTH_SIDES = TSR_SIDE_TARGET + 1 };
typedef struct feed {
  tsr_corpus *corpus;
  int32_t wanted; /* TSR_SIDE_SOURCE, TSR_SIDE_TARGET, BOTH_SIDES */
  int32_t is_target_next;
  tsr_corpus_pair pair;
  int64_t sentences; /* given, empty ones left out */
} feed;

static int check(void *opaque)
{
  const settings *options = opaque;
  if (options->speech && options->separate) {
    return tsr_cli_usage("vocab", "--separate is for two languages; --speech has the text of one side");
  }
  if (options->languages.n > 0 && !options->speech) {
    return tsr_cli_usage("vocab", "--languages are those of --speech, which is missing");
  }
  return options->files.source && options->out ? TSR_EXIT_OK : tsr_cli_usage("vocab", "--source and --out are needed");
}

static tsr_status next_sentence(void *user, const char **text, size_t *size, int32_t *end)
{
  feed *f = user;
  int32_t is_target = f->wanted == BOTH_SIDES ? f->is_target_next : f->wanted == TSR_SIDE_TARGET;
  if (f->wanted != BOTH_SIDES || !is_target) {
    tsr_status status = tsr_corpus_next(f->corpus, &f->pair, end);
    if (status != TSR_OK || *end) {
      return status;
    }
  }
  f->is_target_next = !is_target;
  *end = 0;
  *text = is_target ? f->pair.target : f->pair.source;
  *size = is_target ? f->pair.target_size : f->pair.source_size;
  f->sentences += *size > 0;
  return TSR_OK;
}

static tsr_status train(const settings *options, int32_t wanted, char **model, size_t *size, int64_t *sentences)
{
  feed f = {.wanted = wanted};
  tsr_status status = tsr_corpus_open(&options->files, &f.corpus);
  if (status == TSR_OK) {
    status = tsr_vocab_train(options->files.source, &options->training, next_sentence, &f, model, size);
  }
  tsr_corpus_close(f.corpus);
  *sentences += f.sentences;
  return status;
}

/* ---- the files --------------------------------------------------------------------------------------------------- */

static int write_file(const char *folder, const char *name, const void *bytes, size_t size)
{
  char *path = path_join(folder, name);
  if (!path) {
    return tsr_cli_no_memory();
  }
  int code = tsr_cli_fail(tsr_file_replace(path, bytes, size));
  free(path);
  return code;
}

/* Takes `root`; NULL is a failed allocation. */
static int write_json(const char *folder, const char *name, json_t *root)
{
  char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
  json_decref(root);
  if (!text) {
    return tsr_cli_no_memory();
  }
  int code = write_file(folder, name, text, strlen(text));
  free(text);
  return code;
}

static const char pad_token[] = "<pad>";

static tsr_status add_piece(void *user, int32_t id, const char *piece)
{
  return json_object_set_new(user, piece, json_integer(id)) == 0
             ? TSR_OK
             : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "no memory for piece %d", (int)id);
}

/* The pieces in the order of their ids, then <pad>, which no piece is: scripts and signs do not meet in one. */
static int write_vocabulary(const settings *options, const char *name, const char *model, size_t size)
{
  json_t *vocabulary = json_object();
  if (!vocabulary) {
    return tsr_cli_no_memory();
  }
  tsr_status status = tsr_vocab_list(options->files.source, model, size, add_piece, vocabulary);
  if (status != TSR_OK) {
    json_decref(vocabulary);
    return tsr_cli_fail(status);
  }
  json_object_set_new(vocabulary, pad_token, json_integer((json_int_t)json_object_size(vocabulary)));
  return write_json(options->out, name, vocabulary);
}

/* Trains one vocabulary and writes its files. vocabulary, model: their names; also: a second name of the model's, or
 * NULL. */
static int make_vocabulary(const settings *options, int32_t wanted, const char *vocabulary, const char *model,
                           const char *also, int64_t *sentences)
{
  char *bytes = NULL;
  size_t size = 0;
  int code = tsr_cli_fail_input(train(options, wanted, &bytes, &size, sentences));
  if (code == TSR_EXIT_OK) {
    code = write_vocabulary(options, vocabulary, bytes, size);
  }
  if (code == TSR_EXIT_OK) {
    code = write_file(options->out, model, bytes, size);
  }
  if (code == TSR_EXIT_OK && also) {
    code = write_file(options->out, also, bytes, size);
  }
  free(bytes);
  return code;
}

static int make_vocabularies(const settings *options, int64_t *sentences)
{
  if (!options->separate) {
    return make_vocabulary(options, BOTH_SIDES, "vocab.json", "source.spm", "target.spm", sentences);
  }
  int code = make_vocabulary(options, TSR_SIDE_SOURCE, "vocab.json", "source.spm", NULL, sentences);
  if (code == TSR_EXIT_OK) {
    code = make_vocabulary(options, TSR_SIDE_TARGET, "target_vocab.json", "target.spm", NULL, sentences);
  }
  return code;
}

/* A model whose ids would mean other tokens from now on. */
static int check_folder(const settings *options)
{
  char *path = path_join(options->out, "model.safetensors");
  if (!path) {
    return tsr_cli_no_memory();
  }
  int exists = path_exists(path);
  free(path);
  if (exists) {
    tsr_cli_error("%s: holds a model, which another vocabulary would not fit; choose another folder", options->out);
    return TSR_EXIT_INPUT;
  }
  return tsr_cli_fail(tsr_folder_make(options->out));
}

/* Opens what was written, and tells what it is. */
static int report(const settings *options, int64_t sentences)
{
  tsr_tokenizer *tokenizer;
  int code = tsr_cli_fail(tsr_tokenizer_open_folder(options->out, &tokenizer));
  if (code != TSR_EXIT_OK) {
    return code;
  }
  tsr_tokenizer_info info;
  code = tsr_cli_fail(tsr_tokenizer_get_info(tokenizer, &info));
  tsr_tokenizer_close(tokenizer);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  char source[32];
  char target[32];
  char count[32];
  tsr_cli_grouped(info.source_vocabulary, source);
  tsr_cli_grouped(info.target_vocabulary, target);
  tsr_cli_grouped(sentences, count);
  if (options->speech) {
    printf("%s: %s tokens for speech, from %s sentences\n", options->out, target, count);
  } else if (info.is_joint) {
    printf("%s: %s tokens for both languages, from %s sentences\n", options->out, source, count);
  } else {
    printf("%s: %s source and %s target tokens, from %s sentences\n", options->out, source, target, count);
  }
  return TSR_EXIT_OK;
}

static int make_speech(const settings *options)
{
  const tsr_names languages = options->languages.n > 0 ? options->languages : (tsr_names){.values = {"en"}, .n = 1};
  char *merges;
  json_t *vocabulary, *config;
  int64_t sentences = 0;
  int code =
      vocab_speech_make(&options->files, options->training.size, &languages, &merges, &vocabulary, &config, &sentences);
  if (code != TSR_EXIT_OK) {
    json_decref(vocabulary);
    json_decref(config);
  } else {
    code = write_file(options->out, "merges.txt", merges, strlen(merges));
    const int wrote_vocabulary = write_json(options->out, "vocab.json", vocabulary);
    const int wrote_config = write_json(options->out, "tokenizer_config.json", config);
    code = code != TSR_EXIT_OK ? code : wrote_vocabulary != TSR_EXIT_OK ? wrote_vocabulary : wrote_config;
  }
  free(merges);
  return code == TSR_EXIT_OK ? report(options, sentences) : code;
}

static int run(void *opaque)
{
  const settings *options = opaque;
  int64_t sentences = 0;
  int code = check_folder(options);
  if (code == TSR_EXIT_OK && options->speech) {
    return make_speech(options);
  }
  if (code == TSR_EXIT_OK) {
    code = make_vocabularies(options, &sentences);
  }
  if (code == TSR_EXIT_OK) {
    code = write_json(options->out, "tokenizer_config.json",
                      json_pack("{s:s, s:s, s:s, s:s, s:b}", "tokenizer_class", "MarianTokenizer", "eos_token", "</s>",
                                "unk_token", "<unk>", "pad_token", pad_token, "separate_vocabs", options->separate));
  }
  return code == TSR_EXIT_OK ? report(options, sentences) : code;
}

#define FIELD(member) TSR_FIELD(settings, member)

static const tsr_choice models[] = {{"unigram"}, {"bpe"}, {NULL}};

static const tsr_option rows[] = {
    {"source", "FILE", TSR_OPTION_FILE, FIELD(files.source), .help = "sentences, one a line; or WMT's SGM or XML"},
    {"target", "FILE", TSR_OPTION_FILE, FIELD(files.target),
     .help = "their translations; without --target, the file of --source has both (TSV or XML)"},
    {"out", "FOLDER", TSR_OPTION_FOLDER, FIELD(out), .help = "where to write; the folder is created if it is missing"},
    {"size", "N", TSR_OPTION_INTEGER, FIELD(training.size), 8, 1000000,
     .help = "number of pieces, </s> and <unk> included; <pad> is one more token", .preset = "5000"},
    {"separate", NULL, TSR_OPTION_FLAG, FIELD(separate), .low = 1,
     .help = "make a vocabulary of that size for each language, instead of one for both"},
    {"speech", NULL, TSR_OPTION_FLAG, FIELD(speech), .low = 1,
     .help = "make a vocabulary for a model of speech: byte-level BPE of the target's side, and Whisper's special "
             "tokens. --size then counts 256 bytes, and what they are merged to"},
    {"languages", "L,L,...", TSR_OPTION_TEXT, FIELD(languages), .is_list = 1,
     .help = "codes of the languages that --speech has tokens for", .otherwise = "en"},
    {"model", "M", TSR_OPTION_CHOICE, FIELD(training.model), .choices = models, .help = "how pieces are found",
     .preset = "unigram"},
    {"character-coverage", "X", TSR_OPTION_NUMBER, FIELD(training.coverage), 0.98, 1, .shows_range = 1,
     .help = "share of the text's characters that get pieces (the rarest characters become <unk>)", .preset = "0.9995"},
    {"byte-fallback", NULL, TSR_OPTION_FLAG, FIELD(training.byte_fallback), .low = 1,
     .help = "spell the rarest characters with pieces for their bytes, instead of <unk>"},
    {"input-size", "N", TSR_OPTION_INTEGER, FIELD(training.input_size), 0, INT32_MAX,
     .help = "sentences to learn from: a sample of all, which is held in memory; 0: all", .preset = "2000000"},
    {"verbose", NULL, TSR_OPTION_FLAG, FIELD(training.verbose), .low = 1,
     .help = "print what SentencePiece reports about its work"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};

const tsr_command tsr_command_vocab = {
    .name = "vocab",
    .summary = "learn from sentence pairs how to cut text into pieces",
    .usage = "--source FILE [--target FILE] --out FOLDER [OPTION]...",
    .intro = "Trains SentencePiece on sentence pairs and writes the tokenizer's files of a model's folder: source.spm, "
             "target.spm, vocab.json, tokenizer_config.json. With --speech the files are those of a folder of Whisper, "
             "merges.txt among them, and the source is a list of sounds or anything else: only the targets are read. "
             "The same text and options give the same files.",
    .options = &options,
    .examples = "tessera vocab --source train.en --target train.fr --out model --size 8000",
    .session_size = sizeof(settings),
    .check = check,
    .run = run,
};
