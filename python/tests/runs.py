"""What tests of runs have in common."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fishplate import _journal

STUDY = Path(__file__).parent / "workflows/study.py"
LONG = 30.0
"""Seconds after which a condition will not come about."""


def following(x: int) -> int:
    """What the program gives."""
    return (x * 1103515245 + 12345) % 65536


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + LONG
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
    return found


class Starts:
    """The file in which programs note that they were started."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __call__(self) -> Counter[str]:
        path = Path(self.path)
        return Counter(path.read_text().split()) if path.exists() else Counter()


def script(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def contents(directory: Path) -> _journal.Contents:
    return _journal.read(directory / "journal")[0]
