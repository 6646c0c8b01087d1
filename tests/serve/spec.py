# SPDX-License-Identifier: Apache-2.0
"""What GET /spec says, and a server whose every answer is held to it."""
import http.client
import json
import re
import urllib.parse
import warnings

from jsonschema import Draft4Validator, validators

with warnings.catch_warnings():
    # Newer versions of jsonschema than Debian 12's have another way, and still this one.
    warnings.simplefilter("ignore", DeprecationWarning)
    from jsonschema import RefResolver

from test_serve import Server

BOUNDARY = "a-boundary"


def type_or_null(validator, types, instance, schema):
    """OpenAPI 3.0 says `nullable` where JSON Schema has a list of types."""
    if not (instance is None and schema.get("nullable")):
        yield from Draft4Validator.VALIDATORS["type"](validator, types, instance, schema)


Validator = validators.extend(Draft4Validator, {"type": type_or_null})


class Wrong(AssertionError):
    pass


class Spec:
    def __init__(self):
        self.document = None
        self.answered = set() # (method, path, status, content type)
        self.sent = set() # (method, path, content type of the request, or "query")
        self.samples = {} # of answers in JSON, by (method, path, status): (schema, answer)

    def read(self, document):
        """The first server's document; the others' are the same."""
        if self.document is None:
            self.document = document
            self.resolver = RefResolver.from_schema(document)
            self.paths = {
                path: re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)) + "$") for path in document["paths"]
            }
        assert document == self.document

    def resolve(self, node):
        while "$ref" in node:
            node = self.resolver.resolve(node["$ref"])[1]
        return node

    def operations(self):
        """(method, path), the methods in upper case, without OPTIONS."""
        return {(method.upper(), path)
                for path, item in self.document["paths"].items() for method in item if method != "options"}

    def statuses(self, method, path):
        return self.document["paths"][path][method.lower()]["responses"]

    def path_of(self, path):
        """The path of the document, such as /download_file/{name}; None: it has none."""
        path = path.split("?")[0]
        return next((name for name, pattern in self.paths.items() if pattern.match(path)), None)

    def problems(self, schema, value):
        return list(Validator(schema, resolver=self.resolver).iter_errors(value))

    def hold_value(self, what, schema, value):
        for problem in self.problems(schema, value):
            place = "/".join(map(str, problem.absolute_path))
            raise Wrong(f"{what}: at '{place}': {problem.message[:400]}\n{json.dumps(value)[:1000]}")

    def hold_answer(self, method, path, status, headers, body):
        """One answer of the server; returns what it has in JSON, else its text."""
        name = self.path_of(path)
        if name is None:
            raise Wrong(f"{path} is not in the document")
        item = self.document["paths"][name]
        # 405 is an answer of every operation of the path.
        methods = [method.lower()] if method.lower() in item else [m for m in item if m != "options"]
        for one in methods:
            value = self.hold_one(one, name, status, headers, body)
        return value

    def hold_one(self, method, name, status, headers, body):
        what = f"{method.upper()} {name}: {status}"
        responses = self.document["paths"][name][method]["responses"]
        if str(status) not in responses:
            raise Wrong(f"{what} is not in the document: {body[:400]!r}")
        response = self.resolve(responses[str(status)])
        for header, entry in response.get("headers", {}).items():
            entry = self.resolve(entry)
            if headers.get(header) is None:
                raise Wrong(f"{what}: the header {header} is missing")
            self.hold_value(f"{what}, {header}", entry["schema"], headers[header])
        kind = (headers.get("Content-Type") or "").split(";")[0]
        content = response.get("content", {})
        self.answered.add((method.upper(), name, str(status), kind))
        if not content:
            if body or kind:
                raise Wrong(f"{what}: there is a body, {kind}: {body[:400]!r}")
            return ""
        if kind not in content:
            raise Wrong(f"{what}: the content is {kind}: {body[:400]!r}")
        if content[kind]["schema"].get("format") == "binary":
            return body
        text = body.decode()
        value = json.loads(text) if kind == "application/json" else text
        self.hold_value(what, content[kind]["schema"], value)
        if kind == "application/json":
            self.samples[(method.upper(), name, status)] = (content[kind]["schema"], value)
        if kind == "text/event-stream":
            self.hold_events(what, content[kind]["x-events"], text)
        return value

    def hold_events(self, what, schemas, text):
        events = text.split("\n\n")
        if events.pop() != "":
            raise Wrong(f"{what}: the last event is cut: {text[-400:]}")
        last, ends = None, ("done", "error", "transcript.text.done")
        for event in events:
            found = re.fullmatch(r"(?:event: (\w+)\n)?data: ([^\n]*)", event)
            if not found or last in ends:
                raise Wrong(f"{what}: {event[:400]}")
            value = json.loads(found.group(2))
            last = found.group(1) or value.get("type") or ("error" if "error" in value else "message")
            schema = schemas.get(last, {"not": {}})
            self.hold_value(f"{what}, {last}", schema, value)
            self.answered.add((what, last))
        if last not in ends:
            raise Wrong(f"{what}: the stream ends with {last}")

    def hold_request(self, method, path, kind, fields):
        """What a client may send, as the server took it. What the query string has need not be in the body."""
        path, _, query = path.partition("?")
        if query:
            queried = dict(urllib.parse.parse_qsl(query))
            self.hold_request(method, path, "query", queried)
            fields = {**queried, **fields}
        name = self.path_of(path)
        operation = self.document["paths"][name][method.lower()]
        self.sent.add((method, name, kind))
        if kind == "query":
            known = {one["name"]: one["schema"] for one in operation["parameters"] if one["in"] == "query"}
            for field, value in fields.items():
                for one in value if isinstance(value, list) else [value]:
                    self.hold_value(f"{path}?{field}", known.get(field, {"not": {}}), one)
            return
        schema = operation["requestBody"]["content"][kind]["schema"]
        self.hold_value(f"{method} {path} with {kind}", schema, fields)


