/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/transformer.h: encoder-decoder Transformers: a model as it lies on disk, and a model on a device.
 *
 * One configuration struct describes every family. A family is a reader of its config file and a map of tensor names,
 * without layers of its own. Everything is built from the operators.
 */
#ifndef TESSERA_TRANSFORMER_H
#define TESSERA_TRANSFORMER_H

#include "tessera/checkpoint.h"
#include "tessera/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values of the configuration's fields. */
enum { TSR_NORM_LAYER = 1, TSR_NORM_RMS = 2, TSR_NORM_LAYER_STD = 3 }; /* LAYER_STD: tsr_layernorm_std */
/* x = norm(x + f(x)); x = x + f(norm(x)); and x = x + norm'(f(norm(x))), of two norms a sublayer (Gemma 2) */
enum { TSR_NORM_POST = 1, TSR_NORM_PRE = 2, TSR_NORM_SANDWICH = 3 };
enum {
  TSR_POSITION_NONE = 0,
  TSR_POSITION_SINUSOID_HALVES = 1,      /* sines in the first half of a row, cosines in the second (Marian) */
  TSR_POSITION_SINUSOID_INTERLEAVED = 2, /* sines in even columns, cosines in odd ones (Vaswani et al. 2017) */
  TSR_POSITION_LEARNED = 3,              /* a table in the checkpoint */
  TSR_POSITION_RELATIVE = 4,             /* a bias on the scores (T5) */
  /* Halves as well, but the frequencies run down to 1/10000 itself, 10000^(-i / (D/2 - 1)), rounded to f32; D odd: the
   * last column is zero (tensor2tensor; M2M100). */
  TSR_POSITION_SINUSOID_TENSOR2TENSOR = 5,
  /* A bias on the scores of self-attention, one for each head and each distance from -relative_distance to
   * relative_distance, to which all others are clamped (tsr_masking.clamped). */
  TSR_POSITION_RELATIVE_CLAMPED = 6,
  /* Vectors in self-attention, one for each distance from -relative_distance to relative_distance, to which all others
   * are clamped: added to the keys, and others to the values (Shaw et al. 2018, arXiv:1803.02155). Models of
   * CTranslate2. */
  TSR_POSITION_RELATIVE_VECTORS = 7,
  /* Queries and keys of self-attention are rotated (Su et al. 2021, arXiv:2104.09864): columns i of the first and the
   * second half of a head, as a pair, by the angle position * rotary_theta^(-2i / K), K the head size. */
  TSR_POSITION_ROTARY = 8
};

/* Activations of models that no operator has; they are composed of several operators. */
enum {
  TSR_ACTIVATION_COMPOSED = 64,     /* the first of them */
  TSR_ACTIVATION_GELU_SIGMOID = 64, /* x / (1 + exp(-1.702 x)) */
  TSR_ACTIVATION_TANH = 65,
  TSR_ACTIVATION_SIGMOID = 66
};

