"""Gas and wall in turns until the bore's temperature agrees (paper 000, section 2.1; conjugate heat transfer).

The gas is solved with the wall's temperature given, the wall with film coefficients and film temperatures given: a
Robin condition, which lets the wall answer before the gas is solved again. So it needs no relaxation."""

from dataclasses import dataclass, field
from typing import Any

import fishplate

from .sites import Located

MEASURE = "change of the bore's temperature, K"
Y_PLUS = "y+ of the wall, mean"
BALANCED = 5e-3
"""Of the heat that the wall takes, what may be missing in the energy balance of gas that is steady."""


@dataclass(frozen=True)
class Conditions:
    """What flows through the bore, and what cools the wall: hot gas and warm coolant, so little heat that the
    thermal stress at the bore, which compresses it, does not close the crack. The services have the same defaults."""

    pressure: float = 20e6
    """Of the gas where it goes out, Pa."""
    temperature: float = 900.0
    """Of the gas where it comes in, K."""
    velocity: float = 60.0
    """Of the gas where it comes in, m/s."""
    initial_wall_temperature: float = 780.0
    """With which the first flow is solved, K."""
    outside_coefficient: float = 200.0
    """W/(m2 K)."""
    outside_temperature: float = 300.0
    """K."""
    passage_coefficient: float = 10_000.0
    """W/(m2 K)."""
    passage_temperature: float = 700.0
    """Of the coolant, K."""
    outside_pressure: float = 1e5
    """Pa, absolute as all of them."""
    passage_pressure: float = 1e5
    """Of the coolant, Pa."""
    conductivity: float = 300.0
    """Of the wall, W/(m K), which is mW/(mm K)."""


@dataclass(frozen=True)
class GasMesh:
    """How finely the gas is meshed, mm."""

    layers: int = 5
    first: float = 0.2
    """Height of the layer at the wall."""
    growth: float = 1.5
    size: float = 8.0
    """Largest side of a tetrahedron."""


GAS_MESHES = {
    "coarse": GasMesh(),
    "small": GasMesh(layers=15, first=0.08, growth=1.2, size=2.4),
    "large": GasMesh(layers=15, first=0.08, growth=1.2, size=1.8),
}
"""`small` and `large` have about the cells of the paper's Table 1."""


@dataclass(frozen=True)
class Services:
    """The services of coupling, called through a run."""

    generalized_mesher: Any
    fluid_thermal: Any
    film_and_pressure: Any
    thermal: Any
    wall_temperature: Any


@dataclass(frozen=True)
class Coupled:
    """References to what gas and wall agreed on; each stays at the server that made it."""

    pressure: Any
    """*DLOAD of bore and crack."""
    temperature: Any
    """*TEMPERATURE of all nodes."""
    wall: Any
    """The wall as the gas sees it (VTU)."""
    wall_temperature: Any
    """The bore's temperature (VTU)."""
    gas: Any
    """The cells of the gas (VTU)."""
    residuals: list[float] = field(default_factory=list)
    """By how much the bore's temperature changed, at most, after each solution but the first, K."""
    imbalance: float = 0.0
    """Energy that enters the gas and does not leave it, as part of the heat that the wall takes."""
    y_plus: float = 0.0
    """Of the wall, mean: its functions want 30 to 300."""


class NotCoupled(Exception):
    """Gas and wall did not agree within the steps that they had."""


def services(run: fishplate.Run, urls: dict[str, str], thermal: str, **settings: Any) -> Services:
    """Finds them by name in `urls`; `settings` as of `Run.service`."""
    names = ("generalized-mesher", "fluid-thermal", "film-and-pressure", thermal, "wall-temperature")
    return Services(*(run.service(urls[name], **settings).by_reference() for name in names))


def couple(
    run: fishplate.Run,
    sites: Located,
    surface: Any,
    solid_mesh: Any,
    state: Coupled | None = None,
    *,
    conditions: Conditions = Conditions(),
    mesh: GasMesh = GasMesh(),
    thermal: str = "thermal",
    tolerance: float = 1.0,
    steps: int = 20,
    ranks: int = 1,
    iterations: int = 300,
    gas_tolerance: float = 1e-4,
) -> Coupled:
    """Solves gas and wall in turns until the bore's temperature changes by less than `tolerance` (K) and the gas's
    residuals are below `gas_tolerance`; a solution of the gas that ends before, after `iterations`, is gone on with. On some
    meshes residuals stay above it for ever, though the solution does not change any more: so gas is taken too that is
    steady, with two changes below `tolerance` one after the other, its energy balanced (`BALANCED`), and no temperature at its limit.

    `surface` (Medit) and `solid_mesh` (C3D10) are references or files. `state` is what another pipe ended with, such as
    that of the crack's last step: gas and wall begin with it. `thermal` is the solid's thermal solver. Raises `NotCoupled` after `steps` solutions."""
    if steps < 2:
        raise ValueError(f"{steps} solutions of gas and wall: at least 2 are wanted, to compare them")
    used = services(run, sites.urls, thermal, **sites.settings)
    gas_mesh = used.generalized_mesher(
        surface=surface, layers=mesh.layers, first=mesh.first, growth=mesh.growth, size=mesh.size
    ).mesh
    wall_temperature = state.wall_temperature if state else None
    gas = state.gas if state else None
    residuals: list[float] = []
    for step in range(steps):
        known = {"wall_temperature": wall_temperature, "start": gas}
        flow = used.fluid_thermal(
            mesh=gas_mesh,
            pressure=conditions.pressure,
            temperature=conditions.temperature,
            velocity=conditions.velocity,
            initial_wall_temperature=conditions.initial_wall_temperature,
            ranks=ranks,
            iterations=iterations,
            tolerance=gas_tolerance,
            **{name: value for name, value in known.items() if value is not None},
        )
        mapped = used.film_and_pressure(
            wall=flow.wall,
            mesh=solid_mesh,
            conductivity=conditions.conductivity,
            outside_coefficient=conditions.outside_coefficient,
            outside_temperature=conditions.outside_temperature,
            passage_coefficient=conditions.passage_coefficient,
            passage_temperature=conditions.passage_temperature,
            outside_pressure=conditions.outside_pressure,
            passage_pressure=conditions.passage_pressure,
        )
        conducted = used.thermal(deck=mapped.thermal, mesh=solid_mesh).result
        before = {} if wall_temperature is None else {"before": wall_temperature}
        heated = used.wall_temperature(result=conducted, mesh=solid_mesh, **before)
        wall_temperature, gas = heated.wall, flow.gas
        run.progress(Y_PLUS, float(flow.y_plus))
        if before:
            residuals.append(float(heated.change))
            run.progress(MEASURE, residuals[-1])
            balanced = abs(float(flow.imbalance)) < BALANCED and not flow.limited
            steady = len(residuals) > 1 and residuals[-2] < tolerance and balanced
            if residuals[-1] < tolerance and (flow.converged or steady):
                worth = {"imbalance": float(flow.imbalance), "y_plus": float(flow.y_plus)}
                return Coupled(mapped.pressure, heated.temperature, flow.wall, wall_temperature, gas, residuals, **worth)
    raise NotCoupled(
        f"after {steps} solutions the bore's temperature still changes by {residuals[-1]:.3g} K, {tolerance:g} K wanted; "
        f"the gas has {'' if flow.converged else 'not '}converged"
    )
