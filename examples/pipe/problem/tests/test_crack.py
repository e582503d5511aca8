"""The crack: opened, judged, moved. Meshes that can be counted by hand, and closed forms."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import t4_to_t10
from crack_extension import BadFront, advance, extension, into_bore, measures
from calculix import BadDeck
from crack_front import front_of, projection, read_deck
from domain_integral import Solid, extensions, read_pressure, swept
from fracture_mechanics import check_held, intensities
from fishplate import errors
import meshing_loop
from pipeproblem import crack, mechanics
from pipeproblem.case import Case
from pipeproblem.validation import penny_rows

SIDE = 4
"""Cells of the block's edge."""


def block():
    """A block of SIDE^3 cells of six tetrahedra each, and the faces of the plane z = SIDE / 2 with x < SIDE / 2, marked
    5: a crack with a straight front, which opens to three walls. The walls are marked 1."""
    number = {}
    for z in range(SIDE + 1):
        for y in range(SIDE + 1):
            for x in range(SIDE + 1):
                number[x, y, z] = len(number) + 1
    points = {n: tuple(map(float, at)) for at, n in number.items()}
    tets = {}
    for x, y, z in np.ndindex(SIDE, SIDE, SIDE):
        for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0)):
            at, corners = [x, y, z], [number[x, y, z]]
            for axis in order:
                at[axis] += 1
                corners.append(number[tuple(at)])
            tets[len(tets) + 1] = tuple(corners)
    uses = {}
    for corners in tets.values():
        for face in t4_to_t10.FACES:
            key = tuple(sorted(corners[k] for k in face))
            uses[key] = uses.get(key, 0) + 1
    faces = {}
    for key, count in uses.items():
        at = np.array([points[n] for n in key])
        if count == 1:
            faces[len(faces) + 1] = (key, 1)
        elif (at[:, 2] == SIDE / 2).all() and (at[:, 0] <= SIDE / 2).all():
            faces[len(faces) + 1] = (key, 5)
    return points, tets, faces


def write_medit(path, points, tets, faces):
    rows = [f"{x:g} {y:g} {z:g} 0" for x, y, z in points.values()]
    lines = ["MeshVersionFormatted 2", "Dimension", "3", "Vertices", str(len(rows)), *rows]
    lines += ["Triangles", str(len(faces)), *(f"{a} {b} {c} {m}" for (a, b, c), m in faces.values())]
    lines += ["Tetrahedra", str(len(tets)), *(f"{a} {b} {c} {d} 1" for a, b, c, d in tets.values()), "End"]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def opened():
    points, tets, faces = block()
    crack = t4_to_t10.Crack(points, tets, [corners for corners, mark in faces.values() if mark == 5])
    return points, tets, faces, crack


def test_the_nodes_are_doubled_except_on_the_front(opened):
    points, _, _, crack = opened
    middle = SIDE // 2
    plane = {n for n, at in points.items() if at[2] == middle and at[0] <= middle}
    assert crack.front == {n for n in plane if points[n][0] == middle}
    assert sorted(crack.origin.values()) == sorted(plane - crack.front)
    assert all(crack.points[new] == points[old] for new, old in crack.origin.items())


def test_the_sides_are_apart_and_the_rest_hangs_together(opened):
    _, tets, _, crack = opened
    below = {n for n, corners in crack.tets.items() if set(corners) & set(crack.origin)}
    for number, corners in crack.tets.items():
        height = [crack.points[corner][2] for corner in corners]
        assert number not in below or max(height) <= SIDE / 2
    assert {corner for corners in tets.values() for corner in corners} < {c for t in crack.tets.values() for c in t}


