"""A workflow at two servers ends with the same answer, whatever is killed meanwhile: KILLS=300 for a long one (`make soak`)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from runs import STUDY, Starts, contents
from server import EXAMPLES, SERVICES, Hosted

KILLS = int(os.environ.get("KILLS", "10"))
ROUNDS, PAUSE = 8, 0.1
LONGEST = 1.5
"""Seconds between two kills."""


class Workflow:
    """The study, in a directory of its own, started again whenever it was killed. What one server has sorted the other
    fetches from it."""

    def __init__(self, folder: Path, one: Hosted, other: Hosted, pause: float) -> None:
        folder.mkdir()
        self.directory, self.starts = folder / "run", Starts(folder / "starts")
        urls = [one.urls["tally"], other.urls["sort"], one.urls["gzip"]]
        words = [str(STUDY), str(self.directory), self.starts.path, str(ROUNDS), str(pause), *urls]
        self.words = [sys.executable, *words]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def answer(self) -> str:
        out, err = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, err
        return out

    def programs(self) -> list[int]:
        """Programs that have noted their start, and sleep."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
                parent = int(rest.split()[1])
                if name == "sleep" and self.starts.path.encode() in Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0"):
                    found.append(parent)
        return found


def test_whatever_is_killed_the_answer_is_the_same(tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED", time.time_ns() % 10**6))
    draw = random.Random(seed)
    print(f"seed {seed}")
    services = [SERVICES / "tally.toml", EXAMPLES / "files/sort.toml", EXAMPLES / "files/gzip.toml"]
    killed: Counter[str] = Counter()
    with (
        Hosted(tmp_path / "one", services, "--allow-private") as one,
        Hosted(tmp_path / "other", services, "--allow-private") as other,
    ):
        servers = [(hosted, urlsplit(hosted.url).netloc) for hosted in (one, other)]
        undisturbed = Workflow(tmp_path / "undisturbed", one, other, 0)
        answer = undisturbed.answer()
        assert set(undisturbed.starts().values()) == {1}
        number = 0
        while killed.total() < KILLS:
            number += 1
            # In turns, so that programs that take their time run at both.
            workflow = Workflow(tmp_path / str(number), *((one, other) if number % 2 else (other, one)), PAUSE)
            while workflow.process.poll() is None and killed.total() < KILLS:
                time.sleep(draw.uniform(0, LONGEST))
                victim = draw.choice(("workflow", "server", "program"))
                if victim == "workflow":
                    if workflow.process.poll() is not None:
                        continue
                    workflow.process.kill()
                    workflow.process.communicate()
                    workflow.start()
                elif victim == "server":
                    hosted, listen = draw.choice(servers)
                    hosted.process.kill()
                    hosted.process.wait()
                    time.sleep(draw.uniform(0, 0.5))
                    hosted.start(listen)
                else:
                    programs = workflow.programs()
                    if not programs:
                        continue
                    with suppress(ProcessLookupError):
                        os.kill(draw.choice(programs), signal.SIGKILL)
                killed[victim] += 1
            assert workflow.answer() == answer, f"seed {seed}"
            begun: Counter[str] = Counter()
            for attempts in contents(workflow.directory).attempts.values():
                for attempt in attempts:
                    tag = next((value for name, _, value in attempt.inputs if name == "tag"), None)
                    begun.update([tag] if tag else [])
            assert workflow.starts() == begun, f"seed {seed}: a program was started once for each attempt"
    print(f"{killed.total()} kills ({dict(killed)}) of {number} runs, each with the answer of the undisturbed one")
