# SPDX-License-Identifier: Apache-2.0
"""Texts of many tasks share batches: many_at_once.py MODEL TEXT..."""

import asyncio
import sys

import tessera


async def main() -> None:
    model, *texts = sys.argv[1:]
    with tessera.Translator(model, device=None) as translator:
        found = await asyncio.gather(*[translator.translate_async(text, beam=4) for text in texts])
    for translation in found:
        print(f"{translation.score:.3f} {translation}")


if __name__ == "__main__":
    asyncio.run(main())
