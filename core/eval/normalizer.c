/* SPDX-License-Identifier: Apache-2.0
 *
 * The text normalisers of Whisper, as passes over a text. What one pass has written, the next one reads.
 */
#include "core/eval/normalizer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/eval/code_points.h"
#include "core/eval/number_words.h"
#include "core/eval/numbers.h"

struct tsr_normalizer {
  int32_t kind;
  int32_t flags;
  json_t *spellings;          /* of TSR_NORMALIZER_ENGLISH: an object of strings */
  tsr_code_points text, next; /* what a pass reads, and what it writes */
  tsr_text_buffer word;
  tsr_text_buffer result;
};

/* What is replaced by what. */
typedef struct replacement {
  const char *from; /* ends a word */
  const char *to;
  int begins_word;
} replacement;

/* In this order. */
static const replacement replacements[] = {
    {"won't", "will not", 1},
    {"can't", "can not", 1},
    {"let's", "let us", 1},
    {"ain't", "aint", 1},
    {"y'all", "you all", 1},
    {"wanna", "want to", 1},
    {"gotta", "got to", 1},
    {"gonna", "going to", 1},
    {"i'ma", "i am going to", 1},
    {"imma", "i am going to", 1},
    {"woulda", "would have", 1},
    {"coulda", "could have", 1},
    {"shoulda", "should have", 1},
    {"ma'am", "madam", 1},
    /* titles */
    {"mr", "mister ", 1},
    {"mrs", "missus ", 1},
    {"st", "saint ", 1},
    {"dr", "doctor ", 1},
    {"prof", "professor ", 1},
    {"capt", "captain ", 1},
    {"gov", "governor ", 1},
    {"ald", "alderman ", 1},
    {"gen", "general ", 1},
    {"sen", "senator ", 1},
    {"rep", "representative ", 1},
    {"pres", "president ", 1},
    {"rev", "reverend ", 1},
    {"hon", "honorable ", 1},
    {"asst", "assistant ", 1},
    {"assoc", "associate ", 1},
    {"lt", "lieutenant ", 1},
    {"col", "colonel ", 1},
    {"jr", "junior ", 1},
    {"sr", "senior ", 1},
    {"esq", "esquire ", 1},
    /* perfect tenses, before the contractions that could be others, too */
    {"'d been", " had been", 0},
    {"'s been", " has been", 0},
    {"'d gone", " had gone", 0},
    {"'s gone", " has gone", 0},
    {"'d done", " had done", 0},
    {"'s got", " has got", 0},
    /* contractions */
    {"n't", " not", 0},
    {"'re", " are", 0},
    {"'s", " is", 0},
    {"'d", " would", 0},
    {"'ll", " will", 0},
    {"'t", " not", 0},
    {"'ve", " have", 0},
    {"'m", " am", 0},
};

static const char *const fillers[] = {"hmm", "mm", "mhm", "mmm", "uh", "um"};

