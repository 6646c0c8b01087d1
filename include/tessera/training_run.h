/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/training_run.h: a training from its beginning, or from where it was stopped, to its end: batches, learning
 * rates, validation, checkpoints, logs, and the folder of the model that comes out.
 *
 * OUT/ becomes the model's folder. OUT/train/ holds last.safetensors, best.safetensors and step-N.safetensors,
 * log.csv, log.jsonl and, with statistics, layers.csv.
 *
 * The results of a run follow from the options and the files. On one device, a run that was stopped at any moment, even
 * by SIGKILL, and resumed gives the same numbers as one that was not stopped. The exception is what depends on the
 * clock: the end after `minutes`, and learning rates that fall over minutes.
 *
 * Several ranks (tessera/comm.h) share the batches of each update: of batches 0 .. accumulate - 1, rank r of n computes
 * those with i % n == r. Their gradients are added in the order of the batches. So losses, parameters and checkpoints
 * follow from `accumulate` and not from the number of ranks: bit for bit, if all devices are of one kind. Every rank
 * reads the same files. Rank 0 alone validates, writes to the folder, reads a checkpoint (the others receive it), and
 * calls `step`, `validation` and `opened`; a stop that any rank asks for stops all after the same step.
 */
#ifndef TESSERA_TRAINING_RUN_H
#define TESSERA_TRAINING_RUN_H

#include "tessera/comm.h"
#include "tessera/train.h"
#include "tessera/training_data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Learning rates. All of them rise linearly from 0 to a peak, during the warm-up; then
 *
 *   constant   stay
 *   noam       fall as the inverse square root of the step: peak * sqrt(warmup / step) (Vaswani et al. 2017)
 *   linear     fall to a floor in a straight line
 *   cosine     fall to a floor along half a cosine
 */
enum { TSR_SCHEDULE_CONSTANT = 1, TSR_SCHEDULE_NOAM = 2, TSR_SCHEDULE_LINEAR = 3, TSR_SCHEDULE_COSINE = 4 };

typedef struct tsr_schedule {
  int32_t kind;   /* TSR_SCHEDULE_* */
  double peak;    /* reached at the end of the warm-up */
  double floor;   /* no rate after the warm-up is below */
  int64_t warmup; /* steps; 0: none */
} tsr_schedule;

/* "constant", "noam", "linear", "cosine". Errors: TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_schedule_find(const char *name, int32_t *kind) TSR_MUST_CHECK;

/* Errors: TSR_ERR_ARGUMENT, naming the field. */
TSR_API tsr_status tsr_schedule_check(const tsr_schedule *schedule) TSR_MUST_CHECK;

/* 1 if the kind falls to its floor at the end of the training, and so has to know how much of the training is over. */
TSR_API int tsr_schedule_has_end(const tsr_schedule *schedule);

/* The paper's peak: factor * d_model^-0.5 * warmup^-0.5. */
TSR_API double tsr_schedule_paper_peak(double factor, int32_t d_model, int64_t warmup);

/* The share, 0 to 1, of what follows the warm-up that is over at a step of `steps`. */
TSR_API double tsr_schedule_decayed(const tsr_schedule *schedule, int64_t step, int64_t steps);

/* The rate of a step, counted from 1. decayed: as above; only linear and cosine use it. */
TSR_API double tsr_schedule_rate(const tsr_schedule *schedule, int64_t step, double decayed);

/* ------------------------------------------------------------------------------------------------------------------
 * How parameters begin. D is d_model; out and in are a matrix' rows and columns; U(a) is even over -a .. a, N(s) normal
 * with the standard deviation s.
 *
 * TSR_INITIAL_XAVIER: as the reference implementations of "Attention Is All You Need" have it: each product's matrix
 * U(sqrt(6 / (in + out))) (Glorot and Bengio 2010), where q, k and v are matrices of their own though they are stored
 * joined; tables of embeddings and positions, and the logits' weights whether they are the table or not, N(1 / sqrt D);
 * biases 0, gains 1. The row of the pad is 0, unless the pad is also another special token. A convolution's in and out
 * are its channels times the rows of its kernel.
 *
 * The positions of Whisper's encoder are sinusoids either way, which are never trained.
 *
 * TSR_INITIAL_FAMILY: as the family's original begins. Marian (Hugging Face): every matrix and table N(0.02), biases 0,
 * gains 1, the pad's row 0. Whisper: likewise, and convolutions. nn_transformer (torch's modules): the stacks' matrices
 * U(sqrt(6 / (in + out))), where q, k and v are one matrix; the biases of the attention 0, those of the feed-forward
 * blocks U(1 / sqrt in); embeddings N(1); the logits' weights and bias U(1 / sqrt D); gains 1. */
