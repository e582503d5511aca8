"""The gas's half with the real programs: meshed, solved, mapped, and what it refuses."""

import math
import os
import shutil
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path

import meshio
import numpy as np
import pytest

PROBLEM = Path(__file__).resolve().parents[1]
PROGRAMS = PROBLEM / "programs"
sys.path[:0] = [str(PROBLEM), str(PROGRAMS)]

import generalized_mesher  # noqa: E402
import openfoam  # noqa: E402
from paraview_reader import read_as_paraview  # noqa: E402
from pipeproblem.heat_validation import GAS, film_rows, mesh_gas, solve_gas, worth, write_tube  # noqa: E402
from pipeproblem.coupling import Conditions, GasMesh  # noqa: E402
from pipedemo.case import Case as Cylinder  # noqa: E402
from pipedemo.process import Failed  # noqa: E402

RADIUS, LENGTH = 20.0, 60.0  # mm
QUICK = {"iterations": 300, "wall_temperature": 800}
MESH = GasMesh(layers=4, first=0.3, growth=1.6, size=10)


@pytest.fixture(scope="module", autouse=True)
def environment():
    """As after `. .venv/bin/activate`: pip's gmsh and its python are found on PATH."""
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{before}"
    yield
    os.environ["PATH"] = before


@pytest.fixture(scope="module")
def tube(tmp_path_factory):
    path = tmp_path_factory.mktemp("tube") / "tube.mesh"
    write_tube(path, RADIUS, LENGTH, 12, 6)
    return path


@pytest.fixture(scope="module")
def gas(tube, tmp_path_factory):
    return mesh_gas(tmp_path_factory.mktemp("mesh"), tube, MESH)


@pytest.fixture(scope="module")
def wall(gas, tmp_path_factory):
    return solve_gas(tmp_path_factory.mktemp("flow"), gas, **QUICK)


def patch_temperature(folder):
    """That of the wall's faces in the last state that OpenFOAM wrote, K."""
    times = [path for path in (folder / "case").iterdir() if path.name.replace(".", "").isdigit() and path.name != "0"]
    state = max(times, key=lambda path: float(path.name))
    return openfoam.on_patch(state / "T", "wall", len(meshio.read(folder / "wall.vtu").cells[0].data))


def area_of(mesh):
    corners = mesh.points[mesh.cells[0].data]
    return np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2


def test_all_triangles_turn_inwards(tube):
    mesh = meshio.read(tube)
    bore = mesh.cells[0].data[mesh.cell_data["medit:ref"][0] == 1]
    turned, ends = generalized_mesher.inwards(mesh.points, bore)
    assert len(ends) == 2 * 12
    corners = mesh.points[turned]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    middle = corners.mean(1)
    assert ((normal[:, :2] * middle[:, :2]).sum(1) < 0).all()
    assert len(turned) == 2 * 12 * 6


def test_prisms_and_tetrahedra_fill_the_bore(gas):
    mesh = openfoam.read_mesh(gas)
    tets, tet_cells, wedges, wedge_cells = mesh.cells()
    assert len(wedges) == 4 * 2 * 12 * 6
    assert sorted([*tet_cells, *wedge_cells]) == list(range(mesh.cell_count))

    def volume(a, b, c, d):
        return np.einsum("ij,ij->i", np.cross(b - a, c - a), d - a) / 6

    points = mesh.points
    of_tets = volume(*(points[tets[:, k]] for k in range(4)))
    assert (of_tets > 0).all()
    p = [points[wedges[:, k]] for k in range(6)]
    # In VTK's order the first triangle's normal leads out of a wedge.
    of_wedges = -(volume(p[0], p[1], p[2], p[3]) + volume(p[1], p[2], p[3], p[4]) + volume(p[2], p[3], p[4], p[5]))
    assert (-volume(p[0], p[1], p[2], p[3]) > 0).all()
    exact = 12 / 2 * RADIUS**2 * math.sin(2 * math.pi / 12) * LENGTH * 1e-9
    assert of_tets.sum() + np.abs(of_wedges).sum() == pytest.approx(exact, rel=0.02)


