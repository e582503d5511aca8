"""The chain with the real programs, run directly, and what judges them."""

import math
import os
import sys

import numpy as np
import pytest
from conftest import PIPE
from pipedemo import bench, chain, report, stress
from pipedemo.case import Case
from pipedemo.picture import cut_quadrant, draw
from pipedemo.process import Failed
from pipedemo.runner import Direct

BIN = str(PIPE.parent.parent / ".venv" / "bin")
COARSE = Case(inner=20, outer=40, length=40, pressure=80, mesh_size=5, tet_volume=40)


@pytest.fixture(scope="module")
def direct():
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    return Direct(sorted((PIPE / "services").glob("*.toml")), environment)


@pytest.fixture(scope="module")
def solved(direct, tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain")
    rows = []

    def run(step):
        files, row = bench.run_step(step, {"direct": direct}, folder, 2, lambda text: None)
        rows.append(row)
        return files

    surface = run(chain.surface_mesher(COARSE))
    volume = run(chain.volume_mesher(COARSE, surface["surface"]))
    converted = run(chain.converter(**volume))
    deck = folder / "job.inp"
    deck.write_text(chain.input_deck(COARSE, volume["nodes"]))
    result = run(chain.solver(deck, converted["mesh"]))["result"]
    return stress.read_frd(result), chain.mesh_counts(volume), rows


def test_lame_fulfils_its_boundary_conditions_and_equilibrium():
    case = Case(inner=30, outer=70, pressure=50)
    assert case.radial(30) == pytest.approx(-50)
    assert case.radial(70) == pytest.approx(0)
    r, h = 45.0, 1e-4
    slope = (case.radial(r + h) - case.radial(r - h)) / (2 * h)
    assert slope + (case.radial(r) - case.hoop(r)) / r == pytest.approx(0, abs=1e-6)


def test_the_computed_stresses_are_lames(solved):
    field, _, _ = solved
    hoop = stress.bore_hoop(COARSE, field)
    assert hoop.closed_form == pytest.approx(80 * (400 + 1600) / (1600 - 400))
    assert abs(hoop.error) < 1
    at_hoop, at_radial, axial = field.rotated()
    r = field.radius
    assert np.abs(at_hoop - COARSE.hoop(r)).mean() < 0.02 * hoop.closed_form
    assert np.abs(at_radial - COARSE.radial(r)).mean() < 0.02 * hoop.closed_form
    assert axial.mean() == pytest.approx(COARSE.axial(), rel=0.02)


def test_the_mesh_is_the_pipe(solved):
    field, (vertices, triangles, tets), _ = solved
    assert len(field.elements) == tets
    assert len(stress.outer_faces(field.elements)) == triangles
    corners = field.points[field.elements[:, :4]]
    volume = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])).sum() / 6
    exact = math.pi * (COARSE.outer**2 - COARSE.inner**2) * COARSE.length
    assert volume == pytest.approx(exact, rel=0.02)
    assert vertices < len(field.points)


def test_the_mean_over_the_bore_is_the_fields_mean(solved):
    """A made-up field whose mean over the bore is known: stress xx = yy = 7 + z."""
    field, _, _ = solved
    made = np.zeros_like(field.stress)
    made[:, 0] = made[:, 1] = 7 + field.points[:, 2]
    hoop = stress.bore_hoop(COARSE, stress.Field(field.points, field.elements, made))
    assert hoop.computed == pytest.approx(7 + COARSE.length / 2, rel=0.02)


def test_the_cut_is_where_it_should_be(solved):
    field, _, _ = solved
    scene = cut_quadrant(COARSE, field)
    centre = scene.triangles.mean(1)
    assert not ((centre[:, 0] > 0.01) & (centre[:, 1] > 0.01)).any()
    flat = np.cross(
        scene.triangles[:, 1] - scene.triangles[:, 0], scene.triangles[:, 2] - scene.triangles[:, 0]
    )
    area = np.linalg.norm(flat, axis=1) / 2
    for axis in (0, 1):
        on = (np.abs(scene.triangles[..., axis]).max(1) < 1e-3) & (scene.normal[:, 0, axis] == 1)
        wall = (COARSE.outer - COARSE.inner) * COARSE.length
        assert area[on].sum() == pytest.approx(wall, rel=0.01)
        assert (flat[on, axis] >= 0).all()


