/* SPDX-License-Identifier: Apache-2.0
 *
 * What is heard in sounds: the long sounds that were recorded of the original, and what belongs to sounds of any
 * length, in company, broken, silent, or stopped.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/transcriber.h"
#include "tests/support/goldens.h"
#include "tests/unit/speech/recordings.h"

enum { SOUNDS = 3, SKIPPED = 77 };

static const char *device;

static void check(tsr_status status)
{
  if (status != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
}

static tsr_transcriber *open_model(void)
{
  const tsr_transcriber_options options = {TSR_SIZED(tsr_transcriber_options), .device = device};
  char folder[4096];
  tsr_transcriber *transcriber = NULL;
  snprintf(folder, sizeof folder, "%s", recorded_file("."));
  check(tsr_transcriber_open(folder, &options, &transcriber));
  return transcriber;
}

static tsr_audio *open_sound(const char *name)
{
  char path[4096];
  tsr_audio *audio = NULL;
  snprintf(path, sizeof path, "%s", recorded_file("../../features/"));
  snprintf(path + strlen(path), sizeof path - strlen(path), "%s.wav", name);
  check(tsr_audio_open(path, NULL, &audio));
  return audio;
}

/* One search a window, however good its text is. */
static tsr_transcribe_options plain_options(void)
{
  tsr_transcribe_options options = {TSR_SIZED(tsr_transcribe_options)};
  check(tsr_transcribe_defaults(&options));
  options.language = "en";
  options.n_temperatures = 1;
  options.condition_on_previous = 0;
  options.compression_ratio_limit = options.average_logprob_limit = options.no_speech_limit = NAN;
  return options;
}

static void transcribe(tsr_transcriber *transcriber, const char *name, const tsr_transcribe_options *options,
                       tsr_transcript *transcript)
{
  tsr_audio *audio = open_sound(name);
  check(tsr_transcribe(transcriber, 1, &audio, options, transcript));
  tsr_audio_close(audio);
}

/* ---- recordings -------------------------------------------------------------------------------------------------- */

static double number_of(const json_t *recorded, const char *name)
{
  const char *call = json_string_value(json_object_get(recorded, "call")), *at = strstr(call, name);
  return at ? strtod(at + strlen(name), NULL) : (double)NAN;
}

/* The ids behind "tensor([". */
static int32_t prompt_of(const json_t *recorded, int32_t ids[MOST_IDS])
{
  static const char beginning[] = "tensor([";
  const char *at = strstr(json_string_value(json_object_get(recorded, "call")), beginning);
  int32_t n = 0;
  for (at = at ? at + strlen(beginning) : NULL; at && n < MOST_IDS && *at != ']'; n++) {
    char *end;
    ids[n] = (int32_t)strtol(at, &end, 10);
    at = end + strspn(end, ", ");
  }
  return n;
}

static void compare_segments(const json_t *recorded, const tsr_transcript *transcript, int32_t timestamp_begin)
{
  const json_t *segments = json_object_get(recorded, "segments"), *each;
  const int forgets = !call_has(recorded, "condition_on_prev_tokens=True");
  static int32_t tokens[MOST_IDS];
  size_t i;
  assert_int_equal(transcript->n_segments, json_array_size(segments));
  json_array_foreach(segments, i, each)
  {
    const tsr_segment *found = &transcript->segments[i];
    int32_t n;
    read_ids(json_object_get(each, "tokens"), tokens, &n);
    assert_float_equal(found->start, json_number_value(json_object_get(each, "start")), 1e-4);
    assert_float_equal(found->end, json_number_value(json_object_get(each, "end")), 1e-4);
    if (forgets || i + 1 == json_array_size(segments)) { /* no window behind the last one takes a token away */
      assert_int_equal(found->n_tokens, n);
    } else {
      assert_int_equal(tsr_speech_segment_kept(found->tokens, found->n_tokens, timestamp_begin), n);
    }
    assert_memory_equal(found->tokens, tokens, (size_t)n * sizeof *tokens);
  }
}

