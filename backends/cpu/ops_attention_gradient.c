/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of attention (Dao et al. 2022, arXiv:2205.14135), one sentence and head at a time, a tile of keys and a
 * tile of queries at a time: the scores are computed anew, and w from them and lse. Here the queries are rows, as are
 * the elements of a dropout, the biases and dscores; the five products are of small matrices that stay in the nearest
 * caches. dk and dv of a tile of keys are summed over the queries, dq over the tiles of keys.
 */
#include "attention.h"

enum { TILE = CPU_ATTENTION_TILE };

/* Rows of which each fills whole vectors. */
typedef struct rows {
  const float *data;
  int64_t row; /* elements from row to row */
} rows;

typedef struct sums {
  float *data;
  int64_t row;
} sums;

typedef struct gradient {
  const cpu_attention_gradient *g;
  const cpu_attention *a;
  int64_t b, h, K, J;               /* K, J: whole vectors */
  int64_t l, queries;               /* queries l .. l+queries-1 of the tile */
  int64_t first, keys;              /* keys of the tile */
  int64_t ends[TILE];               /* [query] how many of these keys are visible: no fewer than to the query before */
  int32_t holes;                    /* 1: keys are excluded in this tile */
  rows q, k, dy;                    /* of the tile */
  sums dq, dk, dv;                  /* dq: of all queries */
  float *weights;                   /* [query][TILE] scores, then weights dropped out, of excluded keys -0 */
  float *dscores;                   /* [query][TILE] gradients of the weights, then those of q . k */
  float *turned_k;                  /* [K][TILE] */
  float *turned_v;                  /* [J][TILE] */
  float *delta;                     /* [L] */
  float *alpha, *ones;              /* [TILE] the same in each; [TILE, K, J: the largest] */
  float *slopes;                    /* [TILE] with a softcap: alpha times the slope of the cap at a query's scores */
  float *factors;                   /* [query][key] of the dropout */
  float *room;                      /* [2][CPU_KEYS], [2][J] */
  float *room_q, *room_k, *room_dy; /* [TILE][K], [TILE][J]: rows that are not direct */
  float *room_dq, *room_dk, *room_dv; /* [L][K], [TILE][K], [TILE][J]: likewise */
} gradient;

/* Rows whose elements lie side by side and fill whole vectors are read, and written, where they are. */
static int is_direct(const cpu_tensor *t)
{
  return t->stride[3] == 1 && t->extent[3] % CPU_LANES == 0;
}

