#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Devices of the server are lost while many clients have requests in flight. Usage: test_lost.py PROGRAM MODELS TEST..

FAILING_DEVICE is the folder of the backend `failing`, BACKENDS those that take its place. SLOW_WAKE:
tests/faults/slow_wake.c, built; without it the test that needs it is skipped. The tests of LostCard run behind
tests/card/with, whose layer loses the card, and BACKENDS has vulkan and cpu."""
import http.client
import json
import os
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

from test_serve import MODELS, Server
from test_speech import BOUNDARY, HEAR, MODEL as LISTENER, form, sound as recording

CLIENTS = 12


def sentences():
    with open(os.path.join(MODELS, "demo-model", "sample.en"), encoding="utf-8") as file:
        return [line.strip() for line in file][:12]


def translate(server, lines):
    status, got, _ = server.ask("POST", "/translate", {"q": lines, "source": "en", "target": "fr"})
    return status, got["translatedText"] if status == 200 else got


def stream(server, lines):
    """The text of a stream: that of its pieces has to be that of its end."""
    body = {"q": "\n".join(lines), "source": "en", "target": "fr"}
    status, got, _ = server.ask("POST", "/translate/stream", body)
    events = [e.split("\n") for e in got.strip().split("\n\n")] if status == 200 else []
    pieces = "".join(json.loads(e[0][6:])["text"] for e in events if len(e) == 1)
    if not events or events[-1][0] != "event: done":
        return status, got
    whole = json.loads(events[-1][1][6:])["translatedText"]
    return status, whole.split("\n") if whole == pieces else [whole, pieces]


def document(server, lines):
    part = "".join(f'--x\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n'
                   for name, more, value in [("file", '; filename="a.txt"', "\n".join(lines) + "\n"),
                                             ("source", "", "en"), ("target", "", "fr")]) + "--x--\r\n"
    status, got, _ = server.ask("POST", "/translate_file", part, "multipart/form-data; boundary=x")
    if status != 200:
        return status, got
    with urllib.request.urlopen(got["translatedFileUrl"], timeout=60) as answer:
        return status, answer.read().decode().splitlines()


class Load:
    """Clients that ask without a pause, or with one of so many seconds, in all ways in turn, and compare."""

    def __init__(self, server, expected):
        self.server, self.expected, self.wrong, self.n = server, expected, [], 0
        self.pause = 0.0
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.ways = [translate, stream, document]
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(CLIENTS)]

    def run(self, number):
        lines = list(self.expected)
        while not self.stop.is_set():
            way = self.ways[number % len(self.ways)]
            asked = [lines[(number + i) % len(lines)] for i in range(1 + number % 3)]
            number += 1
            try:
                status, got = way(self.server, asked)
                good = status == 200 and got == [self.expected[one] for one in asked]
            except (OSError, ValueError) as error:
                good, status, got = False, 0, repr(error)
            with self.lock:
                self.n += 1
                if not good:
                    self.wrong.append((way.__name__, asked, status, got))
            time.sleep(self.pause)

    def __enter__(self):
        for one in self.threads:
            one.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for one in self.threads:
            one.join()


class Losing(unittest.TestCase):
    """What tests share in which a device is lost."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def wait(self, what, is_there, seconds=120):
        end = time.monotonic() + seconds
        while not is_there():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def start_with(self, device, environment, models=MODELS, options=()):
        server = Server("--max-length", "24", "--beam", "1", "--timeout", "600", *options, models=models, device=device,
                        environment=environment)
        self.addCleanup(server.__exit__)
        return server

    def answers(self, server):
        lines = sentences()
        status, got = translate(server, lines)
        self.assertEqual(status, 200, got)
        self.assertEqual(len(set(got)), len(lines), got)
        return dict(zip(lines, got))

    def conclude(self, server, load):
        self.assertEqual(load.wrong, [], server.log())
        self.assertEqual(server.end(), 0, server.log())

    def devices(self, server):
        return {one["name"]: one for one in server.ask("GET", "/status")[1]["devices"]}

    def goes_on(self, load, times):
        """Every client has had so many more answers, on the average."""
        before = load.n
        self.wait("the clients are answered", lambda: load.n > before + times * CLIENTS)


