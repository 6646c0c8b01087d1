/* SPDX-License-Identifier: Apache-2.0
 *
 * tsr_gradients on small programs, run on the reference: each gradient against differences of the program's own losses,
 * and against the same program that computes part of itself once more.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/program/gradient_check.h"

/* ---- operators --------------------------------------------------------------------------------------------------- */

static tsr_ref matmul_plain(maker *m)
{
  return tsr_matmul(m->p, leaf(m, 3, 4), leaf(m, 4, 2), leaf(m, 2), 0.5f, TSR_ACTIVATION_NONE);
}

static tsr_ref matmul_transposed(maker *m)
{
  tsr_ref w = leaf(m, 2, 4); /* stored [N, K] */
  return tsr_product(m->p, leaf(m, 3, 4), tsr_transpose(m->p, w, 0, 1));
}

static tsr_ref matmul_left_transposed(maker *m)
{
  return tsr_product(m->p, tsr_transpose(m->p, leaf(m, 4, 3), 0, 1), leaf(m, 4, 2));
}

static tsr_ref matmul_batches(maker *m) /* leading axes that broadcast against each other; a bias of its own each */
{
  return tsr_matmul(m->p, leaf(m, 2, 1, 2, 3), leaf(m, 3, 3, 2), leaf(m, 3, 1, 2), 1.0f, TSR_ACTIVATION_NONE);
}

static tsr_ref matmul_folded(maker *m)
{
  return tsr_matmul(m->p, leaf(m, 2, 2, 3), leaf(m, 3, 2), leaf(m, 2), 2.0f, TSR_ACTIVATION_RELU);
}

static tsr_ref matmul_no_depth(maker *m)
{
  return tsr_matmul(m->p, leaf(m, 2, 0), leaf(m, 0, 3), leaf(m, 3), 1.0f, TSR_ACTIVATION_SILU);
}

static tsr_ref fused(maker *m, int32_t activation)
{
  return tsr_matmul(m->p, leaf(m, 3, 4), leaf(m, 4, 3), leaf(m, 3), 1.5f, activation);
}

static tsr_ref fused_relu(maker *m)
{
  return fused(m, TSR_ACTIVATION_RELU);
}

static tsr_ref fused_gelu_erf(maker *m)
{
  return fused(m, TSR_ACTIVATION_GELU_ERF);
}

static tsr_ref fused_gelu_tanh(maker *m)
{
  return fused(m, TSR_ACTIVATION_GELU_TANH);
}

static tsr_ref fused_silu(maker *m)
{
  return fused(m, TSR_ACTIVATION_SILU);
}

static tsr_ref rotate(maker *m)
{
  tsr_ref turns = fixed_leaf(m, TSR_SHAPE(3, 4));
  return tsr_rotate(m->p, leaf(m, 2, 3, 4), turns, 0.5f);
}

static tsr_ref conv1d(maker *m)
{
  return tsr_conv1d(m->p, leaf(m, 2, 5, 3), leaf(m, 4, 3, 3), leaf(m, 4), 1, 1);
}

static tsr_ref conv1d_stride(maker *m) /* two remainders, and a row that no window reaches */
{
  tsr_ref x = tsr_conv1d(m->p, leaf(m, 2, 6, 2), leaf(m, 3, 3, 2), TSR_NONE, 2, 1);
  return tsr_conv1d(m->p, tsr_silu(m->p, x), leaf(m, 2, 2, 3), leaf(m, 2), 1, 0);
}

static tsr_ref conv1d_gaps(maker *m) /* rows between the windows */
{
  return tsr_conv1d(m->p, leaf(m, 1, 11, 2), leaf(m, 3, 2, 2), leaf(m, 3), 4, 0);
}

static tsr_ref conv1d_one_window(maker *m)
{
  return tsr_conv1d(m->p, leaf(m, 2, 3, 2), leaf(m, 3, 2, 2), TSR_NONE, 9, 0);
}

static tsr_ref conv1d_long(maker *m) /* more rows of the kernel than concat takes */
{
  return tsr_conv1d(m->p, leaf(m, 1, 28, 1), leaf(m, 2, 26, 1), leaf(m, 2), 1, 2);
}

