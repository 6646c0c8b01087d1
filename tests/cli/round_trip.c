/* SPDX-License-Identifier: Apache-2.0
 *
 * round_trip FOLDER SIDE: cuts each line of standard input into tokens of that side (source, target) and prints the
 * text that they make, as far as one vocabulary decodes both; then on stderr how many tokens there were, and how many
 * of them were <unk>.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/text.h"

static int64_t n_tokens;
static int64_t n_unknown;

static tsr_status pass(const tsr_tokenizer *tokenizer, int is_target, const tsr_tokenizer_info *info, const char *line,
                       size_t size)
{
  int32_t *ids = NULL;
  int32_t n_ids = 0;
  char *text = NULL;
  tsr_status status = is_target ? tsr_tokenizer_encode_target(tokenizer, line, size, &ids, &n_ids)
                                : tsr_tokenizer_encode(tokenizer, line, size, &ids, &n_ids);
  for (int32_t i = 0; i < n_ids; i++) {
    n_unknown += ids[i] == info->unk_id;
  }
  n_tokens += n_ids;
  if (status == TSR_OK) {
    status = tsr_tokenizer_decode(tokenizer, ids, n_ids, &text);
  }
  if (status == TSR_OK) {
    puts(text);
  }
  tsr_free(text);
  tsr_free(ids);
  return status;
}

int main(int argc, char **argv)
{
  if (argc != 3) {
    return 2;
  }
  tsr_tokenizer *tokenizer = NULL;
  tsr_tokenizer_info info;
  tsr_status status = tsr_tokenizer_open_folder(argv[1], &tokenizer);
  if (status == TSR_OK) {
    status = tsr_tokenizer_get_info(tokenizer, &info);
  }
  char *line = NULL;
  size_t room = 0;
  ssize_t size;
  while (status == TSR_OK && (size = getline(&line, &room, stdin)) > 0) {
    status = pass(tokenizer, strcmp(argv[2], "target") == 0, &info, line, (size_t)size - (line[size - 1] == '\n'));
  }
  if (status == TSR_OK) {
    fprintf(stderr, "%lld tokens, %lld unknown\n", (long long)n_tokens, (long long)n_unknown);
  } else {
    fprintf(stderr, "%s\n", tsr_error_message());
  }
  free(line);
  tsr_tokenizer_close(tokenizer);
  return status == TSR_OK ? 0 : 1;
}