def test_the_gas_comes_in_where_the_surface_says(gas):
    mesh = openfoam.read_mesh(gas)
    assert mesh.centres("inlet")[:, 2] == pytest.approx(0, abs=1e-6)
    assert mesh.centres("outlet")[:, 2] == pytest.approx(LENGTH * 1e-3, abs=1e-6)


def test_the_mesher_repeats_to_the_byte(tube, gas, tmp_path):
    again = mesh_gas(tmp_path, tube, MESH)
    for path in gas.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_wall_says_what_heat_it_takes(wall):
    mesh = meshio.read(wall)
    data = {name: rows[0] for name, rows in mesh.cell_data.items()}
    assert {name: rows.dtype for name, rows in data.items()} == dict.fromkeys(data, np.dtype("float64"))
    assert set(data) == {"pressure", "temperature", "heat_flux", "film_temperature", "film_coefficient"}
    assert (data["film_temperature"] == GAS["temperature"]).all()
    assert data["pressure"].mean() == pytest.approx(GAS["pressure"], rel=0.01)
    assert patch_temperature(wall.parent) == pytest.approx(800)
    # The heat that the wall takes is the enthalpy that the gas loses.
    converged, imbalance, y_plus = worth(wall)
    assert converged and abs(imbalance) < 0.01
    # u* is some 4 % of the velocity: y+ of a wall cell's middle.
    assert 150 < y_plus < 800
    assert mesh.points[:, 2].max() == pytest.approx(LENGTH * 1e-3, abs=1e-6)


def test_the_solver_repeats_to_the_byte(gas, wall, tmp_path):
    again = solve_gas(tmp_path, gas, **QUICK)
    assert again.read_bytes() == wall.read_bytes()
    assert (tmp_path / "gas.vtu").read_bytes() == wall.with_name("gas.vtu").read_bytes()


def test_two_ranks_agree_with_one(gas, wall, tmp_path):
    one, two = (meshio.read(path).cell_data["heat_flux"][0] for path in (wall, solve_gas(tmp_path, gas, ranks=2, **QUICK)))
    assert two.mean() == pytest.approx(one.mean(), rel=0.02)


def test_a_run_goes_on_where_another_ended(gas, wall, tmp_path):
    short = solve_gas(tmp_path, gas, iterations=5, wall_temperature=800, start=wall.with_name("gas.vtu"))
    one, two = (meshio.read(path).cell_data["heat_flux"][0] for path in (wall, short))
    assert two.mean() == pytest.approx(one.mean(), rel=0.02)


def test_the_wall_has_the_temperatures_that_are_sent(gas, tmp_path):
    mesh = openfoam.read_mesh(gas)
    faces = mesh.faces[mesh.patches["wall"].faces][:, :3]
    used, at = np.unique(faces, return_inverse=True)
    told = meshio.Mesh(
        mesh.points[used], [("triangle", at.reshape(-1, 3))], point_data={"temperature": 700 + 2000 * mesh.points[used, 2]}
    )
    meshio.write(tmp_path / "temperature.vtu", told)
    wall = meshio.read(solve_gas(tmp_path / "flow", mesh=gas, iterations=3, wall=tmp_path / "temperature.vtu"))
    expected = 700 + 2000 * wall.points[wall.cells[0].data].mean(1)[:, 2]
    assert patch_temperature(tmp_path / "flow") == pytest.approx(expected)
    assert wall.cell_data["temperature"][0] == pytest.approx(expected)


def test_a_hotter_wall_takes_less_heat(gas, wall, tmp_path):
    hotter = solve_gas(tmp_path, gas, iterations=300, wall_temperature=850)
    less, heat = (float((data.cell_data["heat_flux"][0] * area_of(data)).sum()) for data in map(meshio.read, (hotter, wall)))
    assert less / heat == pytest.approx((GAS["temperature"] - 850) / (GAS["temperature"] - 800), rel=0.1)


def test_a_flow_that_ends_early_says_that_it_has_not_converged(gas, wall, tmp_path):
    converged, imbalance, _ = worth(solve_gas(tmp_path, gas, iterations=5, wall_temperature=800))
    assert not converged
    assert abs(imbalance) > abs(worth(wall)[1])


