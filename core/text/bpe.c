/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/bpe.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/base/status.h"
#include "core/base/text_buffer.h"
#include "core/base/utf8.h"
#include "core/checkpoint/json.h"
#include "core/text/vocabulary.h"
#include "tessera/text.h"

/* What becomes of two neighbouring symbols. */
typedef struct merge {
  uint64_t pair; /* left << 32 | right; no_pair: the place is free */
  int32_t rank;  /* the lowest of a word is merged first */
  int32_t result;
} merge;

static const uint64_t no_pair = UINT64_MAX;

enum { BYTES = 256 };

struct tsr_bpe {
  tsr_vocabulary *symbols; /* texts that merging can lead to, numbered as they came */
  int32_t of_byte[BYTES];  /* the symbol of each byte */
  merge *merges;           /* [room] a merge lies at its pair's hash, or at the next free place behind it */
  size_t room;             /* a power of two, at most half of it used */
  size_t used;
  int32_t n_ranks;
};

/* ------------------------------------------------------------------------------------------------------------------
 * Bytes as characters: those that are printable in Latin-1 stand for themselves, the others for U+0100 and on in order.
 */
static int is_printable(uint32_t byte)
{
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

static void list_characters(uint32_t characters[BYTES])
{
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < BYTES; byte++) {
    characters[byte] = is_printable(byte) ? byte : next++;
  }
}

/* -1: the character stands for no byte. */
static int byte_of(const uint32_t characters[BYTES], uint32_t character)
{
  if (character < BYTES) {
    return is_printable(character) ? (int)character : -1;
  }
  for (int byte = 0; byte < BYTES; byte++) {
    if (characters[byte] == character) {
      return byte;
    }
  }
  return -1;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Merges
 */
static merge *place_of(const tsr_bpe *bpe, uint64_t pair)
{
  uint64_t hash = pair * 0x9E3779B97F4A7C15u;
  size_t at = (size_t)(hash ^ hash >> 32) & (bpe->room - 1);
  while (bpe->merges[at].pair != no_pair && bpe->merges[at].pair != pair) {
    at = (at + 1) & (bpe->room - 1);
  }
  return &bpe->merges[at];
}

static const merge *find_merge(const tsr_bpe *bpe, int32_t left, int32_t right)
{
  const merge *found = place_of(bpe, (uint64_t)(uint32_t)left << 32 | (uint32_t)right);
  return found->pair == no_pair ? NULL : found;
}

static tsr_status grow(tsr_bpe *bpe)
{
  merge *old = bpe->merges;
  size_t old_room = bpe->room;
  size_t room = old_room ? 2 * old_room : 64;
  merge *merges = malloc(room * sizeof *merges);
  if (!merges) {
    return tsr_fail_memory(room * sizeof *merges);
  }
  for (size_t i = 0; i < room; i++) {
    merges[i].pair = no_pair;
  }
  bpe->merges = merges;
  bpe->room = room;
  for (size_t i = 0; i < old_room; i++) {
    if (old[i].pair != no_pair) {
      *place_of(bpe, old[i].pair) = old[i];
    }
  }
  free(old);
  return TSR_OK;
}

/* The symbol of a text, which is added if it is new. */
static tsr_status intern(tsr_bpe *bpe, const char *text, int32_t *symbol)
{
  *symbol = tsr_vocabulary_find(bpe->symbols, text, strlen(text));
  if (*symbol >= 0) {
    return TSR_OK;
  }
  *symbol = tsr_vocabulary_size(bpe->symbols);
  return tsr_vocabulary_add(bpe->symbols, text, *symbol);
}

enum { LONGEST_TOKEN = 4096 };

/* `what` names the merge in messages. */
static tsr_status add_merge(tsr_bpe *bpe, const char *what, const char *left, size_t left_size, const char *right,
                            size_t right_size)
{
  char text[LONGEST_TOKEN + 1];
  if (left_size == 0 || right_size == 0 || left_size + right_size > LONGEST_TOKEN || memchr(left, 0, left_size) ||
      memchr(right, 0, right_size)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: expected two tokens with a blank between, of at most %d bytes", what,
                    (int)LONGEST_TOKEN);
  }
  int32_t symbols[2];
  int32_t result;
  memcpy(text, left, left_size);
  text[left_size] = '\0';
  TSR_TRY(intern(bpe, text, &symbols[0]));
  memcpy(text, right, right_size);
  text[right_size] = '\0';
  TSR_TRY(intern(bpe, text, &symbols[1]));
  memcpy(text, left, left_size);
  memcpy(text + left_size, right, right_size);
  text[left_size + right_size] = '\0';
  TSR_TRY(intern(bpe, text, &result));
  if (2 * (bpe->used + 1) > bpe->room) {
    TSR_TRY(grow(bpe));
  }
  uint64_t pair = (uint64_t)(uint32_t)symbols[0] << 32 | (uint32_t)symbols[1];
  merge *place = place_of(bpe, pair);
  bpe->used += place->pair == no_pair;
  *place = (merge){pair, bpe->n_ranks++, result};
  return TSR_OK;
}

