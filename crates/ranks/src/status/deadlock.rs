//! Deadlocks: ranks that wait for each other, or for ranks that ended.
//!
//! Each status is of another moment. What they say together holds all the same: ranks are called stuck only if nothing is under way
//! between those who wait and those whom they wait for, in either direction, by the numbers of frames that both have counted. A rank of them
//! that went on after it told its status would have needed a frame of another one, sent after that one's status; and so would that
//! one. (A thread that computes while another waits, or a SOAP client, is seen by nobody: [`super::RankStatus::clients`].)

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::header::Rank;
use crate::status::RankStatus;

/// What is known of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownRank {
    /// The last that it told.
    pub status: Option<RankStatus>,
    /// It left, or its process ended.
    pub ended: bool,
}

/// Ranks that wait for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Those who wait for each other, in the order in which they do; none if there is no cycle.
    pub cycle: Vec<Rank>,
    /// Ranks that have ended, and that others wait for.
    pub ended: Vec<Rank>,
    /// All who wait for ever, and in which call.
    pub waits: BTreeMap<Rank, String>,
    /// A SOAP client that stores a message may end it.
    pub clients: bool,
}

impl KnownRank {
    /// With what it told so long ago; a wait has grown since.
    pub fn new(status: Option<(Duration, &RankStatus)>, ended: bool) -> Self {
        let status = status.map(|(age, status)| {
            let mut status = status.clone();
            if let Some(wait) = &mut status.wait {
                let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                wait.milliseconds = wait.milliseconds.saturating_add(age);
            }
            status
        });
        Self { status, ended }
    }
}

impl Deadlock {
    /// That of a domain; `None` if none is known.
    pub fn find(ranks: &BTreeMap<Rank, KnownRank>) -> Option<Self> {
        let is_ended = |rank: &Rank| ranks.get(rank).is_some_and(|known| known.ended);
        let waiting = ranks.iter().filter_map(|(&rank, known)| {
            let wait = known.status.as_ref()?.wait.as_ref()?;
            (!known.ended && !wait.moving).then_some((rank, wait))
        });
        let mut stuck: BTreeMap<_, _> = waiting.collect();
        // The greatest set whose members need each other: who can go on is taken out until nobody can.
        loop {
            let members: BTreeSet<Rank> = stuck.keys().copied().collect();
            let before = members.len();
            stuck.retain(|&rank, wait| {
                // Who waits still answers, from the inside: so nothing may be under way to it either.
                let is_stuck = |of: &Rank| members.contains(of) && is_quiet(ranks, rank, *of);
                let hopeless =
                    |of: &&Rank| (is_ended(of) || is_stuck(of)) && is_quiet(ranks, **of, rank);
                let count = wait.ranks.iter().filter(hopeless).count();
                if wait.all { count > 0 } else { count == wait.ranks.len() }
            });
            if stuck.len() == before {
                break;
            }
        }
        let wanted: BTreeSet<Rank> =
            stuck.values().flat_map(|wait| wait.ranks.iter().copied()).collect();
        let waits: BTreeMap<Rank, String> =
            stuck.iter().map(|(&rank, wait)| (rank, wait.call.clone())).collect();
        let first = *stuck.keys().next()?;
        let cycle = cycle(first, |rank| {
            stuck.get(&rank)?.ranks.iter().copied().find(|of| stuck.contains_key(of))
        });
        let clients = stuck
            .keys()
            .any(|rank| ranks[rank].status.as_ref().is_some_and(|status| status.clients));
        Some(Self { cycle, ended: wanted.into_iter().filter(is_ended).collect(), waits, clients })
    }
}

/// Whether nothing is under way from one to another.
fn is_quiet(ranks: &BTreeMap<Rank, KnownRank>, from: Rank, to: Rank) -> bool {
    let traffic = |rank: Rank, peer: Rank| {
        let status = ranks.get(&rank)?.status.as_ref()?;
        let of = status
            .traffic
            .binary_search_by_key(&peer, |of| of.peer)
            .ok()
            .map(|at| status.traffic[at]);
        Some(of.map_or((0, 0), |of| (of.sent, of.received)))
    };
    match (traffic(from, to), traffic(to, from)) {
        (Some((sent, _)), Some((_, received))) => sent == received,
        _ => false,
    }
}

