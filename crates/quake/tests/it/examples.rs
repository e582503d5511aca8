//! The experiments that come with the project are ones, and the guide shows them as they are.

use std::path::{Path, PathBuf};

use fishplate_quake::experiment::{Experiment, Limits};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_experiment_of_the_project_can_be_run() {
    let mut read = 0;
    for folder in ["examples/quake", "benches/quake"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("it is there") {
            let path = entry.expect("it can be read").path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if path.extension().is_some_and(|of| of == "toml") && text.contains("[system]") {
                let experiment = Experiment::read(&path).expect("it is an experiment");
                for cell in experiment.cells() {
                    experiment.of_cell(&cell).expect("each cell is one");
                }
                read += 1;
            }
        }
    }
    assert!(read >= 20, "{read} were found");
}

#[test]
fn the_guide_shows_an_experiment_as_it_is() {
    let guide = std::fs::read_to_string(root().join("docs/guides/quake.md")).expect("the guide");
    let (_, shown) =
        guide.split_once("<!-- examples/quake/cxf.toml -->\n```toml\n").expect("shown");
    let (shown, _) = shown.split_once("```").expect("a block ends");
    let file = std::fs::read_to_string(root().join("examples/quake/cxf.toml")).expect("the file");
    assert!(file.ends_with(shown), "the guide shows another cxf.toml than there is");
}

#[test]
fn the_guide_tells_each_limit_with_its_default() {
    let guide = std::fs::read_to_string(root().join("docs/guides/quake.md")).expect("the guide");
    let (_, told) =
        guide.split_once("| key | default | bounds |\n|---|---|---|\n").expect("a table");
    let (told, _) = told.split_once("\n\n").expect("it ends");
    let rows = told.lines().map(|row| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let name = cells.next().expect("a name").trim_matches('`');
        // `10 min` is told, `10m` is written.
        let default = cells.next().expect("a default").replace("in", "");
        match default.parse::<u64>() {
            Ok(number) => format!("{name} = {number}\n"),
            Err(_) => format!("{name} = '{}'\n", default.replace(' ', "")),
        }
    });
    let text: String = rows.collect();
    let limits = Limits::default();
    assert_eq!(toml::from_str::<Limits>(&text).expect(&text), limits);
    let all = serde_json::to_value(&limits).expect("it is JSON");
    let names = all.as_object().expect("a table").keys();
    assert_eq!(names.filter(|name| !text.contains(&format!("{name} = "))).count(), 0, "{text}");
}
