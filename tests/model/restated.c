/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/restated.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/philox.h"

typedef struct job {
  const setup *s;
  const tsr_generate_options *o;
  const int32_t *source;
  int32_t n_source;
  int32_t number;
  int32_t vocabulary;
  int32_t n_rows;
  float *logits; /* [n_rows][MOST_TOKENS][V] */
  float *scores; /* [n_rows][V] */
} job;

/* A continuation. */
typedef struct way {
  double sum;
  int32_t row;
  int32_t token;
} way;

static int32_t start_token(const job *j)
{
  return j->o->decoder_start_id >= 0 ? j->o->decoder_start_id : tsr_model_config(j->s->model)->decoder_start_id;
}

static int32_t end_token(const job *j, int32_t i)
{
  return j->o->n_eos > 0 ? j->o->eos[i] : tsr_model_config(j->s->model)->eos_id;
}

static int32_t n_ends(const job *j)
{
  return j->o->n_eos > 0 ? j->o->n_eos : 1;
}

static int is_end(const job *j, int32_t token)
{
  for (int32_t i = 0; i < n_ends(j); i++) {
    if (token == end_token(j, i)) {
      return 1;
    }
  }
  return 0;
}

static void log_softmax(float *row, int32_t n)
{
  double largest = -INFINITY;
  double sum = 0.0;
  for (int32_t i = 0; i < n; i++) {
    largest = fmax(largest, (double)row[i]);
  }
  for (int32_t i = 0; i < n; i++) {
    sum += exp((double)row[i] - largest);
  }
  for (int32_t i = 0; i < n; i++) {
    row[i] = (float)((double)row[i] - largest - log(sum));
  }
}

/* The logits behind each row's last token. */
static void compute_rows(const job *j, const restated *rows)
{
  int32_t target[MOST_ROWS * MOST_TOKENS] = {0};
  int32_t source[MOST_ROWS * MAX_SOURCE] = {0};
  int32_t lengths[MOST_ROWS];
  for (int32_t r = 0; r < j->n_rows; r++) {
    memcpy(target + r * MOST_TOKENS, rows[r].ids, (size_t)rows[r].length * sizeof *target);
    memcpy(source + r * MAX_SOURCE, j->source, (size_t)j->n_source * sizeof *source);
    lengths[r] = j->n_source;
  }
  check(tsr_transformer_forward(j->s->transformer, j->n_rows, MAX_SOURCE, source, lengths, MOST_TOKENS, target, NULL,
                                j->logits));
  for (int32_t r = 0; r < j->n_rows; r++) {
    memcpy(j->scores + r * j->vocabulary, j->logits + (r * MOST_TOKENS + rows[r].length - 1) * (int64_t)j->vocabulary,
           (size_t)j->vocabulary * sizeof *j->scores);
  }
}

/* ---- the settings, one after the other --------------------------------------------------------------------------- */

static int holds(const int32_t *ids, int32_t n, int32_t token)
{
  for (int32_t i = 0; i < n; i++) {
    if (ids[i] == token) {
      return 1;
    }
  }
  return 0;
}

static void penalise(const job *j, float *row, const int32_t *ids, int32_t n, float penalty)
{
  for (int32_t t = 0; t < j->vocabulary && penalty != 0.0f; t++) {
    if (holds(ids, n, t)) {
      row[t] = row[t] < 0.0f ? row[t] * penalty : row[t] / penalty;
    }
  }
}

/* Bans what follows, in text, wherever the last n - 1 of ids stand. */
static void ban_ngrams(float *row, const int32_t *text, int32_t n_text, const int32_t *ids, int32_t length, int32_t n)
{
  for (int32_t i = 0; n > 0 && length >= n - 1 && i + n <= n_text; i++) {
    int same = 1;
    for (int32_t k = 0; k < n - 1; k++) {
      same = same && text[i + k] == ids[length - (n - 1) + k];
    }
    if (same) {
      row[text[i + n - 1]] = -INFINITY;
    }
  }
}

static void ban_words(const job *j, float *row, const int32_t *ids, int32_t length)
{
  for (int32_t i = 0; i < j->o->n_words; i += 1 + j->o->words[i]) {
    int32_t n = j->o->words[i];
    int same = n <= length;
    for (int32_t k = 0; same && k < n - 1; k++) {
      same = j->o->words[i + 1 + k] == ids[length - (n - 1) + k];
    }
    if (same) {
      row[j->o->words[i + n]] = -INFINITY;
    }
  }
}

