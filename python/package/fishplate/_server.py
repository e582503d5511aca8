"""Servers, and sessions on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from types import TracebackType
from typing import Unpack
from urllib.parse import quote

from . import _native
from ._data import AsyncReference, BaseData, Reference, handle
from ._flow import Flow, awaiting, blocking
from ._move import Named, aput, put
from ._service import AsyncService, Service, SessionLike, Settings
from .errors import NoSuchSession


def _listed(url: str, settings: Settings) -> Flow[list[str]]:
    names: list[str] = yield _native.services(
        url,
        timeout=settings.get("timeout"),
        connect_timeout=settings.get("connect_timeout"),
        ca_file=settings.get("ca_file"),
        auth=settings.get("auth"),
    )
    return names


class Server:
    """A server: many services, one pool of data.

    >>> list(fishplate.Server("http://somewhere.example"))
    ['mesher', 'session', 'solver']
    >>> site = fishplate.Server("http://somewhere.example")
    >>> mesher = site["mesher"]
    >>> with site.session() as session:
    ...     mesh = session["mesher"](geometry=Path("pipe.geo")).mesh
    """

    def __init__(self, url: str, **settings: Unpack[Settings]) -> None:
        self._url = url.rstrip("/")
        self._settings = settings

    @property
    def url(self) -> str:
        """Its address."""
        return self._url

    def __repr__(self) -> str:
        return f"<Server {self._url}>"

    def __getitem__(self, name: str) -> Service:
        """The service of that name."""
        return Service(f"{self._url}/{quote(name)}", **self._settings)

    def __iter__(self) -> Iterator[str]:
        """The names of its services, asked for anew each time."""
        return iter(blocking(_listed(self._url, self._settings)))

    def session(self, *, idle: float | None = None) -> Session:
        """Opens a session, which ends when nobody has used it for `idle` seconds."""
        return Session(self._url, idle=idle, **self._settings)

    def put(self, path: Named, *, progress: bool | None = None) -> Reference:
        """Brings a file to the server and gives a reference to it."""
        return put(path, self._url, progress=progress, auth=self._settings.get("auth"))


class AsyncServer:
    """The same as `Server`, for `await`."""

    def __init__(self, url: str, **settings: Unpack[Settings]) -> None:
        self._url = url.rstrip("/")
        self._settings = settings

    @property
    def url(self) -> str:
        """Its address."""
        return self._url

    def __repr__(self) -> str:
        return f"<AsyncServer {self._url}>"

    async def services(self) -> list[str]:
        """The names of its services."""
        return await awaiting(_listed(self._url, self._settings))

    async def service(self, name: str) -> AsyncService:
        """The service of that name."""
        return await AsyncService.connect(f"{self._url}/{quote(name)}", **self._settings)

    def session(self, *, idle: float | None = None) -> AsyncSession:
        """A session, opened by `async with`."""
        return AsyncSession(self._url, idle=idle, **self._settings)

    async def put(self, path: Named, *, progress: bool | None = False) -> AsyncReference:
        """Brings a file to the server and gives a reference to it."""
        return await aput(path, self._url, progress=progress, auth=self._settings.get("auth"))


class BaseSession(SessionLike):
    """What all sessions have in common, whether they are waited for or awaited."""

    _awaited = False
    _opened: _native.Session | None = None

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings

    @property
    def _open(self) -> _native.Session:
        if self._opened is None:
            raise RuntimeError("use the session in an `async with`")
        return self._opened

    @property
    def id(self) -> str:
        """Its name: 32 hexadecimal digits."""
        return self._open.id

    def __repr__(self) -> str:
        state = self._opened.id if self._opened else "not open"
        return f"<{type(self).__name__} {state} at {self._url}>"

    def _touch(self) -> Flow[datetime]:
        return datetime.fromtimestamp((yield self._open.touch()), timezone.utc)

    def _files(self) -> Flow[dict[str, BaseData]]:
        told = yield self._open.files()
        return {name: handle(payload, name, self._awaited) for name, payload in told}

    def _remove(self, name: str) -> Flow[None]:
        yield self._open.remove(name)

    def _close(self) -> Flow[None]:
        yield self._open.close()


class Session(BaseSession):
    """A space on a server in which programs share files, which do not come back in between:

    >>> with fishplate.Session("http://somewhere.example") as session:
    ...     mesh = session["mesher"](geometry=Path("pipe.geo")).mesh     # stays at the server
    ...     session["solver"](mesh=mesh).stress.save("stress.dat")

    In a session, outputs that are files or arrays are references to files of the session. They live
    as long as it does; closing it removes them. With an `id` it is one that is open already.
    """

    def __init__(
        self,
        url: str,
        *,
        id: str | None = None,
        idle: float | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(url, settings)
        self._opened = _native.Session.open(url, id=id, idle=idle, **settings).wait()

    def __getitem__(self, name: str) -> Service:
        """The server's service of that name, in this session."""
        url = f"{self._url.rstrip('/')}/{quote(name)}"
        return Service(url, **self._settings).options(session=self)

    def touch(self) -> datetime:
        """Has it begin to idle anew, as every call does; when it ends then."""
        return blocking(self._touch())

    def files(self) -> dict[str, Reference]:
        """Its files, by name."""
        found = blocking(self._files())
        return {name: data for name, data in found.items() if isinstance(data, Reference)}

    def remove(self, name: str) -> None:
        """Removes a file; references to it are good for nothing then."""
        blocking(self._remove(name))

    def close(self) -> None:
        """Ends it and removes its files."""
        blocking(self._close())

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        # What has ended by itself needs no closing.
        with suppress(NoSuchSession):
            self.close()


class AsyncSession(BaseSession):
    """The same as `Session`, for `async with`."""

    _awaited = True

    def __init__(
        self,
        url: str,
        *,
        id: str | None = None,
        idle: float | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(url, settings)
        self._opening = _native.Session.open(url, id=id, idle=idle, **settings)

    async def service(self, name: str) -> AsyncService:
        """The server's service of that name, in this session."""
        url = f"{self._url.rstrip('/')}/{quote(name)}"
        return (await AsyncService.connect(url, **self._settings)).options(session=self)

    async def touch(self) -> datetime:
        """See `Session.touch`."""
        return await awaiting(self._touch())

    async def files(self) -> dict[str, AsyncReference]:
        """See `Session.files`."""
        found = await awaiting(self._files())
        return {name: data for name, data in found.items() if isinstance(data, AsyncReference)}

    async def remove(self, name: str) -> None:
        """See `Session.remove`."""
        await awaiting(self._remove(name))

    async def close(self) -> None:
        """See `Session.close`."""
        await awaiting(self._close())

    async def __aenter__(self) -> AsyncSession:
        self._opened = await self._opening
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        with suppress(NoSuchSession):
            await self.close()
