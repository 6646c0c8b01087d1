#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tessera report, from outside: its JSON has the form of the schema, its page needs nothing else and has nothing
personal in it, what is wrong is red on it, and reports that are put side by side are what they are.

    test_report.py [SCALE] [sound] [faulty] [vulkan]    all without a name; SCALE: how slow the build is"""
import html.parser
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(os.environ["SOURCE_ROOT"])
TESSERA = os.environ["TESSERA"]
BUILD = pathlib.Path(os.environ["BUILD_ROOT"])
PARTS = ["start", "conformance", "forms", "models", "bleu", "tuning", "operators", "speed", "training"]
NAME = "zaphodbeeblebrox"  # of a user
SCALE = float(sys.argv.pop(1)) if sys.argv[1:] and sys.argv[1].isdigit() else 1.0
wrong = []


def minutes(most):
    return f"{most * SCALE:g}"


def expect(condition, what):
    if not condition:
        wrong.append(what)
        print("FAILED:", what)


def run(code, *words, **environment):
    """The program's outputs; environment: beside what is there."""
    result = subprocess.run([TESSERA, *map(str, words)], capture_output=True, text=True, check=False,
                            env={**os.environ, **environment})
    expect(result.returncode == code, f"{words}: exit code {result.returncode}, not {code}: {result.stderr[-400:]}")
    return result.stdout, result.stderr