static tsr_ref conv1d_views(maker *m)
{
  tsr_ref x = tsr_transpose(m->p, leaf(m, 2, 3, 7), 1, 2), w = typed_leaf(m, TSR_F16, TSR_SHAPE(3, 1, 4));
  return tsr_conv1d(m->p, x, tsr_transpose(m->p, w, 0, 2), TSR_NONE, 3, 0);
}

static tsr_ref softmax_masked(maker *m)
{
  return tsr_softmax(m->p, leaf(m, 3, 5), leaf(m, 5));
}

static tsr_ref log_softmax(maker *m)
{
  return tsr_log_softmax(m->p, leaf(m, 2, 3, 4));
}

static tsr_ref layernorm(maker *m)
{
  return tsr_layernorm(m->p, leaf(m, 3, 5), leaf(m, 5), leaf(m, 5), 1e-2f);
}

static tsr_ref layernorm_without_bias(maker *m)
{
  return tsr_layernorm(m->p, leaf(m, 2, 2, 4), leaf(m, 4), TSR_NONE, 1e-2f);
}

static tsr_ref layernorm_std(maker *m)
{
  return tsr_layernorm_std(m->p, leaf(m, 3, 5), leaf(m, 5), leaf(m, 5), 1e-2f);
}

static tsr_ref rmsnorm(maker *m)
{
  return tsr_rmsnorm(m->p, leaf(m, 3, 4), leaf(m, 4), 1e-2f);
}

static tsr_ref add_broadcast(maker *m)
{
  return tsr_add(m->p, leaf(m, 3, 1), leaf(m, 2, 1, 4));
}

static tsr_ref mul_broadcast(maker *m)
{
  return tsr_mul(m->p, leaf(m, 2, 3, 1), leaf(m, 3, 4));
}

static tsr_ref square(maker *m)
{
  tsr_ref x = leaf(m, 5);
  return tsr_mul(m->p, x, x);
}

static tsr_ref activations(maker *m)
{
  tsr_ref x = leaf(m, 2, 8);
  tsr_ref y = tsr_add(m->p, tsr_relu(m->p, x), tsr_silu(m->p, x));
  return tsr_add(
      m->p, y, tsr_mul(m->p, tsr_gelu(m->p, x, TSR_ACTIVATION_GELU_ERF), tsr_gelu(m->p, x, TSR_ACTIVATION_GELU_TANH)));
}

static tsr_ref embedding(maker *m)
{
  tsr_ref ids = whole_numbers(m, TSR_SHAPE(2, 3), (const int32_t[]){1, 4, 1, -1, 0, 9});
  return tsr_embedding(m->p, leaf(m, 5, 3), ids, 1.5f);
}

static tsr_ref embedding_scalar_id(maker *m)
{
  return tsr_embedding(m->p, leaf(m, 3, 2), whole_numbers(m, tsr_shape_make(0, NULL), (const int32_t[]){2}), 1.0f);
}

static tsr_ref tied(maker *m) /* one table embeds, and makes logits; it is read from its second row on, too */
{
  tsr_ref table = leaf(m, 5, 3);
  tsr_ref ids = whole_numbers(m, TSR_SHAPE(4), (const int32_t[]){1, 3, 1, 0});
  tsr_ref x = tsr_silu(m->p, tsr_embedding(m->p, table, ids, 2.0f));
  tsr_ref part = tsr_slice(m->p, table, 0, 1, 3);
  x = tsr_add(m->p, x, tsr_reduce_sum(m->p, tsr_mul(m->p, part, part), 1));
  tsr_ref labels = whole_numbers(m, TSR_SHAPE(4), (const int32_t[]){2, -1, 4, 0});
  return tsr_cross_entropy(m->p, tsr_product(m->p, x, tsr_transpose(m->p, table, 0, 1)), labels, 0.1f, NULL);
}

static tsr_ref gather(maker *m)
{
  tsr_ref index = whole_numbers(m, TSR_SHAPE(4), (const int32_t[]){2, 0, 2, 7});
  return tsr_gather(m->p, leaf(m, 2, 3, 2), index, 1);
}

static tsr_ref reduce_sum(maker *m)
{
  tsr_ref x = leaf(m, 2, 3, 2);
  return tsr_mul(m->p, tsr_reduce_sum(m->p, x, 5), tsr_reduce_sum(m->p, tsr_mul(m->p, x, x), 2));
}

