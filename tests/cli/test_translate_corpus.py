#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tessera translate-corpus, from outside: whatever the shards, whoever translates them and wherever they are stopped,
the translation is what `tessera translate` gives.

    test_translate_corpus.py [KILLS]    how often runs are killed; 4 without; 0: only what looks at odd files"""
import fcntl
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(os.environ["SOURCE_ROOT"])
TESSERA = os.environ["TESSERA"]
MODEL = ROOT / "tests/data/marian-en-fr"
SENTENCES = (ROOT / "tests/data/tatoeba/test.en").read_bytes().splitlines()
KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 4
SEED = int(os.environ.get("CORPUS_SEED", time.time()))
DEVICE = ["--device", "cpu"]
wrong = []
chance = random.Random(SEED)


def expect(condition, what):
    if not condition:
        wrong.append(what)
        print("FAILED:", what)


def start(*words, model=MODEL):
    return subprocess.Popen([TESSERA, "translate-corpus", "--model", str(model), *DEVICE, *map(str, words)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(code, *words, says=None, model=MODEL):
    """The program's standard output; what it has to say is looked for in both."""
    process = start(*words, model=model)
    out, err = process.communicate()
    expect(process.returncode == code, f"{words}: exit code {process.returncode}, not {code}: {err[-400:]}")
    expect(not says or says in out + err, f"{words}: does not say '{says}': {out}{err}")
    return out


def translated(out):
    """The shards that a run says it has translated, and their sentences."""
    return {int(shard): int(n) for shard, n in re.findall(r"shard (\d+) of \d+: (\d+) sentences", out)}


def plain(path, *options):
    """What `tessera translate` makes of a file."""
    return subprocess.run([TESSERA, "translate", "--model", str(MODEL), *DEVICE, *options, str(path)],
                          stdout=subprocess.PIPE, check=True).stdout


def same_scores(out, expected, what):
    """The same texts; scores may differ by rounding."""
    rows = [[line.rpartition("\t") for line in text.decode().splitlines()]
            for text in ((out / "translation.txt").read_bytes(), expected)]
    equal = len(rows[0]) == len(rows[1]) and all(
        a[2] == b[2] and a[1] == b[1] and abs(float(a[0] or 0) - float(b[0] or 0)) < 1e-4 for a, b in zip(*rows))
    expect(equal, f"{what}: other texts or scores")


def same(out, expected, what):
    result = (out / "translation.txt").read_bytes() if (out / "translation.txt").exists() else None
    expect(result == expected, f"{what}: another translation")
    left = [path.name for path in out.rglob("*.partial")]
    expect(not left, f"{what}: {left} is left")
    rest = sorted(path.name for path in out.glob("duplicates/*") if not path.name.startswith("lines-"))
    expect(not rest, f"{what}: {rest} is left")


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def write_inputs(folder):
    """Two files with all that a line may be, many of them more than once, and both in one, as they are read: what is no
    UTF-8 is U+FFFD."""
    lines = SENTENCES[:150] + [b"", b"   ", b"caf\xe9 \xff", b"tab\there", "œuvre — 日本語".encode()] + SENTENCES[100:140]
    chance.shuffle(lines)
    more = SENTENCES[120:200] + lines[:40] + [b"", lines[0], lines[0]]
    first, second, both = folder / "first.en", folder / "second.en", folder / "both.en"
    first.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines) + b"\r\n")
    second.write_bytes(b"\n".join(more))  # without an end of its last line
    lines = [line.decode("utf-8", "replace") for line in lines + more]
    both.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return first, second, both, lines


