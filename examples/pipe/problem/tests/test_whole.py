"""One crack step of the whole problem, coarse, through all six sites: gas, heat, stress, crack."""

import argparse
import os
from pathlib import Path
from xml.etree import ElementTree

import calculix
import fishplate
import meshio
import numpy as np
import pytest
import t4_to_t10
from crack_front import read_deck
from domain_integral import read_pressure
from paraview_reader import read_as_paraview
from pipeproblem import coupling, crack, fields
from pipeproblem.__main__ import solve
from pipeproblem.case import Case, Size
from pipeproblem.sites import NAMES, Sites

ROOT = Path(__file__).resolve().parents[4]
BINARY = Path(os.environ.get("FISHPLATE", ROOT / "target" / "debug" / "fishplate"))
CASE = Case(size=Size(9.0, 1.5, 200.0))


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    with Sites(BINARY, tmp_path_factory.mktemp("sites"), dict(os.environ), print) as started:
        assert tuple(started.servers) == NAMES
        yield started


@pytest.fixture(scope="module")
def grown(sites, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    wanted = argparse.Namespace(volume_mesher="tetgen", solver="calculix", pressure=None, size="coarse", steps=1, output=folder)
    with fishplate.Run("whole", folder / "whole.run", progress=False) as run:
        (step,) = solve(run, sites, CASE, wanted)
        for name in ("surface", "volume", "solid", "result"):
            getattr(step, name).save(folder / name)
        for name in ("pressure", "temperature"):
            getattr(step.load, name).save(folder / name)
        assert fields.save(run, sites, [step], folder) == folder / "crack.pvd"
    return folder, step


def test_the_gas_presses_on_both_sides_of_the_crack(grown):
    folder, _ = grown
    deck, mesh = read_deck(folder / "solid"), calculix.read_mesh(folder / "solid")
    pressed = read_pressure(folder / "pressure", deck)
    wall = meshio.read(folder / "fields/wall-1.vtu")
    middles, gas = wall.points[wall.cells[0].data].mean(1) * 1e3, wall.cell_data["pressure"][0] * 1e-6
    for side in ("SURFACE_5A", "SURFACE_5B"):
        faces = [tuple(face) for face in mesh.surfaces[side].tolist()]
        nearest = np.linalg.norm(mesh.centres(side)[:, None] - middles[None], axis=2).argmin(1)
        assert len(faces) > 20
        assert [pressed[face] for face in faces] == pytest.approx(gas[nearest].tolist(), rel=1e-4)
        assert min(pressed[face] for face in faces) > 0.9e-6 * CASE.gas.pressure
    for surface, pressure in (("SURFACE_2", CASE.gas.outside_pressure), ("SURFACE_6", CASE.gas.passage_pressure)):
        assert np.array([pressed[tuple(face)] for face in mesh.surfaces[surface].tolist()]) == pytest.approx(pressure * 1e-6)


def test_the_solid_is_read_by_programs_of_the_field(grown):
    """Where the gas's fields are, and in SI as they are: what the mechanical solver said in mm and MPa."""
    folder, _ = grown
    solid, wall = (meshio.read(folder / f"fields/{name}-1.vtu") for name in ("solid", "wall"))
    mesh = calculix.read_mesh(folder / "solid")
    (cells,) = solid.cells
    assert cells.type == "tetra10" and len(cells.data) == len(mesh.elements)
    ends = solid.points[cells.data]
    between = [(0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3)]
    middles = np.stack([(ends[:, one] + ends[:, other]) / 2 for one, other in between], axis=1)
    far = np.abs(middles - ends[:, 4:]).max(axis=(1, 2))
    assert np.median(far) < 1e-9, "each node in the middle of its edge, but at the crack's front"
    assert np.ptp(wall.points, axis=0) == pytest.approx(np.ptp(solid.points, axis=0), rel=0.5)
    data = solid.point_data
    for name, width, factor in (("DISP", 3, 1e-3), ("STRESS", 6, 1e6), ("NDTEMP", 1, 1.0)):
        _, told = calculix.read_results(folder / "result", name, width)
        found = data[{"DISP": "displacement", "STRESS": "stress", "NDTEMP": "temperature"}[name]]
        assert found.reshape(told.shape) == pytest.approx(told * factor, rel=1e-6)
    xx, yy, zz, xy, yz, xz = data["stress"].T
    tensor = np.stack([xx, xy, xz, xy, yy, yz, xz, yz, zz], axis=1).reshape(-1, 3, 3)
    deviator = tensor - np.trace(tensor, axis1=1, axis2=2)[:, None, None] / 3 * np.eye(3)
    assert data["von_mises"] == pytest.approx(np.sqrt(1.5 * (deviator**2).sum(axis=(1, 2))))
    paraview = read_as_paraview(folder / "fields/solid-1.vtu")
    assert (paraview.points == solid.points).all() and len(paraview.types) == len(cells.data)
    assert paraview.point_data.keys() == data.keys()
    assert all((paraview.point_data[name] == values).all() for name, values in data.items())


def test_meshes_and_fields_are_a_collection_for_paraview(grown):
    folder, _ = grown
    sets = [one.attrib for one in ElementTree.parse(folder / "crack.pvd").iter("DataSet")]
    names = [one["name"] for one in sets]
    assert names == ["surface", "volume", "solid", "gas", "wall"]
    assert [(one["timestep"], one["part"]) for one in sets] == [("1", str(part)) for part in range(5)]
    grids = {one["name"]: read_as_paraview(folder / one["file"]) for one in sets}
    points, tets, faces = t4_to_t10.medit(folder / "volume")
    assert len(grids["volume"].points) == len(points) and len(grids["volume"].types) == len(tets) + len(faces)
    assert len(grids["surface"].types) == len(t4_to_t10.medit(folder / "surface", filled=False)[2])
    for name in ("volume", "solid"):
        assert np.ptp(grids[name].points, axis=0) == pytest.approx(np.ptp(grids["surface"].points, axis=0))
    # Gas and wall have agreed: the bore of the solid is as hot as the gas's wall.
    mesh = calculix.read_mesh(folder / "solid")
    bore = grids["solid"].point_data["temperature"][mesh.rows(mesh.sets["NODES_1"])]
    assert bore.mean() == pytest.approx(grids["wall"].cell_data["temperature"].mean(), abs=2)
    assert grids["gas"].cell_data["temperature"].max() > bore.max() + 10


def test_the_temperatures_reach_the_stress_and_the_stress_intensities(sites, grown, tmp_path):
    folder, step = grown
    lines = [line.split(",") for line in (folder / "temperature").read_text().splitlines() if line[0] != "*"]
    told = {int(node): float(kelvin) for node, kelvin in lines}
    nodes, kelvin = calculix.read_temperatures(folder / "result")
    assert kelvin == pytest.approx([told[node] for node in nodes.tolist()], rel=1e-4)
    assert CASE.gas.passage_temperature < kelvin.min() < kelvin.max() - 10 < CASE.gas.temperature
    with fishplate.Run("less", tmp_path / "less.run", progress=False) as run:
        used = crack.services(run, sites.urls, "volume-mesher-tetgen", **sites.settings)
        material = CASE.material
        less = used.fracture_mechanics(
            mesh=step.solid, result=step.result, pressure=step.load.pressure, young=material.young, poisson=material.poisson,
            expansion=0.9 * material.expansion, reference=CASE.reference_temperature,
        ).intensities  # fmt: skip
    assert step.intensities[:, 3].min() > 0
    assert np.abs(less[:, 3] / step.intensities[:, 3] - 1).max() > 0.01


def test_gas_and_wall_go_on_from_the_step_before(sites, grown, tmp_path):
    """On the same mesh: they agree after one solution, where the first began with none."""
    _, step = grown
    with fishplate.Run("next", tmp_path / "next.run", progress=False) as run:
        again = coupling.couple(run, sites, step.surface, step.solid, step.load.coupled)
    assert len(step.load.coupled.residuals) >= 2
    assert len(again.residuals) == 1


def test_the_meshing_loop_calls_only_the_sites(sites, tmp_path):
    """It logs in where it calls: a caller can't have the password sent elsewhere, or in the clear."""
    shape = {"front": CASE.first_front(), "size": 9, "crack_size": 3, "tet_volume": 500}
    with fishplate.Run("stray", tmp_path / "stray.run", progress=False) as run:
        used = crack.services(run, sites.urls, "volume-mesher-tetgen", **sites.settings)
        plain = used.meshers["mesh_check"].replace("https:", "http:")
        for stranger in ("https://127.0.0.1:1/services/mesh-check", plain):
            with pytest.raises(fishplate.Error, match="mesh_check: .* is none of the sites"):
                used.meshing_loop(**used.meshers | {"mesh_check": stranger}, **shape)
