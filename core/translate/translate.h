/* SPDX-License-Identifier: Apache-2.0
 *
 * A translator from inside. Its lock guards all that jobs and workers share; what says so belongs to one thread.
 */
#ifndef TESSERA_CORE_TRANSLATE_H
#define TESSERA_CORE_TRANSLATE_H

#include <pthread.h>

#include "core/generate/search.h"
#include "core/text/tokenizer.h"
#include "tessera/translator.h"

enum { TSR_MAX_SEATS = 16, TSR_TABLE = 4096 /* lists of jobs by ticket */ };

/* Options of a search: sentences with equal ones share batches. */
typedef struct tsr_class {
  tsr_generate_options options; /* resolved; its lists lie behind the struct */
  int32_t users;                /* jobs; without any it may be freed */
  int32_t n_waiting;            /* parts of theirs that wait */
  struct tsr_class *next;
} tsr_class;

enum { TSR_PART_WAITS = 0, TSR_PART_RUNS = 1, TSR_PART_IS_DONE = 2 };

/* Pieces in the place of tokens, [n_ids], NULL where a token stands for itself; NULL: all do. */
typedef struct tsr_replaced {
  const char **pieces;
  tsr_arena arena;
} tsr_replaced;

/* A part of a text, which is searched as a sentence. */
typedef struct tsr_text_part {
  struct tsr_job *job;
  int32_t index;
  int32_t state;    /* TSR_PART_* */
  int32_t is_taken; /* 1: of a call: a device searches it */
  int32_t n_ids;    /* of the source, as the search takes it */
  tsr_prompt prompt;
  struct tsr_text_part *before; /* in the queue */
  struct tsr_text_part *after;
  /* With the job's lock `telling`. */
  int32_t *told; /* [n_told] tokens of the best hypothesis that are certain; `told_room` of them allocated */
  int32_t n_told;
  int32_t told_room;
  int32_t is_whole;      /* 1: these are all */
  tsr_replaced replaced; /* of them, once they are all */
} tsr_text_part;

/* A request until it is answered. Written by the thread that makes it; then the lock guards the fields from `n_pending`
 * on. */
typedef struct tsr_job {
  uint64_t ticket;
  tsr_tokenizer tokenizer; /* the translator's with the languages of the request; owns nothing */
  int32_t skipped_id;      /* a first token that is no text, or -1 */
  tsr_class *class;
  tsr_source source;
  int32_t is_source_cut;
  int32_t *prefix; /* ids, or NULL */
  int32_t n_prefix;
  int32_t n_hypotheses;
  tsr_text_part *parts;  /* [source.n_parts] */
  tsr_hypothesis *found; /* [source.n_parts][n_hypotheses] */
  int64_t number;
  double asked;    /* the time, in seconds of tsr_seconds */
  double deadline; /* likewise; INFINITY: none */
  tsr_translation_fn answer;
  void *user;
  int32_t has_spans;
  int32_t has_alignment;
  int32_t has_attention; /* its own attention is asked for */
  int32_t replaces;      /* unknown tokens are replaced (unknown.c) */
  char *text;            /* [text_size] of the request, with has_spans or `replaces`; else NULL */
  size_t text_size;
  tsr_translation_piece_fn piece; /* or NULL */
  void *piece_user;
  pthread_mutex_t telling; /* of pieces: guards told_*, and calls of `piece` */
  int32_t told_part;       /* whose text comes */
  size_t told_bytes;       /* of it */
  tsr_status told_status;  /* TSR_OK, or why pieces are missing */
  int32_t n_pending;       /* parts that are not done */
  double started;          /* when the search of the first part began; 0: it did not */
  int32_t n_restarts;
  tsr_status status; /* why it is given up: its parts that run are dropped */
  char *message;
  int32_t is_about_text;        /* of the status */
  int32_t *n_lost;              /* counts the jobs of its call that are given up; NULL: it is of none */
  int32_t is_answered;          /* without a function: `translation` is there */
  pthread_cond_t *arrival;      /* of the thread that waits for that; NULL: none does */
  tsr_translation *translation; /* empty before the job is done */
  struct tsr_job *older;        /* among those without an answer */
  struct tsr_job *newer;
  struct tsr_job *next;        /* of the same list by ticket */
  struct tsr_job *next_answer; /* of those that are to be answered */
} tsr_job;