static int64_t larger(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* Lays the pieces out in scratch, and says how many bytes they take. */
static uint64_t lay_out(gradient *t, float *scratch)
{
  const cpu_attention *a = t->a;
  const cpu_attention_gradient *g = t->g;
  int64_t used = 0;
  t->K = cpu_whole(a->K);
  t->J = cpu_whole(a->J);
  t->weights = cpu_cut(scratch, &used, TILE * TILE);
  t->dscores = cpu_cut(scratch, &used, TILE * TILE);
  t->turned_k = cpu_cut(scratch, &used, t->K * TILE);
  t->turned_v = cpu_cut(scratch, &used, t->J * TILE);
  t->delta = cpu_cut(scratch, &used, cpu_whole(a->L));
  t->alpha = cpu_cut(scratch, &used, TILE);
  t->slopes = cpu_cut(scratch, &used, TILE);
  t->ones = cpu_cut(scratch, &used, larger(TILE, larger(t->K, t->J)));
  t->factors = cpu_cut(scratch, &used,
                       cpu_attention_at_once(a, a->L) ? cpu_attention_factors_room(a, a->L, a->S)
                                                      : cpu_attention_factors_room(a, TILE, TILE));
  t->room = cpu_cut(scratch, &used, larger(2 * CPU_KEYS, 2 * t->J));
  t->room_q = cpu_cut(scratch, &used, is_direct(a->q) ? 0 : TILE * t->K);
  t->room_k = cpu_cut(scratch, &used, is_direct(a->k) ? 0 : TILE * t->K);
  t->room_dy = cpu_cut(scratch, &used, is_direct(g->dy) ? 0 : TILE * t->J);
  t->room_dq = cpu_cut(scratch, &used, is_direct(g->dq) ? 0 : a->L * t->K);
  t->room_dk = cpu_cut(scratch, &used, is_direct(g->dk) ? 0 : TILE * t->K);
  t->room_dv = cpu_cut(scratch, &used, is_direct(g->dv) ? 0 : TILE * t->J);
  return (uint64_t)used * sizeof(float);
}

static uint64_t gradient_scratch(const cpu_attention_gradient *g)
{
  gradient t = {.g = g, .a = &g->attention};
  return lay_out(&t, NULL);
}

/* Where row `index` of this sentence and head begins; t has elements. */
static float *row_at(const gradient *t, const cpu_tensor *x, int64_t index)
{
  return (float *)x->data + t->b * x->stride[0] + index * x->stride[1] + t->h * x->stride[2];
}

/* n rows from `index` on: where they lie, or copied to room and filled up with zeros. */
static rows rows_of(const gradient *t, const cpu_tensor *x, int64_t index, int64_t n, float *room)
{
  const int64_t width = x->extent[3], whole = cpu_whole(width);
  if (width == 0) {
    return (rows){room, 0};
  }
  const float *from = row_at(t, x, index);
  if (is_direct(x)) {
    return (rows){from, x->stride[1]};
  }
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < whole; j++) {
      room[i * whole + j] = j < width ? from[i * x->stride[1] + j * x->stride[3]] : 0.0f;
    }
  }
  return (rows){room, whole};
}

/* Where the sums of rows from `index` on are collected: where they belong, or in room. */
static sums sums_of(const gradient *t, const cpu_tensor *y, int64_t index, float *room)
{
  if (y->extent[3] > 0 && is_direct(y)) {
    return (sums){row_at(t, y, index), y->stride[1]};
  }
  return (sums){room, cpu_whole(y->extent[3])};
}

/* To where they belong. */
static void write_sums(const gradient *t, const cpu_tensor *y, int64_t index, int64_t n, const sums *s)
{
  const int64_t width = y->extent[3];
  for (int64_t i = 0; width > 0 && !is_direct(y) && i < n; i++) {
    memcpy(row_at(t, y, index + i), s->data + i * s->row, (size_t)width * sizeof(float));
  }
}

static void write_zeros(const gradient *t, const cpu_tensor *y, int64_t index, int64_t n)
{
  for (int64_t i = 0; y->extent[3] > 0 && i < n; i++) {
    memset(row_at(t, y, index + i), 0, (size_t)y->extent[3] * sizeof(float));
  }
}

/* delta[l] = dy[l] . y[l]. */
static void take_deltas(gradient *t)
{
  const cpu_tensor *y = t->a->y, *dy = t->g->dy;
  const int64_t J = t->a->J;
  for (int64_t l = 0; l < t->a->L; l += CPU_LANES) {
    cpu_f32v sum[CPU_LANES];
    for (int64_t i = 0; i < CPU_LANES; i++) {
      sum[i] = cpu_splat(0.0f);
      if (J == 0 || l + i >= t->a->L) {
        continue;
      }
      const float *left = cpu_side_by_side(row_at(t, y, l + i), y->stride[3], J, t->room);
      const float *right = cpu_side_by_side(row_at(t, dy, l + i), dy->stride[3], J, t->room + t->J);
      int64_t j = 0;
      for (; j + CPU_LANES <= J; j += CPU_LANES) {
        sum[i] = cpu_fma(cpu_load(left + j), cpu_load(right + j), sum[i]);
      }
      if (j < J) {
        sum[i] = cpu_fma(cpu_load_part(left + j, J - j, 0.0f), cpu_load_part(right + j, J - j, 0.0f), sum[i]);
      }
    }
    cpu_store(t->delta + l, cpu_sums(sum));
  }
}

