/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of few queries, as in decoding: all heads of a sentence go through its keys together, so that memory is
 * read in the order in which it lies, and a key's elements once from memory for all queries.
 */
#include "attention.h"

/* Heads that go together, and keys that are met at once: in a vector's dot products, and in a sum of values. */
enum { HEADS = 8, DOTS_AT_ONCE = 4, ROWS_AT_ONCE = 8 };

/* Some heads of one sentence. "query" counts [head][l]. */
typedef struct few {
  const cpu_attention *a;
  int64_t b, head, heads, queries;
  int64_t K, J; /* whole vectors */
  int32_t direct_k, direct_v;
  int64_t ends[CPU_FEW_QUERIES];          /* [l] keys that are visible */
  int32_t holes[HEADS * CPU_FEW_QUERIES]; /* [query] 1: keys before the end are excluded in this run */
  float max[HEADS * CPU_FEW_QUERIES];     /* [query] the largest score so far */
  int64_t gathered_at[CPU_LANES];
  cpu_places places;
  float *q;        /* [query][K] */
  float *scores;   /* [query][CPU_KEYS], then their exponentials */
  float *y;        /* [query][J] */
  float *sum;      /* [query][CPU_LANES] */
  float *gathered; /* [CPU_LANES][K or J] */
  float *factors;  /* [query][key] of the dropout */
  float *room;     /* [2][CPU_KEYS] */
} few;

/* Lays the pieces out in scratch, and says how many bytes they take. */
static uint64_t lay_out(few *f, float *scratch)
{
  const int64_t most = HEADS * f->a->L;
  int64_t used = 0;
  f->q = cpu_cut(scratch, &used, most * f->K);
  f->scores = cpu_cut(scratch, &used, most * CPU_KEYS);
  f->y = cpu_cut(scratch, &used, most * f->J);
  f->sum = cpu_cut(scratch, &used, most * CPU_LANES);
  f->gathered = cpu_cut(scratch, &used, CPU_LANES * (f->K > f->J ? f->K : f->J));
  f->factors = cpu_cut(scratch, &used, cpu_attention_factors_room(f->a, most, CPU_KEYS));
  f->room = cpu_cut(scratch, &used, 2 * CPU_KEYS);
  return (uint64_t)used * sizeof(float);
}

/* Rows of floats that lie side by side and fill whole vectors are read where they are. */
static int is_direct(const cpu_tensor *t)
{
  return t->dtype == TSR_F32 && t->stride[3] == 1 && t->extent[3] % CPU_LANES == 0;
}

static void few_init(few *f, const cpu_attention *a, float *scratch)
{
  f->a = a;
  f->K = cpu_whole(a->K);
  f->J = cpu_whole(a->J);
  f->direct_k = is_direct(a->k);
  f->direct_v = is_direct(a->v);
  for (int64_t i = 0; i < CPU_LANES; i++) {
    f->gathered_at[i] = 0;
  }
  lay_out(f, scratch);
}

uint64_t cpu_few_scratch(const cpu_attention *a)
{
  few f = {.a = a, .K = cpu_whole(a->K), .J = cpu_whole(a->J)};
  return lay_out(&f, NULL);
}

/* n elements `stride` apart, then zeros up to a whole vector. */
static void fill_row(const float *from, int64_t stride, int64_t n, float *to)
{
  int64_t i = 0;
  for (; i < n; i++) {
    to[i] = from[i * stride];
  }
  for (; i < cpu_whole(n); i++) {
    to[i] = 0.0f;
  }
}

/* CPU_LANES rows of head h, to `gathered` [CPU_LANES][width]. */
static void gather(few *f, const cpu_tensor *t, int64_t h, const int64_t *at, int64_t width)
{
  const int64_t size = cpu_element_size(t->dtype), n = t->extent[3];
  const char *from = (const char *)t->data + h / f->a->sharing * t->stride[2] * size;
  for (int64_t i = 0; i < CPU_LANES; i++) {
    float *to = f->gathered + i * width;
    f->gathered_at[i] = i * width;
    if (t->dtype == TSR_F32) {
      fill_row((const float *)(const void *)(from + at[i] * size), t->stride[3], n, to);
    } else {
      cpu_widen_row(t->dtype, from + at[i] * size, t->stride[3], n, to);
      memset(to + n, 0, (size_t)(width - n) * sizeof *to);
    }
  }
}

