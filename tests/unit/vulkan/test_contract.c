/* SPDX-License-Identifier: Apache-2.0
 *
 * C and GLSL share their contract (shaders/contract): what the shaders that the backend has were compiled to lies as
 * the planners' structs do, a contract by which it would not is told of, and no shader has one of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "backends/vulkan/kernel.h"
#include "shaders/contract/adam.h"
#include "shaders/contract/attention.h"
#include "shaders/contract/attention_combine.h"
#include "shaders/contract/attention_delta.h"
#include "shaders/contract/attention_gradient.h"
#include "shaders/contract/cross_entropy.h"
#include "shaders/contract/cross_entropy_gradient.h"
#include "shaders/contract/dropout.h"
#include "shaders/contract/dropout_bits.h"
#include "shaders/contract/elementwise.h"
#include "shaders/contract/gather.h"
#include "shaders/contract/mask.h"
#include "shaders/contract/matmul_fused.h"
#include "shaders/contract/narrow.h"
#include "shaders/contract/norm.h"
#include "shaders/contract/norm_gradient.h"
#include "shaders/contract/product.h"
#include "shaders/contract/quantise.h"
#include "shaders/contract/reduce.h"
#include "shaders/contract/relative.h"
#include "shaders/contract/relative_gradient.h"
#include "shaders/contract/rotate.h"
#include "shaders/contract/scatter.h"
#include "shaders/contract/scatter_add.h"
#include "shaders/contract/scatter_sort.h"
#include "shaders/contract/softmax.h"
#include "shaders/contract/softmax_gradient.h"
#include "shaders/contract/sum_of_squares.h"
#include "shaders/contract/topk.h"
#include "shaders/contract/topk_merge.h"
#include "shaders/reflect.h"
#include "tests/unit/vulkan/contract/example.h"

/* Shaders whose names begin so, and the bytes of their push constants in C; a longer name stands before its
 * beginning. */
static const struct family {
  const char *name;
  size_t bytes;
} families[] = {
    {"adam", sizeof(tsr_vk_adam_push)},
    {"attention_combine", sizeof(tsr_vk_attention_combine_push)},
    {"attention_delta", sizeof(tsr_vk_attention_delta_push)},
    {"attention_gradient", sizeof(tsr_vk_attention_gradient_push)},
    {"attention", sizeof(tsr_vk_attention_push)},
    {"cross_entropy_gradient", sizeof(tsr_vk_cross_entropy_gradient_push)},
    {"cross_entropy", sizeof(tsr_vk_cross_entropy_push)},
    {"dropout_bits", sizeof(tsr_vk_dropout_bits_push)},
    {"dropout", sizeof(tsr_vk_dropout_push)},
    {"elementwise", sizeof(tsr_vk_elementwise_push)},
    {"gather_bytes", sizeof(tsr_vk_gather_push)},
    {"gather", offsetof(tsr_vk_gather_push, scales_offset)},
    {"mask", sizeof(tsr_vk_mask_push)},
    {"matmul_fused_i8", sizeof(tsr_vk_matmul_fused_push)},
    {"matmul_fused", offsetof(tsr_vk_matmul_fused_push, bias_row_stride)},
    {"matmul_cooperative_i8", sizeof(tsr_vk_product_push)},
    {"matmul_i8", sizeof(tsr_vk_product_push)},
    {"matmul_parts_i8", sizeof(tsr_vk_product_push)},
    {"matmul", offsetof(tsr_vk_product_push, scales_offset)},
    {"narrow", sizeof(tsr_vk_narrow_push)},
    {"norm_gradient", sizeof(tsr_vk_norm_gradient_push)},
    {"norm_halves", sizeof(tsr_vk_norm_push)},
    {"norm", offsetof(tsr_vk_norm_push, halves_at)},
    {"quantise", sizeof(tsr_vk_quantise_push)},
    {"reduce", sizeof(tsr_vk_reduce_push)},
    {"relative_gradient", sizeof(tsr_vk_relative_gradient_push)},
    {"relative", sizeof(tsr_vk_relative_push)},
    {"rotate", sizeof(tsr_vk_rotate_push)},
    {"scatter_add", sizeof(tsr_vk_scatter_add_push)},
    {"scatter_sort", sizeof(tsr_vk_scatter_sort_push)},
    {"scatter", sizeof(tsr_vk_scatter_push)},
    {"softmax_gradient", sizeof(tsr_vk_softmax_gradient_push)},
    {"softmax", sizeof(tsr_vk_softmax_push)},
    {"sum_of_squares", sizeof(tsr_vk_sum_of_squares_push)},
    {"topk_merge", sizeof(tsr_vk_topk_merge_push)},
    {"topk", sizeof(tsr_vk_topk_push)},
};

static size_t bytes_in_c(const char *shader)
{
  for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
    if (strncmp(shader, families[i].name, strlen(families[i].name)) == 0) {
      return families[i].bytes;
    }
  }
  fail_msg("shader %s: no contract is known of it here", shader);
  return 0;
}

/* All members of a block are of four bytes or made of such, and lie one right behind the other in the module
 * (shader_reflect) as they do in C. They come from one list, so that they are the same if the blocks end at the same
 * byte. */
