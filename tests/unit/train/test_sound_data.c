/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of batches of sounds: features, prompts that are not learnt, windows that are cut, masks, and places.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/audio.h"
#include "tessera/training_data.h"
#include "tests/support/temporary.h"

static const char listener[] = TESSERA_SOURCE_ROOT "/tests/data/goldens/speech/models/whisper_tiny_random";

enum { MELS = 8, POSITIONS = 30, WINDOW = POSITIONS * 320, SOUNDS = 4, START = 129, PAD = 128, PROMPT = 3 };

static const int32_t samples[SOUNDS] = {2400, 4000, 8000, WINDOW + 1}; /* the last is too long for a window */
static char *folder, list[4096];
static tsr_tokenizer *tokenizer;
static float waves[SOUNDS][WINDOW + 1];

static void check(tsr_status status)
{
  if (status != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
}

static void write_sound(const char *name, int32_t sound)
{
  static unsigned char bytes[44 + 2 * (WINDOW + 1)];
  const uint32_t size = 2 * (uint32_t)samples[sound];
  const uint32_t words[] = {size + 36, 16, 1 | 1 << 16, 16000, 32000, 2 | 16 << 16, size};
  static const int32_t at[] = {4, 16, 20, 24, 28, 32, 40};
  memcpy(bytes, "RIFF    WAVEfmt ", 16);
  memcpy(bytes + 36, "data", 4);
  for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
    for (int k = 0; k < 4; k++) {
      bytes[at[i] + k] = (unsigned char)(words[i] >> 8 * k);
    }
  }
  for (int32_t i = 0; i < samples[sound]; i++) {
    const int16_t value = (int16_t)(9000 * sin(0.05 * (sound + 1) * i));
    waves[sound][i] = (float)value / 32768;
    bytes[44 + 2 * i] = (unsigned char)value;
    bytes[45 + 2 * i] = (unsigned char)((uint16_t)value >> 8);
  }
  write_file(path_in(folder, name), bytes, 44 + size);
}

static int set_up(void **state)
{
  (void)state;
  char lines[256] = "";
  folder = make_temporary_folder();
  for (int32_t i = 0; i < SOUNDS; i++) {
    char name[16], *end = lines + strlen(lines);
    snprintf(name, sizeof name, "%d.wav", (int)i);
    write_sound(name, i);
    snprintf(end, sizeof lines - (size_t)(end - lines), "%s\tSo %d it is.%s\n", name, (int)i, i == 1 ? "\tfr" : "");
  }
  snprintf(list, sizeof list, "%s", path_in(folder, "list.tsv"));
  write_text(list, lines);
  return tsr_tokenizer_open_folder(listener, &tokenizer) == TSR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
  (void)state;
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
  return 0;
}

static tsr_training_sounds usual_sounds(void)
{
  return (tsr_training_sounds){TSR_SIZED(tsr_training_sounds), .mels = MELS, .positions = POSITIONS, .language = "en",
                               .whole = 1};
}

static tsr_training_data *open_batches(const tsr_training_sounds *sounds, int32_t shuffle, int32_t batch_tokens)
{
  const tsr_training_data_options options = {TSR_SIZED(tsr_training_data_options),
                                             .files = {.source = list},
                                             .tokenizer = tokenizer,
                                             .sounds = sounds,
                                             .batch_tokens = batch_tokens,
                                             .step = 4,
                                             .seed = 7,
                                             .shuffle = shuffle,
                                             .epochs = 8,
                                             .decoder_start_id = START,
                                             .target_pad_id = PAD};
  tsr_training_data *data = NULL;
  check(tsr_training_data_create(&options, &data));
  return data;
}

static tsr_training_data *open_data(const tsr_training_sounds *sounds, int32_t shuffle)
{
  return open_batches(sounds, shuffle, 100);
}

static const tsr_training_batch *next(tsr_training_data *data)
{
  const tsr_training_batch *batch;
  check(tsr_training_data_next(data, &batch));
  return batch;
}

