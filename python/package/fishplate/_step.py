"""A step of a run: a call at its place, made once whatever happens to the workflow."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native, _reuse, _stored, errors
from ._endpoint import passes
from ._flow import Flow, Sleep
from ._job import FINAL
from ._journal import Attempt
from ._result import Result
from ._service import _Options
from ._values import BINARY, Given, given, received, spelled
from .errors import ArgumentError, ConnectionLost, Error, Fault, JournalMismatch, NotUnderstood, Timeout, Unreachable

if TYPE_CHECKING:
    from ._endpoint import Endpoint
    from ._run_service import BaseRunService
    from ._slots import Slot, Slots

RETRIED = errors.ReceiverFault
"""Faults after which the same call may do better."""

UNANSWERED = (Timeout, Unreachable, ConnectionLost)
"""No answer of the service's: its job may go on, and is found when the run is resumed, unless the workflow went on."""

NOT_RETRIED = (errors.OutcomeUnknown, errors.JobKilled)
"""Of those: the program may have done its work, or somebody ended it on purpose."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds before the same is tried again; they double."""

FIRST_QUESTION, LONGEST_QUESTION = 0.005, 5.0
"""Seconds between two questions whether a job has ended; they grow by half."""

SPENT = ("failed", "killed")
"""States of somebody else's job in which its key gives nothing, and the next is tried. One of which nobody knows the outcome
is not among them: its program may have done its work."""

SENT_AGAIN = 16 << 10
"""Bytes of inputs with which a job is waited for by its call; with more it is asked for by its ID."""

LOG = 4 << 10
"""Characters of a failed program's output that are kept."""

CHANGED = (
    "The workflow was changed under the run, or does not do the same each time: take what changes by itself from "
    "run.value(...), run.now() or run.random(), and begin a changed workflow as another run; with reuse=True that takes "
    "over what is the same"
)
"""What a `JournalMismatch` says to do."""

HERE = f"{Path(__file__).parent}{os.sep}"


class _Spent(Exception):
    """The job that was found under a key of `reuse` gave nothing: the next key is tried."""