static tsr_ref concat(maker *m)
{
  tsr_ref a = leaf(m, 2, 3), b = leaf(m, 2, 1);
  tsr_ref y = tsr_concat(m->p, (const tsr_ref[]){a, b, a, tsr_slice(m->p, a, 1, 0, 0)}, 4, -1);
  return tsr_mul(m->p, y, y);
}

static tsr_ref dropout(maker *m)
{
  tsr_ref seed = whole_numbers(m, TSR_SHAPE(2), (const int32_t[]){17, -4});
  tsr_ref x = leaf(m, 6, 4);
  return tsr_dropout(m->p, tsr_mul(m->p, x, tsr_transpose(m->p, leaf(m, 4, 6), 0, 1)), seed, 0.4f, 3);
}

static tsr_ref cross_entropy(maker *m)
{
  tsr_ref labels = whole_numbers(m, TSR_SHAPE(4), (const int32_t[]){2, -1, 4, 0});
  return tsr_cross_entropy(m->p, leaf(m, 4, 5), labels, 0.2f, NULL);
}

static tsr_ref sums_of_squares(maker *m)
{
  tsr_ref first = tsr_sum_of_squares(m->p, leaf(m, 2, 3), leaf(m, 1));
  return tsr_sum_of_squares(m->p, tsr_transpose(m->p, leaf(m, 3, 2), 0, 1), first);
}

