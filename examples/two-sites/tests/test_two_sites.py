"""The pipe across two servers: what it gives, and which way the meshes went."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "python/tests"))

from server import Hosted  # noqa: E402

import fishplate  # noqa: E402

PIPE = ROOT / "examples/pipe/services"
A = [PIPE / "gmsh.toml", PIPE / "t4-to-t10.toml"]
B = [PIPE / "tetgen.toml", PIPE / "ccx.toml", HERE / "services/hoop.toml"]
# Bytes of messages, a deck and a number; the meshes and the result have 13 MB.
FEW = 20_000


def test_the_pipe_is_solved_and_no_mesh_comes_here(tmp_path: Path) -> None:
    with (
        Hosted(tmp_path / "a", A, "--allow-private") as a,
        Hosted(tmp_path / "b", B, "--allow-private") as b,
    ):
        command = [sys.executable, str(HERE / "pipe.py"), a.url, b.url]
        told = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert told.returncode == 0, told.stderr
        # The solver's site fetched the mesh from the other one.
        mesh = re.search(r"^mesh: ([\d,]+) bytes from (\S+)$", told.stdout, re.M)
        assert mesh, told.stdout
        assert mesh[2] == a.url
        assert int(mesh[1].replace(",", "")) > 100 * FEW
        computed, exact = map(float, re.findall(r"([\d.]+) MPa", told.stdout))
        assert abs(computed / exact - 1) < 0.005
        sent, received = map(int, re.findall(r"(\d+) (?:sent|received)", told.stdout))
        assert sent < FEW and received < FEW, told.stdout
        # And so it was with every other file that went from site to site.
        went = {
            (name, transfer.parameter): (transfer.peer, transfer.state)
            for host in (a, b)
            for name, service in ((name, fishplate.Service(url)) for name, url in host.urls.items())
            for listed in service.jobs()
            for transfer in service.job(listed.id).status.transfers
        }
        assert went["tetgen", "surface"] == (a.url, "done")
        for parameter in ("nodes", "elements", "faces"):
            assert went["t4-to-t10", parameter] == (b.url, "done")
        # What site B has already, it does not fetch.
        assert went["hoop", "field"][1] == "done"
