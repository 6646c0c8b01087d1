/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera transcribe: what is said in sounds, as text, subtitles, a table or JSON.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tessera/files.h"
#include "tools/tessera/commands.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/common/progress.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/text/search_options.h"
#include "tools/tessera/text/transcript_writer.h"

enum { GROUP = 32 /* files that are open at once */ };

typedef struct settings {
  const char *model;
  tsr_names files;
  const char *device;
  tsr_dtype weights;
  int32_t batch;
  int32_t task;
  const char *language;
  const char *prompt;
  int prompt_stays;
  int forgets;
  int has_no_timestamps;
  int words;
  int32_t beam;
  tsr_names temperatures;
  int32_t best_of;
  float compression_ratio_limit;
  float average_logprob_limit;
  float no_speech_limit;
  uint64_t seed;
  int32_t form;
  const char *folder; /* NULL: standard output */
  int tells_speakers;
  int32_t raw;
  int32_t rate;
  int32_t channels;
} settings;

/* A file, and where its transcript goes. */
typedef struct item {
  const char *name;
  tsr_audio *audio;
  writer out;       /* without a file: what is heard is written when the sound has ended */
  double heard, of; /* seconds */
  int has_ended;
} item;

typedef struct session {
  settings options;
  tsr_runtime *runtime;
  tsr_transcriber *transcriber;
  tsr_transcribe_options request;
  tsr_generate_options search;
  item items[GROUP]; /* of those that were opened, in order */
  int32_t n_items;
  tsr_transcript transcripts[GROUP]; /* of the items */
  int32_t n_printed;                 /* items whose transcripts stand on standard output */
  tsr_cli_progress progress;
  int outcome; /* TSR_EXIT_OK, or the exit code for a file that was not good */
  int code;    /* TSR_EXIT_OK, or why a transcript could not be written */
} session;

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* What the name of a file has in common with that of its transcript; *size is its length. */
static const char *stem_of(const char *name, int *size)
{
  const char *slash = strrchr(name, '/'), *base = strcmp(name, "-") == 0 ? "stdin" : slash ? slash + 1 : name;
  const char *dot = strrchr(base, '.');
  *size = (int)(dot && dot > base ? (size_t)(dot - base) : strlen(base));
  return base;
}

/* "FOLDER/NAME.txt" of "../sounds/NAME.wav"; NULL: memory ran out. */
static char *make_path(const settings *o, const char *name)
{
  int size;
  const char *stem = stem_of(name, &size), *form = writer_forms[o->form];
  const size_t room = (size_t)size + strlen(form) + 2;
  char *file = malloc(room);
  if (!file) {
    return NULL;
  }
  snprintf(file, room, "%.*s.%s", size, stem, form);
  char *path = path_join(o->folder, file);
  free(file);
  return path;
}

static void clear_bar(session *s)
{
  tsr_cli_progress_clear(&s->progress);
}

/* A file that is not good is told, and left out. */
static int reject(session *s, tsr_status status)
{
  clear_bar(s);
  s->outcome = tsr_cli_fail_input(status);
  return s->outcome == TSR_EXIT_MEMORY ? s->outcome : TSR_EXIT_OK;
}

static int open_item(session *s, const char *name)
{
  const settings *o = &s->options;
  const tsr_audio_options options = {TSR_SIZED(tsr_audio_options), .raw = o->raw, .rate = o->rate,
                                     .channels = o->channels, .plugins_path = tsr_cli_audio_path()};
  item *at = &s->items[s->n_items];
  *at = (item){.name = name, .out.form = o->form, .of = NAN};
  const tsr_status status = tsr_audio_open(name, &options, &at->audio);
  if (status != TSR_OK) {
    return reject(s, status);
  }
  s->n_items++;
  if (o->files.n == 1 && !o->folder) { /* each segment as soon as it is heard */
    at->out.file = stdout;
    writer_begin(&at->out);
  }
  return TSR_EXIT_OK;
}

/* ---- what is heard ----------------------------------------------------------------------------------------------- */