static tsr_ref half_copies(maker *m)
{
  tsr_ref a = tsr_copy(m->p, leaf(m, 3, 4), TSR_F16);
  tsr_ref b = tsr_copy(m->p, typed_leaf(m, TSR_BF16, TSR_SHAPE(2, 4)), TSR_F32);
  tsr_ref c = typed_leaf(m, TSR_F16, TSR_SHAPE(4, 2));
  tsr_ref x = tsr_product(m->p, tsr_product(m->p, b, tsr_transpose(m->p, a, 0, 1)), tsr_copy(m->p, a, TSR_F32));
  tsr_ref ids = whole_numbers(m, TSR_SHAPE(2), (const int32_t[]){3, 1});
  return tsr_add(m->p, tsr_product(m->p, x, c), tsr_embedding(m->p, c, ids, 1.0f));
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

enum { B = 2, L = 3, S = 4, H = 2, K = 3 };

static tsr_attention_args heads(maker *m)
{
  return (tsr_attention_args){
      .q = leaf(m, B, L, H, K), .k = leaf(m, B, S, H, K), .v = leaf(m, B, S, H, 2), .alpha = 0.7f};
}

static tsr_ref attention(maker *m)
{
  tsr_attention_args args = heads(m);
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_lengths(maker *m)
{
  tsr_attention_args args = heads(m);
  args.masking.lengths = whole_numbers(m, TSR_SHAPE(B), (const int32_t[]){0, 3});
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_causal(maker *m)
{
  tsr_attention_args args = heads(m);
  args.masking.causal = 1;
  args.masking.position = whole_numbers(m, TSR_SHAPE(B), (const int32_t[]){0, 1});
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_additive(maker *m) /* repeated over sentences and queries */
{
  tsr_attention_args args = heads(m);
  args.masking.additive = leaf(m, 1, H, 1, S);
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_relative(maker *m)
{
  tsr_attention_args args = heads(m);
  args.masking.relative = leaf(m, 4, H);
  args.masking.bidirectional = 1;
  args.masking.max_distance = 3;
  args.masking.additive = leaf(m, B, 1, L, 1);
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_clamped(maker *m) /* distances from -2 to 3, clamped at 1 */
{
  tsr_attention_args args = heads(m);
  args.masking.relative = leaf(m, 3, H);
  args.masking.max_distance = 1;
  args.masking.clamped = 1;
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_dropout(maker *m)
{
  tsr_attention_args args = heads(m);
  args.seed = whole_numbers(m, TSR_SHAPE(2), (const int32_t[]){5, 6});
  args.rate = 0.3f;
  args.stream = 11;
  args.masking.causal = 1;
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_capped(maker *m) /* scores about as large as their bound, and a bias behind it */
{
  tsr_attention_args args = heads(m);
  args.softcap = 0.8f;
  args.masking.causal = 1;
  args.masking.additive = leaf(m, 1, H, 1, S);
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_grouped(maker *m) /* three heads of q share one of k and v */
{
  tsr_attention_args args = {
      .q = leaf(m, B, L, 6, K), .k = leaf(m, B, S, 2, K), .v = leaf(m, B, S, 2, 2), .alpha = 0.7f, .softcap = 1.5f};
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_grouped_joined(maker *m) /* k and v, of one head, are slices of one projection */
{
  tsr_ref kv = tsr_product(m->p, leaf(m, B * S, 4), leaf(m, 4, 2 * K));
  tsr_ref part[2];
  for (int32_t i = 0; i < 2; i++) {
    part[i] = tsr_reshape(m->p, tsr_slice(m->p, kv, 1, i * K, K), TSR_SHAPE(B, S, 1, K));
  }
  tsr_attention_args args = {.q = leaf(m, B, L, 4, K), .k = part[0], .v = part[1], .alpha = 1.0f};
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_grouped_turned(maker *m) /* k and v stored with their sentences and places the other way */
{
  tsr_attention_args args = {.q = leaf(m, B, L, 4, K),
                             .k = tsr_transpose(m->p, leaf(m, S, B, 2, K), 0, 1),
                             .v = tsr_transpose(m->p, leaf(m, S, B, 2, K), 0, 1),
                             .alpha = 1.0f};
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_joined(maker *m) /* q, k and v are slices of one projection, weights come along */
{
  tsr_ref qkv = tsr_product(m->p, leaf(m, B * L, 4), leaf(m, 4, 3 * H * 2));
  tsr_ref part[3], weights;
  for (int32_t i = 0; i < 3; i++) {
    part[i] = tsr_reshape(m->p, tsr_slice(m->p, qkv, 1, i * H * 2, H * 2), TSR_SHAPE(B, L, H, 2));
  }
  tsr_attention_args args = {.q = part[0], .k = part[1], .v = part[2], .alpha = 1.0f, .weights = &weights};
  return tsr_attention(m->p, &args);
}

static tsr_ref attention_unfused(maker *m)
{
  tsr_ref q = leaf(m, B, H, L, K), k = leaf(m, B, H, S, K);
  tsr_ref scores = tsr_matmul(m->p, q, tsr_transpose(m->p, k, 2, 3), TSR_NONE, 0.6f, TSR_ACTIVATION_NONE);
  tsr_masking masking = {.lengths = whole_numbers(m, TSR_SHAPE(B), (const int32_t[]){3, 4}),
                         .causal = 1,
                         .additive = leaf(m, H, 1, S),
                         .relative = leaf(m, 3, H),
                         .max_distance = 5};
  tsr_ref weights = tsr_softmax(m->p, tsr_mask(m->p, scores, &masking), TSR_NONE);
  return tsr_product(m->p, weights, leaf(m, B, H, S, 2));
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

/* Lines that make every element count differently. */
static tsr_ref bent(maker *m, tsr_ref x)
{
  return tsr_silu(m->p, tsr_mul(m->p, x, x));
}

static tsr_ref slices_that_tile(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 3, 6));
  tsr_ref y = tsr_mul(m->p, tsr_slice(m->p, x, 1, 4, 2), tsr_slice(m->p, x, 1, 0, 2));
  return tsr_add(m->p, y, tsr_slice(m->p, x, 1, 2, 2));
}

static tsr_ref slices_with_gaps(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 2, 7));
  return tsr_mul(m->p, tsr_slice(m->p, x, 1, 1, 2), tsr_slice(m->p, x, 1, 4, 2));
}

static tsr_ref slices_that_overlap(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 6, 2));
  return tsr_mul(m->p, tsr_slice(m->p, x, 0, 0, 4), tsr_slice(m->p, x, 0, 2, 4));
}

static tsr_ref slices_along_two_axes(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 4, 5));
  tsr_ref inner = tsr_slice(m->p, tsr_slice(m->p, x, 0, 1, 2), 1, 2, 2);
  tsr_ref corner = tsr_slice(m->p, tsr_slice(m->p, x, 1, 3, 2), 0, 2, 2);
  return tsr_mul(m->p, inner, corner);
}

static tsr_ref quarters(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 4, 6)), y = TSR_NONE;
  for (int32_t i = 0; i < 4; i++) {
    tsr_ref quarter = tsr_slice(m->p, tsr_slice(m->p, x, 0, i / 2 * 2, 2), 1, i % 2 * 3, 3);
    y = y == TSR_NONE ? quarter : tsr_mul(m->p, tsr_add(m->p, y, quarter), quarter);
  }
  return y;
}

static tsr_ref many_slices(maker *m) /* more than one concatenation takes */
{
  tsr_ref x = bent(m, leaf(m, 29, 1)), y = tsr_slice(m->p, x, 0, 0, 1);
  for (int32_t i = 14; i > 0; i--) {
    y = tsr_add(m->p, tsr_mul(m->p, y, tsr_slice(m->p, x, 0, 2 * i, 1)), tsr_slice(m->p, x, 0, 2 * i, 1));
  }
  return y;
}

static tsr_ref one_row_one_column(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 3, 4));
  return tsr_mul(m->p, tsr_slice(m->p, x, 0, 1, 1), tsr_slice(m->p, x, 1, 2, 1));
}

static tsr_ref slice_of_slice(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 8, 3));
  tsr_ref part = tsr_slice(m->p, tsr_slice(m->p, x, 0, 2, 5), 0, 1, 3);
  return tsr_mul(m->p, part, tsr_slice(m->p, part, 1, 1, 1));
}

