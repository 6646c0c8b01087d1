/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes with a translation's text: the text while it is made, the places of tokens, and which token was made from
 * which.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/translator.h"
#include "tests/model/generation.h"
#include "tests/support/failing.h"
#include "tests/support/temporary.h"
#include "tests/support/tokens.h"

static char *folder;

static int open_folder(void **state)
{
  (void)state;
  char path[4096];
  assert_non_null(getenv("SOURCE_ROOT"));
  snprintf(path, sizeof path, "%s/tools/demo-model", getenv("SOURCE_ROOT"));
  folder = strdup(path);
  return 0;
}

static int close_folder(void **state)
{
  (void)state;
  free(folder);
  return 0;
}

static tsr_translator *open_with(int32_t alignment_layer)
{
  const char *device = "cpu";
  tsr_translator *t;
  check(tsr_translator_open(folder,
                            &(tsr_translator_options){TSR_SIZED(tsr_translator_options), .n_devices = 1,
                                                      .devices = &device, .alignment_layer = alignment_layer},
                            &t));
  return t;
}

static tsr_generate_options search_of(const tsr_translator *t, int32_t beam)
{
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  check(tsr_generate_defaults(tsr_translator_model(t), &options));
  options.beam = beam;
  options.n_best = 1;
  options.max_length = 60;
  return options;
}

/* A text in parts of at most so many tokens; 0: in one. */
static tsr_translation_request request_of(const char *text, const tsr_generate_options *search, int32_t most)
{
  return (tsr_translation_request){TSR_SIZED(tsr_translation_request), .text = text, .search = search,
                                   .long_input = most > 0 ? TSR_LONG_SPLIT : TSR_LONG_CUT, .max_source = most};
}

