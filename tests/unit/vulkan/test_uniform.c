/* SPDX-License-Identifier: Apache-2.0
 *
 * The invocations of a subgroup work together only where all of them are: no group operation, cooperative matrix or
 * barrier lies behind a branch that they may take differently. A shuffle from a lane that is elsewhere gives anything
 * on a GPU, and what was expected on CPUs' drivers, so that only the modules themselves can tell.
 *
 * A value is varying if invocations of one subgroup may have different ones, otherwise it is uniform. A block is
 * divergent if some of them may be in it without the others: it lies between a branch by a varying condition and the
 * block in which all meet again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/kernel.h"
#include "shaders/shaders.h"
#include "tests/unit/vulkan/shader_words.h"

enum { OP_EXTENDED = 12, OP_TYPE_FIRST = 19, OP_TYPE_POINTER = 32, OP_TYPE_LAST = 38, OP_DECORATE = 71 };
enum { OP_FUNCTION = 54, OP_PARAMETER = 55, OP_CALL = 57, OP_VARIABLE = 59, OP_LOAD = 61, OP_STORE = 62 };
enum { OP_ARRAY_LENGTH = 68, OP_VECTOR_SHUFFLE = 79, OP_EXTRACT = 81, OP_INSERT = 82 };
enum { OP_CONTROL_BARRIER = 224, OP_MEMORY_BARRIER = 225, OP_ATOMIC_LOAD = 227, OP_ATOMIC_XOR = 242 };
enum { OP_PHI = 245, OP_LOOP_MERGE = 246, OP_SELECTION_MERGE = 247, OP_LABEL = 248 };
enum { OP_BRANCH = 249, OP_BRANCH_CONDITIONAL = 250, OP_SWITCH = 251 };
enum { OP_RETURN = 253, OP_RETURN_VALUE = 254, OP_UNREACHABLE = 255 };
enum { OP_GROUP_FIRST = 333, OP_ALL = 334, OP_BALLOT = 339, OP_SHUFFLE = 345, OP_SHUFFLE_DOWN = 348 };
enum { OP_GROUP_ADD = 349, OP_GROUP_XOR = 364, OP_GROUP_LAST = 366, GROUP_REDUCE = 0 };
enum { OP_TYPE_MATRIX = 4456, OP_MATRIX_LOAD = 4457, OP_MATRIX_STORE = 4458, OP_MATRIX_MULTIPLY = 4459 };
enum { STORAGE_INPUT = 1, STORAGE_PRIVATE = 6, STORAGE_FUNCTION = 7, DECORATION_BUILT_IN = 11 };
enum { NONE = -1 };

/* What is known of an id, by what it is. */
typedef struct value {
  uint32_t base;       /* of a pointer into an invocation's own memory: its variable or parameter, otherwise 0 */
  uint32_t block;      /* of a label: the index of its block + 1 */
  uint32_t parameters; /* of a function: where they begin */
  uint8_t is_type;
  uint8_t varies;         /* a function: its result */
  uint8_t contents_vary;  /* of a variable, or of what a parameter points to */
  uint8_t is_own_pointer; /* a type: into an invocation's own memory */
  uint8_t is_local;       /* a variable of a function */
  uint8_t is_global;      /* a variable of the module, of each invocation its own */
  uint8_t meets;          /* at a label those meet who came by different ways */
  uint8_t is_merge;       /* or the continue target of a loop: where that may be */
  uint8_t called_apart;   /* a function, by some invocations without the others */
  uint8_t works_together; /* a function: something in it needs all */
  uint8_t has_effects;    /* a function: that, or it writes variables of the module */
} value;

typedef struct block {
  uint32_t label, function, merge; /* ids */
  uint32_t first, last;            /* where its first and its last instruction begin */
  uint32_t branch;                 /* the label of the block whose branch makes it divergent, otherwise 0 */
  uint32_t search;                 /* the last one that came along */
  int branched;                    /* what its own branch makes divergent is marked */
} block;

typedef struct module {
  const uint32_t *words;
  value *values; /* by id */
  block *blocks; /* in the module's order */
  int32_t n_blocks;
  uint32_t search;
  int changed;
} module;

static uint32_t op_at(const module *m, size_t at)
{
  return m->words[at] & 0xffffu;
}

static uint32_t length_at(const module *m, size_t at)
{
  return m->words[at] >> 16;
}

static void mark(module *m, uint8_t *flag, int is_so)
{
  if (is_so && !*flag) {
    *flag = 1;
    m->changed = 1;
  }
}