static void replay(json_t *golden)
{
  static int32_t prompt[MOST_IDS];
  const int32_t timestamp_begin = vocabulary_id(golden, "timestamp_begin");
  tsr_transcriber *transcriber = open_model();
  const json_t *recorded;
  size_t i;
  json_array_foreach(json_object_get(golden, "long_form"), i, recorded)
  {
    tsr_transcribe_options options = plain_options();
    tsr_generate_options search = {TSR_SIZED(tsr_generate_options)};
    tsr_transcript transcript;
    const double beam = number_of(recorded, "num_beams=");
    check(tsr_generate_defaults(tsr_transcriber_model(transcriber), &search));
    search.beam = isnan(beam) ? search.beam : (int32_t)beam;
    options.search = &search;
    options.language = call_has(recorded, "language='en'") ? "en" : NULL;
    options.condition_on_previous = call_has(recorded, "condition_on_prev_tokens=True");
    options.average_logprob_limit = (float)number_of(recorded, "logprob_threshold=");
    options.no_speech_limit = (float)number_of(recorded, "no_speech_threshold=");
    options.n_prompt_ids = prompt_of(recorded, prompt);
    options.prompt_ids = prompt;
    options.prompt_stays = call_has(recorded, "all-segments");
    transcribe(transcriber, "long31", &options, &transcript);
    check(transcript.status);
    print_message("%s: %d segments\n", json_string_value(json_object_get(recorded, "name")),
                  (int)transcript.n_segments);
    compare_segments(recorded, &transcript, timestamp_begin);
    assert_float_equal(transcript.duration, 31, 1e-9);
    assert_int_equal(isnan(transcript.language_probability), options.language != NULL);
    tsr_transcript_finish(&transcript);
  }
  tsr_transcriber_close(transcriber);
}

static void test_recordings(void **state)
{
  (void)state;
  if (for_each_recording(replay) == 0) {
    skip();
  }
}

/* ---- what belongs to any sound ----------------------------------------------------------------------------------- */

static void assert_same(const tsr_transcript *one, const tsr_transcript *other)
{
  assert_int_equal(one->n_segments, other->n_segments);
  for (int32_t i = 0; i < one->n_segments; i++) {
    const tsr_segment *a = &one->segments[i], *b = &other->segments[i];
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->tokens, b->tokens, (size_t)a->n_tokens * sizeof *a->tokens);
    assert_string_equal(a->text, b->text);
    assert_true(a->start == b->start && a->end == b->end && a->temperature == b->temperature);
    assert_float_equal(a->average_logprob, b->average_logprob, 1e-4);
  }
}

/* Three sounds together, of which one is long, and each alone: greedy, and drawn. */
static void hear_company(json_t *golden)
{
  static const char *const names[SOUNDS] = {"fox", "long31", "count"};
  (void)golden;
  tsr_transcriber *transcriber = open_model();
  for (int draws = 0; draws < 2; draws++) {
    tsr_transcribe_options options = plain_options();
    tsr_transcript together[SOUNDS], alone;
    tsr_audio *sounds[SOUNDS];
    options.language = NULL;
    options.condition_on_previous = 1;
    options.temperatures[0] = draws ? 0.4f : 0.0f;
    options.best_of = 2;
    for (int32_t i = 0; i < SOUNDS; i++) {
      sounds[i] = open_sound(names[i]);
    }
    check(tsr_transcribe(transcriber, SOUNDS, sounds, &options, together));
    for (int32_t i = 0; i < SOUNDS; i++) {
      tsr_audio_close(sounds[i]);
      transcribe(transcriber, names[i], &options, &alone);
      assert_true(alone.n_segments > 0);
      assert_same(&together[i], &alone);
      tsr_transcript_finish(&alone);
      tsr_transcript_finish(&together[i]);
    }
  }
  tsr_transcriber_close(transcriber);
}

