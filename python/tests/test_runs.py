"""Runs of workflows: killed, resumed, changed, cancelled; real servers, real programs."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import numpy
import pytest
from server import EXAMPLES, SERVICES, Hosted

import fishplate
from fishplate import _journal, errors

STUDY = Path(__file__).parent / "workflows/study.py"
LONG = 30.0
"""Seconds after which a condition will not come about."""


def following(x: int) -> int:
    """What the program gives."""
    return (x * 1103515245 + 12345) % 65536


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + LONG
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
    return found


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A server with programs that count their starts."""
    services = [SERVICES / "tally.toml", SERVICES / "fails.toml"]
    services += [EXAMPLES / name for name in ("files/sort.toml", "files/gzip.toml", "arrays/smooth.toml")]
    with Hosted(tmp_path_factory.mktemp("tally"), services, "--allow-private") as server:
        yield server


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """Another site."""
    services = [SERVICES / "tally.toml", EXAMPLES / "files/gzip.toml"]
    with Hosted(tmp_path_factory.mktemp("second"), services, "--allow-private") as server:
        yield server


class Starts:
    """The file in which programs note that they were started."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __call__(self) -> Counter[str]:
        path = Path(self.path)
        return Counter(path.read_text().split()) if path.exists() else Counter()


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path / "starts")


def script(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def contents(directory: Path) -> _journal.Contents:
    return _journal.read(directory / "journal")[0]


def test_a_run_gives_again_what_it_gave(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work() -> list[Any]:
        with fishplate.Run("again", tmp_path / "run") as run:
            service = run.service(tally.urls["tally"])
            sort = run.service(tally.urls["sort"])
            smooth = run.service(tally.urls["smooth"])
            grid = numpy.zeros((30, 30))
            grid[15, 15] = 1.0
            found: list[Any] = [run.random(), run.now(), run.value(lambda: {"a": (1, None)})]
            x = 1
            for number in range(5):
                x = service(starts=starts.path, tag=str(number), x=x).next
                run.progress("x", x)
                found.append(x)
            words = sort(text=b"b\na\n").sorted
            assert isinstance(words, fishplate.Reference)
            found += [words.url, words.text(), smooth(grid=grid, sweeps=3).smooth.tolist()]
            return found

    first = work()
    assert work() == first and first[2] == {"a": [1, None]}
    assert starts() == {str(number): 1 for number in range(5)}
    assert len(contents(tmp_path / "run").measures) == 5


def test_killed_and_started_again_it_goes_on(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    words = [sys.executable, str(STUDY), str(tmp_path / "run"), starts.path, "3", "0.3"]
    words += [tally.urls[name] for name in ("tally", "sort", "gzip")]
    for wanted in (1, 4, 8, 12):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        until(lambda: starts().total() >= wanted)  # noqa: B023
        process.kill()
        process.wait()
    told = subprocess.run(words, capture_output=True, text=True, check=True)
    assert set(starts().values()) == {1}, starts()
    undisturbed = [*words[:2], str(tmp_path / "other"), str(tmp_path / "others"), "3", "0", *words[6:]]
    assert subprocess.run(undisturbed, capture_output=True, text=True, check=True).stdout == told.stdout


def test_a_job_that_goes_on_is_waited_for(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    code = (
        "import fishplate, sys\n"
        "run = fishplate.Run('slow', sys.argv[1])\n"
        "print(run.service(sys.argv[2])(starts=sys.argv[3], tag='slow', x=1, pause=2).next)\n"
    )
    arguments = (tmp_path / "run", tally.urls["tally"], starts.path)
    process = script(code, *arguments)
    until(lambda: starts()["slow"])
    process.kill()
    process.wait()
    out, err = script(code, *arguments).communicate()
    assert (out, err) == (f"{following(1)}\n", "")
    assert starts() == {"slow": 1}
    tried = contents(tmp_path / "run").attempts["1"]
    assert [attempt.number for attempt in tried] == [0]


def test_a_job_that_is_gone_is_told_and_made_anew_if_that_is_wanted(
    tally: Hosted, starts: Starts, tmp_path: Path
) -> None:
    code = (
        "import fishplate, sys\n"
        "with fishplate.Run('gone', sys.argv[1]) as run:\n"
        "    print(run.service(sys.argv[2])(starts=sys.argv[3], tag='gone', x=1, pause=0.5).next)\n"
    )
    arguments = (tmp_path / "run", tally.urls["tally"], starts.path)
    process = script(code, *arguments)
    until(lambda: starts()["gone"])
    until(lambda: contents(tmp_path / "run").attempts["1"][0].job)
    process.kill()
    process.communicate()
    (attempt,) = contents(tmp_path / "run").attempts["1"]
    job = fishplate.Service(tally.urls["tally"]).job(attempt.job or "")
    job.wait()
    job.remove()
    _, err = script(code, *arguments).communicate()
    assert "NoSuchJob" in err and "in step 1 of run gone, <string>:3" in err
    assert starts() == {"gone": 1}
    assert script(code, *arguments).communicate() == (f"{following(1)}\n", "")
    assert starts() == {"gone": 2}


def test_a_run_belongs_to_one_process(tmp_path: Path) -> None:
    code = "import fishplate, sys\nfishplate.Run('mine', sys.argv[1])\nprint('here', flush=True)\nsys.stdin.read()\n"
    process = script(code, tmp_path / "run", stdin=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == "here\n"
    with pytest.raises(errors.RunInUse, match=f"is being run by process {process.pid}"):
        fishplate.Run("mine", tmp_path / "run")
    process.kill()
    process.wait()
    fishplate.Run("mine", tmp_path / "run").close()
    with pytest.raises(errors.RunInUse, match="of run mine, not of yours"):
        fishplate.Run("yours", tmp_path / "run")


def test_code_that_changed_is_named(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work(x: int, second: str) -> None:
        with fishplate.Run("changed", tmp_path / "run") as run:
            service = run.service(tally.urls["tally"])
            service(starts=starts.path, tag="one", x=x)
            if second == "call first":
                service(starts=starts.path, tag="two", x=2)
            run.value(lambda: 0)
            if second == "call":
                service(starts=starts.path, tag="two", x=2)
            else:
                run.value(lambda: 1)

    work(1, "call")
    told = r"step 1 of run changed was tally\(starts=.*, tag=one, x=1\) at test_runs.py:\d+, .*; now it is tally\(.*, x=5\)"
    with pytest.raises(errors.JournalMismatch, match=told):
        work(5, "call")
    with pytest.raises(errors.JournalMismatch, match=r"step 3 .* was tally\(.*tag=two, x=2\); now it is value of "):
        work(1, "value")
    with pytest.raises(errors.JournalMismatch, match=r"step 2 .* was value of .*; now it is tally\(.*tag=two, x=2\)"):
        work(1, "call first")
    work(1, "call")
    assert starts() == {"one": 1, "two": 1}


def test_a_failed_step_says_where_and_is_tried_again(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work(x: int, **options: Any) -> int:
        with fishplate.Run("fails", tmp_path / "run") as run:
            service = run.service(tally.urls["tally"], **options)
            service(starts=starts.path, tag="before", x=1)
            return int(service(starts=starts.path, tag="it", x=x).next)

    with pytest.raises(errors.ProgramFailed) as caught:
        work(-1, retries=2)
    assert starts() == {"before": 1, "it": 3}
    notes = "\n".join(caught.value.__notes__)
    assert "in step 2 of run fails, test_runs.py:" in notes and f"x=-1) at {tally.urls['tally']}, attempt 3, job " in notes
    assert caught.value.stderr is not None and "-1 is below 0" in caught.value.stderr
    # It was mended.
    assert work(1) == work(1) == following(1)
    assert starts() == {"before": 1, "it": 4}


def test_a_failure_that_the_workflow_took_is_part_of_the_run(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work() -> list[int]:
        with fishplate.Run("loop", tmp_path / "run") as run:
            service, x, seen = run.service(tally.urls["tally"]), -2, []
            while True:
                try:
                    seen.append(int(service(starts=starts.path, tag=f"try{x}", x=x).next))
                    break
                except errors.ProgramFailed as fault:
                    assert fault.exit_code == 3
                    x += 1
            return seen

    assert work() == work()
    assert starts() == {"try-2": 1, "try-1": 1, "try0": 1}
    with fishplate.Run("loop", tmp_path / "run") as run:
        run.reopen()
    assert work() == work()
    assert starts() == {"try-2": 2, "try-1": 2, "try0": 1}


def test_what_was_not_taken_is_tried_again(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work(sign: int) -> None:
        with fishplate.Run("spawned", tmp_path / "spawned") as run:
            service = run.service(tally.urls["tally"])
            steps = [service.spawn(starts=starts.path, tag=f"s{n}", x=sign * (n + 1)) for n in range(4)]
            until(lambda: all(step.done for step in steps))
            assert [step.result.next for step in steps] == [following(n + 1) for n in range(4)]

    with pytest.raises(errors.ProgramFailed):
        work(-1)
    work(1)
    assert starts() == {f"s{n}": 2 for n in range(4)}


def test_a_failure_before_branches_is_taken(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work() -> None:
        with fishplate.Run("before", tmp_path / "before") as run:
            service = run.service(tally.urls["tally"])
            with pytest.raises(errors.ProgramFailed):
                service(starts=starts.path, tag="map", x=-1)
            run.map(lambda n: service(starts=starts.path, tag=f"m{n}", x=n), range(2))
            with pytest.raises(errors.ProgramFailed):
                service(starts=starts.path, tag="branch", x=-1)
            with run.branch("solid"):
                service(starts=starts.path, tag="b", x=1)

    for _ in range(3):
        work()
    assert starts() == {"map": 1, "m0": 1, "m1": 1, "branch": 1, "b": 1}


def test_a_failure_in_whose_handling_another_came_stays_taken(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work(is_wrong: bool) -> None:
        with fishplate.Run("handled", tmp_path / "handled") as run:
            service = run.service(tally.urls["tally"])
            try:
                service(starts=starts.path, tag="a", x=-1)
            except errors.ProgramFailed:
                service(starts=starts.path, tag="b", x=2)
                if is_wrong:
                    raise ZeroDivisionError  # noqa: B904

    with pytest.raises(ZeroDivisionError):
        work(True)
    work(False)
    assert starts() == {"a": 1, "b": 1}


def test_failures_of_another_run_are_its_own(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    with pytest.raises(errors.ProgramFailed):
        with fishplate.Run("outer", tmp_path / "outer") as outer, fishplate.Run("inner", tmp_path / "inner") as inner:
            with pytest.raises(errors.ProgramFailed):
                outer.service(tally.urls["tally"])(starts=starts.path, tag="taken", x=-1)
            outer.random()
            inner.service(tally.urls["tally"])(starts=starts.path, tag="it", x=-1)
    (taken,), (failed,) = (contents(tmp_path / name).attempts["1"] for name in ("outer", "inner"))
    assert (taken.taken, taken.reopened, failed.reopened) == (True, False, True)


def test_a_mismatch_does_not_mend_itself(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work(x: int) -> None:
        with fishplate.Run("mended", tmp_path / "run") as run:
            service = run.service(tally.urls["tally"])
            with pytest.raises(errors.ProgramFailed):
                service(starts=starts.path, tag="a", x=x)
            service(starts=starts.path, tag="b", x=7)

    work(-1)
    for _ in range(2):
        with pytest.raises(errors.JournalMismatch):
            work(3)
    work(-1)
    assert starts() == {"a": 1, "b": 1}


def test_another_call_is_noticed_by_its_server(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work(x: int) -> int:
        with fishplate.Run("lost", tmp_path / "run") as run:
            return int(run.service(tally.urls["tally"])(starts=starts.path, tag="t", x=x).next)

    assert work(1) == following(1)
    # A power failure took what was not synced.
    journal = tmp_path / "run/journal"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:2]))
    for _ in range(2):
        with pytest.raises(errors.JournalMismatch, match="the journal has lost with which"):
            work(5)
    assert work(1) == following(1)
    assert starts() == {"t": 1}


def test_no_answer_that_the_workflow_took_is_part_of_the_run(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{nobody.getsockname()[1]}/tally"

    def work() -> list[str]:
        with fishplate.Run("late", tmp_path / "run", patience=0.5) as run:
            service, seen = run.service(tally.urls["tally"]), []
            try:
                service.options(timeout=0.5)(starts=starts.path, tag="fine", x=1, pause=2)
            except errors.Timeout as error:
                seen.append(str(error))
            service(starts=starts.path, tag="coarse", x=1)
            try:
                run.service(gone)(x=1)
            except errors.Unreachable as error:
                seen.append(str(error))
            service(starts=starts.path, tag="here", x=1)
            return seen

    first = work()
    (late,) = contents(tmp_path / "run").attempts["1"]
    # Its job ends well, which changes nothing any more.
    assert fishplate.Service(tally.urls["tally"]).job(late.job or "").wait(timeout=LONG).state == "done"
    assert len(first) == 2 and work() == first
    assert starts() == {"fine": 1, "coarse": 1, "here": 1}


def test_another_server_answers(tally: Hosted, second: Hosted, starts: Starts, tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{nobody.getsockname()[1]}/tally"
        with fishplate.Run("two", tmp_path / "run") as run:
            service = run.service([gone, tally.urls["tally"], second.urls["tally"]], retries=1)
            assert service(starts=starts.path, tag="a", x=1).next == following(1)
            with pytest.raises(errors.ProgramFailed):
                service(starts=starts.path, tag="b", x=-1)
            other = run.service([second.urls["gzip"], second.urls["tally"]])
            other(plain=b"")
    attempts = contents(tmp_path / "run").attempts
    assert [attempt.url for attempt in attempts["1"]] == [tally.urls["tally"]]
    assert [attempt.url for attempt in attempts["2"]] == [tally.urls["tally"], second.urls["tally"]]
    with fishplate.Run("three", tmp_path / "other", patience=1) as run:
        with pytest.raises(errors.Unreachable, match="no server answers at"):
            run.service([gone])(x=1)
        mixed = run.service([second.urls["tally"], second.urls["gzip"]], retries=1)
        with pytest.raises(fishplate.ArgumentError, match="has another interface"):
            mixed(starts=starts.path, tag="c", x=-1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("way", ["plain", "with", "map", "spawn", "asyncio", "threads"])
def test_stopping_ends_the_jobs(tally: Hosted, starts: Starts, tmp_path: Path, number: int, way: str) -> None:
    ways = {
        "plain": "run = fishplate.Run('stop', d)\ncall(run, 0)\n",
        "with": "with fishplate.Run('stop', d) as run:\n    call(run, 0)\n",
        "map": "run = fishplate.Run('stop', d)\nrun.map(lambda n: call(run, n), range(3))\n",
        "spawn": "run = fishplate.Run('stop', d)\ns = run.service(url).spawn(**inputs(0))\ns.result\n",
        "threads": (
            "import threading\n"
            "run = fishplate.Run('stop', d)\n"
            "def case(n):\n"
            "    with run.branch(f'case-{n}'):\n"
            "        call(run, n)\n"
            "cases = [threading.Thread(target=case, args=(n,)) for n in range(3)]\n"
            "[case.start() for case in cases]\n"
            "[case.join() for case in cases]\n"
        ),
        "asyncio": (
            "async def main():\n"
            "    with fishplate.Run('stop', d) as run:\n"
            "        s = run.async_service(url)\n"
            "        await asyncio.gather(*(s(**inputs(n)) for n in range(3)))\n"
            "asyncio.run(main())\n"
        ),
    }
    code = (
        "import asyncio, fishplate, sys\n"
        "d, url, f = sys.argv[1:]\n"
        "def inputs(n): return dict(starts=f, tag=str(n), x=n, pause=600)\n"
        "def call(run, n): run.service(url)(**inputs(n))\n" + ways[way]
    )
    service = fishplate.Service(tally.urls["tally"])
    process = script(code, tmp_path / "run", tally.urls["tally"], starts.path)
    count = 3 if way in ("map", "asyncio", "threads") else 1
    until(lambda: starts().total() == count)
    process.send_signal(number)
    _, err = process.communicate(timeout=LONG)
    assert process.returncode != 0, err
    tried = contents(tmp_path / "run").attempts
    jobs = [attempts[-1].job for attempts in tried.values()]
    assert len(jobs) == count and all(attempts[-1].cancelled for attempts in tried.values()), err
    assert [service.job(job or "").wait(timeout=LONG).state for job in jobs] == ["killed"] * count
    # Resumed, it makes them anew.
    again = script(code, tmp_path / "run", tally.urls["tally"], starts.path)
    until(lambda: starts().total() == 2 * count)
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=LONG)


def test_jobs_of_a_killed_workflow_can_be_ended(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    code = "import fishplate, sys\nr = fishplate.Run('lost', sys.argv[1])\nr.service(sys.argv[2])(starts=sys.argv[3], tag='x', x=1, pause=600)\n"
    process = script(code, tmp_path / "run", tally.urls["tally"], starts.path)
    until(lambda: starts()["x"])
    until(lambda: contents(tmp_path / "run").attempts["1"][0].job)
    process.kill()
    process.communicate()
    with fishplate.Run("lost", tmp_path / "run") as run:
        assert run.cancel() == ["1"]
        with pytest.raises(errors.RunCancelled):
            run.service(tally.urls["tally"])(starts=starts.path, tag="y", x=1)
    (attempt,) = contents(tmp_path / "run").attempts["1"]
    assert attempt.job is not None
    assert fishplate.Service(tally.urls["tally"]).job(attempt.job).wait(timeout=LONG).state == "killed"


def test_killing_a_workflow_that_is_a_job_ends_its_jobs(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    (tmp_path / "nested.py").write_text(
        "import fishplate, sys\n"
        "with fishplate.Run('nested', sys.argv[1]) as run:\n"
        "    print(run.service(sys.argv[2])(starts=sys.argv[3], tag='inner', x=1, pause=float(sys.argv[4])).next)\n"
    )
    (tmp_path / "nested.toml").write_text(
        f"""command = "{sys.executable} {tmp_path}/nested.py [in val run:string] [in val url:string] [in val starts:string] """
        """[in val pause:double] > [out file next:int]"\n[limits]\nkill_grace = "60s"\n"""
    )
    with Hosted(tmp_path / "outer", [tmp_path / "nested.toml"], "--allow-private") as outer:
        nested = fishplate.Service(outer.urls["nested"])
        inputs = {"run": str(tmp_path / "run"), "url": tally.urls["tally"], "starts": starts.path}
        job = nested.spawn(**inputs, pause=600)
        until(lambda: starts()["inner"])
        job.kill()
        assert job.wait(timeout=LONG).state == "killed"
        (attempt,) = contents(tmp_path / "run").attempts["1"]
        assert attempt.cancelled and attempt.job is not None
        assert fishplate.Service(tally.urls["tally"]).job(attempt.job).state == "killed"
        # A workflow calls it, and goes on with what the other one has done.
        with fishplate.Run("outer", tmp_path / "outer-run") as run:
            assert run.service(outer.urls["nested"])(**inputs, pause=0).next == following(1)
    assert starts() == {"inner": 2}


