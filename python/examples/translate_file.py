# SPDX-License-Identifier: Apache-2.0
"""Translates a file of sentences, one a line, in bounded memory: translate_file.py MODEL INPUT OUTPUT"""

import sys

import tessera


def main() -> None:
    model, source, target = sys.argv[1:]
    with tessera.Translator(model, device=None) as translator, open(source, encoding="utf-8") as lines, open(
        target, "w", encoding="utf-8"
    ) as output:
        for translation in translator.translate_iter(line.rstrip("\n") for line in lines):
            print(translation, file=output)


if __name__ == "__main__":
    main()
