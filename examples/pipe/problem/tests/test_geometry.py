"""Geometry and meshers, real ones, each by its service's own command line."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
import t4_to_t10
from mesh_check import to_refine
from pipedemo import process
from pipeproblem.case import BORE, CRACK, END, OUTSIDE, PASSAGES, SIZES, START, Case, Pipe
from pipeproblem.validation import PROBLEM, program

COARSE = {"size": 9, "crack_size": 1.5}


def mesh_surface(folder: Path, front: np.ndarray | None, refine: np.ndarray | None = None, **numbers) -> Path:
    """The surface mesh, and what Gmsh's log says of its failures as the service file knows them."""
    for name, table in (("front", front), ("refine", refine)):
        if table is not None:
            np.savetxt(folder / f"{name}.txt", table)
    geometry = PROBLEM / "sites" / "geometry" / "cracked_pipe.geo"
    (folder / geometry.name).write_text(geometry.read_text())
    words = [word for pair in (COARSE | numbers).items() for word in ("-setnumber", *pair)]
    program(folder, "gmsh", geometry.name, "-2", "-nt", "1", "-format", "mesh", "-o", "surface.mesh", *words)
    return folder / "surface.mesh"


def parts(path: Path, filled: bool = False):
    """Points, tetrahedra, triangles and their marks, as arrays."""
    points, tets, faces = t4_to_t10.medit(path, filled=filled)
    triangles = np.array([corners for corners, _ in faces.values()]) - 1
    return (
        np.array(list(points.values())),
        np.array(list(tets.values()), dtype=int).reshape(-1, 4) - 1,
        triangles,
        np.array([mark for _, mark in faces.values()]),
    )


def area(points, triangles):
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2


@pytest.fixture(scope="module")
def cracked(tmp_path_factory) -> Path:
    return mesh_surface(tmp_path_factory.mktemp("cracked"), Case().first_front())


def test_the_faces_are_the_pipes(cracked):
    points, _, triangles, marks = parts(cracked)
    pipe, turn = Pipe(), np.radians(60)
    assert set(marks) == {BORE, OUTSIDE, START, END, CRACK, PASSAGES}
    for mark, radius in ((BORE, pipe.inner), (OUTSIDE, pipe.outer)):
        on = points[np.unique(triangles[marks == mark])]
        assert np.hypot(np.hypot(on[:, 0], on[:, 1]) - pipe.bend, on[:, 2]) == pytest.approx(radius, rel=1e-6)
    for mark, angle in ((START, 0.0), (END, turn)):
        on = points[np.unique(triangles[marks == mark])]
        assert np.arctan2(on[:, 1], on[:, 0]) == pytest.approx(angle, abs=1e-9)
    assert area(points, triangles[marks == BORE]) == pytest.approx(turn * pipe.bend * 2 * np.pi * pipe.inner, rel=0.02)


def test_the_wall_clips_the_crack(cracked):
    """Half an ellipse and what the bore's curvature leaves of it, in the plane z = 0, and nothing in the bore."""
    points, _, triangles, marks = parts(cracked)
    case = Case()
    on = points[np.unique(triangles[marks == CRACK])]
    mouth = case.pipe.bend - case.pipe.inner
    assert np.abs(on[:, 2]).max() < 1e-9
    assert np.hypot(on[:, 0], on[:, 1]).max() == pytest.approx(mouth, rel=1e-9)
    assert np.hypot(on[:, 0], on[:, 1]).min() == pytest.approx(mouth - case.crack_depth, abs=0.1)
    # The bore is an arc there: what lies deeper is shorter.
    long, deep = case.crack_half_length, case.crack_depth
    exact = np.pi * long * deep / 2 - 4 / 3 * long * deep**2 / (2 * mouth)
    assert area(points, triangles[marks == CRACK]) == pytest.approx(exact, rel=0.02)


def test_triangles_that_need_refinement_are_refined(cracked, tmp_path):
    points, _, triangles, marks = parts(cracked)
    crack = triangles[marks == CRACK]
    at = points[crack[0]].mean(axis=0)
    finer = parts(mesh_surface(tmp_path, Case().first_front(), np.array([[*at, 0.4]])))

    def sides(points, triangles, marks):
        corners = points[triangles[marks == CRACK]]
        near = np.linalg.norm(corners.mean(axis=1) - at, axis=1) < 1
        return np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)[near].mean()

    assert sides(finer[0], *finer[2:]) < 0.6 * sides(points, triangles, marks)


