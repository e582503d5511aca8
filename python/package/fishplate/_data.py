"""Data by handle: files that services gave, here or elsewhere, and references to them."""

from __future__ import annotations

import itertools
import mmap
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from . import _native
from ._flow import Blocking, Flow, awaiting, blocking
from ._progress import Moving, human

if TYPE_CHECKING:
    import numpy

DTYPES = {"int": "<i4", "long": "<i8", "float": "<f4", "double": "<f8"}
"""NumPy's names of the types of elements."""

_NPY = b"\x93NUMPY"


class _Directory:
    """A directory for files of this process, removed when it ends."""

    def __init__(self) -> None:
        self._made: tempfile.TemporaryDirectory[str] | None = None
        self._numbers = itertools.count(1)

    def new(self, name: str) -> Path:
        """A place for a file of that name."""
        if self._made is None or not os.path.isdir(self._made.name):
            self._made = tempfile.TemporaryDirectory(prefix="fishplate-")
        place = Path(self._made.name) / str(next(self._numbers))
        place.mkdir()
        return place / (Path(name).name or "data")


_directory = _Directory()


class BaseData:
    """What all handles have in common, whether they are waited for or awaited."""

    def __init__(
        self,
        payload: _native.Payload,
        name: str = "",
        via: _native.Service | None = None,
        array: _native.Array | None = None,
    ) -> None:
        self._payload = payload
        self._name = _last_segment(payload.url) or name
        # By whose settings it is fetched.
        self._via = via
        # What the numbers in it are.
        self._array = array
        self._here: Path | None = None

    @property
    def name(self) -> str:
        """A file name that fits."""
        return self._name

    @property
    def size(self) -> int | None:
        """Length in bytes; `None` if only fetching it would tell."""
        return self._payload.size

    @property
    def url(self) -> str | None:
        """Where the data is; `None` if it came by value."""
        return self._payload.url

    @property
    def digest(self) -> str | None:
        """What verifies the data, as in RFC 9530 (`sha-256=:...:`), if its origin told it."""
        return self._payload.digest

    def __repr__(self) -> str:
        size = "" if self.size is None else f", {human(self.size)}"
        return f"<{type(self).__name__} {self.url or self.name}{size}>"

    def _path(self) -> Flow[Path]:
        if self._here is None or not self._here.exists():
            target = _directory.new(self._name)
            yield from self._bring(target)
            self._here = target
        return self._here

    def _bring(self, target: Path) -> Flow[None]:
        if self._payload.url is None:
            yield self._payload.save(target)
        else:
            meter = _native.Meter()
            getting = _native.get(self._payload, target, meter=meter, via=self._via)
            yield Moving(getting, lambda: meter.received, None, target.name)

    def _save(self, path: str | os.PathLike[str]) -> Flow[Path]:
        target = Path(path)
        if target.is_dir():
            target = target / self._name
        if self._here is None and (self.url is not None or self._payload.file is None):
            yield from self._bring(target)
        else:
            source = yield from self._path()
            yield Blocking(lambda: _copy(source, target))
        return target

    def _bytes(self) -> Flow[bytes]:
        here = self._payload.memory()
        if here is not None:
            return here
        path = yield from self._path()
        read: bytes = yield Blocking(path.read_bytes)
        return read

    def _numpy(
        self, dtype: Any = None, shape: Sequence[int] | None = None
    ) -> Flow[numpy.ndarray[Any, Any]]:
        if dtype is None and self._array is not None:
            dtype = DTYPES[self._array.element]
            shape = self._array.shape if shape is None else shape
        buffer: Any = self._payload.writable()
        if buffer is None:
            path = yield from self._path()
            buffer = yield Blocking(lambda: mapped(path))
        return from_buffer(buffer, dtype, shape)

    def _unpack(self, directory: str | os.PathLike[str]) -> Flow[Path]:
        payload = self._payload
        if payload.url is not None or self._here is not None:
            payload = yield _native.Payload.from_file((yield from self._path()))
        yield payload.unpack(self._name, directory)
        return Path(directory)


