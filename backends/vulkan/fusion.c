/* SPDX-License-Identifier: Apache-2.0
 *
 * Neighbouring lines of a program that become one: the first writes what the second reads, and mostly nobody else does,
 * so that it need not be written at all.
 *
 *     add + norm + matmul + append + append
 *                                where rows are few; each but the product may be absent
 *     attention + matmul + add + norm + matmul
 *                                of one or two rows: two kernels, between them what each head adds to the sum
 *     norm, attention or product + product + .. (+ add)
 *                                by cooperative matrices, which round their factors anyway: each result is left rounded
 *                                for the next. The norm's sum comes with it, and it is written where others read it
 *     add + layernorm, rmsnorm   the sum is written where it is needed later, too
 *     matmul + add               unless that add is fused with a norm that alone reads it
 *     matmul + topk              with log_softmax between them, too: only candidates leave the product. And with the
 *                                update of a state behind it that takes the indices, if k is 1: the next step's tokens
 *
 * A fused line is planned as the main one of its lines (the norm, the product), with what the others bring to it in
 * tsr_vk_planner. A planner that cannot do with that, or does not know of it, leaves the lines apart.
 *
 * And what a line makes in scratch first that an earlier line left there already: the rows of an input that several
 * products quantise.
 */
#include "backends/vulkan/kernel_common.h"

#include <string.h>

/* A run of lines, from `first` on. */
typedef struct run {
  const tsr_vk_caps *caps;
  const tsr_program_desc *program;
  tsr_backend_buffer *const *buffers; /* NULL: each storage has memory of its own */
  int32_t first;
} run;

static const tsr_line_desc *line_at(const run *r, int32_t index)
{
  return r->first + index < r->program->n_lines ? tsr_line_at(r->program, r->first + index) : NULL;
}

static int is_op(const run *r, int32_t index, int32_t op)
{
  const tsr_line_desc *line = line_at(r, index);
  return line != NULL && line->op == op;
}