def test_the_deck_has_both_sides_and_quarter_points(tmp_path):
    points, tets, faces = block()
    mesh = write_medit(tmp_path / "block.mesh", points, tets, faces)
    said = t4_to_t10.convert(mesh, tmp_path / "block.inp", crack_marker=5)
    assert "16 faces cracked" in said and "5 on the front" in said
    deck = read_deck(tmp_path / "block.inp")
    upper, lower = deck.faces("SURFACE_5A"), deck.faces("SURFACE_5B")
    assert len(upper) == len(lower) == SIDE * SIDE
    shared = set(upper.ravel()) & set(lower.ravel())
    front = set(deck.sets["NODES_FRONT"])
    assert front < shared and {deck.nodes[n][0] for n in shared} == {SIDE / 2}
    for corners in deck.elements.values():
        for k, (i, j) in enumerate(t4_to_t10.EDGES, 4):
            a, b = corners[i], corners[j]
            part = 0.5 if (a in front) == (b in front) else 0.25 if a in front else 0.75
            wanted = deck.nodes[a] + part * (deck.nodes[b] - deck.nodes[a])
            assert deck.nodes[corners[k]] == pytest.approx(wanted, abs=1e-9)


def test_an_edge_that_crosses_the_crack_is_refused():
    """A crack so narrow that both ends of its inner edges lie on the front: their middles could not be doubled."""
    points, tets, faces = block()
    plane = [corners for corners, mark in faces.values() if mark == 5]
    centre = {n for n, at in points.items() if 1 <= at[0] <= 2 and 1 <= at[1] <= 2}
    two = [corners for corners in plane if centre.issuperset(corners)]
    assert len(two) == 2
    with pytest.raises(t4_to_t10.BadMesh, match="from front to front"):
        t4_to_t10.Crack(points, tets, two)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("MeshVersionFormatted 2\nVertices\n2\n0 0 0 0\n", "file ends before"),
        ("MeshVersionFormatted 2\nHexahedra\n1\n", "Hexahedra"),
        ("Vertices\n1\n0 0 0 0\nEnd", "0 tetrahedra"),
        ("Vertices\nmany\n", "many"),
    ],
)
def test_broken_medit_files_are_refused(tmp_path, text, said):
    (tmp_path / "broken.mesh").write_text(text)
    with pytest.raises(t4_to_t10.BadMesh, match=said):
        t4_to_t10.convert(tmp_path / "broken.mesh", tmp_path / "x.inp")


def test_a_mesh_without_a_crack_is_refused_if_one_was_wanted(tmp_path):
    points, tets, _ = block()
    mesh = write_medit(tmp_path / "block.mesh", points, tets, {})
    with pytest.raises(t4_to_t10.BadMesh, match="crack's marker"):
        t4_to_t10.convert(mesh, tmp_path / "x.inp", crack_marker=5)


@pytest.fixture
def front(tmp_path):
    mesh = write_medit(tmp_path / "block.mesh", *block())
    t4_to_t10.convert(mesh, tmp_path / "block.inp", crack_marker=5)
    deck = read_deck(tmp_path / "block.inp")
    return deck, front_of(deck)


def test_the_fronts_directions(front):
    deck, line = front
    assert not line.closed and line.arc[-1] == pytest.approx(SIDE)
    assert line.ahead == pytest.approx(np.tile([1.0, 0, 0], (SIDE + 1, 1)))
    assert np.abs(line.tangent[:, 1]) == pytest.approx(1)
    above = np.mean([deck.nodes[n][2] for nodes in deck.faces("SURFACE_5A") for n in nodes])
    assert above == SIDE / 2 and np.abs(line.normal[:, 2]) == pytest.approx(1)
    r, arc, side, part = projection(line, np.array([[1.0, 1.25, 2.0]]))
    assert r[0] == pytest.approx(1) and min(arc[0], SIDE - arc[0]) == pytest.approx(1.25)
    assert 0 <= part[0] <= 1 and 0 <= side[0] < SIDE


