"""Services that are called through a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never, Self

from ._endpoint import Endpoint, passes, same
from ._flow import Flow, Sleep, awaiting, blocking
from ._journal import Attempt
from ._result import Result
from ._service import Outputs, _Options
from ._step import FIRST_PAUSE, LONGEST_PAUSE, Step
from .errors import Error, JournalMismatch, Timeout, Unreachable

if TYPE_CHECKING:
    from ._run import Run


class BaseRunService:
    """What services called through a run have in common, whether they are waited for or awaited."""

    def __init__(
        self,
        run: Run,
        endpoints: list[Endpoint],
        options: _Options,
        told: tuple[int | None, int, bool],
        operation: str | None = None,
    ) -> None:
        self._run = run
        self._endpoints = endpoints
        self._options = options
        self._settled = told
        self._at_once, self._retries, self._reuse = told
        self._operation = operation

    @property
    def _name(self) -> str:
        return self._endpoints[0].url.rpartition("/")[2]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name} of run {self._run.name}>"

    def options(self, *, outputs: Outputs | None = None, timeout: float | None = None) -> Self:
        """The same service, called otherwise; see `Service.options`. Files stay at the server, as references, unless
        `outputs` says otherwise."""
        before = self._options
        changed = replace(before, outputs=outputs or before.outputs, timeout=timeout or before.timeout)
        return type(self)(self._run, self._endpoints, changed, self._settled, self._operation)

    def by_reference(self, *outputs: str) -> Self:
        """See `Service.by_reference`: arrays too stay at the server."""
        chosen: Outputs = dict.fromkeys(outputs, "reference") if outputs else "reference"
        return self.options(outputs=chosen)

    def __getitem__(self, name: str) -> Self:
        """The operation of that name."""
        return type(self)(self._run, self._endpoints, self._options, self._settled, name)

    def __getattr__(self, name: str) -> Self:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def _step(self, unnamed: tuple[object, ...], arguments: Mapping[str, Any]) -> Step:
        if unnamed:
            raise TypeError(f"use names: {self._name}(NAME=...)")
        return Step(self, self._operation, arguments)

    def _connected(self, past: Attempt | None, besides: Endpoint | None = None) -> Flow[Endpoint]:
        """The address that is called: where the call's job is, else the first that answers after one that failed."""
        candidates = self._endpoints
        if past is not None and past.is_settled:
            # As it was described at the address then, or else at one where it stands now; nobody is asked. What was
            # described at other addresses only may be another service.
            for endpoint in sorted(candidates, key=lambda one: one.url != past.url):
                if (yield from endpoint.described_before()):
                    return endpoint
        if past is not None and past.is_open:
            candidates = [one for one in candidates if one.url == past.url] or candidates
        if besides is not None:
            after = candidates.index(besides) + 1
            candidates = candidates[after:] + candidates[:after]
        until, pause = time.monotonic() + self._run.patience, FIRST_PAUSE
        while True:
            for endpoint in candidates:
                if len(candidates) > 1 and not (yield from endpoint.is_there()):
                    continue
                try:
                    yield from endpoint.connected()
                except (Error, OSError) as error:
                    if isinstance(error, Timeout) or passes(error):
                        continue
                    # A job that is known is not sent again: it is asked for by its ID.
                    is_known = past is not None and past.is_open and past.job and past.url == endpoint.url
                    if isinstance(error, JournalMismatch) and is_known:
                        return endpoint
                    raise
                for other in self._endpoints:
                    if other.is_described and other is not endpoint:
                        same(*sorted((other, endpoint), key=self._endpoints.index))
                return endpoint
            if time.monotonic() >= until:
                raise Unreachable(f"no server answers at {', '.join(one.url for one in candidates)}")
            yield Sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            self._run._check()


class RunService(BaseRunService):
    """A service that is called through a run, as a `Service` is."""

    def __call__(self, /, *unnamed: Never, **arguments: Any) -> Result:
        """Runs it and waits for its outputs; in a run that was resumed, gives what it gave."""
        return blocking(self._step(unnamed, arguments)._called(awaited=False))

    def spawn(self, /, *unnamed: Never, **arguments: Any) -> Step:
        """Begins it, on a thread of its own, and does not wait; take its `result` before the run is closed."""
        step = self._step(unnamed, arguments)

        def work() -> None:
            try:
                step._future.set_result(blocking(step._flow(awaited=False)))
            except BaseException as error:
                step._future.set_exception(error)

        threading.Thread(target=work, name=f"step {step.place}", daemon=True).start()
        return step


class AsyncRunService(BaseRunService):
    """The same as `RunService`, for `await`."""

    def __call__(self, /, *unnamed: Never, **arguments: Any) -> Coroutine[Any, Any, Result]:
        """See `RunService.__call__`. Its place in the run is taken when this is called, not when it is awaited: so
        calls that are gathered need no branches."""
        return awaiting(self._step(unnamed, arguments)._called(awaited=True))
