/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/plan.h: what a backend would start for a program on a device that need not be here: kernels, stages,
 * operations, bytes.
 *
 * Nothing is compiled or run, and no weights are needed. A backend chooses its kernels by what a device can do
 * (tsr_described_device in tessera/backend.h), so a description of the device is enough.
 *
 * Every function may be called from any thread; a plan does not change once it is made.
 */
#ifndef TESSERA_PLAN_H
#define TESSERA_PLAN_H

#include "tessera/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_device_plan tsr_device_plan;

/* Memory that a kernel reads or writes. */
typedef struct tsr_kernel_access {
  tsr_ref tensor;     /* of the program; 0: memory of the backend's own, which only kernels of the same lines read */
  int32_t is_written; /* 1: written, 0: read */
  double bytes;       /* each counted once; for a table the rows that are read, for a state what is written */
} tsr_kernel_access;

/* A kernel of the program. */
typedef struct tsr_plan_kernel {
  const char *name;   /* the backend's for it; lives as long as the runtime */
  int32_t first_line; /* of the lines that it computes, or part of them, as one */
  int32_t last_line;
  int32_t waits;       /* 1: it waits until all before it have ended, and begins a stage; so does the first kernel */
  uint32_t group_size; /* invocations of a workgroup; 0: unknown */
  uint64_t groups;     /* workgroups; 0: unknown, enough for any device */
  int32_t rate;        /* TSR_RATE_*: which of the device's rates bounds the operations */
  int32_t n_accesses;
  double operations;
  double loads; /* bytes that all its workgroups together read from memory or caches; 0: each byte once */
  const tsr_kernel_access *accesses; /* [n_accesses]; live as long as the plan */
  int64_t rows;                      /* of a product's result; 0: its lines have no product */
} tsr_plan_kernel;

/* What the backend of that name ("vulkan") would start for the program on the described device, at full capacity: as if
 * every position of the program's extents were used. Temporaries share bytes as they would on such a device, by the
 * library's memory plan, so a kernel also waits for kernels whose bytes it takes over. All other tensors are taken to
 * be apart. If a backend lacks the extension tessera.plan/1, the plan has one kernel for each line, and each waits for
 * the one before. The backend has to start on this machine; its devices are not opened.
 *
 * runtime, described and program are borrowed during the call; *plan is the caller's until tsr_device_plan_destroy, and
 * is NULL after an error. Blocks while the backend is loaded. Errors: the program's status, TSR_ERR_ARGUMENT,
 * TSR_ERR_NO_DEVICE (no such backend), TSR_ERR_UNSUPPORTED (a line that such a device cannot execute),
 * TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_device_plan_create(tsr_runtime *runtime, const char *backend,
                                          const tsr_described_device *described, const tsr_program *program,
                                          tsr_device_plan **plan) TSR_MUST_CHECK;
TSR_API void tsr_device_plan_destroy(tsr_device_plan *plan); /* takes NULL */

/* Kernels in the order in which they are started. index: 0 .. count-1; NULL beyond. What is returned belongs to the
 * plan. */
TSR_API int32_t tsr_device_plan_count(const tsr_device_plan *plan);
TSR_API const tsr_plan_kernel *tsr_device_plan_kernel(const tsr_device_plan *plan, int32_t index);

/* Bytes of the arena in which the temporaries lie. */
TSR_API int64_t tsr_device_plan_arena(const tsr_device_plan *plan);

/* Describes a device that is open; if its backend does not describe devices, by the fields that all have. The caller
 * sets described->struct_size. Errors: TSR_ERR_ARGUMENT, the backend's. */
TSR_API tsr_status tsr_device_describe(tsr_device *device, tsr_described_device *described) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
