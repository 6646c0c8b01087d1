#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the package with the program: the processor time of translating the same sentences, side by side.

usage: python/speed.py BUILD [--model FOLDER] [--text FILE] [--rounds N] [--device NAME]

Each round runs the program on the text and on one line of it, whose difference is the time without start-up, and
Translator.translate, translate_iter and translate_async in this process. Of all rounds the least times are compared;
another load on the machine makes only some of them longer. Exit code 1 if Translator.translate has less than 98 % of
the program's speed."""

import argparse
import asyncio
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LEAST = 0.98


def program_seconds(command, text):
    """Processor time of the program, children of this process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run([*command, text], check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, output.splitlines()


def own_seconds(work):
    before = time.process_time()
    found = work()
    return time.process_time() - before, [str(translation) for translation in found]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--model", default=str(ROOT / "tests" / "data" / "marian-en-fr"))
    parser.add_argument("--text", default=str(ROOT / "tests" / "data" / "tatoeba" / "test.en"))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    build = pathlib.Path(options.build).resolve()
    os.environ["TESSERA_LIBRARY"] = str(build / "core" / "libtessera.so")
    sys.path.insert(0, str(ROOT / "python"))
    import tessera

    program = build / "tools" / "tessera" / "tessera"
    command = [program, "translate", "--model", options.model, "--device", options.device]
    lines = pathlib.Path(options.text).read_text(encoding="utf-8").splitlines()
    translator = tessera.Translator(options.model, options.device)

    async def all_of_them():
        return await asyncio.gather(*[translator.translate_async(line) for line in lines])

    ways = {
        "translate": lambda: translator.translate(lines),
        "translate_iter": lambda: list(translator.translate_iter(lines)),
        "translate_async": lambda: asyncio.run(all_of_them()),
    }
    times = {name: [] for name in ["program", "start", *ways]}
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as one:
        print(lines[0], file=one, flush=True)
        for _ in range(options.rounds):
            seconds, expected = program_seconds(command, options.text)
            times["program"].append(seconds)
            times["start"].append(program_seconds(command, one.name)[0])
            for name, work in ways.items():
                seconds, found = own_seconds(work)
                times[name].append(seconds)
                if found != expected:
                    sys.exit(f"{name}: another translation than the program's")
    program = min(times["program"]) - min(times["start"])
    print(f"{len(lines)} sentences, processor seconds, least of {options.rounds} rounds")
    print(f"program          {program:.3f}  ({min(times['program']):.3f} with {min(times['start']):.3f} of start-up)")
    for name in ways:
        print(f"{name:<16} {min(times[name]):.3f}  {program / min(times[name]):.1%} of the program's speed")
    return 0 if program / min(times["translate"]) >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
