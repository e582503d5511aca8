"""A bar for a job, where somebody can see it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from . import _native
    from ._job import Status

T = TypeVar("T")

Progress = bool | None | Callable[["Status"], object]
"""`None`: a bar if there is a terminal or a notebook. A function is called with each status."""


class Shown:
    """Shows what a job does; nothing without `tqdm`."""

    def __init__(self, wanted: Progress, name: str, leave: bool = True) -> None:
        self._told = wanted if callable(wanted) else None
        self._make = None if callable(wanted) or wanted is False else _bars(wanted is True)
        self._leave = leave
        self._name = name
        self._bar: Any = None
        self._phase = ""

    @property
    def looked_at(self) -> bool:
        """Whether anybody sees what is told."""
        return self._told is not None or self._make is not None

    def __enter__(self) -> Shown:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def tell(self, status: Status) -> None:
        """This is how it stands now."""
        if self._told is not None:
            self._told(status)
        if self._make is None:
            return
        fetching = status.state == "fetching"
        phase = "fetching" if fetching else "running"
        if phase != self._phase:
            self.__exit__(None, None, None)
            unit: dict[str, Any] = (
                {"unit": "B", "unit_scale": True}
                if fetching
                else {"total": 100, "unit": "%", "bar_format": _PERCENT}
            )
            self._bar = self._make(desc=self._name, leave=self._leave, **unit)
            self._phase = phase
        if fetching:
            totals = [transfer.total for transfer in status.transfers]
            self._bar.total = None if None in totals else sum(total or 0 for total in totals)
            self._bar.n = sum(transfer.bytes for transfer in status.transfers)
        else:
            done = status.state == "done"
            self._bar.n = 100 if done else round(100 * (status.progress or 0.0), 1)
        self._bar.set_postfix_str(status.state, refresh=False)
        self._bar.refresh()


_PERCENT = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}{postfix}"


class Moving(Generic[T]):
    """A step that moves bytes, with a bar if it takes long enough to be looked at."""

    def __init__(
        self,
        task: _native.Task[T],
        moved: Callable[[], tuple[int, int]],
        wanted: bool | None,
        name: str,
    ) -> None:
        self._task = task
        self._moved = moved
        self._make: Any = None if wanted is False else _bars(wanted is True)
        self._delay = 0.0 if wanted else 0.5
        self._name = name

    def _bar(self) -> Any:
        return self._make(desc=self._name, unit="B", unit_scale=True, delay=self._delay)

    def _tell(self, bar: Any) -> None:
        bar.n, total = self._moved()
        bar.total = total or None
        bar.update(0)
        bar.refresh()

    def wait(self) -> T:
        if self._make is None:
            return self._task.wait()
        with self._bar() as bar:
            done = self._task.wait(lambda: self._tell(bar))
            self._tell(bar)
        return done

    def __await__(self) -> Generator[Any, Any, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        if self._make is None:
            return await self._task
        with self._bar() as bar:
            telling = asyncio.create_task(self._ticking(bar))
            try:
                done = await self._task
            finally:
                telling.cancel()
            self._tell(bar)
        return done

    async def _ticking(self, bar: Any) -> None:
        while True:
            await asyncio.sleep(0.1)
            self._tell(bar)


def counted(number: int, what: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def human(size: float) -> str:
    """`1.5 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _bars(always: bool) -> Any:
    try:
        from tqdm.std import tqdm
    except ImportError:
        return None
    if _in_notebook():
        try:
            import ipywidgets  # noqa: F401
            from tqdm.notebook import tqdm as in_notebook
        except ImportError:
            return tqdm
        return in_notebook
    return tqdm if always or sys.stderr.isatty() else None


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and "IPKernelApp" in shell.config
