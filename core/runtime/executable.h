/* SPDX-License-Identifier: Apache-2.0
 *
 * An executable: the lines of a program in segments, each compiled by the backend of one device.
 *
 * The first sides are the devices asked for: one, or those that the program is split over. One more is the fallback
 * device, if some lines run there. Every storage has a home, the side where the caller reads and writes it, and bytes
 * on each side whose lines touch it. Which of them are current at which line is known when the executable is made, and
 * so are the copies that a run needs.
 */
#ifndef TESSERA_CORE_RUNTIME_EXECUTABLE_H
#define TESSERA_CORE_RUNTIME_EXECUTABLE_H

#include "core/runtime/internal.h"

enum { TSR_MAX_SIDES = 32 /* bits in a set of sides */ };

/* What one device contributes. */
typedef struct tsr_side {
  tsr_device *device;
  tsr_backend_buffer **buffers; /* [n_buffers], as compile takes them */
  int32_t n_buffers;
  tsr_buffer **owned; /* [n_owned], those of `buffers` that belong to the executable */
  int32_t n_owned;
  tsr_storage_desc *storages; /* [n_storages], placed; size 0 where this side has no bytes of it */
} tsr_side;

/* Consecutive lines on one device. */
typedef struct tsr_segment {
  int32_t side;
  int32_t first_line, n_lines;
  int32_t first_copy, n_copies; /* of executable.copies, made before the lines run */
  tsr_backend_executable *handle;
} tsr_segment;

/* A storage's bytes from one side to another. */
typedef struct tsr_copy_step {
  int32_t storage;
  int32_t from; /* side, likewise the next */
  int32_t to;
} tsr_copy_step;

/* A buffer of the caller's, and what is done with it. */
typedef struct tsr_use {
  tsr_buffer *buffer;
  int32_t is_written; /* 0: only read */
} tsr_use;

/* What a call of slots uses: on the devices of an executable, or on one device. */
typedef struct tsr_claim {
  tsr_executable *executable; /* or NULL */
  tsr_device *device;         /* without an executable */
  const tsr_use *uses;        /* [n_uses] buffers of these devices */
  int32_t n_uses;
  int32_t only_reads; /* 1: whatever uses[].is_written says */
} tsr_claim;

/* tsr_spot.flags */
enum {
  TSR_BOUND = 1 << 0,      /* in the caller's buffer: its bytes may change between runs unseen */
  TSR_WRITE_ALL = 1 << 1,  /* a run takes all sides that have it to be current at its start */
  TSR_UNREADABLE = 1 << 2, /* a temporary without keep_all, whatever a backend takes it for: its bytes are shared */
  TSR_CROSSES = 1 << 3     /* lines of several segments touch it */
};

/* What is known of a storage's place. */
typedef struct tsr_spot {
  uint32_t sides; /* bits of those whose lines touch it */
  uint8_t home;   /* side where the caller's bytes are */
  uint8_t last;   /* side whose bytes are current after a run */
  uint8_t flags;
} tsr_spot;

struct tsr_executable {
  tsr_side *sides;   /* [n_sides] */
  int32_t n_devices; /* sides before the fallback device */
  int32_t n_sides;
  int32_t n_storages, n_tensors, n_lines;
  int32_t *tensor_storage; /* [n_tensors] */
  tsr_spot *spots;         /* [n_storages] */
  uint8_t *line_side;      /* [n_lines] */
  tsr_segment *segments;
  int32_t n_segments;
  tsr_copy_step *copies; /* [n_copies]; those from first_final on are made after the last segment */
  int32_t n_copies, first_final;
  char *bounce; /* [bounce_size] bytes on the host, for copies between the sides */
  int64_t bounce_size;
  tsr_use *uses; /* [n_uses]: the buffers that it is bound to, each once, as a run uses them */
  int32_t n_uses;
  int32_t keep_all, profile;
  int32_t has_run;
  int32_t is_claimed; /* on a concurrent device: by a call */
  int32_t is_in_flight;
  tsr_status run_status;          /* of the last run that was waited for */
  tsr_executable *next_in_flight; /* in sides[0].device */
  tsr_executable *parts;          /* [n_parts]; NULL: it is not cut */
  int32_t n_parts;
  tsr_executable *whole; /* of a part, which borrows all but buffers and uses from it; else NULL */
  int32_t first_line;    /* of a part */
  tsr_executable_info info;
};

