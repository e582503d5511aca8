"""Data by reference: held, passed on, fetched, offered."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy
import pytest
from conftest import Services
from server import EXAMPLES, SERVICES, Hosted

import fishplate
from fishplate import errors

LINES = "".join(f"{number:07}\n" for number in range(200_000, 0, -1)).encode()
FEW = 60_000
"""Bytes of some messages without data."""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A second site."""
    services = [EXAMPLES / "files/gzip.toml", SERVICES / "echo.toml"]
    with Hosted(tmp_path_factory.mktemp("other"), services, "--allow-private") as server:
        yield server


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_bytes(LINES)
    return path


def in_order(lines: bytes) -> bytes:
    return b"".join(sorted(lines.splitlines(keepends=True)))


def digest_of(content: bytes) -> str:
    return f"sha-256=:{b64encode(hashlib.sha256(content).digest()).decode()}:"


def test_a_large_file_stays_where_it_is_until_it_is_read(service: Services, lines: Path) -> None:
    before = fishplate.transferred()
    data = service("sort")(text=lines).sorted
    assert isinstance(data, fishplate.Reference)
    assert data.url.startswith(service.urls["sort"].removesuffix("sort") + "data/")
    assert data.size == len(LINES)
    assert fishplate.transferred().received - before.received < FEW
    assert data.bytes() == in_order(LINES)
    after = fishplate.transferred()
    assert data.path().read_bytes() == in_order(LINES)
    assert data.text().startswith("0000001\n")
    assert data.path().name == "sorted"
    # It was fetched once.
    assert fishplate.transferred() == after
    saved = data.save(lines.with_name("saved"))
    assert saved.read_bytes() == in_order(LINES)
    assert data.numpy("S8").shape == (200_000,)


def test_what_is_small_comes_with_the_answer_unless_it_is_wanted_otherwise(
    service: Services,
) -> None:
    sort = service("sort")
    assert sort(text=b"b\na\n").sorted.url is None
    data = sort.by_reference("sorted")(text=b"b\na\n").sorted
    assert data.url and data.size == 4 and data.bytes() == b"a\nb\n"
    assert sort.options(outputs={"sorted": "reference"})(text=b"").sorted.url
    assert sort.options(outputs="value")(text=LINES).sorted.url is None
    with pytest.raises(fishplate.ArgumentError, match="no output sortd"):
        sort.by_reference("sortd")(text=b"")
    with pytest.raises(ValueError, match="not 'ref'"):
        sort.options(outputs="ref")(text=b"")  # type: ignore[arg-type]


def test_a_reference_goes_from_site_to_site_and_not_through_us(
    service: Services, other: Hosted, lines: Path
) -> None:
    words = service("sort").by_reference()(text=lines).sorted
    gzip = fishplate.Service(other.urls["gzip"]).by_reference()
    before = fishplate.transferred()
    job = gzip.spawn(plain=words, level=1)
    last = job.wait()
    (transfer,) = [each for each in last.transfers if each.parameter == "plain"]
    assert transfer.state == "done" and transfer.bytes == transfer.total == len(LINES)
    assert words.url.startswith(transfer.peer)
    assert transfer.placed in ("reflink", "link", "move", "copy")
    packed = job.result.packed
    after = fishplate.transferred()
    assert sum(after) - sum(before) < FEW
    import gzip as unpack

    assert unpack.decompress(packed.bytes()) == in_order(LINES)


def test_data_of_the_same_server_is_not_fetched_at_all(service: Services, lines: Path) -> None:
    words = service("sort").by_reference()(text=lines).sorted
    job = service("gzip").spawn(plain=words)
    assert job.wait().state == "done"
    (transfer,) = [each for each in job.status.transfers if each.parameter == "plain"]
    assert transfer.placed in ("reflink", "link", "copy")


def test_arrays_by_reference_keep_their_shape(service: Services, other: Hosted) -> None:
    grid = numpy.random.default_rng(2).standard_normal((150, 120))
    held = service("transpose").by_reference()(matrix=grid).transposed
    assert isinstance(held, fishplate.Reference)
    numpy.testing.assert_array_equal(held.numpy(), grid.T)
    echo = fishplate.Service(other.urls["echo"])
    again = service("transpose")(matrix=held).transposed
    numpy.testing.assert_array_equal(again, grid)
    numpy.testing.assert_array_equal(echo(matrix=held, changed=b"").matrix_out, grid.T)


def test_put_and_get(service: Services, hosted: Hosted, lines: Path) -> None:
    reference = fishplate.put(lines, hosted.url)
    assert reference.size == len(LINES)
    assert reference.digest == digest_of(LINES)
    assert service("sort")(text=reference).sorted.bytes() == in_order(LINES)
    folder = lines.parent / "folder"
    folder.mkdir()
    assert fishplate.get(reference, folder) == folder / "lines.txt"
    assert (folder / "lines.txt").read_bytes() == LINES
    got = fishplate.get(reference.url, folder / "again")
    assert got.read_bytes() == LINES
    assert fishplate.Server(hosted.url).put(lines).bytes() == LINES