enum { TSR_INITIAL_XAVIER = 1, TSR_INITIAL_FAMILY = 2 };

/* "xavier", "family". Errors: TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_initial_find(const char *name, int32_t *method) TSR_MUST_CHECK;

/* Fills parameter number `index` of the model: elements [its shape], n of them. Every number follows from the seed, the
 * parameter's number and its own place, by Philox and double arithmetic rounded once: the same on every machine, but
 * for the rare normal number at the edge of two floats where two C libraries' logarithms differ. Any thread. Errors:
 * TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_initialise(const tsr_model *model, int32_t method, uint64_t seed, int32_t index, float *elements,
                                  int64_t n) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * A run
 */

/* What validations are compared by. BLEU needs text; EXACT is the share of a task's sequences that came out exactly, or
 * with sounds of the words that did: 1 less the word error rate of texts as Whisper's basic normaliser leaves them, and
 * so below 0 where there are more errors than words. */
enum { TSR_CRITERION_LOSS = 1, TSR_CRITERION_BLEU = 2, TSR_CRITERION_EXACT = 3 };

/* What is known after a step, and what a row of the log has: a point of the curves. */
typedef struct tsr_training_run_step {
  int64_t step; /* updates so far */
  int64_t epoch;
  double seconds;             /* since the training began, pauses between runs left out */
  double loss;                /* per target token, mean of the steps since the last row */
  double rate;                /* learning rate of this step */
  double gradient_norm;       /* of this step, before clipping */
  double tokens_per_second;   /* target tokens since the last row, without the time of validations */
  double scale;               /* of the loss; 1 without mixed precision */
  int64_t skipped;            /* updates that were left out as their gradients were beyond f16 */
  double done;                /* share of the training that is over, 0 to 1; -1: not known */
  int32_t is_row;             /* 1: it is in the log, too */
  const tsr_trainer *trainer; /* for tsr_trainer_layer, with statistics, during the call */
} tsr_training_run_step;

typedef struct tsr_training_run_validation {
  int64_t step;
  int64_t epoch;
  double seconds;
  double loss;       /* negative log-likelihood per target token */
  double perplexity; /* exp(loss) */
  double bleu;       /* NaN where it was not computed; likewise the next */
  double exact;      /* share of a task's sequences, 0 to 1; of the words in sounds */
  int32_t is_best;   /* so far */
  int32_t averaged;  /* steps whose mean this is (average_last); 0: it is the training's current state */
} tsr_training_run_validation;

/* Called by the thread that runs the training, with options->user: after each step, and after each validation. */
typedef void (*tsr_training_step_fn)(void *user, const tsr_training_run_step *step);
typedef void (*tsr_training_validation_fn)(void *user, const tsr_training_run_validation *validation);

/* Called once, before the first step, when the folder is this run's alone. step: of the checkpoint that it goes on
 * from, or 0. An error ends the run. */
typedef tsr_status (*tsr_training_opened_fn)(void *user, int64_t step);

/* Asked after each step: 1 saves and ends the run. */
typedef int32_t (*tsr_training_stopping_fn)(void *user);

