//! Every algorithm against a serial oracle: random lengths, any number of ranks, in place, non-blocking, operations that are
//! not commutative.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock};

use fishplate_ranks::collective::algorithm::{
    Allgather, Allreduce, Alltoall, Barrier, Broadcast, Gather, Reduce, Scan,
};
use fishplate_ranks::collective::{Algorithms, Blocks, IN_PLACE};
use fishplate_ranks::settings::Sites;
use fishplate_ranks::status::RankStatus;
use fishplate_ranks::{ANY_SOURCE, Communicator, Error, Operation, Settings};

use crate::conformance;
use crate::domain::{Kind, processes, run_at, run_with};

conformance! {
    barriers_let_nobody_pass_before_all_have_come;
    broadcasts_bring_the_roots_data;
    gathers_and_scatters_are_each_others_reverse;
    gatherv_and_scatterv_take_any_blocks;
    allgathers_bring_all_blocks_to_all;
    alltoalls_transpose;
    reductions_are_those_of_a_loop;
    allreductions_are_those_of_a_loop;
    reduce_scatters_are_those_of_a_loop;
    scans_are_those_of_a_loop;
    ordered_reductions_give_the_same_bits;
    collectives_run_side_by_side;
    operations_without_data_wait_for_nobody;
    wrong_lengths_are_refused;
}

/// Ranks at several sites: in order or not, one alone, many at one, some of which a communicator has not, each at its own.
const SITES: [&[u32]; 7] = [
    &[0, 0, 1],
    &[4, 2, 4, 2],
    &[0, 0, 1, 1, 1],
    &[0, 1, 2, 0, 1],
    &[1, 0, 0, 0, 0, 2, 2, 0],
    &[0, 1, 0, 2, 1, 0, 3, 3, 1, 0, 2],
    &[0, 1, 2, 3, 4],
];

#[test]
fn ranks_at_several_sites_do_the_same() {
    for sites in SITES {
        let size = sites.len() as u32;
        for body in [
            barriers_let_nobody_pass_before_all_have_come,
            broadcasts_bring_the_roots_data,
            gathers_and_scatters_are_each_others_reverse,
            gatherv_and_scatterv_take_any_blocks,
            allgathers_bring_all_blocks_to_all,
            reductions_are_those_of_a_loop,
            allreductions_are_those_of_a_loop,
            reduce_scatters_are_those_of_a_loop,
            alltoalls_transpose,
            scans_are_those_of_a_loop,
            ordered_reductions_give_the_same_bits,
            collectives_run_side_by_side,
            operations_without_data_wait_for_nobody,
            wrong_lengths_are_refused,
        ] {
            run_at(Kind::Local, size, sites, body);
        }
    }
}

