"""The converter against CalculiX: patch tests. A uniform stress must come out exactly, whatever
the elements' shapes; a wrong node order, face number or orientation spoils it."""

import subprocess

import numpy as np
import pytest
import t4_to_t10
from pipedemo.stress import read_frd

YOUNG, POISSON = 1000.0, 0.3
MATERIAL = f"""*INCLUDE, INPUT=mesh.inp
*MATERIAL, NAME=WALL
*ELASTIC
{YOUNG}, {POISSON}
*SOLID SECTION, ELSET=SOLID, MATERIAL=WALL
*STEP
*STATIC, SOLVER=SPOOLES
*BOUNDARY
"""
WANTED = "*NODE FILE\nU\n*EL FILE\nS\n*END STEP\n"


def solve(folder, cube_files, step):
    t4_to_t10.convert(*cube_files, folder / "mesh.inp")
    (folder / "job.inp").write_text(MATERIAL + step + WANTED)
    done = subprocess.run(
        ["ccx", "-i", "job"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "*ERROR" not in done.stdout, done.stdout[-2000:]
    return read_frd(folder / "job.frd")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_pressure_on_a_side_gives_a_uniform_stress(tmp_path, cube_files, axis):
    held = "".join(f"NODES_{2 * k + 1}, {k + 1}, {k + 1}\n" for k in range(3))
    field = solve(tmp_path, cube_files, f"{held}*DSLOAD\nSURFACE_{2 * axis + 2}, P, 12.5\n")
    wanted = np.zeros(6)
    wanted[axis] = -12.5
    assert len(field.points) == 35 and len(field.elements) == 12
    assert np.allclose(field.stress, wanted, atol=1e-4)


def test_a_linear_displacement_gives_a_uniform_stress(tmp_path, cube_files, cube_mesh):
    gradient = np.array([[1.0, 2.0, -1.0], [0.5, -1.5, 1.0], [3.0, 0.0, 2.0]]) * 1e-3
    points, tets, faces = cube_mesh
    nodes, elements, _ = t4_to_t10.raise_order(points, tets)
    parts = t4_to_t10.boundary(elements, faces)
    outside = sorted({node for on_nodes, _ in parts.values() for node in on_nodes})
    assert len(outside) < len(nodes)
    held = ""
    for node in outside:
        for axis, value in enumerate(gradient @ nodes[node], 1):
            held += f"{node}, {axis}, {axis}, {value:.12g}\n"
    field = solve(tmp_path, cube_files, held)
    strain = (gradient + gradient.T) / 2
    mu = YOUNG / (2 * (1 + POISSON))
    lame = YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
    stress = 2 * mu * strain + lame * np.trace(strain) * np.eye(3)
    wanted = [stress[0, 0], stress[1, 1], stress[2, 2], stress[0, 1], stress[1, 2], stress[0, 2]]
    assert np.allclose(field.stress, wanted, atol=1e-4)
