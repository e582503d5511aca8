"""The demo across two sites, and the comparison of serial and collective operations."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

import demo  # noqa: E402
from demo import Failed, checked, energy  # noqa: E402
from pipedemo.server import holders  # noqa: E402


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Its name is short: a server's socket has its directory in its own."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def start(script: str, temporary: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, HERE / script, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=os.environ | {"TMPDIR": str(temporary)})


def test_two_sites_give_the_published_energy(temporary: Path) -> None:
    run = start("demo.py", temporary, "--cells", "8")
    said, told = run.communicate(timeout=300)
    assert run.returncode == 0, told
    found = re.fullmatch(r"ek (\S+), published 1731.4306625334357: equal to \S+; [\d.]+ s\n", said)
    assert found and abs(float(found[1]) / 1731.4306625334357 - 1) < 1e-10, said
    sites = re.findall(r"site '\w+': (https://127.0.0.1:\d+)/moldyn", told)
    assert len(set(sites)) == 2 and "ranks: 4, servers: 2, which pass messages on" in told, told
    assert list(temporary.iterdir()) == [] and holders(temporary) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_leaves_nothing(number: int, temporary: Path) -> None:
    # So large that it does not end by itself.
    run = start("demo.py", temporary, "--cells", "40")
    deadline = time.monotonic() + 120
    while len(list(temporary.glob("*/*here/data/jobs/*/run"))) < 4:
        assert run.poll() is None and time.monotonic() < deadline, run.communicate()
        time.sleep(0.05)
    run.send_signal(number)
    run.communicate(timeout=120)
    assert run.returncode == 128 + number
    assert list(temporary.iterdir()) == [] and holders(temporary) == []


def test_what_is_missing_or_wrong_is_told(temporary: Path) -> None:
    run = start("demo.py", temporary, "--fishplate", str(temporary / "none"))
    assert "no fishplate binary" in run.communicate(timeout=60)[1] and run.returncode == 1
    with pytest.raises(Failed, match="needs none-such"):
        demo.ran(["none-such"], "a test")
    with pytest.raises(Failed, match="but 1731.4306625334357 is published"):
        checked(1731.43, 8)
    assert energy("[1] nothing\n[0] ek 7.5\n") == 7.5
    with pytest.raises(Failed, match="there is no energy"):
        energy("[1] ek 7.5\n")


def test_serial_and_collective_operations_are_compared(temporary: Path) -> None:
    run = start("figures.py", temporary, "--cells", "2", "4", "--ranks", "1", "2", "--rounds", "1")
    said, told = run.communicate(timeout=300)
    assert run.returncode == 0, told
    assert len(re.findall(r"particles, \d ranks, serial: ", told)) == 3
    assert re.search(r"^ +256 +2 kB +[\d.]+ +[\d.]+$", said, re.M), said
    assert re.search(r"^ +2 +[\d.]+ +[\d.]+$", said.partition("Figure 24")[2], re.M), said
