"""The server's life in the demo, against a stand-in for the binary that behaves as badly as a
server with supervisors may: it leaves a process of another session behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pipedemo import process
from pipedemo.process import Failed
from pipedemo.server import Server, fishplate_binary, holders

STAND_IN = """#!{python}
import os, sys, time
data = sys.argv[sys.argv.index("--data") + 1]
os.makedirs(data)
if "{mood}" == "refuse":
    sys.exit("no such option")
if os.fork() == 0:
    os.setsid()
    held = os.open(os.path.join(data, "lock"), os.O_CREAT | os.O_WRONLY)
    os.set_inheritable(held, True)
    os.write(held, str(os.getpid()).encode())
    os.closerange(0, 3)
    os.chdir("/")
    if "{mood}" == "quiet":
        os.execv("/bin/sleep", ["sleep", "600"])
    time.sleep(600)
    os._exit(0)
lock = os.path.join(data, "lock")
while not os.path.exists(lock) or not os.path.getsize(lock):
    time.sleep(0.01)
for word in sys.argv[2 : sys.argv.index("--listen")]:
    name = os.path.basename(word)[:-5]
    print(name, "http://127.0.0.1:9/" + name, flush=True)
time.sleep(600)
"""


def stand_in(folder, mood):
    path = folder / "fishplate"
    path.write_text(STAND_IN.format(python=sys.executable, mood=mood))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("mood", ["plain", "quiet"])
def test_the_addresses_are_read_and_nothing_is_left(tmp_path, mood):
    files = [tmp_path / "ccx.toml", tmp_path / "gmsh.toml"]
    with Server(stand_in(tmp_path, mood), files, tmp_path, dict(os.environ)) as server:
        assert server.urls == {"ccx": "http://127.0.0.1:9/ccx", "gmsh": "http://127.0.0.1:9/gmsh"}
        left = int((server.data / "lock").read_text())
        assert sorted(holders(server.data)) == sorted([server.process.pid, left])
    assert server.process.returncode is not None
    assert holders(server.data) == []


def test_a_server_that_does_not_start_is_told(tmp_path):
    server = Server(
        stand_in(tmp_path, "refuse"), [tmp_path / "ccx.toml"], tmp_path, dict(os.environ)
    )
    with pytest.raises(Failed, match="no such option"), server:
        pass
    assert holders(server.data) == []


def test_a_program_is_ended_with_all_it_started_when_we_are_interrupted(tmp_path, monkeypatch):
    real = subprocess.Popen.wait

    def interrupted(self, timeout=None):
        if timeout is None:
            while not (tmp_path / "ready").exists():
                time.sleep(0.01)
            raise KeyboardInterrupt
        return real(self, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    words = ["sh", "-c", "sleep 600 & touch ready; wait"]
    with pytest.raises(KeyboardInterrupt):
        process.run(words, tmp_path, tmp_path / "out", tmp_path / "err")
    deadline = time.monotonic() + 10
    while holders(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert holders(tmp_path) == []


def test_a_program_is_ended_when_we_are_interrupted_while_it_starts(tmp_path, monkeypatch):
    real = subprocess.Popen.__init__

    def interrupted(self, *words, **options):
        real(self, *words, **options)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess.Popen, "__init__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.run(["sleep", "600"], tmp_path, tmp_path / "out", tmp_path / "err")
    assert holders(tmp_path) == []


def test_the_binary_is_the_one_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, of_variable, missing = tmp_path / "chosen", tmp_path / "variable", tmp_path / "missing"
    for program in (chosen, of_variable):
        program.touch(0o755)
    monkeypatch.setenv("FISHPLATE", str(of_variable))
    assert fishplate_binary(None) == of_variable
    assert fishplate_binary(chosen) == chosen
    monkeypatch.setenv("FISHPLATE", str(missing))
    with pytest.raises(Failed, match=str(missing)):
        fishplate_binary(None)
