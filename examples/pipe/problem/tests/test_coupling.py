"""Gas and wall in turns, by services at three sites."""

import os
import sys
from pathlib import Path

import meshio
import numpy as np
import pytest

pytest.importorskip("fishplate", reason="the Python package is not installed (maturin develop, in python/)")

import fishplate.errors  # noqa: E402
from pipeproblem import coupling  # noqa: E402
from pipeproblem.heat_validation import mesh_solid  # noqa: E402
from pipeproblem.sites import Sites  # noqa: E402
from pipedemo.case import Case as Cylinder  # noqa: E402

ROOT = Path(__file__).resolve().parents[4]
PLACES = [Path(os.environ.get("FISHPLATE", "fishplate")), *(ROOT / "target" / kind / "fishplate" for kind in ("debug", "release"))]
BINARY = next((place for place in PLACES if place.is_file()), None)
PIPE = Cylinder(inner=20, outer=35, length=50, mesh_size=8, tet_volume=120)
COARSE = coupling.GasMesh(layers=3, first=0.4, growth=1.8, size=10)
TOLERANCE = 2.0


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    if BINARY is None:
        pytest.fail("no fishplate binary: please build it (cargo build), or name it in FISHPLATE")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    folder = tmp_path_factory.mktemp("sites")
    told = []
    with Sites(BINARY, folder, environment, told.append, names=("flow-mesh", "flow", "solid")) as found:
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
    options = {"mesh": COARSE, "tolerance": TOLERANCE, "iterations": 60} | options
    return coupling.couple(run, sites, surface, mesh, **options)


def heat(path, column):
    """What flows through the triangles of a wall, W."""
    mesh = meshio.read(path)
    corners = mesh.points[mesh.cells[0].data[:, :3]]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    return float((column(mesh) * area).sum())


def test_gas_and_wall_agree_across_sites(sites, solid, tmp_path, monkeypatch):
    # `put` asks the environment whom to trust and who calls.
    monkeypatch.setenv("SSL_CERT_FILE", str(sites.authority))
    monkeypatch.setenv("FISHPLATE_TOKEN", "")
    monkeypatch.setenv("NETRC", str(sites.folder / "solid" / ".netrc"))
    with fishplate.Run("coupled", tmp_path / "coupled.run") as run:
        coupled = couple(run, sites, solid)
        residuals = coupled.residuals
        assert residuals[-1] < TOLERANCE < residuals[0]
        wall, bore = coupled.wall.save(tmp_path / "wall.vtu"), coupled.wall_temperature.save(tmp_path / "bore.vtu")
        jobs = {name: len(list((sites.folder / name / "data" / "jobs").iterdir())) for name in sites.names}
    # What the gas gives with the wall's temperature before, the wall takes with that after.
    given = heat(wall, lambda mesh: mesh.cell_data["heat_flux"][0])
    temperature = meshio.read(bore).point_data["temperature"]
    triangles = meshio.read(bore).cells[0].data
    film = meshio.read(wall)
    order = np.linalg.norm(
        meshio.read(bore).points[triangles[:, :3]].mean(1)[:, None] - film.points[film.cells[0].data].mean(1)[None], axis=2
    ).argmin(1)
    taken = heat(
        bore,
        lambda _: film.cell_data["film_coefficient"][0][order]
        * (film.cell_data["film_temperature"][0][order] - temperature[triangles[:, 3:]].mean(1)),
    )
    assert taken == pytest.approx(given, rel=0.03)
    assert 400 < temperature.min() < temperature.max() < 1200
    # Again, and nothing is done again.
    with fishplate.Run("coupled", tmp_path / "coupled.run") as run:
        assert couple(run, sites, solid).residuals == residuals
    assert jobs == {name: len(list((sites.folder / name / "data" / "jobs").iterdir())) for name in sites.names}


def test_each_site_is_a_user_of_its_own_or_it_is_said_why_not(sites):
    users = [os.stat(f"/proc/{server.process.pid}").st_uid for server in sites.servers.values()]
    if sites.told:
        assert sites.told[0].startswith("the sites run as this user: ")
        assert set(users) == {os.geteuid()}
    else:
        assert len(set(users)) == len(users) == 3
        assert os.geteuid() not in users


def test_gas_and_wall_that_do_not_agree_in_time_are_told(sites, solid, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(sites.authority))
    monkeypatch.setenv("NETRC", str(sites.folder / "solid" / ".netrc"))
    with fishplate.Run("hasty", tmp_path / "hasty.run") as run:
        with pytest.raises(coupling.NotCoupled, match=r"after 2 solutions .* 1e-09 K wanted"):
            couple(run, sites, solid, tolerance=1e-9, steps=2, iterations=3)
        with pytest.raises(ValueError, match="at least 2"):
            couple(run, sites, solid, steps=1)


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
