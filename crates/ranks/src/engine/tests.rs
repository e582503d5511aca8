//! Engines joined by queues, driven in random interleavings, against what the standard promises.

#![expect(clippy::cast_possible_truncation, reason = "made-up data is cut to what fits")]
#![expect(unsafe_code, reason = "requests use memory that the test keeps")]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::buffer::{ReceiveBuffer, SendBuffer};
use crate::engine::peer::PeerState;
use crate::error::Error;
use crate::header::{Context, DomainId, Header, Kind, Mode, Rank, RequestId, Tag};
use crate::matching::Pattern;
use crate::settings::Settings;

const DOMAIN: DomainId = DomainId::from_bytes([7; 16]);
const CAPACITY: usize = 600;

struct Sent {
    from: Rank,
    to: Rank,
    tag: Tag,
    order: usize,
    bytes: Box<[u8]>,
    request: RequestId,
}

struct Posted {
    at: Rank,
    pattern: Pattern,
    order: usize,
    buffer: Box<[u8]>,
    request: RequestId,
}

/// What lies between two engines.
type Wire = VecDeque<(Header, Vec<u8>)>;

/// Some engines, and what lies between them.
struct World {
    engines: Vec<Engine>,
    wires: HashMap<(Rank, Rank), Wire>,
    sent: Vec<Sent>,
    posted: Vec<Posted>,
    clock: usize,
}

impl World {
    fn new(size: u32, settings: &Settings) -> Self {
        let members: Arc<[Rank]> = (0..size).collect();
        let engines = (0..size).map(|rank| {
            let mut engine = Engine::new(DOMAIN, rank, size, settings);
            engine.add_context(Context::WORLD, members.clone());
            engine
        });
        Self {
            engines: engines.collect(),
            wires: HashMap::new(),
            sent: vec![],
            posted: vec![],
            clock: 0,
        }
    }

    /// Long messages go to each rank over so many connections.
    fn with_streams(mut self, streams: usize) -> Self {
        for engine in &mut self.engines {
            (0..engine.size()).for_each(|to| engine.set_streams(to, streams));
        }
        self
    }

    fn send(&mut self, from: Rank, to: Rank, tag: Tag, length: usize, mode: Mode) {
        self.clock += 1;
        let order = self.clock;
        let bytes: Box<[u8]> = (0..length).map(|at| (at.wrapping_mul(31) + order) as u8).collect();
        // SAFETY: `sent` keeps it as long as the engines live.
        let buffer = unsafe { SendBuffer::from_raw(bytes.as_ptr(), length) };
        let arguments = SendArguments { to, context: Context::WORLD, tag, mode };
        let request = self.engines[from as usize].send(arguments, buffer);
        self.sent.push(Sent { from, to, tag, order, bytes, request });
        self.collect();
    }

    fn receive(&mut self, at: Rank, source: Option<Rank>, tag: Option<Tag>) {
        self.clock += 1;
        let mut buffer = vec![0; CAPACITY].into_boxed_slice();
        let pattern = Pattern { context: Context::WORLD, source, tag };
        // SAFETY: `posted` keeps it as long as the engines live.
        let receive = unsafe { ReceiveBuffer::from_raw(buffer.as_mut_ptr(), CAPACITY) };
        let request = self.engines[at as usize].receive(pattern, receive);
        self.posted.push(Posted { at, pattern, order: self.clock, buffer, request });
        self.collect();
    }

    /// Takes frames from the engines to the wires.
    fn collect(&mut self) {
        for engine in &mut self.engines {
            while let Some(frame) = engine.next_frame() {
                let body = frame.payload.bytes().to_vec();
                let pair = (frame.header.from, frame.header.to);
                self.wires.entry(pair).or_default().push_back((frame.header, body));
                if let Some(request) = frame.request {
                    engine.sent(request);
                }
            }
        }
    }

    /// Delivers one frame of some pair: the next, or one further behind; and once more if `twice`.
    fn deliver(&mut self, choice: usize, ahead: usize, twice: bool) -> bool {
        let mut pairs: Vec<_> =
            self.wires.iter().filter(|(_, wire)| !wire.is_empty()).map(|(pair, _)| *pair).collect();
        pairs.sort_unstable();
        if pairs.is_empty() {
            return false;
        }
        let pair = pairs[choice % pairs.len()];
        let wire = self.wires.get_mut(&pair).unwrap();
        let (header, body) = wire.remove(ahead % wire.len()).unwrap();
        let engine = &mut self.engines[pair.1 as usize];
        engine.deliver(header, &body).unwrap();
        if twice {
            engine.deliver(header, &body).unwrap();
        }
        self.collect();
        true
    }

