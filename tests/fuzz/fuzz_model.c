/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json as the families read it: whatever is accepted implies parameters whose sizes can be told.
 */
#include "tests/fuzz/fuzz.h"

#include <unistd.h>

#include "core/base/arena.h"
#include "core/transformer/model.h"
#include "tests/support/temporary.h"

static char *folder;

static void remove_folder(void)
{
  remove_temporary_folder(folder);
}

static void list_parameters(const tsr_transformer_config *config)
{
  tsr_arena arena = {0};
  tsr_parameter_list list = {0};
  REQUIRE(tsr_parameters_list(config, &arena, &list) == TSR_OK);
  for (int32_t i = 0; i < list.n; i++)
    REQUIRE(tsr_shape_elements(&list.items[i].shape) >= 0);
  free(list.items);
  tsr_arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  enum { MANY_LAYERS = 16 }; /* more cost time and show nothing new */
  if (!folder) {
    folder = make_temporary_folder();
    atexit(remove_folder);
  }
  write_file(path_in(folder, "config.json"), data, size);
  tsr_transformer_config config;
  const tsr_family *family;
  if (tsr_transformer_config_read(folder, &config, &family) != TSR_OK) {
    REQUIRE(tsr_error_message()[0]);
    return 0;
  }
  REQUIRE(config.d_model > 0 && config.encoder_heads > 0 && config.decoder_heads > 0);
  REQUIRE(config.encoder_head_size > 0 && config.decoder_head_size > 0);
  if (config.encoder_layers <= MANY_LAYERS && config.decoder_layers <= MANY_LAYERS)
    list_parameters(&config);
  return 0;
}