class Page(html.parser.HTMLParser):
    """What is open, what is wrong with it, and the text of the elements of a class."""
    VOID = {"meta", "br", "rect"}

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.text, self.classes = [], [], "", []
        self.feed(text)
        self.faults += [f"{tag} is not closed" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        self.faults += [f"{tag}: {name} twice" for name in set(names) if names.count(name) > 1]
        for name, value in attrs:
            if name in ("src", "srcset", "data", "action") or (name == "href" and not value.startswith("#")):
                self.faults.append(f"{tag} refers to {value}")
            if name == "class":
                self.classes.append(value)
        if tag in ("script", "link", "iframe", "img"):
            self.faults.append(f"there is a {tag}")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        self.text += data


def read_page(path):
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    expect(not page.faults, f"{path.name}: {page.faults[:3]}")
    expect(not re.search(r"https?:|url\(|@import", text), f"{path.name} refers to something outside")
    return page, text


def read_report(path):
    report = json.loads(path.read_text(encoding="utf-8"))
    schema = json.loads((ROOT / "tools/tessera/report/schema.json").read_text(encoding="utf-8"))
    try:
        import jsonschema
        errors = list(jsonschema.Draft7Validator(schema).iter_errors(report))
        expect(not errors, f"{path.name} has not the form of the schema: {errors[:2]}")
        del report["devices"][0]["words"]
        expect(not jsonschema.Draft7Validator(schema).is_valid(report), "the schema takes a device without words")
    except ImportError:
        print("the schema is not looked at: there is no python3-jsonschema")
    return json.loads(path.read_text(encoding="utf-8"))


def expect_nothing_personal(text, where, *folders):
    names = [NAME, *folders] + [name for name in {socket.gethostname()} if name not in ("localhost", "")]
    for name in names:
        expect(not re.search(r"(?<![\w-])" + re.escape(str(name)) + r"(?![\w-])", text), f"{where} tells {name}")
    expect(not re.search(r"(?<![\w<])/(home|root|tmp|usr|var|etc)/", text), f"{where} has a path")


def part(device, name):
    return next(one for one in device["parts"] if one["name"] == name)


# ---- a device that is right ------------------------------------------------------------------------------------------

def test_sound(work):
    """On the cpu backend: four parts as long as they need; then all parts in little time, with a backend that is none
    in a folder that gives the user away."""
    page_file, json_file = work / "some.html", work / "some.json"
    run(0, "report", "--minutes", "9", "--device", "cpu", "--ops", "silu,softmax", "--part", "start", "--part",
        "conformance", "--part", "models", "--part", "tuning", "--recorded", ROOT / "tests/data/goldens/models",
        "--out", page_file)
    device, = read_report(json_file)["devices"]
    expect([one["name"] for one in device["parts"]] == ["start", "conformance", "models", "tuning"], "other parts")
    for one in device["parts"]:
        expect(one["state"] == ("left_out" if one["name"] == "tuning" else "passed"), f"{one['name']}: {one['words']}")
        expect(one["seconds"] > 0 and not one["errors"] and not one["cut"], f"{one['name']}: {one}")
    conformance = part(device, "conformance")["results"]
    names = run(0, "check", "--list", "--ops", "silu,softmax", "--random", "20")[0].splitlines()
    expect(conformance["cases"] == len(names), f"{conformance['cases']} cases, not {len(names)}")
    expect(conformance["failed"] == 0 and conformance["drawn"] > 0 and conformance["not_reached"] == 0, "cases failed")
    expect(0 < conformance["largest_error"] < 1, f"the largest error is {conformance['largest_error']} of its bound")
    expect(set(conformance["operators"]) == {"silu", "softmax"}, f"operators: {set(conformance['operators'])}")
    models = part(device, "models")["results"]
    recorded = [path.name for path in (ROOT / "tests/data/goldens/models").iterdir()]
    expect(models["agree"] == len(recorded) == len(models["recordings"]), f"{models['agree']} recordings agree")
    expect(len(models["programs"]) == 5, "other programs than those of the demo model")
    expect(part(device, "tuning")["reason"], "there is no reason why tuning is left out")
    start = part(device, "start")["results"]
    expect([row["cache"] for row in start["rows"]] == ["cold", "warm"] and start["peak_memory"] > 1 << 20, f"{start}")
    page, text = read_page(page_file)
    expect("svg" in text and "WRONG" not in page.text and "silu" in page.text, "the page has no chart, or is red")

    home = work / "home" / NAME
    plugins = home / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "libtessera-backend-broken.so").write_text("this is no library", encoding="utf-8")
    backends = f"{plugins}:{BUILD}/backends/cpu:{BUILD}/backends/reference"
    page_file, all_file = home / "page.html", home / "page.json"
    told, _ = run(0, "report", "--minutes", minutes(0.1), "--device", "cpu", "--out", page_file, "--note",
                  "a busy <machine>", TESSERA_BACKEND_PATH=backends, HOME=str(home), USER=NAME, TMPDIR=str(home))
    report = read_report(all_file)
    device, = report["devices"]
    expect([one["name"] for one in device["parts"]] == PARTS, "the parts are others")
    page, text = read_page(page_file)
    for one in device["parts"]:
        expect(one["state"] in ("passed", "incomplete", "left_out"), f"{one['name']} is {one['state']}: {one['words']}")
        expect(one["words"] in told and one["words"] in page.text, f"{one['name']} is not told")
        expect(one["state"] != "incomplete" or one["cut"] or one["results"].get("not_reached", 0) > 0,
               f"{one['name']}: what there was no time for is not told")
    problem, = report["problems"]
    expect(problem["what"] == "libtessera-backend-broken.so" and problem["message"], f"the problem is {problem}")
    expect(sorted(os.listdir(home)) == ["page.html", "page.json", "plugins"], f"files are left: {os.listdir(home)}")
    expect("a busy <machine>" in page.text, "the page lacks the note")
    expect(problem["message"] in page.text, "the page lacks the problem")
    for where, content in (("the page", text), ("the JSON", all_file.read_text(encoding="utf-8"))):
        expect_nothing_personal(content, where, work)
    return json_file


def test_loader(work):
    """A loader that was started with the program's path is started again, as tools/lab/with needs it."""
    loader, out = pathlib.Path("/lib64/ld-linux-x86-64.so.2"), work / "loaded.html"
    if not loader.exists() or SCALE > 1:
        print("nothing is run by a loader")
        return
    words = [loader, "--inhibit-cache", TESSERA, "report", "--device", "cpu", "--part", "models", "--recorded", work,
             "--minutes", "2", "--out", out]
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env={
        **os.environ, "TESSERA_BACKEND_PATH": f"{BUILD}/backends/cpu:{BUILD}/backends/reference"})
    expect(result.returncode == 0, f"by a loader: exit code {result.returncode}: {result.stderr[-400:]}")
    device, = read_report(out.with_suffix(".json"))["devices"]
    expect(part(device, "models")["state"] == "passed", f"by a loader: {part(device, 'models')['words']}")


# ---- a device that is wrong, lost, or crashes ------------------------------------------------------------------------