def test_a_bar_is_shown_for_what_moves(
    hosted: Hosted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "large").write_bytes(bytes(60_000_000))
    fishplate.put(tmp_path / "large", hosted.url, progress=False)
    assert capsys.readouterr().err == ""
    reference = fishplate.put(tmp_path / "large", hosted.url, progress=True)
    fishplate.get(reference, tmp_path / "again", progress=True)
    shown = capsys.readouterr().err
    assert "large:" in shown and "again:" in shown and "60.0M" in shown


def test_a_reference_that_leads_nowhere_is_a_fault(
    service: Services, hosted: Hosted, other: Hosted
) -> None:
    nothing = fishplate.Reference(f"{other.url}/data/{'0' * 43}/nothing")
    with pytest.raises(errors.NoSuchData):
        nothing.bytes()
    with pytest.raises(errors.NoSuchData) as caught:
        service("sort")(text=nothing)
    assert caught.value.parameter == "text"
    assert isinstance(caught.value, LookupError)


def test_other_bytes_than_were_told_are_refused(
    service: Services, other: Hosted, lines: Path
) -> None:
    url = fishplate.put(lines, other.url).url
    wrong = fishplate.Reference(url, digest=digest_of(b"something else"))
    with pytest.raises(errors.DataMismatch):
        wrong.path()
    with pytest.raises(errors.DataMismatch):
        service("sort")(text=wrong)
    with pytest.raises(ValueError, match="no digest"):
        fishplate.Reference(url, digest="abc")


def test_a_server_fetches_only_from_where_it_may(
    service: Services, lines: Path, tmp_path: Path
) -> None:
    words = service("sort").by_reference()(text=lines).sorted
    with Hosted(tmp_path / "closed", [EXAMPLES / "files/gzip.toml"]) as closed:
        with pytest.raises(errors.AddressForbidden) as caught:
            fishplate.Service(closed.urls["gzip"])(plain=words)
    assert caught.value.limit is not None and caught.value.limit.name


def test_a_file_of_ours_is_fetched_from_us(service: Services, lines: Path) -> None:
    sort = service("sort")
    before = fishplate.transferred()
    with fishplate.Offer(towards=sort.url) as offer:
        reference = offer.file(lines)
        words = sort.by_reference()(text=reference).sorted
        assert reference.name == "lines.txt"
    assert fishplate.transferred().sent - before.sent < FEW
    assert words.bytes() == in_order(LINES)
    # Nobody listens there any more.
    address = urlsplit(reference.url)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname, address.port or 80)).close()
    with pytest.raises(RuntimeError, match="closed"):
        offer.file(lines)


def test_sessions_keep_files_until_they_are_closed(hosted: Hosted, lines: Path) -> None:
    server = fishplate.Server(hosted.url)
    assert {"sort", "gzip", "session"} <= set(server)
    with server.session(idle=600) as session:
        words = session["sort"](text=lines).sorted
        assert session.id not in words.url
        packed = session["gzip"](plain=words).packed
        files = session.files()
        assert {"sorted", "packed"} <= set(files)
        assert files["sorted"].size == len(LINES)
        assert files["sorted"].bytes() == in_order(LINES)
        again = fishplate.Session(hosted.url, id=session.id)
        assert again.touch().timestamp() > 0
        named = session["gzip"](plain=fishplate.Reference("session:sorted")).packed
        assert named.bytes() == packed.bytes()
        outside = fishplate.Service(hosted.urls["sort"]).options(session=session)
        assert outside(text=b"b\na\n").sorted.url == words.url
    with pytest.raises(errors.NoSuchData):
        fishplate.Reference(words.url).bytes()
    with pytest.raises(errors.NoSuchSession):
        outside(text=b"")
    with pytest.raises(errors.NoSuchSession):
        fishplate.Session(hosted.url, id="0" * 32)


def test_the_same_for_await(hosted: Hosted, other: Hosted, lines: Path) -> None:
    async def main() -> None:
        reference = await fishplate.aput(lines, other.url)
        server = fishplate.AsyncServer(hosted.url)
        sort = await server.service("sort")
        words = (await sort.by_reference("sorted")(text=reference)).sorted
        assert isinstance(words, fishplate.AsyncReference)
        assert await words.bytes() == in_order(LINES)
        assert await fishplate.aget(words, lines.with_name("got")) == lines.with_name("got")
        async with server.session() as session:
            gzip = await session.service("gzip")
            packed = (await gzip(plain=words)).packed
            assert (await session.files())["packed"].size == packed.size
            await session.touch()
        with pytest.raises(errors.NoSuchData):
            await packed.path()
        async with fishplate.AsyncOffer(towards=hosted.url) as offer:
            result = await sort(text=await offer.file(lines))
            assert result.sorted.size == len(LINES)
        assert await (await server.put(lines)).bytes() == LINES
        with pytest.raises(errors.NoSuchData):
            await fishplate.AsyncReference(f"{other.url}/data/{'0' * 43}/x").text()

    asyncio.run(main())
