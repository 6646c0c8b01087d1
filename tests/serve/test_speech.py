#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what the server hears to what `tessera transcribe` hears. Usage: test_speech.py PROGRAM MODELS [TEST..]"""
import http.client
import io
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import wave

from test_serve import MODELS, PROGRAM, SENTENCE, TRANSLATION, Server, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
SPEECH = os.path.join(os.path.dirname(HERE), "data", "goldens", "speech")
MODEL = os.path.join(SPEECH, "models", "whisper_tiny_random")
HEAR, TRANSLATE = "/v1/audio/transcriptions", "/v1/audio/translations"
BOUNDARY = "----a-boundary"


def sound(name):
    with open(os.path.join(SPEECH, "features", f"{name}.wav"), "rb") as file:
        return file.read()


def long_sound(seconds):
    """The recordings again and again."""
    with wave.open(io.BytesIO(sound("long31"))) as file:
        samples = file.readframes(file.getnframes())
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes((samples * (seconds * 32000 // len(samples) + 1))[: seconds * 32000])
    return data.getvalue()


def form(data, fields):
    parts = [(f'name="{name}"', value.encode()) for name, value in fields]
    parts.append(('name="file"; filename="../../etc/passwd.wav"', data))
    return b"".join(f"--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + value + b"\r\n"
                    for head, value in parts) + f"--{BOUNDARY}--\r\n".encode()


def hear(server, data, path=HEAR, headers=None, **fields):
    """Status and answer; values of fields are texts, or lists of them."""
    pairs = [(name.replace("granularities", "granularities[]"), one) for name, value in fields.items()
             for one in (value if isinstance(value, list) else [value])]
    pairs = pairs if "model" in fields else [("model", "whisper-1"), *pairs]
    got = server.ask("POST", path, form(data, pairs),
                     f"multipart/form-data; boundary={BOUNDARY}", headers)
    return got[0], got[1]


def transcribe(name, *options, output="json"):
    """What the program says of a recording."""
    command = [PROGRAM, "transcribe", os.path.join(SPEECH, "features", f"{name}.wav"), "--model", MODEL, "--device",
               "cpu", "--output", output, *options]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(text) if output == "json" else text


class Speech(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.symlink(MODEL, os.path.join(cls.folder.name, "tiny"))
        os.symlink(os.path.join(MODELS, "demo-model"), os.path.join(cls.folder.name, "demo-model"))
        cls.server = Server("--sound-queue", "16", models=cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.end()
        cls.server.__exit__()
        cls.folder.cleanup()
        assert code == 0, code

    def same(self, got, expected, names):
        """The numbers of a batch of another size may differ in their last digits."""
        self.assertEqual(len(got), len(expected))
        for one, other in zip(got, expected):
            self.assertEqual(sorted(one), sorted(names))
            for name in names:
                if isinstance(one[name], float):
                    self.assertAlmostEqual(one[name], other[name], 4, name)
                else:
                    self.assertEqual(one[name], other[name].strip() if name == "word" else other[name], name)

    def check_verbose(self, name, path, options, **fields):
        expected = transcribe(name, *options)
        status, got = hear(self.server, sound(name), path, response_format="verbose_json",
                           timestamp_granularities=["segment", "word"], **fields)
        self.assertEqual(status, 200, got)
        self.assertEqual(got["text"], expected["text"].strip())
        self.assertAlmostEqual(got["duration"], expected["duration"], 6)
        self.same(got["segments"], expected["segments"],
                  ["id", "seek", "start", "end", "text", "tokens", "temperature", "avg_logprob", "compression_ratio",
                   "no_speech_prob"])
        self.same(got["words"], [word for one in expected["segments"] for word in one["words"]],
                  ["word", "start", "end"])
        return got

    def test_as_the_program(self):
        got = self.check_verbose("fox", HEAR, ["--words"])
        self.assertEqual((got["task"], got["language"]), ("transcribe", "english"))
        got = self.check_verbose("fox", TRANSLATE, ["--words", "--task", "translate"])
        self.assertEqual((got["task"], got["language"]), ("translate", "english"))
        got = self.check_verbose("long31", HEAR, ["--words", "--language", "fr", "--prompt", "A word"], language="fr",
                                 prompt="A word")
        self.assertEqual(got["language"], "french")
        self.assertGreater(len({one["seek"] for one in got["segments"]}), 5)
        self.check_verbose("count", HEAR, ["--words", "--temperature", "0.8,1"], temperature="0.8")
        for one in ["0.85", "0.9", "0.95"]: # a step would lead beyond 1
            self.check_verbose("count", HEAR, ["--words", "--temperature", one], temperature=one)

    def test_languages(self):
        """By code, token or English name, whatever the letters' case; `auto` names none."""
        for same in [["fr", "FR", "<|fr|>", "<|FR|>", "French", "fRENCH"], [[], "auto", "Auto"]]:
            answers = [hear(self.server, sound("bonjour"), language=one, temperature="0") for one in same]
            self.assertEqual(answers[0][0], 200)
            self.assertEqual(answers, [answers[0]] * len(same))

    def test_forms(self):
        for name in ["fox", "long31"]:
            text = transcribe(name)["text"].strip()
            self.assertEqual(hear(self.server, sound(name)), (200, {"text": text}))
            self.assertEqual(hear(self.server, sound(name), response_format="text"), (200, text + "\n"))
            for output in ["srt", "vtt"]:
                self.assertEqual(hear(self.server, sound(name), response_format=output),
                                 (200, transcribe(name, output=output)))
        _, got = hear(self.server, sound("fox"), response_format="verbose_json")
        self.assertTrue("segments" in got and "words" not in got)
        _, got = hear(self.server, sound("fox"), response_format="verbose_json", timestamp_granularities="word")
        self.assertTrue("segments" not in got and "words" in got)

    def test_stream(self):
        text = transcribe("long31")["text"].strip()
        status, got = hear(self.server, sound("long31"), stream="true")
        events = [json.loads(line[6:]) for line in got.split("\n\n") if line]
        self.assertEqual((status, events[-1]), (200, {"type": "transcript.text.done", "text": text}))
        deltas = [one["delta"] for one in events[:-1]]
        self.assertEqual({one["type"] for one in events[:-1]}, {"transcript.text.delta"})
        self.assertGreater(len(deltas), 3)
        self.assertEqual("".join(deltas).strip(), text)

    def test_in_company(self):
        """Those that ask for the same are heard together, and give what they give alone."""
        names = ["fox", "count", "bonjour", "long31"]
        alone = {name: transcribe(name, "--language", "en")["text"].strip() for name in names}
        # A fast machine may have heard each one before the next one comes.
        self.assertTrue(any(self.runs_of(names, alone) < 12 for _ in range(5)), "each one was heard alone")

    def runs_of(self, names, alone):
        before = self.server.metric("tessera_sound_runs_total"), self.server.metric("tessera_sounds_total")
        got = {}

        def ask(i):
            got[i] = hear(self.server, sound(names[-1] if i == 0 else names[i % 4]), language="en")

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
            wait_until("a first one is heard", lambda: self.server.metric("tessera_sounds_running") > 0
                       or len(got) > 0)
        for thread in threads:
            thread.join()
        for i in range(12):
            self.assertEqual(got[i], (200, {"text": alone[names[-1] if i == 0 else names[i % 4]]}))
        sounds = self.server.metric("tessera_sounds_total") - before[1]
        self.assertEqual(sounds, 12)
        wait_until("no place is held", lambda: self.server.metric("tessera_sounds_in_hand") == 0)
        return self.server.metric("tessera_sound_runs_total") - before[0]

    def test_beside_translations(self):
        self.assertEqual(self.server.translate()[1], {"translatedText": TRANSLATION})
        status, languages, _ = self.server.ask("GET", "/languages")
        self.assertEqual((status, [one["code"] for one in languages]), (200, ["en", "fr"]))
        self.assertEqual(self.server.ask("GET", "/frontend/settings")[1]["speechModels"], ["tiny"])
        checked = subprocess.run([PROGRAM, "serve", "--models", self.folder.name, "--direction", "demo-model=en-fr",
                                  "--check"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(checked, "demo-model: en -> fr\ntiny: speech\n")

    def test_the_name_is_no_name(self):
        """What the client calls its file means nothing; its kind is found in its bytes."""
        self.assertEqual(hear(self.server, b"root:x:0:0")[0], 415)
        self.assertEqual(hear(self.server, b"")[0], 400)

    def test_no_sound_and_broken_sounds(self):
        """A sound that holds nothing says nothing; one that is broken is told, wherever that is found."""
        self.assertEqual(hear(self.server, long_sound(0), response_format="verbose_json", language="fr"),
                         (200, {"task": "transcribe", "language": "french", "duration": 0.0, "text": "",
                                "segments": []}))
        fox = sound("fox")
        header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + 4000, b"WAVE", b"fmt ", 16, 3, 1, 16000, 64000, 4, 32,
                             b"data", 4000)
        for broken, message in [(fox[:-100], "the file ends 100 bytes before its samples do"),
                                (header + struct.pack("<f", float("nan")) * 1000, "sample 0 is not finite")]:
            status, got = hear(self.server, broken)
            self.assertEqual((status, got["error"]),
                             (400, {"message": f"Invalid file: {message}", "type": "invalid_request_error",
                                    "param": "file", "code": "invalid_file"}))
            status, got = hear(self.server, broken, stream="true")
            self.assertEqual((status, json.loads(got[6:])["error"]["code"]), (200, "invalid_file"))

    def test_wrong_wishes(self):
        for name, value in [("language", "klingon"), ("prompt", "<|en|>"), ("temperature", "2"),
                            ("response_format", "xml")]:
            status, got = hear(self.server, sound("fox"), **{name: value})
            self.assertEqual((status, got["error"]["param"]), (400, name))

    def test_forms_of_clients(self):
        """Forms as clients write them, by the letter of the rules and beside it."""
        text = transcribe("fox", "--language", "en", "--temperature", "0")["text"].strip()
        kind = f"multipart/form-data; boundary={BOUNDARY}"

        def ask(file, before=b"", content_type=kind):
            parts = [("name=language", b"en"), ("name=temperature", b"0"), (file, sound("fox"))]
            begin, end = f"--{BOUNDARY}\r\nContent-Disposition: form-data; ", f"--{BOUNDARY}--\r\n".encode()
            body = b"".join(f"{begin}{head}\r\n\r\n".encode() + value + b"\r\n" for head, value in parts)
            return self.server.ask("POST", HEAR, before + body + end, content_type)[:2]

        plain = 'name="file"; filename="a.wav"'
        for file in [plain, "name=file; filename=a.wav", "name=file ; filename=a.wav ",
                     'filename="a;b\\"c"; name="file"',
                     "name=\"file\"; filename*=utf-8''%C3%A9.wav",
                     "name=file; filename=a.wav; filename*=utf-8''%C3%A9.wav",
                     f'name="file"; filename="{"%E4%BD%A0" * 85}.wav"']: # a name as long as names of files may be
            self.assertEqual(ask(file), (200, {"text": text}), file)
        for content_type in [kind.replace("multipart/form-data", "Multipart/Form-Data"), f"{kind} ; charset=utf-8",
                             f'multipart/form-data; charset=utf-8; boundary="{BOUNDARY}"']:
            self.assertEqual(ask(plain, content_type=content_type), (200, {"text": text}), content_type)
        # A part whose empty line's end is that of its value, too.
        empty = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name=prompt\r\n\r\n".encode()
        self.assertEqual(ask(plain, empty), (200, {"text": text}))
        self.assertEqual(ask(plain, b"to be skipped\r\n"), (200, {"text": text}))
        status, got = ask("name=file")
        self.assertEqual((status, got["error"]["message"]),
                         (400, "Invalid request: 'file' has no filename, so it is no file"))

    def test_pages_of_other_origins(self):
        """OpenAI's client for JavaScript sends headers of its own (X-Stainless-..), which a browser asks for first."""
        status, _, headers = self.server.ask("OPTIONS", HEAR, headers={
            "Origin": "http://a.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,x-stainless-lang,x-stainless-retry-count"})
        allowed = headers["Access-Control-Allow-Headers"].lower().split(", ")
        self.assertEqual(status, 204)
        self.assertIn("authorization", allowed) # which * does not mean
        self.assertIn("*", allowed)

    def test_a_form_that_was_cut(self):
        """All of the sound is there, and something is missing behind it."""
        body = form(sound("fox"), [])
        for cut, status in [(0, 200), (len(f"--{BOUNDARY}--\r\n"), 400), (2000, 400)]:
            got = self.server.ask("POST", HEAR, body[: len(body) - cut], f"multipart/form-data; boundary={BOUNDARY}")
            self.assertEqual(got[0], status, (cut, got[1]))
            if status == 400:
                self.assertIn("ends before its last delimiter", got[1]["error"]["message"])


class Limits(unittest.TestCase):
    def server(self, *options, models=None, **more):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name in models or ["tiny"]:
            shutil.copytree(MODEL, os.path.join(folder.name, name))
        server = Server(*options, models=folder.name, **more)
        self.addCleanup(server.__exit__)
        return server

    def error(self, got, status, code, message):
        self.assertEqual((got[0], got[1]["error"]["code"]), (status, code), got)
        self.assertRegex(got[1]["error"]["message"], message)

    def test_sizes(self):
        server = self.server("--sound-limit", "1", "--sound-seconds", "3")
        body = form(bytes(1 << 21), [])
        for says_length in [True, False]:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
            if says_length: # refused before it comes
                connection.request("POST", HEAR, headers={**headers, "Content-Length": str(len(body))})
            else:
                connection.request("POST", HEAR, iter([body]), headers, encode_chunked=True)
            answer = connection.getresponse()
            self.error((answer.status, json.loads(answer.read())), 413, None, "too large")
            connection.close()
        self.error(hear(server, long_sound(4)), 413, "audio_too_long", "longer than 3 seconds")
        self.assertEqual(hear(server, long_sound(3))[0], 200)
        # Of a sound that does not say how long it is, the end tells.
        data = bytearray(long_sound(20))
        data[4:8] = data[40:44] = struct.pack("<I", 0xffffffff)
        before = server.metric("tessera_sound_seconds_total")
        self.error(hear(server, bytes(data), temperature="0"), 413, "audio_too_long", "longer than 3 seconds")
        self.assertEqual(server.metric("tessera_sound_seconds_total"), before)

    def test_queue(self):
        """An upload that has not ended holds a place."""
        server = self.server("--sound-queue", "1")
        body = form(sound("fox"), [])
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.putrequest("POST", HEAR)
        connection.putheader("Content-Type", f"multipart/form-data; boundary={BOUNDARY}")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        connection.send(body[:100])
        wait_until("it is in hand", lambda: server.metric("tessera_sounds_in_hand") == 1)
        # Refused before it is read, and read all the same, so that a client that sends all of it first sees the answer.
        refused = server.ask("POST", HEAR, form(long_sound(60), []), f"multipart/form-data; boundary={BOUNDARY}")
        self.assertEqual((refused[0], refused[2]["Retry-After"]), (503, "1"))
        self.assertEqual(refused[1]["error"]["type"], "server_error")
        connection.send(body[100:])
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        self.assertEqual(hear(server, sound("fox"))[0], 200)

    def test_many_together(self):
        """However many ask for the same, none waits until all of those before it have ended."""
        server = self.server("--sound-queue", "100")
        n, answers = 80, []
        with wave.open(io.BytesIO(sound("fox"))) as file:
            samples = file.readframes(4800)
        short = io.BytesIO()
        with wave.open(short, "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", None))
            file.writeframes(samples)
        threads = [threading.Thread(target=lambda data=data, language=language: answers.append(
            hear(server, data, language=language, temperature="1")[0]))
                   for data, language in [(long_sound(900), "fr")] + [(short.getvalue(), "en")] * n]
        threads[0].start()
        wait_until("it is heard", lambda: server.metric("tessera_sounds_running") > 0)
        for thread in threads[1:]:
            thread.start()
        wait_until("all others wait", lambda: server.metric("tessera_sounds_in_hand") == n + 1)
        self.assertEqual(server.metric("tessera_sound_runs_total"), 1)
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [200] * (n + 1))
        self.assertEqual(server.metric("tessera_sound_runs_total"), 2)

    def test_memory(self):
        """A large upload lies in a file, and nothing of it is left."""
        with tempfile.TemporaryDirectory() as folder:
            server = self.server(environment={"TMPDIR": folder})
            self.assertEqual(hear(server, sound("fox"))[0], 200)

            def peak():
                with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
                    return int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) >> 10

            before = peak()
            # Why, depends on the plugins that there are.
            self.error(hear(server, b"no sound" * (11 << 20)), 415, "unsupported_format", "Invalid file format: .")
            self.assertLess(peak() - before, 24)
            self.assertEqual(os.listdir(folder), [])
            wait_until("no place is held", lambda: server.metric("tessera_sounds_in_hand") == 0)
            found = os.listdir(f"/proc/{server.process.pid}/fd")
            links = [os.readlink(f"/proc/{server.process.pid}/fd/{one}") for one in found
                     if os.path.lexists(f"/proc/{server.process.pid}/fd/{one}")]
            self.assertEqual([link for link in links if folder in link], [])

    def test_no_room_for_files(self):
        server = self.server(environment={"TMPDIR": "/nowhere"})
        self.error(hear(server, sound("fox")), 500, None, "cannot be kept")

    def test_models_push_each_other_out(self):
        server = self.server("--memory", "3", "--sound-timeout", "20", models=["one", "two"])

        def states():
            return [model["state"] for model in server.ask("GET", "/status")[1]["models"]]

        self.assertEqual(states(), ["closed", "closed"])
        for name, expected in [("one", ["open", "closed"]), ("two", ["closed", "open"]), ("one", ["open", "closed"])]:
            self.assertEqual(hear(server, sound("fox"), model=name)[0], 200)
            self.assertEqual(states(), expected)
        self.assertEqual(server.metric("tessera_models_evicted_total"), 2)

    def test_without_plugins(self):
        """WAV alone is read then; the message says what is missing, and tells no folder."""
        backends = os.path.join(os.path.dirname(PROGRAM), "..", "..", "backends", "cpu")
        server = self.server(environment={"TESSERA_BACKEND_PATH": os.path.abspath(backends)})
        self.assertEqual(hear(server, sound("fox"))[0], 200)
        self.error(hear(server, b"fLaC" + bytes(100)), 415, "unsupported_format",
                   r"there is no libtessera-audio-sndfile.* \(Debian: tessera-audio[^/]*$")
        self.assertIn("searched: ", server.log())

    def test_a_client_that_leaves(self):
        """A long sound whose client leaves ends, and one that waits behind it is not heard at all."""
        server = self.server(device="reference") # which hears it for long on any machine
        body = form(long_sound(1200), [("model", "a"), ("temperature", "0")])
        connections = []
        for _ in range(2):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            connection.sendall(f"POST {HEAR} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\nContent-Type: "
                               f"multipart/form-data; boundary={BOUNDARY}\r\n\r\n".encode() + body)
            connections.append(connection)
        wait_until("it is heard", lambda: server.metric("tessera_sounds_running") > 0)
        for connection in connections:
            connection.close()
        wait_until("both are left", lambda: server.metric("tessera_sounds_in_hand") == 0)
        self.assertEqual(server.metric("tessera_gone_total"), 2)
        self.assertEqual(server.metric("tessera_sounds_running"), 0)
        self.assertEqual(server.metric("tessera_sound_seconds_total"), 0)

    def test_end(self):
        """SIGTERM: what is in hand is heard to its end, and nothing else is taken."""
        server = self.server(device="reference")
        got = {}
        thread = threading.Thread(target=lambda: got.update(it=hear(server, long_sound(120), temperature="0")))
        thread.start()
        wait_until("it is heard", lambda: server.metric("tessera_sounds_running") > 0 or got)
        self.assertEqual(server.end(), 0)
        thread.join()
        self.assertEqual(got["it"][0], 200)
        self.assertNotEqual(got["it"][1]["text"], "")

    def test_late_in_the_queue(self):
        """What waits behind a long sound is told at its deadline, not behind that sound; clients do not ask again."""
        server = self.server("--sound-timeout", "1.5", device="reference") # no machine hears them in that time
        answers = []
        threads = [threading.Thread(target=lambda one=one: answers.append(
            server.ask("POST", HEAR, form(long_sound(1200), [("language", one)]),
                       f"multipart/form-data; boundary={BOUNDARY}"))) for one in ["en", "de"]]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([(got[0], got[2]["X-Should-Retry"]) for got in answers], [(504, "false")] * 2)
        self.assertLess(time.monotonic() - begin, 30)


if __name__ == "__main__":
    import sys
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