/* Lane i: q . the row at k + at[i], of K elements. */
static cpu_f32v dots(const float *q, const float *k, const int64_t *at, int64_t K)
{
  cpu_f32v sum[CPU_LANES];
  for (int i = 0; i < CPU_LANES; i += DOTS_AT_ONCE) {
    const float *row[DOTS_AT_ONCE];
    for (int r = 0; r < DOTS_AT_ONCE; r++) {
      row[r] = k + at[i + r];
      sum[i + r] = cpu_splat(0.0f);
    }
    for (int64_t j = 0; j < K; j += CPU_LANES) {
      const cpu_f32v part = cpu_load(q + j);
      for (int r = 0; r < DOTS_AT_ONCE; r++) {
        sum[i + r] = cpu_fma(part, cpu_load(row[r] + j), sum[i + r]);
      }
    }
  }
  return cpu_sums(sum);
}

/* alpha * q . k of all heads and queries and the n keys from `first` on that they see. */
static void multiply_keys(few *f, int64_t first, int64_t n)
{
  const cpu_attention *a = f->a;
  const cpu_f32v alpha = cpu_splat(a->alpha);
  for (int64_t s = 0; s < n; s += CPU_LANES) {
    for (int64_t h = 0; h < f->heads; h++) {
      const float *k = (const float *)a->k->data + (f->head + h) / a->sharing * a->k->stride[2];
      const int64_t *at = f->places.k + s;
      if (!f->direct_k) {
        gather(f, a->k, f->head + h, at, f->K);
        k = f->gathered;
        at = f->gathered_at;
      }
      for (int64_t l = 0; l < a->L; l++) {
        const int64_t query = h * a->L + l;
        if (first + s < f->ends[l]) {
          cpu_store(f->scores + query * CPU_KEYS + s, dots(f->q + query * f->K, k, at, f->K) * alpha);
        }
      }
    }
  }
}

/* Masks the scores of n keys, keys beyond them as well, up to a whole vector. */
static void mask_scores(const few *f, int64_t query, int64_t first, int64_t n, float *scores)
{
  const cpu_attention *a = f->a;
  const int64_t h = f->head + query / a->L, l = query % a->L;
  if (a->softcap > 0.0f) {
    cpu_attention_cap(a, scores, n);
  }
  if (f->places.any_outside) {
    for (int64_t s = 0; s < n; s++) {
      scores[s] = f->places.outside[s] ? -INFINITY : scores[s];
    }
  }
  if (cpu_attention_biased(a)) {
    cpu_attention_bias(a, f->b, h, l, first, n, scores, f->room);
  }
  if (a->weights) {
    const cpu_tensor *w = a->weights;
    memcpy((float *)w->data + f->b * w->stride[0] + h * w->stride[1] + l * w->stride[2] + first, scores,
           (size_t)n * sizeof *scores);
  }
  for (int64_t s = n; s < cpu_whole(n); s++) {
    scores[s] = -INFINITY;
  }
}

/* The scores of n keys become their exponentials, of excluded keys -0; the largest, the sum and y are brought up to
 * date. */
static void take_exponentials(few *f, int64_t query, int64_t n, float *scores)
{
  const cpu_f32v excluded = cpu_splat(-INFINITY);
  cpu_f32v largest = excluded;
  cpu_i32v holes = cpu_splat_i32(0);
  for (int64_t s = 0; s < n; s += CPU_LANES) {
    const cpu_f32v score = cpu_load(scores + s);
    largest = cpu_max(score, largest); /* passes over NaN, which the sum will show */
    holes |= (score == excluded) & cpu_first_lanes(n - s);
  }
  f->holes[query] = cpu_any(holes);

  const float before = f->max[query], found = cpu_largest(largest), max = found > before ? found : before;
  const cpu_f32v shift = cpu_attention_shift(cpu_splat(max));
  float *y = f->y + query * f->J;
  cpu_f32v sum = cpu_load(f->sum + query * CPU_LANES);
  if (max > before && before > -INFINITY) {
    const cpu_f32v factor = cpu_exp(cpu_splat(before) - shift);
    sum *= factor;
    for (int64_t j = 0; j < f->J; j += CPU_LANES) {
      cpu_store(y + j, cpu_load(y + j) * factor);
    }
  }
  for (int64_t s = 0; s < n; s += CPU_LANES) {
    const cpu_f32v score = cpu_load(scores + s), p = cpu_exp(score - shift);
    cpu_store(scores + s, f->holes[query] ? cpu_select(score == excluded, cpu_splat(-0.0f), p) : p);
    sum += p;
  }
  f->max[query] = max;
  cpu_store(f->sum + query * CPU_LANES, sum);
}

