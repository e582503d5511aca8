"""Every example of the guides runs, and gives what its comments say."""

from __future__ import annotations

import ast
import doctest
import re
import subprocess
import sys
import tokenize
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from server import ROOT, Hosted

GUIDES = ROOT / "docs/guides"


def comments(code: str) -> dict[int, str]:
    """What stands behind the code of each line."""
    tokens = tokenize.generate_tokens(StringIO(code).readline)
    found = (token for token in tokens if token.type == tokenize.COMMENT)
    return {token.start[0]: token.string.lstrip("# ") for token in found}


class Checked(ast.NodeTransformer):
    """Code in which expressions are compared with the comments behind them."""

    def __init__(self, code: str) -> None:
        self.told = comments(code)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        expected = self.told.get(node.end_lineno or 0, "")
        printed = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "print"
        if printed or not re.match(r"[\d'(\[]", expected):
            return node
        check = ast.Call(ast.Name("check", ast.Load()), [node.value, ast.Constant(expected)], [])
        return ast.copy_location(ast.Expr(check), node)


def run(code: str, guide: str, names: dict[str, Any]) -> None:
    """Runs a block."""
    tree = ast.fix_missing_locations(Checked(code).visit(ast.parse(code)))
    exec(compile(tree, f"docs/guides/{guide}", "exec"), names)


@pytest.mark.parametrize(("guide", "count", "checked"), [("python.md", 8, 7), ("workflows.md", 9, 5)])
def test_a_guide(
    guide: str, count: int, checked: int, hosted: Hosted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (GUIDES / guide).read_text(), re.M | re.S)
    true: list[str] = []

    def check(value: object, expected: str) -> None:
        got = repr(value)
        same = doctest.OutputChecker().check_output(expected, got, doctest.ELLIPSIS)
        assert same, f"{got}, not {expected}"
        true.append(expected)

    names: dict[str, Any] = {"__name__": "guide", "check": check}
    for block in blocks:
        run(block.replace("http://127.0.0.1:8080", hosted.url), guide, names)
    assert (len(blocks), len(true)) == (count, checked)


def test_the_run_of_the_guide_is_cancelled(hosted: Hosted, tmp_path: Path) -> None:
    (line,) = re.findall(r"^python -c '(.*)'$", (GUIDES / "workflows.md").read_text(), re.M)
    add = f"{hosted.url}/arithmetic-test"
    begin = f"import fishplate; fishplate.Run('plate-1').service('{add}')(x=1, y=2)"
    for code in (begin, line):
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