static int32_t forced_token(const job *j, int32_t length)
{
  if (j->o->forced_eos_id >= 0 && length == j->o->max_length - 1) {
    return j->o->forced_eos_id;
  }
  return length == 1 ? j->o->forced_bos_id : -1;
}

static void change(const job *j, float *row, const restated *h)
{
  const tsr_generate_options *o = j->o;
  penalise(j, row, j->source, j->n_source,
           o->encoder_repetition_penalty != 0.0f ? 1.0f / o->encoder_repetition_penalty : 0.0f);
  penalise(j, row, h->ids, h->length, o->repetition_penalty);
  ban_ngrams(row, h->ids, h->length, h->ids, h->length, o->no_repeat_ngram);
  ban_ngrams(row, j->source, j->n_source, h->ids, h->length, o->encoder_no_repeat_ngram);
  ban_words(j, row, h->ids, h->length);
  for (int32_t i = 0; h->length < o->min_length && i < n_ends(j); i++) {
    row[end_token(j, i)] = -INFINITY;
  }
  int32_t forced = forced_token(j, h->length);
  for (int32_t t = 0; forced >= 0 && t < j->vocabulary; t++) {
    row[t] = t == forced ? 0.0f : -INFINITY;
  }
  for (int32_t i = 0; forced < 0 && i < o->n_suppressed; i++) {
    row[o->suppressed[i]] = -INFINITY;
  }
  for (int32_t i = 0; i < o->n_begin_suppressed && h->length == (o->forced_bos_id < 0 ? 1 : 2); i++) {
    row[o->begin_suppressed[i]] = -INFINITY;
  }
}

static double score(const tsr_generate_options *o, double sum, int32_t n)
{
  double divisor = o->length_kind == TSR_LENGTH_GNMT ? pow((5.0 + n) / 6.0, (double)o->length_penalty)
                                                     : pow((double)n, (double)o->length_penalty);
  return (sum - (o->search == TSR_SEARCH_MARIAN ? (double)o->word_penalty * n : 0.0)) / divisor;
}

/* ---- independent rows -------------------------------------------------------------------------------------------- */

static int compare_ways(const void *left, const void *right)
{
  const way *a = left;
  const way *b = right;
  if (a->sum != b->sum) {
    return a->sum > b->sum ? -1 : 1;
  }
  return a->row != b->row ? (a->row > b->row) - (a->row < b->row) : (a->token > b->token) - (a->token < b->token);
}

/* As the original's TopKLogitsWarper and TopPLogitsWarper: the latter sums probabilities from the least one on. */
static int32_t draw(const job *j, const float *row, int32_t length, int32_t sample)
{
  const tsr_generate_options *o = j->o;
  int32_t n = j->vocabulary;
  way *ways = malloc((size_t)n * sizeof *ways);
  assert_non_null(ways);
  double temperature = o->temperature > 0.0f ? (double)o->temperature : 1.0;
  for (int32_t t = 0; t < n; t++) {
    ways[t] = (way){.sum = (double)row[t] / temperature, .token = t};
  }
  qsort(ways, (size_t)n, sizeof *ways, compare_ways);
  n = o->top_k > 0 && o->top_k < n ? o->top_k : n;
  if (o->top_p > 0.0f && o->top_p < 1.0f) {
    double total = 0.0;
    double tail = 0.0;
    for (int32_t i = 0; i < n; i++) {
      total += exp(ways[i].sum - ways[0].sum);
    }
    while (n > 1 && tail + exp(ways[n - 1].sum - ways[0].sum) <= (1.0 - (double)o->top_p) * total) {
      tail += exp(ways[--n].sum - ways[0].sum);
    }
  }
  double best = -INFINITY;
  int32_t token = ways[0].token;
  for (int32_t i = 0; i < n; i++) {
    const uint32_t key[2] = {(uint32_t)o->seed, (uint32_t)(o->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)ways[i].token, (uint32_t)length, (uint32_t)(o->first_sentence + j->number),
                                 (uint32_t)sample};
    uint32_t words[4];
    tsr_philox4x32(counter, key, words);
    double u = ((double)(((uint64_t)words[1] << 32 | words[0]) >> 12) + 0.5) / 4503599627370496.0;
    double sum = ways[i].sum - log(-log(u));
    if (sum > best) {
      best = sum;
      token = ways[i].token;
    }
  }
  free(ways);
  return token;
}

