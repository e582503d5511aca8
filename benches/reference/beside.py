"""Small calls while a large transfer runs on the same server: what becomes of their latency."""

import contextlib
import os
import statistics
import subprocess
import time
from pathlib import Path

import machine
import sites
from drivers import end_with_us
from server import Server
from sites import Ends
from tools import Tools

LARGE = 10 * 10**9
LARGE_QUICK = 10**9
# One connection, one request at a time, before the transfer and while it runs.
SLICE = 1.0
QUIET_SLICES = 4


def section(tools: Tools, quick: bool) -> str:
    size = LARGE_QUICK if quick else LARGE
    ends, file = Ends(), tools.scratch / "large"
    with open(file, "wb") as to:
        to.truncate(size)  # sparse: the source's disk is not what is looked at
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(sites.nginx(tools, ends, tools.scratch))
        server = stack.enter_context(sites.site(tools, ends.far, ends.in_far))
        request = server.write_post(tools.scratch / "running.http", "jobs")
        quiet = [latencies(tools, server, request) for _ in range(QUIET_SLICES)]
        transfer = subprocess.Popen(
            [tools.binary, "call", server.url, f"data@{source}/{file.name}", "--no-key"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=end_with_us)
        began, busy = time.monotonic(), []
        while transfer.poll() is None:
            busy.append(latencies(tools, server, request))
        took = time.monotonic() - began
        if transfer.returncode:
            raise SystemExit(f"bench: the transfer ended with {transfer.returncode}")
        memory = machine.memory(server.pid)["VmHWM"]
    file.unlink()
    # The last slice has a part in which nothing was transferred any more.
    return told(size, took, sum(quiet, []), sum(busy[:-1] or busy, []), memory)


def latencies(tools: Tools, server: Server, request: Path) -> list[int]:
    """Nanoseconds of each answer."""
    done = subprocess.run([tools.caller, server.host, str(server.port), request, "1", str(SLICE), "0"],
                          check=True, capture_output=True, text=True)
    return [int(line) for line in done.stdout.split("\n")[1:] if line]


def told(size: int, took: float, quiet: list[int], busy: list[int], memory: int) -> str:
    rows = []
    for name, share in (("median", 0.5), ("99 %", 0.99)):
        before, during = quantile(quiet, share), quantile(busy, share)
        rows.append(f"| {name} | {before / 1000:.0f} µs | {during / 1000:.0f} µs | {during / before:.2f} |")
    return "\n".join([
        "## Small calls beside a large transfer", "",
        f"`jobs` of one connection, one request at a time, before and while the server fetches "
        f"{size / 1e9:g} GB ({took:.1f} s, {size / took / 1e6:.0f} MB/s; the server's memory at most "
        f"{memory / 2**20:.0f} MiB). nginx, the client of the small calls and the server share "
        f"{os.cpu_count()} cores.", "",
        "| | before | during | ratio |", "|---|---|---|---|", *rows, ""])


def quantile(times: list[int], share: float) -> float:
    return statistics.quantiles(times, n=1000, method="inclusive")[round(share * 1000) - 1]
