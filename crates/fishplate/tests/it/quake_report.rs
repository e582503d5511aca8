//! Runs of QUAKE that were recorded: reported and compared.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const EXPERIMENT: &str = r#"
name = "recorded"
[system]
name = "Recorded {heap}"
url = "http://127.0.0.1:{port}/"
process.server = { start = ["true"] }
[matrix]
heap = ["64m"]
[workload]
clients = 1
requests = 1000
[[operation]]
name = "add"
"#;

/// A run of 20 seconds with so many right answers in each.
fn recorded(directory: &Path, right: u32) {
    let cell = directory.join("cells/heap=64m/1");
    fs::create_dir_all(&cell).unwrap();
    fs::write(directory.join("experiment.toml"), EXPERIMENT).unwrap();
    let of = |right: u32| {
        format!(
            r#"{{"right":{right},"late":0,"wrong":0,"error":0,"refused":0,"unreachable":0,"broken":0,"unanswered":0}}"#
        )
    };
    let load = |second: u32| {
        let outcomes = of(right);
        format!(
            r#"{{"agent":0,"second":{second},"begun":{right},"held_back":0,"outcomes":{outcomes},"operations":{{}},
               "latency":"","service":"","bytes":[0,0],"lag":10,"processor":100,"memory":1000,"said":[]}}"#
        )
        .replace('\n', "")
            + "\n"
    };
    let system = |second: u32| {
        let sample = r#"{"pid":7,"memory":50000000,"threads":3,"descriptors":9,"processor":10}"#;
        format!(
            r#"{{"second":{second},"processes":{{"server":{sample}}},"connections":1,"memory_available":1,"disk_free":1,
               "processor":0.1,"probe":{{"Ok":5}},"watching":1}}"#
        )
        .replace('\n', "")
            + "\n"
    };
    fs::write(cell.join("cell.json"), r#"{"values":{"heap":"64m"},"repetition":1}"#).unwrap();
    fs::write(cell.join("load.jsonl"), (0..20).map(load).collect::<String>()).unwrap();
    fs::write(cell.join("system.jsonl"), (0..20).map(system).collect::<String>()).unwrap();
    fs::write(cell.join("events.jsonl"), "").unwrap();
    let outcome = format!(
        r#"{{"ended":"done","seconds":20.0,"outcomes":{},"baseline":{right}.0,"audit":null,"environment":{{}},"clocks":[]}}"#,
        of(20 * right)
    );
    fs::write(cell.join("outcome.json"), outcome).unwrap();
}

fn quake(words: &[&str], at: &Path) -> (Option<i32>, String, String) {
    let binary = env!("CARGO_BIN_EXE_fishplate");
    let Output { status, stdout, stderr } =
        Command::new(binary).arg("quake").args(words).current_dir(at).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_recorded_run_is_reported_and_is_one_line_a_system() {
    let directory = TempDir::new().unwrap();
    recorded(&directory.path().join("run"), 50);
    let (code, lines, error) = quake(&["report", "run"], directory.path());
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(lines, "Recorded 64m: flat over 1,000 requests\nreport: run/report.html\n");
    let page = fs::read_to_string(directory.path().join("run/report.html")).unwrap();
    assert!(page.contains("Recorded 64m: flat over 1,000 requests"), "{page}");
    let (_, json, _) = quake(&["report", "run", "--json"], directory.path());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["systems"][0]["kind"], "flat", "{json}");
    let (code, _, error) = quake(&["report", "none"], directory.path());
    assert!(code == Some(2) && error.contains("none holds no run"), "{code:?} {error}");
}

#[test]
fn a_build_fails_by_a_condition_and_not_without_one() {
    let directory = TempDir::new().unwrap();
    let at = directory.path();
    recorded(&at.join("before"), 50);
    recorded(&at.join("after"), 40);
    quake(&["report", "before"], at);
    let kept = "before/results.json";
    let (code, table, _) = quake(&["compare", kept, "after"], at);
    assert!(code == Some(0) && table.contains("  goodput"), "{code:?} {table}");
    let (code, _, error) = quake(&["compare", kept, "after", "--fail-if", "goodput < 0.9"], at);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("failed: heap=64m: goodput is 0.8, `goodput < 0.9`"), "{error}");
    let (code, ..) = quake(&["compare", kept, "after", "--fail-if", "goodput < 0.7"], at);
    assert_eq!(code, Some(0));
    let (code, _, error) = quake(&["compare", kept, "after", "--fail-if", "p99 > 2"], at);
    assert!(code == Some(1) && error.contains("was not measured"), "{error}");
    let (code, _, error) = quake(&["compare", kept, "after", "--fail-if", "speed > 2"], at);
    assert!(code == Some(2) && error.contains("figures are goodput,"), "{error}");
}
