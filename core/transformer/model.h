/* SPDX-License-Identifier: Apache-2.0
 *
 * A model on disk, as the rest of the library sees it: the configuration, the parameters that it implies, and where
 * each of them lies in the checkpoint.
 */
#ifndef TESSERA_CORE_TRANSFORMER_MODEL_H
#define TESSERA_CORE_TRANSFORMER_MODEL_H

#include <pthread.h>

#include "core/base/arena.h"
#include "core/checkpoint/checkpoint.h"
#include "tessera/transformer.h"

enum { TSR_PIECES = 3 }; /* tensors that one parameter is put together from, at most */

/* Elements first .. first+count-1 of a tensor of the checkpoint; without a tensor: `fill`. */
typedef struct tsr_piece {
  const tsr_checkpoint_tensor *tensor;
  int64_t first;
  int64_t count;
  int32_t transposed; /* 1: of the tensor with its last two axes exchanged */
  float fill;
  float plus; /* added to each element of a tensor, in f32 */
  /* Of a tensor of whole numbers, else NULL: NAME.scales, what 1 is worth in each row (f32), or in each group of a row
   * whose numbers have four bits (f16); or NAME_scale of CTranslate2, what they are divided by, [1] or one for each
   * row. */
  const tsr_checkpoint_tensor *scales;
  int32_t divided; /* 1: by the scales, or by `scale` */
  int64_t columns; /* of the parameter, in four bits; else 0 */
  float scale;     /* the one number, where no tensor holds it; else 0 */
} tsr_piece;

/* In which types a parameter is kept. */
enum {
  TSR_MATRIX_NONE = 0,       /* in f32 */
  TSR_MATRIX_PRODUCT = 1,    /* a table or the weights of a product: as the matrices are asked for */
  TSR_MATRIX_CONVOLUTION = 2 /* likewise, but in f32 where matrices are whole numbers */
};

typedef struct tsr_parameter {
  const char *name;             /* "encoder.layers.0.self_attention.qkv.weight" */
  tsr_shape shape;              /* weights of a product are [out, in] */
  int32_t matrix;               /* TSR_MATRIX_* */
  tsr_dtype stored;             /* type in the checkpoint: f32 where the pieces differ; 0 without weights */
  int32_t n_pieces;             /* 0 without weights */
  tsr_piece pieces[TSR_PIECES]; /* one after the other they are the parameter, row-major */
  int32_t is_identity;          /* 1: an identity matrix, of no tensor */
  int32_t is_constant; /* 1: a table that operators need, of no tensor; it has its elements, and is not trained */
} tsr_parameter;

typedef struct tsr_parameter_list {
  tsr_parameter *items;
  int32_t n;
  int32_t room;
  const tsr_parameter **by_name; /* [n], sorted; in the arena of the names */
} tsr_parameter_list;

/* Token ids that live as long as their model: lists of what its folder asks of a search. */
typedef struct tsr_model_lists {
  pthread_mutex_t lock;
  tsr_arena arena;
  struct tsr_model_list *last;
} tsr_model_lists;

#define TSR_GELU_SIGMOID 1.702

/* What may differ between encoder and decoder. The configuration says it for both, where a family has no more. */
typedef struct tsr_model_side {
  float embedding_scale;
  float self_scale; /* of the scores of self-attention; 0: one over the root of the head size */
  float cross_scale;
  int32_t position;        /* TSR_POSITION_* of what is added to embeddings: none, a learned table, a computed one */
  int32_t positions;       /* rows of a learned table */
  int32_t position_offset; /* of them, those before the first token's */
  int32_t relative;        /* TSR_POSITION_RELATIVE or _CLAMPED: a bias on the scores of self-attention; else none */
  int32_t relative_buckets;
  int32_t relative_distance;
  int32_t vectors;    /* m: vectors of 2 m + 1 distances in self-attention (TSR_POSITION_RELATIVE_VECTORS); 0: none */
  int32_t activation; /* TSR_ACTIVATION_* */
  int32_t gated;
  int32_t norm_position;
  int32_t embedding_norm;
  int32_t final_norm;
} tsr_model_side;

