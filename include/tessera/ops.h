/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/ops.h: what the operators mean. This is the one place that says so; every backend is held against it.
 *
 * Common to all
 *   - Operands may be any views: strided, transposed, broadcast, of rank 0 to 4 unless said otherwise. Results are new,
 *     contiguous, and f32 unless said otherwise.
 *   - ".." stands for any leading axes. "Broadcasts to" means: right-aligned, extent 1 or a missing axis repeats.
 *   - Sums are accumulated in f32 at least, in any order. Arguments of type f16 and bf16 are widened exactly first.
 *   - Arithmetic may take a subnormal f32 for zero, and give zero for one. copy, append, update, gather and topk keep
 *     every bit.
 *   - Where a line is of reduced precision (tsr_matmul_reduced_precision, tsr_matmul_rounded,
 *     tsr_attention_args.reduced_precision), a factor of a product may be rounded to a type of 16 bits before it is
 *     multiplied: to nearest or toward zero; a finite number beyond the type's range becomes its largest finite one;
 *     infinities and NaN stay. A subnormal number of that type may count as zero, and its sums may be cut off where
 *     others are rounded. It is a permission: a device may do without any of it.
 *   - An operand never shares memory with a result, except that append, update and adam write into states. A line that
 *     writes a state must not have the same state as an operand: TSR_ERR_ARGUMENT.
 *   - An empty tensor (an extent of 0) is allowed everywhere; a sum over nothing is 0.
 *   - NaN in an element makes every result NaN that the formula derives from it. Infinities follow IEEE 754. Where -inf
 *     excludes an element, it takes no part at all: what it holds (NaN too) is not seen, unless said otherwise.
 *   - Errors of all: TSR_ERR_SHAPE, TSR_ERR_DTYPE, TSR_ERR_ARGUMENT, sticky as program.h describes.
 *
 * Tolerance classes, in which backends are compared with the reference (tools/conformance derives the bounds)
 *   exact        the same bits, -0 equal to +0, any NaN equal to any NaN
 *   elementwise  a few units in the last place of the result's own size
 *   product      scaled by the sum of |a||b| behind the element
 *   norm         scaled by the size of the row before normalisation cancelled it
 */
#ifndef TESSERA_OPS_H
#define TESSERA_OPS_H

#include "tessera/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y = activation(alpha * a @ b + bias)
 *   a    [.., M, K] f32, rank 2 to 4
 *   b    [.., K, N] f32|f16|bf16, rank 2 to 4; weights stored [N, K] are passed transposed, at no cost
 *   bias f32, broadcasts to [.., M, N], or TSR_NONE
 *   leading axes of a and b broadcast against each other
 *   activation TSR_ACTIVATION_*
 * Returns y [.., M, N]. K = 0 gives activation(bias). Class: product. */
TSR_API tsr_ref tsr_matmul(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref bias, float alpha, int32_t activation);

/* The same operator with b f16|bf16, of reduced precision: a may be rounded to b's type before it is multiplied, as the
 * factors of an instruction that multiplies small matrices have one type. The sums, alpha, the bias and the activation
 * stay f32. Errors: TSR_ERR_DTYPE too where b is of another type. */
TSR_API tsr_ref tsr_matmul_reduced_precision(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref bias, float alpha,
                                             int32_t activation);

/* The same operator with b f32, of reduced precision: a and b may both be rounded to `factors`, TSR_F16 or TSR_BF16.
 * Errors: TSR_ERR_DTYPE too where b or `factors` is of another type. */
TSR_API tsr_ref tsr_matmul_rounded(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref bias, float alpha, int32_t activation,
                                   tsr_dtype factors);

/* The same operator with weights of i8, each column of b with a scale of its own, and the rows of a quantised as they
 * come:
 *   y[m, n] = activation(alpha * s[m] * scales[n] * sum_k q[m, k] b[k, n] + bias[m, n])
 *   b      [.., K, N] i8 (all of -128 .. 127), rank 2 to 4, K at most TSR_MAX_I8_DEPTH; stands for scales[n] * b[k, n]
 *   scales [N] f32, the same for each matrix of b;  a, bias, the rest: as above
 * A row m of a, with amax = max_k |a[m, k]|:
 *   s = amax / 127, inv = 127 / amax, each rounded to f32
 *   q[k] = the integer nearest to the f32 product a[m, k] * inv, ties to even; 127 and -127 at most
 *   amax below 2^-100: s = 0 and q = 0 (inv stays finite, and no subnormal element counts)
 *   an element NaN or infinite: s = NaN, so that the row of y is NaN before the activation
 * The sum over k is exact, and becomes an f32 by rounding; alpha, s and scales may be multiplied with it in any order,
 * each product rounded to f32. Class: product; an inv that is off by a unit in the last place, or another rounding of
 * the product with it, may move a q that lies that close to a tie by 1. */
