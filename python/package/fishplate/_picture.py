"""How a run goes on, where somebody can see it."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from . import _report
from ._progress import _in_notebook, counted, human

if TYPE_CHECKING:
    from ._run import Run

PERIOD = 0.2
"""Seconds between two looks at a terminal."""

PERIOD_IN_NOTEBOOK = 1.0
"""Between two in a notebook."""

PERIOD_IN_LOG = 10.0
"""Between two lines of a file or a pipe."""

SHARE = 0.05
"""Of the time, at most, is spent drawing."""


class Picture:
    """A line that is drawn anew as long as the run goes on; in a notebook with who works when, the measures of convergence as
    curves, and the picture that came last. Where there is no terminal, for who wants it, a line now and then."""

    def __init__(self, run: Run, wanted: bool | None) -> None:
        self._run = run
        self._begun = time.monotonic()
        self._closed = threading.Event()
        self._notebook: Any = None
        self._image: Any = None
        self._shown: tuple[str, str] | None = None
        self._thread: threading.Thread | None = None
        if sys.stderr is None:  # the program was started with it closed
            return
        self._terminal = sys.stderr.isatty()
        notebook = _in_notebook()
        if wanted is False or not (wanted or notebook or self._terminal):
            return
        if notebook:
            from IPython.display import display

            # Both now: what a thread displays for the first time belongs to no cell.
            self._notebook, self._image = (
                display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
                for _ in range(2)
            )
        self._thread = threading.Thread(target=self._draw, name="picture", daemon=True)
        self._thread.start()

    def line(self) -> str:
        """The steps, what goes on, the measures of convergence, the time and the bytes."""
        run, contents = self._run, self._run._journal.contents
        last = [attempts[-1] for attempts in list(contents.attempts.values())]
        ended = sum(attempt.outputs is not None for attempt in last)
        failed = sum(attempt.fault is not None for attempt in last)
        parts = [f"{run.name}: {counted(ended, 'step')} done" + (f", {failed} failed" if failed else "")]
        now = time.time()
        running = [f"{step._service._name} {now - step._begun:.0f} s" for step in list(run._live.values())]
        if running:
            more = f" and {len(running) - 3} more" if len(running) > 3 else ""
            parts.append(", ".join(running[:3]) + more)
        measures: dict[str, list[float]] = {}
        for measure in list(contents.measures.values()):
            measures.setdefault(measure.name, []).append(measure.value)
        parts += [f"{name} {values[-1]:.3g} ({len(values)})" for name, values in measures.items()]
        parts += [f"{time.monotonic() - self._begun:.0f} s", f"{human(sum(run.transferred))} by us"]
        return " | ".join(parts)

    def close(self) -> None:
        """Draws it for the last time."""
        if self._thread is not None and not self._closed.is_set():
            self._closed.set()
            self._thread.join()
            self._show("\n")

    def _draw(self) -> None:
        if self._notebook is None:
            period = PERIOD if self._terminal else PERIOD_IN_LOG
        else:
            period = PERIOD_IN_NOTEBOOK
        pause = period
        while not self._closed.wait(pause):
            begun = time.monotonic()
            self._show("")
            pause = max(period, (time.monotonic() - begun) / SHARE)

    def _show(self, end: str) -> None:
        line = self.line()
        if self._notebook is not None:
            contents = self._run._journal.contents
            self._notebook.update({"text/plain": line, "text/html": _report.drawn(contents, line)}, raw=True)
            last = contents.pictures[-1] if contents.pictures else None
            if last is not None and last != self._shown:
                self._shown, (caption, name) = last, last
                html = _report.image(self._run.directory / name, caption)
                self._image.update({"text/plain": caption or name, "text/html": html}, raw=True)
            return
        if self._terminal:
            width = shutil.get_terminal_size().columns
            line = f"\r\x1b[K{line[: width - 1]}{end}"
        else:
            line += "\n"
        sys.stderr.write(line)
        sys.stderr.flush()
