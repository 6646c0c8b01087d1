/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a text are read from left to right. A number grows with each word that belongs to it, and is written
 * when a word comes that does not. While its digits were only counted together it is an integer, and "twenty one" adds;
 * once digits were put side by side, as in "one oh one", it is a string of digits, and further ones go behind them.
 */
#include "core/eval/numbers.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/eval/number_words.h"

/* A word of the text. */
typedef struct word {
  const uint32_t *at;
  size_t n;
  const tsr_number_word *number; /* NULL for other words */
} word;

typedef enum value_kind { NONE, INTEGER, DIGITS } value_kind;

typedef struct writer {
  tsr_code_points *result;
  value_kind kind;
  tsr_code_points value; /* of INTEGER: ASCII digits without zeros in front */
  size_t plain;          /* this many code points at the value's beginning are known to be such an integer */
  uint32_t prefix;       /* written before what comes next; 0: none */
} writer;

size_t tsr_end_of_word(const tsr_code_points *text, size_t begin)
{
  while (begin < text->n && !tsr_is_space(text->at[begin])) {
    begin++;
  }
  return begin;
}

static int is_kind(const word *w, tsr_word_kind kind)
{
  return w && w->number && w->number->kind == kind && !w->number->suffix;
}

/* "one" to "nineteen" */
static int is_one(const word *w)
{
  return is_kind(w, ONES);
}

/* Digits, or digits, a point and digits. */
static int is_numeric(const uint32_t *at, size_t n)
{
  size_t i = 0;
  while (i < n && tsr_is_decimal(at[i])) {
    i++;
  }
  size_t point = i;
  if (i > 0 && i < n && at[i] == '.') {
    for (i++; i < n && tsr_is_decimal(at[i]); i++) {
    }
    return i == n && i > point + 1;
  }
  return i > 0 && i == n;
}

static int is_prefix(uint32_t c)
{
  return c == '-' || c == '+' || c == '$' || c == 0xA2 || c == 0xA3 || c == 0x20AC;
}