#define TSR_MAX_I8_DEPTH 65536 /* 127 * 128 * 65536, and 255 * 128 * 65536 too, fit an int32 */
TSR_API tsr_ref tsr_matmul_i8(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref scales, tsr_ref bias, float alpha,
                              int32_t activation);

/* The same with weights of four bits, in groups of TSR_I4_GROUP steps of k, each with a scale for each column:
 *   y[m, n] = activation(alpha * s[m] * sum_g scales[g, n] * (sum_{k in g} q[m, k] w[k, n]) + bias[m, n])
 *   b      [.., 16 G, N] i8, rank 2 to 4, G = ceil(K / 32): two weights w of -8 .. 7 a byte. Byte j of a column holds
 *          w + 8 of k = 8 (j / 4) + j % 4 in its lower four bits, and that of k + 4 in its upper four. Four bytes hold
 *          eight neighbours, the first four below the others. What stands for k >= K is not seen.
 *   scales [G, N] f16, finite or NaN, the same for each matrix of b;  a, K, s, q, the rest: as of tsr_matmul_i8
 * The sum over a group is exact. It may be multiplied with its scale whole, or in parts of four products or more.
 * Class: product, as of tsr_matmul_i8. The type of its scales tells a line's weights apart. */
TSR_API tsr_ref tsr_matmul_i4(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref scales, tsr_ref bias, float alpha,
                              int32_t activation);

/* y = a @ b: tsr_matmul with alpha 1, no bias, no activation. */
TSR_API tsr_ref tsr_product(tsr_program *p, tsr_ref a, tsr_ref b);

/* One-dimensional convolution (a cross-correlation, as all frameworks have it):
 *   y[b, t, o] = sum_{k, i} x[b, stride t + k - padding, i] weight[o, k, i] + bias[o]
 *   x      [B, T, I] f32; rows before the first and behind the last are zeros
 *   weight [O, K, I] f32|f16|bf16, K at least 1
 *   bias   [O] f32, or TSR_NONE
 *   stride at least 1, padding at least 0; T + 2 padding at least K
 * Returns y [B, (T + 2 padding - K) / stride + 1, O]. The line itself knows no padding: rows of zeros are put around x
 * by lines before it, and an x or a weight whose rows of T I, or K I, elements do not lie side by side is copied. I = 0
 * gives the bias. Class: product. */
TSR_API tsr_ref tsr_conv1d(tsr_program *p, tsr_ref x, tsr_ref weight, tsr_ref bias, int32_t stride, int32_t padding);

/* y = softmax(z) along the last axis: exp(z - max z) / sum exp(z - max z), where z = x + mask, rounded to f32.
 *   x    [.., N] f32, rank 1 to 4
 *   mask f32, broadcasts to x, or TSR_NONE; -inf excludes
 * Returns y, x's extents. An element of x that is -inf is excluded too, whatever the mask holds there, and so is a sum
 * that overflows to -inf. A row wholly excluded gives zeros. A row in which an element that is not excluded is +inf or
 * NaN is NaN throughout, where elements are excluded too. Class: elementwise. */
TSR_API tsr_ref tsr_softmax(tsr_program *p, tsr_ref x, tsr_ref mask);

/* y = x - max x - ln sum exp(x - max x), along the last axis.
 *   x [.., N] f32, rank 1 to 4
 * Returns y, x's extents. An element of -inf gives -inf; so does every element of a row that is wholly -inf. A row that
 * holds +inf or NaN is NaN throughout, where it holds -inf too. Class: elementwise, scaled by |x| + |max| + ln sum
 * too. */
TSR_API tsr_ref tsr_log_softmax(tsr_program *p, tsr_ref x);

