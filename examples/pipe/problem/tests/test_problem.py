"""The workflow through its sites, TLS and logins: the solid half, under a constant pressure, coarse."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import fishplate
import numpy as np
import pytest
from pipeproblem import crack, mechanics
from pipeproblem.case import Case, Size
from pipeproblem.sites import Sites

ROOT = Path(__file__).resolve().parents[4]
CASE = Case(size=Size(9.0, 1.5, 200.0))
PRESSURE = 20.0


BINARY = Path(os.environ.get("FISHPLATE", ROOT / "target" / "debug" / "fishplate"))
PATIENCE = 300.0
"""Seconds after which a test gives up."""


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    names = ("geometry", "meshing", "solid", "fracture")
    with Sites(BINARY, folder, dict(os.environ), print, names) as started:
        yield started


def grow(sites, folder, mesher, steps):
    def loads(*_):
        return crack.Load(mechanics.uniform_pressure(PRESSURE).encode())

    with fishplate.Run("crack", folder, progress=False) as run:
        used = crack.services(run, sites.urls, f"volume-mesher-{mesher}", **sites.settings)
        done = crack.grow(run, used, CASE, steps, loads)
        image = crack.picture(used, CASE, done).picture.bytes()
        return done, image, sum(run.transferred)


def jobs(sites, name):
    return len(list(fishplate.Service(sites.urls[name], **sites.settings).jobs()))


@pytest.fixture(scope="module")
def grown(sites, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "crack.run"
    return folder, *grow(sites, folder, "tetgen", 2)


def test_the_crack_grows(grown):
    _, (first, second), image, moved = grown
    assert second.depth > first.depth > CASE.crack_depth
    assert first.depth == pytest.approx(CASE.crack_depth + CASE.growth, abs=0.3)
    assert second.intensities[:, 3].max() > first.intensities[:, 3].max() > 0
    assert np.abs(first.intensities[:, 4]).max() < 0.1 * first.intensities[:, 3].max()
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    assert moved < len(image) + 1e6


def test_started_again_it_goes_on_and_runs_nothing_twice(sites, grown):
    folder, before, *_ = grown
    once = jobs(sites, "mechanical")
    again, *_ = grow(sites, folder, "tetgen", 2)
    assert jobs(sites, "mechanical") == once
    for one, other in zip(before, again, strict=True):
        assert (one.intensities == other.intensities).all()


def test_the_volume_mesher_is_exchanged_by_its_name(sites, grown, tmp_path):
    """Another mesh of the same solid: the same intensities, about."""
    _, (first, _), *_ = grown
    (other,), *_ = grow(sites, tmp_path / "gmsh.run", "gmsh", 1)
    assert len(other.intensities) == len(first.intensities)
    assert other.intensities[:, 3] == pytest.approx(first.intensities[:, 3], rel=0.08)


def test_the_meshing_loop_goes_on_until_the_mesh_is_accepted(sites, tmp_path):
    """So near to the outside that the first mesh has one layer of elements there."""
    deep = Case(crack_depth=12.0, crack_half_length=12.0)
    with fishplate.Run("loop", tmp_path / "loop.run", progress=False) as run:
        used = crack.services(run, sites.urls, "volume-mesher-tetgen", **sites.settings)
        meshed = used.meshing_loop(**used.meshers, front=deep.first_front(), size=9, crack_size=3, tet_volume=500)
        assert meshed.passes > 1
        checked = run.service(sites.urls["mesh-check"], **sites.settings)(surface=meshed.surface, volume=meshed.volume)
        assert checked.rejected == 0 and checked.refine.shape == (0, 4)


class Begun:
    """What is begun at the sites from now on."""

    def __init__(self, sites):
        self.sites, self.before = sites, set()
        self.before = {job.id for name in sites.urls for job in self.jobs(name)}

    def jobs(self, name):
        listed = fishplate.Service(self.sites.urls[name], **self.sites.settings).jobs()
        return [job for job in listed if job.id not in self.before]

    def states(self, name):
        return sorted(job.state for job in self.jobs(name))

    def has_asked(self, loop):
        """Whether this job of the Meshing Loop has its first mesher's, as its journal says; that lies in its directory."""
        journal = self.sites.folder / "meshing/data/jobs" / loop.id / "work/meshing-loop.run/journal"
        return journal.exists() and '"kind":"accepted"' in journal.read_text()

    def process(self, program):
        """A process of the sites' with this program; `None` if there is none."""
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                within = os.readlink(entry / "cwd").startswith(f"{self.sites.folder}/")
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if within and program in [Path(os.fsdecode(word)).name for word in words]:
                    return int(entry.name)
        return None


