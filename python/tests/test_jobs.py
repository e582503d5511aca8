"""Jobs: their life, what is told of them, what they end with."""

from __future__ import annotations

import asyncio
import datetime
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress

import pytest
from conftest import Services
from server import Hosted

import fishplate
from fishplate import errors


def test_a_job_lives_and_gives_its_result(service: Services) -> None:
    job = service("countdown").spawn(steps=4, pause=0.05)
    assert len(job.id) == 32
    seen: list[fishplate.Status] = []
    last = job.wait(progress=seen.append)
    assert last is seen[-1] and last.state == "done" and last.final
    shares = [status.progress or 0.0 for status in seen]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert last.exit_code == 0 and last.signal is None
    assert last.submitted.tzinfo is datetime.timezone.utc
    assert last.started is not None and last.ended is not None
    assert last.submitted <= last.started <= last.ended
    assert job.result.summary == 4
    assert job.result is job.result
    assert job.log() == "step 1 of 4\nstep 2 of 4\nstep 3 of 4\nstep 4 of 4\n"
    assert job.log(stderr=True) == ""
    job.remove()
    with pytest.raises(errors.NoSuchJob):
        service("countdown").job(job.id)


def test_a_job_is_found_again_and_listed(service: Services) -> None:
    countdown = service("countdown")
    job = countdown.spawn(steps=1, pause=0)
    again = countdown.job(job.id)
    assert again.result.summary == 1
    shown = again.status._repr_html_()
    assert f"<th>id</th><td>{job.id}</td>" in shown and "<th>signal</th>" not in shown
    found = countdown.jobs(limit=5)
    table = found._repr_html_()
    assert table.count("<tr>") == len(found) + 1
    assert all(status.id[:8] in table for status in found)
    assert job.id in [status.id for status in found]
    assert all(status.state == "done" for status in countdown.jobs(state="done"))


def test_a_killed_job_says_so(service: Services) -> None:
    job = service("countdown").spawn(steps=1000, pause=1)
    assert not job.status.final
    job.kill()
    assert job.wait().state == "killed"
    with pytest.raises(errors.JobKilled) as fault:
        job.result
    assert fault.value.job == job.id


def test_waiting_may_end_before_the_job(service: Services) -> None:
    job = service("countdown").spawn(steps=1000, pause=1)
    with pytest.raises(fishplate.Timeout, match=f"job {job.id} is (queued|running) after 0.2 s"):
        job.wait(timeout=0.2)
    assert not job.status.final
    job.kill()


def test_the_same_key_is_the_same_job(service: Services) -> None:
    keyed = service("countdown").options(key="the same")
    assert keyed.spawn(steps=1, pause=0).id == keyed.spawn(steps=1, pause=0).id
    with pytest.raises(errors.KeyConflict):
        keyed.spawn(steps=2, pause=0)


def test_a_bar_is_shown_where_it_is_wanted(
    service: Services, capsys: pytest.CaptureFixture[str]
) -> None:
    service("countdown").spawn(steps=2, pause=0.1).wait(progress=True)
    shown = capsys.readouterr().err
    assert "countdown" in shown and "100%" in shown and "done" in shown
    service("countdown").spawn(steps=1, pause=0).wait()
    assert capsys.readouterr().err == ""


def test_ctrl_c_ends_the_waiting_and_nothing_else(hosted: Hosted, service: Services) -> None:
    script = (
        "import fishplate, sys\n"
        f"svc = fishplate.Service({hosted.urls['countdown']!r})\n"
        "print('calling', flush=True)\n"
        "try:\n"
        "    svc(steps=1000, pause=0.5)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    countdown = service("countdown")
    before = {status.id for status in countdown.jobs(limit=50)}
    assert running.stdout is not None
    assert running.stdout.readline() == "calling\n"
    until = time.monotonic() + 20
    while not (new := {s.id for s in countdown.jobs(state="running")} - before):
        assert time.monotonic() < until
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=20)
    assert (out, running.returncode) == ("interrupted\n", 0)
    (id,) = new
    assert not countdown.job(id).status.final
    countdown.job(id).kill()


def test_a_forked_child_is_told_rather_than_left_waiting(hosted: Hosted) -> None:
    script = (
        "import fishplate, os\n"
        f"svc = fishplate.Service({hosted.urls['countdown']!r})\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        svc(steps=1, pause=0)\n"
        "    except RuntimeError as error:\n"
        "        os._exit(7 if 'do not survive a fork' in str(error) else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(svc(steps=1, pause=0).summary)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout == "7\n1\n"


def test_a_plain_call_tells_how_its_program_goes_on(service: Services) -> None:
    seen: list[fishplate.Status] = []
    told = service("countdown").options(progress=seen.append)
    # Longer than a call lasts before it is asked for.
    assert told(steps=12, pause=0.5).summary == 12
    assert seen and {status.operation for status in seen} == {"call"}
    shares = [status.progress or 0.0 for status in seen]
    assert shares == sorted(shares) and shares[-1] > 0.0

    async def awaited() -> None:
        seen.clear()
        countdown = await fishplate.AsyncService.connect(service.urls["countdown"])
        told = countdown.options(progress=seen.append)
        assert (await told(steps=12, pause=0.5)).summary == 12

    asyncio.run(awaited())
    assert seen


CALL = "import fishplate, sys; fishplate.Service(sys.argv[1])(steps=12, pause=0.5)"


def test_a_terminal_shows_it_and_a_pipe_does_not(service: Services) -> None:
    command = [sys.executable, "-c", CALL, service.urls["countdown"]]
    piped = subprocess.run(command, capture_output=True, check=True)
    assert piped.stderr == piped.stdout == b""
    ours, theirs = pty.openpty()
    # One without lines has no room for a bar.
    termios.tcsetwinsize(theirs, (24, 80))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        # Reading a terminal that nobody has open any more is an error.
        with suppress(OSError):
            while chunk := os.read(ours, 4096):
                shown += chunk
        assert process.stdout is not None and process.stdout.read() == b""
    os.close(ours)
    assert process.returncode == 0
    assert b"countdown" in shown and b"%|" in shown, shown


def test_a_job_is_a_table_in_a_notebook(service: Services) -> None:
    job = service("countdown").spawn(steps=1, pause=0)
    table = job._repr_html_()
    assert table.startswith("<table>") and job.id[:8] in table
    job.wait()
    assert "<td>done</td>" in job._repr_html_()
    job.remove()
    assert "<td>done</td>" in job._repr_html_(), "what is known stays known"
