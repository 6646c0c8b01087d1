# SPDX-License-Identifier: Apache-2.0
"""What the package knows of the library; made by declarations.py, which a test compares with the headers."""

DECLARATIONS = """\
enum {
  TSR_OK = 0,
  TSR_ERR_ARGUMENT = 1,
  TSR_ERR_SHAPE = 2,
  TSR_ERR_DTYPE = 3,
  TSR_ERR_UNSUPPORTED = 4,
  TSR_ERR_OUT_OF_MEMORY = 5,
  TSR_ERR_DEVICE_MEMORY = 6,
  TSR_ERR_DEVICE_LOST = 7,
  TSR_ERR_NO_DEVICE = 8,
  TSR_ERR_IO = 9,
  TSR_ERR_FORMAT = 10,
  TSR_ERR_PLUGIN = 11,
  TSR_ERR_INTERNAL = 12,
  TSR_ERR_NOT_FINITE = 13,
  TSR_ERR_BUSY = 14,
  TSR_ERR_CANCELLED = 15,
  TSR_ERR_DEADLINE = 16,
};
enum {
  TSR_F32 = 1,
  TSR_F16 = 2,
  TSR_BF16 = 3,
  TSR_I8 = 4,
  TSR_I32 = 5,
};
enum {
  TSR_ACTIVATION_NONE = 0,
  TSR_ACTIVATION_RELU = 1,
  TSR_ACTIVATION_GELU_ERF = 2,
  TSR_ACTIVATION_GELU_TANH = 3,
  TSR_ACTIVATION_SILU = 4,
};
enum {
  TSR_BUFFER_DEVICE = 0,
  TSR_BUFFER_UPLOAD = 1,
  TSR_BUFFER_READBACK = 2,
};
enum {
  TSR_DEVICE_DISCRETE_GPU = 1,
  TSR_DEVICE_INTEGRATED_GPU = 2,
  TSR_DEVICE_CPU = 3,
  TSR_DEVICE_VIRTUAL_GPU = 4,
  TSR_DEVICE_SOFTWARE_GPU = 5,
  TSR_DEVICE_REFERENCE = 6,
};
typedef struct tsr_device_properties {
  uint32_t struct_size;
  int32_t type;
  char name[256];
  char driver[256];
  uint64_t features;
  uint64_t memory;
  uint64_t max_buffer_size;
  uint64_t max_binding_size;
  uint32_t buffer_alignment;
  uint32_t max_invocations;
  uint32_t shared_memory;
  uint32_t subgroup_size;
  uint32_t api_major;
  uint32_t api_minor;
  uint32_t concurrent_runs;
  uint32_t rows_at_once;
  uint32_t state_types;
  uint64_t promised_buffer_size;
  uint32_t runs_in_hand;
  uint32_t reserved;
} tsr_device_properties;
typedef int32_t tsr_status;
const char *tsr_error_message(void);
typedef int32_t tsr_dtype;
size_t tsr_dtype_size(tsr_dtype dtype);
typedef struct tsr_shape {
  int32_t rank;
  int64_t extent[4];
} tsr_shape;
tsr_shape tsr_shape_make(int32_t rank, const int64_t *extent);
tsr_status tsr_convert(tsr_dtype from_dtype, const void *from, tsr_dtype to_dtype, void *to, int64_t n);
typedef struct tsr_program tsr_program;
typedef int32_t tsr_ref;
tsr_status tsr_program_create(tsr_program **program);
void tsr_program_destroy(tsr_program *program);
tsr_status tsr_program_status(const tsr_program *program);
tsr_ref tsr_constant(tsr_program *program, const char *name, tsr_dtype dtype, tsr_shape shape);
tsr_ref tsr_input(tsr_program *program, const char *name, tsr_dtype dtype, tsr_shape shape);
tsr_ref tsr_state(tsr_program *program, const char *name, tsr_dtype dtype, tsr_shape shape);
tsr_ref tsr_output(tsr_program *program, const char *name, tsr_ref x);
tsr_ref tsr_reshape(tsr_program *program, tsr_ref x, tsr_shape shape);
tsr_ref tsr_permute(tsr_program *program, tsr_ref x, const int32_t *order);
tsr_ref tsr_transpose(tsr_program *program, tsr_ref x, int32_t axis_a, int32_t axis_b);
tsr_ref tsr_slice(tsr_program *program, tsr_ref x, int32_t axis, int64_t start, int64_t count);
tsr_ref tsr_expand(tsr_program *program, tsr_ref x, tsr_shape shape);
int32_t tsr_program_line_count(const tsr_program *program);
tsr_shape tsr_ref_shape(const tsr_program *program, tsr_ref x);
tsr_dtype tsr_ref_dtype(const tsr_program *program, tsr_ref x);
char *tsr_program_print_line(const tsr_program *program, int32_t line, char *text, size_t size);
typedef struct tsr_line_range {
  int32_t first;
  int32_t last;
} tsr_line_range;
typedef struct tsr_gradient_options {
  uint32_t struct_size;
  int32_t n_recompute;
  const tsr_line_range *recompute;
} tsr_gradient_options;
tsr_status tsr_gradients(tsr_program *program, tsr_ref loss, tsr_ref loss_gradient, const tsr_ref *parameters,
    int32_t n, const tsr_gradient_options *options, tsr_ref *gradients);
typedef struct tsr_corpus_files {
  const char *source;
  const char *target;
  int32_t part;
} tsr_corpus_files;
enum {
  TSR_BLEU_ORDER = 4,
  TSR_CHRF_ORDER = 6,
};
typedef struct tsr_span {
  const char *bytes;
  size_t size;
} tsr_span;
typedef struct tsr_bleu {
  double score;
  double precisions[TSR_BLEU_ORDER];
  double brevity_penalty;
  int64_t matches[TSR_BLEU_ORDER];
  int64_t totals[TSR_BLEU_ORDER];
  int64_t hypothesis_length;
  int64_t reference_length;
} tsr_bleu;
typedef struct tsr_chrf {
  double score;
  double precision;
  double recall;
  int64_t matches[TSR_CHRF_ORDER];
  int64_t hypothesis[TSR_CHRF_ORDER];
  int64_t reference[TSR_CHRF_ORDER];
} tsr_chrf;
enum {
  TSR_METRIC_BLEU = 1,
  TSR_METRIC_CHRF = 2,
};
typedef struct tsr_scorer tsr_scorer;
tsr_status tsr_scorer_create(int32_t metrics, tsr_scorer **scorer);
void tsr_scorer_destroy(tsr_scorer *scorer);
tsr_status tsr_scorer_add_references(tsr_scorer *scorer, tsr_span hypothesis, const tsr_span *references, int32_t
    n_references);
char *tsr_scorer_signature(const tsr_scorer *scorer, int32_t metric, char *text, size_t size);
tsr_status tsr_scorer_bleu(const tsr_scorer *scorer, tsr_bleu *bleu);
tsr_status tsr_scorer_chrf(const tsr_scorer *scorer, tsr_chrf *chrf);
tsr_status tsr_file_replace(const char *path, const void *bytes, size_t size);
typedef struct tsr_runtime tsr_runtime;
typedef struct tsr_device tsr_device;
typedef struct tsr_buffer tsr_buffer;
typedef struct tsr_executable tsr_executable;
typedef struct tsr_runtime_options {
  uint32_t struct_size;
  const char *const *plugins;
  const char *path;
} tsr_runtime_options;
tsr_status tsr_runtime_create(const tsr_runtime_options *options, tsr_runtime **runtime);
void tsr_runtime_destroy(tsr_runtime *runtime);
typedef struct tsr_device_info {
  char name[64];
  const char *backend;
  const char *description;
  const char *path;
  tsr_device_properties properties;
} tsr_device_info;
int32_t tsr_runtime_device_count(const tsr_runtime *runtime);
tsr_status tsr_runtime_device_info_sized(const tsr_runtime *runtime, int32_t index, tsr_device_info *info, size_t
    size);
typedef struct tsr_problem {
  const char *path;
  const char *message;
  tsr_status status;
} tsr_problem;
int32_t tsr_runtime_problem_count(const tsr_runtime *runtime);
tsr_status tsr_runtime_problem_sized(const tsr_runtime *runtime, int32_t index, tsr_problem *problem, size_t size);
tsr_status tsr_device_open(tsr_runtime *runtime, const char *name, tsr_device **device);
void tsr_device_close(tsr_device *device);
tsr_status tsr_buffer_create(tsr_device *device, int64_t size, int32_t usage, tsr_buffer **buffer);
void tsr_buffer_destroy(tsr_buffer *buffer);
tsr_status tsr_buffer_write(tsr_buffer *buffer, int64_t offset, int64_t size, const void *bytes);
typedef struct tsr_binding {
  tsr_ref tensor;
  tsr_buffer *buffer;
  int64_t offset;
} tsr_binding;
typedef struct tsr_compile_options {
  uint32_t struct_size;
  int32_t n_bindings;
  const tsr_binding *bindings;
  int32_t strict;
  int32_t keep_all;
  int32_t profile;
  tsr_device *fallback;
  tsr_buffer *arena;
  tsr_buffer *const *arena_rest;
  int32_t n_arena_rest;
  int32_t reserved;
} tsr_compile_options;
tsr_status tsr_executable_create(tsr_device *device, const tsr_program *program, const tsr_compile_options *options,
    tsr_executable **executable);
void tsr_executable_destroy(tsr_executable *executable);
tsr_status tsr_executable_write(tsr_executable *executable, tsr_ref tensor, const void *bytes, int64_t size);
tsr_status tsr_executable_read(tsr_executable *executable, tsr_ref tensor, void *bytes, int64_t size);
tsr_status tsr_executable_run(tsr_executable *executable);
enum {
  TSR_NORM_LAYER = 1,
  TSR_NORM_RMS = 2,
  TSR_NORM_LAYER_STD = 3,
};
enum {
  TSR_NORM_POST = 1,
  TSR_NORM_PRE = 2,
};
enum {
  TSR_POSITION_NONE = 0,
  TSR_POSITION_SINUSOID_HALVES = 1,
  TSR_POSITION_SINUSOID_INTERLEAVED = 2,
  TSR_POSITION_LEARNED = 3,
  TSR_POSITION_RELATIVE = 4,
  TSR_POSITION_SINUSOID_TENSOR2TENSOR = 5,
  TSR_POSITION_RELATIVE_CLAMPED = 6,
  TSR_POSITION_RELATIVE_VECTORS = 7,
};
typedef struct tsr_transformer_config {
  uint32_t struct_size;
  char family[32];
  int32_t d_model;
  int32_t encoder_layers;
  int32_t decoder_layers;
  int32_t encoder_heads;
  int32_t decoder_heads;
  int32_t encoder_head_size;
  int32_t decoder_head_size;
  int32_t encoder_d_ff;
  int32_t decoder_d_ff;
  int32_t source_vocabulary;
  int32_t target_vocabulary;
  int32_t max_positions;
  int32_t norm;
  int32_t norm_position;
  int32_t final_norm;
  int32_t embedding_norm;
  int32_t activation;
  int32_t gated;
  int32_t position;
  int32_t position_offset;
  int32_t relative_buckets;
  int32_t relative_distance;
  int32_t relative_layers;
  int32_t attention_bias;
  int32_t feed_forward_bias;
  int32_t logits_bias;
  int32_t shared_embedding;
  int32_t tied_logits;
  float embedding_scale;
  float attention_scale;
  float logits_scale;
  float epsilon;
  int32_t pad_id;
  int32_t bos_id;
  int32_t eos_id;
  int32_t unk_id;
  int32_t decoder_start_id;
} tsr_transformer_config;
typedef struct tsr_model tsr_model;
tsr_status tsr_model_open(const char *folder, tsr_model **model);
tsr_status tsr_model_create(const tsr_transformer_config *config, tsr_model **model);
void tsr_model_close(tsr_model *model);
const tsr_transformer_config *tsr_model_config(const tsr_model *model);
tsr_status tsr_model_check_weights(const tsr_model *model);
typedef struct tsr_transformer tsr_transformer;
typedef struct tsr_transformer_options {
  uint32_t struct_size;
  tsr_dtype weights;
  int32_t strict;
  int32_t cache;
  tsr_device *fallback;
  int32_t workers;
  int32_t profile;
} tsr_transformer_options;
tsr_status tsr_transformer_create(const tsr_model *model, tsr_device *device, const tsr_transformer_options *options,
    tsr_transformer **transformer);
void tsr_transformer_destroy(tsr_transformer *transformer);
enum {
  TSR_SEARCH_TRANSFORMERS = 0,
  TSR_SEARCH_MARIAN = 1,
  TSR_SEARCH_CTRANSLATE2 = 2,
};
typedef struct tsr_token {
  int32_t sentence;
  int32_t hypothesis;
  int32_t step;
  int32_t id;
  int32_t is_last;
} tsr_token;
typedef int32_t (*tsr_token_fn)(void *user, const tsr_token *token);
typedef struct tsr_generate_options {
  uint32_t struct_size;
  int32_t search;
  int32_t beam;
  int32_t n_best;
  int32_t scores;
  int32_t max_length;
  int32_t min_length;
  float length_penalty;
  int32_t length_kind;
  float word_penalty;
  float max_length_factor;
  int32_t early_stopping;
  float patience;
  int32_t decoder_start_id;
  int32_t forced_bos_id;
  int32_t forced_eos_id;
  int32_t n_eos;
  int32_t n_suppressed;
  int32_t n_begin_suppressed;
  int32_t n_words;
  const int32_t *eos;
  const int32_t *suppressed;
  const int32_t *begin_suppressed;
  const int32_t *words;
  int32_t no_repeat_ngram;
  int32_t encoder_no_repeat_ngram;
  float repetition_penalty;
  float encoder_repetition_penalty;
  int32_t renormalize;
  int32_t sample;
  float temperature;
  int32_t top_k;
  float top_p;
  int32_t alternatives;
  uint64_t seed;
  int64_t first_sentence;
  const int32_t *const *prefix;
  const int32_t *prefix_lengths;
  int32_t attention;
  int32_t attention_layer;
  float coverage_penalty;
  const struct tsr_shortlist *shortlist;
  tsr_token_fn token;
  void *token_user;
  int32_t partial;
  int32_t steps_per_submit;
  uint32_t attention_heads;
  int32_t reserved;
} tsr_generate_options;
tsr_status tsr_generate_defaults(const tsr_model *model, tsr_generate_options *options);
tsr_status tsr_generate_check(const tsr_model *model, const tsr_generate_options *options);
typedef struct tsr_hypothesis {
  int32_t *ids;
  int32_t n_ids;
  float score;
  int32_t n_source;
  float *attention;
} tsr_hypothesis;
typedef struct tsr_generation {
  int32_t n_sentences;
  int32_t n_best;
  tsr_hypothesis *hypotheses;
} tsr_generation;
typedef void (*tsr_progress_fn)(void *user, int64_t done, int64_t total);
tsr_status tsr_generate(tsr_transformer *transformer, int32_t n_sentences, const int32_t *const *source, const
    int32_t *lengths, int32_t n_batch, const tsr_generate_options *options, tsr_progress_fn progress, void *user,
    tsr_generation *generation);
void tsr_generation_finish(tsr_generation *generation);
typedef struct tsr_score_options {
  uint32_t struct_size;
  int32_t n_batch;
  float length_penalty;
  const int32_t *decoder_start_id;
} tsr_score_options;
typedef struct tsr_target_score {
  double sum;
  double score;
  int32_t n_tokens;
  float *tokens;
} tsr_target_score;
typedef struct tsr_scores {
  int32_t n_sentences;
  tsr_target_score *targets;
} tsr_scores;
tsr_status tsr_score(tsr_transformer *transformer, int32_t n_sentences, const int32_t *const *source, const int32_t
    *source_lengths, const int32_t *const *target, const int32_t *target_lengths, const tsr_score_options *options,
    tsr_progress_fn progress, void *user, tsr_scores *scores);
void tsr_scores_finish(tsr_scores *scores);
enum {
  TSR_INSPECT_HIDDEN = 1,
  TSR_INSPECT_SELF_ATTENTION = 2,
  TSR_INSPECT_CROSS_ATTENTION = 4,
  TSR_INSPECT_LAYERS = 8,
  TSR_INSPECT_NORMS = 16,
  TSR_INSPECT_SUMS = 32,
};
typedef struct tsr_inspected {
  const char *name;
  tsr_shape shape;
  const float *values;
} tsr_inspected;
typedef struct tsr_inspection {
  int32_t n;
  tsr_inspected *tensors;
} tsr_inspection;
tsr_status tsr_transformer_inspect(tsr_transformer *transformer, int32_t what, int32_t n_batch, int32_t n_source,
    const int32_t *source, const int32_t *source_lengths, int32_t n_target, const int32_t *target, tsr_inspection
    *inspection);
void tsr_inspection_finish(tsr_inspection *inspection);
const tsr_inspected *tsr_inspection_find(const tsr_inspection *inspection, const char *name);
tsr_ref tsr_matmul(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref bias, float alpha, int32_t activation);
tsr_ref tsr_matmul_reduced_precision(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref bias, float alpha, int32_t
    activation);
tsr_ref tsr_matmul_rounded(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref bias, float alpha, int32_t activation,
    tsr_dtype factors);
tsr_ref tsr_matmul_i8(tsr_program *p, tsr_ref a, tsr_ref b, tsr_ref scales, tsr_ref bias, float alpha, int32_t
    activation);
tsr_ref tsr_softmax(tsr_program *p, tsr_ref x, tsr_ref mask);
tsr_ref tsr_log_softmax(tsr_program *p, tsr_ref x);
tsr_ref tsr_layernorm(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref bias, float epsilon);
tsr_ref tsr_layernorm_std(tsr_program *p, tsr_ref x, tsr_ref gain, tsr_ref bias, float epsilon);
tsr_ref tsr_rmsnorm(tsr_program *p, tsr_ref x, tsr_ref gain, float epsilon);
typedef struct tsr_masking {
  tsr_ref additive;
  tsr_ref lengths;
  tsr_ref position;
  tsr_ref relative;
  int32_t causal;
  int32_t bidirectional;
  int32_t max_distance;
  int32_t clamped;
} tsr_masking;
tsr_ref tsr_mask(tsr_program *p, tsr_ref x, const tsr_masking *masking);
typedef struct tsr_attention_args {
  tsr_ref q, k, v;
  tsr_ref rows;
  tsr_masking masking;
  float alpha;
  tsr_ref *weights;
  tsr_ref seed;
  float rate;
  int32_t stream;
  tsr_ref *lse;
  int32_t reduced_precision;
} tsr_attention_args;
tsr_ref tsr_attention(tsr_program *p, const tsr_attention_args *args);
tsr_ref tsr_add(tsr_program *p, tsr_ref a, tsr_ref b);
tsr_ref tsr_mul(tsr_program *p, tsr_ref a, tsr_ref b);
tsr_ref tsr_relu(tsr_program *p, tsr_ref x);
tsr_ref tsr_gelu(tsr_program *p, tsr_ref x, int32_t activation);
tsr_ref tsr_silu(tsr_program *p, tsr_ref x);
tsr_ref tsr_embedding(tsr_program *p, tsr_ref table, tsr_ref ids, float alpha);
tsr_ref tsr_embedding_i8(tsr_program *p, tsr_ref table, tsr_ref scales, tsr_ref ids, float alpha);
tsr_ref tsr_copy(tsr_program *p, tsr_ref x, tsr_dtype dtype);
tsr_ref tsr_append(tsr_program *p, tsr_ref state, tsr_ref x, tsr_ref position);
tsr_ref tsr_update(tsr_program *p, tsr_ref state, tsr_ref x);
tsr_ref tsr_gather(tsr_program *p, tsr_ref x, tsr_ref index, int32_t axis);
tsr_ref tsr_topk(tsr_program *p, tsr_ref x, int32_t k, tsr_ref *indices);
tsr_ref tsr_reduce_sum(tsr_program *p, tsr_ref x, int32_t axes);
tsr_ref tsr_concat(tsr_program *p, const tsr_ref *x, int32_t n, int32_t axis);
tsr_ref tsr_scatter_add(tsr_program *p, tsr_ref x, tsr_ref index, int32_t axis, int64_t extent, float alpha);
tsr_ref tsr_sum_of_squares(tsr_program *p, tsr_ref x, tsr_ref plus);
tsr_ref tsr_dropout(tsr_program *p, tsr_ref x, tsr_ref seed, float rate, int32_t stream);
tsr_ref tsr_cross_entropy(tsr_program *p, tsr_ref logits, tsr_ref labels, float smoothing, tsr_ref *lse);
typedef struct tsr_tokenizer tsr_tokenizer;
enum {
  TSR_SIDE_SOURCE = 0,
  TSR_SIDE_TARGET = 1,
};
tsr_status tsr_tokenizer_open(const tsr_model *model, tsr_tokenizer **tokenizer);
void tsr_tokenizer_close(tsr_tokenizer *tokenizer);
tsr_status tsr_tokenizer_open_folder(const char *folder, tsr_tokenizer **tokenizer);
typedef struct tsr_tokenizer_info {
  int32_t source_vocabulary;
  int32_t target_vocabulary;
  int32_t is_joint;
  int32_t source_pad_id;
  int32_t target_pad_id;
  int32_t eos_id;
  int32_t unk_id;
  int32_t forced_bos_id;
  int32_t decoder_start_id;
} tsr_tokenizer_info;
tsr_status tsr_tokenizer_get_info_sized(const tsr_tokenizer *tokenizer, tsr_tokenizer_info *info, size_t size);
int32_t tsr_tokenizer_n_languages(const tsr_tokenizer *tokenizer);
const char *tsr_tokenizer_language(const tsr_tokenizer *tokenizer, int32_t index);
tsr_status tsr_tokenizer_set_languages(tsr_tokenizer *tokenizer, const char *source, const char *target);
tsr_status tsr_tokenizer_encode(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids, int32_t
    *n_ids);
tsr_status tsr_tokenizer_encode_target(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
    int32_t *n_ids);
tsr_status tsr_tokenizer_decode_side(const tsr_tokenizer *tokenizer, int32_t side, const int32_t *ids, int32_t n_ids,
    char **text);
const char *tsr_tokenizer_token(const tsr_tokenizer *tokenizer, int32_t side, int32_t id);
enum {
  TSR_LONG_CUT = 0,
  TSR_LONG_SPLIT = 1,
  TSR_LONG_ERROR = 2,
};
void tsr_free(void *memory);
typedef struct tsr_shortlist tsr_shortlist;
typedef struct tsr_training_options {
  uint32_t struct_size;
  float dropout;
  float attention_dropout;
  float activation_dropout;
  float label_smoothing;
  float beta1, beta2;
  float epsilon;
  float weight_decay;
  int32_t decoupled;
  float max_norm;
  int32_t average;
  int32_t recompute;
  int32_t statistics;
  tsr_dtype products;
} tsr_training_options;
typedef struct tsr_trainer tsr_trainer;
enum {
  TSR_TOY_TASK_TRAINING = 0,
  TSR_TOY_TASK_HELD_OUT = 1,
};
enum {
  TSR_TOY_TASK_EOS = 0,
  TSR_TOY_TASK_UNK = 1,
  TSR_TOY_TASK_FIRST_TOKEN = 2,
};
typedef struct tsr_toy_task {
  int32_t kind;
  int32_t set;
  int32_t vocabulary;
  int32_t min_length;
  int32_t max_length;
  uint64_t seed;
} tsr_toy_task;
tsr_status tsr_toy_task_find(const char *name, int32_t *kind);
tsr_status tsr_toy_task_check(const tsr_toy_task *task);
typedef struct tsr_training_data_options {
  uint32_t struct_size;
  int32_t shuffle;
  tsr_corpus_files files;
  const tsr_tokenizer *tokenizer;
  const tsr_toy_task *task;
  int64_t task_examples;
  int32_t batch_tokens;
  int32_t max_source;
  int32_t max_target;
  int32_t step;
  double max_ratio;
  uint64_t seed;
  int64_t epochs;
  int32_t pool;
  int32_t decoder_start_id;
  int32_t source_pad_id;
  int32_t target_pad_id;
} tsr_training_data_options;
typedef struct tsr_training_data_counts {
  int64_t read;
  int64_t kept;
  int64_t empty;
  int64_t too_long;
  int64_t uneven;
} tsr_training_data_counts;
typedef struct tsr_schedule {
  int32_t kind;
  double peak;
  double floor;
  int64_t warmup;
} tsr_schedule;
tsr_status tsr_schedule_find(const char *name, int32_t *kind);
double tsr_schedule_paper_peak(double factor, int32_t d_model, int64_t warmup);
enum {
  TSR_INITIAL_XAVIER = 1,
  TSR_INITIAL_FAMILY = 2,
};
enum {
  TSR_CRITERION_LOSS = 1,
  TSR_CRITERION_BLEU = 2,
  TSR_CRITERION_EXACT = 3,
};
typedef struct tsr_training_run_step {
  int64_t step;
  int64_t epoch;
  double seconds;
  double loss;
  double rate;
  double gradient_norm;
  double tokens_per_second;
  double scale;
  int64_t skipped;
  double done;
  int32_t is_row;
  const tsr_trainer *trainer;
} tsr_training_run_step;
typedef struct tsr_training_run_validation {
  int64_t step;
  int64_t epoch;
  double seconds;
  double loss;
  double perplexity;
  double bleu;
  double exact;
  int32_t is_best;
  int32_t averaged;
} tsr_training_run_validation;
typedef void (*tsr_training_step_fn)(void *user, const tsr_training_run_step *step);
typedef void (*tsr_training_validation_fn)(void *user, const tsr_training_run_validation *validation);
typedef tsr_status (*tsr_training_opened_fn)(void *user, int64_t step);
typedef int32_t (*tsr_training_stopping_fn)(void *user);
typedef struct tsr_training_run_options {
  uint32_t struct_size;
  int32_t resume;
  const char *folder;
  const tsr_training_data_options *data;
  const char *tokenizer_folder;
  const tsr_training_options *training;
  tsr_schedule schedule;
  uint64_t seed;
  int32_t initial;
  int32_t accumulate;
  double average_decay;
  double loss_scale;
  int32_t scale_window;
  int32_t average_last;
  int64_t steps;
  double minutes;
  double until;
  int32_t patience;
  int32_t keep;
  int64_t log_every;
  int64_t save_every;
  int64_t validate_every;
  tsr_corpus_files valid;
  int32_t criterion;
  int32_t beam;
  int32_t sentences;
  tsr_dtype storage;
  int32_t saved_beam;
  int32_t reserved;
  void *user;
  tsr_training_step_fn step;
  tsr_training_validation_fn validation;
  tsr_training_opened_fn opened;
  tsr_training_stopping_fn is_stopping;
} tsr_training_run_options;
enum {
  TSR_TRAINING_END_STEPS = 1,
  TSR_TRAINING_END_EPOCHS = 2,
  TSR_TRAINING_END_MINUTES = 3,
  TSR_TRAINING_END_PATIENCE = 4,
  TSR_TRAINING_END_UNTIL = 5,
  TSR_TRAINING_END_STOPPED = 6,
};
typedef struct tsr_training_run_result {
  int32_t reason;
  int64_t step;
  int64_t epoch;
  int64_t skipped;
  double seconds;
  double loss;
  int32_t has_validation;
  tsr_training_run_validation validation;
  tsr_training_data_counts counts;
  int64_t state_bytes;
  int64_t temporary_bytes;
  int64_t planned_bytes;
  int32_t programs;
} tsr_training_run_result;
tsr_status tsr_training_run_sized(const tsr_model *model, tsr_device *device, tsr_device *fallback, const
    tsr_training_run_options *options, tsr_training_run_result *result, size_t size);
typedef struct tsr_translator tsr_translator;
typedef struct tsr_translator_options {
  uint32_t struct_size;
  int32_t n_devices;
  const char *const *devices;
  tsr_runtime *runtime;
  tsr_dtype weights;
  int32_t strict;
  int32_t batch;
  int32_t workers;
  int32_t queue;
  int32_t static_batches;
  int32_t alignment_layer;
  int32_t profile;
  tsr_progress_fn progress;
  void *progress_user;
  uint32_t alignment_heads;
  int32_t reserved;
} tsr_translator_options;
tsr_status tsr_translator_create(const tsr_model *model, const tsr_tokenizer *tokenizer, const tsr_translator_options
    *options, tsr_translator **translator);
void tsr_translator_close(tsr_translator *translator);
typedef tsr_status (*tsr_translator_use_fn)(void *user, tsr_transformer *transformer);
tsr_status tsr_translator_use(tsr_translator *translator, int32_t device, tsr_translator_use_fn use, void *user);
typedef void (*tsr_translation_piece_fn)(void *user, uint64_t ticket, const char *text, size_t size);
typedef struct tsr_translation_request {
  uint32_t struct_size;
  int32_t long_input;
  const char *text;
  uint64_t text_size;
  const char *source_language;
  const char *target_language;
  const char *prefix;
  const tsr_generate_options *search;
  int64_t number;
  double timeout;
  int32_t max_source;
  int32_t spans;
  int32_t alignment;
  int32_t replace_unknown;
  tsr_translation_piece_fn piece;
  void *piece_user;
  uint64_t prefix_size;
} tsr_translation_request;
typedef struct tsr_text_span {
  int32_t begin;
  int32_t end;
} tsr_text_span;
typedef struct tsr_translation_hypothesis {
  char *text;
  float score;
  int32_t is_cut;
  int32_t n_ids;
  int32_t n_source;
  int32_t *ids;
  float *attention;
  tsr_text_span *spans;
  int32_t *aligned;
  int32_t n_parts;
  int32_t *part_ends;
  float **part_attention;
} tsr_translation_hypothesis;
typedef struct tsr_translation {
  tsr_status status;
  int32_t n_hypotheses;
  char *message;
  int32_t n_parts;
  int32_t n_source_tokens;
  int32_t is_source_cut;
  int32_t n_restarts;
  double waiting_seconds;
  double seconds;
  tsr_translation_hypothesis **hypotheses;
  int32_t n_source_ids;
  int32_t n_source_parts;
  int32_t *source_ids;
  tsr_text_span *source_spans;
  int32_t *part_ends;
  int32_t is_about_text;
  int32_t has_more_source;
} tsr_translation;
void tsr_translation_free(tsr_translation *translation);
tsr_status tsr_translator_translate_together(tsr_translator *translator, int32_t n, const tsr_translation_request
    *requests, const volatile int32_t *stop, tsr_translation **answers);
typedef void (*tsr_translation_fn)(void *user, uint64_t ticket, const tsr_translation *translation);
tsr_status tsr_translator_submit(tsr_translator *translator, const tsr_translation_request *request,
    tsr_translation_fn answer, void *user, uint64_t *ticket);
void tsr_translator_cancel(tsr_translator *translator, uint64_t ticket);
typedef struct tsr_translator_device {
  char name[64];
  int32_t type;
  int32_t is_lost;
  int64_t bytes_in_use;
} tsr_translator_device;
tsr_status tsr_translator_get_device_sized(tsr_translator *translator, int32_t index, tsr_translator_device *info,
    size_t size);
"""
