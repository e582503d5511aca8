"""Values in a journal: how they are kept, and how two are told apart."""

from __future__ import annotations

import os
import secrets
from base64 import b64decode, b64encode
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import _native
from ._flow import Blocking, Flow
from ._journal import sync_directory
from .errors import ArgumentError

INLINE = 4 << 10
"""Bytes of data that are kept in the journal itself; more are a file beside it."""

TEXT = 1 << 10
"""Characters of an input that are kept; of a longer one its digest."""


def stored(raw: Any, files: Path) -> Flow[Any]:
    """An output as the journal keeps it: text, a reference, or bytes."""
    if isinstance(raw, _native.Array):
        data = yield from stored(raw.data, files)
        return {"element": raw.element, "shape": raw.shape, "data": data}
    if not isinstance(raw, _native.Payload):
        return raw
    if raw.url is not None:
        return {"url": raw.url, "size": raw.size, "digest": raw.digest}
    memory = raw.memory()
    if memory is not None and len(memory) <= INLINE:
        return {"base64": b64encode(memory).decode()}
    made = files / f".{secrets.token_hex(8)}"
    yield raw.save(made)
    name: str = yield Blocking(lambda: _kept(made))
    return {"file": name, "size": raw.size}


def stored_text(text: str, files: Path) -> Flow[str]:
    """A text as a file of the journal: its name."""

    def keep() -> str:
        made = files / f".{secrets.token_hex(8)}"
        made.write_text(text, "utf-8")
        return _kept(made)

    name: str = yield Blocking(keep)
    return name


def kept_text(name: str, files: Path) -> str | None:
    """A text that was stored, if it is there as it was."""
    try:
        data = (files / name).read_bytes()
    except FileNotFoundError:
        return None
    return data.decode() if sha256(data).hexdigest() == name else None


def _kept(made: Path) -> str:
    """A file under the name of its digest, on the disk."""
    with made.open("rb") as file:
        name = file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    os.replace(made, made.with_name(name))
    sync_directory(made.parent)
    return name


def restored(value: Any, files: Path) -> Flow[Any]:
    """An output as the server gave it."""
    if not isinstance(value, dict):
        return value
    if "element" in value:
        data = yield from restored(value["data"], files)
        return _native.Array(value["element"], value["shape"], data)
    if "url" in value:
        return _native.Payload.reference(value["url"], value["size"], value["digest"])
    if "base64" in value:
        return _native.Payload.from_buffer(b64decode(value["base64"]))
    return (yield _native.Payload.from_file(files / value["file"]))


def identity(name: str, raw: Any) -> Flow[Any]:
    """What an input is, in so few words that two can be compared: text, or a digest; of a reference whose origin told
    none, its address."""
    if isinstance(raw, _native.Array):
        return {"element": raw.element, "shape": raw.shape, "data": (yield from identity(name, raw.data))}
    if not isinstance(raw, _native.Payload):
        text = str(raw)
        return text if len(text) <= TEXT else {"characters": len(text), "digest": _digest(text.encode())}
    if raw.url is not None:
        return {"reference": raw.digest or raw.url}
    memory = raw.memory()
    if memory is not None:
        return {"size": len(memory), "digest": _digest(memory)}
    path = raw.file
    if path is None:
        raise ArgumentError(f"input {name} can be read once only, so the call could not be made again when the run is "
                            "resumed: give a Path, bytes or a reference")
    return {"size": raw.size, "digest": (yield Blocking(lambda: digest_of(path)))}


def size(raw: Any) -> int:
    """Bytes of an input that would be sent with the call."""
    if isinstance(raw, _native.Array):
        return size(raw.data)
    if isinstance(raw, _native.Payload):
        return 0 if raw.url is not None else raw.size or 0
    return len(str(raw))


def _digest(data: bytes) -> str:
    return _field(sha256(data).digest())


def digest_of(path: Path) -> str:
    with open(path, "rb") as file:
        return _field(file_digest(file, "sha256").digest())


def _field(digest: bytes) -> str:
    """As in RFC 9530."""
    return f"sha-256=:{b64encode(digest).decode()}:"


def shown(call: str, inputs: list[Any]) -> str:
    """A call in a few words."""
    words = (f"{name}={_brief(value)}" for name, _, value in inputs)
    return f"{call}({', '.join(words)})"


def _brief(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value) if len(str(value)) <= 40 else f"{value[:37]}..."
    if "element" in value:
        return f"<{value['element']}{value['shape']} {_brief(value['data'])}>"
    if "reference" in value:
        return f"<{_veiled(value['reference'])}>"
    return f"<{value.get('size', value.get('characters'))} {value['digest'][:20]}...>"


def _veiled(reference: str) -> str:
    """A reference that can be told from others, and is no key any more."""
    address = urlsplit(reference)
    if not address.netloc:
        return f"{reference[:20]}..."
    *_, secret, name = ("", *address.path.split("/"))
    return f"{name} at {address.netloc}, {secret[:6]}..."
