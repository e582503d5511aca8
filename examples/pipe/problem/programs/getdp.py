#!/usr/bin/env python3
"""Solves with GetDP what a deck of CalculiX's describes, and gives what CalculiX would: another solver behind the same
interface. Ours; getdp itself (3.2, Debian) is unmodified.

Reads job.inp, mesh.inp, pressure.inp and temperature.inp here; writes mesh.msh and problem.pro, the weak forms of steady
conduction and of linear elasticity with ten-node tetrahedra; runs getdp; writes job.frd. A deck's cards that are
not known here are refused. What getdp does not give, forces and stresses at the nodes, comes of its displacements.
"""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from calculix import FACES, BadDeck, Mesh, read_mesh
from domain_integral import GAUSS, Solid, gradients

JOB, MESH, LOADS = "job.inp", "mesh.inp", ("pressure.inp", "temperature.inp")
NOTHING = ("*MATERIAL", "*SOLID SECTION", "*STEP", "*STATIC", "*NODE FILE", "*EL FILE", "*END STEP")
"""Cards that say nothing that is needed here: one material, one step, all results."""
SOLID, LOADED, HELD, SPRINGS = 1, 1000, 10, 20
"""Numbers of regions: the solid; the first loaded face, each has its own; nodes held along x (11), y, z or at a temperature
(10 + degree of freedom); nodes that a spring holds."""
STIFF = 1e6
"""A spring's, in times of Young's modulus times 1 mm: what is held across an inclined plane gives way by a millionth."""
ROW = 500
"""Entries for which a row of getdp's matrix has place from the start; with its default of 100 it takes ten times as long."""
TO_GMSH = [0, 1, 2, 3, 4, 5, 6, 7, 9, 8]
"""The nodes of a C3D10 in the order of Gmsh's second-order tetrahedron."""
TEMPERATURE = 11
"""CalculiX's number of that degree of freedom."""


@dataclass
class Analysis:
    """What a deck describes; mm, N, MPa, K, mW."""

    mesh: Mesh
    is_heat: bool = False
    conductivity: float = 0.0
    solid: Solid = Solid(0.0, 0.0)
    held: dict[tuple[int, int], float] = field(default_factory=dict)
    """Values by node and degree of freedom."""
    turned: set[str] = field(default_factory=set)
    """Node sets whose degrees of freedom are those of cylinder coordinates around the z axis."""
    springs: set[int] = field(default_factory=set)
    """Nodes that do not move around the z axis."""
    films: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)
    """Temperature and coefficient by element and face."""
    pressures: dict[tuple[int, int], float] = field(default_factory=dict)
    temperature: dict[int, float] = field(default_factory=dict)


def cards(path: Path) -> Iterator[tuple[str, dict[str, str], list[list[str]]]]:
    """A deck's cards: keyword, options, words of the lines below."""
    card: tuple[str, dict[str, str], list[list[str]]] | None = None
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("**") or not line.strip():
            continue
        words = [word.strip() for word in line.rstrip(", ").split(",")]
        if line.startswith("*"):
            if card:
                yield card
            options = (word.partition("=")[::2] for word in words[1:])
            card = words[0].upper(), {name.strip().upper(): value.strip() for name, value in options}, []
        elif card is None:
            raise BadDeck(f"{path}: {line!r} before any card")
        else:
            card[2].append(words)
    if card:
        yield card


def read(path: Path, found: Analysis) -> Analysis:
    """Adds what a deck says to an analysis."""
    mesh = found.mesh
    for keyword, options, rows in cards(path):
        match keyword:
            case "*INCLUDE" if options.get("INPUT") == MESH:
                pass
            case "*INCLUDE" if options.get("INPUT") in LOADS:
                read(Path(options["INPUT"]), found)
            case "*HEAT TRANSFER" if "STEADY STATE" in options:
                found.is_heat = True
            case "*TRANSFORM" if options.get("TYPE", "").upper() == "C" and [float(word) for word in rows[0]] == [0, 0, 0, 0, 0, 1]:
                found.turned.add(options["NSET"].upper())
            case "*CONDUCTIVITY":
                found.conductivity = float(rows[0][0])
            case "*ELASTIC":
                found.solid = Solid(*map(float, rows[0][:2]), found.solid.expansion, found.solid.reference)
            case "*EXPANSION":
                old, zero = found.solid, float(options.get("ZERO", 0))
                found.solid = Solid(old.young, old.poisson, float(rows[0][0]), zero)
            case "*INITIAL CONDITIONS" | "*TEMPERATURE":
                for name, value in rows:
                    found.temperature |= dict.fromkeys(nodes(mesh, name), float(value))
            case "*FILM":
                found.films |= {face(mesh, number, side, "F"): (float(sink), float(h)) for number, side, sink, h in rows}
            case "*DLOAD":
                for number, side, load in rows:
                    press(found, face(mesh, number, side, "P"), float(load))
            case "*DSLOAD":
                for name, _, load in rows:
                    if name.upper() not in mesh.surfaces:
                        raise BadDeck(f"{path}: the mesh has no surface {name}")
                    for number, side in mesh.surfaces[name.upper()].tolist():
                        press(found, (number, side), float(load))
            case "*BOUNDARY":
                for row in rows:
                    hold(found, *row)
            case keyword if keyword not in NOTHING:
                raise BadDeck(f"{path}: {keyword} {options} is not known to this solver")
    return found


