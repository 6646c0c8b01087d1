/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/detect.h"

#include <cstdio>

#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>

extern "C" int detect_language(const char *text, size_t size, detected found[DETECT_MOST])
{
  CLD2::Language languages[DETECT_MOST];
  int percents[DETECT_MOST], text_bytes = 0, n = 0;
  double scores[DETECT_MOST];
  bool is_reliable = false;
  /* What follows the first thousands of characters changes little, and costs time. */
  const size_t most = 16384;
  size_t used = size < most ? size : most;
  while (used < size && used > 0 && (static_cast<unsigned char>(text[used]) & 0xc0) == 0x80) {
    used--;
  }
  const CLD2::CLDHints hints = {nullptr, nullptr, CLD2::UNKNOWN_ENCODING, CLD2::UNKNOWN_LANGUAGE};
  CLD2::ExtDetectLanguageSummary(text, static_cast<int>(used), true, &hints, CLD2::kCLDFlagBestEffort, languages,
                                 percents, scores, nullptr, &text_bytes, &is_reliable);
  for (int i = 0; i < DETECT_MOST; i++) {
    if (languages[i] == CLD2::UNKNOWN_LANGUAGE || percents[i] <= 0 ||
        !language_code(CLD2::LanguageCode(languages[i]), found[n].code)) {
      continue;
    }
    /* Of a guess that may be wrong, half. */
    found[n].confidence = is_reliable ? percents[i] : percents[i] / 2.0;
    n++;
  }
  return n;
}
