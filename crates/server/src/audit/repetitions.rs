//! How often the same happened since it was written.

use std::collections::HashMap;
use std::time::Duration;

use fishplate_contract::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::AuditEvent;

/// Events that are counted for a time, from the first of them on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Repetitions {
    /// How long they are counted.
    time: Duration,
    /// How many are told apart meanwhile.
    most: usize,
    /// When the time began, in milliseconds.
    begun: Option<i64>,
    #[serde(serialize_with = "as_pairs", deserialize_with = "from_pairs")]
    counts: HashMap<AuditEvent, u64>,
    /// Of those that were too many.
    others: u64,
}

impl Repetitions {
    pub(super) fn new(time: Duration, most: usize) -> Self {
        Self { time, most, begun: None, counts: HashMap::new(), others: 0 }
    }

    /// From now on so many are told apart.
    pub(super) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// The lines to be written now.
    pub(super) fn count(
        &mut self,
        event: AuditEvent,
        now: Timestamp,
    ) -> Vec<(AuditEvent, Option<u64>)> {
        let mut lines = Vec::new();
        // A clock that was set back begins a new time, too.
        let goes_on = self
            .begun
            .map(Timestamp)
            .is_some_and(|begun| begun <= now && now.since(begun) < self.time);
        if !goes_on {
            lines = self.end();
            self.begun = Some(now.0);
        }
        if let Some(count) = self.counts.get_mut(&event) {
            *count += 1;
        } else if self.counts.len() < self.most {
            self.counts.insert(event.clone(), 0);
            lines.push((event, None));
        } else {
            self.others += 1;
        }
        lines
    }

    /// What happened again, and was not written.
    pub(super) fn end(&mut self) -> Vec<(AuditEvent, Option<u64>)> {
        let kind = self.counts.keys().next().map(|event| event.event);
        let again = self.counts.drain().filter(|(_, count)| *count > 0);
        let mut lines: Vec<_> = again.map(|(event, count)| (event, Some(count))).collect();
        if let (Some(event), others @ 1..) = (kind, std::mem::take(&mut self.others)) {
            let what = "others (limit audit_lines)".to_owned();
            lines.push((AuditEvent { event, user: None, address: None, what }, Some(others)));
        }
        lines
    }
}

/// The names of an object are texts, which events are not.
fn as_pairs<S: Serializer>(counts: &HashMap<AuditEvent, u64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(counts)
}

fn from_pairs<'d, D: Deserializer<'d>>(from: D) -> Result<HashMap<AuditEvent, u64>, D::Error> {
    Vec::deserialize(from).map(HashMap::from_iter)
}
