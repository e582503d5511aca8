"""Files that are read while they are made, and sent while they come."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from conftest import Services
from server import Hosted

import fishplate
from fishplate import _native
from fishplate._data import Stream

SIZE = 3_000_001
ENDLESS = 1 << 40


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    names = ["stream", "matrix"]
    options = [word for name in names for word in ("--builtin", name)]
    with Hosted(tmp_path_factory.mktemp("functions"), [], *options, functions=names) as server:
        yield server


def numbers(size: int) -> bytes:
    return b"".join(n.to_bytes(8, "little") for n in range(size // 8 + 1))[:size]


def test_an_output_is_an_iterator(functions: Hosted) -> None:
    stream = fishplate.Service(functions.urls["stream"])
    for outputs in ("stream", {"data": "stream"}):
        data = stream.options(outputs=outputs)(n=SIZE).data
        assert isinstance(data, fishplate.Stream)
        assert b"".join(data) == numbers(SIZE)
        assert list(data) == []
    # Of a size that comes in one piece with the rest.
    assert b"".join(stream.options(outputs="stream")(n=3).data) == b"\0\0\0"
    # Nobody waits for the end of this one.
    endless = stream.options(outputs="stream")(n=ENDLESS).data
    assert numbers(800).startswith(next(endless)[:800])


def test_an_output_is_an_async_iterator(functions: Hosted) -> None:
    async def main() -> None:
        stream = await fishplate.AsyncService.connect(functions.urls["stream"])
        result = await stream.options(outputs="stream")(n=SIZE)
        assert isinstance(result.data, fishplate.AsyncStream)
        assert b"".join([chunk async for chunk in result.data]) == numbers(SIZE)

    asyncio.run(main())


def test_only_an_output_that_is_one_file_can_be_a_stream(service: Services) -> None:
    countdown = service("countdown")
    result = countdown.options(outputs="stream")(steps=3, pause=0)
    assert len({file.bytes() for file in result.step.values()}) == 3
    for several in ("step", "summary"):
        with pytest.raises(fishplate.ArgumentError, match=f"{several} is not one file"):
            countdown.options(outputs={several: "stream"})(steps=3, pause=0)


def test_the_outputs_of_a_job_are_stored_and_no_streams(functions: Hosted) -> None:
    stream = fishplate.Service(functions.urls["stream"])
    job = stream.spawn(n=3)
    for outputs in ("stream", {"data": "stream"}):
        streaming = stream.options(outputs=outputs)
        with pytest.raises(fishplate.ArgumentError, match="outputs of a job"):
            streaming.spawn(n=3)
        with pytest.raises(fishplate.ArgumentError, match="outputs of a job"):
            streaming.job(job.id)


def test_data_elsewhere_is_no_empty_stream() -> None:
    elsewhere = _native.Payload.reference("http://somewhere.example/mesh", 3)
    with pytest.raises(ValueError, match="http://somewhere.example/mesh"):
        Stream(elsewhere)


def test_a_cancelled_wait_for_a_chunk_loses_none(functions: Hosted) -> None:
    async def main() -> None:
        stream = await fishplate.AsyncService.connect(functions.urls["stream"])
        data = (await stream.options(outputs="stream")(n=SIZE)).data
        read = []
        for turns in itertools.count():
            cancelled = asyncio.ensure_future(anext(data, None))
            # Anywhere on the way of a chunk, from its being asked for to its being there.
            for _ in range(turns % 50):
                await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.wait([cancelled])
            if not cancelled.cancelled():
                read.append(cancelled.result() or b"")
            chunk = await anext(data, None)
            if chunk is None:
                break
            read.append(chunk)
        assert b"".join(read) == numbers(SIZE)

    asyncio.run(main())


def test_an_input_is_an_iterator_or_a_file_that_cannot_seek(functions: Hosted) -> None:
    checksum = fishplate.Service(functions.urls["matrix"]).checksum
    whole = numbers(SIZE)
    expected = checksum(data=whole)
    chunks = (whole[at : at + 99_999] for at in range(0, SIZE, 99_999))
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe, os.fdopen(writer, "wb") as end:
        end.write(b"x" * 1000)
        end.close()
        assert checksum(data=pipe).length == 1000
    pieces = [whole[:99_999], whole[99_999:]]
    for data in (chunks, pieces, io.BytesIO(whole)):
        given = checksum(data=data)
        assert (given.digest, given.length) == (expected.digest, SIZE)
    other = fishplate.Service(functions.urls["stream"]).options(outputs="stream")
    given = checksum(data=other(n=SIZE).data)
    assert (given.digest, given.length) == (expected.digest, SIZE)


def test_an_input_is_an_async_iterator(functions: Hosted) -> None:
    async def halves() -> AsyncIterator[bytes]:
        yield numbers(SIZE)[: SIZE // 2]
        await asyncio.sleep(0)
        yield numbers(SIZE)[SIZE // 2 :]

    async def main() -> None:
        connect = fishplate.AsyncService.connect
        checksum = (await connect(functions.urls["matrix"])).checksum
        other = (await connect(functions.urls["stream"])).options(outputs="stream")
        expected = await checksum(data=numbers(SIZE))
        for data in (halves(), (await other(n=SIZE)).data):
            given = await checksum(data=data)
            assert (given.digest, given.length) == (expected.digest, SIZE)

    asyncio.run(main())
    checksum = fishplate.Service(functions.urls["matrix"]).checksum
    with pytest.raises(fishplate.ArgumentError, match="AsyncService"):
        checksum(data=halves())


def test_an_input_that_is_not_sent_is_not_begun(functions: Hosted, service: Services) -> None:
    checksum = fishplate.Service(functions.urls["matrix"]).checksum
    chunks = iter([b"a", b"b"])
    with pytest.raises(fishplate.ArgumentError):
        checksum(data=chunks, nonsense=1)
    with pytest.raises(fishplate.ArgumentError, match="needs the input changed"):
        service("echo")(lambda_=chunks)
    # By the end of one that is sent, what had begun before it would have gone on.
    assert checksum(data=iter([b"x"])).length == 1
    assert list(chunks) == [b"a", b"b"]


def test_an_input_that_breaks_off_is_an_error(functions: Hosted) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise ValueError("no more")

    checksum = fishplate.Service(functions.urls["matrix"]).checksum
    with pytest.raises(fishplate.errors.TransferFailed, match="no more"):
        checksum(data=broken())
    with pytest.raises(fishplate.errors.TransferFailed, match="str"):
        checksum(data=iter(["text"]))


def test_a_server_that_dies_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    with Hosted(tmp_path, [], "--builtin", "stream", functions=["stream"]) as server:
        data = fishplate.Service(server.urls["stream"]).options(outputs="stream")(n=ENDLESS).data
        next(data)
        server.process.kill()
        with pytest.raises(fishplate.Fault):
            for _ in data:
                pass