/* Queries, or keys, go through the products in groups where causality leaves each its own part of the other side. */
static int64_t groups_of(const gradient *t, int64_t n)
{
  return t->a->masking.attributes->causal ? (n + CPU_ATTENTION_ROWS - 1) / CPU_ATTENTION_ROWS : 1;
}

/* Scores, and gradients of the weights that are dropped out. */
static void multiply_keys(const gradient *t)
{
  const int64_t n_groups = groups_of(t, t->queries);
  for (int64_t i = 0; i < n_groups; i++) {
    const int64_t r = cpu_first(t->queries, n_groups, i), next = cpu_first(t->queries, n_groups, i + 1);
    cpu_small_product product = {.rows = next - r,
                                 .depth = t->a->K,
                                 .vectors = cpu_whole(t->ends[next - 1]) / CPU_LANES,
                                 .a = t->q.data + r * t->q.row,
                                 .a_row = t->q.row,
                                 .a_step = 1,
                                 .b = t->turned_k,
                                 .b_row = TILE,
                                 .scale = t->alpha,
                                 .c = t->weights + r * TILE,
                                 .c_row = TILE};
    cpu_attention_multiply(&product);
    product.depth = t->a->J;
    product.a = t->dy.data + r * t->dy.row;
    product.a_row = t->dy.row;
    product.b = t->turned_v;
    product.scale = t->ones;
    product.c = t->dscores + r * TILE;
    cpu_attention_multiply(&product);
  }
}

/* Factors of the dropout of the tile's queries and keys, and how far it is from row to row; NULL without a dropout. */
static const float *factors_of(gradient *t, int64_t *row)
{
  const cpu_attention *a = t->a;
  *row = a->S;
  if (!a->seed) {
    return NULL;
  }
  if (cpu_attention_at_once(a, a->L)) { /* made in the beginning */
    return t->factors + t->l * a->S + t->first;
  }
  *row = cpu_attention_factors(a, t->b, t->h, t->l, t->queries, t->first, t->keys, TILE, t->factors);
  return t->factors;
}

/* Caps n scores, and returns by what their gradients are multiplied to become those of q . k. */
static const float *cap_scores(gradient *t, float *scores, int64_t n)
{
  const cpu_attention *a = t->a;
  if (a->softcap == 0.0f || n == 0) {
    return t->alpha;
  }
  const cpu_f32v cap = cpu_splat(a->softcap), alpha = cpu_splat(a->alpha), one = cpu_splat(1.0f);
  cpu_attention_cap(a, scores, n);
  for (int64_t s = 0; s < n; s += CPU_LANES) {
    const cpu_f32v part = cpu_load(scores + s) / cap;
    cpu_store(t->slopes + s, alpha * (one - part * part));
  }
  return t->slopes;
}

/* Scores of query i become weights, and gradients of weights those of q . k. factors: NULL without a dropout. */
static void take_gradients(gradient *t, int64_t i, const float *factors)
{
  const cpu_attention *a = t->a;
  const cpu_tensor *lse = t->g->lse, *dscores = t->g->dscores;
  const int64_t l = t->l + i, end = t->ends[i];
  const float *sum = (const float *)lse->data + t->b * lse->stride[0] + t->h * lse->stride[1] + l * lse->stride[2];
  const cpu_f32v excluded = cpu_splat(-INFINITY), shift = cpu_splat(*sum), delta = cpu_splat(t->delta[l]);
  const cpu_f32v one = cpu_splat(1.0f), hidden = cpu_splat(-0.0f);
  float *w = t->weights + i * TILE, *ds = t->dscores + i * TILE, *out = NULL;
  cpu_i32v holes = cpu_splat_i32(0);
  const float *slopes = cap_scores(t, w, end);
  int64_t s = 0;
  if (cpu_attention_biased(a) && end > 0) {
    cpu_attention_bias(a, t->b, t->h, l, t->first, end, w, t->room);
  }
  if (dscores) {
    out = (float *)dscores->data + t->b * dscores->stride[0] + t->h * dscores->stride[1] + l * dscores->stride[2] +
          t->first;
  }
  for (; s < end; s += CPU_LANES) {
    const cpu_f32v score = cpu_load(w + s), p = cpu_exp(score - shift);
    const cpu_f32v factor = factors ? cpu_load(factors + s) : one;
    const cpu_i32v keys = cpu_first_lanes(end - s), visible = keys & (score != excluded);
    const cpu_f32v d = cpu_select(visible, p * (factor * cpu_load(ds + s) - delta), cpu_splat(0.0f));
    cpu_store(w + s, cpu_select(visible, p * factor, hidden));
    cpu_store(ds + s, d * cpu_load(slopes + s));
    if (out) {
      cpu_store_part(out + s, d, end - s < CPU_LANES ? end - s : CPU_LANES);
    }
    holes |= keys & (score == excluded);
  }
  for (; s < cpu_whole(t->keys); s += CPU_LANES) {
    cpu_store(w + s, hidden);
    cpu_store(ds + s, cpu_splat(0.0f));
  }
  t->holes |= end < t->keys || cpu_any(holes);
}