static void test_company(void **state)
{
  (void)state;
  for_each_recording(hear_company);
}

/* What is heard while sounds come. */
typedef struct arrivals {
  tsr_audio *sounds[SOUNDS];
  int32_t n_asked; /* while there was no other sound */
  int32_t n_ended;
  int32_t ends[SOUNDS];
} arrivals;

/* The second sound is not there when it is first asked for; the third one comes with it. */
static int32_t bring(void *user, int32_t sound, tsr_audio **audio)
{
  static const char *const names[SOUNDS] = {"long31", "fox", "count"};
  arrivals *a = user;
  if (sound == 0 || a->n_asked++ < 1) {
    return 0;
  }
  if (!a->sounds[sound]) {
    *audio = a->sounds[sound] = open_sound(names[sound]);
  }
  return 1;
}

static void note_end(void *user, int32_t sound)
{
  arrivals *a = user;
  a->ends[a->n_ended++] = sound;
  tsr_audio_close(a->sounds[sound]);
}

/* A long sound, and short ones that come while it is heard: these end first, and all are as they are alone. */
static void hear_late(json_t *golden)
{
  static const char *const names[SOUNDS] = {"long31", "fox", "count"};
  (void)golden;
  tsr_transcriber *transcriber = open_model();
  tsr_transcribe_options options = plain_options();
  tsr_transcript together[SOUNDS], alone;
  arrivals a = {.sounds = {open_sound("long31")}};
  tsr_audio *sounds[SOUNDS] = {a.sounds[0]};
  options.next = bring;
  options.ended = note_end;
  options.user = &a;
  check(tsr_transcribe(transcriber, SOUNDS, sounds, &options, together));
  assert_int_equal(a.n_ended, SOUNDS);
  assert_int_equal(a.ends[SOUNDS - 1], 0);
  options = plain_options();
  for (int32_t i = 0; i < SOUNDS; i++) {
    transcribe(transcriber, names[i], &options, &alone);
    assert_same(&together[i], &alone);
    tsr_transcript_finish(&alone);
    tsr_transcript_finish(&together[i]);
  }
  assert_int_equal(tsr_transcribe(transcriber, 1, (tsr_audio *[]){NULL}, &options, &alone), TSR_ERR_ARGUMENT);
  tsr_transcriber_close(transcriber);
}

static void test_arrivals(void **state)
{
  (void)state;
  for_each_recording(hear_late);
}

/* A text that is never good enough goes through all temperatures, and no text that is not told twice. */
static void hear_again(json_t *golden)
{
  (void)golden;
  tsr_transcriber *transcriber = open_model();
  tsr_transcribe_options options = plain_options();
  tsr_transcript first, second;
  options.n_temperatures = 3;
  options.temperatures[1] = 0.2f;
  options.temperatures[2] = 0.7f;
  options.best_of = 3;
  options.compression_ratio_limit = 0.01f;
  transcribe(transcriber, "fox", &options, &first);
  for (int32_t i = 0; i < first.n_segments; i++) {
    assert_float_equal(first.segments[i].temperature, 0.7f, 0);
    assert_true(first.segments[i].compression_ratio > 0.01f);
  }
  transcribe(transcriber, "fox", &options, &second);
  assert_true(first.n_segments > 0);
  assert_same(&first, &second);
  tsr_transcript_finish(&second);
  tsr_transcript_finish(&first);
  /* Good enough at once. */
  options.compression_ratio_limit = 1000;
  transcribe(transcriber, "fox", &options, &first);
  assert_true(first.n_segments > 0 && first.segments[0].temperature == 0);
  tsr_transcript_finish(&first);
  tsr_transcriber_close(transcriber);
}

static void test_temperatures(void **state)
{
  (void)state;
  for_each_recording(hear_again);
}

