/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of many queries, a tile of queries and a tile of keys at a time. The queries of a tile are the columns:
 * each element of a key is spread over a vector and meets a vector of queries, in both products, and what is kept
 * per query (largest score, sum, visible keys) is a vector too. k and v need no transposing for that, only q and y,
 * once.
 */
#include "attention.h"

enum { TILE = CPU_ATTENTION_TILE };

typedef struct tiles {
  const cpu_attention *a;
  int64_t b, h, l, n; /* queries l .. l+n-1 */
  int64_t vectors;    /* that they fill */
  cpu_places places;
  int64_t ends[TILE]; /* [query] keys that are visible; of columns without a query: of the last one */
  float *q;           /* [K][TILE] */
  float *y;           /* [J][TILE] */
  float *scores;      /* [key][TILE], then their exponentials */
  float *keys;        /* [key][K], then [key][J] */
  float *alpha;       /* [TILE] the same in each */
  float *max, *sum;   /* [TILE] */
  float *factor;      /* [TILE] of y before this tile of keys */
  float *scale;       /* [TILE] of y after it: 1, and 1 / sum at last */
  float *turned;      /* [CPU_LANES][TILE] scores of queries, keys side by side; [TILE][CPU_LANES] factors of keys */
  float *factors;     /* [query][key] of the dropout */
  float *room;        /* [2][CPU_KEYS] */
} tiles;

int64_t cpu_tiles_count(int64_t L)
{
  return (L + TILE - 1) / TILE;
}

/* Lays the pieces out in scratch, and says how many bytes they take. */
static uint64_t lay_out(tiles *t, float *scratch)
{
  const int64_t K = t->a->K, J = t->a->J;
  int64_t used = 0;
  t->q = cpu_cut(scratch, &used, K * TILE);
  t->y = cpu_cut(scratch, &used, J * TILE);
  t->scores = cpu_cut(scratch, &used, TILE * TILE);
  t->keys = cpu_cut(scratch, &used, TILE * (K > J ? K : J));
  t->alpha = cpu_cut(scratch, &used, TILE);
  t->max = cpu_cut(scratch, &used, TILE);
  t->sum = cpu_cut(scratch, &used, TILE);
  t->factor = cpu_cut(scratch, &used, TILE);
  t->scale = cpu_cut(scratch, &used, TILE);
  t->turned = cpu_cut(scratch, &used, CPU_LANES * TILE);
  t->factors = cpu_cut(scratch, &used,
                       cpu_attention_factors_room(t->a, TILE, cpu_attention_at_once(t->a, TILE) ? t->a->S : TILE));
  t->room = cpu_cut(scratch, &used, 2 * CPU_KEYS);
  return (uint64_t)used * sizeof(float);
}

uint64_t cpu_tiles_scratch(const cpu_attention *a)
{
  tiles t = {.a = a};
  return lay_out(&t, NULL);
}

/* n keys' or values' rows side by side: to `keys` [n][width]. */
static void gather(tiles *t, const cpu_tensor *from, const int64_t *at, int64_t n, int64_t width)
{
  const int64_t size = cpu_element_size(from->dtype);
  const char *head = (const char *)from->data + t->h / t->a->sharing * from->stride[2] * size;
  for (int64_t i = 0; i < n; i++) {
    const char *row = head + at[i] * size;
    float *to = t->keys + i * width;
    if (from->dtype == TSR_F32 && from->stride[3] == 1) {
      memcpy(to, row, (size_t)width * sizeof *to);
    } else {
      cpu_widen_row(from->dtype, row, from->stride[3], width, to);
    }
  }
}

