/* SPDX-License-Identifier: Apache-2.0
 *
 * What users may set. Each option is the host's, who takes it from the environment: NAME from TESSERA_NAME.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/backend.h"

/* The option's value; NULL if it is not set. */
static const char *text_of(const tsr_host *host, const char *name)
{
  const char *text = host->option(host, name);
  return text && *text ? text : NULL;
}

static int32_t fail_value(const tsr_host *host, const char *name, const char *text, const char *expected)
{
  return tsr_vk_fail(host, TSR_ERR_ARGUMENT, "TESSERA_%s is \"%s\"; it should be %s", name, text, expected);
}

/* Each reader keeps *value where the option is not set. */
static int32_t read_switch(const tsr_host *host, const char *name, int *value)
{
  const char *text = text_of(host, name);
  if (!text) {
    return TSR_OK;
  }
  if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) {
    return fail_value(host, name, text, "0 or 1");
  }
  *value = text[0] == '1';
  return TSR_OK;
}

static int32_t read_number(const tsr_host *host, const char *name, double *value)
{
  const char *text = text_of(host, name);
  if (!text) {
    return TSR_OK;
  }
  char *end = NULL;
  const double number = strtod(text, &end);
  if (*end || !(number >= 0)) {
    return fail_value(host, name, text, "a number of 0 or more");
  }
  *value = number;
  return TSR_OK;
}

/* One of three words; *value: which. */
static int32_t read_choice(const tsr_host *host, const char *name, const char *const words[3], const char *expected,
                           int *value)
{
  const char *text = text_of(host, name);
  if (!text) {
    return TSR_OK;
  }
  for (int i = 0; i < 3; i++) {
    if (strcmp(text, words[i]) == 0) {
      *value = i;
      return TSR_OK;
    }
  }
  return fail_value(host, name, text, expected);
}

static int32_t read_variant(const tsr_host *host, int32_t *value)
{
  const char *text = text_of(host, "VULKAN_VARIANT");
  if (!text) {
    return TSR_OK;
  }
  *value = tsr_vk_variant_find(text);
  return *value != TSR_VK_VARIANT_AUTO ? TSR_OK
                                       : fail_value(host, "VULKAN_VARIANT", text,
                                                    "one of the names that `tessera devices --variants` lists, such as "
                                                    "matmul.plain");
}

int32_t tsr_vk_options_read(const tsr_host *host, tsr_vk_options *options)
{
  *options = (tsr_vk_options){
      .pipeline_cache = 1,
      .tuning = 1,
      .fusion = 1,
      .max_binding = -1,
      .max_groups = -1,
      .watchdog_flops = -1,
      .variant = TSR_VK_VARIANT_AUTO,
      .statistics = text_of(host, "PIPELINE_STATISTICS"),
  };
  const struct {
    const char *name;
    int *value;
  } switches[] = {
      {"VALIDATION", &options->validation}, {"PIPELINE_CACHE", &options->pipeline_cache}, {"TUNING", &options->tuning},
      {"STAGING", &options->staging},       {"VULKAN_FUSION", &options->fusion},
  };
  int32_t status = TSR_OK;
  for (size_t i = 0; status == TSR_OK && i < sizeof(switches) / sizeof(switches[0]); i++) {
    status = read_switch(host, switches[i].name, switches[i].value);
  }
  if (status == TSR_OK) {
    status = read_number(host, "MAX_BINDING", &options->max_binding);
  }
  if (status == TSR_OK) {
    status = read_number(host, "MAX_GROUPS", &options->max_groups);
  }
  if (status == TSR_OK) {
    status = read_number(host, "WATCHDOG_FLOPS", &options->watchdog_flops);
  }
  if (status == TSR_OK) {
    static const char *const kernels[] = {"auto", "cpu", "gpu"};
    status = read_choice(host, "VULKAN_KERNELS", kernels, "auto, cpu or gpu", &options->kernels);
  }
  if (status == TSR_OK) {
    static const char *const queues[] = {"auto", "compute", "graphics"};
    status = read_choice(host, "VULKAN_QUEUE", queues, "auto, compute or graphics", &options->queue);
  }
  return status == TSR_OK ? read_variant(host, &options->variant) : status;
}