/* The row's features as they are without masks. */
static void expect_features(const tsr_training_batch *batch, const float *features, int32_t row)
{
  static float window[MELS * 2 * POSITIONS];
  const int32_t sound = (int32_t)batch->lines[row] - 1, width = 2 * batch->source_width;
  tsr_mel *mel;
  check(tsr_mel_create(MELS, &mel));
  check(tsr_mel_features(mel, waves[sound], samples[sound], WINDOW, window));
  tsr_mel_destroy(mel);
  for (int32_t m = 0; m < MELS; m++) {
    for (int32_t i = 0; i < width; i++) {
      const float wanted = window[m * 2 * POSITIONS + i], found = features[(row * MELS + m) * width + i];
      if (!(fabsf(found - wanted) <= 2e-3f)) {
        fail_msg("sound %d, mel %d, frame %d: %g, expected %g", (int)sound, (int)m, (int)i, (double)found,
                 (double)wanted);
      }
    }
  }
}

/* Whole windows, as the model will hear them; prompts do not count, and the language of a pair is its own. */
static void test_rows(void **state)
{
  const tsr_training_sounds sounds = usual_sounds();
  tsr_training_data *data = open_data(&sounds, 0);
  tsr_training_data_counts counts;
  const tsr_training_batch *batch;
  int32_t seen = 0;
  (void)state;
  assert_null(tsr_training_data_features(data));
  while ((batch = next(data)) && batch->epoch == 0) {
    assert_null(batch->source);
    assert_int_equal(batch->source_width, POSITIONS);
    for (int32_t row = 0; row < batch->sentences; row++, seen++) {
      const int32_t *target = batch->target + row * batch->target_width,
                    *labels = batch->labels + (target - batch->target);
      int32_t *ids, n, prefix[TSR_SPEECH_PREFIX], n_prefix, language, counted = 0;
      char text[32];
      snprintf(text, sizeof text, " So %d it is.", (int)batch->lines[row] - 1);
      check(tsr_speech_encode(tokenizer, text, strlen(text), &ids, &n));
      check(tsr_speech_find_language(tokenizer, batch->lines[row] == 2 ? "fr" : "en", &language));
      check(tsr_speech_prefix(tokenizer, language, TSR_SPEECH_TRANSCRIBE, 0, prefix, &n_prefix));
      assert_memory_equal(target, prefix, sizeof prefix);
      assert_memory_equal(target + TSR_SPEECH_PREFIX, ids, (size_t)n * sizeof *ids);
      assert_memory_equal(labels + PROMPT, ids, (size_t)n * sizeof *ids);
      assert_int_equal(labels[PROMPT + n], PAD); /* <|endoftext|> */
      for (int32_t i = 0; i < batch->target_width; i++) {
        assert_true((labels[i] >= 0) == (i >= PROMPT && i <= PROMPT + n));
        counted += labels[i] >= 0;
      }
      assert_int_equal(counted, n + 1);
      expect_features(batch, tsr_training_data_features(data), row);
      tsr_free(ids);
    }
  }
  assert_int_equal(seen, SOUNDS - 1);
  tsr_training_data_get_counts(data, &counts);
  assert_int_equal(counts.too_long, 1);
  tsr_training_data_destroy(data);
}

/* Windows that end with the longest sound of their batch, in steps; a share of them whole. */
static void test_windows(void **state)
{
  tsr_training_sounds sounds = usual_sounds();
  const tsr_training_batch *batch;
  int32_t whole = 0, cut = 0;
  (void)state;
  sounds.whole = 0.5;
  tsr_training_data *data = open_batches(&sounds, 1, POSITIONS); /* no batch has room for what another leaves over */
  while ((batch = next(data))) {
    assert_true(batch->source_width % 4 == 0 || batch->source_width == POSITIONS);
    whole += batch->source_width == POSITIONS;
    cut += batch->source_width < POSITIONS;
    for (int32_t row = 0; row < batch->sentences; row++) {
      expect_features(batch, tsr_training_data_features(data), row);
      assert_true(batch->source_width * 320 >= samples[batch->lines[row] - 1]);
    }
  }
  assert_true(whole >= 3 && cut >= 3);
  tsr_training_data_destroy(data);
}

