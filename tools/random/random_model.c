/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/random/random_model.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/random/random.h"

enum { MAX_TENSORS = 1024, NAME_ROOM = 128, CHUNK = 4096 /* values written at a time */ };

typedef struct tensor {
  char name[NAME_ROOM];
  int64_t rows; /* 0: a vector */
  int64_t columns;
  int32_t gain; /* 1: near 1; 0: near 0 */
} tensor;

typedef struct writer {
  random_model model;
  tensor tensors[MAX_TENSORS];
  int32_t n;
  int32_t full; /* there were more */
} writer;

static void add(writer *w, int64_t rows, int64_t columns, int32_t gain, const char *format, ...) TSR_PRINTF(5, 6);
static void add(writer *w, int64_t rows, int64_t columns, int32_t gain, const char *format, ...)
{
  char name[NAME_ROOM];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  if (w->model.drop && strcmp(name, w->model.drop) == 0) {
    return;
  }
  if (w->n == MAX_TENSORS) {
    w->full = 1;
    return;
  }
  tensor *t = &w->tensors[w->n++];
  *t = (tensor){.rows = rows, .columns = columns, .gain = gain};
  const char *unrooted = w->model.unrooted;
  size_t skip = unrooted && strncmp(name, unrooted, strlen(unrooted)) == 0 ? strlen(unrooted) : 0;
  snprintf(t->name, sizeof t->name, "%.32s%.90s", w->model.prefix ? w->model.prefix : "", name + skip);
  t->columns += w->model.reshape && strcmp(name, w->model.reshape) == 0;
}

static void add_linear(writer *w, int64_t rows, int64_t columns, const char *name, const char *part)
{
  add(w, rows, columns, 0, "%s%s.weight", name, part);
  add(w, 0, rows, 0, "%s%s.bias", name, part);
}

static void add_norm(writer *w, const char *name, const char *part)
{
  add(w, 0, w->model.d_model, 1, "%s%s.weight", name, part);
  add(w, 0, w->model.d_model, 0, "%s%s.bias", name, part);
}

static void add_marian_layer(writer *w, const char *stack, int32_t index)
{
  static const char *const projections[] = {"q_proj", "k_proj", "v_proj", "out_proj"};
  int32_t d = w->model.d_model;
  int decoder = strcmp(stack, "decoder") == 0;
  char layer[64];
  snprintf(layer, sizeof layer, "model.%s.layers.%d.", stack, (int)index);
  for (int attention = 0; attention <= decoder; attention++) {
    for (int i = 0; i < 4; i++) {
      char part[64];
      snprintf(part, sizeof part, "%s.%s", attention ? "encoder_attn" : "self_attn", projections[i]);
      add_linear(w, d, d, layer, part);
    }
    add_norm(w, layer, attention ? "encoder_attn_layer_norm" : "self_attn_layer_norm");
  }
  add_linear(w, w->model.d_ff, d, layer, "fc1");
  add_linear(w, d, w->model.d_ff, layer, "fc2");
  add_norm(w, layer, "final_layer_norm");
}

static void add_nn_attention(writer *w, const char *layer, const char *part)
{
  int32_t d = w->model.d_model;
  char name[96];
  add(w, 3 * d, d, 0, "%s%s.in_proj_weight", layer, part);
  add(w, 0, 3 * d, 0, "%s%s.in_proj_bias", layer, part);
  snprintf(name, sizeof name, "%s.out_proj", part);
  add_linear(w, d, d, layer, name);
}

static void add_nn_layer(writer *w, const char *stack, int32_t index)
{
  int32_t d = w->model.d_model;
  int decoder = strcmp(stack, "decoder") == 0;
  char layer[64];
  snprintf(layer, sizeof layer, "transformer.%s.layers.%d.", stack, (int)index);
  add_nn_attention(w, layer, "self_attn");
  if (w->model.max_distance > 0) {
    add(w, 2 * w->model.max_distance + 1, w->model.heads, 0, "%sself_attn.relative_attention_bias.weight", layer);
  }
  if (decoder) {
    add_nn_attention(w, layer, "multihead_attn");
    add_norm(w, layer, "norm3");
  }
  add_linear(w, w->model.d_ff, d, layer, "linear1");
  add_linear(w, d, w->model.d_ff, layer, "linear2");
  add_norm(w, layer, "norm1");
  add_norm(w, layer, "norm2");
}

