//! What a rank tells its launcher while it runs: what it sent to whom, and what it waits for once that takes long.
//!
//! - [`route`]: how it reaches the others
//! - [`deadlock`]: what the statuses of several ranks say together

pub mod deadlock;
pub mod route;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::header::Rank;

pub use deadlock::{Deadlock, KnownRank};
pub use route::{PeerRoute, RejectedAddress};

/// A rank at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankStatus {
    /// What it waits for; `None` if it computes, or has not waited for long.
    pub wait: Option<Wait>,
    /// SOAP clients can store messages at it, so a wait may be ended from outside.
    pub clients: bool,
    /// What it exchanged with whom; by rank; ranks with which it exchanged nothing are left out.
    pub traffic: Vec<Traffic>,
    /// How it reaches whom, or does not; by rank; ranks of which nothing is known yet are left out.
    pub routes: Vec<PeerRoute>,
    /// So many more were told and are not kept.
    pub omitted_routes: u32,
}

/// What a rank waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The call, such as `recv from 3 tag 7`. Ranks are the domain's.
    pub call: String,
    /// Whose doing it needs.
    pub ranks: Vec<Rank>,
    /// All of them are needed; else one of them is enough.
    pub all: bool,
    /// It ends though no program does anything more: what it waits for is under way.
    pub moving: bool,
    /// For how long already, in milliseconds.
    pub milliseconds: u64,
}

impl Wait {
    /// For how long, when the status was told.
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.milliseconds)
    }
}

/// `waits 12.3 s in recv from 3 tag 7`.
impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way = if self.moving { ", which is under way" } else { "" };
        write!(f, "waits {:.1} s in {}{under_way}", self.time().as_secs_f64(), self.call)?;
        // A call that names its one rank says it already.
        if self.all && !self.ranks.is_empty() {
            let ranks: Vec<String> = self.ranks.iter().map(Rank::to_string).collect();
            write!(f, ", for {}", ranks.join(" and "))?;
        }
        Ok(())
    }
}

/// What a rank exchanged with another, since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The other one.
    pub peer: Rank,
    /// Messages that were sent to it.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that were sent to it: messages, and the protocol's own.
    pub sent: u64,
    /// Frames of it that have come.
    pub received: u64,
}

/// The longest line of a status in a domain of so many ranks, in bytes.
pub fn longest_line(ranks: u32) -> usize {
    const BESIDES: usize = 1024;
    // A rank in the wait, and its traffic: five numbers.
    const PER_RANK: usize = 11 + 11 + 4 * 21;
    BESIDES + (PER_RANK + route::LONGEST) * ranks as usize
}

/// `CLIENTS TRAFFIC ROUTES [MILLISECONDS ALL MOVING RANKS CALL]`: flags are 0 or 1, lists have commas or are `-`; that of routes may end with
/// `+N`: so many more are not kept.
impl fmt::Display for RankStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let traffic = self.traffic.iter().map(|of| {
            format!("{}:{}:{}:{}:{}", of.peer, of.messages, of.bytes, of.sent, of.received)
        });
        let omitted = (self.omitted_routes > 0).then(|| format!("+{}", self.omitted_routes));
        let routes = self.routes.iter().map(route::to_word).chain(omitted);
        write!(f, "{} {} {}", u8::from(self.clients), list(traffic), list(routes))?;
        let Some(wait) = &self.wait else { return Ok(()) };
        let ranks = list(wait.ranks.iter().map(Rank::to_string));
        let (all, moving) = (u8::from(wait.all), u8::from(wait.moving));
        write!(f, " {} {all} {moving} {ranks} {}", wait.milliseconds, wait.call)
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "-".to_owned() } else { items.join(",") }
}

/// A line that is no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no status of a rank")]
pub struct StatusError;

impl FromStr for RankStatus {
    type Err = StatusError;

    fn from_str(line: &str) -> Result<Self, StatusError> {
        let mut words = line.splitn(8, ' ');
        let mut word = || words.next().ok_or(StatusError);
        let clients = flag(word()?)?;
        let traffic: Vec<Traffic> = items(word()?).map(traffic).collect::<Result<_, _>>()?;
        if !traffic.is_sorted_by(|one, next| one.peer < next.peer) {
            return Err(StatusError);
        }
        let (routes, omitted_routes) = routes(word()?)?;
        if !routes.is_sorted_by(|one, next| one.peer < next.peer) {
            return Err(StatusError);
        }
        let wait = match word() {
            Err(StatusError) => None,
            Ok(milliseconds) => Some(Wait {
                milliseconds: number(milliseconds)?,
                all: flag(word()?)?,
                moving: flag(word()?)?,
                ranks: items(word()?).map(number).collect::<Result<_, _>>()?,
                call: plain(word()?)?,
            }),
        };
        Ok(Self { wait, clients, traffic, routes, omitted_routes })
    }
}

