"""Runs of workflows: ordinary Python programs that can be killed, and go on where they were."""

from __future__ import annotations

import asyncio
import atexit
import json
import math
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import datetime, timezone
from functools import partial
from hashlib import sha256
from html import escape
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar, Unpack
from urllib.parse import urlsplit

from . import _native, _report, _stored
from ._branch import Branch, Branches
from ._data import Reference, handle
from ._endpoint import Endpoint
from ._find import find
from ._flow import blocking, within
from ._job import FINAL
from ._journal import Attempt, Journal
from ._move import _put
from ._picture import Picture
from ._progress import counted
from ._report import Edge
from ._run_service import AsyncRunService, RunService
from ._service import BaseService, Settings, _Options
from ._slots import Slots
from ._step import CHANGED, UNANSWERED, Step
from .errors import Error, Fault, JournalMismatch, RunCancelled, RunClosed, Timeout, Unreachable

T = TypeVar("T")
S = TypeVar("S")

Addresses = str | BaseService | Iterable[str | BaseService]
"""Where a service is: one address, or several of the same interface."""

AT_ONCE = 16
"""Jobs of a run that a server has at once."""

KILL = 4.0
"""Seconds within which a server answers that is told to end a job; then its other jobs are left to it."""

PATIENCE = 3600.0
"""Seconds for which a server that is away is waited for."""

SAME = 1e-6
"""By how much, of its largest value, a measure may differ when it is computed again: on another machine sums differ in their
last bits."""

NAME = 100
"""Characters of a run's name."""


