/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/checkpoint/file.h"
#include "tests/support/temporary.h"

void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

void copy_file(const char *from, const char *to)
{
  tsr_file file;
  assert_int_equal(tsr_file_read(from, &file), TSR_OK);
  write_file(to, file.bytes, file.size);
  tsr_file_free(&file);
}

void expect_tokens(const tsr_tokenizer *tokenizer, int32_t side, const char *text, size_t size, const char *expected)
{
  int32_t *ids;
  int32_t n_ids;
  assert_int_equal(tsr_tokenizer_encode_side(tokenizer, side, text, size, &ids, &n_ids), TSR_OK);
  char found[4096] = "";
  for (int32_t i = 0; i < n_ids; i++) {
    strcat(found, i ? " " : "");
    strcat(found, tsr_tokenizer_token(tokenizer, side, ids[i]));
  }
  assert_string_equal(found, expected);
  tsr_free(ids);
}
