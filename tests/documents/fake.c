/* SPDX-License-Identifier: Apache-2.0
 *
 * Translates a document as if there were a model: fake MODE NAME [TABLE] <IN >OUT. Exit code 3, and a message, for an
 * error of format; 5 where memory ran out; 6 for another; 7: a result beside an error; 9: FAKE_FAIL is beyond the last.
 *   identity  each text is its own translation
 *   upper     each word in capitals, in its place
 *   reverse   the words in capitals, the last first
 *   mute      in capitals, without any alignment
 *   table     as the lines of TABLE say: source, tab, target, tab, pairs of words from 0 such as 0-0 1-2; else upper
 *   broken    answers are errors
 * FAKE_HTML: NAME is not looked at; the input is HTML. FAKE_LOG: a file to which each text is added. FAKE_FAIL: the
 * number of the allocation that fails. FAKE_PARAGRAPHS: whole paragraphs. FAKE_BATCH: texts of a call.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/documents/documents.h"

enum { MOST_WORDS = 100000 };

typedef struct fake {
  const char *mode;
  char *table;
  FILE *log;
} fake;

/* ---- allocations that fail --------------------------------------------------------------------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static long until_failure = -1;

static int fails(void)
{
  return until_failure > 0 && --until_failure == 0;
}

void *__wrap_malloc(size_t size)
{
  return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
  return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
  return fails() ? NULL : __real_realloc(old, size);
}

static void *get(size_t size)
{
  void *made = __real_calloc(1, size + 1);
  if (!made) {
    abort();
  }
  return made;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Words, and marks of punctuation for themselves. */
static int32_t find_words(const char *text, tsr_text_span *spans)
{
  int32_t n = 0;
  for (int32_t i = 0; text[i] && n < MOST_WORDS;) {
    unsigned char c = (unsigned char)text[i];
    if (isspace(c)) {
      i++;
      continue;
    }
    int32_t begin = i++;
    if (isalnum(c) || c >= 0x80) {
      while (isalnum((unsigned char)text[i]) || (unsigned char)text[i] >= 0x80) {
        i++;
      }
    }
    spans[n++] = (tsr_text_span){begin, i};
  }
  return n;
}

static tsr_translation *make_answer(char *target, const tsr_text_span *spans, const int32_t *aligned, int32_t n,
                                    const tsr_text_span *source_spans, int32_t n_source)
{
  tsr_translation *answer = get(sizeof *answer);
  tsr_translation_hypothesis *h = get(sizeof *h);
  answer->n_hypotheses = 1;
  answer->n_parts = 1;
  answer->hypotheses = get(sizeof *answer->hypotheses);
  answer->hypotheses[0] = h;
  h->text = target;
  h->n_ids = n + 1; /* one that is special */
  h->ids = get(((size_t)n + 1) * sizeof *h->ids);
  h->spans = get(((size_t)n + 1) * sizeof *h->spans);
  h->aligned = get(((size_t)n + 1) * sizeof *h->aligned);
  memcpy(h->spans, spans, (size_t)n * sizeof *spans);
  memcpy(h->aligned, aligned, (size_t)n * sizeof *aligned);
  h->aligned[n] = -1;
  answer->n_source_ids = n_source;
  answer->source_ids = get((size_t)n_source * sizeof *answer->source_ids);
  answer->source_spans = get((size_t)n_source * sizeof *answer->source_spans);
  memcpy(answer->source_spans, source_spans, (size_t)n_source * sizeof *source_spans);
  return answer;
}

/* Finds the line of the table; *pairs: behind its second tab. */
static const char *find_line(const fake *f, const char *text, const char **pairs, size_t *size)
{
  size_t length = strlen(text);
  for (const char *line = f->table; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    if (strncmp(line, text, length) == 0 && line[length] == '\t') {
      const char *target = line + length + 1, *tab = strchr(target, '\t');
      *pairs = tab + 1;
      *size = (size_t)(tab - target);
      return target;
    }
  }
  return NULL;
}

