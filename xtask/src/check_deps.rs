//! Dependencies run down, never sideways, never up: the crates' real dependencies against the
//! table in ARCHITECTURE.md.

mod graph;
mod rules;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use cargo_metadata::MetadataCommand;

use graph::Graph;
use rules::{Rules, ThirdParty};

pub(crate) fn run() -> anyhow::Result<()> {
    let root = crate::root::workspace();
    let drawing = std::fs::read_to_string(root.join("ARCHITECTURE.md"))
        .context("ARCHITECTURE.md can't be read")?;
    let rules = Rules::parse(&drawing)?;
    let metadata = MetadataCommand::new().manifest_path(root.join("Cargo.toml")).exec()?;
    let graph = Graph::of(&metadata)?;
    let reasons = std::fs::read_to_string(root.join(REASONS))
        .with_context(|| format!("{REASONS} can't be read"))?;
    let mut wrong = compare(&rules, &graph);
    wrong.extend(without_reason(&reasons, &graph));
    if !wrong.is_empty() {
        bail!(
            "check-deps: {} against ARCHITECTURE.md (Dependencies):\n  {}",
            wrong.len(),
            wrong.join("\n  ")
        );
    }
    crate::report(&format!(
        "check-deps: {} crates see what they may and no more",
        rules.may_see.len()
    ));
    Ok(())
}

/// The page that says why each dependency is there.
const REASONS: &str = "docs/decisions/0001-dependencies.md";

/// Direct dependencies that the page does not name.
fn without_reason(page: &str, graph: &Graph) -> Vec<String> {
    let is_part = |c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c));
    // Its sentences about what was dropped name crates too: of a row, the first cell counts.
    let cells = page.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let tests = page.lines().filter(|line| line.starts_with("For tests:"));
    let named: BTreeSet<&str> = cells.chain(tests).flat_map(|text| text.split(is_part)).collect();
    let direct: BTreeSet<&String> = graph.third_parties.values().flatten().collect();
    let missing = direct.into_iter().filter(|name| !named.contains(name.as_str()));
    missing.map(|name| format!("{name} is a dependency: say in {REASONS} what it is for")).collect()
}

/// Every disagreement, as a line for people.
fn compare(rules: &Rules, graph: &Graph) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, seen) in &graph.members {
        let Some(allowed) = rules.may_see.get(name) else {
            wrong.push(format!("{name} has no row in the table: add one"));
            continue;
        };
        for extra in seen.difference(allowed) {
            wrong.push(format!("{name} sees {extra}, but the table does not let it"));
        }
        for missing in allowed.difference(seen) {
            wrong.push(format!(
                "{name} does not see {missing}, though the table lets it: remove it from the row"
            ));
        }
    }
    for name in rules.may_see.keys() {
        if !graph.members.contains_key(name) {
            wrong.push(format!("{name} has a row in the table, but is no crate: remove the row"));
        }
    }
    for rule in &rules.third_parties {
        wrong.extend(check_third_party(rule, graph));
    }
    wrong
}

fn check_third_party(rule: &ThirdParty, graph: &Graph) -> Vec<String> {
    let unknown: Vec<String> = rule
        .rooms()
        .iter()
        .filter(|room| !graph.members.contains_key(*room))
        .map(|room| format!("the rule for {} names {room}, which is no crate", rule.name()))
        .collect();
    if !unknown.is_empty() {
        return unknown;
    }
    match rule {
        ThirdParty::Only { name, rooms } => graph
            .third_parties
            .iter()
            .filter(|(member, direct)| direct.contains(name) && !rooms.contains(*member))
            .map(|(member, _)| format!("{member} depends on {name}: only {} may", list(rooms)))
            .collect(),
        ThirdParty::Not { name, rooms } => rooms
            .iter()
            .filter_map(|room| {
                let way = graph.way(room, name)?;
                Some(format!("{room} may not depend on {name}, but does: {}", way.join(" -> ")))
            })
            .collect(),
    }
}

fn list(rooms: &BTreeSet<String>) -> String {
    rooms.iter().cloned().collect::<Vec<_>>().join(", ")
}
