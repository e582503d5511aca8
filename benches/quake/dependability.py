"""What QUAKE says of ourselves: its experiments in this directory, what its watching costs, and its generator beside wrk and k6."""

import json
import math
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import machine
from overhead import spread
from server import serving_functions, serving_words
from throughput import CLIENTS, post_script, wrk
from tools import Tools

HERE = Path(__file__).resolve().parent
# In the order of the issue that asked for them. `stress-memory` takes all memory of its control group, itself included; `stress` all
# threads.
EXPERIMENTS = ("function", "program", "kill", "stress", "stress-disk", "stress-memory", "clients", "admission", "memory")
PARTS = (*EXPERIMENTS, "watching", "generator")
WITHIN = {"stress": [str(HERE / "confined.sh"), "pids=400"], "stress-memory": [str(HERE / "confined.sh"), "memory=2048"]}
AS_ROOT = ("stress", "stress-disk", "stress-memory", "memory")
# Of those whose own times do not matter, with --quick.
SHORT = {name: ["--set", "workload.duration=20s"] for name in ("function", "program", "clients", "admission", "memory")}
SHORT["kill"] = ["--set", "workload.duration=100s"]
UNTRUSTED = 10  # the exit code of `quake run` for a verdict that speaks against a system

# Calls that take their time at the server, so that generators are not compared by what they leave of the processors: milliseconds,
# each as likely. The 99 % of calls that are all equal would be what the scheduler did to them, which differs by a third between two
# runs of any generator.
NAPS, PLACES = (20, 99), 64
QUANTILES = {"p50": "50", "p90": "90", "p99": "99"}
PEERS = ("wrk", "k6")

K6_SCRIPT = """import http from 'k6/http';
export default function () {{
  const nap = {least} + Math.floor(Math.random() * ({most} - {least} + 1));
  http.post({url}, {before} + nap + {after}, {{ headers: {{ 'Content-Type': 'text/xml; charset=utf-8', 'SOAPAction': '""' }} }});
}}
"""

# Added to what has wrk post one body.
WRK_NAPS = """math.randomseed(os.time())
request = function() return wrk.format(nil, nil, nil, [[{before}]] .. math.random({least}, {most}) .. [[{after}]]) end
"""


def measure(tools: Tools, only: list[str], quick: bool, kept: Path) -> dict:
    """All of it, or what is named beside what was kept before; an experiment that this machine can't run is left out, and told."""
    wanted = [name for name in PARTS if not only or name in only]
    left_out = [name for name in wanted if name in AS_ROOT and os.geteuid() != 0]
    found: dict = {"experiments": {}, "taken": {}}
    if only and not quick and kept.exists():
        before = json.loads(kept.read_text())
        found = {name: before[name] for name in (*found, "watching", "generator") if name in before}
    found |= {"quick": quick, "left_out": left_out}
    for name in wanted:
        if name in left_out:
            continue
        print(f"quake: {name} ...", flush=True)
        here = machine.describe()
        found["taken"][name] = {"date": here["date"], "commit": here["commit"], "load": round(machine.load(), 2)}
        if name == "watching":
            found["watching"] = watching(tools, 4 if quick else 100, 2)
        elif name == "generator":
            found["generator"] = generator(tools, 2 if quick else 6, 5 if quick else 20)
        else:
            found["experiments"][name] = experiment(tools, HERE / f"{name}.toml", name, SHORT.get(name, []) if quick else [])
    return found


def experiment(tools: Tools, file: Path, name: str, settings: list[str]) -> dict:
    report = tools.scratch / f"{name}.quake"
    command = [*WITHIN.get(name, []), tools.binary, "quake", "run", file, "--report", report, *settings]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False,
                          env={**os.environ, "PATH": f"{tools.binary.parent}:{os.environ['PATH']}"})
    print(done.stdout, end="", flush=True)
    # What `small-disk.sh` made has to be there until the server has ended.
    for disk in report.glob("cells/*/*/data"):
        if disk.is_mount():
            subprocess.run(["umount", str(disk)], check=True)
    if done.returncode not in (0, UNTRUSTED):
        raise SystemExit(f"bench: {name} ended with exit code {done.returncode}")
    results = json.loads((report / "results.json").read_text())
    return {"settings": settings,
            "cells": [{"line": system["line"], "sentence": cell["verdict"]["sentence"], **cell["figures"]}
                      for system, cell in zip(results["systems"], results["cells"], strict=True)]}


