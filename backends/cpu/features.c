/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CPU can do, and how much of it this process may use.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

enum {
  FEATURE_AVX2 = 1,
  FEATURE_AVX512 = 2,
  FEATURE_AVX512_VNNI = 4,
  FEATURE_AVX_VNNI = 8,
  FEATURE_DOTPROD = 16,
  FEATURE_I8MM = 32,
  FEATURE_AMX = 64,
  FEATURE_AVX512_BF16 = 128,
  FEATURE_SLOW_BF16 = 256, /* the same, with less done in a second than in f32 */
};

#if defined(__x86_64__)

/* Which registers the system saves: without that an instruction that the CPU has must not be used. */
static uint64_t saved_state(void)
{
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

/* VDPBF16PS has two products where an FMA has one. AMD's processors begin as many of them; Intel's, which have tiles
 * for bf16, begin one where they begin four FMAs. */
static uint32_t feature_bf16(void)
{
  uint32_t a, b, c, d;
  const int is_intel = __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
  return is_intel ? FEATURE_SLOW_BF16 : FEATURE_AVX512_BF16;
}

static uint32_t cpu_features(void)
{
  uint32_t a, b, c, d, found = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) {
    return 0;
  }
  const uint64_t state = saved_state();
  const int ymm = (state & 0x6) == 0x6, zmm = (state & 0xe6) == 0xe6, tiles = (state >> 17 & 3) == 3;
  const int fma = (c & bit_FMA) && (c & bit_F16C) && (c & bit_AVX);
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    return 0;
  }
  const uint32_t matrix = 1u << 22 | 1u << 24 | 1u << 25; /* AMX-BF16, AMX-TILE, AMX-INT8 */
  const uint32_t foundation = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  if (ymm && fma && (b & bit_AVX2)) {
    found |= FEATURE_AVX2;
  }
  if ((found & FEATURE_AVX2) && zmm && (b & foundation) == foundation) {
    found |= FEATURE_AVX512;
    found |= c & bit_AVX512VNNI ? FEATURE_AVX512_VNNI : 0;
    found |= tiles && (d & matrix) == matrix ? FEATURE_AMX : 0;
  }
  if ((found & FEATURE_AVX2) && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
    found |= a >> 4 & 1 ? FEATURE_AVX_VNNI : 0;
    found |= (found & FEATURE_AVX512) && (a >> 5 & 1) ? feature_bf16() : 0;
  }
  return found;
}

#elif defined(__aarch64__) && defined(__linux__)

static uint32_t cpu_features(void)
{
  /* Bits of AT_HWCAP and of AT_HWCAP2. A level with dot products is compiled for Armv8.2, which has atomic instructions
   * besides. */
  enum { ATOMICS = 1 << 8, DOTPROD = 1 << 20, I8MM = 1 << 13 };
  const unsigned long needed = ATOMICS | DOTPROD;
  if ((getauxval(AT_HWCAP) & needed) != needed) {
    return 0;
  }
  return FEATURE_DOTPROD | (getauxval(AT_HWCAP2) & I8MM ? FEATURE_I8MM : 0);
}

#else

static uint32_t cpu_features(void)
{
  return 0;
}

#endif

/* One row per level that was compiled in, worst first; two of a level that not every CPU has in the same place. */
#define LEVEL(name) extern const cpu_operator cpu_operators_##name[CPU_OP_COUNT]
LEVEL(emulated);
LEVEL(emulatedbf16);
LEVEL(portable);
LEVEL(avx2);
LEVEL(avx2vnni);
LEVEL(avx512);
LEVEL(avx512vnni);
LEVEL(avx512bf16);
LEVEL(amx);
LEVEL(dotprod);
LEVEL(i8mm);