static tsr_ref empty_slices(maker *m)
{
  tsr_ref x = leaf(m, 4, 3), none = tsr_slice(m->p, x, 0, 2, 0);
  tsr_ref y =
      tsr_concat(m->p, (const tsr_ref[]){bent(m, x), bent(m, none), tsr_reshape(m->p, none, TSR_SHAPE(0, 3))}, 3, 0);
  return tsr_add(m->p, y, tsr_reduce_sum(m->p, none, 1));
}

static tsr_ref permuted(maker *m)
{
  tsr_ref x = leaf(m, 2, 3, 4);
  tsr_ref turned = tsr_permute(m->p, x, (const int32_t[]){2, 0, 1});
  return tsr_mul(m->p, tsr_mul(m->p, turned, turned), leaf(m, 4, 2, 3));
}

static tsr_ref transposed_and_plain(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 4, 4));
  return tsr_mul(m->p, x, tsr_transpose(m->p, x, 0, 1));
}

static tsr_ref slice_of_permuted(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 2, 3, 4));
  tsr_ref turned = tsr_permute(m->p, x, (const int32_t[]){1, 2, 0});
  return bent(m, tsr_slice(m->p, tsr_slice(m->p, turned, 1, 1, 2), 0, 2, 1));
}

static tsr_ref reshaped(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 4, 6));
  return tsr_mul(m->p, tsr_reshape(m->p, x, TSR_SHAPE(2, 2, 2, 3)), tsr_reshape(m->p, x, TSR_SHAPE(2, 2, 2, 3)));
}

static tsr_ref reshaped_run(maker *m) /* six elements that begin within a row of the storage */
{
  tsr_ref x = bent(m, leaf(m, 4, 3));
  tsr_ref rows = tsr_reshape(m->p, tsr_slice(m->p, x, 0, 1, 2), TSR_SHAPE(3, 2));
  return bent(m, tsr_transpose(m->p, rows, 0, 1));
}

static tsr_ref reshaped_rows(maker *m) /* rows of columns, under extents that do not divide the storage */
{
  tsr_ref x = bent(m, leaf(m, 5, 3));
  tsr_ref block = tsr_slice(m->p, tsr_slice(m->p, x, 0, 1, 4), 1, 0, 2);
  tsr_ref seen = tsr_permute(m->p, tsr_reshape(m->p, block, TSR_SHAPE(2, 2, 2)), (const int32_t[]){2, 1, 0});
  return tsr_mul(m->p, seen, tsr_mul(m->p, seen, leaf(m, 2, 2, 2)));
}

static tsr_ref expanded(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 3, 1));
  return tsr_mul(m->p, tsr_expand(m->p, x, TSR_SHAPE(2, 3, 4)), leaf(m, 2, 3, 4));
}

static tsr_ref expanded_slice(maker *m)
{
  tsr_ref x = bent(m, leaf(m, 4, 3));
  return tsr_mul(m->p, tsr_expand(m->p, tsr_slice(m->p, x, 0, 2, 1), TSR_SHAPE(4, 3)), x);
}

static tsr_ref repeated_reads(maker *m)
{
  tsr_ref x = leaf(m, 2, 3), part = tsr_slice(m->p, x, 1, 1, 1);
  tsr_ref y = tsr_mul(m->p, tsr_mul(m->p, x, part), tsr_add(m->p, part, x));
  return tsr_add(m->p, y, tsr_slice(m->p, x, 1, 1, 1));
}

