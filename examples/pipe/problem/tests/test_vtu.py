"""Meshes and results as VTU, read by meshio and by ParaView's reader; and files that are none, which are refused by name."""

import subprocess

import meshio
import numpy as np
import pytest
import t4_to_t10
from calculix import read_mesh
from paraview_reader import read_as_paraview
from pipeproblem.validation import PROBLEM
from test_crack import SIDE, block, write_medit

TRIANGLE, TETRA, TETRA10 = 5, 10, 24
"""VTK's types of cells."""


def write_vtu(mesh, result=None):
    """What the program of the service writes, or a `CalledProcessError`."""
    words = [PROBLEM / "programs" / "vtu_writer.py", mesh, mesh.with_suffix(".vtu")]
    subprocess.run([*words, *(["--result", result] if result else [])], check=True, capture_output=True, text=True)
    return mesh.with_suffix(".vtu")


def write_frd(path, name, nodes, values):
    """A result file of one field."""
    rows = [f" -1{node:10d}{''.join(f'{value:12.5E}' for value in row)}\n" for node, row in zip(nodes, values, strict=True)]
    path.write_text(f" -4  {name:<8}    4    1\n{''.join(rows)} -3\n")
    return path


@pytest.fixture
def deck(tmp_path):
    mesh = write_medit(tmp_path / "block.mesh", *block())
    t4_to_t10.convert(mesh, tmp_path / "block.inp", crack_marker=5)
    return tmp_path / "block.inp"


def test_a_volume_mesh_and_its_triangles(tmp_path):
    points, tets, faces = block()
    path = write_vtu(write_medit(tmp_path / "block.mesh", points, tets, faces))
    mesh = meshio.read(path)
    assert mesh.points == pytest.approx(np.array(list(points.values())) * 1e-3)
    found = {cells.type: (cells.data + 1, marks) for cells, marks in zip(mesh.cells, mesh.cell_data["reference"], strict=True)}
    assert found["tetra"][0].tolist() == [list(corners) for corners in tets.values()] and not found["tetra"][1].any()
    assert found["triangle"][0].tolist() == [list(corners) for corners, _ in faces.values()]
    assert found["triangle"][1].tolist() == [mark for _, mark in faces.values()]
    paraview = read_as_paraview(path)
    assert (paraview.points == mesh.points).all()
    assert [(paraview.types == kind).sum() for kind in (TETRA, TRIANGLE)] == [len(tets), len(faces)]
    assert (paraview.cell_data["reference"] == 5).sum() == SIDE * SIDE


def test_a_surface_mesh(tmp_path):
    points, _, faces = block()
    paraview = read_as_paraview(write_vtu(write_medit(tmp_path / "block.mesh", points, {}, faces)))
    assert (paraview.types == TRIANGLE).all()
    assert paraview.cell_data["reference"].tolist() == [mark for _, mark in faces.values()]


def test_a_deck_without_results(deck):
    paraview, mesh = read_as_paraview(write_vtu(deck)), read_mesh(deck)
    assert paraview.points == pytest.approx(mesh.points * 1e-3)
    assert len(paraview.types) == len(mesh.elements) and (paraview.types == TETRA10).all()
    assert paraview.point_data == {}


@pytest.mark.parametrize(("name", "field", "width", "factor"), [("DISP", "displacement", 3, 1e-3), ("NDTEMP", "temperature", 1, 1)])
def test_a_deck_with_the_results_that_there_are(deck, tmp_path, name, field, width, factor):
    mesh = read_mesh(deck)
    told = 300 + 10 * mesh.points[:, :width]
    # Solvers need not write nodes in the order of their numbers.
    path = write_vtu(deck, write_frd(tmp_path / "job.frd", name, mesh.nodes[::-1], told[::-1]))
    for data in (meshio.read(path).point_data, read_as_paraview(path).point_data):
        assert list(data) == [field]
        assert data[field].reshape(told.shape) == pytest.approx(told * factor, rel=1e-5)


@pytest.mark.parametrize(
    ("mesh", "said"),
    [
        ("", "bad: 0 vertices"),
        ("Vertices\n2\n0 0 0 0\n", "bad: Vertices: 2 rows announced, and the file ends before"),
        ("Hexahedra\n0\n", "bad: 'Hexahedra' where one of"),
        ("Vertices\n1\n0 0 0 0\nTriangles\n1\n1 1 2 5\n", "bad: no cells, or cells of vertices that are not there"),
        ("Vertices\n1\n0 0 0 0\nEnd", "bad: no cells"),
        ("\x00\u00ff", "bad is no mesh: UnicodeDecodeError"),
        ("*NODE\n1, 0, 0, 0\n", "bad is no mesh: BadDeck: the mesh has no nodes or no elements"),
        ("*NODE\n1, 0, 0, 0\n*ELEMENT, TYPE=C3D4\n", "bad is no mesh: BadDeck: elements of type C3D4"),
        ("*NODE\n1, 0, 0, x\n*ELEMENT, TYPE=C3D10\n1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1\n", "bad is no mesh: BadDeck: the mesh is not made"),
        ("*NODE\n1, 0, 0, 0\n*ELEMENT, TYPE=C3D10\n1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2\n", "bad: elements of nodes that are not there"),
    ],
)  # fmt: skip
def test_what_is_no_mesh_is_refused(tmp_path, mesh, said):
    path = tmp_path / "bad"
    path.write_text(mesh, encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        write_vtu(path)
    assert failed.value.returncode == 1 and said in failed.value.stderr
    assert not path.with_suffix(".vtu").exists()


def test_results_of_something_else_are_refused(deck, tmp_path):
    nodes, result = read_mesh(deck).nodes, tmp_path / "job.frd"
    zeros = np.zeros((len(nodes), 3))
    for said, path, written in (
        ("job.frd has DISP at other nodes than the mesh's", deck, lambda: write_frd(result, "DISP", nodes[1:], zeros[1:])),
        ("job.frd has none of DISP, STRESS, NDTEMP", deck, lambda: write_frd(result, "FORC", nodes, zeros)),
        ("job.frd: DISP: could not convert", deck, lambda: result.write_text(" -4  DISP\n -1         1 nonsense\n -3\n")),
        ("block.mesh is Medit: a result wants", deck.with_suffix(".mesh"), lambda: None),
    ):
        written()
        with pytest.raises(subprocess.CalledProcessError) as failed:
            write_vtu(path, result)
        assert failed.value.returncode == 1 and said in failed.value.stderr, said
