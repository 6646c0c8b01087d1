/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/random_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/temporary.h"

enum { MAX_TENSORS = 512, NAME_ROOM = 128 };

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
} writer;

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int32_t random_below(uint64_t *state, int32_t n)
{
  return (int32_t)(next_random(state) % (uint64_t)n);
}

static void add(writer *w, int64_t rows, int64_t columns, int32_t gain, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
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
  assert_true(w->n < MAX_TENSORS);
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

static char *write_header(const writer *w, size_t *size)
{
  size_t room = 256 * (size_t)w->n + 64;
  char *header = malloc(room);
  assert_non_null(header);
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
  *size = used;
  return header;
}

static void write_weights(const char *folder, const writer *w)
{
  size_t header_size = 0;
  char *header = write_header(w, &header_size);
  size_t total = 8 + header_size;
  for (int32_t i = 0; i < w->n; i++) {
    total += 4 * (size_t)elements(&w->tensors[i]);
  }
  char *bytes = malloc(total);
  assert_non_null(bytes);
  uint64_t length = header_size;
  for (int i = 0; i < 8; i++) {
    bytes[i] = (char)(unsigned char)(length >> (8 * i));
  }
  memcpy(bytes + 8, header, header_size);
  char *to = bytes + 8 + header_size;
  uint64_t random = w->model.seed;
  for (int32_t i = 0; i < w->n; i++) {
    const tensor *t = &w->tensors[i];
    int all_nan = w->model.nan && strstr(t->name, w->model.nan);
    /* Matrices keep a vector's size; rows of tables are of size 1. */
    double size = t->rows > 0 ? 1.7 / sqrt((double)t->columns) : 0.1;
    for (int64_t e = 0; e < elements(t); e++, to += 4) {
      double unit = (double)(next_random(&random) >> 11) * 0x1p-53 * 2.0 - 1.0;
      float value = all_nan ? NAN : (float)(unit * size + t->gain);
      memcpy(to, &value, 4);
    }
  }
  write_file(path_in(folder, "model.safetensors"), bytes, total);
  free(bytes);
  free(header);
}

static void write_config(const char *folder, const random_model *m)
{
  char text[2048];
  int n = 0;
  if (m->nn) {
    n = snprintf(text, sizeof text,
                 "{%s\"model_type\":\"nn_transformer\",\"d_model\":%d,\"nhead\":%d,\"num_encoder_layers\":%d,"
                 "\"num_decoder_layers\":%d,\"dim_feedforward\":%d,\"src_vocab_size\":%d,\"tgt_vocab_size\":%d,"
                 "\"max_position_embeddings\":%d,\"norm_first\":%s,\"activation\":\"gelu\",\"pad_token_id\":0,"
                 "\"bos_token_id\":1,\"eos_token_id\":2,\"decoder_start_token_id\":1}",
                 m->extra ? m->extra : "", (int)m->d_model, (int)m->heads, (int)m->layers, (int)m->layers, (int)m->d_ff,
                 (int)m->vocabulary, (int)target_vocabulary(m), (int)m->positions, m->norm_first ? "true" : "false");
  } else {
    n = snprintf(text, sizeof text,
                 "{%s\"model_type\":\"marian\",\"d_model\":%d,\"encoder_attention_heads\":%d,"
                 "\"decoder_attention_heads\":%d,\"encoder_layers\":%d,\"decoder_layers\":%d,\"encoder_ffn_dim\":%d,"
                 "\"decoder_ffn_dim\":%d,\"vocab_size\":%d,\"max_position_embeddings\":%d,"
                 "\"activation_function\":\"swish\",\"scale_embedding\":true,\"pad_token_id\":%d,\"eos_token_id\":0,"
                 "\"bos_token_id\":null,\"decoder_start_token_id\":%d,\"decoder_vocab_size\":%d,"
                 "\"share_encoder_decoder_embeddings\":%s}",
                 m->extra ? m->extra : "", (int)m->d_model, (int)m->heads, (int)m->heads, (int)m->layers,
                 (int)m->layers, (int)m->d_ff, (int)m->d_ff, (int)m->vocabulary, (int)m->positions,
                 (int)m->vocabulary - 1, (int)target_vocabulary(m) - 1, (int)target_vocabulary(m),
                 m->target ? "false" : "true");
  }
  assert_true(n > 0 && (size_t)n < sizeof text);
  write_text(path_in(folder, "config.json"), text);
}

static void set_default(int32_t *value, int32_t fallback)
{
  if (*value == 0) {
    *value = fallback;
  }
}

void random_model_write(const char *folder, const random_model *model)
{
  writer *w = calloc(1, sizeof *w);
  assert_non_null(w);
  w->model = *model;
  set_default(&w->model.d_model, 24);
  set_default(&w->model.heads, 3);
  set_default(&w->model.d_ff, 40);
  set_default(&w->model.layers, 2);
  set_default(&w->model.vocabulary, 37);
  set_default(&w->model.positions, 64);
  list_tensors(w);
  write_config(folder, &w->model);
  write_weights(folder, w);
  free(w);
}