class Data(BaseData):
    """A file that a service gave: bytes that are here, or a reference to them.

    It costs nothing until it is read: `path()`, `bytes()`, `text()`, `numpy()` and `save()` fetch
    what is elsewhere, once. Given to another service it goes as it is: a reference as a reference.
    """

    def path(self) -> Path:
        """A file of this machine that holds the data, fetched if it is not here yet. It is
        removed when Python ends, so `save` what you want to keep."""
        return blocking(self._path())

    def __fspath__(self) -> str:
        return str(self.path())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Puts the data into a file, or under its own name into a directory; gives its path."""
        return blocking(self._save(path))

    def bytes(self) -> bytes:
        """The data itself."""
        return blocking(self._bytes())

    def text(self, encoding: str = "utf-8") -> str:
        """The data as text."""
        return self.bytes().decode(encoding)

    def unpack(self, directory: str | os.PathLike[str]) -> Path:
        """The data, which is a directory (`dir`), into a directory; it is made if it is not there,
        and must be empty if it is. All of it is there then, or none; nothing of it goes elsewhere.
        """
        return blocking(self._unpack(directory))

    def numpy(
        self, dtype: Any = None, shape: Sequence[int] | None = None
    ) -> numpy.ndarray[Any, Any]:
        """The data as an array, mapped into memory rather than read.

        A `.npy` file and an output that is an array tell their type and shape. Of another file `dtype` is needed; without
        `shape` the array has one axis. What you write to the array stays in memory.
        """
        return blocking(self._numpy(dtype, shape))


class Reference(Data):
    """Data elsewhere, at a URL.

    With a size or a digest (RFC 9530, `sha-256=:...:`) other bytes are refused, by whoever fetches.
    """

    def __init__(self, url: str, *, size: int | None = None, digest: str | None = None) -> None:
        super().__init__(_native.Payload.reference(url, size, digest))

    @property
    def url(self) -> str:
        """Where the data is. Whoever has this URL may read it until it expires."""
        return str(self._payload.url)


class Stream:
    """A file that a service is still giving: an iterator of `bytes`, once, as they come.

    Who is slow to ask for more holds the service back. A `Fault` tells that the file is not whole.
    """

    def __init__(self, payload: _native.Payload) -> None:
        self._chunks = payload.chunks()
        self._read = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = self._chunks.get(self._read).wait()
        if chunk is None:
            raise StopIteration
        self._read += 1
        return chunk


class AsyncStream:
    """The same as `Stream`, for `async for`."""

    def __init__(self, payload: _native.Payload) -> None:
        self._chunks = payload.chunks()
        self._read = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._chunks.get(self._read)
        if chunk is None:
            raise StopAsyncIteration
        self._read += 1
        return chunk


class AsyncData(BaseData):
    """The same as `Data`, for `await`."""

    async def path(self) -> Path:
        """See `Data.path`."""
        return await awaiting(self._path())

    async def save(self, path: str | os.PathLike[str]) -> Path:
        """See `Data.save`."""
        return await awaiting(self._save(path))

    async def bytes(self) -> bytes:
        """See `Data.bytes`."""
        return await awaiting(self._bytes())

    async def text(self, encoding: str = "utf-8") -> str:
        """See `Data.text`."""
        return (await self.bytes()).decode(encoding)

    async def unpack(self, directory: str | os.PathLike[str]) -> Path:
        """See `Data.unpack`."""
        return await awaiting(self._unpack(directory))

    async def numpy(
        self, dtype: Any = None, shape: Sequence[int] | None = None
    ) -> numpy.ndarray[Any, Any]:
        """See `Data.numpy`."""
        return await awaiting(self._numpy(dtype, shape))


class AsyncReference(AsyncData):
    """The same as `Reference`, for `await`."""

    def __init__(self, url: str, *, size: int | None = None, digest: str | None = None) -> None:
        super().__init__(_native.Payload.reference(url, size, digest))

    @property
    def url(self) -> str:
        """See `Reference.url`."""
        return str(self._payload.url)


def handle(
    payload: _native.Payload,
    name: str,
    awaited: bool,
    via: _native.Service | None = None,
    array: _native.Array | None = None,
) -> BaseData:
    """What a service gave, as the class that fits."""
    kind: type[BaseData]
    if payload.url is None:
        kind = AsyncData if awaited else Data
    else:
        kind = AsyncReference if awaited else Reference
    made = kind.__new__(kind)
    BaseData.__init__(made, payload, name, via, array)
    return made


def mapped(path: Path) -> Any:
    """A file in memory, to be changed there without changing the file."""
    if path.stat().st_size == 0:
        return bytearray()
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def from_buffer(
    buffer: Any, dtype: Any = None, shape: Sequence[int] | None = None
) -> numpy.ndarray[Any, Any]:
    """An array that lies in this memory."""
    import numpy

    if bytes(buffer[: len(_NPY)]) == _NPY and dtype is None:
        return _npy(buffer)
    if dtype is None:
        raise ValueError("this is no .npy file: say its dtype, as in numpy(dtype='<f8')")
    array: numpy.ndarray[Any, Any] = numpy.frombuffer(buffer, dtype)
    return array if shape is None else array.reshape(tuple(shape))


def _npy(buffer: Any) -> numpy.ndarray[Any, Any]:
    import io

    import numpy
    from numpy.lib import format as npy

    head = io.BytesIO(bytes(buffer[: 1 << 16]))
    version = npy.read_magic(head)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(head)
    if dtype.hasobject:
        raise ValueError("the file holds Python objects, which are not read: they could be code")
    array: numpy.ndarray[Any, Any] = numpy.ndarray(
        shape, dtype, buffer, head.tell(), order="F" if fortran else "C"
    )
    return array


def _copy(source: Path, target: Path) -> None:
    """A copy that appears whole, or not at all."""
    hidden = target.with_name(f".fishplate-{os.getpid()}-{target.name}.part")
    try:
        shutil.copyfile(source, hidden)
        os.replace(hidden, target)
    finally:
        hidden.unlink(missing_ok=True)


def _last_segment(url: str | None) -> str:
    return unquote(urlsplit(url).path.rpartition("/")[2]) if url else ""