static tsr_ref scalar(maker *m)
{
  tsr_ref x = typed_leaf(m, TSR_F32, tsr_shape_make(0, NULL));
  return tsr_mul(m->p, tsr_silu(m->p, x), x);
}

static tsr_ref loss_seen_turned(maker *m) /* the loss itself is a view, of a result that is read elsewhere too */
{
  tsr_ref x = bent(m, leaf(m, 3, 4));
  (void)tsr_relu(m->p, x);
  return tsr_transpose(m->p, x, 0, 1);
}

#define CASE(name)                                                                                                     \
  {                                                                                                                    \
#name, name                                                                                                        \
  }
static const gradient_case cases[] = {
    CASE(matmul_plain),
    CASE(matmul_transposed),
    CASE(matmul_left_transposed),
    CASE(matmul_batches),
    CASE(matmul_folded),
    CASE(matmul_no_depth),
    CASE(fused_relu),
    CASE(fused_gelu_erf),
    CASE(fused_gelu_tanh),
    CASE(fused_silu),
    CASE(rotate),
    CASE(conv1d),
    CASE(conv1d_stride),
    CASE(conv1d_gaps),
    CASE(conv1d_one_window),
    CASE(conv1d_long),
    CASE(conv1d_views),
    CASE(softmax_masked),
    CASE(log_softmax),
    CASE(layernorm),
    CASE(layernorm_without_bias),
    CASE(layernorm_std),
    CASE(rmsnorm),
    CASE(add_broadcast),
    CASE(mul_broadcast),
    CASE(square),
    CASE(activations),
    CASE(embedding),
    CASE(embedding_scalar_id),
    CASE(tied),
    CASE(gather),
    CASE(reduce_sum),
    CASE(concat),
    CASE(dropout),
    CASE(cross_entropy),
    CASE(sums_of_squares),
    CASE(half_copies),
    CASE(attention),
    CASE(attention_lengths),
    CASE(attention_causal),
    CASE(attention_clamped),
    CASE(attention_additive),
    CASE(attention_relative),
    CASE(attention_dropout),
    CASE(attention_capped),
    CASE(attention_grouped),
    CASE(attention_grouped_joined),
    CASE(attention_grouped_turned),
    CASE(attention_joined),
    CASE(attention_unfused),
    CASE(slices_that_tile),
    CASE(slices_with_gaps),
    CASE(slices_that_overlap),
    CASE(slices_along_two_axes),
    CASE(quarters),
    CASE(many_slices),
    CASE(one_row_one_column),
    CASE(slice_of_slice),
    CASE(empty_slices),
    CASE(permuted),
    CASE(transposed_and_plain),
    CASE(slice_of_permuted),
    CASE(reshaped),
    CASE(reshaped_run),
    CASE(reshaped_rows),
    CASE(expanded),
    CASE(expanded_slice),
    CASE(repeated_reads),
    CASE(scalar),
    CASE(loss_seen_turned),
};

static void test_differences(void **state)
{
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    gradient_report report = gradient_check(*state, &cases[i], 1000 + i);
    if (report.rough * 2 > report.elements) { /* relu has kinks */
      fail_msg("%s: the differences of %d of %d elements say nothing", cases[i].name, report.rough, report.elements);
    }
  }
}

/* Every operator with a gradient rule is met above. */
static void test_coverage(void **state)
{
  uint8_t met[TSR_OP_COUNT] = {0};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    maker m;
    maker_begin(&m, 1, 0);
    cases[i].build(&m);
    const tsr_program_desc *program = tsr_program_describe(m.p);
    for (int32_t line = 0; line < program->n_lines; line++) {
      met[tsr_line_at(program, line)->op] = 1;
    }
    maker_finish(&m);
  }
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    if (tsr_op_differentiable(op) && !met[op]) {
      fail_msg("no case has the operator %s", tsr_op_describe(op)->name);
    }
  }
}

/* ---- the padding's row ------------------------------------------------------------------------------------------- */

