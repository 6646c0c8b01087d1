/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/tiny_model.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/tensor.h"
#include "tests/support/spm_writer.h"
#include "tests/support/temporary.h"

static const char *const pieces[] = {"\xE2\x96\x81",     "a",  "b",  "c", "d", "e", ".", "\xE2\x96\x81the",
                                     "\xE2\x96\x81\x61", "he", "ab", "x", "y"};
enum { N_PIECES = sizeof pieces / sizeof pieces[0] };

static void require(int condition, const char *what)
{
  if (!condition) {
    fprintf(stderr, "tiny model: %s\n", what);
    abort();
  }
}

static json_t *parse(const char *text)
{
  json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
  require(value != NULL, text);
  return value;
}

static void set(json_t *object, const char *key, json_int_t value)
{
  require(json_object_set_new(object, key, json_integer(value)) == 0, key);
}

static void change_key(json_t *object, const char *key, const char *value)
{
  if (key && value) {
    json_object_set_new(object, key, parse(value));
  } else if (key) {
    require(json_object_del(object, key) == 0, key);
  }
}

static void write_json(const char *path, json_t *value)
{
  require(json_dump_file(value, path, JSON_INDENT(1)) == 0, path);
  json_decref(value);
}

static void write_config(const char *folder, const tiny_change *change)
{
  json_t *config = json_object();
  json_object_set_new(config, "model_type", json_string("marian"));
  json_object_set_new(config, "activation_function", json_string("swish"));
  json_object_set_new(config, "scale_embedding", json_true());
  json_object_set_new(config, "share_encoder_decoder_embeddings", json_true());
  set(config, "d_model", TINY_D_MODEL);
  set(config, "encoder_layers", TINY_LAYERS);
  set(config, "decoder_layers", TINY_LAYERS);
  set(config, "encoder_attention_heads", TINY_HEADS);
  set(config, "decoder_attention_heads", TINY_HEADS);
  set(config, "encoder_ffn_dim", TINY_D_FF);
  set(config, "decoder_ffn_dim", TINY_D_FF);
  set(config, "vocab_size", TINY_VOCABULARY);
  set(config, "max_position_embeddings", TINY_POSITIONS);
  set(config, "pad_token_id", TINY_PAD);
  set(config, "decoder_start_token_id", TINY_PAD);
  set(config, "eos_token_id", TINY_EOS);
  change_key(config, change->config_key, change->config_value);
  write_json(path_in(folder, "config.json"), config);
}

