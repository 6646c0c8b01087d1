/* SPDX-License-Identifier: Apache-2.0
 *
 * The modules that the backend has: in which it is declared that infinities and NaN count, and that subgroups meet
 * again behind a branch, with the order of their instructions, older versions, and what is no module; which lane an
 * invocation is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/kernel.h"
#include "backends/vulkan/spirv.h"
#include "shaders/shaders.h"
#include "tests/unit/vulkan/shader_words.h"

enum {
  OP_EXTENSION = 10,
  OP_ENTRY_POINT = 15,
  OP_EXECUTION_MODE = 16,
  OP_CAPABILITY = 17,
  OP_DECORATE = 71,
  OP_SHUFFLE = 345,
  OP_SHUFFLE_XOR = 346,
  DECORATION_BUILT_IN = 11,
  BUILT_IN_SUBGROUP_INVOCATION = 41,
};

/* What a module declares. */
typedef struct declared {
  int capabilities, halves, extensions, modes_32, modes_16;
  int subgroups, reconvergence, reconverges; /* that work together or multiply matrices; the extension; the mode */
  int shuffles, knows_lane;                  /* subgroupShuffle, gl_SubgroupInvocationID */
  size_t n_instructions;
} declared;

/* Layout (SPIR-V 1.6, 2.4): capabilities, extensions, imports, memory model, entry point, modes, the rest. */
static int section(uint32_t op)
{
  switch (op) {
  case 17:
    return 0;
  case 10:
    return 1;
  case 11:
    return 2;
  case 14:
    return 3;
  case 15:
    return 4;
  case 16:
  case 331:
    return 5;
  default:
    return 6;
  }
}

static declared read_module(const uint32_t *words, size_t n)
{
  declared found = {0};
  uint32_t entry = 0;
  int last = 0;
  size_t at = 5;
  while (at < n) {
    const uint32_t op = words[at] & 0xffffu, length = words[at] >> 16;
    assert_in_range(length, 1, n - at);
    assert_true(section(op) >= last);
    last = section(op);
    if (op == OP_CAPABILITY) {
      found.capabilities += words[at + 1] == 4466;
      found.halves |= words[at + 1] == 9;
      found.subgroups |= words[at + 1] == 61 || words[at + 1] == 6022;
    } else if (op == OP_EXTENSION) {
      found.extensions += strcmp((const char *)&words[at + 1], "SPV_KHR_float_controls") == 0;
      found.reconvergence += strcmp((const char *)&words[at + 1], "SPV_KHR_maximal_reconvergence") == 0;
    } else if (op == OP_ENTRY_POINT) {
      entry = words[at + 2];
    } else if (op == OP_EXECUTION_MODE && words[at + 2] == 4461) {
      assert_int_equal(words[at + 1], entry);
      found.modes_32 += words[at + 3] == 32;
      found.modes_16 += words[at + 3] == 16;
    } else if (op == OP_EXECUTION_MODE && words[at + 2] == 6023) {
      assert_int_equal(words[at + 1], entry);
      found.reconverges++;
    } else if (op == OP_DECORATE && length > 3 && words[at + 2] == DECORATION_BUILT_IN) {
      found.knows_lane |= words[at + 3] == BUILT_IN_SUBGROUP_INVOCATION;
    }
    found.shuffles += op == OP_SHUFFLE || op == OP_SHUFFLE_XOR;
    found.n_instructions++;
    at += length;
  }
  assert_int_equal(at, n);
  return found;
}

/* One module with one choice of modes. */
static void check_declared(const uint32_t *words, size_t n, const declared *before, tsr_vk_spirv_modes modes)
{
  uint32_t *result = malloc((n + TSR_VK_SPIRV_MORE_WORDS) * sizeof(*result));
  const size_t n_result = tsr_vk_spirv_declare(words, n, modes, result);
  assert_in_range(n_result, n, n + TSR_VK_SPIRV_MORE_WORDS);
  assert_memory_equal(result, words, 5 * sizeof(*words));
  const declared after = read_module(result, n_result);
  const int is_old = words[1] < 0x00010400, reconverges = modes.reconverge && before->subgroups;
  assert_int_equal(after.capabilities, modes.preserve);
  assert_int_equal(after.extensions, modes.preserve && is_old);
  assert_int_equal(after.modes_32, modes.preserve);
  assert_int_equal(after.modes_16, modes.preserve && modes.preserve_halves && before->halves);
  assert_int_equal(after.reconvergence, reconverges);
  assert_int_equal(after.reconverges, reconverges);
  assert_int_equal(after.n_instructions,
                   before->n_instructions +
                       (size_t)(after.capabilities + after.extensions + after.modes_32 + after.modes_16) +
                       2 * (size_t)reconverges);
  free(result);
}