static void test_padding(void **state)
{
  for (int32_t padding = -1; padding < 6; padding++) {
    maker m;
    maker_begin(&m, 77, 0);
    tsr_ref ids = whole_numbers(&m, TSR_SHAPE(5), (const int32_t[]){0, 2, 4, 2, 1});
    tsr_ref table = leaf(&m, 5, 2);
    tsr_ref loss = tsr_embedding_padded(m.p, table, ids, 3.0f, padding);
    float found[10];
    gradient_of(*state, &m, loss, 1.0f, table, found);
    for (int32_t row = 0; row < 5; row++) {
      static const float times[5] = {1, 1, 2, 0, 1};
      for (int32_t i = 0; i < 2; i++) {
        assert_float_equal(found[2 * row + i], row == padding ? 0.0f : 3.0f * times[row], 0);
      }
    }
    maker_finish(&m);
  }
}

/* ---- random programs --------------------------------------------------------------------------------------------- */

enum { MAX_VALUES = 32, PROGRAMS = 300 };

typedef struct pool {
  tsr_ref value[MAX_VALUES];
  int32_t n;
} pool;

static tsr_ref any_leaf(maker *m)
{
  tsr_shape shape = tsr_shape_make(0, NULL);
  shape.rank = 1 + draw(m, 3);
  for (int32_t i = 0; i < shape.rank; i++) {
    shape.extent[i] = 1 + draw(m, 4);
  }
  return typed_leaf(m, TSR_F32, shape);
}

static tsr_ref any_view(maker *m, tsr_ref x)
{
  tsr_shape shape = tsr_ref_shape(m->p, x);
  if (shape.rank == 0) {
    return x;
  }
  int32_t axis = draw(m, shape.rank);
  int64_t extent = shape.extent[axis];
  switch (draw(m, 6)) {
  case 0:
    return tsr_transpose(m->p, x, axis, draw(m, shape.rank));
  case 1:
  case 2: {
    int64_t start = draw(m, (int32_t)extent);
    return tsr_slice(m->p, x, axis, start, 1 + draw(m, (int32_t)(extent - start)));
  }
  case 3:
    shape.extent[axis] = extent == 1 ? 1 + draw(m, 3) : extent;
    return tsr_expand(m->p, x, shape);
  case 4: {
    tsr_ref copy = draw(m, 2) ? x : tsr_copy(m->p, x, TSR_F32);
    int64_t elements = tsr_shape_elements(&shape);
    return copy != x && elements % 2 == 0 ? tsr_reshape(m->p, copy, TSR_SHAPE(2, elements / 2)) : copy;
  }
  default:
    return x;
  }
}

/* y, of which the last axis is as long as x's. */
static tsr_ref row_leaf(maker *m, tsr_ref x)
{
  tsr_shape shape = tsr_ref_shape(m->p, x);
  return typed_leaf(m, TSR_F32, TSR_SHAPE(shape.extent[shape.rank - 1]));
}

