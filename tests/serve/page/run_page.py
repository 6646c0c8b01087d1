#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test of the page in a browser, against the mock server. Usage: run_page.py FOLDER SCRIPT [ARGUMENT...]

FOLDER keeps the packages of npm that package-lock.json names, from one run to the next. Exit code 77, skipped: there is
no node, npm or Chromium, or the packages cannot be had."""
import fcntl
import filecmp
import os
import shutil
import subprocess
import sys

import mock

HERE = os.path.dirname(os.path.abspath(__file__))
NEEDS = {"node": ("node",), "npm": ("npm",), "Chromium": ("chromium", "chromium-browser", "google-chrome")}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def programs():
    found = {}
    for need, names in NEEDS.items():
        found[need] = next((path for path in map(shutil.which, names) if path), None)
        if not found[need]:
            skip(f"there is no {need}")
    version = subprocess.run([found["node"], "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").split(".")[0]) < 18:
        skip(f"node {version.strip()} is older than 18, which playwright-core needs")
    return found


def install(npm, folder):
    """The packages, as the lock has them; nothing is fetched if they are there."""
    os.makedirs(folder, exist_ok=True)
    # Tests that run side by side share the folder: the first one fills it.
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        install_alone(npm, folder)


def install_alone(npm, folder):
    lock = os.path.join(HERE, "package-lock.json")
    done = os.path.join(folder, "installed-lock.json")
    if os.path.exists(done) and filecmp.cmp(lock, done, shallow=False):
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, name), folder)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    if result.returncode != 0:
        skip("npm cannot install the packages: " + result.stderr.strip()[-400:])
    shutil.copy(lock, done)


def main():
    folder, script, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    found = programs()
    install(found["npm"], folder)
    server = mock.serve()
    environment = {
        **os.environ, "PAGE_URL": f"http://127.0.0.1:{server.server_port}/", "CHROMIUM": found["Chromium"],
    }
    command = [found["node"], os.path.join(HERE, script)] + arguments
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