def test_the_rate_tells_how_large_and_the_shares_tell_how(tmp_path):
    solid = Solid(200_000.0, 0.3)
    plane = 200_000 / (1 - 0.3**2)
    found = intensities(np.array([50.0**2 / plane]), np.array([[-3.0, 4.0, 0.0]]), solid)
    assert found == pytest.approx(np.array([[-30.0, 40.0, 0.0]]))
    torn = intensities(np.array([1.3 / 200_000 * 7**2]), np.array([[0.0, 0.0, 1.0]]), solid)
    assert torn == pytest.approx(np.array([[0.0, 0.0, 7.0]]))


def test_a_little_less_than_zero_is_noise_and_more_is_told():
    solid = Solid(200_000.0, 0.3)
    shares = np.tile([1.0, 0, 0], (3, 1))
    noisy = intensities(np.array([2.0, 1.0, -0.05]), shares, solid)
    assert noisy[2, 0] == 0 < noisy[1, 0] < noisy[0, 0]
    with pytest.raises(BadDeck, match="rate is -0.5 N/mm, of up to 2"):
        intensities(np.array([2.0, 1.0, -0.5]), shares, solid)
    assert intensities(np.zeros(3), np.zeros((3, 3)), solid) == pytest.approx(0.0)
    with pytest.raises(BadDeck, match="not displaced"):
        intensities(np.array([2.0, 1.0, 1.0]), np.zeros((3, 3)), solid)


def test_pressures_are_read_by_face_and_by_surface(front, tmp_path):
    deck, _ = front
    part = tmp_path / "pressure.inp"
    part.write_text("** made by hand\n*DLOAD\n3, P2, 1.5\n*DSLOAD\nSURFACE_5A, P, 2.\n")
    found = read_pressure(part, deck)
    assert found[3, 2] == 1.5 and sum(found.values()) == pytest.approx(1.5 + 2 * SIDE * SIDE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("*DSLOAD\nSURFACE_5C, P, 2.\n", "no such surface"),
        ("*DLOAD\n99999, P2, 2.\n", "no such element"),
        ("*DLOAD\n3, P5, 2.\n", "no pressure on a face"),
        ("*DLOAD\n3, P2\n", "no pressure on a face"),
        ("*CLOAD\n3, 1, 2.\n", "no pressure on a face"),
    ],
)
def test_loads_that_would_count_for_nothing_are_refused(front, tmp_path, text, said):
    deck, _ = front
    part = tmp_path / "pressure.inp"
    part.write_text(text)
    with pytest.raises(BadDeck, match=said):
        read_pressure(part, deck)


def test_empty_lines_and_comments_are_no_loads(front, tmp_path):
    deck, _ = front
    part = tmp_path / "pressure.inp"
    part.write_text("*DLOAD\n** made by hand\n\n3, P2, 1.5\n")
    assert read_pressure(part, deck) == {(3, 2): 1.5}


def test_the_area_swept_is_what_lies_between_the_fronts(tmp_path):
    """Of a front that meets two walls at an angle, where the field that moves it stays in the wall: by Gauss's formula."""
    points, tets, faces = block()
    skew = {n: (x + 0.5 * y, y, z) for n, (x, y, z) in points.items()}
    t4_to_t10.convert(write_medit(tmp_path / "skew.mesh", skew, tets, faces), tmp_path / "skew.inp", crack_marker=5)
    deck = read_deck(tmp_path / "skew.inp")
    line = front_of(deck)
    moved = extensions(deck, line, line.arc[-1] / SIDE)
    areas = swept(line, moved)
    shift = np.array([moved[n] for n in line.numbers])
    assert np.linalg.norm(shift[0, 0]) > 1.05 * (shift[0, 0] @ line.ahead[0]) > 0
    for k, area in enumerate(areas):
        ring = np.vstack([line.points, (line.points + 1e-6 * shift[:, k])[::-1]])[:, :2]
        x, y = ring.T
        assert area == pytest.approx(1e6 * abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2, rel=1e-5)


