#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two servers behind HAProxy, with the configuration that docs/serve.md shows: one is ended under load, and no client
sees an error. Usage: test_haproxy.py PROGRAM GENERATOR HAPROXY ROOT."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

PROGRAM, GENERATOR, HAPROXY, ROOT = sys.argv[1:5]
CLIENTS, REQUESTS = 32, 1200 # at first; a machine that is done before the signal comes gets more
HANG = 300  # seconds


def configuration(ports):
    """That of the page, with other ports."""
    with open(os.path.join(ROOT, "docs/serve.md"), encoding="utf-8") as page:
        blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", page.read(), re.M)
    found = [block for block in blocks if "backend tessera" in block]
    assert len(found) == 1, "docs/serve.md has no configuration for HAProxy"
    text = re.sub("^    ", "", found[0], flags=re.M)
    for before, port in ports.items():
        assert text.count(f":{before}") == 1, f"docs/serve.md does not name port {before} once"
        text = text.replace(f":{before}", f":{port}")
    return text


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(what, is_there):
    end = time.monotonic() + HANG
    while not is_there():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not after {HANG} seconds")
        time.sleep(0.05)


class HaProxy(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="haproxy")
        self.processes = []
        self.addCleanup(self.clean)

    def clean(self):
        self.stop_all()
        self.folder.cleanup()

    def stop_all(self):
        for one in self.processes:
            if one.poll() is None:
                one.kill()
            one.wait()
        self.processes = []

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def start(self, name, command):
        with open(self.path(name), "w", encoding="utf-8") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        return self.processes[-1]

    def log(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def start_server(self, name):
        process = self.start(name, [PROGRAM, "serve", "--models", os.path.join(ROOT, "tools"), "--direction",
                                    "demo-model=en-fr", "--device", "cpu", "--listen", "127.0.0.1:0", "--proxies", "1"])
        pattern = r"serving on http://127.0.0.1:(\d+)"
        wait_for("the server", lambda: re.search(pattern, self.log(name)) or process.poll() is not None)
        return process, int(re.search(pattern, self.log(name)).group(1))

    def read(self, port, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def tokens(self, port):
        found = re.search(r"^tessera_target_tokens_total (\S+)", self.read(port, "/metrics"), re.M)
        return float(found.group(1)) if found else 0

    def start_proxy(self, port_one, port_two):
        """Before two servers. Its port, which somebody else may have taken meanwhile: then it tries another one."""
        for _ in range(5):
            port = free_port()
            with open(self.path("haproxy.cfg"), "w", encoding="utf-8") as file:
                file.write(configuration({5000: port, 5001: port_one, 5002: port_two}))
            proxy = self.start("proxy", [HAPROXY, "-db", "-f", self.path("haproxy.cfg")])
            wait_for("HAProxy", lambda port=port, proxy=proxy: "ok" in self.read(port, "/health")
                     or proxy.poll() is not None)
            if proxy.poll() is None:
                break
        return port, proxy

    def end_one(self, number):
        """Ends one of two servers with a signal while clients ask. Its exit code, what the clients saw, and how many
        requests they had."""
        for requests in (REQUESTS, 8 * REQUESTS, 64 * REQUESTS):
            got = self.try_to_end_one(number, requests)
            if got:
                return *got, requests
            self.stop_all()
        self.fail("the clients had ended before the server")

    def try_to_end_one(self, number, requests):
        """None if the clients have ended before that server."""
        one, port_one = self.start_server("one")
        two, port_two = self.start_server("two")
        port, proxy = self.start_proxy(port_one, port_two)
        self.assertIsNone(proxy.poll(), self.log("proxy"))
        lines = self.path("lines")
        with open(lines, "w", encoding="utf-8") as file:
            file.write("The museum is worth visiting.\nThe children are playing in the garden.\n")
        clients = self.start("clients", [GENERATOR, "load", str(port), lines, "-", str(CLIENTS), str(requests), "0"])
        wait_for("translations of both", lambda: min(self.tokens(port_one), self.tokens(port_two)) > 300)
        one.send_signal(number)
        code = one.wait(HANG)
        at_end = self.tokens(port_two)
        if clients.poll() is not None:
            return None
        self.assertEqual(clients.wait(HANG), 0, self.log("clients"))
        self.assertGreater(self.tokens(port_two), at_end, "the other server goes on")
        self.assertIsNone(two.poll())
        return code, json.loads(self.log("clients"))

    def test_sigterm_is_not_noticed(self):
        code, seen, requests = self.end_one(signal.SIGTERM)
        self.assertEqual(code, 0)
        self.assertEqual((seen["right"], seen["wrong"], seen["busy"], seen["broken"]), (requests, 0, 0, 0), seen)

    def test_kill_costs_no_more_than_a_retry(self):
        code, seen, requests = self.end_one(signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        # An answer that had begun to come breaks off, and the client asks again.
        self.assertEqual((seen["right"], seen["wrong"], seen["busy"]), (requests, 0, 0), seen)
        self.assertLessEqual(seen["broken"], CLIENTS, seen)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