struct tsr_worker;

/* What several devices share, a call's work: lanes.c */
typedef enum tsr_call_number { TSR_CALL_OF_TEXTS, TSR_CALL_OF_PAIRS, TSR_CALL_KINDS } tsr_call_number;

/* What a device has shown of one kind of them. */
typedef struct tsr_shown {
  int32_t n_shares; /* that it has done */
  double speed;     /* in costs of items a second; 0: not known */
  int32_t n_left;   /* calls, one after the other, that left all to other devices */
} tsr_shown;

/* A device, or those that a model is split over, and the threads that search on it. */
typedef struct tsr_seat {
  tsr_device *device;                 /* the first of the next */
  tsr_device *devices[TSR_MAX_SEATS]; /* [n_devices], usually one */
  int32_t n_devices;
  tsr_transformer *transformer;
  int32_t is_auto;    /* another device takes its place where it fails */
  tsr_status failure; /* TSR_OK, or how it failed: its workers stop, and the last of them replaces it */
  char *message;
  int32_t is_dead;    /* there is nothing to replace it with */
  int32_t least_rows; /* with which a batch pays beside another one */
  int32_t best_batch; /* sentences, with which each takes the least time; 0: the more, the less */
  int32_t limit;      /* sentences of a batch at most, once its memory has not sufficed for more; 0: it has */
  int32_t n_workers;  /* threads */
  int32_t n_used;     /* of them, as many as the device executes side by side */
  int32_t n_stopped;  /* of them, those that have seen that it failed */
  int32_t n_replaced; /* how often another device took its place, or none could */
  int32_t n_holders;  /* threads of callers that work with its transformer, or wait for that: its own begin nothing */
  int32_t is_held;    /* one of them does */
  tsr_shown shown[TSR_CALL_KINDS];
  int32_t n_threads;     /* that searched the last share of a call */
  int32_t n_wanting;     /* lanes of calls that would take a share here */
  const void *last_lane; /* that took one */
  struct tsr_worker *workers;
  const struct tsr_worker *last; /* that began a batch; NULL: none did */
} tsr_seat;

/* A thread that searches. */
typedef struct tsr_worker {
  tsr_translator *translator;
  tsr_seat *seat;
  int32_t index;
  pthread_t thread;
  int32_t is_thread;
  tsr_transformer *transformer; /* the thread's own, while the seat's device works */
  tsr_class *class;             /* of the batch that runs; NULL: none */
  int32_t most;                 /* sentences that it has rows for */
  int32_t n_free;               /* of them, those that another one may have */
  int32_t n_open;               /* sentences that it searches */
  tsr_text_part **active;       /* [most] parts in the batch, by the index of their sentences; NULL: free */
  int32_t room;                 /* of active */
  tsr_work counted;             /* of the transformer, when it was looked at last */
  pthread_mutex_t tell;         /* of its search */
  int32_t is_idle;              /* it waits for work */
  tsr_job *answers;             /* that are to be handed over when the lock is free; the thread's own */
} tsr_worker;

struct tsr_translator {
  const tsr_model *model;
  const tsr_tokenizer *tokenizer;
  tsr_model *own_model; /* or NULL, likewise the next */
  tsr_tokenizer *own_tokenizer;
  tsr_runtime *runtime;
  tsr_runtime *own_runtime; /* or NULL */
  tsr_translator_options options;
  tsr_generate_options defaults; /* of the model's folder */
  int32_t alignment_layer;       /* from 1; 0: none */
  uint32_t alignment_heads;      /* bits; 0: all */
  pthread_mutex_t lock;
  pthread_mutex_t replacing; /* held while a seat gets another device; guards `failed` */
  pthread_cond_t more;       /* parts wait, or something else has changed for a worker */
  pthread_cond_t
      changed; /* a job was answered, which matters to who waits for several, or there is room in the queue */
  int32_t is_closing;
  tsr_text_part *first; /* the queue */
  tsr_text_part *last;
  int32_t n_waiting;
  uint64_t ticket;      /* the last that was given */
  double next_deadline; /* the earliest, or one that is past */
  tsr_job *oldest;      /* without an answer */
  tsr_job *newest;
  int32_t n_waiters; /* threads of callers that wait: for answers, or for a seat */
  tsr_job *table[TSR_TABLE];
  tsr_class *classes;
  tsr_status status; /* TSR_OK, or why no device is left */
  char *message;
  int32_t n_seats;
  tsr_seat seats[TSR_MAX_SEATS];
  char failed[TSR_MAX_SEATS][64]; /* devices that failed, by name */
  int32_t n_failed;
  int32_t has_told; /* of devices that wait until others fail */
  tsr_translator_statistics statistics;
};

