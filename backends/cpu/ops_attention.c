/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention: which form a line takes, how it is cut into tasks, and what the forms share.
 */
#include "attention.h"

typedef struct attention_plan {
  const int32_t *starts; /* cpu_prepare_masking */
} attention_plan;

/* What attention and its gradient have in common; what they differ in is left out. */
static cpu_attention attention_of(const cpu_line *line)
{
  const cpu_tensor *q = &line->in[0], *k = &line->in[1], *v = &line->in[2];
  const attention_plan *plan = line->plan;
  return (cpu_attention){
      .q = q,
      .k = k,
      .v = v,
      .rows = cpu_operand(line, 7),
      .seed = cpu_operand(line, 8),
      .masking = cpu_masking_of(line, 3, plan->starts),
      .alpha = line->attributes.alpha,
      .B = q->extent[0],
      .L = q->extent[1],
      .S = k->extent[1],
      .H = q->extent[2],
      .K = q->extent[3],
      .J = v->extent[3],
      .keys = k->extent[0] > 0 ? k->extent[1] : 0,
  };
}

static const cpu_tensor *result(const cpu_line *line, int32_t index)
{
  return cpu_present(&line->out[index]) ? &line->out[index] : NULL;
}

static cpu_attention forward_of(const cpu_line *line)
{
  cpu_attention a = attention_of(line);
  a.y = &line->out[0];
  a.weights = result(line, 1);
  a.lse = result(line, 2);
  return a;
}

static cpu_attention_gradient gradient_of(const cpu_line *line)
{
  cpu_attention_gradient g = {
      .attention = attention_of(line),
      .dy = &line->in[10],
      .lse = &line->in[11],
      .dq = &line->out[0],
      .dk = &line->out[1],
      .dv = &line->out[2],
      .dscores = result(line, 3),
  };
  g.attention.y = &line->in[9];
  return g;
}

static attention_plan *make_plan(cpu_line *line, cpu_preparation *preparation)
{
  attention_plan *plan = cpu_ask_memory(preparation, sizeof *plan);
  line->plan = plan;
  return plan && cpu_prepare_masking(line, 3, preparation, &plan->starts) == TSR_OK ? plan : NULL;
}

int32_t cpu_prepare_attention(cpu_line *line, cpu_preparation *preparation)
{
  if (!make_plan(line, preparation)) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  const cpu_attention a = forward_of(line);
  cpu_ask_scratch(preparation, a.L <= CPU_FEW_QUERIES ? cpu_few_scratch(&a) : cpu_tiles_scratch(&a));
  return TSR_OK;
}

int32_t cpu_prepare_attention_gradient(cpu_line *line, cpu_preparation *preparation)
{
  if (!make_plan(line, preparation)) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  const cpu_attention_gradient g = gradient_of(line);
  cpu_ask_scratch(preparation, cpu_gradient_scratch(&g));
  return TSR_OK;
}

void cpu_attention_places(const cpu_attention *a, int64_t b, int64_t first, int64_t n, cpu_places *places)
{
  places->any_outside = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t row = b;
    if (a->rows) {
      row = ((const int32_t *)a->rows->data)[b * a->rows->stride[0] + (first + i) * a->rows->stride[1]];
      places->outside[i] = row < 0 || row >= a->k->extent[0];
      places->any_outside |= places->outside[i];
      row = places->outside[i] ? 0 : row;
    }
    places->k[i] = row * a->k->stride[0] + (first + i) * a->k->stride[1];
    places->v[i] = row * a->v->stride[0] + (first + i) * a->v->stride[1];
  }
  for (int64_t i = n; i < cpu_whole(n); i++) {
    places->k[i] = places->k[n - 1];
    places->v[i] = places->v[n - 1];
  }
}

void cpu_attention_bias(const cpu_attention *a, int64_t b, int64_t h, int64_t l, int64_t first, int64_t n,
                        float *scores, float *room)
{
  const cpu_f32v zero = cpu_splat(0.0f);
  const float *additive = NULL, *relative = NULL;
  if (a->masking.additive) {
    additive = cpu_additive_row(&a->masking, b, h, l, first, n, room);
  }
  if (a->masking.relative) {
    cpu_relative_row(&a->masking, b, h, l, first, n, room + CPU_KEYS);
    relative = room + CPU_KEYS;
  }
  for (int64_t s = 0; s < n; s += CPU_LANES) {
    const int64_t part = n - s < CPU_LANES ? n - s : CPU_LANES;
    cpu_store(scores + s, cpu_biased(cpu_load(scores + s), additive ? cpu_load_part(additive + s, part, 0.0f) : zero,
                                     relative ? cpu_load_part(relative + s, part, 0.0f) : zero));
  }
}

