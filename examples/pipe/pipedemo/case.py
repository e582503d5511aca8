"""What is solved: a thick-walled pipe under internal pressure, and Lame's closed form of it.

Units are mm, N and MPa throughout.
"""

from dataclasses import dataclass

# Mesh size (mm) and largest tetrahedron (mm^3) that give about the paper's two problem sizes.
SIZES = {1: (10.0, 350.0), 2: (7.0, 86.0)}

# Paper 000, Table 1, solid mesh: vertices, triangles, tetrahedra.
PAPER_TABLE_1 = {1: (4835, 4979, 22045), 2: (16832, 10322, 83609)}


@dataclass(frozen=True)
class Case:
    """The inputs of the demo."""

    inner: float = 50.0
    """Inner radius, mm."""
    outer: float = 100.0
    """Outer radius, mm."""
    length: float = 150.0
    """Length, mm."""
    pressure: float = 100.0
    """Pressure in the bore, MPa."""
    young: float = 210_000.0
    """Young's modulus, MPa."""
    poisson: float = 0.3
    """Poisson's ratio."""
    mesh_size: float = SIZES[1][0]
    """Side of a surface triangle, mm, about."""
    tet_volume: float = SIZES[1][1]
    """Largest tetrahedron, mm^3."""
    solver: str = "ITERATIVE CHOLESKY"
    """CalculiX's equation solver: ITERATIVE CHOLESKY, ITERATIVE SCALING or SPOOLES."""

    def __post_init__(self):
        for name in ("inner", "outer", "length", "pressure", "young", "mesh_size", "tet_volume"):
            value = getattr(self, name)
            if not 0 < value < 1e12:
                raise ValueError(
                    f"{name.replace('_', ' ')} must be positive and finite, not {value}"
                )
        if self.outer <= self.inner:
            raise ValueError(
                f"outer radius {self.outer} mm must exceed inner radius {self.inner} mm"
            )
        if not -1 < self.poisson < 0.5:
            raise ValueError(f"Poisson's ratio must lie between -1 and 0.5, not {self.poisson}")

    def hoop(self, r):
        """Lame's hoop stress at radius r, MPa. Holds with and without axial force."""
        a, b = self.inner, self.outer
        return self.pressure * a**2 / (b**2 - a**2) * (1 + b**2 / r**2)

    def radial(self, r):
        """Lame's radial stress at radius r, MPa."""
        a, b = self.inner, self.outer
        return self.pressure * a**2 / (b**2 - a**2) * (1 - b**2 / r**2)

    def axial(self):
        """The axial stress of plane strain (ends held against axial displacement), MPa."""
        a, b = self.inner, self.outer
        return 2 * self.poisson * self.pressure * a**2 / (b**2 - a**2)