/* y = gain * (x - mean) / sqrt(variance + epsilon) + bias, mean and biased variance along the last axis
 * (Ba, Kiros, Hinton 2016, arXiv:1607.06450).
 *   x    [.., N] f32, rank 1 to 4
 *   gain [N] f32;  bias [N] f32 or TSR_NONE;  epsilon > 0
 * Returns y, x's extents. The variance is that of the centred values (not E[x^2] - mean^2). Class: norm. */
TSR_API tsr_ref tsr_layernorm(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref bias, float epsilon);

/* The same operator with the unbiased standard deviation, epsilon outside the root, as a widespread tutorial has it
 * (Rush 2018, The Annotated Transformer): y = gain * (x - mean) / (s + epsilon) + bias, s = sqrt(sum (x - mean)^2 / (N
 * - 1)) along the last axis; N = 1: s = 0. The rest: as above. */
TSR_API tsr_ref tsr_layernorm_std(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref bias, float epsilon);

/* y = gain * x / sqrt(mean(x^2) + epsilon) along the last axis (Zhang, Sennrich 2019, arXiv:1910.07467).
 *   x [.., N] f32, rank 1 to 4;  gain [N] f32;  epsilon > 0
 * Returns y, x's extents. Class: norm. */
TSR_API tsr_ref tsr_rmsnorm(tsr_program *p, tsr_ref x, tsr_ref gain, float epsilon);

/* What may be seen of keys, and biases on scores: shared by mask and attention. All optional; zero-initialise.
 * Of query l and key s of sentence b:
 *   - s is excluded if lengths is given and s >= lengths[b]
 *   - s is excluded if causal is 1 and s > l + position[b] (position TSR_NONE: 0)
 *   - additive[b, h, l, s] is added (-inf excludes)
 *   - relative[row(s - l - position[b]), h] is added (-inf excludes)
 * A score that is -inf before anything is added stays excluded, whatever is added. The others become
 * (score + additive) + relative, each sum rounded to f32.
 * row(rel), clamped (the clipping of Shaw et al. 2018, arXiv:1803.02155, with a bias in the place of their vectors):
 *   min(max(rel, -max_distance), max_distance) + max_distance
 * row(rel), otherwise a bucket (Raffel et al. 2020, arXiv:1910.10683, as their code has it), n = rows of the table:
 *   bidirectional: n := n / 2, base = n if rel > 0 else 0, r = |rel|;  otherwise: base = 0, r = max(-rel, 0)
 *   e = n / 2;  r < e: base + r;  else base + min(n - 1, e + trunc(ln(r / e) / ln(max_distance / e) * (n - e)))
 *   in which r / e, both logarithms, the quotient and the product are each rounded to nearest f32; max_distance / e is
 *   not */
typedef struct tsr_masking {
  tsr_ref additive;      /* f32, broadcasts to [B, H, L, S] */
  tsr_ref lengths;       /* [B] or [1] i32; below 0 counts as 0, beyond S as S */
  tsr_ref position;      /* [B] or [1] i32, at least 0: where query 0 stands among the keys */
  tsr_ref relative;      /* [n, H] f32, n >= 2 (bidirectional: n >= 4; clamped: n = 2 max_distance + 1) */
  int32_t causal;        /* 0 or 1 */
  int32_t bidirectional; /* 0 or 1; with relative */
  int32_t max_distance;  /* more than e (clamped: at least 1); with relative */
  int32_t clamped;       /* 0 or 1; with relative; not with bidirectional */
} tsr_masking;

/* y = x with the masking applied: excluded elements are -inf.
 *   x [B, H, L, S] f32 (scores)
 * Returns y, x's extents. Class: elementwise. */
TSR_API tsr_ref tsr_mask(tsr_program *p, tsr_ref x, const tsr_masking *masking);