void cpu_attention_weights(const cpu_attention *a, int64_t b, int64_t h, int64_t l, int64_t end, float max, float sum)
{
  const cpu_tensor *t = a->weights;
  float *w = (float *)t->data + b * t->stride[0] + h * t->stride[1] + l * t->stride[2];
  const float inverse = cpu_attention_inverse(sum);
  const cpu_f32v shift = cpu_attention_shift(cpu_splat(max));
  for (int64_t s = 0; s < end; s += CPU_LANES) {
    const int64_t part = end - s < CPU_LANES ? end - s : CPU_LANES;
    const cpu_f32v score = cpu_load_part(w + s, part, 0.0f);
    cpu_store_part(w + s, cpu_exp(score - shift) * cpu_splat(inverse), part);
  }
  for (int64_t s = end; s < a->S; s++) {
    w[s] = 0.0f * inverse; /* NaN in a row that is NaN */
  }
}

void cpu_attention_lse(const cpu_attention *a, int64_t b, int64_t h, int64_t l, float max, float sum)
{
  const cpu_tensor *t = a->lse;
  float *lse = (float *)t->data + b * t->stride[0] + h * t->stride[1] + l * t->stride[2];
  *lse = sum == 0.0f ? -INFINITY : max + logf(sum);
}

/* Keys that the last query of each sentence sees, all sentences together: the work that there is, not what there is
 * room for. */
static int64_t visible_keys(const cpu_attention *a)
{
  int64_t sum = 0;
  for (int64_t b = 0; b < a->B; b++) {
    sum += cpu_visible_keys(&a->masking, b, a->L - 1, a->keys);
  }
  return sum;
}

/* The dropout of this run. */
static void drop_out(cpu_attention *a, const cpu_line *line)
{
  if (a->seed) {
    a->dropout = cpu_dropout_of(a->seed, &line->attributes);
  }
}

void cpu_run_attention(const cpu_line *line, cpu_team *team)
{
  cpu_attention a = forward_of(line);
  assert(a.q->rank == 4 && a.k->rank == 4 && a.v->rank == 4 && a.y->rank == 4);
  assert(a.q->dtype == TSR_F32 && a.k->dtype == a.v->dtype && a.k->dtype != TSR_I8 && a.k->dtype != TSR_I32);
  assert(a.k->extent[2] == a.H && a.v->extent[2] == a.H && a.k->extent[3] == a.K && a.v->extent[1] == a.S);
  assert(a.k->extent[0] == a.v->extent[0] && (a.rows || a.k->extent[0] == a.B));
  assert(a.J <= 1 || a.y->stride[3] == 1);
  assert(!a.weights || a.S <= 1 || a.weights->stride[3] == 1);
  const int64_t n_rows = a.B * a.H;
  if (n_rows * a.L == 0) {
    return;
  }
  drop_out(&a, line);
  /* Vector instructions for one key and one head, roughly. */
  const double keys = (double)visible_keys(&a) / (double)a.B;
  if (a.L <= CPU_FEW_QUERIES) {
    const double cost = (double)a.L * (10.0 + (double)(cpu_whole(a.K) + cpu_whole(a.J)) / CPU_LANES);
    a.n_items = n_rows;
    a.n_tasks = cpu_tasks(n_rows, 100.0 + keys * cost);
    cpu_parallel(team, a.n_tasks, cpu_few_task, &a);
  } else {
    const double vectors = (double)cpu_whole(a.L) / CPU_LANES, cost = vectors * (double)(a.K + a.J + 25);
    a.n_items = n_rows * cpu_tiles_count(a.L);
    a.n_tasks = cpu_tasks(a.n_items, 100.0 + keys * cost / (double)cpu_tiles_count(a.L));
    cpu_parallel(team, a.n_tasks, cpu_tiles_task, &a);
  }
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
  drop_out(a, line);
  /* Vector instructions for one key and one head, roughly. */
  const double keys = a->L > 0 ? (double)visible_keys(a) / (double)a->B : 0.0;
  const double cost = (double)a->L * (double)(3 * a->K + 2 * a->J + 40) / CPU_LANES;
  a->n_tasks = cpu_tasks(a->n_items, 200.0 + keys * cost);
  cpu_parallel(team, a->n_tasks, cpu_gradient_task, &g);
}