static int32_t target_vocabulary(const random_model *m)
{
  return m->target ? m->target : m->vocabulary;
}

static void list_tensors(writer *w)
{
  const random_model *m = &w->model;
  if (m->nn) {
    add(w, m->vocabulary, m->d_model, 0, "src_tok_emb.embedding.weight");
    add(w, target_vocabulary(m), m->d_model, 0, "tgt_tok_emb.embedding.weight");
    add_linear(w, target_vocabulary(m), m->d_model, "generator", "");
    add_norm(w, "transformer.encoder.", "norm");
    add_norm(w, "transformer.decoder.", "norm");
  } else {
    if (m->target) {
      add(w, m->vocabulary, m->d_model, 0, "model.encoder.embed_tokens.weight");
      add(w, m->target, m->d_model, 0, "model.decoder.embed_tokens.weight");
    } else {
      add(w, m->vocabulary, m->d_model, 0, "model.shared.weight");
    }
    add(w, 0, target_vocabulary(m), 0, "final_logits_bias");
  }
  for (int32_t i = 0; i < m->layers; i++) {
    if (m->nn) {
      add_nn_layer(w, "encoder", i);
      add_nn_layer(w, "decoder", i);
    } else {
      add_marian_layer(w, "encoder", i);
      add_marian_layer(w, "decoder", i);
    }
  }
}

