"""Addresses at which a run finds a service."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit

from . import _native
from ._flow import Blocking, Flow
from ._service import AsyncService, Settings
from .errors import ArgumentError, NotUnderstood, Unreachable

AWAY = (502, 503, 504)
"""Statuses of HTTP by which a gateway says that its server is away."""

CONNECT_TIMEOUT = 10.0
"""Seconds within which a server is reached, or the next one is asked."""


class Endpoint:
    """A service at one address, connected when it is needed."""

    def __init__(self, url: str, settings: Settings) -> None:
        self.url = url
        self.server = urlsplit(url).netloc
        self.settings = settings
        self._service: AsyncService | None = None
        # Operations that are functions of the server, declared repeatable: it makes no jobs of their calls, whatever
        # the key (docs/decisions/0006).
        self.repeatable: set[str] = set()

    @property
    def native(self) -> _native.Service:
        """The service, which was connected."""
        assert self._service is not None
        return self._service._remote

    @property
    def is_connected(self) -> bool:
        """Whether its description is here."""
        return self._service is not None

    def connected(self) -> Flow[None]:
        """Fetches its description, once."""
        if self._service is None:
            try:
                native = yield _native.Service.connect(self.url, **self.settings)
            except NotUnderstood as error:
                # A gateway whose server is away says so by the status alone.
                if any(f"answered {status}" in str(error) for status in AWAY):
                    raise Unreachable(str(error)) from error
                raise
            if not native.ours:
                raise ArgumentError(
                    f"{self.url} is no service of Fishplate's: it knows no keys, so a run cannot find its jobs again"
                )
            self._service = AsyncService(native)

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


def interface(native: _native.Service) -> dict[str, Any]:
    """What a service takes and gives."""
    return {
        operation.name: [
            [(parameter.name, parameter.type, parameter.repeated) for parameter in parameters]
            for parameters in (operation.inputs, operation.outputs)
        ]
        for operation in native.operations
    }


def same(one: Endpoint, other: Endpoint) -> None:
    """Two servers may answer for each other if their services take and give the same."""
    if interface(one.native) != interface(other.native):
        raise ArgumentError(f"{other.url} has another interface than {one.url}: they cannot answer for each other")
