/* SPDX-License-Identifier: Apache-2.0 */
#include "blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

/* The part of the CBLAS interface that is used, with 32-bit sizes. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };
typedef void (*sgemm_fn)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                         int lda, const float *b, int ldb, float beta, float *c, int ldc);

struct cpu_blas {
  void *library;
  sgemm_fn sgemm;
  char name[96];   /* "OpenBLAS 0.3.21, SkylakeX kernels" */
  char advice[96]; /* what to set where it runs below what the CPU offers, or "" */
};

/* In the order in which they are tried: a BLAS that is known to be fast, then whatever the system was set up to use. */
static const char *const usual_names[] = {"libopenblas.so.0", "libblas.so.3", "libblis.so.4", "libmkl_rt.so.2"};

void cpu_blas_product(const cpu_blas *blas, const cpu_gemm *g)
{
  blas->sgemm(ROW_MAJOR, g->a_transposed ? TRANSPOSE : NO_TRANSPOSE, g->b_transposed ? TRANSPOSE : NO_TRANSPOSE,
              (int)g->rows, (int)g->columns, (int)g->depth, g->alpha, g->a, (int)g->lda, g->b, (int)g->ldb, g->beta,
              g->c, (int)g->ldc);
}

/* POSIX lets an object pointer carry a function; ISO C has no cast for it. */
static int find(void *library, const char *name, void *function)
{
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

/* 1 if OpenBLAS kernels of that name use all that the CPU has. */
static int uses_all(const char *kernels)
{
  static const char *const avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
  static const char *const avx2[] = {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"};
  const char *const *names = avx512;
  size_t n = sizeof avx512 / sizeof avx512[0];
  if (!cpu_has_avx2()) {
    return 1; /* an architecture or a CPU about which nothing is known here */
  }
  if (!cpu_has_avx512()) {
    names = avx2;
    n = sizeof avx2 / sizeof avx2[0];
  }
  for (size_t i = 0; i < n; i++) {
    if (strcmp(names[i], kernels) == 0) {
      return 1;
    }
  }
  return 0;
}

static void advise(cpu_blas *blas, const char *kernels)
{
  if (uses_all(kernels)) {
    return;
  }
  /* The environment's choice takes the place of what OpenBLAS finds out by itself, which an old build cannot for a
   * CPU that came after it. */
  const char *value = getenv("OPENBLAS_CORETYPE");
  const char *best = cpu_has_avx512() ? "SkylakeX" : "Haswell";
  if (value && *value && strcmp(value, best) != 0) {
    snprintf(blas->advice, sizeof blas->advice, "unset OPENBLAS_CORETYPE%s, or set it to %s",
             getenv("OPENBLAS_L2_SIZE") ? " and OPENBLAS_L2_SIZE" : "", best);
  } else {
    snprintf(blas->advice, sizeof blas->advice, "set OPENBLAS_CORETYPE=%s, or install a newer OpenBLAS", best);
  }
}

/* Learns which BLAS it is and keeps it to the calling thread: threads are the pool's matter. 0: none that is known
 * to be fast. */
static int identify(cpu_blas *blas)
{
  char *(*config)(void) = NULL;
  char *(*kernels)(void) = NULL;
  void (*threads)(int) = NULL;
  if (find(blas->library, "openblas_get_config", &config) && find(blas->library, "openblas_get_corename", &kernels) &&
      find(blas->library, "openblas_set_num_threads", &threads)) {
    threads(1);
    char product[32] = "OpenBLAS", version[32] = "";
    sscanf(config(), "%31s %31s", product, version); /* of "OpenBLAS 0.3.21 DYNAMIC_ARCH .." */
    snprintf(blas->name, sizeof blas->name, "%s %s, %.20s kernels", product, version, kernels());
    advise(blas, kernels());
    return 1;
  }
  if (find(blas->library, "bli_thread_set_num_threads", &threads)) {
    threads(1);
    snprintf(blas->name, sizeof blas->name, "BLIS");
    return 1;
  }
  if (find(blas->library, "MKL_Set_Num_Threads", &threads)) {
    threads(1);
    snprintf(blas->name, sizeof blas->name, "MKL");
    return 1;
  }
  snprintf(blas->name, sizeof blas->name, "a BLAS of another kind");
  return 0;
}

/* NULL, or why the library cannot be used: valid until the thread's next call of this. */
static const char *open_library(cpu_blas *blas, const char *name)
{
  blas->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!blas->library) {
    const char *reason = dlerror();
    return reason ? reason : "it cannot be opened";
  }
  if (!find(blas->library, "cblas_sgemm", &blas->sgemm)) {
    dlclose(blas->library);
    blas->library = NULL;
    return "it lacks the function cblas_sgemm: a BLAS without its C interface, or no BLAS";
  }
  return NULL;
}

int32_t cpu_blas_open(const cpu_context *context, cpu_blas **blas)
{
  const char *wanted = context->host->option(context->host, "BLAS");
  *blas = NULL;
  if (wanted && strcmp(wanted, "none") == 0) {
    return TSR_OK;
  }
  /* The kernels that know x86's vectors are as fast as a BLAS; others leave some products to it. */
  if (!(wanted && *wanted) && !context->levels[0]->takes_blas) {
    return TSR_OK;
  }
  cpu_blas *opened = calloc(1, sizeof *opened);
  if (!opened) {
    return cpu_fail(context, TSR_ERR_OUT_OF_MEMORY, "out of memory while opening a BLAS");
  }
  if (wanted && *wanted) {
    const char *fault = open_library(opened, wanted);
    if (fault) {
      free(opened);
      return cpu_fail(context, TSR_ERR_ARGUMENT,
                      "TESSERA_BLAS is \"%s\"; it should be a library with cblas_sgemm, or \"none\": %s", wanted,
                      fault);
    }
    identify(opened);
  } else {
    for (size_t i = 0; i < sizeof usual_names / sizeof usual_names[0] && !opened->library; i++) {
      /* What is there but is not known to be fast is slower than the kernels here. */
      if (!open_library(opened, usual_names[i]) && !identify(opened)) {
        dlclose(opened->library);
        opened->library = NULL;
      }
    }
  }
  if (!opened->library) {
    free(opened);
    return TSR_OK;
  }
  if (opened->advice[0]) {
    char message[512];
    snprintf(message, sizeof message,
             "%s: less than this CPU offers, by a factor of two or more: %s; until then it is not used", opened->name,
             opened->advice);
    context->host->report(context->host, TSR_LOG_WARNING, message);
  }
  *blas = opened;
  return TSR_OK;
}

void cpu_blas_close(cpu_blas *blas)
{
  if (blas) {
    dlclose(blas->library);
    free(blas);
  }
}

int cpu_blas_is_fast(const cpu_blas *blas)
{
  return blas && blas->advice[0] == '\0';
}

const char *cpu_blas_describe(const cpu_blas *blas, char *text, size_t size)
{
  if (!blas) {
    snprintf(text, size, "no BLAS");
  } else {
    snprintf(text, size, "%s%s%s%s", blas->name, blas->advice[0] ? " (not used, less than this CPU offers: " : "",
             blas->advice, blas->advice[0] ? ")" : "");
  }
  return text;
}
