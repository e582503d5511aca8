#!/usr/bin/env python3
"""moldyn.py MM: what moldyn.c does, with mpi4py and NumPy.

Every rank computes all forces on every size-th particle, a block of particles at a time; the others' come with an
Allreduce for each dimension.
"""

import math
import sys

import numpy as np
from mpi4py import MPI

STEPS, SCALE_EVERY, SCALE_BEFORE = 50, 10, 19
DENSITY, TEMPERATURE, STEP = 0.83134, 0.722, 0.064
ROOT = 0.3333333  # the cube's side is this power of its volume: so it is where the published energies come from
BLOCK = 64


def uniform():
    """Numbers from 0 to 1, the same everywhere."""
    seed = 1
    while True:
        seed = seed * 16807 % 2**31
        yield seed * 4.656612875e-10


def normal(numbers):
    """Pairs of a normal distribution, one after the other (Marsaglia's polar method)."""
    while True:
        a, b = 2 * next(numbers) - 1, 2 * next(numbers) - 1
        square = a * a + b * b
        if square < 1:
            factor = math.sqrt(-2 * math.log(square) / square)
            yield a * factor
            yield b * factor


def lattice(mm, side):
    """Places of a face-centred cubic lattice of mm cells in each direction; 3 rows."""
    cells = np.indices((mm, mm, mm)).reshape(3, 1, -1)
    corners = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]]).T[:, :, None]
    return ((cells + corners) * (side / mm)).reshape(3, -1)


def forces(position, mine, side, reach):
    """Forces on particles `mine`; their potential energy, virial and number of pairs, of which others have the other half."""
    force, energies = np.zeros_like(position), np.zeros(3)
    for start in range(0, len(mine), BLOCK):
        block = mine[start : start + BLOCK]
        apart = np.abs(position[:, block, None] - position[:, None, :])
        np.minimum(apart, side - apart, out=apart)
        own, other = np.nonzero(np.einsum("dij,dij->ij", apart, apart) <= reach**2)
        own, other = block[own], other
        # A particle is no neighbour of its own.
        own, other = own[own != other], other[own != other]
        apart = position[:, own] - position[:, other]
        apart -= side * np.rint(apart / side)
        square = (apart**2).sum(axis=0)
        r6 = square**-3
        strength = r6 / square * (r6 - 0.5)
        for dimension, pull in zip(force, apart * strength):
            dimension += np.bincount(own, pull, minlength=len(dimension))
        energies += np.array([(r6 * (r6 - 1)).sum(), -(square * strength).sum(), len(own)]) / 2
    return force, energies


def main(mm):
    world = MPI.COMM_WORLD
    count = 4 * mm**3
    side = (count / DENSITY) ** ROOT
    heat = 16 / (count - 1)  # how squares of velocities make a temperature
    position = lattice(mm, side)
    velocity = np.fromiter(normal(uniform()), float, 3 * count).reshape(3, count)
    velocity -= velocity.mean(axis=1, keepdims=True)
    velocity *= STEP * math.sqrt(TEMPERATURE / (heat * (velocity**2).sum()))
    force, squares = np.zeros_like(position), 0.0
    mine = np.arange(world.rank, count, world.size)
    for step in range(STEPS):
        velocity += force
        position += velocity
        position += side * (position < 0)
        position -= side * (position > side)
        world.Barrier()
        force, energies = forces(position, mine, side, mm / 4)
        world.Barrier()
        for dimension in force:
            world.Allreduce(MPI.IN_PLACE, dimension)
        energies = [world.allreduce(energy) for energy in energies]
        world.Barrier()
        force *= STEP**2 / 2
        velocity += force
        squares = (velocity**2).sum() / STEP**2
        if step < SCALE_BEFORE and (step + 1) % SCALE_EVERY == 0:
            velocity *= math.sqrt(TEMPERATURE / (heat * squares))
            squares = TEMPERATURE / heat
    if world.rank == 0:
        print(f"ek {24 * squares:.13f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
