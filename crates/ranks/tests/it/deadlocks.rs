//! Programs that go on are never said to be in a deadlock, however long they wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fishplate_ranks::header::Rank;
use fishplate_ranks::status::{Deadlock, KnownRank, RankStatus};
use fishplate_ranks::{Communicator, Settings};

use crate::domain::{Kind, processes, run_with};

/// What is not told by then never is.
const NEVER: Duration = Duration::from_secs(60);

/// Looks at every status that a rank tells.
#[derive(Debug, Default)]
struct Watch {
    ranks: Mutex<BTreeMap<Rank, KnownRank>>,
    named: Mutex<Option<Deadlock>>,
    closed: AtomicBool,
}

impl Watch {
    fn look(&self, rank: Rank, status: &RankStatus) {
        let mut ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        ranks.insert(rank, KnownRank { status: Some(status.clone()), ended: false });
        let is_open = !self.closed.load(Ordering::Acquire);
        if is_open && let Some(found) = Deadlock::find(&ranks) {
            self.named.lock().unwrap().get_or_insert(found);
        }
    }

    /// Until each of these ranks has told that it waits for these (and maybe others).
    fn wait_for(&self, waits: &[(Rank, &[Rank])]) {
        let until = Instant::now() + NEVER;
        let tells = |&(rank, of): &(Rank, &[Rank])| {
            let ranks = self.ranks.lock().unwrap();
            let status = ranks.get(&rank).and_then(|known| known.status.as_ref());
            let wait = status.and_then(|status| status.wait.as_ref());
            wait.is_some_and(|wait| of.iter().all(|of| wait.ranks.contains(of)))
        };
        while !waits.iter().all(tells) {
            assert!(Instant::now() < until, "{waits:?}: {:?}", self.ranks.lock().unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn assert_none(&self) {
        let named = self.named.lock().unwrap().clone();
        assert!(named.is_none(), "{}", named.unwrap());
    }
}

/// Runs a program that ends, and is watched.
fn run(kind: Kind, size: u32, body: fn(&Communicator, &Watch)) {
    let settings = Settings {
        eager_limit: 2000,
        distant_eager_limit: 2000,
        long_wait: Duration::from_millis(20),
        // A barrier of several steps at each rank.
        algorithms: "barrier=dissemination".parse().unwrap(),
        ..Settings::default()
    };
    let watch = Arc::<Watch>::default();
    let processes = processes(kind, size, &settings);
    for process in &processes {
        let (watch, rank) = (watch.clone(), process.rank());
        process.observe(Box::new(move |status| {
            watch.look(rank, status);
            true
        }));
    }
    run_with(processes, move |world| {
        body(&world, &watch);
        world.process().leave();
        watch.assert_none();
    });
}

#[test]
fn a_collective_operation_that_goes_on_beside_a_wait_is_none() {
    run(Kind::Local, 4, |world, watch| {
        // The barrier's second step at rank 2 needs rank 0, whose first needs rank 3, who computes.
        if world.rank() == 3 {
            watch.wait_for(&[(0, &[2]), (1, &[3]), (2, &[0])]);
        }
        world.scope(|scope| {
            let mut barrier = world.barrier().start(scope).unwrap();
            if world.rank() == 0 {
                world.recv(&mut [0u8], 2, 7).unwrap();
            }
            barrier.wait().unwrap();
            if world.rank() == 2 {
                world.send(&[1u8], 0, 7).unwrap();
            }
        });
    });
}

#[test]
fn a_collective_operation_that_goes_on_beside_a_probe_is_none() {
    run(Kind::Local, 4, |world, watch| {
        if world.rank() == 3 {
            watch.wait_for(&[(0, &[2, 3]), (1, &[3]), (2, &[0])]);
        }
        world.scope(|scope| {
            let mut barrier = world.barrier().start(scope).unwrap();
            if world.rank() == 0 {
                world.probe(2, 7).unwrap();
                world.recv(&mut [0u8], 2, 7).unwrap();
            }
            barrier.wait().unwrap();
            if world.rank() == 2 {
                world.send(&[1u8], 0, 7).unwrap();
            }
        });
    });
}

#[test]
fn a_message_that_is_fetched_behind_others_is_none() {
    for kind in [Kind::Local, Kind::Tcp, Kind::SharedMemory] {
        run(kind, 3, |world, watch| {
            let bulk = vec![7u8; 4 << 20];
            match world.rank() {
                0 => {
                    let mut received = vec![vec![0u8; bulk.len()]; 4];
                    world.scope(|scope| {
                        for part in &mut received {
                            world.irecv(scope, part, 1, 1).unwrap();
                        }
                        world.recv(&mut [0u8], 2, 2).unwrap();
                    });
                    assert!(received.iter().all(|part| *part == bulk));
                }
                1 => {
                    watch.wait_for(&[(0, &[2]), (2, &[1])]);
                    (0..4).for_each(|_| world.ssend(&bulk, 0, 1).unwrap());
                    world.send(&[1u8], 2, 2).unwrap();
                }
                _ => {
                    world.recv(&mut [0u8], 1, 2).unwrap();
                    world.send(&[1u8], 0, 2).unwrap();
                }
            }
        });
    }
}

#[test]
fn what_all_threads_wait_for_is_told() {
    run(Kind::Local, 3, |world, watch| match world.rank() {
        0 => std::thread::scope(|scope| {
            scope.spawn(|| {
                watch.wait_for(&[(0, &[2])]);
                world.recv(&mut [0u8], 1, 1).unwrap();
            });
            world.probe(2, 2).unwrap();
            world.recv(&mut [0u8], 2, 2).unwrap();
            world.send(&[1u8], 1, 1).unwrap();
        }),
        1 => {
            world.recv(&mut [0u8], 0, 1).unwrap();
            world.send(&[1u8], 0, 1).unwrap();
        }
        _ => {
            watch.wait_for(&[(0, &[1, 2]), (1, &[0])]);
            // From here on a thread of rank 0 computes, which nobody sees.
            watch.closed.store(true, Ordering::Release);
            world.send(&[1u8], 0, 2).unwrap();
        }
    });
}

#[test]
fn a_launcher_that_is_gone_is_told_no_more_often_than_another() {
    let long_wait = Duration::from_millis(20);
    let settings = Settings { long_wait, ..Settings::default() };
    let processes = processes(Kind::Local, 2, &settings);
    let (waits, refused) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
    let (told, count) = (waits.clone(), refused.clone());
    processes[0].observe(Box::new(move |status| {
        // It is killed once it was told of a wait.
        let takes = !told.fetch_or(status.wait.is_some(), Ordering::AcqRel);
        count.fetch_add(u32::from(!takes), Ordering::AcqRel);
        takes
    }));
    let begun = Instant::now();
    run_with(processes, move |world| {
        let other = 1 - world.rank();
        if world.rank() == 1 {
            while !waits.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            world.send(&[0u8], 0, 1).unwrap();
        } else {
            world.recv(&mut [0u8], 1, 1).unwrap();
        }
        for _ in 0..2000 {
            world.sendrecv(&[1u8], other, 2, &mut [0u8], other, 2).unwrap();
        }
        world.process().leave();
        let most = begun.elapsed().as_millis() / long_wait.as_millis() + 3;
        assert!(u128::from(refused.load(Ordering::Acquire)) <= most);
    });
}
