/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of long recordings: what was recorded of a small model, window by window; and cases that it does not have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "tessera/speech.h"
#include "tests/unit/speech/recordings.h"

/* ---- recorded ---------------------------------------------------------------------------------------------------- */

/* A transcript as it grows. */
typedef struct transcript {
  tsr_speech_segment segments[MOST_IDS]; /* `first` counts in ids */
  int32_t n_segments;
  int32_t ids[MOST_IDS];
  int32_t n_ids;
} transcript;

/* Leaves out the second timestamps of pairs at the ends of segments. */
static void keep_for_next(transcript *t, int32_t timestamp_begin)
{
  int32_t n = 0;
  for (int32_t i = 0; i < t->n_segments; i++) {
    tsr_speech_segment *segment = &t->segments[i];
    const int32_t kept = tsr_speech_segment_kept(t->ids + segment->first, segment->n_tokens, timestamp_begin);
    memmove(t->ids + n, t->ids + segment->first, (size_t)kept * sizeof *t->ids);
    segment->first = n;
    segment->n_tokens = kept;
    n += kept;
  }
  t->n_ids = n;
}

static void add_window(transcript *t, const json_t *window, int32_t timestamp_begin, int64_t seek, int32_t frames,
                       int64_t *advance)
{
  static int32_t tokens[MOST_IDS];
  static tsr_speech_segment segments[MOST_IDS + 1];
  int32_t n_tokens, n_segments;
  read_ids(json_object_get(window, "generated"), tokens, &n_tokens);
  assert_int_equal(tsr_speech_segments(tokens, n_tokens, timestamp_begin, seek, frames, segments, &n_segments, advance),
                   TSR_OK);
  for (int32_t i = 0; i < n_segments; i++) {
    tsr_speech_segment segment = segments[i];
    memcpy(t->ids + t->n_ids, tokens + segment.first, (size_t)segment.n_tokens * sizeof *tokens);
    segment.first = t->n_ids;
    t->n_ids += segment.n_tokens;
    t->segments[t->n_segments++] = segment;
  }
}

static void expect_same(const int32_t *ids, int32_t n, const json_t *recorded, const char *what)
{
  static int32_t expected[MOST_IDS];
  int32_t n_expected;
  read_ids(recorded, expected, &n_expected);
  if (n != n_expected || memcmp(ids, expected, (size_t)n * sizeof *ids) != 0) {
    fail_msg("%s: %d ids, not the %d that were recorded", what, (int)n, (int)n_expected);
  }
}

static void expect_transcript(const transcript *t, const json_t *recorded)
{
  const char *name = json_string_value(json_object_get(recorded, "name"));
  const json_t *segments = json_object_get(recorded, "segments");
  assert_int_equal(t->n_segments, json_array_size(segments));
  for (int32_t i = 0; i < t->n_segments; i++) {
    const json_t *segment = json_array_get(segments, (size_t)i);
    expect_same(t->ids + t->segments[i].first, t->segments[i].n_tokens, json_object_get(segment, "tokens"), name);
    assert_true(fabs(t->segments[i].start - json_number_value(json_object_get(segment, "start"))) < 1e-6);
    assert_true(fabs(t->segments[i].end - json_number_value(json_object_get(segment, "end"))) < 1e-6);
  }
  expect_same(t->ids, t->n_ids, json_array_get(json_object_get(recorded, "sequences"), 0), name);
}

/* The frames that the model hears at once, and those of the recording. */
typedef struct recorded_sound {
  int32_t window;
  int64_t frames;
} recorded_sound;

static void expect_input(const tsr_speech_context *context, const json_t *window)
{
  static int32_t ids[3 * MOST_IDS];
  int32_t n;
  assert_int_equal(tsr_speech_window_input(context, ids, &n), TSR_OK);
  expect_same(ids, n, json_object_get(window, "decoder_input_ids"), "decoder_input_ids");
}

/* The prefix ends the input of the first window, which a prompt may begin. */
static void read_context(const json_t *golden, const json_t *recorded, tsr_speech_context *context)
{
  static int32_t first[MOST_IDS];
  int32_t n;
  const json_t *window = json_array_get(json_object_get(recorded, "windows"), 0);
  read_ids(json_object_get(window, "decoder_input_ids"), first, &n);
  int32_t begin = 0;
  while (begin < n && first[begin] != vocabulary_id(golden, "startoftranscript")) {
    begin++;
  }
  *context = (tsr_speech_context){
      .prompt = first,
      .n_prompt = begin,
      .prefix = first + begin,
      .n_prefix = n - begin,
      .start_of_prev = vocabulary_id(golden, "startofprev"),
      .has_previous = call_has(recorded, "condition_on_prev_tokens=True"),
      .prompt_stays = call_has(recorded, "all-segments"),
      .most_of_previous = model_number(golden, "max_target_positions") / 2 - 1,
  };
}

