"""What coupling costs when programs are short: a loop of steps through a run, through services, as a shell script, and
by other engines."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import engines
import machine
from server import serving
from tools import ROOT, Tools

WORK = 0.01  # seconds for which a program works
PYTHON = ROOT / ".venv/bin/python"
BYTES = 4096

OTHERS = 3  # rounds of another engine

PROGRAM = f"""#!/bin/sh
sleep {WORK}
cat "$1"
"""

SHELL = """
i=0
while [ "$i" -lt "$1" ]; do
    ./step.sh state > next
    mv next state
    i=$((i + 1))
done
"""

# By reference: what a step gives is the next one's input. Seconds without the interpreter's start, and what was moved.
LOOP = """
import json, sys, time
import fishplate
way, url, directory, steps = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
begin = time.monotonic()
if way == "service":
    step = fishplate.Service(url).by_reference()
else:
    run = fishplate.Run("loop", directory, reuse=way == "study", progress=False)
    step = run.service(url)
state = bytes(%d)
if way == "study":
    run.map(lambda number: step(state=b"%%d" %% number).next, range(steps))
else:
    for number in range(steps):
        state = step(state=state).next
seconds = time.monotonic() - begin
print(json.dumps({"seconds": seconds, "moved": fishplate.transferred()}))
""" % BYTES


def measure(tools: Tools, rounds: int, steps: int, many: int) -> dict:
    """In each round the three ways take turns; then a study of as many cases, and once more with
    `reuse`; then `many` steps of a program that does nothing, and resuming them."""
    place = Path(tempfile.mkdtemp(prefix="workflow-", dir=tools.scratch))
    program = place / "step.sh"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (place / "state").write_bytes(bytes(BYTES))
    ways = {"shell": [], "service": [], "run": []}
    loads, moved = [], []
    description = f'name = "step"\ncommand = "{program} [in file state:raw] > [out file next:raw]"\n'
    with serving(tools.binary, tools.scratch, "step", description) as server:
        for number in range(rounds):
            loads.append(machine.load())
            begin = tools.clock()
            subprocess.run(["sh", "-c", SHELL, "sh", str(steps)], cwd=place, check=True)
            ways["shell"].append((tools.clock() - begin) / steps)
            for way in ("service", "run"):
                told = loop(way, server.url, place / f"run-{number}", steps)
                ways[way].append(told["seconds"] / steps)
                if way == "run":
                    moved.append(sum(told["moved"]) / steps)
        # The same cases in two runs, which know nothing of each other.
        studies = [loop("study", server.url, place / name, steps)["seconds"] for name in ("first", "second")]
    description = 'name = "step"\ncommand = "/bin/cat [in file state:raw] > [out file next:raw]"\n'
    with serving(tools.binary, tools.scratch, "many", description) as server:
        begun = loop("run", server.url, place / "many", many)
        resumed = loop("run", server.url, place / "many", many)
    others = engines.measure(tools, place, program, bytes(BYTES), min(rounds, OTHERS), steps)
    journal = (place / "many/journal").stat().st_size
    shutil.rmtree(place)
    return {
        "rounds": rounds, "steps": steps, "work": WORK,
        "load": {"least": min(loads), "most": max(loads)},
        "seconds_a_step": {way: {"median": statistics.median(times), "least": min(times)}
                           for way, times in ways.items()},
        "engines": others,
        "bytes_a_step": statistics.median(moved),
        "study_seconds": {"first": studies[0], "reused": studies[1]},
        "many": {"steps": many, "seconds": begun["seconds"], "resumed_seconds": resumed["seconds"],
                 "journal_bytes": journal},
    }


def loop(way: str, url: str, directory: Path, steps: int) -> dict:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python/package")}
    python = PYTHON if PYTHON.exists() else sys.executable
    words = [python, "-c", LOOP, way, url, directory, str(steps)]
    told = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(told.stdout)