static tsr_status add_line(tsr_bpe *bpe, const char *name, size_t number, const char *line, size_t size)
{
  char what[512];
  const char *blank = memchr(line, ' ', size);
  size_t left = blank ? (size_t)(blank - line) : size;
  size_t right = blank ? size - left - 1 : 0;
  snprintf(what, sizeof what, "%s: line %zu", name, number);
  if (right > 0 && memchr(blank + 1, ' ', right)) {
    right = 0; /* three tokens: refused */
  }
  return add_merge(bpe, what, line, left, blank ? blank + 1 : line, right);
}

static tsr_status add_lines(tsr_bpe *bpe, const char *name, const char *text, size_t size)
{
  static const char version[] = "#version";
  size_t number = 0;
  for (size_t at = 0; at < size;) {
    const char *newline = memchr(text + at, '\n', size - at);
    size_t end = newline ? (size_t)(newline - text) : size;
    size_t line = end > at && text[end - 1] == '\r' ? end - at - 1 : end - at;
    number++;
    int is_version = number == 1 && line >= sizeof version - 1 && memcmp(text + at, version, sizeof version - 1) == 0;
    if (line > 0 && !is_version) {
      TSR_TRY(add_line(bpe, name, number, text + at, line));
    }
    at = end + 1;
  }
  return TSR_OK;
}

static tsr_status add_list(tsr_bpe *bpe, const char *name, const json_t *merges)
{
  if (!json_is_array(merges)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: expected a list of merges, found %s", name, tsr_json_show(merges).text);
  }
  for (size_t i = 0; i < json_array_size(merges); i++) {
    const json_t *value = json_array_get(merges, i);
    if (json_is_string(value)) {
      TSR_TRY(add_line(bpe, name, i + 1, json_string_value(value), json_string_length(value)));
      continue;
    }
    const json_t *left = json_array_get(value, 0);
    const json_t *right = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_string(left) || !json_is_string(right)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: merge %zu: expected \"a b\" or [\"a\", \"b\"], found %s", name, i,
                      tsr_json_show(value).text);
    }
    TSR_TRY(add_merge(bpe, name, json_string_value(left), json_string_length(left), json_string_value(right),
                      json_string_length(right)));
  }
  return TSR_OK;
}

static tsr_status begin(const char *name, tsr_bpe **bpe)
{
  *bpe = calloc(1, sizeof **bpe);
  if (!*bpe) {
    return tsr_fail_memory(sizeof **bpe);
  }
  tsr_status status = tsr_vocabulary_begin(name, TSR_VOCABULARY_WHOLE, &(*bpe)->symbols);
  if (status == TSR_OK) {
    status = grow(*bpe);
  }
  uint32_t characters[BYTES];
  list_characters(characters);
  for (int byte = 0; byte < BYTES && status == TSR_OK; byte++) {
    char text[TSR_UTF8_LONGEST + 1] = "";
    tsr_utf8_encode(characters[byte], text);
    status = intern(*bpe, text, &(*bpe)->of_byte[byte]);
  }
  return status;
}

static tsr_status finish(tsr_status status, tsr_bpe **bpe)
{
  if (status != TSR_OK) {
    tsr_bpe_close(*bpe);
    *bpe = NULL;
  }
  return status;
}

tsr_status tsr_bpe_parse(const char *name, const void *bytes, size_t size, tsr_bpe **bpe)
{
  tsr_status status = begin(name, bpe);
  if (status == TSR_OK) {
    status = add_lines(*bpe, name, bytes, size);
  }
  return finish(status, bpe);
}

tsr_status tsr_bpe_read(const char *name, const json_t *merges, tsr_bpe **bpe)
{
  tsr_status status = begin(name, bpe);
  if (status == TSR_OK) {
    status = add_list(*bpe, name, merges);
  }
  return finish(status, bpe);
}