static void soften(few *f, int64_t first)
{
  for (int64_t query = 0; query < f->queries; query++) {
    const int64_t left = f->ends[query % f->a->L] - first, n = left < CPU_KEYS ? left : CPU_KEYS;
    f->holes[query] = 0;
    if (n > 0) {
      float *scores = f->scores + query * CPU_KEYS;
      mask_scores(f, query, first, n, scores);
      take_exponentials(f, query, n, scores);
    }
  }
}

/* Drops exponentials of n keys from `first` on; the others are scaled. What is -0 stays that. */
static void drop_out(few *f, int64_t first, int64_t n)
{
  const int64_t row = cpu_attention_factors(f->a, f->b, f->head, 0, f->queries, first, n, CPU_KEYS, f->factors);
  for (int64_t query = 0; query < f->queries; query++) {
    float *scores = f->scores + query * CPU_KEYS;
    for (int64_t s = 0; s < n; s += CPU_LANES) {
      cpu_store(scores + s, cpu_load(scores + s) * cpu_load(f->factors + query * row + s));
    }
  }
}

/* y += sum of p[i] * the row at v + at[i], J elements, for `rows` rows: a number that the compiler knows. */
static inline __attribute__((always_inline)) void add_rows(int rows, const float *p, const float *v, const int64_t *at,
                                                           int64_t J, float *y)
{
  const float *row[ROWS_AT_ONCE];
  cpu_f32v weight[ROWS_AT_ONCE];
  for (int r = 0; r < rows; r++) {
    row[r] = v + at[r];
    weight[r] = cpu_splat(p[r]);
  }
  for (int64_t j = 0; j < J; j += CPU_LANES) {
    cpu_f32v sum = cpu_load(y + j);
    for (int r = 0; r < rows; r++) {
      sum = cpu_fma(weight[r], cpu_load(row[r] + j), sum);
    }
    cpu_store(y + j, sum);
  }
}

static void add_values(const float *p, const float *v, const int64_t *at, int64_t n, int64_t J, float *y)
{
  int64_t i = 0;
  for (; i + ROWS_AT_ONCE <= n; i += ROWS_AT_ONCE) {
    add_rows(ROWS_AT_ONCE, p + i, v, at + i, J, y);
  }
  if (n - i >= 4) {
    add_rows(4, p + i, v, at + i, J, y);
    i += 4;
  }
  if (n - i >= 2) {
    add_rows(2, p + i, v, at + i, J, y);
    i += 2;
  }
  if (n - i >= 1) {
    add_rows(1, p + i, v, at + i, J, y);
  }
}

/* The same without the keys that are excluded: their values are not to be seen. Up to CPU_LANES keys. */
static void add_visible_values(const float *p, const float *v, const int64_t *at, int64_t n, int64_t J, float *y)
{
  float visible_p[CPU_LANES];
  int64_t visible_at[CPU_LANES], visible = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!signbit(p[i])) {
      visible_p[visible] = p[i];
      visible_at[visible++] = at[i];
    }
  }
  add_values(visible_p, v, visible_at, visible, J, y);
}

