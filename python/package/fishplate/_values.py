"""Values on their way: from Python to what a parameter takes, and back."""

from __future__ import annotations

import array as arrays
import math
import os
import sys
from collections.abc import AsyncIterable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _native
from ._data import DTYPES, AsyncStream, BaseData, Stream, from_buffer, handle, mapped
from ._flow import Blocking, Flow, Threaded
from .errors import ArgumentError

BINARY = ("raw", "xml", "dir")
"""Types whose values are files."""

_CODES = {"int": "i", "long": "q", "float": "f", "double": "d"}

_CHUNK = 1 << 16
"""Bytes that are read of a file object at once."""

Given = list[tuple[str, str | None, Any]]


def given(operation: _native.Operation, arguments: Mapping[str, Any]) -> Flow[Given]:
    """The arguments of a call, as the native half takes them. `None` leaves one out."""
    known = {parameter.name: parameter for parameter in operation.inputs}
    prepared: Given = []
    for word, value in arguments.items():
        parameter = known.get(spelled(word, known))
        if parameter is None:
            raise ArgumentError(_unknown(operation, word, list(known)))
        if value is None:
            continue
        if not parameter.repeated:
            prepared.append((parameter.name, None, (yield from _value(parameter, value))))
            continue
        labelled = value.items() if isinstance(value, Mapping) else ((None, one) for one in value)
        for label, one in labelled:
            prepared.append((parameter.name, label, (yield from _value(parameter, one))))
    return prepared


