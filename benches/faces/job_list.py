"""A list of 10,000 jobs: the first page of it, chosen by what can be asked for, beside that of a hundred."""

import concurrent.futures
import contextlib
import http.client
import json
import statistics
from pathlib import Path

import machine
from overhead import run, spread
from server import JSON, Server, serving
from tools import Tools

FEW = 100
FAILED, LONG = 100, 1000  # one of so many fails, or takes as long as `REST`
REST = 0.3  # seconds
FILLERS = 8  # clients that submit jobs

PROGRAM = f"""#!/bin/sh
case $1 in
    failed) exit 1 ;;
    long) sleep {REST} ;;
esac
"""

# Where a filter finds none, all jobs are looked through.
QUERIES = {
    "JSON": "limit=100",
    "JSON, failed (one in 100)": "limit=100&status=failed",
    "JSON, dismissed (none)": "limit=100&status=dismissed",
    f"JSON, ran for {REST} s (one in 1,000)": f"limit=100&minDuration={REST}",
    "JSON, ran for an hour (none)": "limit=100&minDuration=3600",
    "JSON, of the year 2001 (none)": "limit=100&datetime=2001-01-01T00:00:00Z/2001-12-31T00:00:00Z",
    "HTML": "f=html",
    "HTML, failed (one in 100)": "f=html&status=failed",
    "HTML, ran for an hour (none)": "f=html&minDuration=3600",
    "HTML, until 2001 (none)": "f=html&to=2001-12-31",
}


def measure(tools: Tools, rounds: int, jobs: int) -> dict:
    """Rounds in which each query is asked of both, 0.1 s each or once."""
    program = tools.scratch / "kind.sh"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    description = f'name = "kind"\ncommand = "{program} [in val kind:string]"\n'
    with contextlib.ExitStack() as stack:
        servers = {count: stack.enter_context(serving(tools.binary, tools.scratch, "kind", description, "--limit",
                                                      f"max_queued={jobs}")) for count in (FEW, jobs)}
        for count, server in servers.items():
            fill(tools, server, count)
        for server in servers.values():
            for query in QUERIES.values():
                ask(tools, server, query)
        rows, loads = [], []
        for _ in range(rounds):
            rows.append({query: {str(count): statistics.median(ask(tools, server, words)) for count, server in servers.items()}
                         for query, words in QUERIES.items()})
            loads.append(machine.load())
    return {"jobs": jobs, "few": FEW, "rounds": rows, "loads": spread(loads),
            "queries": {query: figures(query, str(jobs), rows) for query in QUERIES}}


def fill(tools: Tools, server: Server, count: int) -> None:
    """So many jobs that have ended, the last failure and the last long one among the first of them."""
    kinds = ["long" if at % LONG == 0 else "failed" if at % FAILED == 0 else "plain" for at in range(count)]
    with concurrent.futures.ThreadPoolExecutor(FILLERS) as fillers:
        list(fillers.map(lambda part: submit(server, part), [kinds[at::FILLERS] for at in range(FILLERS)]))
    for status in ("accepted", "running"):
        while listed(server, f"limit=1&status={status}"):
            tools.sleep(0.1)


def submit(server: Server, kinds: list[str]) -> None:
    connection = http.client.HTTPConnection(server.host, server.port)
    for kind in kinds:
        body = json.dumps({"inputs": {"kind": kind}})
        connection.request("POST", "/ogc/processes/kind/execution", body, {**JSON, "Prefer": "respond-async"})
        with connection.getresponse() as answer:
            if answer.status != 201:
                raise SystemExit(f"bench: a job was refused: {answer.read().decode()}")
            answer.read()
    connection.close()


def listed(server: Server, query: str) -> list[dict]:
    connection = http.client.HTTPConnection(server.host, server.port)
    connection.request("GET", f"/ogc/jobs?{query}")
    with connection.getresponse() as answer:
        return json.load(answer)["jobs"]


def ask(tools: Tools, server: Server, query: str) -> list[float]:
    """Microseconds of each answer."""
    request: Path = server.write_get(tools.scratch / "list.http", f"/ogc/jobs?{query}")
    return run([tools.caller, server.host, server.port, request, 1, 0.1, 0])[1]


def figures(query: str, jobs: str, rows: list[dict]) -> dict:
    times = {count: statistics.median(row[query][count] for row in rows) for count in (str(FEW), jobs)}
    return {"microseconds": times, "ratio": spread([row[query][jobs] / row[query][str(FEW)] for row in rows])}
