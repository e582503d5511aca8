//! Operations that are started again and again, requests by their IDs, generalized requests.

#![expect(unsafe_code, reason = "requests without a scope use memory that the test keeps")]

use fishplate_ranks::buffer::{ReceiveBuffer, SendBuffer};
use fishplate_ranks::header::Mode;
use fishplate_ranks::process::Turn;
use fishplate_ranks::{ANY_TAG, Communicator, Operation, PROC_NULL};

use crate::conformance;

conformance! {
    a_persistent_pair_sends_what_is_in_its_buffer_each_time;
    a_persistent_request_is_started_once_at_a_time;
    persistent_collectives_start_in_any_order;
    requests_by_their_ids_complete_in_any_order;
    a_generalized_request_completes_when_its_thread_says_so;
}

fn sent(data: &[u32]) -> SendBuffer {
    // SAFETY: every test keeps it until its request is complete or dropped.
    unsafe { SendBuffer::from_raw(data.as_ptr().cast(), size_of_val(data)) }
}

fn received(data: &mut [u32]) -> ReceiveBuffer {
    // SAFETY: as above.
    unsafe { ReceiveBuffer::from_raw(data.as_mut_ptr().cast(), size_of_val(data)) }
}

fn a_persistent_pair_sends_what_is_in_its_buffer_each_time(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    let (to, from) = ((me + 1) % size, (me + size - 1) % size);
    // Eager and rendezvous.
    for length in [3, 3000] {
        let (mut data, mut got) = (vec![0; length], vec![0; length]);
        for mode in [Mode::Standard, Mode::Synchronous] {
            let mut receive = world.persistent_receive(received(&mut got), from, ANY_TAG).unwrap();
            let mut send = world.persistent_send(mode, sent(&data), to, 4).unwrap();
            for round in 0..5 {
                data.fill(round * 100 + me);
                receive.start().unwrap();
                send.start().unwrap();
                let status = receive.wait().unwrap();
                assert_eq!((status.source, status.tag), (Some(from), Some(4)));
                send.wait().unwrap();
                assert_eq!(got, vec![round * 100 + from; length]);
                // Inactive requests are complete, and empty.
                assert_eq!(receive.wait().unwrap().source, None);
                assert!(send.test().unwrap().is_ok());
            }
        }
    }
    let mut nobody = world.persistent_send(Mode::Standard, sent(&[]), PROC_NULL, 0).unwrap();
    nobody.start().unwrap();
    nobody.wait().unwrap();
    assert!(world.persistent_send(Mode::Standard, sent(&[]), size, 0).is_err());
}

fn a_persistent_request_is_started_once_at_a_time(world: &Communicator) {
    let mut got = [0];
    let mut receive = world.persistent_receive(received(&mut got), 0, 9).unwrap();
    receive.start().unwrap();
    assert!(receive.start().unwrap_err().to_string().contains("it is active"));
    assert!(receive.test().is_none());
    receive.cancel();
    assert!(receive.wait().unwrap().cancelled);
    // One that is dropped while it is active lets its buffer go.
    receive.start().unwrap();
    drop(receive);
    world.barrier().run().unwrap();
    if world.rank() == 0 {
        (0..world.size()).for_each(|to| world.send(&[7u32], to, 9).unwrap());
    }
    let mut other = [0u32];
    world.recv(&mut other, 0, 9).unwrap();
    assert_eq!((got, other), ([0], [7]));
}

fn persistent_collectives_start_in_any_order(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    let (mut data, mut sums, mut all) = ([0], [0], vec![0; size as usize]);
    let (data_again, sums_again) = (&raw mut data, &raw mut sums);
    let all_again = &raw mut all;
    // SAFETY: nothing is touched while it is active, and all of it lives longer.
    let (mut sum, mut gather) = unsafe {
        (
            world
                .allreduce(&*data_again, &mut *sums_again, &Operation::sum::<u32>())
                .persistent()
                .unwrap(),
            world.allgather(&*data_again, (*all_again).as_mut_slice()).persistent().unwrap(),
        )
    };
    for round in 0..4 {
        // SAFETY: neither is active.
        unsafe { *data_again = [round * 10 + me] };
        let mut both = [&mut sum, &mut gather];
        if me % 2 == 1 {
            both.reverse();
        }
        for one in both {
            one.start().unwrap();
        }
        sum.wait().unwrap();
        gather.wait().unwrap();
        let expected: Vec<u32> = (0..size).map(|rank| round * 10 + rank).collect();
        // SAFETY: neither is active.
        unsafe {
            assert_eq!(*sums_again, [expected.iter().sum::<u32>()]);
            assert_eq!(*all_again, expected);
        }
    }
}

fn requests_by_their_ids_complete_in_any_order(world: &Communicator) {
    let (me, size) = (world.rank(), world.size());
    let process = world.process();
    let mut got = vec![[0u32; 2]; size as usize];
    let mut requests: Vec<_> = (0..size)
        .zip(&mut got)
        .map(|(from, got)| world.start_receive(received(got), from.into(), ANY_TAG).unwrap())
        .collect();
    assert!(process.test(requests[me as usize]).is_none(), "this rank has sent itself nothing");
    for to in (0..size).rev() {
        world.send(&[me, to], to, 1).unwrap();
    }
    let mut sources = Vec::new();
    while let Some(at) = process.wait_any(&requests) {
        let request = requests.swap_remove(at);
        let seen = process.peek(request).unwrap().unwrap();
        assert_eq!(process.test(request).unwrap().unwrap(), seen);
        sources.extend(seen.source);
    }
    sources.sort_unstable();
    assert_eq!(sources, (0..size).collect::<Vec<_>>());
    assert!((0..size).zip(&got).all(|(from, got)| *got == [from, me]));
    let (mut sum, mine) = ([0], [me]);
    // SAFETY: it is waited for.
    let request = unsafe {
        world.allreduce(&mine, &mut sum, &Operation::max::<u32>()).start_raw(Turn::NonBlocking)
    };
    process.wait(request.unwrap()).unwrap();
    assert_eq!(sum, [size - 1]);
    // A receive that is let go gets nothing, and neither does its buffer.
    let mut late = [0];
    process.release(world.start_receive(received(&mut late), me.into(), ANY_TAG).unwrap());
    world.send(&[5u32], me, 2).unwrap();
    let mut next = [0u32];
    world.recv(&mut next, me, 2).unwrap();
    assert_eq!((late, next), ([0], [5]));
}

fn a_generalized_request_completes_when_its_thread_says_so(world: &Communicator) {
    let process = world.process();
    let request = process.start_generalized();
    assert!(process.test(request).is_none());
    std::thread::scope(|threads| {
        threads.spawn(|| process.complete_generalized(request));
        process.wait(request).unwrap();
    });
    assert_eq!(process.wait_any(&[]), None);
}
