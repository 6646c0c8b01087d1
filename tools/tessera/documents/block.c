/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/block.h"

#include <stdlib.h>
#include <string.h>

#include "tools/tessera/documents/sentences.h"

/* An element that has no text yet. */
#define UNSET SIZE_MAX

/* Bytes of verbatim text that a sentence is shown; a longer one is a point. */
enum { LONGEST_VERBATIM = 80 };

void doc_block_begin(doc_block *block)
{
  *block = (doc_block){.open = -1, .last = -1};
}

void doc_block_finish(doc_block *block)
{
  doc_buffer_finish(&block->text);
  free(block->pieces);
  free(block->styles);
  free(block->cuts);
  free(block->segments);
  doc_block_begin(block);
}

static void add_blank(doc_block *block, char c)
{
  char blank = c == '\n' || c == '\r' ? '\n' : ' ';
  block->blank = block->blank == '\n' ? '\n' : blank;
  block->recent = block->recent == '\n' ? '\n' : blank;
  if (block->last >= 0 && block->pieces[block->last].after != '\n') {
    block->pieces[block->last].after = blank;
  }
}

static void note_style(doc_block *block, size_t begin)
{
  if (!block->has_style || (block->n_styles > 0 && block->styles[block->n_styles - 1].style == block->style)) {
    return;
  }
  doc_style *styles = doc_grow(block->styles, block->n_styles, &block->styles_room, sizeof *styles);
  if (!styles) {
    block->failed = 1;
    return;
  }
  block->styles = styles;
  styles[block->n_styles++] = (doc_style){begin, block->style};
}

/* Before the first byte of some text. */
static void begin_text(doc_block *block)
{
  if (block->blank && block->text.size > 0) {
    doc_buffer_char(&block->text, ' ');
  }
  size_t begin = block->text.size;
  for (int32_t i = block->open; i >= 0 && block->pieces[i].begin == UNSET; i = block->pieces[i].parent) {
    block->pieces[i].begin = begin;
  }
  note_style(block, begin);
  block->blank = block->recent = 0;
  block->last = -1;
}

/* Control characters count as blanks: they are nothing that a model reads, and a NUL would end the text. */
static int is_blank(char c)
{
  return (unsigned char)c <= 0x20 || c == 0x7F;
}

void doc_block_text(doc_block *block, const char *text, size_t size)
{
  for (size_t i = 0; i < size;) {
    size_t end = i;
    while (end < size && !is_blank(text[end])) {
      end++;
    }
    if (end > i) {
      begin_text(block);
      doc_buffer_add(&block->text, text + i, end - i);
    }
    for (; end < size && is_blank(text[end]); end++) {
      add_blank(block, text[end]);
    }
    i = end;
  }
}

void doc_block_style(doc_block *block, int32_t style)
{
  block->style = style;
  block->has_style = 1;
}

static int32_t add_piece(doc_block *block, const doc_piece *piece)
{
  doc_piece *pieces = doc_grow(block->pieces, block->n_pieces, &block->pieces_room, sizeof *pieces);
  if (!pieces || block->n_pieces >= INT32_MAX - 1) {
    block->failed = 1;
    return -1;
  }
  block->pieces = pieces;
  pieces[block->n_pieces] = *piece;
  pieces[block->n_pieces].parent = block->open;
  pieces[block->n_pieces].before = block->recent;
  block->recent = 0;
  return (int32_t)block->n_pieces++;
}

int32_t doc_block_enter(doc_block *block, int32_t tag)
{
  if (block->depth >= DOC_DEPTH) {
    return -1;
  }
  int32_t index = add_piece(block, &(doc_piece){.kind = DOC_ELEMENT, .tag = tag, .begin = UNSET, .end = UNSET});
  if (index >= 0) {
    block->open = index;
    block->depth++;
    block->last = -1;
  }
  return index;
}

void doc_block_leave(doc_block *block)
{
  int32_t index = block->open;
  if (index < 0) {
    return;
  }
  doc_piece *piece = &block->pieces[index];
  piece->end = block->text.size;
  if (piece->begin == UNSET) {
    piece->begin = piece->end;
    block->last = index;
    block->recent = 0;
  }
  block->open = piece->parent;
  block->depth--;
}

void doc_block_point(doc_block *block, int32_t tag, int32_t breaks)
{
  size_t at = block->text.size;
  block->last = add_piece(block, &(doc_piece){.kind = DOC_POINT, .tag = tag, .breaks = breaks, .begin = at, .end = at});
  if (breaks && !block->blank) {
    block->blank = ' ';
  }
}

void doc_block_verbatim(doc_block *block, int32_t tag, const char *text, size_t size)
{
  while (size > 0 && is_blank(text[0])) {
    text++;
    size--;
  }
  while (size > 0 && is_blank(text[size - 1])) {
    size--;
  }
  if (size == 0 || size > LONGEST_VERBATIM) {
    doc_block_point(block, tag, 0);
    return;
  }
  int32_t index = add_piece(block, &(doc_piece){.kind = DOC_VERBATIM, .tag = tag});
  begin_text(block);
  size_t begin = block->text.size;
  doc_block_text(block, text, size);
  if (index >= 0) {
    block->pieces[index].begin = begin;
    block->pieces[index].end = block->text.size;
    block->last = index;
  }
}

void doc_block_cut(doc_block *block)
{
  size_t at = block->text.size;
  if (at == 0 || (block->n_cuts > 0 && block->cuts[block->n_cuts - 1] == at)) {
    return;
  }
  size_t *cuts = doc_grow(block->cuts, block->n_cuts, &block->cuts_room, sizeof *cuts);
  if (!cuts) {
    block->failed = 1;
    return;
  }
  block->cuts = cuts;
  cuts[block->n_cuts++] = at;
}

static tsr_status add_segment(doc_block *block, size_t begin, size_t end, doc_batch *batch)
{
  const char *text = block->text.bytes;
  while (begin < end && text[begin] == ' ') {
    begin++;
  }
  while (begin < end && text[end - 1] == ' ') {
    end--;
  }
  if (begin == end) {
    return TSR_OK;
  }
  doc_segment *segments = doc_grow(block->segments, block->n_segments, &block->segments_room, sizeof *segments);
  if (!segments) {
    return doc_no_memory();
  }
  block->segments = segments;
  doc_segment *segment = &segments[block->n_segments++];
  *segment = (doc_segment){begin, end, -1};
  return doc_has_letter(text + begin, end - begin) ? doc_batch_add(batch, text + begin, end - begin, &segment->entry)
                                                   : TSR_OK;
}

/* The text from begin to end, sentence by sentence. */
static tsr_status add_sentences(doc_block *block, size_t begin, size_t end, doc_batch *batch)
{
  tsr_status status = TSR_OK;
  while (begin < end && status == TSR_OK) {
    size_t close = batch->has_paragraphs ? end : doc_sentence_end(block->text.bytes, begin, end);
    status = add_segment(block, begin, close, batch);
    begin = close;
  }
  return status;
}

tsr_status doc_block_ask(doc_block *block, doc_batch *batch)
{
  while (block->open >= 0) {
    doc_block_leave(block);
  }
  if (block->failed || block->text.failed || block->text.size > INT32_MAX / 2) {
    return doc_no_memory();
  }
  size_t begin = 0;
  tsr_status status = TSR_OK;
  for (size_t i = 0; i <= block->n_cuts && status == TSR_OK; i++) {
    size_t end = i < block->n_cuts ? block->cuts[i] : block->text.size;
    status = add_sentences(block, begin, end, batch);
    begin = end;
  }
  return status;
}
