//! The rules, as ARCHITECTURE.md words them for people.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};

const HEADER: &str = "| crate | may see |";
const THIRD_PARTIES: &str = "Third parties that live in named rooms only:";

/// What the page allows.
#[derive(Debug, PartialEq)]
pub(super) struct Rules {
    /// Crates of the workspace, and which others of it each may see.
    pub(super) may_see: BTreeMap<String, BTreeSet<String>>,
    /// Crates of others that not every room may depend on.
    pub(super) third_parties: Vec<ThirdParty>,
}

/// Where a crate of others may be.
#[derive(Debug, PartialEq)]
pub(super) enum ThirdParty {
    /// A direct dependency of these crates and of no others.
    Only { name: String, rooms: BTreeSet<String> },
    /// Nowhere in what these crates depend on, however indirectly.
    Not { name: String, rooms: BTreeSet<String> },
}

impl ThirdParty {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Only { name, .. } | Self::Not { name, .. } => name,
        }
    }

    pub(super) fn rooms(&self) -> &BTreeSet<String> {
        match self {
            Self::Only { rooms, .. } | Self::Not { rooms, .. } => rooms,
        }
    }
}

impl Rules {
    pub(super) fn parse(page: &str) -> anyhow::Result<Self> {
        let may_see = parse_table(page)?;
        let third_parties = parse_third_parties(page, &may_see)?;
        Ok(Self { may_see, third_parties })
    }
}

fn parse_table(page: &str) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut lines = page.lines().skip_while(|line| line.trim() != HEADER).skip(1);
    let ruler = lines.next().with_context(|| format!("no table headed {HEADER:?}"))?;
    if !ruler.starts_with("|-") && !ruler.starts_with("| -") {
        bail!("the line after {HEADER:?} is no ruler: {ruler:?}");
    }
    let mut table = BTreeMap::new();
    for line in lines.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [name, seen] = cells.as_slice() else {
            bail!("a row of the table needs two cells: {line:?}");
        };
        let seen = seen.split(',').map(str::trim).filter(|cell| !cell.is_empty());
        if table.insert((*name).to_owned(), seen.map(str::to_owned).collect()).is_some() {
            bail!("{name} has two rows");
        }
    }
    if table.is_empty() {
        bail!("the table headed {HEADER:?} is empty");
    }
    Ok(table)
}

/// `NAME only in A and B; NAME not in C, D and E.`
fn parse_third_parties(
    page: &str,
    crates: &BTreeMap<String, BTreeSet<String>>,
) -> anyhow::Result<Vec<ThirdParty>> {
    let (_, after) =
        page.split_once(THIRD_PARTIES).with_context(|| format!("no line {THIRD_PARTIES:?}"))?;
    let (sentence, _) = after.split_once('.').context("the list of third parties has no end")?;
    let clauses = sentence.split(';').map(|clause| clause.split_whitespace().collect::<Vec<_>>());
    clauses
        .map(|words| match words.as_slice() {
            [name, "only", "in", rooms @ ..] if !rooms.is_empty() => {
                Ok(ThirdParty::Only { name: (*name).to_owned(), rooms: named(rooms, crates) })
            }
            [name, "not", "in", rooms @ ..] if !rooms.is_empty() => {
                Ok(ThirdParty::Not { name: (*name).to_owned(), rooms: named(rooms, crates) })
            }
            other => bail!(
                "write a third party as `NAME only in ROOM and ROOM` or `NAME not in ROOM`, not {:?}",
                other.join(" ")
            ),
        })
        .collect()
}

/// Crates by the short names of their rooms.
fn named(words: &[&str], crates: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let rooms = words.iter().filter(|word| **word != "and").map(|word| word.trim_matches(','));
    rooms
        .map(|room| {
            let long = format!("fishplate-{room}");
            if crates.contains_key(&long) { long } else { room.to_owned() }
        })
        .collect()
}
