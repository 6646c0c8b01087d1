/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/options/values.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/message.h"

int tsr_cli_integer(const char *command, const char *what, const char *text, int64_t low, int64_t high, int64_t *value)
{
  char *end = NULL;
  errno = 0;
  long long parsed = strtoll(text, &end, 10);
  if (end == text || *end != '\0') {
    return tsr_cli_usage(command, "%s: '%s' is not a whole number", what, text);
  }
  if (errno == ERANGE || parsed < low || parsed > high) {
    return tsr_cli_usage(command, "%s: %s is outside %lld .. %lld", what, text, (long long)low, (long long)high);
  }
  *value = parsed;
  return TSR_EXIT_OK;
}

int tsr_cli_int32(const char *command, const char *what, const char *text, int32_t low, int32_t high, int32_t *value)
{
  int64_t wide = 0;
  int code = tsr_cli_integer(command, what, text, low, high, &wide);
  if (code == TSR_EXIT_OK) {
    *value = (int32_t)wide;
  }
  return code;
}

int tsr_cli_number(const char *command, const char *what, const char *text, double low, double high, double *value)
{
  char *end = NULL;
  errno = 0;
  double parsed = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(parsed)) {
    return tsr_cli_usage(command, "%s: '%s' is not a number", what, text);
  }
  if (parsed < low || parsed > high) {
    return tsr_cli_usage(command, "%s: %s is outside %g .. %g", what, text, low, high);
  }
  *value = parsed;
  return TSR_EXIT_OK;
}

int tsr_cli_seed(const char *command, const char *what, const char *text, uint64_t *value)
{
  char *end = NULL;
  errno = 0;
  unsigned long long parsed = strtoull(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || strchr(text, '-')) {
    return tsr_cli_usage(command, "%s: '%s' is no whole number from 0 to %" PRIu64, what, text, UINT64_MAX);
  }
  *value = parsed;
  return TSR_EXIT_OK;
}

static const struct {
  const char *name;
  tsr_dtype dtype;
} precisions[] = {{"f32", TSR_F32}, {"f16", TSR_F16}, {"bf16", TSR_BF16}, {"int8", TSR_I8}, {"int4", TSR_I4}};
enum { N_PRECISIONS = sizeof precisions / sizeof precisions[0] };

const char *tsr_cli_precision_name(tsr_dtype value)
{
  for (size_t i = 0; i < N_PRECISIONS; i++) {
    if (precisions[i].dtype == value) {
      return precisions[i].name;
    }
  }
  return "stored";
}

int tsr_cli_precision(const char *command, const char *what, const char *text, tsr_dtype *value)
{
  for (size_t i = 0; i < N_PRECISIONS; i++) {
    if (strcmp(text, precisions[i].name) == 0) {
      *value = precisions[i].dtype;
      return TSR_EXIT_OK;
    }
  }
  return tsr_cli_usage(command, "%s: '%s' is none of f32, f16, bf16, int8, int4", what, text);
}

const char *tsr_cli_precision_at(int32_t index)
{
  return index >= 0 && index < (int32_t)N_PRECISIONS ? precisions[index].name : NULL;
}
