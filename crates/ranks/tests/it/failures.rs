//! Ranks that die or fall silent, threads that wait, memory that has its bound.

use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use fishplate_ranks::collective::Algorithms;
use fishplate_ranks::collective::algorithm::Allreduce;
use fishplate_ranks::launch::rendezvous::Address;
use fishplate_ranks::process::failure_bound;
use fishplate_ranks::transport::tcp::Tcp;
use fishplate_ranks::{ANY_SOURCE, Communicator, Error, Operation, Process, Settings};

use crate::domain::{CREDENTIAL, DOMAIN, Kind, processes, run_with};

#[test]
fn what_is_sent_arrives_though_its_sender_passes_no_messages_any_more() {
    for kind in [Kind::Tcp, Kind::Soap] {
        let received = Arc::new((Mutex::new(false), Condvar::new()));
        run_with(processes(kind, 3, &Settings::default()), move |world| {
            world.process().connect().unwrap();
            let (is_received, told) = &*received;
            match world.rank() {
                0 => {
                    world.recv(&mut [0u8], 1, 0).unwrap();
                    *is_received.lock().unwrap() = true;
                    told.notify_all();
                }
                1 => {
                    world.send(&[7u8], 0, 0).unwrap();
                    let waiting = is_received.lock().unwrap();
                    drop(told.wait_while(waiting, |is_received| !*is_received).unwrap());
                }
                _ => {}
            }
            world.process().leave();
        });
    }
}

/// What it said would be read as something else than it meant.
#[test]
fn a_rank_that_speaks_another_version_is_told_at_once_with_both() {
    let [ours, theirs] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = [&ours, &theirs].map(|listener| listener.local_addr().unwrap());
    let foreign = std::thread::spawn(move || {
        for stream in theirs.incoming().take(1) {
            let mut challenge = *b"fp-rank9................";
            challenge[8..].fill(7);
            stream.unwrap().write_all(&challenge).unwrap();
        }
    });
    let settings = Settings { peer_timeout: Duration::from_secs(3600), ..Settings::default() };
    let tcp = Tcp::new(DOMAIN, CREDENTIAL, 0, ours, &addresses, &settings).unwrap();
    let process = Process::join(DOMAIN, 0, 2, Box::new(tcp), settings).unwrap();
    let told = process.connect().unwrap_err().to_string();
    for part in ["rank 1: it speaks version 9 of the messages", "this rank version 4"] {
        assert!(told.contains(part), "{told}");
    }
    foreign.join().unwrap();
}

/// Rings are small: a send that finds no room is not complete, so its rank goes on to carry it.
#[test]
fn more_than_a_ring_holds_arrives_though_its_sender_passes_no_messages_any_more() {
    const MESSAGES: u32 = 40;
    let settings = Settings { long_wait: Duration::from_millis(1), ..Settings::default() };
    for (kind, sender) in [(Kind::SharedMemory, 1), (Kind::TwoHosts, 2)] {
        let received = Arc::new((Mutex::new(false), Condvar::new()));
        let (stops, is_stopped) = channel();
        let is_stopped = Mutex::new(is_stopped);
        run_with(processes(kind, 3, &settings), move |world| {
            world.process().connect().unwrap();
            let (is_received, told) = &*received;
            let stops = stops.clone();
            if world.rank() == 0 {
                // Nothing is read until the sender waits for room, or is through.
                is_stopped.lock().unwrap().recv().unwrap();
                let mut data = vec![0; 5000];
                for number in 0..MESSAGES {
                    world.recv(&mut data, sender, 0).unwrap();
                    assert!(data.iter().all(|one| *one == number));
                }
                *is_received.lock().unwrap() = true;
                told.notify_all();
            } else if world.rank() == sender {
                let told_of = stops.clone();
                world.process().observe(Box::new(move |status| {
                    status.wait.is_none() || told_of.send(()).is_ok()
                }));
                for number in 0..MESSAGES {
                    world.send(&[number; 5000], 0, 0).unwrap();
                }
                stops.send(()).unwrap();
                let waiting = is_received.lock().unwrap();
                drop(told.wait_while(waiting, |is_received| !*is_received).unwrap());
            }
            world.process().leave();
        });
    }
}

