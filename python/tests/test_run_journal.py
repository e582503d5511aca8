"""Runs of workflows and their journals: torn, damaged, held, full, long, and read without a server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from runs import Starts, contents, following, script
from server import EXAMPLES, SERVICES, Hosted

import fishplate
from fishplate import _journal, errors


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


def test_calls_that_ended_are_replayed_without_their_servers(starts: Starts, tmp_path: Path) -> None:
    def work(urls: dict[str, str], is_more: bool = False) -> list[object]:
        with fishplate.Run("away", tmp_path / "run", patience=0.3) as run:
            tally = run.service(urls["tally"])
            words = run.service(urls["sort"])(text=b"b\na\n").sorted
            found = [words.url, tally(starts=starts.path, tag="a", x=1).next]
            with pytest.raises(errors.ProgramFailed):
                tally(starts=starts.path, tag="b", x=-1)
            run.now()
            if is_more:
                found.append(tally(starts=starts.path, tag="c", x=1).next)
            run.report()
            return found

    services = [SERVICES / "tally.toml", EXAMPLES / "files/sort.toml"]
    with Hosted(tmp_path / "server", services, "--allow-private") as hosted:
        urls, listen = dict(hosted.urls), urlsplit(hosted.url).netloc
        first = work(urls)
        hosted.process.kill()
        hosted.process.wait()
        assert work(urls) == first
        with pytest.raises(errors.Unreachable, match="no server answers at"):
            work(urls, is_more=True)
        hosted.start(listen)
        assert work(urls, is_more=True) == [*first, following(1)]
    assert work(urls, is_more=True) == [*first, following(1)]
    assert starts() == {"a": 1, "b": 1, "c": 1}


def test_a_service_that_moved_is_asked_once_what_it_is(starts: Starts, tmp_path: Path) -> None:
    def work(url: str) -> int:
        with fishplate.Run("moved", tmp_path / "run", patience=0.3) as run:
            return int(run.service(url)(starts=starts.path, tag="a", x=1).next)

    services = [SERVICES / "tally.toml"]
    with Hosted(tmp_path / "first", services, "--allow-private") as before:
        assert work(before.urls["tally"]) == following(1)
    with Hosted(tmp_path / "second", services, "--allow-private") as now:
        moved = now.urls["tally"]
        now.process.kill()
        now.process.wait()
        # Nothing says that it is the same service.
        with pytest.raises(errors.Unreachable, match="no server answers at"):
            work(moved)
        now.start(urlsplit(moved).netloc)
        assert work(moved) == following(1)
    assert work(moved) == following(1)
    assert starts() == {"a": 1}


def test_another_service_does_not_give_what_the_first_one_gave(tmp_path: Path) -> None:
    for name, sign in (("add", "+"), ("mul", "*")):
        script = f'#!/bin/sh\necho $(($1 {sign} $2))\n'
        (tmp_path / f"{name}.sh").write_text(script)
        (tmp_path / f"{name}.sh").chmod(0o755)
        (tmp_path / f"{name}.toml").write_text(
            f'command = "./{name}.sh [in val x:int] [in val y:int] > [out file result:int]"\n'
        )

    def work(url: str) -> int:
        with fishplate.Run("two", tmp_path / "run") as run:
            return int(run.service(url)(x=3, y=4).result)

    with Hosted(tmp_path / "server", [tmp_path / "add.toml", tmp_path / "mul.toml"], "--allow-private") as hosted:
        assert work(hosted.urls["add"]) == 7
        for _ in range(2):
            with pytest.raises(errors.JournalMismatch, match=r"was add\(x=3, y=4\) at .*; now it is mul\(x=3, y=4\)"):
                work(hosted.urls["mul"])
        assert work(hosted.urls["add"]) == 7


def test_a_changed_interface_is_noticed_before_a_call_is_sent(tmp_path: Path) -> None:
    file, called = tmp_path / "echo.toml", tmp_path / "called"
    (tmp_path / "echo.sh").write_text(f"#!/bin/sh\necho >> {called}\necho $1\n")
    (tmp_path / "echo.sh").chmod(0o755)

    def describe(slots: str, tables: str = "") -> None:
        file.write_text(f'command = "./echo.sh {slots} > [out file y:int]"\n{tables}')

    def work(count: int) -> list[int]:
        with fishplate.Run("changed", tmp_path / "run") as run:
            echo = run.service(url)
            return [echo(x=x).y for x in range(count)]

    describe("[in val x:int]")
    with Hosted(tmp_path / "server", [file]) as hosted:
        url, listen = hosted.urls["echo"], urlsplit(hosted.url).netloc

        def exchange(slots: str, tables: str = "") -> None:
            hosted.process.kill()
            hosted.process.wait()
            describe(slots, tables)
            hosted.start(listen)

        assert work(1) == [0]
        exchange("[in val x:string]")
        assert work(1) == [0], "nothing is asked"
        for _ in range(2):
            told = "something else than before in this run: call: input x: type: int / string. "
            with pytest.raises(errors.JournalMismatch, match=told):
                work(2)
        assert called.read_text() == "\n"
        # Whoever called it so can call it still.
        exchange("[in val x:int] [in val width:int]", "[input.width]\ndefault = 0\n")
        assert work(2) == [0, 1]


def test_a_changed_default_is_noticed_if_a_call_left_it_out(tmp_path: Path) -> None:
    file = tmp_path / "echo.toml"

    def describe(default: int) -> None:
        file.write_text(f'command = "/bin/echo [in val x:int] [in val y:int] > [out file z:string]"\n[input.y]\ndefault = {default}\n')

    def work(name: str, *calls: dict[str, int]) -> list[str]:
        with fishplate.Run(name, tmp_path / name) as run:
            return [str(run.service(url)(**call).z).strip() for call in calls]

    describe(1)
    with Hosted(tmp_path / "server", [file]) as hosted:
        url, listen = hosted.urls["echo"], urlsplit(hosted.url).netloc
        assert work("without", {"x": 0}) == ["0 1"]
        assert work("told", {"x": 0, "y": 1}) == ["0 1"]
        hosted.process.kill()
        hosted.process.wait()
        describe(2)
        hosted.start(listen)
        assert work("without", {"x": 0}) == ["0 1"], "nothing is asked"
        for _ in range(2):
            with pytest.raises(errors.JournalMismatch, match="before in this run: call: input y: default: 1 / 2. "):
                work("without", {"x": 0}, {"x": 1})
        assert work("told", {"x": 0, "y": 1}, {"x": 1}) == ["0 1", "1 2"]


def test_what_the_run_never_called_may_change(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"

    def describe(kind: str, text: str = "") -> None:
        operations = (("used", "int"), ("unused", kind))
        tables = (
            f"[operation.{name}]\ncommand = \"/bin/echo [in val x:{of}] > [out file y:string]\"\n"
            for name, of in operations
        )
        file.write_text(f'documentation = "Zwei Größen{text}"\n' + "".join(tables))

    def work(count: int, **more: int) -> list[str]:
        with fishplate.Run("part", tmp_path / "run") as run:
            return [str(run.service(url).used(x=x, **more).y).strip() for x in range(count)]

    describe("int")
    with Hosted(tmp_path / "server", [file]) as hosted:
        url, listen = hosted.urls["two"], urlsplit(hosted.url).netloc
        assert work(1) == ["0"]
        hosted.process.kill()
        hosted.process.wait()
        describe("string")
        hosted.start(listen)
        assert work(2) == ["0", "1"]
        # What the description of then does not know was not called then.
        with pytest.raises(errors.JournalMismatch, match=r"was two.used\(x=0\) at .*; now it is two.used\(x=..., z=...\)"):
            work(1, z=1)
        # A description that is not as it was is not there.
        kept = tmp_path / "run/values" / contents(tmp_path / "run").descriptions[url]["file"]
        kept.write_bytes(kept.read_bytes() + b" ")
        assert work(2) == ["0", "1"]
        # The locale of who resumes it says nothing about files.
        code = "import fishplate, sys\nwith fishplate.Run('part', sys.argv[1]) as run:\n    print([run.service(sys.argv[2]).used(x=x).y.strip() for x in (0, 1)])\n"
        plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        assert script(code, tmp_path / "run", url, env=plain).communicate() == ("['0', '1']\n", "")


def test_a_journal_of_before_goes_on_in_the_format_of_now(tmp_path: Path) -> None:
    def first() -> int:
        return 8

    journal = tmp_path / "run/journal"
    journal.parent.mkdir()
    lines: list[dict[str, object]] = [
        {"kind": "run", "at": 1.0, "name": "old", "id": "0" * 32, "format": 1},
        {"kind": "process", "at": 1.0, "pid": 1},
        {"kind": "value", "at": 1.0, "place": "1", "name": f"value of {first.__qualname__}", "value": 7, "seen": None},
    ]
    journal.write_bytes(b"".join(map(_journal._line, lines)))

    with fishplate.Run("old", tmp_path / "run") as run:
        assert run.value(first) == 7
    formats = [json.loads(line.split(b" ", 1)[1]).get("format") for line in journal.read_bytes().splitlines()]
    assert formats == [1, None, None, _journal.FORMAT, None]
    whole = journal.read_bytes()
    for record, told in (
        ({"kind": "process", "at": 2.0, "pid": 1, "format": 3}, "is of format 3; this version reads up to 2"),
        ({"kind": "later", "at": 2.0, "place": "2"}, "a record of the kind later, which this version does not know"),
    ):
        journal.write_bytes(whole + _journal._line(record))
        with pytest.raises(errors.JournalDamaged, match=told):
            fishplate.Run("old", tmp_path / "run")
    journal.write_bytes(_journal._line(lines[0] | {"format": 3}))
    with pytest.raises(errors.JournalDamaged, match="is of format 3"):
        fishplate.Run("old", tmp_path / "run")


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


def test_a_lost_file_of_values_is_got_again(tally: Hosted, tmp_path: Path) -> None:
    def work() -> bytes:
        with fishplate.Run("lost", tmp_path / "run") as run:
            sort = run.service(tally.urls["sort"]).options(outputs="value")
            return bytes(sort(text=b"some words\n" * 2000).sorted.bytes())

    first = work()
    # What it gave, and the description.
    files = list((tmp_path / "run/values").iterdir())
    for file in files:
        file.unlink()
    assert len(files) == 2 and work() == first and all(file.exists() for file in files)


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