/* ---- job.c ---- */

/* Makes a job of a request: tokenized, with a class, not in the queue yet. *is_about_text: with an error, as in
 * tsr_translation. Errors: as tsr_translator_submit. */
tsr_status tsr_job_create(tsr_translator *t, const tsr_translation_request *request, tsr_job **job,
                          int32_t *is_about_text) TSR_MUST_CHECK;

/* Without the lock: frees what only the job has. Its class was left before. Takes NULL. */
void tsr_job_free(tsr_job *job);

/* ---- classes.c; with the lock ---- */

/* The class of these options, which are resolved. *class has one user more. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_class_take(tsr_translator *t, const tsr_generate_options *options, tsr_class **class) TSR_MUST_CHECK;
void tsr_class_leave(tsr_translator *t, tsr_class *class);

/* ---- queue.c; with the lock ---- */

/* Gives a new job a ticket; its parts do not wait, but belong to a search. Errors: the translator's own. */
tsr_status tsr_job_enter(tsr_translator *t, tsr_job *job) TSR_MUST_CHECK;

/* The same, and puts its parts into the queue. Errors also: TSR_ERR_BUSY. */
tsr_status tsr_queue_put(tsr_translator *t, tsr_job *job) TSR_MUST_CHECK;

/* Puts a part that ran to the front. */
void tsr_queue_return(tsr_translator *t, tsr_text_part *part);

/* Takes at most n parts of a class out of the queue: the oldest. alike: the oldest one, and of the 4 n oldest those
 * whose number of tokens is most like its own. Returns how many. */
int32_t tsr_queue_take(tsr_translator *t, const tsr_class *class, int32_t n, int32_t alike, tsr_text_part **parts);

/* Gives a job up. Its parts that wait are done; those that run are dropped soon. The message is the thread's last
 * error's. A job whose last part is done by that is put into *answers. */
void tsr_job_give_up(tsr_translator *t, tsr_job *job, tsr_status status, tsr_job **answers);

/* Gives up what has waited beyond its deadline. */
void tsr_queue_expire(tsr_translator *t, tsr_job **answers);

/* A part is done. Puts its job into *answers if it was the last one. */
void tsr_part_done(tsr_text_part *part, tsr_job **answers);

/* The job of a ticket, or NULL. */
tsr_job *tsr_job_find(const tsr_translator *t, uint64_t ticket);

/* A job has its answer: it is not among those without one any more. */
void tsr_job_answered(tsr_translator *t, tsr_job *job);

/* Takes an answered job out of the translator. */
void tsr_job_remove(tsr_translator *t, tsr_job *job);

/* ---- pieces.c; without the lock ---- */

/* A tsr_token_fn; user is the list of parts by the indices of their sentences. */
int32_t tsr_pieces_receive(void *parts, const tsr_token *token);

/* Hands over the rest of the text of a part whose search has ended, and what comes next. */
void tsr_pieces_end(tsr_text_part *part, const tsr_hypothesis *hypothesis);

/* The tokens of a part may come once more. What was handed over is not handed over again. */
void tsr_pieces_restart(tsr_text_part *part);

/* ---- unknown.c ---- */

/* What stands in the place of the unknown tokens of a part's hypothesis, if the request asks for it. To be finished
 * after success. */
tsr_status tsr_replaced_find(const tsr_job *job, int32_t part, const tsr_hypothesis *h,
                             tsr_replaced *replaced) TSR_MUST_CHECK;
void tsr_replaced_finish(tsr_replaced *replaced); /* takes a zeroed one */

/* ---- spans.c ---- */

