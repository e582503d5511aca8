"""The element converter."""

import subprocess
import sys

import numpy as np
import pytest
import t4_to_t10
from conftest import PIPE, write_tetgen

# Shape functions of CalculiX's C3D10 in volume coordinates; corners 1-4, mid-sides 5-10.
MIDDLES = ((0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3))


def jacobians(corners_and_middles):
    """det J of a 10-node tetrahedron at points all over it."""
    generator = np.random.default_rng(7)
    found = []
    for share in np.vstack([np.eye(4), np.full(4, 0.25), generator.dirichlet(np.ones(4), 20)]):
        gradients = np.zeros((10, 4))  # d N / d L
        for k in range(4):
            gradients[k, k] = 4 * share[k] - 1
        for k, (i, j) in enumerate(MIDDLES, 4):
            gradients[k, i], gradients[k, j] = 4 * share[j], 4 * share[i]
        local = gradients[:, 1:] - gradients[:, :1]
        found.append(np.linalg.det(np.asarray(corners_and_middles).T @ local))
    return np.array(found)


def test_a_single_tetrahedron_is_the_known_one():
    points = {1: (0.0, 0.0, 0.0), 2: (2.0, 0.0, 0.0), 3: (0.0, 2.0, 0.0), 4: (0.0, 0.0, 2.0)}
    nodes, elements, turned = t4_to_t10.raise_order(points, {7: (1, 2, 3, 4)})
    assert elements == {7: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)}
    assert turned == 0
    middles = {5: (1, 0, 0), 6: (1, 1, 0), 7: (0, 1, 0), 8: (0, 0, 1), 9: (1, 0, 1), 10: (0, 1, 1)}
    assert {number: nodes[number] for number in middles} == middles


def test_volumes_are_preserved_and_positive_everywhere(cube_mesh):
    points, tets, _ = cube_mesh
    nodes, elements, _ = t4_to_t10.raise_order(points, tets)
    total = 0.0
    for number, element in elements.items():
        found = jacobians([nodes[node] for node in element])
        volume = abs(t4_to_t10.volume6(*(points[corner] for corner in tets[number])))
        assert np.allclose(found, volume, rtol=1e-12), number
        total += volume / 6
    assert total == pytest.approx(1.0)


def test_inside_out_tetrahedra_are_turned_over(cube_mesh):
    points, tets, _ = cube_mesh
    wrong = sum(t4_to_t10.volume6(*(points[c] for c in corners)) < 0 for corners in tets.values())
    assert 0 < wrong < len(tets)
    _, elements, turned = t4_to_t10.raise_order(points, tets)
    assert turned == wrong
    for number, element in elements.items():
        assert set(element[:4]) == set(tets[number])
        assert t4_to_t10.volume6(*(points[corner] for corner in element[:4])) > 0


def test_middles_stand_half_way_and_are_shared(cube_mesh):
    points, tets, _ = cube_mesh
    nodes, elements, _ = t4_to_t10.raise_order(points, tets)
    edges = {}
    for element in elements.values():
        for k, (i, j) in enumerate(MIDDLES, 4):
            edges.setdefault(frozenset((element[i], element[j])), set()).add(element[k])
    # 12 edges and 6 diagonals of the cube, 8 to the point inside.
    assert len(edges) == 26
    assert all(len(middles) == 1 for middles in edges.values())
    assert len(nodes) == len(points) + len(edges)
    for edge, (middle,) in edges.items():
        a, b = (np.array(points[node]) for node in edge)
        assert np.array_equal(nodes[middle], (a + b) / 2)


def test_the_boundary_is_complete(cube_mesh):
    points, tets, faces = cube_mesh
    nodes, elements, _ = t4_to_t10.raise_order(points, tets)
    parts = t4_to_t10.boundary(elements, faces)
    assert sorted(parts) == [1, 2, 3, 4, 5, 6]
    for marker, (on_nodes, on_faces) in parts.items():
        axis, level = (marker - 1) // 2, (marker - 1) % 2
        assert {nodes[node][axis] for node in on_nodes} == {level}
        assert len(on_nodes) == 9 and len(on_faces) == 2
        for number, index in on_faces:
            face = [elements[number][k] for k in t4_to_t10.FACES[index - 1]]
            assert set(face) <= set(on_nodes)


def test_a_marked_face_inside_is_no_boundary(cube_mesh):
    points, tets, faces = cube_mesh
    _, elements, _ = t4_to_t10.raise_order(points, tets)
    a, b, _ = faces[1][0]
    parts = t4_to_t10.boundary(elements, faces | {99: ((a, b, 9), 50)})
    assert 50 not in parts


def test_files_in_deck_out(cube_files, tmp_path):
    deck = tmp_path / "mesh.inp"
    said = t4_to_t10.convert(*cube_files, deck)
    assert said == "12 tetrahedra, 9 nodes became 35, 6 turned over"
    lines = deck.read_text().splitlines()
    keywords = [line for line in lines if line.startswith("*")]
    assert keywords[:2] == ["*NODE, NSET=ALL", "*ELEMENT, TYPE=C3D10, ELSET=SOLID"]
    assert "*NSET, NSET=NODES_6" in keywords
    assert "*SURFACE, NAME=SURFACE_6, TYPE=ELEMENT" in keywords
    assert lines[9] == "9, 0.4, 0.55, 0.3"
    # CalculiX's reader: at most 20 characters a number, 16 entries a line.
    for line in lines:
        assert max(map(len, line.split(","))) <= 21 or line.startswith("*")
        assert line.count(",") < 16


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (0, "9  3  0  0", "10  3  0  0", "9 rows, 10 announced"),
        (0, "0.55", "oops", "not a number"),
        (0, "9  3  0  0", "", "rows, "),
        (1, "1 3 7 9    1", "1 3", "columns"),
        (1, "1 3 7 9", "1 3 7 77", "names node 77"),
        (1, "1 3 7 9", "1 3 7 3", "has no volume"),
        (2, "1 3 7 ", "1 2 8 ", "belongs to no tetrahedron"),
    ],
)
def test_broken_files_are_refused_by_name(cube_files, tmp_path, file, old, new, complaint):
    text = cube_files[file].read_text()
    spoilt = text.replace(old, new, 1)
    assert spoilt != text
    cube_files[file].write_text(spoilt)
    words = [sys.executable, PIPE / "t4_to_t10.py", *cube_files, tmp_path / "mesh.inp"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_command_line_is_told(tmp_path):
    done = subprocess.run(
        [sys.executable, PIPE / "t4_to_t10.py", "one"], capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"MESH.node" in done.stderr


def test_empty_files_are_refused(tmp_path):
    paths = write_tetgen(tmp_path, {}, {}, {})
    with pytest.raises(t4_to_t10.BadMesh, match="0 rows"):
        t4_to_t10.convert(*paths, tmp_path / "mesh.inp")
