/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/options/environment.h"

#include <string.h>

#include "core/base/platform/paths.h"
#include "tools/tessera/options/help.h"

const tsr_variable tsr_variables[] = {
    {"TESSERA_DEVICE", TSR_READER_PROGRAM, 1, "the device if `--device` is not given; default: `auto`"},
    {"TESSERA_BACKEND_PATH", TSR_READER_PROGRAM, 1,
     "folders to search for backends, colon-separated, before those that were installed"},
    {"TESSERA_LOG", TSR_READER_PROGRAM, 1, "`error`, `warning` (default), `info`, `debug`: what is printed on stderr"},
    {TSR_TEMPORARY_VARIABLE, TSR_READER_PROGRAM, 0,
     "folder for temporary files of `tessera bench` and `tessera report`, for copies of sound that comes through a "
     "pipe, and for uploads of sound to `tessera serve`; default: `" TSR_TEMPORARY "`"},
    {"TESSERA_THREADS", TSR_READER_CPU, 0,
     "threads of the backend; default: one for each physical core that the process may use"},
    {"TESSERA_CPU_LEVEL", TSR_READER_CPU, 0,
     "instructions: `portable`, on x86-64 `avx2`, `avx2vnni`, `avx512`, `avx512vnni`, `avx512bf16`, `amx`, on aarch64 "
     "`dotprod`, `i8mm`; `emulated` and `emulatedbf16`: what `amx` and `avx512bf16` compute, slowly, on any CPU; "
     "`all`: a device for each; default: the best that the CPU has"},
    {"TESSERA_BLAS", TSR_READER_CPU, 0,
     "the BLAS, a library with `cblas_sgemm`, or `none`; default: none, but with `portable` instructions and on "
     "aarch64 OpenBLAS, BLIS or MKL if one is installed"},
    {"TESSERA_PIPELINE_STATISTICS", TSR_READER_VULKAN, 0,
     "a file to which the backend writes the driver's statistics of each kernel, one JSON object a line"},
    {"TESSERA_PIPELINE_CACHE", TSR_READER_VULKAN, 0,
     "`0`: the backend neither saves compiled pipelines nor uses those of an earlier run"},
    {"TESSERA_TUNING", TSR_READER_VULKAN, 0,
     "`0`: the backend chooses kernels by its rules and ignores what `tessera tune` found"},
    {"TESSERA_VULKAN_VARIANT", TSR_READER_VULKAN, 0,
     "a variant of kernels (`tessera devices --variants`) that the backend uses wherever it can"},
    {"TESSERA_VULKAN_KERNELS", TSR_READER_VULKAN, 0,
     "`cpu`, `gpu`: the backend chooses kernels as for such a device; `auto` (default): as for the real one"},
    {"TESSERA_VULKAN_QUEUE", TSR_READER_VULKAN, 0,
     "`compute`: a queue of a family that computes but does not draw; `graphics`: one that does both; default: the "
     "first kind, if there is one"},
    {"TESSERA_VULKAN_FUSION", TSR_READER_VULKAN, 0,
     "`0`: no two lines of a program are computed as one, and no line uses rows that another has quantised"},
    {"TESSERA_WATCHDOG_FLOPS", TSR_READER_VULKAN, 0,
     "largest estimated work of one submit; a longer run is split, so that no system takes the GPU for hung; `0`: "
     "never split; default: about 0.3 seconds of work, and never split on a CPU"},
    {"TESSERA_VALIDATION", TSR_READER_VULKAN, 0,
     "`1`: with the Khronos validation layer, synchronisation included; what it finds is logged as warnings"},
    {"TESSERA_STAGING", TSR_READER_VULKAN, 0,
     "`1`: copies go through a staging buffer, as on a device whose memory the host cannot access: for tests"},
    {"TESSERA_MAX_BINDING", TSR_READER_VULKAN, 0, "a tensor with more bytes is reached by its address: for tests"},
    {"TESSERA_MAX_GROUPS", TSR_READER_VULKAN, 0,
     "at most so many workgroups along each of a grid's first two axes; more lie along the third: for tests"},
    {"XDG_CACHE_HOME", TSR_READER_VULKAN, 0,
     "where the backend saves compiled pipelines and what `tessera tune` found; default: `~/.cache`"},
    {"TESSERA_LIBRARY", TSR_READER_PYTHON, 0,
     "the library's file; default: the one that came with the package, else an installed one"},
    {"TESSERA_NO_INSTALL", TSR_READER_SOURCE, 0, "if set, `tools/demo` and `tools/check` never install packages"},
    {"TESSERA_LAB", TSR_READER_SOURCE, 0,
     "`1`: `tools/check --extra` fetches the laboratory of drivers; `0`: it leaves the laboratory out"},
    {"TESSERA_LAB_FOLDER", TSR_READER_SOURCE, 0, "folder of that laboratory"},
    {"TESSERA_SWIFTSHADER_ICD", TSR_READER_SOURCE, 0,
     "the manifest of a second Vulkan driver for the tests; `tools/check` sets it"},
    {"TESSERA_GOLDENS", TSR_READER_SOURCE, 0,
     "another folder of recordings, in the form of `tests/data/goldens`, for the tests that replay them"},
    {"TESSERA_FUZZ_SECONDS", TSR_READER_SOURCE, 0, "how long each fuzzer runs; default: 60"},
    {"TESSERA_CHAOS_SECONDS", TSR_READER_SOURCE, 0,
     "how long the test `chaos` uses a translator from many threads; default: 3"},
    {"TESSERA_SEED", TSR_READER_SOURCE, 0, "seed of the one random program that the test of gradients checks"},
    {"TESSERA_TEST_SEED", TSR_READER_SOURCE, 0, "seed of the one random program that the test of fallbacks runs"},
    {NULL},
};

/* Of a part of the text, and for JSON. */
static const struct {
  const char *title, *name;
} readers[TSR_READERS] = {
    [TSR_READER_PROGRAM] = {"The program and the library", "program"},
    [TSR_READER_CPU] = {"The backend cpu", "cpu"},
    [TSR_READER_VULKAN] = {"The backend vulkan", "vulkan"},
    [TSR_READER_PYTHON] = {"The package for Python", "python"},
    [TSR_READER_SOURCE] = {"Scripts and tests of the source tree", "source"},
};

void tsr_environment_print(FILE *out, int usual_alone)
{
  int width = 0;
  for (const tsr_variable *v = tsr_variables; v->name; v++) {
    int length = (int)strlen(v->name);
    width = length > width && v->is_usual >= usual_alone ? length : width;
  }
  int32_t reader = -1;
  for (const tsr_variable *v = tsr_variables; v->name; v++) {
    if (v->is_usual < usual_alone) {
      continue;
    }
    if (v->reader != reader && !usual_alone) {
      fprintf(out, "%s%s:\n", reader < 0 ? "" : "\n", readers[v->reader].title);
    }
    reader = v->reader;
    fprintf(out, "  %-*s  ", width, v->name);
    tsr_help_fill(out, v->meaning, width + 4, width + 4);
  }
}

json_t *tsr_environment_json(void)
{
  json_t *list = json_array();
  for (const tsr_variable *v = tsr_variables; v->name; v++) {
    json_t *one =
        json_pack("{s:s, s:s, s:s}", "name", v->name, "reader", readers[v->reader].name, "meaning", v->meaning);
    if (json_array_append_new(list, one) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}
