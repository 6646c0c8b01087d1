/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of a Transformer as lines of a program. One implementation serves every family: the configuration decides.
 *
 * Activations are kept as [T, D], T = B*L rows, so that each product is one large one; only attention looks at B and L.
 */
#ifndef TESSERA_CORE_TRANSFORMER_LAYERS_H
#define TESSERA_CORE_TRANSFORMER_LAYERS_H

#include "core/transformer/model.h"
#include "tessera/autodiff.h"
#include "tessera/inspect.h"
#include "tessera/ops.h"
#include "tessera/train.h"

/* What a program for training needs beside the layers; grows while they are built. */
typedef struct tsr_builder_training {
  tsr_ref seed;             /* [2] i32, of the dropout */
  float dropout;            /* rates: of embeddings and of what each sublayer adds */
  float attention_dropout;  /* of the attention's weights */
  float activation_dropout; /* after the activation of the feed-forward blocks */
  int32_t stream;           /* of the next dropout */
  tsr_dtype products;       /* type in which products read the matrices */
  tsr_line_range *layers;   /* [n_layers]: the lines of each layer so far; the room is all layers */
  int32_t n_layers;
} tsr_builder_training;

/* What does not change while one program is built. */
typedef struct tsr_builder {
  tsr_program *program;
  const tsr_model *model;
  tsr_dtype weights;              /* type of the matrices; 0: as stored */
  tsr_dtype states;               /* of the keys and values that are kept, and of a shortlist; 0: f32 */
  tsr_builder_training *training; /* NULL: the parameters are constants; else states of f32, and there is dropout */
  int32_t taps;                   /* bits TSR_INSPECT_*: what becomes an output, too, under the name told there */
  const int32_t *alignment;       /* [n_alignment][2] layer and head, from 0: of a program with a key.alignment */
  int32_t n_alignment;
} tsr_builder;

/* One of the two stacks. */
typedef struct tsr_stack {
  const char *name; /* "encoder" */
  int32_t decoder;  /* 1: with cross-attention */
  int32_t width;    /* D */
  int32_t layers;
  int32_t heads;     /* H */
  int32_t key_heads; /* of keys and values; a divisor of H */
  int32_t head_size; /* K */
  int32_t vocabulary;
} tsr_stack;

tsr_stack tsr_stack_encoder(const tsr_transformer_config *config);
tsr_stack tsr_stack_decoder(const tsr_transformer_config *config);

/* How the queries of self-attention see the keys. */
typedef struct tsr_self_attention {
  int64_t batch;    /* B; in a step with a cache: its rows R */
  int64_t queries;  /* L; in a step: 1 */
  int32_t causal;   /* 1: decoder */
  int64_t capacity; /* C: positions of the cache; 0: no cache, the queries are the keys */
  tsr_ref lengths;  /* [B] i32, or TSR_NONE */
  tsr_ref position; /* [1] i32: where the queries stand in the cache; without a cache: TSR_NONE */
  tsr_ref rows;     /* [R, C] i32, or TSR_NONE: the cache row that holds each past position */
  int64_t kept;     /* N: without a cache to read, keys and values are kept at the beginning of one that has N rows a
                       sentence and `room` positions; 0: they are not */
  int64_t room;
  int32_t kept_rows; /* in the first so many of a sentence's rows */
} tsr_self_attention;

/* How the queries of cross-attention see the encoder's output. */
typedef struct tsr_cross_attention {
  int64_t batch;        /* B */
  int64_t queries;      /* L; in a step of beam search: N */
  int64_t keys;         /* S */
  tsr_ref lengths;      /* [B] i32 */
  tsr_ref encoded;      /* [B*S, D]: the encoder's output; TSR_NONE: keys and values are in states already */
  int32_t shown;        /* the layer, from 1, whose weights, summed over the heads, become the output "attention",
                      [B, 1, L, S]; 0: none */
  uint32_t shown_heads; /* bits of these heads; 0: all */
  tsr_ref *attention;   /* receives that output */
  tsr_ref aligned;      /* a state [B, L, P, S] that receives the weights of the builder's heads; or TSR_NONE */
} tsr_cross_attention;

/* The constant [1] i32 that counts steps. */
#define TSR_ONE_NAME "one"

/* Embedding of ids [B, L] at positions 0 .. L-1 -> [B*L, D]. */
tsr_ref tsr_build_embedding(const tsr_builder *b, const tsr_stack *stack, tsr_ref ids, int64_t batch, int64_t length);

/* What the encoder of a model of speech makes of features [B, M, 2 S], S of its positions or fewer: two convolutions,
 * then positions -> [B*S, D]. */
tsr_ref tsr_build_speech_embedding(const tsr_builder *b, const tsr_stack *stack, tsr_ref features);

/* Embedding of ids [R] at `position` [1] i32, all, or [R], each at its own -> [R, D]. */
tsr_ref tsr_build_step_embedding(const tsr_builder *b, const tsr_stack *stack, tsr_ref ids, tsr_ref position);

/* All layers of a stack and its final norm: x [T, D] -> [T, D]. cross: NULL for the encoder. */
tsr_ref tsr_build_stack(const tsr_builder *b, const tsr_stack *stack, tsr_ref x, const tsr_self_attention *self,
                        const tsr_cross_attention *cross);

/* Where the keys and values of cross-attention go. */
typedef struct tsr_cross_states {
  int64_t batch;  /* B */
  int64_t keys;   /* S */
  int64_t room;   /* positions of a sentence in the states, S or more */
  int64_t joined; /* sentences of the states; 0: B */
  tsr_ref places; /* with joined: [B] i32, where each sentence begins: its number in the states times room */
} tsr_cross_states;

/* Writes the keys and values of each decoder layer's cross-attention, from the encoder's output x [B*S, D], into the
 * first S of the positions that each sentence has. */
void tsr_build_cross_states(const tsr_builder *b, tsr_ref x, const tsr_cross_states *states);

/* What is added to logits [T, V]: zeros and -inf. */
typedef struct tsr_logits_mask {
  tsr_ref values; /* [n, V], or TSR_NONE: nothing */
  tsr_ref rows;   /* i32 [T] or [1]: which row of them; or TSR_NONE: n is 1 or T */
} tsr_logits_mask;

/* Logits: x [T, D] -> [T, V]. mask: or NULL.
 * chosen [K] i32: of these tokens alone, in their order: [T, K], from the rows that tsr_build_shortlist has kept; or
 * TSR_NONE. */
tsr_ref tsr_build_logits(const tsr_builder *b, tsr_ref x, const tsr_logits_mask *mask, tsr_ref chosen);

/* The type of the states. */
tsr_dtype tsr_builder_states(const tsr_builder *b);

/* Keeps the rows of the logits' weights that belong to the chosen tokens [K] i32 in a state, [K, D]. */
void tsr_build_shortlist(const tsr_builder *b, tsr_ref chosen);

/* That state's name. */
#define TSR_SHORTLIST_NAME "shortlist"

/* States by name: part is "cross_attention" or "self_attention", what "keys" or "values". Writes into name (at least 96
 * bytes) and returns it. */
char *tsr_state_name(char *name, int32_t layer, const char *part, const char *what);

#endif