typedef struct tsr_transformer_config {
  uint32_t struct_size;
  char family[32];           /* model_type of config.json: "marian", "t5", "nn_transformer", .. */
  int32_t d_model;           /* D; the decoder's, if encoder_d_model says another */
  int32_t encoder_layers;    /* 0: no encoder */
  int32_t decoder_layers;    /* 0: no decoder */
  int32_t encoder_heads;     /* H of the encoder */
  int32_t decoder_heads;     /* H of the decoder's self- and cross-attention */
  int32_t encoder_head_size; /* K; usually D / H */
  int32_t decoder_head_size;
  int32_t encoder_d_ff; /* F */
  int32_t decoder_d_ff;
  int32_t source_vocabulary; /* V of the encoder's embedding; 0: it has none */
  int32_t target_vocabulary; /* V of the decoder's embedding and of the logits */
  int32_t max_positions;     /* longest sequence, in tokens */
  int32_t norm;              /* TSR_NORM_LAYER, TSR_NORM_RMS or TSR_NORM_LAYER_STD */
  int32_t norm_position;     /* TSR_NORM_POST or TSR_NORM_PRE */
  int32_t final_norm;        /* 1: a norm after the last layer of each stack */
  int32_t embedding_norm;    /* 1: a norm after the embedding of each stack */
  int32_t activation;        /* TSR_ACTIVATION_* of the feed-forward blocks */
  int32_t gated;             /* 1: activation(x W0) * (x W1) */
  int32_t position;          /* TSR_POSITION_* */
  int32_t position_offset;   /* row of the position table for the first token; number of its position */
  int32_t relative_buckets;  /* with TSR_POSITION_RELATIVE */
  int32_t relative_distance; /* with TSR_POSITION_RELATIVE, _RELATIVE_CLAMPED and _RELATIVE_VECTORS */
  int32_t relative_layers;   /* 1: each layer has a table of its own (UMT5); 0: each stack has one */
  int32_t attention_bias;    /* 1: the attention's projections have biases */
  int32_t feed_forward_bias; /* 1: the feed-forward block's have, and norms that can have one */
  int32_t logits_bias;       /* 1: the logits have a bias */
  int32_t shared_embedding;  /* 1: encoder and decoder share one table */
  int32_t tied_logits;       /* 1: the logits' weights are the decoder's embedding */
  float embedding_scale;     /* factor of an embedding row */
  float attention_scale;     /* factor of the scores; 0: one over the root of the head size */
  float logits_scale;        /* factor of the decoder's output before the logits */
  float epsilon;             /* of the norms */
  int32_t pad_id;            /* token ids; -1: none */
  int32_t bos_id;
  int32_t eos_id;
  int32_t unk_id;
  int32_t decoder_start_id;
  /* A model of speech: its encoder reads features of sound in the place of tokens, M of each frame, in windows of
   * 2 * source_positions frames, and gives source_positions positions, one for two frames (two convolutions; Radford et
   * al. 2022, arXiv:2212.04356). It has no source_vocabulary; max_positions is the decoder's. 0: the encoder reads
   * tokens. */
  int32_t mels;             /* M */
  int32_t source_positions; /* S; 0 with 0 mels */
  /* Heads of keys and values, each of which several heads of queries share (grouped queries; Ainslie et al. 2023,
   * arXiv:2305.13245): a divisor of the heads; 0: as many as there are heads. */
  int32_t encoder_key_heads;
  int32_t decoder_key_heads; /* of self- and cross-attention */
  /* W: self-attention sees keys at less than this distance, in all layers but every window_period-th, which sees all.
   * 0: all see all. */
  int32_t window;
  int32_t window_period;   /* with window: 0: every layer has the window */
  float rotary_theta;      /* with TSR_POSITION_ROTARY */
  float attention_softcap; /* c: scores become c tanh(score / c) before the masking (Gemma 2); 0: none */
  float logits_softcap;    /* the same of the logits */
  /* D of the encoder, with TSR_POSITION_ROTARY and tables of embeddings of their own; 0: d_model. Its embedding_scale
   * is multiplied by the root of encoder_d_model / d_model. */
  int32_t encoder_d_model;
} tsr_transformer_config;
TSR_SIZED_PIN(tsr_transformer_config, encoder_d_model, 220);

/* ------------------------------------------------------------------------------------------------------------------
 * A model on disk
 */
typedef struct tsr_model tsr_model;

/* Opens a model folder (config.json and, if there, model.safetensors, mapped, not copied), a folder of CTranslate2, or
 * a package of Argos, as a folder or a file. The model never changes afterwards: any number of threads may use it.
 * *model is the caller's until tsr_model_close. Errors: TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED (a family or an
 * option that this build does not know), each naming the file and the key or tensor. */
TSR_API tsr_status tsr_model_open(const char *folder, tsr_model **model) TSR_MUST_CHECK;

/* Makes a model that is not on disk yet, of the family that config->family names ("marian", "t5", ..). It has no folder
 * ("") and no weights. A head size of 0 means d_model / heads, and a decoder_start_id of -1 the family's usual one. The
 * configuration is copied. The family's own config.json must be able to express it: a Marian model with rmsnorm, for
 * example, is refused. *model as above. Errors: TSR_ERR_ARGUMENT (a field out of range), TSR_ERR_UNSUPPORTED (a field
 * that the family does not express), each naming the field; TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_model_create(const tsr_transformer_config *config, tsr_model **model) TSR_MUST_CHECK;
TSR_API void tsr_model_close(tsr_model *model); /* takes NULL; no transformer made from it is left */

