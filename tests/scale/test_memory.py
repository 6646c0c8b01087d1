#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_memory.py LINES: what `tessera translate-corpus` keeps of a corpus does not grow with it. A tenth of the lines,
and all of them, take the same memory, and each line gets its own translation."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ["SOURCE_ROOT"])
TESSERA = os.environ["TESSERA"]
MODEL = ROOT / "tests/data/marian-en-fr"
SENTENCES = (ROOT / "tests/data/tatoeba/test.en").read_text(encoding="utf-8").splitlines()[:100]
LINES = int(sys.argv[1])
MORE = 6  # MiB that a run may take more than another one: threads take their memory in another order
wrong = []


def expect(condition, what):
    if not condition:
        wrong.append(what)
        print("FAILED:", what)


def run(out, *words):
    """The most memory that a run had, in MiB."""
    process = subprocess.Popen([TESSERA, "translate-corpus", "--model", str(MODEL), "--device", "cpu", "--workers", "1",
                                "--out", str(out), *map(str, words)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    expect(process.returncode == 0, f"{words}: exit code {process.returncode}")
    return usage.ru_maxrss / 1024


def write(path, n, line_of):
    with open(path, "w", encoding="utf-8") as file:
        for begin in range(0, n, 10000):
            file.write("".join(line_of(i) + "\n" for i in range(begin, min(n, begin + 10000))))
    return path


def check_translations(out, corpus):
    """Each line of the result is that of its sentence."""
    shards = sorted((out / "shards").iterdir())
    made = [line for shard in shards for line in shard.read_text(encoding="utf-8").split("\n")[:-1]]
    texts = (out / "distinct.txt").read_text(encoding="utf-8").split("\n")[:-1]
    table = dict(zip(texts, made))
    expect(len(table) == len(made) == len(texts), "distinct.txt is not what the shards are made of")
    n = 0
    with open(corpus, encoding="utf-8") as sources, open(out / "translation.txt", encoding="utf-8") as results:
        for n, (source, result) in enumerate(zip(sources, results, strict=True), 1):
            if table[source[:-1]] != result[:-1]:
                expect(False, f"line {n} has another translation")
                break
    expect(n == LINES, f"{n} lines, not {LINES}")


def check_places(folder):
    """Shards begin where the manifest says, also where not every line's place is kept."""
    corpus = write(folder / "corpus", LINES, lambda i: f"{i} {SENTENCES[i % 100]}")
    run(folder / "places", "--prepare", "--shards", 77, corpus)
    shards = json.loads((folder / "places/manifest.json").read_text(encoding="utf-8"))["shards"]
    next_line = 0
    with open(corpus, "rb") as file:
        for shard in shards:
            file.seek(shard["offset"])
            found = file.readline().split(b" ")[0]
            expect(shard["first"] == shard["number"] == next_line == int(found), f"line {found}: {shard}")
            next_line += shard["sentences"]
    expect(next_line == LINES, f"shards of {next_line} lines")
    sizes = [shard["sentences"] for shard in shards]
    expect(max(sizes) - min(sizes) <= 1 + LINES // 100000, f"uneven shards: {min(sizes)} to {max(sizes)}")


def main():
    chance = random.Random(1)
    kinds = {"blank": lambda i: "", "few": lambda i: chance.choice(SENTENCES)}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for kind, line_of in kinds.items():
            more = ["--deduplicate"] if kind == "few" else []
            peaks = []
            for n in (LINES // 10, LINES):
                corpus = write(folder / "corpus", n, line_of)
                out = folder / f"{kind}-{n}"
                peaks.append(run(out, "--shards", 4, *more, corpus))
            print(f"{kind}: {LINES // 10:,} lines {peaks[0]:.1f} MiB, {LINES:,} lines {peaks[1]:.1f} MiB")
            expect(peaks[1] < peaks[0] + MORE, f"{kind}: memory grows from {peaks[0]:.1f} to {peaks[1]:.1f} MiB")
            if kind == "few":
                check_translations(out, corpus)
        check_places(folder)
        # All of them distinct: the parts on disk are what fits.
        corpus = write(folder / "corpus", LINES, lambda i: f"{i * 7919} {SENTENCES[i % 100]}")
        peak = run(folder / "distinct", "--deduplicate", "--prepare", corpus)
        megabytes = corpus.stat().st_size >> 20
        print(f"distinct: {LINES:,} lines, {megabytes} MiB of text: {peak:.1f} MiB")
        expect(peak < 300, f"distinct: {peak:.1f} MiB")
        with open(folder / "distinct/distinct.txt", "rb") as found, open(corpus, "rb") as whole:
            equal = all(a == b for a, b in zip(found, whole, strict=True))
        expect(equal, "distinct sentences are not all that there are")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