/* Fused attention (Vaswani et al. 2017, arXiv:1706.03762; one pass over the keys: Dao et al. 2022, arXiv:2205.14135):
 *   y[b, l, h] = sum_s w[b, h, l, s] v[b, s, h],  w = softmax_s(mask(cap(alpha * q[b, l, h] . k[b, s, h])))
 *   q [B, L, H, K] f32;  k [B, S, H, K] and v [B, S, H, J] f32|f16|bf16, both of one type
 *   k and v may have fewer heads than q, G of them, a divisor of H (grouped queries; Ainslie et al. 2023,
 *        arXiv:2305.13245): then head h of q sees head h / (H / G) of k and v, rounded down
 *   cap(x) = softcap tanh(x / softcap), or x where softcap is 0 (Gemma 2, 2024, arXiv:2408.00118)
 *   rows [B, S] i32 or TSR_NONE: if given, k is [R, S, H, K] and v [R, S, H, J], and key s of sentence b is row
 *        rows[b, s]: a beam's history without moving the cache. A row outside 0 .. R-1 is excluded.
 *   weights: if not NULL, receives w [B, H, L, S]
 *   seed [2] i32 or TSR_NONE: if given, v is multiplied with dropped-out weights: element [b, h, l, s] of w as
 *        tsr_dropout has it, with rate and stream. w itself, as a result, is not dropped out.
 *   lse: if not NULL, receives ln sum_s exp(z[b, h, l, s]) of the masked scores z, [B, H, L] f32; -inf where every key
 *        is excluded
 * Returns y [B, L, H, J]. A query with every key excluded gives zeros, in y and in w. What excluded keys hold is not
 * seen, in v too: NaN there does no harm. Scores count as f32: alpha * q . k, or its cap, is rounded before the
 * masking. Never holds the scores in memory unless w is asked for. Class: product. A softcap below 0 or not finite is
 * an error, TSR_ERR_ARGUMENT.
 *   reduced_precision: 1, TSR_F16, TSR_BF16: the factors of both products may be rounded to f16 (1 too), or to bf16: q,
 *        or alpha q, and k; v and the weights, which are then exp(z - the largest z so far), dropped out or not, before
 *        they are divided by their sum. The scores, the softmax and its sum, w as a result and lse stay f32. */
typedef struct tsr_attention_args {
  tsr_ref q, k, v;           /* required */
  tsr_ref rows;              /* or TSR_NONE */
  tsr_masking masking;       /* of the scores [B, H, L, S] */
  float alpha;               /* factor of the scores, usually K^-1/2 */
  tsr_ref *weights;          /* or NULL */
  tsr_ref seed;              /* of the dropout, or TSR_NONE */
  float rate;                /* of the dropout */
  int32_t stream;            /* of the dropout */
  tsr_ref *lse;              /* or NULL */
  int32_t reduced_precision; /* 0: all of f32; 1, TSR_F16, TSR_BF16 */
  float softcap;             /* bound of the scores; 0: none */
} tsr_attention_args;
TSR_API tsr_ref tsr_attention(tsr_program *p, const tsr_attention_args *args);

/* y = a + b and y = a * b; both f32, or both i32 (wraps around). a and b broadcast against each other.
 * Returns y, their type. Class: exact (i32), elementwise (f32). */
TSR_API tsr_ref tsr_add(tsr_program *p, tsr_ref a, tsr_ref b);
TSR_API tsr_ref tsr_mul(tsr_program *p, tsr_ref a, tsr_ref b);

/* y = max(x, 0), NaN stays NaN. x f32. Class: exact. */
TSR_API tsr_ref tsr_relu(tsr_program *p, tsr_ref x);

/* y = gelu(x) (Hendrycks, Gimpel 2016, arXiv:1606.08415). x f32; activation TSR_ACTIVATION_GELU_ERF or _GELU_TANH.
 * gelu(-inf) = 0 (-0 counts), gelu(+inf) = +inf. Class: elementwise, scaled by |x|. */
TSR_API tsr_ref tsr_gelu(tsr_program *p, tsr_ref x, int32_t activation);

/* y = x / (1 + exp(-x)). x f32. silu(-inf) = 0 (-0 counts), silu(+inf) = +inf. Class: elementwise, scaled by |x|. */
TSR_API tsr_ref tsr_silu(tsr_program *p, tsr_ref x);

/* Turns pairs of columns, as rotary positions do (Su et al. 2021, arXiv:2104.09864): with h = K / 2, c = turns[.., i]
 * and s = alpha turns[.., h + i] of i < h,
 *   y[.., i] = x[.., i] c - x[.., h + i] s,  y[.., h + i] = x[.., h + i] c + x[.., i] s
 *   x     [.., K] f32, rank 1 to 4, K even
 *   turns [.., K] f32, broadcasts to x: cosines, then sines
 *   alpha 1, or -1 to turn the other way: the gradient of the one is the other; any other factor is allowed
 * Returns y, x's extents. turns has no gradient. Class: product. */
