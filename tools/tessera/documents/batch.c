/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/batch.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_BATCH = 2000, LARGEST_CALL = 1 << 24 /* bytes of the texts of one call, but of one at least */ };

static uint64_t hash_of(const char *text, size_t size)
{
  uint64_t hash = 0xCBF29CE484222325u;
  for (size_t i = 0; i < size; i++) {
    hash = (hash ^ (unsigned char)text[i]) * 0x100000001B3u;
  }
  return hash ^ hash >> 29;
}

/* The slot of a text, or the empty one that it would have. */
static size_t find_slot(const doc_batch *batch, const char *text, size_t size, uint64_t hash)
{
  size_t slot = (size_t)hash & (batch->n_slots - 1);
  while (batch->slots[slot] != 0) {
    const doc_entry *entry = &batch->entries[batch->slots[slot] - 1];
    if (entry->hash == hash && entry->size == size && memcmp(entry->text, text, size) == 0) {
      break;
    }
    slot = (slot + 1) & (batch->n_slots - 1);
  }
  return slot;
}

/* Keeps half of the slots empty. */
static tsr_status make_slots(doc_batch *batch)
{
  if (2 * (batch->n + 1) <= batch->n_slots) {
    return TSR_OK;
  }
  size_t n = batch->n_slots ? 2 * batch->n_slots : 256;
  int32_t *slots = calloc(n, sizeof *slots);
  if (!slots) {
    return doc_no_memory();
  }
  free(batch->slots);
  batch->slots = slots;
  batch->n_slots = n;
  for (size_t i = 0; i < batch->n; i++) {
    const doc_entry *entry = &batch->entries[i];
    slots[find_slot(batch, entry->text, entry->size, entry->hash)] = (int32_t)i + 1;
  }
  return TSR_OK;
}

tsr_status doc_batch_add(doc_batch *batch, const char *text, size_t size, int32_t *entry)
{
  tsr_status status = make_slots(batch);
  if (status != TSR_OK) {
    return status;
  }
  uint64_t hash = hash_of(text, size);
  size_t slot = find_slot(batch, text, size, hash);
  if (batch->slots[slot] == 0) {
    doc_entry *entries = doc_grow(batch->entries, batch->n, &batch->room, sizeof *entries);
    char *copy = malloc(size + 1);
    if (entries) {
      batch->entries = entries;
    }
    if (!entries || !copy || batch->n >= INT32_MAX - 1) {
      free(copy);
      return doc_no_memory();
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    entries[batch->n] = (doc_entry){.text = copy, .size = size, .hash = hash};
    batch->slots[slot] = (int32_t)++batch->n;
  }
  *entry = batch->slots[slot] - 1;
  return TSR_OK;
}

void doc_batch_finish(doc_batch *batch)
{
  for (size_t i = 0; i < batch->n; i++) {
    free(batch->entries[i].text);
    free(batch->entries[i].target);
    free(batch->entries[i].links);
  }
  free(batch->entries);
  free(batch->slots);
  *batch = (doc_batch){0};
}

/* ---- an answer --------------------------------------------------------------------------------------------------- */

/* Makes blanks and control characters spaces, in place, so that all offsets stay. */
static void make_plain(char *text, size_t size)
{
  for (size_t i = 0; i < size; i++) {
    if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F) {
      text[i] = ' ';
    }
  }
}

/* The range without spaces at its ends. */
static void trim(const char *text, int32_t *begin, int32_t *end)
{
  while (*begin < *end && doc_is_blank(text[*begin])) {
    ++*begin;
  }
  while (*begin < *end && doc_is_blank(text[*end - 1])) {
    --*end;
  }
}

static int is_within(tsr_text_span span, size_t size)
{
  return span.begin >= 0 && span.begin < span.end && (size_t)span.end <= size;
}

tsr_status tsr_document_take(const tsr_document_text *text, const tsr_translation *translation,
                             tsr_document_answer *answer)
{
  if (translation->status != TSR_OK) {
    const char *dots = text->size > 40 ? ".." : "";
    return tsr_fail(translation->status, "the text '%.40s%s': %s", text->text, dots, translation->message);
  }
  const tsr_translation_hypothesis *h = translation->n_hypotheses > 0 ? translation->hypotheses[0] : NULL;
  const char *found = h && h->text ? h->text : "";
  size_t size = strlen(found), room = h ? (size_t)h->n_ids + 1 : 1;
  answer->text = malloc(size + 1);
  answer->links = malloc(room * sizeof *answer->links);
  if (!answer->text || !answer->links) {
    return doc_no_memory();
  }
  memcpy(answer->text, found, size + 1);
  for (int32_t i = 0; h && h->spans && h->aligned && translation->source_spans && i < h->n_ids; i++) {
    int32_t from = h->aligned[i];
    if (from >= 0 && from < translation->n_source_ids) {
      tsr_text_span source = translation->source_spans[from];
      answer->links[answer->n_links++] =
          (tsr_document_link){h->spans[i].begin, h->spans[i].end, source.begin, source.end};
    }
  }
  return TSR_OK;
}

static void free_answers(tsr_document_answer *answers, size_t n)
{
  for (size_t i = 0; answers && i < n; i++) {
    free(answers[i].text);
    free(answers[i].links);
  }
  free(answers);
}

/* Keeps the links that lie within both texts, without the blanks at their ends. skipped: bytes at the beginning of the
 * answer's text that the translation lacks. */