def test_a_node_is_held_by_its_place_and_bears_nothing(tmp_path):
    points, tets, faces = block()
    mesh = write_medit(tmp_path / "block.mesh", points, tets, faces)
    held = SIDE + 0.3, 0.2, 0.1
    t4_to_t10.convert(mesh, tmp_path / "block.inp", crack_marker=5, held=held)
    deck = read_deck(tmp_path / "block.inp")
    (node,) = deck.sets["NODES_HELD"]
    assert deck.nodes[node] == pytest.approx([SIDE, 0, 0])

    def result(borne):
        path = tmp_path / "job.frd"
        rows = [f" -1{n:10d}{0:12.5E}{0:12.5E}{borne if n == node else 1:12.5E}\n" for n in (node, node + 1)]
        path.write_text(" -4  FORC        4    1\n" + "".join(rows) + " -3\n")
        return path

    check_held(deck, result(1e-6))
    with pytest.raises(BadDeck, match=f"node {node} holds the solid with 0.5 N"):
        check_held(deck, result(0.5))


class Sites:
    """The Meshing Loop's three services, of which the volume mesher fails once."""

    def __init__(self, failure):
        self.failures = [failure]

    def service(self, name):
        return getattr(self, name)

    def progress(self, *_):
        pass

    def __getattr__(self, name):
        def call(**inputs):
            if name == "volume" and self.failures:
                raise self.failures.pop()
            if name == "check":
                refused = inputs["volume"] is None
                return SimpleNamespace(rejected=int(refused), refine=np.ones((int(refused), 4)))
            return SimpleNamespace(surface=Saved(), mesh=Saved())

        call.by_reference = lambda: call
        return call


class Saved:
    def save(self, path):
        path.write_text("saved")


def mesh_in_a_loop(folder, failure):
    np.savetxt(folder / "front.txt", np.zeros((5, 2)))
    names = ("inner", "outer", "bend", "angle", "size", "crack_size", "holes", "hole_radius", "tet_volume", "least_angle")
    wanted = SimpleNamespace(**dict.fromkeys(names, 1.0), front=folder / "front.txt", surface=folder / "s", volume=folder / "v")
    wanted.surface_mesher, wanted.volume_mesher, wanted.mesh_check = "surface", "volume", "check"
    return meshing_loop.loop(Sites(failure), wanted)


@pytest.mark.parametrize(
    "failure",
    [
        errors.ProgramFailed("ProgramFailed", "ended with 1", exit_code=1),
        errors.ProgramKilled("ProgramKilled", "aborted", signal="SIGABRT"),
    ],
)
def test_a_surface_that_the_mesher_refuses_is_refined(tmp_path, failure):
    assert mesh_in_a_loop(tmp_path, failure) == 2


@pytest.mark.parametrize(
    "failure",
    [
        errors.QueueFull("QueueFull", "full"),
        errors.LimitExceeded("LimitExceeded", "memory"),
        errors.Unauthenticated("Unauthenticated", "who?"),
        errors.ProgramKilled("ProgramKilled", "killed", signal="SIGKILL"),
    ],
)
def test_what_is_no_refusal_ends_the_loop(tmp_path, failure):
    with pytest.raises(type(failure)):
        mesh_in_a_loop(tmp_path, failure)


@pytest.mark.parametrize(
    ("case", "steps", "done"),
    [
        (Case(), 2, 2),
        (Case(greatest_length=14.0), 9, 2),
        (Case(greatest_length=14.1), 9, 3),
        (Case(), 9, 4),
    ],
)
def test_the_crack_grows_for_some_steps_to_a_length_or_through_the_wall(case, steps, done):
    lengths = iter([(4.0 + n, 10.0 + 2 * n, 10.0 - 2.1 * n, 1.0) for n in range(1, 10)])

    def called(**_):
        mesh = SimpleNamespace(surface=None, volume=None, mesh=None, passes=1, result=None, intensities=np.ones((5, 6)))
        return SimpleNamespace(**vars(mesh), front=np.zeros((5, 2)), measures=next(lengths) if "growth" in _ else None)

    called.by_reference = lambda *_: called
    used = crack.Services(*[called] * 6)
    run = SimpleNamespace(progress=lambda *_: None)
    grown = crack.grow(run, used, case, steps, lambda *_: crack.Load(None))
    assert len(grown) == done and crack.is_through(case, grown[-1]) == (done == 4)