TSR_API tsr_ref tsr_rotate(tsr_program *p, tsr_ref x, tsr_ref turns, float alpha);

/* y[.., :] = alpha * table[ids[..], :]
 *   table [V, D] f32|f16|bf16;  ids i32, rank 0 to 3
 * Returns y [.., D]. An id outside 0 .. V-1 gives a row of zeros. Class: elementwise (exact where alpha is 1). */
TSR_API tsr_ref tsr_embedding(tsr_program *p, tsr_ref table, tsr_ref ids, float alpha);

/* The same operator, but for its gradient: the row `padding` of the table gets none from here. -1: each row gets
 * one. */
TSR_API tsr_ref tsr_embedding_padded(tsr_program *p, tsr_ref table, tsr_ref ids, float alpha, int32_t padding);

/* The same operator with a table of i8 whose rows have scales: y[.., :] = alpha * scales[ids[..]] * table[ids[..], :]
 *   table [V, D] i8;  scales [V] f32;  ids, y: as above
 * The factors may be multiplied in any order. Class: elementwise. */
TSR_API tsr_ref tsr_embedding_i8(tsr_program *p, tsr_ref table, tsr_ref scales, tsr_ref ids, float alpha);

/* The same with weights of four bits: y[.., d] = alpha * scales[ids[..], d / 32] * w[ids[..], d]
 *   table [V, 16 G] i8;  scales [V, G] f16;  both as tsr_matmul_i4 has a column;  ids: as above
 * Returns y [.., 32 G]: a table of another width is cut by tsr_slice. Class: elementwise. */
TSR_API tsr_ref tsr_embedding_i4(tsr_program *p, tsr_ref table, tsr_ref scales, tsr_ref ids, float alpha);

/* y = x, contiguous, as `dtype`. Any type to itself; f32, f16 and bf16 to each other: widening exact, narrowing to
 * nearest, ties to even, subnormals kept, overflow to infinity. Class: exact. */
TSR_API tsr_ref tsr_copy(tsr_program *p, tsr_ref x, tsr_dtype dtype);

/* state[b, position[b] + l, ..] = x[b, l, ..]
 *   state [B, C, ..] rank 2 to 4, f32|f16|bf16|i32, a state or a view of one
 *   x [B, L, ..], the state's type, or f32 where that is f16|bf16: narrowed as copy does, beyond 65504 to an infinity
 *   of f16
 *   position [B] or [1] i32, or TSR_NONE: 0
 * Rows that fall outside 0 .. C-1 are dropped. Returns state, as it is after the line. Class: exact. */
TSR_API tsr_ref tsr_append(tsr_program *p, tsr_ref state, tsr_ref x, tsr_ref position);

/* state[..] = x[..]; x broadcasts to the state's extents; types: as append's. Returns state, as it is after the line.
 * Class: exact. */
TSR_API tsr_ref tsr_update(tsr_program *p, tsr_ref state, tsr_ref x);

/* y[.., m, ..] = x[.., index[m], ..] along one axis (negative: from the last).
 *   x f32|f16|bf16|i32, rank 1 to 4;  index [M] i32
 * Returns y, x's type. An index outside the axis gives zeros. Class: exact. */
TSR_API tsr_ref tsr_gather(tsr_program *p, tsr_ref x, tsr_ref index, int32_t axis);

/* The k largest along the last axis, largest first; among equals the lowest index first; -0 equals +0; NaN counts as
 * larger than +inf.
 *   x [.., N] f32, rank 1 to 4;  1 <= k <= N and k <= 1024
 * Returns values [.., k]; *indices receives [.., k] i32 (NULL: not wanted, still computed). Class: exact. */
TSR_API tsr_ref tsr_topk(tsr_program *p, tsr_ref x, int32_t k, tsr_ref *indices);

/* y = sum of x over the axes whose bit is set in `axes` (bit i: axis i), which become extent 1.
 *   x f32, rank 1 to 4
 * Returns y, x's rank. Class: product (of x with ones). */
TSR_API tsr_ref tsr_reduce_sum(tsr_program *p, tsr_ref x, int32_t axes);

/* y = the operands one after another along one axis (negative: from the last).
 *   x[i] f32, or all i32; 1 to TSR_MAX_INPUTS of them, of one rank (1 to 4), extents equal along the other axes
 * Returns y, their type. Class: exact. */
