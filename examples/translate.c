/* SPDX-License-Identifier: Apache-2.0
 *
 * Three sentences, three translations of each, and which word was made from which.
 *
 *     cc -std=c11 translate.c $(pkg-config --cflags --libs tessera) -o translate && ./translate MODEL
 */
#include <stdio.h>

#include <tessera/translator.h>

enum { N_TEXTS = 3, N_ALTERNATIVES = 3 };

/* Tokens may be parts of words: the word around one. */
static tsr_text_span word(const char *text, tsr_text_span span)
{
  while (span.begin > 0 && text[span.begin - 1] != ' ') {
    span.begin--;
  }
  while (text[span.end] != '\0' && text[span.end] != ' ') {
    span.end++;
  }
  return span;
}

/* Each word, and the one of the source that its first token attended to most. */
static void print_alignment(const char *text, const tsr_translation *answer, const tsr_translation_hypothesis *best)
{
  for (int32_t i = 0, end = -1; i < best->n_ids; i++) {
    tsr_text_span to = word(best->text, best->spans[i]);
    if (best->aligned[i] < 0 || best->spans[i].begin == best->spans[i].end || to.end == end) {
      continue; /* a special token; one that goes on with a word */
    }
    tsr_text_span from = word(text, answer->source_spans[best->aligned[i]]);
    printf("           %.*s <- %.*s\n", (int)(to.end - to.begin), &best->text[to.begin], (int)(from.end - from.begin),
           &text[from.begin]);
    end = to.end;
  }
}

int main(int argc, char **argv)
{
  static const char *const texts[N_TEXTS] = {"He was playing tennis all day.", "Could you please stop singing?",
                                             "The children are in the garden."};
  if (argc < 2) {
    fprintf(stderr, "Usage: %s MODEL [DEVICE...]\n", argv[0]);
    return 2;
  }
  tsr_translator_options options = {TSR_SIZED(tsr_translator_options), .n_devices = argc - 2,
                                    .devices = (const char *const *)&argv[2]};
  tsr_generate_options search = {TSR_SIZED(tsr_generate_options)};
  tsr_translation_request requests[N_TEXTS];
  tsr_translation *answers[N_TEXTS] = {NULL};
  tsr_translator *translator = NULL;
  tsr_status status = tsr_translator_open(argv[1], &options, &translator);
  if (status == TSR_OK) { /* what the model's folder asks for, and our own wishes */
    status = tsr_generate_defaults(tsr_translator_model(translator), &search);
    search.alternatives = N_ALTERNATIVES;
  }
  for (int i = 0; i < N_TEXTS; i++) {
    requests[i] = (tsr_translation_request){TSR_SIZED(tsr_translation_request), .text = texts[i], .search = &search,
                                            .alignment = 1};
  }
  if (status == TSR_OK) {
    status = tsr_translator_translate(translator, N_TEXTS, requests, answers);
  }
  if (status != TSR_OK) {
    fprintf(stderr, "%s: %s\n", argv[0], tsr_error_message());
  }
  for (int i = 0; i < N_TEXTS && answers[i]; i++) {
    if (answers[i]->status != TSR_OK) { /* each text has a status of its own */
      status = answers[i]->status;
      fprintf(stderr, "%s: %s: %s\n", argv[0], texts[i], answers[i]->message);
    } else {
      puts(texts[i]);
      for (int32_t j = 0; j < answers[i]->n_hypotheses; j++) {
        printf("  %7.3f  %s\n", (double)answers[i]->hypotheses[j]->score, answers[i]->hypotheses[j]->text);
      }
      print_alignment(texts[i], answers[i], answers[i]->hypotheses[0]);
    }
    tsr_translation_free(answers[i]);
  }
  tsr_translator_close(translator);
  return status == TSR_OK ? 0 : 1;
}
