/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the pieces of a block go in its translation. From the outside in, each element takes the range of units, within
 * that of its parent, in which those made from its text are most and those made from other text are few; no range
 * crosses another. A point goes where the fewest units stand on the wrong side of it.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/documents/block.h"
#include "tools/tessera/documents/units.h"

/* Looks at units that a block costs at most, beside those in proportion to its size: where it has very many pieces,
 * what is left of them goes to the beginning of its parent. */
enum { MOST_LOOKS = 1 << 26 };

typedef struct placing {
  doc_block *block;
  doc_units units;
  int32_t *first_member; /* [pieces + 1] into members */
  int32_t *members;      /* units of each piece, in order */
  int32_t *ends;         /* [pieces] behind the last piece within it */
  int32_t *points;       /* [units + 1] the first piece that stands in front of that unit; -1 */
  int32_t *next_point;   /* [pieces] the next one there */
  int32_t *starts;       /* likewise, of those that begin there */
  int32_t *next_start;
  int32_t *tops; /* [units] of a parent: its child at each unit */
  size_t budget;
  doc_placement *out;
} placing;

static void finish_placing(placing *p)
{
  doc_units_finish(&p->units);
  free(p->first_member);
  free(p->members);
  free(p->ends);
  free(p->points);
  free(p->next_point);
  free(p->starts);
  free(p->next_start);
  free(p->tops);
}

static int32_t *integers(size_t n)
{
  int32_t *made = malloc((n + 1) * sizeof *made);
  for (size_t i = 0; made && i <= n; i++) {
    made[i] = -1;
  }
  return made;
}

static tsr_status make_lists(placing *p)
{
  size_t n_pieces = p->block->n_pieces, n_units = p->units.n;
  p->first_member = integers(n_pieces + 1);
  p->ends = integers(n_pieces);
  p->points = integers(n_units);
  p->next_point = integers(n_pieces);
  p->starts = integers(n_units);
  p->next_start = integers(n_pieces);
  p->tops = integers(n_units);
  if (!p->first_member || !p->ends || !p->points || !p->next_point || !p->starts || !p->next_start || !p->tops) {
    return doc_no_memory();
  }
  for (size_t i = n_pieces; i-- > 0;) {
    int32_t parent = p->block->pieces[i].parent;
    p->ends[i] = p->ends[i] < 0 ? (int32_t)i + 1 : p->ends[i];
    if (parent >= 0 && p->ends[parent] < p->ends[i]) {
      p->ends[parent] = p->ends[i];
    }
  }
  return TSR_OK;
}

/* The units of each piece: those whose leaf lies in it. */
static tsr_status make_members(placing *p)
{
  const doc_piece *pieces = p->block->pieces;
  int32_t n_pieces = (int32_t)p->block->n_pieces, total = 0;
  for (int32_t i = 0; i <= n_pieces; i++) {
    p->first_member[i] = 0;
  }
  for (size_t u = 0; u < p->units.n; u++) {
    for (int32_t i = p->units.units[u].leaf; i >= 0; i = pieces[i].parent) {
      p->first_member[i]++;
      total++;
    }
  }
  p->members = integers((size_t)total);
  if (!p->members) {
    return doc_no_memory();
  }
  int32_t sum = 0;
  for (int32_t i = 0; i <= n_pieces; i++) { /* behind the last of each; filled from the end */
    sum += i < n_pieces ? p->first_member[i] : 0;
    p->first_member[i] = sum;
  }
  for (size_t u = p->units.n; u-- > 0;) {
    for (int32_t i = p->units.units[u].leaf; i >= 0; i = pieces[i].parent) {
      p->members[--p->first_member[i]] = (int32_t)u;
    }
  }
  return TSR_OK;
}

static int32_t range_begin(const placing *p, int32_t piece)
{
  return piece < 0 ? 0 : p->block->pieces[piece].low;
}

