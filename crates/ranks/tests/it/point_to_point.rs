//! Sends, receives, probes, requests.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use fishplate_ranks::header::Mode;
use fishplate_ranks::request::{test_all, test_some, wait_all, wait_any, wait_some};
use fishplate_ranks::{ANY_SOURCE, ANY_TAG, Communicator, Error, PROC_NULL, Settings};

use crate::conformance;
use crate::domain::{Kind, processes, run_with};

conformance! {
    every_mode_brings_every_length;
    messages_of_a_pair_do_not_overtake;
    any_source_and_any_tag_say_what_they_got;
    a_null_process_takes_and_gives_nothing;
    probes_see_what_a_receive_gets;
    a_matched_probe_takes_its_message_from_others;
    requests_complete_in_any_order;
    a_cancelled_receive_gets_nothing;
    a_long_message_for_a_short_buffer_is_an_error_at_its_receiver_only;
    a_synchronous_send_waits_for_its_receive;
    sendrecv_goes_round_a_ring;
    wrong_ranks_and_tags_are_refused;
    several_threads_share_a_process;
    a_scope_that_panics_lets_its_buffers_go;
}

fn bytes(length: usize, seed: u32) -> Vec<u8> {
    (0..length)
        .map(|at| {
            (at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed * 7919) as u8
                ^ (at >> 8) as u8
        })
        .collect()
}

/// Lengths around those from which messages go another way: with padding, read straight to their receive, eager no more, in several pieces.
const LENGTHS: [usize; 12] = [
    16_000,
    (16 << 10) + 1,
    (32 << 10) - 1,
    32 << 10,
    100_000,
    256 << 10,
    (256 << 10) + 1,
    1 << 20,
    1_500_000,
    3 << 19,
    (3 << 19) + 1,
    5_000_000,
];

#[test]
fn long_messages_arrive_whole_whatever_their_receiver_does_first() {
    for kind in [Kind::Tcp, Kind::SharedMemory, Kind::Soap] {
        let settings = Settings::default();
        let eager = match kind {
            Kind::SharedMemory => settings.shared_memory_eager_limit,
            _ => settings.eager_limit,
        };
        run_with(processes(kind, 2, &settings), move |world| {
            for (length, seed) in LENGTHS.into_iter().cycle().zip(1..=100) {
                let data = bytes(length, seed);
                if world.rank() == 0 {
                    world.send(&data, 1, 0).unwrap();
                    world.send(&[seed], 1, 1).unwrap();
                    continue;
                }
                let mut got = vec![0u8; length];
                match seed % 4 {
                    0 => {
                        let (message, status) = world.mprobe(0, 0).unwrap();
                        assert_eq!(status.length, length);
                        message.recv(&mut got).unwrap();
                    }
                    1 => {
                        while world.iprobe(0, 0).unwrap().is_none() {}
                        world.recv(&mut got, 0, 0).unwrap();
                    }
                    2 if length <= eager => {
                        // All of it is here before somebody wants it.
                        world.probe(0, 1).unwrap();
                        world.recv(&mut got, ANY_SOURCE, 0).unwrap();
                    }
                    _ => drop(world.recv(&mut got, 0, 0).unwrap()),
                }
                assert!(got == data, "{kind:?}, {length} bytes, {seed}");
                world.recv(&mut [0], 0, 1).unwrap();
            }
            world.process().leave();
        });
    }
}

/// A length that a C `int` can't tell.
const ABOVE_TWO_GIB: usize = (1 << 31) + 5;

#[test]
fn a_message_above_two_gib_arrives_whole() {
    for kind in [Kind::Tcp, Kind::SharedMemory, Kind::Soap] {
        run_with(processes(kind, 2, &Settings::default()), move |world| {
            let marks = (0..ABOVE_TWO_GIB).step_by(1 << 20).chain([ABOVE_TWO_GIB - 1]);
            let mark = |at: usize| (at >> 20) as u8 | 1;
            let mut data = vec![0u8; ABOVE_TWO_GIB];
            if world.rank() == 0 {
                marks.for_each(|at| data[at] = mark(at));
                world.send(&data, 1, 0).unwrap();
            } else {
                assert_eq!(world.recv(&mut data, 0, 0).unwrap().length, ABOVE_TWO_GIB);
                assert!(marks.into_iter().all(|at| data[at] == mark(at)), "{kind:?}");
            }
            world.process().leave();
        });
    }
}