/* y of all heads and queries += the values of the n keys from `first` on that they see. */
static void multiply_values(few *f, int64_t first, int64_t n)
{
  const cpu_attention *a = f->a;
  for (int64_t s = 0; s < n; s += CPU_LANES) {
    for (int64_t h = 0; h < f->heads; h++) {
      const float *v = (const float *)a->v->data + (f->head + h) / a->sharing * a->v->stride[2];
      const int64_t *at = f->places.v + s;
      if (!f->direct_v) {
        gather(f, a->v, f->head + h, at, f->J);
        v = f->gathered;
        at = f->gathered_at;
      }
      for (int64_t l = 0; l < a->L; l++) {
        const int64_t query = h * a->L + l, left = f->ends[l] - first - s, keys = left < CPU_LANES ? left : CPU_LANES;
        const float *p = f->scores + query * CPU_KEYS + s;
        if (f->holes[query]) {
          add_visible_values(p, v, at, keys, f->J, f->y + query * f->J);
        } else {
          add_values(p, v, at, keys, f->J, f->y + query * f->J);
        }
      }
    }
  }
}

/* Returns how many keys the query with the widest view sees. */
static int64_t begin(few *f)
{
  const cpu_attention *a = f->a;
  int64_t most = 0;
  for (int64_t l = 0; l < a->L; l++) {
    f->ends[l] = cpu_visible_keys(&a->masking, f->b, l, a->keys);
    most = f->ends[l] > most ? f->ends[l] : most;
  }
  for (int64_t query = 0; query < f->queries; query++) {
    const int64_t at =
        f->b * a->q->stride[0] + query % a->L * a->q->stride[1] + (f->head + query / a->L) * a->q->stride[2];
    if (a->K > 0) {
      fill_row((const float *)a->q->data + at, a->q->stride[3], a->K, f->q + query * f->K);
    }
    f->max[query] = -INFINITY;
  }
  memset(f->y, 0, (size_t)(f->queries * f->J) * sizeof(float));
  memset(f->sum, 0, (size_t)(f->queries * CPU_LANES) * sizeof(float));
  return most;
}

static void finish(const few *f)
{
  const cpu_attention *a = f->a;
  for (int64_t query = 0; query < f->queries; query++) {
    const int64_t h = f->head + query / a->L, l = query % a->L;
    const float sum = cpu_sum(cpu_load(f->sum + query * CPU_LANES));
    const cpu_f32v inverse = cpu_splat(cpu_attention_inverse(sum));
    if (a->J > 0) {
      float *to = (float *)a->y->data + f->b * a->y->stride[0] + l * a->y->stride[1] + h * a->y->stride[2];
      for (int64_t j = 0; j < a->J; j += CPU_LANES) {
        const int64_t part = a->J - j < CPU_LANES ? a->J - j : CPU_LANES;
        cpu_store_part(to + j, cpu_load(f->y + query * f->J + j) * inverse, part);
      }
    }
    if (a->weights && a->S > 0) {
      cpu_attention_weights(a, f->b, h, l, f->ends[l], f->max[query], sum);
    }
    if (a->lse) {
      cpu_attention_lse(a, f->b, h, l, f->max[query], sum);
    }
  }
}

static void attend(few *f)
{
  const int64_t most = begin(f);
  for (int64_t first = 0; first < most; first += CPU_KEYS) {
    const int64_t n = most - first < CPU_KEYS ? most - first : CPU_KEYS;
    cpu_attention_places(f->a, f->b, first, n, &f->places);
    if (f->K > 0) {
      multiply_keys(f, first, n);
    } else {
      memset(f->scores, 0, (size_t)(f->queries * CPU_KEYS) * sizeof(float));
    }
    soften(f, first);
    if (f->J > 0) {
      if (f->a->seed) {
        drop_out(f, first, n);
      }
      multiply_values(f, first, n);
    }
  }
  finish(f);
}

void cpu_few_task(const void *attention, int64_t task, void *scratch)
{
  const cpu_attention *a = attention;
  const int64_t last = cpu_first(a->n_items, a->n_tasks, task + 1);
  few f;
  few_init(&f, a, scratch);
  for (int64_t item = cpu_first(a->n_items, a->n_tasks, task); item < last; item += f.heads) {
    f.b = item / a->H;
    f.head = item % a->H;
    f.heads = a->H - f.head < HEADS ? a->H - f.head : HEADS;
    f.heads = last - item < f.heads ? last - item : f.heads;
    f.queries = f.heads * a->L;
    attend(&f);
  }
}