TSR_API tsr_ref tsr_concat(tsr_program *p, const tsr_ref *x, int32_t n, int32_t axis);

/* y[.., i, ..] = alpha * sum of x[.., m, ..] over all m with index[m] = i, along one axis (negative: from the last).
 *   x f32, rank 1 to 4;  index [M] i32, M the axis' extent in x;  extent: the axis' extent in y
 * Returns y. An index outside the axis is left out. The gradient of gather and of embedding. Class: product. */
TSR_API tsr_ref tsr_scatter_add(tsr_program *p, tsr_ref x, tsr_ref index, int32_t axis, int64_t extent, float alpha);

/* y = sum of all x^2, + plus if that is given.
 *   x f32, rank 0 to 4;  plus [1] f32 or TSR_NONE
 * Returns y [1]. Class: product. */
TSR_API tsr_ref tsr_sum_of_squares(tsr_program *p, tsr_ref x, tsr_ref plus);

/* ------------------------------------------------------------------------------------------------------------------
 * Training
 */

/* y[e] = keep(e) ? scale * x[e] : 0 (Srivastava et al. 2014), the same elements on every device.
 *   x f32, rank 0 to 4;  seed [2] i32;  0 <= rate < 1;  stream: any number, another one for each line that shall drop
 *   other elements
 * With threshold = the integer nearest to 65536 * rate (ties to even; at most 65535), scale = 65536 / (65536 -
 * threshold) as f32, and e the element's index in row-major order, 64 bits:
 *   keep(e) = half(e) >= threshold
 *   half(e) = the (e % 8)-th 16 bits, low ones first, of the four words that Philox 4x32-10 (Salmon et al. 2011) makes
 *             of counter (e / 8 low word, e / 8 high word, stream, 0) and key (seed[0], seed[1])
 * Returns y, x's extents. The gradient of a dropout is the dropout, of the same seed and stream, of y's. Class:
 * elementwise. */
TSR_API tsr_ref tsr_dropout(tsr_program *p, tsr_ref x, tsr_ref seed, float rate, int32_t stream);

/* loss[t] = -sum_v target[t, v] log_softmax(logits[t])[v],
 * target[t, v] = (1 - smoothing) [v = labels[t]] + smoothing / V (Szegedy et al. 2015, arXiv:1512.00567)
 *   logits [T, V] f32;  labels [T] i32, one outside 0 .. V-1 is ignored: its loss is 0;  0 <= smoothing < 1
 *   lse: if not NULL, receives ln sum_v exp(logits[t, v]), [T], also where the label is ignored
 * Returns loss [T]. A row that holds +inf or NaN gives NaN: lse always, loss unless its label is ignored. In one with
 * -inf the loss is +inf if smoothing is above 0 or the label is there; lse leaves such elements out, and is -inf where
 * all are so. Class: elementwise, scaled by max |logits[t]| too. */
TSR_API tsr_ref tsr_cross_entropy(tsr_program *p, tsr_ref logits, tsr_ref labels, float smoothing, tsr_ref *lse);

/* Adam (Kingma, Ba 2014, arXiv:1412.6980) and AdamW (Loshchilov, Hutter 2017, arXiv:1711.05101), in place: the states
 * are read and written. For each element, with c = control:
 *   g = gradient * c[3] * clip
 *   clip = min(1, max_norm / (sqrt(norm) * |c[3]| + 1e-6)) if norm is given and max_norm > 0, else 1
 *   decoupled = 0: g = g + decay * p
 *   decoupled = 1: p = p - c[0] * decay * p
 *   m = m + (1 - beta1) (g - m)
 *   v = beta2 v + (1 - beta2) g^2
 *   p = p - c[0] * c[1] * m / (sqrt(v * c[2]) + epsilon)
 *   average = average + c[4] (p - average), if given, after the rest
 *   parameter, m, v, average: states of gradient's extents, f32, contiguous
 *   gradient f32;  norm [1] f32 or TSR_NONE: the sum of squares of all gradients, before the factor c[3]
 *   control [5] f32: the learning rate, 1 / (1 - beta1^t), 1 / (1 - beta2^t), a factor of the gradient, 1 - the decay
 *     of the average
 * If norm is given and not finite, nothing is changed. Arithmetic in f32; the roundings may come in any order that the
 * formula allows. Returns the parameter, as it is after the line. Class: elementwise. */
