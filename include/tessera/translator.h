/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/translator.h: texts in, translations out, from any number of threads.
 *
 * A translator holds a model, its tokenizer and devices, and threads of its own that search. Texts of all callers share
 * batches, and a text joins a running batch: at the end of a step it takes the row of a text that has ended. The
 * translation does not depend on the other texts in the batch: the tokens are the same, scores differ only by rounding,
 * and a seed gives the same draws.
 */
#ifndef TESSERA_TRANSLATOR_H
#define TESSERA_TRANSLATOR_H

#include "tessera/generate.h"
#include "tessera/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_translator tsr_translator;

typedef struct tsr_translator_options {
  uint32_t struct_size;
  int32_t n_devices;          /* 0: one: TESSERA_DEVICE, else auto */
  const char *const *devices; /* [n_devices] names as tsr_device_open takes them. All compute side by side, each with
                                 all of the model, unless `split` is set */
  tsr_runtime *runtime;       /* has the devices; outlives the translator. NULL: the translator makes one */
  tsr_dtype weights;          /* as in tsr_transformer_options, likewise the next */
  int32_t strict;
  int32_t batch;   /* texts in a batch at most; 0: 32, and fewer with a wide beam on a CPU */
  int32_t workers; /* batches side by side on each device; 0: as many as the device executes so, for as many texts */
  int32_t queue;   /* most texts that may wait; a text in parts counts as its parts; 0: 100,000 */
  /* 1: no text joins a running batch, and the texts of one call of tsr_translator_translate are searched together,
   * sorted by length: for a single caller that has many texts at hand. */
  int32_t static_batches;
  /* The layer of the decoder, from 1, whose cross-attention says which source token a token was made from. 0: the last
   * but one (the choice of Garg et al. 2019). -1: the layer and heads that best find where copied words came from; they
   * are looked for when the translator is opened, in the time of a few short translations. */
  int32_t alignment_layer;
  int32_t profile; /* 1: as in tsr_transformer_options; then no other device replaces one that fails */
  /* With static_batches: told how far a call of tsr_translator_translate has come, in parts of texts; called as
   * tsr_generate calls it. May be NULL. */
  tsr_progress_fn progress;
  void *progress_user;
  uint32_t alignment_heads; /* bit h: head h of alignment_layer, from 0, aligns; 0: all heads do, or those found */
  /* 1: the model is split over the devices, which are named and work one after the other (tsr_model_get_part): for a
   * model that none of them can hold. They count as one device, and if one fails, all have. */
  int32_t split;
} tsr_translator_options;
TSR_SIZED_PIN(tsr_translator_options, split, 76);

/* Loads the model of a folder onto the devices. `options` may be NULL. *translator is the caller's until
 * tsr_translator_close. Blocks. Errors: those of tsr_model_open, tsr_tokenizer_open, tsr_device_open and
 * tsr_transformer_create; TSR_ERR_ARGUMENT (an option out of range, too many devices). */
TSR_API tsr_status tsr_translator_open(const char *folder, const tsr_translator_options *options,
                                       tsr_translator **translator) TSR_MUST_CHECK;

/* The same for a model and a tokenizer that the caller has opened, and which outlive the translator. Requests that name
 * no languages have those of the tokenizer, which must not be changed any more. Errors: those of tsr_device_open and
 * tsr_transformer_create; TSR_ERR_IO (a model without weights), TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_translator_create(const tsr_model *model, const tsr_tokenizer *tokenizer,
                                         const tsr_translator_options *options,
                                         tsr_translator **translator) TSR_MUST_CHECK;

/* Answers every unfinished text with TSR_ERR_CANCELLED, and frees everything. No other call may be under way, except
 * calls that wait for an answer, for tsr_translator_use or for tsr_translator_score: these return first. Not from a
 * callback. Takes NULL. */
TSR_API void tsr_translator_close(tsr_translator *translator);

/* These live as long as the translator. Any thread; do not change the tokenizer's languages. */
TSR_API const tsr_model *tsr_translator_model(const tsr_translator *translator);
TSR_API const tsr_tokenizer *tsr_translator_tokenizer(const tsr_translator *translator);

/* The layer that aligns, from 1; 0: the model has no encoder, so there is nothing to align with. */
TSR_API int32_t tsr_translator_alignment_layer(const tsr_translator *translator);
/* Its heads, in the form of the options' alignment_heads. */
TSR_API uint32_t tsr_translator_alignment_heads(const tsr_translator *translator);

/* The most tokens that a source, or a part of one, can have with these options of a search (NULL: those of the model's
 * folder), if a request's max_source is `wanted`. Any thread. */
TSR_API int32_t tsr_translator_max_source(const tsr_translator *translator, const tsr_generate_options *search,
                                          int32_t wanted);

