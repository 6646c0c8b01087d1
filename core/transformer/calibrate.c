/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transformer/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "tessera/inspect.h"

enum { WIDTH = TSR_FACTORS_WIDTH };

struct tsr_calibration {
  const tsr_model *model;
  /* [parameters.n]: of each block of WIDTH columns of a matrix the products of any two of its inputs, the second not
   * before the first, summed over all rows, [WIDTH][WIDTH]; NULL: the matrix was not multiplied with anything. */
  float **products;
};

tsr_status tsr_calibration_create(const tsr_model *model, tsr_calibration **calibration)
{
  if (!model || !calibration) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_calibration_create: model and calibration must not be NULL");
  }
  *calibration = NULL;
  tsr_calibration *c = calloc(1, sizeof *c);
  if (c) {
    *c = (tsr_calibration){.model = model, .products = calloc((size_t)model->parameters.n + 1, sizeof *c->products)};
  }
  if (!c || !c->products) {
    free(c);
    return tsr_fail_memory(((size_t)model->parameters.n + 1) * sizeof *c->products);
  }
  *calibration = c;
  return TSR_OK;
}

void tsr_calibration_destroy(tsr_calibration *calibration)
{
  if (!calibration) {
    return;
  }
  for (int32_t i = 0; i < calibration->model->parameters.n; i++) {
    free(calibration->products[i]);
  }
  free(calibration->products);
  free(calibration);
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static int64_t columns_of(const tsr_parameter *matrix)
{
  return matrix->shape.extent[1];
}

/* Of the block that begins with column `first`. */
static int64_t width_of(const tsr_parameter *matrix, int64_t first)
{
  return columns_of(matrix) - first < WIDTH ? columns_of(matrix) - first : WIDTH;
}

static size_t factors_size(const tsr_parameter *matrix)
{
  return (size_t)((columns_of(matrix) + WIDTH - 1) / WIDTH) * WIDTH * WIDTH * sizeof(float);
}

static void add_row(const float *row, const tsr_parameter *matrix, float *products)
{
  for (int64_t first = 0; first < columns_of(matrix); first += WIDTH, products += WIDTH * WIDTH) {
    const float *x = row + first;
    const int64_t n = width_of(matrix, first);
    for (int64_t k = 0; k < n; k++) {
      float *to = products + k * WIDTH;
      for (int64_t i = k; i < n && x[k] != 0.0f; i++) {
        to[i] += x[k] * x[i];
      }
    }
  }
}

/* input: NAME.input, NAME being a matrix. A table of embeddings is looked up, too, where each weight's own error
 * counts: rare words suffer from what is made of it otherwise. */
static tsr_status add_input(tsr_calibration *c, const tsr_inspected *input)
{
  char name[TSR_PARAMETER_NAME_ROOM] = {0};
  const size_t length = strlen(input->name) - strlen(".input");
  if (length >= sizeof name) {
    return TSR_OK;
  }
  memcpy(name, input->name, length);
  const tsr_parameter *matrix = tsr_model_find(c->model, name);
  const int64_t columns = input->shape.extent[input->shape.rank - 1];
  if (!matrix || matrix->matrix != TSR_MATRIX_PRODUCT || columns_of(matrix) != columns || strstr(name, "embedding.")) {
    return TSR_OK;
  }
  float **products = &c->products[matrix - c->model->parameters.items];
  *products = *products ? *products : calloc(1, factors_size(matrix));
  if (!*products) {
    return tsr_fail_memory(factors_size(matrix));
  }
  for (int64_t i = 0; i < tsr_shape_elements(&input->shape); i += columns) {
    add_row(input->values + i, matrix, *products);
  }
  return TSR_OK;
}

tsr_status tsr_calibration_add(tsr_calibration *calibration, tsr_transformer *transformer, int32_t n_source,
                               const int32_t *source, int32_t n_target, const int32_t *target)
{
  if (!calibration || !transformer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_calibration_add: calibration and transformer must not be NULL");
  }
  const tsr_model *model = tsr_transformer_model(transformer);
  if (model != calibration->model && strcmp(model->folder, calibration->model->folder) != 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_calibration_add: the transformer is of the model %s, the calibration of %s",
                    model->folder, calibration->model->folder);
  }
  tsr_inspection inspection;
  TSR_TRY(tsr_transformer_inspect(transformer, TSR_INSPECT_INPUTS, 1, n_source, source, &n_source, n_target, target,
                                  &inspection));
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < inspection.n && status == TSR_OK; i++) {
    status = add_input(calibration, &inspection.tensors[i]);
  }
  tsr_inspection_finish(&inspection);
  return status;
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */

