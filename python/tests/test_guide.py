"""Every example of docs/guides/python.md runs, and gives what its comments say."""

from __future__ import annotations

import ast
import doctest
import re
import tokenize
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from server import ROOT, Hosted

GUIDE = (ROOT / "docs/guides/python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.M | re.S)


def comments(code: str) -> dict[int, str]:
    """What stands behind the code of each line."""
    tokens = tokenize.generate_tokens(StringIO(code).readline)
    found = (token for token in tokens if token.type == tokenize.COMMENT)
    return {token.start[0]: token.string.lstrip("# ") for token in found}


def run(code: str, names: dict[str, Any]) -> int:
    """Runs a block; how many of its comments were found to be true."""
    told, true = comments(code), 0
    for statement in ast.parse(code).body:
        source = ast.get_source_segment(code, statement) or ""
        expected = told.get(statement.end_lineno or 0, "")
        if not (isinstance(statement, ast.Expr) and re.match(r"[\d'(\[]", expected)):
            exec(compile(source, "docs/guides/python.md", "exec"), names)
            continue
        got = repr(eval(source, names))
        same = doctest.OutputChecker().check_output(expected, got, doctest.ELLIPSIS)
        assert same, f"{source} gives {got}, not {expected}"
        true += 1
    return true


def test_the_guide(hosted: Hosted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "guide"}
    true = sum(run(block.replace("http://127.0.0.1:8080", hosted.url), names) for block in BLOCKS)
    assert len(BLOCKS) == 8 and true == 7