/* Works with a transformer of a translator: scores, looks into it, asks for its device. Nobody else uses the
 * transformer meanwhile. The function must not wait for texts of this translator, nor score with it.
 * tsr_translator_use returns what it returns. */
typedef tsr_status (*tsr_translator_use_fn)(void *user, tsr_transformer *transformer);

/* Calls `use`, in the calling thread, with the transformer on a device (from 0, in the order of the options), when the
 * batches that run there have ended. Until `use` returns, texts wait or go to another device. If a device fails,
 * another may take its number; a device that fails during `use` is not replaced for this call. Any thread, not from a
 * callback. Errors: TSR_ERR_ARGUMENT (there is no such device), TSR_ERR_NO_DEVICE or the device's own error (it failed
 * and none took its place), TSR_ERR_CANCELLED (the translator is being closed), what `use` returns. */
TSR_API tsr_status tsr_translator_use(tsr_translator *translator, int32_t device, tsr_translator_use_fn use,
                                      void *user) TSR_MUST_CHECK;

/* Scores outputs as tsr_score does, on those devices of the translator that tsr_translator_translate takes: each takes
 * a share of the pairs, by the speed that it has shown, and another when it has ended. What a device that fails has not
 * finished, the others score, or the one that takes its place. Texts of other threads wait for a device, or have it in
 * turns. `progress` is told of all pairs, by one thread at a time, which need not be the caller's. Blocks. Any thread,
 * not from a callback. Errors, beside those of tsr_score: TSR_ERR_CANCELLED (the translator is being closed),
 * TSR_ERR_NO_DEVICE or a device's own error (no other one can go on). */
TSR_API tsr_status tsr_translator_score(tsr_translator *translator, int32_t n_pairs, const int32_t *const *source,
                                        const int32_t *source_lengths, const int32_t *const *target,
                                        const int32_t *target_lengths, const tsr_score_options *options,
                                        tsr_progress_fn progress, void *user, tsr_scores *scores) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * A text to be translated
 */

/* Receives text of the best translation as it comes: `size` bytes of valid UTF-8, without a NUL, which follow the
 * pieces before. When the answer comes, all pieces together are the text of its first hypothesis; a text in parts comes
 * part by part. A piece is final: a word that may go on does not come yet, and beam search gives only what all
 * hypotheses agree on. Called by a thread of the library, for each text by one thread at a time, and never with or
 * after the answer. A batch waits for this function. It may submit and cancel. */
typedef void (*tsr_translation_piece_fn)(void *user, uint64_t ticket, const char *text, size_t size);

typedef struct tsr_translation_request {
  uint32_t struct_size;
  int32_t long_input;          /* TSR_LONG_*: what to do with a text that has more tokens than the model takes */
  const char *text;            /* UTF-8, of any length; invalid bytes are read as U+FFFD */
  uint64_t text_size;          /* bytes; 0: text ends with a NUL */
  const char *source_language; /* of the tokenizer's; NULL: as the folder has it, likewise the next */
  const char *target_language;
  const char *prefix; /* what the translation begins with, or its first part: whole words; or NULL */
  /* How to search: start from tsr_generate_defaults; NULL: these defaults. The translator sets prefix, first_sentence,
   * token and partial by itself. What the options point to is copied, except the shortlist, which must live until the
   * answer. Requests with equal options share batches. */
  const tsr_generate_options *search;
  /* The text's number for the draws, with search->seed; its parts have this number and the numbers after it. -1: the
   * number after the last part of the request before it in the same call of tsr_translator_translate, or 0. */
  int64_t number;
  double timeout;     /* seconds after which an unfinished text is answered with TSR_ERR_DEADLINE; 0: no limit */
  int32_t max_source; /* most tokens of a source, if the model takes more; 0: as many as it takes */
  int32_t spans;      /* 1: tokens come with their places in source and translation */
  int32_t alignment;  /* 1: tokens of translations come with the source tokens that they were made from, and all with
                         their spans. search->attention_layer, if it is not 0, names the layer for this request, and
                         search->attention_heads its heads */
  /* 1: an unknown token of a translation is replaced by the source token that it attended to most, in the layer and
   * heads that a model of CTranslate2 names for that, else in those that align; `piece` then receives nothing before a
   * part is whole. 0: as the model's folder asks (packages of Argos ask for it). -1: none is replaced. */
  int32_t replace_unknown;
  tsr_translation_piece_fn piece; /* receives text as it comes, of the first sample; or NULL. Not with alternatives */
  void *piece_user;
  uint64_t prefix_size; /* bytes; 0: prefix ends with a NUL */
} tsr_translation_request;
TSR_SIZED_PIN(tsr_translation_request, prefix_size, 104);