/* The product without the pairs of a query and a key that are excluded: -0 in marks, which are laid out as a is. */
static void multiply_visible(const cpu_small_product *p, const float *marks)
{
  for (int64_t r = 0; r < p->rows; r++) {
    for (int64_t v = 0; v < p->vectors * CPU_LANES; v += CPU_LANES) {
      float *c = p->c + r * p->c_row + v;
      cpu_f32v sum = p->factor ? cpu_load(c) * cpu_load(p->factor + v) : cpu_splat(0.0f);
      for (int64_t i = 0; i < p->depth; i++) {
        const int64_t at = r * p->a_row + i * p->a_step;
        if (marks[at] != 0.0f || !signbit(marks[at])) {
          sum = cpu_fma(cpu_splat(p->a[at]), cpu_load(p->b + i * p->b_row + v), sum);
        }
      }
      cpu_store(c, sum * cpu_load(p->scale + v));
    }
  }
}

static void multiply(const cpu_small_product *product, const float *marks, int32_t finite)
{
  if (finite) {
    cpu_attention_multiply(product);
  } else {
    multiply_visible(product, marks);
  }
}

/* 1 if what excluded pairs hold would not show. */
static int32_t harmless(const gradient *t, const rows *x, int64_t n, int64_t width)
{
  return !t->holes || cpu_attention_finite(x->data, x->row, n, width);
}

/* dq += alpha c dscores @ k. */
static void add_to_queries(const gradient *t)
{
  const int64_t n_groups = groups_of(t, t->queries);
  const int32_t finite = harmless(t, &t->k, t->keys, t->K);
  for (int64_t i = 0; i < n_groups; i++) {
    const int64_t r = cpu_first(t->queries, n_groups, i), next = cpu_first(t->queries, n_groups, i + 1);
    const cpu_small_product product = {.rows = next - r,
                                       .depth = t->ends[next - 1],
                                       .vectors = t->K / CPU_LANES,
                                       .a = t->dscores + r * TILE,
                                       .a_row = TILE,
                                       .a_step = 1,
                                       .b = t->k.data,
                                       .b_row = t->k.row,
                                       .factor = t->first > 0 ? t->ones : NULL,
                                       .scale = t->ones,
                                       .c = t->dq.data + (t->l + r) * t->dq.row,
                                       .c_row = t->dq.row};
    multiply(&product, t->weights + r * TILE, finite);
  }
}

