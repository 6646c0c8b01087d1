#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds every answer of the server to what its own GET /spec says. Usage: test_spec.py PROGRAM MODELS [TEST..]

Every status of every endpoint must be met, and every way to send a request; so without TEST it fails if one was not."""
import copy
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from spec import SPEC, HeldServer, Validator
from test_serve import MODELS, PROGRAM, SENTENCE, TRANSLATION
from test_speech import long_sound

HERE = os.path.dirname(os.path.abspath(__file__))

# Debian's package openapi-specification. Its python3-jsonschema is for Debian's Python, which the first line names.
OPENAPI = "/usr/share/openapi-specification/schemas/v3.0/schema.json"
JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
KINDS = (JSON, FORM, PARTS, "query")
BASE = {"q": SENTENCE, "source": "en", "target": "fr"}
DEEPL = {"text": SENTENCE, "target_lang": "FR", "source_lang": "EN"}
HTML = "<p>The <b>museum</b> is worth visiting.</p>"
LONG = "\n".join([SENTENCE * 20] * 1500)

# What each endpoint that takes parameters is asked for, at the least.
ASKED = {
    "/translate": BASE, "/translate/stream": BASE, "/detect": {"q": SENTENCE}, "/suggest": {**BASE, "s": TRANSLATION},
    "/translate_file": {"source": "en", "target": "fr"}, "/v2/translate": DEEPL,
    "/v1/audio/transcriptions": {"model": "whisper-1"}, "/v1/audio/translations": {"model": "whisper-1"},
}
SPEECH = os.path.join(os.path.dirname(HERE), "data", "goldens", "speech")
with open(os.path.join(SPEECH, "features", "fox.wav"), "rb") as sound:
    SOUND = [("file", "fox.wav", sound.read())]
FILE = [("file", "a.txt", (SENTENCE + "\n").encode())]


def with_speech(folder):
    """The folder gets the demo's model, and one that hears."""
    os.symlink(os.path.join(MODELS, "demo-model"), os.path.join(folder, "demo-model"))
    os.symlink(os.path.join(SPEECH, "models", "whisper_tiny_random"), os.path.join(folder, "tiny"))
    return folder


def is_openai(path):
    return path.startswith("/v1/")


def ask_plainly(server, method, path, headers=None, key=None):
    """One request that is right, whatever becomes of it."""
    fields = dict(ASKED.get(path, {}))
    if is_openai(path):
        headers = headers or ({"Authorization": "Bearer " + key} if key else None)
        path = path.replace("{name}", "tiny")
        return server.send(path, fields, PARTS, SOUND, headers=headers) if fields else server.ask(
            method, path, headers=headers)
    if key:
        fields["auth_key" if path.startswith("/v2/") else "api_key"] = key
    if path == "/translate_file":
        return server.send(path, fields, PARTS, FILE, headers=headers)
    path = path.replace("{name}", "none")
    if fields:
        return server.send(path, fields, JSON, headers=headers)
    return server.ask(method, path, headers=headers)


