"""Runs each step both ways, in turns, and keeps the times: the paper's Table 2 for this run."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .chain import Step
from .process import Failed
from .runner import Runner

STEP_BUDGET = 40.0  # seconds; a step that has used them is not repeated


@dataclass
class Row:
    """The times of one component, in seconds, in the order of the runs."""

    title: str
    service: str
    times: dict[str, list[float]] = field(default_factory=dict)

    def median(self, way: str) -> float:
        """The median time of one way."""
        return statistics.median(self.times[way])


def run_step(
    step: Step, runners: dict[str, Runner], folder: Path, repeat: int, say: Callable[[str], None]
) -> tuple[dict[str, Path], Row]:
    """Runs a step `repeat` times each way, in turns, and gives the outputs of the last way named.

    Each repetition begins with the other way, so that neither always finds the warmer caches.
    That both ways give the same results is checked every time.
    """
    row = Row(step.title, step.service, {way: [] for way in runners})
    ways = list(runners)
    started = time.monotonic()
    first, files = None, {}
    for turn in range(repeat):
        for way in ways if turn % 2 == 0 else ways[::-1]:
            done = runners[way].run(step, folder / f"{step.service}-{way}-{turn}")
            row.times[way].append(done.seconds)
            if first is None:
                first = done.files
            check_same(step, first, done.files)
            if way == ways[-1]:
                files = done.files
        times = ", ".join(f"{way} {row.times[way][-1]:.2f} s" for way in ways)
        say(f"{step.title}: {times}")
        used = time.monotonic() - started
        if used + used / (turn + 1) > STEP_BUDGET:
            break
    return files, row


def check_same(step: Step, one: dict[str, Path], other: dict[str, Path]) -> None:
    """Fails unless both hold the same bytes (but for the date and time in a .frd's header)."""
    for name in one:
        if one[name] != other[name] and content(one[name]) != content(other[name]):
            raise Failed(f"{step.title}: output {name} differs: {one[name]}, {other[name]}")


def content(path: Path) -> bytes:
    """A file's bytes, without a .frd's lines of date and time."""
    data = path.read_bytes()
    if path.suffix != ".frd":
        return data
    head, mark, rest = data.partition(b"\n    2C")
    kept = (
        line for line in head.split(b"\n") if not line.startswith((b"    1UDATE", b"    1UTIME"))
    )
    return b"\n".join(kept) + mark + rest
