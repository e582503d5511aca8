"""The notebook runs from a fresh kernel, and gives what it shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "python/tests"))

from server import EXAMPLES, Hosted  # noqa: E402

BOOK = HERE / "heat.ipynb"


def shown(cell: Any) -> list[str]:
    """What a cell prints and shows as text, whatever the server's port. A progress bar stands on
    standard error, and is another one each time."""
    printed, texts = "", []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if output.get("name") == "stdout":
            printed += output.text
        texts.append(data.get("text/html") or data.get("text/plain") or "")
    return [
        re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8080", text) for text in [printed, *texts] if text
    ]


def pictures(cell: Any) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def test_the_notebook_gives_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = nbformat.read(BOOK, as_version=4)
    fresh = nbformat.read(BOOK, as_version=4)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    with Hosted(tmp_path, [EXAMPLES / "arrays/smooth.toml"], "--allow-private") as server:
        monkeypatch.setenv("SMOOTH", server.urls["smooth"])
        monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
        NotebookClient(fresh, timeout=120, kernel_name="python3").execute()
    for cell, before in zip(fresh.cells, kept.cells, strict=True):
        assert shown(cell) == shown(before), cell.source
        assert pictures(cell) == pictures(before), cell.source
    assert sum(map(pictures, fresh.cells)) == 1
    texts = "\n".join(text for cell in fresh.cells for text in shown(cell))
    assert "25.000 °C in the middle" in texts and "True" in texts