class Document(unittest.TestCase):
    def test_document(self):
        with HeldServer() as server:
            _, document, _ = server.ask("GET", "/spec")
            with open(OPENAPI, encoding="utf-8") as file:
                problems = Validator(json.load(file)).iter_errors(document)
            self.assertEqual([f"{list(one.absolute_path)}: {one.message[:200]}" for one in problems], [])
            for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(document)):
                SPEC.resolve({"$ref": reference})
            self.check_names(document)
            version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
            self.assertIn(document["info"]["version"], version)
            # The router's own table is told by the numbers of requests.
            table = re.findall(r'^tessera_requests_total\{method="(\w+)",endpoint="([^"]*)"', server.ask(
                "GET", "/metrics")[1], re.M)
            table = {(method, path + "{name}" if len(path) > 1 and path.endswith("/") else path)
                     for method, path in table}
            self.assertEqual(table, SPEC.operations())
            self.assertTrue(all("options" in item for item in document["paths"].values()))


    def check_names(self, document):
        """What the schema of OpenAPI cannot tell: names that must be there, or must differ."""
        operations = [(path, one) for path, item in document["paths"].items() for one in item.values()]
        names = [one["operationId"] for _, one in operations]
        self.assertEqual(len(names), len(set(names)))
        tags, keys = {one["name"] for one in document["tags"]}, document["components"]["securitySchemes"]
        for path, one in operations:
            placed = {parameter["name"] for parameter in one.get("parameters", ()) if parameter["in"] == "path"}
            self.assertEqual(placed, set(re.findall(r"\{(\w+)\}", path)), path)
            self.assertLessEqual(set(one["tags"]), tags)
            self.assertLessEqual({name for way in one.get("security", ()) for name in way}, set(keys))


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.suggestions = tempfile.NamedTemporaryFile("r")
        cls.server = HeldServer("--char-limit", "2000", "--batch-limit", "3", "--suggestions", cls.suggestions.name)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        code = cls.server.end()
        cls.server.__exit__()
        cls.suggestions.close()
        assert code == 0, code

    def answer(self, path, fields, kind, keys):
        status, got, _ = self.server.send(path, fields, kind)
        self.assertEqual((status, sorted(got)), (200, sorted(keys)), got)
        return got

    def test_translate(self):
        for kind in KINDS:
            def ask(keys, q=SENTENCE, **more):
                return self.answer("/translate", {**BASE, "q": q, **more}, kind, ["translatedText", *keys])

            self.assertEqual(ask([])["translatedText"], TRANSLATION)
            self.assertEqual(ask([], alternatives=0, api_key="")["translatedText"], TRANSLATION)
            self.assertGreater(len(ask(["alternatives"], alternatives=2)["alternatives"]), 0)
            self.assertEqual(ask(["detectedLanguage"], source="auto")["detectedLanguage"]["language"], "en")
            self.assertGreater(len(ask(["alignment"], alignment=True)["alignment"]), 2)
            self.assertGreater(len(ask(["continuations"], prefix="Le", continuations=3)["continuations"]), 1)
            self.assertIn("<b>musée</b>", ask([], HTML, format="html")["translatedText"])
            got = ask(["alternatives", "detectedLanguage"], HTML, format="html", source="auto", alternatives=2)
            self.assertEqual(got["alternatives"], [])
        self.assertEqual(self.server.send("/translate", {**BASE, "api_key": None}, JSON)[0], 200)

    def test_lists(self):
        texts = [SENTENCE, "", "It is good."]
        for more, keys in [({}, []), ({"source": "auto", "alternatives": 1}, ["alternatives", "detectedLanguage"]),
                           ({"alignment": True}, ["alignment"]), ({"continuations": 2}, ["continuations"])]:
            got = self.answer("/translate", {**BASE, "q": texts, **more}, JSON, ["translatedText", *keys])
            self.assertEqual({name: len(value) for name, value in got.items()}, dict.fromkeys(got, len(texts)))
        got = self.answer("/translate", {**BASE, "q": [SENTENCE]}, JSON, ["translatedText"])
        self.assertEqual(got["translatedText"], [TRANSLATION])
        got = self.answer("/translate", {**BASE, "q": [HTML, HTML], "format": "html", "alternatives": 1}, JSON,
                          ["translatedText", "alternatives"])
        self.assertEqual(got["alternatives"], [[], []])

    def test_stream(self):
        for kind in KINDS:
            for more in [{}, {"source": "auto"}, {"alignment": True}, {"prefix": "Le"}]:
                status, got, _ = self.server.send("/translate/stream", {**BASE, **more}, kind)
                self.assertEqual(status, 200)
                self.assertIn("event: done\n", got)
        self.assertEqual(self.server.send("/translate/stream", {**BASE, "q": [SENTENCE, SENTENCE]}, JSON)[0], 200)

    def test_detect(self):
        for kind in KINDS:
            for text, language in [(SENTENCE, "en"), ("Bonjour tout le monde", "fr"), ("+ 12", "en")]:
                status, got, _ = self.server.send("/detect", {"q": text}, kind)
                self.assertEqual((status, got[0]["language"]), (200, language))
                self.assertEqual(got[0]["confidence"] == 0, text == "+ 12")

    def test_suggest(self):
        for kind in KINDS:
            self.assertEqual(self.server.send("/suggest", ASKED["/suggest"], kind)[:2], (200, {"success": True}))
        lines = [json.loads(line) for line in self.suggestions.read().splitlines()]
        self.assertEqual([line["s"] for line in lines], [TRANSLATION] * len(KINDS))

    def test_files(self):
        fields = ASKED["/translate_file"]
        got = [self.server.send("/translate_file", fields, PARTS, FILE),
               self.server.send("/translate_file", {**fields, "source": "auto"}, PARTS, FILE),
               self.server.send("/translate_file?source=en&target=fr", {}, PARTS, FILE)]
        for status, answer, _ in got:
            self.assertEqual(status, 200)
            path = answer["translatedFileUrl"].split(str(self.server.port))[1]
            self.assertEqual(self.server.ask("GET", path)[:2], (200, (TRANSLATION + "\n").encode()))
        self.assertEqual(self.server.ask("GET", "/download_file/none.txt")[0], 404)

    def test_what_is_told(self):
        for method, path in sorted(SPEC.operations()):
            if method == "GET" and path != "/" and "{name}" not in path:
                self.assertEqual(self.server.ask("GET", path)[0], 200, path)
                with_body = self.server.ask("GET", path, "{}", JSON) # as one client does
                self.assertEqual(with_body[0], 200, path)
                connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
                connection.request("HEAD", path)
                answer = connection.getresponse()
                self.assertEqual((answer.status, answer.read()), (200, b""), path)
                self.assertEqual(answer.getheader("Content-Type"), with_body[2]["Content-Type"])
                connection.close()
        for path in ["/v2/languages", "/v2/usage"]:
            for kind in (JSON, FORM):
                self.assertEqual(self.server.ask("POST", path, "{}" if kind == JSON else "", kind)[0], 200)

    def test_page(self):
        for path in ["/", "/app/status", "/app/page.css", "/app/page.js", "/app/recorder.js", "/app/icon.svg"]:
            status, _, headers = self.server.ask("GET", path)
            self.assertEqual(status, 200)
            self.assertEqual(self.server.ask("GET", path, headers={"If-None-Match": headers["ETag"]})[0], 304)
        self.assertEqual(self.server.ask("GET", "/app/none")[0], 404)

    def test_deepl(self):
        for kind in KINDS:
            for more in [{}, {"source_lang": "", "text": [SENTENCE, "It is good."]}]:
                status, got, _ = self.server.send("/v2/translate", {**DEEPL, **more}, kind)
                self.assertEqual((status, got["translations"][0]),
                                 (200, {"detected_source_language": "EN", "text": TRANSLATION}))
                self.assertEqual(len(got["translations"]), len(more.get("text", [0])))
            for tags in ["html", "xml"]:
                got = self.server.send("/v2/translate", {**DEEPL, "text": HTML, "tag_handling": tags}, kind)
                self.assertIn("<b>musée</b>", got[1]["translations"][0]["text"])

    def test_bad_requests(self):
        bodies = [("{", JSON), ("[]", JSON), ("", JSON), ("nothing", PARTS + "; boundary=x"), ("--x\r\n", PARTS),
                  ("nothing=at+all", FORM)]
        for method, path in sorted(SPEC.operations()):
            if "400" not in SPEC.statuses(method, path):
                continue
            for body, kind in bodies:
                got = self.server.ask(method, path, body, kind)[0]
                takes_none = path == "/v2/languages" and body in ("", "nothing=at+all")
                takes_another = is_openai(path) and "boundary" not in kind
                self.assertEqual(got, 200 if takes_none else 415 if takes_another else 400, (path, body))
        wrong = {
            "/translate": [{"source": "zz"}, {"target": "zz"}, {"source": "fr", "target": "en"}, {"q": "a" * 2001},
                           {"q": ["a"] * 4}, {"q": {}}, {"format": "pdf"}, {"alternatives": -1}, {"alternatives": 99},
                           {"alternatives": "two"}, {"continuations": 1}, {"continuations": 33}, {"q": ""},
                           {"source": ""}, {"target": ""}, {"q": "", "format": "html"}],
            "/translate/stream": [{"source": "zz"}, {"alternatives": 2}, {"format": "html"}, {"continuations": 2}],
            "/detect": [{"q": ""}, {"q": "a" * 2001}],
            "/suggest": [{name: ""} for name in ASKED["/suggest"]],
            "/v2/translate": [{"target_lang": "ZZ"}, {"source_lang": "FR", "target_lang": "EN"}, {"target_lang": ""},
                              {"tag_handling": "yes"}, {"source_lang": "ZZ"}],
        }
        for path, cases in wrong.items():
            for case in cases:
                self.assertEqual(self.server.send(path, {**ASKED[path], **case}, JSON)[0], 400, (path, case))
        files = [({}, []), ({"source": "en"}, FILE), ({"target": "fr"}, FILE), ({"source": "en", "target": "zz"}, FILE),
                 (ASKED["/translate_file"], [("file", "a.exe", b"MZ")]),
                 (ASKED["/translate_file"], [("file", "a.txt", b"")]),
                 (ASKED["/translate_file"], [("file", "a.docx", b"no archive")])]
        for fields, file in files:
            self.assertEqual(self.server.send("/translate_file", fields, PARTS, file)[0], 400, (fields, file))
        self.assertEqual(self.server.send("/v2/translate", {**DEEPL, "text": "a" * 2001}, JSON)[0], 413)

    def test_methods(self):
        paths = SPEC.document["paths"]
        for path, item in paths.items():
            real = path.replace("{name}", "none")
            for method in ["GET", "POST", "PUT", "DELETE", "PATCH"]:
                if method.lower() not in item:
                    status, _, headers = self.server.ask(method, real)
                    self.assertEqual((status, set(headers["Allow"].lower().split(", "))),
                                     (405, set(item) - {"options"}), (method, path))
            self.assertEqual(self.server.ask("OPTIONS", real)[0], 204)
        for path in ["/none", "/translate/", "/v2", "//"]:
            with self.assertRaisesRegex(AssertionError, "not in the document"):
                self.server.ask("GET", path)

    def test_large(self):
        for method, path in sorted(SPEC.operations()):
            real = path.replace("{name}", "none")
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            connection.putrequest(method, real)
            connection.putheader("Content-Length", "1000000000")
            connection.endheaders()
            answer = connection.getresponse()
            self.assertEqual(answer.status, 413, path)
            SPEC.hold_answer(method, real, answer.status, answer.headers, answer.read())
            connection.close()