static void set_links(doc_entry *entry, const tsr_document_answer *answer, int32_t skipped)
{
  for (int32_t i = 0; i < answer->n_links; i++) {
    tsr_document_link link = answer->links[i];
    link.target_begin -= skipped;
    link.target_end -= skipped;
    if (!is_within((tsr_text_span){link.source_begin, link.source_end}, entry->size) ||
        !is_within((tsr_text_span){link.target_begin, link.target_end}, entry->target_size)) {
      continue;
    }
    trim(entry->target, &link.target_begin, &link.target_end);
    trim(entry->text, &link.source_begin, &link.source_end);
    if (link.target_begin < link.target_end && link.source_begin < link.source_end) {
      entry->links[entry->n_links++] = link;
    }
  }
}

/* Words of a text, as the n-th of them; returns how many there are. */
static size_t count_words(const char *text, size_t size)
{
  size_t n = 0;
  for (size_t i = 0; i < size; i++) {
    n += text[i] != ' ' && (i == 0 || text[i - 1] == ' ');
  }
  return n;
}

static void next_word(const char *text, size_t size, size_t *begin, size_t *end)
{
  *begin = *end;
  while (*begin < size && text[*begin] == ' ') {
    ++*begin;
  }
  *end = *begin;
  while (*end < size && text[*end] != ' ') {
    ++*end;
  }
}

/* A model that does not align: word by word, by their places in the line. */
static tsr_status align_evenly(doc_entry *entry)
{
  size_t n_source = count_words(entry->text, entry->size), n = count_words(entry->target, entry->target_size);
  free(entry->links);
  entry->links = malloc((n + 1) * sizeof *entry->links);
  if (!entry->links) {
    return doc_no_memory();
  }
  size_t source_begin = 0, source_end = 0, begin = 0, end = 0, at = 0;
  for (size_t i = 0; i < n && n_source > 0; i++) {
    next_word(entry->target, entry->target_size, &begin, &end);
    for (; at <= i * n_source / n; at++) {
      next_word(entry->text, entry->size, &source_begin, &source_end);
    }
    entry->links[entry->n_links++] =
        (tsr_document_link){(int32_t)begin, (int32_t)end, (int32_t)source_begin, (int32_t)source_end};
  }
  return TSR_OK;
}

static tsr_status set_target(doc_entry *entry, const char *text, size_t size)
{
  entry->target = malloc(size + 1);
  if (!entry->target) {
    return doc_no_memory();
  }
  memcpy(entry->target, text, size);
  entry->target[size] = '\0';
  entry->target_size = size;
  make_plain(entry->target, size);
  return TSR_OK;
}

static tsr_status take_answer(doc_entry *entry, const tsr_document_answer *answer)
{
  const char *text = answer->text ? answer->text : "";
  int32_t begin = 0, end = (int32_t)strlen(text);
  trim(text, &begin, &end);
  if (begin == end || doc_utf8_check(text, (size_t)end) != (size_t)end) {
    tsr_status kept = set_target(entry, entry->text, entry->size);
    return kept == TSR_OK ? align_evenly(entry) : kept;
  }
  tsr_status status = set_target(entry, text + begin, (size_t)(end - begin));
  if (status == TSR_OK) {
    entry->links = malloc(((size_t)answer->n_links + 1) * sizeof *entry->links);
    status = entry->links ? TSR_OK : doc_no_memory();
  }
  if (status == TSR_OK) {
    set_links(entry, answer, begin);
    status = entry->n_links == 0 ? align_evenly(entry) : TSR_OK;
  }
  return status;
}

/* Texts from `first` on that go into one call. */
static size_t choose_call(const doc_batch *batch, size_t first, int32_t most)
{
  size_t n = 0, size = 0;
  while (first + n < batch->n && n < (size_t)most && (n == 0 || size < LARGEST_CALL)) {
    size += batch->entries[first + n].size;
    n++;
  }
  return n;
}

static tsr_status translate_some(doc_batch *batch, size_t first, size_t n, const tsr_document_translator *translator)
{
  tsr_document_text *texts = calloc(n, sizeof *texts);
  tsr_document_answer *answers = calloc(n, sizeof *answers);
  tsr_status status = texts && answers ? TSR_OK : doc_no_memory();
  for (size_t i = 0; i < n && status == TSR_OK; i++) {
    texts[i] = (tsr_document_text){batch->entries[first + i].text, batch->entries[first + i].size};
  }
  if (status == TSR_OK) {
    status = translator->translate(translator->user, (int32_t)n, texts, answers);
  }
  for (size_t i = 0; i < n && status == TSR_OK; i++) {
    status = take_answer(&batch->entries[first + i], &answers[i]);
  }
  free_answers(answers, n);
  free(texts);
  return status;
}

tsr_status doc_batch_run(doc_batch *batch, const tsr_document_translator *translator)
{
  int32_t most = translator->limits.batch > 0 ? translator->limits.batch : DEFAULT_BATCH;
  size_t done = 0;
  tsr_status status = TSR_OK;
  if (translator->progress) {
    status = translator->progress(translator->progress_user, 0, (int64_t)batch->n);
  }
  while (done < batch->n && status == TSR_OK) {
    size_t n = choose_call(batch, done, most);
    status = translate_some(batch, done, n, translator);
    done += n;
    if (status == TSR_OK && translator->progress) {
      status = translator->progress(translator->progress_user, (int64_t)done, (int64_t)batch->n);
    }
  }
  return status;
}
