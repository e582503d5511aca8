"""Services found by what they are, and how two differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from . import _native
from ._flow import blocking
from ._service import BaseService, Service, Settings, _Options
from .errors import NotFound


def find(wanted: str, servers: str | Iterable[str], **settings: Unpack[Settings]) -> list[Service]:
    """The services of these servers that can be called as what is `wanted`, in the order of the servers: a name, a
    namespace that is a URN, or an interface, which is the URL of a service or a file with its WSDL. Of a name or
    namespace the first service that is found says what the others have to take and give. A server that is away is
    passed over.

    >>> run.service(fishplate.find("urn:example:volume-mesher", servers=["http://here.org", "http://there.org"]))

    # Errors
    `NotFound` if there is none, with what those of that name differ in; `Unreachable` if all servers are away.
    """
    listed = [servers] if isinstance(servers, str) else list(servers)
    if not listed:
        raise ValueError("a service is looked for on at least one server")
    found, away = _native.find(wanted, listed, **settings).wait()
    told = [
        f"{native.address}: {'; '.join(str(one) for one in differences if one.breaks)}"
        for native, differences in found
        if any(one.breaks for one in differences)
    ]
    services = [
        Service._of(native, _Options(), settings)
        for native, differences in found
        if not any(one.breaks for one in differences)
    ]
    if not services:
        raise NotFound("; ".join([f"no service of {', '.join(listed)} is {wanted}", *told, *away]))
    return services


def diff(first: str | BaseService, second: str | BaseService, **settings: Unpack[Settings]) -> list[_native.Difference]:
    """In what the interface of a second service differs from that of a first one, each given itself or by its URL. Who
    calls the first cannot call the second in its place if one of them `breaks`."""
    one, other = (of._remote if isinstance(of, BaseService) else _described(of, settings) for of in (first, second))
    return one.differences(other)


def _described(url: str, settings: Settings) -> _native.Service:
    return _native.Service.connect(url, **settings).wait()