/* Scores of excluded keys become -inf: n keys from `first` on. */
static void hide_keys(tiles *t, int64_t first, int64_t n)
{
  int32_t visible[TILE], least = (int32_t)n; /* of these keys */
  for (int64_t i = 0; i < t->vectors * CPU_LANES; i++) {
    const int64_t left = t->ends[i] - first;
    visible[i] = (int32_t)(left < 0 ? 0 : left < n ? left : n);
    least = visible[i] < least ? visible[i] : least;
  }
  const cpu_f32v excluded = cpu_splat(-INFINITY);
  for (int64_t s = t->places.any_outside ? 0 : least; s < n; s++) {
    const int32_t outside = t->places.any_outside && t->places.outside[s];
    const cpu_i32v key = cpu_splat_i32(outside ? INT32_MAX : (int32_t)s);
    for (int64_t v = 0; v < t->vectors * CPU_LANES; v += CPU_LANES) {
      float *score = t->scores + s * TILE + v;
      cpu_store(score, cpu_select(key >= cpu_load_i32(visible + v), excluded, cpu_load(score)));
    }
  }
}

/* Biases are rows of keys: the scores are turned into such, and back. */
static void bias_scores(tiles *t, int64_t first, int64_t n)
{
  for (int64_t v = 0; v < t->n; v += CPU_LANES) {
    const int64_t queries = t->n - v < CPU_LANES ? t->n - v : CPU_LANES;
    cpu_attention_turn(t->scores + v, TILE, 1, n, queries, t->turned, TILE);
    for (int64_t i = 0; i < queries; i++) {
      float *row = t->turned + i * TILE;
      for (int64_t s = n; s < cpu_whole(n); s++) {
        row[s] = 0.0f;
      }
      cpu_attention_bias(t->a, t->b, t->h, t->l + v + i, first, n, row, t->room);
    }
    cpu_attention_turn(t->turned, TILE, 1, queries, n, t->scores + v, TILE);
  }
}

/* Keeps the scores where the weights will be. */
static void keep_scores(const tiles *t, int64_t first, int64_t n)
{
  const cpu_tensor *w = t->a->weights;
  const int64_t at = t->b * w->stride[0] + t->h * w->stride[1] + t->l * w->stride[2] + first;
  cpu_attention_turn(t->scores, TILE, 1, n, t->n, (float *)w->data + at, w->stride[2]);
}

/* The scores of n keys become their exponentials, of excluded keys -0; the largest and the sums are brought up to
 * date, and what y is to be scaled by. Returns 1 if any key is excluded. */
static int take_exponentials(tiles *t, int64_t n)
{
  const cpu_f32v excluded = cpu_splat(-INFINITY);
  int any = 0;
  for (int64_t v = 0; v < t->vectors * CPU_LANES; v += CPU_LANES) {
    const cpu_f32v before = cpu_load(t->max + v);
    cpu_f32v largest = before, least = cpu_splat(INFINITY), largest_odd = largest, least_odd = least;
    for (int64_t s = 0; s < n; s += 2) {
      const cpu_f32v even = cpu_load(t->scores + s * TILE + v);
      const cpu_f32v odd = cpu_load(t->scores + (s + 1 < n ? s + 1 : s) * TILE + v);
      largest = cpu_max(even, largest); /* all pass over NaN, which the sum will show */
      least = cpu_min(even, least);
      largest_odd = cpu_max(odd, largest_odd);
      least_odd = cpu_min(odd, least_odd);
    }
    largest = cpu_max(largest_odd, largest);
    least = cpu_min(least_odd, least);
    const int holes = cpu_any(least == excluded);
    const cpu_f32v shift = cpu_attention_shift(largest), factor = cpu_exp(before - shift);
    cpu_f32v sum = cpu_load(t->sum + v) * factor;
    for (int64_t s = 0; s < n; s++) {
      float *at = t->scores + s * TILE + v;
      const cpu_f32v score = cpu_load(at), p = cpu_exp(score - shift);
      cpu_store(at, holes ? cpu_select(score == excluded, cpu_splat(-0.0f), p) : p);
      sum += p;
    }
    cpu_store(t->max + v, largest);
    cpu_store(t->sum + v, sum);
    cpu_store(t->factor + v, factor);
    any |= holes;
  }
  return any;
}