def check_shards(folder):
    first, second, both, lines = write_inputs(folder)
    expected = plain(both)
    for shards in (1, 7):
        out = folder / f"shards-{shards}"
        done = translated(run(0, "--out", out, "--shards", shards, first, second))
        same(out, expected, f"{shards} shards")
        expect(sorted(done) == list(range(shards)), f"{shards} shards: {sorted(done)} are translated")
        expect(sum(done.values()) == len(lines), f"{shards} shards: not all sentences")
        expect(max(done.values()) - min(done.values()) <= 1, f"{shards} shards: uneven: {done}")
    few = folder / "few.en"
    few.write_text("\n".join(lines[:8]) + "\n", encoding="utf-8")
    run(0, "--out", folder / "few", "--shards", 11, few)  # some are empty
    same(folder / "few", plain(few), "more shards than sentences")
    out = folder / "scores"
    run(0, "--out", out, "--shards", 3, "--scores", "--beam", 3, first, second)
    expected = plain(both, "--scores", "--beam", "3")
    same_scores(out, expected, "scores")

    # What is done is not done again: no device is opened, nothing is written.
    before = times(out)
    again = run(0, "--out", out, "--scores", "--beam", 3, "--device", "none:7", first, second, says="lines")
    expect(translated(again) == {}, "all is done, and is done again")
    expect(before == times(out), "all is done, and something is written")
    (out / "translation.txt").unlink()
    (out / "shards/00001.txt").unlink()
    expect(list(translated(run(0, "--out", out, "--scores", "--beam", 3, first, second))) == [1], "a shard is missing")
    same_scores(out, expected, "a shard was missing")


def check_duplicates(folder):
    first, second, both, lines = write_inputs(folder)
    out = folder / "distinct"
    done = translated(run(0, "--out", out, "--shards", 4, "--deduplicate", first, second))
    same(out, plain(both), "duplicates")
    distinct = list(dict.fromkeys(lines))
    found = (out / "distinct.txt").read_text(encoding="utf-8").split("\n")
    expect(found == distinct + [""], "distinct.txt: not each sentence once, in their order")
    expect(sum(done.values()) == len(distinct), f"duplicates: {sum(done.values())} of {len(distinct)} are translated")


    many = folder / "many.en"  # enough for many parts of a little memory
    many.write_text("".join(f"{lines[i * i % 61]}\n" for i in range(100000)), encoding="utf-8")
    results = set()
    for memory in (1, 1000):
        out = folder / f"memory-{memory}"
        run(0, "--out", out, "--deduplicate", "--memory", memory, many)
        results.add((out / "translation.txt").read_bytes())
        parts = len(list((out / "duplicates").iterdir()))
        expect((parts > 4) == (memory == 1), f"--memory {memory}: {parts} parts")
    table = dict(zip((out / "distinct.txt").read_text(encoding="utf-8").split("\n"),
                     b"".join(path.read_bytes() for path in sorted((out / "shards").iterdir())).split(b"\n")))
    wanted = b"".join(table[line] + b"\n" for line in many.read_text(encoding="utf-8").split("\n")[:-1])
    expect(results == {wanted}, "many parts: other translations")


def check_draws(folder):
    """Samples follow from the seed and the place of the sentence, not from the shards."""
    source = folder / "some.en"
    source.write_bytes(b"\n".join(SENTENCES[:40]) + b"\n")
    results = set()
    for shards in (1, 3, 8):
        out = folder / f"draws-{shards}"
        run(0, "--out", out, "--shards", shards, "--sample", "--seed", 7, source)
        results.add((out / "translation.txt").read_bytes())
    expect(len(results) == 1, "samples depend on the shards")
    run(0, "--out", folder / "draws", "--sample", "--seed", 8, source)
    expect((folder / "draws/translation.txt").read_bytes() not in results, "samples do not depend on the seed")