static void test_all_shaders(void **state)
{
  (void)state;
  int n_halves = 0, n_subgroups = 0;
  for (int32_t i = 0; i < tsr_vk_shader_count; i++) {
    if (tsr_vk_shaders[i].size_bytes == 0) {
      continue; /* compiled by a glslang that does not know it */
    }
    size_t n;
    uint32_t *words = shader_words(&tsr_vk_shaders[i], &n);
    const declared before = read_module(words, n);
    assert_int_equal(before.capabilities + before.modes_32 + before.modes_16 + before.reconverges, 0);
    n_halves += before.halves;
    n_subgroups += before.subgroups;
    for (int choice = 0; choice < 8; choice++) {
      for (uint32_t version = 0x00010300; version <= 0x00010500; version += 0x100) {
        words[1] = version;
        check_declared(words, n, &before,
                       (tsr_vk_spirv_modes){
                           .preserve = choice & 1, .preserve_halves = choice >> 1 & 1, .reconverge = choice >> 2});
      }
    }
    free(words);
  }
  assert_true(tsr_vk_shader_count > 50);
  assert_true(n_halves > 0 || !TSR_VK_HAS_COOPERATIVE_SHADERS);
  assert_true(n_subgroups > 10);
}

/* Which lane of a subgroup an invocation is, gl_LocalInvocationID does not tell: who shuffles asks for the lane. */
static void test_lanes(void **state)
{
  (void)state;
  int n_shuffling = 0;
  for (int32_t i = 0; i < tsr_vk_shader_count; i++) {
    if (tsr_vk_shaders[i].size_bytes > 0) {
      size_t n;
      uint32_t *words = shader_words(&tsr_vk_shaders[i], &n);
      const declared found = read_module(words, n);
      if (found.shuffles > 0 && !found.knows_lane) {
        fail_msg("%s shuffles, and knows not its lane", tsr_vk_shaders[i].name);
      }
      n_shuffling += found.shuffles > 0;
      free(words);
    }
  }
  assert_true(n_shuffling > 10);
}

static const tsr_vk_spirv_modes all_modes = {.preserve = 1, .preserve_halves = 1, .reconverge = 1};

/* Every prefix of a module, and every instruction of no words or too many, is refused or still a module. */
static void test_damaged(void **state)
{
  (void)state;
  size_t n;
  uint32_t *words = shader_words(&tsr_vk_shaders[0], &n);
  for (size_t cut = 0; cut < n; cut++) {
    uint32_t *part = malloc((cut + 1) * sizeof(*part)); /* to its last word: what is read beyond, sanitizers tell */
    uint32_t *result = malloc((cut + TSR_VK_SPIRV_MORE_WORDS) * sizeof(*result));
    memcpy(part, words, cut * sizeof(*part));
    const size_t n_result = tsr_vk_spirv_declare(part, cut, all_modes, result);
    assert_true(n_result == 0 || n_result > cut);
    free(result);
    free(part);
  }
  uint32_t *result = malloc((n + TSR_VK_SPIRV_MORE_WORDS) * sizeof(*result));
  for (size_t at = 5; at < n && words[at] >> 16 != 0; at += words[at] >> 16) {
    const uint32_t kept = words[at];
    words[at] = kept & 0xffffu;
    assert_int_equal(tsr_vk_spirv_declare(words, n, all_modes, result), 0);
    words[at] = kept | 0xffff0000u;
    assert_int_equal(tsr_vk_spirv_declare(words, n < 0xffff ? n : 0xfffe, all_modes, result), 0);
    words[at] = kept;
  }
  /* Two entry points: of which one the mode is, is not known. */
  for (size_t at = 5; at < n; at += words[at] >> 16) {
    if ((words[at] & 0xffffu) == OP_EXECUTION_MODE && words[at] >> 16 > 2) {
      words[at] = (words[at] & 0xffff0000u) | OP_ENTRY_POINT;
      assert_int_equal(tsr_vk_spirv_declare(words, n, all_modes, result), 0);
      break;
    }
  }
  free(result);
  free(words);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_shaders), cmocka_unit_test(test_lanes),
                                     cmocka_unit_test(test_damaged)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
