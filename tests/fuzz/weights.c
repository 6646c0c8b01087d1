/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/weights.h"

#include "tests/fuzz/fuzz.h"
#include "tests/support/configs.h"

/* Tensors lie side by side in a file that is mapped: AddressSanitizer does not see who reads the next one. */
static void require_whole(const tsr_parameter *p, const tsr_piece *piece)
{
  const int64_t columns = p->shape.extent[p->shape.rank - 1], end = piece->first + piece->count;
  const int64_t rows = (end + columns - 1) / columns, groups = (columns + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
  if (!piece->scales) {
    return;
  }
  if (piece->columns > 0) {
    REQUIRE(piece->scales->dtype == TSR_F16);
    REQUIRE(piece->tensor->size >= (uint64_t)(rows * groups * TSR_I4_BYTES));
    REQUIRE(tsr_shape_elements(&piece->scales->shape) >= rows * groups);
  } else {
    const int64_t n = tsr_shape_elements(&piece->scales->shape);
    REQUIRE(piece->scales->dtype == TSR_F32);
    REQUIRE(piece->tensor->size >= (uint64_t)end * tsr_dtype_size(piece->tensor->dtype));
    REQUIRE(n == 1 || n >= rows);
  }
}

void read_weights(const tsr_model *model)
{
  enum { MOST = 64 };
  float values[MOST];
  for (int32_t i = 0; i < model->parameters.n; i++) {
    const tsr_parameter *p = &model->parameters.items[i];
    const int64_t elements = tsr_shape_elements(&p->shape), columns = p->shape.extent[p->shape.rank - 1];
    const int64_t n = elements < MOST ? elements : MOST;
    for (int32_t k = 0; k < p->n_pieces; k++) {
      require_whole(p, &p->pieces[k]);
    }
    (void)tsr_parameter_read(p, 0, n, TSR_F32, values);
    (void)tsr_parameter_read(p, elements - n, n, TSR_F32, values);
    if (p->stored == TSR_I8 || p->stored == TSR_I4) {
      tsr_kept scales;
      const tsr_kept kept = tsr_parameter_kept(p, p->stored, &scales);
      const int64_t rows = elements / columns;
      const int64_t n_scales = tsr_shape_elements(&scales.shape) / rows;
      int8_t *row = malloc((size_t)(tsr_shape_elements(&kept.shape) / rows));
      void *worth = malloc((size_t)n_scales * tsr_dtype_size(scales.dtype));
      REQUIRE(row && worth);
      (void)tsr_parameter_read_rows(p, rows - 1, 1, row, worth);
      free(row);
      free(worth);
    }
  }
}

static tsr_status read_small(void *context, int32_t parameter, int64_t first, int64_t count, float *elements)
{
  (void)context;
  for (int64_t i = 0; i < count; i++) {
    elements[i] = (float)((parameter + first + i) % 7 - 3) / 8.0f;
  }
  return TSR_OK;
}

void write_small_model(const char *folder, tsr_dtype storage)
{
  /* The second product of a feed-forward block has a whole group of four bits in each row, and a part of one. */
  tsr_transformer_config config = nn_config();
  config.d_model = 4;
  config.embedding_scale = 2.0f; /* its root */
  config.encoder_layers = config.encoder_heads = config.decoder_heads = 1;
  config.encoder_d_ff = config.decoder_d_ff = 36;
  config.source_vocabulary = 5;
  config.target_vocabulary = 6;
  const tsr_save_options options = {TSR_SIZED(tsr_save_options), .storage = storage};
  tsr_model *model = NULL;
  REQUIRE(tsr_model_create(&config, &model) == TSR_OK);
  REQUIRE(tsr_model_save(model, folder, &options, read_small, NULL) == TSR_OK);
  tsr_model_close(model);
}
