/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/units.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that are compared at most to find what is verbatim in a translation; behind that the alignment alone tells. */
enum { MOST_COMPARED = 1 << 26 };

void doc_units_finish(doc_units *units)
{
  doc_buffer_finish(&units->text);
  free(units->units);
  free(units->links);
  free(units->leaves);
  *units = (doc_units){0};
}

/* ---- the whole translation --------------------------------------------------------------------------------------- */

static size_t count_links(const doc_block *block, const doc_batch *batch)
{
  size_t n = 0;
  for (size_t i = 0; i < block->n_segments; i++) {
    const doc_segment *segment = &block->segments[i];
    n += segment->entry >= 0 ? batch->entries[segment->entry].n_links : segment->end - segment->begin;
  }
  return n;
}

static void add_segment(const doc_block *block, const doc_segment *segment, const doc_batch *batch, doc_units *units)
{
  int32_t target = (int32_t)units->text.size, source = (int32_t)segment->begin;
  size_t size = segment->end - segment->begin;
  if (segment->entry < 0) {
    doc_buffer_add(&units->text, block->text.bytes + segment->begin, size);
    for (int32_t i = 0; i < (int32_t)size; i++) {
      units->links[units->n_links++] = (tsr_document_link){target + i, target + i + 1, source + i, source + i + 1};
    }
    return;
  }
  const doc_entry *entry = &batch->entries[segment->entry];
  doc_buffer_add(&units->text, entry->target, entry->target_size);
  units->changed |= entry->target_size != size || memcmp(entry->target, entry->text, size) != 0;
  for (size_t i = 0; i < entry->n_links; i++) {
    tsr_document_link link = entry->links[i];
    link.target_begin += target;
    link.target_end += target;
    link.source_begin += source;
    link.source_end += source;
    units->links[units->n_links++] = link;
  }
}

