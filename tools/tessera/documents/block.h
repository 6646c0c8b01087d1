/* SPDX-License-Identifier: Apache-2.0
 *
 * A paragraph: its text, and what stands within it. A format fills it, the batch translates it, and doc_block_place
 * tells what to write: texts, and where each piece goes.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_BLOCK_H
#define TESSERA_TOOLS_DOCUMENTS_BLOCK_H

#include "tools/tessera/documents/batch.h"
#include "tools/tessera/documents/buffer.h"

enum {
  DOC_ELEMENT, /* encloses text: stays in one piece, around the words that were made from its text */
  DOC_POINT,   /* stands between words */
  DOC_VERBATIM /* text that a sentence needs, and that no translation replaces */
};

/* Elements within each other at most; who enters more gets -1. */
enum { DOC_DEPTH = 100 };

typedef struct doc_piece {
  int32_t kind;   /* DOC_* */
  int32_t parent; /* the element that encloses it; -1: none */
  int32_t tag;    /* the format's */
  int32_t breaks; /* of a point: 1: the words beside it are two */
  size_t begin;   /* in the block's text; end is begin where there is none */
  size_t end;
  char before; /* the blank that stood beside it: ' ', '\n', or 0 */
  char after;
  int32_t low; /* where it goes: units of the translation, low .. high-1; between two where both are the same */
  int32_t high;
} doc_piece;

typedef struct doc_style {
  size_t begin;
  int32_t style;
} doc_style;

/* A part of the text that is translated by itself. */
typedef struct doc_segment {
  size_t begin; /* without blanks at its ends */
  size_t end;
  int32_t entry; /* of the batch; -1: it stays */
} doc_segment;

/* Zero it, set `open` and `last` to -1: doc_block_begin. */
typedef struct doc_block {
  doc_buffer text; /* blanks as one space each, none at the ends */
  doc_piece *pieces;
  size_t n_pieces;
  size_t pieces_room;
  doc_style *styles; /* in order; none: the format has none */
  size_t n_styles;
  size_t styles_room;
  size_t *cuts; /* where a part ends that is translated by itself */
  size_t n_cuts;
  size_t cuts_room;
  doc_segment *segments;
  size_t n_segments;
  size_t segments_room;
  /* While it is filled. */
  int32_t open;  /* the innermost element; -1: none */
  int32_t depth; /* elements that are open */
  int32_t last;  /* the piece that ended last, if no text came since; -1 */
  int32_t style;
  int32_t has_style;
  char blank;  /* that came since the last text */
  char recent; /* that came since the last text or piece */
  int failed;
} doc_block;

void doc_block_begin(doc_block *block);
void doc_block_finish(doc_block *block);

/* Text; blanks count as one. */
void doc_block_text(doc_block *block, const char *text, size_t size);
/* The style of the text that follows: each word of the translation has that of the word that it was made from. */
void doc_block_style(doc_block *block, int32_t style);
/* Begins an element; -1 if there are too many, or memory ran out. */
int32_t doc_block_enter(doc_block *block, int32_t tag);
/* Ends the innermost one. */
void doc_block_leave(doc_block *block);
void doc_block_point(doc_block *block, int32_t tag, int32_t breaks);
void doc_block_verbatim(doc_block *block, int32_t tag, const char *text, size_t size);
/* What follows is translated by itself. */
void doc_block_cut(doc_block *block);

/* Asks the batch for the translation. */
tsr_status doc_block_ask(doc_block *block, doc_batch *batch) TSR_MUST_CHECK;

/* What to write, in order. */
enum {
  DOC_TEXT,  /* text, in a style */
  DOC_OPEN,  /* the beginning of an element, */
  DOC_CLOSE, /* and its end */
  DOC_PUT    /* a point, or what is verbatim */
};

typedef struct doc_event {
  int32_t kind;
  int32_t tag; /* of the piece */
  int32_t style;
  size_t begin; /* of text: in doc_placement.text */
  size_t end;
} doc_event;

/* Zero it. */
typedef struct doc_placement {
  int32_t changed; /* 0: the translation is the text: nothing needs to be written */
  doc_buffer text;
  doc_event *events;
  size_t n_events;
  size_t room;
} doc_placement;

/* When the batch was translated: what to write. Finish the placement also after an error. */
tsr_status doc_block_place(doc_block *block, const doc_batch *batch, doc_placement *placement) TSR_MUST_CHECK;
void doc_placement_finish(doc_placement *placement);

#endif
