/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls into the SentencePiece library: what it throws or reports becomes a status whose message begins with `name`.
 */
#ifndef TESSERA_CORE_GUARDED_HH
#define TESSERA_CORE_GUARDED_HH

#include <sentencepiece_processor.h>

#include <exception>
#include <new>

#include "tessera/status.h"

/* Runs `body`, which returns a tsr_status. */
template <typename Body> tsr_status tsr_sentencepiece_guarded(const char *name, Body body)
{
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "%s: out of host memory", name);
  } catch (const std::exception &error) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: SentencePiece: %s", name, error.what());
  } catch (...) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: SentencePiece failed without a message", name);
  }
}

inline tsr_status tsr_sentencepiece_status(const char *name, const sentencepiece::util::Status &status)
{
  return status.ok() ? TSR_OK : tsr_fail(TSR_ERR_FORMAT, "%s: SentencePiece: %s", name, status.ToString().c_str());
}

#endif
