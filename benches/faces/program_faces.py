"""A small program behind OGC API - Processes: Fishplate beside pygeoapi, in turn, both of them running it anew for each call."""

import contextlib
import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import machine
import pygeoapi_server
from overhead import quantiles, run, spread
from preparation import PreparationFailed
from server import JSON, Server, serving, write_post
from throughput import CLIENTS, Watch, post_script, wrk
from tools import Tools

CALLS = 1000  # before memory is looked at

# What no call leaves out: without arguments it adds the same numbers.
PROGRAM = """#!/bin/sh
echo $((${1:-1} + ${2:-2}))
"""
BODY = json.dumps({"inputs": {"x": 1, "y": 2}, "response": "document"}).encode()


@dataclass
class Side:
    """A server that runs the program."""

    title: str
    url: str
    processes: Callable[[], list[int]]


def written(place: Path) -> tuple[Path, str]:
    """The program, and the service of it."""
    program = place / "add.sh"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return program, f'name = "add"\ncommand = "{program} [in val x:int] [in val y:int] > [out file sum:int]"\n'


def measure(tools: Tools, rounds: int, seconds: int) -> dict:
    """Rounds in which the program itself and each side take turns; first `CALLS` calls of each, and what memory they leave."""
    program, description = written(tools.scratch)
    # What it prints would stand among the times.
    alone = tools.scratch / "add-alone.sh"
    alone.write_text(PROGRAM.replace("echo", "exec >/dev/null; echo"))
    alone.chmod(0o755)
    with contextlib.ExitStack() as stack:
        sides, left_out = started(tools, stack, program, description)
        memory = {side.title: remembered(tools, side) for side in sides}
        rows = [{"load": round(machine.load(), 2), "program": statistics.median(run([tools.bare, seconds, 1, alone])[1]),
                 **{side.title: turn(tools, side, seconds) for side in sides}} for _ in range(rounds)]
    return {"clients": CLIENTS, "calls": CALLS, "workers": pygeoapi_server.WORKERS, "pygeoapi": pygeoapi_server.PYGEOAPI,
            "left_out": left_out, "rounds": rows, "loads": spread([row["load"] for row in rows]),
            "program_microseconds": statistics.median(row["program"] for row in rows),
            "sides": {side.title: {"memory": memory[side.title], **figures(side.title, sides[0].title, rows)}
                      for side in sides}}


def started(tools: Tools, stack: contextlib.ExitStack, program: Path, description: str) -> tuple[list[Side], dict[str, str]]:
    """The sides, and why one is left out."""
    ours: Server = stack.enter_context(serving(tools.binary, tools.scratch, "add", description))
    sides = [Side("Fishplate", ours.execution(), lambda: [ours.pid, *ours.supervisors()])]
    try:
        python = pygeoapi_server.python(tools.cache)
    except PreparationFailed as problem:
        print(f"  without pygeoapi: {problem}", flush=True)
        return sides, {"pygeoapi": str(problem).splitlines()[0]}
    peer = stack.enter_context(pygeoapi_server.serving(python, tools.scratch, program))
    return [*sides, Side("pygeoapi", peer.execution(), peer.processes)], {}


def remembered(tools: Tools, side: Side) -> dict:
    """Memory before and after the first calls, one client at a time."""
    before = machine.memory_of(side.processes())
    calls(tools, side, 600, CALLS)
    return {"before": before, "after": machine.memory_of(side.processes()), "processes": len(side.processes())}


def turn(tools: Tools, side: Side, seconds: int) -> dict:
    """One client, then many."""
    alone = quantiles(calls(tools, side, seconds))
    script = tools.scratch / "program.lua"
    script.write_text(post_script(BODY.decode(), JSON))
    used, watch = machine.used(side.processes()), Watch(tools)
    count, elapsed, _ = wrk(tools.wrk, side.url, script, seconds)
    own = machine.used(side.processes()) - used
    return {"alone_microseconds": alone["median"],
            **watch.row(count, elapsed, own, own + machine.children() - watch.children)}


def calls(tools: Tools, side: Side, seconds: int, most: int = 0) -> list[float]:
    """Microseconds of each call of one client."""
    host, port = side.url.split("/")[2].split(":")
    request = write_post(tools.scratch / "program.http", side.url, BODY, JSON)
    return run([tools.caller, host, port, request, 1, seconds, most])[1]


def figures(title: str, ours: str, rows: list[dict]) -> dict:
    median = {value: statistics.median(row[title][value] for row in rows)
              for value in ("a_second", "cpu_microseconds", "alone_microseconds")}
    added = [row[title]["alone_microseconds"] - row["program"] for row in rows]
    return {**median, "added_microseconds": spread(added),
            "ratio_to_ours": spread([row[title]["a_second"] / row[ours]["a_second"] for row in rows])}