def nodes(mesh: Mesh, name: str) -> list[int]:
    """The nodes of a set, or one node."""
    if name.upper() == "ALL":
        return mesh.nodes.tolist()
    if name.upper() in mesh.sets:
        return mesh.sets[name.upper()].tolist()
    if not name.isdecimal() or int(name) not in mesh.nodes:
        raise BadDeck(f"the mesh has no node or node set {name}")
    return [int(name)]


def face(mesh: Mesh, number: str, side: str, letter: str) -> tuple[int, int]:
    """Element and face 1 to 4 of a load."""
    at = np.searchsorted(mesh.elements[:, 0], int(number))
    if side[:1] != letter or side[1:] not in "1234" or at == len(mesh.elements) or mesh.elements[at, 0] != int(number):
        raise BadDeck(f"{number}, {side} is no face of the mesh")
    return int(number), int(side[1:])


def press(found: Analysis, where: tuple[int, int], load: float) -> None:
    """Adds a pressure, MPa."""
    found.pressures[where] = found.pressures.get(where, 0.0) + load


def hold(found: Analysis, name: str, first: str, last: str = "", value: str = "0") -> None:
    """A row of *BOUNDARY."""
    for freedom in range(int(first), int(last or first) + 1):
        if name.upper() not in found.turned or freedom == 3:
            found.held |= {(node, freedom): float(value) for node in nodes(found.mesh, name)}
        elif freedom == 2 and float(value) == 0:
            found.springs |= set(nodes(found.mesh, name))
        else:
            raise BadDeck(f"{name}, {first}: in cylinder coordinates only what holds a node around the axis or along it is known")


def write_mesh(path: Path, analysis: Analysis, faces: list[tuple[int, int]]) -> None:
    """Gmsh's format 2.2: the solid, loaded faces, and points for nodes that are held."""
    mesh = analysis.mesh
    rows = [f"{number} 11 2 {SOLID} {SOLID} {' '.join(map(str, of))}" for number, of in
            enumerate(mesh.elements[:, 1:][:, TO_GMSH].tolist(), 1)]  # fmt: skip
    corners = np.searchsorted(mesh.elements[:, 0], [element for element, _ in faces])
    for number, (row, (_, side)) in enumerate(zip(corners, faces, strict=True)):
        of = mesh.elements[row, 1:][FACES[side - 1]]
        rows.append(f"{len(rows) + 1} 9 2 {LOADED + number} {LOADED + number} {' '.join(map(str, of))}")
    points = [(HELD + freedom, node) for node, freedom in analysis.held] + [(SPRINGS, node) for node in sorted(analysis.springs)]
    rows += [f"{len(rows) + number} 15 2 {region} {region} {node}" for number, (region, node) in enumerate(points, 1)]
    with path.open("w", encoding="ascii") as out:
        out.write(f"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n{len(mesh.nodes)}\n")
        for number, (x, y, z) in zip(mesh.nodes.tolist(), mesh.points.tolist(), strict=True):
            out.write(f"{number} {x:.17g} {y:.17g} {z:.17g}\n")
        out.write(f"$EndNodes\n$Elements\n{len(rows)}\n" + "\n".join(rows) + "\n$EndElements\n")


def by_index(values: dict[int, float]) -> str:
    """A function that has a value at each node: their number, then node and value."""
    return f"ValueFromIndex[]{{{len(values)}, " + ", ".join(f"{node}, {value:.17g}" for node, value in sorted(values.items())) + "}"