/// The cycle into which a walk leads; empty if it ends.
fn cycle(first: Rank, next: impl Fn(Rank) -> Option<Rank>) -> Vec<Rank> {
    let (mut path, mut at) = (Vec::new(), first);
    loop {
        if let Some(begin) = path.iter().position(|&before| before == at) {
            return path.split_off(begin);
        }
        path.push(at);
        match next(at) {
            Some(of) => at = of,
            None => return Vec::new(),
        }
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        f.write_str("deadlock: ")?;
        let shown: Vec<Rank> = if self.cycle.is_empty() {
            self.waits.keys().copied().collect()
        } else {
            self.cycle.clone()
        };
        for (at, rank) in shown.iter().take(SHOWN).enumerate() {
            let call = self.waits.get(rank).map_or("", String::as_str);
            write!(f, "{}rank {rank} waits in {call}", if at == 0 { "" } else { "; " })?;
        }
        let more = self.waits.len() - shown.len().min(SHOWN);
        if more > 0 {
            write!(f, "; and {more} more")?;
        }
        match &self.ended[..] {
            [] => {}
            [one] => write!(f, "; rank {one} has ended")?,
            many => {
                let all: Vec<String> = many.iter().map(Rank::to_string).collect();
                write!(f, "; ranks {} have ended", all.join(", "))?;
            }
        }
        if self.clients {
            f.write_str(" (unless a SOAP client stores a message)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Traffic, Wait};

    /// Ranks by what they wait for: `1`, `1|2` (any), `1&2` (all), `~1` (under way), nothing, or `x` (ended).
    fn domain(waits: &[&str]) -> BTreeMap<Rank, KnownRank> {
        let known = |text: &str| {
            let (moving, rest) = (text.starts_with('~'), text.trim_start_matches('~'));
            let ranks: Vec<Rank> =
                rest.split(['|', '&']).filter_map(|word| word.parse().ok()).collect();
            let call = format!("recv from {text}");
            let wait = Wait { call, all: text.contains('&'), ranks, moving, milliseconds: 1500 };
            let wait = (!matches!(text, "" | "x")).then_some(wait);
            let status = Some(RankStatus { wait, ..RankStatus::default() });
            KnownRank { status, ended: text == "x" }
        };
        (0..).zip(waits.iter().map(|text| known(text))).collect()
    }

    fn stuck(waits: &[&str]) -> Vec<Rank> {
        let found = Deadlock::find(&domain(waits));
        found.map_or(Vec::new(), |found| found.waits.into_keys().collect())
    }

    #[test]
    fn who_can_go_on_is_not_stuck() {
        assert_eq!(stuck(&["1", ""]), []);
        assert_eq!(stuck(&["1", "0"]), [0, 1]);
        assert_eq!(stuck(&["1", "2", "0", ""]), [0, 1, 2]);
        // One of any is enough, and it computes.
        assert_eq!(stuck(&["1|2", "0", ""]), []);
        assert_eq!(stuck(&["1&2", "0", ""]), [0, 1]);
        assert_eq!(stuck(&["1|2", "0", "0"]), [0, 1, 2]);
        // Who waits for those who are stuck is stuck too; who waits for one that goes on is not.
        assert_eq!(stuck(&["1", "0", "0", "4", ""]), [0, 1, 2]);
        assert_eq!(stuck(&["~1", "0"]), []);
        assert_eq!(stuck(&["1", "x"]), [0]);
        assert_eq!(stuck(&["0"]), [0]);
    }

    #[test]
    fn cycles_and_ended_ranks_are_named() {
        let said = |waits: &[&str]| Deadlock::find(&domain(waits)).unwrap().to_string();
        assert_eq!(
            said(&["2", "2", "1"]),
            "deadlock: rank 2 waits in recv from 1; rank 1 waits in recv from 2; and 1 more"
        );
        assert_eq!(
            said(&["2", "2", "x"]),
            "deadlock: rank 0 waits in recv from 2; rank 1 waits in recv from 2; rank 2 has ended"
        );
    }

    #[test]
    fn what_is_under_way_may_end_it() {
        let mut ranks = domain(&["1", "0"]);
        let traffic =
            |peer, sent, received| Traffic { peer, messages: 0, bytes: 0, sent, received };
        let mut told = |rank, of| {
            let known: &mut KnownRank = ranks.get_mut(&rank).unwrap();
            known.status.as_mut().unwrap().traffic = vec![of];
            Deadlock::find(&ranks).is_some()
        };
        assert!(!told(0, traffic(1, 3, 2)));
        assert!(!told(1, traffic(0, 2, 2)));
        assert!(told(1, traffic(0, 2, 3)));
    }
    #[test]
    fn who_waits_still_answers() {
        // Rank 1 offers rank 0 a message, which is under way, and which rank 0 fetches though it waits for rank 2.
        let mut ranks = domain(&["2", "0", "1"]);
        assert!(Deadlock::find(&ranks).is_some());
        let offer = Traffic { peer: 0, messages: 1, bytes: 9, sent: 1, received: 0 };
        ranks.get_mut(&1).unwrap().status.as_mut().unwrap().traffic = vec![offer];
        assert_eq!(Deadlock::find(&ranks), None);
    }
}
