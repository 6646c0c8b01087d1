#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man pages and completions: each command has a page, which man renders without a warning and which tells of every
option; and real shells complete commands, options, choices, devices and folders. A shell that is not here is passed
over, and told. MANUAL is the folder where they were made."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

MANUAL, ROOT, TESSERA = os.environ["MANUAL"], os.environ["SOURCE_ROOT"], os.environ["TESSERA"]
# A command line, what it is completed to, and what is not among that.
LINES = [("tessera tr", {"translate", "train", "trace"}, {"eval"}),
         ("tessera translate --be", {"--beam", "--begin-suppress"}, {"--batch"}),
         ("tessera translate --precision ", {"f32", "f16", "bf16", "int8"}, set()),
         ("tessera translate --long-input s", {"split"}, {"cut"}),
         ("tessera translate --device ref", {"reference:0"}, {"auto"}),
         ("tessera translate --model too", {"tools"}, {"tests"}),
         ("tessera bench o", {"ops"}, {"load"}),
         ("tessera bench ops --dev", {"--device"}, {"--model"}),
         ("tessera convert --out too", {"tools"}, {"tests"}),
         ("tessera help tr", {"translate", "train", "trace"}, {"eval"}),
         ("tessera info tools/de", {"tools/demo-model"}, {"tools/lab"})]
ZSH_LINES = {"tessera translate --long-input s": "tessera translate --long-input split",
             "tessera transl": "tessera translate", "tessera bench op": "tessera bench ops",
             "tessera translate --coverage-p": "tessera translate --coverage-penalty",
             "tessera info tools/demo-m": "tessera info tools/demo-model"}
failures = []
n_checks = 0


def check(what, is_good, *details):
    global n_checks
    n_checks += 1
    if not is_good:
        failures.append(what)
        print("FAILED:", what, *details)


def walk(commands, path=("tessera",)):
    for command in commands:
        words = (*path, command["name"])
        yield words, command
        yield from walk(command.get("commands", []), words)


def environment(folder):
    result = dict(os.environ)
    os.symlink(TESSERA, os.path.join(folder, "tessera"))
    result["PATH"] = folder + ":" + result["PATH"]
    result["TESSERA_BACKEND_PATH"] = os.path.join(os.environ["BUILD_ROOT"], "backends", "reference")
    return result


def output(command, variables):
    return subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", check=False, timeout=60)


def test_pages(told, variables):
    expected = {"tessera.1"} | {"-".join(words) + ".1" for words, _ in walk(told["commands"])}
    found = {name for name in os.listdir(MANUAL) if name.endswith(".1")}
    check("the pages are not those of the commands", found == expected, sorted(found ^ expected))
    if not shutil.which("man"):
        print("man is not here")
        return
    for words, command in [(("tessera",), {}), *walk(told["commands"])]:
        page = os.path.join(MANUAL, "-".join(words) + ".1")
        done = output(["man", "--warnings=w", "-l", page], {**variables, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
        check(f"{page}: man", done.returncode == 0 and not done.stderr, done.stderr)
        text = " ".join(done.stdout.replace("‐\n", "").split())
        for option in command.get("options", []):
            check(f"{page}: --{option['name']}", f"--{option['name']} " in text + " ")


def bash(line, variables):
    script = ('source "$1"; line=$2; COMP_WORDS=($2); case $line in *" ") COMP_WORDS+=("") ;; esac; '
              'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tessera; printf "%s\\n" "${COMPREPLY[@]}"')
    return output(["bash", "-c", script, "bash", os.path.join(MANUAL, "tessera"), line], variables)


def fish(line, variables):
    script = 'source $argv[1]; complete -C $argv[2]'
    return output(["fish", "--no-config", "-c", script, os.path.join(MANUAL, "tessera.fish"), line], variables)


def test_shell(name, complete, variables):
    if not shutil.which(name):
        print(f"{name} is not here")
        return
    for line, wanted, unwanted in LINES:
        done = complete(line, variables)
        found = {row.split("\t")[0].rstrip("/") for row in done.stdout.split("\n") if row}
        check(f"{name}: '{line}'", wanted <= found and not unwanted & found and not done.stderr, found, done.stderr)


def read_until(terminal, wanted, seconds=60):
    text, end = "", time.monotonic() + seconds
    while wanted not in text and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            text += os.read(terminal, 4096).decode(errors="replace")
    return text


def test_zsh(variables):
    """In a terminal: zsh completes nowhere else."""
    if not shutil.which("zsh"):
        print("zsh is not here")
        return
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(ROOT)
        os.execvpe("zsh", ["zsh", "-f"], {**variables, "TERM": "dumb", "PS1": "", "LC_ALL": "C.UTF-8"})
    setup = [f"fpath=({MANUAL} $fpath)", "autoload -U compinit", "compinit -u -D",
             "bindkey '^I' complete-word", "echo rea''dy\n"]
    os.write(terminal, "; ".join(setup).encode())
    check("zsh does not start", "ready" in read_until(terminal, "ready"))
    for line, wanted in ZSH_LINES.items():
        # The line is completed, a word is put behind it, and echo shows what became of it.
        os.write(terminal, b"\x15")
        os.write(terminal, line.encode() + b"\t\x01print -r -- '<\x05>'\n")
        text = read_until(terminal, f"<{wanted}")
        check(f"zsh: '{line}'", f"<{wanted}" in text, text[-300:])
    os.close(terminal)
    os.kill(process, 9)
    os.waitpid(process, 0)


def main():
    told = json.loads(subprocess.run([TESSERA, "help", "--json"], capture_output=True, check=True).stdout)
    with tempfile.TemporaryDirectory() as folder:
        variables = environment(folder)
        test_pages(told, variables)
        test_shell("bash", bash, variables)
        test_shell("fish", fish, variables)
        test_zsh(variables)
    print(f"{n_checks} checks, {len(failures)} failed")
    expected = 300 if shutil.which("man") else 10  # of options on pages; of lines that bash completes
    return 1 if failures or n_checks < expected else 0


if __name__ == "__main__":
    sys.exit(main())
