"""What a service offers, for people: text, HTML, signatures."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from html import escape
from typing import Any

from . import _native
from ._values import BINARY, parsed

_PYTHON = {
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "bool": "bool",
    "string": "str",
    "dir": "Path | Data",
}
_ELEMENTS = {"int": "int32", "long": "int64", "float": "float32", "double": "float64"}


def identifier(name: str) -> str:
    """A name that can be a keyword argument."""
    import keyword

    word = name.replace("-", "_").replace(".", "_")
    return f"{word}_" if keyword.iskeyword(word) else word


def annotation(parameter: _native.Parameter, given: bool) -> str:
    """Python's type of a value, with its shape if it is an array."""
    if parameter.element is not None:
        return f"{_ELEMENTS[parameter.element]}[{', '.join(parameter.dimensions or ())}]"
    if parameter.type in BINARY:
        return "Path | bytes | Iterator[bytes] | Data" if given and parameter.type != "dir" else "Data"
    return _PYTHON.get(parameter.type, "str")


def signature(operation: _native.Operation) -> inspect.Signature:
    """The operation as a Python function, for `help`, `inspect` and editors."""
    inputs = []
    for parameter in operation.inputs:
        default: Any = inspect.Parameter.empty
        if parameter.optional or parameter.repeated:
            default = None
            if parameter.default is not None:
                default = parsed(parameter.type, parameter.default)
        inputs.append(
            inspect.Parameter(
                identifier(parameter.name),
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=annotation(parameter, given=True),
            )
        )
    return inspect.Signature(inputs, return_annotation="Result")


def remarks(parameter: _native.Parameter) -> str:
    """Help, unit, range, choices and default in one line."""
    words = [parameter.help.rstrip(".")] if parameter.help else []
    if parameter.unit:
        words.append(f"in {parameter.unit}")
    if parameter.choices:
        words.append("one of " + ", ".join(map(repr, parameter.choices)))
    if parameter.min is not None or parameter.max is not None:
        words.append(f"{parameter.min or ''} to {parameter.max or ''}".strip())
    if parameter.default is not None:
        words.append(f"{parameter.default!r} if left out")
    elif parameter.optional:
        words.append("may be left out")
    if parameter.repeated:
        words.append("any number of them, by name")
    return "; ".join(words)


def operation_text(operation: _native.Operation) -> str:
    """The documentation of an operation, as a docstring has it."""
    lines = [operation.documentation.strip()] if operation.documentation else []
    for title, parameters in (("Inputs", operation.inputs), ("Outputs", operation.outputs)):
        if parameters:
            lines += ["", f"{title}:"]
            lines += _lines(parameters, given=title == "Inputs")
    return "\n".join(lines).strip()


def _lines(parameters: Iterable[_native.Parameter], given: bool) -> list[str]:
    rows = [
        (f"{identifier(parameter.name)}: {annotation(parameter, given)}", remarks(parameter))
        for parameter in parameters
    ]
    width = max(len(row[0]) for row in rows)
    return [f"    {word:<{width}}  {remark}".rstrip() for word, remark in rows]


def service_text(native: _native.Service) -> str:
    """The documentation of a service."""
    head = native.title if native.title and native.title != native.name else native.name
    parts = [f"{head} ({native.address})"]
    if native.documentation:
        parts.append(native.documentation.strip())
    for operation in native.operations:
        words = ", ".join(
            identifier(parameter.name) + ("=..." if parameter.optional else "")
            for parameter in operation.inputs
        )
        name = native.name if operation.name == "call" else operation.name
        parts.append(f"{name}({words})\n\n{operation_text(operation)}")
    return "\n\n".join(parts)


def jobs_html(jobs: Iterable[tuple[str, ...]]) -> str:
    """A table of jobs for a notebook."""
    titles = ("job", "service", "operation", "state", "done", "submitted (UTC)", "message")
    head = "".join(f"<th>{title}</th>" for title in titles)
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in job) for job in jobs)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def fields_html(fields: Iterable[tuple[str, object]]) -> str:
    """What is known of a thing, a line a field, for a notebook."""
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in fields)
    return f"<table>{''.join(rows)}</table>"


def service_html(native: _native.Service) -> str:
    """The same for a notebook."""
    head = escape(native.title or native.name)
    parts = [f"<b>{head}</b> <code>{escape(native.address)}</code>"]
    if native.documentation:
        parts.append(f"<p>{escape(native.documentation.strip())}</p>")
    for operation in native.operations:
        if operation.name != "call":
            parts.append(f"<p><b>{escape(operation.name)}</b></p>")
        rows = [
            "<tr>"
            + "".join(
                f"<td>{escape(cell)}</td>"
                for cell in (
                    direction,
                    identifier(parameter.name),
                    annotation(parameter, direction == "in"),
                    remarks(parameter),
                )
            )
            + "</tr>"
            for direction, parameters in (("in", operation.inputs), ("out", operation.outputs))
            for parameter in parameters
        ]
        head_row = "<tr><th></th><th>name</th><th>type</th><th></th></tr>"
        parts.append(f"<table>{head_row}{''.join(rows)}</table>")
    return "".join(parts)
