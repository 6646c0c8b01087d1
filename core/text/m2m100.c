/* SPDX-License-Identifier: Apache-2.0
 *
 * M2M100: SentencePiece cuts a text into pieces, vocab.json numbers them, and languages follow behind.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/text/kinds.h"

/* language_codes of tokenizer_config.json says which list it is. */
static tsr_status choose_list(tsr_tokenizer_files *files, const tsr_language_list **list)
{
  const char *codes = "m2m100";
  tsr_config_text(&files->options, "language_codes", &codes);
  TSR_TRY(tsr_config_status(&files->options));
  if (strcmp(codes, "m2m100") == 0) {
    *list = &tsr_languages_m2m100;
  } else if (strcmp(codes, "wmt21") == 0) {
    *list = &tsr_languages_wmt21;
  } else {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key \"language_codes\": expected \"m2m100\" or \"wmt21\", found %s",
                    files->options.path, tsr_quote(codes).text);
  }
  return TSR_OK;
}

/* A language's id is told by its place in the list, whatever else was added. */
static tsr_status add_languages(const tsr_tokenizer_files *files, const tsr_language_list *list, int32_t first,
                                tsr_tokenizer_side *side)
{
  for (int32_t i = 0; i < list->n; i++) {
    char token[TSR_LANGUAGE_TOKEN];
    tsr_language_token(list, list->codes[i], token);
    int32_t id = tsr_vocabulary_find(side->vocabulary, token, strlen(token));
    if (id < 0) {
      id = first + i;
      TSR_TRY(tsr_vocabulary_add(side->vocabulary, token, id));
    }
    TSR_TRY(tsr_added_tokens_add(side->added, token, id, tsr_files_is_special(files, token) ? TSR_ADDED_SPECIAL : 0));
  }
  return TSR_OK;
}

tsr_status tsr_m2m100_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  (void)kind;
  tsr_tokenizer_side *side = &tokenizer->side[TSR_SIDE_SOURCE];
  const tsr_language_list *list = NULL;
  TSR_TRY(choose_list(files, &list));
  TSR_TRY(tsr_files_sentencepiece(files, "sentencepiece.bpe.model", NULL, 0, &side->segmenter));
  TSR_TRY(tsr_files_vocabulary(files, "vocab.json", &side->vocabulary));
  TSR_TRY(tsr_added_tokens_create(&side->added));
  int32_t size;
  TSR_TRY(tsr_files_add_vocabulary(files, "vocab.json", side->vocabulary, &size));
  TSR_TRY(tsr_files_added_tokens(files, side->vocabulary, side->added));
  TSR_TRY(add_languages(files, list, size, side));
  tsr_tokenizer_share_sides(tokenizer);
  return tsr_tokenizer_find_specials(files, tokenizer);
}

tsr_status tsr_m2m100_open_languages(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                     tsr_tokenizer *tokenizer)
{
  (void)kind;
  const tsr_language_list *list = NULL;
  TSR_TRY(choose_list(files, &list));
  return tsr_languages_open(list, files, tokenizer);
}
