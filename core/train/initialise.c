/* SPDX-License-Identifier: Apache-2.0 */
#include "tessera/training_run.h"

#include <math.h>
#include <string.h>

#include "core/base/status.h"
#include "core/train/draws.h"
#include "core/transformer/model.h"
#include "core/transformer/positions.h"

static const double turn = 6.283185307179586476925; /* 2 pi */

/* What a parameter is, which decides how it begins. */
enum { ROLE_GAIN, ROLE_BIAS, ROLE_TABLE, ROLE_LOGITS, ROLE_PRODUCT };

enum { FILL_VALUE, FILL_UNIFORM, FILL_NORMAL };

/* How the elements of a parameter are filled. */
typedef struct filling {
  int32_t kind;
  double size; /* the value itself; the limit of uniform numbers; the standard deviation of normal ones */
} filling;

static int ends_with(const char *name, const char *end)
{
  size_t length = strlen(name), size = strlen(end);
  return length >= size && strcmp(name + length - size, end) == 0;
}

static int32_t role_of(const tsr_parameter *parameter)
{
  const char *name = parameter->name;
  if (ends_with(name, ".bias")) {
    return ROLE_BIAS;
  }
  if (parameter->shape.rank == 1) {
    return ROLE_GAIN;
  }
  if (strncmp(name, "logits.", 7) == 0) {
    return ROLE_LOGITS;
  }
  return ends_with(name, "embedding.weight") || ends_with(name, "positions.weight") ||
                 ends_with(name, "relative.weight")
             ? ROLE_TABLE
             : ROLE_PRODUCT;
}

/* Glorot's limit for a matrix of `out` rows and `in` columns. */
static filling glorot(double out, double in)
{
  return (filling){FILL_UNIFORM, sqrt(6.0 / (out + in))};
}

static filling xavier(const tsr_model *model, const tsr_parameter *parameter)
{
  double rows = (double)parameter->shape.extent[0], columns = (double)parameter->shape.extent[1];
  if (parameter->matrix == TSR_MATRIX_CONVOLUTION) { /* [out, kernel, in]: each element of the kernel is a matrix */
    return glorot(rows * columns, columns * (double)parameter->shape.extent[2]);
  }
  switch (role_of(parameter)) {
  case ROLE_GAIN:
    return (filling){FILL_VALUE, 1.0};
  case ROLE_BIAS:
    return (filling){FILL_VALUE, 0.0};
  case ROLE_PRODUCT:
    rows /= ends_with(parameter->name, ".qkv.weight") ? 3.0 : ends_with(parameter->name, ".kv.weight") ? 2.0 : 1.0;
    return glorot(rows, columns);
  default:
    return (filling){FILL_NORMAL, 1.0 / sqrt((double)model->config.d_model)};
  }
}

/* nn.Transformer, nn.Embedding and nn.Linear of torch. */
static filling as_torch(const tsr_model *model, const tsr_parameter *parameter)
{
  const tsr_transformer_config *config = &model->config;
  const char *name = parameter->name;
  double rows = (double)parameter->shape.extent[0], columns = (double)parameter->shape.extent[1];
  int is_joined = strstr(name, ".cross_attention.query.") || strstr(name, ".cross_attention.kv.");
  switch (role_of(parameter)) {
  case ROLE_GAIN:
    return (filling){FILL_VALUE, 1.0};
  case ROLE_TABLE:
    return (filling){FILL_NORMAL, 1.0};
  case ROLE_LOGITS:
    return (filling){FILL_UNIFORM, 1.0 / sqrt((double)config->d_model)};
  case ROLE_PRODUCT:
    return glorot(is_joined ? 3.0 * config->decoder_heads * config->decoder_head_size : rows, columns);
  default:
    break;
  }
  if (strncmp(name, "logits.", 7) == 0 || ends_with(name, ".feed_forward.in.bias")) {
    return (filling){FILL_UNIFORM, 1.0 / sqrt((double)config->d_model)};
  }
  if (ends_with(name, ".feed_forward.out.bias")) {
    int32_t d_ff = strncmp(name, "encoder.", 8) == 0 ? config->encoder_d_ff : config->decoder_d_ff;
    return (filling){FILL_UNIFORM, 1.0 / sqrt((double)d_ff)};
  }
  return (filling){FILL_VALUE, 0.0};
}

