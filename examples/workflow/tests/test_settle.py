"""The loop: what it gives, killed and as a service."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "python/tests"))

from server import Hosted  # noqa: E402

import fishplate  # noqa: E402
from fishplate import _journal  # noqa: E402

SERVICES = [ROOT / "examples/arrays/smooth.toml", HERE / "settle.toml"]
LONG = 60.0


def steps(directory: Path) -> int:
    contents = _journal.read(directory / "journal")[0]
    return sum(attempts[-1].outputs is not None for attempts in contents.attempts.values())


def test_it_settles_however_often_it_is_killed_and_is_a_service(tmp_path: Path) -> None:
    with Hosted(tmp_path / "server", SERVICES, "--allow-private") as hosted:
        words = [sys.executable, str(HERE / "settle.py"), hosted.url, "plate", "0.5"]
        for wanted in (1, 3):
            process = subprocess.Popen(words, cwd=tmp_path)
            end = time.monotonic() + LONG
            while steps(tmp_path / "plate.run") < wanted:
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.01)
            process.kill()
            process.wait()
        told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        made = len(fishplate.Service(hosted.urls["smooth"]).jobs())
        assert f"settled after {made} calls" in told, "no call was made twice"
        assert (tmp_path / "plate.run/report.html").exists()
        settle = fishplate.Service(hosted.urls["settle"])
        answer = settle(server=hosted.url, run="plate", tolerance=0.5).temperature
        assert f"{answer:.2f}" in told
