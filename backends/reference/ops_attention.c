/* SPDX-License-Identifier: Apache-2.0
 *
 * y[b, l, h] = sum_s f w[b, h, l, s] v[b, s, g],  w = softmax_s(mask(cap(alpha * q[b, l, h] . k[b, s, g]))), f the
 * dropout's factor or 1, g the head of k and v that head h sees; one query at a time.
 */
#include "kernel.h"

int64_t ref_attention_scratch(const ref_line *line)
{
  return 2 * line->in[1].extent[1] + line->in[2].extent[3];
}

/* The first index into k and v for key s of sentence b; -1 if there is no such row. */
static int64_t row_of(const ref_tensor *rows, const ref_tensor *k, int64_t b, int64_t s)
{
  if (!ref_present(rows)) {
    return b;
  }
  const int64_t row = ref_i32(rows, b * rows->stride[0] + s * rows->stride[1]);
  return row < k->extent[0] ? row : -1;
}

double ref_capped(double softcap, double score)
{
  return softcap > 0 ? softcap * tanh(score / softcap) : score;
}

double ref_dot(const ref_tensor *q, const int64_t q_index[], const ref_tensor *k, const int64_t k_index[])
{
  const int64_t q_at = ref_element(q, q_index), k_at = ref_element(k, k_index);
  double sum = 0;
  for (int64_t i = 0; i < q->extent[3]; i++) {
    sum += (double)ref_f32(q, q_at + i * q->stride[3]) * ref_widened(k, k_at + i * k->stride[3]);
  }
  return sum;
}

void ref_attention(const ref_line *line)
{
  const ref_tensor *q = &line->in[0], *k = &line->in[1], *v = &line->in[2], *rows = &line->in[7];
  const ref_tensor *y = &line->out[0], *weights = &line->out[1], *lse = &line->out[2];
  const ref_masking masking = ref_masking_of(line, 3);
  const ref_drop dropout = ref_drop_of(line, 8);
  const int64_t B = q->extent[0], L = q->extent[1], H = q->extent[2], S = k->extent[1], J = v->extent[3];
  double *scores = line->scratch, *w = scores + S, *sum = w + S;

  assert(q->rank == 4 && k->rank == 4 && v->rank == 4 && y->rank == 4);
  assert(k->extent[2] == v->extent[2] && k->extent[3] == q->extent[3] && v->extent[1] == S);
  assert(H == 0 || (k->extent[2] > 0 && H % k->extent[2] == 0));
  assert(k->extent[0] == v->extent[0] && (ref_present(rows) || k->extent[0] == B));
  assert(y->extent[0] == B && y->extent[1] == L && y->extent[2] == H && y->extent[3] == J);

  for (int64_t b = 0; b < B; b++) {
    for (int64_t l = 0; l < L; l++) {
      for (int64_t h = 0; h < H; h++) {
        const int64_t g = h / (H / k->extent[2]);
        for (int64_t s = 0; s < S; s++) {
          const int64_t row = row_of(rows, k, b, s);
          scores[s] = -INFINITY;
          if (row >= 0 && !ref_excluded(&masking, b, h, l, s)) {
            const double score =
                line->attributes.alpha * ref_dot(q, (int64_t[]){b, l, h, 0}, k, (int64_t[]){row, s, g, 0});
            scores[s] = ref_biased(&masking, b, h, l, s, (float)ref_capped(line->attributes.softcap, score));
          }
          w[s] = scores[s];
        }
        const double log_sum = ref_softmax_row(w, S);

        memset(sum, 0, (size_t)J * sizeof(*sum));
        for (int64_t s = 0; s < S; s++) {
          if (scores[s] == -INFINITY) {
            continue; /* not even a NaN of an excluded v is seen */
          }
          const int64_t v_at = ref_element(v, (int64_t[]){row_of(rows, k, b, s), s, g, 0});
          const double f = ref_drop_factor(&dropout, ((b * H + h) * L + l) * S + s);
          for (int64_t j = 0; j < J; j++) {
            sum[j] += f * w[s] * ref_widened(v, v_at + j * v->stride[3]);
          }
        }
        for (int64_t j = 0; j < J; j++) {
          ref_set_f32(y, ref_element(y, (int64_t[]){b, l, h, j}), sum[j]);
        }
        for (int64_t s = 0; ref_present(weights) && s < S; s++) {
          ref_set_f32(weights, ref_element(weights, (int64_t[]){b, h, l, s}), w[s]);
        }
        if (ref_present(lse)) {
          ref_set_f32(lse, ref_element(lse, (int64_t[]){b, h, l, 0}), log_sum);
        }
      }
    }
  }
}
