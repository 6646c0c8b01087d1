# SPDX-License-Identifier: Apache-2.0
"""A program of CTranslate2's with another import: ctranslate2_tokens.py MODEL TOKEN..."""

import sys

from tessera import ctranslate2


def main() -> None:
    model, *tokens = sys.argv[1:]
    translator = ctranslate2.Translator(model, device="cpu")
    for result in translator.translate_batch([tokens], beam_size=4, num_hypotheses=2, return_scores=True):
        for hypothesis, score in zip(result.hypotheses, result.scores):
            print(f"{score:.3f}", *hypothesis)


if __name__ == "__main__":
    main()
