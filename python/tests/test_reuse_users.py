"""Results of others: for those whom the operator's policy allows it, and for nobody else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import Starts, following
from server import BINARY, EXAMPLES, SERVICES, Hosted

import fishplate

POLICY = """
[groups]
chemists = ["ada", "eve"]
physicists = ["bob"]

[[allow]]
who = "@authenticated"

[[allow]]
who = "@chemists"
service = ["tally", "sort"]
may = "reuse"

[[allow]]
who = "@physicists"
service = ["tally", "sort"]
may = "reuse"
"""


@pytest.fixture(scope="module")
def circles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A server with two circles of users, of whom each has the password `secret`."""
    folder = tmp_path_factory.mktemp("circles")
    (folder / "policy.toml").write_text(POLICY)
    services = [SERVICES / "tally.toml", EXAMPLES / "files/sort.toml", EXAMPLES / "files/gzip.toml"]
    options = ["--login", "--policy", str(folder / "policy.toml"), "--allow-private"]
    with Hosted(folder, services, *options) as server:
        for user in ("ada", "eve", "bob"):
            words = [str(BINARY), "user", "add", user, "--password-stdin", "--data", str(server.data)]
            subprocess.run(words, input="secret", capture_output=True, text=True, check=True)
        yield server


def test_a_study_is_made_once_in_a_circle(circles: Hosted, starts: Starts, tmp_path: Path) -> None:
    def study(user: str, cases: range) -> list[int]:
        with fishplate.Run(user, tmp_path / f"{user}-{len(cases)}", reuse=True) as run:
            service = run.service(circles.urls["tally"], auth=(user, "secret"))
            return [int(service(starts=starts.path, tag=f"case-{x}", x=x).next) for x in cases]

    expected = [following(x) for x in range(5)]
    assert study("ada", range(4)) == expected[:4]
    assert starts().total() == 4
    assert study("eve", range(5)) == expected
    assert starts() == {f"case-{x}": 1 for x in range(5)}, "one case was new"
    assert study("bob", range(4)) == expected[:4]
    assert starts().total() == 9, "he is of another circle"


def test_files_count_by_what_they_hold_wherever_they_are(circles: Hosted, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("reuse\nit\n")

    def work(user: str) -> tuple[str, Any]:
        auth = (user, "secret")
        # Each has the file at an address of their own.
        words = fishplate.Server(circles.url, auth=auth).put(tmp_path / "words")
        with fishplate.Run(f"files-{user}", tmp_path / f"files-{user}", reuse=True) as run:
            sort = run.service(circles.urls["sort"], auth=auth)
            step = sort.spawn(text=words)
            data = step.result.sorted
            assert step.job is not None
            return fishplate.Service(circles.urls["sort"], auth=auth).job(step.job).state, data

    ran, ada = work("ada")
    taken, eve = work("eve")
    assert (ran, taken) == ("done", "done")
    assert ada.url != eve.url and ada.bytes() == eve.bytes() == b"it\nreuse\n"
    jobs = {user: fishplate.Service(circles.urls["sort"], auth=(user, "secret")).jobs() for user in ("ada", "eve")}
    (first,), (second,) = jobs["ada"], jobs["eve"]
    assert first.id != second.id
    # Nothing ran for her: the supervisor has no journal of it.
    journals = {job.id: (circles.data / "jobs" / job.id / "run").exists() for job in (first, second)}
    assert journals == {first.id: True, second.id: False}
    files = [path for path in (circles.data / "jobs" / second.id).rglob("*") if path.is_file()]
    assert any(path.stat().st_nlink > 1 for path in files), "its outputs are other names of the same files"
