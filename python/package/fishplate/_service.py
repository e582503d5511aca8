"""Services: what is called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Never, Protocol, TypedDict, Unpack

from . import _native, _show
from ._flow import Flow, awaiting, blocking
from ._job import AsyncJob, BaseJob, Job, Jobs, State, Status, WatchedCall, status_of
from ._progress import Progress, Shown
from ._result import Result
from ._values import BINARY, given, received, spelled
from .errors import ArgumentError

Form = Literal["value", "reference", "auto", "stream"]
"""How an output comes: in the answer, as a reference, or by size; a file also in the answer of a call while it
is made, as a `Stream`."""

Outputs = Form | Mapping[str, str]
"""For all outputs the same, or for each its own: a form, or the URL it shall be delivered to."""

_FORMS = ("value", "reference", "auto", "stream")


class Settings(TypedDict, total=False):
    """How a server is reached."""

    timeout: float | None
    """Seconds a whole exchange may take, or each chunk of a `Stream`; none, because a call takes as long as its
    program."""
    connect_timeout: float | None
    """Seconds a connection may take to come about: 10."""
    ca_file: str | os.PathLike[str] | None
    """PEM file of the certificates to trust instead of the system's."""
    address: str | None
    """Call this address instead of the one in the description (a tunnel, say)."""
    packaging: str | None
    """`xml`, `base64`, `mtom`, `swa`, `dime`; what fits by default."""
    auth: str | tuple[str, str] | None
    """Who calls: a token, or a user and a password. By default what `fishplate login` has kept for the server, the
    token in `FISHPLATE_TOKEN`, or `.netrc`. It goes to this server only, wherever its addresses lead."""


class SessionLike(Protocol):
    """Something whose services share files."""

    @property
    def id(self) -> str: ...


@dataclass(frozen=True)
class _Options:
    outputs: Outputs | None = None
    session: str | None = None
    key: str | None = None
    timeout: float | None = None
    progress: Progress = None

    def choices(self, native: _native.Service, operation: _native.Operation) -> list[Any]:
        """What is asked of the server. By default files come by value if they are small, else by
        reference; in a session all that is a file stays there."""
        if isinstance(self.outputs, str):
            return [("*", *_choice(self.outputs))]
        chosen: list[Any] = []
        known = [output.name for output in operation.outputs]
        for word, form in (self.outputs or {}).items():
            name = spelled(word, known)
            if name not in known:
                raise ArgumentError(
                    f"operation {operation.name} has no output {word}; "
                    f"there are: {', '.join(known)}"
                )
            chosen.append((name, *_choice(form)))
        if self.session is None and native.ours:
            named = {name for name, *_ in chosen}
            chosen += [
                (output.name, "auto", None)
                for output in operation.outputs
                if output.type in BINARY and output.name not in named
            ]
        return chosen

    def streams(self, operation: _native.Operation) -> list[str]:
        """Outputs that are wanted while they are made."""
        files = [output.name for output in operation.outputs if output.file]
        if isinstance(self.outputs, str):
            return files if self.outputs == "stream" else []
        known = [output.name for output in operation.outputs]
        chosen = (self.outputs or {}).items()
        asked = [spelled(word, known) for word, form in chosen if form == "stream"]
        for name in asked:
            if name in known and name not in files:
                raise ArgumentError(f"output {name} is not one file, and so cannot be a stream")
        return asked

    def of_job(self, native: _native.Service, operation: _native.Operation) -> list[Any]:
        """What is asked of the server for a job."""
        forms = [self.outputs] if isinstance(self.outputs, str) else (self.outputs or {}).values()
        if "stream" in forms:
            raise ArgumentError("the outputs of a job are stored: they come by value, and not as streams")
        return self.choices(native, operation)


def _choice(form: str) -> tuple[str, str | None]:
    if form in _FORMS:
        return "value" if form == "stream" else form, None
    if ":" in form:
        return "reference", form
    raise ValueError(
        f"an output comes by 'value', by 'reference', 'auto' or as a 'stream', or goes to a URL; not {form!r}"
    )


