/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats that FFmpeg's libraries read and libsndfile does not: recorded speech, written in some of them.
 */
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "tessera/audio.h"
#include "tests/support/temporary.h"
#include "tests/unit/audio/files.h"
#include "tests/unit/audio/recorded.h"

#define FOX TESSERA_SOURCE_ROOT "/tests/data/goldens/speech/features/fox.wav"

static const tsr_audio_options plugins = {TSR_SIZED(tsr_audio_options), .plugins_path = TESSERA_AUDIO_PLUGINS};

/* ---- files ------------------------------------------------------------------------------------------------------- */

typedef struct writer {
  AVFormatContext *container;
  AVCodecContext *encoder;
  AVPacket *packet;
  AVFrame *frame;
} writer;

/* Hands the encoder a frame, or the end, and writes what comes of it. */
static void write_frame(writer *w, const AVFrame *frame)
{
  assert_int_equal(avcodec_send_frame(w->encoder, frame), 0);
  while (avcodec_receive_packet(w->encoder, w->packet) == 0) {
    w->packet->stream_index = 0;
    av_packet_rescale_ts(w->packet, w->encoder->time_base, w->container->streams[0]->time_base);
    assert_int_equal(av_interleaved_write_frame(w->container, w->packet), 0);
  }
}

/* One channel of one sample, as its format has it. */
static void set_sample(AVFrame *frame, int i, float sample)
{
  if (frame->format == AV_SAMPLE_FMT_FLTP) {
    ((float *)frame->data[0])[i] = sample;
  } else {
    ((int16_t *)frame->data[0])[i] = (int16_t)lrintf(sample * 32768);
  }
}

static void begin_writing(writer *w, const char *path, const char *container, enum AVCodecID id,
                          enum AVSampleFormat format)
{
  const AVCodec *codec = avcodec_find_encoder(id);
  assert_non_null(codec);
  assert_true(avformat_alloc_output_context2(&w->container, NULL, container, path) >= 0);
  w->encoder = avcodec_alloc_context3(codec);
  w->packet = av_packet_alloc();
  w->frame = av_frame_alloc();
  AVStream *stream = avformat_new_stream(w->container, NULL);
  assert_true(w->encoder && w->packet && w->frame && stream);
  w->encoder->sample_fmt = format;
  w->encoder->sample_rate = 16000;
  w->encoder->bit_rate = 64000;
  w->encoder->time_base = (AVRational){1, 16000};
  av_channel_layout_default(&w->encoder->ch_layout, 1);
  if (w->container->oformat->flags & AVFMT_GLOBALHEADER) {
    w->encoder->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  }
  assert_int_equal(avcodec_open2(w->encoder, codec, NULL), 0);
  assert_true(avcodec_parameters_from_context(stream->codecpar, w->encoder) >= 0);
  assert_true(avio_open(&w->container->pb, path, AVIO_FLAG_WRITE) >= 0);
  AVDictionary *options = NULL;
  assert_true(av_dict_set(&options, "movflags", "+faststart", 0) >= 0); /* the index before the samples */
  assert_true(avformat_write_header(w->container, &options) >= 0);
  av_dict_free(&options);
}

static void write_sound(const char *path, const char *container, enum AVCodecID id, enum AVSampleFormat format,
                        const float *samples, int64_t n)
{
  writer w = {0};
  begin_writing(&w, path, container, id, format);
  const int most = w.encoder->frame_size > 0 ? w.encoder->frame_size : 1000;
  for (int64_t at = 0; at < n; at += most) {
    AVFrame *frame = w.frame;
    frame->nb_samples = n - at < most ? (int)(n - at) : most;
    frame->format = format;
    frame->sample_rate = 16000;
    frame->pts = at;
    assert_int_equal(av_channel_layout_copy(&frame->ch_layout, &w.encoder->ch_layout), 0);
    assert_int_equal(av_frame_get_buffer(frame, 0), 0);
    for (int i = 0; i < frame->nb_samples; i++) {
      set_sample(frame, i, samples[at + i]);
    }
    write_frame(&w, frame);
    av_frame_unref(frame);
  }
  write_frame(&w, NULL);
  assert_int_equal(av_write_trailer(w.container), 0);
  avio_closep(&w.container->pb);
  av_frame_free(&w.frame);
  av_packet_free(&w.packet);
  avcodec_free_context(&w.encoder);
  avformat_free_context(w.container);
}

/* ---- formats ----------------------------------------------------------------------------------------------------- */