/* Which frames of a mel, and which mels of a frame, are as another stream has them. */
static int is_same(const float *a, const float *b, int32_t width, int32_t mel, int32_t frame)
{
  return a[mel * width + frame] == b[mel * width + frame];
}

/* One mask in each sound: a rectangle of the mean, over all mels or all frames of the sound, and not over the silence
 * behind it. */
static void check_masks(int32_t is_time)
{
  const tsr_training_sounds plain = usual_sounds();
  tsr_training_sounds masked = plain;
  enum { WIDEST = 6 };
  masked.time_masks = is_time;
  masked.mel_masks = !is_time;
  masked.time_width = masked.mel_width = WIDEST;
  tsr_training_data *a = open_data(&masked, 1), *b = open_data(&plain, 1);
  const tsr_training_batch *batch;
  int32_t wide[WIDEST + 1] = {0}, places[SOUNDS] = {0}, n = 0, n_moved = 0;
  while ((batch = next(a))) {
    (void)next(b);
    for (int32_t row = 0; row < batch->sentences; row++) {
      const int32_t width = 2 * batch->source_width, frames = (samples[batch->lines[row] - 1] + 200 + 159) / 160;
      const float *found = tsr_training_data_features(a) + row * MELS * width;
      const float *clean = tsr_training_data_features(b) + row * MELS * width;
      int32_t lines = 0, first = -1, last = -1;
      float mean = NAN;
      for (int32_t k = 0; k < (is_time ? width : MELS); k++) {
        int32_t changed = 0;
        for (int32_t i = 0; i < (is_time ? MELS : width); i++) {
          const int32_t mel = is_time ? i : k, frame = is_time ? k : i;
          if (!is_same(found, clean, width, mel, frame)) {
            changed++;
            mean = isnan(mean) ? found[mel * width + frame] : mean;
            assert_true(found[mel * width + frame] == mean && frame < frames);
          }
        }
        /* A value that is the mean itself, by chance, looks unmasked. */
        assert_true(changed == 0 || changed >= (is_time ? MELS : frames) - 1);
        lines += changed > 0;
        first = changed > 0 && first < 0 ? k : first;
        last = changed > 0 ? k : last;
      }
      assert_true(lines <= WIDEST && (lines == 0 || last - first + 1 == lines));
      wide[lines]++;
      n++;
      n_moved += batch->epoch > 0 && places[batch->lines[row] - 1] != 100 * first + last;
      places[batch->lines[row] - 1] = 100 * first + last;
    }
  }
  assert_int_equal(n, 8 * (SOUNDS - 1));
  assert_true(wide[0] < n / 2 && n_moved > n / 2); /* in each pass at another place */
  assert_true(wide[WIDEST] > 0 && wide[1] + wide[2] + wide[3] > 0);
  tsr_training_data_destroy(a);
  tsr_training_data_destroy(b);
}

static void test_masks(void **state)
{
  (void)state;
  check_masks(1);
  check_masks(0);
}

/* A mask of time is no wider than its share of the sound. */
static void test_share(void **state)
{
  const tsr_training_sounds plain = usual_sounds();
  tsr_training_sounds masked = plain;
  const tsr_training_batch *batch;
  (void)state;
  masked.time_masks = 1;
  masked.time_width = 1000;
  masked.time_share = 0.1;
  tsr_training_data *a = open_data(&masked, 1), *b = open_data(&plain, 1);
  int32_t most = 0;
  while ((batch = next(a))) {
    (void)next(b);
    for (int32_t row = 0; row < batch->sentences; row++) {
      const int32_t width = 2 * batch->source_width, frames = (samples[batch->lines[row] - 1] + 200 + 159) / 160;
      int32_t changed = 0;
      for (int32_t i = 0; i < width; i++) {
        changed += !is_same(tsr_training_data_features(a) + row * MELS * width,
                            tsr_training_data_features(b) + row * MELS * width, width, 3, i);
      }
      assert_true(changed <= frames / 10);
      most = changed > most ? changed : most;
    }
  }
  assert_true(most > 0);
  tsr_training_data_destroy(a);
  tsr_training_data_destroy(b);
}

