"""Runs of workflows and their servers: another one answers, jobs are ended, found, reused; real programs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from runs import LONG, Starts, contents, following, script, until
from server import EXAMPLES, SERVICES, Hosted

import fishplate
from fishplate import _report, _reuse, errors
from fishplate._flow import blocking


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


def test_a_report_does_not_wait_for_a_hung_server(
    starts: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_report, "ANSWER", 0.2, raising=False)
    with Hosted(tmp_path / "hung", [SERVICES / "tally.toml"], "--allow-private") as hung:
        with fishplate.Run("told", tmp_path / "run") as run:
            run.service(hung.urls["tally"])(starts=starts.path, tag="x", x=1)
            os.kill(hung.process.pid, signal.SIGSTOP)
            told = threading.Thread(target=run.report, daemon=True)
            try:
                told.start()
                told.join(LONG)
                assert not told.is_alive() and (tmp_path / "run/report.html").exists()
            finally:
                os.kill(hung.process.pid, signal.SIGCONT)


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
        count = len(asked)
        with pytest.raises(errors.NotUnderstood) as caught:
            fishplate.Service(f"http://127.0.0.1:{listening.getsockname()[1]}/tally")
        listening.shutdown(socket.SHUT_RDWR)
    assert count > 1 and caught.value.status == int(status[:3])


def test_a_gateway_that_loses_its_server_is_waited_for(tally: Hosted, tmp_path: Path) -> None:
    class Late:
        """A task as it is begun anew: twice the gateway says that its server is away."""

        begun = 0

        def wait(self) -> int:
            self.begun += 1
            if self.begun > refused:
                return self.begun
            error = errors.NotUnderstood("answered")
            error.status = status
            raise error

    with fishplate.Run("waits", tmp_path / "run", patience=0.3) as run:
        step: Any = run.service(tally.urls["tally"]).spawn(starts=str(tmp_path / "starts"), tag="x", x=1)
        step.result  # noqa: B018
        refused, status, late = 1, 504, Late()
        assert blocking(step._patient(lambda: late)) == 2
        refused, late = 10, Late()
        with pytest.raises(errors.Unreachable):
            blocking(step._patient(lambda: late))
        status, late = 404, Late()
        with pytest.raises(errors.NotUnderstood):
            blocking(step._patient(lambda: late))
        assert late.begun == 1


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
        # The server's two are for all its services, also for those that were told more.
        more, sort = run.service(tally.urls["tally"], at_once=3), run.service(tally.urls["sort"])
        steps = [more.spawn(starts=starts.path, tag="wide", x=n, pause=0.2) for n in range(4)]
        steps += [alone.spawn(starts=starts.path, tag="alone", x=1, pause=0.2), sort.spawn(text=b"b\na\n")]
        for step in steps:
            step.result
        run.report()
        attempts = [run._journal.contents.attempts[step.place][0] for step in steps]
        spans = [(attempt.used["started"], attempt.used["ended"]) for attempt in attempts if attempt.used]
        assert len(spans) == len(steps)
        assert max(sum(begin <= at < end for begin, end in spans) for at, _ in spans) == 2
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


def test_a_reused_call_waits_for_the_digest_of_data_whose_server_is_away(tmp_path: Path) -> None:
    with (
        Hosted(tmp_path / "origin", [EXAMPLES / "files/sort.toml"], "--allow-private") as origin,
        Hosted(tmp_path / "server", [EXAMPLES / "files/gzip.toml"], "--allow-private") as hosted,
    ):
        sort, listen = origin.urls["sort"], urlsplit(origin.url).netloc

        def work(name: str, is_away: bool) -> str:
            with fishplate.Run(name, tmp_path / name, reuse=True) as run:
                words = run.service(sort)(text=b"b\na\n").sorted
                back = threading.Timer(1.0, origin.start, [listen])
                if is_away:
                    origin.process.kill()
                    origin.process.wait()
                    back.start()
                url: str = run.service(hosted.urls["gzip"])(plain=words, level=1).packed.url
            if is_away:
                back.join()
            return url

        assert work("one", True) == work("two", False)
        assert len(fishplate.Service(hosted.urls["gzip"]).jobs()) == 1


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
    _, err = second.communicate(timeout=LONG)
    assert f"its job {found.job} is another run's" in err
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


def test_of_two_runs_that_begin_a_reused_call_at_once_one_has_it(
    tally: Hosted, starts: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, key = threading.Barrier(2), _reuse.key

    def together(*parts: Any) -> str:
        # Neither has asked the server for the job yet.
        both.wait(LONG)
        return key(*parts)

    monkeypatch.setattr(_reuse, "key", together)
    with (
        fishplate.Run("one", tmp_path / "one", reuse=True) as one,
        fishplate.Run("two", tmp_path / "two", reuse=True) as two,
    ):
        steps = [run.service(tally.urls["tally"]).spawn(starts=starts.path, tag="x", x=1, pause=600) for run in (one, two)]
        until(lambda: all(run._journal.contents.attempts.get("1") for run in (one, two)))
        tried = [run._journal.contents.attempts["1"][0] for run in (one, two)]
        until(lambda: all(attempt.job for attempt in tried) and starts()["x"] == 1)
        assert steps[0].job == steps[1].job
        assert sorted(attempt.found for attempt in tried) == [False, True]
        theirs, ours = (two, one) if tried[1].found else (one, two)
        assert theirs.cancel() == []
        assert ours.cancel() == ["1"]


def test_a_reused_job_that_a_killed_workflow_began_is_its_own(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    code = (
        "import fishplate, sys\n"
        "with fishplate.Run('lost', sys.argv[1], reuse=True) as run:\n"
        "    run.service(sys.argv[2])(starts=sys.argv[3], tag='k', x=1, pause=600)\n"
    )
    process = script(code, tmp_path / "run", tally.urls["tally"], starts.path)
    until(lambda: starts()["k"])
    until(lambda: contents(tmp_path / "run").attempts["1"][0].job)
    process.kill()
    process.communicate()
    # As if before the answer.
    journal = tmp_path / "run/journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if b'"kind":"accepted"' not in line))
    with fishplate.Run("lost", tmp_path / "run", reuse=True) as run:
        step = run.service(tally.urls["tally"]).spawn(starts=starts.path, tag="k", x=1, pause=600)
        until(lambda: step.job)
        assert run.cancel() == ["1"]
    assert fishplate.Service(tally.urls["tally"]).job(step.job or "").wait(timeout=LONG).state == "killed"
    assert starts() == {"k": 1}


def test_a_reused_job_whose_answer_was_lost_is_the_runs_own(tally: Hosted, starts: Starts, tmp_path: Path) -> None:
    server = urlsplit(tally.url)
    lost = threading.Event()

    def pass_on(come: socket.socket, go: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := come.recv(1 << 16):
                if is_answer and not lost.is_set():
                    lost.set()
                    break
                go.sendall(data)
        for one in (come, go):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def relay() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                there = socket.create_connection((server.hostname, server.port))
                for pair in ((client, there, False), (there, client, True)):
                    threading.Thread(target=pass_on, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=relay, daemon=True).start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/tally"
        with fishplate.Run("resent", tmp_path / "run", reuse=True) as run:
            service = run.service(tally.urls["tally"], address=address)
            step = service.spawn(starts=starts.path, tag="s", x=1, pause=600)
            until(lambda: step.job and starts()["s"])
            assert lost.is_set()
            assert run.cancel() == ["1"]
            with pytest.raises(errors.RunCancelled):
                step.result  # noqa: B018
        listening.shutdown(socket.SHUT_RDWR)
    assert starts() == {"s": 1}


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
