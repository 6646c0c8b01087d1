/* SPDX-License-Identifier: Apache-2.0
 *
 * Small programs for the reference backend, through its table alone: nothing of core has a part in them.
 *
 * Tensors lie in one buffer with guards between them, results are filled with a pattern before the run, and running
 * checks that the guards are whole.
 */
#ifndef TESTS_REFERENCE_FIXTURE_H
#define TESTS_REFERENCE_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/backend.h"

enum { FIXTURE_TENSORS = 64, FIXTURE_LINES = 8, FIXTURE_BYTES = 1 << 18 };

typedef struct fixture {
  tsr_storage_desc storages[FIXTURE_TENSORS];
  tsr_tensor_desc tensors[FIXTURE_TENSORS];
  tsr_line_desc lines[FIXTURE_LINES];
  int32_t n_storages, n_tensors, n_lines;
  int64_t used;                       /* bytes of `bytes` */
  unsigned char bytes[FIXTURE_BYTES]; /* what goes into the buffer, and after the run what came out */
} fixture;

/* Two arguments from a list: EXTENTS(2, 3) is a rank and its extents; VALUES, BYTES and IDS are a count and its
 * elements. */
#define EXTENTS(...)                                                                                                   \
  (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                                     \
  {                                                                                                                    \
    __VA_ARGS__                                                                                                        \
  }
#define SCALAR 0, NULL
#define STRIDES(...)                                                                                                   \
  (const int64_t[])                                                                                                    \
  {                                                                                                                    \
    __VA_ARGS__                                                                                                        \
  }
#define VALUES(...)                                                                                                    \
  (int64_t)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (const float[])                                           \
  {                                                                                                                    \
    __VA_ARGS__                                                                                                        \
  }
#define HALVES(...)                                                                                                    \
  (int64_t)(sizeof((uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t)), (const uint16_t[])                                  \
  {                                                                                                                    \
    __VA_ARGS__                                                                                                        \
  }
#define BYTES(...)                                                                                                     \
  (int64_t)(sizeof((int8_t[]){__VA_ARGS__})), (const int8_t[])                                                         \
  {                                                                                                                    \
    __VA_ARGS__                                                                                                        \
  }
#define IDS(...)                                                                                                       \
  (int64_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), (const int32_t[])                                     \
  {                                                                                                                    \
    __VA_ARGS__                                                                                                        \
  }

/* Starts anew; `f` is large, so tests keep one statically. */
void fixture_begin(fixture *f);

/* Contiguous tensors. The number of values must be that of the extents. */
int32_t fixture_f32(fixture *f, int32_t rank, const int64_t *extent, int64_t n, const float *values);
int32_t fixture_i32(fixture *f, int32_t rank, const int64_t *extent, int64_t n, const int32_t *values);
int32_t fixture_i8(fixture *f, int32_t rank, const int64_t *extent, int64_t n, const int8_t *values);
int32_t fixture_half(fixture *f, int32_t dtype, int32_t rank, const int64_t *extent, int64_t n, const uint16_t *bits);

/* A tensor to be written, filled with a pattern. */
int32_t fixture_result(fixture *f, int32_t dtype, int32_t rank, const int64_t *extent);

/* A view of a tensor's storage. */
int32_t fixture_view(fixture *f, int32_t of, int32_t rank, const int64_t *extent, const int64_t *stride,
                     int64_t offset);

/* The next line, its slots empty, alpha 1. */
tsr_line_desc *fixture_line(fixture *f, int32_t op);

/* Opens the device, compiles, runs once, reads all back. */
void fixture_run(fixture *f);

/* The storage of a tensor after the run. */
const float *fixture_floats(const fixture *f, int32_t tensor);
const int32_t *fixture_ids(const fixture *f, int32_t tensor);
const uint16_t *fixture_halves(const fixture *f, int32_t tensor);

/* The storage of a tensor holds these values, each within `tolerance` relative to max(1, |expected|); NaN is equal to
 * NaN; tolerance 0: the same value. */
void fixture_expect(const fixture *f, int32_t tensor, double tolerance, int64_t n, const float *expected);
void fixture_expect_ids(const fixture *f, int32_t tensor, int64_t n, const int32_t *expected);
void fixture_expect_halves(const fixture *f, int32_t tensor, int64_t n, const uint16_t *expected);

/* A host whose last message is kept. */
extern const tsr_host fixture_host;
const char *fixture_message(void);

/* The backend, started, with its device open: for tests of the table itself. */
typedef struct fixture_session {
  const tsr_backend *table;
  void *context;
  tsr_backend_device *device;
} fixture_session;
void fixture_open(fixture_session *session);
void fixture_close(fixture_session *session);

/* The program as the backend sees it. */
tsr_program_desc fixture_program(const fixture *f);

/* Repeatable values in [-1, 1). */
void fixture_random(float *values, int64_t n, uint64_t seed);

#endif
