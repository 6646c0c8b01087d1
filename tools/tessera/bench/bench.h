/* SPDX-License-Identifier: Apache-2.0
 *
 * What the measuring subcommands share: processes that measure, and numbers about a list of times.
 */
#ifndef TESSERA_TOOLS_BENCH_H
#define TESSERA_TOOLS_BENCH_H

#include <sys/types.h>

#include "tessera/ops.h"
#include "tessera/transformer.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"

enum { BENCH_REPEATS = 999 /* at most */ };

/* What a GPU runs before it is timed. One that had nothing to do, while data were made, has slow clocks (an H100 a
 * sixth of its fastest), and takes a while to raise them. */
#define BENCH_WAKING_SECONDS 0.5

/* `tessera bench machine` and so on. */
extern const tsr_command bench_compare;
extern const tsr_command bench_load;
extern const tsr_command bench_machine;
extern const tsr_command bench_ops;
extern const tsr_command bench_start;
extern const tsr_command bench_train;
extern const tsr_command bench_translate;
extern const tsr_command bench_worker;

/* Longest texts that go to another process, with their ends. */
enum { BENCH_PATH = 4096, BENCH_NAME = 256 };

/* ------------------------------------------------------------------------------------------------------------------
 * Processes
 *
 * Each configuration is measured in a process of its own, which lives until all is measured: its peak memory is its
 * own, it opens the backend with its own environment, no two share the threads of a library, and they can take turns.
 */

/* The main function of such a process: answers requests until bench_next returns 0. Its result is the exit code; the
 * reason was printed. */
typedef int (*bench_body)(const void *task);

/* What such a process does: its body, and of which type its task is. Tasks are copied byte by byte, and hold no
 * pointers. */
typedef enum bench_work {
  BENCH_DESCRIBE, /* bench_describe_body: bench_device_task */
  BENCH_MEMORY,   /* bench_memory_body: bench_memory_task */
  BENCH_MODEL,    /* bench_model_body: bench_model_task */
  BENCH_PRODUCT,  /* bench_product_body: bench_product_task */
  BENCH_OP,       /* bench_op_body: bench_op_task */
  BENCH_TILES     /* bench_tiles_body: int32_t, which is not looked at */
} bench_work;

/* The command within `tessera bench` that such a process is. */
#define BENCH_WORKER "worker"

typedef struct bench_process {
  pid_t pid;
  int requests, replies; /* pipes to it and from it */
} bench_process;

typedef struct bench_crew {
  bench_process *processes;
  int32_t n;
  int32_t room;
} bench_crew;

/* Finish it after success only. */
int bench_crew_init(bench_crew *crew, int32_t room);
void bench_crew_finish(bench_crew *crew);

/* Starts the next process. */
int bench_crew_start(bench_crew *crew, bench_work work, const void *task);

/* Sends a request to process `index`, after a pause in which threads of libraries that still look for work fall asleep,
 * and waits for the reply. A process that ended instead has told why; its exit code is the result. */
int bench_crew_ask(bench_crew *crew, int32_t index, int32_t request, void *reply, size_t size);

/* Within a body. */
int bench_next(int32_t *request);
void bench_reply(const void *reply, size_t size);

/* A text of a task: "" stands for what is not given, NULL. */
void bench_give(char *text, size_t room, const char *given);
const char *bench_given(const char *text);

/* The most memory that this process ever held, in bytes. */
int64_t bench_peak_memory(void);

/* The variable of the environment that has the number of a device's threads. */
#define BENCH_THREADS_VARIABLE "TESSERA_THREADS"

/* Opens a device with so many threads; 0: as the environment has it. name: NULL for the default one. */
int bench_open_device(int32_t threads, const char *name, tsr_runtime **runtime, tsr_device **device);

/* ------------------------------------------------------------------------------------------------------------------
 * Numbers
 */
typedef struct bench_summary {
  double median;
  double least;
  double most;
} bench_summary;