static int needs_all(uint32_t op)
{
  return (op >= OP_GROUP_FIRST && op <= OP_GROUP_LAST) || (op >= OP_MATRIX_LOAD && op <= OP_MATRIX_MULTIPLY) ||
         op == OP_CONTROL_BARRIER;
}

/* LocalInvocationId, GlobalInvocationId, LocalInvocationIndex, SubgroupLocalInvocationId */
static int varies_in_subgroup(uint32_t built_in)
{
  return (built_in >= 27 && built_in <= 29) || built_in == 41;
}

/* ---- what a module has --------------------------------------------------------------------------------------------*/

static void read_declaration(module *m, size_t at)
{
  const uint32_t op = op_at(m, at), *w = m->words + at;
  if ((op >= OP_TYPE_FIRST && op <= OP_TYPE_LAST) || op == OP_TYPE_MATRIX) {
    m->values[w[1]].is_type = 1;
    m->values[w[1]].is_own_pointer =
        op == OP_TYPE_POINTER && (w[2] == STORAGE_INPUT || w[2] == STORAGE_PRIVATE || w[2] == STORAGE_FUNCTION);
  } else if (op == OP_DECORATE && length_at(m, at) > 3 && w[2] == DECORATION_BUILT_IN) {
    m->values[w[1]].contents_vary = (uint8_t)varies_in_subgroup(w[3]);
  } else if ((op == OP_VARIABLE || op == OP_PARAMETER) && m->values[w[1]].is_own_pointer) {
    m->values[w[2]].base = w[2];
    m->values[w[2]].is_local = op == OP_VARIABLE && w[3] == STORAGE_FUNCTION;
    m->values[w[2]].is_global = op == OP_VARIABLE && w[3] != STORAGE_FUNCTION;
  } else if (op == OP_FUNCTION) {
    m->values[w[2]].parameters = (uint32_t)at + length_at(m, at);
  } else if (length_at(m, at) > 3 && w[1] < m->words[3] && m->values[w[1]].is_own_pointer) {
    m->values[w[2]].base = m->values[w[3]].base; /* an access chain */
  }
}

static module read_module(const uint32_t *words, size_t n)
{
  module m = {.words = words};
  m.values = calloc(words[3], sizeof(*m.values));
  m.blocks = calloc(n, sizeof(*m.blocks));
  uint32_t function = 0;
  for (size_t at = 5; at < n; at += length_at(&m, at)) {
    const uint32_t op = op_at(&m, at);
    assert_in_range(length_at(&m, at), 1, n - at);
    read_declaration(&m, at);
    block *b = m.n_blocks > 0 ? &m.blocks[m.n_blocks - 1] : NULL;
    if (op == OP_FUNCTION) {
      function = words[at + 2];
    } else if (op == OP_LABEL) {
      m.blocks[m.n_blocks++] = (block){.label = words[at + 1], .function = function, .first = (uint32_t)at};
      m.values[words[at + 1]].block = (uint32_t)m.n_blocks;
    } else if (op == OP_LOOP_MERGE || op == OP_SELECTION_MERGE) {
      b->merge = words[at + 1];
      m.values[b->merge].is_merge = 1;
      m.values[words[at + 2]].is_merge |= op == OP_LOOP_MERGE;
    } else if (op >= OP_BRANCH && op <= OP_UNREACHABLE) {
      b->last = (uint32_t)at;
    }
  }
  return m;
}

/* But for its words. */
static void free_module(module *m)
{
  free(m->values);
  free(m->blocks);
}

static int32_t block_of(const module *m, uint32_t label)
{
  assert_in_range(label, 1, m->words[3] - 1);
  assert_true(m->values[label].block > 0);
  return (int32_t)m->values[label].block - 1;
}

static int target_count(const module *m, const block *b)
{
  switch (op_at(m, b->last)) {
  case OP_BRANCH:
    return 1;
  case OP_BRANCH_CONDITIONAL:
    return 2;
  case OP_SWITCH: /* literals of 32 bits */
    return (int)(length_at(m, b->last) - 1) / 2;
  default:
    return 0;
  }
}

static int32_t target(const module *m, const block *b, int i)
{
  const uint32_t op = op_at(m, b->last), *w = m->words + b->last;
  return block_of(m, op == OP_BRANCH ? w[1] : op == OP_BRANCH_CONDITIONAL ? w[2 + i] : w[2 + 2 * i]);
}

/* ---- where invocations are apart ----------------------------------------------------------------------------------*/