/// A name, and what each rank does.
type Run = (&'static str, fn(&Communicator));

/// What ranks that do so have told at their end.
fn last_status(settings: &Settings, body: fn(&Communicator)) -> Vec<RankStatus> {
    let size = settings.sites.of_ranks.len();
    let told = Arc::new(Mutex::new(vec![RankStatus::default(); size]));
    let processes = processes(Kind::Local, size as u32, settings);
    for process in &processes {
        let (told, rank) = (told.clone(), process.rank() as usize);
        process.observe(Box::new(move |status| {
            told.lock().unwrap()[rank] = status.clone();
            true
        }));
    }
    run_with(processes, move |world| {
        body(&world);
        world.process().leave();
    });
    let last = told.lock().unwrap();
    last.clone()
}

/// Messages from site to site, at most, for any two of them.
fn crossings(sites: &'static [u32], algorithms: Algorithms, body: fn(&Communicator)) -> u64 {
    let settings = Settings { sites: sites.into(), algorithms, ..Settings::default() };
    let mut pairs = BTreeMap::new();
    for (from, status) in last_status(&settings, body).iter().enumerate() {
        for of in &status.traffic {
            let pair = (sites[from], sites[of.peer as usize]);
            *pairs.entry(pair).or_insert(0) += of.messages;
        }
    }
    let between = pairs.into_iter().filter(|((from, to), _)| from != to);
    between.map(|(_, messages)| messages).max().unwrap()
}

#[test]
fn each_pair_of_sites_is_crossed_once() {
    const LENGTH: usize = 3000;
    let operations: [Run; 12] = [
        ("barrier", |world| world.barrier().run().unwrap()),
        ("broadcast", |world| world.broadcast(&mut [7u64; LENGTH], 1).run().unwrap()),
        ("gather", |world| {
            let mut all = vec![0; LENGTH * world.size() as usize];
            world.gather(&[7u64; LENGTH], &mut all, 1).run().unwrap();
        }),
        ("scatter", |world| {
            let all = vec![0; LENGTH * world.size() as usize];
            world.scatter(&all, &mut [7u64; LENGTH], 1).run().unwrap();
        }),
        ("allgather", |world| {
            let mut all = vec![0; LENGTH * world.size() as usize];
            world.allgather(&[7u64; LENGTH], &mut all).run().unwrap();
        }),
        ("allgatherv", |world| {
            let blocks = Blocks::packed(&vec![LENGTH; world.size() as usize]);
            let mut all = vec![0; LENGTH * world.size() as usize];
            world.allgatherv(&[7u64; LENGTH], &mut all, &blocks).run().unwrap();
        }),
        ("alltoall", |world| {
            let all = vec![7u64; LENGTH * world.size() as usize];
            world.alltoall(&all, &mut vec![0; all.len()]).run().unwrap();
        }),
        ("scan", |world| {
            world.scan(&[7u64; LENGTH], &mut [0; LENGTH], &Operation::sum::<u64>()).run().unwrap();
        }),
        ("exscan", |world| {
            world
                .exscan(&[7u64; LENGTH], &mut [0; LENGTH], &Operation::sum::<u64>())
                .run()
                .unwrap();
        }),
        ("reduce_scatter", |world| {
            let counts = vec![LENGTH; world.size() as usize];
            let all = vec![7u64; LENGTH * counts.len()];
            let (mut mine, sum) = ([0; LENGTH], Operation::sum::<u64>());
            world.reduce_scatter(&all, &mut mine, &counts, &sum).run().unwrap();
        }),
        ("reduce", |world| {
            let sum = Operation::sum::<u64>();
            world.reduce(&[7u64; LENGTH], &mut [0; LENGTH], &sum, 1).run().unwrap();
        }),
        ("allreduce", |world| {
            let sum = Operation::sum::<u64>();
            world.allreduce(&[7u64; LENGTH], &mut [0; LENGTH], &sum).run().unwrap();
        }),
    ];
    // Each pair of places that is near in a tree or a ring is far apart.
    let sites = SITES[5];
    for (name, operation) in operations {
        for ordered in [false, true] {
            let algorithms = Algorithms { ordered, ..Algorithms::default() };
            for sites in [sites, SITES[2], SITES[6]] {
                let most = crossings(sites, algorithms, operation);
                assert_eq!(most, 1, "{name}, ordered: {ordered}, {sites:?}");
            }
            let flat = Algorithms { flat: true, ..algorithms };
            assert!(crossings(sites, flat, operation) > 1, "{name}, ordered: {ordered}");
        }
    }
}

/// Between hosts of one network the root does not send to each, but along a tree.
#[test]
fn sites_of_one_network_share_the_work() {
    let sent = |are_near| {
        let of_ranks = (0..16).map(|rank| rank / 2).collect();
        let sites = Sites { of_ranks, are_near };
        let settings = Settings { sites, ..Settings::default() };
        let told = last_status(&settings, |world| world.broadcast(&mut [7u64], 0).run().unwrap());
        told[0].traffic.iter().map(|of| of.messages).sum::<u64>()
    };
    assert_eq!((sent(false), sent(true)), (7 + 1, 3 + 1));
}

/// What ranks of the root's own site are to get they have, though another site has not come yet.
#[test]
fn the_roots_site_does_not_wait_for_others() {
    run_at(Kind::Local, 3, &[0, 0, 1], |world| {
        // The root has sent it when it is received.
        let all = vec![7u64; 3 * 40_000];
        let operations: [fn(&Communicator, &[u64]); 2] = [
            |world, all| world.broadcast(&mut all.to_vec(), 0).run().unwrap(),
            |world, all| world.scatter(all, &mut vec![0; all.len() / 3], 0).run().unwrap(),
        ];
        for (tag, operation) in (0..).zip(operations) {
            if world.rank() == 2 {
                // It hangs, if rank 1 waits for this site.
                world.recv(&mut [0u8], 1, tag).unwrap();
            }
            operation(world, &all);
            if world.rank() == 1 {
                world.send(&[0u8], 2, tag).unwrap();
            }
        }
    });
}

/// Elements of rank `rank` in case `case`.
fn data(rank: u32, case: usize, length: usize) -> Vec<u64> {
    (0..length as u64)
        .map(|at| {
            (u64::from(rank) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(at as u32)
                ^ at
                ^ case as u64
        })
        .collect()
}

/// Short, odd, longer than the eager limit, long enough for every switch; and two that nobody chose.
fn lengths() -> &'static [usize; 8] {
    static LENGTHS: OnceLock<[usize; 8]> = OnceLock::new();
    LENGTHS.get_or_init(|| {
        let random = |most| RandomState::new().hash_one(most) as usize % most;
        [0, 1, 3, 17, random(1000), 1031, random(3000), 20_011]
    })
}

/// A duplicate whose collective operations are these.
fn with(world: &Communicator, algorithms: Algorithms) -> Communicator {
    let mut other = world.dup().unwrap();
    other.set_algorithms(algorithms);
    other
}

/// All, and the choice.
fn each<T: Copy>(all: &[T]) -> impl Iterator<Item = Option<T>> {
    all.iter().copied().map(Some).chain([None])
}

/// 2 by 2 matrices modulo a prime: associative and not commutative. An element is one matrix of four 16-bit numbers.
fn matrices() -> Operation {
    const PRIME: u64 = 65_521;
    Operation::new(false, |left: u64, right: u64| {
        let part = |matrix: u64, at: u64| (matrix >> (16 * at)) % (1 << 16) % PRIME;
        let cell = |row: u64, column: u64| {
            (part(left, 2 * row) * part(right, column)
                + part(left, 2 * row + 1) * part(right, 2 + column))
                % PRIME
        };
        cell(0, 0) | cell(0, 1) << 16 | cell(1, 0) << 32 | cell(1, 1) << 48
    })
}

/// A name, the operation, and the same for the oracle.
type Case = (&'static str, Operation, fn(u64, u64) -> u64);

fn operations() -> [Case; 3] {
    [
        ("sum", Operation::sum::<u64>(), u64::wrapping_add),
        ("max", Operation::max::<u64>(), u64::max),
        ("matrices", matrices(), |left, right| {
            let mut value = right.to_ne_bytes();
            let operation = matrices();
            apply(&operation, left, &mut value);
            u64::from_ne_bytes(value)
        }),
    ]
}

/// What a domain of one rank after the other would do, by a scan of a single rank: the operation itself.
fn apply(operation: &Operation, left: u64, right: &mut [u8; 8]) {
    operation.apply(&left.to_ne_bytes(), right);
}

fn oracle(
    ranks: std::ops::Range<u32>,
    case: usize,
    length: usize,
    function: fn(u64, u64) -> u64,
) -> Vec<u64> {
    let values = ranks.map(|rank| data(rank, case, length));
    let join = |left: Vec<u64>, right: Vec<u64>| {
        left.iter().zip(&right).map(|(&l, &r)| function(l, r)).collect()
    };
    values.reduce(join).unwrap_or_default()
}

fn barriers_let_nobody_pass_before_all_have_come(world: &Communicator) {
    for barrier in each(Barrier::ALL) {
        let comm = with(world, Algorithms { barrier, ..Algorithms::default() });
        for late in 0..comm.size() {
            // All tell the late one that they have come; it comes when all have told.
            if comm.rank() == late {
                for _ in 1..comm.size() {
                    comm.recv(&mut [0u8; 0], ANY_SOURCE, 0).unwrap();
                }
                // Blocking operations are not matched with others (MPI 4.1, 6.12).
                comm.scope(|scope| comm.barrier().start(scope).unwrap().wait()).unwrap();
            } else {
                let done = comm.scope(|scope| {
                    let mut barrier = comm.barrier().start(scope).unwrap();
                    let early = barrier.test().is_some();
                    comm.send(&[0u8; 0], late, 0).unwrap();
                    barrier.wait().unwrap();
                    early
                });
                assert!(!done, "rank {late} had not come");
            }
        }
    }
}

fn broadcasts_bring_the_roots_data(world: &Communicator) {
    for broadcast in each(Broadcast::ALL) {
        let comm = with(world, Algorithms { broadcast, ..Algorithms::default() });
        for (case, &length) in lengths().iter().enumerate() {
            for root in 0..comm.size() {
                let mut value = data(comm.rank(), case, length);
                comm.broadcast(&mut value, root).run().unwrap();
                assert!(value == data(root, case, length), "{broadcast:?} {length} {root}");
            }
        }
    }
}

fn gathers_and_scatters_are_each_others_reverse(world: &Communicator) {
    for gather in each(Gather::ALL) {
        let comm = with(world, Algorithms { gather, ..Algorithms::default() });
        let (me, size) = (comm.rank(), comm.size());
        for (case, &length) in lengths()[..7].iter().enumerate() {
            for root in 0..size {
                let mine = data(me, case, length);
                let all: Vec<u64> = (0..size).flat_map(|rank| data(rank, case, length)).collect();
                let mut got = vec![0; if me == root { all.len() } else { 0 }];
                comm.gather(&mine, &mut got, root).run().unwrap();
                assert!(me != root || got == all, "{gather:?} {length} {root}");
                if me == root {
                    let at = length * root as usize;
                    got.fill(9);
                    got[at..at + length].copy_from_slice(&mine);
                    comm.gather(IN_PLACE, &mut got, root).run().unwrap();
                    assert!(got == all, "{gather:?} {length} {root} in place");
                } else {
                    comm.gather(&mine, &mut [], root).run().unwrap();
                }
                let mut back = vec![0; length];
                comm.scatter(&got, &mut back, root).run().unwrap();
                assert!(back == mine, "{gather:?} {length} {root}");
                let keep = if me == root { 0 } else { length };
                back.fill(0);
                comm.scatter(&got, &mut back[..keep], root).run().unwrap();
                assert!(me == root || back == mine, "{gather:?} {length} {root} in place");
            }
        }
    }
}

/// Rank 0 is through with all of them before the others begin.
fn operations_without_data_wait_for_nobody(world: &Communicator) {
    let (me, last) = (world.rank(), world.size() - 1);
    if me > 0 {
        world.recv(&mut [0u8], 0, 5).unwrap();
    }
    let (sum, mut nothing) = (Operation::sum::<u64>(), [0u64; 0]);
    for root in [0, last] {
        world.broadcast(&mut nothing, root).run().unwrap();
        world.gather(&[0u64; 0], &mut nothing, root).run().unwrap();
        world.scatter(&[0u64; 0], &mut nothing, root).run().unwrap();
        world.reduce(&[0u64; 0], &mut nothing, &sum, root).run().unwrap();
    }
    world.allgather(&[0u64; 0], &mut nothing).run().unwrap();
    world.alltoall(&[0u64; 0], &mut nothing).run().unwrap();
    world.allreduce(&[0u64; 0], &mut nothing, &sum).run().unwrap();
    if me == 0 {
        (1..=last).for_each(|to| world.send(&[0u8], to, 5).unwrap());
    }
}

/// Blocks of different lengths, some empty, in reverse order with gaps; and how long a buffer they need.
fn uneven(size: u32, case: usize) -> (Blocks, usize) {
    let counts: Vec<usize> =
        (0..size as usize).map(|rank| (rank * 37 + case * 311) % 700 * (rank % 3)).collect();
    let mut next = 2;
    let mut displacements = vec![0; counts.len()];
    for rank in (0..counts.len()).rev() {
        displacements[rank] = next;
        next += counts[rank] + 3;
    }
    (Blocks { counts, displacements }, next)
}

fn placed(size: u32, case: usize, background: u64) -> Vec<u64> {
    let (blocks, length) = uneven(size, case);
    let mut all = vec![background; length];
    for rank in 0..size {
        let (count, at) = (blocks.counts[rank as usize], blocks.displacements[rank as usize]);
        all[at..at + count].copy_from_slice(&data(rank, case, count));
    }
    all
}

fn gatherv_and_scatterv_take_any_blocks(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    for case in 0..4 {
        let (blocks, length) = uneven(size, case);
        let mine = data(me, case, blocks.counts[me as usize]);
        for root in 0..size {
            let mut got = vec![5; if me == root { length } else { 0 }];
            world.gatherv(&mine, &mut got, &blocks, root).run().unwrap();
            assert!(me != root || got == placed(size, case, 5));
            let mut back = vec![0; mine.len()];
            world.scatterv(&got, &blocks, &mut back, root).run().unwrap();
            assert!(back == mine);
        }
        let mut got = vec![6; length];
        world.allgatherv(&mine, &mut got, &blocks).run().unwrap();
        assert!(got == placed(size, case, 6));
    }
}

fn allgathers_bring_all_blocks_to_all(world: &Communicator) {
    for allgather in each(Allgather::ALL) {
        let comm = with(world, Algorithms { allgather, ..Algorithms::default() });
        let me = comm.rank() as usize;
        for (case, &length) in lengths().iter().enumerate() {
            let all: Vec<u64> =
                (0..comm.size()).flat_map(|rank| data(rank, case, length)).collect();
            let mut got = vec![0; all.len()];
            comm.allgather(&data(comm.rank(), case, length), &mut got).run().unwrap();
            assert!(got == all, "{allgather:?} {length}");
            got.fill(0);
            got[me * length..(me + 1) * length]
                .copy_from_slice(&all[me * length..(me + 1) * length]);
            comm.allgather(IN_PLACE, &mut got).run().unwrap();
            assert!(got == all, "{allgather:?} {length} in place");
        }
    }
}

fn alltoalls_transpose(world: &Communicator) {
    for alltoall in each(Alltoall::ALL) {
        let comm = with(world, Algorithms { alltoall, ..Algorithms::default() });
        let (me, size) = (comm.rank(), comm.size());
        // What `from` sends to `to`.
        let block = |from: u32, to: u32, length| data(from * 16 + to, 1, length);
        for length in [0, 1, 3, 40, 600, 3000] {
            let sent: Vec<u64> = (0..size).flat_map(|to| block(me, to, length)).collect();
            let should: Vec<u64> = (0..size).flat_map(|from| block(from, me, length)).collect();
            let mut got = vec![0; sent.len()];
            comm.alltoall(&sent, &mut got).run().unwrap();
            assert!(got == should, "{alltoall:?} {length}");
            got = sent;
            comm.alltoall(IN_PLACE, &mut got).run().unwrap();
            assert!(got == should, "{alltoall:?} {length} in place");
        }
        // from -> to: as many elements as both say.
        let count = |from: u32, to: u32| ((from * 5 + to * 3) % 7 * 90) as usize;
        let sends = Blocks::packed(&(0..size).map(|to| count(me, to)).collect::<Vec<_>>());
        let receives = Blocks::packed(&(0..size).map(|from| count(from, me)).collect::<Vec<_>>());
        let sent: Vec<u64> = (0..size).flat_map(|to| block(me, to, count(me, to))).collect();
        let should: Vec<u64> =
            (0..size).flat_map(|from| block(from, me, count(from, me))).collect();
        let mut got = vec![0; should.len()];
        comm.alltoallv(&sent, &sends, &mut got, &receives).run().unwrap();
        assert!(got == should);
    }
}

fn reductions_are_those_of_a_loop(world: &Communicator) {
    for reduce in each(Reduce::ALL) {
        let comm = with(world, Algorithms { reduce, ..Algorithms::default() });
        let (me, size) = (comm.rank(), comm.size());
        for (name, operation, function) in operations() {
            for (case, &length) in lengths()[..7].iter().enumerate() {
                let should = oracle(0..size, case, length, function);
                for root in 0..size {
                    let mine = data(me, case, length);
                    let mut got = vec![3; length];
                    comm.reduce(&mine, &mut got, &operation, root).run().unwrap();
                    let expected = if me == root { &should } else { &vec![3; length] };
                    assert!(got == *expected, "{reduce:?} {name} {length} {root}");
                    assert!(mine == data(me, case, length), "a contribution stays as it is");
                    if me == root {
                        got = mine;
                        comm.reduce(IN_PLACE, &mut got, &operation, root).run().unwrap();
                        assert!(got == should, "{reduce:?} {name} {length} {root} in place");
                    } else {
                        comm.reduce(&mine, &mut [], &operation, root).run().unwrap();
                    }
                }
            }
        }
    }
}

fn allreductions_are_those_of_a_loop(world: &Communicator) {
    for allreduce in each(Allreduce::ALL) {
        let comm = with(world, Algorithms { allreduce, ..Algorithms::default() });
        for (name, operation, function) in operations() {
            for (case, &length) in lengths().iter().enumerate() {
                let should = oracle(0..comm.size(), case, length, function);
                let mut got = vec![0; length];
                comm.allreduce(&data(comm.rank(), case, length), &mut got, &operation)
                    .run()
                    .unwrap();
                assert!(got == should, "{allreduce:?} {name} {length}");
                got = data(comm.rank(), case, length);
                comm.allreduce(IN_PLACE, &mut got, &operation).run().unwrap();
                assert!(got == should, "{allreduce:?} {name} {length} in place");
            }
        }
    }
}

fn reduce_scatters_are_those_of_a_loop(world: &Communicator) {
    for ordered in [false, true] {
        let comm = with(world, Algorithms { ordered, ..Algorithms::default() });
        let (me, size) = (comm.rank() as usize, comm.size() as usize);
        for (name, operation, function) in operations() {
            for block in [0, 1, 5, 400] {
                let counts: Vec<usize> =
                    (0..size).map(|rank| block * (rank % 3 + usize::from(size < 3))).collect();
                let (total, start) = (counts.iter().sum(), counts[..me].iter().sum::<usize>());
                let should =
                    &oracle(0..comm.size(), block, total, function)[start..start + counts[me]];
                let mine = data(comm.rank(), block, total);
                let mut got = vec![0; counts[me]];
                comm.reduce_scatter(&mine, &mut got, &counts, &operation).run().unwrap();
                assert!(got == should, "{name} {block}");
                let mut got = mine;
                comm.reduce_scatter(IN_PLACE, &mut got, &counts, &operation).run().unwrap();
                assert!(got[..counts[me]] == *should, "{name} {block} in place");
            }
        }
    }
}

fn scans_are_those_of_a_loop(world: &Communicator) {
    for scan in each(Scan::ALL) {
        let comm = with(world, Algorithms { scan, ..Algorithms::default() });
        let me = comm.rank();
        for (name, operation, function) in operations() {
            for (case, &length) in lengths()[..7].iter().enumerate() {
                let mine = data(me, case, length);
                for in_place in [false, true] {
                    let mut got = if in_place { mine.clone() } else { vec![8; length] };
                    let untouched = got.clone();
                    let run = |got: &mut [u64], exclusive: bool| match (exclusive, in_place) {
                        (false, false) => comm.scan(&mine, got, &operation).run(),
                        (false, true) => comm.scan(IN_PLACE, got, &operation).run(),
                        (true, false) => comm.exscan(&mine, got, &operation).run(),
                        (true, true) => comm.exscan(IN_PLACE, got, &operation).run(),
                    };
                    run(&mut got, false).unwrap();
                    assert!(
                        got == oracle(0..me + 1, case, length, function),
                        "{scan:?} {name} {length}"
                    );
                    got.clone_from(&untouched);
                    run(&mut got, true).unwrap();
                    let before =
                        if me == 0 { untouched } else { oracle(0..me, case, length, function) };
                    assert!(got == before, "{scan:?} {name} {length} exclusive");
                }
            }
        }
    }
}

fn ordered_reductions_give_the_same_bits(world: &Communicator) {
    let value = |rank: u32| {
        (0..500).map(move |at| 1e16f64.powf(f64::from((rank * 7 + at) % 5) / 4.0) - 0.1)
    };
    let comm = with(world, Algorithms { ordered: true, ..Algorithms::default() });
    let mut should: Vec<f64> = value(0).collect();
    for rank in 1..comm.size() {
        should.iter_mut().zip(value(rank)).for_each(|(sum, value)| *sum += value);
    }
    let mine: Vec<f64> = value(comm.rank()).collect();
    let mut got = vec![0.0; 500];
    comm.allreduce(&mine, &mut got, &Operation::sum::<f64>()).run().unwrap();
    assert!(got.iter().zip(&should).all(|(got, should)| got.to_bits() == should.to_bits()));
}

fn collectives_run_side_by_side(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    let sum = Operation::sum::<u64>();
    let mut sums = vec![vec![0; 3000]; 6];
    let mut rooted = vec![vec![u64::from(me); 900]; 6];
    let mine = data(me, 0, 3000);
    world.scope(|scope| {
        let mut requests = vec![];
        for (at, (got, value)) in (0..).zip(sums.iter_mut().zip(&mut rooted)) {
            requests.push(world.allreduce(&mine, got, &sum).start(scope).unwrap());
            requests.push(world.broadcast(value, at % size).start(scope).unwrap());
        }
        // The last first; the others come forward meanwhile.
        for request in requests.iter_mut().rev() {
            request.wait().unwrap();
        }
    });
    assert!(sums.iter().all(|got| *got == oracle(0..size, 0, 3000, u64::wrapping_add)));
    assert!(
        (0..).zip(&rooted).all(|(at, value): (u32, _)| *value == vec![u64::from(at % size); 900])
    );
}

fn wrong_lengths_are_refused(world: &Communicator) {
    let size = world.size() as usize;
    let refused = |outcome: fishplate_ranks::Result<()>, name: &str| {
        assert!(
            matches!(&outcome, Err(Error::Argument { argument, .. }) if *argument == name),
            "{outcome:?}"
        );
    };
    let sum = Operation::sum::<u32>();
    refused(world.allreduce(&[1u32; 3], &mut [0; 2], &sum).run(), "send");
    refused(world.allreduce(&[1u64; 2], &mut [0; 2], &sum).run(), "operation");
    refused(world.allgather(&[1u8; 2], &mut vec![0; size]).run(), "send");
    refused(
        world.reduce_scatter(&vec![1u32; size], &mut [0; 1], &vec![2; size], &sum).run(),
        "counts",
    );
    let far = Blocks { counts: vec![1; size], displacements: vec![usize::MAX; size] };
    refused(world.allgatherv(&[1u8], &mut [0; 4], &far).run(), "blocks");
    if size > 1 {
        refused(world.allgather(&[1u8], &mut vec![0; size + 1]).run(), "receive");
    }
}
