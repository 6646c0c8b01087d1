/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of factors that are rounded to bf16 as they come: once per product, for all its columns.
 */
#include "product_bf16.h"

#include "matrix.h"

/* Two steps of k. */
enum { PAIR = 2 };

static int64_t words_of(int64_t depth)
{
  return cpu_matrix_words((depth + PAIR - 1) / PAIR);
}

int32_t cpu_rounded_suits(const cpu_line *line)
{
  const int32_t dtype = line->in[1].dtype, reduced = line->attributes.reduced_precision;
  return CPU_HAS_MATRIX && ((dtype == TSR_BF16 && reduced != 0) || (dtype == TSR_F32 && reduced == TSR_BF16));
}

/* ---- b --------------------------------------------------------------------------------------------------------- */

int64_t cpu_rounded_elements(const cpu_product *product)
{
  return product->panels * CPU_PANEL * words_of(product->depth) * PAIR;
}

/* cpu_layout.pack: [batch][strips][words][CPU_STRIP][PAIR]; `to` is zeroed. */
void cpu_rounded_pack(const cpu_layout *layout, void *to)
{
  enum { STEPS = 64 }; /* of k at a time: what is written stays in the cache until all columns have come */
  const cpu_tensor *b = layout->from;
  const int32_t axis = b->rank - 2;
  const int64_t K = b->extent[axis], N = b->extent[axis + 1], words = words_of(K);
  const int64_t k_step = b->stride[axis], n_step = b->stride[axis + 1];
  const int64_t size = (N + CPU_PANEL - 1) / CPU_PANEL * CPU_PANEL * words * PAIR;
  for (int64_t matrix = 0; matrix < layout->matrices; matrix++) {
    const uint16_t *from = (const uint16_t *)b->data + cpu_at(b, axis, matrix);
    for (int64_t n0 = 0; n0 < N; n0 += CPU_STRIP) {
      const int64_t columns = N - n0 < CPU_STRIP ? N - n0 : CPU_STRIP;
      uint16_t *strip = (uint16_t *)to + matrix * size + n0 * words * PAIR;
      for (int64_t k0 = 0; k0 < K; k0 += STEPS) {
        const int64_t end = K - k0 < STEPS ? K : k0 + STEPS;
        for (int64_t n = 0; n < columns; n++) {
          for (int64_t k = k0; k < end; k++) {
            strip[(k / PAIR * CPU_STRIP + n) * PAIR + k % PAIR] = from[k * k_step + (n0 + n) * n_step];
          }
        }
      }
    }
  }
}

/* ---- rounding -------------------------------------------------------------------------------------------------- */

/* To nearest, ties to even; finite numbers beyond the largest to that. */
static inline cpu_u16v round_some(cpu_f32v x)
{
  const cpu_f32v most = cpu_splat(0x1.fep127f), least = cpu_splat(-0x1.fep127f);
  const cpu_i32v finite = cpu_abs(x) < cpu_splat(INFINITY);
  return cpu_to_bf16(cpu_select(finite, cpu_max(cpu_min(x, most), least), x));
}

/* n elements side by side. */
static void round_row(const float *a, int64_t n, uint16_t *to)
{
  const int64_t whole = n / CPU_LANES * CPU_LANES;
  for (int64_t k = 0; k < whole; k += CPU_LANES) {
    const cpu_u16v rounded = round_some(cpu_load(a + k));
    memcpy(to + k, &rounded, sizeof rounded);
  }
  if (whole < n) {
    const cpu_u16v rounded = round_some(cpu_load_part(a + whole, n - whole, 0.0f));
    memcpy(to + whole, &rounded, (size_t)(n - whole) * sizeof *to);
  }
}

/* Lines of a factor: rows of a, or columns of b. Their steps of k may lie side by side, or the lines of a step. */
typedef struct lines {
  const cpu_tensor *from;
  int64_t at; /* the first step of the first line */
  int64_t line_step, k_step;
  int64_t n, depth;
} lines;

/* Of a square: as many lines as a vector has lanes, and as many words. GROUP: lines that are taken together, so that
 * more than one cache line is read where those of a step lie side by side, and the steps far from each other. */
enum { SQUARE = CPU_LANES, GROUP = 128 };