static int32_t replayed;

static void replay_long_form(const json_t *golden, const json_t *recorded, recorded_sound sound)
{
  static transcript t;
  t.n_segments = 0;
  t.n_ids = 0;
  const int32_t timestamp_begin = vocabulary_id(golden, "timestamp_begin");
  tsr_speech_context context;
  read_context(golden, recorded, &context);
  int64_t seek = 0;
  size_t at;
  json_t *window;
  json_array_foreach(json_object_get(recorded, "windows"), at, window)
  {
    assert_int_equal(json_integer_value(json_object_get(window, "seek")), seek);
    assert_true(seek < sound.frames);
    if (context.has_previous) {
      keep_for_next(&t, timestamp_begin);
    }
    context.previous = t.ids;
    context.n_previous = t.n_ids;
    expect_input(&context, window);
    const int64_t left = sound.frames - seek;
    const int32_t frames = left < sound.window ? (int32_t)left : sound.window;
    int64_t advance = frames;
    if (!json_is_true(json_object_get(window, "skipped"))) {
      add_window(&t, window, timestamp_begin, seek, frames, &advance);
    }
    seek += advance;
    replayed++;
  }
  assert_true(seek >= sound.frames);
  expect_transcript(&t, recorded);
}

static void replay(json_t *golden)
{
  size_t at, k;
  json_t *recorded, *sequence;
  json_array_foreach(json_object_get(golden, "long_form"), at, recorded)
  {
    const char *input = json_string_value(json_object_get(recorded, "input"));
    const char *comma = strrchr(input, ',');
    assert_non_null(comma); /* "..., 3100 frames" */
    const recorded_sound sound = {2 * model_number(golden, "max_source_positions"), strtol(comma + 1, NULL, 10)};
    replay_long_form(golden, recorded, sound);
  }
  static int32_t ids[MOST_IDS], plain[MOST_IDS];
  const int32_t eos = vocabulary_id(golden, "endoftext");
  json_array_foreach(json_object_get(golden, "generate"), at, recorded)
  {
    json_array_foreach(json_object_get(recorded, "sequences"), k, sequence)
    {
      int32_t n, n_plain;
      read_ids(sequence, ids, &n);
      read_ids(json_array_get(json_object_get(recorded, "sequences_plain"), k), plain, &n_plain);
      const int32_t kept = tsr_speech_plain_length(ids, n, eos, vocabulary_id(golden, "timestamp_begin"));
      assert_true(kept <= n_plain);
      assert_memory_equal(ids, plain, (size_t)kept * sizeof *ids);
      for (int32_t i = kept; i < n_plain; i++) {
        assert_int_equal(plain[i], eos);
      }
      replayed++;
    }
  }
}

static void test_recorded(void **state)
{
  (void)state;
  if (for_each_recording(replay) == 0) {
    skip();
  }
  assert_true(replayed > 0);
}

/* ---- by hand: text below 100, timestamps from there -------------------------------------------------------------- */

static void expect_segments(const int32_t *tokens, int32_t n_tokens, const char *expected)
{
  tsr_speech_segment segments[16];
  int32_t n;
  int64_t advance;
  char found[512] = "";
  assert_int_equal(tsr_speech_segments(tokens, n_tokens, 100, 1000, 300, segments, &n, &advance), TSR_OK);
  for (int32_t i = 0; i < n; i++) {
    const tsr_speech_segment *s = &segments[i];
    sprintf(found + strlen(found), "%d+%d %.2f-%.2f, ", (int)s->first, (int)s->n_tokens, s->start, s->end);
  }
  sprintf(found + strlen(found), "%d", (int)advance);
  assert_string_equal(found, expected);
}

#define EXPECT(expected, ...)                                                                                          \
  do {                                                                                                                 \
    const int32_t tokens[] = {__VA_ARGS__};                                                                            \
    expect_segments(tokens, (int32_t)(sizeof tokens / sizeof tokens[0]), expected);                                    \
  } while (0)

