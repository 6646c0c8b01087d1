#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts the server on a free port and holds its API. Usage: test_serve.py PROGRAM MODELS, the folder of demo-model."""
import http.client
import io
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
import urllib.request
import zipfile

PROGRAM, MODELS = sys.argv[1:3]
SENTENCE, TRANSLATION = "The museum is worth visiting.", "Le musée vaut la peine d'être visitée."
FORM = "application/x-www-form-urlencoded"


def wait_until(what, holds, seconds=120):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.01)


def begin_to_translate(server, text):
    """A connection with a request whose answer is not waited for."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=120)
    ask_for(connection, text)
    return connection


def ask_for(connection, text):
    body = json.dumps({"q": text, "source": "en", "target": "fr"}).encode()
    connection.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "
                       b"%d\r\n\r\n" % len(body) + body)


class Server:
    def __init__(self, *options, models=MODELS, device="cpu", environment=None):
        self.errors = tempfile.NamedTemporaryFile("r", prefix="serve")
        with open(self.errors.name, "w", encoding="utf-8") as log:
            command = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--device", device]
            command += ["--direction", "demo-model=en-fr", *options]
            command += ["--models", models] if models else []
            self.process = subprocess.Popen(command, stderr=log, env={**os.environ, **(environment or {})})
        for _ in range(600):
            found = re.search(r"serving on http://127.0.0.1:(\d+)", self.log())
            if found or self.process.poll() is not None:
                break
            time.sleep(0.1)
        if not found:
            raise RuntimeError("the server does not start: " + self.log())
        self.port = int(found.group(1))

    def log(self):
        with open(self.errors.name, encoding="utf-8") as file:
            return file.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.errors.close()

    def ask(self, method, path, body=None, content_type=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = dict(headers or {})
        if isinstance(body, dict):
            body, content_type = json.dumps(body), "application/json"
        if content_type:
            headers["Content-Type"] = content_type
        connection.request(method, path, body.encode() if isinstance(body, str) else body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return answer.status, json.loads(text) if is_json else text, answer.headers

    def translate(self, q=SENTENCE, **more):
        return self.ask("POST", "/translate", {"q": q, "source": "en", "target": "fr", **more})

    def metric(self, name):
        return float(re.search(rf"^{name} (\S+)$", self.ask("GET", "/metrics")[1], re.M).group(1))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=120)


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--char-limit", "2000", "--batch-limit", "3")

    @classmethod
    def tearDownClass(cls):
        code = cls.server.end()
        cls.server.__exit__()
        assert code == 0, code

    def error(self, got, status, message):
        self.assertEqual((got[0], got[1]), (status, {"error": message}))

    def test_parameters_in_each_form(self):
        query = "q=The+museum%20is+worth+visiting.&source=EN&target=fr"
        part = "".join(f'--x\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n'
                       for n, v in [("q", SENTENCE), ("source", "en"), ("target", "fr")]) + "--x--\r\n"
        for got in [self.server.translate(), self.server.ask("POST", "/translate", query, FORM),
                    self.server.ask("POST", "/translate", part, "multipart/form-data; boundary=x"),
                    self.server.ask("POST", "/translate?" + query), self.server.translate(other={"a": [1]})]:
            self.assertEqual((got[0], got[1]), (200, {"translatedText": TRANSLATION}))
            self.assertEqual(got[2]["Access-Control-Allow-Origin"], "*")

    def test_lists_and_lines(self):
        status, got, _ = self.server.translate([SENTENCE, f"\n  {SENTENCE}\t\r\n\n{SENTENCE}", ""])
        self.assertEqual(status, 200)
        self.assertEqual(got["translatedText"], [TRANSLATION, f"\n  {TRANSLATION}\t\r\n\n{TRANSLATION}", ""])

    def test_alternatives_and_detection(self):
        status, got, _ = self.server.translate("The children are playing in the garden.", source="auto", alternatives=2)
        self.assertEqual(status, 200)
        self.assertEqual(got["detectedLanguage"]["language"], "en")
        self.assertTrue(0 < got["detectedLanguage"]["confidence"] <= 100)
        self.assertTrue(1 <= len(set(got["alternatives"]) - {got["translatedText"]}) <= 2)
        got = self.server.ask("POST", "/detect", "q=Bonjour tout le monde, comment allez-vous", FORM)
        self.assertEqual((got[0], got[1][0]["language"]), (200, "fr"))

    def test_continuations_differ_behind_the_prefix(self):
        _, got, _ = self.server.translate(prefix="Le", continuations=4)
        self.assertEqual(got["continuations"][0], got["translatedText"])
        self.assertEqual(len(set(got["continuations"])), len(got["continuations"]))
        self.assertGreaterEqual(len(got["continuations"]), 2)
        self.assertNotIn("alternatives", got)
        for one in got["continuations"]:
            self.assertTrue(one.startswith("Le"), one)

    def test_alignment_has_places_of_words(self):
        _, got, _ = self.server.translate(alignment=True)
        words = {
            SENTENCE[slice(*one["source"])].strip(): TRANSLATION[slice(*one["target"])].strip()
            for one in got["alignment"]
        }
        self.assertEqual(words.get("museum"), "musée")

    def test_errors(self):
        ask = self.server.ask
        for name in ["q", "source", "target"]:
            body = {"q": "a", "source": "en", "target": "fr"}
            del body[name]
            self.error(ask("POST", "/translate", body), 400, f"Invalid request: missing {name} parameter")
        self.error(self.server.translate(target="zz"), 400, "zz is not supported")
        self.error(self.server.translate(source="zz"), 400, "zz is not supported")
        self.error(self.server.translate("a" * 2001), 400, "Invalid request: request (2001) exceeds text limit (2000)")
        self.error(self.server.translate(["a"] * 4), 400, "Invalid request: request (4) exceeds batch limit (3)")
        self.error(ask("POST", "/translate", "{", "application/json"), 400, "Invalid JSON format")
        self.error(self.server.translate(source="fr", target="en"), 400,
                   "English (en) is not available as a target language from French (fr)")
        self.error(ask("POST", "/suggest", {"q": "a"}), 403, "Suggestions are disabled on this server.")
        self.assertEqual(ask("GET", "/none")[0], 404)
        status, _, headers = ask("GET", "/translate")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(ask("OPTIONS", "/translate")[0], 204)
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as large:
            large.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
            self.assertTrue(large.recv(4096).startswith(b"HTTP/1.1 413"))

    def test_what_the_server_tells(self):
        ask = self.server.ask
        self.assertEqual(ask("GET", "/health")[1], {"status": "ok"})
        languages = ask("GET", "/languages", "{}", "application/json")[1]
        self.assertIn({"code": "en", "name": "English", "targets": ["en", "fr"]}, languages)
        settings = ask("GET", "/frontend/settings")[1]
        self.assertEqual((settings["charLimit"], settings["keyRequired"]), (2000, False))
        self.assertIn("/translate", ask("GET", "/spec")[1]["paths"])

    def test_deepl(self):
        status, got, _ = self.server.ask("POST", "/v2/translate", {"text": [SENTENCE], "target_lang": "FR"})
        self.assertEqual(status, 200)
        self.assertEqual(got, {"translations": [{"detected_source_language": "EN", "text": TRANSLATION}]})
        got = self.server.ask("POST", "/v2/translate", {"text": ["a"]})
        self.assertEqual((got[0], list(got[1])), (400, ["message"]))

    def test_stream(self):
        text = f" {SENTENCE}\n\n{SENTENCE} "
        status, got, _ = self.server.ask("POST", "/translate/stream", {"q": text, "source": "en", "target": "fr"})
        events = [e.split("\n") for e in got.strip().split("\n\n")]
        pieces = "".join(json.loads(e[0][6:])["text"] for e in events if len(e) == 1)
        self.assertEqual(status, 200)
        self.assertEqual(pieces, f" {TRANSLATION}\n\n{TRANSLATION} ")
        self.assertEqual(events[-1][0], "event: done")
        self.assertEqual(json.loads(events[-1][1][6:])["translatedText"], pieces)
        self.assertGreater(len(events), 4)

    def needs_documents(self):
        if not self.server.ask("GET", "/frontend/settings")[1]["supportedFilesFormat"]:
            self.skipTest("built without documents")

    def send_file(self, name, content):
        content = content if isinstance(content, bytes) else content.encode()
        part = b"".join(b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % one for one in [
            (b"file", b'; filename="%s"' % name.encode(), content), (b"source", b"", b"en"), (b"target", b"", b"fr")])
        return self.server.ask("POST", "/translate_file", part + b"--x--\r\n", "multipart/form-data; boundary=x")

    def fetch(self, url):
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read()

    def test_files(self):
        self.needs_documents()
        status, got, _ = self.send_file("a.txt", SENTENCE + "\n")
        self.assertEqual(status, 200)
        self.assertEqual(self.fetch(got["translatedFileUrl"]).decode(), TRANSLATION + "\n")
        self.assertEqual(self.server.ask("GET", "/download_file/none.txt")[0], 404)
        word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
        runs = "".join(f"<w:r>{style}<w:t xml:space='preserve'>{text}</w:t></w:r>" for style, text in [
            ("", "The "), ("<w:rPr><w:b/></w:rPr>", "museum"), ("", " is worth visiting.")])
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("[Content_Types].xml", "<Types xmlns='http://schemas.openxmlformats.org/package/2006/"
                             "content-types'><Override PartName='/word/document.xml' ContentType='application/vnd."
                             "openxmlformats-officedocument.wordprocessingml.document.main+xml'/></Types>")
            archive.writestr("word/document.xml",
                             f"<w:document xmlns:w='{word}'><w:body><w:p>{runs}</w:p></w:body></w:document>")
            archive.writestr("word/media/a.png", b"\x89PNG")
        got = self.send_file("b.DOCX", packed.getvalue())
        self.assertEqual(got[0], 200, got)
        with zipfile.ZipFile(io.BytesIO(self.fetch(got[1]["translatedFileUrl"]))) as archive:
            document = archive.read("word/document.xml").decode()
            self.assertEqual(archive.read("word/media/a.png"), b"\x89PNG")
        self.assertEqual("".join(re.findall("<w:t[^>]*>([^<]*)", document)), TRANSLATION)
        self.assertRegex(document, r"<w:b/></w:rPr><w:t[^>]*>musée ?<")
        for name, content in [("b.docx", packed.getvalue()[:200]), ("c.srt", "no subtitles"), ("d.exe", "MZ")]:
            status, got, _ = self.send_file(name, content)
            self.assertEqual(status, 400, got)
            self.assertNotIn("/", got["error"])

    def test_html(self):
        self.needs_documents()
        html = '<p title="a &amp; b">The <b>museum</b> is worth visiting.</p>'
        french = html.replace("The", "Le").replace("museum", "musée").replace("is worth", "vaut la peine d'être")
        french = french.replace("visiting", "visitée")
        self.assertEqual(self.server.translate(html, format="html")[1], {"translatedText": french})
        kept = '<script>var museum;</script><p translate="no">The museum.</p>'
        got = self.server.translate([html, kept, ""], format="HTML", alternatives=2, source="auto")[1]
        self.assertEqual(got["translatedText"], [french, kept, ""])
        self.assertEqual(got["alternatives"], [[], [], []])
        self.assertEqual([one["language"] for one in got["detectedLanguage"]], ["en"] * 3)
        for tags in ["html", "xml"]:
            body = {"text": [html], "target_lang": "FR", "source_lang": "EN", "tag_handling": tags}
            self.assertEqual(self.server.ask("POST", "/v2/translate", body)[1]["translations"][0]["text"], french)
        self.assertEqual(self.server.ask("POST", "/v2/translate", {"text": ["a"], "target_lang": "FR",
                                                                   "tag_handling": "yes"})[0], 400)

    def test_malformed_http(self):
        for bytes_ in [b"\0\1\2\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST /translate HTTP/1.1\r\n"
                       b"Host: a\r\nContent-Length: -5\r\n\r\n", b"GET / HTTP/1.1\r\nA: " + b"a" * 100000]:
            with socket.create_connection(("127.0.0.1", self.server.port)) as s:
                s.settimeout(20)
                try:
                    s.sendall(bytes_)
                    s.shutdown(socket.SHUT_WR)
                    while s.recv(4096):
                        pass
                except OSError:
                    pass
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)


class Life(unittest.TestCase):
    def test_nobody_asks(self):
        """The server sleeps then, with connections that are kept and without."""
        def processor_seconds(server):
            with open(f"/proc/{server.process.pid}/stat", encoding="utf-8") as file:
                user, system = file.read().rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

        with Server() as server:
            self.assertEqual(server.translate()[0], 200)
            kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            for open_connections in range(2):
                if open_connections:
                    kept.request("GET", "/health")
                    kept.getresponse().read()
                time.sleep(0.2)
                before = processor_seconds(server)
                time.sleep(1)
                self.assertLess(processor_seconds(server) - before, 0.1, "a server that is asked nothing works")
            kept.close()
            self.assertEqual(server.end(), 0)

    def test_no_model(self):
        with Server(models=None) as server:
            self.assertIn("--models is missing", server.log())
            self.assertEqual(server.ask("GET", "/languages")[1], [])
            self.assertEqual(server.translate()[0], 400)
            self.assertEqual(server.end(), 0)

    def test_check_of_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            for options, told in [([], "--models is missing"), (["--models", folder], "there is no model folder"),
                                  (["--models", os.path.join(folder, "none")], "none is no folder")]:
                done = subprocess.run([PROGRAM, "serve", "--check", *options], capture_output=True, text=True,
                                      timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
                self.assertIn("no model is served: ", done.stderr)
                self.assertIn(told, done.stderr)

    def test_split(self):
        """A model on several devices; the state lists them."""
        with Server("--split", device="cpu,reference,cpu") as server:
            status, got, _ = server.translate([SENTENCE] * 5)
            self.assertEqual((status, got), (200, {"translatedText": [TRANSLATION] * 5}))
            devices = server.ask("GET", "/status")[1]["devices"]
            self.assertEqual(sorted(one["name"] for one in devices), ["cpu:0", "reference:0"])
            self.assertEqual(server.end(), 0)

    def test_through_a_third_language(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ["first", "second"]:
                os.symlink(os.path.join(MODELS, "demo-model"), os.path.join(folder, name))
            with Server("--direction", "first=en-de", "--direction", "second=de-fr", models=folder) as server:
                status, got, _ = server.translate("Tom is worth visiting.", alignment=True)
                self.assertEqual(status, 200, got)
                self.assertGreater(len(got["alignment"]), 2)
                for one in got["alignment"]:
                    self.assertLess(one["source"][0], one["source"][1])
                    self.assertLessEqual(one["source"][1], len("Tom is worth visiting."))
                    self.assertLessEqual(one["target"][1], len(got["translatedText"]))
                pairs = {"en": {"de", "fr"}, "de": {"fr"}}
                for one in server.ask("GET", "/languages")[1]:
                    self.assertEqual(set(one["targets"]), pairs.get(one["code"], set()) | {one["code"]})

    def test_a_direction_that_is_misspelt(self):
        told = subprocess.run([PROGRAM, "serve", "--models", MODELS, "--direction", "demo=en-fr", "--check"],
                              capture_output=True, text=True, check=False)
        self.assertEqual((told.returncode, told.stdout), (3, ""))
        self.assertIn(f"--direction demo=en-fr: there is no folder {MODELS}/demo\n", told.stderr)
        self.assertIn("nothing says which languages it translates", told.stderr)
        self.assertIn(f"no model is served: the model folders below {MODELS} were left out", told.stderr)
        told = subprocess.run([PROGRAM, "serve", "--models", os.path.join(MODELS, "demo-model"), "--direction",
                               os.path.join(MODELS, "demo-model=en-fr"), "--check"],
                              capture_output=True, text=True, check=True)
        self.assertEqual((told.stdout, told.stderr), (f"{MODELS}/demo-model: en -> fr\n", ""))

    def test_check_tells_what_is_broken(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(MODELS, "demo-model"), os.path.join(folder, "one"))
            os.remove(os.path.join(folder, "one", "model.safetensors"))
            with open(os.path.join(folder, "one", "tessera-serve.json"), "w", encoding="utf-8") as file:
                file.write('{"source": "en", "target": ')
            suggestions = os.path.join(folder, "none", "suggestions")
            done = subprocess.run([PROGRAM, "serve", "--models", folder, "--check", "--suggestions", suggestions],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertIn(f"--suggestions {suggestions}: cannot be written: No such file", done.stderr)
            self.assertEqual((done.returncode, done.stdout), (3, ""))
            self.assertIn(f"{folder}/one has no weights", done.stderr)
            self.assertIn(f"{folder}/one/tessera-serve.json: line 1: ", done.stderr)

    def test_settings_that_mean_nothing(self):
        for option, value, told in [("--direction", "demo-model", "is no FOLDER=SOURCE-TARGET"),
                                    ("--direction", "demo-model=english", "is no FOLDER=SOURCE-TARGET"),
                                    ("--direction", "demo-model=en-", "is no FOLDER=SOURCE-TARGET"),
                                    ("--listen", "5000", "is no ADDRESS:PORT"),
                                    ("--listen", "127.0.0.1:99999", "is no ADDRESS:PORT"),
                                    ("--listen", "127.0.0.1:4294972296", "is no ADDRESS:PORT")]:
            done = subprocess.run([PROGRAM, "serve", "--models", MODELS, option, value], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{option}: '{value}' {told}", done.stderr)

    def test_as_many_events_as_the_library_takes(self):
        """libmicrohttpd takes 128 events at once; so many requests that come at the same time are all answered."""
        ask = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
        with Server() as server:
            clients = []
            for n in range(1, 131):
                clients.append(socket.create_connection(("127.0.0.1", server.port), timeout=20))
                clients[-1].sendall(ask)
                self.assertIn(b"200 OK", clients[-1].recv(4096))
                if n < 126:
                    continue
                server.process.send_signal(signal.SIGSTOP)
                for client in clients:
                    client.sendall(ask)
                server.process.send_signal(signal.SIGCONT)
                for client in clients:
                    self.assertIn(b"200 OK", client.recv(4096), n)
            for client in clients:
                client.close()

    def test_codes_of_scripts_and_regions(self):
        """LibreTranslate tells zh-Hans, zh-Hant and pt-BR since 1.7, and takes its models' zh, zt and pb, too."""
        with tempfile.TemporaryDirectory() as folder:
            names = {"zh-Hans": "Chinese", "zh-Hant": "Chinese (traditional)", "pt-BR": "Portuguese (Brazil)"}
            directions = {"one": "en-zh", "two": "en-zt", "three": "en-pb", "four": "zh-fr"}
            for name in directions:
                os.symlink(os.path.join(MODELS, "demo-model"), os.path.join(folder, name))
            options = [word for pair in directions.items() for word in ("--direction", "=".join(pair))]
            with Server(*options, models=folder) as server:
                languages = {one["code"]: one for one in server.ask("GET", "/languages")[1]}
                self.assertEqual(set(languages), {"en", "fr", *names})
                self.assertEqual({code: languages[code]["name"] for code in names}, names)
                self.assertEqual(set(languages["en"]["targets"]), set(languages))
                self.assertEqual(set(languages["zh-Hans"]["targets"]), {"zh-Hans", "fr"})
                for target in ["zh", "ZH", "zh-Hans", "zh-hans", "zh_Hans", "zh-CN", "zho", "zt", "zh-Hant", "ZH-HANT",
                               "zh-TW", "pb", "pt-BR", "PT-br", "pt_BR"]:
                    self.assertEqual(server.translate(target=target)[:2], (200, {"translatedText": TRANSLATION}))
                for target in ["pt", "zh-Latn"]:
                    self.assertEqual(server.translate(target=target)[:2],
                                     (400, {"error": f"{target} is not supported"}))
                for text, code in [("我们今天下午去图书馆看书。", "zh-Hans"), ("我們今天下午去圖書館看書。", "zh-Hant")]:
                    self.assertEqual(server.ask("POST", "/detect", {"q": text})[1][0]["language"], code)
                _, got, _ = server.translate("我们今天下午去图书馆看书。", source="auto")
                self.assertEqual(got["detectedLanguage"]["language"], "zh-Hans")
                self.assertEqual(server.translate(source="zt")[1]["error"], "French (fr) is not available as a target "
                                 "language from Chinese (traditional) (zh-Hant)")
                for target, source in [("ZH-HANS", "EN"), ("ZH", "EN"), ("PT-BR", "EN"), ("FR", "ZH")]:
                    body = {"text": [SENTENCE], "target_lang": target, "source_lang": source}
                    self.assertEqual(server.ask("POST", "/v2/translate", body)[1]["translations"],
                                     [{"detected_source_language": source, "text": TRANSLATION}])
            with Server("--direction", "one=en-pt", models=folder) as server: # Portuguese is what there is
                for target in ["pt", "pt-BR", "pb"]:
                    self.assertEqual(server.translate(target=target)[:2], (200, {"translatedText": TRANSLATION}))

    def test_keys_and_limits(self):
        made = subprocess.run([PROGRAM, "serve", "--make-key"], capture_output=True, text=True, check=True).stdout
        key, line = re.fullmatch(r"key: (\S+)\n(sha256\S+)\n", made).groups()
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(line + " 3\n")
            file.flush()
            with Server("--keys", file.name, "--key-required") as server:
                self.assertEqual(server.translate()[0], 400)
                self.assertEqual(server.translate(api_key=key + "x")[:2], (403, {"error": "Invalid API key"}))
                self.assertEqual([server.translate(api_key=key)[0] for _ in range(3)], [200] * 3)
                status, got, headers = server.translate(api_key=key)
                self.assertEqual((status, got), (429, {"error": "Slowdown: 3 per 1 minute"}))
                self.assertGreater(int(headers["Retry-After"]), 0)

    def test_overflow_and_recovery(self):
        with Server("--queue", "2", "--beam", "8", device="reference") as server: # slow on any machine
            # Two lines that take long, and whose client leaves in the end.
            holder = begin_to_translate(server, "\n".join([SENTENCE * 5000] * 2))
            wait_until("they are in hand", lambda: server.metric("tessera_lines_in_hand") == 2)
            got = []
            threads = [threading.Thread(target=lambda: got.append(server.translate(SENTENCE + "\n" + SENTENCE)))
                       for _ in range(20)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual([s for s, _, _ in got], [503] * 20, got)
            self.assertTrue(all(h["Retry-After"] for _, _, h in got))
            holder.close()
            wait_until("the queue is free", lambda: server.metric("tessera_lines_in_hand") == 0)
            self.assertEqual(server.translate()[0], 200)

    def test_client_that_leaves(self):
        """With its first request, or with its second one."""
        with Server("--batch", "2", "--timeout", "600", device="reference") as server: # slow on any machine
            def tokens():
                return server.metric("tessera_target_tokens_total")

            server.translate()
            line, lines, first = SENTENCE * 20, 1500, tokens()
            server.translate(line)
            of_line = tokens() - first
            for before in range(2):
                s = socket.create_connection(("127.0.0.1", server.port))
                if before:
                    ask_for(s, SENTENCE)
                    self.assertTrue(s.recv(1 << 16).startswith(b"HTTP/1.1 200"))
                made = tokens()
                ask_for(s, "\n".join([line] * lines))
                wait_until("they are in hand", lambda: server.metric("tessera_lines_in_hand") > 0)
                s.close()
                wait_until("they are left", lambda: server.metric("tessera_lines_in_hand") == 0)
                # Those of a fast machine, too, that has translated some of them before it sees that the client left.
                self.assertLess(tokens() - made, of_line * lines / 2, "they were translated to their end")
                self.assertEqual(server.metric("tessera_gone_total"), before + 1)

    def test_slow_and_idle_clients(self):
        with Server("--request-seconds", "3", "--idle-seconds", "4") as server:
            slow = socket.create_connection(("127.0.0.1", server.port))
            slow.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
            slow.settimeout(20)
            many = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
            self.assertEqual(server.translate()[0], 200)
            start = time.monotonic()
            try:
                for _ in range(250): # a byte now and then does not help
                    slow.sendall(b"a")
                    time.sleep(0.1)
                closed = False
            except OSError:
                closed = True
            self.assertTrue(closed)
            self.assertLess(time.monotonic() - start, 25) # without the option, 30
            for s in [slow, *many]:
                s.close()

    def test_signals_under_load(self):
        with Server() as server:
            server.translate()
            got, refused, lock, stop = [], [], threading.Lock(), threading.Event()

            def ask():
                while not stop.is_set():
                    try:
                        one = server.translate()
                    except ConnectionRefusedError:
                        return
                    except OSError as error:
                        with lock:
                            refused.append(error)
                        return
                    with lock:
                        got.append(one)
                    if one[0] == 503:
                        return

            threads = [threading.Thread(target=ask) for _ in range(8)]
            for t in threads:
                t.start()
            time.sleep(0.5)
            server.process.send_signal(signal.SIGHUP)
            time.sleep(1)
            self.assertTrue(all(s == 200 for s, _, _ in got), got)
            code = server.end()
            stop.set()
            for t in threads:
                t.join()
            self.assertEqual(code, 0)
            self.assertTrue(all((s == 200 and b["translatedText"] == TRANSLATION) or s == 503 for s, b, _ in got))
            # A connection on which the server has read nothing ends: its client finds that out when it sends the
            # headers or the body (BrokenPipeError), or when it reads. No request that was read is refused so.
            unexpected = [e for e in refused if not isinstance(e, (ConnectionResetError, BrokenPipeError))]
            self.assertEqual(unexpected, [])

    def test_configuration(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"char-limit": 5, "key-required": false}')
            file.flush()
            with Server("--config", file.name) as server:
                self.assertEqual(server.translate()[0], 400)
                with open(file.name, "w", encoding="utf-8") as again:
                    again.write("char-limit: 500\n")
                server.process.send_signal(signal.SIGHUP)
                wait_until("the settings are read", lambda: "anew" in server.log())
                self.assertEqual(server.translate()[0], 200)
            with open(file.name, "w", encoding="utf-8") as again:
                again.write("no-such: 1\n")
            done = subprocess.run([PROGRAM, "serve", "--config", file.name], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 3)
            self.assertIn("no setting 'no-such'", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
