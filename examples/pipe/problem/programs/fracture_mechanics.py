#!/usr/bin/env python3
"""Stress intensities along a crack's front. Ours; no third party's.

How large they are tells the energy release rate, a domain integral (domain_integral.py), which is
(K_I^2 + K_II^2) / E' + K_III^2 / 2 G. How they share it, and their signs, tells displacement correlation: close to the
front the sides of a crack are displaced against each other by

    opening  8 K_I  / E' sqrt(r / 2 pi)      sliding  8 K_II / E' sqrt(r / 2 pi)
    tearing  4 K_III / G sqrt(r / 2 pi)      with E' = E / (1 - nu^2), G = E / 2 (1 + nu)

at the distance r (Anderson, Fracture Mechanics, section 2.8 and 12.2). Each pair of nodes of the two sides gives an
apparent K; at each node of the front, K is what a least-squares fit of them, linear in r and along the front, has at
r = 0. Loads on the sides and temperatures only change the part that is linear in r.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from calculix import BadDeck
from crack_front import Deck, Front, front_of, projection, read_deck, read_nodal
from domain_integral import Solid, read_pressure, release_rates

NOISE = 0.05
"""An energy release rate can't be negative; so much less than zero, in parts of the largest one, is the mesh's noise, and
taken as zero."""
BALANCE = 1e-5
"""Of the forces at all nodes, the largest part that the held node may bear."""
REACH = 3.0
"""Pairs of nodes that are nearer to the front than so many of its edges are used."""


def pairs(deck: Deck, marker: str = "5") -> list[tuple[int, int]]:
    """The nodes of side A, each with the one of side B in the same place."""
    there = {tuple(deck.nodes[node]): node for node in deck.sets[f"NODES_{marker}B"]}
    found = [(node, there[tuple(deck.nodes[node])]) for node in deck.sets[f"NODES_{marker}A"]]
    return [(a, b) for a, b in found if a != b]


def displacement_correlation(deck: Deck, front: Front, solid: Solid, displacement: dict[int, np.ndarray]) -> np.ndarray:
    """K_I, K_II, K_III at each node of the front by displacement correlation, MPa sqrt(mm)."""
    couples = pairs(deck)
    try:
        jump = np.array([displacement[a] - displacement[b] for a, b in couples])
    except KeyError as missing:
        raise BadDeck(f"the results have no displacement of node {missing}") from None
    r, arc, side, part = projection(front, np.array([deck.nodes[a] for a, _ in couples]))
    begin, end = front.sides

    def across(rows: np.ndarray) -> np.ndarray:
        mixed = rows[begin[side]] * (1 - part)[:, None] + rows[end[side]] * part[:, None]
        return mixed / np.linalg.norm(mixed, axis=1)[:, None]

    stiffness = solid.young / (1 - solid.poisson**2) / 8
    factors = (stiffness, stiffness, solid.young / (1 + solid.poisson) / 8)
    modes = [
        factor * np.sqrt(2 * np.pi / r) * np.einsum("nk,nk->n", jump, across(rows))
        for factor, rows in zip(factors, (front.normal, front.ahead, front.tangent), strict=True)
    ]
    apparent = np.column_stack(modes)
    total = front.arc[-1]
    edge = total / len(begin)
    found = np.empty((len(front.points), 3))
    for k, here in enumerate(front.arc[: len(front.points)]):
        apart = arc - here
        if front.closed:
            apart = (apart + total / 2) % total - total / 2
        window = REACH * edge
        near = (r < window) & (np.abs(apart) < window)
        while near.sum() < 8 and window < total:
            window *= 1.5
            near = (r < window) & (np.abs(apart) < window)
        weight = 1 - (apart[near] / window) ** 2
        terms = np.column_stack([np.ones(near.sum()), r[near], apart[near]]) * weight[:, None]
        found[k] = np.linalg.lstsq(terms, apparent[near] * weight[:, None], rcond=None)[0][0]
    return found


def intensities(rates: np.ndarray, shares: np.ndarray, solid: Solid) -> np.ndarray:
    """K_I, K_II, K_III with the energy release rates of the one and the shares and signs of the other."""
    plane = solid.young / (1 - solid.poisson**2)
    released = (shares[:, 0] ** 2 + shares[:, 1] ** 2) / plane + shares[:, 2] ** 2 * (1 + solid.poisson) / solid.young
    if rates.min() < -NOISE * np.abs(rates).max():
        raise BadDeck(
            f"an energy release rate is {rates.min():.4g} N/mm, of up to {rates.max():.4g}: none is negative, so mesh, "
            "results and loads do not belong together"
        )
    size = np.sqrt(np.maximum(rates, 0.0))
    if (size[released == 0] > 0).any():
        raise BadDeck("energy is released where the crack's sides are not displaced against each other")
    return shares * np.divide(size, np.sqrt(released), out=np.zeros_like(size), where=released > 0)[:, None]


def check_held(deck: Deck, result: Path) -> None:
    """Raises `BadDeck` if the node that holds the solid along z bears a force: its loads do not balance."""
    if "NODES_HELD" not in deck.sets:
        return
    force = read_nodal(result, "FORC", 3)
    (held,) = deck.sets["NODES_HELD"]
    borne, all_of_them = abs(force[held][2]), np.abs(np.array(list(force.values()))).sum()
    print(f"the held node bears {borne:.3g} N of {all_of_them:.4g} N at all nodes")
    if borne > BALANCE * all_of_them:
        raise BadDeck(f"node {held} holds the solid with {borne:.4g} N along z: the loads do not balance")


def along_front(
    deck: Deck,
    solid: Solid,
    displacement: dict[int, np.ndarray],
    temperature: dict[int, float] | None,
    pressure: dict[tuple[int, int], float],
) -> tuple[Front, np.ndarray]:
    """The front, and K_I, K_II, K_III at each of its nodes, MPa sqrt(mm)."""
    front = front_of(deck)
    rates = release_rates(deck, front, solid, displacement, temperature, pressure)
    return front, intensities(rates, displacement_correlation(deck, front, solid, displacement), solid)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", type=Path, help="the mesh as t4_to_t10.py writes it")
    parser.add_argument("result", type=Path, help="CalculiX's .frd with displacements (and temperatures)")
    parser.add_argument("table", type=Path, help="written: a row a node of the front: x, y, z, K_I, K_II, K_III")
    parser.add_argument("--young", type=float, required=True, help="MPa")
    parser.add_argument("--poisson", type=float, required=True)
    parser.add_argument("--expansion", type=float, default=0.0, help="1/K; with it the .frd has to have temperatures")
    parser.add_argument("--reference", type=float, default=0.0, help="temperature without thermal strain, K")
    parser.add_argument("--pressure", type=Path, help="the deck's part with the pressures")
    wanted = parser.parse_args()
    solid = Solid(wanted.young, wanted.poisson, wanted.expansion, wanted.reference)
    try:
        deck = read_deck(wanted.mesh)
        check_held(deck, wanted.result)
        displacement = read_nodal(wanted.result, "DISP", 3)
        temperature = None
        if wanted.expansion:
            temperature = {node: row[0] for node, row in read_nodal(wanted.result, "NDTEMP", 1).items()}
        pressure = read_pressure(wanted.pressure, deck)
        front, found = along_front(deck, solid, displacement, temperature, pressure)
    except (BadDeck, OSError, ValueError) as error:
        print(f"fracture_mechanics: {error}", file=sys.stderr)
        return 1
    np.savetxt(wanted.table, np.column_stack([front.points, found]), fmt="%.9g")
    largest = np.abs(found[:, 0]).max()
    print(f"{len(found)} nodes on the front, K_I {found[:, 0].min():.4g} to {found[:, 0].max():.4g} MPa sqrt(mm)")
    print(
        f"K_II and K_III at most {np.abs(found[:, 1]).max() / largest:.2%} and {np.abs(found[:, 2]).max() / largest:.2%}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