static const struct {
  cpu_level level;
  uint32_t needs;
} levels[] = {
#if defined(CPU_WITH_EMULATED)
    {{"emulated", "the arithmetic of amx, slowly", 0, 0, cpu_operators_emulated}, 0},
    {{"emulatedbf16", "the arithmetic of avx512bf16, slowly", 0, 0, cpu_operators_emulatedbf16}, 0},
#endif
#if defined(__aarch64__)
    {{"portable", "NEON", 1, 0, cpu_operators_portable}, 0},
#else
    {{"portable", "no instructions beyond the architecture's", 1, 0, cpu_operators_portable}, 0},
#endif
#if defined(CPU_WITH_AVX2)
    {{"avx2", "AVX2, FMA", 0, 0, cpu_operators_avx2}, FEATURE_AVX2},
#endif
#if defined(CPU_WITH_AVX2VNNI)
    {{"avx2vnni", "AVX2, FMA, AVX-VNNI", 0, 0, cpu_operators_avx2vnni}, FEATURE_AVX_VNNI},
#endif
#if defined(CPU_WITH_AVX512)
    {{"avx512", "AVX-512", 0, 0, cpu_operators_avx512}, FEATURE_AVX512},
#endif
#if defined(CPU_WITH_AVX512BF16)
#define AVX512BF16                                                                                                     \
  {                                                                                                                    \
    "avx512bf16", "AVX-512, VNNI, BF16", 0, 0, cpu_operators_avx512bf16                                                \
  }
    {AVX512BF16, FEATURE_AVX512_VNNI | FEATURE_SLOW_BF16},
#endif
#if defined(CPU_WITH_AVX512VNNI)
    {{"avx512vnni", "AVX-512, VNNI", 0, 0, cpu_operators_avx512vnni}, FEATURE_AVX512_VNNI},
#endif
#if defined(CPU_WITH_AVX512BF16)
    {AVX512BF16, FEATURE_AVX512_VNNI | FEATURE_AVX512_BF16},
#endif
#if defined(CPU_WITH_AMX)
    {{"amx", "AVX-512, VNNI, AMX-INT8, AMX-BF16", 0, 1, cpu_operators_amx}, FEATURE_AVX512_VNNI | FEATURE_AMX},
#endif
#if defined(CPU_WITH_DOTPROD)
    {{"dotprod", "NEON, dot products of bytes", 1, 0, cpu_operators_dotprod}, FEATURE_DOTPROD},
#endif
#if defined(CPU_WITH_I8MM)
    {{"i8mm", "NEON, matrix products of bytes", 1, 0, cpu_operators_i8mm}, FEATURE_I8MM},
#endif
};

enum { LEVEL_COUNT = sizeof levels / sizeof levels[0] };
_Static_assert((int32_t)LEVEL_COUNT <= (int32_t)CPU_MAX_LEVELS, "more levels than a context has room for");

const cpu_level *cpu_level_at(int32_t index)
{
  const uint32_t have = cpu_features();
  for (int32_t i = LEVEL_COUNT - 1; i >= 0; i--) {
    if ((levels[i].needs & ~have) == 0 && index-- == 0) {
      return &levels[i].level;
    }
  }
  return NULL;
}

int cpu_level_is_granted(const cpu_level *level)
{
#if defined(__x86_64__) && defined(__linux__)
  /* As arch_prctl(2) has them: a process asks once for the state of tiles, which is large. */
  enum { ARCH_REQUEST_STATE = 0x1023, STATE_OF_TILES = 18 };
  return !level->asks || syscall(SYS_arch_prctl, ARCH_REQUEST_STATE, STATE_OF_TILES) == 0;
#else
  return !level->asks;
#endif
}

int cpu_has_avx2(void)
{
  return (cpu_features() & FEATURE_AVX2) != 0;
}

int cpu_has_avx512(void)
{
  return (cpu_features() & FEATURE_AVX512) != 0;
}

const char *cpu_model_name(char *text, size_t size)
{
  snprintf(text, size, "this machine's CPU");
#if defined(__x86_64__)
  uint32_t words[12];
  int complete = 1;
  for (uint32_t i = 0; i < 3; i++) {
    complete &= __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
  }
  if (complete) {
    char name[sizeof words + 1] = {0};
    memcpy(name, words, sizeof words);
    snprintf(text, size, "%s", name + strspn(name, " "));
    for (size_t end = strlen(text); end > 0 && text[end - 1] == ' '; end--) {
      text[end - 1] = '\0';
    }
  }
#endif
  return text;
}

/* The first number in a file; -1 if there is none. */
static long long number_in(const char *path)
{
  long long value = -1;
  FILE *file = fopen(path, "r");
  if (file) {
    if (fscanf(file, "%lld", &value) != 1) {
      value = -1;
    }
    fclose(file);
  }
  return value;
}

/* Processors that the control group's quota is worth, rounded up; INT32_MAX without one. */
static int32_t quota(void)
{
  long long limit = -1, period = -1;
  FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
  if (file) {
    if (fscanf(file, "%lld %lld", &limit, &period) != 2) {
      limit = -1;
    }
    fclose(file);
  } else {
    limit = number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    period = number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  }
  return limit > 0 && period > 0 ? (int32_t)((limit + period - 1) / period) : INT32_MAX;
}

int32_t cpu_core_count(void)
{
#ifdef _WIN32
  const int known = win_core_count();
  if (known > 0) {
    return known;
  }
#endif
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int32_t)online : 1;
  }
  int32_t cores = 0;
  for (int processor = 0; processor < CPU_SETSIZE; processor++) {
    if (!CPU_ISSET(processor, &allowed)) {
      continue;
    }
    /* The first of the processors that share a core stands for it; one whose first is not allowed stands for itself. */
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", processor);
    const long long first = number_in(path);
    cores += first < 0 || first == processor || first >= CPU_SETSIZE || !CPU_ISSET((int)first, &allowed);
  }
  const int32_t most = quota();
  cores = cores < most ? cores : most;
  return cores > 0 ? cores : 1;
}