/* Letters that NFKD leaves whole, and the letters that stand for them. */
static const struct {
  uint32_t from;
  const char *to;
} plain_letters[] = {
    {0x153, "oe"}, {0x152, "OE"}, {0xF8, "o"}, {0xD8, "O"}, {0xE6, "ae"}, {0xC6, "AE"}, {0xDF, "ss"}, {0x1E9E, "SS"},
    {0x111, "d"},  {0x110, "D"},  {0xF0, "d"}, {0xD0, "D"}, {0xFE, "th"}, {0xDE, "th"}, {0x142, "l"}, {0x141, "L"},
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tsr_status read_spellings(const char *path, json_t **spellings)
{
  tsr_file file;
  TSR_TRY(tsr_file_read(path, &file));
  tsr_status status = tsr_json_parse(path, file.bytes, file.size, spellings);
  tsr_file_free(&file);
  const char *key;
  json_t *value;
  json_object_foreach(*spellings, key, value)
  {
    if (status == TSR_OK && !json_is_string(value)) {
      status = tsr_fail(TSR_ERR_FORMAT, "%s: %s: expected a string, found %s", path, tsr_quote(key).text,
                        tsr_json_show(value).text);
    }
  }
  return status;
}

tsr_status tsr_normalizer_create(int32_t kind, int32_t flags, const char *spellings, tsr_normalizer **normalizer)
{
  if (!normalizer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_normalizer_create: normalizer must not be NULL");
  }
  *normalizer = NULL;
  int is_english = kind == TSR_NORMALIZER_ENGLISH;
  if (!is_english && kind != TSR_NORMALIZER_BASIC) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_normalizer_create: kind: expected one of TSR_NORMALIZER_*, found %d",
                    (int)kind);
  }
  int32_t known = is_english ? 0 : TSR_NORMALIZE_DIACRITICS | TSR_NORMALIZE_LETTERS;
  if ((flags & ~known) != 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_normalizer_create: flags: expected some of those of the kind, found %d",
                    (int)flags);
  }
  if (is_english != (spellings != NULL)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_normalizer_create: expected spellings for TSR_NORMALIZER_ENGLISH, and "
                                      "NULL otherwise");
  }
  tsr_normalizer *made = calloc(1, sizeof *made);
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  made->kind = kind;
  made->flags = flags;
  tsr_status status = is_english ? read_spellings(spellings, &made->spellings) : TSR_OK;
  if (status != TSR_OK) {
    tsr_normalizer_destroy(made);
    return status;
  }
  *normalizer = made;
  return TSR_OK;
}

void tsr_normalizer_destroy(tsr_normalizer *normalizer)
{
  if (!normalizer) {
    return;
  }
  json_decref(normalizer->spellings);
  free(normalizer->text.at);
  free(normalizer->next.at);
  free(normalizer->word.bytes);
  free(normalizer->result.bytes);
  free(normalizer);
}

