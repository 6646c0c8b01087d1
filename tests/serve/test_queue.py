#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bounds the server: the queue, streams that nobody reads, deadlines, memory for models. Usage: test_queue.py
PROGRAM MODELS [TEST]

FAILING_DEVICE and BACKENDS as in test_lost.py."""
import itertools
import json
import os
import re
import socket
import sys
import tempfile
import threading
import time
import unittest

from test_serve import MODELS, SENTENCE, TRANSLATION, Server, wait_until as wait


def is_whole_stream(got):
    events = [e.split("\n") for e in got.strip().split("\n\n")]
    pieces = "".join(json.loads(e[0][6:])["text"] for e in events if len(e) == 1)
    return events[-1][0] == "event: done" and json.loads(events[-1][1][6:])["translatedText"] == pieces


def failing(where, file, **more):
    """What starts a server on the backend `failing`, of which `where` names the file that tells it to fail."""
    path = os.environ["FAILING_DEVICE"] + ":" + os.environ["BACKENDS"]
    return {"device": "failing", "environment": {"TESSERA_BACKEND_PATH": path, where: file}, **more}


class Queue(unittest.TestCase):
    def test_streams_have_their_place(self):
        n, lines, queue = 24, 10, 45
        with tempfile.TemporaryDirectory() as folder:
            slow = os.path.join(folder, "slow")
            with open(slow, "wb"):
                pass
            with Server("--queue", str(queue), "--beam", "1", **failing("TESSERA_FAILING_SLOW", slow)) as server:
                self.fill(server, n, lines, queue, slow)

    def fill(self, server, n, lines, queue, slow):
        """Streams of so many lines, while the device does nothing before the file `slow` is gone."""
        got = []

        def ask():
            got.append(server.ask("POST", "/translate/stream", {"q": "\n".join([SENTENCE] * lines), "source": "en",
                                                                "target": "fr"}))

        threads = [threading.Thread(target=ask) for _ in range(n)]
        for t in threads:
            t.start()
        wait("the others are refused", lambda: len(got) == n - queue // lines)
        self.assertEqual(server.metric("tessera_lines_in_hand"), queue // lines * lines)
        os.remove(slow)
        for t in threads:
            t.join()
        self.assertEqual([s for s, _, _ in got].count(200), queue // lines)
        for status, text, headers in got:
            if status == 200:
                self.assertTrue(is_whole_stream(text), text)
            else:
                self.assertEqual(status, 503)
                self.assertGreater(int(headers["Retry-After"]), 0)
                self.assertEqual(text, {"error": "The server is busy, try again"})
        self.assertEqual(server.metric("tessera_queue_full_total"), n - queue // lines)
        self.assertEqual(server.metric("tessera_lines_in_hand"), 0)
        self.assertEqual(server.translate("\n".join([SENTENCE] * queue))[0], 200)
        status, text, _ = server.ask("POST", "/translate/stream", {"q": "\n".join([SENTENCE] * (queue + 1)),
                                                                   "source": "en", "target": "fr"})
        self.assertEqual((status, list(text)), (400, ["error"]))

    def open_stream(self, server, lines):
        body = json.dumps({"q": "\n".join(lines), "source": "en", "target": "fr"}).encode()
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(120)
        s.connect(("127.0.0.1", server.port))
        s.sendall(b"POST /translate/stream HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" %
                  len(body) + body)
        return s

    def test_a_stream_that_nobody_reads(self):
        # All of it may have come between two looks: then there is more.
        self.assertTrue(any(self.lags(n) for n in (2500, 10000, 10000)), "the client never lagged behind")

    def lags(self, n):
        """Whether the client was seen to lag behind; what waits for it is bounded."""
        with Server("--beam", "1") as server, self.open_stream(server, [SENTENCE] * n) as s:
            most = during = 0.0
            wait("it begins", lambda: server.metric("tessera_lines_in_hand") > 0
                 or server.metric("tessera_stream_bytes") > 0)
            while server.metric("tessera_lines_in_hand") > 0:
                during = max(during, most) # what waits beside the end
                most = max(most, server.metric("tessera_stream_bytes"))
            # Events of single words are far more than the text.
            self.assertLess(during, 80000)
            self.assertLess(server.metric("tessera_stream_bytes"), 80000 + 2.5 * n * len(TRANSLATION))
            got = b""
            while more := s.recv(65536):
                got += more
            self.assertTrue(is_whole_stream(got.partition(b"\r\n\r\n")[2].decode()))
            self.assertEqual(json.loads(got.rpartition(b"event: done\ndata: ")[2])["translatedText"],
                             "\n".join([TRANSLATION] * n))
            self.assertEqual(server.metric("tessera_stream_bytes"), 0)
            return during > 60000

    def test_a_client_that_never_reads_is_left(self):
        with Server("--beam", "1", "--idle-seconds", "2") as server, self.open_stream(server, [SENTENCE] * 1000):
            wait("it lags behind", lambda: server.metric("tessera_stream_bytes") > 0
                 or server.metric("tessera_gone_total") > 0)
            wait("its bytes are freed", lambda: server.metric("tessera_stream_bytes") == 0)
            wait("its lines are", lambda: server.metric("tessera_lines_in_hand") == 0)
            wait("its connection ends", lambda: server.metric("tessera_connections") <= 1)

    def test_the_deadline_of_a_document(self):
        """It is that of the request, however many batches the document has."""
        with Server("--beam", "1", "--timeout", "1") as server:
            if not server.ask("GET", "/frontend/settings")[1]["supportedFilesFormat"]:
                self.skipTest("built without documents")
            wait("the model is open", lambda: server.translate()[0] == 200)
            late = server.metric("tessera_late_total")
            # All different: a text that a document has twice is translated once. They take long on any machine.
            names = itertools.product("aeiou", "bcdfg", "aeiou", "bcdfg", "aeiou", "bcdfg", "aeiou")
            text = "".join("The museum of M%s is worth visiting.\n" % "".join(name) for name in names)
            part = "".join(f'--x\r\nContent-Disposition: form-data; name="{n}"{more}\r\n\r\n{v}\r\n' for n, more, v in [
                ("file", '; filename="a.txt"', text), ("source", "", "en"), ("target", "", "fr")]) + "--x--\r\n"
            status, got, _ = server.ask("POST", "/translate_file", part, "multipart/form-data; boundary=x")
            self.assertEqual((status, got), (504, {"error": "The translation took longer than 1 seconds"}))
            self.assertEqual(server.metric("tessera_late_total"), late + 1)
            self.assertEqual(server.metric("tessera_lines_in_hand"), 0)


class Memory(unittest.TestCase):
    TARGETS = ["fr", "de", "es", "it"]

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.options = []
        for target in self.TARGETS:
            os.symlink(os.path.join(MODELS, "demo-model"), os.path.join(self.folder.name, target))
            self.options += ["--direction", f"{target}=en-{target}"]

    def states(self, server):
        return {one["name"]: one["state"] for one in server.ask("GET", "/status")[1]["models"]}

    def ask(self, server, target, q=SENTENCE):
        status, got, _ = server.ask("POST", "/translate", {"q": q, "source": "en", "target": target})
        self.assertEqual(status, 200, got)
        self.assertEqual(got["translatedText"], q.replace(SENTENCE, TRANSLATION))

    def test_the_least_recently_used_is_closed(self):
        with Server(*self.options, "--beam", "1", models=self.folder.name) as server:
            self.ask(server, "fr")
            size = server.metric("tessera_model_bytes")
        limit = int(2.5 * size) >> 20
        with Server(*self.options, "--beam", "1", "--memory", str(limit), models=self.folder.name) as server:
            for target, is_open in [("fr", "fr"), ("de", "fr de"), ("fr", "fr de"), ("es", "fr es"), ("it", "es it"),
                                    ("fr", "it fr"), ("it", "it fr"), ("de", "it de")]:
                self.ask(server, target)
                got = {name for name, state in self.states(server).items() if state == "open"}
                self.assertEqual(got, set(is_open.split()), target)
                self.assertLessEqual(server.metric("tessera_model_bytes"), limit << 20)
            self.assertEqual(server.metric("tessera_models_evicted_total"), 4)
            self.assertEqual(server.metric("tessera_models_opened_total"), 6)

            # Long texts in hand of each model while the others ask for their memory.
            long = "\n".join([SENTENCE] * 80)
            faults = []

            def ask(target):
                try:
                    self.ask(server, target, long)
                except Exception as error: # pylint: disable=broad-except
                    faults.append(error)

            def resident():
                with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
                    return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) << 10

            evicted, sizes = server.metric("tessera_models_evicted_total"), []
            for _ in range(5):
                threads = [threading.Thread(target=ask, args=(t,)) for t in self.TARGETS]
                for t in threads:
                    t.start()
                while any(t.is_alive() for t in threads):
                    self.assertLessEqual(server.metric("tessera_model_bytes"), limit << 20)
                    time.sleep(0.02)
                sizes.append(resident())
            self.assertEqual(faults, [])
            self.assertGreaterEqual(server.metric("tessera_models_evicted_total"), evicted + 10)
            self.assertLessEqual(server.metric("tessera_models_open"), 2)
            # What was closed is free: the peak does not grow with each round.
            self.assertLess(sizes[-1], 1.5 * max(sizes[:2]) + size, sizes)
            self.assertEqual(server.end(), 0)

    def test_each_model_has_its_turn(self):
        """Two models under constant load have memory for one."""
        with Server(*self.options, "--beam", "1", "--memory", "12", models=self.folder.name) as server:
            counts, faults, stop = {"fr": 0, "it": 0}, [], threading.Event()

            def ask(target):
                while not stop.is_set():
                    try:
                        self.ask(server, target)
                        counts[target] += 1
                    except Exception as error: # pylint: disable=broad-except
                        faults.append(error)
                        return

            threads = [threading.Thread(target=ask, args=(t,)) for t in counts for _ in range(6)]
            for t in threads:
                t.start()
            try:
                wait("each is served", lambda: faults or min(counts.values()) >= 30)
            finally:
                stop.set()
                for t in threads:
                    t.join()
            self.assertEqual(faults, [])
            self.assertLess(max(counts.values()), 10 * min(counts.values()), counts)

    def test_a_slow_opening_holds_up_nobody(self):
        slow = os.path.join(self.folder.name, "slow")
        with open(slow, "wb"):
            pass
        with Server(*self.options, **failing("TESSERA_FAILING_SLOW", slow, models=self.folder.name)) as server:
            asks = threading.Thread(target=self.ask, args=(server, "it"))
            asks.start()
            wait("its device takes no data", lambda: os.path.getsize(slow) > 0)
            self.assertEqual(self.states(server)["it"], "opening")
            self.ask(server, "fr")
            self.ask(server, "de")
            self.assertEqual(self.states(server)["it"], "opening")
            os.remove(slow)
            asks.join()
            self.assertEqual(self.states(server)["it"], "open")
            self.assertEqual(server.end(), 0)

    def hanging(self, where, *options):
        """A server and the file in which its device says that it hangs, as long as the file is there."""
        file = os.path.join(self.folder.name, "hangs")
        server = Server(*self.options, *options, **failing(where, file, models=self.folder.name))
        self.addCleanup(server.__exit__)
        return server, file

    def test_openings_that_hang(self):
        """All threads that open models hang: texts end in time all the same, and so does the server."""
        server, hangs = self.hanging("TESSERA_FAILING_OPENING", "--timeout", "5")
        with open(hangs, "wb"):
            pass
        got = []
        threads = [threading.Thread(target=lambda t=t: got.append(server.ask(
            "POST", "/translate", {"q": SENTENCE, "source": "en", "target": t})[:2])) for t in self.TARGETS]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(got, [(504, {"error": "The translation took longer than 5 seconds"})] * len(self.TARGETS))
        self.assertGreater(os.path.getsize(hangs), 0)
        self.assertEqual(server.end(), 0, server.log())
        self.assertIn("its device did not finish opening within 5 seconds; the server ends without it", server.log())

    def test_a_device_that_hangs_at_work(self):
        server, hangs = self.hanging("TESSERA_FAILING_SLOW", "--timeout", "3", "--beam", "1")
        wait("the model is open", lambda: server.translate()[0] == 200)
        with open(hangs, "wb"):
            pass
        with socket.create_connection(("127.0.0.1", server.port), timeout=120) as s:
            body = json.dumps({"q": "\n".join([SENTENCE] * 40), "source": "en", "target": "fr"}).encode()
            s.sendall(b"POST /translate HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" %
                      len(body) + body)
            wait("its device takes no data", lambda: os.path.getsize(hangs) > 0)
            self.assertEqual(server.end(), 0, server.log())
            self.assertIn("a device does not answer; the server ends without it", server.log())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
