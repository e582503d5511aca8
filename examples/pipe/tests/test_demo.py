"""The demo as a whole, and how it calls Fishplate."""

import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import PIPE
from pipedemo.chain import Step
from pipedemo.process import Failed
from pipedemo.runner import Services
from pipedemo.server import holders

CALL = """#!{python}
import shutil, sys
assert sys.argv[1] == "call" and sys.argv[2] == "http://127.0.0.1:9/tetgen", sys.argv
words = sys.argv[3:]
if "volume=350" not in words:
    sys.exit("ValueOutOfRange: volume")
(source,) = [word.removeprefix("surface:") for word in words if word.startswith("surface:")]
(target,) = [word.removeprefix("out:nodes=") for word in words if word.startswith("out:nodes=")]
shutil.copy(source, target)
"""


@pytest.fixture
def services(tmp_path):
    path = tmp_path / "fishplate"
    path.write_text(CALL.format(python=sys.executable))
    path.chmod(0o755)
    return Services(path, {"tetgen": "http://127.0.0.1:9/tetgen"})


def test_a_step_becomes_a_call(services, tmp_path):
    surface = tmp_path / "surface"
    surface.write_text("triangles")
    step = Step("tetgen", "m", {"volume": "350"}, {"surface": surface}, {"nodes": "pipe.node"})
    done = services.run(step, tmp_path / "run")
    assert done.files["nodes"].read_text() == "triangles"
    assert done.seconds > 0


def test_a_call_that_fails_tells_why(services, tmp_path):
    step = Step("tetgen", "m", {"volume": "-1"}, {}, {"nodes": "pipe.node"})
    with pytest.raises(Failed, match="ValueOutOfRange"):
        services.run(step, tmp_path / "run")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(tmp_path, number):
    words = [sys.executable, PIPE / "demo.py", "--direct", "--output", tmp_path / "out"]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    demo = subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(temporary)}
    )
    for line in demo.stderr:
        if "T4 to T10" in line:
            break
    # Until the solver runs: that is the longest step.
    deadline = time.monotonic() + 60
    while not list(temporary.glob("*/runs/ccx-*/stdout")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(holders(temporary)) >= 1
    demo.send_signal(number)
    demo.stderr.read()
    assert demo.wait(30) == 128 + number
    assert list(temporary.iterdir()) == []
    assert holders(temporary) == []
    assert not (tmp_path / "out").exists()


def test_a_missing_binary_is_told(tmp_path):
    words = [sys.executable, PIPE / "demo.py", "--fishplate", tmp_path / "none"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no fishplate binary" in done.stderr
