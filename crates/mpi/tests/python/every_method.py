"""Each method of genuine mpi4py that needs neither windows, files nor dynamic processes, at any number of ranks: what it gives is
compared. Run by `fishplate run -n N python every_method.py`; a method that nothing here calls is an error."""

import ast
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
SIZE, RANK = WORLD.Get_size(), WORLD.Get_rank()
RIGHT, LEFT = (RANK + 1) % SIZE, (RANK - 1) % SIZE
RANKS = list(range(SIZE))
SUM = sum(RANKS)
INT = MPI.INT64_T

CHECKS: list[Callable[[], None]] = []


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS.append(function)
    return function


def refused(work: Callable[[], object], code: int) -> None:
    """The call ends with an error of this class."""
    try:
        work()
    except MPI.Exception as error:
        assert error.Get_error_class() == error.error_class == code, error
        assert error.Get_error_code() == error.error_code
        assert error.Get_error_string() == error.error_string == MPI.Get_error_string(error.Get_error_code())
    else:
        raise AssertionError(f"{work} was not refused")


def whole(*values: int) -> np.ndarray:
    return np.array(values, dtype="i8")


def empty(length: int = 1) -> np.ndarray:
    return np.full(length, -1, dtype="i8")


def same(found, *values) -> None:
    assert list(found) == list(values), (list(found), values)


# --- messages -------------------------------------------------------------------------------------


