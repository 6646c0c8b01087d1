#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages and completions of the program, from the tables that it reads its command line by.

    make.py --help-json FILE --version V man NAME FILE   the page of tessera, or of the command "translate", "bench ops"
    make.py --help-json FILE bash|zsh|fish FILE          the completion
    make.py --help-json FILE names                       the commands that have a page, a line each

--help-json: what `tessera help --json` prints."""

import argparse
import json
import re
import sys

SEE = "tessera"


def walk(commands, path=()):
    """(words, command) of each command, those within others too."""
    for command in commands:
        words = (*path, command["name"])
        yield words, command
        yield from walk(command.get("commands", []), words)


# ---- man pages ------------------------------------------------------------------------------------------------------


def roff(text):
    """Text as troff reads it, on a line that does not begin with a request."""
    for plain, escaped in ("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha"), ("~", "\\(ti"):
        text = text.replace(plain, escaped)
    text = re.sub(r",(?=\S)", r",\\:", text)  # a list may be broken behind a comma
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in text.split("\n"))


def bold(text):
    return "\\fB" + roff(text) + "\\fR"


def italic(text):
    return "\\fI" + roff(text) + "\\fR"


def paragraphs(text):
    for paragraph in text.strip().split("\n\n"):
        yield ".PP"
        yield roff(" ".join(paragraph.split("\n")))


def title_of(option):
    value = option.get("metavar")
    return bold("--" + option["name"]) + (" " + italic(value) if value else "")


def option_lines(options):
    part = None
    for option in sorted(options, key=lambda option: option.get("part") is not None):
        if option.get("part") != part:
            part = option["part"]
            yield ".SS " + roff(part.split(";")[0].split(".")[0].rstrip(":"))
        yield ".TP"
        yield title_of(option)
        help_text = option["help"]
        yield roff(help_text[0].upper() + help_text[1:] + ".")
        for choice in option.get("choices", []):
            if choice.get("help"):
                yield ".RS"
                yield ".TP"
                yield bold(choice["name"])
                yield roff(choice["help"])
                yield ".RE"


def header(name, version):
    return [f'.TH {name.upper().replace(" ", "-")} 1 "" "tessera {version}" "Tessera"', ".ad l", ".nh"]


def environment_lines(variables):
    for variable in variables:
        yield ".TP"
        yield bold(variable["name"])
        yield roff(f"{variable['meaning']} (read by {variable['reader']})")


def exit_lines(codes):
    for code in codes:
        yield ".TP"
        yield bold(str(code["code"]))
        yield roff(code["meaning"])


def main_page(told, version):
    lines = header("tessera", version)
    lines += [".SH NAME", "tessera \\- run, train and check encoder\\-decoder Transformers on GPUs and CPUs",
              ".SH SYNOPSIS", f"{bold('tessera')} {italic('COMMAND')} [{italic('OPTION')}]...", ".SH DESCRIPTION"]
    lines += paragraphs("Runs and trains encoder-decoder Transformers on GPUs (Vulkan) and CPUs, and checks that two "
                        "backends compute the same. Each command has a page of its own: tessera-COMMAND(1).")
    lines += [".SH COMMANDS"]
    for command in told["commands"]:
        lines += [".TP", bold(command["name"]), roff(command["summary"])]
    lines += [".SH ENVIRONMENT", *environment_lines(told["environment"])]
    lines += [".SH EXIT STATUS", *exit_lines(told["exit_codes"])]
    pages = [f"tessera-{command['name']}(1)" for command in told["commands"]]
    return lines + [".SH SEE ALSO", roff(", ".join(pages))]


def command_page(told, words, command, version):
    name = "-".join((SEE, *words))
    called = " ".join((SEE, *words))
    inner = command.get("commands", [])
    summary = command.get("summary") or command["intro"].split(".")[0].split("\n")[0]
    summary = summary[0].lower() + summary[1:]
    lines = header(name, version) + [".SH NAME", f"{roff(name)} \\- {roff(summary)}", ".SH SYNOPSIS"]
    for usage in command["usage"].split("\n"):
        lines += [bold(called) + " " + roff(usage), ".br"]
    for other in inner:
        lines += [bold(f"{called} {other['name']}") + " " + roff(other["usage"].split("\n")[0]), ".br"]
    lines += [".SH DESCRIPTION", *paragraphs(command["intro"])]
    if command.get("options"):
        lines += [".SH OPTIONS", *option_lines(command["options"])]
    if command.get("notes"):
        lines += [".SH NOTES", *paragraphs(command["notes"])]
    if command.get("examples"):
        lines += [".SH EXAMPLES", ".nf", roff(command["examples"].rstrip("\n")), ".fi"]
    lines += [".SH EXIT STATUS", *exit_lines(told["exit_codes"])]
    others = ["tessera(1)"] + [f"{name}-{other['name']}(1)" for other in inner]
    return lines + [".SH SEE ALSO", roff(", ".join(others))]


def man(told, words, version):
    if words == [SEE]:
        return main_page(told, version)
    for path, command in walk(told["commands"]):
        if list(path) == words:
            return command_page(told, path, command, version)
    sys.exit(f"make.py: there is no command '{' '.join(words)}'")


# ---- completions ----------------------------------------------------------------------------------------------------


def values_of(option):
    """What completes an option's value: words, or "file", "folder", "device"; None where nothing does."""
    kind = option["kind"]
    if kind in ("choice", "set"):
        return [choice["name"] for choice in option["choices"] if choice["name"]]
    if kind == "precision":
        return ["f32", "f16", "bf16", "int8"]
    return kind if kind in ("file", "folder", "device") else None