def check_forms(folder):
    """Files that are compressed or have markup; nothing at all."""
    some = SENTENCES[:30]
    text = b"\n".join(some) + b"\n"
    (folder / "some.en").write_bytes(text)
    (folder / "some.gz").write_bytes(gzip.compress(text[:500]) + gzip.compress(text[500:]))
    segments = "".join(f'<seg id="{i}">{line.decode()}</seg>\n' for i, line in enumerate(some))
    (folder / "some.sgm").write_text(f'<srcset setid="s" srclang="en"><doc docid="d">{segments}</doc></srcset>')
    expected = plain(folder / "some.en")
    for name in ("some.gz", "some.sgm"):
        for more in ([], ["--deduplicate"]):
            out = folder / (name + "-out" + "".join(more))
            run(0, "--out", out, "--shards", 4, *more, folder / name)
            same(out, expected, f"{name} {more}")
    # A sentence that looks like markup, which only its file's first could.
    tag = "&lt;?xml version=\"1.0\"?&gt; &lt;seg&gt;One.&lt;/seg&gt; &lt;seg&gt;Two.&lt;/seg&gt;"
    (folder / "tag.sgm").write_text(
        f'<srcset setid="s" srclang="en"><doc docid="d"><seg id="1">{tag}</seg><seg id="2">Hello.</seg></doc></srcset>')
    for more in ([], ["--deduplicate"]):
        run(0, "--out", folder / ("tag" + "".join(more)), *more, folder / "tag.sgm")
    same(folder / "tag--deduplicate", (folder / "tag/translation.txt").read_bytes(), "a sentence like markup")
    for name, content in (("empty", b""), ("blank", b"\n\n\n")):
        (folder / name).write_bytes(content)
        for more in ([], ["--deduplicate"]):
            out = folder / (name + "-out" + "".join(more))
            run(0, "--out", out, *more, folder / name)
            same(out, content, f"{name} {more}")


def check_parts(folder):
    """Chosen shards, one after the other and side by side; nobody does another's work."""
    first, second, both, _ = write_inputs(folder)
    expected = plain(both)
    out = folder / "chosen"
    run(0, "--out", out, "--shards", 5, "--prepare", first, second, says="to translate, in 5 shards")
    expect(list((out / "shards").iterdir()) == [], "--prepare translates")
    run(2, "--out", out, "--shard", 5, first, second, says="there is no shard 5: expected 0 to 4")
    expect(sorted(translated(run(0, "--out", out, "--shard", "3,1", first, second, says="2 of 5 shards are done"))) ==
           [1, 3], "other shards than the chosen ones")
    expect(sorted(translated(run(0, "--out", out, "--shard", 3, "--shard", 0, first, second))) == [0],
           "a shard that is there")
    expect(sorted(translated(run(0, "--out", out, first, second))) == [2, 4], "not the shards that are left")
    same(out, expected, "chosen shards")

    # A shard that is locked is left to whoever is at it.
    out = folder / "locked"
    run(0, "--out", out, "--shards", 3, "--prepare", first, second)
    with open(out / "shards/00001.txt.partial", "w", encoding="utf-8") as partial:
        fcntl.flock(partial, fcntl.LOCK_EX)
        run(0, "--out", out, "--shard", 1, first, second, says="shard 1: another process is translating it")
        expect(sorted(translated(run(0, "--out", out, first, second, says="2 of 3 shards are done"))) == [0, 2],
               "not the shards that nobody is at")
    expect(sorted(translated(run(0, "--out", out, first, second))) == [1], "what a process left locked")
    same(out, expected, "a shard that was locked")

    for more, words in (([], [["--shard", k] for k in range(6)]), (["--deduplicate"], [[], [], []])):
        out = folder / ("together" + "".join(more))
        processes = [start("--out", out, "--shards", 6, *more, *each, first, second) for each in words]
        outputs = [process.communicate() for process in processes]
        expect([process.returncode for process in processes] == [0] * len(words), f"{words}: {outputs}")
        counts = [shard for text, _ in outputs for shard in translated(text)]
        expect(sorted(counts) == list(range(6)), f"{words}: {sorted(counts)} are translated")
        same(out, expected, f"{words} side by side")