static void write_vocabulary(const char *folder, const tiny_change *change)
{
  json_t *vocabulary = json_object();
  set(vocabulary, "</s>", TINY_EOS);
  set(vocabulary, "<unk>", TINY_UNK);
  for (int i = 0; i < N_PIECES; i++) {
    set(vocabulary, pieces[i], 2 + i);
  }
  set(vocabulary, "<pad>", TINY_PAD);
  change_key(vocabulary, change->token, change->token_value);
  write_json(path_in(folder, "vocab.json"), vocabulary);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Weights
 */
typedef struct weights {
  const tiny_change *change;
  json_t *header;
  unsigned char *data;
  size_t size;
  uint32_t random;
} weights;

static float next_random(weights *w)
{
  w->random = w->random * 1664525u + 1013904223u;
  return (float)(w->random >> 8) / (float)(1 << 24) - 0.5f;
}

static void add_tensor(weights *w, const char *name, json_t *shape)
{
  const char *type = "F32";
  if (w->change->tensor && strcmp(w->change->tensor, name) == 0) {
    if (!w->change->tensor_shape && !w->change->tensor_type) {
      json_decref(shape);
      return;
    }
    if (w->change->tensor_shape) {
      json_decref(shape);
      shape = parse(w->change->tensor_shape);
    }
    type = w->change->tensor_type ? w->change->tensor_type : type;
  }
  size_t elements = 1;
  size_t index;
  json_t *extent;
  json_array_foreach(shape, index, extent)
  {
    elements *= (size_t)json_integer_value(extent);
  }
  size_t bits = (size_t)strtoul(type + strcspn(type, "0123456789"), NULL, 10);
  size_t size = elements * bits / 8;
  w->data = realloc(w->data, w->size + size + 1);
  require(w->data != NULL, name);
  memset(w->data + w->size, 0, size);
  int is_norm = strstr(name, "layer_norm.weight") != NULL;
  for (size_t i = 0; i < elements; i++) {
    float value = next_random(w) + (float)is_norm;
    uint16_t half = tsr_f32_to_f16(value);
    if (strcmp(type, "F32") == 0) {
      memcpy(w->data + w->size + i * sizeof value, &value, sizeof value);
    }
    if (strcmp(type, "F16") == 0) {
      memcpy(w->data + w->size + i * sizeof half, &half, sizeof half);
    }
  }
  json_object_set_new(w->header, name,
                      json_pack("{s:s, s:o, s:[I, I]}", "dtype", type, "shape", shape, "data_offsets",
                                (json_int_t)w->size, (json_int_t)w->size + (json_int_t)size));
  w->size += size;
}

/* A weight [rows, columns] and its bias [rows]; columns 0: a norm, [rows] both. */
static void add_pair(weights *w, const char *stack, int layer, const char *part, int rows, int columns)
{
  char name[128];
  snprintf(name, sizeof name, "model.%s.layers.%d.%s.weight", stack, layer, part);
  add_tensor(w, name, columns > 0 ? json_pack("[i, i]", rows, columns) : json_pack("[i]", rows));
  snprintf(name, sizeof name, "model.%s.layers.%d.%s.bias", stack, layer, part);
  add_tensor(w, name, json_pack("[i]", rows));
}

static void add_attention(weights *w, const char *stack, int layer, const char *attention)
{
  static const char *const projections[] = {"q_proj", "k_proj", "v_proj", "out_proj"};
  char part[64];
  for (int i = 0; i < 4; i++) {
    snprintf(part, sizeof part, "%s.%s", attention, projections[i]);
    add_pair(w, stack, layer, part, TINY_D_MODEL, TINY_D_MODEL);
  }
  snprintf(part, sizeof part, "%s_layer_norm", attention);
  add_pair(w, stack, layer, part, TINY_D_MODEL, 0);
}

static void write_weights(const char *folder, const tiny_change *change)
{
  weights w = {.change = change, .header = json_object(), .random = 1};
  add_tensor(&w, "model.shared.weight", json_pack("[i, i]", TINY_VOCABULARY, TINY_D_MODEL));
  add_tensor(&w, "final_logits_bias", json_pack("[i, i]", 1, TINY_VOCABULARY));
  for (int layer = 0; layer < TINY_LAYERS; layer++) {
    add_attention(&w, "encoder", layer, "self_attn");
    add_attention(&w, "decoder", layer, "self_attn");
    add_attention(&w, "decoder", layer, "encoder_attn");
    for (int decoder = 0; decoder <= 1; decoder++) {
      const char *stack = decoder ? "decoder" : "encoder";
      add_pair(&w, stack, layer, "fc1", TINY_D_FF, TINY_D_MODEL);
      add_pair(&w, stack, layer, "fc2", TINY_D_MODEL, TINY_D_FF);
      add_pair(&w, stack, layer, "final_layer_norm", TINY_D_MODEL, 0);
    }
  }

  char *header = json_dumps(w.header, JSON_COMPACT);
  require(header != NULL, "header");
  size_t header_size = strlen(header);
  size_t size = 8 + header_size + w.size;
  unsigned char *file = malloc(size);
  require(file != NULL, "file");
  for (int i = 0; i < 8; i++) {
    file[i] = (unsigned char)((uint64_t)header_size >> (8 * i));
  }
  memcpy(file + 8, header, header_size);
  memcpy(file + 8 + header_size, w.data, w.size);
  int64_t cut = change->checkpoint_size;
  if (cut != 0) {
    size = cut > 0 ? (size_t)cut : size - (size_t)-cut;
  }
  write_file(path_in(folder, "model.safetensors"), file, size);
  free(file);
  free(header);
  free(w.data);
  json_decref(w.header);
}

void write_tiny_model(const char *folder, const tiny_change *change)
{
  static const tiny_change none;
  if (!change) {
    change = &none;
  }
  write_config(folder, change);
  write_vocabulary(folder, change);
  write_weights(folder, change);
  write_text(path_in(folder, "tokenizer_config.json"), "{\"separate_vocabs\": false}");
  spm_writer model = {0};
  spm_add_pieces(&model, pieces, N_PIECES);
  write_file(path_in(folder, "source.spm"), model.bytes, model.size);
  write_file(path_in(folder, "target.spm"), model.bytes, model.size);
  spm_finish(&model);
  if (change->without_file) {
    require(remove(path_in(folder, change->without_file)) == 0, change->without_file);
  }
  if (change->file) {
    write_text(path_in(folder, change->file), change->file_text);
  }
}
