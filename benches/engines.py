"""The loop of `workflow` by other engines: each step a program that takes the file which the one before gave."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import machine
from preparation import PreparationFailed, venv
from tools import Tools

SNAKEFILE = """
rule all:
    input: "state.STEPS"

rule step:
    input: lambda wildcards: f"state.{int(wildcards.number) - 1}"
    output: "state.{number,[1-9][0-9]*}"
    shell: "./step.sh {input} > {output}"
"""

# What a step gave is remembered, so that the loop can be resumed.
PARSL = """
import sys
import parsl
from parsl.config import Config
from parsl.dataflow.memoization import BasicMemoizer
from parsl.executors import ThreadPoolExecutor

@parsl.bash_app(cache=True)
def step(before, after):
    return f"./step.sh {before} > {after}"

config = Config(executors=[ThreadPoolExecutor(max_threads=1)], memoizer=BasicMemoizer(checkpoint_mode="task_exit"),
                usage_tracking=0, initialize_logging=False)
with parsl.load(config):
    for number in range(int(sys.argv[1])):
        step(f"state.{number}", f"state.{number + 1}").result()
"""

PREFECT = """
import subprocess, sys
from prefect import flow, task

@task(persist_result=True)
def step(before: str, after: str) -> str:
    with open(after, "wb") as out:
        subprocess.run(["./step.sh", before], stdout=out, check=True)
    return after

@flow(log_prints=False)
def loop(steps: int) -> None:
    state = "state.0"
    for number in range(steps):
        state = step(state, f"state.{number + 1}")

loop(int(sys.argv[1]))
"""

PREFECT_SETTINGS = {"PREFECT_LOGGING_LEVEL": "CRITICAL", "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
                    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120", "DO_NOT_TRACK": "1"}


@dataclass
class Engine:
    """A workflow engine from the Python package index."""

    name: str
    requirement: str
    steps: int
    """Of its loop; it is the slower the more there are, or slow."""
    prepare: Callable[[Path, int], None]
    """Writes what it runs."""
    command: Callable[[Path, int], list]
    """Of its programs' directory and a number of steps."""
    beside: tuple[str, ...] = ()
    """What it would take in a version that it does not work with."""

    @property
    def version(self) -> str:
        return self.requirement.partition("==")[2]


def snakemake(place: Path, steps: int) -> None:
    (place / "Snakefile").write_text(SNAKEFILE.replace("STEPS", str(steps)))


def cwl(place: Path, steps: int) -> None:
    """CWL has no loop: as many steps as there are, one after the other."""
    step = {"cwlVersion": "v1.2", "class": "CommandLineTool", "baseCommand": str(place / "step.sh"), "stdout": "next",
            "inputs": {"state": {"type": "File", "inputBinding": {}}}, "outputs": {"next": "stdout"}}
    (place / "step.cwl").write_text(json.dumps(step))
    source = lambda number: f"step-{number - 1}/next" if number else "state"  # noqa: E731
    chain = {number: {"run": "step.cwl", "in": {"state": source(number)}, "out": ["next"]} for number in range(steps)}
    loop = {"cwlVersion": "v1.2", "class": "Workflow", "inputs": {"state": "File"},
            "outputs": {"last": {"type": "File", "outputSource": source(steps)}},
            "steps": {f"step-{number}": told for number, told in chain.items()}}
    (place / "loop.cwl").write_text(json.dumps(loop))
    (place / "inputs.json").write_text(json.dumps({"state": {"class": "File", "path": "state.0"}}))


def script(text: str) -> Callable[[Path, int], None]:
    return lambda place, _: (place / "loop.py").write_text(text) and None


def scripted(programs: Path, steps: int) -> list:
    return [programs / "python", "loop.py", str(steps)]


ENGINES = (
    Engine("Snakemake", "snakemake==9.27.1", 100, snakemake,
           lambda programs, _: [programs / "snakemake", "--cores", "1", "--quiet", "all"]),
    Engine("Parsl", "parsl==2026.10.26", 1000, script(PARSL), scripted),
    Engine("Prefect", "prefect==3.8.8", 100, script(PREFECT), scripted, beside=("fastapi==0.139.0",)),
    Engine("cwltool", "cwltool==3.3.20260925135507", 100, cwl,
           lambda programs, _: [programs / "cwltool", "--quiet", "--outdir", "given", "loop.cwl", "inputs.json"]),
)


def measure(tools: Tools, place: Path, program: Path, state: bytes, rounds: int, most: int) -> list[dict]:
    """What a step takes by each engine that can be installed: the time of many steps without that of one. In each round
    they take turns; one that fails is left out."""
    runs = [Runs(engine, max(2, min(engine.steps, most))) for engine in ENGINES]
    # The first time an engine is installed, and its modules are compiled.
    for number in range(-1, rounds):
        for one in list(runs):
            engine = one.engine
            try:
                directory = tools.cache / engine.requirement.replace("==", "-")
                programs = venv(directory, engine.requirement, *engine.beside).parent

                def loop(name: str, steps: int) -> float:
                    folder = place / f"{engine.name}-{number}-{name}"
                    return seconds(tools, engine, programs, folder, program, state, steps)

                load = machine.load()
                took = loop("one", 1), loop("many", one.steps) if number >= 0 else 0.0
                if number >= 0 and took[1] <= took[0]:
                    raise EngineFailed(f"its start varies by more than {one.steps} steps take")
            except (PreparationFailed, EngineFailed) as problem:
                print(f"  without {engine.name}: {problem}", file=sys.stderr)
                runs.remove(one)
                continue
            if number >= 0:
                one.pairs.append(took)
                one.loads.append(load)
    return [one.found() for one in runs]


@dataclass
class Runs:
    """Times of an engine's runs."""

    engine: Engine
    steps: int
    pairs: list[tuple[float, float]] = field(default_factory=list)
    """Of one step, and of many; in seconds."""
    loads: list[float] = field(default_factory=list)

    def found(self) -> dict:
        ones, manies = zip(*self.pairs, strict=True)
        differences = [many - one for one, many in self.pairs]
        return {"name": self.engine.name, "version": self.engine.version, "steps": self.steps, "rounds": len(self.pairs),
                "load": {"least": min(self.loads), "most": max(self.loads)},
                "seconds_a_step": {"median": statistics.median(differences) / (self.steps - 1),
                                   "least": (min(manies) - min(ones)) / (self.steps - 1)}}


class EngineFailed(Exception):
    """A run of an engine ended with an error."""


def seconds(tools: Tools, engine: Engine, programs: Path, place: Path, program: Path, state: bytes, steps: int) -> float:
    place.mkdir()
    (place / "step.sh").symlink_to(program)
    (place / "state.0").write_bytes(state)
    engine.prepare(place, steps)
    environment = os.environ | PREFECT_SETTINGS | {
        "HOME": str(place), "PREFECT_HOME": str(place / "prefect"), "PATH": f"{programs}:{os.environ['PATH']}"}
    begin = tools.clock()
    done = subprocess.run(engine.command(programs, steps), cwd=place, env=environment, capture_output=True, text=True)
    took = tools.clock() - begin
    if done.returncode != 0:
        raise EngineFailed(f"it ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return took