/* spans [n]: the places of ids in the text that they were decoded to. */
/* replaced [n]: of tsr_tokenizer_decode_replaced; or NULL. */
tsr_status tsr_spans_find(const tsr_tokenizer *tokenizer, int32_t side, const int32_t *ids, const char *const *replaced,
                          int32_t n, const char *text, tsr_text_span *spans) TSR_MUST_CHECK;

/* spans [n]: the places of source ids in the text that they were encoded from, from byte *at on, which moves behind
 * them. */
tsr_status tsr_spans_find_source(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n, const char *text,
                                 size_t size, size_t *at, tsr_text_span *spans) TSR_MUST_CHECK;

/* ---- alignment.c ---- */

/* Chooses the layer that aligns, as the options say, with a transformer that nobody uses. */
tsr_status tsr_alignment_choose(tsr_translator *t, tsr_transformer *transformer) TSR_MUST_CHECK;

/* aligned [n_ids]: for each token of a part's hypothesis that of the source, plus `first`, or -1. */
void tsr_alignment_of(const tsr_tokenizer *tokenizer, const tsr_hypothesis *h, const int32_t *source, int32_t first,
                      int32_t *aligned);

/* ---- answer.c; without the lock ---- */

/* The text of target ids. Free *text with tsr_free. */
tsr_status tsr_job_decode(const tsr_job *job, const int32_t *ids, const char *const *replaced, int32_t n_ids,
                          char **text) TSR_MUST_CHECK;

/* The answer to a request that there is no job of: the thread's last error. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_refusal(tsr_status status, int32_t is_about_text, tsr_translation **answer) TSR_MUST_CHECK;

/* Makes the answers of a list, which is empty then, and hands them over. */
void tsr_answer_all(tsr_translator *t, tsr_job **answers);

/* ---- seats.c ---- */

/* Opens the devices and loads the model onto them. */
tsr_status tsr_seats_open(tsr_translator *t) TSR_MUST_CHECK;

/* Starts the threads that are not running yet. Of a translator with static_batches they start when a text is submitted:
 * who has it translate lists alone needs none. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_seats_start(tsr_translator *t) TSR_MUST_CHECK;
void tsr_seats_close(tsr_translator *t);

/* 1 if a status says that the device is at fault. */
int32_t tsr_is_of_device(tsr_status status);

/* With the lock, which is given up meanwhile: puts another device in the place of one that failed, all of whose workers
 * have stopped. Where there is none the seat is dead; with the last one, all that waits is given up. */
void tsr_seat_replace(tsr_translator *t, tsr_seat *seat, tsr_job **answers);

/* With the lock: 1 if nobody works on a seat, and a thread may hold it. */
int32_t tsr_seat_is_free(const tsr_seat *seat);

/* With the lock, which is given up meanwhile: waits until the thread has a seat for itself, and its transformer rests.
 * wanted: NULL: the first one that is free. *held: nothing to release after an error. Errors: TSR_ERR_CANCELLED (the
 * translator is being closed); the seat is dead: the translator's status, else TSR_ERR_NO_DEVICE. */
tsr_status tsr_seat_hold(tsr_translator *t, tsr_seat *wanted, tsr_seat **held) TSR_MUST_CHECK;
void tsr_seat_release(tsr_translator *t, tsr_seat *seat);

/* ---- call.c; without the lock ---- */

/* Searches the parts of n jobs of one call together, and answers all. jobs [n] have entered; NULL: there is none.
 * `stop`: as in tsr_translator_translate_together. */
void tsr_call_run(tsr_translator *t, tsr_job *const *jobs, int32_t n, const volatile int32_t *stop);

/* ---- score.c; without the lock ---- */

/* tsr_translator_score, of arguments that are there. */
tsr_status tsr_call_score(tsr_translator *t, int32_t n, const int32_t *const *source, const int32_t *source_lengths,
                          const int32_t *const *target, const int32_t *target_lengths, const tsr_score_options *options,
                          tsr_progress_fn progress, void *user, tsr_scores *scores) TSR_MUST_CHECK;

/* ---- worker.c ---- */

/* Of a thread: searches until the translator closes, or its seat is dead. */
void *tsr_worker_run(void *worker);

#endif
