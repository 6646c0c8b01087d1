#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test of the page in a browser, against the mock server. Usage: run_page.py FOLDER SCRIPT [ARGUMENT...]

FOLDER keeps the packages of npm that package-lock.json names, from one run to the next. Exit code 77, skipped: there is
no node, npm or Chromium, or the packages cannot be had."""
import os
import subprocess
import sys

import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from packages import install, programs

NEEDS = ("node", "npm", "Chromium")


def main():
    folder, script, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    found = programs(NEEDS)
    install(found["npm"], HERE, folder)
    server = mock.serve()
    environment = {
        **os.environ, "PAGE_URL": f"http://127.0.0.1:{server.server_port}/", "CHROMIUM": found["Chromium"],
    }
    command = [found["node"], os.path.join(HERE, script)] + arguments
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
