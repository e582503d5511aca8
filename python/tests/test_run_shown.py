"""What is shown of a run: on a terminal, in a notebook, in its report."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from runs import Starts, contents, script
from server import Hosted

import fishplate
from fishplate import errors


SEEN = """import fishplate, sys
fishplate._picture.PERIOD_IN_LOG = 0.1
with fishplate.Run('seen', sys.argv[1], progress=True if 'log' in sys.argv else None) as run:
    tally = run.service(sys.argv[2])
    for n in range(3):
        tally(starts=sys.argv[3], tag=str(n), x=n, pause=0.5)
        run.progress('residual', 10.0 ** -n)
"""


def test_a_terminal_shows_how_a_run_goes_on(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    words = [sys.executable, "-c", SEEN, str(tmp_path / "run"), tally.urls["tally"], starts.path]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        # Reading a terminal that nobody has open any more is an error.
        with suppress(OSError):
            while chunk := os.read(ours, 4096):
                shown += chunk
    os.close(ours)
    lines = shown.decode().replace("\x1b[K", "").split("\r")
    assert any("tally 0 s" in line for line in lines), lines
    assert any(line.startswith("seen: 3 steps done | residual 0.01 (3) | ") for line in lines), lines


def test_a_log_has_lines_for_who_wants_them(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def logged(name: str, *before: str) -> str:
        words = [*before, sys.executable, "-c", SEEN, str(tmp_path / name), tally.urls["tally"], starts.path, name]
        return subprocess.run(words, stderr=subprocess.PIPE, check=True, text=True).stderr

    assert logged("silent") == ""
    # A program without a standard error says nothing, and runs.
    assert logged("closed", "sh", "-c", 'exec "$@" 2>&-', "sh") == ""
    lines = logged("log").splitlines()
    assert any("tally 0 s" in line for line in lines), lines
    assert lines[-1].startswith("seen: 3 steps done | residual 0.01 (3) | "), lines
    assert not any(character in line for line in lines for character in "\r\x1b"), lines


def test_a_notebook_shows_how_a_run_goes_on(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    image = tmp_path / "dot.svg"
    image.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    code = (
        "import fishplate\n"
        f"run = fishplate.Run('noted', {str(tmp_path / 'run')!r})\n"
        f"tally = run.service({tally.urls['tally']!r})\n"
        "for n in range(2):\n"
        f"    tally(starts={starts.path!r}, tag=str(n), x=1, pause=1.5)\n"
        "    run.progress('residual', 10.0 ** -n)\n"
        f"run.picture({str(image)!r}, 'a dot')\n"
        "run.close()\n"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])  # type: ignore[no-untyped-call]
    seen: list[str] = []

    class Client(nbclient.NotebookClient):
        """What it is shown meanwhile is kept, too."""

        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["msg_type"] == "update_display_data":
                seen.append(msg["content"]["data"]["text/html"])
            return super().process_message(msg, cell, cell_index)

    done = Client(notebook, timeout=60, kernel_name="python3").execute()
    drawn, picture = (output["data"] for output in done.cells[0].outputs)
    assert drawn["text/plain"].startswith("noted: 2 steps done | residual 0.1 (2) | ")
    # Who works was to be seen while it did.
    assert any("noted: 0 steps done" in html and " until now</title>" in html for html in seen), seen
    assert "until now" not in drawn["text/html"] and drawn["text/html"].count("<rect") >= 2
    assert "<figcaption>residual (logarithmic)</figcaption>" in drawn["text/html"]
    assert picture["text/plain"] == "a dot" and "data:image/svg+xml;base64," in picture["text/html"]


def test_bytes_of_a_killed_process_are_told(tally: Hosted, tmp_path: Path) -> None:
    code = (
        "import fishplate, os, sys\n"
        "run = fishplate.Run('moved', sys.argv[1])\n"
        "run.service(sys.argv[2])(text=b'b\\n' * 100_000)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert script(code, tmp_path / "run", tally.urls["sort"]).wait() == -9
    (killed,) = contents(tmp_path / "run").processes
    assert 200_000 < killed["sent"] < 400_000 and killed["received"] > 0
    with fishplate.Run("moved", tmp_path / "run") as run:
        told = f"{fishplate._progress.human(killed['sent'])} sent, {fishplate._progress.human(killed['received'])} received"
        assert f"Through the workflow's own process, up to the last step that ended where it was killed: {told}." in (
            run.report().read_text()
        )


def test_a_report_needs_nothing_else(tally: Hosted, second: Hosted, starts: Starts, tmp_path: Path) -> None:
    image = tmp_path / "dot.svg"
    image.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    text = b"".join(b"%d\n" % (number * 7919 % 10007) for number in range(10_000))
    with fishplate.Run("told", tmp_path / "run") as run:
        words = run.service(tally.urls["sort"])(text=text).sorted
        run.service(second.urls["gzip"])(plain=words)
        run.service(tally.urls["gzip"])(plain=words)
        with pytest.raises(errors.ProgramFailed):
            run.service(tally.urls["tally"])(starts=starts.path, tag="<b>", x=-1)
        for value in (1.0, 0.1, 0.01):
            run.progress("residual", value)
            run.progress("front", 2.0 - value)
        run.picture(image, "a dot")
        other = tmp_path / "line.svg"
        other.write_text("<svg xmlns='http://www.w3.org/2000/svg'><!-- a line --></svg>")
        # Of the same name, in another directory; told twice, it stands there once.
        twin = tmp_path / "other" / image.name
        twin.parent.mkdir()
        twin.write_text("<svg xmlns='http://www.w3.org/2000/svg'><!-- a twin --></svg>")
        run.report(pictures=twin)
        run.report(pictures=str(twin))
        page = run.report(pictures=[(other, "a line")]).read_text()
        edge = run.edges()["sort", "gzip"]
        assert (edge.files, edge.bytes) == (2, len(text))
        assert run.transferred[0] < 2 * len(text)
        assert "told: 3 steps done, 1 failed" in repr(run) and "residual 0.01 (3)" in repr(run)
    assert page.count("src='data:image/svg+xml;base64,") == 3 and "<figcaption>a line</figcaption>" in page
    assert "<script" not in page
    assert ">gzip at " in page and ">sort<title>" in page, "of one on two servers each has a lane"
    assert "residual (logarithmic)" in page and "<figcaption>front</figcaption>" in page
    assert page.count("http") == page.count(tally.urls["tally"]) == 1, "nothing is fetched"
    size = fishplate._progress.human(len(text))
    assert f"<td>sort</td><td>gzip</td><td class='n'>2</td><td class='n'>{size}</td>" in page
    assert "1 fetched, 1 on the same server" in page or "1 on the same server, 1 fetched" in page
    assert "-1 is below 0" in page and "tag=&lt;b&gt;" in page
