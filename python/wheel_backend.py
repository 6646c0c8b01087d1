# SPDX-License-Identifier: Apache-2.0
"""The build backend: meson-python, and the name of what it made. The package has no extension module, so one wheel
serves every Python 3; but it holds libraries, so it is one of this platform. On Linux with glibc the name says from
which version of glibc on it runs, as PEP 600 has it, so that an index of packages takes it."""

import base64
import hashlib
import pathlib
import re
import sysconfig
import zipfile

from mesonpy import *  # noqa: F401,F403 the hooks that stay as they are
import mesonpy


# Versions of libstdc++'s symbols that systems have from a version of glibc on: GLIBCXX_3.4.29 comes with GCC 11.
_LIBSTDCXX = {17: 19, 24: 22, 27: 24, 28: 25, 31: 28, 34: 29, 35: 30, 38: 32, 39: 33}


def _platform(archive):
    """The wheel's platform, by what its libraries need."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    glibc, libstdcxx = 0, 0
    for entry in archive.infolist():
        data = archive.read(entry)
        if data.startswith(b"\x7fELF"):
            glibc = max([glibc, *(int(number) for number in re.findall(rb"GLIBC_2\.(\d+)", data))])
            libstdcxx = max([libstdcxx, *(int(number) for number in re.findall(rb"GLIBCXX_3\.4\.(\d+)", data))])
    fitting = [version for version, symbols in _LIBSTDCXX.items() if symbols >= libstdcxx]
    if not platform.startswith("linux_") or glibc == 0 or not fitting:
        return platform
    return platform.replace("linux", f"manylinux_2_{max(glibc, min(fitting))}", 1)


def _record(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(data)}\n"


def _rename(folder, name):
    """Writes the wheel again with the tag py3-none-PLATFORM."""
    distribution, version = name.split("-")[:2]
    with zipfile.ZipFile(pathlib.Path(folder, name)) as source:
        tag = f"py3-none-{_platform(source)}"
    renamed = f"{distribution}-{version}-{tag}.whl"
    old = pathlib.Path(folder, name)
    new = pathlib.Path(folder, renamed + ".partial")
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as target:
        record = ""
        for entry in source.infolist():
            data = source.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                record_entry = entry
                continue
            if entry.filename.endswith(".dist-info/WHEEL"):
                lines = [line for line in data.decode().splitlines() if not line.startswith(("Root-Is", "Tag"))]
                data = ("\n".join(lines + ["Root-Is-Purelib: false", f"Tag: {tag}"]) + "\n").encode()
            target.writestr(entry, data, zipfile.ZIP_DEFLATED)
            record += _record(entry.filename, data)
        record += f"{record_entry.filename},,\n"
        target.writestr(record_entry, record.encode(), zipfile.ZIP_DEFLATED)
    old.unlink()
    new.rename(pathlib.Path(folder, renamed))
    return renamed


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)
    return _rename(wheel_directory, name)


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError(
        "the package cannot be built without the library's sources beside it, so there is no archive of its sources "
        "alone: in the source tree, `pip wheel python/` builds the wheel, and tools/ports/write the archive of the tree"
    )