/* Goes all ways from a block that do not lead through `stop`; returns whether one leaves the function. */
static int follow(module *m, int32_t from, int32_t stop)
{
  const block *b = &m->blocks[from];
  const uint32_t op = op_at(m, b->last);
  int leaves = op == OP_RETURN || op == OP_RETURN_VALUE;
  for (int i = 0; i < target_count(m, b); i++) {
    const int32_t next = target(m, b, i);
    if (next != stop && m->blocks[next].search != m->search) {
      m->blocks[next].search = m->search;
      leaves |= follow(m, next, stop);
    }
  }
  return leaves;
}

static int leaves_without(module *m, int32_t from, int32_t stop)
{
  m->search++;
  return follow(m, from, stop);
}

/* Where all meet that go different ways from here: in its merge block, or, if a way leads out of that construct (a
 * break, a return), in the next merge block or continue target through which all ways lead. NONE: they do not. */
static int32_t meeting_of(module *m, int32_t from)
{
  const block *b = &m->blocks[from];
  if (b->merge > 0 && !leaves_without(m, from, block_of(m, b->merge))) {
    return block_of(m, b->merge);
  }
  for (int32_t i = from + 1; i < m->n_blocks && m->blocks[i].function == b->function; i++) {
    if (m->values[m->blocks[i].label].is_merge && !leaves_without(m, from, i)) {
      return i;
    }
  }
  return NONE;
}

/* The blocks from a branch to where its ways meet have afterwards this number of search. */
static int32_t search_behind(module *m, int32_t from)
{
  const int32_t meeting = meeting_of(m, from);
  leaves_without(m, from, meeting);
  return meeting;
}

static void part_at(module *m, int32_t from)
{
  if (m->blocks[from].branched) {
    return;
  }
  const int32_t meeting = search_behind(m, from);
  for (int32_t i = 0; i < m->n_blocks; i++) {
    if (m->blocks[i].search == m->search && m->blocks[i].branch == 0) {
      m->blocks[i].branch = m->blocks[from].label;
    }
  }
  if (meeting != NONE) {
    m->values[m->blocks[meeting].label].meets = 1;
  }
  m->blocks[from].branched = 1;
  m->changed = 1;
}

/* ---- what varies --------------------------------------------------------------------------------------------------*/

static int any_varies(const module *m, size_t at, uint32_t from, uint32_t to)
{
  const uint32_t length = length_at(m, at);
  for (uint32_t i = from; i < (to < length ? to : length); i++) {
    if (m->words[at + i] < m->words[3] && m->values[m->words[at + i]].varies) {
      return 1;
    }
  }
  return 0;
}

static int group_result_varies(const module *m, size_t at)
{
  const uint32_t op = op_at(m, at), *w = m->words + at;
  if (op == OP_SHUFFLE) {
    return m->values[w[4]].varies && m->values[w[5]].varies;
  }
  if (op > OP_SHUFFLE && op <= OP_SHUFFLE_DOWN) {
    return m->values[w[4]].varies;
  }
  if (op >= OP_GROUP_ADD && op <= OP_GROUP_XOR) {
    return w[4] != GROUP_REDUCE;
  }
  return op < OP_ALL || op > OP_BALLOT; /* between them: votes and broadcasts */
}

/* Those who meet have come by different ways, and may have brought different values. */
static int phi_varies(const module *m, const block *b, size_t at)
{
  int differ = 0;
  for (uint32_t i = 5; i < length_at(m, at); i += 2) {
    differ |= m->words[at + i] != m->words[at + 3];
  }
  return any_varies(m, at, 3, UINT32_MAX) || (differ && m->values[b->label].meets);
}

/* In functions with effects it counts what parameters are. Of others each call is taken by itself: what varies among
 * its arguments makes its result and all that it may write vary, and no other call's. */
static int call_varies(module *m, const block *b, size_t at)
{
  value *called = &m->values[m->words[at + 3]];
  int varies = called->varies;
  for (uint32_t i = 4; i < length_at(m, at); i++) {
    const value *argument = &m->values[m->words[at + i]];
    varies |= !called->has_effects && (argument->varies || m->values[argument->base].contents_vary);
  }
  for (uint32_t i = 4; i < length_at(m, at); i++) {
    const value *argument = &m->values[m->words[at + i]];
    value *parameter = &m->values[m->words[called->parameters + 3 * (i - 4) + 2]];
    value *base = &m->values[argument->base];
    mark(m, &parameter->varies, called->has_effects && argument->varies);
    if (argument->base > 0) {
      mark(m, &parameter->contents_vary, called->has_effects && base->contents_vary);
      mark(m, &base->contents_vary, parameter->contents_vary || varies || b->branch > 0);
    }
  }
  mark(m, &called->called_apart, called->has_effects && (b->branch > 0 || m->values[b->function].called_apart));
  return varies;
}