void tsr_bpe_close(tsr_bpe *bpe)
{
  if (!bpe) {
    return;
  }
  tsr_vocabulary_close(bpe->symbols);
  free(bpe->merges);
  free(bpe);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Words
 */
enum { LETTER = 0, NUMBER = 1, SIGN = 2, BLANK = 3 };

static int class_of(uint32_t c)
{
  /* U+001C to U+001F are no white space here, as they are not for Unicode. */
  if (tsr_is_space(c) && !(c >= 0x1C && c <= 0x1F)) {
    return BLANK;
  }
  utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) {
    return LETTER;
  }
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO ? NUMBER : SIGN;
}

/* Where a run of a class that begins at `at` ends; *last: where its last character begins. */
static size_t run_end(const char *text, size_t size, size_t at, int class, size_t *last)
{
  size_t length;
  for (; at < size && class_of(tsr_utf8_decode(text + at, size - at, &length)) == class; at += length) {
    *last = at;
  }
  return at;
}

static size_t contraction(const char *text, size_t size)
{
  static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    size_t length = strlen(endings[i]);
    if (length <= size && memcmp(text, endings[i], length) == 0) {
      return length;
    }
  }
  return 0;
}

size_t tsr_bpe_word(const char *text, size_t size)
{
  size_t length = text[0] == '\'' ? contraction(text, size) : 0;
  if (length > 0) {
    return length;
  }
  size_t begin = text[0] == ' ' && size > 1 ? 1 : 0;
  size_t last = 0;
  int class = class_of(tsr_utf8_decode(text + begin, size - begin, &length));
  if (class != BLANK) {
    return run_end(text, size, begin, class, &last);
  }
  /* White space leaves its last character to the word that follows. */
  size_t end = run_end(text, size, 0, BLANK, &last);
  return end < size && last > 0 ? last : end;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Merging a word
 */
typedef struct node {
  int32_t symbol; /* -1: merged into the one before */
  int32_t before; /* -1: none */
  int32_t after;
} node;

/* A pair that can be merged, or could when it was found. */
typedef struct candidate {
  int32_t rank;
  int32_t at; /* the left node */
  int32_t left;
  int32_t right; /* symbols */
  int32_t result;
} candidate;

/* What a word is merged in, used again for the next. */
typedef struct workspace {
  const tsr_bpe *bpe;
  node *nodes;
  candidate *heap; /* the lowest rank, then the leftmost, on top */
  size_t n_heap;
  size_t room; /* bytes of a word that there is room for */
} workspace;

static tsr_status reserve(workspace *w, size_t size)
{
  if (size <= w->room) {
    return TSR_OK;
  }
  free(w->nodes);
  free(w->heap);
  w->room = 0;
  w->nodes = malloc(size * sizeof *w->nodes);
  /* One candidate for each pair of neighbours, and at most two for each of the merges, fewer than bytes. */
  w->heap = malloc(3 * size * sizeof *w->heap);
  if (!w->nodes || !w->heap) {
    return tsr_fail_memory(size * (sizeof *w->nodes + 3 * sizeof *w->heap));
  }
  w->room = size;
  return TSR_OK;
}

static int is_less(const candidate *a, const candidate *b)
{
  return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(workspace *w, int32_t at)
{
  if (at < 0 || w->nodes[at].after < 0) {
    return;
  }
  int32_t left = w->nodes[at].symbol;
  int32_t right = w->nodes[w->nodes[at].after].symbol;
  const merge *found = find_merge(w->bpe, left, right);
  if (!found) {
    return;
  }
  candidate added = {found->rank, at, left, right, found->result};
  size_t i = w->n_heap++;
  for (; i > 0 && is_less(&added, &w->heap[(i - 1) / 2]); i = (i - 1) / 2) {
    w->heap[i] = w->heap[(i - 1) / 2];
  }
  w->heap[i] = added;
}

static candidate pop(workspace *w)
{
  candidate top = w->heap[0];
  candidate moved = w->heap[--w->n_heap];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < w->n_heap; i = child) {
    if (child + 1 < w->n_heap && is_less(&w->heap[child + 1], &w->heap[child])) {
      child++;
    }
    if (!is_less(&w->heap[child], &moved)) {
      break;
    }
    w->heap[i] = w->heap[child];
  }
  w->heap[i] = moved;
  return top;
}

static void merge_all(workspace *w)
{
  while (w->n_heap > 0) {
    candidate c = pop(w);
    node *left = &w->nodes[c.at];
    if (left->symbol != c.left || left->after < 0 || w->nodes[left->after].symbol != c.right) {
      continue; /* one of the two was merged in the meantime */
    }
    node *right = &w->nodes[left->after];
    left->symbol = c.result;
    right->symbol = -1;
    left->after = right->after;
    if (left->after >= 0) {
      w->nodes[left->after].before = c.at;
    }
    push(w, left->before);
    push(w, c.at);
  }
}

static tsr_status encode_word(workspace *w, const char *word, size_t size, tsr_piece_fn receive, void *user)
{
  if (size > INT32_MAX / 2) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a word of %zu bytes is too long", size);
  }
  TSR_TRY(reserve(w, size));
  int32_t n = (int32_t)size;
  for (int32_t i = 0; i < n; i++) {
    w->nodes[i] = (node){w->bpe->of_byte[(unsigned char)word[i]], i - 1, i + 1 < n ? i + 1 : -1};
  }
  w->n_heap = 0;
  for (int32_t i = 0; i + 1 < n; i++) {
    push(w, i);
  }
  merge_all(w);
  for (int32_t i = 0; i >= 0; i = w->nodes[i].after) {
    const char *piece = tsr_vocabulary_token(w->bpe->symbols, w->nodes[i].symbol);
    TSR_TRY(receive(user, piece, strlen(piece)));
  }
  return TSR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * A segmenter
 */
static tsr_status encode_words(workspace *w, const char *text, size_t size, tsr_piece_fn receive, void *user)
{
  for (size_t at = 0; at < size;) {
    size_t length = tsr_bpe_word(text + at, size - at);
    TSR_TRY(encode_word(w, text + at, length, receive, user));
    at += length;
  }
  return TSR_OK;
}

static tsr_status encode(const void *state, const char *text, size_t size, tsr_piece_fn receive, void *user)
{
  workspace w = {.bpe = state};
  tsr_text_buffer buffer = {0};
  const char *clean;
  size_t clean_size;
  tsr_status status = tsr_text_buffer_clean(&buffer, text, size, &clean, &clean_size);
  if (status == TSR_OK) {
    status = encode_words(&w, clean, clean_size, receive, user);
  }
  free(buffer.bytes);
  free(w.nodes);
  free(w.heap);
  return status;
}

enum { INVALID_BYTE = 0xFF }; /* no UTF-8 has it */

/* Pieces that are not of bytes' characters, such as added tokens, stand for themselves. */
static size_t write_bytes(char *to, const uint32_t characters[BYTES], const char *piece)
{
  size_t used = 0;
  size_t size = strlen(piece);
  size_t length;
  for (size_t at = 0; at < size; at += length) {
    int byte = byte_of(characters, tsr_utf8_decode(piece + at, size - at, &length));
    if (byte >= 0) {
      to[used++] = (char)(byte ? byte : INVALID_BYTE); /* a NUL would end the text */
    } else {
      memcpy(to + used, piece + at, length);
      used += length;
    }
  }
  return used;
}

size_t tsr_bpe_bytes(const char *piece, char *bytes)
{
  uint32_t characters[BYTES];
  list_characters(characters);
  return write_bytes(bytes, characters, piece);
}

static tsr_status decode(const void *state, const char *const *pieces, size_t n_pieces, char **text)
{
  (void)state;
  uint32_t characters[BYTES];
  list_characters(characters);
  size_t most = 0;
  for (size_t i = 0; i < n_pieces; i++) {
    most += strlen(pieces[i]);
  }
  *text = NULL;
  char *bytes = malloc(most + 1);
  char *clean = malloc(3 * most + 1);
  if (!bytes || !clean) {
    free(bytes);
    free(clean);
    return tsr_fail_memory(4 * most + 2);
  }
  size_t size = 0;
  for (size_t i = 0; i < n_pieces; i++) {
    size += write_bytes(bytes + size, characters, pieces[i]);
  }
  clean[tsr_utf8_clean(bytes, size, clean)] = '\0';
  free(bytes);
  *text = clean;
  return TSR_OK;
}

static void close_state(void *state)
{
  tsr_bpe_close(state);
}

tsr_segmenter tsr_bpe_segmenter(tsr_bpe *bpe)
{
  static const tsr_segmenter_methods methods = {encode, decode, close_state};
  return (tsr_segmenter){&methods, bpe};
}
