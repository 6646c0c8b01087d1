/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/call_lines.h"

#include <stdlib.h>

#include "tests/model/crowd.h"

char **lines;
char *folder;

int open_lines(void **state)
{
  (void)state;
  folder = path_in_tree("tests/data/marian-en-fr");
  lines = read_test_sentences(MOST_LINES);
  return 0;
}

int close_lines(void **state)
{
  (void)state;
  free_test_sentences(lines, MOST_LINES);
  free(folder);
  return 0;
}

tsr_translator *open_on(const char *device, int32_t is_static)
{
  tsr_translator *t;
  const tsr_translator_options options = {TSR_SIZED(tsr_translator_options), .n_devices = 1, .devices = &device,
                                          .static_batches = is_static};
  check(tsr_translator_open(folder, &options, &t));
  return t;
}

tsr_generate_options search_of(const tsr_model *model, int32_t beam)
{
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  check(tsr_generate_defaults(model, &options));
  options.beam = beam;
  options.n_best = 1;
  options.max_length = MOST_TOKENS;
  return options;
}

void fill_requests(const tsr_generate_options *options, int32_t n, tsr_translation_request *requests)
{
  for (int32_t i = 0; i < n; i++) {
    requests[i] = (tsr_translation_request){TSR_SIZED(tsr_translation_request), .text = lines[i], .search = options,
                                            .number = i > 0 ? -1 : 0};
  }
}

void free_answers(int32_t n, tsr_translation **answers)
{
  for (int32_t i = 0; i < n; i++) {
    tsr_translation_free(answers[i]);
  }
}

void on_call_progress(void *user, int64_t done, int64_t total)
{
  int64_t *last = user;
  assert_true(done > *last && done <= total);
  *last = done;
}

static tsr_backend table;
static const tsr_backend *reference;
atomic_int runs_left;

static int32_t run_and_fail(tsr_backend_executable *executable)
{
  return atomic_fetch_sub(&runs_left, 1) > 0 ? reference->run(executable) : TSR_ERR_DEVICE_LOST;
}

/* Not one of the CPU's, which would be left out beside a better one. */
static int32_t fake_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  const int32_t status = reference->device_properties(context, index, properties);
  properties->type = TSR_DEVICE_DISCRETE_GPU;
  return status;
}

const tsr_backend *query_fake(uint32_t major, const tsr_host *host)
{
  reference = tessera_backend_query(major, host);
  table = *reference;
  table.name = "fake";
  table.run = run_and_fail;
  table.device_properties = fake_properties;
  return &table;
}