/* claim.c */

/* Waits until nobody else uses what the claim names in a way that conflicts; a run in flight that does is waited for,
 * and its error returned (nothing is claimed then). Slots may be called until tsr_claim_give. */
tsr_status tsr_claim_take(const tsr_claim *claim) TSR_MUST_CHECK;
void tsr_claim_give(const tsr_claim *claim);

/* Instead of tsr_claim_give after a run was started: what it uses stays claimed until somebody waits for it. */
void tsr_claim_leave_in_flight(const tsr_claim *claim);

/* Fills executable->uses from the bindings; those that are not valid are passed over. Wants tensor_storage. */
tsr_status tsr_executable_find_uses(tsr_executable *executable, const tsr_program_desc *description,
                                    const tsr_compile_options *options);

int tsr_executable_uses(const tsr_executable *executable, const tsr_backend_buffer *buffer);

/* Waits for its run in flight, if there is one. The device's lock is held, and given up meanwhile if the device is
 * concurrent. */
tsr_status tsr_executable_settle(tsr_executable *executable);

/* split.c: the side of one of the devices asked for, or -1; fills line_side with them, by the buffers that tensors are
 * bound to. */
int32_t tsr_executable_side_of(const tsr_executable *executable, const tsr_device *device);
tsr_status tsr_executable_split(tsr_executable *executable, const tsr_program_desc *description,
                                const tsr_compile_options *options);

/* parts.c: makes the parts that the options ask for, with their lines. Errors: TSR_ERR_ARGUMENT. */
tsr_status tsr_executable_cut(tsr_executable *executable, const tsr_compile_options *options) TSR_MUST_CHECK;

/* parts.c: the part that begins with this line, or NULL. */
tsr_executable *tsr_executable_part_at(const tsr_executable *executable, int32_t line);

/* parts.c: gives the parts what a run needs. Wants segments, the placement and the uses of the whole. */
tsr_status tsr_executable_fill_parts(tsr_executable *executable, const tsr_program_desc *description) TSR_MUST_CHECK;

/* parts.c: waits for the parts in flight, and frees them. */
void tsr_executable_wait_for_parts(tsr_executable *executable);
void tsr_executable_free_parts(tsr_executable *executable);

/* schedule.c: a segment as a program of its own. storages: [n_storages], those of its side. */
tsr_program_desc tsr_segment_describe(const tsr_segment *segment, const tsr_program_desc *description,
                                      const tsr_storage_desc *storages);

/* fusion.c, within a claim: *operands_until of a plan, the caller's to free; NULL if no backend fuses lines. Wants
 * segments and sides[].storages' kinds. */
tsr_status tsr_executable_ask_fusion(tsr_executable *executable, const tsr_program_desc *description,
                                     int32_t **operands_until);

/* placement.c: gives every storage its bytes on the sides that need them, and fills sides[].storages, buffers and
 * owned, homes, flags BOUND and UNREADABLE. Wants tensor_storage, spots[].sides. Errors name the tensor. */
tsr_status tsr_executable_place(tsr_executable *executable, const tsr_program *program,
                                const tsr_compile_options *options);

/* schedule.c: from line_side to segments; spots[].sides, flags CROSSES. */
tsr_status tsr_executable_segment(tsr_executable *executable, const tsr_program_desc *description);

/* schedule.c: from segments to copies; spots[].last, flags WRITE_ALL. Wants homes and flags BOUND. */
tsr_status tsr_executable_schedule(tsr_executable *executable, const tsr_program_desc *description);

#endif
