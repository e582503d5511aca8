"""program.py SOCKET: what program.c does, with mpi4py and Python objects (NumPy's arrays, which it pickles)."""

import json
import socket
import sys
import time

import numpy as np
from mpi4py import MPI

WINDOW = 10  # messages of a Ping*Pong
WORLD = MPI.COMM_WORLD


def there_and_back(comm, data, messages):
    partner, got = comm.rank ^ 1, None
    if partner >= comm.size:
        return None
    for way in range(2):
        for _ in range(messages):
            if comm.rank % 2 == way:
                comm.send(got if way else data, partner)
            else:
                got = comm.recv(source=partner)
    return got


def matrix(comm, data):
    """One rank after the other sends its rows of a matrix to all others (paper 001, figure 3c)."""
    rows = np.array_split(data, comm.size)
    for owner in range(comm.size):
        if owner == comm.rank:
            for to in range(comm.rank + 1, comm.rank + comm.size):
                comm.send(rows[owner], to % comm.size)
        else:
            rows[owner] = comm.recv(source=owner)
    return rows


# What is done, whether a barrier comes before, and whether rank 0 is told that all have finished (paper 002, 4.2).
OPERATIONS = {
    "pingpong": (lambda comm, data: there_and_back(comm, data, 1), False, False),
    "ping*pong": (lambda comm, data: there_and_back(comm, data, WINDOW), False, False),
    "matrix": (matrix, True, True),
    "broadcast": (lambda comm, data: comm.bcast(data if comm.rank == 0 else None), True, True),
    "gather": (lambda comm, data: comm.gather(data), True, False),
    "reduce": (lambda comm, data: comm.reduce(data), True, False),
    "allreduce": (lambda comm, data: comm.allreduce(data), True, True),
}


def begun(rank, n):
    """The numbers that a rank begins with."""
    return (rank + np.arange(n * n) % 1000.0).reshape(n, n)


def is_right(operation, comm, n, got):
    """Whether this rank has what the operation should give."""
    size, root = comm.size, comm.rank == 0
    if operation in ("pingpong", "ping*pong"):
        return comm.rank ^ 1 >= size or np.array_equal(got, begun(comm.rank & ~1, n))
    if operation == "matrix":
        return all(np.array_equal(rows, np.array_split(begun(owner, n), size)[owner]) for owner, rows in enumerate(got))
    if operation == "broadcast":
        return np.array_equal(got, begun(0, n))
    if operation == "gather":
        return not root or all(np.array_equal(one, begun(rank, n)) for rank, one in enumerate(got))
    wanted = sum(begun(rank, n) for rank in range(size))
    return operation == "reduce" and not root or np.array_equal(got, wanted)


def take(operation, algorithms, n, repetitions):
    act, begins_with_barrier, reports = OPERATIONS[operation]
    comm, data, seconds = WORLD, begun(WORLD.rank, n), []
    mine, every = np.zeros(1, np.uint8), np.zeros(WORLD.size, np.uint8)
    if algorithms != "-":
        comm = WORLD.Dup_with_info(MPI.Info.Create({"fishplate_algorithms": algorithms}))
    # The first one wakes everybody, and does not count.
    for _ in range(repetitions + 1):
        if begins_with_barrier:
            comm.Barrier()
        begin = time.perf_counter()
        got = act(comm, data)
        if reports:
            comm.Gather(mine, every if comm.rank == 0 else None)
        seconds.append(time.perf_counter() - begin)
    equal = repetitions > 0 or comm.allreduce(is_right(operation, comm, n, got), MPI.LAND)
    if comm is not WORLD:
        comm.Free()
    return {"equal": bool(equal), "seconds": seconds[1:]}


def main(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(f"{WORLD.rank}\n".encode())
        for line in connection.makefile():
            operation, algorithms, n, repetitions = line.split()
            answer = take(operation, algorithms, int(n), int(repetitions))
            if WORLD.rank == 0:
                connection.sendall(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
