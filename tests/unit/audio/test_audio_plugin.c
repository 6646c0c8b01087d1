/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins of sound that do something wrong: what goes wrong is told, and nothing else does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/platform/paths.h"
#include "tessera/audio.h"
#include "tests/support/temporary.h"
#include "tests/unit/audio/files.h"

/* Copies the plugin into a folder, under the name of one that the library asks for. */
static void put_plugin(const char *folder, const char *breaks, const char *name)
{
  char from[512], to[64];
  size_t size;
  snprintf(from, sizeof from, "%s/libbroken-audio-%s" TSR_LIBRARY_SUFFIX, TESSERA_BROKEN_PLUGINS, breaks);
  snprintf(to, sizeof to, "libtessera-audio-%s" TSR_LIBRARY_SUFFIX, name);
  unsigned char *bytes = read_bytes(from, &size);
  write_file(path_in(folder, to), bytes, size);
  free(bytes);
}

/* Opens what is no WAV file, and reads it. */
static tsr_status read_five(const char *folder, float *samples, int64_t *got)
{
  const tsr_audio_options options = {TSR_SIZED(tsr_audio_options), .plugins_path = folder};
  tsr_audio *audio;
  *got = 0;
  tsr_status status = tsr_audio_view("x", "any", 3, &options, &audio);
  if (status == TSR_OK) {
    tsr_audio_info info;
    tsr_audio_describe(audio, &info);
    assert_string_equal(info.format, "five");
    assert_int_equal(info.samples, 10);
    status = tsr_audio_read(audio, samples, 20, got);
  }
  tsr_audio_close(audio);
  return status;
}

static void refuse(const char *decoder, const char *resampler, tsr_status status, const char *words)
{
  char *folder = make_temporary_folder();
  float samples[20];
  int64_t got;
  put_plugin(folder, decoder, "sndfile");
  if (resampler) {
    put_plugin(folder, resampler, "soxr");
  }
  const tsr_status found = read_five(folder, samples, &got);
  if (found != status || strncmp(tsr_error_message(), "x: ", 3) != 0 || !strstr(tsr_error_message(), words)) {
    fail_msg("%s and %s: %d, '%s', expected %d, '%s'", decoder, resampler ? resampler : "none", (int)found,
             tsr_error_message(), (int)status, words);
  }
  remove_temporary_folder(folder);
}

static void test_working(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  float samples[20];
  int64_t got;
  put_plugin(folder, "nothing", "libav");
  put_plugin(folder, "unknown", "sndfile");
  put_plugin(folder, "nothing", "soxr");
  /* The second decoder is asked if the first does not know the format. */
  if (read_five(folder, samples, &got) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  assert_int_equal(got, 10);
  for (int32_t i = 0; i < 10; i++) {
    assert_true(samples[i] == (i < 8 ? 0.5f : 0.0f)); /* the mean; what the resampler does not give is silence */
  }
  remove_temporary_folder(folder);
}

static void test_broken(void **state)
{
  (void)state;
  refuse("nothing", NULL, TSR_ERR_PLUGIN, "there is no libtessera-audio-soxr");
  refuse("major", NULL, TSR_ERR_PLUGIN, "an audio plugin of version 2");
  refuse("size", NULL, TSR_ERR_PLUGIN, "with a table of 16 bytes");
  refuse("slot", NULL, TSR_ERR_PLUGIN, "leaves a field of its table empty");
  refuse("nothing", "slot", TSR_ERR_PLUGIN, "leaves a field of its table empty");
  refuse("refusal", NULL, TSR_ERR_PLUGIN, "refuses version 1");
  refuse("channels", "nothing", TSR_ERR_FORMAT, "0 channels of 8000 samples");
  refuse("greedy", "nothing", TSR_ERR_PLUGIN, "five gives 5462 samples where 5461 were asked for");
  refuse("nothing", "idle", TSR_ERR_PLUGIN, "five takes 0 of 5 samples and gives 0 of 20: a fault of the plugin");
  refuse("nothing", "overfull", TSR_ERR_PLUGIN, "and gives 21 of 20: a fault of the plugin");
  /* No plugin knows the format: one that is missing might. */
  refuse("unknown", NULL, TSR_ERR_PLUGIN, "there is no libtessera-audio-libav");
}

static void test_unknown(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  float samples[20];
  int64_t got;
  put_plugin(folder, "unknown", "sndfile");
  put_plugin(folder, "unknown", "libav");
  assert_int_equal(read_five(folder, samples, &got), TSR_ERR_UNSUPPORTED);
  assert_string_equal(tsr_error_message(), "x: five: never heard of it");
  write_text(path_in(folder, "libtessera-audio-sndfile" TSR_LIBRARY_SUFFIX), "no library");
  assert_int_equal(read_five(folder, samples, &got), TSR_ERR_PLUGIN);
  assert_non_null(strstr(tsr_error_message(), "cannot be loaded as a shared object"));
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_working),
      cmocka_unit_test(test_broken),
      cmocka_unit_test(test_unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
