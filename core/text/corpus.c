/* SPDX-License-Identifier: Apache-2.0 */
#include "tessera/corpus.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/text/text_file.h"

struct tsr_corpus {
  tsr_text_file *source; /* a TSV's lines, too */
  tsr_text_file *target; /* NULL: TSV */
  int one_file;          /* both are the same XML file */
  int64_t number;        /* pairs read */
  const char *rest;      /* of a TSV's line, behind the second column; NULL: nothing */
  size_t rest_size;
};

tsr_status tsr_corpus_open(const tsr_corpus_files *files, tsr_corpus **corpus)
{
  if (!files || !files->source || !corpus) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_corpus_open: files, files->source and corpus must not be NULL");
  }
  *corpus = NULL;
  tsr_corpus *c = calloc(1, sizeof *c);
  if (!c) {
    return tsr_fail_memory(sizeof *c);
  }
  tsr_status status = tsr_text_file_open(files->source, files->part != 0 ? files->part : TSR_TEXT_SOURCE, &c->source);
  const char *target = files->target;
  if (status == TSR_OK && !target && tsr_text_file_is_markup(c->source)) {
    target = files->source;
    c->one_file = 1;
  }
  if (status == TSR_OK && target) {
    status = tsr_text_file_open(target, TSR_TEXT_REFERENCE, &c->target);
  }
  if (status != TSR_OK) {
    tsr_corpus_close(c);
    return status;
  }
  *corpus = c;
  return TSR_OK;
}

void tsr_corpus_close(tsr_corpus *corpus)
{
  if (!corpus) {
    return;
  }
  tsr_text_file_close(corpus->source);
  tsr_text_file_close(corpus->target);
  free(corpus);
}

/* Splits a line of a TSV at its first tab, and notes what follows a second one. */
static tsr_status split(tsr_corpus *c, const tsr_corpus_sentence *line, tsr_corpus_sentence *target)
{
  const char *tab = line->size > 0 ? memchr(line->text, '\t', line->size) : NULL;
  if (!tab) {
    return tsr_fail(TSR_ERR_FORMAT, "%s:%lld: expected source and target with a tab between them, found no tab",
                    tsr_text_file_name(c->source), (long long)line->number);
  }
  target->text = tab + 1;
  target->size = line->size - (size_t)(target->text - line->text);
  const char *second = target->size > 0 ? memchr(target->text, '\t', target->size) : NULL;
  if (second) {
    c->rest = second + 1;
    c->rest_size = target->size - (size_t)(c->rest - target->text);
    target->size = (size_t)(second - target->text);
  }
  return TSR_OK;
}

static tsr_status uneven(const tsr_corpus *c, int target_ended)
{
  const char *shorter = tsr_text_file_name(target_ended ? c->target : c->source);
  const char *longer = tsr_text_file_name(target_ended ? c->source : c->target);
  if (c->one_file) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: there are more %s than %s, which end after %lld: expected as many of both",
                    longer, target_ended ? "sources" : "references", target_ended ? "references" : "sources",
                    (long long)c->number);
  }
  return tsr_fail(TSR_ERR_FORMAT, "%s has more sentences than %s, which ends after %lld: expected as many in both",
                  longer, shorter, (long long)c->number);
}

/* Two segments that should belong together. */
static tsr_status check_segments(const tsr_corpus *c, const tsr_corpus_sentence *source,
                                 const tsr_corpus_sentence *target)
{
  if (source->id[0] != '\0' && target->id[0] != '\0' && strcmp(source->id, target->id) != 0) {
    return tsr_fail(TSR_ERR_FORMAT, "segment %lld has the id %s in %s, but %s in %s", (long long)source->number,
                    source->id, tsr_text_file_name(c->source), target->id, tsr_text_file_name(c->target));
  }
  if (c->one_file && (source->part == 0 || target->part == 0)) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: expected <src> and <ref> around segments, found neither; the other side of a "
                    "SGM file is another file",
                    tsr_text_file_name(c->source));
  }
  return TSR_OK;
}

tsr_status tsr_corpus_next(tsr_corpus *corpus, tsr_corpus_pair *pair, int32_t *end)
{
  tsr_corpus_sentence source;
  tsr_corpus_sentence target = {0};
  corpus->rest = NULL;
  corpus->rest_size = 0;
  TSR_TRY(tsr_text_file_next(corpus->source, &source, end));
  if (corpus->target) {
    int32_t target_end;
    TSR_TRY(tsr_text_file_next(corpus->target, &target, &target_end));
    if (*end != target_end) {
      return uneven(corpus, target_end);
    }
  }
  if (*end) {
    return TSR_OK;
  }
  if (corpus->target) {
    TSR_TRY(check_segments(corpus, &source, &target));
  } else {
    TSR_TRY(split(corpus, &source, &target));
    source.size = (size_t)(target.text - 1 - source.text);
  }
  corpus->number++;
  *pair = (tsr_corpus_pair){.source = source.text,
                            .source_size = source.size,
                            .target = target.text,
                            .target_size = target.size,
                            .number = corpus->number};
  return TSR_OK;
}

void tsr_corpus_column(const tsr_corpus *corpus, int32_t column, const char **text, size_t *size)
{
  const char *at = corpus->rest;
  size_t left = corpus->rest_size;
  *text = "";
  *size = 0;
  for (; at && column > 2; column--) {
    const char *tab = left > 0 ? memchr(at, '\t', left) : NULL;
    if (column == 3) {
      *text = at;
      *size = tab ? (size_t)(tab - at) : left;
    }
    left -= tab ? (size_t)(tab + 1 - at) : left;
    at = tab ? tab + 1 : NULL;
  }
}

void tsr_corpus_tell(const tsr_corpus *corpus, tsr_corpus_position *position)
{
  *position = (tsr_corpus_position){.source = tsr_text_file_tell(corpus->source),
                                    .target = corpus->target ? tsr_text_file_tell(corpus->target) : 0,
                                    .number = corpus->number};
}

tsr_status tsr_corpus_seek(tsr_corpus *corpus, const tsr_corpus_position *position)
{
  TSR_TRY(tsr_text_file_seek(corpus->source, position->source, position->number));
  if (corpus->target) {
    TSR_TRY(tsr_text_file_seek(corpus->target, position->target, position->number));
  }
  corpus->number = position->number;
  return TSR_OK;
}