/// Who computes for long is not out of reach, so what was buffered for it is not dropped.
#[test]
fn what_was_buffered_reaches_who_computes_for_longer_than_a_peer_may_be_lost() {
    const MESSAGES: u8 = 200;
    let settings = Settings { peer_timeout: Duration::from_millis(400), ..Settings::default() };
    for kind in [Kind::SharedMemory, Kind::Tcp] {
        run_with(processes(kind, 2, &settings), move |world| {
            world.process().connect().unwrap();
            if world.rank() == 0 {
                std::thread::sleep(Duration::from_millis(1500));
                let mut data = vec![0; 60_000];
                for number in 0..MESSAGES {
                    world.recv(&mut data, 1, 0).unwrap();
                    assert!(data.iter().all(|one| *one == number));
                }
            } else {
                for number in 0..MESSAGES {
                    world.bsend(&[number; 60_000], 0, 0).unwrap();
                }
            }
            world.process().leave();
        });
    }
}

pub(crate) fn quick() -> Settings {
    Settings { peer_timeout: Duration::from_millis(500), ..Settings::default() }
}

/// Whether this is rank 2, which dies when it has heard from all others.
fn rank_2_dies(world: &Communicator) -> bool {
    if world.rank() != 2 {
        world.send(&[0u8], 2, 9).unwrap();
        return false;
    }
    for _ in 1..world.size() {
        world.recv(&mut [0u8], ANY_SOURCE, 9).unwrap();
    }
    true
}

/// Rank 2 vanishes in the middle; all others wait for something that can't come.
fn a_dead_rank_is_named(kind: Kind) {
    run_with(processes(kind, 4, &quick()), |world| {
        if rank_2_dies(&world) {
            return;
        }
        let begun = Instant::now();
        let failed = Err(Error::Failed { rank: 2 });
        let mut sum = [0];
        match world.rank() {
            // Waits for it directly; from anybody; in a collective operation in which its neighbours are others.
            0 => assert_eq!(world.recv(&mut sum, 2, 0).map(|_| ()), failed),
            1 => assert_eq!(world.recv(&mut sum, ANY_SOURCE, 0).map(|_| ()), failed),
            _ => {
                assert_eq!(world.allreduce(&[1], &mut sum, &Operation::sum::<i32>()).run(), failed);
            }
        }
        assert!(
            begun.elapsed() < failure_bound(&quick()) + Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(world.process().failed(), [2]);
        // What does not need it goes on.
        let (me, ring) = (world.rank(), [0, 1, 3]);
        let at = ring.iter().position(|&rank| rank == me).unwrap();
        let mut token = [0u32];
        world.sendrecv(&[me], ring[(at + 1) % 3], 5, &mut token, ring[(at + 2) % 3], 5).unwrap();
        assert_eq!(token[0], ring[(at + 2) % 3]);
        assert_eq!(world.ssend(&[1], 2, 0), failed);
        world.process().leave();
    });
}

#[test]
fn a_dead_rank_is_named_locally() {
    a_dead_rank_is_named(Kind::Local);
}

#[test]
fn a_dead_rank_is_named_over_tcp() {
    a_dead_rank_is_named(Kind::Tcp);
}

#[test]
fn a_dead_rank_is_named_through_a_gateway() {
    a_dead_rank_is_named(Kind::Gateway);
}

#[test]
fn a_dead_rank_is_named_over_soap() {
    a_dead_rank_is_named(Kind::Soap);
}

#[test]
fn a_dead_rank_is_named_in_shared_memory() {
    a_dead_rank_is_named(Kind::SharedMemory);
}

/// A rank dies of which the one that waits has never heard, and to which it has never sent.
#[test]
fn a_rank_that_dies_in_silence_is_named() {
    for kind in [Kind::Tcp, Kind::SharedMemory, Kind::Soap] {
        run_with(processes(kind, 2, &quick()), |world| {
            if world.rank() == 0 {
                assert_eq!(world.recv(&mut [0u8], 1, 0), Err(Error::Failed { rank: 1 }));
            }
        });
    }
}

/// One thread waits for a rank that lives and says nothing; others of its rank wait for one that dies meanwhile.
#[test]
fn a_dead_rank_is_named_to_all_threads_that_wait() {
    for kind in [Kind::Local, Kind::Tcp, Kind::SharedMemory, Kind::Soap] {
        run_with(processes(kind, 3, &quick()), |world| match world.rank() {
            0 => std::thread::scope(|threads| {
                let drives = threads.spawn(|| world.recv(&mut [0u8], 1, 5).map(|_| ()));
                // So that the others wait for it; the test is right, if weak, without.
                std::thread::sleep(Duration::from_millis(50));
                let receives = threads.spawn(|| world.recv(&mut [0u8], 2, 0).map(|_| ()));
                let probes = threads.spawn(|| world.probe(2, 0).map(|_| ()));
                world.send(&[0u8], 2, 9).unwrap();
                let failed = Err(Error::Failed { rank: 2 });
                assert_eq!(receives.join().unwrap(), failed);
                assert_eq!(probes.join().unwrap(), failed);
                world.send(&[0u8], 1, 6).unwrap();
                assert_eq!(drives.join().unwrap(), Ok(()));
                world.process().leave();
            }),
            1 => {
                world.recv(&mut [0u8], 0, 6).unwrap();
                world.send(&[0u8], 0, 5).unwrap();
                world.process().leave();
            }
            _ => {
                world.recv(&mut [0u8], 0, 9).unwrap();
            }
        });
    }
}

/// One thread sleeps for a message; another one of the same rank sends it, and nothing comes from outside.
#[test]
fn a_sleeping_thread_is_woken_by_another_of_its_rank() {
    let settings = Settings { spin: Duration::ZERO, ..Settings::default() };
    for kind in Kind::ALL {
        run_with(processes(kind, 1, &settings), |world| {
            std::thread::scope(|threads| {
                threads.spawn(|| world.recv(&mut [0u8], 0, 0).unwrap());
                // So that it sleeps; the test is right, if weak, without.
                std::thread::sleep(Duration::from_millis(50));
                world.send(&[1u8], 0, 0).unwrap();
            });
        });
    }
}

/// Who waits for the thread that drives is not woken whenever that looks in vain, and goes on in its place at its end.
#[test]
fn a_thread_that_waits_for_another_is_woken_at_its_end() {
    let settings = Settings { spin: Duration::from_secs(3600), ..Settings::default() };
    run_with(processes(Kind::Local, 1, &settings), |world| {
        let process = world.process();
        let (drives, asked, is_over) =
            (AtomicBool::new(false), AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                process.wait_for_requests(|_| {
                    drives.store(true, Ordering::SeqCst);
                    is_over.load(Ordering::SeqCst)
                });
            });
            threads.spawn(|| {
                while !drives.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                process.wait_for_requests(|_| {
                    asked.fetch_add(1, Ordering::SeqCst);
                    is_over.load(Ordering::SeqCst)
                });
            });
            // So that the first looks often; the test is right, if weak, without.
            std::thread::sleep(Duration::from_millis(50));
            let asked = asked.load(Ordering::SeqCst);
            is_over.store(true, Ordering::SeqCst);
            assert!(asked < 10, "asked {asked} times");
        });
    });
}

