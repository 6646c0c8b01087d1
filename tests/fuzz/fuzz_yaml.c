/* SPDX-License-Identifier: Apache-2.0
 *
 * YAML: whatever is accepted can be written as JSON.
 */
#include "tests/fuzz/fuzz.h"

#include "core/checkpoint/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  json_t *root;
  if (tsr_yaml_parse("fuzz", data, size, &root) != TSR_OK) {
    REQUIRE(!root && tsr_error_message()[0]);
    return 0;
  }
  REQUIRE(json_is_object(root));
  char *text = json_dumps(root, 0);
  free(text);
  json_decref(root);
  return 0;
}
