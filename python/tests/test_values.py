"""Every type, both ways."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy
import pytest
from conftest import Services

import fishplate


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int", -7),
        ("long", 2**62),
        ("float", 0.25),
        ("double", 0.1),
        ("double", math.inf),
        ("double", -math.inf),
        ("double", 5e-324),
        ("bool", True),
        ("bool", False),
        ("a_string", "-x < & \u00e9"),
        ("a_string", ""),
    ],
)
def test_scalars_come_back_as_they_went(service: Services, name: str, value: Any) -> None:
    result = service("echo")(**{name: value}, changed=b"")
    back = result[f"{name}.out"]
    assert back == value
    assert type(back) is type(value)


def test_nan_comes_back(service: Services) -> None:
    assert math.isnan(service("echo")(double=math.nan, changed=b"")["double.out"])


def test_numpy_scalars_and_texts_are_taken(service: Services, tmp_path: Path) -> None:
    (tmp_path / "seven").write_text(" 7\n")
    echo = service("echo")
    result = echo(
        int=numpy.int32(3), long="4", double=numpy.float32(0.5), bool=numpy.bool_(True), changed=b""
    )
    assert (result.int_out, result.long_out) == (3, 4)
    assert (result.double_out, result.bool_out) == (0.5, True)
    assert echo(int=tmp_path / "seven", changed=b"").int_out == 7


def test_what_is_left_out_is_none(service: Services) -> None:
    result = service("echo")(changed=b"", int=None)
    assert result.int_out is None
    assert result.changed.bytes() == b"more\n"


@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
def test_files_by_path_and_by_content(service: Services, tmp_path: Path, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    content = content[:size]
    file = tmp_path / "data"
    file.write_bytes(content)
    echo = service("echo")
    for given in (content, bytearray(content), memoryview(content), file):
        data = echo(lambda_=given, changed=b"")["lambda.out"]
        assert data.size == size
        assert data.bytes() == content
        assert data.path().read_bytes() == content
        assert data.save(tmp_path / "saved").read_bytes() == content
        # It is still there, and nothing hidden is left beside it.
        assert data.bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "saved"]


def test_a_file_from_one_service_goes_to_another(service: Services, tmp_path: Path) -> None:
    text = "".join(f"{number}\n" for number in range(30_000, 0, -1))
    sorted_lines = service("sort")(text=text.encode(), numeric=True).sorted
    packed = service("gzip")(plain=sorted_lines).packed
    import gzip

    lines = gzip.decompress(packed.bytes()).decode().split()
    assert lines == [str(number) for number in range(1, 30_001)]
    # Also after it was put into a file, and as the path it is.
    sorted_lines.path()
    again = service("gzip")(plain=sorted_lines).packed
    assert gzip.decompress(again.bytes()) == gzip.decompress(packed.bytes())
    with open(sorted_lines) as file:
        assert file.readline() == "1\n"
    assert sorted_lines.save(tmp_path).name == "sorted"


def test_the_path_of_a_file_keeps_its_name(service: Services) -> None:
    result = service("echo")(lambda_=b"x", changed=b"y" * 100_000)
    assert result.changed.path().name == "changed"


@pytest.mark.parametrize(
    ("name", "dtype"), [("matrix", "<f8"), ("floats", "<f4"), ("longs", "<i8"), ("ints", "<i4")]
)
def test_arrays_come_back_to_the_last_bit(service: Services, name: str, dtype: str) -> None:
    shape = {"matrix": (7, 5), "floats": (2, 3), "longs": (11,), "ints": (3,)}[name]
    sent = (numpy.random.default_rng(1).standard_normal(shape) * 1e6).astype(dtype)
    back = service("echo")(**{name: sent}, changed=b"")[f"{name}.out"]
    assert back.dtype == numpy.dtype(dtype)
    numpy.testing.assert_array_equal(back, sent)
    back += 1  # It is ours to write to.


def test_a_large_array_is_mapped_from_where_it_was_received(service: Services) -> None:
    sent = numpy.arange(600_000, dtype="f8").reshape(1000, 600)
    back = service("transpose")(matrix=sent).transposed
    numpy.testing.assert_array_equal(back, sent.T)
    back[0, 0] = -1.0
    assert back[0, 0] == -1.0


def test_lists_slices_other_types_and_files_are_arrays(service: Services, tmp_path: Path) -> None:
    smooth = service("smooth")
    grid = [[0, 4, 0], [8, 1, 2], [0, 4, 0]]
    expected = numpy.array([[0, 4, 0], [8, 4.5, 2], [0, 4, 0]])
    numpy.save(tmp_path / "grid.npy", numpy.array(grid, "f4"))
    numpy.savetxt(tmp_path / "grid.csv", grid, delimiter=",")
    numpy.savetxt(tmp_path / "grid.txt", grid)
    wide = numpy.zeros((6, 6), ">i2")
    wide[::2, ::2] = grid
    files = [tmp_path / f"grid.{suffix}" for suffix in ("npy", "csv", "txt")]
    for given in (grid, numpy.array(grid).T.copy().T, wide[::2, ::2], *files):
        numpy.testing.assert_array_equal(smooth(grid=given).smooth, expected)


def test_a_file_of_whole_numbers_is_read_and_one_of_others_is_refused(
    service: Services, tmp_path: Path
) -> None:
    echo, numbers = service("echo"), tmp_path / "numbers"
    numbers.write_text("# three\n4 5 6\n")
    assert echo(ints=numbers, changed=b"").ints_out.tolist() == [4, 5, 6]
    numbers.write_text("4 5.5 6\n")
    with pytest.raises(fishplate.ArgumentError, match="5.5"):
        echo(ints=numbers, changed=b"")
    with pytest.raises(FileNotFoundError):
        echo(ints=tmp_path / "none", changed=b"")


def test_an_empty_array_keeps_its_shape(service: Services) -> None:
    back = service("echo")(longs=[], changed=b"").longs_out
    assert back.shape == (0,)


def test_memory_of_numpys_is_not_copied_on_its_way() -> None:
    from fishplate import _native

    array = numpy.arange(10.0)
    before = array.view(numpy.uint8)
    payload = _native.Payload.from_buffer(before.data)
    array[0] = 42.0
    held = payload.memory()
    assert held is not None
    assert numpy.frombuffer(held, "f8")[0] == 42.0
    with pytest.raises(ValueError, match="referenced by or references|resize"):
        before.resize(5)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"int": 1.5}, "input int .int. takes an int, not float"),
        ({"int": True}, "takes a number, not bool"),
        ({"double": "x", "bool": 1}, "input bool .bool. takes True or False, not int"),
        ({"a_string": 3}, "takes a str, not int"),
        ({"lambda_": "file"}, r"takes Path\(...\) for a file, bytes for its content, not str"),
        ({"lambda_": 3}, "takes a Path, bytes, an iterable of bytes, a binary file, or what"),
        ({"longs": [0.5]}, "takes int64, and this is an array of float64"),
        ({"longs": ["a"]}, "array of <U1"),
        ({"matrix": [[1.0], [1.0, 2.0]]}, "input matrix"),
        ({"inn": 1}, "no input inn; did you mean int"),
        ({"nonsense": 1}, "no input nonsense; there are: "),
    ],
)
def test_what_cannot_be_sent_is_told_before_it_is(
    service: Services, arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(fishplate.ArgumentError, match=told):
        service("echo")(**arguments, changed=b"")


def test_numbers_that_do_not_fit_are_refused(service: Services) -> None:
    with pytest.raises(OverflowError, match="no int32"):
        service("echo")(ints=[1, 2, 2**31], changed=b"")


def test_a_missing_input_and_a_missing_file_are_told(service: Services, tmp_path: Path) -> None:
    with pytest.raises(fishplate.ArgumentError, match="needs the input changed"):
        service("echo")(int=1)
    with pytest.raises(FileNotFoundError):
        service("echo")(changed=tmp_path / "none")


def test_outputs_by_pattern_are_a_dictionary(service: Services) -> None:
    result = service("countdown")(steps=3, pause=0)
    assert result.summary == 3
    assert list(result.step) == ["steps/0001.txt", "steps/0002.txt", "steps/0003.txt"]
    assert [file.text().strip() for file in result.step.values()] == ["1", "2", "3"]
    assert result.step["steps/0002.txt"].path().name == "0002.txt"


def test_a_result_is_a_mapping_with_attributes(service: Services) -> None:
    result = service("arithmetic-test")(x=1, y=2)
    assert result.result == result["result"] == 3
    assert dict(result) == {"result": 3}
    assert list(result) == ["result"] and len(result) == 1
    assert "result" in dir(result)
    assert repr(result) == "Result(result=3)"
    with pytest.raises(AttributeError, match="no output sum; there are: result"):
        result.sum


def test_without_numpy_arrays_are_lists(service: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "numpy", None)
    smooth = service("smooth")(grid=[[0, 4, 0], [8, 1, 2], [0, 4, 0]]).smooth
    assert smooth == [[0.0, 4.0, 0.0], [8.0, 4.5, 2.0], [0.0, 4.0, 0.0]]
    with pytest.raises(fishplate.ArgumentError, match="equally long"):
        service("smooth")(grid=[[1, 2], [3]])
