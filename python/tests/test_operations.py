"""Services with several operations: functions of a server of its own (examples/functions)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
from server import BINARY, Hosted

import fishplate

FUNCTIONS = BINARY.with_name("statistics")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("functions")
    command = [str(FUNCTIONS), "127.0.0.1:0", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield next(line.split()[1] for line in running.stdout if line.startswith("statistics "))
        running.send_signal(signal.SIGTERM)


def test_inputs_have_names(url: str) -> None:
    statistics = fishplate.Service(url)
    with pytest.raises(TypeError, match=r"use names: mean\(values=...\)"):
        statistics.mean([1, 2, 6])  # type: ignore[arg-type]


def test_operations_are_attributes(url: str, tmp_path: Path) -> None:
    statistics = fishplate.Service(url)
    assert statistics.operations == ["mean", "columns", "lines"]
    assert {"mean", "columns", "lines"} <= set(dir(statistics))
    assert statistics.mean(values=[1, 2, 6]).mean == 3.0
    result = statistics.columns(table=numpy.arange(6.0).reshape(2, 3), scale=2)
    numpy.testing.assert_array_equal(result.means, [3.0, 5.0, 7.0])
    assert result.rows == 2
    (tmp_path / "lines").write_text("a\n" * 1000)
    assert statistics.lines(file=tmp_path / "lines").count == 1000
    assert "mean of each column" in (statistics["columns"].__doc__ or "")
    for part in ("mean(values)", "columns(table, scale=...)", "float64[]", "'1' if left out"):
        assert part in (statistics.__doc__ or ""), statistics.__doc__


def test_one_of_several_has_to_be_named(url: str) -> None:
    statistics = fishplate.Service(url)
    with pytest.raises(fishplate.ArgumentError, match="several operations: mean, columns, lines"):
        statistics(values=[1])
    with pytest.raises(AttributeError, match="no operation median"):
        statistics.median


def test_a_job_of_an_operation_is_found_again(url: str) -> None:
    statistics = fishplate.Service(url)
    job = statistics.columns.spawn(table=[[1.0], [3.0]])
    again = statistics.job(job.id)
    assert again.result.means.tolist() == [2.0]
    assert again.status.operation == "columns"


def test_operations_can_be_awaited(url: str) -> None:
    async def main() -> None:
        statistics = await fishplate.AsyncService.connect(url)
        assert (await statistics.mean(values=[1.0, 3.0])).mean == 2.0
        job = await statistics["mean"].spawn(values=[1.0])
        assert (await job).mean == 1.0

    asyncio.run(main())


@pytest.mark.parametrize("packaging", ["xml", "base64", "mtom", "swa", "dime"])
def test_every_packaging_carries_a_file(hosted: Hosted, packaging: str) -> None:
    sort = fishplate.Service(hosted.urls["sort"], packaging=packaging)
    assert sort(text=b"b\na\n").sorted.bytes() == b"a\nb\n"


def test_an_unknown_packaging_is_refused_with_those_there_are(hosted: Hosted) -> None:
    with pytest.raises(ValueError, match='"zip" is no packaging; there are xml, base64, mtom'):
        fishplate.Service(hosted.urls["sort"], packaging="zip")
