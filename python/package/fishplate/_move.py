"""Data that moves without a service: brought to a server, got from anywhere, offered by ourselves."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from . import _native
from ._data import AsyncReference, BaseData, Reference, handle
from ._flow import Flow, awaiting, blocking
from ._progress import Moving

Named = str | os.PathLike[str]


Auth = str | tuple[str, str] | None


def _put(
    path: Named, url: str, progress: bool | None, auth: Auth, awaited: bool
) -> Flow[BaseData]:
    meter = _native.Meter()
    putting = _native.put(path, url, meter=meter, auth=auth)
    payload = yield Moving(putting, lambda: meter.sent, progress, Path(path).name)
    return handle(payload, Path(path).name, awaited)


def _get(reference: str | BaseData, path: Named, progress: bool | None) -> Flow[Path]:
    data = Reference(reference) if isinstance(reference, str) else reference
    if data.url is None:
        return (yield from data._save(path))
    target = Path(path)
    if target.is_dir():
        target = target / data.name
    meter = _native.Meter()
    getting = _native.get(data._payload, target, meter=meter, via=data._via)
    yield Moving(getting, lambda: meter.received, progress, target.name)
    return target


def put(
    path: Named, url: str, *, progress: bool | None = None, auth: Auth = None
) -> Reference:
    """Brings a file to a server and gives a reference to it.

    `url` is that of a Fishplate server or of one of its services. A broken connection is mended;
    that all arrived is verified. `progress`: a bar or none; `None` where there is somebody to see it.
    `auth`: a token, or a user and a password, as `Service` takes it.
    """
    reference = blocking(_put(path, url, progress, auth, awaited=False))
    assert isinstance(reference, Reference)
    return reference


def get(reference: str | BaseData, path: Named, *, progress: bool | None = None) -> Path:
    """Gets what a reference refers to into a file, or under its own name into a directory.

    The file appears when it is whole and its digest is right. Until then its bytes are in
    `NAME.part`, with which the next `get` goes on.
    """
    return blocking(_get(reference, path, progress))


async def aput(
    path: Named, url: str, *, progress: bool | None = False, auth: Auth = None
) -> AsyncReference:
    """See `put`."""
    reference = await awaiting(_put(path, url, progress, auth, awaited=True))
    assert isinstance(reference, AsyncReference)
    return reference


async def aget(reference: str | BaseData, path: Named, *, progress: bool | None = False) -> Path:
    """See `get`."""
    return await awaiting(_get(reference, path, progress))


class Transferred(NamedTuple):
    """Bytes that this process has moved."""

    sent: int
    received: int


def transferred() -> Transferred:
    """Bytes that this process has sent and received so far, in calls and their results, `put` and
    `get`. What servers fetch from each other is not among them."""
    return Transferred(*_native.transferred())


class Offer:
    """Files of this machine that servers may fetch from here, as long as this is open:

    >>> with fishplate.Offer(towards=svc.url) as offer:
    ...     result = svc(mesh=offer.file("pipe.msh"))

    The server has to be able to reach us, and to be allowed to: we listen on this machine's address
    on the way to `towards`, or `at` what you say (`HOST` or `HOST:PORT`). Only what is offered can
    be fetched, at addresses that nobody can guess.
    """

    def __init__(self, *, at: str | None = None, towards: str | None = None) -> None:
        self._serving = _native.Offer.open(at=at, towards=towards).wait()

    def file(self, path: Named) -> Reference:
        """A reference to a file, which must not change before it was fetched."""
        payload = self._serving.add(path).wait()
        reference = handle(payload, Path(path).name, awaited=False)
        assert isinstance(reference, Reference)
        return reference

    def close(self) -> None:
        """Serves them no more."""
        self._serving.close().wait()

    def __enter__(self) -> Offer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()


class AsyncOffer:
    """The same as `Offer`, for `async with`."""

    def __init__(self, *, at: str | None = None, towards: str | None = None) -> None:
        self._opening = _native.Offer.open(at=at, towards=towards)
        self._serving: _native.Offer | None = None

    async def file(self, path: Named) -> AsyncReference:
        """See `Offer.file`."""
        if self._serving is None:
            raise RuntimeError("use the offer in an `async with`")
        reference = handle(await self._serving.add(path), Path(path).name, awaited=True)
        assert isinstance(reference, AsyncReference)
        return reference

    async def __aenter__(self) -> AsyncOffer:
        self._serving = await self._opening
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._serving is not None:
            await self._serving.close()