/* A place in a text: bytes begin .. end-1. */
typedef struct tsr_text_span {
  int32_t begin;
  int32_t end;
} tsr_text_span;

/* One translation of a text. If there are fewer alternatives than were asked for, the others have no tokens, and the
 * score -infinity. */
typedef struct tsr_translation_hypothesis {
  char *text;       /* UTF-8, NUL-terminated: the texts of the parts, with a blank between them */
  float score;      /* of the search; for a text in parts the mean of their scores, weighted with their tokens */
  int32_t is_cut;   /* 1: it ended because it had reached the maximum length */
  int32_t n_ids;    /* those of the parts in a row */
  int32_t n_source; /* with search->attention, for a text in one part: tokens of the source */
  int32_t *ids;
  float *attention; /* [n_ids][n_source], each row's sum is 1; else NULL */
  /* [n_ids] in text, if asked for: in order, together all of it but blanks; empty for special tokens. */
  tsr_text_span *spans;
  int32_t *aligned; /* [n_ids] with request->alignment: the index in source_ids of the token that was attended to most;
                       -1 for special tokens, and of a model without an encoder */
  int32_t n_parts;
  int32_t *part_ends;     /* [n_parts] where the ids of each part end */
  float **part_attention; /* [n_parts] with search->attention: of each part's tokens to those of its source, [..][..] as
                             above; else NULL */
} tsr_translation_hypothesis;

/* The answer to a request. Only the library makes it, so that it may grow. */
typedef struct tsr_translation {
  tsr_status status;       /* TSR_OK, or why there is no translation */
  int32_t n_hypotheses;    /* search->n_best, or its alternatives; 1 if there is nothing to translate */
  char *message;           /* with an error: for the user; else "" */
  int32_t n_parts;         /* that the text was translated in; 0: there is nothing to translate */
  int32_t n_source_tokens; /* of the whole text; with is_source_cut the text may have more */
  int32_t is_source_cut;   /* 1: only its beginning was translated */
  int32_t n_restarts;      /* times that a part of it began again because a device failed */
  double waiting_seconds;  /* from the request until the search of its first part began */
  double seconds;          /* from the request to the answer */
  /* [n_hypotheses], best first; sampling: in the order of their numbers */
  tsr_translation_hypothesis **hypotheses;
  /* With request->spans: the tokens of all parts in a row, special ones included, and their places in the request's
   * text, in order. If the tokenizer changes characters, places are approximate. Empty for special tokens. */
  int32_t n_source_ids;
  int32_t n_source_parts; /* 0 without spans */
  int32_t *source_ids;    /* [n_source_ids], likewise the next */
  tsr_text_span *source_spans;
  int32_t *part_ends; /* [n_source_parts] where each part ends in these */
  /* With an error. 1: the error is about this text, and another text may work: long_input refuses it, its results are
   * NaN ..; 0: it is about the request's options, the device, memory, or another text of the call. */
  int32_t is_about_text;
  int32_t has_more_source; /* 1: the text is far too long: n_source_tokens counts what was read of it */
} tsr_translation;

/* Frees an answer that is the caller's. Takes NULL. */
TSR_API void tsr_translation_free(tsr_translation *translation);

/* Translates n texts and waits for all. answers [n] receives the answers, each with its own status; the caller frees
 * them. If the queue is full, the call waits for room. Any number of threads. Errors: TSR_ERR_ARGUMENT (an argument is
 * NULL), TSR_ERR_OUT_OF_MEMORY: then there are no answers.
 * With static_batches the texts do not queue. Texts with equal options are searched together, as in tsr_generate. Of
 * several devices, each takes a part of the texts, and another part when it has ended, as much as its speed suggests;
 * it has no other work meanwhile. One that computes on the CPU without being made for it (TSR_DEVICE_SOFTWARE_GPU,
 * TSR_DEVICE_REFERENCE) takes none as long as one that is (TSR_DEVICE_CPU) works. If a device fails, finished texts
 * stay, and the rest goes to the others. Any other error ends the search for all unfinished texts: the text that it is
 * about has the error in its answer, and the others have TSR_ERR_CANCELLED; if it is about no text, all have the error.
 * A text that is cancelled or late leaves without the others. Alternatives are searched on one device: their draws
 * depend on the texts before them. */
TSR_API tsr_status tsr_translator_translate(tsr_translator *translator, int32_t n,
                                            const tsr_translation_request *requests,
                                            tsr_translation **answers) TSR_MUST_CHECK;

