/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of a program against differences of its losses.
 */
#ifndef TESSERA_TESTS_GRADIENT_CHECK_H
#define TESSERA_TESTS_GRADIENT_CHECK_H

#include "tessera/autodiff.h"
#include "tessera/ops.h"
#include "tessera/runtime.h"

enum { MAX_LEAVES = 40, MAX_ELEMENTS = 160 /* of a leaf */ };

/* A tensor that exists before the first line. */
typedef struct gradient_leaf {
  tsr_ref ref;
  tsr_dtype dtype;
  int32_t is_fixed; /* 1: no gradient is asked for */
  int64_t n;
  float values[MAX_ELEMENTS];  /* odd multiples of 1/32 between -1 and 1: no type rounds them */
  int32_t whole[MAX_ELEMENTS]; /* of an i32 */
} gradient_leaf;

/* A program under construction. Built twice from one seed, it is the same. */
typedef struct maker {
  tsr_program *p;
  uint64_t seed, random;
  int32_t as_inputs; /* 1: all leaves are inputs; 0: constants, inputs and states by turns */
  int32_t n;
  gradient_leaf leaves[MAX_LEAVES];
} maker;

void maker_begin(maker *m, uint64_t seed, int32_t as_inputs);
void maker_finish(maker *m);

/* 0 .. n-1, from the seed. */
int32_t draw(maker *m, int32_t n);

/* Real numbers, of which the gradient is checked. */
tsr_ref typed_leaf(maker *m, tsr_dtype dtype, tsr_shape shape);
#define leaf(m, ...) typed_leaf(m, TSR_F32, TSR_SHAPE(__VA_ARGS__))

/* The same, of which no gradient is asked for. */
tsr_ref fixed_leaf(maker *m, tsr_shape shape);

/* i32 with these values. */
tsr_ref whole_numbers(maker *m, tsr_shape shape, const int32_t *values);

/* Appends lines; returns what is differentiated. */
typedef struct gradient_case {
  const char *name;
  tsr_ref (*build)(maker *m);
} gradient_case;

typedef struct gradient_report {
  int32_t elements; /* that were compared */
  int32_t rough;    /* of them, those whose differences are not exact enough to say much: near a kink, say */
} gradient_report;

/* The device: the reference. Of type tsr_device **; for cmocka's group. */
int gradient_setup(void **state);
int gradient_teardown(void **state);

/* Fails the test, with the case's name, the leaf and the element, where a gradient differs from the differences, or
 * from that of the same program with parts of it computed once more. */
gradient_report gradient_check(tsr_device *device, const gradient_case *c, uint64_t seed);

/* The gradient of factor * sum(loss) with respect to one leaf. */
void gradient_of(tsr_device *device, maker *m, tsr_ref loss, float factor, tsr_ref parameter, float *gradient);

#endif
