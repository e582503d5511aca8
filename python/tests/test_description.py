"""What a service says of itself."""

from __future__ import annotations

import inspect
import pydoc

import pytest
from conftest import Services

import fishplate


def test_help_shows_operations_with_types_units_and_ranges(service: Services) -> None:
    echo = service("echo")
    text = pydoc.plain(pydoc.render_doc(echo))
    for part in ("Echo", "Gives back", "int: int", "A whole number; in mm; -10 to 2147483647"):
        assert part in text, text
    assert "lambda_: Path | bytes | Iterator[bytes] | Data" in text
    assert "matrix: float64[n, m]" in text
    assert "ints: int32[3]" in text
    text = service("sort").__doc__ or ""
    assert "one of ',', ';', '|'" in text
    assert "'false' if left out" in text


def test_an_operation_has_a_signature(service: Services) -> None:
    signature = inspect.signature(service("sort")["call"])
    assert signature.parameters["reverse"].default is False
    assert signature.parameters["text"].default is inspect.Parameter.empty
    assert signature.parameters["text"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "key: 'int' = None" in str(signature)


def test_parameters_are_there_to_be_read(service: Services) -> None:
    operation = service("smooth")["call"]
    grid, sweeps = sorted(operation.inputs, key=lambda parameter: parameter.name)
    assert (grid.type, grid.element, grid.dimensions) == ("double[n,m]", "double", ["n", "m"])
    assert (sweeps.default, sweeps.min, sweeps.max) == ("1", "0", "1000")
    assert repr(service("echo")["call"].inputs[0]).startswith("<")


def test_repr_and_html(service: Services) -> None:
    echo = service("echo")
    assert repr(echo) == f"<Service echo at {echo.url}>"
    html = echo._repr_html_()
    assert "<td>float64[n, m]</td>" in html and "A whole number; in mm" in html
    assert repr(echo["call"]).startswith("<Operation echo.call(*, ")


def test_an_unknown_operation_is_an_attribute_error(service: Services) -> None:
    with pytest.raises(AttributeError, match="has no operation nonsense; there are: call"):
        service("echo").nonsense
    with pytest.raises(fishplate.ArgumentError):
        service("echo")["nonsense"]
    assert service("echo").operations == ["call"]