/* n at least 1. Sorts the values. */
bench_summary bench_summarise(double *values, int32_t n);

/* A cell with a number, or "-" for 0. */
void bench_count_cell(tsr_cli_table *table, int32_t count);

/* {"median": .., "min": .., "max": ..}, each times `factor` */
json_t *bench_summary_json(const bench_summary *summary, double factor);

/* What stands in every result besides the numbers: which device of which driver. */
typedef struct bench_device_text {
  char device[64]; /* "vulkan:0" */
  char name[256];  /* as the driver gives it */
  char driver[256];
} bench_device_text;
void bench_describe(const tsr_device *device, bench_device_text *text);

/* Adds device, device_name, driver and date to a line of JSON; NULL (no memory) stays NULL. */
json_t *bench_device_json(json_t *root, const bench_device_text *text);

/* ------------------------------------------------------------------------------------------------------------------
 * Options
 */
/* Rows of options that several have, of a struct with these members: */

/* tsr_names devices */
#define BENCH_DEVICES(type)                                                                                            \
  {                                                                                                                    \
    "device", "D,..", TSR_OPTION_DEVICE, TSR_FIELD(type, devices),                                                     \
        .is_list = 1, .repeats = 1, .help = "where to compute", .otherwise = "TESSERA_DEVICE, else auto"               \
  }

/* tsr_integers precisions */
#define BENCH_PRECISIONS(type, ...) BENCH_PRECISIONS_AT(type, precisions, __VA_ARGS__)

/* The same in another member. */
#define BENCH_PRECISIONS_AT(type, member, ...)                                                                         \
  {                                                                                                                    \
    "precision", "P,..", TSR_OPTION_PRECISION, TSR_FIELD(type, member), .is_list = 1, __VA_ARGS__                      \
  }

/* tsr_integers threads */
#define BENCH_THREADS(type, ...)                                                                                       \
  {                                                                                                                    \
    "threads", "N,..", TSR_OPTION_INTEGER, TSR_FIELD(type, threads), 1, 1024, .is_list = 1, __VA_ARGS__                \
  }

/* int32_t repeat */
#define BENCH_REPEAT(type, standard, ...)                                                                              \
  {                                                                                                                    \
    "repeat", "R", TSR_OPTION_INTEGER, TSR_FIELD(type, repeat), 1, BENCH_REPEATS, .preset = standard, __VA_ARGS__      \
  }

/* int as_json */
#define BENCH_JSON(type, ...)                                                                                          \
  {                                                                                                                    \
    "json", NULL, TSR_OPTION_FLAG, TSR_FIELD(type, as_json), .low = 1, .help = __VA_ARGS__                             \
  }

/* What is told of a command line without --model or a file. */
extern const char bench_missing_file[];

/* Where none is given: one, NULL, which is what TESSERA_DEVICE says. */
void bench_choose_device(tsr_names *devices);

/* ------------------------------------------------------------------------------------------------------------------
 * One configuration of a model (bench_model.c)
 */
enum { BENCH_GENERATE = 0, BENCH_ENCODE = 1, BENCH_DECODE = 2 };

typedef struct bench_model_task {
  char folder[BENCH_PATH];
  char device[BENCH_NAME]; /* "": the default */
  int32_t what;            /* BENCH_GENERATE .. */
  tsr_dtype precision;     /* 0: as stored */
  int32_t threads;         /* 0: the default */
  int32_t batch;
  int32_t beam;      /* generate, likewise the next two */
  int32_t workers;   /* 0: as the library decides */
  int32_t sentences; /* of one call; else: the batch */
  int32_t source;    /* tokens of each sentence */
  int32_t target;
} bench_model_task;

/* Requests. The first warms up, and includes opening all. */
enum { BENCH_RUN = 1, BENCH_PROFILE = 2 };