/* Pointers are borrowed during the call of tsr_training_run. */
typedef struct tsr_training_run_options {
  uint32_t struct_size;
  int32_t resume;     /* 1: go on from OUT/train/last.safetensors, if it is there */
  const char *folder; /* OUT */

  /* The training data. These of its options are set from the model: decoder_start_id and the pads, and of sounds mels
   * and positions; shuffle is 1. A model of speech needs sounds, and gets the files that Whisper's folders have beside
   * others: generation_config.json as the model that was trained on has it, or the tokenizer's folder, else made from
   * the tokenizer; preprocessor_config.json. */
  const tsr_training_data_options *data;
  const char *tokenizer_folder; /* its files are copied to OUT; NULL: there are none */

  const tsr_training_options *training; /* NULL: all 0. `average` is set from average_decay */
  tsr_schedule schedule;
  uint64_t seed;        /* of the parameters and the dropout */
  int32_t initial;      /* TSR_INITIAL_*; 0: TSR_INITIAL_XAVIER; a model with weights begins with these */
  int32_t accumulate;   /* batches of an update, of all ranks together; 0: as many as there are ranks */
  double average_decay; /* of the exponential average: at step t min(this, (1 + t) / (10 + t)); 0: there is none */
  double loss_scale;    /* the first one, where products are f16; 0: 65536 */
  int32_t scale_window; /* updates without an overflow after which it doubles; 0: 1000 */
  int32_t average_last; /* at the end, the mean of the last N saved states competes with the best; 0: none */

  /* The run ends at whichever comes first; data->epochs, too. */
  int64_t steps;    /* 0: none; likewise the next three */
  double minutes;   /* without those between runs */
  double until;     /* a BLEU, or a share of exact sequences or words, that is enough */
  int32_t patience; /* validations in a row that are not better than the best */

  int32_t keep;           /* number of step-N.safetensors that stay; at least average_last */
  int64_t log_every;      /* steps; 0: 50 */
  int64_t save_every;     /* 0: 500 */
  int64_t validate_every; /* 0: 500 */

  /* Validation: on files, or on what the task holds out. */
  tsr_corpus_files valid; /* source NULL and no task: there is none */
  int32_t criterion;      /* TSR_CRITERION_*; 0: exact sequences, else BLEU, else loss, whichever there is */
  int32_t beam;           /* of the search; 0: 1 */
  int32_t sentences;      /* that are translated, from the beginning; 0: none */

  tsr_dtype storage;  /* of the model that is written; 0: f32 */
  int32_t saved_beam; /* that its generation_config.json asks for; 0: 1 */
  int32_t reserved;

  void *user; /* of the functions, each of which may be NULL */
  tsr_training_step_fn step;
  tsr_training_validation_fn validation;
  tsr_training_opened_fn opened;
  tsr_training_stopping_fn is_stopping;

  tsr_comm *comm;      /* the ranks that share the work; NULL: alone */
  tsr_dtype gradients; /* 0 or TSR_F32; TSR_BF16: the gradients of each batch are rounded to it before they are added,
                          and so is their sum; then half as many bytes travel. On one rank, too */
  int32_t shard;       /* 1: each rank keeps the moments and averages of its share of the parameters alone, updates
                          these, and sends them to the others. The numbers stay the same */
  int64_t bucket;      /* with several ranks: gradients travel in buckets of at least so many numbers, each while the
                          next is computed; the same on all ranks, and any number gives the same. 0: an eighth of the
                          parameters, but at least 2^16 and at most 2^22 */
} tsr_training_run_options;
TSR_SIZED_PIN(tsr_training_run_options, bucket, 272);

/* Why a run ended. */
enum {
  TSR_TRAINING_END_STEPS = 1,
  TSR_TRAINING_END_EPOCHS = 2,
  TSR_TRAINING_END_MINUTES = 3,
  TSR_TRAINING_END_PATIENCE = 4,
  TSR_TRAINING_END_UNTIL = 5,
  TSR_TRAINING_END_STOPPED = 6 /* is_stopping */
};

typedef struct tsr_training_run_result {
  int32_t reason; /* TSR_TRAINING_END_* */
  int64_t step;
  int64_t epoch;
  int64_t skipped;
  double seconds;
  double loss;                            /* of the last row, or of what there was */
  int32_t has_validation;                 /* 1: the next is set */
  tsr_training_run_validation validation; /* of the model that was written */
  tsr_training_data_counts counts;        /* of the last pass over the data, as far as it went in this run */
  int64_t state_bytes;                    /* as in tsr_trainer_memory, likewise the next three */
  int64_t temporary_bytes;
  int64_t planned_bytes;
  int32_t programs;
} tsr_training_run_result;

/* Checks the options, that nothing would be overwritten, and makes the folders. tsr_training_run does so itself.
 * Errors: as there. */
TSR_API tsr_status tsr_training_run_check(const tsr_training_run_options *options) TSR_MUST_CHECK;

/* Trains, and writes the model's folder. `model` and `device` as for tsr_trainer_create; fallback: as there, or NULL.
 * Without `resume` OUT must hold no training and no model. Blocks. A lock allows one run at a time in a folder, and any
 * number in others. Errors: TSR_ERR_ARGUMENT; TSR_ERR_IO; TSR_ERR_FORMAT (also a loss that is no longer finite:
 * the message names step, pairs and the first line of the program that produced it; the last checkpoint stands); those
 * of the data, of the device and of the transport. With several ranks an error is that of one rank, and the others wait
 * for it: tsr_comm_abort ends them. Of *result, ranks other than 0 have only reason, step, epoch, skipped and the
 * memory. */
TSR_API tsr_status tsr_training_run_sized(const tsr_model *model, tsr_device *device, tsr_device *fallback,
                                          const tsr_training_run_options *options, tsr_training_run_result *result,
                                          size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_training_run(const tsr_model *model, tsr_device *device,
                                                         tsr_device *fallback, const tsr_training_run_options *options,
                                                         tsr_training_run_result *result)
{
  return tsr_training_run_sized(model, device, fallback, options, result, sizeof *result);
}

#ifdef __cplusplus
}
#endif
#endif
