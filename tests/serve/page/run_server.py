#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test_server.mjs with `tessera serve` and the demo's model. Usage: run_server.py FOLDER

TESSERA names the program, SOURCE_ROOT the tree; FOLDER is as in run_page.py. Exit code 77, skipped: what run_page.py
needs is not there, or the program has no server, or its server has no page."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from packages import install, programs, skip

NEEDS = ("node", "npm", "Chromium")


def start(tessera, models):
    """The server, on a port that is free, and its address."""
    command = [tessera, "serve", "--models", models, "--listen", "127.0.0.1:0", "--device", "cpu"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for line in server.stderr:
        found = re.search(r"http://[\d.]+:\d+", line)
        if found:
            return server, found.group() + "/"
    server.wait()
    return server, None


def main():
    tessera = os.environ["TESSERA"]
    found = programs(NEEDS)
    if subprocess.run([tessera, "serve", "--help"], capture_output=True, check=False).returncode != 0:
        skip("the program has no server")
    install(found["npm"], HERE, sys.argv[1])
    with tempfile.TemporaryDirectory() as models:
        shutil.copytree(os.path.join(os.environ["SOURCE_ROOT"], "tools", "demo-model"), os.path.join(models, "en-fr"))
        listener = os.path.join("tests", "data", "goldens", "speech", "models", "whisper_tiny_random")
        os.symlink(os.path.join(os.environ["SOURCE_ROOT"], listener), os.path.join(models, "tiny"))
        server, address = start(tessera, models)
        try:
            if not address:
                print("the server did not start")
                return 1
            try:
                urllib.request.urlopen(address, timeout=20).close()
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    skip("the server has no page")
                raise
            environment = {**os.environ, "PAGE_URL": address, "CHROMIUM": found["Chromium"]}
            command = [found["node"], os.path.join(HERE, "test_server.mjs")]
            return subprocess.run(command, cwd=sys.argv[1], env=environment, check=False).returncode
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    sys.exit(main())