/* How `<unk>` of an output is replaced by a token of the source. */
typedef struct tsr_model_alignment {
  int32_t layer;            /* of the decoder, from 1; 0: the model does not say */
  uint32_t heads;           /* bits of those whose attention counts; 0: all */
  int32_t replaces_unknown; /* 1: the model's folder asks for it */
} tsr_model_alignment;

struct tsr_model {
  char *folder;
  tsr_transformer_config config;
  const tsr_model_side *sides; /* [2]: of encoder and decoder; NULL: as the configuration says */
  tsr_model_alignment alignment;
  const struct tsr_family *family;
  tsr_arena arena; /* names */
  tsr_parameter_list parameters;
  tsr_checkpoint *checkpoint; /* or NULL */
  tsr_model_lists *lists;
};

/* A copy of n ids that lives as long as the model: of equal lists there is one. n = 0: *kept is NULL. Any thread.
 * Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_model_keep_ids(const tsr_model *model, const int32_t *ids, int32_t n,
                              const int32_t **kept) TSR_MUST_CHECK;

/* The parameters that a configuration implies, in the order in which the model uses them. Names live in the arena.
 * Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_parameters_list(const tsr_transformer_config *config, tsr_arena *arena,
                               tsr_parameter_list *list) TSR_MUST_CHECK;

/* The same of a model, whose sides may differ from what its configuration says. */
tsr_status tsr_parameters_list_model(const tsr_model *model, tsr_arena *arena, tsr_parameter_list *list) TSR_MUST_CHECK;

/* Sorts a list anew from which parameters were taken. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_parameters_sort(tsr_parameter_list *list, tsr_arena *arena) TSR_MUST_CHECK;

/* The encoder's (0) or the decoder's (1) side of a model, and that of a configuration. */
tsr_model_side tsr_model_side_of(const tsr_model *model, int32_t decoder);
tsr_model_side tsr_config_side(const tsr_transformer_config *config, int32_t decoder);

/* Positions that the encoder has, at most. */
int32_t tsr_config_source_positions(const tsr_transformer_config *config);

/* Heads of keys and values of the encoder (0) or the decoder (1). */
int32_t tsr_config_key_heads(const tsr_transformer_config *config, int32_t decoder);

/* D of the encoder or the decoder. */
int32_t tsr_config_width(const tsr_transformer_config *config, int32_t decoder);

/* 1 if the configuration has an encoder that reads something: tokens of a vocabulary, or sound. */
int32_t tsr_config_encodes(const tsr_transformer_config *config);

/* TSR_ERR_UNSUPPORTED if the model reads sound: a caller of `function` gives it text, and is told of `sibling` if there
 * is one that takes features; likewise if it reads text and is given features. */
tsr_status tsr_model_check_reads_text(const tsr_model *model, const char *function, const char *sibling) TSR_MUST_CHECK;
tsr_status tsr_model_check_reads_sound(const tsr_model *model, const char *function) TSR_MUST_CHECK;

/* Rows first .. first+count-1 of a parameter that is stored as whole numbers, of one byte or of four bits, as they are
 * kept (tsr_parameter_kept): the numbers, and what 1 is worth, f32 for each row or f16 for each group. */
tsr_status tsr_parameter_read_rows(const tsr_parameter *parameter, int64_t first, int64_t count, int8_t *bytes,
                                   void *scales) TSR_MUST_CHECK;

/* Parameters that are the same for all models: numbers that composed operators need, [1], and Shaw's distances. */
#define TSR_NUMBER_FORMAT    "numbers.%.0fe-6" /* of the number times a million */
#define TSR_DISTANCES_FORMAT "distances.%d"    /* [2 m + 1, 2 m + 1], of m */
#define TSR_WINDOW_FORMAT    "window.%d"       /* [2 W + 1, 1], of W: -inf at its ends, else 0 */

/* The parameter of that name, or NULL. */
const tsr_parameter *tsr_model_find(const tsr_model *model, const char *name);