fn every_mode_brings_every_length(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    let (to, from) = ((me + 1) % size, (me + size - 1) % size);
    for length in [0, 1, 7, 1999, 2000, 2001, 70_000, 1_000_003] {
        for mode in [Mode::Standard, Mode::Synchronous, Mode::Buffered, Mode::Ready] {
            let (sent, mut received) = (bytes(length, me), vec![0u8; length + 3]);
            let status = world.scope(|scope| {
                let mut receive = world.irecv(scope, &mut received, from, 4).unwrap();
                let mut send = world.isend_as(scope, mode, &sent, to, 4).unwrap();
                send.wait().unwrap();
                receive.wait().unwrap()
            });
            assert_eq!((status.source, status.tag, status.length), (Some(from), Some(4), length));
            assert!(
                received[..length] == bytes(length, from)[..] && received[length..] == [0; 3],
                "{length} {mode:?}"
            );
        }
    }
}

fn messages_of_a_pair_do_not_overtake(world: &Communicator) {
    let lengths = [0usize, 3000, 10, 500_000, 1, 1999];
    if world.rank() > 0 {
        for round in 0..200u64 {
            let length = lengths[round as usize % lengths.len()] / 8;
            world.send(&vec![round; length + 1], 0, 1).unwrap();
        }
    } else {
        for from in 1..world.size() {
            let mut data = vec![0u64; 70_000];
            for round in 0..200 {
                let status = world.recv(&mut data, from, ANY_TAG).unwrap();
                assert_eq!(status.count(8), Some(lengths[round as usize % lengths.len()] / 8 + 1));
                assert_eq!((data[0], data[status.length / 8 - 1]), (round, round));
            }
        }
    }
}

fn any_source_and_any_tag_say_what_they_got(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    if me == 0 {
        let mut seen = vec![0; size as usize];
        for _ in 0..3 * (size - 1) {
            let mut value = [0u32];
            let status = world.recv(&mut value, ANY_SOURCE, ANY_TAG).unwrap();
            let from = status.source.unwrap();
            assert_eq!(
                (value[0], status.tag),
                (from * 10 + seen[from as usize], Some(seen[from as usize] as i32))
            );
            seen[from as usize] += 1;
        }
        assert!(seen[1..].iter().all(|&count| count == 3));
    } else {
        (0..3u32).for_each(|tag| world.send(&[me * 10 + tag], 0, tag as i32).unwrap());
    }
}

fn a_null_process_takes_and_gives_nothing(world: &Communicator) {
    let mut data = [9u8];
    world.send(&[1u8], PROC_NULL, 0).unwrap();
    world.ssend(&[1u8], PROC_NULL, 0).unwrap();
    let status = world.recv(&mut data, PROC_NULL, ANY_TAG).unwrap();
    assert_eq!((status.source, status.tag, status.length, data), (None, None, 0, [9]));
    assert_eq!(world.probe(PROC_NULL, 3).unwrap().length, 0);
    let (message, _) = world.mprobe(PROC_NULL, 3).unwrap();
    assert_eq!(message.recv(&mut data).unwrap().length, 0);
}

fn probes_see_what_a_receive_gets(world: &Communicator) {
    if world.rank() > 0 {
        world.send(&bytes(10 * world.rank() as usize, 1), 0, 5).unwrap();
        world.send(&bytes(5000, 1), 0, 6).unwrap();
        return;
    }
    for _ in 1..world.size() {
        let status = world.probe(ANY_SOURCE, 5).unwrap();
        let from = status.source.unwrap();
        assert_eq!(status.length, 10 * from as usize);
        while world.iprobe(from, 6).unwrap().is_none() {}
        assert_eq!(world.probe(from, 6).unwrap().length, 5000);
        let mut data = vec![0u8; 5000];
        assert_eq!(world.recv(&mut data[..status.length], from, 5).unwrap(), status);
        assert_eq!(world.recv(&mut data, from, ANY_TAG).unwrap().tag, Some(6));
    }
    assert_eq!(world.iprobe(ANY_SOURCE, 77).unwrap_or(None), None);
}