static int32_t range_end(const placing *p, int32_t piece)
{
  return piece < 0 ? (int32_t)p->units.n : p->block->pieces[piece].high;
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

/* The cost of bridging the units between two members; -1: it cannot be. */
static int32_t bridge(placing *p, const doc_piece *piece, int32_t from, int32_t to)
{
  int32_t cost = 0;
  for (int32_t u = from + 1; u < to; u++) {
    const doc_unit *unit = &p->units.units[u];
    if (unit->owner != piece->parent || p->budget == 0) {
      return -1;
    }
    p->budget--;
    cost += unit->is_word && unit->is_made ? 2 : 0;
  }
  return cost > 0 && piece->kind == DOC_VERBATIM ? -1 : cost;
}

/* Finds the range: of consecutive members that whose sum of gains and costs is greatest, the longest of these. */
static int find_range(placing *p, const doc_piece *piece, const int32_t *members, int32_t n, int32_t *low,
                      int32_t *high)
{
  int32_t best = 0, sum = 0, start = -1, last = -1, begin = range_begin(p, piece->parent),
          end = range_end(p, piece->parent);
  for (int32_t i = 0; i < n; i++) {
    int32_t u = members[i];
    const doc_unit *unit = &p->units.units[u];
    if (u < begin || u >= end || unit->owner != piece->parent) {
      continue;
    }
    int32_t cost = start < 0 ? -1 : bridge(p, piece, last, u);
    if (cost < 0 || sum < cost) {
      sum = 0;
      start = u;
    } else {
      sum -= cost;
    }
    last = u;
    sum += unit->is_word ? 2 : 1;
    if (sum > best || (sum == best && u - start >= *high - *low)) {
      best = sum;
      *low = start;
      *high = u + 1;
    }
  }
  return best > 0;
}

/* 1 if the text of the piece begins (side 0) or ends (1) with punctuation, which is also this unit's. */
static int has_edge(const placing *p, const doc_piece *piece, int32_t side, const doc_unit *unit)
{
  const char *text = p->block->text.bytes;
  size_t size = unit->end - unit->begin;
  if (size > piece->end - piece->begin) {
    return 0;
  }
  const char *edge = text + (side ? piece->end - size : piece->begin);
  return memcmp(edge, p->units.text.bytes + unit->begin, size) == 0;
}

static int begins_with_mark(const placing *p, const doc_piece *piece)
{
  int32_t character;
  doc_utf8(p->block->text.bytes + piece->begin, piece->end - piece->begin, &character);
  return doc_class(character) == DOC_MARK;
}

static int ends_with_mark(const placing *p, const doc_piece *piece)
{
  const char *text = p->block->text.bytes;
  size_t at = piece->end - 1;
  int32_t character;
  while (at > piece->begin && ((unsigned char)text[at] & 0xC0) == 0x80) {
    at--;
  }
  doc_utf8(text + at, piece->end - at, &character);
  return doc_class(character) == DOC_MARK;
}

/* Punctuation at the ends of a range is in it if it is at the ends of the text, too. */
static void fit_edges(const placing *p, const doc_piece *piece, int32_t *low, int32_t *high)
{
  const doc_unit *units = p->units.units;
  int32_t first = *low, end = *high;
  while (first < end && !units[first].is_word) {
    first++;
  }
  if (first == end) { /* nothing else */
    return;
  }
  while (!units[end - 1].is_word) {
    end--;
  }
  *low = begins_with_mark(p, piece) ? *low : first;
  *high = ends_with_mark(p, piece) ? *high : end;
  int32_t begin_most = range_begin(p, piece->parent), end_most = range_end(p, piece->parent);
  const doc_unit *before = *low > begin_most ? &units[*low - 1] : NULL;
  const doc_unit *behind = *high < end_most ? &units[*high] : NULL;
  if (before && !before->is_word && units[*low].is_word && before->owner == piece->parent &&
      has_edge(p, piece, 0, before)) {
    --*low;
  }
  if (behind && !behind->is_word && units[*high - 1].is_word && behind->owner == piece->parent &&
      has_edge(p, piece, 1, behind)) {
    ++*high;
  }
}

static void own(placing *p, int32_t index, int32_t low, int32_t high)
{
  p->block->pieces[index].low = low;
  p->block->pieces[index].high = high;
  for (int32_t u = low; u < high; u++) {
    p->units.units[u].owner = index;
  }
}

/* Units that were made from any part of it: where an element ends within a word, another may have most of it. */
static int find_loose(placing *p, const doc_piece *piece, int32_t *low, int32_t *high)
{
  for (int32_t u = range_begin(p, piece->parent); u < range_end(p, piece->parent) && p->budget > 0; u++) {
    const doc_unit *unit = &p->units.units[u];
    for (size_t i = unit->link; unit->owner == piece->parent && i < unit->link + unit->n_links; i++) {
      const tsr_document_link *link = &p->units.links[i];
      if ((size_t)link->source_begin < piece->end && (size_t)link->source_end > piece->begin) {
        *low = u;
        *high = u + 1;
        return 1;
      }
    }
    p->budget--;
  }
  return 0;
}

/* 1 if the piece has all the text that its parent has. */
static int is_whole(const placing *p, const doc_piece *piece)
{
  size_t begin = piece->parent < 0 ? 0 : p->block->pieces[piece->parent].begin;
  size_t end = piece->parent < 0 ? p->block->text.size : p->block->pieces[piece->parent].end;
  return piece->kind == DOC_ELEMENT && piece->begin <= begin && piece->end >= end && piece->begin < piece->end;
}

static void place_element(placing *p, int32_t index)
{
  doc_piece *piece = &p->block->pieces[index];
  const int32_t *members = p->members + p->first_member[index];
  int32_t n = p->first_member[index + 1] - p->first_member[index], low = 0, high = 0;
  if (piece->begin == piece->end) {
    return;
  }
  if (is_whole(p, piece)) {
    own(p, index, range_begin(p, piece->parent), range_end(p, piece->parent));
  } else if (find_range(p, piece, members, n, &low, &high)) {
    if (piece->kind == DOC_ELEMENT) {
      fit_edges(p, piece, &low, &high);
    }
    own(p, index, low, high);
  } else if (piece->kind == DOC_ELEMENT && find_loose(p, piece, &low, &high)) {
    own(p, index, low, high);
  }
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

static int is_point(const doc_piece *piece)
{
  return piece->low == piece->high;
}

/* The child of `parent` that encloses each unit of its range; -1: none. */
static void set_tops(placing *p, int32_t parent)
{
  for (int32_t u = range_begin(p, parent); u < range_end(p, parent); u++) {
    int32_t top = p->units.units[u].owner;
    while (top >= 0 && p->block->pieces[top].parent != parent) {
      top = p->block->pieces[top].parent;
    }
    p->tops[u] = top == parent ? -1 : top;
  }
}

/* The units beside the place of a point in the text: the nearest places that any of the range was made from. */
typedef struct neighbours {
  size_t before;
  size_t behind;
} neighbours;

static neighbours find_neighbours(const placing *p, size_t at, int32_t begin, int32_t end)
{
  neighbours found = {SIZE_MAX, SIZE_MAX};
  for (int32_t u = begin; u < end; u++) {
    size_t from = p->units.units[u].from;
    if (from < at && (found.before == SIZE_MAX || from > found.before)) {
      found.before = from;
    } else if (from >= at && from < found.behind) {
      found.behind = from;
    }
  }
  return found;
}

static int are_beside(const placing *p, int32_t k, neighbours n)
{
  size_t left = p->units.units[k - 1].from, right = p->units.units[k].from;
  return n.before != SIZE_MAX && n.behind != SIZE_MAX &&
         ((left == n.before && right == n.behind) || (left == n.behind && right == n.before));
}

/* Between which units of its parent's range a point stands: those that were made from its neighbours, if they are
 * neighbours, else where the fewest units are on the wrong side; where these places are several, beside the word that
 * it stood beside. Not before `least`, where the point before it stands. */
static int32_t choose_place(placing *p, const doc_piece *piece, int32_t least)
{
  int32_t begin = range_begin(p, piece->parent), end = range_end(p, piece->parent);
  size_t first = piece->parent < 0 ? 0 : p->block->pieces[piece->parent].begin;
  size_t last = piece->parent < 0 ? p->block->text.size : p->block->pieces[piece->parent].end;
  size_t length = (size_t)(end - begin);
  if (piece->begin <= first || p->budget < length) {
    return least > begin ? least : begin;
  }
  if (piece->begin >= last) {
    return end;
  }
  p->budget -= length;
  neighbours near = find_neighbours(p, piece->begin, begin, end);
  int32_t leans_right = piece->before && !piece->after;
  int32_t cost = 0, best_cost = 0, best = -1;
  for (int32_t k = begin; k <= end; k++) {
    if (k > begin) {
      cost += p->units.units[k - 1].from >= piece->begin ? 1 : -1;
    }
    int is_inside = k > begin && k < end && p->tops[k] >= 0 && p->tops[k] == p->tops[k - 1];
    if (k >= least && !is_inside && k > begin && k < end && are_beside(p, k, near)) {
      return k;
    }
    if (k >= least && !is_inside && (best < 0 || cost < best_cost || (cost == best_cost && leans_right))) {
      best_cost = cost;
      best = k;
    }
  }
  return best < 0 ? end : best;
}

/* Places what has no range, parent by parent. */
static void place_points(placing *p)
{
  doc_piece *pieces = p->block->pieces;
  int32_t n = (int32_t)p->block->n_pieces;
  for (int32_t parent = -1; parent < n; parent++) {
    if (parent >= 0 && (pieces[parent].kind != DOC_ELEMENT || p->ends[parent] == parent + 1)) {
      continue;
    }
    int has_tops = 0;
    int32_t least = 0;
    for (int32_t i = parent + 1; i < (parent < 0 ? n : p->ends[parent]); i = p->ends[i]) {
      if (is_point(&pieces[i])) {
        if (!has_tops) {
          set_tops(p, parent);
          has_tops = 1;
        }
        least = choose_place(p, &pieces[i], least);
        pieces[i].low = pieces[i].high = least;
      }
    }
  }
}

/* ---- what to write ----------------------------------------------------------------------------------------------- */

static tsr_status add_event(placing *p, int32_t kind, int32_t piece, int32_t style, size_t begin, size_t end)
{
  doc_placement *out = p->out;
  doc_event *before = out->n_events > 0 ? &out->events[out->n_events - 1] : NULL;
  if (kind == DOC_TEXT && begin == end) {
    return TSR_OK;
  }
  if (kind == DOC_TEXT && before && before->kind == DOC_TEXT && before->style == style && before->end == begin) {
    before->end = end;
    return TSR_OK;
  }
  doc_event *events = doc_grow(out->events, out->n_events, &out->room, sizeof *events);
  if (!events) {
    return doc_no_memory();
  }
  out->events = events;
  int32_t tag = piece >= 0 ? p->block->pieces[piece].tag : 0;
  events[out->n_events++] = (doc_event){kind, tag, style, begin, end};
  return TSR_OK;
}

/* Writes a blank that the text has beside a point: the translation's own, once, or another. */
static tsr_status add_blank(placing *p, char c, doc_event *blank)
{
  if (!c) {
    return TSR_OK;
  }
  if (c == ' ' && blank->end > blank->begin) {
    size_t begin = blank->begin;
    blank->begin = blank->end;
    return add_event(p, DOC_TEXT, -1, blank->style, begin, blank->end);
  }
  size_t begin = p->out->text.size;
  doc_buffer_char(&p->out->text, c);
  tsr_status status = doc_buffer_check(&p->out->text);
  return status == TSR_OK ? add_event(p, DOC_TEXT, -1, blank->style, begin, begin + 1) : status;
}

/* A point; or an element without text, with all that is in it. */
static tsr_status add_point(placing *p, int32_t index)
{
  const doc_piece *pieces = p->block->pieces;
  if (pieces[index].kind != DOC_ELEMENT) {
    return add_event(p, DOC_PUT, index, 0, 0, 0);
  }
  int32_t open[DOC_DEPTH + 1], n_open = 0;
  tsr_status status = TSR_OK;
  for (int32_t i = index; i <= p->ends[index] && status == TSR_OK; i++) {
    while (n_open > 0 && p->ends[open[n_open - 1]] <= i && status == TSR_OK) {
      status = add_event(p, DOC_CLOSE, open[--n_open], 0, 0, 0);
    }
    if (i < p->ends[index] && status == TSR_OK) {
      int is_element = pieces[i].kind == DOC_ELEMENT;
      status = add_event(p, is_element ? DOC_OPEN : DOC_PUT, i, 0, 0, 0);
      if (is_element) {
        open[n_open++] = i;
      }
    }
  }
  return status;
}

/* The points in front of unit k whose parent is `parent`. blank: what the translation has there, written if no point
 * says otherwise; NULL: nothing is. */
static tsr_status add_points(placing *p, int32_t k, int32_t parent, doc_event *blank)
{
  const doc_piece *pieces = p->block->pieces;
  int is_first = 1, has_blank = 0, breaks = 0;
  char pending = 0;
  tsr_status status = TSR_OK;
  for (int32_t i = p->points[k]; i >= 0 && status == TSR_OK; i = p->next_point[i]) {
    if (pieces[i].parent != parent) {
      continue;
    }
    char before = pending ? pending : pieces[i].before;
    if (blank && before && (!is_first || k > 0)) {
      status = add_blank(p, before, blank);
      has_blank = 1;
    }
    is_first = 0;
    status = status == TSR_OK ? add_point(p, i) : status;
    breaks |= pieces[i].breaks;
    pending = pieces[i].after;
  }
  if (blank && status == TSR_OK) {
    size_t length = blank->end - blank->begin;
    if (is_first || (!pending && !has_blank && !breaks && length > 0)) {
      status = add_event(p, DOC_TEXT, -1, blank->style, blank->begin, blank->end);
    } else if (pending && k < (int32_t)p->units.n) {
      status = add_blank(p, pending, blank);
    }
  }
  return status;
}

/* What stands between two units: ends of elements, points, blanks, beginnings. */
static tsr_status add_gap(placing *p, int32_t k, int32_t *open, doc_event *blank)
{
  const doc_piece *pieces = p->block->pieces;
  tsr_status status = TSR_OK;
  while (*open >= 0 && pieces[*open].high == k && status == TSR_OK) {
    status = add_points(p, k, *open, NULL);
    status = status == TSR_OK ? add_event(p, DOC_CLOSE, *open, 0, 0, 0) : status;
    *open = pieces[*open].parent;
  }
  status = status == TSR_OK ? add_points(p, k, *open, blank) : status;
  for (int32_t i = p->starts[k]; i >= 0 && status == TSR_OK; i = p->next_start[i]) {
    if (pieces[i].parent != *open || pieces[i].kind != DOC_ELEMENT) {
      continue;
    }
    status = add_event(p, DOC_OPEN, i, 0, 0, 0);
    *open = i;
    status = status == TSR_OK ? add_points(p, k, i, NULL) : status;
  }
  return status;
}

/* Lists, for each unit, of the pieces that stand in front of it, in their order. */
static void list_pieces(placing *p)
{
  for (size_t i = p->block->n_pieces; i-- > 0;) {
    const doc_piece *piece = &p->block->pieces[i];
    const doc_piece *parent = piece->parent >= 0 ? &p->block->pieces[piece->parent] : NULL;
    if (!is_point(piece)) {
      p->next_start[i] = p->starts[piece->low];
      p->starts[piece->low] = (int32_t)i;
    } else if (!parent || !is_point(parent)) { /* others come with their parent */
      p->next_point[i] = p->points[piece->low];
      p->points[piece->low] = (int32_t)i;
    }
  }
}

/* ---- styles ------------------------------------------------------------------------------------------------------ */

static int32_t style_at(const doc_block *block, size_t at)
{
  size_t low = 0, high = block->n_styles;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (block->styles[middle].begin <= at) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return block->n_styles > 0 ? block->styles[low].style : 0;
}

/* The style of a unit that has one of its own; -1: it is outside the element that it was made from. */
static int32_t own_style(const placing *p, const doc_unit *unit)
{
  return unit->is_made && unit->leaf == unit->owner ? style_at(p->block, unit->from) : -1;
}

/* The first style of an element's own text, or of the block's. */
static int32_t first_style(const placing *p, int32_t owner)
{
  const doc_piece *piece = owner >= 0 ? &p->block->pieces[owner] : NULL;
  size_t at = piece ? piece->begin : 0, end = piece ? piece->end : p->block->text.size;
  size_t begin = at;
  while (at < end && p->units.leaves[at] != owner) {
    at++;
  }
  return style_at(p->block, at < end ? at : begin);
}

/* Into tops, which are not needed any more. Units without a style take that of their neighbour in the element. */
static void choose_styles(placing *p)
{
  const doc_unit *units = p->units.units;
  int32_t n = (int32_t)p->units.n;
  for (int32_t u = 0; u < n; u++) {
    p->tops[u] = own_style(p, &units[u]);
    if (p->tops[u] < 0 && u > 0 && units[u - 1].owner == units[u].owner) {
      p->tops[u] = p->tops[u - 1];
    }
  }
  for (int32_t u = n - 1; u >= 0; u--) {
    if (p->tops[u] < 0) {
      p->tops[u] = u + 1 < n && units[u + 1].owner == units[u].owner ? p->tops[u + 1] : first_style(p, units[u].owner);
    }
  }
}

static tsr_status write_events(placing *p)
{
  const doc_unit *units = p->units.units;
  int32_t n = (int32_t)p->units.n, open = -1, style = p->block->n_styles > 0 ? style_at(p->block, 0) : 0;
  doc_buffer_add(&p->out->text, p->units.text.bytes, p->units.text.size);
  tsr_status status = doc_buffer_check(&p->out->text);
  size_t end = 0;
  for (int32_t k = 0; k <= n && status == TSR_OK; k++) {
    size_t begin = k < n ? units[k].begin : p->units.text.size;
    /* A blank between an element and what is around it is not the element's. */
    int is_left = k > 0 && k < n && units[k - 1].owner > units[k].owner && p->block->n_styles > 0;
    doc_event blank = {.kind = DOC_TEXT, .style = is_left ? p->tops[k] : style, .begin = end, .end = begin};
    status = add_gap(p, k, &open, &blank);
    if (k == n || status != TSR_OK) {
      break;
    }
    style = p->block->n_styles > 0 ? p->tops[k] : 0;
    end = units[k].end;
    int32_t owner = units[k].owner;
    if (owner >= 0 && p->block->pieces[owner].kind == DOC_VERBATIM) {
      const doc_piece *piece = &p->block->pieces[owner];
      status = add_event(p, DOC_PUT, owner, 0, 0, 0);
      k = piece->high - 1;
      end = units[k].end;
    } else {
      status = add_event(p, DOC_TEXT, -1, style, begin, end);
    }
  }
  return status;
}

static tsr_status place(placing *p)
{
  tsr_status status = make_lists(p);
  if (status == TSR_OK) {
    status = make_members(p);
  }
  if (status != TSR_OK) {
    return status;
  }
  for (int32_t i = 0; i < (int32_t)p->block->n_pieces; i++) {
    p->block->pieces[i].low = p->block->pieces[i].high = 0;
    place_element(p, i);
  }
  place_points(p);
  list_pieces(p);
  if (p->block->n_styles > 0) {
    choose_styles(p);
  }
  return write_events(p);
}

void doc_placement_finish(doc_placement *placement)
{
  doc_buffer_finish(&placement->text);
  free(placement->events);
  *placement = (doc_placement){0};
}

tsr_status doc_block_place(doc_block *block, const doc_batch *batch, doc_placement *placement)
{
  placing p = {.block = block, .budget = MOST_LOOKS, .out = placement};
  tsr_status status = doc_units_make(block, batch, &p.units);
  placement->changed = p.units.changed;
  if (status == TSR_OK && placement->changed) {
    status = place(&p);
  }
  finish_placing(&p);
  return status;
}