impl RankStatus {
    /// Keeps so many routes at most. First those are left out that came about at the first address, which say least; they are counted.
    pub fn limit_routes(&mut self, most: usize) {
        let over = self.routes.len().saturating_sub(most);
        if over == 0 {
            return;
        }
        let says_little = |of: &PeerRoute| of.address.is_some() && of.rejected.is_empty();
        self.routes.sort_by_key(says_little);
        self.routes.truncate(most);
        self.routes.shrink_to_fit();
        self.routes.sort_by_key(|route| route.peer);
        let over = u32::try_from(over).unwrap_or(u32::MAX);
        self.omitted_routes = self.omitted_routes.saturating_add(over);
    }
}

/// Those of a line, and how many more there were: `+N` is the last item.
fn routes(word: &str) -> Result<(Vec<PeerRoute>, u32), StatusError> {
    let (kept, omitted) = match word.rsplit_once(',').map_or(("-", word), |split| split) {
        (kept, last) if last.starts_with('+') => {
            let omitted = number(&last[1..])?;
            // One number has one text.
            if last[1..] != u32::to_string(&omitted) || omitted == 0 {
                return Err(StatusError);
            }
            (kept, omitted)
        }
        _ => (word, 0),
    };
    Ok((items(kept).map(route::of_word).collect::<Result<_, _>>()?, omitted))
}

fn items(word: &str) -> impl Iterator<Item = &str> {
    word.split(',').filter(move |_| word != "-")
}

fn flag(word: &str) -> Result<bool, StatusError> {
    match word {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(StatusError),
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, StatusError> {
    word.parse().map_err(|_| StatusError)
}

fn traffic(item: &str) -> Result<Traffic, StatusError> {
    let mut numbers = item.split(':');
    let mut next = || numbers.next().ok_or(StatusError);
    let peer = number(next()?)?;
    let mut count = || next().and_then(number);
    let (messages, bytes, sent, received) = (count()?, count()?, count()?, count()?);
    match next() {
        Ok(_) => Err(StatusError),
        Err(StatusError) => Ok(Traffic { peer, messages, bytes, sent, received }),
    }
}

/// It comes from a process that may be anybody's, and is shown to people.
fn plain(text: &str) -> Result<String, StatusError> {
    let is_plain = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if is_plain && !text.is_empty() { Ok(text.to_owned()) } else { Err(StatusError) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_status_is_read_as_it_was_written(
            clients: bool, waits: bool, all: bool, moving: bool, milliseconds: u64,
            numbers in proptest::collection::btree_map(any::<u32>(), any::<(u64, u64, u64, u64)>(), 0..5), omitted_routes: u32,
        ) {
            let traffic = numbers.iter().map(|(&peer, &(messages, bytes, sent, received))| {
                Traffic { peer, messages, bytes, sent, received }
            });
            let ranks = numbers.keys().copied().collect();
            let text = || "at=a;b,c 100% (of d)".to_owned();
            let rejected = |_| RejectedAddress { address: text(), reason: text() };
            let routes = numbers.iter().map(|(&peer, &(number, ..))| PeerRoute {
                peer,
                address: (number % 2 == 0).then(text),
                rejected: (0..number % 3).map(rejected).collect(),
            });
            let call = "recv from 3 tag 7".to_owned();
            let wait = Wait { call, ranks, all, moving, milliseconds };
            let status =
                RankStatus { wait: waits.then_some(wait), clients, traffic: traffic.collect(), routes: routes.collect(), omitted_routes };
            let line = status.to_string();
            prop_assert!(line.len() < longest_line(u32::try_from(numbers.len()).unwrap()));
            prop_assert_eq!(line.parse(), Ok(status));
        }

        #[test]
        fn any_line_is_a_status_or_none(line in "[-+01 :,;=%a-z]{0,40}") {
            if let Ok(status) = line.parse::<RankStatus>() {
                prop_assert_eq!(status.to_string().parse(), Ok(status));
            }
        }
    }
}