class BaseOperation:
    """What all operations have in common, whether they are waited for or awaited."""

    _awaited = False

    def __init__(
        self, native: _native.Service, described: _native.Operation, options: _Options
    ) -> None:
        self._remote = native
        self._described = described
        self._options = options
        self.__name__ = described.name
        self.__qualname__ = f"{native.name}.{described.name}"
        self.__doc__ = _show.operation_text(described)
        self.__signature__ = _show.signature(described)

    @property
    def inputs(self) -> list[_native.Parameter]:
        """What it takes, with types, units and ranges."""
        return self._described.inputs

    @property
    def outputs(self) -> list[_native.Parameter]:
        """What it gives."""
        return self._described.outputs

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__qualname__}{self.__signature__}>"

    def _no(self, unnamed: tuple[object, ...]) -> None:
        """Inputs have names: their order is the service file's, which may change."""
        if unnamed:
            names = ", ".join(f"{_show.identifier(input.name)}=..." for input in self.inputs)
            name = self._remote.name if self.__name__ == "call" else self.__name__
            raise TypeError(f"use names: {name}({names})")

    def _call(self, arguments: Mapping[str, Any]) -> Flow[Result]:
        described = self._described
        options = self._options
        prepared = yield from given(described, arguments)
        # With a key the program runs once, though the connection may break.
        key = options.key or (_native.new_key() if self._remote.ours else None)
        streams = options.streams(described)
        # Who awaits has other things to do than to look at a bar, unless told so.
        wanted = False if self._awaited and options.progress is None else options.progress
        shown = Shown(wanted, self._remote.name, leave=False)
        watch = _native.Watch() if shown.looked_at else None
        calling = self._remote.call(
            described.name,
            prepared,
            key=key,
            session=options.session,
            outputs=options.choices(self._remote, described),
            streams=streams,
            timeout=options.timeout,
            watch=watch,
        )
        outputs, _ = yield calling if watch is None else WatchedCall(calling, watch, shown)
        values = yield from received(self._remote, described, outputs, self._awaited, streams)
        return Result(values)

    def _spawn(self, arguments: Mapping[str, Any]) -> Flow[str]:
        described = self._described
        options = self._options
        prepared = yield from given(described, arguments)
        id: str
        id, _ = yield self._remote.spawn(
            described.name,
            prepared,
            key=options.key or _native.new_key(),
            session=options.session,
            outputs=options.of_job(self._remote, described),
            timeout=options.timeout,
        )
        return id


class Operation(BaseOperation):
    """Something a service can do; call it, or `spawn` it as a job."""

    def __call__(self, /, *unnamed: Never, **arguments: Any) -> Result:
        """Runs it and waits for its outputs. Ctrl-C ends the waiting; the program may go on at the
        server, where `jobs()` finds it."""
        self._no(unnamed)
        return blocking(self._call(arguments))

    def spawn(self, /, *unnamed: Never, **arguments: Any) -> Job:
        """Starts it as a job, which is there as soon as this returns."""
        self._no(unnamed)
        id = blocking(self._spawn(arguments))
        choices = self._options.of_job(self._remote, self._described)
        return Job(self._remote, self._described, id, choices)


class AsyncOperation(BaseOperation):
    """The same as `Operation`, for `await`."""

    _awaited = True

    async def __call__(self, /, *unnamed: Never, **arguments: Any) -> Result:
        """See `Operation.__call__`; cancelling ends the waiting."""
        self._no(unnamed)
        return await awaiting(self._call(arguments))

    async def spawn(self, /, *unnamed: Never, **arguments: Any) -> AsyncJob:
        """See `Operation.spawn`."""
        self._no(unnamed)
        id = await awaiting(self._spawn(arguments))
        choices = self._options.of_job(self._remote, self._described)
        return AsyncJob(self._remote, self._described, id, choices)