static void test_every_shader_has_the_block_of_its_struct(void **state)
{
  (void)state;
  int with_code = 0;
  for (int32_t i = 0; i < tsr_vk_shader_count; i++) {
    const tsr_vk_shader *shader = &tsr_vk_shaders[i];
    if (shader->packed == NULL) {
      continue;
    }
    uint32_t *words = malloc(shader->size_bytes);
    uLongf size = shader->size_bytes;
    shader_contract contract;
    assert_non_null(words);
    assert_int_equal(uncompress((unsigned char *)words, &size, shader->packed, shader->packed_bytes), Z_OK);
    const char *wrong = shader_reflect(words, size / sizeof *words, &contract);
    if (wrong != NULL || contract.push_bytes != bytes_in_c(shader->name)) {
      fail_msg("%s: %s; its push constants have %u bytes, in C they have %zu", shader->name,
               wrong != NULL ? wrong : "another block", (unsigned)contract.push_bytes, bytes_in_c(shader->name));
    }
    assert_int_equal(contract.push_bytes, shader->push_bytes);
    assert_int_equal(contract.constants, shader->constants);
    assert_in_range(contract.push_bytes, 1, TSR_VK_MAX_PUSH);
    free(words);
    with_code++;
  }
  assert_true(with_code >= 200);
}

static const char *reflect_file(const char *name, shader_contract *contract)
{
  static uint32_t words[1 << 14];
  char path[4096];
  assert_in_range(snprintf(path, sizeof path, "%s/%s", CONTRACT_MODULES, name), 1, sizeof path - 1);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t n = fread(words, sizeof words[0], sizeof words / sizeof words[0], file);
  fclose(file);
  assert_in_range(n, 1, sizeof words / sizeof words[0] - 1);
  return shader_reflect(words, n, contract);
}

static void test_one_list_gives_both_sides(void **state)
{
  (void)state;
  shader_contract contract;
  assert_null(reflect_file("contract_example.spv", &contract));
  assert_int_equal(contract.push_bytes, sizeof(tsr_vk_example_push));
  assert_int_equal(contract.push_bytes, offsetof(tsr_vk_example_push, last) + 4);
  assert_int_equal(contract.constants, 1u << SPEC_SIZE_X | 1u << SPEC_SIZE_Y | 1u << TSR_VK_SPEC_example_first |
                                           1u << TSR_VK_SPEC_example_second);
}

static void test_faults_of_a_contract_are_told(void **state)
{
  (void)state;
  shader_contract contract;
  const char *hole = reflect_file("contract_hole.spv", &contract);
  assert_non_null(hole);
  assert_non_null(strstr(hole, "lies elsewhere than in C"));
  const char *matrix = reflect_file("contract_matrix.spv", &contract);
  assert_non_null(matrix);
  assert_non_null(strstr(matrix, "a type that the contract does not have"));
}

static void test_what_is_no_module_is_told(void **state)
{
  (void)state;
  const uint32_t magic = 0x07230203;
  const uint32_t modules[][7] = {
      {0, 0, 0, 4, 0, 1u << 16, 1u << 16},        /* another file */
      {magic, 0, 0, 1000, 0, 1u << 16, 1u << 16}, /* more ids than words */
      {magic, 0, 0, 4, 0, 9u << 16, 0},           /* an instruction beyond the end */
      {magic, 0, 0, 4, 0, 0, 0},                  /* one without length */
  };
  shader_contract contract;
  for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
    assert_non_null(shader_reflect(modules[i], 7, &contract));
    assert_non_null(shader_reflect(modules[i], 2, &contract));
  }
}

/* The text of a file. To be freed. */
static char *read_text(const char *path)
{
  enum { MOST = 1 << 20 };
  FILE *file = fopen(path, "rb");
  char *text = malloc(MOST + 1);
  assert_non_null(file);
  assert_non_null(text);
  text[fread(text, 1, MOST, file)] = '\0';
  fclose(file);
  return text;
}

static int has_suffix(const char *name, const char *suffix)
{
  const size_t n = strlen(name), m = strlen(suffix);
  return n > m && strcmp(name + n - m, suffix) == 0;
}

static int check_folder(const char *folder)
{
  static const char *const own[] = {"push_constant", "constant_id"};
  DIR *shaders = opendir(folder);
  int n = 0;
  assert_non_null(shaders);
  for (const struct dirent *entry = readdir(shaders); entry != NULL; entry = readdir(shaders)) {
    char path[4096];
    if (!has_suffix(entry->d_name, ".comp") && !has_suffix(entry->d_name, ".glsl")) {
      continue;
    }
    assert_in_range(snprintf(path, sizeof path, "%s/%s", folder, entry->d_name), 1, sizeof path - 1);
    char *text = read_text(path);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
      if (strstr(text, own[i]) != NULL) {
        fail_msg("%s: has a %s of its own: it belongs into shaders/contract", path, own[i]);
      }
    }
    free(text);
    n++;
  }
  closedir(shaders);
  return n;
}

static void test_no_shader_has_a_contract_of_its_own(void **state)
{
  (void)state;
  assert_true(check_folder(SHADERS_FOLDER) >= 30);
  assert_true(check_folder(SHADERS_FOLDER "/lib") >= 20);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_shader_has_the_block_of_its_struct),
      cmocka_unit_test(test_one_list_gives_both_sides),
      cmocka_unit_test(test_faults_of_a_contract_are_told),
      cmocka_unit_test(test_what_is_no_module_is_told),
      cmocka_unit_test(test_no_shader_has_a_contract_of_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
