/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings of a model of speech.
 */
#ifndef TESSERA_TOOLS_GOLDEN_SPEECH_H
#define TESSERA_TOOLS_GOLDEN_SPEECH_H

#include "tools/tessera/golden/fixture.h"
#include "tools/tessera/golden/report.h"

/* Replays them. outcome->searches is allocated, after an error, too. */
tsr_status golden_speech(const golden_request *r, tsr_transformer *transformer, const golden_fixture *f,
                         golden_outcome *outcome) TSR_MUST_CHECK;

#endif
