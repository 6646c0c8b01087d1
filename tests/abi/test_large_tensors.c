/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors that no binding of many a driver can hold: a vocabulary of 250,000 words (256 MB), and scores of 136 MB.
 * Values are small integers, so that sums are exact in any order; results are held against what is computed here.
 */
#include "tests/abi/support.h"

enum {
  V = 250000,
  D = 256,
  ROWS = 6,  /* of the decoder's output */
  N_IDS = 8, /* looked up in the table */
  BEST = 8,
  WIDE_ROWS = 136, /* of the scores that are large themselves */
  DEPTH = 8,       /* columns of the table that these use */
  FIRST = 130,     /* the first of the rows that are read back: 128 MiB end in row 134 */
  PART = 6,
  PICKS = 4
};

/* Words on both sides of 128 MiB, the first, the last, and two that there are not. */
static const int32_t ids[N_IDS] = {0, 131071, 131072, V - 1, -1, V, 65536, 200001};
static const int32_t picks[PICKS] = {V - 1, 3, 100000, 0};

/* -4 to 3 */
static int32_t small_integer(uint32_t a, uint32_t b)
{
  uint32_t bits = a * 2654435761u + b * 2246822519u;
  return (int32_t)((bits ^ bits >> 15) & 7u) - 4;
}

static int32_t table_at(int32_t v, int32_t d)
{
  return small_integer((uint32_t)v, (uint32_t)d);
}

static int32_t hidden_at(int32_t row, int32_t d)
{
  return small_integer((uint32_t)d + 77, (uint32_t)row + 1000000);
}

/* Bytes of memory that processes could still get; 0 if that is not known. */
static int64_t free_memory(void)
{
  long long kilobytes = 0;
  char line[128];
  FILE *file = fopen("/proc/meminfo", "r");
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "MemAvailable: %lld kB", &kilobytes) == 1) {
      break;
    }
  }
  if (file) {
    fclose(file);
  }
  return (int64_t)kilobytes * 1024;
}

typedef struct bench {
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_buffer *table;
} bench;

static tsr_buffer *upload_table(tsr_device *device)
{
  enum { CHUNK = 10000 }; /* words */
  tsr_buffer *buffer;
  float *rows = malloc((size_t)CHUNK * D * sizeof(float));
  assert_non_null(rows);
  assert_ok(tsr_buffer_create(device, (int64_t)V * D * (int64_t)sizeof(float), TSR_BUFFER_DEVICE, &buffer));
  for (int32_t first = 0; first < V; first += CHUNK) {
    for (int32_t i = 0; i < CHUNK * D; i++) {
      rows[i] = (float)table_at(first + i / D, i % D);
    }
    assert_ok(tsr_buffer_write(buffer, (int64_t)first * D * (int64_t)sizeof(float),
                               (int64_t)CHUNK * D * (int64_t)sizeof(float), rows));
  }
  free(rows);
  return buffer;
}

static int set_up_group(void **state)
{
  static bench b;
  b = (bench){0};
  *state = &b;
  tsr_device_info info;
  b.runtime = runtime_with("vulkan", "reference", NULL);
  int found = 0;
  for (int32_t i = 0; i < tsr_runtime_device_count(b.runtime) && !found; i++) {
    assert_ok(tsr_runtime_device_info(b.runtime, i, &info));
    found = strcmp(info.name, "vulkan:0") == 0;
  }
  if (!found) {
    print_message("skipped: there is no device vulkan:0\n");
  } else if (free_memory() < (int64_t)3 << 30) {
    print_message("skipped: less than 3 GiB of memory are free\n");
  } else if (info.properties.max_buffer_size < (uint64_t)400 << 20) {
    print_message("skipped: the device has no buffers of 400 MiB\n");
  } else {
    print_message("%s, whose largest binding has %llu bytes\n", info.properties.name,
                  (unsigned long long)info.properties.max_binding_size);
    b.device = open_device(b.runtime, "vulkan:0");
    b.table = upload_table(b.device);
  }
  return 0;
}

static int tear_down_group(void **state)
{
  bench *b = *state;
  tsr_buffer_destroy(b->table);
  tsr_device_close(b->device);
  tsr_runtime_destroy(b->runtime);
  return 0;
}

static tsr_executable *compile(const bench *b, const tsr_program *p)
{
  tsr_executable *executable;
  tsr_binding binding = {.tensor = tsr_program_find(p, "table"), .buffer = b->table};
  assert_ok(tsr_executable_create(
      b->device, p,
      &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .bindings = &binding, .n_bindings = 1, .strict = 1},
      &executable));
  return executable;
}

