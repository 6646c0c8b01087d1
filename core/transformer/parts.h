/* SPDX-License-Identifier: Apache-2.0
 *
 * What lines of sublayers are made of: parameters in whatever type they are kept, products, norms, names.
 */
#ifndef TESSERA_CORE_TRANSFORMER_PARTS_H
#define TESSERA_CORE_TRANSFORMER_PARTS_H

#include "core/transformer/model.h"
#include "tessera/autodiff.h"
#include "tessera/inspect.h"
#include "tessera/ops.h"
#include "tessera/train.h"

/* Room for the name of a part of a layer, such as "decoder.layers.11.cross_attention_post_norm". */
enum { TSR_PART_NAME_ROOM = 96 };

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

/* The type of the states. */
tsr_dtype tsr_builder_states(const tsr_builder *b);

/* The attribute reduced_precision of attention: to what it may round its factors. bf16 has too few bits for a model
 * that only translates to gain by it; in training the products around attention round to it anyway. */
int32_t tsr_builder_reduced_attention(const tsr_builder *b);

/* Opens a scope for each part of a dotted path. Returns their number, for tsr_builder_close_scopes. */
int32_t tsr_builder_open_scopes(const tsr_builder *b, const char *path);
void tsr_builder_close_scopes(const tsr_builder *b, int32_t n);

/* Makes x an output of that name, if the program is to hand out such tensors: `what` is TSR_INSPECT_*. */
void tsr_build_tap(const tsr_builder *b, int32_t what, tsr_ref x, const char *format, ...) TSR_PRINTF(4, 5);

/* The constant of that name, made when it is first asked for; TSR_NONE if the model has no such parameter. */
tsr_ref tsr_build_parameter(const tsr_builder *b, const char *format, ...) TSR_PRINTF(2, 3);

/* A number, [1], that the model has among its parameters. */
tsr_ref tsr_build_number(const tsr_builder *b, double value);

/* x with a part of its elements dropped, in training. */
tsr_ref tsr_build_dropped(const tsr_builder *b, tsr_ref x, float rate);

/* Rows of a table of `width` in whatever type it is kept, [.., D]. padding: as of tsr_embedding_padded. */
tsr_ref tsr_build_rows(const tsr_builder *b, tsr_ref table, int32_t width, tsr_ref ids, float alpha, int32_t padding);

/* y = activation(x). */
tsr_ref tsr_build_activated(const tsr_builder *b, tsr_ref x, int32_t activation);

/* y = activation(alpha x W^T + bias), W [out, in] in whatever type it is kept. The activation is an operator's. */
tsr_ref tsr_build_product(const tsr_builder *b, tsr_ref x, tsr_ref weight, tsr_ref bias, float alpha,
                          int32_t activation);

/* y = activation(x W^T + b), W and b being NAME.weight and NAME.bias under `prefix`. */
tsr_ref tsr_build_linear(const tsr_builder *b, tsr_ref x, const char *prefix, const char *name, int32_t activation);

/* The model's norm of x, gain and bias being NAME.weight and NAME.bias under `prefix`. */
tsr_ref tsr_build_norm(const tsr_builder *b, tsr_ref x, const char *prefix, const char *name);

#endif