static tsr_status join_segments(const doc_block *block, const doc_batch *batch, doc_units *units)
{
  units->links = malloc((count_links(block, batch) + 1) * sizeof *units->links);
  if (!units->links) {
    return doc_no_memory();
  }
  size_t end = 0;
  for (size_t i = 0; i < block->n_segments; i++) {
    const doc_segment *segment = &block->segments[i];
    doc_buffer_add(&units->text, block->text.bytes + end, segment->begin - end);
    add_segment(block, segment, batch, units);
    end = segment->end;
  }
  return doc_buffer_check(&units->text);
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

static int is_word_class(int32_t class)
{
  return class == DOC_LETTER || class == DOC_DIGIT || class == DOC_IDEOGRAPH || class == DOC_JOINED;
}

/* The end of the unit at `begin`, which is no blank. `cuts`: bytes at which one must end. */
static size_t unit_end(const doc_buffer *text, size_t begin, const char *cuts, int32_t *is_word)
{
  int32_t character, first = -1;
  size_t at = begin;
  while (at < text->size && (at == begin || !cuts[at])) {
    size_t n = doc_utf8(text->bytes + at, text->size - at, &character);
    int32_t class = doc_class(character);
    int goes_on = first < 0 || class == DOC_JOINED ||
                  ((class == DOC_LETTER || class == DOC_DIGIT) && (first == DOC_LETTER || first == DOC_DIGIT));
    if (!goes_on) {
      break;
    }
    first = first < 0 ? (class == DOC_JOINED ? DOC_LETTER : class) : first;
    at += n > 0 ? n : 1;
  }
  *is_word = is_word_class(first);
  return at;
}

static tsr_status split(doc_units *units, const char *cuts)
{
  const doc_buffer *text = &units->text;
  for (size_t at = 0; at < text->size;) {
    int32_t character, is_word;
    size_t n = doc_utf8(text->bytes + at, text->size - at, &character);
    if (doc_class(character) == DOC_SPACE && n > 0) {
      at += n;
      continue;
    }
    doc_unit *grown = doc_grow(units->units, units->n, &units->room, sizeof *grown);
    if (!grown || units->n >= INT32_MAX - 1) {
      units->units = grown ? grown : units->units;
      return doc_no_memory();
    }
    units->units = grown;
    size_t end = unit_end(text, at, cuts, &is_word);
    grown[units->n++] = (doc_unit){.begin = at, .end = end, .is_word = is_word, .leaf = -1, .owner = -1};
    at = end;
  }
  return TSR_OK;
}

/* ---- what is verbatim -------------------------------------------------------------------------------------------- */

typedef struct match {
  int32_t piece;
  size_t begin;
  size_t end;
} match;

/* 1 if no word goes on there. */
static int is_border(const doc_buffer *text, size_t at)
{
  return at == 0 || at >= text->size || (unsigned char)text->bytes[at] >= 0x80 ||
         doc_class((unsigned char)text->bytes[at - 1]) != DOC_LETTER ||
         doc_class((unsigned char)text->bytes[at]) != DOC_LETTER;
}

/* Where the text of a piece stands in the translation, free, and next to `near`. */
static int find_verbatim(const doc_block *block, const doc_piece *piece, const doc_buffer *text, const char *taken,
                         size_t near, size_t *budget, size_t *found)
{
  const char *wanted = block->text.bytes + piece->begin;
  size_t size = piece->end - piece->begin, best = SIZE_MAX;
  for (size_t at = 0; at + size <= text->size; at++) {
    if (*budget == 0) {
      break;
    }
    --*budget;
    if (text->bytes[at] != wanted[0] || taken[at] || memcmp(text->bytes + at, wanted, size) != 0 ||
        memchr(taken + at, 1, size) || !is_border(text, at) || !is_border(text, at + size)) {
      continue;
    }
    size_t away = at > near ? at - near : near - at;
    if (away < best) {
      best = away;
      *found = at;
    }
  }
  return best != SIZE_MAX;
}

/* The byte of the translation that was made from that of the text. */
static size_t place_of(const doc_units *units, size_t source)
{
  for (size_t i = 0; i < units->n_links; i++) {
    if ((size_t)units->links[i].source_begin <= source && source < (size_t)units->links[i].source_end) {
      return (size_t)units->links[i].target_begin;
    }
  }
  return source;
}

/* 1 if a letter or digit stands on both sides of that byte of a text. */
static int is_within_word(const doc_buffer *text, size_t at)
{
  if (at == 0 || at >= text->size) {
    return 0;
  }
  int32_t before = doc_class((unsigned char)text->bytes[at - 1]), behind = doc_class((unsigned char)text->bytes[at]);
  return (before == DOC_LETTER || before == DOC_DIGIT) && (behind == DOC_LETTER || behind == DOC_DIGIT);
}

/* 1 if a piece is looked for by its text: what is verbatim, and a part of a word, as the digit of H2O. */
static int is_looked_for(const doc_block *block, const doc_piece *piece)
{
  return piece->kind == DOC_VERBATIM ||
         (piece->kind == DOC_ELEMENT && piece->begin < piece->end && piece->end - piece->begin < 16 &&
          (is_within_word(&block->text, piece->begin) || is_within_word(&block->text, piece->end)));
}

static void find_matches(const doc_block *block, const doc_units *units, match *matches, size_t *n_matches, char *taken)
{
  size_t budget = MOST_COMPARED;
  for (size_t i = 0; i < block->n_pieces; i++) {
    const doc_piece *piece = &block->pieces[i];
    size_t found;
    size_t work = units->n_links < budget ? units->n_links : budget;
    int is_wanted = is_looked_for(block, piece);
    budget -= is_wanted ? work : 0;
    if (is_wanted && budget > 0 &&
        find_verbatim(block, piece, &units->text, taken, place_of(units, piece->begin), &budget, &found)) {
      size_t size = piece->end - piece->begin;
      memset(taken + found, 1, size);
      matches[(*n_matches)++] = (match){(int32_t)i, found, found + size};
    }
  }
}

/* The unit that begins there, or behind. */
static size_t unit_at(const doc_units *units, size_t begin)
{
  size_t low = 0, high = units->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (units->units[middle].begin < begin) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static void pin(const doc_block *block, doc_units *units, const match *m)
{
  for (size_t i = unit_at(units, m->begin); i < units->n && units->units[i].end <= m->end; i++) {
    doc_unit *unit = &units->units[i];
    unit->leaf = m->piece;
    unit->from = block->pieces[m->piece].begin;
    unit->is_made = 1;
    unit->n_links = 0;
    unit->is_pinned = 1;
  }
}

/* What was found by its text is there and nowhere else. */
static void unpin_others(const doc_block *block, doc_units *units, const match *matches, size_t n, char *is_found)
{
  for (size_t i = 0; i < n; i++) {
    is_found[matches[i].piece] = 1;
  }
  for (size_t i = 0; i < units->n; i++) {
    doc_unit *unit = &units->units[i];
    while (!unit->is_pinned && unit->leaf >= 0 && is_found[unit->leaf]) {
      unit->leaf = block->pieces[unit->leaf].parent;
    }
  }
}

/* ---- what each was made from ------------------------------------------------------------------------------------- */

static void set_leaves(const doc_block *block, doc_units *units)
{
  for (size_t i = 0; i < block->text.size; i++) {
    units->leaves[i] = -1;
  }
  for (size_t i = 0; i < block->n_pieces; i++) { /* inner ones come later */
    for (size_t at = block->pieces[i].begin; at < block->pieces[i].end; at++) {
      units->leaves[at] = (int32_t)i;
    }
  }
}

static int is_in(const doc_block *block, int32_t piece, int32_t outer)
{
  while (piece > outer) {
    piece = block->pieces[piece].parent;
  }
  return piece == outer;
}

/* The innermost piece that encloses half or more of what the unit was made from. */
static int32_t choose_leaf(const doc_block *block, const doc_units *units, const doc_unit *unit)
{
  enum { KINDS = 16 };
  int32_t pieces[KINDS], counts[KINDS], n = 0, total = 0;
  for (size_t i = unit->link; i < unit->link + unit->n_links; i++) {
    for (int32_t at = units->links[i].source_begin; at < units->links[i].source_end; at++) {
      int32_t leaf = units->leaves[at], k = 0;
      while (k < n && pieces[k] != leaf) {
        k++;
      }
      if (k == n && n < KINDS) {
        pieces[n] = leaf;
        counts[n++] = 0;
      }
      if (k < n) {
        counts[k]++;
      }
      total++;
    }
  }
  int32_t best = -1;
  for (int32_t k = 0; k < n; k++) {
    for (int32_t candidate = pieces[k]; candidate > best; candidate = block->pieces[candidate].parent) {
      int32_t sum = 0;
      for (int32_t other = 0; other < n; other++) {
        sum += pieces[other] >= 0 && is_in(block, pieces[other], candidate) ? counts[other] : 0;
      }
      if (2 * sum >= total) {
        best = candidate;
        break;
      }
    }
  }
  return best;
}

/* Links and units are both in the order of the translation. */
static void link_units(const doc_block *block, doc_units *units)
{
  size_t first = 0;
  for (size_t i = 0; i < units->n; i++) {
    doc_unit *unit = &units->units[i];
    while (first < units->n_links && (size_t)units->links[first].target_end <= unit->begin) {
      first++;
    }
    unit->link = first;
    while (first + unit->n_links < units->n_links &&
           (size_t)units->links[first + unit->n_links].target_begin < unit->end) {
      unit->n_links++;
    }
    if (unit->n_links > 0) {
      unit->from = (size_t)units->links[first].source_begin;
      unit->is_made = 1;
      unit->leaf = choose_leaf(block, units, unit);
    }
  }
}

/* Units that nothing tells about stand where those before them do, but in their own segment. */
static void fill_places(const doc_block *block, const doc_batch *batch, doc_units *units)
{
  size_t at = 0, unit = 0, end = 0;
  for (size_t i = 0; i < block->n_segments; i++) {
    const doc_segment *segment = &block->segments[i];
    at += segment->begin - end;
    at += segment->entry >= 0 ? batch->entries[segment->entry].target_size : segment->end - segment->begin;
    end = segment->end;
    size_t from = segment->begin;
    for (; unit < units->n && units->units[unit].begin < at; unit++) {
      if (!units->units[unit].is_made) {
        units->units[unit].from = from;
      }
      from = units->units[unit].from;
    }
  }
}

/* A word does not go on from one segment into the next. */
static void cut_segments(const doc_block *block, const doc_batch *batch, char *cuts)
{
  size_t at = 0, end = 0;
  for (size_t i = 0; i < block->n_segments; i++) {
    const doc_segment *segment = &block->segments[i];
    at += segment->begin - end;
    cuts[at] = 1;
    at += segment->entry >= 0 ? batch->entries[segment->entry].target_size : segment->end - segment->begin;
    end = segment->end;
  }
}

static tsr_status find_units(const doc_block *block, const doc_batch *batch, doc_units *units, match *matches,
                             char *taken)
{
  size_t n_matches = 0;
  find_matches(block, units, matches, &n_matches, taken);
  memset(taken, 0, units->text.size + 1);
  for (size_t i = 0; i < n_matches; i++) {
    taken[matches[i].begin] = taken[matches[i].end] = 1;
  }
  cut_segments(block, batch, taken);
  tsr_status status = split(units, taken);
  if (status == TSR_OK) {
    set_leaves(block, units);
    link_units(block, units);
    for (size_t i = 0; i < n_matches; i++) {
      pin(block, units, &matches[i]);
    }
    char *is_found = calloc(block->n_pieces + 1, 1);
    if (!is_found) {
      return doc_no_memory();
    }
    unpin_others(block, units, matches, n_matches, is_found);
    free(is_found);
    fill_places(block, batch, units);
  }
  return status;
}

tsr_status doc_units_make(const doc_block *block, const doc_batch *batch, doc_units *units)
{
  tsr_status status = join_segments(block, batch, units);
  if (status != TSR_OK || !units->changed) {
    return status;
  }
  char *taken = calloc(units->text.size + 1, 1);
  match *matches = malloc((block->n_pieces + 1) * sizeof *matches);
  units->leaves = malloc((block->text.size + 1) * sizeof *units->leaves);
  status = taken && matches && units->leaves ? find_units(block, batch, units, matches, taken) : doc_no_memory();
  free(taken);
  free(matches);
  return status;
}
