"""Jobs: programs that run at a server, whether anybody is connected or not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from html import escape
from typing import Any, Generic, Literal, TypeVar

from . import _native, _show
from ._flow import Flow, Sleep, awaiting, blocking
from ._progress import Progress, Shown
from ._result import Result
from ._values import received
from .errors import Fault, Timeout

T = TypeVar("T")

State = Literal["fetching", "queued", "running", "done", "failed", "killed", "unknown"]
"""Where a job stands; the last four are for good."""

FINAL = frozenset(name for name, final in _native.job_states() if final)

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
"""Seconds between two questions whether a job has ended; they become rarer."""


@dataclass(frozen=True)
class Transfer:
    """Data of a job that comes or goes by reference."""

    parameter: str
    """The input or output."""
    peer: str
    """The other end: scheme and authority."""
    state: Literal["waiting", "running", "done", "failed"]
    bytes: int
    """How many are here, or there."""
    total: int | None
    """How many there will be, if that is known."""
    placed: Literal["reflink", "link", "move", "copy"] | None
    """How the data became a file of the job's, once it did."""
    cached: bool
    """It was at the job's server before, or came for another job: its bytes were not sent for this one."""


@dataclass(frozen=True)
class Status:
    """All there is to tell of a job."""

    id: str
    service: str
    operation: str
    state: State
    progress: float | None
    """Share done, 0 to 1, if the program tells."""
    message: str
    """What it waits for, why it failed, how it was ended."""
    submitted: datetime
    started: datetime | None
    ended: datetime | None
    exit_code: int | None
    signal: str | None
    """The signal that ended the program, such as `SIGSEGV`."""
    cpu_seconds: float | None
    """Processor time used, in seconds."""
    max_memory: int | None
    """Largest resident memory, in bytes."""
    disk: int | None
    """Disk space occupied, in bytes."""
    transfers: tuple[Transfer, ...]
    """Data that comes or goes by reference."""

    @property
    def final(self) -> bool:
        """The job will not change any more."""
        return self.state in FINAL

    def _repr_html_(self) -> str:
        return _show.fields_html(
            (field.name, value)
            for field in fields(self)
            if (value := getattr(self, field.name)) not in (None, "", ())
        )


class Jobs(list[Status]):
    """Jobs, newest first; a table in a notebook."""

    def _repr_html_(self) -> str:
        return _show.jobs_html(
            (
                status.id[:8],
                status.service,
                status.operation,
                status.state,
                "" if status.progress is None else f"{status.progress:.0%}",
                f"{status.submitted:%Y-%m-%d %H:%M:%S}",
                status.message,
            )
            for status in self
        )


def status_of(told: dict[str, Any]) -> Status:
    """What the native half told, with dates."""
    for name in ("submitted", "started", "ended"):
        if told[name] is not None:
            told[name] = datetime.fromtimestamp(told[name], timezone.utc)
    told["transfers"] = tuple(Transfer(**transfer) for transfer in told["transfers"])
    return Status(**told)


class WatchedCall(Generic[T]):
    """A call that is waited for, with what its job tells meanwhile."""

    def __init__(self, task: _native.Task[T], watch: _native.Watch, shown: Shown) -> None:
        self._task = task
        self._watch = watch
        self._shown = shown

    def _tell(self) -> None:
        told = self._watch.take()
        if told is not None:
            self._shown.tell(status_of(told))

    def wait(self) -> T:
        with self._shown:
            return self._task.wait(self._tell)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        async def telling() -> None:
            while True:
                await asyncio.sleep(0.1)
                self._tell()

        with self._shown:
            beside = asyncio.create_task(telling())
            try:
                return await self._task
            finally:
                beside.cancel()