/* The words of the first window, by calls of the parts: `found` are its segments. */
static void restate_times(json_t *golden, const tsr_transcriber *transcriber, const tsr_transcript *found)
{
  const int32_t positions = model_number(golden, "max_source_positions"), mels = model_number(golden, "num_mel_bins");
  const int32_t prefix[] = {(int32_t)json_integer_value(json_object_get(
                                json_object_get(json_object_get(golden, "vocabulary"), "languages"), "en")),
                            vocabulary_id(golden, "transcribe")};
  const int32_t *const prefixes[] = {prefix};
  const int32_t n_prefix = 2;
  tsr_transformer *transformer = NULL;
  tsr_details *details = NULL;
  tsr_generation generation;
  tsr_audio *audio = open_sound("long31");
  tsr_mel *mel = NULL;
  tsr_features *features = NULL;
  float *values = malloc((size_t)mels * 2 * (size_t)positions * sizeof *values);
  const float *windows[] = {values};
  int32_t got, n_rows;
  assert_non_null(values);
  check(tsr_mel_create(mels, &mel));
  check(tsr_features_open(audio, mel, &features));
  check(tsr_features_read(features, 0, 2 * positions, TSR_FEATURES_WHOLE, values, &got));
  check(tsr_details_create(&details));
  check(tsr_transformer_create(tsr_transcriber_model(transcriber), tsr_transcriber_device(transcriber), NULL,
                               &transformer));
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  check(tsr_generate_defaults(tsr_transcriber_model(transcriber), &options));
  options.prefix = prefixes;
  options.prefix_lengths = &n_prefix;
  options.timestamps = options.alignment = 1;
  options.timestamp_begin = vocabulary_id(golden, "timestamp_begin");
  options.no_timestamps_id = vocabulary_id(golden, "notimestamps");
  options.details = details;
  check(tsr_generate_features(transformer, 1, windows, 0, &options, NULL, NULL, &generation));
  const float *weights = tsr_details_alignment(details, 0, 0, &n_rows);
  double *times = malloc(((size_t)n_rows + 1) * sizeof *times);
  assert_non_null(times);
  check(tsr_speech_token_times(weights, options.n_alignment_heads, n_rows, positions, positions, 7, times));
  int32_t n = 0;
  for (int32_t i = 0; i < found->n_segments && found->segments[i].window == 0; i++) {
    for (int32_t j = 0; j < found->segments[i].n_words; j++) {
      const tsr_speech_word *word = &found->segments[i].words[j];
      int32_t before = 1 + n_prefix + word->first; /* ids of the decoder before the word's first */
      for (int32_t k = 0; k < i; k++) {
        before += found->segments[k].n_tokens;
      }
      assert_float_equal(word->start, times[before], 1e-9);
      assert_float_equal(word->end, times[before + word->n_tokens], 1e-9);
      n++;
    }
  }
  assert_true(n > 0);
  free(times);
  tsr_generation_finish(&generation);
  tsr_transformer_destroy(transformer);
  tsr_details_destroy(details);
  tsr_features_close(features);
  tsr_mel_destroy(mel);
  tsr_audio_close(audio);
  free(values);
}

/* Words spell their segment, one after the other, within its window. */
static void hear_words(json_t *golden)
{
  const double window = model_number(golden, "max_source_positions") * 0.02;
  tsr_transcriber *transcriber = open_model();
  for (int32_t beam = 1; beam <= 3; beam += 2) {
    tsr_transcribe_options options = plain_options();
    tsr_generate_options search = {TSR_SIZED(tsr_generate_options)};
    tsr_transcript with, without;
    check(tsr_generate_defaults(tsr_transcriber_model(transcriber), &search));
    search.beam = beam;
    options.search = &search;
    transcribe(transcriber, "long31", &options, &without);
    options.words = 1;
    transcribe(transcriber, "long31", &options, &with);
    assert_same(&with, &without);
    int32_t n = 0, n_probable = 0;
    for (int32_t i = 0; i < with.n_segments; i++) {
      const tsr_segment *segment = &with.segments[i];
      char text[4096] = "";
      double last = segment->window;
      for (int32_t j = 0; j < segment->n_words; j++) {
        const tsr_speech_word *word = &segment->words[j];
        assert_true(word->start >= last && word->end >= word->start && word->end <= segment->window + window + 1e-9);
        assert_true(word->probability > 0 && word->probability <= 1);
        n_probable += word->probability < 1;
        last = word->start;
        strncat(text, word->text, sizeof text - strlen(text) - 1);
      }
      n += segment->n_words;
      assert_string_equal(text, segment->text);
      assert_int_equal(without.segments[i].n_words, 0);
    }
    assert_true(n > with.n_segments / 2);
    assert_int_equal(n_probable > 0, beam == 1);
    if (beam == 1) {
      restate_times(golden, transcriber, &with);
    }
    tsr_transcript_finish(&with);
    tsr_transcript_finish(&without);
  }
  tsr_transcriber_close(transcriber);
}

