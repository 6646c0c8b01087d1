/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that move elements: embedding, copy, append, update, gather, concat, scatter_add. Runs of bytes that lie
 * side by side are copied as such.
 */
#include "rows.h"

static const char *element_at(const cpu_tensor *t, int64_t at)
{
  return (const char *)t->data + at * cpu_element_size(t->dtype);
}

/* ---- embedding ------------------------------------------------------------------------------------------------- */

/* A row of weights of four bits, two a byte in words of eight, times the scales of its groups. */
static void widen_four_bits(const cpu_tensor *table, const cpu_tensor *scales, int64_t id, float *to)
{
  const uint8_t *bytes = (const uint8_t *)table->data + id * table->stride[0];
  for (int64_t group = 0; group < scales->extent[1]; group++) {
    const uint16_t *half = (const uint16_t *)scales->data + id * scales->stride[0] + group * scales->stride[1];
    float scale;
    cpu_widen_row(TSR_F16, half, 1, 1, &scale);
    for (int64_t j = group * TSR_I4_BYTES; j < (group + 1) * TSR_I4_BYTES; j++) {
      const uint8_t byte = bytes[j * table->stride[1]];
      float *pair = to + j / 4 * 8 + j % 4;
      pair[0] = scale * (float)((byte & 15) - 8);
      pair[4] = scale * (float)((byte >> 4) - 8);
    }
  }
}

static void embed_rows(const cpu_line *line, int64_t first, int64_t last, void *scratch)
{
  const cpu_tensor *table = &line->in[0], *ids = &line->in[1], *scales = &line->in[2], *y = &line->out[0];
  const cpu_row_map id_map = cpu_row_map_of(ids, ids->rank);
  const int64_t V = table->extent[0], D = cpu_row_length(y);
  (void)scratch;

  for (int64_t row = first; row < last; row++) {
    const int64_t id = ((const int32_t *)ids->data)[cpu_row_at(&id_map, row)];
    float *to = (float *)y->data + row * D;
    if (id < 0 || id >= V) {
      memset(to, 0, (size_t)D * sizeof *to);
      continue;
    }
    float factor = line->attributes.alpha;
    if (scales->dtype == TSR_F16) {
      widen_four_bits(table, scales, id, to);
    } else {
      cpu_widen_row(table->dtype, element_at(table, id * table->stride[0]), table->stride[1], D, to);
    }
    if (scales->dtype == TSR_F32) {
      factor *= ((const float *)scales->data)[id * scales->stride[0]];
    }
    for (int64_t d = 0; factor != 1.0f && d < D; d++) {
      to[d] *= factor;
    }
  }
}

void cpu_run_embedding(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *table = &line->in[0], *ids = &line->in[1], *y = &line->out[0];
  assert(table->rank == 2 && ids->dtype == TSR_I32 && ids->rank == y->rank - 1);
  assert(y->dtype == TSR_F32);
  cpu_run_rows(line, team, cpu_rows(y), 20.0 + 6.0 * (double)cpu_row_length(y) / CPU_LANES, embed_rows);
}

/* ---- copies of elements as they are ---------------------------------------------------------------------------- */

typedef struct move_work {
  const char *from;
  char *to;
  int64_t from_stride, to_stride, size;
} move_work;

static void move_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  const move_work *work = context;
  cpu_copy_run(work->from + at[0] * work->size, work->from_stride, work->to + at[1] * work->size, work->to_stride, n,
               work->size);
}

/* What moves between the tensors of the walk, from the first to the second, whose elements begin so many elements
 * into them. */
static move_work move_of(const cpu_walk *walk, const cpu_tensor *from, int64_t from_at, const cpu_tensor *to,
                         int64_t to_at)
{
  return (move_work){
      .from = element_at(from, from_at),
      .to = (char *)to->data + to_at * cpu_element_size(to->dtype),
      .from_stride = walk->stride[0][0],
      .to_stride = walk->stride[1][0],
      .size = cpu_element_size(to->dtype),
  };
}

/* Transposing: the elements of a run lie apart in `from`, but those of neighbouring runs lie side by side. A square
 * of elements at a time, so that each line of memory that is read or written is used up. */