    /// What the standard promises, once nothing is under way.
    fn check(&mut self) {
        // Which message each receive got, by the order of both.
        let mut got: Vec<(usize, usize)> = vec![];
        let mut taken = vec![false; self.sent.len()];
        for (receive, posted) in self.posted.iter().enumerate() {
            let Some(outcome) = self.engines[posted.at as usize].take_outcome(posted.request)
            else {
                continue;
            };
            let status = outcome.unwrap();
            let found = self.sent.iter().enumerate().position(|(at, sent)| {
                !taken[at]
                    && Some(sent.from) == status.source
                    && sent.to == posted.at
                    && Some(sent.tag) == status.tag
                    && sent.bytes[..] == posted.buffer[..status.length]
            });
            let message = found.expect("what is received was sent, once, as it is");
            taken[message] = true;
            got.push((receive, message));
        }
        let takes = |posted: &Posted, sent: &Sent| {
            posted.at == sent.to
                && posted.pattern.source.is_none_or(|source| source == sent.from)
                && posted.pattern.tag.is_none_or(|tag| tag == sent.tag)
        };
        let receiver = |message: usize| {
            got.iter().find(|(_, other)| *other == message).map(|(receive, _)| *receive)
        };
        for &(receive, message) in &got {
            let (posted, sent) = (&self.posted[receive], &self.sent[message]);
            assert!(takes(posted, sent));
            for (other, earlier) in self.sent.iter().enumerate() {
                if earlier.from == sent.from && earlier.order < sent.order && takes(posted, earlier)
                {
                    let first =
                        receiver(other).expect("an earlier message that fits is received too");
                    assert!(self.posted[first].order < posted.order, "non-overtaking");
                }
            }
        }
        for (receive, posted) in self.posted.iter().enumerate() {
            let idle = !got.iter().any(|(other, _)| *other == receive);
            let waiting =
                self.sent.iter().enumerate().any(|(at, sent)| !taken[at] && takes(posted, sent));
            assert!(!(idle && waiting), "a receive and a message that fit have found each other");
        }
        for (at, sent) in self.sent.iter().enumerate() {
            let complete = self.engines[sent.from as usize].is_complete(sent.request);
            assert!(complete || !taken[at], "what is received is sent");
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send { from: Rank, to: Rank, tag: Tag, length: usize, mode: Mode },
    Receive { at: Rank, source: Option<Rank>, tag: Option<Tag> },
    Deliver { choice: usize, ahead: usize, twice: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let modes =
        prop::sample::select(vec![Mode::Standard, Mode::Synchronous, Mode::Buffered, Mode::Ready]);
    let send = (0..3u32, 0..3u32, 0..3i32, 0..CAPACITY, modes)
        .prop_map(|(from, to, tag, length, mode)| Step::Send { from, to, tag, length, mode });
    let receive = (0..3u32, prop::option::of(0..3u32), prop::option::of(0..3i32))
        .prop_map(|(at, source, tag)| Step::Receive { at, source, tag });
    let deliver = (0..9usize, prop_oneof![Just(0usize), 0..4usize], any::<bool>())
        .prop_map(|(choice, ahead, twice)| Step::Deliver { choice, ahead, twice });
    prop::collection::vec(prop_oneof![send, receive, deliver.clone(), deliver], 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_interleaving_keeps_the_standards_promises(steps in steps(), memory in 0..6000usize, streams in 1..5usize) {
        let settings = Settings { eager_limit: 300, stream_bytes: 90, unexpected_memory: memory, ..Settings::default() };
        let mut world = World::new(3, &settings).with_streams(streams);
        for step in steps {
            match step {
                Step::Send { from, to, tag, length, mode } => world.send(from, to, tag, length, mode),
                Step::Receive { at, source, tag } => world.receive(at, source, tag),
                Step::Deliver { choice, ahead, twice } => { world.deliver(choice, ahead, twice); }
            }
            for engine in &world.engines {
                prop_assert!(engine.unexpected_bytes() <= memory, "unexpected messages keep to their bound");
            }
        }
        while world.deliver(0, 0, false) {}
        world.check();
    }
}

fn pair() -> World {
    World::new(2, &Settings { eager_limit: 300, ..Settings::default() })
}

#[test]
fn ten_thousand_unexpected_messages_stay_in_bounds_and_let_a_later_one_pass() {
    let memory = 64 << 10;
    let mut world = World::new(
        2,
        &Settings { eager_limit: 300, unexpected_memory: memory, ..Settings::default() },
    );
    for _ in 0..10_000 {
        world.send(0, 1, 1, 100, Mode::Standard);
    }
    world.send(0, 1, 2, 100, Mode::Standard);
    world.receive(1, Some(0), Some(2));
    while world.deliver(0, 0, false) {}
    assert!(
        world.engines[1].is_complete(world.posted[0].request),
        "it is behind all others, but in nobody's way"
    );
    let held = world.engines[1].unexpected_bytes();
    assert!(held > 0 && held <= memory / 2, "{held}");
    for at in 0..10_000 {
        world.receive(1, None, None);
        while world.deliver(0, 0, false) {}
        let posted = world.posted.last().unwrap();
        assert!(matches!(world.engines[1].take_outcome(posted.request), Some(Ok(_))));
        assert_eq!(
            posted.buffer[..100],
            world.sent[at].bytes[..],
            "in the order in which they were sent"
        );
    }
    assert_eq!(world.engines[1].unexpected_bytes(), 0);
}

#[test]
fn a_message_longer_than_the_buffer_is_told_with_both_lengths() {
    let mut world = pair();
    for (at, length) in [CAPACITY - 400, CAPACITY + 1].into_iter().enumerate() {
        world.send(0, 1, 5, length, Mode::Standard);
        let mut buffer = [0; 10];
        // SAFETY: the loop's body ends with the request.
        let receive = unsafe { ReceiveBuffer::from_raw(buffer.as_mut_ptr(), buffer.len()) };
        let pattern = Pattern { context: Context::WORLD, source: Some(0), tag: Some(5) };
        let request = world.engines[1].receive(pattern, receive);
        world.collect();
        while world.deliver(0, 0, false) {}
        let truncated = Error::Truncated { length: length as u64, capacity: 10, from: 0, tag: 5 };
        assert_eq!(world.engines[1].take_outcome(request), Some(Err(truncated)));
        assert_eq!(buffer, world.sent[at].bytes[..10], "what fits is there");
        assert!(world.engines[0].is_complete(world.sent[at].request));
    }
}

#[test]
fn the_rest_of_a_message_goes_straight_to_a_receive_that_is_posted_while_it_arrives() {
    for is_let_go in [false, true] {
        let mut world = pair();
        world.send(0, 1, 5, 200, Mode::Standard);
        let (header, body) = world.wires.get_mut(&(0, 1)).unwrap().pop_front().unwrap();
        let mut target = world.engines[1].begin(header).unwrap();
        target.rest(0).unwrap()[..50].copy_from_slice(&body[..50]);
        world.engines[1].retarget(&mut target, 50);
        assert!(target.is_unexpected(), "nobody receives it yet");
        world.receive(1, Some(0), Some(5));
        let request = world.posted[0].request;
        world.engines[1].retarget(&mut target, 50);
        assert!(!target.is_unexpected());
        if is_let_go {
            world.engines[1].release(request);
            target.detach(request);
            assert!(target.rest(50).is_none());
        } else {
            target.rest(50).unwrap().copy_from_slice(&body[50..]);
            assert_eq!(world.posted[0].buffer[..200], world.sent[0].bytes[..]);
        }
        let engine = &mut world.engines[1];
        assert!(!engine.is_complete(request));
        engine.finish(target).unwrap();
        let told = engine.take_outcome(request);
        assert!(is_let_go || matches!(told, Some(Ok(status)) if status.length == 200), "{told:?}");
        assert!(engine.is_over(request));
        assert_eq!(engine.unexpected_bytes(), 0);
    }
}

#[test]
fn a_failed_rank_ends_what_waits_for_it_and_is_named_to_others() {
    let mut world = World::new(3, &Settings { eager_limit: 300, ..Settings::default() });
    world.receive(0, Some(2), Some(1));
    world.receive(0, None, Some(1));
    world.receive(0, Some(1), Some(1));
    world.send(0, 2, 1, 500, Mode::Standard);
    world.send(0, 2, 1, 10, Mode::Synchronous);
    world.engines[1].fail(2);
    world.collect();
    while world.deliver(0, 0, false) {}
    let failed = Some(Err(Error::Failed { rank: 2 }));
    assert_eq!(world.engines[0].next_disconnect(), Some(2));
    for posted in &world.posted[..2] {
        assert_eq!(world.engines[0].take_outcome(posted.request), failed);
    }
    for sent in &world.sent {
        assert_eq!(world.engines[0].take_outcome(sent.request), failed);
    }
    assert!(!world.engines[0].is_complete(world.posted[2].request), "rank 1 lives");
}

#[test]
fn a_rank_that_left_ends_receives_but_not_what_it_sent_before() {
    let mut world = pair();
    world.send(0, 1, 1, 10, Mode::Standard);
    world.engines[0].announce_leave();
    world.collect();
    while world.deliver(0, 0, false) {}
    world.receive(1, Some(0), None);
    world.receive(1, Some(0), None);
    world.receive(1, None, None);
    assert!(matches!(world.engines[1].take_outcome(world.posted[0].request), Some(Ok(_))));
    for posted in &world.posted[1..] {
        assert_eq!(
            world.engines[1].take_outcome(posted.request),
            Some(Err(Error::Left { rank: 0 }))
        );
    }
}

#[test]
fn buffered_sends_keep_to_their_memory() {
    let settings = Settings { eager_limit: 0, buffer_size: 1000, ..Settings::default() };
    let mut world = World::new(2, &settings);
    world.send(0, 1, 0, 600, Mode::Buffered);
    world.send(0, 1, 0, 600, Mode::Buffered);
    let outcomes: Vec<_> = world.sent.iter().map(|sent| sent.request).collect();
    assert!(matches!(world.engines[0].take_outcome(outcomes[0]), Some(Ok(_))));
    assert_eq!(
        world.engines[0].take_outcome(outcomes[1]),
        Some(Err(Error::BufferFull { needed: 600, free: 400 }))
    );
    world.receive(1, None, None);
    while world.deliver(0, 0, false) {}
    world.send(0, 1, 0, 600, Mode::Buffered);
    assert!(
        matches!(world.engines[0].take_outcome(world.sent[2].request), Some(Ok(_))),
        "its memory is free again"
    );
}

/// A world in which rank 1 has cleared a message of 500 bytes, and the frames of its four parts.
fn parts() -> (World, Vec<(Header, Vec<u8>)>) {
    let settings = Settings { eager_limit: 300, stream_bytes: 100, ..Settings::default() };
    let mut world = World::new(2, &settings).with_streams(4);
    world.send(0, 1, 0, 500, Mode::Standard);
    world.receive(1, None, None);
    while world.wires[&(0, 1)].len() != 4 {
        assert!(world.deliver(0, 0, false));
    }
    let parts = world.wires.remove(&(0, 1)).unwrap().into();
    (world, parts)
}

#[test]
fn a_message_is_complete_when_all_of_its_parts_are_here_and_who_leaves_comes_after_them() {
    let (mut world, parts) = parts();
    let ranges = parts.iter().map(|(header, _)| (header.offset(), header.length));
    assert_eq!(ranges.collect::<Vec<_>>(), [(0, 125), (125, 125), (250, 125), (375, 125)]);
    world.engines[0].announce_leave();
    world.collect();
    let (leave, _) = world.wires.remove(&(0, 1)).unwrap().remove(0).unwrap();
    let engine = &mut world.engines[1];
    // Several are arriving, and the last is here first.
    let mut first = engine.begin(parts[0].0).unwrap();
    let mut last = engine.begin(parts[3].0).unwrap();
    engine.deliver(leave, &[]).unwrap();
    last.rest(0).unwrap().copy_from_slice(&parts[3].1);
    engine.finish(last).unwrap();
    first.rest(0).unwrap().copy_from_slice(&parts[0].1);
    engine.finish(first).unwrap();
    engine.deliver(parts[2].0, &parts[2].1).unwrap();
    assert_eq!(engine.peer_state(0), PeerState::Alive);
    assert!(!engine.is_complete(world.posted[0].request));
    engine.deliver(parts[1].0, &parts[1].1).unwrap();
    assert!(
        matches!(engine.take_outcome(world.posted[0].request), Some(Ok(status)) if status.length == 500)
    );
    assert_eq!(engine.peer_state(0), PeerState::Left);
    assert_eq!(world.posted[0].buffer[..500], world.sent[0].bytes[..]);
}

#[test]
fn parts_that_are_none_of_the_message_are_told() {
    let (mut world, parts) = parts();
    let (header, _) = parts[3];
    let engine = &mut world.engines[1];
    for wrong in [
        Header { context: Context(376), ..header },
        Header { length: 126, ..header },
        Header { context: Context(u64::MAX), ..header },
        Header { receiver: RequestId(99), ..header },
    ] {
        let told = engine.begin(wrong);
        assert!(matches!(told, Err(Error::Protocol { from: 0, .. })), "{wrong:?}");
    }
    // More in all than it has.
    let _filled = engine.begin(header).unwrap();
    let again =
        Header { sequence: header.sequence + 1, context: Context(0), length: 376, ..header };
    assert!(matches!(engine.begin(again), Err(Error::Protocol { from: 0, .. })));
}

#[test]
fn a_receive_that_was_let_go_takes_its_parts_to_nowhere() {
    let (mut world, parts) = parts();
    let engine = &mut world.engines[1];
    let request = world.posted[0].request;
    let mut arriving = engine.begin(parts[0].0).unwrap();
    engine.release(request);
    arriving.detach(request);
    assert!(arriving.rest(0).is_none(), "its memory is not used any more");
    engine.finish(arriving).unwrap();
    for (header, body) in &parts[1..] {
        let mut target = engine.begin(*header).unwrap();
        assert!(target.rest(0).is_none(), "{body:?}");
        engine.finish(target).unwrap();
    }
    assert!(engine.is_over(request));
    assert_eq!(world.posted[0].buffer[..], [0; CAPACITY]);
}

#[test]
fn a_send_of_a_failed_operation_keeps_nobody_from_leaving() {
    let mut world = pair();
    world.send(0, 1, 0, 500, Mode::Standard);
    world.send(0, 1, 0, 500, Mode::Standard);
    world.engines[0].abandon(world.sent[0].request);
    assert!(world.engines[0].is_drained());
    world.engines[0].release(world.sent[1].request);
    assert!(!world.engines[0].is_drained(), "what was only let go has to arrive");
    world.receive(1, None, None);
    world.receive(1, None, None);
    while world.deliver(0, 0, false) {}
    assert!(world.engines[0].is_drained());
}

#[test]
fn a_send_that_a_transport_has_no_room_for_is_complete_when_it_is_carried() {
    let mut world = pair();
    let engine = &mut world.engines[0];
    let bytes = [7; 100];
    for (mode, length, is_delayed) in [
        (Mode::Standard, 100, true),
        (Mode::Ready, 100, true),
        // The first waits for its receive, and a copy of the second is sent whoever waits.
        (Mode::Synchronous, 100, false),
        (Mode::Buffered, 100, false),
        (Mode::Standard, 0, true),
    ] {
        let arguments = SendArguments { to: 1, context: Context::WORLD, tag: 0, mode };
        // SAFETY: `bytes` outlives the engine's use of it.
        let buffer = unsafe { SendBuffer::from_raw(bytes.as_ptr(), length) };
        let request = engine.send(arguments, buffer);
        let mut frame = engine.next_frame().unwrap();
        let was_complete = engine.is_complete(request);
        assert_eq!(engine.delay(&mut frame), is_delayed.then_some(request), "{mode:?}");
        assert_eq!(engine.is_complete(request), was_complete && !is_delayed, "{mode:?}");
        assert_eq!(engine.delay(&mut frame), None, "once");
        if is_delayed {
            engine.sent(request);
            assert_eq!(engine.take_outcome(request), Some(Ok(Status::EMPTY)));
        }
    }
    // A send that nobody asks for any more.
    let arguments = SendArguments { to: 1, context: Context::WORLD, tag: 0, mode: Mode::Standard };
    // SAFETY: as above.
    let request = engine.send(arguments, unsafe { SendBuffer::from_raw(bytes.as_ptr(), 100) });
    engine.release(request);
    let mut frame = engine.next_frame().unwrap();
    assert_eq!(engine.delay(&mut frame), None);
}

#[test]
fn frames_that_break_the_protocol_are_told() {
    let mut world = pair();
    let header = world.engines[0].header(1, Kind::Data);
    let first = Header { sequence: 1, ..header };
    let long = Header { length: 1 << 40, kind: Kind::Eager, ..first };
    let longest = Header { length: u64::MAX, ..long };
    let clear = Header { kind: Kind::ClearToSend, sender: RequestId(99), ..first };
    let stranger = Header { domain: DomainId::from_bytes([8; 16]), ..first };
    for header in [first, long, longest, clear, stranger] {
        let told = world.engines[1].begin(header);
        assert!(matches!(told, Err(Error::Protocol { from: 0, .. })), "{header:?}");
    }
}