SPEC = Spec()


def words(value):
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def pairs(fields):
    return [(name, words(one)) for name, value in fields.items()
            for one in (value if isinstance(value, list) else [value])]


def multipart(fields, files=()):
    """The body of a form; files: name, file's name, bytes."""
    parts = [(f'name="{name}"', value.encode()) for name, value in pairs(fields)]
    parts += [(f'name="{name}"; filename="{file}"', data) for name, file, data in files]
    body = b"".join(f"--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + data + b"\r\n"
                    for head, data in parts)
    return body + f"--{BOUNDARY}--\r\n".encode()


class HeldServer(Server):
    def __enter__(self):
        status, text, _ = Server.ask(self, "GET", "/spec")
        assert status == 200
        SPEC.read(text)
        return self

    def ask(self, method, path, body=None, content_type=None, headers=None):
        """As the server's ask, which reads no binary answers."""
        headers = dict(headers or {})
        if isinstance(body, dict):
            body, content_type = json.dumps(body), "application/json"
        if content_type:
            headers["Content-Type"] = content_type
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body.encode() if isinstance(body, str) else body, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, SPEC.hold_answer(method, path, answer.status, answer.headers, data), answer.headers

    def send(self, path, fields, kind, files=(), method="POST", headers=None):
        """Fields in one of the ways in which clients send them; what the server takes is held to the document, too."""
        if kind == "query":
            got = self.ask(method, path + "?" + urllib.parse.urlencode(pairs(fields)), headers=headers)
        elif kind == "application/json":
            got = self.ask(method, path, fields, headers=headers)
        elif kind == "multipart/form-data":
            body = multipart(fields, files)
            got = self.ask(method, path, body, f"multipart/form-data; boundary={BOUNDARY}", headers)
        else:
            got = self.ask(method, path, urllib.parse.urlencode(pairs(fields)), kind, headers)
        if got[0] == 200:
            SPEC.hold_request(method, path, kind, {**fields, **{name: file for name, file, _ in files}})
        return got
