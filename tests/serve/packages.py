# SPDX-License-Identifier: Apache-2.0
"""Programs that tests need, and packages of npm. Exit code 77, skipped: one of them cannot be had."""
import fcntl
import filecmp
import os
import shutil
import subprocess
import sys

NAMES = {"Chromium": ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def programs(needs):
    """Where each of the programs is."""
    found = {}
    for need in needs:
        found[need] = next((path for path in map(shutil.which, NAMES.get(need, (need,))) if path), None)
        if not found[need]:
            skip(f"there is no {need}")
    version = subprocess.run([found["node"], "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").split(".")[0]) < 18:
        skip(f"node {version.strip()} is older than 18, which the packages need")
    return found


def install(npm, lists, folder):
    """The packages into the folder, as package-lock.json in `lists` has them; nothing is fetched if they are there."""
    os.makedirs(folder, exist_ok=True)
    # Tests that run side by side share the folder: the first one fills it.
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        install_alone(npm, lists, folder)


def install_alone(npm, lists, folder):
    lock = os.path.join(lists, "package-lock.json")
    done = os.path.join(folder, "installed-lock.json")
    if os.path.exists(done) and filecmp.cmp(lock, done, shallow=False):
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(lists, name), folder)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    if result.returncode != 0:
        skip("npm cannot install the packages: " + result.stderr.strip()[-400:])
    shutil.copy(lock, done)