/* 1 if the word may belong to a number. */
static int may_be_number(const word *w)
{
  return w && (w->number || is_numeric(w->at, w->n));
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

static tsr_status begin_output(writer *w)
{
  if (w->result->n > 0) {
    TSR_TRY(tsr_code_points_add(w->result, ' '));
  }
  return w->prefix ? tsr_code_points_add(w->result, w->prefix) : TSR_OK;
}

static void end_number(writer *w)
{
  w->kind = NONE;
  w->value.n = 0;
  w->plain = 0;
  w->prefix = 0;
}

/* Writes the number, if there is one, with what stands behind it. */
static tsr_status put_number(writer *w, const char *suffix)
{
  if (w->kind == NONE) {
    return TSR_OK;
  }
  TSR_TRY(begin_output(w));
  TSR_TRY(tsr_code_points_append(w->result, w->value.at, w->value.n));
  TSR_TRY(tsr_code_points_append_ascii(w->result, suffix));
  end_number(w);
  return TSR_OK;
}

/* Writes a word, and the number before it. */
static tsr_status put_word(writer *w, const word *current)
{
  TSR_TRY(put_number(w, ""));
  TSR_TRY(begin_output(w));
  TSR_TRY(tsr_code_points_append(w->result, current->at, current->n));
  end_number(w);
  return TSR_OK;
}

/* ---- the number -------------------------------------------------------------------------------------------------- */

static int is_zero(const writer *w)
{
  return w->kind == INTEGER && w->value.n == 1 && w->value.at[0] == '0';
}

/* 1 if the integer ends with n zeros, or is zero. */
static int ends_with_zeros(const writer *w, size_t n)
{
  if (is_zero(w)) {
    return 1;
  }
  size_t zeros = 0;
  while (zeros < n && zeros < w->value.n && w->value.at[w->value.n - 1 - zeros] == '0') {
    zeros++;
  }
  return zeros == n;
}

/* Puts a number below 100 behind the digits. */
static tsr_status append_digits(writer *w, uint32_t number)
{
  w->kind = DIGITS;
  if (number >= 10) {
    TSR_TRY(tsr_code_points_add(&w->value, '0' + number / 10));
  }
  return tsr_code_points_add(&w->value, '0' + number % 10);
}

static tsr_status set_integer(writer *w, uint32_t number)
{
  w->value.n = 0;
  TSR_TRY(append_digits(w, number));
  w->kind = INTEGER;
  w->plain = w->value.n;
  return TSR_OK;
}

/* Puts a number below 100 in the place of the integer's last zeros. */
static tsr_status add_below_hundred(writer *w, uint32_t number)
{
  if (is_zero(w)) {
    return set_integer(w, number);
  }
  w->value.at[w->value.n - 1] = '0' + number % 10;
  if (number >= 10) {
    w->value.at[w->value.n - 2] = '0' + number / 10;
  }
  return TSR_OK;
}

/* An integer of zero counts as no digit at all where digits are put side by side. */
static void forget_zero(writer *w)
{
  if (is_zero(w)) {
    w->value.n = 0;
    w->plain = 0;
  }
}

static tsr_status add_ones(writer *w, const word *before, uint32_t ones)
{
  if (w->kind == NONE) {
    return set_integer(w, ones);
  }
  if (w->kind == DIGITS && ones < 10 && is_kind(before, TENS)) {
    w->value.n--; /* the zero of the tens */
    w->plain = w->plain < w->value.n ? w->plain : w->value.n;
    return append_digits(w, ones);
  }
  if (w->kind == INTEGER && !is_one(before) && ends_with_zeros(w, ones < 10 ? 1 : 2)) {
    return add_below_hundred(w, ones);
  }
  return append_digits(w, ones);
}

static tsr_status add_tens(writer *w, uint32_t tens)
{
  if (w->kind == NONE) {
    return set_integer(w, tens);
  }
  return w->kind == INTEGER && ends_with_zeros(w, 2) ? add_below_hundred(w, tens) : append_digits(w, tens);
}

/* An integer, but one whose zeros in front stay for now. */
static tsr_status append_zeros(writer *w, uint32_t n)
{
  TSR_TRY(tsr_code_points_reserve(&w->value, w->value.n + n));
  while (n-- > 0) {
    w->value.at[w->value.n++] = '0';
  }
  return TSR_OK;
}

static void drop_leading_zeros(writer *w)
{
  size_t zeros = 0;
  while (zeros + 1 < w->value.n && w->value.at[zeros] == '0') {
    zeros++;
  }
  if (zeros > 0) {
    memmove(w->value.at, w->value.at + zeros, (w->value.n - zeros) * sizeof *w->value.at);
    w->value.n -= zeros;
  }
}

/* The digits times 10^exponent as an integer, if they are a decimal number and the product is an integer. *done tells;
 * otherwise nothing changes. */
static tsr_status scale_digits(writer *w, uint32_t exponent, int *done)
{
  tsr_code_points *value = &w->value;
  size_t point = value->n, last = 0; /* last: one behind the last digit that is not zero */
  size_t digits = w->plain;
  *done = 0;
  for (size_t i = w->plain; i < value->n; i++) {
    if (value->at[i] == '.' && point == value->n) {
      point = i;
    } else if (tsr_is_decimal(value->at[i])) {
      digits++;
      last = tsr_decimal_value(value->at[i]) > 0 ? i + 1 : last;
    } else {
      return TSR_OK;
    }
  }
  size_t decimals = last > point ? last - point - 1 : 0;
  if (digits == 0 || decimals > exponent) {
    return TSR_OK;
  }
  size_t used = w->plain;
  for (size_t i = w->plain; i < value->n && i < point + 1 + decimals; i++) {
    if (i != point) {
      value->at[used++] = '0' + tsr_decimal_value(value->at[i]);
    }
  }
  value->n = used;
  TSR_TRY(append_zeros(w, exponent - (uint32_t)decimals));
  drop_leading_zeros(w);
  w->kind = INTEGER;
  w->plain = value->n;
  *done = 1;
  return TSR_OK;
}

/* The last three digits of the integer times 10^exponent, and the rest as it is. */
static tsr_status scale_integer(writer *w, uint32_t exponent)
{
  enum { SCALED = 3 };
  uint32_t residual[SCALED] = {0}; /* the last digit first */
  int is_residual = 0;
  tsr_code_points *value = &w->value;
  for (size_t i = 0; i < SCALED && i < value->n; i++) {
    residual[i] = value->at[value->n - 1 - i] - '0';
    is_residual |= residual[i] > 0;
    value->at[value->n - 1 - i] = '0';
  }
  size_t least = is_residual ? exponent + SCALED + 1 : 1; /* a carry has its place, too */
  if (value->n < least) {
    size_t more = least - value->n;
    TSR_TRY(tsr_code_points_reserve(value, least));
    memmove(value->at + more, value->at, value->n * sizeof *value->at);
    for (size_t i = 0; i < more; i++) {
      value->at[i] = '0';
    }
    value->n = least;
  }
  uint32_t carry = 0;
  for (size_t i = 0; is_residual && (i < SCALED || carry > 0) && exponent + i < value->n; i++) {
    uint32_t *digit = &value->at[value->n - 1 - exponent - i];
    uint32_t sum = *digit - '0' + carry + (i < SCALED ? residual[i] : 0);
    *digit = '0' + sum % 10;
    carry = sum / 10;
  }
  if (carry > 0) {
    TSR_TRY(tsr_code_points_reserve(value, value->n + 1));
    memmove(value->at + 1, value->at, value->n * sizeof *value->at);
    value->at[0] = '0' + carry;
    value->n++;
  }
  drop_leading_zeros(w);
  w->plain = value->n;
  return TSR_OK;
}

static tsr_status multiply(writer *w, uint32_t exponent)
{
  if (w->kind == INTEGER) {
    return scale_integer(w, exponent);
  }
  if (w->kind == DIGITS) {
    int done;
    TSR_TRY(scale_digits(w, exponent, &done));
    if (done) {
      return TSR_OK;
    }
    TSR_TRY(put_number(w, ""));
  }
  TSR_TRY(set_integer(w, 1));
  TSR_TRY(append_zeros(w, exponent));
  w->plain = w->value.n;
  return TSR_OK;
}

/* A number that is in digits already, perhaps with a currency before it. */
static tsr_status read_digits(writer *w, const word *current)
{
  if (w->kind == DIGITS && w->value.n > 0 && w->value.at[w->value.n - 1] == '.') {
    return tsr_code_points_append(&w->value, current->at, current->n);
  }
  TSR_TRY(put_number(w, ""));
  int has_prefix = is_prefix(current->at[0]);
  w->prefix = has_prefix ? current->at[0] : w->prefix;
  w->kind = DIGITS;
  TSR_TRY(tsr_code_points_append(&w->value, current->at + has_prefix, current->n - (size_t)has_prefix));
  int is_integer;
  return scale_digits(w, 0, &is_integer);
}

/* "double" and "triple". *skips: the next word is used up. */
static tsr_status repeat_digit(writer *w, const word *current, const word *next, int *skips)
{
  if (!is_one(next) && !is_kind(next, ZERO)) {
    return put_word(w, current);
  }
  forget_zero(w);
  for (uint32_t i = 0; i < current->number->value; i++) {
    TSR_TRY(append_digits(w, next->number->value));
  }
  *skips = 1;
  return TSR_OK;
}

/* "and", "double", "triple" and "point", before a word that may belong to a number. */
static tsr_status read_special(writer *w, const word *before, const word *current, const word *next, int *skips)
{
  switch (current->number->kind) {
  case AND:
    return is_kind(before, MULTIPLIER) ? TSR_OK : put_word(w, current);
  case REPEAT:
    return repeat_digit(w, current, next, skips);
  default:
    break;
  }
  if (is_one(next) || is_kind(next, TENS) || is_kind(next, ZERO) || is_numeric(next->at, next->n)) {
    forget_zero(w);
    w->kind = DIGITS;
    return tsr_code_points_add(&w->value, '.');
  }
  return TSR_OK;
}

/* before, next: NULL at the ends. */
static tsr_status read_number_word(writer *w, const word *before, const word *current, const word *next, int *skips)
{
  const tsr_number_word *number = current->number;
  switch (number->kind) {
  case ZERO:
    forget_zero(w);
    return append_digits(w, 0);
  case ONES:
    TSR_TRY(add_ones(w, before, number->value));
    break;
  case TENS:
    TSR_TRY(add_tens(w, number->value));
    break;
  case MULTIPLIER:
    TSR_TRY(multiply(w, number->value));
    break;
  case NUMBER_SIGN:
    TSR_TRY(put_number(w, ""));
    if (!may_be_number(next)) {
      return put_word(w, current);
    }
    w->prefix = number->value;
    return TSR_OK;
  case CURRENCY:
    if (w->kind == NONE) {
      return put_word(w, current);
    }
    w->prefix = number->value;
    return put_number(w, "");
  case PER:
    *skips = w->kind != NONE && next && tsr_is_ascii(next->at, next->n, "cent");
    return *skips ? put_number(w, "%") : put_word(w, current);
  case PERCENT:
    return w->kind != NONE ? put_number(w, "%") : put_word(w, current);
  default:
    return may_be_number(next) ? read_special(w, before, current, next, skips) : put_word(w, current);
  }
  return number->suffix ? put_number(w, number->suffix) : TSR_OK;
}

static tsr_status read_words(writer *w, const word *words, size_t n)
{
  int skips = 0;
  for (size_t i = 0; i < n; i++) {
    const word *current = &words[i];
    if (skips) {
      skips = 0;
      continue;
    }
    size_t prefix = (size_t)is_prefix(current->at[0]);
    if (is_numeric(current->at + prefix, current->n - prefix)) {
      TSR_TRY(read_digits(w, current));
    } else if (!current->number) {
      TSR_TRY(put_word(w, current));
    } else {
      TSR_TRY(read_number_word(w, i > 0 ? current - 1 : NULL, current, i + 1 < n ? current + 1 : NULL, &skips));
    }
  }
  return put_number(w, "");
}

/* ---- before and after -------------------------------------------------------------------------------------------- */

static int is_between(uint32_t c, char first, char last)
{
  return c >= (unsigned char)first && c <= (unsigned char)last;
}

static int is_digit(uint32_t c)
{
  return is_between(c, '0', '9');
}

static size_t skip_space(const tsr_code_points *text, size_t i)
{
  while (i < text->n && tsr_is_space(text->at[i])) {
    i++;
  }
  return i;
}

/* Where `ascii` ends if it stands at text[i], else i. */
static size_t skip_ascii(const tsr_code_points *text, size_t i, const char *ascii)
{
  size_t n = strlen(ascii);
  return i <= text->n && n <= text->n - i && tsr_is_ascii(text->at + i, n, ascii) ? i + n : i;
}

static int is_word_end(const tsr_code_points *text, size_t i)
{
  return i >= text->n || !tsr_is_word(text->at[i]);
}

/* Where "and a half" ends if it stands at text[i], else i. */
static size_t skip_half(const tsr_code_points *text, size_t i)
{
  static const char *const parts[] = {"and", "a", "half"};
  size_t at = i;
  if (i > 0 && tsr_is_word(text->at[i - 1])) {
    return i;
  }
  for (int p = 0; p < 3; p++) {
    size_t begin = p > 0 ? skip_space(text, at) : at;
    size_t end = skip_ascii(text, begin, parts[p]);
    if (end == begin || (p > 0 && begin == at)) {
      return i;
    }
    at = end;
  }
  return is_word_end(text, at) ? at : i;
}

/* What takes the place of an "and a half" behind text[begin .. end): "" if there is no word. */
static const char *half_after(const tsr_code_points *text, size_t begin, size_t end)
{
  while (end > begin && tsr_is_space(text->at[end - 1])) {
    end--;
  }
  size_t first = end;
  while (first > begin && !tsr_is_space(text->at[first - 1])) {
    first--;
  }
  if (first == end) {
    return "";
  }
  word last = {text->at + first, end - first, tsr_find_number_word(text->at + first, end - first)};
  return is_one(&last) || is_kind(&last, TENS) || is_kind(&last, ZERO) || is_kind(&last, MULTIPLIER) ? "point five"
                                                                                                     : "and a half";
}

/* "two and a half" -> "two point five" */
static tsr_status write_halves(const tsr_code_points *text, tsr_code_points *result)
{
  size_t begin = 0; /* behind the last "and a half" */
  result->n = 0;
  for (size_t i = 0; i < text->n;) {
    size_t end = text->at[i] == 'a' ? skip_half(text, i) : i;
    if (end == i) {
      i++;
      continue;
    }
    const char *half = half_after(text, begin, i);
    if (half[0] != '\0') {
      TSR_TRY(tsr_code_points_append(result, text->at + begin, i - begin));
      TSR_TRY(tsr_code_points_add(result, ' '));
      TSR_TRY(tsr_code_points_append_ascii(result, half));
      TSR_TRY(tsr_code_points_add(result, ' '));
    }
    i = begin = end;
  }
  return tsr_code_points_append(result, text->at + begin, text->n - begin);
}

/* Puts a space where letters and digits meet. */
static tsr_status part_letters_and_digits(const tsr_code_points *text, tsr_code_points *result)
{
  result->n = 0;
  for (size_t i = 0; i < text->n; i++) {
    uint32_t c = text->at[i], last = i > 0 ? text->at[i - 1] : ' ';
    if ((is_digit(last) && is_between(c, 'a', 'z')) || (is_between(last, 'a', 'z') && is_digit(c))) {
      TSR_TRY(tsr_code_points_add(result, ' '));
    }
    TSR_TRY(tsr_code_points_add(result, c));
  }
  return TSR_OK;
}

/* Joins a digit with a suffix such as "st" that follows it. */
static tsr_status join_suffixes(const tsr_code_points *text, tsr_code_points *result)
{
  static const char *const suffixes[] = {"st", "nd", "rd", "th", "s"};
  result->n = 0;
  for (size_t i = 0; i < text->n;) {
    TSR_TRY(tsr_code_points_add(result, text->at[i++]));
    if (i == text->n || !is_digit(text->at[i - 1]) || !tsr_is_space(text->at[i])) {
      continue;
    }
    size_t begin = skip_space(text, i);
    for (size_t s = 0; s < sizeof suffixes / sizeof suffixes[0]; s++) {
      size_t end = skip_ascii(text, begin, suffixes[s]);
      i = end > begin && is_word_end(text, end) ? begin : i;
    }
  }
  return TSR_OK;
}

static int is_currency(uint32_t c)
{
  return c == '$' || c == 0xA3 || c == 0x20AC;
}

/* Reads one or two digits that end a word; returns where they end, or i. */
static size_t read_cents(const tsr_code_points *text, size_t i, uint32_t *cents)
{
  size_t end = i;
  *cents = 0;
  while (end < text->n && end < i + 2 && is_digit(text->at[end])) {
    *cents = 10 * *cents + text->at[end++] - '0';
  }
  return is_word_end(text, end) ? end : i;
}

/* "$2 and" seven cents -> "$2.07" */
static tsr_status join_cents(const tsr_code_points *text, tsr_code_points *result)
{
  result->n = 0;
  for (size_t i = 0; i < text->n;) {
    size_t digits = i + 1, at;
    uint32_t cents = 0;
    for (; is_currency(text->at[i]) && digits < text->n && is_digit(text->at[digits]); digits++) {
    }
    at = digits > i + 1 ? skip_ascii(text, digits, " ") : digits;
    size_t cent = at > digits ? skip_ascii(text, at, "and ") : text->n;
    size_t end = cent < text->n && text->at[cent] == 0xA2 ? read_cents(text, cent + 1, &cents) : 0;
    if (end <= cent + 1) {
      TSR_TRY(tsr_code_points_add(result, text->at[i++]));
      continue;
    }
    TSR_TRY(tsr_code_points_append(result, text->at + i, digits - i));
    TSR_TRY(tsr_code_points_add(result, '.'));
    TSR_TRY(tsr_code_points_add(result, '0' + cents / 10));
    TSR_TRY(tsr_code_points_add(result, '0' + cents % 10));
    i = end;
  }
  return TSR_OK;
}

/* "$0.50" -> fifty cents, with the sign of cents */
static tsr_status write_cents(const tsr_code_points *text, tsr_code_points *result)
{
  result->n = 0;
  for (size_t i = 0; i < text->n;) {
    uint32_t cents = 0;
    int may_be = is_currency(text->at[i]) && i + 3 < text->n && text->at[i + 1] == '0';
    size_t end = may_be ? read_cents(text, i + 3, &cents) : 0;
    if (end <= i + 3) {
      TSR_TRY(tsr_code_points_add(result, text->at[i++]));
      continue;
    }
    TSR_TRY(tsr_code_points_add(result, 0xA2));
    if (cents >= 10) {
      TSR_TRY(tsr_code_points_add(result, '0' + cents / 10));
    }
    TSR_TRY(tsr_code_points_add(result, '0' + cents % 10));
    i = end;
  }
  return TSR_OK;
}

/* "1" -> "one", "1s" -> "ones" */
static tsr_status write_ones(const tsr_code_points *text, tsr_code_points *result)
{
  result->n = 0;
  for (size_t i = 0; i < text->n; i++) {
    int is_one_alone = text->at[i] == '1' && (i == 0 || !tsr_is_word(text->at[i - 1])) &&
                       (is_word_end(text, i + 1) || (text->at[i + 1] == 's' && is_word_end(text, i + 2)));
    if (is_one_alone) {
      TSR_TRY(tsr_code_points_append_ascii(result, "one"));
    } else {
      TSR_TRY(tsr_code_points_add(result, text->at[i]));
    }
  }
  return TSR_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static tsr_status split_words(const tsr_code_points *text, word **words, size_t *n)
{
  *n = 0;
  *words = NULL;
  for (int fills = 0; fills < 2; fills++) {
    *n = 0;
    for (size_t i = skip_space(text, 0), end; i < text->n; i = skip_space(text, end)) {
      end = tsr_end_of_word(text, i);
      if (fills) {
        (*words)[*n] = (word){text->at + i, end - i, tsr_find_number_word(text->at + i, end - i)};
      }
      ++*n;
    }
    if (!fills && !(*words = malloc((*n + 1) * sizeof **words))) {
      return tsr_fail_memory((*n + 1) * sizeof **words);
    }
  }
  return TSR_OK;
}

tsr_status tsr_write_numbers(tsr_code_points *text, tsr_code_points *result)
{
  TSR_TRY(write_halves(text, result));
  TSR_TRY(part_letters_and_digits(result, text));
  TSR_TRY(join_suffixes(text, result));

  word *words;
  size_t n;
  text->n = 0;
  writer w = {.result = text};
  tsr_status status = split_words(result, &words, &n);
  if (status == TSR_OK) {
    status = read_words(&w, words, n);
  }
  free(words);
  free(w.value.at);
  TSR_TRY(status);

  TSR_TRY(join_cents(text, result));
  TSR_TRY(write_cents(result, text));
  return write_ones(text, result);
}
