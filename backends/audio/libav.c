/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes by FFmpeg's libraries: the best stream of sound that a file has, of videos too. libswresample makes floats of
 * the samples; where rate or channels change in the middle of a stream, it keeps those of the beginning.
 *
 * A file may name others, which then would be opened: that is refused.
 */
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avstring.h>
#include <libavutil/channel_layout.h>
#include <libswresample/swresample.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/audio_plugin.h"

enum { IO_BYTES = 1 << 16 };

/* Demuxers of files; others are of devices, pictures, texts and lists of files. */
static const char known_formats[] =
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,dtshd,eac3,flac,flv,iff,matroska,mlp,mov,mp3,mpc,mpc8,"
    "mpeg,mpegts,ogg,oma,rm,shn,tak,truehd,tta,voc,w64,wav,wtv,wv,xwma";

typedef struct libav_sound {
  const tsr_audio_bytes *bytes;
  int64_t at; /* of the next byte */
  AVIOContext *io;
  AVFormatContext *container;
  AVCodecContext *decoder;
  SwrContext *converter;
  AVPacket *packet;
  AVFrame *frame;
  int stream;
  int rate; /* of what is given, likewise the next */
  AVChannelLayout layout;
  int frame_rate, frame_format; /* of what the converter takes, likewise the next */
  AVChannelLayout frame_layout;
  float *held; /* [begin, end) samples of all channels that were decoded and not given yet */
  int64_t room, begin, end;
  int64_t expected; /* samples that the header promises, of a file with one stream; -1: it does not tell */
  int64_t taken;
  int has_decoded; /* a frame */
  int is_ended;
} libav_sound;