enum { SQUARE = 16 };

typedef struct transpose_work {
  move_work move;
  int64_t n_runs, run_stride; /* of `to` */
  int64_t length;             /* of a run */
  int64_t n_blocks, n_tasks;  /* of SQUARE runs */
} transpose_work;

/* n runs from run `first` on, their elements from `begin` on, `length` of them. */
static void transpose_some(const transpose_work *work, int64_t first, int64_t n, int64_t begin, int64_t length)
{
  const move_work *move = &work->move;
  for (int64_t i = begin; i < begin + length; i++) {
    cpu_copy_run(move->from + (i * move->from_stride + first) * move->size, 1,
                 move->to + (i * move->to_stride + first * work->run_stride) * move->size, work->run_stride, n,
                 move->size);
  }
}

/* The same for a square of floats or integers, whole vectors. */
static void transpose_square(const transpose_work *work, int64_t first, int64_t begin)
{
  const float *from = (const float *)(const void *)work->move.from + begin * work->move.from_stride + first;
  float *to = (float *)(void *)work->move.to + first * work->run_stride + begin;
  for (int64_t i = 0; i < SQUARE; i += CPU_LANES) {
    for (int64_t run = 0; run < SQUARE; run += CPU_LANES) {
      cpu_f32v v[CPU_LANES];
      for (int j = 0; j < CPU_LANES; j++) {
        v[j] = cpu_load(from + (i + j) * work->move.from_stride + run);
      }
      cpu_transpose(v);
      for (int j = 0; j < CPU_LANES; j++) {
        cpu_store(to + (run + j) * work->run_stride + i, v[j]);
      }
    }
  }
}

static void transpose_task(const void *context, int64_t task, void *scratch)
{
  const transpose_work *work = context;
  const int64_t end = cpu_first(work->n_blocks, work->n_tasks, task + 1);
  const int squares = work->move.size == 4 && work->move.to_stride == 1;
  (void)scratch;
  for (int64_t block = cpu_first(work->n_blocks, work->n_tasks, task); block < end; block++) {
    const int64_t first = block * SQUARE, n = work->n_runs - first < SQUARE ? work->n_runs - first : SQUARE;
    int64_t i = 0;
    for (; squares && n == SQUARE && i + SQUARE <= work->length; i += SQUARE) {
      transpose_square(work, first, i);
    }
    transpose_some(work, first, n, i, work->length - i);
  }
}

static void move_all(const cpu_tensor *from, const cpu_tensor *to, cpu_team *team)
{
  const cpu_walk walk = cpu_walk_of((const cpu_tensor *const[]){from, to}, 2);
  if (walk.n_runs == 0) {
    return;
  }
  const move_work move = move_of(&walk, from, 0, to, 0);
  if (walk.n_runs > 1 && walk.n_runs == walk.extent[1] && walk.stride[0][1] == 1 && walk.stride[0][0] != 1) {
    transpose_work work = {
        .move = move, .n_runs = walk.n_runs, .run_stride = walk.stride[1][1], .length = walk.extent[0]};
    work.n_blocks = (work.n_runs + SQUARE - 1) / SQUARE;
    work.n_tasks = cpu_tasks(work.n_blocks, (double)work.length * SQUARE);
    cpu_parallel(team, work.n_tasks, transpose_task, &work);
    return;
  }
  const int even = walk.stride[0][0] == 1 && walk.stride[1][0] == 1;
  cpu_walk_all(&walk, team, even ? 0.1 * (double)move.size : 2.0, move_run, &move);
}

/* ---- concat ---------------------------------------------------------------------------------------------------- */

/* The attribute, counted from the first axis. */
static int32_t axis_of(const cpu_line *line)
{
  return line->attributes.axis < 0 ? line->attributes.axis + line->in[0].rank : line->attributes.axis;
}

/* Operands whose indices of the axis and of the axes after it lie side by side: y is written from its beginning to its
 * end, a piece of each operand after another. */
typedef struct concat_work {
  const cpu_line *line;
  int64_t bytes[TSR_MAX_INPUTS]; /* of a piece */
  cpu_row_map rows[TSR_MAX_INPUTS];
  int32_t n;
  int64_t n_rows, n_tasks;
} concat_work;