def check_kills(folder):
    """Runs that are killed at any moment."""
    source = folder / "many.en"
    source.write_bytes(b"\n".join(SENTENCES[:400] + SENTENCES[100:200]) + b"\n")
    for more in ([], ["--deduplicate"]):
        begin = time.monotonic()
        run(0, "--out", folder / ("whole" + "".join(more)), "--shards", 9, *more, source)
        took = time.monotonic() - begin
        expected = (folder / ("whole" + "".join(more)) / "translation.txt").read_bytes()
        out, n_done, n_killed = folder / ("killed" + "".join(more)), [], 0
        for _ in range(KILLS):
            process = start("--out", out, "--shards", 9, *more, source)
            try:
                process.wait(chance.uniform(0, took / 3))
            except subprocess.TimeoutExpired:
                process.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
                n_killed += 1
            process.communicate()
            n_done.append(len(list(out.glob("shards/*.txt"))))
        print(f"killed {n_killed} times; shards that were there: {n_done}")
        expect(n_done == sorted(n_done), f"shards are lost: {n_done}")
        run(0, "--out", out, "--shards", 9, *more, source)
        same(out, expected, f"killed {more}")


def row(*values):
    """A shard of a manifest."""
    return dict(zip(("file", "offset", "number", "first", "sentences", "sum"), values))