def test_without_a_front_there_is_no_crack(tmp_path):
    *_, marks = parts(mesh_surface(tmp_path, None, passages=0))
    assert set(marks) == {BORE, OUTSIDE, START, END}


@pytest.mark.parametrize(
    ("numbers", "front", "said"),
    [
        ({"outer": 15}, None, "inner radius must be smaller"),
        ({"bend": 30}, None, "bend's radius must exceed"),
        ({"passages": 3}, None, "must be even"),
        ({"passage_radius": 7}, None, "must be narrower"),
        ({}, np.array([[50.0, 20], [50, 21], [50, 22]]), "at least 5 points"),
        ({}, np.array([[50.0, 20 + k] for k in range(6)]), "must begin and end in the bore"),
    ],
)
def test_senseless_geometries_are_refused(tmp_path, numbers, front, said):
    with pytest.raises(process.Failed, match="ended with"):
        mesh_surface(tmp_path, front, **numbers)
    assert said in (tmp_path / "stdout").read_text() + (tmp_path / "stderr").read_text()


@pytest.mark.parametrize("mesher", ["tetgen", "gmsh"])
def test_both_volume_meshers_fill_the_pipe_and_keep_its_surface(cracked, tmp_path, mesher):
    site = PROBLEM / "sites" / "meshing"
    service = tomllib.loads((site / f"volume-mesher-{mesher}.toml").read_text())
    for name in service.get("stage", ()):
        (tmp_path / name).write_text((site / name).read_text())
    (tmp_path / "surface.mesh").write_bytes(cracked.read_bytes())
    slots = {
        "[in val volume:double]": "200",
        "[in file surface:raw]": "surface.mesh",
        "[out file mesh:raw]": "volume.mesh",
    }
    words = []
    for word in service["command"]:
        for slot, value in slots.items():
            word = word.replace(slot, value)
        words.append(word)
    program(tmp_path, *words)
    points, tets, triangles, marks = parts(tmp_path / service["output"]["mesh"].get("path", "volume.mesh"), filled=True)
    corners = points[tets]
    volume = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])).sum() / 6
    pipe = Pipe()
    passages = pipe.passages * np.pi * pipe.passage_radius**2 * np.radians(60) * pipe.bend
    exact = np.pi * (pipe.outer**2 - pipe.inner**2) * np.radians(60) * pipe.bend - passages
    assert volume == pytest.approx(exact, rel=0.03)
    before = parts(cracked)
    assert sorted(marks) == sorted(before[3])
    assert area(points, triangles[marks == CRACK]) == pytest.approx(area(before[0], before[2][before[3] == CRACK]))
    rejected, angle = to_refine(points, tets, triangles, marks, limit=4)
    assert not rejected.any() and angle > 4
    rejected, _ = to_refine(points, tets, triangles, marks, limit=angle + 1)
    assert rejected.any() and not rejected.all()


@pytest.mark.parametrize(("name", "paper"), [("small", (4_835, 4_979, 22_045)), ("large", (16_832, 10_322, 83_609))])
def test_small_and_large_are_the_papers_sizes(tmp_path, name, paper):
    """Vertices, triangles and tetrahedra of its Table 1, about."""
    size = SIZES[name]
    surface = mesh_surface(tmp_path, Case().first_front(), size=size.surface, crack_size=size.crack)
    program(tmp_path, "tetgen", f"-pYq1.4/12ga{size.volume}", surface.name)
    points, tets, *_ = parts(tmp_path / "surface.1.mesh", filled=True)
    assert (len(points), len(parts(surface)[2]), len(tets)) == pytest.approx(paper, rel=0.07)


def test_a_crack_one_layer_of_elements_from_the_outside_is_not_accepted(tmp_path):
    case = Case(crack_depth=12.5, crack_half_length=12.5)
    surface = mesh_surface(tmp_path, case.first_front(), crack_size=3)
    program(tmp_path, "tetgen", "-pYq1.4/12g", surface.name)
    points, tets, triangles, marks = parts(tmp_path / "surface.1.mesh", filled=True)
    rejected, _ = to_refine(points, tets, triangles, marks, limit=0)
    at = points[triangles[marks == CRACK][rejected]].mean(axis=1)
    assert rejected.any()
    assert np.hypot(at[:, 0], at[:, 1]).max() < case.pipe.bend - case.pipe.inner - 6


def test_the_same_call_gives_the_same_bytes(cracked, tmp_path):
    assert mesh_surface(tmp_path, Case().first_front()).read_bytes() == cracked.read_bytes()
