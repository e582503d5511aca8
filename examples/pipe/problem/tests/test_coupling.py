"""Gas and wall in turns, by services at three sites."""

import os
import sys
import tempfile
from pathlib import Path

import meshio
import numpy as np
import pytest

pytest.importorskip("fishplate", reason="the Python package is not installed (maturin develop, in python/)")

import calculix  # noqa: E402
import fishplate.errors  # noqa: E402
from pipeproblem import coupling  # noqa: E402
from pipeproblem.heat_validation import STRAIGHT_TOLERANCE, mesh_solid  # noqa: E402
from pipeproblem.sites import Sites, closed_to_others  # noqa: E402
from pipedemo.case import Case as Cylinder  # noqa: E402

ROOT = Path(__file__).resolve().parents[4]
PLACES = [Path(os.environ.get("FISHPLATE", "fishplate")), *(ROOT / "target" / kind / "fishplate" for kind in ("debug", "release"))]
BINARY = next((place for place in PLACES if place.is_file()), None)
PIPE = Cylinder(inner=20, outer=35, length=50, mesh_size=8, tet_volume=120)
COARSE = coupling.GasMesh(layers=3, first=0.4, growth=1.8, size=10)
TOLERANCE = 0.2
HOT = coupling.Conditions(temperature=1200, outside_coefficient=5000, conductivity=20)


@pytest.fixture(scope="module")
def sites():
    if BINARY is None:
        pytest.fail("no fishplate binary: please build it (cargo build), or name it in FISHPLATE")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    told = []
    # Others may enter it, unlike pytest's, so that the sites have users of their own if they can.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with Sites(BINARY, Path(name), environment, told.append, names=("flow-mesh", "flow", "solid")) as found:
            found.told = told
            yield found


@pytest.fixture(scope="module")
def solid(tmp_path_factory):
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{before}"
    yield mesh_solid(tmp_path_factory.mktemp("solid"), PIPE)
    os.environ["PATH"] = before


def couple(run, sites, solid, **options):
    surface = run.put(solid[0], sites.urls["generalized-mesher"])
    mesh = run.put(solid[1], sites.urls["thermal"])
    options = {"mesh": COARSE, "tolerance": TOLERANCE, "gas_tolerance": STRAIGHT_TOLERANCE, "conditions": HOT} | options
    return coupling.couple(run, sites, surface, mesh, **options)


def heat_into_the_wall(path):
    """What the gas gives, as OpenFOAM has it, W."""
    mesh = meshio.read(path)
    corners = mesh.points[mesh.cells[0].data]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    return float((mesh.cell_data["heat_flux"][0] * area).sum())