def space(name: str, coefficient: str, freedom: int, constrained: bool) -> str:
    """Continuous, quadratic."""
    held = f"Constraint {{ {{ NameOfCoef {coefficient}; EntityType NodesOf; NameOfConstraint C{freedom}; }} }}"
    return (
        f"{{ Name {name}; Type Form0; BasisFunction {{ {{ Name s{coefficient}; NameOfCoef {coefficient}; Function BF_Node; "
        f"Support Domain; Entity NodesOf[ All ]; }} }} {held if constrained else ''} }}\n"
    )


def term(integrand: str, test: str, where: str) -> str:
    """Of the weak form."""
    return f"Galerkin {{ [ {integrand}, {test} ]; In {where}; Jacobian J; Integration I; }}\n"


def write_problem(path: Path, analysis: Analysis, faces: list[tuple[int, int]]) -> int:
    """GetDP's problem; gives the number of unknowns at a node."""
    held = {freedom: {node: value for (node, one), value in analysis.held.items() if one == freedom} for _, freedom in analysis.held}
    regions = [f"Solid = Region[{SOLID}];"]
    parts = ["Solid"]
    if faces:
        regions.append(f"Loaded = Region[{{{LOADED}:{LOADED + len(faces) - 1}}}];")
        parts.append("Loaded")
    for freedom in held:
        regions.append(f"Held{freedom} = Region[{HELD + freedom}];")
        parts.append(f"Held{freedom}")
    if analysis.springs:
        regions.append(f"Springs = Region[{SPRINGS}];")
        parts.append("Springs")
    regions.append(f"Domain = Region[{{{', '.join(parts)}}}];")
    functions = [f"held{freedom}[] = {by_index(values)};" for freedom, values in held.items()]
    constraints = [f"{{ Name C{f}; Case {{ {{ Region Held{f}; Value held{f}[]; }} }} }}" for f in held]
    if analysis.is_heat:
        unknowns = {"T": TEMPERATURE}
        terms = [term(f"{analysis.conductivity:.17g} * Dof{{d T}}", "{d T}", "Solid")]
        for number, one in enumerate(faces):
            sink, coefficient = analysis.films[one]
            functions.append(f"h[Region[{LOADED + number}]] = {coefficient:.17g}; sink[Region[{LOADED + number}]] = {sink:.17g};")
        if faces:
            terms += [term("h[] * Dof{T}", "{T}", "Loaded"), term("-h[] * sink[]", "{T}", "Loaded")]
    else:
        unknowns = {"ux": 1, "uy": 2, "uz": 3}
        terms = elasticity(analysis, faces, functions)
    spaces = [space(f"H{name}", f"c{name}", freedom, freedom in held) for name, freedom in unknowns.items()]
    quantities = [f"{{ Name {name}; Type Local; NameOfSpace H{name}; }}" for name in unknowns]
    if not analysis.is_heat and analysis.solid.expansion:
        spaces.append(space("Hwarm", "cwarm", 0, True))
        quantities.append("{ Name warm; Type Local; NameOfSpace Hwarm; }")
        functions.append(f"held0[] = {by_index(analysis.temperature)};")
        constraints.append("{ Name C0; Case { { Region Solid; Value held0[]; } } }")
    points = (("Tetrahedron2", 4), ("Triangle2", 6), ("Point", 1))
    gauss = " ".join(f"{{ GeoElement {kind}; NumberOfPoints {count}; }}" for kind, count in points)
    path.write_text(
        "Group {\n" + "\n".join(regions) + "\n}\nFunction {\n" + "\n".join(functions) + "\n}\n"
        "Constraint {\n" + "\n".join(constraints) + "\n}\nFunctionSpace {\n" + "".join(spaces) + "}\n"
        "Jacobian { { Name J; Case { { Region Solid; Jacobian Vol; } { Region All; Jacobian Sur; } } } }\n"
        f"Integration {{ {{ Name I; Case {{ {{ Type Gauss; Case {{ {gauss} }} }} }} }} }}\n"
        "Formulation { { Name F; Type FemEquation; Quantity {\n" + "\n".join(quantities) + "\n}\nEquation {\n" + "".join(terms)
        + "} } }\nResolution { { Name Solve; System { { Name A; NameOfFormulation F; } } Operation { Generate[A]; Solve[A]; "
        "SaveSolution[A]; } } }\n",
        encoding="ascii",
    )  # fmt: skip
    return len(unknowns)