static int32_t take_segment(void *user, int32_t sound, const tsr_segment *segment)
{
  session *s = user;
  item *at = &s->items[sound];
  if (!at->out.file) {
    return 0;
  }
  clear_bar(s);
  const int done = s->code == TSR_EXIT_OK && writer_segment(&at->out, segment);
  fflush(at->out.file);
  return !done;
}

static void take_progress(void *user, int32_t sound, double seconds, double of)
{
  session *s = user;
  s->items[sound].heard = seconds;
  s->items[sound].of = of;
  double heard = 0, all = 0;
  for (int32_t i = 0; i < s->n_items; i++) {
    heard += s->items[i].heard;
    all += s->items[i].of;
  }
  tsr_cli_progress_update(&s->progress, llround(heard), isnan(all) ? 0 : llround(all));
}

/* Writes what has not been written yet. */
static int write_rest(item *at, FILE *file, const tsr_transcript *transcript)
{
  int done = 1;
  if (!at->out.file) {
    at->out.file = file;
    writer_begin(&at->out);
  }
  for (int32_t i = at->out.n_taken; done && i < transcript->n_segments; i++) {
    done = writer_segment(&at->out, &transcript->segments[i]);
  }
  return done && writer_end(&at->out, at->name, transcript) ? TSR_EXIT_OK : tsr_cli_no_memory();
}

static int write_file(const session *s, item *at, const tsr_transcript *transcript)
{
  char *text = NULL, *path = make_path(&s->options, at->name);
  size_t size = 0;
  FILE *memory = open_memstream(&text, &size);
  int code = memory && path ? write_rest(at, memory, transcript) : tsr_cli_no_memory();
  if (memory && fclose(memory) != 0 && code == TSR_EXIT_OK) {
    code = tsr_cli_no_memory();
  }
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_file_replace(path, text, size));
  }
  free(text);
  free(path);
  return code;
}

static int finish_item(session *s, item *at, const tsr_transcript *transcript)
{
  clear_bar(s);
  if (transcript->status != TSR_OK) {
    tsr_cli_error("%s%s", transcript->error ? transcript->error : at->name,
                  transcript->n_segments > 0 ? "; what was heard before is written" : "");
    s->outcome = tsr_cli_exit_code(transcript->status);
  }
  return s->options.folder ? write_file(s, at, transcript) : write_rest(at, stdout, transcript);
}

/* Files are written as their sounds end: what fails later takes none of them away. Standard output has them in
 * order. */
static void take_end(void *user, int32_t sound)
{
  session *s = user;
  s->items[sound].has_ended = 1;
  if (s->options.folder && s->code == TSR_EXIT_OK) {
    s->code = finish_item(s, &s->items[sound], &s->transcripts[sound]);
  }
  while (!s->options.folder && s->code == TSR_EXIT_OK && s->n_printed < s->n_items &&
         s->items[s->n_printed].has_ended) {
    const int32_t next = s->n_printed++;
    s->code = finish_item(s, &s->items[next], &s->transcripts[next]);
  }
}

static int transcribe_items(session *s)
{
  tsr_audio *sounds[GROUP];
  for (int32_t i = 0; i < s->n_items; i++) {
    sounds[i] = s->items[i].audio;
  }
  s->n_printed = 0;
  const tsr_status status = tsr_transcribe(s->transcriber, s->n_items, sounds, &s->request, s->transcripts);
  for (int32_t i = 0; status == TSR_OK && i < s->n_items; i++) {
    tsr_transcript_finish(&s->transcripts[i]);
  }
  clear_bar(s);
  return s->code == TSR_EXIT_OK ? tsr_cli_fail(status) : s->code;
}

static void close_items(session *s)
{
  for (int32_t i = 0; i < s->n_items; i++) {
    tsr_audio_close(s->items[i].audio);
  }
  s->n_items = 0;
}

