/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of JSON configurations.
 */
#include "tests/fuzz/fuzz.h"

#include <float.h>
#include <string.h>

#include "core/checkpoint/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  tsr_config config;
  if (tsr_config_parse("fuzz", (const char *)data, size, &config) != TSR_OK) {
    REQUIRE(!config.root && tsr_error_message()[0]);
    return 0;
  }
  static const char *const keys[] = {"d_model", "scale", "flag", "name"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    int32_t number = 5;
    int32_t flag = 0;
    float real = 5;
    const char *text = "";
    tsr_config_int(&config, keys[i], 1, 1000, &number);
    REQUIRE(number >= 1 && number <= 1000);
    tsr_config_float(&config, keys[i], -DBL_MAX, DBL_MAX, &real);
    REQUIRE(real >= -FLT_MAX && real <= FLT_MAX);
    tsr_config_bool(&config, keys[i], &flag);
    REQUIRE(flag == 0 || flag == 1);
    tsr_config_text(&config, keys[i], &text);
    REQUIRE(strlen(text) <= size);
  }
  REQUIRE(tsr_config_status(&config) == TSR_OK || tsr_error_message()[0]);
  tsr_config_finish(&config);
  return 0;
}
