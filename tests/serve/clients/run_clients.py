#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test_clients.mjs and test_openai.mjs with two servers, of which one asks for keys. Usage:
run_clients.py FOLDER PROGRAM MODELS

FOLDER keeps the packages of npm that package-lock.json names, from one run to the next; MODELS is the folder of
demo-model. Exit code 77, skipped: there is no node or npm, or the packages cannot be had."""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER, PROGRAM, MODELS = sys.argv[1:]
# What test_serve.py is started with, too: its server is taken from there.
sys.argv = [sys.argv[0], PROGRAM, MODELS]
sys.path.insert(0, os.path.dirname(HERE))
from packages import install, programs
from test_serve import Server


SPEECH = os.path.join(os.path.dirname(os.path.dirname(HERE)), "data", "goldens", "speech")
LISTENER, SOUNDS = os.path.join(SPEECH, "models", "whisper_tiny_random"), os.path.join(SPEECH, "features")


def transcribe(name, *options):
    """What the program says of a recording."""
    command = [PROGRAM, "transcribe", os.path.join(SOUNDS, f"{name}.wav"), "--model", LISTENER, "--device", "cpu",
               *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def write_heard(file):
    as_json = ("--output", "json", "--words")
    heard = {name: json.loads(transcribe(name, *as_json)) for name in ["fox", "count"]}
    heard["prompted"] = json.loads(transcribe("fox", *as_json, "--language", "fr", "--prompt", "A word"))
    heard["translated"] = json.loads(transcribe("fox", *as_json, "--task", "translate"))
    heard.update({form: transcribe("fox", "--output", form) for form in ["srt", "vtt"]})
    json.dump(heard, file)
    file.flush()


def main():
    found = programs(("node", "npm"))
    install(found["npm"], HERE, FOLDER)
    made = subprocess.run([PROGRAM, "serve", "--make-key"], capture_output=True, text=True, check=True).stdout
    key, line = re.fullmatch(r"key: (\S+)\n(sha256\S+)\n", made).groups()
    with tempfile.TemporaryDirectory() as models, tempfile.NamedTemporaryFile("w") as keys, \
         tempfile.NamedTemporaryFile("w") as heard:
        write_heard(heard)
        for name in ["en-fr", "en-zh", "en-zt"]:
            os.symlink(os.path.join(MODELS, "demo-model"), os.path.join(models, name))
        os.symlink(LISTENER, os.path.join(models, "tiny"))
        keys.write(line + "\n")
        keys.flush()
        with Server("--char-limit", "500", models=models) as free, \
             Server("--keys", keys.name, "--key-required", models=models) as locked:
            environment = {
                **os.environ, "FREE": f"http://127.0.0.1:{free.port}", "LOCKED": f"http://127.0.0.1:{locked.port}",
                "KEY": key, "PACKAGES": os.path.abspath(FOLDER), "SOUNDS": SOUNDS, "HEARD": heard.name,
            }
            codes = [subprocess.run([found["node"], os.path.join(HERE, test)], env=environment, check=False).returncode
                     for test in ["test_clients.mjs", "test_openai.mjs"]]
            ends = [server.end() for server in (free, locked)]
    return int(any(codes) or any(ends))


if __name__ == "__main__":
    sys.exit(main())
