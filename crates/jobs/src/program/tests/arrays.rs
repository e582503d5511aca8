//! Arrays from a call to the program's files, and from its files to the results.

use fishplate_contract::{Array, ElementType};

use super::*;
use crate::executor::{ArrayBytes, Collected, OutputContent, ProgramExit};
use crate::workspace;

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn array(name: &str, shape: &[u64], data: impl Into<Payload>) -> Argument {
    let array = Array { element: ElementType::Float, shape: shape.to_vec(), data: data.into() };
    Argument::new(name, Value::Array(array))
}

fn matrix() -> Argument {
    array("m", &[2, 2], Bytes::from(bytes(&[1.0, 2.5, -3.0, 0.1])))
}

#[test]
fn a_small_array_stands_in_the_plan_as_the_program_reads_it() {
    let npy = {
        let mut file =
            fishplate_formats::array_file::npy::NpyHeader::print(ElementType::Float, &[2, 2]);
        file.extend(bytes(&[1.0, 2.5, -3.0, 0.1]));
        file
    };
    let big: Vec<u8> =
        [1.0_f32, 2.5, -3.0, 0.1].iter().flat_map(|number| number.to_be_bytes()).collect();
    for (format, content) in [
        ("", InputContent::Text("1.0 2.5\n-3.0 0.1\n".to_owned())),
        ("delimiter = ','", InputContent::Text("1.0,2.5\n-3.0,0.1\n".to_owned())),
        ("format = 'raw'", InputContent::Bytes(bytes(&[1.0, 2.5, -3.0, 0.1]))),
        ("format = 'raw'\norder = 'fortran'", InputContent::Bytes(bytes(&[1.0, -3.0, 2.5, 0.1]))),
        ("format = 'raw'\nbyte_order = 'big'", InputContent::Bytes(big)),
        ("format = 'npy'", InputContent::Bytes(npy)),
    ] {
        let service = fixture(&format!(
            "command = './p < [in file m:float[][]]'\n[input.m]\nfilename = 'm.in'\n{format}"
        ));
        let plan = service.plan(&[matrix()]).unwrap();
        assert_eq!(plan.stdin.as_deref(), Some("m.in"));
        assert_eq!(plan.inputs, [InputFile { path: "m.in".to_owned(), content }], "{format}");
    }
}

#[test]
fn a_large_array_is_placed_and_not_kept_in_the_plan() {
    let pieces = || Payload::Pieces(vec![Bytes::from(vec![0; 50_000]); 4].into());
    let large = || array("m", &[50, 1000], pieces());
    for (format, is_moved) in [("", false), ("format = 'npy'", false), ("format = 'raw'", true)] {
        let service =
            fixture(&format!("command = './p [in file m:float[][]]'\n[input.m]\n{format}"));
        let (plan, placements) = service.program.plan("call", vec![large()]).unwrap();
        assert_eq!(plan.inputs[0].content, InputContent::InPlace);
        let as_it_is = matches!(placements[0].content, PlacedInput::Bytes(Payload::Pieces(_)));
        assert_eq!((placements[0].path.as_str(), as_it_is), ("m", is_moved), "{format}");
    }
    let service = fixture("command = './p [in file m:raw]'");
    let data = Argument::new("m", Value::Data(pieces()));
    let (plan, placements) = service.program.plan("call", vec![data]).unwrap();
    assert_eq!(plan.inputs[0].content, InputContent::InPlace);
    assert!(
        matches!(&placements[0].content, PlacedInput::Bytes(data) if data.len() == Some(200_000))
    );
}

