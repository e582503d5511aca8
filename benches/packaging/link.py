"""A link of 1 Gbit/s and 20 ms between two network namespaces, which go when the measurement ends.

The kernel's netem makes it, on a veth pair; where the kernel has none, `native/link.c` does, between
two TUN devices.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from drivers import Failed, Network, Process
from place import Place

GBIT, DELAY_MS = 1, 10  # each way
# Packets that netem may hold; its default of 1000 would drop what a full window sends.
QUEUE = 20_000
CLIENT, SERVER = "10.77.20.1", "10.77.20.2"
DEVICE = "link0"

LISTEN = """
import socket, sys
listening = socket.create_server((sys.argv[1], 0))
print(listening.getsockname()[1], flush=True)
for _ in range(2): listening.accept()
"""
CONNECT = """
import socket, sys, time
begin = time.monotonic()
socket.create_connection((sys.argv[1], int(sys.argv[2]))).close()
print(time.monotonic() - begin)
"""


class NoLink(Exception):
    """Namespaces cannot be made here."""


@contextlib.contextmanager
def link(place: Place):
    """The network of both sides; their names hold our process id, so that two runs do not meet."""
    spaces = [f"fishplate-{side}-{os.getpid()}" for side in ("client", "server")]
    for program in ("ip", "tc"):
        if not shutil.which(program):
            raise NoLink(f"{program} is missing: apt-get install iproute2")
    inside = [["ip", "netns", "exec", space] for space in spaces]
    with contextlib.ExitStack() as stack:
        for space in spaces:
            do("ip", "netns", "add", space)
            stack.callback(subprocess.run, ["ip", "netns", "del", space], check=False)
        how = stack.enter_context(shaped(place, spaces))
        for space, address in zip(spaces, (CLIENT, SERVER), strict=True):
            do("ip", "-n", space, "address", "add", f"{address}/24", "dev", DEVICE)
            do("ip", "-n", space, "link", "set", "lo", "up")
            do("ip", "-n", space, "link", "set", DEVICE, "up")
        took = connect_time(*inside)
        told = (f"{GBIT} Gbit/s, {2 * DELAY_MS} ms round trip, by {how}; a connection took "
                f"{took * 1000:.1f} ms")
        yield Network("link", SERVER, told, in_client=inside[0], in_server=inside[1])


@contextlib.contextmanager
def shaped(place: Place, spaces: list[str]):
    """The device of both sides; tells what shapes it."""
    do("ip", "link", "add", DEVICE, "netns", spaces[0], "type", "veth", "peer", "name", DEVICE,
       "netns", spaces[1])
    try:
        for space in spaces:
            do("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", DEVICE, "root", "netem",
               "rate", f"{GBIT}gbit", "delay", f"{DELAY_MS}ms", "limit", str(QUEUE))
    except NoLink:
        do("ip", "-n", spaces[0], "link", "del", DEVICE)
    else:
        yield "tc netem"
        return
    carrier = Process([str(built(place)), f"{GBIT}e9", str(DELAY_MS * 1000), *spaces])
    try:
        carrier.line(10)
        yield "native/link.c (this kernel has no netem)"
    except Failed as problem:
        raise NoLink(str(problem)) from problem
    finally:
        carrier.end()


def built(place: Place) -> Path:
    native = Path(__file__).resolve().parent.parent / "native"
    source, times = native / "link.c", native / "times.h"

    def make(directory: Path) -> None:
        do("cc", "-std=gnu17", "-O2", "-Wall", "-Wextra", "-pthread", "-o", str(directory / "link"),
           str(source))

    return place.build("link", make, source, times) / "link"


def connect_time(in_client: list[str], in_server: list[str]) -> float:
    """Seconds that a connection across the link takes: one round trip."""
    listener = Process([*in_server, sys.executable, "-c", LISTEN, SERVER])
    try:
        port = listener.line(10)
        for _ in range(2):  # the first may also ask for the other's hardware address
            told = do(*in_client, sys.executable, "-c", CONNECT, SERVER, port)
    finally:
        listener.end()
    return float(told)


def do(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoLink(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