/* Without what is divergent. Literals among the operands are no ids. */
static int result_varies(module *m, const block *b, size_t at)
{
  const uint32_t op = op_at(m, at), *w = m->words + at;
  if (op >= OP_GROUP_FIRST && op <= OP_GROUP_LAST) {
    return group_result_varies(m, at);
  }
  switch (op) {
  case OP_LOAD:
    return any_varies(m, at, 3, 4) || m->values[m->values[w[3]].base].contents_vary;
  case OP_CALL:
    return call_varies(m, b, at);
  case OP_PHI:
    return phi_varies(m, b, at);
  case OP_EXTENDED:
    return any_varies(m, at, 5, UINT32_MAX);
  case OP_EXTRACT:
  case OP_ARRAY_LENGTH:
    return any_varies(m, at, 3, 4);
  case OP_VECTOR_SHUFFLE:
  case OP_INSERT:
    return any_varies(m, at, 3, 5);
  case OP_MATRIX_LOAD: /* each invocation has other elements of a matrix */
  case OP_MATRIX_MULTIPLY:
    return 1;
  default: /* an atomic operation gives each its own result */
    return (op >= OP_ATOMIC_LOAD && op <= OP_ATOMIC_XOR) || any_varies(m, at, 3, UINT32_MAX);
  }
}

/* To memory that others see too, one invocation's value is as good as another's. */
static void store(module *m, const block *b, size_t at)
{
  const uint32_t *w = m->words + at, base = m->values[w[1]].base;
  const int is_apart = b->branch > 0 || (m->values[b->function].called_apart && !m->values[base].is_local);
  if (base > 0) {
    mark(m, &m->values[base].contents_vary, is_apart || m->values[w[1]].varies || m->values[w[2]].varies);
  }
}

static void visit(module *m, int32_t i, size_t at)
{
  const block *b = &m->blocks[i];
  const uint32_t op = op_at(m, at), *w = m->words + at;
  if (op == OP_STORE) {
    store(m, b, at);
  } else if (op == OP_BRANCH_CONDITIONAL || op == OP_SWITCH) {
    if (m->values[w[1]].varies) {
      part_at(m, i);
    }
  } else if (op == OP_RETURN_VALUE) {
    mark(m, &m->values[b->function].varies, b->branch > 0 || m->values[w[1]].varies);
  } else if (length_at(m, at) > 2 && w[1] < m->words[3] && m->values[w[1]].is_type) {
    mark(m, &m->values[w[2]].varies, result_varies(m, b, at) || (b->branch > 0 && op != OP_VARIABLE));
  } else if (!(op >= OP_LOOP_MERGE && op <= OP_UNREACHABLE) && op != OP_CONTROL_BARRIER && op != OP_MEMORY_BARRIER &&
             op != OP_MATRIX_STORE) {
    fail_msg("opcode %u: what it does to variables is not known here", op);
  }
}

static void visit_effects(module *m, int32_t i, size_t at)
{
  const uint32_t op = op_at(m, at), *w = m->words + at;
  const value *called = &m->values[op == OP_CALL ? w[3] : 0], *to = &m->values[op == OP_STORE ? w[1] : 0];
  value *function = &m->values[m->blocks[i].function];
  mark(m, &function->works_together, needs_all(op) || called->works_together);
  mark(m, &function->has_effects, function->works_together || called->has_effects || m->values[to->base].is_global);
}

static void repeat(module *m, void (*visitor)(module *m, int32_t i, size_t at))
{
  do {
    m->changed = 0;
    for (int32_t i = 0; i < m->n_blocks; i++) {
      for (size_t at = m->blocks[i].first; at <= m->blocks[i].last; at += length_at(m, at)) {
        visitor(m, i, at);
      }
    }
  } while (m->changed);
}

static module analysed(const uint32_t *words, size_t n)
{
  module m = read_module(words, n);
  repeat(&m, visit_effects);
  repeat(&m, visit);
  return m;
}

static int all_needed_at(const module *m, size_t at)
{
  const uint32_t op = op_at(m, at);
  return needs_all(op) || (op == OP_CALL && m->values[m->words[at + 3]].works_together);
}

