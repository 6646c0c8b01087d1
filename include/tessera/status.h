/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/status.h: how errors travel, and the log.
 *
 * A function that can fail returns a tsr_status: TSR_OK, or one of the TSR_ERR_ codes of tessera/backend.h. With an
 * error comes a message for the user (which file, which tensor, what was expected, what was found), kept per thread.
 */
#ifndef TESSERA_STATUS_H
#define TESSERA_STATUS_H

#include "tessera/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#if !defined(_WIN32)
#define TSR_API __attribute__((visibility("default")))
#elif defined(TSR_BUILDS_LIBRARY)
#define TSR_API __declspec(dllexport)
#else
#define TSR_API
#endif

#if defined(__GNUC__)
#define TSR_MUST_CHECK __attribute__((warn_unused_result))
#else
#define TSR_MUST_CHECK
#endif

typedef int32_t tsr_status;

/* Structs that grow. A struct that begins with `uint32_t struct_size` gets new fields at its end as the library grows,
 * and never loses or moves one. struct_size says how much of the struct the caller was compiled with; TSR_SIZED sets
 * it:
 *
 *     tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .strict = 1};
 *
 * In C++, which may have no designated initialisers: `tsr_compile_options options = {}; options.struct_size = sizeof
 * options;`. So one program runs with every later version of the library:
 *   - the caller fills it (options): a field that the caller does not know counts as 0, which means what the library
 *     did before it had the field. A caller that is newer than the library may leave the fields that the library does
 *     not know 0; one that is set is refused (TSR_ERR_ARGUMENT), as is a struct_size that the struct never had, such as
 *     0.
 *   - the library fills it (only tsr_generate_options): the caller sets struct_size before the call, and the library
 *     writes nothing beyond it; fields that the library does not know become 0.
 *
 * Infos and statistics, which the library fills whole, grow likewise without struct_size: each is asked for with a
 * function whose last argument is the size that the caller knows (tsr_NAME_sized), which the function of the plain name
 * hands over. Structs that the library owns and the caller only reads through a pointer grow, too. All others (elements
 * of arrays, results that tsr_NAME_finish frees, the trainer's) keep their size: what comes later gets a function of
 * its own. */
#define TSR_SIZED(type) .struct_size = (uint32_t)sizeof(type)

/* Pins the last field of such a struct, so that none can be inserted before it, and none hidden in padding behind it: a
 * field of 4 bytes that would leave 4 more at the end of a struct with pointers is followed by an int32_t
 * `reserved`. */
#define TSR_SIZED_PIN(type, field, at)                                                                                 \
  TSR_ABI_PIN(type, field, at);                                                                                        \
  TSR_ABI_ASSERT((at) + sizeof(((type *)0)->field) == sizeof(type), #type " ends with padding")

/* The code's name, such as "TSR_ERR_SHAPE"; "TSR_ERR_?" for an unknown number. Never NULL, static. Any thread. */
TSR_API const char *tsr_status_name(tsr_status status);

/* The message of the calling thread's last error; "" if there was none. Valid until the thread's next error. */
TSR_API const char *tsr_error_message(void);

/* The number, in its call, of the sentence that the calling thread's last error is about; -1: of none. *message, which
 * may be NULL, receives the message without the words that name the sentence, for a caller that names the sentence
 * itself (a file and a line); it is valid as long as the message is. */
TSR_API int64_t tsr_error_sentence(const char **message);

/* Sets the calling thread's message and returns `status`: for `return tsr_fail(TSR_ERR_IO, "%s: ...", path);`. */
TSR_API tsr_status tsr_fail(tsr_status status, const char *format, ...) TSR_PRINTF(2, 3);

/* Puts "context: " before the calling thread's message and returns `status` unchanged; TSR_OK passes through. */
TSR_API tsr_status tsr_fail_context(tsr_status status, const char *format, ...) TSR_PRINTF(2, 3);

/* Receives log lines (no newline). `level` is TSR_LOG_*. Called from any thread, one call at a time. */
typedef void (*tsr_log_fn)(void *user, int32_t level, const char *message);

/* Replaces the log's receiver; NULL restores the default, which prints warnings (with TESSERA_LOG=info or debug: more)
 * to stderr. Not thread-safe: call it before anything else. */
TSR_API void tsr_log_set(tsr_log_fn receiver, void *user);

/* Checks that TESSERA_LOG, which the default receiver reads, is a level's name, if it is set. A log cannot fail: it
 * takes any other text for `warning`. So a program checks once, at its beginning; tsr_runtime_create checks, too. Any
 * thread. Errors: TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_log_check(void);

/* Thread-safe. */
TSR_API void tsr_log(int32_t level, const char *format, ...) TSR_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
