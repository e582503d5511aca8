use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::Interface;
use fishplate_jobs::function::Functions;
use fishplate_wire::{ExpectedTable, MessageHead, UnpackedMessage, Unpacker, WireLimits};
use tempfile::TempDir;

use super::*;
use crate::faces::soap::reading::{MessageReading, RoomError, most};
use crate::spool::{SpoolDirectory, Spooler};

const PATIENCE: Duration = Duration::from_secs(30);
const MIB: u64 = 1 << 20;

/// A message to a function whose payloads may stay in memory, and where it goes.
struct Message {
    unpacker: Unpacker,
    sink: Spooler,
    reserved: MemoryReservation,
    spools: bool,
    limits: WireLimits,
    _data: TempDir,
}

impl Message {
    fn new() -> Self {
        let functions = Functions::new("test", "urn:test").function(
            "size",
            ["data"],
            ["size"],
            |data: Payload| Ok(data.len().is_some()),
        );
        let expected = ExpectedTable::requests("urn:test", &Interface::of(functions.service()));
        let most = 256 << 20;
        let limits = WireLimits { inline_size: most, inline_total: most, ..WireLimits::default() };
        let head =
            MessageHead { content_type: "text/xml; charset=utf-8", ..MessageHead::default() };
        let unpacker = Unpacker::new(&head, Box::new(Arc::new(expected)), &limits).unwrap();
        let data = tempfile::tempdir().unwrap();
        let sink = SpoolDirectory::open(data.path(), 0).unwrap().sink();
        let reserved = MemoryReservation::default();
        Self { unpacker, sink, reserved, spools: false, limits, _data: data }
    }

    /// One whose payload has begun.
    async fn in_its_payload(memory: &MessageMemory) -> Self {
        let mut message = Self::new();
        message.feed(memory, START).await.unwrap();
        message
    }

    async fn feed(&mut self, memory: &MessageMemory, text: impl Into<Bytes>) -> Result<(), Fault> {
        let chunk = text.into();
        let mut reading = MessageReading {
            unpacker: &mut self.unpacker,
            sink: &mut self.sink,
            most: most(&self.limits, None),
            retry_budget: PATIENCE,
            spools: self.spools,
        };
        let room = reading.make_room(memory, &mut self.reserved, chunk.len()).await;
        room.map_err(|error| match error {
            RoomError::Memory(fault) => fault,
            RoomError::Spool(error) => panic!("{error}"),
        })?;
        self.spools = reading.spools;
        self.unpacker.feed(chunk, &mut self.sink)?;
        self.sink.pace().await.unwrap();
        Ok(())
    }

    async fn payload(&mut self, memory: &MessageMemory, bytes: u64) {
        let chunk = Bytes::from(vec![b'A'; 64 << 10]);
        for _ in 0..bytes / chunk.len() as u64 {
            self.feed(memory, chunk.clone()).await.unwrap();
        }
    }

    async fn finish(&mut self, memory: &MessageMemory) -> UnpackedMessage {
        self.feed(memory, END).await.unwrap();
        let unpacked = self.unpacker.finish(&mut self.sink).unwrap();
        self.sink.finish().await.unwrap();
        unpacked
    }
}

const START: &str = "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Body>\
                     <size xmlns=\"urn:test\"><data xmlns=\"\">";
const END: &str = "</data></size></e:Body></e:Envelope>";

fn free(memory: &MessageMemory) -> u64 {
    memory.units.available_permits() as u64 * UNIT
}

fn payload(unpacked: &UnpackedMessage) -> &Payload {
    let fishplate_wire::envelope::Body::Wrapper { children, .. } = &unpacked.envelope.body else {
        panic!("no wrapper")
    };
    let fishplate_wire::envelope::ValueContent::Data(payload) = &children[0].content else {
        panic!("no data")
    };
    payload
}

#[tokio::test(start_paused = true)]
async fn messages_together_hold_no_more_than_there_is() {
    let memory = MessageMemory::new(10 * MIB);
    let [mut first, mut second, mut third, mut ahead] =
        [(); 4].map(|()| MemoryReservation::default());
    memory.resize(&mut first, 6 * MIB, PATIENCE).await.unwrap();
    memory.resize(&mut second, 4 * MIB, PATIENCE).await.unwrap();
    // One goes on whatever the others hold, and no more than one.
    memory.resize(&mut ahead, 3 * MIB, PATIENCE).await.unwrap();
    // What is small needs nothing.
    memory.resize(&mut third, SMALL, PATIENCE).await.unwrap();
    let fault = memory.resize(&mut third, SMALL + 1, PATIENCE).await.unwrap_err();
    assert_eq!(fault.code, FaultCode::TimedOut);
    assert_eq!(fault.limit.unwrap().name, "message_memory");
    second.shrink(MIB);
    memory.resize(&mut third, 3 * MIB, PATIENCE).await.unwrap();
    assert_eq!(free(&memory), 0);
    // One larger than all waits for all.
    drop((second, third));
    let mut all = MemoryReservation::default();
    assert!(memory.resize(&mut all, 1 << 40, PATIENCE).await.is_err());
    drop(first);
    memory.resize(&mut all, 1 << 40, PATIENCE).await.unwrap();
    assert_eq!(free(&memory), 0);
    all.shrink(0);
    assert_eq!(free(&memory), 10 * MIB);
    // It needs its turn no longer when it holds no more than it has of what is everybody's.
    assert!(ahead.turn.is_some());
    ahead.shrink(SMALL);
    assert!(ahead.turn.is_none());
}

