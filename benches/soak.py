"""Many calls, one server: what grows, and what is left behind."""

import os
import statistics
import subprocess
import threading
import time
import urllib.request

import machine
from overhead import PROGRAM, noop
from server import Server, serving
from tools import Tools

CONNECTIONS = 40
WARM_UP = 0.2  # of the calls: caches, buffers and threads come up to their sizes
QUIET, SETTLE = 15, 90  # seconds: at least without a change, at most; idle threads and runners go
COUNTED = ("server_descriptors", "supervisor_descriptors", "supervisors", "programs", "server_threads",
           "files")


def measure(tools: Tools, calls: int) -> dict:
    with serving(tools.binary, tools.scratch, "noop", noop(PROGRAM)) as server:
        call(tools, server, 200)
        before = settled(server)
        samples, stop = [], threading.Event()
        sampler = threading.Thread(target=sample, args=(server, before["calls"], samples, stop))
        begin, load = time.monotonic(), []
        sampler.start()
        try:
            for done in range(0, calls, calls // 10):
                call(tools, server, min(calls // 10, calls - done))
                load.append(machine.load())
        finally:
            elapsed = time.monotonic() - begin
            stop.set()
            sampler.join()
        at_end = inventory(server)
        after = settled(server)
    warm = [row for row in samples if row["calls"] >= WARM_UP * calls]
    return {
        "program": PROGRAM, "connections": CONNECTIONS, "calls": after["calls"] - before["calls"],
        "seconds": elapsed, "loads": [round(value, 2) for value in load],
        "bytes_per_call": {side: slope([(row["calls"], row[side]) for row in warm])
                           for side in ("server", "server_anonymous", "supervisor")},
        "before": before, "at_end": at_end, "after": after,
        "samples": samples[:: max(1, len(samples) // 200)],
    }


def call(tools: Tools, server: Server, count: int) -> None:
    request = server.write_post(tools.scratch / "call.http", "call")
    command = [tools.caller, server.host, server.port, request, CONNECTIONS, 3600, count]
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True)
    answers = done.stdout.count(b"\n") - 1
    if answers != count:
        raise SystemExit(f"bench: {answers} answers to {count} calls")


def counted(server: Server) -> int:
    """Calls as the server counts them."""
    with urllib.request.urlopen(f"http://{server.host}:{server.port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    values = [float(line.split()[-1]) for line in lines
              if line.startswith("fishplate_calls_total{")]
    return int(sum(values))


def sample(server: Server, calls_before: int, samples: list, stop: threading.Event) -> None:
    begin, supervisor = time.monotonic(), server.supervisor()
    while not stop.wait(0.5):
        resident = machine.memory(server.pid)
        samples.append({"seconds": round(time.monotonic() - begin, 2),
                        "calls": counted(server) - calls_before,
                        "server": resident["VmRSS"], "server_anonymous": resident["RssAnon"],
                        "supervisor": machine.memory(supervisor)["VmRSS"]})


def inventory(server: Server) -> dict:
    supervisors = server.supervisors()
    everything = [os.path.join(at, name) for at, directories, files in os.walk(server.data)
                  for name in directories + files]
    return {
        "server_descriptors": machine.descriptors(server.pid),
        "supervisor_descriptors": machine.descriptors(server.supervisor()),
        "supervisors": len(supervisors),
        "programs": len(machine.children_of(supervisors) - set(supervisors)),
        "server_threads": len(os.listdir(f"/proc/{server.pid}/task")),
        "files": len(everything),
        "files_of": {name: sum(path.startswith(os.path.join(server.data, name) + os.sep)
                               for path in everything) for name in os.listdir(server.data)},
        "bytes": sum(os.lstat(path).st_blocks * 512 for path in everything if os.path.lexists(path)),
        "server_memory": machine.memory(server.pid),
    }


def settled(server: Server) -> dict:
    """The inventory once it has been the same for some seconds."""
    calls = counted(server)
    last, since = None, time.monotonic()
    give_up = since + SETTLE
    while time.monotonic() < give_up and time.monotonic() - since < QUIET:
        time.sleep(1)
        found = inventory(server)
        if last is None or any(found[key] != last[key] for key in COUNTED):
            since = time.monotonic()
        last = found
    return {"calls": calls, **last}


def slope(points: list[tuple[int, int]]) -> float:
    """Least squares."""
    if len(points) < 2:
        return float("nan")
    return statistics.linear_regression(*zip(*points, strict=True)).slope