class Lost(Losing):
    def setUp(self):
        super().setUp()
        self.gone = os.path.join(self.folder.name, "gone")

    def start(self, device, models=MODELS, options=(), **environment):
        path = os.environ["FAILING_DEVICE"] + ":" + os.environ["BACKENDS"]
        return self.start_with(device, {"TESSERA_BACKEND_PATH": path, "TESSERA_FAILING_WHILE": self.gone,
                                        **environment}, models, options)

    def test_speech(self):
        """A sound that is being heard is heard again, and of its stream nothing comes twice."""
        os.symlink(LISTENER, os.path.join(self.folder.name, "tiny"))
        server = self.start("failing", models=self.folder.name)
        body = form(recording("long31"), [("model", "a"), ("stream", "true"), ("language", "en")])
        text = self.heard(server, body, is_lost=False)
        for _ in range(5): # it may have been heard to its end before the device was away
            self.assertEqual(self.heard(server, body, is_lost=True), text)
            if "going on with another device" in server.log():
                break
            os.remove(self.gone)
        self.assertIn("going on with another device", server.log())
        self.wait("another device has it", lambda: self.devices(server).get("reference:0", {}).get("models") == 1)
        os.remove(self.gone)
        self.wait("it is found again", lambda: "is there again" in server.log())
        self.assertEqual(server.ask("POST", HEAR, body, f"multipart/form-data; boundary={BOUNDARY}")[0], 200)
        self.wait("and told", lambda: self.devices(server).get("failing:0", {}).get("models") == 1)
        self.assertEqual(server.end(), 0, server.log())

    def heard(self, server, body, is_lost):
        """The text of a stream, behind whose beginning the device is taken away."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("POST", HEAR, body, {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
        answer = connection.getresponse()
        first = answer.readline().decode()
        if is_lost:
            with open(self.gone, "w", encoding="ascii"):
                pass
        events = [json.loads(event[6:]) for event in (first + answer.read().decode()).strip().split("\n\n")]
        connection.close()
        self.assertEqual(events[-1]["type"], "transcript.text.done", events)
        self.assertEqual("".join(one["delta"] for one in events[:-1]).strip(), events[-1]["text"])
        return events[-1]["text"]

    def lose_and_find(self, device):
        server = self.start(device)
        expected = self.answers(server)
        self.wait("the device is told", lambda: self.devices(server).get("failing:0"))
        self.assertFalse(self.devices(server)["failing:0"]["lost"])
        self.assertEqual(self.devices(server)["failing:0"]["kind"], "discrete GPU")
        with Load(server, expected) as load:
            self.wait("requests in flight", lambda: server.metric("tessera_running") > 1)
            self.lose_amid_stream(server, list(expected))
            self.wait("the loss is told", lambda: self.devices(server).get("failing:0", {}).get("lost"))
            self.goes_on(load, 3)
            load.pause = 0.5 # what is waited for takes seconds
            reference = self.devices(server)["reference:0"]
            self.assertEqual((reference["lost"], reference["models"]), (False, 1))
            self.wait("it is tried again", lambda: len(self.tries()) >= 3)
            pauses = [b - a for a, b in zip(self.tries(), self.tries()[1:])]
            for i, pause in enumerate(pauses): # of 2, 4 .. seconds, at least
                self.assertGreater(pause, 2.0**(i + 1) - 0.1, pauses)
            os.remove(self.gone)
            self.wait("it is found again", lambda: "is there again" in server.log())
            load.pause = 0.0
            self.wait("and told", lambda: not self.devices(server)["failing:0"]["lost"])
            self.goes_on(load, 1)
        self.assertGreater(self.devices(server)["failing:0"]["bytes"], 0)
        self.conclude(server, load)

    def lose_amid_stream(self, server, lines):
        """Takes the device away when a stream has brought a part of its text, which comes no second time."""
        text = " ".join(line.rstrip(".") + "," for line in lines[:4])
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("POST", "/translate/stream", json.dumps({"q": text, "source": "en", "target": "fr"}),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        first = answer.readline().decode()
        with open(self.gone, "w", encoding="ascii"):
            pass
        events = [event.split("\n") for event in (first + answer.read().decode()).strip().split("\n\n")]
        connection.close()
        self.assertEqual(events[-1][0], "event: done", events)
        pieces = [json.loads(event[0][6:])["text"] for event in events[:-1]]
        self.assertGreater(len(pieces), 4)
        self.assertEqual("".join(pieces), json.loads(events[-1][1][6:])["translatedText"], pieces)

    def tries(self):
        with open(self.gone, encoding="ascii") as file:
            return [float(line) for line in file]

    def test_a_device_that_was_asked_for(self):
        self.lose_and_find("failing")

    def test_a_device_that_auto_took(self):
        self.lose_and_find("auto")

    def test_one_of_two_devices(self):
        self.lose_and_find("failing,reference")

    def test_again_and_again(self):
        """Lost in the middle of work, and there when it is opened anew."""
        server = self.start("failing")
        expected = self.answers(server)
        self.assertEqual(server.end(), 0)
        server = self.start("failing", TESSERA_FAILING_RUNS="150")
        with Load(server, expected) as load:
            self.wait("lost several times", lambda: server.metric("tessera_failures_total") >= 2)
        self.conclude(server, load)
        self.assertIn("the device stopped answering", server.log())

    @unittest.skipUnless("SLOW_WAKE" in os.environ, "needs SLOW_WAKE")
    def test_one_after_the_other(self):
        """The device in the place of one that was lost is lost at once, too, before a thread that waited wakes up."""
        server = self.start("auto", options=["--workers", "2", "--batch", "1"], TESSERA_FAILING_DEVICES="2",
                            TESSERA_FAILING_RUNS="1", LD_PRELOAD=os.environ["SLOW_WAKE"], SLOW_WAKE_MS="1000")
        self.answers(server)
        self.assertIn("going on with failing:1", server.log())
        self.assertIn("going on with reference:0", server.log())
        self.assertEqual(server.end(), 0, server.log())

    def test_not_there_at_the_start(self):
        with open(self.gone, "w", encoding="ascii"):
            pass
        server = self.start("failing")
        expected = self.answers(server)
        self.assertTrue(self.devices(server)["failing:0"]["lost"])
        with Load(server, expected) as load:
            os.remove(self.gone)
            self.wait("it is found", lambda: "is there again" in server.log())
        self.conclude(server, load)


class LostCard(Losing):
    """The Vulkan backend's card, lost at a submit; the first tries to make it anew fail."""

    def start(self, device, **environment):
        statistics = os.path.join(self.folder.name, "statistics.json")
        return self.start_with(device, {"TESSERA_BACKEND_PATH": os.environ["BACKENDS"], "CARD_STATISTICS": statistics,
                                        **environment})

    def calls(self):
        """Of a server that has ended: how often the card was asked for what."""
        with open(os.path.join(self.folder.name, "statistics.json"), encoding="utf-8") as file:
            return json.load(file)["calls"]

    def lose_and_find(self, device):
        server = self.start("vulkan")
        expected = self.answers(server)
        self.assertEqual(server.end(), 0, server.log())
        made, submits = (self.calls()[name] for name in ["device", "lost"])

        # So many submits are more than the opening of the model takes: texts are in hand.
        faults = f"lost:{2 * submits},device:{made + 1},device:{made + 2},lost:{5 * submits}"
        server = self.start(device, CARD_FAULT=faults)
        with Load(server, expected) as load:
            self.wait("the loss is told", lambda: self.devices(server).get("vulkan:0", {}).get("lost"))
            self.goes_on(load, 1)
            cpu = self.devices(server)["cpu:0"]
            self.assertEqual((cpu["lost"], cpu["models"]), (False, 1))
            load.pause = 0.5
            self.wait("it is found again", lambda: "is there again" in server.log())
            load.pause = 0.0
            # In one look: soon it is lost again.
            self.wait("and told", lambda: (lambda one: not one["lost"] and one["bytes"] > 0)(
                self.devices(server)["vulkan:0"]))
            self.wait("it is used, lost and found", lambda: server.log().count("is there again") == 2)
            self.goes_on(load, 1)
        self.assertGreaterEqual(server.metric("tessera_failures_total"), 2)
        self.conclude(server, load)
        self.assertGreaterEqual(self.calls()["device"], made + 4) # of which two made none

    def test_alone(self):
        self.lose_and_find("vulkan")

    def test_beside_another(self):
        self.lose_and_find("vulkan,cpu")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