/* dk += alpha c dscores^T @ q,  dv += weights^T @ dy; the first of a tile's keys without what was there before. */
static void add_to_keys(const gradient *t, const float *factor)
{
  const int64_t n_groups = groups_of(t, t->keys);
  const int32_t finite_q = harmless(t, &t->q, t->queries, t->K);
  const int32_t finite_dy = harmless(t, &t->dy, t->queries, t->J);
  int64_t query = 0;
  for (int64_t i = 0; i < n_groups; i++) {
    const int64_t r = cpu_first(t->keys, n_groups, i), next = cpu_first(t->keys, n_groups, i + 1);
    while (query < t->queries && t->ends[query] <= r) {
      query++; /* sees none of the group's keys */
    }
    const float *weights = t->weights + query * TILE + r;
    cpu_small_product product = {.rows = next - r,
                                 .depth = t->queries - query,
                                 .vectors = t->K / CPU_LANES,
                                 .a = t->dscores + query * TILE + r,
                                 .a_row = 1,
                                 .a_step = TILE,
                                 .b = t->q.data + query * t->q.row,
                                 .b_row = t->q.row,
                                 .factor = factor,
                                 .scale = t->ones,
                                 .c = t->dk.data + r * t->dk.row,
                                 .c_row = t->dk.row};
    multiply(&product, weights, finite_q);
    product.vectors = t->J / CPU_LANES;
    product.a = weights;
    product.b = t->dy.data + query * t->dy.row;
    product.b_row = t->dy.row;
    product.c = t->dv.data + r * t->dv.row;
    product.c_row = t->dv.row;
    multiply(&product, weights, finite_dy);
  }
}

/* Queries from l on: how many of the tile's keys they see. Returns how many the last one does. */
static int64_t begin_queries(gradient *t, int64_t l)
{
  const cpu_attention *a = t->a;
  t->l = l;
  t->queries = a->L - l < TILE ? a->L - l : TILE;
  for (int64_t i = 0; i < t->queries; i++) {
    const int64_t left = cpu_visible_keys(&a->masking, t->b, l + i, a->keys) - t->first;
    t->ends[i] = left < 0 ? 0 : left < t->keys ? left : t->keys;
  }
  return t->ends[t->queries - 1];
}

static void differentiate_tile(gradient *t, const float *factor)
{
  const cpu_attention *a = t->a;
  int64_t factors_row;
  t->q = rows_of(t, a->q, t->l, t->queries, t->room_q);
  t->dy = rows_of(t, t->g->dy, t->l, t->queries, t->room_dy);
  t->holes = 0;
  multiply_keys(t);
  const float *factors = factors_of(t, &factors_row);
  for (int64_t i = 0; i < t->queries; i++) {
    take_gradients(t, i, factors ? factors + i * factors_row : NULL);
  }
  add_to_queries(t);
  add_to_keys(t, factor);
}

static void differentiate_keys(gradient *t, int64_t first, int64_t keys)
{
  const cpu_attention *a = t->a;
  const float *factor = NULL;
  t->first = first;
  t->keys = keys;
  t->k = rows_of(t, a->k, first, keys, t->room_k);
  t->dk = sums_of(t, t->g->dk, first, t->room_dk);
  t->dv = sums_of(t, t->g->dv, first, t->room_dv);
  if (a->K > 0) {
    cpu_attention_columns(t->k.data, t->k.row, 1, keys, a->K, t->turned_k);
  }
  if (a->J > 0) {
    cpu_attention_columns(row_at(t, a->v, first), a->v->stride[1], a->v->stride[3], keys, a->J, t->turned_v);
  }
  for (int64_t l = 0; l < a->L; l += TILE) {
    if (begin_queries(t, l) > 0) {
      differentiate_tile(t, factor);
      factor = t->ones;
    } else if (first == 0) {
      for (int64_t i = 0; i < t->queries && t->K > 0; i++) {
        memset(t->dq.data + (l + i) * t->dq.row, 0, (size_t)t->K * sizeof(float));
      }
    }
  }
  write_sums(t, t->g->dk, first, keys, &t->dk);
  write_sums(t, t->g->dv, first, keys, &t->dv);
}