def takes_value(option):
    return option["kind"] not in ("flag", "switch")


def named(words, told):
    """The names of the commands within the command of those words."""
    if not words:
        return [command["name"] for command in told["commands"]]
    found = next(command for path, command in walk(told["commands"]) if path == words)
    return [command["name"] for command in found.get("commands", [])]


BASH = """# bash completion of tessera: written by tools/manual/make.py

_tessera()
{
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command= word options= inner=
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$command $word" in
@WORDS@
    esac
  done
  case "$command" in
@COMMANDS@
  esac
  case "$command $previous" in
@VALUES@
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$inner" -- "$current")
  if [ -n "$command" ] && [ "$command" != help ]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
  fi
}

complete -F _tessera tessera"""


def inner_of(path, told):
    """What may follow the words of a command, options and files left out."""
    topics = [*named((), told), "environment", "operators"] if path == ("help",) else []
    return " ".join([*named(path, told), *topics])


def bash(told):
    words, commands, values = [], [f"  '') inner='{inner_of((), told)}' options='--help --version' ;;"], []
    for path, command in walk(told["commands"]):
        called, options = " ".join(path), command.get("options", [])
        names = " ".join("--" + option["name"] for option in options)
        words.append(f"    '{' '.join(path[:-1])} {path[-1]}') command='{called}' ;;")
        commands.append(f"  '{called}') inner='{inner_of(path, told)}' options='{names} --help' ;;")
        values += [f"  '{called} --{option['name']}') {bash_values(values_of(option))} ;;"
                   for option in options if takes_value(option)]
    text = BASH.replace("@WORDS@", "\n".join(words)).replace("@COMMANDS@", "\n".join(commands))
    return text.replace("@VALUES@", "\n".join(values)).split("\n")


def bash_values(values):
    if values is None:
        return "return"
    if values == "file":
        made = "compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$current\")"
    elif values == "folder":
        made = "compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- \"$current\")"
    elif values == "device":
        made = "mapfile -t COMPREPLY < <(compgen -W \"auto $(tessera devices --names 2>/dev/null)\" -- \"$current\")"
    else:
        made = f"mapfile -t COMPREPLY < <(compgen -W '{' '.join(values)}' -- \"$current\")"
    return made + "; return"


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def short(text):
    """The first words of a help text, on one line."""
    return text.split(";")[0].split("\n")[0]


def about(command):
    return short(command.get("summary") or command["intro"])


def zsh_option(option):
    text = short(option["help"]).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    values = values_of(option)
    action = {"file": "_files", "folder": "_files -/", "device": "_tessera_devices"}.get(
        values if isinstance(values, str) else None, " ")
    if isinstance(values, list):
        action = "(" + " ".join(values) + ")"
    repeats = "*" if option.get("repeats") else ""
    value = f":{(option.get('metavar') or 'value').replace(':', ' ')}:{action}" if takes_value(option) else ""
    return quoted(f"{repeats}--{option['name']}[{text}]{value}")


