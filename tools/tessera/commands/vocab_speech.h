/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer of a model of speech, learnt from texts: byte-level BPE (Sennrich et al. 2016, arXiv:1508.07909; of
 * bytes as GPT-2 has it), and Whisper's special tokens.
 */
#ifndef TESSERA_TOOLS_VOCAB_SPEECH_H
#define TESSERA_TOOLS_VOCAB_SPEECH_H

#include "tessera/corpus.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/options/options.h"

enum { VOCAB_BYTES = 256 };

/* Reads the texts, the pairs' targets, and makes what merges.txt, vocab.json and tokenizer_config.json hold, of at most
 * `size` tokens of text, VOCAB_BYTES of them bytes. languages: their codes, in the order of their ids. *merges is to be
 * freed, the objects to be released, after an error too. Returns an exit code. */
int vocab_speech_make(const tsr_corpus_files *files, int32_t size, const tsr_names *languages, char **merges,
                      json_t **vocabulary, json_t **config, int64_t *sentences);

#endif