/* A square from word `word` of line `line` on: square[i] is line i, its lanes are words. */
static void load_lines(const lines *l, int64_t line, int64_t word, cpu_f32v square[SQUARE])
{
  const int64_t k = word * PAIR, size = cpu_element_size(l->from->dtype);
  const int64_t steps = l->depth - k < PAIR * SQUARE ? l->depth - k : PAIR * SQUARE;
  for (int64_t i = 0; i < SQUARE; i++) {
    uint16_t words[PAIR * SQUARE] = {0};
    const char *from = (const char *)l->from->data + (l->at + (line + i) * l->line_step + k * l->k_step) * size;
    if (line + i < l->n && steps > 0) {
      float wide[PAIR * SQUARE];
      if (l->from->dtype == TSR_BF16 && l->k_step == 1) {
        memcpy(words, from, (size_t)steps * sizeof *words);
      } else if (l->from->dtype == TSR_F32 && l->k_step == 1) {
        round_row((const float *)(const void *)from, steps, words);
      } else {
        cpu_widen_row(l->from->dtype, from, l->k_step, steps, wide);
        round_row(wide, steps, words);
      }
    }
    memcpy(&square[i], words, sizeof square[i]);
  }
}

/* The same of f32 whose lines lie side by side: square[i] is word i, its lanes are lines. All of it is there. */
static void load_words(const lines *l, int64_t line, int64_t word, cpu_f32v square[SQUARE])
{
  const float *from = (const float *)l->from->data + l->at + line + word * PAIR * l->k_step;
  for (int64_t i = 0; i < SQUARE; i++, from += PAIR * l->k_step) {
    const cpu_u16v first = round_some(cpu_load(from)), second = round_some(cpu_load(from + l->k_step));
    const cpu_u32v low = __builtin_convertvector(first, cpu_u32v), high = __builtin_convertvector(second, cpu_u32v);
    square[i] = (cpu_f32v)(low | high << 16);
  }
}

/* 1 if load_words can take a square, else load_lines does. */
static int32_t words_suit(const lines *l, int64_t line, int64_t word)
{
  return l->line_step == 1 && l->from->dtype == TSR_F32 && line + SQUARE <= l->n && (word + SQUARE) * PAIR <= l->depth;
}

/* ---- a --------------------------------------------------------------------------------------------------------- */

static int64_t row_elements(const cpu_product *product)
{
  return cpu_matrix_row_words(words_of(product->depth)) * PAIR;
}

int64_t cpu_rounded_chunk(const cpu_product *product)
{
  enum { MOST = 1 << 23, LEAST = 512 }; /* bytes, and rows with which b is worth its way */
  const int64_t size = row_elements(product) * (int64_t)sizeof(uint16_t), rows = MOST / size / LEAST * LEAST;
  const int64_t chunk = rows > LEAST ? rows : LEAST;
  return !product->rounds || product->batch > 1 || chunk > product->rows ? product->rows : chunk;
}

static uint64_t size_of_a(const cpu_product *product)
{
  return cpu_aligned((uint64_t)(product->batch * product->chunk * row_elements(product)) * sizeof(uint16_t));
}

uint64_t cpu_rounded_shared(const cpu_product *product)
{
  const int64_t elements = product->packed ? 0 : product->matrices * cpu_rounded_elements(product);
  return size_of_a(product) + cpu_aligned((uint64_t)elements * sizeof(uint16_t));
}

typedef struct rounding {
  const cpu_product *product;
  uint16_t *to;
  int64_t first, rows; /* of the chunk */
  int64_t group;       /* lines that a task takes together */
  int64_t n_tasks;
} rounding;

/* A group of rows of a, from row `line` on, whose steps do not lie side by side. */
static void turn_rows(const lines *l, int64_t line, uint16_t *to, int64_t elements, int64_t words)
{
  const int64_t rows = l->n - line < GROUP ? l->n - line : GROUP;
  for (int64_t word = 0; word < words; word += SQUARE) {
    for (int64_t row = 0; row < rows; row += SQUARE) {
      cpu_f32v square[SQUARE];
      if (words_suit(l, line + row, word)) {
        load_words(l, line + row, word, square);
        cpu_transpose(square);
      } else {
        load_lines(l, line + row, word, square);
      }
      for (int64_t i = 0; i < SQUARE && row + i < rows; i++) {
        memcpy(to + (row + i) * elements + word * PAIR, &square[i], sizeof square[i]);
      }
    }
  }
}

static void round_task(const void *context, int64_t task, void *scratch)
{
  const rounding *job = context;
  const cpu_product *p = job->product;
  const cpu_tensor *a = p->a;
  const int64_t K = p->depth, elements = row_elements(p), used = words_of(K) * PAIR;
  const int64_t groups = (job->rows + job->group - 1) / job->group, total = p->batch * groups;
  const int64_t end = cpu_first(total, job->n_tasks, task + 1);
  (void)scratch;
  for (int64_t i = cpu_first(total, job->n_tasks, task); i < end; i++) {
    const int64_t matrix = i / groups, line = i % groups * job->group;
    const lines l = {.from = a,
                     .at = cpu_at(a, p->axis, matrix) + job->first * a->stride[p->axis],
                     .line_step = a->stride[p->axis],
                     .k_step = K > 1 ? a->stride[p->axis + 1] : 1,
                     .n = job->rows,
                     .depth = K};
    uint16_t *to = job->to + (matrix * p->chunk + line) * elements;
    if (l.k_step != 1) {
      turn_rows(&l, line, to, elements, used / PAIR);
      continue;
    }
    for (int64_t row = line; row < line + job->group && row < job->rows; row++, to += elements) {
      round_row((const float *)a->data + l.at + row * l.line_step, K, to);
      memset(to + K, 0, (size_t)(used - K) * sizeof *to);
    }
  }
}

