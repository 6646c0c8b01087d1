/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/inspect.h: looking into a model: its hidden states, its attention, and the time of its operators.
 */
#ifndef TESSERA_INSPECT_H
#define TESSERA_INSPECT_H

#include "tessera/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What can be inspected, as bits to combine, and the names of the tensors; the decoder's begin with "decoder". */
enum {
  /* "encoder.hidden.0" .. "encoder.hidden.N" of N layers, [B, S, D]: the embeddings, then what each layer gives, the
   * last one after the final norm, if there is one. */
  TSR_INSPECT_HIDDEN = 1,
  /* "encoder.layers.0.self_attention.weights" and so on, [B, H, query, key]; each row's sum is 1. */
  TSR_INSPECT_SELF_ATTENTION = 2,
  /* "decoder.layers.0.cross_attention.weights" and so on, [B, H, query, key]; keys are the source's tokens. */
  TSR_INSPECT_CROSS_ATTENTION = 4,
  /* "encoder.embedding", then "encoder.layers.0" and so on: what each layer gives, [B, S, D]. */
  TSR_INSPECT_LAYERS = 8,
  /* "encoder.layers.0.self_attention_norm" and so on, "encoder.norm": what each norm gives, [B, S, D]. */
  TSR_INSPECT_NORMS = 16,
  /* "encoder.layers.0.self_attention_sum" and so on: the sums of what goes around a sublayer and what it gives, before
   * a norm that follows, [B, S, D]. */
  TSR_INSPECT_SUMS = 32,
  /* "NAME.input" of each matrix NAME of the model, [B, S, its columns]: what is multiplied with it. */
  TSR_INSPECT_INPUTS = 64,
  /* Of a model of speech: "encoder.conv1" [B, 2 S, D] and "encoder.conv2" [B, S, D]: what each of the convolutions
   * gives, with its activation. */
  TSR_INSPECT_CONVOLUTIONS = 128
};

typedef struct tsr_inspected {
  const char *name;    /* as told above */
  tsr_shape shape;     /* [B, S or L, D], or [B, H, query, key] */
  const float *values; /* row-major; what belongs to positions beyond a source's length is 0 */
} tsr_inspected;

/* In the order in which a forward pass makes them. */
typedef struct tsr_inspection {
  int32_t n;
  tsr_inspected *tensors; /* [n] */
} tsr_inspection;

/* Runs teacher forcing, like tsr_transformer_forward, and gives the tensors that were asked for.
 *   what    bits TSR_INSPECT_*
 *   source  ignored by a decoder alone
 *   target  [B, L]; NULL: only the encoder runs
 * *inspection is filled; the caller finishes it. On an error it is empty. Its tensors take memory on the device for as
 * long as the compiled programs are kept. One thread at a time per transformer. Errors: TSR_ERR_ARGUMENT, the
 * runtime's. */
TSR_API tsr_status tsr_transformer_inspect(tsr_transformer *transformer, int32_t what, int32_t n_batch,
                                           int32_t n_source, const int32_t *source, const int32_t *source_lengths,
                                           int32_t n_target, const int32_t *target,
                                           tsr_inspection *inspection) TSR_MUST_CHECK;

/* The same for a model of speech. features: as of tsr_transformer_forward_features. */
TSR_API tsr_status tsr_transformer_inspect_features(tsr_transformer *transformer, int32_t what, int32_t n_batch,
                                                    const float *features, int32_t n_target, const int32_t *target,
                                                    tsr_inspection *inspection) TSR_MUST_CHECK;
TSR_API void tsr_inspection_finish(tsr_inspection *inspection); /* takes NULL */

/* The tensor of that name, or NULL. */
TSR_API const tsr_inspected *tsr_inspection_find(const tsr_inspection *inspection, const char *name);

/* The time of the lines of one kind, summed over runs and over programs of several sizes. Lines that a backend computes
 * as one share the time in proportion to their arithmetic and traffic. */
typedef struct tsr_profile_row {
  int32_t kind;      /* TSR_PROGRAM_*, or a larger number: programs that move caches, lengthen or fill them */
  int32_t op;        /* TSR_OP_* */
  const char *label; /* the scopes of the lines: "decoder.layers.0.feed_forward" */
  int64_t runs;      /* of lines */
  double seconds;    /* on the device */
  double flops;      /* floating-point operations: padding is counted; of a cache, only the positions in use */
  double bytes;      /* read and written, likewise, each operand once per line */
} tsr_profile_row;

typedef struct tsr_profile {
  int32_t n;
  tsr_profile_row *rows;  /* [n], in the order in which they ran first */
  int64_t runs;           /* of programs, of all kinds */
  int64_t compiled;       /* programs */
  double run_seconds;     /* a clock's on the wall, around the runs: the rows', handing over, waiting, reading times */
  double compile_seconds; /* likewise */
} tsr_profile;

/* The times of a transformer's programs since it was created with options.profile, including those of tsr_generate's
 * threads. *profile is filled; the caller finishes it. Not while the transformer is in use. Errors: TSR_ERR_ARGUMENT
 * (no times were measured), TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_transformer_profile(tsr_transformer *transformer, tsr_profile *profile) TSR_MUST_CHECK;
TSR_API void tsr_profile_finish(tsr_profile *profile); /* takes NULL */

#ifdef __cplusplus
}
#endif
#endif