/* The reply to BENCH_RUN. */
typedef struct bench_model_sample {
  double seconds;        /* of one round: a call of generate, a run of the program */
  double tokens;         /* of one round: generated, encoded or decoded */
  double encode_seconds; /* of one run of the encoder; generate alone, likewise below */
  double step_seconds;
  int32_t workers;     /* that generate used */
  int64_t peak_memory; /* bytes, of the process so far */
  bench_device_text device;
} bench_model_sample;

/* The reply to BENCH_PROFILE: one decoding step, or the program. */
typedef struct bench_model_profile {
  double seconds[TSR_OP_COUNT]; /* by operator */
  int32_t lines[TSR_OP_COUNT];
  double fused; /* of seconds: lines of other operators that did a product's work, too */
} bench_model_profile;

int bench_model_body(const void *task);

/* ------------------------------------------------------------------------------------------------------------------
 * Products of matrices (bench_products.c): y [M, N] = a [M, K] @ b, f32, through a BLAS or a device
 */
typedef struct bench_product {
  int32_t batch; /* products of that many a with as many b: one line, one round */
  int32_t m;
  int32_t n;
  int32_t k;
  int32_t plain;      /* 1: b lies as [K, N]; 0: as [N, K], the way models store weights */
  int32_t transposed; /* 1: a lies as [K, M] */
  int32_t varies;     /* 1: b may change from run to run; 0: it is constant, and a device may lay it out beforehand */
  int32_t stream;     /* 1: another b each time, so that none is in a cache when its turn comes */
} bench_product;

enum { BENCH_MOST_PRODUCTS = 32 };

typedef struct bench_product_task {
  bench_product products[BENCH_MOST_PRODUCTS];
  int32_t blas;               /* 1: cblas_sgemm of the first BLAS library that is found */
  char blas_core[BENCH_NAME]; /* kernels of OpenBLAS, by its name for a processor; "": those that it chooses */
  char device[BENCH_NAME];
  tsr_dtype precision;  /* of b on the device */
  int32_t threads;      /* 0: the default */
  int64_t stream_bytes; /* that all b of a stream take together */
} bench_product_task;

/* Requests: BENCH_PRODUCTS * what + the product's index. */
enum { BENCH_PRODUCTS = 1024, BENCH_PREPARE = 0, BENCH_MULTIPLY = 1, BENCH_RELEASE = 2 };

typedef struct bench_product_sample {
  double seconds; /* of one product; after BENCH_MULTIPLY */
  char name[128]; /* of the device or library */
} bench_product_sample;

int bench_product_body(const void *task);

/* ------------------------------------------------------------------------------------------------------------------
 * Operators (bench_op.c)
 */
enum { BENCH_EXTENTS = 4 };

typedef struct bench_op_case {
  int32_t op;          /* index, see bench_op_describe */
  tsr_dtype precision; /* of its matrix, or of keys and values; TSR_F32 where there is none */
  int32_t extent[BENCH_EXTENTS];
} bench_op_case;

typedef struct bench_op_info {
  const char *name;    /* "matmul" */
  const char *extents; /* "rows of the weights x tokens x depth" */
  int32_t n_extents;
  int32_t narrows;   /* 1: has weights, or keys and values, whose precision can be chosen */
  int32_t quantises; /* 1: which may be int8 or int4, too */
} bench_op_info;

/* Which cases are asked for (bench_op_cases.c). */
typedef struct bench_case_options {
  tsr_names ops;    /* none: all */
  tsr_names shapes; /* none: the usual ones */
  tsr_integers precisions;
  int large; /* of the usual ones, those that take long, too */
} bench_case_options;

enum { BENCH_CASES = 256 };
typedef struct bench_case_list {
  bench_op_case cases[BENCH_CASES];
  int32_t n;
} bench_case_list;

/* Fills a zeroed list. Returns an exit code. */
int bench_list_cases(const bench_case_options *options, bench_case_list *list);

/* For help: the operators, what the numbers of their shapes are, and the usual ones. */
void bench_print_operators(FILE *out);

