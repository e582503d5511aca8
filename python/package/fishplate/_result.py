"""What came of a call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._data import BaseData
from ._values import spelled


class Result:
    """The outputs of an operation, as attributes: `result.mesh`, or `result["mesh"]`.

    Numbers, texts and truth values are Python's; arrays are NumPy's (nested lists without NumPy);
    files are `Data`. An output that may stand several times is a dictionary by file name. One that
    the program did not write is `None`.
    """

    def __init__(self, outputs: dict[str, Any]) -> None:
        self._outputs = outputs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __getitem__(self, name: str) -> Any:
        found = spelled(name, self._outputs)
        if found not in self._outputs:
            raise KeyError(f"no output {name}; there are: {', '.join(self._outputs)}")
        return self._outputs[found]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)

    def keys(self) -> list[str]:
        """Names of the outputs, in the operation's order: `dict(result)` works."""
        return list(self._outputs)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._outputs]

    def __repr__(self) -> str:
        shown = (f"{name}={brief(value)}" for name, value in self._outputs.items())
        return f"Result({', '.join(shown)})"


def brief(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, BaseData):
        return repr(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"<{value.dtype} array {' x '.join(map(str, value.shape))}>"
    if isinstance(value, dict) and len(value) > 3:
        return f"<{len(value)} files>"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