/* How often something that needs all is in a divergent block; each is told if `name` is not NULL. */
static int count_offences(const module *m, const char *name)
{
  int n = 0;
  for (int32_t i = 0; i < m->n_blocks; i++) {
    const block *b = &m->blocks[i];
    for (size_t at = b->first; at <= b->last && b->branch > 0; at += length_at(m, at)) {
      n += all_needed_at(m, at);
      if (name != NULL && all_needed_at(m, at)) {
        print_error("%s: opcode %u in function %%%u, block %%%u, which not all of a subgroup reach from block %%%u\n",
                    name, op_at(m, at), b->function, b->label, b->branch);
      }
    }
  }
  return n;
}

/* Whether all are needed between a branch and where its ways meet. */
static int search_finds_work(module *m, int32_t from)
{
  search_behind(m, from);
  int found = 0;
  for (int32_t i = 0; i < m->n_blocks; i++) {
    for (size_t at = m->blocks[i].first; at <= m->blocks[i].last && m->blocks[i].search == m->search;
         at += length_at(m, at)) {
      found |= all_needed_at(m, at);
    }
  }
  return found;
}

/* ---- the tests ----------------------------------------------------------------------------------------------------*/

/* What the analysis cannot know. */
static const struct {
  const char *prefix, *reason;
} exceptions[] = {
    {"reduce", "what differs between invocations where `serial` is set returns there before the sum of the group"},
};

enum { N_EXCEPTIONS = sizeof(exceptions) / sizeof(exceptions[0]) };

static int exception_of(const char *name)
{
  int i = 0;
  while (i < N_EXCEPTIONS && strncmp(name, exceptions[i].prefix, strlen(exceptions[i].prefix)) != 0) {
    i++;
  }
  return i;
}

static void test_all_shaders(void **state)
{
  (void)state;
  int n_offences[N_EXCEPTIONS + 1] = {0}, n_divergent = 0;
  for (int32_t i = 0; i < tsr_vk_shader_count; i++) {
    if (tsr_vk_shaders[i].size_bytes > 0) { /* otherwise compiled by a glslang that does not know it */
      size_t n;
      uint32_t *words = shader_words(&tsr_vk_shaders[i], &n);
      module m = analysed(words, n);
      const int exception = exception_of(tsr_vk_shaders[i].name);
      n_offences[exception] += count_offences(&m, exception < N_EXCEPTIONS ? NULL : tsr_vk_shaders[i].name);
      for (int32_t k = 0; k < m.n_blocks; k++) {
        n_divergent += m.blocks[k].branch > 0;
      }
      free_module(&m);
      free(words);
    }
  }
  assert_int_equal(n_offences[N_EXCEPTIONS], 0);
  assert_true(n_divergent > 1000);
  for (int i = 0; i < N_EXCEPTIONS; i++) {
    if (n_offences[i] == 0) {
      fail_msg("%s is no exception any more: %s", exceptions[i].prefix, exceptions[i].reason);
    }
  }
}

/* The branches of a module behind which all are needed, each made to vary in turn; returns how many there are. */
static int plant(uint32_t *words, size_t n, const char *name)
{
  module m = analysed(words, n);
  uint32_t varying = 1;
  while (varying < words[3] && !(m.values[varying].varies && m.values[varying].parameters == 0)) {
    varying++;
  }
  int n_planted = 0;
  for (int32_t i = 0; i < m.n_blocks && varying < words[3]; i++) {
    if (target_count(&m, &m.blocks[i]) > 1 && m.blocks[i].branch == 0 && search_finds_work(&m, i)) {
      uint32_t *condition = &words[m.blocks[i].last + 1];
      const uint32_t kept = *condition;
      *condition = varying;
      module planted = analysed(words, n);
      if (count_offences(&planted, NULL) == 0) {
        fail_msg("%s: a branch that varies in block %%%u is not found", name, m.blocks[i].label);
      }
      free_module(&planted);
      *condition = kept;
      n_planted++;
    }
  }
  free_module(&m);
  return n_planted;
}

static void test_planted(void **state)
{
  (void)state;
  int n_planted = 0;
  for (int32_t i = 0; i < tsr_vk_shader_count; i++) {
    if (tsr_vk_shaders[i].size_bytes > 0) {
      size_t n;
      uint32_t *words = shader_words(&tsr_vk_shaders[i], &n);
      n_planted += plant(words, n, tsr_vk_shaders[i].name);
      free(words);
    }
  }
  assert_true(n_planted > 100);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_shaders), cmocka_unit_test(test_planted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