static tsr_translation *translate(tsr_translator *t, const tsr_translation_request *request)
{
  tsr_translation *answer;
  check(tsr_translator_translate(t, 1, request, &answer));
  if (answer->status != TSR_OK) {
    fail_msg("%s", answer->message);
  }
  return answer;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

typedef struct received {
  char text[4096];
  size_t size;
  int32_t n;
  uint64_t ticket;
} received;

static void receive(void *user, uint64_t ticket, const char *text, size_t size)
{
  received *r = user;
  assert_true(size > 0 && r->size + size < sizeof r->text);
  assert_true(((unsigned char)text[0] & 0xC0) != 0x80); /* whole characters */
  memcpy(r->text + r->size, text, size);
  r->size += size;
  r->text[r->size] = '\0';
  r->ticket = ticket;
  r->n++;
}

static const char several[] =
    "Tom and Mary live in Boston. The train leaves at seven. I do not know what he said to her. "
    "She will come back tomorrow with her brother.";

/* The pieces are the text, and come while it is made: more than one a part. */
static void expect_pieces(tsr_translator *t, tsr_translation_request *request, int32_t least)
{
  received r = {.size = 0};
  request->piece = receive;
  request->piece_user = &r;
  tsr_translation *answer = translate(t, request);
  assert_string_equal(r.text, answer->hypotheses[0]->text);
  assert_in_range(r.n, least, 1000);
  assert_true(r.ticket > 0);
  tsr_translation_free(answer);
  /* Nobody listens: the same text. */
  request->piece = NULL;
  answer = translate(t, request);
  assert_string_equal(r.text, answer->hypotheses[0]->text);
  tsr_translation_free(answer);
}

static void test_pieces(void **state)
{
  (void)state;
  tsr_translator *t = open_with(0);
  tsr_generate_options searches[] = {search_of(t, 1), search_of(t, 4), search_of(t, 1)};
  searches[2].sample = 1;
  searches[2].seed = 7;
  searches[2].n_best = 2;
  for (size_t i = 0; i < sizeof searches / sizeof searches[0]; i++) {
    tsr_translation_request request = request_of(several, &searches[i], 0);
    expect_pieces(t, &request, 3);
    request = request_of(several, &searches[i], 12);
    expect_pieces(t, &request, 8);
    request = request_of("Tom likes to read.", &searches[i], 0);
    request.prefix = "Marie";
    expect_pieces(t, &request, 2);
    request = request_of(" ", &searches[i], 0);
    request.piece = receive;
    received none = {.size = 0};
    request.piece_user = &none;
    tsr_translation_free(translate(t, &request));
    assert_int_equal(none.n, 0);
  }
  searches[0].alternatives = 2;
  uint64_t ticket;
  tsr_translation_request request = request_of(several, &searches[0], 0);
  request.piece = receive;
  assert_int_equal(tsr_translator_submit(t, &request, NULL, NULL, &ticket), TSR_ERR_ARGUMENT);
  tsr_translator_close(t);
}

/* A device that is lost in the middle: what has come stays, and does not come again. */
static void test_pieces_of_a_lost_device(void **state)
{
  (void)state;
  const char *devices[] = {"failing:0", "reference:0"};
  tsr_runtime *runtime;
  tsr_translator *t;
  check(tsr_runtime_create(NULL, &runtime));
  register_failing(runtime);
  for (int32_t n = 5; n < 30; n += 6) {
    fail_after_runs(n);
    check(tsr_translator_open(folder,
                              &(tsr_translator_options){TSR_SIZED(tsr_translator_options), .n_devices = 2,
                                                        .devices = devices, .runtime = runtime, .workers = 1},
                              &t));
    tsr_generate_options search = search_of(t, 1);
    tsr_translation_request request = request_of(several, &search, 0);
    for (int32_t i = 0; i < 4; i++) { /* one of the devices takes each */
      expect_pieces(t, &request, 3);
    }
    tsr_translator_close(t);
  }
  tsr_runtime_destroy(runtime);
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

/* White space, and both bytes of the blank that does not break. */
static int is_blank(char c)
{
  return isspace((unsigned char)c) || c == '\xC2' || c == '\xA0';
}

/* Spans are in order, and together all of the text but blanks. */
static void expect_all(const char *text, size_t size, const tsr_text_span *spans, int32_t n)
{
  int32_t end = 0;
  for (int32_t i = 0; i < n; i++) {
    if (spans[i].begin < end || spans[i].end < spans[i].begin || (size_t)spans[i].end > size) {
      fail_msg("'%s': token %d is at %d to %d, behind %d", text, (int)i, (int)spans[i].begin, (int)spans[i].end,
               (int)end);
    }
    for (int32_t k = end; k < spans[i].begin; k++) {
      if (!is_blank(text[k])) {
        fail_msg("'%s': byte %d belongs to no token", text, (int)k);
      }
    }
    end = spans[i].end;
  }
  for (size_t k = (size_t)end; k < size; k++) {
    assert_true(is_blank(text[k]));
  }
}

static int has_span(const tsr_translation *answer, const char *text, const char *word)
{
  const char *at = strstr(text, word);
  int32_t begin = (int32_t)(at - text), end = begin + (int32_t)strlen(word), is_begun = 0, is_ended = 0;
  for (int32_t i = 0; i < answer->n_source_ids; i++) {
    tsr_text_span span = answer->source_spans[i];
    is_begun |= span.begin == begin && span.end > begin;
    is_ended |= span.end == end && span.begin < end;
  }
  return is_begun && is_ended;
}

static void test_spans(void **state)
{
  (void)state;
  /* Words that begin and end with tokens, whatever stands between them. */
  static const struct {
    const char *text;
    const char *words[4];
  } cases[] = {
      {"Tom and Mary live in Boston.", {"Tom", "Mary", "Boston"}},
      {"  Tom   and\tMary  ", {"Tom", "and", "Mary"}},
      {"Tom \xE2\x98\x83\xE2\x98\x83 and Mary", {"Tom", "and", "Mary"}},  /* snowmen: unknown */
      {"\xEF\xBC\xB4\xEF\xBD\x8F\xEF\xBD\x8D and Mary", {"and", "Mary"}}, /* wide letters */
      {"The \xEF\xAC\x81rst caf\xC3\xA9 \xE2\x80\xA6 of Boston\xC2\xA0now",
       {"The", "Boston", "now"}},               /* fi, ellipsis */
      {"cafe\xCC\x81 and Tom", {"and", "Tom"}}, /* a combining accent */
      {several, {"Boston", "train", "tomorrow", "brother"}},
  };
  tsr_translator *t = open_with(0);
  tsr_generate_options search = search_of(t, 2);
  search.n_best = 2;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (int32_t is_split = 0; is_split < 2; is_split++) {
      const char *text = cases[i].text;
      tsr_translation_request request = request_of(text, &search, is_split ? 10 : 0);
      request.spans = 1;
      tsr_translation *answer = translate(t, &request);
      expect_all(text, strlen(text), answer->source_spans, answer->n_source_ids);
      assert_int_equal(answer->n_source_parts, answer->n_parts);
      assert_int_equal(answer->part_ends[answer->n_parts - 1], answer->n_source_ids);
      for (size_t k = 0; k < 4 && cases[i].words[k]; k++) {
        if (!has_span(answer, text, cases[i].words[k])) {
          fail_msg("'%s': '%s' is not where it is", text, cases[i].words[k]);
        }
      }
      for (int32_t k = 0; k < answer->n_hypotheses; k++) {
        const tsr_translation_hypothesis *h = answer->hypotheses[k];
        expect_all(h->text, strlen(h->text), h->spans, h->n_ids);
        assert_null(h->aligned);
        assert_null(h->attention);
      }
      tsr_translation_free(answer);
    }
  }
  tsr_translator_close(t);
}

/* Of many tokens, too, and of what is cut. */
static void test_spans_of_long_texts(void **state)
{
  (void)state;
  enum { TIMES = 40 };
  static char text[TIMES * sizeof several + 1];
  tsr_translator *t = open_with(0);
  tsr_generate_options search = search_of(t, 1);
  search.max_length = 4;
  for (int32_t i = 0; i < TIMES; i++) {
    strcat(strcat(text, several), " ");
  }
  tsr_translation_request request = request_of(text, &search, 0);
  request.spans = 1;
  request.long_input = TSR_LONG_SPLIT;
  tsr_translation *answer = translate(t, &request);
  expect_all(text, strlen(text), answer->source_spans, answer->n_source_ids);
  tsr_translation_free(answer);
  request.long_input = TSR_LONG_CUT;
  request.max_source = 20;
  answer = translate(t, &request);
  assert_int_equal(answer->n_source_ids, 20);
  expect_all(text, (size_t)answer->source_spans[19].end, answer->source_spans, answer->n_source_ids);
  assert_in_range(answer->source_spans[19].end, 40, 120);
  tsr_translation_free(answer);
  tsr_translator_close(t);
}

/* ---- alignment --------------------------------------------------------------------------------------------------- */

/* Which of the source's bytes the word of a translation was made from. */
static int is_made_from(const tsr_translation *answer, const char *source, const char *from, const char *word)
{
  const tsr_translation_hypothesis *h = answer->hypotheses[0];
  const char *at = strstr(h->text, word), *origin = strstr(source, from);
  assert_non_null(at);
  assert_non_null(origin);
  for (int32_t i = 0; i < h->n_ids; i++) {
    if (h->spans[i].begin <= at - h->text && at - h->text < h->spans[i].end && h->aligned[i] >= 0) {
      tsr_text_span span = answer->source_spans[h->aligned[i]];
      return span.begin >= origin - source && span.end <= origin - source + (int32_t)strlen(from);
    }
  }
  return 0;
}

static void test_alignment(void **state)
{
  (void)state;
  tsr_translator *t = open_with(-1);
  tsr_generate_options search = search_of(t, 4);
  int32_t layers = tsr_model_config(tsr_translator_model(t))->decoder_layers;
  assert_in_range(tsr_translator_alignment_layer(t), 1, layers);
  for (int32_t is_split = 0; is_split < 2; is_split++) {
    static const char text[] = "Tom and Mary live in Boston. I know Tom, and Mary is in Boston.";
    tsr_translation_request request = request_of(text, &search, is_split ? 11 : 0);
    request.alignment = 1;
    tsr_translation *answer = translate(t, &request);
    const tsr_translation_hypothesis *h = answer->hypotheses[0];
    assert_int_equal(answer->n_parts > 1, is_split);
    assert_null(h->attention);
    assert_int_equal(h->aligned[h->n_ids - 1], -1); /* </s> */
    assert_true(is_made_from(answer, text, "Tom", "Tom"));
    assert_true(is_made_from(answer, text, "Boston", "Boston"));
    if (is_split) { /* each part with its own source */
      for (int32_t i = 0; i < h->n_ids; i++) {
        int32_t begin = h->spans[i].begin, is_second = strstr(h->text, ". ") + 1 < h->text + begin;
        if (h->aligned[i] >= 0) {
          assert_int_equal(h->aligned[i] >= answer->part_ends[0], is_second);
        }
      }
    }
    tsr_translation_free(answer);
  }
  /* With its attention, which others who ask for it get, too. */
  search.attention = 1;
  search.attention_layer = layers;
  tsr_translation_request request = request_of("Tom is here.", &search, 0);
  request.alignment = 1;
  tsr_translation *answer = translate(t, &request);
  assert_non_null(answer->hypotheses[0]->attention);
  assert_non_null(answer->hypotheses[0]->aligned);
  tsr_translation_free(answer);
  tsr_translator_close(t);
  const tsr_translator_options named = {TSR_SIZED(tsr_translator_options), .alignment_layer = 1, .alignment_heads = 5};
  check(tsr_translator_open(folder, &named, &t));
  assert_int_equal(tsr_translator_alignment_heads(t), 5);
  tsr_translator_close(t);
  for (int32_t wanted = -2; wanted <= layers + 1; wanted++) {
    const tsr_translator_options options = {TSR_SIZED(tsr_translator_options), .alignment_layer = wanted};
    tsr_status status = tsr_translator_open(folder, &options, &t);
    assert_int_equal(status, wanted < -1 || wanted > layers ? TSR_ERR_ARGUMENT : TSR_OK);
    if (status == TSR_OK && wanted > 0) {
      assert_int_equal(tsr_translator_alignment_layer(t), wanted);
    }
    tsr_translator_close(t);
  }
}

/* Fills the first half of a tensor of a safetensors file with zeros. */
static void clear_half(FILE *file, const char *name)
{
  static char header[1 << 20];
  uint64_t size = 0;
  long long begin = 0, end = 0;
  rewind(file);
  assert_int_equal(fread(&size, sizeof size, 1, file), 1);
  assert_true(size < sizeof header);
  assert_int_equal(fread(header, (size_t)size, 1, file), 1);
  header[size] = '\0';
  const char *at = strstr(header, name);
  assert_non_null(at);
  at = strstr(at, "\"data_offsets\":[");
  assert_non_null(at);
  assert_int_equal(sscanf(at, "\"data_offsets\":[%lld,%lld]", &begin, &end), 2);
  assert_int_equal(fseek(file, (long)(sizeof size + size) + (long)begin, SEEK_SET), 0);
  for (long long i = begin; i < begin + (end - begin) / 2; i++) {
    assert_int_equal(fputc(0, file), 0);
  }
}

/* Half of the heads of two layers attend to all places alike: the others align. */
static void test_blind_heads(void **state)
{
  static const char *const files[] = {
      "config.json", "generation_config.json", "model.safetensors", "source.spm", "target.spm",
      "vocab.json",  "tokenizer_config.json"};
  static const char *const parts[] = {"q_proj.weight", "q_proj.bias"};
  char *own = make_temporary_folder(), from[4200], to[4200], *original = folder;
  (void)state;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    snprintf(from, sizeof from, "%s/%s", folder, files[i]);
    snprintf(to, sizeof to, "%s/%s", own, files[i]);
    copy_file(from, to);
  }
  snprintf(to, sizeof to, "%s/model.safetensors", own);
  FILE *file = fopen(to, "r+b");
  assert_non_null(file);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    for (int32_t layer = 1; layer < 3; layer++) {
      snprintf(from, sizeof from, "\"model.decoder.layers.%d.encoder_attn.%s\"", (int)layer, parts[i]);
      clear_half(file, from);
    }
  }
  assert_int_equal(fclose(file), 0);
  folder = own;
  tsr_translator *t = open_with(-1);
  uint32_t heads = tsr_translator_alignment_heads(t);
  assert_int_equal(tsr_model_config(tsr_translator_model(t))->decoder_heads, 6);
  assert_in_range(tsr_translator_alignment_layer(t), 2, 3);
  assert_int_equal(heads & 7, 0);
  assert_int_not_equal(heads, 0);
  /* A request has them, too. */
  tsr_generate_options search = search_of(t, 1);
  search.attention = 1;
  tsr_translation_request request = request_of("Tom is here.", &search, 0);
  request.alignment = 1;
  tsr_translation *found = translate(t, &request);
  search.attention_layer = tsr_translator_alignment_layer(t);
  search.attention_heads = heads;
  tsr_translation *named = translate(t, &request);
  const tsr_translation_hypothesis *h = found->hypotheses[0], *other = named->hypotheses[0];
  assert_int_equal(h->n_ids, other->n_ids);
  assert_memory_equal(h->attention, other->attention, (size_t)(h->n_ids * h->n_source) * sizeof *h->attention);
  tsr_translation_free(found);
  tsr_translation_free(named);
  tsr_translator_close(t);
  folder = original;
  remove_temporary_folder(own);
}

static void test_named_heads(void **state)
{
  static const struct {
    int32_t layer;
    uint32_t heads;
    const char *message;
  } rows[] = {{-1, 1, "alignment_layer is -1"}, {1, 64, "the decoder has 6 heads"}, {0, 64, "has 6 heads"}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const tsr_translator_options options = {TSR_SIZED(tsr_translator_options), .alignment_layer = rows[i].layer,
                                            .alignment_heads = rows[i].heads};
    tsr_translator *t;
    assert_int_equal(tsr_translator_open(folder, &options, &t), TSR_ERR_ARGUMENT);
    assert_non_null(strstr(tsr_error_message(), rows[i].message));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pieces),      cmocka_unit_test(test_pieces_of_a_lost_device),
      cmocka_unit_test(test_spans),       cmocka_unit_test(test_spans_of_long_texts),
      cmocka_unit_test(test_alignment),   cmocka_unit_test(test_blind_heads),
      cmocka_unit_test(test_named_heads),
  };
  return cmocka_run_group_tests(tests, open_folder, close_folder);
}