/* ---- b that is not constant ------------------------------------------------------------------------------------ */

static void lay_out_task(const void *context, int64_t task, void *scratch)
{
  const rounding *job = context;
  const cpu_product *p = job->product;
  const cpu_tensor *b = p->b;
  const int64_t words = words_of(p->depth), all = p->panels * CPU_PANEL, groups = (all + GROUP - 1) / GROUP;
  const int64_t total = p->matrices * groups, end = cpu_first(total, job->n_tasks, task + 1);
  (void)scratch;
  for (int64_t i = cpu_first(total, job->n_tasks, task); i < end; i++) {
    const int64_t first = i % groups * GROUP, last = first + GROUP < all ? first + GROUP : all;
    const lines l = {.from = b,
                     .at = cpu_at(b, p->axis, i / groups),
                     .line_step = b->stride[p->axis + 1],
                     .k_step = p->depth > 1 ? b->stride[p->axis] : 1,
                     .n = p->columns,
                     .depth = p->depth};
    uint16_t *matrix = job->to + i / groups * all * words * PAIR;
    for (int64_t word = 0; word < words; word += SQUARE) {
      for (int64_t n = first; n < last; n += SQUARE) {
        cpu_f32v square[SQUARE];
        if (words_suit(&l, n, word)) {
          load_words(&l, n, word, square);
        } else {
          load_lines(&l, n, word, square);
          cpu_transpose(square);
        }
        uint16_t *to = matrix + (n / CPU_STRIP * words + word) * CPU_STRIP * PAIR + n % CPU_STRIP * PAIR;
        for (int64_t w = 0; w < SQUARE; w++) {
          memcpy(to + w * CPU_STRIP * PAIR, &square[w], sizeof square[w]);
        }
      }
    }
  }
}

void cpu_round(const cpu_product *product, int64_t first, cpu_team *team, void *shared)
{
  const cpu_product *p = product;
  const int64_t left = p->rows - first, columns = p->matrices * p->panels * CPU_PANEL;
  const double steps = (double)words_of(p->depth) * PAIR;
  rounding job = {.product = p, .to = shared, .first = first, .rows = left < p->chunk ? left : p->chunk};
  job.group = p->depth > 1 && p->a->stride[p->axis + 1] != 1 ? GROUP : 1;
  job.n_tasks =
      cpu_tasks(p->batch * ((job.rows + job.group - 1) / job.group), steps * (double)job.group / CPU_LANES * 8.0);
  cpu_parallel(team, job.n_tasks, round_task, &job);
  if (!p->packed && first == 0) {
    job.to = (uint16_t *)(void *)((char *)shared + size_of_a(p));
    job.n_tasks = cpu_tasks((columns + GROUP - 1) / GROUP, steps * GROUP / CPU_LANES * 8.0);
    cpu_parallel(team, job.n_tasks, lay_out_task, &job);
  }
}

/* ---- sums ------------------------------------------------------------------------------------------------------ */

uint64_t cpu_rounded_scratch(const cpu_product *product)
{
  (void)product;
  return CPU_MATRIX_SUMS * sizeof(float);
}

void cpu_rounded_part(const cpu_product *product, const void *shared, const cpu_part *part, float *sums)
{
  const int64_t words = words_of(product->depth), elements = row_elements(product);
  const int64_t matrix = product->matrices > 1 ? part->matrix : 0;
  const uint16_t *b = product->packed ? product->packed : (const void *)((const char *)shared + size_of_a(product));
  const cpu_matrix_block block = {
      .kind = CPU_MATRIX_BF16,
      .first_time = part->first_time,
      .last_time = part->last_time,
      .rows = part->rows,
      .a = (const uint16_t *)shared + (part->matrix * product->chunk + part->first % product->chunk) * elements,
      .a_step = elements * (int64_t)sizeof(uint16_t),
      .b = b + matrix * cpu_rounded_elements(product) + part->panel * CPU_PANEL * words * PAIR,
      .words = words,
      .strips = part->panels * CPU_PANEL_STRIPS,
      .c = sums,
      .c_row = CPU_MATRIX_SUMS_ROW,
  };
  cpu_matrix_multiply(&block);
}
