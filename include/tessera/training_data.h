/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/training_data.h: what a model is trained on: batches of token ids, of sentence pairs in files of any size, or
 * of a toy task; batches of features of sounds, and of the ids of what is said in them.
 *
 * Pairs come in pools. The pairs of a pool are read, tokenised, filtered, shuffled, sorted by their widths and cut into
 * batches, and the batches are shuffled. While one pool is consumed, a thread prepares the next; no more than two are
 * ever held. A corpus that fits into one pool is read once, and shuffled again for each epoch. Nothing is shuffled
 * across pools: large files that are sorted by their subject should be shuffled on disk (`tessera shuffle`).
 *
 * The batches are a pure function of the files, the options and the place in the stream, whatever the threads do.
 *
 * tsr_training_run (tessera/training_run.h) makes such a stream by itself. If you write a loop of your own, give the
 * batches to tsr_trainer_step.
 */
#ifndef TESSERA_TRAINING_DATA_H
#define TESSERA_TRAINING_DATA_H

#include "tessera/corpus.h"
#include "tessera/speech.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Toy tasks: sequences of random tokens, to be copied, reversed or sorted. A Transformer that works learns them within
 * minutes. Each example follows only from the seed and its number.
 *
 * Ids are laid out as in a Marian folder: </s> 0, <unk> 1 (never used), the tokens, <pad> last.
 */
enum { TSR_TOY_TASK_COPY = 1, TSR_TOY_TASK_REVERSE = 2, TSR_TOY_TASK_SORT = 3 };

/* Each sequence belongs to one of the sets, one in eight to the second: what is held out is never trained on. */
enum { TSR_TOY_TASK_TRAINING = 0, TSR_TOY_TASK_HELD_OUT = 1 };

enum { TSR_TOY_TASK_EOS = 0, TSR_TOY_TASK_UNK = 1, TSR_TOY_TASK_FIRST_TOKEN = 2 };

typedef struct tsr_toy_task {
  int32_t kind;       /* TSR_TOY_TASK_COPY, TSR_TOY_TASK_REVERSE, TSR_TOY_TASK_SORT */
  int32_t set;        /* TSR_TOY_TASK_TRAINING, TSR_TOY_TASK_HELD_OUT */
  int32_t vocabulary; /* V: ids in all, the three special ones included */
  int32_t min_length; /* tokens of a sequence, </s> not counted; at least 1 */
  int32_t max_length;
  uint64_t seed;
} tsr_toy_task;

/* "copy", "reverse", "sort". Errors: TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_toy_task_find(const char *name, int32_t *kind) TSR_MUST_CHECK;

/* TSR_ERR_ARGUMENT if a field is out of range, or if there are too few sequences to hold some out. */
TSR_API tsr_status tsr_toy_task_check(const tsr_toy_task *task) TSR_MUST_CHECK;

static inline int32_t tsr_toy_task_pad(const tsr_toy_task *task)
{
  return task->vocabulary - 1;
}

/* Example number `index` of a task that passes the check: writes source and target, each with room for max_length + 1
 * ids, and returns how many each has, the closing </s> included. Lengths are drawn evenly, then tokens. Any thread. */
TSR_API int32_t tsr_toy_task_example(const tsr_toy_task *task, uint64_t index, int32_t *source, int32_t *target);

/* ------------------------------------------------------------------------------------------------------------------
 * Sounds: what models of speech (Whisper) are trained on
 *
 * The sources of the pairs are paths of sounds of any format that tessera/audio.h reads, relative to the folder of the
 * list. In a list of tab-separated columns a third column may name the language of a pair, and a fourth its task
 * ("transcribe", "translate"); an empty one says nothing. A sound is read once for each time that its pool is, and its
 * features, which are those of the sound alone in a whole window, are kept in memory as f16: 2 * mels bytes a frame of
 * 0.01 s. A sound longer than a window, or longer than max_source, is left out and counted.
 *
 * The decoder reads <|startoftranscript|> and a prompt of language, task and <|notimestamps|>, which is not learnt, and
 * the text behind one blank. Texts that stand between timestamps, <|0.00|> and that of the sound's end, have no
 * <|notimestamps|>; these timestamps are learnt.
 *
 * Masks (SpecAugment: Park et al. 2019, arXiv:1904.08779, without its time warping) are drawn anew for each pair in
 * each pass, from the seed. A mask of mels begins at any mel, a mask of time at any frame of the sound; widths are even
 * over 0 .. the widest. What is masked becomes the mean of the sound's features.
 */
typedef struct tsr_training_sounds {
  uint32_t struct_size;
  int32_t mels;         /* M, of the model */
  int32_t positions;    /* of a whole window, of two frames each: the model's source_positions */
  int32_t task;         /* TSR_SPEECH_*, of pairs that name none; 0: TSR_SPEECH_TRANSCRIBE */
  const char *language; /* of pairs that name none, as tsr_speech_find_language takes it; NULL: the prompt has neither
                             language nor task, as in Whisper's models of English alone */
  double whole;         /* share of the pairs, drawn anew in each pass, that fill a whole window with the silence
                             behind the sound, as all sounds do when the model is used. The window of the others ends
                             with the longest sound of the batch, rounded up to `step`, which costs less. 0 to 1 */
  double timestamps;    /* share of the pairs whose text stands between timestamps. 0 to 1 */
  int32_t time_masks;   /* of each sound; 0: none */
  int32_t time_width;   /* frames of the widest */
  double time_share;    /* of the sound's frames that one mask has at most; 0: all */
  int32_t mel_masks;    /* of each sound; 0: none */
  int32_t mel_width;    /* mels of the widest */
  const char *plugins_path; /* as in tsr_audio_options; borrowed as long as the stream */
} tsr_training_sounds;
TSR_SIZED_PIN(tsr_training_sounds, plugins_path, 64);

