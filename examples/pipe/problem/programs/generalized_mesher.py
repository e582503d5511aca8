#!/usr/bin/env python3
"""The generalized mesher (paper 000, section 2): prisms along the wall of the bore, tetrahedra within.

    generalized_mesher.py SURFACE.mesh POLYMESH --layers N --first MM --growth RATIO --size MM

Runs Gmsh, gmshToFoam and checkMesh, one after the other, unmodified. What is ours: the triangles of the bore
(reference 1) are taken out of the surface mesh and turned inwards, and the patches get their names: `wall`, `inlet`
(at the triangles of reference 3), `outlet`. POLYMESH is OpenFOAM's mesh, in m.
"""

import argparse
import sys
from pathlib import Path

import meshio
import numpy as np

import openfoam
from openfoam import BadCase

BORE, INLET = 1, 3
MILLIMETRE = 1e-3


def inwards(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """The triangles of a tube, turned so that all normals point into it."""
    turned = triangles.copy()
    sides: dict[frozenset, list[int]] = {}
    for number, (a, b, c) in enumerate(triangles.tolist()):
        for edge in ((a, b), (b, c), (c, a)):
            sides.setdefault(frozenset(edge), []).append(number)
    if any(len(numbers) > 2 for numbers in sides.values()):
        raise BadCase("an edge of the bore belongs to more than two triangles")

    def directed(number: int) -> list[tuple[int, int]]:
        a, b, c = turned[number].tolist()
        return [(a, b), (b, c), (c, a)]

    seen, waiting = {0}, [0]
    while waiting:
        here = waiting.pop()
        for edge in directed(here):
            for other in sides[frozenset(edge)]:
                if other not in seen:
                    if edge in directed(other):
                        turned[other] = turned[other][[1, 0, 2]]
                    seen.add(other)
                    waiting.append(other)
    if len(seen) != len(triangles):
        raise BadCase("the triangles of the bore do not hang together")
    # The volume that the tube and its ends enclose, the ends closed by fans around their centres.
    ends = [edge[::-1] for n in range(len(turned)) for edge in directed(n) if len(sides[frozenset(edge)]) == 1]
    a, b, c = (points[turned[:, k]] for k in range(3))
    volume = np.einsum("ij,ij->", a, np.cross(b, c)) / 6
    for loop in loops(ends):
        p, q = points[[edge[0] for edge in loop]], points[[edge[1] for edge in loop]]
        volume += np.einsum("ij,j->", np.cross(p, q), p.mean(0)) / 6
    return turned[:, [1, 0, 2]] if volume > 0 else turned


def loops(edges: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Closed chains of directed edges."""
    following = dict(edges)
    found = []
    while following:
        start = here = next(iter(following))
        chain = []
        while here in following:
            there = following.pop(here)
            chain.append((here, there))
            here = there
        if here != start:
            raise BadCase("an end of the bore is not closed")
        found.append(chain)
    return found


def take_bore(surface: Path, bore: Path) -> np.ndarray:
    """Writes the bore's triangles, turned inwards, and gives the centre of the end where the gas comes in, mm."""
    try:
        mesh = meshio.read(surface, "medit")
    except (meshio.ReadError, ValueError, IndexError, KeyError) as error:
        raise BadCase(f"the surface is no Medit mesh: {error}") from None
    blocks = [k for k, block in enumerate(mesh.cells) if block.type == "triangle"]
    if not blocks:
        raise BadCase("the surface has no triangles")
    triangles = np.concatenate([mesh.cells[k].data for k in blocks])
    marks = np.concatenate([mesh.cell_data["medit:ref"][k] for k in blocks])
    for mark, name in ((BORE, "bore"), (INLET, "inlet's end")):
        if not (marks == mark).any():
            raise BadCase(f"the surface has no triangles of reference {mark}, the {name}")
    points = np.asarray(mesh.points, dtype=float)
    used, at = np.unique(triangles[marks == BORE], return_inverse=True)
    inner = inwards(points[used], at.reshape(-1, 3))
    one = np.ones(len(inner), dtype=int)
    meshio.write(bore, meshio.Mesh(points[used], [("triangle", inner)], cell_data={"medit:ref": [one]}), "medit")
    return points[np.intersect1d(used, triangles[marks == INLET])].mean(0)


def named(mesh: openfoam.Mesh, inlet: np.ndarray) -> dict[str, openfoam.Patch]:
    """The patches by their names: the end whose middle is nearest to a point is the inlet."""
    ends = sorted(
        (name for name in mesh.patches if name != "wall"),
        key=lambda name: float(np.linalg.norm(mesh.centres(name).mean(0) - inlet)),
    )
    if len(ends) != 2 or "wall" not in mesh.patches:
        raise BadCase(f"patches {', '.join(mesh.patches)}: a wall and two ends wanted")
    names = {"wall": "wall", ends[0]: "inlet", ends[1]: "outlet"}
    return {names[name]: patch for name, patch in mesh.patches.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("surface", type=Path)
    parser.add_argument("mesh", type=Path)
    for name in ("layers", "first", "growth", "size"):
        parser.add_argument(f"--{name}", required=True)
    wanted = parser.parse_args()
    inlet = take_bore(wanted.surface, Path("bore.mesh"))
    geometry = Path(__file__).resolve().parent / "prisms.geo"
    Path("prisms.geo").write_bytes(geometry.read_bytes())
    words = [w for name in ("layers", "first", "growth", "size") for w in ("-setnumber", name, getattr(wanted, name))]
    # One thread, so that the same call gives the same bytes.
    openfoam.run("gmsh", "prisms.geo", "-3", "-nt", "1", "-format", "msh2", "-o", "gas.msh", *words)
    openfoam.make_case(Path("case"))
    parameters = {"step": 1, "iterations": 1, "tolerance": 1, "format": "ascii"}
    Path("case/start").mkdir()
    Path("case/start/parameters").write_text("".join(f"{key} {value};\n" for key, value in parameters.items()))
    openfoam.run("gmshToFoam", "-case", "case", "gas.msh")
    made = openfoam.read_mesh(Path("case/constant/polyMesh"))
    mesh = openfoam.Mesh(made.points, made.faces, made.owner, made.neighbour, named(made, inlet * MILLIMETRE))
    openfoam.write_mesh(mesh, wanted.mesh)
    openfoam.write_mesh(mesh, Path("case/constant/polyMesh"))
    openfoam.run("checkMesh", "-case", "case", "-constant")


if __name__ == "__main__":
    try:
        main()
    except (BadCase, OSError) as error:
        sys.exit(f"generalized_mesher: {error}")
