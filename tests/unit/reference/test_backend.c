/* SPDX-License-Identifier: Apache-2.0
 *
 * backends/reference: the table, the device, buffers, executables, counters.
 */
#include "tests/unit/reference/reference_fixture.h"

static fixture f;

static void test_query(void **state)
{
  (void)state;
  assert_null(tessera_backend_query(TSR_ABI_MAJOR + 1, &fixture_host));
  const tsr_backend *table = tessera_backend_query(TSR_ABI_MAJOR, &fixture_host);
  assert_non_null(table);
  assert_int_equal(table->struct_size, sizeof(tsr_backend));
  assert_int_equal(table->abi_major, TSR_ABI_MAJOR);
  assert_int_equal(table->abi_minor, TSR_ABI_MINOR);
  assert_string_equal(table->name, "reference");
  assert_true(strlen(table->description) > 0);
  assert_non_null(table->profile);
  assert_non_null(table->counters);
  assert_null(table->get_extension(NULL, "tessera.nothing/1"));
}

static void test_device(void **state)
{
  (void)state;
  fixture_session session;
  fixture_open(&session);
  uint32_t count = 0;
  assert_int_equal(session.table->device_count(session.context, &count), TSR_OK);
  assert_int_equal(count, 1);

  tsr_device_properties properties = {.struct_size = sizeof(properties)};
  assert_int_equal(session.table->device_properties(session.context, 0, &properties), TSR_OK);
  assert_int_equal(properties.struct_size, sizeof(properties));
  assert_int_equal(properties.type, TSR_DEVICE_REFERENCE);
  assert_true(properties.features == (TSR_FEATURE_TIMESTAMPS | TSR_FEATURE_UNIFIED_MEMORY));
  assert_int_equal(properties.buffer_alignment, 64);
  assert_true(properties.memory > 0 && properties.max_buffer_size > 0 && properties.name[0] != '\0');

  /* A host that knows only the first fields gets no more. */
  struct {
    uint32_t struct_size;
    int32_t type;
    char name[8];
  } shorter = {.struct_size = 8, .name = "before"};
  assert_int_equal(session.table->device_properties(session.context, 0, (tsr_device_properties *)(void *)&shorter),
                   TSR_OK);
  assert_int_equal(shorter.type, TSR_DEVICE_REFERENCE);
  assert_string_equal(shorter.name, "before");

  tsr_backend_device *second = NULL;
  assert_int_equal(session.table->device_open(session.context, 1, &second), TSR_ERR_NO_DEVICE);
  assert_null(second);
  assert_non_null(strstr(fixture_message(), "reference:1"));
  assert_int_equal(session.table->device_properties(session.context, 7, &properties), TSR_ERR_NO_DEVICE);
  assert_int_equal(session.table->device_open(session.context, 0, &second), TSR_OK);
  session.table->device_close(second);
  fixture_close(&session);
}

static tsr_device_counters counters_of(const fixture_session *session)
{
  tsr_device_counters counters = {.struct_size = sizeof(counters)};
  assert_int_equal(session->table->counters(session->device, &counters), TSR_OK);
  assert_int_equal(counters.struct_size, sizeof(counters));
  return counters;
}

static void test_buffers(void **state)
{
  (void)state;
  fixture_session session;
  tsr_backend_buffer *buffer = NULL;
  unsigned char bytes[1000];
  fixture_open(&session);
  assert_int_equal(session.table->buffer_create(session.device, sizeof(bytes), TSR_BUFFER_DEVICE, &buffer), TSR_OK);
  memset(bytes, 1, sizeof(bytes));
  assert_int_equal(session.table->buffer_read(buffer, 0, sizeof(bytes), bytes), TSR_OK);
  for (size_t i = 0; i < sizeof(bytes); i++) {
    assert_int_equal(bytes[i], 0);
  }
  assert_int_equal(session.table->buffer_write(buffer, 3, 4, "abcd"), TSR_OK);
  assert_int_equal(session.table->buffer_write(buffer, sizeof(bytes), 0, NULL), TSR_OK);
  assert_int_equal(session.table->buffer_read(buffer, 4, 2, bytes), TSR_OK);
  assert_memory_equal(bytes, "bc", 2);

  tsr_device_counters counters = counters_of(&session);
  assert_int_equal(counters.allocations, 1);
  assert_int_equal(counters.bytes_in_use, sizeof(bytes));
  assert_int_equal(counters.transfers, 3);
  session.table->buffer_destroy(buffer);
  session.table->buffer_destroy(NULL);
  counters = counters_of(&session);
  assert_int_equal(counters.bytes_in_use, 0);
  assert_int_equal(counters.bytes_peak, sizeof(bytes));
  fixture_close(&session);
}