static void test_words(void **state)
{
  (void)state;
  for_each_recording(hear_words);
}

/* ---- what a window is told --------------------------------------------------------------------------------------- */

/* What is heard in a window of long31, whose decoder begins with `input`, by calls of the parts. */
static void restate_window(const tsr_transcriber *transcriber, const int32_t *input, int32_t n_input, int64_t seek,
                           tsr_generation *generation)
{
  const tsr_model *model = tsr_transcriber_model(transcriber);
  const tsr_transformer_config *config = tsr_model_config(model);
  const int32_t frames = 2 * config->source_positions, n_prefix = n_input - 1;
  const int32_t *const prefixes[] = {input + 1};
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  tsr_transformer *transformer = NULL;
  tsr_audio *audio = open_sound("long31");
  tsr_mel *mel = NULL;
  tsr_features *features = NULL;
  tsr_speech_tokens tokens;
  float *values = malloc((size_t)config->mels * (size_t)frames * sizeof *values);
  const float *windows[] = {values};
  int32_t got;
  assert_non_null(values);
  check(tsr_mel_create(config->mels, &mel));
  check(tsr_features_open(audio, mel, &features));
  check(tsr_features_read(features, seek, frames, TSR_FEATURES_WHOLE, values, &got));
  check(tsr_transformer_create(model, tsr_transcriber_device(transcriber), NULL, &transformer));
  check(tsr_speech_get_tokens(tsr_transcriber_tokenizer(transcriber), &tokens));
  check(tsr_generate_defaults(model, &options));
  options.decoder_start_id = input[0];
  options.prefix = prefixes;
  options.prefix_lengths = &n_prefix;
  options.timestamps = 1;
  options.timestamp_begin = tokens.timestamp_begin;
  options.no_timestamps_id = tokens.no_timestamps;
  check(tsr_generate_features(transformer, 1, windows, 0, &options, NULL, NULL, generation));
  tsr_transformer_destroy(transformer);
  tsr_features_close(features);
  tsr_mel_destroy(mel);
  tsr_audio_close(audio);
  free(values);
}

/* Holds a window, whose first segment is `first`, to the tokens of the segments before it. Returns how many it was
 * told. */
