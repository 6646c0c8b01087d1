/* SPDX-License-Identifier: Apache-2.0
 *
 * A model on a device, as core/generate sees it: compiled programs by their key, and the states that they share.
 */
#ifndef TESSERA_CORE_TRANSFORMER_TRANSFORMER_H
#define TESSERA_CORE_TRANSFORMER_TRANSFORMER_H

#include "core/runtime/fault.h"
#include "core/transformer/programs.h"
#include "core/transformer/split.h"
#include "tessera/inspect.h"

typedef struct tsr_ahead tsr_ahead;

/* A program compiled for the transformer's device. */
typedef struct tsr_compiled {
  tsr_program_key key;
  tsr_executable *executable;
  tsr_ahead *ahead; /* with key.ahead, where it pays: owns the executable, and another one (ahead.h); else NULL */
  uint64_t used;    /* when it was asked for last, in calls */
  tsr_program_refs refs;
  tsr_program *program; /* where the key has taps, to find them by name, or times are kept; else NULL */
  uint64_t *times;      /* with options.profile: [2][lines], nanoseconds summed over the runs, and room; else NULL */
  int64_t runs;         /* with options.profile */
  double shares;        /* likewise: of the runs, summed */
} tsr_compiled;

/* The keys and values of one kind of attention, all decoder layers: buffers that every program is bound to. They grow
 * and are never cleared: what a batch leaves behind is masked in the next. */
typedef struct tsr_state_pool {
  const char *part;     /* "self_attention" or "cross_attention" */
  tsr_buffer **buffers; /* [2 * decoder_layers]: keys, values of each layer */
  int64_t rows;         /* room of each, in rows of H*K */
} tsr_state_pool;

/* What generating took since the transformer was created. */
typedef struct tsr_work {
  int64_t sentences;
  int64_t source_tokens;
  int64_t target_tokens;
  int64_t encode_runs;
  int64_t step_runs;
  double encode_seconds;
  double step_seconds;
} tsr_work;

/* What programs took that are compiled no more, and all of them around their lines. */
typedef struct tsr_times {
  tsr_profile_row *rows; /* [n]; labels are of their own */
  int32_t n;
  int32_t room;
  int32_t failed; /* 1: memory ran out for a row */
  int64_t runs;
  int64_t compiled;
  double run_seconds;
  double compile_seconds;
} tsr_times;

/* Siblings share the weights of the first, which the caller made; the rest is each one's own, so that each may be used
 * by another thread. */
struct tsr_transformer {
  const tsr_model *model;
  tsr_device *device; /* the first of the next, which are usually one */
  tsr_device *devices[TSR_MOST_DEVICES];
  int32_t n_devices;
  tsr_split split; /* over the devices */
  tsr_transformer_options options;
  tsr_dtype states;        /* type of the keys and values that are kept, and of a shortlist */
  tsr_buffer **parameters; /* [parameter count] */
  tsr_buffer **scales;     /* [parameter count]: of those that are kept as i8 or in four bits; others NULL */
  tsr_buffer *positions;   /* the computed table, or NULL */
  tsr_buffer *one;
  tsr_buffer *shortlist; /* each sibling's own, likewise the next: weights of the chosen tokens' logits */
  int64_t shortlist_rows;
  tsr_state_pool cross;
  tsr_state_pool self;
  tsr_compiled **compiled; /* [options.cache]; NULL: free */
  int32_t *alignment;      /* [n_alignment][2] each sibling's own: of programs whose key has an alignment */
  int32_t n_alignment;
  uint64_t calls;
  tsr_work work;
  tsr_times times;
  tsr_transformer **siblings; /* [n_siblings], the first's, itself left out */
  int32_t n_siblings;
  double generate_seconds;  /* the first's: within tsr_generate */
  int32_t generate_workers; /* likewise: of the last call */
};

/* Makes and fills the buffers of all constants. */
tsr_status tsr_transformer_upload(tsr_transformer *transformer) TSR_MUST_CHECK;

/* Where a parameter lies, and where what all layers share does. */
tsr_device *tsr_transformer_parameter_device(const tsr_transformer *transformer, int32_t parameter);
tsr_device *tsr_transformer_tables_device(const tsr_transformer *transformer);

/* Bytes of the weights on the devices. */
int64_t tsr_transformer_weights_size(const tsr_transformer *transformer);

/* Sibling number `index` of a first one, from 0, which is the first itself; made when it does not exist yet. It is
 * destroyed with the first. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_transformer_sibling(tsr_transformer *first, int32_t index, tsr_transformer **sibling) TSR_MUST_CHECK;

/* The compiled program of that key, from the cache or built now. It stays valid until the call after the next one with
 * another key. Makes room in the states first, which may drop compiled programs. */
tsr_status tsr_transformer_compile(tsr_transformer *transformer, const tsr_program_key *key,
                                   tsr_compiled **compiled) TSR_MUST_CHECK;

/* The heads whose weights programs with a key.alignment keep: pairs [n][2] of layer and head, which are copied.
 * Programs that were compiled for others are dropped. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_transformer_align(tsr_transformer *transformer, const int32_t *heads, int32_t n) TSR_MUST_CHECK;

/* What a program is bound to beside weights and states; borrowed during the call. */
typedef struct tsr_own_bindings {
  const tsr_binding *bindings; /* [n] */
  int32_t n;
  tsr_buffer *arena; /* of tsr_compile_options; or NULL */
} tsr_own_bindings;