static void concat_task(const void *context, int64_t task, void *scratch)
{
  const concat_work *work = context;
  const cpu_tensor *y = &work->line->out[0];
  const int64_t first = cpu_first(work->n_rows, work->n_tasks, task);
  const int64_t end = cpu_first(work->n_rows, work->n_tasks, task + 1);
  int64_t bytes = 0; /* of a row of y */
  (void)scratch;
  for (int32_t i = 0; i < work->n; i++) {
    bytes += work->bytes[i];
  }
  char *to = (char *)y->data + first * bytes;
  for (int64_t row = first; row < end; row++) {
    for (int32_t i = 0; i < work->n; i++) {
      if (work->bytes[i] > 0) {
        memcpy(to, element_at(&work->line->in[i], cpu_row_at(&work->rows[i], row)), (size_t)work->bytes[i]);
        to += work->bytes[i];
      }
    }
  }
}

/* 1 if the operands are such; then *work is made. */
static int concat_pieces(const cpu_line *line, int32_t axis, concat_work *work)
{
  const cpu_tensor *y = &line->out[0];
  *work = (concat_work){.line = line, .n_rows = cpu_count(y, axis)};
  for (int32_t i = 0; i < TSR_MAX_INPUTS && cpu_present(&line->in[i]); i++) {
    const cpu_tensor *x = &line->in[i];
    int64_t elements = 1;
    for (int32_t inner = x->rank - 1; inner >= axis; inner--) {
      if (x->extent[inner] > 1 && x->stride[inner] != elements) {
        return 0;
      }
      elements *= x->extent[inner];
    }
    work->bytes[i] = elements * cpu_element_size(x->dtype);
    work->rows[i] = cpu_row_map_of(x, axis);
    work->n = i + 1;
  }
  return 1;
}

void cpu_run_concat(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *y = &line->out[0];
  const int32_t axis = axis_of(line);
  cpu_tensor part = *y; /* of y: where one operand goes */
  concat_work work;
  assert(axis >= 0 && axis < y->rank);
  if (axis > 0 && concat_pieces(line, axis, &work)) {
    const int64_t elements = cpu_count(y, y->rank);
    if (elements > 0) {
      work.n_tasks = cpu_tasks(work.n_rows, 20.0 * work.n + 0.4 * (double)elements / (double)work.n_rows);
      cpu_parallel(team, work.n_tasks, concat_task, &work);
    }
    return;
  }
  for (int32_t i = 0; i < TSR_MAX_INPUTS && cpu_present(&line->in[i]); i++) {
    const cpu_tensor *x = &line->in[i];
    assert(x->dtype == y->dtype && x->rank == y->rank);
    part.extent[axis] = x->extent[axis];
    if (cpu_count(x, x->rank) > 0) {
      move_all(x, &part, team);
      part.data = (char *)part.data + x->extent[axis] * y->stride[axis] * cpu_element_size(y->dtype);
    }
  }
}

/* ---- copy and update, from one type to another ----------------------------------------------------------------- */

static inline void narrow_row(int32_t dtype, const float *from, int64_t n, uint16_t *to)
{
  for (int64_t i = 0; i < n; i += CPU_LANES) {
    const int64_t rest = n - i < CPU_LANES ? n - i : CPU_LANES;
    const cpu_f32v value = rest == CPU_LANES ? cpu_load(from + i) : cpu_load_part(from + i, rest, 0.0f);
    const cpu_u16v result = dtype == TSR_F16 ? cpu_to_f16(value) : cpu_to_bf16(value);
    memcpy(to + i, &result, (size_t)rest * sizeof *to);
  }
}

typedef struct cast_work {
  const char *from;
  char *to;
  int32_t from_type, to_type;
  int64_t from_stride, to_stride;
} cast_work;