def test_branches_have_places_of_their_own(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work(order: list[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        with fishplate.Run("side", tmp_path / "run") as run:
            service = run.service(tally.urls["tally"])
            turn = {index: threading.Event() for index in order}

            def case(index: int) -> None:
                with run.branch(f"case-{index}"):
                    turn[index].wait(LONG)
                    one = service(starts=starts.path, tag=f"{index}", x=index).next
                    two = service(starts=starts.path, tag=f"{index}+", x=one).next
                    found[index] = [one, two]

            threads = [threading.Thread(target=case, args=(index,)) for index in order]
            for thread in threads:
                thread.start()
            for index, thread in zip(order, threads, strict=True):
                turn[index].set()
                thread.join()
            service(starts=starts.path, tag="last", x=0)
        return found

    assert work([0, 1, 2]) == work([2, 0, 1])
    assert set(starts().values()) == {1} and len(starts()) == 7


def test_what_is_side_by_side_without_a_branch_is_refused(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    async def main() -> None:
        service = run.async_service(tally.urls["tally"])

        async def case(index: int) -> int:
            await asyncio.sleep(0.01 * (3 - index))
            one = (await service(starts=starts.path, tag=f"{index}", x=index)).next
            return int((await service(starts=starts.path, tag=f"{index}+", x=one)).next)

        await service(starts=starts.path, tag="first", x=1)
        with pytest.raises(errors.BranchError, match="run.branch"):
            await asyncio.gather(case(0), case(1))
        found.append(await run.gather(case(0), case(1), case(2)))
        # A place is taken where a call is made, and not where it is awaited.
        calls = [service(starts=starts.path, tag=f"g{n}", x=n) for n in range(3)]
        found.append([result.next for result in await asyncio.gather(*reversed(calls))][::-1])

    found: list[list[int]] = []
    for _ in range(2):
        with fishplate.Run("tasks", tmp_path / "run") as run:
            asyncio.run(main())
    assert found[:2] == found[2:]
    assert set(starts().values()) == {1} and len(starts()) == 10
    with fishplate.Run("names", tmp_path / "names") as run:
        with run.branch("a"), run.branch("b"):
            assert run.service(tally.urls["sort"]).spawn(text=b"").place == "a.1/b.1/1"
        with run.branch("a"):
            refused: list[BaseException] = []

            def enter() -> None:
                try:
                    with run.branch("a"):
                        pass
                except errors.BranchError as error:
                    refused.append(error)

            thread = threading.Thread(target=enter)
            thread.start()
            thread.join()
            assert "open already" in str(refused[0])


def test_a_server_has_so_many_jobs_at_once(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    with fishplate.Run("few", tmp_path / "run", at_once=2) as run:
        service, alone = run.service(tally.urls["tally"]), run.service(tally.urls["tally"], at_once=1)
        for called, places, count in ((service, range(1, 7), 2), (alone, range(7, 10), 1)):
            steps = [called.spawn(starts=starts.path, tag=str(n), x=n, pause=0.2) for n in places]
            assert [step.result.next for step in steps] == list(map(following, places))
            run.report()
            attempts = [run._journal.contents.attempts[str(place)][0] for place in places]
            spans = [(attempt.used["started"], attempt.used["ended"]) for attempt in attempts if attempt.used]
            assert len(spans) == len(places)
            assert max(sum(begin <= at < end for begin, end in spans) for at, _ in spans) == count
        with pytest.raises(ValueError, match="at least 1, not 0"):
            run.service(tally.urls["tally"], at_once=0)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        fishplate.Run("none", tmp_path / "none", at_once=0)


def test_results_are_reused_across_runs(tally: Hosted, second: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work(name: str, text: bytes, reuse: bool = True) -> tuple[int, str]:
        with fishplate.Run(name, tmp_path / name, reuse=reuse) as run:
            x = run.service(tally.urls["tally"])(starts=starts.path, tag="x", x=3).next
            words = run.service(tally.urls["sort"])(text=text).sorted
            # Data by its digest, wherever it is.
            packed = run.service(second.urls["gzip"])(plain=words, level=1).packed
            return int(x), packed.url

    first = work("one", b"reuse\nit\n")
    assert work("two", b"reuse\nit\n") == first
    assert work("three", b"it\nreuse\n") == first, "its sorted text has the same digest"
    assert starts() == {"x": 1}
    assert work("four", b"reuse\nit\n", reuse=False)[0] == first[0]
    assert starts() == {"x": 2}


def test_repeatable_functions_are_called_without_jobs(tmp_path: Path) -> None:
    with Hosted(tmp_path / "server", [], "--builtin", "matrix", functions=["matrix"]) as hosted:
        for _ in range(2):
            with fishplate.Run("functions", tmp_path / "run") as run:
                service = run.service(hosted.urls["matrix"])
                found = [service.checksum(data=b"rail").digest for _ in range(3)]
                assert len(set(found)) == 1 and len(found[0]) == 16
        jobs = fishplate.Service(hosted.urls["matrix"]).jobs()
        assert len(jobs) == 1, "what it is, is known from the first call on"


def test_inputs_that_can_be_read_once_are_refused(tally: Hosted, tmp_path: Path) -> None:
    with fishplate.Run("once", tmp_path / "run") as run:
        with pytest.raises(fishplate.ArgumentError, match="input text can be read once only"):
            run.service(tally.urls["sort"])(text=iter([b"b\n"]))


def test_large_inputs_and_what_is_put_are_sent_once(tally: Hosted, tmp_path: Path) -> None:
    lines = b"".join(b"%07d\n" % number for number in range(100_000, 0, -1))
    (tmp_path / "lines").write_bytes(lines)

    def work() -> list[bytes]:
        with fishplate.Run("large", tmp_path / "run") as run:
            sort = run.service(tally.urls["sort"])
            put = run.put(tmp_path / "lines", tally.url)
            return [sort(text=text).sorted.bytes() for text in (put, tmp_path / "lines", lines)]

    before = fishplate.transferred()
    assert work() == [b"".join(sorted(lines.splitlines(keepends=True)))] * 3
    sent = fishplate.transferred().sent - before.sent
    assert 3 * len(lines) < sent < 4 * len(lines)
    work()
    assert fishplate.transferred().sent - before.sent - sent < 100_000


def test_a_torn_journal_is_mended_and_a_damaged_one_refused(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work() -> None:
        with fishplate.Run("torn", tmp_path / "run") as run:
            service = run.service(tally.urls["tally"])
            for number in range(3):
                service(starts=starts.path, tag=str(number), x=number)
            run.value(lambda: 1)

    work()
    path = tmp_path / "run/journal"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    value = next(at for at, line in enumerate(lines) if b'"kind":"value"' in line)
    before = b"".join(lines[:value])
    # Cut anywhere: the jobs are found again by their keys.
    for cut in range(len(lines[0]) + 1, len(before), 97):
        path.write_bytes(before[:cut])
        work()
    assert starts() == {"0": 1, "1": 1, "2": 1}
    # Damage that cannot come of a torn end, also where nothing synced stands behind it.
    for flipped, kept in ((len(lines[0]) + 20, whole), (len(lines[0]) + 20, before), (20, lines[0])):
        broken = bytearray(kept)
        broken[flipped] ^= 1
        path.write_bytes(broken)
        for _ in range(2):
            with pytest.raises(errors.JournalDamaged, match="is damaged at byte"):
                work()
        assert path.read_bytes() == broken
    # More than a line that was torn is kept.
    path.write_bytes(whole + b"noise\nand more\n")
    work()
    (kept_end,) = (tmp_path / "run").glob("journal.cut-*")
    assert kept_end.read_bytes() == b"noise\nand more\n"
    assert starts() == {"0": 1, "1": 1, "2": 1}


def test_a_file_that_was_put_is_looked_at_again(tally: Hosted, tmp_path: Path) -> None:
    def work(data: bytes) -> str:
        (tmp_path / "in").write_bytes(data)
        with fishplate.Run("put", tmp_path / "run") as run:
            return run.put(tmp_path / "in", tally.url).url

    first = work(b"old\n")
    for _ in range(2):
        with pytest.raises(errors.JournalMismatch, match="put in to .* with size 4, digest .*; now the file has size 4"):
            work(b"new\n")
    assert work(b"old\n") == first


def test_a_job_that_ended_well_is_not_cancelled(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    code = (
        "import fishplate, sys\n"
        "run = fishplate.Run('well', sys.argv[1])\n"
        "print(run.service(sys.argv[2])(starts=sys.argv[3], tag='x', x=1, pause=1).next)\n"
    )
    arguments = (tmp_path / "run", tally.urls["tally"], starts.path)
    process = script(code, *arguments)
    until(lambda: starts()["x"])
    until(lambda: contents(tmp_path / "run").attempts["1"][0].job)
    process.kill()
    process.communicate()
    (attempt,) = contents(tmp_path / "run").attempts["1"]
    fishplate.Service(tally.urls["tally"]).job(attempt.job or "").wait()
    with fishplate.Run("well", tmp_path / "run") as run:
        assert run.cancel() == []
    assert script(code, *arguments).communicate() == (f"{following(1)}\n", "")
    assert starts() == {"x": 1}


def test_a_hung_server_does_not_keep_the_others_jobs(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    code = (
        "import fishplate, sys\n"
        "d, f, *urls = sys.argv[1:]\n"
        "run = fishplate.Run('hung', d)\n"
        "steps = [run.service(url).spawn(starts=f, tag=str(n), x=n, pause=600) for n, url in enumerate(urls)]\n"
        "steps[0].result\n"
    )
    with Hosted(tmp_path / "hung", [SERVICES / "tally.toml"], "--allow-private") as hung:
        urls = [hung.urls["tally"], hung.urls["tally"], tally.urls["tally"]]
        process = script(code, tmp_path / "run", starts.path, *urls)
        until(lambda: starts().total() == 3)
        until(lambda: sum(tried[0].job is not None for tried in contents(tmp_path / "run").attempts.values()) == 3)
        os.kill(hung.process.pid, signal.SIGSTOP)
        try:
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=LONG)
        finally:
            os.kill(hung.process.pid, signal.SIGCONT)
        told = [contents(tmp_path / "run").attempts[place][0].cancelled for place in "123"]
        with fishplate.Run("hung", tmp_path / "run") as run:
            assert sorted(run.cancel()) == ["1", "2"]
    assert "step 1 of run hung may go on at" in err and "its server does not answer" in err
    assert told == [False, False, True]


def test_reuse_takes_no_failures_and_kills_nobody_elses(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    code = (
        "import fishplate, sys\n"
        "with fishplate.Run('reuse', sys.argv[1], reuse=True) as run:\n"
        "    print(run.service(sys.argv[2])(starts=sys.argv[3], tag='r', x=1, pause=600).next)\n"
    )

    def begin(name: str) -> subprocess.Popen[str]:
        process = script(code, tmp_path / name, tally.urls["tally"], starts.path)
        until(lambda: (tmp_path / name / "journal").exists())
        until(lambda: any(tried[0].job for tried in contents(tmp_path / name).attempts.values()))
        return process

    first, second = begin("one"), begin("two")
    (ours,), (found,) = (contents(tmp_path / name).attempts["1"] for name in ("one", "two"))
    assert (ours.found, found.found, ours.job) == (False, True, found.job)
    job = fishplate.Service(tally.urls["tally"]).job(found.job or "")
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=LONG)
    states = [job.state]
    # Who has it ends it, and whoever waits for it begins another one.
    third = begin("three")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=LONG)
    states.append(job.state)
    assert states == ["running", "killed"]
    until(lambda: len(contents(tmp_path / "three").attempts["1"]) == 2)
    until(lambda: starts()["r"] == 2)
    third.send_signal(signal.SIGTERM)
    third.communicate(timeout=LONG)


def test_calls_in_a_value_do_not_shift_places(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work() -> list[int]:
        with fishplate.Run("value", tmp_path / "run") as run:
            service = run.service(tally.urls["tally"])
            inner = run.value(lambda: service(starts=starts.path, tag="in", x=1).next)
            return [inner, service(tag="out", starts=starts.path, x=2).next]

    first = work()
    assert work() == first and starts() == {"in": 1, "out": 1}


def test_names_of_inputs_have_no_order(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    for inputs in ({"tag": "x", "x": 1}, {"x": 1, "tag": "x"}):
        with fishplate.Run("order", tmp_path / "run") as run:
            run.service(tally.urls["tally"])(starts=starts.path, **inputs)
    assert starts() == {"x": 1}


def test_measures_and_branches_are_counted_apart(tally: Hosted, tmp_path: Path) -> None:
    with fishplate.Run("apart", tmp_path / "run") as run:
        run.progress("solid", 1.0)
        with run.branch("solid"):
            assert run.service(tally.urls["sort"]).spawn(text=b"").place == "solid.1/1"
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


def test_a_lost_file_of_values_is_got_again(tally: Hosted, tmp_path: Path) -> None:
    def work() -> bytes:
        with fishplate.Run("lost", tmp_path / "run") as run:
            sort = run.service(tally.urls["sort"]).options(outputs="value")
            return bytes(sort(text=b"some words\n" * 2000).sorted.bytes())

    first = work()
    (file,) = (tmp_path / "run/values").iterdir()
    file.unlink()
    assert work() == first and file.exists()


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Service Unavailable"])
def test_a_gateway_that_has_no_server_is_asked_again(tmp_path: Path, status: str) -> None:
    asked: list[bytes] = []

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    asked.append(connection.recv(65536))
                    connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, daemon=True).start()
        with fishplate.Run("gateway", tmp_path / "run", patience=1) as run:
            with pytest.raises(errors.Unreachable, match="no server answers at"):
                run.service(f"http://127.0.0.1:{listening.getsockname()[1]}/tally")(x=1)
        listening.shutdown(socket.SHUT_RDWR)
    assert len(asked) > 1


def test_a_forked_child_does_not_hold_a_run(tmp_path: Path) -> None:
    code = (
        "import fishplate, os, sys\n"
        "run = fishplate.Run('fork', sys.argv[1])\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        run.random()\n"
        "    except fishplate.errors.RunClosed:\n"
        "        print('closed', flush=True)\n"
        "    sys.stdin.read()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    process = script(code, tmp_path / "run", stdin=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == "closed\n"
    process.kill()
    process.wait()
    fishplate.Run("fork", tmp_path / "run").close()
    process.communicate()


def test_a_run_is_closed_and_opened_in_one_program(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    run = fishplate.Run("cell", tmp_path / "run")
    with pytest.raises(errors.RunInUse, match=r"is open in this program: run.close\(\)"):
        fishplate.Run("cell", tmp_path / "run")
    service = run.service(tally.urls["tally"])
    run.close()
    for call in (lambda: service(starts=starts.path, tag="x", x=1), run.random, lambda: run.progress("x", 1.0)):
        with pytest.raises(errors.RunClosed, match="run cell is closed"):
            call()
    assert not starts()
    path = tmp_path / "run/journal"
    whole = path.read_bytes()
    path.write_bytes(b"!" + whole)
    with pytest.raises(errors.JournalDamaged):
        fishplate.Run("cell", tmp_path / "run")
    path.write_bytes(whole)
    fishplate.Run("cell", tmp_path / "run").close()


def test_a_full_disk_is_told_and_leaves_a_whole_journal(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    code = (
        "import fishplate, resource, sys\n"
        "run = fishplate.Run('full', sys.argv[1])\n"
        "size = (run.directory / 'journal').stat().st_size\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, resource.RLIM_INFINITY))\n"
        "try:\n"
        "    run.value(lambda: 1)\n"
        "except OSError as error:\n"
        "    print(error.strerror)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "print(run.value(lambda: 2))\n"
    )
    out, err = script(code, tmp_path / "run").communicate()
    assert (out, err) == ("the disk took a part of a record\n2\n", "")
    assert contents(tmp_path / "run").values["2"]["value"] == 2


def test_a_terminal_shows_how_a_run_goes_on(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    code = (
        "import fishplate, sys\n"
        "with fishplate.Run('seen', sys.argv[1]) as run:\n"
        "    tally = run.service(sys.argv[2])\n"
        "    for n in range(3):\n"
        "        tally(starts=sys.argv[3], tag=str(n), x=n, pause=0.5)\n"
        "        run.progress('residual', 10.0 ** -n)\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "run"), tally.urls["tally"], starts.path]
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


def test_a_notebook_shows_how_a_run_goes_on(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    code = (
        "import fishplate\n"
        f"run = fishplate.Run('noted', {str(tmp_path / 'run')!r})\n"
        f"run.service({tally.urls['tally']!r})(starts={starts.path!r}, tag='x', x=1)\n"
        "run.close()\n"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])  # type: ignore[no-untyped-call]
    done = nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    (output,) = done.cells[0].outputs
    assert output["data"]["text/plain"].startswith("noted: 1 step done | ")


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
        run.picture(image, "a dot")
        page = run.report().read_text()
        assert run.transferred[0] < 2 * len(text)
        assert "told: 3 steps done, 1 failed" in repr(run) and "residual 0.01 (3)" in repr(run)
    assert "src='data:image/svg+xml;base64," in page and "<script" not in page
    assert page.count("http") == page.count(tally.urls["tally"]) == 1, "nothing is fetched"
    size = fishplate._progress.human(len(text))
    assert f"<td>sort</td><td>gzip</td><td class='n'>2</td><td class='n'>{size}</td>" in page
    assert "1 fetched, 1 on the same server" in page or "1 on the same server, 1 fetched" in page
    assert "-1 is below 0" in page and "tag=&lt;b&gt;" in page


def test_ten_thousand_steps_are_resumed(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    """Made of a real step's records, so that nobody waits for ten thousand programs."""
    many = 10_000
    with fishplate.Run("many", tmp_path / "run") as run:
        run.service(tally.urls["tally"])(starts=starts.path, tag="x", x=1)
    lines = [json.loads(line.split(b" ", 1)[1]) for line in (tmp_path / "run/journal").read_bytes().splitlines()]
    step = [record for record in lines if record.get("place") == "1"]
    with (tmp_path / "run/journal").open("ab") as file:
        for number in range(2, many + 1):
            for record in step:
                file.write(_journal._line(record | {"place": str(number)}))
    with fishplate.Run("many", tmp_path / "run") as run:
        service = run.service(tally.urls["tally"])
        assert {service(starts=starts.path, tag="x", x=1).next for _ in range(many)} == {following(1)}
    assert starts() == {"x": 1}