static void restate_rows(job *j, restated *rows)
{
  double sums[MOST_ROWS] = {0};
  int32_t open[MOST_ROWS];
  int32_t n_open = j->n_rows;
  for (int32_t r = 0; r < j->n_rows; r++) {
    open[r] = 1;
  }
  while (n_open > 0 && rows[0].length < MOST_TOKENS) {
    compute_rows(j, rows);
    for (int32_t r = 0; r < j->n_rows; r++) {
      restated *h = &rows[r];
      float *row = j->scores + r * j->vocabulary;
      const float *logits = j->logits + (r * MOST_TOKENS + h->length - 1) * (int64_t)j->vocabulary;
      if (!open[r]) {
        continue;
      }
      change(j, row, h);
      int32_t token = 0;
      for (int32_t t = 1; t < j->vocabulary; t++) {
        token = row[t] > row[token] ? t : token;
      }
      if (j->o->sample) {
        token = draw(j, row, h->length, r);
      }
      memcpy(row, logits, (size_t)j->vocabulary * sizeof *row);
      log_softmax(row, j->vocabulary);
      sums[r] += forced_token(j, h->length) >= 0 ? 0.0 : (double)row[token];
      h->ids[h->length++] = token;
      open[r] = !is_end(j, token) && h->length < j->o->max_length;
      n_open -= !open[r];
      h->score = score(j->o, sums[r], h->length - 1);
    }
  }
}

/* ---- beams ------------------------------------------------------------------------------------------------------- */

typedef struct beam {
  restated rows[MOST_ROWS];
  double sums[MOST_ROWS];
  int32_t width; /* rows that count */
  restated done[4 * MOST_ROWS];
  int32_t n_done;
} beam;

/* All continuations, best first. */
static way *sort_ways(const job *j, const beam *b, int64_t *n)
{
  *n = (int64_t)b->width * j->vocabulary;
  way *ways = malloc((size_t)*n * sizeof *ways);
  assert_non_null(ways);
  compute_rows(j, b->rows);
  for (int32_t r = 0; r < b->width; r++) {
    float *row = j->scores + r * j->vocabulary;
    log_softmax(row, j->vocabulary);
    change(j, row, &b->rows[r]);
    if (j->o->renormalize && forced_token(j, b->rows[r].length) < 0) {
      log_softmax(row, j->vocabulary);
    }
    for (int32_t t = 0; t < j->vocabulary; t++) {
      ways[r * j->vocabulary + t] = (way){.sum = (double)((float)b->sums[r] + row[t]), .row = r, .token = t};
    }
  }
  qsort(ways, (size_t)*n, sizeof *ways, compare_ways);
  return ways;
}

static restated extended(const beam *b, const way *w, int32_t token)
{
  restated h = b->rows[w->row];
  h.ids[h.length++] = token;
  return h;
}

/* Keeps the best `wanted`. */
static void add_done(beam *b, const restated *h, int32_t wanted)
{
  b->done[b->n_done++] = *h;
  int32_t worst = 0;
  for (int32_t i = 1; i < b->n_done; i++) {
    worst = b->done[i].score < b->done[worst].score ? i : worst;
  }
  if (b->n_done > wanted) {
    b->done[worst] = b->done[--b->n_done];
  }
}

static double worst_score(const beam *b)
{
  double worst = INFINITY;
  for (int32_t i = 0; i < b->n_done; i++) {
    worst = fmin(worst, b->done[i].score);
  }
  return worst;
}

/* One step of the original's BeamSearchScorer. Returns 1 when it is done. */
static int step_transformers(job *j, beam *b, int32_t wanted)
{
  const tsr_generate_options *o = j->o;
  int64_t n = 0;
  int32_t generated = b->rows[0].length; /* of the continuations */
  way *ways = sort_ways(j, b, &n);
  beam next = *b;
  int32_t most = (n_ends(j) + 1 > 2 ? n_ends(j) + 1 : 2) * o->beam;
  int32_t filled = 0;
  for (int32_t rank = 0; rank < most && rank < n && filled < o->beam; rank++) {
    if (!is_end(j, ways[rank].token)) {
      next.rows[filled] = extended(b, &ways[rank], ways[rank].token);
      next.sums[filled++] = ways[rank].sum;
    } else if (rank < o->beam) {
      restated h = extended(b, &ways[rank], end_token(j, 0));
      h.score = score(o, ways[rank].sum, generated);
      add_done(&next, &h, wanted);
    }
  }
  double best = ways[0].sum;
  free(ways);
  *b = next;
  if (b->n_done < wanted) {
    return 0;
  }
  int32_t length = o->early_stopping == TSR_EARLY_NEVER && o->length_penalty > 0.0f ? o->max_length - 1 : generated;
  return o->early_stopping == TSR_EARLY_TRUE || worst_score(b) >= score(o, best, length);
}

