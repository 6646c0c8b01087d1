/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: with a translator that leaves each text as it is, a text format stays byte for byte; with one that turns
 * the words round, it gives a result, or an error with a message. DOCUMENT_NAME says which format is read; of an
 * archive the input is a part, or with a first byte of 0 the whole.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include <zip.h>

#include "tools/tessera/documents/documents.h"

enum { MOST = 4096 };

static void *get(size_t size)
{
  void *made = calloc(1, size + 1);
  REQUIRE(made);
  return made;
}

/* Words of a text, turned round if *turns is set; each is aligned with itself. */
static tsr_translation *answer_of(const char *text, int turns)
{
  tsr_text_span words[MOST];
  int32_t n = 0;
  for (int32_t i = 0; text[i];) {
    int32_t begin = i;
    while (text[i] && text[i] != ' ') {
      i++;
    }
    if (i > begin && n < MOST) {
      words[n++] = (tsr_text_span){begin, i};
    }
    i += text[i] == ' ';
  }
  tsr_translation *answer = get(sizeof *answer);
  tsr_translation_hypothesis *h = get(sizeof *h);
  answer->n_hypotheses = answer->n_parts = 1;
  answer->hypotheses = get(sizeof *answer->hypotheses);
  answer->hypotheses[0] = h;
  answer->n_source_ids = h->n_ids = n;
  answer->source_ids = get((size_t)n * sizeof(int32_t));
  answer->source_spans = get((size_t)n * sizeof *answer->source_spans);
  h->ids = get((size_t)n * sizeof(int32_t));
  h->spans = get((size_t)n * sizeof *h->spans);
  h->aligned = get((size_t)n * sizeof(int32_t));
  h->text = get(strlen(text) + 1);
  for (int32_t i = 0, at = 0; i < n; i++) {
    int32_t from = turns ? n - 1 - i : i, size = words[from].end - words[from].begin;
    memcpy(h->text + at, text + words[from].begin, (size_t)size);
    h->spans[i] = (tsr_text_span){at, at + size};
    h->aligned[i] = from;
    h->text[at + size] = i + 1 < n ? ' ' : '\0';
    answer->source_spans[i] = words[i];
    at += size + 1;
  }
  return answer;
}

static tsr_status translate(void *user, int32_t n, const tsr_document_text *texts, tsr_document_answer *answers)
{
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    REQUIRE(strlen(texts[i].text) == texts[i].size);
    tsr_translation *found = answer_of(texts[i].text, *(const int *)user);
    status = tsr_document_take(&texts[i], found, &answers[i]);
    tsr_translation_free(found);
  }
  return status;
}

#ifdef DOCUMENT_PART
/* An archive with what it needs, whose part is the input. */
static void *make_archive(const uint8_t *data, size_t size, size_t *made_size)
{
  static const char *const entries[][2] = {DOCUMENT_ENTRIES};
  zip_error_t error;
  zip_source_t *source = zip_source_buffer_create(NULL, 0, 0, &error);
  zip_t *zip = zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error);
  REQUIRE(zip);
  zip_source_keep(source);
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
    zip_source_t *content = zip_source_buffer(zip, entries[i][1], strlen(entries[i][1]), 0);
    REQUIRE(zip_file_add(zip, entries[i][0], content, 0) >= 0);
  }
  REQUIRE(zip_file_add(zip, DOCUMENT_PART, zip_source_buffer(zip, data, size, 0), 0) >= 0);
  REQUIRE(zip_close(zip) == 0);
  zip_stat_t stat;
  REQUIRE(zip_source_stat(source, &stat) == 0 && zip_source_open(source) == 0);
  void *made = get((size_t)stat.size);
  REQUIRE(zip_source_read(source, made, stat.size) == (zip_int64_t)stat.size);
  zip_source_close(source);
  zip_source_free(source);
  *made_size = (size_t)stat.size;
  return made;
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const void *bytes = data;
  void *made = NULL;
#ifdef DOCUMENT_PART
  if (size > 0 && data[0] == 0) {
    bytes = data + 1;
    size--;
  } else {
    bytes = made = make_archive(data, size, &size);
  }
#endif
  for (int turns = 0; turns < 2; turns++) {
    const tsr_document_translator work = {
        .translate = translate, .user = &turns, .limits = {.unpacked = 1 << 22, .entries = 100}};
    void *result;
    size_t result_size;
    tsr_status status = tsr_document_file(&work, DOCUMENT_NAME, bytes, size, &result, &result_size);
    REQUIRE(status == TSR_OK ? result != NULL : !result && tsr_error_message()[0]);
    if (status == TSR_OK && !turns && !strstr(DOCUMENT_NAME, ".po")) {
      REQUIRE(result_size == size && memcmp(result, bytes, size) == 0);
    }
    tsr_document_free(result);
  }
  free(made);
  return 0;
}
