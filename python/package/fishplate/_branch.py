"""Places in a run: a branch, and a number in it. They are the same each time the workflow runs."""

from __future__ import annotations

import asyncio
import threading
from asyncio import Task
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from .errors import BranchError

if TYPE_CHECKING:
    from ._step import Step


class Branch:
    """Calls that are made one after the other, by one thread or task.

    A branch numbers its calls from 1; what goes on beside it has a branch of its own. So a place does not depend on
    which of two branches is faster.
    """

    def __init__(self, path: str = "") -> None:
        self.path = path
        self._lock = threading.Lock()
        self._count = 0
        self._numbers: dict[tuple[str, str], int] = {}
        self._open: set[str] = set()
        self._owner: tuple[threading.Thread, Task[Any] | None] | None = None
        self._raised: list[tuple[Step, Exception]] = []

    def raised(self, *failures: tuple[Step, Exception]) -> None:
        """Failures of steps came to the workflow here; it is open whether it goes on from them."""
        with self._lock:
            self._raised += failures

    def went_on(self) -> None:
        """The workflow goes on here, so it took what was raised."""
        failures = self.unsettled()
        for step, error in failures:
            step._note_taken(error)

    @property
    def is_unsettled(self) -> bool:
        """Whether that is open of a failure."""
        return bool(self._raised)

    def unsettled(self) -> list[tuple[Step, Exception]]:
        """The failures of which that was open; they are no more this branch's."""
        with self._lock:
            failures, self._raised = self._raised, []
        return failures

    def take(self) -> str:
        """The next place."""
        self.own()
        self.went_on()
        with self._lock:
            self._count += 1
            return self.child(str(self._count))

    def numbered(self, name: str, kind: str = "branch") -> str:
        """The next place of that name, which is no call's. Each kind is counted for itself."""
        with self._lock:
            number = self._numbers[kind, name] = self._numbers.get((kind, name), 0) + 1
            return self.child(f"{name}.{number}")

    def child(self, name: str) -> str:
        """A place or branch of this one."""
        return f"{self.path}/{name}" if self.path else name

    def own(self) -> None:
        """Has the thread or task that asks be the one whose branch this is.

        # Errors
        `BranchError` if another one is, and goes on: which of the two comes first could not be told.
        """
        here = _here()
        with self._lock:
            owner, self._owner = self._owner, here
            if owner is None or owner == here:
                return
            thread, task = owner
            ended = not thread.is_alive() if task is None else task.done()
            # A loop runs inside what its thread did before.
            if not ended and not (thread is here[0] and task is None):
                self._owner = owner
                raise BranchError(
                    f"branch {self.path or 'of the run'} belongs to another thread or task: call in "
                    "`with run.branch(NAME):` there, or begin branches with `run.map` or `run.gather`, so that "
                    "their places are the same each time"
                )

    @contextmanager
    def opened(self, name: str) -> Iterator[Branch]:
        """A branch of that name, which nobody else may have at the same time."""
        with self._lock:
            if name in self._open:
                raise BranchError(f"branch {name} is open already: what goes on side by side has names of its own")
            self._open.add(name)
            is_ours = self._owner in (None, _here())
        if is_ours:
            self.went_on()
        try:
            yield Branch(self.numbered(name))
        finally:
            with self._lock:
                self._open.discard(name)


def _here() -> tuple[threading.Thread, Task[Any] | None]:
    return threading.current_thread(), _task()


def _task() -> Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class Branches:
    """Which branch who asks is in."""

    def __init__(self) -> None:
        self._root = Branch()
        # Places of calls and of what is kept, that the workflow has come to.
        self._reached: set[str] = set()
        self._current: ContextVar[Branch | None] = ContextVar("branch", default=None)

    @property
    def current(self) -> Branch:
        return self._current.get() or self._root

    def take(self) -> str:
        """The next place of the current branch, which is reached."""
        place = self.current.take()
        self._reached.add(place)
        return place

    def unreached(self, journalled: Iterable[str]) -> list[str]:
        """Those of the journalled places to which a workflow that has ended well did not come. None if it came nowhere (it only
        looked at the run), or ended with a failure that it did not go on from."""
        if not self._reached or self._root.is_unsettled:
            return []
        return [place for place in journalled if place not in self._reached]

    @contextmanager
    def entered(self, branch: Branch) -> Iterator[None]:
        """Calls are made in this branch, which came from the current one."""
        parent = self.current
        token = self._current.set(branch)
        try:
            branch.own()
            yield
            branch.went_on()
        except BaseException:
            # Whoever goes on from it there takes what was raised here.
            parent.raised(*branch.unsettled())
            raise
        finally:
            self._current.reset(token)
