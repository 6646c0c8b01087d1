/* SPDX-License-Identifier: Apache-2.0
 *
 * tools/conformance/cases_attention.h: what the cases of attention and of its gradient share.
 */
#ifndef TESSERA_CONFORMANCE_CASES_ATTENTION_H
#define TESSERA_CONFORMANCE_CASES_ATTENTION_H

#include "tools/conformance/cases_masking.h"

typedef struct attention_params {
  int32_t n_batch, n_queries, n_keys, n_heads, k, j, rows, view, data_q, data_k, data_v, weights, layout;
  int32_t lse, seed, stream, runs;  /* seed: 1: a dropout. runs: 0 counts as 1 */
  int32_t reduced;                  /* 1: to f16; TSR_F16, TSR_BF16: to that */
  int32_t dtype;                    /* of k and v; 0: f32 */
  int32_t hidden, spread, hidden_k; /* from key hidden + spread * column on v is NaN or infinite; k from hidden_k on */
  int32_t chain, dscores, view_y,
      data_dy; /* of the gradient. chain: y and lse come from an attention in the same program */
  int32_t hidden_q,
      hidden_dy;  /* likewise: q is NaN or infinite before that query, dy before hidden_dy - spread * column */
  int32_t groups; /* heads of k and v; 0: as many as q has */
  float alpha, rate, softcap;
  masking_params masking;
} attention_params;

#define PARAMS(...)                                                                                                    \
  ((attention_params){                                                                                                 \
      .n_batch = 3, .n_queries = 5, .n_keys = 19, .n_heads = 2, .k = 16, .j = 16, .alpha = 0.25f, __VA_ARGS__})

enum {
  CHECK_LAYOUTS = 4,
  CHECK_HEAD_SIZES = 22,
  CHECK_KEY_SIZES = 22,
  CHECK_QUERY_SIZES = 12,
  CHECK_OPERAND_VIEWS = 7,
  CHECK_RATES = 4,
  CHECK_STREAMS = 3
};

/* layout: 0 [B, S, H, K] as it is; 1 cut out of a larger cache [B, S + 3, H, K]; 2 stored [B, H, S, K]; 3 stored in one
 * tensor with other columns [B, S, 3 H K] */
extern const char *const check_layout_names[CHECK_LAYOUTS];

/* On both sides of every size that a block may have. */
extern const int32_t check_head_sizes[CHECK_HEAD_SIZES], check_key_sizes[CHECK_KEY_SIZES],
    check_query_sizes[CHECK_QUERY_SIZES];
extern const int32_t check_operand_views[CHECK_OPERAND_VIEWS];

/* Of a dropout. */
extern const float check_rates[CHECK_RATES];
extern const int32_t check_streams[CHECK_STREAMS];

/* q (queries: 1), k or v of that type, [n_batch, n_positions, H, width], in the layout and view of the case; of k and v
 * H is the number of groups. */
tsr_ref check_attention_operand(check_build *build, const attention_params *p, tsr_dtype dtype, int32_t queries,
                                int64_t n_batch, int64_t n_positions, int64_t width, check_fill fill);

/* What k and v hold. */
check_fill check_attention_k(const attention_params *p);
check_fill check_attention_v(const attention_params *p);

/* Gives the attention its dropout, if the case has one. */
void check_attention_dropout(check_build *build, const attention_params *p, tsr_attention_args *args);

/* Writes what a case has beside what every case has, as part of its name: "" or ",seed=..". Returns `text`. */
char *check_attention_text(const attention_params *p, char *text, size_t size);

/* Extents: a step of decoding, a triangle, any, long; `work` multiply-adds at most. */
void check_attention_draw_extents(check_draw *draw, attention_params *p, double work);
void check_attention_draw_data(check_draw *draw, attention_params *p);
void check_attention_draw_dropout(check_draw *draw, attention_params *p);

#endif
