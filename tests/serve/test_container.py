#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the server's Containerfile to the tree and to the packages of Debian, and runs its commands, without a
container runtime. Usage: test_container.py SOURCE BUILD [TEST..]

What the image would have is an installation of BUILD in a folder. What needs the image's own release of Debian, or its
package lists, is left out elsewhere."""
import glob
import http.server
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

SOURCE, BUILD = sys.argv[1:3]
FILE = "tools/tessera/serve/Containerfile"
NOBODY = 65534


def output(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=True, **more).stdout


def read_stages(path):
    """For each stage its instructions: (name, text)."""
    stages = []
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file.read().split("\n") if not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", "").split("\n"):
        name, _, text = line.partition(" ")
        if name == "FROM":
            stages.append([])
        if name:
            stages[-1].append((name, text.strip()))
    return stages


STAGES = read_stages(os.path.join(SOURCE, FILE))


def texts(stage, name):
    return [text for one, text in STAGES[stage] if one == name]


def only(stage, name):
    found = texts(stage, name)
    assert len(found) == 1, (name, found)
    return found[0]


def commands(stage):
    """What the stage's RUN lines run, as words."""
    return [shlex.split(command) for text in texts(stage, "RUN") for command in re.split(r"&&|;", text)]


def installed_packages():
    """Those that the image's apt-get is told to install."""
    (command,) = [one for one in commands(1) if "install" in one and "apt-get" in one]
    return [word for word in command[command.index("install") + 1:] if not word.startswith("-")]


def setup_list(name):
    """A list of tools/setup.sh."""
    with open(os.path.join(SOURCE, "tools", "setup.sh"), encoding="utf-8") as file:
        return re.search(rf"^{name}='([^']*)'", file.read(), re.M).group(1).split()


def is_release(image):
    """Whether this is the Debian of an image such as debian:12-slim."""
    with open("/etc/os-release", encoding="utf-8") as file:
        told = dict(line.strip().split("=", 1) for line in file if "=" in line)
    return image.split("/")[-1].startswith(f"{told.get('ID')}:{told.get('VERSION_ID', '').strip(chr(34))}-")


class Text(unittest.TestCase):
    """What can be told without anything built."""

    def test_both_stages_have_one_base(self):
        bases = [only(stage, "FROM").split()[0] for stage in range(len(STAGES))]
        self.assertEqual((len(bases), len(set(bases))), (2, 1), bases)

    def test_what_is_copied_is_in_the_tree(self):
        for stage in range(2):
            for text in texts(stage, "COPY"):
                *sources, _ = [word for word in text.split() if not word.startswith("--")]
                if text.startswith("--from="):
                    self.assertIn(f" AS {text.split()[0][len('--from='):]}", only(0, "FROM"))
                    continue
                for source in sources:
                    path = os.path.join(SOURCE, source)
                    self.assertTrue(os.path.exists(path), source)
                    if os.path.exists(os.path.join(SOURCE, ".git")):
                        self.assertNotEqual(output("git", "-C", SOURCE, "ls-files", "--", source), "", source)

    def test_it_is_built_with_the_packages_of_the_tree(self):
        self.assertIn(["install_needs", "$packages_build"], commands(0))

    def test_what_tells_ports_and_folders_agrees(self):
        command = json.loads(only(1, "ENTRYPOINT"))
        models, listen = (command[command.index(option) + 1] for option in ["--models", "--listen"])
        self.assertEqual(only(1, "VOLUME"), models)
        self.assertEqual(only(1, "EXPOSE"), listen.split(":")[1])
        self.assertIn(f"/dev/tcp/127.0.0.1/{only(1, 'EXPOSE')};", only(1, "HEALTHCHECK"))
        made = next(one for one in commands(1) if one[0] == "install")
        self.assertEqual(made[-2:], [models, dict([only(1, "ENV").split("=")])["XDG_CACHE_HOME"]])
        user = next(one for one in commands(1) if one[0] == "useradd")
        number = user[user.index("--uid") + 1]
        self.assertEqual(only(1, "USER"), f"{number}:{number}")
        self.assertNotEqual(number, "0")

    def test_packages_exist(self):
        if not glob.glob("/var/lib/apt/lists/*Packages*"):
            self.skipTest("there are no package lists")
        if not is_release(only(1, "FROM")):
            self.skipTest("this is no " + only(1, "FROM"))
        packages = installed_packages()
        told = output("apt-cache", "policy", *packages)
        there = re.findall(r"^(\S+):\n(?:  .*\n)*?  Candidate: [^(\s]", told, re.M)
        self.assertEqual(there, packages)


