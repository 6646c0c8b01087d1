#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A short mixed load, for the builds that find faults: texts and sounds, requests of all kinds, clients that leave,
broken HTTP, slow clients, a device that is lost, SIGHUP and SIGTERM. Usage: test_mixed.py PROGRAM MODELS [TEST]

FAILING_DEVICE and BACKENDS as in test_lost.py. What a sanitizer finds ends the server, or changes its exit code."""
import contextlib
import json
import os
import random
import socket
import sys
import tempfile
import threading
import time
import unittest

import test_lost
from test_serve import MODELS, SENTENCE, Server
from test_speech import BOUNDARY, HEAR, MODEL as LISTENER, form, sound

SEED = int(os.environ.get("TESSERA_SEED") or time.time_ns() % 1000000)
BROKEN = [
    b"\0\1\2\r\n\r\n", b"GET\r\n\r\n", b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
    b"GET / HTTP/1.1\r\nA: " + b"a" * 100000, b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{}",
    b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{\"q\"",
    b"POST /translate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /translate_file HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: "
    b"9\r\n\r\n--x\r\n\r\n--", b"GET /download_file/../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
]


class Mixed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.gone = os.path.join(self.folder.name, "gone")
        self.heard = set()
        self.config = os.path.join(self.folder.name, "settings.json")
        for name in ["demo-model", "second"]:
            os.symlink(os.path.join(MODELS, "demo-model"), os.path.join(self.folder.name, name))
        os.symlink(LISTENER, os.path.join(self.folder.name, "listener"))

    def settle(self, beam):
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump({"beam": beam}, file)

    def disturb(self, server, draws, stop):
        """Clients that do wrong, one after the other."""
        text = json.dumps({"q": "\n".join([SENTENCE] * 40), "source": "en", "target": "de"}).encode()
        speech = form(sound("long31"), [("model", "a"), ("stream", "true")])
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        while not stop.is_set():
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
                try:
                    if draws.random() < 0.5:
                        s.sendall(draws.choice(BROKEN))
                        s.settimeout(0.2)
                        s.recv(4096)
                    else: # leaves with a request or a stream in hand
                        path = draws.choice(["/translate", "/translate/stream", HEAR])
                        body, of = (speech, kind) if path == HEAR else (text, "application/json")
                        s.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {of}\r\nContent-Length: "
                                  f"{len(body)}\r\n\r\n".encode() + body)
                        time.sleep(draws.uniform(0, 0.1))
                except OSError:
                    pass

    def look(self, server, draws, stop):
        while not stop.is_set():
            for path in ["/status", "/metrics", "/languages", "/health", "/spec", "/frontend/settings", "/", "/none"]:
                status, _, _ = server.ask("GET", path)
                self.assertEqual(status, 404 if path == "/none" else 200)
            server.translate(target="fr", source="auto", alternatives=draws.choice([0, 2]), format="html")
            server.translate(target="fr", alignment=True, prefix="Le", continuations=3)
            server.ask("POST", "/v2/translate", {"text": [SENTENCE], "target_lang": "FR"})
            server.ask("POST", "/detect", {"q": SENTENCE})

    def hear(self, server, draws):
        """A sound, as a stream or whole. Keeps the text, or all that came instead, but that others are before it."""
        is_stream = draws.random() < 0.5
        body = form(sound("fox"), [("model", "a"), ("stream", "true" if is_stream else "false")])
        status, got, _ = server.ask("POST", HEAR, body, f"multipart/form-data; boundary={BOUNDARY}")
        if status == 200 and is_stream:
            got = json.loads(got.strip().split("\n\n")[-1].removeprefix("data: "))
        if status != 503:
            self.heard.add(got["text"] if status == 200 and "text" in got else (status, str(got)))

    def hear_on(self, server, draws, stop):
        while not stop.is_set():
            self.hear(server, draws)

    def hear_at_end(self, server, draws):
        with contextlib.suppress(OSError):
            self.hear(server, draws)

    def test_all_at_once(self):
        print("TESSERA_SEED:", SEED)
        self.settle(1)
        path = os.environ["FAILING_DEVICE"] + ":" + os.environ["BACKENDS"]
        # Room for one model: they push each other out.
        options = ["--direction", "second=en-de", "--memory", "12", "--config", self.config, "--max-length", "8"]
        # More than a process halts on a busy machine: these requests are sent in two pieces.
        options += ["--request-seconds", "20"]
        with Server(*options, models=self.folder.name, device="failing", environment={
                "TESSERA_BACKEND_PATH": path, "TESSERA_FAILING_WHILE": self.gone}) as server:
            status, got = test_lost.translate(server, test_lost.sentences())
            self.assertEqual(status, 200, (got, server.log()))
            load = test_lost.Load(server, dict(zip(test_lost.sentences(), got)))
            stop = threading.Event()
            others = [threading.Thread(target=self.disturb, args=(server, random.Random(SEED + i), stop))
                      for i in range(4)]
            others += [threading.Thread(target=one, args=(server, random.Random(SEED), stop))
                       for one in (self.look, self.hear_on)]
            with load:
                for t in others:
                    t.start()
                for i in range(4):
                    before = load.n
                    test_lost.Lost.wait(self, "it goes on", lambda: load.n > before + 12, 600)
                    if i == 0:
                        with open(self.gone, "w", encoding="ascii"):
                            pass
                    elif i == 1:
                        server.process.send_signal(1)
                    elif i == 2:
                        os.remove(self.gone)
                        server.process.send_signal(1)
                stop.set()
                for t in others:
                    t.join()
            self.assertEqual(load.wrong, [], server.log())
            self.assertEqual([type(one) for one in self.heard], [str], (self.heard, server.log()))
            last = threading.Thread(target=self.hear_at_end, args=(server, random.Random(SEED)))
            with test_lost.Load(server, load.expected):
                last.start()
                time.sleep(0.2)
                code = server.end()
            last.join()
            self.assertEqual(code, 0, server.log())
            self.assertNotIn("Sanitizer", server.log())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
