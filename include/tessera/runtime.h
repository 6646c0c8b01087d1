/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/runtime.h: backends, devices, buffers, executables.
 *
 * Every function may be called from any thread. The library serialises calls on one device; on a device with
 * concurrent_runs (its properties), it serialises only calls that use the same executable, or a buffer that one of them
 * writes. Different devices run side by side. Objects must outlive what was made from them: runtime > device > buffer,
 * executable.
 */
#ifndef TESSERA_RUNTIME_H
#define TESSERA_RUNTIME_H

#include "tessera/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_runtime tsr_runtime;
typedef struct tsr_device tsr_device;
typedef struct tsr_buffer tsr_buffer;
typedef struct tsr_executable tsr_executable;

typedef struct tsr_runtime_options {
  uint32_t struct_size;
  /* Paths of shared objects to load first; NULL-terminated, or NULL. Borrowed during the call, as the next. */
  const char *const *plugins;
  const char *path; /* folders to search, colon-separated; NULL: TESSERA_BACKEND_PATH, then `tessera` beside
                       the library, then the install directory */
} tsr_runtime_options;
TSR_SIZED_PIN(tsr_runtime_options, path, 16);

/* Finds the backends, and starts those of `plugins` at once. The others start when they are needed, because a driver
 * may take longer than all the rest. Opening a device by its name starts only the backend libtessera-backend-NAME.so;
 * `auto`, a name that is not found, and asking for devices or problems start all backends. A plugin that cannot be used
 * is not an error: tsr_runtime_problem describes it. `options` may be NULL. *runtime is the caller's until
 * tsr_runtime_destroy. Errors: TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_runtime_create(const tsr_runtime_options *options, tsr_runtime **runtime) TSR_MUST_CHECK;

/* Takes NULL. Stops and unloads every backend. */
TSR_API void tsr_runtime_destroy(tsr_runtime *runtime);

/* Adds a backend linked into the program, through its query function, after those that were found. Errors:
 * TSR_ERR_PLUGIN. */
TSR_API tsr_status tsr_runtime_register(tsr_runtime *runtime, tsr_backend_query_fn query) TSR_MUST_CHECK;

/* Sets an option that plugins read through host->option (and that TESSERA_NAME sets otherwise). Both are copied; NULL
 * value removes it. Errors: TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_runtime_option(tsr_runtime *runtime, const char *name, const char *value) TSR_MUST_CHECK;

typedef struct tsr_device_info {
  char name[64];                    /* "vulkan:0" */
  const char *backend;              /* "vulkan"; lives as long as the runtime */
  const char *description;          /* the backend's */
  const char *path;                 /* the plugin's file, or "" for one linked in */
  tsr_device_properties properties; /* limits and capabilities */
} tsr_device_info;