def elasticity(analysis: Analysis, faces: list[tuple[int, int]], functions: list[str]) -> list[str]:
    """int C e(u) : e(v) + springs = int a C I (T - T0) : e(v) + int t . v, term by component of u and v."""
    solid, names = analysis.solid, ("ux", "uy", "uz")
    shear = solid.young / (2 * (1 + solid.poisson))
    lame = 2 * shear * solid.poisson / (1 - 2 * solid.poisson)
    terms = []
    for i in range(3):
        for j in range(3):
            tensor = (i == j) * shear * np.eye(3)
            tensor[i, j] += lame
            tensor[j, i] += shear
            functions.append(f"C{i}{j}[] = Tensor[{', '.join(f'{value:.17g}' for value in tensor.ravel())}];")
            terms.append(term(f"C{i}{j}[] * Dof{{d {names[j]}}}", f"{{d {names[i]}}}", "Solid"))
    if solid.expansion:
        bulk = (3 * lame + 2 * shear) * solid.expansion
        # All of its values are given, so that this is no equation; but without it getdp would not know of them.
        terms.append(term("Dof{warm}", "{warm}", "Solid"))
        for i, name in enumerate(names):
            along = ", ".join("1" if k == i else "0" for k in range(3))
            terms.append(term(f"-{bulk:.17g} * ({{warm}} - {solid.reference:.17g}) * Vector[{along}]", f"{{d {name}}}", "Solid"))
    if faces:
        for number, push in enumerate(pushes(analysis, faces)):
            of = f"Region[{LOADED + number}]"
            functions.append(" ".join(f"t{k}[{of}] = {value:.17g};" for k, value in enumerate(push)))
        terms += [term(f"-t{k}[]", f"{{{name}}}", "Loaded") for k, name in enumerate(names)]
    if analysis.springs:
        across = ("-Y[] / Sqrt[X[]^2 + Y[]^2]", "X[] / Sqrt[X[]^2 + Y[]^2]")
        functions += [f"n{k}[] = {value};" for k, value in enumerate(across)]
        stiff = STIFF * solid.young
        terms += [
            term(f"{stiff:.17g} * n{i}[] * n{j}[] * Dof{{{names[j]}}}", f"{{{names[i]}}}", "Springs") for i in (0, 1) for j in (0, 1)
        ]
    return terms


def pushes(analysis: Analysis, faces: list[tuple[int, int]]) -> np.ndarray:
    """The loads on faces, MPa: pressures push into the solid."""
    mesh = analysis.mesh
    rows = np.searchsorted(mesh.elements[:, 0], [element for element, _ in faces])
    corners = np.array([mesh.elements[row, 1:][FACES[side - 1][:3]] for row, (_, side) in zip(rows, faces, strict=True)])
    a, b, c = (mesh.points[mesh.rows(corners[:, k])] for k in range(3))
    middle = mesh.points[mesh.rows(mesh.elements[rows, 1:5].ravel())].reshape(-1, 4, 3).mean(1)
    normal = np.cross(b - a, c - a)
    normal *= np.sign(np.einsum("ni,ni->n", normal, a - middle))[:, None]
    outward = normal / np.linalg.norm(normal, axis=1)[:, None]
    return -outward * np.array([analysis.pressures[one] for one in faces])[:, None]


def read_solution(name: str, mesh: Mesh, count: int) -> np.ndarray:
    """The values of the first unknowns at the mesh's nodes, by GetDP's files .pre and .res (manual, "File formats"): the one
    tells of each degree of freedom its basis function, node, and either its equation (1) or its value (2)."""
    solved = section(Path(f"{name}.res"), "$Solution")[1:]
    found = np.full((len(mesh.nodes), count), np.nan)
    at = dict(zip(mesh.nodes.tolist(), range(len(mesh.nodes)), strict=True))
    for line in section(Path(f"{name}.pre"), "$DofData"):
        match line.split():
            case [function, node, _, "1", equation, _] if int(function) <= count:
                found[at[int(node)], int(function) - 1] = float(solved[int(equation) - 1])
            case [function, node, _, "2", value, _] if int(function) <= count:
                found[at[int(node)], int(function) - 1] = float(value)
    if lost := int(np.isnan(found).any(axis=1).sum()):
        raise BadDeck(f"{name}.res: no value at {lost} of {len(found)} nodes")
    return found


def section(path: Path, name: str) -> list[str]:
    """The lines of the last section of this name."""
    text = path.read_text(encoding="ascii").rpartition(f"{name} ")[2]
    return text.partition(name.replace("$", "$End"))[0].splitlines()[1:]