static void test_cases(void **state)
{
  (void)state;
  expect_segments(NULL, 0, "0+0 10.00-13.00, 300");
  EXPECT("0+1 10.00-13.00, 300", 7);
  EXPECT("0+1 10.00-13.00, 300", 100); /* <|0.00|> alone tells nothing */
  EXPECT("0+1 10.00-10.10, 300", 105);
  EXPECT("0+2 10.00-10.10, 300", 105, 7);
  EXPECT("0+3 10.00-10.20, 300", 105, 7, 110);
  EXPECT("0+4 10.10-10.20, 20", 105, 7, 110, 110);
  EXPECT("0+4 10.10-10.20, 20", 105, 7, 110, 112, 7, 7);
  EXPECT("0+3 10.10-10.20, 3+3 10.22-10.40, 300", 105, 7, 110, 111, 7, 120);
  EXPECT("0+3 10.10-10.20, 3+4 10.22-10.40, 40", 105, 7, 110, 111, 7, 120, 120);
  EXPECT("0+3 10.10-10.20, 3+1 10.22-10.22, 4+3 10.24-10.40, 300", 105, 7, 110, 111, 112, 7, 120);
  EXPECT("0+3 10.00-10.20, 3+3 10.20-10.40, 300", 6, 7, 110, 110, 7, 120); /* begins with text */
  EXPECT("0+2 10.00-10.00, 300", 100, 100);                                /* would come again and again */
}

static void test_kept(void **state)
{
  (void)state;
  const int32_t tokens[] = {105, 7, 110, 110};
  assert_int_equal(tsr_speech_segment_kept(tokens, 4, 100), 3);
  assert_int_equal(tsr_speech_segment_kept(tokens, 3, 100), 3);
  assert_int_equal(tsr_speech_segment_kept(tokens + 2, 2, 100), 2);
  assert_int_equal(tsr_speech_segment_kept(tokens + 1, 3, 100), 2);
  assert_int_equal(tsr_speech_segment_kept(NULL, 0, 100), 0);
}

static void test_inputs(void **state)
{
  (void)state;
  const int32_t prompt[] = {50, 1, 2}, previous[] = {3, 4, 5}, prefix[] = {60, 61};
  tsr_speech_context context = {
      .prompt = prompt, .previous = previous, .prefix = prefix, .n_prompt = 3, .n_prefix = 2, .start_of_prev = 50};
  int32_t ids[16], n;
  static const struct {
    int32_t n_prompt, n_previous, has_previous, stays, most;
    const char *expected;
  } cases[] = {
      {0, 3, 0, 0, 9, "60 61"},        {3, 3, 0, 1, 9, "50 1 2 60 61"}, {0, 3, 1, 0, 9, "50 3 4 5 60 61"},
      {0, 3, 1, 1, 2, "50 4 5 60 61"}, {3, 3, 1, 0, 2, "50 4 5 60 61"}, {3, 3, 1, 1, 2, "50 1 2 4 5 60 61"},
      {3, 0, 1, 1, 2, "50 1 2 60 61"}, {3, 0, 1, 0, 2, "50 1 2 60 61"}, {0, 0, 1, 0, 2, "60 61"},
      {0, 3, 1, 0, 0, "50 60 61"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    context.n_prompt = cases[i].n_prompt;
    context.n_previous = cases[i].n_previous;
    context.has_previous = cases[i].has_previous;
    context.prompt_stays = cases[i].stays;
    context.most_of_previous = cases[i].most;
    assert_int_equal(tsr_speech_window_input(&context, ids, &n), TSR_OK);
    char found[128] = "";
    for (int32_t k = 0; k < n; k++) {
      sprintf(found + strlen(found), "%s%d", k ? " " : "", (int)ids[k]);
    }
    assert_string_equal(found, cases[i].expected);
  }
  context.n_prefix = -1;
  assert_int_equal(tsr_speech_window_input(&context, ids, &n), TSR_ERR_ARGUMENT);
}

static void test_refused(void **state)
{
  (void)state;
  const int32_t token = 7;
  tsr_speech_segment segments[2];
  int32_t n;
  int64_t advance;
  assert_int_equal(tsr_speech_segments(&token, 1, 100, 0, 0, segments, &n, &advance), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_segments(&token, 1, 100, -1, 1, segments, &n, &advance), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_segments(NULL, 1, 100, 0, 1, segments, &n, &advance), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_segments(&token, 1, 100, 0, 1, NULL, &n, &advance), TSR_ERR_ARGUMENT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recorded), cmocka_unit_test(test_cases),   cmocka_unit_test(test_kept),
      cmocka_unit_test(test_inputs),   cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
