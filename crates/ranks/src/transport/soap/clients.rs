//! Clients that count their calls, so that one whose answer was lost can be repeated: what it stored is stored once, and what it
//! received is kept until it receives again.

use std::collections::HashMap;
use std::time::Instant;

use fishplate_contract::{Argument, Fault, FaultCode};

use crate::engine::Engine;
use crate::matching::Pattern;
use crate::transport::soap::client_call::{FoundMessage, nothing_received};
use crate::transport::soap::operations::invalid;

#[derive(Debug)]
pub(super) struct Clients {
    known: HashMap<String, Client>,
    most: usize,
}

/// How far one has come.
#[derive(Debug, Default)]
struct Client {
    /// The number of its last call that stored a message.
    stored: u64,
    /// The number of its last `receive` that found a message, or waited in vain.
    received: u64,
    /// What that one found, while the payload comes; then what it gives.
    found: Option<FoundMessage>,
    outputs: Vec<Argument>,
    /// Bytes of it.
    held: usize,
}

/// Bytes of messages of clients, and how many there may be.
pub(super) struct Room<'a> {
    pub(super) held: &'a mut usize,
    pub(super) most: usize,
}

impl Clients {
    /// So many at most.
    pub(super) fn new(most: usize) -> Self {
        Self { known: HashMap::new(), most }
    }

    /// Whether a call that stores a message is the client's next one.
    pub(super) fn check_stored(&self, client: &str, number: u64) -> Result<(), Fault> {
        self.admit(client)?;
        let stored = self.known.get(client).map_or(0, |known| known.stored);
        check(client, number, stored + 1)
    }

    /// It has stored its message.
    pub(super) fn stored(&mut self, client: String, number: u64) {
        self.known.entry(client).or_default().stored = number;
    }

    /// What a `receive` gives, once that is known; what it gave, if it came before. It waits for a message until the time that is told,
    /// and then for the rest of it.
    pub(super) fn receive(
        &mut self,
        (client, number): (&str, u64),
        pattern: Pattern,
        until: &mut Option<Instant>,
        room: &mut Room<'_>,
        engine: &mut Engine,
    ) -> Option<Result<Vec<Argument>, Fault>> {
        if let Err(fault) = self.admit(client) {
            return Some(Err(fault));
        }
        let known = self.known.entry(client.to_owned()).or_default();
        if number != known.received {
            if let Err(fault) = check(client, number, known.received + 1) {
                return Some(Err(fault));
            }
            let free = room.most - (*room.held - known.held);
            let found = match FoundMessage::claim(pattern, engine, free, room.most) {
                Ok(None) if until.is_some_and(|until| Instant::now() < until) => return None,
                Ok(found) => found,
                Err(fault) => return Some(Err(fault)),
            };
            *room.held -= known.held;
            known.held = found.as_ref().map_or(0, FoundMessage::length);
            *room.held += known.held;
            known.received = number;
            known.outputs = nothing_received();
            known.found = found;
        }
        *until = None;
        if let Some(found) = &mut known.found {
            let outcome = found.outputs(engine)?;
            known.found = None;
            match outcome {
                Ok(outputs) => known.outputs = outputs,
                Err(fault) => {
                    known.received -= 1;
                    return Some(Err(fault));
                }
            }
        }
        Some(Ok(known.outputs.clone()))
    }

    /// Whether a client is known, or there is room for one more.
    fn admit(&self, client: &str) -> Result<(), Fault> {
        if self.known.len() < self.most || self.known.contains_key(client) {
            return Ok(());
        }
        let message = format!("client: the calls of {} clients are counted already", self.most);
        let fault = Fault::new(FaultCode::LimitExceeded, message).parameter("client");
        Err(fault.limit("soap_clients", self.most))
    }
}

fn check(client: &str, number: u64, next: u64) -> Result<(), Fault> {
    match number {
        _ if number == next => Ok(()),
        _ if number < next => {
            let problem =
                format!("call {number} of client {client} came before: its next is {next}");
            Err(invalid("sequence", problem))
        }
        _ => {
            let problem = format!("it is {number}, but the next of client {client} is {next}");
            Err(invalid("sequence", problem))
        }
    }
}