def test_faulty(work):
    faulty = {"TESSERA_BACKEND_PATH": f"{os.environ['FAULTY']}:{BUILD}/backends/reference"}
    # products give NaN: the suite is red, and the report goes on
    page_file, json_file = work / "wrong.html", work / "numbers.json"
    run(1, "report", "--minutes", "9", "--device", "faulty", "--part", "conformance", "--part", "models", "--ops",
        "layer,siblings,silu", "--out", page_file, "--json", json_file, "--recorded", work, FAULTY_LINE="", **faulty)
    device, = read_report(json_file)["devices"]
    failures = part(device, "conformance")["results"]["failures"]
    expect(device["state"] == "failed" and "are wrong" in device["words"], f"the verdict is {device['words']}")
    expect(part(device, "conformance")["state"] == "failed", "the suite did not fail")
    expect(failures and all(row["again"].startswith("tessera check --devices faulty:0") for row in failures),
           "no case tells how it is run again")
    expect([one["name"] for one in device["parts"]] == ["conformance", "models"], "the report did not go on")
    page, _ = read_page(page_file)
    failed = part(device, "conformance")["results"]["operators"]["programs"]["failed"]
    expect(0 < failed <= part(device, "conformance")["results"]["failed"], f"{failed} programs failed")
    expect("bad" in page.classes, "the chart is not red")
    expect("card failed" in page.classes and "part failed" in page.classes, "the page is not red")
    expect(failures[0]["case"] in page.text and failures[0]["message"] in page.text, "the page lacks the case")

    for how, word in (("lost", "DEVICE_LOST"), ("crash", "signal 6")):
        out = work / f"{how}.html"
        run(4, "report", "--minutes", "2", "--device", "faulty", "--part", "models", "--recorded", work, "--out", out,
            FAULTY_END=how, **faulty)
        device, = read_report(out.with_suffix(".json"))["devices"]
        expect(device["state"] == "error", f"{how}: the state is {device['state']}")
        message = part(device, "models")["errors"][0]["message"]
        expect(word in message and message.count("faulty:0: ") <= 1, f"{how}: the message is {message}")
        page, _ = read_page(out)
        expect("part error" in page.classes and message in page.text, f"{how}: the page is not red")

    # with a limit of time, each variant has a turn before one has two
    told, _ = run(0, "check", "--devices", "fake", "--variant", "all", "--ops", "siblings,layer", "--minutes", "9",
                  "--json", "--verbose", **faulty)
    variants = [json.loads(line)["variant"] for line in told.splitlines()[:-1]]
    n = len(set(variants))
    expect(n > 1 and len(set(variants[:n])) == n < len(variants), f"the variants come as {variants[:2 * n]}")

    # a device that hangs after some cases: its time ends, and what was seen until then is told
    out = work / "hang.html"
    run(0, "report", "--minutes", minutes(0.1), "--device", "faulty", "--part", "conformance", "--ops", "silu,layer",
        "--out", out, FAULTY_END="hang", **faulty)
    device, = read_report(out.with_suffix(".json"))["devices"]
    conformance = part(device, "conformance")
    expect(conformance["state"] == "incomplete" and conformance["cut"], f"hang: {conformance['words']}")
    expect(conformance["results"].get("operators", {}).get("silu", {}).get("cases", 0) > 0, "hang: no case is told")
    return json_file