def test_the_services_have_the_defaults_of_the_problem():
    """One set of conditions, in three places."""
    names = {"pressure", "temperature", "velocity", "initial_wall_temperature"}
    for service, wanted in (("flow/fluid-thermal", names), ("solid/film-and-pressure", set(asdict(Conditions())) - names)):
        inputs = tomllib.loads((PROBLEM / "sites" / f"{service}.toml").read_text())["input"]
        assert {name: inputs[name]["default"] for name in wanted} == {name: getattr(Conditions(), name) for name in wanted}


@pytest.mark.parametrize("code", ['#calc "1"', "$HOME", '#include "/etc/passwd"'])
def test_nothing_of_a_callers_dictionaries_is_run(gas, tmp_path, code):
    evil = tmp_path / "evil"
    shutil.copytree(gas, evil)
    boundary = evil / "boundary"
    boundary.write_text(boundary.read_text().replace("type wall;", f"type wall; a {code};"))
    with pytest.raises(Failed, match="boundary has # or [$] in it: a mesh is made of numbers"):
        solve_gas(tmp_path / "flow", evil, iterations=1)


def test_openfoam_itself_may_run_no_commands(gas):
    """Behind that, OpenFOAM is told to run nothing; it says so in its log."""
    assert "Disallowing user-supplied system call operations" in (gas.parent / "stdout").read_text()


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("points", "nonsense", "points is no list"),
        ("faces", "1\n(\n5(0 1 2 3 4)\n)\n", "a face of 5 nodes"),
        ("owner", "2\n(\nx y\n)\n", "owner: "),
        ("neighbour", "1\n(\n-1\n)\n", "a cell's number a face, from 0"),
        ("boundary", "1\n(\nwall { type wall; nFaces 99999999; startFace 0; }\n)\n", "beyond the last face"),
    ],
)
def test_a_mesh_that_is_none_is_refused(gas, tmp_path, name, content, told):
    broken = tmp_path / "broken"
    shutil.copytree(gas, broken)
    (broken / name).write_text(content)
    with pytest.raises(Failed, match=told):
        solve_gas(tmp_path / "flow", broken, iterations=1)


@pytest.mark.parametrize(
    ("data", "cell", "told"),
    [("heat", [0, 1, 2], "has no point data temperature"), ("temperature", [0, 1, -2], "points that are not there")],
)
def test_a_wall_that_is_none_is_refused(gas, tmp_path, data, cell, told):
    path = tmp_path / "wall.vtu"
    meshio.write(path, meshio.Mesh(np.eye(3), [("triangle", np.array([cell]))], point_data={data: np.ones(3)}))
    with pytest.raises(Failed, match=f"fluid_thermal: wall.vtu.*{told}"):
        solve_gas(tmp_path / "flow", gas, iterations=1, wall=path)


def test_a_surface_without_a_bore_is_refused(tmp_path):
    path = tmp_path / "surface.mesh"
    one = meshio.Mesh(np.eye(3), [("triangle", np.array([[0, 1, 2]]))], cell_data={"medit:ref": [np.array([2])]})
    meshio.write(path, one, "medit")
    with pytest.raises(Failed, match="no triangles of reference 1, the bore"):
        mesh_gas(tmp_path / "mesh", path, MESH)


def test_heat_through_a_cylinder_is_the_closed_forms(tmp_path):
    coarse = Cylinder(inner=20, outer=40, length=40, mesh_size=5, tet_volume=40)
    for row in film_rows(tmp_path, coarse):
        assert abs(row.error) < 2.0, str(row)


def test_paraviews_reader_reads_the_fields(wall):
    for path, cells, names in (
        (wall, 2 * 12 * 6, {"pressure", "temperature", "heat_flux", "film_temperature", "film_coefficient"}),
        (wall.with_name("gas.vtu"), None, {"pressure", "temperature", "velocity", "k", "omega"}),
    ):
        grid = read_as_paraview(path)
        assert set(grid.cell_data) == names
        assert len(grid.types) == (cells or sum(len(block.data) for block in meshio.read(path).cells))