class Speech(unittest.TestCase):
    PATHS = ["/v1/audio/transcriptions", "/v1/audio/translations"]

    def test_forms_and_statuses(self):
        with tempfile.TemporaryDirectory() as models, HeldServer("--sound-seconds", "5",
                                                                 models=with_speech(models)) as server:
            self.assertEqual(server.ask("GET", "/v1/models")[1]["data"][0]["id"], "tiny")
            self.assertEqual(server.ask("GET", "/v1/models/tiny")[0], 200)
            self.assertEqual(server.ask("GET", "/v1/models/none")[0], 404)
            self.assertEqual([one["hears"] for one in server.ask("GET", "/status")[1]["models"]], [False, True])
            for path in self.PATHS:
                def ask(files=tuple(SOUND), path=path, **more):
                    return server.send(path, {"model": "any", **more}, PARTS, files)[:2]

                data = SOUND[0][2]
                nothing = [("file", "a.wav", data[:40] + b"\2\0\0\0" + data[44:46])] # a single sample
                for form in ["text", "srt", "vtt", "json", "verbose_json"]:
                    self.assertEqual(ask(response_format=form)[0], 200)
                    self.assertEqual(ask(nothing, response_format=form)[0], 200)
                self.assertEqual(ask(response_format="verbose_json", temperature="0.4", prompt="A", language="en",
                                     **{"timestamp_granularities[]": ["word", "segment"]})[0], 200)
                self.assertIn("transcript.text.done", ask(stream=True)[1])
                self.assertIn('"error"', ask(stream=True, language="none")[1])
                for more in [{"language": "none"}, {"response_format": "xml"}, {"temperature": "2"},
                             {"temperature": "a"}, {"timestamp_granularities[]": ["word"]},
                             {"stream": True, "response_format": "text"},
                             {"response_format": "verbose_json", "timestamp_granularities[]": ["letter"]}]:
                    self.assertEqual(ask(**more)[0], 400, more)
                self.assertEqual(ask([])[0], 400)
                self.assertEqual(ask([("file", "a.wav", SOUND[0][2][:3000])])[0], 400)
                self.assertEqual(ask(SOUND * 2)[0], 400)
                self.assertEqual(ask([("other", "a.wav", b"")])[0], 400)
                self.assertEqual(ask([("file", "a.wav", b"none " * 100)])[0], 415)
                self.assertEqual(ask(prompt="a" * 70000)[0], 413)
                self.assertEqual(ask(**{f"field{i}": "" for i in range(70)})[0], 400)
                long = os.path.join(SPEECH, "features", "long31.wav")
                with open(long, "rb") as file:
                    self.assertEqual(ask([("file", "a.wav", file.read())])[0], 413)

    def test_models(self):
        with HeldServer() as server:
            for path in self.PATHS:
                self.assertEqual(ask_plainly(server, "POST", path)[0], 404)
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "more"))
            for name in ["one", "more/two"]:
                shutil.copytree(os.path.join(SPEECH, "models", "whisper_tiny_random"), os.path.join(folder, name))
            with HeldServer(models=folder) as server:
                self.assertEqual([one["id"] for one in server.ask("GET", "/v1/models")[1]["data"]], ["more/two", "one"])
                for path in self.PATHS:
                    for name, status in [("one", 200), ("more/two", 200), ("whisper-1", 404), ("", 400)]:
                        self.assertEqual(server.send(path, {"model": name}, PARTS, SOUND)[0], status, name)
                self.assertEqual(server.ask("GET", "/languages")[1], [])
                os.truncate(os.path.join(folder, "one", "model.safetensors"), 1000)
                server.process.send_signal(signal.SIGHUP) # its folder has changed: it is another model, and none
                while "read settings and models anew" not in server.log():
                    time.sleep(0.01)
                self.assertEqual([one["id"] for one in server.ask("GET", "/v1/models")[1]["data"]], ["more/two"])

    def test_refusals(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(SPEECH, "models", "whisper_tiny_random"), os.path.join(folder, "tiny"))
            with HeldServer("--sound-timeout", "0.01", models=folder) as server:
                long = [("file", "long.wav", long_sound(900))] # a single window may be heard within 10 ms
                for path in self.PATHS:
                    self.assertEqual(server.send(path, ASKED[path], PARTS, long)[0], 504)
            with HeldServer(models=folder) as server:
                os.truncate(os.path.join(folder, "tiny", "model.safetensors"), 1000)
                for path in self.PATHS:
                    self.assertEqual(ask_plainly(server, "POST", path)[0], 500)
                self.assertEqual(server.ask("GET", "/status")[1]["models"][0]["state"], "failed")


