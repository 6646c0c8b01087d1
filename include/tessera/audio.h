/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/audio.h: sound: files and streams, read as mono at 16 kHz, and the log-mel features that Whisper's encoders
 * take.
 *
 * WAV files (RIFF and RF64; whole numbers of 8, 16, 24 and 32 bits, floats of 32 and 64) and raw samples are read by
 * the library itself. All else takes plugins (tessera/audio_plugin.h), which are loaded when a file needs them:
 *
 *   sndfile   FLAC, Ogg Vorbis, Opus, MP3, AIFF, CAF, W64, AU and what else libsndfile reads
 *   libav     M4A, WebM, WMA, the sound of videos and what else libavformat reads
 *   soxr      resamples whatever has another rate than 16 kHz
 *
 * They are asked in this order. A plugin that is missing is an error that says where it comes from.
 *
 * A sound is read piece by piece, in memory that does not depend on its length. Of several channels it is the mean. Of
 * n samples at `rate` a second it has n * 16000 / rate, rounded. Whole numbers become -1 to 1; floats may lie outside.
 */
#ifndef TESSERA_AUDIO_H
#define TESSERA_AUDIO_H

#include <stddef.h>

#include "tessera/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TSR_AUDIO_RATE = 16000,     /* samples a second of what is read */
  TSR_MEL_HOP = 160,          /* samples from a frame to the next */
  TSR_MEL_MOST_MELS = 1024,   /* Whisper has 80 or 128 */
  TSR_FEATURES_MOST = 1 << 16 /* frames of one window; Whisper's have 3000, which is 30 s */
};

/* ------------------------------------------------------------------------------------------------------------------
 * Sounds
 */
/* Samples without a header, channel by channel in turn, little-endian: whole numbers of 16 bits, floats of 32. */
enum { TSR_AUDIO_S16 = 1, TSR_AUDIO_F32 = 2 };

typedef struct tsr_audio_options {
  uint32_t struct_size;
  int32_t raw;              /* TSR_AUDIO_S16, TSR_AUDIO_F32; 0: the content says what it is */
  int32_t rate;             /* of raw samples, a second, of each channel; 0: 16000 */
  int32_t channels;         /* of raw samples; 0: 1 */
  const char *plugins_path; /* folders of plugins, colon-separated; NULL: those of backends (tessera/runtime.h).
                               Borrowed as long as the sound is open */
} tsr_audio_options;
TSR_SIZED_PIN(tsr_audio_options, plugins_path, 16);

/* Bytes that a caller provides. Both functions return TSR_OK, or an error that they have told of by tsr_fail. */
typedef struct tsr_audio_source {
  /* Up to `size` bytes; *got is 0 at the end alone. */
  tsr_status (*read)(void *context, void *bytes, size_t size, size_t *got);
  /* The next byte that is read, 0 .. size. NULL: bytes come once, as from a pipe. */
  tsr_status (*seek)(void *context, int64_t offset);
  void *context;
  int64_t size; /* bytes in all; read only if there is `seek` */
} tsr_audio_source;

typedef struct tsr_audio tsr_audio;

/* Opens a file. path: "-" is standard input. What has no header needs options.raw; `options` may be NULL.
 *
 * A pipe is read as it comes if it is a WAV file or raw samples. The decoders of other formats move about in a file:
 * for them a pipe is copied to a temporary file first, to its end.
 *
 * One thread at a time. *audio is the caller's until tsr_audio_close. Errors, naming the file: TSR_ERR_IO;
 * TSR_ERR_FORMAT (a broken file); TSR_ERR_UNSUPPORTED (no plugin reads it; fewer than 1,000 or more than 4,000,000
 * samples a second); TSR_ERR_PLUGIN (a plugin that it needs is missing or cannot be used); TSR_ERR_ARGUMENT;
 * TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_audio_open(const char *path, const tsr_audio_options *options, tsr_audio **audio) TSR_MUST_CHECK;

/* The same for bytes in memory, which outlive the sound; messages call it `name`. */
TSR_API tsr_status tsr_audio_view(const char *name, const void *bytes, size_t size, const tsr_audio_options *options,
                                  tsr_audio **audio) TSR_MUST_CHECK;

/* The same for bytes that functions provide: *source is copied, its context outlives the sound. Errors: those of the
 * functions, too. */
TSR_API tsr_status tsr_audio_open_source(const char *name, const tsr_audio_source *source,
                                         const tsr_audio_options *options, tsr_audio **audio) TSR_MUST_CHECK;
TSR_API void tsr_audio_close(tsr_audio *audio); /* takes NULL */

typedef struct tsr_audio_info {
  const char *format;  /* for people: "WAV", "FLAC", "raw"; lives as long as the sound */
  int32_t rate;        /* samples a second, of each channel, in the file */
  int32_t channels;    /* in the file */
  int64_t length;      /* samples of each channel in the file, as its header says; -1: only its end tells. Of a
                        * compressed file it may be an estimate */
  int64_t samples;     /* the same at 16 kHz */
  int32_t can_restart; /* 1: tsr_audio_restart works; 0: a pipe that is read as it comes */
  int32_t reserved;    /* 0 */
} tsr_audio_info;
TSR_API void tsr_audio_describe_sized(const tsr_audio *audio, tsr_audio_info *info, size_t size);
static inline void tsr_audio_describe(const tsr_audio *audio, tsr_audio_info *info)
{
  tsr_audio_describe_sized(audio, info, sizeof *info);
}

