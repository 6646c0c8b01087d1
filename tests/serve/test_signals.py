#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signals under load. Usage: test_signals.py PROGRAM MODELS TIMES [TEST]

SIGTERM, TIMES times at drawn moments: what the server has read of a request is answered whole, everything else refused.
SIGHUP: no request is lost, though models are opened anew. TESSERA_SEED draws other moments. SLOW_RECEIVE, SLOW_ANSWER,
OWN_SOCKETS: tests/faults/slow_receive.c, slow_answer.c and own_sockets.c, built; without one the test that needs it is
skipped."""
import contextlib
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

from test_serve import MODELS, SENTENCE, TRANSLATION, Server
from test_speech import BOUNDARY, MODEL as LISTENER, form, sound

TIMES = int(sys.argv[3])
SEED = int(os.environ.get("TESSERA_SEED") or time.time_ns() % 1000000)
LINES = 150 # of a request at first; a machine that has done them all before the signal comes gets more


def request(path, body):
    body = json.dumps(body).encode()
    return (b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" %
            (path.encode(), len(body))) + body


class Answer:
    """What came over a connection: status, body and whether that is whole; b"" if nothing did."""

    def __init__(self, data):
        self.data, self.status, self.body, self.is_whole = data, None, b"", False
        head, found, rest = data.partition(b"\r\n\r\n")
        if found and head.startswith(b"HTTP/1.1 "):
            self.status = int(head[9:12])
            length = re.search(rb"\r\nContent-Length: (\d+)", head, re.I)
            if length:
                self.body, self.is_whole = rest, len(rest) == int(length.group(1))
            else:
                self.body, self.is_whole = self.join(rest), rest.endswith(b"0\r\n\r\n")
        self.closes = b"\r\nConnection: close" in head

    @staticmethod
    def join(chunks):
        whole = b""
        while chunks:
            size, _, rest = chunks.partition(b"\r\n")
            n = int(size, 16)
            whole, chunks = whole + rest[:n], rest[n + 2:]
        return whole


class Client:
    """A connection of its own."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=120)
        self.sent = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def ask(self, data):
        """Sends a request and reads its answer, until it is whole or the connection ends."""
        got, self.was_reset = b"", False
        try:
            self.socket.sendall(data)
            self.sent += len(data)
            while not Answer(got).is_whole:
                more = self.socket.recv(65536)
                if not more:
                    break
                got += more
        except (ConnectionResetError, BrokenPipeError):
            self.was_reset = True
        return Answer(got)

    def has_been_read(self):
        """1 if the server had taken all that was sent when it ended the connection: what it has not read makes the
        system reset the connection."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        return not self.was_reset and struct.unpack_from("Q", info, 120)[0] >= self.sent


class Terminated(unittest.TestCase):
    def once(self, moment, lines):
        """Whether a new connection was refused before the end; None: nothing was in hand any more at that moment."""
        with Server("--beam", "1", "--queue", "1000000", "--timeout", "600") as server:
            self.assertEqual(server.translate()[0], 200)
            text = "\n".join([SENTENCE] * lines)
            whole = "\n".join([TRANSLATION] * lines)
            wanted = {"q": text, "source": "en", "target": "fr"}
            answers, faults, lock, stop = {}, [], threading.Lock(), threading.Event()
            accepted = 12

            def hold(number):
                path = "/translate" if number % 2 else "/translate/stream"
                with Client(server) as client:
                    got = client.ask(request(path, wanted))
                with lock:
                    answers[number] = got

            def hammer():
                # One request after the other on a connection, as a client that keeps it does.
                short = request("/translate", {"q": SENTENCE, "source": "en", "target": "fr"})
                with Client(server) as client:
                    while not stop.is_set():
                        got = client.ask(short)
                        right = got.status == 503 or (got.status == 200 and json.loads(got.body) ==
                                                      {"translatedText": TRANSLATION}) if got.is_whole else not got.data
                        if not right or (not got.data and client.has_been_read()):
                            with lock:
                                faults.append((got.data, client.was_reset))
                        if not got.is_whole or got.closes:
                            return

            threads = [threading.Thread(target=hold, args=(i,)) for i in range(accepted)]
            for t in threads:
                t.start()
            # Some may be answered by now. The request for the metrics is one itself.
            while len(answers) + server.metric("tessera_active_requests") - 1 < accepted:
                time.sleep(0.002)
            idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(30)]
            more = [threading.Thread(target=hammer) for _ in range(6)]
            for t in more:
                t.start()
            time.sleep(moment)
            if len(answers) == accepted:
                stop.set()
                for t in threads + more:
                    t.join()
                for one in idle:
                    one.close()
                return None
            server.process.send_signal(signal.SIGTERM)
            is_refused = False
            while not is_refused and server.process.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", server.port), timeout=60).close()
                except OSError:
                    is_refused = True
            code = server.process.wait(timeout=240)
            stop.set()
            for t in threads + more:
                t.join()
            self.assertRaises(OSError, socket.create_connection, ("127.0.0.1", server.port))
            self.assertEqual(code, 0, server.log())
            self.assertEqual(faults, [])
            for number, got in answers.items():
                self.assertEqual((got.status, got.is_whole), (200, True), got.data[-200:])
                end = got.body if number % 2 else got.body.rpartition(b"event: done\ndata: ")[2]
                self.assertEqual(json.loads(end)["translatedText"], whole)
            self.assertEqual(len(answers), accepted)
            for one in idle:
                self.assertEqual(one.recv(1), b"")
                one.close()
            return is_refused

    def test_accepted_requests_are_answered(self):
        print("TESSERA_SEED:", SEED)
        moments, lines, refused = random.Random(SEED), LINES, []
        while len(refused) < TIMES:
            is_refused = self.once(moments.uniform(0, 0.15), lines)
            if is_refused is None:
                lines *= 2
                self.assertLess(lines, 100 * LINES, "nothing was in hand any more")
            else:
                refused.append(is_refused)
        self.assertIn(True, refused, "no new connection was refused before the end")

    def test_a_request_that_is_coming(self):
        """Its headers were read: the rest is, too."""
        with Server() as server, Client(server) as client:
            data = request("/translate", {"q": SENTENCE, "source": "en", "target": "fr"})
            client.socket.sendall(data[:-10])
            while server.metric("tessera_active_requests") < 2:
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            got = client.ask(data[-10:])
            self.assertEqual((got.status, got.is_whole, got.closes), (200, True, True), got.data)
            self.assertEqual(json.loads(got.body), {"translatedText": TRANSLATION})
            self.assertEqual(server.process.wait(timeout=120), 0)

    def test_requests_that_the_system_has(self):
        """Their headers have arrived and wait to be read when the server is told to end: they are answered."""
        data = request("/translate", {"q": SENTENCE, "source": "en", "target": "fr"})
        for _ in range(3):
            # One after the other sends its end: the last ones take longer than a request may otherwise.
            slow = ["--request-seconds", "600", "--timeout", "600"]
            with Server("--beam", "1", *slow) as server, contextlib.ExitStack() as stack:
                clients = [stack.enter_context(Client(server)) for _ in range(300)]
                self.assertIn(clients[-1].ask(data).status, (200, 503)) # so all of them are accepted
                server.process.send_signal(signal.SIGSTOP)
                for one in clients:
                    one.socket.sendall(data[:-10])
                server.process.send_signal(signal.SIGTERM)
                server.process.send_signal(signal.SIGCONT)
                time.sleep(0.3)
                for one in clients:
                    got = one.ask(data[-10:])
                    self.assertEqual((got.is_whole, got.closes), (True, True), got.data)
                    self.assertIn(got.status, (200, 503))
                self.assertEqual(server.process.wait(timeout=120), 0)

    @unittest.skipUnless("SLOW_RECEIVE" in os.environ, "needs SLOW_RECEIVE")
    def test_requests_of_a_thread_that_waits(self):
        """A request was read, and the thread that read it waits for a processor, for longer than a connection may be
        idle when the server ends."""
        data = request("/translate", {"q": SENTENCE, "source": "en", "target": "fr"})
        slow = {"LD_PRELOAD": os.environ["SLOW_RECEIVE"], "SLOW_RECEIVE_MS": "300"}
        with Server("--beam", "1", environment=slow) as server, contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Client(server)) for _ in range(4)]
            self.assertEqual(clients[-1].ask(data).status, 200) # so all of them are accepted
            for one in clients:
                one.socket.sendall(data[:-10])
            server.process.send_signal(signal.SIGTERM)
            for one in clients:
                got = one.ask(data[-10:])
                self.assertEqual((got.is_whole, got.closes), (True, True), got.data)
            self.assertEqual(server.process.wait(timeout=120), 0)

    @unittest.skipUnless("SLOW_ANSWER" in os.environ, "needs SLOW_ANSWER")
    def test_a_thread_that_waits_behind_its_answer(self):
        """The client has the answer and has left, and the server ends, before the thread lets go of the request, and
        before it lets go of the model."""
        text = ("/translate", json.dumps({"q": SENTENCE, "source": "en", "target": "fr"}), "application/json")
        heard = ("/v1/audio/transcriptions", form(sound("fox"), [("model", "a")]),
                 f"multipart/form-data; boundary={BOUNDARY}")
        # Memory that was given back is filled at once, if no cache keeps it.
        filled = {"MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
        slow = {"LD_PRELOAD": os.environ["SLOW_ANSWER"], "SLOW_ANSWER_MS": "200", **filled}
        for models, (path, body, kind) in ((MODELS, text), (LISTENER, heard)):
            with Server("--beam", "1", models=models, environment=slow) as server:
                self.assertEqual(server.ask("POST", path, body, kind)[0], 200)
                self.assertEqual(server.end(), 0, server.log())

    @unittest.skipUnless("OWN_SOCKETS" in os.environ, "needs OWN_SOCKETS")
    def test_who_closes_the_listener(self):
        """The thread that waits for it: libmicrohttpd aborts where another one does, rarely."""
        with Server("--beam", "1", environment={"LD_PRELOAD": os.environ["OWN_SOCKETS"]}) as server:
            self.assertEqual(server.translate()[0], 200)
            self.assertEqual(server.end(), 0, server.log())

    def test_connections_that_the_system_has(self):
        """The server has accepted none of them when it is told to end: those with a request are answered, and the idle
        ones end as they do otherwise. The system resets a connection that no one accepts."""
        data = request("/translate", {"q": SENTENCE, "source": "en", "target": "fr"})
        for _ in range(3):
            with Server() as server, contextlib.ExitStack() as stack:
                server.process.send_signal(signal.SIGSTOP)
                clients = [stack.enter_context(Client(server)) for _ in range(200)]
                for one in clients[::2]:
                    one.socket.sendall(data)
                server.process.send_signal(signal.SIGTERM)
                server.process.send_signal(signal.SIGCONT)
                for one in clients[::2]:
                    got = one.ask(b"")
                    self.assertEqual((got.is_whole, got.closes, one.was_reset), (True, True, False), got.data)
                    self.assertIn(got.status, (200, 503))
                for one in clients[1::2]:
                    self.assertEqual(one.socket.recv(1), b"")
                self.assertEqual(server.process.wait(timeout=120), 0)

    @unittest.skipUnless("SLOW_RECEIVE" in os.environ, "needs SLOW_RECEIVE")
    def test_connections_of_a_thread_that_waits(self):
        """The thread that accepts waits for a processor, for some seconds, when the server is told to end: a connection
        that the system makes meanwhile is answered."""
        data = request("/translate", {"q": SENTENCE, "source": "en", "target": "fr"})
        slow = {"LD_PRELOAD": os.environ["SLOW_RECEIVE"], "SLOW_RECEIVE_MS": "4000"}
        with Server("--beam", "1", environment=slow) as server, Client(server) as first:
            first.socket.sendall(data)
            time.sleep(0.5) # it is read by now
            with Client(server) as second:
                second.socket.sendall(data)
                server.process.send_signal(signal.SIGTERM)
                for one in (first, second):
                    got = one.ask(b"")
                    self.assertEqual((got.is_whole, one.was_reset), (True, False), got.data)
                    self.assertIn(got.status, (200, 503))
            self.assertEqual(server.process.wait(timeout=120), 0)


class Reloaded(unittest.TestCase):
    def test_nothing_is_lost(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            def settle(beam):
                with open(file.name, "w", encoding="utf-8") as again:
                    json.dump({"beam": beam}, again)
            settle(1)
            with Server("--config", file.name) as server:
                self.assertEqual(server.translate()[0], 200)
                faults, counts, stop = [], [0] * 8, threading.Event()

                def ask(number):
                    while not stop.is_set():
                        try:
                            got = server.translate()
                            good = (got[0], got[1]) == (200, {"translatedText": TRANSLATION})
                        except OSError as error:
                            good, got = False, error
                        counts[number] += 1
                        if not good:
                            faults.append(got)

                threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(counts))]
                for t in threads:
                    t.start()
                for i in range(6):
                    settle(2 if i % 2 == 0 else 1) # another search: the model is opened anew
                    server.process.send_signal(signal.SIGHUP)
                    while server.log().count("anew") <= i:
                        self.assertIsNone(server.process.poll())
                        time.sleep(0.02)
                    before = sum(counts) # who asks from here on needs it
                    while sum(counts) < before + 30:
                        self.assertIsNone(server.process.poll())
                        time.sleep(0.02)
                stop.set()
                for t in threads:
                    t.join()
                self.assertEqual(faults, [])
                self.assertEqual(server.metric("tessera_models_opened_total"), 7)
                self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:])
