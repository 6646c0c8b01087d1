#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks the server with curl, as pages about LibreTranslate do. Usage: test_curl.py PROGRAM MODELS

Each line of the API, as bytes: what curl prints is compared with what is written here."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from test_serve import MODELS, PROGRAM, SENTENCE, TRANSLATION, Server

JSON = ["-H", "Content-Type: application/json"]
ANSWER = f'{{"translatedText":"{TRANSLATION}"}}'


def error(text):
    return json.dumps({"error": text}, separators=(",", ":"))


class Curl(unittest.TestCase):
    def curl(self, server, path, *arguments):
        """What it prints, and the status."""
        command = ["curl", "-sS", "--max-time", "120", "-w", "\n%{http_code}", *arguments,
                   f"http://127.0.0.1:{server.port}{path}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        text, status = done.stdout.rsplit("\n", 1)
        return int(status), text

    def expect(self, server, path, arguments, status, text):
        """text: as it is printed, or a pattern of all of it."""
        with self.subTest(path=path, arguments=arguments):
            got = self.curl(server, path, *arguments)
            if isinstance(text, re.Pattern):
                self.assertEqual(got[0], status, got)
                self.assertRegex(got[1], text)
            else:
                self.assertEqual(got, (status, text))

    def test_translate(self):
        q, pair = f"q={SENTENCE}", ["-d", "source=en", "-d", "target=fr"]
        body = {"q": SENTENCE, "source": "en", "target": "fr"}

        def as_json(**more):
            return [*JSON, "-d", json.dumps({**body, **more})]

        detected = re.compile(r'\{"detectedLanguage":\{"confidence":\d+\.\d+,"language":"en"\},"translatedText":"' +
                              re.escape(TRANSLATION) + '"}')
        query = "/translate?source=en&target=fr&q=The%20museum+is%20worth%20visiting."
        with Server() as server:
            for path, arguments, text in [
                ("/translate", ["-d", q, *pair], ANSWER),
                ("/translate", ["--data-urlencode", q, "-d", "source=EN", "-d", "target=Fr"], ANSWER),
                ("/translate", ["-d", q, *pair, "-d", "format=text"], ANSWER),
                ("/translate", ["-F", q, "-F", "source=en", "-F", "target=fr", "-F", "api_key="], ANSWER),
                (query, ["-X", "POST"], ANSWER), (query, ["-d", ""], ANSWER),
                ("/translate", as_json(), ANSWER),
                ("/translate", as_json(unknown={"field": [1]}, alternatives=0), ANSWER),
                ("/translate", as_json(q=[SENTENCE, ""]), f'{{"translatedText":["{TRANSLATION}",""]}}'),
                ("/translate", as_json(source="auto"), detected),
                ("/translate", as_json(alternatives=2),
                 re.compile(r'\{"alternatives":\["[^"]+"(,"[^"]+")?\],' + re.escape(ANSWER[1:]))),
                ("/translate", as_json(q="<i>1</i>", source="fr", format="html", alternatives=2),
                 '{"alternatives":[],"translatedText":"<i>1</i>"}'),
                ("/translate", as_json(alignment=True),
                 re.compile(re.escape(ANSWER[:-1]) +
                            r',"alignment":\[(\{"target":\[\d+,\d+\],"source":\[\d+,\d+\]\},?)+\]\}')),
            ]:
                self.expect(server, path, arguments, 200, text)
            self.expect(server, "/translate/stream", ["-N", "-d", q, *pair], 200, re.compile(
                r'(data: \{"index":0,"text":"[^"]+"\}\n\n)+event: done\ndata: ' + re.escape(ANSWER) + "\n\n"))

    def test_detect_and_tell(self):
        with Server("--char-limit", "50") as server:
            for path, arguments, text in [
                ("/detect", ["-d", "q=Bonjour tout le monde"],
                 re.compile(r'\[\{"confidence":\d+\.\d+,"language":"fr"\}.*\]')),
                ("/detect", [*JSON, "-d", '{"q": "+ 1"}'], '[{"confidence":0.0,"language":"en"}]'),
                ("/health", [], '{"status": "ok"}'),
                ("/languages", [], '[{"code":"en","name":"English","targets":["en","fr"]},'
                 '{"code":"fr","name":"French","targets":["fr"]}]'),
                ("/languages", ["-X", "GET", *JSON, "-d", "{}"], re.compile(r'\[\{"code":"en",.*')),
                ("/frontend/settings", [], re.compile(
                    r'\{"apiKeys":false,"charLimit":50,"filesTranslation":true,"frontendTimeout":\d+,'
                    r'"keyRequired":false,"language":\{"source":\{"code":"auto","name":"Auto Detect"\},'
                    r'"target":\{"code":"en","name":"English"\}\},"suggestions":false,'
                    r'"supportedFilesFormat":\[.*\],"speechModels":\[\],"soundLimit":\d+\}')),
                ("/spec", [], re.compile(r'\{"openapi":"3\.0\.3".*')),
                ("/metrics", [], re.compile(r'# HELP tessera_requests_total .*', re.S)),
            ]:
                self.expect(server, path, arguments, 200, text)

    def test_files(self):
        with Server() as server, tempfile.TemporaryDirectory() as folder:
            if '"supportedFilesFormat":[]' in self.curl(server, "/frontend/settings")[1]:
                self.skipTest("built without documents")
            name = os.path.join(folder, "a.txt")
            with open(name, "w", encoding="utf-8") as file:
                file.write(SENTENCE + "\n")
            form = ["-F", f"file=@{name}", "-F", "source=en", "-F", "target=fr"]
            status, text = self.curl(server, "/translate_file", *form)
            self.assertEqual(status, 200, text)
            base = f"http://127.0.0.1:{server.port}"
            self.assertRegex(text, rf'^{{"translatedFileUrl":"{base}/download_file/\w+\.txt"}}$')
            path = json.loads(text)["translatedFileUrl"][len(base):]
            self.expect(server, path, [], 200, TRANSLATION + "\n")

    def test_errors(self):
        suggested = ["-d", "q=a", "-d", "s=b", "-d", "source=en", "-d", "target=fr"]
        asked = ["-d", f"q={SENTENCE}", "-d", "source=en", "-d", "target=fr"]
        with Server("--char-limit", "50") as server:
            for path, arguments, status, text in [
                ("/translate", ["-d", "source=en"], 400, "Invalid request: missing q parameter"),
                ("/translate", ["-d", "q=a"], 400, "Invalid request: missing source parameter"),
                ("/translate", ["-d", "q=a", "-d", "source=en"], 400, "Invalid request: missing target parameter"),
                ("/translate", [*asked, "-d", "target=zz"], 200, None), # the first one counts
                ("/translate", ["-d", "q=a", "-d", "source=en", "-d", "target=zz"], 400, "zz is not supported"),
                ("/translate", ["-d", "q=" + "a" * 51, "-d", "source=en", "-d", "target=fr"], 400,
                 "Invalid request: request (51) exceeds text limit (50)"),
                ("/translate", [*JSON, "-d", "{"], 400, "Invalid JSON format"),
                ("/detect", ["-X", "POST"], 400, "Invalid request: missing q parameter"),
                ("/suggest", suggested, 403, "Suggestions are disabled on this server."),
                ("/translate", [], 405, "The method is not allowed for the requested URL."),
                ("/none", [], 404, "There is no such page"),
            ]:
                self.expect(server, path, arguments, status, error(text) if text else ANSWER)
            _, headers = self.curl(server, "/translate", "-X", "OPTIONS", "-D", "-", "-H", "Origin: http://a.example")
            self.assertRegex(headers, r"^HTTP/1\.1 204 [^\0]*\nAccess-Control-Allow-Origin: \*\n")
        with Server("--requests-per-minute", "1") as server:
            self.expect(server, "/translate", asked, 200, ANSWER)
            self.expect(server, "/translate", asked, 429, error("Slowdown: 1 per 1 minute"))
        with tempfile.NamedTemporaryFile("r") as file, Server("--suggestions", file.name) as server:
            self.expect(server, "/suggest", suggested, 200, '{"success":true}')
            self.assertEqual(json.loads(file.read())["s"], "b")

    def test_keys(self):
        made = subprocess.run([PROGRAM, "serve", "--make-key"], capture_output=True, text=True, check=True).stdout
        key, line = re.fullmatch(r"key: (\S+)\n(sha256\S+)\n", made).groups()
        asked = ["-d", f"q={SENTENCE}", "-d", "source=en", "-d", "target=fr"]
        deepl = '{"translations":[{"detected_source_language":"EN","text":"' + TRANSLATION + '"}]}'
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(line + "\n")
            file.flush()
            with Server("--keys", file.name, "--key-required") as server:
                self.expect(server, "/translate", [*asked, "-d", f"api_key={key}"], 200, ANSWER)
                self.expect(server, "/translate", [*asked, "-d", "api_key=a"], 403, error("Invalid API key"))
                self.expect(server, "/translate", asked, 400,
                            error("Please contact the server operator to get an API key"))
                text = json.dumps({"text": [SENTENCE], "target_lang": "FR"})
                for arguments in [[*JSON, "-d", text], ["-d", f"text={SENTENCE}", "-d", "target_lang=FR"]]:
                    header = ["-H", f"Authorization: DeepL-Auth-Key {key}"]
                    self.expect(server, "/v2/translate", [*header, *arguments], 200, deepl)
                    self.expect(server, "/v2/translate", [*header[:1], header[1] + "x", *arguments], 403,
                                '{"message":"Invalid API key"}')


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