typedef struct tsr_adam_args {
  tsr_ref parameter, m, v; /* states; required */
  tsr_ref average;         /* a state, or TSR_NONE */
  tsr_ref gradient;        /* required */
  tsr_ref control;         /* required */
  tsr_ref norm;            /* or TSR_NONE */
  float beta1, beta2;      /* 0 <= beta < 1 */
  float epsilon;           /* above 0 */
  float decay;             /* 0: none */
  int32_t decoupled;       /* 0 or 1 */
  float max_norm;          /* 0: none; with norm */
} tsr_adam_args;
TSR_API tsr_ref tsr_adam(tsr_program *p, const tsr_adam_args *args);

/* Gradient operators: what the rules of tsr_gradients (autodiff.h) append. A name dx stands for the gradient of the
 * loss with respect to x. */

/* dlogits[t, v] = dloss[t] (exp(logits[t, v] - lse[t]) - target[t, v]); zeros where the label is ignored, whatever the
 * row holds.
 *   logits, labels, smoothing: as tsr_cross_entropy;  lse, dloss [T] f32
 * Returns dlogits [T, V]. Class: elementwise, scaled by |dloss| (1 + |logits| + |lse|) too. */
TSR_API tsr_ref tsr_cross_entropy_gradient(tsr_program *p, tsr_ref logits, tsr_ref labels, tsr_ref lse, tsr_ref dloss,
                                           float smoothing);

/* dx = y (dy - sum_n y dy) along the last axis; y, dy [.., N] f32, rank 1 to 4. An element with y = 0 gives 0, whatever
 * dy is; the sum takes it as it comes (0 NaN is NaN). Class: product. */
TSR_API tsr_ref tsr_softmax_gradient(tsr_program *p, tsr_ref y, tsr_ref dy);

/* dx = dy - exp(y) sum_n dy along the last axis; y, dy [.., N] f32, rank 1 to 4. Class: product. */
TSR_API tsr_ref tsr_log_softmax_gradient(tsr_program *p, tsr_ref y, tsr_ref dy);

/* With n = (x - mean) / sqrt(variance + epsilon), r = 1 / sqrt(variance + epsilon), h = dy * gain, means along the last
 * axis:
 *   dx = r (h - mean(h) - n mean(h n)),  dgain = sum over all rows of dy n,  dbias = sum over all rows of dy
 *   x, dy [.., N] f32, rank 1 to 4;  gain [N] f32;  epsilon > 0
 *   dgain, dbias [N]: NULL: not wanted (dgain is computed nevertheless)
 * Returns dx. Class: norm. */
TSR_API tsr_ref tsr_layernorm_gradient(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref dy, float epsilon,
                                       tsr_ref *dgain, tsr_ref *dbias);

/* The same operator for tsr_layernorm_std. With s as there, r = 1 / (s + epsilon), n = (x - mean) r, h = dy * gain:
 *   dx = r (h - mean(h) - n sum(h n) / (N - 1) (s + epsilon) / s), the last part 0 where s is;  dgain, dbias: as
 *   above */
TSR_API tsr_ref tsr_layernorm_std_gradient(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref dy, float epsilon,
                                           tsr_ref *dgain, tsr_ref *dbias);

/* With r = 1 / sqrt(mean(x^2) + epsilon), h = dy * gain:
 *   dx = r (h - x r^2 mean(h x)),  dgain = sum over all rows of dy x r
 * Operands, results: as above. Class: norm. */
TSR_API tsr_ref tsr_rmsnorm_gradient(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref dy, float epsilon,
                                     tsr_ref *dgain);

/* dx = dy * activation'(x); activation TSR_ACTIVATION_*, not NONE. The slope of relu at 0 is 0. Where the slope is 0
 * (relu below 0; the others at -inf) dx is 0, whatever dy is; at +inf the slope is 1. x, dy f32 of equal extents, rank
 * 0 to 4.
 * Class: elementwise, scaled by |dy| (1 + |x|) too. */
TSR_API tsr_ref tsr_activation_gradient(tsr_program *p, tsr_ref x, tsr_ref dy, int32_t activation);

/* dx = dy where y is not -inf, else 0: y being what mask gave. y, dy f32 of equal extents, rank 4. Class: exact. */
TSR_API tsr_ref tsr_mask_gradient(tsr_program *p, tsr_ref y, tsr_ref dy);