/* The same, with the texts searched together as with static_batches, by a translator of either kind. It waits until the
 * batches of a device have ended; until it returns, texts that queue wait.
 *   stop: NULL, or a number that another thread or a signal handler changes from 0 to 1: at the end of a step all
 *         unfinished texts are given up, and have TSR_ERR_CANCELLED. Alternatives are searched to their end. Borrowed
 *         during the call
 * Errors: likewise. */
TSR_API tsr_status tsr_translator_translate_together(tsr_translator *translator, int32_t n,
                                                     const tsr_translation_request *requests,
                                                     const volatile int32_t *stop,
                                                     tsr_translation **answers) TSR_MUST_CHECK;

/* Receives the answer of a text, once. The translation is the library's and ends with the call. Called by threads of
 * the library, several at a time, or by the thread that submits a text without words, cancels or closes. A batch waits
 * for this function, so do long work elsewhere. It may submit and cancel. */
typedef void (*tsr_translation_fn)(void *user, uint64_t ticket, const tsr_translation *translation);

/* Puts a text into the queue and returns. *ticket receives its number, above 0, before the answer can come.
 *   answer: receives the answer, with user; NULL: tsr_translator_wait does
 * What the request points to is not needed after the call. Any number of threads. Errors: TSR_ERR_BUSY (the queue
 * is full), TSR_ERR_ARGUMENT (an option, a language; the text, if long_input says so), TSR_ERR_OUT_OF_MEMORY; then
 * there is no ticket and no answer. */
TSR_API tsr_status tsr_translator_submit(tsr_translator *translator, const tsr_translation_request *request,
                                         tsr_translation_fn answer, void *user, uint64_t *ticket) TSR_MUST_CHECK;

/* Waits for the answer of a text that was submitted without a function. *translation is the caller's; the ticket is
 * void afterwards. Errors: TSR_ERR_ARGUMENT (no such ticket, or another thread waits for it). */
TSR_API tsr_status tsr_translator_wait(tsr_translator *translator, uint64_t ticket,
                                       tsr_translation **translation) TSR_MUST_CHECK;

/* Gives a text up: its answer, which comes soon, is TSR_ERR_CANCELLED, unless the text is finished by then. A void
 * ticket does no harm. */
TSR_API void tsr_translator_cancel(tsr_translator *translator, uint64_t ticket);

/* Waits until every text that was submitted before has its answer. Not from a callback. */
TSR_API void tsr_translator_drain(tsr_translator *translator);

/* What a translator did since it was opened, and what it has to do. Any thread. */
typedef struct tsr_translator_statistics {
  int64_t answered; /* texts, also with an error */
  int64_t failed;   /* of them, those with an error */
  int64_t waiting;  /* parts in the queue */
  int64_t running;  /* parts in batches */
  int64_t joined;   /* parts that joined a running batch */
  int64_t batches;  /* that began */
  int64_t source_tokens;
  int64_t target_tokens;
  int64_t step_runs;
  int64_t encode_runs;
  double step_seconds; /* summed over the threads that search, likewise the next */
  double encode_seconds;
  int64_t rows;    /* texts in a batch, summed over all steps: rows / step_runs of them shared a step */
  int32_t devices; /* that have not failed */
  int32_t workers; /* threads that search */
  /* Of texts that are searched together. */
  double search_seconds;  /* within searches, as a clock on the wall shows them */
  int32_t search_threads; /* that the last one used; 0: there was none */
  int32_t reserved;
} tsr_translator_statistics;
TSR_API void tsr_translator_measure_sized(tsr_translator *translator, tsr_translator_statistics *statistics,
                                          size_t size);
static inline void tsr_translator_measure(tsr_translator *translator, tsr_translator_statistics *statistics)
{
  tsr_translator_measure_sized(translator, statistics, sizeof *statistics);
}

/* A device of a translator's: those that search, in the order of the options, then those that failed and gave their
 * place to another one. */
typedef struct tsr_translator_device {
  char name[64];        /* "vulkan:0" */
  int32_t type;         /* TSR_DEVICE_*; 0 of one that gave its place away */
  int32_t is_lost;      /* 1: it failed */
  int64_t bytes_in_use; /* memory that it holds for the translator */
} tsr_translator_device;

/* *info is filled. index: from 0. Any thread; waits while the translator looks for another device in the place of one
 * that failed, and for a run. Errors: TSR_ERR_ARGUMENT (there are no more), those of tsr_device_get_counters. */
TSR_API tsr_status tsr_translator_get_device_sized(tsr_translator *translator, int32_t index,
                                                   tsr_translator_device *info, size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_translator_get_device(tsr_translator *translator, int32_t index,
                                                                  tsr_translator_device *info)
{
  return tsr_translator_get_device_sized(translator, index, info, sizeof *info);
}

#ifdef __cplusplus
}
#endif
#endif