def until(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("reuse", [True, False])
def test_what_ended_for_a_lost_meshing_loop_does_not_run_again(sites, tmp_path, reuse):
    """Killed while its mesher runs, and again after that; without `reuse` it begins anew."""
    begun, deep = Begun(sites), Case(crack_depth=12.0, crack_half_length=12.0)
    with fishplate.Run("loop", tmp_path / "loop.run", retries=2, progress=False) as run:
        used = crack.services(run, sites.urls, "volume-mesher-tetgen", **sites.settings)
        step = used.meshing_loop.spawn(
            **used.meshers, front=deep.first_front(), size=9.1, crack_size=3, tet_volume=500, reuse=reuse
        )
        mesher = until(lambda: begun.process("gmsh"))
        # Held until the next attempt has asked for it.
        os.kill(mesher, signal.SIGSTOP)
        (lost,) = begun.jobs("meshing-loop")
        os.kill(until(lambda: begun.process("meshing_loop.py")), signal.SIGKILL)
        until(lambda: any(begun.has_asked(loop) for loop in begun.jobs("meshing-loop") if loop.id != lost.id))
        os.kill(mesher, signal.SIGCONT)
        until(lambda: "done" in begun.states("volume-mesher-tetgen"))
        os.kill(until(lambda: begun.process("meshing_loop.py")), signal.SIGKILL)
        meshed = step.result
    assert begun.states("meshing-loop") == ["done", "failed", "failed"]
    assert meshed.passes > 1
    for name in ("surface-mesher", "volume-mesher-tetgen", "mesh-check"):
        assert set(begun.states(name)) == {"done"}
        assert len(begun.jobs(name)) == meshed.passes or not reuse
    assert (len(begun.jobs("surface-mesher")) >= meshed.passes + 2) != reuse


def test_what_failed_for_a_lost_meshing_loop_runs_again(sites, tmp_path):
    begun = Begun(sites)
    with fishplate.Run("loop", tmp_path / "loop.run", retries=1, progress=False) as run:
        used = crack.services(run, sites.urls, "volume-mesher-tetgen", **sites.settings)
        step = used.meshing_loop.spawn(
            **used.meshers, front=CASE.first_front(), size=9.2, crack_size=1.5, tet_volume=200
        )
        os.kill(until(lambda: begun.process("gmsh")), signal.SIGKILL)
        meshed = step.result
    assert begun.states("meshing-loop") == ["done", "failed"]
    assert begun.states("surface-mesher") == ["done"] * meshed.passes + ["failed"]
    assert begun.states("volume-mesher-tetgen") == ["done"] * meshed.passes


def test_killed_by_force_it_goes_on_and_solves_nothing_twice(tmp_path):
    words = [sys.executable, "-m", "pipeproblem", "--fishplate", str(BINARY), "--output", str(tmp_path)]
    words += ["--steps", "1", "--pressure", "20"]
    solved = tmp_path / "pipe.sites" / "solid" / "data" / "jobs"

    def jobs() -> int:
        return len(list(solved.iterdir())) if solved.is_dir() else 0

    with subprocess.Popen(words, cwd=ROOT / "examples" / "pipe" / "problem") as workflow:
        until = time.monotonic() + PATIENCE
        while jobs() == 0 and workflow.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        workflow.kill()
    assert jobs() == 1 and not (tmp_path / "crack.png").exists()
    done = subprocess.run(
        words, cwd=ROOT / "examples" / "pipe" / "problem", capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert "the wall holds after 1 steps" in done.stdout
    assert jobs() == 1 and (tmp_path / "crack.png").exists()
    assert "was started 2 times" in (tmp_path / "pipe-report.html").read_text()


def test_the_whole_workflow_is_a_service(sites):
    """Its step is told as progress, and its end is that of the jobs that it began at other sites."""
    service = fishplate.Service(sites.urls["crack"], **sites.settings)
    grown = service(steps=1, pressure=PRESSURE)
    assert grown.steps.shape == (1, 6) and grown.front.shape[1] == 2
    depth, length, ligament, _, _, largest = grown.steps[0]
    assert depth == pytest.approx(CASE.crack_depth + CASE.growth, abs=0.3) and length > 2 * CASE.crack_half_length
    assert ligament > CASE.least_ligament and largest > 0
    assert grown.picture.bytes()[:8] == b"\x89PNG\r\n\x1a\n"

    def jobs(name):
        return fishplate.Service(sites.urls[name], **sites.settings).jobs()

    before = {status.id for name in ("meshing-loop", "surface-mesher") for status in jobs(name)}
    job = service.spawn(steps=3, pressure=PRESSURE, size="large")
    until = time.monotonic() + PATIENCE
    while all(status.id in before for status in jobs("surface-mesher")) and time.monotonic() < until:
        assert not job.status.final
        time.sleep(0.02)
    assert job.status.progress == pytest.approx(1 / 3, abs=0.01)
    job.kill()
    (loop,) = (status for status in jobs("meshing-loop") if status.id not in before)
    assert (job.state, loop.state) == ("killed", "killed")
    assert all(status.final for status in jobs("surface-mesher"))


def test_what_ended_for_a_lost_crack_does_not_run_again(sites, tmp_path):
    begun = Begun(sites)
    with fishplate.Run("lost", tmp_path / "lost.run", retries=1, progress=False) as run:
        step = run.service(sites.urls["crack"], **sites.settings).spawn(steps=1, pressure=21, volume_mesher="gmsh")
        until(lambda: begun.jobs("mechanical"))
        os.kill(until(lambda: begun.process("crack_growth.py")), signal.SIGKILL)
        assert step.result.steps.shape == (1, 6)
    assert begun.states("crack") == ["done", "failed"]
    for name in ("meshing-loop", "t4-to-t10", "mechanical", "fracture-mechanics", "crack-extension", "crack-picture"):
        assert begun.states(name) == ["done"]


def test_a_program_that_is_missing_is_named(tmp_path):
    words = [sys.executable, "-m", "pipeproblem", "--fishplate", str(BINARY), "--output", str(tmp_path)]
    for name in ("gmsh", "tetgen", "ccx"):
        (tmp_path / name).symlink_to("/bin/true")
    # The interpreter's own folder is looked at too; OpenFOAM is not there.
    done = subprocess.run(
        words,
        cwd=ROOT / "examples" / "pipe" / "problem",
        env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    assert "OpenFOAM is missing (no " in done.stderr and "install.sh" in done.stderr and "--pressure" in done.stderr
