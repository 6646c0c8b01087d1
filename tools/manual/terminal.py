#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: terminal.py PICTURE.svg COMMAND...
Runs commands in the shell and draws what a terminal shows of them. Ends with an error if one of them fails."""
import html
import subprocess
import sys

LINE, LEFT, TOP, CHARACTER = 19, 18, 44, 7.83
STYLE = """
  .frame { fill: #1d2129 } .bar { fill: #2b303b } .dot { fill: #59606e }
  text { font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre }
  .command { fill: #a3d9a5 } .prompt { fill: #7f8899 }
"""


def shown(commands):
    """(class, text) of each line of the terminal."""
    for command in commands:
        done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", check=True)
        yield "command", command
        for line in done.stdout.rstrip("\n").split("\n"):
            yield "output", line


def drawn(lines):
    width = round(2 * LEFT + CHARACTER * max(len(text) + 2 * (kind == "command") for kind, text in lines))
    height = TOP + LINE * len(lines) + 6
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" ' \
          f'viewBox="0 0 {width} {height}" role="img" aria-label="a terminal session">'
    yield f"<style>{STYLE}</style>"
    yield f'<rect class="frame" width="{width}" height="{height}" rx="8"/>'
    yield f'<path class="bar" d="M0 28V8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v20z"/>'
    for i in range(3):
        yield f'<circle class="dot" cx="{18 + 18 * i}" cy="14" r="5"/>'
    for i, (kind, text) in enumerate(lines):
        y = TOP + LINE * i + 6
        prompt = '<tspan class="prompt">$ </tspan>' if kind == "command" else ""
        yield f'<text class="{kind}" x="{LEFT}" y="{y}">{prompt}{html.escape(text, quote=False)}</text>'
    yield "</svg>"


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    picture = "\n".join(drawn(list(shown(sys.argv[2:])))) + "\n"
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
