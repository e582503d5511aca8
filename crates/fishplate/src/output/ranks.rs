//! What ranks do, as text and as JSON: who waits for whom, and what was exchanged.

use std::collections::BTreeMap;

use fishplate_formats::units;
use fishplate_ranks::Rank;
use fishplate_ranks::status::{Deadlock, KnownRank, PeerRoute, RejectedAddress, Wait};
use serde_json::{Value, json};

/// What a rank waits for, in some words; empty if it does not.
pub(crate) fn wait(known: &KnownRank) -> String {
    waiting(known).map(Wait::to_string).unwrap_or_default()
}

/// The same as JSON; null if it does not.
pub(crate) fn wait_as_json(known: &KnownRank) -> Value {
    waiting(known).map_or(Value::Null, |wait| {
        json!({
            "call": wait.call,
            "seconds": wait.time().as_secs_f64(),
            "ranks": wait.ranks,
            "all": wait.all,
            "underWay": wait.moving,
        })
    })
}

fn waiting(known: &KnownRank) -> Option<&Wait> {
    known.status.as_ref()?.wait.as_ref().filter(|_| !known.ended)
}

/// A line for each pair of which the first has sent messages to the second, or did not reach it at some address.
pub(crate) fn traffic(ranks: &BTreeMap<Rank, KnownRank>) -> Vec<String> {
    let mut lines: BTreeMap<(Rank, Rank), String> = pairs(ranks)
        .map(|(from, to, messages, bytes)| {
            ((from, to), format!("  messages: {messages}  {}", units::rounded(bytes)))
        })
        .collect();
    for (from, route) in routes(ranks) {
        let pair = (from, route.peer);
        if !route.rejected.is_empty() || lines.contains_key(&pair) {
            lines.entry(pair).or_default().push_str(&format!("  {route}"));
        }
    }
    let lines = lines.into_iter().map(|((from, to), line)| format!("{from} -> {to}{line}"));
    let omitted = omitted_routes(ranks);
    let more = (omitted > 0).then(|| {
        format!("of {omitted} pairs the server does not keep how they reach each other (limit domain_routes)")
    });
    lines.chain(more).collect()
}

/// Of how many pairs servers do not keep how the first reaches the second.
pub(crate) fn omitted_routes(ranks: &BTreeMap<Rank, KnownRank>) -> u64 {
    ranks.values().flat_map(|known| &known.status).map(|of| u64::from(of.omitted_routes)).sum()
}

/// How each rank reaches each, as JSON.
pub(crate) fn routes_as_json(ranks: &BTreeMap<Rank, KnownRank>) -> Value {
    let rejected = |of: &RejectedAddress| json!({ "address": of.address, "reason": of.reason });
    let routes = routes(ranks).map(|(from, PeerRoute { peer, address, rejected: all })| {
        let rejected: Vec<Value> = all.iter().map(rejected).collect();
        json!({ "from": from, "to": peer, "address": address, "rejected": rejected })
    });
    routes.collect()
}

fn routes(ranks: &BTreeMap<Rank, KnownRank>) -> impl Iterator<Item = (Rank, &PeerRoute)> {
    ranks.iter().flat_map(|(&from, known)| {
        let all = known.status.iter().flat_map(|status| &status.routes);
        all.map(move |route| (from, route))
    })
}

/// The same as JSON.
pub(crate) fn traffic_as_json(ranks: &BTreeMap<Rank, KnownRank>) -> Value {
    let pairs = pairs(ranks).map(
        |(from, to, messages, bytes)| json!({ "from": from, "to": to, "messages": messages, "bytes": bytes }),
    );
    pairs.collect()
}

fn pairs(ranks: &BTreeMap<Rank, KnownRank>) -> impl Iterator<Item = (Rank, Rank, u64, u64)> {
    ranks.iter().flat_map(|(&from, known)| {
        let all = known.status.iter().flat_map(|status| &status.traffic);
        all.filter(|of| of.messages > 0).map(move |of| (from, of.peer, of.messages, of.bytes))
    })
}

/// A deadlock as JSON; null if there is none.
pub(crate) fn deadlock_as_json(deadlock: Option<&Deadlock>) -> Value {
    deadlock.map_or(Value::Null, |deadlock| {
        let waits = deadlock.waits.iter().map(|(rank, call)| json!({ "rank": rank, "call": call }));
        json!({
            "cycle": deadlock.cycle,
            "ended": deadlock.ended,
            "waits": waits.collect::<Vec<_>>(),
            "clientMayEndIt": deadlock.clients,
        })
    })
}

/// What all ranks of a launch did when it was ended.
pub(crate) fn snapshot(ranks: &BTreeMap<Rank, KnownRank>) -> String {
    let state = |known: &KnownRank| match (known.ended, wait(known)) {
        (true, _) => "has ended".to_owned(),
        (false, wait) if wait.is_empty() => "runs".to_owned(),
        (false, wait) => wait,
    };
    let lines = ranks.iter().map(|(rank, known)| format!("rank {rank} {}", state(known)));
    lines.chain(traffic(ranks)).collect::<Vec<_>>().join("\n")
}
