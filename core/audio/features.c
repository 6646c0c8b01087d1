/* SPDX-License-Identifier: Apache-2.0
 *
 * Features of a sound, window by window. Of the samples those are held that a window from the last one on may need:
 *
 *     0 ........ begin ........ begin + n ........ the sound's end
 *     dropped    held           not read yet
 *
 * A sound that can be restarted is read once for the maximum of all frames, when that is first asked for. Of another,
 * each frame is counted before its samples are dropped.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/audio/mel.h"
#include "core/base/status.h"

enum { BLOCK = 1 << 16 /* samples */, COUNTED_AT_ONCE = 400 /* frames */ };

struct tsr_features {
  tsr_audio *audio;
  const tsr_mel *mel;
  float *samples; /* [room] */
  int64_t room, begin, n;
  int64_t length;  /* of the sound; -1: its end was not reached yet */
  int64_t window;  /* where the last one began, in frames */
  int64_t counted; /* frames 0 .. counted-1 are in `largest` */
  float largest;   /* logarithm */
  int32_t can_restart;
  tsr_status broken; /* why a sound that cannot be restarted ends where it does, and the message; else TSR_OK */
  char message[1024];
};

static int64_t least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* The first sample that frame t needs. */
static int64_t need_of(int64_t frame)
{
  const int64_t need = frame * TSR_MEL_HOP - TSR_MEL_REACH;
  return need > 0 ? need : 0;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tsr_status restart(tsr_features *f)
{
  TSR_TRY(tsr_audio_restart(f->audio));
  f->begin = f->n = 0;
  return TSR_OK;
}

tsr_status tsr_features_open(tsr_audio *audio, const tsr_mel *mel, tsr_features **features)
{
  if (!audio || !mel || !features) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_features_open: audio, mel and features must not be NULL");
  }
  *features = NULL;
  tsr_audio_info info;
  tsr_audio_describe(audio, &info);
  tsr_features *f = calloc(1, sizeof *f);
  if (!f) {
    return tsr_fail_memory(sizeof *f);
  }
  *f = (tsr_features){.audio = audio, .mel = mel, .length = -1, .largest = -INFINITY, .can_restart = info.can_restart};
  *features = f;
  return TSR_OK;
}

