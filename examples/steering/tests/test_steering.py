"""A program for MPI that computes until it is told otherwise: its ends are set, and it is stopped, from outside."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

import fishplate
import pytest

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]
BINARY = Path(os.environ.get("FISHPLATE", ROOT / "target/debug/fishplate"))
ZEEP = sorted((ROOT / ".cache/interop").glob("zeep-*/bin/python"))
STATE = re.compile(r" *(\d+) steps: (\S+) degrees at the left end, (\S+) in the mean")
PATIENCE = 120  # seconds


@pytest.fixture(scope="module")
def heat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("heat") / "heat"
    library = BINARY.with_name("libmpi_abi.so")
    command = ["cc", "-O2", "-Wall", "-Werror", "-I", ROOT / "crates/mpi/include", HERE / "heat.c", library, "-o", program]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize(("script", "python"), [("steer.py", [sys.executable]), ("steer_zeep.py", ZEEP[:1])])
def test_ends_are_set_while_it_runs(script: str, python: list[str | Path], heat: Path, tmp_path: Path) -> None:
    if not python:
        pytest.skip("zeep is not installed; `make interop` does that")
    endpoints = tmp_path / "ranks.json"
    run = [BINARY, "run", "-n", "2", "--timeout", f"{PATIENCE}s", "--transport", "soap", "--endpoints", endpoints, heat]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            while not endpoints.exists():
                assert running.poll() is None, running.communicate()
                time.sleep(0.01)
            steered = subprocess.run([*python, HERE / script, endpoints, "-50", "0"], capture_output=True, text=True, timeout=PATIENCE)
            assert steered.returncode == 0, steered.stderr
            said, errors = running.communicate(timeout=PATIENCE)
        finally:
            running.terminate()
    assert running.returncode == 0, errors
    states = [STATE.fullmatch(line) for line in steered.stdout.splitlines()]
    assert len(states) == 3 and all(states), steered.stdout
    steps, ends, means = zip(*(map(float, state.groups()) for state in states if state), strict=True)
    assert ends == (-50, 0, 0)
    # It computed on between two orders, and the first changed what came out: it was heated before, and cooled then.
    assert steps[0] < steps[1] < steps[2] and said == f"stopped after {steps[2]:.0f} steps\n"
    assert means[0] > 0 and means[1] < means[0]


def test_an_order_may_have_any_length(heat: Path, tmp_path: Path) -> None:
    endpoints = tmp_path / "ranks.json"
    run = [BINARY, "run", "-n", "2", "--timeout", f"{PATIENCE}s", "--transport", "soap", "--endpoints", endpoints, heat]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            while not endpoints.exists():
                assert running.poll() is None, running.communicate()
                time.sleep(0.01)
            told = json.loads(endpoints.read_text())
            rank = fishplate.Service(told["ranks"][0], auth=told["credential"])
            for number, (tag, data) in enumerate([(1, b"no double"), (2, b"stop, please")], 1):
                rank.store(domain=told["domain"], client="test", sequence=number, fromRank=0, toRank=0, tag=tag, data=data)
                state = rank.receive(domain=told["domain"], source=0, tag=3, wait=60).data.bytes()
                assert struct.unpack("=3d", state)[1] == 100  # as it was
            said, errors = running.communicate(timeout=PATIENCE)
        finally:
            running.terminate()
    assert running.returncode == 0 and said.startswith("stopped after "), errors
