#!/usr/bin/env python3
"""Writes a mesh as VTU, in SI: a surface or volume mesh (Medit, mm), or that of a deck of CalculiX's (C3D10, mm), the latter
with results at its nodes if there are any. Ours; no third party's."""

import argparse
import sys
from pathlib import Path

import meshio
import numpy as np
from calculix import BadDeck, read_mesh, read_results
from vtu import BadField

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from t4_to_t10 import BadMesh, medit

METRES = 1e-3  # a mm
RESULTS = {"displacement": ("DISP", 3, METRES), "stress": ("STRESS", 6, 1e6), "temperature": ("NDTEMP", 1, 1.0)}
"""CalculiX's names, how many values a node has, and what one is in SI. Stress: xx, yy, zz, xy, yz, xz."""


def of_medit(path: Path) -> meshio.Mesh:
    """The tetrahedra of a Medit mesh, if it has any, and the triangles that have a reference, which is cell data."""
    vertices, tets, faces = medit(path, filled=False)
    every = (
        ("tetra", list(tets.values()), [0] * len(tets)),
        ("triangle", [corners for corners, _ in faces.values()], [mark for _, mark in faces.values()]),
    )
    cells = [(kind, np.array(corners) - 1) for kind, corners, _ in every if corners]
    if not cells or any(rows.min() < 0 or rows.max() >= len(vertices) for _, rows in cells):
        raise BadField(f"{path.name}: no cells, or cells of vertices that are not there")
    references = [np.array(marks) for _, corners, marks in every if corners]
    return meshio.Mesh(np.array(list(vertices.values())) * METRES, cells, cell_data={"reference": references})


def of_deck(path: Path, result: Path | None) -> meshio.Mesh:
    """The ten-node tetrahedra of a deck, with what a result file has at their nodes."""
    solid = read_mesh(path)
    if not np.isin(solid.elements[:, 1:], solid.nodes).all():
        raise BadField(f"{path.name}: elements of nodes that are not there")
    data = at_nodes(solid.nodes, result) if result else {}
    # Their nodes stand in the same order in both formats.
    return meshio.Mesh(solid.points * METRES, [("tetra10", solid.rows(solid.elements[:, 1:]))], point_data=data)


def at_nodes(wanted: np.ndarray, result: Path) -> dict[str, np.ndarray]:
    """What a result file has at the nodes of these numbers, in SI, and the equivalent stress of von Mises."""
    data = {}
    for name, (called, width, factor) in RESULTS.items():
        try:
            nodes, values = read_results(result, called, width)
        except BadDeck:
            continue  # It has none.
        except (ValueError, IndexError) as error:
            raise BadField(f"{result.name}: {called}: {error}") from None
        if not np.array_equal(nodes, wanted):
            raise BadField(f"{result.name} has {called} at other nodes than the mesh's")
        data[name] = (values if width > 1 else values[:, 0]) * factor
    if not data:
        raise BadField(f"{result.name} has none of {', '.join(called for called, _, _ in RESULTS.values())}")
    if "stress" in data:
        normal, shear = data["stress"][:, :3], data["stress"][:, 3:]
        differences = ((normal - np.roll(normal, 1, axis=1)) ** 2).sum(1)
        data["von_mises"] = np.sqrt(differences / 2 + 3 * (shear**2).sum(1))
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mesh", type=Path, help="Medit, or the mesh as t4_to_t10.py writes it")
    parser.add_argument("grid", type=Path, help="written: VTU")
    parser.add_argument("--result", type=Path, help="a solver's .frd on that mesh: displacements, stresses, temperatures")
    wanted = parser.parse_args()
    name = wanted.mesh.name
    try:
        with wanted.mesh.open("rb") as file:
            is_deck = file.read(1) == b"*"  # A card or a comment; Medit begins with a word.
        if wanted.result and not is_deck:
            raise BadField(f"{name} is Medit: a result wants the mesh that was solved, C3D10")
        grid = of_deck(wanted.mesh, wanted.result) if is_deck else of_medit(wanted.mesh)
        meshio.write(wanted.grid, grid, "vtu")
    except (BadField, BadMesh, OSError) as error:
        sys.exit(f"vtu_writer: {error}")
    except (BadDeck, IndexError, KeyError, ValueError) as error:
        sys.exit(f"vtu_writer: {name} is no mesh: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