@check
def blocking_messages() -> None:
    room = MPI.Alloc_mem(4096)
    WORLD.Attach_buffer(room)
    for send in (WORLD.Send, WORLD.Ssend, WORLD.Bsend):
        request = WORLD.Irecv(into := empty(), source=LEFT, tag=3)
        send(whole(RANK), dest=RIGHT, tag=3)
        status = MPI.Status()
        request.Wait(status)
        same(into, LEFT)
        assert (status.Get_source(), status.Get_tag(), status.Get_count(INT), status.Get_error()) == (LEFT, 3, 1, 0)
        assert status.Get_elements(INT) == 1 and not status.Is_cancelled()
    WORLD.Flush_buffer()
    WORLD.Iflush_buffer().Wait()
    WORLD.Detach_buffer()
    MPI.Attach_buffer(room)
    MPI.Flush_buffer()
    MPI.Iflush_buffer().Wait()
    MPI.Detach_buffer()
    MPI.Free_mem(room)
    request = WORLD.Irecv(into := empty(), source=LEFT)
    WORLD.Barrier()
    WORLD.Rsend(whole(RANK), dest=RIGHT)
    request.Wait()
    same(into, LEFT)
    WORLD.Sendrecv(whole(RANK), dest=RIGHT, recvbuf=(into := empty()), source=LEFT)
    same(into, LEFT)
    WORLD.Sendrecv_replace(both := whole(RANK), dest=RIGHT, source=LEFT)
    same(both, LEFT)
    request = WORLD.Isend(whole(RANK, 7), dest=RIGHT, tag=9)
    WORLD.Probe(source=LEFT, tag=9, status=(status := MPI.Status()))
    assert status.Get_count(INT) == 2
    while not WORLD.Iprobe(source=LEFT, tag=9):
        pass
    WORLD.Recv(into := empty(2), source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
    same(into, LEFT, 7)
    request.Wait()
    WORLD.Recv(into, source=MPI.PROC_NULL, status=status)
    assert status.Get_source() == MPI.PROC_NULL and status.Get_count(INT) == 0


@check
def messages_in_progress() -> None:
    room = MPI.Alloc_mem(4096)
    WORLD.Attach_buffer(room)
    for send in (WORLD.Isend, WORLD.Issend, WORLD.Ibsend):
        MPI.Request.Waitall([WORLD.Irecv(into := empty(), source=LEFT), send(whole(RANK), dest=RIGHT)])
        same(into, LEFT)
    WORLD.Detach_buffer()
    MPI.Free_mem(room)
    receive = WORLD.Irecv(into := empty(), source=LEFT)
    WORLD.Barrier()
    WORLD.Irsend(whole(RANK), dest=RIGHT).Wait()
    while not receive.Get_status():
        pass
    assert receive.Test()
    same(into, LEFT)
    WORLD.Isendrecv(whole(RANK), dest=RIGHT, recvbuf=(into := empty()), source=LEFT).Wait()
    same(into, LEFT)
    WORLD.Isendrecv_replace(both := whole(RANK), dest=RIGHT, source=LEFT).Wait()
    same(both, LEFT)
    never = WORLD.Irecv(empty(), source=LEFT, tag=77)
    never.Cancel()
    never.Wait(status := MPI.Status())
    assert status.Is_cancelled()
    matched = WORLD.Isend(whole(RANK), dest=RIGHT, tag=4), WORLD.Isend(whole(RANK), dest=RIGHT, tag=5)
    WORLD.Mprobe(source=LEFT, tag=4).Recv(into := empty())
    same(into, LEFT)
    while (message := WORLD.Improbe(source=LEFT, tag=5)) is None:
        pass
    message.Irecv(into := empty()).Wait()
    same(into, LEFT)
    MPI.Request.Waitall(matched)
    matched = WORLD.Isend(whole(RANK), dest=RIGHT, tag=4), WORLD.Isend(whole(RANK), dest=RIGHT, tag=5)
    MPI.Message.Probe(WORLD, source=LEFT, tag=4).Recv(into)
    while (message := MPI.Message.Iprobe(WORLD, source=LEFT, tag=5)) is None:
        pass
    message.Recv(into)
    MPI.Request.Waitall(matched)


@check
def completion() -> None:
    def four() -> tuple[list[MPI.Request], np.ndarray]:
        into = empty(4)
        receives = [WORLD.Irecv(into[k : k + 1], source=LEFT, tag=k) for k in range(4)]
        for k in range(4):
            WORLD.Send(whole(10 * RANK + k), dest=RIGHT, tag=k)
        return receives, into

    def until(test: Callable[[], object]) -> None:
        while not test():
            pass

    requests, into = four()
    MPI.Request.Waitall(requests, statuses := [MPI.Status() for _ in requests])
    assert [status.Get_tag() for status in statuses] == [0, 1, 2, 3]
    same(into, *(10 * LEFT + k for k in range(4)))
    requests, _ = four()
    seen = {MPI.Request.Waitany(requests) for _ in requests}
    assert seen == {0, 1, 2, 3} and MPI.Request.Waitany(requests) == MPI.UNDEFINED
    requests, _ = four()
    until(lambda: MPI.Request.Get_status_all(requests))
    assert MPI.Request.Get_status_any(requests)[1] and len(MPI.Request.Get_status_some(requests) or []) == 4
    until(lambda: MPI.Request.Testall(requests))
    requests, _ = four()
    done: set[int] = set()
    while len(done) < 2:
        done |= set(MPI.Request.Waitsome(requests) or [])
    while len(done) < 3:
        done |= set(MPI.Request.Testsome(requests) or [])
    while len(done) < 4:
        index, flag = MPI.Request.Testany(requests)
        done |= {index} if flag else set()
    assert done == {0, 1, 2, 3}
    status = MPI.Status()
    status.Set_source(3), status.Set_tag(4), status.Set_error(0), status.Set_elements(INT, 2), status.Set_cancelled(True)
    assert (status.Get_source(), status.Get_tag(), status.Get_elements(INT), status.Is_cancelled()) == (3, 4, 2, True)
    assert len(status.tomemory()) > 0


@check
def persistent_messages() -> None:
    room = MPI.Alloc_mem(4096)
    WORLD.Attach_buffer(room)
    source, into = empty(), empty()
    receive = WORLD.Recv_init(into, source=LEFT)
    for make in (WORLD.Send_init, WORLD.Ssend_init, WORLD.Bsend_init):
        send = make(source, dest=RIGHT)
        for turn in range(3):
            source[0] = 100 * turn + RANK
            MPI.Prequest.Startall([receive, send])
            MPI.Request.Waitall([receive, send])
            same(into, 100 * turn + LEFT)
        send.Free()
    ready = WORLD.Rsend_init(source, dest=RIGHT)
    receive.Start()
    WORLD.Barrier()
    ready.Start()
    MPI.Request.Waitall([receive, ready])
    receive.Free(), ready.Free()
    WORLD.Detach_buffer()
    MPI.Free_mem(room)
    parts, into = np.arange(6, dtype="i8") + RANK, empty(6)
    send, receive = WORLD.Psend_init(parts, 3, dest=RIGHT, tag=6), WORLD.Precv_init(into, 3, source=LEFT, tag=6)
    MPI.Prequest.Startall([send, receive])
    send.Pready(0), send.Pready_range(1, 1), send.Pready_list([2])
    while not all(receive.Parrived(part) for part in range(3)):
        pass
    MPI.Request.Waitall([send, receive])
    same(into, *range(LEFT, LEFT + 6))
    send.Free(), receive.Free()


@check
def objects() -> None:
    thing = {"rank": RANK, "text": "å" * 100}
    MPI.Attach_buffer(room := MPI.Alloc_mem(1 << 16))
    for send in (WORLD.send, WORLD.ssend):
        receive = WORLD.irecv(source=LEFT, tag=1)
        send(thing, dest=RIGHT, tag=1)
        assert receive.wait() == {**thing, "rank": LEFT}
    WORLD.bsend(thing, dest=RIGHT, tag=1)
    assert WORLD.recv(source=LEFT, tag=1) == {**thing, "rank": LEFT}
    for send in (WORLD.isend, WORLD.issend, WORLD.ibsend):
        receive = WORLD.irecv(source=LEFT, tag=2)
        sent = send(thing, dest=RIGHT, tag=2)
        assert receive.wait()["rank"] == LEFT
        sent.wait()
    MPI.Detach_buffer()
    MPI.Free_mem(room)
    assert WORLD.sendrecv(thing, dest=RIGHT, source=LEFT)["rank"] == LEFT
    sends = [WORLD.isend(k, dest=RIGHT, tag=k) for k in range(8)]
    WORLD.probe(source=LEFT, tag=0)
    while not WORLD.iprobe(source=LEFT, tag=0):
        pass
    assert WORLD.mprobe(source=LEFT, tag=0).recv() == 0
    while (message := WORLD.improbe(source=LEFT, tag=1)) is None:
        pass
    assert message.irecv().wait() == 1
    assert MPI.Message.probe(WORLD, source=LEFT, tag=2).recv() == 2
    while (message := MPI.Message.iprobe(WORLD, source=LEFT, tag=3)) is None:
        pass
    assert message.recv() == 3
    receives = [WORLD.irecv(source=LEFT, tag=tag) for tag in (4, 5)]
    while not MPI.Request.get_status_all(receives):
        pass
    assert MPI.Request.get_status_any(receives)[1] and MPI.Request.get_status_some(receives) == [0, 1]
    assert MPI.Request.waitall(receives) == [4, 5]
    receives = [WORLD.irecv(source=LEFT, tag=6)]
    assert MPI.Request.waitany(receives)[1] == 6
    receives = [WORLD.irecv(source=LEFT, tag=7)]
    assert MPI.Request.waitsome(receives)[1] == [7]
    MPI.Request.waitall(sends)
    for test, found in (
        (MPI.Request.testall, (True, [LEFT])), (MPI.Request.testany, (0, True, LEFT)), (MPI.Request.testsome, ([0], [LEFT])),
    ):  # fmt: skip
        receives, sent = [WORLD.irecv(source=LEFT)], WORLD.isend(RANK, dest=RIGHT)
        while (told := test(receives)) != found:
            assert told in ((False, None), (MPI.UNDEFINED, False, None), ([], [])), told
        sent.wait()
    receive, sent = WORLD.irecv(source=LEFT), WORLD.isend(RANK, dest=RIGHT)
    while not receive.get_status():
        pass
    assert receive.test() == (True, LEFT)
    sent.wait()
    never = WORLD.irecv(source=LEFT, tag=99)
    never.cancel()
    never.Wait()
    out = MPI.pickle
    assert out.loads(out.dumps(thing)) == pickle.loads(pickle.dumps(thing))
    data, buffers = out.dumps_oob(np.arange(3))
    same(out.loads_oob(data, buffers), 0, 1, 2)


@check
def generalized_requests() -> None:
    told = []

    def query(status: MPI.Status) -> None:
        status.Set_elements(MPI.BYTE, 5)
        status.Set_cancelled(False)

    for complete in (lambda request: request.Complete(), lambda request: request.complete()):
        request = MPI.Grequest.Start(query, lambda: told.append("free"), lambda done: told.append(done))
        assert not request.Test()
        request.Cancel()
        complete(request)
        request.Wait(status := MPI.Status())
        assert status.Get_count(MPI.BYTE) == 5
    assert told == [False, "free"] * 2


# --- collective operations ------------------------------------------------------------------------


@check
def collectives_of_buffers() -> None:
    WORLD.barrier()
    one, counts = whole(RANK), [rank + 1 for rank in RANKS]
    displacements = [sum(counts[:rank]) for rank in RANKS]
    every = [value for rank in RANKS for value in [rank] * (rank + 1)]
    mine = np.full(RANK + 1, RANK, dtype="i8")
    spread = np.arange(SIZE, dtype="i8") * 100 + RANK  # what goes to each
    came = [RANK * 100 + rank for rank in RANKS]
    ones = [1] * SIZE
    types = [INT] * SIZE
    bytes_at = [8 * rank for rank in RANKS]
    root = RANK == 0

    def run(blocking: Callable, *arguments) -> None:
        blocking(*arguments)

    def nonblocking(start: Callable, *arguments) -> None:
        start(*arguments).Wait()

    def persistent(make: Callable, *arguments) -> None:
        request = make(*arguments)
        for _ in range(2):
            request.Start()
            request.Wait()
        request.Free()

    forms = (
        (run, WORLD.Barrier, WORLD.Bcast, WORLD.Gather, WORLD.Gatherv, WORLD.Scatter, WORLD.Scatterv, WORLD.Allgather, WORLD.Allgatherv,
         WORLD.Alltoall, WORLD.Alltoallv, WORLD.Alltoallw, WORLD.Reduce, WORLD.Allreduce, WORLD.Reduce_scatter,
         WORLD.Reduce_scatter_block, WORLD.Scan, WORLD.Exscan),
        (nonblocking, WORLD.Ibarrier, WORLD.Ibcast, WORLD.Igather, WORLD.Igatherv, WORLD.Iscatter, WORLD.Iscatterv, WORLD.Iallgather,
         WORLD.Iallgatherv, WORLD.Ialltoall, WORLD.Ialltoallv, WORLD.Ialltoallw, WORLD.Ireduce, WORLD.Iallreduce, WORLD.Ireduce_scatter,
         WORLD.Ireduce_scatter_block, WORLD.Iscan, WORLD.Iexscan),
        (persistent, WORLD.Barrier_init, WORLD.Bcast_init, WORLD.Gather_init, WORLD.Gatherv_init, WORLD.Scatter_init, WORLD.Scatterv_init,
         WORLD.Allgather_init, WORLD.Allgatherv_init, WORLD.Alltoall_init, WORLD.Alltoallv_init, WORLD.Alltoallw_init, WORLD.Reduce_init,
         WORLD.Allreduce_init, WORLD.Reduce_scatter_init, WORLD.Reduce_scatter_block_init, WORLD.Scan_init, WORLD.Exscan_init),
    )  # fmt: skip
    for do, barrier, bcast, gather, gatherv, scatter, scatterv, allgather, allgatherv, alltoall, alltoallv, alltoallw, reduce, \
            allreduce, reduce_scatter, reduce_scatter_block, scan, exscan in forms:  # fmt: skip
        do(barrier)
        do(bcast, data := whole(42) if root else empty(), 0)
        same(data, 42)
        do(gather, one, all_ranks := empty(SIZE), 0)
        same(all_ranks, *(RANKS if root else [-1] * SIZE))
        do(gatherv, mine, [into := empty(len(every)), (counts, displacements)] if root else None, 0)
        assert not root or list(into) == every
        do(scatter, np.arange(SIZE, dtype="i8") if root else None, got := empty(), 0)
        same(got, RANK)
        do(scatterv, [np.array(every), (counts, displacements)] if root else None, got := empty(RANK + 1), 0)
        same(got, *mine)
        do(allgather, one, got := empty(SIZE))
        same(got, *RANKS)
        do(allgatherv, mine, [got := empty(len(every)), (counts, displacements)])
        same(got, *every)
        do(alltoall, spread, got := empty(SIZE))
        same(got, *came)
        do(alltoallv, [spread, (ones, RANKS)], [got := empty(SIZE), (ones, RANKS)])
        same(got, *came)
        do(alltoallw, [spread, ones, bytes_at, types], [got := empty(SIZE), ones, bytes_at, types])
        same(got, *came)
        do(reduce, one, got := empty(), MPI.SUM, 0)
        same(got, SUM if root else -1)
        do(allreduce, one, got := empty(), MPI.MAX)
        same(got, SIZE - 1)
        do(reduce_scatter, np.ones(len(every), dtype="i8"), got := empty(RANK + 1), counts)
        same(got, *[SIZE] * (RANK + 1))
        do(reduce_scatter_block, np.arange(SIZE, dtype="i8"), got := empty())
        same(got, SIZE * RANK)
        do(scan, one, got := empty())
        same(got, sum(range(RANK + 1)))
        do(exscan, one, got := empty())
        same(got, sum(range(RANK)) if RANK else -1)
    WORLD.Allreduce(MPI.IN_PLACE, got := whole(RANK))
    same(got, SUM)


@check
def collectives_of_objects() -> None:
    assert WORLD.bcast({"a": 1} if RANK == 0 else None) == {"a": 1}
    assert WORLD.gather((RANK,)) == ([(rank,) for rank in RANKS] if RANK == 0 else None)
    assert WORLD.scatter([str(rank) for rank in RANKS] if RANK == 0 else None) == str(RANK)
    assert WORLD.allgather({RANK}) == [{rank} for rank in RANKS]
    assert WORLD.alltoall([(RANK, rank) for rank in RANKS]) == [(rank, RANK) for rank in RANKS]
    assert WORLD.reduce([RANK]) == (RANKS if RANK == 0 else None)
    assert WORLD.allreduce(str(RANK)) == "".join(map(str, RANKS))
    assert WORLD.scan(RANK) == sum(range(RANK + 1))
    assert WORLD.exscan(RANK) == (sum(range(RANK)) if RANK else None)


@check
def operations() -> None:
    def concatenate(source: MPI.buffer, target: MPI.buffer, _kind: MPI.Datatype) -> None:
        one, other = np.frombuffer(source, "i8"), np.frombuffer(target, "i8")
        other[:] = [int(f"{left}{right}") for left, right in zip(one, other, strict=True)]

    digits = MPI.Op.Create(concatenate, commute=False)
    assert not digits.Is_commutative() and MPI.SUM.Is_commutative()
    WORLD.Allreduce(whole(RANK + 1), got := empty(), digits)
    same(got, int("".join(str(rank + 1) for rank in RANKS)))
    digits.Reduce_local(whole(3), target := whole(4))
    same(target, 34)
    digits.Free()
    odd = sum(rank % 2 for rank in RANKS)
    for op, value in (
        (MPI.MIN, 0), (MPI.PROD, 0), (MPI.BOR, np.bitwise_or.reduce(RANKS)), (MPI.BAND, 0), (MPI.BXOR, np.bitwise_xor.reduce(RANKS)),
        (MPI.LAND, 0), (MPI.LOR, int(SIZE > 1)),
    ):  # fmt: skip
        WORLD.Allreduce(whole(RANK), got, op)
        same(got, value)
    WORLD.Allreduce(whole(RANK % 2), got, MPI.LXOR)
    same(got, odd % 2)
    for op, at in ((MPI.MINLOC, SIZE - 1), (MPI.MAXLOC, 0)):
        pairs = np.zeros(1, dtype=[("value", "f8"), ("at", "i4")])
        pairs["value"], pairs["at"] = -RANK, RANK
        WORLD.Allreduce(MPI.IN_PLACE, [pairs, 1, MPI.DOUBLE_INT], op)
        assert pairs["at"][0] == at


# --- communicators, groups ------------------------------------------------------------------------


@check
def groups() -> None:
    world = WORLD.Get_group()
    assert (world.Get_size(), world.Get_rank()) == (SIZE, RANK)
    first, rest = world.Incl([0]), world.Excl([0])
    assert first.Get_size() == 1 and rest.Get_size() == SIZE - 1
    assert MPI.Group.Compare(MPI.Group.Union(first, rest), world) == MPI.IDENT
    assert MPI.Group.Intersection(first, world).Get_size() == MPI.Group.Intersect(first, world).Get_size() == 1
    assert MPI.Group.Difference(world, first).Get_size() == SIZE - 1
    assert world.Range_incl([(0, SIZE - 1, 1)]).Get_size() == SIZE and world.Range_excl([(0, SIZE - 1, 1)]).Get_size() == 0
    assert list(world.Translate_ranks(RANKS, world)) == RANKS
    copy = world.Dup()
    assert copy == world or MPI.Group.Compare(copy, world) == MPI.IDENT
    for group in (first, rest, copy, world):
        if group not in (MPI.GROUP_EMPTY, MPI.GROUP_NULL):
            group.Free()


@check
def communicators() -> None:
    info = MPI.Info.Create()
    info.Set("fishplate_algorithms", "broadcast=binomial")
    made = [WORLD.Dup(), WORLD.Dup_with_info(info), WORLD.Clone()]
    for start in (WORLD.Idup, lambda: WORLD.Idup_with_info(info)):
        copy, request = start()
        request.Wait()
        made.append(copy)
    group = WORLD.Get_group()
    made += [WORLD.Create(group), WORLD.Create_group(group, tag=3), MPI.Intracomm.Create_from_group(group, "every-method")]
    made += [WORLD.Split(0, RANK), WORLD.Split_type(MPI.COMM_TYPE_SHARED)]
    for comm in made[:-1]:
        assert MPI.Comm.Compare(comm, WORLD) == MPI.CONGRUENT and comm.Is_intra() and not comm.Is_inter()
        comm.Set_name(f"copy {RANK}")
        assert comm.Get_name() == f"copy {RANK}"
        assert comm.allreduce(1) == SIZE
    made[1].Set_info(info)
    assert made[1].Get_info().Get("fishplate_algorithms") == "broadcast=binomial"
    assert WORLD.Split(MPI.UNDEFINED) == MPI.COMM_NULL
    backwards = WORLD.Split(RANK % 2, -RANK)
    assert backwards.allgather(RANK) == [rank for rank in reversed(RANKS) if rank % 2 == RANK % 2]
    backwards.Disconnect()
    assert WORLD.Get_topology() == MPI.UNDEFINED and MPI.Comm.Get_parent() == MPI.COMM_NULL
    for comm in made:
        comm.Free()
    info.Free(), group.Free()


@check
def attributes() -> None:
    gone = []
    key = MPI.Comm.Create_keyval(copy_fn=lambda _comm, _key, value: value + 1, delete_fn=lambda _comm, _key, value: gone.append(value))
    comm = WORLD.Dup()
    comm.Set_attr(key, 5)
    copy = comm.Dup()
    assert (comm.Get_attr(key), copy.Get_attr(key), WORLD.Get_attr(key)) == (5, 6, None)
    copy.Free()
    comm.Delete_attr(key)
    comm.Free()
    assert gone == [6, 5]
    MPI.Comm.Free_keyval(key)
    assert WORLD.Get_attr(MPI.TAG_UB) >= 32767
    key = MPI.Datatype.Create_keyval()
    kind = INT.Dup()
    kind.Set_attr(key, "note")
    assert kind.Get_attr(key) == "note"
    kind.Delete_attr(key)
    assert kind.Get_attr(key) is None
    kind.Free()
    MPI.Datatype.Free_keyval(key)


@check
def between_groups() -> None:
    if SIZE < 2:
        return
    low = RANK < (SIZE + 1) // 2
    half = WORLD.Split(0 if low else 1, RANK)
    inter = half.Create_intercomm(0, WORLD, (SIZE + 1) // 2 if low else 0, tag=5)
    theirs = SIZE // 2 if low else (SIZE + 1) // 2
    assert inter.Is_inter() and inter.Get_remote_size() == inter.Get_remote_group().Get_size() == theirs
    assert sorted(inter.allgather(RANK)) == [rank for rank in RANKS if (rank < (SIZE + 1) // 2) != low]
    merged = inter.Merge(high=low)
    assert merged.allreduce(RANK) == SUM
    group, world = half.Get_group(), WORLD.Get_group()
    other = MPI.Group.Difference(world, group)
    again = MPI.Intercomm.Create_from_groups(group, 0, other, 0, "between")
    assert again.Get_remote_size() == theirs
    for comm in (again, merged, inter, half):
        comm.Free()


@check
def topologies() -> None:
    sides = MPI.Compute_dims(SIZE, 2)
    grid = WORLD.Create_cart(sides, periods=[True, False])
    assert grid.Get_dim() == 2 and grid.Get_topo()[0] == list(sides) and grid.Get_topology() == MPI.CART
    assert grid.Get_cart_rank(grid.Get_coords(grid.Get_rank())) == grid.Get_rank()
    assert WORLD.Cart_map(sides) in [*RANKS, MPI.UNDEFINED]
    row = grid.Sub([True, False])
    assert row.Get_size() == sides[0]
    ring = WORLD.Create_cart([SIZE], periods=[True])
    assert ring.Shift(0, 1) == (LEFT, RIGHT)
    around = list(np.cumsum([2] * SIZE)), [side for rank in RANKS for side in ((rank - 1) % SIZE, (rank + 1) % SIZE)]
    graph = WORLD.Create_graph(*around)
    assert graph.Get_dims() == (SIZE, 2 * SIZE) and graph.Get_neighbors_count(RANK) == 2
    assert graph.Get_neighbors(RANK) == [LEFT, RIGHT] and graph.Get_topo()[0] == [int(end) for end in around[0]]
    assert WORLD.Graph_map(*around) in [*RANKS, MPI.UNDEFINED]
    spread = WORLD.Create_dist_graph([RANK], [1], [RIGHT])
    assert spread.Get_dist_neighbors_count()[:2] == (1, 1)
    near = WORLD.Create_dist_graph_adjacent([LEFT, RIGHT], [RIGHT, LEFT])
    assert list(near.Get_dist_neighbors()[0]) == [LEFT, RIGHT]
    one, two = whole(RANK), whole(RANK, RANK + 100)
    ones, at, bytes_at, types = [1, 1], [0, 1], [0, 8], [INT, INT]
    for gather in (
        near.Neighbor_allgather,
        lambda *of: near.Ineighbor_allgather(*of).Wait(),
        lambda *of: started(near.Neighbor_allgather_init(*of)),
    ):
        gather(one, got := empty(2))
        same(got, LEFT, RIGHT)
    for gather in (
        near.Neighbor_allgatherv,
        lambda *of: near.Ineighbor_allgatherv(*of).Wait(),
        lambda *of: started(near.Neighbor_allgatherv_init(*of)),
    ):
        gather(one, [got := empty(2), (ones, at)])
        same(got, LEFT, RIGHT)
    # Who is to the left sends its first number, to its right; with two ranks both sides are one.
    expected = [LEFT, RIGHT + 100]
    for exchange in (
        near.Neighbor_alltoall,
        lambda *of: near.Ineighbor_alltoall(*of).Wait(),
        lambda *of: started(near.Neighbor_alltoall_init(*of)),
    ):
        exchange(two, got := empty(2))
        same(got, *expected)
    for exchange in (
        near.Neighbor_alltoallv,
        lambda *of: near.Ineighbor_alltoallv(*of).Wait(),
        lambda *of: started(near.Neighbor_alltoallv_init(*of)),
    ):
        exchange([two, (ones, at)], [got := empty(2), (ones, at)])
        same(got, *expected)
    for exchange in (
        near.Neighbor_alltoallw,
        lambda *of: near.Ineighbor_alltoallw(*of).Wait(),
        lambda *of: started(near.Neighbor_alltoallw_init(*of)),
    ):
        exchange([two, ones, bytes_at, types], [got := empty(2), ones, bytes_at, types])
        same(got, *expected)
    assert near.neighbor_allgather(RANK) == [LEFT, RIGHT]
    assert near.neighbor_alltoall(list(two)) == expected
    for comm in (grid, row, ring, graph, spread, near):
        comm.Free()


def started(request: MPI.Prequest) -> None:
    request.Start()
    request.Wait()
    request.Free()


# --- datatypes ------------------------------------------------------------------------------------


@check
def datatypes() -> None:
    made = [
        INT.Create_contiguous(2), INT.Create_vector(2, 1, 2), INT.Create_hvector(2, 1, 16), INT.Create_indexed([1, 1], [0, 2]),
        INT.Create_hindexed([1, 1], [0, 16]), INT.Create_indexed_block(1, [0, 2]), INT.Create_hindexed_block(1, [0, 16]),
        MPI.Datatype.Create_struct([1, 1], [0, 16], [INT, INT]), INT.Create_subarray([2, 2], [2, 1], [0, 0]),
        INT.Create_darray(1, 0, [2], [MPI.DISTRIBUTE_BLOCK], [MPI.DISTRIBUTE_DFLT_DARG], [1]), INT.Create_resized(0, 16).Create_contiguous(2),
    ]  # fmt: skip
    for kind in made:
        kind.Commit()
        assert kind.Get_size() == 16 and kind.Get_extent()[0] == 0 and kind.Get_true_extent()[1] in (16, 24)
        assert kind.Get_envelope()[3] != MPI.COMBINER_NAMED and kind.Get_contents()
        assert kind.decode()[1]
        kind.Set_name("two numbers")
        assert kind.Get_name() == "two numbers"
        one = kind.Get_extent()[1] // 8
        source, into = whole(1, 2, 3, 4), empty(4)
        packed = bytearray(kind.Pack_size(1, WORLD))
        assert kind.Pack(source[:one], packed, 0, WORLD) == 16
        kind.Unpack(packed, 0, into[:one], WORLD)
        same([value for value in into if value > 0], *[1, 2] if kind in (made[0], made[9]) else [1, 3])
        portable = bytearray(kind.Pack_external_size("external32", 1))
        kind.Pack_external("external32", source[:one], portable, 0)
        kind.Unpack_external("external32", portable, 0, (into := empty(4))[:one])
        assert sum(into > 0) == 2
        WORLD.Sendrecv([source, 1, kind], dest=RIGHT, recvbuf=[into := empty(4), 1, kind], source=LEFT)
        assert sum(into > 0) == 2
        kind.Free()
    assert MPI.Datatype.Match_size(MPI.TYPECLASS_REAL, 8).Get_size() == 8
    assert MPI.Datatype.Get_value_index(MPI.DOUBLE, MPI.INT).Get_size() == 12
    assert MPI.Datatype.Create_f90_integer(9).Get_size() == 4
    assert MPI.Datatype.Create_f90_real(15, 300).Get_size() == 8
    assert MPI.Datatype.Create_f90_complex(15, 300).Get_size() == 16
    assert MPI.Datatype.fromcode("d") == MPI.DOUBLE and MPI.DOUBLE.tocode() == "d"
    for copy in (INT.Dup(), INT.Create_dup(), INT.Resized(0, 8)):
        assert copy.Get_extent() == (0, 8)
        copy.free()


# --- information, errors, sessions ----------------------------------------------------------------


@check
def information() -> None:
    info = MPI.Info.Create({"a": "1"})
    info.Set("b", "2")
    assert info.Get_nkeys() == 2 and info.Get("a") == "1" and {info.Get_nthkey(k) for k in range(2)} == {"a", "b"}
    copy = info.Dup()
    info.Delete("a")
    assert copy.get("a") == "1" and info.get("a", "none") == "none"
    assert set(copy.keys()) == {"a", "b"} and set(copy.values()) == {"1", "2"} and dict(copy.items()) == {"a": "1", "b": "2"}
    copy.update({"c": "3"})
    assert copy.pop("c") == "3" and copy.popitem()[0] in "ab"
    other = copy.copy()
    other.clear()
    assert other.Get_nkeys() == 0
    assert MPI.Info.Create_env().Get_nkeys() >= 0
    for one in (info, copy, other):
        one.Free()
    assert MPI.Get_hw_resource_info() != MPI.INFO_NULL
    assert MPI.Get_version()[0] >= 4 and MPI.Get_abi_version()[0] == 1 and "Fishplate" in MPI.Get_library_version()
    assert MPI.Get_abi_info().Get_nkeys() > 0
    MPI.Get_abi_fortran_info()
    assert MPI.get_vendor() and MPI.Get_processor_name()
    assert MPI.Wtick() > 0 and MPI.Wtime() <= MPI.Wtime()
    assert MPI.Is_initialized() and not MPI.Is_finalized() and MPI.Is_thread_main() and MPI.Query_thread() == MPI.THREAD_MULTIPLE
    MPI.Pcontrol(1)
    place = np.zeros(2, "i8")
    first = MPI.Get_address(place)
    assert MPI.Aint_diff(MPI.Get_address(place[1:]), first) == 8 and MPI.Aint_add(first, 8) == MPI.Get_address(place[1:])
    memory = MPI.buffer.allocate(8)
    same(MPI.buffer.frombuffer(b"ab", readonly=True).tobytes(), 97, 98)
    assert MPI.buffer.fromaddress(memory.address, 8).nbytes == 8 and memory.toreadonly().readonly
    assert memory.cast("i").itemsize == 4
    memory.release()


@check
def errors() -> None:
    comm = WORLD.Dup()
    told = []
    handler = MPI.Comm.Create_errhandler(lambda _comm, code: told.append(MPI.Get_error_class(code)))
    comm.Set_errhandler(handler)
    comm.Call_errhandler(MPI.ERR_TAG)
    found = comm.Get_errhandler()
    assert found == handler != MPI.ERRORS_RETURN
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    comm.Set_errhandler(found)
    comm.Call_errhandler(MPI.ERR_RANK)
    assert told == [MPI.ERR_TAG, MPI.ERR_RANK]
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    found.Free(), handler.Free()
    refused(lambda: comm.Send(whole(1), dest=SIZE + 5), MPI.ERR_RANK)
    refused(lambda: comm.Bcast(whole(1), root=-7), MPI.ERR_ROOT)
    kind = MPI.Add_error_class()
    code = MPI.Add_error_code(kind)
    MPI.Add_error_string(code, "ours")
    assert MPI.Get_error_class(code) == kind and MPI.Get_error_string(code) == "ours"
    MPI.Remove_error_string(code)
    MPI.Remove_error_code(code)
    MPI.Remove_error_class(kind)
    comm.Free()


@check
def sessions() -> None:
    session = MPI.Session.Init()
    names = [session.Get_nth_pset(k) for k in range(session.Get_num_psets())]
    assert "mpi://WORLD" in names and session.Get_info() != MPI.INFO_NULL
    assert int(session.Get_pset_info("mpi://WORLD").Get("mpi_size")) == SIZE
    told = []
    handler = MPI.Session.Create_errhandler(lambda _session, code: told.append(code))
    session.Set_errhandler(handler)
    session.Call_errhandler(MPI.ERR_OTHER)
    found = session.Get_errhandler()
    assert found != MPI.ERRHANDLER_NULL and len(told) == 1
    found.Free(), handler.Free()
    session.Attach_buffer(room := MPI.Alloc_mem(4096))
    session.Flush_buffer()
    session.Iflush_buffer().Wait()
    session.Detach_buffer()
    MPI.Free_mem(room)
    for group in (session.Create_group("mpi://WORLD"), MPI.Group.Create_from_session_pset(session, "mpi://WORLD")):
        comm = MPI.Intracomm.Create_from_group(group, "of-session")
        assert comm.allreduce(1) == SIZE
        comm.Free(), group.Free()
    session.Finalize()


@check
def handles() -> None:
    request, message = MPI.REQUEST_NULL, MPI.MESSAGE_NULL
    for handle in (WORLD, INT, MPI.SUM, WORLD.Get_group(), MPI.INFO_NULL, MPI.ERRORS_RETURN, request, message, MPI.SESSION_NULL):
        assert type(handle).fromhandle(handle.handle) == handle
        for to, back in (("toint", "fromint"), ("py2f", "f2py")):
            assert getattr(type(handle), back)(getattr(handle, to)()) == handle


# --- all ------------------------------------------------------------------------------------------

NOT_OURS = {
    "Accept", "Connect", "Join", "Spawn", "Spawn_multiple", "Open_port", "Close_port", "Publish_name", "Unpublish_name", "Lookup_name",
    "Register_datarep",
    "Ack_failed", "Agree", "Get_failed", "Iagree", "Is_revoked", "Ishrink", "Revoke", "Shrink",  # not in MPI 5.0
    "Abort", "Init", "Init_thread", "Finalize",  # mpi4py begins and ends by itself; `Abort` has a program of its own in C
    "py2f", "f2py", "toint", "fromint",  # by name, in `handles`
}  # fmt: skip


def uncalled() -> set[str]:
    """Methods and functions of mpi4py that nothing here names."""
    named = {node.attr for node in ast.walk(ast.parse(Path(__file__).read_text())) if isinstance(node, ast.Attribute)}
    kinds = [kind for kind in vars(MPI).values() if isinstance(kind, type) and kind.__module__ == MPI.__name__]
    methods = {name for kind in kinds if kind not in (MPI.Win, MPI.File) for name in vars(kind) if callable(getattr(kind, name, None))}
    functions = {name for name, value in vars(MPI).items() if callable(value) and not isinstance(value, (type, MPI.Op))}
    return {name for name in methods | functions if not name.startswith("_")} - named - NOT_OURS


def main() -> None:
    missing = uncalled()
    assert not missing, f"nothing here calls {sorted(missing)}"
    for one in CHECKS:
        one()
        WORLD.Barrier()
    if RANK == 0:
        print(f"{len(CHECKS)} checks of mpi4py at {SIZE} ranks")


main()