static int32_t fail(char *message, int32_t status, const char *what, int code)
{
  char why[AV_ERROR_MAX_STRING_SIZE] = "";
  av_strerror(code, why, sizeof why);
  snprintf(message, TSR_AUDIO_MESSAGE_ROOM, "%s: %s", what, why);
  return code == AVERROR(ENOMEM) ? TSR_ERR_OUT_OF_MEMORY : status;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static int read_bytes(void *context, uint8_t *target, int size)
{
  libav_sound *sound = context;
  int64_t got = 0;
  if (sound->bytes->read(sound->bytes->context, target, size, &got) != TSR_OK) {
    return AVERROR(EIO);
  }
  sound->at += got;
  return got > 0 ? (int)got : AVERROR_EOF;
}

static int64_t seek_to(void *context, int64_t offset, int whence)
{
  libav_sound *sound = context;
  if (whence & AVSEEK_SIZE) {
    return sound->bytes->size;
  }
  const int from = whence & ~AVSEEK_FORCE;
  const int64_t at = offset + (from == SEEK_SET ? 0 : from == SEEK_CUR ? sound->at : sound->bytes->size);
  if (sound->bytes->seek(sound->bytes->context, at) != TSR_OK) {
    return AVERROR(EINVAL);
  }
  sound->at = at;
  return at;
}

/* AVFormatContext.io_open */
static int refuse(AVFormatContext *container, AVIOContext **io, const char *url, int flags, AVDictionary **options)
{
  (void)container;
  (void)io;
  (void)url;
  (void)flags;
  (void)options;
  return AVERROR(EACCES);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void libav_close(void *context)
{
  libav_sound *sound = context;
  swr_free(&sound->converter);
  avcodec_free_context(&sound->decoder);
  avformat_close_input(&sound->container);
  if (sound->io) {
    av_freep(&sound->io->buffer);
    avio_context_free(&sound->io);
  }
  av_packet_free(&sound->packet);
  av_frame_free(&sound->frame);
  av_channel_layout_uninit(&sound->layout);
  av_channel_layout_uninit(&sound->frame_layout);
  av_freep(&sound->held);
  free(sound);
}

static int32_t open_io(libav_sound *sound, char *message)
{
  unsigned char *buffer = av_malloc(IO_BYTES);
  sound->io = buffer ? avio_alloc_context(buffer, IO_BYTES, 0, sound, read_bytes, NULL, seek_to) : NULL;
  if (!sound->io) {
    av_free(buffer);
    return fail(message, TSR_ERR_OUT_OF_MEMORY, "a file cannot be read", AVERROR(ENOMEM));
  }
  return TSR_OK;
}

static int32_t open_container(libav_sound *sound, char *message)
{
  const AVInputFormat *format = NULL;
  const int score = av_probe_input_buffer2(sound->io, &format, "", NULL, 0, 0);
  if (score < AVPROBE_SCORE_RETRY || !format || av_match_list(format->name, known_formats, ',') <= 0) {
    snprintf(message, TSR_AUDIO_MESSAGE_ROOM, "no format of sound or video that it knows");
    return TSR_ERR_UNSUPPORTED;
  }
  sound->container = avformat_alloc_context();
  if (!sound->container) {
    return fail(message, TSR_ERR_OUT_OF_MEMORY, format->name, AVERROR(ENOMEM));
  }
  sound->container->pb = sound->io;
  sound->container->io_open = refuse;
  int code = avformat_open_input(&sound->container, NULL, format, NULL);
  if (code >= 0) {
    code = avformat_find_stream_info(sound->container, NULL);
  }
  return code >= 0 ? TSR_OK : fail(message, TSR_ERR_FORMAT, format->long_name, code);
}

static int32_t open_decoder(libav_sound *sound, char *message)
{
  const AVCodec *codec = NULL;
  sound->stream = av_find_best_stream(sound->container, AVMEDIA_TYPE_AUDIO, -1, -1, &codec, 0);
  if (sound->stream < 0) {
    snprintf(message, TSR_AUDIO_MESSAGE_ROOM, "%s: %s", sound->container->iformat->long_name,
             sound->stream == AVERROR_DECODER_NOT_FOUND ? "there is no decoder for its sound" : "it has no sound");
    return sound->stream == AVERROR_DECODER_NOT_FOUND ? TSR_ERR_UNSUPPORTED : TSR_ERR_FORMAT;
  }
  for (unsigned i = 0; i < sound->container->nb_streams; i++) {
    if ((int)i != sound->stream) {
      sound->container->streams[i]->discard = AVDISCARD_ALL;
    }
  }
  sound->decoder = avcodec_alloc_context3(codec);
  int code = sound->decoder
                 ? avcodec_parameters_to_context(sound->decoder, sound->container->streams[sound->stream]->codecpar)
                 : AVERROR(ENOMEM);
  if (code >= 0) {
    sound->decoder->thread_count = 1;
    sound->decoder->pkt_timebase = sound->container->streams[sound->stream]->time_base;
    code = avcodec_open2(sound->decoder, codec, NULL);
  }
  return code >= 0 ? TSR_OK : fail(message, TSR_ERR_FORMAT, codec->long_name, code);
}

/* -1: unknown. Containers count it in units of their own: it is rounded. */
static int64_t length_of(const libav_sound *sound)
{
  const AVStream *stream = sound->container->streams[sound->stream];
  const AVRational sample = {1, sound->rate};
  if (stream->duration != AV_NOPTS_VALUE && stream->duration >= 0) {
    return av_rescale_q(stream->duration, stream->time_base, sample);
  }
  const int64_t duration = sound->container->duration;
  return duration == AV_NOPTS_VALUE || duration < 0 ? -1 : av_rescale_q(duration, AV_TIME_BASE_Q, sample);
}

/* Whether the length is of the header, and of this sound. Others are estimates of its bytes, or of a picture. */
static int tells_length(const libav_sound *sound)
{
  return sound->container->nb_streams == 1 &&
         sound->container->duration_estimation_method == AVFMT_DURATION_FROM_STREAM;
}

static int32_t describe(libav_sound *sound, tsr_audio_facts *facts, char *message)
{
  const int code = av_channel_layout_copy(&sound->layout, &sound->decoder->ch_layout);
  if (code < 0 || sound->layout.nb_channels < 1 || sound->decoder->sample_rate < 1) {
    return fail(message, TSR_ERR_FORMAT, "the sound has no channels, or no rate",
                code < 0 ? code : AVERROR_INVALIDDATA);
  }
  sound->rate = sound->decoder->sample_rate;
  facts->rate = sound->rate;
  facts->channels = sound->layout.nb_channels;
  facts->length = length_of(sound);
  sound->expected = tells_length(sound) ? facts->length : -1;
  snprintf(facts->format, sizeof facts->format, "%s, %s", sound->container->iformat->long_name,
           avcodec_get_name(sound->decoder->codec_id));
  return TSR_OK;
}

static int32_t libav_open(const tsr_audio_bytes *bytes, void **context, tsr_audio_facts *facts, char *message)
{
  libav_sound *sound = calloc(1, sizeof *sound);
  if (!sound || !(sound->packet = av_packet_alloc()) || !(sound->frame = av_frame_alloc())) {
    if (sound) {
      libav_close(sound);
    }
    return fail(message, TSR_ERR_OUT_OF_MEMORY, "a sound cannot be opened", AVERROR(ENOMEM));
  }
  sound->bytes = bytes;
  int32_t status = open_io(sound, message);
  if (status == TSR_OK) {
    status = open_container(sound, message);
  }
  if (status == TSR_OK) {
    status = open_decoder(sound, message);
  }
  if (status == TSR_OK) {
    status = describe(sound, facts, message);
  }
  if (status != TSR_OK) {
    libav_close(sound);
    return status;
  }
  *context = sound;
  return TSR_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A converter from what the frame has. */
static int begin_converter(libav_sound *sound)
{
  const AVFrame *frame = sound->frame;
  swr_free(&sound->converter);
  sound->frame_rate = frame->sample_rate;
  sound->frame_format = frame->format;
  int code = av_channel_layout_copy(&sound->frame_layout, &frame->ch_layout);
  if (code >= 0) {
    code = swr_alloc_set_opts2(&sound->converter, &sound->layout, AV_SAMPLE_FMT_FLT, sound->rate, &sound->frame_layout,
                               sound->frame_format, sound->frame_rate, 0, NULL);
  }
  return code < 0 ? code : swr_init(sound->converter);
}

/* Converts the frame, or without one what the converter still has. */
static int convert(libav_sound *sound, const AVFrame *frame)
{
  const int n = frame ? frame->nb_samples : 0;
  const int64_t room = swr_get_out_samples(sound->converter, n);
  if (room > sound->room) {
    av_freep(&sound->held);
    sound->held = av_malloc_array((size_t)room * (size_t)sound->layout.nb_channels, sizeof *sound->held);
    sound->room = sound->held ? room : 0;
    if (!sound->held) {
      return AVERROR(ENOMEM);
    }
  }
  uint8_t *target = (uint8_t *)sound->held;
  const int made = room <= 0 ? 0
                             : swr_convert(sound->converter, &target, (int)sound->room,
                                           frame ? (const uint8_t **)frame->extended_data : NULL, n);
  sound->begin = 0;
  sound->end = made > 0 ? made : 0;
  return made < 0 ? made : 0;
}

static int take_frame(libav_sound *sound)
{
  const AVFrame *frame = sound->frame;
  sound->has_decoded = 1;
  int code = 0;
  if (!sound->converter || frame->sample_rate != sound->frame_rate || frame->format != sound->frame_format ||
      av_channel_layout_compare(&frame->ch_layout, &sound->frame_layout) != 0) {
    code = begin_converter(sound);
  }
  return code < 0 ? code : convert(sound, frame);
}

/* Hands the decoder the next packet, or the end. */
static int send_packet(libav_sound *sound)
{
  int code = av_read_frame(sound->container, sound->packet);
  if (code == AVERROR_EOF) {
    return avcodec_send_packet(sound->decoder, NULL);
  }
  if (code < 0) {
    return code;
  }
  if (sound->packet->stream_index == sound->stream) {
    const int is_cut = (sound->packet->flags & AV_PKT_FLAG_CORRUPT) != 0;
    code = is_cut ? AVERROR_INVALIDDATA : avcodec_send_packet(sound->decoder, sound->packet);
    if (code == AVERROR_INVALIDDATA && !is_cut && !sound->has_decoded) {
      code = 0; /* what lies before the first frame of a stream that was cut out of another */
    }
  }
  av_packet_unref(sound->packet);
  return code;
}

/* Decodes until something is held, or the stream ends. */
static int decode(libav_sound *sound)
{
  int code = 0;
  while (code >= 0 && sound->begin == sound->end && !sound->is_ended) {
    code = avcodec_receive_frame(sound->decoder, sound->frame);
    if (code >= 0) {
      code = take_frame(sound);
      av_frame_unref(sound->frame);
    } else if (code == AVERROR(EAGAIN)) {
      code = send_packet(sound);
    } else if (code == AVERROR_EOF) {
      code = sound->converter ? convert(sound, NULL) : 0;
      sound->is_ended = sound->end == 0;
    }
  }
  return code;
}

/* A header rounds the length, and may count what an encoder adds: a second is forgiven. */
static int32_t check_end(const libav_sound *sound, char *message)
{
  if (sound->taken + sound->rate < sound->expected) {
    snprintf(message, TSR_AUDIO_MESSAGE_ROOM, "the file ends %lld samples before it should",
             (long long)(sound->expected - sound->taken));
    return TSR_ERR_FORMAT;
  }
  return TSR_OK;
}

static int32_t libav_read(void *context, float *samples, int64_t n, int64_t *got, char *message)
{
  libav_sound *sound = context;
  const int64_t channels = sound->layout.nb_channels;
  for (*got = 0; *got < n;) {
    const int code = decode(sound);
    if (code < 0) {
      return fail(message, TSR_ERR_FORMAT, "its sound cannot be decoded further", code);
    }
    const int64_t left = sound->end - sound->begin, taken = left < n - *got ? left : n - *got;
    if (taken == 0) {
      return check_end(sound, message);
    }
    memcpy(samples + *got * channels, sound->held + sound->begin * channels,
           (size_t)(taken * channels) * sizeof *samples);
    sound->begin += taken;
    *got += taken;
    sound->taken += taken;
  }
  return TSR_OK;
}

static const tsr_audio_plugin libav_plugin = {
    .struct_size = sizeof(tsr_audio_plugin),
    .abi_major = TSR_AUDIO_ABI_MAJOR,
    .build_flags = TSR_BUILD_FLAGS,
    .name = "libav",
    .description = "formats that FFmpeg's libraries read",
    .open = libav_open,
    .read = libav_read,
    .close = libav_close,
};

TSR_BACKEND_EXPORT const tsr_audio_plugin *tessera_audio_query(uint32_t host_abi_major);

const tsr_audio_plugin *tessera_audio_query(uint32_t host_abi_major)
{
  /* Errors are told by codes: nothing is to be printed, unless the program has chosen what is. */
  if (av_log_get_level() == AV_LOG_INFO) {
    av_log_set_level(AV_LOG_QUIET);
  }
  return host_abi_major == TSR_AUDIO_ABI_MAJOR ? &libav_plugin : NULL;
}
