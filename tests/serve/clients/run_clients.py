#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test_clients.mjs with two servers, of which one asks for keys. Usage: run_clients.py FOLDER PROGRAM MODELS

FOLDER keeps the packages of npm that package-lock.json names, from one run to the next; MODELS is the folder of
demo-model. Exit code 77, skipped: there is no node or npm, or the packages cannot be had."""
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


def main():
    found = programs(("node", "npm"))
    install(found["npm"], HERE, FOLDER)
    made = subprocess.run([PROGRAM, "serve", "--make-key"], capture_output=True, text=True, check=True).stdout
    key, line = re.fullmatch(r"key: (\S+)\n(sha256\S+)\n", made).groups()
    with tempfile.TemporaryDirectory() as models, tempfile.NamedTemporaryFile("w") as keys:
        for name in ["en-fr", "en-zh", "en-zt"]:
            os.symlink(os.path.join(MODELS, "demo-model"), os.path.join(models, name))
        keys.write(line + "\n")
        keys.flush()
        with Server("--char-limit", "500", models=models) as free, \
             Server("--keys", keys.name, "--key-required", models=models) as locked:
            environment = {
                **os.environ, "FREE": f"http://127.0.0.1:{free.port}", "LOCKED": f"http://127.0.0.1:{locked.port}",
                "KEY": key, "PACKAGES": os.path.abspath(FOLDER),
            }
            command = [found["node"], os.path.join(HERE, "test_clients.mjs")]
            code = subprocess.run(command, env=environment, check=False).returncode
            ends = [server.end() for server in (free, locked)]
    return code or int(any(ends))


if __name__ == "__main__":
    sys.exit(main())
