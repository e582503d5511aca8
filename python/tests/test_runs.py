"""Runs of workflows: killed, resumed, changed, failed, side by side; real servers, real programs."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest
from runs import LONG, STUDY, Starts, contents, following, script, until
from server import Hosted

import fishplate
from fishplate import errors


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


def test_what_a_changed_workflow_leaves_out_is_named(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    def work(count: int, tail: bool = True, failure: type[BaseException] | None = None, measure: float = 0.5) -> None:
        with fishplate.Run("shorter", tmp_path / "run") as run:
            service = run.service(tally.urls["tally"])
            run.value(lambda: service(starts=starts.path, tag="in", x=0).next)
            run.map(lambda n: service(starts=starts.path, tag=f"m{n}", x=n), range(count))
            for n in range(count):
                service(starts=starts.path, tag=str(n), x=n)
                run.progress("change", measure**n)
            if failure is not None:
                raise failure
            if tail:
                run.now()

    work(3)
    told = r"has ended without step 2\[2\]/1, which was tally\(.*tag=m2, x=2\) at test_runs.py:\d+, and without 2 steps more\. The"
    with pytest.raises(errors.JournalMismatch, match=told):
        work(2, tail=False)
    with pytest.raises(errors.JournalMismatch, match=r"has ended without step 6, which was value of time\. The workflow was"):
        work(3, tail=False)
    # Who looks only, has not come so far, or was stopped, has left out nothing.
    fishplate.Run("shorter", tmp_path / "run").close()
    for kind in (ZeroDivisionError, KeyboardInterrupt):
        with pytest.raises(kind):
            work(3, failure=kind)
    run = fishplate.Run("shorter", tmp_path / "run")
    with pytest.raises(errors.JournalMismatch, match=r"step 1 .*; now it is value of Random\.random"):
        try:
            run.random()
        finally:
            run.close()
    with pytest.raises(errors.JournalMismatch, match=r"measure change\.2 of run shorter was 0\.5; now it is 0\.25"):
        work(3, measure=0.25)
    work(3, measure=0.5 * (1 + 1e-12))
    work(3)
    assert set(starts().values()) == {1}


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