/* One step of Marian-NMT's. Returns 1 when it is done. */
static int step_marian(job *j, beam *b)
{
  int64_t n = 0;
  way *ways = sort_ways(j, b, &n);
  beam next = *b;
  int32_t places = j->o->beam - b->n_done;
  next.width = 0;
  for (int32_t rank = 0; rank < places && rank < n && ways[rank].sum > -INFINITY; rank++) {
    restated h = extended(b, &ways[rank], ways[rank].token);
    if (is_end(j, ways[rank].token)) {
      h.score = score(j->o, ways[rank].sum, h.length - 1);
      next.done[next.n_done++] = h;
    } else {
      next.rows[next.width] = h;
      next.sums[next.width++] = ways[rank].sum;
    }
  }
  free(ways);
  *b = next;
  return b->width == 0;
}

static void restate_beam(job *j, restated *found)
{
  const tsr_generate_options *o = j->o;
  int marian = o->search == TSR_SEARCH_MARIAN;
  double factor = o->max_length_factor > 0.0f ? (double)o->max_length_factor : 3.0;
  int32_t max_length = o->max_length;
  if (marian && 1.0 + ceil(factor * j->n_source) < (double)max_length) {
    max_length = 1 + (int32_t)ceil(factor * j->n_source);
  }
  int32_t wanted = o->patience > 0.0f && !marian ? (int32_t)lround((double)o->patience * o->beam) : o->beam;
  beam *b = calloc(1, sizeof *b);
  assert_non_null(b);
  b->width = marian ? 1 : o->beam;
  for (int32_t r = 0; r < o->beam; r++) {
    b->rows[r] = (restated){.ids = {start_token(j)}, .length = 1};
    b->sums[r] = r == 0 ? 0.0 : -1e9;
  }
  int done = 0;
  while (!done && b->rows[0].length < max_length) {
    done = marian ? step_marian(j, b) : step_transformers(j, b, wanted);
  }
  for (int32_t r = 0; r < b->width && !done; r++) {
    b->rows[r].score = score(o, b->sums[r], b->rows[r].length - 1);
    add_done(b, &b->rows[r], wanted);
  }
  for (int32_t i = 0; i < o->n_best; i++) {
    int32_t best = 0;
    for (int32_t k = 1; k < b->n_done; k++) {
      best = b->done[k].score > b->done[best].score ? k : best;
    }
    assert_true(b->n_done > 0);
    found[i] = b->done[best];
    b->done[best] = b->done[--b->n_done];
  }
  free(b);
}

void restate(const setup *s, const tsr_generate_options *options, const int32_t *source, int32_t n_source,
             int32_t number, restated *found)
{
  int beams = options->beam > 1 || options->search == TSR_SEARCH_MARIAN;
  job j = {.s = s,
           .o = options,
           .source = source,
           .n_source = n_source,
           .number = number,
           .vocabulary = tsr_model_config(s->model)->target_vocabulary,
           .n_rows = beams ? options->beam : options->n_best};
  assert_in_range(j.n_rows, 1, MOST_ROWS);
  assert_in_range(options->max_length, 2, MOST_TOKENS);
  j.logits = malloc((size_t)j.n_rows * MOST_TOKENS * (size_t)j.vocabulary * sizeof *j.logits);
  j.scores = malloc((size_t)j.n_rows * (size_t)j.vocabulary * sizeof *j.scores);
  assert_true(j.logits && j.scores);
  if (beams) {
    restate_beam(&j, found);
  } else {
    for (int32_t r = 0; r < j.n_rows; r++) {
      found[r] = (restated){.ids = {start_token(&j)}, .length = 1};
    }
    restate_rows(&j, found);
  }
  free(j.logits);
  free(j.scores);
}