const char *tsr_normalizer_name(const tsr_normalizer *normalizer)
{
  static const char *const names[] = {"basic", "basic+diacritics", "basic+letters", "basic+diacritics+letters"};
  if (!normalizer) {
    return "none";
  }
  return normalizer->kind == TSR_NORMALIZER_ENGLISH ? "english" : names[normalizer->flags];
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static void swap(tsr_normalizer *n)
{
  tsr_code_points text = n->text;
  n->text = n->next;
  n->next = text;
}

static int is_digit(uint32_t c)
{
  return c >= '0' && c <= '9';
}

/* The first of two characters from text[i] on, or the text's end. */
static size_t find_either(const tsr_code_points *text, size_t i, uint32_t a, uint32_t b)
{
  while (i < text->n && text->at[i] != a && text->at[i] != b) {
    i++;
  }
  return i;
}

/* Removes what stands in brackets: [..] and <..>, in any mixture, and (..) if something is inside. */
static tsr_status remove_brackets(tsr_normalizer *n, int is_parenthesis)
{
  static const char begins[] = "<[", ends[] = ">]";
  const tsr_code_points *text = &n->text;
  uint32_t begin[2] = {is_parenthesis ? '(' : (uint32_t)begins[0], is_parenthesis ? '(' : (uint32_t)begins[1]};
  uint32_t end[2] = {is_parenthesis ? ')' : (uint32_t)ends[0], is_parenthesis ? ')' : (uint32_t)ends[1]};
  size_t close = 0; /* the first closing bracket that is not before i + 1 */
  n->next.n = 0;
  for (size_t i = 0; i < text->n; i++) {
    int is_open = text->at[i] == begin[0] || text->at[i] == begin[1];
    if (is_open && close < i + 1) {
      close = find_either(text, i + 1, end[0], end[1]);
    }
    if (is_open && close < text->n && close > i + (size_t)is_parenthesis) {
      i = close;
    } else {
      TSR_TRY(tsr_code_points_add(&n->next, text->at[i]));
    }
  }
  swap(n);
  return TSR_OK;
}

static int is_filler(const uint32_t *at, size_t n)
{
  for (size_t i = 0; i < sizeof fillers / sizeof fillers[0]; i++) {
    if (tsr_is_ascii(at, n, fillers[i])) {
      return 1;
    }
  }
  return 0;
}

static tsr_status remove_fillers(tsr_normalizer *n)
{
  const tsr_code_points *text = &n->text;
  n->next.n = 0;
  for (size_t i = 0, end; i < text->n; i = end) {
    for (end = i; end < text->n && tsr_is_word(text->at[end]); end++) {
    }
    end += end == i; /* a character between words */
    if (!is_filler(text->at + i, end - i)) {
      TSR_TRY(tsr_code_points_append(&n->next, text->at + i, end - i));
    }
  }
  swap(n);
  return TSR_OK;
}

/* Removes white space before an apostrophe. */
static tsr_status join_apostrophes(tsr_normalizer *n)
{
  const tsr_code_points *text = &n->text;
  n->next.n = 0;
  for (size_t i = 0, end; i < text->n; i = end) {
    for (end = i; end < text->n && tsr_is_space(text->at[end]); end++) {
    }
    int is_dropped = end > i && end < text->n && text->at[end] == '\'';
    end += end == i;
    if (!is_dropped) {
      TSR_TRY(tsr_code_points_append(&n->next, text->at + i, end - i));
    }
  }
  swap(n);
  return TSR_OK;
}

static int stands_at(const tsr_code_points *text, size_t i, const replacement *r, size_t n)
{
  return text->at[i] == (unsigned char)r->from[0] && n <= text->n - i && tsr_is_ascii(text->at + i, n, r->from) &&
         (i + n == text->n || !tsr_is_word(text->at[i + n])) &&
         (!r->begins_word || i == 0 || !tsr_is_word(text->at[i - 1]));
}

static tsr_status replace(tsr_normalizer *n, const replacement *r)
{
  const tsr_code_points *text = &n->text;
  size_t length = strlen(r->from);
  size_t copied = 0;
  n->next.n = 0;
  for (size_t i = 0; i < text->n; i++) {
    if (stands_at(text, i, r, length)) {
      TSR_TRY(tsr_code_points_append(&n->next, text->at + copied, i - copied));
      TSR_TRY(tsr_code_points_append_ascii(&n->next, r->to));
      copied = i + length;
      i = copied - 1;
    }
  }
  if (copied > 0) {
    TSR_TRY(tsr_code_points_append(&n->next, text->at + copied, text->n - copied));
    swap(n);
  }
  return TSR_OK;
}

/* Removes a comma between two digits. The second digit is then used up: "1,2,3" keeps its second comma. */
static tsr_status remove_commas(tsr_normalizer *n)
{
  const tsr_code_points *text = &n->text;
  n->next.n = 0;
  for (size_t i = 0; i < text->n; i++) {
    TSR_TRY(tsr_code_points_add(&n->next, text->at[i]));
    if (i + 2 < text->n && text->at[i + 1] == ',' && tsr_is_decimal(text->at[i]) && tsr_is_decimal(text->at[i + 2])) {
      i += 2;
      TSR_TRY(tsr_code_points_add(&n->next, text->at[i]));
    }
  }
  swap(n);
  return TSR_OK;
}

/* Makes a space of each character for which `matches` holds if no digit follows. What follows is then used up.
 * may_end: also at the text's end. */
static tsr_status blank_before_others(tsr_normalizer *n, int (*matches)(uint32_t c), int may_end)
{
  const tsr_code_points *text = &n->text;
  n->next.n = 0;
  for (size_t i = 0; i < text->n; i++) {
    int is_last = i + 1 == text->n;
    if (!matches(text->at[i]) || (is_last ? !may_end : is_digit(text->at[i + 1]))) {
      TSR_TRY(tsr_code_points_add(&n->next, text->at[i]));
      continue;
    }
    TSR_TRY(tsr_code_points_add(&n->next, ' '));
    if (!is_last) {
      TSR_TRY(tsr_code_points_add(&n->next, text->at[++i]));
    }
  }
  swap(n);
  return TSR_OK;
}

static int is_point(uint32_t c)
{
  return c == '.';
}

static int is_point_or_currency(uint32_t c)
{
  return c == '.' || c == '$' || c == 0xA2 || c == 0xA3 || c == 0x20AC;
}

static int is_kept(uint32_t c)
{
  return c == '%' || is_point_or_currency(c);
}

/* Makes a space of a percent sign behind anything but a digit, which is used up. */
static tsr_status blank_percent_signs(tsr_normalizer *n)
{
  const tsr_code_points *text = &n->text;
  n->next.n = 0;
  for (size_t i = 0; i < text->n; i++) {
    TSR_TRY(tsr_code_points_add(&n->next, text->at[i]));
    if (i + 1 < text->n && text->at[i + 1] == '%' && !is_digit(text->at[i])) {
      i++;
      TSR_TRY(tsr_code_points_add(&n->next, ' '));
    }
  }
  swap(n);
  return TSR_OK;
}

static const char *find_plain_letters(uint32_t c)
{
  for (size_t i = 0; i < sizeof plain_letters / sizeof plain_letters[0]; i++) {
    if (plain_letters[i].from == c) {
      return plain_letters[i].to;
    }
  }
  return NULL;
}

/* Makes a space of each mark, symbol and punctuation of the text in NFKD, but drops marks that take no space, and
 * writes letters plainly. keeps: characters that stay. */
static tsr_status remove_signs_and_diacritics(tsr_normalizer *n, int keeps)
{
  const tsr_code_points *text = &n->text;
  TSR_TRY(tsr_code_points_decompose(text, &n->next));
  swap(n);
  n->next.n = 0;
  for (size_t i = 0; i < text->n; i++) {
    uint32_t c = text->at[i];
    const char *plain = c > 0x7F ? find_plain_letters(c) : NULL;
    if (plain) {
      TSR_TRY(tsr_code_points_append_ascii(&n->next, plain));
    } else if ((keeps && is_kept(c)) || !tsr_is_nonspacing_mark(c)) {
      int is_blank = tsr_is_sign(c) && !(keeps && is_kept(c));
      TSR_TRY(tsr_code_points_add(&n->next, is_blank ? ' ' : c));
    }
  }
  swap(n);
  return TSR_OK;
}

/* Makes a space of each mark, symbol and punctuation of the text in NFKC. */
static tsr_status remove_signs(tsr_normalizer *n)
{
  TSR_TRY(tsr_code_points_decompose(&n->text, &n->next));
  swap(n);
  TSR_TRY(tsr_code_points_compose(&n->text));
  for (size_t i = 0; i < n->text.n; i++) {
    n->text.at[i] = tsr_is_sign(n->text.at[i]) ? ' ' : n->text.at[i];
  }
  return TSR_OK;
}

static tsr_status lower(tsr_normalizer *n)
{
  TSR_TRY(tsr_code_points_lower(&n->text, &n->next));
  swap(n);
  return TSR_OK;
}

/* Puts a space between user-perceived characters. */
static tsr_status split_letters(tsr_normalizer *n)
{
  const tsr_code_points *text = &n->text;
  int32_t state = 0;
  n->next.n = 0;
  for (size_t i = 0; i < text->n; i++) {
    if (i > 0 && tsr_is_grapheme_break(text->at[i - 1], text->at[i], &state)) {
      TSR_TRY(tsr_code_points_add(&n->next, ' '));
    }
    TSR_TRY(tsr_code_points_add(&n->next, text->at[i]));
  }
  swap(n);
  return TSR_OK;
}

/* One space for each run of white space. */
static void join_spaces(tsr_code_points *text)
{
  size_t used = 0;
  for (size_t i = 0; i < text->n; i++) {
    if (!tsr_is_space(text->at[i])) {
      text->at[used++] = text->at[i];
    } else if (i == 0 || !tsr_is_space(text->at[i - 1])) {
      text->at[used++] = ' ';
    }
  }
  text->n = used;
}

/* UTF-8, and a NUL behind it. */
static tsr_status encode(const uint32_t *at, size_t n, tsr_text_buffer *buffer, size_t *size)
{
  if (n > (SIZE_MAX - 1) / TSR_UTF8_LONGEST) {
    return tsr_fail_memory(SIZE_MAX);
  }
  TSR_TRY(tsr_text_buffer_reserve(buffer, n * TSR_UTF8_LONGEST + 1));
  *size = 0;
  for (size_t i = 0; i < n; i++) {
    *size += tsr_utf8_encode(at[i], buffer->bytes + *size);
  }
  buffer->bytes[*size] = '\0';
  return TSR_OK;
}

/* Replaces words as the table of spellings has them; words are then apart by one space. */
static tsr_status replace_spellings(tsr_normalizer *n)
{
  const tsr_code_points *text = &n->text;
  n->next.n = 0;
  for (size_t i = 0, end; i < text->n; i = end) {
    end = tsr_end_of_word(text, i);
    if (end == i) {
      end++;
      continue;
    }
    size_t size = 0;
    TSR_TRY(encode(text->at + i, end - i, &n->word, &size));
    json_t *spelling = strlen(n->word.bytes) == size ? json_object_get(n->spellings, n->word.bytes) : NULL;
    if (n->next.n > 0) {
      TSR_TRY(tsr_code_points_add(&n->next, ' '));
    }
    if (spelling) {
      TSR_TRY(tsr_code_points_append_utf8(&n->next, json_string_value(spelling), json_string_length(spelling)));
    } else {
      TSR_TRY(tsr_code_points_append(&n->next, text->at + i, end - i));
    }
  }
  swap(n);
  return TSR_OK;
}

/* ---- normalisers ------------------------------------------------------------------------------------------------- */

static tsr_status normalize_basic(tsr_normalizer *n)
{
  TSR_TRY(n->flags & TSR_NORMALIZE_DIACRITICS ? remove_signs_and_diacritics(n, 0) : remove_signs(n));
  TSR_TRY(lower(n)); /* normal forms bring capitals */
  return n->flags & TSR_NORMALIZE_LETTERS ? split_letters(n) : TSR_OK;
}

static tsr_status normalize_english(tsr_normalizer *n)
{
  TSR_TRY(remove_fillers(n));
  TSR_TRY(join_apostrophes(n));
  for (size_t i = 0; i < sizeof replacements / sizeof replacements[0]; i++) {
    TSR_TRY(replace(n, &replacements[i]));
  }
  TSR_TRY(remove_commas(n));
  TSR_TRY(blank_before_others(n, is_point, 1));
  TSR_TRY(remove_signs_and_diacritics(n, 1));
  TSR_TRY(tsr_write_numbers(&n->text, &n->next));
  swap(n);
  TSR_TRY(replace_spellings(n));
  TSR_TRY(blank_before_others(n, is_point_or_currency, 0));
  return blank_percent_signs(n);
}

tsr_status tsr_normalizer_write(tsr_normalizer *normalizer, tsr_span text, tsr_text_buffer *buffer, size_t *size)
{
  tsr_normalizer *n = normalizer;
  n->text.n = 0;
  TSR_TRY(tsr_code_points_append_utf8(&n->text, text.bytes, text.size));
  TSR_TRY(lower(n));
  TSR_TRY(remove_brackets(n, 0));
  TSR_TRY(remove_brackets(n, 1));
  TSR_TRY(n->kind == TSR_NORMALIZER_ENGLISH ? normalize_english(n) : normalize_basic(n));
  join_spaces(&n->text);
  return encode(n->text.at, n->text.n, buffer, size);
}

tsr_status tsr_normalize(tsr_normalizer *normalizer, tsr_span text, tsr_span *normalized)
{
  if (!normalizer || !normalized || (!text.bytes && text.size > 0)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_normalize: normalizer, text and normalized must not be NULL");
  }
  size_t size = 0;
  TSR_TRY(tsr_normalizer_write(normalizer, text, &normalizer->result, &size));
  *normalized = (tsr_span){normalizer->result.bytes, size};
  return TSR_OK;
}