def children_of(parent):
    """The processes that one has started, as Linux lists them."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]) == parent:
                found.append(path)
        except OSError:
            pass  # ended meanwhile
    return found


def wait_until(condition, seconds):
    end = time.monotonic() + seconds * SCALE
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def test_killed(work):
    """A report that is killed takes the process of its part with it, even one that hangs."""
    words = [TESSERA, "report", "--minutes", "9", "--device", "faulty", "--part", "conformance", "--ops", "layer",
             "--out", work / "killed.html"]
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, env={
            **os.environ, "TESSERA_BACKEND_PATH": f"{os.environ['FAULTY']}:{BUILD}/backends/reference",
            "FAULTY_END": "hang", "TMPDIR": str(work)}) as report:
        part_of = []

        def is_suite(process):
            try:
                return b"\0check\0" in (process / "cmdline").read_bytes()
            except OSError:
                return False  # ended meanwhile

        def has_part():
            part_of[:] = [path.parent for path in children_of(report.pid) if is_suite(path.parent)]
            return bool(part_of)

        expect(wait_until(has_part, 60), "the suite was not started")
        report.kill()
    expect(wait_until(lambda: not any(path.exists() for path in part_of), 60), "the suite outlives its report")
    for path in part_of:
        if path.exists():
            os.kill(int(path.name), signal.SIGKILL)


# ---- a driver --------------------------------------------------------------------------------------------------------

def test_vulkan(work):
    """The suite on a Vulkan device: right, and with a name of a driver."""
    names = run(0, "devices", "--names")[0].split()
    if "vulkan:0" not in names:
        print("there is no Vulkan device")
        return None
    out = work / "vulkan.html"
    run(0, "report", "--minutes", "9", "--device", "vulkan:0", "--part", "conformance", "--ops", "silu,relu", "--out",
        out)
    device, = read_report(out.with_suffix(".json"))["devices"]
    conformance = part(device, "conformance")
    expect(conformance["state"] == "passed", f"the suite: {conformance['words']}")
    expect(conformance["results"].get("cases", 0) > 0, "no case")
    expect(device["driver"] and device["forms"], "no driver, or no form")
    page, _ = read_page(out)
    expect(device["driver"] in page.text and not {"part failed", "part error"} & set(page.classes), "the page is red")
    return out.with_suffix(".json")


# ---- side by side ----------------------------------------------------------------------------------------------------

def test_compare(work, reports):
    devices = [json.loads(path.read_text(encoding="utf-8"))["devices"][0] for path in reports]
    table, _ = run(0, "report", "compare", *reports)
    markdown, _ = run(0, "report", "compare", "--markdown", *reports)
    page_file = work / "side.html"
    run(0, "report", "compare", *reports, "--out", page_file)
    page, _ = read_page(page_file)
    for device in devices:
        for where, text in (("the table", table), ("Markdown", markdown), ("the page", page.text)):
            expect(device["device"] in text, f"{where} lacks {device['device']}")
    cells = [line.strip("| \n").split(" | ") for line in markdown.splitlines()]
    rows = {row[0]: row[1:] for row in cells}
    expect(all(len(row) == len(devices) + 1 for row in cells if len(row) > 1), "rows of Markdown have other columns")
    verdicts = ["WRONG" if device["state"] == "failed" else "right" for device in devices]
    expect([verdict.split(",")[0] for verdict in rows["verdict"]] == verdicts, f"the verdicts are {rows['verdict']}")
    cases = [str(part(device, "conformance")["results"]["cases"]) for device in devices]
    expect(rows["cases"] == cases, f"the cases are {rows['cases']}, not {cases}")

    sound = json.loads(reports[0].read_text(encoding="utf-8"))
    broken = work / "broken.json"
    for content, word in (("{", "column 1"), ("[]", "format"), ('{"format": "1"}', "format"),
                          (json.dumps({**sound, "format": 2}), "format 2"),
                          (json.dumps({**sound, "devices": [{"name": "x"}]}), "'device' is missing"),
                          (json.dumps({**sound, "minutes": "ten"}), "'minutes' is missing or of another type")):
        broken.write_text(content, encoding="utf-8")
        _, error = run(3, "report", "compare", broken)
        expect(word in error and str(broken) in error, f"{content[:40]}: the message is {error}")
    _, error = run(3, "report", "compare", work / "nothing.json")
    expect("nothing.json" in error, f"a file that is not there: {error}")
    _, error = run(2, "report", "--out", work / "both.json")
    expect("both.json cannot be both the page and the numbers" in error, error)
    _, error = run(4, "report", "--device", "abacus", "--out", work / "none.html")
    expect("there is no device 'abacus'" in error, f"a device that is not there: {error}")


def test_recorded():
    """The reports of tools/reports have the form, nothing personal, and no device that is wrong."""
    files = sorted((ROOT / "tools/reports").glob("*.json"))
    expect(files, "there is no report in tools/reports")
    for path in files:
        for device in read_report(path)["devices"]:
            expect(device["state"] in ("passed", "incomplete"), f"{path.name}: {device['words']}")
        expect_nothing_personal(path.read_text(encoding="utf-8"), path.name)


def main():
    wanted = sys.argv[1:] or ["sound", "faulty", "vulkan"]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        tests = {"sound": test_sound, "faulty": test_faulty, "vulkan": test_vulkan}
        reports = [tests[name](work) for name in wanted]
        if "sound" in wanted:
            test_loader(work)
            test_recorded()
        if "faulty" in wanted:
            test_killed(work)
        if {"sound", "faulty"} <= set(wanted):
            test_compare(work, [path for path in reports if path])
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