/* From any place the same batches follow, masks and windows too, in a stream of its own. */
static void test_places(void **state)
{
  tsr_training_sounds sounds = usual_sounds();
  (void)state;
  sounds.whole = 0.5;
  sounds.time_masks = sounds.mel_masks = 1;
  sounds.time_width = sounds.mel_width = 5;
  tsr_training_data *a = open_batches(&sounds, 1, POSITIONS), *b = open_batches(&sounds, 1, POSITIONS);
  int32_t n_within = 0; /* places within a pool */
  for (;;) {
    tsr_training_data_position position;
    tsr_training_data_tell(a, &position);
    n_within += position.batch > 0;
    const tsr_training_batch *one = next(a);
    check(tsr_training_data_seek(b, &position));
    const tsr_training_batch *other = next(b);
    assert_true((one == NULL) == (other == NULL));
    if (!one) {
      break;
    }
    assert_int_equal(one->source_width, other->source_width);
    assert_memory_equal(tsr_training_data_features(a), tsr_training_data_features(b),
                        (size_t)one->rows * MELS * 2 * (size_t)one->source_width * sizeof(float));
  }
  assert_true(n_within >= 8);
  tsr_training_data_destroy(a);
  tsr_training_data_destroy(b);
}

/* Text between timestamps, which are learnt: the end is the sound's, to the nearest position. */
static void test_timestamps(void **state)
{
  tsr_training_sounds sounds = usual_sounds();
  tsr_speech_tokens tokens;
  (void)state;
  sounds.timestamps = 1;
  check(tsr_speech_get_tokens(tokenizer, &tokens));
  tsr_training_data *data = open_data(&sounds, 0);
  const tsr_training_batch *batch = next(data);
  for (int32_t row = 0; row < batch->sentences; row++) {
    const int32_t *labels = batch->labels + row * batch->target_width;
    int32_t n = batch->target_width;
    while (labels[n - 1] < 0) {
      n--;
    }
    assert_int_equal(labels[1], -1);
    assert_int_equal(labels[2], tokens.timestamp_begin);
    assert_int_equal(labels[n - 2], tokens.timestamp_begin + (samples[batch->lines[row] - 1] + 160) / 320);
    assert_int_equal(labels[n - 1], tokens.end_of_text);
  }
  tsr_training_data_destroy(data);
}

static void test_refused(void **state)
{
  tsr_training_data *data = NULL;
  tsr_training_sounds sounds = usual_sounds();
  tsr_training_data_options options = {TSR_SIZED(tsr_training_data_options),
                                       .files = {.source = list},
                                       .tokenizer = tokenizer,
                                       .batch_tokens = 100,
                                       .sounds = &sounds,
                                       .max_ratio = 2};
  (void)state;
  assert_int_equal(tsr_training_data_create(&options, &data), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "max_ratio"));
  options.max_ratio = 0;
  sounds.mel_width = MELS + 1;
  assert_int_equal(tsr_training_data_create(&options, &data), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "mel_width is 9; expected 0 to 8"));
  sounds = usual_sounds();
  options.batch_tokens = POSITIONS - 1;
  assert_int_equal(tsr_training_data_create(&options, &data), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "the longest source"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),    cmocka_unit_test(test_windows), cmocka_unit_test(test_masks),
      cmocka_unit_test(test_share),   cmocka_unit_test(test_places),  cmocka_unit_test(test_timestamps),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