/* drelative[n, h] = sum of dscores[b, h, l, s] over all b, l, s with row(s - l - position[b]) = n (tsr_masking).
 *   dscores [B, H, L, S] f32;  masking: position, bidirectional, max_distance and clamped count
 *   buckets: rows of the table
 * Returns drelative [buckets, H]. Class: product. */
TSR_API tsr_ref tsr_relative_gradient(tsr_program *p, tsr_ref dscores, const tsr_masking *masking, int64_t buckets);

/* The gradients of attention's q, k and v; of the masked scores, if wanted. With w and keep as tsr_attention and
 * tsr_dropout have them, w taken from lse, f = keep scale (1 without a seed), . a sum over the head's elements, and c
 * the slope of the cap, 1 - tanh^2(alpha q[b, l, h] . k[b, s, h] / softcap), or 1 where softcap is 0:
 *   delta[b, h, l] = dy[b, l, h] . y[b, l, h]
 *   dscores[b, h, l, s] = w (f dy[b, l, h] . v[b, s, h] - delta)
 *   dq[b, l, h] = alpha sum_s c dscores k[b, s, h]
 *   dk[b, s, h] = alpha sum_l c dscores q[b, l, h]
 *   dv[b, s, h] = sum_l f w dy[b, l, h]
 *   args: as tsr_attention's, k and v f32 and of as many heads as q, rows absent;  args->lse NULL, args->weights NULL
 *   args->reduced_precision: as tsr_attention's, of the factors of all products but delta's: q, or alpha q, k, v, dy,
 *        f w and c dscores. Scores, w, delta and dscores as a result stay f32.
 *   y, dy [B, L, H, J] f32;  lse [B, H, L] f32: what the attention gave
 *   dk, dv: required;  dscores: NULL or receives [B, H, L, S]
 * Keys that are excluded get dk = 0, dv = 0 and dscores = 0; what they hold is not seen. Returns dq. Class: product. */
TSR_API tsr_ref tsr_attention_gradient(tsr_program *p, const tsr_attention_args *args, tsr_ref y, tsr_ref dy,
                                       tsr_ref lse, tsr_ref *dk, tsr_ref *dv, tsr_ref *dscores);

/* ------------------------------------------------------------------------------------------------------------------
 * The table
 */

enum { TSR_CLASS_EXACT = 1, TSR_CLASS_ELEMENTWISE = 2, TSR_CLASS_PRODUCT = 3, TSR_CLASS_NORM = 4 };

/* One operand or result of an operator, for validation, coverage and printed documentation. */
typedef struct tsr_slot_info {
  const char *name; /* "bias"; NULL ends the list */
  uint32_t dtypes;  /* bit 1u << TSR_F32 .. of each type it takes */
  int32_t optional; /* 1: may be absent */
  uint32_t since;   /* the minor of the ABI that named the slot; 0: it was always there */
} tsr_slot_info;

typedef struct tsr_op_info {
  int32_t tolerance;                    /* TSR_CLASS_* */
  const char *name;                     /* "matmul" */
  const char *formula;                  /* one line */
  tsr_slot_info in[TSR_MAX_INPUTS + 1]; /* in the order of tsr_line_desc.in */
  tsr_slot_info out[TSR_MAX_OUTPUTS + 1];
} tsr_op_info;

/* The row of an operator; NULL for a number that is none. Iterate over 1 .. TSR_OP_COUNT - 1. Static. Any thread. */
TSR_API const tsr_op_info *tsr_op_describe(int32_t op);

/* 1 if the operator has a gradient rule. */
TSR_API int tsr_op_differentiable(int32_t op);

/* The operator of that name, or 0. */
TSR_API int32_t tsr_op_find(const char *name);

/* Floating-point operations, and bytes read and written (each operand once), of one line at full capacity. */
TSR_API double tsr_line_flops(const tsr_program_desc *program, int32_t line);
TSR_API double tsr_line_bytes(const tsr_program_desc *program, int32_t line);

/* The minor version of the ABI (tessera/backend.h) that brought the last of what a line uses: slots, types, attributes.
 * A backend of an older one is not asked whether it supports the line. */
TSR_API uint32_t tsr_line_since(const tsr_program_desc *program, int32_t line);

#ifdef __cplusplus
}
#endif
#endif