/* One sentence and head. */
static void differentiate(gradient *t)
{
  const cpu_attention *a = t->a;
  const cpu_attention_gradient *g = t->g;
  const int64_t keys = a->L > 0 ? cpu_visible_keys(&a->masking, t->b, a->L - 1, a->keys) : 0;
  if (g->dscores && a->L * a->S > 0) {
    float *to = (float *)g->dscores->data + t->b * g->dscores->stride[0] + t->h * g->dscores->stride[1];
    memset(to, 0, (size_t)(a->L * a->S) * sizeof *to); /* contiguous */
  }
  if (keys > 0) {
    take_deltas(t);
    if (a->seed && cpu_attention_at_once(a, a->L)) {
      cpu_attention_factors(a, t->b, t->h, 0, a->L, 0, keys, a->S, t->factors);
    }
    t->dq = sums_of(t, g->dq, 0, t->room_dq);
    for (int64_t first = 0; first < keys; first += TILE) {
      differentiate_keys(t, first, keys - first < TILE ? keys - first : TILE);
    }
    write_sums(t, g->dq, 0, a->L, &t->dq);
  } else {
    write_zeros(t, g->dq, 0, a->L);
  }
  write_zeros(t, g->dk, keys, a->S - keys);
  write_zeros(t, g->dv, keys, a->S - keys);
}

static void gradient_task(const void *context, int64_t task, void *scratch)
{
  const cpu_attention_gradient *g = context;
  const cpu_attention *a = &g->attention;
  const int64_t last = cpu_first(a->n_items, a->n_tasks, task + 1);
  gradient t = {.g = g, .a = a};
  lay_out(&t, scratch);
  for (int64_t i = 0; i < TILE; i++) {
    t.alpha[i] = a->alpha;
  }
  for (int64_t i = 0; i < larger(TILE, larger(t.K, t.J)); i++) {
    t.ones[i] = 1.0f;
  }
  for (int64_t item = cpu_first(a->n_items, a->n_tasks, task); item < last; item++) {
    t.b = item / a->H;
    t.h = item % a->H;
    differentiate(&t);
  }
}

/* ---- the operator ------------------------------------------------------------------------------------------------ */

static cpu_attention_gradient gradient_of(const cpu_line *line)
{
  cpu_attention_gradient g = {
      .attention = cpu_attention_of(line),
      .dy = &line->in[10],
      .lse = &line->in[11],
      .dq = &line->out[0],
      .dk = &line->out[1],
      .dv = &line->out[2],
      .dscores = cpu_attention_result(line, 3),
  };
  g.attention.y = &line->in[9];
  return g;
}

int32_t cpu_prepare_attention_gradient(cpu_line *line, cpu_preparation *preparation)
{
  if (!cpu_prepare_attention_plan(line, preparation)) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  const cpu_attention_gradient g = gradient_of(line);
  cpu_ask_scratch(preparation, gradient_scratch(&g));
  return TSR_OK;
}

void cpu_run_attention_gradient(const cpu_line *line, cpu_team *team)
{
  cpu_attention_gradient g = gradient_of(line);
  cpu_attention *a = &g.attention;
  assert(a->q->rank == 4 && a->k->rank == 4 && a->v->rank == 4 && a->y->rank == 4 && g.dy->rank == 4);
  assert(!a->rows && a->k->extent[0] == a->B && a->v->extent[0] == a->B && g.lse->rank == 3);
  assert((a->K <= 1 || (g.dq->stride[3] == 1 && g.dk->stride[3] == 1)) && (a->J <= 1 || g.dv->stride[3] == 1));
  a->n_items = a->B * a->H;
  if (a->n_items == 0) {
    return;
  }
  cpu_attention_drop_out(a, line);
  /* Vector instructions for one key and one head, roughly. */
  const double keys = a->L > 0 ? (double)cpu_attention_visible(a) / (double)a->B : 0.0;
  const double cost = (double)a->L * (double)(3 * a->K + 2 * a->J + 40) / CPU_LANES;
  a->n_tasks = cpu_tasks(a->n_items, 200.0 + keys * cost);
  cpu_parallel(team, a->n_tasks, gradient_task, &g);
}
