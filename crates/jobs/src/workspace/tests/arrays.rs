//! Arrays from a program's files to the results, as its service file says.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use fishplate_contract::Argument;
use fishplate_programs::descriptor::{SourceText, check_text};
use fishplate_programs::program::Program;

use super::*;
use crate::executor::ArrayBytes;

/// The plan of a call of the service that this text describes.
fn plan_of(text: &str, arguments: &[Argument]) -> Plan {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("p");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let source = SourceText { name: "test.toml".to_owned(), text: text.to_owned() };
    let checked = check_text(&source, directory.path());
    assert!(!checked.has_errors(), "{:#?}", checked.diagnostics);
    let environments = directory.path().join("environments");
    let program =
        Program::load(checked.description.unwrap(), &environments, &BTreeSet::new()).unwrap();
    program.plan("call", arguments.to_vec()).unwrap().0
}

/// What is collected after a call of `[in val n:int]`, from a program that wrote these files.
fn collected(outputs: &str, n: &str, files: &[(&str, &[u8])]) -> (Collected, TempDir) {
    let text = format!("command = './p [in val n:int]'\n{outputs}");
    let plan = plan_of(&text, &[Argument::text("n", n)]);
    let mut plan: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
    // An array is no value in its sense.
    plan.limits.value_size = 1;
    let directory = tempfile::tempdir().unwrap();
    prepare(&plan, directory.path()).unwrap();
    for (path, content) in files {
        fs::write(work(directory.path()).join(path), content).unwrap();
    }
    (collect(&plan, directory.path(), &success()), directory)
}

fn problem(outputs: &str, n: &str, files: &[(&str, &[u8])]) -> String {
    let (name, problem) = collected(outputs, n, files).0.problem.expect("a problem");
    format!("{name}: {problem}")
}

const GRID: &str = "[output.g]\npath = 'g.txt'\ntype = 'double[n,m]'\n\
                    [output.r]\npath = 'r.bin'\ntype = 'int[m]'\nformat = 'raw'\n";

#[test]
fn arrays_are_collected_with_their_shapes() {
    let files: [(&str, &[u8]); 2] = [("g.txt", b"1 2 3\n4 5 6.5D0\n"), ("r.bin", &[1; 12])];
    let (collected, _directory) = collected(GRID, "2", &files);
    assert_eq!(collected.problem, None);
    let numbers: Vec<u8> =
        [1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.5].iter().flat_map(|it| it.to_le_bytes()).collect();
    let array = |element: &str, shape: &[u64], bytes| OutputContent::Array {
        element: element.to_owned(),
        shape: shape.to_vec(),
        bytes,
    };
    let contents: Vec<_> = collected.outputs.into_iter().map(|output| output.content).collect();
    let expected = [
        array("double", &[2, 3], ArrayBytes::Inline(numbers)),
        array("int", &[3], ArrayBytes::Inline(vec![1; 12])),
    ];
    assert_eq!(contents, expected);
}

#[test]
fn large_arrays_are_left_in_files_or_converted_once() {
    let outputs = "[output.t]\nglob = '*.txt'\ntype = 'int[,4]'\n\
                   [output.r]\npath = 'r.bin'\ntype = 'int[,4]'\nformat = 'raw'\n";
    let text = "1 2 3 4\n".repeat(2000);
    let raw: Vec<u8> =
        [1_i32, 2, 3, 4].repeat(2000).iter().flat_map(|it| it.to_le_bytes()).collect();
    let files: [(&str, &[u8]); 3] =
        [("a.txt", text.as_bytes()), ("b.txt", text.as_bytes()), ("r.bin", &raw)];
    let (collected, directory) = collected(outputs, "1", &files);
    assert_eq!(collected.problem, None);
    let mut found = Vec::new();
    for output in &collected.outputs {
        let OutputContent::Array { element, shape, bytes } = &output.content else { panic!() };
        assert_eq!((element.as_str(), shape.as_slice()), ("int", &[2000, 4][..]));
        let ArrayBytes::File { path, len } = bytes else { panic!("it is too large for a record") };
        assert_eq!(*len, 32_000);
        assert!(fs::read(directory.path().join(path)).unwrap() == raw);
        found.push((output.label.as_deref().unwrap_or(""), path.as_str()));
    }
    assert_eq!(found, [("a.txt", "arrays/1"), ("b.txt", "arrays/2"), ("", "work/r.bin")]);
    assert!(collected.disk >= 3 * 32_000 + 2 * text.len() as u64, "{}", collected.disk);
}

#[test]
fn an_output_that_is_no_array_or_has_another_shape_is_told_with_its_place() {
    let raw = ("r.bin", &[0; 12][..]);
    for (n, grid, expected) in [
        ("2", "1 2 3\n4 5 x\n", "g: g.txt, line 2, column 5: \"x\" is not a number"),
        ("2", "1 2 3\n4 5\n", "g: g.txt, line 2, column 4: row 2 has 2 numbers, and row 1 has 3"),
        (
            "3",
            "1 2 3\n4 5 6\n",
            "g: output g (g.txt) has the shape 2 x 3, but its axis 1, n, must be 3 long, as \
             parameter n says (double[n,m])",
        ),
        ("1", "1 2 3 4\n", "r: r.bin: the file has 12 bytes, and 4 int have 16"),
        ("0", "", "r: r.bin: the file has 12 bytes, and 0 int have 0"),
    ] {
        assert_eq!(problem(GRID, n, &[("g.txt", grid.as_bytes()), raw]), expected, "{grid}");
    }
    let text = "[output.g]\npath = 'g'\ntype = 'double[n,m]'\n\
                [output.h]\npath = 'h'\ntype = 'double[m]'\n";
    assert_eq!(
        problem(text, "1", &[("g", b"1 2 3"), ("h", b"1 2")]),
        "h: output h (h) has the shape 2, but its axis 1, m, must be 3 long, as axis 2 of output g \
         (g) says (double[m])"
    );
    assert_eq!(problem(text, "1", &[("h", b"1 2")]), "g: the program did not write g");
}

#[test]
fn a_link_that_a_program_left_leads_nowhere() {
    let plan = plan_of("command = './p'\n[output.g]\npath = 'g'\ntype = 'int[]'\n", &[]);
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    prepare(&plan, directory.path()).unwrap();
    fs::write(work(directory.path()).join("g"), "1 ".repeat(10_000)).unwrap();
    fs::write(elsewhere.path().join("1"), "theirs").unwrap();
    symlink(elsewhere.path(), directory.path().join("arrays")).unwrap();
    let collected = collect(&plan, directory.path(), &success());
    assert_eq!(fs::read(elsewhere.path().join("1")).unwrap(), b"theirs");
    assert_eq!(collected.problem, None);
    assert_eq!(fs::metadata(directory.path().join("arrays/1")).unwrap().len(), 40_000);
}