static void test_out_of_memory(void **state)
{
  (void)state;
  const uint64_t absurd[] = {UINT64_MAX, UINT64_MAX - 63, INT64_MAX, 1ull << 62, 1ull << 50};
  fixture_session session;
  fixture_open(&session);
  for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
    tsr_backend_buffer *buffer = NULL;
    assert_int_equal(session.table->buffer_create(session.device, absurd[i], TSR_BUFFER_DEVICE, &buffer),
                     TSR_ERR_DEVICE_MEMORY);
    assert_null(buffer);
  }
  assert_non_null(strstr(fixture_message(), "1125899906842624 bytes"));
  assert_int_equal(counters_of(&session).bytes_in_use, 0);
  assert_int_equal(counters_of(&session).allocations, 0);
  fixture_close(&session);
}

/* state += 1, in two lines through a temporary. */
static int32_t build_counting_program(void)
{
  fixture_begin(&f);
  const int32_t count = fixture_i32(&f, SCALAR, IDS(5)), one = fixture_i32(&f, SCALAR, IDS(1));
  const int32_t sum = fixture_result(&f, TSR_I32, SCALAR);
  tsr_line_desc *line = fixture_line(&f, TSR_OP_ADD);
  line->in[0] = count, line->in[1] = one, line->out[0] = sum;
  line = fixture_line(&f, TSR_OP_UPDATE);
  line->in[0] = sum, line->out[0] = count;
  return count;
}

static void test_runs(void **state)
{
  (void)state;
  fixture_session session;
  tsr_backend_buffer *buffer = NULL;
  tsr_backend_executable *executable = NULL, *silent = NULL;
  const int32_t count = build_counting_program();
  const tsr_program_desc program = fixture_program(&f);
  uint64_t nanoseconds[2] = {1, 1};
  fixture_open(&session);
  const tsr_backend *table = session.table;
  assert_int_equal(table->buffer_create(session.device, (uint64_t)f.used, TSR_BUFFER_DEVICE, &buffer), TSR_OK);
  assert_int_equal(table->buffer_write(buffer, 0, (uint64_t)f.used, f.bytes), TSR_OK);
  tsr_compile_args args = {
      .struct_size = sizeof(args), .n_buffers = 1, .program = &program, .buffers = &buffer, .profile = 1};
  assert_int_equal(table->compile(session.device, &args, &executable), TSR_OK);
  args.profile = 0;
  assert_int_equal(table->compile(session.device, &args, &silent), TSR_OK);
  assert_int_equal(table->wait(executable), TSR_OK);
  assert_int_equal(table->profile(executable, nanoseconds), TSR_OK);
  assert_int_equal(nanoseconds[0], 0);

  const tsr_device_counters before = counters_of(&session);
  for (int i = 0; i < 10; i++) {
    assert_int_equal(table->run(executable), TSR_OK);
    assert_int_equal(table->run(silent), TSR_OK);
  }
  assert_int_equal(table->wait(executable), TSR_OK);
  tsr_device_counters wanted = before;
  wanted.runs += 20;
  wanted.submits += 20;
  const tsr_device_counters after = counters_of(&session);
  assert_memory_equal(&after, &wanted, sizeof(after));

  assert_int_equal(table->profile(executable, nanoseconds), TSR_OK);
  assert_true(nanoseconds[0] < 1000000000u && nanoseconds[1] < 1000000000u);
  assert_int_equal(table->profile(silent, nanoseconds), TSR_ERR_UNSUPPORTED);
  assert_non_null(strstr(fixture_message(), "profile"));
  assert_int_equal(table->buffer_read(buffer, 0, (uint64_t)f.used, f.bytes), TSR_OK);
  fixture_expect_ids(&f, count, IDS(25));
  table->executable_destroy(executable);
  table->executable_destroy(silent);
  table->executable_destroy(NULL);
  table->buffer_destroy(buffer);
  fixture_close(&session);
}

/* A program of no lines, and one of empty tensors alone without a buffer. */
static void test_nothing_to_do(void **state)
{
  (void)state;
  fixture_session session;
  tsr_backend_executable *executable = NULL;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(0, 3), 0, NULL), y = fixture_result(&f, TSR_F32, EXTENTS(0, 3));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_RELU);
  line->in[0] = x, line->out[0] = y;
  tsr_program_desc program = fixture_program(&f);
  fixture_open(&session);
  const tsr_compile_args args = {.struct_size = sizeof(args), .program = &program};
  for (program.n_lines = 0; program.n_lines < 2; program.n_lines++) {
    assert_int_equal(session.table->compile(session.device, &args, &executable), TSR_OK);
    assert_int_equal(session.table->run(executable), TSR_OK);
    session.table->executable_destroy(executable);
  }
  fixture_close(&session);
}