def check_errors(folder):
    source, other, out = folder / "a.en", folder / "b.en", folder / "out"
    source.write_bytes(b"\n".join(SENTENCES[:12]) + b"\n")
    other.write_bytes(b"\n".join(SENTENCES[12:24]) + b"\n")
    run(2, "--out", out, says="an input file is missing")
    run(2, source, says="--out is missing")
    run(3, "--out", out, folder / "none.en", says="none.en: No such file or directory")
    run(3, "--out", out, folder, says="expected a file")
    run(3, "--out", out, "/dev/null", says="expected a file")
    run(3, "--out", source, source, says="cannot be made a folder")
    run(3, "--out", out, source, model=folder / "none", says="none")
    run(4, "--out", out, "--device", "none:7", source, says="none")
    expect(not (out / "manifest.json").exists(), "what cannot begin leaves a manifest")
    run(0, "--out", out, "--shards", 3, "--beam", 2, "--shard", 0, source)
    for words, says in ((["--shards", 4, "--beam", 2, source], "begun with --shards 3"),
                        (["--beam", 3, source], "begun with --beam 2"),
                        ([source], "begun with --beam 2"),
                        (["--beam", 2, "--deduplicate", source], "begun without --deduplicate"),
                        (["--beam", 2, other], f"another file than {source}"),
                        (["--beam", 2, source, other], "1 input files, not 2")):
        run(2, "--out", out, *words, says=says)
    both = folder / "two"
    run(0, "--out", both, "--shards", 3, "--prepare", source, other)
    run(2, "--out", both, source, says="begun with 2 input files, not 1")
    run(2, "--out", both, "--deduplicate", source, other, says="begun without --deduplicate")
    # Without a manifest nothing is believed.
    shutil.copytree(out, folder / "old")
    (folder / "old/manifest.json").unlink()
    run(3, "--out", folder / "old", source, says="holds translations, but no manifest.json")
    (folder / "older").mkdir()
    (folder / "older/translation.txt").write_text("old")
    run(3, "--out", folder / "older", source, says="holds translations, but no manifest.json")
    # A word that changes where fingerprints do not look; and what says where sentences belong is cut off.
    large = folder / "large.en"
    text = b"".join(b"%d %s\n" % (i, SENTENCES[i % 9]) for i in range(40000))
    large.write_bytes(text)
    run(0, "--out", folder / "large", "--shards", 4000, "--shard", 0, large)
    at = len(text) // 256 * 3 - 10
    large.write_bytes(text[:at] + bytes([text[at] ^ 1 if text[at] > 64 else 65]) + text[at + 1:])
    shard = text[:at].count(b"\n") // 10
    run(3, "--out", folder / "large", "--shard", shard, large, says="large.en: has changed since")
    cut = folder / "cut"
    run(0, "--out", cut, "--deduplicate", "--shards", 2, source, source)
    for change in (lambda bytes: bytes[:160], lambda bytes: bytes[:170], lambda bytes: bytes[:120] + b"\xff" * 16,
                   lambda bytes: bytes + struct.pack("<qq", 999, 12), lambda bytes: b""):
        lines = (cut / "duplicates/lines-000").read_bytes()
        (cut / "translation.txt").unlink(missing_ok=True)
        (cut / "duplicates/lines-000").write_bytes(change(lines))
        run(3, "--out", cut, "--deduplicate", source, source, says="is not what was written there")
        expect(not (cut / "translation.txt").exists(), "a translation of other lines")
        (cut / "duplicates/lines-000").write_bytes(lines)
    run(0, "--out", cut, "--deduplicate", source, source)
    model = folder / "model"
    shutil.copytree(MODEL, model, copy_function=shutil.copyfile)
    run(0, "--out", out, "--beam", 2, "--shard", 1, source, model=model)  # the same, elsewhere
    weights = bytearray((model / "model.safetensors").read_bytes())
    for at in range(len(weights) // 2, len(weights) // 2 + 65536):
        weights[at] ^= 1
    (model / "model.safetensors").write_bytes(weights)
    run(2, "--out", out, "--beam", 2, source, model=model, says="another model, or with the model as it was before")

    # Shards that somebody changed, and manifests.
    run(0, "--out", out, "--beam", 2, source)
    shard, result = out / "shards/00001.txt", out / "translation.txt"
    lines = shard.read_bytes().splitlines(True)
    for changed in (lines[:-1], lines + [b"more\n"], []):
        shard.write_bytes(b"".join(changed))
        result.unlink(missing_ok=True)
        run(3, "--out", out, "--beam", 2, source, says="00001.txt: expected 4 lines, found another number")
        expect(not result.exists(), "shards of another size are joined")
    shard.unlink()
    manifest = (out / "manifest.json").read_text()
    root = json.loads(manifest)
    for change in ({"version": 2}, {"shards": []}, {"shards": root["shards"][:-1]}, {"sentences": "many"},
                   {"parts": None}, {"parts": -1}, {"parts": 129}, {"shards": [row(0, 0, 0, 0, -1, 0)]},
                   {"shards": root["shards"][::-1]}):
        (out / "manifest.json").write_text(json.dumps({**root, **change}))
        run(3, "--out", out, "--beam", 2, source, says="manifest.json: ")
    for text in ("", "{", manifest[:-20], "[]"):
        (out / "manifest.json").write_text(text)
        run(3, "--out", out, "--beam", 2, source, says="manifest.json: ")
    total = sum(shard["sum"] for shard in root["shards"])
    total = (total + 2**63) % 2**64 - 2**63
    for wild, code in ((row(1, 0, 0, 0, 12, total), 3), (row(9, 0, 0, 0, 12, total), 3),
                       (row(0, 5, 3, 0, 12, total), 3), (row(0, 10**12, 3, 0, 12, total), 3),
                       (row(0, 0, 0, 0, 12, total), 0), (row(0, 0, 0, 0, 12, total ^ 1), 3),
                       (row(0, 0, 0, 0, 99, total), 3)):
        result.unlink(missing_ok=True)
        shutil.rmtree(out / "shards")
        n = wild["sentences"]
        (out / "manifest.json").write_text(json.dumps({**root, "shards": [wild], "sentences": n, "distinct": n}))
        run(code, "--out", out, "--beam", 2, source)


def main():
    print(f"CORPUS_SEED={SEED}")
    checks = [check_duplicates, check_forms, check_errors]
    if KILLS > 0:
        checks += [check_shards, check_draws, check_parts, check_kills]
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            check(pathlib.Path(folder))
            print(f"{check.__name__}: {time.monotonic() - begin:.1f} s")
    print(f"{len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
