/* SPDX-License-Identifier: Apache-2.0
 *
 * .txt: each line is a text, and each cell of one that has tabs.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/documents/formats.h"
#include "tools/tessera/documents/html.h"

typedef struct cell {
  const char *begin;
  const char *end;
  doc_block block;
} cell;

typedef struct cells {
  cell *cells;
  size_t n;
  size_t room;
} cells;

static tsr_status add_cell(doc_job *job, cells *list, const char *begin, const char *end)
{
  while (begin < end && doc_is_blank(*begin)) {
    begin++;
  }
  while (begin < end && doc_is_blank(end[-1])) {
    end--;
  }
  if (!doc_has_letter(begin, (size_t)(end - begin)) ||
      doc_address(begin, (size_t)(end - begin)) == (size_t)(end - begin)) {
    return TSR_OK;
  }
  cell *grown = doc_grow(list->cells, list->n, &list->room, sizeof *grown);
  if (!grown) {
    return doc_no_memory();
  }
  list->cells = grown;
  cell *c = &grown[list->n++];
  *c = (cell){.begin = begin, .end = end};
  doc_block_begin(&c->block);
  doc_block_text(&c->block, begin, (size_t)(end - begin));
  return doc_block_ask(&c->block, &job->batch);
}

static tsr_status read_cells(doc_job *job, cells *list)
{
  doc_line line = {0};
  tsr_status status = TSR_OK;
  while (status == TSR_OK && doc_next_line(job, &line)) {
    const char *at = line.begin, *end = line.begin + line.size;
    if (line.number == 1 && line.size >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) {
      at += 3;
    }
    while (at < end && status == TSR_OK) {
      const char *tab = memchr(at, '\t', (size_t)(end - at));
      status = add_cell(job, list, at, tab ? tab : end);
      at = tab ? tab + 1 : end;
    }
  }
  return status;
}

static tsr_status write_cells(doc_job *job, cells *list)
{
  const char *at = job->bytes;
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < list->n && status == TSR_OK; i++) {
    cell *c = &list->cells[i];
    doc_placement placement = {0};
    status = doc_block_place(&c->block, &job->batch, &placement);
    if (status == TSR_OK && placement.changed) {
      doc_buffer_add(&job->out, at, (size_t)(c->begin - at));
      doc_buffer_add(&job->out, placement.text.bytes, placement.text.size);
      at = c->end;
    }
    doc_placement_finish(&placement);
  }
  doc_buffer_add(&job->out, at, (size_t)(job->bytes + job->size - at));
  return status;
}

tsr_status doc_format_text(doc_job *job)
{
  cells list = {0};
  tsr_status status = read_cells(job, &list);
  if (status == TSR_OK) {
    status = doc_job_translate(job);
  }
  if (status == TSR_OK) {
    status = write_cells(job, &list);
  }
  for (size_t i = 0; i < list.n; i++) {
    doc_block_finish(&list.cells[i].block);
  }
  free(list.cells);
  return status;
}