static void read_back(tsr_executable *executable, tsr_ref tensor, void *values, size_t size)
{
  assert_ok(tsr_executable_read(executable, tensor, values, (int64_t)size));
}

static void expect(const char *what, int64_t at, double got, double expected)
{
  if (got != expected) {
    fail_msg("%s: element %lld is %g, not %g", what, (long long)at, got, expected);
  }
}

/* values and indices hold the `n` best of scores[0 .. V-1], the lowest index first among equals. */
static void expect_best(const float *scores, int n, const float *values, const int32_t *indices)
{
  int32_t best[BEST];
  for (int k = 0; k < n; k++) {
    best[k] = -1;
    for (int32_t v = 0; v < V; v++) {
      int taken = 0;
      for (int j = 0; j < k; j++) {
        taken |= best[j] == v;
      }
      if (!taken && (best[k] < 0 || scores[v] > scores[best[k]])) {
        best[k] = v;
      }
    }
    expect("the best score", k, (double)values[k], (double)scores[best[k]]);
    expect("the best word", k, indices[k], best[k]);
  }
}

/* The table as an embedding, and transposed as the last product of a decoder, whose best words are wanted. */
static void test_vocabulary(void **state)
{
  const bench *b = *state;
  if (!b->device) {
    skip();
  }
  tsr_program *p;
  assert_ok(tsr_program_create(&p));
  tsr_ref table = tsr_constant(p, "table", TSR_F32, TSR_SHAPE(V, D));
  tsr_ref words = tsr_input(p, "words", TSR_I32, TSR_SHAPE(N_IDS));
  tsr_ref hidden = tsr_input(p, "hidden", TSR_F32, TSR_SHAPE(ROWS, D));
  tsr_ref embedded = tsr_output(p, "embedded", tsr_embedding(p, table, words, 16));
  tsr_ref gathered = tsr_output(p, "gathered", tsr_gather(p, table, words, 0));
  tsr_ref logits = tsr_output(p, "logits", tsr_product(p, hidden, tsr_transpose(p, table, 0, 1)));
  tsr_ref indices;
  tsr_ref values = tsr_output(p, "values", tsr_topk(p, logits, BEST, &indices));
  indices = tsr_output(p, "indices", indices);
  tsr_executable *executable = compile(b, p);
  tsr_program_destroy(p);

  static float hidden_values[ROWS][D], rows[2][N_IDS][D], best[ROWS][BEST];
  int32_t best_words[ROWS][BEST];
  size_t logits_size = (size_t)ROWS * V * sizeof(float);
  float *scores = malloc(logits_size);
  assert_non_null(scores);
  for (int32_t i = 0; i < ROWS * D; i++) {
    hidden_values[i / D][i % D] = (float)hidden_at(i / D, i % D);
  }
  assert_ok(tsr_executable_write(executable, words, ids, sizeof ids));
  assert_ok(tsr_executable_write(executable, hidden, hidden_values, sizeof hidden_values));
  assert_ok(tsr_executable_run(executable));
  read_back(executable, embedded, rows[0], sizeof rows[0]);
  read_back(executable, gathered, rows[1], sizeof rows[1]);
  read_back(executable, logits, scores, logits_size);
  read_back(executable, values, best, sizeof best);
  read_back(executable, indices, best_words, sizeof best_words);
  tsr_executable_destroy(executable);

  for (int32_t i = 0; i < N_IDS * D; i++) {
    int32_t word = ids[i / D];
    int32_t expected = word < 0 || word >= V ? 0 : table_at(word, i % D);
    expect("embedding", i, (double)rows[0][i / D][i % D], 16 * expected);
    expect("gather", i, (double)rows[1][i / D][i % D], expected);
  }
  for (int32_t v = 0; v < V; v++) {
    int32_t sums[ROWS] = {0};
    for (int32_t d = 0; d < D; d++) {
      for (int32_t r = 0; r < ROWS; r++) {
        sums[r] += hidden_at(r, d) * table_at(v, d);
      }
    }
    for (int32_t r = 0; r < ROWS; r++) {
      expect("logits", (int64_t)r * V + v, (double)scores[(size_t)r * V + (size_t)v], sums[r]);
    }
  }
  for (int32_t r = 0; r < ROWS; r++) {
    expect_best(scores + (size_t)r * V, BEST, best[r], best_words[r]);
  }
  free(scores);
}

/* Results, operands, temporaries and a state that are too large themselves, and views that begin far behind their
 * start. */
