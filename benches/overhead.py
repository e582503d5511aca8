"""What `call` adds to a program that does nothing, and what it is made of."""

import re
import statistics
import subprocess
from pathlib import Path

import machine
from server import Server, serving
from tools import Tools

PROGRAM = "/bin/true"


def noop(program) -> str:
    return f'name = "noop"\ncommand = "{program}"\n'


def measure(tools: Tools, rounds: int) -> dict:
    """One keep-alive connection, one request at a time, in turn with the program itself."""
    with serving(tools.binary, tools.scratch, "noop", noop(PROGRAM)) as server:
        slices = prepare(tools, server)
        for command in slices.values():
            run(command(0.2))
        samples = {name: [] for name in slices}
        medians = {name: [] for name in slices}
        loads, others = [], []
        for _ in range(rounds):
            before = machine.busy() - machine.children() - server.used()
            begin = tools.clock()
            for name, command in slices.items():
                times = run(command(0.15))[1]
                samples[name] += times
                medians[name].append(statistics.median(times))
            others.append((machine.busy() - machine.children() - server.used() - before)
                          / (tools.clock() - begin))
            loads.append(machine.load())
    by_round = [call - bare for call, bare in zip(medians["call"], medians["bare"], strict=True)]
    found = {name: quantiles(times) for name, times in samples.items()}
    added = {name: found["call"][name] - found["bare"][name] for name in ("median", "least")}
    return {
        "program": PROGRAM,
        "rounds": rounds,
        "load": spread(loads),
        "cores_of_others": spread(others),
        "microseconds": found,
        "added_microseconds": {**added, "by_round": spread(by_round)},
        "executor": executor(tools),
    }


def prepare(tools: Tools, server: Server):
    """The commands that are timed, each of its seconds."""
    server.post("call")
    job = re.search(r"[0-9a-f]{32}", server.post("spawn")).group()
    while "true" in server.post("running", f"<t:job>{job}</t:job>"):
        tools.sleep(0.01)

    def caller(request: Path):
        return lambda seconds: [tools.caller, server.host, server.port, request, 1, seconds, 0]

    here = tools.scratch
    return {
        "bare": lambda seconds: [tools.bare, seconds, 1, PROGRAM],
        "page": caller(server.write_get(here / "page.http", "/")),
        "running": caller(server.write_post(here / "running.http", "running",
                                            f"<t:job>{job}</t:job>")),
        "call": caller(server.write_post(here / "call.http", "call")),
    }


def run(command: list) -> tuple[float, list[float]]:
    """Elapsed seconds, and each time in microseconds."""
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    elapsed, *times = done.stdout.split()
    return float(elapsed), [int(time) / 1000 for time in times]


def quantiles(times: list[float]) -> dict:
    times = sorted(times)
    at = lambda share: times[min(len(times) - 1, int(len(times) * share))]  # noqa: E731
    return {"count": len(times), "least": times[0], "p10": at(0.1), "median": at(0.5),
            "p90": at(0.9), "p99": at(0.99)}


def spread(values: list[float]) -> dict:
    return {"least": round(min(values), 2), "median": round(statistics.median(values), 2),
            "most": round(max(values), 2)}


def executor(tools: Tools) -> dict:
    """The supervisors alone: the bench of the jobs room."""
    command = [tools.cargo, "bench", "--quiet", "--package", "fishplate-jobs",
               "--bench", "local_executor", "--", "4"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tools.root)
    found = re.search(r"alone: bare ([\d.]+)(\S+), executor ([\d.]+)(\S+)", done.stdout)
    unit = {"ns": 1e-3, "µs": 1.0, "ms": 1e3}
    bare = float(found.group(1)) * unit[found.group(2).rstrip(",")]
    ours = float(found.group(3)) * unit[found.group(4)]
    return {"bare_microseconds": bare, "microseconds": ours, "printed": done.stdout.splitlines()}
