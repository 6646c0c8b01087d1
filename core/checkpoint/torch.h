/* SPDX-License-Identifier: Apache-2.0
 *
 * A state dict that torch.save of version 1.6 or newer wrote: a zip file with a pickle and the storages of tensors.
 */
#ifndef TESSERA_CORE_TORCH_H
#define TESSERA_CORE_TORCH_H

#include "core/checkpoint/container.h"
#include "core/checkpoint/zip.h"

/* Fills a zeroed container, which is to be finished after an error, too. Tensors have addresses of the zip file's
 * source, which is not forgotten before. Errors: as tsr_container_parse. */
tsr_status tsr_torch_parse(const tsr_zip *zip, tsr_container *container) TSR_MUST_CHECK;

#endif