static int32_t hold_window(const tsr_transcriber *transcriber, const tsr_transcript *transcript, int32_t first)
{
  const tsr_tokenizer *tokenizer = tsr_transcriber_tokenizer(transcriber);
  const tsr_segment *segments = transcript->segments;
  const int32_t most = tsr_model_config(tsr_transcriber_model(transcriber))->max_positions / 2 - 1;
  static int32_t previous[MOST_IDS], input[MOST_IDS];
  int32_t prefix[TSR_SPEECH_PREFIX], n_prefix, language, n_input, n = 0;
  tsr_speech_tokens tokens;
  tsr_generation generation;
  check(tsr_speech_get_tokens(tokenizer, &tokens));
  check(tsr_speech_find_language(tokenizer, "en", &language));
  check(tsr_speech_prefix(tokenizer, language, TSR_SPEECH_TRANSCRIBE, 1, prefix, &n_prefix));
  for (int32_t i = 0; i < first; i++) {
    const int32_t kept = tsr_speech_segment_kept(segments[i].tokens, segments[i].n_tokens, tokens.timestamp_begin);
    assert_true(n + kept <= MOST_IDS);
    memcpy(previous + n, segments[i].tokens, (size_t)kept * sizeof *previous);
    n += kept;
  }
  if (n == 0) { /* it is told the prompt */
    return 0;
  }
  const tsr_speech_context context = {.previous = previous,
                                      .n_previous = n,
                                      .prefix = prefix,
                                      .n_prefix = n_prefix,
                                      .start_of_prev = tokens.start_of_prev,
                                      .has_previous = 1,
                                      .most_of_previous = most};
  check(tsr_speech_window_input(&context, input, &n_input));
  restate_window(transcriber, input, n_input, llround(segments[first].window * 100), &generation);
  const tsr_hypothesis *found = &generation.hypotheses[0];
  int32_t at = n_input - 1; /* the start token is no part of an output */
  for (int32_t i = first; i < transcript->n_segments && segments[i].window == segments[first].window; i++) {
    assert_true(at + segments[i].n_tokens <= found->n_ids);
    assert_memory_equal(segments[i].tokens, found->ids + at, (size_t)segments[i].n_tokens * sizeof *found->ids);
    at += segments[i].n_tokens;
  }
  tsr_generation_finish(&generation);
  return n < most ? n : most;
}

/* A prompt as long as may be, which precedes the first window alone, leaves the others all of the text before them. */
static void hear_prompted(json_t *golden)
{
  tsr_transcriber *transcriber = open_model();
  tsr_transcribe_options options = plain_options();
  tsr_transcript transcript;
  (void)golden;
  options.prompt = "B C D E F G H I J K L M N O P Q R S T U V W X Y Z b c d f g h j k l m n p q r s t v w x z";
  options.condition_on_previous = 1;
  transcribe(transcriber, "long31", &options, &transcript);
  check(transcript.status);
  int32_t told = 0;
  for (int32_t i = 1; i < transcript.n_segments; i++) {
    if (transcript.segments[i].window > transcript.segments[i - 1].window) {
      told = hold_window(transcriber, &transcript, i);
    }
  }
  assert_true(told > 15); /* of 31; beside the prompt there would be room for 13 */
  tsr_transcript_finish(&transcript);
  tsr_transcriber_close(transcriber);
}