/* The next n samples, mono at 16 kHz. *got < n at the end alone; later calls give 0. With an error, *got samples came
 * before it; then the sound can be restarted or closed. Errors: TSR_ERR_FORMAT (broken bytes; the file ends before its
 * header says; a sample that is NaN or infinite), TSR_ERR_IO, those of the source. */
TSR_API tsr_status tsr_audio_read(tsr_audio *audio, float *samples, int64_t n, int64_t *got) TSR_MUST_CHECK;

/* Goes back to the beginning. Errors: TSR_ERR_UNSUPPORTED (a pipe that is read as it comes), those of opening. */
TSR_API tsr_status tsr_audio_restart(tsr_audio *audio) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * Log-mel features
 *
 * As Whisper's models read them (Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision",
 * section 2.2; constants and order of steps as in its published feature extractor). Of a sound of n samples at 16 kHz,
 * frame t has those around sample 160 t, 400 of them under a periodic Hann window; at both ends the sound is reflected.
 * There are n / 160 frames, rounded down. With p the power of a frame's discrete Fourier transform, f the triangular
 * filters of Slaney's mel scale, each of area 1, and the maximum over all mels and frames:
 *
 *     l = log10(max(sum of f p over the bins, 1e-10))
 *     feature = (max(l, max l - 8) + 4) / 4
 *
 * Sums are made in double precision: results are those of the original within 1e-6.
 */
/* Window, filters and table of the transform; never changes: any number of threads. */
typedef struct tsr_mel tsr_mel;

/* *mel is the caller's until tsr_mel_destroy. n_mels: 1 .. TSR_MEL_MOST_MELS. Errors: TSR_ERR_ARGUMENT,
 * TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_mel_create(int32_t n_mels, tsr_mel **mel) TSR_MUST_CHECK;
TSR_API void tsr_mel_destroy(tsr_mel *mel); /* takes NULL */
TSR_API int32_t tsr_mel_count(const tsr_mel *mel);

/* features [n_mels, length / 160] of a sound of `length` samples: the n that are given, with zeros behind them, or the
 * first of them. A window of 30 s has length 480,000. Samples are finite. Any thread. Errors: TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_mel_features(const tsr_mel *mel, const float *samples, int64_t n, int64_t length,
                                    float *features) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * Features of a sound, window by window
 */
/* What a window is, and over what its maximum is taken.
 *
 *   TSR_FEATURES_ALONE   The window's samples are a sound of their own: reflected at its ends, with zeros where the
 *                        sound has ended. So the original treats a recording that fits one window.
 *   TSR_FEATURES_WHOLE   The frames are those of the whole sound, and the maximum is that of all its frames. So the
 *                        original treats a longer one. What lies behind the last frame is 0. The first such window
 *                        reads the sound to its end to find the maximum; one that cannot be restarted, a pipe, has the
 *                        maximum of the frames up to the window's end.
 */
enum { TSR_FEATURES_ALONE = 0, TSR_FEATURES_WHOLE = 1 };

/* A sound, read from its beginning, and of its samples those from the last window on. */
typedef struct tsr_features tsr_features;

/* The sound is at its beginning; until tsr_features_close nobody else reads or restarts it. Sound and mel outlive the
 * features. One thread at a time. *features is the caller's until tsr_features_close. Errors: TSR_ERR_ARGUMENT,
 * TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_features_open(tsr_audio *audio, const tsr_mel *mel, tsr_features **features) TSR_MUST_CHECK;
TSR_API void tsr_features_close(tsr_features *features); /* takes NULL */

/* values [n_mels, n]: frames first .. first+n-1, n at most TSR_FEATURES_MOST. *got: how many of them the sound has
 * (n / 160 of what is left, rounded down); fewer than n at its end alone. A sound that breaks off, and cannot be
 * restarted, ends there: the error comes behind its last frame. Windows may overlap and leave gaps. One that begins
 * before the last one reads the sound again from its beginning.
 * Errors: TSR_ERR_ARGUMENT (also if the window begins before the last one, and the sound cannot be restarted), those of
 * tsr_audio_read. */
TSR_API tsr_status tsr_features_read(tsr_features *features, int64_t first, int32_t n, int32_t kind, float *values,
                                     int32_t *got) TSR_MUST_CHECK;

/* Whether the sound has this frame: if it has frame 3000, it is longer than a window of 30 s. It is read so far, and no
 * sample that a window from the last one on needs is lost. Errors: TSR_ERR_ARGUMENT (more than
 * TSR_FEATURES_MOST frames behind the beginning of the last window), those of tsr_audio_read. */
TSR_API tsr_status tsr_features_has(tsr_features *features, int64_t frame, int32_t *has) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