def zsh_commands(commands, indent):
    rows = [quoted(command["name"] + ":" + about(command)) for command in commands]
    return [f"{indent}local -a names=(", *[f"{indent}  {row}" for row in rows], f"{indent})",
            f"{indent}_describe command names"]


def zsh_name(words):
    return "_tessera" + "".join("_" + word for word in words)


def zsh_function(path, command, told):
    inner = command.get("commands", [])
    lines = [f"{zsh_name(path)}()", "{"]
    if inner:
        lines += ["  if (( CURRENT > 2 )); then", "    case $words[2] in"]
        for other in inner:
            called = zsh_name((*path, other["name"]))
            lines += [f"    {other['name']}) shift words; (( CURRENT-- )); {called}; return ;;"]
        lines += ["    esac", "  elif [[ $PREFIX != -* ]]; then", *zsh_commands(inner, "    "), "  fi"]
    options = [zsh_option(option) for option in command.get("options", [])]
    options += ["'--help[print what the command does]'"]
    rest = f"'*:command:({inner_of(path, told)})'" if path == ("help",) else "'*:file:_files'"
    return lines + ["  _arguments \\", *[f"    {option} \\" for option in options], f"    {rest}", "}", ""]


ZSH_END = """  if (( CURRENT == 2 )); then
@COMMANDS@
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  (( $+functions[_tessera_$command] )) && _tessera_$command
}

_tessera "$@\""""


def zsh(told):
    lines = ["#compdef tessera", "# zsh completion of tessera: written by tools/manual/make.py", "",
             "_tessera_devices()", "{", "  compadd auto ${(f)\"$(tessera devices --names 2>/dev/null)\"}", "}", ""]
    for path, command in walk(told["commands"]):
        lines += zsh_function(path, command, told)
    commands = "\n".join(zsh_commands(told["commands"], "    "))
    return lines + ["_tessera()", "{", ZSH_END.replace("@COMMANDS@", commands)]


FISH = """# fish completion of tessera: written by tools/manual/make.py
complete -c tessera -f
function __tessera_at
  set -l words (commandline -opc)
  set -l given
  for word in $words[2..-1]
    string match -q -- '-*' $word; and break
    set -a given $word
  end
  set -l wanted (string split ' ' -- $argv[1])
  test (count $given) -ge (count $wanted)
  and test (string join ' ' $given[1..(count $wanted)]) = "$argv[1]"
end"""


def fish(told):
    lines = [FISH]
    for command in told["commands"]:
        start = f"complete -c tessera -n __fish_use_subcommand -a {command['name']}"
        lines += [f"{start} -d {quoted(about(command))}"]
    for path, command in walk(told["commands"]):
        start = "complete -c tessera -n " + quoted(f'__tessera_at "{" ".join(path)}"')
        lines += [f"{start} -a {inner['name']} -d {quoted(about(inner))}" for inner in command.get("commands", [])]
        lines += [f"{start} -l help -d 'print what the command does'"]
        lines += [f"{start} -a {quoted(inner_of(path, told))}" if path == ("help",) else f"{start} -F"]
        for option in command.get("options", []):
            lines += [f"{start} -l {option['name']} -d {quoted(short(option['help']))}{fish_values(option)}"]
    return lines


def fish_values(option):
    if not takes_value(option):
        return ""
    values = values_of(option)
    if values in ("file", "folder"):
        return " -r -F"
    if values == "device":
        return " -x -a 'auto (tessera devices --names 2>/dev/null)'"
    return " -x" + (f" -a {quoted(' '.join(values))}" if values else "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--help-json", required=True)
    parser.add_argument("--version", default="")
    parser.add_argument("what", choices=["man", "bash", "zsh", "fish", "names"])
    parser.add_argument("rest", nargs="*")
    given = parser.parse_args()
    with open(given.help_json, encoding="utf-8") as file:
        told = json.load(file)
    if given.what == "names":
        print("\n".join(["tessera", *[" ".join(path) for path, _ in walk(told["commands"])]]))
        return
    *words, out = given.rest
    shells = {"bash": bash, "zsh": zsh, "fish": fish}
    lines = man(told, words, given.version) if given.what == "man" else shells[given.what](told)
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
