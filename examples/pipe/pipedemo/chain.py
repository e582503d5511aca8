"""The chain: which service does what, with which inputs, and the input deck between them."""

from dataclasses import dataclass, field
from pathlib import Path

from .case import Case

# Markers that pipe.geo gives the surfaces.
BORE, OUTSIDE, START, END = 1, 2, 3, 4


@dataclass(frozen=True)
class Step:
    """One use of one service."""

    service: str
    """Its name, as in its service file."""
    title: str
    """The component, in the paper's words, and the program behind it."""
    values: dict[str, str] = field(default_factory=dict)
    """Inputs on the command line."""
    files: dict[str, Path] = field(default_factory=dict)
    """Inputs in files."""
    outputs: dict[str, str] = field(default_factory=dict)
    """Outputs wanted, and the file names to give them."""


def plain(number: float) -> str:
    """A number in digits and a point only, as TetGen reads it."""
    return f"{number:.9f}".rstrip("0").rstrip(".")


def surface_mesher(case: Case) -> Step:
    """The triangulated surface of the pipe."""
    values = {
        "inner": plain(case.inner),
        "outer": plain(case.outer),
        "length": plain(case.length),
        "size": plain(case.mesh_size),
    }
    return Step("gmsh", "Surface mesher (Gmsh)", values, {}, {"surface": "surface.mesh"})


def volume_mesher(case: Case, surface: Path) -> Step:
    """4-node tetrahedra that fill the surface."""
    return Step(
        "tetgen",
        "Volume mesher (TetGen)",
        {"volume": plain(case.tet_volume)},
        {"surface": surface},
        {"nodes": "pipe.node", "elements": "pipe.ele", "faces": "pipe.face"},
    )


def converter(nodes: Path, elements: Path, faces: Path) -> Step:
    """10-node tetrahedra from 4-node ones."""
    return Step(
        "t4-to-t10",
        "T4 to T10 (our script)",
        {},
        {"nodes": nodes, "elements": elements, "faces": faces},
        {"mesh": "mesh.inp"},
    )


def solver(deck: Path, mesh: Path) -> Step:
    """Displacements and stresses."""
    return Step(
        "ccx",
        "Mechanical solver (CalculiX)",
        {},
        {"deck": deck, "mesh": mesh},
        {"result": "pipe.frd"},
    )


def mesh_counts(step_files: dict[str, Path]) -> tuple[int, int, int]:
    """Vertices, boundary triangles and tetrahedra, as TetGen's files announce them."""

    def announced(path: Path) -> int:
        with path.open(encoding="ascii") as lines:
            return int(lines.readline().split()[0])

    return tuple(announced(step_files[name]) for name in ("nodes", "faces", "elements"))


def corner_nodes(case: Case, nodes: Path) -> tuple[list[int], list[int]]:
    """The outer corner points of both ends on the plane x = 0, and those on the plane y = 0.

    pipe.geo puts a point there. By symmetry they cannot leave their plane, so holding them there
    stops the pipe from floating without adding any stress.
    """
    near = 1e-6 * case.outer
    on_x, on_y = [], []
    with nodes.open(encoding="ascii") as lines:
        next(lines)
        for line in lines:
            words = line.split("#", 1)[0].split()
            if len(words) < 4:
                continue
            x, y, z = (float(word) for word in words[1:4])
            if min(abs(z), abs(z - case.length)) > near:
                continue
            if abs(x) < near and abs(abs(y) - case.outer) < near:
                on_x.append(int(words[0]))
            if abs(y) < near and abs(abs(x) - case.outer) < near:
                on_y.append(int(words[0]))
    if len(on_x) != 4 or len(on_y) != 4:
        raise ValueError(f"{nodes} has {len(on_x)} and {len(on_y)} corner points, 4 and 4 wanted")
    return on_x, on_y


def input_deck(case: Case, nodes: Path) -> str:
    """The analysis: material, supports (plane strain) and pressure. The mesh is included."""
    on_x, on_y = corner_nodes(case, nodes)
    held = [f"NODES_{START}, 3, 3", f"NODES_{END}, 3, 3"]
    held += [f"{node}, 1, 1" for node in on_x] + [f"{node}, 2, 2" for node in on_y]
    lines = [
        "** A thick-walled pipe under internal pressure; mm, N, MPa. Both ends are held along the",
        "** axis (plane strain); eight corner points stop the pipe from floating.",
        "*INCLUDE, INPUT=mesh.inp",
        "*MATERIAL, NAME=WALL",
        "*ELASTIC",
        f"{case.young:.9g}, {case.poisson:.9g}",
        "*SOLID SECTION, ELSET=SOLID, MATERIAL=WALL",
        "*STEP",
        f"*STATIC, SOLVER={case.solver}",
        "*BOUNDARY",
        *held,
        "*DSLOAD",
        f"SURFACE_{BORE}, P, {case.pressure:.9g}",
        "*NODE FILE",
        "U",
        "*EL FILE",
        "S",
        "*END STEP",
    ]
    return "\n".join(lines) + "\n"