def spelled(word: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    """A name as the service spells it: `mesh_size` for `mesh-size`, `in_` for `in`."""
    if word in known:
        return word
    fitting = [name for name in known if _plain(name) == _plain(word.removesuffix("_"))]
    return fitting[0] if len(fitting) == 1 else word


def _plain(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def _unknown(operation: _native.Operation, word: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known) or 'none'}"
    return f"operation {operation.name} has no input {word}; {hint}"


def _value(parameter: _native.Parameter, value: Any) -> Flow[Any]:
    if isinstance(value, BaseData):
        return (yield from _held(parameter, value))
    if parameter.element is not None:
        if isinstance(value, os.PathLike):
            read: _native.Array = yield _native.Array.from_file(parameter, value)
            return read
        return _array(parameter, parameter.element, value)
    if parameter.type in BINARY:
        return (yield from _file(parameter, value))
    if isinstance(value, os.PathLike):
        text: str = yield Blocking(lambda: Path(value).read_text("utf-8").strip())
        return text
    return _scalar(parameter, value)


def _held(parameter: _native.Parameter, data: BaseData) -> Flow[Any]:
    if data.url is not None and parameter.element is not None and data._array is not None:
        return data._array
    if data.url is not None or parameter.type in BINARY:
        # What was put into a file of ours is not where the payload was any more.
        if data.url is None and data._here is not None:
            return (yield _native.Payload.from_file(data._here))
        return data._payload
    if parameter.element is not None:
        return _array(parameter, parameter.element, (yield from data._numpy()))
    return (yield from data._bytes()).decode().strip()


def _file(parameter: _native.Parameter, value: Any) -> Flow[_native.Payload]:
    if isinstance(value, os.PathLike):
        path = Path(value)
        packs = parameter.type == "dir" and path.is_dir()
        make = _native.Payload.pack if packs else _native.Payload.from_file
        payload: _native.Payload = yield make(path)
        return payload
    if isinstance(value, str):
        raise _wrong(parameter, value, "Path(...) for a file, bytes for its content")
    if hasattr(value, "read"):
        return _native.Payload.from_iterator(_reads(value))
    if isinstance(value, AsyncIterable):
        return _native.Payload.from_iterator((yield Threaded(value)))
    try:
        view = memoryview(value)
    except TypeError:
        if isinstance(value, Iterable) and not isinstance(value, Mapping):
            return _native.Payload.from_iterator(iter(value))
        raise _wrong(parameter, value, "a Path, bytes, an iterable of bytes, a binary file, or what another service gave") from None
    if not view.c_contiguous:
        view = memoryview(view.tobytes())
    return _native.Payload.from_buffer(view.cast("B") if view.nbytes else b"")


def _reads(value: Any) -> Iterator[Any]:
    # What is there, rather than all that was asked for.
    read = getattr(value, "read1", value.read)
    return iter(lambda: read(_CHUNK), b"")


def _scalar(parameter: _native.Parameter, value: Any) -> str:
    if isinstance(value, str):
        return value
    if parameter.type == "bool":
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            return "true" if value else "false"
        raise _wrong(parameter, value, "True or False")
    if parameter.type == "string" or isinstance(value, bool):
        raise _wrong(parameter, value, "a str" if parameter.type == "string" else "a number")
    if parameter.type in ("int", "long"):
        try:
            return str(value.__index__())
        except AttributeError:
            raise _wrong(parameter, value, "an int") from None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise _wrong(parameter, value, "a float") from None
    if math.isinf(number):
        return "INF" if number > 0 else "-INF"
    return "NaN" if math.isnan(number) else repr(number)


def _wrong(parameter: _native.Parameter, value: Any, wanted: str) -> ArgumentError:
    kind = type(value).__name__
    return ArgumentError(f"input {parameter.name} ({parameter.type}) takes {wanted}, not {kind}")


def _array(parameter: _native.Parameter, element: str, value: Any) -> _native.Array:
    try:
        import numpy
    except ImportError:
        return _array_without_numpy(parameter, element, value)
    target = numpy.dtype(DTYPES[element])
    try:
        made = numpy.asarray(value)
    except ValueError as error:
        raise _wrong(parameter, value, f"an array ({error})") from None
    if made.size == 0 and not isinstance(value, numpy.ndarray):
        made = made.astype(target)
    if made.dtype.kind not in "iuf" or not numpy.can_cast(made.dtype, target, "same_kind"):
        if not (made.dtype.kind == "u" and target.kind in "if"):
            raise _wrong(parameter, value, f"{target.name}, and this is an array of {made.dtype}:")
    if target.kind == "i" and made.dtype != target and made.size:
        most = numpy.iinfo(target)
        if made.min() < most.min or made.max() > most.max:
            raise OverflowError(f"input {parameter.name} has numbers that are no {target.name}")
    shape = made.shape
    flat = numpy.ascontiguousarray(made, target).reshape(-1).view(numpy.uint8)
    return _native.Array(element, shape, _native.Payload.from_buffer(flat.data))


def _array_without_numpy(parameter: _native.Parameter, element: str, value: Any) -> _native.Array:
    if hasattr(value, "tolist"):
        value = value.tolist()
    shape: list[int] = []
    level = value
    while isinstance(level, Sequence) and not isinstance(level, str):
        shape.append(len(level))
        level = level[0] if level else None
    flat: list[Any] = [value]
    for length in shape:
        if any(not isinstance(row, Sequence) or len(row) != length for row in flat):
            raise _wrong(parameter, value, "rows that are equally long")
        flat = [one for row in flat for one in row]
    try:
        made = arrays.array(_CODES[element], flat)
    except TypeError as error:
        raise _wrong(parameter, value, f"an array ({error})") from None
    if sys.byteorder == "big":
        made.byteswap()
    return _native.Array(element, shape, _native.Payload.from_buffer(made.tobytes()))


def received(
    via: _native.Service,
    operation: _native.Operation,
    outputs: Given,
    awaited: bool,
    streams: Collection[str] = (),
) -> Flow[dict[str, Any]]:
    """The outputs of a call, as Python has them: what is missing is `None`."""
    values: dict[str, Any] = {
        parameter.name: {} if parameter.repeated else None for parameter in operation.outputs
    }
    known = {parameter.name: parameter for parameter in operation.outputs}
    for name, label, raw in outputs:
        parameter = known.get(name)
        kind = parameter.type if parameter else "string"
        if name in streams and isinstance(raw, _native.Payload) and raw.url is None:
            values[name] = (AsyncStream if awaited else Stream)(raw)
            continue
        value = yield from _output(via, kind, name if label is None else label, raw, awaited)
        if parameter is not None and parameter.repeated:
            values[name][str(len(values[name])) if label is None else label] = value
        else:
            values[name] = value
    return values


def _output(via: _native.Service, kind: str, name: str, raw: Any, awaited: bool) -> Flow[Any]:
    if isinstance(raw, _native.Array):
        if raw.data.url is not None:
            return handle(raw.data, name, awaited, via, raw)
        return (yield from _numbers(raw))
    if isinstance(raw, _native.Payload):
        return handle(raw, name, awaited, via)
    return parsed(kind, raw)


def _numbers(array: _native.Array) -> Flow[Any]:
    payload = array.data
    buffer: Any = payload.writable()
    if buffer is None:
        file = payload.file
        buffer = yield Blocking(lambda: mapped(file))
    shape = array.shape
    try:
        return from_buffer(buffer, DTYPES[array.element], shape)
    except ImportError:
        flat = arrays.array(_CODES[array.element], bytes(buffer))
        if sys.byteorder == "big":
            flat.byteswap()
        return _nested(flat.tolist(), shape)


def _nested(flat: list[Any], shape: Sequence[int]) -> list[Any]:
    for length in reversed(shape[1:]):
        rows = len(flat) // length if length else math.prod(shape[: len(shape) - 1])
        flat = [flat[at * length : (at + 1) * length] for at in range(rows)]
    return flat


def parsed(kind: str, text: Any) -> Any:
    """A scalar from its text."""
    if not isinstance(text, str):
        return text
    if kind in ("int", "long"):
        return int(text)
    if kind in ("float", "double"):
        return float(text)
    if kind == "bool":
        return text.strip() in ("true", "1")
    return text