def test_the_picture_is_drawn(solved, tmp_path):
    field, counts, _ = solved
    draw(
        COARSE,
        field,
        stress.bore_hoop(COARSE, field),
        counts,
        tmp_path / "pipe.png",
        services=False,
    )
    assert (tmp_path / "pipe.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_tables_say_what_was_measured(solved):
    field, counts, rows = solved
    assert [len(row.times["direct"]) for row in rows] == [2, 2, 2, 2]
    for row in rows:
        row.times["service"] = [time * 1.5 for time in row.times["direct"]]
    table = report.time_table(rows)
    assert table.count("+50.0 %") == 5
    figures = report.figures(COARSE, counts, stress.bore_hoop(COARSE, field), rows)
    assert figures["total"]["service"] == pytest.approx(1.5 * figures["total"]["direct"])
    assert figures["overhead"]["per_cent"] == pytest.approx(50)
    line = report.hoop_line(stress.bore_hoop(COARSE, field))
    assert line.startswith("Lame hoop stress at the bore: computed 13") and line.endswith(" %")


def test_different_results_are_noticed(tmp_path):
    step = chain.Step("gmsh", "Mesher")
    one, other = tmp_path / "1.frd", tmp_path / "2.frd"
    text = "    1UDATE   {}\n    1UPGM  ccx\n    2C\n -1 {}\n"
    one.write_text(text.format("today", 1))
    other.write_text(text.format("tomorrow", 1))
    bench.check_same(step, {"result": one}, {"result": other})
    other.write_text(text.format("today", 2))
    with pytest.raises(Failed, match="differs"):
        bench.check_same(step, {"result": one}, {"result": other})


def test_gmsh_that_refuses_is_noticed(direct, tmp_path):
    step = chain.Step("gmsh", "m", {"inner": "90", "outer": "80"}, {}, {"surface": "s"})
    with pytest.raises(Failed, match="inner radius must be smaller"):
        direct.run(step, tmp_path / "run")


def test_tetgen_that_fills_nothing_and_ends_with_0_is_noticed(direct, tmp_path):
    surface = direct.run(chain.surface_mesher(COARSE), tmp_path / "gmsh").files["surface"]
    lines = surface.read_text().splitlines()
    start = (
        lines.index("Triangles")
        if "Triangles" in lines
        else [x.strip() for x in lines].index("Triangles")
    )
    count = int(lines[start + 1])
    holed = [*lines[: start + 1], str(count - 20), *lines[start + 22 :]]
    surface.write_text("\n".join(holed))
    with pytest.raises(Failed, match="Mesh tetrahedra: 0"):
        direct.run(chain.volume_mesher(COARSE, surface), tmp_path / "tetgen")


def test_ccx_that_misses_an_include_and_ends_with_0_is_noticed(direct, tmp_path):
    deck = tmp_path / "deck"
    deck.write_text("*INCLUDE, INPUT=elsewhere.inp\n")
    step = chain.Step("ccx", "s", {}, {"deck": deck}, {"result": "r"})
    with pytest.raises(Failed, match="cannot open file elsewhere.inp"):
        direct.run(step, tmp_path / "run")


@pytest.mark.parametrize(
    "wrong",
    [
        {"inner": 100.0},
        {"pressure": 0.0},
        {"poisson": 0.5},
        {"length": math.nan},
        {"young": math.inf},
    ],
)
def test_senseless_cases_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        Case(**wrong)


def test_python_is_the_venvs():
    assert sys.prefix != sys.base_prefix