def watching(tools: Tools, pairs: int, seconds: int) -> dict:
    """What the server's work costs and gives while it is watched (sampled and probed each second) and while it is not: one server
    under wrk's load, since servers differ by more than that, and QUAKE stopped (SIGSTOP) in one of every two windows of time."""
    report = tools.scratch / f"watched-{time.monotonic_ns()}.quake"
    # One client that calls once, and then thinks for longer than all takes.
    command = [tools.binary, "quake", "run", HERE / "function.toml", "--report", report, "--set", "workload.clients=1",
               "--set", "workload.think={ mean = \"1h\" }", "--set", "workload.duration=1h", "--set", "workload.warm_up=0"]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "PATH": f"{tools.binary.parent}:{os.environ['PATH']}"})
    rows = []
    try:
        events = report / "cells/cell/1/events.jsonl"
        while not (events.exists() and '"ready"' in events.read_text()):
            time.sleep(0.1)
        pid = next(json.loads(line)["what"] for line in events.read_text().splitlines() if '"started"' in line)["pid"]
        url = f"http://127.0.0.1:{port_of(pid)}/matrix"
        load(tools, url, pid, 5)
        for number in range(pairs):
            row = {}
            # By turns first and last, so that a drift does not tell.
            for way in ("watched", "alone")[:: 1 if number % 2 else -1]:
                told(process.pid, signal.SIGCONT if way == "watched" else signal.SIGSTOP)
                row[way] = load(tools, url, pid, seconds)
            rows.append(row)
    finally:
        told(process.pid, signal.SIGCONT)
        process.terminate()
        process.wait(timeout=60)
    # The samples are whole when it has ended.
    samples = (report / "cells/cell/1/system.jsonl").read_text().splitlines()
    used = [json.loads(line)["watching"] for line in samples if line.endswith("}")]
    if len(used) < pairs * seconds // 2:
        raise SystemExit(f"bench: {len(used)} samples of {pairs * seconds} s of watching in {report}")
    return {"seconds": seconds, "rounds": rows, "watching_cores": sum(used) / len(used) / 1e6,
            **{name: confidence([row["watched"][what] / row["alone"][what] for row in rows])
               for name, what in (("rate", "a_second"), ("processor", "cpu_microseconds"))}}


def told(manager: int, what: signal.Signals) -> None:
    """QUAKE's processes on this machine: the manager and its agents, not the system's."""
    for pid in (manager, *map(int, Path(f"/proc/{manager}/task/{manager}/children").read_text().split())):
        os.kill(pid, what)


def confidence(ratios: list[float]) -> dict:
    """Their geometric mean, with bounds of 95 % (normal: there are dozens)."""
    logarithms = [math.log(ratio) for ratio in ratios]
    mean, error = statistics.mean(logarithms), statistics.stdev(logarithms) / math.sqrt(len(ratios))
    return {"lower": math.exp(mean - 1.96 * error), "mean": math.exp(mean), "upper": math.exp(mean + 1.96 * error)}


def port_of(pid: int) -> int:
    """Of the only socket at which a process listens."""
    inodes = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            return int(fields[1].rpartition(":")[2], 16)
    raise SystemExit(f"bench: process {pid} does not listen")


def load(tools: Tools, url: str, pid: int, seconds: int) -> dict:
    script = write_script(tools, "add", "<t:x>1</t:x><t:y>2</t:y>")
    wrk(tools.wrk, url, script, 1)
    used = machine.used([pid])
    count, elapsed, _ = wrk(tools.wrk, url, script, seconds)
    return {"a_second": count / elapsed, "cpu_microseconds": (machine.used([pid]) - used) / count * 1e6}


def write_script(tools: Tools, operation: str, children: str) -> Path:
    script = tools.scratch / f"{operation}.lua"
    script.write_text(post_script(request(operation, children)))
    return script


def request(operation: str, children: str) -> str:
    return (f'<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"><S:Body><t:{operation} '
            f'xmlns:t="urn:fishplate:matrix">{children}</t:{operation}></S:Body></S:Envelope>')