/* Drops exponentials of n keys from `first` on; the others are scaled. What is -0 stays that. */
static void drop_out(tiles *t, int64_t first, int64_t n)
{
  const cpu_attention *a = t->a;
  const int at_once = cpu_attention_at_once(a, TILE);
  const float *factors = t->factors + (at_once ? first : 0);
  int64_t row = a->S;
  if (!at_once) {
    row = cpu_attention_factors(a, t->b, t->h, t->l, t->n, first, n, TILE, t->factors);
  } else if (first == 0) {
    cpu_attention_factors(a, t->b, t->h, t->l, t->n, 0, t->ends[t->n - 1], a->S, t->factors);
  }
  for (int64_t v = 0; v < t->n; v += CPU_LANES) {
    const int64_t queries = t->n - v < CPU_LANES ? t->n - v : CPU_LANES;
    cpu_attention_turn(factors + v * row, row, 1, queries, n, t->turned, CPU_LANES);
    for (int64_t s = 0; s < n; s++) {
      float *at = t->scores + s * TILE + v;
      cpu_store_part(at, cpu_load(at) * cpu_load(t->turned + s * CPU_LANES), queries);
    }
  }
}

/* y = (y * factor + values @ exponentials) * scale, where the values of excluded keys are not to be seen: some are
 * NaN or infinite. */
static void multiply_visible(tiles *t, int64_t n, const float *factor)
{
  const int64_t J = t->a->J;
  for (int64_t v = 0; v < t->vectors * CPU_LANES; v += CPU_LANES) {
    for (int64_t j = 0; j < J; j++) {
      float *y = t->y + j * TILE + v;
      cpu_f32v sum = factor ? cpu_load(y) * cpu_load(factor + v) : cpu_splat(0.0f);
      for (int64_t s = 0; s < n; s++) {
        const cpu_f32v p = cpu_load(t->scores + s * TILE + v);
        const cpu_i32v hidden = cpu_bits(p) == cpu_bits(cpu_splat(-0.0f));
        sum = cpu_select(hidden, sum, cpu_fma(p, cpu_splat(t->keys[s * J + j]), sum));
      }
      cpu_store(y, sum * cpu_load(t->scale + v));
    }
  }
}

/* Scores of n keys from `first` on. Where they are floats, and their rows as far apart as each other, they are read
 * where they are. */
static void multiply_keys(tiles *t, int64_t first, int64_t n)
{
  const cpu_attention *a = t->a;
  const float *keys = t->keys;
  int64_t row = a->K, step = 1;
  if (a->K > 0 && (a->rows || a->k->dtype != TSR_F32)) {
    gather(t, a->k, t->places.k, n, a->K);
  } else if (a->K > 0) {
    keys = (const float *)a->k->data + t->places.k[0] + t->h / a->sharing * a->k->stride[2];
    row = a->k->stride[1];
    step = a->k->stride[3];
  }
  const cpu_small_product product = {.rows = n,
                                     .depth = a->K,
                                     .vectors = t->vectors,
                                     .a = keys,
                                     .a_row = row,
                                     .a_step = step,
                                     .b = t->q,
                                     .b_row = TILE,
                                     .scale = t->alpha,
                                     .c = t->scores,
                                     .c_row = TILE};
  cpu_attention_multiply(&product);
  for (int64_t s = 0; a->softcap > 0.0f && s < n; s++) {
    cpu_attention_cap(a, t->scores + s * TILE, t->vectors * CPU_LANES);
  }
  hide_keys(t, first, n);
  if (cpu_attention_biased(a)) {
    bias_scores(t, first, n);
  }
  if (a->weights) {
    keep_scores(t, first, n);
  }
}

