/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/reference/reference_fixture.h"

#include <stdio.h>

enum { ALIGNMENT = 64, GUARD = 64, GUARD_BYTE = 0xc5, RESULT_BYTE = 0xab };

static char last_message[512];

static void report(const tsr_host *host, int32_t level, const char *message)
{
  (void)host;
  if (level == TSR_LOG_ERROR) {
    snprintf(last_message, sizeof(last_message), "%s", message);
  }
}

static const char *option(const tsr_host *host, const char *name)
{
  (void)host, (void)name;
  return NULL;
}

const tsr_host fixture_host = {
    .struct_size = sizeof(tsr_host),
    .abi_major = TSR_ABI_MAJOR,
    .abi_minor = TSR_ABI_MINOR,
    .report = report,
    .option = option,
};

const char *fixture_message(void)
{
  return last_message;
}

void fixture_open(fixture_session *session)
{
  session->table = tessera_backend_query(TSR_ABI_MAJOR, &fixture_host);
  assert_non_null(session->table);
  assert_int_equal(session->table->start(&fixture_host, &session->context), TSR_OK);
  assert_int_equal(session->table->device_open(session->context, 0, &session->device), TSR_OK);
  last_message[0] = '\0';
}

void fixture_close(fixture_session *session)
{
  session->table->device_close(session->device);
  session->table->stop(session->context);
}

void fixture_begin(fixture *f)
{
  memset(f, 0, sizeof(*f));
  f->n_storages = f->n_tensors = 1; /* 0: none */
  memset(f->bytes, GUARD_BYTE, sizeof(f->bytes));
  f->used = GUARD;
}

static int64_t size_of(int32_t dtype)
{
  return dtype == TSR_I8 ? 1 : dtype == TSR_F16 || dtype == TSR_BF16 ? 2 : 4;
}