/* The type in which a parameter is kept on a device. wanted: of the matrices; 0: as stored. */
tsr_dtype tsr_parameter_dtype(const tsr_parameter *parameter, tsr_dtype wanted);

/* Bytes of it there, and of its scales. */
int64_t tsr_parameter_bytes(const tsr_parameter *parameter, tsr_dtype wanted);

/* Extents and type of the tensors in which a parameter is kept there: of its elements, and of its scales. `kept` is
 * what tsr_parameter_dtype says. scales->dtype is 0 where there are none. */
typedef struct tsr_kept {
  tsr_dtype dtype;
  tsr_shape shape;
} tsr_kept;
tsr_kept tsr_parameter_kept(const tsr_parameter *parameter, tsr_dtype kept, tsr_kept *scales);

/* Of a matrix that is rounded column after column: by how much of a weight's error the ones behind it in its row are to
 * change, so that what the row gives changes least (calibrate.h). */
enum { TSR_FACTORS_WIDTH = 512 };
typedef struct tsr_factors {
  int32_t parameter;
  float *blocks; /* [columns / WIDTH, rounded up][WIDTH][WIDTH]; NULL: not at all */
} tsr_factors;

/* Rows of f32 as weights of four bits (tsr_embedding_i4). First what 1 is worth in each group, scales [rows, G] of f16,
 * of some the one that leaves the least squared error, then bytes [rows, 16 G] with such scales, each the nearest
 * number. factors: NULL: errors are not handed on. room: a row. */
void tsr_four_bits_scales(const float *values, int64_t rows, int64_t columns, const tsr_factors *factors, float *room,
                          uint16_t *scales);
void tsr_four_bits(const float *values, int64_t rows, int64_t columns, const tsr_factors *factors, float *room,
                   const uint16_t *scales, uint8_t *bytes);

/* Number `column` of such a row, of -8 .. 7. */
int32_t tsr_four_bits_at(const uint8_t *row, int64_t column);

/* Rows of f32 as whole numbers of one byte (tsr_embedding_i8), and what 1 is worth in each: a row of zeros 0, one that
 * holds NaN or an infinity NaN. */
void tsr_eight_bits(const float *values, int64_t rows, int64_t columns, int8_t *bytes, float *scales);

/* The name of the scales of a parameter that is kept as i8 or in four bits: NAME.scales. Writes it into `name` (of that
 * room) and returns it. */
enum { TSR_PARAMETER_NAME_ROOM = 192 };
char *tsr_scales_name(char *name, const char *parameter);

/* Copies elements first .. first+count-1 of a parameter out of the checkpoint, converted to `dtype`. */
tsr_status tsr_parameter_read(const tsr_parameter *parameter, int64_t first, int64_t count, tsr_dtype dtype,
                              void *out) TSR_MUST_CHECK;

/* The largest magnitude among n elements, as the bits of an f32, in which infinity is TSR_INFINITE and NaN above it.
 * dtype:
 * f32, f16, bf16. As fast as memory: it is asked for each weight that is loaded. */
enum { TSR_INFINITE = 0x7f800000 };
uint32_t tsr_largest_magnitude(tsr_dtype dtype, const void *elements, int64_t n);

/* The largest magnitude in four bits: the lowest number at the largest scale. */
#define TSR_I4_LARGEST (8.0f * 65504.0f)

/* What to do with a parameter whose largest magnitude, as it was converted to `dtype`, is `largest`; of whole numbers,
 * before that. NaN is an error, TSR_ERR_FORMAT, naming file, tensor and element. Of infinities in a matrix, and of
 * numbers that `dtype` is too small for, the log is told; a bias may hold -inf, for a token that never comes. Errors
 * also: those of reading. */
tsr_status tsr_parameter_check(const tsr_parameter *parameter, tsr_dtype dtype, uint32_t largest) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * Families: a reader of the config file, and a table of names.
 */