static tsr_ref any_line(maker *m, const pool *values)
{
  tsr_ref x = any_view(m, values->value[draw(m, values->n)]), y = any_view(m, values->value[draw(m, values->n)]);
  tsr_shape shape = tsr_ref_shape(m->p, x), other = tsr_ref_shape(m->p, y);
  int64_t last = shape.extent[shape.rank - 1];
  switch (draw(m, 15)) {
  case 0:
  case 1: { /* broadcast against each other, cut to what fits */
    for (int32_t i = 1; i <= shape.rank && i <= other.rank; i++) {
      int64_t a = tsr_ref_shape(m->p, x).extent[shape.rank - i], b = other.extent[other.rank - i];
      if (a != b && a != 1 && b != 1) {
        int64_t least = a < b ? a : b;
        x = tsr_slice(m->p, x, -i, a - least, least);
        y = tsr_slice(m->p, y, -i, 0, least);
      }
    }
    return draw(m, 2) ? tsr_add(m->p, x, y) : tsr_mul(m->p, x, y);
  }
  case 2:
  case 3: {
    static const int32_t activations_of[] = {TSR_ACTIVATION_NONE, TSR_ACTIVATION_GELU_ERF, TSR_ACTIVATION_GELU_TANH,
                                             TSR_ACTIVATION_SILU};
    if (shape.rank < 2) {
      return tsr_silu(m->p, x);
    }
    int64_t columns = 1 + draw(m, 3);
    int32_t turned = draw(m, 2), activation = activations_of[draw(m, 4)];
    tsr_ref bias = draw(m, 2) ? leaf(m, columns) : TSR_NONE;
    tsr_ref w = turned ? tsr_transpose(m->p, leaf(m, columns, last), 0, 1) : leaf(m, last, columns);
    return tsr_matmul(m->p, x, w, bias, 0.8f, activation);
  }
  case 4:
    return draw(m, 4) ? tsr_gelu(m->p, x, TSR_ACTIVATION_GELU_TANH) : tsr_relu(m->p, x);
  case 5:
    return tsr_softmax(m->p, x, draw(m, 2) ? row_leaf(m, x) : TSR_NONE);
  case 6:
    return tsr_log_softmax(m->p, x);
  case 7: {
    tsr_ref gain = row_leaf(m, x), bias = draw(m, 2) ? row_leaf(m, x) : TSR_NONE;
    return tsr_layernorm(m->p, x, gain, bias, 0.5f);
  }
  case 8:
    return tsr_rmsnorm(m->p, x, row_leaf(m, x), 0.5f);
  case 9:
    return tsr_reduce_sum(m->p, x, draw(m, 1 << shape.rank));
  case 10: {
    int32_t axis = draw(m, shape.rank);
    int32_t n = 2 + draw(m, 2);
    tsr_ref pieces[3] = {x, tsr_slice(m->p, x, axis, 0, draw(m, (int32_t)shape.extent[axis] + 1)), x};
    return tsr_concat(m->p, pieces, n, axis);
  }
  case 11: {
    int32_t axis = draw(m, shape.rank), index[3];
    for (int32_t i = 0; i < 3; i++) {
      index[i] = draw(m, (int32_t)shape.extent[axis] + 1); /* one of them outside */
    }
    return tsr_gather(m->p, x, whole_numbers(m, TSR_SHAPE(3), index), axis);
  }
  case 12:
    return tsr_dropout(m->p, x, whole_numbers(m, TSR_SHAPE(2), (const int32_t[]){draw(m, 99), 7}), 0.25f, 1);
  case 13:
    return tsr_sum_of_squares(m->p, x, TSR_NONE);
  default:
    return shape.rank == 2 && shape.extent[0] <= 6
               ? tsr_cross_entropy(m->p, tsr_copy(m->p, x, TSR_F32),
                                   tsr_slice(m->p, whole_numbers(m, TSR_SHAPE(6), (const int32_t[]){0, 1, -1, 0, 2, 1}),
                                             0, 0, shape.extent[0]),
                                   0.1f, NULL)
               : tsr_copy(m->p, x, TSR_F32);
  }
}

static int64_t elements_of(const maker *m, tsr_ref x)
{
  tsr_shape shape = tsr_ref_shape(m->p, x);
  return tsr_shape_elements(&shape);
}

/* Three to ten lines, the last one's result the loss. */
static tsr_ref any_program(maker *m)
{
  pool values = {.n = 0};
  int32_t lines = 3 + draw(m, 8);
  values.value[values.n++] = any_leaf(m);
  values.value[values.n++] = any_leaf(m);
  for (int32_t i = 0; i < lines; i++) {
    tsr_ref y = any_line(m, &values);
    if (y == TSR_INVALID) {
      return y;
    }
    if (elements_of(m, y) > 0 && elements_of(m, y) <= 64 && tsr_ref_shape(m->p, y).rank > 0) {
      values.value[values.n++] = y;
    }
  }
  return values.value[values.n - 1];
}

static void test_random_programs(void **state)
{
  const char *text = getenv("TESSERA_SEED");
  uint64_t seed = text ? strtoull(text, NULL, 0) : 20240611;
  gradient_report all = {0};
  for (int32_t i = 0; i < (text ? 1 : PROGRAMS); i++) {
    char name[64];
    snprintf(name, sizeof name, "random program, TESSERA_SEED=%llu", (unsigned long long)seed + (unsigned long long)i);
    const gradient_case program = {name, any_program};
    gradient_report report = gradient_check(*state, &program, seed + (uint64_t)i);
    all.elements += report.elements;
    all.rough += report.rough;
  }
  print_message("%d elements of random programs, of %d the differences say little\n", all.elements, all.rough);
  assert_true(text || (all.elements > 20 * PROGRAMS && all.rough * 10 < all.elements));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_differences),
      cmocka_unit_test(test_coverage),
      cmocka_unit_test(test_padding),
      cmocka_unit_test(test_random_programs),
  };
  return cmocka_run_group_tests(tests, gradient_setup, gradient_teardown);
}