def test_k_of_a_penny_crack(tmp_path):
    """As `python -m pipeproblem.validation` has it: all four loads, and the signs of modes II and III."""
    rows = penny_rows(tmp_path / "penny")
    assert all(row.allowed <= 1.5 for row in rows if "K_II" not in row.what)
    for row in rows:
        assert abs(row.error) <= row.allowed, str(row)


MOUTH, OUTSIDE = 60.0, 45.0


def circle(depth=4.0, points=15):
    """A front that is half a circle around a point of the bore, its ends on it."""
    turn = np.linspace(0, np.pi, points)
    x, y = MOUTH - depth * np.sin(turn), depth * np.cos(turn)
    ends = np.sqrt(MOUTH**2 - y[[0, -1]] ** 2)
    x[[0, -1]] = ends
    return np.column_stack([x, y])


def test_an_even_k_moves_the_front_evenly():
    moved = extension(circle(), np.full(15, 100.0), growth=1.0, exponent=3)
    assert np.hypot(moved[:, 0] - MOUTH, moved[:, 1]) == pytest.approx(5, abs=0.05)


def test_the_front_moves_as_a_power_of_k():
    k = 50 + 50 * np.sin(np.linspace(0, np.pi, 15))
    moved = extension(circle(), k, growth=1.0, exponent=2)
    away = np.hypot(moved[:, 0] - MOUTH, moved[:, 1]) - 4
    assert away.max() == pytest.approx(1, abs=0.05)
    # The ends as their neighbours.
    assert away[[0, -1]] == pytest.approx((k[1] / 100) ** 2, abs=0.06)


def test_k_that_rises_toward_the_ends_is_not_taken_beyond_them():
    """The largest movement is that of a node whose K is known, and the ends move as their neighbours."""
    arc = np.linspace(0, 1, 15)
    moves = advance(arc, 100 + 400 * (arc - 0.5) ** 2, growth=1.0, exponent=2)
    assert moves[1] == moves[0] == moves.max() == pytest.approx(1.0)
    assert moves[-1] == moves[-2] == pytest.approx(1.0)
    assert moves[7] == pytest.approx((100 / (100 + 400 * (arc[1] - 0.5) ** 2)) ** 2)


def test_the_front_is_continued_into_the_bore():
    front = into_bore(extension(circle(), np.full(15, 100.0), 1.0, 2), MOUTH)
    assert (np.hypot(*front[[0, -1]].T) > MOUTH).all()
    assert (np.hypot(*front[1:-1].T) < MOUTH).all()
    depth, length, ligament = measures(front, MOUTH, OUTSIDE)
    assert depth == pytest.approx(5, abs=0.05) and ligament == pytest.approx(10, abs=0.05)
    assert length == pytest.approx(2 * MOUTH * math.asin(5 / MOUTH), rel=0.02)


def test_a_closed_crack_does_not_grow():
    with pytest.raises(BadFront, match="closed"):
        extension(circle(), np.full(15, -1.0), 1.0, 2)
    with pytest.raises(BadFront, match="at least 5"):
        extension(circle(points=4), np.full(4, 1.0), 1.0, 2)


def test_the_deck_is_loaded_as_it_was_told():
    cold, warm = (mechanics.deck(Case(), thermal=thermal) for thermal in (False, True))
    assert "temperature.inp" not in cold and "*EXPANSION" not in cold
    assert warm.index("*EXPANSION") < warm.index("*STEP") < warm.index("temperature.inp")
    assert cold.count("*TRANSFORM") == 2
