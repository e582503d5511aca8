"""Results of earlier calls: the same service with the same inputs gives the same job, by a key made of both."""

from __future__ import annotations

import json
import ssl
import time
from hashlib import sha256
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from . import _native
from ._endpoint import AWAY
from ._flow import Blocking, Flow, Sleep
from ._values import Given
from .errors import Unreachable

if TYPE_CHECKING:
    from ._endpoint import Endpoint
    from ._run import Run

KEY = 200
"""Characters of a key that is sent as it is; servers take 256."""

ANSWER = 600.0
"""Seconds within which a server has computed the digest of data that it has."""

PAUSE = 0.5
"""Seconds after which a server that is away is asked again."""


def content(run: Run, endpoint: Endpoint, inputs: list[Any], prepared: Given) -> Flow[list[Any] | None]:
    """The inputs, each by its digest; `None` if a server does not tell the digest of what it refers to."""
    known: list[Any] = []
    url = ""
    for (name, label, value), (_, _, raw) in zip(inputs, prepared, strict=True):
        payload = raw.data if isinstance(raw, _native.Array) else raw
        if isinstance(payload, _native.Payload) and payload.url is not None and payload.digest is None:
            url = payload.url
            if url not in run._digests:
                told = yield from _waited(run, url, endpoint)
                if told is None:
                    return None
                run._digests[url] = told
            value = [getattr(raw, "element", None), getattr(raw, "shape", None), run._digests[url]]
        elif isinstance(payload, _native.Payload) and payload.url is not None:
            value = [getattr(raw, "element", None), getattr(raw, "shape", None), payload.digest]
        elif isinstance(value, dict):
            data = value.get("data", value)
            value = [value.get("element"), value.get("shape"), data.get("digest")]
        known.append([name, label, value])
    return known


def _waited(run: Run, url: str, endpoint: Endpoint) -> Flow[str | None]:
    """The digest of data at a server. One that the run calls, and that is away, is waited for: without the digest the call
    would have another key, and what has ended would be made again."""
    is_called = urlsplit(url).netloc in {one.server for one in run._endpoints.values()}
    until = time.monotonic() + run.patience
    while True:
        try:
            left = max(until - time.monotonic(), 1.0) if is_called else ANSWER
            told: str | None = yield Blocking(lambda: _told(url, endpoint, min(left, ANSWER)))
            return told
        except Unreachable:
            if not is_called or time.monotonic() >= until:
                return None
        yield Sleep(PAUSE)
        run._check()


def _told(url: str, endpoint: Endpoint, within: float) -> str | None:
    """The digest of data at a server (RFC 9530), which computes it if it has not yet.

    # Errors
    `Unreachable` if the server is away.
    """
    asked = Request(url, method="HEAD", headers={"Want-Repr-Digest": "sha-256=10"})
    trusted = endpoint.settings.get("ca_file")
    context = ssl.create_default_context(cafile=trusted) if trusted else None
    try:
        with urlopen(asked, timeout=within, context=context) as answer:
            told: str | None = answer.headers.get("Repr-Digest")
            return told
    except HTTPError as error:
        if error.code in AWAY:
            raise Unreachable(f"{url}: {error}") from error
        return None
    except (OSError, HTTPException) as error:
        if isinstance(getattr(error, "reason", error), ssl.SSLError):
            return None
        raise Unreachable(f"{url}: {error}") from error


def key(endpoint: Endpoint, described: _native.Operation, inputs: list[Any], attempt: int) -> str:
    """The key of a call by what it is: the service with all that it says of itself, and its inputs."""
    told = [endpoint.native.wsdl, described.name, sorted(inputs, key=json.dumps), attempt]
    return f"reuse/{sha256(json.dumps(told).encode()).hexdigest()}"


def shortened(key: str) -> str:
    """A key that servers take, however deep its place lies."""
    return key if len(key) <= KEY else f"long/{sha256(key.encode()).hexdigest()}"