static void cast_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  enum { PART = 256 };
  const cast_work *work = context;
  const int64_t from_size = cpu_element_size(work->from_type), to_size = cpu_element_size(work->to_type);
  float part[PART];
  uint16_t narrow[PART];
  for (int64_t i = 0; i < n; i += PART) {
    const int64_t count = n - i < PART ? n - i : PART;
    const char *from = work->from + (at[0] + i * work->from_stride) * from_size;
    char *to = work->to + (at[1] + i * work->to_stride) * to_size;
    const int even = work->to_stride == 1;
    if (work->to_type == TSR_F32) {
      float *wide = even ? (float *)(void *)to : part;
      cpu_widen_row(work->from_type, from, work->from_stride, count, wide);
      if (!even) {
        cpu_copy_run(part, 1, to, work->to_stride, count, to_size);
      }
      continue;
    }
    cpu_widen_row(work->from_type, from, work->from_stride, count, part);
    uint16_t *halves_at = even ? (uint16_t *)(void *)to : narrow;
    if (work->to_type == TSR_F16) {
      narrow_row(TSR_F16, part, count, halves_at);
    } else {
      narrow_row(TSR_BF16, part, count, halves_at);
    }
    if (!even) {
      cpu_copy_run(narrow, 1, to, work->to_stride, count, to_size);
    }
  }
}

/* The same as move_of, from one type to another. */
static cast_work cast_of(const cpu_walk *walk, const cpu_tensor *from, int64_t from_at, const cpu_tensor *to,
                         int64_t to_at)
{
  return (cast_work){
      .from = element_at(from, from_at),
      .to = (char *)to->data + to_at * cpu_element_size(to->dtype),
      .from_type = from->dtype,
      .to_type = to->dtype,
      .from_stride = walk->stride[0][0],
      .to_stride = walk->stride[1][0],
  };
}

/* to = from, whatever their types. */
static void convert_all(const cpu_tensor *from, const cpu_tensor *to, cpu_team *team)
{
  assert(from->rank == to->rank);
  if (from->dtype == to->dtype) {
    move_all(from, to, team);
    return;
  }
  assert(from->dtype != TSR_I32 && from->dtype != TSR_I8 && to->dtype != TSR_I32 && to->dtype != TSR_I8);
  const cpu_walk walk = cpu_walk_of((const cpu_tensor *const[]){from, to}, 2);
  const cast_work work = cast_of(&walk, from, 0, to, 0);
  cpu_walk_all(&walk, team, 20.0 / CPU_LANES, cast_run, &work);
}

void cpu_run_copy(const cpu_line *line, cpu_team *team)
{
  convert_all(&line->in[0], &line->out[0], team);
}

void cpu_run_update(const cpu_line *line, cpu_team *team)
{
  convert_all(&line->in[0], &line->out[0], team);
}

/* ---- append, gather: some of the axes are walked, others are followed by index --------------------------------- */

/* t with the first `axes` axes and those from `last` on fixed at their first index. */
static cpu_tensor inner_of(const cpu_tensor *t, int32_t axes, int32_t last)
{
  cpu_tensor inner = *t;
  for (int32_t axis = 0; axis < t->rank; axis++) {
    if (axis < axes || axis >= last) {
      inner.extent[axis] = 1;
      inner.stride[axis] = 0;
    }
  }
  return inner;
}

/* Copies between tensors of the same extents beyond their first axes: a walk of these, from many beginnings. */
typedef struct index_work {
  const cpu_line *line;
  cpu_walk walk; /* x, y */
  int64_t n_rows, n_tasks;
} index_work;

static void append_task(const void *context, int64_t task, void *scratch)
{
  const index_work *work = context;
  const cpu_tensor *x = &work->line->in[0], *position = &work->line->in[1], *state = &work->line->out[0];
  const int64_t L = x->extent[1], end = cpu_first(work->n_rows, work->n_tasks, task + 1);
  const int64_t first = cpu_first(work->n_rows, work->n_tasks, task);
  int64_t b = first / L, l = first % L;
  (void)scratch;
  for (int64_t row = first; row < end; row++) {
    const int64_t start = cpu_present(position) ? ((const int32_t *)position->data)[b * position->stride[0]] : 0;
    const int64_t to = start + l;
    const int64_t from_at = b * x->stride[0] + l * x->stride[1];
    const int64_t to_at = b * state->stride[0] + to * state->stride[1];
    if (to < 0 || to >= state->extent[1]) {
      /* dropped */
    } else if (x->dtype == state->dtype) {
      const move_work move = move_of(&work->walk, x, from_at, state, to_at);
      cpu_walk_runs(&work->walk, 0, work->walk.n_runs, move_run, &move);
    } else {
      const cast_work cast = cast_of(&work->walk, x, from_at, state, to_at);
      cpu_walk_runs(&work->walk, 0, work->walk.n_runs, cast_run, &cast);
    }
    if (++l == L) {
      l = 0;
      b++;
    }
  }
}

