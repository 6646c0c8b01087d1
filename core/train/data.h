/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream of batches: sentence pairs of files of any size, or examples of a toy task, as token ids.
 *
 * Pairs are taken in pools: so many of them are read, tokenised, filtered, shuffled, sorted by their widths, cut into
 * batches, and the batches shuffled. While one pool is consumed a thread prepares the next; no more than two are ever
 * held. A corpus that fits into one pool is read once, and shuffled anew for each epoch. Beyond a pool nothing is
 * shuffled: large files that are sorted by their subject should be shuffled on disk.
 *
 * The batches are a pure function of the files, the options and the place in the stream, whatever the threads do.
 */
#ifndef TESSERA_CORE_TRAIN_DATA_H
#define TESSERA_CORE_TRAIN_DATA_H

#include "core/text/corpus.h"
#include "core/train/tasks.h"
#include "tessera/text.h"

typedef struct tsr_data tsr_data;

typedef struct tsr_data_options {
  tsr_corpus_files files;         /* where no task is given */
  const tsr_tokenizer *tokenizer; /* of the files; outlives the stream */
  const tsr_task *task;           /* NULL: the files. Copied */
  int64_t task_examples; /* of an epoch; 0: 100,000. What is held out is the same in each epoch, what is trained
                                     on never comes twice */
  int32_t batch_tokens;  /* of the larger side of a batch, padding included: B * max(S, L) <= batch_tokens */
  int32_t max_source;    /* ids of a source, </s> included; pairs beyond are left out; at most batch_tokens
                                     rounded down to a multiple of `step`; 0: 256, or less where that is less */
  int32_t max_target;    /* the same of a target */
  double max_ratio;      /* of the longer side's ids to the shorter's; pairs beyond are left out; 0: any */
  int32_t step;          /* widths are multiples of it; 0: 4 */
  int32_t pool;          /* pairs; 0: 131,072 */
  uint64_t seed;         /* of the order */
  int32_t shuffle;       /* 1 for training; 0: pairs as they come, batches by their widths */
  int64_t epochs;        /* passes over the data; 0: without end */
  int32_t decoder_start_id;
  int32_t source_pad_id; /* what fills up rows of the source */
  int32_t target_pad_id; /* what fills up rows of the decoder's input */
} tsr_data_options;

/* Checks the options, opens the files and begins to read. *data is the caller's until tsr_data_destroy; one thread at a
 * time. Errors: TSR_ERR_ARGUMENT, TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_data_create(const tsr_data_options *options, tsr_data **data) TSR_MUST_CHECK;
void tsr_data_destroy(tsr_data *data); /* takes NULL; waits for the thread, which stops after at most one pair */

/* B rows, of which the first `sentences` hold pairs; the others are empty: length 0, padding, labels -1. B follows from
 * S
 * and L: batch_tokens / max(S, L), rounded down. Valid until the next call about the stream. */
typedef struct tsr_batch {
  int32_t rows;                  /* B */
  int32_t sentences;             /* at least 1 */
  int32_t source_width;          /* S */
  int32_t target_width;          /* L */
  const int32_t *source;         /* [B, S] ids, </s> at the end of each */
  const int32_t *source_lengths; /* [B] 0 for empty rows */
  const int32_t *target;         /* [B, L] the decoder's input: decoder_start_id, then the target without its </s> */
  const int32_t *labels;         /* [B, L] the target, </s> included; -1 is to be ignored */
  int64_t source_tokens;         /* ids without padding */
  int64_t target_tokens;         /* labels that count */
  int64_t index;                 /* batches before it since the start of the stream */
  int64_t epoch;
  const int64_t *lines; /* [sentences] numbers of the pairs in their corpus, from 1 */
} tsr_batch;

/* The next batch; *batch is NULL after the last epoch. Blocks while the pool is not ready. What goes wrong while a pool
 * is read is reported in the place of its first batch, and again by each further call. Errors: TSR_ERR_IO;
 * TSR_ERR_FORMAT (a malformed line, with file and line; no pair that passes the filter, with what was wrong with them);
 * TSR_ERR_ARGUMENT (a position of other data); TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_data_next(tsr_data *data, const tsr_batch **batch) TSR_MUST_CHECK;

/* Where a stream is: whole numbers, to be stored as they are. Zero: at its beginning. */
typedef struct tsr_data_position {
  int64_t epoch;
  int64_t pool;               /* of the epoch */
  tsr_corpus_position corpus; /* where the pool begins; of a task, `number` is the example's */
  int64_t batch;              /* of the pool: the next one */
  int64_t index;              /* of the stream: the next one */
} tsr_data_position;

/* Where the next batch comes from. */
void tsr_data_tell(const tsr_data *data, tsr_data_position *position);

/* Goes on from a position that a stream with the same options over the same files told: the batches are those that
 * followed there, bit for bit. Also after the end and after an error. Begins to read from there; what goes wrong then
 * is
 * told by tsr_data_next. Errors: TSR_ERR_ARGUMENT (a negative number), TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_data_seek(tsr_data *data, const tsr_data_position *position) TSR_MUST_CHECK;

/* What became of the pairs, in the pools of the current epoch up to the one in use, since the last seek. */
typedef struct tsr_data_counts {
  int64_t read;
  int64_t kept;
  int64_t empty;    /* left out: a side without text */
  int64_t too_long; /* left out: max_source, max_target */
  int64_t uneven;   /* left out: max_ratio */
} tsr_data_counts;
void tsr_data_get_counts(const tsr_data *data, tsr_data_counts *counts);

#endif