class BaseJob:
    """What all jobs have in common, whether they are waited for or awaited."""

    _awaited = False

    def __init__(
        self,
        service: _native.Service,
        operation: _native.Operation,
        id: str,
        outputs: list[tuple[str, str, str | None]],
    ) -> None:
        self._service = service
        self._operation = operation
        self._id = id
        self._outputs = outputs
        self._last: Status | None = None
        self._results: Result | None = None

    @property
    def id(self) -> str:
        """32 hexadecimal digits: `service.job(id)` finds it again, from anywhere."""
        return self._id

    def __repr__(self) -> str:
        state = f" {self._last.state}" if self._last else ""
        return f"<{type(self).__name__} {self._id} of {self._service.name}{state}>"

    def _repr_html_(self) -> str:
        """What is known of it, for a notebook: of a job that has not ended, as it was asked for last."""
        if self._last is None:
            return f"<code>{escape(repr(self))}</code>"
        return Jobs([self._last])._repr_html_()

    def _status(self) -> Flow[Status]:
        if self._last is None or not self._last.final:
            self._last = status_of((yield self._service.status(self._id)))
        return self._last

    def _wait(self, progress: Progress, timeout: float | None) -> Flow[Status]:
        until = None if timeout is None else time.monotonic() + timeout
        pause = FIRST_PAUSE
        with Shown(progress, f"{self._service.name} {self._id[:8]}") as shown:
            while True:
                status = yield from self._status()
                shown.tell(status)
                if status.final:
                    return status
                if until is not None:
                    left = until - time.monotonic()
                    if left <= 0:
                        raise Timeout(f"job {self._id} is {status.state} after {timeout} s")
                    pause = min(pause, left)
                yield Sleep(pause)
                pause = min(pause * 1.5, LONGEST_PAUSE)

    def _result(self) -> Flow[Result]:
        if self._results is None:
            yield from self._wait(False, None)
            answer = self._service.results(self._operation.name, self._id, outputs=self._outputs)
            outputs, _ = yield answer
            values = yield from received(self._service, self._operation, outputs, self._awaited)
            self._results = Result(values)
        return self._results

    def _kill(self) -> Flow[str]:
        _, message = yield self._service.kill(self._id)
        told: str = message
        return told

    def _log(self, stderr: bool) -> Flow[str]:
        texts: list[str] = []
        offset = 0
        while True:
            text, following, _ = yield self._service.log(self._id, stderr=stderr, offset=offset)
            if following == offset:
                return "".join(texts)
            texts.append(text)
            offset = following

    def _remove(self) -> Flow[None]:
        yield self._service.remove(self._id)


class Job(BaseJob):
    """A program that runs at a server, whether we are connected or not.

    >>> job = svc.spawn(steps=10)
    >>> job.wait()                  # with a progress bar, if the program says how far it is
    >>> job.result.summary
    """

    def _repr_html_(self) -> str:
        # A notebook shows how it stands now, if the server can tell.
        with suppress(Fault, OSError):
            blocking(self._status())
        return super()._repr_html_()

    @property
    def status(self) -> Status:
        """How the job stands now; asks the server unless it has ended."""
        return blocking(self._status())

    @property
    def state(self) -> State:
        """Where the job stands now."""
        return self.status.state

    def wait(self, progress: Progress = None, timeout: float | None = None) -> Status:
        """Waits until the job has ended, however that was, and gives its last status.

        `progress` is `True` or `False` for a bar (`tqdm`) or none, a function that is called with
        each status, or `None`: a bar in a notebook or on a terminal. After `timeout` seconds
        `Timeout` is raised, and the job goes on.
        """
        return blocking(self._wait(progress, timeout))

    @property
    def result(self) -> Result:
        """What came of it; waits for the end. A job that did not end well raises its `Fault`."""
        return blocking(self._result())

    def kill(self) -> str:
        """Ends the job and all of its processes; says what was done."""
        return blocking(self._kill())

    def log(self, *, stderr: bool = False) -> str:
        """What the program wrote to standard output (or error), so far."""
        return blocking(self._log(stderr))

    def remove(self) -> None:
        """Forgets the ended job and frees its space at the server."""
        blocking(self._remove())


class AsyncJob(BaseJob):
    """The same as `Job`, for `await`; `await job` gives its result.

    Cancelling what waits for a job does not end the job: `await job.kill()` does.
    """

    _awaited = True

    async def status(self) -> Status:
        """See `Job.status`."""
        return await awaiting(self._status())

    async def wait(self, progress: Progress = False, timeout: float | None = None) -> Status:
        """See `Job.wait`."""
        return await awaiting(self._wait(progress, timeout))

    async def result(self) -> Result:
        """See `Job.result`."""
        return await awaiting(self._result())

    def __await__(self) -> Generator[Any, Any, Result]:
        return self.result().__await__()

    async def kill(self) -> str:
        """See `Job.kill`."""
        return await awaiting(self._kill())

    async def log(self, *, stderr: bool = False) -> str:
        """See `Job.log`."""
        return await awaiting(self._log(stderr))

    async def remove(self) -> None:
        """See `Job.remove`."""
        await awaiting(self._remove())
