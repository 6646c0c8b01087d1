/* SPDX-License-Identifier: Apache-2.0
 *
 * dropout, and the numbers that attention takes, too: Philox 4x32-10 (Salmon et al. 2011), a block in each 64-bit lane.
 * A lane holds a word in its lower half; what is in the upper half never matters, so that a product's lower word is the
 * product as it is.
 */
#include "dropout.h"
#include "rows.h"

enum { BLOCKS = CPU_LANES / 2 }; /* in a vector */

cpu_dropout cpu_dropout_of(const cpu_tensor *seed, const tsr_op_attributes *attributes)
{
  const int32_t *words = seed->data;
  const double threshold = rint(65536.0 * (double)attributes->rate);
  uint32_t key0 = (uint32_t)words[0], key1 = (uint32_t)words[seed->stride[0]];
  cpu_dropout dropout = {.stream = attributes->stream};
  assert(seed->dtype == TSR_I32 && seed->rank == 1 && seed->extent[0] == 2);
  for (int round = 0; round < CPU_DROPOUT_ROUNDS; round++) {
    dropout.key[round][0] = (int32_t)key0;
    dropout.key[round][1] = (int32_t)key1;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  dropout.threshold = threshold < 65535.0 ? (int32_t)threshold : 65535;
  dropout.scale = 65536.0f / (float)(65536 - dropout.threshold);
  return dropout;
}

/* The order of the blocks in the lanes: even lanes, then odd ones, so that the pairs that cpu_even_lanes and
 * cpu_odd_lanes make follow one another. */
static inline cpu_u64v block_order(void)
{
#if CPU_LANES == 16
  return (cpu_u64v){0, 4, 1, 5, 2, 6, 3, 7};
#elif CPU_LANES == 8
  return (cpu_u64v){0, 2, 1, 3};
#else
  return (cpu_u64v){0, 1};
#endif
}

/* BLOCKS blocks from block `first` on, `groups` times: so many vectors of words are under way at once. */
static inline void make_blocks(const cpu_dropout *dropout, uint64_t first, int groups, uint16_t *halves)
{
  enum { MOST = 2 };
  const cpu_u64v m0 = cpu_splat_u64(0xD2511F53u), m1 = cpu_splat_u64(0xCD9E8D57u), low = cpu_splat_u64(0xffffffffu);
  cpu_u64v c0[MOST], c1[MOST], c2[MOST], c3[MOST];
  CPU_UNROLL
  for (int g = 0; g < groups; g++) {
    c0[g] = cpu_splat_u64(first + (uint64_t)g * BLOCKS) + block_order();
    c1[g] = c0[g] >> 32;
    c2[g] = (cpu_u64v)cpu_splat_i32(dropout->stream);
    c3[g] = cpu_splat_u64(0);
  }
  for (int round = 0; round < CPU_DROPOUT_ROUNDS; round++) {
    const cpu_u64v k0 = (cpu_u64v)cpu_splat_i32(dropout->key[round][0]);
    const cpu_u64v k1 = (cpu_u64v)cpu_splat_i32(dropout->key[round][1]);
    CPU_UNROLL
    for (int g = 0; g < groups; g++) {
      const cpu_u64v product0 = cpu_multiply_u32(c0[g], m0), product1 = cpu_multiply_u32(c2[g], m1);
      c0[g] = (product1 >> 32) ^ c1[g] ^ k0;
      c1[g] = product1;
      c2[g] = (product0 >> 32) ^ c3[g] ^ k1;
      c3[g] = product0;
    }
  }
  CPU_UNROLL
  for (int g = 0; g < groups; g++) {
    const cpu_u64v front = (c0[g] & low) | c1[g] << 32, back = (c2[g] & low) | c3[g] << 32;
    const cpu_u64v even = cpu_even_lanes(front, back), odd = cpu_odd_lanes(front, back);
    memcpy(halves + g * 4 * CPU_LANES, &even, sizeof even);
    memcpy(halves + g * 4 * CPU_LANES + 2 * CPU_LANES, &odd, sizeof odd);
  }
}

void cpu_dropout_halves(const cpu_dropout *dropout, uint64_t first, int64_t n_blocks, uint16_t *halves)
{
  int64_t block = 0;
  for (; block + BLOCKS < n_blocks; block += 2 * BLOCKS) {
    make_blocks(dropout, first + (uint64_t)block, 2, halves + block * CPU_DROPOUT_BLOCK);
  }
  if (block < n_blocks) {
    make_blocks(dropout, first + (uint64_t)block, 1, halves + block * CPU_DROPOUT_BLOCK);
  }
}

/* Parts of a row whose numbers are made at once. */
enum { PART = 512, PART_BLOCKS = PART / CPU_DROPOUT_BLOCK };

/* x NULL: the factors, not the products. */
static inline void drop_out(const cpu_dropout *dropout, uint64_t first, const float *x, int64_t n, float *y)
{
  uint16_t room[CPU_DROPOUT_ROOM(PART_BLOCKS) + CPU_LANES]; /* the last vector may reach beyond what is asked for */
  const cpu_f32v scale = cpu_splat(dropout->scale), zero = cpu_splat(0.0f);
  for (int64_t i = 0; i < n;) {
    const int64_t skip = (int64_t)((first + (uint64_t)i) % CPU_DROPOUT_BLOCK);
    const int64_t part = n - i < PART - skip ? n - i : PART - skip, end = i + part;
    const uint16_t *halves = room + skip;
    cpu_dropout_halves(dropout, (first + (uint64_t)i) / CPU_DROPOUT_BLOCK,
                       (skip + part + CPU_DROPOUT_BLOCK - 1) / CPU_DROPOUT_BLOCK, room);
    for (; i + CPU_LANES <= end; i += CPU_LANES, halves += CPU_LANES) {
      const cpu_f32v value = x ? cpu_load(x + i) * scale : scale;
      cpu_store(y + i, cpu_select(cpu_kept(dropout, halves), value, zero));
    }
    if (i < end) {
      const cpu_f32v value = x ? cpu_load_part(x + i, end - i, 0.0f) * scale : scale;
      cpu_store_part(y + i, cpu_select(cpu_kept(dropout, halves), value, zero), end - i);
      i = end;
    }
  }
}

void cpu_dropout_factors(const cpu_dropout *dropout, uint64_t first, int64_t n, float *factors)
{
  drop_out(dropout, first, NULL, n, factors);
}

void cpu_dropout_row(const cpu_dropout *dropout, uint64_t first, const float *x, int64_t n, float *y)
{
  drop_out(dropout, first, x, n, y);
}

/* ---- the operator
 * -------------------------------------------------------------------------------------------------- */

typedef struct dropout_work {
  cpu_dropout dropout;
  const float *x;
  float *y;
  int64_t x_stride;
} dropout_work;

/* y is contiguous: where an element lies is its index. */
static void dropout_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  const dropout_work *work = context;
  float *y = work->y + at[1];
  cpu_dropout_row(&work->dropout, (uint64_t)at[1], cpu_side_by_side(work->x + at[0], work->x_stride, n, y), n, y);
}

void cpu_run_dropout(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *y = &line->out[0];
  const cpu_walk walk = cpu_walk_of((const cpu_tensor *const[]){x, y}, 2);
  const dropout_work work = {.dropout = cpu_dropout_of(&line->in[1], &line->attributes),
                             .x = x->data,
                             .y = y->data,
                             .x_stride = walk.stride[0][0]};
  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && walk.stride[1][0] == 1);
  cpu_walk_all(&walk, team, 30.0 / CPU_LANES, dropout_run, &work);
}
