/* SPDX-License-Identifier: Apache-2.0
 *
 * model.bin of CTranslate2: names, shapes and elements one after another, then other names for some of them.
 */
#ifndef TESSERA_CORE_CTRANSLATE2_H
#define TESSERA_CORE_CTRANSLATE2_H

#include "core/checkpoint/container.h"
#include "core/checkpoint/tensor_file.h"

/* What the metadata of a container holds (tsr_checkpoint_metadata): numbers as texts, and the specification's name. */
#define TSR_CTRANSLATE2_VERSION  "ctranslate2.version"
#define TSR_CTRANSLATE2_SPEC     "ctranslate2.spec"
#define TSR_CTRANSLATE2_REVISION "ctranslate2.revision"

/* 1 if the bytes, the first of a file, begin as a model.bin does. */
int tsr_ctranslate2_is(const unsigned char *bytes, size_t size);

/* TSR_ERR_FORMAT if what should be a model.bin does not begin as one. */
tsr_status tsr_ctranslate2_check(const char *path, const unsigned char *bytes, size_t size) TSR_MUST_CHECK;

/* Fills a zeroed container, which is to be finished after an error, too, from all of a file. A variable without axes is
 * a tensor of rank 0. An alias is a tensor of its own that lies where the other one does, and so is the alias' scale
 * ("x/weight_scale"). Errors: as tsr_container_parse. */
tsr_status tsr_ctranslate2_parse(const tsr_tensor_file *file, tsr_container *container) TSR_MUST_CHECK;

#endif
