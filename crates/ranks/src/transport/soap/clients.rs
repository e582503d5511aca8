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
    /// Bytes of what clients received last, and how many there may be.
    kept: usize,
    most_kept: usize,
    /// How many have received something.
    turn: u64,
}

/// How far one has come.
#[derive(Debug, Default)]
struct Client {
    /// The number of its last call that stored a message.
    stored: u64,
    /// The number of its last `receive` that found a message, or waited in vain.
    received: u64,
    /// What that one found, while the payload comes; then what it gives, unless others needed the room.
    found: Option<FoundMessage>,
    outputs: Option<Vec<Argument>>,
    /// Bytes of it, and when it came.
    kept: usize,
    turn: u64,
}

impl Clients {
    /// So many at most, and so many bytes of what they received last.
    pub(super) fn new(most: usize, most_kept: usize) -> Self {
        Self { known: HashMap::new(), most, kept: 0, most_kept, turn: 0 }
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
        engine: &mut Engine,
    ) -> Option<Result<Vec<Argument>, Fault>> {
        let last = self.known.get(client).map_or(0, |known| known.received);
        if number != last {
            let is_next = self.admit(client).and_then(|()| check(client, number, last + 1));
            if let Err(fault) = is_next {
                return Some(Err(fault));
            }
            let free = self.most_kept - self.arriving(client);
            match FoundMessage::claim(pattern, engine, free, self.most_kept) {
                Ok(None) if until.is_some_and(|until| Instant::now() < until) => return None,
                Ok(found) => self.keep(client, number, found),
                Err(fault) => return Some(Err(fault)),
            }
        }
        *until = None;
        let known = self.known.get_mut(client)?;
        if let Some(found) = &mut known.found {
            let outcome = found.outputs(engine)?;
            known.found = None;
            match outcome {
                Ok(outputs) => known.outputs = Some(outputs),
                Err(fault) => {
                    known.received -= 1;
                    return Some(Err(fault));
                }
            }
        }
        Some(known.outputs.clone().ok_or_else(|| {
            let problem =
                format!("what call {number} gave is not kept any more: others have received since");
            invalid("sequence", problem)
        }))
    }

    /// Bytes of messages that are still arriving for others, which can't be let go of.
    fn arriving(&self, client: &str) -> usize {
        let others =
            self.known.iter().filter(|(name, known)| *name != client && known.found.is_some());
        others.map(|(_, known)| known.kept).sum()
    }

    /// What the client received is kept in place of what it received before; if there is no room, in place of what others have had longest.
    fn keep(&mut self, client: &str, number: u64, found: Option<FoundMessage>) {
        let length = found.as_ref().map_or(0, FoundMessage::length);
        self.turn += 1;
        let known = self.known.entry(client.to_owned()).or_default();
        self.kept = self.kept - known.kept + length;
        *known = Client {
            stored: known.stored,
            received: number,
            found,
            outputs: Some(nothing_received()),
            kept: length,
            turn: self.turn,
        };
        while self.kept > self.most_kept {
            let others = self
                .known
                .iter_mut()
                .filter(|(name, known)| *name != client && known.kept > 0 && known.found.is_none());
            let Some((_, oldest)) = others.min_by_key(|(_, known)| known.turn) else { return };
            oldest.outputs = None;
            self.kept -= std::mem::take(&mut oldest.kept);
        }
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