/* A new storage and a contiguous tensor over it; the bytes keep the guard's pattern. */
static int32_t add(fixture *f, int32_t dtype, int32_t rank, const int64_t *extent, int64_t *n)
{
  const int32_t storage = f->n_storages++, tensor = f->n_tensors++;
  assert_true(storage < FIXTURE_TENSORS && tensor < FIXTURE_TENSORS);
  tsr_tensor_desc *t = &f->tensors[tensor];
  *t = (tsr_tensor_desc){.storage = storage, .dtype = dtype, .rank = rank, .extent = {1, 1, 1, 1}};
  *n = 1;
  for (int32_t axis = rank - 1; axis >= 0; axis--) {
    t->extent[axis] = extent[axis];
    t->stride[axis] = *n;
    *n *= extent[axis];
  }
  const int64_t size = *n * size_of(dtype);
  f->storages[storage] = (tsr_storage_desc){.kind = TSR_STORAGE_STATE, .offset = f->used, .size = size};
  f->used += (size + GUARD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  assert_true(f->used <= FIXTURE_BYTES);
  return tensor;
}

static int32_t add_with(fixture *f, int32_t dtype, int32_t rank, const int64_t *extent, int64_t n, const void *values)
{
  int64_t wanted;
  const int32_t tensor = add(f, dtype, rank, extent, &wanted);
  assert_int_equal(n, wanted);
  if (n > 0) {
    memcpy(f->bytes + f->storages[f->tensors[tensor].storage].offset, values, (size_t)(n * size_of(dtype)));
  }
  return tensor;
}

int32_t fixture_f32(fixture *f, int32_t rank, const int64_t *extent, int64_t n, const float *values)
{
  return add_with(f, TSR_F32, rank, extent, n, values);
}

int32_t fixture_i32(fixture *f, int32_t rank, const int64_t *extent, int64_t n, const int32_t *values)
{
  return add_with(f, TSR_I32, rank, extent, n, values);
}

int32_t fixture_i8(fixture *f, int32_t rank, const int64_t *extent, int64_t n, const int8_t *values)
{
  return add_with(f, TSR_I8, rank, extent, n, values);
}

int32_t fixture_half(fixture *f, int32_t dtype, int32_t rank, const int64_t *extent, int64_t n, const uint16_t *bits)
{
  return add_with(f, dtype, rank, extent, n, bits);
}

int32_t fixture_result(fixture *f, int32_t dtype, int32_t rank, const int64_t *extent)
{
  int64_t n;
  const int32_t tensor = add(f, dtype, rank, extent, &n);
  memset(f->bytes + f->storages[f->tensors[tensor].storage].offset, RESULT_BYTE, (size_t)(n * size_of(dtype)));
  return tensor;
}

int32_t fixture_view(fixture *f, int32_t of, int32_t rank, const int64_t *extent, const int64_t *stride, int64_t offset)
{
  const int32_t tensor = f->n_tensors++;
  assert_true(tensor < FIXTURE_TENSORS);
  tsr_tensor_desc *t = &f->tensors[tensor];
  *t = (tsr_tensor_desc){.storage = f->tensors[of].storage,
                         .dtype = f->tensors[of].dtype,
                         .rank = rank,
                         .extent = {1, 1, 1, 1},
                         .offset = offset};
  for (int32_t axis = 0; axis < rank; axis++) {
    t->extent[axis] = extent[axis];
    t->stride[axis] = stride[axis];
  }
  return tensor;
}

tsr_line_desc *fixture_line(fixture *f, int32_t op)
{
  assert_true(f->n_lines < FIXTURE_LINES);
  tsr_line_desc *line = &f->lines[f->n_lines++];
  *line = (tsr_line_desc){.op = op, .label = "", .attributes = {.struct_size = sizeof(tsr_op_attributes), .alpha = 1}};
  return line;
}

tsr_program_desc fixture_program(const fixture *f)
{
  return (tsr_program_desc){
      .struct_size = sizeof(tsr_program_desc),
      .storage_size = sizeof(tsr_storage_desc),
      .tensor_size = sizeof(tsr_tensor_desc),
      .line_size = sizeof(tsr_line_desc),
      .n_storages = f->n_storages,
      .n_tensors = f->n_tensors,
      .n_lines = f->n_lines,
      .storages = f->storages,
      .tensors = f->tensors,
      .lines = f->lines,
  };
}

/* Every byte that belongs to no storage still is the guard's. */
static void check_guards(const fixture *f)
{
  int64_t at = 0;
  for (int32_t i = 1; i <= f->n_storages; i++) {
    const int64_t end = i < f->n_storages ? f->storages[i].offset : f->used;
    for (; at < end; at++) {
      if (f->bytes[at] != GUARD_BYTE) {
        fail_msg("a stray write at byte %lld, before storage %d", (long long)at, i);
      }
    }
    at = i < f->n_storages ? end + f->storages[i].size : end;
  }
}

void fixture_run(fixture *f)
{
  fixture_session session;
  tsr_backend_buffer *buffer = NULL;
  tsr_backend_executable *executable = NULL;
  const tsr_program_desc program = fixture_program(f);
  fixture_open(&session);
  const tsr_backend *table = session.table;
  for (int32_t i = 0; i < f->n_lines; i++) {
    assert_int_equal(table->supports(session.device, &program, i), 1);
  }
  assert_int_equal(table->buffer_create(session.device, (uint64_t)f->used, TSR_BUFFER_DEVICE, &buffer), TSR_OK);
  assert_int_equal(table->buffer_write(buffer, 0, (uint64_t)f->used, f->bytes), TSR_OK);
  const tsr_compile_args args = {.struct_size = sizeof(args), .n_buffers = 1, .program = &program, .buffers = &buffer};
  assert_int_equal(table->compile(session.device, &args, &executable), TSR_OK);
  assert_int_equal(table->run(executable), TSR_OK);
  assert_int_equal(table->wait(executable), TSR_OK);
  assert_int_equal(table->buffer_read(buffer, 0, (uint64_t)f->used, f->bytes), TSR_OK);
  table->executable_destroy(executable);
  table->buffer_destroy(buffer);
  fixture_close(&session);
  check_guards(f);
}

static const void *storage_of(const fixture *f, int32_t tensor)
{
  return f->bytes + f->storages[f->tensors[tensor].storage].offset;
}

static void check_size(const fixture *f, int32_t tensor, int64_t n)
{
  assert_int_equal(f->storages[f->tensors[tensor].storage].size, n * size_of(f->tensors[tensor].dtype));
}

const float *fixture_floats(const fixture *f, int32_t tensor)
{
  return storage_of(f, tensor);
}

const int32_t *fixture_ids(const fixture *f, int32_t tensor)
{
  return storage_of(f, tensor);
}

const uint16_t *fixture_halves(const fixture *f, int32_t tensor)
{
  return storage_of(f, tensor);
}

void fixture_expect(const fixture *f, int32_t tensor, double tolerance, int64_t n, const float *expected)
{
  const float *found = fixture_floats(f, tensor);
  check_size(f, tensor, n);
  for (int64_t i = 0; i < n; i++) {
    const double bound = tolerance * fmax(1, fabs((double)expected[i]));
    if (isnan(expected[i]) ? !isnan(found[i])
                           : !(found[i] == expected[i] || fabs((double)found[i] - expected[i]) <= bound)) {
      fail_msg("element %lld: expected %.9g, found %.9g", (long long)i, (double)expected[i], (double)found[i]);
    }
  }
}

void fixture_expect_ids(const fixture *f, int32_t tensor, int64_t n, const int32_t *expected)
{
  check_size(f, tensor, n);
  for (int64_t i = 0; i < n; i++) {
    assert_int_equal(fixture_ids(f, tensor)[i], expected[i]);
  }
}

void fixture_expect_halves(const fixture *f, int32_t tensor, int64_t n, const uint16_t *expected)
{
  check_size(f, tensor, n);
  for (int64_t i = 0; i < n; i++) {
    assert_int_equal(fixture_halves(f, tensor)[i], expected[i]);
  }
}

void fixture_random(float *values, int64_t n, uint64_t seed)
{
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    values[i] = (float)((double)(seed >> 40) * 0x1p-23 - 1);
  }
}
