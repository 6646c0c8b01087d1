/* SPDX-License-Identifier: Apache-2.0
 *
 * BART: byte-level BPE by merges.txt, numbered by vocab.json.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/checkpoint/file.h"
#include "core/text/bpe.h"
#include "core/text/kinds.h"

static tsr_status open_merges(const tsr_tokenizer_files *files, tsr_segmenter *segmenter)
{
  char *path = tsr_path_join(files->folder, "merges.txt");
  if (!path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  tsr_file file = {0};
  tsr_bpe *bpe = NULL;
  tsr_status status = tsr_file_read(path, &file);
  if (status == TSR_OK) {
    status = tsr_bpe_parse(path, file.bytes, file.size, &bpe);
  }
  if (status == TSR_OK) {
    *segmenter = tsr_bpe_segmenter(bpe);
  }
  tsr_file_free(&file);
  free(path);
  return status;
}

tsr_status tsr_byte_level_open(tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  tsr_tokenizer_side *side = &tokenizer->side[TSR_SIDE_SOURCE];
  int32_t prefix = 0;
  tsr_config_bool(&files->options, "add_prefix_space", &prefix);
  TSR_TRY(tsr_config_status(&files->options));
  tokenizer->prefix_blank = prefix ? TSR_BLANK_FIRST : TSR_BLANK_NEVER;
  tokenizer->keep_blanks = 1;
  TSR_TRY(open_merges(files, &side->segmenter));
  TSR_TRY(tsr_files_vocabulary(files, "vocab.json", &side->vocabulary));
  TSR_TRY(tsr_added_tokens_create(&side->added));
  int32_t size;
  TSR_TRY(tsr_files_add_vocabulary(files, "vocab.json", side->vocabulary, &size));
  TSR_TRY(tsr_files_added_tokens(files, side->vocabulary, side->added));
  tsr_tokenizer_share_sides(tokenizer);
  return tsr_tokenizer_find_specials(files, tokenizer);
}

tsr_status tsr_bart_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  (void)kind;
  TSR_TRY(tsr_byte_level_open(files, tokenizer));
  const tsr_vocabulary *vocabulary = tokenizer->side[TSR_SIDE_SOURCE].vocabulary;
  for (int32_t i = 0; i < TSR_SIDES; i++) {
    TSR_TRY(tsr_vocabulary_require(vocabulary, tokenizer->special[TSR_BOS], &tokenizer->side[i].special[TSR_BOS]));
    tokenizer->side[i].frame.before[0] = tokenizer->side[i].special[TSR_BOS];
    tokenizer->side[i].frame.n_before = 1;
  }
  return TSR_OK;
}

/* Puts a blank before the text, if it is to have one. */
tsr_status tsr_bart_encode_plain(tsr_encoding *to, const char *text, size_t size, int32_t where)
{
  const tsr_tokenizer *tokenizer = to->tokenizer;
  const tsr_segmenter *segmenter = &tokenizer->side[to->side].segmenter;
  size_t length;
  int is_wanted = tokenizer->prefix_blank == TSR_BLANK_EACH ||
                  (tokenizer->prefix_blank == TSR_BLANK_FIRST && where & TSR_PLAIN_FIRST);
  if (!is_wanted || tsr_is_space(tsr_utf8_decode(text, size, &length))) {
    return segmenter->methods->encode(segmenter->state, text, size, tsr_encoding_append_token, to);
  }
  char *blank = malloc(size + 1);
  if (!blank) {
    return tsr_fail_memory(size + 1);
  }
  blank[0] = ' ';
  memcpy(blank + 1, text, size);
  tsr_status status = segmenter->methods->encode(segmenter->state, blank, size + 1, tsr_encoding_append_token, to);
  free(blank);
  return status;
}