def heat_that_leaves(mesh, temperature):
    """What the coolant outside takes from the solid, by the temperatures that it has there, W."""
    solid = calculix.read_mesh(mesh)
    rows = [line.split(",") for line in temperature.read_text().splitlines() if not line.startswith("*")]
    kelvin = {int(node): float(value) for node, value in rows}
    faces = solid.faces("SURFACE_2")
    a, b, c = (solid.points[solid.rows(faces[:, k])] * 1e-3 for k in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    # A quadratic triangle's mean is that of its mid-side nodes.
    mean = np.array([[kelvin[node] for node in face] for face in faces[:, 3:].tolist()]).mean(1)
    return float((area * (mean - HOT.outside_temperature)).sum()) * HOT.outside_coefficient


def test_gas_and_wall_agree_across_sites(sites, solid, tmp_path, monkeypatch):
    # `put` asks the environment whom to trust and who calls.
    monkeypatch.setenv("SSL_CERT_FILE", str(sites.authority))
    monkeypatch.setenv("FISHPLATE_TOKEN", "")
    monkeypatch.setenv("NETRC", str(sites.folder / "solid" / ".netrc"))
    with fishplate.Run("coupled", tmp_path / "coupled.run") as run:
        coupled = couple(run, sites, solid)
        residuals = coupled.residuals
        assert residuals[-1] < TOLERANCE < residuals[0]
        wall, nodes = coupled.wall.save(tmp_path / "wall.vtu"), coupled.temperature.save(tmp_path / "temperature.inp")
        bore = meshio.read(coupled.wall_temperature.save(tmp_path / "bore.vtu")).point_data["temperature"]
        jobs = {name: len(list((sites.folder / name / "data" / "jobs").iterdir())) for name in sites.names}
    assert heat_that_leaves(solid[1], nodes) == pytest.approx(heat_into_the_wall(wall), rel=0.01)
    assert abs(coupled.imbalance) < 0.02 and coupled.y_plus > 30
    assert 300 < bore.min() < bore.max() < 1200
    # Again, and nothing is done again.
    with fishplate.Run("coupled", tmp_path / "coupled.run") as run:
        assert couple(run, sites, solid).residuals == residuals
    assert jobs == {name: len(list((sites.folder / name / "data" / "jobs").iterdir())) for name in sites.names}


def test_each_site_is_a_user_of_its_own_or_it_is_said_why_not(sites):
    read = (sites.folder, BINARY, Path(sys.executable), Path(sys.prefix) / "lib", Path(fishplate.__file__), ROOT)
    users = [os.stat(f"/proc/{server.process.pid}").st_uid for server in sites.servers.values()]
    if os.geteuid() != 0 or closed_to_others(*read):
        assert sites.told[0].startswith("the sites run as this user: ")
        assert set(users) == {os.geteuid()}
    else:
        assert sites.told == []
        assert len(set(users)) == len(users) == 3
        assert os.geteuid() not in users


def test_what_is_closed_to_other_users_is_told():
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), Path(name) / "program"
        file.touch(0o600)
        folder.chmod(0o755)
        assert f"can't read {file}, for {file}: `chmod o+r {file}`, or " in closed_to_others(file)
        file.chmod(0o644)
        assert closed_to_others(file) == ""
        folder.chmod(0o700)
        assert f"can't enter {folder}, for {file}: `chmod o+x {folder}`, or " in closed_to_others(file)


def test_gas_and_wall_that_do_not_agree_in_time_are_told(sites, solid, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(sites.authority))
    monkeypatch.setenv("NETRC", str(sites.folder / "solid" / ".netrc"))
    with fishplate.Run("hasty", tmp_path / "hasty.run") as run:
        with pytest.raises(coupling.NotCoupled, match=r"after 2 solutions .* 1e-09 K wanted"):
            couple(run, sites, solid, tolerance=1e-9, steps=2, iterations=3)
        with pytest.raises(ValueError, match="at least 2"):
            couple(run, sites, solid, steps=1)


def test_gas_that_has_not_converged_does_not_count(sites, solid, tmp_path, monkeypatch):
    """However little the bore's temperature changes."""
    monkeypatch.setenv("SSL_CERT_FILE", str(sites.authority))
    monkeypatch.setenv("NETRC", str(sites.folder / "solid" / ".netrc"))
    with fishplate.Run("unfinished", tmp_path / "unfinished.run") as run:
        with pytest.raises(coupling.NotCoupled, match="the gas has not converged"):
            couple(run, sites, solid, tolerance=1e9, steps=2, iterations=3)


def test_who_does_not_log_in_is_refused(sites):
    for name, url in sites.urls.items():
        with pytest.raises(fishplate.errors.Unauthenticated):
            fishplate.Service(url, ca_file=sites.authority, auth="wrong")
        assert url.startswith("https://"), name


def test_a_site_is_trusted_only_by_who_knows_its_authority(sites, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(fishplate.Error, match="trusted"):
        fishplate.Service(sites.urls["thermal"], auth=sites.settings["auth"])


def test_sites_started_again_are_as_they_were(sites):
    authority = sites.authority.read_bytes()
    with Sites(sites.binary, sites.folder, sites.environment, lambda _: None, names=()) as again:
        assert again.authority.read_bytes() == authority
        assert again.password == sites.password
