use cargo_metadata::Metadata;
use serde_json::{Value, json};

use super::*;

const PAGE: &str = "\
# Architecture

| room | one line |
|---|---|
| contract | nouns |

## Dependencies

| crate | may see |
|---|---|
| fishplate-contract | |
| fishplate-wire | fishplate-contract |
| fishplate-server | fishplate-contract, fishplate-wire |
| xtask | |

Third parties that live in named rooms only: tokio not in contract and wire; hyper only in server;
anyhow only in xtask.

More text. With stops.
";

/// A crate's name, and what it depends on: a name and the kind of the dependency.
type Member = (&'static str, &'static [(&'static str, Option<&'static str>)]);

/// A package as `cargo metadata` writes it, and its node in the resolved graph.
fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> (Value, Value) {
    let id = |name: &str| format!("path+file:///w/{name}#0.1.0");
    let declared: Vec<Value> = dependencies
        .iter()
        .map(|(name, kind)| {
            json!({ "name": name, "req": "*", "kind": kind, "optional": false,
                "uses_default_features": true, "features": [], "target": null, "rename": null,
                "source": null, "registry": null })
        })
        .collect();
    let resolved: Vec<Value> = dependencies
        .iter()
        .map(|(name, kind)| {
            json!({ "name": name.replace('-', "_"), "pkg": id(name),
                "dep_kinds": [{ "kind": kind, "target": null }] })
        })
        .collect();
    let package = json!({ "name": name, "version": "0.1.0", "id": id(name), "source": null,
        "dependencies": declared, "targets": [], "features": {},
        "manifest_path": format!("/w/{name}/Cargo.toml") });
    let node = json!({ "id": id(name), "deps": resolved, "features": [],
        "dependencies": dependencies.iter().map(|(name, _)| id(name)).collect::<Vec<_>>() });
    (package, node)
}

/// A workspace of the first four packages, the rest being crates of others.
fn metadata(packages: &[Member]) -> Metadata {
    let (listed, nodes): (Vec<Value>, Vec<Value>) =
        packages.iter().map(|(name, dependencies)| package(name, dependencies)).unzip();
    let members: Vec<Value> = listed.iter().take(4).map(|package| package["id"].clone()).collect();
    serde_json::from_value(json!({
        "packages": listed, "workspace_members": members, "workspace_default_members": members,
        "resolve": { "nodes": nodes, "root": null }, "workspace_root": "/w",
        "target_directory": "/w/target", "version": 1,
    }))
    .expect("the fake is of cargo's form")
}

fn good() -> Vec<Member> {
    vec![
        ("fishplate-contract", &[("bytes", None)]),
        ("fishplate-wire", &[("fishplate-contract", None), ("proptest", Some("dev"))]),
        (
            "fishplate-server",
            &[("fishplate-contract", None), ("fishplate-wire", None), ("hyper", None)],
        ),
        ("xtask", &[("anyhow", None)]),
        ("bytes", &[]),
        ("proptest", &[("tokio", None)]),
        ("hyper", &[("bytes", None), ("tokio", None)]),
        ("anyhow", &[]),
        ("tokio", &[]),
    ]
}

fn verdict(packages: &[Member]) -> Vec<String> {
    let rules = Rules::parse(PAGE).expect("the page is well formed");
    compare(&rules, &Graph::of(&metadata(packages)).expect("the fake is complete"))
}

/// The good workspace with one crate's dependencies exchanged.
fn with(name: &'static str, dependencies: &'static [(&str, Option<&str>)]) -> Vec<Member> {
    let mut packages = good();
    let place = packages.iter().position(|(other, _)| *other == name).expect("it is a member");
    packages[place] = (name, dependencies);
    packages
}

#[test]
fn what_the_table_says_passes() {
    assert_eq!(verdict(&good()), Vec::<String>::new());
}

#[test]
fn an_edge_that_the_table_lacks_fails_in_tests_too() {
    let found = verdict(&with(
        "fishplate-wire",
        &[("fishplate-contract", None), ("fishplate-server", Some("dev"))],
    ));
    assert_eq!(found, ["fishplate-wire sees fishplate-server, but the table does not let it"]);
}

#[test]
fn an_edge_that_only_the_table_has_fails() {
    let found = verdict(&with("fishplate-wire", &[]));
    assert_eq!(
        found,
        [
            "fishplate-wire does not see fishplate-contract, though the table lets it: remove it from the row"
        ]
    );
}

#[test]
fn a_crate_without_a_row_and_a_row_without_a_crate_fail() {
    let mut packages = good();
    packages[3].0 = "ytask";
    let found = verdict(&packages);
    assert!(found.contains(&"ytask has no row in the table: add one".to_owned()), "{found:?}");
    assert!(
        found.contains(&"xtask has a row in the table, but is no crate: remove the row".to_owned()),
        "{found:?}"
    );
}

#[test]
fn a_third_party_outside_its_rooms_fails() {
    let found = verdict(&with("fishplate-contract", &[("anyhow", None)]));
    assert_eq!(found, ["fishplate-contract depends on anyhow: only xtask may"]);
}

#[test]
fn a_third_party_that_comes_in_through_another_fails_with_its_way() {
    let found =
        verdict(&with("fishplate-wire", &[("fishplate-contract", None), ("proptest", None)]));
    assert_eq!(
        found,
        ["fishplate-wire may not depend on tokio, but does: fishplate-wire -> proptest -> tokio"]
    );
}

#[test]
fn a_page_that_cannot_be_read_is_no_pass() {
    for (from, to) in [
        ("| crate | may see |", "| crate | sees |"),
        ("| fishplate-wire | fishplate-contract |", "| fishplate-wire |"),
        ("| xtask | |", "| fishplate-wire | |"),
        ("tokio not in contract and wire", "tokio mostly in server"),
        ("Third parties that live", "Others that live"),
    ] {
        let page = PAGE.replace(from, to);
        assert_ne!(page, PAGE, "{from}");
        assert!(Rules::parse(&page).is_err(), "{to}");
    }
}

#[test]
fn the_real_page_has_rules_for_this_crate() {
    let page = std::fs::read_to_string(crate::root::workspace().join("ARCHITECTURE.md")).unwrap();
    let rules = Rules::parse(&page).unwrap();
    assert!(rules.may_see["fishplate-contract"].is_empty());
    assert!(rules.third_parties.iter().any(|rule| rule.name() == "anyhow"));
}

#[test]
fn each_dependency_has_its_reason_in_a_row_of_its_own() {
    let graph = Graph::of(&metadata(&good())).unwrap();
    let page =
        "| crate | what for | dropped |\n|---|---|---|\n| hyper, hyper-util | HTTP | anyhow |\n";
    let missing = |page: &str| -> Vec<String> {
        let lines = without_reason(page, &graph);
        lines.iter().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
    };
    let all = missing("");
    assert!(all.contains(&"hyper".to_owned()) && all.contains(&"anyhow".to_owned()), "{all:?}");
    let left = missing(page);
    assert!(!left.contains(&"hyper".to_owned()) && left.contains(&"anyhow".to_owned()), "{left:?}");
    assert!(!missing("For tests: anyhow.").contains(&"anyhow".to_owned()));
}
