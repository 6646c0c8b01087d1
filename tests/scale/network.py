#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""network.py [OPTION]... N COMMAND...: the command as N ranks under Open MPI's mpirun, each
on a machine of its own: a namespace with a name and a network device, between which packets travel by a relay that
delays and loses them. Where the system does not let anybody make such namespaces, exit code 77 and the reason.

The devices are TUN devices, for what is needed is no more than what a container has: the kernel's own netem is often
not there."""
import argparse
import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUTS, CLONE_NEWNET = 0x04000000, 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MTU = 9000  # bytes of a packet


class Unavailable(Exception):
    """What this system does not let the test do."""


def address(i):
    return f"10.99.0.{i + 1}"


# ---- the relay -------------------------------------------------------------------------------------------------------


def open_tun(holder):
    """The TUN device `tun0` of a namespace, which stays open when its opener leaves the namespace."""
    with open(f"/proc/{holder}/ns/net", "rb") as namespace:
        if LIBC.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
    return tun


def relay(holders, delay, loss, rate, ready):
    """Hands packets on until it is ended. delay: seconds; loss: a part of the packets; rate: of each machine's packets,
    in bytes a second."""
    tuns = {socket.inet_aton(address(i)): open_tun(holder) for i, holder in enumerate(holders)}
    os.write(ready, b"r")
    chance, under_way, count = random.Random(1), [], 0
    poll, free = select.poll(), dict.fromkeys(tuns.values(), 0.0)
    for tun in tuns.values():
        poll.register(tun, select.POLLIN)
    while True:
        now = time.monotonic()
        while under_way and under_way[0][0] <= now:
            _, _, to, packet = heapq.heappop(under_way)
            with contextlib.suppress(OSError):  # a full device loses packets, as a full router does
                os.write(to, packet)
        wait = max(0.0, under_way[0][0] - now) * 1000 if under_way else None
        for tun, _ in poll.poll(wait):
            with contextlib.suppress(OSError):
                packet = os.read(tun, 65536)
                to = tuns.get(packet[16:20]) if packet[0] >> 4 == 4 else None
                if to is not None and chance.random() >= loss:
                    free[tun] = max(time.monotonic(), free[tun]) + len(packet) / rate
                    heapq.heappush(under_way, (free[tun] + delay, count, to, packet))
                    count += 1


# ---- the machines ----------------------------------------------------------------------------------------------------


def hold(i):
    """A process in namespaces of its own, which lives as long as this one."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        name = f"machine{i}".encode()
        failed = LIBC.unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0 or LIBC.sethostname(name, len(name)) != 0
        os.write(theirs, os.strerror(ctypes.get_errno()).encode() if failed else b"+")
        while not failed:
            signal.pause()
        os._exit(1)
    os.close(theirs)
    told = os.read(ours, 200)
    os.close(ours)
    if told != b"+":
        os.waitpid(pid, 0)
        raise Unavailable(f"a namespace for network and name cannot be made: {told.decode()}")
    return pid


def within(holder, *words):
    return ["nsenter", "-t", str(holder), "-n", "-u", *words]


def set_up(holder, i, mtu):
    for words in (["addr", "add", f"{address(i)}/24", "dev", "tun0"], ["link", "set", "dev", "tun0", "mtu", str(mtu)],
                  ["link", "set", "dev", "tun0", "up"], ["link", "set", "dev", "lo", "up"]):
        done = subprocess.run(within(holder, "ip", *words), stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise Unavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")


def start_relay(holders, delay, loss, rate):
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        LIBC.prctl(1, signal.SIGKILL)
        try:
            relay(holders, delay, loss, rate, theirs)
        except OSError as error:
            os.write(theirs, f"no TUN device in a namespace: {error}".encode())
        os._exit(1)
    os.close(theirs)
    told = os.read(ours, 200)
    os.close(ours)
    if told != b"r":
        os.waitpid(pid, 0)
        raise Unavailable(told.decode())
    return pid


@contextlib.contextmanager
def machines(n, delay=0.0, loss=0.0, rate=float("inf"), mtu=MTU):
    """A function that makes the command line of ranks on n machines. Errors: Unavailable."""
    for program in ("mpirun", "ip", "nsenter"):
        if not shutil.which(program):
            raise Unavailable(f"there is no {program}")
    if "Open MPI" not in subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout:
        raise Unavailable("this mpirun is not Open MPI's")
    pids = []
    try:
        for i in range(n):
            pids.append(hold(i))
        holders = pids[:n]
        pids.append(start_relay(holders, delay, loss, rate))
        for i, holder in enumerate(holders):
            set_up(holder, i, mtu)
        with tempfile.TemporaryDirectory() as folder:
            yield lambda *words: mpirun(folder, holders, words)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def mpirun(folder, holders, words):
    """Runs on the first machine, and reaches the others by an agent that enters their namespaces."""
    agent = os.path.join(folder, "agent")
    with open(agent, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
        for i, holder in enumerate(holders):
            file.write(f"  {address(i)}) exec {' '.join(within(holder))} /bin/sh -c \"$*\" ;;\n")
        file.write("esac\necho \"there is no machine $host\" >&2\nexit 1\n")
    os.chmod(agent, 0o755)
    options = {"plm_rsh_agent": agent, "plm_rsh_no_tree_spawn": "1", "pml": "ob1", "btl": "tcp,self",
               "btl_tcp_if_include": "tun0", "oob_tcp_if_include": "tun0"}
    return [*within(holders[0], "mpirun", "--bind-to", "none"),
            *(word for key, value in options.items() for word in ("--mca", key, value)),
            "--host", ",".join(address(i) for i in range(len(holders))), *map(str, words)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=0.0, help="of a packet, in milliseconds")
    parser.add_argument("--loss", type=float, default=0.0, help="part of the packets that is lost, 0 to 1")
    parser.add_argument("--rate", type=float, help="megabytes a second that a machine sends")
    parser.add_argument("--mtu", type=int, default=MTU, help="bytes of a packet, at most")
    parser.add_argument("n", type=int)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    rate = options.rate * 1e6 if options.rate else float("inf")
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    try:
        with machines(options.n, options.delay / 1000, options.loss, rate, options.mtu) as command:
            return subprocess.run(command(*options.command), env=environment, check=False).returncode
    except Unavailable as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 77


if __name__ == "__main__":
    sys.exit(main())