/* ------------------------------------------------------------------------------------------------------------------
 * The stream of batches
 */
typedef struct tsr_training_data tsr_training_data;

typedef struct tsr_training_data_options {
  uint32_t struct_size;
  int32_t shuffle;                /* 1 for training; 0: pairs as they come, batches by their widths */
  tsr_corpus_files files;         /* if there is no task */
  const tsr_tokenizer *tokenizer; /* of the files; outlives the stream */
  const tsr_toy_task *task;       /* NULL: the files. Copied */
  int64_t task_examples; /* of an epoch; 0: 100,000. What is held out is the same in each epoch, what is trained on
                            never comes twice */
  int32_t batch_tokens;  /* of the larger side of a batch, padding included: B * max(S, L) <= batch_tokens */
  int32_t max_source;    /* ids of a source, </s> included; pairs beyond are left out; at most batch_tokens rounded down
                            to a multiple of `step`; 0: 256, or less where that is less */
  int32_t max_target;    /* the same of a target */
  int32_t step;          /* widths are multiples of it; 0: 4 */
  double max_ratio;      /* of the longer side's ids to the shorter's; pairs beyond are left out; 0: any */
  uint64_t seed;         /* of the order */
  int64_t epochs;        /* passes over the data; 0: without end */
  int32_t pool;          /* pairs; 0: 131,072 */
  int32_t decoder_start_id;
  int32_t source_pad_id; /* what fills up rows of the source */
  int32_t target_pad_id; /* what fills up rows of the decoder's input */
  /* The sources are sounds, and the tokenizer is of the kind whisper. Lengths and widths of sources are then counted in
   * positions, max_source 0 is a window, and max_ratio has to be 0. NULL: text. Copied. */
  const tsr_training_sounds *sounds;
} tsr_training_data_options;
TSR_SIZED_PIN(tsr_training_data_options, sounds, 112);

/* Checks the options, opens the files and begins to read. *data is the caller's until tsr_training_data_destroy; one
 * thread at a time. Errors: TSR_ERR_ARGUMENT, TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_training_data_create(const tsr_training_data_options *options,
                                            tsr_training_data **data) TSR_MUST_CHECK;
TSR_API void tsr_training_data_destroy(
    tsr_training_data *data); /* takes NULL; waits for the thread, which stops after at most one pair */

/* B rows, of which the first `sentences` hold pairs; the others are empty: length 0, padding, labels -1. B follows from
 * S and L: batch_tokens / max(S, L), rounded down. Valid until the next call about the stream. */
typedef struct tsr_training_batch {
  int32_t rows;                  /* B */
  int32_t sentences;             /* at least 1 */
  int32_t source_width;          /* S */
  int32_t target_width;          /* L */
  const int32_t *source;         /* [B, S] ids, </s> at the end of each; NULL of sounds (tsr_training_data_features) */
  const int32_t *source_lengths; /* [B] 0 for empty rows; NULL of sounds */
  const int32_t *target;         /* [B, L] the decoder's input: decoder_start_id, then the target without its </s> */
  const int32_t *labels;         /* [B, L] the target, </s> included; -1 is to be ignored */
  int64_t source_tokens;         /* ids without padding */
  int64_t target_tokens;         /* labels that count */
  int64_t index;                 /* batches before it since the start of the stream */
  int64_t epoch;
  const int64_t *lines; /* [sentences] numbers of the pairs in their corpus, from 1 */
} tsr_training_batch;

/* The next batch; *batch is NULL after the last epoch. Blocks while the pool is not ready. An error in reading a pool
 * is reported instead of its first batch, and again by each further call. Errors: TSR_ERR_IO; TSR_ERR_FORMAT (a
 * malformed line, with file and line; no pair that passes the filter, with what was wrong with them); TSR_ERR_ARGUMENT
 * (a position of other data); TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_training_data_next(tsr_training_data *data, const tsr_training_batch **batch) TSR_MUST_CHECK;

/* Of sounds: [B, M, 2 S] features of the last batch, silence behind each sound, 0 in empty rows. NULL: text, or there
 * was no batch. Valid until the next call about the stream. */
TSR_API const float *tsr_training_data_features(const tsr_training_data *data);

/* Where a stream is: whole numbers, to be stored as they are. Zero: at its beginning. */
typedef struct tsr_training_data_position {
  int64_t epoch;
  int64_t pool;               /* of the epoch */
  tsr_corpus_position corpus; /* where the pool begins; of a task, `number` is the example's */
  int64_t batch;              /* of the pool: the next one */
  int64_t index;              /* of the stream: the next one */
} tsr_training_data_position;

/* Where the next batch comes from. */
TSR_API void tsr_training_data_tell(const tsr_training_data *data, tsr_training_data_position *position);

/* Goes on from a position of a stream with the same options over the same files: the batches are those that followed
 * there, bit for bit. Also after the end and after an error. Begins to read from there; tsr_training_data_next reports
 * errors of reading. Errors: TSR_ERR_ARGUMENT (a negative number), TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_training_data_seek(tsr_training_data *data,
                                          const tsr_training_data_position *position) TSR_MUST_CHECK;

/* How many pairs were kept or left out, in the pools of the current epoch up to the one in use, since the last seek. */
typedef struct tsr_training_data_counts {
  int64_t read;
  int64_t kept;
  int64_t empty;    /* left out: a side without text */
  int64_t too_long; /* left out: max_source, max_target, a sound longer than a window */
  int64_t uneven;   /* left out: max_ratio */
} tsr_training_data_counts;
TSR_API void tsr_training_data_get_counts(const tsr_training_data *data, tsr_training_data_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
