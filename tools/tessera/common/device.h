/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices, and ranks that have one each. Functions that return int return one of the exit codes (message.h), after they
 * printed the reason.
 */
#ifndef TESSERA_TOOLS_DEVICE_H
#define TESSERA_TOOLS_DEVICE_H

#include "tessera/comm.h"
#include "tessera/runtime.h"

/* The runtime with the backends that were found: those of TESSERA_BACKEND_PATH and of the install directory; a program
 * that runs from its build directory finds those built beside it. */
int tsr_cli_runtime(tsr_runtime **runtime);

/* Joins the other ranks of the program by a transport, which is looked for where backends are. */
int tsr_cli_comm(const char *name, tsr_comm **comm);

/* Folders where plugins of sound are looked for (tsr_audio_options.plugins_path), as for backends; NULL: the library's
 * own. Static. */
const char *tsr_cli_audio_path(void);

/* Opens a device by name; NULL: TESSERA_DEVICE, else "auto". */
int tsr_cli_device(tsr_runtime *runtime, const char *name, tsr_device **device);

/* Opens the devices of these names, [n], into `devices`, [n] and at least one; with no name the default one. *n_opened
 * are to be closed, also after an error. */
int tsr_cli_devices(tsr_runtime *runtime, const char *const *names, int32_t n, tsr_device **devices, int32_t *n_opened);
void tsr_cli_devices_close(tsr_device *const *devices, int32_t n);

/* For a command that takes several devices only to split a model over them: n names are given. Returns an exit code. */
int tsr_cli_check_split(const char *command, int32_t n, int split);

/* "discrete GPU" and so on for TSR_DEVICE_*. Static. */
const char *tsr_cli_device_type(int32_t type);

/* Whether that is a processor of its own: with clocks, compilers and memory that are not the CPU's. */
int tsr_cli_is_gpu(int32_t type);

#endif
