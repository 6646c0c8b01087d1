/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be seen of keys, and the biases on scores: what the mask operator and attention share. Of one query row:
 *   - keys from cpu_visible_keys on are excluded by lengths or by causality
 *   - cpu_additive_row and cpu_relative_row give the biases of a run of keys side by side
 *   - cpu_biased puts them on the scores
 */
#ifndef CPU_MASKING_H
#define CPU_MASKING_H

#include "rows.h"

#define cpu_bucket_starts   CPU_WITH_VECTORS(cpu_bucket_starts)
#define cpu_prepare_masking CPU_WITH_VECTORS(cpu_prepare_masking)
#define cpu_relative_row    CPU_WITH_VECTORS(cpu_relative_row)

/* Buckets on one side of the query, of a table with that many rows. Of a clamped one each distance up to the largest
 * is a bucket, and that of the query itself counts on both sides. */
static inline int64_t cpu_buckets_of(int64_t rows, const tsr_op_attributes *attributes)
{
  return attributes->clamped ? (rows + 1) / 2 : attributes->bidirectional ? rows / 2 : rows;
}

/* For prepare: the distance at which each of the buckets on one side of a table begins; NULL without memory. */
const int32_t *cpu_bucket_starts(cpu_preparation *preparation, int64_t rows, const tsr_op_attributes *attributes);

/* A walk over keys side by side, from bucket to bucket. */
typedef struct cpu_bucket_walk {
  const int32_t *starts; /* what cpu_bucket_starts gave */
  int64_t buckets;       /* on one side */
  int32_t bidirectional, clamped;
  int64_t distance; /* of the next key from the query */
  int64_t bucket;   /* of the last key, on its side */
} cpu_bucket_walk;

/* From a key at `distance` on, over a table of that many rows. */
static inline cpu_bucket_walk cpu_bucket_walk_from(const int32_t *starts, int64_t rows,
                                                   const tsr_op_attributes *attributes, int64_t distance)
{
  const int64_t buckets = cpu_buckets_of(rows, attributes), away = distance < 0 ? -distance : distance;
  const int64_t first = attributes->clamped && away < buckets ? away : distance <= 0 ? buckets - 1 : 0;
  return (cpu_bucket_walk){starts, buckets, attributes->bidirectional, attributes->clamped, distance, first};
}

/* How many keys from the next one on, n at most, share a row of the table; walks over them. */
static inline int64_t cpu_next_bucket(cpu_bucket_walk *walk, int64_t n, int64_t *row)
{
  const int32_t *starts = walk->starts;
  int64_t j = walk->bucket, run = n;
  if (walk->distance <= 0) { /* up to the query itself the distance falls from key to key */
    while (starts[j] > -walk->distance) {
      j--;
    }
    run = -walk->distance - starts[j] + 1;
    *row = walk->clamped ? walk->buckets - 1 - j : j;
  } else if (walk->bidirectional || walk->clamped) { /* beyond it, it rises */
    while (j + 1 < walk->buckets && starts[j + 1] <= walk->distance) {
      j++;
    }
    run = j + 1 < walk->buckets ? starts[j + 1] - walk->distance : n;
    *row = walk->clamped ? walk->buckets - 1 + j : walk->buckets + j;
  } else { /* or counts as 0 */
    *row = 0;
  }
  run = run < n ? run : n;
  walk->bucket = j;
  walk->distance += run;
  return run;
}

typedef struct cpu_masking {
  const cpu_tensor *additive, *lengths, *position, *relative; /* NULL: absent */
  const int32_t *starts;                                      /* what cpu_prepare_masking gave */
  const tsr_op_attributes *attributes;
} cpu_masking;

/* For prepare: where the buckets of relative positions begin, of the line whose operands additive, lengths,
 * position, relative are in[first] and the next. *starts is NULL if the line has no relative biases. Returns TSR_OK
 * or TSR_ERR_OUT_OF_MEMORY. */
int32_t cpu_prepare_masking(const cpu_line *line, int32_t first, cpu_preparation *preparation, const int32_t **starts);

/* relative[row(s - l - position[b]), h] of the n keys from s = first on, into row. Only with relative. */
void cpu_relative_row(const cpu_masking *masking, int64_t b, int64_t h, int64_t l, int64_t first, int64_t n,
                      float *row);

static inline const cpu_tensor *cpu_operand(const cpu_line *line, int32_t index)
{
  return cpu_present(&line->in[index]) ? &line->in[index] : NULL;
}

static inline cpu_masking cpu_masking_of(const cpu_line *line, int32_t first, const int32_t *starts)
{
  return (cpu_masking){
      .additive = cpu_operand(line, first),
      .lengths = cpu_operand(line, first + 1),
      .position = cpu_operand(line, first + 2),
      .relative = cpu_operand(line, first + 3),
      .starts = starts,
      .attributes = &line->attributes,
  };
}

static inline int64_t cpu_position_of(const cpu_masking *masking, int64_t b)
{
  const cpu_tensor *position = masking->position;
  return position ? ((const int32_t *)position->data)[b * position->stride[0]] : 0;
}

/* How many of S keys query l of sentence b may see, as far as lengths and causality go: 0 to S, the first ones. */
static inline int64_t cpu_visible_keys(const cpu_masking *masking, int64_t b, int64_t l, int64_t S)
{
  int64_t end = S;
  if (masking->lengths) {
    const int64_t length = ((const int32_t *)masking->lengths->data)[b * masking->lengths->stride[0]];
    end = length < end ? length : end;
  }
  if (masking->attributes->causal) {
    const int64_t causal = l + cpu_position_of(masking, b) + 1;
    end = causal < end ? causal : end;
  }
  return end > 0 ? end : 0;
}

/* additive[b, h, l, s] of the n keys from s = first on: where they lie side by side, or copied into room. Only with
 * additive. */
static inline const float *cpu_additive_row(const cpu_masking *masking, int64_t b, int64_t h, int64_t l, int64_t first,
                                            int64_t n, float *room)
{
  const cpu_tensor *t = masking->additive;
  const int64_t at = b * t->stride[0] + h * t->stride[1] + l * t->stride[2] + first * t->stride[3];
  return cpu_side_by_side((const float *)t->data + at, t->stride[3], n, room);
}

/* (score + additive) + relative; -inf in any of the three excludes the key, whatever the others are. A bias that is
 * absent is 0. */
static inline cpu_f32v cpu_biased(cpu_f32v score, cpu_f32v additive, cpu_f32v relative)
{
  const cpu_f32v excluded = cpu_splat(-INFINITY);
  return cpu_select((score == excluded) | (additive == excluded) | (relative == excluded), excluded,
                    score + additive + relative);
}

#endif
