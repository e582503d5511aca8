"""The mechanical solver's input deck. mm, N, MPa, K."""

from .case import BORE, CRACK, END, START, Case


def deck(case: Case, *, thermal: bool) -> str:
    """The linear elastic analysis; mesh, pressures and temperatures are included.

    Both ends are held along the pipe's axis, in cylinder coordinates around the z axis, as if the pipe went on around
    the bend. That leaves the displacement along z free, which one node holds, far from the crack and without a
    force: fracture_mechanics.py looks at it.
    """
    material = case.material
    lines = [
        "** A cracked, curved pipe; mm, N, MPa, K",
        "*INCLUDE, INPUT=mesh.inp",
        *(f"*TRANSFORM, NSET=NODES_{end}, TYPE=C\n0, 0, 0, 0, 0, 1" for end in (START, END)),
        "*MATERIAL, NAME=WALL",
        "*ELASTIC",
        f"{material.young:.9g}, {material.poisson:.9g}",
    ]
    if thermal:
        lines += [
            f"*EXPANSION, ZERO={case.reference_temperature:.9g}",
            f"{material.expansion:.9g}",
            "*INITIAL CONDITIONS, TYPE=TEMPERATURE",
            f"ALL, {case.reference_temperature:.9g}",
        ]
    lines += [
        "*SOLID SECTION, ELSET=SOLID, MATERIAL=WALL",
        "*STEP",
        f"*STATIC, SOLVER={case.solver}",
        "*BOUNDARY",
        *(f"NODES_{end}, 2, 2" for end in (START, END)),
        "NODES_HELD, 3, 3",
        "*INCLUDE, INPUT=pressure.inp",
    ]
    if thermal:
        lines.append("*INCLUDE, INPUT=temperature.inp")
    lines += ["*NODE FILE", "U, RF, NT" if thermal else "U, RF", "*EL FILE", "S", "*END STEP"]
    return "\n".join(lines) + "\n"


def uniform_pressure(pressure: float) -> str:
    """The deck's part of the same pressure, MPa, in the bore and on the crack's sides."""
    surfaces = (f"SURFACE_{BORE}", f"SURFACE_{CRACK}A", f"SURFACE_{CRACK}B")
    return "*DSLOAD\n" + "".join(f"{surface}, P, {pressure:.9g}\n" for surface in surfaces)