/// A thread that polls may get what another one sleeps for.
#[test]
fn a_message_that_one_thread_finds_wakes_another() {
    let settings = Settings { spin: Duration::ZERO, ..Settings::default() };
    for kind in [Kind::Local, Kind::Tcp, Kind::SharedMemory] {
        run_with(processes(kind, 2, &settings), |world| {
            if world.rank() == 1 {
                world.recv(&mut [0u8], 0, 0).unwrap();
                world.send(&[0u8], 0, 7).unwrap();
                world.recv(&mut [0u8], 0, 0).unwrap();
                return world.process().leave();
            }
            std::thread::scope(|threads| {
                let sleeper = threads.spawn(|| world.probe(1, 7).unwrap());
                // So that it sleeps; the test is right, if weak, without.
                std::thread::sleep(Duration::from_millis(20));
                world.send(&[0u8], 1, 0).unwrap();
                while !sleeper.is_finished() {
                    assert_eq!(world.iprobe(1, 9).unwrap(), None);
                }
            });
            world.recv(&mut [0u8], 1, 7).unwrap();
            world.send(&[0u8], 1, 0).unwrap();
            world.process().leave();
        });
    }
}

/// Long messages of an operation that can't end any more keep nobody from leaving.
#[test]
fn a_failed_collective_operation_leaves_nothing_behind() {
    for kind in Kind::ALL {
        for allreduce in Allreduce::ALL {
            run_with(processes(kind, 4, &quick()), move |mut world| {
                world.set_algorithms(Algorithms {
                    allreduce: Some(*allreduce),
                    ..Algorithms::default()
                });
                if rank_2_dies(&world) {
                    return;
                }
                let (values, mut sums) = (vec![1u64; 50_000], vec![0; 50_000]);
                let outcome = world.allreduce(&values, &mut sums, &Operation::sum::<u64>()).run();
                assert_eq!(outcome, Err(Error::Failed { rank: 2 }), "{allreduce:?}");
                world.process().leave();
            });
        }
    }
}