static tsr_translation *translate_text(const fake *f, const char *text)
{
  tsr_text_span *source = get(MOST_WORDS * sizeof *source), *spans = get(MOST_WORDS * sizeof *spans);
  int32_t *aligned = get(MOST_WORDS * sizeof *aligned);
  int32_t n = find_words(text, source), n_target = n;
  size_t size = strlen(text);
  char *target = get(2 * size + 1000);
  const char *pairs, *line = strcmp(f->mode, "table") == 0 ? find_line(f, text, &pairs, &size) : NULL;
  if (line) {
    memcpy(target, line, size);
    n_target = find_words(target, spans);
    for (int32_t i = 0; i < n_target; i++) {
      aligned[i] = -1;
    }
    for (const char *at = pairs; *at && *at != '\n';) {
      int from, to, used;
      if (sscanf(at, "%d-%d%n", &from, &to, &used) != 2) {
        break;
      }
      aligned[to] = from;
      at += used;
      at += *at == ' ';
    }
  } else if (strcmp(f->mode, "reverse") == 0) {
    for (int32_t i = 0, at = 0; i < n; i++) {
      tsr_text_span from = source[n - 1 - i];
      at += i > 0 ? sprintf(target + at, " ") : 0;
      spans[i] = (tsr_text_span){at, at + from.end - from.begin};
      aligned[i] = n - 1 - i;
      for (int32_t k = from.begin; k < from.end; k++) {
        target[at++] = (char)toupper((unsigned char)text[k]);
      }
    }
  } else {
    int is_same = strcmp(f->mode, "identity") == 0;
    for (size_t i = 0; i < size; i++) {
      target[i] = is_same ? text[i] : (char)toupper((unsigned char)text[i]);
    }
    memcpy(spans, source, (size_t)n * sizeof *source);
    for (int32_t i = 0; i < n; i++) {
      aligned[i] = strcmp(f->mode, "mute") == 0 ? -1 : i;
    }
  }
  tsr_translation *answer = make_answer(target, spans, aligned, n_target, source, n);
  if (strcmp(f->mode, "broken") == 0) {
    answer->status = TSR_ERR_DEADLINE;
    answer->message = get(20);
    strcpy(answer->message, "too late");
  }
  free(source);
  free(spans);
  free(aligned);
  return answer;
}

static tsr_status translate(void *user, int32_t n, const tsr_document_text *texts, tsr_document_answer *answers)
{
  const fake *f = user;
  tsr_status status = TSR_OK;
  if (f->log) {
    fprintf(f->log, "call %d\n", (int)n);
  }
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    if (texts[i].size != strlen(texts[i].text)) {
      return tsr_fail(TSR_ERR_INTERNAL, "a text is not as it should be");
    }
    if (f->log) {
      fprintf(f->log, "%s\n", texts[i].text);
    }
    tsr_translation *found = translate_text(f, texts[i].text);
    status = tsr_document_take(&texts[i], found, &answers[i]);
    tsr_translation_free(found);
  }
  return status;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static char *read_all(FILE *file, size_t *size)
{
  size_t room = 1 << 16;
  char *bytes = get(room);
  *size = 0;
  for (size_t n; (n = fread(bytes + *size, 1, room - *size, file)) > 0;) {
    *size += n;
    if (*size == room) {
      char *more = get(2 * room);
      memcpy(more, bytes, room);
      free(bytes);
      bytes = more;
      room *= 2;
    }
  }
  return bytes;
}

int main(int argc, char **argv)
{
  size_t size, result_size, table_size;
  void *result = NULL;
  if (argc < 3) {
    return 2;
  }
  fake f = {.mode = argv[1], .log = getenv("FAKE_LOG") ? fopen(getenv("FAKE_LOG"), "ab") : NULL};
  FILE *table = argc > 3 ? fopen(argv[3], "rb") : NULL;
  f.table = table ? read_all(table, &table_size) : NULL;
  if (table) {
    fclose(table);
  }
  char *bytes = read_all(stdin, &size);
  const tsr_document_translator work = {.translate = translate,
                                        .user = &f,
                                        .paragraphs = getenv("FAKE_PARAGRAPHS") != NULL,
                                        .limits = {.batch = getenv("FAKE_BATCH") ? atoi(getenv("FAKE_BATCH")) : 0}};
  until_failure = getenv("FAKE_FAIL") ? atol(getenv("FAKE_FAIL")) : -1;
  tsr_status status;
  if (getenv("FAKE_HTML")) {
    char *html = NULL;
    status = tsr_document_html(&work, bytes, size, &html, &result_size);
    result = html;
  } else {
    status = tsr_document_file(&work, argv[2], bytes, size, &result, &result_size);
  }
  int has_failed = until_failure == 0;
  until_failure = -1;
  if (status == TSR_OK) {
    fwrite(result, 1, result_size, stdout);
  } else {
    fprintf(stderr, "%s\n", tsr_error_message());
  }
  int code = status == TSR_OK ? 0 : status == TSR_ERR_FORMAT ? 3 : status == TSR_ERR_OUT_OF_MEMORY ? 5 : 6;
  if (status != TSR_OK && result) {
    code = 7;
  } else if (getenv("FAKE_FAIL") && !has_failed && status == TSR_OK) {
    code = 9; /* there were not so many */
  }
  tsr_document_free(result);
  free(bytes);
  free(f.table);
  if (f.log) {
    fclose(f.log);
  }
  return code;
}