fn a_matched_probe_takes_its_message_from_others(world: &Communicator) {
    if world.rank() > 0 {
        world.send(&bytes(100, 1), 0, 5).unwrap();
        world.send(&bytes(9000, 2), 0, 5).unwrap();
        return;
    }
    for from in 1..world.size() {
        let (first, status) = world.mprobe(from, 5).unwrap();
        assert_eq!(status.length, 100);
        let (second, status) = loop {
            if let Some(found) = world.improbe(from, 5).unwrap() {
                break found;
            }
        };
        assert_eq!(status.length, 9000, "the first one is taken");
        let mut data = vec![0u8; 9000];
        second.recv(&mut data).unwrap();
        assert_eq!(data, bytes(9000, 2));
        assert_eq!(first.recv(&mut data).unwrap().length, 100);
        assert_eq!(data[..100], bytes(100, 1));
    }
}

fn requests_complete_in_any_order(world: &Communicator) {
    let size = world.size();
    let mut buffers = vec![[0u32; 600]; 2 * size as usize];
    let sent = vec![[world.rank(); 600]; 2];
    let mut seen = vec![];
    world.scope(|scope| {
        let mut receives: Vec<_> = (0..)
            .zip(&mut buffers)
            .map(|(at, buffer)| world.irecv(scope, buffer, at / 2, (at % 2) as i32).unwrap())
            .collect();
        assert_eq!(test_some(&mut receives[..0], 1).len(), 0);
        let mut sends = vec![];
        for to in 0..size {
            for (tag, sent) in (0..).zip(&sent) {
                sends.push(world.isend(scope, sent, to, tag).unwrap());
            }
        }
        let (first, status) = wait_any(&mut receives).unwrap();
        assert_eq!(status.unwrap().length, 2400);
        seen.push(first);
        for (at, status) in wait_some(&mut receives, 3) {
            assert_eq!(status.unwrap().source, Some(at as u32 / 2));
            seen.push(at);
        }
        let rest: Vec<_> = (0..receives.len()).filter(|&at| receives[at].is_active()).collect();
        assert_eq!(rest.len() + seen.len(), receives.len());
        let all = loop {
            if let Some(all) = test_all(&mut receives) {
                break all;
            }
        };
        assert!(all.iter().all(Result::is_ok));
        assert!(wait_any(&mut receives).is_none(), "none is active any more");
        assert!(wait_all(&mut sends).iter().all(Result::is_ok));
    });
    assert!((0..).zip(&buffers).all(|(at, buffer)| *buffer == [at / 2; 600]));
}

fn a_cancelled_receive_gets_nothing(world: &Communicator) {
    let me = world.rank();
    let mut data = [0u8; 4];
    world.scope(|scope| {
        let mut receive = world.irecv(scope, &mut data, me, 9).unwrap();
        assert!(receive.test().is_none());
        receive.cancel();
        assert!(receive.wait().unwrap().cancelled);
    });
    world.bsend(&[1u8; 4], me, 9).unwrap();
    assert!(!world.recv(&mut data, me, 9).unwrap().cancelled);
    assert_eq!(data, [1; 4]);
}

fn a_long_message_for_a_short_buffer_is_an_error_at_its_receiver_only(world: &Communicator) {
    if world.rank() > 0 {
        for length in [100, 50_000] {
            world.send(&bytes(length, 3), 0, 2).unwrap();
        }
        world.send(&[5u8], 0, 2).unwrap();
        return;
    }
    for from in 1..world.size() {
        let mut data = [0u8; 10];
        for length in [100, 50_000] {
            let error = world.recv(&mut data, from, 2).unwrap_err();
            assert_eq!(error, Error::Truncated { length, capacity: 10, from, tag: 2 });
            assert_eq!(data[..], bytes(10, 3));
        }
        assert_eq!(world.recv(&mut data, from, 2).unwrap().length, 1, "the next one comes as ever");
    }
}

fn a_synchronous_send_waits_for_its_receive(world: &Communicator) {
    let me = world.rank();
    let (sent, mut received) = ([7u8; 3], [0u8; 3]);
    world.scope(|scope| {
        let mut send = world.isend_as(scope, Mode::Synchronous, &sent, me, 1).unwrap();
        for _ in 0..10 {
            assert!(send.test().is_none(), "nobody receives yet");
        }
        world.recv(&mut received, me, 1).unwrap();
        send.wait().unwrap();
    });
    assert_eq!(received, sent);
}

