"""The crack's growth: mesh, load, solve, extend, until it breaks through (paper 000, Figure 3)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import fishplate
import numpy as np

from . import mechanics
from .case import Case

Loads = Callable[[Any, Any], "Load"]
"""From the surface mesh and the solid mesh: what loads the solid."""

ROOT_OF_METRE = np.sqrt(1000)
"""MPa sqrt(mm) of one MPa sqrt(m)."""


@dataclass(frozen=True)
class Load:
    """References to the parts of a deck that load the solid, and what came of coupling fluid and solid."""

    pressure: Any
    temperature: Any = None
    coupled: Any = None


@dataclass
class Step:
    """A crack, and what it does under its loads."""

    front: np.ndarray
    """x, y (mm) of its front's points, from bore to bore."""
    surface: Any
    volume: Any
    solid: Any
    result: Any
    load: Load
    passes: int
    """Of the Meshing Loop."""
    intensities: np.ndarray
    """A row a node of the front: x, y, z (mm), K_I, K_II, K_III (MPa sqrt(mm))."""
    following: np.ndarray | None = None
    """The front that it becomes; of that one are the numbers below."""
    depth: float = 0.0
    """mm, as the others."""
    length: float = 0.0
    ligament: float = 0.0
    added: float = 0.0
    """Area, mm^2."""


@dataclass(frozen=True)
class Services:
    """The services of the solid half, called through a run."""

    meshing_loop: Any
    t4_to_t10: Any
    mechanical: Any
    fracture_mechanics: Any
    crack_extension: Any
    crack_picture: Any
    meshers: dict[str, str] = field(default_factory=dict)
    """URLs of `surface_mesher`, `volume_mesher` and `mesh_check`, which the Meshing Loop calls."""


def services(
    run: fishplate.Run, urls: dict[str, str], volume_mesher: str, mechanical: str = "mechanical", **settings: Any
) -> Services:
    """Finds them by name in `urls`; `settings` as of `Run.service`."""
    names = ("meshing-loop", "t4-to-t10", mechanical, "fracture-mechanics", "crack-extension", "crack-picture")
    meshers = {
        "surface_mesher": urls["surface-mesher"],
        "volume_mesher": urls[volume_mesher],
        "mesh_check": urls["mesh-check"],
    }
    return Services(*(run.service(urls[name], **settings) for name in names), meshers)


def grow(
    run: fishplate.Run,
    used: Services,
    case: Case,
    steps: int,
    loads: Loads,
    begin: Callable[[int], object] = lambda number: None,
) -> list[Step]:
    """The crack in `steps` steps, or fewer if it breaks through before or is as long as it shall be. `begin` is told the
    number of each before it."""
    pipe, size, material = case.pipe, case.size, case.material
    shape = {"inner": pipe.inner, "outer": pipe.outer, "bend": pipe.bend}
    passages = {"angle": pipe.angle, "passages": pipe.passages, "passage_radius": pipe.passage_radius}
    finest = {"size": size.surface, "crack_size": size.crack, "tet_volume": size.volume}
    front = case.first_front()
    held = dict(zip(("held_x", "held_y", "held_z"), case.held, strict=True))
    done = []
    for number in range(1, steps + 1):
        begin(number)
        meshed = used.meshing_loop.by_reference("surface", "volume", "report")(
            **used.meshers, front=front, **shape, **passages, **finest
        )
        solid = used.t4_to_t10.by_reference()(volume=meshed.volume, **held).mesh
        load = loads(meshed.surface, solid)
        thermal = load.temperature is not None
        result = used.mechanical.by_reference()(
            deck=mechanics.deck(case, thermal=thermal).encode(),
            mesh=solid,
            pressure=load.pressure,
            temperature=load.temperature,
        ).result
        intensities = used.fracture_mechanics(
            mesh=solid,
            result=result,
            pressure=load.pressure,
            young=material.young,
            poisson=material.poisson,
            expansion=material.expansion if thermal else 0.0,
            reference=case.reference_temperature if thermal else 0.0,
        ).intensities
        run.progress("largest K_I, MPa sqrt(m)", float(intensities[:, 3].max() / ROOT_OF_METRE))
        step = Step(front, meshed.surface, meshed.volume, solid, result, load, meshed.passes, intensities)
        done.append(step)
        extended = used.crack_extension(intensities=intensities, **shape, growth=case.growth, exponent=case.exponent)
        step.depth, step.length, step.ligament, step.added = map(float, extended.measures)
        run.progress("ligament, mm", step.ligament)
        front = step.following = extended.front
        if is_through(case, step) or step.length >= case.greatest_length:
            break
    return done


def is_through(case: Case, step: Step) -> bool:
    """Whether the crack that a step leads to has broken through the wall."""
    return step.ligament < case.least_ligament


def picture(used: Services, case: Case, done: list[Step]) -> Any:
    """The crack's growth as `picture` (PNG), which stays where it is."""
    numbered = [
        np.column_stack([np.full(len(step.intensities), k), step.intensities]) for k, step in enumerate(done, 1)
    ]
    last = done[-1]
    return used.crack_picture(
        mesh=last.solid,
        result=last.result,
        history=np.vstack(numbered),
        front=last.following,
        mouth=case.pipe.bend - case.pipe.inner,
    )


def table(done: list[Step]) -> str:
    """A line a step: of its crack, and of what it becomes."""
    lines = ["step passes  front      K_I      to    K_II     depth length ligament  next, mm"]
    for number, step in enumerate(done, 1):
        first, second = (step.intensities[:, k] / ROOT_OF_METRE for k in (3, 4))
        lines.append(
            f"{number:>4} {step.passes:>6} {len(first):>6} {first.min():>8.2f} {first.max():>7.2f}"
            f"  {np.abs(second).max():>6.2f}    {step.depth:>6.2f} {step.length:>6.2f} {step.ligament:>8.2f}"
        )
    return "\n".join(lines) + "\nK in MPa sqrt(m); K_II would be zero in the plane of symmetry: it is the mesh's noise"
