"""Links of 1 Gbit/s between network namespaces, which go when the measurement ends: one of 20 ms between two, or a star.

The kernel's netem makes them, on veth pairs; where the kernel has none, `native/link.c` does, between
TUN devices.
"""

import contextlib
import ipaddress
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from drivers import Failed, Network, Process
from place import Place

GBIT, ROUND_TRIP_MS = 1, 20  # of a link between two
# Packets that netem may hold; its default of 1000 would drop what a full window sends.
QUEUE = 20_000
CLIENT, SERVER = "10.77.20.1", "10.77.20.2"  # of a star: its hub, and the first of the others; 10.77.21 has the next
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


@dataclass(frozen=True)
class End:
    """An end of a link, or what hangs together by several: its address, and what leads a command there."""

    address: str
    inside: list[str]


@contextlib.contextmanager
def link(place: Place):
    """The network of both sides."""
    with star(place, "client", {"server": ROUND_TRIP_MS}) as (ends, told):
        yield Network("link", SERVER, told, in_client=ends["client"].inside, in_server=ends["server"].inside)


@contextlib.contextmanager
def star(place: Place, hub: str, round_trips: dict[str, float]):
    """The ends by name, and what was made: a hub with a link to each of the others, of this round trip (ms). The others
    reach each other through the hub. Namespaces have our process id in their names, so that two runs do not meet."""
    for program in ("ip", "tc"):
        if not shutil.which(program):
            raise NoLink(f"{program} is missing: apt-get install iproute2")
    spaces = {name: f"fishplate-{name}-{os.getpid()}" for name in (hub, *round_trips)}
    ends, said = {}, []
    with contextlib.ExitStack() as stack:
        for name, space in spaces.items():
            do("ip", "netns", "add", space)
            stack.callback(subprocess.run, ["ip", "netns", "del", space], check=False)
            do("ip", "-n", space, "link", "set", "lo", "up")
            ends[name] = End(CLIENT, ["ip", "netns", "exec", space])
        for number, (name, round_trip) in enumerate(round_trips.items()):
            near, far = (str(ipaddress.ip_address(at) + 256 * number) for at in (CLIENT, SERVER))
            devices = ((spaces[hub], f"{DEVICE[:-1]}{number}"), (spaces[name], DEVICE))
            how = stack.enter_context(shaped(place, round_trip / 2, *devices))
            for (space, device), address in zip(devices, (near, far), strict=True):
                do("ip", "-n", space, "address", "add", f"{address}/24", "dev", device)
                do("ip", "-n", space, "link", "set", device, "up")
            do("ip", "-n", spaces[name], "route", "add", "default", "via", near)
            ends[name] = End(far, ends[name].inside)
            took = connect_time(ends[hub], ends[name])
            between = "" if len(round_trips) == 1 else f"{hub} to {name} "
            said.append(f"{between}{round_trip:g} ms round trip, a connection took {took * 1000:.1f} ms")
        do(*ends[hub].inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        yield ends, f"{GBIT} Gbit/s by {how}; {'; '.join(said)}"


@contextlib.contextmanager
def shaped(place: Place, delay_ms: float, *devices: tuple[str, str]):
    """Makes the device of both ends, each in its namespace, for a delay each way; tells what shapes it."""
    (near, device), (far, peer) = devices
    do("ip", "link", "add", device, "netns", near, "type", "veth", "peer", "name", peer, "netns", far)
    try:
        for space, end in devices:
            do("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", end, "root", "netem",
               "rate", f"{GBIT}gbit", "delay", f"{delay_ms}ms", "limit", str(QUEUE))
    except NoLink:
        do("ip", "-n", near, "link", "del", device)
    else:
        yield "tc netem"
        return
    carrier = Process([str(built(place)), f"{GBIT}e9", f"{delay_ms * 1000:.0f}", near, device, far, peer])
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


def connect_time(client: End, server: End) -> float:
    """Seconds that a connection across a link takes: one round trip."""
    listener = Process([*server.inside, sys.executable, "-c", LISTEN, server.address])
    try:
        port = listener.line(10)
        for _ in range(2):  # the first may also ask for the other's hardware address
            told = do(*client.inside, sys.executable, "-c", CONNECT, server.address, port)
    finally:
        listener.end()
    return float(told)


def do(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoLink(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