/* An executable of a program of this transformer. own: or NULL. keep_all: of tsr_compile_options. */
tsr_status tsr_transformer_executable(tsr_transformer *transformer, const tsr_program *program,
                                      const tsr_own_bindings *own, int32_t keep_all,
                                      tsr_executable **executable) TSR_MUST_CHECK;

/* ---- looking for NaN ---- */

/* Makes a program with all that it computes kept, for the states that a compiled one of the same key has used: to be
 * run once more. *again is to be finished by tsr_transformer_again_finish, also after an error. */
tsr_status tsr_transformer_again(tsr_transformer *transformer, const tsr_program_key *key,
                                 tsr_compiled *again) TSR_MUST_CHECK;
void tsr_transformer_again_finish(tsr_compiled *again); /* takes a zeroed one */

/* Writes what a program reads that runs once more. */
typedef tsr_status (*tsr_write_inputs_fn)(const tsr_compiled *again, void *user);

/* A step of the decoder that gave NaN, and how it runs once more. */
typedef struct tsr_nan_step {
  const char *when;                 /* "at step 5" */
  const tsr_compiled *ran;          /* with what it read */
  tsr_write_inputs_fn write_step;   /* what the step wrote its results over; NULL: nothing */
  const tsr_program_key *encoder;   /* that ran before the step */
  tsr_write_inputs_fn write_source; /* what the encoder read */
  void *user;
} tsr_nan_step;

/* Runs the step once more, and the encoder where the NaN may come from there, and looks for the line that made it:
 * TSR_ERR_NOT_FINITE, with a message that names the device, the line and what to do. */
tsr_status tsr_transformer_not_finite(tsr_transformer *transformer, const tsr_nan_step *step) TSR_MUST_CHECK;

/* Runs a compiled program and keeps the times of its lines, if the transformer is to. share: of the positions of its
 * cache, those in use; 1 without a cache. */
tsr_status tsr_transformer_run(tsr_transformer *transformer, tsr_compiled *compiled, double share) TSR_MUST_CHECK;

/* Times of lines: room for them in a compiled program; adding what one took to the rest, before it is dropped. */
tsr_status tsr_times_start(tsr_compiled *compiled) TSR_MUST_CHECK;
void tsr_times_keep(tsr_times *times, tsr_compiled *compiled);
void tsr_times_finish(tsr_times *times);

/* A batch for teacher forcing. */
typedef struct tsr_forward {
  tsr_program_size size;
  int32_t taps;          /* bits TSR_INSPECT_* */
  const int32_t *source; /* [B, S]; of a model of speech NULL, likewise the next */
  const int32_t *source_lengths;
  const float *features; /* [B, M, 2 S], of a model of speech; else NULL */
  const int32_t *target; /* [B, L], or NULL */
} tsr_forward;

/* n windows of features [n, M, 2 S] are finite numbers. Errors: TSR_ERR_ARGUMENT, naming mel and frame; with more than
 * one window, the window, too. */
tsr_status tsr_features_check(const tsr_transformer_config *config, int32_t n, const float *features) TSR_MUST_CHECK;

/* Errors: TSR_ERR_ARGUMENT. */
tsr_status tsr_forward_check(const tsr_transformer *t, const tsr_forward *forward) TSR_MUST_CHECK;

/* Each runs its program; *compiled holds the results. The decoder's needs the encoder's to have run. */
tsr_status tsr_forward_encode(tsr_transformer *t, const tsr_forward *forward, tsr_compiled **compiled) TSR_MUST_CHECK;
tsr_status tsr_forward_decode(tsr_transformer *t, const tsr_forward *forward, tsr_compiled **compiled) TSR_MUST_CHECK;

/* Before a batch: makes room for B*S rows of cross-attention and R*C rows of cache, so that compiling its programs
 * drops none of them. */
tsr_status tsr_transformer_reserve(tsr_transformer *transformer, int64_t cross_rows, int64_t cache_rows) TSR_MUST_CHECK;

/* Copies the first `used` of `capacity` positions of `n` rows of a state, through the host: row from + i to row to +
 * i. */
tsr_status tsr_transformer_copy_rows(const tsr_transformer *transformer, const tsr_state_pool *pool, int64_t capacity,
                                     int64_t used, int64_t from, int64_t to, int64_t n) TSR_MUST_CHECK;

/* Moves a cache [batch * beam, from, ..] to where one of [batch * beam, to, ..] has its positions, on the device; those
 * behind `from` hold anything. May drop compiled programs. */
tsr_status tsr_transformer_grow_cache(tsr_transformer *transformer, int32_t batch, int32_t beam, int32_t from,
                                      int32_t to) TSR_MUST_CHECK;

/* The same for the states of cross-attention, [batch, from, ..] to [batch, to, ..]. */
tsr_status tsr_transformer_grow_cross(tsr_transformer *transformer, int32_t batch, int32_t from,
                                      int32_t to) TSR_MUST_CHECK;

#endif