class BaseService:
    """What all services have in common, whether they are waited for or awaited."""

    _remote: _native.Service
    _options: _Options
    _settings: Settings
    _operations: dict[str, _native.Operation]

    def _init(self, native: _native.Service, options: _Options, settings: Settings) -> None:
        self._remote = native
        self._options = options
        self._settings = settings
        self._operations = {operation.name: operation for operation in native.operations}
        self.__doc__ = _show.service_text(native)

    @property
    def name(self) -> str:
        """Short name."""
        return self._remote.name

    @property
    def title(self) -> str:
        """Full name."""
        return self._remote.title

    @property
    def url(self) -> str:
        """Where calls go."""
        return self._remote.address

    @property
    def wsdl(self) -> str:
        """Its description, as it was fetched."""
        return self._remote.wsdl

    @property
    def operations(self) -> list[str]:
        """Names of its operations; `["call"]` if it has only one."""
        return list(self._operations)

    def __dir__(self) -> list[str]:
        own = (_show.identifier(name) for name in self._operations if name != "call")
        return [*super().__dir__(), *own]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.url}>"

    def _repr_html_(self) -> str:
        return _show.service_html(self._remote)

    def _described(self, name: str | None) -> _native.Operation:
        if name is None:
            if len(self._operations) == 1:
                return next(iter(self._operations.values()))
            raise ArgumentError(
                f"{self.name} has several operations: {', '.join(self._operations)}; "
                f"call {self.name}.OPERATION(...)"
            )
        found = self._operations.get(spelled(name, self._operations))
        if found is None:
            known = ", ".join(self._operations)
            raise ArgumentError(f"{self.name} has no operation {name}; there are: {known}")
        return found

    def _with(
        self, outputs: Outputs | None, session: Any, key: Any, timeout: Any, progress: Progress
    ) -> _Options:
        changed = {"outputs": outputs, "key": key, "timeout": timeout, "progress": progress}
        if session is not None:
            changed["session"] = session if isinstance(session, str) else session.id
        told = {name: value for name, value in changed.items() if value is not None}
        return replace(self._options, **told)

    def _jobs(self, state: State | None, limit: int | None) -> Flow[Jobs]:
        found = Jobs()
        after = None
        while True:
            wanted = None if limit is None else min(limit - len(found), _native.JOBS_PAGE)
            page, more = yield self._remote.jobs(state=state, limit=wanted, after=after)
            found += map(status_of, page)
            if not more or not page or (limit is not None and len(found) >= limit):
                return found
            after = found[-1].id

    def _found(self, id: str) -> Flow[tuple[_native.Operation, Status]]:
        status = status_of((yield self._remote.status(id)))
        return self._described(status.operation), status


class Service(BaseService):
    """A web service, known by its description: what it offers are Python functions.

    >>> svc = fishplate.Service("http://somewhere.example/mesher")
    >>> mesh = svc(geometry=Path("pipe.geo"), size=0.5).mesh      # a service with one operation
    >>> svc.refine(mesh=mesh)                                     # one of several operations
    >>> job = svc.spawn(geometry=Path("pipe.geo"), size=0.05)     # a long run

    `help(svc)` shows the operations with their types and units. Inputs are keyword arguments:

    - numbers, texts and truth values as Python has them, or as text; a `Path` means what is in it
    - a file: a `Path` (sent while it is read), `bytes`, or `Data` that another service gave; a
      reference goes as a reference
    - an array: anything NumPy makes an array of; C-contiguous arrays of the right type are not
      copied; a `Path` to `.npy`, `.csv`, raw numbers or rows of them
    """

    def __init__(self, url: str, **settings: Unpack[Settings]) -> None:
        self._init(blocking(_connect(url, settings)), _Options(), settings)

    def options(
        self,
        *,
        outputs: Outputs | None = None,
        session: SessionLike | str | None = None,
        key: str | None = None,
        timeout: float | None = None,
        progress: Progress = None,
    ) -> Service:
        """The same service, called otherwise.

        - `outputs`: `"value"`, `"reference"` or `"auto"` for all, or a dictionary by output; a URL
          (`mailto:`, `s3:`, `ftp:`) has the server deliver it there. Not chosen, files come by value
          if they are small, else by reference, and all else by value.
        - `session`: the `Session` that the programs run in.
        - `key`: the same key never runs a program twice.
        - `timeout`: seconds a whole exchange may take, or each chunk of a `Stream`.
        - `progress`: `True` or `False` for a bar (`tqdm`) while a call lasts, or none, a function that is called
          with each `Status`, or `None`: a bar in a notebook or on a terminal.
        """
        return self._as(self._with(outputs, session, key, timeout, progress))

    def by_reference(self, *outputs: str) -> Service:
        """The same service, whose outputs of these names (of all, if none is named) come as
        references, however small they are."""
        chosen: Outputs = dict.fromkeys(outputs, "reference") if outputs else "reference"
        return self.options(outputs=chosen)

    def _as(self, options: _Options) -> Service:
        return self._of(self._remote, options, self._settings)

    @classmethod
    def _of(cls, native: _native.Service, options: _Options, settings: Settings) -> Service:
        made = cls.__new__(cls)
        made._init(native, options, settings)
        return made

    def __call__(self, /, *unnamed: Never, **arguments: Any) -> Result:
        """Runs the service's only operation and waits for its outputs."""
        return self[None](*unnamed, **arguments)

    def spawn(self, /, *unnamed: Never, **arguments: Any) -> Job:
        """Starts the service's only operation as a job."""
        return self[None].spawn(*unnamed, **arguments)

    def __getitem__(self, name: str | None) -> Operation:
        """The operation of that name."""
        return Operation(self._remote, self._described(name), self._options)

    def __getattr__(self, name: str) -> Operation:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except ArgumentError as error:
            raise AttributeError(str(error)) from None

    def job(self, id: str) -> Job:
        """A job of this service that was started before, here or elsewhere."""
        described, status = blocking(self._found(id))
        job = Job(self._remote, described, id, self._options.of_job(self._remote, described))
        job._last = status
        return job

    def jobs(self, state: State | None = None, limit: int | None = None) -> Jobs:
        """Your jobs on this service, newest first, without their transfers: `job(id).status` tells
        those too."""
        return blocking(self._jobs(state, limit))