void tsr_features_close(tsr_features *features)
{
  if (features) {
    free(features->samples);
    free(features);
  }
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static void drop(tsr_features *f, int64_t until)
{
  const int64_t n = least(until - f->begin, f->n);
  if (n > 0) {
    memmove(f->samples, f->samples + n, (size_t)(f->n - n) * sizeof *f->samples);
    f->begin += n;
    f->n -= n;
  }
}

static tsr_status make_room(tsr_features *f, int64_t n)
{
  if (n <= f->room) {
    return TSR_OK;
  }
  float *samples = realloc(f->samples, (size_t)n * sizeof *samples);
  if (!samples) {
    return tsr_fail_memory((size_t)n * sizeof *samples);
  }
  f->samples = samples;
  f->room = n;
  return TSR_OK;
}

/* Reads until sample `until`, or to the end. */
static tsr_status fill(tsr_features *f, int64_t until)
{
  const int64_t wanted = until - f->begin - f->n;
  if (wanted <= 0 || f->begin + f->n == f->length) {
    return TSR_OK;
  }
  TSR_TRY(make_room(f, f->n + wanted));
  int64_t got = 0;
  const tsr_status status = tsr_audio_read(f->audio, f->samples + f->n, wanted, &got);
  f->n += got;
  if (status != TSR_OK && (f->can_restart || status == TSR_ERR_OUT_OF_MEMORY)) {
    return status;
  }
  if (status != TSR_OK) {
    f->broken = status;
    snprintf(f->message, sizeof f->message, "%s", tsr_error_message());
  }
  if (got < wanted) {
    f->length = f->begin + f->n;
  }
  return TSR_OK;
}

static tsr_sound_part held(const tsr_features *f)
{
  return (tsr_sound_part){
      .samples = f->samples, .begin = f->begin, .n = f->n, .length = f->length < 0 ? TSR_SOUND_ENDLESS : f->length};
}

/* Of frames first .. first+n-1, how many there are. Their samples were read. */
static int64_t frames_there(const tsr_features *f, int64_t first, int64_t n)
{
  const int64_t left = f->length < 0 ? n : f->length / TSR_MEL_HOP - first;
  return left < 0 ? 0 : least(left, n);
}

/* Reads what frames first .. first+n-1 need, to the end of the sound if that is sooner. */
static tsr_status fill_frames(tsr_features *f, int64_t first, int64_t n)
{
  return fill(f, (first + n) * TSR_MEL_HOP + TSR_MEL_REACH);
}

/* Counts the frames before `until`, and drops the samples before `keep` that no frame needs which is not counted. */
static tsr_status count(tsr_features *f, int64_t until, int64_t keep)
{
  int64_t n = 1;
  while (f->counted < until && n > 0) {
    const int64_t wanted = least(until - f->counted, COUNTED_AT_ONCE);
    drop(f, least(need_of(f->counted), keep));
    TSR_TRY(fill_frames(f, f->counted, wanted));
    n = frames_there(f, f->counted, wanted);
    const tsr_sound_part part = held(f);
    f->largest = tsr_mel_largest(f->mel, &part, f->counted, n, f->largest);
    f->counted += n;
  }
  return TSR_OK;
}

/* Drops what lies before the frame, and reads up to what it needs. */
static tsr_status advance(tsr_features *f, int64_t frame)
{
  const int64_t need = need_of(frame);
  if (!f->can_restart) {
    TSR_TRY(count(f, frame, need));
  }
  while (f->begin + f->n < need && f->begin + f->n != f->length) {
    drop(f, f->begin + f->n);
    TSR_TRY(fill(f, least(need, f->begin + BLOCK)));
  }
  drop(f, need);
  return TSR_OK;
}

/* Begins a window, and reads its samples. */
static tsr_status go_to(tsr_features *f, int64_t first, int32_t n)
{
  if (need_of(first) < f->begin) {
    if (!f->can_restart) {
      return tsr_fail(TSR_ERR_ARGUMENT,
                      "frame %lld is gone: the sound comes through a pipe, and was read from frame "
                      "%lld on",
                      (long long)first, (long long)f->window);
    }
    TSR_TRY(restart(f));
  }
  f->window = first;
  TSR_TRY(advance(f, first));
  return fill_frames(f, first, n);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

/* The window's samples as a sound of their own. */
static tsr_status read_alone(tsr_features *f, int64_t first, int32_t n, float *values)
{
  const int64_t skipped = least(first * TSR_MEL_HOP - f->begin, f->n);
  return tsr_mel_features(f->mel, f->n > skipped ? f->samples + skipped : NULL, f->n - skipped,
                          (int64_t)n * TSR_MEL_HOP, values);
}

static void read_whole(tsr_features *f, int64_t first, int32_t n, int32_t got, float *values)
{
  const tsr_sound_part part = held(f);
  (void)tsr_mel_logarithms(f->mel, &part, first, got, -INFINITY, values, n);
  for (int32_t m = 0; m < tsr_mel_count(f->mel); m++) {
    float *row = values + (int64_t)m * n;
    tsr_mel_scale(row, got, f->largest);
    for (int32_t i = got; i < n; i++) {
      row[i] = 0;
    }
  }
}

/* The maximum that a window of the whole sound needs. */
static tsr_status find_maximum(tsr_features *f, int64_t first, int32_t n)
{
  if (f->can_restart && (f->length < 0 || f->counted < f->length / TSR_MEL_HOP)) {
    if (need_of(f->counted) < f->begin) {
      TSR_TRY(restart(f));
    }
    TSR_TRY(count(f, INT64_MAX / TSR_MEL_HOP / 2, INT64_MAX));
    return go_to(f, first, n);
  }
  return f->can_restart ? TSR_OK : count(f, first + n, need_of(first));
}

tsr_status tsr_features_read(tsr_features *features, int64_t first, int32_t n, int32_t kind, float *values,
                             int32_t *got)
{
  if (!features || !values || !got || first < 0 || first > TSR_SOUND_ENDLESS / TSR_MEL_HOP || n < 1 ||
      n > TSR_FEATURES_MOST || (kind != TSR_FEATURES_ALONE && kind != TSR_FEATURES_WHOLE)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_features_read: frames from %lld on, %d of them, of kind %d: expected 1 to %d from 0 on, "
                    "TSR_FEATURES_ALONE or TSR_FEATURES_WHOLE, and no NULL",
                    (long long)first, (int)n, (int)kind, TSR_FEATURES_MOST);
  }
  *got = 0;
  TSR_TRY(go_to(features, first, n));
  if (kind == TSR_FEATURES_WHOLE) {
    TSR_TRY(find_maximum(features, first, n));
  }
  *got = (int32_t)frames_there(features, first, n);
  if (*got == 0 && features->broken != TSR_OK) {
    return tsr_fail(features->broken, "%s", features->message);
  }
  if (kind == TSR_FEATURES_ALONE) {
    return read_alone(features, first, n, values);
  }
  read_whole(features, first, n, *got, values);
  return TSR_OK;
}

tsr_status tsr_features_has(tsr_features *features, int64_t frame, int32_t *has)
{
  if (!features || !has || frame < 0 || frame - features->window > TSR_FEATURES_MOST) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_features_has: frame %lld; expected at most %d behind the beginning of the last window, and no "
                    "NULL",
                    (long long)frame, TSR_FEATURES_MOST);
  }
  TSR_TRY(fill_frames(features, frame, 1));
  *has = frames_there(features, frame, 1) > 0;
  return TSR_OK;
}