#[test]
fn an_array_that_does_not_fit_is_a_fault_of_the_call() {
    let service = fixture(
        "command = './p [in file m:float[n,k]] [in file v:float[k,3]] [in val n:int]'\n\
         [input.v]\noptional = true",
    );
    let n = |text| Argument::text("n", text);
    let of = |shape: &[u64], len| array("m", shape, Bytes::from(vec![0; len]));
    let v = |shape: &[u64], len| array("v", shape, Bytes::from(vec![0; len]));
    assert_eq!(
        service.fault(&[of(&[2, 2], 16), n("3")]),
        "InvalidValue \"m\" parameter m has the shape 2 x 2, but its axis 1, n, must be 3 long, \
         as parameter n says (float[n,k])"
    );
    assert_eq!(
        service.fault(&[of(&[2, 2], 16), n("2"), v(&[5, 3], 60)]),
        "InvalidValue \"v\" parameter v has the shape 5 x 3, but its axis 1, k, must be 2 long, \
         as axis 2 of parameter m says (float[k,3])"
    );
    assert_eq!(
        service.fault(&[of(&[2, 2], 16), n("2"), v(&[2, 4], 32)]),
        "InvalidValue \"v\" parameter v has the shape 2 x 4, and its axis 2 must be 3 long \
         (float[k,3])"
    );
    assert_eq!(
        service.fault(&[of(&[4], 16), n("4")]),
        "InvalidValue \"m\" parameter m has 1 dimension (4), and float[n,k] has 2"
    );
    assert_eq!(
        service.fault(&[of(&[2, 2], 15), n("2")]),
        "InvalidValue \"m\" parameter m has 15 bytes, not those of 2 x 2 float"
    );
    assert_eq!(
        service.fault(&[of(&[2, 2], 16), n("-2")]),
        "InvalidValue \"n\" parameter n is the length of an axis (float[n,k]): -2 is none"
    );
    assert_eq!(
        service.fault(&[Argument::text("m", "1 2"), n("2")]),
        "InvalidValue \"m\" parameter m is of type float[n,k]: send an array of numbers"
    );
    let doubles = Array {
        element: ElementType::Double,
        shape: vec![1, 1],
        data: Payload::Inline(Bytes::from_static(&[0; 8])),
    };
    assert_eq!(
        service.fault(&[Argument::new("m", Value::Array(doubles)), n("1")]),
        "InvalidValue \"m\" parameter m is of type float[n,k], not an array of double"
    );
    let elsewhere = Payload::Reference(DataRef::new("http://x.example/m"));
    assert_eq!(
        service.fault(&[array("m", &[2, 2], elsewhere), n("3")]),
        "InvalidValue \"m\" parameter m has the shape 2 x 2, but its axis 1, n, must be 3 long, as \
         parameter n says (float[n,k])"
    );
}

/// What is collected after a call of `[in val n:int]`, from a program that wrote these files.
fn collected(outputs: &str, n: &str, files: &[(&str, &[u8])]) -> (Collected, TempDir) {
    let service = fixture(&format!("command = './p [in val n:int]'\n{outputs}"));
    let plan = service.plan(&texts(&[("n", n)])).unwrap();
    let mut plan: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
    // An array is no value in its sense.
    plan.limits.value_size = 1;
    let directory = tempfile::tempdir().unwrap();
    workspace::prepare(&plan, directory.path()).unwrap();
    for (path, content) in files {
        std::fs::write(workspace::work(directory.path()).join(path), content).unwrap();
    }
    let ending = ProgramExit { exit_code: Some(0), ..ProgramExit::default() };
    (workspace::collect(&plan, directory.path(), &ending), directory)
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
        assert!(std::fs::read(directory.path().join(path)).unwrap() == raw);
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
    let service = fixture("command = './p'\n[output.g]\npath = 'g'\ntype = 'int[]'\n");
    let plan = service.plan(&[]).unwrap();
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    workspace::prepare(&plan, directory.path()).unwrap();
    std::fs::write(workspace::work(directory.path()).join("g"), "1 ".repeat(10_000)).unwrap();
    std::fs::write(elsewhere.path().join("1"), "theirs").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), directory.path().join("arrays")).unwrap();
    let ending = ProgramExit { exit_code: Some(0), ..ProgramExit::default() };
    let collected = workspace::collect(&plan, directory.path(), &ending);
    assert_eq!(std::fs::read(elsewhere.path().join("1")).unwrap(), b"theirs");
    assert_eq!(collected.problem, None);
    assert_eq!(std::fs::metadata(directory.path().join("arrays/1")).unwrap().len(), 40_000);
}