class AsyncService(BaseService):
    """The same as `Service`, for `await`:

    >>> svc = await fishplate.AsyncService.connect("http://somewhere.example/mesher")
    >>> result = await svc(geometry=Path("pipe.geo"), size=0.5)
    """

    def __init__(self, native: _native.Service, options: Any = None, settings: Settings | None = None) -> None:
        self._init(native, options or _Options(), settings or {})

    @classmethod
    async def connect(cls, url: str, **settings: Unpack[Settings]) -> AsyncService:
        """The service at a URL."""
        return cls(await awaiting(_connect(url, settings)), settings=settings)

    def options(
        self,
        *,
        outputs: Outputs | None = None,
        session: SessionLike | str | None = None,
        key: str | None = None,
        timeout: float | None = None,
        progress: Progress = None,
    ) -> AsyncService:
        """See `Service.options`."""
        return AsyncService(self._remote, self._with(outputs, session, key, timeout, progress), self._settings)

    def by_reference(self, *outputs: str) -> AsyncService:
        """See `Service.by_reference`."""
        chosen: Outputs = dict.fromkeys(outputs, "reference") if outputs else "reference"
        return self.options(outputs=chosen)

    async def __call__(self, /, *unnamed: Never, **arguments: Any) -> Result:
        """See `Service.__call__`."""
        return await self[None](*unnamed, **arguments)

    async def spawn(self, /, *unnamed: Never, **arguments: Any) -> AsyncJob:
        """See `Service.spawn`."""
        return await self[None].spawn(*unnamed, **arguments)

    def __getitem__(self, name: str | None) -> AsyncOperation:
        """The operation of that name."""
        return AsyncOperation(self._remote, self._described(name), self._options)

    def __getattr__(self, name: str) -> AsyncOperation:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except ArgumentError as error:
            raise AttributeError(str(error)) from None

    async def job(self, id: str) -> AsyncJob:
        """See `Service.job`."""
        described, status = await awaiting(self._found(id))
        choices = self._options.of_job(self._remote, described)
        job = AsyncJob(self._remote, described, id, choices)
        job._last = status
        return job

    async def jobs(self, state: State | None = None, limit: int | None = None) -> Jobs:
        """See `Service.jobs`."""
        return await awaiting(self._jobs(state, limit))


def _connect(url: str, settings: Settings) -> Flow[_native.Service]:
    connected: _native.Service = yield _native.Service.connect(url, **settings)
    return connected


__all__ = ["AsyncService", "BaseJob", "Service"]