class Refusals(unittest.TestCase):
    def test_keys(self):
        made = subprocess.run([PROGRAM, "serve", "--make-key"], capture_output=True, text=True, check=True).stdout
        key, line = re.fullmatch(r"key: (\S+)\n(sha256\S+)\n", made).groups()
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(line + "\n")
            file.flush()
            with tempfile.TemporaryDirectory() as models, \
                 HeldServer("--keys", file.name, "--key-required", "--suggestions", os.devnull,
                            models=with_speech(models)) as server:
                needs = {one for one in SPEC.operations() if "429" in SPEC.statuses(*one)}
                self.assertEqual({path for _, path in needs}, {*ASKED, "/v1/models", "/v1/models/{name}"})
                for method, path in sorted(SPEC.operations()):
                    if (method, path) not in needs:
                        self.assertIn(ask_plainly(server, method, path)[0], (200, 404), path)
                        continue
                    missing, wrong = (401, 401) if is_openai(path) else (400, 403)
                    self.assertEqual(ask_plainly(server, method, path)[0], missing)
                    self.assertEqual(ask_plainly(server, method, path, key=key + "x")[0], wrong)
                    self.assertEqual(ask_plainly(server, method, path, key=key)[0], 200)
                    for header in ["DeepL-Auth-Key ", "Bearer "]:
                        self.assertEqual(ask_plainly(server, method, path, {"Authorization": header + key})[0], 200)
                        self.assertEqual(ask_plainly(server, method, path, {"Authorization": header + "x"})[0], wrong)
                self.assertEqual(server.send("/translate", {**BASE, "api_key": key}, "query")[0], 200)

    def test_disabled(self):
        with HeldServer("--files=false", "--metrics=false") as server:
            for path in ["/translate_file", "/suggest", "/metrics", "/status"]:
                self.assertEqual(ask_plainly(server, "POST" if path in ASKED else "GET", path)[0], 403, path)

    def test_slow_down(self):
        with HeldServer("--requests-per-minute", "1") as server:
            self.assertEqual(ask_plainly(server, "POST", "/translate")[0], 200)
            for path in ASKED:
                self.assertEqual(ask_plainly(server, "POST", path)[0], 429, path)
            for path in ["/v1/models", "/v1/models/none"]:
                self.assertEqual(ask_plainly(server, "GET", path)[0], 429, path)
        with HeldServer("--characters-per-minute", "20") as server:
            self.assertEqual(ask_plainly(server, "POST", "/translate")[0], 200) # a full minute's, whatever it is
            self.assertEqual(ask_plainly(server, "POST", "/translate")[1]["error"],
                             "Slowdown: 20 characters per 1 minute")

    def test_broken_model(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(MODELS, "demo-model"), os.path.join(folder, "demo-model"))
            with HeldServer("--suggestions", folder, models=folder) as server:
                os.truncate(os.path.join(folder, "demo-model", "model.safetensors"), 1000)
                for path in ["/translate", "/translate_file", "/v2/translate", "/suggest"]:
                    self.assertEqual(ask_plainly(server, "POST", path)[0], 500, path)
                self.assertIn("event: error\n", ask_plainly(server, "POST", "/translate/stream")[1])
                self.assertEqual(server.ask("GET", "/status")[1]["models"][0]["state"], "failed")

    def test_late(self):
        with HeldServer("--timeout", "0.01") as server:
            for path in ["/translate", "/translate_file", "/v2/translate"]:
                fields = {name: LONG if value == SENTENCE else value for name, value in ASKED[path].items()}
                file = [("file", "a.txt", LONG.encode())]
                if path != "/translate_file":
                    self.assertEqual(server.send(path, fields, JSON)[0], 504, path)
                else:
                    self.assertEqual(server.send(path, fields, PARTS, file)[0], 504)
            self.assertIn("event: error\n", server.send("/translate/stream", {**BASE, "q": LONG}, JSON)[1])

    def test_shutting_down(self):
        """A request whose last bytes come when the server is ending, which other work in hand delays, is told so."""
        with HeldServer("--beam", "8", "--timeout", "600", device="reference") as server: # slow on any machine
            wanted = sorted(SPEC.operations()) + [("OPTIONS", path) for path in sorted(SPEC.document["paths"])]
            connections = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in wanted]
            for (method, path), connection in zip(wanted, connections):
                connection.sendall(f"{method} {path.replace('{name}', 'none')} HTTP/1.1\r\nHost: a\r\n".encode())
            work = threading.Thread(target=self.start_work, args=(server,))
            work.start()
            while server.metric("tessera_lines_in_hand") == 0: # and it has read what came before it was asked
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            with self.assertRaises(ConnectionError): # refused, or reset if it came just before
                while True:
                    socket.create_connection(("127.0.0.1", server.port), timeout=60).close()
                    time.sleep(0.01)
            for (method, path), connection in zip(wanted, connections):
                end = "Content-Length: 2\r\n\r\n{}" if method == "POST" else "\r\n"
                connection.sendall(end.encode())
                answer = http.client.HTTPResponse(connection, method=method)
                answer.begin()
                self.assertEqual(answer.status, 503, path)
                SPEC.hold_answer(method, path.replace("{name}", "none"), 503, answer.headers, answer.read())
                connection.close()
            server.process.kill()
            work.join()

    def start_work(self, server):
        try:
            server.translate(LONG)
        except OSError: # the server is killed
            pass