static void test_prompted(void **state)
{
  (void)state;
  for_each_recording(hear_prompted);
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

typedef struct listener {
  int32_t n, most;
  double end, heard, of;
} listener;

static int32_t take_segment(void *user, int32_t sound, const tsr_segment *segment)
{
  listener *l = user;
  assert_int_equal(sound, 0);
  assert_true(segment->end >= l->end);
  l->end = segment->end;
  return ++l->n == l->most;
}

static void take_progress(void *user, int32_t sound, double seconds, double of)
{
  listener *l = user;
  assert_int_equal(sound, 0);
  assert_true(seconds > l->heard);
  l->heard = seconds;
  l->of = of;
}

static void listen_to(json_t *golden)
{
  (void)golden;
  tsr_transcriber *transcriber = open_model();
  tsr_transcribe_options options = plain_options();
  listener l = {.most = -1};
  tsr_transcript transcript;
  options.segment = take_segment;
  options.heard = take_progress;
  options.user = &l;
  transcribe(transcriber, "long31", &options, &transcript);
  assert_int_equal(l.n, transcript.n_segments);
  assert_float_equal(l.heard, 31, 1e-9);
  assert_float_equal(l.of, 31, 1e-9);
  tsr_transcript_finish(&transcript);
  l = (listener){.most = 2};
  transcribe(transcriber, "long31", &options, &transcript);
  assert_int_equal(l.n, 2);
  assert_true(transcript.status == TSR_OK && transcript.n_segments >= 2 && transcript.duration < 31);
  tsr_transcript_finish(&transcript);
  tsr_transcriber_close(transcriber);
}

static void test_callbacks(void **state)
{
  (void)state;
  for_each_recording(listen_to);
}

/* ---- odd sounds -------------------------------------------------------------------------------------------------- */

/* n samples of a tone, raw; NaN from `broken` on. */
static tsr_audio *view_tone(float *samples, int64_t n, int64_t broken)
{
  const tsr_audio_options options = {TSR_SIZED(tsr_audio_options), .raw = TSR_AUDIO_F32};
  tsr_audio *audio = NULL;
  for (int64_t i = 0; i < n; i++) {
    samples[i] = i < broken ? 0.3f * sinf(0.1f * (float)i) : NAN;
  }
  check(tsr_audio_view("tone", samples, (size_t)n * sizeof *samples, &options, &audio));
  return audio;
}

static void hear_odd(json_t *golden)
{
  enum { N = 16000 * 8, BROKEN = 16000 * 7 };
  (void)golden;
  tsr_transcriber *transcriber = open_model();
  const tsr_transcribe_options options = plain_options();
  float *samples = calloc(4 * N, sizeof *samples);
  assert_non_null(samples);
  tsr_transcript transcripts[4], alone;
  tsr_audio *sounds[4] = {view_tone(samples, 0, 0), view_tone(samples + N, 1, 1), view_tone(samples + 2 * N, N, BROKEN),
                          view_tone(samples + 3 * N, N, N)};
  check(tsr_transcribe(transcriber, 4, sounds, &options, transcripts));
  for (int32_t i = 0; i < 2; i++) { /* no frame at all */
    check(transcripts[i].status);
    assert_int_equal(transcripts[i].n_segments, 0);
    assert_true(transcripts[i].duration == 0);
    assert_string_equal(transcripts[i].language, "en"); /* as it was named */
  }
  assert_int_equal(transcripts[2].status, TSR_ERR_FORMAT);
  assert_non_null(transcripts[2].error);
  assert_non_null(strstr(transcripts[2].error, "tone"));
  check(transcripts[3].status);
  for (int32_t i = 0; i < 4; i++) {
    tsr_audio_close(sounds[i]);
  }
  tsr_audio *audio = view_tone(samples, N, N);
  check(tsr_transcribe(transcriber, 1, &audio, &options, &alone)); /* a broken neighbour does not matter */
  assert_same(&alone, &transcripts[3]);
  tsr_audio_close(audio);
  tsr_transcript_finish(&alone);
  for (int32_t i = 0; i < 4; i++) {
    tsr_transcript_finish(&transcripts[i]);
  }
  free(samples);
  tsr_transcriber_close(transcriber);
}

static void test_odd_sounds(void **state)
{
  (void)state;
  for_each_recording(hear_odd);
}

/* A window that is a hundred times quieter than what follows: its features have the maximum of the whole sound, and so
 * other probabilities than the window alone. */
static void hear_quiet(json_t *golden)
{
  const int64_t window = (int64_t)model_number(golden, "max_source_positions") * 2 * TSR_MEL_HOP;
  const tsr_audio_options raw = {TSR_SIZED(tsr_audio_options), .raw = TSR_AUDIO_F32};
  tsr_transcriber *transcriber = open_model();
  const tsr_transcribe_options options = plain_options();
  float *samples = calloc((size_t)window * 2, sizeof *samples);
  tsr_audio *audio = open_sound("fox");
  int64_t n;
  assert_non_null(samples);
  check(tsr_audio_read(audio, samples, window, &n));
  tsr_audio_close(audio);
  memcpy(samples + window, samples, (size_t)n * sizeof *samples);
  for (int64_t i = 0; i < n; i++) {
    samples[i] *= 0.01f;
  }
  tsr_transcript both[2];
  for (int32_t i = 0; i < 2; i++) {
    check(tsr_audio_view("quiet", samples, (size_t)(i + 1) * (size_t)window * sizeof *samples, &raw, &audio));
    check(tsr_transcribe(transcriber, 1, &audio, &options, &both[i]));
    check(both[i].status);
    assert_true(both[i].n_segments > 0 && both[i].segments[0].window == 0);
    tsr_audio_close(audio);
  }
  assert_true(both[0].segments[0].average_logprob != both[1].segments[0].average_logprob);
  tsr_transcript_finish(&both[0]);
  tsr_transcript_finish(&both[1]);
  free(samples);
  tsr_transcriber_close(transcriber);
}

static void test_maximum(void **state)
{
  (void)state;
  for_each_recording(hear_quiet);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void assert_refused(tsr_transcriber *transcriber, const tsr_transcribe_options *options, tsr_status expected,
                           const char *fragment)
{
  tsr_audio *audio = open_sound("fox");
  tsr_transcript transcript;
  assert_int_equal(tsr_transcribe(transcriber, 1, &audio, options, &transcript), expected);
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("'%s' lacks '%s'", tsr_error_message(), fragment);
  }
  tsr_audio_close(audio);
}

static void refuse(json_t *golden)
{
  static const int32_t beyond[] = {1 << 20};
  (void)golden;
  tsr_transcriber *transcriber = open_model();
  tsr_transcribe_options options = plain_options();
  options.task = 7;
  assert_refused(transcriber, &options, TSR_ERR_ARGUMENT, "task");
  options = plain_options();
  options.n_temperatures = 0;
  assert_refused(transcriber, &options, TSR_ERR_ARGUMENT, "n_temperatures");
  options = plain_options();
  options.temperatures[0] = -1;
  assert_refused(transcriber, &options, TSR_ERR_ARGUMENT, "temperatures[0]");
  options = plain_options();
  options.best_of = 0;
  assert_refused(transcriber, &options, TSR_ERR_ARGUMENT, "best_of");
  options = plain_options();
  options.language = "klingon";
  assert_refused(transcriber, &options, TSR_ERR_ARGUMENT, "klingon");
  options = plain_options();
  options.prompt_ids = beyond;
  options.n_prompt_ids = 1;
  assert_refused(transcriber, &options, TSR_ERR_ARGUMENT, "prompt_ids[0]");
  tsr_transcriber_close(transcriber);
}

static void test_refusals(void **state)
{
  (void)state;
  tsr_transcriber *transcriber = NULL;
  for_each_recording(refuse);
  assert_int_equal(tsr_transcriber_open(TESSERA_SOURCE_ROOT "/tests/data/marian-en-fr", NULL, &transcriber),
                   TSR_ERR_UNSUPPORTED);
  assert_non_null(strstr(tsr_error_message(), "reads text"));
  assert_null(transcriber);
  tsr_transcriber_close(NULL);
}

static int has_device(void)
{
  tsr_runtime *runtime = NULL;
  tsr_device *opened = NULL;
  const int has = tsr_runtime_create(NULL, &runtime) == TSR_OK && tsr_device_open(runtime, device, &opened) == TSR_OK;
  tsr_device_close(opened);
  tsr_runtime_destroy(runtime);
  return has;
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recordings), cmocka_unit_test(test_company),   cmocka_unit_test(test_temperatures),
      cmocka_unit_test(test_words),      cmocka_unit_test(test_callbacks), cmocka_unit_test(test_odd_sounds),
      cmocka_unit_test(test_maximum),    cmocka_unit_test(test_refusals),  cmocka_unit_test(test_arrivals),
      cmocka_unit_test(test_prompted),
  };
  const struct CMUnitTest recordings[] = {cmocka_unit_test(test_recordings)};
  device = argc > 1 ? argv[1] : "cpu";
  if (!has_device()) {
    printf("skipped: %s\n", tsr_error_message());
    return SKIPPED;
  }
  return strcmp(device, "cpu") == 0 ? cmocka_run_group_tests(tests, NULL, NULL)
                                    : cmocka_run_group_tests(recordings, NULL, NULL);
}