TSR_API const tsr_transformer_config *tsr_model_config(const tsr_model *model);
TSR_API const char *tsr_model_folder(const tsr_model *model); /* as it was opened; "" for one that was created */

/* The files of the weights; they live as long as the model. NULL without weights. Any thread. */
TSR_API const tsr_checkpoint *tsr_model_checkpoint(const tsr_model *model);

/* 1 if the folder holds weights; without them a model can be described, not run. */
TSR_API int tsr_model_has_weights(const tsr_model *model);

/* Returns an error if the model has no weights: TSR_ERR_IO, naming the folder, or TSR_ERR_ARGUMENT (the model was
 * created from a configuration). */
TSR_API tsr_status tsr_model_check_weights(const tsr_model *model) TSR_MUST_CHECK;

/* The parameters, as the configuration implies them, in a fixed order. */
typedef struct tsr_parameter_info {
  const char *name; /* "encoder.layers.0.self_attention.qkv.weight"; lives as long as the model */
  tsr_shape shape;
  tsr_dtype dtype;  /* as stored; 0 without weights */
  int32_t n_pieces; /* 0 without weights */
} tsr_parameter_info;
TSR_API int32_t tsr_model_parameter_count(const tsr_model *model);
TSR_API tsr_status tsr_model_parameter_sized(const tsr_model *model, int32_t index, tsr_parameter_info *info,
                                             size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_model_parameter(const tsr_model *model, int32_t index,
                                                            tsr_parameter_info *info)
{
  return tsr_model_parameter_sized(model, index, info, sizeof *info);
}

/* Where elements of a parameter come from: the pieces, one after the other, make the parameter, row-major. */
typedef struct tsr_parameter_piece {
  const char *tensor; /* its name in the checkpoint, which lives as long as the model; NULL: every element is `fill` */
  int64_t first;      /* elements first .. first+count-1 of that tensor */
  int64_t count;
  int32_t transposed; /* 1: of the tensor with its last two axes exchanged */
  float fill;
  float plus; /* a number that is added to each element of the tensor */
} tsr_parameter_piece;
TSR_API tsr_status tsr_model_parameter_piece_sized(const tsr_model *model, int32_t index, int32_t piece,
                                                   tsr_parameter_piece *info, size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_model_parameter_piece(const tsr_model *model, int32_t index, int32_t piece,
                                                                  tsr_parameter_piece *info)
{
  return tsr_model_parameter_piece_sized(model, index, piece, info, sizeof *info);
}

/* Puts elements first .. first+count-1 of parameter number `parameter` into `elements`. */
typedef tsr_status (*tsr_parameter_source_fn)(void *context, int32_t parameter, int64_t first, int64_t count,
                                              float *elements);

/* How a model is written. The dropouts are those of the training: they are only noted, for later training. */
typedef struct tsr_save_options {
  uint32_t struct_size;
  tsr_dtype storage; /* of every tensor: TSR_F32, TSR_F16 or TSR_BF16; 0: TSR_F32. Or TSR_I8 or TSR_I4, of every matrix,
                         as tsr_model_save_weights has it */
  int32_t beam;      /* the beam in generation_config.json; 0: 1 */
  int32_t max_length; /* the same for the output's length, with the start token and </s>; 0: max_positions */
  float dropout;
  float attention_dropout;
  float activation_dropout;
} tsr_save_options;
TSR_SIZED_PIN(tsr_save_options, activation_dropout, 24);

/* Writes config.json, generation_config.json and model.safetensors into a folder, and creates the folder if it is
 * missing. The files are as the family's original writes them: from_pretrained of Hugging Face transformers loads them
 * (4.47 itself cannot load a Marian model with vocabularies of two sizes, 5 can); for nn_transformer, a state dict of
 * torch.nn.Transformer with src_tok_emb, tgt_tok_emb and generator. Tables of sinusoids are not written. The caller
 * writes the tokenizer's files.
 *   read: gives the parameters; NULL: the model's own weights. It is called for pieces, and may be called for the same
 *         parameter again later
 *   options: may be NULL
 * Each file replaces an old one in one step, the weights last: a crash leaves each file whole. The folder may be the
 * model's own. Any thread. Errors: TSR_ERR_ARGUMENT (also for a finite number that the storage type cannot hold, naming
 * the parameter), TSR_ERR_UNSUPPORTED, TSR_ERR_IO, what `read` returns. */
TSR_API tsr_status tsr_model_save(const tsr_model *model, const char *folder, const tsr_save_options *options,
                                  tsr_parameter_source_fn read, void *context) TSR_MUST_CHECK;

/* Writes model.safetensors alone: beside copies of the other files of the model's folder it is the same model, stored
 * in another type: the matrices; all else is F32, as devices keep it. With TSR_I8 a matrix NAME [rows, columns] is
 * whole numbers (I8), and a tensor NAME.scales [rows] (F32) is what 1 is worth in each row, as tsr_embedding_i8 has
 * them. With TSR_I4, NAME [rows, 16 G] (I8) holds four bits a weight, and NAME.scales [rows, G] (F16) what 1 is worth
 * in each group of 32, G = columns / 32, rounded up, as tsr_embedding_i4 has them. Reading such a file with that
 * precision gives the bits that rounding the original gives, unless it was calibrated. The folder is created if it is
 * missing; model.safetensors is replaced in one step.
 *   calibration: with TSR_I4: matrices that it knows are rounded so that what they give is kept close; NULL: every
 *                weight to the nearest number
 * Any thread. Errors: TSR_ERR_ARGUMENT (also for a number that the type cannot hold, naming the parameter),
 * TSR_ERR_UNSUPPORTED (the model is of CTranslate2 or of Marian's npz), TSR_ERR_IO. */
typedef struct tsr_calibration tsr_calibration;
TSR_API tsr_status tsr_model_save_weights(const tsr_model *model, const char *folder, tsr_dtype storage,
                                          const tsr_calibration *calibration) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * A model on a device
 */
typedef struct tsr_transformer tsr_transformer;

/* A way to keep matrices, and no type of tensors: four bits a weight (tsr_matmul_i4). */
enum { TSR_I4 = 32 };

typedef struct tsr_transformer_options {
  uint32_t struct_size;
  /* Storage of the matrices on the device, converted as they are loaded. TSR_F32. TSR_F16, TSR_BF16: the device may
   * round what is multiplied with them to the same type (tsr_matmul_reduced_precision), and with TSR_F16 also the
   * factors of attention. TSR_I8: each row as whole numbers of 1/127 of its largest magnitude; what is multiplied with
   * it is quantised as tsr_matmul_i8 says. TSR_I4: 32 neighbours of a row as whole numbers of -8 .. 7 and a scale of
   * f16, of some the one that leaves the least squared error; what is multiplied with it likewise. 0: as the
   * checkpoint has them, and nothing is rounded. Softmax, norms, and all sums are f32. */
  tsr_dtype weights;
  int32_t strict;       /* as in tsr_compile_options */
  int32_t cache;        /* compiled programs kept; 0: 16 */
  tsr_device *fallback; /* as in tsr_compile_options */
  int32_t workers;      /* batches that tsr_generate computes side by side, each on a thread; 0: as many as the device's
                           concurrent_runs and the number of sentences suggest */
  int32_t profile;      /* 1: measure the times of its programs' lines, for tsr_transformer_profile (inspect.h) */
  /* More devices, each once and of the same runtime, over which the model is split, as tsr_model_get_part says; they
   * outlive the transformer. The list is borrowed during the call. What a device's layers make of a batch goes to the
   * next device by way of the host; the devices work one after the other. */
  tsr_device *const *others;
  int32_t n_others; /* at most 15 */
  int32_t reserved;
} tsr_transformer_options;
TSR_SIZED_PIN(tsr_transformer_options, reserved, 44);

/* What of a model lies on one of the devices that it is split over. A device takes layers that follow each other; the
 * devices' memory decides how many: the weights fill the fullest device as little as they can. */
typedef struct tsr_model_part {
  int64_t weight_bytes;
  int32_t first_encoder_layer; /* from 0 */
  int32_t encoder_layers;      /* 0: none */
  int32_t first_decoder_layer;
  int32_t decoder_layers;
  int32_t has_tables; /* 1: the decoder's embedding and positions, and those that it shares with the encoder */
  int32_t has_logits; /* 1: the logits' weights; a decoder's embedding may be that, too */
} tsr_model_part;

/* What lies on device `index` (from 0) of `devices` [n_devices], 1 to 16. weights: as in tsr_transformer_options. No
 * weights are needed or loaded. Any thread. Errors: TSR_ERR_ARGUMENT, TSR_ERR_DEVICE_MEMORY (the weights are larger
 * than the devices' memory). */
TSR_API tsr_status tsr_model_get_part_sized(const tsr_model *model, tsr_dtype weights, tsr_device *const *devices,
                                            int32_t n_devices, int32_t index, tsr_model_part *part,
                                            size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_model_get_part(const tsr_model *model, tsr_dtype weights,
                                                           tsr_device *const *devices, int32_t n_devices, int32_t index,
                                                           tsr_model_part *part)
{
  return tsr_model_get_part_sized(model, weights, devices, n_devices, index, part, sizeof *part);
}

/* Bytes of a model's weights on a device. weights: as in tsr_transformer_options. model: not NULL. Any thread. */
TSR_API int64_t tsr_model_weight_bytes(const tsr_model *model, tsr_dtype weights);

/* Uploads the weights. `model` and `device` outlive *transformer, which is the caller's until tsr_transformer_destroy.
 * `options` may be NULL. One thread at a time. Errors: TSR_ERR_FORMAT (a tensor missing, of a wrong shape or type, or
 * with NaN in it, by name), TSR_ERR_DEVICE_MEMORY, TSR_ERR_UNSUPPORTED. Infinite weights give a warning in the
 * log. */
TSR_API tsr_status tsr_transformer_create(const tsr_model *model, tsr_device *device,
                                          const tsr_transformer_options *options,
                                          tsr_transformer **transformer) TSR_MUST_CHECK;
TSR_API void tsr_transformer_destroy(tsr_transformer *transformer); /* takes NULL */

/* Teacher forcing: encoder output and logits of a batch.
 *   source [B, S], target [B, L] token ids, padded with any id;  source_lengths [B]
 *   encoder_output [B, S, D], D of the encoder, and logits [B, L, V] f32, or NULL; what lies beyond a sentence's
 *   length is unspecified
 * An encoder alone has no logits: logits and target are NULL. A decoder alone has no source: source, source_lengths and
 * encoder_output are NULL, and n_source is ignored. With M2M100 a pad within a sentence counts as a token: it takes a
 * position, while the original gives it none.
 * Errors: TSR_ERR_ARGUMENT (an id outside the vocabulary, a length beyond S or max_positions), TSR_ERR_UNSUPPORTED
 * (the model lacks what is asked for, or it reads sound), the runtime's. */
TSR_API tsr_status tsr_transformer_forward(tsr_transformer *transformer, int32_t n_batch, int32_t n_source,
                                           const int32_t *source, const int32_t *source_lengths, int32_t n_target,
                                           const int32_t *target, float *encoder_output, float *logits) TSR_MUST_CHECK;

/* The same for a model of speech (config.mels > 0).
 *   features [B, M, F] of windows of F = 2 * source_positions frames: all of them count, and the caller fills up a
 *   shorter sound
 *   encoder_output [B, S, D] f32, S = source_positions, or NULL; target, logits: as above
 * Errors: TSR_ERR_ARGUMENT (an id outside the vocabulary, more tokens than max_positions, a feature that is not
 * finite), TSR_ERR_UNSUPPORTED (the model does not read sound), the runtime's. */
TSR_API tsr_status tsr_transformer_forward_features(tsr_transformer *transformer, int32_t n_batch,
                                                    const float *features, int32_t n_target, const int32_t *target,
                                                    float *encoder_output, float *logits) TSR_MUST_CHECK;

/* The programs that a model consists of, built without a device: to print, to compare, to measure. Constants have the
 * names of the model's parameters. A parameter that is kept as TSR_I8 has scales, f32, with the name NAME.scales. One
 * that is kept as TSR_I4, and its NAME.scales, have the forms of table and scales of tsr_embedding_i4. weights: as in
 * tsr_transformer_options. Keys and values are f32. */
enum {
  /* source [B, S], source_lengths [B] -> cross-attention keys and values (states), encoder_output. A model of speech
   * has features [B, M, 2 S] in the place of source. */
  TSR_PROGRAM_ENCODE = 1,
  TSR_PROGRAM_DECODE = 2, /* target [B, L] -> logits, all positions at once (teacher forcing) */
  TSR_PROGRAM_GREEDY = 3, /* one step for B sentences: next token by arg-max, fed back on the device */
  TSR_PROGRAM_BEAM = 4,   /* one step for B sentences of N hypotheses each: the 2N best continuations of each */
  TSR_PROGRAM_SCORE = 5   /* target [B, L], labels [B*L] -> losses: of each label, minus its log-probability */
};
typedef struct tsr_program_size {
  int32_t batch;  /* B */
  int32_t source; /* S; ignored for a model without an encoder, and for one of speech, which has source_positions */
  int32_t target; /* L: positions (DECODE, SCORE), or the capacity of the cache */
  int32_t beam;   /* N */
} tsr_program_size;
TSR_API tsr_status tsr_model_program(const tsr_model *model, tsr_dtype weights, int32_t kind,
                                     const tsr_program_size *size, tsr_program **program) TSR_MUST_CHECK;

/* The same with the cached keys and values, and the weights of a shortlist, in the type `states`: TSR_F32, or the type
 * `weights` if it has 16 bits. */
TSR_API tsr_status tsr_model_program_with_states(const tsr_model *model, tsr_dtype weights, tsr_dtype states,
                                                 int32_t kind, const tsr_program_size *size,
                                                 tsr_program **program) TSR_MUST_CHECK;

/* The type that a transformer on the device uses for these states. If the weights have 16 bits, and the device is a GPU
 * that reads and writes states in their type and gains from reading half as much, it is their type; else f32. device:
 * NULL: such a GPU. */
TSR_API tsr_status tsr_model_states(const tsr_model *model, tsr_device *device, tsr_dtype weights,
                                    tsr_dtype *states) TSR_MUST_CHECK;

/* The program with matrices and states in the types in which the transformer keeps them. */
TSR_API tsr_status tsr_transformer_program(const tsr_transformer *transformer, int32_t kind,
                                           const tsr_program_size *size, tsr_program **program) TSR_MUST_CHECK;

/* Binds every constant of such a program to the transformer's weights: appends to bindings (room for `room`),
 * sets *n. */
TSR_API tsr_status tsr_transformer_bind(tsr_transformer *transformer, const tsr_program *program, tsr_binding *bindings,
                                        int32_t room, int32_t *n) TSR_MUST_CHECK;

/* What the matrices of a model are multiplied with in sentences that are typical of its use. Rounding to four bits then
 * keeps the error of what a matrix gives small, |W x - W' x|^2 summed over its inputs x, rather than that of its
 * weights: the error of each weight is handed on to those behind it in its row, within 512 columns (Frantar et al.
 * 2022, arXiv:2210.17323). Tables of embeddings are left as they are. Some hundred sentences are enough. A matrix takes
 * 2 KB for each of its columns. One thread at a time.
 *
 * The model outlives *calibration, which is the caller's until tsr_calibration_destroy. */
TSR_API tsr_status tsr_calibration_create(const tsr_model *model, tsr_calibration **calibration) TSR_MUST_CHECK;
TSR_API void tsr_calibration_destroy(tsr_calibration *calibration); /* takes NULL */

/* Adds a sentence: computes it by teacher forcing, as tsr_transformer_inspect does. The transformer is of the same
 * model, or of another that was opened of the same folder. target NULL: the encoder alone. Errors: those of
 * tsr_transformer_inspect. */
TSR_API tsr_status tsr_calibration_add(tsr_calibration *calibration, tsr_transformer *transformer, int32_t n_source,
                                       const int32_t *source, int32_t n_target, const int32_t *target) TSR_MUST_CHECK;

TSR_API const tsr_model *tsr_transformer_model(const tsr_transformer *transformer);
TSR_API tsr_device *tsr_transformer_device(const tsr_transformer *transformer); /* the first */

/* All its devices; they live as long as the transformer. An executable of its programs is created for the first, with
 * the others as tsr_compile_options.others. */
TSR_API tsr_device *const *tsr_transformer_devices(const tsr_transformer *transformer, int32_t *n);

#ifdef __cplusplus
}
#endif
#endif
