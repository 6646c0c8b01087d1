/* SPDX-License-Identifier: Apache-2.0
 *
 * The Vulkan plugin without the runtime around it: the tests call its table as a host would.
 */
#ifndef TESSERA_TESTS_VULKAN_FIXTURE_H
#define TESSERA_TESTS_VULKAN_FIXTURE_H

#include "tessera/backend.h"

enum { FIXTURE_OPTIONS = 8 };

typedef struct plugin_fixture {
  tsr_host host; /* first: the plugin hands it back */
  const tsr_backend *table;
  tsr_backend_query_fn query;
  void *module; /* NULL if the backend is linked into the test */
  void *context;
  uint32_t n_devices;
  struct {
    const char *name, *value;
  } options[FIXTURE_OPTIONS];
  int n_errors;       /* reported at TSR_LOG_ERROR */
  int n_validation;   /* messages of the validation layer */
  char message[1024]; /* the last error */
} plugin_fixture;

/* Loads the plugin and starts it; skips the test where there is no device. NAME=VALUE pairs, ended by NULL, set
 * options. Unless they say otherwise the validation layer is on where it is installed, and the cache on disk is left
 * alone. */
void plugin_open(plugin_fixture *plugin, ...);

/* The same for a backend that is linked into the test. */
void plugin_open_linked(plugin_fixture *plugin, tsr_backend_query_fn query, ...);

/* Stops and unloads; fails the test if the validation layer had something to say. */
void plugin_close(plugin_fixture *plugin);

/* A chain of additions: x[i + 1] = x[i] + x[i], n of them over vectors of `extent` f32, all in one buffer: x[0] at its
 * start, the others taking turns in two places, as a memory plan would have it, and the last one behind those. */
typedef struct chain {
  const tsr_backend *table;
  int32_t n;
  int32_t extent;
  uint64_t stride; /* bytes between the four places */
  tsr_storage_desc *storages;
  tsr_tensor_desc *tensors;
  tsr_line_desc *lines;
  tsr_program_desc program;
  tsr_backend_buffer *buffer;
  tsr_backend_executable *executable;
} chain;

void chain_describe(chain *c, const plugin_fixture *plugin, int32_t n, int32_t extent);

/* Makes its buffer, then compiles it; returns the status. chain_close releases what was made. */
int32_t chain_compile(chain *c, tsr_backend_device *device, int32_t profile);

/* Both, expecting success. */
void chain_open(chain *c, const plugin_fixture *plugin, tsr_backend_device *device, int32_t n, int32_t extent,
                int32_t profile);

/* Writes x[0] = start + i. */
void chain_write(chain *c, float start);

/* Waits for the last run, and fails the test unless the result is (start + i) * 2^n. */
void chain_check(chain *c, float start);
void chain_close(chain *c);

tsr_device_counters device_counters(const plugin_fixture *plugin, tsr_backend_device *device);

#endif