static filling as_family(const tsr_model *model, const tsr_parameter *parameter)
{
  if (model->family->init_std == 0.0) {
    return as_torch(model, parameter);
  }
  switch (role_of(parameter)) {
  case ROLE_GAIN:
    return (filling){FILL_VALUE, 1.0};
  case ROLE_BIAS:
    return (filling){FILL_VALUE, 0.0};
  default:
    return (filling){FILL_NORMAL, model->family->init_std};
  }
}

static void fill_uniform(tsr_draws *draws, double limit, float *out, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    double drawn = ((double)(tsr_draw(draws) >> 8) + 0.5) * 0x1p-24; /* between 0 and 1, neither of them */
    out[i] = (float)((2.0 * drawn - 1.0) * limit);
  }
}

/* Box and Muller's: two independent normal numbers of two even ones. */
static void fill_normal(tsr_draws *draws, double deviation, float *out, int64_t n)
{
  for (int64_t i = 0; i < n; i += 2) {
    double radius = deviation * sqrt(-2.0 * log(((double)tsr_draw(draws) + 0.5) * 0x1p-32));
    double angle = turn * ((double)tsr_draw(draws) * 0x1p-32);
    out[i] = (float)(radius * cos(angle));
    if (i + 1 < n) {
      out[i + 1] = (float)(radius * sin(angle));
    }
  }
}

/* The row of a table of tokens that is to be zeros, or -1. */
static int64_t pad_row(const tsr_model *model, int32_t method, const tsr_parameter *parameter)
{
  const tsr_transformer_config *c = &model->config;
  int is_special = c->pad_id == c->eos_id || c->pad_id == c->bos_id || c->pad_id == c->unk_id;
  int has_zeros = method == TSR_INITIAL_XAVIER ? !is_special : model->family->init_std != 0.0;
  return has_zeros && ends_with(parameter->name, "embedding.weight") && c->pad_id < parameter->shape.extent[0]
             ? c->pad_id
             : -1;
}

tsr_status tsr_initial_find(const char *name, int32_t *method)
{
  if (strcmp(name, "xavier") == 0) {
    *method = TSR_INITIAL_XAVIER;
  } else if (strcmp(name, "family") == 0) {
    *method = TSR_INITIAL_FAMILY;
  } else {
    return tsr_fail(TSR_ERR_ARGUMENT, "there is no initialisation '%s'; there are xavier and family", name);
  }
  return TSR_OK;
}

tsr_status tsr_initialise(const tsr_model *model, int32_t method, uint64_t seed, int32_t index, float *elements,
                          int64_t n)
{
  if (index < 0 || index >= model->parameters.n || n != tsr_shape_elements(&model->parameters.items[index].shape)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_initialise: there is no parameter number %d of %lld elements", (int)index,
                    (long long)n);
  }
  if (method != TSR_INITIAL_XAVIER && method != TSR_INITIAL_FAMILY) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_initialise: there is no method %d", (int)method);
  }
  const tsr_parameter *parameter = &model->parameters.items[index];
  if (model->config.mels > 0 && strcmp(parameter->name, TSR_ENCODER_POSITIONS) == 0) {
    return tsr_positions_of_sound(model->config.d_model, 0, parameter->shape.extent[0], elements);
  }
  if (parameter->is_constant) {
    return tsr_parameter_read(parameter, 0, n, TSR_F32, elements);
  }
  filling how = method == TSR_INITIAL_XAVIER ? xavier(model, parameter) : as_family(model, parameter);
  int64_t rows = parameter->shape.rank > 1 ? parameter->shape.extent[0] : 1;
  int64_t columns = rows > 0 ? n / rows : 0;
  int64_t zeros = pad_row(model, method, parameter);
  for (int64_t row = 0; row < rows; row++) {
    float *out = elements + row * columns;
    tsr_draws draws = tsr_draws_make(seed, TSR_DRAWS_WEIGHTS, (uint32_t)index, (uint32_t)row, 0);
    if (row == zeros || how.kind == FILL_VALUE) {
      float value = row == zeros ? 0.0f : (float)how.size;
      for (int64_t i = 0; i < columns; i++) {
        out[i] = value;
      }
    } else if (how.kind == FILL_UNIFORM) {
      fill_uniform(&draws, how.size, out, columns);
    } else {
      fill_normal(&draws, how.size, out, columns);
    }
  }
  return TSR_OK;
}