/* index: 0 ..; NULL behind the last one. */
const bench_op_info *bench_op_describe(int32_t index);

typedef struct bench_op_task {
  bench_op_case cases[BENCH_CASES];
  char device[BENCH_NAME];  /* "": the default */
  char variant[BENCH_NAME]; /* variant of kernels to take wherever it can be had; "": as the device decides */
  int32_t threads;          /* 0: the default */
  int32_t dry;              /* 1: programs are compiled, not run */
} bench_op_task;

/* Requests: BENCH_OPS * what + the case's index; of a roofline the precision instead. */
enum {
  BENCH_OPS = 1024,
  BENCH_OP_PREPARE = 0,
  BENCH_OP_SAMPLE = 1,
  BENCH_OP_RELEASE = 2,
  BENCH_OP_LARGE_COPY = 3,   /* prepares a copy so large that its submit does not count */
  BENCH_OP_LARGE_PRODUCT = 4 /* likewise */
};

/* Seconds by the host's clock and by the device's; the latter negative where it has none. */
typedef struct bench_op_time {
  double host;
  double device;
} bench_op_time;

typedef struct bench_op_sample {
  int32_t supported; /* 0: the device lacks the operator; nothing below but `device` counts */
  bench_op_case test;
  char variant[64];      /* of the kernels that were taken; "" where there is but one */
  int32_t lines;         /* rounds of the long program */
  double flops;          /* of one round, by the table of operators */
  double bytes;          /* likewise */
  int64_t scratch;       /* bytes of device memory besides operands and result; -1: the device does not tell */
  bench_op_time single;  /* a program of one round */
  bench_op_time chained; /* one round of the long program */
  bench_device_text device;
} bench_op_sample;

int bench_op_body(const void *task);

/* ------------------------------------------------------------------------------------------------------------------
 * The program itself as a process (bench_command.c)
 */
enum { BENCH_WORDS = 32, BENCH_NUMBER = 16 };

typedef struct bench_command {
  const char *words[BENCH_WORDS]; /* borrowed; NULL at the end */
  int32_t n;
  int32_t threads;   /* 0: the default */
  const char *cache; /* folder for what the backend and the driver compile; NULL: as the environment has it */
} bench_command;

/* What one run showed; seconds from the start of the process. */
typedef struct bench_outcome {
  double whole; /* to its end */
  double first; /* to its first line */
  int64_t lines;
  int64_t peak_memory; /* bytes */
} bench_outcome;

void bench_add_words(bench_command *command, const char *option, const char *value);

/* Runs this program with the words as its arguments, the first being its name; its standard output is counted, not
 * shown. Returns its exit code. */
int bench_run(const bench_command *command, bench_outcome *result);

typedef struct bench_device_task {
  char name[BENCH_NAME];
  int32_t threads;
} bench_device_task;

int bench_describe_body(const void *task);

/* What a device is called, found out in a process of its own; NULL: the default one. */
int bench_describe_device(const char *name, int32_t threads, bench_device_text *text);

/* A new and empty folder for a while: writes its name into path. path is "" after a failure. */
int bench_make_folder(char *path, size_t size);

/* Writes the first line of a file of sentences into a new file, whose name goes into path, and counts all of them. The
 * file is there if path is not "" afterwards, on errors too. */
int bench_first_line(const char *file, char *path, size_t size, int64_t *sentences);

typedef struct bench_memory_task {
  int64_t bytes; /* read at a time */
} bench_memory_task;

/* Reads memory (memory.c). A request is the number of threads, the reply a double: the seconds, or a negative number if
 * there were no threads to be had. */
int bench_memory_body(const void *task);

/* Multiplies on a CPU's matrix units (tiles.c). A request is BENCH_TILES_KINDS * threads + kind, the reply a double:
 * operations a second, 0 where there are no such units. */
enum { BENCH_TILES_BF16, BENCH_TILES_I8, BENCH_TILES_KINDS };
int bench_tiles_body(const void *task);

#endif