class Whole(unittest.TestCase):
    """After all others."""

    def test_every_answer_was_met(self):
        wanted, events = set(), set()
        self.collect(wanted, events)
        self.assertEqual(wanted - SPEC.answered, set())
        self.assertEqual(events - SPEC.answered, set())

    def collect(self, wanted, events):
        for path, item in SPEC.document["paths"].items():
            for method, operation in item.items():
                for status, response in operation["responses"].items():
                    for kind, content in (SPEC.resolve(response).get("content") or {"": {}}).items():
                        wanted.add((method.upper(), path, status, kind))
                        events |= {(f"{method.upper()} {path}: {status}", name) for name in content.get("x-events", ())}

    def test_every_way_to_send_was_taken(self):
        wanted = set()
        for path, item in SPEC.document["paths"].items():
            operation = item.get("post", {})
            wanted |= {("POST", path, kind) for kind in operation.get("requestBody", {}).get("content", ())}
            if any(one["in"] == "query" for one in operation.get("parameters", ())):
                wanted.add(("POST", path, "query"))
        self.assertEqual(wanted - SPEC.sent, set())

    def places(self, value, path=()):
        """Of everything within a value: its path."""
        yield path
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, one in inner:
            yield from self.places(one, path + (name,))

    def test_wrong_answers_are_found(self):
        """Each answer of the server, with one thing wrong in it: no schema takes that."""
        self.assertGreater(len(SPEC.samples), 80)
        for (method, path, status), (schema, value) in SPEC.samples.items():
            if path == "/spec" and status == 200:
                continue
            self.assertEqual(SPEC.problems(schema, value), [])
            for place in self.places(value):
                for wrong in self.spoil(value, place):
                    self.assertNotEqual(SPEC.problems(schema, wrong), [], (method, path, status, place, wrong))

    def spoil(self, value, place):
        """The value with another one in this place, and with something too much in it."""
        for change in ["replace", "add"]:
            whole = {"": copy.deepcopy(value)}
            holder, name = whole, ""
            for step in place:
                holder, name = holder[name], step
            one = holder[name]
            if change == "replace":
                # These may be null.
                holder[name] = 0.5 if name in ("param", "code") else None
                yield whole[""]
            elif isinstance(one, dict):
                one["unexpected"] = 1
                yield whole[""]


def load_tests(loader, _tests, _pattern):
    """All of them, in this order."""
    return unittest.TestSuite(loader.loadTestsFromTestCase(one) for one in [Document, Answers, Speech, Refusals, Whole])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
