# SPDX-License-Identifier: Apache-2.0
"""What the package knows of the library is what the headers say. CC names the compiler."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT, run_python

from tessera._native import ffi, lib


@pytest.fixture(scope="module")
def declarations():
    """As C has them."""
    sys.path.insert(0, str(ROOT / "python"))
    from declarations import declarations

    return declarations()


def test_made_from_the_headers():
    done = subprocess.run(
        [sys.executable, ROOT / "python" / "declarations.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def compiled(code, tmp_path):
    """Runs a C program with all public headers and returns what it prints."""
    headers = sorted(path.name for path in (ROOT / "include" / "tessera").glob("*.h"))
    source = "#include <stdio.h>\n" + "".join(f'#include "tessera/{name}"\n' for name in headers)
    source += f"int main(void) {{ {code} return 0; }}\n"
    (tmp_path / "print.c").write_text(source)
    command = shlex.split(os.environ.get("CC", "cc")) + ["-std=c11", f"-I{ROOT}/include", "-o", tmp_path / "print"]
    subprocess.run([*command, tmp_path / "print.c"], check=True)
    return subprocess.run([tmp_path / "print"], capture_output=True, text=True, check=True).stdout.split()


def test_layouts(tmp_path):
    """Each field of each struct lies where the compiler puts it."""
    structs = [name for name in ffi.list_types()[0] if ffi.typeof(name).kind == "struct" and ffi.typeof(name).fields]
    assert len(structs) >= 20 and "tsr_generate_options" in structs
    places, code = [], ""
    for struct in structs:
        places.append((struct, None, ffi.sizeof(struct)))
        code += f'printf("%zu\\n", sizeof({struct}));'
        for field, known in ffi.typeof(struct).fields:
            if field:  # not a union without a name
                places.append((struct, field, known.offset))
                code += f'printf("%zu\\n", offsetof({struct}, {field}));'
    printed = compiled(code, tmp_path)
    assert len(places) > 200 and len(printed) == len(places)
    assert [(struct, field, int(number)) for (struct, field, _), number in zip(places, printed)] == places


def test_numbers(declarations, tmp_path):
    """Each number has the compiler's value."""
    names = sorted(set(re.findall(r"^  (TSR_\w+)", declarations, re.MULTILINE)))
    assert len(names) > 40
    printed = compiled("".join(f'printf("%d\\n", (int){name});' for name in names), tmp_path)
    assert [int(number) for number in printed] == [getattr(lib, name) for name in names]


def test_functions(declarations):
    """The library has every function."""
    names = set(re.findall(r"\b(tsr_\w+)\(", declarations))
    assert len(names) > 40
    for name in names:
        assert getattr(lib, name) != ffi.NULL


def test_errors(declarations):
    """Each status has an exception of its own."""
    from tessera.errors import BY_STATUS

    statuses = {getattr(lib, name) for name in re.findall(r"\bTSR_ERR_\w+", declarations)}
    assert set(BY_STATUS) == statuses and len({error.__name__ for error in BY_STATUS.values()}) == 16


def test_nothing_is_parsed():
    """Control-C in the middle of cffi's parser would leave it broken: nothing calls it."""
    done = run_python("import sys, tessera; tessera.devices(); print('pycparser' in sys.modules)")
    assert done.stdout == "False\n", done.stdout + done.stderr
