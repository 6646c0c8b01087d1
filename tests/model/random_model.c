/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/random_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

void random_model_write(const char *folder, const random_model *model)
{
  if (random_model_create(folder, model) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
}