class Step:
    """A call at its place in a run.

    `run.service(URL).spawn(...)` gives one while it goes on; its `result` waits for it.
    """

    def __init__(self, service: BaseRunService, operation: str | None, arguments: Mapping[str, Any]) -> None:
        self._service = service
        self._run = service._run
        self._operation = operation
        self._arguments = arguments
        self._place = self._run._branches.take()
        self._where = _caller()
        self._future: Future[Result] = Future()
        self._attempt: Attempt | None = None
        # Asks for the job of an attempt that was begun: the same key is the same job.
        self._again: Callable[[], _native.Task[tuple[str, bool]]] | None = None
        # Its job may be one that another run began.
        self._is_shared = False
        self._endpoint: Endpoint | None = None
        self._begun = time.time()

    @property
    def place(self) -> str:
        """Its place in the run."""
        return self._place

    @property
    def job(self) -> str | None:
        """ID of its job, once the server has accepted it."""
        return self._attempt.job if self._attempt else None

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    @property
    def result(self) -> Result:
        """What came of it; waits for the end. One that failed raises its `Fault`."""
        try:
            return self._future.result()
        except Exception as error:
            self._raised(error)
            raise

    def __repr__(self) -> str:
        return f"<Step {self._place} of run {self._run.name}: {self._service._name}>"

    def _called(self, awaited: bool) -> Flow[Result]:
        """Makes it for somebody who waits for it."""
        try:
            return (yield from self._flow(awaited))
        except Exception as error:
            self._raised(error)
            raise

    def _raised(self, error: Exception) -> None:
        self._run._branches.current.raised((self, error))

    def _note_taken(self, error: Exception) -> None:
        """The workflow went on from its failure."""
        journal = self._run._journal
        last = journal.contents.last(self._place)
        is_settled = last is not None and (last.outputs is not None or (last.taken and not last.reopened))
        if isinstance(error, UNANSWERED) and not is_settled:
            if is_new := last is None or not last.is_open:
                called = {"call": self._service._name, "inputs": [], "url": self._service._endpoints[0].url}
                number = 0 if last is None else last.number + 1
                journal.append("begun", place=self._place, attempt=number, **called, where=self._where)
            told = {"code": type(error).__name__, "message": str(error), "job": self.job}
            journal.append("failed", place=self._place, fault=told, log="", asked=not is_new)
            last = journal.contents.last(self._place)
        if last is not None and last.fault is not None and not last.taken and not last.reopened:
            journal.append("taken", place=self._place)

    def _flow(self, awaited: bool) -> Flow[Result]:
        run = self._run
        run._check()
        run._live[self._place] = self
        try:
            return (yield from self._made(awaited))
        except (KeyboardInterrupt, SystemExit):
            run.cancel()
            raise
        except Exception as error:
            # Where it was, also for who catches it far away, and for `Run.close`.
            error.__dict__.setdefault("step", self._place)
            error.__dict__.setdefault("run", run._journal.contents.id)
            error.add_note(f"in step {self._place} of run {run.name}, {self._where}")
            raise
        finally:
            run._live.pop(self._place, None)
            last = run._journal.contents.last(self._place)
            if last is not None and last.is_open:
                # Who awaited it was cancelled. Its job goes on, and is found again, or ended by `Run.cancel`.
                run._left[self._place] = self

    def _made(self, awaited: bool) -> Flow[Result]:
        contents = self._run._journal.contents
        past = contents.last(self._place)
        if past is not None and past.fault is not None and not past.reopened:
            if past.taken and not past.asked:
                raise errors._failure(**past.fault)
            if not past.taken:
                # The workflow came no further: it was mended, or the server was.
                past = replace(past, reopened=True)
        endpoint = yield from self._service._connected(past)
        try:
            described = endpoint.described(self._operation)
            # Names in any order are the same call; values of one name keep theirs.
            prepared = sorted((yield from given(described, self._arguments)), key=lambda one: one[0])
        except ArgumentError as error:
            if past is None or not past.is_settled:
                raise
            # The description may be that of then. What does not fit it, is not what was called.
            now = ".".join(filter(None, (endpoint.native.name, self._operation)))
            now = f"{now}({', '.join(f'{name}=...' for name in self._arguments)})"
            was = _stored.shown(past.call, past.inputs)
            raise self._mismatch(was, past.where, past.begun, now) from error
        inputs = []
        for name, label, raw in prepared:
            inputs.append([name, label, (yield from _stored.identity(name, raw))])
        call = endpoint.native.name if described.name == "call" else f"{endpoint.native.name}.{described.name}"
        if self._place in contents.values:
            value = contents.values[self._place]
            raise self._mismatch(value["name"], "", value["at"], _stored.shown(call, inputs))
        if past is not None and not past.cancelled and not past.reopened:
            if (past.call, past.inputs) != (call, inputs):
                was, now = _stored.shown(past.call, past.inputs), _stored.shown(call, inputs)
                raise self._mismatch(was, past.where, past.begun, now)
            if past.fault is not None:
                raise errors._failure(**past.fault)
        outputs: Given | None = None
        if past is not None and past.outputs is not None:
            outputs = yield from self._restored(past)
            if outputs is None:
                # A file of it is gone; its job may still give it.
                past = replace(past, outputs=None)
                endpoint = yield from self._service._connected(past)
        if outputs is None:
            made = Attempt(self._place, 0, call, inputs, endpoint.url, self._where, time.time())
            outputs = yield from self._answered(made, past, endpoint, described, prepared)
        return Result((yield from received(endpoint.native, described, outputs, awaited)))

    def _restored(self, past: Attempt) -> Flow[Given | None]:
        outputs = []
        try:
            for name, label, value in past.outputs or ():
                outputs.append((name, label, (yield from _stored.restored(value, self._run._journal.files))))
        except FileNotFoundError:
            return None
        return outputs

    def _mismatch(self, was: str, where: str, begun: float, now: str) -> JournalMismatch:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(begun))
        return JournalMismatch(
            f"step {self._place} of run {self._run.name} was {was} at {where + ', ' if where else ''}{at}; now it is "
            f"{now} at {self._where}. {CHANGED}"
        )

    def _answered(
        self, made: Attempt, past: Attempt | None, endpoint: Endpoint, described: _native.Operation, prepared: Given
    ) -> Flow[Given]:
        """Has the call made until it succeeds, or fails too often."""
        journal, tries = self._run._journal, 0
        goes_on = past is not None and past.is_open and past.url == endpoint.url
        while True:
            if goes_on and past is not None:
                made = past
            else:
                number = 0 if past is None else past.number + 1
                made = replace(made, number=number, url=endpoint.url, job=None, found=False)
            self._attempt, self._endpoint = made, endpoint
            try:
                raws = yield from self._slotted(made, endpoint, described, prepared, is_known=goes_on)
                outputs = []
                for name, label, raw in raws:
                    outputs.append([name, label, (yield from _stored.stored(raw, journal.files))])
                self._run._check()
                journal.append("ended", place=self._place, outputs=outputs, moved=self._run.transferred)
                return raws
            except _Spent:
                past, goes_on = made, False
                continue
            except Fault as fault:
                self._run._check()
                yield from self._failed(made, endpoint, fault)
                if isinstance(fault, NOT_RETRIED) or not isinstance(fault, RETRIED) or tries >= self._service._retries:
                    raise
            tries += 1
            yield Sleep(min(FIRST_PAUSE * 2 ** (tries - 1), LONGEST_PAUSE))
            past, goes_on = made, False
            endpoint = yield from self._service._connected(None, besides=endpoint)

    def _failed(self, made: Attempt, endpoint: Endpoint, fault: Fault) -> Flow[None]:
        """Notes what went wrong, with what the program wrote last."""
        told, log = fault.job or made.job, ""
        if told is not None:
            with suppress(Exception):
                offset, following = -1, 0
                while following != offset:
                    offset = following
                    text, following, _ = yield endpoint.native.log(told, offset=offset)
                    log = (log + text)[-LOG:]
        parts = ("code", "message", "parameter", "limit", "exit_code", "signal", "stderr", "retry_after")
        kept = {name: getattr(fault, name) for name in parts} | {"job": told}
        self._run._journal.append("failed", place=self._place, fault=kept, log=log)
        called = _stored.shown(made.call, made.inputs)
        fault.add_note(f"{called} at {endpoint.url}, attempt {made.number + 1}, job {told}")
        if log:
            fault.add_note(f"it wrote:\n{log.rstrip()}")

    def _slotted(
        self, made: Attempt, endpoint: Endpoint, described: _native.Operation, prepared: Given, is_known: bool
    ) -> Flow[Given]:
        held: list[tuple[Slots, Slot]] = []
        try:
            # All in the same order, so that nobody waits for who waits for him.
            for slots in self._run._slots(endpoint, self._service._at_once):
                held.append((slots, slots.ask()))
                yield held[-1][1]
            with self._run._lock:
                self._run._check()
                if not is_known:
                    parts = {"call": made.call, "inputs": made.inputs, "url": made.url, "where": made.where}
                    self._run._journal.append("begun", place=self._place, attempt=made.number, **parts)
            return (yield from self._attempted(made, endpoint, described, prepared, is_known))
        finally:
            for slots, slot in held:
                slots.give_back(slot)

    def _attempted(
        self, made: Attempt, endpoint: Endpoint, described: _native.Operation, prepared: Given, is_known: bool
    ) -> Flow[Given]:
        """One attempt: a job under this attempt's key, and its outputs. `is_known`: the journal had the same call."""
        native, timeout = endpoint.native, self._service._options.timeout
        choices = _choices(self._service._options, native, described)
        key = f"{self._run._journal.contents.id}/{made.place}/{made.number}"
        content = None
        if self._service._reuse:
            content = yield from _reuse.content(self._run, endpoint, made.inputs, prepared)
            if content is not None:
                key = _reuse.key(endpoint, described, content, made.number)
        key = _reuse.shortened(key)
        options: dict[str, Any] = {"outputs": choices, "timeout": timeout}

        sent = 0

        def spawn() -> _native.Task[tuple[str, bool]]:
            nonlocal sent
            sent += 1
            return native.spawn(described.name, prepared, key=key, outputs=choices, timeout=timeout)

        def call() -> _native.Task[tuple[Given, str | None]]:
            return native.call(described.name, prepared, key=key, **options)

        if described.name in endpoint.repeatable and made.job is None:
            return (yield from self._patient(call))[0]  # type: ignore[no-any-return]
        with self._run._lock:
            self._run._check()
            self._again, self._is_shared = spawn, content is not None
        is_ours = made.job is None
        if made.job is None:
            try:
                job, existing = yield from self._patient(spawn)
                # Of two that begin it at the same moment one is told so. Sent twice, also from a killed process, it
                # may have found what it made itself.
                made.found = existing and content is not None and not is_known and sent == 1
                is_ours = not made.found
            except errors.KeyConflict as conflict:
                if conflict.job is None:
                    raise
                if not is_known and content is None:
                    # What was called is not in the journal any more, so nothing says that this was it.
                    self._run._journal.append("mismatched", place=self._place)
                    raise JournalMismatch(
                        f"step {self._place} of run {self._run.name} was called with other inputs (job {conflict.job} "
                        f"at {endpoint.url}), and the journal has lost with which; now it is "
                        f"{_stored.shown(made.call, made.inputs)} at {self._where}. Call it as it was called then, or "
                        "begin another run"
                    ) from conflict
                # The same data at another address: by its digest it is the same call.
                job, is_ours = conflict.job, False
                made.found = content is not None and not is_known and sent == 1
            # The journal first: who sees the job can cancel it.
            self._run._journal.append("accepted", place=self._place, job=job, found=made.found)
            made.job = job
        elif not endpoint.is_asked or (
            (yield from self._patient(lambda: native.status(made.job or "")))["state"] in FINAL
        ):
            is_ours = False
        if is_ours and sum(_stored.size(raw) for _, _, raw in prepared) <= SENT_AGAIN:
            with suppress(errors.KeyConflict):
                outputs, job = yield from self._patient(call)
                if job is None:
                    endpoint.repeatable.add(described.name)
                return outputs  # type: ignore[no-any-return]
        pause = FIRST_QUESTION
        while (state := (yield from self._patient(lambda: native.status(made.job or "")))["state"]) not in FINAL:
            yield Sleep(pause)
            pause = min(pause * 1.5, LONGEST_QUESTION)
        if made.found and state in SPENT:
            raise _Spent
        results = lambda: native.results(described.name, made.job or "", **options)  # noqa: E731
        return (yield from self._patient(results))[0]  # type: ignore[no-any-return]

    def _patient(self, begin: Callable[[], _native.Task[Any]]) -> Flow[Any]:
        """What a task gives, begun anew while its server is away, within the run's patience."""
        until, pause = None, FIRST_PAUSE
        while True:
            try:
                return (yield begin())
            except Error as error:
                if not passes(error):
                    raise
                now = time.monotonic()
                until = until or now + self._run.patience
                if now >= until:
                    if isinstance(error, NotUnderstood):
                        raise Unreachable(str(error)) from error
                    raise
                wanted = getattr(error, "retry_after", None) or pause
                yield Sleep(min(wanted, until - now))
                pause = min(pause * 2, LONGEST_PAUSE)
            self._run._check()


def _choices(options: _Options, native: _native.Service, described: _native.Operation) -> list[Any]:
    """Files stay where they are, unless somebody wants them."""
    if isinstance(options.outputs, str):
        return options.of_job(native, described)
    known = [output.name for output in described.outputs]
    chosen = dict.fromkeys((output.name for output in described.outputs if output.type in BINARY), "reference")
    chosen |= {spelled(word, known): form for word, form in (options.outputs or {}).items()}
    return replace(options, outputs=chosen).of_job(native, described)


def _caller() -> str:
    """The line of the workflow that calls."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
