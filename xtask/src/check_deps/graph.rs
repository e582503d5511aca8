//! The real dependencies, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use anyhow::Context;
use cargo_metadata::{DependencyKind, Metadata, Node, PackageId};

/// Who depends on whom.
#[derive(Debug)]
pub(super) struct Graph {
    /// Crates of the workspace, and which others of it each sees, be it in its tests.
    pub(super) members: BTreeMap<String, BTreeSet<String>>,
    /// Crates of the workspace, and which crates of others each names as a dependency.
    pub(super) third_parties: BTreeMap<String, BTreeSet<String>>,
    /// All crates, and what is compiled into each.
    resolved: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(super) fn of(metadata: &Metadata) -> anyhow::Result<Self> {
        let packages = metadata.workspace_packages();
        let names: BTreeSet<String> =
            packages.iter().map(|package| package.name.to_string()).collect();
        let mut members = BTreeMap::new();
        let mut third_parties = BTreeMap::new();
        for package in packages {
            let (inside, outside): (BTreeSet<_>, BTreeSet<_>) = package
                .dependencies
                .iter()
                .map(|dependency| dependency.name.clone())
                .partition(|name| names.contains(name));
            members.insert(package.name.to_string(), inside);
            third_parties.insert(package.name.to_string(), outside);
        }
        Ok(Self { members, third_parties, resolved: resolve(metadata)? })
    }

    /// The shortest way by which one crate comes to depend on another.
    pub(super) fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            if at == to {
                let back = std::iter::successors(Some(at), |name| before.get(name).copied());
                let mut way: Vec<String> = back.map(str::to_owned).collect();
                way.reverse();
                return Some(way);
            }
            for next in self.resolved.get(at).into_iter().flatten() {
                if next != from && !before.contains_key(next.as_str()) {
                    before.insert(next, at);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

fn resolve(metadata: &Metadata) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let resolve = metadata.resolve.as_ref().context("cargo metadata resolved nothing")?;
    let names: HashMap<&PackageId, &str> =
        metadata.packages.iter().map(|package| (&package.id, package.name.as_str())).collect();
    let mut resolved: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in &resolve.nodes {
        let name =
            names.get(&node.id).context("cargo metadata names a package it does not list")?;
        let needs = needed(node, &names);
        resolved.entry((*name).to_owned()).or_default().extend(needs);
    }
    Ok(resolved)
}

/// Not its build script's tools, not its tests' libraries.
fn needed<'n>(node: &'n Node, names: &'n HashMap<&PackageId, &str>) -> Vec<String> {
    let normal = node.deps.iter().filter(|dependency| {
        dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
    });
    normal
        .filter_map(|dependency| names.get(&dependency.pkg).map(|name| (*name).to_owned()))
        .collect()
}
