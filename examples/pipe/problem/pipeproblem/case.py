"""What is solved: the pipe, its crack, its material, and how finely it is meshed. mm, N, MPa, K."""

import math
from dataclasses import dataclass, field

import numpy as np

from .coupling import Conditions

BORE, OUTSIDE, START, END, CRACK, PASSAGES = 1, 2, 3, 4, 5, 6
"""References of the surface mesh's triangles."""


@dataclass(frozen=True)
class Pipe:
    """An arc of a thick-walled pipe, with cooling passages along its wall."""

    inner: float = 20.0
    """Inner radius, mm."""
    outer: float = 35.0
    """Outer radius, mm."""
    bend: float = 80.0
    """Radius of the pipe's axis, mm; its centre is the z axis."""
    angle: float = 60.0
    """From end to end, degrees, from the plane y = 0."""
    passages: int = 4
    """Cooling passages, half of them above the plane of the bend (z = 0)."""
    passage_radius: float = 4.0
    """Radius of a passage, mm."""


@dataclass(frozen=True)
class Material:
    """An elastic solid that conducts heat: a copper alloy, as of a combustion chamber's wall."""

    young: float = 120_000.0
    """Young's modulus, MPa."""
    poisson: float = 0.34
    """Poisson's ratio."""
    expansion: float = 17e-6
    """Coefficient of thermal expansion, 1/K."""
    conductivity: float = Conditions.conductivity
    """Thermal conductivity, W/(m K), which is mW/(mm K)."""


@dataclass(frozen=True)
class Size:
    """How finely the solid is meshed, mm and mm^3."""

    surface: float
    """Side of a triangle far from the crack, mm."""
    crack: float
    """Side of a triangle at the crack's front, mm."""
    volume: float
    """Largest tetrahedron, mm^3."""


SIZES = {"coarse": Size(6.0, 1.0, 60.0), "small": Size(5.5, 0.7, 18.5), "large": Size(3.3, 0.45, 4.5)}
"""`small` and `large` have about the elements of the paper's Table 1."""


@dataclass(frozen=True)
class Case:
    """All of it."""

    pipe: Pipe = field(default_factory=Pipe)
    material: Material = field(default_factory=Material)
    gas: Conditions = Conditions()
    size: Size = SIZES["coarse"]
    crack_half_length: float = 6.0
    """Half of the first crack's length along the bore, mm."""
    crack_depth: float = 4.0
    """Its depth, mm."""
    growth: float = 1.5
    """How far the front moves in a step where the stress intensity is largest, mm."""
    exponent: float = 2.0
    """Paris' exponent: the front moves as this power of the stress intensity."""
    reference_temperature: float = 600.0
    """Without thermal strain, K."""
    solver: str = "SPOOLES"
    """CalculiX's equation solver; stress intensities by the iterative ones are up to 3 % off."""
    least_ligament: float = 2.0
    """With so little of the wall left, mm, the crack has broken through."""

    greatest_length: float = math.inf
    """So long along the bore, mm, it is grown no more."""

    @property
    def held(self) -> tuple[float, float, float]:
        """Where the pipe is held along z, x, y, z: at the first end's outer edge, as far from the crack as can be."""
        return self.pipe.bend + self.pipe.outer, 0.0, 0.0

    def first_front(self, points: int = 25) -> np.ndarray:
        """The front of a semi-elliptical crack in the plane z = 0 on the inner side of the bend, half way between the
        ends: x, y (mm) a row. It begins and ends in the bore, where the geometry clips it."""
        beyond = 0.12
        at = np.linspace(-beyond, np.pi + beyond, points)
        mouth = self.pipe.bend - self.pipe.inner
        turn = np.radians(self.pipe.angle / 2) + self.crack_half_length * np.cos(at) / mouth
        radius = mouth - self.crack_depth * np.sin(at)
        return np.column_stack([radius * np.cos(turn), radius * np.sin(turn)])