def at_nodes(analysis: Analysis, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Forces (N) and stresses (MPa; xx, yy, zz, xy, yz, zx) at the nodes, by displacements: forces as the elements bear
    them, stresses continued linearly from the elements' four points and averaged."""
    mesh, solid = analysis.mesh, analysis.solid
    of = mesh.rows(mesh.elements[:, 1:].ravel()).reshape(-1, 10)
    value, by, jacobian = gradients(mesh.points[of], GAUSS)
    slope = np.einsum("nai,ngak->ngik", moved[of], by)
    strain = (slope + slope.swapaxes(2, 3)) / 2
    if solid.expansion:
        warm = np.array([analysis.temperature[node] for node in mesh.nodes.tolist()])[of]
        strain = strain - solid.expansion * (warm @ value.T - solid.reference)[..., None, None] * np.eye(3)
    stress = solid.stress(strain)
    force = np.zeros_like(mesh.points)
    np.add.at(force, of, np.einsum("ng,ngij,ngaj->nai", jacobian / 6 / len(GAUSS), stress, by))
    corner = np.einsum("cg,ngij->ncij", np.linalg.inv(GAUSS), stress)
    middles = [(corner[:, a] + corner[:, b]) / 2 for a, b in ((0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3))]
    each = np.concatenate([corner, np.stack(middles, axis=1)], axis=1)
    total, count = np.zeros((len(mesh.nodes), 3, 3)), np.zeros(len(mesh.nodes))
    np.add.at(total, of, each)
    np.add.at(count, of, 1)
    mean = total / count[:, None, None]
    return force, mean[:, [0, 1, 2, 0, 1, 2], [0, 1, 2, 1, 2, 0]]


def write_frd(path: Path, mesh: Mesh, blocks: list[tuple[str, tuple[str, ...], np.ndarray]]) -> None:
    """CalculiX's result file (cgx manual, "Nodal Results Block"): name, components and values at the nodes of each block."""
    with path.open("w", encoding="ascii") as out:
        out.write(f"    1C\n    2C{len(mesh.nodes):30d}{1:38d}\n")
        for node, at in zip(mesh.nodes.tolist(), mesh.points.tolist(), strict=True):
            out.write(f" -1{node:10d}" + "".join(f"{value:12.5E}" for value in at) + "\n")
        out.write(" -3\n")
        for name, components, values in blocks:
            out.write(f"  100CL  101 1.00000E+00{len(mesh.nodes):12d}{0:22d}{1:5d}{1:12d}\n")
            out.write(f" -4  {name:<8s}{len(components):5d}{1:5d}\n")
            for number, component in enumerate(components, 1):
                out.write(f" -5  {component:<8s}{1:5d}{min(len(components), 2) if len(components) < 6 else 4:5d}{number:5d}{0:5d}\n")
            for node, row in zip(mesh.nodes.tolist(), values.reshape(len(mesh.nodes), -1).tolist(), strict=True):
                out.write(f" -1{node:10d}" + "".join(f"{value:12.5E}" for value in row) + "\n")
            out.write(" -3\n")
        out.write(" 9999\n")


def main() -> int:
    try:
        analysis = read(Path(JOB), Analysis(read_mesh(Path(MESH))))
        faces = sorted(analysis.films if analysis.is_heat else analysis.pressures)
        write_mesh(Path("mesh.msh"), analysis, faces)
        count = write_problem(Path("problem.pro"), analysis, faces)
        words = ["getdp", "problem.pro", "-msh", "mesh.msh", "-solve", "Solve", "-v", "3"]
        words += ["-petsc_prealloc", str(ROW)]
        if code := subprocess.run(words, check=False).returncode:
            print(f"getdp ended with {code}", file=sys.stderr)
            return code if code > 0 else 128 - code
        found = read_solution("problem", analysis.mesh, count)
    except (BadDeck, OSError, ValueError) as error:
        print(f"getdp.py: {error}", file=sys.stderr)
        return 2
    if analysis.is_heat:
        blocks = [("NDTEMP", ("T",), found)]
    else:
        force, stress = at_nodes(analysis, found)
        blocks = [("DISP", ("D1", "D2", "D3"), found), ("FORC", ("F1", "F2", "F3"), force),
                  ("STRESS", ("SXX", "SYY", "SZZ", "SXY", "SYZ", "SZX"), stress)]  # fmt: skip
        if analysis.temperature:
            warm = np.array([analysis.temperature[node] for node in analysis.mesh.nodes.tolist()])
            blocks.append(("NDTEMP", ("T",), warm))
    write_frd(Path("job.frd"), analysis.mesh, blocks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