static void multiply_values(tiles *t, int64_t first, int64_t n, int holes)
{
  const int64_t J = t->a->J;
  const float *factor = first > 0 ? t->factor : NULL;
  gather(t, t->a->v, t->places.v, n, J);
  if (holes && !cpu_attention_finite(t->keys, J, n, J)) {
    multiply_visible(t, n, factor);
  } else {
    const cpu_small_product product = {.rows = J,
                                       .depth = n,
                                       .vectors = t->vectors,
                                       .a = t->keys,
                                       .a_row = 1,
                                       .a_step = J,
                                       .b = t->scores,
                                       .b_row = TILE,
                                       .factor = factor,
                                       .scale = t->scale,
                                       .c = t->y,
                                       .c_row = TILE};
    cpu_attention_multiply(&product);
  }
}

static void begin(tiles *t)
{
  const cpu_attention *a = t->a;
  const int64_t columns = t->vectors * CPU_LANES;
  for (int64_t i = 0; i < columns; i++) {
    t->ends[i] = cpu_visible_keys(&a->masking, t->b, t->l + (i < t->n ? i : t->n - 1), a->keys);
    t->alpha[i] = a->alpha;
    t->max[i] = -INFINITY;
    t->sum[i] = 0.0f;
    t->scale[i] = 1.0f;
  }
  if (a->K > 0) {
    const int64_t at = t->b * a->q->stride[0] + t->l * a->q->stride[1] + t->h * a->q->stride[2];
    cpu_attention_columns((const float *)a->q->data + at, a->q->stride[1], a->q->stride[3], t->n, a->K, t->q);
  }
}

static void finish(const tiles *t, int64_t keys)
{
  const cpu_attention *a = t->a;
  if (a->J > 0) {
    float *y = (float *)a->y->data + t->b * a->y->stride[0] + t->l * a->y->stride[1] + t->h * a->y->stride[2];
    if (keys > 0) {
      cpu_attention_turn(t->y, TILE, 1, a->J, t->n, y, a->y->stride[1]);
    } else {
      for (int64_t i = 0; i < t->n; i++) {
        memset(y + i * a->y->stride[1], 0, (size_t)a->J * sizeof *y);
      }
    }
  }
  if (a->weights && a->S > 0) {
    for (int64_t i = 0; i < t->n; i++) {
      cpu_attention_weights(a, t->b, t->h, t->l + i, t->ends[i], t->max[i], t->sum[i]);
    }
  }
  for (int64_t i = 0; a->lse && i < t->n; i++) {
    cpu_attention_lse(a, t->b, t->h, t->l + i, t->max[i], t->sum[i]);
  }
}

static void attend(tiles *t)
{
  begin(t);
  const int64_t keys = t->ends[t->n - 1]; /* the last query sees most */
  for (int64_t first = 0; first < keys; first += TILE) {
    const int64_t n = keys - first < TILE ? keys - first : TILE;
    cpu_attention_places(t->a, t->b, first, n, &t->places);
    multiply_keys(t, first, n);
    const int holes = take_exponentials(t, n);
    for (int64_t i = 0; first + n == keys && i < t->n; i++) {
      t->scale[i] = cpu_attention_inverse(t->sum[i]);
    }
    if (t->a->J > 0) {
      if (t->a->seed) {
        drop_out(t, first, n);
      }
      multiply_values(t, first, n, holes);
    }
  }
  finish(t, keys);
}

void cpu_tiles_task(const void *attention, int64_t task, void *scratch)
{
  const cpu_attention *a = attention;
  const int64_t count = cpu_tiles_count(a->L), last = cpu_first(a->n_items, a->n_tasks, task + 1);
  tiles t;
  t.a = a;
  lay_out(&t, scratch);
  for (int64_t item = cpu_first(a->n_items, a->n_tasks, task); item < last; item++) {
    t.b = item / count / a->H;
    t.h = item / count % a->H;
    t.l = item % count * TILE;
    t.n = a->L - t.l < TILE ? a->L - t.l : TILE;
    t.vectors = cpu_whole(t.n) / CPU_LANES;
    attend(&t);
  }
}