class Run:
    """A run of a workflow, which is this program.

    >>> with fishplate.Run("crack-7") as run:
    ...     mesher = run.service("http://mesh.example.org/mesher")
    ...     mesh = mesher(size=0.5).mesh

    What is called through it is journalled in its directory. Killed at any point and started again, the program takes
    up where it was: calls that ended give what they gave, jobs that go on are waited for, and nothing runs twice.

    - `directory`: where the journal is; `NAME.run` here, if nothing else is said.
    - `at_once`: jobs that each server has at once; more wait.
    - `retries`: how often a failed call is tried again.
    - `reuse`: calls that were made before, in whatever run, give what they gave, as long as their server has it.
    - `patience`: seconds for which a server that is away is waited for.
    - `progress`: how it goes on, on a line of the terminal, or drawn in the notebook; `None`: if there is one. `True`: also where
      there is neither, as a line of standard error every ten seconds.
    """

    def __init__(
        self,
        name: str,
        directory: str | os.PathLike[str] | None = None,
        *,
        at_once: int = AT_ONCE,
        retries: int = 0,
        reuse: bool = False,
        patience: float = PATIENCE,
        progress: bool | None = None,
    ) -> None:
        if not name or len(name) > NAME or not name.isprintable() or "/" in name:
            raise ValueError(f"a run's name is 1 to {NAME} printable characters without /, not {name!r}")
        _at_least_one(at_once)
        self.name = name
        self.directory = Path(f"{name}.run" if directory is None else directory).absolute()
        self.patience = patience
        self._journal = Journal(self.directory, name)
        self._branches = Branches()
        self._live: dict[str, Step] = {}
        self._left: dict[str, Step] = {}
        self._digests: dict[str, str] = {}
        # Of each URL. Settings may hold a password, so the journal has none.
        self._endpoints: dict[str, Endpoint] = {}
        # Of a server or a service, and how many.
        self._places: dict[tuple[str, int], Slots] = {}
        self._defaults = (at_once, retries, reuse)
        self._lock = threading.RLock()
        self._cancelled = False
        self._moved = _native.transferred()
        _Termination.watch(self)
        atexit.register(self._at_exit)
        self._picture = Picture(self, progress)

    # --- what is called ---

    def service(
        self,
        url: Addresses,
        *,
        at_once: int | None = None,
        retries: int | None = None,
        reuse: bool | None = None,
        **settings: Unpack[Settings],
    ) -> RunService:
        """The service at a URL, or one that `fishplate.find` gave, called through the run. Of several with the same
        interface the first answers that is there, and a call that failed is tried again at the next. Nothing is asked
        before the first call. A `Service` is reached with its own settings, where none are given here.

        `at_once`: jobs of this service that each of its servers has at once, among the run's `at_once` there.
        `retries`, `reuse` as for the run.
        """
        return RunService(self, self._given(url, settings), _Options(), self._told(at_once, retries, reuse))

    def async_service(
        self,
        url: Addresses,
        *,
        at_once: int | None = None,
        retries: int | None = None,
        reuse: bool | None = None,
        **settings: Unpack[Settings],
    ) -> AsyncRunService:
        """The same as `service`, for `await`."""
        return AsyncRunService(self, self._given(url, settings), _Options(), self._told(at_once, retries, reuse))

    def find(self, wanted: str, servers: str | Iterable[str], **settings: Unpack[Settings]) -> list[str]:
        """URLs of the services that `fishplate.find` finds, looked for once in the run: it goes on with them though
        servers are away then, or others are given. The journal keeps no passwords, so `auth` is given to `service` again."""
        listed = [servers] if isinstance(servers, str) else list(servers)
        seek = lambda: [service.url for service in find(wanted, listed, **settings)]  # noqa: E731
        urls: list[str] = self._once("value", f"find {wanted}", seek)
        return urls

    def _given(self, url: Addresses, settings: Settings) -> list[Endpoint]:
        listed = [url] if isinstance(url, (str, BaseService)) else list(url)
        if not listed:
            raise ValueError("a service has at least one URL")
        found = []
        for one in listed:
            if isinstance(one, str):
                endpoint = Endpoint(one, settings, self._journal)
            else:
                endpoint = Endpoint(one.url, {**one._settings, **settings}, self._journal, one._remote.wsdl_url)
            with self._lock:
                if endpoint.settings or endpoint.url not in self._endpoints:
                    self._endpoints[endpoint.url] = endpoint
            found.append(endpoint)
        return found

    def _endpoint(self, url: str) -> Endpoint:
        """A service at a URL, reached as whoever called it last with settings reached it."""
        with self._lock:
            return self._endpoints.get(url) or Endpoint(url, {}, self._journal)

    def reopen(self) -> None:
        """Has all calls that failed be made anew, also those from whose failure the workflow went on; before the first
        call of a run that is resumed."""
        for place, attempts in self._journal.contents.attempts.items():
            if attempts[-1].fault is not None and not attempts[-1].reopened:
                self._journal.append("reopened", place=place)

    def _told(self, at_once: int | None, retries: int | None, reuse: bool | None) -> tuple[int | None, int, bool]:
        _, own_retries, own_reuse = self._defaults
        if at_once is not None:
            _at_least_one(at_once)
        return at_once, own_retries if retries is None else retries, own_reuse if reuse is None else reuse

    def put(self, path: str | os.PathLike[str], url: str) -> Reference:
        """Brings a file to a server, once in the run, and gives a reference to it. The file stays as it is: another
        content is a `JournalMismatch`."""

        def bring() -> Any:
            payload = blocking(_put(path, url, False, None, awaited=False))._payload
            return blocking(_stored.stored(payload, self._journal.files))

        file = Path(path)
        seen = {"size": file.stat().st_size, "digest": _stored.digest_of(file)}
        told = self._once("put", f"put {file.name} to {urlsplit(url).netloc}", bring, seen)
        payload = blocking(_stored.restored(told, self._journal.files))
        reference = handle(payload, Path(path).name, awaited=False)
        assert isinstance(reference, Reference)
        return reference

    # --- what is not the same each time ---

    def value(self, make: Callable[[], T]) -> T:
        """What a function gives, once in the run: numbers, texts, truth values, lists and dictionaries of them."""
        name = getattr(make, "__qualname__", type(make).__name__)
        made: T = self._once("value", f"value of {name}", make)
        return made

    def random(self) -> float:
        """A number drawn at random, from 0 to below 1."""
        return self.value(random.random)

    def now(self) -> datetime:
        """The time at which the run came here first, in UTC."""
        return datetime.fromtimestamp(self.value(time.time), timezone.utc)

    def _once(self, kind: str, name: str, make: Callable[[], Any], seen: dict[str, Any] | None = None) -> Any:
        """What is made at a place for the first time, of what was `seen`."""
        self._check()
        place = self._branches.take()
        contents = self._journal.contents
        past, called = contents.values.get(place), contents.last(place)
        if called is not None or (past is not None and past["name"] != name):
            was = _stored.shown(called.call, called.inputs) if called else (past or {})["name"]
            raise JournalMismatch(
                f"step {place} of run {self.name} was {was}; now it is {name}. The workflow was changed under the run"
            )
        if past is not None and past.get("seen") != seen:
            raise JournalMismatch(
                f"step {place} of run {self.name} was {name} with {_listed(past.get('seen'))}; now the file has "
                f"{_listed(seen)}. Give back the file as it was, or begin another run"
            )
        if past is None:
            # What is called in it has places of its own.
            with self._branches.entered(Branch(place)):
                made = make()
            self._check()
            # As it will be read: a tuple is a list from the first time on.
            self._journal.append(kind, place=place, name=name, value=json.loads(json.dumps(made)), seen=seen)
            past = contents.values[place]
        return past["value"]

    # --- side by side ---

    @contextmanager
    def branch(self, name: str) -> Iterator[None]:
        """What is called in this block goes on beside what else the run does, in a thread or task:

        >>> with run.branch("solid"):
        ...     stress = solid(mesh=mesh).stress
        """
        if not name or not name.replace("-", "").replace("_", "").isalnum():
            raise ValueError(f"a branch's name is letters, digits, - and _, not {name!r}")
        with self._branches.current.opened(name) as branch, self._branches.entered(branch):
            yield

    def map(self, function: Callable[[T], S], items: Iterable[T], *, threads: int | None = None) -> list[S]:
        """A function of each item, side by side in threads, each in a branch of its own; waits for all."""
        parent = self._branches.current
        place, listed = parent.take(), list(items)

        def one(index: int, item: T) -> S:
            with self._branches.entered(Branch(f"{place}[{index}]")):
                return function(item)

        with ThreadPoolExecutor(threads or max(1, min(len(listed), 4 * self._defaults[0]))) as pool:
            futures = [pool.submit(copy_context().run, partial(one, *pair)) for pair in enumerate(listed)]
            try:
                return [future.result() for future in futures]
            except BaseException as error:
                for future in futures:
                    future.cancel()
                if isinstance(error, (KeyboardInterrupt, SystemExit)):
                    # So that threads do not wait for jobs that nobody wants.
                    self.cancel()
                raise

    async def gather(self, *coroutines: Coroutine[Any, Any, T]) -> list[T]:
        """Coroutines side by side, each in a branch of its own; waits for all, as `asyncio.gather` does."""
        parent = self._branches.current
        place = parent.take()

        async def one(index: int, coroutine: Coroutine[Any, Any, T]) -> T:
            with self._branches.entered(Branch(f"{place}[{index}]")):
                return await coroutine

        return list(await asyncio.gather(*(one(*pair) for pair in enumerate(coroutines))))

    # --- what is told ---

    def progress(self, name: str, value: float) -> None:
        """A measure of convergence, such as `run.progress("residual", r)`: shown, and drawn in the report. Resumed, it is the
        same again, or a `JournalMismatch`."""
        if "/" in name:
            raise ValueError(f"a measure's name has no /: {name!r}")
        self._check_open()
        place = self._branches.current.numbered(name, "measure")
        measures, value = self._journal.contents.measures, float(value)
        past = measures.get(place)
        if past is None:
            self._journal.append("progress", place=place, name=name, value=value)
        elif str(past.value) != str(value) and not math.isclose(
            past.value, value, abs_tol=SAME * max(abs(one.value) for one in measures.values() if one.name == name)
        ):
            raise JournalMismatch(f"measure {place} of run {self.name} was {past.value:g}; now it is {value:g}. {CHANGED}")

    def picture(self, path: str | os.PathLike[str], caption: str = "") -> None:
        """An image (PNG, JPEG, SVG) for the report; it is copied."""
        # Of two with the same name both stay.
        digest = sha256(Path(path).read_bytes()).hexdigest()
        name = f"picture-{digest[:16]}{Path(path).suffix}"
        shutil.copyfile(path, self.directory / name)
        if (caption, name) not in self._journal.contents.pictures:
            self._journal.append("picture", caption=caption, file=name)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        pictures: str | os.PathLike[str] | Iterable[str | os.PathLike[str] | tuple[str | os.PathLike[str], str]] = (),
    ) -> Path:
        """Writes what was done when and by whom into one HTML file, `report.html` in the run's directory if nothing else
        is said; the servers are asked what their programs used. `pictures`: one image, or several, each alone or with its caption."""
        for one in [pictures] if isinstance(pictures, (str, os.PathLike)) else pictures:
            self.picture(*(one if isinstance(one, tuple) else (one,)))
        self._note_moved()
        target = self.directory / "report.html" if path is None else Path(path)
        _report.ask_used(self)
        target.write_text(_report.page(self.directory, self._journal.contents), "utf-8")
        return target

    def edges(self) -> dict[tuple[str, str], Edge]:
        """What went by reference, by the component that made it and the one that took it, as the report's table has it; the
        servers are asked. Made elsewhere, it is named by its server's address."""
        _report.ask_used(self)
        return _report.edges(self._journal.contents)

    @property
    def transferred(self) -> tuple[int, int]:
        """Bytes that this process has sent and received since the run was begun or resumed."""
        sent, received = _native.transferred()
        return sent - self._moved[0], received - self._moved[1]

    def __repr__(self) -> str:
        return f"<Run {self.name} in {self.directory}: {self._picture.line()}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self._picture.line())}</pre>"

    # --- its end ---

    def cancel(self) -> list[str]:
        """Ends the jobs of the run that go on, at all servers, and begins no more; gives their places. Resumed, the run
        makes those calls anew. A job that had ended already keeps what it gave. Also for a run whose program was
        killed: `fishplate.Run("crack-7").cancel()`; services that ask who calls are told before by `run.service`."""
        if self._journal.is_closed:
            return []
        with self._lock:
            self._cancelled = True
            running = [attempts[-1] for attempts in self._journal.contents.attempts.values() if attempts[-1].is_open]
            ended = []
            hung: set[str] = set()
            # One after the other: an interpreter that ends starts no threads.
            for attempt in running:
                state, problem = self._end(attempt, hung)
                if state == "killed":
                    self._journal.append("cancelled", place=attempt.place)
                    ended.append(attempt.place)
                elif problem is not None:
                    told = f"fishplate: step {attempt.place} of run {self.name} may go on at {attempt.url}: {problem}"
                    print(told, file=sys.stderr)
            return ended

    def _end(self, attempt: Attempt, hung: set[str]) -> tuple[str | None, str | None]:
        """Kills the job of an attempt: the state that it is in then, or why it cannot be done. Servers that are `hung`
        are not asked any more."""
        step, job = self._live.get(attempt.place) or self._left.get(attempt.place), attempt.job
        server = urlsplit(attempt.url).netloc
        if attempt.found:
            return None, f"its job {job} is another run's, who may wait for it"
        if server in hung:
            return None, "its server does not answer"
        try:
            if step is not None and step._endpoint is not None:
                native = step._endpoint.native
            else:
                native = within(KILL, self._endpoint(attempt.url).asked())
            if job is None and step is not None and step._is_shared:
                return None, "it may be another run's"
            if job is None and step is not None and step._again is not None:
                # Whether it arrived or not: now it is there, under its key, and is ended.
                job, _ = within(KILL, step._again())
                self._journal.append("accepted", place=attempt.place, job=job)
            elif job is None and step is not None:
                return "killed", None  # It was not sent, and will not be.
            if job is None:
                return None, "the workflow was killed before it knew its job"
            try:
                return within(KILL, native.kill(job))[0], None
            except Timeout:
                # The answer waits for the end of the program, which may take its time.
                state = within(KILL, native.status(job))["state"]
                return "killed" if state not in FINAL else state, None
        except (Timeout, Unreachable) as error:
            hung.add(server)
            return None, str(error)
        except (Error, OSError) as error:
            return None, str(error)

    def close(self, failure: BaseException | None = None) -> None:
        """Lets go of the run; it can be resumed. Calls with which it `failure` ended are made anew then.

        # Errors
        `JournalMismatch` if the workflow ended well and did not come to all that the journal has.
        """
        if self._journal.is_closed:
            return  # By us, or by a fork, whose run it is not.
        with self._lock:
            _Termination.leave(self)
            self._picture.close()
            for place in _failed_steps(failure, self._journal.contents.id):
                last = self._journal.contents.last(place)
                if last is not None and last.fault is not None and not last.reopened:
                    self._journal.append("reopened", place=place)
            self._note_moved()
            self._journal.close()
            atexit.unregister(self._at_exit)
        # In a `finally` the failure may be on its way.
        if failure is None and sys.exception() is None and not self._cancelled:
            self._check_reached()

    def _check_reached(self) -> None:
        contents = self._journal.contents
        missed = self._branches.unreached(contents.places())
        if missed:
            last = contents.last(missed[0])
            was = f"{_stored.shown(last.call, last.inputs)} at {last.where}" if last else contents.values[missed[0]]["name"]
            more = f", and without {counted(len(missed) - 1, 'step')} more" if len(missed) > 1 else ""
            raise JournalMismatch(
                f"run {self.name} has ended without step {missed[0]}, which was {was}{more}. {CHANGED}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)) or _Termination.came:
            self.cancel()
        self.close(error)

    def _at_exit(self) -> None:
        failure = getattr(sys, "last_value", None)
        # Where it was tried already, a server that hangs would be waited for again.
        if not self._cancelled and (isinstance(failure, KeyboardInterrupt) or _Termination.came):
            self.cancel()
        self.close(failure)

    def _note_moved(self) -> None:
        sent, received = self.transferred
        self._journal.append("left", sent=sent, received=received)

    def _check_open(self) -> None:
        if self._journal.is_closed:
            raise RunClosed(f"run {self.name} is closed: what is called now would not be journalled")

    def _check(self) -> None:
        self._check_open()
        if self._cancelled:
            raise RunCancelled(f"run {self.name} was cancelled")

    def _slots(self, endpoint: Endpoint, at_once: int | None) -> list[Slots]:
        """Of which a job has one each, in this order: those of a service that was told how many, and its server's."""
        told = [] if at_once is None else [(endpoint.url, at_once)]
        with self._lock:
            return [
                self._places.setdefault(place, Slots(place[1])) for place in (*told, (endpoint.server, self._defaults[0]))
            ]


def _listed(seen: dict[str, Any] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (seen or {}).items())


def _at_least_one(at_once: int) -> None:
    if at_once < 1:
        raise ValueError(f"at_once is how many jobs a server has at once: at least 1, not {at_once}")


class _Termination:
    """SIGTERM, which ends a program at once unless somebody takes it, ends the open runs' jobs first."""

    came = False
    _open: set[Run] = set()

    @classmethod
    def watch(cls, run: Run) -> None:
        """A run was opened."""
        cls._open.add(run)
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, cls._take)

    @classmethod
    def leave(cls, run: Run) -> None:
        """A run was closed."""
        cls._open.discard(run)
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and not cls._open and signal.getsignal(signal.SIGTERM) == cls._take:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    @classmethod
    def threads(cls) -> None:
        """The program ended, and its own threads are waited for: those whose jobs nobody wants would not end."""
        if cls.came or isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
            for run in list(cls._open):
                run.cancel()

    @classmethod
    def _take(cls, number: int, frame: FrameType | None) -> None:
        cls.came = True
        sys.exit(128 + number)


# Before threads are waited for, as concurrent.futures ends its own; atexit comes after them.
threading._register_atexit(_Termination.threads)  # type: ignore[attr-defined]


def _failed_steps(failure: BaseException | None, run: str) -> set[str]:
    """Places of the run's steps with whose failures a workflow ended."""
    found: set[str] = set()
    seen: list[BaseException] = []
    left = [failure]
    while left:
        error = left.pop()
        if error is None or error in seen:
            continue
        seen.append(error)
        if isinstance(error, (Fault, *UNANSWERED)) and error.__dict__.get("run") == run:
            found.add(error.__dict__["step"])
        left.append(error.__cause__)
        left += getattr(error, "exceptions", ())
    return found
