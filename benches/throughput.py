"""Calls a second of 40 clients against spawn-and-wait with two in flight, on the same cores."""

import re
import statistics
import subprocess
from pathlib import Path

import machine
from overhead import PROGRAM, noop, run, spread
from server import SOAP, Server, envelope, serving
from tools import Tools

CLIENTS = 40
IN_FLIGHT = 2


def post_script(body: str, headers: dict[str, str] = SOAP) -> str:
    """What has wrk post this."""
    lines = [f"wrk.headers[{name!r}] = {value!r}" for name, value in headers.items()]
    return "\n".join(['wrk.method = "POST"', *lines, f"wrk.body = [[{body}]]", ""])


def measure(tools: Tools, rounds: int) -> dict:
    """Slices of each in turn; the load generator shares the cores."""
    programs = {PROGRAM: PROGRAM, "exit without a C library": str(tools.exit)}
    sides = {name: measure_program(tools, program, rounds) for name, program in programs.items()}
    loads = [row["load"] for side in sides.values() for row in side["rounds"]]
    return {"clients": CLIENTS, "in_flight": IN_FLIGHT, "loads": spread(loads), "programs": sides}


def measure_program(tools: Tools, program: str, rounds: int) -> dict:
    with serving(tools.binary, tools.scratch, "noop", noop(program)) as server:
        script = tools.scratch / "call.lua"
        script.write_text(post_script(envelope("noop", "call").decode()))
        load_server(tools, server, script, 2)
        rows = [{"bare": bare(tools, program, 2), "call": load_server(tools, server, script, 3),
                 "load": round(machine.load(), 2)} for _ in range(rounds)]
    ratios = [row["call"]["a_second"] / row["bare"]["a_second"] for row in rows]
    middle = {name: {side: statistics.median(row[side][name] for row in rows)
                     for side in ("bare", "call")} for name in ("a_second", "cpu_microseconds")}
    return {**middle, "ratio_of_medians": middle["a_second"]["call"] / middle["a_second"]["bare"],
            "ratio_of_rounds": spread(ratios), "rounds": rows}


def bare(tools: Tools, program: str, seconds: float) -> dict:
    watch = Watch(tools)
    elapsed, times = run([tools.bare, seconds, IN_FLIGHT, program])
    own = machine.children() - watch.children
    return watch.row(len(times), elapsed, own, own)


def load_server(tools: Tools, server: Server, script, seconds: int) -> dict:
    watch, used = Watch(tools), server.used()
    count, elapsed, told = wrk(tools.wrk, server.url, script, seconds)
    own = server.used() - used
    row = watch.row(count, elapsed, own, own + machine.children() - watch.children)
    row["generator_cpu_microseconds"] = (machine.children() - watch.children) / count * 1e6
    row["latency"] = {name: value for name, value in
                      re.findall(r"^\s+(\d\d)%\s+(\S+)$", told, re.MULTILINE)}
    return row


def wrk(program: Path, url: str, script: Path, seconds: int, clients: int = CLIENTS) -> tuple[int, float, str]:
    """How many calls in how many seconds, and all that wrk told."""
    command = [program, "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "30s", "--latency", "-s", script, url]
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise SystemExit(f"bench: calls failed:\n{done.stdout}")
    count, elapsed = re.search(r"(\d+) requests in ([\d.]+)s", done.stdout).groups()
    return int(count), float(elapsed), done.stdout


class Watch:
    """Processor time from here on."""

    def __init__(self, tools: Tools) -> None:
        self.clock, self.begin = tools.clock, tools.clock()
        self.busy, self.children = machine.busy(), machine.children()

    def row(self, count: int, elapsed: float, measured: float, ours: float) -> dict:
        others = (machine.busy() - self.busy - ours) / (self.clock() - self.begin)
        return {"count": count, "a_second": count / elapsed,
                "cpu_microseconds": measured / count * 1e6, "cores_of_others": round(others, 2)}
