#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_options.py [N]: every option of every command, as `tessera help --json` lists them: the program takes it,
refuses values outside its range and names that are no choices, and its help text says what it is, on lines of 100
columns at most. N: what is refused is tried with one option in N (1), and what is taken, from 2 on, with all options of
a command at once, since a sanitized program takes long to start."""
import json
import os
import subprocess
import sys

WIDTH = 100
TEXTS = ("text", "file", "folder", "device", "variant", "language")
# Texts of a form of their own, by the last word of the option's name.
FORMS = {"eos": "2", "suppress": "1,2", "begin-suppress": "1", "bad-words": "1 2,3", "product": "4x4x4",
         "attention-heads": "0,2"}
failures = []
n_checks = 0
n_options = 0


def run(words):
    """Exit code, output, messages. A command line that is not refused may begin to work: it has a minute."""
    try:
        result = subprocess.run([os.environ["TESSERA"], *words], stdin=subprocess.DEVNULL, capture_output=True,
                                check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return None, "", "it took more than a minute"
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def check(what, is_good, *details):
    global n_checks
    n_checks += 1
    if not is_good:
        failures.append(what)
        print("FAILED:", what, *details)


def number(value, kind):
    return str(int(value)) if kind == "integer" else repr(value)


def good_value(option):
    kind = option["kind"]
    if kind in ("integer", "number"):
        return number(option.get("low", 1), kind)
    if kind == "choice":
        return next(choice["name"] for choice in option["choices"] if choice["name"])
    return {"precision": "f16"}.get(kind, FORMS.get(option["name"], "x"))


def bad_values(option):
    kind = option["kind"]
    if kind in ("integer", "number"):
        yield "x"
        if "low" in option:
            low, high = option["low"], option["high"]
            yield number(low - 1, kind)
            if high < 2**53:
                yield number(high + 1 if kind == "integer" else high * 2 + 1, kind)
    elif kind in ("choice", "precision"):
        yield "no-such-name"
    if option["is_list"]:
        yield ","


def words_of(option, value):
    name = "--" + option["name"]
    if option["kind"] in ("flag", "switch"):
        return [name]
    return [name, value]


def check_taken(name, options):
    """What comes first on the command line is read first: the complaint is about what follows."""
    words = [word for option in options for word in words_of(option, good_value(option))]
    code, _, errors = run([*name, *words, "--no-such-option"])
    check(f"{' '.join([*name, *words])} is not taken", code == 2 and "there is no option --no-such-option" in errors,
          code, errors)


def check_option(name, option, lines, every):
    global n_options
    what = f"{' '.join(name)} --{option['name']}"
    heads = [line for line in lines if line.startswith(f"  --{option['name']}") and
             line[4 + len(option["name"]):][:1] in ("", " ", "[")]
    check(f"{what}: {len(heads)} lines of the help text begin with it", len(heads) == 1)
    check(f"{what}: no help", len(option["help"]) > 0)
    check(f"{what}: an unknown kind {option['kind']}",
          option["kind"] in ("flag", "switch", "integer", "number", "precision", "choice", *TEXTS))
    check(f"{what}: shells do not complete a path",
          {"FILE": "file", "FOLDER": "folder"}.get(option.get("metavar"), option["kind"]) == option["kind"])
    check(f"{what}: a value without a name in the help text",
          option["kind"] in ("flag", "switch") or option.get("metavar"))
    if option["name"] == "help":
        return
    if every == 1:
        check_taken(name, [option])
    n_options += 1
    if n_options % every != 0:
        return
    for value in bad_values(option):
        code, output, errors = run([*name, f"--{option['name']}={value}"])
        is_refused = code == 2 and f"--{option['name']}: " in errors and not output
        check(f"{what}={value} is not refused", is_refused, code, errors)
    if option["kind"] == "flag":
        code, _, errors = run([*name, f"--{option['name']}=x"])
        check(f"{what}=x is not refused", code == 2 and "takes no value" in errors, code, errors)
    elif option["kind"] != "switch":
        code, _, errors = run([*name, "--" + option["name"]])
        check(f"{what} without a value is not refused", code == 2 and "needs a value" in errors, code, errors)


def check_command(command, every, before=()):
    name = [*before, command["name"]]
    code, text, errors = run([*name, "--help"])
    check(f"{' '.join(name)} --help", code == 0 and not errors, code, errors)
    code, same, _ = run(["help", *name])
    check(f"help {' '.join(name)} is not what --help prints", same == text)
    lines = text.splitlines()
    for line in lines:
        check(f"{' '.join(name)} --help: a line of {len(line)} columns: {line}", len(line) <= WIDTH)
    for line in command["usage"].splitlines():
        check(f"{' '.join(name)} --help lacks the usage {line}", f"tessera {' '.join(name)} {line}".strip() in text)
    names = [option["name"] for option in command["options"]]
    check(f"{' '.join(name)}: an option is there twice", len(names) == len(set(names)), names)
    for option in command["options"]:
        check_option(name, option, lines, every)
    if every > 1:
        check_taken(name, [option for option in command["options"] if option["name"] != "help"])
    for inner in command["commands"]:
        check_command(inner, every, name)


def main():
    code, text, _ = run(["help", "--json"])
    check("help --json", code == 0)
    document = json.loads(text)
    check("not all commands are there", len(document["commands"]) >= 19)
    for command in document["commands"]:
        check_command(command, int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    for words in (["help"], ["help", "environment"]):
        for line in run(words)[1].splitlines():
            check(f"{' '.join(words)}: a line of {len(line)} columns: {line}", len(line) <= WIDTH)
    print(f"{n_checks} checks, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