static void test_large_results(void **state)
{
  const bench *b = *state;
  if (!b->device) {
    skip();
  }
  tsr_program *p;
  assert_ok(tsr_program_create(&p));
  tsr_ref table = tsr_constant(p, "table", TSR_F32, TSR_SHAPE(V, D));
  tsr_ref hidden = tsr_input(p, "hidden", TSR_F32, TSR_SHAPE(WIDE_ROWS, DEPTH));
  tsr_ref bias = tsr_input(p, "bias", TSR_F32, TSR_SHAPE(V));
  tsr_ref columns = tsr_input(p, "columns", TSR_I32, TSR_SHAPE(PICKS));
  tsr_ref sum = tsr_state(p, "sum", TSR_F32, TSR_SHAPE(WIDE_ROWS, V));
  tsr_ref part_of_table = tsr_slice(p, table, 1, D - DEPTH, DEPTH);
  tsr_ref scores = tsr_add(p, tsr_product(p, hidden, tsr_transpose(p, part_of_table, 0, 1)), bias);
  sum = tsr_update(p, sum, tsr_add(p, sum, tsr_relu(p, scores)));
  tsr_ref part = tsr_output(p, "part", tsr_slice(p, sum, 0, FIRST, PART));
  tsr_ref totals = tsr_output(p, "totals", tsr_reduce_sum(p, scores, 2));
  tsr_ref picked = tsr_output(p, "picked", tsr_gather(p, sum, columns, 1));
  tsr_ref indices;
  tsr_ref values = tsr_output(p, "values", tsr_topk(p, tsr_slice(p, sum, 0, FIRST, PART), 2, &indices));
  indices = tsr_output(p, "indices", indices);
  tsr_executable *executable = compile(b, p);
  tsr_program_destroy(p);

  enum { RUNS = 2 };
  static float hidden_values[WIDE_ROWS][DEPTH], bias_values[V], expected[V];
  float total[WIDE_ROWS], best[PART][2], pick[WIDE_ROWS][PICKS];
  int32_t best_words[PART][2];
  size_t part_size = (size_t)PART * V * sizeof(float);
  float *rows = malloc(part_size);
  assert_non_null(rows);
  for (int32_t i = 0; i < WIDE_ROWS * DEPTH; i++) {
    hidden_values[i / DEPTH][i % DEPTH] = (float)hidden_at(i / DEPTH, i % DEPTH);
  }
  for (int32_t v = 0; v < V; v++) {
    bias_values[v] = (float)small_integer((uint32_t)v, 5);
  }
  assert_ok(tsr_executable_write(executable, hidden, hidden_values, sizeof hidden_values));
  assert_ok(tsr_executable_write(executable, bias, bias_values, sizeof bias_values));
  assert_ok(tsr_executable_write(executable, columns, picks, sizeof picks));
  for (int run = 0; run < RUNS; run++) {
    assert_ok(tsr_executable_run(executable));
  }
  read_back(executable, part, rows, part_size);
  read_back(executable, totals, total, sizeof total);
  read_back(executable, picked, pick, sizeof pick);
  read_back(executable, values, best, sizeof best);
  read_back(executable, indices, best_words, sizeof best_words);
  tsr_executable_destroy(executable);

  for (int32_t r = 0; r < WIDE_ROWS; r += r < FIRST - 10 ? 13 : 1) {
    int64_t sum_of_row = 0;
    for (int32_t v = 0; v < V; v++) {
      int32_t score = small_integer((uint32_t)v, 5);
      for (int32_t d = 0; d < DEPTH; d++) {
        score += hidden_at(r, d) * table_at(v, D - DEPTH + d);
      }
      sum_of_row += score;
      expected[v] = (float)(RUNS * (score > 0 ? score : 0));
    }
    expect("reduce_sum", r, (double)total[r], (double)sum_of_row);
    for (int k = 0; k < PICKS; k++) {
      expect("gather", r * PICKS + k, (double)pick[r][k], (double)expected[picks[k]]);
    }
    if (r < FIRST || r >= FIRST + PART) {
      continue;
    }
    for (int32_t v = 0; v < V; v++) {
      expect("the state", (int64_t)r * V + v, (double)rows[(size_t)(r - FIRST) * V + (size_t)v], (double)expected[v]);
    }
    expect_best(expected, 2, best[r - FIRST], best_words[r - FIRST]);
  }
  free(rows);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vocabulary),
      cmocka_unit_test(test_large_results),
  };
  return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