/* Part `part` of `of` equal blocks of rows of a tensor; of 0: the whole. */
typedef struct tsr_name_piece {
  const char *name;
  int32_t part;
  int32_t of;
  int32_t transposed; /* 1: stored with its last two axes exchanged, [in, out] or [out, in, kernel]; a whole tensor */
  int32_t absent;     /* 1: the original has no such tensor; zeros where a checkpoint lacks it */
} tsr_name_piece;

/* Which tensors of a checkpoint a parameter is put together from. In both patterns '@' stands for "encoder" or
 * "decoder", '#' for a layer's number, '%' for that number counted from 1, '*' for "weight" or "bias". Several rows for
 * one parameter are alternatives: the first whose first tensor is in the checkpoint is taken; the first of them all is
 * written. */
typedef struct tsr_name_rule {
  const char *parameter;
  tsr_name_piece pieces[TSR_PIECES]; /* their rows follow one another */
  int32_t optional;                  /* 1: zeros where the checkpoint lacks it */
  int32_t row;                       /* 1: written as a matrix of one row */
  int32_t added;                     /* rows at the end that the checkpoint lacks */
  float fill;                        /* what they are filled with */
  float plus;                        /* added to what the checkpoint holds */
  int32_t when;                      /* TSR_RULE_*, all of which hold of the model; 0: of each */
  int32_t may_lack;                  /* 1: where the checkpoint lacks it, the model has no such parameter */
} tsr_name_rule;

enum {
  TSR_RULE_GATED = 1,
  TSR_RULE_NOT_GATED = 2,
  TSR_RULE_ENCODER = 4,   /* the model has one */
  TSR_RULE_NO_ENCODER = 8 /* it is a decoder alone */
};

typedef struct tsr_name_table {
  const char *root; /* how names begin that may lack this beginning: "model."; "": none do */
  const tsr_name_rule *rules;
  int32_t n;
  const char *layers[2]; /* keys of the configuration with the number of layers: of the encoder, of the decoder */
} tsr_name_table;

typedef struct tsr_family {
  const char *model_type; /* in config.json */
  const tsr_name_table *names;
  int32_t is_exact;      /* 1: a tensor that no parameter reads is an error, for it changes what is computed */
  int32_t frozen_pad;    /* 1: in training, the embedding of pad_id gets no gradient from where it is looked up */
  int32_t forced_eos_id; /* where config.json has to say how to search and lacks the key; -1: none */
  const char *forced_bos_older; /* key of config.json that, when true, forces bos_id as the first token; or NULL */
  double init_std;              /* of the normal numbers that every matrix begins with; 0: as torch's modules have it */
  /* 1 if config.json is of a kind that says of every model that its logits' matrix is the embedding; or NULL. */
  int (*claims_ties)(tsr_config *file);
  /* Fills the config, which holds the common defaults. The getters' errors may be left to the caller. */
  tsr_status (*configure)(tsr_config *file, tsr_transformer_config *config);
  /* The reverse: puts the keys of config.json into `file`, special ids left out. What the family cannot express is left
   * to the caller to find. Errors: TSR_ERR_UNSUPPORTED. */
  tsr_status (*describe)(const tsr_transformer_config *config, const tsr_save_options *options, json_t *file);
} tsr_family;

extern const tsr_family tsr_family_bart;
extern const tsr_family tsr_family_ctranslate2;
extern const tsr_family tsr_family_m2m_100;
extern const tsr_family tsr_family_marian;
extern const tsr_family tsr_family_marian_npz;
extern const tsr_family tsr_family_mbart;
extern const tsr_family tsr_family_mt5;
extern const tsr_family tsr_family_nn_transformer;
extern const tsr_family tsr_family_pegasus;
extern const tsr_family tsr_family_t5;
extern const tsr_family tsr_family_t5gemma;
extern const tsr_family tsr_family_umt5;
extern const tsr_family tsr_family_whisper;

/* Reads config.json and, if it is there, the special ids of generation_config.json, and checks the whole. */
tsr_status tsr_transformer_config_read(const char *folder, tsr_transformer_config *config,
                                       const tsr_family **family) TSR_MUST_CHECK;