static int64_t elements(const tensor *t)
{
  return t->rows > 0 ? t->rows * t->columns : t->columns;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

typedef struct output {
  FILE *file;
  char *path;
} output;

static tsr_status fail_output(const output *out)
{
  return tsr_fail(TSR_ERR_IO, "%s: cannot be written: %s", out->path, strerror(errno));
}

/* Close it after success. */
static tsr_status open_output(const char *folder, const char *name, output *out)
{
  size_t room = strlen(folder) + strlen(name) + 2;
  out->path = malloc(room);
  if (!out->path) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  snprintf(out->path, room, "%s/%s", folder, name);
  out->file = fopen(out->path, "wb");
  if (!out->file) {
    tsr_status status = fail_output(out);
    free(out->path);
    return status;
  }
  return TSR_OK;
}

static tsr_status close_output(output *out)
{
  int failed = ferror(out->file);
  failed |= fclose(out->file) != 0;
  tsr_status status = failed ? fail_output(out) : TSR_OK;
  free(out->path);
  return status;
}

/* The header of a safetensors file, its length before it. */
static tsr_status write_header(const writer *w, FILE *file)
{
  size_t room = 256 * (size_t)w->n + 64;
  char *header = malloc(room);
  if (!header) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  size_t used = (size_t)snprintf(header, room, "{");
  int64_t offset = 0;
  for (int32_t i = 0; i < w->n; i++) {
    const tensor *t = &w->tensors[i];
    char shape[64];
    if (t->rows > 0) {
      snprintf(shape, sizeof shape, "%lld,%lld", (long long)t->rows, (long long)t->columns);
    } else {
      snprintf(shape, sizeof shape, "%lld", (long long)t->columns);
    }
    int64_t end = offset + 4 * elements(t);
    used += (size_t)snprintf(header + used, room - used,
                             "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
                             i > 0 ? "," : "", t->name, shape, (long long)offset, (long long)end);
    offset = end;
  }
  used += (size_t)snprintf(header + used, room - used, "}");
  unsigned char length[8];
  for (int i = 0; i < 8; i++) {
    length[i] = (unsigned char)((uint64_t)used >> (8 * i));
  }
  fwrite(length, 1, sizeof length, file);
  fwrite(header, 1, used, file);
  free(header);
  return TSR_OK;
}

static void write_tensor(const writer *w, const tensor *t, uint64_t *random, FILE *file)
{
  float values[CHUNK];
  int all_nan = w->model.nan && strstr(t->name, w->model.nan);
  /* Matrices keep a vector's size; rows of tables are of size 1. */
  double size = t->rows > 0 ? 1.7 / sqrt((double)t->columns) : 0.1;
  for (int64_t left = elements(t); left > 0;) {
    size_t n = left < CHUNK ? (size_t)left : CHUNK;
    for (size_t i = 0; i < n; i++) {
      values[i] = all_nan ? NAN : (float)(tsr_random_real(random) * size + t->gain);
    }
    fwrite(values, sizeof *values, n, file);
    left -= (int64_t)n;
  }
}

static tsr_status write_weights(const char *folder, const writer *w)
{
  output out;
  tsr_status status = open_output(folder, "model.safetensors", &out);
  if (status != TSR_OK) {
    return status;
  }
  status = write_header(w, out.file);
  uint64_t random = w->model.seed;
  for (int32_t i = 0; i < w->n && status == TSR_OK && !ferror(out.file); i++) {
    write_tensor(w, &w->tensors[i], &random, out.file);
  }
  tsr_status closed = close_output(&out);
  return status == TSR_OK ? closed : status;
}

static tsr_status write_config(const char *folder, const random_model *m)
{
  output out;
  tsr_status status = open_output(folder, "config.json", &out);
  if (status != TSR_OK) {
    return status;
  }
  const char *extra = m->extra ? m->extra : "";
  if (m->nn) {
    char positions[64] = "";
    if (m->max_distance > 0) {
      snprintf(positions, sizeof positions, "\"position_encoding\":\"relative\",\"max_distance\":%d,",
               (int)m->max_distance);
    }
    fprintf(out.file,
            "{%s%s\"model_type\":\"nn_transformer\",\"d_model\":%d,\"nhead\":%d,\"num_encoder_layers\":%d,"
            "\"num_decoder_layers\":%d,\"dim_feedforward\":%d,\"src_vocab_size\":%d,\"tgt_vocab_size\":%d,"
            "\"max_position_embeddings\":%d,\"norm_first\":%s,\"activation\":\"gelu\",\"pad_token_id\":0,"
            "\"bos_token_id\":1,\"eos_token_id\":2,\"decoder_start_token_id\":1}",
            extra, positions, (int)m->d_model, (int)m->heads, (int)m->layers, (int)m->layers, (int)m->d_ff,
            (int)m->vocabulary, (int)target_vocabulary(m), (int)m->positions, m->norm_first ? "true" : "false");
  } else {
    fprintf(out.file,
            "{%s\"model_type\":\"marian\",\"d_model\":%d,\"encoder_attention_heads\":%d,"
            "\"decoder_attention_heads\":%d,\"encoder_layers\":%d,\"decoder_layers\":%d,\"encoder_ffn_dim\":%d,"
            "\"decoder_ffn_dim\":%d,\"vocab_size\":%d,\"max_position_embeddings\":%d,"
            "\"activation_function\":\"%s\",\"scale_embedding\":true,\"pad_token_id\":%d,\"eos_token_id\":0,"
            "\"bos_token_id\":null,\"decoder_start_token_id\":%d,\"decoder_vocab_size\":%d,"
            "\"share_encoder_decoder_embeddings\":%s}",
            extra, (int)m->d_model, (int)m->heads, (int)m->heads, (int)m->layers, (int)m->layers, (int)m->d_ff,
            (int)m->d_ff, (int)m->vocabulary, (int)m->positions, m->relu ? "relu" : "swish", (int)m->vocabulary - 1,
            (int)target_vocabulary(m) - 1, (int)target_vocabulary(m), m->target ? "false" : "true");
  }
  return close_output(&out);
}

static void set_default(int32_t *value, int32_t fallback)
{
  if (*value == 0) {
    *value = fallback;
  }
}

tsr_status random_model_create(const char *folder, const random_model *model)
{
  writer *w = calloc(1, sizeof *w);
  if (!w) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  }
  w->model = *model;
  set_default(&w->model.d_model, 24);
  set_default(&w->model.heads, 3);
  set_default(&w->model.d_ff, 40);
  set_default(&w->model.layers, 2);
  set_default(&w->model.vocabulary, 37);
  set_default(&w->model.positions, 64);
  list_tensors(w);
  tsr_status status = w->full ? tsr_fail(TSR_ERR_ARGUMENT, "a random model of more than %d tensors", (int)MAX_TENSORS)
                              : write_config(folder, &w->model);
  if (status == TSR_OK) {
    status = write_weights(folder, w);
  }
  free(w);
  return status;
}
