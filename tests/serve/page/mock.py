#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that speaks the API of `tessera serve` without a model, for the tests of the page. Usage: mock.py [PORT]

It knows some sentences; other words it turns around. What it is to do wrong is told it by POST /mock with a JSON
object: {"fail": [{"path": .., "status": .., "error": .., "retry": .., "times": ..}], "delay": seconds of each answer,
"stream": false, "hold": pieces, after which a stream waits until it is told otherwise, "settings": {..}, "codes":
[languages]}; status 0 cuts the connection. GET /mock tells what it was asked, and forgets it.
"""
import http.server
import importlib.util
import json
import os
import re
import sys
import threading
import time
import urllib.parse

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
PAGE = os.path.join(ROOT, "tools", "tessera", "serve", "page", "embed.py")
POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

NAMES = {"en": "English", "de": "German", "fr": "French", "es": "Spanish", "ja": "Japanese"}
# Pairs of words: "|" cuts what is aligned with the same number on the other side.
SENTENCES = {
    ("en", "fr", "The museum is worth visiting."): (
        "The |museum |is worth |visiting|.", "Le |musée |vaut la peine |d'être visité|."),
    ("en", "de", "The museum is worth visiting."): (
        "The |museum |is worth |visiting|.", "Das |Museum |ist einen |Besuch wert|."),
    ("en", "fr", "It opens at nine."): ("It |opens |at |nine|.", "Il |ouvre |à |neuf heures|."),
    ("en", "fr", "We can walk there in ten minutes."): (
        "We |can walk |there |in |ten |minutes|.", "Nous |pouvons |y aller à pied |en |dix |minutes|."),
    ("en", "fr", "😀😀😀😀 Hello world!"): ("😀😀😀😀 |Hello |world|!", "😀😀😀😀 |Bonjour |le monde| !"),
}
CHOICES = {
    ("The museum is worth visiting.", "Le"): [
        "Le musée vaut la peine d'être visité.", "Le Musée mérite une visite.", "Le site du musée vaut le détour."],
    ("The museum is worth visiting.", "Le musée"): [
        "Le musée vaut la peine d'être visité.", "Le musée mérite d'être visité.", "Le musée est à voir absolument."],
}
ENGLISH = re.compile(r"\b(the|is|it|we|hello|this|and)\b", re.I)
FRENCH = re.compile(r"\b(le|la|est|nous|il|bonjour|une?)\b", re.I)


def load_page():
    spec = importlib.util.spec_from_file_location("embed", PAGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {path: (kind, module.content(path, sources)) for path, kind, sources in module.FILES}, module.entity_tag


def detected(text):
    counts = {"en": len(ENGLISH.findall(text)), "fr": len(FRENCH.findall(text))}
    best = max(counts, key=counts.get)
    return {"confidence": 90.0 if counts[best] else 0.0, "language": best}


def translated(text, source, target):
    """A translation, and its alignment in code points."""
    known = SENTENCES.get((source, target, text))
    if known:
        sides = [part.split("|") for part in known]
        assert "".join(sides[0]) == text, text
    else:
        words = re.findall(r"\S+\s*", text)
        turned = [re.sub(r"\w+", lambda word: word.group()[::-1], word) for word in words]
        sides = [words, turned]
    pairs, ends = [], [0, 0]
    for parts in zip(*sides):
        spans = []
        for side, part in enumerate(parts):
            spans.append([ends[side], ends[side] + len(part.rstrip())])
            ends[side] += len(part)
        if spans[0][0] < spans[0][1] and spans[1][0] < spans[1][1]:
            pairs.append({"target": spans[1], "source": spans[0]})
    return "".join(sides[1]), pairs


def continuations(text, source, target, prefix, count):
    found = CHOICES.get((text, prefix.strip()))
    if not found:
        whole, _ = translated(text, source, target)
        rest = whole[len(prefix) :].lstrip() if whole.startswith(prefix.strip()) else whole
        found = [whole] + [f"{prefix}{rest.split(' ')[0]}{i} et la suite." for i in range(2, 9)]
    return found[:count]


def sound_of(data):
    """The fields of a form with a sound, and what that is."""
    fields = {}
    for part in data.split(data.split(b"\r\n", 1)[0])[1:-1]:
        head, value = part.split(b"\r\n\r\n", 1)
        fields[re.search(rb'name="([^"]*)"', head).group(1).decode()] = value[:-2]
    file = fields.pop("file")
    found = {name: value.decode() for name, value in fields.items()}
    found.update(format=file[:4].decode("latin-1"), size=len(file))
    if found["format"] == "RIFF":
        found["rate"] = int.from_bytes(file[24:28], "little")
        found["peak"] = max(map(abs, memoryview(file[44 : 44 + (len(file) - 44) // 2 * 2]).cast("h")), default=0)
    return found


class State:
    def __init__(self):
        self.lock = threading.Lock()
        self.reset()

    def reset(self):
        self.fail, self.delay, self.stream, self.asked, self.cancelled = [], 0.0, True, [], 0
        self.settings, self.codes, self.documents, self.broken_stream = {}, list(NAMES), {}, 0
        self.readings = self.hold = 0

    def failure(self, path):
        with self.lock:
            for one in self.fail:
                if one["path"] == path and one.get("times", 1) > 0:
                    one["times"] = one.get("times", 1) - 1
                    return one
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state = State()
    page, entity_tag = load_page()

    def log_message(self, *arguments):
        pass

    def answer(self, value, status=200, headers=()):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, text in headers:
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def error(self, status, text):
        self.answer({"error": text}, status)

    def show(self, path):
        kind, data = self.page[path]
        tag = f'"{type(self).entity_tag(data)}"'
        same = self.headers.get("If-None-Match") == tag
        self.send_response(304 if same else 200)
        self.send_header("ETag", tag)
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        if not same:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if not same:
            self.wfile.write(data)

    def is_refused(self, path):
        """True if this request was told to fail, and did."""
        failure = self.state.failure(path)
        if not failure:
            return False
        if failure["status"] == 0:
            self.close_connection = True
            self.connection.close()
            return True
        headers = [("Retry-After", str(failure["retry"]))] if "retry" in failure else []
        self.answer({"error": failure.get("error", "Slowdown: too many requests")}, failure["status"], headers)
        return True

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        state = self.state
        if path == "/mock":
            with state.lock:
                asked, state.asked = state.asked, []
            self.answer({"asked": asked, "cancelled": state.cancelled})
            return
        if self.is_refused(path):
            return
        if path in self.page:
            self.show(path)
        elif path == "/languages":
            codes = state.codes
            self.answer([{"code": one, "name": NAMES.get(one, one), "targets": codes} for one in codes])
        elif path == "/frontend/settings":
            self.answer({
                "charLimit": 2000, "frontendTimeout": 200, "apiKeys": False, "keyRequired": False, "suggestions": False,
                "speechModels": ["whisper-tiny"], "soundLimit": 1,
                "filesTranslation": True, "supportedFilesFormat": [".txt", ".odt", ".docx", ".srt"],
                "language": {"source": {"code": "auto", "name": "Auto"}, "target": {"code": "fr", "name": "French"}},
                **state.settings})
        elif path == "/status":
            self.answer({
                "devices": [{"name": "cpu:0", "kind": "CPU", "lost": False, "bytes": 0, "models": 1},
                            {"name": "vulkan:0 <b>card</b>", "kind": "", "lost": True, "bytes": 6 << 30, "models": 0}],
                "models": [{"name": "opus-mt-en-fr", "state": "open", "bytes": 312 << 20, "sources": 1, "targets": 1},
                           {"name": "broken", "state": "failed", "bytes": 0, "sources": 1, "targets": 1},
                           {"name": "nllb-200-distilled-600M", "state": "closed", "bytes": 0, "sources": 202,
                            "targets": 202}]})
        elif path == "/metrics":
            self.metrics()
        elif path == "/health":
            self.answer({"status": "ok"})
        elif path.startswith("/download_file/") and urllib.parse.unquote(path[15:]) in state.documents:
            data = state.documents[urllib.parse.unquote(path[15:])]
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        else:
            self.error(404, "Not found")

    def metrics(self):
        """Ten seconds of load for each call: a hundred texts of 20 tokens."""
        state = self.state
        with state.lock:
            state.readings += 1
            n = state.readings
        lines = [
            "# TYPE tessera_target_tokens_total counter",
            f"tessera_source_tokens_total {1800 * n}", f"tessera_target_tokens_total {2000 * n}",
            f'tessera_requests_total{{endpoint="/translate",status="2xx"}} {100 * n}',
            f'tessera_requests_total{{endpoint="/metrics",status="2xx"}} {7 * n}',
            f"tessera_step_rows_total {2000 * n}", f"tessera_steps_total {125 * n}",
            f"tessera_waiting {n % 5}", "tessera_running 16",
        ]
        for bound, share in (("0.05", 0), ("0.1", 50), ("0.25", 90), ("0.5", 99), ("+Inf", 100)):
            lines.append(f'tessera_request_seconds_bucket{{endpoint="/translate",le="{bound}"}} {share * n}')
            lines.append(f'tessera_request_seconds_bucket{{endpoint="/health",le="{bound}"}} {1000 * n}')
        data = "\n".join(lines + [""]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        path = urllib.parse.urlsplit(self.path).path
        state = self.state
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if path == "/mock":
            told = json.loads(data)
            with state.lock:
                if told.get("reset"):
                    state.reset()
                for name in ("fail", "delay", "stream", "hold", "settings", "codes", "broken_stream"):
                    if name in told:
                        setattr(state, name, told[name])
            self.answer({"success": True})
            return
        is_json = self.headers.get("Content-Type", "").startswith("application/json")
        body = json.loads(data) if is_json else {}
        if path.startswith("/v1/audio/"):
            body = sound_of(data)
            body["key"] = self.headers.get("Authorization")
        with state.lock:
            state.asked.append({"path": path, "body": body, "time": time.time()})
        if self.is_refused(path):
            return
        if path == "/detect":
            self.answer([detected(body["q"])])
        elif path == "/translate":
            self.translate(body)
        elif path == "/translate/stream" and state.stream:
            self.stream(body)
        elif path == "/translate_file":
            self.translate_file(data)
        elif path.startswith("/v1/audio/"):
            self.hear(body)
        else:
            self.error(404, "Not found")

    def is_gone(self):
        """Waits as long as it was told to; True if the client went away meanwhile."""
        end = time.time() + self.state.delay
        while time.time() < end:
            time.sleep(0.02)
            self.connection.setblocking(False)
            try:
                gone = self.connection.recv(1, 2) == b""  # MSG_PEEK
            except BlockingIOError:
                gone = False
            except OSError:
                gone = True
            finally:
                self.connection.setblocking(True)
            if gone:
                with self.state.lock:
                    self.state.cancelled += 1
                return True
        return False

    def translate(self, body):
        if self.is_gone():
            return
        q, source, target = body["q"], body["source"], body["target"]
        texts = q if isinstance(q, list) else [q]
        if self.state.settings.get("keyRequired") and body.get("api_key") != "secret":
            self.error(403, "Invalid API key")
            return
        made = []
        for text in texts:
            prefix = body.get("prefix", "")
            text_of, pairs = translated(text, source if source != "auto" else detected(text)["language"], target)
            if prefix and not text_of.startswith(prefix.strip()):
                words = prefix.split()
                text_of, pairs = prefix, []
                # The same place on both sides, as far as there are words.
                source_words = [match.span() for match in re.finditer(r"\w+", text)]
                at = 0
                for i, word in enumerate(words):
                    at = prefix.index(word, at)
                    place = source_words[min(i, len(source_words) - 1)]
                    pairs.append({"target": [at, at + len(word)], "source": list(place)})
                    at += len(word)
            made.append((text_of, pairs))
        answer = {"translatedText": [one[0] for one in made] if isinstance(q, list) else made[0][0]}
        if body.get("alignment"):
            answer["alignment"] = [one[1] for one in made] if isinstance(q, list) else made[0][1]
        asked = body.get("continuations")
        if asked:
            found = continuations(q, source, target, body.get("prefix", ""), int(asked))
            answer["translatedText"], answer["continuations"] = found[0], found
        self.answer(answer)

    def stream(self, body):
        if self.is_gone():
            return
        if self.state.settings.get("keyRequired") and body.get("api_key") != "secret":
            self.error(403, "Invalid API key")
            return
        text, pairs = translated(body["q"], body["source"], body["target"])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for n, piece in enumerate(re.findall(r"\S+\s*", text), 1):
                self.wfile.write(f"data: {json.dumps({'text': piece})}\n\n".encode())
                while n == self.state.hold:
                    time.sleep(0.02)
                if self.state.broken_stream > 0:
                    self.state.broken_stream -= 1
                    return
            last = {"translatedText": text}
            if body.get("alignment"):
                last["alignment"] = pairs
            self.wfile.write(f"data: {json.dumps(last)}\n\n".encode())
        except OSError:
            with self.state.lock:
                self.state.cancelled += 1

    def hear(self, body):
        if self.is_gone():
            return
        def refuse(status, message):
            self.answer({"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}},
                        status)
        if self.state.settings.get("keyRequired") and body["key"] != "Bearer secret":
            refuse(401, "Invalid API key")
        elif body["format"] == "none":
            self.answer({"text": "", "segments": []})
        elif body["format"] != "RIFF":
            refuse(415, "Invalid file format: nothing reads it")
        else:
            texts = [(0.3, 1.5, " Hello world."), (61.25, 3723.5, " An arrow ---> here, R&B.")]
            self.answer({"task": "transcribe", "language": "english", "duration": 62, "text": "Hello world. An arrow.",
                         "segments": [{"id": i, "start": start, "end": end, "text": text}
                                      for i, (start, end, text) in enumerate(texts)]})

    def translate_file(self, data):
        if self.is_gone():
            return
        name = re.search(rb'filename="([^"]*)"', data).group(1).decode()
        content = data.split(b"\r\n\r\n", 1)[1].split(b"\r\n--", 1)[0]
        if b"broken" in content:
            self.error(400, "The file is broken")
            return
        made = f"{len(self.state.documents)}-{name}"
        self.state.documents[made] = content[::-1]
        # Another host than the page's, as behind a proxy.
        self.answer({"translatedFileUrl": f"http://127.0.0.1:1/download_file/{urllib.parse.quote(made)}"})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        """A browser that cancels breaks connections: that is no error here."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, ValueError)):
            super().handle_error(request, address)


def serve(port=0):
    server = Server(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    started = serve(int(sys.argv[1]) if len(sys.argv) > 1 else 5001)
    print(f"http://127.0.0.1:{started.server_port}/", flush=True)
    threading.Event().wait()