#[tokio::test(start_paused = true)]
async fn messages_that_all_hold_some_do_not_wait_for_each_other() {
    let memory = Arc::new(MessageMemory::new(4 * MIB));
    let message = || {
        let memory = Arc::clone(&memory);
        async move {
            let mut message = Message::in_its_payload(&memory).await;
            let comment = format!("<!--{}-->", "x".repeat(60 << 10));
            for _ in 0..40 {
                message.feed(&memory, comment.clone()).await?;
                // So that all of them hold as much.
                tokio::task::yield_now().await;
            }
            message.finish(&memory).await;
            Ok::<(), Fault>(())
        }
    };
    let all: Vec<_> = (0..16).map(|_| tokio::spawn(message())).collect();
    for message in all {
        message.await.unwrap().unwrap();
    }
    assert_eq!(free(&memory), 4 * MIB);
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_not_wait_for_a_message_that_waits_for_its_place() {
    let memory = MessageMemory::new(MIB);
    let mut other = MemoryReservation::default();
    memory.resize(&mut other, MIB, PATIENCE).await.unwrap();
    let mut read = Message::new();
    let comment = format!("<!--{}-->", "x".repeat(60 << 10));
    for _ in 0..8 {
        read.feed(&memory, comment.clone()).await.unwrap();
    }
    assert!(read.reserved.turn.is_some());
    let mut answer = MemoryReservation::default();
    memory.resize(&mut answer, MIB, PATIENCE).await.unwrap();
}

#[test]
fn a_message_may_come_to_hold_what_it_says_but_no_more_than_its_limits() {
    let limits = WireLimits::default();
    let all = limits.envelope_size + limits.inline_total as u64;
    assert_eq!(most(&limits, Some(1000)), 1000);
    assert_eq!(most(&limits, Some(u64::MAX)), all);
    assert_eq!(most(&limits, None), all);
}

#[tokio::test]
async fn a_message_takes_from_others_what_it_holds_and_not_what_it_might() {
    let memory = MessageMemory::new(64 * MIB);
    let mut halves = Vec::new();
    for _ in 0..20 {
        let mut half = Message::in_its_payload(&memory).await;
        half.payload(&memory, MIB).await;
        halves.push(half);
    }
    assert!(free(&memory) >= 40 * MIB, "{}", free(&memory));
    let mut whole = Message::in_its_payload(&memory).await;
    whole.payload(&memory, 32 * MIB).await;
    let unpacked = whole.finish(&memory).await;
    assert!(matches!(payload(&unpacked), Payload::Pieces(_)));
    // Only the bytes that were decoded are held by now.
    assert_eq!(held_by_payload(payload(&unpacked)), 24 * MIB);
    whole.reserved.shrink(24 * MIB);
    assert_eq!(whole.reserved.bytes(), 24 * MIB);
}

#[tokio::test]
async fn payloads_go_to_the_spool_if_messages_that_all_hold_some_want_more() {
    let memory = MessageMemory::new(4 * MIB);
    let mut both = [Message::in_its_payload(&memory).await, Message::in_its_payload(&memory).await];
    for _ in 0..16 {
        for message in &mut both {
            message.payload(&memory, MIB).await;
        }
    }
    for message in &mut both {
        let unpacked = message.finish(&memory).await;
        let payload = payload(&unpacked);
        assert!(matches!(payload, Payload::Spooled(_)), "{payload:?}");
        assert_eq!(payload.len(), Some(12 * MIB));
    }
}

#[tokio::test(start_paused = true)]
async fn xml_that_cannot_be_spooled_waits_and_is_refused() {
    let memory = MessageMemory::new(MIB);
    let mut other = MemoryReservation::default();
    memory.resize(&mut other, MIB, PATIENCE).await.unwrap();
    let comment = format!("<!--{}-->", "x".repeat(60 << 10));
    let mut ahead = Message::new();
    for _ in 0..8 {
        ahead.feed(&memory, comment.clone()).await.unwrap();
    }
    let mut message = Message::new();
    let mut fed = 0;
    let fault = loop {
        match message.feed(&memory, comment.clone()).await {
            Ok(()) => fed += comment.len() as u64,
            Err(fault) => break fault,
        }
        assert!(fed < MIB);
    };
    assert_eq!(fault.limit.unwrap().name, "message_memory");
    assert!(fed > SMALL / 2);
    // With memory it goes on.
    drop(other);
    message.feed(&memory, comment).await.unwrap();
}

#[test]
fn steps_double_until_they_are_large() {
    assert_eq!(step(SMALL + 1), 2 * SMALL);
    assert_eq!(step(9 * MIB), 16 * MIB);
    assert_eq!(step(33 * MIB), 48 * MIB);
}