/* Elements of the host's arrays may be longer than ours, and its attributes shorter. */
static void test_other_struct_sizes(void **state)
{
  (void)state;
  struct {
    tsr_tensor_desc desc;
    int64_t more;
  } tensors[4];
  struct {
    tsr_line_desc desc;
    int64_t more[3];
  } line;
  fixture_session session;
  tsr_backend_buffer *buffer = NULL;
  tsr_backend_executable *executable = NULL;
  build_counting_program();
  f.lines[0].attributes.struct_size = offsetof(tsr_op_attributes, activation);
  memset(&f.lines[0].attributes.activation, 0x7f, sizeof(tsr_op_attributes) - offsetof(tsr_op_attributes, activation));
  memset(tensors, 0x7f, sizeof(tensors));
  memset(&line, 0x7f, sizeof(line));
  for (int i = 0; i < 4; i++) {
    tensors[i].desc = f.tensors[i];
  }
  line.desc = f.lines[0];
  tsr_program_desc program = fixture_program(&f);
  program.tensor_size = sizeof(tensors[0]);
  program.tensors = &tensors[0].desc;
  program.line_size = sizeof(line);
  program.lines = &line.desc;
  program.n_lines = 1;
  fixture_open(&session);
  assert_int_equal(session.table->supports(session.device, &program, 0), 1);
  assert_int_equal(session.table->buffer_create(session.device, (uint64_t)f.used, TSR_BUFFER_DEVICE, &buffer), TSR_OK);
  assert_int_equal(session.table->buffer_write(buffer, 0, (uint64_t)f.used, f.bytes), TSR_OK);
  const tsr_compile_args args = {.struct_size = sizeof(args), .n_buffers = 1, .program = &program, .buffers = &buffer};
  assert_int_equal(session.table->compile(session.device, &args, &executable), TSR_OK);
  assert_int_equal(session.table->run(executable), TSR_OK);
  assert_int_equal(session.table->buffer_read(buffer, 0, (uint64_t)f.used, f.bytes), TSR_OK);
  fixture_expect_ids(&f, f.lines[0].out[0], IDS(6));
  session.table->executable_destroy(executable);
  session.table->buffer_destroy(buffer);
  fixture_close(&session);
}

/* What this version does not know is refused: an operator, a type, a slot, an activation. */
static void test_supports(void **state)
{
  (void)state;
  fixture_session session;
  fixture_begin(&f);
  const int32_t a = fixture_result(&f, TSR_F32, EXTENTS(2, 2)), i = fixture_result(&f, TSR_I32, EXTENTS(2, 2));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(2, 2)), strange = fixture_result(&f, 40, EXTENTS(2, 2));
  const int32_t cases[][4] = {/* a, b, third operand, supported */
                              {a, a, 0, 1}, {a, a, a, 1}, {a, i, 0, 0}, {a, 0, 0, 0}, {strange, a, 0, 0}, {a, a, i, 0}};
  const tsr_program_desc all = fixture_program(&f);
  tsr_program_desc program = all;
  fixture_open(&session);
  program.lines = f.lines;
  for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
    f.n_lines = 0;
    tsr_line_desc *line = fixture_line(&f, TSR_OP_MATMUL);
    memcpy(line->in, cases[c], 3 * sizeof(line->in[0]));
    line->out[0] = y;
    assert_int_equal(session.table->supports(session.device, &program, 0), cases[c][3]);
    line->out[1] = y;
    assert_int_equal(session.table->supports(session.device, &program, 0), 0);
    line->out[1] = 0;
    line->in[TSR_MAX_INPUTS - 1] = a;
    assert_int_equal(session.table->supports(session.device, &program, 0), 0);
    line->in[TSR_MAX_INPUTS - 1] = 0;
    line->attributes.activation = TSR_ACTIVATION_SILU + 1;
    assert_int_equal(session.table->supports(session.device, &program, 0), 0);
    line->op = TSR_OP_COUNT;
    assert_int_equal(session.table->supports(session.device, &program, 0), 0);
    line->op = 0;
    assert_int_equal(session.table->supports(session.device, &program, 0), 0);
  }
  fixture_close(&session);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_query),
      cmocka_unit_test(test_device),
      cmocka_unit_test(test_buffers),
      cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_runs),
      cmocka_unit_test(test_nothing_to_do),
      cmocka_unit_test(test_other_struct_sizes),
      cmocka_unit_test(test_supports),
  };
  return cmocka_run_group_tests_name("reference_backend", tests, NULL, NULL);
}