/* The same for what one file says. */
tsr_status tsr_transformer_config_parse(tsr_config *file, tsr_transformer_config *config,
                                        const tsr_family **family) TSR_MUST_CHECK;

/* The family of that name, or NULL; and the names of all, for a message. */
const tsr_family *tsr_family_find(const char *model_type);
char *tsr_family_list(char *text, size_t size);

/* Checks every field, and that config.json of the configuration's family can express it; puts that file's content into
 * *file (json_decref) and what reading it gives into *config, where a field may have been left to its default.
 * Errors: TSR_ERR_ARGUMENT, TSR_ERR_UNSUPPORTED, naming the field. */
tsr_status tsr_transformer_config_describe(const tsr_save_options *options, tsr_transformer_config *config,
                                           const tsr_family **family, json_t **file) TSR_MUST_CHECK;

/* Puts the special ids that there are into a file. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_config_set_ids(const tsr_transformer_config *config, json_t *file) TSR_MUST_CHECK;

/* Largest values that a configuration may have; with them no product of extents overflows. And the least positions: of
 * the token that decoding starts from, and of one after it. */
enum {
  TSR_MIN_POSITIONS = 2,
  TSR_MAX_WIDTH = 1 << 17, /* d_model, d_ff, heads times head size */
  TSR_MAX_LAYERS = 1024,
  TSR_MAX_HEADS = 4096,
  TSR_MAX_VOCABULARY = 1 << 24,
  TSR_MAX_POSITIONS = 1 << 20,
  TSR_MAX_MELS = 1024
};

/* An activation by its name in config files; keeps *activation where the key is absent. Errors: TSR_ERR_UNSUPPORTED,
 * naming file and key. */
tsr_status tsr_config_activation(tsr_config *file, const char *key, int32_t *activation) TSR_MUST_CHECK;

/* The activation of that name, which stands in `key`. Errors: as above. */
tsr_status tsr_activation_find(const tsr_config *file, const char *key, const char *name,
                               int32_t *activation) TSR_MUST_CHECK;

/* The name under which an activation is written; NULL: it has none. */
const char *tsr_activation_name(int32_t activation);

/* A token id, or a list of one; absent or null keeps *id. Errors: TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED (a longer
 * list). */
tsr_status tsr_config_id(const tsr_config *file, const char *key, int32_t vocabulary, int32_t *id) TSR_MUST_CHECK;

/* Finds each of the model's parameters' tensors in its checkpoint and checks their types and shapes; then looks at
 * those that nobody reads (tsr_parameters_check_unread). Errors: TSR_ERR_FORMAT, naming file and tensor. */
tsr_status tsr_parameters_resolve(tsr_model *model) TSR_MUST_CHECK;

/* Before the parameters are listed: takes a matrix of the logits that the model's checkpoint holds, and that is not the
 * embedding, for what it is, also where config.json says that both are one. A warning tells of that, unless the
 * family's files often say so. Errors: what reading the tensors returns. */
tsr_status tsr_parameters_untie(tsr_model *model) TSR_MUST_CHECK;

/* Elements first .. first+count-1 of a parameter. */
typedef struct tsr_part {
  int32_t parameter; /* its number in the list */
  int64_t first;
  int64_t count;
  int32_t transposed; /* 1: the tensor is the whole parameter with its last two axes exchanged */
  float minus;        /* what the tensor lacks of it: subtracted from each element */
} tsr_part;

/* A tensor of a checkpoint, and what it consists of. */
typedef struct tsr_layout_tensor {
  const char *name;
  tsr_shape shape;
  int32_t n_parts;
  tsr_part parts[TSR_PIECES]; /* one after the other they are the tensor, row-major */
} tsr_layout_tensor;

/* The tensors that a checkpoint of the model's family has for its parameters. *tensors and the names live in the arena.
 * Errors: TSR_ERR_UNSUPPORTED (the family has no name for a parameter), TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_parameters_layout(const tsr_model *model, tsr_arena *arena, tsr_layout_tensor **tensors,
                                 int32_t *n_tensors) TSR_MUST_CHECK;

#endif
