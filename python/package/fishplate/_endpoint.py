"""Addresses at which a run finds a service."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from . import _native, _stored
from ._flow import Blocking, Flow
from ._journal import Journal
from ._service import AsyncService, Settings
from .errors import (
    ArgumentError,
    ConnectionLost,
    JournalMismatch,
    NotUnderstood,
    QueueFull,
    Unavailable,
    Unreachable,
)

AWAY = (502, 503, 504)
"""Statuses of HTTP by which a gateway says that its server is away."""

CONNECT_TIMEOUT = 10.0
"""Seconds within which a server is reached, or the next one is asked."""


def passes(error: Exception) -> bool:
    """Whether an error passes: the server is away or full."""
    if isinstance(error, NotUnderstood):
        return error.status in AWAY
    return isinstance(error, (Unreachable, ConnectionLost, Unavailable, QueueFull))


class Endpoint:
    """A service at one address. Its description is kept in the journal, so that calls that ended are replayed without it."""

    def __init__(self, url: str, settings: Settings, journal: Journal, wsdl_url: str | None = None) -> None:
        self.url = url
        # Where its description is asked for.
        self._wsdl_url = wsdl_url or url
        self.server = urlsplit(url).netloc
        self.settings = settings
        self._journal = journal
        self._service: AsyncService | None = None
        # It has told its description to this process.
        self.is_asked = False
        # Operations that are functions of the server, declared repeatable: it makes no jobs of their calls, whatever
        # the key (docs/decisions/0006).
        self.repeatable: set[str] = set()

    @property
    def native(self) -> _native.Service:
        """The service, whose description is here."""
        assert self._service is not None
        return self._service._remote

    @property
    def is_described(self) -> bool:
        """Whether its description is here."""
        return self._service is not None

    def described_before(self) -> Flow[bool]:
        """Whether its description is here, or was kept when the run was there before. Nothing is asked."""
        kept = self._journal.contents.descriptions.get(self.url)
        if self._service is None and kept is not None:
            wsdl: str | None = yield Blocking(lambda: _stored.kept_text(kept["file"], self._journal.files))
            if wsdl is None:
                return False
            native = _native.Service.open(self.url, wsdl, kept["wsdl_url"], **self.settings)
            self._service = AsyncService(native)
        return self._service is not None

    def asked(self) -> _native.Task[_native.Service]:
        """Asks for its description."""
        return _native.Service.connect(self._wsdl_url, **self.settings)

    def connected(self) -> Flow[None]:
        """Asks for its description, once in a process, before a call is sent.

        # Errors
        `JournalMismatch` if calls as they were made in this run cannot be made any more, or would mean something else.
        """
        if self.is_asked:
            return
        native: _native.Service = yield self.asked()
        if not native.ours:
            raise ArgumentError(
                f"{self.url} is no service of Fishplate's: it knows no keys, so a run cannot find its jobs again"
            )
        is_known = yield from self.described_before()
        if is_known and (broken := self._broken(native)):
            raise JournalMismatch(
                f"{self.url} takes or gives something else than before in this run: {broken}. Serve the changed "
                "service under another name, or begin another run; with reuse=True that takes over what is the same"
            )
        if not is_known or self.native.wsdl != native.wsdl:
            file = yield from _stored.stored_text(native.wsdl, self._journal.files)
            self._journal.append("described", url=self.url, wsdl_url=native.wsdl_url, file=file)
        self._service = AsyncService(native)
        self.is_asked = True

    def _broken(self, now: _native.Service) -> str:
        """In what the service has changed for the calls of this run: what cannot be called so any more, and the defaults of
        inputs that a call left out. Nothing if in nothing."""
        name = self.native.name
        tried = self._journal.contents.attempts.values()
        given: dict[str, list[set[str]]] = {}
        for attempt in (attempt for attempts in tried for attempt in attempts if attempt.url == self.url):
            operation = "call" if attempt.call == name else attempt.call.removeprefix(f"{name}.")
            given.setdefault(operation, []).append({f"input {parameter}" for parameter, *_ in attempt.inputs})

        def counts(found: _native.Difference) -> bool:
            calls = given.get(found.operation, [])
            is_default = found.what == "default" and (found.parameter or "").startswith("input ")
            return (found.breaks and bool(calls)) or (is_default and any(found.parameter not in call for call in calls))

        return "; ".join(str(found) for found in self.native.differences(now) if counts(found))

    def is_there(self) -> Flow[bool]:
        """Whether somebody listens there; nothing is sent."""
        address = urlsplit(self.url)
        port = address.port or (443 if address.scheme == "https" else 80)
        timeout = self.settings.get("connect_timeout") or CONNECT_TIMEOUT

        def connect() -> bool:
            try:
                socket.create_connection((address.hostname, port), timeout).close()
            except OSError:
                return False
            return True

        answered: bool = yield Blocking(connect)
        return answered

    def described(self, operation: str | None) -> _native.Operation:
        """What the service says of an operation."""
        assert self._service is not None
        return self._service._described(operation)


def same(one: Endpoint, other: Endpoint) -> None:
    """A server may answer for another one if whoever calls that can call it."""
    if broken := "; ".join(str(found) for found in one.native.differences(other.native) if found.breaks):
        raise ArgumentError(f"{other.url} has another interface than {one.url}, and cannot answer for it: {broken}")
