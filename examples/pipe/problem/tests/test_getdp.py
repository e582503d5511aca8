"""GetDP behind CalculiX's interface: the same decks, the same answers, and what it refuses."""

import shutil
import tomllib

import numpy as np
import pytest
from crack_front import read_deck, read_nodal
from domain_integral import Solid, read_pressure
from fracture_mechanics import along_front, check_held
from pipedemo.case import Case as Cylinder
from pipedemo.process import Failed
from pipeproblem import mechanics
from pipeproblem.case import Case, Size
from pipeproblem.heat_validation import film_rows
from pipeproblem.validation import PROBLEM, SOLVERS, penny_rows, pipe_mesh, solve

pytestmark = pytest.mark.skipif(shutil.which("getdp") is None, reason="GetDP is not installed: apt-get install getdp")


def test_both_solvers_have_one_interface():
    for kind in ("thermal", "mechanical"):
        files = [PROBLEM / "sites" / "solid" / f"{name}.toml" for name in (kind, f"{kind}-getdp")]
        one, other = (tomllib.loads(file.read_text()) for file in files)
        assert [one[part] for part in ("namespace", "input", "output")] == [other[part] for part in ("namespace", "input", "output")]


@pytest.fixture(scope="module")
def pipe(tmp_path_factory):
    """The cracked pipe, coarser than coarse, under pressure and heat, by both solvers: a folder each."""
    case = Case(size=Size(9.0, 2.0, 300.0))
    first = tmp_path_factory.mktemp("pipe")
    pipe_mesh(first, case)
    (first / "job.inp").write_text(mechanics.deck(case, thermal=True))
    (first / "pressure.inp").write_text(mechanics.uniform_pressure(20.0))
    nodes = read_deck(first / "mesh.inp").nodes
    warm = "".join(f"{node}, {700 + 2 * at[0] - at[1]:.9g}\n" for node, at in nodes.items())
    (first / "temperature.inp").write_text("*TEMPERATURE\n" + warm)
    folders = {}
    for solver in SOLVERS:
        folders[solver] = shutil.copytree(first, tmp_path_factory.mktemp("by") / solver)
        solve(folders[solver], solver)
    return case, folders


def test_a_cracked_pipe_under_pressure_and_heat(pipe):
    case, folders = pipe
    found = []
    for folder in folders.values():
        deck = read_deck(folder / "mesh.inp")
        check_held(deck, folder / "job.frd")
        material = case.material
        solid = Solid(material.young, material.poisson, material.expansion, case.reference_temperature)
        moved, stress = (read_nodal(folder / "job.frd", name, width) for name, width in (("DISP", 3), ("STRESS", 6)))
        warm = {node: row[0] for node, row in read_nodal(folder / "job.frd", "NDTEMP", 1).items()}
        pressure = read_pressure(folder / "pressure.inp", deck)
        found.append((np.array(list(moved.values())), np.array(list(stress.values())), along_front(deck, solid, moved, warm, pressure)[1]))
    (moved, stress, k), (moved_too, stress_too, k_too) = found
    assert moved_too == pytest.approx(moved, abs=5e-4 * np.abs(moved).max())
    assert np.abs(stress_too - stress).mean() < 0.01 * np.abs(stress).mean()
    # Within an element CalculiX has temperatures linear between its corners, GetDP quadratic: at the front that differs.
    assert k_too[1:-1, 0] == pytest.approx(k[1:-1, 0], rel=0.01)
    # At its ends, where the front meets the wall, K is not defined as elsewhere.
    assert k_too[[0, -1], 0] == pytest.approx(k[[0, -1], 0], rel=0.03)


def test_the_same_deck_gives_the_same_bytes(pipe, tmp_path):
    _, folders = pipe
    again = shutil.copytree(folders["getdp"], tmp_path / "again")
    (again / "job.frd").unlink()
    assert solve(again, "getdp").read_bytes() == (folders["getdp"] / "job.frd").read_bytes()


@pytest.mark.parametrize("card", ["*CLOAD\n1, 1, 1.\n", "*INCLUDE, INPUT=/etc/passwd\n", "*BOUNDARY\nNOBODY, 1, 1\n", "*DLOAD\n1, P9, 1.\n"])
def test_what_a_deck_has_that_is_not_known_is_refused(pipe, tmp_path, card):
    _, folders = pipe
    folder = shutil.copytree(folders["getdp"], tmp_path / "refused")
    (folder / "job.frd").unlink()
    deck = folder / "job.inp"
    deck.write_text(deck.read_text().replace("*NODE FILE", f"{card}*NODE FILE"))
    with pytest.raises(Failed, match="ended with 2"):
        solve(folder, "getdp")
    assert not (folder / "job.frd").exists()


def test_k_of_a_penny_crack(tmp_path):
    """On a coarse mesh as CalculiX; how right that is on a finer one, test_crack.py tells."""
    both = [penny_rows(tmp_path / solver, crack_size=0.25, solver=solver) for solver in SOLVERS]
    for one, other in zip(*both, strict=True):
        assert other.computed == pytest.approx(one.computed, rel=1e-4), one.what


def test_temperatures_of_a_wall_between_films(tmp_path):
    for row in film_rows(tmp_path, Cylinder(inner=20, outer=35, length=50, mesh_size=8, tet_volume=120), "getdp"):
        assert abs(row.error) <= row.allowed, str(row)
