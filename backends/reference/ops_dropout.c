/* SPDX-License-Identifier: Apache-2.0
 *
 * y[e] = keep(e) ? scale * x[e] : 0, keep drawn by Philox 4x32-10 (Salmon et al. 2011): dropout, and what attention
 * shares with it.
 */
#include "kernel.h"

ref_drop ref_drop_of(const ref_line *line, int32_t slot)
{
  const ref_tensor *seed = &line->in[slot];
  const double threshold = fmin(nearbyint(65536.0 * line->attributes.rate), 65535.0);
  ref_drop dropout = {.scale = 1.0f, .stream = (uint32_t)line->attributes.stream};
  if (ref_present(seed)) {
    assert(seed->dtype == TSR_I32 && seed->rank == 1 && seed->extent[0] == 2);
    dropout.key[0] = (uint32_t)ref_i32(seed, 0);
    dropout.key[1] = (uint32_t)ref_i32(seed, seed->stride[0]);
    dropout.threshold = (uint32_t)threshold;
    dropout.scale = (float)(65536.0 / (65536.0 - threshold));
  }
  return dropout;
}

static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t word[4])
{
  uint32_t k[2] = {key[0], key[1]};
  memcpy(word, counter, 4 * sizeof(*word));
  for (int round = 0; round < 10; round++) {
    const uint64_t a = (uint64_t)0xD2511F53u * word[0], b = (uint64_t)0xCD9E8D57u * word[2];
    word[0] = (uint32_t)(b >> 32) ^ word[1] ^ k[0];
    word[1] = (uint32_t)b;
    word[2] = (uint32_t)(a >> 32) ^ word[3] ^ k[1];
    word[3] = (uint32_t)a;
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
}

float ref_drop_factor(const ref_drop *dropout, int64_t element)
{
  const uint64_t block = (uint64_t)element / 8;
  const uint32_t half = (uint32_t)(element % 8);
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), dropout->stream, 0};
  uint32_t word[4];
  if (dropout->threshold == 0) {
    return dropout->scale; /* all are kept */
  }
  philox(counter, dropout->key, word);
  return (word[half / 2] >> 16 * (half % 2) & 0xffffu) >= dropout->threshold ? dropout->scale : 0.0f;
}

void ref_dropout(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *y = &line->out[0];
  const ref_drop dropout = ref_drop_of(line, 1);

  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && ref_same_extents(x, y));

  for (int64_t e = 0; e < ref_count(y, y->rank); e++) {
    const float factor = ref_drop_factor(&dropout, e);
    const double xe = ref_f32(x, ref_at(x, x->rank, e));
    ref_set_f32(y, ref_at(y, y->rank, e), factor == 0.0f ? 0.0 : factor * xe); /* the product rounded once */
  }
}
