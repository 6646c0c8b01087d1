/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory that ran out where no status can say so.
 */
#ifndef TESSERA_TOOLS_MEMORY_H
#define TESSERA_TOOLS_MEMORY_H

#ifdef __cplusplus
extern "C" {
#endif

/* Call it before anything else. From then on the program ends with a message and TSR_EXIT_MEMORY when C++
 * (libsentencepiece, drivers) or jansson cannot allocate: protobuf, with which libsentencepiece reads its models,
 * crashes when an exception passes through it, and jansson loses characters of a text whose buffer cannot grow. A
 * library does not do so to its caller; a program may do so to itself. */
void tsr_cli_memory_init(void);

#ifdef __cplusplus
}
#endif
#endif