/* What is added to the square of each input, so that those which the sentences hardly had are not taken for nothing.
 * Frantar et al. add a hundredth of the mean, after a hundred times as much text. */
static double damping_of(const float *products, int64_t n)
{
  const double share = 0.1;
  double sum = 0.0;
  for (int64_t k = 0; k < n; k++) {
    sum += (double)products[k * WIDTH + k];
  }
  return share * sum / (double)n;
}

/* The triangle V, in the upper half of v [n][n], of which products + damping is V V'. */
static void decompose(const float *products, double damping, int64_t n, double *v)
{
  for (int64_t j = n - 1; j >= 0; j--) {
    for (int64_t i = 0; i <= j; i++) {
      double sum = (double)products[i * WIDTH + j] + (i == j ? damping : 0.0);
      for (int64_t k = j + 1; k < n; k++) {
        sum -= v[i * n + k] * v[j * n + k];
      }
      v[i * n + j] = sum; /* of the last, j: still the square */
    }
    /* Rounding may leave less than damping. */
    const double root = sqrt(fmax(v[j * n + j], damping));
    for (int64_t i = 0; i < j; i++) {
      v[i * n + j] /= root;
    }
    v[j * n + j] = root;
  }
}

/* Its inverse U, by rows from the last on: factors are the rows of U, each divided by its first element. */
static void invert(const double *v, int64_t n, double *u, float *factors)
{
  for (int64_t i = n - 1; i >= 0; i--) {
    double *row = u + i * n;
    memset(row, 0, (size_t)n * sizeof *row);
    row[i] = 1.0;
    for (int64_t k = i + 1; k < n; k++) {
      for (int64_t j = k; j < n; j++) {
        row[j] -= v[i * n + k] * u[k * n + j];
      }
    }
    for (int64_t j = i; j < n; j++) {
      row[j] /= v[i * n + i];
    }
    for (int64_t j = i; j < n; j++) {
      factors[i * WIDTH + j] = (float)(row[j] / row[i]);
    }
  }
}

tsr_status tsr_calibration_factors(const tsr_calibration *calibration, int32_t parameter, tsr_factors *factors)
{
  const float *products = calibration ? calibration->products[parameter] : NULL;
  if (!products) {
    tsr_factors_finish(factors);
    return TSR_OK;
  }
  if (factors->blocks && factors->parameter == parameter) {
    return TSR_OK;
  }
  const tsr_parameter *matrix = &calibration->model->parameters.items[parameter];
  const size_t size = factors_size(matrix), room = 2 * (size_t)WIDTH * WIDTH * sizeof(double);
  tsr_factors_finish(factors);
  *factors = (tsr_factors){.parameter = parameter, .blocks = calloc(1, size)};
  double *v = malloc(room);
  if (!factors->blocks || !v) {
    free(v);
    tsr_factors_finish(factors);
    return tsr_fail_memory(size + room);
  }
  float *to = factors->blocks;
  for (int64_t first = 0; first < columns_of(matrix); first += WIDTH) {
    const int64_t n = width_of(matrix, first);
    const double damping = damping_of(products, n);
    if (damping > 0.0) { /* else all of these inputs were 0 */
      decompose(products, damping, n, v);
      invert(v, n, v + WIDTH * WIDTH, to);
    }
    products += WIDTH * WIDTH;
    to += WIDTH * WIDTH;
  }
  free(v);
  return TSR_OK;
}

void tsr_factors_finish(tsr_factors *factors)
{
  free(factors->blocks);
  *factors = (tsr_factors){0};
}
