/* SPDX-License-Identifier: Apache-2.0
 *
 * What the driver says of the pipelines that it makes (option PIPELINE_STATISTICS): one JSON object a line, for
 * tools/lab.
 *
 *     {"device": "..", "driver": "..", "statistics": true, "shaders": ["matmul_tiled", ..]}   once per open device
 *     {"making": "matmul_tiled", "spec": [256, 1, 4], "subgroup": 0}    before the driver is asked: it may crash
 *     {"made": "matmul_tiled", "spec": [256, 1, 4], "subgroup": 0, "executables": [{"name": "..", "subgroup": 32,
 *      "statistics": {"Spilled VGPRs": 0, ..}}]}                  the driver's own names; or "error": ".."
 *     {"used": "matmul_tiled", "spec": [256, 1, 1], "subgroup": 0, "variant": "matmul.tiled_128x128", "forced": false}
 *
 * The last comes once for each variant (variants.h; null without one) that takes a pipeline.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/backend.h"

enum { MAX_STATISTICS = 64 };

static void write_text(FILE *file, const char *text)
{
  fputc('"', file);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      fprintf(file, "\\%c", c);
    } else if (c < 32) {
      fprintf(file, "\\u%04x", c);
    } else {
      fputc(c, file);
    }
  }
  fputc('"', file);
}

int32_t tsr_vk_statistics_init(tsr_backend_device *d, const char *path)
{
  if (!path) {
    return TSR_OK;
  }
  d->statistics = fopen(path, "a");
  if (!d->statistics) {
    return tsr_vk_fail(d->host, TSR_ERR_IO, "TESSERA_PIPELINE_STATISTICS is \"%s\", a file that cannot be written: %s",
                       path, strerror(errno));
  }
  fputs("{\"device\": ", d->statistics);
  write_text(d->statistics, d->hardware.properties.deviceName);
  fputs(", \"driver\": ", d->statistics);
  write_text(d->statistics, d->hardware.properties12.driverInfo);
  fprintf(d->statistics, ", \"statistics\": %s, \"shaders\": [", d->hardware.pipeline_statistics ? "true" : "false");
  const char *between = "";
  for (int32_t i = 0; i < tsr_vk_shader_count; i++) {
    if (tsr_vk_shaders[i].packed) {
      fputs(between, d->statistics);
      write_text(d->statistics, tsr_vk_shaders[i].name);
      between = ", ";
    }
  }
  fputs("]}\n", d->statistics);
  return TSR_OK;
}

void tsr_vk_statistics_finish(tsr_backend_device *d)
{
  if (d->statistics) {
    fclose(d->statistics);
    d->statistics = NULL;
  }
}

VkPipelineCreateFlags tsr_vk_statistics_flags(const tsr_backend_device *d)
{
  return d->statistics && d->hardware.pipeline_statistics ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0;
}

static void write_dispatch(FILE *file, const char *what, const tsr_vk_dispatch *dispatch)
{
  fprintf(file, "{\"%s\": ", what);
  write_text(file, tsr_vk_shaders[dispatch->shader].name);
  fputs(", \"spec\": [", file);
  for (int32_t i = 0; i < dispatch->n_spec; i++) {
    fprintf(file, i > 0 ? ", %u" : "%u", (unsigned)dispatch->spec[i]);
  }
  fprintf(file, "], \"subgroup\": %u", (unsigned)dispatch->subgroup_size);
}

void tsr_vk_statistics_begin(tsr_backend_device *d, const tsr_vk_dispatch *dispatch)
{
  if (!d->statistics) {
    return;
  }
  write_dispatch(d->statistics, "making", dispatch);
  fputs("}\n", d->statistics);
  fflush(d->statistics);
}

void tsr_vk_statistics_use(tsr_backend_device *d, const tsr_vk_dispatch *dispatch, tsr_vk_pipeline *pipeline)
{
  uint32_t *told = &pipeline->told[dispatch->variant / 32];
  const uint32_t bit = (uint32_t)1 << dispatch->variant % 32;
  if (!d->statistics || (*told & bit)) {
    return;
  }
  *told |= bit;
  const char *variant = tsr_vk_variant_name(dispatch->variant);
  write_dispatch(d->statistics, "used", dispatch);
  fputs(", \"variant\": ", d->statistics);
  if (variant) {
    write_text(d->statistics, variant);
  } else {
    fputs("null", d->statistics);
  }
  fprintf(d->statistics, ", \"forced\": %s}\n", variant && dispatch->variant == d->caps.forced ? "true" : "false");
}

static void write_statistic(FILE *file, const VkPipelineExecutableStatisticKHR *statistic)
{
  write_text(file, statistic->name);
  switch (statistic->format) {
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
    fprintf(file, ": %d", statistic->value.b32 != 0);
    break;
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
    fprintf(file, ": %lld", (long long)statistic->value.i64);
    break;
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
    fprintf(file, ": %llu", (unsigned long long)statistic->value.u64);
    break;
  default:
    fprintf(file, ": %.9g", statistic->value.f64);
  }
}

static void write_executables(tsr_backend_device *d, VkPipeline pipeline)
{
  enum { MAX_EXECUTABLES = 8 }; /* Intel has one for each subgroup size */
  VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
  VkPipelineExecutablePropertiesKHR executables[MAX_EXECUTABLES];
  uint32_t n = MAX_EXECUTABLES;
  for (uint32_t i = 0; i < n; i++) {
    executables[i] = (VkPipelineExecutablePropertiesKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR};
  }
  if (d->vk.vkGetPipelineExecutablePropertiesKHR(d->handle, &info, &n, executables) < VK_SUCCESS) {
    n = 0;
  }
  fputs(", \"executables\": [", d->statistics);
  for (uint32_t i = 0; i < n; i++) {
    fputs(i > 0 ? ", {\"name\": " : "{\"name\": ", d->statistics);
    write_text(d->statistics, executables[i].name);
    fprintf(d->statistics, ", \"subgroup\": %u, \"statistics\": {", (unsigned)executables[i].subgroupSize);
    VkPipelineExecutableInfoKHR which = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline, .executableIndex = i};
    VkPipelineExecutableStatisticKHR statistics[MAX_STATISTICS];
    uint32_t count = MAX_STATISTICS;
    for (uint32_t k = 0; k < count; k++) {
      statistics[k] = (VkPipelineExecutableStatisticKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
    }
    if (d->vk.vkGetPipelineExecutableStatisticsKHR(d->handle, &which, &count, statistics) < VK_SUCCESS) {
      count = 0;
    }
    for (uint32_t k = 0; k < count; k++) {
      fputs(k > 0 ? ", " : "", d->statistics);
      write_statistic(d->statistics, &statistics[k]);
    }
    fputs("}}", d->statistics);
  }
  fputc(']', d->statistics);
}

void tsr_vk_statistics_end(tsr_backend_device *d, const tsr_vk_dispatch *dispatch, VkPipeline pipeline)
{
  if (!d->statistics) {
    return;
  }
  write_dispatch(d->statistics, "made", dispatch);
  if (!pipeline) {
    fputs(", \"error\": \"the driver made no pipeline\"", d->statistics);
  } else if (d->hardware.pipeline_statistics) {
    write_executables(d, pipeline);
  } else {
    fputs(", \"executables\": []", d->statistics);
  }
  fputs("}\n", d->statistics);
  fflush(d->statistics);
}