/* The devices that were found. index: 0 .. count-1; *info is filled. Errors: TSR_ERR_ARGUMENT. */
TSR_API int32_t tsr_runtime_device_count(const tsr_runtime *runtime);
TSR_API tsr_status tsr_runtime_device_info_sized(const tsr_runtime *runtime, int32_t index, tsr_device_info *info,
                                                 size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_runtime_device_info(const tsr_runtime *runtime, int32_t index,
                                                                tsr_device_info *info)
{
  return tsr_runtime_device_info_sized(runtime, index, info, sizeof *info);
}

/* What was tried and did not work: why a plugin was not loaded or a backend did not start. index: 0 .. count-1.
 * The texts live as long as the runtime. */
typedef struct tsr_problem {
  const char *path;    /* the plugin's file or the folder */
  const char *message; /* the reason, for people */
  tsr_status status;
} tsr_problem;
TSR_API int32_t tsr_runtime_problem_count(const tsr_runtime *runtime);
TSR_API tsr_status tsr_runtime_problem_sized(const tsr_runtime *runtime, int32_t index, tsr_problem *problem,
                                             size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_runtime_problem(const tsr_runtime *runtime, int32_t index,
                                                            tsr_problem *problem)
{
  return tsr_runtime_problem_sized(runtime, index, problem, sizeof *problem);
}

/* Opens a device by name: "backend:index", "backend" (index 0), "auto", or NULL: TESSERA_DEVICE, else "auto". auto
 * prefers a discrete GPU, then an integrated one, then a virtual one, then a CPU backend, then the reference; a GPU
 * interface executed by a CPU is used only if it is named. If auto chooses the reference, a warning says why. If a
 * backend refuses one of its options (TSR_ERR_ARGUMENT), auto does not pass over it: that is an error. *device is the
 * caller's until tsr_device_close.
 * Errors: TSR_ERR_NO_DEVICE (the message lists what was found and what was tried), and what the backend returns. */
TSR_API tsr_status tsr_device_open(tsr_runtime *runtime, const char *name, tsr_device **device) TSR_MUST_CHECK;

/* Opens what auto would choose if the devices of these names ("backend:index", [n]) were not there, to go on after one
 * of them failed. Errors: as above. */
TSR_API tsr_status tsr_device_open_other(tsr_runtime *runtime, const char *const *names, int32_t n,
                                         tsr_device **device) TSR_MUST_CHECK;

/* Takes NULL. Destroy the device's buffers and executables first. */
TSR_API void tsr_device_close(tsr_device *device);

TSR_API const char *tsr_device_name(const tsr_device *device);
TSR_API const tsr_device_properties *tsr_device_get_properties(const tsr_device *device);
TSR_API tsr_runtime *tsr_device_runtime(const tsr_device *device);
TSR_API tsr_status tsr_device_get_counters_sized(tsr_device *device, tsr_device_counters *counters,
                                                 size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_device_get_counters(tsr_device *device, tsr_device_counters *counters)
{
  return tsr_device_get_counters_sized(device, counters, sizeof *counters);
}

/* 1 if the device executes line `line` of the program itself, 0 if not. */
TSR_API int tsr_device_supports(tsr_device *device, const tsr_program *program, int32_t line);

/* Variants: kernels of a backend that compute the same in different ways (tsr_variants_extension). Numbered from 1 to
 * the count, which is 0 where a backend has none. name: NULL beyond that; static. */
TSR_API int32_t tsr_device_variant_count(const tsr_device *device);
TSR_API const char *tsr_device_variant_name(const tsr_device *device, int32_t variant);

/* From now on, the device uses this variant wherever it can, in answers and in what it compiles; 0: as the backend
 * chooses. Errors: TSR_ERR_ARGUMENT (there is no such variant). */
TSR_API tsr_status tsr_device_force_variant(tsr_device *device, int32_t variant) TSR_MUST_CHECK;

/* The variant in which the device would execute line `line` of the program; 0 if there is only one, or if the device
 * does not execute the line. */
TSR_API int32_t tsr_device_variant_of(tsr_device *device, const tsr_program *program, int32_t line);

/* Makes the kernels that executables of the program need; the device keeps them. Takes no memory for the program's
 * tensors. If a backend has nothing to make, nothing happens. Errors: TSR_ERR_UNSUPPORTED (a line that the device does
 * not execute), what making an executable returns. */
TSR_API tsr_status tsr_device_prepare(tsr_device *device, const tsr_program *program) TSR_MUST_CHECK;

/* tsr_program_measure for the plan of this device, which may compute neighbouring lines as one, and keeps what they
 * read longer. `alignment`: the device's buffer_alignment; with a fallback device, the larger of both. Errors:
 * likewise. */
TSR_API tsr_status tsr_device_measure_sized(tsr_device *device, const tsr_program *program, int64_t alignment,
                                            tsr_program_statistics *statistics, size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_device_measure(tsr_device *device, const tsr_program *program,
                                                           int64_t alignment, tsr_program_statistics *statistics)
{
  return tsr_device_measure_sized(device, program, alignment, statistics, sizeof *statistics);
}

/* The bytes of an arena for the program in pieces of `piece` bytes each: planned_bytes of tsr_device_measure, and gaps
 * where a temporary would lie in two pieces. `piece`: a multiple of the alignment. Errors: likewise,
 * TSR_ERR_DEVICE_MEMORY (a temporary is larger than a piece). */
TSR_API tsr_status tsr_device_measure_pieces(tsr_device *device, const tsr_program *program, int64_t alignment,
                                             int64_t piece, int64_t *bytes) TSR_MUST_CHECK;

/* The name of the class of shapes that line `line` belongs to, for which a variant can be remembered. 1, or 0 ("") if
 * the line has no variants. text: text_size bytes, at least 1. */
TSR_API int tsr_device_variant_class(tsr_device *device, const tsr_program *program, int32_t line, char *text,
                                     size_t text_size);

/* From now on, lines of this line's class use the variant, unless another is forced; 0: as the backend chooses. The
 * device remembers that while it is open. tsr_device_save_variants keeps it for those who open the device later, until
 * the driver changes.
 * Errors: TSR_ERR_ARGUMENT (no such line or variant), TSR_ERR_UNSUPPORTED (the line has no variants), TSR_ERR_IO. */
TSR_API tsr_status tsr_device_remember_variant(tsr_device *device, const tsr_program *program, int32_t line,
                                               int32_t variant) TSR_MUST_CHECK;
TSR_API tsr_status tsr_device_save_variants(tsr_device *device) TSR_MUST_CHECK;

/* Memory on a device, zero-filled. usage: TSR_BUFFER_*. size 0 is allowed. *buffer is the caller's until
 * tsr_buffer_destroy. Errors: TSR_ERR_DEVICE_MEMORY, TSR_ERR_DEVICE_LOST. */
TSR_API tsr_status tsr_buffer_create(tsr_device *device, int64_t size, int32_t usage,
                                     tsr_buffer **buffer) TSR_MUST_CHECK;
TSR_API void tsr_buffer_destroy(tsr_buffer *buffer); /* takes NULL; no executable that is bound to it is left */
TSR_API int64_t tsr_buffer_size(const tsr_buffer *buffer);
TSR_API tsr_device *tsr_buffer_device(const tsr_buffer *buffer);

/* Copies `size` bytes at `offset`; blocks until done. Errors: TSR_ERR_ARGUMENT (out of range), the backend's. */
TSR_API tsr_status tsr_buffer_write(tsr_buffer *buffer, int64_t offset, int64_t size, const void *bytes) TSR_MUST_CHECK;
TSR_API tsr_status tsr_buffer_read(tsr_buffer *buffer, int64_t offset, int64_t size, void *bytes) TSR_MUST_CHECK;

/* Binds a constant, input, output or state of the program to a range of the caller's buffer, so that executables share
 * it, or several tensors share one buffer. The range starts at `offset` and has the size of the tensor's storage; what
 * lies around it is never written. Ranges of different tensors do not overlap, unless all of them are only read. */
typedef struct tsr_binding {
  tsr_ref tensor;     /* a tensor of the program, as its builder returned it or tsr_program_find finds it */
  tsr_buffer *buffer; /* on the executable's device, or one of them, large enough; outlives the executable */
  int64_t offset;     /* bytes; a multiple of the device's buffer_alignment */
} tsr_binding;

typedef struct tsr_compile_options {
  uint32_t struct_size;
  int32_t n_bindings;
  /* Every constant must be bound, to bytes that already have their values, because a backend may copy them into a
   * layout of its own. Any other tensor that is not bound gets a buffer of its own. Borrowed during the call. */
  const tsr_binding *bindings;
  int32_t strict;       /* 1: TSR_ERR_UNSUPPORTED (naming each line) instead of falling back */
  int32_t keep_all;     /* 1: every temporary keeps its value until the next run and can be read */
  int32_t profile;      /* 1: measure the time of each line */
  tsr_device *fallback; /* runs the lines that the device does not; NULL: the runtime opens `cpu`, else `reference` */
  tsr_buffer *arena;    /* where the temporaries go, from its start: a buffer of the device, bound to nothing, as large
                           as tsr_device_measure says, which outlives the executable. Executables that share an arena
                           never run side by side. The size that tsr_program_measure gives for the same alignment is
                           enough, too: the device then computes fewer lines as one. NULL: an arena of its own */
  /* More buffers for the arena, if one buffer cannot hold all of it, as tsr_device_measure_pieces says: each as large
   * as the arena, the last one perhaps smaller. No temporary lies in two of them. Borrowed during the call. */
  tsr_buffer *const *arena_rest;
  int32_t n_arena_rest;
  /* More devices, of the same runtime, each once, that the program is split over. A line runs where the largest of the
   * bound constants and states lies that it uses, so that these are not moved. A line without such runs where the line
   * before it does. What a line reads is copied to its device by way of the host. A binding's buffer may lie on any of
   * the devices, and the arena on the first. Borrowed during the call. */
  int32_t n_others;
  tsr_device *const *others;
  int32_t n_cuts;
  int32_t reserved;
  /* Lines, ascending, each above 0 and below the number of lines: where the program is cut into parts that can be
   * started one by one (tsr_executable_part). Memory is planned as without cuts. Borrowed during the call. */
  const int32_t *cuts;
} tsr_compile_options;
TSR_SIZED_PIN(tsr_compile_options, cuts, 80);

/* Compiles a program for a device. Lines that the device does not support run on the fallback device, with copies
 * between the two (tsr_executable_report counts them). The program may be destroyed afterwards. *executable is the
 * caller's until tsr_executable_destroy. Errors: the program's status, TSR_ERR_UNSUPPORTED, TSR_ERR_DEVICE_MEMORY,
 * TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_executable_create(tsr_device *device, const tsr_program *program,
                                         const tsr_compile_options *options,
                                         tsr_executable **executable) TSR_MUST_CHECK;
TSR_API void tsr_executable_destroy(tsr_executable *executable); /* takes NULL */

/* Host bytes into an input or state, or out of an output, state, input or constant (with keep_all: any tensor). The
 * tensor's storage is copied whole: size must be its size in bytes. Between runs only. */
TSR_API tsr_status tsr_executable_write(tsr_executable *executable, tsr_ref tensor, const void *bytes,
                                        int64_t size) TSR_MUST_CHECK;
TSR_API tsr_status tsr_executable_read(tsr_executable *executable, tsr_ref tensor, void *bytes,
                                       int64_t size) TSR_MUST_CHECK;

/* Runs once and waits for the end. */
TSR_API tsr_status tsr_executable_run(tsr_executable *executable) TSR_MUST_CHECK;

/* The two halves of tsr_executable_run: start may return before the run ends; wait blocks until it has ended. A call
 * that touches what a run in flight uses may have to wait for the run, too. If the run failed, that call does nothing
 * and returns the run's error, and wait returns the same code again. */
TSR_API tsr_status tsr_executable_start(tsr_executable *executable) TSR_MUST_CHECK;
TSR_API tsr_status tsr_executable_wait(tsr_executable *executable) TSR_MUST_CHECK;

/* Like n calls of tsr_executable_start, n at least 1: each run goes on from the states that the run before it left. If
 * the backend can, it hands all runs to the device at once. After an error, some of them may have run. */
TSR_API tsr_status tsr_executable_start_many(tsr_executable *executable, int32_t n) TSR_MUST_CHECK;

/* A part of an executable that was compiled with cuts: the lines before the first cut, between two, or behind the last.
 * index: 0 .. n_cuts; NULL beyond. It is the executable's, and can be started, waited for and run like one, from the
 * first part to the last, each started after the one before it; to start the executable is to start all of them. A part
 * in flight is in the way of calls that touch a buffer which its own lines use: what parts before it left in other
 * buffers can be read meanwhile, by tsr_buffer_read. */
TSR_API tsr_executable *tsr_executable_part(tsr_executable *executable, int32_t index);

typedef struct tsr_executable_info {
  int32_t lines;           /* of the program */
  int32_t fallback_lines;  /* of them on the fallback device */
  int32_t segments;        /* stretches of lines on one device: 1 without another device and cuts */
  int32_t copies;          /* copies between the devices in one run */
  int64_t copy_bytes;      /* their bytes */
  int64_t temporary_bytes; /* that one buffer per temporary would take */
  int64_t planned_bytes;   /* that the plan's arena takes */
} tsr_executable_info;
TSR_API void tsr_executable_report_sized(const tsr_executable *executable, tsr_executable_info *info, size_t size);
static inline void tsr_executable_report(const tsr_executable *executable, tsr_executable_info *info)
{
  tsr_executable_report_sized(executable, info, sizeof *info);
}

/* 1 if line `line` runs on the fallback device. */
TSR_API int tsr_executable_line_fell_back(const tsr_executable *executable, int32_t line);

/* The device that runs line `line`; NULL: there is no such line. */
TSR_API const tsr_device *tsr_executable_line_device(const tsr_executable *executable, int32_t line);

/* What each line hands to its device: kernels, and waits for all before them (tessera/backend.h). A line that is
 * computed as one with later lines has none. n must be the number of lines; the executable was compiled without
 * profile, which keeps lines apart. Errors: TSR_ERR_UNSUPPORTED (a device's backend does not report them). */
TSR_API tsr_status tsr_executable_commands(tsr_executable *executable, tsr_line_commands *lines,
                                           int32_t n) TSR_MUST_CHECK;

/* Nanoseconds of each line in the last run; the executable was compiled with profile. n must be the number of lines.
 * Errors: TSR_ERR_UNSUPPORTED. */
TSR_API tsr_status tsr_executable_profile(tsr_executable *executable, uint64_t *nanoseconds, int32_t n) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
