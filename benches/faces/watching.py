"""What browsers that have a job's page open cost the server: memory, processor time, and how late they are told."""

import http.client
import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import machine
from drivers import Process
from overhead import spread
from server import JSON, Server, serving
from tools import Tools

PAUSE = 0.1  # seconds between two lines of the log
IDLE, TICKER = "writes nothing", f"writes a line each {PAUSE * 1000:.0f} ms"
TICKER_PROGRAM = Path(__file__).parent / "ticker.py"
SPARE = 1000  # descriptors beside the connections
OPEN, ANSWER = 300, 60  # seconds that opening and an answer may take


def measure(tools: Tools, counts: list[int], seconds: int) -> dict:
    """So many viewers of a job that writes nothing and of one that writes, each for so long; a server has one job."""
    program = tools.compiled("viewers")
    carried = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - SPARE
    counts, left_out = [it for it in counts if it <= carried], [it for it in counts if it > carried]
    found, loads = {}, []
    for count in counts:
        limits = [f"{name}={count + SPARE}" for name in ("job_viewers", "max_connections", "connections_per_peer")]
        options = [word for limit in limits for word in ("--limit", limit)]
        description = f'name = "ticker"\ncommand = "{sys.executable} {TICKER_PROGRAM} [in val pause:double]"\n'
        for name, pause in ((IDLE, 0), (TICKER, PAUSE)):
            # A server that viewers have just left keeps their memory for the next ones.
            with serving(tools.binary, tools.scratch, "ticker", description, *options) as server:
                found.setdefault(str(count), {})[name] = watch(tools, server, program, count, pause, seconds)
                loads.append(machine.load())
    return {"pause": PAUSE, "seconds": seconds, "loads": spread(loads), "viewers": found,
            "left_out": {str(count): f"the limit on open files is {carried + SPARE}" for count in left_out}}


def watch(tools: Tools, server: Server, program: Path, count: int, pause: float, seconds: int) -> dict:
    """A job's first viewer, who has it looked at, and then the others."""
    job = started(tools, server, pause)
    path = f"/ogc/jobs/{job}/events"
    first, many = viewers(program, server, path, 1), None
    try:
        first.line(OPEN)
        tools.sleep(1)
        before, alone = machine.memory(server.pid), share(tools, server, seconds)
        many = viewers(program, server, path, count)
        opened = float(many.line(OPEN).split()[1])
        answer(many)
        busy = share(tools, server, seconds)
        told = answer(many)
        after = machine.memory(server.pid)
        descriptors = machine.descriptors(server.pid)
    finally:
        for process in (first, many):
            if process:
                process.end()
        ended(server, job)
    return {"opened_seconds": opened, "descriptors": descriptors, "bytes": after["RssAnon"] - before["RssAnon"],
            "bytes_each": (after["RssAnon"] - before["RssAnon"]) / count,
            "cores": busy, "cores_of_one": alone, "microseconds_each_second": (busy - alone) / count * 1e6, **told}


def started(tools: Tools, server: Server, pause: float) -> str:
    """A job that runs."""
    body = json.dumps({"inputs": {"pause": pause}})
    job = asked(server, "POST", "/ogc/processes/ticker/execution", body)["jobID"]
    while asked(server, "GET", f"/ogc/jobs/{job}")["status"] != "running":
        tools.sleep(0.05)
    return job


def ended(server: Server, job: str) -> None:
    asked(server, "DELETE", f"/ogc/jobs/{job}")


def asked(server: Server, method: str, path: str, body: str | None = None) -> dict:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=ANSWER)
    connection.request(method, path, body, {**JSON, "Prefer": "respond-async"})
    with connection.getresponse() as answer:
        told = json.load(answer)
    connection.close()
    if answer.status >= 300:
        raise SystemExit(f"bench: {method} {path}: {told}")
    return told


def viewers(program: Path, server: Server, path: str, count: int) -> Process:
    return Process([str(word) for word in (program, server.host, server.port, path, count)], subprocess.PIPE)


def share(tools: Tools, server: Server, seconds: int) -> float:
    """Cores that the server uses."""
    begin, used = tools.clock(), machine.used([server.pid])
    tools.sleep(seconds)
    return (machine.used([server.pid]) - used) / (tools.clock() - begin)


def answer(process: Process) -> dict:
    """What the viewers were told since they were asked last, and how long after it was written."""
    process.process.stdin.write(b"\n")
    events, received, gone = map(int, process.line(ANSWER).split()[1:])
    lines = []
    while (line := process.line(ANSWER)) != "end":
        lines.append([int(word) / 1000 for word in line.split()[2:]])
    told = {"events": events, "received_bytes": received, "gone": gone, "lines": len(lines)}
    if lines:
        first, last = zip(*lines, strict=True)
        told["milliseconds"] = {"first": spread(first), "last": spread(last),
                                "spread": statistics.median(late - early for early, late in lines)}
    return told