#[test]
fn a_rank_that_leaves_early_is_told_from_a_dead_one() {
    for kind in Kind::ALL {
        run_with(processes(kind, 2, &quick()), |world| {
            if world.rank() == 0 {
                world.send(&[7u8; 100], 1, 0).unwrap();
            } else {
                let mut data = [0u8; 100];
                world.recv(&mut data, 0, 0).unwrap();
                assert_eq!(world.recv(&mut data, 0, 0), Err(Error::Left { rank: 0 }));
                assert_eq!(world.send(&data, 0, 0), Err(Error::Left { rank: 0 }));
                assert_eq!(world.process().failed(), []);
            }
            world.process().leave();
        });
    }
}

/// Who asks again and again and never waits learns of it too.
#[test]
fn a_dead_rank_is_named_to_who_polls() {
    for kind in [Kind::Tcp, Kind::SharedMemory] {
        run_with(processes(kind, 3, &quick()), |world| {
            if rank_2_dies(&world) {
                return;
            }
            let mut got = [0u8];
            let outcome = world.scope(|scope| {
                let mut receive = world.irecv(scope, &mut got, 2, 0).unwrap();
                loop {
                    if let Some(outcome) = receive.test() {
                        break outcome.map(|_| ());
                    }
                    std::thread::yield_now();
                }
            });
            assert_eq!(outcome, Err(Error::Failed { rank: 2 }));
            world.process().leave();
        });
    }
}

/// A rank that does nothing for longer than `peer_timeout` is not dead: its system accepts for it.
#[test]
fn a_rank_that_computes_for_long_is_not_dead() {
    let settings = Settings { peer_timeout: Duration::from_millis(200), ..Settings::default() };
    for kind in [Kind::Tcp, Kind::SharedMemory, Kind::Soap] {
        run_with(processes(kind, 2, &settings), |world| {
            if world.rank() == 1 {
                std::thread::sleep(Duration::from_millis(700));
            }
            let (me, other, mut got) = (world.rank(), 1 - world.rank(), [0u32]);
            world.sendrecv(&[me], other, 0, &mut got, other, 0).unwrap();
            assert_eq!(got, [other]);
            world.process().leave();
        });
    }
}

#[test]
fn ten_thousand_unexpected_messages_are_no_trouble() {
    let settings = Settings { unexpected_memory: 64 << 10, ..Settings::default() };
    for kind in Kind::ALL {
        run_with(processes(kind, 2, &settings), |world| {
            let values: Vec<[u32; 25]> = (0..10_000).map(|at| [at; 25]).collect();
            if world.rank() == 0 {
                world.scope(|scope| {
                    for value in &values {
                        world.isend(scope, value, 1, 1).unwrap();
                    }
                    world.send(&[1u8], 1, 2).unwrap();
                });
            } else {
                world.recv(&mut [0u8], 0, 2).unwrap();
                for value in &values {
                    let mut got = [0; 25];
                    world.recv(&mut got, 0, 1).unwrap();
                    assert_eq!(got, *value);
                }
            }
            world.process().leave();
        });
    }
}

/// A rank that has several addresses is found, though nobody is at the first, and at the second one who says nothing; and that is told.
#[test]
fn addresses_are_tried_in_order() {
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let quiet = silent.local_addr().unwrap();
    let own = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let addresses = own.map(|own| Address::of_sockets(&[nobody, quiet, own]));
    let settings = quick();
    let processes = (0..).zip(listeners).map(|(rank, listener)| {
        let tcp = Tcp::with_event(DOMAIN, CREDENTIAL, rank, listener, &addresses, &settings, None);
        Process::join(DOMAIN, rank, 2, Box::new(tcp.unwrap()), settings.clone()).unwrap()
    });
    run_with(processes.collect(), move |world| {
        let other = 1 - world.rank();
        let (tell, told) = channel();
        world.process().observe(Box::new(move |status| tell.send(status.routes.clone()).is_ok()));
        let mut got = [0u32];
        world.sendrecv(&[world.rank()], other, 0, &mut got, other, 0).unwrap();
        assert_eq!(got, [other]);
        world.process().leave();
        let last = told.try_iter().last().unwrap();
        let [route] = &last[..] else { panic!("{last:?}") };
        let rejected: Vec<&str> = route.rejected.iter().map(|of| &*of.address).collect();
        assert_eq!(route.address, Some(own[other as usize].to_string()), "{route}");
        assert_eq!(rejected, [nobody.to_string(), quiet.to_string()], "{route}");
        assert!(route.rejected[0].reason.contains("refused"), "{route}");
    });
    drop(silent);
}