/* Vector instructions that a row of this walk costs. */
static double cost_of(const cpu_walk *walk)
{
  const int even = walk->stride[0][0] == 1 && walk->stride[1][0] == 1;
  return 20.0 + (double)walk->n_runs * (10.0 + (even ? 4.0 / CPU_LANES : 2.0) * (double)walk->extent[0]);
}

void cpu_run_append(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *state = &line->out[0];
  const cpu_tensor from = inner_of(x, 2, x->rank), to = inner_of(state, 2, x->rank);
  index_work work = {.line = line, .n_rows = x->extent[0] * x->extent[1]};
  assert(x->rank >= 2 && x->rank == state->rank && state->extent[0] == x->extent[0]);
  assert(x->extent[2] == state->extent[2] && x->extent[3] == state->extent[3]);
  work.walk = cpu_walk_of((const cpu_tensor *const[]){&from, &to}, 2);
  work.n_tasks = cpu_tasks(work.n_rows, cost_of(&work.walk));
  if (work.n_rows > 0 && work.walk.n_runs > 0) {
    cpu_parallel(team, work.n_tasks, append_task, &work);
  }
}

/* A row: what stands at one index of the axis and of the axes before it. y is contiguous, so that its rows follow
 * one another. */
static void gather_task(const void *context, int64_t task, void *scratch)
{
  const index_work *work = context;
  const cpu_tensor *x = &work->line->in[0], *indices = &work->line->in[1], *y = &work->line->out[0];
  const int32_t axis = axis_of(work->line);
  const int64_t M = indices->extent[0], length = work->walk.n_runs * work->walk.extent[0];
  const int64_t first = cpu_first(work->n_rows, work->n_tasks, task);
  const int64_t end = cpu_first(work->n_rows, work->n_tasks, task + 1), size = cpu_element_size(y->dtype);
  int64_t outer = first / M, m = first % M, outer_at = cpu_at(x, axis, outer);
  (void)scratch;
  for (int64_t row = first; row < end; row++) {
    const int64_t index = ((const int32_t *)indices->data)[m * indices->stride[0]];
    const int inside = index >= 0 && index < x->extent[axis];
    if (!inside) {
      memset((char *)y->data + row * length * size, 0, (size_t)(length * size));
    } else if (length == 1) {
      cpu_copy_run(element_at(x, outer_at + index * x->stride[axis]), 1, (char *)y->data + row * size, 1, 1, size);
    } else {
      const move_work move = move_of(&work->walk, x, outer_at + index * x->stride[axis], y, row * length);
      cpu_walk_runs(&work->walk, 0, work->walk.n_runs, move_run, &move);
    }
    if (++m == M) {
      m = 0;
      outer_at = cpu_at(x, axis, ++outer);
    }
  }
}

void cpu_run_gather(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *indices = &line->in[1], *y = &line->out[0];
  const int32_t axis = axis_of(line);
  const cpu_tensor from = inner_of(x, axis + 1, x->rank), to = inner_of(y, axis + 1, y->rank);
  index_work work = {.line = line, .n_rows = cpu_count(y, axis + 1)};
  assert(axis >= 0 && axis < x->rank && x->rank == y->rank && x->dtype == y->dtype);
  assert(indices->dtype == TSR_I32 && indices->rank == 1 && indices->extent[0] == y->extent[axis]);
  work.walk = cpu_walk_of((const cpu_tensor *const[]){&from, &to}, 2);
  work.n_tasks = cpu_tasks(work.n_rows, cost_of(&work.walk));
  if (work.n_rows > 0 && work.walk.n_runs > 0) {
    cpu_parallel(team, work.n_tasks, gather_task, &work);
  }
}