static int same_view(const tsr_tensor_desc *a, const tsr_tensor_desc *b)
{
  return a->offset == b->offset && a->rank == b->rank && memcmp(a->extent, b->extent, sizeof a->extent) == 0 &&
         memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

/* 1 if line `index` reads as operand `slot` the first result of the line before it, in the same order. in_shape: in the
 * same extents, too. */
static int reads_result(const run *r, int32_t index, int32_t slot, int in_shape)
{
  int32_t from = line_at(r, index - 1)->out[0], to = line_at(r, index)->in[slot];
  if (from == 0 || to == 0) {
    return 0;
  }
  const tsr_tensor_desc *a = tsr_tensor_at(r->program, from), *b = tsr_tensor_at(r->program, to);
  if (a->storage != b->storage) {
    return 0;
  }
  if (same_view(a, b)) {
    return 1;
  }
  tsr_vk_view x = tsr_vk_view_of(a), y = tsr_vk_view_of(b);
  return !in_shape && a->offset == b->offset && tsr_vk_elements(a) == tsr_vk_elements(b) && tsr_vk_contiguous(&x) &&
         tsr_vk_contiguous(&y);
}

static int32_t uses_in(const tsr_program_desc *program, const int32_t *tensors, int32_t n, int32_t storage)
{
  int32_t uses = 0;
  for (int32_t i = 0; i < n; ++i) {
    uses += tensors[i] != 0 && tsr_tensor_at(program, tensors[i])->storage == storage;
  }
  return uses;
}

/* 1 if the first result of line `index` is a temporary that is read once: by the next line, as reads_result says. */
static int is_passed_on(const run *r, int32_t index)
{
  int32_t storage = tsr_tensor_at(r->program, line_at(r, index)->out[0])->storage, uses = 0;
  if (tsr_storage_at(r->program, storage)->kind != TSR_STORAGE_TEMPORARY) {
    return 0;
  }
  for (int32_t i = 0; i < r->program->n_lines && uses <= 2; ++i) {
    const tsr_line_desc *line = tsr_line_at(r->program, i);
    uses += uses_in(r->program, line->in, TSR_MAX_INPUTS, storage) +
            uses_in(r->program, line->out, TSR_MAX_OUTPUTS, storage);
  }
  return uses == 2;
}

/* 1 if two tensors share bytes: fused, one may be written while the other is still read. */
static int overlap(const run *r, int32_t x, int32_t y)
{
  if (x == 0 || y == 0) {
    return 0;
  }
  const tsr_storage_desc *a = tsr_storage_at(r->program, tsr_tensor_at(r->program, x)->storage);
  const tsr_storage_desc *b = tsr_storage_at(r->program, tsr_tensor_at(r->program, y)->storage);
  if (r->buffers == NULL) {
    return a == b;
  }
  return r->buffers[a->buffer] == r->buffers[b->buffer] && a->offset < b->offset + b->size &&
         b->offset < a->offset + a->size;
}

/* 1 if x may be read where y, a contiguous result, is written element by element in the same order: they lie apart,
 * or each element takes the place of its own. */
static int in_step(const run *r, int32_t x, int32_t y)
{
  if (!overlap(r, x, y)) {
    return 1;
  }
  const tsr_tensor_desc *a = tsr_tensor_at(r->program, x), *b = tsr_tensor_at(r->program, y);
  const tsr_storage_desc *s = tsr_storage_at(r->program, a->storage), *t = tsr_storage_at(r->program, b->storage);
  return s->offset == t->offset && same_view(a, b);
}

static int is_f32(const run *r, int32_t tensor)
{
  return tsr_tensor_at(r->program, tensor)->dtype == TSR_F32;
}

static void copy_line(const run *r, int32_t index, tsr_line_desc *copy)
{
  size_t size = (size_t)r->program->line_size;
  memset(copy, 0, sizeof *copy);
  memcpy(copy, line_at(r, index), size < sizeof *copy ? size : sizeof *copy);
}

/* Plans *line with what is fused with it. 0 if it cannot be had. */
static int plan_fused(const run *r, const tsr_line_desc *line, int32_t addend, int32_t sum, tsr_vk_plan *plan)
{
  tsr_vk_planner planner = {
      .caps = r->caps, .program = r->program, .line = line, .plan = plan, .addend = addend, .sum = sum};
  return tsr_vk_plan_one(&planner) && (addend == 0 || planner.is_added);
}

static int is_norm(const run *r, int32_t index)
{
  return is_op(r, index, TSR_OP_LAYERNORM) || is_op(r, index, TSR_OP_RMSNORM);
}

/* Whether line `index`, an append, takes part of the result of line `product`. */
static int appends_part(const run *r, int32_t index, int32_t product)
{
  return is_op(r, index, TSR_OP_APPEND) && tsr_tensor_at(r->program, line_at(r, index)->in[0])->storage ==
                                               tsr_tensor_at(r->program, line_at(r, product)->out[0])->storage;
}

/* 1 if none of the lines 0 .. last writes to what another invocation may still have to read: all but what is passed on
 * from line to line. */
static int lie_apart(const run *r, int32_t product, int32_t last)
{
  for (int32_t i = 0; i <= last; ++i) {
    const int32_t out = line_at(r, i)->out[0];
    for (int32_t k = 0; k <= product; ++k) {
      for (int32_t slot = 0; slot < TSR_MAX_INPUTS; ++slot) {
        const int32_t in = line_at(r, k)->in[slot];
        const int is_own =
            in != 0 && k > i && tsr_tensor_at(r->program, in)->storage == tsr_tensor_at(r->program, out)->storage;
        if (!is_own && overlap(r, in, out)) {
          return 0;
        }
      }
    }
    for (int32_t k = 0; k < i; ++k) {
      if (overlap(r, line_at(r, k)->out[0], out)) {
        return 0;
      }
    }
  }
  return 1;
}

/* What attention leaves of a sum's operand, in scratch. */
typedef struct left_parts {
  int32_t slot; /* of the sum, whose other operand is a tensor */
  uint32_t n;   /* for each row */
  uint32_t at;  /* words into scratch */
} left_parts;

/* The lines around a product; *product is its index. parts: what the sum's operand is in; NULL: a tensor. They come
 * behind what *plan has then. */
static int fuse_around(const run *r, const left_parts *parts, tsr_vk_plan *plan, int32_t *product)
{
  const int32_t norm = is_op(r, 0, TSR_OP_ADD) && is_norm(r, 1) ? 1 : 0;
  const int has_norm = is_norm(r, norm), has_addend = norm > 0;
  *product = norm + has_norm;
  if (!is_op(r, *product, TSR_OP_MATMUL) || (has_addend && !reads_result(r, 1, 0, 1)) ||
      (has_norm && !reads_result(r, *product, 0, 0))) {
    return 0;
  }
  const int has_caches = appends_part(r, *product + 1, *product) && appends_part(r, *product + 2, *product);
  const int32_t last = *product + (has_caches ? 2 : 0);
  if ((!has_norm && !has_caches) || !lie_apart(r, *product, last)) {
    return 0;
  }
  const tsr_line_desc *first = line_at(r, 0);
  const tsr_vk_around around = {
      .norm = has_norm ? line_at(r, norm) : NULL,
      .x = first->in[parts != NULL ? 1 - parts->slot : 0],
      .addend = parts != NULL ? TSR_VK_SCRATCH
                : has_addend  ? first->in[1]
                              : 0,
      .parts = parts != NULL ? parts->n : 0,
      .parts_at = parts != NULL ? parts->at : 0,
      .sum = has_addend && !is_passed_on(r, 0) ? first->out[0] : 0,
      .normed = has_norm && !is_passed_on(r, norm) ? line_at(r, norm)->out[0] : 0,
      .keys = has_caches ? line_at(r, *product + 1) : NULL,
      .values = has_caches ? line_at(r, *product + 2) : NULL,
  };
  tsr_vk_planner planner = {.caps = r->caps,
                            .program = r->program,
                            .line = line_at(r, *product),
                            .plan = plan,
                            .around = &around,
                            .continues = parts != NULL};
  return tsr_vk_plan_one(&planner) ? last + 1 : 0;
}

static int fuse_around_matmul(const run *r, tsr_vk_plan *plan)
{
  int32_t product;
  return fuse_around(r, NULL, plan, &product);
}

/* Attention with its output, and behind it what reads the sum with that. Each workgroup of the second kernel adds up
 * the heads anew, which costs less than a stage only while rows are very few. */
static int fuse_attention(const run *r, tsr_vk_plan *plan)
{
  enum { MAX_ROWS = 2, LINES = 2 };
  if (!is_op(r, 0, TSR_OP_ATTENTION) || !is_op(r, 1, TSR_OP_MATMUL) || !is_op(r, 2, TSR_OP_ADD) || !is_norm(r, 3) ||
      !reads_result(r, 1, 0, 0) || !is_passed_on(r, 0) || !is_passed_on(r, 1)) {
    return 0;
  }
  const tsr_tensor_desc *y = tsr_tensor_at(r->program, line_at(r, 0)->out[0]);
  left_parts parts = {.slot = reads_result(r, 2, 0, 1) ? 0 : 1, .n = (uint32_t)y->extent[2]};
  if (!reads_result(r, 2, parts.slot, 1) || y->extent[0] * y->extent[1] > MAX_ROWS) {
    return 0;
  }
  tsr_vk_planner planner = {
      .caps = r->caps, .program = r->program, .line = line_at(r, 0), .plan = plan, .output = line_at(r, 1)};
  if (!tsr_vk_plan_one(&planner)) {
    return 0;
  }
  parts.at = planner.output_at;
  const run rest = {r->caps, r->program, r->buffers, r->first + LINES};
  int32_t product;
  const int n = fuse_around(&rest, &parts, plan, &product);
  return n > 0 ? LINES + n : 0;
}

/* Whether line `index`, an add, can be fused with the norm behind it. */
static int is_add_norm(const run *r, int32_t index)
{
  if (!is_op(r, index, TSR_OP_ADD) || !is_f32(r, line_at(r, index)->out[0]) || !is_norm(r, index + 1) ||
      !reads_result(r, index + 1, 0, 1)) {
    return 0;
  }
  const tsr_line_desc *add = line_at(r, index), *norm = line_at(r, index + 1);
  int32_t storage = tsr_tensor_at(r->program, add->out[0])->storage;
  return uses_in(r->program, norm->in, TSR_MAX_INPUTS, storage) == 1 && in_step(r, add->in[0], norm->out[0]) &&
         in_step(r, add->in[1], norm->out[0]);
}

static int fuse_add_norm(const run *r, tsr_vk_plan *plan)
{
  if (!is_add_norm(r, 0)) {
    return 0;
  }
  const tsr_line_desc *add = line_at(r, 0);
  tsr_line_desc norm;
  copy_line(r, 1, &norm);
  norm.in[0] = add->in[0];
  const int32_t sum = is_passed_on(r, 0) ? 0 : add->out[0];
  return !overlap(r, sum, norm.out[0]) && plan_fused(r, &norm, add->in[1], sum, plan) ? 2 : 0;
}

/* The product of line `index` with the sum behind it; *addend: what is added to the result; 0: it became the bias, if
 * there was none and nothing is done to the result. first_in: the first operand that the product reads where it lies.
 * 0 if the two must stay apart. */
static int add_to_product(const run *r, int32_t index, int32_t first_in, tsr_line_desc *product, int32_t *addend)
{
  const int32_t sum = index + 1;
  if (!is_op(r, index, TSR_OP_MATMUL) || !is_op(r, sum, TSR_OP_ADD)) {
    return 0;
  }
  const tsr_line_desc *add = line_at(r, sum);
  int32_t slot = reads_result(r, sum, 0, 0) ? 0 : 1;
  if (!reads_result(r, sum, slot, 0) || !is_passed_on(r, index) || (is_add_norm(r, sum) && is_passed_on(r, sum))) {
    return 0;
  }
  copy_line(r, index, product);
  int32_t y = add->out[0];
  *addend = add->in[1 - slot];
  for (int32_t i = first_in; i < TSR_MAX_INPUTS; ++i) {
    if (overlap(r, product->in[i], y)) {
      return 0;
    }
  }
  int is_bias =
      product->in[2] == 0 && product->attributes.activation == TSR_ACTIVATION_NONE && reads_result(r, sum, slot, 1);
  tsr_vk_view view = tsr_vk_view_of(tsr_tensor_at(r->program, *addend));
  if (!is_bias && !tsr_vk_contiguous(&view)) {
    return 0;
  }
  product->out[0] = y;
  if (is_bias) {
    product->in[2] = *addend;
    *addend = 0;
  }
  return 1;
}

static int fuse_matmul_add(const run *r, tsr_vk_plan *plan)
{
  tsr_line_desc product;
  int32_t addend;
  return add_to_product(r, 0, 0, &product, &addend) && plan_fused(r, &product, addend, 0, plan) ? 2 : 0;
}

/* 1 if line `index` is a product that reads the result of the line before it as a, and nowhere else. */
static int multiplies_result(const run *r, int32_t index)
{
  if (!is_op(r, index, TSR_OP_MATMUL) || line_at(r, index - 1)->out[0] == 0 || !reads_result(r, index, 0, 0)) {
    return 0;
  }
  const tsr_line_desc *line = line_at(r, index);
  return uses_in(r->program, line->in, TSR_MAX_INPUTS, tsr_tensor_at(r->program, line->in[0])->storage) == 1;
}

/* The type to which the product of line `index` may round its a; 0: to none. */
static int32_t halves_of(const run *r, int32_t index)
{
  return tsr_vk_factors_of(r->program, line_at(r, index));
}

static int plan_halves(tsr_vk_planner *planner)
{
  return tsr_vk_plan_one(planner) && planner->are_halves_seen && (planner->addend == 0 || planner->is_added);
}

/* Plans the product of line `index`, whose a lies rounded in scratch from word `at` on, and what becomes one with it,
 * behind what *plan has. Returns how many lines are planned then; 0 if it cannot be had. */
static int multiply_halves(const run *r, int32_t index, uint32_t at, tsr_vk_plan *plan)
{
  const int32_t n_dispatches = plan->n_dispatches;
  const int64_t scratch_bytes = plan->scratch_bytes;
  if (is_op(r, index + 1, TSR_OP_TOPK) || is_op(r, index + 1, TSR_OP_LOG_SOFTMAX)) {
    return 0; /* to leave candidates alone is worth more */
  }
  const tsr_vk_planner alone = {.caps = r->caps,
                                .program = r->program,
                                .line = line_at(r, index),
                                .plan = plan,
                                .continues = 1,
                                .takes_halves = 1,
                                .a_at = at};
  tsr_vk_planner planner = alone;
  if (is_passed_on(r, index) && multiplies_result(r, index + 1) && halves_of(r, index + 1) != 0) {
    planner.leaves_halves = halves_of(r, index + 1);
    const int n = plan_halves(&planner) ? multiply_halves(r, index + 1, planner.halves_at, plan) : 0;
    if (n > 0) {
      return n;
    }
  }
  tsr_line_desc product;
  planner = alone;
  if (add_to_product(r, index, 1, &product, &planner.addend)) {
    planner.line = &product;
    plan->n_dispatches = n_dispatches;
    plan->scratch_bytes = scratch_bytes;
    if (plan_halves(&planner)) {
      return index + 2;
    }
  }
  planner = alone;
  plan->n_dispatches = n_dispatches;
  plan->scratch_bytes = scratch_bytes;
  return plan_halves(&planner) ? index + 1 : 0;
}

/* A line and the products by cooperative matrices behind it. */
static int fuse_halves(const run *r, tsr_vk_plan *plan)
{
  const int32_t norm = is_add_norm(r, 0) ? 1 : 0;
  const int is_first = is_norm(r, norm) || is_op(r, 0, TSR_OP_ATTENTION) || is_op(r, 0, TSR_OP_MATMUL);
  if (r->caps->n_shapes == 0 || !is_first || !multiplies_result(r, norm + 1) || halves_of(r, norm + 1) == 0 ||
      (!is_norm(r, norm) && !is_passed_on(r, 0))) {
    return 0;
  }
  tsr_line_desc line;
  copy_line(r, norm, &line);
  tsr_vk_planner planner = {
      .caps = r->caps,
      .program = r->program,
      .line = &line,
      .plan = plan,
      .leaves_halves = halves_of(r, norm + 1),
      .keeps_result = !is_passed_on(r, norm),
  };
  if (norm > 0) {
    line.in[0] = line_at(r, 0)->in[0];
    planner.addend = line_at(r, 0)->in[1];
    planner.sum = is_passed_on(r, 0) ? 0 : line_at(r, 0)->out[0];
  }
  return !overlap(r, planner.sum, line.out[0]) && plan_halves(&planner)
             ? multiply_halves(r, norm + 1, planner.halves_at, plan)
             : 0;
}

/* The state that line `index`, an update, gives the indices which the topk before it finds: whole, element by element.
 * 0: it is none of these. */
static int32_t state_of_indices(const run *r, int32_t index)
{
  const tsr_line_desc *topk = line_at(r, index - 1), *update = line_at(r, index);
  if (!is_op(r, index, TSR_OP_UPDATE) || topk->attributes.k != 1) {
    return 0;
  }
  const tsr_tensor_desc *indices = tsr_tensor_at(r->program, topk->out[1]);
  const tsr_tensor_desc *x = tsr_tensor_at(r->program, update->in[0]);
  const tsr_tensor_desc *state = tsr_tensor_at(r->program, update->out[0]);
  const tsr_vk_view views[] = {tsr_vk_view_of(indices), tsr_vk_view_of(x), tsr_vk_view_of(state)};
  const int alike = x->storage == indices->storage && x->offset == indices->offset && state->dtype == TSR_I32 &&
                    tsr_vk_elements(x) == tsr_vk_elements(indices) &&
                    tsr_vk_elements(state) == tsr_vk_elements(indices);
  return alike && tsr_vk_contiguous(&views[0]) && tsr_vk_contiguous(&views[1]) && tsr_vk_contiguous(&views[2])
             ? update->out[0]
             : 0;
}

static int fuse_matmul_topk(const run *r, tsr_vk_plan *plan)
{
  if (!is_op(r, 0, TSR_OP_MATMUL) || line_at(r, 1) == NULL) {
    return 0;
  }
  int32_t logarithm = is_op(r, 1, TSR_OP_LOG_SOFTMAX), last = 1 + logarithm;
  for (int32_t i = 1; i <= last; ++i) {
    if ((i == last && !is_op(r, i, TSR_OP_TOPK)) || !reads_result(r, i, 0, 1) || !is_passed_on(r, i - 1)) {
      return 0;
    }
  }
  const tsr_line_desc *topk = line_at(r, last);
  const int32_t state = state_of_indices(r, last + 1);
  tsr_vk_planner planner = {
      .caps = r->caps,
      .program = r->program,
      .line = line_at(r, 0),
      .plan = plan,
      .topk = {topk->attributes.k, logarithm, topk->out[0], topk->out[1], state},
  };
  return topk->attributes.k > 0 && tsr_vk_plan_one(&planner) ? last + 1 + (state != 0) : 0;
}

static int plan_lines(const run *r, tsr_vk_plan *plan)
{
  static int (*const fusions[])(const run *, tsr_vk_plan *) = {fuse_attention, fuse_around_matmul, fuse_halves,
                                                               fuse_add_norm,  fuse_matmul_add,    fuse_matmul_topk};
  for (size_t i = 0; r->caps->fusion && i < sizeof fusions / sizeof fusions[0]; ++i) {
    plan->n_lines = fusions[i](r, plan);
    if (plan->n_lines > 0) {
      return 1;
    }
  }
  plan->n_lines = 1;
  return tsr_vk_plan_line(r->caps, r->program, r->first, plan);
}

static int same_operand(const run *r, const tsr_vk_operand *a, const tsr_vk_operand *b)
{
  if (a->write != b->write || a->tensor == b->tensor) {
    return a->write == b->write;
  }
  if (a->tensor == TSR_VK_SCRATCH || b->tensor == TSR_VK_SCRATCH) {
    return 0;
  }
  return tsr_tensor_at(r->program, a->tensor)->storage == tsr_tensor_at(r->program, b->tensor)->storage;
}

static int same_dispatch(const run *r, const tsr_vk_dispatch *a, const tsr_vk_dispatch *b)
{
  int same = a->shader == b->shader && memcmp(a->groups, b->groups, sizeof a->groups) == 0 &&
             a->n_operands == b->n_operands && a->n_spec == b->n_spec &&
             memcmp(a->spec, b->spec, (size_t)a->n_spec * sizeof a->spec[0]) == 0 &&
             a->subgroup_size == b->subgroup_size && a->push_bytes == b->push_bytes &&
             memcmp(a->push, b->push, a->push_bytes) == 0;
  for (int32_t i = 0; same && i < a->n_operands; ++i) {
    same = same_operand(r, &a->operand[i], &b->operand[i]);
  }
  return same;
}

/* 1 if the dispatch writes to what `pure` leaves in scratch, or to what that reads. */
static int disturbs(const run *r, const tsr_vk_dispatch *dispatch, const tsr_vk_dispatch *pure)
{
  for (int32_t i = 0; i < dispatch->n_operands; ++i) {
    int32_t tensor = dispatch->operand[i].tensor;
    if (!dispatch->operand[i].write) {
      continue;
    }
    if (tensor == TSR_VK_SCRATCH && dispatch->kept_bytes < pure->scratch_bytes) {
      return 1;
    }
    for (int32_t k = 0; tensor != TSR_VK_SCRATCH && k < pure->n_operands; ++k) {
      if (pure->operand[k].tensor != TSR_VK_SCRATCH && overlap(r, tensor, pure->operand[k].tensor)) {
        return 1;
      }
    }
  }
  return 0;
}

/* Leaves out the dispatches whose result is left in scratch, and brings *left up to date. */
static void leave_out(const run *r, tsr_vk_left *left, tsr_vk_plan *plan)
{
  int32_t n = 0;
  for (int32_t i = 0; i < plan->n_dispatches; ++i) {
    const tsr_vk_dispatch *dispatch = &plan->dispatch[i];
    if (left->dispatch.pure && dispatch->pure && same_dispatch(r, dispatch, &left->dispatch)) {
      continue;
    }
    if (dispatch->pure) {
      left->dispatch = *dispatch;
    } else if (left->dispatch.pure && disturbs(r, dispatch, &left->dispatch)) {
      left->dispatch.pure = 0;
    }
    if (n < i) {
      plan->dispatch[n] = *dispatch;
    }
    ++n;
  }
  plan->n_dispatches = n;
}

int tsr_vk_plan_lines(const tsr_vk_caps *caps, const tsr_program_desc *program, tsr_backend_buffer *const *buffers,
                      int32_t line, tsr_vk_left *left, tsr_vk_plan *plan)
{
  run r = {caps, program, buffers, line};
  if (!plan_lines(&r, plan)) {
    return 0;
  }
  if (caps->fusion) {
    leave_out(&r, left, plan);
  }
  return 1;
}

/* A product with a sum behind it writes where nothing of its own was read, and so do the lines around a product: a norm
 * that is computed alone takes the rows of a sum in step, and the candidates of a product are chosen when it is done.
 */
int32_t tsr_vk_operands_until(const tsr_vk_caps *caps, const tsr_program_desc *program, int32_t line)
{
  const run r = {caps, program, NULL, line};
  tsr_vk_plan plan;
  int32_t product;
  if (caps->fusion && fuse_around(&r, NULL, &plan, &product) > 0) {
    return line + product;
  }
  return caps->fusion && fuse_matmul_add(&r, &plan) > 0 ? line + 1 : line;
}