class Built(unittest.TestCase):
    """The stage that builds, as far as a compiler is needed."""

    def test_what_is_copied_can_be_built(self):
        with tempfile.TemporaryDirectory() as folder:
            for text in texts(0, "COPY"):
                *sources, to = text.split()
                for source in sources:
                    self.copy(source, os.path.join(folder, to))
            (setup,) = [one for one in commands(0) if one[:2] == ["meson", "setup"]]
            made = subprocess.run(setup, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  check=False)
            self.assertEqual(made.returncode, 0, made.stdout[-3000:])
            (compile_all,) = [one for one in commands(0) if one[0] == "ninja"]
            # With -n nothing is run, but each file that is needed has to be there.
            done = subprocess.run([*compile_all, "-n"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:])
            options = json.loads(output("meson", "introspect", "--buildoptions", os.path.join(folder, setup[-1])))
            value = {option["name"]: option["value"] for option in options}
            self.assertEqual((value["buildtype"], value["tests"]), ("release", False))
            (install,) = [one for one in commands(0) if one[1:3] == ["meson", "install"]]
            (copied,) = [text for text in texts(1, "COPY") if text.startswith("--from=")]
            self.assertEqual(copied.split()[1:],
                             [install[0][len("DESTDIR="):] + value["prefix"], value["prefix"]])

    def copy(self, source, to):
        """As COPY does: what is in a folder, or files into a folder."""
        path = os.path.join(SOURCE, source)
        if os.path.isdir(path):
            shutil.copytree(path, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build*", "__pycache__"))
        else:
            os.makedirs(to, exist_ok=True)
            shutil.copy(path, to)


class Ending(http.server.BaseHTTPRequestHandler):
    """What a server answers that ends."""

    def do_GET(self):
        self.send_error(503)

    def log_message(self, *_):
        pass


class Made(unittest.TestCase):
    """What would be in the image."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        environment = {**os.environ, "DESTDIR": cls.folder}
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"], env=environment, check=True)
        (cls.program,) = glob.glob(cls.folder + "/**/bin/tessera", recursive=True)
        # Parts that the image is built without.
        parts = (("png", "component-png"), ("mpi", "comm-mpi"), ("audio", "audio-s*"), ("libav", "audio-libav"))
        for option, name in parts:
            if f"-D{option}=disabled" in " ".join(texts(0, "RUN")):
                for part in glob.glob(f"{cls.folder}/**/libtessera-{name}.so", recursive=True):
                    os.remove(part)
        shutil.copytree(os.path.join(SOURCE, "tools", "demo-model"), os.path.join(cls.folder, "models", "demo-model"))
        for folder, _, names in os.walk(cls.folder): # for whoever runs it
            os.chmod(folder, 0o755)
            for name in names:
                os.chmod(os.path.join(folder, name), 0o755)

    def test_packages_are_those_of_its_libraries(self):
        if not is_release(only(1, "FROM")):
            self.skipTest("this is no " + only(1, "FROM"))
        needed = set()
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    is_program = file.read(4) == b"\x7fELF"
                if is_program:
                    needed |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", file.name)))
        self.assertIn("libmicrohttpd.so.12", needed)
        owners = {self.owner(library) for library in needed
                  if not glob.glob(f"{self.folder}/**/{library}", recursive=True)}
        # Drivers, and a library, that are opened if they are there.
        wanted, named = owners | set(setup_list("packages_run")), set(installed_packages())
        self.assertEqual(named - wanted, set(), "what nothing needs")
        self.assertEqual(wanted - named - self.in_every_image(), set(), "what is needed")

    def owner(self, library):
        """The package of a library that the loader finds by its name."""
        found = set()
        for line in output("dpkg-query", "-S", "*/" + library).splitlines():
            packages, _, path = line.rpartition(": ")
            if re.fullmatch(r"(/usr)?/lib(/[^/]+-linux-gnu)?", os.path.dirname(path)):
                found |= {package.split(":")[0] for package in packages.split(", ")}
        self.assertEqual(len(found), 1, (library, found))
        return found.pop()

    def in_every_image(self):
        """Packages that Debian's images have: the essential ones, apt, and what these need."""
        told = output("dpkg-query", "-W", "-f", "${Package}\t${Essential}\t${Pre-Depends}, ${Depends}\n")
        rows = [line.split("\t") for line in told.splitlines()]
        needs = {package: re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)", more) for package, _, more in rows}
        found, left = set(), ["apt"] + [package for package, essential, _ in rows if essential == "yes"]
        while left:
            package = left.pop()
            if package in needs and package not in found:
                found.add(package)
                left += needs[package]
        return found

    def start(self, *options, **other):
        """The image's command with the image's environment, by a user who owns nothing."""
        given = {"tessera": self.program, "/models": os.path.join(self.folder, "models"), **other}
        command = [given.get(word, word) for word in json.loads(only(1, "ENTRYPOINT"))]
        environment = dict([only(1, "ENV").split("=")], PATH="/usr/bin:/bin")
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        return subprocess.Popen([*command, *options], env=environment, cwd="/", stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **user)

    def is_healthy(self, port):
        command = json.loads(only(1, "HEALTHCHECK").partition(" CMD ")[2])
        command = [word.replace("/5000", f"/{port}") for word in command]
        return subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, stderr=subprocess.DEVNULL, timeout=60,
                              check=False).returncode == 0

    def test_command(self):
        process = self.start("--direction", "demo-model=en-fr", "--check")
        told, errors = process.communicate(timeout=120)
        self.assertEqual((process.returncode, told), (0, "demo-model: en -> fr\n"), errors)

    def test_health(self):
        process = self.start("--direction", "demo-model=en-fr", **{"0.0.0.0:5000": "127.0.0.1:0"})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        port = None
        while port is None:
            line = process.stderr.readline()
            self.assertNotEqual(line, "", "the server has ended")
            port = re.search(r"serving on http://127.0.0.1:(\d+)", line)
        self.assertTrue(self.is_healthy(port.group(1)))
        process.send_signal(signal.SIGTERM)
        process.stderr.close()
        self.assertEqual(process.wait(timeout=120), 0)
        self.assertFalse(self.is_healthy(port.group(1)))
        with http.server.HTTPServer(("127.0.0.1", 0), Ending) as ending:
            threading.Thread(target=ending.serve_forever, daemon=True).start()
            self.assertFalse(self.is_healthy(ending.server_port))
            ending.shutdown()

    def test_the_health_check_needs_no_package(self):
        program = json.loads(only(1, "HEALTHCHECK").partition(" CMD ")[2])[0]
        told = output("dpkg-query", "-S", "/bin/" + program).split(":")[0]
        self.assertEqual(output("dpkg-query", "-W", "-f", "${Essential}", told), "yes")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