/* ---- scatter_add ------------------------------------------------------------------------------------------------- */

typedef struct scatter_work {
  const cpu_line *line;
  cpu_walk walk;           /* x, y: beyond the axis */
  int32_t axis;            /* -1 of none */
  int64_t outer;           /* indices of the axes before the axis */
  int64_t length;          /* elements of y behind each index of the axis */
  int64_t n_rows, n_tasks; /* outer * extent */
} scatter_work;

typedef struct scatter_run {
  const float *x;
  float *y;
  int64_t x_stride;
  float alpha;
} scatter_run;

static void add_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  const scatter_run *run = context;
  const float *x = run->x + at[0];
  float *y = run->y + at[1];
  const cpu_f32v alpha = cpu_splat(run->alpha);
  int64_t i = 0;
  for (; run->x_stride == 1 && i + CPU_LANES <= n; i += CPU_LANES) {
    cpu_store(y + i, cpu_fma(cpu_load(x + i), alpha, cpu_load(y + i)));
  }
  for (; i < n; i++) {
    y[i] += run->alpha * x[i * run->x_stride];
  }
}

/* The rows of y from `first` to `last` - 1 of one index of the axes before the axis. */
static void scatter_rows(const scatter_work *work, int64_t outer, int64_t first, int64_t last)
{
  const cpu_tensor *x = &work->line->in[0], *indices = &work->line->in[1], *y = &work->line->out[0];
  const int64_t M = x->extent[work->axis], from = cpu_at(x, work->axis, outer);
  float *to = (float *)y->data + outer * y->extent[work->axis] * work->length;
  scatter_run run = {.x_stride = work->walk.stride[0][0], .alpha = work->line->attributes.alpha};
  memset(to + first * work->length, 0, (size_t)((last - first) * work->length) * sizeof *to);
  for (int64_t m = 0; m < M; m++) {
    const int64_t index = ((const int32_t *)indices->data)[m * indices->stride[0]];
    if (index >= first && index < last) {
      run.x = (const float *)x->data + from + m * x->stride[work->axis];
      run.y = to + index * work->length;
      cpu_walk_runs(&work->walk, 0, work->walk.n_runs, add_run, &run);
    }
  }
}

/* Each task has a range of y's rows, and finds what belongs there. */
static void scatter_task(const void *context, int64_t task, void *scratch)
{
  const scatter_work *work = context;
  const int64_t extent = work->line->out[0].extent[work->axis];
  const int64_t end = cpu_first(work->n_rows, work->n_tasks, task + 1);
  (void)scratch;
  for (int64_t row = cpu_first(work->n_rows, work->n_tasks, task); row < end;) {
    const int64_t outer = row / extent, first = row % extent;
    const int64_t last = extent - first < end - row ? extent : first + end - row;
    scatter_rows(work, outer, first, last);
    row += last - first;
  }
}

void cpu_run_scatter_add(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *indices = &line->in[1], *y = &line->out[0];
  const int32_t axis = axis_of(line);
  const cpu_tensor from = inner_of(x, axis + 1, x->rank), to = inner_of(y, axis + 1, y->rank);
  scatter_work work = {.line = line, .axis = axis, .n_rows = cpu_count(y, axis + 1)};
  assert(axis >= 0 && axis < x->rank && x->rank == y->rank && x->dtype == TSR_F32 && y->dtype == TSR_F32);
  assert(indices->dtype == TSR_I32 && indices->rank == 1 && indices->extent[0] == x->extent[axis]);
  work.walk = cpu_walk_of((const cpu_tensor *const[]){&from, &to}, 2);
  work.length = work.walk.n_runs * work.walk.extent[0];
  if (work.n_rows == 0 || work.length == 0) {
    return;
  }
  /* Reading an index costs each task about one instruction. */
  const double added = (double)x->extent[axis] / (double)(y->extent[axis]) * (3.0 * (double)work.length + 20.0);
  work.n_tasks = cpu_tasks(work.n_rows, (double)work.length + added);
  cpu_parallel(team, work.n_tasks, scatter_task, &work);
}