def generator(tools: Tools, rounds: int, seconds: int) -> dict:
    """Ours, wrk and k6 in turn, on the same server, with as many connections."""
    words = ["--builtin", "matrix", "--limit", f"functions_running={PLACES}"]
    k6 = tools.k6()
    rows = []
    with serving_words(tools.binary, Path(tempfile.mkdtemp(prefix="naps-", dir=tools.scratch)), words) as server:
        (least, most), (before, after) = NAPS, nap()
        script = write_script(tools, "nap", f"<t:seconds>0.0{least}</t:seconds>")
        script.write_text(script.read_text() + WRK_NAPS.format(least=least, most=most, before=before, after=after))
        wrk(tools.wrk, server.url, script, 1)
        for number in range(rounds):
            rows.append({"wrk": by_wrk(tools, server.url, script, seconds),
                         "k6": by_k6(tools, k6, server.url, seconds),
                         "quake": by_quake(tools, server.url, seconds, f"generator-{number}")})
    names = ("a_second", *QUANTILES, "cpu_microseconds")
    return {"clients": CLIENTS, "naps": NAPS, "rounds": rows,
            "ratio": {peer: {what: spread([row["quake"][what] / row[peer][what] for row in rows]) for what in names}
                      for peer in PEERS},
            **{side: {what: statistics.median(row[side][what] for row in rows) for what in names} for side in ("quake", *PEERS)}}


def nap() -> list[str]:
    """What stands before and behind a nap's milliseconds, two digits, in a request."""
    return request("nap", "<t:seconds>0.0MS</t:seconds>").split("MS")


def by_wrk(tools: Tools, url: str, script: Path, seconds: int) -> dict:
    before = machine.children()
    count, elapsed, told = wrk(tools.wrk, url, script, seconds)
    return {"a_second": count / elapsed, **wrk_quantiles(told), "cpu_microseconds": (machine.children() - before) / count * 1e6}


def by_k6(tools: Tools, k6: Path, url: str, seconds: int) -> dict:
    script, summary = tools.scratch / "nap.js", tools.scratch / "k6.json"
    (least, most), (before, after) = NAPS, map(json.dumps, nap())
    script.write_text(K6_SCRIPT.format(least=least, most=most, before=before, after=after, url=json.dumps(url)))
    before = machine.children()
    subprocess.run([str(word) for word in (k6, "run", "--quiet", "--vus", CLIENTS, "--duration", f"{seconds}s", "--summary-export",
                                           summary, "--summary-trend-stats", "p(50),p(90),p(99)", script)],
                   check=True, stdout=subprocess.DEVNULL)
    used = machine.children() - before
    metrics = json.loads(summary.read_text())["metrics"]
    if metrics["http_req_failed"]["value"] != 0:
        raise SystemExit("bench: calls of k6 failed")
    return {"a_second": metrics["http_reqs"]["rate"],
            **{name: metrics["http_req_duration"][f"p({quantile})"] * 1000 for name, quantile in QUANTILES.items()},
            "cpu_microseconds": used / metrics["http_reqs"]["count"] * 1e6}


def by_quake(tools: Tools, url: str, seconds: int, name: str) -> dict:
    file = tools.scratch / "generator.toml"
    file.write_text(f'name = "generator"\n[system]\nname = "naps"\nurl = "{url}"\n[workload]\n'
                    f'clients = {CLIENTS}\nduration = "{seconds}s"\nwarm_up = 200\n[[operation]]\nname = "nap"\n'
                    f'arguments = ["seconds=0.0{{random:{NAPS[0]}..{NAPS[1]}}}"]\n')
    ours = experiment(tools, file, name, [])["cells"][0]
    return {"a_second": ours["goodput"], **{name: ours["service"][name] for name in QUANTILES},
            "cpu_microseconds": ours["generator"]["processor_per_request"], "lag": ours["generator"]["lag_max"]}


def wrk_quantiles(told: str) -> dict:
    """In microseconds."""
    unit = {"us": 1, "ms": 1e3, "s": 1e6}
    said = dict(re.findall(r"^\s+(\d\d)%\s+(\S+)$", told, re.MULTILINE))
    value = {name: re.fullmatch(r"([\d.]+)([a-z]+)", said[quantile]).groups() for name, quantile in QUANTILES.items()}
    return {name: float(number) * unit[of] for name, (number, of) in value.items()}