fn sendrecv_goes_round_a_ring(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    let mut token = vec![me; 5000];
    for _ in 0..size {
        let sent = token.clone();
        let (to, from) = ((me + 1) % size, (me + size - 1) % size);
        world.sendrecv(&sent, to, 3, &mut token, from, 3).unwrap();
    }
    assert_eq!(token, vec![me; 5000]);
}

fn wrong_ranks_and_tags_are_refused(world: &Communicator) {
    let size = world.size();
    let rank = Error::InvalidRank { rank: size, size };
    assert_eq!(world.send(&[0u8], size, 0), Err(rank.clone()));
    assert_eq!(world.recv(&mut [0u8], size, 0), Err(rank.clone()));
    assert_eq!(world.broadcast(&mut [0u8], size).run(), Err(rank));
    assert_eq!(world.send(&[0u8], 0, -1), Err(Error::InvalidTag { tag: -1 }));
}

fn several_threads_share_a_process(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    std::thread::scope(|threads| {
        for tag in 0..3 {
            threads.spawn(move || {
                for round in 0..50u64 {
                    let length = if round % 7 == 0 { 3000 } else { 3 };
                    let mut data = vec![0; length];
                    let sent = vec![round + u64::from(me); length];
                    let (to, from) = ((me + 1) % size, (me + size - 1) % size);
                    world.sendrecv(&sent, to, tag, &mut data, from, tag).unwrap();
                    assert_eq!(data, vec![round + u64::from(from); length]);
                }
            });
        }
    });
}

fn a_scope_that_panics_lets_its_buffers_go(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    let (to, from) = ((me + 1) % size, (me + size - 1) % size);
    let (mut short, mut long, mut wanted) =
        (bytes(100, me), bytes(100_000, me), vec![0u8; 100_000]);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        world.scope(|scope| {
            world.isend_as(scope, Mode::Synchronous, &short, to, 1).unwrap();
            world.isend(scope, &long, to, 1).unwrap();
            world.irecv(scope, &mut wanted, from, 2).unwrap();
            // Not `panic!`: nothing shall be printed.
            std::panic::resume_unwind(Box::new(()));
        });
    }));
    assert!(outcome.is_err());
    short.fill(0);
    long.fill(0);
    world.bsend(&bytes(50_000, 7), to, 2).unwrap();
    let mut got = vec![0; 100_000];
    for length in [100, 100_000] {
        assert_eq!(world.recv(&mut got, from, 1).unwrap().length, length);
        assert!(got[..length] == bytes(length, from), "what was to be sent then is sent");
    }
    world.recv(&mut got, from, 2).unwrap();
    assert!(got[..50_000] == bytes(50_000, 7));
    assert!(wanted == [0; 100_000], "the receive that was given up took nothing");
}

/// Something that happens once.
#[derive(Default)]
struct Event(Mutex<bool>, Condvar);

impl Event {
    fn happens(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |happened| !*happened).unwrap());
    }
}

#[test]
fn what_was_sent_arrives_though_its_sender_does_something_else_then() {
    // More than rings and sockets take, and less than there is credit for.
    const COUNT: u32 = 300;
    const LENGTH: usize = 60_000;
    let settings = Settings { long_wait: Duration::from_millis(20), ..Settings::default() };
    for kind in [Kind::SharedMemory, Kind::Tcp, Kind::Soap] {
        let processes = processes(kind, 2, &settings);
        // Rank 1 has sent all, or waits.
        let begun = Arc::<Event>::default();
        let received = Arc::<Event>::default();
        let told = begun.clone();
        processes[1].observe(Box::new(move |status| {
            if status.wait.is_some() {
                told.happens();
            }
            true
        }));
        run_with(processes, move |world| {
            world.process().connect().unwrap();
            if world.rank() == 1 {
                (0..COUNT).for_each(|seed| world.send(&bytes(LENGTH, seed), 0, 1).unwrap());
                begun.happens();
                received.wait();
            } else {
                begun.wait();
                for seed in 0..COUNT {
                    let mut got = vec![0u8; LENGTH];
                    world.recv(&mut got, 1, 1).unwrap();
                    assert!(got == bytes(LENGTH, seed), "{seed}");
                }
                received.happens();
            }
            world.process().leave();
        });
    }
}