static const struct {
  const char *container;
  enum AVCodecID codec;
  enum AVSampleFormat format;
  const char *name;
  double difference; /* mean of the features; 0: the file has the same samples */
} kinds[] = {
    {"mov", AV_CODEC_ID_PCM_S16LE, AV_SAMPLE_FMT_S16, "QuickTime / MOV, pcm_s16le", 0},
    {"ipod", AV_CODEC_ID_ALAC, AV_SAMPLE_FMT_S16P, "QuickTime / MOV, alac", 0},
    {"matroska", AV_CODEC_ID_FLAC, AV_SAMPLE_FMT_S16, "Matroska / WebM, flac", 0},
    {"ipod", AV_CODEC_ID_AAC, AV_SAMPLE_FMT_FLTP, "QuickTime / MOV, aac", 0.1},
};

static void test_formats(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  int64_t n, found;
  float *expected = read_samples(FOX, &n);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const char *path = path_in(folder, "sound");
    write_sound(path, kinds[i].container, kinds[i].codec, kinds[i].format, expected, n);
    tsr_audio *audio;
    if (tsr_audio_open(path, &plugins, &audio) != TSR_OK) {
      fail_msg("%s", tsr_error_message());
    }
    tsr_audio_info info;
    tsr_audio_describe(audio, &info);
    assert_string_equal(info.format, kinds[i].name);
    assert_int_equal(info.rate, 16000);
    assert_int_equal(info.channels, 1);
    assert_true(llabs((long long)(info.length - n)) < 3000);
    double mean, largest;
    compare_recorded(audio, &mean, &largest);
    if (kinds[i].difference > 0 ? mean > kinds[i].difference : largest > 1e-5) {
      fail_msg("%s: features differ by %g, at most %g", info.format, mean, largest);
    }
    assert_int_equal(tsr_audio_restart(audio), TSR_OK);
    float *samples = read_sound(audio, 2 * n, &found);
    if (kinds[i].difference > 0) {
      assert_true(llabs((long long)(found - n)) < 3000);
    } else {
      assert_int_equal(found, n);
      assert_memory_equal(samples, expected, (size_t)n * sizeof *samples);
    }
    free(samples);
    tsr_audio_close(audio);
  }
  free(expected);
  remove_temporary_folder(folder);
}

/* ---- broken files ------------------------------------------------------------------------------------------------ */

static void test_broken(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  int64_t n, got;
  float *expected = read_samples(FOX, &n);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    const char *path = path_in(folder, "sound");
    write_sound(path, kinds[k].container, kinds[k].codec, kinds[k].format, expected, n);
    size_t size;
    unsigned char *bytes = read_bytes(path, &size);
    float *samples = calloc((size_t)(2 * n), sizeof *samples);
    assert_non_null(samples);
    tsr_audio *audio;
    /* Cut in its middle, and, where sound comes last, in its last packet. */
    const size_t cuts[] = {size / 2, strcmp(kinds[k].container, "matroska") == 0 ? size / 3 : size - 10};
    tsr_status status = TSR_OK;
    for (int i = 0; i < 2; i++) {
      status = tsr_audio_view("x", bytes, cuts[i], &plugins, &audio);
      if (status == TSR_OK) {
        status = tsr_audio_read(audio, samples, 2 * n, &got);
      }
      if (status != TSR_ERR_FORMAT || !strstr(tsr_error_message(), "x: libav: ")) {
        fail_msg("%s, cut to %zu of %zu bytes: %d, %s", kinds[k].name, cuts[i], size, (int)status, tsr_error_message());
      }
      tsr_audio_close(audio);
    }
    /* Whatever stands in it, there is an error or some samples. */
    for (size_t i = 0; i < size; i += 1 + size / 20) {
      const unsigned char saved = bytes[i];
      bytes[i] ^= 0x5A;
      status = tsr_audio_view("x", bytes, size, &plugins, &audio);
      if (status == TSR_OK) {
        status = tsr_audio_read(audio, samples, 2 * n, &got);
      }
      assert_true(status == TSR_OK || tsr_error_message()[0] != '\0');
      tsr_audio_close(audio);
      bytes[i] = saved;
    }
    free(bytes);
    free(samples);
  }
  free(expected);
  remove_temporary_folder(folder);
}

/* A list of files, which would open them: it is no sound, though libavformat reads it. */
static void test_other_files(void **state)
{
  (void)state;
  static const char *const lists[] = {
      "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n" FOX "\n#EXT-X-ENDLIST\n",
      "ffconcat version 1.0\nfile '" FOX "'\n",
  };
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    tsr_audio *audio;
    assert_int_equal(tsr_audio_view("list", lists[i], strlen(lists[i]), &plugins, &audio), TSR_ERR_UNSUPPORTED);
    assert_non_null(strstr(tsr_error_message(), "list: "));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formats),
      cmocka_unit_test(test_broken),
      cmocka_unit_test(test_other_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