static int transcribe_all(session *s)
{
  const tsr_names *files = &s->options.files;
  int code = TSR_EXIT_OK;
  tsr_cli_progress_start(&s->progress, "transcribing, seconds of sound");
  for (int32_t i = 0; code == TSR_EXIT_OK && i < files->n;) {
    for (; code == TSR_EXIT_OK && i < files->n && s->n_items < GROUP; i++) {
      code = open_item(s, files->values[i]);
    }
    if (code == TSR_EXIT_OK && s->n_items > 0) {
      code = transcribe_items(s);
    }
    close_items(s);
  }
  return code != TSR_EXIT_OK ? code : s->outcome;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int open_transcriber(session *s)
{
  const settings *o = &s->options;
  int code = tsr_cli_runtime(&s->runtime);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  const tsr_transcriber_options options = {TSR_SIZED(tsr_transcriber_options), .weights = o->weights,
                                           .device = o->device, .runtime = s->runtime, .batch = o->batch};
  return tsr_cli_fail_input(tsr_transcriber_open(o->model, &options, &s->transcriber));
}

/* Texts of numbers, which the command line's check has seen. */
static void fill_temperatures(session *s)
{
  const tsr_names *given = &s->options.temperatures;
  for (int32_t i = 0; i < given->n; i++) {
    s->request.temperatures[i] = strtof(given->values[i], NULL);
  }
  s->request.n_temperatures = given->n > 0 ? given->n : s->request.n_temperatures;
}

static int make_request(session *s)
{
  const settings *o = &s->options;
  s->search = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
  s->request = (tsr_transcribe_options){TSR_SIZED(tsr_transcribe_options)};
  int code = tsr_cli_fail_input(tsr_generate_defaults(tsr_transcriber_model(s->transcriber), &s->search));
  if (code == TSR_EXIT_OK) {
    code = tsr_cli_fail(tsr_transcribe_defaults(&s->request));
  }
  if (code != TSR_EXIT_OK) {
    return code;
  }
  s->search.beam = o->beam > 0 ? o->beam : s->search.beam;
  fill_temperatures(s);
  s->request.task = o->task;
  s->request.language = o->language && strcasecmp(o->language, "auto") != 0 ? o->language : NULL;
  s->request.prompt = o->prompt;
  s->request.prompt_stays = o->prompt_stays;
  s->request.condition_on_previous = !o->forgets;
  s->request.timestamps = !o->has_no_timestamps;
  s->request.words = o->words;
  s->request.best_of = o->best_of;
  s->request.compression_ratio_limit = o->compression_ratio_limit;
  s->request.average_logprob_limit = o->average_logprob_limit;
  s->request.no_speech_limit = o->no_speech_limit;
  s->request.seed = o->seed;
  s->request.search = &s->search;
  s->request.segment = take_segment;
  s->request.heard = take_progress;
  s->request.ended = take_end;
  s->request.user = s;
  return TSR_EXIT_OK;
}

static int run(void *opaque)
{
  session *s = opaque;
  int code = open_transcriber(s);
  if (code == TSR_EXIT_OK) {
    code = make_request(s);
  }
  return code == TSR_EXIT_OK ? transcribe_all(s) : code;
}

static void finish(void *opaque)
{
  session *s = opaque;
  close_items(s);
  tsr_transcriber_close(s->transcriber);
  tsr_runtime_destroy(s->runtime);
}

/* No transcript replaces another one's. */
static int check_names(const settings *o)
{
  for (int32_t i = 0; o->folder && i < o->files.n; i++) {
    int size, other_size;
    const char *stem = stem_of(o->files.values[i], &size);
    for (int32_t j = 0; j < i; j++) {
      const char *other = stem_of(o->files.values[j], &other_size);
      if (size == other_size && memcmp(stem, other, (size_t)size) == 0) {
        return tsr_cli_usage("transcribe", "%s and %s would both be written to %.*s.%s", o->files.values[j],
                             o->files.values[i], size, stem, writer_forms[o->form]);
      }
    }
  }
  return TSR_EXIT_OK;
}

static int check(void *opaque)
{
  const settings *o = &((session *)opaque)->options;
  const int is_whole = o->form == WRITER_TXT || o->form == WRITER_JSON;
  if (!o->model) {
    return tsr_cli_usage("transcribe", "--model is missing");
  }
  if (o->tells_speakers) {
    return tsr_cli_usage("transcribe", "--diarize: models of speech do not tell who speaks, and neither does this "
                                       "program");
  }
  if (o->files.n > 1 && !o->folder && !is_whole) {
    return tsr_cli_usage("transcribe", "several files in the form %s need --out FOLDER", writer_forms[o->form]);
  }
  if (o->folder && !path_is_folder(o->folder)) {
    tsr_cli_error("--out %s: there is no such folder", o->folder);
    return TSR_EXIT_INPUT;
  }
  if (o->folder && access(o->folder, W_OK) != 0) { /* told before hours of sound are heard */
    tsr_cli_error("--out %s: nothing can be written there", o->folder);
    return TSR_EXIT_INPUT;
  }
  if (o->temperatures.n > TSR_MOST_TEMPERATURES) {
    return tsr_cli_usage("transcribe", "--temperature takes at most %d numbers", TSR_MOST_TEMPERATURES);
  }
  for (int32_t i = 0; i < o->temperatures.n; i++) {
    char *end;
    const double value = strtod(o->temperatures.values[i], &end);
    if (*end || end == o->temperatures.values[i] || !(value >= 0 && value <= 100)) {
      return tsr_cli_usage("transcribe", "--temperature takes numbers from 0 to 100, not '%s'",
                           o->temperatures.values[i]);
    }
  }
  if (o->words && o->form != WRITER_JSON) {
    return tsr_cli_usage("transcribe", "--words needs --output json");
  }
  if (o->raw == 0 && (o->rate > 0 || o->channels > 0)) {
    return tsr_cli_usage("transcribe", "--rate and --channels describe raw samples, and need --raw");
  }
  return check_names(o);
}

#define FIELD(member) TSR_FIELD(session, options.member)

static const tsr_choice tasks[] = {
    {"transcribe", "in the language that is spoken"},
    {"translate", "into English"},
    {NULL},
};
static const tsr_choice forms[] = {
    {"txt", "the text of each segment on a line"},
    {"srt", "subtitles (SubRip)"},
    {"vtt", "subtitles of web pages (WebVTT)"},
    {"tsv", "start and end in milliseconds, and the text, with tabs between"},
    {"json", "one object a file: text, language, and of each segment times, tokens and how sure the model is"},
    {NULL},
};
static const tsr_choice codings[] = {
    {"s16", "whole numbers of 16 bits, little-endian"},
    {"f32", "floats of 32 bits, little-endian"},
    {NULL},
};

static const tsr_option rows[] = {
    {"model", "FOLDER", TSR_OPTION_FOLDER, FIELD(model), .help = "the model: a folder as Hugging Face writes it"},
    {"device", "D", TSR_OPTION_DEVICE, FIELD(device),
     .help = "where to compute: vulkan:0, cpu, auto ... (see `tessera devices`)",
     .otherwise = "TESSERA_DEVICE, else auto"},
    {"precision", "P", TSR_OPTION_PRECISION, FIELD(weights),
     .help = "the type in which the device keeps the weights: f32, f16, bf16, int8, int4",
     .otherwise = "as the model's folder has them"},
    {"batch", "N", TSR_OPTION_INTEGER, FIELD(batch), 1, 1024, .shows_range = 1,
     .help = "windows of as many files computed at once", .otherwise = "4"},
    {"task", "T", TSR_OPTION_CHOICE, FIELD(task), .low = TSR_SPEECH_TRANSCRIBE, .choices = tasks,
     .help = "what to write", .preset = "transcribe"},
    {"language", "L", TSR_OPTION_LANGUAGE, FIELD(language),
     .help = "the language that is spoken, by its code or its English name; auto: the first window tells",
     .otherwise = "auto"},
    {"output", "FORM", TSR_OPTION_CHOICE, FIELD(form), .choices = forms, .help = "how to write it", .preset = "txt"},
    {"out", "FOLDER", TSR_OPTION_FOLDER, FIELD(folder),
     .help = "write NAME.FORM there for each file, under that name when it is whole",
     .otherwise = "standard output; of a single file each segment as soon as it is heard"},
    {"prompt", "TEXT", TSR_OPTION_TEXT, FIELD(prompt),
     .help = "what might have been said before: names and words as they are to be spelled; for the first window, and "
             "each that is told no text before it"},
    {"prompt-stays", NULL, TSR_OPTION_FLAG, FIELD(prompt_stays), .low = 1,
     .help = "the prompt precedes every window, before the text that the window is told"},
    {"forget", NULL, TSR_OPTION_FLAG, FIELD(forgets), .low = 1,
     .help = "no window is told the text before it: a mistake is less often repeated, a word that was cut less often "
             "found"},
    {"no-timestamps", NULL, TSR_OPTION_FLAG, FIELD(has_no_timestamps), .low = 1,
     .help = "the model writes no times: each window is one segment"},
    {"words", NULL, TSR_OPTION_FLAG, FIELD(words), .low = 1,
     .help = "JSON has the words of each segment, with their times and probabilities"},
    {"beam", "N", TSR_OPTION_INTEGER, FIELD(beam), 1, 64, .shows_range = 1,
     .help = "hypotheses of beam search at temperature 0", .otherwise = "as the model's folder says, else 1"},
    {"temperature", "T,..", TSR_OPTION_TEXT, FIELD(temperatures), .is_list = 1,
     .help = "temperatures, of which the next is tried if a text is not good enough: above 0 tokens are drawn",
     .otherwise = "0,0.2,0.4,0.6,0.8,1"},
    {"best-of", "N", TSR_OPTION_INTEGER, FIELD(best_of), 1, 64, .shows_range = 1, .preset = "5",
     .help = "texts that are drawn, of which the likeliest is taken"},
    {"compression-ratio-limit", "R", TSR_OPTION_NUMBER, FIELD(compression_ratio_limit), .low = 0, .high = 1e6,
     .preset = "2.4", .help = "a text that compresses better repeats itself, and is not good enough"},
    {"logprob-limit", "P", TSR_OPTION_NUMBER, FIELD(average_logprob_limit), .low = -1e6, .high = 0, .preset = "-1",
     .help = "a text whose tokens have a lower log-probability on average is not good enough"},
    {"no-speech-limit", "P", TSR_OPTION_NUMBER, FIELD(no_speech_limit), .low = 0, .high = 1, .preset = "0.6",
     .help = "a window whose text is not good enough is left out, if nobody speaks with a higher probability"},
    {"seed", "N", TSR_OPTION_INTEGER, FIELD(seed), .low = 0, .high = 1e18, .help = "of the draws", .preset = "0"},
    {"raw", "C", TSR_OPTION_CHOICE, FIELD(raw), .low = TSR_AUDIO_S16, .choices = codings,
     .help = "the files are samples without a header", .otherwise = "the content tells"},
    {"rate", "N", TSR_OPTION_INTEGER, FIELD(rate), 1000, 4000000, .help = "raw samples a second", .otherwise = "16000"},
    {"channels", "N", TSR_OPTION_INTEGER, FIELD(channels), 1, 1024, .help = "of raw samples, in turn",
     .otherwise = "1"},
    {"diarize", NULL, TSR_OPTION_FLAG, FIELD(tells_speakers), .low = 1, .help = "refused: who speaks is not told"},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};
static const tsr_operand operands[] = {
    {"FILE", TSR_OPTION_FILE, offsetof(session, options.files), .repeats = 1},
    {NULL},
};

const tsr_command tsr_command_transcribe = {
    .name = "transcribe",
    .summary = "write what is said in sounds: text, subtitles, JSON",
    .usage = "FILE... --model FOLDER [OPTION]...",
    .intro =
        "Writes what is said in each FILE, in the order in which they are named, with a model of speech (Whisper). A "
        "FILE is a WAV file; FLAC, MP3, Ogg, M4A, videos and other rates than 16 kHz take plugins, which a message "
        "names where they are missing. \"-\" is standard input, which may be a stream without an end: each segment is "
        "written as soon as it is heard.\n\n"
        "A broken file is reported on stderr, and the exit code is 3. If a stream breaks off, all that came before is "
        "heard.",
    .options = &options,
    .operands = operands,
    .missing = "name at least one file",
    .examples = "tessera transcribe interview.flac --model whisper-small --language fr\n"
                "tessera transcribe *.mp3 --model whisper-small --output srt --out subtitles\n"
                "arecord -t raw -f S16_LE -r 16000 | tessera transcribe - --raw s16 --model whisper-tiny",
    .session_size = sizeof(session),
    .check = check,
    .run = run,
    .finish = finish,
};
