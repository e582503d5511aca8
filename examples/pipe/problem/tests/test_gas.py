"""The gas's half with the real programs: meshed, solved, mapped, and what it refuses."""

import math
import os
import shutil
import sys
from pathlib import Path

import meshio
import numpy as np
import pytest

PROBLEM = Path(__file__).resolve().parents[1]
PROGRAMS = PROBLEM / "programs"
sys.path[:0] = [str(PROBLEM), str(PROGRAMS)]

import generalized_mesher  # noqa: E402
import openfoam  # noqa: E402
from pipeproblem.heat_validation import film_rows, mesh_gas, solve_gas, write_tube  # noqa: E402
from pipedemo.case import Case as Cylinder  # noqa: E402
from pipedemo.process import Failed  # noqa: E402

RADIUS, LENGTH = 20.0, 60.0  # mm
QUICK = {"iterations": 40, "wall_temperature": 800}


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
    return mesh_gas(tmp_path_factory.mktemp("mesh"), tube, 4, 0.3, 1.6, 10)


@pytest.fixture(scope="module")
def wall(gas, tmp_path_factory):
    return solve_gas(tmp_path_factory.mktemp("flow"), gas, **QUICK)


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
    again = mesh_gas(tmp_path, tube, 4, 0.3, 1.6, 10)
    for path in gas.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_wall_says_what_heat_it_takes(wall):
    mesh = meshio.read(wall)
    data = {name: rows[0] for name, rows in mesh.cell_data.items()}
    assert {name: rows.dtype for name, rows in data.items()} == dict.fromkeys(data, np.dtype("float64"))
    assert set(data) == {"pressure", "heat_flux", "film_temperature", "film_coefficient"}
    assert (data["film_temperature"] == 1200).all()
    assert data["heat_flux"] == pytest.approx(data["film_coefficient"] * (1200 - 800))
    assert data["pressure"].mean() == pytest.approx(10e6, rel=0.01)
    # Dittus and Boelter say 5,000 far from the inlet; it is more near it.
    mean = (data["film_coefficient"] * area_of(mesh)).sum() / area_of(mesh).sum()
    assert 4000 < mean < 12_000
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
    kelvin = 1200 - wall.cell_data["heat_flux"][0] / wall.cell_data["film_coefficient"][0]
    assert kelvin == pytest.approx(700 + 2000 * wall.points[wall.cells[0].data].mean(1)[:, 2])


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
        ("boundary", "1\n(\nwall { type wall; nFaces 99999999; startFace 0; }\n)\n", "beyond the last face"),
    ],
)
def test_a_mesh_that_is_none_is_refused(gas, tmp_path, name, content, told):
    broken = tmp_path / "broken"
    shutil.copytree(gas, broken)
    (broken / name).write_text(content)
    with pytest.raises(Failed, match=told):
        solve_gas(tmp_path / "flow", broken, iterations=1)


def test_a_surface_without_a_bore_is_refused(tmp_path):
    path = tmp_path / "surface.mesh"
    one = meshio.Mesh(np.eye(3), [("triangle", np.array([[0, 1, 2]]))], cell_data={"medit:ref": [np.array([2])]})
    meshio.write(path, one, "medit")
    with pytest.raises(Failed, match="no triangles of reference 1, the bore"):
        mesh_gas(tmp_path / "mesh", path, 4, 0.3, 1.6, 10)


def test_heat_through_a_cylinder_is_the_closed_forms(tmp_path):
    coarse = Cylinder(inner=20, outer=40, length=40, mesh_size=5, tet_volume=40)
    for row in film_rows(tmp_path, coarse):
        assert abs(row.error) < 1.0, str(row)


def test_paraviews_reader_reads_the_fields(wall):
    reader = pytest.importorskip("vtkmodules.vtkIOXML", reason="VTK is not installed (pip install vtk)")
    for path, cells, names in (
        (wall, 2 * 12 * 6, {"pressure", "heat_flux", "film_temperature", "film_coefficient"}),
        (wall.with_name("gas.vtu"), None, {"pressure", "temperature", "velocity", "k", "omega"}),
    ):
        reads = reader.vtkXMLUnstructuredGridReader()
        reads.SetFileName(str(path))
        reads.Update()
        grid = reads.GetOutput()
        data = grid.GetCellData()
        assert {data.GetArrayName(k) for k in range(data.GetNumberOfArrays())} == names
        assert grid.GetNumberOfCells() == (cells or len(meshio.read(path).cells[0]) + len(meshio.read(path).cells[1]))
